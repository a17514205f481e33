#include "provision/health/history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/clock.h"
#include "inventory/base/map.h"

enum { KEPT = 32, TEXTS_MAX = 200, FLAPS = 3, NOTES_MAX = 40 };

static bool is_bad(const struct rk_check *c)
{
	return strcmp(c->verdict, "pass") != 0 && strcmp(c->verdict, "skipped") != 0;
}

static void text_key(struct rk_jw *w, const char *key, const char *value)
{
	rk_jw_key(w, key);
	rk_jw_str(w, value);
}

/* The n rows of a check and verdict as one finding: a measurement has another value, and so a row, on each of a thousand targets. */
static void add_finding(struct rk_jw *w, const struct rk_check *rows, size_t n, struct rk_arena *arena)
{
	const char **names;
	size_t targets = 0, used = 0;

	for (size_t i = 0; i < n; i++)
		targets += rows[i].n_targets;
	names = rk_arena_array(arena, targets + 1, sizeof(*names));
	for (size_t i = 0; i < n; i++) {
		for (size_t t = 0; t < rows[i].n_targets; t++)
			names[used++] = rows[i].targets[t];
	}
	rk_jw_object(w);
	text_key(w, "check", rows->id);
	text_key(w, "verdict", rows->verdict);
	text_key(w, "targets", n > 1 ? rk_nodeset_fold(arena, names, targets) : rows->folded);
	rk_jw_key(w, "n");
	rk_jw_u64(w, targets);
	text_key(w, "value", n > 1 ? rk_arena_printf(arena, "%s, and %zu other values", rows->value ? rows->value : "-", n - 1) : rows->value);
	rk_jw_end(w);
}

static void add_findings(struct rk_jw *w, const struct rk_report *r)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	size_t n;

	rk_jw_key(w, "findings");
	rk_jw_array(w);
	for (size_t i = 0; i < r->n_checks; i += n) {
		const struct rk_check *rows = &r->checks[i];
		for (n = 1; i + n < r->n_checks && strcmp(rows[n].id, rows->id) == 0 && strcmp(rows[n].verdict, rows->verdict) == 0; n++)
			;
		if (is_bad(rows))
			add_finding(w, rows, n, arena);
	}
	rk_jw_end(w);
}

static bool is_silenced(const struct rk_check *c)
{
	return c->silence != NULL;
}

/* What a check found and is `wanted`, from row `at` on, its first: "check targets". */
static const char *targets_text(const struct rk_report *r, size_t at, bool (*wanted)(const struct rk_check *c), struct rk_arena *arena)
{
	const char *id = r->checks[at].id, **names;
	size_t n = 0;

	for (size_t i = at; i < r->n_checks; i++)
		n += wanted(&r->checks[i]) && strcmp(r->checks[i].id, id) == 0 ? r->checks[i].n_targets : 0;
	names = rk_arena_array(arena, n + 1, sizeof(*names));
	n = 0;
	for (size_t i = at; i < r->n_checks; i++) {
		if (!wanted(&r->checks[i]) || strcmp(r->checks[i].id, id) != 0)
			continue;
		for (size_t t = 0; t < r->checks[i].n_targets; t++)
			names[n++] = r->checks[i].targets[t];
	}
	return rk_arena_printf(arena, "%s %s", id, rk_nodeset_fold(arena, names, n));
}

static void add_texts(struct rk_jw *w, const char *key, const struct rk_report *r, bool (*wanted)(const struct rk_check *c))
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_map *told RK_CLEANUP_MAP = rk_map_new();
	size_t n = 0;

	rk_jw_key(w, key);
	rk_jw_array(w);
	for (size_t i = 0; i < r->n_checks && n < TEXTS_MAX; i++) {
		if (!wanted(&r->checks[i]) || !rk_map_add(told, r->checks[i].id, 1, NULL))
			continue;
		rk_jw_str(w, targets_text(r, i, wanted, arena));
		n++;
	}
	rk_jw_end(w);
}

/* One entry of the history: what is not well, and what would not be but for a silence. */
static void add_entry(struct rk_jw *w, const struct rk_report *r, const char *at)
{
	rk_jw_object(w);
	text_key(w, "at", at);
	text_key(w, "verdict", r->verdict);
	text_key(w, "level", r->level);
	add_texts(w, "bad", r, is_bad);
	add_texts(w, "silenced", r, is_silenced);
	rk_jw_end(w);
}

void rk_history_add(const struct rk_report *r, const char *before, struct rk_str *out)
{
	struct rk_json *json RK_CLEANUP_JSON = NULL;
	char at[32];
	struct rk_jw w;

	rk_time_iso(r->started_ms, at);
	rk_jw_init(&w, out, 0);
	rk_jw_object(&w);
	text_key(&w, "verdict", r->verdict);
	text_key(&w, "at", at);
	text_key(&w, "level", r->level);
	text_key(&w, "profile", r->profile);
	rk_jw_key(&w, "targets");
	rk_jw_u64(&w, r->targets);
	rk_jw_key(&w, "power_kw");
	rk_jw_double(&w, r->power_kw);
	add_findings(&w, r);
	rk_jw_key(&w, "history");
	rk_jw_array(&w);
	add_entry(&w, r, at);
	if (before && !rk_json_parse("validation", before, strlen(before), &json, NULL)) {
		size_t n = 1;
		RK_JEACH(entry, rk_jget(rk_json_root(json), "history")) {
			if (n++ < KEPT)
				rk_jw_node(&w, entry);
		}
	}
	rk_jw_end(&w);
	rk_jw_end(&w);
}

/* The targets behind "check " of an item; NULL: it is of another check. */
static const char *targets_of(const struct rk_jnode *item, const char *check)
{
	const char *text = rk_jstr(item);
	size_t n = strlen(check);

	return text && strncmp(text, check, n) == 0 && text[n] == ' ' ? text + n + 1 : NULL;
}

/* All targets of a check in such an array, as one text; NULL: none. */
static const char *all_of(const struct rk_jnode *array, const char *check, struct rk_arena *arena)
{
	const char *text = NULL;

	RK_JEACH(item, array) {
		const char *more = targets_of(item, check);
		if (more)
			text = text ? rk_arena_printf(arena, "%s,%s", text, more) : more;
	}
	return text;
}

struct rk_nodeset rk_history_targets(const char *folded, struct rk_arena *arena)
{
	struct rk_nodeset set = { rk_arena_array(arena, 1, sizeof(char *)), 0 };

	if (folded && rk_nodeset_parse(folded, NULL, NULL, arena, &set, NULL)) {
		set.names = rk_arena_array(arena, 1, sizeof(char *));
		set.names[0] = folded;
		set.n = 1;
	}
	return set;
}

static int cmp_name(const void *a, const void *b)
{
	return rk_natural_cmp(*(const char *const *)a, *(const char *const *)b);
}

static bool has(const struct rk_nodeset *set, const char *name)
{
	return bsearch(&name, set->names, set->n, sizeof(*set->names), cmp_name) != NULL;
}

/* The history of one check: an entry for each validation, newest first. */
struct course {
	const char *check;
	struct {
		const char *at;
		bool same_level;          /* as the newest one */
		struct rk_nodeset bad, silenced;
	} entries[KEPT];
	size_t n;
};

/* A large fault that stays is told in the same words each time. */
static struct rk_nodeset targets_again(const char *text, const char **last, const struct rk_nodeset *before, struct rk_arena *arena)
{
	bool same = before && rk_streq(text, *last);

	*last = text;
	return same ? *before : rk_history_targets(text, arena);
}

static void read_course(const struct rk_jnode *history, const char *check, struct rk_arena *arena, struct course *ret)
{
	const char *level = rk_jstr(rk_jget(history->child, "level")), *bad = NULL, *silenced = NULL;

	*ret = (struct course){ .check = check };
	RK_JEACH(entry, history) {
		size_t n = ret->n;
		if (n == KEPT)
			return;
		ret->entries[n].at = rk_jstr(rk_jget(entry, "at"));
		ret->entries[n].same_level = rk_streq(rk_jstr(rk_jget(entry, "level")), level);
		ret->entries[n].bad = targets_again(all_of(rk_jget(entry, "bad"), check, arena), &bad, n ? &ret->entries[n - 1].bad : NULL, arena);
		ret->entries[n].silenced = targets_again(all_of(rk_jget(entry, "silenced"), check, arena), &silenced, n ? &ret->entries[n - 1].silenced : NULL, arena);
		ret->n++;
	}
}

/* What is to be said of a target that is bad now or was: how the note begins and ends. Validations of other levels count as far as they found it, too: a
 * deeper one asks more, so a finding that is missing at a lower level says nothing. Neither does one while it was silenced. */
struct remark {
	const char *head, *tail;          /* head NULL: nothing */
};

static struct remark remark_on(const struct course *c, const char *name, struct rk_arena *arena)
{
	size_t in_a_row = 0, changes = 0, seen = 0;
	const bool bad = has(&c->entries[0].bad, name);
	bool unbroken = bad, before = bad;
	const char *since = NULL;

	if (has(&c->entries[0].silenced, name))
		return (struct remark){ NULL, "" };
	for (size_t i = 0; i < c->n; i++) {
		bool now = has(&c->entries[i].bad, name);
		if ((!c->entries[i].same_level && !(now && bad)) || has(&c->entries[i].silenced, name))
			continue;
		seen++;
		changes += now != before;
		before = now;
		unbroken = unbroken && now;
		in_a_row += unbroken;
		since = unbroken ? c->entries[i].at : since;
	}
	if (changes >= FLAPS)
		return (struct remark){ "flapping", rk_arena_printf(arena, ": %zu changes in the last %zu validations%s", changes, seen, bad ? "" : ", not found now") };
	if (in_a_row > 1)
		return (struct remark){ "not new", rk_arena_printf(arena, ": in %zu validations since %s", in_a_row, since ? since : "an unknown time") };
	return (struct remark){ bad && in_a_row < seen ? "new" : NULL, "" };
}

/* All targets that it was found on. In the arena. */
static struct rk_nodeset ever_bad(const struct course *c, struct rk_arena *arena)
{
	struct rk_map *seen RK_CLEANUP_MAP = rk_map_new();
	struct rk_nodeset all = { NULL, 0 };
	size_t most = 0;

	for (size_t i = 0; i < c->n; i++)
		most += c->entries[i].bad.n;
	all.names = rk_arena_array(arena, most + 1, sizeof(*all.names));
	for (size_t i = 0; i < c->n; i++) {
		for (size_t k = 0; k < c->entries[i].bad.n; k++) {
			if (rk_map_add(seen, c->entries[i].bad.names[k], 1, NULL))
				all.names[all.n++] = c->entries[i].bad.names[k];
		}
	}
	return all;
}

/* Targets with the same remark share a note. Notes are in the arena. */
static void note_check(const struct course *c, struct rk_arena *scratch, struct rk_arena *arena, const char **notes, size_t *n)
{
	const struct rk_nodeset all = ever_bad(c, scratch);
	struct remark *remarks = rk_arena_array(scratch, all.n + 1, sizeof(*remarks));
	const char **names = rk_arena_array(scratch, all.n + 1, sizeof(*names));

	for (size_t i = 0; i < all.n; i++)
		remarks[i] = remark_on(c, all.names[i], scratch);
	for (size_t i = 0; i < all.n && *n < NOTES_MAX; i++) {
		const struct remark first = remarks[i];
		size_t alike = 0;
		for (size_t k = i; first.head && k < all.n; k++) {
			if (!rk_streq(remarks[k].head, first.head) || strcmp(remarks[k].tail, first.tail) != 0)
				continue;
			names[alike++] = all.names[k];
			remarks[k].head = NULL;
		}
		if (alike)
			notes[(*n)++] = rk_arena_printf(arena, "%s: %s %s%s", first.head, c->check, rk_nodeset_fold(scratch, names, alike), first.tail);
	}
}

const char **rk_history_notes(const char *kept, struct rk_arena *arena)
{
	struct rk_json *json RK_CLEANUP_JSON = NULL;
	struct rk_map *told RK_CLEANUP_MAP = rk_map_new();
	const char **notes = rk_arena_array(arena, NOTES_MAX + 1, sizeof(*notes));
	struct course course;
	size_t n = 0;

	if (!kept || rk_json_parse("validation", kept, strlen(kept), &json, NULL))
		return notes;
	const struct rk_jnode *history = rk_jget(rk_json_root(json), "history");
	if (!history || history->type != RK_JARRAY || history->n < 2)
		return notes;
	RK_JEACH(entry, history) {
		RK_JEACH(item, rk_jget(entry, "bad")) {
			const char *text = rk_jstr(item), *check = text ? rk_arena_strndup(arena, text, strcspn(text, " ")) : NULL;
			if (!check || !rk_map_add(told, check, 1, NULL))
				continue;
			RK_CLEANUP_ARENA struct rk_arena *scratch = rk_arena_new();
			read_course(history, check, scratch, &course);
			note_check(&course, scratch, arena, notes, &n);
		}
	}
	return notes;
}
