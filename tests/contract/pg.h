/* A PostgreSQL server for tests: made from the installed package in a temporary folder, reached by a unix socket only, run by an
 * unprivileged account, gone with its folder at the end. */
#pragma once
#include <ftw.h>
#include <glob.h>
#include <fcntl.h>
#include <grp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inventory/base/mem.h"

enum { PG_NOBODY = 65534 };

struct pg_server {
	char folder[64], *bin, *uri; /* uri NULL: no server */
};

static inline int pg_run(const struct pg_server *pg, const char *const *argv)
{
	char *program RK_CLEANUP_FREE = rk_xasprintf("%s/%s", pg->bin, argv[0]);
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);
		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		if (chdir(pg->folder) < 0 || (geteuid() == 0 && (setgroups(0, NULL) < 0 || setgid(PG_NOBODY) < 0 || setuid(PG_NOBODY) < 0)))
			_exit(126);
		execv(program, (char *const *)argv);
		_exit(127);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

static inline int pg_unlink(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static inline char *pg_options(const struct pg_server *pg)
{
	return rk_xasprintf("-k %s -c listen_addresses= -c fsync=off -c max_connections=40", pg->folder);
}

static inline void pg_signal(const struct pg_server *pg, const char *verb)
{
	char *options RK_CLEANUP_FREE = pg_options(pg);
	const char *const argv[] = { "pg_ctl", "-D", "data", "-w", "-m", "immediate", "-l", "log", "-o", options, verb, NULL };

	pg_run(pg, argv);
}

/* Without a server (not installed, or it does not start) uri stays NULL. */
static inline void pg_start(struct pg_server *pg)
{
	const char *const init[] = { "initdb", "-D", "data", "-A", "trust", "-U", "racksh", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", NULL };
	glob_t found;

	*pg = (struct pg_server){ .folder = "/tmp/racksh-pg-XXXXXX" };
	if (glob("/usr/lib/postgresql/*/bin/initdb", 0, NULL, &found) == 0) {
		pg->bin = rk_xstrdup(found.gl_pathv[found.gl_pathc - 1]);
		*strrchr(pg->bin, '/') = '\0';
		globfree(&found);
	}
	if (!pg->bin || !mkdtemp(pg->folder) || (geteuid() == 0 && chown(pg->folder, PG_NOBODY, PG_NOBODY) < 0))
		return;
	char *options RK_CLEANUP_FREE = pg_options(pg);
	const char *const start[] = { "pg_ctl", "-D", "data", "-w", "-l", "log", "-o", options, "start", NULL };
	if (pg_run(pg, init) == 0 && pg_run(pg, start) == 0)
		pg->uri = rk_xasprintf("postgresql:///postgres?host=%s&user=racksh", pg->folder);
}

static inline void pg_stop(struct pg_server *pg)
{
	if (pg->uri)
		pg_signal(pg, "stop");
	if (pg->bin)
		nftw(pg->folder, pg_unlink, 16, FTW_DEPTH | FTW_PHYS);
	free(pg->uri);
	free(pg->bin);
}
