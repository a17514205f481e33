#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/contract/random_site.h"
#include "tests/contract/store_site.h"

/* What must hold for any site, not only for those that somebody thought of. */

enum { SITES = 300 };

static struct rk_site *parsed(const char *text)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_site *site = NULL;

	if (rk_site_parse("random", text, strlen(text), &site, &err)) {
		for (size_t i = 0; i < err.n_details; i++)
			print_message("%s\n", err.details[i]);
		fail_msg("%s\n%s", err.message, text);
	}
	return site;
}

static char *exported(const struct rk_site *site)
{
	struct rk_str out = RK_STR_INIT;

	rk_site_export(site, &out);
	return rk_str_steal(&out);
}

static void an_exported_site_imports_as_it_was(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= SITES; seed++) {
		struct random_site r;
		random_site(&r, seed);
		RK_CLEANUP_SITE struct rk_site *site = parsed(rk_str_text(&r.text));
		char *once RK_CLEANUP_FREE = exported(site);
		RK_CLEANUP_SITE struct rk_site *again = parsed(once);
		char *twice RK_CLEANUP_FREE = exported(again);
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct rk_site_change *changes;
		size_t n;
		assert_string_equal(once, twice);
		rk_site_diff(site, again, arena, &changes, &n);
		assert_int_equal(n, 0);
		assert_int_equal(site->n_parts, again->n_parts);
		rk_str_clear(&r.text);
	}
}

static void a_stored_site_is_read_back_as_it_was(void **state)
{
	static const struct rk_actor actor = { "alice", "console", 4711 };

	(void)state;
	for (unsigned seed = 1; seed <= SITES / 5; seed++) {
		struct random_site r;
		RK_CLEANUP_STORE struct rk_store *store = NULL;
		RK_CLEANUP_SITE struct rk_site *back = NULL;
		random_site(&r, seed * 7919);
		RK_CLEANUP_SITE struct rk_site *site = parsed(rk_str_text(&r.text));
		must(rk_store_open("mem:", RK_STORE_WRITE, &actor, &store, &err));
		must(rk_store_put_site(store, site, &err));
		must(rk_store_snapshot(store, &back, &err));
		char *a RK_CLEANUP_FREE = exported(site), *b RK_CLEANUP_FREE = exported(back);
		assert_string_equal(a, b);
		rk_str_clear(&r.text);
	}
}

static bool same_hca(const struct rk_hca *a, const struct rk_hca *b)
{
	return a->tray == b->tray && a->rail == b->rail && a->fabric == b->fabric && a->port_guid == b->port_guid && rk_streq(a->pci, b->pci) &&
	       rk_streq(a->leaf, b->leaf) && a->leaf_port == b->leaf_port;
}

/* What an export leaves out, because the profile says it or the twin made it up, is there, too. */
static void the_first_snapshot_of_a_store_that_is_made_later_is_what_is_read_then(void **state)
{
	static const struct rk_actor actor = { "alice", "console", 4711 };

	(void)state;
	for (unsigned seed = 1; seed <= SITES / 5; seed++) {
		struct random_site r;
		random_site(&r, seed * 7919);
		RK_CLEANUP_SITE struct rk_site *site = parsed(rk_str_text(&r.text)), *first = NULL, *after = NULL;
		rk_site_invent(site);
		RK_CLEANUP_STORE struct rk_store *store = rk_store_begun_with(site, &actor);
		struct rk_op_row *ops = NULL;
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		size_t n;
		must(rk_store_snapshot(store, &first, &err));
		must(rk_store_op_list(store, arena, &ops, &n, &err)); /* makes it */
		must(rk_store_snapshot(store, &after, &err));
		char *a RK_CLEANUP_FREE = exported(first), *b RK_CLEANUP_FREE = exported(after);
		assert_string_equal(a, b);
		assert_int_equal(first->revision, after->revision);
		assert_int_equal(first->n_hcas, after->n_hcas);
		for (size_t i = 0; i < first->n_hcas; i++)
			assert_true(same_hca(&first->hcas[i], &after->hcas[i]));
		for (size_t i = 0; i < first->n_trays; i++)
			assert_int_equal(rk_tray_state(first, (int)i), rk_tray_state(after, (int)i));
		for (size_t i = 0; i < first->n_racks; i++)
			assert_int_equal(first->racks[i].nvl_per_tray, after->racks[i].nvl_per_tray);
		rk_str_clear(&r.text);
	}
}

static void a_change_of_a_store_that_was_not_made_yet_stays(void **state)
{
	static const struct rk_actor actor = { "alice", "console", 4711 };
	struct random_site r;

	(void)state;
	random_site(&r, 17);
	RK_CLEANUP_SITE struct rk_site *site = parsed(rk_str_text(&r.text)), *after = NULL;
	RK_CLEANUP_STORE struct rk_store *store = rk_store_begun_with(site, &actor);
	must(rk_store_begin(store, 1, &err)); /* planned against the first snapshot */
	must(rk_store_set_tray_cordon(store, site->trays[0].name, "fan", &err));
	must(rk_store_commit(store, &err));
	must(rk_store_snapshot(store, &after, &err));
	assert_string_equal(after->trays[0].cordon, "fan");
	assert_int_equal(after->revision, 2);
	rk_str_clear(&r.text);
}

/* One value is changed: the difference names it, and nothing else. */
static void a_difference_is_told_value_by_value(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= SITES / 5; seed++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct rk_site_change *changes;
		struct random_site r;
		size_t n;
		random_site(&r, seed * 104729);
		RK_CLEANUP_SITE struct rk_site *a = parsed(rk_str_text(&r.text)), *b = parsed(rk_str_text(&r.text));
		size_t tray = seed % b->n_trays;
		b->trays[tray].serial = "SN-other";
		rk_site_diff(a, b, arena, &changes, &n);
		assert_int_equal(n, 1);
		assert_string_equal(changes[0].object, a->trays[tray].name);
		assert_string_equal(changes[0].field, "serial");
		assert_string_equal(changes[0].to, "SN-other");
		rk_str_clear(&r.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_exported_site_imports_as_it_was),
		cmocka_unit_test(a_stored_site_is_read_back_as_it_was),
		cmocka_unit_test(the_first_snapshot_of_a_store_that_is_made_later_is_what_is_read_then),
		cmocka_unit_test(a_change_of_a_store_that_was_not_made_yet_stays),
		cmocka_unit_test(a_difference_is_told_value_by_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
