/* Commands that end with their caller, over a real sshd, with each shell that hosts have as sh. Skipped without an sshd. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/remote.h"
#include "tests/unit/sshd.h"

static struct sshd server;
static volatile int cancel;

/* argv[0] decides what busybox is. */
static const char *const shells[] = { "/bin/dash", "/bin/bash", "/bin/busybox" };

static void path_of(char path[static 128], const char *name)
{
	snprintf(path, 128, "%s/%s", server.dir, name);
}

static int start(void **state)
{
	(void)state;
	sshd_start(&server, "");
	if (!server.up)
		return 0;
	char *env RK_CLEANUP_FREE = rk_xasprintf("PATH=%s:/usr/bin:/bin PIDS=%s/pids", server.dir, server.dir);
	sshd_configure(&server, &server, env, "");
	return 0;
}

static int stop(void **state)
{
	static const char *const files[] = { "sh", "pids" };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(files) && server.up; i++) {
		char path[128];
		path_of(path, files[i]);
		unlink(path);
	}
	sshd_stop(&server);
	return 0;
}

/* True: hosts have this one as sh from now on. */
static bool with_shell(size_t i)
{
	char path[128];

	if (!server.up)
		skip();
	path_of(path, "pids");
	unlink(path);
	path_of(path, "sh");
	unlink(path);
	return access(shells[i], X_OK) == 0 && symlink(shells[i], path) == 0;
}

static struct rk_ssh *session(const struct rk_ssh_limits *limits)
{
	const struct rk_ssh_target target = { .host = "127.0.0.1", .port = server.port, .host_key = server.host_public, .identity_file = server.client_key };
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_ssh *ssh = NULL;

	cancel = 0;
	if (rk_ssh_open(&target, limits, NULL, &cancel, &ssh, &err) != 0)
		fail_msg("%s", err.message);
	return ssh;
}

static int run(struct rk_ssh *ssh, const char *script, struct rk_ssh_result *result)
{
	const char *argv[] = { "sh", "-c", script, NULL };
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	return rk_ssh_run_tied(ssh, argv, result, &err);
}

/* Three levels, one of them in the process group that timeout makes. */
#define SLEEPERS "echo $$ >>$PIDS; timeout 1000 sh -c 'echo $$ >>$PIDS; sleep 1000 & echo $! >>$PIDS; wait'; echo after"
enum { N_SLEEPERS = 3 };

static void *interrupt(void *arg)
{
	char path[128];

	path_of(path, "pids");
	remote_begun(path, arg, N_SLEEPERS);
	cancel = 1;
	return NULL;
}

static void nothing_is_left_after_a_cancel(void **state)
{
	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(shells); i++) {
		struct rk_ssh_result r;
		pthread_t thread;
		int pids[N_SLEEPERS];
		if (!with_shell(i))
			continue;
		struct rk_ssh *ssh = session(NULL);
		assert_int_equal(pthread_create(&thread, NULL, interrupt, pids), 0);
		assert_int_equal(run(ssh, SLEEPERS, &r), RK_CANCELLED);
		pthread_join(thread, NULL);
		assert_int_equal(r.out.len, 0);
		rk_ssh_result_clear(&r);
		/* The connection lives on: its end is not what ends the command. */
		if (!remote_gone(pids, N_SLEEPERS))
			fail_msg("%s: something is left", shells[i]);
		rk_ssh_close(ssh);
	}
}

static void nothing_is_left_after_the_limit_of_a_command(void **state)
{
	const struct rk_ssh_limits limits = { .command_ms = 3000 };
	struct rk_ssh_result r;
	int pids[N_SLEEPERS];
	char path[128];

	(void)state;
	if (!with_shell(0))
		skip();
	struct rk_ssh *ssh = session(&limits);
	assert_int_equal(run(ssh, SLEEPERS, &r), RK_UNREACHABLE);
	rk_ssh_result_clear(&r);
	path_of(path, "pids");
	remote_begun(path, pids, N_SLEEPERS);
	assert_true(remote_gone(pids, N_SLEEPERS));
	rk_ssh_close(ssh);
}

static void nothing_is_left_after_the_caller_was_killed(void **state)
{
	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(shells); i++) {
		int pids[N_SLEEPERS];
		char path[128];
		if (!with_shell(i))
			continue;
		pid_t caller = fork();
		if (caller == 0) {
			struct rk_ssh_result r;
			_exit(run(session(NULL), SLEEPERS, &r) ? 1 : 0);
		}
		path_of(path, "pids");
		remote_begun(path, pids, N_SLEEPERS);
		kill(caller, SIGKILL);
		waitpid(caller, NULL, 0);
		if (!remote_gone(pids, N_SLEEPERS))
			fail_msg("%s: something is left", shells[i]);
	}
}

static void what_ignores_the_request_to_end_is_killed(void **state)
{
	static const char script[] = "trap '' TERM; echo $$ >>$PIDS; sleep 1000 & echo $! >>$PIDS; (while :; do sleep 1; done) & echo $! >>$PIDS; wait";
	struct rk_ssh_result r;
	pthread_t thread;
	int pids[N_SLEEPERS];

	(void)state;
	if (!with_shell(0))
		skip();
	struct rk_ssh *ssh = session(NULL);
	assert_int_equal(pthread_create(&thread, NULL, interrupt, pids), 0);
	assert_int_equal(run(ssh, script, &r), RK_CANCELLED);
	pthread_join(thread, NULL);
	rk_ssh_result_clear(&r);
	rk_ssh_close(ssh);
	assert_true(remote_gone(pids, N_SLEEPERS));
}

/* Status, signal, both streams and an empty input are those of the command alone; it runs by itself on the host, and then nothing does. */
static void a_command_that_ends_is_as_without_it_and_leaves_nothing(void **state)
{
	static const struct {
		const char *script, *out, *err, *signal;
		int status;
	} rows[] = {
		{ "printf 'no newline'; echo bad >&2; exit 7", "no newline", "bad\n", NULL, 7 },
		{ "cat; read -r x; echo $?", "1\n", "", NULL, 0 },
		{ "kill -KILL $$", "", "", "KILL", -1 },
		/* A program that waits for all its children has none but its own. */
		{ "exec perl -e 'fork or exit 3; 1 while wait() > 0; print \"all\"'", "all", "", NULL, 0 },
		{ "nonsuch 2>/dev/null", "", "", NULL, 127 },
		{ "head -c 3000000 /dev/zero | tr '\\0' x | wc -c; kill -TERM $$", "3000000\n", "", "TERM", -1 },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(shells); i++) {
		if (!with_shell(i))
			continue;
		struct rk_ssh *ssh = session(NULL);
		for (size_t k = 0; k < RK_ARRAY_SIZE(rows); k++) {
			struct rk_ssh_result r;
			if (run(ssh, rows[k].script, &r) != 0 || r.status != rows[k].status || !rk_streq(r.signal, rows[k].signal) ||
			    strcmp(rk_str_text(&r.out), rows[k].out) != 0 || strcmp(rk_str_text(&r.err), rows[k].err) != 0)
				fail_msg("%s: row %zu: status %d, \"%s\", \"%s\"", shells[i], k, r.status, rk_str_text(&r.out), rk_str_text(&r.err));
			rk_ssh_result_clear(&r);
		}
		struct rk_ssh_result r;
		assert_int_equal(run(ssh, "set -- $(cat /proc/self/stat); echo $6", &r), 0);
		if (!remote_session_gone(atoi(rk_str_text(&r.out))))
			fail_msg("%s: something is left of a command that ended", shells[i]);
		rk_ssh_result_clear(&r);
		rk_ssh_close(ssh);
	}
}

static void builtin_commands_run(void **state)
{
	const char *argv[] = { "command", "-v", "sh", NULL };
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_ssh_result r;
	char path[128];

	(void)state;
	if (!with_shell(0))
		skip();
	struct rk_ssh *ssh = session(NULL);
	assert_int_equal(rk_ssh_run_tied(ssh, argv, &r, &err), 0);
	path_of(path, "sh\n");
	assert_string_equal(rk_str_text(&r.out), path);
	rk_ssh_result_clear(&r);
	rk_ssh_close(ssh);
}

static void what_was_left_running_on_purpose_stays(void **state)
{
	struct rk_ssh_result r;
	int pid;

	(void)state;
	if (!with_shell(0))
		skip();
	struct rk_ssh *ssh = session(NULL);
	assert_int_equal(run(ssh, "nohup sleep 1000 >/dev/null 2>&1 & echo $!", &r), 0);
	pid = atoi(rk_str_text(&r.out));
	rk_ssh_result_clear(&r);
	int own = remote_session(pid);
	assert_true(own > 0);
	rk_ssh_close(ssh);
	/* Only the one that was left. */
	while (remote_in_session(own) > 1)
		sched_yield();
	assert_int_equal(remote_session(pid), own);
	kill(pid, SIGKILL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_left_after_a_cancel),
		cmocka_unit_test(nothing_is_left_after_the_limit_of_a_command),
		cmocka_unit_test(nothing_is_left_after_the_caller_was_killed),
		cmocka_unit_test(what_ignores_the_request_to_end_is_killed),
		cmocka_unit_test(a_command_that_ends_is_as_without_it_and_leaves_nothing),
		cmocka_unit_test(builtin_commands_run),
		cmocka_unit_test(what_was_left_running_on_purpose_stays),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
