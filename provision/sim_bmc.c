/* The twin's simulated BMCs. Every tray is on until it was switched off; readings are made of the profile and of what runs, the meter counts the
 * twin's own time. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provision/bmc.h"
#include "provision/sim_impl.h"

enum { SWITCH_MS = 5000, SWITCH_WATTS = 800, IDLE_PERCENT = 30, BUSY_PERCENT = 90, MODULE_PERCENT = 80, DETECTORS = 4 };

struct sim_bmc {
	struct rk_bmc bmc;
	struct rk_sim *sim;
};

static bool runs_guest(const struct rk_sim *sim, const char *tray)
{
	char *prefix RK_CLEANUP_FREE = rk_xasprintf("dom:%s:", tray);
	size_t first, end;

	rk_sim_range(sim, prefix, &first, &end);
	for (size_t i = first; i < end; i++) {
		const char *value = rk_sim_see(sim, &sim->items[i]);
		if (value && *value == 'R')
			return true;
	}
	return false;
}

static enum rk_power_state state_of(const struct rk_sim *sim, const char *name)
{
	char *key RK_CLEANUP_FREE = rk_xasprintf("power:%s", name);
	const char *now = rk_sim_get(sim, key), *settled = rk_sim_get_settled(sim, key);

	if (!rk_streq(now, settled))
		return RK_POWER_CHANGING;
	return rk_streq(now, "off") ? RK_POWER_OFF : RK_POWER_ON;
}

static const char *wet_detectors(const struct rk_sim *sim, const char *tray, struct rk_arena *arena)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;

	for (int d = 0; d < DETECTORS; d++) {
		char *key RK_CLEANUP_FREE = rk_xasprintf("leak:%s/%d", tray, d);
		if (rk_sim_get(sim, key))
			rk_str_addf(&out, "%sLeakDetector_%d Critical", out.len ? ", " : "", d + 1);
	}
	return out.len ? rk_arena_strdup(arena, rk_str_text(&out)) : NULL;
}

static void read_meters(const struct rk_sim *sim, const struct rk_site *site, const struct rk_bmc_target *t, const char *name, struct rk_bmc_reading *ret)
{
	double kw = t->tray == RK_NONE ? SWITCH_WATTS / 1000.0 : site->profiles[site->racks[site->trays[t->tray].rack].profile].tray_kw;

	if (t->tray != RK_NONE) {
		kw *= (runs_guest(sim, name) ? BUSY_PERCENT : IDLE_PERCENT) / 100.0;
		ret->module_watts = ret->power == RK_POWER_OFF ? 0 : kw * 10 * MODULE_PERCENT;
	}
	ret->watts = ret->power == RK_POWER_OFF ? 0 : kw * 1000;
	ret->kwh = ret->watts / 1000 * (double)rk_clock_ms(sim->clock) / 3.6e6;
}

static void read_coolant(const struct rk_sim *sim, const char *rack, struct rk_bmc_reading *ret)
{
	char *key RK_CLEANUP_FREE = rk_xasprintf("coolant:%s", rack);
	const char *value = rk_sim_get(sim, key);
	char *rest = NULL;

	if (value) {
		ret->supply_c = strtod(value, &rest);
		ret->flow_lpm = strtod(rest, NULL);
	}
}

static int sim_read(struct rk_bmc *bmc, const struct rk_bmc_target *target, unsigned what, struct rk_arena *arena, struct rk_bmc_reading *ret,
		    struct rk_err *err)
{
	struct rk_sim *sim = ((struct sim_bmc *)bmc)->sim;
	const char *name = rk_bmc_name(bmc->site, target, arena);
	int rack = target->tray == RK_NONE ? target->rack : bmc->site->trays[target->tray].rack;
	struct rk_sim_call call;
	int rc = rk_sim_enter(sim, &call, "bmc.read", name, false, err);

	*ret = rk_bmc_unread;
	if (rc)
		return rc;
	ret->power = state_of(sim, name);
	ret->leak_read = what & RK_BMC_LEAK;
	if (ret->leak_read)
		ret->leak = wet_detectors(sim, name, arena);
	if (what & RK_BMC_METERS)
		read_meters(sim, bmc->site, target, name, ret);
	if (what & RK_BMC_COOLANT)
		read_coolant(sim, bmc->site->racks[rack].name, ret);
	return rk_sim_leave(&call, 0, err);
}

static int sim_set(struct rk_bmc *bmc, const struct rk_bmc_target *target, bool on, bool force, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_sim *sim = ((struct sim_bmc *)bmc)->sim;
	const char *name = rk_bmc_name(bmc->site, target, arena);
	struct rk_sim_call call;
	int rc = rk_sim_enter(sim, &call, "bmc.set", name, true, err);

	if (rc)
		return rc;
	rk_sim_set(&call, rk_arena_printf(arena, "power:%s", name), on ? "on" : "off", force ? 0 : SWITCH_MS);
	return rk_sim_leave(&call, 0, err);
}

/* Cooling and losses take a tenth of what the trays do. */
int rk_sim_facility(struct rk_sim *sim, const struct rk_site *site, double it_kw, double *ret, struct rk_err *err)
{
	struct rk_sim_call call;
	int rc = rk_sim_enter(sim, &call, "facility.read", site->name, false, err);

	if (rc)
		return rc;
	*ret = it_kw * 1.1;
	return rk_sim_leave(&call, 0, err);
}

static void sim_free(struct rk_bmc *bmc)
{
	free(bmc);
}

int rk_sim_bmc(struct rk_sim *sim, const struct rk_driver_env *env, struct rk_bmc **ret, struct rk_err *err)
{
	static const struct rk_bmc_ops ops = { sim_read, sim_set, sim_free };
	struct sim_bmc *b = rk_xcalloc(1, sizeof(*b));

	(void)err;
	b->bmc = (struct rk_bmc){ &ops, env->site };
	b->sim = sim;
	*ret = &b->bmc;
	return 0;
}

const char *rk_sim_coolant_word(size_t i)
{
	return i == 0 ? "coolant" : NULL;
}

int rk_sim_change_coolant(struct rk_sim *sim, const char *what, const char *target, int *ret, struct rk_err *err)
{
	char rack[64], rest;
	double supply, flow;
	struct rk_sim_call call;

	*ret = strcmp(what, rk_sim_coolant_word(0)) == 0;
	if (!*ret)
		return 0;
	if (sscanf(target, "%63[^/]/%lf/%lf%c", rack, &supply, &flow, &rest) != 3 || rk_find_rack(sim->site, rack) < 0 || !(supply > 0 && supply < 100) ||
	    !(flow >= 0 && flow < 10000))
		return rk_err_set(err, RK_INVALID, "no such thing to fault: \"%s@%s\"", what, target);
	int rc = rk_sim_enter(sim, &call, what, target, true, err);
	if (rc)
		return rc;
	char *key RK_CLEANUP_FREE = rk_xasprintf("coolant:%s", rack), *value RK_CLEANUP_FREE = rk_xasprintf("%g %g", supply, flow);
	rk_sim_set(&call, key, value, 0);
	return rk_sim_leave(&call, 0, err);
}
