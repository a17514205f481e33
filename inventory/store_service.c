#include <inttypes.h>
#include <string.h>

#include "inventory/base/str.h"
#include "inventory/store_impl.h"

/* Partitions that are shared. One key is one thing: a cluster's partition or a service. */

int rk_store_key_not_served(struct rk_store *store, const char *fabric, uint16_t pkey, struct rk_err *err)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	const struct rk_db_value args[] = { RK_DB_S(fabric), RK_DB_I(pkey) };
	const char *name = NULL;
	int rc = rk_db_one_text(store->db, "SELECT name FROM ib_services WHERE fabric = ? AND pkey = ?", args, 2, arena, &name, err);

	return rc || !name ? rc : rk_err_set(err, RK_CONFLICT, "PKey %s/0x%04x is that of service \"%s\"", fabric, pkey, name);
}

int rk_store_port_not_server(struct rk_store *store, uint64_t guid, struct rk_err *err)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	const struct rk_db_value args[] = { RK_DB_S(rk_arena_printf(arena, "0x%016" PRIx64, guid)) };
	const char *name = NULL;
	int rc = rk_db_one_text(store->db, "SELECT name FROM ib_services WHERE REPLACE(servers, ?, '') <> servers", args, 1, arena, &name, err);

	return rc || !name ? rc : rk_err_set(err, RK_CONFLICT, "port 0x%016" PRIx64 " is a server of service \"%s\"", guid, name);
}

static int is_free(struct rk_store *store, const struct rk_new_service *s, struct rk_err *err)
{
	const struct rk_db_value name[] = { RK_DB_S(s->name) }, key[] = { RK_DB_S(s->fabric), RK_DB_I(s->pkey) };
	int64_t n = 0;
	int rc = rk_db_one_int(store->db, "SELECT COUNT(*) FROM ib_services WHERE name = ?", name, 1, 0, &n, err);

	if (!rc && n)
		return rk_err_set(err, RK_CONFLICT, "there is a service \"%s\" already", s->name);
	if (!rc)
		rc = rk_store_key_not_served(store, s->fabric, s->pkey, err);
	if (!rc)
		rc = rk_store_ib_not_remains(store, s->fabric, s->pkey, err);
	if (!rc)
		rc = rk_db_one_int(store->db, "SELECT COUNT(*) FROM ib_partitions WHERE fabric = ? AND pkey = ?", key, 2, 0, &n, err);
	return rc || !n ? rc : rk_err_set(err, RK_CONFLICT, "PKey %s/0x%04x is that of a cluster", s->fabric, s->pkey);
}

static int insert(struct rk_store *store, const struct rk_new_service *s, struct rk_err *err)
{
	struct rk_str servers RK_CLEANUP_STR = RK_STR_INIT, tenants RK_CLEANUP_STR = RK_STR_INIT;

	for (size_t i = 0; i < s->n_servers; i++)
		rk_str_addf(&servers, "%s0x%016" PRIx64, i ? " " : "", s->servers[i]);
	for (size_t i = 0; s->tenants && i < s->n_tenants; i++)
		rk_str_addf(&tenants, "%s%s", i ? "," : "", s->tenants[i]);
	return rk_db_exec(store->db, err, "INSERT INTO ib_services (name, fabric, pkey, servers, tenants, actor, at_ms, revision) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
			  RK_DB_S(s->name), RK_DB_S(s->fabric), RK_DB_I(s->pkey), RK_DB_S(rk_str_text(&servers)), RK_DB_S(s->tenants ? rk_str_text(&tenants) : NULL),
			  RK_DB_S(store->by), RK_DB_I(rk_store_now_ms()), RK_DB_I(store->revision + 1));
}

int rk_store_add_service(struct rk_store *store, const struct rk_new_service *s, struct rk_err *err)
{
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc) {
		rk_store_what(store, "service %s", s->name);
		rc = rk_store_need(store, "fabric", "SELECT COUNT(*) FROM fabrics WHERE name = ?", s->fabric, err);
	}
	for (size_t i = 0; !rc && s->tenants && i < s->n_tenants; i++)
		rc = rk_store_need(store, "tenant", "SELECT COUNT(*) FROM tenants WHERE name = ?", s->tenants[i], err);
	if (!rc)
		rc = is_free(store, s, err);
	if (!rc)
		rc = insert(store, s, err);
	return rk_store_part(store, own, rc, err);
}

int rk_store_remove_service(struct rk_store *store, const char *name, struct rk_err *err)
{
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc) {
		rk_store_what(store, "deletion of service %s", name);
		rc = rk_store_need(store, "service", "SELECT COUNT(*) FROM ib_services WHERE name = ?", name, err);
	}
	if (!rc)
		rc = rk_db_exec(store->db, err, "DELETE FROM ib_services WHERE name = ?", RK_DB_S(name));
	return rk_store_part(store, own, rc, err);
}
