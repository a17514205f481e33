/* A manager of the site file that speaks REST: opened when first used, opened again (credentials are read again) when it no longer lets us in. */
#pragma once
#include "inventory/base/json.h"
#include "provision/hv.h"
#include "provision/rest.h"

struct rk_rest_manager {
	struct rk_rest *rest;             /* NULL: not open; one user at a time */
};
struct rk_rest_base {                     /* appended to the site's URL, unless that has a path of its own */
	const char *path;                 /* "/ufmRest" */
	const char *with_token;           /* instead, when the credentials are a token; NULL: the same */
	enum rk_rest_auth auth;
};
/* *ret_json: the parsed body, NULL when there is none or it is
 * no JSON; may be NULL. Classes as rk_rest_call, and RK_INVALID when the site file names no URL. */
int rk_rest_manager_call(struct rk_rest_manager *m, const struct rk_driver_env *env, const struct rk_manager *manager, const struct rk_rest_base *base,
			 const struct rk_rest_request *request, struct rk_rest_reply *reply, struct rk_json **ret_json,
			 struct rk_err *err);
void rk_rest_manager_close(struct rk_rest_manager *m);
