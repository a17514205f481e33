#include "provision/drivers/nvl_driver.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_BYTES = 244 };

struct rk_nvl *rk_nvl_driver_new(const struct rk_nvl_ops *ops, const struct rk_driver_env *env, size_t rack_size, void (*open_rack)(void *rack),
				 void (*close_rack)(void *rack))
{
	struct rk_nvl_driver *d = rk_xcalloc(1, sizeof(*d));

	*d = (struct rk_nvl_driver){ .nvl = { ops, env->site }, .env = *env, .n_racks = env->site->n_racks, .rack_size = rack_size, .close_rack = close_rack };
	d->racks = rk_xcalloc(d->n_racks ? d->n_racks : 1, rack_size);
	for (size_t i = 0; i < d->n_racks; i++) {
		pthread_mutex_init(rk_nvl_rack_state(d, (int)i), NULL);
		if (open_rack)
			open_rack(rk_nvl_rack_state(d, (int)i));
	}
	return &d->nvl;
}

void rk_nvl_driver_free(struct rk_nvl *nvl)
{
	struct rk_nvl_driver *d = (struct rk_nvl_driver *)nvl;

	for (size_t i = 0; i < d->n_racks; i++) {
		d->close_rack(rk_nvl_rack_state(d, (int)i));
		pthread_mutex_destroy(rk_nvl_rack_state(d, (int)i));
	}
	free(d->racks);
	free(d);
}

const struct rk_rack *rk_nvl_rack(const struct rk_nvl_driver *d, int rack)
{
	return &d->nvl.site->racks[rack];
}

void rk_nvl_enter(struct rk_nvl_driver *d, int rack)
{
	pthread_mutex_lock(rk_nvl_rack_state(d, rack));
}

int rk_nvl_leave(struct rk_nvl_driver *d, int rack, int rc, struct rk_err *err)
{
	pthread_mutex_unlock(rk_nvl_rack_state(d, rack));
	if (rc != 0 && rc != RK_CANCELLED)
		rk_err_while(err, "NVLink of rack \"%s\"", rk_nvl_rack(d, rack)->name);
	return rc;
}

int rk_nvl_check_id(int id, bool allow_default, struct rk_err *err)
{
	if (id < 1 || id > RK_NVL_DEFAULT || (id == RK_NVL_DEFAULT && !allow_default))
		return rk_err_set(err, RK_INVALID, "partition %d is not one that racksh makes or removes", id);
	return 0;
}

int rk_nvl_check_name(const char *name, struct rk_err *err)
{
	size_t n = strlen(name);
	bool printable = n >= 1 && n <= NAME_MAX_BYTES;

	for (size_t i = 0; i < n; i++)
		printable &= name[i] >= ' ' && name[i] <= '~';
	return printable && !rk_streq(name, "Default Partition") ? 0 : rk_err_set(err, RK_INVALID, "an NVLink partition cannot have this name");
}

int rk_nvl_cmp_guid(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

int rk_nvl_cmp_live(const void *a, const void *b)
{
	return ((const struct rk_nvl_live *)a)->id - ((const struct rk_nvl_live *)b)->id;
}
