#include "provision/place.h"

#include <stdlib.h>
#include <string.h>

#include "inventory/base/str.h"
#include "provision/place_impl.h"

/* `racks` of the spec: marks which racks may be used. */
static int limit_racks(struct rk_placer *p, struct rk_err *err)
{
	const char *racks = p->spec->placement.racks;
	int *chosen, rc = 0;
	size_t n = 0;

	p->asked = rk_arena_array(p->arena, p->site->n_racks + 1, sizeof(*p->asked));
	memset(p->asked, !racks, p->site->n_racks);
	if (racks)
		rc = rk_select_racks(p->site, racks, NULL, p->arena, &chosen, &n, err);
	for (size_t i = 0; !rc && i < n; i++)
		p->asked[chosen[i]] = true;
	return rc;
}

static bool choose_in(struct rk_placer *p, int fabric, int count, int segment)
{
	p->choice.fabric = fabric;
	return rk_choose(&p->choice, count, segment, p->spec->placement.policy);
}

bool rk_placer_choose(struct rk_placer *p, int count, int segment)
{
	int best = RK_NONE, best_worth[RK_WORTH_KEYS], worth[RK_WORTH_KEYS];

	if (p->site->n_fabrics < 2 || p->n_keep)
		return choose_in(p, p->choice.fabric, count, segment);
	for (int f = 0; f < (int)p->site->n_fabrics; f++) {
		if (choose_in(p, f, count, segment)) {
			rk_choice_worth(&p->choice, p->spec->placement.policy, worth);
			if (best == RK_NONE || rk_keys_less(worth, best_worth, RK_WORTH_KEYS)) {
				best = f;
				memcpy(best_worth, worth, sizeof(best_worth));
			}
		}
		rk_choice_forget(&p->choice);
	}
	return best != RK_NONE && choose_in(p, best, count, segment);
}

bool rk_placer_fits(struct rk_placer *p, int count, int segment)
{
	int first = p->site->n_fabrics < 2 || p->n_keep ? p->choice.fabric : 0;
	int last = p->site->n_fabrics < 2 || p->n_keep ? p->choice.fabric : (int)p->site->n_fabrics - 1;
	bool fits = false;

	for (int f = first; f <= last && !fits; f++) {
		p->choice.fabric = f;
		fits = rk_choice_fits(&p->choice, count, segment);
	}
	return fits;
}

/* A tenant may hold so many VMs and PKeys: what forbids the placement, or NULL; and how many VMs may be placed in any case. */
static const char *quota(struct rk_placer *p)
{
	const struct rk_tenant *tenant = &p->site->tenants[p->tenant];
	int vms = 0, pkeys = 0;

	for (size_t v = 0; v < p->site->n_vms; v++)
		vms += p->site->clusters[p->site->vms[v].cluster].tenant == p->tenant;
	for (size_t i = 0; i < p->site->n_ib_partitions; i++)
		pkeys += p->site->clusters[p->site->ib_partitions[i].cluster].tenant == p->tenant;
	bool keyless = tenant->quota_pkeys && !p->n_keep && p->site->n_fabrics && pkeys >= tenant->quota_pkeys;
	int left = !tenant->quota_vms ? RK_UNLIMITED : tenant->quota_vms > vms ? tenant->quota_vms - vms : 0;
	p->quota_left = keyless ? 0 : left;
	if (p->count > left)
		return rk_arena_printf(p->arena, "quota: tenant %s has %d of %d VMs, %d more were asked for", tenant->name, vms, tenant->quota_vms, p->count);
	return keyless ? rk_arena_printf(p->arena, "quota: tenant %s has %d of %d PKeys", tenant->name, pkeys, tenant->quota_pkeys) : NULL;
}

/* Lowest-numbered usable trays first; spares are taken from the top, so they stay. */
static void hand_out(const struct rk_placer *p, struct rk_placement *ret)
{
	for (size_t i = 0; i < p->choice.n; i++) {
		const struct rk_seat *seat = &p->choice.seats[i];
		const struct rk_rack *rack = &p->site->racks[seat->rack];
		int left = seat->used;
		for (int t = rack->first_tray; left > 0 && t < rack->first_tray + rack->n_trays; t++)
			if (p->fits[t]) {
				ret->trays[ret->n_trays++] = t;
				left--;
			}
		ret->kw_added += seat->used * rk_placer_kw(p, seat->rack);
	}
}

/* What the racks have room for once the trays are given away. */
static void remains(const struct rk_placer *p, struct rk_placement *ret)
{
	int *room = rk_arena_array(p->arena, p->choice.n + 1, sizeof(*room)), *taken = rk_arena_array(p->arena, p->choice.n + 1, sizeof(*taken));
	struct rk_capacity_of left;

	for (size_t i = 0; i < ret->n_trays; i++)
		taken[p->site->trays[ret->trays[i]].rack] += p->whole[ret->trays[i]];
	for (int r = 0; r < (int)p->choice.n; r++) {
		int used = p->choice.seats[r].used, own = rk_rack_spares(p->site, r), asked = used ? p->spec->placement.spares_per_rack : 0;
		room[r] = rk_rack_room(p->site, r, p->verdicts[r].whole - taken[r], own > asked ? own : asked, used * rk_placer_kw(p, r));
	}
	rk_capacity_sum(p->site, room, &left);
	ret->fragmentation_after = left.fragmentation;
	memcpy(ret->segments_after, left.segments, sizeof(ret->segments_after));
}

/* Identities that were never read: partitions cannot be made of them yet. */
static const char *unread(const struct rk_placer *p, const struct rk_placement *placement)
{
	size_t gpus = 0, ports = 0;

	for (size_t i = 0; i < placement->n_trays; i++) {
		const struct rk_tray *t = &p->site->trays[placement->trays[i]];
		for (int g = 0; g < t->n_gpus; g++)
			gpus += !p->site->gpus[t->first_gpu + g].fabric_guid;
		for (int h = 0; h < t->n_hcas; h++)
			ports += !p->site->hcas[t->first_hca + h].port_guid;
	}
	if (!gpus && !ports)
		return NULL;
	return rk_arena_printf(p->arena, "%zu GPU and %zu port identities were never read", gpus, ports);
}

static int find_tenant(struct rk_placer *p, struct rk_err *err)
{
	p->tenant = rk_find_tenant(p->site, p->spec->tenant);
	if (p->tenant >= 0)
		return 0;
	rk_err_set(err, RK_NOT_FOUND, "no tenant \"%s\"", p->spec->tenant);
	rk_err_hint(err, "racksh tenant create %s", p->spec->tenant);
	return RK_NOT_FOUND;
}

/* Trays of the largest NVLink domain. */
static int largest_domain(const struct rk_site *site)
{
	int trays = 1;

	for (size_t r = 0; r < site->n_racks; r++) {
		int n = rk_place_domain(&site->profiles[site->racks[r].profile]);
		trays = n > trays ? n : trays;
	}
	return trays;
}

static int find_segment(struct rk_placer *p, int *ret, struct rk_err *err)
{
	int domain = largest_domain(p->site), segment = p->spec->placement.segment;

	*ret = segment ? segment : p->spec->count < domain ? p->spec->count : domain;
	if (*ret > domain) {
		rk_err_set(err, RK_INVALID, "a segment of %d is larger than an NVLink domain of %d tray%s", *ret, domain, domain == 1 ? "" : "s");
		rk_err_hint(err, "give \"segment\": %d, or less", domain);
		return RK_INVALID;
	}
	p->spec_segment = *ret;
	p->count = p->spec->count - (int)p->n_keep;
	p->segment = p->count < *ret ? p->count : *ret;
	return p->count > 0 ? 0 : rk_err_set(err, RK_INVALID, "the cluster has %zu VMs already, %d were asked for", p->n_keep, p->spec->count);
}

int rk_place(const struct rk_site *site, const struct rk_spec *spec, const struct rk_size *size, const int *keep, size_t n_keep,
	     struct rk_arena *arena, struct rk_placement *ret, struct rk_err *err)
{
	struct rk_placer p = { .site = site, .spec = spec, .size = size, .arena = arena, .keep = keep, .n_keep = n_keep };
	int segment = 0, rc = find_tenant(&p, err);

	if (!rc)
		rc = limit_racks(&p, err);
	if (!rc)
		rc = find_segment(&p, &segment, err);
	if (rc)
		return rc;
	*ret = (struct rk_placement){ .count = p.count, .segment = segment, .limit = quota(&p), .n_reasons = site->n_racks };
	rk_placer_weigh(&p);
	ret->feasible = !ret->limit && rk_placer_choose(&p, p.count, p.segment);
	ret->reasons = rk_arena_array(arena, site->n_racks + 1, sizeof(*ret->reasons));
	rk_placer_explain(&p, ret->feasible, ret->reasons);
	ret->trays = rk_arena_array(arena, (size_t)p.count, sizeof(*ret->trays));
	hand_out(&p, ret);
	remains(&p, ret);
	ret->warning = unread(&p, ret);
	if (!ret->feasible)
		rk_placer_suggest(&p, ret);
	return 0;
}
