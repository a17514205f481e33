/* Rendering the domain XML of every VM of a 64-rack site: the whole cluster, and one VM with and without what the others have in common. */
#include <string.h>

#include "inventory/site_file.h"
#include "provision/cluster.h"
#include "tests/bench/bench.h"

enum { RUNS = 5 };

static const char spec_text[] =
	"{\"apiVersion\": \"racksh/v1\", \"kind\": \"Cluster\", \"name\": \"whole\", \"tenant\": \"contoso\", \"size\": \"nd128isr-gb300-v6\","
	" \"count\": 1152, \"image\": \"ubuntu-24.04-gb300\", \"placement\": {\"segment\": 18}}";

static void must(int rc, const struct rk_err *err)
{
	if (!rc)
		return;
	fprintf(stderr, "%s\n", err->message);
	exit(1);
}

static double render_all(struct rk_world *world, const struct rk_spec *spec, bool seed)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	const struct rk_render request = { .spec = spec, .seed = seed };
	struct rk_rendered *all;
	double start = bench_now();
	size_t n;

	must(rk_cluster_render(world, &request, arena, &all, &n, &err), &err);
	if (n != 1152 || !strstr(all[n - 1].xml, "</domain>")) {
		fprintf(stderr, "%zu VMs were rendered\n", n);
		exit(1);
	}
	return bench_now() - start;
}

static void measure(struct rk_world *world, const struct rk_spec *spec, const char *what, bool seed, const char *limit)
{
	double seconds[RUNS];

	for (int i = 0; i < RUNS; i++)
		seconds[i] = render_all(world, spec, seed);
	bench_row(what, bench_median(seconds, RUNS), "s", NULL, 0, limit);
}

int main(void)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_site *site RK_CLEANUP_SITE = NULL;
	struct rk_spec *spec;

	must(rk_site_load("tests/examples/site-64.json", &site, &err), &err);
	rk_site_invent(site);
	must(rk_spec_parse("spec", spec_text, strlen(spec_text), arena, &spec, &err), &err);
	struct rk_world world = { .site = site, .jobs = 64 };
	must(rk_store_open("mem:", RK_STORE_WRITE, &(struct rk_actor){ "bench", "here", 1 }, &world.store, &err), &err);
	measure(&world, spec, "render 1152 full VMs", false, "<=1.0");
	measure(&world, spec, "render 1152 full VMs with their seeds", true, NULL);
	bench_row("render, peak memory", bench_peak_mib(), "MiB", NULL, 0, NULL);
	rk_store_close(world.store);
	return 0;
}
