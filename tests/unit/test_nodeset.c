#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "inventory/base/nodeset.h"
#include "inventory/base/str.h"

static const char *round_trip(struct rk_arena *arena, const char *text, size_t *ret_n)
{
	struct rk_nodeset set;
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;

	if (rk_nodeset_parse(text, NULL, NULL, arena, &set, &err))
		return rk_arena_strdup(arena, err.message);
	*ret_n = set.n;
	return rk_nodeset_fold(arena, set.names, set.n);
}

static void expands_and_folds(void **state)
{
	static const struct {
		const char *text;
		size_t n;
		const char *folded;
	} rows[] = {
		{ "r01-t01", 1, "r01-t01" },
		{ "r01-t[01-18]", 18, "r01-t[01-18]" },
		{ "r[01-02]-t[01-03]", 6, "r[01-02]-t[01-03]" },
		{ "r[01-02,04]-t[01-18],r03-t[01,04-18]", 70, "r[01-02,04]-t[01-18],r03-t[01,04-18]" },
		{ "tray[08-10]", 3, "tray[08-10]" },
		{ "tray[8-10]", 3, "tray[8-10]" },
		{ "tray[01-18/2]", 9, "tray[01,03,05,07,09,11,13,15,17]" },
		{ "a[1,1,2]", 2, "a[1-2]" },
		{ "a[1-2][3-4]", 4, "a[13-14,23-24]" },
		{ "a[1-5]!a[2-3]", 3, "a[1,4-5]" },
		{ "a[1-5]&a[4-9]", 2, "a[4-5]" },
		{ "a[1-3]^a[3-4]", 3, "a[1-2,4]" },
		{ "x,y,x", 2, "x,y" },
		{ "rack[01-02]-tray[01-02]-f3", 4, "rack[01-02]-tray[01-02]-f3" },
	};
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		size_t n = 0;
		assert_string_equal(round_trip(arena, rows[i].text, &n), rows[i].folded);
		assert_int_equal(n, rows[i].n);
	}
}

static void errors_name_the_column(void **state)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
		{ "tray[8-010]", "mixed zero padding in a range at column 6" },
		{ "tray[08-10", "a bracket that is not closed at column 5" },
		{ "tray[3-1]", "a range that runs backwards at column 6" },
		{ "tray[]", "a number is expected at column 6" },
		{ "a,,b", "a name is expected at column 3" },
		{ "a b", "an unexpected character at column 2" },
		{ "@g", "groups are not known here at column 1" },
		{ "a!a", "is empty" },
		{ "a[0-99999999][0-99999]", "more names than" },
		{ "a[1-9/0]", "a step of 0" },
		{ "", "a name is expected at column 1" },
		{ "a]", "an unexpected character at column 2" },
	};
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		size_t n = 0;
		const char *text = round_trip(arena, rows[i].text, &n);
		if (!strstr(text, rows[i].says))
			fail_msg("\"%s\" gave \"%s\", expected \"%s\"", rows[i].text, text, rows[i].says);
	}
}

/* fold(expand(n)) = n for random sets: expanding the folded text gives the same names. */
static void folding_loses_nothing(void **state)
{
	unsigned seed = 7;

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct rk_nodeset set = { rk_arena_array(arena, 400, sizeof(char *)), 0 }, again;
		for (int i = rand_r(&seed) % 399; i >= 0; i--) {
			int a = rand_r(&seed) % 12, b = rand_r(&seed) % 19;
			set.names[set.n++] = round % 2 ? rk_arena_printf(arena, "r%02d-t%02d", a, b) : rk_arena_printf(arena, "n%d-x%d", a, b);
		}
		rk_nodeset_sort(&set);
		const char *folded = rk_nodeset_fold(arena, set.names, set.n);
		assert_int_equal(rk_nodeset_parse(folded, NULL, NULL, arena, &again, NULL), 0);
		assert_int_equal(again.n, set.n);
		for (size_t i = 0; i < set.n; i++)
			assert_string_equal(again.names[i], set.names[i]);
	}
}

/* The same for names that mix padding, dimensions, suffixes, long numbers and plain words. */
static void folding_loses_nothing_of_odd_names(void **state)
{
	static const char *const forms[] = { "r%d", "r%02d", "r%03d", "r%d-t%02d", "r%02d-t%d-f%d", "n%dx%02dy%03d", "host%d-eth%d", "x%d.y", "%d", "%02d-%d", "word" };
	unsigned seed = 11;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct rk_nodeset set = { rk_arena_array(arena, 60, sizeof(char *)), 0 }, again;
		size_t kinds = 1 + (size_t)rand_r(&seed) % RK_ARRAY_SIZE(forms);
		for (int i = rand_r(&seed) % 59; i >= 0; i--) {
			/* Near 9/10 and 99/100, where the number of digits changes, and beyond what fits a long. */
			int a = rand_r(&seed) % 4 + (rand_r(&seed) % 2 ? 8 : 98), b = rand_r(&seed) % 12, c = rand_r(&seed) % 3;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
			const char *name = rk_arena_printf(arena, forms[(size_t)rand_r(&seed) % kinds], a, b, c);
#pragma GCC diagnostic pop
			set.names[set.n++] = i % 17 ? name : rk_arena_printf(arena, "%s123456789012345678901234567890", name);
		}
		rk_nodeset_sort(&set);
		const char *folded = rk_nodeset_fold(arena, set.names, set.n);
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		if (rk_nodeset_parse(folded, NULL, NULL, arena, &again, &err))
			fail_msg("%s: %s", folded, err.message);
		if (again.n != set.n)
			fail_msg("%zu names became %zu: %s", set.n, again.n, folded);
		for (size_t i = 0; i < set.n; i++)
			assert_string_equal(again.names[i], set.names[i]);
	}
}

static void natural_order_compares_numbers(void **state)
{
	static const char *const order[] = { "", "a", "a1", "a01", "a2", "a9", "a10", "a10b", "a99999999999999999999", "a100000000000000000000", "a-1", "b" };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(order); i++)
		for (size_t j = 0; j < RK_ARRAY_SIZE(order); j++) {
			int d = rk_natural_cmp(order[i], order[j]), back = rk_natural_cmp(order[j], order[i]);
			assert_int_equal(d == 0, i == j);
			assert_int_equal(d < 0, back > 0);
		}
	for (size_t i = 2; i < 9; i++)
		assert_true(rk_natural_cmp(order[i], order[i + 1]) < 0);
}

static void unions_do_not_add_up_beyond_the_limit(void **state)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_nodeset set;

	(void)state;
	assert_int_equal(rk_nodeset_parse("a[1-1500000],b[1-1500000]", NULL, NULL, arena, &set, &err), RK_INVALID);
	assert_non_null(strstr(err.message, "more names than"));
}

static void a_long_list_of_names_is_read_in_linear_memory(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_nodeset set;

	(void)state;
	for (int i = 0; i < 200000; i++)
		rk_str_addf(&text, "%sn%d", i ? "," : "", 199999 - i);
	assert_int_equal(rk_nodeset_parse(rk_str_text(&text), NULL, NULL, arena, &set, NULL), 0);
	assert_int_equal(set.n, 200000);
	assert_string_equal(set.names[199999], "n199999");
	assert_true(rk_arena_bytes(arena) < (size_t)64 << 20);
	assert_string_equal(rk_nodeset_fold(arena, set.names, set.n), "n[0-199999]");
}

static void a_million_names_fold_to_one_text(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	size_t n = 0;

	(void)state;
	assert_string_equal(round_trip(arena, "r[00001-55555]-t[01-18]", &n), "r[00001-55555]-t[01-18]");
	assert_int_equal(n, 999990);
}

static void an_empty_result_is_told_apart_from_an_error(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_nodeset set = { 0 };

	(void)state;
	assert_int_equal(rk_nodeset_parse("a[", NULL, NULL, arena, &set, NULL), RK_INVALID);
	assert_null(set.names);
	assert_int_equal(rk_nodeset_parse("a&b", NULL, NULL, arena, &set, NULL), RK_NOT_FOUND);
	assert_non_null(set.names);
	assert_int_equal(set.n, 0);
}

static int two_groups(void *ctx, const char *group, struct rk_arena *arena, struct rk_nodeset *ret, struct rk_err *err)
{
	(void)ctx;
	if (strcmp(group, "rack:r01") != 0)
		return rk_err_set(err, RK_NOT_FOUND, "no group \"%s\"", group);
	ret->names = rk_arena_array(arena, 2, sizeof(char *));
	ret->names[0] = "r01-t02";
	ret->names[1] = "r01-t01";
	ret->n = 2;
	return 0;
}

static void groups_are_asked_from_the_caller(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_nodeset set;

	(void)state;
	assert_int_equal(rk_nodeset_parse("@rack:r01!r01-t01", two_groups, NULL, arena, &set, NULL), 0);
	assert_int_equal(set.n, 1);
	assert_string_equal(set.names[0], "r01-t02");
	assert_int_equal(rk_nodeset_parse("@nobody", two_groups, NULL, arena, &set, NULL), RK_NOT_FOUND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(expands_and_folds),
		cmocka_unit_test(errors_name_the_column),
		cmocka_unit_test(folding_loses_nothing),
		cmocka_unit_test(folding_loses_nothing_of_odd_names),
		cmocka_unit_test(natural_order_compares_numbers),
		cmocka_unit_test(unions_do_not_add_up_beyond_the_limit),
		cmocka_unit_test(a_long_list_of_names_is_read_in_linear_memory),
		cmocka_unit_test(a_million_names_fold_to_one_text),
		cmocka_unit_test(an_empty_result_is_told_apart_from_an_error),
		cmocka_unit_test(groups_are_asked_from_the_caller),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
