#include "cli/cmds/common.h"
#include "provision/cluster.h"

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
	{ .noun = "drift", .summary = "compare wanted, applied and live on all planes", .flags = RK_CMD_REMOTE, .list = true,
	  .args = RK_ARGS({ .name = "SCOPE", .type = RK_ARG_ENUM, .values = "cluster", .help = "only one cluster" },
			  { .name = "CLUSTER", .type = RK_ARG_CLUSTER, .help = "name of a cluster" }),
	  .columns = RK_COLUMNS({ "plane", RK_COL_TEXT }, { "object", RK_COL_TEXT }, { "field", RK_COL_TEXT }, { "wanted", RK_COL_TEXT },
				{ "applied", RK_COL_TEXT }, { "live", RK_COL_TEXT }, { "status", RK_COL_TEXT }),
	  .examples = RK_EXAMPLES("drift"), .run = drift },
};
RK_NOUN(drift, "differences between wanted, applied and live", NULL, drift_rows);
