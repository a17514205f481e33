#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/app.h"

/* The store travels in the environment: its URI may hold a password, and arguments are for everybody to see. Limits are those of the line that
 * began the operation. */
const char *const *rk_app_watcher_words(const struct rk_app *app, int64_t op, struct rk_arena *arena)
{
	struct rk_globals globals = app->globals;
	size_t n_options, n = 0;

	globals.quiet = true;
	globals.jobs = app->world.jobs;
	globals.timeout_s = app->world.env.timeout_ms / 1000;
	const char *const *options = rk_globals_words(&globals, true, arena, &n_options);
	const char *const command[] = { "op", "resume", rk_arena_printf(arena, "%" PRId64, op), "--watch" };
	const char **argv = rk_arena_array(arena, n_options + RK_ARRAY_SIZE(command) + 2, sizeof(*argv));
	argv[n++] = "racksh";
	for (size_t i = 0; i < n_options; i++)
		argv[n++] = options[i];
	for (size_t i = 0; i < RK_ARRAY_SIZE(command); i++)
		argv[n++] = command[i];
	return argv;
}

static const char **child_environment(const struct rk_app *app, struct rk_arena *arena)
{
	size_t n = 0, kept = 0;

	while (environ[n])
		n++;
	const char **env = rk_arena_array(arena, n + 2, sizeof(*env));
	for (size_t i = 0; i < n; i++)
		if (!app->globals.store || strncmp(environ[i], "RACKSH_STORE=", 13) != 0)
			env[kept++] = environ[i];
	if (app->globals.store)
		env[kept++] = rk_arena_printf(arena, "RACKSH_STORE=%s", app->globals.store);
	return env;
}

/* In the child, between fork and exec: nothing but system calls. */
static void become_watcher(const char *const *argv, const char *const *env, int tell)
{
	int null = open("/dev/null", O_RDWR);

	setsid();
	/* Twice, so that nobody has to wait for it. */
	if (fork() == 0) {
		for (int fd = STDIN_FILENO; fd <= STDERR_FILENO && null >= 0; fd++)
			dup2(null, fd);
		execve("/proc/self/exe", (char *const *)argv, (char *const *)env);
		int code = errno;
		if (write(tell, &code, sizeof(code)) < 0)
			_exit(126);
	}
	_exit(0);
}

int rk_app_detach(void *ctx, int64_t op, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const struct rk_app *app = ctx;
	const char *const *argv = rk_app_watcher_words(app, op, arena);
	const char **env = child_environment(app, arena);
	int pipes[2], code = 0;

	if (pipe2(pipes, O_CLOEXEC))
		return rk_err_set(err, RK_FAILED, "cannot make a pipe: %s", strerror(errno));
	pid_t pid = fork();
	if (pid == 0)
		become_watcher(argv, env, pipes[1]);
	close(pipes[1]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	/* Closed by the exec; a number in it is why there was none. */
	ssize_t n = pid < 0 ? 0 : read(pipes[0], &code, sizeof(code));
	close(pipes[0]);
	if (pid > 0 && n <= 0)
		return 0;
	return rk_err_set(err, RK_FAILED, "cannot start a process to watch operation %" PRId64 ": %s", op, strerror(pid < 0 ? errno : code));
}
