/* What the store knows as Prometheus text (exposition format 0.0.4): gauges with HELP and TYPE, never empty. Names and labels are stable: what
 * a label says of an object does not change with what was found on others. */
#pragma once
#include "inventory/model.h"
#include "inventory/base/str.h"

/* cluster: index, or RK_NONE for the whole site. */
void rk_prometheus(const struct rk_site *site, int cluster, struct rk_str *out);
