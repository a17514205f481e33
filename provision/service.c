#include "provision/service.h"

#include <inttypes.h>
#include <string.h>

#include "inventory/base/map.h"
#include "provision/cluster_impl.h"

enum { CREATE_TRIES = 5 };

/* ---- what is asked for ------------------------------------------------------------------------------------------------------------------ */

static int find_fabric(const struct rk_site *site, const char *name, int *ret, struct rk_err *err)
{
	*ret = name ? rk_find_fabric(site, name) : site->n_fabrics == 1 ? 0 : RK_NONE;
	if (*ret >= 0)
		return 0;
	if (name)
		return rk_err_set(err, RK_NOT_FOUND, "no InfiniBand fabric \"%s\"", name);
	rk_err_set(err, RK_INVALID, "the site has %zu InfiniBand fabrics", site->n_fabrics);
	rk_err_hint(err, "say which: --fabric NAME");
	return RK_INVALID;
}

static int find_key(const struct rk_site *site, long pkey, int fabric, uint16_t *ret, struct rk_err *err)
{
	const struct rk_fabric *f = &site->fabrics[fabric];

	if (!pkey)
		return rk_store_free_pkey(site, fabric, ret, err);
	if (pkey < f->pkey_first || pkey > f->pkey_last)
		return rk_err_set(err, RK_INVALID, "key 0x%04lx is not of the pool 0x%04x-0x%04x of fabric \"%s\"", (unsigned long)pkey, f->pkey_first, f->pkey_last, f->name);
	*ret = (uint16_t)pkey;
	for (size_t i = 0; i < site->n_ib_partitions; i++)
		if (site->ib_partitions[i].fabric == fabric && site->ib_partitions[i].pkey == *ret)
			return rk_err_set(err, RK_CONFLICT, "key 0x%04x is that of cluster \"%s\"", *ret, site->clusters[site->ib_partitions[i].cluster].name);
	const struct rk_ib_service *other = rk_ib_service_of(site, fabric, *ret);
	return other ? rk_err_set(err, RK_CONFLICT, "key 0x%04x is that of service \"%s\"", *ret, other->name) : 0;
}

static int find_tenants(const struct rk_site *site, const struct rk_service_wish *wish, struct rk_arena *arena, struct rk_ib_service *ret, struct rk_err *err)
{
	ret->all = !wish->tenants;
	ret->tenants = rk_arena_array(arena, wish->n_tenants, sizeof(*ret->tenants));
	for (size_t i = 0; wish->tenants && i < wish->n_tenants; i++) {
		int tenant = rk_find_tenant(site, wish->tenants[i]);
		if (tenant < 0)
			return rk_err_set(err, RK_NOT_FOUND, "no tenant \"%s\"", wish->tenants[i]);
		for (size_t k = 0; k < ret->n_tenants; k++)
			if (ret->tenants[k] == tenant)
				return rk_err_set(err, RK_INVALID, "tenant \"%s\" is named twice", wish->tenants[i]);
		ret->tenants[ret->n_tenants++] = tenant;
	}
	return 0;
}

/* A port of a tenant that were a server would reach every other tenant, and every tray of the inventory may get one. */
static int check_server(const struct rk_site *site, uint64_t guid, struct rk_map *seen, struct rk_err *err)
{
	int hca = rk_find_hca_guid(site, guid), tray = hca < 0 ? RK_NONE : site->hcas[hca].tray;

	if (!guid)
		return rk_err_set(err, RK_INVALID, "0 is no port GUID");
	if (!rk_map_add_u64(seen, guid, 0, NULL))
		return rk_err_set(err, RK_INVALID, "server 0x%016" PRIx64 " is named twice", guid);
	if (tray == RK_NONE)
		return 0;
	if (site->trays[tray].vm != RK_NONE)
		return rk_err_set(err, RK_CONFLICT, "port 0x%016" PRIx64 " is that of VM %s: a server would reach every tenant", guid, site->vms[site->trays[tray].vm].name);
	return rk_err_set(err, RK_CONFLICT, "port 0x%016" PRIx64 " is that of tray %s: a tenant that gets it would reach every other one", guid, site->trays[tray].name);
}

static int check_servers(const struct rk_site *site, const struct rk_service_wish *wish, struct rk_err *err)
{
	struct rk_map *seen RK_CLEANUP_MAP = rk_map_new();
	int rc = wish->n_servers ? 0 : rk_err_set(err, RK_INVALID, "a service needs servers: --servers with their port GUIDs");

	for (size_t i = 0; !rc && i < wish->n_servers; i++)
		rc = check_server(site, wish->servers[i], seen, err);
	return rc;
}

/* Whose ports may come or go at this moment; an operation that was planned without the service would leave them in it. */
static int check_idle(struct rk_world *world, const struct rk_ib_service *s, struct rk_err *err)
{
	const struct rk_site *site = world->site;

	for (size_t c = 0; c < site->n_clusters; c++)
		if (site->clusters[c].op && rk_ib_serves(s, site->clusters[c].tenant))
			return rk_cluster_held(world, &site->clusters[c], err);
	return 0;
}

int rk_service_check(struct rk_world *world, const struct rk_service_wish *wish, struct rk_arena *arena, struct rk_ib_service *ret, struct rk_err *err)
{
	const struct rk_site *site = world->site;

	*ret = (struct rk_ib_service){ .name = rk_arena_strdup(arena, wish->name), .servers = rk_arena_array(arena, wish->n_servers, sizeof(*ret->servers)),
				       .n_servers = wish->n_servers };
	if (rk_find_ib_service(site, wish->name) >= 0)
		return rk_err_set(err, RK_CONFLICT, "there is a service \"%s\" already", wish->name);
	if (rk_find_cluster(site, wish->name) >= 0)
		return rk_err_set(err, RK_CONFLICT, "there is a cluster \"%s\", and subnet managers call its partition so", wish->name);
	int rc = find_fabric(site, wish->fabric, &ret->fabric, err);
	if (!rc)
		rc = check_servers(site, wish, err);
	if (!rc)
		rc = find_key(site, wish->pkey, ret->fabric, &ret->pkey, err);
	if (!rc)
		rc = find_tenants(site, wish, arena, ret, err);
	for (size_t i = 0; i < wish->n_servers; i++)
		ret->servers[i] = wish->servers[i];
	return rc ? rc : check_idle(world, ret, err);
}

/* ---- steps ------------------------------------------------------------------------------------------------------------------------------- */

static void guids(struct rk_jw *w, const char *key, const uint64_t *list, size_t n)
{
	rk_jw_key(w, key);
	rk_jw_array(w);
	for (size_t i = 0; i < n; i++)
		rk_jw_hex64(w, list[i]);
	rk_jw_end(w);
}

void rk_service_params(const struct rk_site *site, const struct rk_ib_service *s, struct rk_jw *w)
{
	rk_jw_object(w);
	rk_jw_key(w, "fabric");
	rk_jw_str(w, site->fabrics[s->fabric].name);
	rk_jw_key(w, "pkey");
	rk_jw_i64(w, s->pkey);
	rk_jw_key(w, "name");
	rk_jw_str(w, s->name);
	guids(w, "servers", s->servers, s->n_servers);
}

int rk_add_service_step(struct rk_plan *plan, const struct rk_site *site, const struct rk_ib_service *s, const char *kind, const char *params, const int *deps,
			size_t n_deps)
{
	const char *fabric = site->fabrics[s->fabric].name;
	char *target RK_CLEANUP_FREE = rk_xasprintf("%s/0x%04x", fabric, s->pkey), *lane RK_CLEANUP_FREE = rk_xasprintf("ib:%s", fabric);

	return rk_plan_add(plan, kind, target, lane, params, deps, n_deps);
}

static struct rk_plan *whole_plan(const struct rk_site *site, const struct rk_ib_service *s, const char *verb, const char *kind, struct rk_arena *arena)
{
	struct rk_plan *plan = rk_plan_new(rk_arena_printf(arena, "service %s %s", verb, s->name));
	struct rk_str params RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_jw w;

	rk_jw_init(&w, &params, 0);
	rk_jw_object(&w);
	rk_jw_key(&w, "service");
	rk_jw_str(&w, s->name);
	rk_jw_key(&w, "fabric");
	rk_jw_str(&w, site->fabrics[s->fabric].name);
	rk_jw_key(&w, "pkey");
	rk_jw_i64(&w, s->pkey);
	rk_jw_end(&w);
	rk_add_service_step(plan, site, s, kind, rk_str_text(&params), NULL, 0);
	return plan;
}

struct rk_plan *rk_service_create_plan(const struct rk_site *site, const struct rk_ib_service *s, struct rk_arena *arena)
{
	return whole_plan(site, s, "create", "service.make", arena);
}

struct rk_plan *rk_service_delete_plan(const struct rk_site *site, const struct rk_ib_service *s, struct rk_arena *arena)
{
	return whole_plan(site, s, "delete", "service.remove", arena);
}

void rk_add_service_fix(struct rk_plan *plan, const struct rk_site *site, const struct rk_ib_service *s, struct rk_arena *arena)
{
	rk_add_service_step(plan, site, s, "ib.serve", rk_arena_printf(arena, "{\"service\":\"%s\"}", s->name), NULL, 0);
}

static int not_held(struct rk_world *world, const struct rk_ib_service *s, struct rk_err *err)
{
	char *lease RK_CLEANUP_FREE = rk_xasprintf("service:%s", s->name);
	bool held = false;
	int rc = rk_store_lease_held(world->store, lease, &held, err);

	if (rc || !held)
		return rc;
	rk_err_set(err, RK_CONFLICT, "service \"%s\" is held by an operation that makes or deletes it", s->name);
	rk_err_hint(err, "racksh op list; wait for it, resume it or roll it back first");
	return RK_CONFLICT;
}

int rk_service_joins_idle(struct rk_world *world, const struct rk_plan *plan, struct rk_err *err)
{
	const char *kind, *target, *ignored;
	int rc = 0, id;

	for (size_t i = 0; !rc && i < rk_plan_count(plan); i++) {
		rk_plan_step(plan, i, &id, &kind, &target, &ignored);
		for (size_t k = 0; !rc && rk_streq(kind, "service.join") && k < world->site->n_ib_services; k++) {
			const struct rk_ib_service *s = &world->site->ib_services[k];
			char *key RK_CLEANUP_FREE = rk_xasprintf("%s/0x%04x", world->site->fabrics[s->fabric].name, s->pkey);
			rc = rk_streq(key, target) ? not_held(world, s, err) : 0;
		}
	}
	return rc;
}

/* ---- operations --------------------------------------------------------------------------------------------------------------------------- */

static int run(struct rk_world *world, const struct rk_ib_service *s, const char *type, struct rk_plan *plan,
	       int (*reserve)(struct rk_world *world, const struct rk_change *change, int64_t op, struct rk_err *err), int64_t *ret_op, struct rk_err *err)
{
	char *params RK_CLEANUP_FREE = rk_xasprintf("{\"type\":\"%s\",\"service\":\"%s\"}", type, s->name), *lease RK_CLEANUP_FREE = rk_xasprintf("service:%s", s->name);
	const struct rk_change change = { .type = type, .lease = lease, .purpose = type, .plan = plan, .params = params, .reserve = reserve, .data = s };
	int rc = rk_change_run(world, &change, ret_op, err);

	rk_plan_free(plan);
	return rc;
}

static int reserve_row(struct rk_world *world, const struct rk_change *change, int64_t op, struct rk_err *err)
{
	const struct rk_ib_service *s = change->data;
	const char **names RK_CLEANUP_FREE = rk_xcalloc(s->n_tenants + 1, sizeof(*names));

	(void)op;
	for (size_t i = 0; i < s->n_tenants; i++)
		names[i] = world->site->tenants[s->tenants[i]].name;
	const struct rk_new_service row = { s->name, world->site->fabrics[s->fabric].name, s->pkey, s->servers, s->n_servers, s->all ? NULL : names, s->n_tenants };
	return rk_store_add_service(world->store, &row, err);
}

int rk_service_create(struct rk_world *world, const struct rk_ib_service *s, int64_t *ret_op, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();

	return run(world, s, "service.create", rk_service_create_plan(world->site, s, arena), reserve_row, ret_op, err);
}

int rk_service_create_wish(struct rk_world *world, const struct rk_service_wish *wish, struct rk_arena *arena, struct rk_ib_service *ret, int64_t *ret_op,
			   struct rk_err *err)
{
	int rc = RK_CONFLICT;
	bool again = true;

	*ret_op = 0;
	for (int tries = 0; again && tries < CREATE_TRIES; tries++) {
		rk_err_clear(err);
		rc = tries ? rk_world_refresh(world, err) : 0;
		if (!rc)
			rc = rk_service_check(world, wish, arena, ret, err);
		if (rc)
			return rc;
		rc = rk_service_create(world, ret, ret_op, err);
		again = rc == RK_CONFLICT && !*ret_op && !world->bundle;
	}
	return rc;
}

int rk_service_delete(struct rk_world *world, const struct rk_ib_service *s, int64_t *ret_op, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	int rc = check_idle(world, s, err);

	*ret_op = 0;
	return rc ? rc : run(world, s, "service.delete", rk_service_delete_plan(world->site, s, arena), NULL, ret_op, err);
}

int rk_service_forget(struct rk_world *world, const char *name, struct rk_err *err)
{
	int rc = rk_store_remove_service(world->store, name, err);

	if (rc == RK_NOT_FOUND)
		rk_err_clear(err);
	return rc == RK_NOT_FOUND ? 0 : rc;
}

int rk_finish_service_create(struct rk_world *world, int64_t op, const struct rk_jnode *params, enum rk_op_end end, struct rk_err *err)
{
	(void)op;
	return end == RK_OP_UNDONE ? rk_service_forget(world, rk_jstr(rk_jget(params, "service")), err) : 0;
}

int rk_finish_service_delete(struct rk_world *world, int64_t op, const struct rk_jnode *params, enum rk_op_end end, struct rk_err *err)
{
	(void)op;
	return end == RK_OP_DONE ? rk_service_forget(world, rk_jstr(rk_jget(params, "service")), err) : 0;
}
