/* Power and cooling of racks: budgets, the order and times of switching on and off, and doing it.
 *
 * kW of a tray is its all-in share of the rack (profile or VM size; switch trays included). Cooling: the profile's flow table says how many l/min a
 * full rack needs at a supply temperature; less flow carries away proportionally less. */
#pragma once
#include "provision/bmc.h"

/* ---- budgets: pure ---------------------------------------------------------------------------------------------------------------- */

/* Sum over the allocated trays, by the size of the VM on them or else the rack's profile. */
double rk_power_committed(const struct rk_site *site, int rack);
double rk_power_tray_kw(const struct rk_site *site, int tray);
/* What the rack may draw, and what sets the limit: "power" (its budget) or "cooling" (the coolant last read). */
double rk_power_budget(const struct rk_site *site, int rack, const char **ret_what);

struct rk_cooling {               /* of a rack's profile; NAN unknown */
	double supply_min_c, supply_max_c;
	double flow_needed_lpm;   /* for a full rack at the supply temperature asked for */
	double kw;                /* what this coolant carries away; 0 outside the temperature range */
};
void rk_power_cooling(const struct rk_site *site, int rack, double supply_c, double flow_lpm, struct rk_cooling *ret);
/* Power shelves of the profile: how many, kW of each. */
void rk_power_shelves(const struct rk_site *site, int rack, int *ret_n, double *ret_kw);

/* ---- what is true now ---------------------------------------------------------------------------------------------------------------- */

enum { RK_SWITCHES_MAX = 16, RK_LEAK_ALARM_TRAYS = 2 }; /* leaking trays that make an alarm of the rack (hardware.md 4.3) */
struct rk_power_now {
	struct rk_bmc_reading *trays;                     /* per tray of the site */
	struct rk_bmc_reading (*switches)[RK_SWITCHES_MAX]; /* per rack */
	struct rk_bmc_reading *racks;                     /* per rack: its coolant */
	struct rk_err *errors; size_t n_errors, unread;   /* why BMCs did not answer (owned); how many */
};
/* Reads the racks marked in `racks` (per rack; NULL: all). BMCs that do not answer are unknown. */
int rk_power_read(struct rk_world *world, const bool *racks, unsigned what, struct rk_arena *arena, struct rk_power_now *ret, struct rk_err *err);
void rk_power_now_clear(struct rk_power_now *now);
/* Nothing was read. */
void rk_power_unread(const struct rk_site *site, struct rk_arena *arena, struct rk_power_now *ret);
/* Keeps what was read: leaks of trays and coolant of racks become part of the snapshot's marks; a new leak tells the site's hook. The world is
 * refreshed. *ret_leaks: trays that leak. */
int rk_power_keep(struct rk_world *world, const bool *racks, const struct rk_power_now *now, int *ret_leaks, struct rk_err *err);

/* ---- the plan: pure --------------------------------------------------------------------------------------------------------------- */

struct rk_power_options {
	bool on, force;                   /* force: trays with VMs too, without asking the operating system */
	int wave;                         /* trays of one step; 0 = 6 */
	int spacing_s;                    /* between steps of one row; 0 = 20 */
	int switch_s;                     /* switch trays need to be up, trays to shut down; 0 = 180 */
};
struct rk_power_step {
	int at_s;                         /* from the beginning */
	int rack;
	bool on, switches;
	struct rk_bmc_target *targets; size_t n;
	double rack_kw, row_kw, site_kw;  /* after it */
};
struct rk_power_refusal {
	int rack;
	const char *targets, *why;        /* folded; why not */
};
struct rk_power_plan {
	bool on, force;
	struct rk_power_step *steps; size_t n_steps;      /* by time */
	struct rk_power_refusal *refusals; size_t n_refusals;
	int seconds;                      /* until the last step has settled */
	double kw_before, kw_after;       /* of the site */
	size_t done;                      /* targets that are as wanted already */
	const char *note;                 /* what was not known, or NULL */
};
/* Racks share a row when their location is the same. SEL: racks (with their switch trays) or trays. Switch trays come before compute trays, and go
 * after the last of a rack. Never on: a tray that leaks, a rack with two leaking trays, what exceeds power or cooling, what is faulty for another
 * reason. Never off: a tray with a VM, unless forced. */
int rk_power_plan(const struct rk_site *site, const char *selection, const char *except, const struct rk_power_options *options,
		  const struct rk_power_now *now, struct rk_arena *arena, struct rk_power_plan *ret, struct rk_err *err);
/* Racks a selection is about, per rack of the site. */
int rk_power_racks(const struct rk_site *site, const char *selection, const char *except, struct rk_arena *arena, bool **ret, struct rk_err *err);

/* ---- doing it ----------------------------------------------------------------------------------------------------------------------- */

struct rk_power_result {
	const char *state;                /* done | failed | skipped | stopped */
	const char *detail;               /* or NULL */
};
/* Follows the plan's times; results[i] per step (in the arena). Before every step leaks and coolant of its rack are read: a leak is kept, the tray
 * forced off, and nothing more is switched on. One at a time per rack (a lease names who). 0; RK_PARTIAL: some targets failed or it was stopped half
 * way; RK_UNHEALTHY: an interlock before anything was switched; RK_CANCELLED. Compute trays that were switched off are marked offline until they are
 * switched on again. */
int rk_power_run(struct rk_world *world, const struct rk_power_plan *plan, struct rk_arena *arena, struct rk_power_result *results, struct rk_err *err);
