#include <pthread.h>
#include <string.h>
#include <strings.h>

#include "inventory/base/data.h"
#include "inventory/base/diag.h"
#include "inventory/base/file.h"
#include "inventory/base/str.h"
#include "provision/health/rules.h"

enum { CHAIN_MAX = 8, FILE_MAX = 4 << 20, NAMES_MAX = 64 };
#define FOLDER "provision/health/profiles/"

static const char *const level_names[RK_LEVELS] = { "quick", "standard", "deep" };

/* A profile and the ones it inherits from, the own one first. */
struct chain {
	struct rk_json *docs[CHAIN_MAX];
	struct rk_diags diags[CHAIN_MAX];
	char *names[CHAIN_MAX];
	size_t n;
};

bool rk_level_parse(const char *text, enum rk_level *ret)
{
	for (int i = 0; i < RK_LEVELS; i++) {
		if (text && strcmp(text, level_names[i]) == 0) {
			*ret = (enum rk_level)i;
			return true;
		}
	}
	return false;
}

bool rk_texts_have(const struct rk_texts *texts, const char *text)
{
	for (size_t i = 0; i < texts->n; i++) {
		if (strcasecmp(texts->items[i], text) == 0)
			return true;
	}
	return false;
}

static const char *builtin_names[NAMES_MAX];
static size_t n_builtin;

static void find_builtin(void)
{
	for (const struct rk_data *d = rk_data_files; d->path && n_builtin < NAMES_MAX; d++) {
		if (!rk_starts_with(d->path, FOLDER))
			continue;
		const char *name = d->path + strlen(FOLDER);
		builtin_names[n_builtin++] = rk_xstrndup(name, strlen(name) - strlen(".json"));
	}
}

const char *const *rk_hprofiles(size_t *ret_n)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_builtin);
	*ret_n = n_builtin;
	return builtin_names;
}

static const struct rk_data *builtin(const char *name)
{
	for (const struct rk_data *d = rk_data_files; d->path; d++) {
		if (rk_starts_with(d->path, FOLDER) && rk_starts_with(d->path + strlen(FOLDER), name) &&
		    strcmp(d->path + strlen(FOLDER) + strlen(name), ".json") == 0)
			return d;
	}
	return NULL;
}

static bool is_path(const char *name)
{
	return strchr(name, '/') || rk_ends_with(name, ".json") || strcmp(name, "-") == 0;
}

static int add_document(struct chain *c, const char *name, struct rk_err *err)
{
	const struct rk_data *data = is_path(name) ? NULL : builtin(name);
	char *text RK_CLEANUP_FREE = NULL;
	size_t len = 0;
	int rc;

	if (c->n == CHAIN_MAX)
		return rk_err_set(err, RK_INVALID, "profile \"%s\" inherits from itself or more than %d deep", c->names[0], CHAIN_MAX);
	if (!data && !is_path(name)) {
		size_t n;
		const char *const *names = rk_hprofiles(&n), *near = rk_near_name(name, names, n);
		rc = rk_err_set(err, RK_NOT_FOUND, "unknown health profile \"%s\"", name);
		if (near)
			rk_err_hint(err, "did you mean \"%s\"? A file needs a path or the suffix .json", near);
		else
			rk_err_hint(err, "see `profile list`; a file needs a path or the suffix .json");
		return rc;
	}
	rc = data ? 0 : rk_file_read(name, FILE_MAX, &text, &len, err);
	if (!rc)
		rc = rk_json_parse(name, data ? data->text : text, data ? data->len : len, &c->docs[c->n], err);
	if (rc)
		return rc;
	c->names[c->n] = rk_xstrdup(name);
	c->diags[c->n] = (struct rk_diags)RK_DIAGS_INIT(c->names[c->n]);
	c->n++;
	return 0;
}

static const struct rk_jnode *root(const struct chain *c, size_t i)
{
	return rk_json_root(c->docs[i]);
}

static int load_chain(struct chain *c, const char *name, struct rk_err *err)
{
	while (name) {
		int rc = add_document(c, name, err);
		if (rc)
			return c->n ? (rk_err_while(err, "in profile \"%s\"", c->names[0]), rc) : rc;
		name = rk_jstr(rk_jget(root(c, c->n - 1), "inherits"));
	}
	return 0;
}

static void free_chain(struct chain *c)
{
	for (size_t i = 0; i < c->n; i++) {
		rk_diags_clear(&c->diags[i]);
		rk_json_free(c->docs[i]);
		free(c->names[i]);
	}
}

static const char *const compares[] = { "==", "!=", "<", "<=", ">", ">=", "in", "between", "present", "count", "delta", "all-equal", "outlier",
					"pkey-member", "pkey-only", "same-as", "same-branch" };
static const char *const scopes[] = { "target", "rack", "cluster", "domain", "all" };
static const char *const sides[] = { "low", "high" };
static const char *const effects[] = { "fail", "warn", "cordon" };
static const char *const severities[] = { "info", "warning", "error", "critical" };
static const char *const expects[] = { "gpus", "rails", "rate_gbps", "nvlink_partition", "cluster_uuid", "pkeys", "port_guids", "leaves" };
static const char *const whens[] = { "multi-node" };
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
	{ "cause", offsetof(struct rk_rule, cause), NULL, 0, NULL },
	{ "message", offsetof(struct rk_rule, message), NULL, 0, NULL },
	{ "hint", offsetof(struct rk_rule, hint), NULL, 0, NULL },
	{ "source", offsetof(struct rk_rule, source), NULL, 0, NULL },
};
static const char *const other_keys[] = { "level", "collector", "value", "warn", "warn_values", "unknown_values", "steps", "factor", "tolerance",
					  "floor", "required", "optional" };

/* The value of a key of a rule: of the first document that names it; null counts as absent. */
static const struct rk_jnode *rule_key(const struct chain *c, const char *id, const char *key, size_t *ret_doc)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct rk_jnode *node = rk_jget(rk_jget(rk_jget(root(c, i), "rules"), id), key);
		*ret_doc = i;
		if (node)
			return node->type == RK_JNULL ? NULL : node;
	}
	return NULL;
}

static void read_texts(struct rk_arena *arena, struct rk_diags *diags, const struct rk_jnode *node, struct rk_texts *ret)
{
	if (!node)
		return;
	if (node->type == RK_JSTRING) {
		ret->items = rk_arena_array(arena, 1, sizeof(*ret->items));
		ret->items[ret->n++] = rk_arena_strdup(arena, node->text);
		return;
	}
	if (node->type != RK_JARRAY) {
		rk_diag_at(diags, node, RK_AT_VALUE, "expected a text or an array of texts");
		return;
	}
	ret->items = rk_arena_array(arena, node->n + 1, sizeof(*ret->items));
	RK_JEACH(item, node) {
		if (item->type == RK_JSTRING)
			ret->items[ret->n++] = rk_arena_strdup(arena, item->text);
		else
			rk_diag_at(diags, item, RK_AT_VALUE, "expected a text, found %s", rk_jtype_name(item->type));
	}
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
	read_texts(arena, diags, node, &rule->values);
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

static void read_text_keys(struct chain *c, struct rk_arena *arena, struct rk_rule *rule)
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

static void read_number(struct chain *c, const struct rk_rule *rule, const char *key, double *ret, bool *ret_given)
{
	size_t doc;
	const struct rk_jnode *node = rule_key(c, rule->id, key, &doc);

	if (ret_given)
		*ret_given = node != NULL;
	if (node && (node->type != RK_JNUMBER || !rk_jdouble(node, ret)))
		rk_diag_at(&c->diags[doc], node, RK_AT_VALUE, "\"%s\" is %s, expected a number", key, rk_jtype_name(node->type));
}

static void read_bool(struct chain *c, const struct rk_rule *rule, const char *key, bool *ret)
{
	size_t doc;
	const struct rk_jnode *node = rule_key(c, rule->id, key, &doc);

	if (node && !rk_jbool(node, ret))
		rk_diag_at(&c->diags[doc], node, RK_AT_VALUE, "\"%s\" is %s, expected true or false", key, rk_jtype_name(node->type));
}

const struct rk_own_collector *rk_hprofile_own(const struct rk_hprofile *p, const char *name)
{
	for (size_t i = 0; i < p->n_own; i++) {
		if (strcmp(p->own[i].base.name, name) == 0)
			return &p->own[i];
	}
	return NULL;
}

const struct rk_collector *rk_hprofile_collector(const struct rk_hprofile *p, const char *name, size_t *ret_place)
{
	size_t n;
	const struct rk_collector *all = rk_collectors(&n), *builtin_one = rk_collector_find(name);
	const struct rk_own_collector *own = builtin_one ? NULL : rk_hprofile_own(p, name);

	*ret_place = builtin_one ? (size_t)(builtin_one - all) : own ? n + (size_t)(own - p->own) : 0;
	return builtin_one ? builtin_one : own ? &own->base : NULL;
}

/* Each collector as the nearest document describes it; null removes it. */
static void read_own(struct chain *c, struct rk_hprofile *p)
{
	size_t builtin_ones;

	(void)rk_collectors(&builtin_ones);
	p->own = rk_arena_array(p->arena, RK_COLLECTORS_MAX, sizeof(*p->own));
	for (size_t i = 0; i < c->n; i++) {
		RK_JEACH(item, rk_jget(root(c, i), "collectors")) {
			bool nearer = false;
			for (size_t k = 0; k < i; k++)
				nearer |= rk_jget(rk_jget(root(c, k), "collectors"), item->key) != NULL;
			if (nearer || item->type == RK_JNULL)
				continue;
			if (p->n_own == RK_COLLECTORS_MAX - builtin_ones) {
				rk_diag_at(&c->diags[i], item, RK_AT_KEY, "more than %zu collectors of a site", p->n_own);
				return;
			}
			rk_own_read(item, p->arena, &c->diags[i], &p->own[p->n_own++]);
		}
	}
}

static void check_collectors(const struct rk_hprofile *p, struct rk_diags *diags, const struct rk_jnode *node, const struct rk_texts *texts)
{
	size_t n;
	const struct rk_collector *all = rk_collectors(&n);
	const char *names[64];

	for (size_t i = 0; i < n && i < RK_ARRAY_SIZE(names); i++)
		names[i] = all[i].name;
	for (size_t i = 0; i < texts->n; i++) {
		if (rk_collector_find(texts->items[i]) || rk_hprofile_own(p, texts->items[i]))
			continue;
		const char *near = rk_near_name(texts->items[i], names, n);
		rk_diag_at(diags, node, RK_AT_VALUE, "unknown collector \"%s\"", texts->items[i]);
		if (near)
			rk_diag_hint(diags, "did you mean \"%s\"?", near);
	}
}

static void read_rule(struct chain *c, const struct rk_hprofile *p, const char *id, const struct rk_jnode *at, size_t at_doc, struct rk_rule *rule)
{
	struct rk_arena *arena = p->arena;
	size_t doc;

	rule->id = rk_arena_strdup(arena, id);
	rule->required = true;
	rule->factor = 1;
	read_text_keys(c, arena, rule);
	const struct rk_jnode *node = rule_key(c, id, "collector", &doc);
	read_texts(arena, &c->diags[doc < c->n ? doc : 0], node, &rule->collectors);
	if (node)
		check_collectors(p, &c->diags[doc], node, &rule->collectors);
	node = rule_key(c, id, "value", &doc);
	read_value(arena, &c->diags[doc], node, rule);
	node = rule_key(c, id, "warn_values", &doc);
	read_texts(arena, &c->diags[doc], node, &rule->warn_values);
	node = rule_key(c, id, "unknown_values", &doc);
	read_texts(arena, &c->diags[doc], node, &rule->unknown_values);
	node = rule_key(c, id, "steps", &doc);
	read_steps(arena, &c->diags[doc], node, rule);
	node = rule_key(c, id, "level", &doc);
	if (node && !rk_level_parse(rk_jstr(node), &rule->level))
		rk_diag_at(&c->diags[doc], node, RK_AT_VALUE, "expected the level quick, standard or deep");
	read_number(c, rule, "warn", &rule->warn, &rule->has_warn);
	read_number(c, rule, "factor", &rule->factor, NULL);
	read_number(c, rule, "tolerance", &rule->tolerance, NULL);
	read_number(c, rule, "floor", &rule->floor, NULL);
	read_bool(c, rule, "required", &rule->required);
	read_bool(c, rule, "optional", &rule->optional);
	node = rule_key(c, id, "cause", &doc);
	if (rule->cause && !rk_cause_known(rule->cause))
		rk_diag_at(&c->diags[doc], node, RK_AT_VALUE, "unknown cause \"%s\"", rule->cause);
	if (!rule->metric)
		rk_diag_at(&c->diags[at_doc], at, RK_AT_KEY, "rule \"%s\" has no metric", id);
	if (!rule->collectors.n)
		rk_diag_at(&c->diags[at_doc], at, RK_AT_KEY, "rule \"%s\" has no collector", id);
	bool needs = strchr("=!<>", rule->compare[0]) || strcmp(rule->compare, "in") == 0 || strcmp(rule->compare, "between") == 0 ||
		     strcmp(rule->compare, "count") == 0 || strcmp(rule->compare, "delta") == 0;
	if (needs && !rule->expect && !rule->n_numbers && !rule->values.n && !rule->n_steps)
		rk_diag_at(&c->diags[at_doc], at, RK_AT_KEY, "rule \"%s\" compares with nothing: give value, expect or steps", id);
	if (rk_starts_with(rule->compare, "same-") && !rule->of)
		rk_diag_at(&c->diags[at_doc], at, RK_AT_KEY, "rule \"%s\" needs the metric to compare with in \"of\"", id);
	if (strcmp(rule->compare, "between") == 0 && rule->n_numbers != 2)
		rk_diag_at(&c->diags[at_doc], at, RK_AT_KEY, "rule \"%s\" needs two numbers in \"value\"", id);
}

static void check_rule_keys(struct rk_diags *diags, const struct rk_jnode *rule)
{
	const char *names[RK_ARRAY_SIZE(text_keys) + RK_ARRAY_SIZE(other_keys)];
	size_t n = 0;

	for (size_t i = 0; i < RK_ARRAY_SIZE(text_keys); i++)
		names[n++] = text_keys[i].key;
	for (size_t i = 0; i < RK_ARRAY_SIZE(other_keys); i++)
		names[n++] = other_keys[i];
	RK_JEACH(key, rule) {
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
static void read_rules(struct chain *c, struct rk_hprofile *p)
{
	size_t max = 0;

	for (size_t i = 0; i < c->n; i++)
		max += rk_jget(root(c, i), "rules") ? rk_jget(root(c, i), "rules")->n : 0;
	p->rules = rk_arena_array(p->arena, max + 1, sizeof(*p->rules));
	for (size_t i = c->n; i-- > 0;) {
		RK_JEACH(rule, rk_jget(root(c, i), "rules")) {
			bool older = false;
			size_t last = i;
			for (size_t k = i + 1; k < c->n; k++) {
				const struct rk_jnode *same = rk_jget(rk_jget(root(c, k), "rules"), rule->key);
				older |= same && same->type == RK_JOBJECT;
			}
			for (size_t k = i + 1; k-- > 0;) {
				if (rk_jget(rk_jget(root(c, k), "rules"), rule->key))
					last = k;
			}
			const struct rk_jnode *nearest = rk_jget(rk_jget(root(c, last), "rules"), rule->key);
			if (rule->type != RK_JOBJECT && rule->type != RK_JNULL)
				rk_diag_at(&c->diags[i], rule, RK_AT_VALUE, "rule \"%s\" is %s, expected an object", rule->key, rk_jtype_name(rule->type));
			check_rule_keys(&c->diags[i], rule);
			if (rule->type == RK_JOBJECT && !older && nearest->type == RK_JOBJECT)
				read_rule(c, p, rule->key, rule, i, &p->rules[p->n_rules++]);
		}
	}
}

static void read_levels(struct chain *c, struct rk_hprofile *p)
{
	for (int level = 0; level < RK_LEVELS; level++) {
		const struct rk_jnode *node = NULL;
		struct rk_texts own = { 0 }, *all = &p->levels[level];
		size_t doc = 0;
		for (; doc < c->n && !node; doc++)
			node = rk_jget(rk_jget(root(c, doc), "levels"), level_names[level]);
		if (node)
			read_texts(p->arena, &c->diags[doc - 1], node, &own);
		if (node)
			check_collectors(p, &c->diags[doc - 1], node, &own);
		const struct rk_texts *before = level ? &p->levels[level - 1] : &own;
		all->items = rk_arena_array(p->arena, before->n + own.n + 1, sizeof(*all->items));
		for (size_t i = 0; level && i < before->n; i++)
			all->items[all->n++] = before->items[i];
		for (size_t i = 0; i < own.n; i++) {
			if (!rk_texts_have(all, own.items[i]))
				all->items[all->n++] = own.items[i];
		}
	}
}

static void check_documents(struct chain *c)
{
	static const struct rk_jfield fields[] = {
		{ "apiVersion", RK_JSTRING, true }, { "kind", RK_JSTRING, true }, { "name", RK_JSTRING, true }, { "inherits", RK_JSTRING, false },
		{ "description", RK_JSTRING, false }, { "levels", RK_JOBJECT, false }, { "collectors", RK_JOBJECT, false },
		{ "rules", RK_JOBJECT, false },
	};
	static const struct rk_jfield level_fields[] = { { "quick", RK_JARRAY, false }, { "standard", RK_JARRAY, false }, { "deep", RK_JARRAY, false } };

	for (size_t i = 0; i < c->n; i++) {
		const struct rk_jnode *levels = rk_jget(root(c, i), "levels");
		if (!rk_diag_fields(&c->diags[i], root(c, i), "profile", fields, RK_ARRAY_SIZE(fields)))
			continue;
		if (!rk_streq(rk_jstr(rk_jget(root(c, i), "apiVersion")), "racksh/v1"))
			rk_diag_at(&c->diags[i], rk_jget(root(c, i), "apiVersion"), RK_AT_VALUE, "expected \"racksh/v1\"");
		if (!rk_streq(rk_jstr(rk_jget(root(c, i), "kind")), "Profile"))
			rk_diag_at(&c->diags[i], rk_jget(root(c, i), "kind"), RK_AT_VALUE, "expected the kind \"Profile\"");
		if (levels)
			rk_diag_fields(&c->diags[i], levels, "levels", level_fields, RK_ARRAY_SIZE(level_fields));
	}
}

static void check_references(struct chain *c, const struct rk_hprofile *p)
{
	for (size_t i = 0; i < p->n_rules; i++) {
		bool found = !p->rules[i].after;
		for (size_t k = 0; k < i; k++)
			found |= p->rules[i].after && strcmp(p->rules[k].id, p->rules[i].after) == 0;
		if (!found)
			rk_diag_line(&c->diags[0], 0, 0, "rule \"%s\" comes after \"%s\", which is no rule before it", p->rules[i].id, p->rules[i].after);
	}
	if (!p->n_rules)
		rk_diag_line(&c->diags[0], 0, 0, "the profile has no rules");
}

int rk_hprofile_load(const char *name_or_path, struct rk_hprofile **ret, struct rk_err *err)
{
	struct chain c = { .n = 0 };
	int rc = load_chain(&c, name_or_path, err);

	if (rc) {
		free_chain(&c);
		return rc;
	}
	struct rk_hprofile *p = rk_xcalloc(1, sizeof(*p));
	p->arena = rk_arena_new();
	check_documents(&c);
	const char *name = rk_jstr(rk_jget(root(&c, 0), "name"));
	p->name = rk_arena_strdup(p->arena, name ? name : name_or_path);
	p->inherits = rk_arena_strdup(p->arena, rk_jstr(rk_jget(root(&c, 0), "inherits")));
	p->description = rk_arena_strdup(p->arena, rk_jstr(rk_jget(root(&c, 0), "description")));
	read_own(&c, p);
	read_levels(&c, p);
	read_rules(&c, p);
	check_references(&c, p);
	for (size_t i = 0; i < c.n && !rc; i++)
		rc = rk_diags_result(&c.diags[i], err);
	free_chain(&c);
	if (rc) {
		rk_hprofile_free(p);
		return rc;
	}
	*ret = p;
	return 0;
}

void rk_hprofile_free(struct rk_hprofile *profile)
{
	if (!profile)
		return;
	rk_arena_free(profile->arena);
	free(profile);
}

void rk_cleanup_hprofile(struct rk_hprofile **profile)
{
	rk_hprofile_free(*profile);
}

const char *rk_hprofile_name(const struct rk_hprofile *profile)
{
	return profile->name;
}
