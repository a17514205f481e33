/* Rows that the commands on both planes show. */
#pragma once
#include "cli/cmds/common.h"
#include "provision/cluster.h"

#define CHECK_COLUMNS                                                                                                                            \
	{ "plane", RK_COL_TEXT, .wide = true }, { "object", RK_COL_TEXT }, { "tenant", RK_COL_TEXT }, { "cluster", RK_COL_TEXT }, { "verdict", RK_COL_TEXT }, \
		{ "wanted", RK_COL_TEXT, .wide = true }, { "live", RK_COL_TEXT, .wide = true }, { "message", RK_COL_TEXT }
void rk_plane_row(struct rk_call *call, const struct rk_plane_check *check);
void rk_plane_rows(struct rk_call *call, const struct rk_plane_check *checks, size_t n);
