#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmds/common.h"
#include "inventory/base/clock.h"
#include "inventory/base/file.h"

/* ---- rehearse ----------------------------------------------------------------------------------------------------------------------- */

static void summary(struct rk_call *call, int64_t ms, int rc)
{
	if (call->quiet || call->json)
		return;
	fprintf(stderr, "rehearsed on a twin of %s: %s; about %.0f s on the twin's clock; nothing real was touched\n",
		call->world->site->name ? call->world->site->name : "the site", rc ? "it would fail" : "it would succeed", (double)ms / 1000);
}

/* A file that is not there is no rehearsal that fails. It is only read when it is missing: a pipe can be read but once. */
static int must_be_there(const char *path, struct rk_err *err)
{
	char *text RK_CLEANUP_FREE = NULL;
	size_t len;

	return strcmp(path, "-") == 0 || access(path, F_OK) == 0 ? 0 : rk_file_read(path, 1, &text, &len, err);
}

/* Variables of the command line and user commands mean the same in the twin; what the batch defines stays there. */
static void take_lexicon(const struct rk_app *app, struct rk_app *twin)
{
	const struct rk_vars *vars = &app->lexicon.vars;

	for (size_t i = 0; i < vars->n; i++)
		rk_vars_set(&twin->lexicon.vars, vars->names[i], vars->values[i]);
	twin->lexicon.vars.n_fixed = vars->n_fixed;
	twin->lexicon.scripts = app->lexicon.scripts;
	twin->lexicon.known = app->lexicon.known;
}

static int rehearse(struct rk_call *call, struct rk_err *err)
{
	RK_CLEANUP_SITE struct rk_site *before = NULL;
	struct rk_app twin;
	int rc = must_be_there(rk_call_arg(call, "FILE"), err);

	if (!rc)
		rc = rk_app_twin(call->app, &twin, err);
	if (rc)
		return rc;
	twin.sealed = true;
	take_lexicon(call->app, &twin);
	rc = rk_store_snapshot(twin.world.store, &before, err);
	int64_t began = rk_clock_ms(twin.clock);
	if (!rc)
		rc = rk_app_batch_file(&twin, rk_call_arg(call, "FILE"));
	int64_t took = rk_clock_ms(twin.clock) - began;
	if (before && rk_world_refresh(&twin.world, NULL) == 0)
		rk_show_changes(call->out, before, twin.world.site);
	rk_app_close(&twin);
	summary(call, took, rc);
	/* The batch has told its errors already: the class alone is handed on. */
	return rc;
}

static const struct rk_command rehearse_rows[] = {
	{ .noun = "rehearse", .summary = "run a batch on a twin of the site as it is now", .list = true, .run = rehearse,
	  .args = RK_ARGS({ .name = "FILE", .type = RK_ARG_FILE, .required = true, .help = "batch file (racksh-batch(5))" }),
	  .columns = RK_COLUMNS({ "plane", RK_COL_TEXT }, { "object", RK_COL_TEXT }, { "field", RK_COL_TEXT }, { "from", RK_COL_TEXT }, { "to", RK_COL_TEXT }),
	  .description = "Inventory, cordons, reservations and clusters are copied into a twin in memory; the batch runs there unchanged, and its results are printed "
			 "as they would be. Then follows, value by value and plane by plane, what it would change, and how long it took on the twin's clock. The twin "
			 "knows the delays of switches, subnet managers and guests, but not those of images and disks: real sites take longer. The exit code is the "
			 "batch's. Store and outside systems are only read. Other programs and files are real, so \"!command\", \"| filter\" and \"> file\" are not run "
			 "but told (\"not run: ...\"), and the result is printed instead; \"> /dev/null\" stays. Neither is a store backup made, nor evidence "
			 "saved, nor a store migrated to another.",
	  .examples = RK_EXAMPLES("rehearse tests/examples/rehearsal.racksh") },
};
RK_NOUN(rehearse, "what a batch would do, tried on a twin", NULL, rehearse_rows);

static int tutorial(struct rk_call *call, struct rk_err *err)
{
	return rk_tutorial(call->app, !rk_call_flag(call, "no-pause"), err);
}

static const struct rk_command tutorial_rows[] = {
	{ .noun = "tutorial", .summary = "learn racksh in ten minutes, on a twin that nothing can harm", .flags = RK_CMD_NO_STORE | RK_CMD_RAW, .run = tutorial,
	  .options = RK_ARGS({ .name = "no-pause", .type = RK_ARG_NONE, .help = "do not wait for ENTER before each command" }),
	  .description = "A batch with explanations: from looking at racks to a validated cluster, a broken tray, a repair, and giving everything back. On a terminal "
			 "each command waits for ENTER; Ctrl-D ends the lesson.",
	  .examples = RK_EXAMPLES("tutorial --no-pause") },
};
RK_NOUN(tutorial, "a lesson of ten minutes", NULL, tutorial_rows);
