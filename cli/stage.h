/* Staged edits: changing commands are kept by `begin` and run by `commit`, all of them or none. */
#pragma once
#include "cli/app.h"

/* Keeps a changing command. RK_INVALID when it could not be undone were a later one to fail. */
int rk_stage_add(struct rk_app *app, const struct rk_parsed *parsed, struct rk_err *err);
/* Rows of what the staged commands change on a twin of the site. */
int rk_stage_diff(struct rk_call *call, struct rk_err *err);
/* Runs them. On a failure the ones before are undone: the class of the failure; RK_PARTIAL when undoing failed, too. What is staged is
 * forgotten on success and kept otherwise. */
int rk_stage_commit(struct rk_call *call, struct rk_err *err);
void rk_stage_clear(struct rk_stage *stage);
