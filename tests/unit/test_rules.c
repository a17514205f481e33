/* Every clause of the rule language on small answers: the language is what racksh-profile(5) says it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "inventory/base/str.h"
#include "tests/contract/profile_text.h"

enum { TARGETS = 6 };

/* The collector "own" brings m (each member of "v"), n and w. */
#define HEAD                                                                                                                                    \
	"{\"apiVersion\":\"racksh/v1\",\"kind\":\"Profile\",\"name\":\"x\",\"levels\":{\"quick\":[\"own\"],\"standard\":[\"second\"]},\"collectors\":{"  \
	"\"own\":{\"command\":\"x\",\"parse\":\"json\",\"metrics\":{\"m\":\"v/*\",\"n\":\"n\",\"w\":\"w\",\"ref\":\"ref/*\"}},"                          \
	"\"second\":{\"command\":\"y\",\"parse\":\"json\",\"metrics\":{\"s\":\"s\"}}},\"rules\":{"

static struct rk_hprofile *load(const char *rules)
{
	char *text RK_CLEANUP_FREE = rk_xasprintf("%s%s}}", HEAD, rules);

	return profile_of(text);
}

/* Targets a-01..: 1 and 2 in r01, 3 and 4 in r02, 5 and 6 in r03; the first four of cluster a, the others of b; the last is a tray. */
static size_t make(struct rk_arena *arena, const char *const *answers, struct rk_target *t)
{
	size_t n = 0;

	for (; n < TARGETS && answers[n]; n++) {
		t[n] = (struct rk_target){ .name = rk_arena_printf(arena, "a-%02zu", n + 1), .kind = n == 5 ? "tray" : "vm", .cluster = n < 4 ? "a" : "b",
					   .rack = rk_arena_printf(arena, "r%02zu", n / 2 + 1), .evidence = rk_arena_array(arena, 1, sizeof(struct rk_evidence)),
					   .n_evidence = 1, .expect = { .gpus = 4, .cluster_uuid = "ab-cd" } };
		bool missing = strcmp(answers[n], "127") == 0;
		t[n].evidence[0] = (struct rk_evidence){ "own", missing ? "" : answers[n], missing ? 0 : strlen(answers[n]), "", 0, missing ? "127" : "0" };
	}
	return n;
}

/* One letter per target: what the rule "g" says about it; '.' when it does not concern it. */
static void letters(const struct rk_report *r, size_t n, char *ret)
{
	memset(ret, '.', n);
	ret[n] = '\0';
	for (size_t i = 0; i < r->n_checks; i++) {
		if (strcmp(r->checks[i].id, "g") != 0)
			continue;
		for (size_t k = 0; k < r->checks[i].n_targets; k++)
			ret[atoi(r->checks[i].targets[k] + 2) - 1] = r->checks[i].verdict[0];
	}
}

static const struct {
	const char *what, *rule, *answers[TARGETS + 1], *verdicts; /* p pass, f fail, w warn, u unknown, s skipped */
} rows[] = {
	/* comparisons */
	{ "==", "\"compare\":\"==\",\"value\":2", { "{\"v\":[2]}", "{\"v\":[3]}", "{\"v\":[2,2]}", "{\"v\":[2,3]}" }, "pfpf" },
	{ "!=", "\"compare\":\"!=\",\"value\":2", { "{\"v\":[2]}", "{\"v\":[3]}" }, "fp" },
	{ "<", "\"compare\":\"<\",\"value\":2", { "{\"v\":[1]}", "{\"v\":[2]}" }, "pf" },
	{ "<=", "\"compare\":\"<=\",\"value\":2", { "{\"v\":[2]}", "{\"v\":[2.5]}" }, "pf" },
	{ ">", "\"compare\":\">\",\"value\":2", { "{\"v\":[3]}", "{\"v\":[2]}" }, "pf" },
	{ ">=", "\"compare\":\">=\",\"value\":2", { "{\"v\":[2]}", "{\"v\":[1]}" }, "pf" },
	{ "text without case", "\"value\":\"Ready\"", { "{\"v\":[\"READY\"]}", "{\"v\":[\"not ready\"]}" }, "pf" },
	{ "text, not", "\"compare\":\"!=\",\"value\":\"down\"", { "{\"v\":[\"up\"]}", "{\"v\":[\"Down\"]}" }, "pf" },
	{ "in, numbers", "\"compare\":\"in\",\"value\":[0,4]", { "{\"v\":[0]}", "{\"v\":[4]}", "{\"v\":[2]}" }, "ppf" },
	{ "in, texts", "\"compare\":\"in\",\"value\":[\"a\",\"b\"]", { "{\"v\":[\"a\"]}", "{\"v\":[\"B\"]}", "{\"v\":[\"c\"]}" }, "ppf" },
	{ "between", "\"compare\":\"between\",\"value\":[1,9]", { "{\"v\":[1]}", "{\"v\":[9]}", "{\"v\":[9.1]}", "{\"v\":[0]}" }, "ppff" },
	{ "second threshold", "\"compare\":\">=\",\"value\":10,\"warn\":20", { "{\"v\":[20]}", "{\"v\":[15]}", "{\"v\":[9]}" }, "pwf" },
	{ "texts that warn or say nothing", "\"value\":\"ok\",\"warn_values\":[\"soon\"],\"unknown_values\":[\"starting\"]",
	  { "{\"v\":[\"ok\"]}", "{\"v\":[\"soon\"]}", "{\"v\":[\"starting\"]}", "{\"v\":[\"bad\"]}" }, "pwuf" },
	{ "texts that skip", "\"value\":\"ok\",\"skip_values\":[\"not run\"]", { "{\"v\":[\"not run\"]}", "{\"v\":[\"ok\",\"not run\"]}", "{\"v\":[\"bad\",\"not run\"]}" }, "spf" },
	{ "each", "\"value\":1,\"each\":\"gpus\"", { "{\"v\":[1,1,1,1]}", "{\"v\":[1,1,1]}", "{\"v\":[1,2]}", "{\"v\":[1,1,1,1,1]}", "{}" }, "pufpu" },
	{ "each GPU, by its links", "\"value\":1,\"each\":\"gpus\"", { "{\"v\":{\"gpu=0,l=0\":1,\"gpu=0,l=1\":1,\"gpu=1,l=0\":1,\"gpu=2,l=0\":1}}",
	  "{\"v\":{\"gpu=0,l=0\":1,\"gpu=1,l=0\":1,\"gpu=2,l=0\":1,\"gpu=3,l=0\":1}}" }, "up" },
	{ "each of what is not known", "\"value\":1,\"each\":\"rails\"", { "{\"v\":[1]}" }, "p" },
	/* presence and counts */
	{ "present", "\"compare\":\"present\"", { "{\"v\":[\"x\"]}", "{\"v\":[\"N/A\"]}", "{}" }, "puu" },
	{ "absent is left out when optional", "\"value\":2,\"optional\":true", { "{\"v\":[2,\"N/A\"]}", "{\"v\":[\"N/A\"]}", "{\"v\":[3,\"N/A\"]}", "{}" }, "psfs" },
	{ "absent is unknown", "\"value\":2", { "{\"v\":[2,\"N/A\"]}", "{\"v\":[3,\"N/A\"]}", "{}" }, "ufu" },
	{ "tool is missing", "\"value\":2", { "127" }, "u" },
	{ "tool need not be there", "\"value\":2,\"required\":false", { "127", "{\"v\":[2]}" }, "sp" },
	{ "count", "\"compare\":\"count\",\"value\":2", { "{\"v\":[7,8]}", "{\"v\":[7]}", "{\"v\":[1,2,3]}" }, "pff" },
	{ "count of what has no value", "\"compare\":\"count\",\"value\":1", { "{\"v\":[\"N/A\"]}", "{\"v\":[7]}" }, "up" },
	{ "count in what is no answer", "\"compare\":\"count\",\"value\":0", { "Segmentation fault", "{\"v\":[]}", "" }, "uup" },
	{ "optional, but no answer", "\"value\":2,\"optional\":true", { "Segmentation fault", "", "{\"n\":1}" }, "uss" },
	{ "a word is no number", "\"compare\":\"!=\",\"value\":2", { "{\"v\":[\"dead\"]}" }, "u" },
	{ "a word is not below", "\"compare\":\"<=\",\"value\":2", { "{\"v\":[\"dead\"]}" }, "u" },
	/* what the target should be */
	{ "expect", "\"expect\":\"gpus\"", { "{\"v\":[4]}", "{\"v\":[3]}" }, "pf" },
	{ "expect times factor", "\"expect\":\"gpus\",\"factor\":18,\"compare\":\">=\"", { "{\"v\":[72]}", "{\"v\":[71]}" }, "pf" },
	{ "expect, text", "\"expect\":\"cluster_uuid\"", { "{\"v\":[\"AB-CD\"]}", "{\"v\":[\"ab-ce\"]}" }, "pf" },
	{ "not known, but a value", "\"expect\":\"rails\",\"value\":8", { "{\"v\":[8]}", "{\"v\":[4]}" }, "pf" },
	{ "not known at all", "\"expect\":\"rails\"", { "{\"v\":[8]}" }, "s" },
	{ "steps", "\"compare\":\">=\",\"of\":\"n\",\"steps\":[{\"up_to\":4,\"value\":100},{\"up_to\":72,\"value\":50,\"warn\":60}]",
	  { "{\"v\":[99],\"n\":4}", "{\"v\":[99],\"n\":5}", "{\"v\":[55],\"n\":72}", "{\"v\":[49],\"n\":72}", "{\"v\":[1],\"n\":73}" }, "fpwfs" },
	{ "reference", "\"compare\":\">=\",\"of\":\"ref\",\"factor\":0.9", { "{\"v\":[91,46],\"ref\":[100,50]}", "{\"v\":[91,44],\"ref\":[100,50]}", "{\"v\":[91]}", "{\"v\":[9,8],\"ref\":[9]}" }, "pfuf" },
	{ "same-as", "\"compare\":\"same-as\",\"of\":\"w\"", { "{\"v\":[\"x\"],\"w\":\"X\"}", "{\"v\":[\"x\"],\"w\":\"y\"}", "{\"v\":[\"x\"]}" }, "pfs" },
	{ "same-branch", "\"compare\":\"same-branch\",\"of\":\"w\"", { "{\"v\":[\"580.1.9\"],\"w\":\"580.2.3\"}", "{\"v\":[\"575.1.9\"],\"w\":\"580.2.3\"}", "{\"v\":[\"vanilla\"],\"w\":\"580.2.3\"}" }, "pfs" },
	/* one value */
	{ "all-equal, target", "\"compare\":\"all-equal\"", { "{\"v\":[1,1,1]}", "{\"v\":[1,1,2]}", "{\"v\":[1]}" }, "pfs" },
	{ "all-equal, rack", "\"compare\":\"all-equal\",\"scope\":\"rack\"", { "{\"v\":[1]}", "{\"v\":[1]}", "{\"v\":[2]}", "{\"v\":[3]}" }, "ppff" },
	{ "all-equal, cluster", "\"compare\":\"all-equal\",\"scope\":\"cluster\"", { "{\"v\":[1]}", "{\"v\":[1]}", "{\"v\":[2]}", "{\"v\":[1]}", "{\"v\":[2]}", "{\"v\":[2]}" }, "ppfppp" },
	{ "all-equal, domain", "\"compare\":\"all-equal\",\"scope\":\"domain\"", { "{\"v\":[1]}", "{\"v\":[1]}", "{\"v\":[2]}", "{\"v\":[2]}" }, "pppp" },
	{ "all-equal, all", "\"compare\":\"all-equal\",\"scope\":\"all\"", { "{\"v\":[1]}", "{\"v\":[1]}", "{\"v\":[1]}", "{\"v\":[1]}", "{\"v\":[2]}", "127" }, "ppppfu" },
	/* far from the median */
	{ "outlier, low", "\"compare\":\"outlier\",\"tolerance\":0.1", { "{\"v\":[100,100,80]}", "{\"v\":[100,100,130]}", "{\"v\":[100,91,100]}", "{\"v\":[100,50]}" }, "fpps" },
	{ "outlier, words", "\"compare\":\"outlier\",\"tolerance\":0.1,\"optional\":true", { "{\"v\":[100,\"N/A\",\"N/A\"]}", "{\"v\":[100,100,100,\"dead\"]}" }, "su" },
	{ "outlier, high", "\"compare\":\"outlier\",\"tolerance\":0.1,\"side\":\"high\"", { "{\"v\":[100,100,80]}", "{\"v\":[100,100,130]}" }, "pf" },
	{ "outlier, floor", "\"compare\":\"outlier\",\"tolerance\":0.1,\"floor\":25,\"side\":\"high\"", { "{\"v\":[100,100,120]}", "{\"v\":[100,100,130]}", "{\"v\":[0,0,26]}", "{\"v\":[0,0,24]}" }, "pffp" },
	{ "outlier, cluster", "\"compare\":\"outlier\",\"tolerance\":0.1,\"scope\":\"cluster\"", { "{\"v\":[100]}", "{\"v\":[100]}", "{\"v\":[100]}", "{\"v\":[50]}" }, "pppf" },
	{ "same-branch, number that begins alike", "\"compare\":\"same-branch\",\"of\":\"w\"", { "{\"v\":[\"580.1.9\"],\"w\":\"58.2.3\"}", "{\"v\":[\"58.1.9\"],\"w\":\"580.2.3\"}" }, "ff" },
	/* edges */
	{ "both thresholds exactly", "\"compare\":\">=\",\"value\":10,\"warn\":20", { "{\"v\":[20]}", "{\"v\":[19.999]}", "{\"v\":[10]}", "{\"v\":[9.999]}" }, "pwwf" },
	{ "both thresholds from above", "\"compare\":\"<=\",\"value\":10,\"warn\":5", { "{\"v\":[5]}", "{\"v\":[5.001]}", "{\"v\":[10]}", "{\"v\":[10.001]}" }, "pwwf" },
	{ "below, exactly", "\"compare\":\"<\",\"value\":1,\"warn\":0.5", { "{\"v\":[0.499]}", "{\"v\":[0.5]}", "{\"v\":[1]}" }, "pwf" },
	{ "outlier of an even number", "\"compare\":\"outlier\",\"tolerance\":0.2", { "{\"v\":[70,80,90,100]}", "{\"v\":[66,80,90,100]}", "{\"v\":[100,80,70,90]}" }, "pfp" },
	{ "outlier at the tolerance", "\"compare\":\"outlier\",\"tolerance\":0.25", { "{\"v\":[100,100,75]}", "{\"v\":[100,100,74.9]}" }, "pf" },
	{ "outlier at the floor", "\"compare\":\"outlier\",\"floor\":25,\"side\":\"high\"", { "{\"v\":[100,100,125]}", "{\"v\":[100,100,125.1]}" }, "pf" },
	{ "outlier within either", "\"compare\":\"outlier\",\"tolerance\":0.5,\"floor\":25,\"side\":\"high\"", { "{\"v\":[10,10,30]}", "{\"v\":[100,100,140]}", "{\"v\":[100,100,151]}" }, "ppf" },
	{ "outlier of one, two, none", "\"compare\":\"outlier\",\"tolerance\":0.1", { "{\"v\":[100]}", "{\"v\":[100,1]}", "{\"v\":[\"N/A\",\"N/A\",\"N/A\"]}", "{}" }, "ssuu" },
	{ "outlier among two peers", "\"compare\":\"outlier\",\"tolerance\":0.1,\"scope\":\"cluster\"", { "{\"v\":[100]}", "{\"v\":[10]}" }, "ss" },
	{ "all-equal, a tie", "\"compare\":\"all-equal\"", { "{\"v\":[1,1,2,2]}", "{\"v\":[1,1,2,2,2]}", "{\"v\":[1,2]}" }, "fff" },
	{ "all-equal, a tie of peers", "\"compare\":\"all-equal\",\"scope\":\"cluster\"", { "{\"v\":[1]}", "{\"v\":[1]}", "{\"v\":[2]}", "{\"v\":[2]}" }, "ffff" },
	{ "all-equal of what is absent", "\"compare\":\"all-equal\",\"scope\":\"cluster\"", { "{\"v\":[\"N/A\"]}", "{\"v\":[1]}", "{\"v\":[1]}", "{}" }, "uppu" },
	{ "all-equal of all that is absent", "\"compare\":\"all-equal\"", { "{\"v\":[\"N/A\",\"N/A\"]}", "{\"v\":[1,1,\"N/A\"]}", "{\"v\":[\"N/A\",1]}" }, "uuu" },
	{ "delta at the threshold", "\"compare\":\"delta\",\"value\":2", { "{\"v\":{\"p,sample=0\":5,\"p,sample=1\":7}}", "{\"v\":{\"p,sample=0\":5,\"p,sample=1\":8}}", "{\"v\":{\"p,sample=0\":5,\"p,sample=1\":6,\"p,sample=2\":8}}", "{\"v\":{\"p\":5}}" }, "pffs" },
	{ "delta of a counter that began again", "\"compare\":\"delta\",\"value\":2", { "{\"v\":{\"p,sample=0\":500,\"p,sample=1\":2}}", "{\"v\":{\"p,sample=0\":500,\"p,sample=1\":3}}", "{\"v\":{\"p,sample=0\":\"N/A\",\"p,sample=1\":3}}", "{\"v\":{\"p,sample=0\":3,\"q,sample=0\":3,\"q,sample=1\":3}}" }, "pfuu" },
	{ "growth without an earlier validation", "\"compare\":\"growth\",\"value\":2", { "{\"v\":{\"p\":5}}" }, "s" },
	{ "steps beyond the last", "\"compare\":\">=\",\"value\":7,\"of\":\"n\",\"steps\":[{\"up_to\":4,\"value\":100}]", { "{\"v\":[7],\"n\":5}", "{\"v\":[6],\"n\":5}", "{\"v\":[100],\"n\":4}", "{\"v\":[7]}" }, "pfpp" },
	/* whom it concerns, and what it means */
	{ "kind", "\"value\":2,\"kind\":\"tray\"", { "{\"v\":[1]}", "{\"v\":[1]}", "{\"v\":[1]}", "{\"v\":[1]}", "{\"v\":[1]}", "{\"v\":[1]}" }, ".....f" },
	{ "multi-node", "\"value\":2,\"when\":\"multi-node\"", { "{\"v\":[1]}", "{\"v\":[1]}", "{\"v\":[1]}" }, "ffs" },
	{ "effect warn", "\"value\":2,\"effect\":\"warn\"", { "{\"v\":[1]}" }, "w" },
	{ "effect cordon", "\"value\":2,\"effect\":\"cordon\"", { "{\"v\":[1]}" }, "f" },
	{ "a deeper level", "\"value\":2,\"level\":\"standard\"", { "{\"v\":[1]}" }, "." },
};

static void each_clause_says_what_the_manual_says(void **state)
{
	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
		struct rk_hprofile *p RK_CLEANUP(rk_cleanup_hprofile) = load(rk_arena_printf(arena, "\"g\":{\"collector\":\"own\",\"metric\":\"m\",\"message\":\"x\",%s}", rows[i].rule));
		struct rk_target targets[TARGETS];
		size_t n = make(arena, rows[i].answers, targets);
		struct rk_report r;
		char got[TARGETS + 1];
		assert_int_equal(rk_judge(p, "quick", targets, n, arena, &r, NULL), 0);
		letters(&r, n, got);
		if (strcmp(got, rows[i].verdicts) != 0)
			fail_msg("%s: %s, expected %s (%s)", rows[i].what, got, rows[i].verdicts, r.n_checks ? r.checks[0].value : "-");
	}
}

static void a_check_that_depends_on_another_one_waits_for_it(void **state)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_hprofile *p RK_CLEANUP(rk_cleanup_hprofile) = load("\"f\":{\"collector\":\"own\",\"metric\":\"n\",\"value\":1,\"message\":\"x\"},"
								     "\"g\":{\"collector\":\"own\",\"metric\":\"m\",\"value\":1,\"after\":\"f\",\"message\":\"x\"}");
	static const char *const answers[] = { "{\"v\":[1],\"n\":1}", "{\"v\":[2],\"n\":1}", "{\"v\":[2],\"n\":2}", "{\"v\":[2]}", NULL };
	struct rk_target targets[TARGETS];
	size_t n = make(arena, answers, targets);
	struct rk_report r;
	char got[TARGETS + 1];

	(void)state;
	assert_int_equal(rk_judge(p, "quick", targets, n, arena, &r, NULL), 0);
	letters(&r, n, got);
	assert_string_equal(got, "pfss");
}

/* Whatever the order of rules and targets. */
static void rows_stand_worst_first_with_all_their_targets(void **state)
{
	static const char *const order[] = { "fail", "unknown", "warn", "pass", "skipped" };
	static const char *const answers[] = { "{\"v\":[1],\"n\":1}", "{\"v\":[2],\"n\":1}", "{\"n\":2}", "{\"v\":[2],\"n\":2}", "{\"v\":[\"N/A\"],\"n\":1}", "{\"v\":[1],\"n\":9}", NULL };
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_hprofile *p RK_CLEANUP(rk_cleanup_hprofile) = load("\"o\":{\"collector\":\"own\",\"metric\":\"m\",\"value\":1,\"optional\":true,\"effect\":\"warn\",\"message\":\"x\"},"
								     "\"n\":{\"collector\":\"own\",\"metric\":\"n\",\"value\":1,\"message\":\"x\"},"
								     "\"g\":{\"collector\":\"own\",\"metric\":\"m\",\"value\":1,\"message\":\"x\"}");
	struct rk_target targets[TARGETS];
	size_t n = make(arena, answers, targets), at = 0, named = 0;
	struct rk_report r;

	(void)state;
	assert_int_equal(rk_judge(p, "quick", targets, n, arena, &r, NULL), 0);
	assert_string_equal(r.verdict, "fail");
	for (size_t i = 0; i < r.n_checks; i++) {
		while (at < RK_ARRAY_SIZE(order) && strcmp(order[at], r.checks[i].verdict) != 0)
			at++;
		named += r.checks[i].n_targets;
	}
	assert_true(at < RK_ARRAY_SIZE(order));
	assert_int_equal(named, 4 * n); /* ssh, and three rules */
}

/* fail over unknown over warn over pass; skipped does not count, and nothing judged is not known. */
static void the_worst_verdict_is_that_of_all(void **state)
{
	static const struct {
		const char *answers[4], *verdict;
	} sums[] = {
		{ { "{\"v\":[1]}", "{\"v\":[2]}", "{\"v\":[\"soon\"]}", NULL }, "fail" }, { { "{\"v\":[\"late\"]}", "{\"v\":[\"soon\"]}", "{\"v\":[1]}", NULL }, "unknown" },
		{ { "{\"v\":[\"soon\"]}", "{\"v\":[1]}", NULL }, "warn" },			   { { "{\"v\":[1]}", "{\"v\":[\"never\"]}", NULL }, "pass" },
		{ { "{\"v\":[\"never\"]}", NULL }, "unknown" },
	};
	struct rk_hprofile *p RK_CLEANUP(rk_cleanup_hprofile) = load("\"g\":{\"collector\":\"own\",\"metric\":\"m\",\"value\":1,\"message\":\"x\",\"warn_values\":[\"soon\"],"
								     "\"unknown_values\":[\"late\"],\"skip_values\":[\"never\"]}");

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(sums); i++) {
		RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
		struct rk_target targets[TARGETS];
		struct rk_report r;
		size_t n = make(arena, sums[i].answers, targets);
		assert_int_equal(rk_judge(p, "quick", targets, n, arena, &r, NULL), 0);
		assert_string_equal(r.verdict, sums[i].verdict);
	}
}

static void what_makes_no_sense_together_is_refused(void **state)
{
	static const char *const bad[] = {
		"\"compare\":\"between\",\"value\":3", "\"compare\":\"all-equal\",\"each\":\"gpus\"", "\"value\":1,\"each\":\"fans\"",
		"\"compare\":\"outlier\"", "\"compare\":\">\",\"value\":1,\"scope\":\"rack\"", "\"compare\":\">\",\"value\":1,\"per\":\"hour\"",
		"\"compare\":\">=\",\"steps\":[{\"up_to\":1,\"value\":2}]", "\"value\":1,\"strikes\":-1", "\"value\":1,\"grace\":\"long\"", "\"compare\":\"growth\",\"value\":1,\"per\":\"day\"",
		"\"value\":1,\"stirkes\":2", "\"compare\":\"same-as\"", "\"compare\":\"==\"", "\"compare\":\"between\",\"value\":[5,1]",
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(bad); i++) {
		char *text RK_CLEANUP_FREE = rk_xasprintf("%s\"g\":{\"collector\":\"own\",\"metric\":\"m\",%s}}}", HEAD, bad[i]);
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		struct rk_hprofile *p = NULL;
		if (profile_load(text, &p, &err) != RK_INVALID)
			fail_msg("taken: %s", bad[i]);
	}
}

static void lists_where_objects_belong_are_refused(void **state)
{
	static const char *const bad[] = {
		"\"rules\":[1]", "\"rules\":[[]]", "\"rules\":[{}]", "\"rules\":{\"g\":[1]}", "\"collectors\":[1]", "\"collectors\":[{}]", "\"collectors\":{\"own\":[1]}",
		"\"collectors\":{\"own\":{\"command\":\"x\",\"parse\":\"json\",\"metrics\":[\"m\"]}}", "\"levels\":[\"lscpu\"]", "\"levels\":{\"quick\":{\"lscpu\":1}}",
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(bad); i++) {
		char *text RK_CLEANUP_FREE = rk_xasprintf("{\"apiVersion\":\"racksh/v1\",\"kind\":\"Profile\",\"name\":\"p\",\"inherits\":\"gb300-quick\",%s}", bad[i]);
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		struct rk_hprofile *p = NULL;
		if (profile_load(text, &p, &err) != RK_INVALID)
			fail_msg("taken: %s", bad[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_clause_says_what_the_manual_says),
		cmocka_unit_test(a_check_that_depends_on_another_one_waits_for_it),
		cmocka_unit_test(rows_stand_worst_first_with_all_their_targets),
		cmocka_unit_test(the_worst_verdict_is_that_of_all),
		cmocka_unit_test(what_makes_no_sense_together_is_refused),
		cmocka_unit_test(lists_where_objects_belong_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
