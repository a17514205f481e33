#include <string.h>

#include "inventory/store_impl.h"

/* Who had how many GPUs from when to when: a row per stay of a VM on a tray, closed when it leaves. Kept when VM, cluster and tenant are gone. */

int rk_store_usage_begin(struct rk_store *store, const char *vm, struct rk_err *err)
{
	int64_t id = 0;
	int rc = rk_store_next(store, "usage", &id, err);

	return rc ? rc
		  : rk_db_exec(store->db, err,
			       "INSERT INTO usage_log (id, vm, name, cluster, tenant, size, tray, gpus, from_ms, to_ms)"
			       " SELECT CAST(? AS BIGINT), v.id, v.name, c.name, c.tenant, c.size, v.tray, (SELECT COUNT(*) FROM gpu_alloc a WHERE a.vm = v.id),"
			       " CAST(? AS BIGINT), NULL FROM vms v JOIN clusters c ON c.id = v.cluster WHERE v.name = ?",
			       RK_DB_I(id), RK_DB_I(rk_store_now_ms()), RK_DB_S(vm));
}

int rk_store_usage_end(struct rk_store *store, const char *vm, struct rk_err *err)
{
	return rk_db_exec(store->db, err, "UPDATE usage_log SET to_ms = ? WHERE to_ms IS NULL AND vm IN (SELECT id FROM vms WHERE name = ?)",
			  RK_DB_I(rk_store_now_ms()), RK_DB_S(vm));
}

int rk_store_usage_end_cluster(struct rk_store *store, const char *cluster, struct rk_err *err)
{
	return rk_db_exec(store->db, err,
			  "UPDATE usage_log SET to_ms = ? WHERE to_ms IS NULL AND vm IN (SELECT v.id FROM vms v JOIN clusters c ON c.id = v.cluster WHERE c.name = ?)",
			  RK_DB_I(rk_store_now_ms()), RK_DB_S(cluster));
}

struct list {
	struct rk_arena *arena;
	struct rk_usage_row *items;
	size_t n, cap;
};

static int read_row(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct list *l = ctx;
	struct rk_usage_row *u = rk_vec_push(l);

	(void)err;
	*u = (struct rk_usage_row){
		.tenant = rk_arena_strdup(l->arena, rk_db_text(row, 0)),
		.cluster = rk_arena_strdup(l->arena, rk_db_text(row, 1)),
		.size = rk_arena_strdup(l->arena, rk_db_text(row, 2)),
		.vms = (int)rk_db_int(row, 3),
		.gpu_hours = (double)rk_db_int(row, 4) / 3600e3,
		.vm_hours = (double)rk_db_int(row, 5) / 3600e3,
		.running = rk_db_int(row, 6) > 0,
	};
	return 0;
}

static int by_tenant(const void *a, const void *b)
{
	const struct rk_usage_row *x = a, *y = b;
	int order = strcmp(x->tenant, y->tenant);

	if (!order)
		order = strcmp(x->cluster, y->cluster);
	return order ? order : strcmp(x->size, y->size);
}

/* The part of a stay that lies in the period; what still runs, runs until now. */
#define STAY "(CASE WHEN COALESCE(to_ms, p.now_ms) < p.to_p THEN COALESCE(to_ms, p.now_ms) ELSE p.to_p END - CASE WHEN from_ms > p.from_p THEN from_ms ELSE p.from_p END)"

int rk_store_usage(struct rk_store *store, int64_t from_ms, int64_t to_ms, struct rk_arena *arena, struct rk_usage_row **ret, size_t *ret_n, struct rk_err *err)
{
	struct list l = { .arena = arena };
	RK_STORE_HOLD(store);
	int rc = rk_store_ready(store, err);

	if (!rc && from_ms >= to_ms)
		rc = rk_err_set(err, RK_INVALID, "the period ends before it begins");
	if (!rc)
		rc = rk_db_each(store->db, err, read_row, &l,
				"SELECT tenant, cluster, size, COUNT(DISTINCT vm), SUM(gpus * " STAY "), SUM(" STAY "), SUM(CASE WHEN u.to_ms IS NULL THEN 1 ELSE 0 END)"
				" FROM usage_log u, (SELECT CAST(? AS BIGINT) AS from_p, CAST(? AS BIGINT) AS to_p, CAST(? AS BIGINT) AS now_ms) p"
				" WHERE from_ms < p.to_p AND COALESCE(to_ms, p.now_ms) > p.from_p AND from_ms < COALESCE(to_ms, p.now_ms) GROUP BY tenant, cluster, size",
				RK_DB_I(from_ms), RK_DB_I(to_ms), RK_DB_I(rk_store_now_ms()));
	struct rk_usage_row *out = rc ? NULL : rk_arena_array(arena, l.n, sizeof(*out));
	if (!rc) {
		if (l.n)
			memcpy(out, l.items, l.n * sizeof(*out));
		qsort(out, l.n, sizeof(*out), by_tenant);
		*ret = out;
		*ret_n = l.n;
	}
	free(l.items);
	return rc;
}
