#include "cli/cmds/common.h"
#include "provision/cluster.h"

/* What is somebody else's, or no matter of configuration, is named. */
static void note_left(struct rk_call *call, const struct rk_drift_left *left, size_t n)
{
	for (size_t i = 0; i < n; i++)
		rk_out_note(call->out, "%s %s is left alone: %s", left[i].plane, left[i].object, left[i].why);
}

static int plan_fix(struct rk_call *call, const char *cluster, struct rk_err *err)
{
	struct rk_plan *plan = NULL;
	struct rk_drift_left *left = NULL;
	size_t n_left;
	int rc = rk_drift_fix_plan(call->world, cluster, call->arena, &plan, &left, &n_left, err);

	for (size_t i = 0; plan && i < rk_plan_count(plan); i++) {
		const char *kind, *target, *summary;
		int id;
		rk_plan_step(plan, i, &id, &kind, &target, &summary);
		rk_out_note(call->out, "%s: %s", target, summary);
	}
	note_left(call, left, n_left);
	rk_plan_free(plan);
	return rc;
}

/* Changes the world, so it is asked for like a change; what is printed afterwards is what is true then. */
static int fix(struct rk_call *call, const char *cluster, struct rk_err *err)
{
	int64_t op = 0;
	struct rk_drift_left *left = NULL;
	size_t n_left = 0;

	if (call->dry_run) {
		int planned = plan_fix(call, cluster, err);
		return planned ? planned : rk_drift_fix(call->world, cluster, call->arena, &op, &left, &n_left, err);
	}
	char *what RK_CLEANUP_FREE = rk_xasprintf("drift%s%s --fix", cluster ? " cluster " : "", cluster ? cluster : "");
	int rc = rk_app_confirm(call->app, what, call->yes, err);
	if (!rc)
		rc = rk_drift_fix(call->world, cluster, call->arena, &op, &left, &n_left, err);
	call->op = op;
	note_left(call, left, n_left);
	return rc;
}

static int drift(struct rk_call *call, struct rk_err *err)
{
	struct rk_drift *rows = NULL;
	size_t n = 0;
	const char *scope = rk_call_arg(call, "SCOPE"), *name = rk_call_arg(call, "CLUSTER");
	int at, rc = scope && !name ? rk_err_set(err, RK_INVALID, "CLUSTER is missing: drift cluster NAME") : 0;

	if (!rc && name)
		rc = rk_get_cluster(call, name, &at, err);
	if (!rc)
		rc = rk_world_drivers(call->world, err);
	if (!rc && rk_call_flag(call, "fix"))
		rc = fix(call, name, err);
	if (rc || (call->dry_run && rk_call_flag(call, "fix")))
		return rc;
	if (!rc)
		rc = rk_drift(call->world, name, call->arena, &rows, &n, err);
	for (size_t i = 0; i < n; i++) {
		if (call->parsed->globals.format == RK_FORMAT_TABLE && !call->verbose && rk_streq(rows[i].status, "in-sync"))
			continue;
		rk_out_row(call->out);
		rk_cell_text(call->out, "plane", rows[i].plane);
		rk_cell_text(call->out, "object", rows[i].object);
		rk_cell_text(call->out, "field", rows[i].field);
		rk_cell_text(call->out, "wanted", rows[i].wanted);
		rk_cell_text(call->out, "applied", rows[i].applied);
		rk_cell_text(call->out, "live", rows[i].live);
		rk_cell_text(call->out, "status", rows[i].status);
	}
	if (!rc)
		rk_out_note(call->out, "%zu values in sync", n);
	return rc;
}

static const struct rk_command drift_rows[] = {
	{ .noun = "drift", .summary = "compare wanted, applied and live on all planes", .flags = RK_CMD_REMOTE, .changes_with = "fix", .list = true,
	  .options = RK_ARGS({ .name = "fix", .type = RK_ARG_NONE, .help = "plan the way back as an operation and carry it out; -n prints it" }),
	  .description = "--fix makes one operation of the ways back: guests on or off as the store wants them, domains defined anew, partitions with exactly their "
			 "members. What racksh made and no cluster has any more is taken away: domains that carry its metadata (their tray is erased before it is free), "
			 "keys of the managed range, NVLink partitions that this store's journal made under the name they have. Anything else is somebody's: "
			 "it is named and left alone, and the drift stays.\n\nAn empty store says nothing about what is there: unknown, code 6.",
	  .args = RK_ARGS({ .name = "SCOPE", .type = RK_ARG_ENUM, .values = "cluster", .help = "only one cluster" },
			  { .name = "CLUSTER", .type = RK_ARG_CLUSTER, .help = "name of a cluster" }),
	  .columns = RK_COLUMNS({ "plane", RK_COL_TEXT }, { "object", RK_COL_TEXT }, { "field", RK_COL_TEXT }, { "wanted", RK_COL_TEXT },
				{ "applied", RK_COL_TEXT }, { "live", RK_COL_TEXT }, { "status", RK_COL_TEXT }),
	  .examples = RK_EXAMPLES("drift", "drift --fix"), .run = drift },
};
RK_NOUN(drift, "differences between wanted, applied and live", NULL, drift_rows);
