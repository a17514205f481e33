/* Finding a host and reaching its port, each with a deadline; waiting in general. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "inventory/base/clock.h"
#include "provision/deadline.h"
#include "provision/ssh_impl.h"

int rk_ssh_unreachable(struct rk_ssh *ssh, const char *phase, const char *why, struct rk_err *err)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	/* libssh does not always have one. */
	if (!*why)
		why = "it failed without a reason";
	rk_str_add_escaped(&text, why, strnlen(why, 500));
	return rk_err_set(err, RK_UNREACHABLE, "ssh %s: %s: %s", ssh->name, phase, rk_str_text(&text));
}

int rk_ssh_wait_fd(struct rk_ssh *ssh, int fd, short events, int64_t until, const char *phase, struct rk_err *err)
{
	int64_t now = rk_clock_ms(NULL), left = (until < ssh->until ? until : ssh->until) - now;

	if (ssh->cancel && *ssh->cancel)
		return rk_err_set(err, RK_CANCELLED, "cancelled");
	if (left <= 0)
		return rk_ssh_unreachable(ssh, phase, now >= ssh->until ? "timed out: the time for all of it is over" : "timed out", err);
	rk_ssh_poll(ssh, fd, events, left < RK_SSH_SLICE_MS ? (int)left : RK_SSH_SLICE_MS);
	return 0;
}

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
static int resolve(struct rk_ssh *ssh, const struct rk_ssh_opening *open, struct resolve **ret, struct rk_err *err)
{
	struct resolve *r = rk_xcalloc(1, sizeof(*r));
	int64_t left = open->connect_until - rk_clock_ms(NULL);

	r->host = rk_xstrdup(open->target->host);
	snprintf(r->port, sizeof(r->port), "%d", open->port);
	if (is_numeric(r->host)) {
		resolve_run(r);
	} else if (rk_deadline_run(resolve_run, resolve_free, r, left > 0 ? (int)left : 1, ssh->cancel, err) != 0) {
		return err && err->rc == RK_CANCELLED ? RK_CANCELLED : rk_ssh_unreachable(ssh, "resolve", "timed out", err);
	}
	if (r->rc != 0) {
		int rc = rk_ssh_unreachable(ssh, "resolve", gai_strerror(r->rc), err);
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
		return rk_ssh_unreachable(ssh, "connect", strerror(errno), err);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS)
		return rk_ssh_unreachable(ssh, "connect", strerror(errno), err);
	while (poll(&p, 1, 0) < 1)
		if ((rc = rk_ssh_wait_fd(ssh, fd, POLLOUT, until, "connect", err)) != 0)
			return rc;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error)
		return rk_ssh_unreachable(ssh, "connect", strerror(error ? error : errno), err);
	*ret_fd = fd;
	fd = -1;
	return 0;
}

/* Each address gets an equal share of what is left, so that a dead IPv6 route does not eat the whole time. */
static int connect_any(struct rk_ssh *ssh, const struct rk_ssh_opening *open, const struct addrinfo *list, int *ret_fd, struct rk_err *err)
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

int rk_ssh_connect(struct rk_ssh *ssh, const struct rk_ssh_opening *open, int *ret_fd, struct rk_err *err)
{
	struct resolve *found = NULL;
	int rc = resolve(ssh, open, &found, err);

	if (rc != 0)
		return rc;
	rc = connect_any(ssh, open, found->list, ret_fd, err);
	resolve_free(found);
	return rc;
}
