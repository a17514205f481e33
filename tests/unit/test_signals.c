/* How racksh ends when it is told to, when its terminal goes away, and when nobody reads its output; and that it says so when the output cannot be
 * written. The hosts are a real sshd; what needs one is skipped without it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/contract/racksh_runs.h"
#include "tests/contract/real_site.h"
#include "tests/unit/remote.h"
#include "tests/unit/sshd.h"

static struct sshd servers[2];
static char *store; /* as an option */

/* One host answers, the other one goes on for ever. */
static const char answer[] = "#!/bin/sh\nif mkdir \"$DIR/first\" 2>/dev/null; then\n\techo whole\n\techo $PPID >\"$DIR/ended\"\nelse\n\tsleep 1000 &\n"
			     "\techo $$ $! >\"$DIR/hangs\"\n\twait\nfi\n";
static const char profile[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Profile\",\"name\":\"p\",\"levels\":{\"quick\":[\"own\"]},\"collectors\":{\"own\":{\"command\":\"answer\","
			      "\"parse\":\"table\",\"metrics\":{\"own.whole\":\"whole\"}}},\"rules\":{\"own\":{\"collector\":\"own\",\"metric\":\"own.whole\",\"value\":\"whole\","
			      "\"optional\":true,\"message\":\"it answers\"}}}";

static int start(void **state)
{
	static const char *const links[] = { "tests", NULL };
	struct real_host hosts[2];

	(void)state;
	for (size_t i = 0; i < 2; i++)
		sshd_start(&servers[i], "");
	if (open_folder(links))
		return -1;
	put_text("profile.json", profile);
	if (!servers[0].up)
		return 0;
	char *tool RK_CLEANUP_FREE = in_folder("answer");
	assert_int_equal(rk_file_write(tool, answer, strlen(answer), 0755, NULL), 0);
	for (size_t i = 0; i < 2; i++) {
		/* One key of the user for both. */
		char *env RK_CLEANUP_FREE = rk_xasprintf("PATH=%s:/usr/bin:/bin DIR=%s", folder, folder);
		sshd_configure(&servers[i], &servers[0], env, "");
		hosts[i] = (struct real_host){ servers[i].port, servers[i].host_public };
	}
	char *known RK_CLEANUP_FREE = in_folder("known");
	store = rk_xasprintf("sqlite:%s/store", folder);
	real_store(store, &(struct real_site){ .hosts = hosts, .n = 2, .identity = servers[0].client_key, .known = known, .jump = "" });
	return 0;
}

static int stop(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2; i++)
		sshd_stop(&servers[i]);
	free(store);
	return remove_folder();
}

/* racksh in the folder, its output to that descriptor and errors to the file err. */
static pid_t begin(const char *const *argv, int out, bool nohup)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	if (chdir(folder))
		_exit(126);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGHUP, nohup ? SIG_IGN : SIG_DFL);
	dup2(open("/dev/null", O_RDONLY), 0);
	dup2(out, 1);
	dup2(open("err", O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
	execv(racksh, (char *const *)argv);
	_exit(127);
}

static int output_file(void)
{
	char *path RK_CLEANUP_FREE = in_folder("out");

	return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

static pid_t begin_hanging(const char *const *argv, bool nohup, int hangs[2])
{
	char *first RK_CLEANUP_FREE = in_folder("first"), *ended_path RK_CLEANUP_FREE = in_folder("ended"), *hangs_path RK_CLEANUP_FREE = in_folder("hangs");
	int out RK_CLEANUP_FD = output_file(), sshd_of_first;

	rmdir(first);
	unlink(ended_path);
	unlink(hangs_path);
	pid_t pid = begin(argv, out, nohup);
	remote_begun(hangs_path, hangs, 2);
	remote_begun(ended_path, &sshd_of_first, 1);
	/* Its connection is closed: its answer is here. */
	assert_true(remote_gone(&sshd_of_first, 1));
	return pid;
}

static void has(const char *text, const char *words)
{
	if (!strstr(text, words))
		fail_msg("\"%s\" is not in: %s", words, text);
}

static void what_is_there_is_shown_and_nothing_goes_on(void **state)
{
	static const struct {
		int signal;
		const char *const argv[8];
		const char *shown, *told;
	} rows[] = {
		{ SIGINT, { "vm", "exec", "@cluster:a", "--", "answer" }, "whole", "cancelled: 1 of 2 VMs had not answered" },
		{ SIGTERM, { "vm", "exec", "@cluster:a", "--", "answer" }, "whole", "cancelled: 1 of 2 VMs had not answered" },
		{ SIGHUP, { "vm", "exec", "@cluster:a", "--", "answer" }, "whole", "cancelled: 1 of 2 VMs had not answered" },
		{ SIGINT, { "validate", "cluster", "a", "--profile", "profile.json" }, "unknown", "cancelled: the verdict is of what had answered" },
		{ SIGTERM, { "validate", "cluster", "a", "--profile", "profile.json" }, "unknown", "cancelled: the verdict is of what had answered" },
		{ SIGTERM, { "watch", "vm", "exec", "@cluster:a", "--", "answer" }, "whole", "cancelled" },
	};

	(void)state;
	if (!servers[0].up)
		skip();
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		const char *argv[12] = { "racksh", "-s", store };
		int hangs[2];
		memcpy(argv + 3, rows[i].argv, sizeof(rows[i].argv));
		pid_t pid = begin_hanging(argv, false, hangs);
		kill(pid, rows[i].signal);
		int code = ended(pid);
		char *out RK_CLEANUP_FREE = text_of("out"), *err RK_CLEANUP_FREE = text_of("err");
		if (code != (strcmp(rows[i].argv[0], "watch") == 0 ? 0 : 130))
			fail_msg("row %zu: code %d: %s", i, code, err);
		has(out, rows[i].shown);
		has(err, rows[i].told);
		if (!remote_gone(hangs, 2))
			fail_msg("row %zu: something is left on a host", i);
	}
}

static void under_nohup_the_end_of_the_terminal_is_none_of_racksh(void **state)
{
	const char *argv[] = { "racksh", "-s", store, "vm", "exec", "@cluster:a", "--", "answer", NULL };
	char line[256];
	unsigned long ignored = 0;
	int hangs[2];

	(void)state;
	if (!servers[0].up)
		skip();
	pid_t pid = begin_hanging(argv, true, hangs);
	char *path RK_CLEANUP_FREE = rk_xasprintf("/proc/%d/status", pid);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "SigIgn: %lx", &ignored);
	if (f)
		fclose(f);
	kill(pid, SIGTERM);
	assert_int_equal(ended(pid), 130);
	assert_true(ignored & 1UL << (SIGHUP - 1));
	assert_true(remote_gone(hangs, 2));
}

#define TWIN "racksh", "--sim", "tests/examples/site-1.json"

static void who_watches_for_nobody_ends(void **state)
{
	static const char *const rows[][8] = {
		{ TWIN, "watch", "-n", "1", "tray", "list" }, { TWIN, "isolation", "verify", "--watch" },
		{ TWIN, "-c", "watch -n 1 tray list | head -n 1" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		const char *argv[9] = { NULL };
		int ends[2];
		memcpy(argv, rows[i], sizeof(rows[i]));
		assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
		pid_t pid = begin(argv, ends[1], false);
		close(ends[1]);
		close(ends[0]);
		assert_int_equal(ended(pid), 0);
	}
}

static void output_that_cannot_be_written_is_an_error(void **state)
{
	static const struct {
		const char *const argv[6];
		int code;
		bool told;
	} rows[] = {
		{ { TWIN, "tray", "list" }, 1, true }, { { TWIN, "site", "export" }, 1, true }, { { "racksh", "--version" }, 1, true },
		{ { TWIN, "-c", "tray list; rack list" }, 1, true },
		/* A change that was made stays made. */
			{ { TWIN, "-c", "tray cordon r01-t01 --reason x" }, 0, false },
		{ { TWIN, "-c", "tenant create zeta; tenant delete zeta -n" }, 0, false },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		const char *argv[7] = { NULL };
		int full RK_CLEANUP_FD = open("/dev/full", O_WRONLY | O_CLOEXEC);
		if (full < 0)
			skip();
		memcpy(argv, rows[i].argv, sizeof(rows[i].argv));
		int code = ended(begin(argv, full, false));
		char *err RK_CLEANUP_FREE = text_of("err");
		if (code != rows[i].code || (rows[i].told && !strstr(err, "the output could not be written")))
			fail_msg("row %zu: code %d: %s", i, code, err);
	}
}

/* The filter of the first line interrupts racksh, whose command has ended. */
static void a_batch_ends_at_an_interruption_that_no_command_saw(void **state)
{
	static const char *const argv[] = { TWIN, "-c", "tray list | kill -INT $PPID\nrack list", NULL };
	int out RK_CLEANUP_FD = output_file();

	(void)state;
	assert_int_equal(ended(begin(argv, out, false)), 130);
	char *text RK_CLEANUP_FREE = text_of("out"), *err RK_CLEANUP_FREE = text_of("err");
	assert_string_equal(text, "");
	has(err, "-c:2: cancelled before this line");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_there_is_shown_and_nothing_goes_on),
		cmocka_unit_test(under_nohup_the_end_of_the_terminal_is_none_of_racksh),
		cmocka_unit_test(who_watches_for_nobody_ends),
		cmocka_unit_test(output_that_cannot_be_written_is_an_error),
		cmocka_unit_test(a_batch_ends_at_an_interruption_that_no_command_saw),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
