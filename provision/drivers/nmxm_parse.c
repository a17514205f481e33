#include "provision/drivers/nmxm_parse.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "provision/nvl.h"

static bool same_domain(const char *a, const char *b)
{
	return a && b && strcasecmp(a, b) == 0;
}

static long whole(const struct rk_jnode *node)
{
	uint64_t v;

	return rk_ju64(node, &v) && v < 1000000 ? (long)v : -1;
}

#define SEVERAL SIZE_MAX

/* "domain/chassis/slot/host/device"; NULL when one of them is not told. */
static char *place_key(const char *domain, const struct rk_jnode *where, const struct rk_jnode *device)
{
	long chassis = whole(rk_jget(where, "ChassisID")), slot = whole(rk_jget(where, "SlotID")), host = whole(rk_jget(where, "HostID")), number = whole(device);
	char *key = domain && chassis >= 0 && slot >= 0 && host >= 0 && number >= 0 ? rk_xasprintf("%s/%ld/%ld/%ld/%ld", domain, chassis, slot, host, number) : NULL;

	for (char *at = key; at && *at; at++)
		*at = (char)tolower((unsigned char)*at);
	return key;
}

/* A place that several GPUs are said to be at names none of them. */
static void note_place(struct rk_nmxm_gpus *gpus, const char *domain, const struct rk_jnode *where, const struct rk_jnode *device)
{
	char *key RK_CLEANUP_FREE = place_key(domain, where, device);

	if (key && !rk_map_add(gpus->by_place, key, gpus->n, NULL))
		rk_map_set(gpus->by_place, key, SEVERAL);
}

/* ---- GPUs ------------------------------------------------------------------------------------------------------------------------ */

int rk_nmxm_gpus(const struct rk_jnode *root, struct rk_arena *arena, struct rk_nmxm_gpus *ret, struct rk_err *err)
{
	if (!root || root->type != RK_JARRAY)
		return rk_err_set(err, RK_UNREACHABLE, "NMX-M's list of GPUs is not understood");
	*ret = (struct rk_nmxm_gpus){ rk_arena_array(arena, root->n, sizeof(*ret->items)), 0, rk_map_new(), rk_map_new(), rk_map_new() };
	RK_JEACH(it, root) {
		struct rk_nmxm_gpu *gpu = &ret->items[ret->n];
		const struct rk_jnode *where = rk_jget(it, "LocationInfo");
		*gpu = (struct rk_nmxm_gpu){ .id = rk_arena_strdup(arena, rk_jstr(rk_jget(it, "ID"))), .domain = rk_arena_strdup(arena, rk_jstr(rk_jget(it, "DomainUUID"))),
					     .chassis = whole(rk_jget(where, "ChassisID")), .slot = whole(rk_jget(where, "SlotID")),
					     .host = whole(rk_jget(where, "HostID")), .device = whole(rk_jget(it, "DeviceID")) };
		if (!gpu->id || !rk_ju64(rk_jget(it, "DeviceUID"), &gpu->guid) || !gpu->guid)
			return rk_err_set(err, RK_UNREACHABLE, "NMX-M lists a GPU without ID or DeviceUID");
		if (!rk_map_add(ret->by_id, gpu->id, ret->n, NULL) || !rk_map_add_u64(ret->by_guid, gpu->guid, ret->n, NULL))
			return rk_err_set(err, RK_UNREACHABLE, "NMX-M lists a GPU twice (%s)", gpu->id);
		note_place(ret, gpu->domain, where, rk_jget(it, "DeviceID"));
		ret->n++;
	}
	return 0;
}

void rk_nmxm_gpus_clear(struct rk_nmxm_gpus *gpus)
{
	rk_map_free(gpus->by_id);
	rk_map_free(gpus->by_guid);
	rk_map_free(gpus->by_place);
	gpus->by_id = gpus->by_guid = gpus->by_place = NULL;
}

/* ---- partitions ------------------------------------------------------------------------------------------------------------------ */

static const char *health(const char *word)
{
	static const struct {
		const char *word, *value;
	} rows[] = { { "HEALTHY", "healthy" }, { "DEGRADED", "degraded" }, { "DEGRADED_BANDWIDTH", "degraded" }, { "BANDWIDTH", "degraded" },
		     { "UNHEALTHY", "unhealthy" } };

	for (size_t i = 0; word && i < RK_ARRAY_SIZE(rows); i++)
		if (strcmp(word, rows[i].word) == 0)
			return rows[i].value;
	return NULL; /* NEW and UNKNOWN, too */
}

static int find_location(const struct rk_nmxm_gpus *gpus, const struct rk_jnode *node)
{
	char *key RK_CLEANUP_FREE = place_key(rk_jstr(rk_jget(node, "DomainUUID")), node, rk_jget(node, "DeviceID"));
	size_t at;

	return key && rk_map_get(gpus->by_place, key, &at) && at != SEVERAL ? (int)at : -1;
}

/* NMX-M's id of a GPU, its DeviceUID, or a location. */
static int find_member(const struct rk_nmxm_gpus *gpus, const struct rk_jnode *node)
{
	const char *text = rk_jstr(node);
	uint64_t guid;
	size_t at;

	if (node->type == RK_JOBJECT)
		return find_location(gpus, node);
	if (text && rk_map_get(gpus->by_id, text, &at))
		return (int)at;
	return rk_ju64(node, &guid) && rk_map_get_u64(gpus->by_guid, guid, &at) ? (int)at : -1;
}

static int read_members(const struct rk_jnode *list, const struct rk_nmxm_gpus *gpus, struct rk_arena *arena, struct rk_nmxm_partition *part, struct rk_err *err)
{
	part->gpus = rk_arena_array(arena, list ? list->n : 0, sizeof(*part->gpus));
	RK_JEACH(node, list) {
		int at = find_member(gpus, node);
		if (at < 0)
			return rk_err_set(err, RK_UNREACHABLE, "partition %d: NMX-M names a member that it does not list as a GPU", part->id);
		part->gpus[part->n_gpus++] = at;
		part->domain = part->domain ? part->domain : gpus->items[at].domain;
	}
	return 0;
}

int rk_nmxm_partition(const struct rk_jnode *root, const struct rk_nmxm_gpus *gpus, struct rk_arena *arena, struct rk_nmxm_partition *ret, struct rk_err *err)
{
	const struct rk_jnode *members = rk_jget(root, "Members");
	long id = whole(rk_jget(root, "PartitionID"));

	*ret = (struct rk_nmxm_partition){ .key = rk_arena_strdup(arena, rk_jstr(rk_jget(root, "ID"))), .id = id >= 1 && id <= RK_NVL_DEFAULT ? (int)id : 0,
					   .name = rk_arena_strdup(arena, rk_jstr(rk_jget(root, "Name"))), .health = health(rk_jstr(rk_jget(root, "Health"))),
					   .by_location = rk_streq(rk_jstr(rk_jget(root, "Type")), "LOCATION_BASED") };
	if (!ret->key || !ret->name)
		return rk_err_set(err, RK_UNREACHABLE, "NMX-M lists a partition without ID or name");
	/* null is a partition without members; a missing list says nothing. */
	if (!members || (members->type != RK_JNULL && members->type != RK_JARRAY))
		return rk_err_set(err, RK_UNREACHABLE, "partition %d: NMX-M does not tell its members", ret->id);
	return read_members(members, gpus, arena, ret, err);
}

int rk_nmxm_partitions(const struct rk_jnode *root, const struct rk_nmxm_gpus *gpus, struct rk_arena *arena, struct rk_nmxm_partition **ret, size_t *ret_n,
		       struct rk_err *err)
{
	if (!root || root->type != RK_JARRAY)
		return rk_err_set(err, RK_UNREACHABLE, "NMX-M's list of partitions is not understood");
	struct rk_nmxm_partition *parts = rk_arena_array(arena, root->n, sizeof(*parts));
	size_t n = 0;
	RK_JEACH(it, root) {
		int rc = rk_nmxm_partition(it, gpus, arena, &parts[n++], err);
		if (rc)
			return rc;
	}
	*ret = parts;
	*ret_n = n;
	return 0;
}

static void location_json(struct rk_jw *w, const struct rk_nmxm_gpu *gpu)
{
	const struct {
		const char *key;
		long value;
	} rows[] = { { "ChassisID", gpu->chassis }, { "SlotID", gpu->slot }, { "HostID", gpu->host }, { "DeviceID", gpu->device } };

	rk_jw_object(w);
	rk_jw_key(w, "DomainUUID");
	rk_jw_str(w, gpu->domain);
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		rk_jw_key(w, rows[i].key);
		rk_jw_i64(w, rows[i].value);
	}
	rk_jw_end(w);
}

void rk_nmxm_members_json(struct rk_str *out, const char *name, const struct rk_nmxm_gpus *gpus, const int *members, size_t n, bool by_location)
{
	struct rk_jw w;

	rk_jw_init(&w, out, 0);
	rk_jw_object(&w);
	if (name) {
		rk_jw_key(&w, "Name");
		rk_jw_str(&w, name);
	}
	rk_jw_key(&w, "Members");
	rk_jw_array(&w);
	for (size_t i = 0; i < n; i++) {
		if (by_location)
			location_json(&w, &gpus->items[members[i]]);
		else
			rk_jw_str(&w, gpus->items[members[i]].id);
	}
	rk_jw_end(&w);
	rk_jw_end(&w);
}

/* ---- operations and services ------------------------------------------------------------------------------------------------------- */

void rk_nmxm_operation(const struct rk_jnode *root, struct rk_arena *arena, struct rk_nmxm_operation *ret)
{
	static const struct {
		const char *word;
		enum rk_nmxm_state state;
	} rows[] = { { "pending", RK_NMXM_RUNNING }, { "in-progress", RK_NMXM_RUNNING }, { "completed", RK_NMXM_DONE }, { "failed", RK_NMXM_FAILED },
		     { "cancelled", RK_NMXM_CANCELLED } };
	const char *status = rk_jstr(rk_jget(root, "Status"));
	const struct rk_jnode *result = rk_jget(root, "Result");

	*ret = (struct rk_nmxm_operation){ .state = RK_NMXM_ODD, .step = rk_arena_strdup(arena, rk_jstr(rk_jget(root, "CurrentStep"))),
					   .details = rk_arena_strdup(arena, rk_jstr(rk_jget(result, "Details"))) };
	if (!ret->details)
		ret->details = rk_arena_strdup(arena, rk_jstr(rk_jget(result, "Error")));
	(void)rk_jbool(rk_jget(rk_jget(root, "Request"), "Cancellable"), &ret->cancellable);
	for (size_t i = 0; status && i < RK_ARRAY_SIZE(rows); i++)
		if (strcmp(status, rows[i].word) == 0)
			ret->state = rows[i].state;
}

int rk_nmxm_services(const struct rk_jnode *root, const char *domain, struct rk_err *err)
{
	struct rk_str info RK_CLEANUP_STR = RK_STR_INIT;

	if (!root || root->type != RK_JARRAY)
		return rk_err_set(err, RK_UNREACHABLE, "NMX-M's list of services is not understood");
	RK_JEACH(it, root) {
		const char *status = rk_jstr(rk_jget(it, "Status")), *text = rk_jstr(rk_jget(it, "StatusInfo"));
		if (!rk_streq(rk_jstr(rk_jget(it, "ServiceType")), "CONTROLLER") || !same_domain(rk_jstr(rk_jget(it, "ClusterDomainUUID")), domain))
			continue;
		if (rk_streq(status, "UP"))
			return 0;
		if (text && *text)
			rk_str_add_escaped(&info, text, strnlen(text, 300));
		return rk_err_set(err, status ? RK_UNHEALTHY : RK_UNREACHABLE, "the NMX controller of the domain is %s%s%s", status ? status : "not told",
				  info.len ? ": " : "", rk_str_text(&info));
	}
	return rk_err_set(err, RK_UNHEALTHY, "no NMX controller of this domain is registered with NMX-M: not configured, or it moved");
}
