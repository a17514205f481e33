#include "provision/power_meter.h"

#include <math.h>

double rk_power_interval_kwh(const struct rk_bmc_reading *now, const struct rk_bmc_reading *before)
{
	bool idle = now->watts == 0 && before->watts == 0;

	return now->kwh > before->kwh || (idle && now->kwh == before->kwh) ? now->kwh - before->kwh : NAN;
}

static void add(struct rk_power_meter *m, const struct rk_bmc_reading *now, const struct rk_bmc_reading *before)
{
	m->kw += now->watts / 1000;
	m->unmetered += isnan(now->watts);
	if (before) {
		m->mean_kw += (now->watts + before->watts) / 2000;
		m->interval_kwh += rk_power_interval_kwh(now, before);
	}
}

void rk_power_sum(const struct rk_site *site, const struct rk_power_now *now, const struct rk_power_now *before, double seconds, const bool *belongs,
		  int switches, struct rk_power_meter *ret)
{
	*ret = (struct rk_power_meter){ .trays = 0 };
	for (size_t t = 0; t < site->n_trays; t++) {
		const struct rk_bmc_reading *r = &now->trays[t];
		if (!belongs[t])
			continue;
		ret->trays++;
		ret->on += r->power == RK_POWER_ON || r->power == RK_POWER_CHANGING;
		ret->off += r->power == RK_POWER_OFF;
		ret->unknown += r->power == RK_POWER_UNKNOWN;
		ret->module_kw += r->module_watts / 1000;
		add(ret, r, before ? &before->trays[t] : NULL);
	}
	int n = switches == RK_NONE ? 0 : site->profiles[site->racks[switches].profile].switch_trays;
	for (int s = 0; s < n && s < RK_SWITCHES_MAX; s++)
		add(ret, &now->switches[switches][s], before ? &before->switches[switches][s] : NULL);
	if (!before || seconds <= 0)
		ret->interval_kwh = ret->mean_kw = NAN;
	else if (!isnan(ret->interval_kwh))
		ret->mean_kw = ret->interval_kwh / (seconds / 3600);
}
