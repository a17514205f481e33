/* A twin of a site as it is: a second world, simulated, that holds the same inventory, marks and clusters. */
#pragma once
#include "provision/world.h"

/* Fills a store that has the same inventory (by name) with the marks, reservations and clusters of `from`. */
int rk_twin_fill(struct rk_store *store, const struct rk_site *inventory, const struct rk_site *from, struct rk_err *err);
/* Makes the twin's hypervisors, switches and subnet managers hold what its store says: the twin's snapshot is read first. */
int rk_twin_adopt(struct rk_world *twin, struct rk_err *err);
