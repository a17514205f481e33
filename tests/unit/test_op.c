#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "inventory/store_impl.h"
#include "provision/hooks.h"
#include "tests/contract/ops_twin.h"

/* The engine's promises: what is written before what, who may go on with what, what waits for whom. */

static int setup(void **state)
{
	struct fixture *f = rk_xcalloc(1, sizeof(*f));

	open_world(f, NULL, 2, 3);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	close_world(*state);
	free(*state);
	return 0;
}

static struct rk_op_row op_row(struct fixture *f, int64_t op)
{
	struct rk_op_row row = { .id = 0 };

	OK(rk_store_op_get(f->world.store, op, f->arena, &row, err));
	return row;
}

static void assert_state(struct fixture *f, int64_t op, const char *state)
{
	assert_string_equal(op_row(f, op).state, state);
}

static int create(struct fixture *f, int count, int64_t *op, struct rk_err *err)
{
	return rk_cluster_create(&f->world, spec_of(f->arena, "a", "t", count, 1, false), op, err);
}

static void fault(struct fixture *f, const char *spec)
{
	OK(rk_sim_fault_add(f->world.sim, spec, err));
}

static const char *step_state(struct fixture *f, int64_t op, const char *kind, const char **ret_detail)
{
	struct rk_step_row *steps;
	size_t n;

	OK(rk_store_step_list(f->world.store, op, f->arena, &steps, &n, err));
	for (size_t i = 0; i < n; i++)
		if (strcmp(steps[i].kind, kind) == 0) {
			if (ret_detail)
				*ret_detail = steps[i].detail;
			return steps[i].state;
		}
	fail_msg("operation %" PRId64 " has no step of kind %s", op, kind);
	return NULL;
}

static bool says(const struct rk_err *why, const char *what, const char *more)
{
	for (size_t i = 0; i < why->n_details; i++)
		if (strstr(why->details[i], what) && strstr(why->details[i], more))
			return true;
	return false;
}

/* ---- directions ------------------------------------------------------------------------------------------------------------------------ */

static void an_undo_that_failed_stays_undoing_and_is_gone_on_with(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	int64_t op = 0;
	const char *detail;

	fault(f, "hv.start@r2-t01=fail,hv.undefine@r1-t01#1=fail:busy");
	assert_int_equal(create(f, 2, &op, &why), RK_PARTIAL);
	assert_non_null(strstr(why.hint, "op resume"));
	assert_null(strstr(why.hint, "rollback"));
	assert_true(says(&why, "vm.define a-0", " on r1-t01: undoing: hv.undefine on r1-t01: busy"));
	assert_true(says(&why, "not taken back yet: ", "vm.volumes a-0"));
	assert_true(says(&why, "it was being taken back because of this: ", "hv.start on r2-t01"));
	assert_state(f, op, "resumable");
	assert_string_equal(step_state(f, op, "vm.define", &detail), "undoing");
	assert_non_null(strstr(detail, "busy"));
	/* The way is back: resume does not build what the rollback took apart. */
	OK(rk_op_resume(&f->world, op, err));
	assert_state(f, op, "rolled-back");
	assert_consistent(f);
	assert_int_equal(f->world.site->n_clusters, 0);
}

static void recovery_of_what_is_over_is_nothing(void **state)
{
	struct fixture *f = *state;
	int64_t op = 0;

	OK(create(f, 2, &op, err));
	long calls = rk_sim_calls(f->world.sim);
	OK(rk_op_resume(&f->world, op, err));
	OK(rk_op_rollback(&f->world, op, err));
	OK(rk_op_cancel(&f->world, op, err));
	assert_int_equal(rk_sim_calls(f->world.sim), calls);
	assert_state(f, op, "done");
	assert_consistent(f);
}

static void what_cannot_be_taken_back_comes_last_and_only_goes_on(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	int64_t op = 0;

	OK(create(f, 3, &op, err));
	fault(f, "hv.undefine#1=fail");
	assert_int_equal(rk_cluster_resize(&f->world, "a", 1, false, &op, &why), RK_PARTIAL);
	assert_string_equal(step_state(f, op, "ib.leave", NULL), "done");
	rk_err_clear(&why);
	assert_int_equal(rk_op_rollback(&f->world, op, &why), RK_INVALID);
	assert_non_null(strstr(why.message, "cannot be taken back any more"));
	OK(rk_op_resume(&f->world, op, err));
	assert_state(f, op, "done");
	assert_consistent(f);
	assert_int_equal(f->world.site->n_vms, 1);
}

static void ctrl_c_rolls_back(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	int64_t op = 0;

	f->cancel = 1;
	assert_int_equal(create(f, 2, &op, &why), RK_CANCELLED);
	assert_state(f, op, "cancelled");
	f->cancel = 0;
	assert_consistent(f);
	assert_int_equal(f->world.site->n_clusters, 0);
}

/* ---- confirmation ----------------------------------------------------------------------------------------------------------------------- */

static void an_unconfirmed_change_is_undone_when_its_time_is_over(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	int64_t op = 0, by = 0;

	OK(create(f, 2, &op, err));
	char *before RK_CLEANUP_FREE = world_text(f);
	f->world.confirm_ms = 1;
	OK(rk_cluster_resize(&f->world, "a", 4, true, &op, err));
	assert_state(f, op, "awaiting-confirm");
	OK(rk_op_confirm_by(&f->world, op, &by, err));
	while (rk_clock_unix_ms(NULL) < by)
		rk_clock_sleep_ms(NULL, 1);
	assert_int_equal(rk_op_confirm(&f->world, op, &why), RK_CONFLICT);
	OK(rk_op_sweep(&f->world, err));
	assert_state(f, op, "rolled-back");
	char *after RK_CLEANUP_FREE = world_text(f);
	assert_string_equal(after, before);
}

static void a_confirmed_change_stays_and_what_was_put_off_is_done(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	int64_t op = 0, other = 0;

	OK(create(f, 3, &op, err));
	f->world.confirm_ms = 3600000;
	OK(rk_cluster_resize(&f->world, "a", 2, false, &op, err));
	assert_state(f, op, "awaiting-confirm");
	assert_string_equal(step_state(f, op, "vm.erase", NULL), "planned");
	/* The same command again has nothing to add; another one has to wait. */
	OK(rk_cluster_resize(&f->world, "a", 2, false, &other, err));
	assert_int_equal(other, op);
	assert_int_equal(rk_cluster_resize(&f->world, "a", 5, true, &other, &why), RK_CONFLICT);
	rk_err_clear(&why);
	assert_int_equal(rk_op_resume(&f->world, op, &why), RK_CONFLICT);
	OK(rk_op_sweep(&f->world, err));
	assert_state(f, op, "awaiting-confirm");
	OK(rk_op_confirm(&f->world, op, err));
	assert_state(f, op, "done");
	assert_string_equal(step_state(f, op, "vm.erase", NULL), "done");
	assert_consistent(f);
	assert_int_equal(f->world.site->n_vms, 2);
}

static void an_awaiting_change_can_be_taken_back_at_once(void **state)
{
	struct fixture *f = *state;
	int64_t op = 0;

	f->world.confirm_ms = 3600000;
	OK(create(f, 2, &op, err));
	assert_int_equal(f->world.site->clusters[0].state, RK_CLUSTER_READY);
	assert_consistent(f);
	OK(rk_op_cancel(&f->world, op, err));
	assert_state(f, op, "cancelled");
	assert_consistent(f);
	assert_int_equal(f->world.site->n_clusters, 0);
}

static void watching_ends_when_nothing_is_left_to_watch(void **state)
{
	struct fixture *f = *state;
	int64_t op = 0;

	f->world.confirm_ms = 1;
	OK(create(f, 2, &op, err));
	OK(rk_op_watch(&f->world, op, err));
	assert_state(f, op, "rolled-back");
	OK(rk_op_watch(&f->world, op, err));
	assert_int_equal(f->world.site->n_clusters, 0);
}

/* ---- other processes ---------------------------------------------------------------------------------------------------------------------- */

static int note_op(void *ctx, int64_t op, struct rk_err *err)
{
	(void)err;
	*(int64_t *)ctx = op;
	return 0;
}

static void not_waiting_hands_the_operation_to_somebody_else(void **state)
{
	struct fixture *f = *state;
	int64_t op = 0, handed = 0;

	f->world.wait = false;
	f->world.detach = note_op;
	f->world.detach_ctx = &handed;
	long calls = rk_sim_calls(f->world.sim);
	OK(create(f, 2, &op, err));
	assert_int_equal(handed, op);
	assert_int_equal(rk_sim_calls(f->world.sim), calls);
	assert_state(f, op, "resumable");
	OK(rk_op_watch(&f->world, op, err));
	assert_state(f, op, "done");
	assert_consistent(f);
	assert_int_equal(f->world.site->n_vms, 2);
}

static int nobody(void *ctx, int64_t op, struct rk_err *err)
{
	(void)ctx;
	(void)op;
	return rk_err_set(err, RK_FAILED, "no process");
}

static void an_operation_that_nobody_takes_is_left_resumable(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	int64_t op = 0;

	f->world.wait = false;
	f->world.detach = nobody;
	assert_int_equal(create(f, 2, &op, &why), RK_PARTIAL);
	assert_non_null(strstr(why.hint, "op resume"));
	OK(rk_op_rollback(&f->world, op, err));
	assert_int_equal(f->world.site->n_clusters, 0);
}

/* An operation of a process that died after k calls. */
static int64_t left_by_the_dead(const char *state, const char *fault_spec)
{
	struct fixture f;
	int status;
	pid_t child = fork();

	if (child == 0) {
		int64_t op = 0;
		open_world(&f, state, 2, 3);
		if (rk_sim_fault_add(f.world.sim, fault_spec, NULL) == 0)
			create(&f, 2, &op, NULL);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(WEXITSTATUS(status), 137);
	return 1;
}

static char *temp_folder(void)
{
	const char *tmp = getenv("TMPDIR");
	char *folder = rk_xasprintf("%s/racksh-op-XXXXXX", tmp ? tmp : P_tmpdir);

	assert_non_null(mkdtemp(folder));
	return folder;
}

static void remove_folder(const char *folder)
{
	static const char *const names[] = { "state", "state-wal", "state-shm", "hook" };

	for (size_t i = 0; i < RK_ARRAY_SIZE(names); i++) {
		char *path RK_CLEANUP_FREE = rk_xasprintf("%s/%s", folder, names[i]);
		unlink(path);
	}
	assert_int_equal(rmdir(folder), 0);
}

static void a_dead_owner_is_taken_over(void **state)
{
	char *folder RK_CLEANUP_FREE = temp_folder(), *file RK_CLEANUP_FREE = rk_xasprintf("%s/state", folder);
	int64_t op = left_by_the_dead(file, "hv.define#1=crash");
	const char *former = NULL;
	struct fixture f;

	(void)state;
	open_world(&f, file, 2, 3);
	assert_state(&f, op, "running");
	OK(rk_op_takeover(&f.world, op, false, f.arena, &former, err));
	assert_non_null(strstr(former, "tester@here"));
	assert_state(&f, op, "resumable");
	OK(rk_op_resume(&f.world, op, err));
	assert_consistent(&f);
	assert_int_equal(f.world.site->n_vms, 2);
	close_world(&f);
	remove_folder(folder);
}

enum { SWEEPERS = 6, SWEEPS = 8 };

/* Opens the world, waits for the others, and sweeps; or (op) is the process that watches over it. */
static pid_t sweeps(const char *state, const int start[2], int64_t op)
{
	pid_t child = fork();
	struct fixture f;
	char go;

	if (child)
		return child;
	close(start[1]);
	open_world(&f, state, 2, 3);
	ssize_t n = read(start[0], &go, 1); /* ends when the parent lets go */
	int rc = op ? rk_op_watch(&f.world, op, NULL) : rk_op_sweep(&f.world, NULL);
	_exit(n != 0 || rc ? 1 : 0);
}

/* What one of them undoes is no reason to refuse what the others came for. */
static void several_who_find_an_overdue_operation_undo_it_once(void **state)
{
	char *folder RK_CLEANUP_FREE = temp_folder(), *file RK_CLEANUP_FREE = rk_xasprintf("%s/state", folder);
	struct fixture f;
	int64_t op;

	(void)state;
	open_world(&f, file, 2, 3);
	for (int i = 0; i < SWEEPS; i++) {
		pid_t children[SWEEPERS];
		int start[2], status;
		assert_int_equal(pipe(start), 0);
		f.world.confirm_ms = 1;
		OK(create(&f, 2, &op, err));
		for (int c = 0; c < SWEEPERS; c++)
			children[c] = sweeps(file, start, i < 2 && c % 2 ? op : 0);
		close(start[0]);
		close(start[1]);
		for (int c = 0; c < SWEEPERS; c++) {
			assert_int_equal(waitpid(children[c], &status, 0), children[c]);
			assert_int_equal(WEXITSTATUS(status), 0);
		}
		assert_state(&f, op, "rolled-back");
		OK(rk_world_refresh(&f.world, err));
	}
	assert_int_equal(f.world.site->n_clusters, 0);
	close_world(&f);
	remove_folder(folder);
}

static void one_who_was_taken_over_stops(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	int64_t op = 0;

	/* Handed over and then cancelled by another: whoever still runs it finds that it is not his any more. */
	f->world.wait = false;
	f->world.detach = note_op;
	f->world.detach_ctx = &op;
	OK(create(f, 2, &op, err));
	long calls = rk_sim_calls(f->world.sim);
	assert_int_equal(rk_op_run(&f->world, op, &why), RK_CONFLICT);
	assert_non_null(strstr(why.message, "taken over"));
	assert_int_equal(rk_sim_calls(f->world.sim), calls);
	OK(rk_op_rollback(&f->world, op, err));
}

static void a_word_in_the_store_stops_an_operation(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	int64_t op = 0;

	f->world.wait = false;
	f->world.detach = note_op;
	f->world.detach_ctx = &op;
	OK(create(f, 2, &op, err));
	OK(rk_store_op_set(f->world.store, op, "running", RK_OP_CANCEL_WORD, err));
	assert_int_equal(rk_op_run(&f->world, op, &why), RK_CANCELLED);
	assert_state(f, op, "cancelled");
	assert_consistent(f);
	assert_int_equal(f->world.site->n_clusters, 0);
}

static void a_cluster_that_is_held_says_by_what(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	int64_t op = 0, other = 0;

	f->world.confirm_ms = 3600000;
	OK(create(f, 2, &op, err));
	f->world.confirm_ms = 0;
	assert_int_equal(rk_cluster_delete(&f->world, "a", &other, &why), RK_CONFLICT);
	assert_non_null(strstr(why.hint, "op show 1"));
}

/* ---- the store fails in the middle --------------------------------------------------------------------------------------------------------- */

static const struct rk_nvl_ops *controller;
static struct rk_db *disk;

/* Between two transactions of the engine. */
static int lose_disk_and_list(struct rk_nvl *nvl, int rack, struct rk_arena *arena, struct rk_nvl_live **ret, size_t *ret_n, struct rk_err *err)
{
	rk_db_exec(disk, NULL, "PRAGMA query_only = 1");
	return controller->list(nvl, rack, arena, ret, ret_n, err);
}

/* The world is not as before: the class and the words say so. */
static void a_store_that_fails_in_the_middle_leaves_it_to_be_resumed(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	int64_t op;

	struct rk_nvl_ops ops = *f->world.nvl->ops;
	controller = f->world.nvl->ops;
	ops.list = lose_disk_and_list;
	f->world.nvl->ops = &ops;
	disk = f->world.store->db;
	assert_int_equal(create(f, 4, &op, &why), RK_PARTIAL);
	assert_non_null(strstr(why.message, "operation 1 (cluster create a) is left unfinished: the store"));
	assert_non_null(strstr(why.hint, "racksh op resume 1"));
	f->world.nvl->ops = controller;
	OK(rk_db_exec(f->world.store->db, err, "PRAGMA query_only = 0"));
	OK(rk_op_resume(&f->world, op, err));
	assert_consistent(f);
}

/* ---- hooks ------------------------------------------------------------------------------------------------------------------------------- */

static void run_hook(const char *command, const char *out, int want)
{
	const struct rk_hook_fact facts[] = { { "STATE", "done" }, { "DETAIL", NULL } };
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_site site = { .hooks = rk_xasprintf("{\"operation\": \"%s\"}", command) };
	const struct rk_world world = { .site = &site };

	setenv("HOOK_OUT", out, 1);
	assert_int_equal(rk_hook_run(&world, "operation", facts, RK_ARRAY_SIZE(facts), &why), want);
	assert_int_equal(rk_hook_run(&world, "leak", facts, 0, NULL), 0);
	free((char *)site.hooks);
}

static void a_hook_is_told_what_happened(void **state)
{
	char *folder RK_CLEANUP_FREE = temp_folder(), *out RK_CLEANUP_FREE = rk_xasprintf("%s/hook", folder), *text RK_CLEANUP_FREE = NULL;
	size_t n;

	(void)state;
	run_hook("echo $RACKSH_EVENT $RACKSH_STATE ${RACKSH_DETAIL-unset} > $HOOK_OUT", out, 0);
	OK(rk_file_read(out, 4096, &text, &n, err));
	assert_string_equal(text, "operation done unset\n");
	run_hook("exit 3", out, RK_FAILED);
	remove_folder(folder);
}

static void the_twin_runs_no_hook(void **state)
{
	struct fixture *f = *state;
	struct rk_site site = { .hooks = "{\"operation\": \"exit 3\"}" };
	struct rk_world world = { .site = &site, .sim = f->world.sim };

	OK(rk_hook_run(&world, "operation", NULL, 0, err));
}

#define WITH_TWIN(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_TWIN(an_undo_that_failed_stays_undoing_and_is_gone_on_with),
		WITH_TWIN(a_store_that_fails_in_the_middle_leaves_it_to_be_resumed),
		WITH_TWIN(recovery_of_what_is_over_is_nothing),
		WITH_TWIN(what_cannot_be_taken_back_comes_last_and_only_goes_on),
		WITH_TWIN(ctrl_c_rolls_back),
		WITH_TWIN(an_unconfirmed_change_is_undone_when_its_time_is_over),
		WITH_TWIN(a_confirmed_change_stays_and_what_was_put_off_is_done),
		WITH_TWIN(an_awaiting_change_can_be_taken_back_at_once),
		WITH_TWIN(watching_ends_when_nothing_is_left_to_watch),
		WITH_TWIN(not_waiting_hands_the_operation_to_somebody_else),
		WITH_TWIN(an_operation_that_nobody_takes_is_left_resumable),
		cmocka_unit_test(a_dead_owner_is_taken_over),
		cmocka_unit_test(several_who_find_an_overdue_operation_undo_it_once),
		WITH_TWIN(one_who_was_taken_over_stops),
		WITH_TWIN(a_word_in_the_store_stops_an_operation),
		WITH_TWIN(a_cluster_that_is_held_says_by_what),
		cmocka_unit_test(a_hook_is_told_what_happened),
		WITH_TWIN(the_twin_runs_no_hook),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
