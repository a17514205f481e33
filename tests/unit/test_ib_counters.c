#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "inventory/base/str.h"
#include "provision/ib_show.h"
#include "tests/contract/twin.h"

static struct rk_ib_reading reading(const char *extended, const char *narrow)
{
	struct rk_ib_reading r = { .guid = 1, .known = true };

	rk_ib_counters_parse(extended, strlen(extended), true, &r);
	rk_ib_counters_parse(narrow, strlen(narrow), false, &r);
	return r;
}

static struct rk_ib_thresholds builtin(struct rk_arena *arena)
{
	struct rk_ib_thresholds t;

	assert_int_equal(rk_ib_thresholds_parse("t", NULL, 0, arena, &t, NULL), 0);
	return t;
}

static void extended_counters_win_over_narrow_ones(void **state)
{
	struct rk_ib_reading r = reading("# Port extended counters: Lid 4 port 1\r\nPortXmitData:....................93600000000\r\nSymbolErrorCounter:..............7\n",
					 "SymbolErrorCounter:..............65535\nLinkDownedCounter:...............3\nPortRcvErrors:...................1");
	int down = rk_ib_counter_find("LinkDownedCounter", strlen("LinkDownedCounter"));

	(void)state;
	assert_true(r.value[0] == UINT64_C(93600000000));
	assert_int_equal(r.value[4], 7);
	assert_false(r.narrow[4]);
	assert_true(r.narrow[down]);
	assert_int_equal(r.value[down], 3);
	/* A last line without its end may be cut. */
	assert_false(r.have[rk_ib_counter_find("PortRcvErrors", strlen("PortRcvErrors"))]);
}

/* counter, before, after over 10 seconds: verdict and message. */
static const struct {
	const char *counter, *before, *after, *verdict, *says;
	bool narrow;
} cases[] = {
	{ "LinkDownedCounter", "4", "4", "pass", NULL, false },
	{ "LinkDownedCounter", "4", "5", "fail", "LinkDownedCounter: 1 in 10 s", false },
	{ "SymbolErrorCounter", "1000000", "1000100", "pass", NULL, false },
	{ "SymbolErrorCounter", "1000000", "1000101", "warn", "10.1 per second, more than 10", false },
	{ "LinkErrorRecoveryCounter", "0", "1", "warn", "6.0 per minute, more than 5", false },
	{ "PortXmitWait", "0", "200000", "warn", "congestion", false },
	{ "PortRcvErrors", "10", "3", "unknown", "reset", false },
	{ "LinkDownedCounter", "255", "255", "unknown", "largest value", true },
	{ "LinkDownedCounter", "255", "255", "pass", NULL, false },
};

static void only_changes_are_judged(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_ib_thresholds thresholds = builtin(arena);

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		struct rk_ib_change change;
		struct rk_ib_reading before = { .known = true }, after = { .known = true };
		const char *a = rk_arena_printf(arena, "%s:....%s\n", cases[i].counter, cases[i].before);
		const char *b = rk_arena_printf(arena, "%s:....%s\n", cases[i].counter, cases[i].after);
		for (size_t c = 0; c < RK_IB_COUNTERS; c++)
			before.have[c] = after.have[c] = !rk_streq(rk_ib_counter_name(c), cases[i].counter);
		rk_ib_counters_parse(a, strlen(a), !cases[i].narrow, &before);
		rk_ib_counters_parse(b, strlen(b), !cases[i].narrow, &after);
		rk_ib_compare(&before, &after, 10, &thresholds, arena, &change);
		assert_string_equal(change.verdict, cases[i].verdict);
		if (cases[i].says)
			assert_non_null(strstr(change.message, cases[i].says));
		else
			assert_null(change.message);
	}
}

static void a_counter_that_is_missing_is_unknown_not_zero(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_ib_thresholds thresholds = builtin(arena);
	struct rk_ib_reading r = reading("PortXmitData:....10\n", "");
	struct rk_ib_change change;

	(void)state;
	rk_ib_compare(&r, &r, 10, &thresholds, arena, &change);
	assert_string_equal(change.verdict, "unknown");
	assert_true(change.rcv_gbps < 0);
	assert_true(change.xmit_gbps == 0);
}

static void bad_thresholds_are_all_told(void **state)
{
	static const char text[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Counters\",\"name\":\"x\",\"counters\":{\n"
				   "\"LinkDowned\":{\"fail\":{\"any\":0},\"says\":\"x\"},\n\"PortXmitWait\":{\"warn\":{\"perHour\":3},\"says\":\"x\"},\n"
				   "\"PortRcvErrors\":{\"warn\":{\"any\":-1},\"says\":\"x\"}}}";
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_ib_thresholds t;

	(void)state;
	assert_int_equal(rk_ib_thresholds_parse("f", text, strlen(text), arena, &t, &err), RK_INVALID);
	assert_int_equal(err.n_details, 4);
}

static void ports_of_the_twin_count_what_faults_make_them_count(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_ib_thresholds thresholds = builtin(arena);
	struct rk_err ignored RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_ib_port_change *ports;
	struct twin t;
	size_t n;

	(void)state;
	twin_open(&t, twin_site, false);
	TWIN_OK(rk_ib_counters(&t.world, NULL, NULL, 5000, &thresholds, arena, &ports, &n, err));
	assert_int_equal(n, 16);
	assert_true(ports[0].change.xmit_gbps > 0);
	TWIN_OK(rk_sim_fault_add(t.world.sim, "port-errors@r1-t01/0/50,port-flaps@r1-t01/1/60,port-congested@r1-t01/2/20000,link-down@r1-t01/3", err));
	assert_int_equal(rk_ib_counters(&t.world, "r1-t01", NULL, 5000, &thresholds, arena, &ports, &n, &ignored), RK_UNHEALTHY);
	assert_int_equal(n, 4);
	assert_string_equal(ports[0].change.verdict, "warn");
	assert_string_equal(ports[1].change.verdict, "fail");
	assert_string_equal(ports[2].change.verdict, "warn");
	assert_string_equal(ports[3].change.verdict, "fail");
	twin_close(&t);
}

static void show_tells_wanted_configured_and_live(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_err ignored RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_ib_show show;
	struct twin t;

	(void)state;
	twin_open(&t, twin_site, true);
	TWIN_OK(rk_sim_fault_add(t.world.sim, "port-key@r1-t03/1/0x0100,link-down@r1-t01/2", err));
	TWIN_OK(rk_ib_show(&t.world, 0, 0x100, arena, &show, err));
	assert_string_equal(show.cluster, "a");
	assert_int_equal(show.n, 5);
	assert_null(show.sharp);
	assert_non_null(strstr(show.sharp_why, "does not tell"));
	assert_string_equal(show.members[0].port, "r1-t01/0");
	assert_string_equal(show.members[0].live, "full");
	assert_string_equal(show.members[2].live, "down");
	assert_string_equal(show.members[4].port, "r1-t03/1");
	assert_null(show.members[4].wanted);
	assert_string_equal(show.members[4].live, "limited");
	assert_int_equal(rk_ib_show(&t.world, 0, 0x155, arena, &show, &ignored), RK_NOT_FOUND);
	twin_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(extended_counters_win_over_narrow_ones),
		cmocka_unit_test(only_changes_are_judged),
		cmocka_unit_test(a_counter_that_is_missing_is_unknown_not_zero),
		cmocka_unit_test(bad_thresholds_are_all_told),
		cmocka_unit_test(ports_of_the_twin_count_what_faults_make_them_count),
		cmocka_unit_test(show_tells_wanted_configured_and_live),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
