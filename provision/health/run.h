/* A validation from start to end: choose level and profile, ask, keep the evidence, judge. */
#pragma once
#include "provision/health/health.h"

struct rk_validate_opts {
	const char *level;    /* NULL: what the cluster's spec says, else quick */
	const char *profile;  /* name or file; NULL: what the spec says, else the one of the rack's kind */
	const char *save;     /* evidence folder to make, or NULL */
};
/* vms: indexes into world->site->vms, at least one. The report is in the arena and refers to the site's names. */
int rk_validate(struct rk_world *world, const struct rk_validate_opts *opts, const int *vms, size_t n, struct rk_arena *arena, struct rk_report *ret,
		struct rk_err *err);
/* Judges an evidence folder; profile NULL: gb300-acceptance, level NULL: quick. */
int rk_validate_replay(const char *dir, const char *level, const char *profile, struct rk_arena *arena, struct rk_report *ret, struct rk_err *err);
