/* What the step files share: reading params, waiting for a state, finding the VM a step is about. */
#pragma once
#include "provision/op.h"

extern const struct rk_step_kind rk_vm_steps[], rk_fabric_steps[]; /* end with name == NULL */

const char *rk_param(const struct rk_step *step, const char *key); /* "" when absent */
long rk_param_int(const struct rk_step *step, const char *key);
/* "gpus" or "members": an array of 64-bit texts; in the step's arena. */
uint64_t *rk_param_guids(const struct rk_step *step, const char *key, size_t *ret_n);
/* Index of the VM named by "vm"; RK_NOT_FOUND when the store does not know it any more. */
int rk_param_vm(struct rk_world *world, const struct rk_step *step, int *ret, struct rk_err *err);

/* Calls check until it says 1, the deadline of the step kind passes (RK_UNREACHABLE: outcome unknown, `what` is what was waited for), it fails,
 * or Ctrl-C. A check that could not read (RK_UNREACHABLE) is tried again until the deadline. */
int rk_wait_until(struct rk_world *world, struct rk_step *step, const char *what, int (*check)(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err),
		  struct rk_err *err);
