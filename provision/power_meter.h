/* Sums of what BMCs measured. A sum with an unknown part is unknown: nothing is guessed. */
#pragma once
#include "provision/power.h"

/* kWh of one meter between two readings. NAN: not known; a counter that did not move under load is too coarse for so short a time, and one that went
 * back began anew. */
double rk_power_interval_kwh(const struct rk_bmc_reading *now, const struct rk_bmc_reading *before);

struct rk_power_meter {
	int trays, on, off, unknown;      /* compute trays by power state */
	int unmetered;                    /* without a power reading */
	double kw, module_kw;             /* now: trays (and switch trays, for a rack); GPU modules. NAN: not all are known */
	double interval_kwh, mean_kw;     /* between two readings. kWh from energy counters; the mean from them, or else from the two power readings */
};
/* Trays of which `belongs` is true. before NULL: no interval. switches: of this rack too (RK_NONE: none). */
void rk_power_sum(const struct rk_site *site, const struct rk_power_now *now, const struct rk_power_now *before, double seconds, const bool *belongs,
		  int switches, struct rk_power_meter *ret);
