/* Capacity kept for a tenant between two times: whole racks, or a number of trays anywhere. What placement makes of it: provision/place.h. */
#pragma once
#include "provision/world.h"

struct rk_reserve_wish {
	const char *tenant;
	const char *racks;                /* selection of racks, or NULL */
	int count;                        /* trays, when racks is NULL */
	int64_t from_unix_ms, to_unix_ms;
};
/* Checks the wish against the snapshot. *ret_racks: the racks folded (in the arena), NULL for a number.
 * RK_CONFLICT with a detail per reservation or cluster of others in the racks; RK_NO_CAPACITY when the number cannot be kept, with the reservations that
 * hold the rest; RK_INVALID, RK_NOT_FOUND for bad input. */
int rk_reserve_check(const struct rk_site *site, const struct rk_reserve_wish *wish, struct rk_arena *arena, const char **ret_racks, struct rk_err *err);
/* Checks and stores it, planned against the world's snapshot. */
int rk_reserve_create(struct rk_world *world, const struct rk_reserve_wish *wish, struct rk_arena *arena, int64_t *ret_id, struct rk_err *err);
/* "active", "future" or "ended" at the time of the snapshot. */
const char *rk_reserve_state(const struct rk_site *site, const struct rk_reservation *reservation);
