#include <string.h>

#include "inventory/base/json.h"
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

int rk_store_service_known(struct rk_store *store, const char *name, const char *fabric, uint16_t pkey, bool *ret, struct rk_err *err)
{
	const struct rk_db_value args[] = { RK_DB_S(name), RK_DB_S(fabric), RK_DB_I(pkey) };

	return known(store, "SELECT COUNT(*) FROM ib_services WHERE name = ? AND fabric = ? AND pkey = ?", args, RK_ARRAY_SIZE(args), ret, err);
}

struct making {
	int id;
	const char *name;
	bool found;
};

static int look_at_step(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	struct making *m = ctx;
	const char *params = rk_db_text(row, 0);
	uint64_t id;

	(void)err;
	if (!params || rk_json_parse("params", params, strlen(params), &json, NULL))
		return 0;
	const struct rk_jnode *root = rk_json_root(json);
	m->found |= rk_streq(rk_jstr(rk_jget(root, "name")), m->name) && (m->id == RK_NONE || (rk_ju64(rk_jget(root, "id"), &id) && id == (uint64_t)m->id));
	return 0;
}

int rk_store_nvl_made(struct rk_store *store, const char *rack, int id, const char *name, bool *ret, struct rk_err *err)
{
	char *prefix RK_CLEANUP_FREE = rk_xasprintf("%s/", rack);
	struct making m = { id, name, false };
	RK_STORE_HOLD(store);
	int rc = rk_store_ready(store, err);

	if (!rc)
		rc = rk_db_each(store->db, err, look_at_step, &m, "SELECT params FROM steps WHERE kind = 'nvl.partition' AND substr(target, 1, ?) = ?",
				RK_DB_I((int64_t)strlen(prefix)), RK_DB_S(prefix));
	*ret = m.found;
	return rc;
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
