#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "inventory/base/clock.h"
#include "inventory/base/err.h"
#include "inventory/base/file.h"
#include "inventory/base/map.h"
#include "inventory/base/mem.h"
#include "inventory/base/str.h"
#include "inventory/base/trace.h"

/* ---- errors ---------------------------------------------------------------------------------------------------------------- */

static void classes_are_the_exit_codes(void **state)
{
	static const struct {
		int rc, exit_code;
		const char *name;
	} rows[] = { { RK_OK, 0, "ok" },		{ RK_FAILED, 1, "failed" },	    { RK_INVALID, 2, "invalid" },	{ RK_PARTIAL, 3, "partial" },
		     { RK_CONFLICT, 4, "conflict" },	{ RK_NO_CAPACITY, 5, "no-capacity" }, { RK_UNREACHABLE, 6, "unreachable" }, { RK_UNHEALTHY, 7, "unhealthy" },
		     { RK_NOT_FOUND, 8, "not-found" }, { RK_BUG, 70, "bug" },		    { RK_CANCELLED, 130, "cancelled" },	{ -55, 70, "bug" } };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		assert_int_equal(rk_class_exit(rows[i].rc), rows[i].exit_code);
		assert_string_equal(rk_class_name(rows[i].rc), rows[i].name);
	}
}

static void an_error_collects_context_hint_and_details(void **state)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT, moved = RK_ERR_INIT;

	(void)state;
	assert_int_equal(rk_err_set(&err, RK_CONFLICT, "tray \"%s\" is held", "r01-t01"), RK_CONFLICT);
	rk_err_hint(&err, "see op list");
	rk_err_detail(&err, "by %s", "op 7");
	assert_int_equal(rk_err_while(&err, "while making %s", "a-01"), RK_CONFLICT);
	rk_err_move(&moved, &err);
	assert_null(err.message);
	assert_string_equal(moved.message, "while making a-01: tray \"r01-t01\" is held");
	assert_string_equal(moved.hint, "see op list");
	assert_int_equal(moved.n_details, 1);
	/* Its own text may be an argument of the next message. */
	assert_int_equal(rk_err_set(&moved, RK_FAILED, "again: %s", moved.message), RK_FAILED);
	assert_string_equal(moved.message, "again: while making a-01: tray \"r01-t01\" is held");
	assert_null(moved.hint);
}

static void a_caller_may_want_the_class_only(void **state)
{
	(void)state;
	assert_int_equal(rk_err_set(NULL, RK_NOT_FOUND, "x"), RK_NOT_FOUND);
	rk_err_hint(NULL, "x");
	rk_err_detail(NULL, "x");
	rk_err_clear(NULL);
	assert_int_equal(rk_err_while(NULL, "x"), RK_FAILED);
}

/* ---- strings --------------------------------------------------------------------------------------------------------------- */

static void remote_bytes_become_safe_for_a_terminal(void **state)
{
	static const char in[] = "a\x1b[2J\x7f\n\t\xc3\xa4\xc2\x9b\xff\xed\xa0\x80";
	struct rk_str s RK_CLEANUP_STR = RK_STR_INIT;

	(void)state;
	rk_str_add_escaped(&s, in, sizeof(in)); /* with its NUL */
	assert_string_equal(rk_str_text(&s), "a\\x1b[2J\\x7f\\n\\t\xc3\xa4\\xc2\\x9b\\xff\\xed\\xa0\\x80\\x00");
	rk_str_reset(&s);
	rk_str_add_lines(&s, "\x1b\n\na\xe2\x80\xae\n");
	assert_string_equal(rk_str_text(&s), "\\x1b\n\na\\xe2\\x80\\xae\n");
}

static void utf8_is_judged_by_the_standard(void **state)
{
	static const struct {
		const char *text;
		size_t good;
	} rows[] = { { "abc", 3 }, { "\xc3\xa4", 2 }, { "a\xc0\x80", 1 }, { "\xed\xa0\x80", 0 }, { "\xf4\x90\x80\x80", 0 }, { "\xf0\x9f\x98\x80", 4 }, { "ab\xe2\x82", 2 } };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++)
		assert_int_equal(rk_utf8_valid(rows[i].text, strlen(rows[i].text)), rows[i].good);
}

static void names_are_dns_labels(void **state)
{
	static const char *const good[] = { "a", "r01-t01", "9", "a-b-c" };
	static const char *const bad[] = { "", "-a", "a-", "A", "a_b", "a.b", "a b", "\xc3\xa4", "a/b", "a;b",
					   "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(good); i++)
		assert_true(rk_name_valid(good[i]));
	for (size_t i = 0; i < RK_ARRAY_SIZE(bad); i++)
		assert_false(rk_name_valid(bad[i]));
}

static void numbers_are_whole_strings(void **state)
{
	static const char *const bad_u64[] = { "", " 1", "+1", "-1", "1 ", "0x", "1x", "18446744073709551616", "0x10000000000000000", "1.0" };
	static const char *const bad_double[] = { "", " 1", "nan", "inf", "1e999", "1,5", "x" };
	uint64_t u;
	double d;

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(bad_u64); i++)
		assert_false(rk_parse_u64(bad_u64[i], &u));
	for (size_t i = 0; i < RK_ARRAY_SIZE(bad_double); i++)
		assert_false(rk_parse_double(bad_double[i], &d));
	assert_true(rk_parse_u64("0xffffffffffffffff", &u) && u == UINT64_MAX);
	assert_true(rk_parse_u64("010", &u) && u == 10);
	assert_true(rk_parse_double("-1.5e3", &d) && d == -1500.0);
}

static void a_typing_error_finds_its_neighbour(void **state)
{
	static const char *const names[] = { "cluster", "tenant", "tray" };

	(void)state;
	assert_string_equal(rk_near_name("clutser", names, 3), "cluster");
	assert_string_equal(rk_near_name("tary", names, 3), "tray");
	assert_null(rk_near_name("zebra", names, 3));
	assert_null(rk_near_name("x", names, 0));
	char word[500];
	memset(word, 'a', sizeof(word) - 1);
	word[sizeof(word) - 1] = '\0';
	assert_null(rk_near_name(word, names, 3));
}

static void strings_grow_and_change_owner(void **state)
{
	struct rk_str s RK_CLEANUP_STR = RK_STR_INIT;

	(void)state;
	assert_string_equal(rk_str_text(&s), "");
	for (int i = 0; i < 1000; i++)
		rk_str_addf(&s, "%03d", i);
	assert_int_equal(s.len, 3000);
	assert_memory_equal(rk_str_text(&s) + 2997, "999", 4);
	char *owned RK_CLEANUP_FREE = rk_str_steal(&s);
	assert_int_equal(strlen(owned), 3000);
	assert_int_equal(s.len, 0);
}

/* ---- memory and maps ------------------------------------------------------------------------------------------------------- */

static void arena_memory_is_zeroed_aligned_and_apart(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	char *last = NULL;

	(void)state;
	for (size_t size = 1; size < 3000000; size = size * 2 + 1) {
		char *p = rk_arena_alloc(arena, size);
		assert_int_equal((uintptr_t)p % _Alignof(max_align_t), 0);
		for (size_t i = 0; i < size; i++)
			assert_true(p[i] == 0);
		memset(p, 0xee, size);
		assert_ptr_not_equal(p, last);
		last = p;
	}
	assert_string_equal(rk_arena_printf(arena, "%s-%d", "x", 7), "x-7");
	assert_null(rk_arena_strdup(arena, NULL));
	assert_true(rk_arena_bytes(arena) >= 3000000);
}

static void maps_hold_what_was_added_once(void **state)
{
	struct rk_map *map RK_CLEANUP_MAP = rk_map_new(), *ids RK_CLEANUP_MAP = rk_map_new();
	char key[32];
	size_t v;

	(void)state;
	for (size_t i = 0; i < 20000; i++) {
		snprintf(key, sizeof(key), "r%02zu-t%02zu", i / 18, i % 18);
		assert_true(rk_map_add(map, key, i, NULL));
		assert_true(rk_map_add_u64(ids, (uint64_t)i << 32, i, NULL));
	}
	assert_int_equal(rk_map_count(map), 20000);
	assert_false(rk_map_add(map, "r00-t05", 99, &v));
	assert_int_equal(v, 5);
	rk_map_set(map, "r00-t05", 99);
	assert_true(rk_map_get(map, "r00-t05", &v) && v == 99);
	assert_true(rk_map_get_u64(ids, (uint64_t)19999 << 32, &v) && v == 19999);
	assert_false(rk_map_get_u64(ids, 1, &v));
	assert_false(rk_map_get(map, "", &v));
	assert_true(rk_map_add(map, "", 1, NULL));
}

/* ---- files, time, trace ---------------------------------------------------------------------------------------------------- */

static void make_folder(char path[64])
{
	snprintf(path, 64, "/tmp/racksh-test-XXXXXX");
	assert_non_null(mkdtemp(path));
}

static void files_are_bounded_and_replaced_whole(void **state)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	char folder[64], file[128], *text RK_CLEANUP_FREE = NULL;
	struct stat st;
	size_t len;

	(void)state;
	make_folder(folder);
	snprintf(file, sizeof(file), "%s/a/b/file", folder);
	char *parent RK_CLEANUP_FREE = rk_xasprintf("%s/a/b", folder);
	assert_int_equal(rk_mkdirs(parent, &err), 0);
	assert_int_equal(rk_mkdirs(parent, &err), 0);
	assert_int_equal(rk_file_read(file, 100, &text, &len, &err), RK_NOT_FOUND);
	assert_int_equal(rk_file_write(file, "old old", 7, 0600, &err), 0);
	assert_int_equal(rk_file_write(file, "new", 3, 0600, &err), 0);
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(rk_file_read(file, 2, &text, &len, &err), RK_INVALID);
	assert_int_equal(rk_file_read(folder, 100, &text, &len, &err), RK_INVALID);
	assert_int_equal(rk_file_read(file, 3, &text, &len, &err), 0);
	assert_int_equal(len, 3);
	assert_string_equal(text, "new");
	assert_int_equal(rk_file_write("/nowhere/at/all", "x", 1, 0600, &err), RK_NOT_FOUND);
	unlink(file);
	rmdir(parent);
	*strrchr(parent, '/') = '\0';
	rmdir(parent);
	assert_int_equal(rmdir(folder), 0); /* nothing was left behind */
}

static void virtual_time_passes_without_waiting(void **state)
{
	struct rk_clock *clock = rk_clock_virtual(1796015533000);
	char buf[32];

	(void)state;
	int64_t before = rk_clock_ms(clock);
	rk_clock_sleep_ms(clock, 3600000);
	assert_int_equal(rk_clock_ms(clock) - before, 3600000);
	assert_string_equal(rk_time_iso(rk_clock_unix_ms(clock), buf), "2026-11-30T06:12:13Z");
	rk_clock_free(clock);
	assert_true(rk_clock_unix_ms(NULL) > 1600000000000);
}

static void a_trace_shows_every_line_escaped(void **state)
{
	char folder[64], file[128], *text RK_CLEANUP_FREE = NULL;
	size_t len;

	(void)state;
	make_folder(folder);
	snprintf(file, sizeof(file), "%s/trace", folder);
	struct rk_trace *trace = rk_trace_open(file);
	assert_non_null(trace);
	rk_trace_add(trace, "ssh", "r01-t01", "one\ntwo \x1b[31m");
	rk_trace_add(NULL, "ssh", "r01-t01", "off");
	rk_trace_close(trace);
	assert_int_equal(rk_file_read(file, 1 << 20, &text, &len, NULL), 0);
	assert_non_null(strstr(text, "r01-t01"));
	assert_non_null(strstr(text, "two \\x1b[31m"));
	assert_null(strchr(text, '\x1b'));
	assert_null(strstr(text, "off"));
	unlink(file);
	assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(classes_are_the_exit_codes),
		cmocka_unit_test(an_error_collects_context_hint_and_details),
		cmocka_unit_test(a_caller_may_want_the_class_only),
		cmocka_unit_test(remote_bytes_become_safe_for_a_terminal),
		cmocka_unit_test(utf8_is_judged_by_the_standard),
		cmocka_unit_test(names_are_dns_labels),
		cmocka_unit_test(numbers_are_whole_strings),
		cmocka_unit_test(a_typing_error_finds_its_neighbour),
		cmocka_unit_test(strings_grow_and_change_owner),
		cmocka_unit_test(arena_memory_is_zeroed_aligned_and_apart),
		cmocka_unit_test(maps_hold_what_was_added_once),
		cmocka_unit_test(files_are_bounded_and_replaced_whole),
		cmocka_unit_test(virtual_time_passes_without_waiting),
		cmocka_unit_test(a_trace_shows_every_line_escaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
