#include <string.h>

#include "provision/cluster_impl.h"

/* The way back from drift, as an operation: every difference that has one becomes steps of its own, which look again before they act. What the store
 * cannot want (partitions of others, a domain with another identity) is left to people. */

enum { GRACE_S = 120 };

struct fixer {
	struct rk_world *world;
	struct rk_arena *arena;
	struct rk_plan *plan;
	bool *clusters;           /* that are touched: leased */
	size_t skipped;
};

static bool is_drifted(const struct rk_drift *d, const char *plane, const char *field)
{
	return rk_streq(d->status, "drifted") && rk_streq(d->plane, plane) && rk_streq(d->field, field);
}

static void touch(struct fixer *x, int cluster)
{
	x->clusters[cluster] = true;
}

/* Off or on, as the store wants it; a domain that is gone is defined again from what the store knows. */
static bool fix_vm(struct fixer *x, const struct rk_drift *d)
{
	const struct rk_site *site = x->world->site;
	int vm = rk_find_vm(site, d->object), at = 0;

	if (vm < 0 || !d->live)
		return false;
	touch(x, site->vms[vm].cluster);
	if (rk_streq(d->wanted, "stopped")) {
		rk_add_halt(x->plan, d->object, GRACE_S, false, NULL, 0);
		return true;
	}
	if (rk_streq(d->live, "absent"))
		at = rk_add_vm_step(x->plan, "vm.define", d->object, NULL, NULL, 0);
	rk_add_boot(x->plan, site, vm, &at, at != 0, x->arena);
	return true;
}

/* The layout of the cluster that owns a partition, with what its spec says of partitions. */
static bool layout_for(struct fixer *x, int cluster, struct rk_layout *l)
{
	const struct rk_cluster *c = &x->world->site->clusters[cluster];
	const struct rk_size *size;
	struct rk_spec *spec;

	rk_layout_of_cluster(x->world->site, c, x->arena, l);
	touch(x, cluster);
	return rk_cluster_spec(c, l, &spec, &size, NULL) == 0;
}

static bool fix_nvlink(struct fixer *x, const struct rk_drift *d)
{
	const struct rk_site *site = x->world->site;
	struct rk_layout l;

	for (size_t i = 0; i < site->n_nvl_partitions; i++) {
		const struct rk_nvl_partition *p = &site->nvl_partitions[i];
		if (rk_streq(d->object, rk_arena_printf(x->arena, "%s/%d", site->racks[p->rack].name, p->id)) && layout_for(x, p->cluster, &l)) {
			rk_add_nvl_step(x->plan, &l, "nvl.fix", p->rack, NULL, 0);
			return true;
		}
	}
	return false;
}

static bool fix_infiniband(struct fixer *x, const struct rk_drift *d)
{
	const struct rk_site *site = x->world->site;
	struct rk_layout l;

	for (size_t i = 0; i < site->n_ib_partitions; i++) {
		const struct rk_ib_partition *p = &site->ib_partitions[i];
		if (rk_streq(d->object, rk_arena_printf(x->arena, "%s/0x%04x", site->fabrics[p->fabric].name, p->pkey)) && layout_for(x, p->cluster, &l)) {
			rk_add_ib_step(x->plan, &l, "ib.fix", NULL, 0);
			return true;
		}
	}
	return false;
}

/* One fix per object: "configured" and "ports" of a key are put right by the same step. */
static bool seen_before(const struct rk_drift *rows, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (rk_streq(rows[k].status, "drifted") && rk_streq(rows[k].plane, rows[i].plane) && rk_streq(rows[k].object, rows[i].object) &&
		    !rk_streq(rows[k].field, "uuid"))
			return true;
	return false;
}

static void plan_row(struct fixer *x, const struct rk_drift *rows, size_t i)
{
	static const struct {
		const char *plane, *field;
		bool (*fix)(struct fixer *x, const struct rk_drift *d);
	} ways[] = { { "libvirt", "state", fix_vm }, { "nvlink", "gpus", fix_nvlink }, { "infiniband", "configured", fix_infiniband }, { "infiniband", "ports", fix_infiniband } };

	for (size_t w = 0; w < RK_ARRAY_SIZE(ways); w++)
		if (is_drifted(&rows[i], ways[w].plane, ways[w].field)) {
			if (!seen_before(rows, i) && !ways[w].fix(x, &rows[i]))
				x->skipped++;
			return;
		}
	/* The number of domains of a cluster follows its VMs. */
	x->skipped += rk_streq(rows[i].status, "drifted") && !rk_streq(rows[i].plane, "inventory");
}

static int lease_clusters(struct rk_world *world, const struct rk_change *change, int64_t op, struct rk_err *err)
{
	const struct fixer *x = change->data;
	int rc = 0;

	for (size_t c = 0; !rc && c < world->site->n_clusters; c++) {
		char *thing RK_CLEANUP_FREE = rk_xasprintf("cluster:%s", world->site->clusters[c].name);
		if (x->clusters[c])
			rc = rk_store_lease_take(world->store, thing, op, change->purpose, err);
	}
	return rc;
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
	*x = (struct fixer){ .world = world, .arena = arena, .clusters = rk_arena_array(arena, world->site->n_clusters, sizeof(bool)) };
	x->plan = rk_plan_new(cluster ? rk_arena_printf(arena, "drift cluster %s --fix", cluster) : "drift --fix");
	for (size_t i = 0; i < n; i++)
		plan_row(x, rows, i);
	return 0;
}

int rk_drift_fix_plan(struct rk_world *world, const char *cluster, struct rk_arena *arena, struct rk_plan **ret, size_t *ret_skipped, struct rk_err *err)
{
	struct fixer x;
	int rc = plan_fix(world, cluster, &x, arena, err);

	if (rc)
		return rc;
	*ret = x.plan;
	*ret_skipped = x.skipped;
	return 0;
}

int rk_drift_fix(struct rk_world *world, const char *cluster, int64_t *ret_op, size_t *ret_skipped, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct fixer x;
	int rc = plan_fix(world, cluster, &x, arena, err);

	*ret_op = 0;
	*ret_skipped = rc ? 0 : x.skipped;
	if (rc)
		return rc;
	const struct rk_change change = { .type = "drift.fix", .purpose = "drift --fix", .plan = x.plan, .params = "{\"type\":\"drift.fix\"}", .reserve = lease_clusters, .data = &x };
	if (rk_plan_count(x.plan))
		rc = rk_change_run(world, &change, ret_op, err);
	rk_plan_free(x.plan);
	return rc;
}
