#include "provision/cluster.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provision/ssh.h"

enum { CREATE_TRIES = 5, SSH_PORT_USER = 2222, SSH_PORT = 22 };

/* ---- what an operation means for the store ---------------------------------------------------------------------------------- */

static int drop_cluster(struct rk_world *world, const char *name, struct rk_err *err)
{
	int rc = rk_store_remove_cluster(world->store, name, err);

	/* Recovery may run twice: gone is gone. */
	if (rc == RK_NOT_FOUND) {
		rk_err_clear(err);
		return 0;
	}
	return rc;
}

static int finish_create(struct rk_world *world, int64_t op, const struct rk_jnode *params, bool committed, struct rk_err *err)
{
	const char *name = rk_jstr(rk_jget(params, "cluster"));

	(void)op;
	return committed ? rk_store_set_cluster_state(world->store, name, RK_CLUSTER_READY, 0, err) : drop_cluster(world, name, err);
}

static int finish_delete(struct rk_world *world, int64_t op, const struct rk_jnode *params, bool committed, struct rk_err *err)
{
	(void)op;
	return committed ? drop_cluster(world, rk_jstr(rk_jget(params, "cluster")), err) : 0;
}

static const struct rk_op_type op_types[] = {
	{ "cluster.create", false, finish_create },
	{ "cluster.delete", true, finish_delete },
};

const struct rk_op_type *rk_op_type_find(const char *name)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(op_types); i++)
		if (strcmp(op_types[i].name, name) == 0)
			return &op_types[i];
	return NULL;
}

static char *op_params(const char *type, const char *cluster)
{
	struct rk_str out = RK_STR_INIT;
	struct rk_jw w;

	rk_jw_init(&w, &out, 0);
	rk_jw_object(&w);
	rk_jw_key(&w, "type");
	rk_jw_str(&w, type);
	rk_jw_key(&w, "cluster");
	rk_jw_str(&w, cluster);
	rk_jw_end(&w);
	return rk_str_steal(&out);
}

/* ---- the steps of a cluster ---------------------------------------------------------------------------------------------------- */

/* One VM of a plan. */
struct member {
	const char *vm;
	int tray;
};

struct layout {                  /* what the steps are made from: a planned or an existing cluster */
	const struct rk_site *site;
	struct rk_arena *arena;
	const char *cluster;
	const struct member *members;
	size_t n;
	const char *resiliency;
	int multicast;
	int fabric;
	uint16_t pkey;
	bool full;
	const int *nvl_ids;      /* per rack of the site; 0 = the cluster is not there */
};

static char *vm_params(const char *vm)
{
	struct rk_str out = RK_STR_INIT;
	struct rk_jw w;

	rk_jw_init(&w, &out, 0);
	rk_jw_object(&w);
	rk_jw_key(&w, "vm");
	rk_jw_str(&w, vm);
	rk_jw_end(&w);
	return rk_str_steal(&out);
}

static char *nvl_params(const struct layout *l, int rack)
{
	struct rk_str out = RK_STR_INIT;
	struct rk_jw w;

	rk_jw_init(&w, &out, 0);
	rk_jw_object(&w);
	rk_jw_key(&w, "rack");
	rk_jw_str(&w, l->site->racks[rack].name);
	rk_jw_key(&w, "id");
	rk_jw_i64(&w, l->nvl_ids[rack]);
	rk_jw_key(&w, "name");
	rk_jw_str(&w, l->cluster);
	rk_jw_key(&w, "resiliency");
	rk_jw_str(&w, l->resiliency);
	rk_jw_key(&w, "multicast");
	rk_jw_i64(&w, l->multicast);
	rk_jw_key(&w, "gpus");
	rk_jw_array(&w);
	for (size_t i = 0; i < l->n; i++) {
		const struct rk_tray *t = &l->site->trays[l->members[i].tray];
		for (int g = 0; t->rack == rack && g < t->n_gpus; g++)
			rk_jw_hex64(&w, l->site->gpus[t->first_gpu + g].fabric_guid);
	}
	rk_jw_end(&w);
	rk_jw_end(&w);
	return rk_str_steal(&out);
}

static char *ib_params(const struct layout *l)
{
	struct rk_str out = RK_STR_INIT;
	struct rk_jw w;

	rk_jw_init(&w, &out, 0);
	rk_jw_object(&w);
	rk_jw_key(&w, "fabric");
	rk_jw_str(&w, l->site->fabrics[l->fabric].name);
	rk_jw_key(&w, "pkey");
	rk_jw_i64(&w, l->pkey);
	rk_jw_key(&w, "name");
	rk_jw_str(&w, l->cluster);
	rk_jw_key(&w, "full");
	rk_jw_i64(&w, l->full);
	rk_jw_key(&w, "members");
	rk_jw_array(&w);
	for (size_t i = 0; i < l->n; i++) {
		const struct rk_tray *t = &l->site->trays[l->members[i].tray];
		for (int h = 0; h < t->n_hcas; h++)
			if (l->site->hcas[t->first_hca + h].fabric == l->fabric)
				rk_jw_hex64(&w, l->site->hcas[t->first_hca + h].port_guid);
	}
	rk_jw_end(&w);
	rk_jw_end(&w);
	return rk_str_steal(&out);
}

static int add_vm_step(struct rk_plan *plan, const char *kind, const char *vm, const int *deps, size_t n_deps)
{
	char *params RK_CLEANUP_FREE = vm_params(vm);

	return rk_plan_add(plan, kind, vm, NULL, params, deps, n_deps);
}

static int add_nvl_step(struct rk_plan *plan, const struct layout *l, const char *kind, int rack, const int *deps, size_t n_deps)
{
	char *params RK_CLEANUP_FREE = nvl_params(l, rack);
	const char *name = l->site->racks[rack].name;

	return rk_plan_add(plan, kind, rk_arena_printf(l->arena, "%s/%d", name, l->nvl_ids[rack]), rk_arena_printf(l->arena, "nvlink:%s", name), params,
			   deps, n_deps);
}

static int add_ib_step(struct rk_plan *plan, const struct layout *l, const char *kind, const int *deps, size_t n_deps)
{
	char *params RK_CLEANUP_FREE = ib_params(l);
	const char *name = l->site->fabrics[l->fabric].name;

	return rk_plan_add(plan, kind, rk_arena_printf(l->arena, "%s/0x%04x", name, l->pkey), rk_arena_printf(l->arena, "ib:%s", name), params, deps,
			   n_deps);
}

/* preflight -> NVLink per rack -> PKey -> volumes -> define -> start -> ssh (DESIGN section 5): both partitions before any guest driver. */
static struct rk_plan *plan_create(const struct layout *l)
{
	struct rk_plan *plan = rk_plan_new(rk_arena_printf(l->arena, "cluster create %s", l->cluster));
	int *checks = rk_arena_array(l->arena, l->n, sizeof(int));
	int *fabric = rk_arena_array(l->arena, l->site->n_racks + 1, sizeof(int));
	size_t n_fabric = 0;

	for (size_t i = 0; i < l->n; i++)
		checks[i] = add_vm_step(plan, "vm.preflight", l->members[i].vm, NULL, 0);
	for (size_t r = 0; r < l->site->n_racks; r++)
		if (l->nvl_ids[r])
			fabric[n_fabric++] = add_nvl_step(plan, l, "nvl.partition", (int)r, checks, l->n);
	if (l->fabric >= 0)
		fabric[n_fabric++] = add_ib_step(plan, l, "ib.partition", checks, l->n);
	for (size_t i = 0; i < l->n; i++) {
		int at = add_vm_step(plan, "vm.volumes", l->members[i].vm, &checks[i], 1);
		int *deps = rk_arena_array(l->arena, n_fabric + 1, sizeof(int));
		at = add_vm_step(plan, "vm.define", l->members[i].vm, &at, 1);
		memcpy(deps, fabric, n_fabric * sizeof(int));
		deps[n_fabric] = at;
		at = add_vm_step(plan, "vm.start", l->members[i].vm, deps, n_fabric + 1);
		add_vm_step(plan, "vm.ssh", l->members[i].vm, &at, 1);
	}
	return plan;
}

/* The reverse: nothing is released before every guest was seen dead. */
static struct rk_plan *plan_delete(const struct layout *l)
{
	struct rk_plan *plan = rk_plan_new(rk_arena_printf(l->arena, "cluster delete %s", l->cluster));
	int *stops = rk_arena_array(l->arena, l->n, sizeof(int));

	for (size_t i = 0; i < l->n; i++)
		stops[i] = add_vm_step(plan, "vm.stop", l->members[i].vm, NULL, 0);
	for (size_t i = 0; i < l->n; i++) {
		int at = add_vm_step(plan, "vm.undefine", l->members[i].vm, &stops[i], 1);
		add_vm_step(plan, "vm.erase", l->members[i].vm, &at, 1);
	}
	if (l->fabric >= 0)
		add_ib_step(plan, l, "ib.release", stops, l->n);
	for (size_t r = 0; r < l->site->n_racks; r++)
		if (l->nvl_ids[r])
			add_nvl_step(plan, l, "nvl.release", (int)r, stops, l->n);
	return plan;
}

/* ---- planning -------------------------------------------------------------------------------------------------------------------- */

static int check_spec(const struct rk_site *site, const struct rk_spec *spec, const struct rk_size **ret_size, struct rk_err *err)
{
	*ret_size = rk_size_find(site, spec->size);
	if (!*ret_size) {
		rk_err_set(err, RK_NOT_FOUND, "no size \"%s\"", spec->size);
		rk_err_hint(err, "racksh size list");
		return RK_NOT_FOUND;
	}
	if (rk_find_image(site, spec->image) < 0) {
		rk_err_set(err, RK_NOT_FOUND, "no image \"%s\"", spec->image);
		rk_err_hint(err, "racksh image list");
		return RK_NOT_FOUND;
	}
	return 0;
}

/* Ids for a new cluster: one partition per rack it touches, one PKey. */
static int choose_ids(const struct rk_site *site, const struct rk_spec *spec, const struct rk_placement *p, struct layout *l, struct rk_err *err)
{
	int *ids = rk_arena_array(l->arena, site->n_racks, sizeof(*ids)), rc = 0;

	for (size_t i = 0; i < p->n_trays && !rc; i++) {
		int rack = site->trays[p->trays[i]].rack;
		if (!ids[rack] && site->profiles[site->racks[rack].profile].switch_trays)
			rc = rk_store_free_nvl_id(site, rack, &ids[rack], err);
	}
	l->nvl_ids = ids;
	l->fabric = site->n_fabrics ? site->hcas[site->trays[p->trays[0]].first_hca].fabric : RK_NONE;
	l->pkey = (uint16_t)spec->infiniband.pkey;
	if (!rc && l->fabric >= 0 && !l->pkey)
		rc = rk_store_free_pkey(site, l->fabric, &l->pkey, err);
	return rc;
}

static struct member *name_members(struct rk_arena *arena, const char *cluster, int first_number, const int *trays, size_t n)
{
	struct member *members = rk_arena_array(arena, n, sizeof(*members));

	for (size_t i = 0; i < n; i++)
		members[i] = (struct member){ rk_arena_printf(arena, "%s-%02d", cluster, first_number + (int)i), trays[i] };
	return members;
}

/* Trays taken as lost are marked offline in a copy of the trays. */
static int lose(struct rk_world *world, const char *what_if, struct rk_arena *arena, struct rk_site *copy, struct rk_err *err)
{
	const char *selection = rk_starts_with(what_if, "lose=") ? what_if + strlen("lose=") : NULL;
	int *lost;
	size_t n;

	if (!selection) {
		rk_err_set(err, RK_INVALID, "unknown supposition \"%s\"", what_if);
		rk_err_hint(err, "--what-if lose=SEL, e.g. lose=r03 or lose=r01-t[01-04]");
		return RK_INVALID;
	}
	int rc = rk_select_racks(world->site, selection, NULL, arena, &lost, &n, err);
	bool racks = rc == 0;

	if (rc == RK_NOT_FOUND) {
		rk_err_clear(err);
		rc = rk_select_trays(world->site, selection, NULL, arena, &lost, &n, err);
	}
	if (rc)
		return rc;
	*copy = *world->site;
	copy->trays = rk_arena_array(arena, copy->n_trays, sizeof(*copy->trays));
	memcpy(copy->trays, world->site->trays, copy->n_trays * sizeof(*copy->trays));
	for (size_t i = 0; i < n; i++) {
		int first = racks ? copy->racks[lost[i]].first_tray : lost[i];
		int count = racks ? copy->racks[lost[i]].n_trays : 1;
		for (int t = first; t < first + count; t++)
			copy->trays[t].offline = "taken as lost";
	}
	return 0;
}

static void layout_of_spec(struct layout *l, const struct rk_site *site, const struct rk_spec *spec, const struct rk_placement *p, struct rk_arena *arena)
{
	*l = (struct layout){
		.site = site,
		.arena = arena,
		.cluster = spec->name,
		.members = name_members(arena, spec->name, 1, p->trays, p->n_trays),
		.n = p->n_trays,
		.resiliency = spec->nvlink.resiliency,
		.multicast = spec->nvlink.multicast_groups,
		.full = spec->infiniband.full,
	};
}

static int plan_with_layout(struct rk_world *world, const struct rk_spec *spec, const char *what_if, struct rk_arena *arena, struct rk_cluster_plan *ret,
			    struct layout *l, struct rk_err *err)
{
	const struct rk_size *size;
	struct rk_site copy;
	const struct rk_site *site = world->site;
	int rc = check_spec(site, spec, &size, err);

	ret->plan = NULL;
	if (!rc && what_if)
		rc = lose(world, what_if, arena, &copy, err);
	if (what_if)
		site = &copy;
	if (!rc)
		rc = rk_place(site, spec, size, NULL, 0, arena, &ret->placement, err);
	if (rc || !ret->placement.feasible)
		return rc;
	layout_of_spec(l, world->site, spec, &ret->placement, arena);
	rc = choose_ids(world->site, spec, &ret->placement, l, err);
	if (!rc)
		ret->plan = plan_create(l);
	return rc;
}

int rk_cluster_plan(struct rk_world *world, const struct rk_spec *spec, const char *what_if, struct rk_arena *arena, struct rk_cluster_plan *ret,
		    struct rk_err *err)
{
	struct layout l;

	return plan_with_layout(world, spec, what_if, arena, ret, &l, err);
}

/* ---- create ------------------------------------------------------------------------------------------------------------------------ */

static const char *reasons_json(struct rk_world *world, const struct rk_placement *p, struct rk_arena *arena)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_jw w;

	rk_jw_init(&w, &out, 0);
	rk_jw_array(&w);
	for (size_t i = 0; i < p->n_reasons; i++) {
		rk_jw_object(&w);
		rk_jw_key(&w, "rack");
		rk_jw_str(&w, world->site->racks[p->reasons[i].rack].name);
		rk_jw_key(&w, "verdict");
		rk_jw_str(&w, p->reasons[i].verdict);
		rk_jw_key(&w, "why");
		rk_jw_str(&w, p->reasons[i].why);
		rk_jw_end(&w);
	}
	rk_jw_end(&w);
	return rk_arena_strdup(arena, rk_str_text(&out));
}

static int reserve_vm(struct rk_world *world, const struct rk_spec *spec, const struct layout *l, size_t i, int64_t op, struct rk_err *err)
{
	const struct rk_site *site = l->site;
	const struct rk_tray *t = &site->trays[l->members[i].tray];
	uint64_t gpus[RK_GPUS_MAX], ports[RK_RAILS_MAX];
	char *private_key RK_CLEANUP_FREE = NULL, *public_key RK_CLEANUP_FREE = NULL;
	const char *vm = l->members[i].vm, *uuid = rk_vm_uuid(l->arena, site->name, spec->name, rk_arena_printf(l->arena, "%s/%" PRId64, vm, op), 1);
	struct rk_new_vm row = {
		.name = vm, .cluster = spec->name, .tray = t->name, .uuid = uuid, .mac = rk_vm_mac(l->arena, uuid), .number = (int)i + 1,
		.ssh_port = site->network.user ? SSH_PORT_USER : SSH_PORT, .generation = 1, .gpu_guids = gpus, .n_gpu_guids = (size_t)t->n_gpus,
		.port_guids = ports, .n_port_guids = (size_t)t->n_hcas,
	};

	for (int g = 0; g < t->n_gpus; g++)
		gpus[g] = site->gpus[t->first_gpu + g].fabric_guid;
	for (int h = 0; h < t->n_hcas; h++)
		ports[h] = site->hcas[t->first_hca + h].port_guid;
	int rc = rk_ssh_make_key(vm, &private_key, &public_key, err);
	if (!rc)
		rc = rk_store_free_address(site, i, l->arena, &row.address, err);
	if (rc)
		return rc;
	row.host_key_private = private_key;
	row.host_key_public = public_key;
	rc = rk_store_add_vm(world->store, &row, err);
	explicit_bzero(private_key, strlen(private_key));
	return rc;
}

/* Everything the cluster will own, in the caller's transaction: constraints of the store refuse what somebody else took meanwhile. */
static int reserve(struct rk_world *world, const struct rk_spec *spec, const struct rk_cluster_plan *cp, const struct layout *l, int64_t op,
		   struct rk_err *err)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	const struct rk_site *site = l->site;

	rk_spec_write(spec, &text);
	const struct rk_new_cluster row = {
		.name = spec->name, .tenant = spec->tenant, .size = spec->size, .image = spec->image, .spec = rk_str_text(&text),
		.reasons = reasons_json(world, &cp->placement, l->arena), .segment = cp->placement.segment,
		.spares_per_rack = spec->placement.spares_per_rack, .op = op,
	};
	int rc = rk_store_add_cluster(world->store, &row, err);
	for (size_t i = 0; !rc && i < l->n; i++)
		rc = reserve_vm(world, spec, l, i, op, err);
	for (size_t r = 0; !rc && r < site->n_racks; r++)
		if (l->nvl_ids[r])
			rc = rk_store_add_nvl_partition(world->store, site->racks[r].name, l->nvl_ids[r], spec->name, spec->name, err);
	if (!rc && l->fabric >= 0)
		rc = rk_store_add_ib_partition(world->store, site->fabrics[l->fabric].name, l->pkey, spec->name, spec->name, l->full, err);
	return rc ? rc : rk_store_set_cluster_state(world->store, spec->name, RK_CLUSTER_BUILDING, op, err);
}

static int journal_create(struct rk_world *world, const struct rk_spec *spec, const struct rk_cluster_plan *cp, const struct layout *l, int64_t *ret_op,
			  struct rk_err *err)
{
	char *params RK_CLEANUP_FREE = op_params("cluster.create", spec->name);
	int rc = rk_store_begin(world->store, world->site->revision, err);

	if (rc)
		return rc;
	rc = rk_op_journal(world, cp->plan, params, ret_op, err);
	if (!rc)
		rc = reserve(world, spec, cp, l, *ret_op, err);
	if (!rc)
		rc = rk_store_lease_take(world->store, rk_arena_printf(l->arena, "cluster:%s", spec->name), *ret_op, "create", err);
	if (rc) {
		rk_store_rollback(world->store);
		return rc;
	}
	return rk_store_commit(world->store, err);
}

static int no_room(const struct rk_world *world, const struct rk_placement *p, const struct rk_spec *spec, struct rk_err *err)
{
	rk_place_refused(spec, p, err);
	for (size_t i = 0; i < p->n_reasons; i++)
		rk_err_detail(err, "%s: %s", world->site->racks[p->reasons[i].rack].name, p->reasons[i].why);
	return RK_NO_CAPACITY;
}

/* A cluster of this name is there: 1 = nothing to do, 0 is not returned. */
static int converge(struct rk_world *world, const struct rk_spec *spec, const struct rk_cluster *c, int64_t *ret_op, struct rk_err *err)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	rk_spec_write(spec, &text);
	*ret_op = c->op;
	if (!rk_streq(rk_str_text(&text), c->spec)) {
		rk_err_set(err, RK_CONFLICT, "cluster \"%s\" exists with another specification", c->name);
		rk_err_hint(err, "racksh cluster show %s; grow, shrink or delete it", c->name);
		return RK_CONFLICT;
	}
	if (c->state == RK_CLUSTER_BUILDING && c->op) {
		int rc = rk_op_resume(world, c->op, err);
		return rc ? rc : 1;
	}
	if (c->state != RK_CLUSTER_READY)
		return rk_err_set(err, RK_CONFLICT, "cluster \"%s\" is %s", c->name, rk_cluster_state_name(c->state));
	return 1;
}

int rk_cluster_create(struct rk_world *world, const struct rk_spec *spec, int64_t *ret_op, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_cluster_plan cp = { .plan = NULL };
	struct layout l;
	int rc = RK_CONFLICT;

	*ret_op = 0;
	int there = rk_find_cluster(world->site, spec->name);
	if (there >= 0) {
		rc = converge(world, spec, &world->site->clusters[there], ret_op, err);
		return rc == 1 ? 0 : rc;
	}
	/* Somebody else may take what was planned between plan and commit: plan again on what is there now. */
	for (int tries = 0; rc == RK_CONFLICT && tries < CREATE_TRIES; tries++) {
		rk_err_clear(err);
		rc = tries ? rk_world_refresh(world, err) : 0;
		if (!rc)
			rc = plan_with_layout(world, spec, NULL, arena, &cp, &l, err);
		if (!rc && !cp.placement.feasible)
			rc = no_room(world, &cp.placement, spec, err);
		if (!rc && cp.placement.warning) {
			rc = rk_err_set(err, RK_INVALID, "%s on the trays chosen", cp.placement.warning);
			rk_err_hint(err, "racksh site discover, or write them into the site file");
		}
		if (!rc)
			rc = journal_create(world, spec, &cp, &l, ret_op, err);
		rk_plan_free(cp.plan);
		cp.plan = NULL;
	}
	if (!rc)
		rc = rk_world_refresh(world, err);
	if (!rc)
		rc = rk_world_drivers(world, err);
	return rc ? rc : rk_op_run(world, *ret_op, err);
}

/* ---- delete ------------------------------------------------------------------------------------------------------------------------ */

static int layout_of_cluster(const struct rk_site *site, const struct rk_cluster *c, struct rk_arena *arena, struct layout *l)
{
	struct member *members = rk_arena_array(arena, (size_t)c->n_vms, sizeof(*members));
	int *ids = rk_arena_array(arena, site->n_racks, sizeof(*ids));

	for (int i = 0; i < c->n_vms; i++)
		members[i] = (struct member){ site->vms[c->first_vm + i].name, site->vms[c->first_vm + i].tray };
	for (int i = c->first_nvl; i < c->first_nvl + c->n_nvl; i++)
		ids[site->nvl_partitions[i].rack] = site->nvl_partitions[i].id;
	*l = (struct layout){ .site = site, .arena = arena, .cluster = c->name, .members = members, .n = (size_t)c->n_vms, .fabric = RK_NONE, .nvl_ids = ids };
	if (c->ib >= 0) {
		l->fabric = site->ib_partitions[c->ib].fabric;
		l->pkey = site->ib_partitions[c->ib].pkey;
		l->full = site->ib_partitions[c->ib].full;
	}
	return 0;
}

static int journal_delete(struct rk_world *world, const struct rk_plan *plan, const char *name, int64_t *ret_op, struct rk_err *err)
{
	char *params RK_CLEANUP_FREE = op_params("cluster.delete", name), *thing RK_CLEANUP_FREE = rk_xasprintf("cluster:%s", name);
	int rc = rk_store_begin(world->store, world->site->revision, err);

	if (rc)
		return rc;
	rc = rk_op_journal(world, plan, params, ret_op, err);
	if (!rc)
		rc = rk_store_lease_take(world->store, thing, *ret_op, "delete", err);
	if (!rc)
		rc = rk_store_set_cluster_state(world->store, name, RK_CLUSTER_DELETING, *ret_op, err);
	if (rc) {
		rk_store_rollback(world->store);
		return rc;
	}
	return rk_store_commit(world->store, err);
}

int rk_cluster_delete(struct rk_world *world, const char *name, int64_t *ret_op, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	int at = rk_find_cluster(world->site, name);
	struct layout l;

	*ret_op = 0;
	if (at < 0)
		return rk_err_set(err, RK_NOT_FOUND, "no cluster \"%s\"", name);
	const struct rk_cluster *c = &world->site->clusters[at];
	if (c->op) {
		*ret_op = c->op;
		if (c->state == RK_CLUSTER_DELETING)
			return rk_op_resume(world, c->op, err);
		rk_err_set(err, RK_CONFLICT, "cluster \"%s\" is held by operation %" PRId64, name, c->op);
		rk_err_hint(err, "racksh op show %" PRId64 "; resume it or roll it back first", c->op);
		return RK_CONFLICT;
	}
	layout_of_cluster(world->site, c, arena, &l);
	struct rk_plan *plan = plan_delete(&l);
	int rc = journal_delete(world, plan, name, ret_op, err);
	rk_plan_free(plan);
	if (!rc)
		rc = rk_world_refresh(world, err);
	if (!rc)
		rc = rk_world_drivers(world, err);
	return rc ? rc : rk_op_run(world, *ret_op, err);
}
