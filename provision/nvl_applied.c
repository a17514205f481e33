#include "provision/nvl_seen.h"

#include <string.h>

#include "inventory/base/json.h"
#include "inventory/base/map.h"

/* What the journal says of a cluster's partitions: steps that put GPUs in and are not done, steps that took some out and are. */

enum effect { PUTS_IN, TAKES_OUT };

static const struct {
	const char *kind;
	enum effect effect;
} kinds[] = { { "nvl.partition", PUTS_IN }, { "nvl.join", PUTS_IN }, { "nvl.leave", TAKES_OUT }, { "nvl.release", TAKES_OUT }, { "nvl.expel", TAKES_OUT } };

/* Members by the store: GUID -> is in its partition. */
static void members(const struct rk_site *site, const struct rk_cluster *c, struct rk_map *map)
{
	for (int v = c->first_vm; v < c->first_vm + c->n_vms; v++) {
		const struct rk_tray *t = site->vms[v].tray >= 0 ? &site->trays[site->vms[v].tray] : NULL;
		for (int g = 0; t && g < t->n_gpus; g++)
			rk_map_set_u64(map, site->gpus[t->first_gpu + g].fabric_guid, 1);
	}
}

static void apply_step(const struct rk_step_row *step, struct rk_map *map)
{
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	bool done = strcmp(step->state, "done") == 0;
	size_t k = 0;

	while (k < RK_ARRAY_SIZE(kinds) && strcmp(step->kind, kinds[k].kind) != 0)
		k++;
	if (k == RK_ARRAY_SIZE(kinds) || !step->params || rk_json_parse("params", step->params, strlen(step->params), &json, NULL) != 0)
		return;
	RK_JEACH(gpu, rk_jget(rk_json_root(json), "gpus")) {
		uint64_t guid;
		if (rk_ju64(gpu, &guid))
			rk_map_set_u64(map, guid, (kinds[k].effect == PUTS_IN) == done);
	}
}

static long count(const struct rk_site *site, const struct rk_rack *rack, const struct rk_map *map)
{
	long n = 0;
	size_t in;

	for (int t = rack->first_tray; t < rack->first_tray + rack->n_trays; t++)
		for (int g = site->trays[t].first_gpu; g < site->trays[t].first_gpu + site->trays[t].n_gpus; g++)
			n += rk_map_get_u64(map, site->gpus[g].fabric_guid, &in) && in;
	return n;
}

static int of_cluster(struct rk_world *world, const struct rk_cluster *c, long *ret, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_map *map RK_CLEANUP_MAP = rk_map_new();
	const struct rk_site *site = world->site;
	struct rk_step_row *steps = NULL;
	size_t n = 0;
	int rc = c->op ? rk_store_step_list(world->store, c->op, arena, &steps, &n, err) : 0;

	if (rc)
		return rc;
	members(site, c, map);
	for (size_t i = 0; i < n; i++)
		apply_step(&steps[i], map);
	for (int p = c->first_nvl; p < c->first_nvl + c->n_nvl; p++)
		ret[p] = count(site, &site->racks[site->nvl_partitions[p].rack], map);
	return 0;
}

int rk_nvl_applied(struct rk_world *world, struct rk_arena *arena, long **ret, struct rk_err *err)
{
	const struct rk_site *site = world->site;
	int rc = 0;

	*ret = rk_arena_array(arena, site->n_nvl_partitions, sizeof(**ret));
	for (size_t c = 0; !rc && c < site->n_clusters; c++)
		rc = of_cluster(world, &site->clusters[c], *ret, err);
	return rc;
}
