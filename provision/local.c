#include "provision/local.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inventory/base/clock.h"

enum { POLL_MS = 20, STREAMS = 3, OUTPUT_MAX = 64 << 20 };

static bool write_all(int fd, const char *text, size_t len)
{
	for (ssize_t n; len; text += n, len -= (size_t)n)
		if ((n = write(fd, text, len)) <= 0)
			return false;
	return lseek(fd, 0, SEEK_SET) == 0;
}

static void read_all(int fd, struct rk_str *out, bool *ret_truncated)
{
	char buf[65536];

	(void)lseek(fd, 0, SEEK_SET);
	for (ssize_t n; (n = read(fd, buf, sizeof(buf))) > 0;) {
		if (out->len + (size_t)n > OUTPUT_MAX) {
			*ret_truncated = true;
			return;
		}
		rk_str_addn(out, buf, (size_t)n);
	}
}

void rk_local_attr(posix_spawnattr_t *attr)
{
	sigset_t defaults;

	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE);
	sigaddset(&defaults, SIGXFSZ);
	posix_spawnattr_init(attr);
	posix_spawnattr_setsigdefault(attr, &defaults);
	posix_spawnattr_setflags(attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
}

static int start(const char *const *argv, const int *fds, pid_t *ret, struct rk_err *err)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;

	posix_spawn_file_actions_init(&files);
	for (int i = 0; i < STREAMS; i++)
		posix_spawn_file_actions_adddup2(&files, fds[i], i);
	rk_local_attr(&attr);
	int code = posix_spawnp(ret, argv[0], &files, &attr, (char *const *)argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return code ? rk_err_set(err, RK_FAILED, "cannot start %s: %s", argv[0], strerror(code)) : 0;
}

static int await(pid_t pid, int total_ms, const volatile int *cancel, struct rk_ssh_result *result, struct rk_err *err)
{
	int64_t deadline = rk_clock_ms(NULL) + total_ms;
	int status = 0;
	pid_t ended;

	while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && rk_clock_ms(NULL) < deadline && !(cancel && *cancel))
		rk_clock_sleep_ms(NULL, POLL_MS);
	if (ended == 0) {
		/* First so that it can clean up after itself. */
		kill(-pid, SIGTERM);
		for (int i = 0; i < 50 && waitpid(pid, &status, WNOHANG) == 0; i++)
			rk_clock_sleep_ms(NULL, POLL_MS);
		if (kill(-pid, SIGKILL) == 0)
			(void)waitpid(pid, &status, 0);
		return cancel && *cancel ? rk_err_set(err, RK_CANCELLED, "cancelled") : rk_err_set(err, RK_UNREACHABLE, "it did not end within %d s", total_ms / 1000);
	}
	result->status = ended > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	return 0;
}

int rk_local_run(const char *const *argv, const char *input, size_t len, int total_ms, const volatile int *cancel, struct rk_ssh_result *result,
		 struct rk_err *err)
{
	int fds[STREAMS] = { -1, -1, -1 }, rc = 0;
	pid_t pid;

	*result = (struct rk_ssh_result){ .out = RK_STR_INIT, .err = RK_STR_INIT, .status = -1 };
	for (int i = 0; i < STREAMS && rc == 0; i++)
		if ((fds[i] = memfd_create("racksh", MFD_CLOEXEC)) < 0)
			rc = rk_err_set(err, RK_FAILED, "no memory file: %s", strerror(errno));
	if (rc == 0 && !write_all(fds[0], input ? input : "", len))
		rc = rk_err_set(err, RK_FAILED, "no room for the input of %s: %s", argv[0], strerror(errno));
	if (rc == 0)
		rc = start(argv, fds, &pid, err);
	if (rc == 0)
		rc = await(pid, total_ms, cancel, result, err);
	if (rc == 0) {
		read_all(fds[1], &result->out, &result->truncated);
		read_all(fds[2], &result->err, &result->truncated);
	}
	for (int i = 0; i < STREAMS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return rc;
}
