/* Placement explains itself in the operator's words, rule by rule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/contract/place_site.h"

/* Why rack `rack` was judged as it was; also checks the verdict. */
static void judged(const struct rk_site *s, const struct rk_spec *spec, int rack, const char *verdict, const char *why)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_placement p;

	place(s, spec, NULL, 0, arena, &p);
	assert_string_equal(p.reasons[rack].why, why);
	assert_string_equal(p.reasons[rack].verdict, verdict);
}

static void each_rule_is_named_as_reason(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site(12, 18, "\"versions\":{\"driver\":\"580.2\"},");
	struct rk_spec spec = make_spec(18, 18);

	(void)state;
	add_clusters(s);
	for (int t = 0; t < 4; t++)
		s->trays[t].cordon = "fan";                            /* r01: 14 free */
	s->racks[1].power_kw = 134;                                    /* r02 */
	s->racks[2].cordon = "pump work";                              /* r03 */
	s->trays[3 * 18].leak = s->trays[3 * 18 + 2].leak = "wet";     /* r04 */
	reserve(s, 1, "r05", 0, now_ms, now_ms + DAY_MS);              /* r05 */
	s->racks[5].spares = 1;                                        /* r06 */
	for (int t = 0; t < 18; t++)
		s->trays[6 * 18 + t].versions = t < 2 ? "{\"driver\":\"570.1\"}" : "{\"driver\":\"580.2\"}"; /* r07 */
	s->trays[7 * 18].n_hcas = 3;                                   /* r08 */
	s->trays[8 * 18].faulty = "erase";                             /* r09 */
	s->trays[8 * 18 + 1].offline = "x";
	occupy(s, 9 * 18, 0);                                          /* r10 */
	s->trays[10 * 18].leak = "wet";                                /* r11 */
	judged(s, &spec, 0, "refused", "14 free, needs 18; 4 cordoned");
	judged(s, &spec, 1, "refused", "power 0 of 134 kW, needs 135 more");
	judged(s, &spec, 2, "refused", "cordoned: pump work");
	judged(s, &spec, 3, "refused", "leak alarm: 2 trays leak (r04-t[01,03])");
	judged(s, &spec, 4, "refused", "reserved for tenant b until 2027-01-16T08:00:00Z (reservation 1)");
	judged(s, &spec, 5, "refused", "17 free, needs 18; 1 kept as spare");
	judged(s, &spec, 6, "refused", "16 free, needs 18; 2 driver 570.1 (580.2 expected)");
	judged(s, &spec, 7, "refused", "17 free, needs 18; 1 not rail-complete");
	judged(s, &spec, 8, "refused", "16 free, needs 18; 1 faulty, 1 offline");
	judged(s, &spec, 9, "refused", "17 free, needs 18; 1 allocated");
	judged(s, &spec, 10, "refused", "17 free, needs 18; 1 leaking");
	judged(s, &spec, 11, "chosen", "18 of 18 free used, 0 left");
	spec.placement.racks = "r[01-02]";
	judged(s, &spec, 11, "refused", "not in the racks asked for (r[01-02])");
}

/* r01 is a GB300 rack, r02 holds four HGX boxes, each an NVLink domain of its own. */
static void segments_do_not_leave_their_nvlink_domain(void **state)
{
	static const char text[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\",\"racks\":[{\"name\":\"r01\"},{\"name\":\"r02\",\"profile\":\"hgx-generic\"}],"
				   "\"tenants\":[{\"name\":\"a\"}],\"infiniband\":[{\"name\":\"ib0\",\"driver\":\"sim\"}]}";
	struct rk_site *s RK_CLEANUP_SITE = NULL;
	struct rk_spec spec = make_spec(4, 4);

	(void)state;
	assert_int_equal(rk_site_parse("s", text, strlen(text), &s, NULL), 0);
	judged(s, &spec, 1, "refused", "its profile is hgx-generic, the size is made for gb300-nvl72");
	spec.size = "lab-tray";
	judged(s, &spec, 1, "refused", "its NVLink domains have 1 tray, the segment needs 4");
	spec.placement.segment = 1;
	judged(s, &spec, 1, "chosen", "4 of 4 free used, 0 left");
}

static void a_size_that_a_tray_cannot_hold_names_what_is_too_little(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site(1, 2, "");
	struct rk_spec spec = make_spec(1, 1);
	const struct rk_size *fits = rk_size_find(s, spec.size);
	const struct rk_profile *have = &s->profiles[s->racks[0].profile];
	struct rk_size vcpus = *fits, memory = *fits, gpus = *fits, hcas = *fits, nvme = *fits;

	(void)state;
	vcpus.vcpus = have->cpus_per_tray + 1;
	memory.memory_mib = have->memory_mib + 1;
	gpus.gpus = have->gpus_per_tray + 1;
	hcas.hcas = have->hcas_per_tray + 1;
	nvme.nvme = have->nvme_per_tray + 1;
	const struct {
		const struct rk_size *size;
		const char *why;
	} rows[] = { { &vcpus, "its trays have 144 CPUs, the size needs 145" },
		     { &memory, "MiB of memory, the size needs" },
		     { &gpus, "its trays have 4 GPUs, the size needs 5" },
		     { &hcas, "its trays have 4 HCA ports, the size needs 5" },
		     { &nvme, "NVMe drives, the size needs" } };
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		struct rk_placement p;
		assert_int_equal(rk_place(s, &spec, rows[i].size, NULL, 0, arena, &p, &err), 0);
		assert_false(p.feasible);
		assert_string_equal(p.reasons[0].verdict, "refused");
		assert_non_null(strstr(p.reasons[0].why, rows[i].why));
	}
}

/* The fabric is not known: planning goes on, with a warning; whoever creates has to refuse. */
static void what_was_never_read_is_warned_of(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site(1, 2, "");
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_spec spec = make_spec(2, 2);
	struct rk_placement p;

	(void)state;
	place(s, &spec, NULL, 0, arena, &p);
	assert_null(p.warning);
	s->gpus[5].fabric_guid = s->gpus[6].fabric_guid = s->hcas[0].port_guid = 0;
	place(s, &spec, NULL, 0, arena, &p);
	assert_true(p.feasible);
	assert_string_equal(p.warning, "2 GPU and 1 port identities were never read");
}

static void a_full_rack_of_power_names_the_kilowatts(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site(1, 18, "");
	struct rk_spec spec = make_spec(1, 1);

	(void)state;
	add_clusters(s);
	for (int t = 0; t < 17; t++)
		occupy(s, t, 0);
	s->racks[0].power_kw = 130;
	judged(s, &spec, 0, "refused", "power 127.5 of 130 kW, needs 7.5 more");
}

static void coolant_limits_what_a_rack_may_draw(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site(1, 18, "");
	struct rk_spec spec = make_spec(18, 18);

	(void)state;
	s->racks[0].supply_c = 45; /* needs 177 l/min */
	s->racks[0].flow_lpm = 88.5;
	judged(s, &spec, 0, "refused", "cooling 0 of 71 kW, needs 135 more");
	s->racks[0].supply_c = 25; /* needs 59 */
	judged(s, &spec, 0, "chosen", "18 of 18 free used, 0 left");
	s->racks[0].supply_c = 51; /* out of range */
	judged(s, &spec, 0, "refused", "cooling 0 of 0 kW, needs 135 more");
}

static void a_rack_has_its_own_version_baseline(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site(2, 4, "\"versions\":{\"driver\":\"580.2\"},");
	struct rk_spec spec = make_spec(4, 4);

	(void)state;
	for (size_t t = 0; t < s->n_trays; t++)
		s->trays[t].versions = "{\"driver\":\"570.1\",\"nvos\":\"25\"}";
	s->racks[1].versions = "{\"driver\":\"570.1\"}";
	judged(s, &spec, 0, "refused", "0 free, needs 4; 4 driver 570.1 (580.2 expected)");
	judged(s, &spec, 1, "chosen", "4 of 4 free used, 0 left");
}

/* ---- policies ----------------------------------------------------------------------------------------------------------------------- */

/* Racks used, as "r01:4,r03:2". */
static const char *placed(const struct rk_site *s, const struct rk_spec *spec, const int *keep, size_t n_keep, struct rk_arena *arena)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_placement p;

	place(s, spec, keep, n_keep, arena, &p);
	for (size_t r = 0; r < s->n_racks; r++) {
		int n = 0;
		for (size_t i = 0; i < p.n_trays; i++)
			n += s->trays[p.trays[i]].rack == (int)r;
		if (n)
			rk_str_addf(&out, "%s%s:%d", out.len ? "," : "", s->racks[r].name, n);
	}
	return rk_arena_strdup(arena, rk_str_text(&out));
}

/* r01 18 free, r02 6, r03 15, r04 18, r05 17. */
static struct rk_site *uneven_site(void)
{
	static const int taken[] = { 0, 12, 3, 0, 1 };
	struct rk_site *s = make_site(5, 18, "");

	add_clusters(s);
	for (int r = 0; r < 5; r++)
		for (int t = 0; t < taken[r]; t++)
			occupy(s, r * 18 + t, 0);
	return s;
}

static void policies_choose_as_documented(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = uneven_site();
	static const struct {
		int count, segment, max_racks;
		enum rk_policy policy;
		const char *placed;
	} rows[] = {
		{ 4, 4, 0, RK_BEST_FIT, "r02:4" },              /* closest fit */
		{ 8, 8, 0, RK_BEST_FIT, "r03:8" },              /* no segment of 16 is lost */
		{ 1, 1, 0, RK_BEST_FIT, "r02:1" },
		{ 16, 16, 0, RK_BEST_FIT, "r05:16" },           /* leaves least over */
		{ 18, 18, 0, RK_BEST_FIT, "r01:18" },           /* name decides */
		{ 36, 18, 0, RK_BEST_FIT, "r01:18,r04:18" },
		{ 12, 6, 0, RK_BEST_FIT, "r02:6,r03:6" },
		{ 18, 6, 1, RK_BEST_FIT, "r01:18" },            /* maxRacks: the policy's first choice would not do */
		{ 20, 16, 0, RK_BEST_FIT, "r02:4,r05:16" },     /* the rest goes where it costs least */
		{ 4, 4, 0, RK_FIRST_FIT, "r01:4" },
		{ 24, 8, 0, RK_FIRST_FIT, "r01:16,r03:8" },
		{ 4, 1, 0, RK_SPREAD, "r01:1,r03:1,r04:1,r05:1" },
		{ 6, 1, 0, RK_SPREAD, "r01:2,r02:1,r03:1,r04:1,r05:1" },
		{ 8, 4, 1, RK_SPREAD, "r01:8" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct rk_spec spec = make_spec(rows[i].count, rows[i].segment);
		spec.placement.policy = rows[i].policy;
		spec.placement.max_racks = rows[i].max_racks;
		assert_string_equal(placed(s, &spec, NULL, 0, arena), rows[i].placed);
	}
}

static void growing_stays_in_the_clusters_racks(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = uneven_site();
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_spec spec = make_spec(5, 1);
	int keep[] = { 4 * 18 }; /* in r05 */

	(void)state;
	assert_string_equal(placed(s, &spec, keep, 1, arena), "r05:4");
}

static void racks_of_one_leaf_group_are_preferred(void **state)
{
	static const char *const leaves[] = { "x", "y", "z", "y", "x", "y" };
	struct rk_site *s RK_CLEANUP_SITE = make_site(6, 4, "");
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_spec spec = make_spec(8, 4);

	(void)state;
	for (size_t h = 0; h < s->n_hcas; h++)
		s->hcas[h].leaf = leaves[s->trays[s->hcas[h].tray].rack];
	assert_string_equal(placed(s, &spec, NULL, 0, arena), "r01:4,r05:4"); /* the smallest group that holds both */
	spec.count = 12;
	assert_string_equal(placed(s, &spec, NULL, 0, arena), "r02:4,r04:4,r06:4");
}

static void a_cluster_stays_on_one_infiniband_fabric(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site(4, 4, "");
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_spec spec = make_spec(8, 4);
	struct rk_placement p;

	(void)state;
	for (size_t h = 0; h < s->n_hcas; h++)
		s->hcas[h].fabric = s->trays[s->hcas[h].tray].rack > 0;
	place(s, &spec, NULL, 0, arena, &p);
	assert_true(p.feasible);
	assert_string_equal(p.reasons[0].why, "4 free, its InfiniBand fabric is ib0, the cluster is on ib1");
	spec.count = 16;
	place(s, &spec, NULL, 0, arena, &p);
	assert_false(p.feasible);
}

/* ---- quotas, reservations, suggestions ------------------------------------------------------------------------------------------------ */

static void a_quota_forbids_whatever_the_racks(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site(2, 18, "");
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_spec spec = make_spec(7, 7);
	struct rk_placement p;

	(void)state;
	spec.tenant = "b";
	place(s, &spec, NULL, 0, arena, &p);
	assert_false(p.feasible);
	assert_string_equal(p.limit, "quota: tenant b has 0 of 6 VMs, 7 more were asked for");
	spec.count = spec.placement.segment = 2;
	place(s, &spec, NULL, 0, arena, &p);
	assert_true(p.feasible);
	add_clusters(s);
	s->ib_partitions = rk_arena_array(s->arena, 1, sizeof(*s->ib_partitions));
	s->ib_partitions[0] = (struct rk_ib_partition){ .cluster = 1, .pkey = 0x100 };
	s->n_ib_partitions = 1;
	place(s, &spec, NULL, 0, arena, &p);
	assert_string_equal(p.limit, "quota: tenant b has 1 of 1 PKeys");
}

static void reservations_count_from_their_making_to_their_end(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site(1, 18, "");
	struct rk_spec spec = make_spec(18, 18);

	(void)state;
	reserve(s, 1, "r01", 0, now_ms + DAY_MS, now_ms + 2 * DAY_MS);
	judged(s, &spec, 0, "refused", "reserved for tenant b until 2027-01-17T08:00:00Z (reservation 1)");
	s->read_unix_ms = now_ms + 2 * DAY_MS;
	judged(s, &spec, 0, "chosen", "18 of 18 free used, 0 left");
	s->read_unix_ms = now_ms;
	s->reservations[0].tenant = 0;
	judged(s, &spec, 0, "chosen", "18 of 18 free used, 0 left");
}

static void trays_reserved_by_number_stay_free_somewhere(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site(2, 18, "");
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_spec spec = make_spec(30, 15);
	struct rk_placement p;

	(void)state;
	add_clusters(s);
	reserve(s, 1, NULL, 20, now_ms, now_ms + DAY_MS);
	place(s, &spec, NULL, 0, arena, &p);
	assert_false(p.feasible);
	assert_string_equal(p.suggestion, "place at most 16 VMs; or cancel reservation 1");
	/* What the tenant holds already counts. */
	for (int t = 0; t < 6; t++)
		occupy(s, t, 1);
	spec.count = spec.placement.segment = 16;
	place(s, &spec, NULL, 0, arena, &p);
	assert_true(p.feasible);
}

static void the_cordons_in_the_way_are_named(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site(3, 18, "");
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_spec spec = make_spec(18, 16);
	struct rk_placement p;

	(void)state;
	spec.placement.max_racks = 1;
	for (int t = 2; t < 6; t++)
		s->trays[t].cordon = "fan";         /* r01: four */
	s->trays[18 + 2].cordon = "fan";            /* r02: one, the cheapest */
	s->racks[2].cordon = "pump";                /* r03: all */
	place(s, &spec, NULL, 0, arena, &p);
	assert_false(p.feasible);
	assert_string_equal(p.suggestion, "place at most 17 VMs; or raise maxRacks from 1 to 2; or uncordon tray r02-t03");
	assert_string_equal(p.changes[2].objects, "r02-t03");
	s->trays[18 + 3].faulty = "x";
	for (int t = 2; t < 6; t++)
		s->trays[t].faulty = "x";
	place(s, &spec, NULL, 0, arena, &p);
	assert_string_equal(p.suggestion, "place at most 16 VMs; or raise maxRacks from 1 to 2; or uncordon rack r03");
	/* Trays of a cordoned rack may have marks of their own, which stay when the rack's goes. */
	s->trays[18 + 2].faulty = "x";
	s->trays[36].cordon = s->trays[38].cordon = "fan";
	spec.placement.segment = spec.count = 17;
	place(s, &spec, NULL, 0, arena, &p);
	assert_string_equal(p.changes[p.n_changes - 1].text, "uncordon rack r03 and tray r03-t01");
	assert_string_equal(p.changes[p.n_changes - 1].objects, "r03,r03-t01");
}

static void capacity_is_told_now_and_after_the_worst_rack(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = uneven_site();
	struct rk_capacity c;

	(void)state;
	rk_capacity(s, &c);
	assert_int_equal(c.free, 18 + 6 + 15 + 18 + 17);
	assert_int_equal(c.whole_racks, 2);
	assert_int_equal(c.largest, 18);
	const int now[] = { 2, 3, 2 + 0 + 1 + 2 + 2, 4 + 1 + 3 + 4 + 4 }, less[] = { 1, 2, 5, 12 };
	assert_memory_equal(c.segments, now, sizeof(now));
	assert_memory_equal(c.segments_less_one_rack, less, sizeof(less));
	reserve(s, 0, "r04", 0, now_ms, now_ms + DAY_MS);
	reserve(s, 1, NULL, 5, now_ms, now_ms + DAY_MS);
	rk_capacity(s, &c);
	assert_int_equal(c.reserved, 23);
}

static void spares_that_a_neighbour_asked_for_are_kept(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site(1, 18, "");
	struct rk_spec spec = make_spec(17, 17);

	(void)state;
	add_clusters(s);
	occupy(s, 0, 1);
	s->clusters[1].spares_per_rack = 2;
	judged(s, &spec, 0, "refused", "15 free, needs 17; 1 allocated, 2 kept as spares");
}
static void clusters_kept_apart_share_no_rack_whichever_of_them_says_so(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site(2, 18, "");
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_spec spec = make_spec(18, 9);
	const char *apart[] = { "c1" };
	struct rk_placement p;

	(void)state;
	add_clusters(s);
	occupy(s, 0, 1);
	judged(s, &spec, 0, "chosen", "9 of 17 free used, 8 left; 1 allocated");
	spec.placement.apart = apart;
	spec.placement.n_apart = 1;
	judged(s, &spec, 0, "refused", "cluster c1 is there, which is kept apart from this one");
	spec.placement.n_apart = 0;
	s->clusters[1].spec = "{\"placement\": {\"antiAffinity\": [\"new\"]}}";
	judged(s, &spec, 0, "refused", "cluster c1 is there, which is kept apart from this one");
	judged(s, &spec, 1, "chosen", "18 of 18 free used, 0 left");
	spec.count = 27;
	place(s, &spec, NULL, 0, arena, &p);
	assert_false(p.feasible);
	assert_string_equal(p.suggestion, "place at most 18 VMs; or give up antiAffinity");
	s->clusters[1].spec = "{\"placement\": {\"antiAffinity\": [\"newer\"]}, \"name\": \"new\"}";
	place(s, &spec, NULL, 0, arena, &p);
	assert_true(p.feasible);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_rule_is_named_as_reason),
		cmocka_unit_test(segments_do_not_leave_their_nvlink_domain),
		cmocka_unit_test(a_size_that_a_tray_cannot_hold_names_what_is_too_little),
		cmocka_unit_test(what_was_never_read_is_warned_of),
		cmocka_unit_test(a_full_rack_of_power_names_the_kilowatts),
		cmocka_unit_test(coolant_limits_what_a_rack_may_draw),
		cmocka_unit_test(a_rack_has_its_own_version_baseline),
		cmocka_unit_test(policies_choose_as_documented),
		cmocka_unit_test(growing_stays_in_the_clusters_racks),
		cmocka_unit_test(racks_of_one_leaf_group_are_preferred),
		cmocka_unit_test(a_cluster_stays_on_one_infiniband_fabric),
		cmocka_unit_test(a_quota_forbids_whatever_the_racks),
		cmocka_unit_test(reservations_count_from_their_making_to_their_end),
		cmocka_unit_test(trays_reserved_by_number_stay_free_somewhere),
		cmocka_unit_test(the_cordons_in_the_way_are_named),
		cmocka_unit_test(capacity_is_told_now_and_after_the_worst_rack),
		cmocka_unit_test(spares_that_a_neighbour_asked_for_are_kept),
		cmocka_unit_test(clusters_kept_apart_share_no_rack_whichever_of_them_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
