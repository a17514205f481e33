/* Files without a name, for what a program that a test starts reads and writes. */
#pragma once
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "inventory/base/mem.h"
#include "inventory/base/str.h"

/* -1: it cannot be made there. */
static inline int scratch_open(const char *folder)
{
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/scratch.XXXXXX", folder);
	int fd = mkstemp(path);

	if (fd >= 0)
		unlink(path);
	return fd;
}

/* Appends all that is in the file, and closes it. */
static inline void scratch_take(int fd, struct rk_str *out)
{
	char buf[65536];

	lseek(fd, 0, SEEK_SET);
	for (ssize_t n; (n = read(fd, buf, sizeof(buf))) > 0;)
		rk_str_addn(out, buf, (size_t)n);
	close(fd);
}

/* In the program's process: a shell cannot trap what was ignored when it began, as in a job of the background. */
static inline void scratch_default_signals(void)
{
	static const int all[] = { SIGHUP, SIGINT, SIGTERM, SIGPIPE };

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		signal(all[i], SIG_DFL);
}
