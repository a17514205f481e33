/* tray replace: other hardware in the slot of a tray. */
#pragma once
#include "inventory/tray_identity.h"
#include "provision/op.h"

/* What answers in the slot now, over SSH and from the NVLink switch; texts in the arena. RK_UNREACHABLE when it does not tell every identity. */
int rk_tray_discover(struct rk_world *world, int tray, struct rk_arena *arena, struct rk_tray_identity *ret, struct rk_err *err);
/* The steps: old GPUs out of every NVLink partition, the new ones where they were, the PKey to the new ports only. rk_plan_free. */
struct rk_plan *rk_tray_replace_plan(struct rk_world *world, int tray, const struct rk_tray_identity *identity, struct rk_arena *arena);
/* Store first, in one change with the journal; then the fabrics. It goes forward only: the old hardware is not there any more.
 * RK_INVALID when the identity is that of the tray already. */
int rk_tray_replace(struct rk_world *world, int tray, const struct rk_tray_identity *identity, int64_t *ret_op, struct rk_err *err);
