#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/map.h"
#include "provision/op.h"

struct plan_step {
	const struct rk_step_kind *kind;
	const char *target, *lane, *params, *deps;
	bool final;               /* of a change that cannot be undone, whatever its kind can */
};

struct rk_plan {
	struct rk_arena *arena;
	const char *command;
	struct plan_step *items;
	size_t n, cap;
	struct {                  /* the dependencies that were written last: all of them, and without the last */
		int *ids; size_t n;
		const char *text, *head;
	} last;
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

static const char *ids_text(struct rk_plan *plan, const int *ids, size_t n)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	for (size_t i = 0; i < n; i++)
		rk_str_addf(&text, "%s%d", i ? "," : "", ids[i]);
	return rk_arena_strdup(plan->arena, rk_str_text(&text));
}

/* "1,4,9". In a large plan hundreds of steps wait for the same others, or for the same and one of their own: what is the same is written once. */
static const char *deps_text(struct rk_plan *plan, const int *deps, size_t n)
{
	if (n < 2)
		return ids_text(plan, deps, n);
	if (plan->last.n != n || memcmp(plan->last.ids, deps, (n - 1) * sizeof(*deps)) != 0) {
		plan->last.ids = rk_arena_array(plan->arena, n, sizeof(*deps));
		plan->last.n = n;
		plan->last.head = ids_text(plan, deps, n - 1);
		memcpy(plan->last.ids, deps, (n - 1) * sizeof(*deps));
	}
	if (plan->last.ids[n - 1] != deps[n - 1]) {
		char tail[16];
		size_t head = strlen(plan->last.head), end = (size_t)snprintf(tail, sizeof(tail), ",%d", deps[n - 1]);
		char *text = rk_arena_array(plan->arena, head + end + 1, 1); /* long, and there are many: not printed */
		memcpy(text, plan->last.head, head);
		memcpy(text + head, tail, end);
		plan->last.ids[n - 1] = deps[n - 1];
		plan->last.text = text;
	}
	return plan->last.text;
}

int rk_plan_add(struct rk_plan *plan, const char *kind, const char *target, const char *lane, const char *params_json, const int *deps, size_t n_deps)
{
	struct plan_step *s = rk_vec_push(plan);

	s->kind = rk_step_kind_find(kind);
	if (!s->kind)
		abort();
	s->target = rk_arena_strdup(plan->arena, target);
	s->lane = rk_arena_strdup(plan->arena, lane);
	s->params = rk_arena_strdup(plan->arena, params_json);
	s->deps = deps_text(plan, deps, n_deps);
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

void rk_plan_add_confirm(struct rk_plan *plan, int within_ms)
{
	int *all RK_CLEANUP_FREE = rk_xcalloc(plan->n, sizeof(*all));
	char *params RK_CLEANUP_FREE = rk_xasprintf("{\"within_ms\":%d}", within_ms);
	size_t n = 0;

	for (size_t i = 0; i < plan->n; i++)
		if (!plan->items[i].kind->final && !plan->items[i].final)
			all[n++] = (int)i + 1;
	rk_plan_add(plan, "op.confirm", plan->command, NULL, params, all, n);
}

/* Of steps that do something: the head of a part has the command as its target. */
static const char *target_of(const struct plan_step *s)
{
	return s->kind->awaits || strcmp(s->kind->name, "op.part") == 0 ? NULL : s->target;
}

const char *rk_plan_shared(const struct rk_plan *plan, const struct rk_plan *part)
{
	struct rk_map *targets RK_CLEANUP_MAP = rk_map_new();

	for (size_t i = 0; i < plan->n; i++)
		if (target_of(&plan->items[i]))
			rk_map_set(targets, target_of(&plan->items[i]), i);
	for (size_t i = 0; i < part->n; i++) {
		size_t at;
		if (target_of(&part->items[i]) && rk_map_get(targets, target_of(&part->items[i]), &at) &&
		    !(part->items[i].kind->several && plan->items[at].kind->several))
			return part->items[i].target;
	}
	return NULL;
}

/* "1,4" of a part, as ids of the whole. Roots stand on the part's own step. */
static const char *moved_deps(const struct rk_plan *plan, const char *deps, int by)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;

	if (!*deps)
		rk_str_addf(&out, "%d", by);
	for (char *at = (char *)deps; *at; at += *at == ',')
		rk_str_addf(&out, "%s%ld", out.len ? "," : "", strtol(at, &at, 10) + by);
	return rk_arena_strdup(plan->arena, rk_str_text(&out));
}

static int within_of(const char *params)
{
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	uint64_t ms = 0;

	if (rk_json_parse("params", params, strlen(params), &json, NULL) == 0)
		rk_ju64(rk_jget(rk_json_root(json), "within_ms"), &ms);
	return (int)ms;
}

int rk_plan_append(struct rk_plan *plan, const struct rk_plan *part, const char *command, const char *params_json, bool final)
{
	int head = rk_plan_add(plan, "op.part", command, NULL, params_json, NULL, 0), confirm_ms = 0;

	for (size_t i = 0; i < part->n; i++) {
		const struct plan_step *s = &part->items[i];
		if (s->kind->awaits) {
			confirm_ms = within_of(s->params);
			continue;
		}
		int at = rk_plan_add(plan, s->kind->name, s->target, s->lane, s->params, NULL, 0);
		plan->items[at - 1].deps = moved_deps(plan, s->deps, head);
		plan->items[at - 1].final = final;
	}
	return confirm_ms;
}

/* Lane and finality travel inside the params, so that the journal alone rebuilds the step. */
static char *params_for_journal(const struct plan_step *s)
{
	struct rk_str out = RK_STR_INIT;
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	struct rk_jw w;

	if (!s->lane && !s->final)
		return rk_xstrdup(s->params);
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
	if (s->final) {
		rk_jw_key(&w, "final");
		rk_jw_bool(&w, true);
	}
	rk_jw_end(&w);
	return rk_str_steal(&out);
}

int rk_plan_journal(struct rk_world *world, const struct rk_plan *plan, int64_t op, struct rk_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < plan->n; i++) {
		const struct plan_step *s = &plan->items[i];
		char *params RK_CLEANUP_FREE = params_for_journal(s);
		const struct rk_step_row row = {
			.op = op, .id = (int)i + 1, .kind = s->kind->name, .target = s->target, .params = params, .deps = s->deps, .state = "planned",
		};
		rc = rk_store_step_add(world->store, &row, err);
	}
	return rc;
}

int rk_op_journal(struct rk_world *world, const struct rk_plan *plan, const char *params_json, int64_t *ret_op, struct rk_err *err)
{
	int rc = rk_store_op_add(world->store, plan->command, params_json, ret_op, err);

	return rc ? rc : rk_plan_journal(world, plan, *ret_op, err);
}
