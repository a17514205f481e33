#include <string.h>

#include "provision/cluster_impl.h"

/* Trays that were given up come back: what was left on them goes, their drives are erased, their GPUs are with the free ones again, and only
 * then the mark goes. */

#define COMMAND "tray uncordon "

static const char *gpus_params(const struct rk_site *site, int tray, struct rk_arena *arena)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	const struct rk_tray *t = &site->trays[tray];
	struct rk_jw w;

	rk_jw_init(&w, &out, 0);
	rk_jw_object(&w);
	rk_jw_key(&w, "rack");
	rk_jw_str(&w, site->racks[t->rack].name);
	rk_jw_key(&w, "gpus");
	rk_jw_array(&w);
	for (int g = 0; g < t->n_gpus; g++)
		rk_jw_hex64(&w, site->gpus[t->first_gpu + g].fabric_guid);
	rk_jw_end(&w);
	rk_jw_end(&w);
	return rk_arena_strdup(arena, rk_str_text(&out));
}

static bool has_port_on(const struct rk_site *site, const struct rk_tray *t, int fabric)
{
	for (int h = t->first_hca; h < t->first_hca + t->n_hcas; h++)
		if (site->hcas[h].fabric == fabric && site->hcas[h].port_guid)
			return true;
	return false;
}

/* Emptied; then seen where free GPUs are, and without a tenant's key; then back. */
static void add_tray(struct rk_plan *plan, const struct rk_site *site, int tray, struct rk_arena *arena)
{
	const struct rk_tray *t = &site->trays[tray];
	const struct rk_rack *rack = &site->racks[t->rack];
	const char *params = rk_arena_printf(arena, "{\"tray\":\"%s\"}", t->name);
	int *deps = rk_arena_array(arena, site->n_fabrics + 2, sizeof(*deps));
	size_t n = 0;

	deps[n++] = rk_plan_add(plan, "tray.clean", t->name, NULL, params, NULL, 0);
	if (site->profiles[rack->profile].switch_trays)
		deps[n++] = rk_plan_add(plan, "nvl.home", t->name, rk_arena_printf(arena, "nvlink:%s", rack->name), gpus_params(site, tray, arena), deps, 1);
	for (size_t f = 0; f < site->n_fabrics; f++) {
		const char *fabric = site->fabrics[f].name;
		if (has_port_on(site, t, (int)f))
			deps[n++] = rk_plan_add(plan, "ib.clear", t->name, rk_arena_printf(arena, "ib:%s", fabric),
						rk_arena_printf(arena, "{\"tray\":\"%s\",\"fabric\":\"%s\"}", t->name, fabric), deps, 1);
	}
	rk_plan_add(plan, "tray.return", t->name, NULL, params, deps, n);
}

struct trays {
	const int *items;
	size_t n;
};

static int lease_trays(struct rk_world *world, const struct rk_change *change, int64_t op, struct rk_err *err)
{
	const struct trays *trays = change->data;
	int rc = 0;

	for (size_t i = 0; !rc && i < trays->n; i++) {
		char *thing RK_CLEANUP_FREE = rk_xasprintf("tray:%s", world->site->trays[trays->items[i]].name);
		rc = rk_store_lease_take(world->store, thing, op, change->purpose, err);
	}
	return rc;
}

/* An earlier restore of one of them that its process left unfinished. */
static int finish_earlier(struct rk_world *world, const int *items, size_t n, int64_t *ret_op, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const char **names = rk_arena_array(arena, n, sizeof(*names));
	int rc = 0;

	/* By name: the snapshot is another one after the first of them. */
	for (size_t i = 0; i < n; i++)
		names[i] = rk_arena_strdup(arena, world->site->trays[items[i]].name);
	for (size_t i = 0; !rc && i < n; i++) {
		int64_t op;
		rc = rk_op_again(world, COMMAND, names[i], &op, err);
		if (op)
			*ret_op = op;
	}
	return rc;
}

int rk_tray_restore(struct rk_world *world, const int *items, size_t n, int64_t *ret_op, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const char **names = rk_arena_array(arena, n, sizeof(*names));
	int *bad = rk_arena_array(arena, n, sizeof(*bad));
	struct trays trays = { bad, 0 };

	*ret_op = 0;
	int rc = finish_earlier(world, items, n, ret_op, err);
	const struct rk_site *site = world->site;
	for (size_t i = 0; !rc && i < n; i++) {
		if (!site->trays[items[i]].faulty || site->trays[items[i]].vm != RK_NONE)
			continue;
		names[trays.n] = site->trays[items[i]].name;
		bad[trays.n++] = items[i];
	}
	if (!trays.n)
		return rc;
	struct rk_plan *plan = rk_plan_new(rk_arena_printf(arena, COMMAND "%s", rk_nodeset_fold(arena, names, trays.n)));
	for (size_t i = 0; i < trays.n; i++)
		add_tray(plan, site, bad[i], arena);
	const struct rk_change change = { .type = "tray.restore", .purpose = "restore", .plan = plan, .params = "{\"type\":\"tray.restore\"}", .reserve = lease_trays,
					  .data = &trays };
	rc = rk_change_run(world, &change, ret_op, err);
	rk_plan_free(plan);
	return rc;
}
