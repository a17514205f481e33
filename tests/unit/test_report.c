/* Reports as documents: counts, places and escaping. What hosts say is hostile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "inventory/site_file.h"
#include "provision/health/history.h"
#include "provision/health/prometheus.h"
#include "provision/health/report.h"

static const struct rk_target targets[] = {
	{ .name = "a-02", .kind = "vm", .rack = "r02", .cluster = "a", .tray = "r02-t03" },
	{ .name = "a-01", .kind = "vm", .rack = "r01", .cluster = "a", .tray = "r01-t02" },
	{ .name = "a-03", .kind = "vm", .rack = "r02", .cluster = "a", .tray = "r02-t04" },
};
static const char *bad[] = { "a-02" }, *odd[] = { "a-03" }, *all[] = { "a-01", "a-02", "a-03" };
static struct rk_check checks[] = {
	{ "gpu.x", "fail", "critical", "<script>alert(1)</script>&\x01\"'", "4", "every GPU is there", "drain it", "captures", true, bad, 1, "a-02", NULL, NULL },
	{ "ib.y", "unknown", "error", NULL, NULL, "ports", NULL, NULL, false, odd, 1, "a-03", NULL, NULL },
	{ "host.z", "warn", "warning", "5", "1", "clock", NULL, NULL, false, bad, 1, "a-02", NULL, NULL },
	{ "imex.s", "skipped", "error", "not run", NULL, "imex", NULL, NULL, false, odd, 1, "a-03", NULL, NULL },
	{ "ssh", "pass", "critical", "answers", "answers", "the target answers", NULL, NULL, true, all, 3, "a-[01-03]", NULL, NULL },
};
static const char *causes[] = { "GPU: a-02 on r02-t03: <b>" };
static const struct rk_report report = {
	.verdict = "fail", .level = "quick", .profile = "p", .power_kw = 12.5, .module_kw = 9, .energy_seconds = 300, .energy_kwh = 1.05, .mean_kw = 12.6,
	.facility_kw = 14, .pue = 1.12, .started_ms = 1764489491000, .seconds = 1.25, .targets = 3, .target_list = targets, .checks = checks, .n_checks = 5,
	.root_causes = causes, .n_root_causes = 1,
};
static const struct rk_report_head head = { "cluster a", "kept" };

static void seats_are_in_place_order_with_the_worst_check(void **state)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	const struct rk_seat *seats = rk_report_seats(&report, arena);

	(void)state;
	assert_string_equal(seats[0].target->name, "a-01");
	assert_string_equal(seats[0].verdict, "skipped"); /* it answers, and that is all that is known */
	assert_int_equal(seats[1].number, 3);
	assert_string_equal(seats[1].worst, "gpu.x");
	assert_string_equal(seats[2].verdict, "unknown");
}

static void the_map_leaves_out_trays_that_were_not_asked(void **state)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;

	(void)state;
	rk_report_map(&out, &report);
	assert_non_null(strstr(rk_str_text(&out), "r01       -\nr02        X?\n"));
}

static void a_page_stands_alone_and_runs_nothing_that_hosts_say(void **state)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;

	(void)state;
	rk_report_html(&out, &report, &head);
	assert_null(strstr(rk_str_text(&out), "<script"));
	assert_null(strstr(rk_str_text(&out), "http"));
	assert_non_null(strstr(rk_str_text(&out), "&lt;script&gt;alert(1)&lt;/script&gt;&amp;\\x01&quot;&#39;"));
	assert_non_null(strstr(rk_str_text(&out), "prefers-color-scheme:dark"));
	assert_non_null(strstr(rk_str_text(&out), "@media print"));
	assert_non_null(strstr(rk_str_text(&out), "href=\"kept/a-02/\""));
	assert_non_null(strstr(rk_str_text(&out), ">captures<"));
	assert_non_null(strstr(rk_str_text(&out), "12.5 kW"));
}

static void a_finding_links_to_the_answers_behind_it(void **state)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT, none RK_CLEANUP_STR = RK_STR_INIT;

	(void)state;
	rk_report_html(&out, &report, &head);
	assert_non_null(strstr(rk_str_text(&out), "evidence: <a href=\"kept/a-02/\">a-02</a>"));
	rk_report_html(&none, &report, &(struct rk_report_head){ "cluster a", NULL });
	assert_null(strstr(rk_str_text(&none), "<a href"));
}

/* Passed is what passed wherever it was judged; what a silence covers is neither passed nor left out. */
static void passed_and_not_judged_are_counted_by_check(void **state)
{
	static const struct rk_silence silence = { .id = 1 };
	struct rk_check rows[] = { { .id = "a", .verdict = "fail" }, { .id = "s", .verdict = "skipped", .silence = &silence }, { .id = "a", .verdict = "pass" },
				   { .id = "b", .verdict = "pass" }, { .id = "b", .verdict = "pass" }, { .id = "b", .verdict = "skipped" },
				   { .id = "c", .verdict = "skipped" }, { .id = "c", .verdict = "skipped" } };
	size_t passed, not_judged;

	(void)state;
	rk_report_count(&(struct rk_report){ .checks = rows, .n_checks = RK_ARRAY_SIZE(rows) }, &passed, &not_judged);
	assert_int_equal(passed, 1);
	assert_int_equal(not_judged, 1);
}

/* Each of many targets measures something else: that is one finding with all of them, and the numbers of an export are those of the verdict. */
static void a_finding_of_many_values_is_kept_as_one(void **state)
{
	enum { N = 600 };
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_str kept RK_CLEANUP_STR = RK_STR_INIT;
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	struct rk_report wide = report;
	double n;

	(void)state;
	wide.n_checks = N;
	wide.checks = rk_arena_array(arena, N, sizeof(*wide.checks));
	for (int i = 0; i < N; i++) {
		const char **name = rk_arena_array(arena, 1, sizeof(*name));
		name[0] = rk_arena_printf(arena, "a-%03d", i);
		wide.checks[i] = (struct rk_check){ .id = "act.gemm", .verdict = "fail", .value = name[0], .targets = name, .n_targets = 1, .folded = name[0] };
	}
	rk_history_add(&wide, NULL, &kept);
	assert_int_equal(rk_json_parse("kept", rk_str_text(&kept), kept.len, &json, NULL), 0);
	const struct rk_jnode *findings = rk_jget(rk_json_root(json), "findings");
	assert_int_equal(findings->n, 1);
	assert_true(rk_jdouble(rk_jget(findings->child, "n"), &n) && (int)n == N);
	assert_string_equal(rk_jstr(rk_jget(findings->child, "targets")), "a-[000-599]");
	assert_string_equal(rk_jstr(rk_jget(findings->child, "value")), "a-000, and 599 other values");
}

/* "ev:1" would be a scheme of its own, and '#' the end of the path. */
static void links_lead_into_any_folder(void **state)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;

	(void)state;
	rk_report_html(&out, &report, &(struct rk_report_head){ "cluster a", "../ev:2026-11-30 #1/\xc3\xa4" });
	assert_non_null(strstr(rk_str_text(&out), "href=\"../ev%3A2026-11-30%20%231/%C3%A4/a-02/\""));
}

/* What is no character of XML, turns the direction of text or drives a terminal is written out. */
static void hidden_characters_are_shown(void **state)
{
	static const char hostile[] = "\xc2\x9b\xe2\x80\xaegood\xef\xbf\xbf";
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	(void)state;
	rk_report_markup(&text, hostile);
	rk_report_markup(&text, NULL);
	assert_string_equal(rk_str_text(&text), "\\xc2\\x9b\\xe2\\x80\\xaegood\\xef\\xbf\\xbf");
}

static void junit_counts_each_target_once_per_check(void **state)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;

	(void)state;
	rk_report_junit(&out, &report, &head);
	assert_non_null(strstr(rk_str_text(&out), "<testsuites name=\"cluster a\" tests=\"7\" failures=\"1\" errors=\"1\" time=\"1.250\">"));
	assert_non_null(strstr(rk_str_text(&out), "<testsuite name=\"r02\" tests=\"6\" failures=\"1\" errors=\"1\" time=\"1.250\" skipped=\"1\">"));
	assert_non_null(strstr(rk_str_text(&out), "found &lt;script&gt;alert(1)&lt;/script&gt;&amp;\\x01&quot;&#39;"));
}

static void json_has_the_keys_scripts_rely_on(void **state)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	struct rk_jw w;

	(void)state;
	rk_jw_init(&w, &out, 0);
	rk_report_json(&w, &report);
	assert_int_equal(rk_json_parse("report", rk_str_text(&out), out.len, &json, NULL), 0);
	const struct rk_jnode *root = rk_json_root(json), *first = rk_jget(root, "checks")->child;
	assert_string_equal(rk_jstr(rk_jget(root, "verdict")), "fail");
	assert_int_equal(rk_jget(root, "targets")->type, RK_JNUMBER);
	assert_string_equal(rk_jstr(rk_jget(first, "targets")->child), "a-02");
	assert_string_equal(rk_jstr(rk_jget(first, "source")), "captures");
}

static void trays_to_cordon_are_those_of_failed_checks_that_ask_for_it(void **state)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	const char *why;

	(void)state;
	assert_string_equal(rk_report_cordon(&report, arena, &why), "r02-t03");
	assert_string_equal(why, "gpu.x");
}

static void keep(const struct rk_report *r, const char *level, bool sick, int64_t at, struct rk_str *kept)
{
	struct rk_str next = RK_STR_INIT;
	struct rk_report copy = *r;

	copy.level = level;
	copy.started_ms = at;
	copy.checks += sick ? 0 : 1; /* without the first one */
	copy.n_checks -= !sick;
	rk_history_add(&copy, kept->text, &next);
	rk_str_clear(kept);
	*kept = next;
}

static const char *note_with(const struct rk_str *kept, const char *text, struct rk_arena *arena)
{
	const char **notes = rk_history_notes(rk_str_text(kept), arena);

	while (*notes && !strstr(*notes, text))
		notes++;
	return *notes;
}

static void kept_validations_tell_new_from_old_and_what_comes_and_goes(void **state)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_str kept RK_CLEANUP_STR = RK_STR_INIT;
	const int64_t day = 86400000;

	(void)state;
	keep(&report, "quick", false, day, &kept);
	assert_null(rk_history_notes(rk_str_text(&kept), arena)[0]);
	keep(&report, "quick", true, 2 * day, &kept);
	assert_string_equal(rk_history_notes(rk_str_text(&kept), arena)[0], "new: gpu.x a-02");
	keep(&report, "quick", true, 3 * day, &kept);
	assert_string_equal(rk_history_notes(rk_str_text(&kept), arena)[0], "not new: gpu.x a-02: in 2 validations since 1970-01-03T00:00:00Z");
	keep(&report, "quick", false, 4 * day, &kept);
	keep(&report, "quick", true, 5 * day, &kept);
	assert_string_equal(rk_history_notes(rk_str_text(&kept), arena)[0], "flapping: gpu.x a-02: 3 changes in the last 5 validations");
	/* That it is well at this moment ends nothing; that a lesser level does not look at it is no change. */
	keep(&report, "quick", false, 6 * day, &kept);
	assert_non_null(note_with(&kept, "flapping: gpu.x a-02: 4 changes in the last 6 validations, not found now", arena));
	keep(&report, "standard", false, 7 * day, &kept);
	assert_null(note_with(&kept, "gpu.x", arena));
	for (int i = 8; i < 80; i++)
		keep(&report, "quick", true, i * day, &kept);
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	assert_int_equal(rk_json_parse("kept", rk_str_text(&kept), kept.len, &json, NULL), 0);
	assert_int_equal(rk_jget(rk_json_root(json), "history")->n, 32);
	assert_string_equal(rk_jstr(rk_jget(rk_json_root(json), "verdict")), "fail");
}

/* Found, silenced twice and found again it has been there all the time. */
static void a_silence_is_neither_an_end_nor_a_beginning(void **state)
{
	static const struct rk_silence silence = { .id = 1 };
	static const char *sick[] = { "a-02" };
	struct rk_check quiet = { .id = "gpu.x", .verdict = "skipped", .silence = &silence, .silenced = "fail", .targets = sick, .n_targets = 1, .folded = "a-02" };
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_str kept RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_report silenced = report;
	const int64_t day = 86400000;

	(void)state;
	silenced.checks = &quiet;
	silenced.n_checks = 1;
	for (int i = 1; i <= 3; i++) {
		keep(&report, "quick", true, (2 * i - 1) * day, &kept);
		keep(&silenced, "quick", true, 2 * i * day, &kept);
		assert_null(note_with(&kept, "gpu.x", arena));
	}
	keep(&report, "quick", true, 7 * day, &kept);
	assert_string_equal(rk_history_notes(rk_str_text(&kept), arena)[0], "not new: gpu.x a-02: in 4 validations since 1970-01-02T00:00:00Z");
}

/* A validation in which the check failed on the first `bad` of these, and could not be told on the next `mute` of them. */
static void keep_sets(size_t n_bad, size_t mute, int64_t at, struct rk_str *kept)
{
	static const char *names[] = { "a-01", "a-02", "a-03", "a-04", "b-07" };
	const struct rk_check rows[] = {
		{ .id = "gpu.x", .verdict = "fail", .targets = names, .n_targets = n_bad },
		{ .id = "ib.y", .verdict = "warn", .targets = names, .n_targets = 1 },
		{ .id = "gpu.x", .verdict = "unknown", .targets = names + n_bad, .n_targets = mute },
	};
	struct rk_str next = RK_STR_INIT;
	struct rk_report r = { .verdict = "fail", .level = "quick", .profile = "p", .started_ms = at };

	r.checks = (struct rk_check *)rows;
	r.n_checks = mute ? 3 : 2;
	rk_history_add(&r, kept->text, &next);
	rk_str_clear(kept);
	*kept = next;
}

static void a_finding_is_followed_on_each_target_whatever_set_it_is_told_with(void **state)
{
	static const char *const want[] = { "new: gpu.x a-04,b-07", "not new: gpu.x a-03: in 2 validations since 1970-01-03T00:00:00Z",
					    "not new: ib.y a-01: in 3 validations since 1970-01-02T00:00:00Z" };
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_str kept RK_CLEANUP_STR = RK_STR_INIT;
	const int64_t day = 86400000;
	size_t n = 0;

	(void)state;
	keep_sets(2, 0, day, &kept);
	keep_sets(2, 1, 2 * day, &kept);
	keep_sets(5, 0, 3 * day, &kept);
	const char **notes = rk_history_notes(rk_str_text(&kept), arena);
	for (size_t i = 0; i < RK_ARRAY_SIZE(want); i++, n = 0) {
		while (notes[n] && strcmp(notes[n], want[i]) != 0)
			n++;
		if (!notes[n])
			fail_msg("no note \"%s\"", want[i]);
	}
	for (n = 0; notes[n]; n++)
		;
	assert_int_equal(n, 4); /* and a-[01-02], in three */
}

/* Names of one set may be written in several ways, and in several rows by an older version. */
static void sets_are_compared_not_their_texts(void **state)
{
	static const char kept[] = "{\"history\":[{\"at\":\"C\",\"level\":\"quick\",\"bad\":[\"g r01-t[01-03]\"]},"
				   "{\"at\":\"B\",\"level\":\"quick\",\"bad\":[\"g r01-t03\",\"x r01-t01\",\"g r01-t01,r01-t02\"]},"
				   "{\"at\":\"A\",\"level\":\"quick\",\"bad\":[\"g r[01]-t[01,02,03]\"]}]}";
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	const char **notes = rk_history_notes(kept, arena);

	(void)state;
	assert_string_equal(notes[0], "not new: g r01-t[01-03]: in 3 validations since A");
	assert_null(notes[1]);
}

static void prometheus_text_has_help_and_type_and_is_never_empty(void **state)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_site *site = NULL, *empty = rk_site_new();
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	(void)state;
	empty->name = "e\"\\\n";
	rk_site_seal(empty);
	rk_prometheus(empty, RK_NONE, &out);
	assert_non_null(strstr(rk_str_text(&out), "# TYPE racksh_site_info gauge\nracksh_site_info{site=\"e\\\"\\\\\\n\",region=\"\"} 1\n"));
	assert_null(strstr(rk_str_text(&out), "racksh_cluster_vms"));
	rk_site_free(empty);
	if (rk_site_load("tests/examples/site-1.json", &site, &err))
		fail_msg("%s", err.message);
	rk_str_reset(&out);
	rk_prometheus(site, RK_NONE, &out);
	assert_non_null(strstr(rk_str_text(&out), "racksh_rack_trays{rack=\"r01\",state=\"free\"} 1"));
	rk_site_free(site);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(seats_are_in_place_order_with_the_worst_check),
		cmocka_unit_test(the_map_leaves_out_trays_that_were_not_asked),
		cmocka_unit_test(a_page_stands_alone_and_runs_nothing_that_hosts_say),
		cmocka_unit_test(a_finding_links_to_the_answers_behind_it),
		cmocka_unit_test(passed_and_not_judged_are_counted_by_check),
		cmocka_unit_test(a_finding_of_many_values_is_kept_as_one),
		cmocka_unit_test(a_silence_is_neither_an_end_nor_a_beginning),
		cmocka_unit_test(links_lead_into_any_folder),
		cmocka_unit_test(hidden_characters_are_shown),
		cmocka_unit_test(junit_counts_each_target_once_per_check),
		cmocka_unit_test(json_has_the_keys_scripts_rely_on),
		cmocka_unit_test(kept_validations_tell_new_from_old_and_what_comes_and_goes),
		cmocka_unit_test(a_finding_is_followed_on_each_target_whatever_set_it_is_told_with),
		cmocka_unit_test(sets_are_compared_not_their_texts),
		cmocka_unit_test(trays_to_cordon_are_those_of_failed_checks_that_ask_for_it),
		cmocka_unit_test(prometheus_text_has_help_and_type_and_is_never_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
