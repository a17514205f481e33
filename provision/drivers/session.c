#include "provision/drivers/session.h"

#include <string.h>

const char *rk_first_line(struct rk_arena *arena, const char *text)
{
	struct rk_str line RK_CLEANUP_STR = RK_STR_INIT;
	size_t n;

	text += strspn(text, " \t\r\n");
	n = strcspn(text, "\r\n");
	rk_str_add_escaped(&line, text, n < 300 ? n : 300);
	return line.len ? rk_arena_strdup(arena, line.text) : "no message";
}

void rk_session_close(struct rk_session *session)
{
	rk_ssh_close(session->ssh);
	session->ssh = NULL;
}

static int session_open(struct rk_session *session, const struct rk_driver_env *env, const struct rk_manager *manager, size_t index, int tray,
			const struct rk_ssh_limits *limits, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_ssh_target target = { 0 };

	if (tray != RK_NONE) {
		const struct rk_ssh_conf *conf = &env->site->trays[tray].ssh;
		target = (struct rk_ssh_target){ .port = conf->port, .user = conf->user, .known_hosts = conf->known_hosts, .identity_file = conf->identity_file,
						 .jump = conf->jump };
	}
	int rc = rk_ssh_parse(manager->ssh[index], arena, &target, err);
	if (rc == 0)
		rc = rk_ssh_open(&target, limits, env->trace, env->cancel, &session->ssh, err);
	session->open_index = index;
	return rc;
}

int rk_session_run(struct rk_session *session, const struct rk_driver_env *env, const struct rk_manager *manager, size_t index, int tray,
		   const struct rk_ssh_limits *limits, const char *const *argv, const char *input, size_t input_len, struct rk_ssh_result *result,
		   struct rk_err *err)
{
	static const char *const ping[] = { "true", NULL };
	int rc;

	*result = (struct rk_ssh_result){ RK_STR_INIT, RK_STR_INIT, -1, NULL, false };
	if (index >= manager->n_ssh)
		return rk_err_set(err, RK_INVALID, "the site file names no ssh target for this manager");
	if (env->remote)
		return env->remote->run(env->remote->ctx, manager->ssh[index], argv, input, input_len, result, err);
	if (session->ssh && session->open_index != index)
		rk_session_close(session);
	/* A kept session may have died unnoticed. Finding that out with the command itself would leave its outcome open. */
	if (session->ssh) {
		struct rk_err ignored RK_CLEANUP_ERR = RK_ERR_INIT;
		rc = rk_ssh_run(session->ssh, ping, NULL, 0, result, &ignored);
		rk_ssh_result_clear(result);
		if (rc == RK_CANCELLED)
			return rk_err_set(err, rc, "cancelled");
		if (rc != 0)
			rk_session_close(session);
	}
	if (!session->ssh && (rc = session_open(session, env, manager, index, tray, limits, err)) != 0)
		return rc;
	rc = rk_ssh_run(session->ssh, argv, input, input_len, result, err);
	if (rc != 0)
		rk_session_close(session);
	return rc;
}
