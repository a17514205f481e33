#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "provision/bundle.h"
#include "provision/cluster_impl.h"
#include "provision/ssh.h"
#include "provision/steps.h"

/* A VM on a bad tray moves to a free one of the same rack: the new tray joins both partitions and boots, the members' IMEX lists name it instead
 * of the old one, and only then the old tray is drained, expelled from the partitions and kept out of service with the reason. */

struct repair {
	const struct rk_cluster *c;
	struct rk_layout l;               /* members: the VMs on their new trays; rest: all others, and the old trays while they are there */
	struct rk_spec *spec;
	const struct rk_size *size;
	const struct rk_member *survivors; size_t n_survivors;
	const int *old_vms;               /* indexes of the moving VMs, in member order */
	const char **reasons;
};

/* ---- which ---------------------------------------------------------------------------------------------------------------------------- */

/* Why a VM has to move, or NULL. */
static const char *bad_because(const struct rk_site *site, const struct rk_vm *vm)
{
	const char *mark = rk_tray_mark(&site->trays[vm->tray]);

	return mark ? mark : vm->state == RK_VM_FAILED ? "the VM failed" : NULL;
}

/* The trays of the VMs that nothing else is known of are looked at: a GPU may have gone since. A host that does not answer says nothing. */
struct look {
	struct rk_world *world;
	const struct rk_cluster *c;
	char **lacks;                     /* per VM; NULL: nothing is missing */
};

static void look_at(void *ctx, size_t i)
{
	struct look *look = ctx;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	const struct rk_vm *vm = &look->world->site->vms[look->c->first_vm + (int)i];
	const char *lack = NULL;

	if (!bad_because(look->world->site, vm) && !rk_tray_lacks(look->world, vm->tray, arena, &lack, &err) && lack)
		look->lacks[i] = rk_xasprintf("the tray has %s", lack);
}

/* The same by what was heard before the store was locked. All trays, so that what is not known yet is asked at once. */
static int heard_of_trays(struct rk_world *world, const struct rk_cluster *c, struct rk_arena *arena, const char **ret, struct rk_err *err)
{
	const struct rk_site *site = world->site;
	int rc = 0;

	for (int i = 0; i < c->n_vms; i++) {
		const struct rk_vm *vm = &site->vms[c->first_vm + i];
		const char *lack = NULL;
		if (bad_because(site, vm))
			continue;
		int known = rk_heard_lack(rk_bundle_heard(world->bundle), site->trays[vm->tray].name, arena, &lack, err);
		rc = rc ? rc : known;
		ret[i] = lack ? rk_arena_printf(arena, "the tray has %s", lack) : NULL;
	}
	return rc;
}

/* *ret: per VM of the cluster why its tray is not whole, or NULL. */
static int look_at_trays(struct rk_world *world, const struct rk_cluster *c, struct rk_arena *arena, const char ***ret, struct rk_err *err)
{
	size_t n = (size_t)c->n_vms;
	char **lacks RK_CLEANUP_FREE = rk_xcalloc(n + 1, sizeof(*lacks));
	struct look look = { world, c, lacks };
	*ret = rk_arena_array(arena, n, sizeof(**ret));
	if (world->bundle)
		return heard_of_trays(world, c, arena, *ret, err);
	int rc = rk_world_drivers(world, err);
	if (rc)
		return rc;
	rk_fanout(n, world->jobs, look_at, &look);
	for (size_t i = 0; i < n; i++) {
		(*ret)[i] = lacks[i] ? rk_arena_strdup(arena, lacks[i]) : NULL;
		free(lacks[i]);
	}
	return 0;
}

/* The mark that a repair leaves on the tray a VM was moved from. */
static const char *moved_mark(struct rk_arena *arena, const char *vm, const char *why)
{
	return rk_arena_printf(arena, "%s was moved away: %s", vm, why);
}

/* Asked for by name and moved before: its old tray still says so, and nothing is wrong with the new one. */
static bool moved_already(const struct rk_site *site, const struct rk_vm *vm, struct rk_arena *arena)
{
	const struct rk_rack *rack = &site->racks[site->trays[vm->tray].rack];
	const char *mark = moved_mark(arena, vm->name, "");

	for (int t = rack->first_tray; vm->generation > 1 && t < rack->first_tray + rack->n_trays; t++)
		if (site->trays[t].faulty && rk_starts_with(site->trays[t].faulty, mark))
			return true;
	return false;
}

static int pick_named(struct rk_world *world, const struct rk_cluster *c, const char *const *names, size_t n, struct repair *p, size_t *ret_n, struct rk_err *err)
{
	const struct rk_site *site = world->site;
	int *vms = rk_arena_array(p->l.arena, (size_t)c->n_vms, sizeof(*vms));
	bool *wanted = rk_arena_array(p->l.arena, site->n_vms, sizeof(*wanted));

	for (size_t i = 0; i < n; i++) {
		int *found;
		size_t n_found;
		int rc = rk_select_vms(site, names[i], NULL, p->l.arena, &found, &n_found, err);
		for (size_t k = 0; !rc && k < n_found; k++) {
			if (site->vms[found[k]].cluster != (int)(c - site->clusters))
				rc = rk_err_set(err, RK_INVALID, "VM \"%s\" is not of cluster \"%s\"", site->vms[found[k]].name, c->name);
			wanted[found[k]] = true;
		}
		if (rc)
			return rc;
	}
	const char **lacks = NULL;
	int rc = n ? 0 : look_at_trays(world, c, p->l.arena, &lacks, err);
	if (rc)
		return rc;
	for (int v = c->first_vm; v < c->first_vm + c->n_vms; v++) {
		const char *why = bad_because(site, &site->vms[v]);
		if (!why && lacks)
			why = lacks[v - c->first_vm];
		bool move = n ? wanted[v] && (why || !moved_already(site, &site->vms[v], p->l.arena)) : why != NULL;
		if (!move)
			continue;
		p->reasons[*ret_n] = why ? why : "asked for by name";
		vms[(*ret_n)++] = v;
	}
	p->old_vms = vms;
	return 0;
}

/* ---- where to ---------------------------------------------------------------------------------------------------------------------------- */

/* Does it have what the VM needs, on the fabric that the VM is on? */
static bool suits(const struct repair *p, const struct rk_vm *vm, int tray)
{
	return rk_tray_complete(p->l.site, tray, rk_tray_fabric(p->l.site, vm->tray), p->size->hcas, p->size->gpus);
}

static bool is_free(const struct rk_site *site, int tray)
{
	enum rk_tray_state state = rk_tray_state(site, tray);

	return state == RK_TRAY_FREE || state == RK_TRAY_SPARE;
}

static void name_trays(const char *what, const char **names, size_t n, struct rk_arena *arena, struct rk_err *err)
{
	if (n)
		rk_err_detail(err, "%zu %s: %s", n, what, rk_nodeset_fold(arena, names, n));
}

static void count_trays(const struct repair *p, const struct rk_vm *vm, int rack, struct rk_err *err)
{
	const struct rk_site *site = p->l.site;
	static const enum rk_tray_state states[] = { RK_TRAY_ALLOCATED, RK_TRAY_CORDONED, RK_TRAY_FAULTY, RK_TRAY_OFFLINE };
	const struct rk_rack *r = &site->racks[rack];
	const char **names = rk_arena_array(p->l.arena, (size_t)r->n_trays, sizeof(*names));
	size_t unfit = 0;

	for (size_t s = 0; s < RK_ARRAY_SIZE(states); s++) {
		size_t n = 0;
		for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++)
			if (rk_tray_state(site, t) == states[s])
				names[n++] = site->trays[t].name;
		name_trays(rk_tray_state_name(states[s]), names, n, p->l.arena, err);
	}
	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++)
		if (is_free(site, t) && !suits(p, vm, t))
			names[unfit++] = site->trays[t].name;
	name_trays("not rail-complete", names, unfit, p->l.arena, err);
}

static int no_spare(const struct repair *p, const struct rk_vm *vm, int rack, size_t missing, struct rk_err *err)
{
	const struct rk_site *site = p->l.site;

	rk_err_set(err, RK_NO_CAPACITY, "no free healthy tray in rack %s for VM \"%s\", and a VM cannot leave its NVLink domain", site->racks[rack].name, vm->name);
	count_trays(p, vm, rack, err);
	rk_err_hint(err, "%zu free tray%s would be needed in rack %s: uncordon or repair one, or shrink a cluster there", missing, missing == 1 ? "" : "s",
		    site->racks[rack].name);
	return RK_NO_CAPACITY;
}

static int free_tray(const struct repair *p, const struct rk_vm *vm, int rack, const bool *taken)
{
	const struct rk_rack *r = &p->l.site->racks[rack];

	for (int t = r->first_tray; t < r->first_tray + r->n_trays && !r->cordon; t++)
		if (!taken[t] && is_free(p->l.site, t) && suits(p, vm, t))
			return t;
	return RK_NONE;
}

static size_t moving_from(const struct rk_site *site, const struct repair *p, size_t n, int rack, size_t first)
{
	size_t count = 0;

	for (size_t i = first; i < n; i++)
		count += site->trays[site->vms[p->old_vms[i]].tray].rack == rack;
	return count;
}

static int find_spares(struct rk_world *world, struct repair *p, size_t n, struct rk_err *err)
{
	const struct rk_site *site = world->site;
	struct rk_member *members = rk_arena_array(p->l.arena, n, sizeof(*members));
	bool *taken = rk_arena_array(p->l.arena, site->n_trays, sizeof(*taken));
	size_t nth = 0;

	for (size_t i = 0; i < n; i++) {
		const struct rk_vm *vm = &site->vms[p->old_vms[i]];
		int rack = site->trays[vm->tray].rack, tray = free_tray(p, vm, rack, taken);
		if (tray == RK_NONE)
			return no_spare(p, vm, rack, moving_from(site, p, n, rack, i), err);
		taken[tray] = true;
		members[i] = (struct rk_member){ .vm = vm->name, .tray = tray, .number = vm->number };
		members[i].address = rk_next_address(world, &nth, p->l.arena);
	}
	p->l.members = members;
	p->l.n = n;
	return 0;
}

static bool moves(const struct repair *p, size_t n, int vm)
{
	for (size_t i = 0; i < n; i++)
		if (p->old_vms[i] == vm)
			return true;
	return false;
}

/* Survivors first, then the old bodies of those that move: they hold their GPUs and ports until they are expelled. */
static void split_members(const struct rk_site *site, struct repair *p, size_t n)
{
	struct rk_member *rest = rk_arena_array(p->l.arena, (size_t)p->c->n_vms, sizeof(*rest));

	for (int i = 0; i < p->c->n_vms; i++)
		if (!moves(p, n, p->c->first_vm + i))
			rest[p->n_survivors++] = p->l.members[i];
	for (size_t i = 0; i < n; i++)
		rest[p->n_survivors + i] = (struct rk_member){ .vm = site->vms[p->old_vms[i]].name, .tray = site->vms[p->old_vms[i]].tray, .off = true };
	p->survivors = p->l.rest = rest;
	p->l.n_rest = p->n_survivors + n;
}

/* ---- steps -------------------------------------------------------------------------------------------------------------------------------- */

static void add_drain(struct rk_plan *plan, const struct repair *p, size_t i)
{
	struct rk_str params RK_CLEANUP_STR = RK_STR_INIT;
	const struct rk_vm *vm = &p->l.site->vms[p->old_vms[i]];
	const struct rk_member old = { .vm = vm->name, .tray = vm->tray };
	const char *tray = p->l.site->trays[vm->tray].name;
	struct rk_layout l = p->l;
	struct rk_jw w;
	int rack = p->l.site->trays[vm->tray].rack;

	rk_jw_init(&w, &params, 0);
	rk_jw_object(&w);
	rk_jw_key(&w, "vm");
	rk_jw_str(&w, vm->name);
	rk_jw_key(&w, "host");
	rk_jw_str(&w, rk_vm_host_name(vm));
	rk_jw_key(&w, "tray");
	rk_jw_str(&w, tray);
	rk_jw_key(&w, "reason");
	rk_jw_str(&w, moved_mark(l.arena, vm->name, p->reasons[i]));
	rk_jw_end(&w);
	int at = rk_plan_add(plan, "tray.drain", tray, NULL, rk_str_text(&params), NULL, 0);
	l.members = &old;
	l.n = 1;
	if (l.nvl_ids[rack])
		rk_add_nvl_step(plan, &l, "nvl.expel", rack, &at, 1);
}

/* All old ports in one step: the partition keeps the survivors and the new bodies. */
static void add_ib_expel(struct rk_plan *plan, const struct repair *p, const int *deps, size_t n_deps)
{
	struct rk_member *stay = rk_arena_array(p->l.arena, p->n_survivors + p->l.n, sizeof(*stay));
	struct rk_layout l = p->l;

	if (p->n_survivors)
		memcpy(stay, p->survivors, p->n_survivors * sizeof(*stay));
	memcpy(stay + p->n_survivors, p->l.members, p->l.n * sizeof(*stay));
	l.rest = stay;
	l.n_rest = p->n_survivors + p->l.n;
	l.members = p->survivors + p->n_survivors;
	if (l.fabric >= 0)
		rk_add_ib_step(plan, &l, "ib.expel", deps, n_deps);
	rk_add_service_steps(plan, &l, "service.expel", deps, n_deps, NULL);
}

static struct rk_plan *repair_steps(const struct rk_world *world, const struct repair *p)
{
	const struct rk_layout *l = &p->l;
	struct rk_plan *plan = rk_plan_new(rk_arena_printf(l->arena, "cluster repair %s", l->cluster));
	int *ids = rk_arena_array(l->arena, l->n + l->n_rest, sizeof(int)), *drains = rk_arena_array(l->arena, l->n, sizeof(int));
	struct rk_layout lists = *l;

	rk_add_build(plan, l, ids);
	lists.rest = p->survivors;
	lists.n_rest = p->n_survivors;
	size_t n = l->n + rk_add_imex(plan, &lists, true, ids, l->n, ids + l->n);
	rk_add_gate(plan, l, p->spec, ids, n);
	for (size_t i = 0; i < l->n; i++) {
		drains[i] = (int)rk_plan_count(plan) + 1;
		add_drain(plan, p, i);
	}
	add_ib_expel(plan, p, drains, l->n);
	if (world->confirm_ms)
		rk_plan_add_confirm(plan, world->confirm_ms);
	return plan;
}

/* n 0: nothing is bad. */
static int plan_repair(struct rk_world *world, const char *name, const char *const *names, size_t n_names, struct rk_arena *arena, struct repair *p,
		       struct rk_plan **ret, struct rk_err *err)
{
	const struct rk_site *site = world->site;
	int at = rk_find_cluster(site, name);
	size_t n = 0;

	*ret = NULL;
	if (at < 0)
		return rk_err_set(err, RK_NOT_FOUND, "no cluster \"%s\"", name);
	*p = (struct repair){ .c = &site->clusters[at] };
	rk_layout_of_cluster(site, p->c, arena, &p->l);
	p->reasons = rk_arena_array(arena, (size_t)p->c->n_vms, sizeof(*p->reasons));
	int rc = rk_cluster_spec(p->c, &p->l, &p->spec, &p->size, err);
	if (!rc)
		rc = pick_named(world, p->c, names, n_names, p, &n, err);
	if (rc || !n)
		return rc;
	split_members(site, p, n);
	rc = find_spares(world, p, n, err);
	if (!rc)
		*ret = repair_steps(world, p);
	return rc;
}

int rk_cluster_repair_plan(struct rk_world *world, const char *name, const char *const *vms, size_t n, struct rk_arena *arena, struct rk_plan **ret,
			   struct rk_err *err)
{
	struct repair p;

	return plan_repair(world, name, vms, n, arena, &p, ret, err);
}

/* ---- the store ---------------------------------------------------------------------------------------------------------------------------- */

static void pair(struct rk_jw *w, const char *key, const char *value)
{
	rk_jw_key(w, key);
	rk_jw_str(w, value);
}

/* What the old bodies were, so that a rollback can put them back. */
static const char *params_of(const struct repair *p)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	const struct rk_site *site = p->l.site;
	struct rk_jw w;

	rk_params_begin(&w, &out, "cluster.repair", p->l.cluster);
	pair(&w, "state", rk_cluster_state_name(p->c->state));
	rk_jw_key(&w, "moves");
	rk_jw_array(&w);
	for (size_t i = 0; i < p->l.n; i++) {
		const struct rk_vm *vm = &site->vms[p->old_vms[i]];
		rk_jw_object(&w);
		pair(&w, "vm", vm->name);
		pair(&w, "tray", site->trays[vm->tray].name);
		pair(&w, "uuid", vm->uuid);
		pair(&w, "address", vm->address);
		pair(&w, "mac", vm->mac);
		pair(&w, "host_key", vm->host_key_public);
		pair(&w, "state", rk_vm_state_name(vm->state));
		pair(&w, "faulty", site->trays[vm->tray].faulty);
		pair(&w, "host_name", vm->host_name);
		rk_jw_key(&w, "generation");
		rk_jw_i64(&w, vm->generation);
		rk_jw_end(&w);
	}
	rk_jw_end(&w);
	return rk_params_end(&w, &out, p->l.arena);
}

/* What a rollback needs: nobody brings the old tray back into service meanwhile, and nobody takes the old address or the old UUID. */
static int keep_old(struct rk_world *world, const struct repair *p, const struct rk_vm *vm, int64_t op, struct rk_err *err)
{
	const struct {
		const char *kind, *name;
	} things[] = { { "tray", p->l.site->trays[vm->tray].name }, { "address", vm->address }, { "uuid", vm->uuid } };
	int rc = 0;

	for (size_t i = 0; !rc && i < RK_ARRAY_SIZE(things); i++)
		if (things[i].name)
			rc = rk_store_lease_take(world->store, rk_arena_printf(p->l.arena, "%s:%s", things[i].kind, things[i].name), op, "repair", err);
	return rc;
}

/* The old tray is nobody's from here on, and must not look free. */
static int reserve(struct rk_world *world, const struct rk_change *change, int64_t op, struct rk_err *err)
{
	const struct repair *p = change->data;
	int rc = rk_store_set_cluster_state(world->store, change->cluster, p->c->state, op, err);

	for (size_t i = 0; !rc && i < p->l.n; i++) {
		const struct rk_vm *vm = &p->l.site->vms[p->old_vms[i]];
		rc = rk_store_set_tray_faulty(world->store, p->l.site->trays[vm->tray].name, moved_mark(p->l.arena, vm->name, p->reasons[i]), err);
		if (!rc)
			rc = keep_old(world, p, vm, op, err);
		if (!rc)
			rc = rk_reserve_vm(world, &p->l, &p->l.members[i], vm->generation + 1, err);
	}
	return rc;
}

static enum rk_vm_state vm_state_of(const char *name)
{
	static const enum rk_vm_state states[] = { RK_VM_PLANNED, RK_VM_BUILDING, RK_VM_RUNNING, RK_VM_STOPPED, RK_VM_FAILED };

	for (size_t i = 0; i < RK_ARRAY_SIZE(states); i++)
		if (rk_streq(rk_vm_state_name(states[i]), name))
			return states[i];
	return RK_VM_UNKNOWN;
}

static int move_back(struct rk_world *world, const char *cluster, const struct rk_jnode *move, struct rk_err *err)
{
	const char *name = rk_jstr(rk_jget(move, "vm")), *tray = rk_jstr(rk_jget(move, "tray"));
	int at = rk_find_tray(world->site, tray);
	struct rk_vm_row row;
	uint64_t generation = 1;

	if (at < 0)
		return rk_err_set(err, RK_NOT_FOUND, "no tray \"%s\" in the store any more", tray);
	rk_vm_row_on(world->site, at, &row);
	rk_ju64(rk_jget(move, "generation"), &generation);
	row.vm.name = name;
	row.vm.cluster = cluster;
	row.vm.generation = (int)generation;
	row.vm.host_name = rk_jstr(rk_jget(move, "host_name"));
	row.vm.uuid = rk_jstr(rk_jget(move, "uuid"));
	row.vm.address = rk_jstr(rk_jget(move, "address"));
	row.vm.mac = rk_jstr(rk_jget(move, "mac"));
	row.vm.host_key_public = rk_jstr(rk_jget(move, "host_key"));
	int rc = rk_store_move_vm(world->store, &row.vm, err);
	if (!rc)
		rc = rk_store_set_vm_state(world->store, name, vm_state_of(rk_jstr(rk_jget(move, "state"))), err);
	return rc ? rc : rk_store_set_tray_faulty(world->store, tray, rk_jstr(rk_jget(move, "faulty")), err);
}

int rk_finish_repair(struct rk_world *world, int64_t op, const struct rk_jnode *params, enum rk_op_end end, struct rk_err *err)
{
	const char *cluster = rk_jstr(rk_jget(params, "cluster"));
	int rc = 0;

	if (end != RK_OP_UNDONE)
		return rk_cluster_settle(world, op, cluster, RK_CLUSTER_READY, end == RK_OP_AWAITS ? op : 0, err);
	RK_JEACH(it, rk_jget(params, "moves")) {
		if (!rc)
			rc = move_back(world, cluster, it, err);
	}
	return rc ? rc : rk_cluster_put_back(world, params, err);
}

int rk_cluster_repair(struct rk_world *world, const char *name, const char *const *vms, size_t n, int64_t *ret_op, size_t *ret_moved, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_plan *plan = NULL;
	struct repair p;

	*ret_op = 0;
	*ret_moved = 0;
	int at = rk_find_cluster(world->site, name);
	int rc = at < 0 ? rk_err_set(err, RK_NOT_FOUND, "no cluster \"%s\"", name)
			: rk_cluster_idle(world, &world->site->clusters[at], "cluster.repair", -1, ret_op, err);
	if (rc)
		return rc == 1 ? rk_cluster_outcome(world, name, err) : rc;
	rc = plan_repair(world, name, vms, n, arena, &p, &plan, err);
	if (!rc && plan) {
		*ret_moved = p.l.n;
		p.l.cluster = rk_arena_strdup(arena, p.l.cluster);
		const struct rk_change change = { .type = "cluster.repair", .cluster = p.l.cluster, .purpose = "repair", .plan = plan, .params = params_of(&p),
						  .reserve = reserve, .data = &p };
		rc = rk_change_run(world, &change, ret_op, err);
	}
	rk_plan_free(plan);
	return rc ? rc : rk_cluster_outcome(world, name, err);
}
