#include "provision/place.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/str.h"

/* One rack as placement sees it. */
struct cand {
	int rack;
	int free;        /* healthy, unallocated, not cordoned, spares included */
	int capacity;    /* VMs that may go there: spares, power and limits taken off */
	int used;        /* VMs this placement puts there */
	bool own;        /* the cluster has VMs there already */
	const char *why; /* why not more, or NULL */
};

struct placer {
	const struct rk_site *site;
	const struct rk_spec *spec;
	const struct rk_size *size;
	struct rk_arena *arena;
	struct cand *cands;
	size_t n;
	int racks_used;
};

static bool free_tray(const struct rk_site *site, int tray)
{
	enum rk_tray_state state = rk_tray_state(site, tray);

	return state == RK_TRAY_FREE || state == RK_TRAY_SPARE;
}

static double tray_kw(const struct placer *p, const struct rk_rack *rack)
{
	return p->size->tray_kw > 0 ? p->size->tray_kw : p->site->profiles[rack->profile].tray_kw;
}

static const char *size_refusal(const struct placer *p, const struct rk_profile *profile)
{
	const struct {
		int need, have;
		const char *what;
	} rows[] = {
		{ p->size->gpus, profile->gpus_per_tray, "GPUs" },
		{ p->size->hcas, profile->hcas_per_tray, "HCA ports" },
		{ p->size->nvme, profile->nvme_per_tray, "NVMe drives" },
	};

	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++)
		if (rows[i].need > rows[i].have)
			return rk_arena_printf(p->arena, "its trays have %d %s, the size needs %d", rows[i].have, rows[i].what, rows[i].need);
	return NULL;
}

/* Somebody else's reservation of this rack now, or NULL. */
static const char *reserved_for(const struct placer *p, const struct rk_rack *rack)
{
	int tenant = rk_find_tenant(p->site, p->spec->tenant);

	for (size_t i = 0; i < p->site->n_reservations; i++) {
		const struct rk_reservation *r = &p->site->reservations[i];
		struct rk_nodeset set;
		if (r->tenant == tenant || !r->racks || rk_nodeset_parse(r->racks, NULL, NULL, p->arena, &set, NULL))
			continue;
		for (size_t n = 0; n < set.n; n++)
			if (strcmp(set.names[n], rack->name) == 0)
				return p->site->tenants[r->tenant].name;
	}
	return NULL;
}

static int count_free(const struct placer *p, const struct rk_rack *rack, int *ret_cordoned)
{
	int n = 0;

	*ret_cordoned = 0;
	for (int t = rack->first_tray; t < rack->first_tray + rack->n_trays; t++) {
		n += free_tray(p->site, t);
		*ret_cordoned += rk_tray_state(p->site, t) == RK_TRAY_CORDONED;
	}
	return n;
}

/* Fills in capacity and the reason that limits it. */
static void weigh(const struct placer *p, struct cand *c)
{
	const struct rk_rack *rack = &p->site->racks[c->rack];
	int cordoned, spares = rack->spares > p->spec->placement.spares_per_rack ? rack->spares : p->spec->placement.spares_per_rack;
	double kw = tray_kw(p, rack), used = rk_rack_kw_committed(p->site, c->rack);
	const char *tenant = reserved_for(p, rack);

	c->free = count_free(p, rack, &cordoned);
	c->why = size_refusal(p, &p->site->profiles[rack->profile]);
	if (rack->cordon)
		c->why = rk_arena_printf(p->arena, "cordoned: %s", rack->cordon);
	else if (tenant)
		c->why = rk_arena_printf(p->arena, "reserved for tenant %s", tenant);
	if (c->why)
		return;
	c->capacity = c->free > spares ? c->free - spares : 0;
	if (spares && c->free)
		c->why = rk_arena_printf(p->arena, "%d kept as spare%s", spares < c->free ? spares : c->free, spares == 1 ? "" : "s");
	else if (cordoned)
		c->why = rk_arena_printf(p->arena, "%d cordoned", cordoned);
	int power = kw > 0 ? (int)floor((rack->power_kw - used) / kw + 1e-9) : c->capacity;
	if (power < c->capacity) {
		c->capacity = power > 0 ? power : 0;
		c->why = rk_arena_printf(p->arena, "power %g of %g kW, needs %g more per VM", used, rack->power_kw, kw);
	}
}

/* `racks` of the spec: marks which racks may be used. */
static int limit_racks(struct placer *p, bool *allowed, struct rk_err *err)
{
	int *chosen;
	size_t n;

	memset(allowed, p->spec->placement.racks ? 0 : 1, p->n * sizeof(*allowed));
	if (!p->spec->placement.racks)
		return 0;
	int rc = rk_select_racks(p->site, p->spec->placement.racks, NULL, p->arena, &chosen, &n, err);
	for (size_t i = 0; !rc && i < n; i++)
		allowed[chosen[i]] = true;
	return rc;
}

static int leaf_group(const struct cand *c)
{
	return c->rack / 4;
}

/* Is a the better rack for a segment of s VMs? */
static bool better(const struct placer *p, const struct cand *a, const struct cand *b, int s, int last_group)
{
	int ra = a->capacity - a->used, rb = b->capacity - b->used;

	if (p->spec->placement.policy == RK_FIRST_FIT)
		return a->rack < b->rack;
	if (p->spec->placement.policy == RK_SPREAD)
		return ra != rb ? ra > rb : a->rack < b->rack;
	const int key_a[] = { !(a->own || a->used), ra / 16 - (ra - s) / 16, ra, leaf_group(a) != last_group, a->rack };
	const int key_b[] = { !(b->own || b->used), rb / 16 - (rb - s) / 16, rb, leaf_group(b) != last_group, b->rack };
	for (size_t i = 0; i < RK_ARRAY_SIZE(key_a); i++)
		if (key_a[i] != key_b[i])
			return key_a[i] < key_b[i];
	return false;
}

static struct cand *pick(const struct placer *p, int s, int last_group)
{
	struct cand *best = NULL;

	for (size_t i = 0; i < p->n; i++) {
		struct cand *c = &p->cands[i];
		bool is_new = !c->used && !c->own;
		if (c->capacity - c->used < s || (is_new && p->spec->placement.max_racks && p->racks_used >= p->spec->placement.max_racks))
			continue;
		if (!best || better(p, c, best, s, last_group))
			best = c;
	}
	return best;
}

static void take(struct placer *p, struct cand *c, int s)
{
	p->racks_used += !c->used && !c->own;
	c->used += s;
}

static bool place_segments(struct placer *p, int count, int segment)
{
	int last_group = -1;

	while (count > 0) {
		int s = count < segment ? count : segment;
		struct cand *c = pick(p, s, last_group);
		if (!c)
			return false;
		take(p, c, s);
		last_group = leaf_group(c);
		count -= s;
	}
	return true;
}

static int by_capacity(const void *a, const void *b)
{
	const struct cand *x = *(struct cand *const *)a, *y = *(struct cand *const *)b;

	if (x->own != y->own)
		return x->own ? -1 : 1;
	return x->capacity != y->capacity ? (x->capacity < y->capacity ? 1 : -1) : x->rack - y->rack;
}

/* With maxRacks the policy's order can paint itself into a corner. The racks with the largest capacity dominate every other choice
 * of that many racks, so this finds a placement whenever there is one. */
static bool place_largest(struct placer *p, int count, int segment)
{
	struct cand **order = rk_arena_array(p->arena, p->n, sizeof(*order));
	int limit = p->spec->placement.max_racks ? p->spec->placement.max_racks : (int)p->n;

	for (size_t i = 0; i < p->n; i++)
		order[i] = &p->cands[i];
	qsort(order, p->n, sizeof(*order), by_capacity);
	for (size_t i = 0; i < p->n && (int)i < limit; i++)
		while (count >= segment && order[i]->capacity - order[i]->used >= segment) {
			take(p, order[i], segment);
			count -= segment;
		}
	for (size_t i = 0; count > 0 && count < segment && i < p->n && (int)i < limit; i++)
		if (order[i]->capacity - order[i]->used >= count) {
			take(p, order[i], count);
			count = 0;
		}
	return count == 0;
}

static void forget(struct placer *p, int racks_used)
{
	for (size_t i = 0; i < p->n; i++)
		p->cands[i].used = 0;
	p->racks_used = racks_used;
}

static bool fits(struct placer *p, int count, int segment)
{
	int before = p->racks_used;

	bool ok = place_largest(p, count, segment);
	forget(p, before);
	return ok;
}

/* The smallest change that would make it possible. */
static const char *suggest(struct placer *p, int count, int segment)
{
	int most = 0, cordoned = 0;

	for (int s = segment - 1; s > 0; s--)
		if (fits(p, count, s))
			return rk_arena_printf(p->arena, "%d VMs fit with a segment of %d", count, s);
	for (int low = 1, high = count - 1; low <= high;) {
		int mid = (low + high) / 2;
		if (fits(p, mid, mid < segment ? mid : segment)) {
			most = mid;
			low = mid + 1;
		} else {
			high = mid - 1;
		}
	}
	for (size_t t = 0; t < p->site->n_trays; t++)
		cordoned += rk_tray_state(p->site, (int)t) == RK_TRAY_CORDONED;
	if (most && cordoned)
		return rk_arena_printf(p->arena, "at most %d VMs fit; %d trays are cordoned", most, cordoned);
	if (most)
		return rk_arena_printf(p->arena, "at most %d VMs fit", most);
	return cordoned ? rk_arena_printf(p->arena, "no VM fits; %d trays are cordoned", cordoned) : "no VM of this size fits anywhere now";
}

static void explain(const struct placer *p, const struct cand *c, bool allowed, bool feasible, int segment, struct rk_place_reason *reason)
{
	const char *more = c->why ? rk_arena_printf(p->arena, ", %s", c->why) : "";

	reason->rack = c->rack;
	if (!allowed) {
		reason->verdict = "refused";
		reason->why = rk_arena_printf(p->arena, "not in the racks asked for (%s)", p->spec->placement.racks);
	} else if (feasible && c->used) {
		reason->verdict = "chosen";
		reason->why = rk_arena_printf(p->arena, "%d of %d free used, %d left%s", c->used, c->free, c->free - c->used, more);
	} else if (c->capacity < segment) {
		reason->verdict = "refused";
		reason->why = c->free >= segment && c->why ? c->why : rk_arena_printf(p->arena, "%d free, needs %d%s", c->free, segment, more);
	} else {
		reason->verdict = "possible";
		reason->why = rk_arena_printf(p->arena, "%d free%s%s", c->free, more, feasible ? ", another rack fits better" : "");
	}
}

/* Lowest-numbered trays first; spares are taken from the top, so they stay. */
static void hand_out(const struct placer *p, struct rk_placement *ret)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct cand *c = &p->cands[i];
		const struct rk_rack *rack = &p->site->racks[c->rack];
		int left = c->used;
		for (int t = rack->first_tray; left > 0 && t < rack->first_tray + rack->n_trays; t++)
			if (free_tray(p->site, t)) {
				ret->trays[ret->n_trays++] = t;
				left--;
			}
		ret->kw_added += c->used * tray_kw(p, rack);
	}
}

static double fragmentation(const struct placer *p)
{
	long all = 0, large = 0;

	for (size_t i = 0; i < p->n; i++) {
		int f = p->cands[i].free - p->cands[i].used;
		all += f;
		large += f / 16 * 16;
	}
	return all ? 1.0 - (double)large / (double)all : 0;
}

/* Identities that were never read: partitions cannot be made of them yet. */
static const char *unread(const struct placer *p, const struct rk_placement *placement)
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

static int check_input(const struct rk_site *site, const struct rk_spec *spec, int adding, struct rk_err *err)
{
	int tenant = rk_find_tenant(site, spec->tenant), held = 0;

	if (tenant < 0) {
		rk_err_set(err, RK_NOT_FOUND, "no tenant \"%s\"", spec->tenant);
		rk_err_hint(err, "racksh tenant create %s", spec->tenant);
		return RK_NOT_FOUND;
	}
	for (size_t v = 0; v < site->n_vms; v++)
		held += site->clusters[site->vms[v].cluster].tenant == tenant;
	int quota = site->tenants[tenant].quota_vms;
	if (quota && held + adding > quota)
		return rk_err_set(err, RK_NO_CAPACITY, "tenant \"%s\" has %d of %d VMs, %d more were asked for", spec->tenant, held, quota, adding);
	return 0;
}

static int gather(struct placer *p, const bool *allowed, const int *keep, size_t n_keep)
{
	int trays_per_domain = 1;

	for (size_t i = 0; i < n_keep; i++)
		p->cands[p->site->trays[keep[i]].rack].own = true;
	for (size_t i = 0; i < p->n; i++) {
		struct cand *c = &p->cands[i];
		const struct rk_profile *profile = &p->site->profiles[p->site->racks[i].profile];
		c->rack = (int)i;
		weigh(p, c);
		if (!allowed[i])
			c->capacity = 0;
		p->racks_used += c->own;
		trays_per_domain = profile->trays > trays_per_domain ? profile->trays : trays_per_domain;
	}
	return trays_per_domain;
}

int rk_place(const struct rk_site *site, const struct rk_spec *spec, const struct rk_size *size, const int *keep, size_t n_keep,
	     struct rk_arena *arena, struct rk_placement *ret, struct rk_err *err)
{
	struct placer p = { .site = site, .spec = spec, .size = size, .arena = arena, .n = site->n_racks };
	bool *allowed = rk_arena_array(arena, p.n, sizeof(*allowed));
	int count = spec->count - (int)n_keep;
	int rc = check_input(site, spec, count, err);

	p.cands = rk_arena_array(arena, p.n, sizeof(*p.cands));
	if (!rc)
		rc = limit_racks(&p, allowed, err);
	if (rc)
		return rc;
	int domain = gather(&p, allowed, keep, n_keep);
	int segment = spec->placement.segment ? spec->placement.segment : (spec->count < domain ? spec->count : domain);
	if (segment > domain)
		return rk_err_set(err, RK_INVALID, "a segment of %d is larger than an NVLink domain of %d trays", segment, domain);
	int size_of_segment = count < segment ? count : segment, before = p.racks_used;
	*ret = (struct rk_placement){ .segment = segment };
	ret->feasible = place_segments(&p, count, size_of_segment);
	if (!ret->feasible) {
		forget(&p, before);
		ret->feasible = place_largest(&p, count, size_of_segment);
	}
	ret->reasons = rk_arena_array(arena, p.n, sizeof(*ret->reasons));
	ret->n_reasons = p.n;
	if (!ret->feasible)
		forget(&p, before);
	for (size_t i = 0; i < p.n; i++)
		explain(&p, &p.cands[i], allowed[i], ret->feasible, size_of_segment, &ret->reasons[i]);
	ret->fragmentation_after = fragmentation(&p);
	if (!ret->feasible) {
		ret->suggestion = suggest(&p, count, size_of_segment);
		return 0;
	}
	ret->trays = rk_arena_array(arena, (size_t)count, sizeof(*ret->trays));
	hand_out(&p, ret);
	ret->warning = unread(&p, ret);
	return 0;
}
