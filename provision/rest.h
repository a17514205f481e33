/* One REST transport (libcurl), for managers that speak HTTPS: UFM, NMX-M, Redfish.
 *
 * A handle is one manager with one kept connection; any thread, one at a time. Certificates are always checked. Redirects are not
 * followed and no proxy is used: credentials go to the named host only. Secrets are masked in the trace. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "inventory/base/err.h"
#include "inventory/base/str.h"
#include "inventory/base/trace.h"

enum rk_rest_auth {
	RK_REST_BASIC,                    /* user and password of the credentials file; a token there goes as "Bearer" */
	RK_REST_TOKEN_BASIC,              /* token of the credentials file as "Authorization: Basic TOKEN" (UFM), else user and password */
};
struct rk_rest_conf {                     /* everything is borrowed for rk_rest_open only, but trace and cancel */
	const char *url;                  /* "https://host[:port][/base]"; http only to this machine or without credentials */
	const char *credentials_file;     /* NULL: none. Lines KEY=VALUE with the keys user, password, token; mode 0600 or stricter */
	const char *ca_file;              /* PEM; NULL: the authorities of the system */
	enum rk_rest_auth auth;
	int connect_ms;                   /* 0 = 10000: TCP and TLS */
	int total_ms;                     /* 0 = 60000: one call */
	int stall_ms;                     /* 0 = 20000: without a byte in either direction */
	size_t body_max;                  /* 0 = 64 MiB */
	struct rk_trace *trace;           /* NULL = off */
	const volatile int *cancel;       /* non-zero: give up with RK_CANCELLED; may be NULL */
};
struct rk_rest;
/* Checks URL and credentials file, connects to nothing. Errors: RK_INVALID. */
int rk_rest_open(const struct rk_rest_conf *conf, struct rk_rest **ret, struct rk_err *err);
bool rk_rest_has_token(const struct rk_rest *rest); /* did the credentials file hold one? */
void rk_rest_close(struct rk_rest *rest);
void rk_cleanup_rest(struct rk_rest **rest);
#define RK_CLEANUP_REST __attribute__((cleanup(rk_cleanup_rest)))

struct rk_rest_request {
	const char *method;               /* "GET", "POST", "PUT", "PATCH", "DELETE" */
	const char *path;                 /* appended to the base: "/resources/pkeys?guids_data=true" */
	const char *absolute;             /* instead of path: from the root of the host ("/redfish/v1/..."), or NULL */
	const char *body;                 /* JSON, or NULL */
	const char *const *headers;       /* "Name: value", ends with NULL; or NULL */
	bool anonymous;                   /* without credentials (a login call) */
};
struct rk_rest_reply {
	int status;                       /* 0: no answer */
	struct rk_str body, headers;      /* clear with rk_rest_reply_clear */
	bool maybe_done;                  /* error, and the request may have been carried out all the same: read back */
};
#define RK_REST_REPLY_INIT { 0, RK_STR_INIT, RK_STR_INIT, false }
#define RK_CLEANUP_REPLY __attribute__((cleanup(rk_rest_reply_clear)))
void rk_rest_reply_clear(struct rk_rest_reply *reply);

/* 0 for status 2xx (202 is "accepted", not "done"). The reply is filled as far as it came in every case; a former one is cleared.
 * RK_UNREACHABLE: no connection, TLS or certificate, credentials refused (401, 403), 429, 5xx, silence, a connection cut after the request
 *   (maybe_done), a redirect, an answer that is too long.
 * RK_NOT_FOUND 404, 410. RK_CONFLICT 409, 412, 423. RK_FAILED: any other 4xx. RK_CANCELLED. The message has the manager's own words. */
int rk_rest_call(struct rk_rest *rest, const struct rk_rest_request *request, struct rk_rest_reply *reply, struct rk_err *err);
/* Value of a header of the reply (name in any case), malloc'ed; NULL when it has none. */
char *rk_rest_header(const struct rk_rest_reply *reply, const char *name);
/* From now on "Authorization: <scheme> <token>" instead of what the credentials file says. NULL scheme: back to the file. */
void rk_rest_token(struct rk_rest *rest, const char *scheme, const char *token);
/* JSON text with the values of keys that hold secrets (password, token, ...) replaced by "***"; for traces. */
void rk_rest_mask(struct rk_str *out, const char *json, size_t len);
