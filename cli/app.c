#include "cli/app.h"

#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/faults.h"
#include "cli/stage.h"
#include "inventory/base/clock.h"
#include "inventory/base/map.h"
#include "inventory/site_file.h"
#include "provision/op.h"
#include "provision/sim.h"

enum { JOBS_DEFAULT = 64, HOST_NAME = 256 };

/* Ctrl-C has to reach the operation that runs; a signal handler has no other way than an object of static life. ending: not the command alone, all of it. */
static volatile int interrupted, ending;

static void on_interrupt(int signal)
{
	(void)signal;
	interrupted = 1;
}

static void on_end(int signal)
{
	(void)signal;
	ending = interrupted = 1;
}

void rk_app_catch_interrupts(void)
{
	/* A second request to end is not asked to wait. */
	static const struct {
		int signal, flags;
		void (*handler)(int signal);
	} rows[] = { { SIGINT, 0, on_interrupt }, { SIGTERM, SA_RESETHAND, on_end }, { SIGHUP, SA_RESETHAND, on_end } };

	rk_app_take_interrupt();
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		struct sigaction act = { .sa_handler = rows[i].handler, .sa_flags = rows[i].flags }, old;
		/* nohup: the end of the terminal is not the end of the command. */
		if (rows[i].signal == SIGHUP && sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler == SIG_IGN)
			continue;
		sigaction(rows[i].signal, &act, NULL);
	}
}

bool rk_app_interrupted(void)
{
	return interrupted != 0;
}

bool rk_app_ending(void)
{
	return ending != 0;
}

void rk_app_take_interrupt(void)
{
	interrupted = ending;
}

/* ---- the world ------------------------------------------------------------------------------------------------------------------ */

static const char *user_name(void)
{
	struct passwd *pw = getpwuid(geteuid());

	return pw ? pw->pw_name : "unknown";
}

static struct rk_actor myself(char host[HOST_NAME])
{
	snprintf(host, HOST_NAME, "localhost");
	gethostname(host, HOST_NAME - 1);
	return (struct rk_actor){ .user = user_name(), .host = host, .pid = (long)getpid() };
}

static int open_store(const char *uri, bool write, struct rk_store **ret, struct rk_err *err)
{
	char host[HOST_NAME];
	const struct rk_actor actor = myself(host);

	return rk_store_open(uri, write ? RK_STORE_WRITE : RK_STORE_READ, &actor, ret, err);
}

/* $VARIABLE/racksh, else ~/OTHERWISE/racksh. */
static char *own_folder(const char *variable, const char *otherwise)
{
	const char *base = getenv(variable), *home = getenv("HOME");

	return base && *base ? rk_xasprintf("%s/racksh", base) : rk_xasprintf("%s/%s/racksh", home ? home : ".", otherwise);
}

char *rk_state_folder(void)
{
	return own_folder("XDG_STATE_HOME", ".local/state");
}

char *rk_config_folder(void)
{
	return own_folder("XDG_CONFIG_HOME", ".config");
}

static char *default_uri(const struct rk_globals *g)
{
	const char *env = getenv("RACKSH_STORE");
	char *folder RK_CLEANUP_FREE = rk_state_folder();

	if (g->store || env)
		return rk_xstrdup(g->store ? g->store : env);
	return rk_xasprintf("sqlite:%s/site.db", folder);
}

static int open_twin_store(struct rk_app *app, struct rk_err *err)
{
	if (!app->globals.sim_state) {
		char host[HOST_NAME];
		const struct rk_actor actor = myself(host);
		app->world.store = rk_store_begun_with(app->twin_site, &actor);
		return 0;
	}
	char *uri RK_CLEANUP_FREE = rk_xasprintf("sqlite:%s", app->globals.sim_state);
	return open_store(uri, true, &app->world.store, err);
}

static int put_twin_site(struct rk_app *app, struct rk_err *err)
{
	int rc = rk_store_begin(app->world.store, 0, err);

	if (rc)
		return rc;
	rc = rk_store_put_site(app->world.store, app->twin_site, err);
	if (!rc)
		return rk_store_commit(app->world.store, err);
	rk_store_rollback(app->world.store);
	return rc;
}

/* A file of --sim-state that has no site yet gets it. Several commands may begin the same file at a time: one of them fills it. */
static int fill_twin_store(struct rk_app *app, bool *ret_fresh, struct rk_err *err)
{
	if (app->world.site->revision)
		return 0;
	int rc = put_twin_site(app, err);
	*ret_fresh = rc == 0;
	if (rc && rc != RK_CONFLICT)
		return rc;
	if (rc)
		rk_err_clear(err);
	return rk_world_refresh(&app->world, err);
}

/* FILE keeps the site that it was made from: a name that differs is somebody else's twin. */
static int same_name(const struct rk_globals *g, const char *kept, const char *given, struct rk_err *err)
{
	if (!kept || rk_streq(kept, given))
		return 0;
	rk_err_set(err, RK_INVALID, "%s holds the twin of site %s, and %s describes site %s", g->sim_state, kept, g->sim, given);
	rk_err_hint(err, "name another --sim-state FILE, or remove %s to start over", g->sim_state);
	return RK_INVALID;
}

/* What is compared is the file as it was taken over, not the store: commands add tenants and images, and replaced trays have new serials. */
static int same_content(const struct rk_app *app, bool fresh, struct rk_err *err)
{
	const struct rk_globals *g = &app->globals;
	char digest[65], kept[65];

	rk_site_digest(app->twin_site, digest);
	if (fresh)
		return rk_sim_note_source(app->world.sim, digest, err);
	rk_sim_source(app->world.sim, kept);
	if (*kept && strcmp(kept, digest) != 0 && !app->importing && !g->quiet && g->format != RK_FORMAT_JSON)
		fprintf(stderr, "racksh: warning: %s has changed, but %s holds site %s as of then\nhint: `site import %s` takes the changes over; "
				"remove %s to start over\n", g->sim, g->sim_state, app->twin_site->name, g->sim, g->sim_state);
	return 0;
}

static int open_twin(struct rk_app *app, struct rk_err *err)
{
	const struct rk_globals *g = &app->globals;
	bool fresh = false;
	int rc = rk_site_load(g->sim, &app->twin_site, err);

	if (rc)
		return rc;
	rk_site_invent(app->twin_site);
	rc = open_twin_store(app, err);
	if (!rc)
		rc = rk_store_snapshot(app->world.store, &app->world.site, err);
	if (!rc && g->sim_state)
		rc = fill_twin_store(app, &fresh, err);
	if (!rc)
		rc = same_name(g, app->world.site->name, app->twin_site->name, err);
	app->clock = rk_clock_virtual(rk_clock_unix_ms(NULL));
	app->world.env.clock = app->clock;
	if (!rc)
		rc = rk_sim_open(app->twin_site, g->sim_state, app->clock, &app->world.sim, err);
	if (!rc && g->sim_state)
		rc = same_content(app, fresh, err);
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

int rk_app_store(struct rk_app *app, const char *uri, bool write, struct rk_store **ret, struct rk_err *err)
{
	char *own RK_CLEANUP_FREE = uri ? NULL : default_uri(&app->globals);

	return open_store(uri ? uri : own, write, ret, err);
}

int rk_app_examine(struct rk_app *app, struct rk_arena *arena, const char **ret_uri, struct rk_err *err)
{
	char *uri RK_CLEANUP_FREE = default_uri(&app->globals);

	*ret_uri = rk_store_uri_shown(arena, uri);
	return rk_store_examine(uri, err);
}

void rk_app_prepare(struct rk_app *app)
{
	struct rk_world *w = &app->world;

	w->cancel = &interrupted;
	w->env.cancel = &interrupted;
	w->jobs = app->globals.jobs ? app->globals.jobs : JOBS_DEFAULT;
	w->env.timeout_ms = app->globals.timeout_s * 1000;
	w->env.trace = app->trace;
	w->env.read_only = app->globals.read_only;
	w->env.twin_check = app->globals.twin_check;
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
	rk_app_prepare(app);
	/* A twin in memory ends with this process: nobody else could finish or undo anything of it. */
	app->world.detach = app->globals.sim && !app->globals.sim_state ? NULL : rk_app_detach;
	app->world.detach_ctx = app;
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
	rk_vars_free(&app->lexicon.vars);
	rk_vars_free(&app->lexicon.aliases);
	rk_context_set(&app->context, NULL, NULL);
	rk_stage_clear(&app->stage);
	free(app->on_error);
	if (app->have_last)
		rk_out_clear(&app->last);
}

/* ---- one command ------------------------------------------------------------------------------------------------------------------ */

/* A dangerous command asks on a terminal; elsewhere it needs -y. In the twin without a state file nothing is at stake. */
int rk_app_confirm(const struct rk_app *app, const char *what, bool yes, struct rk_err *err)
{
	char answer[16] = "";

	if (yes || (app->globals.sim && !app->globals.sim_state))
		return 0;
	if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO)) {
		fprintf(stderr, "%s: are you sure? [y/N] ", what);
		if (fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
			return 0;
		return rk_err_set(err, RK_CANCELLED, "not confirmed, nothing was done");
	}
	rk_err_set(err, RK_INVALID, "\"%s\" is dangerous and needs a yes", what);
	rk_err_hint(err, "add -y");
	return RK_INVALID;
}

/* With its options, that is: drift reads, drift --fix changes. */
static bool changes_something(const struct rk_parsed *p)
{
	const struct rk_call call = { .command = p->command, .parsed = p };

	return (p->command->flags & RK_CMD_CHANGES) || (p->command->changes_with && rk_call_flag(&call, p->command->changes_with));
}

static int allowed(const struct rk_parsed *p, struct rk_err *err)
{
	const struct rk_command *c = p->command;

	bool open = c->flags & RK_CMD_OPEN;

	if (p->globals.read_only && (open || changes_something(p)))
		return rk_err_set(err, RK_INVALID, "\"%s%s%s\" %s something, and --read-only was given", c->noun, c->verb ? " " : "", c->verb ? c->verb : "",
				  open ? "may change" : "changes");
	return 0;
}

/* What is asked about is there: a wrong name is told before any question. */
static int sure(struct rk_call *call, struct rk_err *err)
{
	struct rk_str what RK_CLEANUP_STR = RK_STR_INIT;

	if (!(call->command->flags & RK_CMD_DANGEROUS) || call->yes || call->dry_run)
		return 0;
	int rc = rk_call_subject(call, &what, err);
	return rc ? rc : rk_app_confirm(call->app, rk_str_text(&what), false, err);
}

static void emit(struct rk_call *call)
{
	rk_out_finish(call->out);
	(void)rk_app_print(call->app, call->out, call->parsed, NULL);
	rk_out_clear(call->out);
	rk_out_init(call->out, call->command);
	/* Who watches ends when nobody reads on. */
	if (rk_app_reader_left())
		interrupted = 1;
}

/* Everybody who may read the store may read its audit: no password of an URI. */
static void add_value(const char *value, struct rk_arena *arena, struct rk_str *text)
{
	rk_str_addc(text, ' ');
	rk_quote_word(strstr(value, "://") ? rk_store_uri_shown(arena, value) : value, text);
}

static void add_arguments(const struct rk_call *call, struct rk_str *text)
{
	const struct rk_parsed *p = call->parsed;
	const struct rk_argdef *a = p->command->args, *o = p->command->options;

	for (size_t i = 0; a && a[i].name; i++)
		for (const char **v = p->values[i]; v && *v; v++)
			add_value(*v, call->arena, text);
	for (size_t i = 0; o && o[i].name; i++) {
		if (p->option_values[i])
			rk_str_addf(text, " --%s", o[i].name);
		if (p->option_values[i] && o[i].type != RK_ARG_NONE)
			add_value(p->option_values[i], call->arena, text);
	}
}

void rk_call_audit(const struct rk_call *call, struct rk_store *store, int rc)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	const struct rk_command *c = call->command;

	if (!changes_something(call->parsed) || call->dry_run || !store)
		return;
	if (call->audited) {
		rk_str_add(&text, call->audited);
	} else {
		rk_str_addf(&text, "%s%s%s", c->noun, c->verb ? " " : "", c->verb ? c->verb : "");
		add_arguments(call, &text);
	}
	if (call->except)
		rk_str_addf(&text, " -x %s", call->except);
	rk_store_audit(store, rk_str_text(&text), rk_class_name(rc), call->op, NULL);
}

/* What stands on the line. A change is also the moment to undo what was never confirmed and is watched by nobody any more. */
static int set_limits(struct rk_app *app, const struct rk_globals *g, bool changes, struct rk_err *err)
{
	struct rk_world *w = &app->world;

	w->wait = !g->no_wait;
	w->confirm_ms = 0;
	w->no_notes = g->read_only || g->dry_run;
	rk_world_limits(w, g->jobs ? g->jobs : JOBS_DEFAULT, g->timeout_s * 1000);
	return changes && w->store ? rk_op_sweep(w, err) : 0;
}

static struct rk_call call_of(struct rk_app *app, const struct rk_parsed *p, struct rk_arena *arena, struct rk_out *out)
{
	return (struct rk_call){
		.command = p->command, .parsed = p, .app = app, .world = &app->world, .arena = arena, .out = out, .emit = emit, .except = p->globals.except,
		.dry_run = p->globals.dry_run, .strict = p->globals.strict, .yes = p->globals.yes, .quiet = p->globals.quiet,
		.verbose = p->globals.verbose, .json = p->globals.format == RK_FORMAT_JSON,
	};
}

/* What is tried where nothing is yet is tried in memory: a dry run makes no store. */
static int open_scratch(struct rk_app *app, struct rk_err *err)
{
	rk_world_close(&app->world);
	rk_app_prepare(app);
	app->scratch = true;
	int rc = open_store("mem:", true, &app->world.store, err);
	return rc ? rc : rk_store_snapshot(app->world.store, &app->world.site, err);
}

static void close_scratch(struct rk_app *app)
{
	if (app->scratch)
		rk_world_close(&app->world);
	app->opened = app->opened && !app->scratch;
	app->scratch = false;
}

/* A dry run makes the change, too, and the store takes it back. */
static int open_world(struct rk_app *app, const struct rk_parsed *p, struct rk_err *err)
{
	bool changes = changes_something(p), dry = p->globals.dry_run, records = (p->command->flags & RK_CMD_RECORDS) && !p->globals.read_only && !dry;
	int rc = changes && dry ? rk_app_world(app, false, err) : 0;

	if (!rc && changes && dry && !app->world.site->revision)
		return open_scratch(app, err);
	return rc ? rc : rk_app_world(app, changes || records, err);
}

/* The store keeps nothing of a dry run, whatever the handler does. */
static int run_handler(struct rk_call *call, struct rk_err *err)
{
	struct rk_store *store = call->dry_run && changes_something(call->parsed) ? call->world->store : NULL;

	if (store)
		rk_store_try(store, true);
	int rc = call->command->run(call, err);
	if (store)
		rk_store_try(store, false);
	return rc;
}

static int work(struct rk_call *call, bool changes, struct rk_err *err)
{
	const struct rk_globals *g = &call->parsed->globals;
	struct rk_app *app = call->app;
	int rc = sure(call, err);

	if (!rc)
		rc = set_limits(app, g, changes, err);
	if (rc)
		return rc;
	app->world.progress = g->quiet || g->format == RK_FORMAT_JSON ? NULL : rk_progress_line;
	app->world.progress_ctx = &app->progress;
	struct rk_map *faulty RK_CLEANUP_MAP = rk_faulty_trays(app->world.site);
	rk_progress_begin(&app->progress, stderr);
	rc = run_handler(call, err);
	rk_progress_end(&app->progress);
	if (call->op && !call->dry_run)
		rk_tell_new_faults(call, faulty);
	rk_call_audit(call, app->world.store, rc);
	return rc;
}

static int run_command(struct rk_app *app, const struct rk_parsed *p, struct rk_out *out, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_call call = call_of(app, p, arena, out);
	bool changes = changes_something(p) && !p->globals.dry_run;
	int rc = allowed(p, err);

	app->importing = strcmp(p->command->noun, "site") == 0 && rk_streq(p->command->verb, "import");
	if (!rc && !(p->command->flags & RK_CMD_NO_STORE))
		rc = open_world(app, p, err);
	if (!rc)
		rc = work(&call, changes, err);
	close_scratch(app);
	return rc;
}

static void emit_nothing(struct rk_call *call)
{
	rk_out_clear(call->out);
	rk_out_init(call->out, call->command);
}

int rk_app_work(struct rk_app *app, const struct rk_parsed *p, struct rk_out *out, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_call call = call_of(app, p, arena, out);

	call.emit = emit_nothing;
	call.yes = true;
	return p->command->run(&call, err);
}

static int show_help(const struct rk_app *app, const struct rk_parsed *p, const char *place)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	int rc = rk_help(p->noun, p->command ? p->command->verb : NULL, rk_screen_width(), &out, &err);

	if (rc)
		rk_print_error(&err, place, p->globals.format);
	rk_page(rk_str_text(&out), out.len, rk_vars_get(&app->lexicon.vars, "pager"));
	return rc;
}

/* The result stays for `assert`; one without rows and columns says nothing about the one before. */
static void keep_result(struct rk_app *app, struct rk_out *out)
{
	if (!out->n_columns || (out->command->flags & RK_CMD_SHELL)) {
		rk_out_clear(out);
		return;
	}
	if (app->have_last)
		rk_out_clear(&app->last);
	app->last = *out;
	app->have_last = true;
}

static bool for_people(const struct rk_globals *g)
{
	return !g->quiet && g->format == RK_FORMAT_TABLE;
}

void rk_app_tell_twin(const struct rk_parsed *p)
{
	const struct rk_globals *g = &p->globals;

	if (g->sim && !g->sim_state && p->command && changes_something(p) && !g->dry_run && for_people(g))
		fputs("note: this twin ends with this command; --sim-state FILE keeps one for the next\n", stderr);
}

/* Whoever forgot the import, or named no twin, finds nothing and should know why. */
static void tell_empty(const struct rk_app *app, const struct rk_parsed *p, const struct rk_out *out, int rc, struct rk_err *err)
{
	static const char hint[] = "the store holds no site yet: racksh site import FILE, or --sim FILE for a twin";
	const struct rk_site *site = app->world.site;

	if (!site || site->name || (p->command->flags & (RK_CMD_NO_STORE | RK_CMD_SHELL)))
		return;
	/* What cannot be opened is a file: no import would bring it. */
	if (rc == RK_NOT_FOUND && !rk_starts_with(err->message, "cannot "))
		rk_err_hint(err, "%s", hint);
	else if (!rc && p->command->list && !out->n_rows && for_people(&p->globals))
		fprintf(stderr, "note: %s\n", hint);
}

int rk_app_run(struct rk_app *app, const struct rk_parsed *p, const char *place)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_out out;

	if (p->globals.help || !p->command)
		return show_help(app, p, place);
	if (app->sealed && p->command->writes && !(p = rk_app_sealed(app, p, place, arena)))
		return 0;
	rk_out_init(&out, p->command);
	bool staged = app->stage.open && changes_something(p) && !(p->command->flags & RK_CMD_SHELL) && !p->globals.dry_run;
	int rc = staged ? rk_stage_add(app, p, &err) : run_command(app, p, &out, &err);
	rk_out_finish(&out);
	tell_empty(app, p, &out, rc, &err);
	/* An error that came before the first row has no table. Changing commands are silent under -q; what was asked for (a dry run, too) is always printed. */
	bool nothing = rc && !out.n_rows && !out.raw.len && !out.notes.len, silent = p->globals.quiet && !p->globals.dry_run && !rc;
	RK_CLEANUP_ERR struct rk_err lost = RK_ERR_INIT;
	int printed = !nothing && !(silent && (p->command->flags & RK_CMD_CHANGES)) ? rk_app_print(app, &out, p, &lost) : 0;
	if (rc && err.message)
		rk_print_error(&err, place, p->globals.format);
	if (printed)
		rk_print_error(&lost, place, p->globals.format);
	keep_result(app, &out);
	/* A change that was made is not undone by that. */
	return rc || changes_something(p) ? rc : printed;
}
