/* The policies keep the order in which they say that they look at things, and the reasons say so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/contract/place_brute.h"

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

/* leaves: by rack. */
static void wire(struct rk_site *s, const char *const *leaves)
{
	for (size_t h = 0; h < s->n_hcas; h++)
		s->hcas[h].leaf = leaves[s->trays[s->hcas[h].tray].rack];
}

static void racks_of_one_leaf_group_are_preferred(void **state)
{
	static const char *const leaves[] = { "x", "y", "z", "y", "x", "y" };
	struct rk_site *s RK_CLEANUP_SITE = make_site(6, 4, "");
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_spec spec = make_spec(8, 4);

	(void)state;
	wire(s, leaves);
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

/* Why rack `rack` was judged as it was. */
static void judged(const struct rk_site *s, const struct rk_spec *spec, const int *keep, size_t n_keep, int rack, const char *why)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_placement p;

	place(s, spec, keep, n_keep, arena, &p);
	assert_string_equal(p.reasons[rack].why, why);
}

/* The cluster is in r01 and r02, 17 free each: one more in either loses nothing, two more in one lose a segment of 16. */
static void growing_loses_as_few_large_segments_as_it_can(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site(3, 18, "");
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_spec spec = make_spec(4, 1);
	struct rk_placement p;
	int keep[] = { 0, 18 };

	(void)state;
	add_clusters(s);
	occupy(s, 0, 0);
	occupy(s, 18, 0);
	assert_string_equal(placed(s, &spec, keep, 2, arena), "r01:1,r02:1");
	place(s, &spec, keep, 2, arena, &p);
	assert_int_equal(p.segments_after[1], 3);
	judged(s, &spec, keep, 2, 2, "18 free, the cluster is in r02 already");
}

/* Two leaf groups would do as well: name decides, not how full the groups are. */
static void name_decides_between_leaf_groups_that_do_as_well(void **state)
{
	static const char *const leaves[] = { "x", "x", "x", "y", "z", "z" };
	struct rk_site *s RK_CLEANUP_SITE = make_site(6, 4, "");
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_spec spec = make_spec(4, 4);

	(void)state;
	wire(s, leaves);
	assert_string_equal(placed(s, &spec, NULL, 0, arena), "r01:4");
	judged(s, &spec, NULL, 0, 3, "4 free, r01 comes first");
	spec.count = 8;
	s->trays[0].faulty = s->trays[4].faulty = "x"; /* of x only r03 is whole */
	assert_string_equal(placed(s, &spec, NULL, 0, arena), "r05:4,r06:4");
	judged(s, &spec, NULL, 0, 2, "4 free, r06 shares leaves with r05");
	int keep[] = { 4 * 4 }; /* r05 is full of others but for the cluster's own */
	add_clusters(s);
	for (int t = 4 * 4; t < 5 * 4; t++)
		occupy(s, t, 0);
	spec = make_spec(5, 4);
	assert_string_equal(placed(s, &spec, keep, 1, arena), "r06:4");
	judged(s, &spec, keep, 1, 2, "4 free, r06 shares leaves with r05");
}

/* No leaf group holds three: the first of the largest, then the first that holds what is left. */
static void leaf_groups_that_are_too_small_are_filled_one_after_another(void **state)
{
	static const char *const leaves[] = { "x", "y", "z", "y", "z" };
	struct rk_site *s RK_CLEANUP_SITE = make_site(5, 4, "");
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_spec spec = make_spec(12, 4);

	(void)state;
	wire(s, leaves);
	assert_string_equal(placed(s, &spec, NULL, 0, arena), "r01:4,r02:4,r04:4");
}

/* Three VMs are in r01, one in r02: what is added goes where the cluster has fewer, though r03 is out of bounds. */
static void spreading_counts_what_is_there_already(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site(3, 18, "");
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_spec spec = make_spec(6, 1);
	int keep[] = { 0, 1, 2, 18 };

	(void)state;
	add_clusters(s);
	for (size_t i = 0; i < RK_ARRAY_SIZE(keep); i++)
		occupy(s, keep[i], 0);
	spec.placement.policy = RK_SPREAD;
	spec.placement.max_racks = 2;
	assert_string_equal(placed(s, &spec, keep, RK_ARRAY_SIZE(keep), arena), "r02:2");
}

/* r01 and r03 are on ib0, r02 and r04 on ib1. */
static void a_fabric_is_chosen_as_the_policy_chooses_racks(void **state)
{
	static const struct {
		enum rk_policy policy;
		int count, taken[4];
		const char *placed;
	} rows[] = {
		{ RK_BEST_FIT, 2, { 0, 15, 0, 0 }, "r02:2" },   /* closest fit */
		{ RK_BEST_FIT, 2, { 1, 0, 1, 0 }, "r02:2" },    /* 18 - 2 loses no segment of 16, 17 - 2 does */
		{ RK_BEST_FIT, 2, { 0, 0, 0, 0 }, "r01:2" },    /* name */
		{ RK_SPREAD, 2, { 0, 0, 18, 0 }, "r02:1,r04:1" },
		{ RK_SPREAD, 2, { 3, 2, 3, 2 }, "r02:1,r04:1" }, /* emptier */
		{ RK_FIRST_FIT, 2, { 18, 0, 0, 0 }, "r02:2" },
		{ RK_FIRST_FIT, 20, { 0, 0, 0, 0 }, "r01:18,r03:2" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		struct rk_site *s RK_CLEANUP_SITE = make_site(4, 18, "");
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct rk_spec spec = make_spec(rows[i].count, 1);
		spec.placement.policy = rows[i].policy;
		add_clusters(s);
		for (size_t h = 0; h < s->n_hcas; h++)
			s->hcas[h].fabric = s->trays[s->hcas[h].tray].rack % 2;
		for (int t = 0; t < (int)s->n_trays; t++)
			if (t % 18 < rows[i].taken[t / 18])
				occupy(s, t, 0);
		assert_string_equal(placed(s, &spec, NULL, 0, arena), rows[i].placed);
	}
}

/* ---- segment by segment ------------------------------------------------------------------------------------------------------------------ */

struct walk {
	struct brute b;
	int used[TRIAL_RACKS], held[TRIAL_RACKS], racks; /* held: VMs; racks: opened so far */
	enum rk_policy policy;
};

/* What the policy looks at, the most important first; the name decides last. */
static void rank(const struct walk *w, int r, int segment, int key[3])
{
	int left = w->b.room[r] - w->used[r], own = w->held[r] + w->used[r];

	memset(key, 0, 3 * sizeof(*key));
	if (w->policy == RK_BEST_FIT) {
		key[0] = !own;
		key[1] = left / 16 - (left - segment) / 16;
		key[2] = left;
	} else if (w->policy == RK_SPREAD) {
		key[0] = own;
		key[1] = -left;
	}
}

static bool takes(const struct walk *w, int r, int vms)
{
	bool opens = !w->used[r] && !w->held[r];

	return w->used[r] + vms <= w->b.room[r] && (w->b.kept[r] || vms <= w->b.pool) && (!opens || !w->b.max_racks || w->racks < w->b.max_racks);
}

static bool put(struct walk *w, int vms)
{
	int best = RK_NONE, best_key[3] = { 0 }, key[3];

	for (int r = 0; r < w->b.n; r++) {
		if (!takes(w, r, vms))
			continue;
		rank(w, r, vms, key);
		int at = key[0] != best_key[0] ? 0 : key[1] != best_key[1] ? 1 : 2;
		if (best == RK_NONE || key[at] < best_key[at]) {
			best = r;
			memcpy(best_key, key, sizeof(key));
		}
	}
	if (best == RK_NONE)
		return false;
	w->racks += !w->used[best] && !w->held[best];
	w->used[best] += vms;
	w->b.pool -= w->b.kept[best] ? 0 : vms;
	return true;
}

/* False: the order of the policy alone leads nowhere. */
static bool walk(const struct trial *t, struct walk *w)
{
	bool all = true;

	*w = (struct walk){ .policy = t->spec.placement.policy };
	brute_look(t, &w->b);
	for (size_t k = 0; k < t->n_keep; k++)
		w->racks += !w->held[t->site->trays[t->keep[k]].rack]++;
	for (int left = w->b.count; all && left > 0; left -= w->b.segment)
		all = put(w, left < w->b.segment ? left : w->b.segment);
	return all;
}

/* One fabric, no leaves: whatever the rules leave, every segment goes where the policy would put it next. */
static void every_segment_goes_where_the_policy_says(void **state)
{
	int compared = 0;

	(void)state;
	for (uint64_t n = 1; n <= 4000; n++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		int used[TRIAL_RACKS] = { 0 };
		struct rk_placement p;
		struct trial t;
		struct walk w;
		make_trial(&t, n);
		for (size_t h = 0; h < t.site->n_hcas; h++)
			t.site->hcas[h].fabric = 0;
		place(t.site, &t.spec, t.keep, t.n_keep, arena, &p);
		for (size_t i = 0; i < p.n_trays; i++)
			used[t.site->trays[p.trays[i]].rack]++;
		if (p.feasible && walk(&t, &w)) {
			for (int r = 0; r < w.b.n; r++)
				if (used[r] != w.used[r])
					fail_msg("case %llu: rack %d has %d, the policy says %d", (unsigned long long)n, r, used[r], w.used[r]);
			compared++;
		}
		rk_site_free(t.site);
	}
	assert_true(compared > 500);
}

/* On ib0 every rack has leaves of its own, on ib1 both share theirs. */
static void of_equal_fabrics_the_one_with_fewer_leaf_groups_is_chosen(void **state)
{
	static const char *const leaves[] = { "x", "z", "y", "z" };
	struct rk_site *s RK_CLEANUP_SITE = make_site(4, 18, "");
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_spec spec = make_spec(36, 18);

	(void)state;
	for (size_t h = 0; h < s->n_hcas; h++) {
		int rack = s->trays[s->hcas[h].tray].rack;
		s->hcas[h].fabric = rack % 2;
		s->hcas[h].leaf = leaves[rack];
	}
	assert_string_equal(placed(s, &spec, NULL, 0, arena), "r02:18,r04:18");
}

static void racks_that_were_not_taken_say_why(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = uneven_site();
	struct rk_spec spec = make_spec(8, 8);

	(void)state;
	judged(s, &spec, NULL, 0, 2, "8 of 15 free used, 7 left; 3 allocated");
	judged(s, &spec, NULL, 0, 0, "18 free, r03 spares a segment of 16");
	spec.count = spec.placement.segment = 16;
	judged(s, &spec, NULL, 0, 0, "18 free, r05 leaves less over");
	spec.count = 18;
	spec.placement.segment = 6;
	spec.placement.max_racks = 1; /* r02 would be the closest fit */
	judged(s, &spec, NULL, 0, 1, "6 free, maxRacks 1 needs the largest racks; 12 allocated");
	spec = make_spec(4, 1);
	spec.placement.policy = RK_SPREAD;
	judged(s, &spec, NULL, 0, 1, "6 free, r03 is emptier; 12 allocated");
	spec.count = 1;
	judged(s, &spec, NULL, 0, 3, "18 free, r01 comes first");
	spec.placement.policy = RK_FIRST_FIT;
	judged(s, &spec, NULL, 0, 3, "18 free, first-fit took earlier racks");
	reserve(s, 0, "r01", 0, now_ms, now_ms + DAY_MS);
	reserve(s, 1, NULL, 40, now_ms, now_ms + DAY_MS); /* of 56 elsewhere */
	spec = make_spec(34, 17);
	judged(s, &spec, NULL, 0, 0, "18 free, room for 1 segment of 17");
	judged(s, &spec, NULL, 0, 3, "18 free, room for 1 segment of 17; the rest is reserved by number");
}

static void a_budget_below_the_free_trays_is_told(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site(2, 18, "");
	struct rk_spec spec = make_spec(2, 2);

	(void)state;
	s->racks[0].power_kw = 22.5;
	judged(s, &spec, NULL, 0, 0, "2 of 18 free used, 1 left; power for 3");
	spec.placement.policy = RK_SPREAD;
	judged(s, &spec, NULL, 0, 0, "18 free, r02 is emptier; power for 3");
	s->racks[0].power_kw = 14.999; /* a watt short */
	judged(s, &spec, NULL, 0, 0, "power 0 of 14.999 kW, needs 15 more");
	spec = make_spec(20, 18); /* the last two would do there */
	judged(s, &spec, NULL, 0, 0, "power 0 of 14.999 kW, needs 15 more");
	s->racks[0].power_kw = 15;
	judged(s, &spec, NULL, 0, 0, "2 of 18 free used, 0 left; power for 2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(policies_choose_as_documented),
		cmocka_unit_test(growing_stays_in_the_clusters_racks),
		cmocka_unit_test(growing_loses_as_few_large_segments_as_it_can),
		cmocka_unit_test(racks_of_one_leaf_group_are_preferred),
		cmocka_unit_test(name_decides_between_leaf_groups_that_do_as_well),
		cmocka_unit_test(leaf_groups_that_are_too_small_are_filled_one_after_another),
		cmocka_unit_test(spreading_counts_what_is_there_already),
		cmocka_unit_test(a_cluster_stays_on_one_infiniband_fabric),
		cmocka_unit_test(a_fabric_is_chosen_as_the_policy_chooses_racks),
		cmocka_unit_test(every_segment_goes_where_the_policy_says),
		cmocka_unit_test(of_equal_fabrics_the_one_with_fewer_leaf_groups_is_chosen),
		cmocka_unit_test(racks_that_were_not_taken_say_why),
		cmocka_unit_test(a_budget_below_the_free_trays_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
