#include <string.h>

#include "cli/cmds/common.h"
#include "provision/isolation.h"

enum { INTERVAL_DEFAULT_S = 5, INTERVAL_MAX_S = 3600 };

static void plane_cell(struct rk_call *call, const char *plane, const struct rk_isolation *isolation)
{
	struct rk_jw *w = rk_cell_json(call->out, plane);

	rk_jw_array(w);
	for (size_t i = 0; i < isolation->n_checks; i++) {
		const struct rk_plane_check *c = &isolation->checks[i];
		const char *const pairs[][2] = { { "object", c->object }, { "tenant", c->tenant }, { "cluster", c->cluster }, { "verdict", c->verdict },
						 { "message", c->message } };
		if (!rk_streq(c->plane, plane))
			continue;
		rk_jw_object(w);
		for (size_t p = 0; p < RK_ARRAY_SIZE(pairs); p++) {
			rk_jw_key(w, pairs[p][0]);
			rk_jw_str(w, pairs[p][1]);
		}
		rk_jw_end(w);
	}
	rk_jw_end(w);
}

static void violations_cell(struct rk_call *call, const struct rk_isolation *isolation)
{
	struct rk_jw *w = rk_cell_json(call->out, "violations");

	rk_jw_array(w);
	for (size_t i = 0; i < isolation->n_violations; i++) {
		const struct rk_violation *v = &isolation->violations[i];
		const char *const pairs[][2] = { { "plane", v->plane }, { "what", v->what }, { "tenant_a", v->tenant_a }, { "tenant_b", v->tenant_b } };
		rk_jw_object(w);
		for (size_t p = 0; p < RK_ARRAY_SIZE(pairs); p++) {
			rk_jw_key(w, pairs[p][0]);
			rk_jw_str(w, pairs[p][1]);
		}
		rk_jw_end(w);
	}
	rk_jw_end(w);
}

static void isolation_row(struct rk_call *call, const struct rk_isolation *isolation)
{
	rk_out_row(call->out);
	rk_cell_text(call->out, "verdict", isolation->verdict);
	plane_cell(call, "nvlink", isolation);
	plane_cell(call, "infiniband", isolation);
	violations_cell(call, isolation);
	rk_cell_time(call->out, "at", rk_clock_unix_ms(call->world->env.clock));
}

static void alarm_row(void *ctx, const struct rk_isolation *isolation)
{
	struct rk_call *call = ctx;

	isolation_row(call, isolation);
	call->emit(call);
}

static int isolation_verify(struct rk_call *call, struct rk_err *err)
{
	const char *text = rk_call_arg(call, "interval");
	struct rk_isolation isolation;
	uint64_t interval = INTERVAL_DEFAULT_S;

	if (text && (!rk_parse_u64(text, &interval) || interval < 1 || interval > INTERVAL_MAX_S))
		return rk_err_set(err, RK_INVALID, "--interval is from 1 to %d seconds, not \"%s\"", INTERVAL_MAX_S, text);
	if (text && !rk_call_flag(call, "watch"))
		return rk_err_set(err, RK_INVALID, "--interval goes with --watch");
	if (rk_call_flag(call, "watch"))
		return rk_isolation_watch(call->world, (int)interval * 1000, alarm_row, call, err);
	int rc = rk_isolation_verify(call->world, true, call->arena, &isolation, err);
	if (rc == 0 || rc == RK_UNHEALTHY || rc == RK_UNREACHABLE)
		isolation_row(call, &isolation);
	return rc;
}

static const struct rk_command rows[] = {
	{ .noun = "isolation", .verb = "verify", .summary = "prove from the switches and the subnet manager that tenants are apart", .flags = RK_CMD_REMOTE,
	  .description =
		  "Reads what the NVLink switches, the subnet manager's configuration and the P_Key tables of all ports hold now, and asks the subnet "
		  "administrator for paths. A breach is a violation: GPUs of two tenants in one NVLink partition or a running tenant's GPU in the default one, a "
		  "port with the key of another tenant or a full member of the default partition, a partition or key of the managed range that the store does "
		  "not know, a configuration that would open the fabric, a path across tenants.\n\n"
		  "A GPU in no partition and a port without a link reach nobody: they are no breach, but the business of nvlink verify, ib verify and drift. "
		  "What was not read is unknown.\n\n"
		  "With --watch the reading is repeated, without paths, until Ctrl-C; a result is printed at the start and whenever something changes. The exit "
		  "code tells the worst that was seen.",
	  .options = RK_ARGS({ .name = "watch", .type = RK_ARG_NONE, .help = "go on until Ctrl-C and tell every change" },
			     { .name = "interval", .type = RK_ARG_NUMBER, .help = "seconds between two readings of --watch (5)" }),
	  .columns = RK_COLUMNS({ "verdict", RK_COL_TEXT }, { "nvlink", RK_COL_JSON, .wide = true }, { "infiniband", RK_COL_JSON, .wide = true },
				{ "violations", RK_COL_JSON }, { "at", RK_COL_TIME, .wide = true }),
	  .examples = RK_EXAMPLES("isolation verify"), .run = isolation_verify },
};
RK_NOUN(isolation, "isolation between tenants", NULL, rows);
