#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/cmds/common.h"
#include "inventory/base/clock.h"
#include "provision/facility.h"
#include "provision/power_meter.h"

/* ---- power show --------------------------------------------------------------------------------------------------------------------- */

/* Two readings of everything, or none. */
struct live {
	bool read;
	double seconds;                   /* between them; 0: one */
	struct rk_power_now now, before;
};

static void real(struct rk_jw *w, const char *key, double value)
{
	rk_jw_key(w, key);
	rk_jw_double(w, isfinite(value) ? round(value * 1e6) / 1e6 : value);
}

static void count(struct rk_jw *w, const char *key, long value)
{
	rk_jw_key(w, key);
	rk_jw_i64(w, value);
}

static void text(struct rk_jw *w, const char *key, const char *value)
{
	rk_jw_key(w, key);
	rk_jw_str(w, value);
}

static void write_interval(struct rk_jw *w, const struct live *live, const struct rk_power_meter *m)
{
	if (live->seconds <= 0)
		return;
	real(w, "interval_seconds", live->seconds);
	real(w, "interval_kwh", m->interval_kwh);
	real(w, "mean_kw", m->mean_kw);
}

static void write_meter(struct rk_jw *w, const struct live *live, const struct rk_power_meter *m)
{
	if (!live->read)
		return;
	count(w, "trays_on", m->on);
	count(w, "trays_off", m->off);
	count(w, "trays_unknown", m->unknown);
	count(w, "unmetered", m->unmetered);
	real(w, "power_kw", m->kw);
	real(w, "gpu_module_kw", m->module_kw);
	write_interval(w, live, m);
}

/* For people: what write_meter says. */
static const char *meter_text(struct rk_call *call, const struct live *live, const struct rk_power_meter *m)
{
	const char *modules = isnan(m->module_kw) ? "" : rk_arena_printf(call->arena, ", GPU modules %.1f kW", m->module_kw);

	if (isnan(m->kw))
		return rk_arena_printf(call->arena, "not known, %d not read", m->unmetered);
	if (live->seconds <= 0)
		return rk_arena_printf(call->arena, "%.1f kW%s", m->kw, modules);
	const char *kwh = isnan(m->interval_kwh) ? "kWh not known" : rk_arena_printf(call->arena, "%.3f kWh", m->interval_kwh);
	return rk_arena_printf(call->arena, "%.1f kW%s; mean %.1f kW, %s in %.0f s", m->kw, modules, m->mean_kw, kwh, live->seconds);
}

static const bool *trays_of_rack(struct rk_call *call, int rack)
{
	const struct rk_site *site = call->world->site;
	bool *belongs = rk_arena_array(call->arena, site->n_trays + 1, sizeof(*belongs));

	for (size_t t = 0; t < site->n_trays; t++)
		belongs[t] = site->trays[t].rack == rack;
	return belongs;
}

static void write_coolant(struct rk_jw *w, const struct rk_site *site, int rack, const struct live *live)
{
	const struct rk_rack *r = &site->racks[rack];
	bool now = live->read && !isnan(live->now.racks[rack].flow_lpm);
	double supply = now ? live->now.racks[rack].supply_c : r->supply_c > 0 ? r->supply_c : NAN;
	double flow = now ? live->now.racks[rack].flow_lpm : r->supply_c > 0 ? r->flow_lpm : NAN;
	struct rk_cooling c;

	rk_power_cooling(site, rack, supply, flow, &c);
	real(w, "supply_c_min", c.supply_min_c);
	real(w, "supply_c_max", c.supply_max_c);
	real(w, "supply_c", supply);
	real(w, "flow_lpm", flow);
	real(w, "flow_needed_lpm", c.flow_needed_lpm);
	real(w, "cooling_kw", c.kw);
}

static void write_leaks(struct rk_jw *w, const struct rk_site *site, int rack, const struct live *live)
{
	const struct rk_rack *r = &site->racks[rack];

	rk_jw_key(w, "leaks");
	rk_jw_array(w);
	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++)
		if ((live->read && live->now.trays[t].leak) || (site->trays[t].leak && !(live->read && live->now.trays[t].leak_read)))
			rk_jw_str(w, site->trays[t].name);
	rk_jw_end(w);
}

/* Keys of one rack, without braces. */
static void write_rack(struct rk_call *call, struct rk_jw *w, int rack, const struct live *live, struct rk_power_meter *meter)
{
	const struct rk_site *site = call->world->site;
	const struct rk_rack *r = &site->racks[rack];
	const char *limit;
	double budget = rk_power_budget(site, rack, &limit), committed = rk_power_committed(site, rack), shelf_kw;
	int shelves;

	rk_power_shelves(site, rack, &shelves, &shelf_kw);
	text(w, "name", r->name);
	text(w, "row", r->location);
	real(w, "power_kw_budget", r->power_kw);
	real(w, "power_kw_committed", committed);
	real(w, "power_kw_free", budget - committed);
	text(w, "limited_by", limit);
	count(w, "shelves", shelves);
	real(w, "shelves_kw", shelves * shelf_kw);
	write_coolant(w, site, rack, live);
	write_leaks(w, site, rack, live);
	rk_power_sum(site, &live->now, live->seconds > 0 ? &live->before : NULL, live->seconds, trays_of_rack(call, rack), rack, meter);
	write_meter(w, live, meter);
}

static void write_trays(struct rk_call *call, struct rk_jw *w, int rack, const struct live *live)
{
	const struct rk_site *site = call->world->site;
	const struct rk_rack *r = &site->racks[rack];
	bool *belongs = rk_arena_array(call->arena, site->n_trays + 1, sizeof(*belongs));

	rk_jw_array(w);
	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++) {
		const struct rk_bmc_reading *b = &live->now.trays[t];
		struct rk_power_meter m;
		belongs[t] = true;
		rk_power_sum(site, &live->now, live->seconds > 0 ? &live->before : NULL, live->seconds, belongs, RK_NONE, &m);
		belongs[t] = false;
		rk_jw_object(w);
		text(w, "name", site->trays[t].name);
		text(w, "state", rk_tray_state_name(rk_tray_state(site, t)));
		real(w, "power_kw_committed", site->trays[t].vm >= 0 ? rk_power_tray_kw(site, t) : 0);
		text(w, "leak", b->leak ? b->leak : b->leak_read ? NULL : site->trays[t].leak);
		text(w, "power", rk_power_state_name(b->power));
		real(w, "power_kw", b->watts / 1000);
		real(w, "gpu_module_kw", b->module_watts / 1000);
		real(w, "energy_kwh", b->kwh);
		write_interval(w, live, &m);
		rk_jw_end(w);
	}
	rk_jw_end(w);
}

static void write_clusters(struct rk_call *call, struct rk_jw *w, const struct live *live)
{
	const struct rk_site *site = call->world->site;

	rk_jw_array(w);
	for (size_t c = 0; c < site->n_clusters && live->read; c++) {
		bool *belongs = rk_arena_array(call->arena, site->n_trays + 1, sizeof(*belongs));
		struct rk_power_meter m;
		for (size_t t = 0; t < site->n_trays; t++)
			belongs[t] = site->trays[t].vm >= 0 && site->vms[site->trays[t].vm].cluster == (int)c;
		rk_power_sum(site, &live->now, live->seconds > 0 ? &live->before : NULL, live->seconds, belongs, RK_NONE, &m);
		rk_jw_object(w);
		text(w, "cluster", site->clusters[c].name);
		write_meter(w, live, &m);
		rk_jw_end(w);
		rk_out_note(call->out, "cluster %s: measured %s", site->clusters[c].name, meter_text(call, live, &m));
	}
	rk_jw_end(w);
}

/* A site file that names no BMC at all is a mistake to tell before anything is tried. */
static int no_bmc(struct rk_power_now *now, struct rk_err *err)
{
	for (size_t i = 0; i < now->n_errors; i++)
		if (now->errors[i].rc != RK_INVALID)
			return 0;
	if (!now->n_errors)
		return 0;
	rk_err_move(err, &now->errors[0]);
	return RK_INVALID;
}

static int read_live(struct rk_call *call, const bool *racks, struct live *live, struct rk_err *err)
{
	const char *length = rk_call_arg(call, "for");
	const unsigned what = RK_BMC_POWER | RK_BMC_LEAK | RK_BMC_METERS | RK_BMC_COOLANT;
	struct rk_clock *clock = call->world->env.clock;
	int64_t ms = 0, start;
	int rc = length ? rk_duration_parse(length, &ms, err) : 0;

	live->read = rk_call_flag(call, "live") || length;
	rk_power_unread(call->world->site, call->arena, &live->now);
	if (rc || !live->read)
		return rc;
	start = rk_clock_ms(clock);
	if (ms) {
		rc = rk_power_read(call->world, racks, what, call->arena, &live->before, err);
		for (int64_t left = ms; !rc && left > 0 && !*call->world->cancel; left -= 200)
			rk_clock_sleep_ms(clock, left < 200 ? (int)left : 200);
	}
	if (!rc)
		rc = rk_power_read(call->world, racks, what, call->arena, &live->now, err);
	if (!rc)
		rc = no_bmc(&live->now, err);
	live->seconds = ms ? (double)(rk_clock_ms(clock) - start) / 1000 : 0;
	return rc;
}

/* BMCs that did not answer: named, code 6, what is known is shown all the same. */
static int judge_reading(const struct rk_power_now *now, struct rk_err *err)
{
	if (!now->unread)
		return 0;
	rk_err_set(err, RK_UNREACHABLE, "%zu BMCs could not be read", now->unread);
	for (size_t i = 0, shown = 0; i < now->n_errors && shown < 20; i++)
		if (now->errors[i].rc) {
			rk_err_detail(err, "%s", now->errors[i].message);
			shown++;
		}
	return RK_UNREACHABLE;
}

static void note_rack(struct rk_call *call, int rack, const struct live *live, const struct rk_power_meter *m)
{
	const struct rk_site *site = call->world->site;
	const char *limit;
	double budget = rk_power_budget(site, rack, &limit);

	rk_out_note(call->out, "%s: %g of %g kW committed (%s)%s%s", site->racks[rack].name, rk_power_committed(site, rack), budget, limit,
		    live->read ? ", measured " : "", live->read ? meter_text(call, live, m) : "");
}

/* Of everything that was measured, if all of it was. */
static int show_facility(struct rk_call *call, double it_kw, struct rk_err *err)
{
	double facility, pue;
	int rc = rk_facility_read(call->world, it_kw, &facility, err);

	pue = rk_pue(facility, it_kw);
	if (isfinite(facility))
		rk_cell_real(call->out, "facility_kw", facility);
	if (isfinite(pue))
		rk_cell_real(call->out, "pue", pue);
	return rc;
}

/* The whole site: sums, and every rack. */
static int show_site(struct rk_call *call, const struct live *live, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;
	double budget = 0, committed = 0, measured = 0;
	struct rk_power_meter m;

	rk_out_row(call->out);
	rk_cell_text(call->out, "name", site->name);
	struct rk_jw *w = rk_cell_json(call->out, "racks");
	rk_jw_array(w);
	for (size_t r = 0; r < site->n_racks; r++) {
		rk_jw_object(w);
		write_rack(call, w, (int)r, live, &m);
		rk_jw_end(w);
		budget += site->racks[r].power_kw;
		committed += rk_power_committed(site, (int)r);
		measured += m.kw;
		note_rack(call, (int)r, live, &m);
	}
	rk_jw_end(w);
	rk_cell_real(call->out, "power_kw_budget", budget);
	rk_cell_real(call->out, "power_kw_committed", committed);
	rk_cell_real(call->out, "power_kw_free", budget - committed);
	if (!isnan(measured))
		rk_cell_real(call->out, "measured_kw", measured);
	write_clusters(call, rk_cell_json(call->out, "clusters"), live);
	return live->read ? show_facility(call, measured, err) : 0;
}

static void show_rack(struct rk_call *call, int rack, const struct live *live)
{
	const struct rk_site *site = call->world->site;
	struct rk_power_meter m;
	const char *limit;

	rk_out_row(call->out);
	rk_cell_text(call->out, "name", site->racks[rack].name);
	rk_cell_real(call->out, "power_kw_budget", site->racks[rack].power_kw);
	rk_cell_real(call->out, "power_kw_committed", rk_power_committed(site, rack));
	rk_cell_real(call->out, "power_kw_free", rk_power_budget(site, rack, &limit) - rk_power_committed(site, rack));
	struct rk_jw *w = rk_cell_json(call->out, "rack");
	rk_jw_object(w);
	write_rack(call, w, rack, live, &m);
	rk_jw_end(w);
	if (!isnan(m.kw))
		rk_cell_real(call->out, "measured_kw", m.kw);
	write_trays(call, rk_cell_json(call->out, "trays"), rack, live);
	note_rack(call, rack, live, &m);
}

static int show(struct rk_call *call, struct rk_err *err)
{
	const char *name = rk_call_arg(call, "RACK");
	bool *racks = NULL;
	struct live live = { .read = false };
	int rack = RK_NONE, rc = name ? rk_get_rack(call, name, &rack, err) : 0;

	if (!rc && name)
		rc = rk_power_racks(call->world->site, name, NULL, call->arena, &racks, err);
	if (!rc)
		rc = read_live(call, racks, &live, err);
	if (!rc) {
		if (name)
			show_rack(call, rack, &live);
		else
			rc = show_site(call, &live, err);
		if (!rc)
			rc = judge_reading(&live.now, err);
	}
	rk_power_now_clear(&live.now);
	rk_power_now_clear(&live.before);
	return rc;
}

/* ---- power read ---------------------------------------------------------------------------------------------------------------------- */

static int read_bmcs(struct rk_call *call, struct rk_err *err)
{
	const char *selection = rk_call_arg(call, "SEL");
	struct rk_power_now now = { .trays = NULL };
	bool *racks = NULL;
	int leaks = 0, rc = selection ? rk_power_racks(call->world->site, selection, call->except, call->arena, &racks, err) : 0;

	if (!rc)
		rc = rk_power_read(call->world, racks, RK_BMC_POWER | RK_BMC_LEAK | RK_BMC_COOLANT, call->arena, &now, err);
	if (!rc)
		rc = no_bmc(&now, err);
	for (size_t t = 0; !rc && t < call->world->site->n_trays; t++)
		leaks += now.trays[t].leak != NULL;
	if (!rc && !call->dry_run)
		rc = rk_power_keep(call->world, racks, &now, &leaks, err);
	const struct rk_site *site = call->world->site;
	for (size_t t = 0; !rc && t < site->n_trays; t++) {
		if (racks && !racks[site->trays[t].rack])
			continue;
		rk_out_row(call->out);
		rk_cell_text(call->out, "tray", site->trays[t].name);
		rk_cell_text(call->out, "power", rk_power_state_name(now.trays[t].power));
		rk_cell_bool(call->out, "leak_read", now.trays[t].leak_read);
		rk_cell_text(call->out, "leak", now.trays[t].leak);
	}
	if (!rc)
		rc = judge_reading(&now, err);
	rk_power_now_clear(&now);
	if (!rc && leaks)
		rc = rk_err_set(err, RK_UNHEALTHY, "%d tray%s", leaks, leaks == 1 ? " leaks" : "s leak");
	return rc;
}

/* ---- plan, on, off ------------------------------------------------------------------------------------------------------------------------ */

static int number_of(struct rk_call *call, const char *option, int max, int *ret, struct rk_err *err)
{
	const char *value = rk_call_arg(call, option);
	uint64_t n = 0;

	if (value && (!rk_parse_u64(value, &n) || !n || n > (uint64_t)max))
		return rk_err_set(err, RK_INVALID, "--%s is a number from 1 to %d", option, max);
	*ret = (int)n;
	return 0;
}

static int seconds_of(struct rk_call *call, const char *option, int *ret, struct rk_err *err)
{
	const char *value = rk_call_arg(call, option);
	int64_t ms = 0;
	int rc = value ? rk_duration_parse(value, &ms, err) : 0;

	if (!rc && value && (ms < 1000 || ms > 86400000))
		rc = rk_err_set(err, RK_INVALID, "--%s is from 1s to 1d", option);
	*ret = (int)(ms / 1000);
	return rc;
}

static void step_row(struct rk_call *call, const struct rk_power_step *s, const struct rk_power_result *result)
{
	const struct rk_site *site = call->world->site;
	const char **names = rk_arena_array(call->arena, s->n + 1, sizeof(*names));
	char at[24];

	for (size_t i = 0; i < s->n; i++)
		names[i] = rk_bmc_name(site, &s->targets[i], call->arena);
	snprintf(at, sizeof(at), "+%02d:%02d:%02d", s->at_s / 3600, s->at_s / 60 % 60, s->at_s % 60);
	rk_out_row(call->out);
	rk_cell_text(call->out, "at", at);
	rk_cell_number(call->out, "at_seconds", s->at_s);
	rk_cell_text(call->out, "rack", site->racks[s->rack].name);
	rk_cell_text(call->out, "row", site->racks[s->rack].location);
	rk_cell_text(call->out, "action", s->switches ? (s->on ? "switches on" : "switches off") : s->on ? "trays on" : "trays off");
	rk_cell_text(call->out, "targets", rk_nodeset_fold(call->arena, names, s->n));
	rk_cell_real(call->out, "rack_kw", s->rack_kw);
	rk_cell_real(call->out, "row_kw", s->row_kw);
	rk_cell_real(call->out, "site_kw", s->site_kw);
	if (result) {
		rk_cell_text(call->out, "state", result->state);
		rk_cell_text(call->out, "why", result->detail);
	}
}

static const char *folded(struct rk_call *call, const char *list)
{
	struct rk_nodeset set;

	return rk_nodeset_parse(list, NULL, NULL, call->arena, &set, NULL) ? list : rk_nodeset_fold(call->arena, set.names, set.n);
}

static void plan_rows(struct rk_call *call, const struct rk_power_plan *plan, const struct rk_power_result *results)
{
	for (size_t i = 0; i < plan->n_steps; i++)
		step_row(call, &plan->steps[i], results ? &results[i] : NULL);
	for (size_t i = 0; i < plan->n_refusals; i++) {
		rk_out_row(call->out);
		rk_cell_text(call->out, "rack", call->world->site->racks[plan->refusals[i].rack].name);
		rk_cell_text(call->out, "row", call->world->site->racks[plan->refusals[i].rack].location);
		rk_cell_text(call->out, "action", "refused");
		rk_cell_text(call->out, "targets", folded(call, plan->refusals[i].targets));
		rk_cell_text(call->out, "why", plan->refusals[i].why);
	}
	if (plan->note)
		rk_out_note(call->out, "%s", plan->note);
	rk_out_note(call->out, "%g kW before, %g kW after, %d min %d s; %zu trays are %s already", plan->kw_before, plan->kw_after, plan->seconds / 60,
		    plan->seconds % 60, plan->done, plan->on ? "on" : "off");
}

static int refused(const struct rk_power_plan *plan, int class, struct rk_err *err)
{
	rk_err_set(err, class, "%zu refused to be switched %s", plan->n_refusals, plan->on ? "on" : "off");
	for (size_t i = 0; i < plan->n_refusals; i++)
		rk_err_detail(err, "%s: %s", plan->refusals[i].targets, plan->refusals[i].why);
	return class;
}

static int make_plan(struct rk_call *call, bool on, bool keep, struct rk_power_now *now, struct rk_power_plan *plan, struct rk_err *err)
{
	struct rk_power_options o = { .on = on, .force = rk_call_flag(call, "force") };
	bool *racks;
	int leaks, rc = number_of(call, "wave", 64, &o.wave, err);

	if (!rc)
		rc = seconds_of(call, "spacing", &o.spacing_s, err);
	if (!rc)
		rc = seconds_of(call, "settle", &o.switch_s, err);
	if (!rc)
		rc = rk_power_racks(call->world->site, rk_call_arg(call, "SEL"), call->except, call->arena, &racks, err);
	if (rc)
		return rc;
	if (rk_call_flag(call, "offline"))
		rk_power_unread(call->world->site, call->arena, now);
	else
		rc = rk_power_read(call->world, racks, RK_BMC_POWER | RK_BMC_LEAK | RK_BMC_COOLANT, call->arena, now, err);
	if (!rc && call->command->flags & RK_CMD_CHANGES)
		rc = no_bmc(now, err);
	/* What leaks before anything is switched is refused, and known from now on. */
	if (!rc && keep)
		rc = rk_power_keep(call->world, racks, now, &leaks, err);
	return rc ? rc : rk_power_plan(call->world->site, rk_call_arg(call, "SEL"), call->except, &o, now, call->arena, plan, err);
}

static int plan(struct rk_call *call, struct rk_err *err)
{
	struct rk_power_now now = { .trays = NULL };
	struct rk_power_plan p;
	int rc = make_plan(call, strcmp(rk_call_arg(call, "STATE"), "on") == 0, false, &now, &p, err);

	if (!rc) {
		plan_rows(call, &p, NULL);
		if (p.n_refusals && !p.n_steps)
			rc = refused(&p, RK_NO_CAPACITY, err);
	}
	rk_power_now_clear(&now);
	return rc;
}

static int switch_power(struct rk_call *call, struct rk_err *err)
{
	struct rk_power_now now = { .trays = NULL };
	struct rk_power_plan p;
	int rc = make_plan(call, strcmp(call->command->verb, "on") == 0, !call->dry_run, &now, &p, err);

	rk_power_now_clear(&now);
	if (rc)
		return rc;
	struct rk_power_result *results = rk_arena_array(call->arena, p.n_steps + 1, sizeof(*results));
	if (p.n_steps)
		rc = rk_power_run(call->world, &p, call->arena, results, err);
	if (!rc || rc == RK_PARTIAL || rc == RK_UNHEALTHY)
		plan_rows(call, &p, call->dry_run ? NULL : results);
	if (!rc && p.n_refusals)
		rc = refused(&p, p.n_steps ? RK_PARTIAL : RK_NO_CAPACITY, err);
	return rc;
}

#define SEL_ARG { .name = "SEL", .type = RK_ARG_SEL_TRAYS, .required = true, .help = "racks (with their switch trays) or trays" }
#define PACE_OPTIONS                                                                                                                            \
	{ .name = "wave", .type = RK_ARG_NUMBER, .help = "trays of one step; default 6" },                                                      \
		{ .name = "spacing", .type = RK_ARG_TEXT, .help = "between steps in a row of racks; default 20s" },                             \
		{ .name = "settle", .type = RK_ARG_TEXT, .help = "until switch trays are up, or trays are down; default 180s" },                \
		{ .name = "force", .type = RK_ARG_NONE, .help = "off: trays with VMs too, and without asking the operating system" }
#define STEP_COLUMNS                                                                                                                             \
	RK_COLUMNS({ "at", RK_COL_TEXT }, { "at_seconds", RK_COL_NUMBER, .wide = true }, { "rack", RK_COL_TEXT }, { "row", RK_COL_TEXT },        \
		   { "action", RK_COL_TEXT }, { "targets", RK_COL_TEXT }, { "rack_kw", RK_COL_REAL }, { "row_kw", RK_COL_REAL },                 \
		   { "site_kw", RK_COL_REAL }, { "state", RK_COL_TEXT }, { "why", RK_COL_TEXT })

static const struct rk_command rows[] = {
	{ .noun = "power", .verb = "show", .summary = "show power and cooling: budget, committed, and with --live what is measured", .flags = RK_CMD_REMOTE,
	  .args = RK_ARGS({ .name = "RACK", .type = RK_ARG_RACK, .help = "one rack with its trays; default: the site with its racks" }),
	  .options = RK_ARGS({ .name = "live", .type = RK_ARG_NONE, .help = "ask the BMCs: power, GPU modules, energy, leaks, coolant" },
			     { .name = "for", .type = RK_ARG_TEXT, .help = "read twice with this time between (30s, 5m): mean kW and kWh of racks, clusters and, with a rack, its trays" }),
	  .description = "Committed is the sum over allocated trays, by the size of the VM and the profile. Nothing is guessed: a sum with an unread part is null and "
			 "\"unmetered\" says how many; kWh come from energy counters only. With a facilityMeter in the site file also what the facility takes, and PUE "
			 "where every tray and switch tray of the site was read.",
	  .examples = RK_EXAMPLES("power show", "power show r01 --live -o json", "power show --for 30s"), .run = show,
	  .columns = RK_COLUMNS({ "name", RK_COL_TEXT }, { "power_kw_budget", RK_COL_REAL }, { "power_kw_committed", RK_COL_REAL }, { "power_kw_free", RK_COL_REAL }, { "measured_kw", RK_COL_REAL },
				{ "facility_kw", RK_COL_REAL }, { "pue", RK_COL_REAL },
				{ "rack", RK_COL_JSON, .wide = true }, { "racks", RK_COL_JSON, .wide = true }, { "trays", RK_COL_JSON, .wide = true },
				{ "clusters", RK_COL_JSON, .wide = true }) },
	{ .noun = "power", .verb = "read", .summary = "read leak detectors and coolant from the BMCs and keep what they say", .list = true,
	  .flags = RK_CMD_CHANGES | RK_CMD_REMOTE | RK_CMD_SELECTS,
	  .args = RK_ARGS({ .name = "SEL", .type = RK_ARG_SEL_TRAYS, .help = "racks or trays, whose racks are read; default all" }),
	  .description = "A leaking tray is faulty until its detectors are dry again, two of them refuse the rack to placement; coolant limits what a rack may draw. A new leak "
			 "runs the site's hook. Leaks are code 7.",
	  .examples = RK_EXAMPLES("power read r01"), .run = read_bmcs,
	  .columns = RK_COLUMNS({ "tray", RK_COL_TEXT }, { "power", RK_COL_TEXT }, { "leak_read", RK_COL_BOOL }, { "leak", RK_COL_TEXT }) },
	{ .noun = "power", .verb = "plan", .summary = "print the timetable of switching racks on or off, change nothing", .list = true,
	  .flags = RK_CMD_REMOTE | RK_CMD_SELECTS, .columns = STEP_COLUMNS,
	  .args = RK_ARGS({ .name = "STATE", .type = RK_ARG_ENUM, .required = true, .values = "on|off", .help = "on or off" }, SEL_ARG),
	  .options = RK_ARGS(PACE_OPTIONS, { .name = "offline", .type = RK_ARG_NONE, .help = "do not ask the BMCs: everything counts as not switched yet" }),
	  .description = "Switch trays come before compute trays, which otherwise would have to restart to join the fabric, and go after the last of a rack. In a row of racks "
			 "(the same location) one step follows another; kW are those after the step. Refused are trays that leak, racks with two of them, what exceeds "
			 "the power budget or what the coolant carries away, and, for off, trays with VMs.",
	  .examples = RK_EXAMPLES("power plan on r01", "power plan off r01-t[01-04] --wave 2 --spacing 30s"), .run = plan },
	{ .noun = "power", .verb = "on", .summary = "switch racks or trays on, by the plan", .list = true, .columns = STEP_COLUMNS, .args = RK_ARGS(SEL_ARG),
	  .options = RK_ARGS(PACE_OPTIONS), .flags = RK_CMD_CHANGES | RK_CMD_DANGEROUS | RK_CMD_REMOTE | RK_CMD_SELECTS,
	  .description = "Before every step the leak detectors and the coolant of its rack are read: a new leak forces that tray off and stops everything else (code 3, or 7 when "
			 "nothing had been switched yet). A tray counts as on when it was seen on. Running it again goes on where it stopped.",
	  .examples = RK_EXAMPLES("power on r01", "power on r01-t[01-04] -n"), .run = switch_power },
	{ .noun = "power", .verb = "off", .summary = "switch racks or trays off, by the plan", .list = true, .columns = STEP_COLUMNS, .args = RK_ARGS(SEL_ARG),
	  .options = RK_ARGS(PACE_OPTIONS), .flags = RK_CMD_CHANGES | RK_CMD_DANGEROUS | RK_CMD_REMOTE | RK_CMD_SELECTS,
	  .description = "Trays shut down first, then the switch trays of a whole rack. Trays with VMs are refused without --force.",
	  .examples = RK_EXAMPLES("power off r01", "power off r01 -n"), .run = switch_power },
};
RK_NOUN(power, "power: budgets, readings, switching on and off in the right order", NULL, rows);
