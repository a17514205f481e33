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

/* What is wired as designed is the state to keep. */
static int accept_clean(struct rk_store *store, const char *fabric, const char *text, struct rk_err *err)
{
	RK_CLEANUP(rk_cleanup_topology) struct rk_topology *topology = NULL;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	RK_CLEANUP_SITE struct rk_site *site = NULL;
	struct rk_ib_finding *found;
	size_t n = 0;
	int rc = rk_store_read_site(store, &site, err);

	if (!rc)
		rc = rk_topology_parse(fabric, text, strlen(text), &topology, err);
	if (!rc)
		rk_topology_check(topology, site, rk_find_fabric(site, fabric), arena, &found, &n);
	return rc || n ? rc : rk_store_accept_topology(store, fabric, text, err);
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
	if (!rc)
		rc = accept_clean(store, fabric, text, err);
	return rk_store_part(store, own, rc, err);
}

int rk_store_accept_topology(struct rk_store *store, const char *fabric, const char *text, struct rk_err *err)
{
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc) {
		rk_store_what(store, "fabric %s accepted", fabric);
		rc = rk_store_need(store, "fabric", "SELECT COUNT(*) FROM fabrics WHERE name = ?", fabric, err);
	}
	if (!rc)
		rc = rk_db_exec(store->db, err,
				"INSERT INTO accepted (fabric, body, actor, at_ms) VALUES (?, ?, ?, ?) ON CONFLICT (fabric)"
				" DO UPDATE SET body = excluded.body, actor = excluded.actor, at_ms = excluded.at_ms",
				RK_DB_S(fabric), RK_DB_S(text), RK_DB_S(store->by), RK_DB_I(rk_store_now_ms()));
	return rk_store_part(store, own, rc, err);
}

static int get_accepted(struct rk_store *store, const char *fabric, struct rk_topology **ret, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const struct rk_db_value arg = RK_DB_S(fabric);
	const char *text = NULL;
	RK_STORE_HOLD(store);
	int rc = rk_store_ready(store, err);

	if (!rc)
		rc = rk_db_one_text(store->db, "SELECT body FROM accepted WHERE fabric = ?", &arg, 1, arena, &text, err);
	return rc || !text ? rc : rk_topology_parse("the accepted fabric", text, strlen(text), ret, err);
}

int rk_store_judge_topology(struct rk_store *store, const struct rk_topology *topology, const struct rk_site *site, int fabric, struct rk_arena *arena,
			    struct rk_ib_finding **ret, size_t *ret_n, struct rk_err *err)
{
	RK_CLEANUP(rk_cleanup_topology) struct rk_topology *accepted = NULL;
	struct rk_ib_finding *design, *changes = NULL;
	size_t n_design, n_changes = 0;
	int rc = get_accepted(store, site->fabrics[fabric].name, &accepted, err);

	if (rc)
		return rc;
	rk_topology_check(topology, site, fabric, arena, &design, &n_design);
	if (accepted)
		rk_topology_compare(accepted, topology, arena, &changes, &n_changes);
	*ret = rk_arena_array(arena, n_design + n_changes, sizeof(**ret));
	if (n_design)
		memcpy(*ret, design, n_design * sizeof(*design));
	if (n_changes)
		memcpy(*ret + n_design, changes, n_changes * sizeof(*changes));
	*ret_n = n_design + n_changes;
	return 0;
}

int rk_store_get_topology(struct rk_store *store, const char *fabric, struct rk_arena *arena, const char **ret, struct rk_err *err)
{
	const struct rk_db_value arg = RK_DB_S(fabric);
	RK_STORE_HOLD(store);
	int rc = rk_store_ready(store, err);

	return rc ? rc : rk_db_one_text(store->db, "SELECT body FROM topology WHERE fabric = ?", &arg, 1, arena, ret, err);
}
