#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "provision/drivers/session.h"
#include "tests/contract/fabric_site.h"
#include "tests/contract/nvl_contract.h"

/* ---- switch trays whose command line answers as that of NVOS ----------------------------------------------------------------------------- */

enum { PARTS = 8, GPUS = 8, SHOWS_AFTER_MS = 800, RELEASED_AFTER_MS = 6000 };
enum fault { NONE, LIE, FAILS_WITH_EFFECT, PLAIN_REFUSAL, BUSY, ALWAYS_BUSY, GRPC_DOWN, DISABLED, NULL_BODY, TEXT_NUMBERS, CUT, ODD, OLD_SYNTAX, UNSAVED,
	     SHORT_LIST, APP_NOT_OK, NO_APP, NULL_ONCE };

struct part {
	int id, groups;
	char name[64], mode[32];
};
struct gpu {
	int at, was;               /* partition now, and before until shows_ms */
	int64_t shows_ms, free_ms; /* when the switch has released what it had in the partition it left */
};
struct fake {
	struct nvl_bench bench;    /* first: the contract reads it */
	struct rk_site *site;
	struct rk_driver_env env;
	struct rk_remote remote;
	struct part parts[PARTS];
	struct gpu gpus[GPUS];
	enum fault fault;
	const char *controller;    /* which switch runs it; NULL: whoever is asked */
	const char *dead;          /* a switch that does not answer */
	int actions, commands;
};

static int64_t now(const struct fake *f)
{
	return rk_clock_ms(f->bench.clock);
}

static int seen_at(const struct fake *f, int g)
{
	return now(f) < f->gpus[g].shows_ms ? f->gpus[g].was : f->gpus[g].at;
}

static struct part *find(struct fake *f, int id)
{
	for (int i = 0; i < PARTS; i++)
		if (f->parts[i].id == id)
			return &f->parts[i];
	return NULL;
}

static int count(const struct fake *f, int id)
{
	int n = 0;

	for (int g = 0; g < GPUS; g++)
		n += seen_at(f, g) == id;
	return n;
}

static void show_all(struct fake *f, struct rk_str *out)
{
	const char *quote = f->fault == TEXT_NUMBERS ? "\"" : "", *comma = "";

	if (f->fault == NULL_ONCE) {
		f->fault = NONE;
		rk_str_add(out, "null\n");
		return;
	}
	if (f->fault == NULL_BODY || f->fault == GRPC_DOWN || f->fault == DISABLED) {
		rk_str_add(out, f->fault == NULL_BODY ? "null\n" : "{}\n");
		return;
	}
	rk_str_add(out, "NVOS switch\n{");
	for (int i = 0; i < PARTS; i++)
		if (f->parts[i].id) {
			rk_str_addf(out, "%s\"%d\":{\"name\":\"%s\",\"num-gpus\":%s%d%s,\"health\":\"healthy\",\"resiliency-mode\":\"%s\",\"mcast-limit\":%d}", comma,
				    f->parts[i].id, f->parts[i].name, quote, count(f, f->parts[i].id), quote, f->parts[i].mode, f->parts[i].groups);
			comma = ",";
		}
	rk_str_add(out, "}\n");
}

static void show_one(struct fake *f, int id, struct rk_str *out)
{
	const struct part *p = find(f, id);
	const char *comma = "";

	if (!p) {
		rk_str_add(out, "Error: The requested item does not exist.\n");
		return;
	}
	rk_str_addf(out, "{\"name\":\"%s\",\"num-gpus\":%d,\"locations\":{", p->name, count(f, id));
	for (int g = 0; g < GPUS; g++)
		if (seen_at(f, g) == id && !(f->fault == SHORT_LIST && g == 0)) {
			rk_str_addf(out, "%s\"1.%d.1.%d\":{\"uuid\":\"%" PRIu64 "\"}", comma, g / 4 + 1, g % 4 + 1, f->site->gpus[g].fabric_guid);
			comma = ",";
		}
	rk_str_add(out, "}}\n");
}

static void refuse(struct rk_str *out, const char *cause)
{
	rk_str_addf(out, "Action executing ...\nError: Action failed with the following issue:\n  %s\n", cause);
}

static bool move(struct fake *f, int g, int to, const char **ret_cause)
{
	struct gpu *gpu = &f->gpus[g];

	if (to && !find(f, to))
		return false;
	if (to && gpu->at)
		return false;
	if (f->fault == ALWAYS_BUSY || (to && (f->fault == BUSY || f->fault == PLAIN_REFUSAL) && now(f) < gpu->free_ms)) {
		*ret_cause = f->fault == PLAIN_REFUSAL ? "failed to update partition 1" : "NMX_ST_RESOURCE_IN_USE";
		return false;
	}
	if (f->fault == LIE)
		return true;
	gpu->was = seen_at(f, g);
	gpu->at = to;
	gpu->shows_ms = now(f) + SHOWS_AFTER_MS;
	gpu->free_ms = now(f) + RELEASED_AFTER_MS;
	return true;
}

static int gpu_with(const struct fake *f, const char *decimal)
{
	for (int g = 0; g < GPUS; g++)
		if (f->site->gpus[g].fabric_guid == strtoull(decimal, NULL, 10))
			return g;
	return -1;
}

static bool is_named(const struct fake *f, const char *name)
{
	for (int i = 0; i < PARTS; i++)
		if (f->parts[i].id && strcmp(f->parts[i].name, name) == 0)
			return true;
	return false;
}

static int groups_of(const char *const *argv)
{
	for (size_t i = 0; argv[i] && argv[i + 1]; i++)
		if (strcmp(argv[i], "mcast-limit") == 0)
			return atoi(argv[i + 1]);
	fail_msg("no mcast-limit");
	return 0;
}

/* argv[2] is the verb, argv[5] the id. */
static bool act(struct fake *f, const char *const *argv, const char **ret_cause)
{
	int id = atoi(argv[5]), g = argv[6] && strcmp(argv[6], "uuid") == 0 ? gpu_with(f, argv[7]) : -1;
	struct part *p = find(f, id);

	if (strcmp(argv[2], "update") == 0)
		return g >= 0 && move(f, g, id, ret_cause);
	if (strcmp(argv[2], "restore") == 0)
		return g >= 0 && f->gpus[g].at == id && move(f, g, 0, ret_cause);
	if (strcmp(argv[2], "delete") == 0) {
		if (!p || count(f, id))
			return false;
		p->id = 0;
		return true;
	}
	if (p || is_named(f, argv[7]))
		return false;
	for (p = f->parts; p->id; p++)
		;
	p->id = id;
	snprintf(p->name, sizeof(p->name), "%s", argv[7]);
	snprintf(p->mode, sizeof(p->mode), "%s", argv[9]);
	p->groups = groups_of(argv);
	return true;
}

static void action(struct fake *f, const char *const *argv, struct rk_str *out)
{
	const char *cause = "failed to update partition";
	bool old = strcmp(argv[2], "create") == 0 && strcmp(argv[10], "confidential-compute") == 0;

	f->actions++;
	if (f->fault == GRPC_DOWN || f->fault == DISABLED) {
		refuse(out, f->fault == DISABLED ? "cluster is not enabled" : "gRPC connection is down");
	} else if (f->fault == OLD_SYNTAX && strcmp(argv[2], "create") == 0 && !old) {
		rk_str_add(out, "Error: At resiliency-mode: 'full_bandwidth' is not one of ['FULL_BANDWIDTH', 'ADAPTIVE_BANDWIDTH']\n");
	} else if (f->fault == ODD) {
		rk_str_add(out, "Action executing ...\n");
	} else if (act(f, argv, &cause) && f->fault != FAILS_WITH_EFFECT) {
		rk_str_add(out, "Action executing ...\nAction succeeded\n");
	} else {
		refuse(out, cause);
	}
}

static void show_apps(const struct fake *f, const char *target, struct rk_str *out)
{
	bool here = (!f->controller || rk_streq(f->controller, target)) && f->fault != NO_APP;

	if (here)
		rk_str_addf(out, "{\"nmx-controller\":{\"app-id\":\"nmx-c-nvos\",\"status\":\"%s\",\"reason\":\"%s\"}}\n", f->fault == APP_NOT_OK ? "not ok" : "ok",
			    f->fault == APP_NOT_OK ? "Chassis mapping is missing" : "");
	else
		rk_str_add(out, "{\"nmx-telemetry\":{\"status\":\"ok\"}}\n");
}

static int run(void *ctx, const char *target, const char *const *argv, const char *input, size_t input_len, struct rk_ssh_result *result, struct rk_err *err)
{
	struct fake *f = ctx;
	bool here = !f->controller || rk_streq(f->controller, target);

	(void)input, (void)input_len;
	f->commands++;
	result->status = 0;
	if (rk_streq(f->dead, target))
		return rk_err_set(err, RK_UNREACHABLE, "connect: no route to host");
	if (strcmp(argv[1], "action") == 0) {
		action(f, argv, &result->out);
		if (f->fault == CUT)
			return rk_err_set(err, RK_UNREACHABLE, "the connection broke; whether the command ran is not known");
	} else if (strcmp(argv[2], "system") == 0) {
		rk_str_addf(&result->out, "{\"image\":\"nvos-25.02.%s\"}\n", target + strlen(target) - 1);
	} else if (strcmp(argv[2], "platform") == 0) {
		rk_str_add(&result->out, f->fault == ODD ? "Error: The requested item does not exist.\n" : "{\"slot-number\":9,\"chassis-sn\":\"SN1\"}\n");
	} else if (strcmp(argv[1], "config") == 0) {
		rk_str_add(&result->out, f->fault == UNSAVED ? "[{\"set\":{\"cluster\":{\"state\":\"enabled\"}}}]\n" : "Error: unknown command\n");
	} else if (strcmp(argv[2], "cluster") == 0 && strcmp(argv[3], "apps") == 0) {
		show_apps(f, target, &result->out);
	} else if (strcmp(argv[2], "cluster") == 0) {
		rk_str_addf(&result->out, "{\"state\":\"%s\",\"nmxc-conn\":\"%s\"}\n", f->fault == DISABLED ? "disabled" : "enabled", f->fault == GRPC_DOWN ? "down" : "up");
	} else if (!here) {
		rk_str_add(&result->out, "{}\n");
	} else if (argv[4] && strcmp(argv[4], "-o") == 0) {
		show_all(f, &result->out);
	} else {
		show_one(f, atoi(argv[4]), &result->out);
	}
	return 0;
}

/* ---- benches -------------------------------------------------------------------------------------------------------------------------- */

static struct fake *make(const char *switches)
{
	struct fake *f = rk_xcalloc(1, sizeof(*f));
	char *nvlink RK_CLEANUP_FREE = rk_xasprintf("\"driver\":\"nvos\",\"ssh\":\"%s\"", switches);

	f->site = fabric_site(nvlink, "\"driver\":\"opensm\",\"ssh\":\"root@sm\"");
	f->bench.clock = rk_clock_virtual(0);
	f->bench.site = f->site;
	f->parts[0] = (struct part){ .id = RK_NVL_DEFAULT, .groups = 1024, .name = "Default Partition", .mode = "adaptive_bandwidth" };
	for (int g = 0; g < GPUS; g++)
		f->gpus[g].at = RK_NVL_DEFAULT;
	f->remote = (struct rk_remote){ run, f };
	f->env = (struct rk_driver_env){ .site = f->site, .clock = f->bench.clock, .remote = &f->remote };
	assert_int_equal(rk_nvl_open(&f->env, &f->bench.nvl, NULL), 0);
	return f;
}

static int start(void **state)
{
	*state = make("admin@sw1");
	return 0;
}

static int start_three(void **state)
{
	*state = make("admin@sw[1-3]");
	return 0;
}

static int stop(void **state)
{
	struct fake *f = *state;

	f->bench.nvl->ops->free(f->bench.nvl);
	rk_clock_free(f->bench.clock);
	rk_site_free(f->site);
	free(f);
	return 0;
}

/* GPU 0 out of the default partition and into 1 under a fault: the class of the first call that fails, and where the GPU is. */
static const struct fault_row {
	const char *name;
	enum fault fault;
	int class, where;
	int64_t least_ms, most_ms; /* how long it took */
	const char *says;
} moves[] = {
	{ "a_slow_release_is_waited_for", BUSY, 0, 1, 3000, 45000, NULL },
	{ "a_refusal_without_a_cause_is_tried_again", PLAIN_REFUSAL, 0, 1, 3000, 20000, NULL },
	{ "resources_that_are_never_released_end_the_trying", ALWAYS_BUSY, RK_FAILED, RK_NVL_DEFAULT, 30000, 60000, "IN_USE" },
	{ "an_error_with_its_effect_is_seen_to_be_none", FAILS_WITH_EFFECT, 0, 1, 0, 60000, NULL },
	{ "a_success_without_effect_is_seen_by_reading_back", LIE, RK_CONFLICT, RK_NVL_DEFAULT, 0, 60000, "is in partition 32766" },
	{ "a_controller_without_connection_is_unreachable", GRPC_DOWN, RK_UNREACHABLE, RK_NVL_DEFAULT, 0, 10000, "gRPC connection is down" },
	{ "a_cluster_that_is_not_enabled_is_unreachable", DISABLED, RK_UNREACHABLE, RK_NVL_DEFAULT, 0, 10000, "cluster is not enabled" },
	{ "an_answer_that_is_not_understood_is_unknown", ODD, RK_UNREACHABLE, RK_NVL_DEFAULT, 0, 10000, "not understood" },
	{ "a_connection_cut_after_the_command_is_unknown", CUT, RK_UNREACHABLE, 0, 0, 10000, "whether the command ran" },
	{ "a_null_body_in_between_is_read_again", NULL_ONCE, 0, 1, 0, 30000, NULL },
	{ "numbers_as_text_are_read", TEXT_NUMBERS, 0, 1, 0, 30000, NULL },
};

static int move_gpu(struct fake *f, struct rk_err *err)
{
	const struct rk_nvl_ops *ops = f->bench.nvl->ops;
	int rc = ops->drop(f->bench.nvl, 0, RK_NVL_DEFAULT, nvl_guid(&f->bench, 0), err);

	/* As the step does: the switch must show that the GPU left. */
	for (int i = 0; rc == 0 && i < 20 && seen_at(f, 0); i++)
		rk_clock_sleep_ms(f->bench.clock, 200);
	return rc ? rc : ops->add(f->bench.nvl, 0, 1, nvl_guid(&f->bench, 0), err);
}

/* *state: the row. */
static void is_told_for_what_it_is(void **state)
{
	const struct fault_row *row = *state;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct fake *f;
	int id;

	start((void **)&f);
	NVL_RC(0, f->bench.nvl->ops->create(f->bench.nvl, 0, 1, "team", "full_bandwidth", 18, &id, error));
	f->fault = row->fault;
	int64_t began = now(f);
	int rc = move_gpu(f, &err);
	int64_t took = now(f) - began;
	if (rc != row->class || (row->says && !strstr(err.message, row->says)) || took < row->least_ms || took > row->most_ms)
		fail_msg("%s: %d after %lld ms: %s", row->name, rc, (long long)took, err.message ? err.message : "no error");
	f->fault = NONE;
	rk_clock_sleep_ms(f->bench.clock, 20000);
	assert_int_equal(nvl_where(&f->bench, nvl_guid(&f->bench, 0)), row->where);
	stop((void **)&f);
}

/* A cause that does not pass is told at once, and one that is not known after a quarter of a minute. */
static void a_refusal_is_not_repeated_for_long(void **state)
{
	struct fake *f = *state;
	int64_t began;
	int id;

	NVL_RC(0, f->bench.nvl->ops->create(f->bench.nvl, 0, 1, "team", "full_bandwidth", 18, &id, error));
	f->actions = 0;
	NVL_RC(RK_CONFLICT, f->bench.nvl->ops->add(f->bench.nvl, 0, 1, nvl_guid(&f->bench, 0), error));
	assert_int_equal(f->actions, 1);
	began = now(f);
	NVL_RC(RK_FAILED, f->bench.nvl->ops->add(f->bench.nvl, 0, 1, 0xabc, error));
	assert_true(now(f) - began <= 20000);
}

static void uncertain_lists_are_unknown(void **state)
{
	static const enum fault faults[] = { NULL_BODY, GRPC_DOWN, DISABLED, SHORT_LIST };
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct fake *f = *state;
	struct rk_nvl_live *live;
	size_t n;

	for (size_t i = 0; i < RK_ARRAY_SIZE(faults); i++) {
		f->fault = faults[i];
		/* A null list of a controller that says it works is an empty one. */
		if (faults[i] != NULL_BODY)
			NVL_RC(RK_UNREACHABLE, f->bench.nvl->ops->list(f->bench.nvl, 0, arena, &live, &n, error));
	}
}

/* A null body among good ones is not an empty domain. */
static void one_null_body_is_read_again(void **state)
{
	struct fake *f = *state;

	f->fault = NULL_ONCE;
	assert_int_equal(nvl_where(&f->bench, nvl_guid(&f->bench, 0)), RK_NVL_DEFAULT);
	f->fault = NULL_BODY;
	assert_int_equal(nvl_where(&f->bench, nvl_guid(&f->bench, 0)), 0);
}

static void the_controller_is_found_and_found_again(void **state)
{
	struct fake *f = *state;

	f->controller = "admin@sw2";
	nvl_contract_begins_in_the_default_partition(&f->bench);
	/* It moves, and the switch it was on goes away. */
	f->controller = "admin@sw3";
	assert_int_equal(nvl_where(&f->bench, nvl_guid(&f->bench, 0)), RK_NVL_DEFAULT);
	f->controller = "admin@sw1";
	f->dead = "admin@sw3";
	assert_int_equal(nvl_where(&f->bench, nvl_guid(&f->bench, 0)), RK_NVL_DEFAULT);
}

static const struct {
	enum fault fault;
	int class;
	const char *says, *hint;
} healths[] = {
	{ NONE, 0, NULL, NULL },
	{ DISABLED, RK_UNHEALTHY, "not enabled", "nv config save" },
	{ GRPC_DOWN, RK_UNHEALTHY, "no connection to its NMX controller", NULL },
	{ APP_NOT_OK, RK_UNHEALTHY, "Chassis mapping is missing", NULL },
	{ NO_APP, RK_UNHEALTHY, "its cluster is enabled: it moved to another switch", "name all switches of the rack in nvlink.ssh" },
	{ UNSAVED, RK_UNHEALTHY, "is not saved", "nv config save on admin@sw1" },
};

static void what_is_wrong_with_the_controller_is_named(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct fake *f = *state;

	for (size_t i = 0; i < RK_ARRAY_SIZE(healths); i++) {
		struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
		f->fault = healths[i].fault;
		const char *where;
		int rc = f->bench.nvl->ops->health(f->bench.nvl, 0, arena, &where, &err);
		if (rc != healths[i].class || (healths[i].says && !strstr(err.message, healths[i].says)) ||
		    (healths[i].hint && (!err.hint || !strstr(err.hint, healths[i].hint))))
			fail_msg("fault %d: %d: %s; %s", (int)healths[i].fault, rc, err.message ? err.message : "no error", err.hint ? err.hint : "no hint");
	}
}

static int health(struct fake *f, struct rk_arena *arena, const char **where, struct rk_err *err)
{
	return f->bench.nvl->ops->health(f->bench.nvl, 0, arena, where, err);
}

static void no_controller_on_any_switch_is_named(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct fake *f = *state;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	const char *where;

	f->fault = NO_APP;
	assert_int_equal(health(f, arena, &where, &err), RK_UNHEALTHY);
	assert_non_null(strstr(err.message, "none of the 3 switches runs the NMX controller"));
	assert_null(where);
}

static void the_switch_that_runs_the_controller_is_told(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct fake *f = *state;
	const char *where;

	f->controller = "admin@sw2";
	NVL_RC(0, health(f, arena, &where, error));
	assert_string_equal(where, "admin@sw2");
	/* It moves while the session goes on. */
	f->controller = "admin@sw3";
	assert_int_equal(nvl_where(&f->bench, nvl_guid(&f->bench, 0)), RK_NVL_DEFAULT);
	NVL_RC(0, health(f, arena, &where, error));
	assert_string_equal(where, "admin@sw3");
	/* Unsaved: it is there, and known where. */
	f->fault = UNSAVED;
	NVL_RC(RK_UNHEALTHY, health(f, arena, &where, error));
	assert_string_equal(where, "admin@sw3");
}

/* The tray that runs it is down: the others do not have it, and that one is named. */
static void a_controller_whose_switch_is_down_is_named_by_its_switch(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct fake *f = *state;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_nvl_live *live;
	const char *where;
	size_t n;

	f->controller = f->dead = "admin@sw2";
	assert_int_equal(health(f, arena, &where, &err), RK_UNREACHABLE);
	assert_non_null(strstr(err.message, "switch admin@sw2: connect: no route to host"));
	NVL_RC(RK_UNREACHABLE, f->bench.nvl->ops->list(f->bench.nvl, 0, arena, &live, &n, error));
}

static void modes_and_numbers_that_no_switch_has_are_refused(void **state)
{
	struct fake *f = *state;
	int id;

	NVL_RC(RK_INVALID, f->bench.nvl->ops->create(f->bench.nvl, 0, 2, "team", "full_bandwidth", 1025, &id, error));
	NVL_RC(RK_INVALID, f->bench.nvl->ops->create(f->bench.nvl, 0, 2, "team", "fast", 18, &id, error));
}

static void an_older_release_is_spoken_to_in_its_own_way(void **state)
{
	struct fake *f = *state;
	int id;

	f->fault = OLD_SYNTAX;
	NVL_RC(0, f->bench.nvl->ops->create(f->bench.nvl, 0, 1, "team", "user_action", 18, &id, error));
	assert_string_equal(find(f, 1)->mode, "USER_ACTION");
	f->actions = 0;
	NVL_RC(0, f->bench.nvl->ops->create(f->bench.nvl, 0, 2, "team2", "full_bandwidth", 18, &id, error));
	assert_int_equal(f->actions, 1);
}

/* A site may have racks of both kinds: each call goes to the driver of its rack, also after the store was read again. */
static void racks_with_other_drivers_are_served_side_by_side(void **state)
{
	static const char text[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\",\"infiniband\":[{\"name\":\"ib0\",\"driver\":\"ufm\"},"
				   "{\"name\":\"ib1\",\"driver\":\"opensm\",\"ssh\":\"root@sm\"}],\"racks\":["
				   "{\"name\":\"r1\",\"nvlink\":{\"driver\":\"nvos\",\"ssh\":\"admin@sw1\"},\"trays\":{\"count\":2}},"
				   "{\"name\":\"r2\",\"nvlink\":{\"driver\":\"nmxm\"},\"trays\":{\"count\":1}}],\"images\":[],\"tenants\":[]}";
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct fake *f = *state;
	struct rk_site *site = NULL, *again = NULL;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_nvl *nvl;
	struct rk_nvl_live *live;
	struct rk_ib *ib;
	struct rk_ib_live *parts;
	size_t n;

	assert_int_equal(rk_site_parse("site", text, strlen(text), &site, &err), 0);
	assert_int_equal(rk_site_parse("site", text, strlen(text), &again, &err), 0);
	f->env.site = site;
	assert_int_equal(rk_nvl_open(&f->env, &nvl, &err), 0);
	assert_int_equal(nvl->ops->list(nvl, 0, arena, &live, &n, &err), 0);
	nvl->site = again;
	rk_site_free(site);
	f->env.site = again;
	assert_int_equal(nvl->ops->list(nvl, 0, arena, &live, &n, &err), 0);
	assert_int_equal(n, 1);
	const char *where;
	assert_int_equal(nvl->ops->health(nvl, 1, arena, &where, &err), RK_INVALID);
	assert_non_null(strstr(err.message, "names no \"url\""));
	nvl->ops->free(nvl);
	assert_int_equal(rk_ib_open(&f->env, &ib, &err), 0);
	assert_int_equal(ib->ops->list(ib, 0, arena, &parts, &n, &err), RK_INVALID);
	assert_non_null(strstr(err.message, "names no \"url\""));
	assert_int_equal(ib->ops->list(ib, 1, arena, &parts, &n, &err), RK_UNREACHABLE);
	ib->ops->free(ib);
	rk_site_free(again);
}

static void every_switch_tray_says_what_it_runs_and_where_it_sits(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct fake *f = *state;
	struct rk_nvl_switch *s;
	size_t n;

	f->dead = "admin@sw2";
	assert_int_equal(f->bench.nvl->ops->switches(f->bench.nvl, 0, arena, &s, &n, NULL), 0);
	assert_int_equal(n, 3);
	assert_string_equal(s[0].name, "sw1");
	assert_string_equal(s[0].version, "25.02.1");
	assert_string_equal(s[0].chassis, "SN1");
	assert_non_null(strstr(s[1].why, "no route to host"));
	assert_null(s[1].version);
	assert_null(s[2].why);
	assert_string_equal(s[2].version, "25.02.3");
	f->fault = ODD; /* an older release that does not know its place */
	assert_int_equal(f->bench.nvl->ops->switches(f->bench.nvl, 0, arena, &s, &n, NULL), 0);
	assert_null(s[0].why);
	assert_null(s[0].chassis);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		NVL_CONTRACT(start, stop),
		cmocka_unit_test_setup_teardown(a_refusal_is_not_repeated_for_long, start, stop),
		cmocka_unit_test_setup_teardown(uncertain_lists_are_unknown, start, stop),
		cmocka_unit_test_setup_teardown(one_null_body_is_read_again, start, stop),
		cmocka_unit_test_setup_teardown(one_null_body_is_read_again, start_three, stop),
		cmocka_unit_test_setup_teardown(the_controller_is_found_and_found_again, start_three, stop),
		cmocka_unit_test_setup_teardown(what_is_wrong_with_the_controller_is_named, start, stop),
		cmocka_unit_test_setup_teardown(no_controller_on_any_switch_is_named, start_three, stop),
		cmocka_unit_test_setup_teardown(the_switch_that_runs_the_controller_is_told, start_three, stop),
		cmocka_unit_test_setup_teardown(a_controller_whose_switch_is_down_is_named_by_its_switch, start_three, stop),
		cmocka_unit_test_setup_teardown(modes_and_numbers_that_no_switch_has_are_refused, start, stop),
		cmocka_unit_test_setup_teardown(racks_with_other_drivers_are_served_side_by_side, start, stop),
		cmocka_unit_test_setup_teardown(every_switch_tray_says_what_it_runs_and_where_it_sits, start_three, stop),
		cmocka_unit_test_setup_teardown(an_older_release_is_spoken_to_in_its_own_way, start, stop),
	};

	struct CMUnitTest faults[RK_ARRAY_SIZE(moves)];
	for (size_t i = 0; i < RK_ARRAY_SIZE(moves); i++)
		faults[i] = (struct CMUnitTest){ .name = moves[i].name, .test_func = is_told_for_what_it_is, .initial_state = (void *)&moves[i] };
	return cmocka_run_group_tests(tests, NULL, NULL) + cmocka_run_group_tests(faults, NULL, NULL);
}
