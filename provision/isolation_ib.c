#include "provision/isolation_impl.h"

#include <inttypes.h>
#include <stdlib.h>

#include "inventory/base/sort.h"

/* The InfiniBand half of the proof: which keys ports hold, and which the configuration will give them. */

static bool in_pool(const struct rk_proof *p, int fabric, unsigned key)
{
	return key >= p->site->fabrics[fabric].pkey_first && key <= p->site->fabrics[fabric].pkey_last;
}

/* Remembers who holds a key that the store does not have. Two limited members do not reach each other: that is how services are shared. */
static void hold_foreign(struct rk_proof *p, int fabric, unsigned word, int tenant)
{
	size_t at;

	if (!rk_map_get_u64(p->foreign, rk_proof_key(fabric, word), &at)) {
		at = p->holders.n;
		*rk_vec_push(&p->holders) = (struct holder){ fabric, word & 0x7fffu, rk_arena_array(p->arena, p->site->n_tenants, 1) };
		rk_map_set_u64(p->foreign, rk_proof_key(fabric, word), at);
	}
	if (tenant != RK_NONE)
		p->holders.items[at].how[tenant] |= word & 0x8000u ? 2 : 1;
}

/* A port in the partition of a service, now or (configured) after the next sweep: servers are full, tenants that have it limited, and nobody else is. */
static void service_breaches(struct rk_proof *p, const struct rk_ib_service *s, uint64_t guid, bool full, const char *verb)
{
	int hca = rk_find_hca_guid(p->site, guid), tenant = hca < 0 ? RK_NONE : rk_proof_tenant_of(p, p->site->hcas[hca].tray);
	bool has = hca >= 0 && rk_ib_service_has(p->site, s, hca), server = tenant == RK_NONE && rk_ib_server(s, guid);

	if (server || (has && !full))
		return;
	const char *where = rk_arena_printf(p->arena, "%s/0x%04x", p->site->fabrics[s->fabric].name, s->pkey);
	const char *label = hca < 0 ? rk_arena_printf(p->arena, "0x%016" PRIx64, guid) : rk_hca_label(p->site, hca, p->arena);
	if (full)
		rk_proof_violate(p, "infiniband", where, tenant, RK_NONE,
			rk_arena_printf(p->arena, "port %s %s key %s of service %s as a full member and reaches every tenant that has it", label, verb, where, s->name));
	else
		rk_proof_violate(p, "infiniband", where, tenant, RK_NONE,
			rk_arena_printf(p->arena, "port %s%s %s key %s of service %s", label, tenant == RK_NONE ? ", which no tenant has," : " of a tenant that does not have it", verb, where, s->name));
}

static void port_breaches(struct rk_proof *p, int hca)
{
	const struct rk_ib_port *port = &p->live->ports[hca];
	int fabric = p->site->hcas[hca].fabric, tenant = rk_proof_tenant_of(p, p->site->hcas[hca].tray);
	const char *label = rk_hca_label(p->site, hca, p->arena), *fabric_name = p->site->fabrics[fabric].name;

	for (size_t i = 0; i < port->n_pkeys; i++) {
		unsigned word = port->pkeys[i], key = word & 0x7fffu;
		const char *where = rk_arena_printf(p->arena, "%s/0x%04x", fabric_name, key);
		size_t owner;
		if (word == RK_PKEY_DEFAULT || (key == RK_PKEY_DEFAULT && rk_map_get_u64(p->managers, port->guid, NULL)))
			continue;
		if (key == RK_PKEY_DEFAULT)
			rk_proof_violate(p, "infiniband", where, tenant, RK_NONE,
				rk_arena_printf(p->arena, "port %s is a full member of the default partition and reaches every port of %s", label, fabric_name));
		else if (rk_ib_service_of(p->site, fabric, key))
			service_breaches(p, rk_ib_service_of(p->site, fabric, key), port->guid, word & 0x8000u, "holds");
		else if (!rk_map_get_u64(p->owners, rk_proof_key(fabric, key), &owner))
			hold_foreign(p, fabric, word, tenant);
		else if ((int)owner != tenant)
			rk_proof_violate(p, "infiniband", where, tenant, (int)owner,
				rk_arena_printf(p->arena, "port %s%s holds key %s of tenant %s", label, tenant == RK_NONE ? ", which no tenant has," : "", where,
						rk_proof_tenant_name(p, (int)owner)));
		/* Two clusters of one tenant are two partitions, but no breach between tenants. */
	}
}

static void foreign_breaches(struct rk_proof *p, const struct holder *h)
{
	const char *where = rk_arena_printf(p->arena, "%s/0x%04x", p->site->fabrics[h->fabric].name, h->key);
	size_t n = p->site->n_tenants, before = p->found.n;

	for (size_t a = 0; a < n; a++)
		for (size_t b = a + 1; b < n; b++)
			if (h->how[a] && h->how[b] && ((h->how[a] | h->how[b]) & 2))
				rk_proof_violate(p, "infiniband", where, (int)a, (int)b,
					rk_arena_printf(p->arena, "ports of both hold key %s, which is not of the store, and one of them as a full member", where));
	for (size_t a = 0; a < n && in_pool(p, h->fabric, h->key) && p->found.n == before; a++)
		if (h->how[a])
			rk_proof_violate(p, "infiniband", where, (int)a, RK_NONE,
				rk_arena_printf(p->arena, "a port holds key %s of the managed range, and the store knows of no such partition", where));
	if (p->found.n == before && in_pool(p, h->fabric, h->key))
		rk_proof_violate(p, "infiniband", where, RK_NONE, RK_NONE,
			rk_arena_printf(p->arena, "a port of no tenant holds key %s of the managed range, and the store knows of no such partition", where));
	if (p->found.n > before)
		rk_proof_add_row(p, "infiniband", where, RK_NONE, before, false, NULL);
}

/* What the configuration says will be in the tables after the next sweep. */
static void configured_breaches(struct rk_proof *p, int fabric, const struct rk_ib_live *part)
{
	const char *where = rk_arena_printf(p->arena, "%s/0x%04x", p->site->fabrics[fabric].name, part->pkey);
	size_t owner;
	bool owned = rk_map_get_u64(p->owners, rk_proof_key(fabric, part->pkey), &owner);
	const struct rk_ib_service *service = rk_ib_service_of(p->site, fabric, part->pkey);

	for (size_t i = 0; i < part->n_members; i++) {
		int hca = rk_find_hca_guid(p->site, part->members[i].guid), tenant = hca < 0 ? RK_NONE : rk_proof_tenant_of(p, p->site->hcas[hca].tray);
		if (part->pkey == RK_PKEY_DEFAULT) {
			if (tenant != RK_NONE && part->members[i].full)
				rk_proof_violate(p, "infiniband", where, tenant, RK_NONE,
					rk_arena_printf(p->arena, "the configuration makes port %s a full member of the default partition", rk_hca_label(p->site, hca, p->arena)));
		} else if (service) {
			service_breaches(p, service, part->members[i].guid, part->members[i].full, "is given by the configuration");
		} else if (!owned) {
			if (tenant != RK_NONE || in_pool(p, fabric, part->pkey))
				hold_foreign(p, fabric, part->pkey | (part->members[i].full ? 0x8000u : 0), tenant);
		} else if (tenant != (int)owner) {
			rk_proof_violate(p, "infiniband", where, tenant, (int)owner,
				rk_arena_printf(p->arena, "the configuration gives key %s of tenant %s to port 0x%016" PRIx64 "%s%s", where, rk_proof_tenant_name(p, (int)owner),
						part->members[i].guid, tenant == RK_NONE ? "" : " of tenant ", tenant == RK_NONE ? "" : rk_proof_tenant_name(p, tenant)));
		}
	}
}

static bool fabric_used(const struct rk_proof *p, int fabric)
{
	for (size_t h = 0; h < p->site->n_hcas; h++)
		if (p->site->hcas[h].fabric == fabric && rk_proof_cluster_of(p, p->site->hcas[h].tray) != RK_NONE)
			return true;
	return false;
}

static void find_managers(struct rk_proof *p, int fabric)
{
	const struct rk_ib_live *standard = rk_live_ib_part(p->live, fabric, RK_PKEY_DEFAULT);

	for (size_t i = 0; standard && i < standard->n_members; i++) {
		int hca = rk_find_hca_guid(p->site, standard->members[i].guid);
		if (standard->members[i].full && (hca < 0 || rk_proof_tenant_of(p, p->site->hcas[hca].tray) == RK_NONE))
			rk_map_set_u64(p->managers, standard->members[i].guid, 1);
	}
}

/* A file that OpenSM would reject, or that is not there, opens the whole fabric at the next sweep. */
static void prove_configuration(struct rk_proof *p, int fabric)
{
	const struct rk_live_ib *f = &p->live->ib[fabric];
	const char *name = p->site->fabrics[fabric].name;
	bool used = fabric_used(p, fabric);
	size_t before = p->found.n;

	if (!f->read && (f->rc == RK_UNHEALTHY || f->rc == RK_NOT_FOUND))
		rk_proof_violate(p, "infiniband", name, RK_NONE, RK_NONE, rk_arena_printf(p->arena, "the subnet manager's configuration is broken: %s", f->why));
	else if (!f->read && !used) {
		rk_check_add(&p->checks, "infiniband", name, "skipped", NULL, NULL, rk_arena_printf(p->arena, "no tenant is on this fabric; %s", f->why));
		return;
	}
	for (size_t i = 0; i < f->n; i++)
		if (f->parts[i].pkey == RK_PKEY_DEFAULT)
			configured_breaches(p, fabric, &f->parts[i]);
	rk_proof_add_row(p, "infiniband", name, RK_NONE, before, !f->read, f->read ? NULL : f->why);
}

static int cmp_int(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

static void add_ports(const struct rk_proof *p, int fabric, const struct rk_tray *t, int *hcas, size_t *n)
{
	for (int h = t->first_hca; h < t->first_hca + t->n_hcas; h++)
		if (p->site->hcas[h].fabric == fabric)
			hcas[(*n)++] = h;
}

/* HCAs on the fabric of the cluster, or of nobody (RK_NONE), in the order of the site. */
static size_t ports_of(const struct rk_proof *p, int fabric, int cluster, int **ret)
{
	const struct rk_site *site = p->site;
	const struct rk_cluster *c = cluster == RK_NONE ? NULL : &site->clusters[cluster];
	size_t n = 0, most = 0;

	for (int v = c ? c->first_vm : 0; c && v < c->first_vm + c->n_vms; v++)
		most += site->vms[v].tray == RK_NONE ? 0 : (size_t)site->trays[site->vms[v].tray].n_hcas;
	*ret = rk_arena_array(p->arena, c ? most : site->n_hcas, sizeof(**ret));
	for (int v = c ? c->first_vm : 0; c && v < c->first_vm + c->n_vms; v++)
		if (site->vms[v].tray != RK_NONE)
			add_ports(p, fabric, &site->trays[site->vms[v].tray], *ret, &n);
	for (size_t t = 0; !c && t < site->n_trays; t++)
		if (site->trays[t].vm == RK_NONE)
			add_ports(p, fabric, &site->trays[t], *ret, &n);
	rk_sort(*ret, n, sizeof(**ret), cmp_int);
	return n;
}

/* Those that are down or were not read. */
static void look_for_ports(struct rk_proof *p, int fabric, int cluster, struct rk_names *down, struct rk_names *unknown, const char **why)
{
	bool used = cluster != RK_NONE || fabric_used(p, fabric);
	int *hcas;
	size_t n = ports_of(p, fabric, cluster, &hcas);

	for (size_t i = 0; i < n; i++) {
		const struct rk_ib_port *port = &p->live->ports[hcas[i]];
		/* A free port without identity cannot be asked; what the configuration gives to ports that nobody knows is told by their GUIDs. */
		if (port->known || (cluster == RK_NONE && (!used || !p->site->hcas[hcas[i]].port_guid)))
			continue;
		*rk_vec_push(port->down ? down : unknown) = rk_hca_label(p->site, hcas[i], p->arena);
		*why = port->down || *why ? *why : port->why;
	}
}

/* before: how many violations there were before those of this partition. */
static void ports_row(struct rk_proof *p, int fabric, const char *object, int cluster, size_t before)
{
	struct rk_names down = { NULL, 0, 0 }, unknown = { NULL, 0, 0 };
	const char *why = NULL, *message = NULL;

	look_for_ports(p, fabric, cluster, &down, &unknown, &why);
	if (unknown.n)
		message = rk_arena_printf(p->arena, "not read: %s: %s", rk_nodeset_fold(p->arena, unknown.items, unknown.n), why);
	else if (down.n)
		message = rk_arena_printf(p->arena, "%s without a link: reaches nobody", rk_nodeset_fold(p->arena, down.items, down.n));
	if (cluster != RK_NONE || unknown.n || p->found.n > before)
		rk_proof_add_row(p, "infiniband", object, cluster, before, unknown.n != 0, message);
	free(down.items);
	free(unknown.items);
}

static void prove_ports(struct rk_proof *p, int fabric, int cluster)
{
	int *hcas;
	size_t n = ports_of(p, fabric, cluster, &hcas);

	for (size_t i = 0; i < n; i++)
		port_breaches(p, hcas[i]);
}

/* Its tenants' ports were looked at with their clusters, or are. */
static void prove_service(struct rk_proof *p, int fabric, const struct rk_ib_service *s)
{
	const struct rk_ib_live *live = rk_live_ib_part(p->live, fabric, s->pkey);
	size_t before = p->found.n;

	if (live)
		configured_breaches(p, fabric, live);
	rk_proof_add_row(p, "infiniband", rk_arena_printf(p->arena, "%s/0x%04x", p->site->fabrics[fabric].name, s->pkey), RK_NONE, before, !p->live->ib[fabric].read,
			 p->live->ib[fabric].read ? rk_arena_printf(p->arena, "service %s: shared, tenants are limited members", s->name) : p->live->ib[fabric].why);
}

void rk_proof_fabric(struct rk_proof *p, int fabric)
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
	for (size_t i = 0; i < p->site->n_ib_services; i++)
		if (p->site->ib_services[i].fabric == fabric)
			prove_service(p, fabric, &p->site->ib_services[i]);
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
