/* Hash map from a byte-string key to a size_t value (usually an array index). Keys are copied. O(1) everywhere. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rk_map;
struct rk_map *rk_map_new(void);
void rk_map_free(struct rk_map *map);
void rk_cleanup_map(struct rk_map **map);
#define RK_CLEANUP_MAP __attribute__((cleanup(rk_cleanup_map)))
/* Adds key -> value. False (and nothing changed) when the key is there already; *ret_old then tells its value (may be NULL). */
bool rk_map_add(struct rk_map *map, const char *key, size_t value, size_t *ret_old);
void rk_map_set(struct rk_map *map, const char *key, size_t value);
bool rk_map_get(const struct rk_map *map, const char *key, size_t *ret);
/* The same with a 64-bit identity as key; one map holds either string or u64 keys. */
bool rk_map_add_u64(struct rk_map *map, uint64_t key, size_t value, size_t *ret_old);
void rk_map_set_u64(struct rk_map *map, uint64_t key, size_t value);
bool rk_map_get_u64(const struct rk_map *map, uint64_t key, size_t *ret);
size_t rk_map_count(const struct rk_map *map);
