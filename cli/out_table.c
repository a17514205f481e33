#include <stdlib.h>
#include <string.h>

#include "cli/out_impl.h"
#include "inventory/base/clock.h"
#include "inventory/base/mem.h"
#include "inventory/base/nodeset.h"

enum { GAP = 2, NARROWEST = 10, INDENT = 2 };

/* A table of finished texts. */
struct grid {
	char **heads, **cells;       /* owned; cells by row */
	bool *right;
	size_t rows, cols;
};

/* ---- texts ------------------------------------------------------------------------------------------------------------------------ */

/* Width on the screen: UTF-8 sequences count once. */
static int width_of(const char *s)
{
	int n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static char *header_of(const char *key)
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
static void add_node(struct rk_str *out, const struct rk_jnode *node)
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

static struct rk_json *parsed(const struct rk_cell *cell)
{
	struct rk_json *doc = NULL;

	return cell->json && rk_json_parse("cell", cell->json, strlen(cell->json), &doc, NULL) == 0 ? doc : NULL;
}

static char *text_of(const struct rk_column *column, const struct rk_cell *cell, const struct rk_style *style, bool one)
{
	struct rk_str out = RK_STR_INIT;
	RK_CLEANUP_JSON struct rk_json *doc = NULL;
	double seconds, value;

	if (!cell->plain)
		return rk_xstrdup("-");
	if (column->type == RK_COL_LIST || column->type == RK_COL_JSON)
		doc = parsed(cell);
	if (doc)
		add_node(&out, rk_json_root(doc));
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

/* A cell of one of the words above, decorated; else the text as it is. */
static char *decorated(char *text, const struct rk_style *style)
{
	for (size_t i = 0; style->colour && i < RK_ARRAY_SIZE(looks); i++)
		if (strcmp(looks[i].word, text) == 0) {
			char *out = rk_xasprintf("%s%s%s", style->utf8 && looks[i].symbol ? looks[i].symbol : "", style->utf8 && looks[i].symbol ? " " : "", text);
			free(text);
			return out;
		}
	return text;
}

static const char *sgr_of(const char *text, const struct rk_style *style)
{
	const char *word = strrchr(text, ' ');

	for (size_t i = 0; style->colour && i < RK_ARRAY_SIZE(looks); i++)
		if (strcmp(looks[i].word, word ? word + 1 : text) == 0 && (!word || (style->utf8 && looks[i].symbol && rk_starts_with(text, looks[i].symbol))))
			return looks[i].sgr;
	return NULL;
}

/* ---- layout ----------------------------------------------------------------------------------------------------------------------- */

static void blanks(FILE *to, int n)
{
	fprintf(to, "%*s", n > 0 ? n : 0, "");
}

/* Bytes of the next line of a cell that is width wide: broken behind a blank or comma when there is one. */
static size_t piece(const char *text, int width)
{
	size_t at = 0, good = 0;
	int used = 0;

	while (text[at] && used < width) {
		at++;
		while (((unsigned char)text[at] & 0xc0) == 0x80)
			at++;
		used++;
		if (text[at - 1] == ' ' || text[at - 1] == ',')
			good = at;
	}
	return !text[at] || !good ? at : good;
}

static void put_piece(FILE *to, const char *text, size_t n, int width, bool right, bool last, const char *sgr)
{
	char *part RK_CLEANUP_FREE = rk_xstrndup(text, n);
	size_t len = strlen(part);

	while (len && part[len - 1] == ' ')
		part[--len] = '\0';
	int pad = width - width_of(part);
	if (right)
		blanks(to, pad);
	if (sgr)
		fprintf(to, "\033[%sm%s\033[0m", sgr, part);
	else
		fputs(part, to);
	if (!right && !last)
		blanks(to, pad);
}

/* One row of texts, over as many lines as its longest cell needs. */
static void put_row(FILE *to, char *const *texts, const struct grid *g, const int *widths, const struct rk_style *style, int indent, const char *all_sgr)
{
	const char **left RK_CLEANUP_FREE = rk_xcalloc(g->cols, sizeof(*left));
	bool more = true;

	for (size_t c = 0; c < g->cols; c++)
		left[c] = texts[c];
	for (bool first = true; more; first = false) {
		more = false;
		blanks(to, indent);
		for (size_t c = 0; c < g->cols; c++) {
			size_t n = piece(left[c], widths[c]);
			const char *sgr = all_sgr ? all_sgr : first ? sgr_of(texts[c], style) : NULL;
			if (n || c + 1 < g->cols)
				put_piece(to, left[c], n, widths[c], g->right[c], c + 1 == g->cols, n ? sgr : NULL);
			left[c] += n;
			more |= *left[c] != '\0';
			fputs(c + 1 < g->cols ? "  " : "\n", to);
		}
	}
}

/* A number is never broken, and a head only between its words; text may be broken anywhere. */
static int narrowest(const struct grid *g, size_t c)
{
	int least = g->right[c] ? 1 : NARROWEST;

	for (const char *word = g->heads[c]; *word; word += strcspn(word, " "), word += strspn(word, " "))
		least = (int)strcspn(word, " ") > least ? (int)strcspn(word, " ") : least;
	for (size_t r = 0; g->right[c] && r < g->rows; r++)
		least = width_of(g->cells[r * g->cols + c]) > least ? width_of(g->cells[r * g->cols + c]) : least;
	return least;
}

/* Makes the table fit by narrowing the widest columns. False: it cannot. */
static bool fit(const struct grid *g, int *widths, int room)
{
	int total = 0, *least RK_CLEANUP_FREE = rk_xcalloc(g->cols + 1, sizeof(int));

	for (size_t c = 0; c < g->cols; c++) {
		total += widths[c] + (c ? GAP : 0);
		least[c] = narrowest(g, c);
	}
	while (total > room) {
		size_t widest = g->cols;
		for (size_t c = 0; c < g->cols; c++)
			if (widths[c] > least[c] && (widest == g->cols || widths[c] > widths[widest]))
				widest = c;
		if (widest == g->cols)
			return false;
		widths[widest]--;
		total--;
	}
	return true;
}

/* Too narrow for columns: each row as lines of name and value. */
static void put_records(FILE *to, const struct grid *g, const struct rk_style *style, int indent)
{
	int width = 0;

	for (size_t c = 0; c < g->cols; c++)
		width = width_of(g->heads[c]) > width ? width_of(g->heads[c]) : width;
	int room = style->width - indent - width - GAP;
	for (size_t r = 0; r < g->rows; r++) {
		if (r)
			fputs("\n", to);
		for (size_t c = 0; c < g->cols; c++) {
			const char *text = g->cells[r * g->cols + c], *sgr = sgr_of(text, style);
			blanks(to, indent);
			put_piece(to, g->heads[c], strlen(g->heads[c]), width, false, false, NULL);
			do {
				size_t n = piece(text, room > NARROWEST ? room : NARROWEST);
				blanks(to, text == g->cells[r * g->cols + c] ? GAP : indent + width + GAP);
				put_piece(to, text, n, 0, false, true, sgr);
				fputs("\n", to);
				text += n;
			} while (*text);
		}
	}
}

static void put_grid(FILE *to, const struct grid *g, const struct rk_style *style, int indent)
{
	int *widths RK_CLEANUP_FREE = rk_xcalloc(g->cols + 1, sizeof(int));

	for (size_t c = 0; c < g->cols; c++) {
		widths[c] = width_of(g->heads[c]);
		for (size_t r = 0; r < g->rows; r++) {
			int w = width_of(g->cells[r * g->cols + c]);
			widths[c] = w > widths[c] ? w : widths[c];
		}
	}
	if (style->width && !fit(g, widths, style->width - indent)) {
		put_records(to, g, style, indent);
		return;
	}
	put_row(to, g->heads, g, widths, style, indent, style->colour ? "1" : NULL);
	for (size_t r = 0; r < g->rows; r++)
		put_row(to, g->cells + r * g->cols, g, widths, style, indent, NULL);
}

static void grid_init(struct grid *g, size_t rows, size_t cols)
{
	*g = (struct grid){ .rows = rows, .cols = cols };
	g->heads = rk_xcalloc(cols + 1, sizeof(char *));
	g->right = rk_xcalloc(cols + 1, sizeof(bool));
	g->cells = rk_xcalloc(rows * cols + 1, sizeof(char *));
}

static void grid_clear(struct grid *g)
{
	for (size_t i = 0; i < g->cols; i++)
		free(g->heads[i]);
	for (size_t i = 0; i < g->rows * g->cols; i++)
		free(g->cells[i]);
	free(g->heads);
	free(g->right);
	free(g->cells);
}

/* ---- a list ----------------------------------------------------------------------------------------------------------------------- */

static bool right(enum rk_coltype type)
{
	return type == RK_COL_NUMBER || type == RK_COL_REAL;
}

static void list_table(const struct rk_out *out, const struct rk_style *style, FILE *to)
{
	struct grid g;
	size_t at = 0, shown = 0;

	for (size_t c = 0; c < out->n_columns; c++)
		shown += style->verbose || !out->columns[c].wide;
	grid_init(&g, out->n_rows, shown);
	for (size_t c = 0; c < out->n_columns; c++) {
		const struct rk_column *column = &out->columns[c];
		if (column->wide && !style->verbose)
			continue;
		g.heads[at] = header_of(column->key);
		g.right[at] = right(column->type);
		for (size_t r = 0; r < out->n_rows; r++)
			g.cells[r * shown + at] = decorated(text_of(column, &out->cells[r * out->n_columns + c], style, false), style);
		at++;
	}
	put_grid(to, &g, style, 0);
	grid_clear(&g);
}

/* ---- one object ------------------------------------------------------------------------------------------------------------------- */

/* Place of a key among the columns so far; new ones are appended. */
static size_t column_of(const char **keys, size_t *n, const char *key)
{
	for (size_t i = 0; i < *n; i++)
		if (strcmp(keys[i], key) == 0)
			return i;
	keys[*n] = key;
	return (*n)++;
}

/* An array of objects as a table of its own; keys are the columns, in the order of their first use. */
static void nested_table(const struct rk_jnode *array, const struct rk_style *style, FILE *to)
{
	const char *keys[64];
	size_t n = 0, row = 0;
	struct grid g;

	RK_JEACH(item, array)
		RK_JEACH(it, item)
			if (n < RK_ARRAY_SIZE(keys) - 1)
				column_of(keys, &n, it->key ? it->key : "");
	grid_init(&g, array->n, n);
	for (size_t c = 0; c < n; c++) {
		g.heads[c] = header_of(keys[c]);
		g.right[c] = true;
	}
	RK_JEACH(item, array) {
		RK_JEACH(it, item) {
			struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
			size_t c = column_of(keys, &n, it->key ? it->key : "");
			add_node(&text, it);
			g.right[c] &= it->type == RK_JNUMBER;
			free(g.cells[row * g.cols + c]);
			g.cells[row * g.cols + c] = decorated(rk_str_steal(&text), style);
		}
		for (size_t c = 0; c < g.cols; c++)
			if (!g.cells[row * g.cols + c])
				g.cells[row * g.cols + c] = rk_xstrdup("-");
		row++;
	}
	put_grid(to, &g, style, INDENT);
	grid_clear(&g);
}

static bool objects_only(const struct rk_jnode *array)
{
	RK_JEACH(it, array)
		if (it->type != RK_JOBJECT)
			return false;
	return array->n > 0;
}

static void put_pair(FILE *to, const char *key, int width, char *text, const struct rk_style *style)
{
	int room = style->width ? style->width - width - GAP : 1 << 20;
	const char *at = text, *sgr = sgr_of(text, style);

	fputs(key, to);
	blanks(to, width - width_of(key));
	do {
		size_t n = piece(at, room > NARROWEST ? room : NARROWEST);
		blanks(to, at == text ? GAP : width + GAP);
		put_piece(to, at, n, 0, false, true, sgr);
		fputs("\n", to);
		at += n;
	} while (*at);
	free(text);
}

static void show_node(FILE *to, const char *key, int width, const struct rk_jnode *node, const struct rk_style *style)
{
	struct rk_str text = RK_STR_INIT;

	if (node->type == RK_JARRAY && objects_only(node)) {
		fprintf(to, "%s\n", key);
		nested_table(node, style, to);
		return;
	}
	add_node(&text, node);
	put_pair(to, key, width, decorated(rk_str_steal(&text), style), style);
}

/* An object inside: its keys get the outer key in front. */
static void show_json(FILE *to, const char *key, int width, const struct rk_jnode *node, const struct rk_style *style)
{
	if (node->type != RK_JOBJECT) {
		show_node(to, key, width, node, style);
		return;
	}
	RK_JEACH(it, node) {
		char *both RK_CLEANUP_FREE = rk_xasprintf("%s.%s", key, it->key);
		show_node(to, both, width, it, style);
	}
}

static int wider(int width, int other)
{
	return other > width ? other : width;
}

/* Of the pairs on lines of their own: nested tables begin anew. */
static int key_width(const struct rk_out *out, const struct rk_style *style)
{
	int width = 0;

	for (size_t c = 0; out->n_rows && c < out->n_columns; c++) {
		const struct rk_column *column = &out->columns[c];
		RK_CLEANUP_JSON struct rk_json *doc = column->type == RK_COL_JSON ? parsed(&out->cells[c]) : NULL;
		const struct rk_jnode *node = doc ? rk_json_root(doc) : NULL;
		if (column->wide && !style->verbose)
			continue;
		if (!node || (node->type != RK_JOBJECT && !(node->type == RK_JARRAY && objects_only(node))))
			width = wider(width, width_of(column->key));
		RK_JEACH(it, node && node->type == RK_JOBJECT ? node : NULL)
			if (it->type != RK_JARRAY || !objects_only(it))
				width = wider(width, width_of(column->key) + 1 + width_of(it->key));
	}
	return width;
}

static void show_table(const struct rk_out *out, const struct rk_style *style, FILE *to)
{
	int width = key_width(out, style);

	for (size_t r = 0; r < out->n_rows; r++)
		for (size_t c = 0; c < out->n_columns; c++) {
			const struct rk_column *column = &out->columns[c];
			const struct rk_cell *cell = &out->cells[r * out->n_columns + c];
			RK_CLEANUP_JSON struct rk_json *doc = NULL;
			if (column->wide && !style->verbose)
				continue;
			if (column->type == RK_COL_JSON)
				doc = parsed(cell);
			if (doc)
				show_json(to, column->key, width, rk_json_root(doc), style);
			else
				put_pair(to, column->key, width, decorated(text_of(column, cell, style, true), style), style);
		}
}

void rk_out_table(const struct rk_out *out, const struct rk_style *style, FILE *to)
{
	bool rows = out->n_columns && !(out->command->flags & RK_CMD_RAW);

	/* What only notes tell needs no head of a table. */
	if (rows && out->command->list && (out->n_rows || !out->notes.len))
		list_table(out, style, to);
	else if (rows && out->n_rows)
		show_table(out, style, to);
	fputs(rk_str_text(&out->notes), to);
}
