/* Clusters: plan, create, grow, shrink, repair, delete, and what is true of them (drift, isolation).
 *
 * Every change converges: what is done already is 0, what is half done is taken up. Beside the errors of rk_op_run: RK_UNHEALTHY when the change was
 * made but the validation that the spec requires did not pass (the cluster is degraded). world->wait and world->confirm_ms are honoured. */
#pragma once
#include "inventory/base/str.h"
#include "provision/op.h"
#include "provision/place.h"

struct rk_cluster_plan {
	struct rk_placement placement;
	struct rk_plan *plan;             /* NULL when not feasible; rk_plan_free */
};
/* what_if: "lose=SEL" with racks or trays that are taken as lost, or NULL. */
int rk_cluster_plan(struct rk_world *world, const struct rk_spec *spec, const char *what_if, struct rk_arena *arena, struct rk_cluster_plan *ret,
		    struct rk_err *err);
/* RK_NO_CAPACITY for a placement that is not feasible: what was asked for, a detail per rack, and what would make it possible as hint. */
int rk_cluster_no_room(const struct rk_world *world, const struct rk_placement *placement, const struct rk_spec *spec, struct rk_err *err);
/* A cluster that exists with the same spec and is ready is 0; a half-made one is resumed; another spec is RK_CONFLICT. */
int rk_cluster_create(struct rk_world *world, const struct rk_spec *spec, int64_t *ret_op, struct rk_err *err);
/* What a create would find, nothing done. *ret_there: a cluster of this name is there, and the result is that of the create; *ret_op is the operation
 * that it would take up, 0: there is nothing to do. */
int rk_cluster_create_look(struct rk_world *world, const struct rk_spec *spec, bool *ret_there, int64_t *ret_op, struct rk_err *err);
int rk_cluster_delete_plan(struct rk_world *world, const char *name, struct rk_arena *arena, struct rk_plan **ret, struct rk_err *err);
int rk_cluster_delete(struct rk_world *world, const char *name, int64_t *ret_op, struct rk_err *err); /* RK_NOT_FOUND when absent */
/* To `count` VMs in all: grow or shrink. The plan is NULL when it has that many, or cannot be placed. */
int rk_cluster_resize_plan(struct rk_world *world, const char *name, int count, bool grow, struct rk_arena *arena, struct rk_cluster_plan *ret,
			   struct rk_err *err);
int rk_cluster_resize(struct rk_world *world, const char *name, int count, bool grow, int64_t *ret_op, struct rk_err *err);
/* Moves VMs (names or selections; none: those on trays that are cordoned, faulty or offline, and failed ones) to free trays of their racks. A VM that a
 * repair moved already is left alone while nothing is wrong with its new tray. RK_NO_CAPACITY: no spare, and what would be needed.
 * *ret plan NULL, *ret_moved 0: nothing to repair. */
int rk_cluster_repair_plan(struct rk_world *world, const char *name, const char *const *vms, size_t n, struct rk_arena *arena, struct rk_plan **ret,
			   struct rk_err *err);
int rk_cluster_repair(struct rk_world *world, const char *name, const char *const *vms, size_t n, int64_t *ret_op, size_t *ret_moved, struct rk_err *err);

/* In the store alone: domains, volumes and guests that are there keep the name they were made with (rk_vm_host_name). A rename that was done already is 0. */
int rk_cluster_rename(struct rk_world *world, const char *from, const char *to, int64_t *ret_op, struct rk_err *err);

/* vm start | stop | reboot. */
struct rk_power_request {
	const char *verb;                 /* "start", "stop", "reboot" */
	bool off, on;
	const int *vms; size_t n;         /* indexes into site->vms */
	int grace_s;                      /* time a guest gets to shut down; 0: none */
	bool hard;                        /* turn it off after that, instead of failing */
	bool *already;                    /* n flags, may be NULL: told which are seen to be as wanted, and left alone */
};
/* Those that the store and their host say are on (start) or off (stop) already are no part of it; the plan may come out empty. */
int rk_vm_power_plan(struct rk_world *world, const struct rk_power_request *request, struct rk_arena *arena, struct rk_plan **ret, struct rk_err *err);
/* *ret_op 0: there was nothing to do, and nothing was written. */
int rk_vm_power(struct rk_world *world, const struct rk_power_request *request, int64_t *ret_op, struct rk_err *err);

/* Puts trays that are faulty and empty back into service: what is left on them is removed, their drives are erased, their GPUs go to the default
 * partition. Others are left alone. *ret_op 0: there was nothing to do. RK_PARTIAL or the class of the failure: those that failed stay faulty. */
int rk_tray_restore(struct rk_world *world, const int *trays, size_t n, int64_t *ret_op, struct rk_err *err);

/* Domain XML (and seed) of every VM of a plan or cluster; see CLI.md Rendering. Nothing is changed anywhere. */
struct rk_render {
	const struct rk_spec *spec;       /* of a cluster that may exist or not; NULL: `cluster` says what */
	int cluster;                      /* index of an existing one, when there is no spec */
	const char *tray;                 /* one VM, as it would be on this tray; NULL: all, where they are or would be placed */
	bool seed;
};
struct rk_rendered {
	const char *vm, *tray, *xml;
	const char **notes; size_t n_notes; /* values that nobody has confirmed on the tray; each begins with "tray NAME: " */
	struct rk_seed_file *seed; size_t n_seed;
};
int rk_cluster_render(struct rk_world *world, const struct rk_render *request, struct rk_arena *arena, struct rk_rendered **ret, size_t *ret_n,
		      struct rk_err *err);
/* The notes of all of them, equal ones once with the trays folded: "trays r01-t[01-18]: ...". In the arena. */
void rk_rendered_notes(const struct rk_rendered *all, size_t n, struct rk_arena *arena, const char ***ret, size_t *ret_n);

struct rk_drift {
	const char *plane;                /* libvirt | nvlink | infiniband | inventory */
	const char *object, *field, *wanted, *applied, *live; /* NULL = unknown */
	const char *status;               /* in-sync | drifted | unknown */
	/* For the way back. */
	bool stray;                       /* it is there and belongs to no cluster */
	bool remains;                     /* of a stray: an operation was ended without it (struct rk_remains) */
	int place, id;                    /* of a stray: tray; rack and partition; fabric and key */
	const char *name;                 /* of a stray: what the host or the manager calls it */
	const char *refused;              /* drifted, and there is no way back: why not. NULL: there is, or nobody looked yet */
};
/* cluster NULL: the whole site. 0, RK_UNHEALTHY (drifted) or RK_UNREACHABLE (unknown, or an empty store, which says nothing); rows are filled in all
 * these cases. */
int rk_drift(struct rk_world *world, const char *cluster, struct rk_arena *arena, struct rk_drift **ret, size_t *ret_n, struct rk_err *err);

/* The way back from what rk_drift finds, as one operation of independent steps: guests on and off as the store wants them, domains defined anew,
 * members of partitions put right, and what racksh made and no cluster has any more taken away: domains that carry its metadata, keys of the managed
 * range, NVLink partitions that its journal made under the name they have. A tray that is emptied so is erased before it is free. Everything else is
 * somebody's: it is left alone, by name. *ret_op 0: nothing to do. */
struct rk_drift_left {
	const char *plane, *object, *why;
};
int rk_drift_fix_plan(struct rk_world *world, const char *cluster, struct rk_arena *arena, struct rk_plan **ret, struct rk_drift_left **ret_left, size_t *ret_n_left,
		      struct rk_err *err);
int rk_drift_fix(struct rk_world *world, const char *cluster, struct rk_arena *arena, int64_t *ret_op, struct rk_drift_left **ret_left, size_t *ret_n_left,
		 struct rk_err *err);

struct rk_plane_check {                   /* one thing that was looked at */
	const char *plane, *object;       /* "nvlink" "r01/2"; "infiniband" "ib0/0x0100" */
	const char *tenant, *cluster;
	const char *verdict;              /* pass | fail | unknown | skipped */
	const char *wanted, *live, *message; /* texts; NULL unknown */
	/* Of NVLink partitions: what operations have put there, what the guests say; NULL: not asked, or nobody answered. */
	const char *applied, *seen;
	int partition;                    /* of NVLink: index into site->nvl_partitions; RK_NONE: none of the store */
};
/* guests: their nvidia-smi is asked, too. What was read is noted in the store, unless the world is read-only. */
int rk_nvlink_verify(struct rk_world *world, const char *selection, bool guests, struct rk_arena *arena, struct rk_plane_check **ret, size_t *ret_n,
		     struct rk_err *err);
int rk_ib_verify(struct rk_world *world, struct rk_arena *arena, struct rk_plane_check **ret, size_t *ret_n, struct rk_err *err);
