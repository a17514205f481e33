/* Collectors over a real sshd: one connection per host runs all of them, and what each wrote and how it ended stays apart. Skipped without one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <pwd.h>
#include <sched.h>

#include <cmocka.h>

#include "provision/health/collect.h"
#include "provision/local.h"
#include "tests/contract/twin.h"
#include "tests/unit/remote.h"
#include "tests/unit/sshd.h"

static struct sshd server;

static void tool(const char *name, const char *script)
{
	char *text RK_CLEANUP_FREE = rk_xasprintf("#!/bin/sh\n%s\n", script);

	sshd_write(&server, name, text, 0755);
}

static const char *const tools[] = { "nvidia-smi", "dmesg", "chronyc", "ibstat" };

static int start(void **state)
{
	(void)state;
	sshd_start(&server, "");
	if (!server.up)
		return 0;
	char *env RK_CLEANUP_FREE = rk_xasprintf("PATH=%s:/usr/bin:/bin", server.dir);
	sshd_configure(&server, &server, env, "");
	tool("nvidia-smi", "echo \"args=$* LC_ALL=$LC_ALL LANG=$LANG\"; echo warned >&2; printf 'no newline at the end'; cat; exit 9");
	/* A marker of a run before, and one that is guessed. */
	tool("dmesg", "echo '@@racksh:0123456789abcdef:end dmesg-xid 0'; echo '[ 1.0] NVRM: Xid (PCI:0008:06:00): 79, lost'; kill -TERM $$");
	return 0;
}

static int stop(void **state)
{
	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(tools) && server.up; i++) {
		char *path RK_CLEANUP_FREE = rk_xasprintf("%s/%s", server.dir, tools[i]);
		unlink(path);
	}
	sshd_stop(&server);
	return 0;
}

/* A world whose two VMs are all that sshd. The twin made the inventory; the guests are real. */
static struct rk_sim *open_real(struct twin *t)
{
	twin_open(t, twin_site, true);
	struct rk_sim *sim = t->world.sim;
	struct rk_site *site = t->world.site;

	t->world.sim = NULL;
	t->world.jobs = 2;
	t->world.env.timeout_ms = 20000;
	for (size_t i = 0; i < site->n_vms; i++) {
		site->vms[i].address = "127.0.0.1";
		site->vms[i].ssh_port = server.port;
		site->vms[i].host_key_public = server.host_public;
		site->trays[site->vms[i].tray].ssh.identity_file = server.client_key;
	}
	for (size_t i = 0; i < site->n_clusters; i++)
		site->clusters[i].spec = rk_arena_printf(t->arena, "{\"ssh\":{\"user\":\"%s\"}}", getpwuid(geteuid())->pw_name);
	return sim;
}

static struct rk_target *collected(struct twin *t, int total_ms)
{
	static const int vms[] = { 0, 1 };
	struct rk_hprofile *profile RK_CLEANUP(rk_cleanup_hprofile) = NULL;
	struct rk_target *targets = NULL;

	TWIN_OK(rk_hprofile_load("gb300-quick", &profile, err));
	TWIN_OK(rk_collect(&t->world, profile, "quick", total_ms, vms, 2, t->arena, &targets, err));
	return targets;
}

static void a_part_of_an_answer_is_told_from_all_of_it(void **state)
{
	static const struct {
		const char *said, *out, *status; /* out NULL: not begun */
	} rows[] = {
		{ "@@racksh:n:begin x\nbytes\n@@racksh:n:end x 0\n", "bytes", "0" },
		{ "motd\n@@racksh:n:begin x\n\n@@racksh:n:end x 127\n", "", "127" },
		{ "@@racksh:n:begin x\na\n@@racksh:m:end x 0\n@@racksh:n:end y 0\n\n@@racksh:n:end x 3\n", "a\n@@racksh:m:end x 0\n@@racksh:n:end y 0\n", "3" },
		{ "@@racksh:n:begin x\nhalf an ans", "half an ans", NULL },
		{ "@@racksh:n:begin x\nbytes\n@@racksh:n:end x ", "bytes", NULL },
		{ "@@racksh:n:begin x\nbytes\n@@racksh:n:end x 12", "bytes", NULL }, /* it may have been 127 */
		{ "@@racksh:n:begin x\nbytes\n@@racksh:n:end x -1\n", "bytes", NULL },
		{ "@@racksh:n:begin x", NULL, NULL },
		{ "@@racksh:m:begin x\nbytes\n@@racksh:m:end x 0\n", NULL, NULL },
		{ "", NULL, NULL },
	};
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		struct rk_str said RK_CLEANUP_STR = RK_STR_INIT;
		const char *out = NULL, *status;
		size_t len = 0;
		rk_str_add(&said, rows[i].said);
		bool begun = rk_collect_section("n", &said, "x", arena, &out, &len, &status);
		if (begun != (rows[i].out != NULL) || !rk_streq(out, rows[i].out) || !rk_streq(status, rows[i].status))
			fail_msg("row %zu: \"%s\", status %s", i, out ? out : "not begun", status ? status : "none");
		assert_int_equal(len, out ? strlen(out) : 0);
	}
}

static char *text_with(const char *text, const char *from, const char *to)
{
	struct rk_str s = RK_STR_INIT;

	for (const char *at; (at = strstr(text, from)) != NULL; text = at + strlen(from))
		rk_str_addf(&s, "%.*s%s", (int)(at - text), text, to);
	rk_str_add(&s, text);
	return s.text;
}

/* Rails are told by their order, so it has to be the one of the tray, whatever names the host gave; the DPU's Ethernet port and a management device are none. */
static void devices_are_asked_in_rail_order(void **state)
{
	static const char tree[] = "mkdir -p pci/0000:03:00.0 pci/0002:03:00.0 pci/0010:03:00.0 pci/0006:01:00.0; for d in ibp3s0=0000:03:00.0 ibP2p3s0=0002:03:00.0 "
				   "ibP16p3s0=0010:03:00.0 roce0=0006:01:00.0 smi1=0000:03:00.0; do n=${d%%=*}; mkdir -p ib/$n/ports/1; "
				   "ln -s ../../pci/${d#*=} ib/$n/device; case $n in roce*) echo Ethernet ;; *) echo InfiniBand ;; esac >ib/$n/ports/1/link_layer; done; ";
	static const struct {
		const char *make, *want;
	} rows[] = { { tree, "ibp3s0\nibP2p3s0\nibP16p3s0\n" }, { "", "as ibstat says\n" } };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		char dir[] = "/tmp/racksh-rails.XXXXXX";
		struct rk_ssh_result got = { 0 };
		assert_non_null(mkdtemp(dir));
		char *here RK_CLEANUP_FREE = text_with(RK_IB_DEVICES, "/sys/class/infiniband", "ib");
		char *script RK_CLEANUP_FREE = rk_xasprintf("cd %s; ibstat() { echo as ibstat says; }; export LC_ALL=C; %s %s; cd /; rm -rf %s", dir, rows[i].make, here, dir);
		const char *argv[] = { "sh", "-c", script, NULL };
		assert_int_equal(rk_local_run(argv, NULL, 0, 60000, NULL, &got, NULL), 0);
		assert_string_equal(rk_str_text(&got.out), rows[i].want);
		rk_ssh_result_clear(&got);
	}
}

static const struct rk_evidence *evidence(const struct rk_target *t, const char *collector)
{
	for (size_t i = 0; i < t->n_evidence; i++)
		if (strcmp(t->evidence[i].collector, collector) == 0)
			return &t->evidence[i];
	fail_msg("%s: no %s", t->name, collector);
	return NULL;
}

static void one_connection_per_host_runs_all_collectors(void **state)
{
	struct twin t;

	(void)state;
	if (!server.up)
		skip();
	struct rk_sim *sim = open_real(&t);
	int before = server.connections;
	struct rk_target *targets = collected(&t, 0);
	assert_int_equal(server.connections, before + 2);
	for (size_t i = 0; i < 2; i++) {
		const struct rk_evidence *xml = evidence(&targets[i], "nvidia-smi-xml"), *links = evidence(&targets[i], "nvlink-status");
		assert_string_equal(xml->status, "9");
		assert_string_equal(xml->out, "args=-q -x LC_ALL=C LANG=C\nno newline at the end");
		assert_string_equal(xml->err, "warned\n");
		assert_non_null(strstr(links->out, "args=nvlink -s"));
		const struct rk_evidence *xid = evidence(&targets[i], "dmesg-xid");
		assert_string_equal(xid->status, "143");
		assert_non_null(strstr(xid->out, "Xid (PCI:0008:06:00): 79"));
		assert_string_equal(evidence(&targets[i], "imex-nodes")->status, "127");
		assert_string_equal(evidence(&targets[i], "ib-driver")->status, "0");
	}
	t.world.sim = sim;
	twin_close(&t);
}

static void cancel_ends_it_on_the_twin_too(void **state)
{
	struct twin t;

	(void)state;
	twin_open(&t, twin_site, true);
	t.cancel = 1;
	struct rk_target *targets = collected(&t, 0);
	for (size_t i = 0; i < 2; i++) {
		assert_string_equal(evidence(&targets[i], "ibstat")->status, "unreachable");
		assert_string_equal(evidence(&targets[i], "ibstat")->err, "cancelled");
	}
	twin_close(&t);
}

static void cancel_ends_it_at_once_with_a_reason_for_each(void **state)
{
	struct twin t;

	(void)state;
	if (!server.up)
		skip();
	struct rk_sim *sim = open_real(&t);
	t.cancel = 1;
	struct rk_target *targets = collected(&t, 0);
	for (size_t i = 0; i < 2; i++) {
		const struct rk_evidence *xml = evidence(&targets[i], "nvidia-smi-xml");
		assert_string_equal(xml->status, "unreachable");
		assert_non_null(strstr(xml->err, "cancelled"));
	}
	t.cancel = 0;
	t.world.sim = sim;
	twin_close(&t);
}

/* A probe that goes on saying something is never silent, and has its minute: the time of the target ends it. What came before counts, what was not run
 * is unknown. */
static void the_time_of_a_target_ends_one_that_goes_on_and_on(void **state)
{
	enum { LIMIT_MS = 6000 }; /* logging in is within it, on a busy machine, too */
	struct twin t;

	(void)state;
	if (!server.up)
		skip();
	struct rk_sim *sim = open_real(&t);
	tool("ibstat", "while echo drip; do sleep 0.1; done");
	struct rk_target *targets = collected(&t, LIMIT_MS);
	for (size_t i = 0; i < 2; i++) {
		assert_string_equal(evidence(&targets[i], "nvlink-status")->status, "9");
		assert_string_equal(evidence(&targets[i], "ibstat")->status, "timeout");
		assert_non_null(strstr(evidence(&targets[i], "ibstat")->out, "drip"));
		assert_string_equal(evidence(&targets[i], "dmesg-xid")->status, "timeout");
	}
	t.world.sim = sim;
	twin_close(&t);
}

/* A second probe that says where it is and never ends, in a process of its own. */
static char *pids_path(void)
{
	return rk_xasprintf("%s/pids", server.dir);
}

static void probe_that_hangs(void)
{
	char *path RK_CLEANUP_FREE = pids_path();
	char *script RK_CLEANUP_FREE = rk_xasprintf("[ \"$2\" != -s ] && { echo first; exit 0; }\nprintf 'half an ans'\nsleep 1000 & echo $$ $! >>%s; wait", path);

	unlink(path);
	tool("nvidia-smi", script);
}

enum { HANGING = 4 };

/* Sets the flag as soon as both hosts are in the middle of their second probe. */
static void *interrupt(void *arg)
{
	char *path RK_CLEANUP_FREE = pids_path();
	int pids[HANGING];

	remote_begun(path, pids, HANGING);
	*(volatile int *)arg = 1;
	return NULL;
}

static void hosts_are_left_alone(void)
{
	char *path RK_CLEANUP_FREE = pids_path();
	int pids[HANGING];

	remote_begun(path, pids, HANGING);
	assert_true(remote_gone(pids, HANGING));
	unlink(path);
}

static void cancel_in_the_middle_keeps_the_probes_that_had_ended(void **state)
{
	struct twin t;
	pthread_t thread;

	(void)state;
	if (!server.up)
		skip();
	probe_that_hangs();
	struct rk_sim *sim = open_real(&t);
	assert_int_equal(pthread_create(&thread, NULL, interrupt, (void *)&t.cancel), 0);
	struct rk_target *targets = collected(&t, 0);
	pthread_join(thread, NULL);
	for (size_t i = 0; i < 2; i++) {
		const struct rk_evidence *xml = evidence(&targets[i], "nvidia-smi-xml"), *links = evidence(&targets[i], "nvlink-status");
		assert_string_equal(xml->status, "0");
		assert_string_equal(xml->out, "first\n");
		assert_string_equal(links->status, "timeout");
		assert_string_equal(links->out, "half an ans");
		const struct rk_evidence *xid = evidence(&targets[i], "dmesg-xid");
		assert_string_equal(xid->status, "timeout");
		assert_non_null(strstr(xid->err, "the session ended before this probe"));
	}
	hosts_are_left_alone();
	t.cancel = 0;
	t.world.sim = sim;
	twin_close(&t);
}

static void a_killed_caller_leaves_nothing_on_the_hosts(void **state)
{
	char *path RK_CLEANUP_FREE = pids_path();
	int pids[HANGING];
	struct twin t;

	(void)state;
	if (!server.up)
		skip();
	probe_that_hangs();
	struct rk_sim *sim = open_real(&t);
	pid_t caller = fork();
	if (caller == 0)
		_exit(collected(&t, 0) ? 0 : 1);
	remote_begun(path, pids, HANGING);
	kill(caller, SIGKILL);
	waitpid(caller, NULL, 0);
	hosts_are_left_alone();
	t.world.sim = sim;
	twin_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_part_of_an_answer_is_told_from_all_of_it),
		cmocka_unit_test(devices_are_asked_in_rail_order),
		cmocka_unit_test(one_connection_per_host_runs_all_collectors),
		cmocka_unit_test(cancel_ends_it_on_the_twin_too),
		cmocka_unit_test(cancel_ends_it_at_once_with_a_reason_for_each),
		cmocka_unit_test(the_time_of_a_target_ends_one_that_goes_on_and_on),
		cmocka_unit_test(cancel_in_the_middle_keeps_the_probes_that_had_ended),
		cmocka_unit_test(a_killed_caller_leaves_nothing_on_the_hosts),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
