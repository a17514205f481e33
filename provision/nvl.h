/* NVLink driver: the partitions of one rack's NVLink domain. Every call names a rack; one call per rack at a time, any thread.
 * "Accepted" is not "done": create/remove/add/drop return when the manager accepted; the caller reads back with list. */
#pragma once
#include "provision/hv.h"

struct rk_nvl;

struct rk_nvl_place {                     /* where a GPU is, as the switch tells; 0: not told */
	uint64_t gpu;
	int slot, module;
};
struct rk_nvl_live {
	int id;                           /* 1..32766 */
	bool id_given;                    /* the network chose the id, so that the name says whose it is (made through NMX-M) */
	const char *name, *health, *resiliency; /* health: "healthy" | "degraded" | "unhealthy" | NULL unknown */
	uint64_t *gpus; size_t n_gpus;    /* fabric GUIDs, sorted */
	struct rk_nvl_place *places;      /* per GPU, in the same order; NULL: not told */
};
struct rk_nvl_switch {                    /* a switch tray, as it tells itself; NULL or 0: not told */
	const char *name;                 /* as the site file writes its host */
	const char *why;                  /* why it did not answer; NULL: it did */
	const char *version;              /* NVOS release: "25.02.2553" */
	const char *chassis;              /* serial number of the chassis it sits in */
	int slot;                         /* of that chassis */
};
struct rk_nvl_ops {
	/* All partitions with their members, read now; in the arena. RK_UNREACHABLE: not known. */
	int (*list)(struct rk_nvl *nvl, int rack, struct rk_arena *arena, struct rk_nvl_live **ret, size_t *ret_n, struct rk_err *err);
	/* *ret_id: the id it has. With NMX-M the network chooses it, and mode and groups, too; one of this name that is there already is the one that was
	 * wanted. RK_NO_CAPACITY: the domain has not so many multicast groups left. */
	int (*create)(struct rk_nvl *nvl, int rack, int id, const char *name, const char *resiliency, int multicast_groups, int *ret_id, struct rk_err *err);
	int (*remove)(struct rk_nvl *nvl, int rack, int id, struct rk_err *err);     /* an empty partition; absent: 0 */
	int (*add)(struct rk_nvl *nvl, int rack, int id, uint64_t gpu, struct rk_err *err);
	int (*drop)(struct rk_nvl *nvl, int rack, int id, uint64_t gpu, struct rk_err *err);
	/* State of the controller itself: RK_UNREACHABLE, or RK_UNHEALTHY with the reason (not configured, not saved, moved). *ret_where: on which
	 * of the rack's switches it runs ("admin@r01-nvsw3"), in the arena; NULL: not known, or not told by this kind of manager. */
	int (*health)(struct rk_nvl *nvl, int rack, struct rk_arena *arena, const char **ret_where, struct rk_err *err);
	/* Every switch tray that the site names, in order; one that does not answer says why. RK_NOT_FOUND: this manager knows nothing of them. */
	int (*switches)(struct rk_nvl *nvl, int rack, struct rk_arena *arena, struct rk_nvl_switch **ret, size_t *ret_n, struct rk_err *err);
	void (*free)(struct rk_nvl *nvl);
};
struct rk_nvl {
	const struct rk_nvl_ops *ops;
	const struct rk_site *site;
};
/* The partition of one tray, in which its GPUs are alone: what it is called (in the arena), and which tray a live one is of (RK_NONE: none). */
const char *rk_nvl_tray_name(const struct rk_site *site, int tray, struct rk_arena *arena);
int rk_nvl_tray_of(const struct rk_site *site, int rack, const struct rk_nvl_live *live);
/* Is it the one that the store calls so? By id and name, for ids are given again; by name alone where the network gave the id. NVOS may tell no name
 * of one that is empty; the default one is known by its id. */
bool rk_nvl_is(const struct rk_nvl_live *live, int id, const char *name);
/* Does the network choose ids in this rack (NMX-M)? */
bool rk_nvl_gives_ids(const struct rk_site *site, int rack);
/* Chooses per rack by the site's nvlink.driver: "nvos" (the NVOS command line over SSH) or "nmxm" (NMX-M, REST). */
int rk_nvl_open(const struct rk_driver_env *env, struct rk_nvl **ret, struct rk_err *err);
