#include "provision/drivers/nvos_parse.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "inventory/base/json.h"
#include "inventory/base/str.h"

enum { IDS_MAX = 32766, GPUS_MAX = 4096 };

static const struct {
	const char *text;
	enum rk_nvos_answer answer;
} texts[] = { /* in order of precedence */
	{ "The requested item does not exist", RK_NVOS_ABSENT },
	{ "RESOURCE_IN_USE", RK_NVOS_BUSY },
	{ "RESOURCE_NOT_READY", RK_NVOS_BUSY },
	{ "cluster is not enabled", RK_NVOS_DOWN },
	{ "gRPC connection is down", RK_NVOS_DOWN },
	{ "Error: At ", RK_NVOS_INVALID },
	{ "Error:", RK_NVOS_REFUSED },
};

enum rk_nvos_answer rk_nvos_classify(int status, const char *out, const char *err)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(texts); i++)
		if (strstr(out, texts[i].text) || strstr(err, texts[i].text))
			return texts[i].answer;
	if (status == 0 && (strstr(out, "Action succeeded") || strstr(out, "successfully ")))
		return RK_NVOS_DONE;
	return RK_NVOS_ODD;
}

const char *rk_nvos_json(const char *text, size_t *ret_len)
{
	const char *begin = strchr(text, '{'), *end = begin ? strrchr(begin, '}') : NULL;

	if (!end)
		return NULL;
	*ret_len = (size_t)(end - begin) + 1;
	return begin;
}

static bool is_null(const char *text)
{
	text += strspn(text, " \t\r\n");
	return strncmp(text, "null", 4) == 0 && text[4 + strspn(text + 4, " \t\r\n")] == '\0';
}

/* *ret NULL: a null body. */
static int parse(const char *what, const char *text, struct rk_json **ret, struct rk_err *err)
{
	size_t len;
	const char *json = rk_nvos_json(text, &len);

	*ret = NULL;
	if (!json && is_null(text))
		return 0;
	if (!json)
		return rk_err_set(err, RK_UNREACHABLE, "%s: no JSON in the answer", what);
	if (rk_json_parse(what, json, len, ret, err) != 0)
		return rk_err_set(err, RK_UNREACHABLE, "%s: the JSON of the answer cannot be read", what);
	return 0;
}

static const char *health(const char *text)
{
	static const struct {
		const char *prefix, *value;
	} rows[] = { { "healthy", "healthy" }, { "degraded", "degraded" }, { "unhealthy", "unhealthy" } };

	for (size_t i = 0; text && i < RK_ARRAY_SIZE(rows); i++)
		if (rk_starts_with(text, rows[i].prefix))
			return rows[i].value;
	return NULL;
}

static const char *resiliency(const char *text)
{
	static const char *const modes[] = { "full_bandwidth", "adaptive_bandwidth", "user_action" };

	/* The JSON may say user_action_required, older releases use upper case. */
	for (size_t i = 0; text && i < RK_ARRAY_SIZE(modes); i++)
		if (strncasecmp(text, modes[i], strlen(modes[i])) == 0)
			return modes[i];
	return NULL;
}

int rk_nvos_list(const char *text, struct rk_arena *arena, struct rk_nvos_row **ret, size_t *ret_n, struct rk_err *err)
{
	struct rk_json *json RK_CLEANUP_JSON = NULL;
	int rc = parse("nv show sdn partition", text, &json, err);
	const struct rk_jnode *root = json ? rk_json_root(json) : NULL;
	size_t n = 0;

	if (rc != 0)
		return rc;
	struct rk_nvos_row *rows = rk_arena_array(arena, root && root->n ? root->n : 1, sizeof(*rows));
	RK_JEACH(node, root) {
		uint64_t id, gpus, groups;
		if (!rk_parse_u64(node->key, &id) || id < 1 || id > IDS_MAX || node->type != RK_JOBJECT)
			return rk_err_set(err, RK_UNREACHABLE, "nv show sdn partition: \"%.40s\" is no partition", node->key);
		rows[n] = (struct rk_nvos_row){ .announced = -1, .multicast = -1 };
		rows[n].live.id = (int)id;
		rows[n].live.name = rk_arena_strdup(arena, rk_jstr(rk_jget(node, "name")));
		rows[n].live.health = health(rk_jstr(rk_jget(node, "health")));
		rows[n].live.resiliency = resiliency(rk_jstr(rk_jget(node, "resiliency-mode")));
		if (rk_ju64(rk_jget(node, "num-gpus"), &gpus) && gpus <= GPUS_MAX)
			rows[n].announced = (long)gpus;
		if (rk_ju64(rk_jget(node, "mcast-limit"), &groups) && groups <= GPUS_MAX)
			rows[n].multicast = (long)groups;
		n++;
	}
	*ret = rows;
	*ret_n = n;
	return 0;
}

static int cmp_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int cmp_place(const void *a, const void *b)
{
	return cmp_u64(&((const struct rk_nvl_place *)a)->gpu, &((const struct rk_nvl_place *)b)->gpu);
}

/* "CHASSIS.SLOT.HOST.MODULE", the key of a member. */
static struct rk_nvl_place place_of(const char *location, uint64_t gpu)
{
	struct rk_nvl_place place = { .gpu = gpu };
	int slot, module;

	if (location && sscanf(location, "%*d.%d.%*d.%d", &slot, &module) == 2 && slot > 0 && module > 0) {
		place.slot = slot;
		place.module = module;
	}
	return place;
}

/* Members are values of "locations", or (older releases) "uuids" as an object keyed by uuid or an array of them. */
static bool member(const struct rk_jnode *node, uint64_t *ret)
{
	const struct rk_jnode *uuid = rk_jget(node, "uuid");

	if (node->type == RK_JOBJECT && uuid)
		return rk_ju64(uuid, ret);
	if (node->type == RK_JSTRING || node->type == RK_JNUMBER)
		return rk_ju64(node, ret);
	return node->key && rk_parse_u64(node->key, ret);
}

int rk_nvos_members(const char *text, long announced, struct rk_arena *arena, struct rk_nvl_live *live, struct rk_err *err)
{
	struct rk_json *json RK_CLEANUP_JSON = NULL;
	int rc = parse("nv show sdn partition ID", text, &json, err);

	if (rc != 0)
		return rc;
	if (!json)
		return rk_err_set(err, RK_UNREACHABLE, "partition %d: the switch answered null, its members are not known", live->id);
	const struct rk_jnode *root = rk_json_root(json), *list = rk_jget(root, "locations");
	uint64_t said;
	if (!list || list->n == 0)
		list = rk_jget(root, "uuids") ? rk_jget(root, "uuids") : list;
	if (rk_ju64(rk_jget(root, "num-gpus"), &said))
		announced = (long)said;
	live->gpus = rk_arena_array(arena, list && list->n ? list->n : 1, sizeof(*live->gpus));
	live->places = rk_arena_array(arena, list && list->n ? list->n : 1, sizeof(*live->places));
	live->n_gpus = 0;
	RK_JEACH(node, list) {
		uint64_t guid;
		if (!member(node, &guid) || guid == 0)
			return rk_err_set(err, RK_UNREACHABLE, "partition %d: a member has no identity", live->id);
		live->places[live->n_gpus] = place_of(node->key, guid);
		live->gpus[live->n_gpus++] = guid;
	}
	qsort(live->gpus, live->n_gpus, sizeof(*live->gpus), cmp_u64);
	qsort(live->places, live->n_gpus, sizeof(*live->places), cmp_place);
	/* The two commands are not one snapshot; and a list cut short must not look like GPUs that left. */
	if (announced >= 0 && (size_t)announced != live->n_gpus)
		return rk_err_set(err, RK_UNREACHABLE, "partition %d: %ld GPUs announced, %zu listed", live->id, announced, live->n_gpus);
	if (announced < 0 && !list)
		return rk_err_set(err, RK_UNREACHABLE, "partition %d: the answer lists no members and no count", live->id);
	return 0;
}

int rk_nvos_cluster(const char *text, struct rk_err *err)
{
	struct rk_json *json RK_CLEANUP_JSON = NULL;
	int rc = parse("nv show cluster", text, &json, err);

	if (rc != 0)
		return rc;
	const char *state = json ? rk_jstr(rk_jget(rk_json_root(json), "state")) : NULL;
	const char *conn = json ? rk_jstr(rk_jget(rk_json_root(json), "nmxc-conn")) : NULL;
	if (!state)
		return rk_err_set(err, RK_UNREACHABLE, "nv show cluster: the state of the cluster is not told");
	if (!rk_streq(state, "enabled")) {
		rk_err_set(err, RK_UNHEALTHY, "the NVLink cluster is not enabled on the switch");
		rk_err_hint(err, "nv set cluster state enabled; nv config apply; nv config save");
		return RK_UNHEALTHY;
	}
	if (conn && !rk_streq(conn, "up"))
		return rk_err_set(err, RK_UNHEALTHY, "the switch has no connection to its NMX controller");
	return 0;
}

int rk_nvos_apps(const char *text, struct rk_err *err)
{
	struct rk_json *json RK_CLEANUP_JSON = NULL;
	struct rk_str why RK_CLEANUP_STR = RK_STR_INIT;
	int rc = parse("nv show cluster apps", text, &json, err);

	if (rc != 0)
		return rc;
	const struct rk_jnode *app = json ? rk_jget(rk_json_root(json), "nmx-controller") : NULL;
	if (!app)
		return rk_err_set(err, RK_NOT_FOUND, "no nmx-controller is installed on this switch");
	const char *status = rk_jstr(rk_jget(app, "status")), *reason = rk_jstr(rk_jget(app, "reason"));
	if (!status)
		return rk_err_set(err, RK_UNREACHABLE, "nv show cluster apps: the status of nmx-controller is not told");
	if (strcasecmp(status, "ok") == 0)
		return 0;
	if (reason)
		rk_str_add_escaped(&why, reason, strnlen(reason, 300));
	return rk_err_set(err, RK_UNHEALTHY, "nmx-controller is not ok: %s", why.len ? why.text : "no reason given");
}

/* A short printable text; NULL for anything else, and for what NVOS writes when it does not know. */
static const char *word(struct rk_arena *arena, const struct rk_jnode *node)
{
	const char *text = rk_jstr(node);
	size_t n = text ? strlen(text) : 0;

	if (!n || n > 64 || strcasecmp(text, "N/A") == 0)
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return NULL;
	return rk_arena_strdup(arena, text);
}

void rk_nvos_version(const char *text, struct rk_arena *arena, struct rk_nvl_switch *ret)
{
	RK_CLEANUP_JSON struct rk_json *json = NULL;

	if (parse("version", text, &json, NULL) || !json)
		return;
	const char *image = word(arena, rk_jget(rk_json_root(json), "image"));
	ret->version = image && rk_starts_with(image, "nvos-") ? image + 5 : image;
}

void rk_nvos_location(const char *text, struct rk_arena *arena, struct rk_nvl_switch *ret)
{
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	uint64_t slot;

	if (parse("location", text, &json, NULL) || !json)
		return;
	ret->chassis = word(arena, rk_jget(rk_json_root(json), "chassis-sn"));
	ret->slot = rk_ju64(rk_jget(rk_json_root(json), "slot-number"), &slot) && slot < 256 ? (int)slot : 0;
}

/* The difference is JSON of what differs, an array or object that names "cluster" somewhere, or {} or []. */
bool rk_nvos_unsaved(const char *text)
{
	struct rk_json *json RK_CLEANUP_JSON = NULL;
	size_t len = strlen(text);
	const char *begin = text + strcspn(text, "[{");

	return *begin && rk_json_parse("diff", begin, len - (size_t)(begin - text), &json, NULL) == 0 && rk_json_root(json)->n && strstr(begin, "\"cluster\"");
}
