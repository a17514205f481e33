#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/topology.h"
#include "provision/ib_counters.h"
#include "provision/sim_impl.h"

/* ---- NVLink switches --------------------------------------------------------------------------------------------------------------- */

struct sim_nvl {
	struct rk_nvl nvl;
	struct rk_sim *sim;
};

static struct rk_sim *of_nvl(struct rk_nvl *nvl)
{
	return ((struct sim_nvl *)nvl)->sim;
}

static const char *rack_name(const struct rk_nvl *nvl, int rack)
{
	return nvl->site->racks[rack].name;
}

static int cmp_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* A GPU that was never told anything is in Default, when it is there at all. */
static int partition_of(const struct rk_sim *sim, const struct rk_site *site, int rack, uint64_t guid, bool there, bool settled)
{
	int at = rk_sim_guid_at(sim, site->racks[rack].name, guid, settled);

	return at != RK_NONE ? at : there ? RK_NVL_DEFAULT : RK_NONE;
}

static void add_gpu(struct rk_nvl_live *part, uint64_t guid, int slot, int module)
{
	part->gpus[part->n_gpus] = guid;
	part->places[part->n_gpus++] = (struct rk_nvl_place){ guid, slot, module };
}

static int cmp_place(const void *a, const void *b)
{
	return cmp_u64(&((const struct rk_nvl_place *)a)->gpu, &((const struct rk_nvl_place *)b)->gpu);
}

static bool is_there(const struct rk_sim *sim, const struct rk_site *site, int rack, uint64_t guid)
{
	const struct rk_rack *r = &site->racks[rack];
	int gpu = rk_find_gpu_guid(site, guid);

	/* Nearly always it is where the store has it. */
	if (gpu >= 0 && site->trays[site->gpus[gpu].tray].rack == rack && rk_sim_gpu_guid(sim, site, gpu) == guid)
		return true;
	for (int t = r->first_tray; rk_sim_planted(sim) && t < r->first_tray + r->n_trays; t++)
		for (int g = 0; g < site->trays[t].n_gpus; g++)
			if (rk_sim_gpu_guid(sim, site, site->trays[t].first_gpu + g) == guid)
				return true;
	return false;
}

/* Fell off: its place is empty. A switch lists only what answers on its links. */
static bool fell_off(const struct rk_sim *sim, const struct rk_site *site, uint64_t guid)
{
	int gpu = rk_find_gpu_guid(site, guid);

	return gpu >= 0 && rk_sim_gpu_guid(sim, site, gpu) == 0;
}

/* The GPUs that are there, and those that left while they were members: the switch keeps them until they are taken out. */
static void fill_gpus(const struct rk_sim *sim, const struct rk_site *site, int rack, struct rk_arena *arena, struct rk_nvl_live *part)
{
	const struct rk_rack *r = &site->racks[rack];
	const char *prefix = rk_arena_printf(arena, "gpu:%s:", r->name);
	size_t first, end, most;

	rk_sim_range(sim, prefix, &first, &end);
	most = end - first;
	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++)
		most += (size_t)site->trays[t].n_gpus;
	part->gpus = rk_arena_array(arena, most, sizeof(*part->gpus));
	part->places = rk_arena_array(arena, most, sizeof(*part->places));
	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++)
		for (int g = site->trays[t].first_gpu; g < site->trays[t].first_gpu + site->trays[t].n_gpus; g++) {
			uint64_t guid = rk_sim_gpu_guid(sim, site, g);
			if (guid && partition_of(sim, site, rack, guid, true, false) == part->id)
				add_gpu(part, guid, site->trays[t].slot, site->gpus[g].module_id);
		}
	for (size_t i = first; i < end; i++) {
		uint64_t guid = strtoull(sim->items[i].key + strlen(prefix), NULL, 16);
		const char *value = rk_sim_see(sim, &sim->items[i]);
		if (value && atoi(value) == part->id && !is_there(sim, site, rack, guid) && !fell_off(sim, site, guid))
			add_gpu(part, guid, 0, 0);
	}
	qsort(part->gpus, part->n_gpus, sizeof(*part->gpus), cmp_u64);
	qsort(part->places, part->n_gpus, sizeof(*part->places), cmp_place);
}

enum { GROUPS_MAX = 1024 };               /* multicast groups of a domain, without the default partition, which gives way */

static int nvl_list(struct rk_nvl *nvl, int rack, struct rk_arena *arena, struct rk_nvl_live **ret, size_t *ret_n, struct rk_err *err)
{
	struct rk_sim *sim = of_nvl(nvl);
	struct rk_sim_call call;
	const char *prefix = rk_arena_printf(arena, "nvl:%s:", rack_name(nvl, rack));
	size_t first, end, n = 0;
	int rc = rk_sim_enter(sim, &call, "nvl.list", rack_name(nvl, rack), false, err);

	if (rc)
		return rc;
	rk_sim_range(sim, prefix, &first, &end);
	struct rk_nvl_live *parts = rk_arena_array(arena, end - first + 1, sizeof(*parts));
	for (size_t i = first; i < end; i++) {
		const char *value = rk_sim_see(sim, &sim->items[i]), *tab = value ? strchr(value, '\t') : NULL;
		if (!tab)
			continue;
		parts[n++] = (struct rk_nvl_live){ .id = atoi(sim->items[i].key + strlen(prefix)), .name = rk_arena_strndup(arena, value, (size_t)(tab - value)),
						   .health = "healthy", .resiliency = rk_arena_strndup(arena, tab + 1, strcspn(tab + 1, "\t")), .id_given = rk_nvl_gives_ids(nvl->site, rack) };
	}
	parts[n++] = (struct rk_nvl_live){ .id = RK_NVL_DEFAULT, .name = "Default Partition", .health = "healthy" };
	for (size_t i = 0; i < n; i++)
		fill_gpus(sim, nvl->site, rack, arena, &parts[i]);
	*ret = parts;
	*ret_n = n;
	return rk_sim_leave(&call, 0, err);
}

static char *nvl_key(const struct rk_nvl *nvl, int rack, int id)
{
	return rk_xasprintf("nvl:%s:%d", rack_name(nvl, rack), id);
}

/* What the twin of a rack behind NMX-M gives, as the network does: the lowest that nobody has, also one that somebody had before. */
static int lowest_free_id(const struct rk_sim *sim, const struct rk_nvl *nvl, int rack)
{
	for (int id = 1;; id++) {
		char *key RK_CLEANUP_FREE = nvl_key(nvl, rack, id);
		if (!rk_sim_get(sim, key) && !rk_sim_get_settled(sim, key))
			return id;
	}
}

/* The partition of this name; 0: none. */
static int id_named(const struct rk_sim *sim, const struct rk_nvl *nvl, int rack, const char *name)
{
	char *prefix RK_CLEANUP_FREE = rk_xasprintf("nvl:%s:", rack_name(nvl, rack));
	size_t first, end;

	rk_sim_range(sim, prefix, &first, &end);
	for (size_t i = first; i < end; i++) {
		const char *there = rk_sim_get_settled(sim, sim->items[i].key);
		if (there && strlen(name) == strcspn(there, "\t") && rk_starts_with(there, name))
			return atoi(sim->items[i].key + strlen(prefix));
	}
	return 0;
}

/* Multicast groups are shared by the partitions of a domain. A value is "NAME\tMODE\tGROUPS", without the last where it does not matter. */
static int check_groups(const struct rk_sim *sim, const struct rk_nvl *nvl, int rack, const char *but, int groups, struct rk_err *err)
{
	char *prefix RK_CLEANUP_FREE = rk_xasprintf("nvl:%s:", rack_name(nvl, rack));
	size_t first, end;
	long taken = 0;

	rk_sim_range(sim, prefix, &first, &end);
	for (size_t i = first; i < end; i++) {
		const char *value = rk_sim_get_settled(sim, sim->items[i].key), *mode = value ? strchr(value, '\t') : NULL, *last = mode ? strchr(mode + 1, '\t') : NULL;
		taken += last && strcmp(sim->items[i].key, but) != 0 ? atoi(last + 1) : 0;
	}
	if (rk_nvl_gives_ids(nvl->site, rack) || taken + groups <= GROUPS_MAX)
		return 0;
	return rk_err_set(err, RK_NO_CAPACITY, "%d multicast groups are wanted, and %ld of the domain's %d are given to other partitions", groups, taken, GROUPS_MAX);
}

static int nvl_create(struct rk_nvl *nvl, int rack, int id, const char *name, const char *resiliency, int multicast_groups, int *ret_id, struct rk_err *err)
{
	char *value RK_CLEANUP_FREE = rk_xasprintf("%s\t%s\t%d", name, resiliency ? resiliency : "full_bandwidth", multicast_groups);
	struct rk_sim_call call;
	int rc = rk_sim_enter(of_nvl(nvl), &call, "nvl.create", rack_name(nvl, rack), true, err);

	if (rc)
		return rc;
	bool gives = rk_nvl_gives_ids(nvl->site, rack);
	int named = id_named(call.sim, nvl, rack, name);
	*ret_id = !gives ? id : named ? named : lowest_free_id(call.sim, nvl, rack);
	char *key RK_CLEANUP_FREE = nvl_key(nvl, rack, *ret_id);
	const char *there = rk_sim_get_settled(call.sim, key);
	if (id < 1 || id >= RK_NVL_DEFAULT)
		rc = rk_err_set(err, RK_INVALID, "partition id %d is out of range", id);
	else if (there && named != *ret_id)
		rc = rk_err_set(err, RK_CONFLICT, "partition %d of rack %s exists already, with another name", id, rack_name(nvl, rack));
	else if (named && named != *ret_id)
		rc = rk_err_set(err, RK_CONFLICT, "partition %d of rack %s has the name \"%s\" already", named, rack_name(nvl, rack), name);
	else if (!there && (rc = check_groups(call.sim, nvl, rack, key, multicast_groups, err)) == 0)
		rk_sim_set(&call, key, value, RK_SIM_NVL_MS);
	return rk_sim_leave(&call, rc, err);
}

int rk_sim_plant_partition(struct rk_sim *sim, const char *rack, int id, const char *name, struct rk_err *err)
{
	char *key RK_CLEANUP_FREE = rk_xasprintf("nvl:%s:%d", rack, id), *value RK_CLEANUP_FREE = rk_xasprintf("%s\tfull_bandwidth", name);
	struct rk_sim_call call;
	int rc = rk_sim_enter(sim, &call, "nvl.create", rack, true, err);

	if (rc)
		return rc;
	rk_sim_set(&call, key, value, RK_SIM_NVL_MS);
	return rk_sim_leave(&call, 0, err);
}

static bool holds_gpus(const struct rk_sim *sim, const struct rk_site *site, const char *prefix, int id)
{
	size_t first, end;

	rk_sim_range(sim, prefix, &first, &end);
	for (size_t i = first; i < end; i++)
		if (atoi(sim->items[i].value) == id && !fell_off(sim, site, strtoull(sim->items[i].key + strlen(prefix), NULL, 16)))
			return true;
	return false;
}

/* What fell off does not come back into a partition that is gone. */
static void forget_fallen(struct rk_sim_call *call, const char *prefix, int id)
{
	size_t first, end;

	rk_sim_range(call->sim, prefix, &first, &end);
	for (size_t i = first; i < end; i++) {
		char *key RK_CLEANUP_FREE = rk_xstrdup(call->sim->items[i].key);
		if (atoi(call->sim->items[i].value) == id)
			rk_sim_set(call, key, "0", 0);
	}
}

static int nvl_remove(struct rk_nvl *nvl, int rack, int id, struct rk_err *err)
{
	char *key RK_CLEANUP_FREE = nvl_key(nvl, rack, id), *members RK_CLEANUP_FREE = rk_xasprintf("gpu:%s:", rack_name(nvl, rack));
	struct rk_sim_call call;
	int rc = rk_sim_enter(of_nvl(nvl), &call, "nvl.remove", rack_name(nvl, rack), true, err);

	if (rc)
		return rc;
	if (id < 1 || id >= RK_NVL_DEFAULT)
		rc = rk_err_set(err, RK_INVALID, "partition %d is not one that can be removed", id);
	else if (holds_gpus(call.sim, nvl->site, members, id))
		rc = rk_err_set(err, RK_FAILED, "partition %d of rack %s still holds GPUs", id, rack_name(nvl, rack));
	else {
		forget_fallen(&call, members, id);
		rk_sim_set(&call, key, NULL, RK_SIM_NVL_MS);
	}
	return rk_sim_leave(&call, rc, err);
}

/* to 0: out of `from`. */
static int nvl_move(struct rk_nvl *nvl, int rack, const char *what, int from, int to, uint64_t guid, struct rk_err *err)
{
	char *key RK_CLEANUP_FREE = rk_xasprintf("gpu:%s:%016" PRIx64, rack_name(nvl, rack), guid), *part RK_CLEANUP_FREE = nvl_key(nvl, rack, to);
	struct rk_sim_call call;
	char value[16];
	int rc = rk_sim_enter(of_nvl(nvl), &call, what, rack_name(nvl, rack), true, err);

	if (rc)
		return rc;
	int at = partition_of(call.sim, nvl->site, rack, guid, is_there(call.sim, nvl->site, rack, guid), true);
	snprintf(value, sizeof(value), "%d", to);
	if (at == RK_NONE || (to && fell_off(call.sim, nvl->site, guid)))
		rc = rk_err_set(err, RK_NOT_FOUND, "GPU 0x%016" PRIx64 " is not in rack %s", guid, rack_name(nvl, rack));
	else if (to && at && at != to)
		rc = rk_err_set(err, RK_CONFLICT, "GPU 0x%016" PRIx64 " is in partition %d already", guid, at);
	else if (to && to != RK_NVL_DEFAULT && !rk_sim_get_settled(call.sim, part))
		rc = rk_err_set(err, RK_NOT_FOUND, "rack %s has no partition %d", rack_name(nvl, rack), to);
	else if (to ? at != to : at == from)
		rk_sim_set(&call, key, value, RK_SIM_NVL_MS);
	return rk_sim_leave(&call, rc, err);
}

static int nvl_add(struct rk_nvl *nvl, int rack, int id, uint64_t gpu, struct rk_err *err)
{
	return nvl_move(nvl, rack, "nvl.add", 0, id, gpu, err);
}

static int nvl_drop(struct rk_nvl *nvl, int rack, int id, uint64_t gpu, struct rk_err *err)
{
	return nvl_move(nvl, rack, "nvl.drop", id, 0, gpu, err);
}

static int nvl_health(struct rk_nvl *nvl, int rack, struct rk_arena *arena, const char **ret_where, struct rk_err *err)
{
	const struct rk_manager *m = &nvl->site->racks[rack].nvlink;
	struct rk_sim_call call;
	int rc = rk_sim_enter(of_nvl(nvl), &call, "nvl.health", rack_name(nvl, rack), false, err);

	*ret_where = !rc && m->n_ssh ? rk_arena_strdup(arena, m->ssh[0]) : NULL;
	return rc ? rc : rk_sim_leave(&call, 0, err);
}

/* The chassis carries the name of its rack, as the GPUs of the twin tell it. */
static int nvl_switches(struct rk_nvl *nvl, int rack, struct rk_arena *arena, struct rk_nvl_switch **ret, size_t *ret_n, struct rk_err *err)
{
	const struct rk_rack *r = &nvl->site->racks[rack];
	struct rk_sim_call call;
	int rc = rk_sim_enter(of_nvl(nvl), &call, "nvl.switches", r->name, false, err);

	if (rc)
		return rc;
	*ret = rk_arena_array(arena, r->nvlink.n_ssh, sizeof(**ret));
	*ret_n = r->nvlink.n_ssh;
	for (size_t i = 0; i < *ret_n; i++)
		(*ret)[i] = (struct rk_nvl_switch){ .name = rk_ssh_host(r->nvlink.ssh[i], arena), .version = "25.02.2553", .chassis = rk_arena_strdup(arena, r->name),
						    .slot = nvl->site->profiles[r->profile].switch_slot[i % 16] };
	return rk_sim_leave(&call, 0, err);
}

static void nvl_free(struct rk_nvl *nvl)
{
	free(nvl);
}

static const struct rk_nvl_ops nvl_ops = { nvl_list, nvl_create, nvl_remove, nvl_add, nvl_drop, nvl_health, nvl_switches, nvl_free };

int rk_sim_nvl(struct rk_sim *sim, const struct rk_driver_env *env, struct rk_nvl **ret, struct rk_err *err)
{
	struct sim_nvl *nvl = rk_xcalloc(1, sizeof(*nvl));

	(void)err;
	nvl->nvl = (struct rk_nvl){ &nvl_ops, env->site };
	nvl->sim = sim;
	*ret = &nvl->nvl;
	return 0;
}

/* ---- subnet managers ----------------------------------------------------------------------------------------------------------------- */

struct sim_ib {
	struct rk_ib ib;
	struct rk_sim *sim;
};

static struct rk_sim *of_ib(struct rk_ib *ib)
{
	return ((struct sim_ib *)ib)->sim;
}

static const char *fabric_name(const struct rk_ib *ib, int fabric)
{
	return ib->site->fabrics[fabric].name;
}

static void read_members(const char *text, struct rk_arena *arena, struct rk_ib_live *part)
{
	size_t n = 1;

	for (const char *c = text; *c; c++)
		n += *c == ',';
	part->members = rk_arena_array(arena, n, sizeof(*part->members));
	for (const char *at = text; *at;) {
		struct rk_ib_member *m = &part->members[part->n_members++];
		m->guid = strtoull(at, (char **)&at, 16);
		m->full = at[0] == '=' && at[1] == 'f';
		at += strcspn(at, ",");
		at += *at == ',';
	}
}

static int ib_list(struct rk_ib *ib, int fabric, struct rk_arena *arena, struct rk_ib_live **ret, size_t *ret_n, struct rk_err *err)
{
	struct rk_sim *sim = of_ib(ib);
	const char *prefix = rk_arena_printf(arena, "ib:%s:", fabric_name(ib, fabric));
	struct rk_sim_call call;
	size_t first, end, n = 0;
	int rc = rk_sim_enter(sim, &call, "ib.list", fabric_name(ib, fabric), false, err);

	if (rc)
		return rc;
	rk_sim_range(sim, prefix, &first, &end);
	struct rk_ib_live *parts = rk_arena_array(arena, end - first + 1, sizeof(*parts));
	for (size_t i = first; i < end; i++) {
		const char *value = rk_sim_get_settled(sim, sim->items[i].key), *tab = value ? strchr(value, '\t') : NULL;
		if (!tab)
			continue;
		parts[n] = (struct rk_ib_live){ .pkey = (uint16_t)strtoul(sim->items[i].key + strlen(prefix), NULL, 16),
						.name = rk_arena_strndup(arena, value, (size_t)(tab - value)), .ours = true };
		read_members(tab + 1, arena, &parts[n++]);
	}
	*ret = parts;
	*ret_n = n;
	return rk_sim_leave(&call, 0, err);
}

static int cmp_member(const void *a, const void *b)
{
	return cmp_u64(&((const struct rk_ib_member *)a)->guid, &((const struct rk_ib_member *)b)->guid);
}

static char *members_text(const char *name, const struct rk_ib_member *members, size_t n)
{
	struct rk_ib_member *sorted RK_CLEANUP_FREE = rk_xcalloc(n + 1, sizeof(*sorted));
	struct rk_str out = RK_STR_INIT;

	if (n)
		memcpy(sorted, members, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), cmp_member);
	rk_str_addf(&out, "%s\t", name);
	for (size_t i = 0; i < n; i++)
		rk_str_addf(&out, "%s%016" PRIx64 "=%c", i ? "," : "", sorted[i].guid, sorted[i].full ? 'f' : 'l');
	return rk_str_steal(&out);
}

static int ib_set(struct rk_ib *ib, int fabric, uint16_t pkey, const char *name, const struct rk_ib_member *members, size_t n, struct rk_err *err)
{
	char *key RK_CLEANUP_FREE = rk_xasprintf("ib:%s:%04x", fabric_name(ib, fabric), pkey), *value RK_CLEANUP_FREE = members_text(name, members, n);
	struct rk_sim_call call;
	int rc = rk_sim_enter(of_ib(ib), &call, "ib.set", fabric_name(ib, fabric), true, err);

	if (rc)
		return rc;
	if (pkey < 1 || pkey >= RK_PKEY_DEFAULT)
		rc = rk_err_set(err, RK_INVALID, "key 0x%04x is not one that a tenant can have", pkey);
	else
		rk_sim_set(&call, key, n ? value : NULL, RK_SIM_IB_MS);
	return rk_sim_leave(&call, rc, err);
}

bool rk_sim_link_up(const struct rk_sim *sim, const struct rk_site *site, uint64_t guid)
{
	int hca = rk_find_hca_guid(site, guid);
	char *key RK_CLEANUP_FREE = hca < 0 ? NULL : rk_xasprintf("link:%s/%d", site->trays[site->hcas[hca].tray].name, site->hcas[hca].rail);

	return key && !rk_sim_get(sim, key);
}

static int ib_tables(struct rk_ib *ib, int fabric, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_port *ret, struct rk_err *err)
{
	struct rk_sim *sim = of_ib(ib);
	struct rk_sim_call call;
	uint16_t keys[64];
	int rc = rk_sim_enter(sim, &call, "ib.tables", fabric_name(ib, fabric), false, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++) {
		bool up = rk_sim_link_up(sim, ib->site, guids[i]);
		ret[i] = (struct rk_ib_port){ .guid = guids[i], .known = up, .down = !up, .why = up ? NULL : "the port is not in the fabric: its link is down" };
		if (!up)
			continue;
		ret[i].n_pkeys = rk_sim_port_keys(sim, ib->site, fabric, guids[i], false, keys, RK_ARRAY_SIZE(keys));
		ret[i].pkeys = rk_arena_array(arena, ret[i].n_pkeys, sizeof(*ret[i].pkeys));
		memcpy(ret[i].pkeys, keys, ret[i].n_pkeys * sizeof(*keys));
	}
	return rk_sim_leave(&call, 0, err);
}

/* A port without a link is not discovered: the site as it is cabled now. */
static void living_site(const struct rk_sim *sim, const struct rk_site *site, struct rk_arena *arena, struct rk_site *ret)
{
	*ret = *site;
	ret->hcas = rk_arena_array(arena, site->n_hcas, sizeof(*ret->hcas));
	for (size_t h = 0; h < site->n_hcas; h++) {
		ret->hcas[h] = site->hcas[h];
		if (!rk_sim_link_up(sim, site, site->hcas[h].port_guid))
			ret->hcas[h].port_guid = 0;
	}
}

static int ib_discover(struct rk_ib *ib, int fabric, struct rk_arena *arena, const char **ret, struct rk_err *err)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_site living;
	struct rk_sim_call call;
	int rc = rk_sim_enter(of_ib(ib), &call, "ib.discover", fabric_name(ib, fabric), false, err);

	if (rc)
		return rc;
	living_site(call.sim, ib->site, arena, &living);
	rk_sim_wired(call.sim, &living, fabric, &text);
	*ret = rk_arena_strdup(arena, rk_str_text(&text));
	return rk_sim_leave(&call, 0, err);
}

/* The SA gives a path when the ports share a key that at least one holds as a full member; it knows no port without a link. */
static enum rk_ib_seen path_seen(const struct rk_sim *sim, const struct rk_site *site, int fabric, struct rk_ib_path *path)
{
	uint16_t a[64], b[64];

	if (!rk_sim_link_up(sim, site, path->from) || !rk_sim_link_up(sim, site, path->to)) {
		path->why = "a port is not in the fabric";
		return RK_PATH_UNKNOWN;
	}
	size_t na = rk_sim_port_keys(sim, site, fabric, path->from, false, a, RK_ARRAY_SIZE(a));
	size_t nb = rk_sim_port_keys(sim, site, fabric, path->to, false, b, RK_ARRAY_SIZE(b));
	for (size_t i = 0; i < na; i++)
		for (size_t k = 0; k < nb; k++)
			if ((a[i] & 0x7fff) == (b[k] & 0x7fff) && ((a[i] | b[k]) & 0x8000))
				return RK_PATH_FOUND;
	return RK_PATH_NONE;
}

static int ib_paths(struct rk_ib *ib, int fabric, struct rk_ib_path *paths, size_t n, struct rk_arena *arena, struct rk_err *err)
{
	struct rk_sim_call call;
	int rc = rk_sim_enter(of_ib(ib), &call, "ib.path", fabric_name(ib, fabric), false, err);

	(void)arena;
	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++)
		paths[i].seen = path_seen(call.sim, ib->site, fabric, &paths[i]);
	return rk_sim_leave(&call, 0, err);
}

static long planted(const struct rk_sim *sim, const char *what, const struct rk_site *site, int hca)
{
	char *key RK_CLEANUP_FREE = rk_xasprintf("%s:%s/%d", what, site->trays[site->hcas[hca].tray].name, site->hcas[hca].rail);
	const char *value = rk_sim_get(sim, key);

	return value ? strtol(value, NULL, 10) : 0;
}

/* Traffic of a quiet port, and what faults make it count, as time goes by. */
static void count(const struct rk_sim *sim, const struct rk_site *site, int hca, struct rk_ib_reading *ret)
{
	const struct {
		const char *counter;
		uint64_t per_minute;
	} rows[] = { { "PortXmitData", 60000000 }, { "PortRcvData", 60000000 }, { "PortXmitPkts", 600000 }, { "PortRcvPkts", 600000 },
		     { "SymbolErrorCounter", (uint64_t)planted(sim, "errors", site, hca) * 60 },
		     { "LinkDownedCounter", (uint64_t)planted(sim, "flaps", site, hca) },
		     { "PortXmitWait", (uint64_t)planted(sim, "wait", site, hca) * 60 } };
	/* From a day that is past for every twin, so that nothing runs out of its 64 bits. */
	uint64_t ms = (uint64_t)rk_clock_unix_ms(sim->clock) - UINT64_C(1700000000000);

	for (size_t c = 0; c < RK_IB_COUNTERS; c++)
		ret->have[c] = true;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++)
		ret->value[rk_ib_counter_find(rows[i].counter, strlen(rows[i].counter))] = ms / 1000 * rows[i].per_minute / 60 + ms % 1000 * rows[i].per_minute / 60000;
	ret->known = true;
}

static int ib_counters(struct rk_ib *ib, int fabric, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_reading *ret, struct rk_err *err)
{
	struct rk_sim_call call;
	int rc = rk_sim_enter(of_ib(ib), &call, "ib.counters", fabric_name(ib, fabric), false, err);

	(void)arena;
	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++) {
		ret[i] = (struct rk_ib_reading){ .guid = guids[i] };
		if (rk_sim_link_up(call.sim, ib->site, guids[i])) {
			count(call.sim, ib->site, rk_find_hca_guid(ib->site, guids[i]), &ret[i]);
		} else {
			ret[i].down = true;
			ret[i].why = "the port is not in the fabric: its link is down";
		}
	}
	return rk_sim_leave(&call, 0, err);
}

static void ib_free(struct rk_ib *ib)
{
	free(ib);
}

static const struct rk_ib_ops ib_ops = { ib_list, ib_set, ib_tables, ib_discover, ib_paths, ib_counters, NULL, ib_free };

int rk_sim_ib(struct rk_sim *sim, const struct rk_driver_env *env, struct rk_ib **ret, struct rk_err *err)
{
	struct sim_ib *ib = rk_xcalloc(1, sizeof(*ib));

	(void)err;
	ib->ib = (struct rk_ib){ &ib_ops, env->site };
	ib->sim = sim;
	*ret = &ib->ib;
	return 0;
}
