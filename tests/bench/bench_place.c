/* Placement of whole sites. Floor: one look at every tray's state, which any answer has to take. */
#include <string.h>

#include "inventory/base/str.h"
#include "inventory/site_file.h"
#include "provision/place.h"
#include "tests/bench/bench.h"

enum { RUNS = 15 };

static struct rk_site *make_site(int racks)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_site *site = NULL;

	rk_str_addf(&text,
		    "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\",\"racks\":[{\"name\":\"r[0001-%04d]\"}],"
		    "\"tenants\":[{\"name\":\"a\"},{\"name\":\"b\"}],\"infiniband\":[{\"name\":\"ib0\",\"driver\":\"sim\"}]}",
		    racks);
	if (rk_site_parse("site", rk_str_text(&text), text.len, &site, &err)) {
		fprintf(stderr, "%s\n", err.message);
		exit(1);
	}
	rk_site_invent(site);
	return site;
}

static double floor_ms(const struct rk_site *site)
{
	volatile int free = 0;
	double start = bench_now();

	for (size_t t = 0; t < site->n_trays; t++)
		free += rk_tray_state(site, (int)t) == RK_TRAY_FREE;
	(void)free;
	return (bench_now() - start) * 1e3;
}

static double plan_ms(const struct rk_site *site, const struct rk_spec *spec, bool feasible)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_placement placement;
	double start = bench_now();

	if (rk_place(site, spec, rk_size_find(site, spec->size), NULL, 0, arena, &placement, NULL) || placement.feasible != feasible) {
		fprintf(stderr, "%d VMs in segments of %d: not as expected\n", spec->count, spec->placement.segment);
		exit(1);
	}
	return (bench_now() - start) * 1e3;
}

static void measure(const struct rk_site *site, const char *what, int count, int segment, enum rk_policy policy, bool feasible, const char *limit)
{
	const struct rk_spec spec = { .name = "c", .tenant = "a", .size = "nd128isr-gb300-v6", .count = count,
				      .placement = { .segment = segment, .policy = policy } };
	double ms[RUNS], floors[RUNS];

	for (int i = 0; i < RUNS; i++) {
		ms[i] = plan_ms(site, &spec, feasible);
		floors[i] = floor_ms(site);
	}
	bench_row(what, bench_median(ms, RUNS), "ms", "state of every tray", bench_median(floors, RUNS), limit);
}

/* A site in use: cordons, faults and reservations everywhere. */
static void wear(struct rk_site *site)
{
	site->reservations = rk_arena_array(site->arena, 8, sizeof(*site->reservations));
	site->n_reservations = 8;
	for (int i = 0; i < 8; i++)
		site->reservations[i] = (struct rk_reservation){ .id = i + 1, .tenant = 1, .to_unix_ms = INT64_MAX, .count = i % 2 ? 40 : 0,
								 .racks = i % 2 ? NULL : site->racks[i * 3].name };
	for (size_t t = 0; t < site->n_trays; t += 7)
		*(t % 3 ? &site->trays[t].cordon : &site->trays[t].faulty) = "worn";
}

int main(void)
{
	RK_CLEANUP_SITE struct rk_site *small = make_site(64);
	RK_CLEANUP_SITE struct rk_site *large = make_site(1000);

	measure(small, "plan 1,152 VMs, 64 racks", 1152, 18, RK_BEST_FIT, true, "<=20");
	measure(small, "plan 1,152 VMs one by one, 64 racks, spread", 1152, 1, RK_SPREAD, true, "<=20");
	measure(large, "plan 18,000 VMs, 1,000 racks", 18000, 18, RK_BEST_FIT, true, "<=300");
	measure(large, "plan 18,000 VMs one by one, 1,000 racks", 18000, 1, RK_BEST_FIT, true, "<=300");
	measure(large, "plan 18,000 VMs one by one, 1,000 racks, spread", 18000, 1, RK_SPREAD, true, "<=300");
	wear(small);
	wear(large);
	measure(small, "refuse 1,152 VMs with reasons, 64 worn racks", 1152, 18, RK_BEST_FIT, false, "<=20");
	measure(large, "refuse 18,000 VMs with reasons, 1,000 worn racks", 18000, 18, RK_BEST_FIT, false, "<=300");
	return 0;
}
