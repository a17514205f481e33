#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "inventory/base/clock.h"
#include "inventory/base/str.h"
#include "provision/hooks.h"
#include "provision/power.h"

enum { POLL_MS = 1000, SLICE_MS = 200, ON_MS = 120000, OFF_MS = 180000 };

struct runner {
	struct rk_world *world;
	const struct rk_power_plan *plan;
	struct rk_bmc *bmc;
	struct rk_arena *arena;
	struct rk_power_result *results;
	int64_t start_ms, op;
	bool *dark;               /* per rack: its switch trays did not come up */
	int switched, failed;     /* targets */
	bool unmarked;            /* the store does not know of all that were switched */
	const char *stop;         /* why nothing more is switched, or NULL */
	struct rk_err *err;       /* details gather here */
};

static bool cancelled(const struct runner *r)
{
	return r->world->cancel && *r->world->cancel;
}

static void tell(const struct runner *r, const char *text)
{
	if (r->world->progress)
		r->world->progress(r->world->progress_ctx, text);
}

static void wait_until(const struct runner *r, int64_t ms)
{
	struct rk_clock *clock = r->world->env.clock;

	for (int64_t left; (left = ms - rk_clock_ms(clock)) > 0 && !cancelled(r);)
		rk_clock_sleep_ms(clock, left < SLICE_MS || clock ? (int)left : SLICE_MS);
}

/* ---- one step's targets ------------------------------------------------------------------------------------------------------------ */

struct batch {
	struct runner *r;
	const struct rk_power_step *step;
	struct rk_err *errors;
};

/* Accepted is not done, and a lost answer is not a failure: what counts is the state that is seen. */
static int switch_target(const struct runner *r, const struct rk_bmc_target *t, bool on, bool force, struct rk_arena *arena, struct rk_err *err)
{
	struct rk_clock *clock = r->world->env.clock;
	RK_CLEANUP_ERR struct rk_err said = RK_ERR_INIT;
	struct rk_bmc_reading reading = rk_bmc_unread;
	int rc = r->bmc->ops->set(r->bmc, t, on, force, &said);
	int64_t deadline = rk_clock_ms(clock) + (on ? ON_MS : OFF_MS);

	if (rc && rc != RK_UNREACHABLE) {
		rk_err_move(err, &said);
		return rc;
	}
	do {
		rk_err_clear(err);
		rc = r->bmc->ops->read(r->bmc, t, RK_BMC_POWER, arena, &reading, err);
		if (!rc && reading.power == (on ? RK_POWER_ON : RK_POWER_OFF))
			return 0;
		rk_clock_sleep_ms(clock, POLL_MS);
	} while (rk_clock_ms(clock) < deadline && !cancelled(r));
	if (rc)
		return rc;
	rk_err_set(err, RK_UNREACHABLE, "is %s after %d s, not %s", rk_power_state_name(reading.power), (on ? ON_MS : OFF_MS) / 1000, on ? "on" : "off");
	if (!on)
		rk_err_hint(err, "--force does not ask the operating system");
	return RK_UNREACHABLE;
}

static void switch_one(void *ctx, size_t i)
{
	struct batch *b = ctx;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();

	switch_target(b->r, &b->step->targets[i], b->step->on, b->r->plan->force, arena, &b->errors[i]);
}

/* Trays that racksh switched off are offline for placement until it switched them on again. */
static int write_marks(struct runner *r, const struct rk_power_step *s, const struct rk_err *errors, struct rk_err *err)
{
	static const char mark[] = "powered off";
	const struct rk_site *site = r->bmc->site;
	int rc = rk_store_begin(r->world->store, -1, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < s->n && !rc; i++) {
		const struct rk_tray *t = &site->trays[s->targets[i].tray];
		bool ours = !t->offline || strcmp(t->offline, mark) == 0;
		if (!errors[i].rc && ours && s->on != !t->offline)
			rc = rk_store_set_tray_offline(r->world->store, t->name, s->on ? NULL : mark, err);
	}
	if (!rc)
		return rk_store_commit(r->world->store, err);
	rk_store_rollback(r->world->store);
	return rc;
}

static void mark_switched(struct runner *r, const struct rk_power_step *s, const struct rk_err *errors)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;

	if (s->switches || !write_marks(r, s, errors, &err))
		return;
	r->unmarked = true;
	rk_err_detail(r->err, "the mark \"powered off\" of %s could not be kept: %s", r->bmc->site->racks[s->rack].name, err.message);
}

static void switch_all(struct runner *r, const struct rk_power_step *s, struct rk_power_result *result)
{
	struct batch b = { r, s, rk_arena_array(r->arena, s->n + 1, sizeof(*b.errors)) };
	int failed = 0;

	rk_fanout(s->n, r->world->jobs, switch_one, &b);
	mark_switched(r, s, b.errors);
	for (size_t i = 0; i < s->n; i++) {
		if (b.errors[i].rc) {
			const char *name = rk_bmc_name(r->bmc->site, &s->targets[i], r->arena);
			rk_err_detail(r->err, "%s: %s", name, b.errors[i].message);
			failed++;
		}
		rk_err_clear(&b.errors[i]);
	}
	r->switched += (int)s->n - failed;
	r->failed += failed;
	r->dark[s->rack] |= failed && s->switches && s->on;
	result->state = failed ? "failed" : "done";
	result->detail = failed ? rk_arena_printf(r->arena, "%d of %zu did not follow", failed, s->n) : NULL;
}

/* ---- interlocks ------------------------------------------------------------------------------------------------------------------------ */

struct leaks {
	struct runner *r;
	const struct rk_bmc_target **targets;
	const struct rk_bmc_reading **readings;
	struct rk_err *errors;
	size_t n;
};

static void force_off(void *ctx, size_t i)
{
	struct leaks *l = ctx;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();

	if (l->readings[i]->power != RK_POWER_OFF)
		switch_target(l->r, l->targets[i], false, true, arena, &l->errors[i]);
}

static void keep_and_tell(const struct leaks *l, size_t i)
{
	struct runner *r = l->r;
	const struct rk_site *site = r->bmc->site;
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	const char *name = rk_bmc_name(site, l->targets[i], r->arena), *leak = l->readings[i]->leak;
	const struct rk_hook_fact facts[] = { { "TRAY", name }, { "RACK", site->racks[l->targets[i]->rack].name }, { "LEAK", leak } };

	tell(r, rk_arena_printf(r->arena, "%s leaks: %s", name, l->errors[i].rc ? "it could not be forced off" : "forced off"));
	rk_err_detail(r->err, "%s: leak: %s", name, leak);
	if (l->errors[i].rc)
		rk_err_detail(r->err, "%s: could not be forced off: %s", name, l->errors[i].message);
	if (l->targets[i]->tray != RK_NONE && rk_store_set_tray_leak(r->world->store, name, leak, &err))
		rk_err_detail(r->err, "%s: that it leaks could not be kept: %s", name, err.message);
	rk_hook_run(r->world, "leak", facts, RK_ARRAY_SIZE(facts), NULL);
}

/* All that leak are forced off at once, before anything that may take its time: a store that somebody keeps locked, a hook of the site that hangs. */
static void contain(struct leaks *l)
{
	rk_fanout(l->n, l->r->world->jobs, force_off, l);
	for (size_t i = 0; i < l->n; i++) {
		keep_and_tell(l, i);
		rk_err_clear(&l->errors[i]);
	}
}

/* Why the step must not be taken, or NULL. */
static const char *interlock(struct runner *r, const struct rk_power_step *s)
{
	const struct rk_site *site = r->bmc->site;
	const struct rk_rack *rack = &site->racks[s->rack];
	int switches = site->profiles[rack->profile].switch_trays;
	size_t n = (size_t)(rack->n_trays + (switches < RK_SWITCHES_MAX ? switches : RK_SWITCHES_MAX));
	struct rk_bmc_target *targets = rk_arena_array(r->arena, n + 1, sizeof(*targets));
	struct rk_bmc_reading *readings = rk_arena_array(r->arena, n + 1, sizeof(*readings));
	struct rk_err *errors = rk_arena_array(r->arena, n + 1, sizeof(*errors));
	struct leaks leaks = { r, rk_arena_array(r->arena, n + 1, sizeof(*leaks.targets)), rk_arena_array(r->arena, n + 1, sizeof(*leaks.readings)), errors, 0 };
	const char *why = NULL;
	struct rk_cooling c;

	for (int i = 0; i < (int)n; i++)
		targets[i] = i < rack->n_trays ? (struct rk_bmc_target){ rack->first_tray + i, s->rack, 0 } :
						 (struct rk_bmc_target){ RK_NONE, s->rack, i - rack->n_trays + 1 };
	rk_bmc_read_all(r->world, r->bmc, targets, n, RK_BMC_POWER | RK_BMC_LEAK | RK_BMC_COOLANT, r->arena, readings, errors);
	for (size_t i = 0; i < n; i++) {
		rk_err_clear(&errors[i]);
		if (readings[i].leak && (targets[i].tray == RK_NONE || !site->trays[targets[i].tray].leak)) {
			leaks.targets[leaks.n] = &targets[i];
			leaks.readings[leaks.n++] = &readings[i];
			why = rk_arena_printf(r->arena, "%s leaks", rk_bmc_name(site, &targets[i], r->arena));
		}
		rk_power_cooling(site, s->rack, readings[i].supply_c, readings[i].flow_lpm, &c);
		if (!why && !isnan(c.kw) && c.kw < s->rack_kw)
			why = rk_arena_printf(r->arena, "coolant of %s: %g l/min at %g C carries away %.4g of %g kW", rack->name, readings[i].flow_lpm,
					      readings[i].supply_c, c.kw, s->rack_kw);
	}
	contain(&leaks);
	return why;
}

/* A run may last longer than a lease. */
static const char *keep_lease(struct runner *r, const char *rack)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;

	if (!rk_store_lease_take(r->world->store, rk_arena_printf(r->arena, "power:%s", rack), r->op, r->plan->on ? "power on" : "power off", &err))
		return NULL;
	return rk_arena_strdup(r->arena, err.message);
}

/* ---- the run ---------------------------------------------------------------------------------------------------------------------------- */

static void take_step(struct runner *r, size_t i)
{
	const struct rk_power_step *s = &r->plan->steps[i];
	struct rk_power_result *result = &r->results[i];
	const char *rack = r->bmc->site->racks[s->rack].name;

	if (!r->stop)
		wait_until(r, r->start_ms + (int64_t)s->at_s * 1000);
	if (!r->stop && cancelled(r))
		r->stop = "cancelled";
	if (r->stop) {
		*result = (struct rk_power_result){ "stopped", r->stop };
		return;
	}
	if (s->on && !s->switches && r->dark[s->rack]) {
		*result = (struct rk_power_result){ "skipped", "its switch trays are not on: compute would have to restart to join the fabric" };
		r->failed += (int)s->n;
		return;
	}
	r->stop = keep_lease(r, rack);
	if (!r->stop && s->on)
		r->stop = interlock(r, s);
	if (r->stop) {
		*result = (struct rk_power_result){ "stopped", r->stop };
		return;
	}
	tell(r, rk_arena_printf(r->arena, "%s: %zu %s trays %s", rack, s->n, s->switches ? "switch" : "compute", s->on ? "on" : "off"));
	switch_all(r, s, result);
}

/* One at a time per rack: an operation of its own holds the leases. */
static int guard(struct runner *r, struct rk_err *err)
{
	const struct rk_site *site = r->world->site;
	bool *racks = rk_arena_array(r->arena, site->n_racks + 1, sizeof(*racks));
	const char *purpose = r->plan->on ? "power on" : "power off";
	int rc = rk_store_begin(r->world->store, -1, err);

	if (rc)
		return rc;
	rc = rk_store_op_add(r->world->store, purpose, "{\"type\":\"power\"}", &r->op, err);
	for (size_t i = 0; i < r->plan->n_steps; i++)
		racks[r->plan->steps[i].rack] = true;
	for (size_t k = 0; k < site->n_racks && !rc; k++)
		if (racks[k])
			rc = rk_store_lease_take(r->world->store, rk_arena_printf(r->arena, "power:%s", site->racks[k].name), r->op, purpose, err);
	if (!rc)
		return rk_store_commit(r->world->store, err);
	rk_store_rollback(r->world->store);
	return rc;
}

/* Unless somebody took it over: then it is theirs to end. */
static int release(struct runner *r, const char *detail, struct rk_err *err)
{
	struct rk_store *store = r->world->store;
	struct rk_op_row row;
	int rc = rk_store_begin(store, -1, err);

	if (rc)
		return rc;
	rc = rk_store_op_get(store, r->op, r->arena, &row, err);
	bool ours = !rc && strcmp(row.state, "running") == 0;
	if (ours)
		rc = rk_store_op_set(store, r->op, detail ? "failed" : "done", detail, err);
	if (ours && !rc)
		rc = rk_store_lease_drop(store, r->op, err);
	if (!rc)
		return rk_store_commit(store, err);
	rk_store_rollback(store);
	return rc;
}

static int conclude(const struct runner *r, struct rk_err *err)
{
	const char *what = r->plan->on ? "on" : "off";

	if (r->stop && cancelled(r))
		return rk_err_set(err, RK_CANCELLED, "cancelled; %d trays were switched %s", r->switched, what);
	if (r->stop && !r->switched)
		return rk_err_set(err, RK_UNHEALTHY, "nothing was switched %s: %s", what, r->stop);
	if (r->stop)
		return rk_err_set(err, RK_PARTIAL, "stopped after %d trays: %s", r->switched, r->stop);
	if (r->failed)
		return rk_err_set(err, RK_PARTIAL, "%d trays were not switched %s, %d were", r->failed, what, r->switched);
	return r->unmarked ? rk_err_set(err, RK_PARTIAL, "%d trays were switched %s, and the store does not say so of all of them", r->switched, what) : 0;
}

int rk_power_run(struct rk_world *world, const struct rk_power_plan *plan, struct rk_arena *arena, struct rk_power_result *results, struct rk_err *err)
{
	RK_CLEANUP_ERR struct rk_err details = RK_ERR_INIT;
	RK_CLEANUP_BMC struct rk_bmc *bmc = NULL;
	struct runner r = { .world = world, .plan = plan, .arena = arena, .results = results, .err = &details,
			    .dark = rk_arena_array(arena, world->site->n_racks + 1, sizeof(*r.dark)) };
	int rc = rk_bmc_open(world, &bmc, err);

	if (!rc)
		rc = guard(&r, err);
	if (rc || rk_store_trying(world->store))
		return rc;
	r.bmc = bmc;
	r.start_ms = rk_clock_ms(world->env.clock);
	for (size_t i = 0; i < plan->n_steps; i++)
		take_step(&r, i);
	rc = conclude(&r, err);
	for (size_t i = 0; rc && i < details.n_details; i++)
		rk_err_detail(err, "%s", details.details[i]);
	int released = release(&r, rc && err ? err->message : NULL, rc ? NULL : err);
	return rc ? rc : released;
}
