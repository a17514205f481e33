/* What the operations on clusters share: provision/cluster_*.c. */
#pragma once
#include "provision/cluster.h"

struct rk_member {                        /* one VM of a plan */
	const char *vm, *address;
	int tray, number;
	bool off;                         /* it is stopped: nobody to talk to */
};
/* What steps are made from: a planned or an existing cluster. */
struct rk_layout {
	const struct rk_site *site;
	struct rk_arena *arena;
	const char *cluster;
	const struct rk_member *members; size_t n;      /* the VMs the change is about */
	const struct rk_member *rest; size_t n_rest;    /* those that stay as they are */
	int tenant;
	const char *ib_name;              /* what the subnet manager calls its partition; NULL: by the cluster */
	const char *resiliency;
	int multicast;
	int fabric;                       /* RK_NONE: no InfiniBand */
	uint16_t pkey;
	bool full;
	int *nvl_ids;                     /* partition per rack of the site; 0 = the cluster has none there */
	const char **nvl_names;           /* what the switches call it, per rack; unique there */
};
/* A name for a new partition of the cluster: the cluster's, unless one of that name is there since another cluster was renamed. In the arena. */
const char *rk_free_nvl_name(const struct rk_site *site, int rack, const char *cluster, struct rk_arena *arena);
/* Of a cluster that exists: every VM is a member, in number order. */
void rk_layout_of_cluster(const struct rk_site *site, const struct rk_cluster *c, struct rk_arena *arena, struct rk_layout *ret);
/* n new VMs on these trays, numbered from `first`, with free addresses (NULL when there is none). */
const struct rk_member *rk_name_members(struct rk_world *world, const char *cluster, int first, const int *trays, size_t n, struct rk_arena *arena);
const char *rk_next_address(struct rk_world *world, size_t *nth, struct rk_arena *arena); /* NULL: none is free */
/* The UUID of a new VM, in the arena. One that a repair may have to give back is not free: its cluster may have had this one's name. */
int rk_free_uuid(struct rk_world *world, const char *cluster, const char *vm, int generation, struct rk_arena *arena, const char **ret, struct rk_err *err);

/* Step adders; deps as rk_plan_add; they return ids. tray NULL: where the store says. */
int rk_add_vm_step(struct rk_plan *plan, const char *kind, const char *vm, const char *tray, const int *deps, size_t n_deps);
int rk_add_nvl_step(struct rk_plan *plan, const struct rk_layout *l, const char *kind, int rack, const int *deps, size_t n_deps);
int rk_add_ib_step(struct rk_plan *plan, const struct rk_layout *l, const char *kind, const int *deps, size_t n_deps);
/* RK_CONFLICT when a service has the name. */
int rk_cluster_name_free(const struct rk_site *site, const char *name, struct rk_err *err);
/* The members' ports into, or out of, the services that the tenant has on the cluster's fabric: a step "service.join", "service.leave" or "service.expel" each. ids: room
 * for one per service of the site, or NULL. Returns how many. */
size_t rk_add_service_steps(struct rk_plan *plan, const struct rk_layout *l, const char *kind, const int *deps, size_t n_deps, int *ids);
/* preflight -> partitions -> volumes -> define -> start -> ssh of the members; last: one id per member. */
void rk_add_build(struct rk_plan *plan, const struct rk_layout *l, int *last);
/* The IMEX lists on the VMs that stay, of every rack where members come or go: with_members, the list holds them. ids: room for n_rest. */
size_t rk_add_imex(struct rk_plan *plan, const struct rk_layout *l, bool with_members, const int *deps, size_t n_deps, int *ids);
/* Only when the spec requires it. */
void rk_add_gate(struct rk_plan *plan, const struct rk_layout *l, const struct rk_spec *spec, const int *deps, size_t n_deps);
/* boot -> ssh -> the IMEX list of its rack. The step after which the guest answers. */
int rk_add_boot(struct rk_plan *plan, const struct rk_site *site, int vm, const int *deps, size_t n_deps, struct rk_arena *arena);
int rk_add_halt(struct rk_plan *plan, const char *vm, int grace_s, bool hard, const int *deps, size_t n_deps);
bool rk_layout_in_rack(const struct rk_site *site, const struct rk_member *members, size_t n, int rack);

/* What a VM takes with its tray, for the store; `vm` points into the struct itself. */
struct rk_vm_row {
	struct rk_new_vm vm;
	uint64_t gpus[RK_GPUS_MAX], ports[RK_RAILS_MAX];
};
void rk_vm_row_on(const struct rk_site *site, int tray, struct rk_vm_row *ret);
/* Writes the row of a new VM, or (generation above 1) moves the one of this name to the member's tray. */
int rk_reserve_vm(struct rk_world *world, const struct rk_layout *l, const struct rk_member *m, int generation, struct rk_err *err);

/* Spec and size of an existing cluster; what of the spec the partitions are made of goes into the layout. */
int rk_cluster_spec(const struct rk_cluster *c, struct rk_layout *l, struct rk_spec **ret, const struct rk_size **ret_size, struct rk_err *err);
/* RK_CONFLICT naming the operation that holds it, or 0. */
int rk_cluster_held(struct rk_world *world, const struct rk_cluster *c, struct rk_err *err);
/* May the cluster be changed now? 0 yes; 1: the same change (type, count; count < 0 any) is under way, was taken up here, and *ret_op is it; else RK_CONFLICT. */
int rk_cluster_idle(struct rk_world *world, const struct rk_cluster *c, const char *type, int count, int64_t *ret_op, struct rk_err *err);
/* State of a cluster whose operation ended: degraded when its gate did not pass; `else_state` when the operation had none. */
int rk_cluster_settle(struct rk_world *world, int64_t op, const char *cluster, enum rk_cluster_state else_state, int64_t holder, struct rk_err *err);
/* The "state" that the params say the cluster had before; ready when they say none. */
enum rk_cluster_state rk_params_state(const struct rk_jnode *params);
/* Of a change that was taken back: the cluster is as it was before, and nobody's. */
int rk_cluster_put_back(struct rk_world *world, const struct rk_jnode *params, struct rk_err *err);
/* 0, or RK_UNHEALTHY when the cluster came out degraded: what the command says in the end. */
int rk_cluster_outcome(struct rk_world *world, const char *cluster, struct rk_err *err);
/* rk_cluster_plan with what the reservation needs to know. */
int rk_cluster_plan_layout(struct rk_world *world, const struct rk_spec *spec, const char *what_if, struct rk_arena *arena, struct rk_cluster_plan *ret,
			   struct rk_layout *l, struct rk_err *err);
/* VMs without an address to give them cannot be made: the placement is not feasible then, whatever the racks. */
void rk_placement_addressed(const struct rk_layout *l, const struct rk_spec *spec, struct rk_cluster_plan *cp);
int rk_placement_readable(const struct rk_placement *p, struct rk_err *err); /* RK_INVALID when identities were never read */
/* {"type":..., "cluster":...} left open for more keys; close with rk_params_end. */
void rk_params_begin(struct rk_jw *w, struct rk_str *out, const char *type, const char *cluster);
const char *rk_params_end(struct rk_jw *w, struct rk_str *out, struct rk_arena *arena);

/* Ends of the operation types (provision/op_types.c). */
typedef int rk_op_finish(struct rk_world *world, int64_t op, const struct rk_jnode *params, enum rk_op_end end, struct rk_err *err);
rk_op_finish rk_finish_create, rk_finish_delete, rk_finish_grow, rk_finish_shrink, rk_finish_repair, rk_finish_power, rk_finish_bundle, rk_finish_edits, rk_finish_service_create, rk_finish_service_delete;
