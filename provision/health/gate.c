#include "provision/health/health.h"

#include <string.h>

#include "inventory/base/clock.h"

const char *rk_hprofile_for(const struct rk_site *site, int vm)
{
	static const char *const rows[][2] = { { "gb300-nvl72", "gb300-acceptance" }, { "gb200-nvl72", "gb200-acceptance" } };
	const char *kind = site->profiles[site->racks[site->trays[site->vms[vm].tray].rack].profile].name;

	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++)
		if (strcmp(rows[i][0], kind) == 0)
			return rows[i][1];
	return "generic-ib";
}

void rk_report_summary(const struct rk_report *report, struct rk_str *out)
{
	const char *const pairs[][2] = { { "verdict", report->verdict }, { "at", NULL }, { "level", report->level } };
	char at[32];
	struct rk_jw w;

	rk_time_iso(report->started_ms, at);
	rk_jw_init(&w, out, 0);
	rk_jw_object(&w);
	for (size_t i = 0; i < RK_ARRAY_SIZE(pairs); i++) {
		rk_jw_key(&w, pairs[i][0]);
		rk_jw_str(&w, pairs[i][1] ? pairs[i][1] : at);
	}
	rk_jw_end(&w);
}
