#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "provision/hooks.h"
#include "provision/isolation.h"
#include "provision/power.h"
#include "tests/contract/ops_twin.h"

/* The site's own commands are run when something happens, and told what. The outside systems are the twin's, but the world does not say that it is
 * one: in a twin no hook is run. */

struct hooked {
	struct fixture f;
	struct rk_sim *sim;
	char folder[200], log[260];
};

static int setup(void **state)
{
	struct hooked *h = rk_xcalloc(1, sizeof(*h));
	const char *tmp = getenv("TMPDIR");
	int64_t op;

	snprintf(h->folder, sizeof(h->folder), "%s/racksh-hooks-XXXXXX", tmp ? tmp : P_tmpdir);
	assert_non_null(mkdtemp(h->folder));
	snprintf(h->log, sizeof(h->log), "%s/log", h->folder);
	setenv("HOOK_OUT", h->log, 1);
	open_world(&h->f, NULL, 2, 4);
	h->f.site->hooks = "{\"operation\": \"echo $RACKSH_EVENT $RACKSH_OPERATION $RACKSH_STATE: $RACKSH_COMMAND: $RACKSH_DETAIL >>$HOOK_OUT\","
			   "\"leak\": \"echo $RACKSH_EVENT $RACKSH_RACK $RACKSH_TRAY: $RACKSH_LEAK >>$HOOK_OUT\","
			   "\"isolation\": \"echo $RACKSH_EVENT $RACKSH_VERDICT $RACKSH_VIOLATIONS: $RACKSH_WHAT >>$HOOK_OUT\"}";
	OK(rk_store_begin(h->f.world.store, -1, err));
	OK(rk_store_put_site(h->f.world.store, h->f.site, err));
	OK(rk_store_commit(h->f.world.store, err));
	OK(rk_world_refresh(&h->f.world, err));
	OK(rk_cluster_create(&h->f.world, spec_of(h->f.arena, "a", "t", 2, 1, false), &op, err));
	h->sim = h->f.world.sim;
	h->f.world.sim = NULL;
	*state = h;
	return 0;
}

static int teardown(void **state)
{
	struct hooked *h = *state;

	h->f.world.sim = h->sim;
	close_world(&h->f);
	unlink(h->log);
	assert_int_equal(rmdir(h->folder), 0);
	free(h);
	return 0;
}

/* What the hooks were told since the last time. */
static char *told(const struct hooked *h)
{
	char *text = NULL;
	size_t n;

	if (rk_file_read(h->log, 1 << 16, &text, &n, NULL))
		return rk_xstrdup("");
	unlink(h->log);
	return text;
}

static void assert_told(const struct hooked *h, const char *want)
{
	char *text RK_CLEANUP_FREE = told(h);

	if (!strstr(text, want))
		fail_msg("the hooks were told \"%s\", not \"%s\"", text, want);
}

static int stop(struct hooked *h, int64_t *op)
{
	static const int vms[] = { 0 };
	const struct rk_power_request q = { .verb = "stop", .off = true, .vms = (int *)(uintptr_t)vms, .n = 1, .grace_s = 30 };

	return rk_vm_power(&h->f.world, &q, op, NULL);
}

static void a_finished_operation(void **state)
{
	struct hooked *h = *state;
	int64_t op;

	assert_int_equal(stop(h, &op), 0);
	assert_told(h, "operation 2 done: vm stop a-01:");
}

static void an_operation_that_failed(void **state)
{
	struct hooked *h = *state;
	int64_t op;

	OK(rk_sim_fault_add(h->sim, "hv.shutdown=fail:no answer from the monitor", err));
	assert_true(stop(h, &op) != 0);
	assert_told(h, "operation 2 failed: vm stop a-01: vm.halt a-01:");
}

static void an_operation_that_is_stuck(void **state)
{
	struct hooked *h = *state;
	int64_t op;

	OK(rk_sim_fault_add(h->sim, "hv.destroy=fail:no answer from the monitor", err));
	assert_int_equal(rk_cluster_delete(&h->f.world, "a", &op, NULL), RK_PARTIAL);
	assert_told(h, "operation 2 resumable: cluster delete a:");
	rk_sim_fault_clear(h->sim);
	OK(rk_op_resume(&h->f.world, op, err));
	assert_told(h, "operation 2 done: cluster delete a:");
}

static void a_leak_once(void **state)
{
	struct hooked *h = *state;
	struct rk_power_now now;
	int leaks = 0;

	rk_power_unread(h->f.world.site, h->f.arena, &now);
	now.trays[1].leak = "detector 2 is wet";
	OK(rk_power_keep(&h->f.world, NULL, &now, &leaks, err));
	assert_int_equal(leaks, 1);
	assert_told(h, "leak r1 r1-t02: detector 2 is wet\n");
	OK(rk_power_keep(&h->f.world, NULL, &now, &leaks, err));
	char *again RK_CLEANUP_FREE = told(h);
	assert_string_equal(again, "");
	rk_power_now_clear(&now);
}

static void seen_once(void *ctx, const struct rk_isolation *isolation)
{
	(void)isolation;
	*(int *)ctx = 1;
}

static void an_isolation_alarm_while_watching(void **state)
{
	struct hooked *h = *state;

	OK(rk_sim_fault_add(h->sim, "gpu-move@r1-t01/0/32766", err));
	rk_clock_sleep_ms(h->f.clock, 10000);
	assert_int_equal(rk_isolation_watch(&h->f.world, 10, seen_once, &h->f.cancel, NULL), RK_UNHEALTHY);
	assert_told(h, "isolation fail 1: GPU r1-t01/0");
}

#define HOOKED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOOKED(a_finished_operation),
		HOOKED(an_operation_that_failed),
		HOOKED(an_operation_that_is_stuck),
		HOOKED(a_leak_once),
		HOOKED(an_isolation_alarm_while_watching),
	};

	keep_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
