#include "provision/drivers/nvos_commands.h"

#include <inttypes.h>
#include <stdio.h>

#include "inventory/base/str.h"

/* {id} {name} {mode} {MODE} {groups} {uuid} are filled in. NVOS calls adding "update" and removing "restore". What an older release writes in
 * another way has a row of its own; an empty row is as at present. */
static const char *const commands[RK_NVOS_DIALECTS][RK_NVOS_COMMANDS][RK_NVOS_WORDS] = {
	[RK_NVOS_PRESENT] = {
		[RK_NVOS_SHOW_ALL] = { "nv", "show", "sdn", "partition", "-o", "json", NULL },
		[RK_NVOS_SHOW_ONE] = { "nv", "show", "sdn", "partition", "{id}", "-o", "json", NULL },
		[RK_NVOS_SHOW_CLUSTER] = { "nv", "show", "cluster", "-o", "json", NULL },
		[RK_NVOS_SHOW_APPS] = { "nv", "show", "cluster", "apps", "-o", "json", NULL },
		[RK_NVOS_SHOW_UNSAVED] = { "nv", "config", "diff", "startup", "applied", "-o", "json", NULL },
		[RK_NVOS_SHOW_VERSION] = { "nv", "show", "system", "version", "-o", "json", NULL },
		[RK_NVOS_SHOW_LOCATION] = { "nv", "show", "platform", "chassis-location", "-o", "json", NULL },
		[RK_NVOS_CREATE] = { "nv", "action", "create", "sdn", "partition", "{id}", "name", "{name}", "resiliency-mode", "{mode}", "mcast-limit", "{groups}", NULL },
		[RK_NVOS_DELETE] = { "nv", "action", "delete", "sdn", "partition", "{id}", NULL },
		[RK_NVOS_ADD] = { "nv", "action", "update", "sdn", "partition", "{id}", "uuid", "{uuid}", NULL },
		[RK_NVOS_DROP] = { "nv", "action", "restore", "sdn", "partition", "{id}", "uuid", "{uuid}", NULL },
	},
	[RK_NVOS_OLDER] = {
		[RK_NVOS_CREATE] = { "nv", "action", "create", "sdn", "partition", "{id}", "name", "{name}", "resiliency-mode", "{MODE}", "confidential-compute", "false",
			     "mcast-limit", "{groups}", NULL },
	},
};
static const char *const modes[][2] = { { "full_bandwidth", "FULL_BANDWIDTH" }, { "adaptive_bandwidth", "ADAPTIVE_BANDWIDTH" }, { "user_action", "USER_ACTION" } };

bool rk_nvos_mode_valid(const char *mode)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(modes); i++)
		if (rk_streq(modes[i][0], mode))
			return true;
	return false;
}

static const char *old_mode(const char *mode)
{
	for (size_t i = 0; mode && i < RK_ARRAY_SIZE(modes); i++)
		if (rk_streq(modes[i][0], mode))
			return modes[i][1];
	return mode;
}

void rk_nvos_argv(enum rk_nvos_dialect dialect, enum rk_nvos_command command, const struct rk_nvos_args *args, struct rk_arena *arena, const char *argv[RK_NVOS_WORDS])
{
	const char *const *row = commands[commands[dialect][command][0] ? dialect : RK_NVOS_PRESENT][command];
	const struct {
		const char *place, *value;
	} values[] = {
		{ "{id}", rk_arena_printf(arena, "%d", args->id) },
		{ "{name}", args->name },
		{ "{mode}", args->mode },
		{ "{MODE}", old_mode(args->mode) },
		{ "{groups}", rk_arena_printf(arena, "%d", args->groups) },
		{ "{uuid}", rk_arena_printf(arena, "%" PRIu64, args->gpu) },
	};
	int n = 0;

	for (; row[n]; n++) {
		argv[n] = row[n];
		for (size_t v = 0; v < RK_ARRAY_SIZE(values); v++)
			if (rk_streq(argv[n], values[v].place))
				argv[n] = values[v].value;
	}
	argv[n] = NULL;
}
