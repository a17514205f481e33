#include "inventory/site_sizes.h"

#include <string.h>
#include <strings.h>

#include "inventory/base/data.h"
#include "inventory/base/map.h"
#include "inventory/model.h"
#include "inventory/site_keys.h"

enum { SIZES_MAX = 256, VCPUS_MAX = 1024, MEMORY_MIB_MAX = 64 << 20 };

static const struct {
	const char *key;
	uint64_t min, max;
} limits[] = {
	{ "vcpus", 1, VCPUS_MAX },      { "memoryMib", 64, MEMORY_MIB_MAX }, { "gpus", 0, RK_GPUS_MAX },         { "hcas", 0, RK_RAILS_MAX },
	{ "nvme", 0, RK_NVME_MAX },     { "capacityMultiple", 0, 100000 },   { "vmsPerDomain", 0, 1000 },
};

static void check_numbers(struct rk_diags *diags, const struct rk_jnode *size)
{
	const struct rk_jnode *kw = rk_jget(size, "trayKw");
	uint64_t v;
	double real;

	for (size_t i = 0; i < RK_ARRAY_SIZE(limits); i++) {
		const struct rk_jnode *node = rk_jget(size, limits[i].key);
		if (node && node->type == RK_JNUMBER && (!rk_ju64(node, &v) || v < limits[i].min || v > limits[i].max))
			rk_diag_at(diags, node, RK_AT_VALUE, "\"%s\" takes a whole number from %llu to %llu, not %s", node->key,
				   (unsigned long long)limits[i].min, (unsigned long long)limits[i].max, node->text);
	}
	if (kw && kw->type == RK_JNUMBER && (!rk_jdouble(kw, &real) || real < 0 || real > 1000))
		rk_diag_at(diags, kw, RK_AT_VALUE, "\"trayKw\" takes a number from 0 to 1000, not %s", kw->text);
}

static void check_hole(struct rk_diags *diags, const struct rk_jnode *size)
{
	const struct rk_jnode *hole = rk_jget(size, "pciHole64Kib");
	uint64_t kib = 0;
	bool passthrough = false;

	rk_jbool(rk_jget(size, "passthrough"), &passthrough);
	rk_ju64(hole, &kib);
	if (!passthrough || (hole && hole->type != RK_JNUMBER))
		return;
	if (kib && !(kib & (kib - 1)))
		return;
	rk_diag_at(diags, hole ? hole : size, RK_AT_VALUE, "a size with \"passthrough\" needs \"pciHole64Kib\", a power of two");
	rk_diag_hint(diags, "4 x GB300: 8589934592 (8 TiB); 4 x GB200: 4294967296; half of it for half the GPUs");
}

static void check_texts(struct rk_diags *diags, const struct rk_jnode *list)
{
	RK_JEACH(it, list && list->type == RK_JARRAY ? list : NULL)
		if (!rk_jstr(it))
			rk_diag_at(diags, it, RK_AT_VALUE, "\"%s\" holds strings, not %s", list->key, rk_jtype_name(it->type));
}

/* Name of a built-in size: its file is called so. */
static bool builtin(const char *name)
{
	char *path RK_CLEANUP_FREE = rk_xasprintf("vmspec/sizes/%s.json", name);

	for (const struct rk_data *d = rk_data_files; d->path; d++)
		if (strcasecmp(d->path, path) == 0)
			return true;
	return false;
}

static void check_name(struct rk_diags *diags, const struct rk_jnode *node, struct rk_map *seen)
{
	if (!rk_jstr(node))
		return;
	if (!rk_name_valid(node->text)) {
		rk_diag_at(diags, node, RK_AT_VALUE, "\"%s\" is no valid name of a size", node->text);
		rk_diag_hint(diags, "names have 1 to 63 of a-z 0-9 and '-', and do not begin or end with '-'");
	} else if (builtin(node->text)) {
		rk_diag_at(diags, node, RK_AT_VALUE, "size \"%s\" is built in: a site can add sizes, not change one", node->text);
	} else if (!rk_map_add(seen, node->text, 1, NULL)) {
		rk_diag_at(diags, node, RK_AT_VALUE, "size \"%s\" is used twice", node->text);
	}
}

static void check_size(struct rk_diags *diags, const struct rk_jnode *size, struct rk_map *seen)
{
	static const char *const lists[] = { "aliases", "optional", "notSupported" };

	if (!rk_site_fields(diags, size, RK_SITE_SIZE))
		return;
	check_name(diags, rk_jget(size, "name"), seen);
	check_numbers(diags, size);
	check_hole(diags, size);
	for (size_t i = 0; i < RK_ARRAY_SIZE(lists); i++)
		check_texts(diags, rk_jget(size, lists[i]));
}

const char *rk_site_read_sizes(struct rk_diags *diags, const struct rk_jnode *node, struct rk_arena *arena)
{
	struct rk_map *seen RK_CLEANUP_MAP = rk_map_new();
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_jw w;

	if (!node || node->type != RK_JARRAY)
		return NULL;
	if (node->n > SIZES_MAX) {
		rk_diag_at(diags, node, RK_AT_VALUE, "more than %d sizes", SIZES_MAX);
		return NULL;
	}
	RK_JEACH(it, node)
		check_size(diags, it, seen);
	rk_jw_init(&w, &out, 0);
	rk_jw_node(&w, node);
	return rk_arena_strdup(arena, rk_str_text(&out));
}
