#include <inttypes.h>
#include <string.h>

#include "provision/cluster_impl.h"

enum { CREATE_TRIES = 20, SSH_PORT_USER = 2222, SSH_PORT = 22 };

/* ---- what all changes of clusters need ---------------------------------------------------------------------------------------------- */

void rk_vm_row_on(const struct rk_site *site, int tray, struct rk_vm_row *ret)
{
	const struct rk_tray *t = &site->trays[tray];

	*ret = (struct rk_vm_row){ .vm = { .tray = t->name, .generation = 1, .n_gpu_guids = (size_t)t->n_gpus, .n_port_guids = (size_t)t->n_hcas } };
	ret->vm.ssh_port = rk_network_is_user(&site->network) ? SSH_PORT_USER : SSH_PORT;
	ret->vm.gpu_guids = ret->gpus;
	ret->vm.port_guids = ret->ports;
	for (int g = 0; g < t->n_gpus; g++)
		ret->gpus[g] = site->gpus[t->first_gpu + g].fabric_guid;
	for (int h = 0; h < t->n_hcas; h++)
		ret->ports[h] = site->hcas[t->first_hca + h].port_guid;
}

int rk_free_uuid(struct rk_world *world, const char *cluster, const char *vm, int generation, struct rk_arena *arena, const char **ret, struct rk_err *err)
{
	bool held = true;
	int rc = 0;

	for (size_t nth = 0; !rc && held; nth++) {
		*ret = rk_vm_new_uuid(arena, world->site, cluster, vm, generation, nth);
		rc = rk_store_lease_held(world->store, rk_arena_printf(arena, "uuid:%s", *ret), &held, err);
	}
	return rc;
}

int rk_reserve_vm(struct rk_world *world, const struct rk_layout *l, const struct rk_member *m, int generation, struct rk_err *err)
{
	char *private_key RK_CLEANUP_FREE = NULL, *public_key RK_CLEANUP_FREE = NULL;
	struct rk_vm_row row;

	rk_vm_row_on(l->site, m->tray, &row);
	row.vm.name = m->vm;
	row.vm.cluster = l->cluster;
	row.vm.number = m->number;
	row.vm.generation = generation;
	row.vm.address = m->address;
	int rc = rk_free_uuid(world, l->cluster, m->vm, generation, l->arena, &row.vm.uuid, err);
	if (!rc)
		row.vm.mac = rk_vm_mac(l->arena, row.vm.uuid);
	if (!rc && !m->address)
		rc = rk_store_free_address(l->site, l->n, l->arena, &row.vm.address, err);
	if (!rc)
		rc = rk_ssh_make_key(m->vm, &private_key, &public_key, err);
	if (rc)
		return rc;
	row.vm.host_key_private = private_key;
	row.vm.host_key_public = public_key;
	rc = generation > 1 ? rk_store_move_vm(world->store, &row.vm, err) : rk_store_add_vm(world->store, &row.vm, err);
	explicit_bzero(private_key, strlen(private_key));
	return rc;
}

int rk_cluster_spec(const struct rk_cluster *c, struct rk_layout *l, struct rk_spec **ret, const struct rk_size **ret_size, struct rk_err *err)
{
	int rc = rk_spec_parse(c->name, c->spec, strlen(c->spec), l->arena, ret, err);

	if (rc)
		return rc;
	l->resiliency = (*ret)->nvlink.resiliency;
	l->multicast = (*ret)->nvlink.multicast_groups;
	*ret_size = rk_size_find(l->site, c->size);
	return *ret_size ? 0 : rk_err_set(err, RK_NOT_FOUND, "the size \"%s\" of cluster \"%s\" is not known any more", c->size, c->name);
}

int rk_cluster_held(struct rk_world *world, const struct rk_cluster *c, struct rk_err *err)
{
	char *what RK_CLEANUP_FREE = rk_xasprintf("cluster \"%s\"", c->name);

	return c->op ? rk_op_holds(world, what, c->op, err) : 0;
}

static bool same_change(const struct rk_op_row *row, const char *type, int count)
{
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	uint64_t wanted = 0;

	if (rk_json_parse("operation", row->params, strlen(row->params), &json, NULL))
		return false;
	rk_ju64(rk_jget(rk_json_root(json), "count"), &wanted);
	return rk_streq(rk_jstr(rk_jget(rk_json_root(json), "type")), type) && (count < 0 || (uint64_t)count == wanted);
}

/* 0 idle, 1 the same change is under way (*ret_row), else RK_CONFLICT. */
static int who_holds(struct rk_world *world, const struct rk_cluster *c, const char *type, int count, struct rk_arena *arena, struct rk_op_row *ret_row,
		     struct rk_err *err)
{
	if (!c->op && (c->state == RK_CLUSTER_READY || c->state == RK_CLUSTER_DEGRADED))
		return 0;
	if (!c->op)
		return rk_err_set(err, RK_CONFLICT, "cluster \"%s\" is %s", c->name, rk_cluster_state_name(c->state));
	int rc = rk_store_op_get(world->store, c->op, arena, ret_row, err);
	if (rc)
		return rc;
	if (same_change(ret_row, type, count))
		return 1;
	return rk_cluster_held(world, c, err);
}

int rk_cluster_idle(struct rk_world *world, const struct rk_cluster *c, const char *type, int count, int64_t *ret_op, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_op_row row;
	int64_t op = c->op;
	int rc = who_holds(world, c, type, count, arena, &row, err);

	if (rc != 1)
		return rc;
	*ret_op = op;
	/* Done and waiting to be confirmed: there is nothing to add to it. */
	rc = rk_streq(row.state, "awaiting-confirm") ? 0 : rk_op_resume(world, op, err);
	return rc ? rc : 1;
}

static int gate_verdict(struct rk_world *world, int64_t op, const char *cluster, bool *ret_had, bool *ret_passed, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_step_row *steps;
	size_t n;
	int rc = rk_store_step_list(world->store, op, arena, &steps, &n, err);

	*ret_had = false;
	*ret_passed = true;
	for (size_t i = 0; !rc && i < n; i++)
		if (strcmp(steps[i].kind, "fabric.gate") == 0 && rk_streq(steps[i].target, cluster)) {
			const char *verdict = steps[i].detail ? steps[i].detail : "unknown";
			*ret_had = true;
			*ret_passed = rk_starts_with(verdict, "pass") || rk_starts_with(verdict, "warn") || rk_starts_with(verdict, "skipped");
		}
	return rc;
}

int rk_cluster_settle(struct rk_world *world, int64_t op, const char *cluster, enum rk_cluster_state else_state, int64_t holder, struct rk_err *err)
{
	bool had, passed;
	int rc = gate_verdict(world, op, cluster, &had, &passed, err);
	enum rk_cluster_state state = !had ? else_state : passed ? RK_CLUSTER_READY : RK_CLUSTER_DEGRADED;

	return rc ? rc : rk_store_set_cluster_state(world->store, cluster, state, holder, err);
}

enum rk_cluster_state rk_params_state(const struct rk_jnode *params)
{
	const char *name = rk_jstr(rk_jget(params, "state"));

	for (int state = RK_CLUSTER_PLANNED; state <= RK_CLUSTER_FAILED; state++)
		if (rk_streq(rk_cluster_state_name((enum rk_cluster_state)state), name))
			return (enum rk_cluster_state)state;
	return RK_CLUSTER_READY;
}

int rk_cluster_put_back(struct rk_world *world, const struct rk_jnode *params, struct rk_err *err)
{
	return rk_store_set_cluster_state(world->store, rk_jstr(rk_jget(params, "cluster")), rk_params_state(params), 0, err);
}

int rk_cluster_outcome(struct rk_world *world, const char *cluster, struct rk_err *err)
{
	int at = rk_find_cluster(world->site, cluster);

	if (at < 0 || world->site->clusters[at].state != RK_CLUSTER_DEGRADED)
		return 0;
	rk_err_set(err, RK_UNHEALTHY, "cluster \"%s\" is there but degraded: the validation its spec requires did not pass", cluster);
	rk_err_hint(err, "racksh validate cluster %s", cluster);
	return RK_UNHEALTHY;
}

/* ---- create ------------------------------------------------------------------------------------------------------------------------- */

int rk_finish_create(struct rk_world *world, int64_t op, const struct rk_jnode *params, enum rk_op_end end, struct rk_err *err)
{
	const char *name = rk_jstr(rk_jget(params, "cluster"));

	if (end != RK_OP_UNDONE)
		return rk_cluster_settle(world, op, name, RK_CLUSTER_READY, end == RK_OP_AWAITS ? op : 0, err);
	int rc = rk_store_remove_cluster(world->store, name, err);
	/* Recovery may run twice: gone is gone. */
	if (rc == RK_NOT_FOUND)
		rk_err_clear(err);
	return rc == RK_NOT_FOUND ? 0 : rc;
}

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

struct new_cluster {
	const struct rk_spec *spec;
	const struct rk_cluster_plan *cp;
	const struct rk_layout *l;
};

/* Everything the cluster will own: constraints of the store refuse what somebody else took meanwhile. */
static int reserve(struct rk_world *world, const struct rk_change *change, int64_t op, struct rk_err *err)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	const struct new_cluster *nc = change->data;
	const struct rk_spec *spec = nc->spec;
	const struct rk_layout *l = nc->l;

	rk_spec_write(spec, &text);
	const struct rk_new_cluster row = {
		.name = spec->name, .tenant = spec->tenant, .size = spec->size, .image = spec->image, .spec = rk_str_text(&text),
		.reasons = reasons_json(world, &nc->cp->placement, l->arena), .segment = nc->cp->placement.segment,
		.spares_per_rack = spec->placement.spares_per_rack, .op = op,
	};
	int rc = rk_store_add_cluster(world->store, &row, err);
	for (size_t i = 0; !rc && i < l->n; i++)
		rc = rk_reserve_vm(world, l, &l->members[i], 1, err);
	for (size_t r = 0; !rc && r < l->site->n_racks; r++)
		if (l->nvl_ids[r])
			rc = rk_store_add_nvl_partition(world->store, l->site->racks[r].name, l->nvl_ids[r], spec->name, l->nvl_names[r], err);
	if (!rc && l->fabric >= 0)
		rc = rk_store_add_ib_partition(world->store, l->site->fabrics[l->fabric].name, l->pkey, spec->name, spec->name, l->full, err);
	return rc ? rc : rk_store_set_cluster_state(world->store, spec->name, RK_CLUSTER_BUILDING, op, err);
}

static int run_create(struct rk_world *world, const struct rk_spec *spec, const struct rk_cluster_plan *cp, const struct rk_layout *l, int64_t *ret_op,
		      struct rk_err *err)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	const struct new_cluster nc = { spec, cp, l };
	struct rk_jw w;

	rk_params_begin(&w, &text, "cluster.create", spec->name);
	const struct rk_change change = {
		.type = "cluster.create", .cluster = spec->name, .purpose = "create", .plan = cp->plan, .params = rk_params_end(&w, &text, l->arena),
		.reserve = reserve, .data = &nc,
	};
	return rk_change_run(world, &change, ret_op, err);
}

static int same_spec(const struct rk_spec *spec, const struct rk_cluster *c, struct rk_err *err)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	rk_spec_write(spec, &text);
	if (rk_streq(rk_str_text(&text), c->spec))
		return 0;
	rk_err_set(err, RK_CONFLICT, "cluster \"%s\" exists with another specification", c->name);
	rk_err_hint(err, "racksh cluster show %s; grow, shrink or delete it", c->name);
	return RK_CONFLICT;
}

/* A cluster of this name is there. */
static int converge(struct rk_world *world, const struct rk_spec *spec, const struct rk_cluster *c, int64_t *ret_op, struct rk_err *err)
{
	*ret_op = c->op;
	int rc = same_spec(spec, c, err);
	if (!rc)
		rc = rk_cluster_idle(world, c, "cluster.create", -1, ret_op, err);
	return rc && rc != 1 ? rc : rk_cluster_outcome(world, spec->name, err);
}

int rk_cluster_create_look(struct rk_world *world, const struct rk_spec *spec, bool *ret_there, int64_t *ret_op, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	int at = rk_find_cluster(world->site, spec->name);
	struct rk_op_row row;

	*ret_there = at >= 0;
	*ret_op = 0;
	if (at < 0)
		return 0;
	const struct rk_cluster *c = &world->site->clusters[at];
	int rc = same_spec(spec, c, err);
	if (!rc)
		rc = who_holds(world, c, "cluster.create", -1, arena, &row, err);
	if (rc == 1 && !rk_streq(row.state, "awaiting-confirm"))
		*ret_op = c->op;
	if (*ret_op)
		return 0;
	return rc && rc != 1 ? rc : rk_cluster_outcome(world, spec->name, err);
}

int rk_cluster_create(struct rk_world *world, const struct rk_spec *spec, int64_t *ret_op, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_cluster_plan cp = { .plan = NULL };
	struct rk_layout l;
	int rc = RK_CONFLICT;

	*ret_op = 0;
	/* Somebody else may take what was planned between plan and commit, or make the same cluster: plan again on what is there now. */
	for (int tries = 0; rc == RK_CONFLICT && !*ret_op && tries < CREATE_TRIES; tries++) {
		rk_err_clear(err);
		rc = tries ? rk_world_refresh(world, err) : 0;
		int there = rk_find_cluster(world->site, spec->name);
		if (!rc && there >= 0)
			return converge(world, spec, &world->site->clusters[there], ret_op, err);
		if (!rc)
			rc = rk_cluster_plan_layout(world, spec, NULL, arena, &cp, &l, err);
		if (!rc && !cp.placement.feasible)
			rc = rk_cluster_no_room(world, &cp.placement, spec, err);
		if (!rc)
			rc = rk_placement_readable(&cp.placement, err);
		if (!rc)
			rc = run_create(world, spec, &cp, &l, ret_op, err);
		rk_plan_free(cp.plan);
		cp.plan = NULL;
	}
	return rc ? rc : rk_cluster_outcome(world, spec->name, err);
}
