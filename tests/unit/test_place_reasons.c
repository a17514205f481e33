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
	assert_int_equal(p.n_changes, 1); /* fewer VMs would need one too */
	assert_string_equal(p.changes[0].kind, "quota");
}

/* Fewer VMs are a change too, and raising the quota is none while the racks have no room. */
static void a_quota_says_how_many_it_would_allow(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site(1, 18, "");
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_spec spec = make_spec(9, 9);
	struct rk_placement p;

	(void)state;
	spec.tenant = "b";
	add_clusters(s);
	occupy(s, 0, 1);
	place(s, &spec, NULL, 0, arena, &p);
	assert_string_equal(p.suggestion, "place at most 5 VMs, in a segment of 5; or raise the tenant's quota in the site file, or delete something of this tenant");
	assert_int_equal(p.changes[0].value, 5);
	spec = make_spec(20, 10);
	spec.tenant = "b";
	place(s, &spec, NULL, 0, arena, &p);
	assert_string_equal(p.suggestion, "place at most 5 VMs, in a segment of 5");
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

/* Whatever is placed has no end, so what counts is the most that is promised at any one time, not all that ever is. */
static void numbers_reserved_one_after_another_are_not_added_up(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site(2, 18, "");
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_spec spec = make_spec(16, 16);
	struct rk_placement p;
	struct rk_capacity c;

	(void)state;
	add_clusters(s);
	reserve(s, 1, NULL, 20, now_ms, now_ms + DAY_MS);
	reserve(s, 1, NULL, 12, now_ms + DAY_MS, now_ms + 2 * DAY_MS);
	place(s, &spec, NULL, 0, arena, &p);
	assert_true(p.feasible);
	rk_capacity(s, &c);
	assert_int_equal(c.reserved, 20);
	spec.count = spec.placement.segment = 17;
	place(s, &spec, NULL, 0, arena, &p);
	assert_string_equal(p.suggestion, "place at most 16 VMs, in a segment of 16; or cancel reservation 1");
	for (int t = 0; t < 12; t++)
		occupy(s, t, 1); /* of the 20 */
	rk_capacity(s, &c);
	assert_int_equal(c.reserved, 8);
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

/* What no VM of a whole tray could have is no room, neither left over nor for a promise to others. */
static void trays_that_are_not_complete_are_no_capacity(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site(1, 18, "\"versions\":{\"driver\":\"580.2\"},");
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_spec spec = make_spec(2, 2);
	struct rk_placement p;
	struct rk_capacity c;

	(void)state;
	s->trays[17].n_hcas = 3;
	s->trays[16].versions = "{\"driver\":\"570.1\"}";
	rk_capacity(s, &c);
	assert_int_equal(c.free, 16);
	assert_int_equal(c.segments[1], 1);
	place(s, &spec, NULL, 0, arena, &p);
	assert_int_equal(p.segments_after[2], 1);
	assert_int_equal(p.segments_after[3], 3);
	spec = make_spec(1, 1);
	spec.size = "nd32isr-gb300-v6"; /* one port of its tray is enough for it, and it takes nothing else away */
	for (int t = 0; t < 16; t++)
		s->trays[t].n_hcas = 3;
	place(s, &spec, NULL, 0, arena, &p);
	assert_true(p.feasible);
	reserve(s, 1, NULL, 1, now_ms, now_ms + DAY_MS);
	place(s, &spec, NULL, 0, arena, &p);
	assert_false(p.feasible);
	assert_string_equal(p.suggestion, "cancel reservation 1");
}

/* A tray with a port on the other fabric does not decide for its rack, even when it is the first. */
static void a_rack_is_on_the_fabric_of_most_of_its_trays(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site(1, 6, "");
	struct rk_spec spec = make_spec(5, 5);

	(void)state;
	for (int h = 0; h < 4; h++)
		s->hcas[s->trays[0].first_hca + h].fabric = 1;
	judged(s, &spec, 0, "chosen", "5 of 5 free used, 0 left; 1 not rail-complete");
}

/* Four boxes that are an NVLink domain each have room for four VMs and for no segment of four. */
static void segments_are_counted_within_nvlink_domains(void **state)
{
	static const char text[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\",\"racks\":[{\"name\":\"r01\",\"profile\":\"hgx-generic\"}]}";
	struct rk_site *s RK_CLEANUP_SITE = NULL;
	struct rk_capacity c;

	(void)state;
	assert_int_equal(rk_site_parse("s", text, strlen(text), &s, NULL), 0);
	rk_capacity(s, &c);
	assert_int_equal(c.free, 4);
	assert_int_equal(c.largest, 1);
	assert_int_equal(c.segments[3], 0);
}

/* r01 alone would do with two cordons gone, r02 with r03 with three: putting back the rack with the most cordons first leaves three. */
static void the_fewest_cordons_are_named(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site(3, 4, "");
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_spec spec = make_spec(4, 2);
	struct rk_placement p;

	(void)state;
	for (int t = 0; t < 3; t++)
		s->trays[t].cordon = "fan";
	for (int t = 4; t < 12; t++)
		s->trays[t].faulty = "x";
	s->trays[4].faulty = s->trays[5].faulty = s->trays[8].faulty = s->trays[9].faulty = NULL;
	s->trays[4].cordon = s->trays[5].cordon = s->trays[8].cordon = s->trays[9].cordon = "fan";
	place(s, &spec, NULL, 0, arena, &p);
	assert_false(p.feasible);
	assert_string_equal(p.changes[p.n_changes - 1].text, "uncordon tray r01-t[01-03]");
	reserve(s, 1, "r01", 0, now_ms, now_ms + DAY_MS);
	reserve(s, 1, "r02", 0, now_ms, now_ms + DAY_MS);
	reserve(s, 1, "r[01-02]", 0, now_ms + 2 * DAY_MS, now_ms + 3 * DAY_MS);
	for (int t = 0; t < 12; t++)
		s->trays[t].cordon = NULL;
	spec.count = spec.placement.segment = 2;
	s->racks[2].cordon = "pump";
	place(s, &spec, NULL, 0, arena, &p);
	assert_string_equal(p.suggestion, "uncordon rack r03; or cancel reservation 1,3");
}

/* Too many cordons to try all sets of them: those of few racks are named rather than those of many trays. */
static void of_many_cordons_few_are_named(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site(40, 18, "");
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_spec spec = make_spec(30 * 12 + 7 * 18, 1);
	struct rk_placement p;

	(void)state;
	for (int r = 0; r < 40; r++)
		for (int t = 0; t < 6 && r >= 10; t++)
			s->trays[r * 18 + t].cordon = "fan";
	for (int r = 0; r < 10; r++)
		s->racks[r].cordon = "pump";
	place(s, &spec, NULL, 0, arena, &p);
	assert_string_equal(p.suggestion, "place at most 360 VMs; or uncordon rack r[01-07]");
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
	rk_site_seal(s); /* and they are shown as such */
	assert_int_equal(rk_tray_state(s, 17), RK_TRAY_SPARE);
	assert_int_equal(rk_tray_state(s, 16), RK_TRAY_SPARE);
	assert_int_equal(rk_tray_state(s, 15), RK_TRAY_FREE);
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
		cmocka_unit_test(a_quota_forbids_whatever_the_racks),
		cmocka_unit_test(a_quota_says_how_many_it_would_allow),
		cmocka_unit_test(reservations_count_from_their_making_to_their_end),
		cmocka_unit_test(trays_reserved_by_number_stay_free_somewhere),
		cmocka_unit_test(numbers_reserved_one_after_another_are_not_added_up),
		cmocka_unit_test(the_cordons_in_the_way_are_named),
		cmocka_unit_test(capacity_is_told_now_and_after_the_worst_rack),
		cmocka_unit_test(trays_that_are_not_complete_are_no_capacity),
		cmocka_unit_test(a_rack_is_on_the_fabric_of_most_of_its_trays),
		cmocka_unit_test(segments_are_counted_within_nvlink_domains),
		cmocka_unit_test(the_fewest_cordons_are_named),
		cmocka_unit_test(of_many_cordons_few_are_named),
		cmocka_unit_test(spares_that_a_neighbour_asked_for_are_kept),
		cmocka_unit_test(clusters_kept_apart_share_no_rack_whichever_of_them_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
