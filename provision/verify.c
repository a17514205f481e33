#include "provision/verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct checks {
	struct rk_plane_check *items;
	size_t n, cap;
};

struct violations {
	struct rk_violation *items;
	size_t n, cap;
	struct rk_map *seen;
};

static int verdict_of(const struct checks *c, const char *what, struct rk_err *err)
{
	size_t failed = 0, unknown = 0;

	for (size_t i = 0; i < c->n; i++) {
		failed += rk_streq(c->items[i].verdict, "fail");
		unknown += rk_streq(c->items[i].verdict, "unknown");
	}
	if (failed)
		return rk_err_set(err, RK_UNHEALTHY, "%zu of %zu %s are not as the store says", failed, c->n, what);
	if (unknown)
		return rk_err_set(err, RK_UNREACHABLE, "%zu of %zu %s could not be read", unknown, c->n, what);
	return 0;
}

/* malloc'ed array into the arena. */
static void hand_over(struct checks *c, struct rk_arena *arena, struct rk_plane_check **ret, size_t *ret_n)
{
	*ret = rk_arena_array(arena, c->n, sizeof(**ret));
	if (c->n)
		memcpy(*ret, c->items, c->n * sizeof(**ret));
	*ret_n = c->n;
	free(c->items);
}

/* "missing r01-t01/[0-3]; also there r01-t05/0; not read r01-t02/0: no answer" */
static const char *say(struct rk_arena *arena, const struct rk_member_diff *d, const char *wrong)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	const struct {
		const char *word;
		const struct rk_names *names;
		const char *why;
	} rows[] = { { "missing", &d->missing, NULL }, { "also there", &d->extra, NULL }, { wrong, &d->wrong, NULL }, { "unknown", &d->unknown, d->why } };

	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++)
		if (rows[i].names->n)
			rk_str_addf(&out, "%s%s %s%s%s", out.len ? "; " : "", rows[i].word, rk_nodeset_fold(arena, rows[i].names->items, rows[i].names->n),
				    rows[i].why ? ": " : "", rows[i].why ? rows[i].why : "");
	return out.len ? rk_arena_strdup(arena, rk_str_text(&out)) : NULL;
}

static const char *judge(const struct rk_member_diff *d)
{
	if (d->missing.n || d->extra.n || d->wrong.n)
		return "fail";
	return d->unknown.n ? "unknown" : "pass";
}

static void add_member_check(struct checks *c, const struct rk_live *live, const char *plane, const char *object, int cluster, const char *thing,
			     struct rk_arena *arena, struct rk_member_diff *d)
{
	const struct rk_cluster *cl = &live->site->clusters[cluster];

	*rk_vec_push(c) = (struct rk_plane_check){
		.plane = plane,
		.object = object,
		.tenant = live->site->tenants[cl->tenant].name,
		.cluster = cl->name,
		.verdict = judge(d),
		.wanted = rk_arena_printf(arena, "%zu %s", d->wanted, thing),
		.live = d->unknown.n ? NULL : rk_arena_printf(arena, "%zu %s", d->there + d->extra.n, thing),
		.message = say(arena, d, "with other keys too"),
	};
	rk_member_diff_clear(d);
}

static void add_plain(struct checks *c, const char *plane, const char *object, const char *verdict, const char *wanted, const char *live, const char *message)
{
	*rk_vec_push(c) = (struct rk_plane_check){ .plane = plane, .object = object, .verdict = verdict, .wanted = wanted, .live = live, .message = message };
}

/* ---- NVLink ---------------------------------------------------------------------------------------------------------------------- */

static bool nvl_known(const struct rk_site *site, int rack, int id)
{
	for (size_t i = 0; i < site->n_nvl_partitions; i++)
		if (site->nvl_partitions[i].rack == rack && site->nvl_partitions[i].id == id)
			return true;
	return id == RK_NVL_DEFAULT;
}

static void check_controller(struct checks *c, const struct rk_live *live, int rack, struct rk_arena *arena)
{
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	const char *name = live->site->racks[rack].name;
	int rc = live->nvl[rack].read ? live->world->nvl->ops->health(live->world->nvl, rack, &err) : RK_UNREACHABLE;

	if (rc == 0)
		add_plain(c, "nvlink", name, "pass", "controller healthy", "controller healthy", NULL);
	else
		add_plain(c, "nvlink", name, rc == RK_UNHEALTHY ? "fail" : "unknown", "controller healthy", NULL,
			  live->nvl[rack].read ? rk_arena_strdup(arena, err.message) : rk_arena_strdup(arena, live->nvl[rack].why));
}

static void check_rack(struct checks *c, const struct rk_live *live, int rack, struct rk_arena *arena)
{
	const struct rk_site *site = live->site;
	const struct rk_live_nvl *r = &live->nvl[rack];
	const char *name = site->racks[rack].name;
	struct rk_member_diff d;

	check_controller(c, live, rack, arena);
	for (size_t i = 0; i < site->n_nvl_partitions; i++)
		if (site->nvl_partitions[i].rack == rack) {
			rk_live_nvl_diff(live, (int)i, arena, &d);
			add_member_check(c, live, "nvlink", rk_arena_printf(arena, "%s/%d", name, site->nvl_partitions[i].id), site->nvl_partitions[i].cluster,
					 "GPUs", arena, &d);
		}
	for (size_t i = 0; i < r->n; i++)
		if (!nvl_known(site, rack, r->parts[i].id))
			add_plain(c, "nvlink", rk_arena_printf(arena, "%s/%d", name, r->parts[i].id), "fail", "absent",
				  rk_arena_printf(arena, "%zu GPUs", r->parts[i].n_gpus), "the store knows of no such partition");
}

static void check_nvlink(struct checks *c, const struct rk_live *live, struct rk_arena *arena)
{
	for (size_t r = 0; r < live->site->n_racks; r++)
		if (live->scope->racks[r] && rk_rack_has_nvlink(live->site, (int)r))
			check_rack(c, live, (int)r, arena);
}

static bool *all_of(struct rk_arena *arena, size_t n)
{
	bool *flags = rk_arena_array(arena, n, sizeof(*flags));

	memset(flags, 1, n);
	return flags;
}

int rk_nvlink_verify(struct rk_world *world, const char *selection, struct rk_arena *arena, struct rk_plane_check **ret, size_t *ret_n, struct rk_err *err)
{
	struct rk_live *live RK_CLEANUP_LIVE = NULL;
	struct checks c = { NULL, 0, 0 };
	bool *racks = selection ? rk_arena_array(arena, world->site->n_racks, sizeof(*racks)) : all_of(arena, world->site->n_racks);
	const struct rk_live_scope scope = { .racks = racks };
	int *chosen, rc = 0;
	size_t n = 0;

	*ret_n = 0;
	if (selection)
		rc = rk_select_racks(world->site, selection, NULL, arena, &chosen, &n, err);
	for (size_t i = 0; !rc && i < n; i++)
		racks[chosen[i]] = true;
	if (!rc)
		rc = rk_live_read(world, &scope, &live, err);
	if (rc)
		return rc;
	check_nvlink(&c, live, arena);
	rc = verdict_of(&c, "NVLink checks", err);
	hand_over(&c, arena, ret, ret_n);
	return rc;
}

/* ---- InfiniBand ------------------------------------------------------------------------------------------------------------------ */

static bool ib_known(const struct rk_site *site, int fabric, uint16_t pkey)
{
	for (size_t i = 0; i < site->n_ib_partitions; i++)
		if (site->ib_partitions[i].fabric == fabric && site->ib_partitions[i].pkey == pkey)
			return true;
	return false;
}

/* Somebody else's partition that takes in a tenant's port. */
static const char *tenant_port_in(const struct rk_live *live, const struct rk_ib_live *part, struct rk_arena *arena)
{
	for (size_t i = 0; i < part->n_members; i++) {
		int hca = rk_find_hca_guid(live->site, part->members[i].guid);
		if (hca >= 0 && rk_tray_cluster(live->site, live->site->hcas[hca].tray) != RK_NONE)
			return rk_hca_label(live->site, hca, arena);
	}
	return NULL;
}

static void check_strangers(struct checks *c, const struct rk_live *live, int fabric, struct rk_arena *arena)
{
	const struct rk_live_ib *f = &live->ib[fabric];

	for (size_t i = 0; i < f->n; i++) {
		const struct rk_ib_live *part = &f->parts[i];
		if (part->pkey == RK_PKEY_DEFAULT || ib_known(live->site, fabric, part->pkey))
			continue;
		const char *port = tenant_port_in(live, part, arena);
		if (part->ours || port)
			add_plain(c, "infiniband", rk_arena_printf(arena, "%s/0x%04x", live->site->fabrics[fabric].name, part->pkey), "fail",
				  part->ours ? "absent" : "no port of a tenant", rk_arena_printf(arena, "%zu ports", part->n_members),
				  port ? rk_arena_printf(arena, "the store knows of no such partition, and %s of a tenant is in it", port)
				       : "the store knows of no such partition");
	}
}

static void check_fabric(struct checks *c, const struct rk_live *live, int fabric, struct rk_arena *arena)
{
	const struct rk_site *site = live->site;
	const char *name = site->fabrics[fabric].name;
	struct rk_member_diff d;

	if (live->ib[fabric].read)
		add_plain(c, "infiniband", name, "pass", "configuration readable", "configuration readable", NULL);
	else
		add_plain(c, "infiniband", name, "unknown", "configuration readable", NULL, rk_arena_strdup(arena, live->ib[fabric].why));
	for (size_t i = 0; i < site->n_ib_partitions; i++)
		if (site->ib_partitions[i].fabric == fabric) {
			const struct rk_ib_partition *p = &site->ib_partitions[i];
			rk_live_ib_diff(live, (int)i, arena, &d);
			add_member_check(c, live, "infiniband", rk_arena_printf(arena, "%s/0x%04x", name, p->pkey), p->cluster,
					 p->full ? "full members" : "limited members", arena, &d);
		}
	check_strangers(c, live, fabric, arena);
}

static void check_infiniband(struct checks *c, const struct rk_live *live, struct rk_arena *arena)
{
	for (size_t f = 0; f < live->site->n_fabrics; f++)
		check_fabric(c, live, (int)f, arena);
}

int rk_ib_verify(struct rk_world *world, struct rk_arena *arena, struct rk_plane_check **ret, size_t *ret_n, struct rk_err *err)
{
	struct rk_live *live RK_CLEANUP_LIVE = NULL;
	struct checks c = { NULL, 0, 0 };
	const struct rk_live_scope scope = { .fabrics = all_of(arena, world->site->n_fabrics), .hcas = all_of(arena, world->site->n_hcas) };
	int rc = rk_live_read(world, &scope, &live, err);

	*ret_n = 0;
	if (rc)
		return rc;
	check_infiniband(&c, live, arena);
	rc = verdict_of(&c, "InfiniBand checks", err);
	hand_over(&c, arena, ret, ret_n);
	return rc;
}

/* ---- isolation ------------------------------------------------------------------------------------------------------------------- */

static int tenant_of_tray(const struct rk_site *site, int tray)
{
	int cluster = rk_tray_cluster(site, tray);

	return cluster == RK_NONE ? RK_NONE : site->clusters[cluster].tenant;
}

/* One row per place and pair of tenants; b RK_NONE: everybody. */
static void violate(struct violations *v, const struct rk_site *site, struct rk_arena *arena, const char *plane, const char *where, int a, int b,
		    const char *what)
{
	int first = b == RK_NONE || a < b ? a : b, second = first == a ? b : a;

	if (!rk_map_add(v->seen, rk_arena_printf(arena, "%s %s %d %d", plane, where, first, second), 1, NULL))
		return;
	*rk_vec_push(v) = (struct rk_violation){
		.plane = plane,
		.what = what,
		.tenant_a = site->tenants[first].name,
		.tenant_b = second == RK_NONE ? NULL : site->tenants[second].name,
	};
}

static void nvlink_violations(struct violations *v, const struct rk_live *live, int rack, const struct rk_nvl_live *part, struct rk_arena *arena)
{
	const struct rk_site *site = live->site;
	const char *where = rk_arena_printf(arena, "%s/%d", site->racks[rack].name, part->id);
	int *holder = rk_arena_array(arena, site->n_tenants, sizeof(*holder));

	for (size_t i = 0; i < part->n_gpus; i++) {
		int gpu = rk_find_gpu_guid(site, part->gpus[i]), tenant = gpu < 0 ? RK_NONE : tenant_of_tray(site, site->gpus[gpu].tray);
		if (tenant == RK_NONE || holder[tenant])
			continue;
		if (part->id == RK_NVL_DEFAULT)
			violate(v, site, arena, "nvlink", where, tenant, RK_NONE,
				rk_arena_printf(arena, "GPU %s is in the default partition of %s, which joins everybody in the rack", rk_gpu_label(site, gpu, arena),
						site->racks[rack].name));
		for (size_t t = 0; t < site->n_tenants; t++)
			if (holder[t])
				violate(v, site, arena, "nvlink", where, (int)t, tenant,
					rk_arena_printf(arena, "NVLink partition %s holds GPUs of both", where));
		holder[tenant] = 1;
	}
}

static void port_violations(struct violations *v, const struct rk_live *live, int hca, struct rk_map *owners, struct rk_arena *arena)
{
	const struct rk_site *site = live->site;
	const struct rk_ib_port *port = &live->ports[hca];
	int fabric = site->hcas[hca].fabric, tenant = tenant_of_tray(site, site->hcas[hca].tray);
	const char *label = rk_hca_label(site, hca, arena);

	for (size_t i = 0; tenant != RK_NONE && i < port->n_pkeys; i++) {
		unsigned key = port->pkeys[i] & 0x7fffu;
		const char *where = rk_arena_printf(arena, "%s/0x%04x", site->fabrics[fabric].name, key);
		size_t owner = (size_t)tenant;
		if (port->pkeys[i] == RK_PKEY_DEFAULT)
			continue;
		if (key == RK_PKEY_DEFAULT)
			violate(v, site, arena, "infiniband", where, tenant, RK_NONE,
				rk_arena_printf(arena, "port %s is a full member of the default partition and reaches every port of %s", label,
						site->fabrics[fabric].name));
		else if (!rk_map_add_u64(owners, ((uint64_t)fabric << 16) | key, (size_t)tenant, &owner) && owner != (size_t)tenant)
			violate(v, site, arena, "infiniband", where, tenant, (int)owner, rk_arena_printf(arena, "port %s holds key %s", label, where));
	}
}

static void find_violations(struct violations *v, const struct rk_live *live, struct rk_arena *arena)
{
	const struct rk_site *site = live->site;
	struct rk_map *owners RK_CLEANUP_MAP = rk_map_new();

	for (size_t r = 0; r < site->n_racks; r++)
		for (size_t p = 0; p < live->nvl[r].n; p++)
			nvlink_violations(v, live, (int)r, &live->nvl[r].parts[p], arena);
	for (size_t i = 0; i < site->n_ib_partitions; i++)
		rk_map_set_u64(owners, ((uint64_t)site->ib_partitions[i].fabric << 16) | site->ib_partitions[i].pkey,
			       (size_t)site->clusters[site->ib_partitions[i].cluster].tenant);
	for (size_t h = 0; h < site->n_hcas; h++)
		port_violations(v, live, (int)h, owners, arena);
}

int rk_isolation_verify(struct rk_world *world, struct rk_arena *arena, struct rk_plane_check **ret, size_t *ret_n, struct rk_violation **ret_violations,
			size_t *ret_n_violations, struct rk_err *err)
{
	struct rk_live *live RK_CLEANUP_LIVE = NULL;
	struct checks c = { NULL, 0, 0 };
	struct violations v = { NULL, 0, 0, NULL };
	const struct rk_site *site = world->site;
	const struct rk_live_scope scope = { .racks = all_of(arena, site->n_racks), .fabrics = all_of(arena, site->n_fabrics),
					     .hcas = all_of(arena, site->n_hcas) };
	int rc = rk_live_read(world, &scope, &live, err);

	*ret_n = *ret_n_violations = 0;
	if (rc)
		return rc;
	v.seen = rk_map_new();
	check_nvlink(&c, live, arena);
	check_infiniband(&c, live, arena);
	find_violations(&v, live, arena);
	rc = verdict_of(&c, "isolation checks", err);
	if (v.n)
		rc = rk_err_set(err, RK_UNHEALTHY, "isolation is broken in %zu place%s", v.n, v.n == 1 ? "" : "s");
	*ret_violations = rk_arena_array(arena, v.n, sizeof(**ret_violations));
	if (v.n)
		memcpy(*ret_violations, v.items, v.n * sizeof(*v.items));
	*ret_n_violations = v.n;
	hand_over(&c, arena, ret, ret_n);
	rk_map_free(v.seen);
	free(v.items);
	return rc;
}
