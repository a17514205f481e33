#include "inventory/model.h"

#include <string.h>

#include "inventory/base/map.h"

struct rk_site_index {
	struct rk_map *racks, *trays, *clusters, *vms, *tenants, *images, *fabrics, *gpus, *hcas;
};

const char *rk_tray_state_name(enum rk_tray_state state)
{
	static const char *const names[] = { "free", "allocated", "cordoned", "spare", "faulty", "offline" };

	return names[state];
}

const char *rk_cluster_state_name(enum rk_cluster_state state)
{
	static const char *const names[] = { "planned", "building", "ready", "degraded", "deleting", "failed" };

	return names[state];
}

const char *rk_vm_host_name(const struct rk_vm *vm)
{
	return vm->host_name ? vm->host_name : vm->name;
}

const char *rk_vm_state_name(enum rk_vm_state state)
{
	static const char *const names[] = { "planned", "building", "running", "stopped", "failed", "unknown" };

	return names[state];
}

struct rk_site *rk_site_new(void)
{
	struct rk_arena *arena = rk_arena_new();
	struct rk_site *site = rk_xcalloc(1, sizeof(*site));

	site->arena = arena;
	site->pool = "default";
	return site;
}

static void free_index(struct rk_site_index *index)
{
	if (!index)
		return;
	struct rk_map *maps[] = { index->racks, index->trays,  index->clusters, index->vms, index->tenants,
				  index->images, index->fabrics, index->gpus,     index->hcas };
	for (size_t i = 0; i < RK_ARRAY_SIZE(maps); i++)
		rk_map_free(maps[i]);
	free(index);
}

void rk_site_free(struct rk_site *site)
{
	if (!site)
		return;
	free_index(site->index);
	rk_arena_free(site->arena);
	free(site);
}

void rk_cleanup_site(struct rk_site **site)
{
	rk_site_free(*site);
}

#define INDEX_NAMES(map, array, count)                           \
	({                                                       \
		struct rk_map *map_ = rk_map_new();              \
		for (size_t i_ = 0; i_ < (count); i_++)          \
			rk_map_add(map_, (array)[i_].name, i_, NULL); \
		(map) = map_;                                    \
	})

static void build_index(struct rk_site *site)
{
	struct rk_site_index *index = rk_xcalloc(1, sizeof(*index));

	INDEX_NAMES(index->racks, site->racks, site->n_racks);
	INDEX_NAMES(index->trays, site->trays, site->n_trays);
	INDEX_NAMES(index->clusters, site->clusters, site->n_clusters);
	INDEX_NAMES(index->vms, site->vms, site->n_vms);
	INDEX_NAMES(index->tenants, site->tenants, site->n_tenants);
	INDEX_NAMES(index->images, site->images, site->n_images);
	INDEX_NAMES(index->fabrics, site->fabrics, site->n_fabrics);
	index->gpus = rk_map_new();
	index->hcas = rk_map_new();
	for (size_t i = 0; i < site->n_gpus; i++)
		if (site->gpus[i].fabric_guid)
			rk_map_add_u64(index->gpus, site->gpus[i].fabric_guid, i, NULL);
	for (size_t i = 0; i < site->n_hcas; i++)
		if (site->hcas[i].port_guid)
			rk_map_add_u64(index->hcas, site->hcas[i].port_guid, i, NULL);
	free_index(site->index);
	site->index = index;
}

/* The highest free trays of a rack count as its spares. */
static void mark_spares(struct rk_site *site, const struct rk_rack *rack)
{
	int left = rk_rack_spares(site, (int)(rack - site->racks));

	for (int t = rack->first_tray + rack->n_trays - 1; t >= rack->first_tray; t--) {
		site->trays[t].spare = false;
		if (left > 0 && rk_tray_state(site, t) == RK_TRAY_FREE) {
			site->trays[t].spare = true;
			left--;
		}
	}
}

void rk_site_seal(struct rk_site *site)
{
	build_index(site);
	for (size_t t = 0; t < site->n_trays; t++) {
		site->trays[t].vm = RK_NONE;
		site->trays[t].spare = false;
	}
	for (size_t v = 0; v < site->n_vms; v++)
		if (site->vms[v].tray >= 0)
			site->trays[site->vms[v].tray].vm = (int)v;
	for (size_t r = 0; r < site->n_racks; r++)
		mark_spares(site, &site->racks[r]);
}

#define OWN_ARRAY(site, array, n)                                                                   \
	do {                                                                                        \
		void *own_ = rk_arena_array((site)->arena, (site)->n, sizeof(*(site)->array));      \
		if ((site)->n)                                                                      \
			memcpy(own_, (site)->array, (site)->n * sizeof(*(site)->array));            \
		(site)->array = own_;                                                               \
	} while (0)

struct rk_site *rk_site_share(const struct rk_site *site)
{
	struct rk_site *own = rk_site_new();
	struct rk_arena *arena = own->arena;

	*own = *site;
	own->arena = arena;
	own->index = NULL;
	OWN_ARRAY(own, profiles, n_profiles);
	OWN_ARRAY(own, fabrics, n_fabrics);
	OWN_ARRAY(own, racks, n_racks);
	OWN_ARRAY(own, trays, n_trays);
	OWN_ARRAY(own, gpus, n_gpus);
	OWN_ARRAY(own, hcas, n_hcas);
	OWN_ARRAY(own, parts, n_parts);
	OWN_ARRAY(own, images, n_images);
	OWN_ARRAY(own, tenants, n_tenants);
	OWN_ARRAY(own, clusters, n_clusters);
	OWN_ARRAY(own, vms, n_vms);
	OWN_ARRAY(own, nvl_partitions, n_nvl_partitions);
	OWN_ARRAY(own, ib_partitions, n_ib_partitions);
	OWN_ARRAY(own, reservations, n_reservations);
	OWN_ARRAY(own, silences, n_silences);
	rk_site_seal(own);
	return own;
}

static int look_up(const struct rk_map *map, const char *name)
{
	size_t at;

	return map && name && rk_map_get(map, name, &at) ? (int)at : RK_NONE;
}

static int look_up_u64(const struct rk_map *map, uint64_t key)
{
	size_t at;

	return map && key && rk_map_get_u64(map, key, &at) ? (int)at : RK_NONE;
}

#define FINDER(function, member)                                                  \
	int function(const struct rk_site *site, const char *name)                \
	{                                                                         \
		return site->index ? look_up(site->index->member, name) : RK_NONE; \
	}

FINDER(rk_find_rack, racks)
FINDER(rk_find_tray, trays)
FINDER(rk_find_cluster, clusters)
FINDER(rk_find_vm, vms)
FINDER(rk_find_tenant, tenants)
FINDER(rk_find_image, images)
FINDER(rk_find_fabric, fabrics)

int rk_find_gpu_guid(const struct rk_site *site, uint64_t fabric_guid)
{
	return site->index ? look_up_u64(site->index->gpus, fabric_guid) : RK_NONE;
}

int rk_find_hca_guid(const struct rk_site *site, uint64_t port_guid)
{
	return site->index ? look_up_u64(site->index->hcas, port_guid) : RK_NONE;
}

static bool component_before(const struct rk_component *c, int rack, int tray)
{
	return c->rack != rack ? c->rack < rack : c->tray < tray;
}

const struct rk_component *rk_components(const struct rk_site *site, int rack, int tray, size_t *ret_n)
{
	size_t low = 0, high = site->n_parts, n = 0;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (component_before(&site->parts[mid], rack, tray))
			low = mid + 1;
		else
			high = mid;
	}
	while (low + n < site->n_parts && site->parts[low + n].rack == rack && site->parts[low + n].tray == tray)
		n++;
	*ret_n = n;
	return site->parts + low;
}

enum rk_tray_state rk_tray_state(const struct rk_site *site, int tray)
{
	const struct rk_tray *t = &site->trays[tray];

	if (t->offline)
		return RK_TRAY_OFFLINE;
	if (t->faulty || t->leak)
		return RK_TRAY_FAULTY;
	if (t->vm >= 0)
		return RK_TRAY_ALLOCATED;
	if (t->cordon || site->racks[t->rack].cordon)
		return RK_TRAY_CORDONED;
	return t->spare ? RK_TRAY_SPARE : RK_TRAY_FREE;
}

int rk_rack_spares(const struct rk_site *site, int rack)
{
	const struct rk_rack *r = &site->racks[rack];
	int spares = r->spares;

	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++) {
		int vm = site->trays[t].vm, wanted = vm >= 0 ? site->clusters[site->vms[vm].cluster].spares_per_rack : 0;
		spares = wanted > spares ? wanted : spares;
	}
	return spares;
}

int rk_rack_leaks(const struct rk_site *site, int rack)
{
	const struct rk_rack *r = &site->racks[rack];
	int leaks = 0;

	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++)
		leaks += site->trays[t].leak != NULL;
	return leaks;
}

double rk_rack_kw_committed(const struct rk_site *site, int rack)
{
	const struct rk_rack *r = &site->racks[rack];
	int allocated = 0;

	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++)
		allocated += site->trays[t].vm >= 0;
	return allocated * site->profiles[r->profile].tray_kw;
}
