#include "cli/cmds/common.h"
#include "cli/stage.h"

static int begin(struct rk_call *call, struct rk_err *err)
{
	if (call->app->stage.open)
		return rk_err_set(err, RK_CONFLICT, "something is staged already: commit or abort it first");
	call->app->stage.open = true;
	return 0;
}

static int need_stage(struct rk_call *call, struct rk_err *err)
{
	if (call->app->stage.open)
		return 0;
	rk_err_set(err, RK_INVALID, "nothing is staged");
	rk_err_hint(err, "begin starts it");
	return RK_INVALID;
}

static int abort_stage(struct rk_call *call, struct rk_err *err)
{
	int rc = need_stage(call, err);

	if (!rc)
		rk_stage_clear(&call->app->stage);
	return rc;
}

static int diff(struct rk_call *call, struct rk_err *err)
{
	int rc = need_stage(call, err);

	return rc ? rc : rk_stage_diff(call, err);
}

static int commit(struct rk_call *call, struct rk_err *err)
{
	int rc = need_stage(call, err);

	return rc ? rc : rk_stage_commit(call, err);
}

#define WORD(id, more, ...)                                                                                              \
	static const struct rk_command id##_rows[] = { { .noun = #id, .summary = more, __VA_ARGS__ } };                   \
	const struct rk_noun rk_noun_##id = { .name = #id, .summary = more, .commands = id##_rows, .n = 1 }

extern const struct rk_noun rk_noun_begin, rk_noun_diff, rk_noun_commit, rk_noun_abort;
WORD(begin, "stage changing commands instead of running them, until commit or abort", .flags = RK_CMD_SHELL | RK_CMD_NO_STORE, .run = begin,
     .description = "Commands that only look run as usual and show the site as it is. Staged are changes of clusters, VMs, cordons, reservations, silences, tenants "
		    "and images; others (imports, discovery, cluster rename, tray replace, power, drift --fix, what is about operations and stores) are refused: "
		    "they are run before or after.",
     .examples = RK_EXAMPLES("begin"));
WORD(diff, "show value by value what the staged commands would change on every plane", .flags = RK_CMD_SHELL, .list = true, .run = diff,
     .columns = RK_COLUMNS({ "plane", RK_COL_TEXT }, { "object", RK_COL_TEXT }, { "field", RK_COL_TEXT }, { "from", RK_COL_TEXT }, { "to", RK_COL_TEXT }),
     .description = "The commands are run on a twin of the site as it is now, and the twin is compared with what it was before.");
WORD(commit, "make what is staged one operation: all of it or nothing", .flags = RK_CMD_SHELL | RK_CMD_CHANGES, .list = true, .run = commit,
     .columns = RK_COLUMNS({ "id", RK_COL_NUMBER }, { "kind", RK_COL_TEXT }, { "target", RK_COL_TEXT }, { "summary", RK_COL_TEXT }),
     .description = "The commands are planned one after the other, each on what the ones before will hold; what a staged command frees is free after the commit, "
		    "and two that work on the same VM or cluster are refused. When one cannot be done, nothing is. Then their steps run as one operation with one number: "
		    "a failure takes all of it back, what was interrupted is finished with `op resume` or taken back with `op rollback`. Steps that cannot be "
		    "taken back (delete, shrink, repair, stop and start) come last, when everything else is done. With -n the steps are shown and nothing is done.");
WORD(abort, "forget what is staged", .flags = RK_CMD_SHELL | RK_CMD_NO_STORE, .run = abort_stage);
