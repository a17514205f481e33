#include "provision/rest.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <curl/curl.h>

#include "inventory/base/json.h"
#include "inventory/base/mem.h"
#include "provision/rest_secrets.h"

enum { CONNECT_MS = 10000, TOTAL_MS = 60000, STALL_MS = 20000, HEADERS_MAX = 64 << 10, SAID_MAX = 300 };

struct rk_rest {
	CURL *curl;
	char *url;                        /* base, without a '/' at the end */
	char *host;                       /* for messages and the trace */
	char *ca_file;
	struct rk_credentials given;
	char *scheme, *session;           /* rk_rest_token */
	enum rk_rest_auth auth;
	int connect_ms, total_ms, stall_ms;
	size_t body_max;
	struct rk_trace *trace;
	const volatile int *cancel;
};

/* --- opening ------------------------------------------------------------------------------------------------------------------- */

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

static void start_curl(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

static bool local(const char *host)
{
	return rk_streq(host, "localhost") || rk_starts_with(host, "127.") || rk_streq(host, "[::1]");
}

static int check_url(struct rk_rest *rest, const char *url, bool secrets, struct rk_err *err)
{
	CURLU *u = curl_url();
	char *scheme = NULL, *host = NULL, *user = NULL, *query = NULL;
	int rc = 0;

	if (curl_url_set(u, CURLUPART_URL, url, 0) != CURLUE_OK || curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
	    curl_url_get(u, CURLUPART_HOST, &host, 0) != CURLUE_OK)
		rc = rk_err_set(err, RK_INVALID, "\"%s\" is no URL", url);
	else if (curl_url_get(u, CURLUPART_USER, &user, 0) == CURLUE_OK)
		rc = rk_err_set(err, RK_INVALID, "the URL of \"%s\" holds a user name: credentials belong into a credentials file", host);
	else if (curl_url_get(u, CURLUPART_QUERY, &query, 0) == CURLUE_OK)
		rc = rk_err_set(err, RK_INVALID, "\"%s\": the URL of a manager has no query", url);
	else if (!rk_streq(scheme, "https") && !rk_streq(scheme, "http"))
		rc = rk_err_set(err, RK_INVALID, "\"%s\": only https and http are spoken", url);
	else if (rk_streq(scheme, "http") && secrets && !local(host))
		rc = rk_err_set(err, RK_INVALID, "\"%s\": credentials are sent over https only", url);
	if (!rc) {
		rest->host = rk_xstrdup(host);
		rest->url = rk_xstrdup(url);
		for (size_t n = strlen(rest->url); n && rest->url[n - 1] == '/'; n--)
			rest->url[n - 1] = '\0';
	}
	curl_free(scheme);
	curl_free(host);
	curl_free(user);
	curl_free(query);
	curl_url_cleanup(u);
	return rc;
}

int rk_rest_open(const struct rk_rest_conf *conf, struct rk_rest **ret, struct rk_err *err)
{
	struct rk_rest *rest = rk_xcalloc(1, sizeof(*rest));
	int rc;

	pthread_once(&curl_once, start_curl);
	rest->auth = conf->auth;
	rest->connect_ms = conf->connect_ms ? conf->connect_ms : CONNECT_MS;
	rest->total_ms = conf->total_ms ? conf->total_ms : TOTAL_MS;
	rest->stall_ms = conf->stall_ms ? conf->stall_ms : STALL_MS;
	rest->body_max = conf->body_max ? conf->body_max : (size_t)64 << 20;
	rest->trace = conf->trace;
	rest->cancel = conf->cancel;
	rest->ca_file = conf->ca_file ? rk_xstrdup(conf->ca_file) : NULL;
	rc = check_url(rest, conf->url, conf->credentials_file != NULL, err);
	if (!rc && rest->ca_file && access(rest->ca_file, R_OK) != 0)
		rc = rk_err_set(err, RK_INVALID, "the file of certificate authorities \"%s\" cannot be read: %s", rest->ca_file, strerror(errno));
	if (!rc && conf->credentials_file)
		rc = rk_credentials_read(conf->credentials_file, &rest->given, err);
	if (!rc && !(rest->curl = curl_easy_init()))
		rc = rk_err_set(err, RK_BUG, "libcurl cannot be set up");
	if (rc) {
		rk_rest_close(rest);
		return rc;
	}
	*ret = rest;
	return 0;
}

bool rk_rest_has_token(const struct rk_rest *rest)
{
	return rest->given.token != NULL;
}

void rk_rest_close(struct rk_rest *rest)
{
	if (!rest)
		return;
	if (rest->curl)
		curl_easy_cleanup(rest->curl);
	rk_credentials_wipe(&rest->given);
	rk_wipe(&rest->session);
	free(rest->scheme);
	free(rest->ca_file);
	free(rest->host);
	free(rest->url);
	free(rest);
}

void rk_cleanup_rest(struct rk_rest **rest)
{
	rk_rest_close(*rest);
}

void rk_rest_token(struct rk_rest *rest, const char *scheme, const char *token)
{
	rk_wipe(&rest->session);
	free(rest->scheme);
	rest->scheme = scheme ? rk_xstrdup(scheme) : NULL;
	rest->session = scheme ? rk_xstrdup(token) : NULL;
}

/* --- one call ------------------------------------------------------------------------------------------------------------------ */

void rk_rest_reply_clear(struct rk_rest_reply *reply)
{
	rk_str_clear(&reply->body);
	rk_str_clear(&reply->headers);
	*reply = (struct rk_rest_reply)RK_REST_REPLY_INIT;
}

struct sink {
	struct rk_str *to;
	size_t max;
	bool full;
};

static size_t take(char *bytes, size_t size, size_t n, void *ctx)
{
	struct sink *sink = ctx;

	if (sink->to->len + size * n > sink->max) {
		sink->full = true;
		return 0;
	}
	rk_str_addn(sink->to, bytes, size * n);
	return size * n;
}

static int watch_cancel(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	const struct rk_rest *rest = ctx;

	(void)a, (void)b, (void)c, (void)d;
	return rest->cancel && *rest->cancel;
}

static struct curl_slist *header(struct curl_slist *list, const char *text)
{
	struct curl_slist *longer = curl_slist_append(list, text);

	return longer ? longer : list;
}

static struct curl_slist *authorize(const struct rk_rest *rest, struct curl_slist *list)
{
	const char *scheme = rest->session ? rest->scheme : rest->auth == RK_REST_TOKEN_BASIC ? "Basic" : "Bearer";
	const char *token = rest->session ? rest->session : rest->given.token;

	if (!token) {
		curl_easy_setopt(rest->curl, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
		curl_easy_setopt(rest->curl, CURLOPT_USERNAME, rest->given.user);
		curl_easy_setopt(rest->curl, CURLOPT_PASSWORD, rest->given.password);
		return list;
	}
	char *line = rk_xasprintf("Authorization: %s %s", scheme, token);
	list = header(list, line);
	rk_wipe(&line);
	return list;
}

static bool reads(const char *method)
{
	return rk_streq(method, "GET") || rk_streq(method, "HEAD");
}

static char *full_url(const struct rk_rest *rest, const struct rk_rest_request *request)
{
	const char *root = strstr(rest->url, "://");

	if (!request->absolute)
		return rk_xasprintf("%s%s", rest->url, request->path ? request->path : "");
	root = root ? root + 3 : rest->url;
	return rk_xasprintf("%.*s%s", (int)(root - rest->url + (long)strcspn(root, "/")), rest->url, request->absolute);
}

static void set_limits(const struct rk_rest *rest, CURL *c)
{
	long stall_s = (rest->stall_ms + 999) / 1000;

	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_PROXY, "");
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)rest->connect_ms);
	curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)rest->total_ms);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, stall_s);
	curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, watch_cancel);
	curl_easy_setopt(c, CURLOPT_XFERINFODATA, rest);
	if (rest->ca_file) {
		curl_easy_setopt(c, CURLOPT_CAINFO, rest->ca_file);
		curl_easy_setopt(c, CURLOPT_CAPATH, NULL);
	}
}

static struct curl_slist *set_request(const struct rk_rest *rest, const struct rk_rest_request *request, const char *url)
{
	CURL *c = rest->curl;
	struct curl_slist *list = header(NULL, "Accept: application/json");

	curl_easy_setopt(c, CURLOPT_URL, url);
	/* A kept connection that died is one on which libcurl sends the request again by itself: fine for reading, twice the effect else. */
	curl_easy_setopt(c, CURLOPT_FRESH_CONNECT, reads(request->method) ? 0L : 1L);
	if (request->body) {
		curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(request->body));
		curl_easy_setopt(c, CURLOPT_POSTFIELDS, request->body);
		list = header(list, "Content-Type: application/json");
		list = header(list, "Expect:");
	}
	if (rk_streq(request->method, "HEAD"))
		curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
	else
		curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, request->method);
	if (!request->anonymous)
		list = authorize(rest, list);
	for (const char *const *h = request->headers; h && *h; h++)
		list = header(list, *h);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, list);
	return list;
}

static void trace_request(const struct rk_rest *rest, const struct rk_rest_request *request, const char *url)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	if (!rest->trace)
		return;
	rk_str_addf(&text, "%s %s", request->method, url);
	if (request->body) {
		rk_str_addc(&text, '\n');
		rk_rest_mask(&text, request->body, strlen(request->body));
	}
	rk_trace_add(rest->trace, "rest", rest->host, rk_str_text(&text));
}

static void trace_reply(const struct rk_rest *rest, const struct rk_rest_reply *reply, CURLcode code)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	if (!rest->trace)
		return;
	if (code != CURLE_OK)
		rk_str_addf(&text, "no whole answer: %s", curl_easy_strerror(code));
	else
		rk_str_addf(&text, "%d", reply->status);
	if (reply->body.len) {
		rk_str_addc(&text, '\n');
		rk_rest_mask(&text, rk_str_text(&reply->body), reply->body.len);
	}
	rk_trace_add(rest->trace, "rest", rest->host, rk_str_text(&text));
}

/* --- what went wrong ----------------------------------------------------------------------------------------------------------- */

/* The manager's own words, shortened: a known key of its JSON, or the first line. */
static void said(const struct rk_rest_reply *reply, struct rk_str *out)
{
	static const char *const keys[] = { "description", "message", "error", "Error", "detail" };
	struct rk_json *json RK_CLEANUP_JSON = NULL;
	struct rk_err ignored RK_CLEANUP_ERR = RK_ERR_INIT;
	const char *text = NULL, *body = rk_str_text(&reply->body);
	size_t n;

	if (rk_json_parse("answer", body, reply->body.len, &json, &ignored) == 0) {
		const struct rk_jnode *root = rk_json_root(json), *inner = rk_jget(root, "error");
		for (size_t i = 0; i < RK_ARRAY_SIZE(keys) && !text; i++)
			text = rk_jstr(rk_jget(root, keys[i]));
		for (size_t i = 0; i < RK_ARRAY_SIZE(keys) && !text; i++)
			text = rk_jstr(rk_jget(inner, keys[i]));
	}
	text = text ? text : body;
	text += strspn(text, " \t\r\n");
	n = strcspn(text, "\r\n");
	if (n)
		rk_str_add(out, ": ");
	rk_str_add_escaped(out, text, n < SAID_MAX ? n : SAID_MAX);
}

static const struct status_row {
	int first, last, class;
	bool maybe_done;
	const char *message, *hint;
} statuses[] = {
	{ 300, 399, RK_UNREACHABLE, false, "redirects to another place, which is not followed", "write the final URL into the site file" },
	{ 401, 401, RK_UNREACHABLE, false, "does not accept the credentials", "check credentialsFile; a token may have expired" },
	{ 403, 403, RK_UNREACHABLE, false, "does not allow this user to do it", "check the rights of the user in credentialsFile" },
	{ 404, 404, RK_NOT_FOUND, false, "does not have it", NULL },
	{ 410, 410, RK_NOT_FOUND, false, "does not have it any more", NULL },
	{ 408, 408, RK_UNREACHABLE, true, "gave up waiting for the request", NULL },
	{ 409, 409, RK_CONFLICT, false, "reports a conflict", NULL },
	{ 412, 412, RK_CONFLICT, false, "reports that it was changed in the meantime", NULL },
	{ 423, 423, RK_CONFLICT, false, "reports that it is locked", NULL },
	{ 429, 429, RK_UNREACHABLE, false, "is overloaded", NULL },
	{ 400, 499, RK_FAILED, false, "refused the request", NULL },
	{ 500, 599, RK_UNREACHABLE, true, "had an error of its own", NULL },
};

static int judge_status(const struct rk_rest *rest, const char *method, struct rk_rest_reply *reply, struct rk_err *err)
{
	struct rk_str words RK_CLEANUP_STR = RK_STR_INIT;

	if (reply->status >= 200 && reply->status <= 299)
		return 0;
	said(reply, &words);
	for (size_t i = 0; i < RK_ARRAY_SIZE(statuses); i++) {
		const struct status_row *row = &statuses[i];
		if (reply->status < row->first || reply->status > row->last)
			continue;
		reply->maybe_done = row->maybe_done && !reads(method);
		rk_err_set(err, row->class, "\"%s\" %s (%d)%s%s", rest->host, row->message, reply->status, rk_str_text(&words),
			   reply->maybe_done ? "; whether it was done is not known" : "");
		if (row->hint)
			rk_err_hint(err, "%s", row->hint);
		return row->class;
	}
	return rk_err_set(err, RK_UNREACHABLE, "\"%s\" answered with the status %d", rest->host, reply->status);
}

static const struct code_row {
	CURLcode code;
	const char *message, *hint;
} codes[] = {
	{ CURLE_COULDNT_RESOLVE_HOST, "its name cannot be resolved", NULL },
	{ CURLE_COULDNT_CONNECT, "no connection", NULL },
	{ CURLE_PEER_FAILED_VERIFICATION, "its certificate is not the right one", "name the authority that signed it with caFile; the host name must be in it" },
	{ CURLE_SSL_CACERT_BADFILE, "the file of certificate authorities is not usable", "caFile must be PEM" },
	{ CURLE_SSL_CONNECT_ERROR, "the TLS handshake failed", NULL },
	{ CURLE_OPERATION_TIMEDOUT, "no answer in time", NULL },
	{ CURLE_GOT_NOTHING, "the connection was cut without an answer", NULL },
	{ CURLE_RECV_ERROR, "the connection broke while the answer came", NULL },
	{ CURLE_PARTIAL_FILE, "the answer was cut short", NULL },
	{ CURLE_SEND_ERROR, "the connection broke while the request was sent", NULL },
};

static int judge_code(const struct rk_rest *rest, const char *method, CURLcode code, const char *detail, bool full, struct rk_rest_reply *reply,
		      struct rk_err *err)
{
	const struct code_row *row = NULL;
	long sent = 0;

	curl_easy_getinfo(rest->curl, CURLINFO_REQUEST_SIZE, &sent);
	reply->maybe_done = sent > 0 && !reads(method);
	const char *open = reply->maybe_done ? "; whether it was done is not known" : "";
	if (code == CURLE_ABORTED_BY_CALLBACK)
		return rk_err_set(err, RK_CANCELLED, "cancelled while waiting for \"%s\"%s", rest->host, open);
	if (full)
		return rk_err_set(err, RK_UNREACHABLE, "\"%s\": the answer is longer than %zu bytes%s", rest->host, rest->body_max, open);
	for (size_t i = 0; i < RK_ARRAY_SIZE(codes); i++)
		if (codes[i].code == code)
			row = &codes[i];
	rk_err_set(err, RK_UNREACHABLE, "\"%s\": %s (%s)%s", rest->host, row ? row->message : "the call failed", *detail ? detail : curl_easy_strerror(code), open);
	if (row && row->hint)
		rk_err_hint(err, "%s", row->hint);
	return RK_UNREACHABLE;
}

int rk_rest_call(struct rk_rest *rest, const struct rk_rest_request *request, struct rk_rest_reply *reply, struct rk_err *err)
{
	char *url RK_CLEANUP_FREE = full_url(rest, request), detail[CURL_ERROR_SIZE] = "";
	struct sink body = { &reply->body, rest->body_max, false }, headers = { &reply->headers, HEADERS_MAX, false };
	CURL *c = rest->curl;
	long status = 0;

	rk_rest_reply_clear(reply);
	if (rest->cancel && *rest->cancel)
		return rk_err_set(err, RK_CANCELLED, "cancelled");
	curl_easy_reset(c); /* keeps the connection */
	set_limits(rest, c);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, detail);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, &body);
	curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, take);
	curl_easy_setopt(c, CURLOPT_HEADERDATA, &headers);
	struct curl_slist *list = set_request(rest, request, url);
	trace_request(rest, request, url);
	CURLcode code = curl_easy_perform(c);
	curl_slist_free_all(list);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, NULL);
	curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
	reply->status = (int)status;
	trace_reply(rest, reply, code);
	if (code != CURLE_OK)
		return judge_code(rest, request->method, code, detail, body.full || headers.full, reply, err);
	return judge_status(rest, request->method, reply, err);
}

char *rk_rest_header(const struct rk_rest_reply *reply, const char *name)
{
	size_t n = strlen(name);

	for (const char *line = rk_str_text(&reply->headers); *line;) {
		size_t len = strcspn(line, "\r\n");
		if (len > n && line[n] == ':' && strncasecmp(line, name, n) == 0) {
			const char *value = line + n + 1 + strspn(line + n + 1, " \t");
			return rk_xstrndup(value, len - (size_t)(value - line));
		}
		line += len;
		line += strspn(line, "\r\n");
	}
	return NULL;
}
