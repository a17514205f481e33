#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/app.h"
#include "inventory/base/str.h"
#include "vmspec/vmspec.h"

struct completer {
	const struct rk_lexicon *lexicon;
	const struct rk_context *context;
	const struct rk_site *site;
	const char *prefix;
	struct rk_candidates *out;
};

static void offer(struct completer *c, const char *word, const char *help)
{
	if (rk_starts_with(word, c->prefix))
		*rk_vec_push(c->out) = (struct rk_candidate){ rk_xstrdup(word), help ? rk_xstrdup(help) : NULL };
}

void rk_candidates_free(struct rk_candidates *candidates)
{
	for (size_t i = 0; i < candidates->n; i++) {
		free(candidates->items[i].word);
		free(candidates->items[i].help);
	}
	free(candidates->items);
	*candidates = (struct rk_candidates){ 0 };
}

#define OFFER_NAMES(c, lead, array, count)                                     \
	for (size_t i_ = 0; i_ < (count); i_++) {                              \
		char *word_ RK_CLEANUP_FREE = rk_xasprintf("%s%s", lead, (array)[i_].name); \
		offer(c, word_, NULL);                                         \
	}

static void offer_enum(struct completer *c, const char *values)
{
	for (const char *at = values ? values : ""; *at;) {
		size_t len = strcspn(at, "|");
		char *word RK_CLEANUP_FREE = rk_xstrndup(at, len);
		offer(c, word, NULL);
		at += len + (at[len] == '|');
	}
}

/* Members of a selection: completed behind the last separator, groups included. */
static void offer_selection(struct completer *c, enum rk_argtype type)
{
	const struct rk_site *site = c->site;
	const char *from = c->prefix;

	for (const char *at = c->prefix; *at; at++)
		if (strchr(",!&^", *at))
			from = at + 1;
	char *lead RK_CLEANUP_FREE = rk_xstrndup(c->prefix, (size_t)(from - c->prefix));
	if (*from == '@') {
		static const char *const states[] = { "free", "allocated", "cordoned", "spare", "faulty", "offline" };
		char *rack RK_CLEANUP_FREE = rk_xasprintf("%s@rack:", lead), *cluster RK_CLEANUP_FREE = rk_xasprintf("%s@cluster:", lead),
		     *tenant RK_CLEANUP_FREE = rk_xasprintf("%s@tenant:", lead), *all RK_CLEANUP_FREE = rk_xasprintf("%s@all", lead);
		offer(c, all, NULL);
		OFFER_NAMES(c, rack, site->racks, site->n_racks);
		OFFER_NAMES(c, cluster, site->clusters, site->n_clusters);
		OFFER_NAMES(c, tenant, site->tenants, site->n_tenants);
		for (size_t i = 0; i < RK_ARRAY_SIZE(states); i++) {
			char *word RK_CLEANUP_FREE = rk_xasprintf("%s@state:%s", lead, states[i]);
			offer(c, word, NULL);
		}
		return;
	}
	if (type == RK_ARG_SEL_RACKS)
		OFFER_NAMES(c, lead, site->racks, site->n_racks);
	if (type == RK_ARG_SEL_VMS)
		OFFER_NAMES(c, lead, site->vms, site->n_vms);
	if (type == RK_ARG_SEL_TRAYS)
		OFFER_NAMES(c, lead, site->trays, site->n_trays);
}

static void offer_sizes(struct completer *c)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	size_t n;
	const struct rk_size **sizes = rk_sizes(c->site, arena, &n);

	for (size_t i = 0; i < n; i++)
		offer(c, sizes[i]->name, NULL);
}

/* Live names come from the snapshot: completion never touches the network. */
static void offer_value(struct completer *c, enum rk_argtype type, const char *values)
{
	const struct rk_site *site = c->site;

	if (type == RK_ARG_ENUM)
		offer_enum(c, values);
	if (type == RK_ARG_FILE || type == RK_ARG_FOLDER || type == RK_ARG_PROFILE)
		c->out->files = true;
	if (!site)
		return;
	switch (type) {
	case RK_ARG_SIZE: offer_sizes(c); break;
	case RK_ARG_RACK: OFFER_NAMES(c, "", site->racks, site->n_racks); break;
	case RK_ARG_TRAY: OFFER_NAMES(c, "", site->trays, site->n_trays); break;
	case RK_ARG_VM: OFFER_NAMES(c, "", site->vms, site->n_vms); break;
	case RK_ARG_CLUSTER: OFFER_NAMES(c, "", site->clusters, site->n_clusters); break;
	case RK_ARG_TENANT: OFFER_NAMES(c, "", site->tenants, site->n_tenants); break;
	case RK_ARG_IMAGE: OFFER_NAMES(c, "", site->images, site->n_images); break;
	case RK_ARG_FABRIC: OFFER_NAMES(c, "", site->fabrics, site->n_fabrics); break;
	case RK_ARG_SEL_TRAYS: case RK_ARG_SEL_VMS: case RK_ARG_SEL_RACKS: offer_selection(c, type); break;
	default: break;
	}
}

/* ---- where in the command ---------------------------------------------------------------------------------------------------------- */

static void offer_nouns(struct completer *c)
{
	const struct rk_noun *noun = c->context->noun ? rk_noun_find(c->context->noun) : NULL;

	for (size_t i = 0; noun && i < noun->n; i++)
		if (noun->commands[i].verb)
			offer(c, noun->commands[i].verb, noun->commands[i].summary);
	for (const struct rk_noun *const *n = rk_nouns; *n; n++)
		offer(c, (*n)->name, (*n)->summary);
	for (const struct rk_noun *const *n = rk_shell_words; *n; n++)
		offer(c, (*n)->name, (*n)->summary);
	for (size_t i = 0; i < c->lexicon->aliases.n; i++)
		offer(c, c->lexicon->aliases.names[i], c->lexicon->aliases.values[i]);
}

static void offer_verbs(struct completer *c, const struct rk_noun *noun)
{
	for (size_t i = 0; i < noun->n; i++)
		offer(c, noun->commands[i].verb, noun->commands[i].summary);
}

static void offer_options(struct completer *c, const struct rk_command *row)
{
	for (const struct rk_argdef *o = row ? row->options : NULL; o && o->name; o++) {
		char *word RK_CLEANUP_FREE = rk_xasprintf("--%s", o->name);
		offer(c, word, o->help);
	}
	/* Options of every command are offered when one is being written. */
	for (const struct rk_globaldef *g = rk_global_options; g->name && c->prefix[0] == '-'; g++) {
		char *word RK_CLEANUP_FREE = rk_xasprintf("--%s", g->name);
		bool selects = strcmp(g->name, "except") != 0 || (row && (row->flags & RK_CMD_SELECTS));
		if (!g->process_only && selects)
			offer(c, word, g->help);
	}
}

static const struct rk_argdef *own_option(const struct rk_command *row, const char *word)
{
	for (const struct rk_argdef *o = row ? row->options : NULL; o && o->name; o++) {
		char letter[3] = { '-', o->letter, '\0' };
		if ((rk_starts_with(word, "--") && strcmp(o->name, word + 2) == 0) || (o->letter && strcmp(letter, word) == 0))
			return o;
	}
	return NULL;
}

static const struct rk_globaldef *global_option(const char *word)
{
	for (const struct rk_globaldef *g = rk_global_options; g->name; g++) {
		char letter[3] = { '-', g->letter, '\0' };
		if ((rk_starts_with(word, "--") && strcmp(g->name, word + 2) == 0) || (g->letter && strcmp(letter, word) == 0))
			return g;
	}
	return NULL;
}

static bool wants_value(const struct rk_command *row, const char *word)
{
	const struct rk_argdef *o = own_option(row, word);
	const struct rk_globaldef *g = o ? NULL : global_option(word);

	return o ? o->type != RK_ARG_NONE : g && g->value && g->value[0] != '[';
}

/* The value of the option that stands before the cursor. */
static void offer_option_value(struct completer *c, const struct rk_command *row, const char *option)
{
	const struct rk_argdef *o = own_option(row, option);
	const struct rk_globaldef *g = o ? NULL : global_option(option);

	if (o)
		offer_value(c, o->type, o->values);
	else if (g && strcmp(g->name, "output") == 0)
		offer_enum(c, "table|json|csv|lines");
	else if (g && strcmp(g->name, "except") == 0 && c->site)
		offer_selection(c, RK_ARG_SEL_TRAYS);
}

/* Positional words behind the row's own; *ret_inner: where a racksh command begins, or 0. */
static size_t count_args(const struct rk_command *row, const char *const *words, size_t from, size_t n, size_t *ret_inner)
{
	size_t args = 0;

	*ret_inner = 0;
	for (size_t i = from; i < n; i++) {
		if (words[i][0] == '-' && words[i][1] && strcmp(words[i], "--") != 0) {
			i += wants_value(row, words[i]);
			continue;
		}
		if (strcmp(words[i], "--") == 0)
			continue;
		const struct rk_argdef *a = row->args;
		size_t at = 0;
		while (a && a[at].name && at < args && !a[at].repeated)
			at++;
		if (a && a[at].name && a[at].type == RK_ARG_COMMAND && (row->flags & RK_CMD_WRAPS)) {
			*ret_inner = i;
			return args;
		}
		args++;
	}
	return args;
}

static void offer_used(struct completer *c, const char *noun)
{
	if (noun) {
		offer_value(c, rk_context_type(noun), NULL);
		return;
	}
	for (const struct rk_noun *const *n = rk_nouns; *n; n++)
		if (rk_context_type((*n)->name) != RK_ARG_NONE)
			offer(c, (*n)->name, (*n)->summary);
}

static void offer_arguments(struct completer *c, const struct rk_command *row, size_t args, const char *first)
{
	const struct rk_argdef *a = row->args;
	size_t at = 0;

	while (a && a[at].name && at < args && !a[at].repeated)
		at++;
	if (strcmp(row->noun, "use") == 0) {
		offer_used(c, args ? first : NULL);
	} else if (strcmp(row->noun, "help") == 0 || strcmp(row->noun, "schema") == 0) {
		const struct rk_noun *noun = args == 1 ? rk_noun_find(first) : NULL;
		if (noun && noun->commands[0].verb)
			offer_verbs(c, noun);
		else if (!args)
			offer_nouns(c);
	} else if (a && a[at].name && a[at].type == RK_ARG_COMMAND && (row->flags & RK_CMD_WRAPS)) {
		offer_nouns(c);
	} else if (a && a[at].name) {
		c->out->next = &a[at];
		offer_value(c, a[at].type, a[at].values);
	}
}

static const struct rk_command *row_of(const struct rk_noun *noun, const char *verb)
{
	for (size_t i = 0; i < noun->n; i++)
		if (!noun->commands[i].verb || (verb && strcmp(noun->commands[i].verb, verb) == 0))
			return &noun->commands[i];
	return NULL;
}

void rk_complete(const struct rk_lexicon *lexicon, const struct rk_context *context, const struct rk_site *site, const char *const *words, size_t n,
		 const char *prefix, bool options_too, struct rk_candidates *ret)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct completer c = { lexicon, context, site, prefix, ret };
	const char *const *all = rk_context_expand(context, words, n, arena, &n);
	size_t inner = 0;

	for (;;) {
		all += inner;
		n -= inner;
		const struct rk_noun *noun = n ? rk_noun_find(all[0]) : NULL;
		const struct rk_command *row = noun ? row_of(noun, n > 1 ? all[1] : NULL) : NULL;
		if (!n) {
			offer_nouns(&c);
			return;
		}
		if (!row) {
			if (noun && n == 1)
				offer_verbs(&c, noun);
			return;
		}
		size_t from = row->verb ? 2 : 1, args = count_args(row, all, from, n, &inner);
		if (inner)
			continue;
		if (n > from && wants_value(row, all[n - 1])) {
			offer_option_value(&c, row, all[n - 1]);
			return;
		}
		if (prefix[0] != '-')
			offer_arguments(&c, row, args, n > from ? all[from] : NULL);
		if (prefix[0] == '-' || (!*prefix && (options_too || (!ret->n && !ret->next))))
			offer_options(&c, row);
		return;
	}
}
