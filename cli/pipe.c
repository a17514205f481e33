#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/app.h"
#include "inventory/base/str.h"

static void export_vars(const struct rk_vars *vars)
{
	for (size_t i = 0; vars && i < vars->n; i++)
		setenv(vars->names[i], vars->values[i], 1);
}

/* In the child: the system's shell runs text. */
static void become_shell(const char *text, const struct rk_vars *vars)
{
	signal(SIGPIPE, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	export_vars(vars);
	execl("/bin/sh", "sh", "-c", text, (char *)NULL);
	_exit(127);
}

static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
		else if (rk_app_ending())
			kill(pid, SIGTERM);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int rk_system_shell(const char *text, const struct rk_vars *vars, struct rk_err *err)
{
	fflush(NULL);
	pid_t pid = fork();
	if (pid < 0)
		return rk_err_set(err, RK_FAILED, "cannot start a process: %s", strerror(errno));
	if (!pid)
		become_shell(text, vars);
	int status = wait_for(pid);
	if (status == 130 || rk_app_interrupted())
		return rk_err_set(err, RK_CANCELLED, "cancelled: %s", text);
	return status ? rk_err_set(err, RK_FAILED, "\"%s\" ended with status %d", text, status) : 0;
}

static int start_filter(struct rk_sink *sink, const char *text, const struct rk_vars *vars, int out, struct rk_err *err)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return rk_err_set(err, RK_FAILED, "cannot make a pipe: %s", strerror(errno));
	sink->pid = fork();
	if (sink->pid < 0) {
		close(ends[0]);
		close(ends[1]);
		sink->pid = 0;
		return rk_err_set(err, RK_FAILED, "cannot start a process: %s", strerror(errno));
	}
	if (!sink->pid) {
		dup2(ends[0], STDIN_FILENO);
		if (out >= 0)
			dup2(out, STDOUT_FILENO);
		become_shell(text, vars);
	}
	dup2(ends[1], STDOUT_FILENO);
	close(ends[0]);
	close(ends[1]);
	return 0;
}

int rk_sink_open(struct rk_sink *sink, const struct rk_line *line, const struct rk_vars *vars, struct rk_err *err)
{
	int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (line->append ? O_APPEND : O_TRUNC), rc = 0;
	int file RK_CLEANUP_FD = -1;

	*sink = (struct rk_sink){ .saved = -1 };
	if (!line->to && !line->filter)
		return 0;
	if (line->to && (file = open(line->to, flags, 0666)) < 0)
		return rk_err_set(err, RK_FAILED, "cannot write \"%s\": %s", line->to, strerror(errno));
	fflush(stdout);
	sink->saved = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	if (line->filter)
		rc = start_filter(sink, line->filter, vars, file, err);
	else
		dup2(file, STDOUT_FILENO);
	if (rc)
		rk_sink_close(sink);
	return rc;
}

void rk_sink_close(struct rk_sink *sink)
{
	if (sink->saved < 0)
		return;
	fflush(stdout);
	dup2(sink->saved, STDOUT_FILENO);
	close(sink->saved);
	sink->saved = -1;
	if (sink->pid)
		wait_for(sink->pid);
}

/* ---- pager ------------------------------------------------------------------------------------------------------------------------ */

static int terminal_rows(void)
{
	struct winsize size;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

static const char *pager_command(const char *set)
{
	const char *own = getenv("RACKSH_PAGER"), *common = getenv("PAGER"), *term = getenv("TERM");

	if (set)
		return set;
	if (own)
		return own;
	if (!term || strcmp(term, "dumb") == 0)
		return "";
	return common ? common : "if command -v less >/dev/null; then exec less -FRX; else exec cat; fi";
}

void rk_page(const char *text, size_t n, const char *set)
{
	int rows = isatty(STDOUT_FILENO) && isatty(STDIN_FILENO) ? terminal_rows() : 0, lines = 0;
	const char *pager = pager_command(set);
	struct rk_line through = { .filter = pager };
	struct rk_sink sink;

	for (size_t i = 0; i < n; i++)
		lines += text[i] == '\n';
	bool paged = rows > 0 && lines >= rows && *pager && strcmp(pager, "off") != 0 && rk_sink_open(&sink, &through, NULL, NULL) == 0;
	fwrite(text, 1, n, stdout);
	fflush(stdout);
	if (paged)
		rk_sink_close(&sink);
}
