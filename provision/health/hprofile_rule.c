/* Rules of a profile and of what it inherits: every key from the nearest document that names it. */
#include <string.h>

#include "inventory/base/str.h"
#include "provision/health/hprofile.h"

static const char *const compares[] = { "==", "!=", "<", "<=", ">", ">=", "in", "between", "present", "count", "delta", "growth", "all-equal", "outlier",
					"pkey-member", "pkey-only", "same-as", "same-branch" };
static const char *const scopes[] = { "target", "rack", "cluster", "domain", "all" };
static const char *const sides[] = { "low", "high" };
static const char *const effects[] = { "fail", "warn", "cordon" };
static const char *const severities[] = { "info", "warning", "error", "critical" };
static const char *const expects[] = { "gpus", "rails", "rate_gbps", "nvlink_partition", "cluster_uuid", "pkeys", "port_guids", "leaves" };
static const char *const whens[] = { "multi-node" };
static const char *const pers[] = { "minute", "hour" };
static const char *const eachs[] = { "gpus", "rails" };
static const char *const kinds[] = { "vm", "tray", "switch" };

/* Text keys of a rule: where they go, and the words they may hold. */
static const struct {
	const char *key;
	size_t offset;
	const char *const *words;
	size_t n_words;
	const char *otherwise;
} text_keys[] = {
	{ "metric", offsetof(struct rk_rule, metric), NULL, 0, NULL },
	{ "compare", offsetof(struct rk_rule, compare), compares, RK_ARRAY_SIZE(compares), "==" },
	{ "expect", offsetof(struct rk_rule, expect), expects, RK_ARRAY_SIZE(expects), NULL },
	{ "of", offsetof(struct rk_rule, of), NULL, 0, NULL },
	{ "scope", offsetof(struct rk_rule, scope), scopes, RK_ARRAY_SIZE(scopes), "target" },
	{ "side", offsetof(struct rk_rule, side), sides, RK_ARRAY_SIZE(sides), "low" },
	{ "effect", offsetof(struct rk_rule, effect), effects, RK_ARRAY_SIZE(effects), "fail" },
	{ "severity", offsetof(struct rk_rule, severity), severities, RK_ARRAY_SIZE(severities), "error" },
	{ "after", offsetof(struct rk_rule, after), NULL, 0, NULL },
	{ "when", offsetof(struct rk_rule, when), whens, RK_ARRAY_SIZE(whens), NULL },
	{ "kind", offsetof(struct rk_rule, kind), kinds, RK_ARRAY_SIZE(kinds), NULL },
	{ "per", offsetof(struct rk_rule, per), pers, RK_ARRAY_SIZE(pers), NULL },
	{ "each", offsetof(struct rk_rule, each), eachs, RK_ARRAY_SIZE(eachs), NULL },
	{ "cause", offsetof(struct rk_rule, cause), NULL, 0, NULL },
	{ "message", offsetof(struct rk_rule, message), NULL, 0, NULL },
	{ "hint", offsetof(struct rk_rule, hint), NULL, 0, NULL },
	{ "source", offsetof(struct rk_rule, source), NULL, 0, NULL },
};
static const char *const other_keys[] = { "level", "collector", "value", "warn", "warn_values", "unknown_values", "skip_values", "steps", "factor", "tolerance",
					  "floor", "grace", "strikes", "required", "optional" };

/* The value of a key of a rule: of the first document that names it; null counts as absent. */
static const struct rk_jnode *rule_key(const struct rk_chain *c, const char *id, const char *key, size_t *ret_doc)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct rk_jnode *node = rk_jget(rk_jget(rk_jget(rk_chain_root(c, i), "rules"), id), key);
		*ret_doc = i;
		if (node)
			return node->type == RK_JNULL ? NULL : node;
	}
	return NULL;
}

static void read_value(struct rk_arena *arena, struct rk_diags *diags, const struct rk_jnode *node, struct rk_rule *rule)
{
	if (!node)
		return;
	if (node->type == RK_JNUMBER) {
		rule->n_numbers = rk_jdouble(node, &rule->numbers[0]);
		return;
	}
	if (node->type == RK_JARRAY && node->child && node->child->type == RK_JNUMBER) {
		RK_JEACH(item, node) {
			double v;
			if (item->type == RK_JNUMBER && rk_jdouble(item, &v) && rule->n_numbers < 2)
				rule->numbers[rule->n_numbers++] = v;
			else
				rk_diag_at(diags, item, RK_AT_VALUE, "expected two numbers");
		}
		return;
	}
	rk_hprofile_texts(arena, diags, node, &rule->values);
}

static void read_steps(struct rk_arena *arena, struct rk_diags *diags, const struct rk_jnode *node, struct rk_rule *rule)
{
	static const struct rk_jfield fields[] = { { "up_to", RK_JNUMBER, true }, { "value", RK_JNUMBER, true }, { "warn", RK_JNUMBER, false } };

	if (!node)
		return;
	if (node->type != RK_JARRAY) {
		rk_diag_at(diags, node, RK_AT_VALUE, "expected an array of steps");
		return;
	}
	rule->steps = rk_arena_array(arena, node->n + 1, sizeof(*rule->steps));
	RK_JEACH(item, node) {
		struct rk_step *step = &rule->steps[rule->n_steps++];
		if (!rk_diag_fields(diags, item, "step", fields, RK_ARRAY_SIZE(fields)))
			continue;
		rk_jdouble(rk_jget(item, "up_to"), &step->up_to);
		rk_jdouble(rk_jget(item, "value"), &step->value);
		step->has_warn = rk_jdouble(rk_jget(item, "warn"), &step->warn);
	}
}

static void read_text_keys(struct rk_chain *c, struct rk_arena *arena, struct rk_rule *rule)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(text_keys); i++) {
		size_t doc;
		const struct rk_jnode *node = rule_key(c, rule->id, text_keys[i].key, &doc);
		const char **field = (const char **)((char *)rule + text_keys[i].offset);
		*field = text_keys[i].otherwise;
		if (!node)
			continue;
		if (node->type != RK_JSTRING) {
			rk_diag_at(&c->diags[doc], node, RK_AT_VALUE, "\"%s\" is %s, expected a text", text_keys[i].key, rk_jtype_name(node->type));
			continue;
		}
		*field = rk_arena_strdup(arena, node->text);
		bool known = text_keys[i].n_words == 0;
		for (size_t k = 0; k < text_keys[i].n_words; k++)
			known |= strcmp(text_keys[i].words[k], node->text) == 0;
		if (known)
			continue;
		const char *near = rk_near_name(node->text, text_keys[i].words, text_keys[i].n_words);
		rk_diag_at(&c->diags[doc], node, RK_AT_VALUE, "unknown %s \"%s\"", text_keys[i].key, node->text);
		if (near)
			rk_diag_hint(&c->diags[doc], "did you mean \"%s\"?", near);
	}
}

static void read_number(struct rk_chain *c, const struct rk_rule *rule, const char *key, double *ret, bool *ret_given)
{
	size_t doc;
	const struct rk_jnode *node = rule_key(c, rule->id, key, &doc);

	if (ret_given)
		*ret_given = node != NULL;
	if (node && (node->type != RK_JNUMBER || !rk_jdouble(node, ret)))
		rk_diag_at(&c->diags[doc], node, RK_AT_VALUE, "\"%s\" is %s, expected a number", key, rk_jtype_name(node->type));
}

static void read_bool(struct rk_chain *c, const struct rk_rule *rule, const char *key, bool *ret)
{
	size_t doc;
	const struct rk_jnode *node = rule_key(c, rule->id, key, &doc);

	if (node && !rk_jbool(node, ret))
		rk_diag_at(&c->diags[doc], node, RK_AT_VALUE, "\"%s\" is %s, expected true or false", key, rk_jtype_name(node->type));
}

static const struct {
	const char *key;
	size_t offset;
} number_keys[] = {
	{ "factor", offsetof(struct rk_rule, factor) }, { "tolerance", offsetof(struct rk_rule, tolerance) },
	{ "floor", offsetof(struct rk_rule, floor) },   { "grace", offsetof(struct rk_rule, grace) },
	{ "strikes", offsetof(struct rk_rule, strikes) },
};

static bool compare_is(const struct rk_rule *rule, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(words[i], rule->compare) == 0)
			return true;
	}
	return false;
}

/* Keys that only make sense together. */
static void check_rule(const struct rk_rule *rule, struct rk_diags *diags, const struct rk_jnode *at)
{
	static const char *const with_value[] = { "==", "!=", "<", "<=", ">", ">=", "in", "between", "count", "delta", "growth" };
	static const char *const scoped[] = { "all-equal", "outlier" };
	const struct {
		bool wrong;
		const char *says;
	} rows[] = {
		{ !rule->metric, "has no metric" },
		{ !rule->collectors.n, "has no collector" },
		{ compare_is(rule, with_value, RK_ARRAY_SIZE(with_value)) && !rule->expect && !rule->n_numbers && !rule->values.n && !rule->n_steps && !rule->of,
		  "compares with nothing: give value, expect, steps or of" },
		{ rk_starts_with(rule->compare, "same-") && !rule->of, "needs the metric to compare with in \"of\"" },
		{ strcmp(rule->compare, "between") == 0 && rule->n_numbers != 2, "needs two numbers in \"value\"" },
		{ strcmp(rule->compare, "between") == 0 && rule->n_numbers == 2 && rule->numbers[0] > rule->numbers[1], "is between a number and a smaller one" },
		{ rule->per && strcmp(rule->compare, "growth") != 0, "has \"per\", which is for growth only" },
		{ rule->n_steps && !rule->of, "has steps but no metric in \"of\" to choose one by" },
		{ strcmp(rule->scope, "target") != 0 && !compare_is(rule, scoped, RK_ARRAY_SIZE(scoped)),
		  "has a scope, which is for all-equal and outlier only" },
		{ rule->each && compare_is(rule, scoped, RK_ARRAY_SIZE(scoped)), "has \"each\", which all-equal and outlier do not look at" },
		{ strcmp(rule->compare, "outlier") == 0 && !(rule->tolerance > 0) && !(rule->floor > 0), "needs a tolerance or a floor" },
		{ rule->tolerance < 0 || rule->floor < 0 || rule->grace < 0 || rule->strikes < 0, "has a number below 0 where none can be" },
	};

	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		if (rows[i].wrong)
			rk_diag_at(diags, at, RK_AT_KEY, "rule \"%s\" %s", rule->id, rows[i].says);
	}
}

static void read_rule(struct rk_chain *c, const struct rk_hprofile *p, const char *id, const struct rk_jnode *at, size_t at_doc, struct rk_rule *rule)
{
	struct rk_arena *arena = p->arena;
	size_t doc;

	rule->id = rk_arena_strdup(arena, id);
	rule->required = true;
	rule->factor = 1;
	read_text_keys(c, arena, rule);
	const struct rk_jnode *node = rule_key(c, id, "collector", &doc);
	rk_hprofile_texts(arena, &c->diags[doc < c->n ? doc : 0], node, &rule->collectors);
	if (node)
		rk_hprofile_check_collectors(p, &c->diags[doc], node, &rule->collectors);
	node = rule_key(c, id, "value", &doc);
	read_value(arena, &c->diags[doc], node, rule);
	node = rule_key(c, id, "warn_values", &doc);
	rk_hprofile_texts(arena, &c->diags[doc], node, &rule->warn_values);
	node = rule_key(c, id, "unknown_values", &doc);
	rk_hprofile_texts(arena, &c->diags[doc], node, &rule->unknown_values);
	node = rule_key(c, id, "skip_values", &doc);
	rk_hprofile_texts(arena, &c->diags[doc], node, &rule->skip_values);
	node = rule_key(c, id, "steps", &doc);
	read_steps(arena, &c->diags[doc], node, rule);
	node = rule_key(c, id, "level", &doc);
	if (node && !rk_level_parse(rk_jstr(node), &rule->level))
		rk_diag_at(&c->diags[doc], node, RK_AT_VALUE, "expected the level quick, standard or deep");
	read_number(c, rule, "warn", &rule->warn, &rule->has_warn);
	for (size_t i = 0; i < RK_ARRAY_SIZE(number_keys); i++)
		read_number(c, rule, number_keys[i].key, (double *)(void *)((char *)rule + number_keys[i].offset), NULL);
	read_bool(c, rule, "required", &rule->required);
	read_bool(c, rule, "optional", &rule->optional);
	node = rule_key(c, id, "cause", &doc);
	if (rule->cause && !rk_cause_known(rule->cause))
		rk_diag_at(&c->diags[doc], node, RK_AT_VALUE, "unknown cause \"%s\"", rule->cause);
	check_rule(rule, &c->diags[at_doc], at);
}

static void check_rule_keys(struct rk_diags *diags, const struct rk_jnode *rule)
{
	const char *names[RK_ARRAY_SIZE(text_keys) + RK_ARRAY_SIZE(other_keys)];
	size_t n = 0;

	for (size_t i = 0; i < RK_ARRAY_SIZE(text_keys); i++)
		names[n++] = text_keys[i].key;
	for (size_t i = 0; i < RK_ARRAY_SIZE(other_keys); i++)
		names[n++] = other_keys[i];
	RK_JMEMBERS(key, rule) {
		bool known = false;
		for (size_t i = 0; i < n; i++)
			known |= strcmp(names[i], key->key) == 0;
		if (known)
			continue;
		const char *near = rk_near_name(key->key, names, n);
		rk_diag_at(diags, key, RK_AT_KEY, "unknown key \"%s\" of a rule", key->key);
		if (near)
			rk_diag_hint(diags, "did you mean \"%s\"?", near);
	}
}

/* Rules in the order of the document that names them first, the most inherited one first; null anywhere above removes. */
void rk_hprofile_read_rules(struct rk_chain *c, struct rk_hprofile *p)
{
	size_t max = 0;

	for (size_t i = 0; i < c->n; i++)
		max += rk_jget(rk_chain_root(c, i), "rules") ? rk_jget(rk_chain_root(c, i), "rules")->n : 0;
	p->rules = rk_arena_array(p->arena, max + 1, sizeof(*p->rules));
	for (size_t i = c->n; i-- > 0;) {
		RK_JMEMBERS(rule, rk_jget(rk_chain_root(c, i), "rules")) {
			bool older = false;
			size_t last = i;
			for (size_t k = i + 1; k < c->n; k++) {
				const struct rk_jnode *same = rk_jget(rk_jget(rk_chain_root(c, k), "rules"), rule->key);
				older |= same && same->type == RK_JOBJECT;
			}
			for (size_t k = i + 1; k-- > 0;) {
				if (rk_jget(rk_jget(rk_chain_root(c, k), "rules"), rule->key))
					last = k;
			}
			const struct rk_jnode *nearest = rk_jget(rk_jget(rk_chain_root(c, last), "rules"), rule->key);
			if (rule->type != RK_JOBJECT && rule->type != RK_JNULL)
				rk_diag_at(&c->diags[i], rule, RK_AT_VALUE, "rule \"%s\" is %s, expected an object", rule->key, rk_jtype_name(rule->type));
			check_rule_keys(&c->diags[i], rule);
			if (rule->type == RK_JOBJECT && !older && nearest->type == RK_JOBJECT)
				read_rule(c, p, rule->key, rule, i, &p->rules[p->n_rules++]);
		}
	}
}

