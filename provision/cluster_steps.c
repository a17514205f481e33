#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provision/cluster_impl.h"
#include "provision/service.h"

/* Steps of clusters: what is journalled is enough to carry them out. */

static void pair_str(struct rk_jw *w, const char *key, const char *value)
{
	rk_jw_key(w, key);
	rk_jw_str(w, value);
}

static void pair_int(struct rk_jw *w, const char *key, long value)
{
	rk_jw_key(w, key);
	rk_jw_i64(w, value);
}

bool rk_layout_in_rack(const struct rk_site *site, const struct rk_member *members, size_t n, int rack)
{
	for (size_t i = 0; i < n; i++)
		if (site->trays[members[i].tray].rack == rack)
			return true;
	return false;
}

int rk_add_vm_step(struct rk_plan *plan, const char *kind, const char *vm, const char *tray, const int *deps, size_t n_deps)
{
	struct rk_str params RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_jw w;

	rk_jw_init(&w, &params, 0);
	rk_jw_object(&w);
	pair_str(&w, "vm", vm);
	if (tray)
		pair_str(&w, "tray", tray);
	rk_jw_end(&w);
	return rk_plan_add(plan, kind, vm, NULL, rk_str_text(&params), deps, n_deps);
}

static void nvl_params(const struct rk_layout *l, int rack, struct rk_str *out)
{
	struct rk_jw w;

	rk_jw_init(&w, out, 0);
	rk_jw_object(&w);
	pair_str(&w, "rack", l->site->racks[rack].name);
	pair_int(&w, "id", l->nvl_ids[rack]);
	pair_str(&w, "name", l->nvl_names[rack]);
	pair_str(&w, "resiliency", l->resiliency);
	pair_int(&w, "multicast", l->multicast);
	rk_jw_key(&w, "gpus");
	rk_jw_array(&w);
	for (size_t i = 0; i < l->n; i++) {
		const struct rk_tray *t = &l->site->trays[l->members[i].tray];
		for (int g = 0; t->rack == rack && g < t->n_gpus; g++)
			rk_jw_hex64(&w, l->site->gpus[t->first_gpu + g].fabric_guid);
	}
	rk_jw_end(&w);
	rk_jw_end(&w);
}

static void ports_of(const struct rk_layout *l, const char *key, const struct rk_member *members, size_t n, struct rk_jw *w)
{
	rk_jw_key(w, key);
	rk_jw_array(w);
	for (size_t i = 0; i < n; i++) {
		const struct rk_tray *t = &l->site->trays[members[i].tray];
		for (int h = 0; h < t->n_hcas; h++)
			if (l->site->hcas[t->first_hca + h].fabric == l->fabric)
				rk_jw_hex64(w, l->site->hcas[t->first_hca + h].port_guid);
	}
	rk_jw_end(w);
}

static void ib_params(const struct rk_layout *l, struct rk_str *out)
{
	struct rk_jw w;

	rk_jw_init(&w, out, 0);
	rk_jw_object(&w);
	pair_str(&w, "fabric", l->site->fabrics[l->fabric].name);
	pair_int(&w, "pkey", l->pkey);
	pair_str(&w, "name", l->ib_name ? l->ib_name : l->cluster);
	pair_int(&w, "full", l->full);
	ports_of(l, "members", l->members, l->n, &w);
	ports_of(l, "rest", l->rest, l->n_rest, &w);
	rk_jw_end(&w);
}

int rk_add_nvl_step(struct rk_plan *plan, const struct rk_layout *l, const char *kind, int rack, const int *deps, size_t n_deps)
{
	struct rk_str params RK_CLEANUP_STR = RK_STR_INIT;
	const char *name = l->site->racks[rack].name;

	nvl_params(l, rack, &params);
	return rk_plan_add(plan, kind, rk_arena_printf(l->arena, "%s/%d", name, l->nvl_ids[rack]), rk_arena_printf(l->arena, "nvlink:%s", name),
			   rk_str_text(&params), deps, n_deps);
}

int rk_add_ib_step(struct rk_plan *plan, const struct rk_layout *l, const char *kind, const int *deps, size_t n_deps)
{
	struct rk_str params RK_CLEANUP_STR = RK_STR_INIT;
	const char *name = l->site->fabrics[l->fabric].name;

	ib_params(l, &params);
	return rk_plan_add(plan, kind, rk_arena_printf(l->arena, "%s/0x%04x", name, l->pkey), rk_arena_printf(l->arena, "ib:%s", name),
			   rk_str_text(&params), deps, n_deps);
}

size_t rk_add_service_steps(struct rk_plan *plan, const struct rk_layout *l, const char *kind, const int *deps, size_t n_deps, int *ids)
{
	size_t n = 0;

	for (size_t i = 0; l->fabric >= 0 && i < l->site->n_ib_services; i++) {
		const struct rk_ib_service *s = &l->site->ib_services[i];
		struct rk_str params RK_CLEANUP_STR = RK_STR_INIT;
		struct rk_jw w;
		if (s->fabric != l->fabric || !rk_ib_serves(s, l->tenant))
			continue;
		rk_jw_init(&w, &params, 0);
		rk_service_params(l->site, s, &w);
		ports_of(l, "members", l->members, l->n, &w);
		rk_jw_end(&w);
		int id = rk_add_service_step(plan, l->site, s, kind, rk_str_text(&params), deps, n_deps);
		if (ids)
			ids[n] = id;
		n++;
	}
	return n;
}

/* The partitions the members need: new ones, or a place in those the cluster has. */
static size_t add_partitions(struct rk_plan *plan, const struct rk_layout *l, const int *checks, int *ids)
{
	size_t n = 0;

	for (size_t r = 0; r < l->site->n_racks; r++) {
		bool has = l->nvl_ids[r] && rk_layout_in_rack(l->site, l->rest, l->n_rest, (int)r);
		if (l->nvl_ids[r] && rk_layout_in_rack(l->site, l->members, l->n, (int)r))
			ids[n++] = rk_add_nvl_step(plan, l, has ? "nvl.join" : "nvl.partition", (int)r, checks, l->n);
	}
	if (l->fabric >= 0)
		ids[n++] = rk_add_ib_step(plan, l, l->n_rest ? "ib.join" : "ib.partition", checks, l->n);
	return n + rk_add_service_steps(plan, l, "service.join", checks, l->n, ids + n);
}

/* DESIGN section 5: both partitions before any guest driver starts. */
void rk_add_build(struct rk_plan *plan, const struct rk_layout *l, int *last)
{
	int *checks = rk_arena_array(l->arena, l->n, sizeof(int));
	int *deps = rk_arena_array(l->arena, l->site->n_racks + l->site->n_ib_services + 2, sizeof(int));

	for (size_t i = 0; i < l->n; i++)
		checks[i] = rk_add_vm_step(plan, "vm.preflight", l->members[i].vm, NULL, NULL, 0);
	size_t n_fabric = add_partitions(plan, l, checks, deps);
	for (size_t i = 0; i < l->n; i++) {
		/* Where the network gives ids, what is made for the VM names one only after it was given. */
		bool given = rk_nvl_gives_ids(l->site, l->site->trays[l->members[i].tray].rack);
		int at = given ? rk_add_vm_step(plan, "vm.volumes", l->members[i].vm, NULL, deps, n_fabric) :
				 rk_add_vm_step(plan, "vm.volumes", l->members[i].vm, NULL, &checks[i], 1);
		deps[n_fabric] = rk_add_vm_step(plan, "vm.define", l->members[i].vm, NULL, &at, 1);
		at = rk_add_vm_step(plan, "vm.start", l->members[i].vm, NULL, deps, n_fabric + 1);
		last[i] = rk_add_vm_step(plan, "vm.ssh", l->members[i].vm, NULL, &at, 1);
		rk_add_vm_step(plan, "vm.seal", l->members[i].vm, NULL, &last[i], 1);
	}
}

static int by_number(const void *a, const void *b)
{
	return (*(const struct rk_member *const *)a)->number - (*(const struct rk_member *const *)b)->number;
}

static const char *imex_params(const struct rk_layout *l, const char *vm, const struct rk_member **list, size_t n)
{
	struct rk_str params RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_jw w;

	rk_jw_init(&w, &params, 0);
	rk_jw_object(&w);
	pair_str(&w, "vm", vm);
	rk_jw_key(&w, "nodes");
	rk_jw_array(&w);
	for (size_t i = 0; i < n; i++)
		if (list[i]->address)
			rk_jw_str(&w, list[i]->address);
	rk_jw_end(&w);
	rk_jw_end(&w);
	return rk_arena_strdup(l->arena, rk_str_text(&params));
}

static size_t add_in_rack(const struct rk_site *site, const struct rk_member *members, size_t n, int rack, const struct rk_member **list, size_t at)
{
	for (size_t i = 0; i < n; i++)
		if (site->trays[members[i].tray].rack == rack)
			list[at++] = &members[i];
	return at;
}

size_t rk_add_imex(struct rk_plan *plan, const struct rk_layout *l, bool with_members, const int *deps, size_t n_deps, int *ids)
{
	const struct rk_member **list = rk_arena_array(l->arena, l->n + l->n_rest, sizeof(*list));
	size_t n_ids = 0;

	for (size_t r = 0; r < l->site->n_racks; r++) {
		if (!l->nvl_ids[r] || !rk_layout_in_rack(l->site, l->members, l->n, (int)r))
			continue;
		size_t n = add_in_rack(l->site, l->rest, l->n_rest, (int)r, list, 0);
		if (with_members)
			n = add_in_rack(l->site, l->members, l->n, (int)r, list, n);
		qsort(list, n, sizeof(*list), by_number);
		for (size_t i = 0; i < l->n_rest; i++) {
			const struct rk_member *m = &l->rest[i];
			if (l->site->trays[m->tray].rack == (int)r && !m->off)
				ids[n_ids++] = rk_plan_add(plan, "imex.nodes", m->vm, NULL, imex_params(l, m->vm, list, n), deps, n_deps);
		}
	}
	return n_ids;
}

void rk_add_gate(struct rk_plan *plan, const struct rk_layout *l, const struct rk_spec *spec, const int *deps, size_t n_deps)
{
	struct rk_str params RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_jw w;

	if (!spec->validation.required)
		return;
	rk_jw_init(&w, &params, 0);
	rk_jw_object(&w);
	pair_str(&w, "cluster", l->cluster);
	rk_jw_end(&w);
	rk_plan_add(plan, "fabric.gate", l->cluster, NULL, rk_str_text(&params), deps, n_deps);
}

/* ---- layouts ------------------------------------------------------------------------------------------------------------------------ */

static bool name_taken(const struct rk_site *site, int rack, const char *name)
{
	for (size_t i = 0; i < site->n_nvl_partitions; i++)
		if (site->nvl_partitions[i].rack == rack && rk_streq(site->nvl_partitions[i].name, name))
			return true;
	for (size_t i = 0; i < site->n_remains; i++)
		if (site->remains[i].rack == rack && rk_streq(site->remains[i].name, name))
			return true;
	return false;
}

const char *rk_free_nvl_name(const struct rk_site *site, int rack, const char *cluster, struct rk_arena *arena)
{
	const char *name = cluster;

	/* No cluster has a '.' in its name. */
	for (int n = 2; name_taken(site, rack, name); n++)
		name = rk_arena_printf(arena, "%s.%d", cluster, n);
	return name;
}

void rk_layout_of_cluster(const struct rk_site *site, const struct rk_cluster *c, struct rk_arena *arena, struct rk_layout *l)
{
	struct rk_member *members = rk_arena_array(arena, (size_t)c->n_vms, sizeof(*members));
	int *ids = rk_arena_array(arena, site->n_racks, sizeof(*ids));
	const char **names = rk_arena_array(arena, site->n_racks, sizeof(*names));

	for (int i = 0; i < c->n_vms; i++) {
		const struct rk_vm *v = &site->vms[c->first_vm + i];
		members[i] = (struct rk_member){ v->name, v->address, v->tray, v->number, v->state == RK_VM_STOPPED };
	}
	for (int i = c->first_nvl; i < c->first_nvl + c->n_nvl; i++) {
		ids[site->nvl_partitions[i].rack] = site->nvl_partitions[i].id;
		names[site->nvl_partitions[i].rack] = site->nvl_partitions[i].name;
	}
	*l = (struct rk_layout){ .site = site, .arena = arena, .cluster = c->name, .tenant = c->tenant, .members = members, .n = (size_t)c->n_vms, .fabric = RK_NONE, .nvl_ids = ids,
				.nvl_names = names };
	if (c->ib >= 0) {
		l->fabric = site->ib_partitions[c->ib].fabric;
		l->pkey = site->ib_partitions[c->ib].pkey;
		l->ib_name = site->ib_partitions[c->ib].name;
		l->full = site->ib_partitions[c->ib].full;
	}
}

/* A site without addresses can be planned on; the reservation says what is missing. An address that a repair may have to give back is not free. */
const char *rk_next_address(struct rk_world *world, size_t *nth, struct rk_arena *arena)
{
	const char *address = NULL;
	bool held = true;

	while (held) {
		if (rk_store_free_address(world->site, (*nth)++, arena, &address, NULL) ||
		    rk_store_lease_held(world->store, rk_arena_printf(arena, "address:%s", address), &held, NULL))
			return NULL;
	}
	return address;
}

const struct rk_member *rk_name_members(struct rk_world *world, const char *cluster, int first, const int *trays, size_t n, struct rk_arena *arena)
{
	struct rk_member *members = rk_arena_array(arena, n, sizeof(*members));
	size_t nth = 0;

	for (size_t i = 0; i < n; i++) {
		int number = first + (int)i;
		members[i] = (struct rk_member){ .vm = rk_arena_printf(arena, "%s-%02d", cluster, number), .tray = trays[i], .number = number };
		members[i].address = rk_next_address(world, &nth, arena);
	}
	return members;
}

/* ---- parameters --------------------------------------------------------------------------------------------------------------------- */

void rk_params_begin(struct rk_jw *w, struct rk_str *out, const char *type, const char *cluster)
{
	rk_jw_init(w, out, 0);
	rk_jw_object(w);
	pair_str(w, "type", type);
	pair_str(w, "cluster", cluster);
}

const char *rk_params_end(struct rk_jw *w, struct rk_str *out, struct rk_arena *arena)
{
	rk_jw_end(w);
	const char *text = rk_arena_strdup(arena, rk_str_text(out));
	rk_str_clear(out);
	return text;
}
