#include <stdio.h>
#include <string.h>

#include "inventory/base/str.h"
#include "inventory/store_impl.h"

/* What is said of trays and racks beside the inventory, and survives an import: cordons, faults, leaks, coolant, versions. */

static const char tray_sql[] = "SELECT COUNT(*) FROM trays WHERE name = ?";
static const char rack_sql[] = "SELECT COUNT(*) FROM racks WHERE name = ?";

static int write_mark(struct rk_store *store, const char *kind, const char *name, const char *mark, const char *reason, struct rk_err *err)
{
	if (!reason)
		return rk_db_exec(store->db, err, "DELETE FROM marks WHERE kind = ? AND name = ? AND mark = ?", RK_DB_S(kind), RK_DB_S(name), RK_DB_S(mark));
	return rk_db_exec(store->db, err,
			  "INSERT INTO marks (kind, name, mark, reason, actor, at_ms) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (kind, name, mark)"
			  " DO UPDATE SET reason = excluded.reason, actor = excluded.actor, at_ms = excluded.at_ms",
			  RK_DB_S(kind), RK_DB_S(name), RK_DB_S(mark), RK_DB_S(reason), RK_DB_S(store->by), RK_DB_I(rk_store_now_ms()));
}

static int set_mark(struct rk_store *store, const char *kind, const char *name, const char *mark, const char *reason, struct rk_err *err)
{
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc) {
		rk_store_what(store, "%s %s %s %s", kind, reason ? "marked" : "no longer", mark, name);
		rc = rk_store_need(store, kind, *kind == 't' ? tray_sql : rack_sql, name, err);
	}
	if (!rc)
		rc = write_mark(store, kind, name, mark, reason, err);
	return rk_store_part(store, own, rc, err);
}

int rk_store_set_tray_cordon(struct rk_store *store, const char *tray, const char *reason, struct rk_err *err)
{
	return set_mark(store, "tray", tray, "cordon", reason, err);
}

int rk_store_set_rack_cordon(struct rk_store *store, const char *rack, const char *reason, struct rk_err *err)
{
	return set_mark(store, "rack", rack, "cordon", reason, err);
}

int rk_store_set_tray_faulty(struct rk_store *store, const char *tray, const char *reason, struct rk_err *err)
{
	return set_mark(store, "tray", tray, "faulty", reason, err);
}

static int tray_is_faulty(struct rk_store *store, const char *tray, int64_t *ret, struct rk_err *err)
{
	const struct rk_db_value args[] = { RK_DB_S(tray) };

	return rk_db_one_int(store->db, "SELECT COUNT(*) FROM marks WHERE kind = 'tray' AND mark = 'faulty' AND name = ?", args, RK_ARRAY_SIZE(args), 0, ret, err);
}

int rk_store_add_tray_fault(struct rk_store *store, const char *tray, const char *reason, struct rk_err *err)
{
	bool own;
	int64_t known = 0;
	int rc = rk_store_join(store, &own, err);

	if (!rc)
		rc = tray_is_faulty(store, tray, &known, err);
	if (!rc && !known)
		rc = rk_store_set_tray_faulty(store, tray, reason, err);
	return rk_store_part(store, own, rc, err);
}

int rk_store_set_tray_offline(struct rk_store *store, const char *tray, const char *reason, struct rk_err *err)
{
	return set_mark(store, "tray", tray, "offline", reason, err);
}

int rk_store_set_tray_leak(struct rk_store *store, const char *tray, const char *what, struct rk_err *err)
{
	return set_mark(store, "tray", tray, "leak", what, err);
}

int rk_store_set_rack_coolant(struct rk_store *store, const char *rack, double supply_c, double flow_lpm, struct rk_err *err)
{
	char text[64];

	snprintf(text, sizeof(text), "%.17g %.17g", supply_c, flow_lpm);
	return set_mark(store, "rack", rack, "coolant", supply_c > 0 ? text : NULL, err);
}

int rk_store_set_tray_versions(struct rk_store *store, const char *tray, const char *versions, struct rk_err *err)
{
	return set_mark(store, "tray", tray, "versions", versions, err);
}

/* ---- what was left behind ----------------------------------------------------------------------------------------------------------------- */

/* Marks of these kinds: the place is the name, the number the mark, "NAME WHY" the reason (names have no blanks). */
static const char nvl_kind[] = "nvlink-remains", ib_kind[] = "ib-remains";

static int set_remains(struct rk_store *store, const char *kind, const char *place, int id, const char *name, const char *why, struct rk_err *err)
{
	char *both RK_CLEANUP_FREE = why ? rk_xasprintf("%s %s", name, why) : NULL, number[16];
	bool own;
	int rc = rk_store_join(store, &own, err);

	snprintf(number, sizeof(number), "%d", id);
	if (!rc) {
		rk_store_what(store, "%s of %s %s", kind, place, why ? "left behind" : "gone");
		rc = write_mark(store, kind, place, number, both, err);
	}
	return rk_store_part(store, own, rc, err);
}

int rk_store_set_nvl_remains(struct rk_store *store, const char *rack, int id, const char *name, const char *why, struct rk_err *err)
{
	return set_remains(store, nvl_kind, rack, id, name, why, err);
}

int rk_store_set_ib_remains(struct rk_store *store, const char *fabric, uint16_t pkey, const char *name, const char *why, struct rk_err *err)
{
	return set_remains(store, ib_kind, fabric, pkey, name, why, err);
}

static int not_remains(struct rk_store *store, const char *kind, const char *what, const char *place, int id, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	char number[16];
	const char *both = NULL;

	snprintf(number, sizeof(number), "%d", id);
	const struct rk_db_value args[] = { RK_DB_S(kind), RK_DB_S(place), RK_DB_S(number) };
	int rc = rk_db_one_text(store->db, "SELECT reason FROM marks WHERE kind = ? AND name = ? AND mark = ?", args, RK_ARRAY_SIZE(args), arena, &both, err);
	if (rc || !both)
		return rc;
	rk_err_set(err, RK_CONFLICT, "%s may still be there: %s", what, both + strcspn(both, " ") + 1);
	rk_err_hint(err, "racksh drift --fix removes it once its manager answers");
	return RK_CONFLICT;
}

int rk_store_nvl_not_remains(struct rk_store *store, const char *rack, int id, struct rk_err *err)
{
	char *what RK_CLEANUP_FREE = rk_xasprintf("NVLink partition %s/%d", rack, id);

	return not_remains(store, nvl_kind, what, rack, id, err);
}

int rk_store_ib_not_remains(struct rk_store *store, const char *fabric, uint16_t pkey, struct rk_err *err)
{
	char *what RK_CLEANUP_FREE = rk_xasprintf("PKey %s/0x%04x", fabric, pkey);

	return not_remains(store, ib_kind, what, fabric, pkey, err);
}
