#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/clock.h"
#include "inventory/base/json.h"
#include "inventory/base/map.h"
#include "inventory/base/str.h"
#include "provision/place_impl.h"
#include "provision/power.h"

double rk_placer_kw(const struct rk_placer *p, int rack)
{
	return p->size->tray_kw > 0 ? p->size->tray_kw : p->site->profiles[p->site->racks[rack].profile].tray_kw;
}

/* ---- one tray ------------------------------------------------------------------------------------------------------------------- */

static int tray_fabric(const struct rk_site *site, const struct rk_tray *t)
{
	return site->n_fabrics && t->n_hcas ? site->hcas[t->first_hca].fabric : RK_NONE;
}

/* Every rail the size needs, once, on the fabric of the rack. */
static bool rail_complete(const struct rk_placer *p, const struct rk_tray *t, int fabric)
{
	unsigned rails = 0;

	for (int h = t->first_hca; h < t->first_hca + t->n_hcas; h++) {
		const struct rk_hca *hca = &p->site->hcas[h];
		if (p->site->n_fabrics && hca->fabric != fabric)
			return false;
		rails |= 1u << hca->rail;
	}
	return __builtin_popcount(rails) >= p->size->hcas && t->n_gpus >= p->size->gpus;
}

/* What a tray runs where the site expects something else: "driver 570.1 (580.2 expected)", or NULL. What was never read is no reason. */
static const char *outdated(struct rk_placer *p, const struct rk_tray *t)
{
	RK_CLEANUP_JSON struct rk_json *seen = NULL;

	if (!p->n_baseline || !t->versions)
		return NULL;
	if (rk_streq(p->last_versions, t->versions))
		return p->last_outdated;
	p->last_versions = t->versions;
	p->last_outdated = NULL;
	if (rk_json_parse("versions", t->versions, strlen(t->versions), &seen, NULL))
		return NULL;
	for (size_t i = 0; i < p->n_baseline && !p->last_outdated; i++) {
		const struct rk_baseline *b = &p->baseline[i];
		const char *have = rk_jstr(rk_jget(rk_json_root(seen), b->key));
		if (have && strcmp(have, b->value) != 0)
			p->last_outdated = rk_arena_printf(p->arena, "%s %s (%s expected)", b->key, have, b->value);
	}
	return p->last_outdated;
}

/* What the site, or this rack instead, expects its trays to run. */
static void read_baseline(struct rk_placer *p, const struct rk_rack *rack)
{
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	const char *text = rack->versions ? rack->versions : p->site->versions;

	if (rk_streq(text, p->baseline_text))
		return;
	p->baseline_text = text;
	p->last_versions = NULL;
	p->n_baseline = 0;
	if (!text || rk_json_parse("versions", text, strlen(text), &json, NULL))
		return;
	p->baseline = rk_arena_array(p->arena, rk_json_root(json)->n + 1, sizeof(*p->baseline));
	RK_JEACH(it, rk_json_root(json))
		if (rk_jstr(it))
			p->baseline[p->n_baseline++] = (struct rk_baseline){ rk_arena_strdup(p->arena, it->key), rk_arena_strdup(p->arena, rk_jstr(it)) };
}

/* A tray that is free but for a cordon counts as free when cordons are lifted. */
static bool lifted(const struct rk_placer *p, int rack)
{
	return (p->lift & RK_LIFT_CORDONS) && (!p->lift_racks || p->lift_racks[rack]);
}

static bool tray_fits(struct rk_placer *p, int tray, struct rk_verdict *v)
{
	const struct rk_tray *t = &p->site->trays[tray];
	enum rk_tray_state state = rk_tray_state(p->site, tray);
	int *counts[] = {
		[RK_TRAY_ALLOCATED] = &v->allocated, [RK_TRAY_CORDONED] = &v->cordoned, [RK_TRAY_FAULTY] = t->leak ? &v->leaking : &v->faulty,
		[RK_TRAY_OFFLINE] = &v->offline,
	};

	if (state != RK_TRAY_FREE && state != RK_TRAY_SPARE && !(state == RK_TRAY_CORDONED && lifted(p, t->rack))) {
		++*counts[state];
		return false;
	}
	if (!rail_complete(p, t, tray_fabric(p->site, &p->site->trays[p->site->racks[t->rack].first_tray]))) {
		v->incomplete++;
		return false;
	}
	const char *version = outdated(p, t);
	if (version) {
		v->outdated++;
		v->version = v->version ? v->version : version;
	}
	return !version;
}

/* ---- one rack ------------------------------------------------------------------------------------------------------------------- */

static const char *size_refusal(const struct rk_placer *p, const struct rk_profile *profile)
{
	const struct {
		long need, have;
		const char *what;
	} rows[] = {
		{ p->size->vcpus, profile->cpus_per_tray, "CPUs" },
		{ (long)p->size->memory_mib, (long)profile->memory_mib, "MiB of memory" },
		{ p->size->gpus, profile->gpus_per_tray, "GPUs" },
		{ p->size->hcas, profile->hcas_per_tray, "HCA ports" },
		{ p->size->nvme, profile->nvme_per_tray, "NVMe drives" },
	};

	if (p->size->profile && !rk_streq(p->size->profile, profile->name))
		return rk_arena_printf(p->arena, "its profile is %s, the size is made for %s", profile->name, p->size->profile);
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++)
		if (rows[i].need > rows[i].have)
			return rk_arena_printf(p->arena, "its trays have %ld %s, the size needs %ld", rows[i].have, rows[i].what, rows[i].need);
	if (p->spec_segment > rk_place_domain(profile))
		return rk_arena_printf(p->arena, "its NVLink domains have %d tray%s, the segment needs %d", rk_place_domain(profile),
				       rk_place_domain(profile) == 1 ? "" : "s", p->spec_segment);
	return NULL;
}

static const char *leak_refusal(const struct rk_placer *p, const struct rk_rack *rack)
{
	const char **names = rk_arena_array(p->arena, (size_t)rack->n_trays + 1, sizeof(*names));
	size_t n = 0;

	if (rk_rack_leaks(p->site, (int)(rack - p->site->racks)) < RK_LEAK_ALARM_TRAYS)
		return NULL;
	for (int t = rack->first_tray; t < rack->first_tray + rack->n_trays; t++)
		if (p->site->trays[t].leak)
			names[n++] = p->site->trays[t].name;
	return rk_arena_printf(p->arena, "leak alarm: %zu trays leak (%s)", n, rk_nodeset_fold(p->arena, names, n));
}

static const char *holder_refusal(const struct rk_placer *p, int rack)
{
	char until[32];

	if (p->holder[rack] == RK_NONE)
		return NULL;
	const struct rk_reservation *r = &p->site->reservations[p->holder[rack]];
	return rk_arena_printf(p->arena, "reserved for tenant %s until %s (reservation %lld)", p->site->tenants[r->tenant].name,
			       rk_time_iso(r->to_unix_ms, until), (long long)r->id);
}

static const char *apart_refusal(const struct rk_placer *p, int rack)
{
	if (p->apart[rack] == RK_NONE || (p->lift & RK_LIFT_APART))
		return NULL;
	return rk_arena_printf(p->arena, "cluster %s is there, which is kept apart from this one", p->site->clusters[p->apart[rack]].name);
}

static const char *barrier(const struct rk_placer *p, int index)
{
	const struct rk_rack *rack = &p->site->racks[index];
	const char *why;

	if (!p->asked[index] && !(p->lift & RK_LIFT_RACKS))
		return rk_arena_printf(p->arena, "not in the racks asked for (%s)", p->spec->placement.racks);
	why = size_refusal(p, &p->site->profiles[rack->profile]);
	if (!why && rack->cordon && !lifted(p, index))
		why = rk_arena_printf(p->arena, "cordoned: %s", rack->cordon);
	if (!why)
		why = leak_refusal(p, rack);
	if (!why)
		why = holder_refusal(p, index);
	return why ? why : apart_refusal(p, index);
}

static int spares_of(const struct rk_placer *p, int rack)
{
	int spares = rk_rack_spares(p->site, rack);

	if (p->lift & RK_LIFT_SPARES)
		return 0;
	return spares > p->spec->placement.spares_per_rack ? spares : p->spec->placement.spares_per_rack;
}

static void weigh_power(const struct rk_placer *p, int index, struct rk_verdict *v)
{
	v->kw_vm = rk_placer_kw(p, index);
	v->kw_used = rk_power_committed(p->site, index);
	v->kw_budget = rk_power_budget(p->site, index, &v->budget);
	v->by_power = v->kw_vm > 0 ? (int)floor((v->kw_budget - v->kw_used) / v->kw_vm + 1e-9) : RK_UNLIMITED;
	if (v->by_power < 0)
		v->by_power = 0;
}

static void weigh(struct rk_placer *p, int index, struct rk_verdict *v, struct rk_seat *seat)
{
	const struct rk_rack *rack = &p->site->racks[index];
	int spares = spares_of(p, index), usable = 0;

	read_baseline(p, rack);
	*v = (struct rk_verdict){ .barrier = barrier(p, index) };
	for (int t = rack->first_tray; t < rack->first_tray + rack->n_trays; t++)
		usable += p->fits[t] = tray_fits(p, t, v);
	v->spares = spares < usable ? spares : usable;
	v->free = usable - v->spares;
	weigh_power(p, index, v);
	seat->rack = index;
	seat->room = v->barrier ? 0 : v->free < v->by_power ? v->free : v->by_power;
	seat->group = p->group[index];
	seat->fabric = rack->n_trays ? tray_fabric(p->site, &p->site->trays[rack->first_tray]) : RK_NONE;
	seat->kept = p->mine[index];
}

/* Racks whose first known port is on the same leaf share a group. */
static void find_groups(struct rk_placer *p)
{
	struct rk_map *leaves RK_CLEANUP_MAP = rk_map_new();
	const struct rk_site *site = p->site;

	p->group = rk_arena_array(p->arena, site->n_racks + 1, sizeof(*p->group));
	for (size_t r = 0; r < site->n_racks; r++) {
		const struct rk_rack *rack = &site->racks[r];
		const struct rk_tray *t = &site->trays[rack->first_tray];
		const char *leaf = rack->n_trays && t->n_hcas ? site->hcas[t->first_hca].leaf : NULL;
		size_t at = r;
		p->group[r] = !leaf ? RK_NONE : rk_map_add(leaves, leaf, r, &at) ? (int)r : (int)at;
	}
}

/* What does not change when rules are lifted. */
static void prepare(struct rk_placer *p)
{
	size_t n = p->site->n_racks;

	p->choice.arena = p->arena;
	p->choice.n = n;
	p->choice.seats = rk_arena_array(p->arena, n + 1, sizeof(*p->choice.seats));
	p->verdicts = rk_arena_array(p->arena, n + 1, sizeof(*p->verdicts));
	p->fits = rk_arena_array(p->arena, p->site->n_trays + 1, sizeof(*p->fits));
	find_groups(p);
	rk_placer_apart(p);
}

void rk_placer_weigh(struct rk_placer *p)
{
	struct rk_choice *c = &p->choice;
	int held = 0;

	if (!p->verdicts)
		prepare(p);
	rk_placer_reservations(p);
	for (size_t r = 0; r < c->n; r++) {
		c->seats[r] = (struct rk_seat){ .held = 0 };
		weigh(p, (int)r, &p->verdicts[r], &c->seats[r]);
	}
	for (size_t i = 0; i < p->n_keep; i++)
		held += !c->seats[p->site->trays[p->keep[i]].rack].held++;
	int limit = p->spec->placement.max_racks;
	c->opened = 0;
	c->max_new = !limit || (p->lift & RK_LIFT_MAX_RACKS) ? RK_UNLIMITED : limit > held ? limit - held : 0;
	c->fabric = p->n_keep ? tray_fabric(p->site, &p->site->trays[p->keep[0]]) : RK_NONE;
}
