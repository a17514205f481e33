/* Replays requests for segments on the site's own free racks under a placement policy: what would be refused, and how well the racks would be used.
 *
 * A requests file (kind "Requests") is either a trace, each entry with "at" and "hours", or a mix, each entry with "share" and optionally "hours"
 * (mean life time, default 24), from which arrivals are drawn (exponential gaps and life times) so that "load" of the free trays is asked for on average.
 * Segments sit in one rack each; a refused request is lost. What is placed today stays; spares, power and marks are honoured. Deterministic. */
#pragma once
#include "inventory/model.h"

struct rk_request_kind {
	int segment, segments;            /* VMs per segment, number of segments */
	double share;                     /* of all requests; a mix */
	double at_hours, hours;           /* a trace: when, how long; a mix: mean life time */
};
struct rk_requests {
	bool mix;
	struct rk_request_kind *items; size_t n; /* in the arena; a trace is in order of time */
	double load;                      /* mix: share of the free trays asked for on average */
	double unavailable;               /* mix: share of the trays taken out at random, on top of the site's own marks */
	int count, seeds;                 /* mix: requests per run, runs */
};
/* RK_INVALID with every problem of the file. */
int rk_requests_parse(const char *name, const char *text, size_t len, struct rk_arena *arena, struct rk_requests *ret, struct rk_err *err);
int rk_requests_load(const char *path, struct rk_arena *arena, struct rk_requests *ret, struct rk_err *err);

enum rk_sim_policy { RK_SIM_BEST_FIT, RK_SIM_SPREAD, RK_SIM_FIRST_FIT, RK_SIM_WORST_FIT, RK_SIM_RANDOM, RK_SIM_POLICIES };
extern const char *const rk_sim_policy_names[RK_SIM_POLICIES];

struct rk_simulated {
	long requests, refused;           /* of a mix: without the first fifth of each run, which fills the site */
	long large, refused_large;        /* those of 16 VMs or more */
	double utilisation;               /* mean share of the free trays in use, by time */
	double fragmentation;             /* mean ext_frag(16), by time */
	double idle_segments;             /* mean number of 16-VM segments that would still fit, by time */
};
void rk_simulate(const struct rk_site *site, const struct rk_requests *requests, enum rk_sim_policy policy, struct rk_simulated *ret);
