#include "cli/cmds/common.h"

int rk_no_such(const char *what, const char *name, const char *const *names, size_t n, struct rk_err *err)
{
	const char *near = rk_near_name(name, names, n);

	rk_err_set(err, RK_NOT_FOUND, "no %s \"%s\"", what, name);
	if (near)
		rk_err_hint(err, "did you mean \"%s\"?", near);
	return RK_NOT_FOUND;
}

int rk_get_cluster(struct rk_call *call, const char *name, int *ret, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;

	*ret = rk_find_cluster(site, name);
	if (*ret >= 0)
		return 0;
	const char **names = rk_arena_array(call->arena, site->n_clusters, sizeof(*names));
	for (size_t i = 0; i < site->n_clusters; i++)
		names[i] = site->clusters[i].name;
	return rk_no_such("cluster", name, names, site->n_clusters, err);
}

int rk_get_rack(struct rk_call *call, const char *name, int *ret, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;

	*ret = rk_find_rack(site, name);
	if (*ret >= 0)
		return 0;
	const char **names = rk_arena_array(call->arena, site->n_racks, sizeof(*names));
	for (size_t i = 0; i < site->n_racks; i++)
		names[i] = site->racks[i].name;
	return rk_no_such("rack", name, names, site->n_racks, err);
}

int rk_in_transaction(struct rk_call *call, int (*change)(struct rk_call *call, const void *data, struct rk_err *err), const void *data,
		      struct rk_err *err)
{
	struct rk_store *store = call->world->store;
	int rc = rk_store_begin(store, call->world->site->revision, err);

	if (rc)
		return rc;
	rc = change(call, data, err);
	if (rc) {
		rk_store_rollback(store);
		return rc;
	}
	return rk_store_commit(store, err);
}
