#include "provision/hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inventory/base/json.h"
#include "provision/local.h"

enum { HOOK_MS = 30000, POLL_MS = 20, FACT_MAX = 4000 };

static const char *command_of(const struct rk_site *site, const char *event, struct rk_arena *arena)
{
	RK_CLEANUP_JSON struct rk_json *json = NULL;

	if (!site->hooks || rk_json_parse("hooks", site->hooks, strlen(site->hooks), &json, NULL))
		return NULL;
	return rk_arena_strdup(arena, rk_jstr(rk_jget(rk_json_root(json), event)));
}

/* This process' environment, then what the hook is told; a long text would keep it from being started at all. */
static char **environment(const char *event, const struct rk_hook_fact *facts, size_t n, struct rk_arena *arena)
{
	size_t own = 0, at = 0;

	while (environ[own])
		own++;
	char **env = rk_arena_array(arena, own + n + 2, sizeof(*env));
	for (size_t i = 0; i < own; i++)
		if (!rk_starts_with(environ[i], "RACKSH_"))
			env[at++] = environ[i];
	env[at++] = rk_arena_printf(arena, "RACKSH_EVENT=%s", event);
	for (size_t i = 0; i < n; i++)
		if (facts[i].value)
			env[at++] = rk_arena_printf(arena, "RACKSH_%s=%.*s", facts[i].name, FACT_MAX, facts[i].value);
	return env;
}

static int start(const char *command, char **env, pid_t *ret, struct rk_err *err)
{
	const char *argv[] = { "sh", "-c", command, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;

	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	rk_local_attr(&attr); /* Ctrl-C is not meant for it */
	int code = posix_spawn(ret, "/bin/sh", &files, &attr, (char *const *)argv, env);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return code ? rk_err_set(err, RK_FAILED, "cannot start a shell: %s", strerror(code)) : 0;
}

static int await(pid_t pid, struct rk_err *err)
{
	int64_t deadline = rk_clock_ms(NULL) + HOOK_MS;
	int status = 0;
	pid_t ended;

	while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && rk_clock_ms(NULL) < deadline)
		rk_clock_sleep_ms(NULL, POLL_MS);
	if (ended == 0) {
		kill(-pid, SIGKILL);
		waitpid(pid, &status, 0);
		return rk_err_set(err, RK_UNREACHABLE, "it did not end within %d s", HOOK_MS / 1000);
	}
	if (ended > 0 && WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	return rk_err_set(err, RK_FAILED, "it ended with status %d", ended > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

static int run(const struct rk_world *world, const char *event, const struct rk_hook_fact *facts, size_t n, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const char *command = world->sim || world->env.read_only ? NULL : command_of(world->site, event, arena);
	pid_t pid;

	if (!command)
		return 0;
	int rc = start(command, environment(event, facts, n, arena), &pid, err);
	if (!rc)
		rc = await(pid, err);
	return rc ? (rk_err_while(err, "the site's hook for \"%s\"", event), rc) : 0;
}

/* An alarm that reached nobody is told at least to whoever is there. */
int rk_hook_run(const struct rk_world *world, const char *event, const struct rk_hook_fact *facts, size_t n, struct rk_err *err)
{
	RK_CLEANUP_ERR struct rk_err why = RK_ERR_INIT;
	int rc = run(world, event, facts, n, &why);

	if (rc && world->progress)
		world->progress(world->progress_ctx, why.message);
	if (rc && err)
		rk_err_move(err, &why);
	return rc;
}
