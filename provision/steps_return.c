#include <inttypes.h>
#include <string.h>

#include "provision/steps.h"

/* Trays that were given up come back: whatever racksh made there goes, the drives are erased, and only then it is free. */

static int tray_at(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	*ret = rk_find_tray(world->site, rk_param(step, "tray"));
	return *ret < 0 ? rk_err_set(err, RK_NOT_FOUND, "no tray \"%s\" in the store", rk_param(step, "tray")) : 0;
}

static const char *name_of_guest(const struct rk_world *world, const struct rk_step *step, int tray)
{
	int vm = world->site->trays[tray].vm;

	return vm == RK_NONE ? NULL : rk_vm_domain_name(step->arena, rk_vm_host_name(&world->site->vms[vm]));
}

/* Whatever of ours was left on it: the guest's name says what its volumes are called. */
static int remove_domain(struct rk_world *world, struct rk_step *step, int tray, const struct rk_hv_domain *d, struct rk_err *err)
{
	const char *cluster, *vm;
	int generation, rc = d->running ? world->hv->ops->destroy(world->hv, tray, d->name, err) : 0;

	if (!rc)
		rc = world->hv->ops->undefine(world->hv, tray, d->name, err);
	if (rc || !rk_domain_xml_owner(d->xml, step->arena, &cluster, &vm, &generation))
		return rc;
	/* A copy of the tray's own guest has its volumes. */
	if (rk_streq(rk_vm_domain_name(step->arena, vm), name_of_guest(world, step, tray)))
		return 0;
	rc = world->hv->ops->volume_delete(world->hv, tray, world->site->pool, rk_vm_os_volume(step->arena, vm), err);
	return rc ? rc : world->hv->ops->volume_delete(world->hv, tray, world->site->pool, rk_vm_seed_volume(step->arena, vm), err);
}

static int our_domains(struct rk_world *world, struct rk_step *step, int *ret_tray, struct rk_hv_domain **ret, size_t *ret_n, struct rk_err *err)
{
	int rc = tray_at(world, step, ret_tray, err);
	size_t n = 0;

	*ret_n = 0;
	if (!rc)
		rc = world->hv->ops->domain_list(world->hv, *ret_tray, step->arena, ret, &n, err);
	for (size_t i = 0; !rc && i < n; i++)
		if ((*ret)[i].ours)
			(*ret)[(*ret_n)++] = (*ret)[i];
	return rc;
}

/* One that lacks a device would be given to the next tenant so. */
static int see_complete(struct rk_world *world, struct rk_step *step, int tray, struct rk_err *err)
{
	const char *lack, *name = rk_param(step, "tray");
	int rc = rk_tray_lacks(world, tray, step->arena, &lack, err);

	if (rc || !lack)
		return rc;
	rk_err_set(err, RK_FAILED, "tray %s has %s", name, lack);
	rk_err_hint(err, "racksh site discover %s says what is there; other hardware is taken on by racksh tray replace %s", name, name);
	return RK_FAILED;
}

/* ---- volumes without a domain ---------------------------------------------------------------------------------------------------------- */

/* The VM that a volume is named after; NULL: not named as ours are. */
static const char *vm_of_volume(struct rk_arena *arena, const char *volume)
{
	const char *const heads[] = { rk_vm_os_volume(arena, "*"), rk_vm_seed_volume(arena, "*") };

	for (size_t i = 0; i < RK_ARRAY_SIZE(heads); i++) {
		size_t before = strcspn(heads[i], "*"), after = strlen(heads[i] + before + 1), n = strlen(volume);
		if (n > before + after && strncmp(volume, heads[i], before) == 0 && strcmp(volume + n - after, heads[i] + before + 1) == 0)
			return rk_arena_strndup(arena, volume + before, n - before - after);
	}
	return NULL;
}

/* Made by an operation of this store for a VM that is not here any more. */
static int is_leftover(struct rk_world *world, struct rk_step *step, int tray, const char *volume, bool *ret, struct rk_err *err)
{
	const char *vm = vm_of_volume(step->arena, volume), *params = NULL;
	int holder = world->site->trays[tray].vm;

	*ret = false;
	if (!vm || (holder != RK_NONE && rk_streq(rk_vm_host_name(&world->site->vms[holder]), vm)))
		return 0;
	int rc = rk_store_step_params(world->store, "vm.volumes", vm, step->arena, &params, err);
	*ret = !rc && params;
	return rc;
}

/* A delete may have left them when it could not reach the tray, or its pool was gone. */
static int remove_leftovers(struct rk_world *world, struct rk_step *step, int tray, struct rk_err *err)
{
	const char **volumes = NULL;
	size_t n = 0;
	bool left;
	int rc = world->hv->ops->volume_list(world->hv, tray, world->site->pool, step->arena, &volumes, &n, err);

	for (size_t i = 0; !rc && i < n; i++) {
		rc = is_leftover(world, step, tray, volumes[i], &left, err);
		if (!rc && left)
			rc = world->hv->ops->volume_delete(world->hv, tray, world->site->pool, volumes[i], err);
	}
	return rc;
}

/* ---- steps ------------------------------------------------------------------------------------------------------------------------------ */

static int clean(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct rk_hv_domain *domains;
	size_t n;
	int tray, rc = our_domains(world, step, &tray, &domains, &n, err);

	for (size_t i = 0; !rc && i < n; i++)
		rc = remove_domain(world, step, tray, &domains[i], err);
	if (!rc)
		rc = remove_leftovers(world, step, tray, err);
	if (!rc)
		rc = world->hv->ops->scrub(world->hv, tray, err);
	return rc ? rc : see_complete(world, step, tray, err);
}

/* Every domain of ours but that of the VM the tray is for. Its drives are that VM's. */
static int evict(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct rk_hv_domain *domains;
	size_t n;
	int tray, rc = our_domains(world, step, &tray, &domains, &n, err);

	for (size_t i = 0; !rc && i < n; i++)
		if (!rk_streq(domains[i].name, name_of_guest(world, step, tray)))
			rc = remove_domain(world, step, tray, &domains[i], err);
	return rc;
}

static int see_empty(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct rk_hv_domain *domains;
	size_t n;
	int tray, rc = our_domains(world, step, &tray, &domains, &n, err);

	return rc || !n ? rc : rk_err_set(err, RK_FAILED, "tray %s still has the domain \"%s\"", rk_param(step, "tray"), domains[0].name);
}

/* ---- ib.clear. Params: tray, fabric -------------------------------------------------------------------------------------------------------- */

static bool is_member(const struct rk_ib_live *part, uint64_t guid)
{
	for (size_t i = 0; i < part->n_members; i++)
		if (part->members[i].guid == guid)
			return true;
	return false;
}

static int still_has(const struct rk_step *step, uint64_t guid, unsigned pkey, struct rk_err *err)
{
	rk_err_set(err, RK_CONFLICT, "port 0x%016" PRIx64 " of tray %s still has PKey %s/0x%04x", guid, rk_param(step, "tray"), rk_param(step, "fabric"), pkey & RK_PKEY_DEFAULT);
	rk_err_hint(err, "racksh drift says whose it is, racksh drift --fix takes it away");
	return RK_CONFLICT;
}

/* A key of the pool is a tenant's. */
static int see_table(const struct rk_fabric *f, const struct rk_step *step, const struct rk_ib_port *port, struct rk_err *err)
{
	if (!port->known && !port->down)
		return rk_err_set(err, RK_UNREACHABLE, "the PKey table of port 0x%016" PRIx64 " could not be read: %s", port->guid, port->why ? port->why : "no answer");
	for (size_t k = 0; k < port->n_pkeys; k++) {
		unsigned key = port->pkeys[k] & RK_PKEY_DEFAULT;
		if (key >= f->pkey_first && key <= f->pkey_last)
			return still_has(step, port->guid, key, err);
	}
	return 0;
}

/* Neither in a table nor by the configuration, which a port without a link gets when it comes up. */
static int see_no_key(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	const struct rk_site *site = world->site;
	int fabric = rk_find_fabric(site, rk_param(step, "fabric")), tray, rc = tray_at(world, step, &tray, err);
	uint64_t guids[RK_RAILS_MAX];
	struct rk_ib_port ports[RK_RAILS_MAX] = { 0 };
	struct rk_ib_live *parts = NULL;
	size_t n_parts = 0, n = 0;

	for (int h = 0; !rc && h < site->trays[tray].n_hcas; h++) {
		const struct rk_hca *hca = &site->hcas[site->trays[tray].first_hca + h];
		if (hca->fabric == fabric && hca->port_guid)
			guids[n++] = hca->port_guid;
	}
	if (!rc && fabric < 0)
		rc = rk_err_set(err, RK_NOT_FOUND, "no InfiniBand fabric \"%s\" in the store", rk_param(step, "fabric"));
	if (!rc)
		rc = world->ib->ops->list(world->ib, fabric, step->arena, &parts, &n_parts, err);
	for (size_t p = 0; !rc && p < n_parts; p++)
		for (size_t i = 0; !rc && parts[p].ours && i < n; i++)
			if (is_member(&parts[p], guids[i]))
				rc = still_has(step, guids[i], parts[p].pkey, err);
	if (!rc)
		rc = world->ib->ops->tables(world->ib, fabric, guids, n, step->arena, ports, err);
	for (size_t i = 0; !rc && i < n; i++)
		rc = see_table(&site->fabrics[fabric], step, &ports[i], err);
	return rc;
}

/* The snapshot follows: steps that stand on this one read it. */
static int return_settle(struct rk_world *world, struct rk_step *step, bool undone, struct rk_err *err)
{
	int tray, rc = undone ? 0 : rk_store_set_tray_faulty(world->store, rk_param(step, "tray"), NULL, err);

	if (!undone && !rc && !tray_at(world, step, &tray, err))
		world->site->trays[tray].faulty = NULL;
	return rc;
}

/* The tray stays as it is: faulty. */
static int clear_give_up(struct rk_world *world, struct rk_step *step, bool undone, const char *why, struct rk_err *err)
{
	(void)undone;
	step->note = rk_arena_printf(step->arena, "nobody knows whether the ports of %s have a PKey of fabric %s", rk_param(step, "tray"), rk_param(step, "fabric"));
	return rk_store_add_tray_fault(world->store, rk_param(step, "tray"), rk_arena_printf(step->arena, "nobody knows which PKeys its ports have: %s", why), err);
}

const struct rk_step_kind rk_return_steps[] = {
	{ .name = "tray.evict", .summary = "remove the domains that no cluster has, keep the tray's VM", .deadline_ms = 120000, .apply = evict },
	{ .name = "tray.clean", .summary = "remove what is left on the tray, erase its drives, see its devices reset", .deadline_ms = 600000, .apply = clean },
	{ .name = "ib.clear", .summary = "see that the tray's ports have no tenant's PKey", .deadline_ms = 60000, .apply = see_no_key, .give_up = clear_give_up },
	{ .name = "tray.return", .summary = "see the tray empty and put it back into service", .deadline_ms = 60000, .strict = true, .apply = see_empty, .settle = return_settle },
	{ .name = NULL },
};
