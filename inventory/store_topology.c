#include <string.h>

#include "inventory/base/str.h"
#include "inventory/store_impl.h"
#include "inventory/topology.h"

/* The imported fabrics: their text, and from it the leaf of every port, so that a snapshot need not read the text again. */

struct placing {
	struct rk_site *site;
};

static int place(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct placing *p = ctx;
	const char *body = rk_db_text(row, 1);
	int fabric = rk_find_fabric(p->site, rk_db_text(row, 0));
	RK_CLEANUP(rk_cleanup_topology) struct rk_topology *topology = NULL;

	if (fabric < 0)
		return 0;
	int rc = rk_topology_parse(rk_db_text(row, 0), body, strlen(body), &topology, err);
	if (rc)
		return rc;
	rk_topology_place(topology, p->site, fabric);
	/* Names must outlive the topology. */
	for (size_t i = 0; i < p->site->n_hcas; i++)
		if (p->site->hcas[i].fabric == fabric)
			p->site->hcas[i].leaf = rk_arena_strdup(p->site->arena, p->site->hcas[i].leaf);
	return 0;
}

int rk_store_place_leaves(struct rk_store *store, struct rk_err *err)
{
	RK_CLEANUP_SITE struct rk_site *site = NULL;
	struct rk_db_bulk bulk;
	int64_t fabrics = 0;
	int rc = rk_db_exec(store->db, err, "DELETE FROM leaves");

	if (!rc)
		rc = rk_db_one_int(store->db, "SELECT COUNT(*) FROM topology", NULL, 0, 0, &fabrics, err);
	if (!rc && fabrics)
		rc = rk_store_read_site(store, &site, err);
	if (rc || !fabrics)
		return rc;
	struct placing p = { site };
	rc = rk_db_each(store->db, err, place, &p, "SELECT fabric, body FROM topology");
	if (rc)
		return rc;
	rk_db_bulk_begin(&bulk, store->db, "leaves", "guid, leaf, leaf_port", 3);
	for (size_t i = 0; i < site->n_hcas; i++)
		if (site->hcas[i].leaf && site->hcas[i].port_guid)
			rk_db_bulk_row(&bulk,
				       (const struct rk_db_value[]){ RK_DB_GUID(site->hcas[i].port_guid), RK_DB_S(site->hcas[i].leaf),
								     RK_DB_I(site->hcas[i].leaf_port) },
				       3, err);
	return rk_db_bulk_end(&bulk, err);
}

int rk_store_put_topology(struct rk_store *store, const char *fabric, const char *text, struct rk_err *err)
{
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc) {
		rk_store_what(store, "ib import for %s", fabric);
		rc = rk_store_need(store, "fabric", "SELECT COUNT(*) FROM fabrics WHERE name = ?", fabric, err);
	}
	if (!rc)
		rc = rk_db_exec(store->db, err,
				"INSERT INTO topology (fabric, body, actor, at_ms) VALUES (?, ?, ?, ?) ON CONFLICT (fabric)"
				" DO UPDATE SET body = excluded.body, actor = excluded.actor, at_ms = excluded.at_ms",
				RK_DB_S(fabric), RK_DB_S(text), RK_DB_S(store->by), RK_DB_I(rk_store_now_ms()));
	if (!rc)
		rc = rk_store_place_leaves(store, err);
	return rk_store_part(store, own, rc, err);
}

int rk_store_get_topology(struct rk_store *store, const char *fabric, struct rk_arena *arena, const char **ret, struct rk_err *err)
{
	const struct rk_db_value arg = RK_DB_S(fabric);
	RK_STORE_HOLD(store);
	int rc = rk_store_ready(store, err);

	return rc ? rc : rk_db_one_text(store->db, "SELECT body FROM topology WHERE fabric = ?", &arg, 1, arena, ret, err);
}
