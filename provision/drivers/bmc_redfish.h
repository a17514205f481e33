/* What a Redfish service says, apart from how it is asked. Private to provision/drivers/bmc_redfish.c and its tests. */
#pragma once
#include "inventory/base/json.h"
#include "provision/bmc.h"

/* Fetches a path: *ret NULL and 0 when the service does not have it. */
typedef int rk_redfish_get(void *ctx, const char *path, struct rk_json **ret, struct rk_err *err);
/* At most RK_REDFISH_REQUESTS fetches, whatever the service lists: RK_UNREACHABLE beyond. RK_FAILED: nothing to switch. Texts in the arena. */
enum { RK_REDFISH_REQUESTS = 400 };
int rk_redfish_read(rk_redfish_get *get, void *ctx, unsigned what, struct rk_arena *arena, struct rk_bmc_reading *ret, struct rk_err *err);
