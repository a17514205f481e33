/* What NMX-M (NetQ NVLink) answers (field/nvlink.md section 4). Pure. */
#pragma once
#include "inventory/base/json.h"
#include "inventory/base/map.h"
#include "inventory/base/mem.h"

struct rk_nmxm_gpu {
	const char *id;                   /* NMX-M's own, 24 hex digits */
	const char *domain;               /* NMX domain UUID, not comparable with ClusterUUID; NULL unknown */
	uint64_t guid;                    /* DeviceUID = fabric GUID */
	long chassis, slot, host, device; /* of a location; -1 unknown */
};
struct rk_nmxm_gpus {
	struct rk_nmxm_gpu *items; size_t n;
	struct rk_map *by_id, *by_guid, *by_place; /* -> index; rk_nmxm_gpus_clear, after an error, too */
};
/* The array of GET /gpus. RK_UNREACHABLE when it is not understood. */
int rk_nmxm_gpus(const struct rk_jnode *root, struct rk_arena *arena, struct rk_nmxm_gpus *ret, struct rk_err *err);
void rk_nmxm_gpus_clear(struct rk_nmxm_gpus *gpus);

struct rk_nmxm_partition {
	const char *key;                  /* NMX-M's own id, for URLs */
	int id;                           /* of the network, 1..32766; 0 while it has none */
	const char *name, *health;        /* health: "healthy" | "degraded" | "unhealthy" | NULL unknown */
	bool by_location;                 /* members are named by location: a list in the other form is refused */
	int *gpus; size_t n_gpus;         /* indexes into the GPUs */
	const char *domain;               /* of its members; NULL when it has none */
};
/* The object of GET /partitions/ID, or the array of GET /partitions. A member that GET /gpus does not have makes it uncertain: RK_UNREACHABLE. */
int rk_nmxm_partition(const struct rk_jnode *root, const struct rk_nmxm_gpus *gpus, struct rk_arena *arena, struct rk_nmxm_partition *ret, struct rk_err *err);
int rk_nmxm_partitions(const struct rk_jnode *root, const struct rk_nmxm_gpus *gpus, struct rk_arena *arena, struct rk_nmxm_partition **ret, size_t *ret_n,
		       struct rk_err *err);
/* {"Members":[...]} (with "Name" when name is not NULL) of these GPUs, in the form the partition takes. */
void rk_nmxm_members_json(struct rk_str *out, const char *name, const struct rk_nmxm_gpus *gpus, const int *members, size_t n, bool by_location);

enum rk_nmxm_state { RK_NMXM_RUNNING, RK_NMXM_DONE, RK_NMXM_FAILED, RK_NMXM_CANCELLED, RK_NMXM_ODD };
struct rk_nmxm_operation {
	enum rk_nmxm_state state;
	bool cancellable;
	const char *step, *details;       /* NULL unknown */
};
void rk_nmxm_operation(const struct rk_jnode *root, struct rk_arena *arena, struct rk_nmxm_operation *ret);
/* The controller of the domain in GET /services: 0, RK_UNHEALTHY, RK_UNREACHABLE. */
int rk_nmxm_services(const struct rk_jnode *root, const char *domain, struct rk_err *err);
