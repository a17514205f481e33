/* Files that are part of the program: profiles, sizes, health profiles (made by tests/embed.sh at build time). */
#pragma once
#include <stddef.h>

struct rk_data {
	const char *path; /* in the source tree, e.g. "inventory/profiles/gb300-nvl72.json" */
	const char *text; /* NUL terminated */
	size_t len;
};
extern const struct rk_data rk_data_files[]; /* ends with path == NULL */
