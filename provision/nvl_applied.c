#include "provision/nvl_seen.h"

#include <string.h>

#include "inventory/base/json.h"
#include "inventory/base/map.h"

/* What the journal says of the partition: steps that put GPUs in and are not done, steps that took some out and are. */

enum effect { PUTS_IN, TAKES_OUT };

static const struct {
	const char *kind;
	enum effect effect;
} kinds[] = { { "nvl.partition", PUTS_IN }, { "nvl.join", PUTS_IN }, { "nvl.leave", TAKES_OUT }, { "nvl.release", TAKES_OUT }, { "nvl.expel", TAKES_OUT } };

/* Members by the store: GUID -> is in it. */
static void members(const struct rk_site *site, const struct rk_nvl_partition *p, struct rk_map *map)
{
	for (size_t v = 0; v < site->n_vms; v++) {
		const struct rk_tray *t = site->vms[v].tray >= 0 ? &site->trays[site->vms[v].tray] : NULL;
		for (int g = 0; t && site->vms[v].cluster == p->cluster && t->rack == p->rack && g < t->n_gpus; g++)
			rk_map_set_u64(map, site->gpus[t->first_gpu + g].fabric_guid, 1);
	}
}

static void apply_step(const struct rk_step_row *step, const struct rk_jnode *params, const char *rack, struct rk_map *map)
{
	bool done = strcmp(step->state, "done") == 0;

	for (size_t k = 0; k < RK_ARRAY_SIZE(kinds); k++) {
		if (strcmp(step->kind, kinds[k].kind) != 0 || !rk_streq(rk_jstr(rk_jget(params, "rack")), rack))
			continue;
		RK_JEACH(gpu, rk_jget(params, "gpus")) {
			uint64_t guid;
			if (rk_ju64(gpu, &guid))
				rk_map_set_u64(map, guid, (kinds[k].effect == PUTS_IN) == done);
		}
	}
}

static long count(const struct rk_site *site, int rack, const struct rk_map *map)
{
	long n = 0;
	size_t in;

	for (size_t g = 0; g < site->n_gpus; g++)
		n += site->trays[site->gpus[g].tray].rack == rack && rk_map_get_u64(map, site->gpus[g].fabric_guid, &in) && in;
	return n;
}

int rk_nvl_applied(struct rk_world *world, int partition, long *ret, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_map *map RK_CLEANUP_MAP = rk_map_new();
	const struct rk_nvl_partition *p = &world->site->nvl_partitions[partition];
	int64_t op = world->site->clusters[p->cluster].op;
	struct rk_step_row *steps = NULL;
	size_t n = 0;
	int rc = op ? rk_store_step_list(world->store, op, arena, &steps, &n, err) : 0;

	members(world->site, p, map);
	for (size_t i = 0; !rc && i < n; i++) {
		RK_CLEANUP_JSON struct rk_json *json = NULL;
		if (steps[i].params && rk_json_parse("params", steps[i].params, strlen(steps[i].params), &json, NULL) == 0)
			apply_step(&steps[i], rk_json_root(json), world->site->racks[p->rack].name, map);
	}
	*ret = rc ? 0 : count(world->site, p->rack, map);
	return rc;
}
