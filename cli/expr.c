#include "cli/expr.h"

#include <ctype.h>
#include <string.h>

#include "inventory/base/mem.h"

enum { DEPTH_MAX = 32, VALUES_MAX = 100000, FOUND_SHOWN = 4 };

struct eval {
	const char *text, *at;
	const struct rk_jnode *root; /* NULL: form only */
	struct rk_str *found;
	int depth;
	struct rk_err *err;
};

enum op { OP_NONE, OP_EQ, OP_NE, OP_LE, OP_GE, OP_LT, OP_GT, OP_HAS };
enum quantifier { ALL, ANY, NONE };

static int or_expr(struct eval *e, bool *ret);

static void blanks(struct eval *e)
{
	e->at += strspn(e->at, " \t\r\n");
}

static bool take(struct eval *e, const char *sign)
{
	blanks(e);
	if (strncmp(e->at, sign, strlen(sign)) != 0)
		return false;
	e->at += strlen(sign);
	return true;
}

static int wrong(struct eval *e, const char *what)
{
	return rk_err_set(e->err, RK_INVALID, "%s at column %zu of \"%s\"", what, (size_t)(e->at - e->text) + 1, e->text);
}

/* ---- paths ------------------------------------------------------------------------------------------------------------------------ */

/* The nodes a path has reached so far; counts are numbers that no document holds. */
struct reached {
	const struct rk_jnode **items;
	size_t n, cap;
	bool counted;
	size_t count;
};

static void add(struct reached *r, const struct rk_jnode *node)
{
	if (r->n < VALUES_MAX)
		*rk_vec_push(r) = node;
}

static void step_key(const struct reached *from, const char *key, struct reached *to)
{
	for (size_t i = 0; i < from->n; i++) {
		const struct rk_jnode *node = from->items[i];
		if (node->type == RK_JOBJECT && rk_jget(node, key))
			add(to, rk_jget(node, key));
		RK_JEACH(it, node->type == RK_JARRAY ? node : NULL)
			if (rk_jget(it, key))
				add(to, rk_jget(it, key));
	}
}

static void step_index(const struct reached *from, size_t index, struct reached *to)
{
	for (size_t i = 0; i < from->n; i++) {
		size_t at = 0;
		RK_JEACH(it, from->items[i]->type == RK_JARRAY ? from->items[i] : NULL)
			if (at++ == index)
				add(to, it);
	}
}

static size_t count_of(const struct reached *r)
{
	bool one = r->n == 1 && (r->items[0]->type == RK_JARRAY || r->items[0]->type == RK_JOBJECT);

	return one ? r->items[0]->n : r->n;
}

static size_t key_length(const char *at)
{
	size_t n = 0;

	while (isalnum((unsigned char)at[n]) || at[n] == '_' || at[n] == '-')
		n++;
	return n;
}

static void replace(struct reached *r, struct reached *by)
{
	free(r->items);
	*r = *by;
}

static int one_step(struct eval *e, struct reached *r)
{
	struct reached next = { 0 };
	size_t n = key_length(e->at);

	if (*e->at == '[') {
		size_t digits = strspn(e->at + 1, "0123456789");
		if (!digits || digits > 8 || e->at[1 + digits] != ']')
			return wrong(e, "expected [NUMBER]");
		step_index(r, (size_t)strtoul(e->at + 1, NULL, 10), &next);
		e->at += digits + 2;
		replace(r, &next);
		return 0;
	}
	if (!n)
		return wrong(e, "expected a key");
	char *key RK_CLEANUP_FREE = rk_xstrndup(e->at, n);
	e->at += n;
	step_key(r, key, &next);
	if (!next.n && strcmp(key, "length") == 0) {
		r->counted = true;
		r->count = count_of(r);
		return 0;
	}
	replace(r, &next);
	return 0;
}

static int path(struct eval *e, struct reached *r)
{
	int rc;

	blanks(e);
	if (e->root)
		add(r, e->root);
	if (*e->at == '.')
		e->at++;
	rc = one_step(e, r);
	while (!rc && !r->counted && (*e->at == '.' || *e->at == '[')) {
		e->at += *e->at == '.';
		rc = one_step(e, r);
	}
	return rc;
}

/* ---- tests ------------------------------------------------------------------------------------------------------------------------ */

static enum op operator_of(struct eval *e)
{
	static const char *const signs[] = { [OP_EQ] = "==", [OP_NE] = "!=", [OP_LE] = "<=", [OP_GE] = ">=", [OP_LT] = "<", [OP_GT] = ">", [OP_HAS] = "~" };

	for (size_t i = OP_EQ; i < RK_ARRAY_SIZE(signs); i++)
		if (take(e, signs[i]))
			return (enum op)i;
	return OP_NONE;
}

static int literal(struct eval *e, struct rk_str *value, bool *ret_quoted)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:/@%+-[],";

	blanks(e);
	*ret_quoted = *e->at == '\'' || *e->at == '"';
	if (*ret_quoted) {
		char quote = *e->at;
		size_t n = strcspn(e->at + 1, quote == '"' ? "\"" : "'");
		if (e->at[1 + n] != quote)
			return wrong(e, "a quote that is not closed");
		rk_str_addn(value, e->at + 1, n);
		e->at += n + 2;
		return 0;
	}
	size_t n = strspn(e->at, plain);
	if (!n)
		return wrong(e, "expected a value");
	rk_str_addn(value, e->at, n);
	e->at += n;
	return 0;
}

static const char *text_of(const struct rk_jnode *node)
{
	if (node->text)
		return node->text;
	return node->type == RK_JBOOL ? node->boolean ? "true" : "false" : node->type == RK_JNULL ? "null" : node->n ? "(more)" : "(nothing in it)";
}

static bool truth(const char *text)
{
	double v;

	if (strcmp(text, "(nothing in it)") == 0)
		return false;
	if (rk_parse_double(text, &v))
		return v < 0 || v > 0;
	return *text && strcmp(text, "false") != 0 && strcmp(text, "null") != 0;
}

static int compare(struct eval *e, enum op op, const char *have, const char *want, bool quoted, bool *ret)
{
	double a = 0, b = 0;
	bool numbers = !quoted && rk_parse_double(have, &a) && rk_parse_double(want, &b);
	int order = numbers ? (a > b) - (a < b) : strcmp(have, want);

	if (op >= OP_LE && op <= OP_GT && !numbers)
		return rk_err_set(e->err, RK_INVALID, "\"%s\" and \"%s\" are not both numbers", have, want);
	const bool results[] = { [OP_NONE] = truth(have), [OP_EQ] = order == 0, [OP_NE] = order != 0, [OP_LE] = order <= 0, [OP_GE] = order >= 0,
				 [OP_LT] = order < 0, [OP_GT] = order > 0, [OP_HAS] = strstr(have, want) != NULL };
	*ret = results[op];
	return 0;
}

static void tell(struct eval *e, const struct reached *r)
{
	if (!e->found || !e->root)
		return;
	rk_str_add(e->found, e->found->len ? "; " : "");
	if (r->counted)
		rk_str_addf(e->found, "%zu", r->count);
	else if (!r->n)
		rk_str_add(e->found, "nothing");
	for (size_t i = 0; !r->counted && i < r->n && i < FOUND_SHOWN; i++)
		rk_str_addf(e->found, "%s%s", i ? ", " : "", text_of(r->items[i]));
	if (!r->counted && r->n > FOUND_SHOWN)
		rk_str_addf(e->found, ", ... (%zu values)", r->n);
}

static int judge(struct eval *e, const struct reached *r, enum quantifier quantifier, enum op op, const char *want, bool quoted, bool *ret)
{
	size_t n = r->counted ? 1 : r->n, held = 0;
	int rc = 0;

	for (size_t i = 0; !rc && i < n; i++) {
		char *count RK_CLEANUP_FREE = r->counted ? rk_xasprintf("%zu", r->count) : NULL;
		bool one = false;
		rc = compare(e, op, count ? count : text_of(r->items[i]), want, quoted, &one);
		held += one;
	}
	*ret = quantifier == ALL ? n && held == n : quantifier == ANY ? held > 0 : held == 0;
	return rc;
}

static enum quantifier quantifier_of(struct eval *e)
{
	static const char *const words[] = { [ALL] = "all", [ANY] = "any", [NONE] = "none" };

	blanks(e);
	for (size_t i = 0; i < RK_ARRAY_SIZE(words); i++) {
		size_t n = strlen(words[i]);
		if (strncmp(e->at, words[i], n) == 0 && (e->at[n] == ' ' || e->at[n] == '\t')) {
			e->at += n;
			return (enum quantifier)i;
		}
	}
	return ALL;
}

static int test(struct eval *e, bool *ret)
{
	struct rk_str want RK_CLEANUP_STR = RK_STR_INIT;
	struct reached r = { 0 };
	enum quantifier quantifier = quantifier_of(e);
	bool quoted = false;
	int rc = path(e, &r);
	enum op op = rc ? OP_NONE : operator_of(e);

	if (!rc && op != OP_NONE)
		rc = literal(e, &want, &quoted);
	if (!rc && e->root) {
		tell(e, &r);
		rc = judge(e, &r, quantifier, op, rk_str_text(&want), quoted, ret);
	}
	free(r.items);
	return rc;
}

static int not_expr(struct eval *e, bool *ret)
{
	bool negative = false;
	int rc;

	blanks(e);
	while (*e->at == '!' && e->at[1] != '=') {
		negative = !negative;
		e->at++;
		blanks(e);
	}
	if (take(e, "(")) {
		if (++e->depth > DEPTH_MAX)
			return wrong(e, "too many parentheses");
		rc = or_expr(e, ret);
		e->depth--;
		if (!rc && !take(e, ")"))
			rc = wrong(e, "expected )");
	} else {
		rc = test(e, ret);
	}
	*ret = *ret != negative;
	return rc;
}

static int and_expr(struct eval *e, bool *ret)
{
	int rc = not_expr(e, ret);

	while (!rc && take(e, "&&")) {
		bool more = false;
		rc = not_expr(e, &more);
		*ret = *ret && more;
	}
	return rc;
}

static int or_expr(struct eval *e, bool *ret)
{
	int rc = and_expr(e, ret);

	while (!rc && take(e, "||")) {
		bool more = false;
		rc = and_expr(e, &more);
		*ret = *ret || more;
	}
	return rc;
}

int rk_expr_holds(const char *text, const struct rk_jnode *root, bool *ret, struct rk_str *found, struct rk_err *err)
{
	struct eval e = { .text = text, .at = text, .root = root, .found = found, .err = err };
	int rc;

	*ret = false;
	rc = or_expr(&e, ret);
	blanks(&e);
	return !rc && *e.at ? wrong(&e, "one word too many") : rc;
}

int rk_expr_check(const char *text, struct rk_err *err)
{
	bool ignored;

	return rk_expr_holds(text, NULL, &ignored, NULL, err);
}
