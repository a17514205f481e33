#include "inventory/base/str.h"
#include "inventory/store_impl.h"

/* What the store knows now, for a step that is about to remove something: its snapshot may be older than somebody's reservation. */

static int known(struct rk_store *store, const char *sql, const struct rk_db_value *args, size_t n_args, bool *ret, struct rk_err *err)
{
	int64_t n = 0;
	RK_STORE_HOLD(store);
	int rc = rk_store_ready(store, err);

	if (!rc)
		rc = rk_db_one_int(store->db, sql, args, n_args, 0, &n, err);
	*ret = n > 0;
	return rc;
}

int rk_store_nvl_known(struct rk_store *store, const char *rack, int id, const char *name, bool *ret, struct rk_err *err)
{
	const struct rk_db_value args[] = { RK_DB_S(rack), RK_DB_I(id), RK_DB_S(name) };

	return known(store, "SELECT COUNT(*) FROM nvl_partitions WHERE rack = ? AND (id = ? OR name = ?)", args, RK_ARRAY_SIZE(args), ret, err);
}

int rk_store_ib_known(struct rk_store *store, const char *fabric, uint16_t pkey, bool *ret, struct rk_err *err)
{
	const struct rk_db_value args[] = { RK_DB_S(fabric), RK_DB_I(pkey), RK_DB_S(fabric), RK_DB_I(pkey) };

	return known(store, "SELECT (SELECT COUNT(*) FROM ib_partitions WHERE fabric = ? AND pkey = ?) + (SELECT COUNT(*) FROM ib_services WHERE fabric = ? AND pkey = ?)", args, RK_ARRAY_SIZE(args), ret, err);
}

int rk_store_step_params(struct rk_store *store, const char *kind, const char *target, struct rk_arena *arena, const char **ret, struct rk_err *err)
{
	const struct rk_db_value args[] = { RK_DB_S(kind), RK_DB_S(target) };
	RK_STORE_HOLD(store);
	int rc = rk_store_ready(store, err);

	*ret = NULL;
	return rc ? rc : rk_db_one_text(store->db, "SELECT params FROM steps WHERE kind = ? AND target = ? ORDER BY op DESC LIMIT 1", args,
					RK_ARRAY_SIZE(args), arena, ret, err);
}
