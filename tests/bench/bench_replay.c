/* Judging the kept answers of 1,152 targets: read from an evidence folder and judged at the standard level, in a process of its own so that the
 * memory is that of the replay alone. */
#include <ftw.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inventory/base/file.h"
#include "provision/health/health.h"
#include "tests/bench/bench.h"

enum { TARGETS = 1152, PER_RACK = 18, COLLECTORS_MAX = 32 };

static size_t load_healthy(struct rk_arena *arena, struct rk_evidence *ret)
{
	size_t n, found = 0;
	const struct rk_collector *all = rk_collectors(&n);

	for (size_t i = 0; i < n && found < COLLECTORS_MAX; i++) {
		const char *path = rk_arena_printf(arena, "tests/evidence/healthy/%s.stdout", all[i].name);
		char *text = NULL;
		size_t len;
		if (rk_file_read(path, 1 << 20, &text, &len, NULL))
			continue;
		ret[found++] = (struct rk_evidence){ all[i].name, text, len, "", 0, "0" };
	}
	return found;
}

static int make(const char *dir, struct rk_err *err)
{
	struct rk_arena *arena = rk_arena_new();
	struct rk_evidence *evidence = rk_arena_array(arena, COLLECTORS_MAX, sizeof(*evidence));
	struct rk_target *targets = rk_arena_array(arena, TARGETS, sizeof(*targets));
	size_t n = load_healthy(arena, evidence);

	for (int i = 0; i < TARGETS; i++) {
		targets[i] = (struct rk_target){ .name = rk_arena_printf(arena, "a-%04d", i + 1), .kind = "vm", .cluster = "a",
						 .rack = rk_arena_printf(arena, "r%02d", i / PER_RACK + 1),
						 .tray = rk_arena_printf(arena, "r%02d-t%02d", i / PER_RACK + 1, i % PER_RACK + 1),
						 .evidence = evidence, .n_evidence = n, .expect = { .nvlink_partition = 11, .pkeys = { 0x55 }, .n_pkeys = 1, .gpus = 4, .rails = 4 } };
	}
	int rc = n ? rk_evidence_save(dir, targets, TARGETS, err) : -1;
	rk_arena_free(arena);
	return rc;
}

/* What the child found out. */
struct measured {
	double load, judge, user, system, peak;
	char verdict[16];
};

static void measure(const char *dir, int out)
{
	struct rk_arena *arena = rk_arena_new();
	struct measured m = { 0 };
	struct rk_hprofile *profile;
	struct rk_target *targets;
	struct rk_report report;
	struct rk_err err = RK_ERR_INIT;
	int64_t kept_ms;
	size_t n;
	double start = bench_now();

	if (rk_hprofile_load("gb300-acceptance", &profile, &err) || rk_evidence_load(dir, arena, &targets, &n, &kept_ms, &err))
		_exit(1);
	m.load = bench_now() - start;
	if (rk_judge(profile, "standard", targets, n, arena, &report, &err))
		_exit(1);
	m.judge = bench_now() - start - m.load;
	struct rusage used;
	getrusage(RUSAGE_SELF, &used);
	m.user = (double)used.ru_utime.tv_sec + (double)used.ru_utime.tv_usec / 1e6;
	m.system = (double)used.ru_stime.tv_sec + (double)used.ru_stime.tv_usec / 1e6;
	m.peak = bench_peak_mib();
	snprintf(m.verdict, sizeof(m.verdict), "%s", report.verdict);
	_exit(write(out, &m, sizeof(m)) == sizeof(m) ? 0 : 1);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

int main(void)
{
	char dir[] = "/tmp/racksh-bench.XXXXXX";
	struct measured m = { 0 };
	struct rk_err err = RK_ERR_INIT;
	int pipes[2], status = 1;

	if (!mkdtemp(dir) || pipe(pipes) || make(dir, &err)) {
		fprintf(stderr, "bench_replay: %s\n", err.message ? err.message : "no evidence to copy");
		return 1;
	}
	pid_t pid = fork();
	if (pid == 0)
		measure(dir, pipes[1]);
	waitpid(pid, &status, 0);
	bool good = status == 0 && read(pipes[0], &m, sizeof(m)) == sizeof(m) && strcmp(m.verdict, "pass") == 0;
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	if (!good) {
		fprintf(stderr, "bench_replay: the evidence was judged %s\n", *m.verdict ? m.verdict : "not at all");
		return 1;
	}
	bench_row("replay, 1152 targets, reading the folder", m.load, "s", NULL, 0, NULL);
	bench_row("replay, 1152 targets, judging", m.judge, "s", NULL, 0, NULL);
	bench_row("replay, 1152 targets, both", m.load + m.judge, "s", NULL, 0, "<=2");
	/* What a busy machine cannot hide: the work itself, of all threads. */
	bench_row("replay, 1152 targets, processor time of racksh", m.user, "s", NULL, 0, NULL);
	bench_row("replay, 1152 targets, processor time of the kernel", m.system, "s", NULL, 0, NULL);
	bench_row("replay, 1152 targets, peak memory", m.peak, "MiB", NULL, 0, "<=300");
	return 0;
}
