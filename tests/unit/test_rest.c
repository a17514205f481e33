#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "provision/rest.h"
#include "tests/contract/http_server.h"
#include "tests/contract/tls_server.h"

struct fake {
	struct http_server server;
	struct http_answer next;   /* what the next request gets */
	const char *body;
	char seen[4096];           /* the last request as text */
	long before;
};
static char folder[] = "/tmp/racksh-rest.XXXXXX";

static void handle(void *ctx, const struct http_request *request, struct http_answer *answer)
{
	struct fake *fake = ctx;

	snprintf(fake->seen, sizeof(fake->seen), "%s %s\n%s\n%s", request->method, request->path, request->headers, request->body);
	answer->status = fake->next.status ? fake->next.status : 200;
	answer->fault = fake->next.fault;
	rk_str_add(&answer->body, fake->body ? fake->body : "{\"ok\":true}");
	rk_str_add(&answer->headers, "Location: /operations/17\r\nX-Auth-Token: abc\r\n");
}

static int start(void **state)
{
	struct fake *fake = rk_xcalloc(1, sizeof(*fake));

	http_start(&fake->server, handle, fake);
	*state = fake;
	return 0;
}

static int stop(void **state)
{
	struct fake *fake = *state;

	http_stop(&fake->server);
	free(fake);
	return 0;
}

static const char *file(struct rk_arena *arena, const char *name, const char *text, mode_t mode)
{
	const char *path = rk_arena_printf(arena, "%s/%s", folder, name);

	unlink(path);
	assert_int_equal(rk_file_write(path, text, strlen(text), mode, NULL), 0);
	assert_int_equal(chmod(path, mode), 0);
	return path;
}

static struct rk_rest *opened(const struct rk_rest_conf *conf)
{
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_rest *rest = NULL;

	if (rk_rest_open(conf, &rest, &err))
		fail_msg("%s", err.message);
	return rest;
}

static void a_call_brings_status_body_and_headers(void **state)
{
	struct fake *fake = *state;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_rest_conf conf = { .url = rk_arena_printf(arena, "%s/base/", fake->server.url),
				     .credentials_file = file(arena, "basic", "# test\nuser=rw-user\npassword=p=w\n", 0600) };
	struct rk_rest *rest RK_CLEANUP_REST = opened(&conf);
	struct rk_rest_reply reply RK_CLEANUP_REPLY = RK_REST_REPLY_INIT;

	fake->next.status = 202;
	assert_int_equal(rk_rest_call(rest, &(struct rk_rest_request){ .method = "POST", .path = "/partitions", .body = "{\"Name\":\"x\"}" }, &reply, NULL), 0);
	assert_int_equal(reply.status, 202);
	assert_string_equal(rk_str_text(&reply.body), "{\"ok\":true}");
	char *location RK_CLEANUP_FREE = rk_rest_header(&reply, "location");
	assert_string_equal(location, "/operations/17");
	assert_null(rk_rest_header(&reply, "Loc"));
	assert_non_null(strstr(fake->seen, "POST /base/partitions\n"));
	assert_non_null(strstr(fake->seen, "Authorization: Basic cnctdXNlcjpwPXc=\r\n"));
	assert_non_null(strstr(fake->seen, "\n{\"Name\":\"x\"}"));
	assert_int_equal(rk_rest_call(rest, &(struct rk_rest_request){ .method = "GET", .absolute = "/redfish/v1", .anonymous = true }, &reply, NULL), 0);
	assert_non_null(strstr(fake->seen, "GET /redfish/v1\n"));
	assert_null(strstr(fake->seen, "Authorization"));
}

static void a_token_goes_out_in_the_form_the_manager_wants(void **state)
{
	struct fake *fake = *state;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_rest_conf conf = { .url = fake->server.url, .credentials_file = file(arena, "token", "token=TTT\n", 0600) };
	const struct rk_rest_request get = { .method = "GET", .path = "/" };
	struct rk_rest_reply reply RK_CLEANUP_REPLY = RK_REST_REPLY_INIT;

	for (int auth = RK_REST_BASIC; auth <= RK_REST_TOKEN_BASIC; auth++) {
		conf.auth = (enum rk_rest_auth)auth;
		struct rk_rest *rest RK_CLEANUP_REST = opened(&conf);
		assert_int_equal(rk_rest_call(rest, &get, &reply, NULL), 0);
		assert_non_null(strstr(fake->seen, auth == RK_REST_BASIC ? "Authorization: Bearer TTT" : "Authorization: Basic TTT"));
		rk_rest_token(rest, "Bearer", "session");
		assert_int_equal(rk_rest_call(rest, &get, &reply, NULL), 0);
		assert_non_null(strstr(fake->seen, "Authorization: Bearer session"));
	}
}

static void every_kind_of_answer_has_its_class(void **state)
{
	static const struct {
		int status, class;
		bool maybe_done;
	} rows[] = { { 204, 0, false }, { 302, RK_UNREACHABLE, false }, { 400, RK_FAILED, false }, { 401, RK_UNREACHABLE, false }, { 403, RK_UNREACHABLE, false },
		     { 404, RK_NOT_FOUND, false }, { 409, RK_CONFLICT, false }, { 412, RK_CONFLICT, false }, { 422, RK_FAILED, false },
		     { 429, RK_UNREACHABLE, false }, { 500, RK_UNREACHABLE, true }, { 503, RK_UNREACHABLE, true } };
	struct fake *fake = *state;
	struct rk_rest *rest RK_CLEANUP_REST = opened(&(struct rk_rest_conf){ .url = fake->server.url });
	struct rk_rest_reply reply RK_CLEANUP_REPLY = RK_REST_REPLY_INIT;

	fake->body = "{\"httpErrorCode\":409,\"customErrorCode\":\"conflict\",\"description\":\"name \\u0007 is taken\"}";
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
		fake->next.status = rows[i].status;
		assert_int_equal(rk_rest_call(rest, &(struct rk_rest_request){ .method = "PUT", .path = "/x", .body = "{}" }, &reply, &err), rows[i].class);
		assert_int_equal(reply.maybe_done, rows[i].maybe_done);
		if (rows[i].class)
			assert_non_null(strstr(err.message, "name \\x07 is taken"));
		assert_int_equal(rk_rest_call(rest, &(struct rk_rest_request){ .method = "GET", .path = "/x" }, &reply, NULL), rows[i].class);
		assert_false(reply.maybe_done);
	}
}

/* A change whose answer was lost may be done: it is never sent again by itself, and the caller is told. */
static void a_cut_connection_leaves_a_change_open_and_is_not_repeated(void **state)
{
	static const enum http_fault faults[] = { HTTP_CUT, HTTP_SHORT, HTTP_SILENT };
	struct fake *fake = *state;
	struct rk_rest *rest RK_CLEANUP_REST = opened(&(struct rk_rest_conf){ .url = fake->server.url, .total_ms = 300 });
	struct rk_rest_reply reply RK_CLEANUP_REPLY = RK_REST_REPLY_INIT;

	/* A kept connection is there, as after any reading. */
	assert_int_equal(rk_rest_call(rest, &(struct rk_rest_request){ .method = "GET", .path = "/" }, &reply, NULL), 0);
	for (size_t i = 0; i < RK_ARRAY_SIZE(faults); i++) {
		struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
		fake->next.fault = faults[i];
		fake->before = fake->server.requests;
		assert_int_equal(rk_rest_call(rest, &(struct rk_rest_request){ .method = "POST", .path = "/x", .body = "{}" }, &reply, &err), RK_UNREACHABLE);
		assert_true(reply.maybe_done);
		assert_non_null(strstr(err.message, "whether it was done is not known"));
		assert_int_equal(fake->server.requests, fake->before + 1);
	}
}

static void nothing_was_done_where_nobody_listens(void **state)
{
	struct fake *fake = *state;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_rest_reply reply RK_CLEANUP_REPLY = RK_REST_REPLY_INIT;
	struct http_server gone;

	http_start(&gone, handle, fake);
	const char *url = rk_arena_strdup(arena, gone.url);
	http_stop(&gone);
	struct rk_rest *rest RK_CLEANUP_REST = opened(&(struct rk_rest_conf){ .url = url });
	assert_int_equal(rk_rest_call(rest, &(struct rk_rest_request){ .method = "POST", .path = "/x", .body = "{}" }, &reply, NULL), RK_UNREACHABLE);
	assert_false(reply.maybe_done);
}

static void an_answer_without_end_is_cut_off(void **state)
{
	struct fake *fake = *state;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_rest *rest RK_CLEANUP_REST = opened(&(struct rk_rest_conf){ .url = fake->server.url, .body_max = 5 });
	struct rk_rest_reply reply RK_CLEANUP_REPLY = RK_REST_REPLY_INIT;

	assert_int_equal(rk_rest_call(rest, &(struct rk_rest_request){ .method = "GET", .path = "/x" }, &reply, &err), RK_UNREACHABLE);
	assert_non_null(strstr(err.message, "longer than 5 bytes"));
}

static void cancelling_stops_before_and_during_a_call(void **state)
{
	struct fake *fake = *state;
	volatile int cancel = 1;
	struct rk_rest *rest RK_CLEANUP_REST = opened(&(struct rk_rest_conf){ .url = fake->server.url, .cancel = &cancel });
	struct rk_rest_reply reply RK_CLEANUP_REPLY = RK_REST_REPLY_INIT;

	assert_int_equal(rk_rest_call(rest, &(struct rk_rest_request){ .method = "GET", .path = "/x" }, &reply, NULL), RK_CANCELLED);
	assert_int_equal(fake->server.requests, 0);
}

static void credentials_are_refused_when_others_can_read_them(void **state)
{
	static const struct {
		const char *text;
		mode_t mode;
		const char *says;
	} rows[] = { { "user=a\npassword=b\n", 0644, "by others" }, { "user=a\n", 0600, "neither a token" }, { "user a\n", 0600, "line 1" } };
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
		struct rk_rest *rest = NULL;
		struct rk_rest_conf conf = { .url = "https://ufm", .credentials_file = file(arena, "bad", rows[i].text, rows[i].mode) };
		assert_int_equal(rk_rest_open(&conf, &rest, &err), RK_INVALID);
		assert_non_null(strstr(err.message, rows[i].says));
		assert_null(strstr(err.message, "password=b"));
	}
}

static void urls_that_would_leak_are_refused(void **state)
{
	static const char *const urls[] = { "http://ufm", "ftp://ufm", "https://me:pw@ufm", "https://ufm/?x=1", "ufm" };
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_rest_conf conf = { .credentials_file = file(arena, "ok", "token=T\n", 0600) };
	struct rk_rest *rest = NULL;

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(urls); i++) {
		conf.url = urls[i];
		assert_int_equal(rk_rest_open(&conf, &rest, NULL), RK_INVALID);
	}
}

static void secrets_are_masked_in_what_is_shown(void **state)
{
	static const char *const rows[][2] = {
		{ "{\"httpd_password\" : \"a\\\"b\",\"x\":1}", "{\"httpd_password\" : \"***\",\"x\":1}" },
		{ "{\"access_token\":\"t\",\"name\":\"password\"}", "{\"access_token\":\"***\",\"name\":\"password\"}" },
		{ "{\"Password\":[\"x\"]}", "{\"Password\":[\"x\"]}" },
		{ "{\"token\":\"cut", "{\"token\":\"***\"" },
		{ "no json", "no json" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
		rk_rest_mask(&out, rows[i][0], strlen(rows[i][0]));
		assert_string_equal(rk_str_text(&out), rows[i][1]);
	}
}

static void a_trace_shows_calls_without_secrets(void **state)
{
	struct fake *fake = *state;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const char *path = rk_arena_printf(arena, "%s/trace", folder);
	struct rk_trace *trace = rk_trace_open(path);
	struct rk_rest_conf conf = { .url = fake->server.url, .trace = trace, .credentials_file = file(arena, "c", "user=u\npassword=verysecret\n", 0600) };
	struct rk_rest *rest RK_CLEANUP_REST = opened(&conf);
	struct rk_rest_reply reply RK_CLEANUP_REPLY = RK_REST_REPLY_INIT;
	char *text RK_CLEANUP_FREE = NULL;
	size_t len;

	fake->body = "{\"access_token\":\"alsosecret\"}";
	assert_int_equal(rk_rest_call(rest, &(struct rk_rest_request){ .method = "POST", .path = "/login", .body = "{\"httpd_password\":\"verysecret\"}" },
				      &reply, NULL), 0);
	rk_trace_close(trace);
	assert_int_equal(rk_file_read(path, 1 << 20, &text, &len, NULL), 0);
	assert_non_null(strstr(text, "POST http://127.0.0.1"));
	assert_null(strstr(text, "verysecret"));
	assert_null(strstr(text, "alsosecret"));
}

/* --- TLS ---------------------------------------------------------------------------------------------------------------------------- */

static void only_a_certificate_that_proves_the_host_is_accepted(void **state)
{
	static const struct {
		const char *server, *ca;
		int class;
		const char *says;
	} rows[] = { { "good", "ca.pem", 0, NULL }, { "good", "other.pem", RK_UNREACHABLE, "certificate is not the right one" },
		     { "good", NULL, RK_UNREACHABLE, "certificate is not the right one" }, { "wrong", "ca.pem", RK_UNREACHABLE, "certificate is not the right one" },
		     { "old", "ca.pem", RK_UNREACHABLE, "certificate is not the right one" } };
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();

	(void)state;
	if (!tls_sh(folder, tls_certificates))
		skip();
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
		struct rk_rest_reply reply RK_CLEANUP_REPLY = RK_REST_REPLY_INIT;
		int port;
		pid_t pid = tls_server(folder, rows[i].server, &port);
		struct rk_rest *rest RK_CLEANUP_REST = opened(&(struct rk_rest_conf){ .url = rk_arena_printf(arena, "https://127.0.0.1:%d", port),
			.ca_file = rows[i].ca ? rk_arena_printf(arena, "%s/%s", folder, rows[i].ca) : NULL });
		int rc = rk_rest_call(rest, &(struct rk_rest_request){ .method = "GET", .path = "/answer" }, &reply, &err);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		assert_int_equal(rc, rows[i].class);
		if (!rc)
			assert_string_equal(rk_str_text(&reply.body), "{\"tls\":1}");
		else
			assert_non_null(strstr(err.message, rows[i].says));
	}
}

static void tls_with_a_server_that_speaks_none_is_told(void **state)
{
	struct fake *fake = *state;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_rest_reply reply RK_CLEANUP_REPLY = RK_REST_REPLY_INIT;
	struct rk_rest *rest RK_CLEANUP_REST = opened(&(struct rk_rest_conf){ .url = rk_arena_printf(arena, "https://127.0.0.1:%d", fake->server.port),
									     .total_ms = 500 });

	fake->next.fault = HTTP_CUT;
	assert_int_equal(rk_rest_call(rest, &(struct rk_rest_request){ .method = "POST", .path = "/", .body = "{}" }, &reply, &err), RK_UNREACHABLE);
	assert_false(reply.maybe_done);
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	return tls_sh(folder, "rm -rf \"$PWD\"") ? 0 : -1;
}

#define SERVED(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVED(a_call_brings_status_body_and_headers),
		SERVED(a_token_goes_out_in_the_form_the_manager_wants),
		SERVED(every_kind_of_answer_has_its_class),
		SERVED(a_cut_connection_leaves_a_change_open_and_is_not_repeated),
		SERVED(nothing_was_done_where_nobody_listens),
		SERVED(an_answer_without_end_is_cut_off),
		SERVED(cancelling_stops_before_and_during_a_call),
		cmocka_unit_test(credentials_are_refused_when_others_can_read_them),
		cmocka_unit_test(urls_that_would_leak_are_refused),
		cmocka_unit_test(secrets_are_masked_in_what_is_shown),
		SERVED(a_trace_shows_calls_without_secrets),
		cmocka_unit_test(only_a_certificate_that_proves_the_host_is_accepted),
		SERVED(tls_with_a_server_that_speaks_none_is_told),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
