#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/clock.h"
#include "inventory/base/map.h"
#include "inventory/base/str.h"
#include "provision/place_impl.h"
#include "provision/power.h"

double rk_placer_kw(const struct rk_placer *p, int rack)
{
	return p->size->tray_kw > 0 ? p->size->tray_kw : p->site->profiles[p->site->racks[rack].profile].tray_kw;
}

/* ---- one tray ------------------------------------------------------------------------------------------------------------------- */

/* The cordons that count: none that is lifted. */
static bool rack_cordoned(const struct rk_placer *p, int rack)
{
	return p->site->racks[rack].cordon && !(p->lift_cordons && p->lift_cordons[p->site->n_trays + (size_t)rack]);
}

static bool tray_cordoned(const struct rk_placer *p, int tray)
{
	return p->site->trays[tray].cordon && !(p->lift_cordons && p->lift_cordons[tray]);
}

/* Healthy and empty, at the versions expected; `fabric` is that of its rack. Also notes whether a VM that takes all of a tray could have it. */
static bool tray_fits(struct rk_placer *p, int tray, int fabric, struct rk_verdict *v)
{
	const struct rk_tray *t = &p->site->trays[tray];
	const struct rk_profile *profile = &p->site->profiles[p->site->racks[t->rack].profile];
	enum rk_tray_state state = rk_tray_state(p->site, tray);
	int *counts[] = {
		[RK_TRAY_ALLOCATED] = &v->allocated, [RK_TRAY_CORDONED] = &v->cordoned, [RK_TRAY_FAULTY] = t->leak ? &v->leaking : &v->faulty,
		[RK_TRAY_OFFLINE] = &v->offline,
	};

	p->whole[tray] = false;
	if (state == RK_TRAY_CORDONED && !tray_cordoned(p, tray) && !rack_cordoned(p, t->rack))
		state = RK_TRAY_FREE;
	if (state != RK_TRAY_FREE && state != RK_TRAY_SPARE) {
		++*counts[state];
		return false;
	}
	const char *version = rk_tray_outdated(&p->versions, tray);
	p->whole[tray] = !version && rk_tray_complete(p->site, tray, fabric, profile->hcas_per_tray, profile->gpus_per_tray);
	if (!rk_tray_complete(p->site, tray, fabric, p->size->hcas, p->size->gpus)) {
		v->incomplete++;
		return false;
	}
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
	if (!why && rack_cordoned(p, index))
		why = rk_arena_printf(p->arena, "cordoned: %s", rack->cordon);
	if (!why)
		why = leak_refusal(p, rack);
	if (!why)
		why = holder_refusal(p, index);
	return why ? why : apart_refusal(p, index);
}

int rk_placer_own_spares(const struct rk_placer *p, int rack)
{
	return p->lift & RK_LIFT_SPARES ? 0 : rk_rack_spares(p->site, rack);
}

static int spares_of(const struct rk_placer *p, int rack)
{
	int own = rk_placer_own_spares(p, rack), asked = p->lift & RK_LIFT_SPARES ? 0 : p->spec->placement.spares_per_rack;

	return own > asked ? own : asked;
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
	int spares = spares_of(p, index), fabric = rk_rack_fabric(p->site, index), usable = 0;

	*v = (struct rk_verdict){ .barrier = barrier(p, index) };
	for (int t = rack->first_tray; t < rack->first_tray + rack->n_trays; t++) {
		usable += p->fits[t] = tray_fits(p, t, fabric, v);
		v->whole += p->whole[t];
	}
	v->spares = spares < usable ? spares : usable;
	v->free = usable - v->spares;
	weigh_power(p, index, v);
	seat->rack = index;
	seat->room = v->barrier ? 0 : v->free < v->by_power ? v->free : v->by_power;
	seat->group = p->group[index];
	seat->fabric = fabric;
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
	p->whole = rk_arena_array(p->arena, p->site->n_trays + 1, sizeof(*p->whole));
	p->versions = (struct rk_versions){ .site = p->site, .arena = p->arena };
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
	rk_placer_pool(p);
	for (size_t i = 0; i < p->n_keep; i++)
		held += !c->seats[p->site->trays[p->keep[i]].rack].held++;
	int limit = p->spec->placement.max_racks;
	c->opened = 0;
	c->max_new = !limit || (p->lift & RK_LIFT_MAX_RACKS) ? RK_UNLIMITED : limit > held ? limit - held : 0;
	c->fabric = p->n_keep ? rk_tray_fabric(p->site, p->keep[0]) : RK_NONE;
}

void rk_placer_weigh_again(struct rk_placer *p, bool *racks)
{
	rk_placer_reservations(p);
	for (size_t r = 0; r < p->choice.n; r++) {
		if (racks[r])
			weigh(p, (int)r, &p->verdicts[r], &p->choice.seats[r]);
		racks[r] = false;
	}
	rk_placer_pool(p);
}
