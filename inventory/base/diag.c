#include "inventory/base/diag.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/mem.h"
#include "inventory/base/sort.h"

enum { DETAILS_MAX = 100 };

void rk_diags_clear(struct rk_diags *diags)
{
	for (size_t i = 0; i < diags->n; i++) {
		free(diags->items[i].message);
		free(diags->items[i].hint);
	}
	free(diags->items);
	*diags = (struct rk_diags)RK_DIAGS_INIT(diags->file);
}

__attribute__((format(printf, 4, 0))) static void add(struct rk_diags *diags, uint32_t line, uint32_t col, const char *format, va_list ap)
{
	struct rk_diag *d = rk_vec_push(diags);
	char *raw = rk_xvasprintf(format, ap);
	struct rk_str safe = RK_STR_INIT;

	/* Messages quote the file, and the file may hold anything. */
	rk_str_add_escaped(&safe, raw, strlen(raw));
	free(raw);
	d->line = line;
	d->col = col;
	d->message = rk_str_steal(&safe);
}

void rk_diag_at(struct rk_diags *diags, const struct rk_jnode *node, enum rk_diag_place place, const char *format, ...)
{
	va_list ap;
	bool key = place == RK_AT_KEY && node && node->key;

	va_start(ap, format);
	add(diags, node ? (key ? node->key_line : node->line) : 0, node ? (key ? node->key_col : node->col) : 0, format, ap);
	va_end(ap);
}

void rk_diag_line(struct rk_diags *diags, uint32_t line, uint32_t col, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	add(diags, line, col, format, ap);
	va_end(ap);
}

void rk_diag_hint(struct rk_diags *diags, const char *format, ...)
{
	va_list ap;
	struct rk_diag *d = &diags->items[diags->n - 1];

	va_start(ap, format);
	free(d->hint);
	d->hint = rk_xvasprintf(format, ap);
	va_end(ap);
}

static int by_place(const void *a, const void *b)
{
	const struct rk_diag *x = a, *y = b;

	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	if (x->col != y->col)
		return x->col < y->col ? -1 : 1;
	return strcmp(x->message, y->message);
}

/* An entry that stands for 64 racks has its problems once, not 64 times. */
static void drop_doubled(struct rk_diags *diags)
{
	size_t n = 0;

	for (size_t i = 0; i < diags->n; i++) {
		if (n && by_place(&diags->items[n - 1], &diags->items[i]) == 0) {
			free(diags->items[i].message);
			free(diags->items[i].hint);
		} else {
			diags->items[n++] = diags->items[i];
		}
	}
	diags->n = n;
}

static char *placed(const struct rk_diags *diags, const struct rk_diag *d, bool with_hint)
{
	struct rk_str s = RK_STR_INIT;

	rk_str_add(&s, diags->file);
	if (d->line)
		rk_str_addf(&s, ":%u:%u", d->line, d->col);
	rk_str_addf(&s, ": %s", d->message);
	if (with_hint && d->hint)
		rk_str_addf(&s, " (%s)", d->hint);
	return rk_str_steal(&s);
}

int rk_diags_result(struct rk_diags *diags, struct rk_err *err)
{
	if (!diags->n)
		return 0;
	rk_sort(diags->items, diags->n, sizeof(*diags->items), by_place);
	drop_doubled(diags);
	char *first RK_CLEANUP_FREE = placed(diags, &diags->items[0], false);
	rk_err_set(err, RK_INVALID, "%s", first);
	if (diags->items[0].hint)
		rk_err_hint(err, "%s", diags->items[0].hint);
	if (diags->n == 1)
		return RK_INVALID;
	for (size_t i = 0; i < diags->n && i < DETAILS_MAX; i++) {
		char *text RK_CLEANUP_FREE = placed(diags, &diags->items[i], true);
		rk_err_detail(err, "%s", text);
	}
	if (diags->n > DETAILS_MAX)
		rk_err_detail(err, "and %zu more problems", diags->n - DETAILS_MAX);
	return RK_INVALID;
}

static const struct rk_jfield *field_of(const char *key, const struct rk_jfield *fields, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(fields[i].key, key) == 0)
			return &fields[i];
	return NULL;
}

static void unknown_key(struct rk_diags *diags, const struct rk_jnode *it, const char *what, const struct rk_jfield *fields, size_t n)
{
	const char **names RK_CLEANUP_FREE = rk_xcalloc(n, sizeof(*names));

	for (size_t i = 0; i < n; i++)
		names[i] = fields[i].key;
	rk_diag_at(diags, it, RK_AT_KEY, "unknown key \"%s\" in %s", it->key, what);
	const char *near = rk_near_name(it->key, names, n);
	if (near)
		rk_diag_hint(diags, "did you mean \"%s\"?", near);
}

bool rk_diag_fields(struct rk_diags *diags, const struct rk_jnode *node, const char *what, const struct rk_jfield *fields, size_t n)
{
	if (!node || node->type != RK_JOBJECT) {
		rk_diag_at(diags, node, RK_AT_VALUE, "%s must be an object, not %s", what, node ? rk_jtype_name(node->type) : "absent");
		return false;
	}
	RK_JEACH(it, node) {
		const struct rk_jfield *f = field_of(it->key, fields, n);
		if (!f)
			unknown_key(diags, it, what, fields, n);
		else if (f->type != it->type)
			rk_diag_at(diags, it, RK_AT_VALUE, "\"%s\" must be %s, not %s", it->key, rk_jtype_name(f->type), rk_jtype_name(it->type));
	}
	for (size_t i = 0; i < n; i++)
		if (fields[i].required && !rk_jget(node, fields[i].key))
			rk_diag_at(diags, node, RK_AT_VALUE, "%s needs the key \"%s\"", what, fields[i].key);
	return true;
}
