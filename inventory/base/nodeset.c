#include "inventory/base/nodeset.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/map.h"
#include "inventory/base/str.h"

/* ---- order ---------------------------------------------------------------------------------------------------------------- */

/* Compares the digit runs at *a and *b as numbers; equal numbers of different length: the shorter first. */
static int cmp_digits(const char **a, const char **b)
{
	const char *x = *a, *y = *b;
	size_t lx = strspn(x, "0123456789"), ly = strspn(y, "0123456789");

	*a += lx;
	*b += ly;
	size_t zx = strspn(x, "0"), zy = strspn(y, "0");
	zx = zx < lx ? zx : lx;
	zy = zy < ly ? zy : ly;
	if (lx - zx != ly - zy)
		return lx - zx < ly - zy ? -1 : 1;
	int d = memcmp(x + zx, y + zy, lx - zx);
	if (d)
		return d;
	return (lx > ly) - (lx < ly);
}

/* Brackets of folded texts are stepped over: r[01-02] sorts as r01 does. */
static int natural_cmp(const char *a, const char *b, bool folded)
{
	while (*a && *b) {
		if (folded) {
			a += *a == '[';
			b += *b == '[';
		}
		if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
			int d = cmp_digits(&a, &b);
			if (d)
				return d;
			continue;
		}
		if (*a != *b)
			return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
		a++;
		b++;
	}
	return (*a != 0) - (*b != 0);
}

int rk_natural_cmp(const char *a, const char *b)
{
	return natural_cmp(a, b, false);
}

static int by_folded(const void *a, const void *b)
{
	return natural_cmp(*(const char *const *)a, *(const char *const *)b, true);
}

static int by_name(const void *a, const void *b)
{
	return rk_natural_cmp(*(const char *const *)a, *(const char *const *)b);
}

void rk_nodeset_sort(struct rk_nodeset *set)
{
	size_t n = 0, sorted = 1;

	/* What an expression expands to is mostly in order already. */
	while (sorted < set->n && rk_natural_cmp(set->names[sorted - 1], set->names[sorted]) <= 0)
		sorted++;
	if (sorted < set->n)
		qsort(set->names, set->n, sizeof(*set->names), by_name);
	for (size_t i = 0; i < set->n; i++)
		if (!n || strcmp(set->names[n - 1], set->names[i]) != 0)
			set->names[n++] = set->names[i];
	set->n = n;
}

/* ---- parsing -------------------------------------------------------------------------------------------------------------- */

struct names {
	const char **items;
	size_t n, cap;
};

struct parser {
	const char *text, *at;
	struct rk_arena *arena;
	struct rk_err *err;
	rk_group_fn *group;
	void *ctx;
};

static int fail_at(struct parser *p, const char *where, const char *what)
{
	struct rk_str safe RK_CLEANUP_STR = RK_STR_INIT;

	rk_str_add_escaped(&safe, p->text, strnlen(p->text, 200));
	return rk_err_set(p->err, RK_INVALID, "%s at column %zu of \"%s\"", what, (size_t)(where - p->text) + 1, rk_str_text(&safe));
}

struct number {
	unsigned long value;
	size_t digits;
};

static int parse_number(struct parser *p, struct number *ret)
{
	size_t len = strspn(p->at, "0123456789");

	if (!len)
		return fail_at(p, p->at, "a number is expected");
	if (len > 9)
		return fail_at(p, p->at, "a number of more than 9 digits");
	ret->value = strtoul(p->at, NULL, 10);
	ret->digits = len;
	p->at += len;
	return 0;
}

struct range {
	unsigned long from, to, step;
	int width; /* zero padding, 0 = none */
};

/* a, a-b or a-b/step; padding is told by a leading zero, and both ends must agree on it. */
static int parse_range(struct parser *p, struct range *ret)
{
	const char *start = p->at;
	struct number a, b, step = { 1, 1 };
	int rc = parse_number(p, &a);

	b = a;
	if (!rc && *p->at == '-') {
		p->at++;
		rc = parse_number(p, &b);
		if (!rc && *p->at == '/') {
			p->at++;
			rc = parse_number(p, &step);
		}
	}
	if (rc)
		return rc;
	bool pad_a = a.digits > 1 && start[0] == '0', pad_b = b.digits > a.digits && b.value < 1000000000 && start[a.digits + 1] == '0';
	if ((pad_a || pad_b) && a.digits != b.digits)
		return fail_at(p, start, "mixed zero padding in a range");
	if (b.value < a.value)
		return fail_at(p, start, "a range that runs backwards");
	if (!step.value)
		return fail_at(p, start, "a step of 0");
	*ret = (struct range){ a.value, b.value, step.value, a.digits > 1 && a.digits == b.digits ? (int)a.digits : 0 };
	return 0;
}

/* Appends every name x range element to *names. */
static int multiply(struct parser *p, struct names *names, const char *where, const struct range *ranges, size_t n_ranges)
{
	struct names out = { 0 };
	size_t total = 0;

	for (size_t r = 0; r < n_ranges; r++)
		total += (ranges[r].to - ranges[r].from) / ranges[r].step + 1;
	if (!total || total > RK_NODESET_MAX || names->n > RK_NODESET_MAX / total)
		return fail_at(p, where, "more names than 2000000");
	out.cap = names->n * total;
	out.items = rk_xreallocarray(NULL, out.cap, sizeof(*out.items));
	for (size_t i = 0; i < names->n; i++)
		for (size_t r = 0; r < n_ranges; r++)
			for (unsigned long v = ranges[r].from; v <= ranges[r].to; v += ranges[r].step)
				out.items[out.n++] = rk_arena_printf(p->arena, "%s%0*lu", names->items[i], ranges[r].width, v);
	free(names->items);
	*names = out;
	return 0;
}

static int parse_brackets(struct parser *p, struct names *names)
{
	struct {
		struct range *items;
		size_t n, cap;
	} ranges = { 0 };
	const char *start = p->at++;
	int rc = 0;

	for (;;) {
		rc = parse_range(p, rk_vec_push(&ranges));
		if (rc || *p->at != ',')
			break;
		p->at++;
	}
	if (!rc && *p->at != ']')
		rc = fail_at(p, start, "a bracket that is not closed");
	if (!rc) {
		p->at++;
		rc = multiply(p, names, start, ranges.items, ranges.n);
	}
	free(ranges.items);
	return rc;
}

static bool is_literal(char c)
{
	return c && !strchr(",!&^[]@ \t\r\n", c) && (unsigned char)c > 0x20;
}

static int parse_group(struct parser *p, struct names *out)
{
	const char *start = p->at++;
	struct rk_nodeset set = { 0 };

	while (is_literal(*p->at))
		p->at++;
	if (p->at == start + 1)
		return fail_at(p, start, "an empty group name");
	char *name = rk_arena_strndup(p->arena, start + 1, (size_t)(p->at - start - 1));
	if (!p->group)
		return fail_at(p, start, "groups are not known here");
	int rc = p->group(p->ctx, name, p->arena, &set, p->err);
	if (rc)
		return rc;
	for (size_t i = 0; i < set.n; i++)
		*rk_vec_push(out) = set.names[i];
	return 0;
}

static int parse_item(struct parser *p, struct rk_nodeset *ret)
{
	struct names names = { 0 };
	const char *start = p->at;
	int rc = 0;

	if (*p->at == '@') {
		rc = parse_group(p, &names);
	} else {
		*rk_vec_push(&names) = "";
		while (!rc && (is_literal(*p->at) || *p->at == '[')) {
			if (*p->at == '[') {
				rc = parse_brackets(p, &names);
				continue;
			}
			const char *literal = p->at;
			while (is_literal(*p->at))
				p->at++;
			for (size_t i = 0; i < names.n; i++)
				names.items[i] = rk_arena_printf(p->arena, "%s%.*s", names.items[i], (int)(p->at - literal), literal);
		}
		if (!rc && p->at == start)
			rc = fail_at(p, start, "a name is expected");
	}
	ret->names = rk_arena_array(p->arena, names.n, sizeof(*names.items));
	if (names.n)
		memcpy(ret->names, names.items, names.n * sizeof(*names.items));
	ret->n = names.n;
	free(names.items);
	return rc;
}

/* ---- set algebra ---------------------------------------------------------------------------------------------------------- */

/* Which of (only in a, in both, only in b) an operator keeps. ',' is no row: unions are joined unsorted and sorted once at the end,
 * so that long comma lists stay linear. */
static const struct {
	char op;
	bool a, both, b;
} operators[] = { { '!', true, false, false }, { '&', false, true, false }, { '^', true, false, true } };

static void combine(size_t op, struct names *names, struct rk_nodeset *b)
{
	struct rk_nodeset a = { names->items, names->n };
	struct names out = { 0 };
	size_t i = 0, j = 0;

	rk_nodeset_sort(&a);
	rk_nodeset_sort(b);
	while (i < a.n || j < b->n) {
		int d = i == a.n ? 1 : j == b->n ? -1 : rk_natural_cmp(a.names[i], b->names[j]);
		bool keep = d < 0 ? operators[op].a : d > 0 ? operators[op].b : operators[op].both;
		if (keep)
			*rk_vec_push(&out) = d <= 0 ? a.names[i] : b->names[j];
		i += d <= 0;
		j += d >= 0;
	}
	free(names->items);
	*names = out;
}

static int parse_operand(struct parser *p, struct names *names)
{
	char op = *p->at;
	const char *start = p->at++;
	struct rk_nodeset next;
	size_t row = 0;

	while (row < RK_ARRAY_SIZE(operators) && operators[row].op != op)
		row++;
	if (row == RK_ARRAY_SIZE(operators) && op != ',')
		return fail_at(p, start, "an unexpected character");
	int rc = parse_item(p, &next);
	if (rc)
		return rc;
	if (op != ',') {
		combine(row, names, &next);
		return 0;
	}
	if (names->n + next.n > RK_NODESET_MAX)
		return fail_at(p, start, "more names than 2000000");
	for (size_t i = 0; i < next.n; i++)
		*rk_vec_push(names) = next.names[i];
	return 0;
}

int rk_nodeset_parse(const char *text, rk_group_fn *group, void *ctx, struct rk_arena *arena, struct rk_nodeset *ret, struct rk_err *err)
{
	struct parser p = { text, text, arena, err, group, ctx };
	struct rk_nodeset set = { 0 };
	struct names names = { 0 };
	int rc = parse_item(&p, &set);

	for (size_t i = 0; !rc && i < set.n; i++)
		*rk_vec_push(&names) = set.names[i];
	while (!rc && *p.at)
		rc = parse_operand(&p, &names);
	if (!rc) {
		set = (struct rk_nodeset){ rk_arena_array(arena, names.n, sizeof(char *)), names.n };
		if (names.n)
			memcpy(set.names, names.items, names.n * sizeof(char *));
		rk_nodeset_sort(&set);
		*ret = set;
		if (!set.n)
			rc = rk_err_set(err, RK_NOT_FOUND, "the selection \"%s\" is empty", text);
	}
	free(names.items);
	return rc;
}

/* ---- folding -------------------------------------------------------------------------------------------------------------- */

/* A name split at its last number: prefix, digits, suffix. Names with the same prefix, suffix and padding fold to one bracket; then
 * the texts so made are folded again at the number before, so that racks with equal tray sets join. */
struct piece {
	const char *prefix, *suffix, *body; /* body: what stands in the brackets, once folded */
	unsigned long value;
	int width;
	bool numeric;
};

/* The run of digits that ends before limit, outside brackets; NULL when there is none. */
static const char *last_digits(const char *s, const char *limit, size_t *ret_len)
{
	const char *end = limit;
	int depth = 0;

	while (end > s) {
		char c = end[-1];
		if (c == ']')
			depth++;
		else if (c == '[')
			depth--;
		else if (!depth && isdigit((unsigned char)c))
			break;
		end--;
	}
	const char *start = end;
	while (start > s && isdigit((unsigned char)start[-1]))
		start--;
	*ret_len = (size_t)(end - start);
	return start < end ? start : NULL;
}

static struct piece split(struct rk_arena *arena, const char *name, int level)
{
	size_t len = 0;
	const char *limit = name + strlen(name), *digits = NULL;

	for (int i = 0; i <= level; i++) {
		digits = last_digits(name, limit, &len);
		if (!digits)
			break;
		limit = digits;
	}
	if (!digits || len > 9)
		return (struct piece){ .prefix = name, .suffix = "" };
	struct piece p = { .numeric = true };
	p.prefix = rk_arena_strndup(arena, name, (size_t)(digits - name));
	p.suffix = rk_arena_strdup(arena, digits + len);
	p.value = strtoul(digits, NULL, 10);
	/* "07" and "12" share the width 2; "7" and "12" have none. A number without leading zero may belong to either. */
	p.width = len > 1 ? (int)len : 0;
	return p;
}

static int by_piece(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;
	int d = rk_natural_cmp(x->prefix, y->prefix);

	if (!d)
		d = strcmp(x->suffix, y->suffix);
	if (!d)
		d = (x->width > y->width) - (x->width < y->width);
	if (!d)
		d = (x->value > y->value) - (x->value < y->value);
	return d;
}

static bool same_group(const struct piece *a, const struct piece *b)
{
	return a->numeric && b->numeric && a->width == b->width && strcmp(a->prefix, b->prefix) == 0 && strcmp(a->suffix, b->suffix) == 0;
}

/* "01-03,07" of the values of pieces[0..n). */
static void add_ranges(struct rk_str *out, const struct piece *pieces, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t j = i;
		while (j + 1 < n && pieces[j + 1].value <= pieces[j].value + 1)
			j++;
		rk_str_addf(out, "%s%0*lu", i ? "," : "", pieces[i].width, pieces[i].value);
		if (pieces[j].value > pieces[i].value)
			rk_str_addf(out, "-%0*lu", pieces[j].width, pieces[j].value);
		i = j + 1;
	}
}

/* Numbers that continue 09 as 10 have the same digits count and so the same width; 9 and 10 do not: then padding is dropped for
 * numbers without a leading zero, so that r9,r10 still fold to r[9-10]. */
static void relax_width(struct piece *pieces, const char *const *names, size_t n)
{
	struct rk_map *padded RK_CLEANUP_MAP = rk_map_new();

	for (size_t i = 0; i < n; i++) {
		const char *at = names[i] + strlen(pieces[i].prefix);
		if (pieces[i].numeric && pieces[i].width && *at == '0')
			rk_map_set(padded, pieces[i].prefix, 1);
	}
	for (size_t i = 0; i < n; i++)
		if (pieces[i].numeric && !rk_map_get(padded, pieces[i].prefix, NULL))
			pieces[i].width = 0;
}

/* One folding pass over the number `level` places from the right; texts in and out. */
static size_t fold_level(struct rk_arena *arena, const char **names, size_t n, int level)
{
	struct piece *pieces = rk_xcalloc(n, sizeof(*pieces));
	size_t out = 0;

	for (size_t i = 0; i < n; i++)
		pieces[i] = split(arena, names[i], level);
	relax_width(pieces, names, n);
	qsort(pieces, n, sizeof(*pieces), by_piece);
	for (size_t i = 0; i < n;) {
		size_t j = i + 1;
		while (j < n && same_group(&pieces[i], &pieces[j]))
			j++;
		struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
		rk_str_add(&text, pieces[i].prefix);
		if (pieces[i].numeric) {
			bool one = pieces[j - 1].value == pieces[i].value;
			rk_str_add(&text, one ? "" : "[");
			add_ranges(&text, pieces + i, j - i);
			rk_str_add(&text, one ? "" : "]");
		}
		rk_str_add(&text, pieces[i].suffix);
		names[out++] = rk_arena_strdup(arena, rk_str_text(&text));
		i = j;
	}
	free(pieces);
	return out;
}

enum { FOLD_LEVELS = 4 };

const char *rk_nodeset_fold(struct rk_arena *arena, const char *const *names, size_t n)
{
	struct rk_arena *scratch RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_nodeset set = { rk_arena_array(scratch, n, sizeof(char *)), n };
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	if (!n)
		return "";
	memcpy(set.names, names, n * sizeof(char *));
	rk_nodeset_sort(&set);
	/* After a pass the folded number sits in brackets, so the next number from the right is again at level 0; numbers that stayed
	 * alone are not in brackets and are passed over by a higher level. */
	for (int level = 0; level < FOLD_LEVELS; level++) {
		set.n = fold_level(scratch, set.names, set.n, 0);
		set.n = fold_level(scratch, set.names, set.n, 1);
	}
	qsort(set.names, set.n, sizeof(*set.names), by_folded);
	for (size_t i = 0; i < set.n; i++)
		rk_str_addf(&text, "%s%s", i ? "," : "", set.names[i]);
	return rk_arena_strdup(arena, rk_str_text(&text));
}
