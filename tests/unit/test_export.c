#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "inventory/base/json.h"
#include "inventory/site_file.h"
#include "provision/export.h"

/* Exports keep order and holes; a Slurm file is judged by meaning. */

static struct rk_site *site_of(const char *racks)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_site *site = NULL;
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;

	rk_str_addf(&text, "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\",\"racks\":[%s]}", racks);
	if (rk_site_parse("t", rk_str_text(&text), text.len, &site, &err))
		fail_msg("%s", err.message);
	return site;
}

static const char two_racks[] = "{\"name\":\"r1\",\"trays\":{\"count\":4}},{\"name\":\"r2\",\"trays\":{\"count\":4,\"absent\":[2]}}";

static char *conf_of(const struct rk_site *site)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_str out = RK_STR_INIT;
	struct rk_export e;

	rk_export_collect(site, RK_NONE, arena, &e);
	rk_export_slurm_conf(&e, &out);
	return rk_str_steal(&out);
}

static void absent_trays_keep_their_place(void **state)
{
	RK_CLEANUP_SITE struct rk_site *site = site_of(two_racks);
	char *conf RK_CLEANUP_FREE = conf_of(site);

	(void)state;
	assert_non_null(strstr(conf, "BlockName=r1 Nodes=r1-t[01-04]\nBlockName=r2 Nodes=r2-t[01-04]\nBlockSizes=4,8\n"));
	assert_non_null(strstr(conf, "# r2-t02\n"));
}

static void sizes_double_as_often_as_the_blocks_fill_them(void **state)
{
	static const struct {
		const char *racks, *sizes;
	} rows[] = { { "r1", "BlockSizes=18\n" }, { "r[1-2]", "BlockSizes=18,36\n" }, { "r[1-3]", "BlockSizes=18,36\n" }, { "r[1-4]", "BlockSizes=18,36,72\n" },
		     { "r[1-7]", "BlockSizes=18,36,72\n" }, { "r[1-8]", "BlockSizes=18,36,72,144\n" } };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		char *rack RK_CLEANUP_FREE = rk_xasprintf("{\"name\":\"%s\"}", rows[i].racks);
		RK_CLEANUP_SITE struct rk_site *site = site_of(rack);
		char *conf RK_CLEANUP_FREE = conf_of(site);
		assert_true(rk_ends_with(conf, rows[i].sizes));
	}
}

/* Differences of a text, joined by newlines: "LINE what". */
static char *judged(const struct rk_site *site, const char *text, bool yaml)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_str out = RK_STR_INIT;
	struct rk_export_diff *diffs;
	struct rk_export e;
	size_t n = 0;

	rk_export_collect(site, RK_NONE, arena, &e);
	if (rk_export_check_slurm(&e, "f", text, yaml, arena, &diffs, &n, NULL))
		rk_str_add(&out, "no such file");
	for (size_t i = 0; i < n; i++)
		rk_str_addf(&out, "%s%d %s", out.len ? "\n" : "", diffs[i].line, diffs[i].what);
	return rk_str_steal(&out);
}

static void a_file_of_the_same_meaning_is_the_same(void **state)
{
	static const char *const same[] = {
		"BlockName=r1 Nodes=r1-t01,r1-t02,r1-t[03-04]\nBlockName=r2 Nodes=r2-t[01-04]\nBlockSizes=4,8\n",
		"# remark\n\n  blockname=r1   nodes=r1-t[01-04]  # more\r\nBLOCKNAME=r2 NODES=r2-t[01,02,03,04]\nBlockSizes=4,8",
	};
	RK_CLEANUP_SITE struct rk_site *site = site_of(two_racks);

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(same); i++) {
		char *got RK_CLEANUP_FREE = judged(site, same[i], false);
		assert_string_equal(got, "");
	}
}

static void each_way_to_be_wrong_is_told(void **state)
{
	static const char *const rows[][2] = {
		{ "BlockName=r1 Nodes=r1-t[01-04]\nBlockName=r2 Nodes=r2-t[01,03-04]\nBlockSizes=4,8", "2 block r2 lacks node r2-t02" },
		{ "BlockName=r1 Nodes=r1-t[02,01,03-04]\nBlockName=r2 Nodes=r2-t[01-04]\nBlockSizes=4,8",
		  "1 block r1 has r1-t02 at position 1, where r1-t01 belongs" },
		{ "BlockName=r1 Nodes=r1-t[01-04\nBlockName=r2 Nodes=r2-t[01-04]\nBlockSizes=4,8", NULL },
		{ "BlockName=r1 Nodes=r1-t02,r1-t01,r1-t[03-04]\nBlockName=r2 Nodes=r2-t[01-04]\nBlockSizes=4,8",
		  "1 block r1 has r1-t02 at position 1, where r1-t01 belongs" },
		{ "BlockName=r2 Nodes=r2-t[01-04]\nBlockName=r1 Nodes=r1-t[01-04]\nBlockSizes=4,8", "2 block r1 stands behind a later one: order counts" },
		{ "BlockName=r1 Nodes=r1-t[01-05]\nBlockName=r2 Nodes=r2-t[01-04]\nBlockSizes=4,8", "1 block r1 has node r1-t05, which is not there" },
		{ "BlockName=r1 Nodes=r1-t[01-04]\nBlockName=r2 Nodes=r2-t[01-04]\nBlockSizes=-1", "3 block size \"-1\" is no size\n3 block sizes are not 4,8" },
		{ "BlockName=r1 Nodes=r1-t[01-04]\nBlockName=r2 Nodes=r2-t[01-04]", "0 block sizes are not 4,8" },
		{ "nonsense", "no such file\n1 is neither a block nor BlockSizes: nonsense" },
		{ "", "no such file" },
	};
	RK_CLEANUP_SITE struct rk_site *site = site_of(two_racks);

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		char *got RK_CLEANUP_FREE = judged(site, rows[i][0], false);
		if (rows[i][1])
			assert_string_equal(got, rows[i][1]);
		else
			assert_string_not_equal(got, "");
	}
}

static void what_is_written_is_read_back(void **state)
{
	RK_CLEANUP_SITE struct rk_site *site = site_of(two_racks);
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_str yaml RK_CLEANUP_STR = RK_STR_INIT;
	char *conf RK_CLEANUP_FREE = conf_of(site);
	struct rk_export e;

	(void)state;
	rk_export_collect(site, RK_NONE, arena, &e);
	rk_export_slurm_yaml(&e, &yaml);
	char *of_conf RK_CLEANUP_FREE = judged(site, conf, false), *of_yaml RK_CLEANUP_FREE = judged(site, rk_str_text(&yaml), true);
	assert_string_equal(of_conf, "");
	assert_string_equal(of_yaml, "");
}

static void an_inventory_names_every_tray_once_and_its_rack(void **state)
{
	RK_CLEANUP_SITE struct rk_site *site = site_of(two_racks);
	RK_CLEANUP_JSON struct rk_json *doc = NULL;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_export e;

	(void)state;
	rk_export_collect(site, RK_NONE, arena, &e);
	rk_export_ansible(&e, &out);
	assert_int_equal(rk_json_parse("t", rk_str_text(&out), out.len, &doc, NULL), 0);
	const struct rk_jnode *all = rk_jget(rk_json_root(doc), "all");
	assert_int_equal(rk_jget(all, "hosts")->n, 7);
	assert_int_equal(rk_jget(rk_jget(rk_jget(all, "children"), "rack_r2"), "hosts")->n, 3);
}

static void names_of_hosts_cannot_break_a_drawing(void **state)
{
	RK_CLEANUP_SITE struct rk_site *site = site_of(two_racks);
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_str svg RK_CLEANUP_STR = RK_STR_INIT, dot RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_export e;

	(void)state;
	site->trays[0].cordon = "<script>\"&";
	site->hcas[0].leaf = "leaf\"];x";
	rk_export_collect(site, RK_NONE, arena, &e);
	rk_export_svg(&e, &svg);
	rk_export_dot(&e, &dot);
	assert_null(strstr(rk_str_text(&svg), "<script>"));
	assert_non_null(strstr(rk_str_text(&svg), "&lt;script&gt;&quot;&amp;"));
	assert_non_null(strstr(rk_str_text(&dot), "\"leaf\\\"];x\""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(absent_trays_keep_their_place), cmocka_unit_test(sizes_double_as_often_as_the_blocks_fill_them),
		cmocka_unit_test(a_file_of_the_same_meaning_is_the_same), cmocka_unit_test(each_way_to_be_wrong_is_told),
		cmocka_unit_test(what_is_written_is_read_back), cmocka_unit_test(an_inventory_names_every_tray_once_and_its_rack),
		cmocka_unit_test(names_of_hosts_cannot_break_a_drawing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
