#include "cli/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provision/bundle.h"

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
	if (!(p->command->flags & RK_CMD_STAGES)) {
		const struct rk_command *c = p->command;
		rk_err_set(err, RK_INVALID, "\"%s%s%s%s%s\" cannot be staged: it is no part of one operation that can be taken back", c->noun,
			   c->verb ? " " : "", c->verb ? c->verb : "", c->changes_with ? " --" : "", c->changes_with ? c->changes_with : "");
		rk_err_hint(err, "run it before begin, or after commit");
		return RK_INVALID;
	}
	if (rk_streq(p->values[0] ? p->values[0][0] : NULL, "-"))
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

/* "commit: tenant create adatum; cluster create a.json" */
static char *command_of(const struct rk_stage *stage)
{
	struct rk_str text = RK_STR_INIT;

	for (size_t i = 0; i < stage->n; i++)
		rk_str_addf(&text, "%s%s", i ? "; " : "commit: ", stage->items[i].text);
	return rk_str_steal(&text);
}

/* One staged line becomes a part of the bundle. What its handler would print is not true yet. */
static int add_part(struct rk_app *app, const struct rk_staged *item, struct rk_bundle *bundle, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_parsed parsed;
	struct rk_out out;
	int rc = parse_text(app, item->text, arena, &parsed, err);

	if (rc)
		return rc;
	rc = rk_bundle_part(bundle, item->text, err);
	if (rc)
		return rc;
	rk_out_init(&out, parsed.command);
	rc = rk_app_work(app, &parsed, &out, err);
	rk_out_finish(&out);
	rk_out_clear(&out);
	return rc ? rc : rk_bundle_part_done(bundle, err);
}

static int try_to_compose(struct rk_app *app, const struct rk_stage *stage, struct rk_heard *heard, struct rk_bundle **ret, struct rk_err *err)
{
	char *command RK_CLEANUP_FREE = command_of(stage);
	struct rk_bundle *bundle;
	int rc = rk_bundle_begin(&app->world, command, heard, &bundle, err);

	if (rc)
		return rc;
	for (size_t i = 0; !rc && i < stage->n; i++) {
		rc = add_part(app, &stage->items[i], bundle, err);
		if (rc)
			rk_err_while(err, "staged command %zu of %zu (%s)", i + 1, stage->n, stage->items[i].text);
	}
	if (rc)
		rk_bundle_drop(bundle);
	else
		*ret = bundle;
	return rc;
}

/* All of them, planned one after the other on what the ones before will hold. What a command needs to know of hosts is asked while the store is
 * everybody's, and then all is planned anew. */
static int compose(struct rk_app *app, const struct rk_stage *stage, struct rk_heard *heard, struct rk_bundle **ret, struct rk_err *err)
{
	for (;;) {
		int rc = try_to_compose(app, stage, heard, ret, err);
		if (!rc || !rk_heard_open(heard))
			return rc;
		rk_err_clear(err);
		rc = rk_heard_ask(&app->world, heard, err);
		if (rc)
			return rc;
	}
}

int rk_stage_diff(struct rk_call *call, struct rk_err *err)
{
	RK_CLEANUP_HEARD struct rk_heard *heard = rk_heard_new();
	struct rk_app twin;
	struct rk_bundle *bundle;
	RK_CLEANUP_SITE struct rk_site *before = NULL;
	int64_t op;
	int rc = rk_app_twin(call->app, &twin, err);

	if (rc)
		return rc;
	rc = rk_store_snapshot(twin.world.store, &before, err);
	if (!rc)
		rc = compose(&twin, &call->app->stage, heard, &bundle, err);
	if (!rc)
		rc = rk_bundle_run(bundle, &op, err);
	if (rc)
		rk_err_while(err, "on a twin of the site");
	else
		rk_show_changes(call->out, before, twin.world.site);
	rk_app_close(&twin);
	return rc;
}

/* One question for all of them, with what each dangerous one is about. */
static int confirmed(struct rk_call *call, const struct rk_stage *stage, struct rk_err *err)
{
	struct rk_str what RK_CLEANUP_STR = RK_STR_INIT;
	int rc = 0;

	for (size_t i = 0; !rc && i < stage->n; i++) {
		struct rk_parsed parsed;
		if (!(stage->items[i].command->flags & RK_CMD_DANGEROUS))
			continue;
		rc = parse_text(call->app, stage->items[i].text, call->arena, &parsed, err);
		if (rc)
			break;
		struct rk_call one = *call;
		one.command = parsed.command;
		one.parsed = &parsed;
		one.except = parsed.globals.except;
		rk_str_add(&what, what.len ? "; " : "commit: ");
		rc = rk_call_subject(&one, &what, err);
	}
	return rc || !what.len ? rc : rk_app_confirm(call->app, rk_str_text(&what), call->yes || call->dry_run, err);
}

static void show_plan(struct rk_call *call, const struct rk_plan *plan)
{
	for (size_t i = 0; i < rk_plan_count(plan); i++) {
		const char *kind, *target, *summary;
		int id;
		rk_plan_step(plan, i, &id, &kind, &target, &summary);
		rk_out_row(call->out);
		rk_cell_number(call->out, "id", id);
		rk_cell_text(call->out, "kind", kind);
		rk_cell_text(call->out, "target", target);
		rk_cell_text(call->out, "summary", summary);
	}
}

int rk_stage_commit(struct rk_call *call, struct rk_err *err)
{
	RK_CLEANUP_HEARD struct rk_heard *heard = rk_heard_new();
	struct rk_app *app = call->app;
	struct rk_bundle *bundle;
	int64_t op = 0;
	char *command RK_CLEANUP_FREE = command_of(&app->stage);
	int rc = app->stage.n ? confirmed(call, &app->stage, err) : 0;

	call->audited = app->stage.n ? rk_arena_strdup(call->arena, command) : NULL;
	if (!rc && app->stage.n)
		rc = compose(app, &app->stage, heard, &bundle, err);
	if (!rc && app->stage.n && call->dry_run) {
		show_plan(call, rk_bundle_plan(bundle));
		rk_bundle_drop(bundle);
		return 0;
	}
	size_t n = app->stage.n;
	if (!rc && n)
		rc = rk_bundle_run(bundle, &op, err);
	call->op = op;
	if (op && !rc)
		rk_out_note(call->out, "%zu command%s committed as operation %lld", n, n == 1 ? "" : "s", (long long)op);
	/* What is written down and not taken back is the operation's business from here on. */
	bool kept = rc && rc != RK_UNHEALTHY && !(op && rc == RK_PARTIAL);
	if (!kept)
		rk_stage_clear(&app->stage);
	else if (app->console.history) /* a batch ends here, and the stage with it */
		rk_err_detail(err, "it is still staged: abort forgets it");
	return rc;
}
