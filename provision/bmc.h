/* Base management controllers of compute trays and NVLink switch trays: power, leak detectors, readings. Redfish, or the twin's simulated ones.
 * Calls may be made from any thread, one call per target at a time. What was not read is unknown, never zero and never "off". */
#pragma once
#include "provision/world.h"

/* A compute tray (tray), or NVLink switch tray `number` (from 1) of a rack (tray RK_NONE). */
struct rk_bmc_target {
	int tray, rack, number;
};
/* "r01-t03"; switch trays as in `switch list`: "r01-nvsw2". In the arena. */
const char *rk_bmc_name(const struct rk_site *site, const struct rk_bmc_target *target, struct rk_arena *arena);

enum rk_power_state { RK_POWER_UNKNOWN, RK_POWER_OFF, RK_POWER_ON, RK_POWER_CHANGING };
const char *rk_power_state_name(enum rk_power_state state); /* "unknown", "off", "on", "changing" */

enum { RK_BMC_POWER = 1, RK_BMC_LEAK = 2, RK_BMC_METERS = 4, RK_BMC_COOLANT = 8 }; /* what to read */
struct rk_bmc_reading {                   /* NAN: unknown */
	enum rk_power_state power;
	bool leak_read;                   /* at least one detector was read, and every one that is enabled */
	const char *leak;                 /* "LeakDetector_2 Critical", or NULL: no detector that was read says so. In the arena */
	double watts, module_watts, kwh;  /* of the tray, of its GPU modules together, energy counter of the tray */
	double supply_c, flow_lpm;        /* coolant of the rack, where its controller shows it */
};

struct rk_bmc;
struct rk_bmc_ops {
	int (*read)(struct rk_bmc *bmc, const struct rk_bmc_target *target, unsigned what, struct rk_arena *arena, struct rk_bmc_reading *ret,
		    struct rk_err *err);
	/* Accepted is not done: read back. force: without asking the operating system. RK_UNREACHABLE: outcome unknown. */
	int (*set)(struct rk_bmc *bmc, const struct rk_bmc_target *target, bool on, bool force, struct rk_err *err);
	void (*free)(struct rk_bmc *bmc);
};
struct rk_bmc {
	const struct rk_bmc_ops *ops;
	const struct rk_site *site;       /* borrowed; outlives the handle */
};
/* The twin's when the world is one, else Redfish by `bmc` of the site file. */
int rk_bmc_open(struct rk_world *world, struct rk_bmc **ret, struct rk_err *err);
void rk_bmc_close(struct rk_bmc *bmc);
void rk_cleanup_bmc(struct rk_bmc **bmc);
#define RK_CLEANUP_BMC __attribute__((cleanup(rk_cleanup_bmc)))
int rk_bmc_redfish(const struct rk_driver_env *env, struct rk_bmc **ret, struct rk_err *err); /* provision/drivers/bmc_redfish.c */

/* Reads many targets in parallel. readings[i] and errors[i] (cleared by the caller) per target; texts in the arena. */
void rk_bmc_read_all(struct rk_world *world, struct rk_bmc *bmc, const struct rk_bmc_target *targets, size_t n, unsigned what, struct rk_arena *arena,
		     struct rk_bmc_reading *readings, struct rk_err *errors);
/* What a BMC that was not read says. */
extern const struct rk_bmc_reading rk_bmc_unread;
