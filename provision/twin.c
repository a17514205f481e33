#include "provision/sim.h"
#include "provision/twin.h"

#include "provision/cluster.h"
#include "provision/steps.h"

enum { SETTLE_MS = 60000 };

/* ---- the store -------------------------------------------------------------------------------------------------------------------- */

static int fill_marks(struct rk_store *store, const struct rk_site *from, struct rk_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < from->n_racks; i++)
		if (from->racks[i].cordon)
			rc = rk_store_set_rack_cordon(store, from->racks[i].name, from->racks[i].cordon, err);
	for (size_t i = 0; !rc && i < from->n_trays; i++) {
		const struct rk_tray *t = &from->trays[i];
		if (t->cordon)
			rc = rk_store_set_tray_cordon(store, t->name, t->cordon, err);
		if (!rc && t->faulty)
			rc = rk_store_set_tray_faulty(store, t->name, t->faulty, err);
		if (!rc && t->offline)
			rc = rk_store_set_tray_offline(store, t->name, t->offline, err);
	}
	for (size_t i = 0; !rc && i < from->n_reservations; i++) {
		const struct rk_reservation *r = &from->reservations[i];
		int64_t id;
		rc = rk_store_add_reservation(store, from->tenants[r->tenant].name, r->racks, r->count, r->from_unix_ms, r->to_unix_ms, &id, err);
	}
	for (size_t i = 0; !rc && i < from->n_silences; i++) {
		int64_t id;
		rc = rk_store_add_silence(store, &from->silences[i], &id, err);
	}
	return rc;
}

static int fill_vm(struct rk_store *store, const struct rk_site *inventory, const struct rk_site *from, int index, struct rk_arena *arena, struct rk_err *err)
{
	const struct rk_vm *vm = &from->vms[index];
	int at = vm->tray >= 0 ? rk_find_tray(inventory, from->trays[vm->tray].name) : RK_NONE;
	struct rk_new_vm fresh = {
		.name = vm->name, .cluster = from->clusters[vm->cluster].name, .uuid = vm->uuid, .address = vm->address, .mac = vm->mac,
		.host_key_public = vm->host_key_public, .number = vm->number, .ssh_port = vm->ssh_port, .generation = vm->generation,
	};

	if (at < 0)
		return rk_err_set(err, RK_CONFLICT, "VM \"%s\" is on no tray of the twin", vm->name);
	const struct rk_tray *tray = &inventory->trays[at];
	uint64_t *gpus = rk_arena_array(arena, (size_t)tray->n_gpus, sizeof(*gpus)), *ports = rk_arena_array(arena, (size_t)tray->n_hcas, sizeof(*ports));
	for (int i = 0; i < tray->n_gpus; i++)
		gpus[i] = inventory->gpus[tray->first_gpu + i].fabric_guid;
	for (int i = 0; i < tray->n_hcas; i++)
		ports[i] = inventory->hcas[tray->first_hca + i].port_guid;
	fresh.tray = tray->name;
	fresh.gpu_guids = gpus;
	fresh.n_gpu_guids = (size_t)tray->n_gpus;
	fresh.port_guids = ports;
	fresh.n_port_guids = (size_t)tray->n_hcas;
	int rc = rk_store_add_vm(store, &fresh, err);
	return rc ? rc : rk_store_set_vm_state(store, vm->name, vm->state, err);
}

static int fill_cluster(struct rk_store *store, const struct rk_site *inventory, const struct rk_site *from, const struct rk_cluster *c, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const struct rk_new_cluster fresh = {
		.name = c->name, .tenant = from->tenants[c->tenant].name, .size = c->size, .image = c->image, .spec = c->spec, .reasons = c->reasons,
		.segment = c->segment, .spares_per_rack = c->spares_per_rack,
	};
	int rc = rk_store_add_cluster(store, &fresh, err);

	for (int v = c->first_vm; !rc && v < c->first_vm + c->n_vms; v++)
		rc = fill_vm(store, inventory, from, v, arena, err);
	for (int i = c->first_nvl; !rc && i < c->first_nvl + c->n_nvl; i++) {
		const struct rk_nvl_partition *p = &from->nvl_partitions[i];
		rc = rk_store_add_nvl_partition(store, from->racks[p->rack].name, p->id, c->name, p->name, err);
	}
	if (!rc && c->ib >= 0) {
		const struct rk_ib_partition *p = &from->ib_partitions[c->ib];
		rc = rk_store_add_ib_partition(store, from->fabrics[p->fabric].name, p->pkey, c->name, p->name, p->full, err);
	}
	if (!rc && c->validation)
		rc = rk_store_set_cluster_validation(store, c->name, c->validation, err);
	return rc ? rc : rk_store_set_cluster_state(store, c->name, c->state, 0, err);
}

static int fill_service(struct rk_store *store, const struct rk_site *from, const struct rk_ib_service *s, struct rk_err *err)
{
	const char **names RK_CLEANUP_FREE = rk_xcalloc(s->n_tenants + 1, sizeof(*names));
	const struct rk_new_service row = { s->name, from->fabrics[s->fabric].name, s->pkey, s->servers, s->n_servers, s->all ? NULL : names, s->n_tenants };

	for (size_t i = 0; i < s->n_tenants; i++)
		names[i] = from->tenants[s->tenants[i]].name;
	return rk_store_add_service(store, &row, err);
}

int rk_twin_fill(struct rk_store *store, const struct rk_site *inventory, const struct rk_site *from, struct rk_err *err)
{
	int rc = rk_store_begin(store, -1, err);

	if (rc)
		return rc;
	rc = fill_marks(store, from, err);
	for (size_t i = 0; !rc && i < from->n_clusters; i++)
		rc = fill_cluster(store, inventory, from, &from->clusters[i], err);
	for (size_t i = 0; !rc && i < from->n_ib_services; i++)
		rc = fill_service(store, from, &from->ib_services[i], err);
	if (rc) {
		rk_store_rollback(store);
		return rk_err_while(err, "while copying the site into its twin"), rc;
	}
	return rk_store_commit(store, err);
}

/* ---- the outside systems ------------------------------------------------------------------------------------------------------------ */

static int adopt_vms(struct rk_world *twin, const struct rk_cluster *c, struct rk_arena *arena, struct rk_err *err)
{
	const struct rk_render request = { .cluster = (int)(c - twin->site->clusters) };
	struct rk_rendered *vms;
	const char *kept;
	size_t n = 0;
	int rc = rk_cluster_render(twin, &request, arena, &vms, &n, err);

	for (size_t i = 0; !rc && i < n; i++) {
		int tray = rk_find_tray(twin->site, vms[i].tray), vm = rk_find_vm(twin->site, vms[i].vm);
		rc = twin->hv->ops->define(twin->hv, tray, vms[i].xml, arena, &kept, err);
		if (!rc && vm >= 0 && twin->site->vms[vm].state == RK_VM_RUNNING)
			rc = twin->hv->ops->start(twin->hv, tray, rk_vm_domain_name(arena, vms[i].vm), err);
	}
	return rc;
}

typedef int (*gpu_fn)(struct rk_nvl *nvl, int rack, int id, uint64_t gpu, struct rk_err *err);

/* Every GPU of the cluster in one rack: out of or into a partition. */
static int each_gpu(struct rk_world *twin, const struct rk_cluster *c, int rack, int id, gpu_fn change, struct rk_err *err)
{
	const struct rk_site *site = twin->site;
	int rc = 0;

	for (int v = c->first_vm; v < c->first_vm + c->n_vms; v++) {
		const struct rk_tray *t = &site->trays[site->vms[v].tray];
		for (int g = t->first_gpu; !rc && t->rack == rack && g < t->first_gpu + t->n_gpus; g++)
			rc = change(twin->nvl, rack, id, site->gpus[g].fabric_guid, err);
	}
	return rc;
}

static int adopt_nvlink(struct rk_world *twin, const struct rk_cluster *c, const struct rk_nvl_partition *p, struct rk_err *err)
{
	int rc = each_gpu(twin, c, p->rack, RK_NVL_DEFAULT, twin->nvl->ops->drop, err);

	/* A GPU is free of one partition before it can join another one. */
	rk_clock_sleep_ms(twin->env.clock, SETTLE_MS);
	if (!rc)
		rc = rk_sim_plant_partition(twin->sim, twin->site->racks[p->rack].name, p->id, p->name, err);
	return rc ? rc : each_gpu(twin, c, p->rack, p->id, twin->nvl->ops->add, err);
}

static int adopt_infiniband(struct rk_world *twin, const struct rk_cluster *c, struct rk_arena *arena, struct rk_err *err)
{
	const struct rk_site *site = twin->site;
	const struct rk_ib_partition *p = &site->ib_partitions[c->ib];
	struct rk_ib_member *members = rk_arena_array(arena, (size_t)c->n_vms * RK_RAILS_MAX, sizeof(*members));
	size_t n = 0;

	for (int v = c->first_vm; v < c->first_vm + c->n_vms; v++) {
		const struct rk_tray *t = &site->trays[site->vms[v].tray];
		for (int h = t->first_hca; h < t->first_hca + t->n_hcas; h++)
			members[n++] = (struct rk_ib_member){ site->hcas[h].port_guid, p->full };
	}
	return twin->ib->ops->set(twin->ib, p->fabric, &(struct rk_ib_wanted){ p->pkey, p->name, members, n, false }, err);
}

static int adopt_service(struct rk_world *twin, const struct rk_ib_service *s, struct rk_err *err)
{
	const struct rk_site *site = twin->site;
	struct rk_ib_member *members RK_CLEANUP_FREE = rk_xcalloc(s->n_servers + site->n_hcas, sizeof(*members));
	size_t n = 0;

	for (size_t i = 0; i < s->n_servers; i++)
		members[n++] = (struct rk_ib_member){ s->servers[i], true };
	for (size_t h = 0; h < site->n_hcas; h++)
		if (rk_ib_service_has(site, s, (int)h))
			members[n++] = (struct rk_ib_member){ site->hcas[h].port_guid, false };
	return twin->ib->ops->set(twin->ib, s->fabric, &(struct rk_ib_wanted){ s->pkey, s->name, members, n, true }, err);
}

/* The guest's IMEX list: the cluster's VMs in its rack. */
static int write_imex(struct rk_world *twin, const struct rk_cluster *c, int vm, struct rk_arena *arena, struct rk_err *err)
{
	const struct rk_site *site = twin->site;
	const char **argv = rk_arena_array(arena, (size_t)c->n_vms + 5, sizeof(*argv));
	struct rk_ssh_result result = { .status = -1 };
	struct rk_vm_conn *conn = NULL;
	size_t n = 0;

	argv[n++] = "sh";
	argv[n++] = "-c";
	argv[n++] = rk_imex_write_script;
	argv[n++] = "sh";
	for (int v = c->first_vm; v < c->first_vm + c->n_vms; v++)
		if (site->vms[v].address && site->trays[site->vms[v].tray].rack == site->trays[site->vms[vm].tray].rack)
			argv[n++] = site->vms[v].address;
	int rc = rk_vm_connect(twin, vm, 0, &conn, err);
	if (!rc)
		rc = rk_vm_run(conn, argv, &result, err);
	rk_vm_close(conn);
	rk_ssh_result_clear(&result);
	return rc;
}

static int adopt_imex(struct rk_world *twin, const struct rk_cluster *c, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	int rc = 0;

	for (int v = c->first_vm; !rc && c->n_nvl && v < c->first_vm + c->n_vms; v++)
		if (twin->site->vms[v].state == RK_VM_RUNNING)
			rc = write_imex(twin, c, v, arena, err);
	return rc;
}

int rk_twin_adopt(struct rk_world *twin, struct rk_err *err)
{
	int rc = rk_world_drivers(twin, err);

	for (size_t i = 0; !rc && i < twin->site->n_clusters; i++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		const struct rk_cluster *c = &twin->site->clusters[i];
		for (int p = c->first_nvl; !rc && p < c->first_nvl + c->n_nvl; p++)
			rc = adopt_nvlink(twin, c, &twin->site->nvl_partitions[p], err);
		if (!rc && c->ib >= 0)
			rc = adopt_infiniband(twin, c, arena, err);
		if (!rc)
			rc = adopt_vms(twin, c, arena, err);
	}
	for (size_t i = 0; !rc && i < twin->site->n_ib_services; i++)
		rc = adopt_service(twin, &twin->site->ib_services[i], err);
	/* What was just made has to have settled before anybody looks. */
	rk_clock_sleep_ms(twin->env.clock, SETTLE_MS);
	for (size_t i = 0; !rc && i < twin->site->n_clusters; i++)
		rc = adopt_imex(twin, &twin->site->clusters[i], err);
	return rc ? (rk_err_while(err, "while the twin took over the clusters"), rc) : 0;
}
