#include "provision/op.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/map.h"

/* ---- plans ------------------------------------------------------------------------------------------------------------------ */

struct plan_step {
	const struct rk_step_kind *kind;
	const char *target, *lane, *params, *deps;
};

struct rk_plan {
	struct rk_arena *arena;
	const char *command;
	struct plan_step *items;
	size_t n, cap;
};

struct rk_plan *rk_plan_new(const char *command)
{
	struct rk_plan *plan = rk_xcalloc(1, sizeof(*plan));

	plan->arena = rk_arena_new();
	plan->command = rk_arena_strdup(plan->arena, command);
	return plan;
}

void rk_plan_free(struct rk_plan *plan)
{
	if (!plan)
		return;
	rk_arena_free(plan->arena);
	free(plan->items);
	free(plan);
}

int rk_plan_add(struct rk_plan *plan, const char *kind, const char *target, const char *lane, const char *params_json, const int *deps, size_t n_deps)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	struct plan_step *s = rk_vec_push(plan);

	for (size_t i = 0; i < n_deps; i++)
		rk_str_addf(&text, "%s%d", i ? "," : "", deps[i]);
	s->kind = rk_step_kind_find(kind);
	if (!s->kind)
		abort();
	s->target = rk_arena_strdup(plan->arena, target);
	s->lane = rk_arena_strdup(plan->arena, lane);
	s->params = rk_arena_strdup(plan->arena, params_json);
	s->deps = rk_arena_strdup(plan->arena, rk_str_text(&text));
	return (int)plan->n;
}

size_t rk_plan_count(const struct rk_plan *plan)
{
	return plan->n;
}

void rk_plan_step(const struct rk_plan *plan, size_t i, int *ret_id, const char **ret_kind, const char **ret_target, const char **ret_summary)
{
	*ret_id = (int)i + 1;
	*ret_kind = plan->items[i].kind->name;
	*ret_target = plan->items[i].target;
	*ret_summary = plan->items[i].kind->summary;
}

/* The lane travels inside the params, so that the journal alone rebuilds the step. */
static char *params_with_lane(const struct plan_step *s)
{
	struct rk_str out = RK_STR_INIT;
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	struct rk_jw w;

	if (rk_json_parse("params", s->params, strlen(s->params), &json, NULL))
		abort();
	rk_jw_init(&w, &out, 0);
	rk_jw_object(&w);
	RK_JEACH(it, rk_json_root(json)) {
		rk_jw_key(&w, it->key);
		rk_jw_node(&w, it);
	}
	if (s->lane) {
		rk_jw_key(&w, "lane");
		rk_jw_str(&w, s->lane);
	}
	rk_jw_end(&w);
	return rk_str_steal(&out);
}

int rk_op_journal(struct rk_world *world, const struct rk_plan *plan, const char *params_json, int64_t *ret_op, struct rk_err *err)
{
	int rc = rk_store_op_add(world->store, plan->command, params_json, ret_op, err);

	for (size_t i = 0; !rc && i < plan->n; i++) {
		const struct plan_step *s = &plan->items[i];
		char *params RK_CLEANUP_FREE = params_with_lane(s);
		const struct rk_step_row row = {
			.op = *ret_op, .id = (int)i + 1, .kind = s->kind->name, .target = s->target, .params = params, .deps = s->deps, .state = "planned",
		};
		rc = rk_store_step_add(world->store, &row, err);
	}
	return rc;
}

/* ---- a run ------------------------------------------------------------------------------------------------------------------ */

enum state { PLANNED, APPLYING, DONE, UNDOING, UNDONE, FAILED, UNKNOWN };
static const char *const state_names[] = { "planned", "applying", "done", "undoing", "undone", "failed", "unknown" };

enum phase { PROBE, APPLY, UNDO };

struct node {
	struct rk_step step;
	struct rk_json *params;
	enum state state;
	int *users;         /* positions of the steps that depend on this one */
	size_t n_users, waiting; /* waiting: how many must still end before this may go */
	int lane;           /* index, or -1 */
	bool queued;
	/* of the job that runs, written by the worker, read by the engine after it came back */
	enum phase phase;
	int rc, present;
	struct rk_err err;
};

struct run {
	struct rk_world *world;
	int64_t op;
	const char *command;
	struct rk_json *params;
	const struct rk_op_type *type;
	struct rk_arena *arena;
	struct node *nodes;
	size_t n;
	bool *lane_busy;
	size_t n_lanes;
	/* ready steps, a stack of positions in reverse plan order */
	int *ready;
	size_t n_ready;
	/* worker queues */
	pthread_mutex_t lock;
	pthread_cond_t work, back;
	int *jobs, *results;
	size_t n_jobs, n_results, running;
	bool quit;
	pthread_t *threads;
	int n_threads;
	/* outcome */
	size_t ended;
	bool failed;        /* forward: a step failed; no new steps start */
	bool cancelled;
	struct rk_err err;  /* of the first failure */
};

static enum state state_of(const char *name)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(state_names); i++)
		if (strcmp(state_names[i], name) == 0)
			return (enum state)i;
	return UNKNOWN;
}

static void run_free(struct run *r)
{
	for (size_t i = 0; i < r->n; i++) {
		rk_json_free(r->nodes[i].params);
		rk_arena_free(r->nodes[i].step.arena);
		rk_err_clear(&r->nodes[i].err);
		free(r->nodes[i].users);
	}
	rk_err_clear(&r->err);
	rk_json_free(r->params);
	rk_arena_free(r->arena);
}

static int parse_deps(struct run *r, struct node *node, const char *text, struct rk_err *err)
{
	size_t cap = 1;

	for (const char *c = text; *c; c++)
		cap += *c == ',';
	int *deps = rk_arena_array(r->arena, cap, sizeof(*deps));
	for (char *at = (char *)text; *at;) {
		long id = strtol(at, &at, 10);
		if (id < 1 || id >= node->step.id || (*at && *at != ','))
			return rk_err_set(err, RK_BUG, "step %d of operation %" PRId64 " has broken dependencies \"%s\"", node->step.id, r->op, text);
		at += *at == ',';
		deps[node->step.n_deps++] = (int)id;
	}
	node->step.deps = deps;
	return 0;
}

static int load_step(struct run *r, const struct rk_step_row *row, struct node *node, struct rk_map *lanes, struct rk_err *err)
{
	node->step.id = row->id;
	node->step.kind = rk_step_kind_find(row->kind);
	node->step.arena = rk_arena_new();
	node->step.target = rk_arena_strdup(r->arena, row->target);
	node->step.before = rk_arena_strdup(r->arena, row->before);
	node->state = state_of(row->state);
	node->lane = -1;
	if (!node->step.kind)
		return rk_err_set(err, RK_INVALID, "operation %" PRId64 " has a step of kind \"%s\", which this racksh does not know", r->op, row->kind);
	int rc = rk_json_parse("step", row->params, strlen(row->params), &node->params, err);
	if (rc)
		return rc;
	node->step.params = rk_json_root(node->params);
	node->step.lane = rk_jstr(rk_jget(node->step.params, "lane"));
	if (node->step.lane) {
		size_t lane = rk_map_count(lanes);
		rk_map_add(lanes, node->step.lane, lane, &lane);
		node->lane = (int)lane;
	}
	return parse_deps(r, node, row->deps ? row->deps : "", err);
}

static void link_users(struct run *r)
{
	for (size_t i = 0; i < r->n; i++)
		for (size_t d = 0; d < r->nodes[i].step.n_deps; d++)
			r->nodes[r->nodes[i].step.deps[d] - 1].n_users++;
	for (size_t i = 0; i < r->n; i++) {
		r->nodes[i].users = rk_xcalloc(r->nodes[i].n_users, sizeof(int));
		r->nodes[i].n_users = 0;
	}
	for (size_t i = 0; i < r->n; i++)
		for (size_t d = 0; d < r->nodes[i].step.n_deps; d++) {
			struct node *dep = &r->nodes[r->nodes[i].step.deps[d] - 1];
			dep->users[dep->n_users++] = (int)i;
		}
}

static int run_load(struct run *r, struct rk_world *world, int64_t op, struct rk_err *err)
{
	struct rk_map *lanes RK_CLEANUP_MAP = rk_map_new();
	struct rk_op_row row;
	struct rk_step_row *rows;
	size_t n;

	*r = (struct run){ .world = world, .op = op, .arena = rk_arena_new() };
	int rc = rk_store_op_get(world->store, op, r->arena, &row, err);
	if (!rc)
		rc = rk_store_step_list(world->store, op, r->arena, &rows, &n, err);
	if (!rc)
		rc = rk_json_parse("operation", row.params, strlen(row.params), &r->params, err);
	if (rc)
		return rc;
	r->command = row.command;
	const char *type = rk_jstr(rk_jget(rk_json_root(r->params), "type"));
	r->type = type ? rk_op_type_find(type) : NULL;
	if (!r->type)
		return rk_err_set(err, RK_INVALID, "operation %" PRId64 " is of a type that this racksh does not know", op);
	r->nodes = rk_arena_array(r->arena, n, sizeof(*r->nodes));
	for (size_t i = 0; i < n && !rc; i++) {
		r->n = i + 1;
		rc = load_step(r, &rows[i], &r->nodes[i], lanes, err);
	}
	if (rc)
		return rc;
	link_users(r);
	r->n_lanes = rk_map_count(lanes);
	r->lane_busy = rk_arena_array(r->arena, r->n_lanes, sizeof(bool));
	r->ready = rk_arena_array(r->arena, n, sizeof(int));
	r->jobs = rk_arena_array(r->arena, n, sizeof(int));
	r->results = rk_arena_array(r->arena, n, sizeof(int));
	return 0;
}

/* ---- workers ---------------------------------------------------------------------------------------------------------------- */

static void work_on(struct run *r, struct node *node)
{
	const struct rk_step_kind *kind = node->step.kind;
	const char *before = node->step.before;

	rk_err_clear(&node->err);
	node->rc = 0;
	node->present = 0;
	if (node->phase == PROBE && kind->probe)
		node->rc = kind->probe(r->world, &node->step, &node->present, &node->err);
	else if (node->phase == APPLY)
		node->rc = kind->apply(r->world, &node->step, &node->err);
	else if (node->phase == UNDO && kind->undo)
		node->rc = kind->undo(r->world, &node->step, &node->err);
	/* What the first attempt saw is what undo must restore; a resumed step sees its own half-done work. */
	if (before)
		node->step.before = before;
}

static void *worker(void *arg)
{
	struct run *r = arg;

	pthread_mutex_lock(&r->lock);
	for (;;) {
		while (!r->n_jobs && !r->quit)
			pthread_cond_wait(&r->work, &r->lock);
		if (!r->n_jobs)
			break;
		int at = r->jobs[--r->n_jobs];
		pthread_mutex_unlock(&r->lock);
		work_on(r, &r->nodes[at]);
		pthread_mutex_lock(&r->lock);
		r->results[r->n_results++] = at;
		pthread_cond_signal(&r->back);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

static void start_workers(struct run *r)
{
	int want = r->world->jobs < 1 ? 1 : r->world->jobs;

	if ((size_t)want > r->n)
		want = (int)r->n;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->work, NULL);
	pthread_cond_init(&r->back, NULL);
	r->threads = rk_arena_array(r->arena, (size_t)want, sizeof(*r->threads));
	for (int i = 0; i < want; i++)
		if (pthread_create(&r->threads[r->n_threads], NULL, worker, r) == 0)
			r->n_threads++;
	if (want && !r->n_threads)
		abort();
}

static void stop_workers(struct run *r)
{
	pthread_mutex_lock(&r->lock);
	r->quit = true;
	pthread_cond_broadcast(&r->work);
	pthread_mutex_unlock(&r->lock);
	for (int i = 0; i < r->n_threads; i++)
		pthread_join(r->threads[i], NULL);
	pthread_mutex_destroy(&r->lock);
	pthread_cond_destroy(&r->work);
	pthread_cond_destroy(&r->back);
	r->n_threads = 0;
	r->quit = false;
}

static void send(struct run *r, int at, enum phase phase)
{
	r->nodes[at].phase = phase;
	pthread_mutex_lock(&r->lock);
	r->jobs[r->n_jobs++] = at;
	pthread_cond_signal(&r->work);
	pthread_mutex_unlock(&r->lock);
	r->running++;
}

/* Waits for at least one result; takes all there are. */
static size_t receive(struct run *r, int *ret)
{
	pthread_mutex_lock(&r->lock);
	while (!r->n_results)
		pthread_cond_wait(&r->back, &r->lock);
	size_t n = r->n_results;
	memcpy(ret, r->results, n * sizeof(*ret));
	r->n_results = 0;
	pthread_mutex_unlock(&r->lock);
	r->running -= n;
	return n;
}

/* ---- the engine ------------------------------------------------------------------------------------------------------------- */

static void say(struct run *r, const struct node *node, const char *what)
{
	if (!r->world->progress)
		return;
	char *text RK_CLEANUP_FREE = rk_xasprintf("[%zu/%zu] %s %s: %s", r->ended, r->n, node->step.kind->name, node->step.target, what);
	r->world->progress(r->world->progress_ctx, text);
}

static int journal(struct run *r, struct node *node, enum state state, const char *detail, struct rk_err *err)
{
	int rc = rk_store_step_set(r->world->store, r->op, node->step.id, state_names[state], node->step.before, detail, err);

	if (!rc)
		node->state = state;
	return rc;
}

static void first_failure(struct run *r, struct node *node)
{
	if (!r->failed) {
		rk_err_move(&r->err, &node->err);
		rk_err_while(&r->err, "%s %s", node->step.kind->name, node->step.target);
	}
	r->failed = true;
}

static void make_ready(struct run *r, size_t at)
{
	r->ready[r->n_ready++] = (int)at;
	r->nodes[at].queued = true;
}

/* Sends what may go: no lane twice, no new steps after a failure or Ctrl-C. */
static int dispatch(struct run *r, enum phase first, struct rk_err *err)
{
	size_t kept = 0;
	int rc = 0;

	for (size_t i = r->n_ready; i-- > 0 && !rc;) {
		int at = r->ready[i];
		struct node *node = &r->nodes[at];
		if (node->lane >= 0 && r->lane_busy[node->lane])
			continue;
		r->ready[i] = -1;
		if (node->lane >= 0)
			r->lane_busy[node->lane] = true;
		if (node->step.kind->prepare)
			rc = node->step.kind->prepare(r->world, &node->step, err);
		if (!rc)
			send(r, at, first);
	}
	for (size_t i = 0; i < r->n_ready; i++)
		if (r->ready[i] >= 0)
			r->ready[kept++] = r->ready[i];
	r->n_ready = kept;
	return rc;
}

static void free_lane(struct run *r, const struct node *node)
{
	if (node->lane >= 0)
		r->lane_busy[node->lane] = false;
}

static int settle(struct run *r, struct node *node, bool undone, struct rk_err *err)
{
	return node->step.kind->settle ? node->step.kind->settle(r->world, &node->step, undone, err) : 0;
}

/* A step that came to its end keeps nothing but what its undo needs: thousands of them end before the operation does. */
static void forget(struct run *r, struct node *node)
{
	node->step.before = rk_arena_strdup(r->arena, node->step.before);
	node->step.note = NULL;
	node->step.data = NULL;
	rk_arena_free(node->step.arena);
	node->step.arena = rk_arena_new();
}

/* One result of a forward job: journal first, then the next phase. */
static int forward_result(struct run *r, int at, struct rk_err *err)
{
	struct node *node = &r->nodes[at];
	int rc = 0;

	if (node->rc == 0 && node->phase == PROBE && !node->present) {
		/* Ahead of the effect: from here on undo must look at this step. */
		rc = journal(r, node, APPLYING, NULL, err);
		if (!rc)
			send(r, at, APPLY);
		return rc;
	}
	free_lane(r, node);
	r->ended++;
	if (node->rc) {
		enum state state = node->phase == PROBE && node->state == PLANNED ? PLANNED : node->rc == RK_UNREACHABLE ? UNKNOWN : FAILED;
		rc = journal(r, node, state, node->err.message, err);
		say(r, node, node->err.message ? node->err.message : "failed");
		first_failure(r, node);
		return rc;
	}
	rc = journal(r, node, DONE, node->phase == PROBE ? "was there already" : node->step.note, err);
	if (!rc)
		rc = settle(r, node, false, err);
	say(r, node, "done");
	forget(r, node);
	for (size_t u = 0; !rc && u < node->n_users; u++)
		if (--r->nodes[node->users[u]].waiting == 0)
			make_ready(r, (size_t)node->users[u]);
	return rc;
}

static int undo_result(struct run *r, int at, struct rk_err *err)
{
	struct node *node = &r->nodes[at];

	free_lane(r, node);
	r->ended++;
	if (node->rc) {
		int rc = journal(r, node, node->rc == RK_UNREACHABLE ? UNKNOWN : FAILED, node->err.message, err);
		say(r, node, node->err.message ? node->err.message : "undo failed");
		first_failure(r, node);
		return rc;
	}
	int rc = journal(r, node, UNDONE, node->step.note, err);
	if (!rc)
		rc = settle(r, node, true, err);
	say(r, node, "undone");
	for (size_t d = 0; !rc && d < node->step.n_deps; d++) {
		struct node *dep = &r->nodes[node->step.deps[d] - 1];
		if (--dep->waiting == 0 && dep->queued)
			r->ready[r->n_ready++] = node->step.deps[d] - 1;
	}
	return rc;
}

/* Group commit: all results that are there go into one durable transaction. */
static int take_results(struct run *r, int (*handle)(struct run *r, int at, struct rk_err *err), struct rk_err *err)
{
	int *batch RK_CLEANUP_FREE = rk_xcalloc(r->n, sizeof(*batch));
	size_t n = receive(r, batch);
	int rc = rk_store_begin(r->world->store, -1, err);

	for (size_t i = 0; i < n && !rc; i++)
		rc = handle(r, batch[i], err);
	if (rc)
		rk_store_rollback(r->world->store);
	else
		rc = rk_store_commit(r->world->store, err);
	return rc;
}

static bool cancel_wanted(const struct run *r)
{
	return r->world->cancel && *r->world->cancel;
}

static void drain(struct run *r)
{
	int *batch RK_CLEANUP_FREE = rk_xcalloc(r->n, sizeof(*batch));

	while (r->running)
		receive(r, batch);
}

static int run_forward(struct run *r, struct rk_err *err)
{
	int rc = 0;

	r->ended = 0;
	for (size_t i = 0; i < r->n; i++) {
		struct node *node = &r->nodes[i];
		node->waiting = 0;
		r->ended += node->state == DONE;
		for (size_t d = 0; d < node->step.n_deps; d++)
			node->waiting += r->nodes[node->step.deps[d] - 1].state != DONE;
	}
	for (size_t i = r->n; i-- > 0;)
		if (r->nodes[i].state != DONE && !r->nodes[i].waiting)
			make_ready(r, i);
	start_workers(r);
	for (;;) {
		r->cancelled |= cancel_wanted(r);
		if (!rc && !r->failed && !r->cancelled)
			rc = dispatch(r, PROBE, err);
		if (rc || !r->running)
			break;
		rc = take_results(r, forward_result, err);
		if (rc)
			break;
	}
	drain(r);
	stop_workers(r);
	return rc;
}

static bool needs_undo(const struct node *node)
{
	return node->state != PLANNED && node->state != UNDONE;
}

/* A step is undone after everything that stands on it. */
static int run_undo(struct run *r, struct rk_err *err)
{
	int rc = 0;

	r->ended = 0;
	r->n_ready = 0;
	r->failed = false;
	memset(r->lane_busy, 0, r->n_lanes * sizeof(bool));
	for (size_t i = 0; i < r->n; i++) {
		struct node *node = &r->nodes[i];
		node->queued = needs_undo(node);
		r->ended += !node->queued;
		node->waiting = 0;
		for (size_t u = 0; u < node->n_users; u++)
			node->waiting += needs_undo(&r->nodes[node->users[u]]);
	}
	for (size_t i = 0; i < r->n; i++)
		if (r->nodes[i].queued && !r->nodes[i].waiting)
			r->ready[r->n_ready++] = (int)i;
	if (!r->n_ready)
		return 0;
	start_workers(r);
	for (;;) {
		if (!rc)
			rc = dispatch(r, UNDO, err);
		if (rc || !r->running)
			break;
		rc = take_results(r, undo_result, err);
		if (rc)
			break;
	}
	drain(r);
	stop_workers(r);
	return rc;
}

/* The closing transaction: what the operation means for the store, its last state, its leases. */
static int close_op(struct run *r, const char *state, bool committed, const char *detail, struct rk_err *err)
{
	struct rk_store *store = r->world->store;
	int rc = rk_store_begin(store, -1, err);

	if (rc)
		return rc;
	rc = r->type->finish(r->world, r->op, rk_json_root(r->params), committed, err);
	if (!rc)
		rc = rk_store_op_set(store, r->op, state, detail, err);
	if (!rc)
		rc = rk_store_lease_drop(store, r->op, err);
	if (rc) {
		rk_store_rollback(store);
		return rc;
	}
	rc = rk_store_commit(store, err);
	return rc ? rc : rk_world_refresh(r->world, err);
}

/* What is left where, and how to finish. */
static int leave_resumable(struct run *r, struct rk_err *err)
{
	RK_CLEANUP_ERR struct rk_err ignored = RK_ERR_INIT;
	RK_CLEANUP_ERR struct rk_err why = RK_ERR_INIT;

	rk_err_move(&why, &r->err);
	rk_store_op_set(r->world->store, r->op, "resumable", why.message, &ignored);
	rk_err_set(err, RK_PARTIAL, "operation %" PRId64 " (%s) is left unfinished: %s", r->op, r->command, why.message ? why.message : "interrupted");
	for (size_t i = 0; i < r->n; i++)
		if (r->nodes[i].state == FAILED || r->nodes[i].state == UNKNOWN || r->nodes[i].state == APPLYING || r->nodes[i].state == UNDOING)
			rk_err_detail(err, "step %d %s %s: %s", r->nodes[i].step.id, r->nodes[i].step.kind->name, r->nodes[i].step.target,
				      state_names[r->nodes[i].state]);
	rk_err_hint(err, r->type->forward_only ? "racksh op resume %" PRId64 : "racksh op resume %" PRId64 " or racksh op rollback %" PRId64, r->op, r->op);
	return RK_PARTIAL;
}

static int undo_all(struct run *r, int want_rc, struct rk_err *err)
{
	RK_CLEANUP_ERR struct rk_err why = RK_ERR_INIT;

	rk_err_move(&why, &r->err);
	if (r->world->cancel)
		*r->world->cancel = 0;
	int rc = run_undo(r, err);
	if (rc)
		return rc;
	if (r->failed || r->ended < r->n)
		return leave_resumable(r, err);
	rc = close_op(r, want_rc == RK_CANCELLED ? "cancelled" : "rolled-back", false, why.message, err);
	if (rc || !want_rc)
		return rc;
	rk_err_move(err, &why);
	if (want_rc == RK_CANCELLED)
		return rk_err_set(err, RK_CANCELLED, "operation %" PRId64 " was cancelled and rolled back", r->op);
	if (!err->message)
		rk_err_set(err, want_rc, "operation %" PRId64 " failed", r->op);
	/* Rolled back completely: whatever the step's class was, the world is as before. */
	err->rc = want_rc;
	rk_err_while(err, "operation %" PRId64 " was rolled back", r->op);
	return want_rc;
}

static int finish_forward(struct run *r, struct rk_err *err)
{
	int rc = run_forward(r, err);

	if (rc)
		return rc;
	if (!r->failed && r->ended == r->n)
		return close_op(r, "done", true, NULL, err);
	if (r->type->forward_only)
		return leave_resumable(r, err);
	return undo_all(r, r->cancelled ? RK_CANCELLED : RK_FAILED, err);
}

int rk_op_run(struct rk_world *world, int64_t op, struct rk_err *err)
{
	struct run r;
	int rc = run_load(&r, world, op, err);

	if (!rc)
		rc = finish_forward(&r, err);
	run_free(&r);
	return rc;
}

/* 1 when the operation is over already, 0 when it may be taken up, else an error. */
static int may_take_up(struct rk_world *world, int64_t op, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_op_row row;
	const char *former;
	bool alive = false;
	int rc = rk_store_op_get(world->store, op, arena, &row, err);

	if (rc)
		return rc;
	if (strcmp(row.state, "running") != 0 && strcmp(row.state, "resumable") != 0)
		return 1;
	if (strcmp(row.state, "running") == 0)
		rc = rk_store_op_alive(world->store, op, &alive, err);
	if (rc)
		return rc;
	if (alive) {
		rk_err_set(err, RK_CONFLICT, "operation %" PRId64 " is being run by %s", op, row.by);
		rk_err_hint(err, "wait for it, or stop that process and try again");
		return RK_CONFLICT;
	}
	rc = rk_store_lease_takeover(world->store, op, arena, &former, err);
	return rc ? rc : rk_store_op_set(world->store, op, "running", NULL, err);
}

/* Loads an operation that was left, for this process to finish: 1 when it is over already. *r may be freed in every case. */
static int take_up(struct run *r, struct rk_world *world, int64_t op, struct rk_err *err)
{
	*r = (struct run){ .world = world, .op = op };
	int rc = may_take_up(world, op, err);
	if (!rc)
		rc = rk_world_drivers(world, err);
	return rc ? rc : run_load(r, world, op, err);
}

int rk_op_resume(struct rk_world *world, int64_t op, struct rk_err *err)
{
	struct run r;
	int rc = take_up(&r, world, op, err);

	if (rc == 1)
		return 0;
	bool undoing = false;
	for (size_t i = 0; !rc && i < r.n; i++)
		undoing |= r.nodes[i].state == UNDOING || r.nodes[i].state == UNDONE;
	if (!rc)
		rc = undoing ? undo_all(&r, 0, err) : finish_forward(&r, err);
	run_free(&r);
	return rc;
}

int rk_op_rollback(struct rk_world *world, int64_t op, struct rk_err *err)
{
	struct run r;
	int rc = take_up(&r, world, op, err);

	if (rc == 1)
		return 0;
	if (!rc && r.type->forward_only) {
		rk_store_op_set(world->store, op, "resumable", NULL, NULL);
		rc = rk_err_set(err, RK_INVALID, "operation %" PRId64 " (%s) cannot be taken back", op, r.command);
		rk_err_hint(err, "racksh op resume %" PRId64, op);
	} else if (!rc) {
		rc = undo_all(&r, 0, err);
	}
	run_free(&r);
	return rc;
}
