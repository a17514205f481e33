#include "cli/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vmspec/vmspec.h"

/* ---- undoing ---------------------------------------------------------------------------------------------------------------------- */

static int run_words(struct rk_app *app, const char *const *words)
{
	size_t n = 0;

	while (words[n])
		n++;
	return rk_app_words(app, words, n, &app->globals, "undo: ");
}

static const char *first_value(const struct rk_parsed *p)
{
	return p->values[0] ? p->values[0][0] : NULL;
}

static int undo_cluster_create(struct rk_app *app, const struct rk_site *before, const struct rk_parsed *p, struct rk_arena *arena)
{
	struct rk_spec *spec;

	if (rk_spec_load(first_value(p), arena, &spec, NULL))
		return RK_FAILED;
	if (rk_find_cluster(before, spec->name) >= 0)
		return 0;
	return run_words(app, (const char *const[]){ "cluster", "delete", spec->name, "-y", NULL });
}

static int undo_tenant_create(struct rk_app *app, const struct rk_site *before, const struct rk_parsed *p, struct rk_arena *arena)
{
	(void)arena;
	if (rk_find_tenant(before, first_value(p)) >= 0)
		return 0;
	return run_words(app, (const char *const[]){ "tenant", "delete", first_value(p), "-y", NULL });
}

static int undo_image_add(struct rk_app *app, const struct rk_site *before, const struct rk_parsed *p, struct rk_arena *arena)
{
	(void)arena;
	if (rk_find_image(before, first_value(p)) >= 0)
		return 0;
	return run_words(app, (const char *const[]){ "image", "remove", first_value(p), "-y", NULL });
}

static int undo_grow(struct rk_app *app, const struct rk_site *before, const struct rk_parsed *p, struct rk_arena *arena)
{
	int at = rk_find_cluster(before, first_value(p));

	if (at < 0)
		return RK_FAILED;
	const char *count = rk_arena_printf(arena, "%d", before->clusters[at].n_vms);
	return run_words(app, (const char *const[]){ "cluster", "shrink", first_value(p), count, "-y", NULL });
}

/* Marks of one kind of object, as they were. */
static int restore_cordon(struct rk_app *app, const char *noun, const char *name, const char *was)
{
	if (was)
		return run_words(app, (const char *const[]){ noun, "cordon", name, "--reason", was, NULL });
	return run_words(app, (const char *const[]){ noun, "uncordon", name, NULL });
}

static int undo_tray_cordon(struct rk_app *app, const struct rk_site *before, const struct rk_parsed *p, struct rk_arena *arena)
{
	int *trays, rc = 0;
	size_t n;

	if (rk_select_trays(before, first_value(p), p->globals.except, arena, &trays, &n, NULL))
		return RK_FAILED;
	for (size_t i = 0; i < n; i++) {
		int one = restore_cordon(app, "tray", before->trays[trays[i]].name, before->trays[trays[i]].cordon);
		rc = rc ? rc : one;
	}
	return rc;
}

static int undo_rack_cordon(struct rk_app *app, const struct rk_site *before, const struct rk_parsed *p, struct rk_arena *arena)
{
	int at = rk_find_rack(before, first_value(p));

	(void)arena;
	if (at < 0)
		return RK_FAILED;
	const char *was = before->racks[at].cordon;
	const char *const set[] = { "rack", "cordon", first_value(p), NULL }, *const clear[] = { "rack", "uncordon", first_value(p), NULL };
	return run_words(app, was ? set : clear);
}

/* Commands that another command undoes. Any other one can only be the last of a stage. */
static const struct undo {
	const char *noun, *verb;
	int (*run)(struct rk_app *app, const struct rk_site *before, const struct rk_parsed *parsed, struct rk_arena *arena);
} undos[] = {
	{ "cluster", "create", undo_cluster_create }, { "cluster", "grow", undo_grow }, { "tenant", "create", undo_tenant_create },
	{ "image", "add", undo_image_add }, { "tray", "cordon", undo_tray_cordon }, { "tray", "uncordon", undo_tray_cordon },
	{ "rack", "cordon", undo_rack_cordon }, { "rack", "uncordon", undo_rack_cordon },
};

static const struct undo *undo_of(const struct rk_command *c)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(undos); i++)
		if (strcmp(undos[i].noun, c->noun) == 0 && rk_streq(undos[i].verb, c->verb))
			return &undos[i];
	return NULL;
}

/* ---- staging ---------------------------------------------------------------------------------------------------------------------- */

static void forget(struct rk_staged *items, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(items[i].text);
	free(items);
}

void rk_stage_clear(struct rk_stage *stage)
{
	forget(stage->items, stage->n);
	*stage = (struct rk_stage){ 0 };
}

int rk_stage_add(struct rk_app *app, const struct rk_parsed *p, struct rk_err *err)
{
	struct rk_stage *stage = &app->stage;
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	if (p->globals.read_only)
		return rk_err_set(err, RK_INVALID, "--read-only was given: nothing can be staged");
	if (stage->n && !undo_of(stage->items[stage->n - 1].command)) {
		rk_err_set(err, RK_INVALID, "nothing can be staged behind \"%s\", which no command undoes", stage->items[stage->n - 1].text);
		rk_err_hint(err, "commit first, or run it in a commit of its own");
		return RK_INVALID;
	}
	if (rk_streq(first_value(p), "-"))
		return rk_err_set(err, RK_INVALID, "standard input cannot be staged: name a file");
	for (size_t i = 0; i < p->n_words; i++) {
		rk_str_add(&text, i ? " " : "");
		rk_quote_word(p->words[i], &text);
	}
	*rk_vec_push(stage) = (struct rk_staged){ p->command, rk_str_steal(&text) };
	fprintf(stderr, "%s", p->globals.quiet || p->globals.format == RK_FORMAT_JSON ? "" : "staged\n");
	return 0;
}

/* ---- running ---------------------------------------------------------------------------------------------------------------------- */

/* A staged line, parsed again. */
static int parse_text(struct rk_app *app, const char *text, struct rk_arena *arena, struct rk_parsed *ret, struct rk_err *err)
{
	struct rk_lexicon plain = { 0 };
	struct rk_lines lines = { 0 };
	int rc = rk_split("staged", text, &plain, arena, &lines, err);

	if (!rc)
		rc = rk_parse(lines.items[0].words, lines.items[0].n, &app->globals, false, &plain.vars, arena, ret, err);
	free(lines.items);
	return rc;
}

static int run_text(struct rk_app *app, const char *text, const char *place)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_parsed parsed;
	int rc = parse_text(app, text, arena, &parsed, &err);

	if (rc)
		rk_print_error(&err, place, app->globals.format);
	return rc ? rc : rk_app_run(app, &parsed, place);
}

int rk_stage_diff(struct rk_call *call, struct rk_err *err)
{
	const struct rk_stage *stage = &call->app->stage;
	struct rk_app twin;
	RK_CLEANUP_SITE struct rk_site *before = NULL;
	int rc = rk_app_twin(call->app, &twin, err);

	if (rc)
		return rc;
	twin.globals.quiet = true;
	rc = rk_store_snapshot(twin.world.store, &before, err);
	for (size_t i = 0; !rc && i < stage->n; i++) {
		rc = run_text(&twin, stage->items[i].text, "on the twin: ");
		if (rc)
			rk_err_set(err, rc, "staged command %zu would fail: %s", i + 1, stage->items[i].text);
	}
	if (!rc)
		rc = rk_world_refresh(&twin.world, err);
	if (before && twin.world.site)
		rk_show_changes(call->out, before, twin.world.site);
	rk_app_close(&twin);
	return rc;
}

static int undo_all(struct rk_app *app, const struct rk_site *before, const struct rk_staged *items, size_t n, size_t *ret_left)
{
	*ret_left = 0;
	for (size_t i = n; i > 0; i--) {
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct rk_parsed parsed;
		const struct undo *undo = undo_of(items[i - 1].command);
		if (!undo || parse_text(app, items[i - 1].text, arena, &parsed, &err) || undo->run(app, before, &parsed, arena)) {
			fprintf(stderr, "racksh: not undone: %s\n", items[i - 1].text);
			++*ret_left;
		}
	}
	return *ret_left ? RK_PARTIAL : 0;
}

static int confirmed(struct rk_call *call, const struct rk_stage *stage, struct rk_err *err)
{
	bool dangerous = false;

	for (size_t i = 0; i < stage->n; i++)
		dangerous |= (stage->items[i].command->flags & RK_CMD_DANGEROUS) != 0;
	return dangerous ? rk_app_confirm(call->app, "commit", call->yes || call->dry_run, err) : 0;
}

int rk_stage_commit(struct rk_call *call, struct rk_err *err)
{
	struct rk_app *app = call->app;
	RK_CLEANUP_SITE struct rk_site *before = NULL;
	size_t done = 0, left;
	int rc = confirmed(call, &app->stage, err);

	if (!rc)
		rc = rk_store_snapshot(app->world.store, &before, err);
	if (rc)
		return rc;
	struct rk_stage stage = app->stage;
	bool yes = app->globals.yes;
	app->stage = (struct rk_stage){ 0 };
	app->globals.yes = true;
	while (!rc && done < stage.n)
		rc = run_text(app, stage.items[done].text, "commit: ") ?: (done++, 0);
	if (!rc) {
		forget(stage.items, stage.n);
		app->globals.yes = yes;
		return 0;
	}
	int undone = undo_all(app, before, stage.items, done, &left);
	app->globals.yes = yes;
	app->stage = stage;
	if (undone)
		return rk_err_set(err, RK_PARTIAL, "staged command %zu of %zu failed, and %zu of the %zu before it could not be undone", done + 1, stage.n, left, done);
	rk_err_set(err, rc, "staged command %zu of %zu failed; what was done before it is undone", done + 1, stage.n);
	/* A batch ends here, and the stage with it. */
	if (app->console.history)
		rk_err_hint(err, "it is still staged: abort forgets it");
	return rc;
}
