/* Placement: right against brute force on small sites, and explained in the operator's words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "inventory/base/str.h"
#include "inventory/site_file.h"
#include "provision/place.h"

enum { DAY_MS = 24 * 3600 * 1000, CASES = 4000, RACKS_MAX = 5 };
static const int64_t now_ms = 1800000000000;

/* ---- sites ------------------------------------------------------------------------------------------------------------------------- */

/* n racks r01.. of `trays` GB300 trays, tenants a and b, two InfiniBand fabrics of which only the first is used. */
static struct rk_site *make_site(int n, int trays, const char *more)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_site *s = NULL;

	rk_str_addf(&text,
		    "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\",%s\"racks\":[{\"name\":\"r[01-%02d]\",\"powerKw\":142,"
		    "\"trays\":{\"count\":%d}}],\"tenants\":[{\"name\":\"a\"},{\"name\":\"b\",\"quota\":{\"vms\":6,\"pkeys\":1}}],"
		    "\"infiniband\":[{\"name\":\"ib0\",\"driver\":\"sim\"},{\"name\":\"ib1\",\"driver\":\"sim\"}]}",
		    more, n, trays);
	if (rk_site_parse("site", rk_str_text(&text), text.len, &s, &err))
		fail_msg("%s", err.message);
	rk_site_invent(s);
	s->read_unix_ms = now_ms;
	return s;
}

/* Clusters "c0" (tenant a) and "c1" (tenant b) without VMs. */
static void add_clusters(struct rk_site *s)
{
	s->n_clusters = 2;
	s->clusters = rk_arena_array(s->arena, 2, sizeof(*s->clusters));
	s->vms = rk_arena_array(s->arena, s->n_trays, sizeof(*s->vms));
	for (int i = 0; i < 2; i++)
		s->clusters[i] = (struct rk_cluster){ .name = i ? "c1" : "c0", .size = "nd128isr-gb300-v6", .tenant = i, .ib = RK_NONE };
}

static void occupy(struct rk_site *s, int tray, int cluster)
{
	s->vms[s->n_vms] = (struct rk_vm){ .name = "v", .cluster = cluster, .tray = tray };
	s->trays[tray].vm = (int)s->n_vms++;
}

static void reserve(struct rk_site *s, int tenant, const char *racks, int count, int64_t from, int64_t to)
{
	struct rk_reservation *all = rk_arena_array(s->arena, s->n_reservations + 1, sizeof(*all));

	if (s->n_reservations)
		memcpy(all, s->reservations, s->n_reservations * sizeof(*all));
	all[s->n_reservations] = (struct rk_reservation){ .id = (int64_t)s->n_reservations + 1, .tenant = tenant, .racks = racks, .count = count,
							  .from_unix_ms = from, .to_unix_ms = to };
	s->reservations = all;
	s->n_reservations++;
}

static struct rk_spec make_spec(int count, int segment)
{
	return (struct rk_spec){ .name = "new", .tenant = "a", .size = "nd128isr-gb300-v6", .count = count, .placement = { .segment = segment } };
}

static void place(const struct rk_site *s, const struct rk_spec *spec, const int *keep, size_t n_keep, struct rk_arena *arena, struct rk_placement *ret)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;

	if (rk_place(s, spec, rk_size_find(s, spec->size), keep, n_keep, arena, ret, &err))
		fail_msg("%s", err.message);
	assert_int_equal(ret->n_reasons, s->n_racks);
	for (size_t r = 0; r < s->n_racks; r++)
		assert_int_equal(ret->reasons[r].rack, r);
}

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
	int keep[8];
	size_t n_keep;
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

	*t = (struct trial){ .site = make_site(n, 2 + dice(5), "") };
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
	/* Some grow a cluster: it keeps one or two trays of one fabric. */
	for (size_t v = 0; dice(4) == 0 && v < s->n_vms && t->n_keep < 2; v++)
		if (s->clusters[s->vms[v].cluster].tenant == 0 &&
		    (!t->n_keep || s->hcas[s->trays[s->vms[v].tray].first_hca].fabric == s->hcas[s->trays[t->keep[0]].first_hca].fabric))
			t->keep[t->n_keep++] = s->vms[v].tray;
	t->spec.count += (int)t->n_keep;
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
		b->room[r] = barred ? 0 : capped(s, r, free_in(s, r, spares));
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

/* Each change that is suggested does make it possible. */
static void suggested_counts_and_segments_fit(void **state)
{
	int tried = 0;

	(void)state;
	seed = 99;
	for (int n = 0; n < 1000; n++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct trial t;
		struct rk_placement p, q;
		make_trial(&t);
		place(t.site, &t.spec, t.keep, t.n_keep, arena, &p);
		for (size_t i = 0; i < p.n_changes; i++) {
			struct rk_spec spec = t.spec;
			if (strcmp(p.changes[i].kind, "count") == 0) {
				spec.count = p.changes[i].value + (int)t.n_keep;
				place(t.site, &spec, t.keep, t.n_keep, arena, &q);
				assert_true(q.feasible);
				spec.count++;
			} else if (strcmp(p.changes[i].kind, "segment") == 0) {
				spec.placement.segment = p.changes[i].value;
				place(t.site, &spec, t.keep, t.n_keep, arena, &q);
				assert_true(q.feasible);
				continue;
			} else if (strcmp(p.changes[i].kind, "max_racks") == 0) {
				spec.placement.max_racks = p.changes[i].value;
				place(t.site, &spec, t.keep, t.n_keep, arena, &q);
				assert_true(q.feasible);
				spec.placement.max_racks--;
			} else {
				continue;
			}
			place(t.site, &spec, t.keep, t.n_keep, arena, &q);
			assert_false(q.feasible);
			tried++;
		}
		rk_site_free(t.site);
	}
	assert_true(tried > 100);
}

/* ---- reasons ---------------------------------------------------------------------------------------------------------------------- */

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(feasible_exactly_when_brute_force_finds_a_placement),
		cmocka_unit_test(more_capacity_never_makes_a_placement_impossible),
		cmocka_unit_test(suggested_counts_and_segments_fit),
		cmocka_unit_test(each_rule_is_named_as_reason),
		cmocka_unit_test(segments_do_not_leave_their_nvlink_domain),
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
