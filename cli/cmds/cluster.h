/* How clusters and plans of them are shown (cluster_show.c), for the commands that change them (cluster.c). */
#pragma once
#include "cli/cmds/common.h"
#include "provision/cluster.h"

int rk_cmd_cluster_list(struct rk_call *call, struct rk_err *err);
/* The one row of `cluster show`, by index into the snapshot's clusters. */
void rk_cluster_row(struct rk_call *call, int cluster);
/* The one row of `cluster plan` and of dry runs; steps may be NULL: nothing to do. */
extern const struct rk_column rk_plan_columns[];
void rk_plan_row(struct rk_call *call, const struct rk_placement *placement, const struct rk_plan *steps);
/* The same of a change that places nothing: there are only the steps. */
void rk_steps_row(struct rk_call *call, const struct rk_plan *steps);
