/* Placement is right: compared with brute force on small random sites, rule by rule, and so is what it says would help. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "inventory/base/nodeset.h"
#include "tests/contract/place_brute.h"

enum { CASES = 3000 };

static void place_trial(const struct trial *t, struct rk_arena *arena, struct rk_placement *ret)
{
	place(t->site, &t->spec, t->keep, t->n_keep, arena, ret);
}

/* ---- where it goes -------------------------------------------------------------------------------------------------------------------- */

static void explain_failure(const struct trial *t, bool expected, uint64_t seed)
{
	struct brute b;

	brute_look(t, &b);
	print_message("case %llu: %d VMs (%zu kept) in segments of %d, maxRacks %d, pool %d\n", (unsigned long long)seed, t->spec.count, t->n_keep, b.segment,
		      b.max_racks, b.pool);
	for (int r = 0; r < b.n; r++)
		print_message("  rack %d: room %d fabric %d held %d kept %d\n", r, b.room[r], b.fabrics[r], b.held[r], b.kept[r]);
	fail_msg("brute force says %s", expected ? "feasible" : "infeasible");
}

static void check_tray(const struct trial *t, int tray)
{
	const struct rk_size *size = rk_size_find(t->site, t->spec.size);

	assert_true(brute_tray(t->site, tray, size->hcas, size->gpus));
}

/* The placement says what it did; it must keep every rule. */
static void check_valid(const struct trial *t, const struct rk_placement *p)
{
	int used[TRIAL_RACKS] = { 0 }, rests = 0, shared = 0, racks = 0, held = 0, fabric = RK_NONE;
	bool seen[64] = { false };
	struct brute b;

	brute_look(t, &b);
	assert_int_equal(p->n_trays, b.count);
	for (size_t i = 0; i < p->n_trays; i++) {
		check_tray(t, p->trays[i]);
		assert_false(seen[p->trays[i]]);
		seen[p->trays[i]] = true;
		used[t->site->trays[p->trays[i]].rack]++;
	}
	for (int r = 0; r < b.n; r++) {
		assert_true(used[r] <= b.room[r]);
		assert_int_equal(used[r] > 0, rk_streq(p->reasons[r].verdict, "chosen"));
		shared += b.kept[r] ? 0 : used[r];
		racks += used[r] && !b.held[r];
		if (used[r] % b.segment) {
			assert_int_equal(used[r] % b.segment, b.count % b.segment);
			rests++;
		}
		if (used[r] && fabric == RK_NONE)
			fabric = b.fabrics[r];
		assert_true(!used[r] || fabric == b.fabrics[r]);
		held += b.held[r];
	}
	assert_true(shared <= b.pool);
	assert_int_equal(rests, b.count % b.segment != 0);
	assert_true(!b.max_racks || !racks || racks + held <= b.max_racks);
	assert_true(b.within_quota && (b.fabric == RK_NONE || b.fabric == fabric));
}

static void check_same(const struct trial *t, const struct rk_placement *p)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_placement again;

	place_trial(t, arena, &again);
	assert_int_equal(again.n_trays, p->n_trays);
	assert_memory_equal(again.trays, p->trays, p->n_trays * sizeof(int));
	for (size_t r = 0; r < p->n_reasons; r++)
		assert_string_equal(again.reasons[r].why, p->reasons[r].why);
}

/* A rack that is refused could not even hold the smallest part; one that is possible could. */
static void check_verdicts(const struct trial *t, const struct rk_placement *p)
{
	struct brute b;

	brute_look(t, &b);
	int rest = b.count % b.segment, smallest = rest ? rest : b.segment;
	for (int r = 0; r < b.n; r++) {
		if (b.room[r] < smallest)
			assert_string_equal(p->reasons[r].verdict, "refused");
		if (b.room[r] >= b.segment)
			assert_string_not_equal(p->reasons[r].verdict, "refused");
	}
}

static void feasible_exactly_when_brute_force_finds_a_placement(void **state)
{
	int feasible = 0;

	(void)state;
	for (uint64_t n = 1; n <= CASES; n++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct rk_placement p;
		struct trial t;
		make_trial(&t, n);
		bool expected = brute_fits(&t);
		place_trial(&t, arena, &p);
		if (p.feasible != expected)
			explain_failure(&t, expected, n);
		if (p.feasible)
			check_valid(&t, &p);
		else
			assert_non_null(p.suggestion);
		check_verdicts(&t, &p);
		check_same(&t, &p);
		feasible += p.feasible;
		rk_site_free(t.site);
	}
	print_message("%d random sites compared with brute force, %d feasible\n", CASES, feasible);
	assert_true(feasible > CASES / 10 && feasible < CASES * 4 / 5);
}

static void more_capacity_never_makes_a_placement_impossible(void **state)
{
	(void)state;
	for (uint64_t n = 1; n <= 1500; n++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct rk_placement before, after;
		struct trial t;
		make_trial(&t, n);
		place_trial(&t, arena, &before);
		struct rk_tray *tray = &t.site->trays[dice((int)t.site->n_trays)];
		tray->cordon = tray->faulty = tray->leak = tray->offline = NULL;
		t.site->racks[dice((int)t.site->n_racks)].cordon = NULL;
		t.site->racks[dice((int)t.site->n_racks)].power_kw += 7.5;
		place_trial(&t, arena, &after);
		assert_true(after.feasible || !before.feasible);
		rk_site_free(t.site);
	}
}

/* ---- what is left ---------------------------------------------------------------------------------------------------------------------- */

/* The site with the placement carried out, and nothing reserved any more. */
static void carry_out(struct trial *t, const struct rk_placement *p)
{
	struct rk_site *s = t->site;

	s->clusters[s->n_clusters++] = (struct rk_cluster){ .name = "new", .size = t->spec.size, .ib = RK_NONE, .spares_per_rack = t->spec.placement.spares_per_rack };
	for (size_t i = 0; i < p->n_trays; i++)
		occupy(s, p->trays[i], t->n_keep ? 0 : (int)s->n_clusters - 1);
	s->n_reservations = 0;
}

/* How many clusters of so many VMs go there one after another; takes them away again. */
static int one_after_another(struct rk_site *s, int segment)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_spec spec = make_spec(segment, segment);
	size_t vms = s->n_vms;
	struct rk_placement p;
	int n = 0;

	spec.tenant = "b";
	for (spec.name = "probe"; place(s, &spec, NULL, 0, arena, &p), p.feasible; n++)
		for (size_t i = 0; i < p.n_trays; i++)
			occupy(s, p.trays[i], 0);
	while (s->n_vms > vms)
		s->trays[s->vms[--s->n_vms].tray].vm = RK_NONE;
	return n;
}

static void what_is_said_to_be_left_is_what_is_left_afterwards(void **state)
{
	int placed = 0, spared = 0, fours = 0;

	(void)state;
	for (uint64_t n = 1; n <= 3000; n++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct rk_capacity after;
		struct rk_placement p;
		struct trial t;
		make_trial(&t, n);
		place_trial(&t, arena, &p);
		if (p.feasible)
			carry_out(&t, &p);
		rk_capacity(t.site, &after);
		assert_memory_equal(p.segments_after, after.segments, sizeof(after.segments));
		assert_true(p.fragmentation_after == after.fragmentation);
		if (p.feasible)
			assert_int_equal(one_after_another(t.site, 4), p.segments_after[3]);
		placed += p.feasible;
		fours += p.feasible ? p.segments_after[3] : 0;
		spared += p.feasible && t.spec.placement.spares_per_rack && after.free;
		rk_site_free(t.site);
	}
	assert_true(placed > 300 && spared > 30 && fours > 30);
}

static void capacity_is_counted_by_the_letter(void **state)
{
	(void)state;
	for (uint64_t n = 1; n <= 1500; n++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct trial t;
		make_trial(&t, n);
		const int *room = rk_capacity_rooms(t.site, arena);
		for (int r = 0; r < (int)t.site->n_racks; r++)
			assert_int_equal(room[r], brute_capacity(t.site, r));
		rk_site_free(t.site);
	}
}

/* ---- suggestions ---------------------------------------------------------------------------------------------------------------------- */

/* The names without a cordon from here on; how many there are. */
static int uncordon(struct rk_site *s, const char *objects, struct rk_arena *arena)
{
	struct rk_nodeset set = { 0 };

	assert_int_equal(rk_nodeset_parse(objects, NULL, NULL, arena, &set, NULL), 0);
	for (size_t i = 0; i < set.n; i++) {
		int tray = rk_find_tray(s, set.names[i]), rack = rk_find_rack(s, set.names[i]);
		assert_true(tray >= 0 || rack >= 0);
		*(tray >= 0 ? &s->trays[tray].cordon : &s->racks[rack].cordon) = NULL;
	}
	return (int)set.n;
}

static int cancel(struct rk_site *s, const char *ids)
{
	int n = 0;

	for (char *at = (char *)ids; *at; at += *at == ',', n++)
		s->reservations[strtol(at, &at, 10) - 1].to_unix_ms = 0;
	return n;
}

static void no_spares(struct trial *t)
{
	t->spec.placement.spares_per_rack = 0;
	for (size_t r = 0; r < t->site->n_racks; r++)
		t->site->racks[r].spares = 0;
	for (size_t c = 0; c < t->site->n_clusters; c++)
		t->site->clusters[c].spares_per_rack = 0;
}

static void together(struct trial *t)
{
	t->spec.placement.n_apart = 0;
	for (size_t c = 0; c < t->site->n_clusters; c++)
		t->site->clusters[c].spec = NULL;
}

enum kind { COUNT, SEGMENT, MAX_RACKS, RACKS, SPARES, APART, UNCORDON, RESERVATION, QUOTA, KINDS };
static const char *const kinds[KINDS] = { "count", "segment", "max_racks", "racks", "spares", "anti_affinity", "uncordon", "reservation", "quota" };

static enum kind kind_of(const struct rk_place_change *c)
{
	enum kind k = COUNT;

	while (k < KINDS && strcmp(kinds[k], c->kind) != 0)
		k++;
	assert_true(k < KINDS);
	return k;
}

/* Does to the trial what a change of this kind says; c is not looked at where the kind says it all. How much that is: the number named, or that of
 * things. */
static int follow(struct trial *t, enum kind kind, const struct rk_place_change *c, struct rk_arena *arena)
{
	switch (kind) {
	case COUNT:
		brute_count(t, c->value, t->spec.placement.segment);
		return c->value;
	case SEGMENT:
		return t->spec.placement.segment = c->value;
	case MAX_RACKS:
		return t->spec.placement.max_racks = c->value;
	case UNCORDON:
		return uncordon(t->site, c->objects, arena);
	case RESERVATION:
		return cancel(t->site, c->objects);
	case RACKS:
		t->spec.placement.racks = NULL;
		return 1;
	case SPARES:
		no_spares(t);
		return 1;
	case APART:
		together(t);
		return 1;
	default:
		t->site->tenants[0].quota_vms = 0;
		return 1;
	}
}

/* What brute force finds for a change of this kind: 0 when it alone does not help, -1 when that is too much to find out. */
static int best_of(struct trial *t, enum kind kind)
{
	struct brute b;

	brute_look(t, &b);
	if (!b.within_quota && kind != COUNT && kind != QUOTA)
		return 0;
	switch (kind) {
	case COUNT:
		return brute_best_count(*t);
	case SEGMENT:
		return brute_best_segment(*t);
	case MAX_RACKS:
		return brute_best_max_racks(*t);
	case UNCORDON:
		return brute_fewest_cordons(t);
	case RESERVATION:
		return brute_fewest_reservations(t);
	default:
		if ((kind == RACKS && !t->spec.placement.racks) || (kind == QUOTA && b.within_quota))
			return 0;
		follow(t, kind, NULL, NULL);
		return brute_fits(t);
	}
}

/* Every change that is suggested does alone make it possible, none could be smaller, and none that would help is missing. */
static void check_changes(uint64_t seed, int told[KINDS])
{
	for (enum kind k = COUNT; k < KINDS; k++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		const struct rk_place_change *c = NULL;
		struct rk_placement p, q;
		struct trial t, other;
		make_trial(&t, seed);
		place_trial(&t, arena, &p);
		for (size_t i = 0; i < p.n_changes; i++)
			c = kind_of(&p.changes[i]) == k ? &p.changes[i] : c;
		int much = c ? follow(&t, k, c, arena) : 0;
		if (c) {
			place_trial(&t, arena, &q);
			if (!q.feasible || !brute_fits(&t))
				fail_msg("case %llu: \"%s\" does not do", (unsigned long long)seed, c->text);
		}
		make_trial(&other, seed);
		int best = p.feasible ? 0 : best_of(&other, k);
		if (best >= 0 && best != much)
			fail_msg("case %llu: \"%s\", but the best %s is %d", (unsigned long long)seed, c ? c->text : "-", kinds[k], best);
		told[k] += c != NULL;
		rk_site_free(t.site);
		rk_site_free(other.site);
	}
}

static void each_suggestion_alone_makes_it_possible_and_none_is_smaller(void **state)
{
	int told[KINDS] = { 0 };

	(void)state;
	for (uint64_t n = 1; n <= 1500; n++)
		check_changes(n, told);
	for (int k = 0; k < KINDS; k++) {
		print_message("%s: suggested %d times\n", kinds[k], told[k]);
		assert_true(told[k] > 3); /* every kind was met */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(feasible_exactly_when_brute_force_finds_a_placement),
		cmocka_unit_test(more_capacity_never_makes_a_placement_impossible),
		cmocka_unit_test(what_is_said_to_be_left_is_what_is_left_afterwards),
		cmocka_unit_test(capacity_is_counted_by_the_letter),
		cmocka_unit_test(each_suggestion_alone_makes_it_possible_and_none_is_smaller),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
