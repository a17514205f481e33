/* "sizes" of a site file: VM sizes of the site's own, beside the built-in ones (same keys as vmspec/sizes/NAME.json). */
#pragma once
#include "inventory/base/diag.h"
#include "inventory/base/mem.h"

/* Checks every entry and gives the list as JSON text (vmspec reads it). NULL when node is absent. In the arena. */
const char *rk_site_read_sizes(struct rk_diags *diags, const struct rk_jnode *node, struct rk_arena *arena);
