/* Calls of libraries that cannot be interrupted (a resolver, virConnectOpen to a hung daemon), with a time limit.
 *
 * fn(ctx) runs in a thread of its own. In time: 0, and ctx is the caller's again. Not in time, or *cancel became non-zero: RK_UNREACHABLE
 * or RK_CANCELLED; then ctx is abandoned: the caller must not touch it any more, and `dispose` frees it when fn comes back at last. */
#pragma once
#include "inventory/base/err.h"

int rk_deadline_run(void (*fn)(void *ctx), void (*dispose)(void *ctx), void *ctx, int ms, const volatile int *cancel, struct rk_err *err);
