#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/app.h"
#include "cli/schema.h"
#include "tests/contract/json_schema.h"
#include "tests/contract/racksh_runs.h"

/* Every example of every row runs on the twin of the example site, and what it prints with -o json is as its schema says. */

/* On the twin kept in `state`. */
static int run_with(const char *state, const char *format, const char *option, const char *command)
{
	const char *argv[] = { racksh, "--sim", "tests/examples/site-1.json", "--sim-state", state, "-y", "-o", format, "-c", command, option, NULL };

	return run_racksh(argv);
}

static int run(const char *state, const char *format, const char *command)
{
	return run_with(state, format, NULL, command);
}

static void copy(const char *from, const char *to)
{
	char *source RK_CLEANUP_FREE = in_folder(from), *target RK_CLEANUP_FREE = in_folder(to), *data = NULL;
	size_t len;

	assert_int_equal(rk_file_read(source, OUTPUT_MAX, &data, &len, NULL), 0);
	assert_int_equal(rk_file_write(target, data, len, 0600, NULL), 0);
	free(data);
}

/* The twin holds cluster a, and there is evidence of it: what the examples speak of. */
static int make_twin(void **state)
{
	(void)state;
	if (open_folder((const char *const[]){ "tests", "provision", NULL }))
		return -1;
	char *spec RK_CLEANUP_FREE = cluster_text("a", 4);
	put_text("a.json", spec);
	int code = run("base.db", "table", "image add spare default/spare.qcow2; cluster create a.json; validate cluster a --save evidence-a");
	char *err RK_CLEANUP_FREE = text_of("err");
	if (code)
		print_error("the twin could not be made (%d): %s\n", code, err);
	return code;
}

static int remove_twin(void **state)
{
	(void)state;
	return remove_folder();
}

/* Words of the shell live in a shell: alone they say what is missing. */
static bool needs_shell(const struct rk_command *c)
{
	return c->flags & RK_CMD_SHELL;
}

static void each_example(void (*check)(const struct rk_command *c, const char *example))
{
	for (const struct rk_noun *const *n = rk_nouns; *n; n++)
		for (size_t i = 0; i < (*n)->n; i++)
			for (const char *const *e = (*n)->commands[i].examples; e && *e; e++)
				check(&(*n)->commands[i], *e);
	for (const struct rk_noun *const *n = rk_shell_words; *n; n++)
		for (const char *const *e = (*n)->commands[0].examples; e && *e; e++)
			check(&(*n)->commands[0], *e);
}

static size_t failed;

static void move(const char *from, const char *to)
{
	char *source RK_CLEANUP_FREE = in_folder(from), *target RK_CLEANUP_FREE = in_folder(to);

	assert_int_equal(rename(source, target), 0);
}

/* What a cluster holds is neither replaced nor removed nor switched off: these are examples for a site without any. */
static bool wants_empty_site(const char *example)
{
	static const char *const heads[] = { "site import", "power " };

	for (size_t i = 0; i < RK_ARRAY_SIZE(heads); i++)
		if (rk_starts_with(example, heads[i]))
			return true;
	return false;
}

/* An example that awaits a confirmation leaves a process that watches its operation: the confirmation ends it. */
static void end_watcher(const char *last)
{
	if (last && strstr(last, "--confirm-within"))
		assert_int_equal(run("run.db", "table", "op confirm 2"), 0);
}

static int run_example(const char *format, const char *example)
{
	static const char *last;
	bool saves = strstr(example, "--save evidence-a") != NULL;
	static const char *const parts[] = { "run.db", "run.db-wal", "run.db-shm" };

	end_watcher(last);
	last = example;
	for (size_t i = 0; i < RK_ARRAY_SIZE(parts); i++) {
		char *path RK_CLEANUP_FREE = in_folder(parts[i]);
		unlink(path);
	}
	if (!wants_empty_site(example))
		copy("base.db", "run.db");
	if (saves)
		move("evidence-a", "kept");
	int code = run("run.db", format, example);
	if (saves) {
		char *made RK_CLEANUP_FREE = rk_xasprintf("made-%s", format);
		move("evidence-a", made);
		move("kept", "evidence-a");
	}
	return code;
}

static void example_runs(const struct rk_command *c, const char *example)
{
	(void)c;
	int code = run_example("table", example);
	if (code == 0)
		return;
	char *err RK_CLEANUP_FREE = text_of("err");
	print_error("example \"%s\" ends with %d: %s", example, code, err);
	failed++;
}

static void every_example_runs_on_the_twin(void **state)
{
	(void)state;
	failed = 0;
	each_example(example_runs);
	assert_int_equal(failed, 0);
}

static void check_against(const struct rk_command *c, const char *example, const char *text)
{
	RK_CLEANUP_JSON struct rk_json *schema = NULL;
	RK_CLEANUP_JSON struct rk_json *doc = NULL;
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_str document RK_CLEANUP_STR = RK_STR_INIT;
	struct schema_check check = { .where = "$" };

	assert_int_equal(rk_schema(c->noun, c->verb, &document, &err), 0);
	assert_int_equal(rk_json_parse("schema", rk_str_text(&document), document.len, &schema, &err), 0);
	check.root = rk_json_root(schema);
	if (rk_json_parse(example, text, strlen(text), &doc, &err)) {
		print_error("example \"%s\": %s\n", example, err.message);
		failed++;
	} else if (!schema_valid(&check, check.root, rk_json_root(doc))) {
		print_error("example \"%s\": not as its schema says: %s\n", example, check.problem);
		failed++;
	}
}

/* A dry run prints the plan of another row, and a format of its own in the example stays what it is. */
static void json_is_valid(const struct rk_command *c, const char *example)
{
	/* An export has columns for --check alone. */
	if (needs_shell(c) || !c->columns || strcmp(c->noun, "export") == 0 || strstr(example, " -n") || strstr(example, "--dry-run") || strstr(example, " -o "))
		return;
	run_example("json", example);
	char *text RK_CLEANUP_FREE = text_of("out");
	if (*text)
		check_against(c, example, text);
}

static void json_is_as_its_schema_says(void **state)
{
	(void)state;
	failed = 0;
	each_example(json_is_valid);
	assert_int_equal(failed, 0);
}

/* Everything the store and the twin say, but for times. */
static char *everything(const char *state)
{
	run(state, "csv", "site export; tray list; cluster list; vm list; tenant list; image list; reserve list; op list; audit list; nvlink list; ib list; drift");
	return text_of("out");
}

static bool changes(const struct rk_command *c, const char *example)
{
	char *option RK_CLEANUP_FREE = rk_xasprintf("--%s", c->changes_with ? c->changes_with : "");

	return (c->flags & RK_CMD_CHANGES) || (c->changes_with && strstr(example, option));
}

static void changes_nothing_dry(const struct rk_command *c, const char *example)
{
	if (!(changes(c, example) || (c->flags & RK_CMD_RECORDS)) || wants_empty_site(example))
		return;
	copy("base.db", "dry.db");
	char *before RK_CLEANUP_FREE = everything("dry.db");
	run_with("dry.db", "table", "-n", example);
	char *said RK_CLEANUP_FREE = text_of("out");
	if (!*said) {
		print_error("example \"%s\" says nothing with -n\n", example);
		failed++;
	}
	char *after RK_CLEANUP_FREE = everything("dry.db");
	if (strcmp(before, after) == 0)
		return;
	print_error("example \"%s\" changes something with -n\n", example);
	failed++;
}

static void a_dry_run_says_what_it_would_do_and_changes_nothing(void **state)
{
	(void)state;
	failed = 0;
	each_example(changes_nothing_dry);
	assert_int_equal(failed, 0);
}

static void is_refused_read_only(const struct rk_command *c, const char *example)
{
	if (!changes(c, example) || strstr(example, " -n") || strstr(example, "--dry-run"))
		return;
	int code = run_with("base.db", "table", "--read-only", example);
	if (code == 2)
		return;
	print_error("example \"%s\" ends with %d under --read-only\n", example, code);
	failed++;
}

static void read_only_refuses_every_change(void **state)
{
	(void)state;
	failed = 0;
	each_example(is_refused_read_only);
	assert_int_equal(failed, 0);
}

static void every_shape_belongs_to_a_column(void **state)
{
	(void)state;
	for (size_t i = 0; rk_schema_shape_name(i); i++) {
		char *name RK_CLEANUP_FREE = rk_xstrdup(rk_schema_shape_name(i)), *key = strrchr(name, '.');
		bool found = false;
		*key++ = '\0';
		char *verb = strchr(name, ' ');
		if (verb)
			*verb++ = '\0';
		const struct rk_noun *noun = rk_noun_find(name);
		for (size_t r = 0; noun && r < noun->n; r++)
			for (const struct rk_column *column = noun->commands[r].columns; column && column->key; column++)
				found |= (rk_streq(verb, "*") || rk_streq(noun->commands[r].verb, verb)) && strcmp(column->key, key) == 0;
		if (!found)
			fail_msg("no column %s", rk_schema_shape_name(i));
	}
}

static void every_nested_column_has_a_shape(void **state)
{
	(void)state;
	for (const struct rk_noun *const *n = rk_nouns; *n; n++)
		for (size_t i = 0; i < (*n)->n; i++)
			for (const struct rk_column *column = (*n)->commands[i].columns; column && column->key; column++)
				if (column->type == RK_COL_JSON) {
					const char *shape = rk_schema_shape(&(*n)->commands[i], column);
					if (!shape || strstr(shape, "any"))
						fail_msg("cli/schema.c has no full shape for %s %s.%s", (*n)->name, (*n)->commands[i].verb, column->key);
				}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_example_runs_on_the_twin), cmocka_unit_test(json_is_as_its_schema_says),
		cmocka_unit_test(a_dry_run_says_what_it_would_do_and_changes_nothing), cmocka_unit_test(read_only_refuses_every_change), cmocka_unit_test(every_shape_belongs_to_a_column), cmocka_unit_test(every_nested_column_has_a_shape),
	};

	return cmocka_run_group_tests(tests, make_twin, remove_twin);
}
