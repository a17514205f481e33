#include "inventory/model.h"

static const struct rk_remains *find(const struct rk_site *site, int rack, int fabric, int id)
{
	for (size_t i = 0; i < site->n_remains; i++) {
		const struct rk_remains *r = &site->remains[i];
		if (r->rack == rack && r->fabric == fabric && r->id == id)
			return r;
	}
	return NULL;
}

const struct rk_remains *rk_nvl_remains(const struct rk_site *site, int rack, int id)
{
	return find(site, rack, RK_NONE, id);
}

const struct rk_remains *rk_ib_remains(const struct rk_site *site, int fabric, unsigned pkey)
{
	return find(site, RK_NONE, fabric, (int)pkey);
}
