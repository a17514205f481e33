#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/contract/fabric_plan.h"

/* ---- a fault each ---------------------------------------------------------------------------------------------------------- */

/* Faults. Each row plants one into 8 racks, and says what must be found; nothing else may be, unless `also` says how many more. */
static void lose_hca(struct plan *p)
{
	cable_of(p, 3, 7, 2)->cut = true;
	p->nodes[cable_of(p, 3, 7, 2)->a].silent = true;
}

static void cross_rails_of_a_tray(struct plan *p)
{
	swap(cable_of(p, 1, 2, 0), cable_of(p, 1, 2, 1));
}

static void cross_trays_over_groups(struct plan *p)
{
	swap(cable_of(p, 2, 5, 3), cable_of(p, 7, 9, 3));
}

static void cross_trays_on_a_leaf(struct plan *p)
{
	swap(cable_of(p, 2, 5, 3), cable_of(p, 2, 6, 3));
}

static void move_to_free_port(struct plan *p)
{
	cable_of(p, 8, 18, 0)->b_port = 144;
	uplink(p, 4, 3, 17)->cut = true; /* made room */
	uplink(p, 4, 3, 17)->a_port = 143;
}

static void move_to_other_group(struct plan *p)
{
	struct cable *c = cable_of(p, 1, 1, 0);

	lose_hca(p); /* rack 3, rail 2: makes the port free */
	c->b = leaf_of(p, 8, 0);
	c->b_port = 144;
	uplink(p, c->b, 3, 17)->cut = true;
}

static void plug_into_spine(struct plan *p)
{
	struct cable *up = uplink(p, 0, 2, 0), *c = cable_of(p, 1, 1, 0);

	up->cut = true;
	c->b = up->b;
	c->b_port = up->b_port;
}

static void lose_uplink(struct plan *p)
{
	uplink(p, 5, 1, 3)->cut = true;
}

static void uplink_to_wrong_spine(struct plan *p)
{
	swap(uplink(p, 0, 1, 3), uplink(p, 1, 2, 3));
}

static void leaf_to_leaf(struct plan *p)
{
	struct cable *a = uplink(p, 0, 1, 3), *b = uplink(p, 1, 1, 3);

	b->cut = true;
	a->b = b->a;
	a->b_port = b->a_port;
}

static void lose_lanes(struct plan *p)
{
	cable_of(p, 4, 4, 0)->rate = "1xXDR";
}

static void lose_lanes_of_an_uplink(struct plan *p)
{
	uplink(p, 3, 2, 0)->rate = "2xXDR";
}

static void slow_hca(struct plan *p)
{
	cable_of(p, 4, 4, 1)->rate = "4xNDR";
}

static void slow_uplink(struct plan *p)
{
	uplink(p, 0, 0, 0)->rate = "4xHDR";
}

static void unreadable_rate(struct plan *p)
{
	cable_of(p, 4, 4, 2)->rate = "4x???";
}

static void stranger(struct plan *p)
{
	struct cable *up = uplink(p, 0, 0, 0);
	int n = add_node(p, HCA, 0x1070fd0300176374u, 0x1070fd0300176374u, "backup01 mlx5_0");

	up->cut = true;
	add_cable(p, n, 1, up->a, up->a_port);
}

static void doubled_guid(struct plan *p)
{
	p->nodes[cable_of(p, 5, 1, 0)->a].port_guid = port_guid(5, 2, 0);
}

static void silent_hca(struct plan *p)
{
	p->nodes[cable_of(p, 6, 6, 1)->a].silent = true;
}

static void silent_spine(struct plan *p)
{
	p->nodes[p->leaves + 1].silent = true;
}

static const struct fault {
	const char *what;
	void (*plant)(struct plan *p);
	size_t n;
	struct {
		const char *kind, *object, *message;
	} expect[4];
} faults[] = {
	{ "missing HCA", lose_hca, 1, { { "missing-hca", "r03-t07 rail 2", "0x5000e60300030721 is not in the fabric" } } },
	{ "rails of a tray crossed", cross_rails_of_a_tray, 1, { { "crossed", "r01-t02 rail 0, r01-t02 rail 1", "\"leaf-g00-rail1\" port 2" } } },
	{ "trays of two leaf groups crossed", cross_trays_over_groups, 1,
	  { { "crossed", "r02-t05 rail 3, r07-t09 rail 3", "\"leaf-g01-rail3\" port 45" } } },
	{ "trays on one leaf crossed", cross_trays_on_a_leaf, 1, { { "crossed", "r02-t05 rail 3, r02-t06 rail 3", "port 24" } } },
	{ "HCA on another port", move_to_free_port, 3,
	  { { "port", "r08-t18 rail 0", "on \"leaf-g01-rail0\" port 144, on the tray's other rails the port is 72" },
	    { "uplinks", "leaf-g01-rail0 to spine03", "17 links, most leaf-spine pairs have 18" },
	    { "oversubscription", "leaf-g01-rail0", "72 downlinks, but 71 uplinks" } } },
	{ "HCA in another leaf group", move_to_other_group, 4,
	  { { "leaf", "r01-t01 rail 0", "on \"leaf-g01-rail0\" port 144, the rack's other HCAs of this rail on \"leaf-g00-rail0\"" },
	    { "oversubscription", "leaf-g01-rail0", "73 downlinks, but 71 uplinks" },
	    { "uplinks", "leaf-g01-rail0 to spine03", "17 links" } } },
	{ "HCA on a spine", plug_into_spine, 2,
	  { { "level", "r01-t01 rail 0", "on \"spine02\" port 1, which is no leaf switch" }, { "uplinks", "leaf-g00-rail0 to spine02", "17 links" } } },
	{ "lost uplink", lose_uplink, 2,
	  { { "uplinks", "leaf-g01-rail1 to spine01", "17 links" }, { "oversubscription", "leaf-g01-rail1", "72 downlinks, but 71 uplinks" } } },
	{ "uplinks crossed between spines", uplink_to_wrong_spine, 4,
	  { { "uplinks", "leaf-g00-rail0 to spine01", "17 links" },
	    { "uplinks", "leaf-g00-rail0 to spine02", "19 links" },
	    { "uplinks", "leaf-g00-rail1 to spine01", "19 links" },
	    { "uplinks", "leaf-g00-rail1 to spine02", "17 links" } } },
	{ "cable from leaf to leaf", leaf_to_leaf, 5,
	  { { "level", "leaf-g00-rail0 port 94", "goes to \"leaf-g00-rail1\" port 94" }, { "oversubscription", "leaf-g00-rail1", "71 uplinks" } } },
	{ "one lane", lose_lanes, 1, { { "width", "r04-t04 rail 0", "1 lane instead of 4" } } },
	{ "uplink with two lanes", lose_lanes_of_an_uplink, 1, { { "width", "leaf-g00-rail3 port 109", "2 lanes instead of 4" } } },
	{ "slow HCA", slow_hca, 1, { { "speed", "r04-t04 rail 1", "NDR, 400 Gb/s instead of 800 Gb/s" } } },
	{ "slow uplink", slow_uplink, 1, { { "speed", "leaf-g00-rail0 port 73", "HDR, 200 Gb/s instead of 800 Gb/s" } } },
	{ "rate not readable", unreadable_rate, 1, { { "speed", "r04-t04 rail 2", "not readable" } } },
	{ "unknown HCA", stranger, 3, { { "extra", "backup01 mlx5_0", "HCA 0x1070fd0300176374 on \"leaf-g00-rail0\" port 73 is not in the site" } } },
	{ "port GUID twice", doubled_guid, 2,
	  { { "duplicate", "0x5000e60300050201", "one on \"leaf-g01-rail0\" port 1, one on \"leaf-g01-rail0\" port 2" },
	    { "missing-hca", "r05-t01 rail 0", "0x5000e60300050101" } } },
	{ "HCA that did not answer", silent_hca, 1, { { "partial", "H-5000e60300060610", "not described" } } },
	{ "spine that did not answer", silent_spine, 1, { { "partial", "S-5000e604000b0001", "not described" } } },
};

static void every_planted_fault_is_named_and_nothing_else(void **state)
{
	struct rk_site *site RK_CLEANUP_SITE = make_site(8);

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(faults); i++) {
		struct plan *p CLEANUP_PLAN = make_plan(8, true);
		faults[i].plant(p);
		struct result r = check_plan(p, site);
		for (size_t e = 0; e < RK_ARRAY_SIZE(faults[i].expect) && faults[i].expect[e].kind; e++)
			assert_finding(&r, faults[i].expect[e].kind, faults[i].expect[e].object, faults[i].expect[e].message);
		if (r.n != faults[i].n) {
			show(&r);
			fail_msg("%s: %zu findings instead of %zu", faults[i].what, r.n, faults[i].n);
		}
		rk_arena_free(r.arena);
	}
}

/* Without rail numbers in the descriptions the majority tells the rail of a leaf. */
static void faults_are_found_without_named_leaves(void **state)
{
	struct rk_site *site RK_CLEANUP_SITE = make_site(8);

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(faults); i++) {
		struct plan *p CLEANUP_PLAN = make_plan(8, false);
		faults[i].plant(p);
		struct result r = check_plan(p, site);
		if (r.n != faults[i].n) {
			show(&r);
			fail_msg("%s: %zu findings instead of %zu", faults[i].what, r.n, faults[i].n);
		}
		assert_true(r.n > 0);
		rk_arena_free(r.arena);
	}
}

/* ---- twelve faults in fabrics of every size ---------------------------------------------------------------------------------- */

static int links_per_pair(const struct plan *p)
{
	return p->racks <= 4 ? 18 * p->racks / 2 : 72 / p->spines;
}

static void any_missing(struct plan *p)
{
	cable_of(p, p->racks, 7, 2)->cut = true;
	p->nodes[cable_of(p, p->racks, 7, 2)->a].silent = true;
}

static void any_crossed_rails(struct plan *p)
{
	swap(cable_of(p, p->racks, 2, 0), cable_of(p, p->racks, 2, 1));
}

static void any_crossed_trays(struct plan *p)
{
	swap(cable_of(p, p->racks, 5, 3), cable_of(p, p->racks, 6, 3));
}

static void any_on_spine(struct plan *p)
{
	struct cable *c = cable_of(p, 1, 1, 0), *up = uplink(p, 0, p->spines - 1, 0);

	up->cut = true;
	c->b = up->b;
	c->b_port = up->b_port;
}

static void any_lost_uplink(struct plan *p)
{
	uplink(p, p->leaves - 1, p->spines - 1, 0)->cut = true;
}

static void any_crossed_uplinks(struct plan *p)
{
	swap(uplink(p, 0, 0, 0), uplink(p, 1, 1, 0));
}

static void any_leaf_to_leaf(struct plan *p)
{
	struct cable *a = uplink(p, 0, 1, 0), *b = uplink(p, 1, 1, 0);

	b->cut = true;
	a->b = b->a;
	a->b_port = b->a_port;
}

static void any_lanes(struct plan *p)
{
	cable_of(p, p->racks, 4, 0)->rate = "1xXDR";
}

static void any_slow(struct plan *p)
{
	cable_of(p, p->racks, 4, 1)->rate = "4xNDR";
}

static void any_slow_uplink(struct plan *p)
{
	uplink(p, 1, 1, links_per_pair(p) - 1)->rate = "4xHDR";
}

static void any_stranger(struct plan *p)
{
	struct cable *up = uplink(p, 0, 0, 0);
	int n = add_node(p, HCA, 0x1070fd0300176374u, 0x1070fd0300176374u, "backup01 mlx5_0");

	up->cut = true;
	add_cable(p, n, 1, up->a, up->a_port);
}

static void any_doubled(struct plan *p)
{
	p->nodes[cable_of(p, p->racks, 1, 0)->a].port_guid = port_guid(p->racks, 2, 0);
}

static const struct {
	void (*plant)(struct plan *p);
	const char *kind, *object; /* how the finding is called; "RR" stands for the last rack */
	const char *changed;       /* kind against the accepted fabric */
} twelve[] = {
	{ any_missing, "missing-hca", "rRR-t07 rail 2", "lost" },
	{ any_crossed_rails, "crossed", "rRR-t02 rail 0, rRR-t02 rail 1", "crossed" },
	{ any_crossed_trays, "crossed", "rRR-t05 rail 3, rRR-t06 rail 3", "crossed" },
	{ any_on_spine, "level", "r01-t01 rail 0", "moved" },
	{ any_lost_uplink, "uplinks", NULL, "lost" },
	{ any_crossed_uplinks, "uplinks", "leaf-g00-rail0 to spine00", "crossed" },
	{ any_leaf_to_leaf, "level", NULL, "moved" },
	{ any_lanes, "width", "rRR-t04 rail 0", "slower" },
	{ any_slow, "speed", "rRR-t04 rail 1", "slower" },
	{ any_slow_uplink, "speed", NULL, "slower" },
	{ any_stranger, "extra", "backup01 mlx5_0", "new" },
	{ any_doubled, "duplicate", NULL, NULL },
};

static bool finds_kind(const struct rk_ib_finding *items, size_t n, const char *kind, const char *object)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(items[i].kind, kind) == 0 && (!object || strcmp(items[i].object, object) == 0))
			return true;
	for (size_t i = 0; i < n && i < 10; i++)
		print_message("%s: %s: %s\n", items[i].kind, items[i].object, items[i].message);
	return false;
}

static struct rk_topology *parsed_plan(const struct plan *p)
{
	struct rk_topology *t = NULL;
	size_t len;
	char *text RK_CLEANUP_FREE = print_plan(p, &len);

	assert_int_equal(rk_topology_parse("fabric.txt", text, len, &t, NULL), 0);
	return t;
}

static void one_fault(int racks, size_t i, const struct rk_site *site, const struct rk_topology *accepted)
{
	struct plan *p CLEANUP_PLAN = make_plan(racks, true);
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_ib_finding *found;
	char object[80] = "", rack[8];
	size_t n;

	twelve[i].plant(p);
	struct rk_topology *t RK_CLEANUP(rk_cleanup_topology) = parsed_plan(p);
	rk_topology_check(t, site, 0, arena, &found, &n);
	snprintf(rack, sizeof(rack), "%02d", racks);
	for (const char *at = twelve[i].object ? twelve[i].object : ""; *at; at++) {
		bool mark = at[0] == 'R' && at[1] == 'R';
		snprintf(object + strlen(object), sizeof(object) - strlen(object), mark ? "%.2s" : "%.1s", mark ? rack : at);
		at += mark;
	}
	if (!finds_kind(found, n, twelve[i].kind, twelve[i].object ? object : NULL))
		fail_msg("%d racks: fault %zu: no finding %s on %s", racks, i, twelve[i].kind, object);
	if (!twelve[i].changed)
		return;
	rk_topology_compare(accepted, t, arena, &found, &n);
	if (!finds_kind(found, n, twelve[i].changed, NULL))
		fail_msg("%d racks: fault %zu: no finding %s since accepted", racks, i, twelve[i].changed);
	assert_true(n <= 3); /* the fault, and nothing about the rest */
}

static void twelve_faults_are_found_in_fabrics_of_every_size(void **state)
{
	static const int sizes[] = { 1, 8, 64 };

	(void)state;
	for (size_t s = 0; s < RK_ARRAY_SIZE(sizes); s++) {
		struct plan *p CLEANUP_PLAN = make_plan(sizes[s], true);
		struct rk_site *site RK_CLEANUP_SITE = make_site(sizes[s]);
		struct rk_topology *clean RK_CLEANUP(rk_cleanup_topology) = parsed_plan(p);
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct rk_ib_finding *found;
		size_t n;
		rk_topology_check(clean, site, 0, arena, &found, &n);
		assert_int_equal(n, 0);
		rk_topology_compare(clean, clean, arena, &found, &n);
		assert_int_equal(n, 0);
		for (size_t i = 0; i < RK_ARRAY_SIZE(twelve); i++)
			one_fault(sizes[s], i, site, clean);
	}
}

/* A switch that went away is one fact, not 144; what came is told, too. */
static void a_lost_switch_is_one_change(void **state)
{
	struct plan *was CLEANUP_PLAN = make_plan(8, true), *is CLEANUP_PLAN = make_plan(8, true);
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_ib_finding *found;
	size_t n;

	(void)state;
	for (int i = 0; i < is->n_cables; i++)
		is->cables[i].cut |= is->cables[i].b == is->leaves + 3;
	is->nodes[is->leaves + 3].silent = true;
	struct rk_topology *a RK_CLEANUP(rk_cleanup_topology) = parsed_plan(was), *b RK_CLEANUP(rk_cleanup_topology) = parsed_plan(is);
	rk_topology_compare(a, b, arena, &found, &n);
	assert_int_equal(n, 1);
	assert_string_equal(found[0].kind, "lost");
	assert_string_equal(found[0].object, "spine03");
	rk_topology_compare(b, a, arena, &found, &n);
	assert_int_equal(n, 1);
	assert_string_equal(found[0].kind, "new");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_planted_fault_is_named_and_nothing_else),
		cmocka_unit_test(faults_are_found_without_named_leaves),
		cmocka_unit_test(twelve_faults_are_found_in_fabrics_of_every_size),
		cmocka_unit_test(a_lost_switch_is_one_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
