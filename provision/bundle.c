#include "provision/bundle.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "provision/cluster_impl.h"
#include "provision/op_impl.h"

struct rk_bundle {
	struct rk_world *world;
	struct rk_heard *heard;           /* the caller's */
	struct rk_arena *arena;
	struct rk_plan *plan;
	const char *command;              /* of the part that is open */
	struct rk_site *before;           /* what it started from */
	int64_t op;
	int confirm_ms;                   /* the shortest time that a part asked for; 0: none */
	struct {
		const char **items;
		size_t n, cap;
	} clusters;                       /* whose outcome is looked at in the end */
};

int rk_bundle_begin(struct rk_world *world, const char *command, struct rk_heard *heard, struct rk_bundle **ret, struct rk_err *err)
{
	int rc = rk_world_drivers(world, err);

	if (!rc)
		rc = rk_store_begin(world->store, world->site->revision, err);
	if (rc)
		return rc;
	struct rk_bundle *b = rk_xcalloc(1, sizeof(*b));
	b->world = world;
	b->heard = heard;
	b->arena = rk_arena_new();
	b->plan = rk_plan_new(command);
	world->bundle = b;
	rk_store_compose(world->store, true);
	*ret = b;
	rc = rk_store_op_add(world->store, command, "{\"type\":\"bundle\"}", &b->op, err);
	if (rc)
		rk_bundle_drop(rk_steal(ret));
	return rc;
}

static void bundle_free(struct rk_bundle *b)
{
	b->world->bundle = NULL;
	rk_plan_free(b->plan);
	rk_site_free(b->before);
	rk_arena_free(b->arena);
	free(b->clusters.items);
	free(b);
}

void rk_bundle_drop(struct rk_bundle *b)
{
	struct rk_world *world = b->world;

	rk_store_compose(world->store, false);
	rk_store_rollback(world->store);
	bundle_free(b);
	/* The snapshot holds what was just taken back. */
	rk_world_refresh(world, NULL);
}

const struct rk_plan *rk_bundle_plan(const struct rk_bundle *b)
{
	return b->plan;
}

struct rk_heard *rk_bundle_heard(const struct rk_bundle *b)
{
	return b->heard;
}

int rk_bundle_part(struct rk_bundle *b, const char *command, struct rk_err *err)
{
	b->command = rk_arena_strdup(b->arena, command);
	b->world->confirm_ms = 0;
	rk_site_free(rk_steal(&b->before));
	return rk_store_snapshot(b->world->store, &b->before, err);
}

static int worked_on(const char *what, struct rk_err *err)
{
	rk_err_set(err, RK_CONFLICT, "\"%s\" is worked on by an earlier command of the same commit already", what);
	rk_err_hint(err, "commit what comes before, then this");
	return RK_CONFLICT;
}

int rk_bundle_take(struct rk_bundle *b, const struct rk_change *c, int64_t *ret_op, struct rk_err *err)
{
	const struct rk_op_type *type = rk_op_type_find(c->type);
	char *thing RK_CLEANUP_FREE = rk_xasprintf("cluster:%s", c->cluster ? c->cluster : "");
	const char *shared = rk_plan_shared(b->plan, c->plan);
	struct rk_store *store = b->world->store;
	bool held = false;

	if (shared)
		return worked_on(shared, err);
	int rc = c->cluster ? rk_store_lease_held(store, thing, &held, err) : 0;
	if (!rc && c->cluster)
		rc = rk_store_lease_take(store, thing, b->op, c->purpose, err);
	/* A guest that an earlier part starts is told of its fellows as they were then. */
	if (!rc && held)
		rc = worked_on(thing, err);
	if (!rc && c->lease)
		rc = rk_store_lease_take(store, c->lease, b->op, c->purpose, err);
	if (!rc && c->reserve)
		rc = c->reserve(b->world, c, b->op, err);
	if (rc)
		return rc;
	int confirm_ms = rk_plan_append(b->plan, c->plan, b->command, c->params, type->forward_only || type->independent);
	if (confirm_ms && (!b->confirm_ms || confirm_ms < b->confirm_ms))
		b->confirm_ms = confirm_ms;
	if (c->cluster)
		*rk_vec_push(&b->clusters) = rk_arena_strdup(b->arena, c->cluster);
	*ret_op = b->op;
	return rk_world_refresh(b->world, err);
}

int rk_bundle_part_done(struct rk_bundle *b, struct rk_err *err)
{
	int rc = rk_world_refresh(b->world, err);

	if (rc)
		return rc;
	const char *edits = rk_edits_between(b->before, b->world->site, b->arena);
	if (edits)
		rk_plan_add(b->plan, "op.part", b->command, NULL, edits, NULL, 0);
	return 0;
}

static int write_down(struct rk_bundle *b, bool hand_over, struct rk_err *err)
{
	struct rk_store *store = b->world->store;

	if (b->confirm_ms)
		rk_plan_add_confirm(b->plan, b->confirm_ms);
	int rc = rk_plan_journal(b->world, b->plan, b->op, err);
	if (!rc && hand_over)
		rc = rk_store_op_set(store, b->op, "resumable", "handed to a process of its own", err);
	return rc;
}

static int outcomes(struct rk_bundle *b, struct rk_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < b->clusters.n; i++)
		rc = rk_cluster_outcome(b->world, b->clusters.items[i], err);
	return rc;
}

int rk_bundle_run(struct rk_bundle *b, int64_t *ret_op, struct rk_err *err)
{
	struct rk_world *world = b->world;
	bool hand_over = !world->wait && world->detach;
	int rc = write_down(b, hand_over, err);

	*ret_op = 0;
	if (rc) {
		rk_bundle_drop(b);
		return rc;
	}
	rk_store_compose(world->store, false);
	world->bundle = NULL;
	rc = rk_store_commit(world->store, err);
	if (!rc)
		*ret_op = b->op;
	else
		rk_world_refresh(world, NULL); /* the snapshot holds what was not kept */
	if (!rc && !hand_over)
		rc = rk_world_refresh(world, err);
	if (!rc)
		rc = hand_over ? rk_op_hand_over(world, b->op, err) : rk_op_run(world, b->op, err);
	if (!rc && !hand_over)
		rc = outcomes(b, err);
	bundle_free(b);
	return rc;
}

/* ---- ends ----------------------------------------------------------------------------------------------------------------------------- */

static int finish_part(struct rk_world *world, int64_t op, const struct rk_step_row *part, enum rk_op_end end, struct rk_err *err)
{
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	int rc = rk_json_parse("part", part->params, strlen(part->params), &json, err);

	if (rc)
		return rc;
	const struct rk_jnode *params = rk_json_root(json);
	const char *name = rk_jstr(rk_jget(params, "type"));
	const struct rk_op_type *type = name ? rk_op_type_find(name) : NULL;
	if (!type)
		return rk_err_set(err, RK_INVALID, "part \"%s\" of operation %" PRId64 " is of a type that this racksh does not know", part->target, op);
	return type->finish ? type->finish(world, op, params, end, err) : 0;
}

/* Forward in the order of the commands, backward the other way round. */
int rk_finish_bundle(struct rk_world *world, int64_t op, const struct rk_jnode *params, enum rk_op_end end, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_step_row *steps;
	size_t n;
	int rc = rk_store_step_list(world->store, op, arena, &steps, &n, err);

	(void)params;
	for (size_t i = 0; !rc && i < n; i++) {
		const struct rk_step_row *step = &steps[end == RK_OP_UNDONE ? n - 1 - i : i];
		if (strcmp(step->kind, "op.part") == 0)
			rc = finish_part(world, op, step, end, err);
	}
	return rc;
}
