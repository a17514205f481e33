/* Private to provision/health/collect*.c: parts of rk_collect. */
#pragma once
#include "provision/health/rules.h"

enum { RK_COLLECT_MORE = 4 }; /* answers that are not from a shell on the target */

/* leak and power, from the management controllers of the targets' trays, where there are any. Room for RK_COLLECT_MORE more answers. */
void rk_collect_bmc(struct rk_world *world, const struct rk_texts *level, const int *vms, size_t n, struct rk_arena *arena, struct rk_target *targets);
/* ib-write-bw between pairs of the targets: rounds in which every target has one partner, so that no two measurements share a port. */
void rk_collect_pairs(struct rk_world *world, const int *vms, size_t n, struct rk_arena *arena, struct rk_target *targets);
