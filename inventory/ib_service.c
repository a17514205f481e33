#include "inventory/model.h"
#include "inventory/base/str.h"

int rk_find_ib_service(const struct rk_site *site, const char *name)
{
	for (size_t i = 0; i < site->n_ib_services; i++)
		if (rk_streq(site->ib_services[i].name, name))
			return (int)i;
	return RK_NONE;
}

const struct rk_ib_service *rk_ib_service_of(const struct rk_site *site, int fabric, unsigned pkey)
{
	for (size_t i = 0; i < site->n_ib_services; i++)
		if (site->ib_services[i].fabric == fabric && site->ib_services[i].pkey == pkey)
			return &site->ib_services[i];
	return NULL;
}

bool rk_ib_serves(const struct rk_ib_service *service, int tenant)
{
	for (size_t i = 0; i < service->n_tenants; i++)
		if (service->tenants[i] == tenant)
			return true;
	return service->all && tenant != RK_NONE;
}

bool rk_ib_server(const struct rk_ib_service *service, uint64_t port_guid)
{
	for (size_t i = 0; i < service->n_servers; i++)
		if (service->servers[i] == port_guid)
			return true;
	return false;
}

bool rk_ib_service_has(const struct rk_site *site, const struct rk_ib_service *s, int hca)
{
	int vm = site->hcas[hca].fabric == s->fabric ? site->trays[site->hcas[hca].tray].vm : RK_NONE;
	const struct rk_cluster *c = vm == RK_NONE ? NULL : &site->clusters[site->vms[vm].cluster];

	return c && c->ib >= 0 && site->ib_partitions[c->ib].fabric == s->fabric && rk_ib_serves(s, c->tenant);
}
