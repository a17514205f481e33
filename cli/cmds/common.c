#include <string.h>

#include "cli/cmds/common.h"

int rk_no_such(const char *what, const char *name, const char *const *names, size_t n, struct rk_err *err)
{
	const char *near = rk_near_name(name, names, n);

	rk_err_set(err, RK_NOT_FOUND, "no %s \"%s\"", what, name);
	if (near)
		rk_err_hint(err, "did you mean \"%s\"?", near);
	else if (n && rk_noun_find(what)) /* every one of these has a list */
		rk_err_hint(err, "racksh %s list", what);
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

int rk_duration_ms(const char *option, const char *text, int *ret, struct rk_err *err)
{
	static const struct {
		const char *unit;
		long ms;
	} units[] = { { "", 1000 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 } };
	size_t digits = strspn(text, "0123456789");
	char *number RK_CLEANUP_FREE = rk_xstrndup(text, digits);
	uint64_t v;

	for (size_t i = 0; i < RK_ARRAY_SIZE(units); i++)
		if (strcmp(text + digits, units[i].unit) == 0 && rk_parse_u64(number, &v) && v && v <= 604800000ul / (uint64_t)units[i].ms) {
			*ret = (int)((long)v * units[i].ms);
			return 0;
		}
	rk_err_set(err, RK_INVALID, "--%s takes a time above 0 and up to a week, not \"%s\"", option, text);
	rk_err_hint(err, "90s, 10m, 2h, or a number of seconds");
	return RK_INVALID;
}

int rk_call_confirm(struct rk_call *call, struct rk_err *err)
{
	const char *within = rk_call_arg(call, "confirm-within");

	return within ? rk_duration_ms("confirm-within", within, &call->world->confirm_ms, err) : 0;
}
