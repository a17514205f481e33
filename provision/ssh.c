/* Opening and closing a session. */
#include "provision/ssh.h"

#include <fcntl.h>
#include <libssh/libssh.h>
#include <poll.h>
#include <pwd.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inventory/base/clock.h"
#include "provision/ssh_impl.h"

enum { TRIES = 3 };

#define KEX "curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256,ecdh-sha2-nistp384,ecdh-sha2-nistp521," \
	    "diffie-hellman-group16-sha512,diffie-hellman-group18-sha512"
#define USER_KEYS "ssh-ed25519-cert-v01@openssh.com,ecdsa-sha2-nistp256-cert-v01@openssh.com,rsa-sha2-512-cert-v01@openssh.com," \
		  "ssh-ed25519,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521,rsa-sha2-512,rsa-sha2-256"

static struct rk_ssh_limits limits_or_default(const struct rk_ssh_limits *given)
{
	struct rk_ssh_limits l = given ? *given : (struct rk_ssh_limits){ 0 };

	l.connect_ms = l.connect_ms > 0 ? l.connect_ms : 10000;
	l.auth_ms = l.auth_ms > 0 ? l.auth_ms : 10000;
	l.idle_ms = l.idle_ms > 0 ? l.idle_ms : 60000;
	l.command_ms = l.command_ms > 0 ? l.command_ms : 120000;
	l.output_max = l.output_max ? l.output_max : (size_t)16 << 20;
	return l;
}

int rk_ssh_wait(struct rk_ssh *ssh, int64_t until, const char *phase, struct rk_err *err)
{
	int flags = ssh_get_poll_flags(ssh->session);

	return rk_ssh_wait_fd(ssh, ssh->fd, POLLIN | (flags & SSH_WRITE_PENDING ? POLLOUT : 0), until, phase, err);
}

static int set_options(struct rk_ssh *ssh, const struct rk_ssh_opening *open, const char *host_keys, int fd, struct rk_err *err)
{
	const int no = 0;
	const struct {
		enum ssh_options_e option;
		const void *value;
	} options[] = {
		{ SSH_OPTIONS_PROCESS_CONFIG, &no },
		{ SSH_OPTIONS_HOST, open->target->host },
		{ SSH_OPTIONS_PORT, &open->port },
		{ SSH_OPTIONS_USER, open->user },
		{ SSH_OPTIONS_FD, &fd },
		{ SSH_OPTIONS_KNOWNHOSTS, "/dev/null" },
		{ SSH_OPTIONS_GLOBAL_KNOWNHOSTS, "/dev/null" },
		{ SSH_OPTIONS_KEY_EXCHANGE, KEX },
		{ SSH_OPTIONS_HOSTKEYS, host_keys },
		{ SSH_OPTIONS_PUBLICKEY_ACCEPTED_TYPES, USER_KEYS },
		{ SSH_OPTIONS_CIPHERS_C_S, RK_SSH_CIPHERS },
		{ SSH_OPTIONS_CIPHERS_S_C, RK_SSH_CIPHERS },
		{ SSH_OPTIONS_HMAC_C_S, RK_SSH_MACS },
		{ SSH_OPTIONS_HMAC_S_C, RK_SSH_MACS },
	};

	for (size_t i = 0; i < RK_ARRAY_SIZE(options); i++)
		if (ssh_options_set(ssh->session, options[i].option, options[i].value) != SSH_OK)
			return rk_err_set(err, RK_INVALID, "ssh %s: setting %zu was not accepted: %s", ssh->name, i, ssh_get_error(ssh->session));
	return 0;
}

static int no_exchange(struct rk_ssh *ssh, struct rk_ssh_opening *open, struct rk_err *err)
{
	const char *why = ssh_get_error(ssh->session);
	int rc = rk_ssh_unreachable(ssh, "key exchange", why, err);

	open->retry = open->doubted = true;
	if (strstr(why, "server host key algo"))
		rk_err_hint(err, open->certified ? "its sshd must show the key of its certificate without the certificate, too: add the plain kind to its HostKeyAlgorithms" :
						   "the host has no key of the kind that is known of it (ssh-keyscan prints those that it has): find out why");
	return rc;
}

static int key_exchange(struct rk_ssh *ssh, struct rk_ssh_opening *open, int fd, struct rk_err *err)
{
	const char *host_keys;
	int rc = rk_ssh_host_key_algorithms(ssh, open, &host_keys, err);

	if (rc != 0) {
		close(fd);
		return rc;
	}
	ssh->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	ssh->session = ssh_new();
	if (ssh->fd < 0 || !ssh->session) {
		close(fd);
		return rk_ssh_unreachable(ssh, "connect", "no descriptor is left", err);
	}
	/* From here libssh owns fd. */
	if ((rc = set_options(ssh, open, host_keys, fd, err)) != 0)
		return rc;
	ssh_set_blocking(ssh->session, 0);
	for (;;) {
		rc = ssh_connect(ssh->session);
		if (rc == SSH_OK)
			break;
		if (rc == SSH_ERROR)
			return no_exchange(ssh, open, err);
		if ((rc = rk_ssh_wait(ssh, open->connect_until, "key exchange", err)) != 0)
			return rc;
	}
	return rk_ssh_check_host_key(ssh, open, err);
}

/* Whether libssh closes a descriptor it was given depends on how the session ended. Ours shares its inode, which no other has. */
static void close_left(int fd, int own)
{
	struct stat a, b;

	if (fd >= 0 && own >= 0 && fstat(fd, &a) == 0 && fstat(own, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
		close(fd);
}

static void drop_session(struct rk_ssh *ssh)
{
	if (ssh->event) {
		ssh_event_remove_session(ssh->event, ssh->session);
		ssh_event_free(ssh->event);
		ssh->event = NULL;
	}
	if (ssh->session) {
		int fd = ssh_get_fd(ssh->session);
		if (!ssh->broken)
			ssh_disconnect(ssh->session);
		ssh_free(ssh->session);
		ssh->session = NULL;
		close_left(fd, ssh->fd);
	}
	rk_ssh_carrier_free(ssh);
	if (ssh->fd >= 0)
		close(ssh->fd);
	ssh->fd = -1;
}

void rk_ssh_close(struct rk_ssh *ssh)
{
	while (ssh) {
		struct rk_ssh *via = ssh->via;
		drop_session(ssh);
		free(ssh->name);
		free(ssh);
		ssh = via;
	}
}

static int open_once(struct rk_ssh *ssh, struct rk_ssh_opening *open, struct rk_err *err)
{
	int fd = -1, rc = ssh->via ? rk_ssh_carry_to(ssh, open, &fd, err) : rk_ssh_connect(ssh, open, &fd, err);

	if (rc != 0 || (rc = key_exchange(ssh, open, fd, err)) != 0 || (rc = rk_ssh_authenticate(ssh, open, err)) != 0)
		return rc;
	ssh->event = ssh_event_new();
	if (!ssh->event || ssh_event_add_session(ssh->event, ssh->session) != SSH_OK)
		return rk_ssh_unreachable(ssh, "connect", "no event loop", err);
	return 0;
}

/* sshd drops connections early when many arrive at once (MaxStartups): come back a little later, not all at the same time. */
static int retrying(struct rk_ssh *ssh, struct rk_ssh_opening *open, int (*once)(struct rk_ssh *, struct rk_ssh_opening *, struct rk_err *), struct rk_err *err)
{
	for (int try = 1;; try++) {
		open->retry = open->doubted = false;
		int rc = once(ssh, open, err);
		if (rc == 0 || !open->retry || try == TRIES)
			return rc;
		drop_session(ssh);
		unsigned char jitter = 0;
		(void)!getrandom(&jitter, 1, 0);
		int64_t until = rk_clock_ms(NULL) + 50 * try + jitter;
		if (until >= open->connect_until)
			return rc;
		while (rk_clock_ms(NULL) < until)
			if (rk_ssh_wait_fd(ssh, -1, 0, until, "key exchange", err) == RK_CANCELLED)
				return RK_CANCELLED;
	}
}

/* What the host's certificate proves, after what is known otherwise has not been enough: one that was good before, else the one that it shows. */
static int open_certified(struct rk_ssh *ssh, struct rk_ssh_opening *open, struct rk_err *err)
{
	int rc = RK_UNREACHABLE;

	drop_session(ssh);
	if (rk_ssh_certificate_kept(ssh, open)) {
		rc = retrying(ssh, open, open_once, err);
		if (!rc || !open->doubted)
			return rc;
		drop_session(ssh);
	}
	rc = retrying(ssh, open, rk_ssh_certificate_fetch, err);
	drop_session(ssh);
	return rc ? rc : retrying(ssh, open, open_once, err);
}

/* Neither the key that was shown is known, nor does a certificate speak for it. */
static int neither(const struct rk_ssh *ssh, const struct rk_err *key, const struct rk_err *certificate, struct rk_err *err)
{
	char *prefix RK_CLEANUP_FREE = rk_xasprintf("ssh %s: ", ssh->name);
	size_t skip = rk_starts_with(certificate->message, prefix) ? strlen(prefix) : 0;

	rk_err_set(err, RK_UNREACHABLE, "%s; %s", key->message, certificate->message + skip);
	if (key->hint || certificate->hint)
		rk_err_hint(err, "%s", key->hint ? key->hint : certificate->hint);
	return RK_UNREACHABLE;
}

/* A host is who it says when it shows a key that is known, or has the key of a certificate by an authority, as for ssh. The former costs less. */
static int open_trusted(struct rk_ssh *ssh, struct rk_ssh_opening *open, struct rk_err *err)
{
	bool known = rk_host_keys_have(&open->keys, RK_HOST_KEY_KNOWN);
	struct rk_err first RK_CLEANUP_ERR = RK_ERR_INIT, second RK_CLEANUP_ERR = RK_ERR_INIT;
	int rc = known ? retrying(ssh, open, open_once, &first) : RK_UNREACHABLE;
	bool again = !known || (rc && open->doubted && rk_host_keys_have(&open->keys, RK_HOST_KEY_AUTHORITY));

	if (again)
		rc = open_certified(ssh, open, &second);
	if (again && known && !open->certified && rc == RK_UNREACHABLE)
		return neither(ssh, &first, &second, err);
	if (rc)
		rk_err_move(err, again ? &second : &first);
	return rc;
}

static const char *own_name(struct rk_arena *arena)
{
	struct passwd entry, *found = NULL;
	char buf[4096];

	if (getpwuid_r(geteuid(), &entry, buf, sizeof(buf), &found) != 0 || !found)
		return "root";
	return rk_arena_strdup(arena, entry.pw_name);
}

static char *session_name(const struct rk_ssh_opening *open, const struct rk_ssh *via)
{
	return rk_xasprintf(strchr(open->target->host, ':') ? "%s@[%s]:%d%s%s" : "%s@%s:%d%s%s", open->user, open->target->host, open->port, via ? " via " : "",
			    via ? via->name : "");
}

int rk_ssh_open_one(const struct rk_ssh_target *target, struct rk_ssh *via, const struct rk_ssh_terms *terms, struct rk_ssh **ret, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_ssh *ssh = rk_xcalloc(1, sizeof(*ssh));
	struct rk_ssh_opening open = { .target = target, .arena = arena, .port = target->port > 0 ? target->port : 22 };

	*ssh = (struct rk_ssh){ .fd = -1, .via = via, .trace = terms->trace, .cancel = terms->cancel, .limits = terms->limits, .until = terms->until };
	open.user = target->user ? target->user : own_name(arena);
	open.connect_until = rk_clock_ms(NULL) + ssh->limits.connect_ms;
	ssh->name = session_name(&open, via);
	int rc = rk_ssh_trusted_keys(ssh, &open, err);
	if (rc != 0 || (rc = open_trusted(ssh, &open, err)) != 0) {
		ssh->broken = true;
		drop_session(ssh);
		free(ssh->name);
		free(ssh);
		return rc;
	}
	*ret = ssh;
	return 0;
}

int rk_ssh_open(const struct rk_ssh_target *target, const struct rk_ssh_limits *limits, struct rk_trace *trace, const volatile int *cancel,
		struct rk_ssh **ret, struct rk_err *err)
{
	struct rk_ssh_terms terms = { limits_or_default(limits), INT64_MAX, trace, cancel };
	struct rk_ssh *via = NULL;

	if (terms.limits.total_ms > 0)
		terms.until = rk_clock_ms(NULL) + terms.limits.total_ms;
	int rc = target->jump && *target->jump ? rk_ssh_open_jump(target, &terms, &via, err) : 0;
	if (rc != 0)
		return rc;
	rc = rk_ssh_open_one(target, via, &terms, ret, err);
	if (rc != 0)
		rk_ssh_close(via);
	return rc;
}
