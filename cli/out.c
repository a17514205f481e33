#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/out_impl.h"
#include "inventory/base/clock.h"
#include "inventory/base/mem.h"

void rk_out_init(struct rk_out *out, const struct rk_command *command)
{
	*out = (struct rk_out){ .command = command };
	rk_out_columns(out, command->columns);
}

void rk_out_columns(struct rk_out *out, const struct rk_column *columns)
{
	out->columns = columns;
	out->n_columns = 0;
	for (const struct rk_column *c = columns; c && c->key; c++)
		out->n_columns++;
}

void rk_out_finish(struct rk_out *out)
{
	if (!out->pending_cell)
		return;
	out->pending_cell->plain = rk_xstrdup(rk_str_text(&out->pending));
	out->pending_cell->json = rk_xstrdup(rk_str_text(&out->pending));
	out->pending_cell = NULL;
	rk_str_reset(&out->pending);
}

void rk_out_clear(struct rk_out *out)
{
	for (size_t i = 0; i < out->n_rows * out->n_columns; i++) {
		free(out->cells[i].plain);
		free(out->cells[i].json);
	}
	free(out->cells);
	rk_str_clear(&out->notes);
	rk_str_clear(&out->raw);
	rk_str_clear(&out->pending);
}

void rk_out_row(struct rk_out *out)
{
	rk_out_finish(out);
	if (out->n_rows == out->cap) {
		out->cap = out->cap ? out->cap * 2 : 32;
		out->cells = rk_xreallocarray(out->cells, out->cap * out->n_columns, sizeof(*out->cells));
	}
	memset(out->cells + out->n_rows * out->n_columns, 0, out->n_columns * sizeof(*out->cells));
	out->n_rows++;
}

/* The cell of a key in the present row. A key that the row does not declare is a bug of the handler. */
static struct rk_cell *cell(struct rk_out *out, const char *key)
{
	rk_out_finish(out);
	for (size_t i = 0; i < out->n_columns; i++)
		if (strcmp(out->columns[i].key, key) == 0)
			return &out->cells[(out->n_rows - 1) * out->n_columns + i];
	fprintf(stderr, "racksh: bug: %s has no column \"%s\"\n", out->command->noun, key);
	abort();
}

static void put(struct rk_out *out, const char *key, const char *plain, const struct rk_str *json)
{
	struct rk_cell *c = cell(out, key);

	c->plain = rk_xstrdup(plain);
	c->json = rk_xstrdup(rk_str_text(json));
}

void rk_cell_text(struct rk_out *out, const char *key, const char *value)
{
	struct rk_str json RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_jw w;

	if (!value)
		return;
	rk_jw_init(&w, &json, 0);
	rk_jw_str(&w, value);
	put(out, key, value, &json);
}

void rk_cell_number(struct rk_out *out, const char *key, long long value)
{
	struct rk_str json RK_CLEANUP_STR = RK_STR_INIT;

	rk_str_addf(&json, "%lld", value);
	put(out, key, rk_str_text(&json), &json);
}

void rk_cell_real(struct rk_out *out, const char *key, double value)
{
	struct rk_str json RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_jw w;

	rk_jw_init(&w, &json, 0);
	rk_jw_double(&w, value);
	put(out, key, rk_str_text(&json), &json);
}

void rk_cell_bool(struct rk_out *out, const char *key, bool value)
{
	struct rk_str json RK_CLEANUP_STR = RK_STR_INIT;

	rk_str_add(&json, value ? "true" : "false");
	put(out, key, value ? "yes" : "no", &json);
}

static void put_quoted(struct rk_out *out, const char *key, const char *plain)
{
	struct rk_str json RK_CLEANUP_STR = RK_STR_INIT;

	rk_str_addf(&json, "\"%s\"", plain);
	put(out, key, plain, &json);
}

void rk_cell_hex64(struct rk_out *out, const char *key, unsigned long long value)
{
	char text[24];

	if (!value)
		return;
	snprintf(text, sizeof(text), "0x%016llx", value);
	put_quoted(out, key, text);
}

void rk_cell_pkey(struct rk_out *out, const char *key, unsigned value)
{
	char text[16];

	snprintf(text, sizeof(text), "0x%04x", value);
	put_quoted(out, key, text);
}

void rk_cell_time(struct rk_out *out, const char *key, long long unix_ms)
{
	char text[32];

	if (unix_ms)
		put_quoted(out, key, rk_time_iso(unix_ms, text));
}

void rk_cell_list(struct rk_out *out, const char *key, const char *const *values, size_t n)
{
	struct rk_str plain RK_CLEANUP_STR = RK_STR_INIT, json RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_jw w;

	rk_jw_init(&w, &json, 0);
	rk_jw_array(&w);
	for (size_t i = 0; i < n; i++) {
		rk_str_addf(&plain, "%s%s", i ? "," : "", values[i]);
		rk_jw_str(&w, values[i]);
	}
	rk_jw_end(&w);
	put(out, key, rk_str_text(&plain), &json);
}

struct rk_jw *rk_cell_json(struct rk_out *out, const char *key)
{
	out->pending_cell = cell(out, key);
	rk_str_reset(&out->pending);
	rk_jw_init(&out->jw, &out->pending, 0);
	return &out->jw;
}

void rk_out_note(struct rk_out *out, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	char *text = rk_xvasprintf(format, ap);
	va_end(ap);
	rk_str_add_lines(&out->notes, text); /* it may hold words of hosts */
	rk_str_addc(&out->notes, '\n');
	free(text);
}

void rk_out_nothing(struct rk_out *out)
{
	out->nothing = true;
}

void rk_out_raw(struct rk_out *out, const char *text, size_t n)
{
	rk_str_addn(&out->raw, text, n);
}

/* ---- writers ------------------------------------------------------------------------------------------------------------------ */

static const struct rk_cell *at(const struct rk_out *out, size_t row, size_t column)
{
	return &out->cells[row * out->n_columns + column];
}

void rk_out_json(const struct rk_out *out, FILE *to)
{
	fputs(out->command->list ? "[" : "", to);
	for (size_t r = 0; r < out->n_rows; r++) {
		fputs(r ? ",\n {" : "{", to);
		for (size_t c = 0; c < out->n_columns; c++)
			fprintf(to, "%s\"%s\":%s", c ? "," : "", out->columns[c].key, at(out, r, c)->json ? at(out, r, c)->json : "null");
		fputs("}", to);
	}
	fputs(out->command->list ? "]\n" : "\n", to);
}

static void csv_field(FILE *to, const char *text)
{
	bool quote = strpbrk(text, ",\"\r\n") != NULL;

	fputs(quote ? "\"" : "", to);
	for (const char *c = text; *c; c++)
		fputs((const char[]){ *c, *c == '"' ? '"' : '\0', '\0' }, to);
	fputs(quote ? "\"" : "", to);
}

void rk_out_csv(const struct rk_out *out, FILE *to)
{
	for (size_t c = 0; c < out->n_columns; c++)
		fprintf(to, "%s%s", c ? "," : "", out->columns[c].key);
	fputs("\n", to);
	for (size_t r = 0; r < out->n_rows; r++) {
		for (size_t c = 0; c < out->n_columns; c++) {
			fputs(c ? "," : "", to);
			csv_field(to, at(out, r, c)->plain ? at(out, r, c)->plain : "");
		}
		fputs("\n", to);
	}
}

void rk_out_lines(const struct rk_out *out, FILE *to)
{
	for (size_t r = 0; r < out->n_rows; r++)
		fprintf(to, "%s\n", out->n_columns && at(out, r, 0)->plain ? at(out, r, 0)->plain : "");
}
