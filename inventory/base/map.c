#include "inventory/base/map.h"

#include <stdlib.h>
#include <string.h>

#include "inventory/base/mem.h"

struct slot {
	const char *key; /* in the arena; NULL = free */
	uint32_t len;
	uint64_t hash;
	size_t value;
};

struct rk_map {
	struct rk_arena *arena;
	struct slot *slots; /* power of two */
	size_t cap, n;
};

struct rk_map *rk_map_new(void)
{
	struct rk_map *map = rk_xcalloc(1, sizeof(*map));

	map->arena = rk_arena_new();
	map->cap = 16;
	map->slots = rk_xcalloc(map->cap, sizeof(*map->slots));
	return map;
}

void rk_map_free(struct rk_map *map)
{
	if (!map)
		return;
	rk_arena_free(map->arena);
	free(map->slots);
	free(map);
}

void rk_cleanup_map(struct rk_map **map)
{
	rk_map_free(*map);
}

/* FNV-1a with a final mix; keys are names of one site, not hostile at a scale where flooding matters (inputs are bounded). */
static uint64_t hash_of(const char *key, size_t len)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (unsigned char)key[i]) * 0x100000001b3u;
	h ^= h >> 32;
	return h * 0x9e3779b97f4a7c15u;
}

static struct slot *find(struct slot *slots, size_t cap, const char *key, size_t len, uint64_t hash)
{
	size_t i = hash >> 20 & (cap - 1);

	while (slots[i].key && !(slots[i].hash == hash && slots[i].len == len && memcmp(slots[i].key, key, len) == 0))
		i = (i + 1) & (cap - 1);
	return &slots[i];
}

static void grow(struct rk_map *map)
{
	size_t cap = map->cap * 2;
	struct slot *slots = rk_xcalloc(cap, sizeof(*slots));

	for (size_t i = 0; i < map->cap; i++)
		if (map->slots[i].key)
			*find(slots, cap, map->slots[i].key, map->slots[i].len, map->slots[i].hash) = map->slots[i];
	free(map->slots);
	map->slots = slots;
	map->cap = cap;
}

/* The slot of key, made when absent (*ret_new). */
static struct slot *slot_for(struct rk_map *map, const char *key, size_t len, bool *ret_new)
{
	if ((map->n + 1) * 4 > map->cap * 3)
		grow(map);
	uint64_t hash = hash_of(key, len);
	struct slot *s = find(map->slots, map->cap, key, len, hash);
	*ret_new = !s->key;
	if (!s->key) {
		char *copy = rk_arena_alloc(map->arena, len + 1);
		memcpy(copy, key, len);
		*s = (struct slot){ .key = copy, .len = (uint32_t)len, .hash = hash };
		map->n++;
	}
	return s;
}

static bool add(struct rk_map *map, const char *key, size_t len, size_t value, size_t *ret_old)
{
	bool is_new;
	struct slot *s = slot_for(map, key, len, &is_new);

	if (is_new)
		s->value = value;
	else if (ret_old)
		*ret_old = s->value;
	return is_new;
}

static void set(struct rk_map *map, const char *key, size_t len, size_t value)
{
	bool is_new;

	slot_for(map, key, len, &is_new)->value = value;
}

static bool get(const struct rk_map *map, const char *key, size_t len, size_t *ret)
{
	const struct slot *s = find(map->slots, map->cap, key, len, hash_of(key, len));

	if (s->key && ret)
		*ret = s->value;
	return s->key != NULL;
}

bool rk_map_add(struct rk_map *map, const char *key, size_t value, size_t *ret_old)
{
	return add(map, key, strlen(key), value, ret_old);
}

void rk_map_set(struct rk_map *map, const char *key, size_t value)
{
	set(map, key, strlen(key), value);
}

bool rk_map_get(const struct rk_map *map, const char *key, size_t *ret)
{
	return get(map, key, strlen(key), ret);
}

bool rk_map_add_u64(struct rk_map *map, uint64_t key, size_t value, size_t *ret_old)
{
	return add(map, (const char *)&key, sizeof(key), value, ret_old);
}

void rk_map_set_u64(struct rk_map *map, uint64_t key, size_t value)
{
	set(map, (const char *)&key, sizeof(key), value);
}

bool rk_map_get_u64(const struct rk_map *map, uint64_t key, size_t *ret)
{
	return get(map, (const char *)&key, sizeof(key), ret);
}

size_t rk_map_count(const struct rk_map *map)
{
	return map->n;
}
