#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <readline/history.h>
#include <readline/readline.h>

#include "cli/app.h"
#include "cli/notice.h"
#include "cli/out_grid.h"
#include "inventory/base/clock.h"
#include "inventory/base/file.h"
#include "inventory/base/str.h"
#include "provision/op.h"

enum { HISTORY_MAX = 10000, SCRIPT_MAX = 1 << 20, NAMES_SHOWN = 12, OPS_OFFERED = 50 };

/* readline calls back without a context. */
static struct {
	struct rk_app *app;
	struct rk_notices *notices;
	struct rk_candidates found;
	size_t at;
	long long polled_ms;
	bool broken;                 /* Ctrl-C: the text so far is dropped */
	bool searching;              /* it came in a search: the line it was on is not ended yet */
} shell;

/* ---- completion ------------------------------------------------------------------------------------------------------------------- */

/* The words of the last command before byte `end` of the line. */
static const char *const *words_before(struct rk_arena *arena, int end, size_t *ret_n)
{
	struct rk_lines lines = { 0 };
	struct rk_lexicon looking = shell.app->lexicon;
	char *text = rk_arena_strndup(arena, rl_line_buffer, (size_t)end);
	const char *semicolon = strrchr(text, ';');
	static const char *const none[] = { NULL };
	const char *const *words = none;

	looking.inert = true;
	rk_split("line", text, &looking, arena, &lines, NULL);
	*ret_n = 0;
	bool fresh = semicolon && !semicolon[1 + strspn(semicolon + 1, " \t")];
	if (lines.n && !fresh && !lines.items[lines.n - 1].filter && !lines.items[lines.n - 1].to) {
		words = lines.items[lines.n - 1].words;
		*ret_n = lines.items[lines.n - 1].n;
	}
	free(lines.items);
	return words;
}

/* Operations are no part of the snapshot: the newest come from the store, which is near. */
static void offer_ops(const char *prefix, struct rk_candidates *found)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_op_row *rows;
	size_t n;

	if (!shell.app->world.store || rk_store_op_newest(shell.app->world.store, OPS_OFFERED, arena, &rows, &n, NULL))
		return;
	for (size_t i = 0; i < n; i++) {
		char *id RK_CLEANUP_FREE = rk_xasprintf("%lld", (long long)rows[i].id);
		bool alive = true;
		if (!rk_starts_with(id, prefix))
			continue;
		if (strcmp(rows[i].state, "running") == 0)
			rk_op_is_run(&shell.app->world, &rows[i], &alive, NULL);
		*rk_vec_push(found) = (struct rk_candidate){ rk_xstrdup(id), rk_xasprintf("%s (%s)", rows[i].command, alive ? rows[i].state : "resumable") };
	}
}

static void collect(const char *prefix, int start, bool options_too, struct rk_candidates *found)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	size_t n;
	const char *const *words = words_before(arena, start, &n);

	rk_complete(&shell.app->lexicon, &shell.app->context, shell.app->world.site, words, n, prefix, options_too, found);
	if (found->next && found->next->type == RK_ARG_OP)
		offer_ops(prefix, found);
}

static char *next_match(const char *text, int state)
{
	(void)text;
	if (!state)
		shell.at = 0;
	return shell.at < shell.found.n ? rk_xstrdup(shell.found.items[shell.at++].word) : NULL;
}

static char **complete(const char *text, int start, int end)
{
	(void)end;
	rk_candidates_free(&shell.found);
	collect(text, start, false, &shell.found);
	/* File names stay readline's business, where a file is wanted. */
	rl_attempted_completion_over = !shell.found.files;
	/* A group or option is followed by more of the same word. */
	rl_completion_append_character = shell.found.n == 1 && rk_ends_with(shell.found.items[0].word, ":") ? '\0' : ' ';
	return shell.found.n ? rl_completion_matches(text, next_match) : NULL;
}

static int word_start(int end)
{
	int start = end;

	while (start > 0 && !isspace((unsigned char)rl_line_buffer[start - 1]) && rl_line_buffer[start - 1] != ';')
		start--;
	return start;
}

/* Column for the words in front of what is told about them. */
static int words_width(const struct rk_candidates *found)
{
	int width = 14;

	for (size_t i = 0; i < found->n; i++)
		if (found->items[i].help && width <= (int)strlen(found->items[i].word))
			width = (int)strlen(found->items[i].word) + 1;
	return width;
}

static void candidates_text(const struct rk_candidates *found, struct rk_str *out)
{
	size_t shown = 0, plain = 0;
	int width = words_width(found);

	if (found->next)
		rk_str_addf(out, "  %-*s %s\n", width, found->next->name, found->next->help);
	for (size_t i = 0; i < found->n; i++) {
		const struct rk_candidate *c = &found->items[i];
		plain += !c->help;
		if (c->help)
			rk_str_addf(out, "  %-*s %s\n", width, c->word, c->help);
		else if (shown++ < NAMES_SHOWN)
			rk_str_addf(out, "  %s\n", c->word);
	}
	if (plain > NAMES_SHOWN)
		rk_str_addf(out, "  ... and %zu more\n", plain - NAMES_SHOWN);
	if (!found->next && !found->n)
		rk_str_add(out, "  (nothing more; ENTER runs it)\n");
}

static void list_candidates(const struct rk_candidates *found)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT, folded RK_CLEANUP_STR = RK_STR_INIT;

	candidates_text(found, &text);
	rk_text_fold(rk_str_text(&text), rk_screen_width(), &folded);
	fputs(rk_str_text(&folded), stdout);
}

/* '?' tells what can come next and leaves the line as it is. Inside a quoted word it is a letter. */
static int question(int count, int key)
{
	struct rk_candidates found = { 0 };
	int start = word_start(rl_point);
	char *before RK_CLEANUP_FREE = rk_xstrndup(rl_line_buffer, (size_t)rl_point), *prefix RK_CLEANUP_FREE = rk_xstrdup(before + start);

	if (rk_split_open(before))
		return rl_insert(count, key);
	/* What was typed ahead may not be on the screen yet. */
	rl_redisplay();
	printf("?\n");
	collect(prefix, start, true, &found);
	list_candidates(&found);
	rk_candidates_free(&found);
	rl_on_new_line();
	rl_redisplay();
	return 0;
}

/* ---- history ---------------------------------------------------------------------------------------------------------------------- */

static char *history_path(void)
{
	char *folder RK_CLEANUP_FREE = rk_state_folder();

	return rk_mkdirs(folder, NULL) ? NULL : rk_xasprintf("%s/history", folder);
}

static bool history_entry(size_t i, const char **ret_text, long long *ret_at_ms)
{
	HIST_ENTRY *e = history_get(history_base + (int)i);

	if (!e)
		return false;
	*ret_text = e->line;
	*ret_at_ms = (long long)history_get_time(e) * 1000;
	return true;
}

static void remember(const char *line, const char *path)
{
	HIST_ENTRY *last = history_length ? history_get(history_base + history_length - 1) : NULL;

	if (!line[strspn(line, " \t")] || (last && strcmp(last->line, line) == 0))
		return;
	add_history(line);
	/* At once: a shell that is killed keeps its history, and shells beside it do not overwrite each other's. */
	if (path && append_history(1, path) != 0)
		write_history(path);
}

static void load_history(const char *path)
{
	using_history();
	stifle_history(HISTORY_MAX);
	history_comment_char = '#';
	history_write_timestamps = 1;
	if (path)
		read_history(path);
}

/* ---- the prompt ------------------------------------------------------------------------------------------------------------------- */

static const char *store_kind(const struct rk_app *app)
{
	const char *uri = app->world.store ? rk_store_uri(app->world.store) : "";

	if (app->globals.sim)
		return "twin";
	return rk_starts_with(uri, "postgresql:") ? "postgresql" : "sqlite";
}

/* Colour that readline does not count. */
static void add_coloured(struct rk_str *out, bool colour, const char *sgr, const char *text)
{
	if (colour)
		rk_str_addf(out, "\001\033[%sm\002%s\001\033[0m\002", sgr, text);
	else
		rk_str_add(out, text);
}

static void add_marks(const struct rk_app *app, bool colour, struct rk_str *out)
{
	size_t open = rk_notices_unfinished(shell.notices);
	char text[64];

	if (app->stage.open) {
		snprintf(text, sizeof(text), " +%zu staged", app->stage.n);
		add_coloured(out, colour, "35", text);
	}
	if (open) {
		snprintf(text, sizeof(text), " !%zu unfinished", open);
		add_coloured(out, colour, "31", text);
	}
	if (app->globals.read_only)
		rk_str_add(out, " read-only");
	if (app->globals.dry_run)
		rk_str_add(out, " dry-run");
}

static bool colours(const struct rk_app *app)
{
	const char *term = getenv("TERM"), *plain = getenv("NO_COLOR");

	return term && *term && strcmp(term, "dumb") != 0 && !(plain && *plain) && !app->globals.no_color;
}

static char *prompt_of(const struct rk_app *app)
{
	struct rk_str out = RK_STR_INIT;
	const struct rk_site *site = app->world.site;
	bool colour = colours(app);

	rk_str_addf(&out, "%s:%s", store_kind(app), site && site->name ? site->name : "no-site");
	if (app->context.noun) {
		char *text RK_CLEANUP_FREE = rk_xasprintf(" %s/%s", app->context.noun, app->context.name);
		add_coloured(&out, colour, "1", text);
	}
	add_marks(app, colour, &out);
	rk_str_add(&out, "> ");
	return rk_str_steal(&out);
}

/* ---- what the shell says --------------------------------------------------------------------------------------------------------- */

/* A text of few lines, broken between words where the screen ends. */
static void say(FILE *to, const char *text)
{
	struct winsize size = { 0 };
	int columns = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0, at = 0;

	while (*text) {
		int n = (int)strcspn(text, " \n");
		if (at && columns > 0 && at + 1 + n > columns) {
			fputs("\n", to);
			at = 0;
		}
		at += fprintf(to, "%s%.*s", at ? " " : "", n, text);
		text += n;
		if (*text == '\n') {
			fputs("\n", to);
			at = 0;
		}
		text += *text != '\0';
	}
	fputs(at ? "\n" : "", to);
}

/* ---- waiting for a line ------------------------------------------------------------------------------------------------------------ */

/* Draws the prompt anew, below text when that is not NULL; what was typed so far stays. */
static void draw_below(const char *text)
{
	char *kept RK_CLEANUP_FREE = rk_xstrdup(rl_line_buffer);
	int point = rl_point;

	rl_save_prompt();
	rl_replace_line("", 0);
	rl_redisplay();
	fputs("\r", rl_outstream);
	if (text)
		say(rl_outstream, text);
	rl_restore_prompt();
	rl_replace_line(kept, 0);
	rl_point = point;
	rl_on_new_line();
	rl_redisplay();
}

/* Ctrl-C drops the line. */
static int on_signal(void)
{
	if (!rk_app_interrupted() || shell.broken)
		return 0;
	shell.broken = true;
	/* A search in the history has the prompt put aside: it is ended as by Ctrl-G, which draws it again. */
	shell.searching = RL_ISSTATE(RL_STATE_ISEARCH);
	if (shell.searching) {
		rl_stuff_char('\a');
		rl_done = 1;
		return 0;
	}
	rl_replace_line("", 0);
	/* readline ends the line in one of two ways, one of them without a new line: so this is done here, and an empty line gets no other. */
	rl_crlf();
	rl_on_new_line();
	rl_erase_empty_line = 1;
	rl_done = 1;
	return 0;
}

/* Called by readline some times a second while nobody types. */
static int idle(void)
{
	enum { EVERY_MS = 1000 };
	long long now = rk_clock_ms(NULL);
	const char *off = rk_vars_get(&shell.app->lexicon.vars, "notices");

	on_signal();
	if (shell.broken || now - shell.polled_ms < EVERY_MS || (off && strcmp(off, "off") == 0))
		return 0;
	shell.polled_ms = now;
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	if (!rk_notices_poll(shell.notices, &shell.app->world, &text))
		return 0;
	char *prompt RK_CLEANUP_FREE = prompt_of(shell.app);
	if (text.len)
		text.text[text.len - 1] = '\0';
	rl_set_prompt(prompt);
	draw_below(text.len ? rk_str_text(&text) : NULL);
	return 0;
}

/* One command text, over several lines when quotes are open; NULL at the end of input. */
static char *read_command(void)
{
	char *prompt RK_CLEANUP_FREE = prompt_of(shell.app);
	char *text = readline(prompt);

	while (text && !shell.broken && rk_split_open(text)) {
		char *more = readline("   ...> ");
		char *both = rk_xasprintf("%s\n%s", text, more ? more : "");
		free(text);
		text = both;
		if (!more)
			break;
		free(more);
	}
	return text;
}

static void start_up(struct rk_app *app)
{
	char *folder RK_CLEANUP_FREE = rk_config_folder(), *path RK_CLEANUP_FREE = rk_xasprintf("%s/start.racksh", folder), *text RK_CLEANUP_FREE = NULL;
	size_t n;

	if (access(path, R_OK) == 0 && rk_file_read(path, SCRIPT_MAX, &text, &n, NULL) == 0)
		rk_app_batch(app, path, text, true);
}

static void set_up_readline(void)
{
	rl_readline_name = "racksh";
	rl_attempted_completion_function = complete;
	rl_completer_word_break_characters = " \t\n;\"'";
	rl_event_hook = idle;
	rl_signal_event_hook = on_signal;
	rl_bind_key('?', question);
}

static void loop(struct rk_app *app, const char *history)
{
	while (!app->quit && !rk_app_ending()) {
		rk_app_catch_interrupts();
		rk_notices_poll(shell.notices, &app->world, NULL);
		shell.broken = false;
		rl_erase_empty_line = 0;
		char *line RK_CLEANUP_FREE = read_command();
		if (!line) {
			printf("\n");
			break;
		}
		if (shell.broken && shell.searching)
			printf("\n");
		if (rk_app_ending())
			break;
		if (shell.broken)
			continue;
		remember(line, history);
		rk_app_batch(app, "line", line, false);
	}
}

int rk_app_shell(struct rk_app *app)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	char *history RK_CLEANUP_FREE = history_path();

	shell.app = app;
	shell.notices = rk_notices_new();
	app->console.history = history_entry;
	set_up_readline();
	load_history(history);
	if (rk_app_world(app, false, &err))
		rk_print_error(&err, "", app->globals.format);
	say(stdout, "help tells what there is, ? what can come next, quit leaves");
	start_up(app);
	loop(app, history);
	rk_notices_free(shell.notices);
	rk_candidates_free(&shell.found);
	return rk_app_ending() ? RK_CANCELLED : 0;
}
