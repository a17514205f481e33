#include "provision/isolation_impl.h"

#include <inttypes.h>
#include <stdlib.h>

/* The NVLink half of the proof: whose GPUs share a partition. */

/* A guest that was not started yet, or was seen dead, cannot use where its GPUs are meanwhile. */
static bool in_the_making(const struct rk_proof *p, int tray)
{
	int vm = p->site->trays[tray].vm;
	enum rk_vm_state state = vm == RK_NONE ? RK_VM_PLANNED : p->site->vms[vm].state;

	return state == RK_VM_PLANNED || state == RK_VM_BUILDING || p->site->clusters[p->site->vms[vm].cluster].state == RK_CLUSTER_DELETING;
}

static void in_default(struct rk_proof *p, int rack, int gpu, int tenant, const char *where)
{
	if (!in_the_making(p, p->site->gpus[gpu].tray))
		rk_proof_violate(p, "nvlink", where, tenant, RK_NONE,
			rk_arena_printf(p->arena, "GPU %s is in the default partition of %s, which joins everybody in the rack", rk_gpu_label(p->site, gpu, p->arena),
					p->site->racks[rack].name));
}

/* All tenants of a partition; a GPU that the store does not know is somebody's, too. */
static void partition_breaches(struct rk_proof *p, int rack, const struct rk_nvl_live *part, const char *where)
{
	bool *holder = rk_arena_array(p->arena, p->site->n_tenants, sizeof(*holder)), known = rk_nvl_in_store(p->site, rack, part);
	const char *stranger = NULL;
	int last = RK_NONE;

	for (size_t i = 0; i < part->n_gpus; i++) {
		int gpu = rk_find_gpu_guid(p->site, part->gpus[i]), tenant = gpu < 0 ? RK_NONE : rk_proof_tenant_of(p, p->site->gpus[gpu].tray);
		if (gpu < 0)
			stranger = rk_arena_printf(p->arena, "0x%016" PRIx64, part->gpus[i]);
		if (tenant == RK_NONE || holder[tenant])
			continue;
		if (part->id == RK_NVL_DEFAULT) {
			in_default(p, rack, gpu, tenant, where);
			continue;
		}
		for (size_t t = 0; t < p->site->n_tenants; t++)
			if (holder[t])
				rk_proof_violate(p, "nvlink", where, (int)t, tenant, rk_arena_printf(p->arena, "NVLink partition %s holds GPUs of both", where));
		holder[tenant] = true;
		last = tenant;
	}
	if (part->id != RK_NVL_DEFAULT && last != RK_NONE && stranger)
		rk_proof_violate(p, "nvlink", rk_arena_printf(p->arena, "%s stranger", where), last, RK_NONE,
			rk_arena_printf(p->arena, "NVLink partition %s holds GPU %s, which no tray of the store has", where, stranger));
	if (!known && part->n_gpus)
		rk_proof_violate(p, "nvlink", rk_arena_printf(p->arena, "%s unknown", where), last, RK_NONE,
			rk_arena_printf(p->arena, "NVLink partition %s holds %zu GPUs, and the store knows of no such partition", where, part->n_gpus));
}

/* GPUs of the cluster that reach nobody, and those of which nothing is known. */
static void look_for_gpus(struct rk_proof *p, const struct rk_nvl_partition *part, struct rk_names *loose, struct rk_names *unknown)
{
	const struct rk_rack *rack = &p->site->racks[part->rack];

	for (int t = rack->first_tray; t < rack->first_tray + rack->n_trays; t++)
		for (int g = p->site->trays[t].first_gpu; rk_proof_cluster_of(p, t) == part->cluster && g < p->site->trays[t].first_gpu + p->site->trays[t].n_gpus; g++) {
			int at = rk_live_gpu(p->live, g);
			if (at == 0)
				*rk_vec_push(loose) = rk_gpu_label(p->site, g, p->arena);
			else if (at == RK_NONE)
				*rk_vec_push(unknown) = rk_gpu_label(p->site, g, p->arena);
		}
}

static void own_partition(struct rk_proof *p, const struct rk_nvl_partition *part)
{
	const char *where = rk_arena_printf(p->arena, "%s/%d", p->site->racks[part->rack].name, part->id), *message = NULL;
	const struct rk_nvl_live *live = rk_live_nvl_part(p->live, (int)(part - p->site->nvl_partitions));
	struct rk_names loose = { NULL, 0, 0 }, unknown = { NULL, 0, 0 };
	size_t before = p->found.n;

	if (live)
		partition_breaches(p, part->rack, live, where);
	look_for_gpus(p, part, &loose, &unknown);
	if (unknown.n)
		message = rk_arena_printf(p->arena, "%s: their fabric GUIDs are not known", rk_nodeset_fold(p->arena, unknown.items, unknown.n));
	else if (loose.n)
		message = rk_arena_printf(p->arena, "%s in no partition: reaches nobody", rk_nodeset_fold(p->arena, loose.items, loose.n));
	rk_proof_add_row(p, "nvlink", where, part->cluster, before, unknown.n != 0, message);
	free(loose.items);
	free(unknown.items);
}

static bool rack_used(const struct rk_proof *p, int rack)
{
	const struct rk_rack *r = &p->site->racks[rack];

	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++)
		if (rk_proof_cluster_of(p, t) != RK_NONE)
			return true;
	return false;
}

void rk_proof_rack(struct rk_proof *p, int rack)
{
	const struct rk_live_nvl *r = &p->live->nvl[rack];
	const char *name = p->site->racks[rack].name;
	size_t before = p->found.n;

	if (!r->read) {
		rk_check_add(&p->checks, "nvlink", name, rack_used(p, rack) ? "unknown" : "skipped", NULL, NULL,
			     rk_arena_printf(p->arena, "%s%s", rack_used(p, rack) ? "" : "no tenant is in this rack; ", r->why));
		return;
	}
	for (size_t i = 0; i < r->n; i++)
		if (r->parts[i].id == RK_NVL_DEFAULT)
			partition_breaches(p, rack, &r->parts[i], rk_arena_printf(p->arena, "%s/%d", name, RK_NVL_DEFAULT));
	rk_proof_add_row(p, "nvlink", name, RK_NONE, before, false, NULL);
	for (size_t i = 0; i < p->site->n_nvl_partitions; i++)
		if (p->site->nvl_partitions[i].rack == rack)
			own_partition(p, &p->site->nvl_partitions[i]);
	for (size_t i = 0; i < r->n; i++) {
		if (rk_nvl_in_store(p->site, rack, &r->parts[i]))
			continue;
		const char *where = rk_arena_printf(p->arena, "%s/%d", name, r->parts[i].id);
		before = p->found.n;
		partition_breaches(p, rack, &r->parts[i], where);
		rk_proof_add_row(p, "nvlink", where, RK_NONE, before, false, "the store knows of no such partition; it is empty");
	}
}
