/* A command on this machine, as rk_ssh_run runs one elsewhere. */
#pragma once
#include <spawn.h>

#include "provision/ssh.h"

/* For posix_spawn of what people wrote: in a process group of its own, so that what it starts ends with it, and SIGPIPE and SIGXFSZ as programs expect them, not as
 * racksh has it. Free with posix_spawnattr_destroy. */
void rk_local_attr(posix_spawnattr_t *attr);

/* argv is searched in PATH; input may be NULL. A non-zero exit is 0 with result->status set. RK_UNREACHABLE: it did not end within total_ms and was
 * killed with everything it started; RK_CANCELLED; RK_FAILED: it could not be started. Clear the result. */
int rk_local_run(const char *const *argv, const char *input, size_t len, int total_ms, const volatile int *cancel, struct rk_ssh_result *result,
		 struct rk_err *err);
