#include <stdio.h>
#include <string.h>

#include "provision/steps.h"

/* A controller is lost for good, and a step of its lane with it. Nobody knows what it holds: the trays of the step are faulty, and the number of what was
 * to be gone is given to nobody. Both until the controller, or its successor, was read (drift --fix, tray uncordon). */

/* What stays in the store is that the partition is gone, and nobody saw it go. */
static bool is_gone_unseen(const struct rk_step *step, bool undone)
{
	return undone ? step->kind->makes : step->kind->removes;
}

struct trays {
	bool *marked;
	const char **names;
	size_t n;
};

static void mark(const struct rk_site *site, struct trays *trays, int tray)
{
	if (tray == RK_NONE || trays->marked[tray])
		return;
	trays->marked[tray] = true;
	trays->names[trays->n++] = site->trays[tray].name;
}

static int quarantine(struct rk_world *world, struct rk_step *step, const struct trays *trays, const char *what, const char *why, struct rk_err *err)
{
	const char *reason = rk_arena_printf(step->arena, "%s: %s", what, why);
	int rc = 0;

	for (size_t i = 0; !rc && i < trays->n; i++)
		rc = rk_store_add_tray_fault(world->store, trays->names[i], reason, err);
	return rc;
}

static struct trays no_trays(const struct rk_world *world, struct rk_step *step)
{
	size_t n = world->site->n_trays;

	return (struct trays){ rk_arena_array(step->arena, n, sizeof(bool)), rk_arena_array(step->arena, n, sizeof(char *)), 0 };
}

/* Where the network gives ids the store knows it, the step does not. */
static int id_of(const struct rk_site *site, int rack, const struct rk_step *step)
{
	for (size_t i = 0; i < site->n_nvl_partitions; i++)
		if (site->nvl_partitions[i].rack == rack && rk_streq(site->nvl_partitions[i].name, rk_param(step, "name")))
			return site->nvl_partitions[i].id;
	return (int)rk_param_int(step, "id");
}

int rk_nvl_give_up(struct rk_world *world, struct rk_step *step, bool undone, const char *why, struct rk_err *err)
{
	const struct rk_site *site = world->site;
	const char *rack = rk_param(step, "rack"), *name = rk_param(step, "name");
	struct trays trays = no_trays(world, step);
	size_t n;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n);
	int at = rk_find_rack(site, rack), rc = 0;

	for (size_t i = 0; i < n; i++) {
		int gpu = rk_find_gpu_guid(site, gpus[i]);
		mark(site, &trays, gpu < 0 ? RK_NONE : site->gpus[gpu].tray);
	}
	const char *what = rk_arena_printf(step->arena, "nobody knows in which NVLink partition of rack %s its GPUs are", rack);
	step->note = rk_arena_printf(step->arena, "nobody knows in which NVLink partition of rack %s the GPUs of %s are", rack,
				     trays.n ? rk_nodeset_fold(step->arena, trays.names, trays.n) : "retired trays");
	if (is_gone_unseen(step, undone)) {
		int id = id_of(site, at, step);
		step->note = rk_arena_printf(step->arena, "NVLink partition %s/%d \"%s\" may still be there; %s", rack, id, name, step->note);
		rc = rk_store_set_nvl_remains(world->store, rack, id, name, why, err);
	}
	return rc ? rc : quarantine(world, step, &trays, what, why, err);
}

/* Servers of a service are in no tray; their key is given to nobody. */
int rk_ib_give_up(struct rk_world *world, struct rk_step *step, bool undone, const char *why, struct rk_err *err)
{
	const struct rk_site *site = world->site;
	const char *fabric = rk_param(step, "fabric"), *name = *rk_param(step, "name") ? rk_param(step, "name") : rk_param(step, "service");
	struct trays trays = no_trays(world, step);
	unsigned pkey = (unsigned)rk_param_int(step, "pkey");
	size_t n;
	uint64_t *ports = rk_param_guids(step, "members", &n);
	int rc = 0;

	for (size_t i = 0; i < n; i++) {
		int hca = rk_find_hca_guid(site, ports[i]);
		mark(site, &trays, hca < 0 ? RK_NONE : site->hcas[hca].tray);
	}
	const char *what = rk_arena_printf(step->arena, "nobody knows whether its ports hold PKey %s/0x%04x", fabric, pkey);
	step->note = rk_arena_printf(step->arena, "nobody knows whether PKey %s/0x%04x \"%s\" is on %s", fabric, pkey, name,
				     trays.n ? rk_arena_printf(step->arena, "the ports of %s", rk_nodeset_fold(step->arena, trays.names, trays.n)) : "any port");
	if (is_gone_unseen(step, undone))
		rc = rk_store_set_ib_remains(world->store, fabric, (uint16_t)pkey, name, why, err);
	return rc ? rc : quarantine(world, step, &trays, what, why, err);
}
