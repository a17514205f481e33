#include <string.h>

#include "provision/cluster_impl.h"
#include "provision/verify.h"

/* Turning VMs on and off: every VM stands alone. */

int rk_add_halt(struct rk_plan *plan, const char *vm, int grace_s, bool hard, const int *deps, size_t n_deps)
{
	char *params RK_CLEANUP_FREE = rk_xasprintf("{\"vm\":\"%s\",\"grace_s\":%d,\"hard\":%d}", vm, grace_s, hard);

	return rk_plan_add(plan, "vm.halt", vm, NULL, params, deps, n_deps);
}

/* After a boot the guest has the list it was born with, or the one it kept: it is told again. */
int rk_add_boot(struct rk_plan *plan, const struct rk_site *site, int vm, const int *deps, size_t n_deps, struct rk_arena *arena)
{
	const struct rk_cluster *c = &site->clusters[site->vms[vm].cluster];
	const char *name = site->vms[vm].name;
	const struct rk_member *all, *me;
	struct rk_layout l;
	int boot = rk_add_vm_step(plan, "vm.boot", name, NULL, deps, n_deps), id, at = rk_add_vm_step(plan, "vm.ssh", name, NULL, &boot, 1);

	rk_layout_of_cluster(site, c, arena, &l);
	all = l.members;
	me = &all[vm - c->first_vm];
	struct rk_member *others = rk_arena_array(arena, l.n, sizeof(*others));
	size_t n = 0;
	for (size_t i = 0; i < l.n; i++) {
		others[n] = all[i];
		others[n++].off = &all[i] != me;
	}
	/* Everybody is in the list, only this one is told. */
	l.rest = others;
	l.n_rest = n;
	l.members = me;
	l.n = 1;
	rk_add_imex(plan, &l, false, &at, 1, &id);
	return at;
}

/* Its first boot did not end while it was made: the key is to be taken out of the seed when it answers again. */
static int holds_key(struct rk_world *world, const char *vm, bool *ret, struct rk_err *err)
{
	char *key = NULL;
	int rc = rk_store_vm_host_key(world->store, vm, &key, err);

	*ret = key != NULL;
	if (key)
		explicit_bzero(key, strlen(key));
	free(key);
	return rc;
}

static int add_seal(struct rk_world *world, struct rk_plan *plan, const char *vm, int answers, struct rk_err *err)
{
	bool open = false;
	int rc = holds_key(world, vm, &open, err);

	if (open)
		rk_add_vm_step(plan, "vm.seal", vm, NULL, &answers, 1);
	return rc;
}

/* What the request wants, if it is that simple: a reboot always has something to do. */
static enum rk_vm_state wanted(const struct rk_power_request *q)
{
	return q->on ? RK_VM_RUNNING : RK_VM_STOPPED;
}

static bool seen_so(const struct rk_live_tray *tray, const struct rk_vm *vm, bool running, struct rk_arena *arena)
{
	const char *name = rk_vm_domain_name(arena, rk_vm_host_name(vm));

	for (size_t i = 0; tray->read && i < tray->n; i++)
		if (rk_streq(tray->domains[i].name, name))
			return tray->domains[i].ours && rk_streq(tray->domains[i].uuid, vm->uuid) && tray->domains[i].running == running;
	return false;
}

/* Flags those that need nothing: the store says so, and their host does. One that could not be read is not among them. */
static int find_already(struct rk_world *world, const struct rk_power_request *q, struct rk_arena *arena, bool *already, struct rk_err *err)
{
	struct rk_live *live RK_CLEANUP_LIVE = NULL;
	const struct rk_site *site = world->site;
	bool *trays = rk_arena_array(arena, site->n_trays, sizeof(*trays)), any = false;
	const struct rk_live_scope scope = { .trays = trays };

	for (size_t i = 0; i < q->n && q->on != q->off; i++)
		if (site->vms[q->vms[i]].state == wanted(q))
			trays[site->vms[q->vms[i]].tray] = any = true;
	int rc = any ? rk_live_read(world, &scope, &live, err) : 0;
	for (size_t i = 0; any && !rc && i < q->n; i++) {
		const struct rk_vm *vm = &site->vms[q->vms[i]];
		bool open = false;
		rc = q->on ? holds_key(world, vm->name, &open, err) : 0;
		already[i] = vm->state == wanted(q) && !open && seen_so(&live->trays[vm->tray], vm, q->on, arena);
	}
	return rc;
}

static const char *command_of(const struct rk_site *site, const struct rk_power_request *q, struct rk_arena *arena)
{
	const char **vms = rk_arena_array(arena, q->n, sizeof(*vms));

	for (size_t i = 0; i < q->n; i++)
		vms[i] = site->vms[q->vms[i]].name;
	return rk_arena_printf(arena, "vm %s %s", q->verb, rk_nodeset_fold(arena, vms, q->n));
}

int rk_vm_power_plan(struct rk_world *world, const struct rk_power_request *q, struct rk_arena *arena, struct rk_plan **ret, struct rk_err *err)
{
	const struct rk_site *site = world->site;
	bool *already = q->already ? q->already : rk_arena_array(arena, q->n, sizeof(*already));

	for (size_t i = 0; i < q->n; i++) {
		const struct rk_cluster *c = &site->clusters[site->vms[q->vms[i]].cluster];
		if (c->op)
			return rk_op_holds(world, rk_arena_printf(arena, "the cluster of VM \"%s\"", site->vms[q->vms[i]].name), c->op, err);
	}
	int rc = find_already(world, q, arena, already, err);
	if (rc)
		return rc;
	*ret = rk_plan_new(command_of(site, q, arena));
	for (size_t i = 0; !rc && i < q->n; i++) {
		const char *vm = site->vms[q->vms[i]].name;
		if (already[i])
			continue;
		int seen = q->on ? rk_add_vm_step(*ret, "vm.devices", vm, NULL, NULL, 0) : 0;
		int at = q->off ? rk_add_halt(*ret, vm, q->grace_s, q->hard, &seen, q->on) : seen;
		if (q->on)
			rc = add_seal(world, *ret, vm, rk_add_boot(*ret, site, q->vms[i], &at, 1, arena), err);
	}
	return rc;
}

/* Steps that leave the guest as it was when they fail. */
static bool harmless(const char *kind)
{
	return strcmp(kind, "vm.halt") == 0 || strcmp(kind, "vm.devices") == 0;
}

/* A guest that could not be asked may be on or off, and one that did not come up in full is not what it was: the store says neither. One that would
 * not shut down is as before. booted: it was started, and a step after that which found nobody to ask is still planned. */
static bool left_open(const struct rk_step_row *step, bool booted)
{
	bool failed = strcmp(step->state, "failed") == 0, done = strcmp(step->state, "done") == 0;

	return strcmp(step->state, "unknown") == 0 || (failed && !harmless(step->kind)) || (booted && !done);
}

int rk_finish_power(struct rk_world *world, int64_t op, const struct rk_jnode *params, enum rk_op_end end, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_step_row *steps;
	const char *booted = NULL;
	size_t n;
	int rc = rk_store_step_list(world->store, op, arena, &steps, &n, err);

	(void)params;
	(void)end;
	for (size_t i = 0; !rc && i < n; i++) {
		if (strcmp(steps[i].kind, "vm.boot") == 0)
			booted = strcmp(steps[i].state, "done") == 0 ? steps[i].target : NULL;
		if (left_open(&steps[i], rk_streq(booted, steps[i].target)) && rk_find_vm(world->site, steps[i].target) >= 0)
			rc = rk_store_set_vm_state(world->store, steps[i].target, RK_VM_UNKNOWN, err);
	}
	return rc;
}

static int lease_clusters(struct rk_world *world, const struct rk_change *change, int64_t op, struct rk_err *err)
{
	const struct rk_power_request *q = change->data;
	int rc = 0;

	for (size_t i = 0; !rc && i < q->n; i++) {
		char *thing RK_CLEANUP_FREE = rk_xasprintf("cluster:%s", world->site->clusters[world->site->vms[q->vms[i]].cluster].name);
		rc = rk_store_lease_take(world->store, thing, op, q->verb, err);
	}
	return rc;
}

int rk_vm_power(struct rk_world *world, const struct rk_power_request *q, int64_t *ret_op, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_plan *plan = NULL;
	int rc = rk_op_again(world, command_of(world->site, q, arena), NULL, ret_op, err);

	if (rc || *ret_op)
		return rc;
	rc = rk_vm_power_plan(world, q, arena, &plan, err);
	const struct rk_change change = { .type = "vm.power", .purpose = q->verb, .plan = plan, .params = "{\"type\":\"vm.power\"}", .reserve = lease_clusters, .data = q };
	if (!rc && rk_plan_count(plan))
		rc = rk_change_run(world, &change, ret_op, err);
	rk_plan_free(plan);
	return rc;
}
