#include "cli/cmds/planes.h"

void rk_plane_rows(struct rk_call *call, const struct rk_plane_check *checks, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		rk_out_row(call->out);
		rk_cell_text(call->out, "plane", checks[i].plane);
		rk_cell_text(call->out, "object", checks[i].object);
		rk_cell_text(call->out, "tenant", checks[i].tenant);
		rk_cell_text(call->out, "cluster", checks[i].cluster);
		rk_cell_text(call->out, "verdict", checks[i].verdict);
		rk_cell_text(call->out, "wanted", checks[i].wanted);
		rk_cell_text(call->out, "live", checks[i].live);
		rk_cell_text(call->out, "message", checks[i].message);
	}
}
