#include "provision/isolation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provision/hooks.h"
#include "provision/verify.h"

enum { PATHS_MAX = 256 };

struct proof {
	struct rk_world *world;
	const struct rk_site *site;
	const struct rk_live *live;
	struct rk_arena *arena;
	struct rk_checks checks;
	struct violations {
		struct rk_violation *items;
		size_t n, cap;
	} found;
	struct rk_map *seen;              /* violations that were told */
	struct rk_map *owners;            /* fabric << 16 | key -> tenant, of the store */
	struct rk_map *foreign;           /* fabric << 16 | key -> index into holders: keys that the store does not have */
	struct holders {
		struct holder {
			int fabric;
			unsigned key;
			unsigned char *how; /* per tenant: 1 limited, 2 full */
		} *items;
		size_t n, cap;
	} holders;
	struct rk_map *managers;          /* GUIDs that the configuration makes full members of the default partition */
};

static int cluster_of(const struct proof *p, int tray)
{
	return rk_tray_cluster(p->site, tray);
}

static int tenant_of(const struct proof *p, int tray)
{
	int cluster = cluster_of(p, tray);

	return cluster == RK_NONE ? RK_NONE : p->site->clusters[cluster].tenant;
}

static const char *tenant_name(const struct proof *p, int tenant)
{
	return tenant == RK_NONE ? NULL : p->site->tenants[tenant].name;
}

/* One per place and pair of tenants; RK_NONE: nobody, or everybody. */
static void violate(struct proof *p, const char *plane, const char *where, int a, int b, const char *what)
{
	int first = b == RK_NONE || (a != RK_NONE && a < b) ? a : b, second = first == a ? b : a;

	if (!rk_map_add(p->seen, rk_arena_printf(p->arena, "%s %s %d %d", plane, where, first, second), 1, NULL))
		return;
	*rk_vec_push(&p->found) = (struct rk_violation){ plane, what, tenant_name(p, first), tenant_name(p, second) };
}

/* A row of a place: fail when violations came up since `before`. cluster RK_NONE: of nobody. */
static void add_row(struct proof *p, const char *plane, const char *object, int cluster, size_t before, bool unknown, const char *message)
{
	bool failed = p->found.n > before;

	rk_check_add(&p->checks, plane, object, failed ? "fail" : unknown ? "unknown" : "pass", NULL, NULL, failed ? p->found.items[before].what : message);
	if (cluster != RK_NONE) {
		p->checks.items[p->checks.n - 1].cluster = p->site->clusters[cluster].name;
		p->checks.items[p->checks.n - 1].tenant = tenant_name(p, p->site->clusters[cluster].tenant);
	}
}

/* ---- NVLink ---------------------------------------------------------------------------------------------------------------------- */

/* A guest that was not started yet, or was seen dead, cannot use where its GPUs are meanwhile. */
static bool in_the_making(const struct proof *p, int tray)
{
	int vm = p->site->trays[tray].vm;
	enum rk_vm_state state = vm == RK_NONE ? RK_VM_PLANNED : p->site->vms[vm].state;

	return state == RK_VM_PLANNED || state == RK_VM_BUILDING || p->site->clusters[p->site->vms[vm].cluster].state == RK_CLUSTER_DELETING;
}

static void in_default(struct proof *p, int rack, int gpu, int tenant, const char *where)
{
	if (!in_the_making(p, p->site->gpus[gpu].tray))
		violate(p, "nvlink", where, tenant, RK_NONE,
			rk_arena_printf(p->arena, "GPU %s is in the default partition of %s, which joins everybody in the rack", rk_gpu_label(p->site, gpu, p->arena),
					p->site->racks[rack].name));
}

/* All tenants of a partition; a GPU that the store does not know is somebody's, too. */
static void partition_breaches(struct proof *p, int rack, const struct rk_nvl_live *part, const char *where)
{
	bool *holder = rk_arena_array(p->arena, p->site->n_tenants, sizeof(*holder)), known = rk_nvl_in_store(p->site, rack, part);
	const char *stranger = NULL;
	int last = RK_NONE;

	for (size_t i = 0; i < part->n_gpus; i++) {
		int gpu = rk_find_gpu_guid(p->site, part->gpus[i]), tenant = gpu < 0 ? RK_NONE : tenant_of(p, p->site->gpus[gpu].tray);
		if (gpu < 0)
			stranger = rk_arena_printf(p->arena, "0x%016" PRIx64, part->gpus[i]);
		if (tenant == RK_NONE || holder[tenant])
			continue;
		if (part->id == RK_NVL_DEFAULT) {
			in_default(p, rack, gpu, tenant, where);
			continue;
		}
		for (size_t t = 0; t < p->site->n_tenants; t++)
			if (holder[t])
				violate(p, "nvlink", where, (int)t, tenant, rk_arena_printf(p->arena, "NVLink partition %s holds GPUs of both", where));
		holder[tenant] = true;
		last = tenant;
	}
	if (part->id != RK_NVL_DEFAULT && last != RK_NONE && stranger)
		violate(p, "nvlink", rk_arena_printf(p->arena, "%s stranger", where), last, RK_NONE,
			rk_arena_printf(p->arena, "NVLink partition %s holds GPU %s, which no tray of the store has", where, stranger));
	if (!known && part->n_gpus)
		violate(p, "nvlink", rk_arena_printf(p->arena, "%s unknown", where), last, RK_NONE,
			rk_arena_printf(p->arena, "NVLink partition %s holds %zu GPUs, and the store knows of no such partition", where, part->n_gpus));
}

/* GPUs of the cluster that reach nobody, and those of which nothing is known. */
static void look_for_gpus(struct proof *p, const struct rk_nvl_partition *part, struct rk_names *loose, struct rk_names *unknown)
{
	const struct rk_rack *rack = &p->site->racks[part->rack];

	for (int t = rack->first_tray; t < rack->first_tray + rack->n_trays; t++)
		for (int g = p->site->trays[t].first_gpu; cluster_of(p, t) == part->cluster && g < p->site->trays[t].first_gpu + p->site->trays[t].n_gpus; g++) {
			int at = rk_live_gpu(p->live, g);
			if (at == 0)
				*rk_vec_push(loose) = rk_gpu_label(p->site, g, p->arena);
			else if (at == RK_NONE)
				*rk_vec_push(unknown) = rk_gpu_label(p->site, g, p->arena);
		}
}

static void own_partition(struct proof *p, const struct rk_nvl_partition *part)
{
	const char *where = rk_arena_printf(p->arena, "%s/%d", p->site->racks[part->rack].name, part->id), *message = NULL;
	const struct rk_nvl_live *live = rk_live_nvl_part(p->live, part->rack, part->id);
	struct rk_names loose = { NULL, 0, 0 }, unknown = { NULL, 0, 0 };
	size_t before = p->found.n;

	if (live)
		partition_breaches(p, part->rack, live, where);
	look_for_gpus(p, part, &loose, &unknown);
	if (unknown.n)
		message = rk_arena_printf(p->arena, "%s: their fabric GUIDs are not known", rk_nodeset_fold(p->arena, unknown.items, unknown.n));
	else if (loose.n)
		message = rk_arena_printf(p->arena, "%s in no partition: reaches nobody", rk_nodeset_fold(p->arena, loose.items, loose.n));
	add_row(p, "nvlink", where, part->cluster, before, unknown.n != 0, message);
	free(loose.items);
	free(unknown.items);
}

static bool rack_used(const struct proof *p, int rack)
{
	const struct rk_rack *r = &p->site->racks[rack];

	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++)
		if (cluster_of(p, t) != RK_NONE)
			return true;
	return false;
}

static void prove_rack(struct proof *p, int rack)
{
	const struct rk_live_nvl *r = &p->live->nvl[rack];
	const char *name = p->site->racks[rack].name;
	size_t before = p->found.n;

	if (!r->read) {
		rk_check_add(&p->checks, "nvlink", name, rack_used(p, rack) ? "unknown" : "skipped", NULL, NULL,
			     rk_arena_printf(p->arena, "%s%s", rack_used(p, rack) ? "" : "no tenant is in this rack; ", r->why));
		return;
	}
	for (size_t i = 0; i < r->n; i++)
		if (r->parts[i].id == RK_NVL_DEFAULT)
			partition_breaches(p, rack, &r->parts[i], rk_arena_printf(p->arena, "%s/%d", name, RK_NVL_DEFAULT));
	add_row(p, "nvlink", name, RK_NONE, before, false, NULL);
	for (size_t i = 0; i < p->site->n_nvl_partitions; i++)
		if (p->site->nvl_partitions[i].rack == rack)
			own_partition(p, &p->site->nvl_partitions[i]);
	for (size_t i = 0; i < r->n; i++) {
		if (rk_nvl_in_store(p->site, rack, &r->parts[i]))
			continue;
		const char *where = rk_arena_printf(p->arena, "%s/%d", name, r->parts[i].id);
		before = p->found.n;
		partition_breaches(p, rack, &r->parts[i], where);
		add_row(p, "nvlink", where, RK_NONE, before, false, "the store knows of no such partition; it is empty");
	}
}

/* ---- InfiniBand ------------------------------------------------------------------------------------------------------------------ */

static uint64_t key_of(int fabric, unsigned pkey)
{
	return ((uint64_t)fabric << 16) | (pkey & 0x7fffu);
}

static bool in_pool(const struct proof *p, int fabric, unsigned key)
{
	return key >= p->site->fabrics[fabric].pkey_first && key <= p->site->fabrics[fabric].pkey_last;
}

/* Remembers who holds a key that the store does not have. Two limited members do not reach each other: that is how services are shared. */
static void hold_foreign(struct proof *p, int fabric, unsigned word, int tenant)
{
	size_t at;

	if (!rk_map_get_u64(p->foreign, key_of(fabric, word), &at)) {
		at = p->holders.n;
		*rk_vec_push(&p->holders) = (struct holder){ fabric, word & 0x7fffu, rk_arena_array(p->arena, p->site->n_tenants, 1) };
		rk_map_set_u64(p->foreign, key_of(fabric, word), at);
	}
	if (tenant != RK_NONE)
		p->holders.items[at].how[tenant] |= word & 0x8000u ? 2 : 1;
}

static void port_breaches(struct proof *p, int hca)
{
	const struct rk_ib_port *port = &p->live->ports[hca];
	int fabric = p->site->hcas[hca].fabric, tenant = tenant_of(p, p->site->hcas[hca].tray);
	const char *label = rk_hca_label(p->site, hca, p->arena), *fabric_name = p->site->fabrics[fabric].name;

	for (size_t i = 0; i < port->n_pkeys; i++) {
		unsigned word = port->pkeys[i], key = word & 0x7fffu;
		const char *where = rk_arena_printf(p->arena, "%s/0x%04x", fabric_name, key);
		size_t owner;
		if (word == RK_PKEY_DEFAULT || (key == RK_PKEY_DEFAULT && rk_map_get_u64(p->managers, port->guid, NULL)))
			continue;
		if (key == RK_PKEY_DEFAULT)
			violate(p, "infiniband", where, tenant, RK_NONE,
				rk_arena_printf(p->arena, "port %s is a full member of the default partition and reaches every port of %s", label, fabric_name));
		else if (!rk_map_get_u64(p->owners, key_of(fabric, key), &owner))
			hold_foreign(p, fabric, word, tenant);
		else if ((int)owner != tenant)
			violate(p, "infiniband", where, tenant, (int)owner,
				rk_arena_printf(p->arena, "port %s%s holds key %s of tenant %s", label, tenant == RK_NONE ? ", which no tenant has," : "", where,
						tenant_name(p, (int)owner)));
		/* Two clusters of one tenant are two partitions, but no breach between tenants. */
	}
}

static void foreign_breaches(struct proof *p, const struct holder *h)
{
	const char *where = rk_arena_printf(p->arena, "%s/0x%04x", p->site->fabrics[h->fabric].name, h->key);
	size_t n = p->site->n_tenants, before = p->found.n;

	for (size_t a = 0; a < n; a++)
		for (size_t b = a + 1; b < n; b++)
			if (h->how[a] && h->how[b] && ((h->how[a] | h->how[b]) & 2))
				violate(p, "infiniband", where, (int)a, (int)b,
					rk_arena_printf(p->arena, "ports of both hold key %s, which is not of the store, and one of them as a full member", where));
	for (size_t a = 0; a < n && in_pool(p, h->fabric, h->key) && p->found.n == before; a++)
		if (h->how[a])
			violate(p, "infiniband", where, (int)a, RK_NONE,
				rk_arena_printf(p->arena, "a port holds key %s of the managed range, and the store knows of no such partition", where));
	if (p->found.n == before && in_pool(p, h->fabric, h->key))
		violate(p, "infiniband", where, RK_NONE, RK_NONE,
			rk_arena_printf(p->arena, "a port of no tenant holds key %s of the managed range, and the store knows of no such partition", where));
	if (p->found.n > before)
		add_row(p, "infiniband", where, RK_NONE, before, false, NULL);
}

/* What the configuration says will be in the tables after the next sweep. */
static void configured_breaches(struct proof *p, int fabric, const struct rk_ib_live *part)
{
	const char *where = rk_arena_printf(p->arena, "%s/0x%04x", p->site->fabrics[fabric].name, part->pkey);
	size_t owner;
	bool owned = rk_map_get_u64(p->owners, key_of(fabric, part->pkey), &owner);

	for (size_t i = 0; i < part->n_members; i++) {
		int hca = rk_find_hca_guid(p->site, part->members[i].guid), tenant = hca < 0 ? RK_NONE : tenant_of(p, p->site->hcas[hca].tray);
		if (part->pkey == RK_PKEY_DEFAULT) {
			if (tenant != RK_NONE && part->members[i].full)
				violate(p, "infiniband", where, tenant, RK_NONE,
					rk_arena_printf(p->arena, "the configuration makes port %s a full member of the default partition", rk_hca_label(p->site, hca, p->arena)));
		} else if (!owned) {
			if (tenant != RK_NONE || in_pool(p, fabric, part->pkey))
				hold_foreign(p, fabric, part->pkey | (part->members[i].full ? 0x8000u : 0), tenant);
		} else if (tenant != (int)owner) {
			violate(p, "infiniband", where, tenant, (int)owner,
				rk_arena_printf(p->arena, "the configuration gives key %s of tenant %s to port 0x%016" PRIx64 "%s%s", where, tenant_name(p, (int)owner),
						part->members[i].guid, tenant == RK_NONE ? "" : " of tenant ", tenant == RK_NONE ? "" : tenant_name(p, tenant)));
		}
	}
}

static bool fabric_used(const struct proof *p, int fabric)
{
	for (size_t h = 0; h < p->site->n_hcas; h++)
		if (p->site->hcas[h].fabric == fabric && cluster_of(p, p->site->hcas[h].tray) != RK_NONE)
			return true;
	return false;
}

static void find_managers(struct proof *p, int fabric)
{
	const struct rk_ib_live *standard = rk_live_ib_part(p->live, fabric, RK_PKEY_DEFAULT);

	for (size_t i = 0; standard && i < standard->n_members; i++) {
		int hca = rk_find_hca_guid(p->site, standard->members[i].guid);
		if (standard->members[i].full && (hca < 0 || tenant_of(p, p->site->hcas[hca].tray) == RK_NONE))
			rk_map_set_u64(p->managers, standard->members[i].guid, 1);
	}
}

/* A file that OpenSM would reject, or that is not there, opens the whole fabric at the next sweep. */
static void prove_configuration(struct proof *p, int fabric)
{
	const struct rk_live_ib *f = &p->live->ib[fabric];
	const char *name = p->site->fabrics[fabric].name;
	bool used = fabric_used(p, fabric);
	size_t before = p->found.n;

	if (!f->read && (f->rc == RK_UNHEALTHY || f->rc == RK_NOT_FOUND))
		violate(p, "infiniband", name, RK_NONE, RK_NONE, rk_arena_printf(p->arena, "the subnet manager's configuration is broken: %s", f->why));
	else if (!f->read && !used) {
		rk_check_add(&p->checks, "infiniband", name, "skipped", NULL, NULL, rk_arena_printf(p->arena, "no tenant is on this fabric; %s", f->why));
		return;
	}
	for (size_t i = 0; i < f->n; i++)
		if (f->parts[i].pkey == RK_PKEY_DEFAULT)
			configured_breaches(p, fabric, &f->parts[i]);
	add_row(p, "infiniband", name, RK_NONE, before, !f->read, f->read ? NULL : f->why);
}

/* Ports of the cluster, or of nobody (RK_NONE), that are down or were not read. */
static void look_for_ports(struct proof *p, int fabric, int cluster, struct rk_names *down, struct rk_names *unknown, const char **why)
{
	for (size_t h = 0; h < p->site->n_hcas; h++) {
		const struct rk_ib_port *port = &p->live->ports[h];
		if (p->site->hcas[h].fabric != fabric || cluster_of(p, p->site->hcas[h].tray) != cluster || port->known)
			continue;
		/* A free port without identity cannot be asked; what the configuration gives to ports that nobody knows is told by their GUIDs. */
		if (cluster == RK_NONE && (!p->site->hcas[h].port_guid || !fabric_used(p, fabric)))
			continue;
		*rk_vec_push(port->down ? down : unknown) = rk_hca_label(p->site, (int)h, p->arena);
		*why = port->down || *why ? *why : port->why;
	}
}

/* before: how many violations there were before those of this partition. */
static void ports_row(struct proof *p, int fabric, const char *object, int cluster, size_t before)
{
	struct rk_names down = { NULL, 0, 0 }, unknown = { NULL, 0, 0 };
	const char *why = NULL, *message = NULL;

	look_for_ports(p, fabric, cluster, &down, &unknown, &why);
	if (unknown.n)
		message = rk_arena_printf(p->arena, "not read: %s: %s", rk_nodeset_fold(p->arena, unknown.items, unknown.n), why);
	else if (down.n)
		message = rk_arena_printf(p->arena, "%s without a link: reaches nobody", rk_nodeset_fold(p->arena, down.items, down.n));
	if (cluster != RK_NONE || unknown.n || p->found.n > before)
		add_row(p, "infiniband", object, cluster, before, unknown.n != 0, message);
	free(down.items);
	free(unknown.items);
}

static void prove_ports(struct proof *p, int fabric, int cluster)
{
	for (size_t h = 0; h < p->site->n_hcas; h++)
		if (p->site->hcas[h].fabric == fabric && cluster_of(p, p->site->hcas[h].tray) == cluster)
			port_breaches(p, (int)h);
}

static void prove_fabric(struct proof *p, int fabric)
{
	const char *name = p->site->fabrics[fabric].name;
	const struct rk_live_ib *f = &p->live->ib[fabric];
	size_t before;

	find_managers(p, fabric);
	prove_configuration(p, fabric);
	for (size_t i = 0; i < p->site->n_ib_partitions; i++) {
		const struct rk_ib_partition *part = &p->site->ib_partitions[i];
		if (part->fabric != fabric)
			continue;
		before = p->found.n;
		const struct rk_ib_live *live = rk_live_ib_part(p->live, fabric, part->pkey);
		if (live)
			configured_breaches(p, fabric, live);
		prove_ports(p, fabric, part->cluster);
		ports_row(p, fabric, rk_arena_printf(p->arena, "%s/0x%04x", name, part->pkey), part->cluster, before);
	}
	before = p->found.n;
	prove_ports(p, fabric, RK_NONE);
	ports_row(p, fabric, rk_arena_printf(p->arena, "%s free ports", name), RK_NONE, before);
	for (size_t i = 0; i < f->n; i++)
		if (!rk_ib_in_store(p->site, fabric, f->parts[i].pkey))
			configured_breaches(p, fabric, &f->parts[i]);
	for (size_t i = 0; i < p->holders.n; i++)
		if (p->holders.items[i].fabric == fabric)
			foreign_breaches(p, &p->holders.items[i]);
}

/* ---- paths ----------------------------------------------------------------------------------------------------------------------- */

struct question {
	int a, b;                         /* partitions of the store; equal: inside */
};
struct questions {
	struct rk_ib_path *paths;
	struct question *of;
	size_t n;
};

/* Ports of the partition that can be asked about: read, and holding its key as a full member; up to two. */
static size_t two_ports(const struct proof *p, const struct rk_ib_partition *part, uint64_t ret[2])
{
	size_t n = 0;

	for (size_t h = 0; h < p->site->n_hcas && n < 2; h++)
		if (p->site->hcas[h].fabric == part->fabric && cluster_of(p, p->site->hcas[h].tray) == part->cluster && p->live->ports[h].known &&
		    rk_live_port_has(p->live, (int)h, part->pkey | 0x8000u))
			ret[n++] = p->site->hcas[h].port_guid;
	return n;
}

static void ask(struct questions *q, int a, int b, uint64_t from, uint64_t to)
{
	q->paths[q->n] = (struct rk_ib_path){ .from = from, .to = to };
	q->of[q->n++] = (struct question){ a, b };
}

/* Inside every partition, then across pairs of tenants, near neighbours first, until there are enough. */
static void choose_questions(struct proof *p, int fabric, struct questions *q)
{
	size_t n = p->site->n_ib_partitions, used = 0;
	uint64_t (*ports)[2] = rk_arena_array(p->arena, n, sizeof(*ports));
	int *part = rk_arena_array(p->arena, n, sizeof(*part));

	for (size_t i = 0; i < n; i++) {
		uint64_t two[2] = { 0, 0 };
		if (p->site->ib_partitions[i].fabric != fabric || !two_ports(p, &p->site->ib_partitions[i], two))
			continue;
		part[used] = (int)i;
		memcpy(ports[used++], two, sizeof(two));
		if (two[1] && q->n < PATHS_MAX)
			ask(q, (int)i, (int)i, two[0], two[1]);
	}
	for (size_t step = 1; step <= used / 2; step++)
		for (size_t i = 0; i < used && q->n < PATHS_MAX; i++) {
			size_t k = (i + step) % used;
			bool twice = step * 2 == used && i >= step;
			if (!twice && p->site->clusters[p->site->ib_partitions[part[i]].cluster].tenant != p->site->clusters[p->site->ib_partitions[part[k]].cluster].tenant)
				ask(q, part[i], part[k], ports[i][0], ports[k][0]);
		}
}

static void judge_paths(struct proof *p, const char *object, const struct questions *q)
{
	size_t before = p->found.n, across = 0, inside = 0, unknown = 0;
	const char *why = NULL;

	for (size_t i = 0; i < q->n; i++) {
		const struct rk_ib_path *path = &q->paths[i];
		bool same = q->of[i].a == q->of[i].b;
		int a = p->site->clusters[p->site->ib_partitions[q->of[i].a].cluster].tenant, b = p->site->clusters[p->site->ib_partitions[q->of[i].b].cluster].tenant;
		if (path->seen == RK_PATH_UNKNOWN || (same && path->seen == RK_PATH_NONE)) {
			unknown++;
			why = why ? why : path->seen == RK_PATH_UNKNOWN ? path->why : "no path inside a partition whose ports hold its key: the answers prove nothing";
		} else if (!same && path->seen == RK_PATH_FOUND) {
			violate(p, "infiniband", object, a, b, rk_arena_printf(p->arena, "the subnet administrator gives a path from port 0x%016" PRIx64 " to port 0x%016" PRIx64,
									       path->from, path->to));
		}
		across += !same;
		inside += same;
	}
	add_row(p, "infiniband", object, RK_NONE, before, unknown != 0,
		unknown ? rk_arena_printf(p->arena, "%zu of %zu paths: %s", unknown, q->n, why) :
			  rk_arena_printf(p->arena, "no path across in %zu tries, %zu inside", across, inside));
}

static void prove_paths(struct proof *p, int fabric)
{
	const char *object = rk_arena_printf(p->arena, "%s paths", p->site->fabrics[fabric].name);
	struct questions q = { rk_arena_array(p->arena, PATHS_MAX, sizeof(*q.paths)), rk_arena_array(p->arena, PATHS_MAX, sizeof(*q.of)), 0 };
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	choose_questions(p, fabric, &q);
	if (!q.n)
		return;
	int rc = p->world->ib->ops->paths(p->world->ib, fabric, q.paths, q.n, p->arena, &err);
	if (rc)
		rk_check_add(&p->checks, "infiniband", object, rc == RK_NOT_FOUND ? "skipped" : "unknown", NULL, NULL, rk_arena_strdup(p->arena, err.message));
	else
		judge_paths(p, object, &q);
}

/* ---- the whole --------------------------------------------------------------------------------------------------------------------- */

static void prove(struct proof *p, bool paths)
{
	const struct rk_site *site = p->site;

	for (size_t i = 0; i < site->n_ib_partitions; i++)
		rk_map_set_u64(p->owners, key_of(site->ib_partitions[i].fabric, site->ib_partitions[i].pkey),
			       (size_t)site->clusters[site->ib_partitions[i].cluster].tenant);
	for (size_t r = 0; r < site->n_racks; r++)
		if (rk_rack_has_nvlink(site, (int)r))
			prove_rack(p, (int)r);
	for (size_t f = 0; f < site->n_fabrics; f++) {
		prove_fabric(p, (int)f);
		if (paths)
			prove_paths(p, (int)f);
	}
}

static void proof_free(struct proof *p)
{
	rk_map_free(p->seen);
	rk_map_free(p->owners);
	rk_map_free(p->foreign);
	rk_map_free(p->managers);
	free(p->holders.items);
	free(p->found.items);
}

int rk_isolation_verify(struct rk_world *world, bool paths, struct rk_arena *arena, struct rk_isolation *ret, struct rk_err *err)
{
	struct rk_live *live RK_CLEANUP_LIVE = NULL;
	const struct rk_site *site = world->site;
	const struct rk_live_scope scope = { .racks = rk_flags_all(arena, site->n_racks), .fabrics = rk_flags_all(arena, site->n_fabrics),
					     .hcas = rk_flags_all(arena, site->n_hcas) };
	int rc = rk_live_read(world, &scope, &live, err);

	*ret = (struct rk_isolation){ .verdict = "unknown" };
	if (rc)
		return rc;
	struct proof p = { .world = world, .site = site, .live = live, .arena = arena, .seen = rk_map_new(), .owners = rk_map_new(),
			   .foreign = rk_map_new(), .managers = rk_map_new() };
	prove(&p, paths);
	if (world->cancel && *world->cancel) {
		proof_free(&p);
		free(p.checks.items);
		return rk_err_set(err, RK_CANCELLED, "cancelled while reading the site");
	}
	rc = rk_checks_verdict(&p.checks, "isolation checks", err);
	if (p.found.n)
		rc = rk_err_set(err, RK_UNHEALTHY, "isolation is broken in %zu place%s", p.found.n, p.found.n == 1 ? "" : "s");
	ret->verdict = rc == 0 ? "pass" : rc == RK_UNHEALTHY ? "fail" : "unknown";
	ret->n_violations = p.found.n;
	ret->violations = rk_arena_array(arena, p.found.n, sizeof(*ret->violations));
	if (p.found.n)
		memcpy(ret->violations, p.found.items, p.found.n * sizeof(*p.found.items));
	rk_checks_hand_over(&p.checks, arena, &ret->checks, &ret->n_checks);
	/* What comes from the readers lives in their arenas. */
	for (size_t i = 0; i < ret->n_checks; i++)
		ret->checks[i].message = rk_arena_strdup(arena, ret->checks[i].message);
	proof_free(&p);
	return rc;
}

/* ---- watching ---------------------------------------------------------------------------------------------------------------------- */

/* Equal texts mean that there is nothing new to tell. */
static void fingerprint(const struct rk_isolation *isolation, struct rk_str *ret)
{
	rk_str_add(ret, isolation->verdict);
	for (size_t i = 0; i < isolation->n_violations; i++)
		rk_str_addf(ret, "\n%s %s", isolation->violations[i].plane, isolation->violations[i].what);
}

static bool cancelled(const struct rk_world *world)
{
	return world->cancel && *world->cancel;
}

/* The site's own alarm, when isolation breaks. */
static void alarm(const struct rk_world *world, const struct rk_isolation *isolation)
{
	char count[16];
	const struct rk_hook_fact facts[] = { { "VERDICT", isolation->verdict }, { "VIOLATIONS", count },
					      { "WHAT", isolation->n_violations ? isolation->violations[0].what : NULL } };
	struct rk_err ignored RK_CLEANUP_ERR = RK_ERR_INIT;

	snprintf(count, sizeof(count), "%zu", isolation->n_violations);
	(void)rk_hook_run(world, "isolation", facts, RK_ARRAY_SIZE(facts), &ignored);
}

/* In real time also for the twin, whose clock would not let anybody wait. */
static void pause_until(const struct rk_world *world, int ms)
{
	for (int slept = 0; slept < ms && !cancelled(world); slept += 50)
		rk_clock_sleep_ms(NULL, ms - slept < 50 ? ms - slept : 50);
}

int rk_isolation_watch(struct rk_world *world, int interval_ms, rk_isolation_seen *seen, void *ctx, struct rk_err *err)
{
	struct rk_str last RK_CLEANUP_STR = RK_STR_INIT;
	bool broken = false, unknown = false;

	while (!cancelled(world)) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct rk_str now RK_CLEANUP_STR = RK_STR_INIT;
		struct rk_isolation isolation;
		int rc = rk_isolation_verify(world, false, arena, &isolation, err);
		if (rc == RK_CANCELLED)
			break;
		if (rc && rc != RK_UNHEALTHY && rc != RK_UNREACHABLE)
			return rc;
		broken |= rc == RK_UNHEALTHY;
		unknown |= rc == RK_UNREACHABLE;
		fingerprint(&isolation, &now);
		if (!rk_streq(rk_str_text(&now), rk_str_text(&last)))
			seen(ctx, &isolation);
		if (rc == RK_UNHEALTHY && !rk_streq(rk_str_text(&now), rk_str_text(&last)))
			alarm(world, &isolation);
		rk_str_reset(&last);
		rk_str_add(&last, rk_str_text(&now));
		pause_until(world, interval_ms);
		if (!cancelled(world) && (rc = rk_world_refresh(world, err)) != 0 && rc != RK_UNREACHABLE)
			return rc;
	}
	rk_err_clear(err);
	if (broken)
		return rk_err_set(err, RK_UNHEALTHY, "isolation was broken while it was watched");
	return unknown ? rk_err_set(err, RK_UNREACHABLE, "isolation was not always known while it was watched") : 0;
}
