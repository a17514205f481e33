#include "provision/health/health.h"

#include <string.h>

const char *rk_hprofile_for(const struct rk_site *site, int vm)
{
	static const char *const rows[][2] = { { "gb300-nvl72", "gb300-acceptance" }, { "gb200-nvl72", "gb200-acceptance" } };
	const char *kind = site->profiles[site->racks[site->trays[site->vms[vm].tray].rack].profile].name;

	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++)
		if (strcmp(rows[i][0], kind) == 0)
			return rows[i][1];
	return "generic-ib";
}
