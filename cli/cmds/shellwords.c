#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cmds/common.h"
#include "cli/expr.h"
#include "inventory/base/clock.h"
#include "inventory/base/file.h"
#include "vmspec/vmspec.h"

/* ---- context ---------------------------------------------------------------------------------------------------------------------- */

static int op_known(struct rk_call *call, const char *name, struct rk_err *err)
{
	struct rk_op_row op;
	uint64_t id;

	if (!rk_parse_u64(name, &id))
		return rk_err_set(err, RK_INVALID, "\"%s\" is no number of an operation", name);
	return rk_store_op_get(call->world->store, (int64_t)id, call->arena, &op, err);
}

/* Is there such an object? 0, or RK_NOT_FOUND. */
static int must_exist(struct rk_call *call, const char *noun, const char *name, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;
	int ignored;

	switch (rk_context_type(noun)) {
	case RK_ARG_CLUSTER: return rk_get_cluster(call, name, &ignored, err);
	case RK_ARG_RACK: return rk_get_rack(call, name, &ignored, err);
	case RK_ARG_TRAY: return rk_find_tray(site, name) >= 0 ? 0 : rk_err_set(err, RK_NOT_FOUND, "no tray \"%s\"", name);
	case RK_ARG_VM: return rk_find_vm(site, name) >= 0 ? 0 : rk_err_set(err, RK_NOT_FOUND, "no VM \"%s\"", name);
	case RK_ARG_TENANT: return rk_get_tenant(call, name, &ignored, err);
	case RK_ARG_IMAGE: return rk_get_image(call, name, &ignored, err);
	case RK_ARG_SIZE: return rk_size_find(site, name) ? 0 : rk_err_set(err, RK_NOT_FOUND, "no size \"%s\"", name);
	case RK_ARG_OP: return op_known(call, name, err);
	default: return 0;
	}
}

static int use(struct rk_call *call, struct rk_err *err)
{
	const char *noun = rk_call_arg(call, "NOUN"), *name = rk_call_arg(call, "NAME");
	int rc = noun ? must_exist(call, noun, name, err) : 0;

	if (!rc)
		rk_context_set(&call->app->context, noun, name);
	return rc;
}

static int check_use(const struct rk_parsed *p, struct rk_err *err)
{
	const char *noun = p->values[0] ? p->values[0][0] : NULL;

	if (noun && rk_context_type(noun) == RK_ARG_NONE) {
		rk_err_set(err, RK_INVALID, "\"%s\" has no objects to use", noun);
		rk_err_hint(err, "one of rack, tray, vm, cluster, tenant, size, image, profile, op; alone it ends");
		return RK_INVALID;
	}
	if (noun && !p->values[1])
		return rk_err_set(err, RK_INVALID, "use %s needs a name", noun);
	return 0;
}

static void add_words(struct rk_str *out, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		rk_str_addc(out, ' ');
		rk_quote_word(words[i], out);
	}
}

static int path(struct rk_call *call, struct rk_err *err)
{
	const struct rk_globals *g = &call->app->globals;
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	size_t n, all = 0, n_options;
	const char *const *words = rk_parsed_command(call->parsed, &n), *const *options = rk_globals_words(g, false, call->arena, &n_options);
	const char *show[] = { "show", NULL };

	(void)err;
	if (!words && call->app->context.noun) {
		words = show;
		n = 1;
	}
	rk_str_add(&out, "racksh");
	const char *const store[] = { "--store", call->world->store ? rk_store_uri(call->world->store) : "" };
	add_words(&out, store, !g->sim && call->world->store ? RK_ARRAY_SIZE(store) : 0);
	add_words(&out, options, n_options);
	words = words ? rk_context_expand(&call->app->context, words, n, call->arena, &all) : NULL;
	add_words(&out, words, all);
	rk_out_row(call->out);
	rk_cell_text(call->out, "command", rk_str_text(&out));
	return 0;
}

/* ---- history, variables, aliases ---------------------------------------------------------------------------------------------------- */

static int history(struct rk_call *call, struct rk_err *err)
{
	const char *count = rk_call_arg(call, "COUNT"), *text;
	uint64_t wanted = 0;
	size_t n = 0;
	long long at_ms;

	if (!call->app->console.history)
		return rk_err_set(err, RK_INVALID, "only the interactive shell has a history");
	while (call->app->console.history(n, &text, &at_ms))
		n++;
	if (count)
		rk_parse_u64(count, &wanted);
	for (size_t i = wanted && wanted < n ? n - wanted : 0; i < n; i++) {
		call->app->console.history(i, &text, &at_ms);
		rk_out_row(call->out);
		rk_cell_number(call->out, "number", (long long)i + 1);
		rk_cell_time(call->out, "at", at_ms);
		rk_cell_text(call->out, "command", text);
	}
	return 0;
}

static int list_vars(struct rk_call *call, const struct rk_vars *vars, const char *only, struct rk_err *err)
{
	if (only && !rk_vars_get(vars, only))
		return rk_err_set(err, RK_NOT_FOUND, "\"%s\" is not defined", only);
	for (size_t i = 0; i < vars->n; i++) {
		if (only && strcmp(vars->names[i], only) != 0)
			continue;
		rk_out_row(call->out);
		rk_cell_text(call->out, "name", vars->names[i]);
		rk_cell_text(call->out, "value", vars->values[i]);
	}
	return 0;
}

static int set(struct rk_call *call, struct rk_err *err)
{
	const char *name = rk_call_arg(call, "NAME"), *value = rk_call_arg(call, "VALUE");

	if (!value)
		return list_vars(call, &call->app->lexicon.vars, name, err);
	rk_vars_set(&call->app->lexicon.vars, name, value);
	rk_out_nothing(call->out);
	return 0;
}

static int check_set(const struct rk_parsed *p, struct rk_err *err)
{
	const char *name = p->values[0] ? p->values[0][0] : "a";
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

	if (*name && !(name[0] >= '0' && name[0] <= '9') && strspn(name, allowed) == strlen(name))
		return 0;
	rk_err_set(err, RK_INVALID, "\"%s\" is no name of a variable", name);
	rk_err_hint(err, "letters, digits and _, no digit first");
	return RK_INVALID;
}

/* The splitter took the definition (cli/words.c). */
static int alias(struct rk_call *call, struct rk_err *err)
{
	size_t n;

	if (!rk_parsed_command(call->parsed, &n))
		return list_vars(call, &call->app->lexicon.aliases, rk_call_arg(call, "NAME"), err);
	rk_out_nothing(call->out);
	return 0;
}

/* ---- running other commands --------------------------------------------------------------------------------------------------------- */

/* The command inside a wrapping word has to be right when the line is read, not when it runs. */
static int check_inner(const struct rk_parsed *p, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const struct rk_globals none = { 0 };
	struct rk_vars vars = { 0 };
	struct rk_parsed inner;
	size_t n;
	const char *const *words = rk_parsed_command(p, &n);

	return words ? rk_parse(words, n, &none, false, &vars, arena, &inner, err) : 0;
}

static int run_inner(struct rk_call *call, struct rk_err *err)
{
	size_t n;
	const char *const *words = rk_parsed_command(call->parsed, &n);
	int rc = rk_app_words(call->app, words, n, &call->parsed->globals, "");

	/* The inner command has told its error already: the class alone is handed on. */
	(void)err;
	return rc;
}

/* Seconds to ret; false when Ctrl-C came. */
static bool pause_for(int seconds)
{
	struct timespec left = { .tv_sec = seconds };

	return nanosleep(&left, NULL) == 0 && !rk_app_interrupted();
}

enum { WATCH_MAX = 86400 };

static int number_option(const struct rk_call *call, const char *name, int otherwise)
{
	const char *text = rk_call_arg(call, name);
	uint64_t v;

	return text && rk_parse_u64(text, &v) && v > 0 && v <= WATCH_MAX ? (int)v : otherwise;
}

static int check_watch(const struct rk_parsed *p, struct rk_err *err)
{
	for (size_t i = 0; p->command->options[i].name; i++) {
		uint64_t v = 1;
		if (p->option_values[i] && rk_parse_u64(p->option_values[i], &v) && (v < 1 || v > WATCH_MAX))
			return rk_err_set(err, RK_INVALID, "--%s is from 1 to %d, not \"%s\"", p->command->options[i].name, WATCH_MAX, p->option_values[i]);
	}
	return check_inner(p, err);
}

static void watch_head(const struct rk_call *call, int seconds)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	char at[32];
	size_t n;
	const char *const *words = rk_parsed_command(call->parsed, &n);

	for (size_t i = 0; i < n; i++) {
		rk_str_addc(&text, ' ');
		rk_quote_word(words[i], &text);
	}
	/* A screen is wiped; a file or pipe gets one result after the other. */
	fprintf(stderr, "%severy %d s:%s   %s   Ctrl-C ends\n", isatty(STDOUT_FILENO) ? "\033[H\033[2J" : "", seconds, rk_str_text(&text),
		rk_time_iso(rk_clock_unix_ms(NULL), at));
}

static int watch(struct rk_call *call, struct rk_err *err)
{
	int seconds = number_option(call, "interval", 2), times = number_option(call, "count", 0), rc = 0;

	for (int i = 1;; i++) {
		if (!call->quiet && !call->json)
			watch_head(call, seconds);
		rc = run_inner(call, err);
		bool stopped = rc == RK_CANCELLED || rk_app_interrupted() || rk_app_reader_left();
		if (!stopped && i == times)
			return rc;
		if (stopped || !pause_for(seconds))
			break;
	}
	/* Ctrl-C ends it as it should end; whoever ends racksh ends what comes behind, too. */
	rk_app_take_interrupt();
	return 0;
}

static int time_command(struct rk_call *call, struct rk_err *err)
{
	int64_t began = rk_clock_ms(NULL), twin = call->app->clock ? rk_clock_ms(call->app->clock) : 0;
	bool had_twin = call->app->clock != NULL;
	int rc = run_inner(call, err);

	/* There standard error holds errors only. */
	if (call->json)
		return rc;
	fprintf(stderr, "time: %.3f s", (double)(rk_clock_ms(NULL) - began) / 1000);
	if (had_twin && rk_clock_ms(call->app->clock) > twin)
		fprintf(stderr, ", on the twin's clock %.1f s", (double)(rk_clock_ms(call->app->clock) - twin) / 1000);
	fputs("\n", stderr);
	return rc;
}

static int source(struct rk_call *call, struct rk_err *err)
{
	(void)err;
	return rk_app_batch_file(call->app, rk_call_arg(call, "FILE"));
}

/* ---- errors and conditions ---------------------------------------------------------------------------------------------------------- */

static int on_error(struct rk_call *call, struct rk_err *err)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	size_t n;
	const char *const *words = rk_parsed_command(call->parsed, &n);
	bool alone = n == 1 && (strcmp(words[0], "stop") == 0 || strcmp(words[0], "continue") == 0);

	(void)err;
	free(call->app->on_error);
	call->app->on_error = NULL;
	if (alone) {
		call->app->globals.keep_going = strcmp(words[0], "continue") == 0;
		return 0;
	}
	for (size_t i = 0; i < n; i++) {
		rk_str_add(&text, i ? " " : "");
		rk_quote_word(words[i], &text);
	}
	call->app->on_error = rk_str_steal(&text);
	return 0;
}

static int check_on_error(const struct rk_parsed *p, struct rk_err *err)
{
	size_t n;
	const char *const *words = rk_parsed_command(p, &n);

	return n == 1 && (strcmp(words[0], "stop") == 0 || strcmp(words[0], "continue") == 0) ? 0 : check_inner(p, err);
}

static char *joined(const char *const *words)
{
	struct rk_str text = RK_STR_INIT;

	for (size_t i = 0; words && words[i]; i++)
		rk_str_addf(&text, "%s%s", i ? " " : "", words[i]);
	return rk_str_steal(&text);
}

static int assert_that(struct rk_call *call, struct rk_err *err)
{
	struct rk_str found RK_CLEANUP_STR = RK_STR_INIT;
	RK_CLEANUP_JSON struct rk_json *doc = NULL;
	char *expression RK_CLEANUP_FREE = joined(call->parsed->values[0]), *json = NULL;
	size_t len = 0;
	bool holds = false;

	if (!call->app->have_last) {
		rk_err_set(err, RK_INVALID, "there is no result yet to look at");
		rk_err_hint(err, call->app->globals.resume ? "--resume makes no change twice: put a command that shows the object before the assert"
							    : "put a command that shows something before it");
		return RK_INVALID;
	}
	FILE *to = open_memstream(&json, &len);
	rk_out_json(&call->app->last, to);
	fclose(to);
	int rc = rk_json_parse("result", json, len, &doc, err);
	if (!rc)
		rc = rk_expr_holds(expression, rk_json_root(doc), &holds, &found, err);
	free(json);
	if (rc || holds)
		return rc;
	const struct rk_command *c = call->app->last.command;
	return rk_err_set(err, RK_UNHEALTHY, "%s of \"%s%s%s\" does not hold: %s", expression, c->noun, c->verb ? " " : "", c->verb ? c->verb : "", rk_str_text(&found));
}

static int check_assert(const struct rk_parsed *p, struct rk_err *err)
{
	char *expression RK_CLEANUP_FREE = joined(p->values[0]);

	return rk_expr_check(expression, err);
}

/* At the prompt the key answers; in a batch or script the word does. */
static int question(struct rk_call *call, struct rk_err *err)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	int rc = rk_help(rk_call_arg(call, "NOUN"), rk_call_arg(call, "VERB"), rk_screen_width(), &out, err);

	rk_out_raw(call->out, rk_str_text(&out), out.len);
	return rc;
}

static int quit(struct rk_call *call, struct rk_err *err)
{
	(void)err;
	call->app->quit = true;
	return 0;
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------------- */

#define NAME_VALUE RK_COLUMNS({ "name", RK_COL_TEXT }, { "value", RK_COL_TEXT })
#define COMMAND_ARG(must) { .name = "COMMAND", .type = RK_ARG_COMMAND, .required = must, .help = "a racksh command" }
#define NO_STORE (RK_CMD_NO_STORE | RK_CMD_SHELL)
#define WORD(id, word, more, ...)                                                                                             \
	static const struct rk_command id##_rows[] = { { .noun = word, .summary = more, __VA_ARGS__ } };                       \
	static const struct rk_noun id##_noun = { .name = word, .summary = more, .commands = id##_rows, .n = 1 }

WORD(use, "use", "work on one object: later lines leave out its noun and name", .flags = RK_CMD_SHELL, .run = use, .check = check_use,
     .args = RK_ARGS({ .name = "NOUN", .type = RK_ARG_TEXT, .help = "rack, tray, vm, cluster, tenant, size, image, profile or op" },
		     { .name = "NAME", .type = RK_ARG_TEXT, .help = "name of the object" }),
     .description = "After \"use cluster a\" the line \"show\" means \"cluster show a\", \"grow 2\" means \"cluster grow a 2\" and \"validate\" means "
		    "\"validate cluster a\". A command that begins with a noun is taken as it is. Without arguments nothing is in use any more.",
     .examples = RK_EXAMPLES("use rack r01"));
WORD(path, "path", "print the full one-shot command for a command in the present context", .flags = RK_CMD_SHELL | RK_CMD_WRAPS, .run = path,
     .check = check_inner, .args = RK_ARGS(COMMAND_ARG(false)), .columns = RK_COLUMNS({ "command", RK_COL_TEXT }),
     .description = "Ready to be pasted into a script. Without a command: \"show\" of what is in use.", .examples = RK_EXAMPLES("path", "path rack show r01"));
WORD(history, "history", "list the commands of this and earlier sessions with their times", .flags = NO_STORE, .list = true, .run = history,
     .args = RK_ARGS({ .name = "COUNT", .type = RK_ARG_NUMBER, .help = "only the last ones" }),
     .columns = RK_COLUMNS({ "number", RK_COL_NUMBER }, { "at", RK_COL_TIME }, { "command", RK_COL_TEXT }));
WORD(watch, "watch", "run a command again and again until Ctrl-C", .flags = NO_STORE | RK_CMD_WRAPS, .run = watch, .check = check_watch,
     .args = RK_ARGS(COMMAND_ARG(true)),
     .options = RK_ARGS({ .name = "interval", .letter = 'n', .type = RK_ARG_NUMBER, .help = "seconds between two runs (default 2)" },
			{ .name = "count", .type = RK_ARG_NUMBER, .help = "end after so many runs, with the class of the last one" }),
     .examples = RK_EXAMPLES("watch --count 1 op list"));
WORD(time, "time", "run a command and tell how long it took", .flags = NO_STORE | RK_CMD_WRAPS, .run = time_command, .check = check_inner,
     .args = RK_ARGS(COMMAND_ARG(true)), .description = "On the twin its own clock is told as well: about what a real site would take.",
     .examples = RK_EXAMPLES("time rack list"));
WORD(set, "set", "set a variable, or list them", .flags = NO_STORE, .list = true, .run = set, .check = check_set, .columns = NAME_VALUE,
     .args = RK_ARGS({ .name = "NAME", .type = RK_ARG_TEXT, .help = "name: letters, digits and _" }, { .name = "VALUE", .type = RK_ARG_TEXT, .help = "value" }),
     .description = "$NAME stands for the value in the lines after it; ${NAME-default} has a default. The variable \"pager\" names the pager of the shell (off: "
		    "none), \"notices\" turns its notices off (off).",
     .examples = RK_EXAMPLES("set", "set RACK r01"));
WORD(alias, "alias", "give a command a name of its own, or list the names", .flags = NO_STORE, .list = true, .run = alias, .columns = NAME_VALUE,
     .args = RK_ARGS({ .name = "NAME", .type = RK_ARG_TEXT, .help = "first word of later lines" },
		     { .name = "COMMAND", .type = RK_ARG_COMMAND, .help = "what it stands for; what follows the name is appended" }),
     .description = "A command with | or > in it is written in quotes, as one word.", .examples = RK_EXAMPLES("alias", "alias free tray list -o lines"));
WORD(source, "source", "run the commands of a file here", .flags = NO_STORE, .run = source,
     .args = RK_ARGS({ .name = "FILE", .type = RK_ARG_FILE, .required = true, .help = "batch file (racksh-batch(5))" },
		     { .name = "ARGUMENT", .type = RK_ARG_TEXT, .repeated = true, .help = "$1, $2, ... in the file" }),
     .description = "A file NAME.racksh in the configuration folder ($XDG_CONFIG_HOME/racksh) is a command NAME of the same kind.");
WORD(on_error, "on-error", "say what a batch does after a line that failed", .flags = NO_STORE | RK_CMD_WRAPS, .run = on_error, .check = check_on_error,
     .args = RK_ARGS({ .name = "stop|continue|COMMAND", .type = RK_ARG_COMMAND, .required = true, .help = "stop (default), run on, or a command to run once first" }),
     .examples = RK_EXAMPLES("on-error continue", "on-error op list"));
WORD(assert, "assert", "fail unless a condition on the last result holds", .flags = NO_STORE, .run = assert_that, .check = check_assert,
     .args = RK_ARGS({ .name = "CONDITION", .type = RK_ARG_TEXT, .required = true, .repeated = true, .help = "for example: state == ready && vms.length >= 4" }),
     .description = "Keys are those of the JSON form of the last command that had a result. Comparisons are == != < <= > >= and ~ (contains), joined by && || ! "
		    "and parentheses; [0] is the first element, length counts. On a list a key means that key of every element: the comparison has to hold for "
		    "all (and for at least one), or for \"any\" or \"none\" when that stands before it. A condition that does not hold is code 7.");
WORD(question, "?", "the same as help; at the prompt the key tells what can come next", .flags = NO_STORE | RK_CMD_RAW, .run = question,
     .args = RK_ARGS({ .name = "NOUN", .type = RK_ARG_TEXT, .help = "a command" }, { .name = "VERB", .type = RK_ARG_TEXT, .help = "one of its verbs" }),
     .examples = RK_EXAMPLES("? rack"));
WORD(quit, "quit", "leave the shell or end the batch", .flags = NO_STORE, .run = quit, .examples = RK_EXAMPLES("quit"));
WORD(exit, "exit", "the same as quit", .flags = NO_STORE, .run = quit, .examples = RK_EXAMPLES("exit"));

extern const struct rk_noun rk_noun_begin, rk_noun_diff, rk_noun_commit, rk_noun_abort;

const struct rk_noun *const rk_shell_words[] = {
	&use_noun, &path_noun, &rk_noun_begin, &rk_noun_diff, &rk_noun_commit, &rk_noun_abort, &history_noun, &watch_noun, &time_noun, &set_noun, &alias_noun,
	&source_noun, &on_error_noun, &assert_noun, &question_noun, &quit_noun, &exit_noun, NULL,
};
