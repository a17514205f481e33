#include "provision/op.h"

#include <inttypes.h>
#include <string.h>

#include "provision/hooks.h"
#include "provision/op_impl.h"
#include "provision/steps.h"

/* ---- ends ---------------------------------------------------------------------------------------------------------------------- */

static void tell_hook(struct rk_run *r, const char *state, const char *detail)
{
	char *op RK_CLEANUP_FREE = rk_xasprintf("%" PRId64, r->op);
	const struct rk_hook_fact facts[] = { { "OPERATION", op }, { "COMMAND", r->command }, { "STATE", state }, { "DETAIL", detail } };

	rk_hook_run(r->world, "operation", facts, RK_ARRAY_SIZE(facts), NULL);
}

/* The closing transaction: what the operation means for the store, its last state, its leases. */
static int close_op(struct rk_run *r, const char *state, enum rk_op_end end, const char *detail, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_store *store = r->world->store;
	struct rk_op_row row;
	const char *left = rk_run_left_word(r);
	int rc = rk_store_begin(store, -1, err);

	if (rc)
		return rc;
	detail = left ? left : detail;
	rc = rk_run_ours(r, arena, &row, err);
	if (!rc && r->type->finish)
		rc = r->type->finish(r->world, r->op, rk_json_root(r->params), end, err);
	if (!rc)
		rc = rk_store_op_set(store, r->op, state, detail, err);
	if (!rc && end != RK_OP_AWAITS)
		rc = rk_store_lease_drop(store, r->op, err);
	if (rc) {
		rk_store_rollback(store);
		return rc;
	}
	rc = rk_store_commit(store, err);
	if (rc)
		return rc;
	tell_hook(r, state, detail);
	rc = rk_world_refresh(r->world, err);
	return rc ? rc : rk_run_left_behind(r, err);
}

static bool is_left(const struct rk_node *node)
{
	return node->state == RK_NODE_FAILED || node->state == RK_NODE_UNKNOWN || node->state == RK_NODE_APPLYING || node->state == RK_NODE_UNDOING;
}

/* "a-01 on r1-t01": a VM's name does not say where it is. */
static const char *where(const struct rk_run *r, const struct rk_step *step, struct rk_arena *arena)
{
	int tray = rk_step_tray(r->world, step);
	const char *name = tray < 0 ? NULL : r->world->site->trays[tray].name;

	return !name || strcmp(name, step->target) == 0 ? step->target : rk_arena_printf(arena, "%s on %s", step->target, name);
}

/* hints: the error itself says how to go on with the operation, and not what its steps say. */
static void list_left(const struct rk_run *r, bool hints, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();

	for (size_t i = 0; i < r->n; i++) {
		const struct rk_node *node = &r->nodes[i];
		if (!is_left(node))
			continue;
		rk_err_detail(err, "step %d %s %s: %s%s%s", node->step.id, node->step.kind->name, where(r, &node->step, arena), rk_node_state_name(node->state),
			      node->err.message ? ": " : "", node->err.message ? node->err.message : "");
		if (hints && node->err.hint)
			rk_err_detail(err, "  %s", node->err.hint);
		const char *out = hints ? rk_run_way_out(r, node, arena) : NULL;
		if (out)
			rk_err_detail(err, "  %s", out);
	}
}

/* Backwards: was done, and its undo waits for others. Forwards: has not begun. */
static bool waits(const struct rk_node *node, bool undoing)
{
	return undoing ? node->state == RK_NODE_DONE && node->step.kind->undo : node->state == RK_NODE_PLANNED;
}

/* What else there is to do, a line for each kind of step: there may be thousands. */
static void list_waiting(const struct rk_run *r, bool undoing, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const char **names = rk_arena_array(arena, r->n, sizeof(*names));
	bool *told = rk_arena_array(arena, r->n, sizeof(*told));

	for (size_t i = 0; i < r->n; i++) {
		const struct rk_step_kind *kind = r->nodes[i].step.kind;
		size_t n = 0;
		for (size_t k = told[i] ? r->n : i; k < r->n; k++) {
			if (r->nodes[k].step.kind != kind)
				continue;
			told[k] = true;
			if (waits(&r->nodes[k], undoing))
				names[n++] = r->nodes[k].step.target;
		}
		if (n)
			rk_err_detail(err, "%s: %s %s", undoing ? "not taken back yet" : "not done yet", kind->name, rk_nodeset_fold(arena, names, n));
	}
}

/* Nobody runs it from here on. False: somebody else does already. Where the store cannot be written a process that is gone says as much, and one that
 * lives on has to know it. */
static bool let_go(const struct rk_run *r, const char *why, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_store *store = r->world->store;
	struct rk_op_row row;

	r->world->unsaid = r->op;
	if (rk_store_begin(store, -1, NULL))
		return true;
	bool ours = rk_run_ours(r, arena, &row, err) != RK_CONFLICT;
	int rc = ours ? rk_store_op_set(store, r->op, "resumable", why, NULL) : 0;
	if (ours && !rc)
		rc = rk_store_commit(store, NULL);
	else
		rk_store_rollback(store);
	if (!rc)
		r->world->unsaid = 0;
	return ours;
}

/* What is left where, and how to finish. */
static int leave_resumable(struct rk_run *r, struct rk_err *err)
{
	RK_CLEANUP_ERR struct rk_err why = RK_ERR_INIT;
	bool one_way = rk_run_committed(r) || rk_run_undoing(r);

	rk_err_move(&why, &r->err);
	const char *text = why.message ? why.message : "interrupted";
	if (!let_go(r, text, err))
		return RK_CONFLICT;
	tell_hook(r, "resumable", text);
	rk_err_set(err, RK_PARTIAL, "operation %" PRId64 " (%s) is left unfinished: %s", r->op, r->command, text);
	list_left(r, true, err);
	list_waiting(r, rk_run_undoing(r), err);
	rk_err_hint(err, one_way ? "racksh op resume %" PRId64 : "racksh op resume %" PRId64 " or racksh op rollback %" PRId64, r->op, r->op);
	return RK_PARTIAL;
}

/* What stays in the store once all is undone: no step's error, or it would still say that the undoing goes on. */
static const char *last_word(const struct rk_run *r, const char *failure, const char *state)
{
	if (failure)
		return failure;
	if (r->taken_back)
		return r->taken_back;
	return strcmp(state, "cancelled") == 0 ? "cancelled and rolled back" : "rolled back";
}

/* want_rc 0: the rollback is what was asked for. */
static int undo_all(struct rk_run *r, const char *state, int want_rc, struct rk_err *err)
{
	RK_CLEANUP_ERR struct rk_err why = RK_ERR_INIT;

	rk_err_move(&why, &r->err);
	if (r->world->cancel)
		*r->world->cancel = 0;
	int rc = rk_run_undo(r, err);
	if (rc)
		return rc;
	if (r->failed || r->ended < r->n) {
		bool same = rk_streq(why.message, r->err.message);
		rc = leave_resumable(r, err);
		if (why.message && !same)
			rk_err_detail(err, "it was being taken back because of this: %s", why.message);
		return rc;
	}
	rc = close_op(r, state, RK_OP_UNDONE, last_word(r, why.message, state), err);
	if (rc || !want_rc)
		return rc;
	rk_err_move(err, &why);
	if (want_rc == RK_CANCELLED)
		return rk_err_set(err, RK_CANCELLED, "operation %" PRId64 " was cancelled and rolled back", r->op);
	if (!err)
		return want_rc;
	if (!err->message)
		rk_err_set(err, want_rc, "operation %" PRId64 " failed", r->op);
	/* Rolled back completely: whatever the step's class was, the world is as before. */
	err->rc = want_rc;
	rk_err_while(err, "operation %" PRId64 " was rolled back", r->op);
	return want_rc;
}

/* Every target stands alone: what was done stays, the rest is named. */
static int end_independent(struct rk_run *r, struct rk_err *err)
{
	RK_CLEANUP_ERR struct rk_err why = RK_ERR_INIT;
	bool all = r->ended == r->n && !r->n_failed;

	rk_err_move(&why, &r->err);
	int rc = close_op(r, all ? "done" : r->cancelled ? "cancelled" : "failed", RK_OP_DONE, why.message, err);
	if (rc || all)
		return rc;
	if (r->cancelled)
		return rk_err_set(err, RK_CANCELLED, "operation %" PRId64 " was cancelled: %zu of %zu steps were done", r->op, r->ended - r->n_failed, r->n);
	int class = r->has_result || !why.rc ? RK_PARTIAL : why.rc;
	rk_err_set(err, class, "operation %" PRId64 " (%s): %zu of %zu steps were not done: %s", r->op, r->command, r->n - (r->ended - r->n_failed), r->n,
		   why.message ? why.message : "interrupted");
	if (why.hint)
		rk_err_hint(err, "%s", why.hint);
	list_left(r, false, err);
	return class;
}

/* Done as far as it can be taken back: from here the clock runs, and somebody has to watch it. */
static int await_confirm(struct rk_run *r, struct rk_err *err)
{
	int rc = close_op(r, "awaiting-confirm", RK_OP_AWAITS, NULL, err);

	if (!rc && r->world->detach)
		rc = r->world->detach(r->world->detach_ctx, r->op, err);
	return rc;
}

static int finish_forward(struct rk_run *r, struct rk_err *err)
{
	int rc = rk_run_forward(r, err);

	if (rc)
		return rc;
	if (r->type->independent)
		return end_independent(r, err);
	if (!r->failed && r->ended == r->n)
		return close_op(r, "done", RK_OP_DONE, NULL, err);
	if (!r->failed && !r->cancelled && r->awaiting)
		return await_confirm(r, err);
	if (rk_run_committed(r))
		return leave_resumable(r, err);
	return r->cancelled ? undo_all(r, "cancelled", RK_CANCELLED, err) : undo_all(r, "rolled-back", RK_FAILED, err);
}

/* The store failed it, not a step: its id and what to do with it are said all the same. */
static int say_unfinished(const struct rk_run *r, int rc, struct rk_err *err)
{
	if (rc == RK_PARTIAL || rc == RK_CANCELLED)
		return rc;
	if (err && err->hint)
		rk_err_detail(err, "%s", err->hint);
	rk_err_while(err, "operation %" PRId64 " (%s) is left unfinished", r->op, r->command);
	rk_err_hint(err, "racksh op resume %" PRId64 ", or racksh op show %" PRId64, r->op, r->op);
	if (rc != RK_FAILED)
		return rc;
	if (err)
		err->rc = RK_PARTIAL;
	return RK_PARTIAL;
}

/* Whatever went wrong at the end, too: this process may live on, and nobody could take up what it seems to run. */
static int end_run(struct rk_run *r, int rc, struct rk_err *err)
{
	if (rc && r->runner && let_go(r, err && err->message ? err->message : "interrupted", NULL))
		rc = say_unfinished(r, rc, err);
	rk_run_free(r);
	return rc;
}

int rk_op_run(struct rk_world *world, int64_t op, struct rk_err *err)
{
	struct rk_run r;
	int rc = rk_run_load(&r, world, op, err);

	if (!rc)
		rc = finish_forward(&r, err);
	return end_run(&r, rc, err);
}

/* ---- taking up -------------------------------------------------------------------------------------------------------------------- */

bool rk_op_in_state(const struct rk_op_row *row, const char *state)
{
	return strcmp(row->state, state) == 0;
}

bool rk_op_is_over(const struct rk_op_row *row)
{
	return !rk_op_in_state(row, "running") && !rk_op_in_state(row, "resumable") && !rk_op_in_state(row, "awaiting-confirm");
}

int rk_op_busy(const struct rk_op_row *row, struct rk_err *err)
{
	char began[32];

	rk_time_iso(row->started_ms, began);
	rk_err_set(err, RK_CONFLICT, "operation %" PRId64 " (%s, begun by %s at %s) is being run by %s", row->id, row->command, row->by, began, row->runner);
	rk_err_hint(err, "wait for it, or racksh op cancel %" PRId64, row->id);
	return RK_CONFLICT;
}

/* Of this process: the store's "user@host pid" ends so. */
static bool is_ours(const struct rk_store *store, const char *runner)
{
	return rk_streq(strrchr(rk_store_by(store), '@') + 1, runner);
}

int rk_op_is_run(struct rk_world *world, const struct rk_op_row *row, bool *ret, struct rk_err *err)
{
	bool given_up = row->id == world->unsaid && is_ours(world->store, row->runner);

	*ret = false;
	return given_up || !rk_op_in_state(row, "running") ? 0 : rk_store_op_alive(world->store, row->id, ret, err);
}

int rk_op_holds(struct rk_world *world, const char *what, int64_t op, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_op_row row;
	bool alive = true;
	char since[32];

	if (rk_store_op_get(world->store, op, arena, &row, NULL)) {
		rk_err_set(err, RK_CONFLICT, "%s is held by operation %" PRId64, what, op);
	} else {
		if (rk_op_in_state(&row, "running"))
			rk_op_is_run(world, &row, &alive, NULL);
		rk_err_set(err, RK_CONFLICT, "%s is held by operation %" PRId64 " (%s, %s) of %s since %s", what, op, row.command, alive ? row.state : "left by its process", row.by,
			   rk_time_iso(row.started_ms, since));
	}
	rk_err_hint(err, "racksh op show %" PRId64 "; resume, confirm or roll it back first", op);
	return RK_CONFLICT;
}

/* Inside a transaction: nobody else takes it up at the same time. */
int rk_op_claim_row(struct rk_world *world, const struct rk_op_row *row, const char *why, struct rk_arena *arena, struct rk_err *err)
{
	const char *former;
	bool alive = false;
	int rc = rk_op_is_run(world, row, &alive, err);

	if (!rc && alive)
		return rk_op_busy(row, err);
	if (!rc)
		rc = rk_store_lease_takeover(world->store, row->id, arena, &former, err);
	return rc ? rc : rk_store_op_set(world->store, row->id, "running", why, err);
}

/* 1 when the operation is over already, 0 when it is this process' now. */
static int claim(struct rk_world *world, int64_t op, const char *why, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_op_row row;
	int rc = rk_store_begin(world->store, -1, err);

	if (rc)
		return rc;
	rc = rk_store_op_get(world->store, op, arena, &row, err);
	if (!rc && rk_op_is_over(&row))
		rc = 1;
	if (!rc)
		rc = rk_op_claim_row(world, &row, why, arena, err);
	if (!rc)
		return rk_store_commit(world->store, err);
	rk_store_rollback(world->store);
	return rc;
}

/* Loads an operation that was left, for this process to finish: 1 when it is over already. *r is to be freed in every case. */
static int take_up(struct rk_run *r, struct rk_world *world, int64_t op, const char *why, struct rk_err *err)
{
	*r = (struct rk_run){ .world = world, .op = op };
	if (world->bundle) {
		rk_err_set(err, RK_CONFLICT, "operation %" PRId64 " of the same cluster is left unfinished, and cannot be finished as a part of another one", op);
		rk_err_hint(err, "racksh op resume %" PRId64 " or racksh op rollback %" PRId64 " before", op, op);
		return RK_CONFLICT;
	}
	int rc = rk_world_drivers(world, err);
	if (!rc)
		rc = rk_op_check_give_up(world, op, err);
	if (!rc)
		rc = claim(world, op, why, err);
	if (!rc)
		rc = rk_world_refresh(world, err);
	return rc ? rc : rk_run_load(r, world, op, err);
}

static int no_way_back(struct rk_run *r, struct rk_err *err)
{
	let_go(r, NULL, NULL);
	r->runner = NULL; /* it is as it was: nothing failed in the middle */
	rk_err_set(err, RK_INVALID, "operation %" PRId64 " (%s) cannot be taken back%s", r->op, r->command,
		   r->type->forward_only || r->type->independent ? "" : " any more");
	rk_err_hint(err, "racksh op resume %" PRId64, r->op);
	return RK_INVALID;
}

int rk_op_take_back(struct rk_world *world, int64_t op, const char *state, const char *why, struct rk_err *err)
{
	struct rk_run r;
	int rc = take_up(&r, world, op, strcmp(state, "cancelled") == 0 ? "cancelling" : "rolling back", err);

	r.taken_back = why;
	bool stops = !rc && r.type->independent && strcmp(state, "cancelled") == 0;
	if (!rc && !stops && (r.type->independent || rk_run_committed(&r)))
		rc = no_way_back(&r, err);
	else if (!rc && !rk_store_trying(world->store))
		rc = stops ? close_op(&r, state, RK_OP_DONE, NULL, err) : undo_all(&r, state, 0, err);
	return end_run(&r, rc == 1 ? 0 : rc, err);
}

int rk_op_rollback(struct rk_world *world, int64_t op, struct rk_err *err)
{
	return rk_op_take_back(world, op, "rolled-back", NULL, err);
}

int rk_op_go_on(struct rk_world *world, int64_t op, struct rk_err *err)
{
	struct rk_run r;
	int rc = take_up(&r, world, op, "resumed", err);

	if (!rc && !rk_store_trying(world->store))
		rc = rk_run_undoing(&r) ? undo_all(&r, "rolled-back", 0, err) : finish_forward(&r, err);
	return end_run(&r, rc == 1 ? 0 : rc, err);
}
