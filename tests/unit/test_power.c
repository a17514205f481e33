/* Power: budgets, the timetable, and following it on the twin with faults and leaks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "inventory/base/str.h"
#include "inventory/store_impl.h"
#include "provision/place.h"
#include "provision/power_meter.h"
#include "tests/contract/sim_world.h"

#define near(a, b) (fabs((a) - (b)) < 1e-6)

/* ---- the plan ------------------------------------------------------------------------------------------------------------------------- */

/* Racks r01 and r02 in hall a, r03 in hall b; 18 trays each. */
static struct rk_site *make_site(void)
{
	static const char text[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\",\"racks\":[{\"name\":\"r[01-02]\",\"location\":\"a\",\"powerKw\":142},"
				   "{\"name\":\"r03\",\"location\":\"b\",\"powerKw\":142}],\"tenants\":[{\"name\":\"t\"}]}";
	struct rk_site *s = NULL;

	assert_int_equal(rk_site_parse("s", text, strlen(text), &s, NULL), 0);
	rk_site_invent(s);
	return s;
}

static void all_are(const struct rk_site *s, struct rk_power_now *now, enum rk_power_state state)
{
	for (size_t t = 0; t < s->n_trays; t++) {
		now->trays[t].power = state;
		now->trays[t].leak_read = true;
	}
	for (size_t r = 0; r < s->n_racks; r++)
		for (int i = 0; i < 9; i++)
			now->switches[r][i].power = state;
}

/* "0 r01 switches 9 @0" per step, then "!r01-t03: why" per refusal. */
static const char *timetable(const struct rk_site *s, const char *selection, const struct rk_power_options *o, const struct rk_power_now *now,
			     struct rk_arena *arena, struct rk_power_plan *plan)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;

	if (rk_power_plan(s, selection, NULL, o, now, arena, plan, &err))
		fail_msg("%s", err.message);
	for (size_t i = 0; i < plan->n_steps; i++) {
		const struct rk_power_step *step = &plan->steps[i];
		rk_str_addf(&out, "%d %s %s%zu %g/%g/%g\n", step->at_s, s->racks[step->rack].name, step->switches ? "sw" : "t", step->n, step->rack_kw, step->row_kw,
			    step->site_kw);
	}
	for (size_t i = 0; i < plan->n_refusals; i++)
		rk_str_addf(&out, "!%s: %s\n", plan->refusals[i].targets, plan->refusals[i].why);
	return rk_arena_strdup(arena, rk_str_text(&out));
}

static void switch_trays_come_first_and_rows_rise_step_by_step(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site();
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_power_now now;
	struct rk_power_plan plan;

	(void)state;
	rk_power_unread(s, arena, &now);
	all_are(s, &now, RK_POWER_OFF);
	assert_string_equal(timetable(s, "r01,r02,r03", &(struct rk_power_options){ .on = true, .wave = 9 }, &now, arena, &plan),
			    "0 r01 sw9 0/0/0\n0 r03 sw9 0/0/0\n20 r02 sw9 0/0/0\n"
			    "180 r01 t9 67.5/67.5/67.5\n180 r03 t9 67.5/67.5/135\n"
			    "200 r01 t9 135/135/202.5\n200 r03 t9 135/135/270\n"
			    "220 r02 t9 67.5/202.5/337.5\n240 r02 t9 135/270/405\n");
	assert_int_equal(plan.seconds, 260);
	assert_true(near(plan.kw_before, 0) && near(plan.kw_after, 405));
}

static void what_is_as_wanted_is_left_alone(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site();
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_power_now now;
	struct rk_power_plan plan;

	(void)state;
	rk_power_unread(s, arena, &now);
	all_are(s, &now, RK_POWER_ON);
	assert_string_equal(timetable(s, "r01", &(struct rk_power_options){ .on = true }, &now, arena, &plan), "");
	now.trays[3].power = RK_POWER_OFF;
	assert_string_equal(timetable(s, "r01", &(struct rk_power_options){ .on = true }, &now, arena, &plan), "0 r01 t1 135/270/405\n");
	assert_int_equal(plan.done, 17 + 9);
}

static void switch_trays_go_last_and_only_with_the_whole_rack(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site();
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_power_now now;
	struct rk_power_plan plan;

	(void)state;
	rk_power_unread(s, arena, &now);
	all_are(s, &now, RK_POWER_ON);
	assert_string_equal(timetable(s, "r03", &(struct rk_power_options){ .wave = 9 }, &now, arena, &plan),
			    "0 r03 t9 67.5/67.5/337.5\n20 r03 t9 0/0/270\n200 r03 sw9 0/0/270\n");
	assert_string_equal(timetable(s, "r03-t[01-02]", &(struct rk_power_options){ .on = false }, &now, arena, &plan), "0 r03 t2 120/120/390\n");
}

static void racks_may_be_selected_without_some_trays(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site();
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_power_now now;
	struct rk_power_plan plan;

	(void)state;
	rk_power_unread(s, arena, &now);
	all_are(s, &now, RK_POWER_ON);
	assert_int_equal(rk_power_plan(s, "r[01,03]", "r01-t[02-18]", &(struct rk_power_options){ .wave = 18 }, &now, arena, &plan, NULL), 0);
	assert_int_equal(plan.n_steps, 3); /* r01-t01; r03 and its switch trays */
	assert_int_equal(plan.steps[0].n, 1);
	assert_int_equal(plan.steps[1].n, 18);
	assert_true(plan.steps[2].switches);
}

static void trays_with_vms_stay_on_unless_forced(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site();
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_cluster cluster = { .name = "a", .size = "nd128isr-gb300-v6", .ib = RK_NONE };
	struct rk_vm vm = { .name = "a-01", .tray = 1, .state = RK_VM_RUNNING };
	struct rk_power_now now;
	struct rk_power_plan plan;

	(void)state;
	s->clusters = &cluster;
	s->vms = &vm;
	s->trays[1].vm = 0;
	rk_power_unread(s, arena, &now);
	all_are(s, &now, RK_POWER_ON);
	assert_string_equal(timetable(s, "r01-t[01-02]", &(struct rk_power_options){ .on = false }, &now, arena, &plan),
			    "0 r01 t1 127.5/262.5/397.5\n!r01-t02: VM a-01 is on it: stop it, or --force\n");
	assert_string_equal(timetable(s, "r01-t[01-02]", &(struct rk_power_options){ .force = true }, &now, arena, &plan), "0 r01 t2 120/255/390\n");
	vm.state = RK_VM_STOPPED;
	assert_string_equal(timetable(s, "r01-t02", &(struct rk_power_options){ .on = false }, &now, arena, &plan), "0 r01 t1 127.5/262.5/397.5\n");
}

static void leaks_power_and_coolant_refuse(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site();
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_power_now now;
	struct rk_power_plan plan;
	const struct rk_power_options on = { .on = true, .wave = 18 };

	(void)state;
	rk_power_unread(s, arena, &now);
	all_are(s, &now, RK_POWER_OFF);
	now.trays[2].leak = "LeakDetector_1 Critical";
	assert_string_equal(timetable(s, "r01", &on, &now, arena, &plan),
			    "0 r01 sw9 0/0/0\n180 r01 t17 127.5/127.5/127.5\n!r01-t03: leak: LeakDetector_1 Critical\n");
	/* A mark that was kept counts as long as the detectors do not say dry. */
	now.trays[2].leak = NULL;
	s->trays[2].leak = "wet";
	assert_null(strstr(timetable(s, "r01", &on, &now, arena, &plan), "!"));
	now.trays[2].leak_read = false;
	assert_non_null(strstr(timetable(s, "r01", &on, &now, arena, &plan), "!r01-t03: leak: wet\n"));
	now.trays[5].leak = "x";
	assert_null(strstr(timetable(s, "r01-t01", &on, &now, arena, &plan), " r01 t"));
	assert_non_null(strstr(timetable(s, "r01-t01", &on, &now, arena, &plan), "!r01-t01: leak alarm of the rack\n"));
	now.switches[1][2].leak = "D Critical";
	assert_string_equal(timetable(s, "r02-t01", &on, &now, arena, &plan), "!r02-t01: r02-nvsw3 leaks: D Critical\n");
	now.switches[1][2].leak = NULL;
	s->racks[1].power_kw = 20;
	assert_non_null(strstr(timetable(s, "r02-t[01-03]", &on, &now, arena, &plan), "!r02-t03: power 15 of 20 kW, needs 7.5 more\n"));
	now.racks[2].supply_c = 45;
	now.racks[2].flow_lpm = 177.0 / 142 * 10; /* carries away 10 kW */
	assert_string_equal(timetable(s, "r03-t[01-03]", &on, &now, arena, &plan),
			    "0 r03 sw9 0/0/0\n180 r03 t1 7.5/7.5/7.5\n!r03-t02,r03-t03: cooling 7.5 of 10 kW, needs 7.5 more\n");
}

static void cooling_follows_the_profiles_table(void **state)
{
	static const struct {
		double supply, flow, needed, kw;
	} rows[] = { { 25, 59, 59, 142 }, { 20, 59, 59, 142 }, { 30, 35.5, 71, 71 }, { 32.5, 80, 80, 142 }, { 45, 200, 177, 142 }, { 48, 500, NAN, 0 }, { 1, 500, 59, 0 } };
	struct rk_site *s RK_CLEANUP_SITE = make_site();
	struct rk_cooling c;

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		rk_power_cooling(s, 0, rows[i].supply, rows[i].flow, &c);
		assert_true(isnan(rows[i].needed) ? isnan(c.flow_needed_lpm) : near(c.flow_needed_lpm, rows[i].needed));
		assert_true(near(c.kw, rows[i].kw));
	}
	rk_power_cooling(s, 0, NAN, NAN, &c);
	assert_true(isnan(c.kw) && near(c.supply_max_c, 50));
}

static void sums_are_unknown_when_a_part_is(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site();
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	bool *mine = rk_arena_array(arena, s->n_trays, sizeof(*mine));
	struct rk_power_now now, before;
	struct rk_power_meter m;

	(void)state;
	rk_power_unread(s, arena, &now);
	rk_power_unread(s, arena, &before);
	mine[0] = mine[1] = true;
	for (int t = 0; t < 2; t++) {
		before.trays[t].watts = 1000;
		now.trays[t].watts = 3000;
		before.trays[t].kwh = 10;
		now.trays[t].kwh = 10.5;
	}
	rk_power_sum(s, &now, &before, 900, mine, RK_NONE, &m);
	assert_true(near(m.kw, 6) && near(m.interval_kwh, 1) && near(m.mean_kw, 4) && isnan(m.module_kw));
	now.trays[1].kwh = 3; /* the counter began anew */
	rk_power_sum(s, &now, &before, 900, mine, RK_NONE, &m);
	assert_true(isnan(m.interval_kwh) && near(m.mean_kw, 4));
	now.trays[1].kwh = before.trays[1].kwh; /* too coarse for the time */
	rk_power_sum(s, &now, &before, 900, mine, RK_NONE, &m);
	assert_true(isnan(m.interval_kwh) && near(m.mean_kw, 4));
	now.trays[1].watts = NAN;
	rk_power_sum(s, &now, NULL, 0, mine, RK_NONE, &m);
	assert_true(isnan(m.kw) && isnan(m.mean_kw));
	assert_int_equal(m.unmetered, 1);
}

/* ---- following it ----------------------------------------------------------------------------------------------------------------------- */

struct run {
	struct sim_world w;
	struct rk_arena *arena;
	struct rk_err err;
	struct rk_power_plan plan;
	struct rk_power_result *results;
	const char *fault_at_first_step, *hooks_at_first_step;
	struct rk_sim *sim;
	bool taken_at_first_step, marks_mislaid_at_first_step;
	int told;
	struct rk_str order;              /* of trays that are forced off and hooks that fail */
};

static void on_progress(void *ctx, const char *text)
{
	struct run *run = ctx;

	if (strstr(text, "forced off") || strstr(text, "hook"))
		rk_str_addf(&run->order, "%s\n", text);
	if (run->told == 0 && run->hooks_at_first_step) {
		/* As on a real site: in the twin no hook is run. */
		run->sim = run->w.world.sim;
		run->w.world.sim = NULL;
		run->w.world.site->hooks = run->hooks_at_first_step;
	}
	if (run->told++ == 0 && run->taken_at_first_step)
		sim_must(rk_store_op_set(run->w.world.store, 1, "resumable", "taken over from tester@here", err));
	if (run->told == 1 && run->marks_mislaid_at_first_step)
		sim_must(rk_db_exec(run->w.world.store->db, err, "ALTER TABLE marks RENAME TO mislaid"));
	if (run->told == 1 && run->fault_at_first_step)
		sim_must(rk_sim_fault_add(run->sim ? run->sim : run->w.world.sim, run->fault_at_first_step, err));
}

static int start(void **state)
{
	struct run *run = rk_xcalloc(1, sizeof(*run));

	sim_world_open(&run->w, NULL);
	run->w.world.progress = on_progress;
	run->w.world.progress_ctx = run;
	run->arena = rk_arena_new();
	*state = run;
	return 0;
}

static int stop(void **state)
{
	struct run *run = *state;

	sim_world_close(&run->w);
	rk_str_clear(&run->order);
	rk_err_clear(&run->err);
	rk_arena_free(run->arena);
	free(run);
	return 0;
}

static int go(struct run *run, bool on, const char *selection)
{
	const struct rk_power_options o = { .on = on, .wave = 2 };
	struct rk_power_now now;
	bool *racks;

	rk_err_clear(&run->err);
	sim_must(rk_power_racks(run->w.world.site, selection, NULL, run->arena, &racks, err));
	sim_must(rk_power_read(&run->w.world, racks, RK_BMC_POWER | RK_BMC_LEAK | RK_BMC_COOLANT, run->arena, &now, err));
	sim_must(rk_power_plan(run->w.world.site, selection, NULL, &o, &now, run->arena, &run->plan, err));
	rk_power_now_clear(&now);
	run->results = rk_arena_array(run->arena, run->plan.n_steps + 1, sizeof(*run->results));
	return rk_power_run(&run->w.world, &run->plan, run->arena, run->results, &run->err);
}

/* State of every compute tray, then of the switch trays, of a rack as letters: "nnff/nnnnnnnnn". */
static const char *seen(struct run *run, int rack)
{
	static const char letters[] = { '?', 'f', 'n', 'c' };
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_power_now now;

	sim_must(rk_power_read(&run->w.world, NULL, RK_BMC_POWER, run->arena, &now, err));
	for (int t = 0; t < 4; t++)
		rk_str_addc(&out, letters[now.trays[rack * 4 + t].power]);
	rk_str_addc(&out, '/');
	for (int s = 0; s < 9; s++)
		rk_str_addc(&out, letters[now.switches[rack][s].power]);
	rk_power_now_clear(&now);
	return rk_arena_strdup(run->arena, rk_str_text(&out));
}

static const char *last_op_state(struct run *run)
{
	struct rk_op_row *rows;
	size_t n;

	sim_must(rk_store_op_list(run->w.world.store, run->arena, &rows, &n, err));
	assert_true(n > 0);
	return rows[0].state;
}

static void racks_go_off_and_on_again(void **state)
{
	struct run *run = *state;

	assert_string_equal(seen(run, 0), "nnnn/nnnnnnnnn");
	assert_int_equal(go(run, false, "r1"), 0);
	assert_string_equal(seen(run, 0), "ffff/fffffffff");
	assert_string_equal(seen(run, 1), "nnnn/nnnnnnnnn");
	sim_must(rk_world_refresh(&run->w.world, err));
	assert_string_equal(run->w.world.site->trays[0].offline, "powered off"); /* nothing is placed on it */
	assert_null(run->w.world.site->trays[4].offline);
	int64_t before = rk_clock_ms(run->w.clock);
	assert_int_equal(go(run, true, "r1"), 0);
	assert_string_equal(seen(run, 0), "nnnn/nnnnnnnnn");
	assert_true(rk_clock_ms(run->w.clock) - before >= 200 * 1000); /* the timetable was kept, on the twin's clock */
	assert_string_equal(last_op_state(run), "done");
	sim_must(rk_world_refresh(&run->w.world, err));
	assert_null(run->w.world.site->trays[0].offline);
	assert_int_equal(go(run, true, "r1"), 0);
	assert_int_equal(run->plan.n_steps, 0);
}

static void a_run_that_was_taken_over_does_not_say_how_it_ended(void **state)
{
	struct run *run = *state;

	run->taken_at_first_step = true;
	assert_int_equal(go(run, false, "r1"), 0);
	assert_string_equal(last_op_state(run), "resumable");
}

/* Or VMs would be placed on what is off. */
static void a_tray_whose_mark_could_not_be_kept_is_told(void **state)
{
	struct run *run = *state;

	run->marks_mislaid_at_first_step = true;
	assert_int_equal(go(run, false, "r1-t01"), RK_PARTIAL);
	assert_string_equal(run->err.message, "1 trays were switched off, and the store does not say so of all of them");
	assert_non_null(strstr(run->err.details[0], "the mark \"powered off\" of r1 could not be kept: "));
	sim_must(rk_db_exec(run->w.world.store->db, err, "ALTER TABLE mislaid RENAME TO marks"));
	assert_string_equal(seen(run, 0), "fnnn/nnnnnnnnn");
}

static void a_lost_answer_is_no_failure(void **state)
{
	struct run *run = *state;

	sim_must(rk_sim_fault_add(run->w.world.sim, "bmc.set@r1-t02#1=lost", err));
	assert_int_equal(go(run, false, "r1"), 0);
	assert_string_equal(seen(run, 0), "ffff/fffffffff");
}

static void a_bmc_that_lies_is_found_out(void **state)
{
	struct run *run = *state;

	sim_must(rk_sim_fault_add(run->w.world.sim, "bmc.set@r1-t02=lie", err));
	assert_int_equal(go(run, false, "r1-t[01-02]"), RK_PARTIAL);
	assert_string_equal(seen(run, 0), "fnnn/nnnnnnnnn");
	assert_int_equal(run->err.n_details, 1);
	assert_string_equal(run->err.details[0], "r1-t02: is on after 180 s, not off");
	assert_string_equal(last_op_state(run), "failed");
}

static void compute_stays_off_when_a_switch_tray_does_not_come(void **state)
{
	struct run *run = *state;

	assert_int_equal(go(run, false, "r[1-2]"), 0);
	sim_must(rk_sim_fault_add(run->w.world.sim, "bmc.set@r1-nvsw4=fail", err));
	assert_int_equal(go(run, true, "r[1-2]"), RK_PARTIAL);
	assert_string_equal(seen(run, 0), "ffff/nnnfnnnnn");
	assert_string_equal(seen(run, 1), "nnnn/nnnnnnnnn");
	for (size_t i = 0; i < run->plan.n_steps; i++)
		if (run->plan.steps[i].rack == 0 && !run->plan.steps[i].switches)
			assert_string_equal(run->results[i].state, "skipped");
}

static void a_leak_on_the_way_stops_everything_and_is_kept(void **state)
{
	struct run *run = *state;

	assert_int_equal(go(run, false, "r[1-2]"), 0);
	run->told = 0;
	run->fault_at_first_step = "leak@r1-t01/2";
	assert_int_equal(go(run, true, "r[1-2]"), RK_PARTIAL);
	assert_non_null(strstr(run->err.message, "r1-t01 leaks"));
	assert_string_equal(seen(run, 0), "ffff/nnnnnnnnn");
	sim_must(rk_world_refresh(&run->w.world, err));
	assert_string_equal(run->w.world.site->trays[0].leak, "LeakDetector_3 Critical");
	/* Known from now on: refused, the others go on. */
	assert_int_equal(go(run, true, "r[1-2]"), 0);
	assert_string_equal(seen(run, 0), "fnnn/nnnnnnnnn");
	assert_int_equal(run->plan.n_refusals, 1);
}

static void a_tray_that_begins_to_leak_is_forced_off(void **state)
{
	struct run *run = *state;

	assert_int_equal(go(run, false, "r1-t04"), 0);
	sim_must(rk_sim_fault_add(run->w.world.sim, "leak@r1-t01/0", err));
	run->results = NULL;
	assert_int_equal(go(run, true, "r1-t04"), RK_UNHEALTHY);
	assert_string_equal(seen(run, 0), "fnnf/nnnnnnnnn");
}

static void trays_that_leak_are_off_before_a_hook_may_hang(void **state)
{
	struct run *run = *state;

	assert_int_equal(go(run, false, "r[1-2]"), 0);
	run->told = 0;
	run->fault_at_first_step = "leak@r1-t01/2,leak@r1-t02/2";
	run->hooks_at_first_step = "{\"leak\": \"exit 3\"}";
	assert_int_equal(go(run, true, "r[1-2]"), RK_PARTIAL);
	run->w.world.sim = run->sim;
	assert_string_equal(rk_str_text(&run->order), "r1-t01 leaks: forced off\nthe site's hook for \"leak\": it ended with status 3\n"
						      "r1-t02 leaks: forced off\nthe site's hook for \"leak\": it ended with status 3\n");
}

static void coolant_that_carries_too_little_away_is_an_interlock(void **state)
{
	struct run *run = *state;

	assert_int_equal(go(run, false, "r1"), 0);
	run->told = 0;
	run->fault_at_first_step = "coolant@r1/45/12.5"; /* 10 kW */
	assert_int_equal(go(run, true, "r1"), RK_PARTIAL);
	assert_non_null(strstr(run->err.message, "coolant of r1: 12.5 l/min at 45 C carries away 10.03 of 15 kW"));
	assert_string_equal(seen(run, 0), "ffff/nnnnnnnnn");
}

static void one_at_a_time_per_rack(void **state)
{
	struct run *run = *state;
	int64_t op = 0;

	sim_must(rk_store_op_add(run->w.world.store, "power off", "{\"type\":\"power\"}", &op, err));
	sim_must(rk_store_lease_take(run->w.world.store, "power:r1", op, "power off", err));
	assert_int_equal(go(run, false, "r1"), RK_CONFLICT);
	assert_int_equal(go(run, false, "r2"), 0);
	assert_string_equal(seen(run, 0), "nnnn/nnnnnnnnn");
}

static void what_is_read_is_kept_and_heals(void **state)
{
	struct run *run = *state;
	struct rk_power_now now;
	int leaks;

	for (int wet = 1; wet >= 0; wet--) {
		sim_must(rk_sim_fault_add(run->w.world.sim, wet ? "leak@r1-t02/1,coolant@r1/30/71" : "leak-dry@r1-t02/1", err));
		sim_must(rk_power_read(&run->w.world, NULL, RK_BMC_LEAK | RK_BMC_COOLANT, run->arena, &now, err));
		sim_must(rk_power_keep(&run->w.world, NULL, &now, &leaks, err));
		rk_power_now_clear(&now);
		assert_int_equal(leaks, wet);
		assert_int_equal(run->w.world.site->trays[1].leak != NULL, wet);
		assert_true(near(run->w.world.site->racks[0].supply_c, 30) && near(run->w.world.site->racks[0].flow_lpm, 71));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(switch_trays_come_first_and_rows_rise_step_by_step),
		cmocka_unit_test(what_is_as_wanted_is_left_alone),
		cmocka_unit_test(switch_trays_go_last_and_only_with_the_whole_rack),
		cmocka_unit_test(racks_may_be_selected_without_some_trays),
		cmocka_unit_test(trays_with_vms_stay_on_unless_forced),
		cmocka_unit_test(leaks_power_and_coolant_refuse),
		cmocka_unit_test(cooling_follows_the_profiles_table),
		cmocka_unit_test(sums_are_unknown_when_a_part_is),
		cmocka_unit_test_setup_teardown(racks_go_off_and_on_again, start, stop),
		cmocka_unit_test_setup_teardown(a_run_that_was_taken_over_does_not_say_how_it_ended, start, stop),
		cmocka_unit_test_setup_teardown(a_tray_whose_mark_could_not_be_kept_is_told, start, stop),
		cmocka_unit_test_setup_teardown(a_lost_answer_is_no_failure, start, stop),
		cmocka_unit_test_setup_teardown(a_bmc_that_lies_is_found_out, start, stop),
		cmocka_unit_test_setup_teardown(compute_stays_off_when_a_switch_tray_does_not_come, start, stop),
		cmocka_unit_test_setup_teardown(a_leak_on_the_way_stops_everything_and_is_kept, start, stop),
		cmocka_unit_test_setup_teardown(a_tray_that_begins_to_leak_is_forced_off, start, stop),
		cmocka_unit_test_setup_teardown(trays_that_leak_are_off_before_a_hook_may_hang, start, stop),
		cmocka_unit_test_setup_teardown(coolant_that_carries_too_little_away_is_an_interlock, start, stop),
		cmocka_unit_test_setup_teardown(one_at_a_time_per_rack, start, stop),
		cmocka_unit_test_setup_teardown(what_is_read_is_kept_and_heals, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
