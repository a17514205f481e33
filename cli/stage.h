/* Staged edits: changing commands are kept by `begin` and run by `commit`, all of them or none. */
#pragma once
#include "cli/app.h"

/* Keeps a changing command. RK_INVALID when it is none that can be a part of one operation (RK_CMD_STAGES). */
int rk_stage_add(struct rk_app *app, const struct rk_parsed *parsed, struct rk_err *err);
/* Rows of what the staged commands change on a twin of the site. */
int rk_stage_diff(struct rk_call *call, struct rk_err *err);
/* Runs them as one operation: errors of rk_bundle_run; one that cannot be planned is told with its place, and nothing was done. What is staged is
 * forgotten when the operation is written down and was not taken back, and kept otherwise. A dry run shows the steps. */
int rk_stage_commit(struct rk_call *call, struct rk_err *err);
void rk_stage_clear(struct rk_stage *stage);
