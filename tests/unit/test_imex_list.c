#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "inventory/base/str.h"
#include "provision/steps.h"

/* The script that writes the IMEX node list in a guest, run by the shell of this machine with tools that only say what they were called with. */

static const char *const tools[][2] = {
	{ "id", "#!/bin/sh\necho ${TEST_UID:-0}\n" },
	{ "sudo", "#!/bin/sh\necho sudo \"$@\" >>\"$TEST_LOG\"\nshift\nexec \"$@\"\n" },
	{ "tee", "#!/bin/sh\n/bin/cat >\"$TEST_LOG.list\"\n" },
	{ "mv", "#!/bin/sh\necho mv \"$@\" >>\"$TEST_LOG\"\nexit ${TEST_MV:-0}\n" },
	{ "systemctl", "#!/bin/sh\necho systemctl \"$@\" >>\"$TEST_LOG\"\n[ $1 != is-active ] || exit 0\nexit ${TEST_SYSTEMCTL:-0}\n" },
	{ "pkill", "#!/bin/sh\necho pkill \"$@\" >>\"$TEST_LOG\"\nexit ${TEST_PKILL:-0}\n" },
};

struct guest {
	char folder[200], log[260];
};

static int setup(void **state)
{
	struct guest *g = rk_xcalloc(1, sizeof(*g));
	const char *tmp = getenv("TMPDIR");

	snprintf(g->folder, sizeof(g->folder), "%s/racksh-imex-XXXXXX", tmp ? tmp : P_tmpdir);
	assert_non_null(mkdtemp(g->folder));
	snprintf(g->log, sizeof(g->log), "%s/log", g->folder);
	for (size_t i = 0; i < RK_ARRAY_SIZE(tools); i++) {
		char *path RK_CLEANUP_FREE = rk_xasprintf("%s/%s", g->folder, tools[i][0]);
		assert_int_equal(rk_file_write(path, tools[i][1], strlen(tools[i][1]), 0700, NULL), 0);
	}
	*state = g;
	return 0;
}

static int teardown(void **state)
{
	struct guest *g = *state;
	char path[300];

	for (size_t i = 0; i < RK_ARRAY_SIZE(tools); i++) {
		snprintf(path, sizeof(path), "%s/%s", g->folder, tools[i][0]);
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s.list", g->log);
	unlink(path);
	unlink(g->log);
	assert_int_equal(rmdir(g->folder), 0);
	free(g);
	return 0;
}

/* Exit status with one more variable ("TEST_PKILL=2") in the environment. */
static int run(const struct guest *g, const char *variable)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		char *path = rk_xasprintf("PATH=%s", g->folder), *log = rk_xasprintf("TEST_LOG=%s", g->log);
		char *env[] = { path, log, (char *)(uintptr_t)variable, NULL };
		if (!freopen("/dev/null", "w", stderr))
			_exit(126);
		execle("/bin/sh", "sh", "-c", rk_imex_write_script, "sh", "10.0.0.1", "10.0.0.2", (char *)NULL, env);
		_exit(127);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static char *text_of(const char *path)
{
	char *text;
	size_t n;

	assert_int_equal(rk_file_read(path, 4096, &text, &n, NULL), 0);
	return text;
}

static bool called(const struct guest *g, const char *what)
{
	char *log RK_CLEANUP_FREE = text_of(g->log);

	return strstr(log, what) != NULL;
}

static void the_list_is_written_and_the_unit_told(void **state)
{
	const struct guest *g = *state;
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s.list", g->log);

	assert_int_equal(run(g, "TEST_UID=0"), 0);
	char *list RK_CLEANUP_FREE = text_of(path);
	assert_string_equal(list, "10.0.0.1\n10.0.0.2\n");
	assert_true(called(g, "mv /etc/nvidia-imex/nodes_config.cfg.new /etc/nvidia-imex/nodes_config.cfg\n"));
	assert_true(called(g, "systemctl kill -s USR1 nvidia-imex.service\n"));
	assert_false(called(g, "pkill") || called(g, "sudo"));
}

static void one_that_is_not_root_asks_sudo(void **state)
{
	const struct guest *g = *state;

	assert_int_equal(run(g, "TEST_UID=1000"), 0);
	assert_true(called(g, "sudo -n tee") && called(g, "sudo -n mv") && called(g, "sudo -n systemctl"));
}

static void a_daemon_without_a_unit_is_signalled_and_none_needs_none(void **state)
{
	const struct guest *g = *state;

	assert_int_equal(run(g, "TEST_SYSTEMCTL=1"), 0);
	assert_true(called(g, "pkill -USR1 -x nvidia-imex\n"));
}

/* Both fail: with status 1 of pkill no such process runs; everything else leaves a daemon with the old list. */
static void a_signal_that_could_not_be_sent_is_a_failure(void **state)
{
	static const struct {
		const char *pkill;
		int status;
	} cases[] = { { "exit 1", 0 }, { "exit 2", 1 }, { "exit 3", 1 }, { "exit 127", 1 } };
	const struct guest *g = *state;
	char *pkill RK_CLEANUP_FREE = rk_xasprintf("%s/pkill", g->folder);

	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		char *text RK_CLEANUP_FREE = rk_xasprintf("#!/bin/sh\n%s\n", cases[i].pkill);
		assert_int_equal(rk_file_write(pkill, text, strlen(text), 0700, NULL), 0);
		assert_int_equal(run(g, "TEST_SYSTEMCTL=1"), cases[i].status);
	}
	/* No pkill in the guest, and systemd says that the unit does not run. */
	char *systemctl RK_CLEANUP_FREE = rk_xasprintf("%s/systemctl", g->folder);
	static const char inactive[] = "#!/bin/sh\n[ $1 != is-active ] || exit 3\nexit 1\n";
	assert_int_equal(rk_file_write(systemctl, inactive, strlen(inactive), 0700, NULL), 0);
	assert_int_equal(unlink(pkill), 0);
	assert_int_equal(run(g, "TEST_SYSTEMCTL=1"), 0);
}

static void a_list_that_cannot_be_written_is_a_failure(void **state)
{
	assert_int_not_equal(run(*state, "TEST_MV=1"), 0);
}

#define IN_A_GUEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_A_GUEST(the_list_is_written_and_the_unit_told),
		IN_A_GUEST(one_that_is_not_root_asks_sudo),
		IN_A_GUEST(a_daemon_without_a_unit_is_signalled_and_none_needs_none),
		IN_A_GUEST(a_signal_that_could_not_be_sent_is_a_failure),
		IN_A_GUEST(a_list_that_cannot_be_written_is_a_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
