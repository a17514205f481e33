/* The UFM driver inside: reading (ib_ufm.c) and changing (ufm_change.c). */
#pragma once
#include <pthread.h>

#include "provision/drivers/ib_ssh.h"
#include "provision/drivers/rest_manager.h"
#include "provision/drivers/ufm_parse.h"

struct ufm_fabric {
	pthread_mutex_t lock;
	struct rk_rest_manager rest;
	struct rk_ib_ssh ssh;             /* used when the site names a host */
};
struct ufm {
	struct rk_ib ib;
	struct rk_driver_env env;
	struct ufm_fabric *fabrics;
	size_t n_fabrics;
};
const struct rk_fabric *rk_ufm_fabric(const struct ufm *ufm, int fabric);
/* With the fabric's lock held. *ret NULL when the answer is no JSON; ret may be NULL. */
int rk_ufm_call(struct ufm *ufm, int fabric, const char *method, const char *path, const char *body, struct rk_rest_reply *reply, struct rk_json **ret,
		struct rk_err *err);
/* One key; *ret_there false when UFM does not have it, which it says with 404 or with an empty object. */
int rk_ufm_read(struct ufm *ufm, int fabric, uint16_t pkey, struct rk_arena *arena, struct rk_ib_live *ret, bool *ret_there, struct rk_err *err);
bool rk_ufm_managed(const struct rk_fabric *f, uint64_t pkey);
/* Releases the lock; says in err which fabric it was. Returns rc. */
int rk_ufm_finish(struct ufm *ufm, int fabric, int rc, struct rk_err *err);
int rk_ufm_set(struct rk_ib *ib, int fabric, const struct rk_ib_wanted *wanted, struct rk_err *err);
