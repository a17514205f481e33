/* How long a person waits: start-up beside virsh's, and TAB on a whole site. */
#include <string.h>

#include "cli/app.h"
#include "inventory/base/str.h"
#include "inventory/site_file.h"
#include "tests/bench/bench.h"

enum { RUNS = 41, TABS = 15 };

static double seconds(const char *const *argv)
{
	struct bench_run run;

	if (bench_run(argv, &run) != 0) {
		fprintf(stderr, "%s does not run\n", argv[0]);
		exit(1);
	}
	return run.seconds * 1e3;
}

/* Both in turn, so that a machine that slows down slows both. */
static void beside_virsh(const char *what, const char *const *argv, bool have_virsh)
{
	static const char *const virsh[] = { "virsh", "--version", NULL };
	double own[RUNS], other[RUNS];

	for (int i = 0; i < RUNS; i++) {
		own[i] = seconds(argv);
		other[i] = have_virsh ? seconds(virsh) : 0;
	}
	/* 1.3 times as long at most. */
	bench_row(what, bench_median(own, RUNS), "ms", have_virsh ? "virsh --version" : NULL, bench_median(other, RUNS), have_virsh ? ">=0.77x" : NULL);
}

static void start_up(void)
{
	const char *racksh = getenv("RACKSH"), *site = "tests/examples/site-1.json";
	static const char *const virsh[] = { "virsh", "--version", NULL };
	struct bench_run run;
	bool have_virsh = bench_run(virsh, &run) == 0;
	const char *const version[] = { racksh, "--version", NULL }, *const list[] = { racksh, "--sim", site, "rack", "list", NULL },
			  *const ops[] = { racksh, "--sim", site, "op", "list", NULL }, *const shell[] = { racksh, "--sim", site, "-c", "quit", NULL };

	beside_virsh("racksh --version", version, have_virsh);
	beside_virsh("one-shot on the twin: rack list", list, have_virsh);
	beside_virsh("one that needs the twin's store: op list", ops, have_virsh);
	beside_virsh("start and end of a session on the twin", shell, have_virsh);
}

static double tab_ms(const struct rk_site *site, const char *line, const char *prefix, size_t least)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_lexicon lexicon = { .inert = true };
	struct rk_lines lines = { 0 };
	struct rk_candidates found = { 0 };
	const struct rk_context nothing = { 0 };
	double start = bench_now();

	rk_split("line", line, &lexicon, arena, &lines, NULL);
	rk_complete(&lexicon, &nothing, site, lines.items[0].words, lines.items[0].n, prefix, false, &found);
	double ms = (bench_now() - start) * 1e3;
	if (found.n < least) {
		fprintf(stderr, "\"%s %s\" offers %zu words, at least %zu expected\n", line, prefix, found.n, least);
		exit(1);
	}
	rk_candidates_free(&found);
	free(lines.items);
	return ms;
}

static void tab(const struct rk_site *site, const char *what, const char *line, const char *prefix, size_t least)
{
	double ms[TABS];

	for (int i = 0; i < TABS; i++)
		ms[i] = tab_ms(site, line, prefix, least);
	bench_row(what, bench_median(ms, TABS), "ms", NULL, 0, "<=30");
}

int main(void)
{
	RK_CLEANUP_SITE struct rk_site *site = NULL;

	if (rk_site_load("tests/examples/site-64.json", &site, NULL))
		return 1;
	start_up();
	tab(site, "TAB on every tray of 4,608 GPUs", "tray show", "", 1152);
	tab(site, "TAB inside a selection", "tray cordon", "r01-t01,r64-t1", 9);
	tab(site, "TAB on nouns", "help", "", 20);
	return 0;
}
