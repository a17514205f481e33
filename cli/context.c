#include <stdlib.h>
#include <string.h>

#include "cli/app.h"

void rk_context_set(struct rk_context *context, const char *noun, const char *name)
{
	char *new_noun = noun ? rk_xstrdup(noun) : NULL, *new_name = noun && name ? rk_xstrdup(name) : NULL;

	free(context->noun);
	free(context->name);
	*context = (struct rk_context){ new_noun, new_name };
}

enum rk_argtype rk_context_type(const char *noun)
{
	static const struct {
		const char *noun;
		enum rk_argtype type;
	} rows[] = { { "rack", RK_ARG_RACK }, { "tray", RK_ARG_TRAY }, { "vm", RK_ARG_VM }, { "cluster", RK_ARG_CLUSTER }, { "tenant", RK_ARG_TENANT },
		     { "size", RK_ARG_SIZE }, { "image", RK_ARG_IMAGE }, { "profile", RK_ARG_PROFILE }, { "op", RK_ARG_OP } };

	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++)
		if (strcmp(rows[i].noun, noun) == 0)
			return rows[i].type;
	return RK_ARG_NONE;
}

/* Does an argument of this type take the name of the context? */
static bool takes(enum rk_argtype wanted, enum rk_argtype have)
{
	return wanted == have || (wanted == RK_ARG_SEL_TRAYS && have == RK_ARG_TRAY) || (wanted == RK_ARG_SEL_VMS && have == RK_ARG_VM) ||
	       (wanted == RK_ARG_SEL_RACKS && have == RK_ARG_RACK);
}

static const struct rk_command *row_of(const char *noun, const char *verb)
{
	const struct rk_noun *n = rk_noun_find(noun);

	for (size_t i = 0; n && i < n->n; i++)
		if (n->commands[i].verb && strcmp(n->commands[i].verb, verb) == 0)
			return &n->commands[i];
	return NULL;
}

/* before, then words[from..n), with up to two words between. */
static const char *const *build(struct rk_arena *arena, const char *const *words, size_t before, size_t from, size_t n, const char *a, const char *b, size_t *ret_n)
{
	const char **all = rk_arena_array(arena, n + 4, sizeof(*all));
	size_t at = 0;

	for (size_t i = 0; i < before; i++)
		all[at++] = words[i];
	/* Copies: the context may change before the line runs. */
	if (a)
		all[at++] = rk_arena_strdup(arena, a);
	if (b)
		all[at++] = rk_arena_strdup(arena, b);
	for (size_t i = from; i < n; i++)
		all[at++] = words[i];
	*ret_n = at;
	return all;
}

/* First word of the command inside `time`, `watch` and their kin; n: none. */
static size_t inner_command(const struct rk_context *context, const char *const *words, size_t n)
{
	const struct rk_noun *noun = n ? rk_noun_find(words[0]) : NULL;

	if (!noun || noun->n != 1 || !(noun->commands[0].flags & RK_CMD_WRAPS))
		return n;
	for (size_t i = 1; i < n; i++)
		if (rk_noun_known(words[i]) || (context->noun && row_of(context->noun, words[i])))
			return i;
	return n;
}

const char *const *rk_context_expand(const struct rk_context *context, const char *const *words, size_t n, struct rk_arena *arena, size_t *ret_n)
{
	size_t at = 0, inner;

	*ret_n = n;
	if (!context->noun || !n)
		return words;
	while ((inner = inner_command(context, words + at, n - at)) < n - at)
		at += inner;
	if (at >= n)
		return words;
	const struct rk_command *verb = rk_noun_known(words[at]) ? NULL : row_of(context->noun, words[at]);
	/* "show" -> "cluster show a" */
	if (verb) {
		bool named = verb->args && verb->args[0].name && takes(verb->args[0].type, rk_context_type(context->noun));
		const char *const *with = build(arena, words, at, at, n, context->noun, NULL, &n);
		*ret_n = n;
		return named ? build(arena, with, at + 2, at + 2, n, context->name, NULL, ret_n) : with;
	}
	/* "validate" -> "validate cluster a" */
	if (row_of(words[at], context->noun) && (at + 1 == n || words[at + 1][0] == '-'))
		return build(arena, words, at + 1, at + 1, n, context->noun, context->name, ret_n);
	return words;
}
