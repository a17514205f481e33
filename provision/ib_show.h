/* What ib show and ib counters show. */
#pragma once
#include "provision/ib_counters.h"
#include "provision/world.h"

struct rk_ib_show_member {
	uint64_t guid;
	const char *port;                 /* "r01-t03/2", or NULL: not in the inventory */
	const char *wanted, *configured;  /* full | limited | NULL: no member */
	const char *live;                 /* full | limited | absent | down | NULL: not known, see why */
	const char *why;
};
struct rk_ib_show {
	const char *name, *tenant, *cluster, *membership;
	const char *state;                /* of the cluster; "service": it is shared; "foreign": the store does not have it */
	const char *sharp;                /* SHARP reservations that follow it, "none", or NULL: not known, see sharp_why */
	const char *sharp_why;
	struct rk_ib_show_member *members; size_t n; /* by inventory order, then by GUID */
};
/* RK_NOT_FOUND when neither the store nor the manager has the key. */
int rk_ib_show(struct rk_world *world, int fabric, uint16_t pkey, struct rk_arena *arena, struct rk_ib_show *ret, struct rk_err *err);

struct rk_ib_port_change {
	const char *port;
	uint64_t guid;
	struct rk_ib_change change;
};
/* Two readings of all ports of the selected trays (NULL: all), interval_ms apart on the world's clock. 0, RK_UNHEALTHY, RK_UNREACHABLE: rows are
 * filled in; other classes: not done. */
int rk_ib_counters(struct rk_world *world, const char *selection, const char *except, int interval_ms, const struct rk_ib_thresholds *thresholds,
		   struct rk_arena *arena, struct rk_ib_port_change **ret, size_t *ret_n, struct rk_err *err);
