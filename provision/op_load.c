#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/map.h"
#include "provision/op_impl.h"

/* A run from the journal alone. */

static const char *const state_names[] = { "planned", "applying", "done", "undoing", "undone", "failed", "unknown", "given-up", "left" };

const char *rk_node_state_name(enum rk_node_state state)
{
	return state_names[state];
}

static enum rk_node_state state_of(const char *name)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(state_names); i++)
		if (strcmp(state_names[i], name) == 0)
			return (enum rk_node_state)i;
	return RK_NODE_UNKNOWN;
}

void rk_run_free(struct rk_run *r)
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

static int parse_deps(struct rk_run *r, struct rk_node *node, const char *text, struct rk_err *err)
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

static int load_step(struct rk_run *r, const struct rk_step_row *row, struct rk_node *node, struct rk_map *lanes, struct rk_err *err)
{
	node->step.id = row->id;
	node->step.kind = rk_step_kind_find(row->kind);
	node->step.arena = rk_arena_new();
	node->step.target = row->target;
	node->step.before = row->before;
	node->state = state_of(row->state);
	if (node->state == RK_NODE_GIVEN_UP || node->state == RK_NODE_LEFT)
		node->step.note = row->detail;
	node->lane = -1;
	if (!node->step.kind)
		return rk_err_set(err, RK_INVALID, "operation %" PRId64 " has a step of kind \"%s\", which this racksh does not know", r->op, row->kind);
	int rc = rk_json_parse("step", row->params, strlen(row->params), &node->params, err);
	if (rc)
		return rc;
	node->step.params = rk_json_root(node->params);
	node->final = node->step.kind->final;
	if (!node->final)
		rk_jbool(rk_jget(node->step.params, "final"), &node->final);
	node->step.lane = rk_jstr(rk_jget(node->step.params, "lane"));
	if (node->step.lane) {
		size_t lane = rk_map_count(lanes);
		rk_map_add(lanes, node->step.lane, lane, &lane);
		node->lane = (int)lane;
	}
	return parse_deps(r, node, row->deps ? row->deps : "", err);
}

static void link_users(struct rk_run *r)
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
			struct rk_node *dep = &r->nodes[r->nodes[i].step.deps[d] - 1];
			dep->users[dep->n_users++] = (int)i;
		}
}

static int load_op(struct rk_run *r, struct rk_err *err)
{
	struct rk_op_row row;
	int rc = rk_store_op_get(r->world->store, r->op, r->arena, &row, err);

	if (rc)
		return rc;
	r->command = row.command;
	r->runner = row.runner;
	rc = rk_json_parse("operation", row.params, strlen(row.params), &r->params, err);
	if (rc)
		return rc;
	const char *type = rk_jstr(rk_jget(rk_json_root(r->params), "type"));
	r->type = type ? rk_op_type_find(type) : NULL;
	return r->type ? 0 : rk_err_set(err, RK_INVALID, "operation %" PRId64 " is of a type that this racksh does not know", r->op);
}

int rk_run_load(struct rk_run *r, struct rk_world *world, int64_t op, struct rk_err *err)
{
	struct rk_map *lanes RK_CLEANUP_MAP = rk_map_new();
	struct rk_step_row *rows;
	size_t n;

	*r = (struct rk_run){ .world = world, .op = op, .arena = rk_arena_new() };
	int rc = load_op(r, err);
	if (!rc)
		rc = rk_store_step_list(world->store, op, r->arena, &rows, &n, err);
	if (rc)
		return rc;
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
	r->outbox = rk_arena_array(r->arena, n, sizeof(int));
	r->jobs = rk_arena_array(r->arena, n, sizeof(int));
	r->results = rk_arena_array(r->arena, n, sizeof(int));
	return 0;
}
