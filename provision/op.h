/* The operation engine: steps with dependencies, journalled ahead; probe, apply and undo per step kind (DESIGN section 5).
 *
 * Journal order per step: state "applying" (with what undo needs in `before`) -> effect -> read back -> "done". The engine's own thread
 * writes the journal; steps run on up to world->jobs threads, at most one at a time per lane. After kill -9 rk_op_resume or
 * rk_op_rollback rebuild the steps from the journal alone: everything a step needs is in its params (JSON). */
#pragma once
#include "inventory/base/json.h"
#include "provision/world.h"

struct rk_step;

struct rk_step_kind {
	const char *name;                 /* "nvl.partition", "ib.partition", "vm.volumes", "vm.define", "vm.start", ... */
	const char *summary;              /* for plans: what is done to the target */
	int deadline_ms;                  /* for the read-back inside apply and undo */
	/* Engine thread, before the step runs: reads from the store what the step needs (into step->arena). May be NULL. */
	int (*prepare)(struct rk_world *world, struct rk_step *step, struct rk_err *err);
	/* Is the wanted state there already? *ret: 1 yes, 0 no. Sets step->before (JSON) for undo. May be NULL: no. */
	int (*probe)(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err);
	int (*apply)(struct rk_world *world, struct rk_step *step, struct rk_err *err);  /* idempotent; returns after read-back */
	int (*undo)(struct rk_world *world, struct rk_step *step, struct rk_err *err);   /* idempotent; NULL: nothing to undo */
	/* Engine thread, inside the journal transaction after apply (undone = false) or undo: settles the store. May be NULL. */
	int (*settle)(struct rk_world *world, struct rk_step *step, bool undone, struct rk_err *err);
};
struct rk_step {
	int id;                           /* 1.. in plan order */
	const struct rk_step_kind *kind;
	const char *target;               /* "a-01", "r01/2", "ib0/0x0100" */
	const char *lane;                 /* serial key ("nvlink:r01", "ib:ib0") or NULL: parallel */
	const struct rk_jnode *params;
	const char *before;               /* JSON, or NULL */
	const char *note;                 /* last word for the journal, or NULL */
	void *data;                       /* of prepare */
	const int *deps; size_t n_deps;   /* ids */
	struct rk_arena *arena;           /* of this step; used by one thread at a time */
};
const struct rk_step_kind *rk_step_kind_find(const char *name); /* provision/steps.c; NULL when unknown */

/* What an operation is about: params_json has "type", found in the table of provision/cluster.c. */
struct rk_op_type {
	const char *name;                 /* "cluster.create" */
	bool forward_only;                /* cannot be undone (delete): a failure leaves it resumable */
	/* Inside the closing transaction of success (committed) or of a complete rollback. */
	int (*finish)(struct rk_world *world, int64_t op, const struct rk_jnode *params, bool committed, struct rk_err *err);
};
const struct rk_op_type *rk_op_type_find(const char *name);

/* Plan under construction. */
struct rk_plan;
struct rk_plan *rk_plan_new(const char *command);
/* Returns the step's id. All texts are copied; kind must exist. */
int rk_plan_add(struct rk_plan *plan, const char *kind, const char *target, const char *lane, const char *params_json, const int *deps, size_t n_deps);
void rk_plan_free(struct rk_plan *plan);
size_t rk_plan_count(const struct rk_plan *plan);
void rk_plan_step(const struct rk_plan *plan, size_t i, int *ret_id, const char **ret_kind, const char **ret_target, const char **ret_summary);

/* Writes the operation and its steps (in the caller's transaction, together with the reservation), returns its id. */
int rk_op_journal(struct rk_world *world, const struct rk_plan *plan, const char *params_json, int64_t *ret_op, struct rk_err *err);
/* Runs the journalled operation to its end. 0 done; RK_FAILED rolled back; RK_PARTIAL left resumable (hint: op resume ID);
 * RK_CANCELLED rolled back after Ctrl-C. */
int rk_op_run(struct rk_world *world, int64_t op, struct rk_err *err);
/* After a crash or a failure. A finished operation is 0 and nothing is done; one whose process still runs is RK_CONFLICT. */
int rk_op_resume(struct rk_world *world, int64_t op, struct rk_err *err);
int rk_op_rollback(struct rk_world *world, int64_t op, struct rk_err *err);
