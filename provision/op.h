/* The operation engine: steps with dependencies, journalled ahead; probe, apply and undo per step kind (DESIGN section 5).
 *
 * Journal order per step: state "applying" (with what undo needs in `before`) -> effect -> read back -> "done"; backwards "undoing" -> effect ->
 * "undone". The engine's own thread writes the journal; steps run on up to world->jobs threads, at most one at a time per lane, of all processes
 * that share the store (the lane is a lease there, for one step). After kill -9
 * rk_op_resume or rk_op_rollback rebuild the steps from the journal alone: everything a step needs is in its params (JSON). An operation
 * whose rollback was begun only goes on backwards; one with a final step begun only goes on forwards. */
#pragma once
#include "inventory/base/json.h"
#include "provision/world.h"

struct rk_step;

/* What a step could not take away, and on which tray it is (provision/steps_away.c). */
struct rk_left {
	int tray;
	uint64_t gpu;                     /* 0: something else */
	const char *why;
};

struct rk_step_kind {
	const char *name;                 /* "nvl.partition", "ib.partition", "vm.volumes", "vm.define", "vm.start", ... */
	const char *summary;              /* for plans: what is done to the target */
	int deadline_ms;                  /* for the read-back inside apply and undo */
	bool final;                       /* cannot be taken back: begun only when every step that can was done, and confirmed where that is asked */
	bool several;                     /* operations may work on one target at a time: each adds and removes what is its own */
	bool awaits;                      /* op.confirm: done by rk_op_confirm; params within_ms */
	bool strict;                      /* not begun when a step that it stands on was given up: given up, too */
	/* Engine thread, before the step runs: reads from the store what the step needs (into step->arena). May be NULL. */
	int (*prepare)(struct rk_world *world, struct rk_step *step, struct rk_err *err);
	/* Is the wanted state there already? *ret: 1 yes, 0 no. Sets step->before (JSON) for undo. May be NULL: no. */
	int (*probe)(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err);
	int (*apply)(struct rk_world *world, struct rk_step *step, struct rk_err *err);  /* idempotent; returns after read-back */
	int (*undo)(struct rk_world *world, struct rk_step *step, struct rk_err *err);   /* idempotent; NULL: nothing to undo */
	/* Engine thread, inside the journal transaction after apply (undone = false) or undo: settles the store. May be NULL. */
	int (*settle)(struct rk_world *world, struct rk_step *step, bool undone, struct rk_err *err);
	/* As settle, of one that failed and whose controller is lost for good (provision/op_give_up.c): the store is told what may still be there, and the
	 * note says so. why: who gave it up, and why. NULL: it cannot be given up. */
	int (*give_up)(struct rk_world *world, struct rk_step *step, bool undone, const char *why, struct rk_err *err);
	/* Of an NVLink partition or a PKey as a whole: apply makes it, or removes it. */
	bool makes, removes;
};
struct rk_step {
	int id;                           /* 1.. in plan order */
	const struct rk_step_kind *kind;
	const char *target;               /* "a-01", "r01/2", "ib0/0x0100" */
	const char *lane;                 /* serial key ("nvlink:r01", "ib:ib0") or NULL: parallel */
	const struct rk_jnode *params;
	const char *before;               /* JSON, or NULL */
	const char *note;                 /* last word for the journal, or NULL */
	struct rk_left *left; size_t n_left;
	void *data;                       /* of prepare */
	const int *deps; size_t n_deps;   /* ids */
	struct rk_arena *arena;           /* of this step; used by one thread at a time */
};
const struct rk_step_kind *rk_step_kind_find(const char *name); /* provision/steps.c; NULL when unknown */

/* What an operation is about: params_json has "type", found in the table of provision/op_types.c. */
enum rk_op_end { RK_OP_DONE, RK_OP_AWAITS, RK_OP_UNDONE };
struct rk_op_type {
	const char *name;                 /* "cluster.create" */
	bool forward_only;                /* cannot be undone (delete): a failure leaves it resumable */
	bool independent;                 /* each target stands alone (vm stop): a failure stops nothing else, nothing is undone */
	/* Inside the closing transaction: of success, of waiting for a confirmation, or of a complete rollback. May be NULL. */
	int (*finish)(struct rk_world *world, int64_t op, const struct rk_jnode *params, enum rk_op_end end, struct rk_err *err);
};
const struct rk_op_type *rk_op_type_find(const char *name);

/* Plan under construction. */
struct rk_plan;
struct rk_plan *rk_plan_new(const char *command);
/* Returns the step's id. All texts are copied; kind must exist. */
int rk_plan_add(struct rk_plan *plan, const char *kind, const char *target, const char *lane, const char *params_json, const int *deps, size_t n_deps);
/* Asks for a confirmation within the time once every step that can be taken back is done; to be added last. */
void rk_plan_add_confirm(struct rk_plan *plan, int within_ms);
/* The steps of another plan behind a step "op.part" of its own, without its wait for a confirmation: returns the time asked for there (ms), or 0.
 * final: none of them can be undone. */
int rk_plan_append(struct rk_plan *plan, const struct rk_plan *part, const char *command, const char *params_json, bool final);
/* What steps of both are about ("a-01", "r01-t02"): nothing says which of them comes first. NULL: they have nothing in common. Lives as long as part. */
const char *rk_plan_shared(const struct rk_plan *plan, const struct rk_plan *part);
void rk_plan_free(struct rk_plan *plan);
size_t rk_plan_count(const struct rk_plan *plan);
void rk_plan_step(const struct rk_plan *plan, size_t i, int *ret_id, const char **ret_kind, const char **ret_target, const char **ret_summary);

/* Writes the operation and its steps (in the caller's transaction, together with the reservation), returns its id. */
int rk_op_journal(struct rk_world *world, const struct rk_plan *plan, const char *params_json, int64_t *ret_op, struct rk_err *err);
/* The steps alone, of an operation that is there. */
int rk_plan_journal(struct rk_world *world, const struct rk_plan *plan, int64_t op, struct rk_err *err);
/* Runs the journalled operation to its end. 0 done (or awaiting its confirmation); RK_FAILED rolled back; RK_PARTIAL left resumable (hint:
 * op resume ID), or some independent steps failed; RK_CANCELLED rolled back after Ctrl-C. Ctrl-C again leaves the rollback resumable, RK_PARTIAL. */
int rk_op_run(struct rk_world *world, int64_t op, struct rk_err *err);
/* Nothing of it is left to do, or to undo, or to confirm. */
bool rk_op_is_over(const struct rk_op_row *row);
/* Is it being carried out by a process that lives? Not by one that could not say that it stopped (world->unsaid). */
int rk_op_is_run(struct rk_world *world, const struct rk_op_row *row, bool *ret, struct rk_err *err);
/* RK_CONFLICT: `what` is held by this operation: whose, since when, doing what. */
int rk_op_holds(struct rk_world *world, const char *what, int64_t op, struct rk_err *err);
/* After a crash or a failure: on with it, in the direction it had. A finished operation is 0 and nothing is done; one whose process still runs is
 * RK_CONFLICT. One that awaits its confirmation is undone when its time is over, before that RK_CONFLICT says until when. */
int rk_op_resume(struct rk_world *world, int64_t op, struct rk_err *err);
int rk_op_rollback(struct rk_world *world, int64_t op, struct rk_err *err);
/* With world->give_up, resume and rollback end it without the steps of that lane, when they fail once more and there is no other way out: RK_PARTIAL
 * then, saying what is left where. RK_INVALID: no such step is left. */
/* Stops it and takes back what it did: one that is left, or awaits its confirmation, here and now; one that another process runs by a word in
 * the store, waiting for the outcome when world->wait. 0 when it was cancelled or was over before. */
int rk_op_cancel(struct rk_world *world, int64_t op, struct rk_err *err);
#define RK_OP_CANCEL_WORD "cancel requested"
/* Keeps what awaits a confirmation, and does what was put off until then. RK_CONFLICT when there is nothing to confirm (any more). */
int rk_op_confirm(struct rk_world *world, int64_t op, struct rk_err *err);
/* Unix ms at which it is undone unless confirmed; 0 when it does not await a confirmation. */
int rk_op_confirm_by(struct rk_world *world, int64_t op, int64_t *ret, struct rk_err *err);
/* Takes the leases of a process that is gone (or of another host, which cannot be asked: force) and leaves the operation resumable.
 * *ret_former: who ran it, in the arena. */
int rk_op_takeover(struct rk_world *world, int64_t op, bool force, struct rk_arena *arena, const char **ret_former, struct rk_err *err);
/* For a detached process: finishes what was handed over, and watches over a confirmation until it came or its time is over. */
int rk_op_watch(struct rk_world *world, int64_t op, struct rk_err *err);
/* Undoes every operation whose time to be confirmed is over and that nobody watches. */
int rk_op_sweep(struct rk_world *world, struct rk_err *err);

/* A change that is planned and not yet written. */
struct rk_change {
	const char *type, *cluster;       /* op type; the cluster it holds, or NULL */
	const char *lease;                /* what is leased besides "cluster:<cluster>", or NULL */
	const char *purpose;
	const struct rk_plan *plan;
	const char *params;               /* JSON object with "type" and whatever finish needs */
	/* What the store is told in the journal's transaction; may be NULL. */
	int (*reserve)(struct rk_world *world, const struct rk_change *change, int64_t op, struct rk_err *err);
	const void *data;
};
/* Journals against the snapshot's revision, then runs; under --no-wait hands it to a detached process instead. RK_CONFLICT: the store moved
 * on, nothing was written, plan again. Inside a bundle (provision/bundle.h) it becomes a part of that, and nothing runs yet. */
int rk_change_run(struct rk_world *world, const struct rk_change *change, int64_t *ret_op, struct rk_err *err);
/* One of the same command that its process left unfinished is gone on with: *ret_op is it, and the result that of rk_op_resume; 0: there is none. So a
 * command of independent steps that is given again ends what it began. target: `command` is how the command begins, and one of its steps is on this. */
int rk_op_again(struct rk_world *world, const char *command, const char *target, int64_t *ret_op, struct rk_err *err);
/* To a detached process, whose business it is from here on. */
int rk_op_hand_over(struct rk_world *world, int64_t op, struct rk_err *err);
