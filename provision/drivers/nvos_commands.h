/* The NVOS command line as argument lists, per release (field/nvlink.md section 2). Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "inventory/base/mem.h"

enum rk_nvos_command {
	RK_NVOS_SHOW_ALL, RK_NVOS_SHOW_ONE, RK_NVOS_SHOW_CLUSTER, RK_NVOS_SHOW_APPS, RK_NVOS_SHOW_UNSAVED, RK_NVOS_SHOW_VERSION, RK_NVOS_SHOW_LOCATION,
	RK_NVOS_CREATE, RK_NVOS_DELETE, RK_NVOS_ADD, RK_NVOS_DROP, RK_NVOS_COMMANDS,
};
/* What is written in another way by an older release. */
enum rk_nvos_dialect { RK_NVOS_PRESENT, RK_NVOS_OLDER, RK_NVOS_DIALECTS };
enum { RK_NVOS_WORDS = 20 };

struct rk_nvos_args {
	int id, groups;
	const char *name, *mode;
	uint64_t gpu;
};
/* Ends with NULL; words are of the table, of args, or in the arena. */
void rk_nvos_argv(enum rk_nvos_dialect dialect, enum rk_nvos_command command, const struct rk_nvos_args *args, struct rk_arena *arena,
		  const char *argv[RK_NVOS_WORDS]);
bool rk_nvos_mode_valid(const char *mode); /* full_bandwidth | adaptive_bandwidth | user_action */
