#include "provision/verify.h"

#include <stdlib.h>
#include <string.h>

struct rows {
	struct rk_drift *items;
	size_t n, cap;
};

/* live NULL: not read. */
static struct rk_drift *add(struct rows *rows, const char *plane, const char *object, const char *field, const char *wanted, const char *applied, const char *live)
{
	bool same = rk_streq(wanted, applied) && (!live || rk_streq(wanted, live));
	struct rk_drift *row = rk_vec_push(rows);

	*row = (struct rk_drift){ .plane = plane, .object = object, .field = field, .wanted = wanted, .applied = applied, .live = live,
				  .status = !same ? "drifted" : live ? "in-sync" : "unknown" };
	return row;
}

/* Something that is there and belongs to no cluster. */
static struct rk_drift *add_stray(struct rows *rows, const char *plane, const char *object, const char *field, const char *live, int place, int id, const char *name)
{
	struct rk_drift *row = add(rows, plane, object, field, "absent", "absent", live);

	row->stray = true;
	row->place = place;
	row->id = id;
	row->name = name;
	return row;
}

/* ---- libvirt ---------------------------------------------------------------------------------------------------------------------- */

static const struct rk_hv_domain *domain_named(const struct rk_live_tray *tray, const char *name)
{
	for (size_t i = 0; i < tray->n; i++)
		if (rk_streq(tray->domains[i].name, name))
			return &tray->domains[i];
	return NULL;
}

static void drift_vm(struct rows *rows, const struct rk_live *live, int vm, struct rk_arena *arena)
{
	const struct rk_vm *v = &live->site->vms[vm];
	const struct rk_live_tray *tray = &live->trays[v->tray];
	const struct rk_hv_domain *d = domain_named(tray, rk_vm_domain_name(arena, rk_vm_host_name(v)));
	const char *wanted = v->state == RK_VM_STOPPED ? "stopped" : "running";
	const char *other = d && !d->ours ? "is not racksh's" : d && !rk_streq(d->uuid, v->uuid) ? "is another one than the store's" : NULL;
	const char *refused = other ? rk_arena_printf(arena, "domain \"%s\" on tray %s %s: look at it, and undefine it when nobody needs it", d->name,
						      live->site->trays[v->tray].name, other) : NULL;

	add(rows, "libvirt", v->name, "state", wanted, rk_vm_state_name(v->state), !tray->read ? NULL : !d ? "absent" : d->running ? "running" : "stopped")->refused = refused;
	add(rows, "libvirt", v->name, "uuid", v->uuid, v->uuid, !tray->read ? NULL : d && d->uuid ? rk_arena_strdup(arena, d->uuid) : "absent")->refused = refused;
}

/* Domains of racksh's that no VM of the store explains. */
static void drift_strays(struct rows *rows, const struct rk_live *live, int tray, struct rk_arena *arena)
{
	const struct rk_live_tray *t = &live->trays[tray];
	int vm = live->site->trays[tray].vm;
	const char *ours = vm == RK_NONE ? NULL : rk_vm_domain_name(arena, rk_vm_host_name(&live->site->vms[vm]));

	for (size_t i = 0; i < t->n; i++) {
		const char *name = rk_arena_strdup(arena, t->domains[i].name), *on = live->site->trays[tray].name;
		if (!t->domains[i].ours || rk_streq(name, ours))
			continue;
		struct rk_drift *row = add_stray(rows, "libvirt", rk_arena_printf(arena, "%s on %s", name, on), "state",
						 t->domains[i].running ? "running" : "stopped", tray, RK_NONE, name);
		if (vm == RK_NONE && live->site->trays[tray].faulty)
			row->refused = rk_arena_printf(arena, "tray %s is out of service: racksh tray uncordon %s empties and erases it", on, on);
	}
}

/* ---- fabrics ---------------------------------------------------------------------------------------------------------------------- */

static const char *count_or_names(const struct rk_member_diff *d, struct rk_arena *arena)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;

	if (d->unknown.n)
		return NULL;
	rk_str_addf(&out, "%zu", d->there);
	if (d->missing.n)
		rk_str_addf(&out, ", without %s", rk_nodeset_fold(arena, d->missing.items, d->missing.n));
	if (d->extra.n)
		rk_str_addf(&out, ", also %s", rk_nodeset_fold(arena, d->extra.items, d->extra.n));
	if (d->wrong.n)
		rk_str_addf(&out, ", with other keys on %s", rk_nodeset_fold(arena, d->wrong.items, d->wrong.n));
	if (d->down.n)
		rk_str_addf(&out, ", without a link %s", rk_nodeset_fold(arena, d->down.items, d->down.n));
	return rk_arena_strdup(arena, rk_str_text(&out));
}

/* Nothing is wrong but ports without a link: no configuration brings them up. */
static bool only_dark(const struct rk_member_diff *d)
{
	return d->down.n && !d->missing.n && !d->extra.n && !d->wrong.n;
}

static void drift_members(struct rows *rows, const char *plane, const char *object, const char *field, struct rk_arena *arena, struct rk_member_diff *d)
{
	const char *wanted = rk_arena_printf(arena, "%zu", d->wanted), *live = count_or_names(d, arena);

	/* What was read and is wrong is drift, even beside what could not be read. */
	if (!live && (d->missing.n || d->extra.n || d->wrong.n || d->down.n))
		live = rk_arena_printf(arena, "%zu seen, %zu not read", d->there, d->unknown.n);
	struct rk_drift *row = add(rows, plane, object, field, wanted, wanted, live);
	if (only_dark(d))
		row->refused = rk_arena_printf(arena, "a port without a link (%s) gets its key when it is up again", rk_nodeset_fold(arena, d->down.items, d->down.n));
	rk_member_diff_clear(d);
}

static void drift_nvl(struct rows *rows, const struct rk_live *live, int partition, struct rk_arena *arena)
{
	const struct rk_nvl_partition *p = &live->site->nvl_partitions[partition];
	struct rk_member_diff d;

	rk_live_nvl_diff(live, partition, arena, &d);
	drift_members(rows, "nvlink", rk_arena_printf(arena, "%s/%d", live->site->racks[p->rack].name, p->id), "gpus", arena, &d);
}

static void drift_ib(struct rows *rows, const struct rk_live *live, int partition, struct rk_arena *arena)
{
	const struct rk_ib_partition *p = &live->site->ib_partitions[partition];
	const struct rk_ib_live *part = rk_live_ib_part(live, p->fabric, p->pkey);
	const char *object = rk_arena_printf(arena, "%s/0x%04x", live->site->fabrics[p->fabric].name, p->pkey);
	struct rk_member_diff d;

	rk_live_ib_diff(live, partition, arena, &d);
	const char *wanted = rk_arena_printf(arena, "%zu", d.wanted);
	add(rows, "infiniband", object, "configured", wanted, wanted,
	    live->ib[p->fabric].read ? rk_arena_printf(arena, "%zu", part ? part->n_members : 0) : NULL);
	drift_members(rows, "infiniband", object, "ports", arena, &d);
}

static void drift_service(struct rows *rows, const struct rk_live *live, int service, struct rk_arena *arena)
{
	const struct rk_ib_service *s = &live->site->ib_services[service];
	const struct rk_ib_live *part = rk_live_ib_part(live, s->fabric, s->pkey);
	const char *object = rk_arena_printf(arena, "%s/0x%04x", live->site->fabrics[s->fabric].name, s->pkey);
	struct rk_member_diff d;

	rk_live_service_diff(live, service, arena, &d);
	const char *wanted = rk_arena_printf(arena, "%zu", d.wanted);
	add(rows, "infiniband", object, "configured", wanted, wanted, live->ib[s->fabric].read ? rk_arena_printf(arena, "%zu", part ? part->n_members : 0) : NULL);
	drift_members(rows, "infiniband", object, "ports", arena, &d);
}

/* ---- the whole --------------------------------------------------------------------------------------------------------------------- */

static void drift_cluster(struct rows *rows, const struct rk_live *live, int cluster, struct rk_arena *arena)
{
	const struct rk_cluster *c = &live->site->clusters[cluster];
	struct rk_spec *spec = NULL;
	size_t running = 0, read = 0;

	for (int v = c->first_vm; v < c->first_vm + c->n_vms; v++) {
		const struct rk_live_tray *t = &live->trays[live->site->vms[v].tray];
		read += t->read;
		running += t->read && domain_named(t, rk_vm_domain_name(arena, rk_vm_host_name(&live->site->vms[v]))) != NULL;
		drift_vm(rows, live, v, arena);
	}
	const char *applied = rk_arena_printf(arena, "%d", c->n_vms), *wanted = applied;
	if (c->spec && rk_spec_parse(c->name, c->spec, strlen(c->spec), arena, &spec, NULL) == 0)
		wanted = rk_arena_printf(arena, "%d", spec->count);
	struct rk_drift *row = add(rows, "inventory", c->name, "vms", wanted, applied, read == (size_t)c->n_vms ? rk_arena_printf(arena, "%zu", running) : NULL);
	if (!rk_streq(wanted, applied))
		row->refused = rk_arena_printf(arena, "racksh cluster %s %s %s", atoi(applied) < atoi(wanted) ? "grow" : "shrink", c->name, wanted);
	for (int i = c->first_nvl; i < c->first_nvl + c->n_nvl; i++)
		drift_nvl(rows, live, i, arena);
	if (c->ib >= 0)
		drift_ib(rows, live, c->ib, arena);
}

static const struct rk_nvl_live *part_left(const struct rk_live *live, const struct rk_remains *m)
{
	for (size_t i = 0; i < live->nvl[m->rack].n; i++)
		if (rk_nvl_is(&live->nvl[m->rack].parts[i], m->id, m->name))
			return &live->nvl[m->rack].parts[i];
	return NULL;
}

/* What an operation was ended without taking away: gone only when that is seen, and written down by drift --fix. */
static void drift_remains(struct rows *rows, const struct rk_live *live, const struct rk_remains *m, struct rk_arena *arena)
{
	const struct rk_site *site = live->site;
	bool nvl = m->rack != RK_NONE, read = nvl ? live->nvl[m->rack].read : live->ib[m->fabric].read;
	const struct rk_nvl_live *part = nvl && read ? part_left(live, m) : NULL;
	const struct rk_ib_live *key = nvl || !read ? NULL : rk_live_ib_part(live, m->fabric, (uint16_t)m->id);
	const char *object = nvl ? rk_arena_printf(arena, "%s/%d", site->racks[m->rack].name, m->id) : rk_arena_printf(arena, "%s/0x%04x", site->fabrics[m->fabric].name, (unsigned)m->id);
	const char *there = !read ? NULL : !part && !key ? "absent" : rk_arena_printf(arena, "%zu", part ? part->n_gpus : key->n_members);
	struct rk_drift *row = add_stray(rows, nvl ? "nvlink" : "infiniband", object, nvl ? "gpus" : "configured", there, nvl ? m->rack : m->fabric, m->id, m->name);

	row->applied = "left behind";
	row->status = "drifted";
	row->remains = true;
	row->refused = read ? NULL : rk_arena_printf(arena, "nobody knows whether it is still there: %s", m->why);
}

static bool is_nvl_remains(const struct rk_site *site, int rack, const struct rk_nvl_live *part)
{
	for (size_t i = 0; i < site->n_remains; i++)
		if (site->remains[i].rack == rack && rk_nvl_is(part, site->remains[i].id, site->remains[i].name))
			return true;
	return false;
}

/* What is there and belongs to no cluster. */
static void drift_unowned(struct rows *rows, const struct rk_live *live, struct rk_arena *arena)
{
	const struct rk_site *site = live->site;

	for (size_t r = 0; r < site->n_racks; r++)
		for (size_t i = 0; i < live->nvl[r].n; i++)
			if (!rk_nvl_in_store(site, (int)r, &live->nvl[r].parts[i]) && !is_nvl_remains(site, (int)r, &live->nvl[r].parts[i]))
				add_stray(rows, "nvlink", rk_arena_printf(arena, "%s/%d", site->racks[r].name, live->nvl[r].parts[i].id), "gpus",
					  rk_arena_printf(arena, "%zu", live->nvl[r].parts[i].n_gpus), (int)r, live->nvl[r].parts[i].id,
					  rk_arena_strdup(arena, live->nvl[r].parts[i].name));
	for (size_t f = 0; f < site->n_fabrics; f++)
		for (size_t i = 0; i < live->ib[f].n; i++)
			if (live->ib[f].parts[i].ours && !rk_ib_in_store(site, (int)f, live->ib[f].parts[i].pkey) && !rk_ib_remains(site, (int)f, live->ib[f].parts[i].pkey))
				add_stray(rows, "infiniband", rk_arena_printf(arena, "%s/0x%04x", site->fabrics[f].name, live->ib[f].parts[i].pkey), "configured",
					  rk_arena_printf(arena, "%zu", live->ib[f].parts[i].n_members), (int)f, live->ib[f].parts[i].pkey,
					  rk_arena_strdup(arena, live->ib[f].parts[i].name));
	for (size_t i = 0; i < site->n_remains; i++)
		drift_remains(rows, live, &site->remains[i], arena);
	for (size_t t = 0; t < site->n_trays; t++)
		drift_strays(rows, live, (int)t, arena);
}

/* cluster RK_NONE: everything. */
static void set_scope(const struct rk_site *site, int cluster, struct rk_arena *arena, struct rk_live_scope *scope)
{
	bool *racks = rk_arena_array(arena, site->n_racks, sizeof(bool)), *fabrics = rk_arena_array(arena, site->n_fabrics, sizeof(bool));
	bool *hcas = rk_arena_array(arena, site->n_hcas, sizeof(bool)), *trays = rk_arena_array(arena, site->n_trays, sizeof(bool));

	for (size_t t = 0; t < site->n_trays; t++) {
		const struct rk_tray *tray = &site->trays[t];
		if (cluster != RK_NONE && rk_tray_cluster(site, (int)t) != cluster)
			continue;
		trays[t] = racks[tray->rack] = true;
		for (int h = tray->first_hca; h < tray->first_hca + tray->n_hcas; h++) {
			hcas[h] = true;
			if (site->hcas[h].fabric >= 0)
				fabrics[site->hcas[h].fabric] = true;
		}
	}
	*scope = (struct rk_live_scope){ racks, fabrics, hcas, trays };
}

static int verdict(const struct rows *rows, const struct rk_site *site, struct rk_err *err)
{
	size_t drifted = 0, unknown = 0;

	if (!site->n_racks) {
		rk_err_set(err, RK_UNREACHABLE, "the store is empty: whether anything has drifted is unknown");
		rk_err_hint(err, "racksh site import FILE");
		return RK_UNREACHABLE;
	}

	for (size_t i = 0; i < rows->n; i++) {
		drifted += rk_streq(rows->items[i].status, "drifted");
		unknown += rk_streq(rows->items[i].status, "unknown");
	}
	if (drifted)
		return rk_err_set(err, RK_UNHEALTHY, "%zu of %zu values have drifted", drifted, rows->n);
	return unknown ? rk_err_set(err, RK_UNREACHABLE, "%zu of %zu values could not be read", unknown, rows->n) : 0;
}

int rk_drift(struct rk_world *world, const char *cluster, struct rk_arena *arena, struct rk_drift **ret, size_t *ret_n, struct rk_err *err)
{
	struct rk_live *live RK_CLEANUP_LIVE = NULL;
	struct rk_live_scope scope;
	struct rows rows = { NULL, 0, 0 };
	int only = cluster ? rk_find_cluster(world->site, cluster) : RK_NONE;

	*ret_n = 0;
	if (cluster && only < 0)
		return rk_err_set(err, RK_NOT_FOUND, "no cluster \"%s\"", cluster);
	set_scope(world->site, only, arena, &scope);
	int rc = rk_live_read(world, &scope, &live, err);
	if (rc)
		return rc;
	for (size_t c = 0; c < world->site->n_clusters; c++)
		if (only == RK_NONE || only == (int)c)
			drift_cluster(&rows, live, (int)c, arena);
	for (size_t s = 0; only == RK_NONE && s < world->site->n_ib_services; s++)
		drift_service(&rows, live, (int)s, arena);
	if (only == RK_NONE)
		drift_unowned(&rows, live, arena);
	rc = verdict(&rows, world->site, err);
	*ret = rk_arena_array(arena, rows.n, sizeof(**ret));
	if (rows.n)
		memcpy(*ret, rows.items, rows.n * sizeof(**ret));
	*ret_n = rows.n;
	free(rows.items);
	return rc;
}
