#include <inttypes.h>

#include "provision/bundle.h"
#include "provision/service.h"

static int write_change(struct rk_world *world, const struct rk_change *c, bool hand_over, int64_t *ret_op, struct rk_err *err)
{
	char *thing RK_CLEANUP_FREE = rk_xasprintf("cluster:%s", c->cluster ? c->cluster : "");
	int rc = rk_service_joins_idle(world, c->plan, err);

	if (!rc)
		rc = rk_op_journal(world, c->plan, c->params, ret_op, err);
	if (!rc && c->cluster)
		rc = rk_store_lease_take(world->store, thing, *ret_op, c->purpose, err);
	if (!rc && c->lease)
		rc = rk_store_lease_take(world->store, c->lease, *ret_op, c->purpose, err);
	if (!rc && c->reserve)
		rc = c->reserve(world, c, *ret_op, err);
	if (!rc && hand_over)
		rc = rk_store_op_set(world->store, *ret_op, "resumable", "handed to a process of its own", err);
	return rc;
}

int rk_op_hand_over(struct rk_world *world, int64_t op, struct rk_err *err)
{
	int rc = world->detach(world->detach_ctx, op, err);

	if (!rc)
		return rk_world_refresh(world, err);
	rk_err_while(err, "operation %" PRId64 " is written down, but nobody carries it out", op);
	rk_err_hint(err, "racksh op resume %" PRId64, op);
	return RK_PARTIAL;
}

static int is_on(struct rk_world *world, int64_t op, const char *target, struct rk_arena *arena, bool *ret, struct rk_err *err)
{
	struct rk_step_row *steps;
	size_t n = 0;
	int rc = rk_store_step_list(world->store, op, arena, &steps, &n, err);

	*ret = false;
	for (size_t i = 0; !rc && i < n; i++)
		*ret |= rk_streq(steps[i].target, target);
	return rc;
}

int rk_op_again(struct rk_world *world, const char *command, const char *target, int64_t *ret_op, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_op_row *rows;
	size_t n = 0;
	int rc = rk_store_op_open(world->store, INT64_MAX, arena, &rows, &n, err);

	*ret_op = 0;
	for (size_t i = 0; !rc && !*ret_op && i < n; i++) {
		bool same = target ? rk_starts_with(rows[i].command, command) : rk_streq(rows[i].command, command);
		if (same && target)
			rc = is_on(world, rows[i].id, target, arena, &same, err);
		if (same)
			*ret_op = rows[i].id;
	}
	return rc || !*ret_op ? rc : rk_op_resume(world, *ret_op, err);
}

int rk_change_run(struct rk_world *world, const struct rk_change *c, int64_t *ret_op, struct rk_err *err)
{
	bool hand_over = !world->wait && world->detach;

	if (world->bundle)
		return rk_bundle_take(world->bundle, c, ret_op, err);
	int rc = rk_world_drivers(world, err);
	if (!rc)
		rc = rk_store_begin(world->store, world->site->revision, err);
	if (rc)
		return rc;
	rc = write_change(world, c, hand_over, ret_op, err);
	if (rc) {
		rk_store_rollback(world->store);
		*ret_op = 0;
		return rc;
	}
	rc = rk_store_commit(world->store, err);
	if (rk_store_trying(world->store)) {
		*ret_op = 0;
		return rc;
	}
	if (!rc && hand_over)
		return rk_op_hand_over(world, *ret_op, err);
	if (!rc)
		rc = rk_world_refresh(world, err);
	return rc ? rc : rk_op_run(world, *ret_op, err);
}
