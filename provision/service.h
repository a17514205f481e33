/* Services: InfiniBand partitions that are shared (struct rk_ib_service). The ports of every cluster whose tenant has the service, on the service's fabric,
 * are limited members from before its guests start until after they stopped; so they reach the servers, and not each other. */
#pragma once
#include "provision/op.h"

struct rk_service_wish {
	const char *name, *fabric;        /* fabric NULL: the only one */
	long pkey;                        /* 0: one of the pool */
	const uint64_t *servers; size_t n_servers;
	const char *const *tenants; size_t n_tenants; /* NULL: all */
};
/* What would be made; *ret points into the arena. RK_INVALID, RK_NOT_FOUND, RK_CONFLICT (name, key, a cluster that an operation holds) say why not. */
int rk_service_check(struct rk_world *world, const struct rk_service_wish *wish, struct rk_arena *arena, struct rk_ib_service *ret, struct rk_err *err);
/* The caller frees the plan (rk_plan_free). */
struct rk_plan *rk_service_create_plan(const struct rk_site *site, const struct rk_ib_service *service, struct rk_arena *arena);
struct rk_plan *rk_service_delete_plan(const struct rk_site *site, const struct rk_ib_service *service, struct rk_arena *arena);
/* As operations: journalled, read back from the ports; a create that fails is taken back, a delete can only be finished. *ret_op: 0 when none was begun.
 * RK_CONFLICT: the store, or a cluster that would be served, is changed by somebody else. */
int rk_service_create(struct rk_world *world, const struct rk_ib_service *service, int64_t *ret_op, struct rk_err *err);
/* The same of what is asked for; planned again when somebody else changed the store between plan and commit. *ret as of rk_service_check. */
int rk_service_create_wish(struct rk_world *world, const struct rk_service_wish *wish, struct rk_arena *arena, struct rk_ib_service *ret, int64_t *ret_op,
			   struct rk_err *err);
int rk_service_delete(struct rk_world *world, const struct rk_ib_service *service, int64_t *ret_op, struct rk_err *err);
/* A step that makes the partition what the store says; ports of clusters that an operation holds are left as they are. */
void rk_add_service_fix(struct rk_plan *plan, const struct rk_site *site, const struct rk_ib_service *service, struct rk_arena *arena);

/* Out of the store, and its key is free; 0 when it is not there. */
int rk_service_forget(struct rk_world *world, const char *name, struct rk_err *err);

/* RK_CONFLICT when the plan puts ports into a service that an operation makes or deletes: its partition is not there yet, or not for long. */
int rk_service_joins_idle(struct rk_world *world, const struct rk_plan *plan, struct rk_err *err);

/* Params of a step "service.join", "service.leave" or "service.expel" (provision/steps_ib.c) on the service's key, left open for "members"; and its target and lane. */
void rk_service_params(const struct rk_site *site, const struct rk_ib_service *service, struct rk_jw *w);
int rk_add_service_step(struct rk_plan *plan, const struct rk_site *site, const struct rk_ib_service *service, const char *kind, const char *params, const int *deps,
			size_t n_deps);
