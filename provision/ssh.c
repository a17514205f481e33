/* The only file that includes libssh. Sessions run non-blocking; every phase has its own deadline, because a daemon that hangs answers
 * TCP and nothing else. libssh's own configuration and known_hosts reading is off: what is trusted is decided here. */
#include "provision/ssh.h"

#include <errno.h>
#include <fcntl.h>
#include <libssh/callbacks.h>
#include <libssh/libssh.h>
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inventory/base/clock.h"
#include "inventory/base/file.h"
#include "provision/deadline.h"
#include "inventory/base/digest.h"
#include "provision/known_hosts.h"

enum { SLICE_MS = 200, TRIES = 3, COMMAND_MAX = 120 << 10, KNOWN_HOSTS_MAX = 32 << 20, WRITE_CHUNK = 32 << 10 };

#define KEX "curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256,ecdh-sha2-nistp384,ecdh-sha2-nistp521," \
	    "diffie-hellman-group16-sha512,diffie-hellman-group18-sha512"
#define CIPHERS "chacha20-poly1305@openssh.com,aes256-gcm@openssh.com,aes128-gcm@openssh.com,aes256-ctr,aes192-ctr,aes128-ctr"
#define MACS "hmac-sha2-256-etm@openssh.com,hmac-sha2-512-etm@openssh.com,hmac-sha2-256,hmac-sha2-512"
#define USER_KEYS "ssh-ed25519-cert-v01@openssh.com,ecdsa-sha2-nistp256-cert-v01@openssh.com,rsa-sha2-512-cert-v01@openssh.com," \
		  "ssh-ed25519,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521,rsa-sha2-512,rsa-sha2-256"

struct rk_ssh {
	ssh_session session;
	ssh_event event;             /* pumps packets once the session is up */
	int fd;                      /* our duplicate: libssh closes its own whenever it likes */
	struct rk_trace *trace;
	const volatile int *cancel;
	struct rk_ssh_limits limits;
	char *name;                  /* "user@host:port" for messages and the trace */
	bool broken;                 /* the transport failed; nothing more will be sent */
};

/* What one open needs in all its phases. */
struct open_ctx {
	const struct rk_ssh_target *target;
	struct rk_arena *arena;
	struct rk_host_keys keys;
	const char *user;
	int port;
	int64_t connect_until;
	bool retry;                  /* the server dropped us before the key exchange: likely MaxStartups */
};

static struct rk_ssh_limits limits_or_default(const struct rk_ssh_limits *given)
{
	struct rk_ssh_limits l = given ? *given : (struct rk_ssh_limits){ 0 };

	l.connect_ms = l.connect_ms > 0 ? l.connect_ms : 10000;
	l.auth_ms = l.auth_ms > 0 ? l.auth_ms : 10000;
	l.idle_ms = l.idle_ms > 0 ? l.idle_ms : 60000;
	l.total_ms = l.total_ms > 0 ? l.total_ms : 120000;
	l.output_max = l.output_max ? l.output_max : (size_t)16 << 20;
	return l;
}

static int unreachable(struct rk_ssh *ssh, const char *phase, const char *why, struct rk_err *err)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	rk_str_add_escaped(&text, why, strnlen(why, 500));
	return rk_err_set(err, RK_UNREACHABLE, "ssh %s: %s: %s", ssh->name, phase, rk_str_text(&text));
}

static int cancelled(struct rk_err *err)
{
	return rk_err_set(err, RK_CANCELLED, "cancelled");
}

/* One slice of waiting for fd. 0 = look again, else the class. */
static int wait_fd(struct rk_ssh *ssh, int fd, short events, int64_t until, const char *phase, struct rk_err *err)
{
	int64_t left = until - rk_clock_ms(NULL);
	struct pollfd p = { fd, events, 0 };

	if (ssh->cancel && *ssh->cancel)
		return cancelled(err);
	if (left <= 0)
		return unreachable(ssh, phase, "timed out", err);
	(void)!poll(&p, fd >= 0 ? 1 : 0, left < SLICE_MS ? (int)left : SLICE_MS);
	return 0;
}

static int wait_session(struct rk_ssh *ssh, int64_t until, const char *phase, struct rk_err *err)
{
	int flags = ssh_get_poll_flags(ssh->session);

	return wait_fd(ssh, ssh->fd, POLLIN | (flags & SSH_WRITE_PENDING ? POLLOUT : 0), until, phase, err);
}

/* --- resolve and connect ------------------------------------------------------------------------------------------------------- */

struct resolve {
	char *host, port[8];
	struct addrinfo *list;
	int rc;
};

static void resolve_run(void *ctx)
{
	struct resolve *r = ctx;
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };

	r->rc = getaddrinfo(r->host, r->port, &hints, &r->list);
	if (r->rc == 0)
		return;
	hints.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV;
	r->rc = getaddrinfo(r->host, r->port, &hints, &r->list);
}

static void resolve_free(void *ctx)
{
	struct resolve *r = ctx;

	if (r->list)
		freeaddrinfo(r->list);
	free(r->host);
	free(r);
}

static bool is_numeric(const char *host)
{
	struct in6_addr addr;

	return inet_pton(AF_INET, host, &addr) == 1 || inet_pton(AF_INET6, host, &addr) == 1;
}

/* getaddrinfo cannot be interrupted: names go through a thread with a deadline, addresses need none. */
static int resolve(struct rk_ssh *ssh, const struct open_ctx *open, struct resolve **ret, struct rk_err *err)
{
	struct resolve *r = rk_xcalloc(1, sizeof(*r));
	int64_t left = open->connect_until - rk_clock_ms(NULL);

	r->host = rk_xstrdup(open->target->host);
	snprintf(r->port, sizeof(r->port), "%d", open->port);
	if (is_numeric(r->host)) {
		resolve_run(r);
	} else if (rk_deadline_run(resolve_run, resolve_free, r, left > 0 ? (int)left : 1, ssh->cancel, err) != 0) {
		return err && err->rc == RK_CANCELLED ? RK_CANCELLED : unreachable(ssh, "resolve", "timed out", err);
	}
	if (r->rc != 0) {
		int rc = unreachable(ssh, "resolve", gai_strerror(r->rc), err);
		resolve_free(r);
		return rc;
	}
	*ret = r;
	return 0;
}

static int connect_one(struct rk_ssh *ssh, const struct addrinfo *a, int64_t until, int *ret_fd, struct rk_err *err)
{
	int fd RK_CLEANUP_FD = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol), one = 1, rc, error = 0;
	socklen_t size = sizeof(error);
	struct pollfd p = { fd, POLLOUT, 0 };

	if (fd < 0)
		return unreachable(ssh, "connect", strerror(errno), err);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS)
		return unreachable(ssh, "connect", strerror(errno), err);
	while (poll(&p, 1, 0) < 1)
		if ((rc = wait_fd(ssh, fd, POLLOUT, until, "connect", err)) != 0)
			return rc;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error)
		return unreachable(ssh, "connect", strerror(error ? error : errno), err);
	*ret_fd = fd;
	fd = -1;
	return 0;
}

/* Each address gets an equal share of what is left, so that a dead IPv6 route does not eat the whole time. */
static int connect_any(struct rk_ssh *ssh, const struct open_ctx *open, const struct addrinfo *list, int *ret_fd, struct rk_err *err)
{
	int left = 0, rc = RK_UNREACHABLE;

	for (const struct addrinfo *a = list; a; a = a->ai_next)
		left++;
	for (const struct addrinfo *a = list; a; a = a->ai_next, left--) {
		int64_t now = rk_clock_ms(NULL);
		rc = connect_one(ssh, a, now + (open->connect_until - now) / left, ret_fd, err);
		if (rc == 0 || rc == RK_CANCELLED)
			return rc;
	}
	return rc;
}

/* --- key exchange and host key ------------------------------------------------------------------------------------------------- */

static const char *default_known_hosts(struct rk_arena *arena)
{
	const char *home = getenv("HOME");

	return rk_arena_printf(arena, "%s/.ssh/known_hosts /etc/ssh/ssh_known_hosts", home ? home : "");
}

static int unknown_host(struct rk_ssh *ssh, const struct open_ctx *open, const char *files, struct rk_err *err)
{
	rk_err_set(err, RK_UNREACHABLE, "ssh %s: host key: the host is not in \"%s\"", ssh->name, files);
	rk_err_hint(err, "ssh-keyscan -t ed25519 -p %d %s prints its key: compare the fingerprint on the console of the host, then add the line to the file",
		    open->port, open->target->host);
	return RK_UNREACHABLE;
}

/* Adds what one file says of the host; a file that is not there says nothing. */
static int add_known(struct rk_ssh *ssh, struct open_ctx *open, const char *file, struct rk_err *err)
{
	char *text RK_CLEANUP_FREE = NULL;
	size_t len = 0;
	int rc = rk_file_read(file, KNOWN_HOSTS_MAX, &text, &len, err);

	if (rc == RK_NOT_FOUND)
		return 0;
	if (rc != 0)
		return rk_err_while(err, "ssh %s: known hosts", ssh->name);
	struct rk_host_keys found = rk_known_hosts_find(text, len, open->target->host, open->port, open->arena);
	struct rk_host_key *all = rk_arena_array(open->arena, open->keys.n + found.n + 1, sizeof(*all));
	if (open->keys.n)
		memcpy(all, open->keys.items, open->keys.n * sizeof(*all));
	if (found.n)
		memcpy(all + open->keys.n, found.items, found.n * sizeof(*all));
	open->keys = (struct rk_host_keys){ all, open->keys.n + found.n };
	return 0;
}

/* Which keys may this host show? */
static int trusted_keys(struct rk_ssh *ssh, struct open_ctx *open, struct rk_err *err)
{
	if (open->target->host_key) {
		open->keys = (struct rk_host_keys){ rk_arena_alloc(open->arena, sizeof(*open->keys.items)), 1 };
		if (!rk_host_key_parse(open->target->host_key, open->arena, open->keys.items))
			return rk_err_set(err, RK_INVALID, "ssh %s: the pinned host key is no public key", ssh->name);
		return 0;
	}
	const char *files = open->target->known_hosts ? open->target->known_hosts : default_known_hosts(open->arena);
	char *rest = rk_arena_strdup(open->arena, files);
	int rc = 0;
	for (char *file; !rc && (file = strsep(&rest, " ")) != NULL;)
		rc = *file ? add_known(ssh, open, file, err) : 0;
	if (rc != 0)
		return rc;
	for (size_t i = 0; i < open->keys.n; i++)
		if (!open->keys.items[i].revoked)
			return 0;
	return unknown_host(ssh, open, files, err);
}

/* Asking only for key types that we know a key of, else a server with several keys shows one that we cannot judge. */
static const char *host_key_algorithms(const struct open_ctx *open)
{
	struct rk_str list RK_CLEANUP_STR = RK_STR_INIT;

	for (size_t i = 0; i < open->keys.n; i++) {
		const char *type = open->keys.items[i].type;
		if (open->keys.items[i].revoked || (list.text && strstr(list.text, type)))
			continue;
		rk_str_addf(&list, "%s%s", list.len ? "," : "", rk_streq(type, "ssh-rsa") ? "rsa-sha2-512,rsa-sha2-256" : type);
	}
	return rk_arena_strdup(open->arena, rk_str_text(&list));
}

static int set_options(struct rk_ssh *ssh, const struct open_ctx *open, int fd, struct rk_err *err)
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
		{ SSH_OPTIONS_HOSTKEYS, host_key_algorithms(open) },
		{ SSH_OPTIONS_PUBLICKEY_ACCEPTED_TYPES, USER_KEYS },
		{ SSH_OPTIONS_CIPHERS_C_S, CIPHERS },
		{ SSH_OPTIONS_CIPHERS_S_C, CIPHERS },
		{ SSH_OPTIONS_HMAC_C_S, MACS },
		{ SSH_OPTIONS_HMAC_S_C, MACS },
	};

	for (size_t i = 0; i < RK_ARRAY_SIZE(options); i++)
		if (ssh_options_set(ssh->session, options[i].option, options[i].value) != SSH_OK)
			return rk_err_set(err, RK_INVALID, "ssh %s: setting %zu was not accepted: %s", ssh->name, i, ssh_get_error(ssh->session));
	return 0;
}

static int check_host_key(struct rk_ssh *ssh, const struct open_ctx *open, struct rk_err *err)
{
	ssh_key key = NULL;
	char *blob = NULL, *print = NULL;
	unsigned char *hash = NULL;
	size_t hash_len = 0;
	bool good = false, revoked = false;

	if (ssh_get_server_publickey(ssh->session, &key) != SSH_OK || ssh_pki_export_pubkey_base64(key, &blob) != SSH_OK) {
		ssh_key_free(key);
		return unreachable(ssh, "host key", "none was shown", err);
	}
	for (size_t i = 0; i < open->keys.n; i++) {
		bool same = rk_streq(open->keys.items[i].blob, blob);
		good |= same && !open->keys.items[i].revoked;
		revoked |= same && open->keys.items[i].revoked;
	}
	if (!good || revoked) {
		if (ssh_get_publickey_hash(key, SSH_PUBLICKEY_HASH_SHA256, &hash, &hash_len) == SSH_OK)
			print = ssh_get_fingerprint_hash(SSH_PUBLICKEY_HASH_SHA256, hash, hash_len);
		rk_err_set(err, RK_UNREACHABLE, "ssh %s: host key: %s (it shows %s)", ssh->name,
			   revoked ? "the key is revoked" : "not the key that is known: reinstalled, or somebody in between", print ? print : "an odd key");
		rk_err_hint(err, "find out why before you replace the known key");
	}
	ssh_clean_pubkey_hash(&hash);
	ssh_string_free_char(print);
	ssh_string_free_char(blob);
	ssh_key_free(key);
	return good && !revoked ? 0 : RK_UNREACHABLE;
}

static int key_exchange(struct rk_ssh *ssh, struct open_ctx *open, int fd, struct rk_err *err)
{
	int rc;

	ssh->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	ssh->session = ssh_new();
	if (ssh->fd < 0 || !ssh->session) {
		close(fd);
		return unreachable(ssh, "connect", "no descriptor is left", err);
	}
	/* From here libssh owns fd. */
	if ((rc = set_options(ssh, open, fd, err)) != 0)
		return rc;
	ssh_set_blocking(ssh->session, 0);
	for (;;) {
		rc = ssh_connect(ssh->session);
		if (rc == SSH_OK)
			break;
		if (rc == SSH_ERROR) {
			open->retry = true;
			return unreachable(ssh, "key exchange", ssh_get_error(ssh->session), err);
		}
		if ((rc = wait_session(ssh, open->connect_until, "key exchange", err)) != 0)
			return rc;
	}
	return check_host_key(ssh, open, err);
}

/* --- authentication ------------------------------------------------------------------------------------------------------------ */

static int auth_loop(struct rk_ssh *ssh, ssh_key key, int64_t until, int *ret, struct rk_err *err)
{
	for (;;) {
		int rc = key ? ssh_userauth_publickey(ssh->session, NULL, key) : ssh_userauth_agent(ssh->session, NULL);
		if (rc != SSH_AUTH_AGAIN) {
			*ret = rc;
			return 0;
		}
		if ((rc = wait_session(ssh, until, "authentication", err)) != 0)
			return rc;
	}
}

static int auth_file(struct rk_ssh *ssh, const char *file, struct rk_arena *arena, int64_t until, int *ret, struct rk_err *err)
{
	ssh_key key = NULL;

	if (ssh_pki_import_privkey_file(file, NULL, NULL, NULL, &key) != SSH_OK) {
		rk_err_set(err, RK_UNREACHABLE, "ssh %s: authentication: the key \"%s\" cannot be read", ssh->name, file);
		rk_err_hint(err, "it must exist, be readable for you and have no passphrase; keys with one belong into the agent");
		return RK_UNREACHABLE;
	}
	ssh_key cert = NULL;
	/* OpenSSH's convention: FILE-cert.pub is the certificate of FILE. */
	const char *beside = rk_arena_printf(arena, "%s-cert.pub", file);
	if (access(beside, R_OK) == 0 && ssh_pki_import_cert_file(beside, &cert) == SSH_OK)
		(void)!ssh_pki_copy_cert_to_privkey(cert, key);
	int rc = auth_loop(ssh, key, until, ret, err);
	ssh_key_free(cert);
	ssh_key_free(key);
	return rc;
}

static int authenticate(struct rk_ssh *ssh, const struct open_ctx *open, struct rk_err *err)
{
	int64_t until = rk_clock_ms(NULL) + ssh->limits.auth_ms;
	const char *file = open->target->identity_file, *home = getenv("HOME");
	int rc = 0, result = SSH_AUTH_DENIED;

	if (!file && getenv("SSH_AUTH_SOCK") && (rc = auth_loop(ssh, NULL, until, &result, err)) != 0)
		return rc;
	if (!file && result != SSH_AUTH_SUCCESS && home) {
		const char *usual = rk_arena_printf(open->arena, "%s/.ssh/id_ed25519", home);
		file = access(usual, R_OK) == 0 ? usual : NULL;
	}
	if (file && result != SSH_AUTH_SUCCESS && (rc = auth_file(ssh, file, open->arena, until, &result, err)) != 0)
		return rc;
	if (result == SSH_AUTH_SUCCESS)
		return 0;
	if (!ssh_is_connected(ssh->session))
		return unreachable(ssh, "authentication", ssh_get_error(ssh->session), err);
	rk_err_set(err, RK_UNREACHABLE, "ssh %s: authentication: the public key was not accepted (%s)", ssh->name, file ? file : "agent");
	rk_err_hint(err, "name a key with ssh.identityFile in the site file, or load one into the agent");
	return RK_UNREACHABLE;
}

/* --- open and close ------------------------------------------------------------------------------------------------------------ */

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
	if (ssh->fd >= 0)
		close(ssh->fd);
	ssh->fd = -1;
}

void rk_ssh_close(struct rk_ssh *ssh)
{
	if (!ssh)
		return;
	drop_session(ssh);
	free(ssh->name);
	free(ssh);
}

static void cleanup_ssh(struct rk_ssh **ssh)
{
	rk_ssh_close(*ssh);
}

static int open_once(struct rk_ssh *ssh, struct open_ctx *open, struct rk_err *err)
{
	struct resolve *found = NULL;
	int fd = -1, rc = resolve(ssh, open, &found, err);

	if (rc != 0)
		return rc;
	rc = connect_any(ssh, open, found->list, &fd, err);
	resolve_free(found);
	if (rc != 0 || (rc = key_exchange(ssh, open, fd, err)) != 0 || (rc = authenticate(ssh, open, err)) != 0)
		return rc;
	ssh->event = ssh_event_new();
	if (!ssh->event || ssh_event_add_session(ssh->event, ssh->session) != SSH_OK)
		return unreachable(ssh, "connect", "no event loop", err);
	return 0;
}

/* sshd drops connections early when many arrive at once (MaxStartups): come back a little later, not all at the same time. */
static int open_retrying(struct rk_ssh *ssh, struct open_ctx *open, struct rk_err *err)
{
	for (int try = 1;; try++) {
		open->retry = false;
		int rc = open_once(ssh, open, err);
		if (rc == 0 || !open->retry || try == TRIES)
			return rc;
		drop_session(ssh);
		unsigned char jitter = 0;
		(void)!getrandom(&jitter, 1, 0);
		int64_t until = rk_clock_ms(NULL) + 50 * try + jitter;
		if (until >= open->connect_until)
			return rc;
		while (rk_clock_ms(NULL) < until)
			if (wait_fd(ssh, -1, 0, until, "key exchange", err) == RK_CANCELLED)
				return RK_CANCELLED;
	}
}

static const char *own_name(struct rk_arena *arena)
{
	struct passwd entry, *found = NULL;
	char buf[4096];

	if (getpwuid_r(geteuid(), &entry, buf, sizeof(buf), &found) != 0 || !found)
		return "root";
	return rk_arena_strdup(arena, entry.pw_name);
}

int rk_ssh_open(const struct rk_ssh_target *target, const struct rk_ssh_limits *limits, struct rk_trace *trace, const volatile int *cancel,
		struct rk_ssh **ret, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_ssh *ssh RK_CLEANUP(cleanup_ssh) = rk_xcalloc(1, sizeof(*ssh));
	struct open_ctx open = { .target = target, .arena = arena, .port = target->port > 0 ? target->port : 22 };

	ssh->fd = -1;
	ssh->trace = trace;
	ssh->cancel = cancel;
	ssh->limits = limits_or_default(limits);
	open.user = target->user ? target->user : own_name(arena);
	open.connect_until = rk_clock_ms(NULL) + ssh->limits.connect_ms;
	ssh->name = rk_xasprintf(strchr(target->host, ':') ? "%s@[%s]:%d" : "%s@%s:%d", open.user, target->host, open.port);
	int rc = trusted_keys(ssh, &open, err);
	if (rc != 0 || (rc = open_retrying(ssh, &open, err)) != 0) {
		ssh->broken = true;
		return rc;
	}
	*ret = rk_steal(&ssh);
	return 0;
}

/* --- commands ------------------------------------------------------------------------------------------------------------------ */

struct run {
	struct rk_ssh *ssh;
	ssh_channel channel;
	struct ssh_channel_callbacks_struct callbacks;
	const char *input;
	size_t input_len, sent;
	bool eof_sent, ended;
	struct rk_ssh_result *result;
	int64_t idle_until, total_until;
};

static void on_exit_status(ssh_session session, ssh_channel channel, int status, void *ctx)
{
	struct run *run = ctx;

	(void)session;
	(void)channel;
	run->result->status = status;
	run->ended = true;
}

static void on_exit_signal(ssh_session session, ssh_channel channel, const char *name, int core, const char *message, const char *lang, void *ctx)
{
	static const char *const known[] = { "ABRT", "ALRM", "FPE", "HUP", "ILL", "INT", "KILL", "PIPE", "QUIT", "SEGV", "TERM", "USR1", "USR2" };
	struct run *run = ctx;

	(void)session;
	(void)channel;
	(void)core;
	(void)message;
	(void)lang;
	run->result->signal = "unknown";
	for (size_t i = 0; i < RK_ARRAY_SIZE(known); i++)
		if (rk_streq(name, known[i]))
			run->result->signal = known[i];
	run->ended = true;
}

static void run_end(struct run *run)
{
	if (!run->channel)
		return;
	ssh_remove_channel_callbacks(run->channel, &run->callbacks);
	ssh_channel_free(run->channel);
	run->channel = NULL;
}

/* busy: something moved just now, so only look, do not wait. */
static int run_wait(struct run *run, bool busy, struct rk_err *err)
{
	struct rk_ssh *ssh = run->ssh;
	int64_t now = rk_clock_ms(NULL), until = run->idle_until < run->total_until ? run->idle_until : run->total_until;

	if (ssh->cancel && *ssh->cancel)
		return cancelled(err);
	if (now >= until)
		return rk_err_set(err, RK_UNREACHABLE, "ssh %s: command: timed out after %d s%s; its outcome is not known", ssh->name,
				  (until == run->total_until ? ssh->limits.total_ms : ssh->limits.idle_ms) / 1000,
				  until == run->total_until ? "" : " of silence");
	/* Waiting is done here: inside libssh a wish to write that came up in a callback does not wake the poll. */
	int64_t left = until - now;
	struct pollfd p = { ssh->fd, POLLIN | (ssh_get_poll_flags(ssh->session) & SSH_WRITE_PENDING ? POLLOUT : 0), 0 };
	(void)!poll(&p, 1, busy ? 0 : left < SLICE_MS ? (int)left : SLICE_MS);
	if (ssh_event_dopoll(ssh->event, 0) == SSH_ERROR || !ssh_is_connected(ssh->session)) {
		/* Data that came with the last packets is still to be read; the loop sees the closed channel next. */
		if (ssh_channel_poll(run->channel, 0) > 0 || ssh_channel_poll(run->channel, 1) > 0 || run->ended)
			return 0;
		ssh->broken = true;
		return rk_err_set(err, RK_UNREACHABLE, "ssh %s: command: the connection was lost; its outcome is not known", ssh->name);
	}
	return 0;
}

/* Repeats a channel request until it is answered. */
static int run_request(struct run *run, int (*request)(ssh_channel, const char *), const char *arg, const char *what, struct rk_err *err)
{
	for (;;) {
		int rc = request(run->channel, arg);
		if (rc == SSH_OK)
			return 0;
		if (rc != SSH_AGAIN) {
			run->ssh->broken = !ssh_is_connected(run->ssh->session);
			return unreachable(run->ssh, what, ssh_get_error(run->ssh->session), err);
		}
		if ((rc = run_wait(run, false, err)) != 0)
			return rc;
	}
}

static int request_session(ssh_channel channel, const char *unused)
{
	(void)unused;
	return ssh_channel_open_session(channel);
}

static bool push_input(struct run *run)
{
	bool moved = false;

	while (run->sent < run->input_len) {
		uint32_t window = ssh_channel_window_size(run->channel);
		size_t left = run->input_len - run->sent, n = left < WRITE_CHUNK ? left : WRITE_CHUNK;
		if (window < n)
			n = window;
		/* Only whole windows and an idle socket: libssh would queue without limit otherwise. */
		if (!n || ssh_get_poll_flags(run->ssh->session) & SSH_WRITE_PENDING)
			return moved;
		int rc = ssh_channel_write(run->channel, run->input + run->sent, (uint32_t)n);
		if (rc <= 0)
			return moved;
		run->sent += (size_t)rc;
		moved = true;
	}
	if (!run->eof_sent) {
		ssh_channel_send_eof(run->channel);
		run->eof_sent = true;
	}
	return moved;
}

/* Reads what is there. A stream past its limit is still drained: a full window would stop the other one. */
static bool drain(struct run *run, int is_stderr)
{
	struct rk_str *out = is_stderr ? &run->result->err : &run->result->out;
	char buf[16384];
	bool moved = false;

	for (;;) {
		int n = ssh_channel_read_nonblocking(run->channel, buf, sizeof(buf), is_stderr);
		if (n <= 0)
			return moved;
		moved = true;
		size_t room = run->ssh->limits.output_max - out->len, take = (size_t)n < room ? (size_t)n : room;
		rk_str_addn(out, buf, take);
		run->result->truncated |= take < (size_t)n;
	}
}

static int run_loop(struct run *run, struct rk_err *err)
{
	for (;;) {
		bool moved = push_input(run);
		moved |= drain(run, 0);
		moved |= drain(run, 1);
		if (moved)
			run->idle_until = rk_clock_ms(NULL) + run->ssh->limits.idle_ms;
		if (ssh_channel_is_closed(run->channel) || (run->ended && ssh_channel_is_eof(run->channel)))
			break;
		int rc = run_wait(run, moved, err);
		if (rc != 0)
			return rc;
	}
	drain(run, 0);
	drain(run, 1);
	if (run->ended || ssh_is_connected(run->ssh->session))
		return 0;
	run->ssh->broken = true;
	return rk_err_set(err, RK_UNREACHABLE, "ssh %s: command: the connection was lost; its outcome is not known", run->ssh->name);
}

static int run_command(struct run *run, const char *command, struct rk_err *err)
{
	int rc;

	run->channel = ssh_channel_new(run->ssh->session);
	if (!run->channel)
		return unreachable(run->ssh, "session", ssh_get_error(run->ssh->session), err);
	ssh_callbacks_init(&run->callbacks);
	run->callbacks.userdata = run;
	run->callbacks.channel_exit_status_function = on_exit_status;
	run->callbacks.channel_exit_signal_function = on_exit_signal;
	ssh_set_channel_callbacks(run->channel, &run->callbacks);
	if ((rc = run_request(run, request_session, NULL, "session", err)) != 0 ||
	    (rc = run_request(run, ssh_channel_request_exec, command, "command", err)) != 0)
		return rc;
	rc = run_loop(run, err);
	if (rc != 0 && !run->ssh->broken)
		ssh_channel_request_send_signal(run->channel, "TERM");
	return rc;
}

static void trace_result(struct rk_ssh *ssh, const struct rk_ssh_result *result, int rc)
{
	if (!ssh->trace)
		return;
	char *text RK_CLEANUP_FREE = rk_xasprintf("-> %s%s%d, %zu bytes out, %zu bytes err%s", rc ? rk_class_name(rc) : result->signal ? "signal " : "status ",
						  rc ? " " : result->signal ? result->signal : "", result->status, result->out.len, result->err.len,
						  result->truncated ? ", truncated" : "");
	rk_trace_add(ssh->trace, "ssh", ssh->name, text);
}

int rk_ssh_run(struct rk_ssh *ssh, const char *const *argv, const char *input, size_t input_len, struct rk_ssh_result *result, struct rk_err *err)
{
	struct rk_str command RK_CLEANUP_STR = RK_STR_INIT;
	int64_t now = rk_clock_ms(NULL);
	struct run run = { .ssh = ssh, .input = input, .input_len = input_len, .result = result,
			   .idle_until = now + ssh->limits.idle_ms, .total_until = now + ssh->limits.total_ms };

	*result = (struct rk_ssh_result){ RK_STR_INIT, RK_STR_INIT, -1, NULL, false };
	if (ssh->broken)
		return rk_err_set(err, RK_UNREACHABLE, "ssh %s: the connection was lost before", ssh->name);
	for (size_t i = 0; argv[i]; i++) {
		if (i)
			rk_str_addc(&command, ' ');
		rk_shell_quote(&command, argv[i]);
	}
	if (command.len > COMMAND_MAX)
		return rk_err_set(err, RK_INVALID, "ssh %s: a command line of %zu bytes is too long", ssh->name, command.len);
	rk_trace_add(ssh->trace, "ssh", ssh->name, rk_str_text(&command));
	int rc = run_command(&run, rk_str_text(&command), err);
	run_end(&run);
	trace_result(ssh, result, rc);
	return rc;
}

void rk_ssh_limit(struct rk_ssh *ssh, int idle_ms, int total_ms)
{
	ssh->limits.idle_ms = idle_ms;
	ssh->limits.total_ms = total_ms;
}

void rk_ssh_result_clear(struct rk_ssh_result *result)
{
	rk_str_clear(&result->out);
	rk_str_clear(&result->err);
}

/* --- keys ---------------------------------------------------------------------------------------------------------------------- */

static void add_u32(struct rk_str *out, uint32_t v)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		rk_str_addc(out, (char)(v >> shift));
}

static void add_string(struct rk_str *out, const void *bytes, size_t n)
{
	add_u32(out, (uint32_t)n);
	rk_str_addn(out, bytes, n);
}

static void wipe(struct rk_str *s)
{
	if (s->text)
		explicit_bzero(s->text, s->cap);
	rk_str_clear(s);
}

/* The unencrypted "openssh-key-v1" file of an ed25519 key (OpenSSH PROTOCOL.key). libssh's export has no comment, which names the key
 * on the guest. `pair` is seed and public key, 64 bytes. */
static char *private_file(const uint8_t *pair, const char *comment)
{
	static const char type[] = "ssh-ed25519", magic[] = "openssh-key-v1";
	struct rk_str pub = RK_STR_INIT, secret = RK_STR_INIT, all = RK_STR_INIT, text = RK_STR_INIT, file = RK_STR_INIT;
	uint32_t check = 0;

	(void)!getrandom(&check, sizeof(check), 0);
	add_string(&pub, type, strlen(type));
	add_string(&pub, pair + 32, 32);
	add_u32(&secret, check);
	add_u32(&secret, check);
	rk_str_addn(&secret, pub.text, pub.len);
	add_string(&secret, pair, 64);
	add_string(&secret, comment, strlen(comment));
	for (char pad = 1; secret.len % 8; pad++)
		rk_str_addc(&secret, pad);
	rk_str_addn(&all, magic, sizeof(magic));
	add_string(&all, "none", 4);
	add_string(&all, "none", 4);
	add_string(&all, "", 0);
	add_u32(&all, 1);
	add_string(&all, pub.text, pub.len);
	add_string(&all, secret.text, secret.len);
	rk_base64_add(&text, all.text, all.len);
	rk_str_add(&file, "-----BEGIN OPENSSH PRIVATE KEY-----\n");
	for (size_t i = 0; i < text.len; i += 70) {
		rk_str_addn(&file, text.text + i, text.len - i < 70 ? text.len - i : 70);
		rk_str_addc(&file, '\n');
	}
	rk_str_add(&file, "-----END OPENSSH PRIVATE KEY-----\n");
	wipe(&pub);
	wipe(&secret);
	wipe(&all);
	wipe(&text);
	return rk_str_steal(&file);
}

/* Finds seed and public key in libssh's export: the 64-byte string that ends with the public key. */
static bool find_pair(const char *pem, const char *public_base64, uint8_t pair[64])
{
	uint8_t blob[1024], pub[128];
	char packed[1400];
	const char *begin = strchr(pem, '\n'), *end = strstr(pem, "\n-----END");
	size_t n = 0;

	for (const char *p = begin; p && p < end && n < sizeof(packed); p++)
		if (*p != '\n')
			packed[n++] = *p;
	long len = rk_base64_decode(packed, n, blob, sizeof(blob)), pub_len = rk_base64_decode(public_base64, strlen(public_base64), pub, sizeof(pub));
	bool found = false;
	for (long i = 0; pub_len == 51 && i + 68 <= len && !found; i++) {
		found = memcmp(blob + i, "\0\0\0\x40", 4) == 0 && memcmp(blob + i + 36, pub + 19, 32) == 0;
		if (found)
			memcpy(pair, blob + i + 4, 64);
	}
	explicit_bzero(blob, sizeof(blob));
	explicit_bzero(packed, sizeof(packed));
	return found;
}

int rk_ssh_make_key(const char *comment, char **ret_private, char **ret_public, struct rk_err *err)
{
	ssh_key key = NULL;
	char *pem = NULL, *pub = NULL;
	uint8_t pair[64];
	bool made = ssh_pki_generate(SSH_KEYTYPE_ED25519, 0, &key) == SSH_OK && ssh_pki_export_privkey_base64(key, NULL, NULL, NULL, &pem) == SSH_OK &&
		    ssh_pki_export_pubkey_base64(key, &pub) == SSH_OK && find_pair(pem, pub, pair);

	if (made) {
		*ret_private = private_file(pair, comment);
		*ret_public = rk_xasprintf("ssh-ed25519 %s%s%s", pub, *comment ? " " : "", comment);
	}
	explicit_bzero(pair, sizeof(pair));
	if (pem)
		explicit_bzero(pem, strlen(pem));
	ssh_string_free_char(pem);
	ssh_string_free_char(pub);
	ssh_key_free(key);
	return made ? 0 : rk_err_set(err, RK_FAILED, "an ed25519 key could not be made by the SSH library");
}
