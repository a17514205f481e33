#include "provision/health/own.h"

#include <stdio.h>
#include <string.h>

#include "provision/health/parse.h"

enum { SECONDS_MAX = 86400, WORDS_MAX = 64, ROWS_MAX = 1024, PATH_PARTS_MAX = 12, MEMBERS_MAX = 256 };

static bool name_ok(const char *name)
{
	size_t n = strlen(name);

	return n > 0 && n < 64 && *name != '-' && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

static void read_metrics(const struct rk_jnode *node, struct rk_arena *arena, struct rk_diags *diags, struct rk_own_collector *ret)
{
	if (!node)
		return;
	ret->metrics = rk_arena_array(arena, node->n + 1, sizeof(*ret->metrics));
	RK_JMEMBERS(item, node) {
		const char *where = rk_jstr(item);
		if (!where)
			rk_diag_at(diags, item, RK_AT_VALUE, "expected a path or the name of a column, found %s", rk_jtype_name(item->type));
		else
			ret->metrics[ret->n_metrics++] = (struct rk_own_metric){ rk_arena_strdup(arena, item->key), rk_arena_strdup(arena, where) };
	}
	if (!ret->n_metrics)
		rk_diag_at(diags, node, RK_AT_VALUE, "a collector without metrics measures nothing");
}

void rk_own_read(const struct rk_jnode *node, struct rk_arena *arena, struct rk_diags *diags, struct rk_own_collector *ret)
{
	static const struct rk_jfield fields[] = { { "command", RK_JSTRING, true }, { "parse", RK_JSTRING, true }, { "metrics", RK_JOBJECT, true },
						   { "seconds", RK_JNUMBER, false } };
	static const char *const parsers[] = { "json", "table", "number" };
	uint64_t seconds = 0;
	bool known = false;

	if (!name_ok(node->key))
		rk_diag_at(diags, node, RK_AT_KEY, "the name of a collector is made of small letters, digits and '-'");
	if (rk_collector_find(node->key))
		rk_diag_at(diags, node, RK_AT_KEY, "\"%s\" is a built-in collector", node->key);
	ret->base.name = rk_arena_strdup(arena, node->key);
	if (!rk_diag_fields(diags, node, "collector", fields, RK_ARRAY_SIZE(fields)))
		return;
	ret->base.command = rk_arena_strdup(arena, rk_jstr(rk_jget(node, "command")));
	ret->parse = rk_arena_strdup(arena, rk_jstr(rk_jget(node, "parse")));
	for (size_t i = 0; ret->parse && i < RK_ARRAY_SIZE(parsers); i++)
		known |= strcmp(parsers[i], ret->parse) == 0;
	if (!known)
		rk_diag_at(diags, rk_jget(node, "parse"), RK_AT_VALUE, "unknown parser: json, table or number");
	if (rk_jget(node, "seconds") && (!rk_ju64(rk_jget(node, "seconds"), &seconds) || seconds > SECONDS_MAX))
		rk_diag_at(diags, rk_jget(node, "seconds"), RK_AT_VALUE, "expected seconds up to a day");
	ret->base.seconds = (int)seconds;
	read_metrics(rk_jget(node, "metrics"), arena, diags, ret);
}

static void set_node(struct rk_metrics *m, const char *name, const char *label, const struct rk_jnode *node)
{
	double v;

	if (!node || node->type == RK_JNULL)
		rk_metric_absent(m, name, label, node ? "null" : "not in the output");
	else if (rk_jdouble(node, &v))
		rk_metric_number(m, name, label, v);
	else if (node->type == RK_JBOOL)
		rk_metric_text(m, name, label, node->boolean ? "true" : "false");
	else if (rk_jstr(node))
		rk_metric_value(m, name, label, rk_jstr(node), false);
	else
		rk_metric_absent(m, name, label, "no single value");
}

static const struct rk_jnode *member(const struct rk_jnode *node, const char *part)
{
	uint64_t at;

	if (!node || node->type != RK_JARRAY || !rk_parse_u64(part, &at))
		return rk_jget(node, part);
	const struct rk_jnode *item = node->child;
	for (; item && at; at--)
		item = item->next;
	return item;
}

/* Follows the parts of a path; at '*' once for every member, whose key or place becomes the label. */
static void follow(struct rk_metrics *m, const char *name, const char *const *parts, size_t n, const char *label, const struct rk_jnode *node)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(parts[i], "*") != 0) {
			node = member(node, parts[i]);
			continue;
		}
		int at = 0;
		RK_JEACH(item, node) {
			const char *own = item->key ? rk_labelf(m, "%s%s%.40s", label, *label ? "," : "", item->key) : rk_labelf(m, "%s%s%d", label, *label ? "," : "", at);
			m->full |= at == MEMBERS_MAX;
			if (at++ < MEMBERS_MAX)
				follow(m, name, parts + i + 1, n - i - 1, own, item);
		}
		if (at == 0)
			rk_metric_absent(m, name, label, "not in the output");
		return;
	}
	set_node(m, name, label, node);
}

struct reading {
	const struct rk_own_collector *collector;
	struct rk_metrics *m;
};

static void document(void *ctx, const struct rk_jnode *root)
{
	struct reading *r = ctx;

	for (size_t i = 0; i < r->collector->n_metrics; i++) {
		char *copy = rk_arena_strdup(r->m->arena, r->collector->metrics[i].where), *save = NULL;
		const char *parts[PATH_PARTS_MAX];
		size_t n = 0;
		for (char *part = strtok_r(copy, "/", &save); part && n < PATH_PARTS_MAX; part = strtok_r(NULL, "/", &save))
			parts[n++] = part;
		follow(r->m, r->collector->metrics[i].name, parts, n, "", root);
	}
}

static size_t split(char *line, char **words)
{
	char *save = NULL;
	size_t n = 0;

	for (char *word = strtok_r(line, " \t|", &save); word && n < WORDS_MAX; word = strtok_r(NULL, " \t|", &save))
		words[n++] = word;
	return n;
}

/* Places of the columns in a head line; false when one is missing. */
static bool find_columns(const struct rk_own_collector *c, char **words, size_t n, size_t *ret)
{
	for (size_t i = 0; i < c->n_metrics; i++) {
		size_t at = 0;
		while (at < n && strcmp(words[at], c->metrics[i].where) != 0)
			at++;
		if (at == n)
			return false;
		ret[i] = at;
	}
	return c->n_metrics > 0;
}

static void table(const struct rk_own_collector *c, const struct rk_evidence *evidence, struct rk_metrics *m)
{
	char *at = rk_clean(m->arena, evidence->out, evidence->out_len), *line, *words[WORDS_MAX];
	size_t *columns = rk_arena_array(m->arena, c->n_metrics + 1, sizeof(*columns)), rows = 0;
	bool head = false, cut = false;

	while ((line = rk_next_line(&at, &cut)) != NULL) {
		size_t n = split(rk_trim(line), words);
		double v;
		if (!head) {
			head = find_columns(c, words, n, columns);
			continue;
		}
		if (n == 0 || (cut && !rk_status_is(evidence, "0")))
			continue;
		/* A row that has no value says so; other lines are none. */
		bool any = false;
		for (size_t i = 0; i < c->n_metrics; i++)
			any |= columns[i] < n && (rk_lead_number(words[columns[i]], &v) || rk_no_value(words[columns[i]]));
		if (any && rows == ROWS_MAX) {
			m->full = true;
			return;
		}
		for (size_t i = 0; any && i < c->n_metrics; i++)
			rk_metric_value(m, c->metrics[i].name, rk_labelf(m, "%.60s", words[0]), columns[i] < n ? words[columns[i]] : "", true);
		rows += any;
	}
}

static void number(const struct rk_own_collector *c, const struct rk_evidence *evidence, struct rk_metrics *m)
{
	char *at = rk_clean(m->arena, evidence->out, evidence->out_len), *line;
	bool cut = false;
	double v, found = 0;
	int n = 0;

	while ((line = rk_next_line(&at, &cut)) != NULL) {
		if ((cut && !rk_status_is(evidence, "0")) || !rk_lead_number(rk_trim(line), &v))
			continue;
		found = v;
		n++;
	}
	/* "2 users are logged in" may have been the first. */
	if (n > 1)
		rk_metric_absent(m, c->metrics[0].name, "", "several lines begin with a number");
	else if (n)
		rk_metric_number(m, c->metrics[0].name, "", found);
}

void rk_own_parse(const struct rk_own_collector *c, const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	struct reading r = { c, ret };
	bool cut = false;

	if (strcmp(c->parse, "table") == 0)
		table(c, evidence, ret);
	else if (strcmp(c->parse, "number") == 0)
		number(c, evidence, ret);
	else if (rk_json_docs(ret, evidence, document, &r, &cut) == 0 && cut)
		rk_metric_absent(ret, c->metrics[0].name, "", "truncated");
}
