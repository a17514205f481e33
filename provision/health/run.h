/* A validation from start to end: choose level and profile, ask, keep the evidence, judge. */
#pragma once
#include "provision/health/health.h"

struct rk_validate_opts {
	const char *level;    /* NULL: what the cluster's spec says, else quick */
	const char *profile;  /* name or file; NULL: what the specs say, else the one of the racks' kind; RK_INVALID when that is not one for all */
	const char *save;     /* evidence folder to make, or NULL */
	int total_ms;         /* for one VM, as in rk_collect; 0: what the level needs */
};
/* vms: indexes into world->site->vms, at least one. The report is in the arena and refers to the site's names. */
int rk_validate(struct rk_world *world, const struct rk_validate_opts *opts, const int *vms, size_t n, struct rk_arena *arena, struct rk_report *ret,
		struct rk_err *err);
/* Does the site say that trays with a fault that asks for a cordon get one without a question? */
bool rk_health_cordons(const struct rk_site *site);
/* Those of the trays (folded, rk_report_cordon) that rk_health_cordon would mark now: folded, in the arena; NULL: none. */
const char *rk_health_to_cordon(const struct rk_site *site, const char *trays, size_t targets, bool asked, struct rk_arena *arena);
/* Cordons the trays (folded, rk_report_cordon) with the checks as the reason, and writes that into the audit. Unless somebody was asked, nothing is
 * done when they are more than half of several targets. *ret_done: folded, in the arena; NULL: none needed it. */
int rk_health_cordon(struct rk_world *world, const char *trays, const char *checks, size_t targets, bool asked, struct rk_arena *arena,
		     const char **ret_done, struct rk_err *err);
/* Judges an evidence folder; profile NULL: gb300-acceptance, level NULL: quick. */
int rk_validate_replay(const char *dir, const char *level, const char *profile, struct rk_arena *arena, struct rk_report *ret, struct rk_err *err);
