/* What the files of the isolation proof share. Private to provision/isolation*.c. */
#pragma once
#include "provision/isolation.h"
#include "provision/verify.h"

struct rk_proof {
	struct rk_world *world;
	const struct rk_site *site;
	const struct rk_live *live;
	struct rk_arena *arena;
	struct rk_checks checks;
	struct violations {
		struct rk_violation *items;
		size_t n, cap;
	} found;
	struct rk_map *seen;              /* violations that were told */
	struct rk_map *owners;            /* fabric << 16 | key -> tenant, of the store */
	struct rk_map *foreign;           /* fabric << 16 | key -> index into holders: keys that the store does not have */
	struct holders {
		struct holder {
			int fabric;
			unsigned key;
			unsigned char *how; /* per tenant: 1 limited, 2 full */
		} *items;
		size_t n, cap;
	} holders;
	struct rk_map *managers;          /* GUIDs that the configuration makes full members of the default partition */
};

/* Of the maps of keys. */
static inline uint64_t rk_proof_key(int fabric, unsigned pkey)
{
	return ((uint64_t)fabric << 16) | (pkey & 0x7fffu);
}
int rk_proof_cluster_of(const struct rk_proof *p, int tray); /* RK_NONE: nobody's */
int rk_proof_tenant_of(const struct rk_proof *p, int tray);
const char *rk_proof_tenant_name(const struct rk_proof *p, int tenant);
/* One per place and pair of tenants; RK_NONE: nobody, or everybody. */
void rk_proof_violate(struct rk_proof *p, const char *plane, const char *where, int a, int b, const char *what);
/* A row of a place: fail when violations came up since `before`. cluster RK_NONE: of nobody. */
void rk_proof_add_row(struct rk_proof *p, const char *plane, const char *object, int cluster, size_t before, bool unknown, const char *message);

void rk_proof_rack(struct rk_proof *p, int rack);     /* isolation_nvl.c */
void rk_proof_fabric(struct rk_proof *p, int fabric); /* isolation_ib.c */
void rk_proof_paths(struct rk_proof *p, int fabric);  /* isolation_paths.c */
