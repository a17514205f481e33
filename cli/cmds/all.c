#include "cli/cmd.h"

extern const struct rk_noun rk_noun_site, rk_noun_rack, rk_noun_tray, rk_noun_gpu, rk_noun_hca, rk_noun_switch, rk_noun_link, rk_noun_size, rk_noun_image, rk_noun_tenant, rk_noun_cluster,
	rk_noun_vm, rk_noun_nvlink, rk_noun_ib, rk_noun_isolation, rk_noun_validate, rk_noun_profile, rk_noun_report, rk_noun_drift, rk_noun_op, rk_noun_reserve, rk_noun_audit, rk_noun_store,
	rk_noun_help, rk_noun_schema, rk_noun_completion;

const struct rk_noun *const rk_nouns[] = {
	&rk_noun_site, &rk_noun_rack, &rk_noun_tray, &rk_noun_gpu, &rk_noun_hca, &rk_noun_switch, &rk_noun_link, &rk_noun_size, &rk_noun_image, &rk_noun_tenant, &rk_noun_cluster,
	&rk_noun_vm, &rk_noun_nvlink, &rk_noun_ib, &rk_noun_isolation, &rk_noun_validate, &rk_noun_profile, &rk_noun_report, &rk_noun_drift, &rk_noun_op, &rk_noun_reserve, &rk_noun_audit,
	&rk_noun_store, &rk_noun_schema, &rk_noun_completion, &rk_noun_help, NULL,
};
