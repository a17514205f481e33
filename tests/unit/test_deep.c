/* Deep measurements on the twin: what several hosts measure together names the part that is bad, and no other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "provision/health/collect.h"
#include "provision/health/run.h"
#include "tests/contract/twin.h"

enum { VMS = 8 };

/* Racks r1 and r2 of four trays. */
static void open_racks(struct twin *t)
{
	char *text RK_CLEANUP_FREE = rk_xstrdup(twin_site), *name = strstr(text, "\"name\":\"r1\"");
	char *site RK_CLEANUP_FREE = rk_xasprintf("%.*s\"name\":\"r[1-2]\"%s", (int)(name - text), text, name + strlen("\"name\":\"r1\""));

	twin_open(t, site, false);
}

/* Cluster "a" on all of them, its VMs in the order of the trays. */
static void open_deep(struct twin *t)
{
	open_racks(t);
	twin_cluster(t, "a", "ta", VMS);
	for (size_t i = 0; i < t->world.site->n_hcas; i++) {
		t->world.site->hcas[i].leaf = rk_arena_printf(t->arena, "leaf-%d", t->world.site->hcas[i].rail);
		t->world.site->hcas[i].leaf_port = (int)i + 1;
	}
}

static struct rk_report measured(struct twin *t, size_t n)
{
	const struct rk_validate_opts opts = { "deep", "gb300-acceptance", NULL, 0 };
	struct rk_report report;
	int vms[VMS];

	for (size_t i = 0; i < n; i++)
		vms[i] = (int)i;
	TWIN_OK(rk_validate(&t->world, &opts, vms, n, t->arena, &report, err));
	return report;
}

static const struct rk_check *failed(const struct rk_report *r, const char *id)
{
	for (size_t i = 0; i < r->n_checks; i++)
		if (strcmp(r->checks[i].id, id) == 0 && strcmp(r->checks[i].verdict, "fail") == 0)
			return &r->checks[i];
	return NULL;
}

static const char *tray_of(const struct twin *t, size_t vm)
{
	return t->world.site->trays[t->world.site->vms[vm].tray].name;
}

static void plant(struct twin *t, const char *fault)
{
	TWIN_OK(rk_sim_fault_add(t->world.sim, fault, err));
}

static void a_good_cluster_passes_alone_together_and_between_racks(void **state)
{
	struct twin t;

	(void)state;
	open_deep(&t);
	struct rk_report r = measured(&t, VMS);
	if (strcmp(r.verdict, "pass") != 0)
		fail_msg("%s: %s %s", r.verdict, r.checks[0].id, r.checks[0].value);
	const char *const ids[] = { "act.ib", "act.nccl.domain", "act.nccl.racks", "act.nccl.pair", "act.gemm", "act.fio", "act.diag", "act.nvbw.d2d" };
	for (size_t k = 0; k < RK_ARRAY_SIZE(ids); k++) {
		bool passed = false;
		for (size_t i = 0; i < r.n_checks; i++)
			passed |= strcmp(r.checks[i].id, ids[k]) == 0 && strcmp(r.checks[i].verdict, "pass") == 0 && r.checks[i].n_targets == VMS;
		if (!passed)
			fail_msg("%s was not measured on all", ids[k]);
	}
	twin_close(&t);
}

/* Port and rate look right: only the measurement shows it, and the cause says which cable to pull. */
static void the_tournament_finds_the_slow_cable(void **state)
{
	struct twin t;

	(void)state;
	open_deep(&t);
	plant(&t, "cable-slow@r1-t03/1/60");
	struct rk_report r = measured(&t, VMS);
	const struct rk_check *ib = failed(&r, "act.ib");
	assert_non_null(ib);
	assert_int_equal(ib->n_targets, 1);
	assert_int_equal(r.n_root_causes, 1);
	if (!strstr(r.root_causes[0], "; cable r1-t03 rail 1 to leaf-1 port 10"))
		fail_msg("\"%s\"", r.root_causes[0]);
	assert_null(failed(&r, "ib.rate"));
	assert_non_null(failed(&r, "act.nccl.racks")); /* a consequence, and no cause of its own */
	twin_close(&t);
}

/* A port whose partners were all slow plays once more against a good one. */
static void who_met_slow_ones_only_is_not_blamed(void **state)
{
	(void)state;
	for (size_t n = 3; n <= VMS; n++) {
		const size_t victim = 1;
		struct twin t;
		size_t planted = 0;
		open_deep(&t);
		for (size_t round = 0; round < rk_rounds(n); round++) {
			size_t other = rk_round_partner(victim, round, n + n % 2);
			if (other >= n)
				continue;
			planted++;
			plant(&t, rk_arena_printf(t.arena, "cable-slow@%s/2/50", tray_of(&t, other)));
		}
		struct rk_report r = measured(&t, n);
		bool victim_blamed = false;
		size_t found = 0;
		for (size_t c = 0; c < r.n_checks; c++) {
			if (strcmp(r.checks[c].id, "act.ib") != 0 || strcmp(r.checks[c].verdict, "fail") != 0)
				continue;
			found += r.checks[c].n_targets;
			for (size_t i = 0; i < r.checks[c].n_targets; i++)
				victim_blamed |= strcmp(r.checks[c].targets[i], t.world.site->vms[victim].name) == 0;
		}
		/* With three hosts and two slow ones nobody good is left to play against. */
		if (n > planted + 1 && (victim_blamed || found != planted))
			fail_msg("%zu hosts: %zu are blamed, %zu cables were slow%s", n, found, planted, victim_blamed ? ", not this one" : "");
		twin_close(&t);
	}
}

static void a_gpu_outside_the_partition_is_the_cause_not_the_run(void **state)
{
	struct twin t;

	(void)state;
	open_deep(&t);
	plant(&t, "gpu-leave@r2-t01/0");
	struct rk_report r = measured(&t, VMS);
	const struct rk_check *run = failed(&r, "act.nccl.domain.run");
	assert_non_null(run);
	assert_int_equal(run->n_targets, 4);
	assert_int_equal(r.n_root_causes, 1);
	assert_non_null(strstr(r.root_causes[0], "r2-t01"));
	twin_close(&t);
}

/* The rule that failed first is the root cause, with the port or cable in it. */
static void drivers_and_cables_of_ports_are_looked_at(void **state)
{
	static const struct {
		const char *fault, *check, *cause;
	} rows[] = {
		{ "ib-driver@r1-t02/1", "ib.drv", "pci=0002:03:00.0: no IB device" },
		{ "cable-moved@r2-t03/2/1", "ib.rail.leaf", "leaf-0,leaf-1,leaf-1,leaf-3" },
		{ "cable-moved@r2-t03/2/1", "ib.cabling", "" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		struct twin t;
		open_deep(&t);
		plant(&t, rows[i].fault);
		struct rk_report r = measured(&t, VMS);
		const struct rk_check *check = failed(&r, rows[i].check);
		if (!check || check->n_targets != 1 || r.n_root_causes != 1 || !strstr(r.root_causes[0], rows[i].cause))
			fail_msg("%s: %s, %s, %s", rows[i].fault, rows[i].check, check ? check->folded : "not failed", r.n_root_causes ? r.root_causes[0] : "no cause");
		twin_close(&t);
	}
}

static const struct rk_evidence *evidence_of(const struct rk_target *t, const char *collector)
{
	for (size_t i = 0; i < t->n_evidence; i++)
		if (strcmp(t->evidence[i].collector, collector) == 0)
			return &t->evidence[i];
	return NULL;
}

static struct rk_target *collected(struct twin *t, const int *vms, size_t n)
{
	struct rk_hprofile *profile RK_CLEANUP(rk_cleanup_hprofile) = NULL;
	struct rk_target *targets = NULL;

	TWIN_OK(rk_hprofile_load("gb300-acceptance", &profile, err));
	TWIN_OK(rk_collect(&t->world, profile, "deep", 0, vms, n, t->arena, &targets, err));
	return targets;
}

/* Trays of two tenants, turn about: nobody measures with the other's VMs, and who is alone with nobody. */
static void measurements_together_stay_within_a_cluster(void **state)
{
	struct twin t;
	int vms[VMS], n = 0;

	(void)state;
	open_racks(&t);
	twin_cluster(&t, "a", "ta", 3);
	twin_cluster(&t, "b", "tb", 4);
	twin_cluster(&t, "c", "tb", 1);
	for (size_t i = 0; i < t.world.site->n_vms; i += 2)
		vms[n++] = (int)i;
	for (size_t i = 1; i < t.world.site->n_vms; i += 2)
		vms[n++] = (int)i;
	assert_int_equal(n, VMS);
	const struct rk_target *targets = collected(&t, vms, VMS);
	size_t domains = 0, pairs = 0;
	for (size_t i = 0; i < VMS; i++) {
		const struct rk_evidence *domain = evidence_of(&targets[i], "nccl-domain"), *racks = evidence_of(&targets[i], "nccl-racks");
		for (const char *other = "abc"; *other; other++) {
			const char *name = rk_arena_printf(t.arena, " %c-0", *other);
			bool own = *other == *targets[i].cluster;
			if (!own && ((domain && strstr(domain->out, name)) || (racks && strstr(racks->out, name))))
				fail_msg("%s measured with cluster %c", targets[i].name, *other);
		}
		domains += domain != NULL;
		pairs += evidence_of(&targets[i], "ib-write-bw") != NULL;
		assert_true(strcmp(targets[i].cluster, "c") != 0 || !evidence_of(&targets[i], "ib-write-bw"));
		/* Who is who did not get mixed up. */
		assert_int_equal(*targets[i].name, *targets[i].cluster);
	}
	assert_true(domains > 0);
	assert_int_equal(pairs, VMS - 1);
	twin_close(&t);
}

/* Thresholds of one cluster say nothing about another one's VMs. */
static void clusters_with_different_profiles_are_not_judged_by_the_first_ones(void **state)
{
	static const int vms[] = { 0, 1 };
	struct rk_validate_opts opts = { "quick", NULL, NULL, 0 };
	RK_CLEANUP_ERR struct rk_err refused = RK_ERR_INIT;
	struct rk_report r;
	struct twin t;

	(void)state;
	open_racks(&t);
	twin_cluster(&t, "a", "ta", 1);
	twin_cluster(&t, "b", "tb", 1);
	t.world.site->clusters[0].spec = rk_arena_printf(t.arena, "{\"validation\":{\"profile\":\"gb300-quick\"}}");
	t.world.site->clusters[1].spec = rk_arena_printf(t.arena, "{\"validation\":{\"profile\":\"gb300-acceptance\"}}");
	assert_int_equal(rk_validate(&t.world, &opts, vms, 2, t.arena, &r, &refused), RK_INVALID);
	assert_non_null(strstr(refused.message, "gb300-quick"));
	opts.profile = "gb300-acceptance";
	TWIN_OK(rk_validate(&t.world, &opts, vms, 2, t.arena, &r, err));
	assert_string_equal(r.profile, "gb300-acceptance");
	twin_close(&t);
}

static size_t probes_of(const struct rk_target *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n_evidence; i++)
		n += rk_collector_find(t->evidence[i].collector)->command != NULL;
	return n;
}

static const struct rk_check *row_of(const struct rk_report *r, const char *id, const char *target)
{
	for (size_t c = 0; c < r->n_checks; c++)
		for (size_t i = 0; i < r->checks[c].n_targets && strcmp(r->checks[c].id, id) == 0; i++)
			if (strcmp(r->checks[c].targets[i], target) == 0)
				return &r->checks[c];
	return NULL;
}

static const char *verdict_of(const struct rk_report *r, const char *id, const char *target)
{
	const struct rk_check *row = row_of(r, id, target);

	return row ? row->verdict : "no row";
}

/* Not known, and why is told. */
static void unknown_because(const struct rk_report *r, const char *id, const char *target, const char *why)
{
	const struct rk_check *row = row_of(r, id, target);

	if (!row || strcmp(row->verdict, "unknown") != 0 || !row->value || !strstr(row->value, why))
		fail_msg("%s of %s: %s, %s", id, target, row ? row->verdict : "no row", row && row->value ? row->value : "-");
}

/* Calls of a guest after its probes, counted from 1, do not come through. */
static void lose(struct twin *t, const char *tray, size_t probes, size_t first, size_t last)
{
	for (size_t i = first; i <= last; i++)
		plant(t, rk_arena_printf(t->arena, "guest.run@%s#%zu=hang", tray, probes + i));
}

static size_t probes_at_the_deep_level(void)
{
	static const int vms[] = { 0 };
	struct twin t;

	open_deep(&t);
	size_t n = probes_of(collected(&t, vms, 1));
	twin_close(&t);
	return n;
}

/* The first VM of a rack starts the runs: without it they are not known, and not skipped either. */
static void a_run_over_racks_that_was_lost_is_unknown(void **state)
{
	enum { RAILS = 4, ENDS = 2, ROUNDS = 2 };
	size_t probes = probes_at_the_deep_level();
	struct twin t;

	(void)state;
	open_deep(&t);
	lose(&t, tray_of(&t, 0), probes, RAILS * ENDS * ROUNDS + 1, RAILS * ENDS * ROUNDS + 2);
	struct rk_report r = measured(&t, VMS);
	assert_string_equal(r.verdict, "unknown");
	for (int vm = 0; vm < VMS; vm++) {
		const char *name = t.world.site->vms[vm].name;
		assert_string_equal(verdict_of(&r, "ssh", name), "pass");
		assert_string_equal(verdict_of(&r, "act.ib", name), "pass");
		if (vm < 4)
			unknown_because(&r, "act.nccl.domain.run", name, "guest.run on r1-t01: no answer in time");
		else
			assert_string_equal(verdict_of(&r, "act.nccl.domain.run", name), "pass");
		unknown_because(&r, "act.nccl.racks.run", name, "guest.run on r1-t01: no answer in time");
	}
	twin_close(&t);
}

/* All that a rail could have shown was lost: the other three do not speak for it, and what is bad stays bad. */
static void a_rail_whose_measurements_were_lost_is_unknown(void **state)
{
	enum { RAIL = 2 };
	size_t probes = probes_at_the_deep_level();

	(void)state;
	for (int slow = 0; slow < 2; slow++) {
		struct twin t;
		open_deep(&t);
		lose(&t, tray_of(&t, 0), probes, 2 * RAIL + 1, 2 * RAIL + 2);
		if (slow)
			plant(&t, rk_arena_printf(t.arena, "cable-slow@%s/1/50", tray_of(&t, 0)));
		struct rk_report r = measured(&t, 2);
		if (slow)
			assert_string_equal(verdict_of(&r, "act.ib", t.world.site->vms[0].name), "fail");
		else
			unknown_because(&r, "act.ib", t.world.site->vms[0].name, "rail=2: guest.run on");
		assert_string_equal(verdict_of(&r, "act.ib", t.world.site->vms[1].name), slow ? "fail" : "pass");
		twin_close(&t);
	}
}

/* Its guest answers, its BMC does not: neither speaks for the other. */
static void a_silent_bmc_is_unknown_beside_a_guest_that_answers(void **state)
{
	static const int vms[] = { 0, 1 };
	struct rk_hprofile *profile RK_CLEANUP(rk_cleanup_hprofile) = NULL;
	struct rk_report r;
	struct rk_target *targets;
	struct twin t;

	(void)state;
	open_deep(&t);
	plant(&t, rk_arena_printf(t.arena, "bmc.read@%s=hang", tray_of(&t, 0)));
	TWIN_OK(rk_hprofile_load("gb300-acceptance", &profile, err));
	TWIN_OK(rk_collect(&t.world, profile, "quick", 0, vms, 2, t.arena, &targets, err));
	assert_string_equal(evidence_of(&targets[0], "leak")->status, "unreachable");
	TWIN_OK(rk_judge(profile, "quick", targets, 2, t.arena, &r, err));
	unknown_because(&r, "env.leak", targets[0].name, "unreachable");
	assert_string_equal(verdict_of(&r, "ssh", targets[0].name), "pass");
	assert_string_equal(verdict_of(&r, "env.leak", targets[1].name), "pass");
	twin_close(&t);
}

static const struct rk_metric *metric_of(const char *collector, const char *out, const char *name, const char *label, struct rk_metrics *m)
{
	const struct rk_evidence e = { collector, out, strlen(out), "", 0, "0" };

	rk_collector_find(collector)->parse(&e, m);
	return rk_metric_find(m, name, label);
}

static void leaf_answers_are_read(void **state)
{
	static const char out[] = "MOTD\n# dev mlx5_0 0x5000e60300010101\r\nNode Description:.leaf-g00-rail0\n# Node info: DR path slid 65535; dlid 65535; 0,1\n"
				  "LocalPort:.......................12\n# dev ibp3s0 0x\nsmpquery: iberror: failed: operation nodedesc: node desc query failed\n";
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_metrics m = { .arena = arena }, d = { .arena = arena };

	(void)state;
	assert_string_equal(metric_of("ib-leaf", out, "ib.cable", "dev=mlx5_0", &m)->text, "0x5000e60300010101 on leaf-g00-rail0/12");
	assert_int_equal(rk_metric_find(&m, "ib.cable", "dev=ibp3s0")->type, RK_METRIC_ABSENT);
	assert_int_equal(rk_metric_find(&m, "ib.leaves", "")->type, RK_METRIC_ABSENT);
	metric_of("ib-driver", "0000:03:00.0 driver=mlx5_core ib=mlx5_0\n0002:03:00.0 driver=mlx5_core ib=\n0010:03:00.0 driver= ib=\nnoise\n", "ib.drv", "", &d);
	assert_string_equal(rk_metric_find(&d, "ib.drv", "pci=0000:03:00.0")->text, "mlx5_ib");
	assert_string_equal(rk_metric_find(&d, "ib.drv", "pci=0002:03:00.0")->text, "no IB device");
	assert_string_equal(rk_metric_find(&d, "ib.drv", "pci=0010:03:00.0")->text, "no driver");
	assert_int_equal((int)rk_metric_find(&d, "ib.drv.functions", "")->number, 3);
}

/* Every pair at most once, everybody in every round, for all sizes. */
static void rounds_pair_everybody_and_nobody_twice(void **state)
{
	(void)state;
	for (size_t n = 2; n <= 64; n += 2)
		for (size_t round = 0; round < n - 1; round++)
			for (size_t i = 0; i < n; i++) {
				size_t other = rk_round_partner(i, round, n);
				assert_true(other < n && other != i);
				assert_int_equal(rk_round_partner(other, round, n), i);
				for (size_t before = 0; before < round; before++)
					assert_int_not_equal(rk_round_partner(i, before, n), other);
			}
	assert_int_equal(rk_rounds(2), 1);
	assert_int_equal(rk_rounds(3), 3);
	assert_int_equal(rk_rounds(18), 2);
}

#define RUN(busbw) " 17179869184    4294967296     float     sum      -1 36878.3  371.00  " busbw "      0 36873.3  371.00  " busbw "      0\n" \
		   "# Out of bounds values : 0 OK\n# Collective test concluded: all_reduce_perf\n"

static void runs_of_pairs_are_told_apart_and_the_best_speaks_for_the_rack(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_metrics m = { .arena = arena }, closed = { .arena = arena };

	(void)state;
	const struct rk_metric *slow = metric_of("nccl-racks", "# racksh: pair r1 r2\n" RUN("512.10") "# racksh: pair r1 r3\nbanner\n" RUN("738.40")
						 "# racksh: pair r1 r4\nbash: line 1: oops\n", "nccl.pair.busbw", "peer=r2", &m);
	assert_non_null(slow);
	assert_true(slow->number > 512 && slow->number < 513);
	assert_true(rk_metric_find(&m, "nccl.racks.busbw", "")->number > 738);
	assert_null(rk_metric_find(&m, "nccl.pair.busbw", "peer=r4"));
	assert_string_equal(rk_metric_find(&m, "nccl.pair.error", "peer=r3")->text, "none");
	assert_int_equal(rk_metric_find(&m, "nccl.pair.error", "peer=r4")->type, RK_METRIC_ABSENT);
	const struct rk_metric *error = metric_of("nccl-domain", "ops@10.0.0.2: Permission denied (publickey).\n", "nccl.domain.error", "", &closed);
	assert_non_null(error);
	assert_int_equal(error->type, RK_METRIC_ABSENT);
}

/* 576 pairs do not run at once when 64 do. */
static void the_estimate_counts_how_many_run_at_once(void **state)
{
	(void)state;
	assert_int_equal(rk_pairs_seconds(1152, 4, 0), 9 * rk_pairs_seconds(128, 4, 0));
	assert_int_equal(rk_pairs_seconds(128, 4, 8), 8 * rk_pairs_seconds(128, 4, 64));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_good_cluster_passes_alone_together_and_between_racks),
		cmocka_unit_test(the_tournament_finds_the_slow_cable),
		cmocka_unit_test(who_met_slow_ones_only_is_not_blamed),
		cmocka_unit_test(a_gpu_outside_the_partition_is_the_cause_not_the_run),
		cmocka_unit_test(drivers_and_cables_of_ports_are_looked_at),
		cmocka_unit_test(measurements_together_stay_within_a_cluster),
		cmocka_unit_test(clusters_with_different_profiles_are_not_judged_by_the_first_ones),
		cmocka_unit_test(a_run_over_racks_that_was_lost_is_unknown),
		cmocka_unit_test(a_rail_whose_measurements_were_lost_is_unknown),
		cmocka_unit_test(a_silent_bmc_is_unknown_beside_a_guest_that_answers),
		cmocka_unit_test(the_estimate_counts_how_many_run_at_once),
		cmocka_unit_test(leaf_answers_are_read),
		cmocka_unit_test(rounds_pair_everybody_and_nobody_twice),
		cmocka_unit_test(runs_of_pairs_are_told_apart_and_the_best_speaks_for_the_rack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
