#include <string.h>

#include "inventory/base/map.h"
#include "provision/discover.h"

/* "r01-t03 gpu 2" is folded as tray r01-t03, and counted. */
static const char *thing_of(const struct rk_proposal *p, struct rk_arena *arena)
{
	return rk_arena_strndup(arena, p->object, strcspn(p->object, " "));
}

static bool is_set(const struct rk_proposal *p)
{
	return strcmp(p->action, "set") == 0;
}

/* Why differs from host to host by the name of the host at least. */
static bool is_silent(const struct rk_proposal *p)
{
	return strcmp(p->action, "unknown") == 0;
}

static const char *or_dash(const char *s)
{
	return s ? s : "-";
}

/* What must be the same for two proposals to share a row. */
static char *key_of(const struct rk_proposal *p, size_t i)
{
	if (is_set(p) || is_silent(p))
		return rk_xasprintf("%s\x1f%s", p->action, p->field);
	if (p->edit != RK_EDIT_NONE || strchr(p->object, ' '))
		return rk_xasprintf("%zu", i);
	return rk_xasprintf("%s\x1f%s\x1f%s\x1f%s\x1f%s", p->action, p->field, or_dash(p->recorded), or_dash(p->seen), p->message);
}

struct group {
	size_t first, n;
	const char **names;
};

static void add_name(struct group *g, const char *name, size_t most, struct rk_arena *arena)
{
	if (!g->names)
		g->names = rk_arena_array(arena, most, sizeof(*g->names));
	g->names[g->n++] = name;
}

void rk_discover_fold(const struct rk_discovery *d, struct rk_arena *arena, struct rk_proposal **ret, size_t *ret_n)
{
	struct rk_map *index RK_CLEANUP_MAP = rk_map_new();
	struct group *groups RK_CLEANUP_FREE = rk_xcalloc(d->n + 1, sizeof(*groups));
	size_t *group_of RK_CLEANUP_FREE = rk_xcalloc(d->n + 1, sizeof(*group_of)), *sizes RK_CLEANUP_FREE = rk_xcalloc(d->n + 1, sizeof(*sizes)), n = 0;

	for (size_t i = 0; i < d->n; i++) {
		char *key RK_CLEANUP_FREE = key_of(&d->items[i], i);
		group_of[i] = n;
		if (rk_map_add(index, key, n, &group_of[i]))
			groups[n++].first = i;
		sizes[group_of[i]]++;
	}
	for (size_t i = 0; i < d->n; i++)
		if (sizes[group_of[i]] > 1)
			add_name(&groups[group_of[i]], thing_of(&d->items[i], arena), sizes[group_of[i]], arena);
	struct rk_proposal *out = rk_arena_array(arena, n, sizeof(*out));
	for (size_t g = 0; g < n; g++) {
		out[g] = d->items[groups[g].first];
		if (sizes[g] < 2)
			continue;
		out[g].object = rk_nodeset_fold(arena, groups[g].names, groups[g].n);
		if (is_silent(&out[g]))
			out[g].message = rk_arena_printf(arena, "%zu do not answer, the first says: %s", groups[g].n, out[g].message);
		if (is_set(&out[g]))
			out[g].seen = rk_arena_printf(arena, "%zu values", groups[g].n);
	}
	*ret = out;
	*ret_n = n;
}
