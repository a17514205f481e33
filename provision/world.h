/* Everything an operation acts on: the store and the three outside systems. One per command. */
#pragma once
#include "inventory/store.h"
#include "provision/hv.h"
#include "provision/ib.h"
#include "provision/nvl.h"
#include "provision/ssh.h"

struct rk_world {
	struct rk_store *store;
	struct rk_site *site;             /* snapshot the command works on; rk_world_refresh replaces it */
	struct rk_hv *hv;                 /* opened when first needed by rk_world_drivers */
	struct rk_nvl *nvl;
	struct rk_ib *ib;
	struct rk_domain_memo *memo;      /* what domains have in common; opened with the drivers */
	struct rk_driver_env env;         /* env.site is kept equal to site */
	struct rk_sim *sim;               /* the twin, or NULL: real systems */
	int jobs;                         /* parallel work */
	bool no_notes;                    /* --read-only, --dry-run: what a reading command found is written down nowhere */
	bool wait;                        /* --wait */
	int confirm_ms;                   /* --confirm-within: what the command changes is undone unless confirmed in this time; 0: no such thing */
	int64_t unsaid;                   /* an operation that this process stopped running and could not say so of, because the store did not answer; 0: none */
	/* Steps of this lane ("nvlink:r01") are given up when they fail (op resume --give-up), and why; NULL: none are. */
	const char *give_up, *give_up_why;
	struct rk_bundle *bundle;         /* changes are put together in it instead of being carried out (provision/bundle.h), or NULL */
	volatile int *cancel;             /* set by Ctrl-C; env.cancel points to the same. An operation resets it before it rolls back */
	void (*progress)(void *ctx, const char *text); /* one line of progress, or NULL */
	void *progress_ctx;
	/* Starts a process of its own that watches over an operation (rk_op_watch); NULL: nobody could, the store is in this process' memory. */
	int (*detach)(void *ctx, int64_t op, struct rk_err *err);
	void *detach_ctx;
};
/* Opens the drivers (real ones, or the twin's when sim is set). Idempotent. */
int rk_world_drivers(struct rk_world *world, struct rk_err *err);
/* Parallel work and the limit per remote command (ms, 0: the drivers' own) from now on; drivers that hold another limit are opened again. */
void rk_world_limits(struct rk_world *world, int jobs, int timeout_ms);
/* Reads the store again; handles keep working on the new snapshot. */
int rk_world_refresh(struct rk_world *world, struct rk_err *err);
void rk_world_close(struct rk_world *world); /* closes what it opened: drivers, twin, site, store */
/* Runs a command line (argv) on a VM over its pinned SSH; the twin answers from its own state. Fills result like rk_ssh_run.
 * Opened sessions live as long as `conn`. */
struct rk_vm_conn;
/* total_ms: for the connection, on all its hops, and everything that runs over it; 0: each step has its own limit only. */
int rk_vm_connect(struct rk_world *world, int vm, int total_ms, struct rk_vm_conn **ret, struct rk_err *err);
/* The next commands may be silent and last that long (ms); for measurements that take minutes. */
void rk_vm_limit(struct rk_vm_conn *conn, int idle_ms, int command_ms);
/* As rk_ssh_run_tied: for what only looks or measures, and for a user's own commands. */
int rk_vm_run_tied(struct rk_vm_conn *conn, const char *const *argv, struct rk_ssh_result *result, struct rk_err *err);
int rk_vm_run(struct rk_vm_conn *conn, const char *const *argv, struct rk_ssh_result *result, struct rk_err *err);
void rk_vm_close(struct rk_vm_conn *conn);
