#include "cli/cmds/planes.h"

void rk_plane_row(struct rk_call *call, const struct rk_plane_check *check)
{
	rk_out_row(call->out);
	rk_cell_text(call->out, "plane", check->plane);
	rk_cell_text(call->out, "object", check->object);
	rk_cell_text(call->out, "tenant", check->tenant);
	rk_cell_text(call->out, "cluster", check->cluster);
	rk_cell_text(call->out, "verdict", check->verdict);
	rk_cell_text(call->out, "wanted", check->wanted);
	rk_cell_text(call->out, "live", check->live);
	rk_cell_text(call->out, "message", check->message);
}

void rk_plane_rows(struct rk_call *call, const struct rk_plane_check *checks, size_t n)
{
	for (size_t i = 0; i < n; i++)
		rk_plane_row(call, &checks[i]);
}
