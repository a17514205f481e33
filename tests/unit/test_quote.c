#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "provision/ssh.h"

static void quoted_is(const char *arg, const char *want)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;

	rk_shell_quote(&out, arg);
	assert_string_equal(rk_str_text(&out), want);
}

static void plain_words_stay_readable(void **state)
{
	(void)state;
	quoted_is("nv", "nv");
	quoted_is("/etc/opensm/partitions.conf", "/etc/opensm/partitions.conf");
	quoted_is("0x0001,0x0002", "0x0001,0x0002");
}

static void everything_a_shell_could_act_on_is_quoted(void **state)
{
	(void)state;
	quoted_is("", "''");
	quoted_is("a b", "'a b'");
	quoted_is("$(reboot)", "'$(reboot)'");
	quoted_is("it's", "'it'\\''s'");
	quoted_is("~root", "'~root'");
	quoted_is("a=b", "'a=b'");
	quoted_is("x\ny", "'x\ny'");
	quoted_is("#", "'#'");
	quoted_is("r[1-2]", "'r[1-2]'");
}

/* Every byte that an argument can hold comes out of a real sh as it went in. */
static void a_real_shell_gives_every_byte_back(void **state)
{
	struct rk_str command RK_CLEANUP_STR = RK_STR_INIT;
	char all[256], got[512];
	int pipe_fd[2], status;
	ssize_t n;
	size_t len = 0;

	(void)state;
	for (int c = 1; c < 256; c++)
		all[c - 1] = (char)c;
	all[255] = '\0';
	rk_str_add(&command, "printf %s ");
	rk_shell_quote(&command, all);
	assert_int_equal(pipe(pipe_fd), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(pipe_fd[1], 1);
		close(pipe_fd[0]);
		close(pipe_fd[1]);
		execl("/bin/sh", "sh", "-c", rk_str_text(&command), (char *)NULL);
		_exit(127);
	}
	close(pipe_fd[1]);
	while (len < sizeof(got) && (n = read(pipe_fd[0], got + len, sizeof(got) - len)) > 0)
		len += (size_t)n;
	close(pipe_fd[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(len, 255);
	assert_memory_equal(got, all, 255);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_words_stay_readable),
		cmocka_unit_test(everything_a_shell_could_act_on_is_quoted),
		cmocka_unit_test(a_real_shell_gives_every_byte_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
