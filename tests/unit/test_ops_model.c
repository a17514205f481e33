#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "provision/bundle.h"
#include "tests/contract/ops_twin.h"

/* Random commands of four actors with handles and snapshots of their own, some of them old, some calls failing; after each one the world must be
 * one that somebody could have wanted. RACKSH_MODEL=N runs N commands, RACKSH_SEED=S repeats a run. */

enum { ACTORS = 4, RACKS = 3, TRAYS = 4, NAMES = 5, DEFAULT_RUNS = 2500, SHORT_RUNS = 150, LOG = 24, FOREVER_MS = 86400000 };

struct model {
	struct fixture actors[ACTORS];
	char folder[256], state[300];
	uint64_t seed;
	char log[LOG][330];
	long commands, refused, failed, left, waiting, commits;
	uint64_t trail;                   /* of what came out of every command, and of how many calls of drivers it took */
};

static uint32_t roll(struct model *m, uint32_t below)
{
	m->seed = m->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(m->seed >> 33) % below;
}

static void note(struct model *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(struct model *m, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(m->log[m->commands % LOG], 150, format, ap);
	va_end(ap);
}

static void give_up(struct model *m, const char *why)
{
	for (long i = m->commands >= LOG ? m->commands - LOG + 1 : 0; i <= m->commands; i++)
		print_error("%ld: %s\n", i, m->log[i % LOG]);
	fail_msg("%s", why);
}

/* ---- the world -------------------------------------------------------------------------------------------------------------------------- */

static void open_all(struct model *m)
{
	const char *tmp = getenv("TMPDIR");
	char *text RK_CLEANUP_FREE = site_text(RACKS, TRAYS);

	snprintf(m->folder, sizeof(m->folder), "%s/racksh-model-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : tmp ? tmp : P_tmpdir);
	assert_non_null(mkdtemp(m->folder));
	snprintf(m->state, sizeof(m->state), "%s/store", m->folder);
	char *uri RK_CLEANUP_FREE = rk_xasprintf("sqlite:%s", m->state);
	for (int i = 0; i < ACTORS; i++) {
		struct fixture *f = &m->actors[i];
		char user[16];
		snprintf(user, sizeof(user), "actor%d", i);
		f->arena = rk_arena_new();
		f->borrowed = i > 0;
		OK(rk_site_parse("site", text, strlen(text), &f->site, err));
		rk_site_invent(f->site);
		open_store_of(f, uri, user, i == 0);
		f->clock = i ? m->actors[0].clock : rk_clock_virtual(1764500000000);
		if (i)
			f->world.sim = m->actors[0].world.sim;
		else
			OK(rk_sim_open(f->site, NULL, f->clock, &f->world.sim, err));
		join_world(f);
	}
}

static void close_all(struct model *m)
{
	static const char *const ends[] = { "", "-wal", "-shm" };

	for (int i = ACTORS; i-- > 0;)
		close_world(&m->actors[i]);
	for (size_t i = 0; i < RK_ARRAY_SIZE(ends); i++) {
		char *path RK_CLEANUP_FREE = rk_xasprintf("%s%s", m->state, ends[i]);
		unlink(path);
	}
	assert_int_equal(rmdir(m->folder), 0);
}

/* ---- commands ----------------------------------------------------------------------------------------------------------------------------- */

static const char *const names[NAMES] = { "a", "b", "c", "d", "e" };

static int do_create(struct model *m, struct fixture *f, struct rk_err *err)
{
	uint32_t name = roll(m, NAMES), count = 1 + roll(m, 4), segment = 1 + roll(m, count < 2 ? 1 : 2);
	int64_t op;

	note(m, "create %s %u/%u", names[name], count, segment);
	return rk_cluster_create(&f->world, spec_of(f->arena, names[name], name % 2 ? "u" : "t", (int)count, (int)segment, roll(m, 8) == 0), &op, err);
}

static int do_delete(struct model *m, struct fixture *f, struct rk_err *err)
{
	const char *name = names[roll(m, NAMES)];
	int64_t op;

	note(m, "delete %s", name);
	return rk_cluster_delete(&f->world, name, &op, err);
}

static int do_resize(struct model *m, struct fixture *f, struct rk_err *err)
{
	const char *name = names[roll(m, NAMES)];
	int count = 1 + (int)roll(m, 6);
	int at = rk_find_cluster(f->world.site, name);
	bool grow = at < 0 || f->world.site->clusters[at].n_vms <= count;
	int64_t op;

	note(m, "%s %s %d", grow ? "grow" : "shrink", name, count);
	return rk_cluster_resize(&f->world, name, count, grow, &op, err);
}

static int do_repair(struct model *m, struct fixture *f, struct rk_err *err)
{
	const char *name = names[roll(m, NAMES)];
	int at = rk_find_cluster(f->world.site, name);
	const char *vm = at >= 0 && roll(m, 2) ? f->world.site->vms[f->world.site->clusters[at].first_vm].name : NULL;
	size_t moved;
	int64_t op;

	note(m, "repair %s %s", name, vm ? vm : "");
	return rk_cluster_repair(&f->world, name, &vm, vm != NULL, &op, &moved, err);
}

static int do_power(struct model *m, struct fixture *f, struct rk_err *err)
{
	static const char *const verbs[] = { "start", "stop", "reboot" };
	uint32_t verb = roll(m, 3);
	int vm;
	int64_t op;

	note(m, "power");
	if (!f->world.site->n_vms)
		return 0;
	vm = (int)roll(m, (uint32_t)f->world.site->n_vms);
	note(m, "%s %s", verbs[verb], f->world.site->vms[vm].name);
	const struct rk_power_request q = { .verb = verbs[verb], .off = verb != 0, .on = verb != 1, .vms = &vm, .n = 1, .grace_s = 30, .hard = true };
	return rk_vm_power(&f->world, &q, &op, err);
}

static int do_cordon(struct model *m, struct fixture *f, struct rk_err *err)
{
	const char *tray = f->world.site->trays[roll(m, RACKS * TRAYS)].name;
	bool on = roll(m, 3) == 0;

	note(m, "%s %s", on ? "cordon" : "uncordon", tray);
	return rk_store_set_tray_cordon(f->world.store, tray, on ? "for a while" : NULL, err);
}

/* A tray that was given up comes back, as far as it can. */
static int do_restore(struct model *m, struct fixture *f, struct rk_err *err)
{
	int trays[RACKS * TRAYS];
	size_t n = 0;
	int64_t op;

	for (int t = 0; t < (int)f->world.site->n_trays; t++)
		if (f->world.site->trays[t].faulty)
			trays[n++] = t;
	note(m, "restore %zu trays", n);
	return n ? rk_tray_restore(&f->world, trays, n, &op, err) : 0;
}

static int do_rename(struct model *m, struct fixture *f, struct rk_err *err)
{
	const char *from = names[roll(m, NAMES)], *to = names[roll(m, NAMES)];
	int64_t op;

	note(m, "rename %s %s", from, to);
	return rk_cluster_rename(&f->world, from, to, &op, err);
}

static void plant_fault(struct model *m, struct fixture *f);

/* A commit holds a cluster whose VMs it turns off and on by a lease alone. */
static bool somebody_works_on(struct fixture *f, const struct rk_cluster *c)
{
	bool held;

	OK(rk_store_lease_held(f->world.store, rk_arena_printf(f->arena, "cluster:%s", c->name), &held, err));
	return held || c->op;
}

/* Something happens on the site without anybody asking racksh. Only what one look can see: a cluster that nobody works on. */
static void damage(struct model *m, struct fixture *f)
{
	const struct rk_site *site = f->world.site;
	int vm = site->n_vms ? (int)roll(m, (uint32_t)site->n_vms) : RK_NONE;

	rk_sim_fault_clear(f->world.sim);
	if (vm == RK_NONE || site->vms[vm].state != RK_VM_RUNNING || somebody_works_on(f, &site->clusters[site->vms[vm].cluster]))
		return;
	const struct rk_tray *tray = &site->trays[site->vms[vm].tray];
	int part = 0;
	while (site->nvl_partitions[part].rack != tray->rack || site->nvl_partitions[part].cluster != site->vms[vm].cluster)
		part++;
	const struct rk_cluster *c = &site->clusters[site->vms[vm].cluster];
	const char *domain = rk_vm_domain_name(f->arena, rk_vm_host_name(&site->vms[vm]));
	uint64_t gpu = site->gpus[tray->first_gpu + (int)roll(m, 4)].fabric_guid;
	switch (roll(m, 4)) {
	case 0:
		OK(f->world.hv->ops->destroy(f->world.hv, site->vms[vm].tray, domain, err));
		break;
	case 1:
		OK(f->world.nvl->ops->drop(f->world.nvl, tray->rack, site->nvl_partitions[part].id, gpu, err));
		break;
	case 2:
		OK(f->world.ib->ops->set(f->world.ib, 0, &(struct rk_ib_wanted){ site->ib_partitions[c->ib].pkey, c->name, NULL, 0, false }, err));
		break;
	default:
		OK(f->world.hv->ops->destroy(f->world.hv, site->vms[vm].tray, domain, err));
		OK(f->world.hv->ops->undefine(f->world.hv, site->vms[vm].tray, domain, err));
	}
	rk_clock_sleep_ms(f->clock, 10000);
}

static int do_drift(struct model *m, struct fixture *f, struct rk_err *err)
{
	struct rk_drift_left *left;
	size_t n;
	int64_t op;
	int rc = rk_world_refresh(&f->world, err);

	note(m, "drift --fix");
	damage(m, f);
	plant_fault(m, f);
	if (!rc)
		rc = rk_drift_fix(&f->world, NULL, f->arena, &op, &left, &n, err);
	look_again(f);
	return rc;
}

/* ---- several at once ---------------------------------------------------------------------------------------------------------------------- */

typedef int command_fn(struct model *m, struct fixture *f, struct rk_err *err);
enum { PARTS_MAX = 3 };

static const struct {
	const char *name;
	command_fn *fn;
} stageable[] = { { "create", do_create }, { "delete", do_delete }, { "shrink or grow", do_resize }, { "repair", do_repair }, { "power", do_power },
		  { "cordon", do_cordon }, { "restore", do_restore } };

/* Parts in the order given; their words are put together into `words`. */
static int put_together(struct model *m, struct fixture *f, const uint32_t *parts, size_t n, struct rk_heard *heard, struct rk_bundle **ret, struct rk_str *words,
			struct rk_err *err)
{
	struct rk_str command RK_CLEANUP_STR = RK_STR_INIT;
	uint64_t seed = m->seed;
	int rc;

	for (size_t i = 0; i < n; i++)
		rk_str_addf(&command, "%s%s", i ? "; " : "commit: ", stageable[parts[i]].name);
	for (;;) {
		m->seed = seed; /* the same commands again, with what hosts said meanwhile */
		rk_str_clear(words);
		rk_err_clear(err);
		rc = rk_bundle_begin(&f->world, rk_str_text(&command), heard, ret, err);
		if (rc)
			return rc;
		for (size_t i = 0; !rc && i < n; i++) {
			rc = rk_bundle_part(*ret, stageable[parts[i]].name, err);
			f->world.confirm_ms = roll(m, 10) ? 0 : FOREVER_MS;
			rc = rc ? rc : stageable[parts[i]].fn(m, f, err);
			rk_str_addf(words, "; %s", m->log[m->commands % LOG]);
			rc = rc ? rc : rk_bundle_part_done(*ret, err);
		}
		if (!rc)
			return 0;
		rk_bundle_drop(*ret);
		if (!rk_heard_open(heard))
			return rc;
		rk_err_clear(err);
		rc = rk_heard_ask(&f->world, heard, err);
		if (rc)
			return rc;
	}
}

static int do_commit(struct model *m, struct fixture *f, struct rk_err *err)
{
	RK_CLEANUP_HEARD struct rk_heard *heard = rk_heard_new();
	struct rk_str words RK_CLEANUP_STR = RK_STR_INIT;
	uint32_t parts[PARTS_MAX], n = 1 + roll(m, PARTS_MAX);
	struct rk_bundle *bundle = NULL;
	int64_t op;

	for (uint32_t i = 0; i < n; i++)
		parts[i] = roll(m, RK_ARRAY_SIZE(stageable));
	bool dry = roll(m, 8) == 0;
	int rc = put_together(m, f, parts, n, heard, &bundle, &words, err);
	note(m, "commit%s%.130s", dry ? " -n" : "", rk_str_text(&words));
	if (rc)
		return rc;
	if (dry) {
		rk_bundle_drop(bundle);
		return 0;
	}
	m->commits++;
	return rk_bundle_run(bundle, &op, err);
}

/* Somebody takes care of what is left, or waits. */
static int do_op(struct model *m, struct fixture *f, struct rk_err *err)
{
	static const struct {
		const char *verb;
		int (*fn)(struct rk_world *world, int64_t op, struct rk_err *err);
	} verbs[] = { { "resume", rk_op_resume }, { "rollback", rk_op_rollback }, { "cancel", rk_op_cancel }, { "confirm", rk_op_confirm } };
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_op_row *rows;
	size_t n, verb = roll(m, RK_ARRAY_SIZE(verbs));
	int rc = rk_store_op_open(f->world.store, INT64_MAX, arena, &rows, &n, err);

	note(m, "op");
	for (size_t i = 0; !rc && i < n; i++)
		if (strcmp(rows[i].state, "resumable") == 0 || strcmp(rows[i].state, "awaiting-confirm") == 0) {
			note(m, "%s %" PRId64 " (%s)", verbs[verb].verb, rows[i].id, rows[i].command);
			return verbs[verb].fn(&f->world, rows[i].id, err);
		}
	return rc;
}

static const struct {
	command_fn *fn;
	uint32_t weight;
} commands[] = { { do_create, 5 }, { do_delete, 3 }, { do_resize, 5 }, { do_repair, 3 }, { do_power, 3 }, { do_cordon, 2 }, { do_restore, 1 }, { do_op, 4 },
		{ do_rename, 1 }, { do_drift, 2 }, { do_commit, 5 } };

static void plant_fault(struct model *m, struct fixture *f)
{
	static const char *const modes[] = { "fail", "lost", "hang" };
	char fault[64];

	uint32_t what = roll(m, 40);
	if (what >= 10)
		return;
	/* A call, or a tray that is silent for as long as the command goes on. */
	if (what < 2)
		snprintf(fault, sizeof(fault), "call@r%u-t%02u=hang", 1 + roll(m, RACKS), 1 + roll(m, TRAYS));
	else
		snprintf(fault, sizeof(fault), "call#%u=%s", 1 + roll(m, 80), modes[roll(m, RK_ARRAY_SIZE(modes))]);
	OK(rk_sim_fault_add(f->world.sim, fault, err));
}

/* The time to confirm is real time: what was to be confirmed within a millisecond never is, on a fast machine neither, and within a day always, or a run
 * could not be repeated. */
static void let_time_pass(void)
{
	int64_t began = rk_clock_unix_ms(NULL);

	while (rk_clock_unix_ms(NULL) <= began + 1)
		;
}

static void command(struct model *m)
{
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	struct fixture *f = &m->actors[roll(m, ACTORS)];
	uint32_t total = 0, at = 0, pick;

	for (size_t i = 0; i < RK_ARRAY_SIZE(commands); i++)
		total += commands[i].weight;
	for (pick = roll(m, total); pick >= commands[at].weight; at++)
		pick -= commands[at].weight;
	if (roll(m, 3))
		OK(rk_world_refresh(&f->world, err));
	f->world.confirm_ms = roll(m, 10) ? 0 : 1 + (int)roll(m, 2) * FOREVER_MS;
	plant_fault(m, f);
	int rc = commands[at].fn(m, f, &why);
	if (f->world.confirm_ms == 1)
		let_time_pass();
	if (rc)
		snprintf(m->log[m->commands % LOG] + strlen(m->log[m->commands % LOG]), 170, ": %.150s", why.message ? why.message : "");
	m->trail = m->trail * 31 + (uint64_t)rk_sim_calls(f->world.sim) * 7 + (uint64_t)(int64_t)rc;
	rk_sim_fault_clear(f->world.sim);
	if (rc == RK_BUG)
		give_up(m, why.message);
	m->refused += rc == RK_CONFLICT || rc == RK_NOT_FOUND || rc == RK_NO_CAPACITY || rc == RK_INVALID;
	m->failed += rc == RK_FAILED;
	m->left += rc == RK_PARTIAL;
}

/* ---- what must always be true ------------------------------------------------------------------------------------------------------------- */

static int holder_of(const struct rk_site *site, int tray)
{
	int vm = site->trays[tray].vm;

	return vm == RK_NONE ? RK_NONE : site->clusters[site->vms[vm].cluster].tenant;
}

/* One more thing that is with others: they are all of one tenant. Trays that are nobody's now are being emptied. */
static void same_tenant(struct model *m, const struct rk_site *site, int tray, int *tenant, const char *what)
{
	int holder = holder_of(site, tray);

	if (holder == RK_NONE)
		return;
	if (*tenant != RK_NONE && *tenant != holder)
		give_up(m, what);
	*tenant = holder;
}

static void check_nvlink(struct model *m, struct fixture *f, struct rk_arena *arena)
{
	const struct rk_site *site = f->world.site;

	for (int r = 0; r < RACKS; r++) {
		bool *seen = rk_arena_array(arena, site->n_gpus, sizeof(*seen));
		struct rk_nvl_live *parts;
		size_t n;
		OK(f->world.nvl->ops->list(f->world.nvl, r, arena, &parts, &n, err));
		for (size_t i = 0; i < n; i++) {
			int tenant = RK_NONE;
			for (size_t g = 0; g < parts[i].n_gpus; g++) {
				int gpu = rk_find_gpu_guid(site, parts[i].gpus[g]);
				if (seen[gpu])
					give_up(m, "a GPU is in two partitions");
				seen[gpu] = true;
				if (parts[i].id != RK_NVL_DEFAULT)
					same_tenant(m, site, site->gpus[gpu].tray, &tenant, "two tenants share an NVLink partition");
			}
		}
	}
}

static void check_keys(struct model *m, struct fixture *f, struct rk_arena *arena)
{
	const struct rk_site *site = f->world.site;
	uint64_t *guids = rk_arena_array(arena, site->n_hcas, sizeof(*guids));
	struct rk_ib_port *ports = rk_arena_array(arena, site->n_hcas, sizeof(*ports));
	int tenants[0x200];

	for (size_t i = 0; i < RK_ARRAY_SIZE(tenants); i++)
		tenants[i] = RK_NONE;
	for (size_t i = 0; i < site->n_hcas; i++)
		guids[i] = site->hcas[i].port_guid;
	OK(f->world.ib->ops->tables(f->world.ib, 0, guids, site->n_hcas, arena, ports, err));
	for (size_t i = 0; i < site->n_hcas; i++)
		for (size_t k = 0; k < ports[i].n_pkeys; k++) {
			int key = ports[i].pkeys[k] & RK_PKEY_DEFAULT;
			if (key != RK_PKEY_DEFAULT)
				same_tenant(m, site, site->hcas[i].tray, &tenants[key & 0x1ff], "two tenants share a PKey");
		}
}

/* Done but for what cannot be taken back: VMs that are on their way out are still the cluster's. */
static bool half_way(const struct rk_op_row *row)
{
	return strcmp(row->state, "awaiting-confirm") == 0 && (strstr(row->command, "shrink") || strstr(row->command, "repair"));
}

/* Unfinished operations; every hold of a cluster is by one of them. */
static size_t check_holders(struct model *m, struct fixture *f, struct rk_arena *arena)
{
	const struct rk_site *site = f->world.site;
	struct rk_op_row *rows;
	size_t n, open = 0;

	OK(rk_store_op_open(f->world.store, INT64_MAX, arena, &rows, &n, err));
	for (size_t i = 0; i < n; i++)
		open += strcmp(rows[i].state, "resumable") == 0 || strcmp(rows[i].state, "running") == 0 || half_way(&rows[i]);
	for (size_t c = 0; c < site->n_clusters; c++) {
		struct rk_op_row row;
		if (!site->clusters[c].op)
			continue;
		OK(rk_store_op_get(f->world.store, site->clusters[c].op, arena, &row, err));
		if (strcmp(row.state, "resumable") != 0 && strcmp(row.state, "awaiting-confirm") != 0)
			give_up(m, "a cluster is held by an operation that is over");
		m->waiting += row.state[0] == 'a';
	}
	return open;
}

static void check(struct model *m)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct fixture *f = &m->actors[0];

	OK(rk_world_refresh(&f->world, err));
	rk_clock_sleep_ms(f->clock, 10000);
	check_nvlink(m, f, arena);
	check_keys(m, f, arena);
	if (check_holders(m, f, arena))
		return;
	char *live RK_CLEANUP_FREE = live_text(f), *wanted RK_CLEANUP_FREE = wanted_text(f->world.site);
	if (strcmp(live, wanted) != 0) {
		print_difference(live, wanted);
		give_up(m, "store and twin differ");
	}
}

/* In the end everything that is left is finished and everything that is there is deleted. */
static void finish(struct model *m)
{
	struct fixture *f = &m->actors[0];
	struct rk_op_row *rows;
	size_t n;
	int64_t op;

	OK(rk_store_op_open(f->world.store, INT64_MAX, f->arena, &rows, &n, err));
	for (size_t i = 0; i < n; i++) {
		bool waits = strcmp(rows[i].state, "awaiting-confirm") == 0;
		struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
		if (!waits && strcmp(rows[i].state, "resumable") != 0)
			continue;
		int rc = waits ? rk_op_rollback(&f->world, rows[i].id, &why) : rk_op_resume(&f->world, rows[i].id, &why);
		if (rc && rc != RK_FAILED)
			give_up(m, rk_arena_printf(f->arena, "operation %" PRId64 " (%s) cannot be finished: %s", rows[i].id, rows[i].command, why.message));
	}
	OK(rk_world_refresh(&f->world, err));
	while (f->world.site->n_clusters) {
		const char *name = rk_arena_strdup(f->arena, f->world.site->clusters[0].name);
		if (f->world.site->clusters[0].op)
			OK(rk_op_rollback(&f->world, f->world.site->clusters[0].op, err));
		else
			OK(rk_cluster_delete(&f->world, name, &op, err));
	}
	assert_consistent(f);
	assert_int_equal(f->world.site->n_vms, 0);
	assert_int_equal(f->world.site->n_nvl_partitions + f->world.site->n_ib_partitions, 0);
}

static uint64_t number_of(const char *variable, uint64_t otherwise)
{
	uint64_t v = otherwise;
	const char *text = getenv(variable);

	if (text)
		rk_parse_u64(text, &v);
	return v;
}

/* The caller frees. */
static struct model *run_of(uint64_t seed, long runs)
{
	struct model *m = rk_xcalloc(1, sizeof(*m));

	m->seed = seed;
	open_all(m);
	for (; m->commands < runs; m->commands++) {
		command(m);
		check(m);
		/* What a command kept in the actors' arenas is not needed after it. */
		for (int i = 0; i < ACTORS; i++) {
			rk_arena_free(m->actors[i].arena);
			m->actors[i].arena = rk_arena_new();
		}
	}
	finish(m);
	close_all(m);
	return m;
}

static void any_commands_of_four_actors_leave_a_world_that_makes_sense(void **state)
{
	struct model *m = run_of(number_of("RACKSH_SEED", 20261130), (long)number_of("RACKSH_MODEL", DEFAULT_RUNS));

	(void)state;
	print_message("%ld commands of %d actors, %ld of them commits of several: %ld refused, %ld rolled back, %ld left unfinished, %ld checks while one awaited"
		      " confirmation\n", m->commands, ACTORS, m->commits, m->refused, m->failed, m->left, m->waiting);
	assert_true(m->failed > 0 && m->refused > 0 && m->commits > 0); /* all ways were walked */
	free(m);
}

/* However threads and clocks run. */
static void a_seed_gives_the_same_run_again(void **state)
{
	struct model *first = run_of(7, SHORT_RUNS), *again = run_of(7, SHORT_RUNS);

	(void)state;
	assert_true(first->trail == again->trail);
	assert_int_equal(first->refused, again->refused);
	free(first);
	free(again);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(any_commands_of_four_actors_leave_a_world_that_makes_sense), cmocka_unit_test(a_seed_gives_the_same_run_again) };

	keep_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
