#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <readline/history.h>
#include <readline/readline.h>

#include "cli/app.h"
#include "inventory/base/file.h"
#include "inventory/base/str.h"

/* readline calls back without a context. */
static struct {
	struct rk_app *app;
	char **matches;
	size_t n, at;
} completing;

static void offer(const char *prefix, const char *word)
{
	if (!rk_starts_with(word, prefix))
		return;
	completing.matches = rk_xreallocarray(completing.matches, completing.n + 1, sizeof(char *));
	completing.matches[completing.n++] = rk_xstrdup(word);
}

#define OFFER_NAMES(prefix, array, count)              \
	for (size_t i_ = 0; i_ < (count); i_++)        \
		offer(prefix, (array)[i_].name)

/* Live names come from the snapshot: completion never touches the network. */
static void offer_objects(const char *prefix, enum rk_argtype type, const char *values)
{
	const struct rk_site *site = completing.app->world.site;

	for (const char *at = type == RK_ARG_ENUM ? values : ""; *at;) {
		char word[64];
		size_t len = strcspn(at, "|");
		snprintf(word, sizeof(word), "%.*s", (int)len, at);
		offer(prefix, word);
		at += len + (at[len] == '|');
	}
	if (!site)
		return;
	if (type == RK_ARG_RACK || type == RK_ARG_SEL_RACKS)
		OFFER_NAMES(prefix, site->racks, site->n_racks);
	if (type == RK_ARG_TRAY || type == RK_ARG_SEL_TRAYS)
		OFFER_NAMES(prefix, site->trays, site->n_trays);
	if (type == RK_ARG_VM || type == RK_ARG_SEL_VMS)
		OFFER_NAMES(prefix, site->vms, site->n_vms);
	if (type == RK_ARG_CLUSTER)
		OFFER_NAMES(prefix, site->clusters, site->n_clusters);
	if (type == RK_ARG_TENANT)
		OFFER_NAMES(prefix, site->tenants, site->n_tenants);
	if (type == RK_ARG_IMAGE)
		OFFER_NAMES(prefix, site->images, site->n_images);
	if (type == RK_ARG_FABRIC)
		OFFER_NAMES(prefix, site->fabrics, site->n_fabrics);
}

/* The row of the words before the cursor, and how many of its arguments are there. */
static const struct rk_command *row_of(const struct rk_line *line, const struct rk_noun **ret_noun, size_t *ret_args)
{
	*ret_noun = line->n ? rk_noun_find(line->words[0]) : NULL;
	*ret_args = 0;
	for (size_t i = 0; *ret_noun && i < (*ret_noun)->n; i++) {
		const struct rk_command *c = &(*ret_noun)->commands[i];
		if (!c->verb || (line->n > 1 && strcmp(c->verb, line->words[1]) == 0)) {
			*ret_args = line->n - (c->verb ? 2 : 1);
			return c;
		}
	}
	return NULL;
}

static void collect(const char *prefix, const struct rk_line *line)
{
	const struct rk_noun *noun;
	size_t args;
	const struct rk_command *c = row_of(line, &noun, &args);

	if (!line->n) {
		for (const struct rk_noun *const *n = rk_nouns; *n; n++)
			offer(prefix, (*n)->name);
		offer(prefix, "quit");
	} else if (!c) {
		for (size_t i = 0; noun && i < noun->n; i++)
			if (noun->commands[i].verb)
				offer(prefix, noun->commands[i].verb);
	} else if (prefix[0] == '-') {
		for (const struct rk_argdef *o = c->options; o && o->name; o++) {
			char *word RK_CLEANUP_FREE = rk_xasprintf("--%s", o->name);
			offer(prefix, word);
		}
	} else {
		const struct rk_argdef *a = c->args;
		size_t i = 0;
		while (a && a[i].name && i < args && !a[i].repeated)
			i++;
		if (a && a[i].name)
			offer_objects(prefix, a[i].type, a[i].values);
	}
}

static char *next_match(const char *text, int state)
{
	(void)text;
	if (!state)
		completing.at = 0;
	return completing.at < completing.n ? completing.matches[completing.at++] : NULL;
}

static struct rk_lines words_before(struct rk_arena *arena, int end)
{
	struct rk_lines lines = { 0 };
	char *text = rk_arena_strndup(arena, rl_line_buffer, (size_t)end);

	rk_split("line", text, &completing.app->vars, arena, &lines, NULL);
	return lines;
}

static char **complete(const char *text, int start, int end)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_lines lines = words_before(arena, start);
	const struct rk_line none = { 0 };

	(void)end;
	completing.matches = NULL;
	completing.n = 0;
	collect(text, lines.n ? &lines.items[lines.n - 1] : &none);
	free(lines.items);
	/* File names stay readline's business where a file is wanted. */
	if (!completing.n)
		return NULL;
	rl_attempted_completion_over = 1;
	char **out = rl_completion_matches(text, next_match);
	free(completing.matches);
	completing.matches = NULL;
	return out;
}

static void list_next(const struct rk_line *line)
{
	const struct rk_noun *noun;
	size_t args;
	const struct rk_command *c = row_of(line, &noun, &args);

	if (!line->n)
		for (const struct rk_noun *const *n = rk_nouns; *n; n++)
			printf("  %-11s %s\n", (*n)->name, (*n)->summary);
	else if (!c)
		for (size_t i = 0; noun && i < noun->n; i++)
			printf("  %-11s %s\n", noun->commands[i].verb, noun->commands[i].summary);
	else
		for (const struct rk_argdef *a = c->args; a && a->name; a++)
			printf("  %-11s %s\n", a->name, a->help);
	for (const struct rk_argdef *o = c ? c->options : NULL; o && o->name; o++)
		printf("  --%-9s %s\n", o->name, o->help);
}

/* '?' tells what can come next and leaves the line as it is. */
static int question(int count, int key)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_lines lines = words_before(arena, rl_point);
	const struct rk_line none = { 0 };

	(void)count, (void)key;
	printf("?\n");
	list_next(lines.n ? &lines.items[lines.n - 1] : &none);
	free(lines.items);
	rl_on_new_line();
	rl_redisplay();
	return 0;
}

static char *history_path(void)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	char *folder RK_CLEANUP_FREE = state && *state ? rk_xasprintf("%s/racksh", state) : rk_xasprintf("%s/.local/state/racksh", home ? home : ".");

	return rk_mkdirs(folder, NULL) ? NULL : rk_xasprintf("%s/history", folder);
}

static char *prompt_of(const struct rk_app *app)
{
	const struct rk_site *site = app->world.site;

	return rk_xasprintf("%s%s> ", app->globals.sim ? "twin:" : "", site && site->name ? site->name : "racksh");
}

static void run_line(struct rk_app *app, const char *text)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_lines lines = { 0 };
	struct rk_parsed parsed;
	int rc = rk_split("line", text, &app->vars, arena, &lines, &err);

	for (size_t i = 0; !rc && i < lines.n; i++) {
		rc = rk_parse(lines.items[i].words, lines.items[i].n, &app->globals, false, &app->vars, arena, &parsed, &err);
		if (!rc)
			rc = rk_app_run(app, &parsed, "");
	}
	if (err.message)
		rk_print_error(&err, "", app->globals.format);
	free(lines.items);
}

int rk_app_shell(struct rk_app *app)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	char *history RK_CLEANUP_FREE = history_path();

	completing.app = app;
	rl_readline_name = "racksh";
	rl_attempted_completion_function = complete;
	rl_bind_key('?', question);
	using_history();
	if (history)
		read_history(history);
	if (rk_app_world(app, false, &err))
		rk_print_error(&err, "", app->globals.format);
	for (;;) {
		char *prompt RK_CLEANUP_FREE = prompt_of(app);
		char *line RK_CLEANUP_FREE = readline(prompt);
		if (!line || strcmp(line, "quit") == 0 || strcmp(line, "exit") == 0)
			break;
		if (*line)
			add_history(line);
		run_line(app, line);
	}
	if (history)
		write_history(history);
	return 0;
}
