#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/app.h"
#include "inventory/base/digest.h"
#include "inventory/base/file.h"
#include "inventory/base/json.h"
#include "inventory/base/sort.h"

enum { BATCH_MAX = 16 << 20 };

/* ---- parsing ---------------------------------------------------------------------------------------------------------------------- */

struct batch {
	struct rk_app *app;
	const char *name;
	bool shown;                  /* errors tell file and line */
	struct rk_lines lines;
	struct rk_parsed *parsed;    /* per line */
	struct rk_arena *arena;
	size_t skip;                 /* lines that ran before (--resume) */
	size_t again;                /* the one of them that is run again, for its result; the count: none */
};

static char *place_of(const struct batch *b, const struct rk_line *line)
{
	return b->shown ? rk_xasprintf("%s:%d: ", line->file, line->number) : rk_xstrdup("");
}

/* Every problem of a text is an error of its own. */
struct problems {
	struct problem {
		int line;
		size_t order;
		struct rk_err err;
	} *items;
	size_t n, cap;
};

static int by_line(const void *a, const void *b)
{
	const struct problem *x = a, *y = b;

	return x->line != y->line ? x->line - y->line : x->order < y->order ? -1 : x->order > y->order;
}

/* N of "NAME:N: message"; names may hold colons. */
static int line_of(const char *text)
{
	for (const char *at = strchr(text, ':'); at; at = strchr(at + 1, ':')) {
		size_t digits = strspn(at + 1, "0123456789");
		if (digits && digits < 9 && at[1 + digits] == ':')
			return (int)strtol(at + 1, NULL, 10);
	}
	return 0;
}

static struct problem *add_problem(struct problems *all, int line)
{
	struct problem *p = rk_vec_push(all);

	p->line = line;
	p->order = all->n;
	return p;
}

static void print_problems(struct problems *all, enum rk_format format)
{
	rk_sort(all->items, all->n, sizeof(*all->items), by_line);
	for (size_t i = 0; i < all->n; i++) {
		rk_print_error(&all->items[i].err, "", format);
		rk_err_clear(&all->items[i].err);
	}
	free(all->items);
}

/* A `use` line counts for the lines behind it, as it will when they run. */
static void follow_context(struct rk_context *context, const struct rk_parsed *p)
{
	if (p->command && p->noun && strcmp(p->noun, "use") == 0 && !p->globals.help)
		rk_context_set(context, p->values[0] ? p->values[0][0] : NULL, p->values[1] ? p->values[1][0] : NULL);
}

static void parse_all(struct batch *b, struct problems *problems)
{
	struct rk_context context = { 0 };

	rk_context_set(&context, b->app->context.noun, b->app->context.name);
	b->parsed = rk_arena_array(b->arena, b->lines.n + 1, sizeof(*b->parsed));
	for (size_t i = 0; i < b->lines.n; i++) {
		RK_CLEANUP_ERR struct rk_err one = RK_ERR_INIT;
		const struct rk_line *line = &b->lines.items[i];
		size_t n;
		if (line->shell || line->wrong)
			continue;
		const char *const *words = rk_context_expand(&context, line->words, line->n, b->arena, &n);
		if (rk_parse(words, n, &b->app->globals, false, &b->app->lexicon.vars, b->arena, &b->parsed[i], &one) == 0) {
			follow_context(&context, &b->parsed[i]);
			continue;
		}
		if (b->shown)
			rk_err_while(&one, "%s:%d", line->file, line->number);
		rk_err_move(&add_problem(problems, line->number)->err, &one);
	}
	rk_context_set(&context, NULL, NULL);
}

/* Lines and commands of a text. All problems are printed; RK_INVALID when there is one. */
static int split_and_parse(struct batch *b, const char *text)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct problems problems = { 0 };

	rk_split(b->name, text, &b->app->lexicon, b->arena, &b->lines, &err);
	for (size_t i = 0; i < err.n_details; i++) {
		/* A line that was typed just now needs no name. */
		const char *detail = err.details[i];
		size_t skip = !b->shown && rk_starts_with(detail, "line:1: ") ? strlen("line:1: ") : 0;
		rk_err_set(&add_problem(&problems, line_of(detail))->err, RK_INVALID, "%s", detail + skip);
	}
	parse_all(b, &problems);
	int rc = problems.n ? RK_INVALID : 0;
	print_problems(&problems, b->app->globals.format);
	return rc;
}

/* ---- running ---------------------------------------------------------------------------------------------------------------------- */

/* What a line does beyond racksh is real even where racksh's own work is done on a twin. /dev/null keeps nothing, so it may stay. */
static bool reaches_out(const struct rk_line *line)
{
	return line->shell || line->filter || (line->to && strcmp(line->to, "/dev/null") != 0);
}

static bool tells(const struct rk_app *app)
{
	return !app->globals.quiet && app->globals.format != RK_FORMAT_JSON;
}

/* option: it is left out and the rest runs; NULL: nothing does. */
static void tell_not_written(const struct rk_app *app, const struct rk_command *c, const char *option, const char *to, const char *place)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();

	if (tells(app))
		fprintf(stderr, "%snot %s: %s%s%s%s%s %s\n", place, option ? "written" : "run", c->noun, c->verb ? " " : "", c->verb ? c->verb : "",
			option ? " --" : "", option ? option : "", strstr(to, "://") ? rk_store_uri_shown(arena, to) : to);
}

const struct rk_parsed *rk_app_sealed(const struct rk_app *app, const struct rk_parsed *p, const char *place, struct rk_arena *arena)
{
	const struct rk_call call = { .command = p->command, .parsed = p };
	const struct rk_argdef *o = p->command->options;
	const char *to = rk_call_arg(&call, p->command->writes);
	size_t n = 0, at = 0;

	if (!to)
		return p;
	while (o && o[n].name)
		n++;
	while (at < n && strcmp(o[at].name, p->command->writes) != 0)
		at++;
	tell_not_written(app, p->command, at < n ? o[at].name : NULL, to, place);
	if (at == n)
		return NULL;
	/* Without the option the command only looks, or works on the twin. */
	struct rk_parsed *left = rk_arena_alloc(arena, sizeof(*left));
	*left = *p;
	left->option_values = rk_arena_array(arena, n + 1, sizeof(*left->option_values));
	for (size_t i = 0; i < n; i++)
		left->option_values[i] = i == at ? NULL : p->option_values[i];
	return left;
}

static void tell_not_run(const struct rk_app *app, const struct rk_line *line, const char *place)
{
	if (!tells(app))
		return;
	fprintf(stderr, "%snot run:", place);
	if (line->shell)
		fprintf(stderr, " !%s", line->shell);
	if (line->filter)
		fprintf(stderr, " | %s", line->filter);
	if (line->to)
		fprintf(stderr, " %s %s", line->append ? ">>" : ">", line->to);
	fputs("\n", stderr);
}

/* The racksh part of a line alone; its result is shown. */
static int run_inside(struct batch *b, size_t i, const char *place)
{
	const struct rk_line *line = &b->lines.items[i];

	tell_not_run(b->app, line, place);
	return line->shell ? 0 : rk_app_run(b->app, &b->parsed[i], place);
}

static int run_line(struct batch *b, size_t i)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	const struct rk_line *line = &b->lines.items[i];
	char *place RK_CLEANUP_FREE = place_of(b, line);
	struct rk_sink sink;

	if (b->app->sealed && reaches_out(line))
		return run_inside(b, i, place);
	if (line->shell) {
		int rc = rk_system_shell(line->shell, &b->app->lexicon.vars, &err);
		if (rc)
			rk_print_error(&err, place, b->app->globals.format);
		return rc;
	}
	if (rk_sink_open(&sink, line, &b->app->lexicon.vars, &err)) {
		rk_print_error(&err, place, b->app->globals.format);
		return err.rc;
	}
	int rc = rk_app_run(b->app, &b->parsed[i], place);
	rk_sink_close(&sink);
	return rc;
}

static void run_on_error(struct rk_app *app)
{
	char *text RK_CLEANUP_FREE = rk_steal(&app->on_error);

	/* Taken away first: an error in it must not run it again. Ctrl-C was for the line that failed. */
	rk_app_take_interrupt();
	rk_app_batch(app, "on-error", text, true);
}

/* Lines that say how later ones run are needed again by --resume. */
static bool prepares(const struct rk_parsed *p)
{
	return p->noun && (strcmp(p->noun, "use") == 0 || strcmp(p->noun, "on-error") == 0);
}

static bool asserts(const struct rk_parsed *p)
{
	return p->noun && strcmp(p->noun, "assert") == 0;
}

/* The row whose result a line leaves behind: `time` and `watch` leave that of the command they run. NULL: none. */
static const struct rk_command *result_of(const struct batch *b, const struct rk_parsed *p)
{
	struct rk_vars vars = { 0 };
	struct rk_parsed inner = *p;
	size_t n;

	while (inner.noun && (strcmp(inner.noun, "time") == 0 || strcmp(inner.noun, "watch") == 0)) {
		const char *const *words = rk_parsed_command(&inner, &n);
		if (!words || rk_parse(words, n, &b->app->globals, false, &vars, b->arena, &inner, NULL))
			return NULL;
	}
	return inner.command && inner.command->columns && !(inner.command->flags & RK_CMD_SHELL) ? inner.command : NULL;
}

/* An `assert` that comes before any new result looks at one of the lines that are skipped: that line has to be run again, so that a repair is
 * seen. A change is never made twice for that. */
static size_t result_to_renew(const struct batch *b)
{
	size_t first = b->skip, at = b->skip;

	while (first < b->lines.n && !asserts(&b->parsed[first]) && !result_of(b, &b->parsed[first]))
		first++;
	if (first == b->lines.n || !asserts(&b->parsed[first]))
		return b->lines.n;
	while (at > 0 && !result_of(b, &b->parsed[at - 1]))
		at--;
	return at > 0 && !(result_of(b, &b->parsed[at - 1])->flags & RK_CMD_CHANGES) ? at - 1 : b->lines.n;
}

/* Ctrl-C in a line that did not look, or had ended: those behind it are not begun. */
static int cancelled_before(const struct batch *b, size_t i)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	char *place RK_CLEANUP_FREE = place_of(b, &b->lines.items[i]);

	rk_err_set(&err, RK_CANCELLED, "cancelled before this line");
	rk_print_error(&err, place, b->app->globals.format);
	return RK_CANCELLED;
}

/* Runs to the end or the first error; *ret_failed: the line, or the count when all went well. */
static int run_all(struct batch *b, size_t *ret_failed)
{
	struct rk_app *app = b->app;
	int first = 0;

	*ret_failed = b->lines.n;
	for (size_t i = 0; i < b->lines.n && !app->quit; i++) {
		if (i < b->skip && i != b->again && !prepares(&b->parsed[i]))
			continue;
		int rc = rk_app_interrupted() ? cancelled_before(b, i) : run_line(b, i);
		if (!rc)
			continue;
		if (!first)
			*ret_failed = i;
		first = first ? first : rc;
		if (app->on_error && b->shown && !rk_app_ending())
			run_on_error(app);
		if (!app->globals.keep_going || rc == RK_CANCELLED)
			break;
	}
	return first;
}

int rk_app_batch(struct rk_app *app, const char *name, const char *text, bool shown)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct batch b = { .app = app, .name = name, .shown = shown, .arena = arena };
	size_t failed;
	int rc = split_and_parse(&b, text);

	if (!rc)
		rc = run_all(&b, &failed);
	free(b.lines.items);
	return rc;
}

int rk_app_words(struct rk_app *app, const char *const *words, size_t n, const struct rk_globals *defaults, const char *place)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_parsed parsed;
	size_t all;
	const char *const *expanded = rk_context_expand(&app->context, words, n, arena, &all);
	int rc = rk_parse(expanded, all, defaults, false, &app->lexicon.vars, arena, &parsed, &err);

	if (rc)
		rk_print_error(&err, place, defaults->format);
	return rc ? rc : rk_app_run(app, &parsed, place);
}

/* ---- resume ----------------------------------------------------------------------------------------------------------------------- */

/* Where the note about a failed batch is kept: named by the digest of the file's full path. */
static char *note_path(const char *path, struct rk_err *err)
{
	char *folder RK_CLEANUP_FREE = rk_state_folder(), *full RK_CLEANUP_FREE = realpath(path, NULL);
	char *batches RK_CLEANUP_FREE = rk_xasprintf("%s/batches", folder);
	char hex[65];

	if (rk_mkdirs(batches, err))
		return NULL;
	rk_sha256_hex(full ? full : path, strlen(full ? full : path), hex);
	return rk_xasprintf("%s/%s", batches, hex);
}

/* What ran before line `failed`, so that a change of it is noticed; lines behind may be repaired. */
static void digest_before(const struct batch *b, size_t failed, char hex[65])
{
	struct rk_str all RK_CLEANUP_STR = RK_STR_INIT;

	for (size_t i = 0; i < failed; i++) {
		const struct rk_line *line = &b->lines.items[i];
		rk_str_add(&all, line->shell ? line->shell : "");
		for (size_t w = 0; w < line->n; w++)
			rk_quote_word(line->words[w], &all);
		rk_str_addc(&all, '\n');
	}
	rk_sha256_hex(rk_str_text(&all), all.len, hex);
}

static int note_failure(const struct batch *b, const char *note, size_t failed, struct rk_err *err)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	char hex[65];
	struct rk_jw w;

	digest_before(b, failed, hex);
	rk_jw_init(&w, &text, 0);
	rk_jw_object(&w);
	rk_jw_key(&w, "file");
	rk_jw_str(&w, b->name);
	rk_jw_key(&w, "commands_done");
	rk_jw_u64(&w, failed);
	rk_jw_key(&w, "digest");
	rk_jw_str(&w, hex);
	rk_jw_end(&w);
	return rk_file_write(note, text.text, text.len, 0600, err);
}

static int read_note(struct batch *b, const char *note, struct rk_err *err)
{
	RK_CLEANUP_JSON struct rk_json *doc = NULL;
	char *text RK_CLEANUP_FREE = NULL, hex[65];
	size_t len;
	uint64_t done = 0;
	int rc = rk_file_read(note, 4096, &text, &len, err);

	if (rc == RK_NOT_FOUND)
		return rk_err_set(err, RK_NOT_FOUND, "no failure of %s is known, so there is nothing to resume", b->name);
	if (!rc)
		rc = rk_json_parse(note, text, len, &doc, err);
	if (rc)
		return rc;
	if (!rk_ju64(rk_jget(rk_json_root(doc), "commands_done"), &done) || done > b->lines.n)
		return rk_err_set(err, RK_CONFLICT, "%s was changed: it is shorter than what has run", b->name);
	digest_before(b, (size_t)done, hex);
	if (!rk_streq(rk_jstr(rk_jget(rk_json_root(doc), "digest")), hex)) {
		rk_err_set(err, RK_CONFLICT, "%s was changed before the line that failed", b->name);
		rk_err_hint(err, "run it from the start, or undo the change");
		return RK_CONFLICT;
	}
	b->skip = (size_t)done;
	b->again = result_to_renew(b);
	return 0;
}

static int run_file(struct batch *b, const char *path, struct rk_err *err)
{
	char *note RK_CLEANUP_FREE = strcmp(path, "-") == 0 ? NULL : note_path(path, NULL);
	size_t failed;
	int rc = b->app->globals.resume ? note ? read_note(b, note, err) : rk_err_set(err, RK_FAILED, "the state folder cannot be used") : 0;

	if (rc)
		return rc;
	rc = run_all(b, &failed);
	if (!note || b->app->globals.dry_run || b->app->rehearsal)
		return rc;
	if (rc && note_failure(b, note, failed, NULL) == 0)
		fprintf(stderr, "%s", b->app->globals.format == RK_FORMAT_JSON || b->app->globals.keep_going ? "" : "hint: --resume runs on at that line\n");
	else
		unlink(note);
	return rc;
}

int rk_app_batch_file(struct rk_app *app, const char *path)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct batch b = { .app = app, .name = strcmp(path, "-") == 0 ? "stdin" : path, .shown = true, .arena = arena };
	char *text RK_CLEANUP_FREE = NULL;
	size_t len;
	int rc = rk_file_read(path, BATCH_MAX, &text, &len, &err);

	if (!rc && strlen(text) != len)
		rc = rk_err_set(&err, RK_INVALID, "%s holds a NUL byte", path);
	if (!rc)
		rc = split_and_parse(&b, text);
	if (!rc)
		rc = run_file(&b, path, &err);
	if (err.message)
		rk_print_error(&err, "", app->globals.format);
	free(b.lines.items);
	return rc;
}
