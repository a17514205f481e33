/* Placement is right: compared with brute force on small random sites. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/contract/place_site.h"

enum { CASES = 4000, RACKS_MAX = 5 };

/* ---- brute force ------------------------------------------------------------------------------------------------------------------- */

struct brute {
	int room[RACKS_MAX], fabric[RACKS_MAX];
	bool held[RACKS_MAX], kept[RACKS_MAX];
	int n, max_racks, pool;
};

static int racks_in_use(const struct brute *b, const int *used)
{
	int n = 0;

	for (int r = 0; r < b->n; r++)
		n += b->held[r] || used[r];
	return n;
}

/* Puts the segments one after another wherever they go; tries everything. */
static bool brute_fits(const struct brute *b, int fabric, int *used, int pool, int count, int segment)
{
	int s = count < segment ? count : segment;

	if (!count)
		return true;
	for (int r = 0; r < b->n; r++) {
		if (b->fabric[r] != fabric || used[r] + s > b->room[r] || (!b->kept[r] && s > pool))
			continue;
		used[r] += s;
		bool fits = (!b->max_racks || racks_in_use(b, used) <= b->max_racks) &&
			    brute_fits(b, fabric, used, b->kept[r] ? pool : pool - s, count - s, segment);
		used[r] -= s;
		if (fits)
			return true;
	}
	return false;
}

static bool brute_any(const struct brute *b, int fabric, int count, int segment)
{
	int used[RACKS_MAX] = { 0 };

	for (int f = 0; f < 2; f++)
		if ((fabric == RK_NONE || f == fabric) && brute_fits(b, f, used, b->pool, count, segment))
			return true;
	return false;
}

/* ---- random cases --------------------------------------------------------------------------------------------------------------------- */

static uint32_t seed;

static int dice(int n)
{
	seed = seed * 1664525u + 1013904223u;
	return (int)((seed >> 8) % (uint32_t)n);
}

struct trial {
	struct rk_site *site;
	struct rk_spec spec;
	int segment;             /* of the spec as it was made */
	int keep[8];
	size_t n_keep;
	const char *apart[1];
};

static void damage(struct rk_site *s)
{
	for (size_t t = 0; t < s->n_trays; t++) {
		struct rk_tray *tray = &s->trays[t];
		switch (dice(12)) {
		case 0:
			tray->cordon = "fan";
			break;
		case 1:
			tray->faulty = "erase";
			break;
		case 2:
			tray->leak = "wet";
			break;
		case 3:
		case 4:
			occupy(s, (int)t, dice(2));
			break;
		default:
			break;
		}
	}
	for (size_t r = 0; r < s->n_racks; r++) {
		s->racks[r].spares = dice(4) == 0;
		s->racks[r].power_kw = dice(3) ? 142 : 7.5 * dice(7);
		s->racks[r].cordon = dice(10) ? NULL : "pump";
	}
}

static void reserve_some(struct rk_site *s)
{
	static const char *const racks[] = { "r01", "r02", "r[01-02]" };

	for (int i = dice(3); i > 0; i--) {
		int64_t to = dice(4) ? now_ms + DAY_MS : now_ms - 1;
		if (dice(2))
			reserve(s, dice(2), racks[dice(3)], 0, now_ms - 2 * DAY_MS, to);
		else
			reserve(s, dice(2), NULL, 1 + dice(4), now_ms - 2 * DAY_MS, to);
	}
}

static void make_trial(struct trial *t)
{
	int n = 2 + dice(RACKS_MAX - 2);

	*t = (struct trial){ .site = make_site(n, 2 + dice(5), ""), .apart = { "c1" } };
	struct rk_site *s = t->site;
	add_clusters(s);
	if (dice(3) == 0)
		for (size_t h = 0; h < s->n_hcas; h++)
			s->hcas[h].fabric = s->trays[s->hcas[h].tray].rack % 2;
	damage(s);
	reserve_some(s);
	t->spec = make_spec(1 + dice(9), 1 + dice(4));
	t->spec.placement.max_racks = dice(3) ? 0 : 1 + dice(3);
	t->spec.placement.spares_per_rack = dice(5) == 0;
	t->spec.placement.policy = (enum rk_policy)dice(3);
	if (dice(4) == 0) {
		t->spec.placement.apart = t->apart;
		t->spec.placement.n_apart = 1;
	} else if (dice(4) == 0) {
		s->clusters[1].spec = "{\"placement\":{\"antiAffinity\":[\"other\",\"new\"]}}";
	}
	/* Some grow a cluster: it keeps one or two trays of one fabric. */
	for (size_t v = 0; dice(4) == 0 && v < s->n_vms && t->n_keep < 2; v++)
		if (s->clusters[s->vms[v].cluster].tenant == 0 &&
		    (!t->n_keep || s->hcas[s->trays[s->vms[v].tray].first_hca].fabric == s->hcas[s->trays[t->keep[0]].first_hca].fabric))
			t->keep[t->n_keep++] = s->vms[v].tray;
	t->spec.count += (int)t->n_keep;
	t->segment = t->spec.placement.segment;
}

/* What is free in a rack by the letter of the rules. */
static int free_in(const struct rk_site *s, int r, int spares)
{
	int n = 0;

	for (int t = s->racks[r].first_tray; t < s->racks[r].first_tray + s->racks[r].n_trays; t++) {
		const struct rk_tray *tray = &s->trays[t];
		n += !tray->cordon && !tray->faulty && !tray->leak && tray->vm < 0 && !s->racks[r].cordon;
	}
	return n > spares ? n - spares : 0;
}

static int capped(const struct rk_site *s, int r, int n)
{
	double left = s->racks[r].power_kw;

	for (int t = s->racks[r].first_tray; t < s->racks[r].first_tray + s->racks[r].n_trays; t++)
		left -= s->trays[t].vm >= 0 ? 7.5 : 0;
	while (n > 0 && n * 7.5 > left + 1e-6)
		n--;
	return n;
}

static bool in_set(const char *racks, const char *name)
{
	return racks && (strcmp(racks, "r[01-02]") == 0 ? strcmp(name, "r01") == 0 || strcmp(name, "r02") == 0 : strcmp(racks, name) == 0);
}

/* A VM of cluster c1, which may be kept apart from the new one by either of them. */
static bool beside_c1(const struct trial *t, int r)
{
	const struct rk_rack *rack = &t->site->racks[r];
	bool apart = t->spec.placement.n_apart || t->site->clusters[1].spec;

	for (int at = rack->first_tray; apart && at < rack->first_tray + rack->n_trays; at++)
		if (t->site->trays[at].vm >= 0 && t->site->vms[t->site->trays[at].vm].cluster == 1)
			return true;
	return false;
}

static void to_brute(const struct trial *t, struct brute *b)
{
	const struct rk_site *s = t->site;
	int promised = 0, held = 0;

	*b = (struct brute){ .n = (int)s->n_racks, .max_racks = t->spec.placement.max_racks };
	for (size_t i = 0; i < s->n_reservations; i++)
		promised += s->reservations[i].tenant == 1 && s->reservations[i].to_unix_ms > now_ms ? s->reservations[i].count : 0;
	for (size_t v = 0; v < s->n_vms; v++)
		held += s->vms[v].cluster == 1;
	promised = promised > held ? promised - held : 0;
	for (int r = 0; r < b->n; r++) {
		const struct rk_rack *rack = &s->racks[r];
		int spares = rack->spares > t->spec.placement.spares_per_rack ? rack->spares : t->spec.placement.spares_per_rack;
		bool others = false;
		for (size_t i = 0; i < s->n_reservations; i++)
			if (s->reservations[i].to_unix_ms > now_ms && in_set(s->reservations[i].racks, rack->name))
				*(s->reservations[i].tenant == 0 ? &b->kept[r] : &others) = true;
		bool barred = rk_rack_leaks(s, r) >= 2 || others;
		b->room[r] = barred || beside_c1(t, r) ? 0 : capped(s, r, free_in(s, r, spares));
		b->fabric[r] = s->hcas[s->trays[rack->first_tray].first_hca].fabric;
		b->pool += others || b->kept[r] || rk_rack_leaks(s, r) >= 2 ? 0 : capped(s, r, free_in(s, r, rack->spares));
	}
	for (size_t k = 0; k < t->n_keep; k++)
		b->held[s->trays[t->keep[k]].rack] = true;
	b->pool = promised ? (b->pool > promised ? b->pool - promised : 0) : 1000;
}

/* The placement says what it did; it must keep every rule. */
static void check_valid(const struct trial *t, const struct brute *b, const struct rk_placement *p)
{
	int count = t->spec.count - (int)t->n_keep, segment = p->segment < count ? p->segment : count, used[RACKS_MAX] = { 0 }, rests = 0, shared = 0;
	bool seen[64] = { false };

	assert_int_equal(p->n_trays, count);
	for (size_t i = 0; i < p->n_trays; i++) {
		enum rk_tray_state state = rk_tray_state(t->site, p->trays[i]);
		assert_true(state == RK_TRAY_FREE || state == RK_TRAY_SPARE);
		assert_false(seen[p->trays[i]]);
		seen[p->trays[i]] = true;
		used[t->site->trays[p->trays[i]].rack]++;
	}
	for (int r = 0; r < b->n; r++) {
		assert_true(used[r] <= b->room[r]);
		assert_int_equal(used[r] > 0, strcmp(p->reasons[r].verdict, "chosen") == 0);
		shared += b->kept[r] ? 0 : used[r];
		if (used[r] % segment) {
			assert_int_equal(used[r] % segment, count % segment);
			rests++;
		}
	}
	assert_true(shared <= b->pool);
	assert_int_equal(rests, count % segment != 0);
	assert_true(!b->max_racks || racks_in_use(b, used) <= b->max_racks);
}

static void explain_failure(const struct trial *t, const struct brute *b, bool expected, int n)
{
	print_message("case %d: %d VMs (%zu kept) in segments of %d, maxRacks %d, pool %d\n", n, t->spec.count, t->n_keep, t->spec.placement.segment, b->max_racks,
		      b->pool);
	for (int r = 0; r < b->n; r++)
		print_message("  rack %d: room %d fabric %d held %d kept %d\n", r, b->room[r], b->fabric[r], b->held[r], b->kept[r]);
	fail_msg("brute force says %s", expected ? "feasible" : "infeasible");
}

static void feasible_exactly_when_brute_force_finds_a_placement(void **state)
{
	int feasible = 0, compared = 0;

	(void)state;
	seed = 20261130;
	for (int n = 0; n < CASES; n++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct trial t;
		struct rk_placement p, again;
		struct brute b;
		make_trial(&t);
		to_brute(&t, &b);
		int count = t.spec.count - (int)t.n_keep, fabric = t.n_keep ? t.site->hcas[t.site->trays[t.keep[0]].first_hca].fabric : RK_NONE;
		place(t.site, &t.spec, t.keep, t.n_keep, arena, &p);
		bool expected = brute_any(&b, fabric, count, t.spec.placement.segment < count ? t.spec.placement.segment : count);
		if (p.feasible != expected)
			explain_failure(&t, &b, expected, n);
		if (p.feasible)
			check_valid(&t, &b, &p);
		else
			assert_non_null(p.suggestion);
		place(t.site, &t.spec, t.keep, t.n_keep, arena, &again);
		assert_int_equal(again.n_trays, p.n_trays);
		assert_memory_equal(again.trays ? again.trays : (int[]){ 0 }, p.trays ? p.trays : (int[]){ 0 }, p.n_trays * sizeof(int));
		for (size_t r = 0; r < p.n_reasons; r++)
			assert_string_equal(again.reasons[r].why, p.reasons[r].why);
		feasible += p.feasible;
		compared++;
		rk_site_free(t.site);
	}
	print_message("%d random sites compared with brute force, %d feasible\n", compared, feasible);
	assert_true(feasible > CASES / 5 && feasible < CASES * 4 / 5);
}

static void more_capacity_never_makes_a_placement_impossible(void **state)
{
	(void)state;
	seed = 7;
	for (int n = 0; n < 1000; n++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct trial t;
		struct rk_placement before, after;
		make_trial(&t);
		place(t.site, &t.spec, t.keep, t.n_keep, arena, &before);
		struct rk_tray *tray = &t.site->trays[dice((int)t.site->n_trays)];
		tray->cordon = tray->faulty = tray->leak = NULL;
		t.site->racks[dice((int)t.site->n_racks)].cordon = NULL;
		t.site->racks[dice((int)t.site->n_racks)].power_kw += 7.5;
		place(t.site, &t.spec, t.keep, t.n_keep, arena, &after);
		assert_true(after.feasible || !before.feasible);
		rk_site_free(t.site);
	}
}

/* The site with the placement carried out. */
static void carry_out(struct trial *t, const struct rk_placement *p)
{
	struct rk_site *s = t->site;
	struct rk_cluster *clusters = rk_arena_array(s->arena, s->n_clusters + 1, sizeof(*clusters));

	memcpy(clusters, s->clusters, s->n_clusters * sizeof(*clusters));
	clusters[s->n_clusters] = (struct rk_cluster){ .name = "new", .size = t->spec.size, .ib = RK_NONE, .spares_per_rack = t->spec.placement.spares_per_rack };
	s->clusters = clusters;
	for (size_t i = 0; i < p->n_trays; i++)
		occupy(s, p->trays[i], (int)s->n_clusters);
	s->n_clusters++;
}

static void what_is_said_to_be_left_is_what_is_left_afterwards(void **state)
{
	int placed = 0, spared = 0;

	(void)state;
	seed = 5;
	for (int n = 0; n < 1500; n++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct rk_capacity after;
		struct rk_placement p;
		struct trial t;
		make_trial(&t);
		t.spec.placement.spares_per_rack = dice(3);
		place(t.site, &t.spec, t.keep, t.n_keep, arena, &p);
		if (p.feasible)
			carry_out(&t, &p);
		rk_capacity(t.site, &after);
		for (int k = 0; k < RK_SEGMENT_KINDS; k++)
			assert_int_equal(p.segments_after[k], after.segments[k]);
		assert_true(p.fragmentation_after == after.fragmentation);
		placed += p.feasible;
		spared += p.feasible && t.spec.placement.spares_per_rack && after.free;
		rk_site_free(t.site);
	}
	assert_true(placed > 300 && spared > 100);
}

/* ---- suggestions ---------------------------------------------------------------------------------------------------------------------- */

static void uncordon(struct rk_site *s, const char *objects, struct rk_arena *arena)
{
	struct rk_nodeset set = { 0 };

	assert_int_equal(rk_nodeset_parse(objects, NULL, NULL, arena, &set, NULL), 0);
	for (size_t i = 0; i < set.n; i++) {
		int tray = rk_find_tray(s, set.names[i]), rack = rk_find_rack(s, set.names[i]);
		assert_true(tray >= 0 || rack >= 0);
		*(tray >= 0 ? &s->trays[tray].cordon : &s->racks[rack].cordon) = NULL;
	}
}

static void cancel(struct rk_site *s, const char *ids)
{
	for (char *at = (char *)ids; *at; at += *at == ',')
		s->reservations[strtol(at, &at, 10) - 1].to_unix_ms = 0;
}

/* Fewer VMs than a segment has are a segment of their own. */
static void set_count(struct trial *t, int count)
{
	t->spec.count = count;
	t->spec.placement.segment = t->segment < count ? t->segment : count;
}

/* Does to the trial what a suggestion says. */
static void follow(struct trial *t, const struct rk_place_change *c, struct rk_arena *arena)
{
	struct rk_site *s = t->site;

	if (strcmp(c->kind, "count") == 0)
		set_count(t, c->value);
	else if (strcmp(c->kind, "segment") == 0)
		t->spec.placement.segment = c->value;
	else if (strcmp(c->kind, "max_racks") == 0)
		t->spec.placement.max_racks = c->value;
	else if (strcmp(c->kind, "racks") == 0)
		t->spec.placement.racks = NULL;
	else if (strcmp(c->kind, "uncordon") == 0)
		uncordon(s, c->objects, arena);
	else if (strcmp(c->kind, "reservation") == 0)
		cancel(s, c->objects);
	else if (strcmp(c->kind, "anti_affinity") == 0) {
		t->spec.placement.n_apart = 0;
		s->clusters[1].spec = NULL;
	} else if (strcmp(c->kind, "spares") == 0) {
		t->spec.placement.spares_per_rack = 0;
		for (size_t r = 0; r < s->n_racks; r++)
			s->racks[r].spares = 0;
	} else {
		fail_msg("a suggestion of kind %s", c->kind);
	}
}

/* One more VM, or one rack less, than was said to be possible. */
static bool ask_for_more(struct trial *t, const struct rk_place_change *c)
{
	bool count = strcmp(c->kind, "count") == 0, racks = strcmp(c->kind, "max_racks") == 0;

	if (count)
		set_count(t, t->spec.count + 1);
	t->spec.placement.max_racks -= racks;
	return count || racks;
}

enum { KINDS_TOLD = 8 };

/* Trial n, once for every change that is suggested: that one alone does make it possible, and a number that is named is the best one. */
static void follow_each(uint32_t from, bool narrow, int told[KINDS_TOLD])
{
	static const char *const kinds[KINDS_TOLD] = { "count", "segment", "max_racks", "racks", "spares", "anti_affinity", "uncordon", "reservation" };

	for (size_t i = 0, n = 1; i < n; i++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct rk_placement p, q;
		struct trial t;
		seed = from;
		make_trial(&t);
		if (narrow)
			t.spec.placement.racks = "r01";
		place(t.site, &t.spec, t.keep, t.n_keep, arena, &p);
		n = p.n_changes;
		if (i < n) {
			follow(&t, &p.changes[i], arena);
			place(t.site, &t.spec, t.keep, t.n_keep, arena, &q);
			if (!q.feasible)
				fail_msg("case %u: \"%s\" does not do", from, p.changes[i].text);
			if (ask_for_more(&t, &p.changes[i])) {
				place(t.site, &t.spec, t.keep, t.n_keep, arena, &q);
				assert_false(q.feasible);
			}
			for (int k = 0; k < KINDS_TOLD; k++)
				told[k] += strcmp(kinds[k], p.changes[i].kind) == 0;
		}
		rk_site_free(t.site);
	}
}

static void each_suggestion_alone_makes_it_possible(void **state)
{
	int told[KINDS_TOLD] = { 0 };

	(void)state;
	for (uint32_t n = 1; n <= 1500; n++)
		follow_each(n * 7919, n % 5 == 0, told);
	for (int k = 0; k < KINDS_TOLD; k++)
		assert_true(told[k] > 5); /* every kind was met */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(feasible_exactly_when_brute_force_finds_a_placement),
		cmocka_unit_test(more_capacity_never_makes_a_placement_impossible),
		cmocka_unit_test(what_is_said_to_be_left_is_what_is_left_afterwards),
		cmocka_unit_test(each_suggestion_alone_makes_it_possible),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
