/* What the NVLink steps share: what the switch says now, and where GPUs go that no cluster has (steps_nvl_home.c). */
#pragma once
#include "provision/steps.h"

enum { RK_NVL_SETTLE_MS = 2000 };         /* a call whose answer was lost takes effect within this time, or not at all */

struct rk_nvl_view {
	int rack;
	int id;                           /* of the step's partition; RK_NONE: there is none of its name */
	struct rk_nvl_live *parts; size_t n;
};
/* All partitions of the step's rack, in its arena. */
int rk_nvl_read(struct rk_world *world, struct rk_step *step, struct rk_nvl_view *ret, struct rk_err *err);
/* *ret: 1 when `is` holds for each of the step's GPUs that were not left, by what the switch says now. */
typedef bool rk_nvl_judgement(const struct rk_world *world, const struct rk_nvl_view *view, uint64_t gpu);
int rk_nvl_all(struct rk_world *world, struct rk_step *step, rk_nvl_judgement *is, int *ret, struct rk_err *err);
bool rk_nvl_holds(const struct rk_nvl_live *part, uint64_t gpu);
int rk_nvl_partition_of(const struct rk_nvl_view *view, uint64_t gpu); /* 0: in none */
const struct rk_nvl_live *rk_nvl_partition_with(const struct rk_nvl_view *view, int id); /* NULL: not there */

/* Is it in somebody else's: neither ours nor one of those where free GPUs are? */
rk_nvl_judgement rk_nvl_in_foreign;
/* Is it in the partition of its own tray? */
bool rk_nvl_in_tray_partition(const struct rk_site *site, const struct rk_nvl_view *view, uint64_t gpu);
/* Drops those of the step's GPUs for which `is` holds out of the partitions they are in. */
int rk_nvl_take_out(struct rk_world *world, struct rk_step *step, rk_nvl_judgement *is, struct rk_err *err);
/* Empties the step's partition, brings the step's GPUs home, and removes it. */
int rk_nvl_take_apart(struct rk_world *world, struct rk_step *step, struct rk_err *err);
/* Those of the GPUs that are in no partition go home: to where step->before says that they were, else to where the site says that free GPUs are. Those
 * of a tray that was given up, or that a person took out of service and whose guest may live, go into the partition of their tray alone. One that is
 * gone is left (rk_step_leaves). */
int rk_nvl_send_home(struct rk_world *world, struct rk_step *step, const uint64_t *gpus, size_t n, struct rk_err *err);
/* The result of adding a GPU says that there is none: it is left, and err is cleared. */
bool rk_nvl_is_gone(const struct rk_world *world, struct rk_step *step, uint64_t gpu, int rc, struct rk_err *err);
/* Those of the step's GPUs that are in no partition go into the partition of their tray, whatever the site says. A GPU that does not join is left. */
int rk_nvl_quarantine(struct rk_world *world, struct rk_step *step, struct rk_err *err);

extern const struct rk_step_kind rk_nvl_home_steps[]; /* ends with name == NULL */
