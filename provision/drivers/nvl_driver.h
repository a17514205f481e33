/* What the NVLink drivers have in common: a handle with a state and a lock per rack, and what a partition may be called. */
#pragma once
#include <pthread.h>

#include "provision/nvl.h"

struct rk_nvl_driver {
	struct rk_nvl nvl;                /* first */
	struct rk_driver_env env;
	size_t n_racks, rack_size;
	char *racks;                      /* n_racks states of rack_size bytes, each of which begins with its pthread_mutex_t */
	void (*close_rack)(void *rack);
};
/* States are zeroed, then given to open_rack (may be NULL). Freed by rk_nvl_driver_free, which is the driver's `free`. */
struct rk_nvl *rk_nvl_driver_new(const struct rk_nvl_ops *ops, const struct rk_driver_env *env, size_t rack_size, void (*open_rack)(void *rack),
				 void (*close_rack)(void *rack));
void rk_nvl_driver_free(struct rk_nvl *nvl);
static inline void *rk_nvl_rack_state(const struct rk_nvl_driver *d, int rack)
{
	return d->racks + d->rack_size * (size_t)rack;
}
const struct rk_rack *rk_nvl_rack(const struct rk_nvl_driver *d, int rack);
/* One caller per rack at a time. leave says of which rack an error is, and returns rc. */
void rk_nvl_enter(struct rk_nvl_driver *d, int rack);
int rk_nvl_leave(struct rk_nvl_driver *d, int rack, int rc, struct rk_err *err);

/* RK_INVALID for ids that are no partition's, and for the default one unless that is allowed. */
int rk_nvl_check_id(int id, bool allow_default, struct rk_err *err);
int rk_nvl_check_name(const char *name, struct rk_err *err); /* 1..244 printable ASCII, not that of the default one */

/* For qsort. */
int rk_nvl_cmp_guid(const void *a, const void *b);
int rk_nvl_cmp_live(const void *a, const void *b); /* by id */
