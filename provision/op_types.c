#include <string.h>

#include "provision/cluster_impl.h"

static const struct rk_op_type op_types[] = {
	{ .name = "cluster.create", .finish = rk_finish_create },
	{ .name = "cluster.delete", .forward_only = true, .finish = rk_finish_delete },
	{ .name = "cluster.grow", .finish = rk_finish_grow },
	{ .name = "cluster.shrink", .finish = rk_finish_shrink },
	{ .name = "cluster.rename" },
	{ .name = "cluster.repair", .finish = rk_finish_repair },
	{ .name = "service.create", .finish = rk_finish_service_create },
	{ .name = "service.delete", .forward_only = true, .finish = rk_finish_service_delete },
	{ .name = "tray.replace", .forward_only = true },
	{ .name = "drift.fix", .independent = true, .finish = rk_finish_power },
	{ .name = "tray.restore", .independent = true },
	{ .name = "vm.power", .independent = true, .finish = rk_finish_power },
	{ .name = "bundle", .finish = rk_finish_bundle },
	{ .name = "edits", .finish = rk_finish_edits }, /* only as a part of a bundle */
	{ .name = "power", .independent = true }, /* no steps: it holds the racks while trays are switched */
};

const struct rk_op_type *rk_op_type_find(const char *name)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(op_types); i++)
		if (strcmp(op_types[i].name, name) == 0)
			return &op_types[i];
	return NULL;
}
