/* InfiniBand port counters: what changed between two readings. Totals say nothing (nobody knows since when), so they are never shown. Pure. */
#pragma once
#include "inventory/base/err.h"
#include "inventory/base/mem.h"
#include "provision/ib.h"

/* Name as perfquery prints it ("PortXmitWait"); NULL past the end. */
const char *rk_ib_counter_name(size_t counter);
/* Index, or -1. */
int rk_ib_counter_find(const char *name, size_t len);
/* Rows "Name:....value" of `perfquery -x` or `perfquery`. What is there already stays: read the extended (64-bit) ones first, since the others stop
 * at their largest value. extended: as the text is. */
void rk_ib_counters_parse(const char *text, size_t len, bool extended, struct rk_ib_reading *ret);

struct rk_ib_threshold {
	int counter;
	bool fails;                       /* else warns */
	double limit;                     /* more than that is over */
	double per_s;                     /* the limit is per so many seconds; 0: a plain increase */
	const char *says;
};
struct rk_ib_thresholds {
	struct rk_ib_threshold *items; size_t n;
};
/* A CounterThresholds file; NULL text: the one that is part of the program. Errors RK_INVALID with all problems and their places. */
int rk_ib_thresholds_parse(const char *name, const char *text, size_t len, struct rk_arena *arena, struct rk_ib_thresholds *ret, struct rk_err *err);

struct rk_ib_delta {
	int counter;
	bool known;                       /* false: `message` says why (reset, saturated, not counted) */
	uint64_t delta;
	double per_s;
	const char *verdict;              /* pass | warn | fail | unknown */
	const char *message;              /* NULL when there is nothing to say */
};
struct rk_ib_change {                     /* of one port */
	double seconds, xmit_gbps, rcv_gbps; /* -1: not known */
	const char *verdict;              /* the worst: fail > unknown > warn > pass */
	const char *message;              /* what is wrong, or NULL */
	struct rk_ib_delta *deltas; size_t n_deltas; /* counters that both readings have, or that are not known */
};
/* Texts in the arena. */
void rk_ib_compare(const struct rk_ib_reading *before, const struct rk_ib_reading *after, double seconds, const struct rk_ib_thresholds *thresholds,
		   struct rk_arena *arena, struct rk_ib_change *ret);
