#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "inventory/base/str.h"
#include "provision/isolation.h"
#include "tests/contract/twin.h"

static int start(void **state)
{
	struct twin *t = rk_xcalloc(1, sizeof(*t));

	twin_open(t, twin_site, true);
	*state = t;
	return 0;
}

static int stop(void **state)
{
	twin_close(*state);
	free(*state);
	return 0;
}

static int verify(struct twin *t, struct rk_isolation *ret)
{
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	return rk_isolation_verify(&t->world, true, t->arena, ret, &err);
}

static const struct rk_plane_check *check_of(const struct rk_isolation *isolation, const char *object)
{
	for (size_t i = 0; i < isolation->n_checks; i++)
		if (rk_streq(isolation->checks[i].object, object))
			return &isolation->checks[i];
	fail_msg("no check of %s", object);
	return NULL;
}

static void two_tenants_apart_pass(void **state)
{
	struct rk_isolation isolation;

	assert_int_equal(verify(*state, &isolation), 0);
	assert_string_equal(isolation.verdict, "pass");
	assert_int_equal(isolation.n_violations, 0);
	assert_string_equal(check_of(&isolation, "ib0 paths")->message, "no path across in 1 tries, 2 inside");
	assert_string_equal(check_of(&isolation, "r1/1")->tenant, "ta");
}

/* What cannot reach anybody is no breach, and the other commands tell that it is missing. */
static void what_is_missing_or_down_is_no_breach(void **state)
{
	struct twin *t = *state;
	struct rk_err ignored RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_isolation isolation;
	struct rk_plane_check *checks;
	struct rk_drift *rows;
	size_t n;

	TWIN_OK(rk_sim_fault_add(t->world.sim, "gpu-leave@r1-t01/0,link-down@r1-t01/2,link-down@r1-t04/0", err));
	assert_int_equal(verify(t, &isolation), 0);
	assert_int_equal(isolation.n_violations, 0);
	assert_string_equal(check_of(&isolation, "r1/1")->message, "r1-t01/0 in no partition: reaches nobody");
	assert_string_equal(check_of(&isolation, "ib0/0x0100")->message, "r1-t01/2 without a link: reaches nobody");
	assert_string_equal(check_of(&isolation, "ib0/0x0100")->verdict, "pass");
	assert_int_equal(rk_nvlink_verify(&t->world, NULL, false, t->arena, &checks, &n, &ignored), RK_UNHEALTHY);
	assert_int_equal(rk_ib_verify(&t->world, t->arena, &checks, &n, &ignored), RK_UNHEALTHY);
	assert_int_equal(rk_drift(&t->world, NULL, t->arena, &rows, &n, &ignored), RK_UNHEALTHY);
}

static void what_was_not_read_is_unknown(void **state)
{
	static const char *const faults[][2] = { { "nvl.list=hang", "r1" }, { "ib.list=hang", "ib0" }, { "ib.tables=hang", "ib0/0x0100" }, { "ib.path=hang", "ib0 paths" } };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(faults); i++) {
		struct twin t;
		struct rk_isolation isolation;
		twin_open(&t, twin_site, true);
		TWIN_OK(rk_sim_fault_add(t.world.sim, faults[i][0], err));
		assert_int_equal(verify(&t, &isolation), RK_UNREACHABLE);
		assert_string_equal(isolation.verdict, "unknown");
		assert_string_equal(check_of(&isolation, faults[i][1])->verdict, "unknown");
		twin_close(&t);
	}
}

static void a_manager_that_is_silent_about_no_tenant_is_skipped(void **state)
{
	struct twin t;
	struct rk_isolation isolation;

	(void)state;
	twin_open(&t, twin_site, false);
	TWIN_OK(rk_sim_fault_add(t.world.sim, "nvl.list=hang,ib.list=hang,ib.tables=hang", err));
	assert_int_equal(verify(&t, &isolation), 0);
	assert_string_equal(check_of(&isolation, "r1")->verdict, "skipped");
	twin_close(&t);
}

/* fault, what the violation says, the tenants. Trays: t01 of ta, t02 of tb, t03 and t04 free. */
static const struct breach {
	const char *fault, *what, *a, *b;
} breaches[] = {
	{ "gpu-move@r1-t01/0/2", "NVLink partition r1/2 holds GPUs of both", "ta", "tb" },
	{ "gpu-move@r1-t02/3/32766", "GPU r1-t02/3 is in the default partition of r1", "tb", NULL },
	{ "gpu-move@r1-t02/3/77", "the store knows of no such partition", "tb", NULL },
	{ "gpu-move@r1-t03/3/77", "the store knows of no such partition", NULL, NULL },
	{ "port-key@r1-t01/1/0xffff", "port r1-t01/1 is a full member of the default partition", "ta", NULL },
	{ "port-key@r1-t03/1/0xffff", "port r1-t03/1 is a full member of the default partition", NULL, NULL },
	{ "port-key@r1-t01/1/0x8101", "port r1-t01/1 holds key ib0/0x0101 of tenant tb", "ta", "tb" },
	{ "port-key@r1-t01/0/0x8101", "the subnet administrator gives a path from port", "ta", "tb" },
	{ "port-key@r1-t01/1/0x0101", "port r1-t01/1 holds key ib0/0x0101 of tenant tb", "ta", "tb" },
	{ "port-key@r1-t04/1/0x8101", "which no tenant has, holds key ib0/0x0101", "tb", NULL },
	{ "port-key@r1-t01/1/0x8150", "key ib0/0x0150 of the managed range", "ta", NULL },
	{ "port-key@r1-t03/1/0x8150", "a port of no tenant holds key ib0/0x0150", NULL, NULL },
	{ "port-key@r1-t01/1/0x8999,port-key@r1-t02/1/0x0999", "ports of both hold key ib0/0x0999", "ta", "tb" },
};

static void every_breach_is_a_violation(void **state)
{
	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(breaches); i++) {
		struct twin t;
		struct rk_isolation isolation;
		bool found = false;
		twin_open(&t, twin_site, true);
		TWIN_OK(rk_sim_fault_add(t.world.sim, breaches[i].fault, err));
		assert_int_equal(verify(&t, &isolation), RK_UNHEALTHY);
		assert_string_equal(isolation.verdict, "fail");
		for (size_t v = 0; v < isolation.n_violations; v++)
			found |= strstr(isolation.violations[v].what, breaches[i].what) && rk_streq(isolation.violations[v].tenant_a, breaches[i].a) &&
				 rk_streq(isolation.violations[v].tenant_b, breaches[i].b);
		if (!found)
			fail_msg("%s: %zu violations, the first: %s", breaches[i].fault, isolation.n_violations, isolation.violations[0].what);
		twin_close(&t);
	}
}

/* Storage: servers are full members of a key outside the pool, tenants limited ones. */
static void a_shared_service_is_no_breach(void **state)
{
	struct twin *t = *state;
	struct rk_isolation isolation;

	TWIN_OK(rk_sim_fault_add(t->world.sim, "port-key@r1-t01/1/0x0999,port-key@r1-t02/1/0x0999", err));
	assert_int_equal(verify(t, &isolation), 0);
	assert_int_equal(isolation.n_violations, 0);
}

struct watched {
	struct twin *t;
	struct rk_sim *sim;
	int calls;
	char verdicts[8];
};

/* Breaks isolation behind the watch's back, mends it, and ends it. */
static void saw(void *ctx, const struct rk_isolation *isolation)
{
	static const char *const next[] = { "port-key@r1-t01/1/0xffff", "port-clean@r1-t01/1" };
	struct watched *w = ctx;

	w->verdicts[w->calls] = isolation->verdict[0];
	if (w->calls < 2)
		TWIN_OK(rk_sim_fault_add(w->sim, next[w->calls], err));
	else
		w->t->cancel = 1;
	w->calls++;
}

static void a_watch_tells_every_change_and_ends_on_ctrl_c(void **state)
{
	struct twin *t = *state;
	struct watched w = { .t = t, .sim = t->world.sim };
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	assert_int_equal(rk_isolation_watch(&w.t->world, 0, saw, &w, &err), RK_UNHEALTHY);
	assert_string_equal(w.verdicts, "pfp");
}

/* The site's own alarm is called once for each new breach. A twin runs no hooks, so the drivers are left to it and it is hidden. */
static void a_watch_calls_the_hook_of_the_site_when_isolation_breaks(void **state)
{
	char path[] = "/tmp/racksh-hook.XXXXXX";
	int fd = mkstemp(path);
	char *site RK_CLEANUP_FREE = rk_xasprintf("{\"hooks\":{\"isolation\":\"echo $RACKSH_VERDICT $RACKSH_VIOLATIONS $RACKSH_WHAT >>%s\"},%s", path, twin_site + 1);
	char *said RK_CLEANUP_FREE = NULL;
	struct twin t;
	size_t len;

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	twin_open(&t, site, true);
	struct rk_sim *sim = t.world.sim;
	struct watched w = { .t = &t, .sim = sim };
	t.world.sim = NULL;
	assert_int_equal(rk_isolation_watch(&t.world, 0, saw, &w, NULL), RK_UNHEALTHY);
	t.world.sim = sim;
	twin_close(&t);
	assert_int_equal(rk_file_read(path, 10000, &said, &len, NULL), 0);
	unlink(path);
	assert_string_equal(said, "fail 1 port r1-t01/1 is a full member of the default partition and reaches every port of ib0\n");
}

/* Nothing was looked at: that proves nothing. */
static void an_empty_store_is_unknown(void **state)
{
	static const struct rk_actor me = { "tester", "here", 1 };
	struct rk_world world = { .jobs = 1 };
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_isolation isolation;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	(void)state;
	assert_int_equal(rk_store_open("mem:", RK_STORE_WRITE, &me, &world.store, NULL), 0);
	assert_int_equal(rk_store_snapshot(world.store, &world.site, NULL), 0);
	assert_int_equal(rk_isolation_verify(&world, true, arena, &isolation, &err), RK_UNREACHABLE);
	assert_string_equal(isolation.verdict, "unknown");
	assert_non_null(strstr(err.message, "there is nothing to verify"));
	rk_world_close(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(two_tenants_apart_pass, start, stop),
		cmocka_unit_test_setup_teardown(what_is_missing_or_down_is_no_breach, start, stop),
		cmocka_unit_test(what_was_not_read_is_unknown),
		cmocka_unit_test(a_manager_that_is_silent_about_no_tenant_is_skipped),
		cmocka_unit_test(every_breach_is_a_violation),
		cmocka_unit_test_setup_teardown(a_shared_service_is_no_breach, start, stop),
		cmocka_unit_test_setup_teardown(a_watch_tells_every_change_and_ends_on_ctrl_c, start, stop),
		cmocka_unit_test(a_watch_calls_the_hook_of_the_site_when_isolation_breaks),
		cmocka_unit_test(an_empty_store_is_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
