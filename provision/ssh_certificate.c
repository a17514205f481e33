/* Hosts that only a certificate authority vouches for. libssh can neither ask for a host's certificate nor check one: it is fetched with the beginning
 * of an exchange of our own, judged here, and what it proves is a key. That the host has it is proven as always, by libssh's key exchange. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "inventory/base/clock.h"
#include "inventory/base/map.h"
#include "provision/host_cert.h"
#include "provision/ssh_hello.h"
#include "provision/ssh_impl.h"

/* Certificates that were good when they came, for as long as the process runs: a host is asked once and not before each session. They are judged anew
 * each time, so what is trusted comes from known_hosts and the clock of that moment. */
static struct {
	pthread_mutex_t lock;
	struct rk_map *names;         /* "user@host:port via ..." -> index */
	struct rk_str *items;
	size_t n, cap;
} kept = { PTHREAD_MUTEX_INITIALIZER, NULL, NULL, 0, 0 };

static void keep(const char *name, const struct rk_str *bytes)
{
	size_t at;

	pthread_mutex_lock(&kept.lock);
	if (!kept.names)
		kept.names = rk_map_new();
	if (!rk_map_get(kept.names, name, &at)) {
		at = kept.n;
		rk_map_set(kept.names, name, at);
		(void)rk_vec_push(&kept);
	}
	rk_str_reset(&kept.items[at]);
	rk_str_addn(&kept.items[at], bytes->text, bytes->len);
	pthread_mutex_unlock(&kept.lock);
}

static bool recall(const char *name, struct rk_str *ret)
{
	size_t at;

	pthread_mutex_lock(&kept.lock);
	bool found = kept.names && rk_map_get(kept.names, name, &at);
	if (found)
		rk_str_addn(ret, kept.items[at].text, kept.items[at].len);
	pthread_mutex_unlock(&kept.lock);
	return found;
}

static void trace(struct rk_ssh *ssh, const struct rk_host_cert *cert, const struct rk_host_key *key, struct rk_arena *arena)
{
	const char *name = rk_host_cert_name(cert, arena);

	rk_trace_add(ssh->trace, "ssh", ssh->name, rk_arena_printf(arena, "certificate %s of the host, by the authority of %s, line %zu", name, key->file, key->line));
}

/* From now on the key that the certificate proves is the one that the host must show. */
static void trust_only(struct rk_ssh_opening *open, const struct rk_host_key *key)
{
	struct rk_host_keys keys = { 0 };

	rk_host_keys_add(&keys, key, open->arena);
	for (size_t i = 0; i < open->keys.n; i++)
		if (open->keys.items[i].mark != RK_HOST_KEY_KNOWN)
			rk_host_keys_add(&keys, &open->keys.items[i], open->arena);
	open->keys = keys;
	open->certified = true;
}

static int judge(struct rk_ssh *ssh, struct rk_ssh_opening *open, const struct rk_str *bytes, struct rk_err *err)
{
	struct rk_host_cert cert;
	struct rk_host_key key;
	int rc = rk_host_cert_parse((struct rk_bytes){ (const uint8_t *)rk_str_text(bytes), bytes->len }, &cert, err);

	if (rc) {
		rk_err_while(err, "ssh %s: host key: what the host shows as its certificate", ssh->name);
		return RK_UNREACHABLE;
	}
	rc = rk_host_cert_judge(&cert, open->target->host, rk_clock_unix_ms(NULL) / 1000, &open->keys, open->arena, &key, err);
	if (rc) {
		rk_err_while(err, "ssh %s: host key", ssh->name);
		return rc;
	}
	trace(ssh, &cert, &key, open->arena);
	trust_only(open, &key);
	return 0;
}

bool rk_ssh_certificate_kept(struct rk_ssh *ssh, struct rk_ssh_opening *open)
{
	struct rk_str bytes RK_CLEANUP_STR = RK_STR_INIT;

	return recall(ssh->name, &bytes) && judge(ssh, open, &bytes, NULL) == 0;
}

/* Hands on what the socket takes now. */
static bool send_some(int fd, struct rk_str *out)
{
	ssize_t n = out->len ? send(fd, out->text, out->len, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n > 0)
		memmove(out->text, out->text + n, out->len -= (size_t)n);
	return true;
}

static int lost(struct rk_ssh *ssh, struct rk_ssh_opening *open, const char *why, struct rk_err *err)
{
	open->retry = true;
	return rk_ssh_unreachable(ssh, "key exchange", why, err);
}

static int converse(struct rk_ssh *ssh, struct rk_ssh_opening *open, int fd, struct rk_ssh_hello *hello, struct rk_err *err)
{
	char bytes[8192];
	int rc = 0;

	while (!rc && hello->stage != RK_SSH_HELLO_DONE) {
		if (!send_some(fd, &hello->out))
			return lost(ssh, open, strerror(errno), err);
		ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (n > 0)
			rc = rk_ssh_hello_take(hello, bytes, (size_t)n, err);
		else if (n == 0)
			return lost(ssh, open, "the host closed the connection", err);
		else if (errno != EAGAIN && errno != EINTR)
			return lost(ssh, open, strerror(errno), err);
		else if ((rc = rk_ssh_wait_fd(ssh, fd, POLLIN | (hello->out.len ? POLLOUT : 0), open->connect_until, "key exchange", err)) != 0)
			return rc;
	}
	if (rc == RK_UNREACHABLE)
		rk_err_while(err, "ssh %s: key exchange", ssh->name);
	return rc;
}

/* An authority vouches for hosts by certificates: one without cannot be told from anybody. */
static int no_certificate(struct rk_ssh *ssh, const struct rk_ssh_opening *open, struct rk_err *err)
{
	const struct rk_host_key *by = open->keys.items;

	while (by->mark != RK_HOST_KEY_AUTHORITY)
		by++;
	rk_err_set(err, RK_UNREACHABLE, "ssh %s: host key: the host offers no certificate (ed25519, ECDSA or RSA) for the authority of %s, line %zu", ssh->name, by->file,
		   by->line);
	rk_err_hint(err, "sign its key (ssh-keygen -h -s AUTHORITY -I NAME -n %s KEY.pub) and name the certificate as HostCertificate in its sshd_config",
		    open->target->host);
	return RK_UNREACHABLE;
}

int rk_ssh_certificate_fetch(struct rk_ssh *ssh, struct rk_ssh_opening *open, struct rk_err *err)
{
	struct rk_ssh_hello hello RK_CLEANUP(rk_ssh_hello_clear);
	int fd RK_CLEANUP_FD = -1, rc;

	rk_ssh_hello_begin(&hello, RK_SSH_CIPHERS, RK_SSH_MACS);
	rc = ssh->via ? rk_ssh_carry_to(ssh, open, &fd, err) : rk_ssh_connect(ssh, open, &fd, err);
	if (!rc)
		rc = converse(ssh, open, fd, &hello, err);
	if (rc == RK_NOT_FOUND)
		rc = no_certificate(ssh, open, err);
	if (!rc && (rc = judge(ssh, open, &hello.key, err)) == 0)
		keep(ssh->name, &hello.key);
	return rc;
}
