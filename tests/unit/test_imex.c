#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/contract/ops_twin.h"

/* The IMEX node lists of a cluster's guests, and its daemons when the list changes. */

static int start(void **state)
{
	struct fixture *f = rk_xcalloc(1, sizeof(*f));
	int64_t op;

	open_world(f, NULL, 1, 5);
	OK(rk_cluster_create(&f->world, spec_of(f->arena, "a", "t", 2, 2, true), &op, err));
	OK(rk_world_refresh(&f->world, err));
	*state = f;
	return 0;
}

static const char *said(struct fixture *f, const char *vm, const char *const *argv)
{
	struct rk_ssh_result result = { .status = -1 };
	struct rk_vm_conn *conn = NULL;

	OK(rk_vm_connect(&f->world, rk_find_vm(f->world.site, vm), 0, &conn, err));
	OK(rk_vm_run(conn, argv, &result, err));
	const char *out = rk_arena_strdup(f->arena, rk_str_text(&result.out));
	rk_ssh_result_clear(&result);
	rk_vm_close(conn);
	return out;
}

static const char *list_of(struct fixture *f, const char *vm)
{
	return said(f, vm, (const char *const[]){ "cat", "/etc/nvidia-imex/nodes_config.cfg", NULL });
}

static bool daemon_knows(struct fixture *f, const char *vm, const char *address)
{
	return strstr(said(f, vm, (const char *const[]){ "nvidia-imex-ctl", "-N", "-j", "-H", NULL }), address) != NULL;
}

static int64_t grow(struct fixture *f, int count)
{
	int64_t op = 0;

	(void)rk_cluster_resize(&f->world, "a", count, true, &op, NULL);
	OK(rk_world_refresh(&f->world, err));
	return op;
}

/* Last word of the step that wrote the list of a VM. */
static const char *note_of(struct fixture *f, int64_t op, const char *vm)
{
	struct rk_step_row *rows;
	size_t n;

	OK(rk_store_step_list(f->world.store, op, f->arena, &rows, &n, err));
	for (size_t i = 0; i < n; i++)
		if (strcmp(rows[i].kind, "imex.nodes") == 0 && strcmp(rows[i].target, vm) == 0)
			return rows[i].detail;
	return NULL;
}

static enum rk_cluster_state state_of(struct fixture *f)
{
	return f->world.site->clusters[rk_find_cluster(f->world.site, "a")].state;
}

/* Byte for byte the same on every VM, in the order of their numbers: through the seed of those that come, and on change on those that stay. */
static void every_vm_has_the_same_list_in_the_same_order(void **state)
{
	struct fixture *f = *state;
	int64_t op;
	size_t moved;

	assert_string_equal(list_of(f, "a-01"), "10.20.0.10\n10.20.0.11\n");
	assert_string_equal(list_of(f, "a-02"), list_of(f, "a-01"));
	grow(f, 4);
	assert_string_equal(list_of(f, "a-01"), "10.20.0.10\n10.20.0.11\n10.20.0.12\n10.20.0.13\n");
	for (int i = 2; i <= 4; i++)
		assert_string_equal(list_of(f, rk_arena_printf(f->arena, "a-%02d", i)), list_of(f, "a-01"));
	OK(rk_cluster_repair(&f->world, "a", (const char *const[]){ "a-02" }, 1, &op, &moved, err));
	OK(rk_world_refresh(&f->world, err));
	assert_string_equal(list_of(f, "a-01"), "10.20.0.10\n10.20.0.14\n10.20.0.12\n10.20.0.13\n");
	assert_string_equal(list_of(f, "a-02"), list_of(f, "a-04"));
	assert_string_equal(list_of(f, "a-02"), list_of(f, "a-01"));
}

static void a_daemon_that_takes_the_list_is_not_restarted(void **state)
{
	struct fixture *f = *state;

	OK(rk_sim_fault_add(f->world.sim, "gpu-busy@r1-t01/0", err));
	int64_t op = grow(f, 3);
	assert_null(note_of(f, op, "a-01"));
	assert_true(daemon_knows(f, "a-01", "10.20.0.12"));
	assert_int_equal(state_of(f), RK_CLUSTER_READY);
}

/* It kept its former list: with nothing running there, a restart harms nobody. */
static void a_deaf_daemon_is_restarted_when_no_job_runs(void **state)
{
	struct fixture *f = *state;

	OK(rk_sim_fault_add(f->world.sim, "imex-deaf@r1-t01/0", err));
	int64_t op = grow(f, 3);
	assert_non_null(strstr(note_of(f, op, "a-01"), "was restarted"));
	assert_true(daemon_knows(f, "a-01", "10.20.0.12"));
	assert_int_equal(state_of(f), RK_CLUSTER_READY);
}

/* A job would be ended: it is left alone, the step says what is to be done, and the gate that the domain is not whole. */
static void a_deaf_daemon_is_left_alone_while_a_job_runs(void **state)
{
	struct fixture *f = *state;

	OK(rk_sim_fault_add(f->world.sim, "imex-deaf@r1-t01/0,gpu-busy@r1-t01/3", err));
	int64_t op = grow(f, 3);
	assert_non_null(strstr(note_of(f, op, "a-01"), "restart it when the jobs on these GPUs are over"));
	assert_false(daemon_knows(f, "a-01", "10.20.0.12"));
	assert_string_equal(list_of(f, "a-01"), list_of(f, "a-03"));
	assert_int_equal(state_of(f), RK_CLUSTER_DEGRADED);
}

/* Whether a job runs is not known: that is not "none". */
static void a_deaf_daemon_is_left_alone_when_nvidia_smi_fails(void **state)
{
	struct fixture *f = *state;

	OK(rk_sim_fault_add(f->world.sim, "imex-deaf@r1-t01/0,driver-down@r1-t01/0", err));
	int64_t op = grow(f, 3);
	assert_non_null(strstr(note_of(f, op, "a-01"), "restart it when the jobs on these GPUs are over"));
	assert_false(daemon_knows(f, "a-01", "10.20.0.12"));
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, end_world)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(every_vm_has_the_same_list_in_the_same_order),
		WITH(a_daemon_that_takes_the_list_is_not_restarted),
		WITH(a_deaf_daemon_is_restarted_when_no_job_runs),
		WITH(a_deaf_daemon_is_left_alone_while_a_job_runs),
		WITH(a_deaf_daemon_is_left_alone_when_nvidia_smi_fails),
	};

	keep_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
