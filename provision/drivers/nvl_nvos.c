/* NVLink partitions through the NVOS command line over SSH. One GPU per command, no transactions; "Action succeeded" means accepted.
 * One text covers "GPU is elsewhere", "added twice" and "unknown GPU": after a refusal the state is read again and explained. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "provision/drivers/nvos_parse.h"
#include "provision/drivers/session.h"

enum { RETRY_TOTAL_MS = 40000, READS = 3, NOBODY = -1 };

enum command { SHOW_ALL, SHOW_ONE, SHOW_CLUSTER, SHOW_APPS, CREATE, DELETE, ADD, DROP };

/* {id} {name} {mode} {groups} {uuid} are filled in. NVOS calls adding "update" and removing "restore". */
static const char *const commands[][16] = {
	[SHOW_ALL] = { "nv", "show", "sdn", "partition", "-o", "json", NULL },
	[SHOW_ONE] = { "nv", "show", "sdn", "partition", "{id}", "-o", "json", NULL },
	[SHOW_CLUSTER] = { "nv", "show", "cluster", "-o", "json", NULL },
	[SHOW_APPS] = { "nv", "show", "cluster", "apps", "-o", "json", NULL },
	[CREATE] = { "nv", "action", "create", "sdn", "partition", "{id}", "name", "{name}", "resiliency-mode", "{mode}", "mcast-limit", "{groups}", NULL },
	[DELETE] = { "nv", "action", "delete", "sdn", "partition", "{id}", NULL },
	[ADD] = { "nv", "action", "update", "sdn", "partition", "{id}", "uuid", "{uuid}", NULL },
	[DROP] = { "nv", "action", "restore", "sdn", "partition", "{id}", "uuid", "{uuid}", NULL },
};

struct args {
	int id, groups;
	const char *name, *mode;
	uint64_t gpu;
};

struct rack_state {
	pthread_mutex_t lock;
	struct rk_session session;
	int controller;                   /* entry of nvlink.ssh that answers for the domain, or NOBODY */
};
struct nvos {
	struct rk_nvl nvl;
	struct rk_driver_env env;
	struct rack_state *racks;
	size_t n_racks;
};

static int fill(enum command command, const struct args *args, struct rk_arena *arena, const char **argv)
{
	const struct {
		const char *place, *value;
	} values[] = {
		{ "{id}", rk_arena_printf(arena, "%d", args->id) },
		{ "{name}", args->name },
		{ "{mode}", args->mode },
		{ "{groups}", rk_arena_printf(arena, "%d", args->groups) },
		{ "{uuid}", rk_arena_printf(arena, "%" PRIu64, args->gpu) },
	};
	int n = 0;

	for (; commands[command][n]; n++) {
		argv[n] = commands[command][n];
		for (size_t v = 0; v < RK_ARRAY_SIZE(values); v++)
			if (rk_streq(argv[n], values[v].place))
				argv[n] = values[v].value;
	}
	argv[n] = NULL;
	return n;
}

static const struct rk_rack *rack_of(const struct nvos *nvos, int rack)
{
	return &nvos->nvl.site->racks[rack];
}

static int run_at(struct nvos *nvos, int rack, size_t index, enum command command, const struct args *args, struct rk_arena *arena,
		  struct rk_ssh_result *result, struct rk_err *err)
{
	const struct rk_rack *r = rack_of(nvos, rack);
	struct rk_ssh_limits limits = { .total_ms = nvos->env.timeout_ms, .idle_ms = nvos->env.timeout_ms };
	struct rk_driver_env env = nvos->env;
	const char *argv[16];

	env.site = nvos->nvl.site;
	fill(command, args, arena, argv);
	return rk_session_run(&nvos->racks[rack].session, &env, &r->nvlink, index, r->n_trays ? r->first_tray : RK_NONE, &limits, argv, NULL, 0, result, err);
}

static const char *said(struct rk_arena *arena, const struct rk_ssh_result *r)
{
	const char *out = rk_str_text(&r->out), *error = strstr(out, "Error:");

	if (error && strstr(error, "issue:") && strchr(error, '\n'))
		error = strchr(error, '\n');
	return rk_first_line(arena, error ? error : r->err.len ? rk_str_text(&r->err) : out);
}

/* One read command at one switch; its JSON text in the arena, or the class of what went wrong. */
static int show_at(struct nvos *nvos, int rack, size_t index, enum command command, const struct args *args, struct rk_arena *arena,
		   const char **ret, struct rk_err *err)
{
	struct rk_ssh_result result;
	size_t len;
	int rc = run_at(nvos, rack, index, command, args, arena, &result, err);

	if (rc == 0) {
		enum rk_nvos_answer answer = rk_nvos_classify(result.status, rk_str_text(&result.out), rk_str_text(&result.err));
		bool json = rk_nvos_json(rk_str_text(&result.out), &len) != NULL;
		if (answer == RK_NVOS_ABSENT && !json)
			rc = rk_err_set(err, RK_NOT_FOUND, "it does not exist");
		else if (result.truncated || result.status != 0 || (answer != RK_NVOS_ODD && answer != RK_NVOS_DONE && !json))
			rc = rk_err_set(err, RK_UNREACHABLE, "the switch answered: %s", said(arena, &result));
		else
			*ret = rk_arena_strdup(arena, rk_str_text(&result.out));
	}
	rk_ssh_result_clear(&result);
	return rc;
}

/* Among several switch trays one runs the controller: the first that lists partitions. It is kept until it stops answering. */
static int show_all(struct nvos *nvos, int rack, struct rk_arena *arena, const char **ret, struct rk_err *err)
{
	struct rack_state *state = &nvos->racks[rack];
	static const struct args none;
	size_t n = rack_of(nvos, rack)->nvlink.n_ssh;
	int rc = RK_UNREACHABLE;

	if (state->controller != NOBODY) {
		rc = show_at(nvos, rack, (size_t)state->controller, SHOW_ALL, &none, arena, ret, err);
		if (rc == 0 || rc == RK_CANCELLED || n == 1)
			return rc;
	}
	if (n == 0)
		return rk_err_set(err, RK_INVALID, "the site file names no NVLink switch (nvlink.ssh)");
	for (size_t i = 0; i < n; i++) {
		rc = show_at(nvos, rack, i, SHOW_ALL, &none, arena, ret, err);
		if (rc == 0)
			state->controller = (int)i;
		if (rc == 0 || rc == RK_CANCELLED)
			return rc;
	}
	return rc;
}

static size_t controller(const struct nvos *nvos, int rack)
{
	return nvos->racks[rack].controller == NOBODY ? 0 : (size_t)nvos->racks[rack].controller;
}

static int cmp_live(const void *a, const void *b)
{
	return ((const struct rk_nvl_live *)a)->id - ((const struct rk_nvl_live *)b)->id;
}

static int read_once(struct nvos *nvos, int rack, struct rk_arena *arena, struct rk_nvl_live **ret, size_t *ret_n, struct rk_err *err)
{
	const char *text;
	struct rk_nvos_row *rows;
	size_t n, kept = 0;
	int rc = show_all(nvos, rack, arena, &text, err);

	if (rc != 0 || (rc = rk_nvos_list(text, arena, &rows, &n, err)) != 0)
		return rc;
	struct rk_nvl_live *live = rk_arena_array(arena, n ? n : 1, sizeof(*live));
	static const struct args none;
	/* "No partitions" is also what a controller without a cluster may answer. */
	if (n == 0 && ((rc = show_at(nvos, rack, controller(nvos, rack), SHOW_CLUSTER, &none, arena, &text, err)) != 0 || (rc = rk_nvos_cluster(text, err)) != 0))
		return rc == RK_CANCELLED ? rc : rk_err_set(err, RK_UNREACHABLE, "the switch lists no partitions and its cluster is not known to be up");
	for (size_t i = 0; i < n; i++) {
		struct args one = { .id = rows[i].live.id };
		rc = show_at(nvos, rack, controller(nvos, rack), SHOW_ONE, &one, arena, &text, err);
		if (rc == RK_NOT_FOUND) /* went away between the two commands */
			continue;
		if (rc != 0 || (rc = rk_nvos_members(text, rows[i].announced, arena, &rows[i].live, err)) != 0)
			return rc;
		live[kept++] = rows[i].live;
	}
	qsort(live, kept, sizeof(*live), cmp_live);
	*ret = live;
	*ret_n = kept;
	return 0;
}

/* With the rack's lock held. Counts and lists can disagree for a moment while GPUs move. */
static int read_state(struct nvos *nvos, int rack, struct rk_arena *arena, struct rk_nvl_live **ret, size_t *ret_n, struct rk_err *err)
{
	for (int try = 1;; try++) {
		int rc = read_once(nvos, rack, arena, ret, ret_n, err);
		if (rc != RK_UNREACHABLE || try == READS || !nvos->racks[rack].session.ssh)
			return rc;
		rk_clock_sleep_ms(nvos->env.clock, 500 * try);
	}
}

static int while_rack(struct nvos *nvos, int rack, int rc, struct rk_err *err)
{
	if (rc != 0 && rc != RK_CANCELLED)
		rk_err_while(err, "NVLink of rack \"%s\"", rack_of(nvos, rack)->name);
	return rc;
}

static int nvos_list(struct rk_nvl *nvl, int rack, struct rk_arena *arena, struct rk_nvl_live **ret, size_t *ret_n, struct rk_err *err)
{
	struct nvos *nvos = (struct nvos *)nvl;

	pthread_mutex_lock(&nvos->racks[rack].lock);
	int rc = read_state(nvos, rack, arena, ret, ret_n, err);
	pthread_mutex_unlock(&nvos->racks[rack].lock);
	return while_rack(nvos, rack, rc, err);
}

static int partition_of(const struct rk_nvl_live *live, size_t n, uint64_t gpu)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < live[i].n_gpus; k++)
			if (live[i].gpus[k] == gpu)
				return live[i].id;
	return 0;
}

static const struct rk_nvl_live *find_id(const struct rk_nvl_live *live, size_t n, int id)
{
	for (size_t i = 0; i < n; i++)
		if (live[i].id == id)
			return &live[i];
	return NULL;
}

/* What a refusal means, from the state: 0 already as wanted, RK_CONFLICT, or RK_FAILED (worth another try). */
static int explain(enum command command, const struct args *args, const struct rk_nvl_live *live, size_t n, struct rk_err *err)
{
	const struct rk_nvl_live *at = find_id(live, n, args->id);
	int held = args->gpu ? partition_of(live, n, args->gpu) : 0;

	switch (command) {
	case CREATE:
		if (at && !rk_streq(at->name, args->name))
			return rk_err_set(err, RK_CONFLICT, "partition %d exists with the name \"%s\"", args->id, at->name ? at->name : "");
		return at ? 0 : RK_FAILED;
	case DELETE:
		return at ? RK_FAILED : 0;
	case ADD:
		if (held && held != args->id)
			return rk_err_set(err, RK_CONFLICT, "GPU 0x%016" PRIx64 " is in partition %d", args->gpu, held);
		if (!at)
			return rk_err_set(err, RK_NOT_FOUND, "partition %d does not exist", args->id);
		return held ? 0 : RK_FAILED;
	default:
		return held == args->id ? RK_FAILED : 0;
	}
}

/* One attempt; RK_FAILED means that trying again later makes sense. */
static int act_once(struct nvos *nvos, int rack, enum command command, const struct args *args, struct rk_arena *arena, struct rk_err *err)
{
	struct rk_ssh_result result;
	struct rk_nvl_live *live;
	size_t n;
	int rc = run_at(nvos, rack, controller(nvos, rack), command, args, arena, &result, err);

	if (rc != 0) {
		rk_ssh_result_clear(&result);
		return rc;
	}
	enum rk_nvos_answer answer = rk_nvos_classify(result.status, rk_str_text(&result.out), rk_str_text(&result.err));
	const char *text = said(arena, &result);
	rk_ssh_result_clear(&result);
	switch (answer) {
	case RK_NVOS_DONE:
		return 0;
	case RK_NVOS_BUSY:
		return rk_err_set(err, RK_FAILED, "the switch has not released the resources yet: %s", text);
	case RK_NVOS_DOWN:
		return rk_err_set(err, RK_UNREACHABLE, "the NVLink controller does not work: %s", text);
	case RK_NVOS_INVALID:
		return rk_err_set(err, RK_INVALID, "the switch refused an argument: %s", text);
	case RK_NVOS_ODD:
		return rk_err_set(err, RK_UNREACHABLE, "the answer is not understood, the outcome not known: %s", text);
	default:
		break;
	}
	if ((rc = read_state(nvos, rack, arena, &live, &n, err)) != 0)
		return rc;
	rc = explain(command, args, live, n, err);
	return rc == RK_FAILED ? rk_err_set(err, RK_FAILED, "the switch refused: %s", text) : rc;
}

/* Resources of a removed GPU or partition stay taken for 10 to 15 s although the switch no longer lists them. */
static int act(struct nvos *nvos, int rack, enum command command, const struct args *args, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const char *text;
	int waited = 0, wait = 1000, rc;

	if (nvos->env.read_only)
		return rk_err_set(err, RK_INVALID, "--read-only: nothing is changed on NVLink switches");
	pthread_mutex_lock(&nvos->racks[rack].lock);
	/* Finds the controller among several switch trays. */
	rc = nvos->racks[rack].controller == NOBODY ? show_all(nvos, rack, arena, &text, err) : 0;
	while (rc == 0) {
		rc = act_once(nvos, rack, command, args, arena, err);
		if (rc != RK_FAILED || waited >= RETRY_TOTAL_MS)
			break;
		rk_clock_sleep_ms(nvos->env.clock, wait);
		waited += wait;
		wait = wait < 8000 ? wait * 2 : 8000;
		rc = nvos->env.cancel && *nvos->env.cancel ? rk_err_set(err, RK_CANCELLED, "cancelled") : 0;
	}
	pthread_mutex_unlock(&nvos->racks[rack].lock);
	return while_rack(nvos, rack, rc, err);
}

static bool printable(const char *s)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n; i++)
		if (s[i] < ' ' || s[i] > '~')
			return false;
	return n >= 1 && n <= 244;
}

static int guard(int id, bool allow_default, struct rk_err *err)
{
	if (id < 1 || id > RK_NVL_DEFAULT || (id == RK_NVL_DEFAULT && !allow_default))
		return rk_err_set(err, RK_INVALID, "partition %d is not one that racksh makes or removes", id);
	return 0;
}

static int nvos_create(struct rk_nvl *nvl, int rack, int id, const char *name, const char *mode, int groups, struct rk_err *err)
{
	struct args args = { .id = id, .name = name, .mode = mode ? mode : "full_bandwidth", .groups = groups };

	if (!printable(name) || rk_streq(name, "Default Partition"))
		return rk_err_set(err, RK_INVALID, "an NVLink partition cannot have this name");
	return guard(id, false, err) ? RK_INVALID : act((struct nvos *)nvl, rack, CREATE, &args, err);
}

static int nvos_remove(struct rk_nvl *nvl, int rack, int id, struct rk_err *err)
{
	struct args args = { .id = id };

	return guard(id, false, err) ? RK_INVALID : act((struct nvos *)nvl, rack, DELETE, &args, err);
}

static int nvos_add(struct rk_nvl *nvl, int rack, int id, uint64_t gpu, struct rk_err *err)
{
	struct args args = { .id = id, .gpu = gpu };

	return guard(id, true, err) ? RK_INVALID : act((struct nvos *)nvl, rack, ADD, &args, err);
}

static int nvos_drop(struct rk_nvl *nvl, int rack, int id, uint64_t gpu, struct rk_err *err)
{
	struct args args = { .id = id, .gpu = gpu };

	return guard(id, true, err) ? RK_INVALID : act((struct nvos *)nvl, rack, DROP, &args, err);
}

static int nvos_health(struct rk_nvl *nvl, int rack, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct nvos *nvos = (struct nvos *)nvl;
	static const struct args none;
	const char *text;

	pthread_mutex_lock(&nvos->racks[rack].lock);
	int rc = nvos->racks[rack].controller == NOBODY ? show_all(nvos, rack, arena, &text, err) : 0;
	if (rc == 0 && (rc = show_at(nvos, rack, controller(nvos, rack), SHOW_CLUSTER, &none, arena, &text, err)) == 0)
		rc = rk_nvos_cluster(text, err);
	if (rc == 0 && (rc = show_at(nvos, rack, controller(nvos, rack), SHOW_APPS, &none, arena, &text, err)) == 0)
		rc = rk_nvos_apps(text, err);
	pthread_mutex_unlock(&nvos->racks[rack].lock);
	return while_rack(nvos, rack, rc, err);
}

static void nvos_free(struct rk_nvl *nvl)
{
	struct nvos *nvos = (struct nvos *)nvl;

	for (size_t i = 0; i < nvos->n_racks; i++) {
		rk_session_close(&nvos->racks[i].session);
		pthread_mutex_destroy(&nvos->racks[i].lock);
	}
	free(nvos->racks);
	free(nvos);
}

static const struct rk_nvl_ops ops = { nvos_list, nvos_create, nvos_remove, nvos_add, nvos_drop, nvos_health, nvos_free };

int rk_nvl_nvos(const struct rk_driver_env *env, struct rk_nvl **ret, struct rk_err *err)
{
	struct nvos *nvos = rk_xcalloc(1, sizeof(*nvos));

	(void)err;
	nvos->nvl = (struct rk_nvl){ &ops, env->site };
	nvos->env = *env;
	nvos->n_racks = env->site->n_racks;
	nvos->racks = rk_xcalloc(nvos->n_racks ? nvos->n_racks : 1, sizeof(*nvos->racks));
	for (size_t i = 0; i < nvos->n_racks; i++) {
		pthread_mutex_init(&nvos->racks[i].lock, NULL);
		nvos->racks[i].controller = NOBODY;
	}
	*ret = &nvos->nvl;
	return 0;
}
