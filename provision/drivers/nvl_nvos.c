/* NVLink partitions through the NVOS command line over SSH. One GPU per command, no transactions; "Action succeeded" means accepted.
 * One text covers "GPU is elsewhere", "added twice" and "unknown GPU": after a refusal the state is read again and explained. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "provision/drivers/nvos_impl.h"
#include "provision/drivers/nvos_parse.h"

/* How long a refused action is tried again. A plain refusal has no cause in its text; resources that are not released yet are the only one that passes,
 * and take 10 to 15 s. */
enum { BUSY_MS = 40000, REFUSED_MS = 15000, EMPTY_MS = 500, READS = 3, MULTICAST_MAX = 1024 };

/* To whom asks for partitions a controller that does not work is one that does not answer. */
static int not_known(int rc, struct rk_err *err)
{
	if (rc != RK_UNHEALTHY && rc != RK_NOT_FOUND)
		return rc;
	if (err)
		err->rc = RK_UNREACHABLE;
	return RK_UNREACHABLE;
}

static int show_all(struct rk_nvl_driver *nvos, int rack, struct rk_arena *arena, const char **ret, struct rk_err *err)
{
	struct rk_nvos_rack *state = rk_nvos_state(nvos, rack);
	static const struct rk_nvos_args none;
	bool fresh = state->controller == RK_NVOS_NOBODY, several = rk_nvl_rack(nvos, rack)->nvlink.n_ssh > 1;
	int rc = rk_nvos_know_controller(nvos, rack, arena, err);

	if (rc == 0)
		rc = rk_nvos_show(nvos, rack, (size_t)state->controller, RK_NVOS_SHOW_ALL, &none, arena, ret, err);
	if (rc == 0 || rc == RK_CANCELLED || fresh || !several)
		return not_known(rc, err);
	/* It moved, perhaps. */
	state->controller = RK_NVOS_NOBODY;
	rc = rk_nvos_know_controller(nvos, rack, arena, err);
	if (rc == 0)
		rc = rk_nvos_show(nvos, rack, (size_t)state->controller, RK_NVOS_SHOW_ALL, &none, arena, ret, err);
	return not_known(rc, err);
}

/* "No partitions" is also what a switch without the controller, or a controller without a cluster, may answer. 0: it is so. */
static int believe_empty(struct rk_nvl_driver *nvos, int rack, struct rk_arena *arena, struct rk_err *err)
{
	static const struct rk_nvos_args none;
	const char *text;
	int rc = rk_nvos_show(nvos, rack, rk_nvos_controller(nvos, rack), RK_NVOS_SHOW_CLUSTER, &none, arena, &text, err);

	if (rc == 0)
		rc = rk_nvos_cluster(text, err);
	if (rc == 0 || rc == RK_CANCELLED)
		return rc;
	return rk_err_set(err, RK_UNREACHABLE, "the switch lists no partitions and its cluster is not known to be up");
}

/* The list of partitions, without members. An empty one makes the controller be looked for again: it may have moved. */
static int read_rows(struct rk_nvl_driver *nvos, int rack, struct rk_arena *arena, struct rk_nvos_row **ret, size_t *ret_n, struct rk_err *err)
{
	const char *text;
	int before = rk_nvos_state(nvos, rack)->controller, rc = show_all(nvos, rack, arena, &text, err);

	if (rc != 0 || (rc = rk_nvos_list(text, arena, ret, ret_n, err)) != 0 || *ret_n)
		return rc;
	if (rk_nvl_rack(nvos, rack)->nvlink.n_ssh > 1 && before != RK_NVOS_NOBODY) {
		rk_nvos_state(nvos, rack)->controller = RK_NVOS_NOBODY;
		rc = show_all(nvos, rack, arena, &text, err);
		if (rc != 0 || (rc = rk_nvos_list(text, arena, ret, ret_n, err)) != 0 || *ret_n)
			return rc;
	}
	if ((rc = believe_empty(nvos, rack, arena, err)) != 0)
		return rc;
	/* It answers null at times; what is empty is so a moment later, too. */
	rk_clock_sleep_ms(nvos->env.clock, EMPTY_MS);
	if ((rc = show_all(nvos, rack, arena, &text, err)) != 0)
		return rc;
	return rk_nvos_list(text, arena, ret, ret_n, err);
}

static int read_once(struct rk_nvl_driver *nvos, int rack, struct rk_arena *arena, struct rk_nvl_live **ret, size_t *ret_n, struct rk_err *err)
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
		rc = rk_nvos_show(nvos, rack, rk_nvos_controller(nvos, rack), RK_NVOS_SHOW_ONE, &one, arena, &text, err);
		if (rc == RK_NOT_FOUND) /* went away between the two commands */
			continue;
		if (rc != 0 || (rc = rk_nvos_members(text, rows[i].announced, arena, &rows[i].live, err)) != 0)
			return rc;
		live[kept++] = rows[i].live;
	}
	qsort(live, kept, sizeof(*live), rk_nvl_cmp_live);
	*ret = live;
	*ret_n = kept;
	return 0;
}

/* With the rack's lock held. Counts and lists can disagree for a moment while GPUs move. */
static int read_state(struct rk_nvl_driver *nvos, int rack, struct rk_arena *arena, struct rk_nvl_live **ret, size_t *ret_n, struct rk_err *err)
{
	for (int try = 1;; try++) {
		int rc = read_once(nvos, rack, arena, ret, ret_n, err);
		if (rc != RK_UNREACHABLE || try == READS || !rk_nvos_state(nvos, rack)->session.ssh)
			return rc;
		rk_clock_sleep_ms(nvos->env.clock, 500 * try);
	}
}

static int nvos_list(struct rk_nvl *nvl, int rack, struct rk_arena *arena, struct rk_nvl_live **ret, size_t *ret_n, struct rk_err *err)
{
	struct rk_nvl_driver *nvos = (struct rk_nvl_driver *)nvl;

	rk_nvl_enter(nvos, rack);
	int rc = read_state(nvos, rack, arena, ret, ret_n, err);
	return rk_nvl_leave(nvos, rack, rc, err);
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

static const struct rk_nvl_live *find_name(const struct rk_nvl_live *live, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (rk_streq(live[i].name, name))
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
		if (!at && (at = find_name(live, n, args->name)))
			return rk_err_set(err, RK_CONFLICT, "partition %d has the name \"%s\" already", at->id, args->name);
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
static int act_once(struct rk_nvl_driver *nvos, int rack, enum rk_nvos_command command, const struct rk_nvos_args *args, struct rk_arena *arena, int *ret_again, struct rk_err *err)
{
	struct rk_ssh_result result;
	struct rk_nvl_live *live;
	size_t n;
	int rc = rk_nvos_run(nvos, rack, rk_nvos_controller(nvos, rack), command, args, arena, &result, err);

	*ret_again = 0;
	if (rc != 0) {
		rk_ssh_result_clear(&result);
		return rc;
	}
	enum rk_nvos_answer answer = rk_nvos_classify(result.status, rk_str_text(&result.out), rk_str_text(&result.err));
	const char *text = rk_nvos_said(arena, &result);
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
		if (command == RK_NVOS_CREATE && rk_nvos_state(nvos, rack)->dialect == RK_NVOS_PRESENT && strstr(text, "FULL_BANDWIDTH")) {
			rk_nvos_state(nvos, rack)->dialect = RK_NVOS_OLDER;
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
static int check_multicast(struct rk_nvl_driver *nvos, int rack, const struct rk_nvos_args *args, struct rk_arena *arena, struct rk_err *err)
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
static int act(struct rk_nvl_driver *nvos, int rack, enum rk_nvos_command command, const struct rk_nvos_args *args, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	int waited = 0, wait = 1000, again = 0, rc;

	if (nvos->env.read_only)
		return rk_err_set(err, RK_INVALID, "--read-only: nothing is changed on NVLink switches");
	rk_nvl_enter(nvos, rack);
	rc = rk_nvos_know_controller(nvos, rack, arena, err);
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
	return rk_nvl_leave(nvos, rack, rc, err);
}

static int nvos_create(struct rk_nvl *nvl, int rack, int id, const char *name, const char *mode, int groups, int *ret_id, struct rk_err *err)
{
	struct rk_nvos_args args = { .id = id, .name = name, .mode = mode ? mode : "full_bandwidth", .groups = groups };

	*ret_id = id;
	if (!rk_nvos_mode_valid(args.mode))
		return rk_err_set(err, RK_INVALID, "\"%s\" is no resiliency mode", args.mode);
	if (groups < 0 || groups > MULTICAST_MAX)
		return rk_err_set(err, RK_INVALID, "a partition has from 0 to %d multicast groups, not %d", MULTICAST_MAX, groups);
	return rk_nvl_check_name(name, err) || rk_nvl_check_id(id, false, err) ? RK_INVALID : act((struct rk_nvl_driver *)nvl, rack, RK_NVOS_CREATE, &args, err);
}

static int nvos_remove(struct rk_nvl *nvl, int rack, int id, struct rk_err *err)
{
	struct rk_nvos_args args = { .id = id };

	return rk_nvl_check_id(id, false, err) ? RK_INVALID : act((struct rk_nvl_driver *)nvl, rack, RK_NVOS_DELETE, &args, err);
}

static int nvos_add(struct rk_nvl *nvl, int rack, int id, uint64_t gpu, struct rk_err *err)
{
	struct rk_nvos_args args = { .id = id, .gpu = gpu };

	return rk_nvl_check_id(id, true, err) ? RK_INVALID : act((struct rk_nvl_driver *)nvl, rack, RK_NVOS_ADD, &args, err);
}

static int nvos_drop(struct rk_nvl *nvl, int rack, int id, uint64_t gpu, struct rk_err *err)
{
	struct rk_nvos_args args = { .id = id, .gpu = gpu };

	return rk_nvl_check_id(id, true, err) ? RK_INVALID : act((struct rk_nvl_driver *)nvl, rack, RK_NVOS_DROP, &args, err);
}

static void open_rack(void *state)
{
	((struct rk_nvos_rack *)state)->controller = RK_NVOS_NOBODY;
}

static void close_rack(void *state)
{
	rk_session_close(&((struct rk_nvos_rack *)state)->session);
}

/* A switch without one of the two commands tells less; one that cannot be asked at all is named. */
static void ask_switch(struct rk_nvl_driver *nvos, int rack, size_t index, struct rk_arena *arena, struct rk_nvl_switch *ret)
{
	static const struct rk_nvos_args none;
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT, ignored = RK_ERR_INIT;
	const char *text;

	ret->name = rk_ssh_host(rk_nvl_rack(nvos, rack)->nvlink.ssh[index], arena);
	if (rk_nvos_show(nvos, rack, index, RK_NVOS_SHOW_VERSION, &none, arena, &text, &err))
		ret->why = rk_arena_strdup(arena, err.message ? err.message : "no answer");
	else
		rk_nvos_version(text, arena, ret);
	if (!ret->why && !rk_nvos_show(nvos, rack, index, RK_NVOS_SHOW_LOCATION, &none, arena, &text, &ignored))
		rk_nvos_location(text, arena, ret);
}

static int nvos_switches(struct rk_nvl *nvl, int rack, struct rk_arena *arena, struct rk_nvl_switch **ret, size_t *ret_n, struct rk_err *err)
{
	struct rk_nvl_driver *nvos = (struct rk_nvl_driver *)nvl;
	size_t n = rk_nvl_rack(nvos, rack)->nvlink.n_ssh;

	*ret = rk_arena_array(arena, n, sizeof(**ret));
	*ret_n = n;
	rk_nvl_enter(nvos, rack);
	for (size_t i = 0; i < n; i++)
		ask_switch(nvos, rack, i, arena, &(*ret)[i]);
	return rk_nvl_leave(nvos, rack, 0, err);
}

static const struct rk_nvl_ops ops = { nvos_list, nvos_create, nvos_remove, nvos_add, nvos_drop, rk_nvos_health, nvos_switches, rk_nvl_driver_free };

int rk_nvl_nvos(const struct rk_driver_env *env, struct rk_nvl **ret, struct rk_err *err)
{
	(void)err;
	*ret = rk_nvl_driver_new(&ops, env, sizeof(struct rk_nvos_rack), open_rack, close_rack);
	return 0;
}
