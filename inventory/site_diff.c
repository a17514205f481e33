#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/json.h"
#include "inventory/base/map.h"
#include "inventory/site_file.h"

/* Two sites are compared through their exports, flattened to (object, field, value): whatever export writes is compared, by construction. */

struct fact {
	const char *object, *field, *value;
};

struct facts {
	struct rk_arena *arena;
	struct fact *items;
	size_t n, cap;
};

/* How an array element is called: its name, index or rail; else its position. */
static const char *element_name(struct rk_arena *arena, const char *list, const struct rk_jnode *it, size_t position)
{
	static const char *const keys[] = { "name", "index", "rail" };
	const struct rk_jnode *kind = rk_jget(it, "kind"), *index = rk_jget(it, "index");

	if (kind && index && kind->text && index->text)
		return rk_arena_printf(arena, "%s %s", kind->text, index->text);
	for (size_t i = 0; i < RK_ARRAY_SIZE(keys); i++) {
		const struct rk_jnode *key = rk_jget(it, keys[i]);
		if (key && key->text)
			return rk_arena_printf(arena, "%s %s", list, key->text);
	}
	return rk_arena_printf(arena, "%s %zu", list, position);
}

static const char *value_text(struct rk_arena *arena, const struct rk_jnode *node)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_jw w;

	if (node->type == RK_JSTRING)
		return rk_arena_strdup(arena, node->text);
	rk_jw_init(&w, &out, 0);
	rk_jw_node(&w, node);
	return rk_arena_strdup(arena, rk_str_text(&out));
}

static void add_fact(struct facts *facts, const char *object, const char *field, const struct rk_jnode *node)
{
	struct fact *f = rk_vec_push(facts);

	f->object = object;
	f->field = field;
	f->value = value_text(facts->arena, node);
}

static bool plain(const struct rk_jnode *node)
{
	if (node->type == RK_JARRAY)
		return !node->child || node->child->type != RK_JOBJECT;
	return node->type != RK_JOBJECT;
}

/* Flattens one object; objects inside become fields "a.b", arrays of objects become objects of their own. Depth is that of our own
 * export (at most 6), not of an input. */
static void flatten(struct facts *facts, const char *object, const char *prefix, const struct rk_jnode *node, bool named)
{
	RK_JEACH(it, node) {
		const char *field = rk_arena_printf(facts->arena, "%s%s", prefix, it->key);
		if (plain(it)) {
			if (!named || (strcmp(it->key, "name") != 0 && strcmp(it->key, "index") != 0 && strcmp(it->key, "rail") != 0))
				add_fact(facts, object, field, it);
			else
				add_fact(facts, object, "there", it);
		} else if (it->type == RK_JARRAY) {
			size_t position = 0;
			RK_JEACH(e, it) {
				const char *name = element_name(facts->arena, it->key, e, position++);
				flatten(facts, rk_arena_printf(facts->arena, "%s%s%s", object, *object ? " " : "", name), "", e, true);
			}
		} else if (strcmp(it->key, "tray") == 0) {
			RK_JEACH(t, it)
				flatten(facts, rk_arena_strdup(facts->arena, t->key), "", t, false);
		} else {
			flatten(facts, object, rk_arena_printf(facts->arena, "%s.", field), it, false);
		}
	}
}

static void facts_of(const struct rk_site *site, struct facts *facts)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	RK_CLEANUP_JSON struct rk_json *json = NULL;

	rk_site_export(site, &text);
	if (rk_json_parse("export", rk_str_text(&text), text.len, &json, NULL))
		abort(); /* our own export always parses */
	flatten(facts, "", "", rk_json_root(json), false);
}

static struct rk_map *index_of(const struct facts *facts)
{
	struct rk_map *map = rk_map_new();
	struct rk_str key RK_CLEANUP_STR = RK_STR_INIT;

	for (size_t i = 0; i < facts->n; i++) {
		rk_str_reset(&key);
		rk_str_addf(&key, "%s\x1f%s", facts->items[i].object, facts->items[i].field);
		rk_map_add(map, rk_str_text(&key), i, NULL);
	}
	return map;
}

void rk_site_diff(const struct rk_site *from, const struct rk_site *to, struct rk_arena *arena, struct rk_site_change **ret, size_t *ret_n)
{
	struct facts a = { .arena = arena }, b = { .arena = arena };
	struct rk_str key RK_CLEANUP_STR = RK_STR_INIT;
	size_t n = 0, at;

	facts_of(from, &a);
	facts_of(to, &b);
	struct rk_map *in_a RK_CLEANUP_MAP = index_of(&a), *in_b RK_CLEANUP_MAP = index_of(&b);
	struct rk_site_change *out = rk_arena_array(arena, a.n + b.n, sizeof(*out));
	for (size_t i = 0; i < a.n; i++) {
		const struct fact *f = &a.items[i];
		rk_str_reset(&key);
		rk_str_addf(&key, "%s\x1f%s", f->object, f->field);
		bool found = rk_map_get(in_b, rk_str_text(&key), &at);
		if (!found || strcmp(b.items[at].value, f->value) != 0)
			out[n++] = (struct rk_site_change){ f->object, f->field, f->value, found ? b.items[at].value : NULL };
	}
	for (size_t i = 0; i < b.n; i++) {
		const struct fact *f = &b.items[i];
		rk_str_reset(&key);
		rk_str_addf(&key, "%s\x1f%s", f->object, f->field);
		if (!rk_map_get(in_a, rk_str_text(&key), NULL))
			out[n++] = (struct rk_site_change){ f->object, f->field, NULL, f->value };
	}
	free(a.items);
	free(b.items);
	*ret = out;
	*ret_n = n;
}
