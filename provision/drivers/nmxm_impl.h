/* The NMX-M driver inside: its handle, and calls that its files share. */
#pragma once
#include <pthread.h>

#include "provision/drivers/nmxm_parse.h"
#include "provision/drivers/rest_manager.h"
#include "provision/nvl.h"

struct rk_nmxm_rest {
	pthread_mutex_t lock;
	struct rk_rest_manager rest;
};
struct rk_nmxm {
	struct rk_nvl nvl;
	struct rk_driver_env env;
	struct rk_nmxm_rest *racks;
	size_t n_racks;
};
const struct rk_rack *rk_nmxm_rack(const struct rk_nmxm *nmxm, int rack);
/* One call with the rack's lock held; *ret: the JSON of the answer, or NULL. */
int rk_nmxm_call(struct rk_nmxm *nmxm, int rack, const char *method, const char *path, const char *body, struct rk_rest_reply *reply, struct rk_json **ret,
		 struct rk_err *err);
int rk_nmxm_get(struct rk_nmxm *nmxm, int rack, const char *path, struct rk_json **ret, struct rk_err *err);
/* Waits on the driver's clock; RK_CANCELLED after Ctrl-C. */
int rk_nmxm_pause(struct rk_nmxm *nmxm, int ms, struct rk_err *err);
/* "66a0..." is a path element: nothing else may get into a URL. */
bool rk_nmxm_is_key(const char *text);
/* A change, until NMX-M says that it is over. Errors may come with the effect; *ret_open: it may yet come. */
int rk_nmxm_operate(struct rk_nmxm *nmxm, int rack, const char *method, const char *path, const char *body, bool *ret_open, struct rk_err *err);
