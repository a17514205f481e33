/*
 * What a bench program prints: one line per measurement, read by tests/bench/run.sh. A bench measures a thing of racksh and, where there is
 * one, a floor or a peer in the same run (the same work in bare C calls, or the tool people use today), because seconds of one machine say little.
 * Programs get RACKSH (the binary) and BUILD (its folder) in the environment and run at the top of the sources.
 */
#ifndef TESTS_BENCH_BENCH_H
#define TESTS_BENCH_BENCH_H

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Seconds since some moment in the past. */
static inline double bench_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The most memory this process ever held, MiB. */
static inline double bench_peak_mib(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)usage.ru_maxrss / 1024;
}

struct bench_run {
	double seconds;  /* from start to end */
	double cpu;      /* seconds of processor time, user and system */
	double peak_mib;
};

/* Runs a program (searched in PATH) to its end, its output thrown away. Returns its exit code, -1 when it could not run. */
static inline int bench_run(const char *const *argv, struct bench_run *ret)
{
	double from = bench_now();
	posix_spawn_file_actions_t actions;
	struct rusage usage;
	int status;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	int rc = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (rc != 0 || wait4(pid, &status, 0, &usage) != pid)
		return -1;
	ret->seconds = bench_now() - from;
	ret->cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
	ret->peak_mib = (double)usage.ru_maxrss / 1024;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static inline int bench_cmp(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The middle one of n values; sorts them. */
static inline double bench_median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), bench_cmp);
	return values[n / 2];
}

/*
 * One measurement. what: "site import, 64 racks". unit: "s", "ms", "MiB". peer: what stands beside it, NULL for none; peer_value in the same unit.
 * limit: what the issue asks for: "<=0.5" (of the value), ">=10x" (peer_value / value), NULL for none.
 */
static inline void bench_row(const char *what, double value, const char *unit, const char *peer, double peer_value, const char *limit)
{
	printf("%s\t%.6g\t%s\t%s\t%.6g\t%s\n", what, value, unit, peer ? peer : "-", peer ? peer_value : 0.0, limit ? limit : "-");
	fflush(stdout);
}

#endif
