#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "provision/bundle.h"
#include "tests/contract/ops_twin.h"

/* Every operation on a cluster of one VM per rack in two racks, with every single call to an outside system failing once, and with the process
 * dying before and after every call, and again during the recovery. What comes out is all or nothing: in the store, on the hypervisors, on the
 * switches, in the fabric, in the guests. RACKSH_SWEEP=full tries every point, of the recovery too, instead of some. */

enum { RACKS = 2, TRAYS = 3, RUNS_MAX = 3000 };

struct scenario {
	const char *name;
	int vms_before, vms_after;        /* of cluster "a"; 0: it is not there */
	int clusters;                     /* how many there are afterwards; 0: the one, while it has VMs */
	bool required;                    /* the spec requires a validation */
	int (*act)(struct rk_world *world, struct rk_arena *arena, int64_t *op, struct rk_err *err);
	const char *nvlink;               /* of the site file; NULL: ids are ours, free GPUs are in the default partition */
};

static int act_create(struct rk_world *world, struct rk_arena *arena, int64_t *op, struct rk_err *err)
{
	return rk_cluster_create(world, spec_of(arena, "a", "t", 2, 1, false), op, err);
}

static int act_create_validated(struct rk_world *world, struct rk_arena *arena, int64_t *op, struct rk_err *err)
{
	return rk_cluster_create(world, spec_of(arena, "a", "t", 2, 1, true), op, err);
}

static int act_grow(struct rk_world *world, struct rk_arena *arena, int64_t *op, struct rk_err *err)
{
	(void)arena;
	return rk_cluster_resize(world, "a", 4, true, op, err);
}

static int act_shrink(struct rk_world *world, struct rk_arena *arena, int64_t *op, struct rk_err *err)
{
	(void)arena;
	return rk_cluster_resize(world, "a", 1, false, op, err);
}

static int act_repair(struct rk_world *world, struct rk_arena *arena, int64_t *op, struct rk_err *err)
{
	static const char *const vms[] = { "a-02" };
	size_t moved;

	(void)arena;
	return rk_cluster_repair(world, "a", vms, 1, op, &moved, err);
}

static int act_delete(struct rk_world *world, struct rk_arena *arena, int64_t *op, struct rk_err *err)
{
	(void)arena;
	return rk_cluster_delete(world, "a", op, err);
}

static int act_stop(struct rk_world *world, struct rk_arena *arena, int64_t *op, struct rk_err *err)
{
	int *vms;
	size_t n;
	int rc = rk_select_vms(world->site, "@cluster:a", NULL, arena, &vms, &n, err);
	const struct rk_power_request q = { .verb = "stop", .off = true, .vms = vms, .n = n, .grace_s = 30 };

	return rc ? rc : rk_vm_power(world, &q, op, err);
}

static int act_rename(struct rk_world *world, struct rk_arena *arena, int64_t *op, struct rk_err *err)
{
	(void)arena;
	return rk_cluster_rename(world, "a", "z", op, err);
}

/* A tray that was given up, and comes back. */
static int act_restore(struct rk_world *world, struct rk_arena *arena, int64_t *op, struct rk_err *err)
{
	int tray = (int)world->site->n_trays - 1;
	int rc = rk_store_set_tray_faulty(world->store, world->site->trays[tray].name, "fan", err);

	(void)arena;
	if (!rc)
		rc = rk_world_refresh(world, err);
	return rc ? rc : rk_tray_restore(world, &tray, 1, op, err);
}

/* A GPU that somebody took out of its partition comes back into it. */
static int act_fix(struct rk_world *world, struct rk_arena *arena, int64_t *op, struct rk_err *err)
{
	const struct rk_nvl_partition *part = &world->site->nvl_partitions[0];
	const struct rk_tray *tray = &world->site->trays[world->site->vms[0].tray];
	struct rk_drift_left *left;
	size_t n;
	int rc = world->nvl->ops->drop(world->nvl, part->rack, part->id, world->site->gpus[tray->first_gpu].fabric_guid, err);

	rk_clock_sleep_ms(world->env.clock, 10000);
	return rc ? rc : rk_drift_fix(world, NULL, arena, op, &left, &n, err);
}

static int change_in_bundle(struct rk_bundle *bundle, struct rk_world *world, struct rk_arena *arena, int part, struct rk_err *err)
{
	int64_t op;
	int rc = rk_bundle_part(bundle, "part", err);

	if (rc)
		return rc;
	switch (part) {
	case 0: rc = rk_cluster_resize(world, "a", 1, false, &op, err); break;
	case 1: rc = rk_cluster_create(world, spec_of(arena, "b", "t", 1, 1, false), &op, err); break;
	case 2: rc = rk_store_set_tray_cordon(world->store, world->site->trays[world->site->n_trays - 1].name, "fan", err); break;
	case 3: rc = rk_cluster_delete(world, "a", &op, err); break;
	}
	return rc ? rc : rk_bundle_part_done(bundle, err);
}

static int commit(struct rk_world *world, struct rk_arena *arena, const int *parts, size_t n, int64_t *op, struct rk_err *err)
{
	RK_CLEANUP_HEARD struct rk_heard *heard = rk_heard_new();
	struct rk_bundle *bundle;
	int rc = rk_bundle_begin(world, "commit", heard, &bundle, err);

	if (rc)
		return rc;
	for (size_t i = 0; !rc && i < n; i++)
		rc = change_in_bundle(bundle, world, arena, parts[i], err);
	if (!rc)
		return rk_bundle_run(bundle, op, err);
	rk_bundle_drop(bundle);
	return rc;
}

/* Forward with a way back, forward without one, and an edit of the store alone: one operation. */
static int act_commit(struct rk_world *world, struct rk_arena *arena, int64_t *op, struct rk_err *err)
{
	static const int parts[] = { 0, 1, 2 };

	return commit(world, arena, parts, RK_ARRAY_SIZE(parts), op, err);
}

static int act_exchange(struct rk_world *world, struct rk_arena *arena, int64_t *op, struct rk_err *err)
{
	static const int parts[] = { 3, 1 };

	return commit(world, arena, parts, RK_ARRAY_SIZE(parts), op, err);
}

#define NMXM "\"driver\":\"nmxm\",\"url\":\"https://{rack}-m\""

static const struct scenario scenarios[] = {
	{ "create", 0, 2, 0, false, act_create, NULL },
	{ "create with validation", 0, 2, 0, true, act_create_validated, NULL },
	{ "grow", 2, 4, 0, false, act_grow, NULL },
	{ "shrink", 3, 1, 0, false, act_shrink, NULL },
	{ "repair", 3, 3, 0, false, act_repair, NULL },
	{ "delete", 2, 0, 0, false, act_delete, NULL },
	{ "commit of several", 3, 2, 2, false, act_commit, NULL },
	{ "commit of a delete and a create", 2, 1, 1, false, act_exchange, NULL },
	{ "create where the network gives ids", 0, 2, 0, false, act_create, NMXM },
	{ "delete to partitions of trays", 2, 0, 0, false, act_delete, NMXM ",\"release\":\"tray\"" },
};

/* Each step stands alone, or nothing outside the store changes: there is nothing to take back. */
static const struct scenario one_way[] = {
	{ "vm stop", 3, 3, 0, false, act_stop, NULL },
	{ "rename", 2, 2, 0, false, act_rename, NULL },
	{ "tray restore", 2, 2, 0, false, act_restore, NULL },
	{ "drift fix", 2, 2, 0, false, act_fix, NULL },
};

static void use_nvlink(const struct scenario *s)
{
	rack_nvlink = s->nvlink ? s->nvlink : RACK_NVLINK;
}

static void prepare(struct fixture *f, const struct scenario *s, const char *state)
{
	int64_t op;

	use_nvlink(s);
	open_world(f, state, RACKS, TRAYS);
	if (s->nvlink)
		plant_theirs(f, 1);
	if (s->vms_before && !f->world.site->n_clusters)
		OK(rk_cluster_create(&f->world, spec_of(f->arena, "a", "t", s->vms_before, 1, s->required), &op, err));
}

static int vms_now(struct fixture *f)
{
	OK(rk_world_refresh(&f->world, err));
	return (int)f->world.site->n_vms;
}

static bool repaired(struct fixture *f)
{
	int vm = rk_find_vm(f->world.site, "a-02");

	return vm >= 0 && f->world.site->vms[vm].generation == 2;
}

/* Done completely: as many VMs as wanted, nothing held, and everybody agrees. */
static void assert_done(struct fixture *f, const struct scenario *s)
{
	assert_int_equal(vms_now(f), s->vms_after);
	assert_int_equal(f->world.site->n_clusters, s->clusters ? s->clusters : s->vms_after ? 1 : 0);
	if (s->act == act_repair)
		assert_true(repaired(f));
	for (size_t c = 0; c < f->world.site->n_clusters; c++) {
		assert_int_equal(f->world.site->clusters[c].state, RK_CLUSTER_READY);
		assert_int_equal(f->world.site->clusters[c].op, 0);
	}
	assert_consistent(f);
}

static void assert_same(struct fixture *f, const char *before)
{
	char *after RK_CLEANUP_FREE = world_text(f);

	assert_string_equal(after, before);
	assert_consistent(f);
}

/* ---- one call fails -------------------------------------------------------------------------------------------------------------------- */

struct tally {
	long runs, undone, left, finished;
};

static bool full_sweep(void)
{
	const char *wanted = getenv("RACKSH_SWEEP");

	return wanted && strcmp(wanted, "full") == 0;
}

static const char *op_state(struct fixture *f, int64_t op)
{
	struct rk_op_row row;

	OK(rk_store_op_get(f->world.store, op, f->arena, &row, err));
	return row.state;
}

/* What is left unfinished is rolled back, or, when there is no way back, finished. */
static bool bring_to_end(struct fixture *f, int64_t op, struct tally *t)
{
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;

	t->left++;
	if (rk_op_rollback(&f->world, op, &why) == 0)
		return strcmp(op_state(f, op), "done") == 0;
	OK(rk_op_resume(&f->world, op, err));
	t->finished++;
	return true;
}

/* False when the run was over before the fault struck. */
static bool run_with_fault(const struct scenario *s, const char *before, long k, const char *mode, struct tally *t)
{
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	struct fixture f;
	int64_t op = 0;
	char fault[32];

	prepare(&f, s, NULL);
	long first = rk_sim_calls(f.world.sim);
	snprintf(fault, sizeof(fault), "call#%ld=%s", k, mode);
	assert_int_equal(rk_sim_fault_add(f.world.sim, fault, NULL), 0);
	bool done = s->act(&f.world, f.arena, &op, &why) == 0;
	bool struck = rk_sim_calls(f.world.sim) >= first + k;
	outlive_fault(&f, first + k);
	if (!done && op && strcmp(op_state(&f, op), "resumable") == 0)
		done = bring_to_end(&f, op, t);
	if (done) {
		assert_done(&f, s);
	} else {
		t->undone++;
		assert_same(&f, before);
	}
	close_world(&f);
	return struck;
}

static char *text_before(const struct scenario *s, const char *state)
{
	struct fixture f;

	prepare(&f, s, state);
	char *text = world_text(&f);
	close_world(&f);
	return text;
}

/* Nothing happened; it happened and the answer was lost; and for some calls: nothing happened, and nobody knows. */
static void sweep(const struct scenario *s)
{
	static const struct {
		const char *mode;
		long stride;
	} forms[] = { { "fail", 1 }, { "lost", 1 }, { "hang", 4 } };
	char *before RK_CLEANUP_FREE = text_before(s, NULL);
	struct tally t = { 0, 0, 0, 0 };

	for (size_t m = 0; m < RK_ARRAY_SIZE(forms); m++)
		for (long k = 1; k < RUNS_MAX; k += full_sweep() ? 1 : forms[m].stride) {
			t.runs++;
			if (!run_with_fault(s, before, k, forms[m].mode, &t))
				break;
		}
	print_message("%s: %ld runs with one fault each: %ld undone, %ld left unfinished first, %ld of these finished\n", s->name, t.runs, t.undone, t.left,
		      t.finished);
	assert_true(t.runs > 60 && t.undone + t.left > 40);
}

static void any_one_call_may_fail(void **state)
{
	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(scenarios); i++)
		sweep(&scenarios[i]);
}

/* ---- the process dies ------------------------------------------------------------------------------------------------------------------- */

/* In memory where there is such a folder: every journal write is synced. */
static void make_folder(char *folder, size_t size)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(folder, size, "%s/racksh-sweep-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : tmp ? tmp : P_tmpdir);
	assert_non_null(mkdtemp(folder));
}

static void remove_state(const char *state)
{
	static const char *const ends[] = { "", "-wal", "-shm" };
	char path[400];

	for (size_t i = 0; i < RK_ARRAY_SIZE(ends); i++) {
		snprintf(path, sizeof(path), "%s%s", state, ends[i]);
		unlink(path);
	}
}

static bool copy_state(const char *from, const char *to)
{
	static const char *const ends[] = { "", "-wal" };
	char a[400], b[400];

	remove_state(to);
	for (size_t i = 0; i < RK_ARRAY_SIZE(ends); i++) {
		char *bytes RK_CLEANUP_FREE = NULL;
		size_t n;
		snprintf(a, sizeof(a), "%s%s", from, ends[i]);
		snprintf(b, sizeof(b), "%s%s", to, ends[i]);
		if (access(a, F_OK) == 0 && (rk_file_read(a, 64 << 20, &bytes, &n, NULL) || rk_file_write(b, bytes, n, 0600, NULL)))
			return false;
	}
	return true;
}

enum todo { ACT, RESUME, ROLLBACK };

static int64_t newest_op(struct fixture *f)
{
	struct rk_op_row *rows;
	size_t n;

	OK(rk_store_op_list(f->world.store, f->arena, &rows, &n, err));
	return n ? rows[0].id : 0;
}

static void carry_out(struct fixture *f, const struct scenario *s, enum todo todo)
{
	int64_t op = newest_op(f);

	if (todo == ACT)
		s->act(&f->world, f->arena, &op, NULL);
	else if (todo == RESUME)
		rk_op_resume(&f->world, op, NULL);
	else if (rk_op_rollback(&f->world, op, NULL))
		rk_op_resume(&f->world, op, NULL);
}

/* A child that dies before or after its k-th call; false when it came to its end. */
static bool child_dies(const struct scenario *s, const char *state, enum todo todo, long k, const char *mode)
{
	struct fixture f;
	char fault[32];
	int status;
	pid_t child = fork();

	if (child == 0) {
		open_world(&f, state, RACKS, TRAYS);
		snprintf(fault, sizeof(fault), "call#%ld=%s", k, mode);
		if (rk_sim_fault_add(f.world.sim, fault, NULL) == 0)
			carry_out(&f, s, todo);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status) == 137;
}

/* A new process looks at what is left and finishes it; twice, because recovery of what is over is nothing. */
static void recover(const struct scenario *s, const char *state, enum todo todo, const char *before)
{
	struct fixture f;

	open_world(&f, state, RACKS, TRAYS);
	for (int i = 0; i < 2; i++) {
		carry_out(&f, s, todo);
		int64_t op = newest_op(&f);
		bool done = op && strcmp(op_state(&f, op), "done") == 0;
		if (done && vms_now(&f) == s->vms_after && (s->act != act_repair || repaired(&f)))
			assert_done(&f, s);
		else
			assert_same(&f, before);
	}
	close_world(&f);
}

struct crash {
	const struct scenario *s;
	char start[300], died[300], again[300];
	char *before;
	long runs;
};

/* What the recovery of one death does when it is killed, too. */
static void kill_the_recovery(struct crash *c, enum todo todo, long stride)
{
	static const char *const modes[] = { "kill", "crash" };

	for (long j = 1, n = 0; j < RUNS_MAX; j += stride, n++) {
		assert_true(copy_state(c->died, c->again));
		bool died = child_dies(c->s, c->again, todo, j, modes[n % 2]);
		/* Whoever comes then may want the other direction. */
		recover(c->s, c->again, n % 3 == 2 ? ROLLBACK : todo, c->before);
		c->runs++;
		if (!died)
			break;
	}
}

static bool kill_at(struct crash *c, long k, const char *mode)
{
	assert_true(copy_state(c->start, c->died));
	if (!child_dies(c->s, c->died, ACT, k, mode))
		return false;
	for (enum todo todo = RESUME; todo <= ROLLBACK; todo++) {
		if (full_sweep() || (k + (int)todo) % 9 == 0)
			kill_the_recovery(c, todo, full_sweep() ? 1 : 17);
		if (!full_sweep() && (k + (int)todo) % 2)
			continue;
		assert_true(copy_state(c->died, c->again));
		recover(c->s, c->again, todo, c->before);
		c->runs++;
	}
	return true;
}

static void kill_everywhere(const struct scenario *s, const char *folder)
{
	struct crash c = { .s = s };
	long stride = full_sweep() ? 1 : 3, points = 0;

	snprintf(c.start, sizeof(c.start), "%s/start", folder);
	snprintf(c.died, sizeof(c.died), "%s/died", folder);
	snprintf(c.again, sizeof(c.again), "%s/again", folder);
	c.before = text_before(s, c.start);
	for (long k = 1; k < RUNS_MAX; k += stride, points += 2)
		if (!kill_at(&c, k, "kill") || !kill_at(&c, k, "crash"))
			break;
	print_message("%s: killed at %ld points, %ld recoveries, some of them killed too\n", s->name, points, c.runs);
	assert_true(points >= 20);
	remove_state(c.start);
	remove_state(c.died);
	remove_state(c.again);
	free(c.before);
}

static void the_process_may_die_at_any_call_and_during_recovery(void **state)
{
	char folder[256];

	(void)state;
	make_folder(folder, sizeof(folder));
	for (size_t i = 0; i < RK_ARRAY_SIZE(scenarios); i++)
		if (!scenarios[i].required && (full_sweep() || scenarios[i].act != act_exchange))
			kill_everywhere(&scenarios[i], folder);
	assert_int_equal(rmdir(folder), 0);
}

/* Whoever gives the same command again has what it is for, wherever it was cut off. */
static void again_after_each_death(const struct scenario *s, const char *folder)
{
	static const char *const modes[] = { "kill", "crash" };
	struct crash c = { .s = s };
	long stride = full_sweep() ? 1 : 2;
	struct fixture f;
	int64_t op;

	snprintf(c.start, sizeof(c.start), "%s/start", folder);
	snprintf(c.died, sizeof(c.died), "%s/died", folder);
	c.before = text_before(s, c.start);
	for (bool died = true; died; c.runs++) {
		assert_true(copy_state(c.start, c.died));
		died = child_dies(s, c.died, ACT, 1 + c.runs * stride, modes[c.runs % 2]);
		open_world(&f, c.died, RACKS, TRAYS);
		for (int i = 0; i < 2 && s->vms_after; i++)
			OK(s->act(&f.world, f.arena, &op, err));
		if (!s->vms_after && f.world.site->n_clusters)
			OK(s->act(&f.world, f.arena, &op, err));
		assert_done(&f, s);
		close_world(&f);
	}
	print_message("%s: given again after each of %ld deaths\n", s->name, c.runs - 1);
	remove_state(c.start);
	remove_state(c.died);
	free(c.before);
}

static void the_same_command_again_ends_what_a_death_cut_off(void **state)
{
	char folder[256];

	(void)state;
	make_folder(folder, sizeof(folder));
	for (size_t i = 0; i < RK_ARRAY_SIZE(scenarios); i++)
		if (!scenarios[i].required && !scenarios[i].clusters && !scenarios[i].nvlink)
			again_after_each_death(&scenarios[i], folder);
	for (size_t i = 0; i < RK_ARRAY_SIZE(one_way); i++)
		again_after_each_death(&one_way[i], folder);
	assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_one_call_may_fail),
		cmocka_unit_test(the_process_may_die_at_any_call_and_during_recovery),
		cmocka_unit_test(the_same_command_again_ends_what_a_death_cut_off),
	};

	keep_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
