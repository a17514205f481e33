#include "inventory/profile.h"

#include <stdio.h>
#include <string.h>

#include "inventory/base/data.h"
#include "inventory/base/json.h"
#include "inventory/base/str.h"

static const char *const names[] = { "gb300-nvl72", "gb200-nvl72", "hgx-generic" };

const char *const *rk_profile_names(size_t *ret_n)
{
	*ret_n = RK_ARRAY_SIZE(names);
	return names;
}

static const struct rk_data *data_of(const char *name)
{
	char path[128];

	if (strlen(name) > 60)
		return NULL;
	snprintf(path, sizeof(path), "inventory/profiles/%s.json", name);
	for (const struct rk_data *d = rk_data_files; d->path; d++)
		if (strcmp(d->path, path) == 0)
			return d;
	return NULL;
}

static int whole(const struct rk_jnode *root, const char *key)
{
	uint64_t v = 0;

	rk_ju64(rk_jget(root, key), &v);
	return (int)v;
}

static double real(const struct rk_jnode *root, const char *key)
{
	double v = 0;

	rk_jdouble(rk_jget(root, key), &v);
	return v;
}

static void whole_list(const struct rk_jnode *root, const char *key, int *out, size_t max)
{
	size_t i = 0;

	RK_JEACH(it, rk_jget(root, key)) {
		uint64_t v = 0;
		if (i < max && rk_ju64(it, &v))
			out[i] = (int)v;
		i++;
	}
}

static void text_list(const struct rk_jnode *root, const char *key, struct rk_arena *arena, const char **out, size_t max)
{
	size_t i = 0;

	RK_JEACH(it, rk_jget(root, key)) {
		if (i < max)
			out[i] = rk_arena_strdup(arena, rk_jstr(it));
		i++;
	}
}

int rk_profile_load(const char *name, struct rk_arena *arena, struct rk_profile *ret, struct rk_err *err)
{
	const struct rk_data *data = data_of(name);
	RK_CLEANUP_JSON struct rk_json *json = NULL;

	if (!data) {
		const char *near = rk_near_name(name, names, RK_ARRAY_SIZE(names));
		rk_err_set(err, RK_NOT_FOUND, "no rack profile \"%s\"", name);
		if (near)
			rk_err_hint(err, "did you mean \"%s\"?", near);
		return RK_NOT_FOUND;
	}
	int rc = rk_json_parse(data->path, data->text, data->len, &json, err);
	if (rc)
		return rc;
	const struct rk_jnode *root = rk_json_root(json);
	*ret = (struct rk_profile){
		.name = rk_arena_strdup(arena, name),
		.trays = whole(root, "trays"),
		.switch_trays = whole(root, "switchTrays"),
		.gpus_per_tray = whole(root, "gpusPerTray"),
		.hcas_per_tray = whole(root, "hcasPerTray"),
		.nvme_per_tray = whole(root, "nvmePerTray"),
		.cpus_per_tray = whole(root, "cpusPerTray"),
		.sockets = whole(root, "sockets"),
		.memory_mib = (uint64_t)whole(root, "memoryMib"),
		.rack_kw = real(root, "rackKw"),
		.tray_kw = real(root, "trayKw"),
		.rate_gbps = whole(root, "rateGbps"),
		.dpus_per_tray = whole(root, "dpusPerTray"),
		.power_shelves = whole(root, "powerShelves"),
		.management_switches = whole(root, "managementSwitches"),
		.shelf_kw = real(root, "shelfKw"),
		.json = data->text,
	};
	text_list(root, "gpuPci", arena, ret->gpu_pci, RK_GPUS_MAX);
	text_list(root, "hcaPci", arena, ret->hca_pci, RK_RAILS_MAX);
	whole_list(root, "gpuModule", ret->gpu_module, RK_GPUS_MAX);
	whole_list(root, "gpuNuma", ret->gpu_numa, RK_GPUS_MAX);
	whole_list(root, "hcaNuma", ret->hca_numa, RK_RAILS_MAX);
	whole_list(root, "slots", ret->slot, RK_ARRAY_SIZE(ret->slot));
	whole_list(root, "switchSlots", ret->switch_slot, RK_ARRAY_SIZE(ret->switch_slot));
	whole_list(root, "switchU", ret->switch_u, RK_ARRAY_SIZE(ret->switch_u));
	whole_list(root, "uPositions", ret->u_position, RK_ARRAY_SIZE(ret->u_position));
	return 0;
}
