/* Isolation between tenants, from what the NVLink switches and the subnet managers hold now. It is about breach: what is missing or down is the
 * business of nvlink verify, ib verify and drift. */
#pragma once
#include "provision/cluster.h"

struct rk_violation {
	const char *plane, *what;
	const char *tenant_a, *tenant_b;  /* NULL: nobody, or everybody */
};
struct rk_isolation {
	const char *verdict;              /* "fail" exactly when there are violations, "unknown" when something that matters was not read, "pass" */
	struct rk_plane_check *checks; size_t n_checks;
	struct rk_violation *violations; size_t n_violations;
};
/* paths: also ask the subnet administrators for paths across tenants (there must be none) and inside (there must be some).
 * 0, RK_UNHEALTHY (fail) or RK_UNREACHABLE (unknown), with *ret filled in; other classes: not done. */
int rk_isolation_verify(struct rk_world *world, bool paths, struct rk_arena *arena, struct rk_isolation *ret, struct rk_err *err);

/* Verifies every interval_ms (real time) until Ctrl-C, and calls seen at the first reading and whenever verdict or violations change; the result
 * lives for the call. The site's isolation hook is run when violations are new. A store that moved on is read again. Returns what the worst
 * reading returned: RK_UNHEALTHY when isolation was broken at any time, RK_UNREACHABLE when it was not always known, else 0. */
typedef void rk_isolation_seen(void *ctx, const struct rk_isolation *isolation);
int rk_isolation_watch(struct rk_world *world, int interval_ms, rk_isolation_seen *seen, void *ctx, struct rk_err *err);
