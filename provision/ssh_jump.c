/* Jump hosts. A hop is a session of its own; what lies behind it is reached through a "direct-tcpip" channel, so no shell runs there. The next
 * session gets one end of a socket pair, and whoever waits for it moves the bytes between the other end and the channel: no thread, no process. */
#include <errno.h>
#include <libssh/callbacks.h>
#include <libssh/libssh.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "inventory/base/clock.h"
#include "provision/ssh_impl.h"

enum { CHUNK = 16 << 10, IN_MAX = 256 << 10 };

struct rk_ssh_carrier {
	ssh_channel channel;              /* of the session's `via` */
	struct ssh_channel_callbacks_struct callbacks;
	int fd;                           /* our end of the pair; -1 once everything was handed on and no more comes */
	struct rk_str in;                 /* from the channel, still to be handed on */
	struct {
		char bytes[CHUNK];
		size_t at, len;           /* what is still to be handed on */
	} out;                            /* to the channel */
};

/* Taken as it arrives: libssh hands nothing out any more once the connection is lost, and what a host said before its jump host died counts. */
static int on_data(ssh_session session, ssh_channel channel, void *data, uint32_t n, int is_stderr, void *ctx)
{
	struct rk_ssh_carrier *c = ctx;

	(void)session;
	(void)channel;
	if (!is_stderr)
		rk_str_addn(&c->in, data, n);
	return (int)n;
}

/* Hands in on to the session. False: it does not take all of it now. */
static bool give(struct rk_ssh_carrier *c)
{
	size_t at = 0;
	ssize_t n;

	while (at < c->in.len && (n = send(c->fd, c->in.text + at, c->in.len - at, MSG_DONTWAIT | MSG_NOSIGNAL)) > 0)
		at += (size_t)n;
	c->in.len -= at;
	if (at)
		memmove(c->in.text, c->in.text + at, c->in.len);
	return !c->in.len;
}

/* Room in the window and an idle socket: libssh would queue without limit otherwise. */
static bool takes(struct rk_ssh *via, struct rk_ssh_carrier *c)
{
	return ssh_channel_window_size(c->channel) > 0 && !(ssh_get_poll_flags(via->session) & SSH_WRITE_PENDING);
}

static void carry_out(struct rk_ssh *via, struct rk_ssh_carrier *c)
{
	while (takes(via, c)) {
		if (c->out.at == c->out.len) {
			ssize_t n = recv(c->fd, c->out.bytes, sizeof(c->out.bytes), MSG_DONTWAIT);
			if (n <= 0)
				return;
			c->out.at = 0;
			c->out.len = (size_t)n;
		}
		size_t left = c->out.len - c->out.at, window = ssh_channel_window_size(c->channel);
		int rc = ssh_channel_write(c->channel, c->out.bytes + c->out.at, (uint32_t)(left < window ? left : window));
		if (rc <= 0)
			return;
		c->out.at += (size_t)rc;
	}
}

/* A session that is slow holds its jump host up, and no memory. */
static bool reads(const struct rk_ssh *via, const struct rk_ssh_carrier *c)
{
	return !via->broken && c->in.len < IN_MAX;
}

static void carry(struct rk_ssh *ssh)
{
	struct rk_ssh_carrier *c = ssh->carrier;
	struct rk_ssh *via = ssh->via;

	if (c->fd < 0)
		return;
	if (reads(via, c) && (ssh_event_dopoll(via->event, 0) == SSH_ERROR || !ssh_is_connected(via->session)))
		via->broken = true;
	bool given = give(c);
	if (!via->broken)
		carry_out(via, c);
	if (given && via->broken) {
		close(c->fd);
		c->fd = -1;
	} else if (given && (ssh_channel_is_eof(c->channel) || ssh_channel_is_closed(c->channel))) {
		shutdown(c->fd, SHUT_WR); /* the session sees the end */
	}
}

static short carrier_events(struct rk_ssh *ssh)
{
	struct rk_ssh_carrier *c = ssh->carrier;
	bool out = !ssh->via->broken && takes(ssh->via, c) && c->out.at == c->out.len;

	return (short)((c->in.len ? POLLOUT : 0) | (out ? POLLIN : 0));
}

static short via_events(struct rk_ssh *ssh)
{
	return (short)((reads(ssh->via, ssh->carrier) ? POLLIN : 0) | (ssh_get_poll_flags(ssh->via->session) & SSH_WRITE_PENDING ? POLLOUT : 0));
}

void rk_ssh_poll(struct rk_ssh *ssh, int fd, short events, int ms)
{
	struct pollfd p[1 + 2 * RK_SSH_HOPS_MAX] = { { fd, events, 0 } };
	struct rk_ssh *carried[RK_SSH_HOPS_MAX];
	size_t n = 1, depth = 0;

	for (struct rk_ssh *s = ssh; s->carrier && depth < RK_SSH_HOPS_MAX; s = s->via) {
		if (s->carrier->fd >= 0) {
			p[n++] = (struct pollfd){ s->carrier->fd, carrier_events(s), 0 };
			p[n++] = (struct pollfd){ s->via->broken ? -1 : s->via->fd, via_events(s), 0 };
		}
		carried[depth++] = s;
	}
	(void)!poll(p, n, ms);
	/* The outermost first: what comes in passes all of them at once. */
	while (depth > 0)
		carry(carried[--depth]);
}

static int open_channel(struct rk_ssh *ssh, const struct rk_ssh_opening *open, ssh_channel channel, struct rk_err *err)
{
	struct rk_ssh *via = ssh->via;

	for (;;) {
		int rc = ssh_channel_open_forward(channel, open->target->host, open->port, "127.0.0.1", 0);
		if (rc == SSH_OK)
			return 0;
		if (rc != SSH_AGAIN) {
			via->broken = !ssh_is_connected(via->session);
			rk_ssh_unreachable(ssh, "jump", ssh_get_error(via->session), err);
			rk_err_hint(err, "from %s: can it reach the host, and does its sshd allow TCP forwarding?", via->name);
			return RK_UNREACHABLE;
		}
		if ((rc = rk_ssh_wait(via, open->connect_until, "jump", err)) != 0)
			return rc;
		if (ssh_event_dopoll(via->event, 0) == SSH_ERROR) {
			via->broken = true;
			return rk_ssh_unreachable(ssh, "jump", "the connection to the jump host was lost", err);
		}
	}
}

static void carrier_drop(struct rk_ssh_carrier *c, bool channel_too)
{
	ssh_remove_channel_callbacks(c->channel, &c->callbacks);
	if (channel_too)
		ssh_channel_free(c->channel);
	if (c->fd >= 0)
		close(c->fd);
	rk_str_clear(&c->in);
	free(c);
}

int rk_ssh_carry_to(struct rk_ssh *ssh, const struct rk_ssh_opening *open, int *ret_fd, struct rk_err *err)
{
	int ends[2], rc;

	if (ssh->via->broken)
		return rk_ssh_unreachable(ssh, "jump", "the connection to the jump host was lost", err);
	ssh_channel channel = ssh_channel_new(ssh->via->session);
	if (!channel)
		return rk_ssh_unreachable(ssh, "jump", ssh_get_error(ssh->via->session), err);
	struct rk_ssh_carrier *c = rk_xcalloc(1, sizeof(*c));
	*c = (struct rk_ssh_carrier){ .channel = channel, .fd = -1, .callbacks = { .userdata = c, .channel_data_function = on_data } };
	ssh_callbacks_init(&c->callbacks);
	ssh_set_channel_callbacks(channel, &c->callbacks);
	if ((rc = open_channel(ssh, open, channel, err)) != 0) {
		carrier_drop(c, true);
		return rc;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
		carrier_drop(c, true);
		return rk_ssh_unreachable(ssh, "jump", strerror(errno), err);
	}
	c->fd = ends[0];
	ssh->carrier = c;
	*ret_fd = ends[1];
	return 0;
}

void rk_ssh_carrier_free(struct rk_ssh *ssh)
{
	struct rk_ssh_carrier *c = ssh->carrier;

	if (!c)
		return;
	bool alive = !ssh->via->broken;
	if (alive)
		rk_ssh_poll(ssh, -1, 0, 0); /* the farewell of the session */
	carrier_drop(c, alive);
	ssh->carrier = NULL;
}

int rk_ssh_parse_jump(const char *text, struct rk_arena *arena, struct rk_ssh_target *hops, size_t *ret_n, struct rk_err *err)
{
	char *rest = rk_arena_strdup(arena, text);
	size_t n = 0;
	int rc = 0;

	for (char *word; !rc && (word = strsep(&rest, ",")) != NULL;) {
		if (n == RK_SSH_HOPS_MAX)
			return rk_err_set(err, RK_INVALID, "more than %d jump hosts in \"%s\"", RK_SSH_HOPS_MAX, text);
		rc = rk_ssh_parse(word, arena, &hops[n++], err);
	}
	*ret_n = n;
	return rc;
}

/* One jump host, as soon as others let it; *via is the one before. */
static int open_hop(const struct rk_ssh_target *hop, const struct rk_ssh_terms *terms, struct rk_ssh **via, struct rk_err *err)
{
	char *name RK_CLEANUP_FREE = rk_xasprintf("%s:%d%s%s", hop->host, hop->port > 0 ? hop->port : 22, *via ? " via " : "", *via ? (*via)->name : "");
	int64_t until = rk_clock_ms(NULL) + terms->limits.connect_ms + terms->limits.auth_ms;
	struct rk_ssh_gate *gate;
	int rc = rk_ssh_gate_enter(name, until < terms->until ? until : terms->until, terms->cancel, &gate, err);

	if (rc)
		return rc;
	rc = rk_ssh_open_one(hop, *via, terms, via, err);
	rk_ssh_gate_leave(gate);
	return rc;
}

int rk_ssh_open_jump(const struct rk_ssh_target *target, const struct rk_ssh_terms *terms, struct rk_ssh **ret, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_ssh_target hops[RK_SSH_HOPS_MAX] = { 0 };
	struct rk_ssh *via = NULL;
	size_t n;
	int rc = rk_ssh_parse_jump(target->jump, arena, hops, &n, err);

	for (size_t i = 0; !rc && i < n; i++) {
		hops[i].known_hosts = target->known_hosts;
		hops[i].identity_file = target->identity_file;
		rc = open_hop(&hops[i], terms, &via, err);
	}
	if (rc) {
		rk_ssh_close(via);
		return rc == RK_CANCELLED ? rc : rk_err_while(err, "jump host for %s", target->host);
	}
	*ret = via;
	return 0;
}
