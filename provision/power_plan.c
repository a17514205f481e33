#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/str.h"
#include "provision/power.h"

enum { WAVE = 6, SPACING_S = 20, SWITCH_S = 180 };

/* Racks with the same location: power rises in one of them at a time. */
struct row {
	const char *location;
	double kw;
	int next_s;               /* when its next step may be */
};
struct planner {
	const struct rk_site *site;
	const struct rk_power_now *now;
	struct rk_power_options options;
	struct rk_arena *arena;
	bool *chosen;             /* per tray: selected */
	struct row *rows; size_t n_rows;
	int *row;                 /* per rack */
	double *rack_kw;          /* per rack: trays that are on */
	struct rk_power_plan *plan;
	size_t cap_steps;
};

/* ---- selections ------------------------------------------------------------------------------------------------------------------------ */

/* Racks stand for all their trays. */
static int mark_trays(const struct rk_site *site, const char *selection, struct rk_arena *arena, bool *trays, bool value, struct rk_err *err)
{
	RK_CLEANUP_ERR struct rk_err first = RK_ERR_INIT;
	int *found;
	size_t n;
	int rc = rk_select_racks(site, selection, NULL, arena, &found, &n, &first);

	for (size_t i = 0; !rc && i < n; i++)
		memset(trays + site->racks[found[i]].first_tray, value, (size_t)site->racks[found[i]].n_trays);
	if (!rc)
		return 0;
	if (rc != RK_NOT_FOUND) {
		rk_err_move(err, &first);
		return rc;
	}
	rc = rk_select_trays(site, selection, NULL, arena, &found, &n, err);
	for (size_t i = 0; !rc && i < n; i++)
		trays[found[i]] = value;
	return rc;
}

static int select_trays(const struct rk_site *site, const char *selection, const char *except, struct rk_arena *arena, bool *trays, struct rk_err *err)
{
	int rc = mark_trays(site, selection, arena, trays, true, err);

	return rc || !except ? rc : mark_trays(site, except, arena, trays, false, err);
}

int rk_power_racks(const struct rk_site *site, const char *selection, const char *except, struct rk_arena *arena, bool **ret, struct rk_err *err)
{
	bool *trays = rk_arena_array(arena, site->n_trays + 1, sizeof(*trays));
	int rc = select_trays(site, selection, except, arena, trays, err);

	*ret = rk_arena_array(arena, site->n_racks + 1, sizeof(**ret));
	for (size_t t = 0; !rc && t < site->n_trays; t++)
		(*ret)[site->trays[t].rack] |= trays[t];
	return rc;
}

/* ---- what may be switched --------------------------------------------------------------------------------------------------------------- */

static bool is_on(enum rk_power_state state)
{
	return state == RK_POWER_ON || state == RK_POWER_CHANGING;
}

/* What the detectors say now, else what was kept. */
static const char *leak_of(const struct planner *p, int tray)
{
	const struct rk_bmc_reading *r = &p->now->trays[tray];

	return r->leak ? r->leak : r->leak_read ? NULL : p->site->trays[tray].leak;
}

static int leaks_in(const struct planner *p, const struct rk_rack *rack)
{
	int n = 0;

	for (int t = rack->first_tray; t < rack->first_tray + rack->n_trays; t++)
		n += leak_of(p, t) != NULL;
	return n;
}

static void refuse(struct planner *p, int rack, const char *targets, const char *why)
{
	struct rk_power_plan *plan = p->plan;

	/* One tray after another for the same reason: one line. */
	if (plan->n_refusals && plan->refusals[plan->n_refusals - 1].rack == rack && strcmp(plan->refusals[plan->n_refusals - 1].why, why) == 0) {
		struct rk_power_refusal *last = &plan->refusals[plan->n_refusals - 1];
		last->targets = rk_arena_printf(p->arena, "%s,%s", last->targets, targets);
		return;
	}
	plan->refusals[plan->n_refusals++] = (struct rk_power_refusal){ rack, targets, why };
}

/* Why a tray must not be switched on, whatever the power; NULL: it may. */
static const char *must_stay_off(const struct planner *p, int tray)
{
	const struct rk_tray *t = &p->site->trays[tray];
	const char *leak = leak_of(p, tray);

	if (leak)
		return rk_arena_printf(p->arena, "leak: %s", leak);
	if (leaks_in(p, &p->site->racks[t->rack]) >= RK_LEAK_ALARM_TRAYS)
		return "leak alarm of the rack";
	/* Without all of its switch trays the rack is no NVLink domain of full bandwidth, and a wet one must not come on. */
	for (int s = 0; s < RK_SWITCHES_MAX; s++)
		if (p->now->switches[t->rack][s].leak)
			return rk_arena_printf(p->arena, "%s-nvsw%d leaks: %s", p->site->racks[t->rack].name, s + 1, p->now->switches[t->rack][s].leak);
	return NULL;
}

static const char *must_stay_on(const struct planner *p, int tray)
{
	const struct rk_tray *t = &p->site->trays[tray];

	if (t->vm < 0 || p->options.force || p->site->vms[t->vm].state == RK_VM_STOPPED)
		return NULL;
	return rk_arena_printf(p->arena, "VM %s is on it: stop it, or --force", p->site->vms[t->vm].name);
}

/* Power and coolant of the rack: how much it may draw. Coolant that was read now wins over what was kept. */
static double budget_of(const struct planner *p, int rack, const char **ret_what)
{
	const struct rk_bmc_reading *c = &p->now->racks[rack];
	double budget = rk_power_budget(p->site, rack, ret_what);
	struct rk_cooling cooling;

	if (isnan(c->flow_lpm))
		return budget;
	*ret_what = "power";
	budget = p->site->racks[rack].power_kw;
	rk_power_cooling(p->site, rack, c->supply_c, c->flow_lpm, &cooling);
	if (isnan(cooling.kw) || cooling.kw >= budget)
		return budget;
	*ret_what = "cooling";
	return cooling.kw;
}

/* The trays of a rack that the plan switches, in order. */
static int pick_trays(struct planner *p, int index, int *trays)
{
	const struct rk_rack *rack = &p->site->racks[index];
	const char *what;
	double budget = budget_of(p, index, &what), kw = p->rack_kw[index];
	int n = 0;

	for (int t = rack->first_tray; t < rack->first_tray + rack->n_trays; t++) {
		enum rk_power_state state = p->now->trays[t].power;
		if (!p->chosen[t])
			continue;
		if (state == (p->options.on ? RK_POWER_ON : RK_POWER_OFF)) {
			p->plan->done++;
			continue;
		}
		const char *why = p->options.on ? must_stay_off(p, t) : must_stay_on(p, t);
		double more = is_on(state) ? 0 : rk_power_tray_kw(p->site, t);
		if (!why && p->options.on && kw + more > budget + 1e-9)
			why = rk_arena_printf(p->arena, "%s %g of %g kW, needs %g more", what, kw, budget, more);
		if (why) {
			refuse(p, index, p->site->trays[t].name, why);
			continue;
		}
		kw += p->options.on ? more : 0;
		trays[n++] = t;
	}
	return n;
}

/* ---- steps -------------------------------------------------------------------------------------------------------------------------------- */

static struct rk_power_step *add_step(struct planner *p, int rack, bool switches, int at_s, size_t most)
{
	struct rk_power_step *s = &p->plan->steps[p->plan->n_steps++];

	*s = (struct rk_power_step){ .at_s = at_s, .rack = rack, .on = p->options.on, .switches = switches,
				     .targets = rk_arena_array(p->arena, most + 1, sizeof(*s->targets)) };
	return s;
}

/* Switch trays that are not as wanted; 0 and no step when all are. */
static size_t add_switches(struct planner *p, int rack, int at_s)
{
	int n = p->site->profiles[p->site->racks[rack].profile].switch_trays;
	struct rk_power_step *s = add_step(p, rack, true, at_s, RK_SWITCHES_MAX);

	for (int i = 0; i < n && i < RK_SWITCHES_MAX; i++) {
		if (p->now->switches[rack][i].power == (p->options.on ? RK_POWER_ON : RK_POWER_OFF))
			p->plan->done++;
		else
			s->targets[s->n++] = (struct rk_bmc_target){ RK_NONE, rack, i + 1 };
	}
	p->plan->n_steps -= s->n == 0;
	return s->n;
}

/* Waves of a rack, from `ready` on, one after another in the rack's row; returns when the last one is over. */
static int add_waves(struct planner *p, int rack, const int *trays, int n, int ready)
{
	struct row *row = &p->rows[p->row[rack]];
	int at = ready;

	for (int i = 0; i < n; i += p->options.wave) {
		at = row->next_s > ready ? row->next_s : ready;
		struct rk_power_step *s = add_step(p, rack, false, at, (size_t)p->options.wave);
		for (int k = i; k < n && k < i + p->options.wave; k++)
			s->targets[s->n++] = (struct rk_bmc_target){ trays[k], rack, 0 };
		row->next_s = at + p->options.spacing_s;
		at = row->next_s;
	}
	return at;
}

static bool stays_on(const struct planner *p, int rack, const int *trays, int n)
{
	const struct rk_rack *r = &p->site->racks[rack];

	for (int t = r->first_tray, k = 0; t < r->first_tray + r->n_trays; t++) {
		if (k < n && trays[k] == t)
			k++;
		else if (p->now->trays[t].power != RK_POWER_OFF)
			return true;
	}
	return false;
}

static void plan_on(struct planner *p, int rack, const int *trays, int n, int *switch_at)
{
	if (!n)
		return;
	size_t switches = add_switches(p, rack, *switch_at);
	add_waves(p, rack, trays, n, switches ? *switch_at + p->options.switch_s : *switch_at);
	*switch_at += switches ? p->options.spacing_s : 0;
}

/* Switch trays go only when no compute tray is left that needs them. */
static void plan_off(struct planner *p, int rack, const int *trays, int n)
{
	const struct rk_rack *r = &p->site->racks[rack];
	bool whole = true;
	int at = add_waves(p, rack, trays, n, 0);

	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++)
		whole &= p->chosen[t];
	if (whole && !stays_on(p, rack, trays, n))
		add_switches(p, rack, n ? at - p->options.spacing_s + p->options.switch_s : 0);
}

static int by_time(const void *a, const void *b)
{
	const struct rk_power_step *x = a, *y = b;

	if (x->at_s != y->at_s)
		return x->at_s - y->at_s;
	return x->rack != y->rack ? x->rack - y->rack : y->switches - x->switches;
}

/* Watts after each step, in order of time. */
static void add_up(struct planner *p)
{
	struct rk_power_plan *plan = p->plan;
	double site = 0;

	qsort(plan->steps, plan->n_steps, sizeof(*plan->steps), by_time);
	for (size_t r = 0; r < p->site->n_racks; r++) {
		site += p->rack_kw[r];
		p->rows[p->row[r]].kw += p->rack_kw[r];
	}
	plan->kw_before = site;
	for (size_t i = 0; i < plan->n_steps; i++) {
		struct rk_power_step *s = &plan->steps[i];
		double kw = 0;
		for (size_t k = 0; k < s->n && !s->switches; k++)
			if (is_on(p->now->trays[s->targets[k].tray].power) != s->on)
				kw += s->on ? rk_power_tray_kw(p->site, s->targets[k].tray) : -rk_power_tray_kw(p->site, s->targets[k].tray);
		s->rack_kw = p->rack_kw[s->rack] += kw;
		s->row_kw = p->rows[p->row[s->rack]].kw += kw;
		s->site_kw = site += kw;
		int settled = s->at_s + (s->switches || !s->on ? p->options.switch_s : p->options.spacing_s);
		plan->seconds = settled > plan->seconds ? settled : plan->seconds;
	}
	plan->kw_after = site;
}

/* ---- the plan ---------------------------------------------------------------------------------------------------------------------------- */

static void find_rows(struct planner *p)
{
	size_t n = p->site->n_racks;

	p->rows = rk_arena_array(p->arena, n + 1, sizeof(*p->rows));
	p->row = rk_arena_array(p->arena, n + 1, sizeof(*p->row));
	for (size_t r = 0; r < n; r++) {
		size_t k = 0;
		while (k < p->n_rows && !rk_streq(p->rows[k].location, p->site->racks[r].location))
			k++;
		if (k == p->n_rows)
			p->rows[p->n_rows++].location = p->site->racks[r].location;
		p->row[r] = (int)k;
	}
}

static void find_load(struct planner *p)
{
	p->rack_kw = rk_arena_array(p->arena, p->site->n_racks + 1, sizeof(*p->rack_kw));
	for (size_t t = 0; t < p->site->n_trays; t++)
		if (is_on(p->now->trays[t].power))
			p->rack_kw[p->site->trays[t].rack] += rk_power_tray_kw(p->site, (int)t);
}

static const char *what_is_unknown(const struct planner *p, const bool *racks)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	int states = 0, leaks = 0, coolant = 0;

	for (size_t t = 0; t < p->site->n_trays; t++) {
		if (!racks[p->site->trays[t].rack])
			continue;
		states += p->now->trays[t].power == RK_POWER_UNKNOWN;
		leaks += !p->now->trays[t].leak_read;
	}
	for (size_t r = 0; r < p->site->n_racks; r++)
		coolant += racks[r] && isnan(p->now->racks[r].flow_lpm);
	const struct {
		int n;
		const char *what, *unit;
	} parts[] = { { states, "power of", "tray" }, { leaks, "leak detectors of", "tray" }, { coolant, "coolant of", "rack" } };
	for (size_t i = 0; i < RK_ARRAY_SIZE(parts); i++)
		if (parts[i].n)
			rk_str_addf(&out, "%s%s %d %s%s", out.len ? ", " : "not read: ", parts[i].what, parts[i].n, parts[i].unit, parts[i].n == 1 ? "" : "s");
	return out.len ? rk_arena_strdup(p->arena, rk_str_text(&out)) : NULL;
}

static struct rk_power_options filled(const struct rk_power_options *o)
{
	return (struct rk_power_options){ o->on, o->force, o->wave ? o->wave : WAVE, o->spacing_s ? o->spacing_s : SPACING_S, o->switch_s ? o->switch_s : SWITCH_S };
}

int rk_power_plan(const struct rk_site *site, const char *selection, const char *except, const struct rk_power_options *options,
		  const struct rk_power_now *now, struct rk_arena *arena, struct rk_power_plan *ret, struct rk_err *err)
{
	struct planner p = { .site = site, .now = now, .options = filled(options), .arena = arena, .plan = ret };
	bool *racks;
	int rc = rk_power_racks(site, selection, except, arena, &racks, err);

	*ret = (struct rk_power_plan){ .on = options->on, .force = options->force };
	p.chosen = rk_arena_array(arena, site->n_trays + 1, sizeof(*p.chosen));
	if (!rc)
		rc = select_trays(site, selection, except, arena, p.chosen, err);
	if (rc)
		return rc;
	ret->steps = rk_arena_array(arena, site->n_trays + 2 * site->n_racks + 1, sizeof(*ret->steps));
	ret->refusals = rk_arena_array(arena, site->n_trays + 1, sizeof(*ret->refusals));
	find_rows(&p);
	find_load(&p);
	int *trays = rk_arena_array(arena, site->n_trays + 1, sizeof(*trays)), *switch_at = rk_arena_array(arena, site->n_racks + 1, sizeof(*switch_at));
	for (size_t r = 0; r < site->n_racks; r++) {
		int n = racks[r] ? pick_trays(&p, (int)r, trays) : 0;
		if (racks[r] && options->on)
			plan_on(&p, (int)r, trays, n, &switch_at[p.row[r]]);
		else if (racks[r])
			plan_off(&p, (int)r, trays, n);
	}
	add_up(&p);
	ret->note = what_is_unknown(&p, racks);
	return 0;
}
