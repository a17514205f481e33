/* Programs that a test starts. Include after <cmocka.h>. */
#pragma once
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inventory/base/mem.h"
#include "inventory/base/str.h"

/* In a new process: argv with the descriptor as its output; 127 when there is no such program. */
static inline void child_exec(const char *const *argv, int out)
{
	int null = open("/dev/null", O_RDWR);

	dup2(null, 0);
	dup2(out < 0 ? null : out, 1);
	dup2(null, 2);
	execvp(argv[0], (char *const *)argv);
	_exit(127);
}

static inline int child_end(pid_t pid)
{
	int status = 0;

	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Exit status of argv, its output thrown away; 127 when there is no such program, -1 when a signal ended it. */
static inline int run(const char *const *argv)
{
	pid_t pid = fork();

	if (pid == 0)
		child_exec(argv, -1);
	return child_end(pid);
}

/* What argv printed, to be freed; NULL when it failed. */
static inline char *output_of(const char *const *argv)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	char buffer[1024];
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	if (pid == 0)
		child_exec(argv, ends[1]);
	close(ends[1]);
	for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;)
		rk_str_addn(&text, buffer, (size_t)n);
	close(ends[0]);
	return child_end(pid) == 0 ? rk_xstrdup(rk_str_text(&text)) : NULL;
}
