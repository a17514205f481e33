#include "provision/health/history.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/clock.h"

enum { KEPT = 32, FINDINGS_MAX = 100, BAD_MAX = 60, FLAPS = 3, NOTES_MAX = 40 };

static bool is_bad(const struct rk_check *c)
{
	return strcmp(c->verdict, "pass") != 0 && strcmp(c->verdict, "skipped") != 0;
}

static void text_key(struct rk_jw *w, const char *key, const char *value)
{
	rk_jw_key(w, key);
	rk_jw_str(w, value);
}

static void add_findings(struct rk_jw *w, const struct rk_report *r)
{
	size_t n = 0;

	rk_jw_key(w, "findings");
	rk_jw_array(w);
	for (size_t i = 0; i < r->n_checks && n < FINDINGS_MAX; i++) {
		const struct rk_check *c = &r->checks[i];
		if (!is_bad(c))
			continue;
		n++;
		rk_jw_object(w);
		text_key(w, "check", c->id);
		text_key(w, "verdict", c->verdict);
		text_key(w, "targets", c->folded);
		rk_jw_key(w, "n");
		rk_jw_u64(w, c->n_targets);
		text_key(w, "value", c->value);
		rk_jw_end(w);
	}
	rk_jw_end(w);
}

/* One entry of the history: "check targets" of everything that is not well. */
static void add_entry(struct rk_jw *w, const struct rk_report *r, const char *at)
{
	size_t n = 0;

	rk_jw_object(w);
	text_key(w, "at", at);
	text_key(w, "verdict", r->verdict);
	text_key(w, "level", r->level);
	rk_jw_key(w, "bad");
	rk_jw_array(w);
	for (size_t i = 0; i < r->n_checks && n < BAD_MAX; i++) {
		char *text RK_CLEANUP_FREE = NULL;
		if (!is_bad(&r->checks[i]))
			continue;
		text = rk_xasprintf("%s %s", r->checks[i].id, r->checks[i].folded);
		rk_jw_str(w, text);
		n++;
	}
	rk_jw_end(w);
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

static bool has(const struct rk_jnode *entry, const char *text)
{
	RK_JEACH(item, rk_jget(entry, "bad")) {
		if (rk_streq(rk_jstr(item), text))
			return true;
	}
	return false;
}

/* Entries stand newest first, of any level: a deeper one asks more, so a finding that is missing at a lower level says nothing. */
static void follow(const struct rk_jnode *history, const char *text, size_t *ret_in_a_row, const char **ret_since, size_t *ret_changes, size_t *ret_seen)
{
	const char *level = rk_jstr(rk_jget(history->child, "level"));
	bool unbroken = true, before = true;

	*ret_in_a_row = *ret_changes = *ret_seen = 0;
	*ret_since = NULL;
	RK_JEACH(entry, history) {
		bool now = has(entry, text);
		if (!now && !rk_streq(rk_jstr(rk_jget(entry, "level")), level))
			continue;
		++*ret_seen;
		*ret_changes += now != before;
		before = now;
		unbroken = unbroken && now;
		*ret_in_a_row += unbroken;
		if (unbroken)
			*ret_since = rk_jstr(rk_jget(entry, "at"));
	}
}

const char **rk_history_notes(const char *kept, struct rk_arena *arena)
{
	struct rk_json *json RK_CLEANUP_JSON = NULL;
	const char **notes = rk_arena_array(arena, NOTES_MAX + 1, sizeof(*notes));
	size_t n = 0;

	if (!kept || rk_json_parse("validation", kept, strlen(kept), &json, NULL))
		return notes;
	const struct rk_jnode *history = rk_jget(rk_json_root(json), "history");
	if (!history || history->type != RK_JARRAY || history->n < 2)
		return notes;
	RK_JEACH(item, rk_jget(history->child, "bad")) {
		size_t in_a_row, changes, seen;
		const char *since;
		if (!rk_jstr(item) || n == NOTES_MAX)
			continue;
		follow(history, rk_jstr(item), &in_a_row, &since, &changes, &seen);
		if (changes >= FLAPS)
			notes[n++] = rk_arena_printf(arena, "flapping: %s: %zu changes in the last %zu validations", rk_jstr(item), changes, seen);
		else if (in_a_row > 1)
			notes[n++] = rk_arena_printf(arena, "not new: %s: in %zu validations since %s", rk_jstr(item), in_a_row, since);
		else if (in_a_row < seen)
			notes[n++] = rk_arena_printf(arena, "new: %s", rk_jstr(item));
	}
	return notes;
}
