/* SSH servers in this process, a thread per connection: well-behaved ones and all kinds of bad ones. For tests and benches only.
 * A server listens on a loopback port of its own; whatever hangs, hangs until ssh_server_stop. */
#pragma once
#include <arpa/inet.h>
#include <libssh/libssh.h>
#include <libssh/server.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "inventory/base/mem.h"

enum ssh_server_kind {
	SSH_GOOD,             /* answers every command with its own text */
	/* before the key exchange, on the bare socket */
	SSH_NOT_LISTENING, SSH_CLOSES, SSH_RESETS, SSH_SILENT, SSH_BANNER_SPEW, SSH_BANNER_DRIP, SSH_HALF_VERSION, SSH_VERSION_ONLY, SSH_OLD_VERSION,
	SSH_GARBAGE, SSH_HTTP, SSH_HUGE_PACKET, SSH_ZERO_PACKET,
	/* after it */
	SSH_OTHER_KEY, SSH_AUTH_HANGS, SSH_AUTH_DENIES, SSH_CHANNEL_REFUSED, SSH_CHANNEL_HANGS, SSH_EXEC_REFUSED, SSH_EXEC_HANGS, SSH_COMMAND_SILENT,
	SSH_FLOOD, SSH_STDERR_FLOOD, SSH_DRIP, SSH_NO_STATUS, SSH_SIGNAL, SSH_DROPS_MIDWAY, SSH_HALF_CLOSE,
	SSH_KINDS,
	/* a jump host, and one that dies with the last bytes of the host behind it */
	SSH_JUMP = SSH_KINDS, SSH_JUMP_DIES
};

struct ssh_servers {
	ssh_bind bind, other; /* the right host key, and a wrong one */
	pthread_mutex_t lock; /* libssh's bind is not for several threads */
	int stop[2];          /* readable when everything is to end */
	atomic_size_t hanging; /* connections on which nothing will happen any more */
	bool forget;          /* connections are not kept for ssh_servers_stop: the process ends instead (bench) */
	pthread_t threads[4096];
	int fds[4096];
	size_t n_threads;
};
struct ssh_server {
	struct ssh_servers *all;
	enum ssh_server_kind kind;
	int listener, port;
	pthread_t thread;
};
struct ssh_server_conn {
	struct ssh_server *server;
	int fd, kept; /* kept: a second descriptor of the same socket, closed by ssh_servers_stop */
};

/* False when it is time to end. */
static inline bool ssh_server_pause(struct ssh_servers *all, int ms)
{
	struct pollfd p = { all->stop[0], POLLIN, 0 };

	all->hanging += ms < 0;
	return poll(&p, 1, ms) == 0;
}

static inline bool ssh_server_send(int fd, const void *bytes, size_t n)
{
	return send(fd, bytes, n, MSG_NOSIGNAL) == (ssize_t)n;
}

static inline void ssh_server_bare(struct ssh_server *s, int fd)
{
	static const char version[] = "SSH-2.0-test\r\n", line[] = "Welcome to a server with a very long banner\r\n";
	struct ssh_servers *all = s->all;
	unsigned char packet[16] = { 0 };

	switch (s->kind) {
	case SSH_BANNER_SPEW:
		while (ssh_server_send(fd, line, sizeof(line) - 1) && ssh_server_pause(all, 0))
			;
		return;
	case SSH_BANNER_DRIP:
		for (size_t i = 0; ssh_server_send(fd, &line[i % 20], 1) && ssh_server_pause(all, 50); i++)
			;
		return;
	case SSH_HALF_VERSION:
		ssh_server_send(fd, version, 6);
		break;
	case SSH_VERSION_ONLY:
		ssh_server_send(fd, version, sizeof(version) - 1);
		break;
	case SSH_OLD_VERSION:
		ssh_server_send(fd, "SSH-1.5-old\r\n", 13);
		break;
	case SSH_GARBAGE:
		for (int i = 0; i < 4096; i++)
			ssh_server_send(fd, &(unsigned char){ (unsigned char)(i * 7919 >> 3) }, 1);
		break;
	case SSH_HTTP:
		ssh_server_send(fd, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", 47);
		return;
	case SSH_HUGE_PACKET:
		memcpy(packet, "\x7f\xff\xff\xff\x04\x14", 6);
		/* fall through */
	case SSH_ZERO_PACKET:
		ssh_server_send(fd, version, sizeof(version) - 1);
		ssh_server_send(fd, packet, sizeof(packet));
		break;
	default:
		break;
	}
	ssh_server_pause(all, -1);
}

/* Endless text on one stream, some megabytes a second so that others on this machine get on, or a byte now and then. */
static inline void ssh_server_pour(struct ssh_server *s, ssh_channel channel)
{
	char block[8192];
	bool drip = s->kind == SSH_DRIP;

	memset(block, '-', sizeof(block));
	memcpy(block, "flood", 5);
	while (ssh_server_pause(s->all, drip ? 50 : 1)) {
		int rc = s->kind == SSH_STDERR_FLOOD ? ssh_channel_write_stderr(channel, block, sizeof(block))
						     : ssh_channel_write(channel, block, drip ? 1 : sizeof(block));
		if (rc < 0 || ssh_channel_is_closed(channel))
			return;
	}
}

/* False: the connection is over. */
static inline bool ssh_server_command(struct ssh_server *s, ssh_channel channel, const char *command)
{
	switch (s->kind) {
	case SSH_COMMAND_SILENT:
		return ssh_server_pause(s->all, -1);
	case SSH_FLOOD:
	case SSH_STDERR_FLOOD:
	case SSH_DRIP:
		ssh_server_pour(s, channel);
		return false;
	case SSH_HALF_CLOSE: /* says that no more comes, and never ends */
		ssh_channel_write(channel, "x\n", 2);
		ssh_channel_send_eof(channel);
		return ssh_server_pause(s->all, -1);
	case SSH_DROPS_MIDWAY:
		ssh_channel_write(channel, "half an ans", 11);
		return false;
	case SSH_SIGNAL:
		ssh_channel_request_send_exit_signal(channel, "SEGV", 0, "", "");
		break;
	case SSH_NO_STATUS:
		break;
	default:
		ssh_channel_write(channel, command, (uint32_t)strlen(command));
		ssh_channel_request_send_exit_status(channel, 0);
	}
	ssh_channel_send_eof(channel);
	ssh_channel_close(channel);
	return true;
}

/* Moves bytes between a channel and a socket. What the socket has said to its end goes on as the end of the channel, unless dies. */
static inline void ssh_server_proxy(struct ssh_servers *all, ssh_channel channel, int from, int to, bool dies)
{
	struct pollfd p[] = { { from, POLLIN, 0 }, { to, POLLIN, 0 }, { all->stop[0], POLLIN, 0 } };
	char bytes[4096];
	int n;

	while (poll(p, 3, -1) > 0 && !p[2].revents) {
		while ((n = ssh_channel_read_nonblocking(channel, bytes, sizeof(bytes), 0)) > 0)
			ssh_server_send(to, bytes, (size_t)n);
		if (n < 0)
			return;
		if (!p[1].revents)
			continue;
		n = (int)recv(to, bytes, sizeof(bytes), 0);
		if (n > 0 && ssh_channel_write(channel, bytes, (uint32_t)n) >= 0)
			continue;
		if (dies)
			return;
		ssh_channel_send_eof(channel);
		p[1] = (struct pollfd){ .fd = -1 };
	}
}

static inline void ssh_server_jump(struct ssh_server *s, ssh_message message)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				    .sin_port = htons((uint16_t)ssh_message_channel_request_open_destination_port(message)) };
	int to = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	bool reached = connect(to, (struct sockaddr *)&addr, sizeof(addr)) == 0;
	ssh_channel channel = reached ? ssh_message_channel_request_open_reply_accept(message) : NULL;

	if (!reached)
		ssh_message_reply_default(message);
	if (channel) {
		int from = ssh_get_fd(ssh_channel_get_session(channel));
		/* All that is still to be sent goes in one piece. */
		if (s->kind == SSH_JUMP_DIES)
			setsockopt(from, IPPROTO_TCP, TCP_CORK, &on, sizeof(on));
		ssh_server_proxy(s->all, channel, from, to, s->kind == SSH_JUMP_DIES);
		if (s->kind == SSH_JUMP)
			ssh_channel_close(channel);
	}
	close(to);
}

/* One request of the client; false: the connection is over. */
static inline bool ssh_server_message(struct ssh_server *s, ssh_message message, ssh_channel *channel)
{
	bool hangs = false;

	switch (ssh_message_type(message)) {
	case SSH_REQUEST_AUTH:
		hangs = s->kind == SSH_AUTH_HANGS;
		if (s->kind == SSH_AUTH_DENIES)
			ssh_message_reply_default(message);
		else if (!hangs)
			ssh_message_auth_reply_success(message, 0);
		break;
	case SSH_REQUEST_CHANNEL_OPEN:
		hangs = s->kind == SSH_CHANNEL_HANGS;
		if (s->kind >= SSH_JUMP) {
			ssh_server_jump(s, message);
			return s->kind == SSH_JUMP;
		}
		if (s->kind == SSH_CHANNEL_REFUSED)
			ssh_message_reply_default(message);
		else if (!hangs)
			*channel = ssh_message_channel_request_open_reply_accept(message);
		break;
	case SSH_REQUEST_CHANNEL:
		hangs = s->kind == SSH_EXEC_HANGS;
		if (s->kind == SSH_EXEC_REFUSED || ssh_message_subtype(message) != SSH_CHANNEL_REQUEST_EXEC) {
			ssh_message_reply_default(message);
		} else if (!hangs) {
			const char *command = ssh_message_channel_request_command(message);
			ssh_message_channel_request_reply_success(message);
			if (!*channel || !ssh_server_command(s, *channel, command ? command : ""))
				return false;
		}
		break;
	default:
		ssh_message_reply_default(message);
	}
	return !hangs || ssh_server_pause(s->all, -1);
}

static inline void ssh_server_session(struct ssh_server *s, int fd)
{
	ssh_session session = ssh_new();
	ssh_channel channel = NULL;
	ssh_message message;

	pthread_mutex_lock(&s->all->lock);
	int rc = ssh_bind_accept_fd(s->kind == SSH_OTHER_KEY ? s->all->other : s->all->bind, session, fd);
	pthread_mutex_unlock(&s->all->lock);
	if (rc == SSH_OK && ssh_handle_key_exchange(session) == SSH_OK) {
		bool more = true;
		while (more && (message = ssh_message_get(session)) != NULL) {
			more = ssh_server_message(s, message, &channel);
			ssh_message_free(message);
		}
	}
	ssh_disconnect(session);
	ssh_free(session);
}

static inline void *ssh_server_connection(void *arg)
{
	struct ssh_server_conn *c = arg;
	struct ssh_server *s = c->server;
	int fd = c->fd, kept = c->kept;
	struct linger now = { 1, 0 };

	free(c);
	if (s->kind == SSH_RESETS) { /* once the client is in its key exchange: a reset before that could also be seen while connecting */
		char first;
		(void)!recv(fd, &first, 1, 0);
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	}
	if (s->kind >= SSH_SILENT && s->kind < SSH_OTHER_KEY)
		ssh_server_bare(s, fd);
	if (s->kind == SSH_GOOD || s->kind >= SSH_OTHER_KEY)
		ssh_server_session(s, fd);
	else
		close(fd);
	if (s->kind == SSH_RESETS) { /* a reset comes from the last close */
		close(kept);
		return NULL;
	}
	shutdown(kept, SHUT_RDWR);
	if (s->all->forget)
		close(kept);
	return NULL;
}

static inline void *ssh_server_accept(void *arg)
{
	struct ssh_server *s = arg;
	int fd;

	while ((fd = accept(s->listener, NULL, NULL)) >= 0) {
		struct ssh_server_conn *c = rk_xcalloc(1, sizeof(*c));
		*c = (struct ssh_server_conn){ s, fd, dup(fd) };
		pthread_mutex_lock(&s->all->lock);
		size_t i = s->all->forget ? 0 : s->all->n_threads;
		if (i < RK_ARRAY_SIZE(s->all->threads)) {
			s->all->fds[i] = s->kind == SSH_RESETS ? -1 : c->kept;
			if (pthread_create(&s->all->threads[i], NULL, ssh_server_connection, c) != 0)
				abort();
			if (s->all->forget)
				pthread_detach(s->all->threads[i]);
			s->all->n_threads++;
		} else {
			close(fd);
			close(c->kept);
			free(c);
		}
		pthread_mutex_unlock(&s->all->lock);
	}
	return NULL;
}

static inline ssh_bind ssh_server_bind(const char *private_key)
{
	ssh_bind bind = ssh_bind_new();
	ssh_key key = NULL;

	if (ssh_pki_import_privkey_base64(private_key, NULL, NULL, NULL, &key) != SSH_OK || ssh_bind_options_set(bind, SSH_BIND_OPTIONS_IMPORT_KEY, key) != SSH_OK)
		abort();
	return bind;
}

static inline void ssh_servers_init(struct ssh_servers *all, const char *private_key, const char *other_key)
{
	memset(all, 0, sizeof(*all));
	pthread_mutex_init(&all->lock, NULL);
	all->bind = ssh_server_bind(private_key);
	all->other = ssh_server_bind(other_key);
	if (pipe(all->stop) != 0)
		abort();
}

/* address: INADDR_LOOPBACK, or INADDR_ANY for all of 127.0.0.0/8. */
static inline void ssh_server_start_at(struct ssh_servers *all, struct ssh_server *s, enum ssh_server_kind kind, in_addr_t address)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(address) };
	socklen_t size = sizeof(addr);

	*s = (struct ssh_server){ .all = all, .kind = kind, .listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
	if (bind(s->listener, (struct sockaddr *)&addr, sizeof(addr)) != 0 || getsockname(s->listener, (struct sockaddr *)&addr, &size) != 0)
		abort();
	s->port = ntohs(addr.sin_port);
	if (kind == SSH_NOT_LISTENING)
		return;
	if (listen(s->listener, 1024) != 0 || pthread_create(&s->thread, NULL, ssh_server_accept, s) != 0)
		abort();
}

static inline void ssh_server_start(struct ssh_servers *all, struct ssh_server *s, enum ssh_server_kind kind)
{
	ssh_server_start_at(all, s, kind, INADDR_LOOPBACK);
}

/* It takes no more connections. */
static inline void ssh_server_end(struct ssh_server *s)
{
	shutdown(s->listener, SHUT_RDWR);
	if (s->kind != SSH_NOT_LISTENING)
		pthread_join(s->thread, NULL);
	close(s->listener);
}

/* Ends all servers and their connections. */
static inline void ssh_servers_stop(struct ssh_servers *all, struct ssh_server *servers, size_t n)
{
	close(all->stop[1]);
	for (size_t i = 0; i < n; i++)
		ssh_server_end(&servers[i]);
	for (size_t i = 0; i < all->n_threads; i++) {
		shutdown(all->fds[i], SHUT_RDWR);
		pthread_join(all->threads[i], NULL);
		close(all->fds[i]);
	}
	close(all->stop[0]);
	ssh_bind_free(all->bind);
	ssh_bind_free(all->other);
	pthread_mutex_destroy(&all->lock);
}
