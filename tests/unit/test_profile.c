/* Profiles as files: deep merge, collectors of a site, and every mistake at once. */
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
#include "tests/contract/profile_text.h"

#define HEAD "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Profile\",\"name\":\"x\","

static void a_key_given_wins_and_null_removes(void **state)
{
	struct rk_hprofile *p RK_CLEANUP(rk_cleanup_hprofile) = NULL;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	(void)state;
	if (profile_load(HEAD "\"inherits\":\"gb300-acceptance\",\"rules\":{\"gpu.count\":{\"value\":8},\"xid\":null,\"ib.rate\":{\"expect\":null}}}", &p, &err))
		fail_msg("%s", err.message);
	for (size_t i = 0; i < p->n_rules; i++) {
		const struct rk_rule *r = &p->rules[i];
		assert_string_not_equal(r->id, "xid");
		if (strcmp(r->id, "gpu.count") == 0) {
			assert_true(r->numbers[0] > 7.9 && r->numbers[0] < 8.1);
			assert_string_equal(r->expect, "gpus"); /* what was not given stays */
		}
		if (strcmp(r->id, "ib.rate") == 0)
			assert_null(r->expect);
	}
}

static void all_mistakes_are_named_with_their_place(void **state)
{
	static const struct {
		const char *text, *word;
	} rows[] = {
		{ HEAD "\"rules\":{\"a\":{\"metric\":\"m\",\"collector\":\"ibstatt\",\"value\":1}}}", "did you mean \"ibstat\"" },
		{ HEAD "\"rules\":{\"a\":{\"metric\":\"m\",\"collector\":\"ibstat\",\"compare\":\"=>\",\"value\":1}}}", "unknown compare" },
		{ HEAD "\"rules\":{\"a\":{\"metric\":\"m\",\"collector\":\"ibstat\",\"value\":1,\"cause\":\"moon\"}}}", "unknown cause" },
		{ HEAD "\"rules\":{\"a\":{\"metric\":\"m\",\"collector\":\"ibstat\",\"compare\":\"same-as\"}}}", "needs the metric" },
		{ HEAD "\"rules\":{\"a\":{\"metric\":\"m\",\"collector\":\"ibstat\"}}}", "compares with nothing" },
		{ HEAD "\"collectors\":{\"ibstat\":{\"command\":\"x\",\"parse\":\"number\",\"metrics\":{\"m\":\"v\"}}},\"rules\":{}}", "built-in collector" },
		{ HEAD "\"collectors\":{\"own\":{\"command\":\"x\",\"parse\":\"xml\",\"metrics\":{\"m\":\"v\"}}},\"rules\":{}}", "unknown parser" },
		{ HEAD "\"collectors\":{\"own\":{\"command\":\"x\",\"parse\":\"json\",\"metrics\":{}}},\"rules\":{}}", "measures nothing" },
		{ HEAD "\"collectors\":{\"own\":{\"parse\":\"json\",\"metrics\":{\"m\":\"v\"},\"commnd\":\"x\"}},\"rules\":{}}", "command" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
		struct rk_hprofile *p = NULL;
		assert_int_equal(profile_load(rows[i].text, &p, &err), RK_INVALID);
		bool found = strstr(err.message, rows[i].word) || (err.hint && strstr(err.hint, rows[i].word));
		for (size_t d = 0; d < err.n_details; d++)
			found |= strstr(err.details[d], rows[i].word) != NULL;
		if (!found)
			fail_msg("\"%s\" (%s) does not say \"%s\"", err.message, err.hint ? err.hint : "-", rows[i].word);
	}
}

static struct rk_metrics read_own(struct rk_arena *arena, const char *parse, const char *metric, const char *where, const char *out, const char *status)
{
	struct rk_own_metric m = { metric, where };
	const struct rk_own_collector c = { { "own", "x", NULL, 0 }, parse, &m, 1 };
	const struct rk_evidence e = { "own", out, strlen(out), "", 0, status };
	struct rk_metrics metrics = { .arena = arena };

	rk_own_parse(&c, &e, &metrics);
	return metrics;
}

static double number_at(const struct rk_metrics *m, const char *label)
{
	const struct rk_metric *x = rk_metric_find(m, "m", label);

	if (!x || x->type != RK_METRIC_NUMBER)
		fail_msg("no number at \"%s\": %s", label, x ? x->text : "nothing");
	return x->number;
}

static void a_path_a_column_or_a_number_is_found_in_the_output(void **state)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_metrics m;

	(void)state;
	m = read_own(arena, "json", "m", "runs/1/tps", "loading model...\n{\"runs\":[{\"tps\":1},{\"tps\":2.5}]}\n", "0");
	assert_true(number_at(&m, "") > 2.4 && number_at(&m, "") < 2.6);
	m = read_own(arena, "json", "m", "gpus/*/kwh", "{\"gpus\":{\"a\":{\"kwh\":1},\"b\":{\"kwh\":2}}}", "0");
	assert_true(number_at(&m, "a") < 1.1 && number_at(&m, "b") > 1.9);
	m = read_own(arena, "table", "m", "TPS", "# x\nNAME  TPS  P95\ntask-a  10  3\ntask-b | 20 | 4\n\ndone\n", "0");
	assert_true(number_at(&m, "task-a") < 11 && number_at(&m, "task-b") > 19);
	assert_int_equal(m.n, 2);
	m = read_own(arena, "number", "m", "-", "note\n1,234.5 GB/s\n", "0");
	assert_true(number_at(&m, "") > 1234 && number_at(&m, "") < 1235);
}

static void what_is_not_there_is_absent_and_never_zero(void **state)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_metrics m;

	(void)state;
	m = read_own(arena, "number", "m", "-", "2 users are logged in\n250\n", "0");
	assert_int_equal(rk_metric_find(&m, "m", "")->type, RK_METRIC_ABSENT);
	m = read_own(arena, "json", "m", "a/b", "{\"a\":{}}", "0");
	assert_int_equal(rk_metric_find(&m, "m", "")->type, RK_METRIC_ABSENT);
	m = read_own(arena, "json", "m", "a", "{\"a\": [1,", "0");
	assert_string_equal(rk_metric_find(&m, "m", "")->text, "truncated");
	m = read_own(arena, "json", "m", "a", "{\"a\": null}", "0");
	assert_int_equal(rk_metric_find(&m, "m", "")->type, RK_METRIC_ABSENT);
	m = read_own(arena, "table", "m", "TPS", "NAME  TPS\ntask-a  1", "signal:9"); /* could have been 10 */
	assert_int_equal(m.n, 0);
	m = read_own(arena, "table", "m", "TPS", "NAME  TPS\n----  ---\ntask-a  1\ntask-b  N/A\n", "0");
	assert_int_equal(m.n, 2);
	assert_int_equal(rk_metric_find(&m, "m", "task-b")->type, RK_METRIC_ABSENT);
}

/* Rows and members behind the last one that is read were not read. */
static void more_than_is_read_is_noticed(void **state)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_str rows RK_CLEANUP_STR = RK_STR_INIT, members RK_CLEANUP_STR = RK_STR_INIT;

	(void)state;
	rk_str_add(&rows, "NAME  TPS\n");
	rk_str_add(&members, "{\"v\":[1");
	for (int i = 0; i < 1024; i++) {
		rk_str_addf(&rows, "task-%d  1\n", i);
		rk_str_add(&members, i < 255 ? ",1" : "");
	}
	rk_str_add(&members, "]}");
	assert_false(read_own(arena, "table", "m", "TPS", rk_str_text(&rows), "0").full);
	assert_false(read_own(arena, "json", "m", "v/*", rk_str_text(&members), "0").full);
	rk_str_add(&rows, "task-bad  99\n");
	members.len -= 2;
	rk_str_add(&members, ",99]}");
	assert_true(read_own(arena, "table", "m", "TPS", rk_str_text(&rows), "0").full);
	assert_true(read_own(arena, "json", "m", "v/*", rk_str_text(&members), "0").full);
}

static void proof_points_of_a_site_are_judged_like_any_check(void **state)
{
	static const char serve[] = "{\"results\":{\"throughput\":41000,\"latency\":{\"first_token_p95\":180},\"errors\":0}}";
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_hprofile *p RK_CLEANUP(rk_cleanup_hprofile) = NULL;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_evidence e = { "llm-serve", serve, strlen(serve), "", 0, "0" };
	const struct rk_target target = { .name = "a-01", .kind = "vm", .evidence = &e, .n_evidence = 1 };
	struct rk_report r;

	(void)state;
	if (rk_hprofile_load("tests/examples/profile-workload.json", &p, &err) || rk_judge(p, "deep", &target, 1, arena, &r, &err))
		fail_msg("%s", err.message);
	assert_string_equal(r.verdict, "fail");
	assert_string_equal(r.checks[0].id, "site.tokens");
	assert_string_equal(r.checks[0].value, "41000");
	assert_non_null(strstr(r.root_causes[0], "check of the site: a-01"));
}

/* A site's acceptance: each kind of proof point of the example with an answer that passes and one that does not. */
static void each_kind_of_proof_point_passes_and_fails(void **state)
{
#define SERVE(tps, first, errors) "warming up...\n{\"results\":{\"throughput\":" tps ",\"latency\":{\"first_token_p95\":" first "},\"errors\":" errors "}}\n"
#define EVAL(a, b) "suite smoke\nTASK ACCURACY REFERENCE\ngsm " a " 0.80\ncode " b " 0.62\n"
#define ENERGY(joules, odd) "{\"joules_per_token\":" joules ",\"gpus\":[{\"kwh\":0.5},{\"kwh\":0.5},{\"kwh\":0.51},{\"kwh\":" odd "}]}"
	static const struct {
		const char *rule, *collector, *good, *bad, *verdict;
	} rows[] = {
		{ "site.tokens", "llm-serve", SERVE("58000", "200", "0"), SERVE("51000", "200", "0"), "fail" },
		{ "site.tokens", "llm-serve", SERVE("58000", "200", "0"), SERVE("55000", "200", "0"), "warn" },
		{ "site.first-token", "llm-serve", SERVE("58000", "250", "0"), SERVE("58000", "251", "0"), "fail" },
		{ "site.serve-errors", "llm-serve", SERVE("58000", "200", "0"), SERVE("58000", "200", "1"), "fail" },
		/* Every task beside the reference of the same task. */
		{ "site.accuracy", "llm-accuracy", EVAL("0.80", "0.62"), EVAL("0.80", "0.60"), "fail" },
		{ "site.dataset", "dataset-read", "12.5\n", "9.1\n", "warn" },
		{ "site.energy", "energy", ENERGY("0.85", "0.5"), ENERGY("0.95", "0.5"), "warn" },
		{ "site.energy.gpus", "energy", ENERGY("0.85", "0.5"), ENERGY("0.85", "0.7"), "warn" },
		{ "site.tokens", "llm-serve", SERVE("58000", "200", "0"), "bench: out of memory\n", "unknown" },
	};
	struct rk_hprofile *p RK_CLEANUP(rk_cleanup_hprofile) = NULL;

	(void)state;
	assert_int_equal(rk_hprofile_load("tests/examples/profile-workload.json", &p, NULL), 0);
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
		struct rk_evidence good = { rows[i].collector, rows[i].good, strlen(rows[i].good), "", 0, "0" };
		struct rk_evidence bad = { rows[i].collector, rows[i].bad, strlen(rows[i].bad), "", 0, "0" };
		struct rk_target targets[4];
		struct rk_report r;
		bool found = false;
		for (int t = 0; t < 4; t++)
			targets[t] = (struct rk_target){ .name = rk_arena_printf(arena, "a-%02d", t + 1), .kind = "vm", .rack = "r01", .evidence = t == 1 ? &bad : &good, .n_evidence = 1 };
		assert_int_equal(rk_judge(p, "deep", targets, 4, arena, &r, NULL), 0);
		for (size_t c = 0; c < r.n_checks; c++) {
			const struct rk_check *check = &r.checks[c];
			if (strcmp(check->id, rows[i].rule) != 0)
				continue;
			bool odd = strcmp(check->folded, "a-02") == 0;
			if (strcmp(check->verdict, odd ? rows[i].verdict : "pass") != 0)
				fail_msg("%s (%zu): %s is %s: %s", rows[i].rule, i, check->folded, check->verdict, check->value);
			found |= odd;
		}
		assert_true(found);
	}
}

/* A number without an origin cannot be defended. */
static void every_threshold_has_a_source(void **state)
{
	size_t n;
	const char *const *names = rk_hprofiles(&n);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		struct rk_hprofile *p RK_CLEANUP(rk_cleanup_hprofile) = NULL;
		assert_int_equal(rk_hprofile_load(names[i], &p, NULL), 0);
		for (size_t r = 0; r < p->n_rules; r++) {
			if (!p->rules[r].source || !p->rules[r].message)
				fail_msg("%s: %s has no %s", names[i], p->rules[r].id, p->rules[r].message ? "source" : "message");
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_given_wins_and_null_removes),
		cmocka_unit_test(all_mistakes_are_named_with_their_place),
		cmocka_unit_test(a_path_a_column_or_a_number_is_found_in_the_output),
		cmocka_unit_test(what_is_not_there_is_absent_and_never_zero),
		cmocka_unit_test(more_than_is_read_is_noticed),
		cmocka_unit_test(proof_points_of_a_site_are_judged_like_any_check),
		cmocka_unit_test(each_kind_of_proof_point_passes_and_fails),
		cmocka_unit_test(every_threshold_has_a_source),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
