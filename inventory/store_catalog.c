#include <stdio.h>
#include <string.h>

#include "inventory/base/str.h"
#include "inventory/store_impl.h"

/* Tenants, images and reservations, one by one. */

static const char tenant_sql[] = "SELECT COUNT(*) FROM tenants WHERE name = ?";
static const char image_sql[] = "SELECT COUNT(*) FROM images WHERE name = ?";

static int there_already(struct rk_store *store, const char *kind, const char *sql, const char *name, struct rk_err *err)
{
	bool there;
	int rc = rk_store_exists(store, sql, name, &there, err);

	return rc || !there ? rc : rk_err_set(err, RK_CONFLICT, "%s \"%s\" exists already", kind, name);
}

static int next_position(struct rk_store *store, const char *sql, int64_t *ret, struct rk_err *err)
{
	return rk_db_one_int(store->db, sql, NULL, 0, 0, ret, err);
}

int rk_store_add_tenant(struct rk_store *store, const char *name, struct rk_err *err)
{
	bool own;
	int64_t pos;
	int rc = rk_store_join(store, &own, err);

	if (!rc) {
		rk_store_what(store, "tenant create %s", name);
		rc = there_already(store, "tenant", tenant_sql, name, err);
	}
	if (!rc)
		rc = next_position(store, "SELECT COALESCE(MAX(pos), -1) + 1 FROM tenants", &pos, err);
	if (!rc)
		rc = rk_db_exec(store->db, err, "INSERT INTO tenants (pos, name, quota_vms, quota_pkeys) VALUES (?, ?, 0, 0)", RK_DB_I(pos),
				RK_DB_S(name));
	return rk_store_part(store, own, rc, err);
}

int rk_store_set_tenant_quota(struct rk_store *store, const char *name, int vms, int pkeys, struct rk_err *err)
{
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc) {
		rk_store_what(store, "quota of tenant %s", name);
		rc = rk_store_need(store, "tenant", tenant_sql, name, err);
	}
	if (!rc)
		rc = rk_db_exec(store->db, err, "UPDATE tenants SET quota_vms = ?, quota_pkeys = ? WHERE name = ?", RK_DB_I(vms), RK_DB_I(pkeys), RK_DB_S(name));
	return rk_store_part(store, own, rc, err);
}

static int note_holder(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	(void)err;
	rk_err_detail(ctx, "%s, by %s", rk_db_text(row, 0), rk_db_text(row, 1));
	return 0;
}

/* RK_CONFLICT with every row of a query as a detail, when it has any. sql: two texts per row. */
static int refuse_when_held(struct rk_store *store, const char *kind, const char *name, const char *sql, const struct rk_db_value *args, size_t n,
			    struct rk_err *err)
{
	RK_CLEANUP_ERR struct rk_err said = RK_ERR_INIT;
	int rc;

	rk_err_set(&said, RK_CONFLICT, "%s \"%s\" is in use", kind, name);
	rc = rk_db_query(store->db, sql, args, n, note_holder, &said, err);
	if (rc || !said.n_details)
		return rc;
	char *first = rk_xstrdup(said.details[0]);
	rk_err_set(&said, RK_CONFLICT, "%s \"%s\" is in use: %s", kind, name, first);
	rk_err_detail(&said, "%s", first);
	free(first);
	if (err)
		rk_err_move(err, &said);
	return RK_CONFLICT;
}

int rk_store_remove_tenant(struct rk_store *store, const char *name, struct rk_err *err)
{
	static const char holders[] = "SELECT 'cluster ' || name, actor FROM clusters WHERE tenant = ? UNION ALL"
				      " SELECT 'reservation ' || id, actor FROM reservations WHERE tenant = ? UNION ALL"
				      " SELECT 'service ' || name, actor FROM ib_services WHERE REPLACE(',' || tenants || ',', ',' || ? || ',', '') <> ',' || tenants || ','";
	const struct rk_db_value args[] = { RK_DB_S(name), RK_DB_S(name), RK_DB_S(name) };
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc) {
		rk_store_what(store, "tenant delete %s", name);
		rc = rk_store_need(store, "tenant", tenant_sql, name, err);
	}
	if (!rc)
		rc = refuse_when_held(store, "tenant", name, holders, args, 3, err);
	if (!rc)
		rc = rk_db_exec(store->db, err, "DELETE FROM tenants WHERE name = ?", RK_DB_S(name));
	return rk_store_part(store, own, rc, err);
}

int rk_store_add_image(struct rk_store *store, const struct rk_image *image, struct rk_err *err)
{
	bool own;
	int64_t pos;
	int rc = rk_store_join(store, &own, err);

	if (!rc) {
		rk_store_what(store, "image add %s", image->name);
		rc = there_already(store, "image", image_sql, image->name, err);
	}
	if (!rc)
		rc = next_position(store, "SELECT COALESCE(MAX(pos), -1) + 1 FROM images", &pos, err);
	if (!rc)
		rc = rk_db_exec(store->db, err, "INSERT INTO images (" RK_IMAGE_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", RK_DB_I(pos),
				RK_IMAGE_VALUES(image));
	return rk_store_part(store, own, rc, err);
}

int rk_store_remove_image(struct rk_store *store, const char *name, struct rk_err *err)
{
	const struct rk_db_value arg = RK_DB_S(name);
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc) {
		rk_store_what(store, "image remove %s", name);
		rc = rk_store_need(store, "image", image_sql, name, err);
	}
	if (!rc)
		rc = refuse_when_held(store, "image", name, "SELECT 'cluster ' || name, actor FROM clusters WHERE image = ?", &arg, 1, err);
	if (!rc)
		rc = rk_db_exec(store->db, err, "DELETE FROM images WHERE name = ?", RK_DB_S(name));
	return rk_store_part(store, own, rc, err);
}

int rk_store_add_reservation(struct rk_store *store, const char *tenant, const char *racks, int count, int64_t from_ms, int64_t to_ms,
			     int64_t *ret_id, struct rk_err *err)
{
	bool own;
	int64_t id = 0;
	int rc = rk_store_join(store, &own, err);

	if (!rc) {
		rk_store_what(store, "reserve create for %s", tenant);
		rc = rk_store_need(store, "tenant", tenant_sql, tenant, err);
	}
	if (!rc)
		rc = rk_store_next(store, "reservation", &id, err);
	if (!rc)
		rc = rk_db_exec(store->db, err, "INSERT INTO reservations (id, tenant, racks, trays, from_ms, to_ms, actor) VALUES (?, ?, ?, ?, ?, ?, ?)",
				RK_DB_I(id), RK_DB_S(tenant), RK_DB_S(racks), RK_DB_I(count), RK_DB_I(from_ms), RK_DB_I(to_ms), RK_DB_S(store->by));
	rc = rk_store_part(store, own, rc, err);
	if (!rc)
		*ret_id = id;
	return rc;
}

int rk_store_remove_reservation(struct rk_store *store, int64_t id, struct rk_err *err)
{
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc) {
		rk_store_what(store, "reserve cancel %lld", (long long)id);
		rc = rk_db_exec(store->db, err, "DELETE FROM reservations WHERE id = ?", RK_DB_I(id));
	}
	if (!rc && !store->db->changed)
		rc = rk_err_set(err, RK_NOT_FOUND, "no reservation %lld", (long long)id);
	return rk_store_part(store, own, rc, err);
}
