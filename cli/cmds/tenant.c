#include "cli/cmds/common.h"

/* tenant show; its row is in catalog.c. */

static int count_reserved(const struct rk_site *site, int tenant)
{
	int n = 0;

	for (size_t i = 0; i < site->n_reservations; i++)
		n += site->reservations[i].tenant == tenant;
	return n;
}

int rk_cmd_tenant_show(struct rk_call *call, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;
	const char *name = rk_call_arg(call, "TENANT");
	int at, rc = rk_get_tenant(call, name, &at, err), vms = 0, gpus = 0, pkeys = 0;
	const char **clusters = rk_arena_array(call->arena, site->n_clusters, sizeof(*clusters));
	size_t n = 0;

	if (rc)
		return rc;
	for (size_t i = 0; i < site->n_clusters; i++) {
		const struct rk_cluster *c = &site->clusters[i];
		if (c->tenant != at)
			continue;
		clusters[n++] = c->name;
		vms += c->n_vms;
		pkeys += c->ib >= 0;
		for (int v = c->first_vm; v < c->first_vm + c->n_vms; v++)
			gpus += site->vms[v].tray >= 0 ? site->trays[site->vms[v].tray].n_gpus : 0;
	}
	rk_out_row(call->out);
	rk_cell_text(call->out, "name", name);
	rk_cell_list(call->out, "clusters", clusters, n);
	rk_cell_number(call->out, "vms", vms);
	rk_cell_number(call->out, "gpus", gpus);
	rk_cell_number(call->out, "pkeys", pkeys);
	rk_cell_number(call->out, "reservations", count_reserved(site, at));
	if (site->tenants[at].quota_vms)
		rk_cell_number(call->out, "quota_vms", site->tenants[at].quota_vms);
	if (site->tenants[at].quota_pkeys)
		rk_cell_number(call->out, "quota_pkeys", site->tenants[at].quota_pkeys);
	return 0;
}
