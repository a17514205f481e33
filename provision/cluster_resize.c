#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "provision/cluster_impl.h"

/* More VMs, or fewer. The number asked for is that of all VMs, so that a repeated command has nothing left to do. */

struct resize {
	const struct rk_cluster *c;
	struct rk_layout l;
	struct rk_spec *spec;
	const struct rk_size *size;
	struct rk_placement placement;
	int count;
	int *new_ids;             /* partitions the cluster gets, per rack; 0: none */
};

/* ---- ends ---------------------------------------------------------------------------------------------------------------------------- */

static int each_vm(struct rk_world *world, const struct rk_jnode *params, struct rk_err *err)
{
	int rc = 0;

	RK_JEACH(it, rk_jget(params, "vms")) {
		if (!rc)
			rc = rk_store_remove_vm(world->store, rk_jstr(it), err);
	}
	return rc;
}

/* "partitions": [{rack}] that come with, or go with, the VMs. */
static int drop_partitions(struct rk_world *world, const struct rk_jnode *params, struct rk_err *err)
{
	int rc = 0;

	RK_JEACH(it, rk_jget(params, "partitions")) {
		if (!rc)
			rc = rk_store_remove_nvl_partition(world->store, rk_jstr(rk_jget(it, "rack")), rk_jstr(rk_jget(params, "cluster")), err);
	}
	return rc;
}

/* The spec says how many VMs there are now, the reasons where. */
static int write_count(struct rk_world *world, const struct rk_jnode *params, struct rk_err *err)
{
	const char *spec = rk_jstr(rk_jget(params, "spec"));

	const char *cluster = rk_jstr(rk_jget(params, "cluster"));
	uint64_t segment = 0;
	int rc = rk_store_set_cluster_spec(world->store, cluster, spec, rk_jstr(rk_jget(params, "reasons")), err);

	rk_ju64(rk_jget(params, "segment"), &segment);
	return rc || !segment ? rc : rk_store_set_cluster_segment(world->store, cluster, (int)segment, err);
}

static int settle_as(struct rk_world *world, int64_t op, const struct rk_jnode *params, int64_t holder, struct rk_err *err)
{
	return rk_cluster_settle(world, op, rk_jstr(rk_jget(params, "cluster")), rk_params_state(params), holder, err);
}

int rk_finish_grow(struct rk_world *world, int64_t op, const struct rk_jnode *params, enum rk_op_end end, struct rk_err *err)
{
	int rc;

	if (end == RK_OP_AWAITS)
		return settle_as(world, op, params, op, err);
	if (end == RK_OP_DONE) {
		rc = write_count(world, params, err);
		return rc ? rc : settle_as(world, op, params, 0, err);
	}
	rc = each_vm(world, params, err);
	if (!rc)
		rc = drop_partitions(world, params, err);
	return rc ? rc : rk_cluster_put_back(world, params, err);
}

int rk_finish_shrink(struct rk_world *world, int64_t op, const struct rk_jnode *params, enum rk_op_end end, struct rk_err *err)
{
	int rc = 0;

	if (end == RK_OP_AWAITS)
		return settle_as(world, op, params, op, err);
	if (end == RK_OP_DONE) {
		rc = each_vm(world, params, err);
		if (!rc)
			rc = drop_partitions(world, params, err);
		if (!rc)
			rc = write_count(world, params, err);
		return rc ? rc : settle_as(world, op, params, 0, err);
	}
	return rk_cluster_put_back(world, params, err);
}

/* ---- plans ---------------------------------------------------------------------------------------------------------------------------- */

static int existing(struct rk_world *world, const char *name, int count, struct rk_arena *arena, struct resize *z, struct rk_err *err)
{
	int at = rk_find_cluster(world->site, name);

	if (at < 0)
		return rk_err_set(err, RK_NOT_FOUND, "no cluster \"%s\"", name);
	*z = (struct resize){ .c = &world->site->clusters[at], .count = count };
	rk_layout_of_cluster(world->site, z->c, arena, &z->l);
	z->new_ids = rk_arena_array(arena, world->site->n_racks, sizeof(int));
	int rc = rk_cluster_spec(z->c, &z->l, &z->spec, &z->size, err);
	if (rc)
		return rc;
	z->spec->count = count;
	if (z->spec->placement.segment > count)
		z->spec->placement.segment = count;
	return 0;
}

static struct rk_plan *begin_plan(const struct resize *z, const char *verb)
{
	return rk_plan_new(rk_arena_printf(z->l.arena, "cluster %s %s %d", verb, z->l.cluster, z->count));
}

static void end_plan(const struct rk_world *world, struct rk_plan *plan)
{
	if (world->confirm_ms)
		rk_plan_add_confirm(plan, world->confirm_ms);
}

/* New trays first into the partitions, then the lists of those that were there: nobody is named who is not there yet. */
static struct rk_plan *grow_steps(const struct rk_world *world, const struct resize *z)
{
	const struct rk_layout *l = &z->l;
	struct rk_plan *plan = begin_plan(z, "grow");
	int *ids = rk_arena_array(l->arena, l->n + l->n_rest, sizeof(int));

	rk_add_build(plan, l, ids);
	size_t n = l->n + rk_add_imex(plan, l, true, ids, l->n, ids + l->n);
	rk_add_gate(plan, l, z->spec, ids, n);
	end_plan(world, plan);
	return plan;
}

static int add_ids(const struct rk_site *site, struct resize *z, struct rk_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < z->l.n; i++) {
		int rack = site->trays[z->l.members[i].tray].rack;
		if (z->l.nvl_ids[rack] || !site->profiles[site->racks[rack].profile].switch_trays)
			continue;
		rc = rk_store_free_nvl_id(site, rack, &z->new_ids[rack], err);
		z->l.nvl_ids[rack] = z->new_ids[rack];
		z->l.nvl_names[rack] = rk_free_nvl_name(site, rack, z->l.cluster, z->l.arena);
	}
	return rc;
}

static int grow_plan(struct rk_world *world, struct resize *z, struct rk_cluster_plan *ret, struct rk_err *err)
{
	struct rk_layout *l = &z->l;
	int *keep = rk_arena_array(l->arena, l->n, sizeof(*keep));

	for (size_t i = 0; i < l->n; i++)
		keep[i] = l->members[i].tray;
	int rc = rk_place(world->site, z->spec, z->size, keep, l->n, l->arena, &ret->placement, err);
	if (rc || !ret->placement.feasible)
		return rc;
	l->rest = l->members;
	l->n_rest = l->n;
	l->members = rk_name_members(world, l->cluster, z->c->next_number, ret->placement.trays, ret->placement.n_trays, l->arena);
	l->n = ret->placement.n_trays;
	rc = add_ids(world->site, z, err);
	if (rc)
		return rc;
	ret->plan = grow_steps(world, z);
	z->placement = ret->placement;
	rk_placement_addressed(l, z->spec, ret);
	return 0;
}

/* The lists first, so that nobody waits for those that go; what cannot be taken back comes when everything else is done (and confirmed). */
static struct rk_plan *shrink_steps(const struct rk_world *world, struct resize *z)
{
	const struct rk_layout *l = &z->l;
	struct rk_plan *plan = begin_plan(z, "shrink");
	int *ids = rk_arena_array(l->arena, l->n_rest, sizeof(int)), *parks = rk_arena_array(l->arena, l->n, sizeof(int));
	size_t n = rk_add_imex(plan, l, false, NULL, 0, ids);

	for (size_t i = 0; i < l->n; i++)
		parks[i] = rk_add_vm_step(plan, "vm.park", l->members[i].vm, NULL, ids, n);
	for (size_t r = 0; r < l->site->n_racks; r++) {
		if (!l->nvl_ids[r] || !rk_layout_in_rack(l->site, l->members, l->n, (int)r))
			continue;
		bool stays = rk_layout_in_rack(l->site, l->rest, l->n_rest, (int)r);
		z->new_ids[r] = stays ? 0 : l->nvl_ids[r];
		rk_add_nvl_step(plan, l, stays ? "nvl.leave" : "nvl.release", (int)r, parks, l->n);
	}
	if (l->fabric >= 0)
		rk_add_ib_step(plan, l, "ib.leave", parks, l->n);
	rk_add_service_steps(plan, l, "service.leave", parks, l->n, NULL);
	for (size_t i = 0; i < l->n; i++) {
		int at = rk_add_vm_step(plan, "vm.scrub", l->members[i].vm, NULL, &parks[i], 1);
		at = rk_add_vm_step(plan, "vm.undefine", l->members[i].vm, NULL, &at, 1);
		rk_add_vm_step(plan, "vm.erase", l->members[i].vm, NULL, &at, 1);
	}
	end_plan(world, plan);
	return plan;
}

/* The youngest numbers go. */
static void shrink_plan(struct rk_world *world, struct resize *z, struct rk_cluster_plan *ret)
{
	struct rk_layout *l = &z->l;

	l->rest = l->members;
	l->n_rest = (size_t)z->count;
	l->members += z->count;
	l->n -= (size_t)z->count;
	ret->placement = (struct rk_placement){ .feasible = true, .segment = z->c->segment < z->count ? z->c->segment : z->count };
	ret->plan = shrink_steps(world, z);
}

static int check_count(const struct resize *z, bool grow, struct rk_err *err)
{
	const char *verb = grow ? "grow" : "shrink", *other = grow ? "shrink" : "grow";

	if (z->count < 1) {
		rk_err_set(err, RK_INVALID, "a cluster has at least one VM");
		rk_err_hint(err, "racksh cluster delete %s", z->c->name);
		return RK_INVALID;
	}
	if (grow ? z->count >= z->c->n_vms : z->count <= z->c->n_vms)
		return 0;
	rk_err_set(err, RK_INVALID, "cannot %s cluster \"%s\" to %d: it has %d VMs", verb, z->c->name, z->count, z->c->n_vms);
	rk_err_hint(err, "the number is that of all VMs; racksh cluster %s %s %d", other, z->c->name, z->count);
	return RK_INVALID;
}

static int plan_resize(struct rk_world *world, const char *name, int count, bool grow, struct rk_arena *arena, struct resize *z, struct rk_cluster_plan *ret,
		       struct rk_err *err)
{
	int rc = existing(world, name, count, arena, z, err);

	*ret = (struct rk_cluster_plan){ .placement = { .feasible = true } };
	if (!rc)
		rc = check_count(z, grow, err);
	if (rc || z->count == z->c->n_vms)
		return rc;
	if (grow)
		return grow_plan(world, z, ret, err);
	shrink_plan(world, z, ret);
	return 0;
}

int rk_cluster_resize_plan(struct rk_world *world, const char *name, int count, bool grow, struct rk_arena *arena, struct rk_cluster_plan *ret,
			   struct rk_err *err)
{
	struct resize z;

	return plan_resize(world, name, count, grow, arena, &z, ret, err);
}

/* ---- doing it ------------------------------------------------------------------------------------------------------------------------- */

static int vms_after(const struct resize *z, bool grow, int rack)
{
	const struct rk_layout *l = &z->l;
	int n = 0;

	for (size_t i = 0; i < l->n_rest; i++)
		n += l->site->trays[l->rest[i].tray].rack == rack;
	for (size_t i = 0; grow && i < l->n; i++)
		n += l->site->trays[l->members[i].tray].rack == rack;
	return n;
}

static void reason_json(struct rk_jw *w, const char *rack, const char *verdict, const char *why)
{
	rk_jw_object(w);
	rk_jw_key(w, "rack");
	rk_jw_str(w, rack);
	rk_jw_key(w, "verdict");
	rk_jw_str(w, verdict);
	rk_jw_key(w, "why");
	rk_jw_str(w, why);
	rk_jw_end(w);
}

static const struct rk_jnode *said_of(const struct rk_jnode *reasons, const char *rack)
{
	RK_JEACH(it, reasons)
		if (rk_streq(rk_jstr(rk_jget(it, "rack")), rack))
			return it;
	return NULL;
}

static void reason_after(struct rk_jw *w, const struct resize *z, bool grow, int rack, const struct rk_jnode *old)
{
	const char *name = z->l.site->racks[rack].name;
	int n = vms_after(z, grow, rack);

	if (n)
		reason_json(w, name, "chosen", rk_arena_printf(z->l.arena, "%d of the cluster's VMs since it was resized", n));
	else if (grow)
		reason_json(w, name, z->placement.reasons[rack].verdict, z->placement.reasons[rack].why);
	else if (old && rk_streq(rk_jstr(rk_jget(old, "verdict")), "chosen"))
		reason_json(w, name, "possible", "none of the cluster's VMs since it was resized");
	else if (old)
		rk_jw_node(w, old);
}

/* True of where the VMs are afterwards, also in racks that came to the site since the cluster was made; of racks without any, what placement said
 * of them last. */
static const char *reasons_after(const struct resize *z, bool grow)
{
	const struct rk_site *site = z->l.site;
	const char *text = z->c->reasons ? z->c->reasons : "[]";
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	RK_CLEANUP_JSON struct rk_json *old = NULL;
	struct rk_jw w;

	if (rk_json_parse("reasons", text, strlen(text), &old, NULL))
		return NULL;
	rk_jw_init(&w, &out, 0);
	rk_jw_array(&w);
	for (size_t r = 0; r < site->n_racks; r++)
		reason_after(&w, z, grow, (int)r, said_of(rk_json_root(old), site->racks[r].name));
	rk_jw_end(&w);
	return rk_arena_strdup(z->l.arena, rk_str_text(&out));
}

/* VMs that share a domain: as the larger cluster was placed, and never more than there are. */
static int segment_after(const struct resize *z, bool grow)
{
	return grow ? z->placement.segment : z->c->segment < z->count ? z->c->segment : z->count;
}

static const char *params_of(const struct resize *z, const char *type)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT, spec RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_jw w;

	rk_spec_write(z->spec, &spec);
	rk_params_begin(&w, &out, type, z->l.cluster);
	rk_jw_key(&w, "count");
	rk_jw_i64(&w, z->count);
	rk_jw_key(&w, "segment");
	rk_jw_i64(&w, segment_after(z, rk_streq(type, "cluster.grow")));
	rk_jw_key(&w, "state");
	rk_jw_str(&w, rk_cluster_state_name(z->c->state));
	rk_jw_key(&w, "spec");
	rk_jw_str(&w, rk_str_text(&spec));
	rk_jw_key(&w, "reasons");
	rk_jw_str(&w, reasons_after(z, rk_streq(type, "cluster.grow")));
	rk_jw_key(&w, "vms");
	rk_jw_array(&w);
	for (size_t i = 0; i < z->l.n; i++)
		rk_jw_str(&w, z->l.members[i].vm);
	rk_jw_end(&w);
	rk_jw_key(&w, "partitions");
	rk_jw_array(&w);
	for (size_t r = 0; r < z->l.site->n_racks; r++) {
		if (!z->new_ids[r])
			continue;
		rk_jw_object(&w);
		rk_jw_key(&w, "rack");
		rk_jw_str(&w, z->l.site->racks[r].name);
		rk_jw_end(&w);
	}
	rk_jw_end(&w);
	return rk_params_end(&w, &out, z->l.arena);
}

static int hold(struct rk_world *world, const struct rk_change *change, int64_t op, struct rk_err *err)
{
	const struct resize *z = change->data;

	return rk_store_set_cluster_state(world->store, change->cluster, z->c->state, op, err);
}

static int reserve_more(struct rk_world *world, const struct rk_change *change, int64_t op, struct rk_err *err)
{
	const struct resize *z = change->data;
	const struct rk_layout *l = &z->l;
	int rc = hold(world, change, op, err);

	for (size_t i = 0; !rc && i < l->n; i++)
		rc = rk_reserve_vm(world, l, &l->members[i], 1, err);
	for (size_t r = 0; !rc && r < l->site->n_racks; r++)
		if (z->new_ids[r])
			rc = rk_store_add_nvl_partition(world->store, l->site->racks[r].name, z->new_ids[r], l->cluster, l->nvl_names[r], err);
	return rc;
}

static int idle_to_resize(struct rk_world *world, const char *name, int count, const char *type, int64_t *ret_op, struct rk_err *err)
{
	int at = rk_find_cluster(world->site, name);

	return at < 0 ? rk_err_set(err, RK_NOT_FOUND, "no cluster \"%s\"", name)
		      : rk_cluster_idle(world, &world->site->clusters[at], type, count, ret_op, err);
}

int rk_cluster_resize(struct rk_world *world, const char *name, int count, bool grow, int64_t *ret_op, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const char *type = grow ? "cluster.grow" : "cluster.shrink";
	struct rk_cluster_plan cp = { .plan = NULL };
	struct resize z;

	*ret_op = 0;
	int rc = idle_to_resize(world, name, count, type, ret_op, err);
	if (rc)
		return rc == 1 ? rk_cluster_outcome(world, name, err) : rc;
	rc = plan_resize(world, name, count, grow, arena, &z, &cp, err);
	if (!rc && !cp.placement.feasible)
		rc = rk_cluster_no_room(world, &cp.placement, z.spec, err);
	if (!rc)
		rc = rk_placement_readable(&cp.placement, err);
	if (!rc && cp.plan) {
		/* The snapshot is read anew before the operation ends. */
		z.l.cluster = rk_arena_strdup(arena, z.l.cluster);
		const struct rk_change change = { .type = type, .cluster = z.l.cluster, .purpose = grow ? "grow" : "shrink", .plan = cp.plan,
						  .params = params_of(&z, type), .reserve = grow ? reserve_more : hold, .data = &z };
		rc = rk_change_run(world, &change, ret_op, err);
	}
	rk_plan_free(cp.plan);
	return rc ? rc : rk_cluster_outcome(world, name, err);
}
