/* Reservations: what stands against them, how they are stored, and the forms of times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "inventory/base/clock.h"
#include "inventory/base/str.h"
#include "provision/place.h"
#include "provision/reserve.h"
#include "tests/contract/store_site.h"

static const int64_t hour = 3600 * 1000, base = 1800000000000;

/* ---- times ------------------------------------------------------------------------------------------------------------------------ */

static void times_are_read_in_every_documented_form(void **state)
{
	static const struct {
		const char *text, *iso;
	} rows[] = {
		{ "2026-12-01T08:00:00Z", "2026-12-01T08:00:00Z" },
		{ "2026-12-01T08:00:00z", "2026-12-01T08:00:00Z" },
		{ "2026-12-01T08:00:00+02:00", "2026-12-01T06:00:00Z" },
		{ "2026-12-01T08:00:00-08:30", "2026-12-01T16:30:00Z" },
		{ "2026-12-01T08:00:00.999Z", "2026-12-01T08:00:00Z" },
		{ "2026-12-01", "2026-12-01T00:00:00Z" },
		{ "2028-02-29", "2028-02-29T00:00:00Z" },
		{ "now", "2027-01-15T08:00:00Z" },
		{ "+90m", "2027-01-15T09:30:00Z" },
		{ "+2h30m", "2027-01-15T10:30:00Z" },
		{ "-1d", "2027-01-14T08:00:00Z" },
		{ "+1w", "2027-01-22T08:00:00Z" },
		{ "+0s", "2027-01-15T08:00:00Z" },
		{ "2026-02-29", NULL }, { "2026-13-01", NULL }, { "2026-12-01T24:00:00Z", NULL }, { "2026-12-01T08:60:00Z", NULL },
		{ "2026-12-01T08:00:00", NULL }, { "2026-12-01 08:00:00Z", NULL }, { "2026-12-01T08:00:00+25:00", NULL }, { "2026-12-01T08:00:00.Z", NULL },
		{ "1969-12-31", NULL }, { "+", NULL }, { "+1", NULL }, { "+1y", NULL }, { "+h", NULL }, { "1h", NULL }, { "", NULL }, { "+1h ", NULL },
		{ "+9999999999d", NULL }, { "+4000d", NULL }, { "yesterday", NULL },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		int64_t ms = 0;
		char iso[32];
		int rc = rk_time_parse(rows[i].text, base, &ms, &err);
		if ((rc == 0) != (rows[i].iso != NULL))
			fail_msg("\"%s\" is %s", rows[i].text, rc ? "refused" : "taken");
		if (!rc)
			assert_string_equal(rk_time_iso(ms, iso), rows[i].iso);
		else
			assert_non_null(err.hint);
	}
}

static void lengths_have_units(void **state)
{
	int64_t ms;

	(void)state;
	assert_int_equal(rk_duration_parse("90s", &ms, NULL), 0);
	assert_int_equal(ms, 90000);
	assert_int_equal(rk_duration_parse("1d12h", &ms, NULL), 0);
	assert_int_equal(ms, 36 * hour);
	assert_int_equal(rk_duration_parse("7", &ms, NULL), RK_INVALID);
	assert_int_equal(rk_duration_parse("-7d", &ms, NULL), RK_INVALID);
}

/* ---- reservations ------------------------------------------------------------------------------------------------------------------ */

struct fixture {
	struct rk_world world;
	struct rk_arena *arena;
	int64_t now;
};

static int setup(void **state)
{
	static const struct rk_actor actor = { "alice", "host-a", 4711 };
	struct fixture *f = rk_xcalloc(1, sizeof(*f));
	struct rk_site *site RK_CLEANUP_SITE = site_of_tests();

	must(rk_store_open("mem:", RK_STORE_WRITE, &actor, &f->world.store, &err));
	must(rk_store_put_site(f->world.store, site, &err));
	must(rk_store_snapshot(f->world.store, &f->world.site, &err));
	f->arena = rk_arena_new();
	f->now = f->world.site->read_unix_ms;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	rk_site_free(f->world.site);
	rk_store_close(f->world.store);
	rk_arena_free(f->arena);
	free(f);
	return 0;
}

static void read_again(struct fixture *f)
{
	rk_site_free(f->world.site);
	f->world.site = NULL;
	must(rk_store_snapshot(f->world.store, &f->world.site, &err));
}

static int64_t reserve(struct fixture *f, const char *tenant, const char *racks, int count, int64_t from, int64_t to)
{
	const struct rk_reserve_wish wish = { tenant, racks, count, f->now + from, f->now + to };
	int64_t id = 0;

	must(rk_reserve_create(&f->world, &wish, f->arena, &id, &err));
	read_again(f);
	return id;
}

/* The refusal of a wish: message and details joined by " | ". */
static const char *refusal(struct fixture *f, int class, const char *tenant, const char *racks, int count, int64_t from, int64_t to)
{
	const struct rk_reserve_wish wish = { tenant, racks, count, f->now + from, f->now + to };
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	int64_t id;

	assert_int_equal(rk_reserve_create(&f->world, &wish, f->arena, &id, &err), class);
	assert_int_equal(err.rc, class);
	rk_str_add(&out, err.message);
	for (size_t i = 0; i < err.n_details; i++)
		rk_str_addf(&out, " | %.24s", err.details[i]);
	return rk_arena_strdup(f->arena, rk_str_text(&out));
}

static const char *first_rack(const struct fixture *f)
{
	return f->world.site->racks[0].name;
}

static void a_reservation_is_kept_with_its_times(void **state)
{
	struct fixture *f = *state;
	int64_t id = reserve(f, f->world.site->tenants[0].name, first_rack(f), 0, hour, 3 * hour);

	assert_int_equal(f->world.site->n_reservations, 1);
	const struct rk_reservation *r = &f->world.site->reservations[0];
	assert_int_equal(r->id, id);
	assert_int_equal(r->to_unix_ms - r->from_unix_ms, 2 * hour);
	assert_string_equal(rk_reserve_state(f->world.site, r), "future");
	f->world.site->read_unix_ms = r->from_unix_ms;
	assert_string_equal(rk_reserve_state(f->world.site, r), "active");
	f->world.site->read_unix_ms = r->to_unix_ms;
	assert_string_equal(rk_reserve_state(f->world.site, r), "ended");
}

static void racks_are_promised_once_at_a_time(void **state)
{
	struct fixture *f = *state;
	const char *one = rk_arena_strdup(f->arena, f->world.site->tenants[0].name), *two = rk_arena_strdup(f->arena, f->world.site->tenants[1].name);
	const char *rack = rk_arena_strdup(f->arena, first_rack(f));

	reserve(f, one, rack, 0, hour, 3 * hour);
	const char *said = refusal(f, RK_CONFLICT, two, rack, 0, 2 * hour, 4 * hour);
	assert_non_null(strstr(said, "cannot be kept for tenant"));
	assert_non_null(strstr(said, " | reservation 1: "));
	reserve(f, two, rack, 0, 3 * hour, 4 * hour); /* after it */
	reserve(f, one, rack, 0, hour, 2 * hour);     /* its own */
}

static void what_others_run_there_is_named(void **state)
{
	struct fixture *f = *state;
	const char *one = rk_arena_strdup(f->arena, f->world.site->tenants[0].name), *two = rk_arena_strdup(f->arena, f->world.site->tenants[1].name);

	add_cluster(f->world.store, "busy", one, 0);
	must(try_vm(f->world.store, f->world.site, "busy", 1, 0, &err));
	read_again(f);
	const char *said = refusal(f, RK_CONFLICT, two, first_rack(f), 0, hour, 2 * hour);
	assert_non_null(strstr(said, " | cluster busy of tenant"));
	reserve(f, one, first_rack(f), 0, hour, 2 * hour);
}

static void numbers_are_limited_by_what_is_free(void **state)
{
	struct fixture *f = *state;
	const char *one = rk_arena_strdup(f->arena, f->world.site->tenants[0].name), *two = rk_arena_strdup(f->arena, f->world.site->tenants[1].name);
	struct rk_capacity c;

	rk_capacity(f->world.site, &c);
	assert_true(c.free > 3);
	reserve(f, one, NULL, c.free - 2, hour, 3 * hour);
	const char *said = refusal(f, RK_NO_CAPACITY, two, NULL, 3, 0, 2 * hour); /* the peak is inside, not at the beginning */
	assert_non_null(strstr(said, " | reservation 1: "));
	reserve(f, two, NULL, 3, 0, hour);
	reserve(f, two, NULL, 2, hour, 2 * hour);
}

/* Racks that are kept for one are no place for what another was promised by number. */
static void racks_that_a_promise_needs_cannot_be_kept_for_another(void **state)
{
	struct fixture *f = *state;
	const char *one = rk_arena_strdup(f->arena, f->world.site->tenants[0].name), *two = rk_arena_strdup(f->arena, f->world.site->tenants[1].name);
	struct rk_capacity c;

	rk_capacity(f->world.site, &c);
	int outside = c.free - rk_capacity_rooms(f->world.site, f->arena)[0];
	reserve(f, one, NULL, outside, 5 * hour, 6 * hour);
	reserve(f, two, first_rack(f), 0, 5 * hour, 6 * hour); /* just enough */
	reserve(f, one, NULL, outside + 1, hour, 3 * hour);
	const char *said = refusal(f, RK_NO_CAPACITY, two, first_rack(f), 0, 0, 2 * hour);
	assert_non_null(strstr(said, " trays outside are free, "));
	assert_non_null(strstr(said, " | reservation 3: "));
	reserve(f, two, first_rack(f), 0, 0, hour);       /* before it begins */
	reserve(f, one, first_rack(f), 0, hour, 3 * hour); /* its own promise */
}

static void nonsense_is_refused(void **state)
{
	struct fixture *f = *state;
	const char *one = f->world.site->tenants[0].name;

	refusal(f, RK_INVALID, one, NULL, 0, 0, hour);
	refusal(f, RK_INVALID, one, first_rack(f), 2, 0, hour);
	refusal(f, RK_INVALID, one, NULL, 2, hour, hour);
	refusal(f, RK_INVALID, one, NULL, 2, -2 * hour, -hour);
	refusal(f, RK_NOT_FOUND, "nobody", NULL, 2, 0, hour);
	refusal(f, RK_NOT_FOUND, one, "no-such-rack", 0, 0, hour);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_are_read_in_every_documented_form),
		cmocka_unit_test(lengths_have_units),
		cmocka_unit_test_setup_teardown(a_reservation_is_kept_with_its_times, setup, teardown),
		cmocka_unit_test_setup_teardown(racks_are_promised_once_at_a_time, setup, teardown),
		cmocka_unit_test_setup_teardown(what_others_run_there_is_named, setup, teardown),
		cmocka_unit_test_setup_teardown(numbers_are_limited_by_what_is_free, setup, teardown),
		cmocka_unit_test_setup_teardown(racks_that_a_promise_needs_cannot_be_kept_for_another, setup, teardown),
		cmocka_unit_test_setup_teardown(nonsense_is_refused, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
