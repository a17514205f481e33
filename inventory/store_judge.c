#include <stdlib.h>
#include <string.h>

#include "inventory/site_check.h"
#include "inventory/store_impl.h"
#include "inventory/topology.h"

/* The checks of a stored site that need the store. */

static int judge_store(struct rk_store *store, struct rk_site_findings *found, struct rk_err *err)
{
	RK_CLEANUP_ERR struct rk_err said = RK_ERR_INIT;
	int rc = rk_store_check(store, &said);

	if (rc && rc != RK_UNHEALTHY) {
		rk_err_move(err, &said);
		return rc;
	}
	for (size_t i = 0; i < said.n_details; i++)
		rk_site_finding_add(found, "store", "fail", rk_store_uri(store), said.hint, "%s", said.details[i]);
	return 0;
}

static int judge_fabric(struct rk_store *store, const struct rk_site *site, int fabric, struct rk_site_findings *found, struct rk_err *err)
{
	RK_CLEANUP(rk_cleanup_topology) struct rk_topology *topology = NULL;
	const char *name = site->fabrics[fabric].name, *text = NULL;
	struct rk_ib_finding *wiring;
	size_t n;
	int rc = rk_store_get_topology(store, name, found->arena, &text, err);

	if (rc || !text)
		return rc;
	rc = rk_topology_parse(name, text, strlen(text), &topology, err);
	if (rc)
		return rc;
	rc = rk_store_judge_topology(store, topology, site, fabric, found->arena, &wiring, &n, err);
	for (size_t i = 0; !rc && i < n; i++)
		rk_site_finding_add(found, "wiring", rk_streq(wiring[i].kind, "unknown") ? "unknown" : "fail", wiring[i].object, wiring[i].hint, "%s: %s", wiring[i].kind, wiring[i].message);
	return rc;
}

int rk_store_judge(struct rk_store *store, const struct rk_site *site, struct rk_site_findings *found, struct rk_err *err)
{
	int rc = judge_store(store, found, err);

	rk_site_check(site, found);
	for (size_t i = 0; i < site->n_fabrics && !rc; i++)
		rc = judge_fabric(store, site, (int)i, found, err);
	return rc;
}
