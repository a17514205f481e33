#include "provision/verify.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading -------------------------------------------------------------------------------------------------------------------- */

static const char *reason(struct rk_arena *arena, const struct rk_err *err)
{
	return err->message ? rk_arena_strdup(arena, err->message) : "no reason given";
}

static void read_rack(void *ctx, size_t i)
{
	struct rk_live *live = ctx;
	struct rk_live_nvl *r = &live->nvl[i];
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	if (!live->scope->racks || !live->scope->racks[i] || !rk_rack_has_nvlink(live->site, (int)i))
		return;
	r->read = live->world->nvl->ops->list(live->world->nvl, (int)i, live->arenas[i], &r->parts, &r->n, &err) == 0;
	if (!r->read) {
		r->why = reason(live->arenas[i], &err);
		return;
	}
	r->at = rk_map_new();
	for (size_t p = 0; p < r->n; p++)
		for (size_t g = 0; g < r->parts[p].n_gpus; g++)
			rk_map_set_u64(r->at, r->parts[p].gpus[g], (size_t)r->parts[p].id);
}

static size_t count_servers(const struct rk_site *site, int fabric)
{
	size_t n = 0;

	for (size_t s = 0; s < site->n_ib_services; s++)
		n += site->ib_services[s].fabric == fabric ? site->ib_services[s].n_servers : 0;
	return n;
}

static void read_tables(struct rk_live *live, int fabric, struct rk_arena *arena)
{
	const struct rk_site *site = live->site;
	size_t most = site->n_hcas + count_servers(site, fabric), n = 0;
	uint64_t *guids = rk_arena_array(arena, most, sizeof(*guids));
	int *hcas = rk_arena_array(arena, site->n_hcas, sizeof(*hcas));
	struct rk_ib_port *ports = rk_arena_array(arena, most, sizeof(*ports));
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	for (size_t h = 0; live->scope->hcas && h < site->n_hcas; h++)
		if (live->scope->hcas[h] && site->hcas[h].fabric == fabric && site->hcas[h].port_guid) {
			hcas[n] = (int)h;
			guids[n++] = site->hcas[h].port_guid;
		}
	size_t all = n;
	for (size_t s = 0; s < site->n_ib_services; s++)
		for (size_t i = 0; site->ib_services[s].fabric == fabric && i < site->ib_services[s].n_servers; i++)
			guids[all++] = site->ib_services[s].servers[i];
	bool read = all && live->world->ib->ops->tables(live->world->ib, fabric, guids, all, arena, ports, &err) == 0;
	const char *why = read ? NULL : reason(arena, &err);
	for (size_t i = 0; i < all; i++)
		ports[i] = read ? ports[i] : (struct rk_ib_port){ .guid = guids[i], .why = why };
	for (size_t i = 0; i < n; i++)
		live->ports[hcas[i]] = ports[i];
	for (size_t s = 0; s < site->n_ib_services; s++)
		if (site->ib_services[s].fabric == fabric) {
			live->servers[s] = ports + n;
			n += site->ib_services[s].n_servers;
		}
}

static void read_fabric(struct rk_live *live, int fabric)
{
	struct rk_arena *arena = live->arenas[live->site->n_racks + (size_t)fabric];
	struct rk_live_ib *f = &live->ib[fabric];
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	if (!live->scope->fabrics || !live->scope->fabrics[fabric])
		return;
	f->rc = live->world->ib->ops->list(live->world->ib, fabric, arena, &f->parts, &f->n, &err);
	f->read = f->rc == 0;
	if (!f->read)
		f->why = reason(arena, &err);
	read_tables(live, fabric, arena);
}

static void read_tray(struct rk_live *live, int tray)
{
	struct rk_arena *arena = live->arenas[live->site->n_racks + live->site->n_fabrics + (size_t)tray];
	struct rk_live_tray *t = &live->trays[tray];
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	if (!live->scope->trays || !live->scope->trays[tray])
		return;
	t->read = live->world->hv->ops->domain_list(live->world->hv, tray, arena, &t->domains, &t->n, &err) == 0;
	if (!t->read)
		t->why = reason(arena, &err);
}

static void read_one(void *ctx, size_t i)
{
	struct rk_live *live = ctx;

	live->arenas[i] = rk_arena_new();
	if (i < live->site->n_racks)
		read_rack(live, i);
	else if (i < live->site->n_racks + live->site->n_fabrics)
		read_fabric(live, (int)(i - live->site->n_racks));
	else
		read_tray(live, (int)(i - live->site->n_racks - live->site->n_fabrics));
}

static void mark_unknown_guids(struct rk_live *live)
{
	for (size_t h = 0; h < live->site->n_hcas; h++)
		if (!live->ports[h].known && !live->ports[h].why)
			live->ports[h].why = live->site->hcas[h].port_guid ? "not read" : "its port GUID is not known";
}

int rk_live_read(struct rk_world *world, const struct rk_live_scope *scope, struct rk_live **ret, struct rk_err *err)
{
	const struct rk_site *site = world->site;
	struct rk_live *live RK_CLEANUP_LIVE = NULL;
	int rc = rk_world_drivers(world, err);

	if (rc)
		return rc;
	live = rk_xcalloc(1, sizeof(*live));
	live->world = world;
	live->site = site;
	live->scope = scope;
	live->n_arenas = site->n_racks + site->n_fabrics + site->n_trays;
	live->arenas = rk_xcalloc(live->n_arenas + 1, sizeof(struct rk_arena *));
	live->nvl = rk_xcalloc(site->n_racks + 1, sizeof(*live->nvl));
	live->ib = rk_xcalloc(site->n_fabrics + 1, sizeof(*live->ib));
	live->ports = rk_xcalloc(site->n_hcas + 1, sizeof(*live->ports));
	live->servers = rk_xcalloc(site->n_ib_services + 1, sizeof(*live->servers));
	live->trays = rk_xcalloc(site->n_trays + 1, sizeof(*live->trays));
	rk_fanout(live->n_arenas, world->jobs, read_one, live);
	if (world->cancel && *world->cancel)
		return rk_err_set(err, RK_CANCELLED, "cancelled while reading the site");
	mark_unknown_guids(live);
	*ret = rk_steal(&live);
	return 0;
}

void rk_live_free(struct rk_live *live)
{
	if (!live)
		return;
	for (size_t r = 0; r < live->site->n_racks; r++)
		rk_map_free(live->nvl[r].at);
	for (size_t i = 0; i < live->n_arenas; i++)
		rk_arena_free(live->arenas[i]);
	free(live->arenas);
	free(live->nvl);
	free(live->ib);
	free(live->ports);
	free(live->servers);
	free(live->trays);
	free(live);
}

void rk_cleanup_live(struct rk_live **live)
{
	rk_live_free(*live);
}

/* ---- looking at it --------------------------------------------------------------------------------------------------------------- */

int rk_tray_cluster(const struct rk_site *site, int tray)
{
	int vm = site->trays[tray].vm;

	return vm == RK_NONE ? RK_NONE : site->vms[vm].cluster;
}

bool rk_rack_has_nvlink(const struct rk_site *site, int rack)
{
	return site->profiles[site->racks[rack].profile].switch_trays > 0;
}

const char *rk_gpu_label(const struct rk_site *site, int gpu, struct rk_arena *arena)
{
	return rk_arena_printf(arena, "%s/%d", site->trays[site->gpus[gpu].tray].name, site->gpus[gpu].index);
}

const char *rk_hca_label(const struct rk_site *site, int hca, struct rk_arena *arena)
{
	return rk_arena_printf(arena, "%s/%d", site->trays[site->hcas[hca].tray].name, site->hcas[hca].rail);
}

int rk_live_gpu(const struct rk_live *live, int gpu)
{
	const struct rk_gpu *g = &live->site->gpus[gpu];
	const struct rk_live_nvl *rack = &live->nvl[live->site->trays[g->tray].rack];
	size_t id = 0;

	if (!rack->read || !g->fabric_guid)
		return RK_NONE;
	return rk_map_get_u64(rack->at, g->fabric_guid, &id) ? (int)id : 0;
}

const struct rk_nvl_live *rk_live_nvl_part(const struct rk_live *live, int partition)
{
	const struct rk_nvl_partition *p = &live->site->nvl_partitions[partition];
	const struct rk_live_nvl *rack = &live->nvl[p->rack];

	for (size_t i = 0; i < rack->n; i++)
		if (rk_nvl_is(&rack->parts[i], p->id, p->name))
			return &rack->parts[i];
	return NULL;
}

const struct rk_ib_live *rk_live_ib_part(const struct rk_live *live, int fabric, uint16_t pkey)
{
	for (size_t i = 0; i < live->ib[fabric].n; i++)
		if (live->ib[fabric].parts[i].pkey == pkey)
			return &live->ib[fabric].parts[i];
	return NULL;
}

static bool of_one_tray(const struct rk_site *site, int rack, const struct rk_nvl_live *part)
{
	int tray = rk_nvl_tray_of(site, rack, part);

	for (size_t i = 0; tray != RK_NONE && i < part->n_gpus; i++) {
		int gpu = rk_find_gpu_guid(site, part->gpus[i]);
		if (gpu < 0 || site->gpus[gpu].tray != tray)
			return false;
	}
	return tray != RK_NONE;
}

bool rk_nvl_in_store(const struct rk_site *site, int rack, const struct rk_nvl_live *part)
{
	for (size_t i = 0; i < site->n_nvl_partitions; i++)
		if (site->nvl_partitions[i].rack == rack && rk_nvl_is(part, site->nvl_partitions[i].id, site->nvl_partitions[i].name))
			return true;
	return part->id == RK_NVL_DEFAULT || of_one_tray(site, rack, part);
}

bool rk_ib_in_store(const struct rk_site *site, int fabric, uint16_t pkey)
{
	for (size_t i = 0; i < site->n_ib_partitions; i++)
		if (site->ib_partitions[i].fabric == fabric && site->ib_partitions[i].pkey == pkey)
			return true;
	return pkey == RK_PKEY_DEFAULT || rk_ib_service_of(site, fabric, pkey);
}

bool rk_live_port_has(const struct rk_live *live, int hca, unsigned word)
{
	for (size_t i = 0; i < live->ports[hca].n_pkeys; i++)
		if (live->ports[hca].pkeys[i] == word)
			return true;
	return false;
}

/* ---- differences ------------------------------------------------------------------------------------------------------------------ */

static void note(struct rk_names *names, const char *name)
{
	*rk_vec_push(names) = name;
}

static void note_unknown(struct rk_member_diff *d, const char *name, const char *why)
{
	note(&d->unknown, name);
	d->why = d->why ? d->why : why;
}

void rk_member_diff_clear(struct rk_member_diff *diff)
{
	free(diff->missing.items);
	free(diff->extra.items);
	free(diff->unknown.items);
	free(diff->wrong.items);
	free(diff->down.items);
	*diff = (struct rk_member_diff){ .wanted = 0 };
}

static void nvl_extras(const struct rk_live *live, const struct rk_nvl_live *part, int cluster, struct rk_arena *arena, struct rk_member_diff *d)
{
	for (size_t i = 0; part && i < part->n_gpus; i++) {
		int gpu = rk_find_gpu_guid(live->site, part->gpus[i]);
		if (gpu < 0)
			note(&d->extra, rk_arena_printf(arena, "0x%016" PRIx64, part->gpus[i]));
		else if (rk_tray_cluster(live->site, live->site->gpus[gpu].tray) != cluster)
			note(&d->extra, rk_gpu_label(live->site, gpu, arena));
	}
}

void rk_live_nvl_diff(const struct rk_live *live, int partition, struct rk_arena *arena, struct rk_member_diff *ret)
{
	const struct rk_site *site = live->site;
	const struct rk_nvl_partition *p = &site->nvl_partitions[partition];
	const struct rk_rack *rack = &site->racks[p->rack];
	const struct rk_nvl_live *part = rk_live_nvl_part(live, partition);

	*ret = (struct rk_member_diff){ .wanted = 0 };
	for (int t = rack->first_tray; t < rack->first_tray + rack->n_trays; t++) {
		if (rk_tray_cluster(site, t) != p->cluster)
			continue;
		for (int g = site->trays[t].first_gpu; g < site->trays[t].first_gpu + site->trays[t].n_gpus; g++) {
			int at = rk_live_gpu(live, g);
			bool here = part && part->id == p->id && at == p->id;
			ret->wanted++;
			ret->there += here;
			if (at == RK_NONE)
				note_unknown(ret, rk_gpu_label(site, g, arena), live->nvl[p->rack].read ? "its fabric GUID is not known" : live->nvl[p->rack].why);
			else if (!here)
				note(&ret->missing, rk_gpu_label(site, g, arena));
		}
	}
	nvl_extras(live, part, p->cluster, arena, ret);
}

/* A shared service (storage), in which a tenant is limited: of the store, or a key outside the pool that the manager's configuration has. */
static bool shared_service(const struct rk_live *live, int hca, unsigned word)
{
	int fabric = live->site->hcas[hca].fabric;
	const struct rk_fabric *f = &live->site->fabrics[fabric];
	const struct rk_ib_service *s = rk_ib_service_of(live->site, fabric, word & 0x7fffu);
	if (s)
		return !(word & 0x8000u) && rk_ib_service_has(live->site, s, hca);
	const struct rk_ib_live *part = word & 0x8000u ? NULL : rk_live_ib_part(live, fabric, (uint16_t)word);

	return part && !part->ours && (word < f->pkey_first || word > f->pkey_last);
}

/* A tenant's port holds its own key, limited membership of the default partition and of shared services, nothing else. */
static bool only_ours(const struct rk_live *live, int hca, unsigned word)
{
	const struct rk_ib_port *port = &live->ports[hca];

	for (size_t i = 0; i < port->n_pkeys; i++)
		if (port->pkeys[i] != word && port->pkeys[i] != RK_PKEY_DEFAULT && !shared_service(live, hca, port->pkeys[i]))
			return false;
	return true;
}

static void ib_member(const struct rk_live *live, int hca, unsigned word, struct rk_arena *arena, struct rk_member_diff *d)
{
	const struct rk_ib_port *port = &live->ports[hca];

	d->wanted++;
	if (port->down) {
		note(&d->down, rk_hca_label(live->site, hca, arena));
		return;
	}
	if (!port->known) {
		note_unknown(d, rk_hca_label(live->site, hca, arena), port->why);
		return;
	}
	if (rk_live_port_has(live, hca, word))
		d->there++;
	else
		note(&d->missing, rk_hca_label(live->site, hca, arena));
	if (!only_ours(live, hca, word))
		note(&d->wrong, rk_hca_label(live->site, hca, arena));
}

/* Members of the manager's configuration that the store does not know of: they get the key at the next sweep. */
static void ib_configured_extras(const struct rk_live *live, const struct rk_ib_partition *p, struct rk_arena *arena, struct rk_member_diff *d)
{
	const struct rk_site *site = live->site;
	const struct rk_ib_live *part = rk_live_ib_part(live, p->fabric, p->pkey);

	for (size_t i = 0; part && i < part->n_members; i++) {
		int hca = rk_find_hca_guid(site, part->members[i].guid);
		if (hca < 0)
			note(&d->extra, rk_arena_printf(arena, "0x%016" PRIx64, part->members[i].guid));
		else if (rk_tray_cluster(site, site->hcas[hca].tray) != p->cluster && !rk_live_port_has(live, hca, p->pkey) &&
			 !rk_live_port_has(live, hca, p->pkey | 0x8000u))
			note(&d->extra, rk_hca_label(site, hca, arena));
	}
}

void rk_live_ib_diff(const struct rk_live *live, int partition, struct rk_arena *arena, struct rk_member_diff *ret)
{
	const struct rk_site *site = live->site;
	const struct rk_ib_partition *p = &site->ib_partitions[partition];
	unsigned word = p->pkey | (p->full ? 0x8000u : 0);

	*ret = (struct rk_member_diff){ .wanted = 0 };
	for (size_t h = 0; h < site->n_hcas; h++) {
		if (site->hcas[h].fabric != p->fabric)
			continue;
		if (rk_tray_cluster(site, site->hcas[h].tray) == p->cluster)
			ib_member(live, (int)h, word, arena, ret);
		else if (rk_live_port_has(live, (int)h, p->pkey) || rk_live_port_has(live, (int)h, p->pkey | 0x8000u))
			note(&ret->extra, rk_hca_label(site, (int)h, arena));
	}
	ib_configured_extras(live, p, arena, ret);
}

/* ---- services ------------------------------------------------------------------------------------------------------------------------- */

static void service_port(const struct rk_ib_port *port, const char *label, unsigned word, struct rk_member_diff *d)
{
	bool has = false, other = false;

	d->wanted++;
	for (size_t i = 0; i < port->n_pkeys; i++) {
		has |= port->pkeys[i] == word;
		other |= port->pkeys[i] == (word ^ 0x8000u);
	}
	d->there += has;
	if (port->down)
		note(&d->down, label);
	else if (!port->known)
		note_unknown(d, label, port->why);
	else if (!has)
		note(&d->missing, label);
	if (other)
		note(&d->wrong, label);
}

void rk_live_service_diff(const struct rk_live *live, int service, struct rk_arena *arena, struct rk_member_diff *ret)
{
	const struct rk_site *site = live->site;
	const struct rk_ib_service *s = &site->ib_services[service];
	const struct rk_ib_live *part = rk_live_ib_part(live, s->fabric, s->pkey);

	*ret = (struct rk_member_diff){ .wanted = 0 };
	for (size_t i = 0; i < s->n_servers; i++) {
		int hca = rk_find_hca_guid(site, s->servers[i]);
		service_port(&live->servers[service][i], hca < 0 ? rk_arena_printf(arena, "0x%016" PRIx64, s->servers[i]) : rk_hca_label(site, hca, arena), s->pkey | 0x8000u, ret);
	}
	for (size_t h = 0; h < site->n_hcas; h++) {
		if (site->hcas[h].fabric != s->fabric || rk_ib_server(s, site->hcas[h].port_guid))
			continue;
		if (rk_ib_service_has(site, s, (int)h))
			service_port(&live->ports[h], rk_hca_label(site, (int)h, arena), s->pkey, ret);
		else if (rk_live_port_has(live, (int)h, s->pkey) || rk_live_port_has(live, (int)h, s->pkey | 0x8000u))
			note(&ret->extra, rk_hca_label(site, (int)h, arena));
	}
	/* Who is not there yet, and gets the key at the next sweep. */
	for (size_t i = 0; part && i < part->n_members; i++) {
		uint64_t guid = part->members[i].guid;
		int hca = rk_find_hca_guid(site, guid);
		if (!rk_ib_server(s, guid) && (hca < 0 || (!rk_ib_service_has(site, s, hca) && !rk_live_port_has(live, hca, s->pkey) && !rk_live_port_has(live, hca, s->pkey | 0x8000u))))
			note(&ret->extra, hca < 0 ? rk_arena_printf(arena, "0x%016" PRIx64, guid) : rk_hca_label(site, hca, arena));
	}
}
