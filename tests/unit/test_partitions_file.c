/* Cases were run through opensm 3.3.23 against ibsim; what it did is what the findings must say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "provision/drivers/partitions_file.h"

#define STANDARD "Default=0x7fff : ALL=limited, ALL_SWITCHES=full, SELF=full ;\n"
#define G1 "0x5000e60300020001"
#define G2 "0x5000e60300020101"

static const struct lint_case {
	const char *text;
	unsigned line, col;               /* of the first finding; line 0: of the file */
	const char *word;                 /* in its message; NULL: clean */
} cases[] = {
	{ STANDARD "tA=0x10, defmember=full : " G1 "," G2 " ;\n", 0, 0, NULL },
	{ STANDARD "tA=0x10 : " G1 "=full,\n  " G2 "=full ;\n", 0, 0, NULL },
	{ STANDARD "tA=0x10 : " G1 "=full\n" G2 "=full ;", 0, 0, NULL },
	{ STANDARD "tA=0x10, defmember=full : " G1 " ;\ntA=0x10, defmember=full : " G2 " ;\n", 0, 0, NULL },
	{ STANDARD "tA=0x10, ipoib, rate=3, mtu=4, sl=0, indx0 : " G1 " ; tB=17 : " G2 "=limited;\n", 0, 0, NULL },
	{ "tA=0x10, defmember=full : " G1 " ;\n", 0, 0, NULL },
	{ "Default : ALL=limited, SELF=full ;\n", 0, 0, NULL },
	{ "\xef\xbb\xbf" STANDARD "tA = 0x10 , defmember = full : " G1 " , " G2 " ;\n", 0, 0, NULL },
	{ "Default=0x7fff, ipoib : ALL=full ;\n", 0, 0, NULL },
	{ STANDARD "tA=0x10 : " G1 "=full ; # comment : ; ,\n", 0, 0, NULL },
	{ STANDARD "tA=0x10 : ALL=full, " G1 "=limited ;\n", 0, 0, NULL },
	{ STANDARD "tA=0x10, defmember=full : " G1 "\ntB=0x20 : " G2 " ;\n", 3, 1, "no ';'" },
	{ STANDARD "garbage\n", 2, 1, "no definition" },
	{ STANDARD "tA=0x10 : 0x12g4 ;\n", 2, 11, "no port GUID" },
	{ STANDARD "tA=0x10 : 5000e60300010201 ;\n", 2, 11, "no port GUID" },
	{ STANDARD "tA=0x10 : all ;\n", 2, 11, "no port GUID" },
	{ STANDARD "tA=0x10 : 12345678 ;\n", 2, 11, "misread" },
	{ STANDARD "tA=0x10 : " G1 " " G2 " ;\n", 2, 11, "no port GUID" },
	{ STANDARD "tA=0x10 : " G1 "=full " G2 "=full ;\n", 2, 30, "demoted" },
	{ "", 0, 0, "no definition" },
	{ "# nothing\n", 0, 0, "no definition" },
	{ STANDARD ";\n", 2, 1, "';'" },
	{ STANDARD "tA=0x10,\ndefmember=full : " G1 " ;\n", 2, 1, "no definition" },
	{ STANDARD "tA=0x10 : " G1 " ;\r\n", 2, 31, "carriage return" },
	{ STANDARD "tA=0x10, defmember=full : " G1 " ;\ntB=0x10, defmember=full : " G2 " ;\n", 3, 1, "merges" },
	{ STANDARD "tA=0x8010 : " G1 " ;\n", 2, 4, "misread" },
	{ STANDARD "tA=0x10010 : " G1 " ;\n", 2, 4, "misread" },
	{ STANDARD "tA=0x0 : " G1 " ;\n", 2, 4, "makes one up" },
	{ STANDARD "tA : " G1 " ;\n", 2, 1, "makes one up" },
	{ STANDARD "tA=0x30 : " G1 " ;\ntA : " G2 " ;\n", 3, 1, "merges this into \"tA\", key 0x0030" },
	{ STANDARD "tA=0x120 : " G1 " ;\ntA=0x30 : " G1 " ;\ntA : " G2 " ;\n", 4, 1, "key 0x0120" },
	{ STANDARD "Default : " G1 " ;\n", 0, 0, NULL },
	{ STANDARD "tA= : " G1 " ;\n", 2, 1, "no key" },
	{ STANDARD "tA=010 : " G1 " ;\n", 2, 4, "misread" },
	{ STANDARD "tA=0x7fff : " G1 "=full ;\n", 2, 1, "merges" },
	{ STANDARD "16, defmember=full : " G1 " ;\n", 2, 1, "misread as the key" },
	{ STANDARD "tA=0x10, defmembr=full : " G1 " ;\n", 2, 10, "dropped" },
	{ STANDARD "tA=0x10, defmember=Full : " G1 " ;\n", 2, 10, "dropped" },
	{ STANDARD "tA=0x10, def=full : " G1 " ;\n", 2, 10, "misread" },
	{ STANDARD "tA=0x10 : " G1 "=FULL ;\n", 2, 30, "demoted" },
	{ STANDARD "tA=0x10 : " G1 "=f ;\n", 2, 30, "misread" },
	{ STANDARD "tA=0x10 : " G1 "= ;\n", 2, 30, "misread" },
	{ STANDARD "tA=0x10 : " G1 "=both ;\n", 2, 30, "misread" },
	{ STANDARD "tA=0x10, defmember=full : A ;\n", 2, 27, "misread as \"ALL\"" },
	{ STANDARD "tA=0x10 : N, " G1 " ;\n", 2, 11, "NONE" },
	{ STANDARD "tA=0x10 : mgid=ff12:401b::1, " G1 " ;\n", 2, 30, "dropped" },
	{ "Default=0x7fff : SELF=full, ALL=limited ;\n", 1, 18, "demoted" },
	{ "Default=0x7fff : ALL=limited ;\n", 1, 18, "demotes" },
	{ STANDARD "tA=0x10 : " G1 "=full ;\ntA=0x10 : " G1 "=limited ;\n", 2, 11, "demoted" },
	{ STANDARD "tA=0x10 : " G1 "=limited, " G1 "=full ;\n", 2, 11, "dropped" },
	{ STANDARD "tA=0x10 : " G1 "=full ; ;\n", 2, 37, "';'" },
};

static void every_trap_is_found_where_it_stands_and_nothing_else(void **state)
{
	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		struct rk_diags found RK_CLEANUP_DIAGS = RK_DIAGS_INIT("f");
		int rc = rk_partitions_lint("f", cases[i].text, strlen(cases[i].text), &found);
		if (!cases[i].word) {
			if (found.n || rc)
				fail_msg("case %zu: %u:%u: %s", i, found.items[0].line, found.items[0].col, found.items[0].message);
			continue;
		}
		assert_int_equal(rc, RK_UNHEALTHY);
		if (found.items[0].line != cases[i].line || found.items[0].col != cases[i].col || !strstr(found.items[0].message, cases[i].word))
			fail_msg("case %zu wants %u:%u %s: %u:%u: %s", i, cases[i].line, cases[i].col, cases[i].word, found.items[0].line, found.items[0].col,
				 found.items[0].message);
	}
}

static void bytes_that_c_strings_hide_are_found(void **state)
{
	static const char nul[] = STANDARD "tA=0x10 : " G1 "\0, " G2 " ;\n";
	struct rk_diags found RK_CLEANUP_DIAGS = RK_DIAGS_INIT("f");

	(void)state;
	assert_int_equal(rk_partitions_lint("f", nul, sizeof(nul) - 1, &found), RK_UNHEALTHY);
	assert_non_null(strstr(found.items[0].message, "NUL"));
}

static void a_line_that_opensm_cuts_is_found_and_its_tail_read_as_live(void **state)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_diags found RK_CLEANUP_DIAGS = RK_DIAGS_INIT("f");
	struct rk_diags short_found RK_CLEANUP_DIAGS = RK_DIAGS_INIT("f");

	(void)state;
	rk_str_add(&text, STANDARD "#");
	while (text.len < strlen(STANDARD) + 4094)
		rk_str_addc(&text, 'x');
	assert_int_equal(rk_partitions_lint("f", text.text, text.len, &short_found), 0);
	rk_str_add(&text, "evil=0x66 : ALL=full ;\n");
	assert_int_equal(rk_partitions_lint("f", text.text, text.len, &found), RK_UNHEALTHY);
	assert_int_equal(found.items[0].line, 2);
	assert_int_equal(found.items[0].col, 4095);
}

static void all_problems_are_reported_at_once(void **state)
{
	static const char text[] = STANDARD "garbage\ntA=0x10 : 0x12g4 ;\ntB=0x20 : A ;\n";
	struct rk_diags found RK_CLEANUP_DIAGS = RK_DIAGS_INIT("f");

	(void)state;
	rk_partitions_lint("f", text, strlen(text), &found);
	assert_int_equal(found.n, 3);
}

static void definitions_of_one_key_are_united(void **state)
{
	static const char text[] = STANDARD "tA=0x10, defmember=full : " G1 " ;\ntA=0x10 : " G2 " ;\n";
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_partitions parts;

	(void)state;
	assert_int_equal(rk_partitions_parse("f", text, strlen(text), arena, &parts, &err), 0);
	assert_int_equal(parts.n, 2);
	assert_int_equal(parts.items[0].pkey, RK_PKEY_DEFAULT);
	assert_string_equal(parts.items[1].name, "tA");
	assert_int_equal(parts.items[1].n_members, 2);
	assert_true(parts.items[1].members[0].full);
	assert_false(parts.items[1].members[1].full);
	assert_false(parts.items[1].ours);
}

static void edit_ok(struct rk_str *text, uint16_t pkey, const char *name, const struct rk_ib_member *members, size_t n)
{
	struct rk_str out = RK_STR_INIT;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	if (rk_partitions_edit("f", rk_str_text(text), text->len, &(struct rk_ib_wanted){ pkey, name, members, n, false }, &out, &err) != 0)
		fail_msg("%s", err.message);
	rk_str_clear(text);
	*text = out;
}

static const struct rk_ib_member two[] = { { 0x5000e60300020101, true }, { 0x5000e60300020001, true } };

static void foreign_bytes_stay_and_a_removed_partition_leaves_no_trace(void **state)
{
	static const char foreign[] = "# by hand\n" STANDARD "\tstorage=0x0700 : 0x5000e603000a0001=full ;\n";
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_partitions parts;

	(void)state;
	rk_str_add(&text, foreign);
	edit_ok(&text, 0x100, "a", two, 2);
	char *first RK_CLEANUP_FREE = rk_xstrdup(rk_str_text(&text));
	edit_ok(&text, 0x101, "b", two, 1);
	assert_true(rk_starts_with(rk_str_text(&text), foreign));
	assert_int_equal(rk_partitions_parse("f", text.text, text.len, arena, &parts, NULL), 0);
	assert_int_equal(parts.n, 4);
	assert_false(parts.items[1].ours);
	assert_true(parts.items[2].ours);
	assert_int_equal(parts.items[2].members[0].guid, two[1].guid);
	edit_ok(&text, 0x101, "b", NULL, 0);
	assert_string_equal(rk_str_text(&text), first);
	edit_ok(&text, 0x100, "a", two, 2);
	assert_string_equal(rk_str_text(&text), first);
}

static void text_behind_the_section_stays_too(void **state)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	(void)state;
	rk_str_add(&text, STANDARD);
	edit_ok(&text, 0x100, "a", two, 2);
	rk_str_add(&text, "late=0x0800 : 0x5000e603000a0001=full ;\n");
	edit_ok(&text, 0x100, "a", two, 1);
	assert_true(rk_ends_with(rk_str_text(&text), "# END racksh managed\nlate=0x0800 : 0x5000e603000a0001=full ;\n"));
}

static void a_rack_row_stays_below_the_line_limit(void **state)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_ib_member many[1000];

	(void)state;
	for (size_t i = 0; i < 1000; i++)
		many[i] = (struct rk_ib_member){ 0x5000e60300000001 + i, i % 3 != 0 };
	rk_str_add(&text, STANDARD);
	edit_ok(&text, 0x100, "a", many, 1000);
	for (const char *p = rk_str_text(&text); *p; p += strcspn(p, "\n"), p += *p == '\n')
		assert_true(strcspn(p, "\n") < 4000);
}

static void edit_fails(const char *text, uint16_t pkey, const char *name, int want)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	int rc = rk_partitions_edit("f", text, strlen(text), &(struct rk_ib_wanted){ pkey, name, two, 2, false }, &out, &err);

	if (rc != want)
		fail_msg("%d, not %d, for %s", rc, want, text);
}

static void an_unsafe_file_is_not_touched(void **state)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	(void)state;
	edit_fails("tX=0x10 : " G1 "=full ;\n", 0x100, "a", RK_UNHEALTHY);
	edit_fails("Default=0x7fff : ALL=full ;\n", 0x100, "a", RK_UNHEALTHY);
	edit_fails("Default=0x7fff : SELF=full, ALL=limited ;\n", 0x100, "a", RK_UNHEALTHY);
	edit_fails(STANDARD "garbage\n", 0x100, "a", RK_UNHEALTHY);
	edit_fails("", 0x100, "a", RK_UNHEALTHY);
	edit_fails(STANDARD "x=0x0100 : " G1 " ;\n", 0x100, "a", RK_CONFLICT);
	edit_fails(STANDARD, 0x7fff, "a", RK_INVALID);
	edit_fails(STANDARD, 0, "a", RK_INVALID);
	edit_fails(STANDARD, 0x100, "a:b", RK_INVALID);
	edit_fails(STANDARD "# END racksh managed\n", 0x100, "a", RK_UNHEALTHY);
	rk_str_add(&text, STANDARD);
	edit_ok(&text, 0x100, "a", two, 2);
	char *edited RK_CLEANUP_FREE = rk_xstrdup(rk_str_text(&text)), *member = strstr(edited, "0001 ;");
	assert_non_null(strstr(edited, "0x5000e60300020101"));
	strstr(edited, "0x5000e60300020101")[17] = '2';
	(void)member;
	edit_fails(edited, 0x101, "b", RK_UNHEALTHY);
	char *doubled RK_CLEANUP_FREE = rk_xasprintf("%s%s", rk_str_text(&text), strstr(rk_str_text(&text), "# BEGIN"));
	edit_fails(doubled, 0x101, "b", RK_UNHEALTHY);
}

/* No input may do more than give findings. */
static void mangled_files_are_survived(void **state)
{
	static const char good[] = STANDARD "tA=0x10, defmember=full : " G1 "," G2 " ;\n";
	uint32_t seed = 1;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		char text[sizeof(good)];
		struct rk_diags found RK_CLEANUP_DIAGS = RK_DIAGS_INIT("f");
		memcpy(text, good, sizeof(good));
		for (int k = 0; k < 3; k++) {
			seed = seed * 1664525 + 1013904223;
			text[(seed >> 8) % (sizeof(good) - 1)] = ";:,=# \t\n\rx0A\0\x80"[(seed >> 24) % 14];
		}
		int rc = rk_partitions_lint("f", text, (seed >> 4) % sizeof(good), &found);
		assert_true((rc == 0) == (found.n == 0));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_trap_is_found_where_it_stands_and_nothing_else),
		cmocka_unit_test(bytes_that_c_strings_hide_are_found),
		cmocka_unit_test(a_line_that_opensm_cuts_is_found_and_its_tail_read_as_live),
		cmocka_unit_test(all_problems_are_reported_at_once),
		cmocka_unit_test(definitions_of_one_key_are_united),
		cmocka_unit_test(foreign_bytes_stay_and_a_removed_partition_leaves_no_trace),
		cmocka_unit_test(text_behind_the_section_stays_too),
		cmocka_unit_test(a_rack_row_stays_below_the_line_limit),
		cmocka_unit_test(an_unsafe_file_is_not_touched),
		cmocka_unit_test(mangled_files_are_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
