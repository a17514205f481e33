#include "provision/drivers/rest_manager.h"

#include <string.h>

#include "inventory/base/mem.h"

void rk_rest_manager_close(struct rk_rest_manager *m)
{
	rk_rest_close(m->rest);
	m->rest = NULL;
}

static bool has_path(const char *url)
{
	const char *host = strstr(url, "://"), *slash = strchr(host ? host + 3 : url, '/');

	return slash && slash[1];
}

static int open_rest(struct rk_rest_manager *m, const struct rk_driver_env *env, const struct rk_manager *manager, const struct rk_rest_base *base,
		     struct rk_err *err)
{
	size_t n = manager->url ? strlen(manager->url) : 0;

	if (!n)
		return rk_err_set(err, RK_INVALID, "the site file names no \"url\" for the manager (driver \"%s\")", manager->driver ? manager->driver : "");
	while (n && manager->url[n - 1] == '/')
		n--;
	const char *const paths[] = { base->path, base->with_token };
	for (size_t i = 0; i < RK_ARRAY_SIZE(paths); i++) {
		char *url RK_CLEANUP_FREE = rk_xasprintf("%.*s%s", (int)n, manager->url, has_path(manager->url) ? "" : paths[i]);
		struct rk_rest_conf conf = { .url = url, .credentials_file = manager->credentials_file, .ca_file = manager->ca_file, .auth = base->auth,
					     .total_ms = env->timeout_ms, .trace = env->trace, .cancel = env->cancel };
		int rc = rk_rest_open(&conf, &m->rest, err);
		if (rc || i || !base->with_token || !rk_rest_has_token(m->rest))
			return rc;
		rk_rest_manager_close(m);
	}
	return 0;
}

int rk_rest_manager_call(struct rk_rest_manager *m, const struct rk_driver_env *env, const struct rk_manager *manager, const struct rk_rest_base *base,
			 const struct rk_rest_request *request, struct rk_rest_reply *reply, struct rk_json **ret_json,
			 struct rk_err *err)
{
	bool fresh = !m->rest;
	int rc = fresh ? open_rest(m, env, manager, base, err) : 0;

	if (rc)
		return rc;
	rc = rk_rest_call(m->rest, request, reply, err);
	/* A token that ran out may have been renewed in its file. A call that was not let in did nothing, so it can be made again. */
	if (reply->status == 401 && !fresh) {
		rk_rest_manager_close(m);
		if ((rc = open_rest(m, env, manager, base, err)) != 0)
			return rc;
		rc = rk_rest_call(m->rest, request, reply, err);
	}
	if (ret_json && rk_json_parse("answer", rk_str_text(&reply->body), reply->body.len, ret_json, NULL) != 0)
		*ret_json = NULL;
	return rc;
}
