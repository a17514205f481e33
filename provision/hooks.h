/* The site's own commands on things that happen (`hooks` of the site file): "leak", "isolation", "operation". */
#pragma once
#include "provision/world.h"

/* Handed to the command as an environment variable RACKSH_<name>; value NULL: not set. */
struct rk_hook_fact {
	const char *name, *value;
};
/* Runs the command of this event through the shell, with RACKSH_EVENT and the facts in its environment, no input, its output discarded, for at
 * most 30 s. 0 when the site names none, and in the twin, where nothing outside is touched. RK_FAILED: it ended badly; RK_UNREACHABLE: it did not
 * end in time and was killed; both are told as progress, too. What happened goes on either way: most callers have no use for the error. */
int rk_hook_run(const struct rk_world *world, const char *event, const struct rk_hook_fact *facts, size_t n, struct rk_err *err);
