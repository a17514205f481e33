/* Redfish of the tray's BMC: leak detectors and power. */
#include <string.h>

#include "provision/health/parse.h"

enum { DETECTORS_MAX = 256 };

struct leak {
	struct rk_metrics *m;
	int n;
	bool list; /* a collection was seen */
};

static void detector(struct leak *leak, const struct rk_jnode *node)
{
	struct rk_metrics *m = leak->m;
	const struct rk_jnode *status = rk_jget(node, "Status");
	const char *id = rk_jstr(rk_jget(node, "Id")), *state = rk_jstr(rk_jget(node, "DetectorState"));
	const char *enabled = rk_jstr(rk_jget(status, "State")), *health = rk_jstr(rk_jget(status, "Health"));
	const char *label = rk_labelf(m, "detector=%.40s", id ? id : "?");

	m->full |= leak->n == DETECTORS_MAX;
	if (leak->n++ >= DETECTORS_MAX)
		return;
	if (enabled && strcmp(enabled, "Enabled") != 0)
		rk_metric_absent(m, "leak.state", label, enabled);
	else if (state || health) /* old firmware tells the health alone */
		rk_metric_value(m, "leak.state", label, state ? state : health, false);
	else
		rk_metric_absent(m, "leak.state", label, id ? "no DetectorState" : "not expanded");
}

/* The collection with its members expanded, or one document per detector. */
static void detectors(void *ctx, const struct rk_jnode *root)
{
	struct leak *leak = ctx;

	leak->list |= rk_jget(root, "Members") != NULL;
	RK_JEACH(member, rk_jget(root, "Members"))
		detector(leak, member);
	if (rk_jget(root, "DetectorState"))
		detector(leak, root);
}

void rk_parse_leak(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	struct leak leak = { .m = ret };
	bool cut;

	rk_json_docs(ret, evidence, detectors, &leak, &cut);
	if (cut)
		rk_metric_absent(ret, "leak.state", "", "truncated");
	if (cut)
		rk_metric_absent(ret, "leak.detectors", "", "truncated");
	else if (leak.n || leak.list)
		rk_metric_number(ret, "leak.detectors", "", leak.n);
}

static void power(void *ctx, const struct rk_jnode *root)
{
	struct rk_metrics *m = ctx;
	const struct rk_jnode *watts = rk_jget(root, "PowerWatts"), *limit = rk_jget(root, "PowerLimitWatts"), *control = rk_jget(root, "PowerControl");
	double v;

	/* EnvironmentMetrics of today, or the Power resource of older BMCs. */
	if (rk_jdouble(rk_jget(watts, "Reading"), &v) || rk_jdouble(rk_jget(control ? control->child : NULL, "PowerConsumedWatts"), &v))
		rk_metric_number(m, "power.watts", "", v);
	else if (watts || control)
		rk_metric_absent(m, "power.watts", "", "no reading");
	if (rk_jdouble(rk_jget(limit, "AllowableMax"), &v))
		rk_metric_number(m, "power.max_watts", "", v);
	if (rk_jdouble(rk_jget(rk_jget(root, "EnergykWh"), "Reading"), &v))
		rk_metric_number(m, "power.kwh", "", v);
	static const char *const own[][2] = { { "module_watts", "power.module_watts" }, { "interval_seconds", "power.interval_seconds" },
					      { "interval_kwh", "power.interval_kwh" }, { "mean_watts", "power.mean_watts" } };
	for (size_t i = 0; i < RK_ARRAY_SIZE(own); i++)
		if (rk_jdouble(rk_jget(rk_jget(root, "racksh"), own[i][0]), &v))
			rk_metric_number(m, own[i][1], "", v);
}

void rk_parse_power(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	bool cut;

	if (rk_json_docs(ret, evidence, power, ret, &cut) == 0 && cut)
		rk_metric_absent(ret, "power.watts", "", "truncated");
}
