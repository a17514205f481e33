#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/out_grid.h"
#include "inventory/base/clock.h"
#include "inventory/base/mem.h"
#include "inventory/base/nodeset.h"

/* Width on the screen: UTF-8 sequences count once. */
int rk_text_width(const char *s)
{
	int n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

char *rk_text_header(const char *key)
{
	size_t len = strlen(key);

	if (rk_ends_with(key, "_mib"))
		len -= 4;
	char *head = rk_xstrndup(key, len);
	for (char *c = head; *c; c++)
		*c = *c == '_' ? ' ' : *c >= 'a' && *c <= 'z' ? (char)(*c - 32) : *c;
	return head;
}

static void add_duration(struct rk_str *out, double seconds)
{
	static const struct {
		double least;
		const char *unit;
		double in, next;
		const char *next_unit;
	} rows[] = { { 172800, "d", 86400, 3600, "h" }, { 7200, "h", 3600, 60, "min" }, { 120, "min", 60, 1, "s" } };

	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++)
		if (seconds >= rows[i].least) {
			long long whole = (long long)(seconds / rows[i].in), rest = (long long)((seconds - (double)whole * rows[i].in) / rows[i].next);
			rk_str_addf(out, "%lld %s", whole, rows[i].unit);
			if (rest)
				rk_str_addf(out, " %lld %s", rest, rows[i].next_unit);
			return;
		}
	rk_str_addf(out, seconds >= 10 || seconds == (double)(long long)seconds ? "%.0f s" : "%.2g s", seconds);
}

/* "2026-11-30T05:12:13Z" as unix seconds; -1 when it is none. */
static long long from_iso(const char *text)
{
	int y, mo, d, h, mi, s;

	if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2dZ", &y, &mo, &d, &h, &mi, &s) != 6)
		return -1;
	/* Days since 1970 by the civil calendar; years begin in March so that the leap day is the last one. */
	y -= mo <= 2;
	long long era = y / 400, of_era = y - era * 400, of_year = (153 * (mo + (mo > 2 ? -3 : 9)) + 2) / 5 + d - 1;
	long long days = era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
	return ((days * 24 + h) * 60 + mi) * 60 + s;
}

static void add_time(struct rk_str *out, const char *iso, const struct rk_style *style, bool absolute)
{
	long long then = from_iso(iso), now = style->now_ms / 1000;

	if (absolute || !now || then < 0)
		rk_str_add(out, iso);
	if (!now || then < 0)
		return;
	rk_str_add(out, absolute ? " (" : "");
	if (then > now)
		rk_str_add(out, "in ");
	add_duration(out, (double)(then > now ? then - now : now - then));
	rk_str_add(out, then > now ? "" : " ago");
	rk_str_add(out, absolute ? ")" : "");
}

static void add_memory(struct rk_str *out, const char *mib)
{
	uint64_t v;

	if (!rk_parse_u64(mib, &v))
		rk_str_add(out, mib);
	else if (v >= 1024 && v % 1024 == 0)
		rk_str_addf(out, "%llu GiB", (unsigned long long)(v / 1024));
	else
		rk_str_addf(out, "%llu MiB", (unsigned long long)v);
}

static bool foldable(const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!((names[i][0] | 32) >= 'a' && (names[i][0] | 32) <= 'z') || strpbrk(names[i], "[],! &@"))
			return false;
	return n > 1;
}

static bool scalar(const struct rk_jnode *node)
{
	return node->type != RK_JARRAY && node->type != RK_JOBJECT;
}

static bool scalars_only(const struct rk_jnode *array)
{
	RK_JEACH(it, array)
		if (!scalar(it))
			return false;
	return true;
}

static void add_scalar(struct rk_str *out, const struct rk_jnode *node)
{
	if (node->text)
		rk_str_add_escaped(out, node->text, strlen(node->text));
	else
		rk_str_add(out, node->type == RK_JBOOL ? node->boolean ? "yes" : "no" : "-");
}

static void add_list(struct rk_str *out, const struct rk_jnode *array)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const char **names = rk_arena_array(arena, array->n + 1, sizeof(*names));
	size_t n = 0;

	RK_JEACH(it, array) {
		struct rk_str one RK_CLEANUP_STR = RK_STR_INIT;
		add_scalar(&one, it);
		names[n++] = rk_arena_strdup(arena, rk_str_text(&one));
	}
	if (foldable(names, n)) {
		rk_str_add(out, rk_nodeset_fold(arena, names, n));
		return;
	}
	for (size_t i = 0; i < n; i++)
		rk_str_addf(out, "%s%s", i ? "," : "", names[i]);
	rk_str_add(out, n ? "" : "-");
}

/* Anything in one line. What is deeper is counted only. */
void rk_text_node(struct rk_str *out, const struct rk_jnode *node)
{
	if (scalar(node)) {
		add_scalar(out, node);
	} else if (node->type == RK_JARRAY && scalars_only(node)) {
		add_list(out, node);
	} else if (node->type == RK_JARRAY) {
		rk_str_addf(out, "%zu entries", node->n);
	} else {
		RK_JEACH(it, node) {
			rk_str_addf(out, "%s%s ", it == node->child ? "" : ", ", it->key);
			if (scalar(it))
				add_scalar(out, it);
			else
				rk_str_addf(out, "(%zu)", it->n);
		}
	}
}

struct rk_json *rk_cell_parsed(const struct rk_cell *cell)
{
	struct rk_json *doc = NULL;

	return cell->json && rk_json_parse("cell", cell->json, strlen(cell->json), &doc, NULL) == 0 ? doc : NULL;
}

char *rk_text_cell(const struct rk_column *column, const struct rk_cell *cell, const struct rk_style *style, bool one)
{
	struct rk_str out = RK_STR_INIT;
	RK_CLEANUP_JSON struct rk_json *doc = NULL;
	double seconds, value;

	if (!cell->plain)
		return rk_xstrdup("-");
	if (column->type == RK_COL_LIST || column->type == RK_COL_JSON)
		doc = rk_cell_parsed(cell);
	if (doc)
		rk_text_node(&out, rk_json_root(doc));
	else if (column->type == RK_COL_REAL && strcmp(column->key, "seconds") != 0 && rk_parse_double(cell->plain, &value))
		rk_str_addf(&out, "%.4g", value);
	else if (column->type == RK_COL_TIME)
		add_time(&out, cell->plain, style, one || style->verbose);
	else if (rk_ends_with(column->key, "_mib"))
		add_memory(&out, cell->plain);
	else if (strcmp(column->key, "seconds") == 0 && rk_parse_double(cell->plain, &seconds))
		add_duration(&out, seconds);
	else
		rk_str_add_escaped(&out, cell->plain, strlen(cell->plain));
	return rk_str_steal(&out);
}

/* ---- colour ----------------------------------------------------------------------------------------------------------------------- */

/* Green, red and magenta are readable on light and on dark ground; yellow is not. The word itself says it all without colour. */
static const struct {
	const char *word, *sgr, *symbol;
} looks[] = {
	{ "pass", "32", "\xe2\x9c\x93" }, { "ready", "32", "\xe2\x9c\x93" }, { "running", "32", NULL }, { "done", "32", "\xe2\x9c\x93" },
	{ "in-sync", "32", "\xe2\x9c\x93" }, { "ok", "32", "\xe2\x9c\x93" }, { "chosen", "32", NULL }, { "free", "32", NULL },
	{ "fail", "31", "\xe2\x9c\x97" }, { "failed", "31", "\xe2\x9c\x97" }, { "drifted", "31", "\xe2\x89\xa0" }, { "faulty", "31", "\xe2\x9c\x97" },
	{ "offline", "31", "\xe2\x9c\x97" }, { "refused", "31", NULL }, { "unhealthy", "31", "\xe2\x9c\x97" },
	{ "warn", "35", "!" }, { "degraded", "35", "!" }, { "cordoned", "35", NULL }, { "resumable", "35", "!" }, { "awaiting-confirm", "35", "!" },
	{ "unknown", "35", "?" }, { "building", "35", NULL }, { "deleting", "35", NULL }, { "rolled-back", "35", NULL }, { "cancelled", "35", NULL },
};

/* A cell of one of the words above, rk_text_decorated; else the text as it is. */
char *rk_text_decorated(char *text, const struct rk_style *style)
{
	for (size_t i = 0; style->colour && i < RK_ARRAY_SIZE(looks); i++)
		if (strcmp(looks[i].word, text) == 0) {
			char *out = rk_xasprintf("%s%s%s", style->utf8 && looks[i].symbol ? looks[i].symbol : "", style->utf8 && looks[i].symbol ? " " : "", text);
			free(text);
			return out;
		}
	return text;
}

const char *rk_text_sgr(const char *text, const struct rk_style *style)
{
	const char *word = strrchr(text, ' ');

	for (size_t i = 0; style->colour && i < RK_ARRAY_SIZE(looks); i++)
		if (strcmp(looks[i].word, word ? word + 1 : text) == 0 && (!word || (style->utf8 && looks[i].symbol && rk_starts_with(text, looks[i].symbol))))
			return looks[i].sgr;
	return NULL;
}
