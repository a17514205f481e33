#include <inttypes.h>
#include <string.h>

#include "provision/op_impl.h"

/* A controller that is lost for good would hold an operation for ever. A person may end it without the steps of that controller's lane: only when they
 * fail once more, and only where there is no other way out. What may still be there then is written down: trays are faulty, numbers are given to nobody. */

static bool concerns(const struct rk_node *node, const char *lane)
{
	return node->step.kind->give_up && rk_streq(node->step.lane, lane);
}

/* Forward it can still be taken back. */
static bool is_last_way(const struct rk_run *r, bool undo)
{
	return undo || rk_run_committed(r);
}

static bool is_open(const struct rk_run *r, const struct rk_node *node)
{
	bool backwards = rk_run_undoing(r);

	if (node->state == RK_NODE_GIVEN_UP || node->state == RK_NODE_LEFT)
		return false;
	return backwards ? node->state != RK_NODE_PLANNED && node->state != RK_NODE_UNDONE : node->state != RK_NODE_DONE || !rk_run_committed(r);
}

static int check(const struct rk_run *r, struct rk_err *err)
{
	const char *lane = r->world->give_up, *other = NULL;

	for (size_t i = 0; i < r->n; i++) {
		if (concerns(&r->nodes[i], lane) && is_open(r, &r->nodes[i]))
			return 0;
		if (!other && r->nodes[i].step.lane && r->nodes[i].step.kind->give_up && is_open(r, &r->nodes[i]))
			other = r->nodes[i].step.lane;
	}
	rk_err_set(err, RK_INVALID, "operation %" PRId64 " has nothing left to do on \"%s\"", r->op, lane);
	if (other)
		rk_err_hint(err, "what it still needs: %s", other);
	return RK_INVALID;
}

/* Before anybody takes it up: a wrong word changes nothing. */
int rk_op_check_give_up(struct rk_world *world, int64_t op, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_op_row row;
	struct rk_run r;

	if (!world->give_up)
		return 0;
	int rc = rk_store_op_get(world->store, op, arena, &row, err);
	if (rc || rk_op_is_over(&row))
		return rc;
	rc = rk_run_load(&r, world, op, err);
	if (!rc)
		rc = check(&r, err);
	rk_run_free(&r);
	return rc;
}

bool rk_run_gives_up(const struct rk_run *r, const struct rk_node *node, bool undo)
{
	return r->world->give_up && node->rc != RK_CANCELLED && node->rc != RK_BUG && concerns(node, r->world->give_up) && is_last_way(r, undo);
}

int rk_run_give_up(struct rk_run *r, struct rk_node *node, bool undo, const char **ret, struct rk_err *err)
{
	struct rk_step *step = &node->step;
	const char *why = rk_arena_printf(step->arena, "given up by %s: %s", rk_store_by(r->world->store), r->world->give_up_why);

	step->note = NULL;
	int rc = step->kind->give_up(r->world, step, undo, why, err);
	*ret = rk_arena_printf(step->arena, "%s (%s); %s", why, node->err.message ? node->err.message : "it failed", step->note ? step->note : "");
	return rc;
}

bool rk_run_falls_with(const struct rk_run *r, const struct rk_node *node)
{
	for (size_t d = 0; d < node->step.n_deps; d++)
		if (r->nodes[node->step.deps[d] - 1].state == RK_NODE_GIVEN_UP)
			return true;
	return false;
}

const char *rk_run_way_out(const struct rk_run *r, const struct rk_node *node, struct rk_arena *arena)
{
	if (!node->step.lane || !node->step.kind->give_up || node->rc != RK_UNREACHABLE || !is_last_way(r, rk_run_undoing(r)))
		return NULL;
	return rk_arena_printf(arena, "if it is lost for good: racksh op resume %" PRId64 " --give-up %s --reason TEXT", r->op, node->step.lane);
}

static bool was_given_up(const struct rk_node *node)
{
	return node->state == RK_NODE_GIVEN_UP || node->state == RK_NODE_LEFT;
}

int rk_run_left_behind(const struct rk_run *r, struct rk_err *err)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++)
		n += was_given_up(&r->nodes[i]);
	if (!n)
		return 0;
	rk_err_set(err, RK_PARTIAL, "operation %" PRId64 " (%s) is over, without %zu of its steps", r->op, r->command, n);
	for (size_t i = 0; i < r->n; i++) {
		const struct rk_step *step = &r->nodes[i].step;
		if (was_given_up(&r->nodes[i]))
			rk_err_detail(err, "step %d %s %s: %s", step->id, step->kind->name, step->target, step->note ? step->note : "given up");
	}
	rk_err_hint(err, "racksh drift shows what is left; when its manager answers again: racksh drift --fix, then racksh tray uncordon");
	return RK_PARTIAL;
}

const char *rk_run_left_word(const struct rk_run *r)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;

	for (size_t i = 0; i < r->n; i++)
		if (was_given_up(&r->nodes[i]))
			rk_str_addf(&out, "%s%s %s", out.len ? ", " : "ended without ", r->nodes[i].step.kind->name, r->nodes[i].step.target);
	return out.len ? rk_arena_strdup(r->arena, rk_str_text(&out)) : NULL;
}
