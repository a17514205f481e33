/* What UFM answers (field/infiniband.md section 4). Pure. What is not understood is RK_UNREACHABLE. */
#pragma once
#include "inventory/base/json.h"
#include "inventory/base/map.h"
#include "provision/ib.h"

/* One key, with its members sorted; `ours` is the caller's to say. */
int rk_ufm_partition(const struct rk_jnode *node, uint16_t pkey, struct rk_arena *arena, struct rk_ib_live *ret, struct rk_err *err);
/* The object of all keys. RK_UNHEALTHY: everybody is a full member of the default partition. */
int rk_ufm_partitions(const struct rk_jnode *root, struct rk_arena *arena, struct rk_ib_live **ret, size_t *ret_n, struct rk_err *err);
/* Ports that UFM sees in the fabric -> 1 active, 0 not. */
int rk_ufm_ports(const struct rk_jnode *root, struct rk_map *active, struct rk_err *err);
/* Names of the SHARP reservations of a key, with commas. */
int rk_ufm_sharp(const struct rk_jnode *root, uint16_t pkey, struct rk_str *names, struct rk_err *err);

const struct rk_ib_member *rk_ufm_member(const struct rk_ib_member *members, size_t n, uint64_t guid); /* of a sorted list, or NULL */
int rk_ufm_cmp_member(const void *a, const void *b);
