#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "inventory/store_impl.h"
#include "tests/contract/ops_twin.h"

/* One NVLink controller and one subnet manager are used by one step at a time, whatever process it is of. */

enum { RACKS = 1, TRAYS = 6, STAY_MS = 20 };

struct place {
	char folder[200], state[260], inside[260], overlap[260];
};

static int setup(void **state)
{
	struct place *p = rk_xcalloc(1, sizeof(*p));
	const char *tmp = getenv("TMPDIR");

	snprintf(p->folder, sizeof(p->folder), "%s/racksh-lanes-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : tmp ? tmp : P_tmpdir);
	assert_non_null(mkdtemp(p->folder));
	snprintf(p->state, sizeof(p->state), "%s/state", p->folder);
	snprintf(p->inside, sizeof(p->inside), "%s/inside", p->folder);
	snprintf(p->overlap, sizeof(p->overlap), "%s/overlap", p->folder);
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	static const char *const names[] = { "state", "state-wal", "state-shm", "inside", "overlap" };
	struct place *p = *state;
	char path[300];

	for (size_t i = 0; i < RK_ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", p->folder, names[i]);
		unlink(path);
	}
	assert_int_equal(rmdir(p->folder), 0);
	free(p);
	return 0;
}

/* ---- a controller that notices company ---------------------------------------------------------------------------------------------------- */

static const struct place *place;
static const struct rk_nvl_ops *controller;

/* From the first change that a partition's step makes to its last: nobody else is to be between them. */
static void come_in(void)
{
	const struct timespec stay = { 0, STAY_MS * 1000000L };

	int fd = open(place->inside, O_CREAT | O_EXCL | O_WRONLY, 0600);
	if (fd < 0)
		fd = open(place->overlap, O_CREAT | O_WRONLY, 0600);
	close(fd);
	nanosleep(&stay, NULL);
}

static int slow_create(struct rk_nvl *nvl, int rack, int id, const char *name, const char *resiliency, int groups, int *ret_id, struct rk_err *err)
{
	come_in();
	return controller->create(nvl, rack, id, name, resiliency, groups, ret_id, err);
}

static int slow_add(struct rk_nvl *nvl, int rack, int id, uint64_t gpu, struct rk_err *err)
{
	static int n;
	int rc = controller->add(nvl, rack, id, gpu, err);

	/* Two trays of four GPUs. */
	if (++n == 8)
		unlink(place->inside);
	return rc;
}

static void watch_controller(struct fixture *f)
{
	static struct rk_nvl_ops ops;

	controller = f->world.nvl->ops;
	ops = *controller;
	ops.create = slow_create;
	ops.add = slow_add;
	f->world.nvl->ops = &ops;
}

static pid_t creates(const char *state, const char *name, bool watched)
{
	pid_t child = fork();

	if (child)
		return child;
	struct fixture f;
	int64_t op = 0;
	open_world(&f, state, RACKS, TRAYS);
	if (watched)
		watch_controller(&f);
	_exit(rk_cluster_create(&f.world, spec_of(f.arena, name, "t", 2, 1, false), &op, NULL) ? 1 : 0);
}

static void ended_well(pid_t child)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void two_processes_use_one_controller_in_turn(void **state)
{
	struct fixture f;
	pid_t children[3];

	place = *state;
	open_world(&f, place->state, RACKS, TRAYS);
	for (int i = 0; i < 3; i++)
		children[i] = creates(place->state, (const char *const[]){ "a", "b", "c" }[i], true);
	for (int i = 0; i < 3; i++)
		ended_well(children[i]);
	assert_int_not_equal(access(place->overlap, F_OK), 0);
	OK(rk_world_refresh(&f.world, err));
	assert_int_equal(f.world.site->n_vms, 6);
	rk_clock_sleep_ms(f.clock, 600000);
	assert_consistent(&f);
	close_world(&f);
}

/* ---- who has the lane --------------------------------------------------------------------------------------------------------------------- */

static int64_t an_operation(struct fixture *f)
{
	int64_t op;

	OK(rk_store_op_add(f->world.store, "something", "{\"type\":\"power\"}", &op, err));
	return op;
}

static bool takes(struct fixture *f, const char *lane, int64_t op)
{
	bool taken = false;

	OK(rk_store_lane_take(f->world.store, lane, op, "a step", &taken, NULL, err));
	return taken;
}

/* State of the step of this kind in the newest operation. */
static const char *step_state(struct fixture *f, const char *kind)
{
	struct rk_op_row *ops;
	struct rk_step_row *steps;
	size_t n;

	OK(rk_store_op_list(f->world.store, f->arena, &ops, &n, err));
	OK(rk_store_step_list(f->world.store, ops[0].id, f->arena, &steps, &n, err));
	for (size_t i = 0; i < n; i++)
		if (strcmp(steps[i].kind, kind) == 0)
			return steps[i].state;
	return "";
}

static void wait_until(struct fixture *f, const char *kind, const char *state)
{
	const struct timespec pause = { 0, 5000000L };

	while (strcmp(step_state(f, kind), state) != 0)
		nanosleep(&pause, NULL);
}

static void a_step_waits_for_the_lane_that_another_process_has(void **state)
{
	struct fixture f;

	place = *state;
	open_world(&f, place->state, RACKS, TRAYS);
	int64_t op = an_operation(&f);
	assert_true(takes(&f, "nvlink:r1", op));
	pid_t child = creates(place->state, "a", false);
	/* Everything else goes on meanwhile. */
	wait_until(&f, "ib.partition", "done");
	wait_until(&f, "vm.define", "done");
	assert_string_equal(step_state(&f, "nvl.partition"), "planned");
	assert_string_equal(step_state(&f, "vm.start"), "planned");
	OK(rk_store_lane_drop(f.world.store, "nvlink:r1", op, err));
	ended_well(child);
	OK(rk_world_refresh(&f.world, err));
	assert_int_equal(f.world.site->clusters[0].state, RK_CLUSTER_READY);
	close_world(&f);
}

/* Nothing is journalled meanwhile. */
static void one_that_waits_for_long_keeps_its_leases(void **state)
{
	const struct timespec pause = { 0, 5000000L };
	struct fixture f;
	int64_t left = 0;

	place = *state;
	open_world(&f, place->state, RACKS, TRAYS);
	int64_t op = an_operation(&f);
	assert_true(takes(&f, "nvlink:r1", op));
	pid_t child = creates(place->state, "a", false);
	wait_until(&f, "ib.partition", "done");
	wait_until(&f, "vm.define", "done");
	OK(rk_db_exec(f.world.store->db, err, "UPDATE leases SET expires_ms = 1 WHERE thing = 'cluster:a'"));
	for (int i = 0; left < 2 && i < 4000; i++) {
		nanosleep(&pause, NULL);
		OK(rk_db_one_int(f.world.store->db, "SELECT expires_ms FROM leases WHERE thing = 'cluster:a'", NULL, 0, 0, &left, err));
	}
	assert_true(left > rk_clock_unix_ms(NULL));
	OK(rk_store_lane_drop(f.world.store, "nvlink:r1", op, err));
	ended_well(child);
	close_world(&f);
}

static void a_lane_is_left_with_the_step_the_operation_or_the_process(void **state)
{
	struct fixture f;
	int status;

	place = *state;
	open_world(&f, place->state, RACKS, TRAYS);
	int64_t one = an_operation(&f), two = an_operation(&f);
	assert_true(takes(&f, "nvlink:r1", one));
	assert_true(takes(&f, "nvlink:r1", one));
	assert_false(takes(&f, "nvlink:r1", two));
	assert_true(takes(&f, "ib:ib0", two));
	OK(rk_store_lane_drop(f.world.store, "nvlink:r1", two, err));
	assert_false(takes(&f, "nvlink:r1", two));
	/* Left unfinished: nobody is in the middle of a step. */
	OK(rk_store_op_set(f.world.store, one, "resumable", NULL, err));
	assert_true(takes(&f, "nvlink:r1", two));
	OK(rk_store_op_set(f.world.store, two, "done", NULL, err));
	pid_t child = fork();
	if (child == 0) {
		struct fixture g;
		open_world(&g, place->state, RACKS, TRAYS);
		bool taken = takes(&g, "nvlink:r1", an_operation(&g));
		_exit(taken ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_true(takes(&f, "nvlink:r1", an_operation(&f)));
	close_world(&f);
}

/* ---- taken over in the middle of a step ----------------------------------------------------------------------------------------------------- */

static const struct rk_actor successor = { "carol", "elsewhere", 77 };

static void take_over(const char *state, int64_t op)
{
	RK_CLEANUP_STORE struct rk_store *store = NULL;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	char *uri RK_CLEANUP_FREE = rk_xasprintf("sqlite:%s", state);
	const char *former;
	bool taken;

	OK(rk_store_open(uri, RK_STORE_WRITE, &successor, &store, err));
	OK(rk_store_lease_takeover(store, op, arena, &former, err));
	OK(rk_store_op_set(store, op, "running", "resumed", err));
	OK(rk_store_lane_take(store, "nvlink:r1", op, "a step", &taken, NULL, err));
	assert_true(taken);
}

static int overtaken_create(struct rk_nvl *nvl, int rack, int id, const char *name, const char *resiliency, int groups, int *ret_id, struct rk_err *err)
{
	take_over(place->state, 1);
	return controller->create(nvl, rack, id, name, resiliency, groups, ret_id, err);
}

static void one_who_was_taken_over_leaves_lane_and_state_to_the_new_runner(void **state)
{
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_nvl_ops ops;
	struct rk_op_row row;
	struct fixture f;
	int64_t op = 0;

	place = *state;
	open_world(&f, place->state, RACKS, TRAYS);
	controller = f.world.nvl->ops;
	ops = *controller;
	ops.create = overtaken_create;
	f.world.nvl->ops = &ops;
	assert_int_equal(rk_cluster_create(&f.world, spec_of(f.arena, "a", "t", 2, 1, false), &op, &why), RK_CONFLICT);
	assert_non_null(strstr(why.message, "was taken over by elsewhere 77"));
	OK(rk_store_op_get(f.world.store, 1, f.arena, &row, err));
	assert_string_equal(row.state, "running");
	assert_string_equal(row.runner, "elsewhere 77");
	assert_false(takes(&f, "nvlink:r1", an_operation(&f)));
	/* What it held is not its own any more. */
	rk_err_clear(&why);
	assert_int_equal(rk_store_lease_take(f.world.store, "cluster:a", 1, "create", &why), RK_CONFLICT);
	assert_non_null(strstr(why.message, "\"cluster:a\" is held by carol@elsewhere 77"));
	f.world.nvl->ops = controller;
	close_world(&f);
}

/* ---- Ctrl-C while a rollback waits ---------------------------------------------------------------------------------------------------------- */

/* The lane goes to another operation when the partition is made, and the operator loses patience when he hears of it. */
static void take_lane_then_interrupt(void *ctx, const char *text)
{
	struct fixture *f = ctx;
	static int64_t other;

	if (strstr(text, "nvl.partition r1") && strstr(text, ": done")) {
		other = an_operation(f);
		assert_true(takes(f, "nvlink:r1", other));
	}
	if (strstr(text, "\"nvlink:r1\" is held by"))
		f->cancel = 1;
}

static void a_rollback_that_waits_for_a_lane_can_be_interrupted_and_goes_on_backwards(void **state)
{
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_op_row row;
	struct fixture f;
	int64_t op = 0;
	bool told = false;

	place = *state;
	open_world(&f, place->state, RACKS, TRAYS);
	f.world.progress = take_lane_then_interrupt;
	f.world.progress_ctx = &f;
	OK(rk_sim_fault_add(f.world.sim, "hv.start#1=fail:no", err));
	assert_int_equal(rk_cluster_create(&f.world, spec_of(f.arena, "a", "t", 2, 1, false), &op, &why), RK_PARTIAL);
	assert_string_equal(why.hint, "racksh op resume 1");
	for (size_t i = 0; i < why.n_details; i++)
		told |= strstr(why.details[i], "nvl.partition r1") && strstr(why.details[i], "undoing: it waits: \"nvlink:r1\" is held by tester@here");
	assert_true(told);
	assert_non_null(strstr(why.details[why.n_details - 1], "because of this: vm.start"));
	OK(rk_store_op_get(f.world.store, 1, f.arena, &row, err));
	assert_string_equal(row.state, "resumable");
	f.cancel = 0;
	f.world.progress = NULL;
	OK(rk_store_op_set(f.world.store, 2, "done", NULL, err));
	OK(rk_op_resume(&f.world, 1, err));
	OK(rk_store_op_get(f.world.store, 1, f.arena, &row, err));
	assert_string_equal(row.state, "rolled-back");
	assert_int_equal(f.world.site->n_clusters, 0);
	assert_consistent(&f);
	close_world(&f);
}

/* ---- two that want the same --------------------------------------------------------------------------------------------------------------- */

/* The second one planned before the first one began: what it finds is no lack of trays, but its cluster. */
static void the_same_cluster_created_twice_is_made_once(void **state)
{
	struct fixture f, late;
	int64_t op;

	place = *state;
	open_world(&f, place->state, RACKS, TRAYS);
	open_world(&late, place->state, RACKS, TRAYS);
	OK(rk_cluster_create(&f.world, spec_of(f.arena, "a", "t", RACKS * TRAYS, 1, false), &op, err));
	OK(rk_cluster_create(&late.world, spec_of(late.arena, "a", "t", RACKS * TRAYS, 1, false), &op, err));
	assert_int_equal(op, 0);
	assert_int_equal(late.world.site->n_clusters, 1);
	close_world(&late);
	close_world(&f);
}

static void who_holds_a_cluster_since_when_and_for_what_is_said(void **state)
{
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	struct fixture f;
	int64_t op, other;

	place = *state;
	open_world(&f, place->state, RACKS, TRAYS);
	OK(rk_cluster_create(&f.world, spec_of(f.arena, "a", "t", 2, 1, false), &op, err));
	f.world.confirm_ms = 3600000;
	OK(rk_cluster_resize(&f.world, "a", 3, true, &op, err));
	f.world.confirm_ms = 0;
	assert_int_equal(rk_cluster_delete(&f.world, "a", &other, &why), RK_CONFLICT);
	assert_non_null(strstr(why.message, "cluster \"a\" is held by operation 2 (cluster grow a 3, awaiting-confirm) of tester@here "));
	assert_non_null(strstr(why.message, " since 20"));
	rk_err_clear(&why);
	OK(rk_store_op_set(f.world.store, op, "running", NULL, err));
	assert_int_equal(rk_op_resume(&f.world, op, &why), RK_CONFLICT);
	assert_non_null(strstr(why.message, "operation 2 (cluster grow a 3, begun by tester@here "));
	close_world(&f);
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_A_FOLDER(two_processes_use_one_controller_in_turn),
		IN_A_FOLDER(a_step_waits_for_the_lane_that_another_process_has),
		IN_A_FOLDER(one_that_waits_for_long_keeps_its_leases),
		IN_A_FOLDER(one_who_was_taken_over_leaves_lane_and_state_to_the_new_runner),
		IN_A_FOLDER(a_rollback_that_waits_for_a_lane_can_be_interrupted_and_goes_on_backwards),
		IN_A_FOLDER(the_same_cluster_created_twice_is_made_once),
		IN_A_FOLDER(who_holds_a_cluster_since_when_and_for_what_is_said),
		IN_A_FOLDER(a_lane_is_left_with_the_step_the_operation_or_the_process),
	};

	keep_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
