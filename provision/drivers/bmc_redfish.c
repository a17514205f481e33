/* Redfish (DSP0266) of a tray's BMC. Paths are taken from what the service lists, never built from knowledge of one vendor; everything it says is
 * bounded and not trusted. Schemas: ComputerSystem, Chassis, EnvironmentMetrics, LeakDetector, CoolantConnector. */
#include "provision/drivers/bmc_redfish.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "provision/rest.h"

enum { BODY_MAX = 4 << 20, PATH_MAX_LEN = 400, MEMBERS_MAX = 64, CONNECT_MS = 10000, TOTAL_MS = 30000 };

struct redfish {
	struct rk_bmc bmc;
	struct rk_driver_env env;
};

/* One conversation with one BMC. */
struct talk {
	rk_redfish_get *get;
	void *ctx;
	int requests;
	struct rk_arena *arena;
	const char *root;                 /* "/redfish/v1" */
	struct rk_err *err;
};

/* ---- where ---------------------------------------------------------------------------------------------------------------------------- */

static const char *fill(struct rk_arena *arena, const char *text, const char *name, const char *rack)
{
	const struct {
		const char *word, *value;
	} rows[] = { { "{tray}", name }, { "{rack}", rack } };
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;

	if (!text)
		return NULL;
	while (*text) {
		size_t i = 0;
		while (i < RK_ARRAY_SIZE(rows) && !rk_starts_with(text, rows[i].word))
			i++;
		if (i == RK_ARRAY_SIZE(rows)) {
			rk_str_addc(&out, *text++);
		} else {
			rk_str_add(&out, rows[i].value);
			text += strlen(rows[i].word);
		}
	}
	return rk_arena_strdup(arena, rk_str_text(&out));
}

/* `bmc` of the tray, else of the site; switch trays take the site's with their own name. */
static int open_rest(struct redfish *r, const struct rk_bmc_target *target, struct rk_arena *arena, struct rk_rest **ret, struct rk_err *err)
{
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	const struct rk_site *site = r->bmc.site;
	const char *name = rk_bmc_name(site, target, arena), *rack = site->racks[target->tray == RK_NONE ? target->rack : site->trays[target->tray].rack].name;
	const char *conf = target->tray != RK_NONE && site->trays[target->tray].bmc ? site->trays[target->tray].bmc : site->bmc;

	if (!conf || rk_json_parse("bmc", conf, strlen(conf), &json, NULL)) {
		rk_err_set(err, RK_INVALID, "no BMC is known of \"%s\"", name);
		rk_err_hint(err, "write \"bmc\": {\"url\": \"https://{tray}-bmc\", \"credentialsFile\": ...} into the site file");
		return RK_INVALID;
	}
	const struct rk_jnode *root = rk_json_root(json);
	const char *url = fill(arena, rk_jstr(rk_jget(root, "url")), name, rack), *redfish = strstr(url, "/redfish");
	const struct rk_rest_conf rest = {
		.url = redfish ? rk_arena_strndup(arena, url, (size_t)(redfish - url)) : url,
		.credentials_file = fill(arena, rk_jstr(rk_jget(root, "credentialsFile")), name, rack),
		.ca_file = fill(arena, rk_jstr(rk_jget(root, "caFile")), name, rack),
		.connect_ms = r->env.timeout_ms ? r->env.timeout_ms : CONNECT_MS,
		.total_ms = r->env.timeout_ms ? r->env.timeout_ms : TOTAL_MS,
		.body_max = BODY_MAX,
		.trace = r->env.trace,
		.cancel = r->env.cancel,
	};
	int rc = rk_rest_open(&rest, ret, err);
	if (rc)
		rk_err_while(err, "BMC of \"%s\"", name);
	return rc;
}

/* ---- asking -------------------------------------------------------------------------------------------------------------------------------- */

static bool path_ok(const char *path)
{
	if (!path || *path != '/' || path[1] == '/' || strlen(path) > PATH_MAX_LEN)
		return false;
	for (; *path; path++)
		if ((unsigned char)*path <= ' ' || (unsigned char)*path >= 0x7f)
			return false;
	return true;
}

static int get_by_rest(void *ctx, const char *path, struct rk_json **ret, struct rk_err *err)
{
	struct rk_rest_reply reply RK_CLEANUP_REPLY = RK_REST_REPLY_INIT;
	int rc = rk_rest_call(ctx, &(struct rk_rest_request){ .method = "GET", .absolute = path }, &reply, err);

	*ret = NULL;
	if (rc == RK_NOT_FOUND) {
		rk_err_clear(err);
		return 0;
	}
	if (!rc && rk_json_parse(path, rk_str_text(&reply.body), reply.body.len, ret, err))
		rc = rk_err_set(err, RK_UNREACHABLE, "the BMC's answer to %s is no JSON", path);
	return rc;
}

static int get(struct talk *t, const char *path, struct rk_json **ret)
{
	*ret = NULL;
	if (!path_ok(path))
		return rk_err_set(t->err, RK_UNREACHABLE, "the BMC names a path that is none");
	if (t->requests++ >= RK_REDFISH_REQUESTS)
		return rk_err_set(t->err, RK_UNREACHABLE, "the BMC lists more than can be read");
	return t->get(t->ctx, path, ret, t->err);
}

static const char *id_of(const struct rk_jnode *node)
{
	return rk_jstr(rk_jget(node, "@odata.id"));
}

/* Paths of a collection's members; absent collection: none. */
static int members(struct talk *t, const char *path, const char **ret, size_t *ret_n)
{
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	int rc = get(t, path, &json);

	*ret_n = 0;
	RK_JEACH(it, json && !rc ? rk_jget(rk_json_root(json), "Members") : NULL)
		if (*ret_n < MEMBERS_MAX && path_ok(id_of(it)))
			ret[(*ret_n)++] = rk_arena_strdup(t->arena, id_of(it));
	return rc;
}

/* ---- power ------------------------------------------------------------------------------------------------------------------------------ */

/* The thing that is switched: a system or chassis with a Reset action. */
struct handle {
	const char *action;               /* path to POST to */
	enum rk_power_state state;
	bool graceful;
};

static enum rk_power_state state_of(const struct rk_jnode *node)
{
	static const struct {
		const char *word;
		enum rk_power_state state;
	} rows[] = { { "On", RK_POWER_ON }, { "Off", RK_POWER_OFF }, { "PoweringOn", RK_POWER_CHANGING }, { "PoweringOff", RK_POWER_CHANGING } };

	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++)
		if (rk_streq(rk_jstr(rk_jget(node, "PowerState")), rows[i].word))
			return rows[i].state;
	return RK_POWER_UNKNOWN;
}

static bool allows(const struct rk_jnode *action, const char *type)
{
	const struct rk_jnode *list = rk_jget(action, "ResetType@Redfish.AllowableValues");

	RK_JEACH(it, list)
		if (rk_streq(rk_jstr(it), type))
			return true;
	return !list;
}

static bool read_handle(struct talk *t, const struct rk_jnode *node, const char *action_name, struct handle *ret)
{
	const struct rk_jnode *action = rk_jget(rk_jget(node, "Actions"), action_name);
	const char *target = rk_jstr(rk_jget(action, "target"));

	if (!path_ok(target) || !allows(action, "On"))
		return false;
	*ret = (struct handle){ rk_arena_strdup(t->arena, target), state_of(node), allows(action, "GracefulShutdown") };
	return true;
}

static int find_handle(struct talk *t, struct handle *ret)
{
	static const struct {
		const char *collection, *action;
	} rows[] = { { "Systems", "#ComputerSystem.Reset" }, { "Chassis", "#Chassis.Reset" } };
	const char *paths[MEMBERS_MAX];
	size_t n = 0;
	int rc = 0;

	for (size_t i = 0; i < RK_ARRAY_SIZE(rows) && !rc; i++) {
		rc = members(t, rk_arena_printf(t->arena, "%s/%s", t->root, rows[i].collection), paths, &n);
		for (size_t k = 0; k < n && !rc; k++) {
			RK_CLEANUP_JSON struct rk_json *json = NULL;
			rc = get(t, paths[k], &json);
			if (!rc && json && read_handle(t, rk_json_root(json), rows[i].action, ret))
				return 0;
		}
	}
	return rc ? rc : rk_err_set(t->err, RK_FAILED, "the BMC offers nothing to switch on");
}

/* ---- leak detectors ------------------------------------------------------------------------------------------------------------------ */

static void judge_detector(const struct rk_jnode *node, struct rk_str *wet, int *read, int *unread)
{
	const char *state = rk_jstr(rk_jget(node, "DetectorState")), *id = rk_jstr(rk_jget(node, "Id"));
	const char *enabled = rk_jstr(rk_jget(rk_jget(node, "Status"), "State"));

	if (enabled && strcmp(enabled, "Enabled") != 0)
		return;
	*(state ? read : unread) += 1;
	if (!state || strcmp(state, "OK") == 0)
		return;
	rk_str_add(wet, wet->len ? ", " : "");
	rk_str_add_escaped(wet, id ? id : "detector", id ? strnlen(id, 60) : 8);
	rk_str_addc(wet, ' ');
	rk_str_add_escaped(wet, state, strnlen(state, 20));
}

static int read_detectors(struct talk *t, const char *chassis, struct rk_str *wet, int *read, int *unread)
{
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	int rc = get(t, rk_arena_printf(t->arena, "%s/ThermalSubsystem/LeakDetection/LeakDetectors?$expand=.", chassis), &json), n = 0;

	RK_JEACH(it, json && !rc ? rk_jget(rk_json_root(json), "Members") : NULL) {
		RK_CLEANUP_JSON struct rk_json *one = NULL;
		if (rc || n++ >= MEMBERS_MAX)
			break;
		/* A service that does not expand gives references only. */
		if (!rk_jget(it, "DetectorState") && path_ok(id_of(it)))
			rc = get(t, id_of(it), &one);
		if (!rc)
			judge_detector(one ? rk_json_root(one) : it, wet, read, unread);
	}
	return rc;
}

/* ---- meters and coolant ---------------------------------------------------------------------------------------------------------------- */

static void add_number(const struct rk_jnode *metrics, const char *key, double *sum)
{
	double v;

	if (rk_jdouble(rk_jget(rk_jget(metrics, key), "Reading"), &v) && v >= 0)
		*sum = isnan(*sum) ? v : *sum + v;
}

/* GPU modules have chassis of their own; the first other one with a reading is the tray's. */
static int read_meters(struct talk *t, const char *chassis, struct rk_bmc_reading *ret)
{
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	bool module = strstr(chassis, "ProcessorModule") != NULL;
	int rc = !module && !isnan(ret->watts) ? 0 : get(t, rk_arena_printf(t->arena, "%s/EnvironmentMetrics", chassis), &json);

	if (rc || !json)
		return rc;
	add_number(rk_json_root(json), "PowerWatts", module ? &ret->module_watts : &ret->watts);
	if (!module && isnan(ret->kwh))
		add_number(rk_json_root(json), "EnergykWh", &ret->kwh);
	return 0;
}

static int read_coolant(struct talk *t, struct rk_bmc_reading *ret)
{
	const char *loops[MEMBERS_MAX], *connectors[MEMBERS_MAX];
	size_t n, m;
	int rc = members(t, rk_arena_printf(t->arena, "%s/ThermalEquipment/CoolingLoops", t->root), loops, &n);

	for (size_t i = 0; i < n && !rc && isnan(ret->flow_lpm); i++) {
		rc = members(t, rk_arena_printf(t->arena, "%s/PrimaryCoolantConnectors", loops[i]), connectors, &m);
		for (size_t k = 0; k < m && !rc && isnan(ret->flow_lpm); k++) {
			RK_CLEANUP_JSON struct rk_json *json = NULL;
			rc = get(t, connectors[k], &json);
			if (rc || !json)
				continue;
			add_number(rk_json_root(json), "SupplyTemperatureCelsius", &ret->supply_c);
			add_number(rk_json_root(json), "FlowLitersPerMinute", &ret->flow_lpm);
		}
	}
	return rc;
}

static int read_chassis(struct talk *t, unsigned what, struct rk_bmc_reading *ret)
{
	struct rk_str wet RK_CLEANUP_STR = RK_STR_INIT;
	const char *paths[MEMBERS_MAX];
	int read = 0, unread = 0;
	size_t n;
	int rc = members(t, rk_arena_printf(t->arena, "%s/Chassis", t->root), paths, &n);

	for (size_t i = 0; i < n && !rc; i++) {
		if (what & RK_BMC_LEAK)
			rc = read_detectors(t, paths[i], &wet, &read, &unread);
		if (!rc && (what & RK_BMC_METERS))
			rc = read_meters(t, paths[i], ret);
	}
	ret->leak_read = read > 0 && !unread;
	ret->leak = wet.len ? rk_arena_strdup(t->arena, rk_str_text(&wet)) : NULL;
	return rc;
}

/* ---- the driver ------------------------------------------------------------------------------------------------------------------------- */

int rk_redfish_read(rk_redfish_get *fetch, void *ctx, unsigned what, struct rk_arena *arena, struct rk_bmc_reading *ret, struct rk_err *err)
{
	struct talk t = { .get = fetch, .ctx = ctx, .arena = arena, .root = "/redfish/v1", .err = err };
	struct handle h = { .state = RK_POWER_UNKNOWN };
	int rc = 0;

	*ret = rk_bmc_unread;
	if (what & RK_BMC_POWER)
		rc = find_handle(&t, &h);
	ret->power = h.state;
	if (!rc && (what & (RK_BMC_LEAK | RK_BMC_METERS)))
		rc = read_chassis(&t, what, ret);
	if (!rc && (what & RK_BMC_COOLANT))
		rc = read_coolant(&t, ret);
	return rc;
}

static int redfish_read(struct rk_bmc *bmc, const struct rk_bmc_target *target, unsigned what, struct rk_arena *arena, struct rk_bmc_reading *ret,
			struct rk_err *err)
{
	RK_CLEANUP_REST struct rk_rest *rest = NULL;
	int rc = open_rest((struct redfish *)bmc, target, arena, &rest, err);

	*ret = rk_bmc_unread;
	if (rc)
		return rc;
	rc = rk_redfish_read(get_by_rest, rest, what, arena, ret, err);
	if (rc)
		rk_err_while(err, "BMC of \"%s\"", rk_bmc_name(bmc->site, target, arena));
	return rc;
}

static int redfish_set(struct rk_bmc *bmc, const struct rk_bmc_target *target, bool on, bool force, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_rest_reply reply RK_CLEANUP_REPLY = RK_REST_REPLY_INIT;
	struct redfish *r = (struct redfish *)bmc;
	RK_CLEANUP_REST struct rk_rest *rest = NULL;
	struct handle h;
	int rc = r->env.read_only ? rk_err_set(err, RK_INVALID, "everything is read only") : open_rest(r, target, arena, &rest, err);

	if (rc)
		return rc;
	struct talk t = { .get = get_by_rest, .ctx = rest, .arena = arena, .root = "/redfish/v1", .err = err };
	rc = find_handle(&t, &h);
	const char *type = on ? "On" : force || (!rc && !h.graceful) ? "ForceOff" : "GracefulShutdown";
	if (!rc && h.state != (on ? RK_POWER_ON : RK_POWER_OFF))
		rc = rk_rest_call(rest, &(struct rk_rest_request){ .method = "POST", .absolute = h.action, .body = rk_arena_printf(arena, "{\"ResetType\":\"%s\"}", type) },
				  &reply, err);
	if (rc)
		rk_err_while(err, "BMC of \"%s\"", rk_bmc_name(bmc->site, target, arena));
	return rc;
}

static void redfish_free(struct rk_bmc *bmc)
{
	free(bmc);
}

int rk_bmc_redfish(const struct rk_driver_env *env, struct rk_bmc **ret, struct rk_err *err)
{
	static const struct rk_bmc_ops ops = { redfish_read, redfish_set, redfish_free };
	struct redfish *r = rk_xcalloc(1, sizeof(*r));

	(void)err;
	r->bmc = (struct rk_bmc){ &ops, env->site };
	r->env = *env;
	*ret = &r->bmc;
	return 0;
}
