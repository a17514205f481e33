/* NVLink partitions through the NVOS command line over SSH. One GPU per command, no transactions; "Action succeeded" means accepted.
 * One text covers "GPU is elsewhere", "added twice" and "unknown GPU": after a refusal the state is read again and explained. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "provision/drivers/nvos_commands.h"
#include "provision/drivers/nvos_parse.h"
#include "provision/drivers/session.h"

/* How long a refused action is tried again. A plain refusal has no cause in its text; resources that are not released yet are the only one that passes,
 * and take 10 to 15 s. */
enum { BUSY_MS = 40000, REFUSED_MS = 15000, READS = 3, NOBODY = -1, MULTICAST_MAX = 1024 };

struct rack_state {
	pthread_mutex_t lock;
	struct rk_session session;
	int controller;                   /* entry of nvlink.ssh that answers for the domain, or NOBODY */
	enum rk_nvos_dialect dialect;
};
struct nvos {
	struct rk_nvl nvl;
	struct rk_driver_env env;
	struct rack_state *racks;
	size_t n_racks;
};

static const struct rk_rack *rack_of(const struct nvos *nvos, int rack)
{
	return &nvos->nvl.site->racks[rack];
}

static int run_at(struct nvos *nvos, int rack, size_t index, enum rk_nvos_command command, const struct rk_nvos_args *args, struct rk_arena *arena,
		  struct rk_ssh_result *result, struct rk_err *err)
{
	const struct rk_rack *r = rack_of(nvos, rack);
	struct rk_ssh_limits limits = { .command_ms = nvos->env.timeout_ms, .idle_ms = nvos->env.timeout_ms };
	struct rk_driver_env env = nvos->env;
	const char *argv[RK_NVOS_WORDS];

	env.site = nvos->nvl.site;
	rk_nvos_argv(nvos->racks[rack].dialect, command, args, arena, argv);
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
static int show_at(struct nvos *nvos, int rack, size_t index, enum rk_nvos_command command, const struct rk_nvos_args *args, struct rk_arena *arena,
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

/* What a switch tray says of the controller: 0 it runs here, RK_NOT_FOUND not here, RK_UNHEALTHY here but not working, RK_UNREACHABLE. */
static int ask_for_controller(struct nvos *nvos, int rack, size_t index, struct rk_arena *arena, struct rk_err *err)
{
	static const struct rk_nvos_args none;
	const char *text;
	int rc = show_at(nvos, rack, index, RK_NVOS_SHOW_APPS, &none, arena, &text, err);

	return rc ? rc : rk_nvos_apps(text, err);
}

/* Among several switch trays one runs the controller, and which one may change. The worst that was heard is told when none does. */
static int find_controller(struct nvos *nvos, int rack, struct rk_arena *arena, struct rk_err *err)
{
	struct rack_state *state = &nvos->racks[rack];
	const struct rk_manager *manager = &rack_of(nvos, rack)->nvlink;
	struct rk_err worst RK_CLEANUP_ERR = RK_ERR_INIT;
	size_t without = 0;

	for (size_t i = 0; i < manager->n_ssh; i++) {
		struct rk_err one RK_CLEANUP_ERR = RK_ERR_INIT;
		int rc = ask_for_controller(nvos, rack, i, arena, &one);
		if (rc == 0 || rc == RK_CANCELLED) {
			state->controller = rc ? NOBODY : (int)i;
			rk_err_move(err, &one);
			return rc;
		}
		without += rc == RK_NOT_FOUND;
		rk_err_while(&one, "switch %s", manager->ssh[i]);
		/* A controller that is there and does not work says more than a switch that does not answer. */
		if (!worst.rc || worst.rc == RK_NOT_FOUND || (rc == RK_UNHEALTHY && worst.rc == RK_UNREACHABLE))
			rk_err_move(&worst, &one);
	}
	if (without == manager->n_ssh) {
		rk_err_set(err, RK_UNHEALTHY, "none of the %zu switches runs the NMX controller: not configured, or not started", without);
		rk_err_hint(err, "nv action start cluster apps nmx-controller on one of them");
		return RK_UNHEALTHY;
	}
	int rc = worst.rc;
	rk_err_move(err, &worst);
	return rc;
}

/* With one switch named, that one is asked; the controller of several is kept until it stops listing partitions. */
static int know_controller(struct nvos *nvos, int rack, struct rk_arena *arena, struct rk_err *err)
{
	struct rack_state *state = &nvos->racks[rack];
	size_t n = rack_of(nvos, rack)->nvlink.n_ssh;

	if (n == 0)
		return rk_err_set(err, RK_INVALID, "the site file names no NVLink switch (nvlink.ssh)");
	if (n == 1)
		state->controller = 0;
	return state->controller == NOBODY ? find_controller(nvos, rack, arena, err) : 0;
}

/* To whom asks for partitions a controller that does not work is one that does not answer. */
static int not_known(int rc, struct rk_err *err)
{
	if (rc != RK_UNHEALTHY && rc != RK_NOT_FOUND)
		return rc;
	if (err)
		err->rc = RK_UNREACHABLE;
	return RK_UNREACHABLE;
}

static int show_all(struct nvos *nvos, int rack, struct rk_arena *arena, const char **ret, struct rk_err *err)
{
	struct rack_state *state = &nvos->racks[rack];
	static const struct rk_nvos_args none;
	bool fresh = state->controller == NOBODY, several = rack_of(nvos, rack)->nvlink.n_ssh > 1;
	int rc = know_controller(nvos, rack, arena, err);

	if (rc == 0)
		rc = show_at(nvos, rack, (size_t)state->controller, RK_NVOS_SHOW_ALL, &none, arena, ret, err);
	if (rc == 0 || rc == RK_CANCELLED || fresh || !several)
		return not_known(rc, err);
	/* It moved, perhaps. */
	state->controller = NOBODY;
	rc = know_controller(nvos, rack, arena, err);
	if (rc == 0)
		rc = show_at(nvos, rack, (size_t)state->controller, RK_NVOS_SHOW_ALL, &none, arena, ret, err);
	return not_known(rc, err);
}

static size_t controller(const struct nvos *nvos, int rack)
{
	return nvos->racks[rack].controller == NOBODY ? 0 : (size_t)nvos->racks[rack].controller;
}

static int cmp_live(const void *a, const void *b)
{
	return ((const struct rk_nvl_live *)a)->id - ((const struct rk_nvl_live *)b)->id;
}

/* "No partitions" is also what a switch without the controller, or a controller without a cluster, may answer. 0: it is so. */
static int believe_empty(struct nvos *nvos, int rack, struct rk_arena *arena, struct rk_err *err)
{
	static const struct rk_nvos_args none;
	const char *text;
	int rc = show_at(nvos, rack, controller(nvos, rack), RK_NVOS_SHOW_CLUSTER, &none, arena, &text, err);

	if (rc == 0)
		rc = rk_nvos_cluster(text, err);
	if (rc == 0 || rc == RK_CANCELLED)
		return rc;
	return rk_err_set(err, RK_UNREACHABLE, "the switch lists no partitions and its cluster is not known to be up");
}

/* The list of partitions, without members. An empty one makes the controller be looked for again: it may have moved. */
static int read_rows(struct nvos *nvos, int rack, struct rk_arena *arena, struct rk_nvos_row **ret, size_t *ret_n, struct rk_err *err)
{
	const char *text;
	int before = nvos->racks[rack].controller, rc = show_all(nvos, rack, arena, &text, err);

	if (rc != 0 || (rc = rk_nvos_list(text, arena, ret, ret_n, err)) != 0 || *ret_n)
		return rc;
	if (rack_of(nvos, rack)->nvlink.n_ssh > 1 && before != NOBODY) {
		nvos->racks[rack].controller = NOBODY;
		rc = show_all(nvos, rack, arena, &text, err);
		if (rc != 0 || (rc = rk_nvos_list(text, arena, ret, ret_n, err)) != 0 || *ret_n)
			return rc;
	}
	return believe_empty(nvos, rack, arena, err);
}

static int read_once(struct nvos *nvos, int rack, struct rk_arena *arena, struct rk_nvl_live **ret, size_t *ret_n, struct rk_err *err)
{
	struct rk_nvos_row *rows;
	size_t n, kept = 0;
	int rc = read_rows(nvos, rack, arena, &rows, &n, err);

	if (rc != 0)
		return rc;
	struct rk_nvl_live *live = rk_arena_array(arena, n ? n : 1, sizeof(*live));
	for (size_t i = 0; i < n; i++) {
		struct rk_nvos_args one = { .id = rows[i].live.id };
		const char *text;
		rc = show_at(nvos, rack, controller(nvos, rack), RK_NVOS_SHOW_ONE, &one, arena, &text, err);
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
static int explain(enum rk_nvos_command command, const struct rk_nvos_args *args, const struct rk_nvl_live *live, size_t n, struct rk_err *err)
{
	const struct rk_nvl_live *at = find_id(live, n, args->id);
	int held = args->gpu ? partition_of(live, n, args->gpu) : 0;

	switch (command) {
	case RK_NVOS_CREATE:
		if (at && !rk_streq(at->name, args->name))
			return rk_err_set(err, RK_CONFLICT, "partition %d exists with the name \"%s\"", args->id, at->name ? at->name : "");
		return at ? 0 : RK_FAILED;
	case RK_NVOS_DELETE:
		return at ? RK_FAILED : 0;
	case RK_NVOS_ADD:
		if (held && held != args->id)
			return rk_err_set(err, RK_CONFLICT, "GPU 0x%016" PRIx64 " is in partition %d", args->gpu, held);
		if (!at)
			return rk_err_set(err, RK_NOT_FOUND, "partition %d does not exist", args->id);
		return held ? 0 : RK_FAILED;
	default:
		return held == args->id ? RK_FAILED : 0;
	}
}

/* One attempt. *ret_again: for how long from the first one (ms) trying again makes sense; 0: not at all. */
static int act_once(struct nvos *nvos, int rack, enum rk_nvos_command command, const struct rk_nvos_args *args, struct rk_arena *arena, int *ret_again, struct rk_err *err)
{
	struct rk_ssh_result result;
	struct rk_nvl_live *live;
	size_t n;
	int rc = run_at(nvos, rack, controller(nvos, rack), command, args, arena, &result, err);

	*ret_again = 0;
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
		*ret_again = BUSY_MS;
		return rk_err_set(err, RK_FAILED, "the switch has not released the resources yet: %s", text);
	case RK_NVOS_DOWN:
		return rk_err_set(err, RK_UNREACHABLE, "the NVLink controller does not work: %s", text);
	case RK_NVOS_INVALID:
		/* The older way to write it is tried once, and kept. */
		if (command == RK_NVOS_CREATE && nvos->racks[rack].dialect == RK_NVOS_PRESENT && strstr(text, "FULL_BANDWIDTH")) {
			nvos->racks[rack].dialect = RK_NVOS_OLDER;
			return act_once(nvos, rack, command, args, arena, ret_again, err);
		}
		return rk_err_set(err, RK_INVALID, "the switch refused an argument: %s", text);
	case RK_NVOS_ODD:
		return rk_err_set(err, RK_UNREACHABLE, "the answer is not understood, the outcome not known: %s", text);
	default:
		break;
	}
	if ((rc = read_state(nvos, rack, arena, &live, &n, err)) != 0)
		return rc;
	rc = explain(command, args, live, n, err);
	*ret_again = rc == RK_FAILED ? REFUSED_MS : 0;
	return rc == RK_FAILED ? rk_err_set(err, RK_FAILED, "the switch refused: %s", text) : rc;
}

/* Groups are shared by the partitions of the domain; the default partition gives way. */
static int check_multicast(struct nvos *nvos, int rack, const struct rk_nvos_args *args, struct rk_arena *arena, struct rk_err *err)
{
	struct rk_nvos_row *rows;
	const char *text;
	size_t n;
	long taken = 0;
	int rc = show_all(nvos, rack, arena, &text, err);

	if (rc != 0 || (rc = rk_nvos_list(text, arena, &rows, &n, err)) != 0)
		return rc;
	for (size_t i = 0; i < n; i++)
		if (rows[i].live.id != RK_NVL_DEFAULT && rows[i].live.id != args->id && rows[i].multicast > 0)
			taken += rows[i].multicast;
	if (taken + args->groups <= MULTICAST_MAX)
		return 0;
	rk_err_set(err, RK_NO_CAPACITY, "%d multicast groups are wanted, and %ld of the domain's %d are given to other partitions", args->groups, taken, MULTICAST_MAX);
	rk_err_hint(err, "ask for fewer with nvlink.multicastGroups of the cluster spec");
	return RK_NO_CAPACITY;
}

/* Resources of a removed GPU or partition stay taken for 10 to 15 s although the switch no longer lists them. */
static int act(struct nvos *nvos, int rack, enum rk_nvos_command command, const struct rk_nvos_args *args, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	int waited = 0, wait = 1000, again = 0, rc;

	if (nvos->env.read_only)
		return rk_err_set(err, RK_INVALID, "--read-only: nothing is changed on NVLink switches");
	pthread_mutex_lock(&nvos->racks[rack].lock);
	rc = know_controller(nvos, rack, arena, err);
	if (rc == 0 && command == RK_NVOS_CREATE)
		rc = check_multicast(nvos, rack, args, arena, err);
	while (rc == 0) {
		rc = act_once(nvos, rack, command, args, arena, &again, err);
		if (rc != RK_FAILED || waited >= again)
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
	struct rk_nvos_args args = { .id = id, .name = name, .mode = mode ? mode : "full_bandwidth", .groups = groups };

	if (!rk_nvos_mode_valid(args.mode))
		return rk_err_set(err, RK_INVALID, "\"%s\" is no resiliency mode", args.mode);
	if (groups < 0 || groups > MULTICAST_MAX)
		return rk_err_set(err, RK_INVALID, "a partition has from 0 to %d multicast groups, not %d", MULTICAST_MAX, groups);
	if (!printable(name) || rk_streq(name, "Default Partition"))
		return rk_err_set(err, RK_INVALID, "an NVLink partition cannot have this name");
	return guard(id, false, err) ? RK_INVALID : act((struct nvos *)nvl, rack, RK_NVOS_CREATE, &args, err);
}

static int nvos_remove(struct rk_nvl *nvl, int rack, int id, struct rk_err *err)
{
	struct rk_nvos_args args = { .id = id };

	return guard(id, false, err) ? RK_INVALID : act((struct nvos *)nvl, rack, RK_NVOS_DELETE, &args, err);
}

static int nvos_add(struct rk_nvl *nvl, int rack, int id, uint64_t gpu, struct rk_err *err)
{
	struct rk_nvos_args args = { .id = id, .gpu = gpu };

	return guard(id, true, err) ? RK_INVALID : act((struct nvos *)nvl, rack, RK_NVOS_ADD, &args, err);
}

static int nvos_drop(struct rk_nvl *nvl, int rack, int id, uint64_t gpu, struct rk_err *err)
{
	struct rk_nvos_args args = { .id = id, .gpu = gpu };

	return guard(id, true, err) ? RK_INVALID : act((struct nvos *)nvl, rack, RK_NVOS_DROP, &args, err);
}

/* A cluster that is set up but not saved is gone with the next reboot of the switch. Releases that cannot tell are taken at their word. */
static int check_saved(struct nvos *nvos, int rack, struct rk_arena *arena, struct rk_err *err)
{
	static const struct rk_nvos_args none;
	struct rk_err ignored RK_CLEANUP_ERR = RK_ERR_INIT;
	const char *text;

	if (show_at(nvos, rack, controller(nvos, rack), RK_NVOS_SHOW_UNSAVED, &none, arena, &text, &ignored) != 0 || !rk_nvos_unsaved(text))
		return 0;
	rk_err_set(err, RK_UNHEALTHY, "the configuration of the NVLink cluster is not saved: the switch forgets it when it is restarted");
	rk_err_hint(err, "nv config save on %s", rack_of(nvos, rack)->nvlink.ssh[controller(nvos, rack)]);
	return RK_UNHEALTHY;
}

static int nvos_health(struct rk_nvl *nvl, int rack, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct nvos *nvos = (struct nvos *)nvl;
	static const struct rk_nvos_args none;
	const char *text;

	pthread_mutex_lock(&nvos->racks[rack].lock);
	int rc = know_controller(nvos, rack, arena, err);
	if (rc == 0 && (rc = show_at(nvos, rack, controller(nvos, rack), RK_NVOS_SHOW_CLUSTER, &none, arena, &text, err)) == 0)
		rc = rk_nvos_cluster(text, err);
	if (rc == 0 && (rc = ask_for_controller(nvos, rack, controller(nvos, rack), arena, err)) == RK_NOT_FOUND)
		rc = rk_err_set(err, RK_UNHEALTHY, "%s does not run the NMX controller: not configured, or it moved to another switch",
				rack_of(nvos, rack)->nvlink.ssh[controller(nvos, rack)]);
	if (rc == 0)
		rc = check_saved(nvos, rack, arena, err);
	pthread_mutex_unlock(&nvos->racks[rack].lock);
	return while_rack(nvos, rack, rc, err);
}

/* A switch without one of the two commands tells less; one that cannot be asked at all is named. */
static void ask_switch(struct nvos *nvos, int rack, size_t index, struct rk_arena *arena, struct rk_nvl_switch *ret)
{
	static const struct rk_nvos_args none;
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT, ignored = RK_ERR_INIT;
	const char *text;

	ret->name = rk_ssh_host(rack_of(nvos, rack)->nvlink.ssh[index], arena);
	if (show_at(nvos, rack, index, RK_NVOS_SHOW_VERSION, &none, arena, &text, &err))
		ret->why = rk_arena_strdup(arena, err.message ? err.message : "no answer");
	else
		rk_nvos_version(text, arena, ret);
	if (!ret->why && !show_at(nvos, rack, index, RK_NVOS_SHOW_LOCATION, &none, arena, &text, &ignored))
		rk_nvos_location(text, arena, ret);
}

static int nvos_switches(struct rk_nvl *nvl, int rack, struct rk_arena *arena, struct rk_nvl_switch **ret, size_t *ret_n, struct rk_err *err)
{
	struct nvos *nvos = (struct nvos *)nvl;
	size_t n = rack_of(nvos, rack)->nvlink.n_ssh;

	(void)err;
	*ret = rk_arena_array(arena, n, sizeof(**ret));
	*ret_n = n;
	pthread_mutex_lock(&nvos->racks[rack].lock);
	for (size_t i = 0; i < n; i++)
		ask_switch(nvos, rack, i, arena, &(*ret)[i]);
	pthread_mutex_unlock(&nvos->racks[rack].lock);
	return 0;
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

static const struct rk_nvl_ops ops = { nvos_list, nvos_create, nvos_remove, nvos_add, nvos_drop, nvos_health, nvos_switches, nvos_free };

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
