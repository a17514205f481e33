/* What only time tells: growth since earlier validations, boot grace, strikes, trends, silences, and what the site says about cordons. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "inventory/site_file.h"
#include "provision/health/memory.h"
#include "provision/health/report.h"
#include "provision/health/run.h"
#include "tests/contract/profile_text.h"

enum { MINUTE = 60000, HOUR = 60 * MINUTE };
static const int64_t NOW = 1000 * (int64_t)HOUR;

#define PROFILE(rules)                                                                                                                  \
	"{\"apiVersion\":\"racksh/v1\",\"kind\":\"Profile\",\"name\":\"x\",\"levels\":{\"quick\":[\"ib-counters\",\"chrony\"]},\"rules\":{" rules "}}"
#define GROWTH(more)                                                                                                                    \
	"\"g\":{\"collector\":\"ib-counters\",\"metric\":\"ib.counter.symbol\",\"compare\":\"growth\",\"message\":\"m\",\"source\":\"s\"," more "}"

/* One target whose port shows this many symbol errors in its only sample; up: seconds, -1 not told. */
static void make(struct rk_arena *arena, struct rk_target *t, double symbols, int up)
{
	const char *head = up < 0 ? "" : rk_arena_printf(arena, "# Host up for %d s\n", up);

	*t = (struct rk_target){ .name = "a-01", .kind = "vm", .tray = "r01-t01", .rack = "r01", .cluster = "a", .at_ms = NOW, .n_evidence = 1,
				 .evidence = rk_arena_array(arena, 1, sizeof(struct rk_evidence)) };
	t->evidence[0] = (struct rk_evidence){ .collector = "ib-counters", .status = "0", .err = "",
					       .out = rk_arena_printf(arena, "%s# Port extended counters: Lid 9 port 1\nSymbolErrorCounter:...%.0f\n", head, symbols) };
	t->evidence[0].out_len = strlen(t->evidence[0].out);
}

static const struct rk_check *judge(const char *rules, const struct rk_target *t, struct rk_arena *arena, struct rk_report *report)
{
	struct rk_hprofile *p RK_CLEANUP(rk_cleanup_hprofile) = profile_of(rules);

	assert_int_equal(rk_judge(p, "quick", t, 1, arena, report, NULL), 0);
	for (size_t i = 0; i < report->n_checks; i++) {
		if (strcmp(report->checks[i].id, "g") == 0)
			return &report->checks[i];
	}
	fail_msg("no row of the rule");
	return NULL;
}

static void growth_is_judged_against_what_was_kept(void **state)
{
	static const struct {
		const char *rule;
		double before, now;
		int64_t ago;
		int up;
		const char *verdict, *value;
	} rows[] = {
		{ PROFILE(GROWTH("\"value\":10")), 100, 105, HOUR, -1, "pass", "5" },
		{ PROFILE(GROWTH("\"value\":10")), 100, 111, HOUR, -1, "fail", "11" },
		{ PROFILE(GROWTH("\"value\":10,\"per\":\"hour\"")), 100, 140, 5 * HOUR, -1, "pass", "8" },
		{ PROFILE(GROWTH("\"value\":10,\"per\":\"hour\"")), 100, 160, 5 * HOUR, -1, "fail", "12" },
		/* Less than one unit counts as one. */
		{ PROFILE(GROWTH("\"value\":10,\"per\":\"hour\"")), 100, 109, MINUTE, -1, "pass", "9" },
		{ PROFILE(GROWTH("\"value\":10,\"per\":\"minute\"")), 100, 400, 10 * MINUTE, -1, "fail", "30" },
		/* Reset: what it shows is the growth. */
		{ PROFILE(GROWTH("\"value\":10")), 100, 3, HOUR, -1, "pass", "3" },
		/* Booted since: nothing to compare with. */
		{ PROFILE(GROWTH("\"value\":10")), 100, 500, 2 * HOUR, 3600, "skipped", "no earlier" },
		{ PROFILE(GROWTH("\"value\":10")), 100, 500, 2 * HOUR, 9000, "fail", "400" },
		{ PROFILE(GROWTH("\"value\":10,\"grace\":30")), 100, 500, 10 * MINUTE, 1200, "skipped", "up for 20 minutes" },
		{ PROFILE(GROWTH("\"value\":10,\"grace\":30")), 100, 500, 10 * MINUTE, 1801, "fail", "400" },
		{ PROFILE(GROWTH("\"value\":10,\"grace\":30")), 100, 500, 10 * MINUTE, -1, "fail", "400" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
		const struct rk_past past = { NOW - rows[i].ago, rk_arena_printf(arena, "{\"counters\":{\"ib.counter.symbol{rail=0}\":%.0f},\"strikes\":{}}", rows[i].before) };
		struct rk_target t;
		struct rk_report r;
		make(arena, &t, rows[i].now, rows[i].up);
		t.past = &past;
		t.n_past = 1;
		const struct rk_check *c = judge(rows[i].rule, &t, arena, &r);
		if (strcmp(c->verdict, rows[i].verdict) != 0 || !strstr(c->value, rows[i].value))
			fail_msg("row %zu: %s %s, expected %s %s", i, c->verdict, c->value, rows[i].verdict, rows[i].value);
	}
}

static void without_an_earlier_validation_nothing_is_said_about_growth(void **state)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_target t;
	struct rk_report r;

	(void)state;
	make(arena, &t, 500, -1);
	assert_string_equal(judge(PROFILE(GROWTH("\"value\":10")), &t, arena, &r)->verdict, "skipped");
	/* What is kept is what the next one needs; nothing of a replay. */
	assert_string_equal(r.memories[0], "{\"counters\":{\"ib.counter.symbol{rail=0}\":500},\"strikes\":{}}");
	t.at_ms = 0;
	judge(PROFILE(GROWTH("\"value\":10")), &t, arena, &r);
	assert_null(r.memories[0]);
}

/* The same fault in validations one after another, each with what the one before kept. */
static void a_fault_counts_when_it_strikes_often_enough(void **state)
{
	static const char rule[] = PROFILE("\"g\":{\"collector\":\"ib-counters\",\"metric\":\"ib.counter.symbol\",\"compare\":\"<=\",\"value\":10,\"strikes\":3,"
					   "\"message\":\"m\",\"source\":\"s\"}");
	static const struct {
		double symbols;
		bool silent; /* the tool is missing: unknown */
		const char *verdict;
	} runs[] = { { 11, false, "warn" }, { 11, false, "warn" }, { 0, true, "unknown" }, { 11, false, "fail" }, { 11, false, "fail" }, { 1, false, "pass" }, { 11, false, "warn" } };
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_past past = { 0, NULL };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(runs); i++) {
		struct rk_target t;
		struct rk_report r;
		make(arena, &t, runs[i].symbols, -1);
		if (runs[i].silent)
			t.evidence[0] = (struct rk_evidence){ "ib-counters", "", 0, "", 0, "127" };
		t.at_ms += (int64_t)i * HOUR;
		t.past = &past;
		t.n_past = past.body != NULL;
		const struct rk_check *c = judge(rule, &t, arena, &r);
		if (strcmp(c->verdict, runs[i].verdict) != 0)
			fail_msg("run %zu: %s (%s), expected %s", i, c->verdict, c->value, runs[i].verdict);
		if (r.memories[0])
			past = (struct rk_past){ t.at_ms, r.memories[0] };
	}
}

static void a_counter_that_grows_faster_and_faster_is_a_trend(void **state)
{
	static const struct {
		double kept[3]; /* newest first, one hour apart, the newest one hour ago */
		double now;
		size_t trends;
	} rows[] = { { { 130, 110, 100 }, 170, 1 }, { { 120, 110, 100 }, 130, 0 }, { { 100, 100, 100 }, 140, 0 }, { { 150, 110, 100 }, 160, 0 } };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
		struct rk_past past[3];
		struct rk_target t;
		struct rk_report r;
		for (int k = 0; k < 3; k++)
			past[k] = (struct rk_past){ NOW - (k + 1) * (int64_t)HOUR, rk_arena_printf(arena, "{\"counters\":{\"ib.counter.symbol{rail=0}\":%.0f}}", rows[i].kept[k]) };
		make(arena, &t, rows[i].now, -1);
		t.past = past;
		t.n_past = 3;
		judge(PROFILE(GROWTH("\"value\":1000")), &t, arena, &r);
		assert_int_equal(r.n_trends, rows[i].trends);
		if (r.n_trends)
			assert_string_equal(rk_report_trend_text(&r.trends[0], arena), "a-01 rail=0: ib.counter.symbol grows 10, 20, 40 per hour");
	}
}

static void a_silenced_finding_is_shown_and_does_not_count(void **state)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_silence other = { 1, "r01-t01", "gpu.*", "other", "ann@x 1", NOW - HOUR, NOW + HOUR }, own = { 2, "r01-t01", "g*", "new cable", "ann@x 1", NOW - HOUR, NOW + HOUR };
	const struct rk_silence *silences[] = { &other };
	const struct rk_past past = { NOW - HOUR, "{\"counters\":{\"ib.counter.symbol{rail=0}\":1}}" };
	struct rk_str json RK_CLEANUP_STR = RK_STR_INIT, html RK_CLEANUP_STR = RK_STR_INIT, junit RK_CLEANUP_STR = RK_STR_INIT, map RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_target t;
	struct rk_report r;
	struct rk_jw w;

	(void)state;
	make(arena, &t, 500, -1);
	t.past = &past;
	t.n_past = 1;
	t.silences = silences;
	t.n_silences = 1;
	assert_string_equal(judge(PROFILE(GROWTH("\"value\":10")), &t, arena, &r)->verdict, "fail");
	silences[0] = &own;
	const struct rk_check *c = judge(PROFILE(GROWTH("\"value\":10,\"effect\":\"cordon\",\"cause\":\"ib-link\"")), &t, arena, &r);
	assert_string_equal(c->verdict, "skipped");
	assert_string_equal(c->silenced, "fail");
	assert_ptr_equal(c->silence, &own);
	assert_string_not_equal(r.verdict, "fail");
	assert_int_equal(r.n_root_causes, 0);
	const char *why;
	assert_null(rk_report_cordon(&r, arena, &why));
	rk_jw_init(&w, &json, 0);
	rk_report_json(&w, &r);
	assert_non_null(strstr(rk_str_text(&json), "\"silenced\":{\"id\":2,\"verdict\":\"fail\",\"reason\":\"new cable\",\"by\":\"ann@x 1\",\"until\":\""));
	rk_report_html(&html, &r, &(struct rk_report_head){ "x", NULL });
	assert_non_null(strstr(rk_str_text(&html), "silenced fail"));
	assert_non_null(strstr(rk_str_text(&html), "by ann@x 1: new cable"));
	rk_report_junit(&junit, &r, &(struct rk_report_head){ "x", NULL });
	assert_non_null(strstr(rk_str_text(&junit), "<skipped message=\"fail, silenced until"));
	rk_report_map(&map, &r);
	assert_non_null(strstr(rk_str_text(&map), "r01      s"));
}

static void a_silent_target_that_is_silenced_is_no_unknown(void **state)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_hprofile *p RK_CLEANUP(rk_cleanup_hprofile) = profile_of(PROFILE(GROWTH("\"value\":10")));
	const struct rk_past past = { NOW - HOUR, "{\"counters\":{\"ib.counter.symbol{rail=0}\":1}}" };
	struct rk_silence all = { 1, "r01-t01", NULL, "moved", "ann@x 1", 0, NOW };
	const struct rk_silence *silences[] = { &all };
	struct rk_target t[2];
	struct rk_report r;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		make(arena, &t[i], 1, -1);
		t[i].past = &past;
		t[i].n_past = 1;
	}
	t[1].name = "a-02";
	t[0].n_evidence = 0;
	assert_int_equal(rk_judge(p, "quick", t, 2, arena, &r, NULL), 0);
	assert_string_equal(r.verdict, "unknown");
	assert_int_equal(rk_report_rc(&r, false), RK_UNREACHABLE);
	t[0].silences = silences;
	t[0].n_silences = 1;
	assert_int_equal(rk_judge(p, "quick", t, 2, arena, &r, NULL), 0);
	assert_string_equal(r.verdict, "pass"); /* of the other one, which was read */
	assert_int_equal(rk_report_rc(&r, false), 0);
	for (size_t i = 0; i < r.n_checks; i++)
		assert_string_not_equal(r.checks[i].verdict, "unknown");
	assert_string_equal(r.checks[0].verdict, "skipped");
	assert_string_equal(r.checks[0].silenced, "unknown");
	assert_ptr_equal(r.checks[0].silence, &all);
	assert_string_equal(r.checks[0].folded, "a-01");
	/* One that answers, but whose tool is missing, is unknown in the same way. */
	t[0].n_evidence = 1;
	t[0].evidence[0] = (struct rk_evidence){ "ib-counters", "", 0, "", 0, "127" };
	t[0].n_silences = 0;
	assert_int_equal(rk_judge(p, "quick", t, 2, arena, &r, NULL), 0);
	assert_string_equal(r.verdict, "unknown");
	t[0].n_silences = 1;
	assert_int_equal(rk_judge(p, "quick", t, 2, arena, &r, NULL), 0);
	assert_string_equal(r.verdict, "pass");
	/* Silenced on all of them, there is nothing that a verdict could be about. */
	assert_int_equal(rk_judge(p, "quick", t, 1, arena, &r, NULL), 0);
	assert_string_not_equal(r.verdict, "pass");
}

/* ---- the store ---------------------------------------------------------------------------------------------------------------------- */

static const struct rk_actor actor = { "ann", "x", 1 };

static void fill(struct rk_store *store, const char *health)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	char *text RK_CLEANUP_FREE = rk_xasprintf(
		"{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\",\"defaults\":{\"profile\":\"gb300-nvl72\"},%s\"racks\":[{\"name\":\"r01\",\"trays\":{\"count\":4}}]}", health);
	RK_CLEANUP_SITE struct rk_site *site = NULL;

	if (rk_site_parse("site", text, strlen(text), &site, &err))
		fail_msg("%s: %s", err.message, err.n_details ? err.details[0] : "");
	if (rk_store_put_site(store, site, &err))
		fail_msg("%s", err.message);
}

static void open_store(struct rk_world *world, const char *health)
{
	*world = (struct rk_world){ .store = NULL };
	assert_int_equal(rk_store_open("mem:", RK_STORE_WRITE, &actor, &world->store, NULL), 0);
	fill(world->store, health);
	assert_int_equal(rk_store_snapshot(world->store, &world->site, NULL), 0);
}

static void close_store(struct rk_world *world)
{
	rk_site_free(world->site);
	rk_store_close(world->store);
}

static void what_is_kept_comes_back_by_tray_newest_first(void **state)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_world world;
	struct rk_target t[2];
	struct rk_report r = { .targets = 1, .target_list = t };

	(void)state;
	open_store(&world, "");
	int64_t revision = world.site->revision;
	for (int i = 1; i <= 2 * RK_HEALTH_SAMPLES; i++) {
		make(arena, &t[0], 1, -1);
		t[0].at_ms = i * HOUR;
		const char *memory = rk_arena_printf(arena, "{\"n\":%d}", i);
		r.memories = &memory;
		assert_int_equal(rk_health_remember(world.store, &r, NULL), 0);
	}
	make(arena, &t[0], 1, -1);
	make(arena, &t[1], 1, -1);
	t[1].tray = "r01-t02";
	assert_int_equal(rk_health_recall(&world, t, 2, arena, NULL), 0);
	assert_int_equal(t[0].n_past, RK_HEALTH_SAMPLES);
	assert_string_equal(t[0].past[0].body, "{\"n\":16}");
	assert_string_equal(t[0].past[7].body, "{\"n\":9}");
	assert_int_equal(t[1].n_past, 0);
	/* It is no change of the site that others would run into. */
	RK_CLEANUP_SITE struct rk_site *now = NULL;
	assert_int_equal(rk_store_snapshot(world.store, &now, NULL), 0);
	assert_int_equal(now->revision, revision);
	close_store(&world);
}

static void silences_hold_for_their_trays_while_they_last(void **state)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_world world;
	struct rk_target t[2];
	int64_t id, now = rk_clock_unix_ms(NULL);
	const struct rk_silence rows[] = {
		{ .trays = "r01-t[01,03]", .checks = "ib.*", .reason = "a", .from_unix_ms = now - HOUR, .to_unix_ms = now + HOUR },
		{ .trays = "r01-t01", .reason = "ended", .from_unix_ms = now - HOUR, .to_unix_ms = now - MINUTE },
		{ .trays = "r01-t01", .reason = "not yet", .from_unix_ms = now + HOUR, .to_unix_ms = now + 2 * HOUR },
	};

	(void)state;
	open_store(&world, "");
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++)
		assert_int_equal(rk_store_add_silence(world.store, &rows[i], &id, NULL), 0);
	assert_int_equal(rk_store_remove_silence(world.store, 99, NULL), RK_NOT_FOUND);
	fill(world.store, ""); /* an import leaves them */
	assert_int_equal(rk_world_refresh(&world, NULL), 0);
	assert_int_equal(world.site->n_silences, 3);
	assert_string_equal(world.site->silences[0].by, "ann@x 1");
	make(arena, &t[0], 1, -1);
	make(arena, &t[1], 1, -1);
	t[1].tray = "r01-t02";
	assert_int_equal(rk_health_recall(&world, t, 2, arena, NULL), 0);
	assert_int_equal(t[0].n_silences, 1);
	assert_int_equal(t[1].n_silences, 0);
	assert_string_equal(rk_silence_of(&t[0], "ib.rate")->reason, "a");
	assert_null(rk_silence_of(&t[0], "gpu.count"));
	close_store(&world);
}

static void the_site_says_whether_trays_are_cordoned_without_a_question(void **state)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_world world;
	struct rk_audit_row *audit;
	const char *done;
	size_t n;

	(void)state;
	open_store(&world, "");
	assert_false(rk_health_cordons(world.site));
	fill(world.store, "\"health\":{\"cordon\":\"auto\"},");
	assert_int_equal(rk_world_refresh(&world, NULL), 0);
	assert_true(rk_health_cordons(world.site));
	/* Three of four trays: that is no fault of trays. */
	assert_int_equal(rk_health_cordon(&world, "r01-t[01-03]", "env.leak", 4, false, arena, &done, NULL), 0);
	assert_null(done);
	assert_int_equal(rk_health_cordon(&world, "r01-t[02-03]", "gpu.ecc.remap", 4, false, arena, &done, NULL), 0);
	assert_string_equal(done, "r01-t[02-03]");
	assert_int_equal(rk_world_refresh(&world, NULL), 0);
	assert_string_equal(world.site->trays[1].cordon, "health: gpu.ecc.remap");
	assert_null(world.site->trays[0].cordon);
	assert_int_equal(rk_store_audit_list(world.store, arena, &audit, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_string_equal(audit[0].command, "tray cordon r01-t[02-03] --reason 'health: gpu.ecc.remap'");
	/* Once is enough. */
	assert_int_equal(rk_health_cordon(&world, "r01-t02", "xid", 4, false, arena, &done, NULL), 0);
	assert_null(done);
	assert_string_equal(world.site->trays[1].cordon, "health: gpu.ecc.remap");
	close_store(&world);
}

static void a_word_that_is_neither_ask_nor_auto_is_refused(void **state)
{
	static const char text[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\",\"health\":{\"cordon\":\"maybe\"},\"racks\":[]}";
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	RK_CLEANUP_SITE struct rk_site *site = NULL;

	(void)state;
	assert_int_equal(rk_site_parse("site", text, strlen(text), &site, &err), RK_INVALID);
	assert_non_null(strstr(err.message, "unknown cordon \"maybe\""));
	assert_string_equal(err.hint, "one of ask|auto");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(growth_is_judged_against_what_was_kept),
		cmocka_unit_test(without_an_earlier_validation_nothing_is_said_about_growth),
		cmocka_unit_test(a_fault_counts_when_it_strikes_often_enough),
		cmocka_unit_test(a_counter_that_grows_faster_and_faster_is_a_trend),
		cmocka_unit_test(a_silenced_finding_is_shown_and_does_not_count),
		cmocka_unit_test(a_silent_target_that_is_silenced_is_no_unknown),
		cmocka_unit_test(what_is_kept_comes_back_by_tray_newest_first),
		cmocka_unit_test(silences_hold_for_their_trays_while_they_last),
		cmocka_unit_test(the_site_says_whether_trays_are_cordoned_without_a_question),
		cmocka_unit_test(a_word_that_is_neither_ask_nor_auto_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
