#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "inventory/site_file.h"
#include "provision/cluster.h"
#include "provision/isolation.h"
#include "provision/sim.h"

/* Two racks of two trays: a cluster of one VM in each rack touches every plane and every serial lane. */
static const char site_text[] =
	"{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\","
	"\"defaults\":{\"hypervisor\":{\"libvirt\":\"12.8.0\",\"qemu\":\"11.1.3\",\"arch\":\"aarch64\",\"pageKiB\":64}},"
	"\"network\":{\"bridge\":\"br0\",\"addresses\":\"10.20.0.0/24\",\"gateway\":\"10.20.0.1\"},"
	"\"infiniband\":[{\"name\":\"ib0\",\"driver\":\"opensm\",\"ssh\":\"root@sm1\",\"partitionsFile\":\"/etc/p.conf\",\"pkeyPool\":\"0x0100-0x01ff\"}],"
	"\"racks\":[{\"name\":\"r[1-2]\",\"nvlink\":{\"driver\":\"nvos\",\"ssh\":\"admin@{rack}-sw1\"},\"trays\":{\"count\":2}}],"
	"\"images\":[{\"name\":\"u\",\"volume\":\"default/u.qcow2\",\"arch\":\"aarch64\",\"format\":\"qcow2\"}],"
	"\"tenants\":[{\"name\":\"t\"}]}";
static const char spec_text[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Cluster\",\"name\":\"a\",\"tenant\":\"t\",\"size\":\"nd128isr-gb300-v6\",\"count\":2,"
				"\"image\":\"u\",\"placement\":{\"segment\":1,\"policy\":\"spread\"},\"ssh\":{\"user\":\"ops\",\"authorizedKeys\":"
				"[\"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExampleExample00 o@c\"]}}";
enum { RUNS_MAX = 3000, CRASH_STRIDE = 7 };

struct fixture {
	struct rk_world world;
	struct rk_site *site;     /* what the twin was opened with */
	struct rk_clock *clock;
	struct rk_arena *arena;
	struct rk_spec *spec;
	int cancel;
};

static void report(const char *what, const struct rk_err *err)
{
	print_error("%s: %s\n", what, err->message ? err->message : "(no message)");
	for (size_t i = 0; i < err->n_details; i++)
		print_error("  %s\n", err->details[i]);
}

#define OK(call)                                       \
	do {                                           \
		struct rk_err err_ = RK_ERR_INIT;      \
		struct rk_err *err = &err_;            \
		if ((call) != 0) {                     \
			report(#call, err);            \
			rk_err_clear(err);             \
			fail();                        \
		}                                      \
	} while (0)

/* state NULL: all in memory. */
static void open_world(struct fixture *f, const char *state)
{
	static const struct rk_actor actor = { "tester", "here", 1 };
	char *uri = state ? rk_xasprintf("sqlite:%s", state) : rk_xstrdup("mem:");
	bool fresh = !state || access(state, F_OK) != 0;
	struct rk_actor me = actor;

	me.pid = (long)getpid();
	memset(f, 0, sizeof(*f));
	f->arena = rk_arena_new();
	f->clock = rk_clock_virtual(1764500000000);
	OK(rk_site_parse("site", site_text, strlen(site_text), &f->site, err));
	rk_site_invent(f->site);
	OK(rk_spec_parse("spec", spec_text, strlen(spec_text), f->arena, &f->spec, err));
	OK(rk_store_open(uri, RK_STORE_WRITE, &me, &f->world.store, err));
	if (fresh) {
		OK(rk_store_begin(f->world.store, -1, err));
		OK(rk_store_put_site(f->world.store, f->site, err));
		OK(rk_store_commit(f->world.store, err));
	}
	OK(rk_store_snapshot(f->world.store, &f->world.site, err));
	OK(rk_sim_open(f->site, state, f->clock, &f->world.sim, err));
	f->world.jobs = 1;
	f->world.wait = true;
	f->world.cancel = &f->cancel;
	f->world.env = (struct rk_driver_env){ .site = f->world.site, .clock = f->clock, .cancel = &f->cancel };
	OK(rk_world_drivers(&f->world, err));
	free(uri);
}

static void close_world(struct fixture *f)
{
	rk_world_close(&f->world);
	rk_site_free(f->site);
	rk_clock_free(f->clock);
	rk_arena_free(f->arena);
}

static size_t volumes_left(struct fixture *f)
{
	size_t all = 0, n;
	const char **names;

	for (int t = 0; t < (int)f->world.site->n_trays; t++) {
		OK(f->world.hv->ops->volume_list(f->world.hv, t, f->world.site->pool, f->arena, &names, &n, err));
		all += n;
	}
	return all;
}

/* Nothing of the cluster anywhere: store, hypervisors, NVLink, InfiniBand. */
static void assert_nothing(struct fixture *f)
{
	struct rk_hv_domain *domains;
	struct rk_nvl_live *parts;
	struct rk_ib_live *keys;
	size_t n;

	OK(rk_world_refresh(&f->world, err));
	assert_int_equal(f->world.site->n_clusters, 0);
	assert_int_equal(f->world.site->n_vms, 0);
	assert_int_equal(f->world.site->n_nvl_partitions + f->world.site->n_ib_partitions, 0);
	for (int t = 0; t < (int)f->world.site->n_trays; t++) {
		OK(f->world.hv->ops->domain_list(f->world.hv, t, f->arena, &domains, &n, err));
		assert_int_equal(n, 0);
	}
	assert_int_equal(volumes_left(f), 0);
	rk_clock_sleep_ms(f->clock, 5000);
	for (int r = 0; r < 2; r++) {
		OK(f->world.nvl->ops->list(f->world.nvl, r, f->arena, &parts, &n, err));
		assert_int_equal(n, 1);
		assert_int_equal(parts[0].id, RK_NVL_DEFAULT);
		assert_int_equal(parts[0].n_gpus, 8);
	}
	OK(f->world.ib->ops->list(f->world.ib, 0, f->arena, &keys, &n, err));
	assert_int_equal(n, 0);
}

/* All of it everywhere, and isolated. */
static void assert_all(struct fixture *f)
{
	struct rk_isolation isolation;
	struct rk_hv_domain *domains;
	size_t n, running = 0;

	OK(rk_world_refresh(&f->world, err));
	assert_int_equal(f->world.site->n_clusters, 1);
	assert_int_equal(f->world.site->clusters[0].state, RK_CLUSTER_READY);
	assert_int_equal(f->world.site->n_vms, 2);
	OK(rk_isolation_verify(&f->world, true, f->arena, &isolation, err));
	assert_int_equal(isolation.n_violations, 0);
	for (int t = 0; t < (int)f->world.site->n_trays; t++) {
		OK(f->world.hv->ops->domain_list(f->world.hv, t, f->arena, &domains, &n, err));
		for (size_t i = 0; i < n; i++)
			running += domains[i].running;
	}
	assert_int_equal(running, 2);
	struct rk_drift *drift;
	OK(rk_drift(&f->world, NULL, f->arena, &drift, &n, err));
	assert_true(n >= 8);
	assert_int_equal(volumes_left(f), 4);
}

/* A fault that has not struck yet would strike the assertions: let harmless calls pass it. */
static void outlive_fault(struct fixture *f, long until)
{
	while (rk_sim_calls(f->world.sim) < until)
		(void)f->world.nvl->ops->health(f->world.nvl, 0, NULL);
}

static bool in_store(struct fixture *f)
{
	OK(rk_world_refresh(&f->world, err));
	return f->world.site->n_clusters != 0;
}

/* One create with the k-th call failing; false when the run was over before the fault struck. */
static bool create_with_fault(long k, const char *mode, long *ret_rolled_back)
{
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	struct fixture f;
	int64_t op = 0;
	char fault[32];

	open_world(&f, NULL);
	snprintf(fault, sizeof(fault), "call#%ld=%s", k, mode);
	assert_int_equal(rk_sim_fault_add(f.world.sim, fault, NULL), 0);
	int rc = rk_cluster_create(&f.world, f.spec, &op, &why);
	bool struck = rk_sim_calls(f.world.sim) >= k;
	outlive_fault(&f, k);
	if (rc != 0 && in_store(&f)) {
		OK(rk_op_rollback(&f.world, op, err));
	}
	if (rc == 0)
		assert_all(&f);
	else {
		*ret_rolled_back += 1;
		assert_nothing(&f);
	}
	close_world(&f);
	return struck;
}

static void a_create_with_any_one_call_failing_is_all_or_nothing(void **state)
{
	static const char *const modes[] = { "fail", "hang", "lost" };
	long runs = 0, rolled_back = 0;

	(void)state;
	for (size_t m = 0; m < RK_ARRAY_SIZE(modes); m++)
		for (long k = 1; k < RUNS_MAX; k++) {
			runs++;
			if (!create_with_fault(k, modes[m], &rolled_back))
				break;
		}
	print_message("%ld creates with one fault each, %ld rolled back\n", runs, rolled_back);
	assert_true(rolled_back > 0);
}

static bool delete_with_fault(long k, const char *mode, long *ret_resumed)
{
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	struct fixture f;
	int64_t op = 0;
	char fault[32];

	open_world(&f, NULL);
	OK(rk_cluster_create(&f.world, f.spec, &op, err));
	OK(rk_world_refresh(&f.world, err));
	long before = rk_sim_calls(f.world.sim);
	snprintf(fault, sizeof(fault), "call#%ld=%s", k, mode);
	assert_int_equal(rk_sim_fault_add(f.world.sim, fault, NULL), 0);
	int rc = rk_cluster_delete(&f.world, "a", &op, &why);
	bool struck = rk_sim_calls(f.world.sim) >= before + k;
	outlive_fault(&f, before + k);
	if (rc != 0 && in_store(&f)) {
		*ret_resumed += 1;
		OK(rk_op_resume(&f.world, op, err));
	}
	assert_nothing(&f);
	close_world(&f);
	return struck;
}

static void a_delete_with_any_one_call_failing_can_be_finished(void **state)
{
	static const char *const modes[] = { "fail", "hang", "lost" };
	long runs = 0, resumed = 0;

	(void)state;
	for (size_t m = 0; m < RK_ARRAY_SIZE(modes); m++)
		for (long k = 1; k < RUNS_MAX; k++) {
			runs++;
			if (!delete_with_fault(k, modes[m], &resumed))
				break;
		}
	print_message("%ld deletes with one fault each, %ld resumed\n", runs, resumed);
	assert_true(resumed > 0);
}

static void a_recovery_after_success_changes_nothing(void **state)
{
	struct fixture f;
	int64_t op = 0;

	(void)state;
	open_world(&f, NULL);
	OK(rk_cluster_create(&f.world, f.spec, &op, err));
	assert_all(&f);
	OK(rk_op_resume(&f.world, op, err));
	assert_all(&f);
	OK(rk_cluster_create(&f.world, f.spec, &op, err));
	assert_all(&f);
	OK(rk_cluster_delete(&f.world, "a", &op, err));
	assert_nothing(&f);
	OK(rk_op_resume(&f.world, op, err));
	assert_nothing(&f);
	close_world(&f);
}

/* The child dies right after its k-th driver call; false when it came to its end. */
static bool child_dies(const char *state, long k)
{
	struct fixture f;
	int status;
	int64_t op = 0;
	char fault[32];
	pid_t child = fork();

	if (child == 0) {
		open_world(&f, state);
		snprintf(fault, sizeof(fault), "call#%ld=crash", k);
		if (rk_sim_fault_add(f.world.sim, fault, NULL) == 0)
			rk_cluster_create(&f.world, f.spec, &op, NULL);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status) == 137;
}

static void recover(const char *state, bool resume)
{
	struct fixture f;

	open_world(&f, state);
	assert_int_equal(f.world.site->n_clusters, 1);
	int64_t op = f.world.site->clusters[0].op;
	if (resume) {
		OK(rk_op_resume(&f.world, op, err));
		assert_all(&f);
	} else {
		OK(rk_op_rollback(&f.world, op, err));
		assert_nothing(&f);
	}
	close_world(&f);
}

static void a_create_killed_after_any_call_is_resumed_or_rolled_back_by_a_new_process(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char folder[256], file[300], side[320];
	long runs = 0;

	(void)state;
	snprintf(folder, sizeof(folder), "%s/racksh-sweep-XXXXXX", tmp ? tmp : P_tmpdir);
	assert_non_null(mkdtemp(folder));
	for (long k = 1; k < RUNS_MAX; k += CRASH_STRIDE, runs++) {
		snprintf(file, sizeof(file), "%s/state-%ld", folder, k);
		bool died = child_dies(file, k);
		if (died)
			recover(file, runs % 2);
		unlink(file);
		snprintf(side, sizeof(side), "%s-wal", file);
		unlink(side);
		snprintf(side, sizeof(side), "%s-shm", file);
		unlink(side);
		if (!died)
			break;
	}
	print_message("%ld creates killed\n", runs);
	assert_true(runs > 5);
	assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_recovery_after_success_changes_nothing),
		cmocka_unit_test(a_create_with_any_one_call_failing_is_all_or_nothing),
		cmocka_unit_test(a_delete_with_any_one_call_failing_can_be_finished),
		cmocka_unit_test(a_create_killed_after_any_call_is_resumed_or_rolled_back_by_a_new_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
