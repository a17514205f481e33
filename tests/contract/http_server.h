/* A small HTTP/1.1 server on 127.0.0.1 in a thread of the test, for fake managers. One thread serves all connections, so a handler needs no lock
 * against itself; state that the test also touches is guarded by http_server.lock, which is held while the handler runs. */
#pragma once
#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "inventory/base/mem.h"
#include "inventory/base/str.h"

struct http_request {
	const char *method, *path; /* with the query */
	const char *headers;       /* all lines */
	const char *body;          /* NUL terminated; "" */
};
enum http_fault {
	HTTP_ANSWER,
	HTTP_CUT,          /* the connection is closed without an answer */
	HTTP_SHORT,        /* the answer announces more than comes */
	HTTP_SILENT,       /* the connection stays open, nothing comes */
};
struct http_answer {
	int status;
	struct rk_str headers, body; /* headers: whole lines with \r\n */
	enum http_fault fault;
};
typedef void http_handler(void *ctx, const struct http_request *request, struct http_answer *answer);

struct http_server {
	pthread_mutex_t lock;
	pthread_t thread;
	int listener, wake[2], port;
	char url[40];              /* "http://127.0.0.1:PORT" */
	http_handler *handler;
	void *ctx;
	long requests;
};
enum { HTTP_CONNECTIONS = 32 };
struct http_connection {
	int fd;
	struct rk_str in;
};

static inline void http_send(int fd, const char *bytes, size_t n)
{
	for (ssize_t sent; n && (sent = send(fd, bytes, n, MSG_NOSIGNAL)) > 0; bytes += sent, n -= (size_t)sent)
		;
}

/* False: the connection is to be closed. */
static inline bool http_answer(struct http_server *server, int fd, const struct http_request *request)
{
	struct http_answer answer = { .status = 200, .headers = RK_STR_INIT, .body = RK_STR_INIT };
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;

	pthread_mutex_lock(&server->lock);
	server->requests++;
	server->handler(server->ctx, request, &answer);
	pthread_mutex_unlock(&server->lock);
	rk_str_addf(&out, "HTTP/1.1 %d Status\r\nContent-Length: %zu\r\n%s\r\n", answer.status, answer.body.len + (answer.fault == HTTP_SHORT ? 100 : 0),
		    rk_str_text(&answer.headers));
	rk_str_addn(&out, rk_str_text(&answer.body), answer.body.len);
	if (answer.fault == HTTP_ANSWER || answer.fault == HTTP_SHORT)
		http_send(fd, rk_str_text(&out), out.len);
	rk_str_clear(&answer.headers);
	rk_str_clear(&answer.body);
	return answer.fault == HTTP_ANSWER || answer.fault == HTTP_SILENT;
}

/* Answers every whole request in the buffer. False: close. */
static inline bool http_serve(struct http_server *server, struct http_connection *connection)
{
	for (;;) {
		char *text = (char *)rk_str_text(&connection->in), *end = strstr(text, "\r\n\r\n"), *at;
		size_t length = 0;
		if (!end)
			return true;
		if ((at = strcasestr(text, "\r\nContent-Length:")) && at < end)
			length = strtoul(at + strlen("\r\nContent-Length:"), NULL, 10);
		size_t whole = (size_t)(end + 4 - text) + length;
		if (connection->in.len < whole)
			return true;
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		char *head = rk_arena_strndup(arena, text, (size_t)(end - text)), *rest = NULL, *lines = strchr(head, '\n');
		struct http_request request = { .headers = lines ? rk_arena_strdup(arena, lines + 1) : "",
						.body = rk_arena_strndup(arena, end + 4, length) };
		request.method = strtok_r(head, " ", &rest);
		request.path = strtok_r(NULL, " ", &rest);
		struct rk_str left = RK_STR_INIT;
		rk_str_addn(&left, text + whole, connection->in.len - whole);
		rk_str_clear(&connection->in);
		connection->in = left;
		if (!http_answer(server, connection->fd, &request))
			return false;
	}
}

static inline void http_close(struct http_connection *connection)
{
	if (connection->fd >= 0)
		close(connection->fd);
	connection->fd = -1;
	rk_str_clear(&connection->in);
}

static inline void http_accept(const struct http_server *server, struct http_connection *connections)
{
	int fd = accept(server->listener, NULL, NULL);

	for (size_t i = 0; fd >= 0 && i < HTTP_CONNECTIONS; i++)
		if (connections[i].fd < 0) {
			connections[i].fd = fd;
			return;
		}
	if (fd >= 0)
		close(fd);
}

static inline void http_read(struct http_server *server, struct http_connection *connection)
{
	char buf[65536];
	ssize_t n = recv(connection->fd, buf, sizeof(buf), 0);

	if (n > 0)
		rk_str_addn(&connection->in, buf, (size_t)n);
	if (n <= 0 || !http_serve(server, connection))
		http_close(connection);
}

static inline void *http_main(void *ctx)
{
	struct http_server *server = ctx;
	struct http_connection connections[HTTP_CONNECTIONS];

	for (size_t i = 0; i < HTTP_CONNECTIONS; i++)
		connections[i] = (struct http_connection){ .fd = -1, .in = RK_STR_INIT };
	for (;;) {
		struct pollfd fds[HTTP_CONNECTIONS + 2] = { { .fd = server->wake[0], .events = POLLIN }, { .fd = server->listener, .events = POLLIN } };
		for (size_t i = 0; i < HTTP_CONNECTIONS; i++)
			fds[i + 2] = (struct pollfd){ .fd = connections[i].fd, .events = POLLIN };
		poll(fds, HTTP_CONNECTIONS + 2, -1);
		if (fds[0].revents)
			break;
		for (size_t i = 0; i < HTTP_CONNECTIONS; i++)
			if (fds[i + 2].revents)
				http_read(server, &connections[i]);
		if (fds[1].revents)
			http_accept(server, connections);
	}
	for (size_t i = 0; i < HTTP_CONNECTIONS; i++)
		http_close(&connections[i]);
	return NULL;
}

static inline void http_start(struct http_server *server, http_handler *handler, void *ctx)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(address);
	int bad;

	*server = (struct http_server){ .handler = handler, .ctx = ctx };
	pthread_mutex_init(&server->lock, NULL);
	server->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bad = bind(server->listener, (struct sockaddr *)&address, sizeof(address)) || listen(server->listener, 16) ||
	      getsockname(server->listener, (struct sockaddr *)&address, &len) || pipe(server->wake) ||
	      pthread_create(&server->thread, NULL, http_main, server);
	if (bad)
		abort();
	server->port = ntohs(address.sin_port);
	snprintf(server->url, sizeof(server->url), "http://127.0.0.1:%d", server->port);
}

static inline void http_stop(struct http_server *server)
{
	if (write(server->wake[1], "x", 1) != 1)
		abort();
	pthread_join(server->thread, NULL);
	close(server->listener);
	close(server->wake[0]);
	close(server->wake[1]);
	pthread_mutex_destroy(&server->lock);
}
