#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/app.h"
#include "inventory/site_file.h"

/* What TAB and '?' offer, and what the context adds. */

static struct rk_site *site;

static int open_site(void **state)
{
	static const char text[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\",\"racks\":[{\"name\":\"r[1-2]\",\"trays\":{\"count\":2}}],"
				   "\"tenants\":[{\"name\":\"acme\"}]}";

	(void)state;
	return rk_site_parse("t", text, strlen(text), &site, NULL);
}

static int close_site(void **state)
{
	(void)state;
	rk_site_free(site);
	return 0;
}

/* The candidates behind a line, joined by blanks; the last word is the prefix. */
static char *offered(const struct rk_context *context, const char *line, const char *prefix)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_lexicon lexicon = { .inert = true };
	struct rk_lines lines = { 0 };
	struct rk_candidates found = { 0 };
	struct rk_str all = RK_STR_INIT;
	const char *none[] = { NULL };

	rk_split("t", line, &lexicon, arena, &lines, NULL);
	rk_complete(&lexicon, context, site, lines.n ? lines.items[0].words : none, lines.n ? lines.items[0].n : 0, prefix, false, &found);
	for (size_t i = 0; i < found.n; i++)
		rk_str_addf(&all, "%s%s", i ? " " : "", found.items[i].word);
	rk_candidates_free(&found);
	free(lines.items);
	return rk_str_steal(&all);
}

static const struct rk_context nowhere;

static void expect(const char *line, const char *prefix, const char *wanted)
{
	char *got RK_CLEANUP_FREE = offered(&nowhere, line, prefix);

	assert_string_equal(got, wanted);
}

static void nouns_verbs_options_and_values(void **state)
{
	(void)state;
	expect("", "clu", "cluster");
	expect("", "wat", "watch");
	expect("rack", "el", "elevation");
	expect("rack show", "", "r1 r2");
	expect("tray cordon r1-t01", "--re", "--reason");
	expect("tray list --output", "j", "json");
	expect("tray list -o", "", "table json csv lines");
	expect("validate cluster a --level", "", "quick standard deep");
	expect("drift", "c", "cluster");
	expect("nonsense", "x", "");
}

static void names_inside_selections(void **state)
{
	(void)state;
	expect("tray cordon", "@rack:", "@rack:r1 @rack:r2");
	expect("tray cordon", "r1-t01,r2-t0", "r1-t01,r2-t01 r1-t01,r2-t02");
	expect("tray cordon", "@all!@state:f", "@all!@state:free @all!@state:faulty");
	expect("tenant delete", "a", "acme");
}

static void commands_inside_commands(void **state)
{
	(void)state;
	expect("time", "ra", "rack");
	expect("time rack", "el", "elevation");
	expect("watch -n 3 rack show", "", "r1 r2");
	expect("help cluster", "pl", "plan");
	expect("use rack", "", "r1 r2");
	expect("use", "ra", "rack");
}

static char *expanded(const struct rk_context *context, const char *line)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_lexicon lexicon = { 0 };
	struct rk_lines lines = { 0 };
	struct rk_str all = RK_STR_INIT;
	size_t n;

	assert_int_equal(rk_split("t", line, &lexicon, arena, &lines, NULL), 0);
	const char *const *words = rk_context_expand(context, lines.items[0].words, lines.items[0].n, arena, &n);
	for (size_t i = 0; i < n; i++)
		rk_str_addf(&all, "%s%s", i ? " " : "", words[i]);
	free(lines.items);
	return rk_str_steal(&all);
}

static void the_context_adds_what_is_left_out(void **state)
{
	const struct rk_context cluster = { (char *)"cluster", (char *)"a" };
	static const char *const rows[][2] = {
		{ "show", "cluster show a" }, { "list", "cluster list" }, { "create f.json", "cluster create f.json" }, { "validate", "validate cluster a" },
		{ "validate --level deep", "validate cluster a --level deep" }, { "validate rack r1", "validate rack r1" }, { "rack list", "rack list" },
		{ "time show -o json", "time cluster show a -o json" }, { "watch -n 2 validate", "watch -n 2 validate cluster a" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		char *got RK_CLEANUP_FREE = expanded(&cluster, rows[i][0]);
		assert_string_equal(got, rows[i][1]);
		char *same RK_CLEANUP_FREE = expanded(&nowhere, rows[i][0]);
		assert_string_equal(same, rows[i][0]);
	}
	char *got RK_CLEANUP_FREE = offered(&cluster, "", "sho");
	assert_string_equal(got, "show");
}

static void operators_act_as_words_of_their_own_only(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_lexicon lexicon = { 0 };
	struct rk_lines lines = { 0 };

	(void)state;
	assert_int_equal(rk_split("t", "tray list | awk '{print $1}' | sort; tray show a!b > f; !ls | wc; x >> \"a b\"\nassert n > 3", &lexicon, arena, &lines, NULL), 0);
	assert_int_equal(lines.n, 5);
	assert_string_equal(lines.items[0].filter, "awk '{print $1}' | sort");
	assert_int_equal(lines.items[1].n, 3);
	assert_string_equal(lines.items[1].to, "f");
	assert_string_equal(lines.items[2].shell, "ls | wc");
	assert_true(lines.items[3].append);
	assert_string_equal(lines.items[3].to, "a b");
	assert_int_equal(lines.items[4].n, 4);
	free(lines.items);
}

static void aliases_and_defaults_are_filled_in(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_lexicon lexicon = { 0 };
	struct rk_lines lines = { 0 };

	(void)state;
	assert_int_equal(rk_split("t", "alias rack rack list -o\nrack lines\nx ${NO-d e}${NO-}f", &lexicon, arena, &lines, NULL), 0);
	assert_int_equal(lines.n, 3);
	assert_int_equal(lines.items[1].n, 4);
	assert_string_equal(lines.items[1].words[3], "lines");
	assert_int_equal(lines.items[1].number, 2);
	assert_string_equal(lines.items[2].words[1], "d ef");
	free(lines.items);
	rk_vars_free(&lexicon.aliases);
}

static void a_text_that_goes_on_is_known(void **state)
{
	(void)state;
	assert_true(rk_split_open("set A \"b"));
	assert_true(rk_split_open("rack list \\"));
	assert_true(rk_split_open("rack list \\\n"));
	assert_false(rk_split_open("rack list # it's"));
	assert_false(rk_split_open("set A 'b\nc'"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nouns_verbs_options_and_values), cmocka_unit_test(names_inside_selections), cmocka_unit_test(commands_inside_commands),
		cmocka_unit_test(the_context_adds_what_is_left_out), cmocka_unit_test(operators_act_as_words_of_their_own_only),
		cmocka_unit_test(aliases_and_defaults_are_filled_in), cmocka_unit_test(a_text_that_goes_on_is_known),
	};

	return cmocka_run_group_tests(tests, open_site, close_site);
}
