/* The NMX-M driver inside: its handle, and calls that its files share. */
#pragma once
#include "provision/drivers/nmxm_parse.h"
#include "provision/drivers/nvl_driver.h"
#include "provision/drivers/rest_manager.h"

struct rk_nmxm_rest {
	pthread_mutex_t lock;             /* first */
	struct rk_rest_manager rest;
};
static inline struct rk_rest_manager *rk_nmxm_rest(const struct rk_nvl_driver *nmxm, int rack)
{
	return &((struct rk_nmxm_rest *)rk_nvl_rack_state(nmxm, rack))->rest;
}
/* One call with the rack's lock held; *ret: the JSON of the answer, or NULL. */
int rk_nmxm_call(struct rk_nvl_driver *nmxm, int rack, const char *method, const char *path, const char *body, struct rk_rest_reply *reply, struct rk_json **ret,
		 struct rk_err *err);
int rk_nmxm_get(struct rk_nvl_driver *nmxm, int rack, const char *path, struct rk_json **ret, struct rk_err *err);
/* Waits on the driver's clock; RK_CANCELLED after Ctrl-C. */
int rk_nmxm_pause(struct rk_nvl_driver *nmxm, int ms, struct rk_err *err);
/* "66a0..." is a path element: nothing else may get into a URL. */
bool rk_nmxm_is_key(const char *text);
/* A change, until NMX-M says that it is over. Errors may come with the effect; *ret_open: it may yet come. */
int rk_nmxm_operate(struct rk_nvl_driver *nmxm, int rack, const char *method, const char *path, const char *body, bool *ret_open, struct rk_err *err);
