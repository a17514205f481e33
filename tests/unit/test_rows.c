#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/app.h"
#include "inventory/base/str.h"

/* The tables feed parser, help, completion and man pages: they are checked as a whole. */

static void each_row(void (*check)(const struct rk_noun *noun, const struct rk_command *c))
{
	for (const struct rk_noun *const *n = rk_nouns; *n; n++)
		for (size_t i = 0; i < (*n)->n; i++)
			check(*n, &(*n)->commands[i]);
	for (const struct rk_noun *const *n = rk_shell_words; *n; n++)
		check(*n, &(*n)->commands[0]);
}

static void complete_row(const struct rk_noun *noun, const struct rk_command *c)
{
	assert_string_equal(noun->name, c->noun);
	assert_non_null(c->summary);
	assert_non_null(c->run);
	assert_false(rk_ends_with(c->summary, "."));
	for (const struct rk_argdef *a = c->args; a && a->name; a++) {
		assert_non_null(a->help);
		assert_true(a->type != RK_ARG_ENUM || a->values);
		assert_true(a->type != RK_ARG_NONE);
	}
	for (const struct rk_argdef *o = c->options; o && o->name; o++)
		assert_non_null(o->help);
	assert_true(!(c->flags & RK_CMD_DANGEROUS) || (c->flags & RK_CMD_CHANGES));
}

static void rows_are_complete(void **state)
{
	(void)state;
	each_row(complete_row);
}

static void example_is_own(const struct rk_noun *noun, const struct rk_command *c)
{
	for (const char *const *e = c->examples; e && *e; e++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		struct rk_lexicon lexicon = { 0 };
		struct rk_lines lines = { 0 };
		struct rk_parsed parsed;
		const struct rk_globals none = { 0 };
		assert_int_equal(rk_split("example", *e, &lexicon, arena, &lines, &err), 0);
		assert_int_equal(lines.n, 1);
		if (rk_parse(lines.items[0].words, lines.items[0].n, &none, true, &lexicon.vars, arena, &parsed, &err))
			fail_msg("%s: \"%s\": %s", noun->name, *e, err.message);
		assert_ptr_equal(parsed.command, c);
		free(lines.items);
		rk_vars_free(&lexicon.vars);
		rk_vars_free(&lexicon.aliases);
	}
}

static void every_example_parses_to_its_own_row(void **state)
{
	(void)state;
	each_row(example_is_own);
}

/* A new argument for a file or folder has to be sorted: what a rehearsal must not write is told by its row. */
static bool is_read(const struct rk_command *c, const char *name)
{
	static const char *const read[] = { "SPEC", "SPEC|CLUSTER", "check", "thresholds", "PATH|VOL", "evidence", "requests", "identity", "servers-file", "DIR", "FILE" };
	bool known = false;

	for (size_t i = 0; i < RK_ARRAY_SIZE(read); i++)
		known |= strcmp(read[i], name) == 0;
	return known && strcmp(c->noun, "store") != 0;
}

static void files_are_read_or_told(const struct rk_noun *noun, const struct rk_command *c)
{
	const struct rk_argdef *const lists[] = { c->args, c->options };
	bool found = false;

	(void)noun;
	for (size_t l = 0; l < RK_ARRAY_SIZE(lists); l++)
		for (const struct rk_argdef *a = lists[l]; a && a->name; a++) {
			bool told = rk_streq(c->writes, a->name);
			found |= told;
			if ((a->type == RK_ARG_FILE || a->type == RK_ARG_FOLDER) && told == is_read(c, a->name))
				fail_msg("%s %s %s: is it read or written?", c->noun, c->verb ? c->verb : "", a->name);
		}
	assert_true(!c->writes || found);
}

static void every_row_tells_what_it_writes(void **state)
{
	(void)state;
	each_row(files_are_read_or_told);
}

static void words_split_as_documented(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_lexicon lexicon = { 0 };
	struct rk_lines lines = { 0 };

	(void)state;
	assert_int_equal(rk_split("t", "set X 'a b' # comment\nvm exec \"$X;c\" \\\n '$X' d; quit", &lexicon, arena, &lines, NULL), 0);
	assert_int_equal(lines.n, 3);
	assert_int_equal(lines.items[1].n, 5);
	assert_string_equal(lines.items[1].words[2], "a b;c");
	assert_string_equal(lines.items[1].words[3], "$X");
	assert_int_equal(lines.items[1].number, 2);
	assert_int_equal(lines.items[2].number, 3);
	free(lines.items);
	rk_vars_free(&lexicon.vars);
}

static void all_problems_of_a_batch_are_listed(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_lexicon lexicon = { 0 };
	struct rk_lines lines = { 0 };

	(void)state;
	assert_int_equal(rk_split("t", "a $ONE\nb $TWO\nc 'open", &lexicon, arena, &lines, &err), RK_INVALID);
	assert_int_equal(err.n_details, 3);
	assert_string_equal(err.details[1], "t:2: variable is not set: $TWO");
	free(lines.items);
	rk_vars_free(&lexicon.vars);
}

/* All that can be said on a command line, each in its own field. */
static void fill(struct rk_globals *globals)
{
	for (const struct rk_globaldef *g = rk_global_options; g->name; g++) {
		void *at = (char *)globals + g->at;
		if (g->kind == RK_GLOBAL_FLAG)
			*(bool *)at = true;
		else if (g->kind == RK_GLOBAL_TEXT)
			*(const char **)at = g->name;
		else if (g->kind == RK_GLOBAL_COUNT)
			*(int *)at = 7;
	}
}

static bool same_value(const struct rk_globaldef *g, const struct rk_globals *a, const struct rk_globals *b)
{
	const void *x = (const char *)a + g->at, *y = (const char *)b + g->at;

	if (g->kind == RK_GLOBAL_FLAG)
		return *(const bool *)x == *(const bool *)y;
	if (g->kind == RK_GLOBAL_TEXT)
		return rk_streq(*(const char *const *)x, *(const char *const *)y);
	return g->kind != RK_GLOBAL_COUNT || *(const int *)x == *(const int *)y;
}

/* What the process that watches an operation need not know: how the line was read, what was selected and asked, how results look. */
static bool may_stay_behind(const char *name)
{
	static const char *const names[] = { "store", "output", "dry-run", "yes", "except", "wait", "no-wait", "command", "file", "define", "keep-going", "resume", "version", "help" };

	for (size_t i = 0; i < RK_ARRAY_SIZE(names); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

static void a_background_process_gets_every_option_that_matters_to_it(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_app app = { .world = { .jobs = 7, .env = { .timeout_ms = 7000 } } };
	const struct rk_globals none = { 0 };
	struct rk_vars vars = { 0 };
	struct rk_parsed parsed;
	size_t n = 0;

	(void)state;
	fill(&app.globals);
	const char *const *words = rk_app_watcher_words(&app, 12, arena);
	while (words[n])
		n++;
	if (rk_parse(words + 1, n - 1, &none, true, &vars, arena, &parsed, &err))
		fail_msg("%s", err.message);
	assert_string_equal(parsed.command->verb, "resume");
	for (const struct rk_globaldef *g = rk_global_options; g->name; g++)
		if (!may_stay_behind(g->name) && !same_value(g, &parsed.globals, &app.globals))
			fail_msg("--%s is lost", g->name);
	assert_null(parsed.globals.store);
}

static void a_command_in_ones_place_gets_every_option_of_it(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_globals given = { 0 };
	const struct rk_globals none = { 0 };
	struct rk_vars vars = { 0 };
	struct rk_parsed parsed;
	size_t n;

	(void)state;
	fill(&given);
	given.help = false;
	const char *const *options = rk_globals_words(&given, false, arena, &n);
	static const char *const command[] = { "vm", "start", "a-01" };
	const char **words = rk_arena_array(arena, n + RK_ARRAY_SIZE(command), sizeof(*words));
	memcpy(words, options, n * sizeof(*words));
	memcpy(words + n, command, sizeof(command));
	n += RK_ARRAY_SIZE(command);
	if (rk_parse(words, n, &none, true, &vars, arena, &parsed, &err))
		fail_msg("%s", err.message);
	for (const struct rk_globaldef *g = rk_global_options; g->name; g++)
		if (!g->process_only && !same_value(g, &parsed.globals, &given))
			fail_msg("--%s is lost", g->name);
	assert_true(parsed.globals.read_only && parsed.globals.twin_check);
	assert_null(parsed.globals.command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_complete),
		cmocka_unit_test(every_example_parses_to_its_own_row),
		cmocka_unit_test(every_row_tells_what_it_writes),
		cmocka_unit_test(words_split_as_documented),
		cmocka_unit_test(all_problems_of_a_batch_are_listed),
		cmocka_unit_test(a_command_in_ones_place_gets_every_option_of_it),
		cmocka_unit_test(a_background_process_gets_every_option_that_matters_to_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
