#include <stdlib.h>
#include <string.h>

#include "cli/out_grid.h"
#include "inventory/base/mem.h"

enum { GAP = 2, NARROWEST = 10, LONG_WORD = 30 };

static void blanks(FILE *to, int n)
{
	fprintf(to, "%*s", n > 0 ? n : 0, "");
}

static bool breaks_behind(char c)
{
	return c == ' ' || c == ',';
}

/* Bytes of the next line of a text that is width wide: broken behind a blank or comma when there is one. */
static size_t piece(const char *text, int width)
{
	size_t at = 0, good = 0;
	int used = 0;

	while (text[at] && used < width) {
		at++;
		while (((unsigned char)text[at] & 0xc0) == 0x80)
			at++;
		used++;
		if (breaks_behind(text[at - 1]))
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
	int pad = width - rk_text_width(part);
	if (right)
		blanks(to, pad);
	if (sgr)
		fprintf(to, "\033[%sm%s\033[0m", sgr, part);
	else
		fputs(part, to);
	if (!right && !last)
		blanks(to, pad);
}

/* Where a line goes on below: under the text behind its first column, else a little further in than it began. */
static int hang(const char *line, int width)
{
	size_t lead = strspn(line, " ");
	const char *gap = strstr(line + lead, "  ");
	size_t column = gap ? (size_t)(gap - line) + strspn(gap, " ") : 0;

	if (column && line[column] && column <= (size_t)width / 2)
		return (int)column;
	return lead ? (int)lead + 4 : 0;
}

void rk_text_fold(const char *text, int width, struct rk_str *out)
{
	if (!width)
		rk_str_add(out, text);
	while (width && *text) {
		size_t n = strcspn(text, "\n");
		char *line RK_CLEANUP_FREE = rk_xstrndup(text, n);
		int indent = hang(line, width), room = width;
		for (const char *at = line; *at; room = width - indent) {
			size_t part = rk_text_width(at) > room ? piece(at, room) : strlen(at), shown = part;
			while (shown && at[part] && at[shown - 1] == ' ')
				shown--;
			rk_str_addf(out, "%*s%.*s%s", at == line ? 0 : indent, "", (int)shown, at, at[part] ? "\n" : "");
			at += part + strspn(at + part, " ");
		}
		text += n + (text[n] == '\n');
		rk_str_addc(out, '\n');
	}
}

/* One row of texts, over as many lines as its longest cell needs. */
static void put_row(FILE *to, char *const *texts, const struct rk_grid *g, const int *widths, const struct rk_style *style, int indent, const char *all_sgr)
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
			const char *sgr = all_sgr ? all_sgr : first ? rk_text_sgr(texts[c], style) : NULL;
			if (n || c + 1 < g->cols)
				put_piece(to, left[c], n, widths[c], g->right[c], c + 1 == g->cols, n ? sgr : NULL);
			left[c] += n;
			more |= *left[c] != '\0';
			fputs(c + 1 < g->cols ? "  " : "\n", to);
		}
	}
}

/* Of the longest word: what cannot be told in less without breaking one. */
static int longest_word(const char *text)
{
	int longest = 0, n = 0;

	for (; *text; text++) {
		n += ((unsigned char)*text & 0xc0) != 0x80 && *text != ' ';
		longest = n > longest ? n : longest;
		n = breaks_behind(*text) ? 0 : n;
	}
	return longest;
}

/* A number is never broken, text and heads only between words; what is longer than any word should be (paths, URIs) anywhere. */
static int narrowest(const struct rk_grid *g, size_t c)
{
	int least = longest_word(g->heads[c]);

	for (size_t r = 0; r < g->rows; r++) {
		const char *text = g->cells[r * g->cols + c];
		int word = g->right[c] ? rk_text_width(text) : longest_word(text);
		word = word > LONG_WORD && !g->right[c] ? LONG_WORD : word;
		least = word > least ? word : least;
	}
	return least;
}

/* Makes the table fit by narrowing the widest columns. False: it cannot. */
static bool fit(const struct rk_grid *g, int *widths, int room)
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

void rk_put_pair(FILE *to, const char *name, const char *text, int indent, int width, const struct rk_style *style)
{
	int room = style->width ? style->width - indent - width - GAP : 1 << 20, at = indent + width + GAP;
	const char *sgr = rk_text_sgr(text, style);

	blanks(to, indent);
	put_piece(to, name, strlen(name), width, false, false, NULL);
	blanks(to, GAP);
	/* A word that has no room beside the name may have it below. */
	if (longest_word(text) > room && style->width - indent - GAP > room) {
		at = indent + GAP;
		room = style->width - at;
		fprintf(to, "\n%*s", at, "");
	}
	for (bool first = true; first || *text; first = false) {
		size_t n = piece(text, room > NARROWEST ? room : NARROWEST);
		if (!first)
			blanks(to, at);
		put_piece(to, text, n, 0, false, true, sgr);
		fputs("\n", to);
		text += n;
	}
}

/* Too narrow for columns: each row as lines of name and value. */
static void put_records(FILE *to, const struct rk_grid *g, const struct rk_style *style, int indent)
{
	int width = 0;

	for (size_t c = 0; c < g->cols; c++)
		width = rk_text_width(g->heads[c]) > width ? rk_text_width(g->heads[c]) : width;
	for (size_t r = 0; r < g->rows; r++) {
		if (r)
			fputs("\n", to);
		for (size_t c = 0; c < g->cols; c++)
			rk_put_pair(to, g->heads[c], g->cells[r * g->cols + c], indent, width, style);
	}
}

void rk_put_grid(FILE *to, const struct rk_grid *g, const struct rk_style *style, int indent)
{
	int *widths RK_CLEANUP_FREE = rk_xcalloc(g->cols + 1, sizeof(int));

	for (size_t c = 0; c < g->cols; c++) {
		widths[c] = rk_text_width(g->heads[c]);
		for (size_t r = 0; r < g->rows; r++) {
			int w = rk_text_width(g->cells[r * g->cols + c]);
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

void rk_grid_init(struct rk_grid *g, size_t rows, size_t cols)
{
	*g = (struct rk_grid){ .rows = rows, .cols = cols };
	g->heads = rk_xcalloc(cols + 1, sizeof(char *));
	g->right = rk_xcalloc(cols + 1, sizeof(bool));
	g->cells = rk_xcalloc(rows * cols + 1, sizeof(char *));
}

void rk_grid_clear(struct rk_grid *g)
{
	for (size_t i = 0; i < g->cols; i++)
		free(g->heads[i]);
	for (size_t i = 0; i < g->rows * g->cols; i++)
		free(g->cells[i]);
	free(g->heads);
	free(g->right);
	free(g->cells);
}
