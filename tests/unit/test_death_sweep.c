#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "tests/contract/store_deaths.h"
#include "tests/contract/sweep.h"

/* Every operation of tests/contract/sweep.h with the process dying at every durable write, and again at every one of the recovery, in both
 * directions. What comes out is all or nothing, and whoever gives the same command again gets what it is for. */

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

/* Each step stands alone, or nothing outside the store changes: there is nothing to take back. */
static const struct scenario one_way[] = {
	{ "vm stop", 3, 3, 0, false, act_stop, NULL },
	{ "rename", 2, 2, 0, false, act_rename, NULL },
	{ "tray restore", 2, 2, 0, false, act_restore, NULL },
	{ "drift fix", 2, 2, 0, false, act_fix, NULL },
};

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

/* A child that dies at its k-th durable write; false when it came to its end. */
static bool child_dies(const struct scenario *s, const char *state, enum todo todo, long k)
{
	struct fixture f;
	pid_t child = fork();

	if (child == 0) {
		watch_writes();
		open_world(&f, state, RACKS, TRAYS);
		die_at_write(k);
		carry_out(&f, s, todo);
		_exit(0);
	}
	return child_died(child);
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

struct sweep {
	const struct scenario *s;
	char folder[256], start[300], died[300], again[300];
	char *before;
	long points, runs;
};

static void begin_sweep(struct sweep *c, const struct scenario *s)
{
	*c = (struct sweep){ .s = s };
	make_folder(c->folder, sizeof(c->folder));
	snprintf(c->start, sizeof(c->start), "%s/start", c->folder);
	snprintf(c->died, sizeof(c->died), "%s/died", c->folder);
	snprintf(c->again, sizeof(c->again), "%s/again", c->folder);
	c->before = text_before(s, c->start);
}

static void end_sweep(struct sweep *c)
{
	remove_state(c->start);
	remove_state(c->died);
	remove_state(c->again);
	assert_int_equal(rmdir(c->folder), 0);
	free(c->before);
}

/* What the recovery of one death does when it is killed, too. */
static void kill_the_recovery(struct sweep *c, enum todo todo, long stride)
{
	for (long j = 1, n = 0; j < RUNS_MAX; j += stride, n++) {
		assert_true(copy_state(c->died, c->again));
		bool died = child_dies(c->s, c->again, todo, j);
		/* Whoever comes then may want the other direction. */
		recover(c->s, c->again, n % 3 == 2 ? ROLLBACK : todo, c->before);
		c->runs++;
		if (!died)
			break;
	}
}

static bool kill_at(struct sweep *c, long k)
{
	assert_true(copy_state(c->start, c->died));
	bool died = child_dies(c->s, c->died, ACT, k);
	c->points += died;
	for (enum todo todo = RESUME; todo <= ROLLBACK; todo++) {
		if (full_sweep() || (k + (int)todo) % 9 == 0)
			kill_the_recovery(c, todo, full_sweep() ? 1 : 17);
		if (!full_sweep() && (k + (int)todo) % 2)
			continue;
		assert_true(copy_state(c->died, c->again));
		recover(c->s, c->again, todo, c->before);
		c->runs++;
	}
	return died;
}

/* Up to and with the run that nothing happens to: recovery of what is over is nothing. */
static void killed_anywhere(void **state)
{
	struct sweep c;
	const struct scenario *s = *state;
	bool died = true;

	begin_sweep(&c, s);
	for (long k = 1; died && k < RUNS_MAX; k++)
		died = kill_at(&c, k);
	print_message("%s: killed at %ld points, %ld recoveries, some of them killed too\n", s->name, c.points, c.runs);
	assert_true(c.points >= 20);
	end_sweep(&c);
}

static void given_again(void **state)
{
	struct sweep c;
	const struct scenario *s = *state;
	struct fixture f;
	int64_t op;

	begin_sweep(&c, s);
	for (bool died = true; died; c.runs++) {
		assert_true(copy_state(c.start, c.died));
		died = child_dies(s, c.died, ACT, 1 + c.runs);
		open_world(&f, c.died, RACKS, TRAYS);
		for (int i = 0; i < 2 && s->vms_after; i++)
			OK(s->act(&f.world, f.arena, &op, err));
		if (!s->vms_after && f.world.site->n_clusters)
			OK(s->act(&f.world, f.arena, &op, err));
		assert_done(&f, s);
		close_world(&f);
	}
	print_message("%s: given again after each of %ld deaths\n", s->name, c.runs - 1);
	end_sweep(&c);
}

static bool is_one_command(const struct scenario *s)
{
	return !s->required && !s->clusters && !s->nvlink;
}

int main(int argc, char **argv)
{
	static const struct sweep_test sweeps[] = {
		{ "killed at any write, and the recovery too", killed_anywhere, NULL, scenarios, RK_ARRAY_SIZE(scenarios) },
		{ "the same command again ends what a death cut off", given_again, is_one_command, scenarios, RK_ARRAY_SIZE(scenarios) },
		{ "the same command again ends what a death cut off", given_again, NULL, one_way, RK_ARRAY_SIZE(one_way) },
	};

	keep_memory();
	return run_sweeps("deaths", sweeps, RK_ARRAY_SIZE(sweeps), argc, argv);
}
