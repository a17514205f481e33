/* The site's facility meter (`facilityMeter` of the site file): what the whole place takes, cooling and losses included. */
#pragma once
#include "provision/world.h"

/* kW now. NAN and 0 when the site names no meter. {"command": ...}: run through the shell, without input, for at most 30 s; the first word of its
 * output is a number of kW. {"url", "credentialsFile", "caFile"}: a Redfish resource with PowerWatts.Reading (a circuit, a power distribution's
 * metrics, EnvironmentMetrics). The twin's facility takes a tenth more than it_kw. RK_UNREACHABLE: it could not be read, *ret is NAN. */
int rk_facility_read(const struct rk_world *world, double it_kw, double *ret, struct rk_err *err);
/* Power usage effectiveness; NAN when one of both is not known. */
double rk_pue(double facility_kw, double it_kw);
