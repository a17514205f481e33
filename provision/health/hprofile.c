#include <pthread.h>
#include <string.h>
#include <strings.h>

#include "inventory/base/data.h"
#include "inventory/base/file.h"
#include "inventory/base/str.h"
#include "provision/health/hprofile.h"

enum { FILE_MAX = 4 << 20, NAMES_MAX = 64 };
#define FOLDER "provision/health/profiles/"

static const char *const level_names[RK_LEVELS] = { "quick", "standard", "deep" };

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

static int add_document(struct rk_chain *c, const char *name, struct rk_err *err)
{
	const struct rk_data *data = is_path(name) ? NULL : builtin(name);
	char *text RK_CLEANUP_FREE = NULL;
	size_t len = 0;
	int rc;

	if (c->n == RK_CHAIN_MAX)
		return rk_err_set(err, RK_INVALID, "profile \"%s\" inherits from itself or more than %d deep", c->names[0], RK_CHAIN_MAX);
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

static int load_chain(struct rk_chain *c, const char *name, struct rk_err *err)
{
	while (name) {
		int rc = add_document(c, name, err);
		if (rc)
			return c->n ? (rk_err_while(err, "in profile \"%s\"", c->names[0]), rc) : rc;
		name = rk_jstr(rk_jget(rk_chain_root(c, c->n - 1), "inherits"));
	}
	return 0;
}

static void free_chain(struct rk_chain *c)
{
	for (size_t i = 0; i < c->n; i++) {
		rk_diags_clear(&c->diags[i]);
		rk_json_free(c->docs[i]);
		free(c->names[i]);
	}
}

void rk_hprofile_texts(struct rk_arena *arena, struct rk_diags *diags, const struct rk_jnode *node, struct rk_texts *ret)
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
static void read_own(struct rk_chain *c, struct rk_hprofile *p)
{
	size_t builtin_ones;

	(void)rk_collectors(&builtin_ones);
	p->own = rk_arena_array(p->arena, RK_COLLECTORS_MAX, sizeof(*p->own));
	for (size_t i = 0; i < c->n; i++) {
		RK_JMEMBERS(item, rk_jget(rk_chain_root(c, i), "collectors")) {
			bool nearer = false;
			for (size_t k = 0; k < i; k++)
				nearer |= rk_jget(rk_jget(rk_chain_root(c, k), "collectors"), item->key) != NULL;
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

void rk_hprofile_check_collectors(const struct rk_hprofile *p, struct rk_diags *diags, const struct rk_jnode *node, const struct rk_texts *texts)
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

static void read_levels(struct rk_chain *c, struct rk_hprofile *p)
{
	for (int level = 0; level < RK_LEVELS; level++) {
		const struct rk_jnode *node = NULL;
		struct rk_texts own = { 0 }, *all = &p->levels[level];
		size_t doc = 0;
		for (; doc < c->n && !node; doc++)
			node = rk_jget(rk_jget(rk_chain_root(c, doc), "levels"), level_names[level]);
		if (node)
			rk_hprofile_texts(p->arena, &c->diags[doc - 1], node, &own);
		if (node)
			rk_hprofile_check_collectors(p, &c->diags[doc - 1], node, &own);
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

static void check_documents(struct rk_chain *c)
{
	static const struct rk_jfield fields[] = {
		{ "apiVersion", RK_JSTRING, true }, { "kind", RK_JSTRING, true }, { "name", RK_JSTRING, true }, { "inherits", RK_JSTRING, false },
		{ "description", RK_JSTRING, false }, { "levels", RK_JOBJECT, false }, { "collectors", RK_JOBJECT, false },
		{ "rules", RK_JOBJECT, false },
	};
	static const struct rk_jfield level_fields[] = { { "quick", RK_JARRAY, false }, { "standard", RK_JARRAY, false }, { "deep", RK_JARRAY, false } };

	for (size_t i = 0; i < c->n; i++) {
		const struct rk_jnode *levels = rk_jget(rk_chain_root(c, i), "levels");
		if (!rk_diag_fields(&c->diags[i], rk_chain_root(c, i), "profile", fields, RK_ARRAY_SIZE(fields)))
			continue;
		if (!rk_streq(rk_jstr(rk_jget(rk_chain_root(c, i), "apiVersion")), "racksh/v1"))
			rk_diag_at(&c->diags[i], rk_jget(rk_chain_root(c, i), "apiVersion"), RK_AT_VALUE, "expected \"racksh/v1\"");
		if (!rk_streq(rk_jstr(rk_jget(rk_chain_root(c, i), "kind")), "Profile"))
			rk_diag_at(&c->diags[i], rk_jget(rk_chain_root(c, i), "kind"), RK_AT_VALUE, "expected the kind \"Profile\"");
		if (levels)
			rk_diag_fields(&c->diags[i], levels, "levels", level_fields, RK_ARRAY_SIZE(level_fields));
	}
}

static void check_references(struct rk_chain *c, const struct rk_hprofile *p)
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
	struct rk_chain c = { .n = 0 };
	int rc = load_chain(&c, name_or_path, err);

	if (rc) {
		free_chain(&c);
		return rc;
	}
	struct rk_hprofile *p = rk_xcalloc(1, sizeof(*p));
	p->arena = rk_arena_new();
	check_documents(&c);
	const char *name = rk_jstr(rk_jget(rk_chain_root(&c, 0), "name"));
	p->name = rk_arena_strdup(p->arena, name ? name : name_or_path);
	p->inherits = rk_arena_strdup(p->arena, rk_jstr(rk_jget(rk_chain_root(&c, 0), "inherits")));
	p->description = rk_arena_strdup(p->arena, rk_jstr(rk_jget(rk_chain_root(&c, 0), "description")));
	read_own(&c, p);
	read_levels(&c, p);
	rk_hprofile_read_rules(&c, p);
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

void rk_hprofile_checks(const char *name, struct rk_arena *arena, const char **ids, size_t max, size_t *n)
{
	struct rk_hprofile *p RK_CLEANUP(rk_cleanup_hprofile) = NULL;

	if (rk_hprofile_load(name, &p, NULL))
		return;
	for (size_t r = 0; r < p->n_rules && *n < max; r++) {
		bool there = false;
		for (size_t i = 0; i < *n; i++)
			there |= strcmp(ids[i], p->rules[r].id) == 0;
		if (!there)
			ids[(*n)++] = rk_arena_strdup(arena, p->rules[r].id);
	}
}
