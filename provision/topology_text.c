#include "provision/topology_text.h"

#include <string.h>

int rk_topology_read(struct rk_world *world, int fabric, struct rk_topology **ret, bool *ret_live, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const char *name = world->site->fabrics[fabric].name, *text = NULL;
	int rc = rk_store_get_topology(world->store, name, arena, &text, err);
	bool live = !rc && !text;

	if (live)
		rc = rk_world_drivers(world, err);
	if (!rc && live)
		rc = world->ib->ops->discover(world->ib, fabric, arena, &text, err);
	if (!rc)
		rc = rk_topology_parse(name, text, strlen(text), ret, err);
	if (!rc && ret_live)
		*ret_live = live;
	return rc;
}
