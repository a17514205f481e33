#include <inttypes.h>
#include <string.h>

#include "provision/cluster_impl.h"
#include "provision/service.h"
#include "provision/steps.h"

/* The way back from drift, as an operation: every difference that has one becomes steps of its own, which look again before they act. What racksh
 * made and no cluster has any more goes; what somebody else made is left to people. */

enum { GRACE_S = 120 };

struct fixer {
	struct rk_world *world;
	struct rk_arena *arena;
	struct rk_plan *plan;
	bool *clusters;           /* that are touched: leased */
	bool *trays;              /* that are emptied: out of service until they are erased */
	int *returns;             /* per tray that is emptied: the step after which it is free */
	struct rk_drift_left *left; size_t n_left;
};

/* NULL: the cluster is touched. One that an operation holds (its VMs are turned off and on under a lease alone) is not as it is to be yet. */
static const char *touch(struct fixer *x, int cluster)
{
	const struct rk_cluster *c = &x->world->site->clusters[cluster];

	if (c->op)
		return rk_arena_printf(x->arena, "operation %" PRId64 " holds cluster %s: racksh op show %" PRId64, c->op, c->name, c->op);
	bool held = false;
	if (rk_store_lease_held(x->world->store, rk_arena_printf(x->arena, "cluster:%s", c->name), &held, NULL) || held)
		return rk_arena_printf(x->arena, "an operation holds cluster %s: racksh op list", c->name);
	x->clusters[cluster] = true;
	return NULL;
}

/* ---- ways back. Each returns why there is none, or NULL ------------------------------------------------------------------------------------ */

/* Off or on, as the store wants it; a domain that is gone is defined again from what the store knows. */
static const char *fix_vm(struct fixer *x, const struct rk_drift *d)
{
	const struct rk_site *site = x->world->site;
	int vm = rk_find_vm(site, d->object), at = 0;

	const char *held = touch(x, site->vms[vm].cluster);
	if (held)
		return held;
	if (rk_streq(d->live, "absent"))
		at = rk_add_vm_step(x->plan, "vm.define", d->object, NULL, NULL, 0);
	if (rk_streq(d->wanted, "stopped")) {
		rk_add_halt(x->plan, d->object, GRACE_S, false, &at, at != 0);
		return NULL;
	}
	rk_add_boot(x->plan, site, vm, &at, at != 0, x->arena);
	return NULL;
}

/* The number of domains and their identity follow the domains. */
static const char *follows(struct fixer *x, const struct rk_drift *d)
{
	(void)x, (void)d;
	return NULL;
}

/* The layout of the cluster that owns a partition, with what its spec says of partitions. Returns why there is none. */
static const char *layout_for(struct fixer *x, int cluster, struct rk_layout *l)
{
	const struct rk_cluster *c = &x->world->site->clusters[cluster];
	const struct rk_size *size;
	struct rk_spec *spec;
	const char *held = touch(x, cluster);

	if (held)
		return held;
	rk_layout_of_cluster(x->world->site, c, x->arena, l);
	return rk_cluster_spec(c, l, &spec, &size, NULL) ? "the spec of its cluster is not known any more" : NULL;
}

static const char *fix_nvlink(struct fixer *x, const struct rk_drift *d)
{
	const struct rk_site *site = x->world->site;
	const char *why = "it is gone from the store";
	struct rk_layout l;

	for (size_t i = 0; i < site->n_nvl_partitions; i++) {
		const struct rk_nvl_partition *p = &site->nvl_partitions[i];
		if (!rk_streq(d->object, rk_arena_printf(x->arena, "%s/%d", site->racks[p->rack].name, p->id)))
			continue;
		why = layout_for(x, p->cluster, &l);
		if (!why)
			rk_add_nvl_step(x->plan, &l, "nvl.fix", p->rack, NULL, 0);
	}
	return why;
}

static const char *fix_infiniband(struct fixer *x, const struct rk_drift *d)
{
	const struct rk_site *site = x->world->site;
	const char *why = "it is gone from the store";
	struct rk_layout l;

	for (size_t i = 0; i < site->n_ib_partitions; i++) {
		const struct rk_ib_partition *p = &site->ib_partitions[i];
		if (!rk_streq(d->object, rk_arena_printf(x->arena, "%s/0x%04x", site->fabrics[p->fabric].name, p->pkey)))
			continue;
		why = layout_for(x, p->cluster, &l);
		if (!why)
			rk_add_ib_step(x->plan, &l, "ib.fix", NULL, 0);
	}
	for (size_t i = 0; i < site->n_ib_services; i++) {
		const struct rk_ib_service *s = &site->ib_services[i];
		if (!rk_streq(d->object, rk_arena_printf(x->arena, "%s/0x%04x", site->fabrics[s->fabric].name, s->pkey)))
			continue;
		rk_add_service_fix(x->plan, site, s, x->arena);
		why = NULL;
	}
	return why;
}

/* A tray that is nobody's is emptied as a whole and erased; beside a VM only the stray goes. */
static const char *evict(struct fixer *x, const struct rk_drift *d)
{
	const struct rk_site *site = x->world->site;
	const struct rk_tray *tray = &site->trays[d->place];
	const char *params = rk_arena_printf(x->arena, "{\"tray\":\"%s\"}", tray->name);

	bool held = false;
	if (rk_store_lease_held(x->world->store, rk_arena_printf(x->arena, "tray:%s", tray->name), &held, NULL) || held)
		return rk_arena_printf(x->arena, "an operation holds tray %s: racksh op list", tray->name);
	if (tray->vm != RK_NONE) {
		const char *why = touch(x, site->vms[tray->vm].cluster);
		if (!why)
			rk_plan_add(x->plan, "tray.evict", tray->name, NULL, params, NULL, 0);
		return why;
	}
	if (x->trays[d->place])
		return NULL;
	x->trays[d->place] = true;
	int at = rk_plan_add(x->plan, "tray.clean", tray->name, NULL, params, NULL, 0);
	x->returns[d->place] = rk_plan_add(x->plan, "tray.return", tray->name, NULL, params, &at, 1);
	return NULL;
}

/* Did racksh make it? Its journal says so, or it does not. Where the network gives ids it knows the planned one, which says nothing. */
static bool made_here(struct fixer *x, const struct rk_drift *d)
{
	bool made = false;
	int id = rk_nvl_gives_ids(x->world->site, d->place) ? RK_NONE : d->id;

	return d->name && rk_store_nvl_made(x->world->store, x->world->site->racks[d->place].name, id, d->name, &made, NULL) == 0 && made;
}

/* GPUs of trays that no VM has go home with it, after the tray was emptied. */
static const char *remove_nvlink(struct fixer *x, const struct rk_drift *d)
{
	const struct rk_site *site = x->world->site;
	const struct rk_rack *rack = &site->racks[d->place];
	struct rk_str params RK_CLEANUP_STR = RK_STR_INIT;
	int *deps = rk_arena_array(x->arena, (size_t)rack->n_trays, sizeof(*deps));
	size_t n = 0;
	struct rk_jw w;

	if (!d->remains && !made_here(x, d))
		return rk_arena_printf(x->arena, "NVLink partition \"%s\" was not made by this racksh", d->name ? d->name : "");
	rk_jw_init(&w, &params, 0);
	rk_jw_object(&w);
	rk_jw_key(&w, "rack");
	rk_jw_str(&w, rack->name);
	rk_jw_key(&w, "id");
	rk_jw_i64(&w, d->id);
	rk_jw_key(&w, "name");
	rk_jw_str(&w, d->name);
	rk_jw_key(&w, "gpus");
	rk_jw_array(&w);
	for (int t = rack->first_tray; t < rack->first_tray + rack->n_trays; t++) {
		for (int g = site->trays[t].first_gpu; site->trays[t].vm == RK_NONE && g < site->trays[t].first_gpu + site->trays[t].n_gpus; g++)
			rk_jw_hex64(&w, site->gpus[g].fabric_guid);
		if (x->returns[t])
			deps[n++] = x->returns[t];
	}
	rk_jw_end(&w);
	rk_jw_end(&w);
	rk_plan_add(x->plan, "nvl.remove", d->object, rk_arena_printf(x->arena, "nvlink:%s", rack->name), rk_str_text(&params), deps, n);
	return NULL;
}

static const char *remove_infiniband(struct fixer *x, const struct rk_drift *d)
{
	const char *fabric = x->world->site->fabrics[d->place].name;

	rk_plan_add(x->plan, "ib.remove", d->object, rk_arena_printf(x->arena, "ib:%s", fabric),
		    rk_arena_printf(x->arena, "{\"fabric\":\"%s\",\"pkey\":%d,\"remains\":%d}", fabric, d->id, d->remains), NULL, 0);
	return NULL;
}

/* ---- the plan ------------------------------------------------------------------------------------------------------------------------------ */

static const struct way {
	const char *plane, *field;
	bool stray;
	const char *(*back)(struct fixer *x, const struct rk_drift *d);
} ways[] = {
	{ "libvirt", "state", true, evict },             { "libvirt", "state", false, fix_vm },         { "libvirt", "uuid", false, follows },
	{ "nvlink", "gpus", false, fix_nvlink },         { "infiniband", "configured", false, fix_infiniband }, { "infiniband", "ports", false, fix_infiniband },
	{ "nvlink", "gpus", true, remove_nvlink },       { "infiniband", "configured", true, remove_infiniband }, { "inventory", "vms", false, follows },
};

/* One fix per object: "configured" and "ports" of a key are put right by the same step, and what is refused is said once. Where the network gives ids
 * one that was left behind may have the number of another one. */
static bool seen_before(const struct rk_drift *rows, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (rk_streq(rows[k].status, "drifted") && rk_streq(rows[k].plane, rows[i].plane) && rk_streq(rows[k].object, rows[i].object) &&
		    rk_streq(rows[k].name, rows[i].name) && !rows[k].refused == !rows[i].refused)
			return true;
	return false;
}

static void plan_way(struct fixer *x, const struct rk_drift *rows, size_t i, const struct way *way)
{
	const struct rk_drift *d = &rows[i];

	if (!rk_streq(d->status, "drifted") || !rk_streq(d->plane, way->plane) || !rk_streq(d->field, way->field) || d->stray != way->stray || seen_before(rows, i))
		return;
	const char *why = d->refused ? d->refused : way->back(x, d);
	/* By name: the snapshot is another one when the fix is over. */
	if (why)
		x->left[x->n_left++] = (struct rk_drift_left){ d->plane, rk_arena_strdup(x->arena, d->object), rk_arena_strdup(x->arena, why) };
}

/* Clusters are held; trays that are emptied are out of service until they were erased. */
static int hold(struct rk_world *world, const struct rk_change *change, int64_t op, struct rk_err *err)
{
	const struct fixer *x = change->data;
	/* What only removes partitions holds nothing else that tells other hosts that it lives. */
	int rc = rk_store_lease_take(world->store, rk_arena_printf(x->arena, "operation:%" PRId64, op), op, change->purpose, err);

	for (size_t t = 0; !rc && t < world->site->n_trays; t++) {
		const char *name = world->site->trays[t].name;
		if (!x->trays[t])
			continue;
		rc = rk_store_lease_take(world->store, rk_arena_printf(x->arena, "tray:%s", name), op, change->purpose, err);
		if (!rc)
			rc = rk_store_set_tray_faulty(world->store, name, "a domain that no cluster has is being removed", err);
	}
	for (size_t c = 0; !rc && c < world->site->n_clusters; c++) {
		char *thing RK_CLEANUP_FREE = rk_xasprintf("cluster:%s", world->site->clusters[c].name);
		if (x->clusters[c])
			rc = rk_store_lease_take(world->store, thing, op, change->purpose, err);
	}
	return rc;
}

static const char *command_of(const char *cluster, struct rk_arena *arena)
{
	return cluster ? rk_arena_printf(arena, "drift cluster %s --fix", cluster) : "drift --fix";
}

static int plan_fix(struct rk_world *world, const char *cluster, struct fixer *x, struct rk_arena *arena, struct rk_err *err)
{
	RK_CLEANUP_ERR struct rk_err why = RK_ERR_INIT;
	struct rk_drift *rows = NULL;
	size_t n = 0;
	int rc = rk_drift(world, cluster, arena, &rows, &n, &why);

	/* What could not be read cannot be put right, but does not stop the rest. */
	if (rc && rc != RK_UNHEALTHY && rc != RK_UNREACHABLE) {
		if (err)
			rk_err_move(err, &why);
		return rc;
	}
	const struct rk_site *site = world->site;
	*x = (struct fixer){
		.world = world, .arena = arena, .clusters = rk_arena_array(arena, site->n_clusters, sizeof(bool)),
		.trays = rk_arena_array(arena, site->n_trays, sizeof(bool)), .returns = rk_arena_array(arena, site->n_trays, sizeof(int)),
		.left = rk_arena_array(arena, n, sizeof(*x->left)),
	};
	x->plan = rk_plan_new(command_of(cluster, arena));
	for (size_t w = 0; w < RK_ARRAY_SIZE(ways); w++)
		for (size_t i = 0; i < n; i++)
			plan_way(x, rows, i, &ways[w]);
	return 0;
}

int rk_drift_fix_plan(struct rk_world *world, const char *cluster, struct rk_arena *arena, struct rk_plan **ret, struct rk_drift_left **ret_left, size_t *ret_n_left,
		      struct rk_err *err)
{
	struct fixer x;
	int rc = plan_fix(world, cluster, &x, arena, err);

	*ret_n_left = 0;
	if (rc)
		return rc;
	*ret = x.plan;
	*ret_left = x.left;
	*ret_n_left = x.n_left;
	return 0;
}

int rk_drift_fix(struct rk_world *world, const char *cluster, struct rk_arena *arena, int64_t *ret_op, struct rk_drift_left **ret_left, size_t *ret_n_left,
		 struct rk_err *err)
{
	RK_CLEANUP_ERR struct rk_err earlier = RK_ERR_INIT;
	struct fixer x;

	*ret_n_left = 0;
	/* One that its process left holds what it was about. Whatever became of it, what is now is looked at next. */
	int rc = rk_op_again(world, command_of(cluster, arena), NULL, ret_op, &earlier);
	if (rc == RK_CONFLICT || rc == RK_CANCELLED) {
		if (err)
			rk_err_move(err, &earlier);
		return rc;
	}
	rc = plan_fix(world, cluster, &x, arena, err);
	if (rc)
		return rc;
	*ret_left = x.left;
	*ret_n_left = x.n_left;
	const struct rk_change change = { .type = "drift.fix", .purpose = "drift --fix", .plan = x.plan, .params = "{\"type\":\"drift.fix\"}", .reserve = hold, .data = &x };
	if (rk_plan_count(x.plan))
		rc = rk_change_run(world, &change, ret_op, err);
	rk_plan_free(x.plan);
	return rc;
}
