/* What validations keep of a target for the next ones, so that counters are judged over hours instead of seconds and strikes are counted:
 * {"counters": {"ib.counter.symbol{rail=0}": 312}, "strikes": {"ib.counters.symbol": 2}}. Targets are kept by tray: counters belong to hardware. */
#pragma once
#include "inventory/base/str.h"
#include "provision/health/health.h"

struct rk_memory_value {
	const char *name;            /* "ib.counter.symbol{rail=0}", id of a rule */
	double number;
};
struct rk_memory {
	int64_t at_ms;
	struct rk_memory_value *counters, *strikes; /* sorted by name */
	size_t n_counters, n_strikes;
};
/* What cannot be read is empty. */
void rk_memory_read(const struct rk_past *past, struct rk_arena *arena, struct rk_memory *ret);
bool rk_memory_counter(const struct rk_memory *memory, const char *metric, const char *label, double *ret);
double rk_memory_strikes(const struct rk_memory *memory, const char *rule); /* 0: none */
/* Name under which a target is kept. */
const char *rk_memory_key(const struct rk_target *target);

/* Gives the targets what the store kept of them, and the silences that hold now; targets and their texts as the site. */
int rk_health_recall(struct rk_world *world, struct rk_target *targets, size_t n, struct rk_arena *arena, struct rk_err *err);
/* Keeps what the report found out for the next validations. */
int rk_health_remember(struct rk_store *store, const struct rk_report *report, struct rk_err *err);

/* The silence that holds for this check of the target, or NULL. */
const struct rk_silence *rk_silence_of(const struct rk_target *target, const char *check);
bool rk_silence_covers(const struct rk_silence *silence, const char *check);
/* "future", "active" or "ended". */
const char *rk_silence_state(const struct rk_silence *silence, int64_t now_unix_ms);
