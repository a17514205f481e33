#include "provision/health/memory.h"

#include <string.h>

#include "inventory/base/clock.h"
#include "inventory/base/map.h"
#include "inventory/base/nodeset.h"

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct rk_memory_value *)a)->name, ((const struct rk_memory_value *)b)->name);
}

static struct rk_memory_value *read_values(const struct rk_jnode *node, struct rk_arena *arena, size_t *ret_n)
{
	struct rk_memory_value *values = node && node->type == RK_JOBJECT ? rk_arena_array(arena, node->n + 1, sizeof(*values)) : NULL;
	size_t n = 0;

	RK_JEACH(item, values ? node : NULL) {
		if (rk_jdouble(item, &values[n].number))
			values[n++].name = rk_arena_strdup(arena, item->key);
	}
	if (n)
		qsort(values, n, sizeof(*values), by_name);
	*ret_n = n;
	return values;
}

void rk_memory_read(const struct rk_past *past, struct rk_arena *arena, struct rk_memory *ret)
{
	struct rk_json *json RK_CLEANUP_JSON = NULL;

	*ret = (struct rk_memory){ .at_ms = past->at_ms };
	if (rk_json_parse("memory", past->body, strlen(past->body), &json, NULL))
		return;
	ret->counters = read_values(rk_jget(rk_json_root(json), "counters"), arena, &ret->n_counters);
	ret->strikes = read_values(rk_jget(rk_json_root(json), "strikes"), arena, &ret->n_strikes);
}

static const struct rk_memory_value *find(const struct rk_memory_value *values, size_t n, const char *name)
{
	const struct rk_memory_value key = { name, 0 };

	return n ? bsearch(&key, values, n, sizeof(*values), by_name) : NULL;
}

bool rk_memory_counter(const struct rk_memory *m, const char *metric, const char *label, double *ret)
{
	char *name RK_CLEANUP_FREE = rk_xasprintf("%s{%s}", metric, label);
	const struct rk_memory_value *v = find(m->counters, m->n_counters, name);

	if (v)
		*ret = v->number;
	return v != NULL;
}

double rk_memory_strikes(const struct rk_memory *m, const char *rule)
{
	const struct rk_memory_value *v = find(m->strikes, m->n_strikes, rule);

	return v ? v->number : 0;
}

const char *rk_memory_key(const struct rk_target *t)
{
	return t->tray ? t->tray : t->name;
}

/* ---- silences ----------------------------------------------------------------------------------------------------------------------- */

const char *rk_silence_state(const struct rk_silence *s, int64_t now)
{
	return now < s->from_unix_ms ? "future" : now < s->to_unix_ms ? "active" : "ended";
}

bool rk_silence_covers(const struct rk_silence *s, const char *check)
{
	size_t n = s->checks ? strlen(s->checks) : 0;

	if (n && s->checks[n - 1] == '*')
		return strncmp(s->checks, check, n - 1) == 0;
	return !n || strcmp(s->checks, check) == 0;
}

/* The one that ends last, so that what is shown is when it will count again. */
const struct rk_silence *rk_silence_of(const struct rk_target *t, const char *check)
{
	const struct rk_silence *found = NULL;

	for (size_t i = 0; i < t->n_silences; i++) {
		const struct rk_silence *s = t->silences[i];
		if (rk_silence_covers(s, check) && (!found || s->to_unix_ms > found->to_unix_ms))
			found = s;
	}
	return found;
}

/* Room for all of them is made at the first hit. */
static void silence(struct rk_target *t, const struct rk_silence *s, size_t max, struct rk_arena *arena)
{
	if (!t->n_silences)
		t->silences = rk_arena_array(arena, max, sizeof(*t->silences));
	t->silences[t->n_silences++] = s;
}

static void recall_silences(const struct rk_site *site, struct rk_target *targets, size_t n, struct rk_arena *arena)
{
	int64_t now = rk_clock_unix_ms(NULL);

	for (size_t i = 0; i < site->n_silences; i++) {
		struct rk_map *trays RK_CLEANUP_MAP = rk_map_new();
		const struct rk_silence *s = &site->silences[i];
		struct rk_nodeset set;
		if (strcmp(rk_silence_state(s, now), "active") != 0 || rk_nodeset_parse(s->trays, NULL, NULL, arena, &set, NULL))
			continue;
		for (size_t k = 0; k < set.n; k++)
			rk_map_set(trays, set.names[k], 1);
		for (size_t k = 0; k < n; k++) {
			if (rk_map_get(trays, rk_memory_key(&targets[k]), NULL))
				silence(&targets[k], s, site->n_silences, arena);
		}
	}
}

/* ---- the store ---------------------------------------------------------------------------------------------------------------------- */

int rk_health_recall(struct rk_world *world, struct rk_target *targets, size_t n, struct rk_arena *arena, struct rk_err *err)
{
	struct rk_map *first RK_CLEANUP_MAP = rk_map_new();
	struct rk_health_sample *samples = NULL;
	size_t n_samples = 0, at;

	recall_silences(world->site, targets, n, arena);
	int rc = world->store ? rk_store_health_samples(world->store, n == 1 ? rk_memory_key(&targets[0]) : NULL, arena, &samples, &n_samples, err) : 0;
	if (rc)
		return rc;
	struct rk_past *past = rk_arena_array(arena, n_samples + 1, sizeof(*past));
	for (size_t i = 0; i < n_samples; i++) {
		past[i] = (struct rk_past){ samples[i].at_ms, samples[i].body };
		rk_map_add(first, samples[i].target, i, NULL);
	}
	for (size_t i = 0; i < n; i++) {
		const char *key = rk_memory_key(&targets[i]);
		if (!rk_map_get(first, key, &at))
			continue;
		targets[i].past = &past[at];
		while (at + targets[i].n_past < n_samples && strcmp(samples[at + targets[i].n_past].target, key) == 0)
			targets[i].n_past++;
	}
	return 0;
}

int rk_health_remember(struct rk_store *store, const struct rk_report *report, struct rk_err *err)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_health_sample *samples = rk_arena_array(arena, report->targets + 1, sizeof(*samples));
	size_t n = 0;

	for (size_t i = 0; report->memories && i < report->targets; i++) {
		const struct rk_target *t = &report->target_list[i];
		if (report->memories[i] && t->at_ms)
			samples[n++] = (struct rk_health_sample){ rk_memory_key(t), t->at_ms, report->memories[i] };
	}
	return n ? rk_store_add_health_samples(store, samples, n, err) : 0;
}
