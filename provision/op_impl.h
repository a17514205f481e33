/* A run of one operation: what the files of the engine share. Private to provision/op*.c.
 *
 * op_load.c builds a run from the journal, op_pool.c has the threads that carry steps out, op_engine.c decides what goes next and writes the
 * journal, op.c opens and closes operations, op_confirm.c and op_others.c are about those that wait or are run elsewhere. */
#pragma once
#include <pthread.h>

#include "provision/op.h"

enum rk_node_state { RK_NODE_PLANNED, RK_NODE_APPLYING, RK_NODE_DONE, RK_NODE_UNDOING, RK_NODE_UNDONE, RK_NODE_FAILED, RK_NODE_UNKNOWN,
		     RK_NODE_GIVEN_UP, RK_NODE_LEFT }; /* the last two: not done, not undone, and the operation goes on without */
const char *rk_node_state_name(enum rk_node_state state);

enum rk_phase { RK_PROBE, RK_APPLY, RK_UNDO };

struct rk_node {
	struct rk_step step;
	struct rk_json *params;
	enum rk_node_state state;
	int *users;              /* positions of the steps that depend on this one */
	size_t n_users, waiting; /* waiting: how many must still end before this may go */
	int lane;                /* index, or -1 */
	bool queued;
	bool final;              /* of its kind, or said in its params */
	bool waits;              /* it was said that somebody else has its lane */
	/* of the job that runs: written by the worker, read by the engine after it came back */
	enum rk_phase phase;
	int rc, present;
	struct rk_err err;
};

struct rk_run {
	struct rk_world *world;
	int64_t op;
	const char *command, *runner;         /* runner: this process, as the store names it */
	struct rk_json *params;
	const struct rk_op_type *type;
	struct rk_arena *arena;
	struct rk_node *nodes; size_t n;
	bool *lane_busy; size_t n_lanes;      /* held by a step of this run */
	bool waits;                           /* a step that may go has its lane in use elsewhere */
	int *ready; size_t n_ready;           /* positions, the next one last */
	int *outbox; size_t n_outbox;         /* decided in this round; sent after its journal is durable */
	/* the pool */
	pthread_mutex_t lock;
	pthread_cond_t work, back;
	int *jobs, *results;                  /* jobs: a ring of n, in the order they were sent */
	size_t first_job, n_jobs, n_results, running;
	bool quit;
	pthread_t *threads; int n_threads;
	/* outcome */
	size_t ended, n_failed;
	bool failed, cancelled, awaiting;
	bool has_result;                      /* independent steps: one of them at least was carried out */
	struct rk_err err;                    /* of the first failure */
	const char *taken_back;               /* why it is taken back when nothing failed, for the last word of the journal; NULL: it was asked for */
};

/* ret is to be freed with rk_run_free in every case. */
int rk_run_load(struct rk_run *ret, struct rk_world *world, int64_t op, struct rk_err *err);
void rk_run_free(struct rk_run *run);

void rk_pool_start(struct rk_run *run);
void rk_pool_stop(struct rk_run *run);
void rk_pool_send(struct rk_run *run, int at);
/* Waits up to ms for a result; takes all there are, returns how many. */
size_t rk_pool_receive(struct rk_run *run, int *ret, int ms);

/* Carries out what is left, or takes back what was done. 0: see run->failed and its kin; else the journal could not be written. */
int rk_run_forward(struct rk_run *run, struct rk_err *err);
int rk_run_undo(struct rk_run *run, struct rk_err *err);
/* Inside a transaction: RK_CONFLICT when the operation was taken over, whose old runner writes nothing more and so does nothing more. *ret: in the
 * arena. */
int rk_run_ours(const struct rk_run *run, struct rk_arena *arena, struct rk_op_row *ret, struct rk_err *err);
/* A step that cannot be undone was begun: there is only forward. */
bool rk_run_committed(const struct rk_run *run);
/* The rollback was begun. */
bool rk_run_undoing(const struct rk_run *run);

/* Nothing more is to be done of it on the way forward. */
static inline bool rk_node_is_done(const struct rk_node *node)
{
	return node->state == RK_NODE_DONE || node->state == RK_NODE_GIVEN_UP;
}

/* op_give_up.c */
/* RK_INVALID when nothing is left of an operation that world->give_up is about. */
int rk_op_check_give_up(struct rk_world *world, int64_t op, struct rk_err *err);
/* Is the node, which failed, given up? */
bool rk_run_gives_up(const struct rk_run *r, const struct rk_node *node, bool undo);
/* Tells the store. *ret: what the journal is to say of it, in the step's arena. */
int rk_run_give_up(struct rk_run *r, struct rk_node *node, bool undo, const char **ret, struct rk_err *err);
/* A step that it stands on was given up, and it does not go on without. */
bool rk_run_falls_with(const struct rk_run *r, const struct rk_node *node);
/* For whoever reads of a failure: the command that ends the operation without this step; NULL: there is none. In the arena. */
const char *rk_run_way_out(const struct rk_run *r, const struct rk_node *node, struct rk_arena *arena);
/* 0, or RK_PARTIAL when the operation, which is over, was ended without some steps: what is left where. */
int rk_run_left_behind(const struct rk_run *r, struct rk_err *err);
/* The same in a few words for the operation's detail; NULL: nothing was. In the run's arena. */
const char *rk_run_left_word(const struct rk_run *r);

/* op.c */
bool rk_op_in_state(const struct rk_op_row *row, const char *state);
int rk_op_busy(const struct rk_op_row *row, struct rk_err *err); /* RK_CONFLICT: who runs it */
/* Inside a transaction that read the row: makes the operation this process', so that nobody else takes it up at the same time. */
int rk_op_claim_row(struct rk_world *world, const struct rk_op_row *row, const char *why, struct rk_arena *arena, struct rk_err *err);
/* state: "rolled-back" or "cancelled"; why: as taken_back. */
int rk_op_take_back(struct rk_world *world, int64_t op, const char *state, const char *why, struct rk_err *err);
int rk_op_go_on(struct rk_world *world, int64_t op, struct rk_err *err);

/* op_confirm.c */
struct rk_awaited {
	struct rk_op_row row;
	const struct rk_step_row *step; /* NULL: it awaits nothing */
	int64_t by_ms;
};
int rk_op_read_awaited(struct rk_world *world, int64_t op, struct rk_arena *arena, struct rk_awaited *ret, struct rk_err *err);
bool rk_op_overdue(const struct rk_awaited *awaited);
