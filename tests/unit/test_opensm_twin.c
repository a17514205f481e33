#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <glob.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "provision/drivers/session.h"
#include "provision/local.h"
#include "tests/contract/fabric_site.h"

/* The manager's host is this machine, with a fabric that is a text; the simulation in which a file is tried is a real one. */

static const char standard[] = "Default=0x7fff : ALL=limited, ALL_SWITCHES=full, SELF=full ;\nstorage=0x0a00 : 0x5000e60300aa0005=full ;\n";

enum { PORTS = 8 };

struct host {
	struct rk_site *site;
	struct rk_driver_env env;
	struct rk_remote remote;
	struct rk_ib *ib;
	char folder[64], *path;
	int twins;                /* simulations asked of the manager's host */
};

static void put(const struct host *h, const char *name, const char *text, mode_t mode)
{
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/%s", h->folder, name);

	assert_int_equal(rk_file_write(path, text, strlen(text), mode, NULL), 0);
	assert_int_equal(chmod(path, mode), 0);
}

static char *content(const struct host *h, const char *name)
{
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/%s", h->folder, name), *text = NULL;
	size_t len;

	assert_int_equal(rk_file_read(path, 1 << 20, &text, &len, NULL), 0);
	return text;
}

static int run(void *ctx, const char *target, const char *const *argv, const char *input, size_t input_len, struct rk_ssh_result *result, struct rk_err *err)
{
	struct host *h = ctx;
	char *here = rk_xstrdup(getenv("PATH"));

	(void)target;
	h->twins += argv[1] && argv[2] && strstr(argv[2], "ibsim -n") != NULL;
	setenv("PATH", h->path, 1);
	setenv("TMPDIR", h->folder, 1);
	int rc = rk_local_run(argv, input, input_len, 120000, NULL, result, err);
	setenv("PATH", here, 1);
	free(here);
	return rc;
}

static uint64_t guid_of(int port)
{
	return UINT64_C(0x5000e60300aa0000) + (uint64_t)port;
}

/* As ibnetdiscover prints it. HCAs here have the GUID of their port, as real ones do. */
static void put_net(const struct host *h)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	rk_str_add(&text, "#\n# Topology file: generated\n#\n\nvendid=0x2c9\ndevid=0xd2f4\nsysimgguid=0x5000e604000a0000\nswitchguid=0x5000e604000a0000(5000e604000a0000)\n"
			  "Switch\t144 \"S-5000e604000a0000\"\t\t# \"leaf\" enhanced port 0 lid 2 lmc 0\n");
	for (int i = 0; i < PORTS; i++)
		rk_str_addf(&text, "[%d]\t\"H-%016" PRIx64 "\"[1](%" PRIx64 ") \t\t# \"tray mlx5_%d\" lid %d 4xHDR\n", i + 1, guid_of(i), guid_of(i), i % 4, i + 3);
	for (int i = 0; i < PORTS; i++)
		rk_str_addf(&text, "\nvendid=0x2c9\ndevid=0x1023\nsysimgguid=0x%" PRIx64 "\ncaguid=0x%" PRIx64 "\nCa\t1 \"H-%016" PRIx64 "\"\t\t# \"tray mlx5_%d\"\n"
			    "[1](%" PRIx64 ") \t\"S-5000e604000a0000\"[%d]\t\t# lid %d lmc 0 \"leaf\" lid 2 4xHDR\n", guid_of(i), guid_of(i), guid_of(i), i % 4,
			    guid_of(i), i + 1, i + 3);
	put(h, "net", rk_str_text(&text), 0644);
}

static void tool(const struct host *h, const char *name, const char *script)
{
	char *path RK_CLEANUP_FREE = rk_xasprintf("bin/%s", name), *text RK_CLEANUP_FREE = rk_xasprintf("#!/bin/sh\nH=%s\n%s\n", h->folder, script);

	put(h, path, text, 0755);
}

static int start(void **state)
{
	struct host *h = rk_xcalloc(1, sizeof(*h));
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	snprintf(h->folder, sizeof(h->folder), "/tmp/racksh-twin.XXXXXX");
	assert_non_null(mkdtemp(h->folder));
	char *bin RK_CLEANUP_FREE = rk_xasprintf("%s/bin", h->folder);
	char *entry RK_CLEANUP_FREE = rk_xasprintf("\"driver\":\"opensm\",\"ssh\":\"root@sm\",\"partitionsFile\":\"%s/partitions.conf\"", h->folder);
	assert_int_equal(rk_mkdirs(bin, NULL), 0);
	h->path = rk_xasprintf("%s:%s", bin, getenv("PATH"));
	/* Tables cannot be read here: what a change comes to is not the matter of this test. */
	tool(h, "racksh-ib-pkeys", "[ \"$1\" = --form ] && exec echo 1; printf '%s 1\\nfail none\\n%s end 0\\n' \"$1\" \"$1\"");
	tool(h, "ibnetdiscover", "cat \"$H/net\"");
	tool(h, "smpquery", "[ \"$2\" = nodeinfo ] || exit 1\nprintf '# Node info: DR path slid 65535\\nNodeType:........................Channel Adapter\\n"
			    "Guid:............................0x5000e60300aa0007\\n'");
	tool(h, "pkill", "exit 0");
	put_net(h);
	put(h, "partitions.conf", standard, 0644);
	h->site = fabric_site("\"driver\":\"nvos\",\"ssh\":\"admin@sw\"", entry);
	h->remote = (struct rk_remote){ run, h };
	h->env = (struct rk_driver_env){ .site = h->site, .remote = &h->remote, .twin_check = true };
	assert_int_equal(rk_ib_open(&h->env, &h->ib, &err), 0);
	*state = h;
	return 0;
}

static int stop(void **state)
{
	struct host *h = *state;
	pid_t pid = fork();

	if (pid == 0) {
		execlp("rm", "rm", "-rf", h->folder, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
	h->ib->ops->free(h->ib);
	rk_site_free(h->site);
	free(h->path);
	free(h);
	return 0;
}

/* Four ports become members; what is in the file afterwards. */
static int give(struct host *h, char **ret_file, struct rk_err *err)
{
	struct rk_ib_member members[4];

	if (access("/usr/bin/ibsim", X_OK) != 0 || access("/usr/sbin/opensm", X_OK) != 0)
		skip();
	for (int i = 0; i < 4; i++)
		members[i] = (struct rk_ib_member){ guid_of(i), i != 3 };
	int rc = h->ib->ops->set(h->ib, 0, &(struct rk_ib_wanted){ 0x100, "ta", members, 4, false }, err);
	*ret_file = content(h, "partitions.conf");
	return rc;
}

static void refused(struct host *h, int class, const char *says)
{
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	char *after RK_CLEANUP_FREE = NULL;
	int rc = give(h, &after, &err);

	if (rc != class || !err.message || !strstr(err.message, says) || !strstr(err.message, "fabric \"ib0\": --twin-check: nothing was changed: "))
		fail_msg("%d: %s", rc, err.message ? err.message : "no error");
	assert_non_null(err.hint);
	assert_string_equal(after, standard);
}

static void a_file_that_comes_out_as_meant_is_written(void **state)
{
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct host *h = *state;
	char *after RK_CLEANUP_FREE = NULL;

	if (give(h, &after, &err) != 0)
		fail_msg("%s", err.message);
	assert_int_equal(h->twins, 1);
	assert_non_null(strstr(after, "ta=0x0100"));
}

static void a_file_that_opensm_does_not_take_is_not_written(void **state)
{
	struct host *h = *state;

	tool(h, "opensm", "for a; do case $a in */partitions) echo garbage >>\"$a\" ;; esac; done\nexec /usr/sbin/opensm \"$@\"");
	refused(h, RK_FAILED, "--twin-check: nothing was changed: OpenSM does not take the new ");
}

static void a_file_that_comes_out_otherwise_is_not_written(void **state)
{
	struct host *h = *state;

	/* An OpenSM that does not know a port. */
	tool(h, "opensm", "for a; do case $a in */partitions) sed -i 's/0x5000e60300aa0001/0x5000e60300aaffff/' \"$a\" ;; esac; done\nexec /usr/sbin/opensm \"$@\"");
	refused(h, RK_FAILED, "port 0x5000e60300aa0001 would hold 0x7fff, not 0x7fff 0x8100");
}

static void without_a_simulator_there_it_runs_here(void **state)
{
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct host *h = *state;
	char *after RK_CLEANUP_FREE = NULL;

	tool(h, "ibsim", "exit 1");
	if (give(h, &after, &err) != 0)
		fail_msg("%s", err.message);
	assert_int_equal(h->twins, 1);
	assert_non_null(strstr(after, "ta=0x0100"));
}

static void without_any_simulator_nothing_is_changed(void **state)
{
	struct host *h = *state;
	char *bin RK_CLEANUP_FREE = rk_xasprintf("%s/bin:%s", h->folder, getenv("PATH")), *here = rk_xstrdup(getenv("PATH"));

	tool(h, "ibsim", "exit 1");
	setenv("PATH", bin, 1);
	refused(h, RK_NOT_FOUND, "--twin-check: nothing was changed: no fabric can be simulated, neither on the manager's host");
	setenv("PATH", here, 1);
	free(here);
}

static void a_fabric_that_was_not_seen_whole_is_no_fabric(void **state)
{
	struct host *h = *state;

	tool(h, "ibnetdiscover", "cat \"$H/net\"; echo 'umad (DR path slid 0; dlid 0; 0,1 Attr 0x11:0) bad status 110; Connection timed out' >&2");
	refused(h, RK_UNREACHABLE, "not seen whole");
}

static void a_host_that_does_not_know_its_port_is_told_what_to_do(void **state)
{
	struct host *h = *state;

	tool(h, "smpquery", "echo 'ibwarn: mad_rpc_open_port: can not open UMAD port' >&2; exit 1");
	refused(h, RK_UNREACHABLE, "smpquery does not tell the port of the manager's host: ibwarn: mad_rpc_open_port");
}

static void a_simulation_that_is_ended_leaves_nothing(void **state)
{
	static const char *const signals[] = { "HUP", "INT", "TERM", "PIPE" };
	struct host *h = *state;
	char *pattern RK_CLEANUP_FREE = rk_xasprintf("%s/tmp.*", h->folder), *here = rk_xstrdup(getenv("PATH"));

	setenv("PATH", h->path, 1);
	for (size_t i = 0; i < RK_ARRAY_SIZE(signals); i++) {
		char *deadly RK_CLEANUP_FREE = rk_xasprintf("kill -%s $PPID; exec sleep 60", signals[i]);
		glob_t left = { 0 };
		tool(h, "ibsim", deadly);
		refused(h, RK_NOT_FOUND, "--twin-check: nothing was changed: no fabric can be simulated");
		assert_int_equal(glob(pattern, 0, NULL, &left), GLOB_NOMATCH);
		globfree(&left);
	}
	setenv("PATH", here, 1);
	free(here);
}

int main(void)
{
	/* As a job of the background they are ignored, and a shell cannot trap what was ignored when it began. */
	signal(SIGHUP, SIG_DFL);
	signal(SIGINT, SIG_DFL);

	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_file_that_comes_out_as_meant_is_written, start, stop),
		cmocka_unit_test_setup_teardown(a_file_that_opensm_does_not_take_is_not_written, start, stop),
		cmocka_unit_test_setup_teardown(a_file_that_comes_out_otherwise_is_not_written, start, stop),
		cmocka_unit_test_setup_teardown(without_a_simulator_there_it_runs_here, start, stop),
		cmocka_unit_test_setup_teardown(without_any_simulator_nothing_is_changed, start, stop),
		cmocka_unit_test_setup_teardown(a_fabric_that_was_not_seen_whole_is_no_fabric, start, stop),
		cmocka_unit_test_setup_teardown(a_host_that_does_not_know_its_port_is_told_what_to_do, start, stop),
		cmocka_unit_test_setup_teardown(a_simulation_that_is_ended_leaves_nothing, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
