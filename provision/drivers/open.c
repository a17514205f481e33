/* Chooses drivers by the names in the site file. */
#include "provision/drivers/session.h"

int rk_nvl_open(const struct rk_driver_env *env, struct rk_nvl **ret, struct rk_err *err)
{
	for (size_t i = 0; i < env->site->n_racks; i++) {
		const struct rk_rack *rack = &env->site->racks[i];
		if (rack->nvlink.driver && !rk_streq(rack->nvlink.driver, "nvos")) {
			rk_err_set(err, RK_INVALID, "rack \"%s\": there is no NVLink driver \"%s\"", rack->name, rack->nvlink.driver);
			rk_err_hint(err, "this racksh drives \"nvos\" (the NVOS command line over SSH)");
			return RK_INVALID;
		}
	}
	return rk_nvl_nvos(env, ret, err);
}

int rk_ib_open(const struct rk_driver_env *env, struct rk_ib **ret, struct rk_err *err)
{
	for (size_t i = 0; i < env->site->n_fabrics; i++) {
		const struct rk_fabric *fabric = &env->site->fabrics[i];
		if (fabric->manager.driver && !rk_streq(fabric->manager.driver, "opensm")) {
			rk_err_set(err, RK_INVALID, "fabric \"%s\": there is no InfiniBand driver \"%s\"", fabric->name, fabric->manager.driver);
			rk_err_hint(err, "this racksh drives \"opensm\" (its partitions file over SSH)");
			return RK_INVALID;
		}
	}
	return rk_ib_opensm(env, ret, err);
}
