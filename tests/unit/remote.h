/* What a command left on a host, seen by pid: the hosts of these tests are this machine. */
#pragma once
#include <dirent.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/clock.h"

enum { REMOTE_WAIT_MS = 60000 };

/* Its session; -1 when it is gone. One that waits to be reaped is gone. */
static inline int remote_session(int pid)
{
	char path[64], line[512];
	int session = -1;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	FILE *f = fopen(path, "re");
	if (f && fgets(line, sizeof(line), f)) {
		const char *rest = strrchr(line, ')');
		char state;
		if (!rest || sscanf(rest, ") %c %*d %*d %d", &state, &session) != 2 || state == 'Z')
			session = -1;
	}
	if (f)
		fclose(f);
	return session;
}

static inline size_t remote_in_session(int session)
{
	DIR *dir = opendir("/proc");
	size_t n = 0;

	for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;)
		n += atoi(e->d_name) > 0 && remote_session(atoi(e->d_name)) == session;
	closedir(dir);
	return n;
}

/* Numbers of a file, one a line; no more than max. */
static inline size_t remote_pids(const char *path, int *pids, size_t max)
{
	FILE *f = fopen(path, "re");
	size_t n = 0;

	while (f && n < max && fscanf(f, "%d", &pids[n]) == 1)
		n++;
	if (f)
		fclose(f);
	return n;
}

/* Waits until so many have written their pid. */
static inline void remote_begun(const char *path, int *pids, size_t n)
{
	int64_t until = rk_clock_ms(NULL) + REMOTE_WAIT_MS;

	while (remote_pids(path, pids, n) < n) {
		if (rk_clock_ms(NULL) > until)
			abort();
		sched_yield();
	}
}

/* True: all of them are gone in time. */
static inline bool remote_gone(const int *pids, size_t n)
{
	int64_t until = rk_clock_ms(NULL) + REMOTE_WAIT_MS;

	for (size_t i = 0; i < n; i++)
		while (remote_session(pids[i]) >= 0) {
			if (rk_clock_ms(NULL) > until)
				return false;
			sched_yield();
		}
	return true;
}

static inline bool remote_session_gone(int session)
{
	int64_t until = rk_clock_ms(NULL) + REMOTE_WAIT_MS;

	while (remote_in_session(session)) {
		if (rk_clock_ms(NULL) > until)
			return false;
		sched_yield();
	}
	return true;
}
