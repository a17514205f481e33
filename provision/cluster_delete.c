#include <string.h>

#include "provision/cluster_impl.h"

/* On its own there is only forward; as a part of a bundle it is taken back when another part fails. */
int rk_finish_delete(struct rk_world *world, int64_t op, const struct rk_jnode *params, enum rk_op_end end, struct rk_err *err)
{
	int rc = 0;

	(void)op;
	if (end == RK_OP_UNDONE)
		return rk_cluster_put_back(world, params, err);
	if (end == RK_OP_DONE)
		rc = rk_store_remove_cluster(world->store, rk_jstr(rk_jget(params, "cluster")), err);
	if (rc == RK_NOT_FOUND)
		rk_err_clear(err);
	return rc == RK_NOT_FOUND ? 0 : rc;
}

/* The reverse of a create: nothing is released before every guest was seen dead. */
static struct rk_plan *plan_delete(const struct rk_layout *l)
{
	struct rk_plan *plan = rk_plan_new(rk_arena_printf(l->arena, "cluster delete %s", l->cluster));
	int *stops = rk_arena_array(l->arena, l->n, sizeof(int));

	for (size_t i = 0; i < l->n; i++)
		stops[i] = rk_add_vm_step(plan, "vm.stop", l->members[i].vm, NULL, NULL, 0);
	for (size_t i = 0; i < l->n; i++) {
		int at = rk_add_vm_step(plan, "vm.scrub", l->members[i].vm, NULL, &stops[i], 1);
		at = rk_add_vm_step(plan, "vm.undefine", l->members[i].vm, NULL, &at, 1);
		rk_add_vm_step(plan, "vm.erase", l->members[i].vm, NULL, &at, 1);
	}
	if (l->fabric >= 0)
		rk_add_ib_step(plan, l, "ib.release", stops, l->n);
	rk_add_service_steps(plan, l, "service.leave", stops, l->n, NULL);
	for (size_t r = 0; r < l->site->n_racks; r++)
		if (l->nvl_ids[r])
			rk_add_nvl_step(plan, l, "nvl.release", (int)r, stops, l->n);
	return plan;
}

static int mark_deleting(struct rk_world *world, const struct rk_change *change, int64_t op, struct rk_err *err)
{
	return rk_store_set_cluster_state(world->store, change->cluster, RK_CLUSTER_DELETING, op, err);
}

int rk_cluster_delete_plan(struct rk_world *world, const char *name, struct rk_arena *arena, struct rk_plan **ret, struct rk_err *err)
{
	int at = rk_find_cluster(world->site, name);
	struct rk_layout l;

	if (at < 0)
		return rk_err_set(err, RK_NOT_FOUND, "no cluster \"%s\"", name);
	rk_layout_of_cluster(world->site, &world->site->clusters[at], arena, &l);
	*ret = plan_delete(&l);
	return 0;
}

int rk_cluster_delete(struct rk_world *world, const char *name, int64_t *ret_op, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_plan *plan = NULL;
	struct rk_jw w;
	int rc = rk_cluster_delete_plan(world, name, arena, &plan, err);

	*ret_op = 0;
	if (rc)
		return rc;
	const struct rk_cluster *c = &world->site->clusters[rk_find_cluster(world->site, name)];
	if (c->op) {
		rk_plan_free(plan);
		*ret_op = c->op;
		return c->state == RK_CLUSTER_DELETING ? rk_op_resume(world, c->op, err) : rk_cluster_held(world, c, err);
	}
	rk_params_begin(&w, &text, "cluster.delete", c->name);
	rk_jw_key(&w, "state");
	rk_jw_str(&w, rk_cluster_state_name(c->state));
	const struct rk_change change = { .type = "cluster.delete", .cluster = rk_arena_strdup(arena, c->name), .purpose = "delete", .plan = plan,
					  .params = rk_params_end(&w, &text, arena), .reserve = mark_deleting };
	rc = rk_change_run(world, &change, ret_op, err);
	rk_plan_free(plan);
	return rc;
}
