/* What the guests of an NVLink partition see of it themselves (nvidia-smi), to be held against what the switch says. */
#pragma once
#include "provision/world.h"

struct rk_nvl_seen {                      /* one GPU of one VM */
	const char *vm;
	int gpu;                          /* index in the guest; RK_NONE: the VM did not answer, see why */
	const char *state, *status, *clique, *cluster_uuid; /* as nvidia-smi has them; NULL: not told */
	bool agrees;                      /* Completed, Success, and clique and ClusterUUID are those of the partition */
	const char *why;
};
/* Asks the cluster's VMs in that rack, in parallel. partition: index into site->nvl_partitions. Texts in the arena. */
void rk_nvl_ask_guests(struct rk_world *world, int partition, struct rk_arena *arena, struct rk_nvl_seen **ret, size_t *ret_n);
