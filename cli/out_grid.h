/* What the parts of the table writer share: texts of cells (out_text.c), layout (out_grid.c), tables of rows and objects (out_table.c). */
#pragma once
#include "cli/out_impl.h"

/* Width on the screen: UTF-8 sequences count once. */
int rk_text_width(const char *s);
/* "power_kw" -> "POWER KW". malloc'ed, as all texts below. */
char *rk_text_header(const char *key);
/* A cell in one line, for people: numbers with units, times relative (one: absolute too), lists folded. */
char *rk_text_cell(const struct rk_column *column, const struct rk_cell *cell, const struct rk_style *style, bool one);
void rk_text_node(struct rk_str *out, const struct rk_jnode *node);
/* The JSON of a cell, or NULL. */
struct rk_json *rk_cell_parsed(const struct rk_cell *cell);
/* Takes a text; one that is a word with a meaning (pass, failed, ...) comes back with its symbol. */
char *rk_text_decorated(char *text, const struct rk_style *style);
/* Its colour, or NULL. */
const char *rk_text_sgr(const char *text, const struct rk_style *style);

/* Lines that are wider than the screen go on below, broken behind blanks, under the text behind their first column. Width 0: as they are. */
void rk_text_fold(const char *text, int width, struct rk_str *out);

/* A table of finished texts. */
struct rk_grid {
	char **heads, **cells;       /* owned; cells by row */
	bool *right;
	size_t rows, cols;
};
void rk_grid_init(struct rk_grid *g, size_t rows, size_t cols);
void rk_grid_clear(struct rk_grid *g);
/* As a table when the screen is wide enough for it without breaking words, else as records. */
void rk_put_grid(FILE *to, const struct rk_grid *g, const struct rk_style *style, int indent);
/* Name and value of a record; the value over as many lines as it needs. indent, width: of the name. */
void rk_put_pair(FILE *to, const char *name, const char *text, int indent, int width, const struct rk_style *style);
