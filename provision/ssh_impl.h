/* What the files of the SSH transport share: ssh.c opens and closes, ssh_connect.c finds the host, ssh_hostkey.c decides whom to trust,
 * ssh_certificate.c what certificates prove, ssh_auth.c and ssh_agent.c log in, ssh_jump.c goes through other hosts, ssh_gate.c lets a few at a time into each,
 * ssh_run.c runs commands, ssh_tied.c ends them. Sessions run non-blocking; every phase has its own deadline, because a daemon that hangs answers TCP
 * and nothing else. libssh's own configuration and known_hosts reading is off: what is trusted is decided here. */
#pragma once
#include <stdint.h>

#include "provision/known_hosts.h"
#include "provision/ssh.h"

/* What is cheap and current comes first; both sides take the first that both have. */
#define RK_SSH_CIPHERS "chacha20-poly1305@openssh.com,aes256-gcm@openssh.com,aes128-gcm@openssh.com,aes256-ctr,aes192-ctr,aes128-ctr"
#define RK_SSH_MACS "hmac-sha2-256-etm@openssh.com,hmac-sha2-512-etm@openssh.com,hmac-sha2-256,hmac-sha2-512"

enum { RK_SSH_SLICE_MS = 200 };   /* longest wait without a look at the cancel flag */

struct rk_ssh_carrier;
struct rk_ssh {
	struct ssh_session_struct *session;
	struct ssh_event_struct *event; /* pumps packets once the session is up */
	int fd;                      /* our duplicate: libssh closes its own whenever it likes */
	struct rk_ssh *via;          /* the jump host this one goes through (owned), or NULL */
	struct rk_ssh_carrier *carrier; /* moves this session's bytes over a channel of `via`; NULL without it */
	struct rk_trace *trace;
	const volatile int *cancel;
	struct rk_ssh_limits limits;
	int64_t until;               /* end of everything; INT64_MAX without a limit */
	char *name;                  /* "user@host:port" for messages and the trace */
	bool broken;                 /* the transport failed; nothing more will be sent */
};

/* What one open needs in all its phases. */
struct rk_ssh_opening {
	const struct rk_ssh_target *target;
	struct rk_arena *arena;
	struct rk_host_keys keys;
	const char *user;
	int port;
	int64_t connect_until;
	bool retry;                  /* the server dropped us before the key exchange: likely MaxStartups */
	bool doubted;                /* no key that is trusted was shown or agreed on: another source of trust may know more */
	bool certified;              /* the key to be shown is the one in the host's certificate */
};

/* Sets RK_UNREACHABLE with the phase; `why` may come from the other side. */
int rk_ssh_unreachable(struct rk_ssh *ssh, const char *phase, const char *why, struct rk_err *err);
/* One slice of waiting for fd (-1: only for time). 0 = look again, else the class. */
int rk_ssh_wait_fd(struct rk_ssh *ssh, int fd, short events, int64_t until, const char *phase, struct rk_err *err);
int rk_ssh_wait(struct rk_ssh *ssh, int64_t until, const char *phase, struct rk_err *err); /* the same for what the session waits for */
/* poll() for at most ms on fd, while the bytes of all jump hosts on the way are moved. */
void rk_ssh_poll(struct rk_ssh *ssh, int fd, short events, int ms);

/* A connected socket. */
int rk_ssh_connect(struct rk_ssh *ssh, const struct rk_ssh_opening *open, int *ret_fd, struct rk_err *err);
/* The same through a channel of ssh->via. */
int rk_ssh_carry_to(struct rk_ssh *ssh, const struct rk_ssh_opening *open, int *ret_fd, struct rk_err *err);
void rk_ssh_carrier_free(struct rk_ssh *ssh);
/* Which keys may this host show? */
int rk_ssh_trusted_keys(struct rk_ssh *ssh, struct rk_ssh_opening *open, struct rk_err *err);
/* Hosts that an authority vouches for: takes the key that the host's certificate proves, and that alone, into open->keys. The one that came before, if it
 * is still good... */
bool rk_ssh_certificate_kept(struct rk_ssh *ssh, struct rk_ssh_opening *open);
/* ...or the one that the host shows now, on a connection of its own, which is left to the caller to drop when it went through a jump host. */
int rk_ssh_certificate_fetch(struct rk_ssh *ssh, struct rk_ssh_opening *open, struct rk_err *err);
/* Asking only for key types that we know a key of, else a server with several keys shows one that we cannot judge. In the arena. */
int rk_ssh_host_key_algorithms(struct rk_ssh *ssh, struct rk_ssh_opening *open, const char **ret, struct rk_err *err);
int rk_ssh_check_host_key(struct rk_ssh *ssh, struct rk_ssh_opening *open, struct rk_err *err);
/* A connection to the user's agent for libssh, which is cut at `until` and on cancel. RK_NOT_FOUND: no agent is there. Close it before the session. */
struct rk_ssh_agent;
int rk_ssh_agent_open(struct rk_ssh *ssh, int64_t until, struct rk_ssh_agent **ret, int *ret_fd, struct rk_err *err);
bool rk_ssh_agent_close(struct rk_ssh_agent *agent); /* was it cut? */
int rk_ssh_authenticate(struct rk_ssh *ssh, const struct rk_ssh_opening *open, struct rk_err *err);
/* Waits for its turn to log in at the jump host of that name, at most until `until`: RK_UNREACHABLE or RK_CANCELLED then. Every enter that gives 0
 * needs its leave. */
struct rk_ssh_gate;
int rk_ssh_gate_enter(const char *name, int64_t until, const volatile int *cancel, struct rk_ssh_gate **ret, struct rk_err *err);
void rk_ssh_gate_leave(struct rk_ssh_gate *gate);

/* A command line (argv, quoted) becomes one that ends, with all that it started, when its channel is closed from our side. Its input is empty: the
 * channel's is for the watcher. */
void rk_ssh_tie(struct rk_str *command);

/* What holds for all sessions of one rk_ssh_open. */
struct rk_ssh_terms {
	struct rk_ssh_limits limits; /* none of them is 0 but total_ms */
	int64_t until;               /* end of everything; INT64_MAX without a limit */
	struct rk_trace *trace;
	const volatile int *cancel;
};
/* One session, through `via` when there is one. On success `via` belongs to *ret; on failure it stays the caller's. */
int rk_ssh_open_one(const struct rk_ssh_target *target, struct rk_ssh *via, const struct rk_ssh_terms *terms, struct rk_ssh **ret, struct rk_err *err);
/* A session on the last one of target->jump. */
int rk_ssh_open_jump(const struct rk_ssh_target *target, const struct rk_ssh_terms *terms, struct rk_ssh **ret, struct rk_err *err);
