#include <math.h>

#include "cli/cmds/common.h"
#include "inventory/base/clock.h"
#include "inventory/store.h"

/* report usage; its row is in report.c. */

static int period(struct rk_call *call, int64_t *from, int64_t *to, struct rk_err *err)
{
	const char *from_text = rk_call_arg(call, "from"), *to_text = rk_call_arg(call, "to");
	int64_t now = rk_clock_unix_ms(NULL);
	int rc = rk_time_parse(from_text ? from_text : "1970-01-01", now, from, err);

	return rc ? rc : rk_time_parse(to_text ? to_text : "now", now, to, err);
}

/* Seconds are more than anybody bills. */
static double rounded(double hours)
{
	return floor(hours * 1000 + 0.5) / 1000;
}

static void show_usage(struct rk_call *call, const struct rk_usage_row *u, bool by_cluster)
{
	rk_out_row(call->out);
	rk_cell_text(call->out, "tenant", u->tenant);
	rk_cell_text(call->out, "cluster", by_cluster ? u->cluster : NULL);
	rk_cell_text(call->out, "size", by_cluster ? u->size : NULL);
	rk_cell_number(call->out, "vms", u->vms);
	rk_cell_real(call->out, "vm_hours", rounded(u->vm_hours));
	rk_cell_real(call->out, "gpu_hours", rounded(u->gpu_hours));
	rk_cell_bool(call->out, "running", u->running);
}

/* Rows come by tenant: neighbours are added up. */
static size_t add_up(struct rk_usage_row *rows, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		if (kept && rk_streq(rows[kept - 1].tenant, rows[i].tenant)) {
			rows[kept - 1].vms += rows[i].vms;
			rows[kept - 1].vm_hours += rows[i].vm_hours;
			rows[kept - 1].gpu_hours += rows[i].gpu_hours;
			rows[kept - 1].running |= rows[i].running;
		} else {
			rows[kept++] = rows[i];
		}
	}
	return kept;
}

int rk_cmd_usage(struct rk_call *call, struct rk_err *err)
{
	bool by_cluster = rk_streq(rk_call_arg(call, "by"), "cluster");
	struct rk_usage_row *rows;
	int64_t from, to;
	size_t n;
	int rc = period(call, &from, &to, err);

	if (!rc)
		rc = rk_store_usage(call->world->store, from, to, call->arena, &rows, &n, err);
	if (rc)
		return rc;
	if (!by_cluster)
		n = add_up(rows, n);
	for (size_t i = 0; i < n; i++)
		show_usage(call, &rows[i], by_cluster);
	return 0;
}
