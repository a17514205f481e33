#include <string.h>

#include "provision/op_impl.h"

/* Rounds: take the results that are there, decide what goes next, write both into one durable transaction (group commit), and only then
 * send: no effect is ahead of its journal. */

enum { POLL_MS = 500, LANE_POLL_MS = 50 };

typedef int (*result_fn)(struct rk_run *r, int at, struct rk_err *err);

static void say(struct rk_run *r, const struct rk_node *node, const char *what)
{
	if (!r->world->progress)
		return;
	char *text RK_CLEANUP_FREE = rk_xasprintf("[%zu/%zu] %s %s: %s", r->ended, r->n, node->step.kind->name, node->step.target, what);
	r->world->progress(r->world->progress_ctx, text);
}

static int journal(struct rk_run *r, struct rk_node *node, enum rk_node_state state, const char *detail, struct rk_err *err)
{
	int rc = rk_store_step_set(r->world->store, r->op, node->step.id, rk_node_state_name(state), node->step.before, detail, err);

	if (!rc)
		node->state = state;
	return rc;
}

static void note_failure(struct rk_run *r, struct rk_node *node)
{
	/* The node keeps its own for the list of what is left. */
	if (!r->n_failed++) {
		rk_err_set(&r->err, node->rc, "%s %s: %s", node->step.kind->name, node->step.target, node->err.message ? node->err.message : "failed");
		for (size_t i = 0; i < node->err.n_details; i++)
			rk_err_detail(&r->err, "%s", node->err.details[i]);
		if (node->err.hint)
			rk_err_hint(&r->err, "%s", node->err.hint);
	}
	r->failed |= !r->type->independent;
}

static void make_ready(struct rk_run *r, size_t at)
{
	r->ready[r->n_ready++] = (int)at;
	r->nodes[at].queued = true;
}

static void put_out(struct rk_run *r, int at, enum rk_phase phase)
{
	r->nodes[at].phase = phase;
	r->outbox[r->n_outbox++] = at;
}

static int settle(struct rk_run *r, struct rk_node *node, bool undone, struct rk_err *err)
{
	return node->step.kind->settle ? node->step.kind->settle(r->world, &node->step, undone, err) : 0;
}

/* A step that came to its end keeps nothing but what its undo needs: thousands of them end before the operation does. */
static void forget(struct rk_run *r, struct rk_node *node)
{
	node->step.before = rk_arena_strdup(r->arena, node->step.before);
	node->step.note = NULL;
	node->step.data = NULL;
	node->step.left = NULL;
	node->step.n_left = 0;
	rk_arena_free(node->step.arena);
	node->step.arena = rk_arena_new();
}

/* ---- lanes ---------------------------------------------------------------------------------------------------------------------- */

/* One step at a time on a controller, whatever operation or process it is of: the lane is held in the store from before the step until its result
 * is written down. *ret false: it is in use. */
static int take_lane(struct rk_run *r, struct rk_node *node, bool *ret, struct rk_err *err)
{
	RK_CLEANUP_ERR struct rk_err said = RK_ERR_INIT;

	*ret = node->lane < 0 || !r->lane_busy[node->lane];
	if (node->lane < 0 || !*ret)
		return 0;
	char *purpose RK_CLEANUP_FREE = rk_xasprintf("%s %s", node->step.kind->name, node->step.target);
	int rc = rk_store_lane_take(r->world->store, node->step.lane, r->op, purpose, ret, &said, err);
	if (rc || *ret) {
		r->lane_busy[node->lane] = !rc;
		return rc;
	}
	r->waits = true;
	if (!node->waits)
		say(r, node, said.message);
	node->waits = true;
	rk_err_set(&node->err, RK_CONFLICT, "it waits: %s", said.message);
	return 0;
}

static int free_lane(struct rk_run *r, const struct rk_node *node, struct rk_err *err)
{
	if (node->lane < 0)
		return 0;
	r->lane_busy[node->lane] = false;
	return rk_store_lane_drop(r->world->store, node->step.lane, r->op, err);
}

/* Of a run that ends without having heard all results: nobody is to wait for it. */
static void free_lanes(struct rk_run *r)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->nodes[i].lane >= 0 && r->lane_busy[r->nodes[i].lane])
			free_lane(r, &r->nodes[i], NULL);
}

/* ---- what goes next ------------------------------------------------------------------------------------------------------------- */

/* The intent is journalled before the effect; a probe has none. */
static int begin_step(struct rk_run *r, int at, bool undo, struct rk_err *err)
{
	struct rk_node *node = &r->nodes[at];
	const struct rk_step_kind *kind = node->step.kind;
	enum rk_phase phase = undo ? RK_UNDO : kind->probe ? RK_PROBE : RK_APPLY;
	int rc = 0;

	if (kind->awaits && !undo) {
		r->awaiting = true;
		return node->state == RK_NODE_APPLYING ? 0 : journal(r, node, RK_NODE_APPLYING, NULL, err);
	}
	if (!undo && kind->strict && rk_run_falls_with(r, node)) {
		/* Nothing stands on one. */
		r->ended++;
		return journal(r, node, RK_NODE_GIVEN_UP, node->step.note = "not begun: what it stands on was given up", err);
	}
	if (kind->prepare)
		rc = kind->prepare(r->world, &node->step, err);
	if (!rc && phase != RK_PROBE)
		rc = journal(r, node, undo ? RK_NODE_UNDOING : RK_NODE_APPLYING, NULL, err);
	if (!rc)
		put_out(r, at, phase);
	return rc;
}

/* Asked to do one thing at a time it does, and so in an order that depends on nothing else. */
static bool is_full(const struct rk_run *r)
{
	return r->world->jobs <= 1 && r->running + r->n_outbox > 0;
}

/* Everything that may go: no lane twice. */
static int dispatch(struct rk_run *r, bool undo, struct rk_err *err)
{
	size_t kept = 0;
	int rc = 0;

	for (size_t i = r->n_ready; i-- > 0 && !rc && !is_full(r);) {
		int at = r->ready[i];
		bool mine;
		rc = take_lane(r, &r->nodes[at], &mine, err);
		if (rc || !mine)
			continue;
		r->ready[i] = -1;
		rc = begin_step(r, at, undo, err);
	}
	for (size_t i = 0; i < r->n_ready; i++)
		if (r->ready[i] >= 0)
			r->ready[kept++] = r->ready[i];
	r->n_ready = kept;
	return rc;
}

/* ---- what came back --------------------------------------------------------------------------------------------------------------- */

static bool all_reversible_done(const struct rk_run *r)
{
	for (size_t i = 0; i < r->n; i++)
		if (!r->nodes[i].final && !rk_node_is_done(&r->nodes[i]))
			return false;
	return true;
}

/* Steps that cannot be taken back wait for every other one. */
static void open_gate(struct rk_run *r)
{
	if (!all_reversible_done(r))
		return;
	for (size_t i = r->n; i-- > 0;)
		if (r->nodes[i].final && !r->nodes[i].queued && --r->nodes[i].waiting == 0)
			make_ready(r, i);
}

static int failed_forward(struct rk_run *r, struct rk_node *node, struct rk_err *err)
{
	bool untouched = node->phase == RK_PROBE && node->state == RK_NODE_PLANNED;
	enum rk_node_state state = untouched ? RK_NODE_PLANNED : node->rc == RK_UNREACHABLE ? RK_NODE_UNKNOWN : RK_NODE_FAILED;
	int rc = journal(r, node, state, node->err.message, err);

	say(r, node, node->err.message ? node->err.message : "failed");
	note_failure(r, node);
	return rc;
}

/* Told to the store and journalled as what it is. */
static int give_up(struct rk_run *r, struct rk_node *node, bool undo, struct rk_err *err)
{
	const char *said = NULL;
	int rc = rk_run_give_up(r, node, undo, &said, err);

	if (!rc)
		rc = journal(r, node, undo ? RK_NODE_LEFT : RK_NODE_GIVEN_UP, said, err);
	say(r, node, "given up");
	forget(r, node);
	node->step.note = rk_arena_strdup(r->arena, said);
	return rc;
}

static int done(struct rk_run *r, struct rk_node *node, struct rk_err *err)
{
	r->has_result = true;
	int rc = journal(r, node, RK_NODE_DONE, node->phase == RK_PROBE ? "was there already" : node->step.note, err);

	if (!rc)
		rc = settle(r, node, false, err);
	say(r, node, "done");
	forget(r, node);
	return rc;
}

static int forward_result(struct rk_run *r, int at, struct rk_err *err)
{
	struct rk_node *node = &r->nodes[at];

	if (node->rc == 0 && node->phase == RK_PROBE && !node->present) {
		int rc = journal(r, node, RK_NODE_APPLYING, NULL, err);
		/* It may wait long for its turn. */
		if (!node->step.kind->prepare)
			forget(r, node);
		put_out(r, at, RK_APPLY);
		return rc;
	}
	int rc = free_lane(r, node, err);
	r->ended++;
	if (rc)
		return rc;
	if (node->rc && !rk_run_gives_up(r, node, false))
		return failed_forward(r, node, err);
	rc = node->rc ? give_up(r, node, false, err) : done(r, node, err);
	/* The next one is the last of those that are ready: in the order of the plan. */
	for (size_t u = node->n_users; !rc && u-- > 0;)
		if (--r->nodes[node->users[u]].waiting == 0)
			make_ready(r, (size_t)node->users[u]);
	if (!rc && !node->final)
		open_gate(r);
	return rc;
}

static int undone(struct rk_run *r, struct rk_node *node, struct rk_err *err)
{
	int rc = journal(r, node, RK_NODE_UNDONE, node->step.note, err);

	if (!rc)
		rc = settle(r, node, true, err);
	say(r, node, "undone");
	return rc;
}

static int undo_result(struct rk_run *r, int at, struct rk_err *err)
{
	struct rk_node *node = &r->nodes[at];

	int rc = free_lane(r, node, err);
	r->ended++;
	if (rc)
		return rc;
	if (node->rc && !rk_run_gives_up(r, node, true)) {
		/* Stays "undoing": whoever takes this up goes on backwards. */
		rc = journal(r, node, RK_NODE_UNDOING, node->err.message, err);
		say(r, node, node->err.message ? node->err.message : "undo failed");
		note_failure(r, node);
		return rc;
	}
	rc = node->rc ? give_up(r, node, true, err) : undone(r, node, err);
	for (size_t d = 0; !rc && d < node->step.n_deps; d++) {
		struct rk_node *dep = &r->nodes[node->step.deps[d] - 1];
		if (--dep->waiting == 0 && dep->queued)
			r->ready[r->n_ready++] = node->step.deps[d] - 1;
	}
	return rc;
}

/* ---- rounds ------------------------------------------------------------------------------------------------------------------------ */

/* Ctrl-C, or `op cancel` of another process, which can only leave a word in the store. */
static void hear_cancel(struct rk_run *r, const struct rk_op_row *row)
{
	if (!row->detail || !rk_starts_with(row->detail, RK_OP_CANCEL_WORD))
		return;
	r->cancelled = true;
	if (r->world->cancel)
		*r->world->cancel = 1;
}

int rk_run_ours(const struct rk_run *r, struct rk_arena *arena, struct rk_op_row *ret, struct rk_err *err)
{
	int rc = rk_store_op_get(r->world->store, r->op, arena, ret, err);

	if (!rc && (strcmp(ret->state, "running") != 0 || !rk_streq(ret->runner, r->runner)))
		rc = rk_err_set(err, RK_CONFLICT, "operation %lld was taken over by %s", (long long)r->op, ret->runner);
	return rc;
}

static int still_ours(struct rk_run *r, bool undo, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_op_row row;
	int rc = rk_run_ours(r, arena, &row, err);

	if (!rc && !undo)
		hear_cancel(r, &row);
	return rc ? rc : rk_store_lease_keep(r->world->store, r->op, err);
}

/* Forward: a failure or Ctrl-C ends it. Backward: only Ctrl-C does, because what failed to be undone is no reason to leave the rest. */
static bool stopping(struct rk_run *r, bool undo)
{
	bool interrupted = r->world->cancel && *r->world->cancel;

	r->cancelled |= interrupted;
	return undo ? interrupted : r->failed || r->cancelled;
}

/* Steps whose turn it was stay in the journal as being undone: whoever takes the operation up goes on backwards, and is told what it waited for. */
static int put_off(struct rk_run *r, struct rk_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < r->n_ready && !rc; i++) {
		struct rk_node *node = &r->nodes[r->ready[i]];
		if (!node->err.message)
			rk_err_set(&node->err, RK_CANCELLED, "interrupted before it was undone");
		rc = journal(r, node, RK_NODE_UNDOING, node->err.message, err);
	}
	r->n_ready = 0;
	return rc;
}

static void send_out(struct rk_run *r)
{
	for (size_t i = 0; i < r->n_outbox; i++)
		rk_pool_send(r, r->outbox[i]);
	r->n_outbox = 0;
}

static int round_of(struct rk_run *r, const int *batch, size_t n, result_fn handle, bool undo, struct rk_err *err)
{
	int rc = rk_store_begin(r->world->store, -1, err);

	if (rc)
		return rc;
	r->waits = false;
	rc = still_ours(r, undo, err);
	for (size_t i = 0; i < n && !rc; i++)
		rc = handle(r, batch[i], err);
	if (!rc && !stopping(r, undo))
		rc = dispatch(r, undo, err);
	else if (!rc && undo)
		rc = put_off(r, err);
	if (!rc)
		rc = rk_store_commit(r->world->store, err);
	else
		rk_store_rollback(r->world->store);
	if (!rc)
		send_out(r);
	return rc;
}

static int run_rounds(struct rk_run *r, result_fn handle, bool undo, struct rk_err *err)
{
	int *batch = rk_arena_array(r->arena, r->n, sizeof(*batch)), rc = 0;
	size_t n = 0;

	rk_pool_start(r);
	do {
		rc = round_of(r, batch, n, handle, undo, err);
		n = 0;
		/* A round without results hears what others say, and whether they left a lane. */
		if (!rc && (r->running || r->waits))
			n = rk_pool_receive(r, batch, r->waits ? LANE_POLL_MS : POLL_MS);
	} while (!rc && (n || r->running || r->waits));
	while (r->running)
		rk_pool_receive(r, batch, POLL_MS);
	rk_pool_stop(r);
	if (rc)
		free_lanes(r);
	return rc;
}

static void reset(struct rk_run *r)
{
	r->ended = r->n_ready = r->n_outbox = r->n_failed = 0;
	r->failed = r->awaiting = false;
	memset(r->lane_busy, 0, r->n_lanes * sizeof(bool));
}

int rk_run_forward(struct rk_run *r, struct rk_err *err)
{
	bool gate_open = all_reversible_done(r);

	reset(r);
	for (size_t i = 0; i < r->n; i++) {
		struct rk_node *node = &r->nodes[i];
		node->queued = false;
		node->waiting = node->final && !gate_open;
		r->ended += rk_node_is_done(node);
		for (size_t d = 0; d < node->step.n_deps; d++)
			node->waiting += !rk_node_is_done(&r->nodes[node->step.deps[d] - 1]);
	}
	for (size_t i = r->n; i-- > 0;)
		if (!rk_node_is_done(&r->nodes[i]) && !r->nodes[i].waiting)
			make_ready(r, i);
	return r->n_ready ? run_rounds(r, forward_result, false, err) : 0;
}

static bool needs_undo(const struct rk_node *node)
{
	return node->state != RK_NODE_PLANNED && node->state != RK_NODE_UNDONE && node->state != RK_NODE_GIVEN_UP && node->state != RK_NODE_LEFT;
}

/* A step is undone after everything that stands on it. */
int rk_run_undo(struct rk_run *r, struct rk_err *err)
{
	reset(r);
	for (size_t i = 0; i < r->n; i++) {
		struct rk_node *node = &r->nodes[i];
		node->queued = needs_undo(node);
		r->ended += !node->queued;
		node->waiting = 0;
		for (size_t u = 0; u < node->n_users; u++)
			node->waiting += needs_undo(&r->nodes[node->users[u]]);
	}
	for (size_t i = 0; i < r->n; i++)
		if (r->nodes[i].queued && !r->nodes[i].waiting)
			r->ready[r->n_ready++] = (int)i;
	return r->n_ready ? run_rounds(r, undo_result, true, err) : 0;
}

bool rk_run_committed(const struct rk_run *r)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->type->forward_only || (r->nodes[i].final && r->nodes[i].state != RK_NODE_PLANNED))
			return true;
	return false;
}

bool rk_run_undoing(const struct rk_run *r)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->nodes[i].state == RK_NODE_UNDOING || r->nodes[i].state == RK_NODE_UNDONE || r->nodes[i].state == RK_NODE_LEFT)
			return true;
	return false;
}
