#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "inventory/elevation.h"
#include "tests/contract/store_site.h"

static const struct rk_unit *unit_at(const struct rk_unit *units, size_t n, int u)
{
	for (size_t i = 0; i < n; i++)
		if (units[i].u == u)
			return &units[i];
	return NULL;
}

static void every_unit_of_a_rack_is_told_from_the_top_down(void **state)
{
	RK_CLEANUP_SITE struct rk_site *site = site_of_tests();
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_unit *units;
	size_t n;

	(void)state;
	rk_elevation(site, 1, arena, &units, &n);
	assert_int_equal(n, 48);
	assert_int_equal(units[0].u, 48);
	assert_int_equal(units[47].u, 1);
	assert_int_equal(unit_at(units, n, 1)->kind, RK_UNIT_EMPTY);
	assert_int_equal(unit_at(units, n, 11)->kind, RK_UNIT_TRAY);
	assert_string_equal(site->trays[unit_at(units, n, 11)->tray].name, "k2-t01");
	assert_int_equal(unit_at(units, n, 15)->kind, RK_UNIT_ABSENT_TRAY);
	assert_int_equal(unit_at(units, n, 15)->number, 5);
	assert_int_equal(unit_at(units, n, 19)->kind, RK_UNIT_NVSWITCH);
	assert_int_equal(unit_at(units, n, 27)->number, 9);
	assert_string_equal(site->trays[unit_at(units, n, 37)->tray].name, "k2-t18");
	assert_int_equal(unit_at(units, n, 44)->kind, RK_UNIT_MANAGEMENT);
}

static void the_drawing_shows_faults_in_colour_and_is_plain_without(void **state)
{
	RK_CLEANUP_SITE struct rk_site *site = site_of_tests();
	struct rk_str plain RK_CLEANUP_STR = RK_STR_INIT, coloured RK_CLEANUP_STR = RK_STR_INIT;

	(void)state;
	site->trays[0].leak = "detector 1";
	site->trays[1].leak = "detector 2";
	site->trays[2].cordon = "pump";
	rk_site_seal(site);
	rk_elevation_draw(site, 0, false, &plain);
	rk_elevation_draw(site, 0, true, &coloured);
	assert_null(strchr(rk_str_text(&plain), '\033'));
	assert_non_null(strstr(rk_str_text(&plain), "2 trays leak: alarm"));
	assert_non_null(strstr(rk_str_text(&plain), "k1-t01     faulty"));
	assert_non_null(strstr(rk_str_text(&plain), "tray 5 is absent"));
	assert_non_null(strstr(rk_str_text(&coloured), "\033[31mslot  1  k1-t01"));
	assert_non_null(strstr(rk_str_text(&coloured), "\033[35mslot  3  k1-t03"));
	assert_true(coloured.len > plain.len);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_unit_of_a_rack_is_told_from_the_top_down),
		cmocka_unit_test(the_drawing_shows_faults_in_colour_and_is_plain_without),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
