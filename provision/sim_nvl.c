#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provision/sim_impl.h"

/* The NVLink switches of the twin. */

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

	return (x > y) - (x < y);
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
