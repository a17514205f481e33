#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "tests/contract/fabric_plan.h"

static void a_fabric_by_the_plan_is_clean(void **state)
{
	static const int sizes[] = { 1, 2, 3, 4, 5, 8, 16 };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(sizes) * 2; i++) {
		struct plan *p CLEANUP_PLAN = make_plan(sizes[i / 2], i % 2);
		struct rk_site *site RK_CLEANUP_SITE = make_site(sizes[i / 2]);
		struct result r = check_plan(p, site);
		assert_findings(&r, 0);
		rk_arena_free(r.arena);
	}
}

static void sixty_four_racks_have_the_published_numbers(void **state)
{
	struct plan *p CLEANUP_PLAN = make_plan(64, true);
	struct rk_site *site RK_CLEANUP_SITE = make_site(64);
	struct rk_topology *t RK_CLEANUP(rk_cleanup_topology) = NULL;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_ib_finding *findings;
	size_t len, n, levels[4] = { 0 };
	char *text RK_CLEANUP_FREE = print_plan(p, &len);

	(void)state;
	assert_int_equal(rk_topology_parse("fabric.txt", text, len, &t, NULL), 0);
	assert_int_equal(t->n_nodes, 4708);
	assert_int_equal(t->n_links, 9216 * 2);
	for (size_t i = 0; i < t->n_nodes; i++)
		levels[t->nodes[i].level]++;
	assert_int_equal(levels[0], 4608);
	assert_int_equal(levels[1], 64);
	assert_int_equal(levels[2], 36);
	rk_topology_check(t, site, 0, arena, &findings, &n);
	assert_int_equal(n, 0);
}

static void placing_names_leaf_and_port_by_port_guid(void **state)
{
	struct plan *p CLEANUP_PLAN = make_plan(8, true);
	struct rk_site *site RK_CLEANUP_SITE = make_site(8);
	struct rk_topology *t RK_CLEANUP(rk_cleanup_topology) = NULL;
	size_t len;

	(void)state;
	cable_of(p, 1, 3, 1)->cut = true;
	p->nodes[cable_of(p, 1, 3, 1)->a].silent = true;
	char *text RK_CLEANUP_FREE = print_plan(p, &len);
	assert_int_equal(rk_topology_parse("fabric.txt", text, len, &t, NULL), 0);
	site->hcas[2 * 4 + 1].leaf = "stale";
	rk_topology_place(t, site, 0);
	assert_string_equal(site->hcas[0].leaf, "leaf-g00-rail0");
	assert_int_equal(site->hcas[0].leaf_port, 1);
	const struct rk_hca *last = &site->hcas[site->n_hcas - 1];
	assert_string_equal(last->leaf, "leaf-g01-rail3");
	assert_int_equal(last->leaf_port, 72);
	assert_null(site->hcas[2 * 4 + 1].leaf);
}

static void a_whole_rack_on_crossed_rails_is_found_by_the_leaf_names(void **state)
{
	struct plan *p CLEANUP_PLAN = make_plan(1, true);
	struct rk_site *site RK_CLEANUP_SITE = make_site(1);

	(void)state;
	for (int t = 1; t <= 18; t++)
		swap(cable_of(p, 1, t, 0), cable_of(p, 1, t, 1));
	struct result r = check_plan(p, site);
	assert_findings(&r, 1);
	assert_finding(&r, "rail", "r01-t[01-18] rail [0-1]", "36: on leaves of another rail");
	rk_arena_free(r.arena);
}

static void a_lost_spine_makes_the_leaves_oversubscribed(void **state)
{
	struct plan *p CLEANUP_PLAN = make_plan(1, true);
	struct rk_site *site RK_CLEANUP_SITE = make_site(1);

	(void)state;
	p->nodes[p->leaves + 1].silent = true;
	for (int l = 0; l < 4; l++)
		for (int k = 0; k < 9; k++)
			uplink(p, l, 1, k)->cut = true;
	struct result r = check_plan(p, site);
	assert_findings(&r, 4);
	assert_finding(&r, "oversubscription", "leaf-g00-rail2", "18 downlinks, but 9 uplinks");
	rk_arena_free(r.arena);
	site->fabrics[0].oversubscription = 2.0;
	r = check_plan(p, site);
	assert_findings(&r, 0);
	rk_arena_free(r.arena);
}

static void many_findings_of_one_sort_fold_into_one(void **state)
{
	struct plan *p CLEANUP_PLAN = make_plan(2, true);
	struct rk_site *site RK_CLEANUP_SITE = make_site(2);

	(void)state;
	for (int i = 0; i < p->n_cables; i++)
		p->cables[i].rate = "4xHDR";
	struct result r = check_plan(p, site);
	assert_findings(&r, 1);
	assert_string_equal(r.items[0].kind, "speed");
	assert_string_equal(r.items[0].message, "288: HDR instead of 800 Gb/s");
	assert_non_null(strstr(r.items[0].object, "r[01-02]-t[01-18] rail [0-3]"));
	rk_arena_free(r.arena);
	site->fabrics[0].rate_gbps = 200;
	r = check_plan(p, site);
	assert_findings(&r, 0);
	rk_arena_free(r.arena);
}

static void a_site_without_guids_is_unknown_never_clean(void **state)
{
	struct plan *p CLEANUP_PLAN = make_plan(1, true);
	struct rk_site *site RK_CLEANUP_SITE = make_site(1);

	(void)state;
	for (size_t i = 0; i < site->n_hcas; i++)
		site->hcas[i].port_guid = 0;
	struct result r = check_plan(p, site);
	assert_findings(&r, 1);
	assert_finding(&r, "unknown", "r01-t[01-18] rail [0-3]", "cannot be looked for");
	rk_arena_free(r.arena);
}

static void a_fabric_without_hcas_of_the_site_is_unknown(void **state)
{
	struct plan *p CLEANUP_PLAN = make_plan(1, true);
	struct rk_site *site RK_CLEANUP_SITE = make_site(1);

	(void)state;
	site->n_hcas = 0;
	for (size_t i = 0; i < site->n_trays; i++)
		site->trays[i].n_hcas = 0;
	struct result r = check_plan(p, site);
	assert_findings(&r, 1);
	assert_finding(&r, "unknown", "fabric", "how it should be wired is not known");
	rk_arena_free(r.arena);
}

static void aggregation_nodes_of_the_switches_are_no_strangers(void **state)
{
	struct plan *p CLEANUP_PLAN = make_plan(1, true);
	struct rk_site *site RK_CLEANUP_SITE = make_site(1);

	(void)state;
	for (int s = 0; s < 6; s++) {
		int n = add_node(p, OTHER, 0x2c9000000000u | (unsigned)s, 0x2c9000000000u | (unsigned)s, "Mellanox Technologies Aggregation Node");
		add_cable(p, n, 1, s, 144)->rate = "4xHDR";
	}
	struct result r = check_plan(p, site);
	assert_findings(&r, 0);
	rk_arena_free(r.arena);
}

static void one_switch_for_all_rails_is_no_fault(void **state)
{
	struct plan *p CLEANUP_PLAN = make_plan(1, false);
	struct rk_site *site RK_CLEANUP_SITE = make_site(1);

	(void)state;
	for (int i = 0; i < p->n_cables; i++)
		p->cables[i].cut = i >= 72;
	for (int i = 0; i < 72; i++) {
		p->cables[i].b = 0;
		p->cables[i].b_port = i + 1;
	}
	for (int i = 1; i < p->leaves + p->spines; i++)
		p->nodes[i].silent = true;
	struct result r = check_plan(p, site);
	assert_findings(&r, 0);
	rk_arena_free(r.arena);
}

static void the_plan_of_a_site_is_clean_for_the_check(void **state)
{
	static const char *const racks[] = { "{\"name\":\"r1\"}", "{\"name\":\"r[01-08]\"}", "{\"name\":\"r[01-64]\"}", "{\"name\":\"r[001-150]\"}",
					     "{\"name\":\"r[1-40]\",\"profile\":\"hgx-generic\"}",
					     "{\"name\":\"r[1-3]\",\"trays\":{\"absent\":[1,9]}},{\"name\":\"s1\",\"profile\":\"gb200-nvl72\"}" };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(racks); i++) {
		struct rk_site *site RK_CLEANUP_SITE = NULL;
		struct rk_str json RK_CLEANUP_STR = RK_STR_INIT, text RK_CLEANUP_STR = RK_STR_INIT;
		rk_str_addf(&json,
			    "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\",\"infiniband\":[{\"name\":\"ib0\",\"driver\":\"sim\"}],"
			    "\"racks\":[%s]}",
			    racks[i]);
		assert_int_equal(rk_site_parse("s", json.text, json.len, &site, NULL), 0);
		rk_site_invent(site);
		rk_topology_plan(site, 0, NULL, &text);
		struct result r = check_text(text.text, text.len, site);
		assert_findings(&r, 0);
		rk_arena_free(r.arena);
	}
}

/* Planes that no cable joins owe each other no links; within a plane a pair without any is found. */
static void a_pair_that_lost_all_its_links_is_found(void **state)
{
	struct plan *p CLEANUP_PLAN = make_plan(64, true);
	struct rk_site *site RK_CLEANUP_SITE = make_site(64);

	(void)state;
	uplink(p, 7, 5, 0)->cut = uplink(p, 7, 5, 1)->cut = true;
	struct result r = check_plan(p, site);
	assert_findings(&r, 2);
	assert_finding(&r, "uplinks", "leaf-g01-rail3 to spine05", "0 links, most leaf-spine pairs have 2");
	assert_finding(&r, "oversubscription", "leaf-g01-rail3", "72 downlinks, but 70 uplinks");
	rk_arena_free(r.arena);
}

static void bad_text_is_refused_with_its_place(void **state)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
		{ "", "no node in it" },
		{ "# only a comment\n", "no node in it" },
		{ "hello\n", "f:1:1: this line is no part of a topology" },
		{ "CA    78  1 0x5000e60300011231 4x HDR - SW\n", "f:1:1: this line is no part" },
		{ "Ca\t : 0x5000e60300011230 ports 1 devid 0x1023\n", "f:1:5: a number of ports" },
		{ "[1]\t\"S-1\"[1]\n", "f:1:1: a port outside of a node record" },
		{ "Switch\t999 \"S-1\"\n", "f:1:8: a number of ports from 1 to 255" },
		{ "Switch\t4 S-1\n", "f:1:10: a node id in quotes" },
		{ "Switch\t4 \"nothing\"\n", "a node without a GUID" },
		{ "Switch\t4 \"S-1\"\n[5]\t\"S-2\"[1]\n", "f:2:13: a port number above" },
		{ "Switch\t4 \"S-1\"\n[x]\t\"S-2\"[1]\n", "f:2:2: a port number in brackets" },
		{ "Switch\t4 \"S-1\"\n[1]\t\"H-2\"[1](zz)\n", "f:2:13: a port GUID in parentheses" },
		{ "Switch\t4 \"S-1\"\n[1]\t\"S-2\"[1]\n[1]\t\"S-2\"[2]\n", "f:3:1: port 1 of \"S-1\" is listed twice, first on line 2" },
		{ "Switch\t4 \"S-1\"\n[1]\t\"S-2", "f:2:5: a node id in quotes" },
		{ "< [2]\t\"H-1\"[1](11)\n", "f:1:1: this line is no part" },
		{ "ibwarn: [77] _do_madrpc: recv failed: Connection timed out\n", "f:1:1: this line is no part" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		struct rk_topology *t = NULL;
		assert_int_equal(rk_topology_parse("f", rows[i].text, strlen(rows[i].text), &t, &err), RK_INVALID);
		assert_null(t);
		if (!strstr(err.message, rows[i].says))
			fail_msg("\"%s\" instead of \"%s\"", err.message, rows[i].says);
	}
}

static void hostile_bytes_are_bounded_and_escaped(void **state)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_topology *t RK_CLEANUP(rk_cleanup_topology) = NULL;
	char *longline RK_CLEANUP_FREE = rk_xmalloc(10000);
	static const char evil[] = "Switch\t4 \"S-1\"\t\t# \"\x1b[31mred \xff\" enhanced\n", nul[] = "Switch\t4 \"S-1\0\"\n";

	(void)state;
	memset(longline, 'a', 10000);
	assert_int_equal(rk_topology_parse("f", longline, 10000, &t, &err), RK_INVALID);
	assert_non_null(strstr(err.message, "more than 4095 bytes"));
	assert_int_equal(rk_topology_parse("f", nul, sizeof(nul) - 1, &t, &err), RK_INVALID);
	assert_non_null(strstr(err.message, "NUL"));
	assert_int_equal(rk_topology_parse("f", evil, sizeof(evil) - 1, &t, NULL), 0);
	assert_string_equal(t->nodes[0].description, "\\x1b[31mred \\xff");
}

/* Cut anywhere, the text is refused or judged; it never crashes and never counts as clean. */
static void a_cut_file_is_never_clean(void **state)
{
	struct plan *p CLEANUP_PLAN = make_plan(1, true);
	struct rk_site *site RK_CLEANUP_SITE = make_site(1);
	size_t len;
	char *text RK_CLEANUP_FREE = print_plan(p, &len);

	(void)state;
	/* The last line may lose its end without losing anything that is known: the rate's last letters make it unreadable. */
	for (size_t cut = 0; cut + 1 < len; cut += 97) {
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		struct rk_topology *t RK_CLEANUP(rk_cleanup_topology) = NULL;
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct rk_ib_finding *findings;
		size_t n = 1;
		if (!rk_topology_parse("f", text, cut, &t, &err))
			rk_topology_check(t, site, 0, arena, &findings, &n);
		assert_true(n > 0);
	}
}

static void the_simulators_own_output_is_read(void **state)
{
	char *text RK_CLEANUP_FREE = NULL;
	size_t len;

	(void)state;
	if (rk_file_read("../shared/samples/infiniband/ibnetdiscover.txt", RK_TOPOLOGY_MAX, &text, &len, NULL))
		skip();
	struct rk_site *site RK_CLEANUP_SITE = make_site(1);
	site->fabrics[0].rate_gbps = 200;
	struct result r = check_text(text, len, site);
	assert_findings(&r, 0);
	rk_arena_free(r.arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fabric_by_the_plan_is_clean),
		cmocka_unit_test(sixty_four_racks_have_the_published_numbers),
		cmocka_unit_test(placing_names_leaf_and_port_by_port_guid),
		cmocka_unit_test(a_whole_rack_on_crossed_rails_is_found_by_the_leaf_names),
		cmocka_unit_test(a_lost_spine_makes_the_leaves_oversubscribed),
		cmocka_unit_test(many_findings_of_one_sort_fold_into_one),
		cmocka_unit_test(a_site_without_guids_is_unknown_never_clean),
		cmocka_unit_test(a_fabric_without_hcas_of_the_site_is_unknown),
		cmocka_unit_test(aggregation_nodes_of_the_switches_are_no_strangers),
		cmocka_unit_test(one_switch_for_all_rails_is_no_fault),
		cmocka_unit_test(the_plan_of_a_site_is_clean_for_the_check),
		cmocka_unit_test(a_pair_that_lost_all_its_links_is_found),
		cmocka_unit_test(bad_text_is_refused_with_its_place),
		cmocka_unit_test(hostile_bytes_are_bounded_and_escaped),
		cmocka_unit_test(a_cut_file_is_never_clean),
		cmocka_unit_test(the_simulators_own_output_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
