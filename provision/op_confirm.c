#include <inttypes.h>
#include <string.h>

#include "provision/op_impl.h"

/* Commit-confirmed: what is done is undone again unless somebody says in time that he can still see it. */

/* The step that awaits, or NULL. */
static const struct rk_step_row *confirm_step(const struct rk_step_row *steps, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (rk_step_kind_find(steps[i].kind) && rk_step_kind_find(steps[i].kind)->awaits)
			return &steps[i];
	return NULL;
}

static int64_t confirm_by(const struct rk_step_row *step)
{
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	uint64_t within = 0;

	if (!rk_json_parse("step", step->params, strlen(step->params), &json, NULL))
		rk_ju64(rk_jget(rk_json_root(json), "within_ms"), &within);
	return step->started_ms + (int64_t)within;
}

int rk_op_read_awaited(struct rk_world *world, int64_t op, struct rk_arena *arena, struct rk_awaited *ret, struct rk_err *err)
{
	struct rk_step_row *steps;
	size_t n;
	int rc = rk_store_op_get(world->store, op, arena, &ret->row, err);

	ret->step = NULL;
	ret->by_ms = 0;
	if (rc || !rk_op_in_state(&ret->row, "awaiting-confirm"))
		return rc;
	rc = rk_store_step_list(world->store, op, arena, &steps, &n, err);
	ret->step = rc ? NULL : confirm_step(steps, n);
	if (ret->step)
		ret->by_ms = confirm_by(ret->step);
	return rc;
}

/* The operator's time is real time, in the twin too: its process may not be there to move its own clock. */
bool rk_op_overdue(const struct rk_awaited *a)
{
	return a->step && rk_clock_unix_ms(NULL) >= a->by_ms;
}

int rk_op_confirm_by(struct rk_world *world, int64_t op, int64_t *ret, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_awaited a;
	int rc = rk_op_read_awaited(world, op, arena, &a, err);

	if (!rc)
		*ret = a.by_ms;
	return rc;
}

static int undo_overdue(struct rk_world *world, int64_t op, struct rk_err *err)
{
	return rk_op_take_back(world, op, "rolled-back", "not confirmed in time: rolled back", err);
}

static int nothing_to_confirm(const struct rk_awaited *a, struct rk_err *err)
{
	char by[32];

	if (!a->step)
		return rk_err_set(err, RK_CONFLICT, "operation %" PRId64 " is %s: there is nothing to confirm", a->row.id, a->row.state);
	rk_err_set(err, RK_CONFLICT, "operation %" PRId64 " was to be confirmed until %s", a->row.id, rk_time_iso(a->by_ms, by));
	rk_err_hint(err, "it is being undone; racksh op resume %" PRId64 " does it now", a->row.id);
	return RK_CONFLICT;
}

static int confirm_in_store(struct rk_world *world, int64_t op, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_awaited a;
	int rc = rk_store_begin(world->store, -1, err);

	if (rc)
		return rc;
	rc = rk_op_read_awaited(world, op, arena, &a, err);
	if (!rc && (!a.step || rk_op_overdue(&a)))
		rc = nothing_to_confirm(&a, err);
	if (!rc)
		rc = rk_op_claim_row(world, &a.row, "confirmed", arena, err);
	if (!rc)
		rc = rk_store_step_set(world->store, op, a.step->id, rk_node_state_name(RK_NODE_DONE), NULL, "confirmed", err);
	if (!rc)
		return rk_store_commit(world->store, err);
	rk_store_rollback(world->store);
	return rc;
}

int rk_op_confirm(struct rk_world *world, int64_t op, struct rk_err *err)
{
	int rc = rk_world_drivers(world, err);

	if (!rc)
		rc = confirm_in_store(world, op, err);
	if (!rc)
		rc = rk_world_refresh(world, err);
	return rc || rk_store_trying(world->store) ? rc : rk_op_run(world, op, err);
}

int rk_op_resume(struct rk_world *world, int64_t op, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_awaited a;
	char by[32];
	int rc = rk_op_read_awaited(world, op, arena, &a, err);

	if (rc || !a.step)
		return rc ? rc : rk_op_go_on(world, op, err);
	if (rk_op_overdue(&a))
		return undo_overdue(world, op, err);
	rk_err_set(err, RK_CONFLICT, "operation %" PRId64 " is done and awaits its confirmation until %s", op, rk_time_iso(a.by_ms, by));
	rk_err_hint(err, "racksh op confirm %" PRId64 " keeps it, racksh op rollback %" PRId64 " takes it back", op, op);
	return RK_CONFLICT;
}

/* Whoever asked for something else is to know why that was not done, unless somebody else was faster to undo this. */
static int sweep_one(struct rk_world *world, int64_t op, struct rk_arena *arena, struct rk_err *err)
{
	struct rk_awaited a;
	int rc = rk_op_read_awaited(world, op, arena, &a, err);

	if (rc || !rk_op_overdue(&a))
		return rc;
	rc = undo_overdue(world, op, err);
	if (rc == RK_CONFLICT && !rk_op_read_awaited(world, op, arena, &a, NULL) && !a.step) {
		rk_err_clear(err);
		return rk_world_refresh(world, err);
	}
	return rc ? (rk_err_while(err, "operation %" PRId64 " was not confirmed in time and has to be undone first", op), rc) : 0;
}

int rk_op_sweep(struct rk_world *world, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_op_row *rows;
	size_t n;
	int rc = rk_store_op_open(world->store, INT64_MAX, arena, &rows, &n, err);

	for (size_t i = 0; !rc && i < n; i++)
		if (rk_op_in_state(&rows[i], "awaiting-confirm"))
			rc = sweep_one(world, rows[i].id, arena, err);
	return rc;
}
