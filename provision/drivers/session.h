/* One SSH session to a manager, kept open between calls and opened again when it broke. Not thread safe: one caller at a time. */
#pragma once
#include "provision/ib.h"
#include "provision/nvl.h"
#include "provision/ssh.h"

struct rk_session {
	struct rk_ssh *ssh;
	size_t open_index;                /* which entry of the manager's list it goes to */
};
/* A command on entry `index` of the manager. Opens when needed; a session that was open and turns out dead is opened once more only when
 * nothing can have been run yet. tray (an index, or RK_NONE) gives known_hosts, identity, and the user and port the entry leaves out. */
int rk_session_run(struct rk_session *session, const struct rk_driver_env *env, const struct rk_manager *manager, size_t index, int tray,
		   const struct rk_ssh_limits *limits, const char *const *argv, const char *input, size_t input_len, struct rk_ssh_result *result,
		   struct rk_err *err);
void rk_session_close(struct rk_session *session);
/* First line of text, escaped and shortened, for messages; in the arena. */
const char *rk_first_line(struct rk_arena *arena, const char *text);
/* The drivers behind rk_nvl_open and rk_ib_open. */
int rk_nvl_nvos(const struct rk_driver_env *env, struct rk_nvl **ret, struct rk_err *err);
int rk_nvl_nmxm(const struct rk_driver_env *env, struct rk_nvl **ret, struct rk_err *err);
int rk_ib_opensm(const struct rk_driver_env *env, struct rk_ib **ret, struct rk_err *err);
int rk_ib_ufm(const struct rk_driver_env *env, struct rk_ib **ret, struct rk_err *err);
