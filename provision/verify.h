/* What is true now on the switches, the subnet managers and the trays, read in parallel for one verification (verify.c, verify_drift.c). */
#pragma once
#include "inventory/base/map.h"
#include "provision/cluster.h"

/* Which things are to be read: one flag per object of the site; NULL = none of that kind. */
struct rk_live_scope {
	const bool *racks, *fabrics, *hcas, *trays;
};
struct rk_live_nvl {
	bool read;                        /* false: `why` says why not, the rest means nothing */
	const char *why;
	struct rk_nvl_live *parts; size_t n;
	struct rk_map *at;                /* GPU fabric GUID -> partition id */
};
struct rk_live_ib {
	bool read;
	int rc;                           /* class of what reading gave */
	const char *why;
	struct rk_ib_live *parts; size_t n;
};
struct rk_live_tray {
	bool read;
	const char *why;
	struct rk_hv_domain *domains; size_t n;
};
struct rk_live {
	struct rk_world *world;
	const struct rk_site *site;
	const struct rk_live_scope *scope;
	struct rk_arena **arenas; size_t n_arenas; /* one per reader: an arena has one user at a time */
	struct rk_live_nvl *nvl;          /* per rack */
	struct rk_live_ib *ib;            /* per fabric */
	struct rk_ib_port *ports;         /* per HCA */
	struct rk_ib_port **servers;      /* per service: its servers' ports; NULL: its fabric was not to be read */
	struct rk_live_tray *trays;       /* per tray */
};
/* What cannot be read is recorded, never an error; the errors are those of opening the drivers and Ctrl-C. The scope is borrowed. */
int rk_live_read(struct rk_world *world, const struct rk_live_scope *scope, struct rk_live **ret, struct rk_err *err);
void rk_live_free(struct rk_live *live);
void rk_cleanup_live(struct rk_live **live);
#define RK_CLEANUP_LIVE __attribute__((cleanup(rk_cleanup_live)))
/* Does the store explain the partition? So are the default one and those of single trays, as long as nobody else is in them. */
bool rk_nvl_in_store(const struct rk_site *site, int rack, const struct rk_nvl_live *part);
bool rk_ib_in_store(const struct rk_site *site, int fabric, uint16_t pkey);
/* Partition of a GPU: 0 = in none, RK_NONE = unknown (rack not read, identity not known). */
int rk_live_gpu(const struct rk_live *live, int gpu);
const struct rk_nvl_live *rk_live_nvl_part(const struct rk_live *live, int partition); /* of the store, by index; NULL: not there, or not read */
const struct rk_ib_live *rk_live_ib_part(const struct rk_live *live, int fabric, uint16_t pkey);
bool rk_live_port_has(const struct rk_live *live, int hca, unsigned word);
/* Cluster on a tray, or RK_NONE. */
int rk_tray_cluster(const struct rk_site *site, int tray);
bool rk_rack_has_nvlink(const struct rk_site *site, int rack);
/* "r01-t03/2" */
const char *rk_gpu_label(const struct rk_site *site, int gpu, struct rk_arena *arena);
const char *rk_hca_label(const struct rk_site *site, int hca, struct rk_arena *arena);

/* How GPUs or ports differ from what the store says; names in the arena. */
struct rk_names {
	const char **items; size_t n, cap; /* malloc'ed array */
};
struct rk_member_diff {
	size_t wanted, there;             /* wanted members; how many of them are seen */
	struct rk_names missing, extra, unknown, wrong, down; /* wrong: ports that hold keys they must not; down: ports without a link */
	const char *why;                  /* of the first unknown */
};
void rk_member_diff_clear(struct rk_member_diff *diff);
/* Of partitions of the store, by index. */
void rk_live_nvl_diff(const struct rk_live *live, int partition, struct rk_arena *arena, struct rk_member_diff *ret);
void rk_live_ib_diff(const struct rk_live *live, int partition, struct rk_arena *arena, struct rk_member_diff *ret);
void rk_live_service_diff(const struct rk_live *live, int service, struct rk_arena *arena, struct rk_member_diff *ret);

/* Rows under construction; malloc'ed array. */
struct rk_checks {
	struct rk_plane_check *items; size_t n, cap;
};
void rk_check_add(struct rk_checks *checks, const char *plane, const char *object, const char *verdict, const char *wanted, const char *live,
		  const char *message);
/* A partition: its members against what the store says. Empties the difference. cluster RK_NONE: a service. */
void rk_check_members(struct rk_checks *checks, const struct rk_live *live, const char *plane, const char *object, int cluster, const char *thing,
		      struct rk_arena *arena, struct rk_member_diff *diff);
/* The rows into the arena; frees the array. */
void rk_checks_hand_over(struct rk_checks *checks, struct rk_arena *arena, struct rk_plane_check **ret, size_t *ret_n);
/* RK_UNHEALTHY, RK_UNREACHABLE or 0 by the worst verdict. what: "NVLink checks". Where nothing was looked at nothing is known: without rows it is
 * RK_UNREACHABLE, and missing says of what the store has none: "no NVLink switch". */
int rk_checks_verdict(const struct rk_checks *checks, const char *what, const char *missing, struct rk_err *err);
/* All true. */
bool *rk_flags_all(struct rk_arena *arena, size_t n);
