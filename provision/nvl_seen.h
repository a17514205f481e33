/* An NVLink partition as it was applied, and as its guests see it themselves (nvidia-smi), to be held against what the switch says. */
#pragma once
#include "provision/world.h"

struct rk_nvl_seen {                      /* one GPU of one VM */
	int partition;                    /* index into site->nvl_partitions */
	const char *vm;
	int gpu;                          /* index in the guest; RK_NONE: the VM did not answer, see why */
	const char *state, *status, *clique, *cluster_uuid; /* as nvidia-smi has them; NULL: not told */
	bool agrees;                      /* Completed, Success, and clique and ClusterUUID are those of the partition */
	const char *differs;              /* the first that is told and is not as it should be: "State In Progress"; NULL: none */
	const char *why;                  /* neither agrees nor differs: what is not known */
};
/* Asks the VMs of these partitions (indexes into site->nvl_partitions) that are meant to run, all at once; rows in the order of partitions and VMs.
 * Texts in the arena. */
void rk_nvl_ask_guests(struct rk_world *world, const int *partitions, size_t n, struct rk_arena *arena, struct rk_nvl_seen **ret, size_t *ret_n);

struct rk_nvl_tally {                     /* of one partition */
	long asked, agree;                /* GPUs whose guest answered; those that see themselves in the partition */
	const char **differ; size_t n_differ; /* "a-01/2 (State In Progress)" */
	const char **silent; size_t n_silent; /* VMs that did not answer, GPUs of which too little is told */
	const char *why;                  /* of the first of them */
};
/* seen: as rk_nvl_ask_guests gives it, with the partitions in ascending order. */
void rk_nvl_tally(const struct rk_nvl_seen *seen, size_t n, int partition, struct rk_arena *arena, struct rk_nvl_tally *ret);

/* How many GPUs operations have put into each partition of the site so far: all that the store says, unless an operation on the cluster is not over.
 * One number per partition, in the arena. */
int rk_nvl_applied(struct rk_world *world, struct rk_arena *arena, long **ret, struct rk_err *err);
