#include "provision/facility.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inventory/base/clock.h"
#include "inventory/base/json.h"
#include "provision/local.h"
#include "provision/rest.h"
#include "provision/sim.h"

enum { LIMIT_MS = 30000, SLICE_MS = 100, OUTPUT_MAX = 4096 };

double rk_pue(double facility_kw, double it_kw)
{
	return isfinite(facility_kw) && it_kw > 0 ? facility_kw / it_kw : NAN;
}

/* ---- a command ----------------------------------------------------------------------------------------------------------------------- */

static int start(const char *command, int out, pid_t *ret)
{
	const char *argv[] = { "sh", "-c", command, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out, 1);
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	rk_local_attr(&attr);
	int rc = posix_spawn(ret, "/bin/sh", &actions, &attr, (char *const *)argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return rc;
}

/* Until its output ends, it says too much, the time is over or everything was cancelled. True: it ended by itself. */
static bool drain(int fd, const volatile int *cancel, char text[OUTPUT_MAX])
{
	int64_t until = rk_clock_ms(NULL) + LIMIT_MS;
	size_t n = 0;

	while (rk_clock_ms(NULL) < until && !(cancel && *cancel)) {
		struct pollfd p = { fd, POLLIN, 0 };
		if (poll(&p, 1, SLICE_MS) < 1)
			continue;
		ssize_t got = read(fd, text + n, OUTPUT_MAX - 1 - n);
		if (got <= 0 && errno != EINTR) {
			text[n] = '\0';
			return got == 0;
		}
		n += got > 0 ? (size_t)got : 0;
		if (n == OUTPUT_MAX - 1)
			break;
	}
	text[n] = '\0';
	return false;
}

static int ask_command(const struct rk_world *world, const char *command, double *ret, struct rk_err *err)
{
	char text[OUTPUT_MAX] = "", *rest = NULL;
	int pipes[2], status = 0;
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC) != 0)
		return rk_err_set(err, RK_UNREACHABLE, "facility meter: no pipe: %s", strerror(errno));
	int rc = start(command, pipes[1], &pid);
	close(pipes[1]);
	if (rc) {
		close(pipes[0]);
		return rk_err_set(err, RK_UNREACHABLE, "facility meter: its command could not be started: %s", strerror(rc));
	}
	bool ended = drain(pipes[0], world->cancel, text);
	close(pipes[0]);
	if (!ended)
		kill(-pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!ended || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return rk_err_set(err, RK_UNREACHABLE, "facility meter: its command %s", ended ? "failed" : "did not end within 30 s, or said too much");
	char *word = text + strspn(text, " \t\r\n");
	word[strcspn(word, " \t\r\n")] = '\0';
	double kw = strtod(word, &rest);
	if (!*word || *rest || !isfinite(kw) || kw < 0) {
		rk_err_set(err, RK_UNREACHABLE, "facility meter: its command printed no number of kW");
		rk_err_hint(err, "the first word of its output has to be one, such as 2841.5");
		return RK_UNREACHABLE;
	}
	*ret = kw;
	return 0;
}

/* ---- Redfish ------------------------------------------------------------------------------------------------------------------------- */

static int ask_url(const struct rk_world *world, const struct rk_jnode *meter, double *ret, struct rk_err *err)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_rest_reply reply RK_CLEANUP_REPLY = RK_REST_REPLY_INIT;
	struct rk_rest *rest RK_CLEANUP_REST = NULL;
	struct rk_json *json RK_CLEANUP_JSON = NULL;
	const char *url = rk_jstr(rk_jget(meter, "url")), *scheme = strstr(url, "://"), *path = scheme ? strchr(scheme + 3, '/') : NULL;
	double watts = 0;

	if (!path)
		return rk_err_set(err, RK_INVALID, "facility meter: \"%s\" names no resource", url);
	const struct rk_rest_conf conf = { .url = rk_arena_strndup(arena, url, (size_t)(path - url)), .credentials_file = rk_jstr(rk_jget(meter, "credentialsFile")),
					   .ca_file = rk_jstr(rk_jget(meter, "caFile")), .total_ms = LIMIT_MS, .body_max = 1 << 20, .trace = world->env.trace,
					   .cancel = world->cancel };
	int rc = rk_rest_open(&conf, &rest, err);
	if (!rc)
		rc = rk_rest_call(rest, &(struct rk_rest_request){ .method = "GET", .absolute = path }, &reply, err);
	if (rc)
		return rk_err_while(err, "facility meter"), rc == RK_CANCELLED || rc == RK_INVALID ? rc : RK_UNREACHABLE;
	if (rk_json_parse("facility meter", rk_str_text(&reply.body), reply.body.len, &json, NULL) ||
	    !rk_jdouble(rk_jget(rk_jget(rk_json_root(json), "PowerWatts"), "Reading"), &watts))
		return rk_err_set(err, RK_UNREACHABLE, "facility meter: the resource has no PowerWatts.Reading");
	*ret = watts / 1000;
	return 0;
}

int rk_facility_read(const struct rk_world *world, double it_kw, double *ret, struct rk_err *err)
{
	struct rk_json *json RK_CLEANUP_JSON = NULL;
	const char *conf = world->site->meter;

	*ret = NAN;
	if (!conf || rk_json_parse("facilityMeter", conf, strlen(conf), &json, NULL))
		return 0;
	const struct rk_jnode *meter = rk_json_root(json);
	if (world->sim)
		return rk_sim_facility(world->sim, world->site, it_kw, ret, err);
	const char *command = rk_jstr(rk_jget(meter, "command"));
	if (command)
		return ask_command(world, command, ret, err);
	return rk_jstr(rk_jget(meter, "url")) ? ask_url(world, meter, ret, err) : 0;
}
