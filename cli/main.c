#include "cli/app.h"

#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/out_impl.h"
#include "inventory/base/file.h"
#include "inventory/site_file.h"
#include "provision/sim.h"

enum { JOBS_DEFAULT = 64, BATCH_MAX = 16 << 20 };

/* Ctrl-C has to reach the operation that runs; a signal handler has no other way than an object of static life. */
static volatile int interrupted;

static void on_interrupt(int signal)
{
	(void)signal;
	interrupted = 1;
}

void rk_print_error(const struct rk_err *err, const char *place, enum rk_format format)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	const char *message = err->message ? err->message : "unknown error";

	if (format != RK_FORMAT_JSON) {
		fprintf(stderr, "racksh: %s%s\n", place, message);
		for (size_t i = 0; i < err->n_details; i++)
			fprintf(stderr, "  %s\n", err->details[i]);
		if (err->hint)
			fprintf(stderr, "hint: %s\n", err->hint);
		return;
	}
	struct rk_jw w;
	char *placed RK_CLEANUP_FREE = rk_xasprintf("%s%s", place, message);
	rk_jw_init(&w, &out, 0);
	rk_jw_object(&w);
	rk_jw_key(&w, "error");
	rk_jw_object(&w);
	rk_jw_key(&w, "code");
	rk_jw_i64(&w, rk_class_exit(err->rc));
	rk_jw_key(&w, "class");
	rk_jw_str(&w, rk_class_name(err->rc));
	rk_jw_key(&w, "message");
	rk_jw_str(&w, placed);
	rk_jw_key(&w, "hint");
	rk_jw_str(&w, err->hint);
	rk_jw_key(&w, "details");
	rk_jw_array(&w);
	for (size_t i = 0; i < err->n_details; i++)
		rk_jw_str(&w, err->details[i]);
	rk_jw_end(&w);
	rk_jw_end(&w);
	rk_jw_end(&w);
	fprintf(stderr, "%s\n", rk_str_text(&out));
}

/* ---- the world ------------------------------------------------------------------------------------------------------------------ */

static const char *user_name(void)
{
	struct passwd *pw = getpwuid(geteuid());

	return pw ? pw->pw_name : "unknown";
}

static int open_store(const char *uri, bool write, struct rk_store **ret, struct rk_err *err)
{
	char host[256] = "localhost";
	struct rk_actor actor = { .user = user_name(), .host = host, .pid = (long)getpid() };

	gethostname(host, sizeof(host) - 1);
	return rk_store_open(uri, write ? RK_STORE_WRITE : RK_STORE_READ, &actor, ret, err);
}

static char *default_uri(const struct rk_globals *g)
{
	const char *env = getenv("RACKSH_STORE"), *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (g->store || env)
		return rk_xstrdup(g->store ? g->store : env);
	if (state && *state)
		return rk_xasprintf("sqlite:%s/racksh/site.db", state);
	return rk_xasprintf("sqlite:%s/.local/state/racksh/site.db", home ? home : ".");
}

static int fill_twin_store(struct rk_app *app, const struct rk_site *site, struct rk_err *err)
{
	int rc = rk_store_begin(app->world.store, -1, err);

	if (!rc)
		rc = rk_store_put_site(app->world.store, site, err);
	if (rc) {
		rk_store_rollback(app->world.store);
		return rc;
	}
	return rk_store_commit(app->world.store, err);
}

static int open_twin(struct rk_app *app, struct rk_err *err)
{
	const struct rk_globals *g = &app->globals;
	char *uri RK_CLEANUP_FREE = g->sim_state ? rk_xasprintf("sqlite:%s", g->sim_state) : rk_xstrdup("mem:");
	bool there = g->sim_state && access(g->sim_state, F_OK) == 0;
	int rc = rk_site_load(g->sim, &app->twin_site, err);

	if (rc)
		return rc;
	rk_site_invent(app->twin_site);
	rc = open_store(uri, true, &app->world.store, err);
	if (!rc && !there)
		rc = fill_twin_store(app, app->twin_site, err);
	if (!rc)
		rc = rk_store_snapshot(app->world.store, &app->world.site, err);
	app->clock = rk_clock_virtual(rk_clock_unix_ms(NULL));
	app->world.env.clock = app->clock;
	if (!rc)
		rc = rk_sim_open(app->twin_site, g->sim_state, app->clock, &app->world.sim, err);
	if (!rc && g->sim_fault)
		rc = rk_sim_fault_add(app->world.sim, g->sim_fault, err);
	return rc;
}

static int open_real(struct rk_app *app, bool write, struct rk_err *err)
{
	char *uri RK_CLEANUP_FREE = default_uri(&app->globals);
	int rc = open_store(uri, write, &app->world.store, err);

	return rc ? rc : rk_store_snapshot(app->world.store, &app->world.site, err);
}

static void prepare_world(struct rk_app *app)
{
	struct rk_world *w = &app->world;

	w->cancel = &interrupted;
	w->env.cancel = &interrupted;
	w->jobs = app->globals.jobs ? app->globals.jobs : JOBS_DEFAULT;
	w->env.timeout_ms = app->globals.timeout_s * 1000;
	w->env.trace = app->trace;
	w->env.read_only = app->globals.read_only;
	w->wait = true;
}

int rk_app_world(struct rk_app *app, bool write, struct rk_err *err)
{
	int rc = 0;

	if (app->opened && (app->writable || !write))
		return rk_world_refresh(&app->world, err);
	if (app->opened)
		rk_world_close(&app->world);
	app->opened = true;
	prepare_world(app);
	if (app->globals.sim) {
		rc = open_twin(app, err);
		app->writable = true;
	} else {
		rc = open_real(app, write, err);
		app->writable = write;
	}
	if (rc) {
		rk_world_close(&app->world);
		app->opened = false;
	}
	return rc;
}

void rk_app_close(struct rk_app *app)
{
	if (app->opened)
		rk_world_close(&app->world);
	app->opened = false;
	rk_site_free(app->twin_site);
	rk_clock_free(app->clock);
	rk_trace_close(app->trace);
	rk_vars_free(&app->vars);
}

/* ---- one command ------------------------------------------------------------------------------------------------------------------ */

static void progress_line(void *ctx, const char *text)
{
	(void)ctx;
	fprintf(stderr, "%s\n", text);
}

/* A dangerous command asks on a terminal; elsewhere it needs -y. In the twin without a state file nothing is at stake. */
static int confirm(const struct rk_app *app, const struct rk_parsed *p, struct rk_err *err)
{
	char answer[16] = "";

	if (!(p->command->flags & RK_CMD_DANGEROUS) || p->globals.yes || p->globals.dry_run || (app->globals.sim && !app->globals.sim_state))
		return 0;
	if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO)) {
		fprintf(stderr, "%s %s: are you sure? [y/N] ", p->command->noun, p->command->verb ? p->command->verb : "");
		if (fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
			return 0;
		return rk_err_set(err, RK_CANCELLED, "not confirmed, nothing was done");
	}
	rk_err_set(err, RK_INVALID, "\"%s %s\" is dangerous and needs a yes", p->command->noun, p->command->verb ? p->command->verb : "");
	rk_err_hint(err, "add -y");
	return RK_INVALID;
}

static int allowed(const struct rk_app *app, const struct rk_parsed *p, struct rk_err *err)
{
	bool changes = p->command->flags & RK_CMD_CHANGES;

	if (changes && p->globals.read_only)
		return rk_err_set(err, RK_INVALID, "\"%s %s\" changes something, and --read-only was given", p->command->noun,
				  p->command->verb ? p->command->verb : "");
	return confirm(app, p, err);
}

static void print_result(struct rk_out *out, const struct rk_parsed *p)
{
	rk_out_finish(out);
	if (out->raw.len)
		fwrite(out->raw.text, 1, out->raw.len, stdout);
	if (p->globals.format == RK_FORMAT_TABLE)
		rk_out_table(out, p->globals.verbose, stdout);
	else if (!out->n_columns || (!out->command->list && !out->n_rows))
		return;
	else if (p->globals.format == RK_FORMAT_JSON)
		rk_out_json(out, stdout);
	else if (p->globals.format == RK_FORMAT_CSV)
		rk_out_csv(out, stdout);
	else
		rk_out_lines(out, stdout);
}

static void emit(struct rk_call *call)
{
	print_result(call->out, call->parsed);
	fflush(stdout);
	rk_out_clear(call->out);
	rk_out_init(call->out, call->command);
}

static const char *command_text(const struct rk_parsed *p, struct rk_str *text)
{
	const struct rk_argdef *a = p->command->args;

	rk_str_add(text, p->command->noun);
	if (p->command->verb)
		rk_str_addf(text, " %s", p->command->verb);
	for (size_t i = 0; a && a[i].name; i++)
		for (const char **v = p->values[i]; v && *v; v++)
			rk_str_addf(text, " %s", *v);
	return rk_str_text(text);
}

static void write_audit(struct rk_app *app, const struct rk_parsed *p, int rc)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	if ((p->command->flags & RK_CMD_CHANGES) && !p->globals.dry_run && app->world.store)
		rk_store_audit(app->world.store, command_text(p, &text), rk_class_name(rc), 0, NULL);
}

static int run_command(struct rk_app *app, const struct rk_parsed *p, struct rk_out *out, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	bool changes = (p->command->flags & RK_CMD_CHANGES) && !p->globals.dry_run;
	int rc = allowed(app, p, err);

	if (!rc && !(p->command->flags & RK_CMD_NO_STORE))
		rc = rk_app_world(app, changes || ((p->command->flags & RK_CMD_RECORDS) && !p->globals.read_only), err);
	if (rc)
		return rc;
	app->world.wait = !p->globals.no_wait;
	app->world.progress = p->globals.quiet || p->globals.format == RK_FORMAT_JSON ? NULL : progress_line;
	struct rk_call call = {
		.command = p->command, .parsed = p, .app = app, .world = &app->world, .arena = arena, .out = out, .emit = emit, .except = p->globals.except,
		.dry_run = p->globals.dry_run, .strict = p->globals.strict, .yes = p->globals.yes, .quiet = p->globals.quiet,
		.verbose = p->globals.verbose, .json = p->globals.format == RK_FORMAT_JSON,
	};
	rc = p->command->run(&call, err);
	write_audit(app, p, rc);
	return rc;
}

static int show_help(const struct rk_parsed *p, const char *place)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	int rc = rk_help(p->noun, p->command ? p->command->verb : NULL, &out, &err);

	if (rc)
		rk_print_error(&err, place, p->globals.format);
	fputs(rk_str_text(&out), stdout);
	return rc;
}

int rk_app_run(struct rk_app *app, const struct rk_parsed *p, const char *place)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_out out;

	if (p->globals.help || !p->command)
		return show_help(p, place);
	interrupted = 0;
	rk_out_init(&out, p->command);
	int rc = run_command(app, p, &out, &err);
	/* Changing commands are silent under -q; a question's answer is always printed. */
	if (!(p->globals.quiet && (p->command->flags & RK_CMD_CHANGES) && !rc))
		print_result(&out, p);
	fflush(stdout);
	if (rc && err.message)
		rk_print_error(&err, place, p->globals.format);
	rk_out_clear(&out);
	return rc;
}

/* ---- batches ------------------------------------------------------------------------------------------------------------------------ */

/* `set NAME value` was taken while splitting. */
static bool is_set(const struct rk_line *line)
{
	return line->n == 3 && strcmp(line->words[0], "set") == 0;
}

static int parse_all(struct rk_app *app, const char *name, const struct rk_lines *lines, struct rk_arena *arena, struct rk_parsed *parsed,
		     struct rk_err *err)
{
	int problems = 0;

	for (size_t i = 0; i < lines->n; i++) {
		RK_CLEANUP_ERR struct rk_err one = RK_ERR_INIT;
		const struct rk_line *line = &lines->items[i];
		if (is_set(line) || !rk_parse(line->words, line->n, &app->globals, false, &app->vars, arena, &parsed[i], &one))
			continue;
		if (!problems++) {
			rk_err_set(err, RK_INVALID, "%s:%d: %s", name, line->number, one.message);
			if (one.hint)
				rk_err_hint(err, "%s", one.hint);
		}
		rk_err_detail(err, "%s:%d: %s%s%s%s", name, line->number, one.message, one.hint ? " (" : "", one.hint ? one.hint : "", one.hint ? ")" : "");
	}
	return problems ? RK_INVALID : 0;
}

int rk_app_batch(struct rk_app *app, const char *name, const char *text)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_lines lines = { 0 };
	int first = 0, rc = rk_split(name, text, &app->vars, arena, &lines, &err);
	struct rk_parsed *parsed = rk_arena_array(arena, lines.n, sizeof(*parsed));

	if (!rc)
		rc = parse_all(app, name, &lines, arena, parsed, &err);
	if (rc) {
		rk_print_error(&err, "", app->globals.format);
		free(lines.items);
		return rc;
	}
	for (size_t i = 0; i < lines.n; i++) {
		if (is_set(&lines.items[i]))
			continue;
		char *place RK_CLEANUP_FREE = rk_xasprintf("%s:%d: ", name, lines.items[i].number);
		rc = rk_app_run(app, &parsed[i], place);
		first = first ? first : rc;
		if (rc && (!app->globals.keep_going || rc == RK_CANCELLED))
			break;
	}
	free(lines.items);
	return first;
}

static int batch_file(struct rk_app *app, const char *path)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	char *text RK_CLEANUP_FREE = NULL;
	size_t len;
	int rc = rk_file_read(path, BATCH_MAX, &text, &len, &err);

	if (!rc && strlen(text) != len)
		rc = rk_err_set(&err, RK_INVALID, "%s holds a NUL byte", path);
	if (rc) {
		rk_print_error(&err, "", app->globals.format);
		return rc;
	}
	return rk_app_batch(app, strcmp(path, "-") == 0 ? "stdin" : path, text);
}

static int check_globals(const struct rk_globals *g, struct rk_err *err)
{
	if (g->sim_state && !g->sim)
		return rk_err_set(err, RK_INVALID, "--sim-state needs --sim SITE.json");
	if (g->sim_fault && !g->sim)
		return rk_err_set(err, RK_INVALID, "--sim-fault needs --sim SITE.json");
	if (g->command && g->file)
		return rk_err_set(err, RK_INVALID, "-c and -f exclude each other");
	return 0;
}

static int start(struct rk_app *app, struct rk_parsed *p, struct rk_err *err)
{
	int rc = check_globals(&p->globals, err);

	app->globals = p->globals;
	/* What belongs to one command only is no default for the lines of a batch. */
	app->globals.help = app->globals.version = false;
	if (!rc && p->globals.tracing && !(app->trace = rk_trace_open(p->globals.trace)))
		rc = rk_err_set(err, RK_FAILED, "cannot open the trace file \"%s\": %s", p->globals.trace, strerror(errno));
	return rc;
}

static int print_man(const char *noun)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	int rc = rk_man_section(noun, &out, &err);

	if (rc)
		rk_print_error(&err, "", RK_FORMAT_TABLE);
	fputs(rk_str_text(&out), stdout);
	return rk_class_exit(rc);
}

int main(int argc, char **argv)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_app app = { 0 };
	struct rk_parsed parsed;
	const struct rk_globals none = { 0 };
	struct sigaction act = { .sa_handler = on_interrupt };

	/* For man/make.sh: the commands section of one noun's page, made from its rows. */
	if (argc == 3 && strcmp(argv[1], "--man") == 0)
		return print_man(argv[2]);
	sigaction(SIGINT, &act, NULL);
	signal(SIGPIPE, SIG_IGN);
	umask(077);
	int rc = rk_parse((const char *const *)argv + 1, (size_t)argc - 1, &none, true, &app.vars, arena, &parsed, &err);
	if (!rc)
		rc = start(&app, &parsed, &err);
	if (rc)
		rk_print_error(&err, "", parsed.globals.format);
	else if (parsed.globals.version)
		printf("racksh %s\n", RK_VERSION);
	else if (parsed.noun || parsed.globals.help)
		rc = rk_app_run(&app, &parsed, "");
	else if (parsed.globals.command)
		rc = rk_app_batch(&app, "-c", parsed.globals.command);
	else if (parsed.globals.file || !isatty(STDIN_FILENO))
		rc = batch_file(&app, parsed.globals.file ? parsed.globals.file : "-");
	else
		rc = rk_app_shell(&app);
	rk_app_close(&app);
	return rk_class_exit(rc);
}
