#include <stdlib.h>
#include <string.h>

#include "cli/out_grid.h"
#include "inventory/base/mem.h"

enum { INDENT = 2 };

/* ---- a list ----------------------------------------------------------------------------------------------------------------------- */

static bool right(enum rk_coltype type)
{
	return type == RK_COL_NUMBER || type == RK_COL_REAL;
}

static void list_table(const struct rk_out *out, const struct rk_style *style, FILE *to)
{
	struct rk_grid g;
	size_t at = 0, shown = 0;

	for (size_t c = 0; c < out->n_columns; c++)
		shown += style->verbose || !out->columns[c].wide;
	rk_grid_init(&g, out->n_rows, shown);
	for (size_t c = 0; c < out->n_columns; c++) {
		const struct rk_column *column = &out->columns[c];
		if (column->wide && !style->verbose)
			continue;
		g.heads[at] = rk_text_header(column->key);
		g.right[at] = right(column->type);
		for (size_t r = 0; r < out->n_rows; r++)
			g.cells[r * shown + at] = rk_text_decorated(rk_text_cell(column, &out->cells[r * out->n_columns + c], style, false), style);
		at++;
	}
	rk_put_grid(to, &g, style, 0);
	rk_grid_clear(&g);
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
	struct rk_grid g;

	RK_JEACH(item, array)
		RK_JEACH(it, item)
			if (n < RK_ARRAY_SIZE(keys) - 1)
				column_of(keys, &n, it->key ? it->key : "");
	rk_grid_init(&g, array->n, n);
	for (size_t c = 0; c < n; c++) {
		g.heads[c] = rk_text_header(keys[c]);
		g.right[c] = true;
	}
	RK_JEACH(item, array) {
		RK_JEACH(it, item) {
			struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
			size_t c = column_of(keys, &n, it->key ? it->key : "");
			rk_text_node(&text, it);
			g.right[c] &= it->type == RK_JNUMBER;
			free(g.cells[row * g.cols + c]);
			g.cells[row * g.cols + c] = rk_text_decorated(rk_str_steal(&text), style);
		}
		for (size_t c = 0; c < g.cols; c++)
			if (!g.cells[row * g.cols + c])
				g.cells[row * g.cols + c] = rk_xstrdup("-");
		row++;
	}
	rk_put_grid(to, &g, style, INDENT);
	rk_grid_clear(&g);
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
	rk_put_pair(to, key, text, 0, width, style);
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
	rk_text_node(&text, node);
	put_pair(to, key, width, rk_text_decorated(rk_str_steal(&text), style), style);
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
		RK_CLEANUP_JSON struct rk_json *doc = column->type == RK_COL_JSON ? rk_cell_parsed(&out->cells[c]) : NULL;
		const struct rk_jnode *node = doc ? rk_json_root(doc) : NULL;
		if (column->wide && !style->verbose)
			continue;
		if (!node || (node->type != RK_JOBJECT && !(node->type == RK_JARRAY && objects_only(node))))
			width = wider(width, rk_text_width(column->key));
		RK_JEACH(it, node && node->type == RK_JOBJECT ? node : NULL)
			if (it->type != RK_JARRAY || !objects_only(it))
				width = wider(width, rk_text_width(column->key) + 1 + rk_text_width(it->key));
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
				doc = rk_cell_parsed(cell);
			if (doc)
				show_json(to, column->key, width, rk_json_root(doc), style);
			else
				put_pair(to, column->key, width, rk_text_decorated(rk_text_cell(column, cell, style, true), style), style);
		}
}

void rk_out_table(const struct rk_out *out, const struct rk_style *style, FILE *to)
{
	bool rows = out->n_columns && !(out->command->flags & RK_CMD_RAW);
	struct rk_str folded RK_CLEANUP_STR = RK_STR_INIT;

	/* What only notes tell needs no head of a table. */
	if (rows && out->command->list && (out->n_rows || !out->notes.len))
		list_table(out, style, to);
	else if (rows && out->n_rows)
		show_table(out, style, to);
	rk_text_fold(rk_str_text(&out->notes), style->width, &folded);
	fputs(rk_str_text(&folded), to);
}
