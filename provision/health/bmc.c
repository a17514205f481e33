/* Redfish of the tray's BMC: leak detectors and power. */
#include <string.h>

#include "provision/health/parse.h"

static void detectors(void *ctx, const struct rk_jnode *root)
{
	struct rk_metrics *m = ctx;
	int n = 0;

	RK_JEACH(member, rk_jget(root, "Members")) {
		const char *id = rk_jstr(rk_jget(member, "Id")), *state = rk_jstr(rk_jget(member, "DetectorState"));
		const char *enabled = rk_jstr(rk_jget(rk_jget(member, "Status"), "State"));
		const char *label = rk_labelf(m, "detector=%.40s", id ? id : "?");
		if (n++ > 256)
			return;
		if (enabled && strcmp(enabled, "Enabled") != 0)
			rk_metric_absent(m, "leak.state", label, enabled);
		else if (state)
			rk_metric_value(m, "leak.state", label, state, false);
		else
			rk_metric_absent(m, "leak.state", label, id ? "no DetectorState" : "not expanded");
	}
	if (rk_jget(root, "Members"))
		rk_metric_number(m, "leak.detectors", "", n);
}

void rk_parse_leak(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	bool cut;

	if (rk_json_docs(ret, evidence, detectors, ret, &cut) == 0 && cut)
		rk_metric_absent(ret, "leak.state", "", "truncated");
}

static void power(void *ctx, const struct rk_jnode *root)
{
	struct rk_metrics *m = ctx;
	const struct rk_jnode *watts = rk_jget(root, "PowerWatts"), *limit = rk_jget(root, "PowerLimitWatts");
	double v;

	if (rk_jdouble(rk_jget(watts, "Reading"), &v))
		rk_metric_number(m, "power.watts", "", v);
	else if (watts)
		rk_metric_absent(m, "power.watts", "", "no reading");
	if (rk_jdouble(rk_jget(limit, "AllowableMax"), &v))
		rk_metric_number(m, "power.max_watts", "", v);
}

void rk_parse_power(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	bool cut;

	if (rk_json_docs(ret, evidence, power, ret, &cut) == 0 && cut)
		rk_metric_absent(ret, "power.watts", "", "truncated");
}
