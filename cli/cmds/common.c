#include <stddef.h>
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
	else if (n)
		rk_err_hint(err, n == 1 ? "there is %s" : "there are %s and others", names[0]);
	return RK_NOT_FOUND;
}

/* The names of an array of structs that have one: where it begins, how many, how long each is, where the name is in it. */
#define NAMED(items, n) (items), (n), sizeof(*(items)), offsetof(__typeof__(*(items)), name)

static int get(struct rk_call *call, const char *what, const char *name, int at, const void *items, size_t n, size_t size, size_t offset, int *ret, struct rk_err *err)
{
	*ret = at;
	if (at >= 0)
		return 0;
	const char **names = rk_arena_array(call->arena, n, sizeof(*names));
	for (size_t i = 0; i < n; i++)
		memcpy(&names[i], (const char *)items + i * size + offset, sizeof(names[i]));
	return rk_no_such(what, name, names, n, err);
}

int rk_get_cluster(struct rk_call *call, const char *name, int *ret, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;

	return get(call, "cluster", name, rk_find_cluster(site, name), NAMED(site->clusters, site->n_clusters), ret, err);
}

int rk_get_rack(struct rk_call *call, const char *name, int *ret, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;

	return get(call, "rack", name, rk_find_rack(site, name), NAMED(site->racks, site->n_racks), ret, err);
}

int rk_get_tenant(struct rk_call *call, const char *name, int *ret, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;

	return get(call, "tenant", name, rk_find_tenant(site, name), NAMED(site->tenants, site->n_tenants), ret, err);
}

int rk_get_image(struct rk_call *call, const char *name, int *ret, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;

	return get(call, "image", name, rk_find_image(site, name), NAMED(site->images, site->n_images), ret, err);
}

int rk_get_fabric(struct rk_call *call, const char *name, int *ret, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;

	return get(call, "InfiniBand fabric", name, rk_find_fabric(site, name), NAMED(site->fabrics, site->n_fabrics), ret, err);
}

int rk_get_service(struct rk_call *call, const char *name, int *ret, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;

	return get(call, "service", name, rk_find_ib_service(site, name), NAMED(site->ib_services, site->n_ib_services), ret, err);
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
