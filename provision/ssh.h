/* One SSH transport (libssh). Host keys are pinned, or proven by certificates of pinned authorities; any other is an error that says what to do.
 * Blocking calls, any thread, one thread per session. No password ever. Everything that reaches a remote shell is an argv quoted by rk_shell_quote. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "inventory/base/err.h"
#include "inventory/base/str.h"
#include "inventory/base/mem.h"
#include "inventory/base/trace.h"

struct rk_ssh_target {
	const char *host;                 /* address or name */
	int port;                         /* 0: 22 */
	const char *user;                 /* NULL: the caller's */
	const char *known_hosts;          /* files, separated by blanks; NULL: ~/.ssh/known_hosts and /etc/ssh/ssh_known_hosts */
	const char *host_key;             /* pinned "ssh-ed25519 AAAA..."; when set known_hosts is not read */
	const char *identity_file;        /* NULL: agent, then ~/.ssh/id_ed25519; FILE-cert.pub beside it is its certificate, tried first */
	const char *jump;                 /* hosts to go through, "user@host:port,..." from here on (at most RK_SSH_HOPS_MAX); NULL: none. Their keys come from known_hosts,
					   * the user's from identity_file; names behind a jump host are resolved there, and no shell is needed on it */
};
struct rk_ssh_limits {                    /* ms; 0 = default in parentheses */
	int connect_ms;                   /* (10000) TCP, banner and key exchange */
	int auth_ms;                      /* (10000) */
	int idle_ms;                      /* (60000) silence of a command */
	int command_ms;                   /* (120000) one command */
	int total_ms;                     /* (none) all of it, from the beginning of rk_ssh_open */
	size_t output_max;                /* (16 MiB) per stream */
};
struct rk_ssh_result {
	struct rk_str out, err;           /* clear with rk_ssh_result_clear */
	int status;                       /* exit code; -1 when killed by a signal or not known */
	const char *signal;               /* static text, or NULL */
	bool truncated;                   /* output_max was hit */
};
struct rk_ssh;
/* RK_UNREACHABLE with the phase (resolve, connect, key exchange, host key, authentication). */
int rk_ssh_open(const struct rk_ssh_target *target, const struct rk_ssh_limits *limits, struct rk_trace *trace, const volatile int *cancel,
		struct rk_ssh **ret, struct rk_err *err);
/* argv quoted and run by the remote shell; input may be NULL. A non-zero exit is 0 with result->status set. */
int rk_ssh_run(struct rk_ssh *ssh, const char *const *argv, const char *input, size_t input_len, struct rk_ssh_result *result, struct rk_err *err);
/* The same without input, for what only looks or measures: it ends with its caller. When it was cancelled or out of time, the connection was lost or we
 * were killed, the host ends what the command started (SIGTERM, five seconds later SIGKILL), but for what made a session of its own. */
int rk_ssh_run_tied(struct rk_ssh *ssh, const char *const *argv, struct rk_ssh_result *result, struct rk_err *err);
/* What a driver may be given in place of SSH: another way to run a command on a target ("user@host:port"). Same results and classes. */
struct rk_remote {
	int (*run)(void *ctx, const char *target, const char *const *argv, const char *input, size_t input_len, struct rk_ssh_result *result,
		   struct rk_err *err);
	void *ctx;
};
/* Other limits for the commands that follow; ms. */
void rk_ssh_limit(struct rk_ssh *ssh, int idle_ms, int command_ms);
void rk_ssh_result_clear(struct rk_ssh_result *result);
void rk_ssh_close(struct rk_ssh *ssh);
void rk_shell_quote(struct rk_str *out, const char *arg); /* POSIX sh, one word */
/* "user@host:port" (IPv6 in []); fills target's host, port, user from arena copies, the rest stays. */
int rk_ssh_parse(const char *text, struct rk_arena *arena, struct rk_ssh_target *target, struct rk_err *err);
/* A list of jump hosts, outermost first. */
enum { RK_SSH_HOPS_MAX = 4 };
int rk_ssh_parse_jump(const char *text, struct rk_arena *arena, struct rk_ssh_target *hops, size_t *ret_n, struct rk_err *err);
/* Only its host; the text itself when it is no such target. In the arena. */
const char *rk_ssh_host(const char *text, struct rk_arena *arena);

/* Fan-out: fn(ctx, i) for i in 0..n-1 on up to `jobs` threads; returns when all are done. fn must not touch shared data without a lock. */
void rk_fanout(size_t n, int jobs, void (*fn)(void *ctx, size_t i), void *ctx);
/* An ed25519 key pair in OpenSSH forms; malloc'ed, NUL terminated; wipe the private one. comment goes into both. */
int rk_ssh_make_key(const char *comment, char **ret_private, char **ret_public, struct rk_err *err);
