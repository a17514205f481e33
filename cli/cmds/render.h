/* cluster render: a row of cluster.c with its handler in a file of its own. */
#pragma once
#include "cli/cmds/common.h"

int rk_cmd_cluster_render(struct rk_call *call, struct rk_err *err);
