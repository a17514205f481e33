/* The wiring of a fabric as text: the one last imported, else the living one. */
#pragma once
#include "inventory/topology.h"
#include "provision/world.h"

/* *ret_live (may be NULL): it was read now. The topology is the caller's; rk_topology_free. */
int rk_topology_read(struct rk_world *world, int fabric, struct rk_topology **ret, bool *ret_live, struct rk_err *err);
