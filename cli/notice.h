/* What others did while the shell waited: operations that ended or were left, trays that went bad. */
#pragma once
#include "inventory/base/str.h"
#include "provision/world.h"

struct rk_notices;
struct rk_notices *rk_notices_new(void);
void rk_notices_free(struct rk_notices *notices);
/* Reads the store again. True when something changed that the prompt shows or that is worth a notice; out (may be NULL) gets a line for each
 * thing that happened since the last poll and was not this process' doing. The first poll only looks. */
bool rk_notices_poll(struct rk_notices *notices, struct rk_world *world, struct rk_str *out);
/* Operations that run, wait for a confirmation or were left resumable, as of the last poll; those of this process that run are not counted. */
size_t rk_notices_unfinished(const struct rk_notices *notices);
