#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "provision/op_impl.h"

/* Operations of other processes: watching, stopping, taking over. */

enum { WATCH_MS = 1000, CANCEL_POLL_MS = 200 };

static bool interrupted(const struct rk_world *world)
{
	return world->cancel && *world->cancel;
}

/* 1: look again at once. *ret_over: nothing is left to watch over. */
static int look_after(struct rk_world *world, int64_t op, bool *ret_over, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_awaited a;
	bool alive = false;
	int rc = rk_op_read_awaited(world, op, arena, &a, err);

	if (!rc)
		rc = rk_op_is_run(world, &a.row, &alive, err);
	*ret_over = !rc && rk_op_is_over(&a.row);
	if (rc || *ret_over || (a.step ? !rk_op_overdue(&a) : alive))
		return rc;
	rc = rk_op_resume(world, op, err);
	return rc ? rc : 1;
}

/* Somebody else was faster: what becomes of it there is watched on. A store that does not answer will: nobody else undoes what nobody confirmed. */
static bool watches_on(const struct rk_world *world, int64_t op, int rc)
{
	return !rc || rc == RK_CONFLICT || rc == RK_UNREACHABLE || world->unsaid == op;
}

int rk_op_watch(struct rk_world *world, int64_t op, struct rk_err *err)
{
	bool over = false;

	/* This is the process that watches: it starts no other. */
	world->detach = NULL;
	for (;;) {
		int rc = look_after(world, op, &over, err);
		if (rc == 1)
			continue;
		if (over || !watches_on(world, op, rc))
			return rc;
		rk_err_clear(err);
		if (interrupted(world))
			return rk_err_set(err, RK_CANCELLED, "stopped watching operation %" PRId64, op);
		rk_clock_sleep_ms(NULL, WATCH_MS);
	}
}

/* Leaves the word. 1: it needs none, because nobody runs it. */
static int ask_to_stop(struct rk_world *world, int64_t op, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_op_row row;
	bool alive = false;
	int rc = rk_store_begin(world->store, -1, err);

	if (rc)
		return rc;
	rc = rk_store_op_get(world->store, op, arena, &row, err);
	if (!rc)
		rc = rk_op_is_run(world, &row, &alive, err);
	if (!rc && !alive)
		rc = 1;
	if (!rc)
		rc = rk_store_op_set(world->store, op, "running", RK_OP_CANCEL_WORD, err);
	if (!rc)
		return rk_store_commit(world->store, err);
	rk_store_rollback(world->store);
	return rc;
}

static int await_end(struct rk_world *world, int64_t op, struct rk_err *err)
{
	for (;;) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct rk_op_row row;
		bool alive = false;
		int rc = rk_store_op_get(world->store, op, arena, &row, err);
		if (!rc && rk_op_is_over(&row))
			return rk_op_in_state(&row, "cancelled") ? 0 : rk_err_set(err, RK_CONFLICT, "operation %" PRId64 " was %s before it heard of it", op, row.state);
		if (!rc)
			rc = rk_op_is_run(world, &row, &alive, err);
		if (!rc && !alive)
			return rk_op_take_back(world, op, "cancelled", NULL, err);
		if (!rc && interrupted(world))
			rc = rk_err_set(err, RK_CANCELLED, "stopped waiting; operation %" PRId64 " is still asked to stop", op);
		if (rc)
			return rc;
		rk_clock_sleep_ms(NULL, CANCEL_POLL_MS);
	}
}

int rk_op_cancel(struct rk_world *world, int64_t op, struct rk_err *err)
{
	int rc = ask_to_stop(world, op, err);

	if (rc == 1)
		return rk_op_take_back(world, op, "cancelled", NULL, err);
	return rc || !world->wait || rk_store_trying(world->store) ? rc : await_end(world, op, err);
}

/* Another host's process cannot be asked whether it lives; one of this host can. */
static bool of_this_host(const struct rk_op_row *row)
{
	char host[256] = "localhost";

	gethostname(host, sizeof(host) - 1);
	size_t n = strlen(host);
	return strncmp(row->runner, host, n) == 0 && row->runner[n] == ' ';
}

static int take_over(struct rk_world *world, int64_t op, bool force, struct rk_arena *arena, const char **ret_former, struct rk_err *err)
{
	struct rk_op_row row;
	bool alive = false;
	int rc = rk_store_op_get(world->store, op, arena, &row, err);

	if (!rc && !rk_op_in_state(&row, "running") && !rk_op_in_state(&row, "resumable"))
		rc = rk_err_set(err, RK_CONFLICT, "operation %" PRId64 " is %s: there is nothing to take over", op, row.state);
	if (!rc)
		rc = rk_op_is_run(world, &row, &alive, err);
	if (!rc && alive && (!force || of_this_host(&row)))
		rc = rk_op_busy(&row, err);
	if (!rc)
		rc = rk_store_lease_takeover(world->store, op, arena, ret_former, err);
	return rc ? rc : rk_store_op_set(world->store, op, "resumable", rk_arena_printf(arena, "taken over from %s", *ret_former), err);
}

int rk_op_takeover(struct rk_world *world, int64_t op, bool force, struct rk_arena *arena, const char **ret_former, struct rk_err *err)
{
	int rc = rk_store_begin(world->store, -1, err);

	if (rc)
		return rc;
	rc = take_over(world, op, force, arena, ret_former, err);
	if (!rc)
		return rk_store_commit(world->store, err);
	rk_store_rollback(world->store);
	return rc;
}
