#include <errno.h>
#include <locale.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/app.h"

static int check_globals(const struct rk_globals *g, struct rk_err *err)
{
	if (g->sim_state && !g->sim)
		return rk_err_set(err, RK_INVALID, "--sim-state needs --sim SITE.json");
	if (g->sim_fault && !g->sim)
		return rk_err_set(err, RK_INVALID, "--sim-fault needs --sim SITE.json");
	if (g->command && g->file)
		return rk_err_set(err, RK_INVALID, "-c and -f exclude each other");
	if (g->resume && (!g->file || strcmp(g->file, "-") == 0))
		return rk_err_set(err, RK_INVALID, "--resume needs a batch file (-f FILE)");
	return 0;
}

static int start(struct rk_app *app, struct rk_parsed *p, struct rk_err *err)
{
	int rc = check_globals(&p->globals, err);

	app->globals = p->globals;
	/* What belongs to one command only is no default for the lines of a batch. */
	app->globals.help = app->globals.version = false;
	app->lexicon.vars.n_fixed = app->lexicon.vars.n;
	if (!rc && p->globals.trace && !(app->trace = rk_trace_open(*p->globals.trace ? p->globals.trace : NULL)))
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

/* Sixty-four threads that each keep a heap of their own keep a quarter of the memory for nothing; two per processor are as fast. */
static void bound_heaps(void)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	mallopt(M_ARENA_MAX, processors > 2 ? (int)processors * 2 : 4);
}

static int run_one(struct rk_app *app, const struct rk_parsed *p)
{
	int rc = rk_app_run(app, p, "");

	if (!rc)
		rk_app_tell_twin(p);
	return rc;
}

int main(int argc, char **argv)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_app app = { 0 };
	struct rk_parsed parsed;
	const struct rk_globals none = { 0 };

	bound_heaps();
	/* For man/make.sh: the commands section of one noun's page, made from its rows. */
	if (argc == 3 && strcmp(argv[1], "--man") == 0)
		return print_man(argv[2]);
	rk_app_catch_interrupts();
	setlocale(LC_CTYPE, "");
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error like a full disk */
	umask(077);
	int rc = rk_parse((const char *const *)argv + 1, (size_t)argc - 1, &none, true, &app.lexicon.vars, arena, &parsed, &err);
	if (!rc)
		rc = start(&app, &parsed, &err);
	char *scripts RK_CLEANUP_FREE = rk_config_folder();
	app.lexicon.scripts = scripts;
	app.lexicon.known = rk_noun_known;
	if (rc)
		rk_print_error(&err, "", parsed.globals.format);
	else if (parsed.globals.version)
		printf("racksh %s\n", RK_VERSION);
	else if (parsed.noun || parsed.globals.help)
		rc = run_one(&app, &parsed);
	else if (parsed.globals.command)
		rc = rk_app_batch(&app, "-c", parsed.globals.command, true);
	else if (parsed.globals.file || !isatty(STDIN_FILENO))
		rc = rk_app_batch_file(&app, parsed.globals.file ? parsed.globals.file : "-");
	else {
		/* Whoever types `set` means it. */
		app.lexicon.vars.n_fixed = 0;
		rc = rk_app_shell(&app);
	}
	rk_app_close(&app);
	if (!rc && (rc = rk_app_flush(&err)) != 0)
		rk_print_error(&err, "", parsed.globals.format);
	return rk_class_exit(rc);
}
