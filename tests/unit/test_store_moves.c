#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "inventory/base/clock.h"
#include "inventory/base/file.h"
#include "inventory/store_impl.h"
#include "tests/contract/store_kinds.h"

/* A store as a whole: checked, copied, moved, of an older schema, without its server. */

static void a_sound_store_passes_its_check_and_its_backup_opens(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/backup-%d", folder, ++made), *uri RK_CLEANUP_FREE = rk_xasprintf("sqlite:%s", path);
	RK_CLEANUP_STR struct rk_str a = RK_STR_INIT, b = RK_STR_INIT;
	struct stat st;

	add_cluster(f->store, "a", "heron", 0);
	must(try_vm(f->store, f->site, "a", 1, 0, &err));
	must(rk_store_set_tray_cordon(f->store, "k1-t02", "fan", &err));
	must(rk_store_check(f->store, &err));
	must(rk_store_backup(f->store, path, &err));
	refused(rk_store_backup(f->store, path, &err), RK_INVALID, "File exists");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	RK_CLEANUP_STORE struct rk_store *copy = open_as(uri, &bob, RK_STORE_WRITE);
	RK_CLEANUP_SITE struct rk_site *s = snapshot(copy), *original = snapshot(f->store);
	rk_site_export(s, &a);
	rk_site_export(original, &b);
	assert_string_equal(rk_str_text(&a), rk_str_text(&b));
	assert_int_equal(s->revision, original->revision);
	assert_string_equal(s->trays[1].cordon, "fan");
	must(rk_store_check(copy, &err));
	refused(try_vm(copy, f->site, "a", 2, 0, &err), RK_CONFLICT, "is held by VM a-01");
	must(try_vm(copy, f->site, "a", 2, 2, &err));
}

static void a_lost_server_is_said_and_found_again(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	struct rk_site *never = NULL;

	must(rk_store_begin(f->store, -1, &err));
	must(rk_store_set_tray_cordon(f->store, "k1-t01", "lost", &err));
	pg_signal(&pg, "stop");
	refused(rk_store_commit(f->store, &err), RK_UNREACHABLE, "does not answer");
	refused(rk_store_snapshot(f->store, &never, &err), RK_UNREACHABLE, "does not answer");
	pg_signal(&pg, "start");
	RK_CLEANUP_SITE struct rk_site *s = snapshot(f->store);
	assert_null(s->trays[0].cordon);
	must(rk_store_set_tray_cordon(f->store, "k1-t01", "found", &err));
}

static char *older_store(const struct kind *kind, const char *fixture)
{
	char *uri = new_uri(kind);

	if (kind == &sqlite) {
		char *folder_of RK_CLEANUP_FREE = rk_xstrdup(uri + strlen("sqlite:"));
		*strrchr(folder_of, '/') = '\0';
		must(rk_mkdirs(folder_of, &err));
	}
	load_older_store(uri, fixture);
	return uri;
}

/* Each file is what a racksh of that schema really left; the newest is kept here for the day when it is no longer that. No racksh was ever
 * given out with schema 3 (it was completed together with 4), 7 or 8 (together with 9). */
static void an_older_schema_is_refused_until_it_is_migrated(void **state)
{
	static const struct {
		const char *file, *site, *tray, *free;
		int schema, revision;
	} olds[] = { { "tests/fixtures/store/schema-1.sql", "fen-3", "f1-t02", "f1-t01", 1, 41 },
		     { "tests/fixtures/store/schema-2.sql", "fen-4", "f1-t01", "f1-t03", 2, 23 },
		     { "tests/fixtures/store/schema-4.sql", "fen-5", "f1-t01", "f1-t03", 4, 9 },
		     { "tests/fixtures/store/schema-5.sql", "fen-6", "f1-t01", "f1-t03", 5, 10 },
		     { "tests/fixtures/store/schema-6.sql", "fen-7", "f1-t01", "f1-t03", 6, 9 },
		     { "tests/fixtures/store/schema-9.sql", "fen-8", "f1-t01", "f1-t02", 9, 11 },
		     { "tests/fixtures/store/schema-10.sql", "fen-9", "f1-t01", "f1-t02", 10, 11 } };
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	int from, to;

	for (size_t i = 0; i < RK_ARRAY_SIZE(olds); i++) {
		char *uri RK_CLEANUP_FREE = older_store(f->kind, olds[i].file), *says RK_CLEANUP_FREE = rk_xasprintf("has schema %d, this racksh needs schema %d", olds[i].schema, rk_store_newest_schema());
		struct rk_site *none = NULL;
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct rk_usage_row *used;
		size_t n;
		RK_CLEANUP_STORE struct rk_store *old = open_as(uri, &alice, RK_STORE_WRITE);
		if (olds[i].schema < rk_store_newest_schema()) {
			refused(rk_store_snapshot(old, &none, &err), RK_FAILED, says);
			refused(rk_store_begin(old, -1, &err), RK_FAILED, "has schema");
		}
		must(rk_store_migrate(old, &from, &to, &err));
		assert_int_equal(from, olds[i].schema);
		assert_int_equal(to, rk_store_newest_schema());
		RK_CLEANUP_SITE struct rk_site *s = snapshot(old);
		assert_string_equal(s->name, olds[i].site);
		assert_int_equal(s->revision, olds[i].revision);
		assert_string_equal(s->vms[0].name, "moss-01");
		assert_string_equal(s->trays[s->vms[0].tray].name, olds[i].tray);
		must(rk_store_usage(old, 0, rk_clock_unix_ms(NULL), arena, &used, &n, &err));
		assert_int_equal(n, s->n_clusters);
		must(rk_store_set_tray_cordon(old, olds[i].free, "after", &err));
		must(rk_store_check(old, &err));
		/* Again is nothing. */
		must(rk_store_migrate(old, &from, &to, &err));
		assert_int_equal(from, to);
	}
}

static int add_columns(void *ctx, const struct rk_db_row *row, struct rk_err *e)
{
	(void)e;
	rk_str_addf(ctx, "%s %s %lld %lld\n", rk_db_text(row, 0), rk_db_text(row, 1), (long long)rk_db_int(row, 2), (long long)rk_db_int(row, 3));
	return 0;
}

static void add_tables(struct rk_db *db, struct rk_str *out)
{
	for (const char *const *table = rk_store_tables; *table; table++) {
		char *sql RK_CLEANUP_FREE = rk_xasprintf("SELECT name, type, \"notnull\", pk FROM pragma_table_info('%s') ORDER BY cid", *table);
		rk_str_addf(out, "%s:\n", *table);
		must(rk_db_query(db, sql, NULL, 0, add_columns, out, &err));
	}
}

/* A new store is not migrated from the first schema on; it looks as if it had been. */
static void a_new_store_has_the_tables_of_one_that_was_migrated(void **state)
{
	struct rk_str fresh RK_CLEANUP_STR = RK_STR_INIT, migrated RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_db *a RK_CLEANUP_DB = NULL, *b RK_CLEANUP_DB = NULL;

	(void)state;
	must(rk_db_open("mem:", true, &a, &err));
	must(rk_store_apply_schema(a, rk_store_newest_schema(), &err));
	must(rk_db_open("mem:", true, &b, &err));
	for (int schema = 1; schema <= rk_store_newest_schema(); schema++)
		must(rk_store_apply_schema(b, schema, &err));
	add_tables(a, &fresh);
	add_tables(b, &migrated);
	assert_string_equal(rk_str_text(&fresh), rk_str_text(&migrated));
	assert_non_null(strstr(rk_str_text(&fresh), "host_name TEXT"));
}

/* A store with something of everything. */
static void fill(struct rk_store *store, const struct rk_site *site)
{
	int64_t op, id;

	add_cluster(store, "moss", "heron", 0);
	must(try_vm(store, site, "moss", 1, 0, &err));
	must(try_vm(store, site, "moss", 2, 5, &err));
	must(rk_store_remove_vm(store, "moss-02", &err));
	must(rk_store_add_nvl_partition(store, "k1", 7, "moss", "m\xc3\xb6ss \"x\" 'y'", &err));
	must(rk_store_add_ib_partition(store, "ib0", 0x123, "moss", "moss", true, &err));
	must(rk_store_op_add(store, "cluster create moss", "{\"type\":\"x\"}", &op, &err));
	must(rk_store_step_add(store, &(struct rk_step_row){ .op = op, .id = 1, .kind = "k", .target = "t", .params = "{}", .deps = "", .state = "done" }, &err));
	must(rk_store_op_set(store, op, "done", NULL, &err));
	must(rk_store_add_reservation(store, "osprey", "k[1-2]", 0, 1000, 2000, &id, &err));
	must(rk_store_set_tray_cordon(store, "k2-t01", "two\nlines", &err));
	must(rk_store_audit(store, "cluster create moss", "ok", op, &err));
	must(rk_store_add_silence(store, &(struct rk_silence){ .trays = "k2-t01", .checks = "ib.*", .reason = "m\xc3\xb6ss", .from_unix_ms = 1000, .to_unix_ms = 2000 }, &id, &err));
	must(rk_store_add_health_samples(store, &(struct rk_health_sample){ "k2-t01", 1000, "{}" }, 1, &err));
}

static void same_store(struct rk_store *a, struct rk_store *b)
{
	RK_CLEANUP_SITE struct rk_site *x = snapshot(a), *y = snapshot(b);
	RK_CLEANUP_STR struct rk_str p = RK_STR_INIT, q = RK_STR_INIT;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_step_row *steps;
	struct rk_audit_row *audit;
	struct rk_health_sample *samples;
	size_t n;

	rk_site_export(x, &p);
	rk_site_export(y, &q);
	assert_string_equal(rk_str_text(&p), rk_str_text(&q));
	assert_int_equal(x->revision, y->revision);
	assert_int_equal(x->n_vms, y->n_vms);
	assert_string_equal(x->vms[0].uuid, y->vms[0].uuid);
	assert_string_equal(x->nvl_partitions[0].name, y->nvl_partitions[0].name);
	assert_int_equal(x->n_reservations, y->n_reservations);
	assert_string_equal(x->trays[rk_find_tray(x, "k2-t01")].cordon, y->trays[rk_find_tray(y, "k2-t01")].cordon);
	assert_int_equal(y->n_silences, 1);
	assert_string_equal(x->silences[0].reason, y->silences[0].reason);
	assert_string_equal(x->silences[0].by, y->silences[0].by);
	must(rk_store_health_samples(b, "k2-t01", arena, &samples, &n, &err));
	assert_int_equal(n, 1);
	must(rk_store_step_list(b, 1, arena, &steps, &n, &err));
	assert_int_equal(n, 1);
	must(rk_store_audit_list(b, arena, &audit, &n, &err));
	assert_int_equal(n, 1);
	must(rk_store_check(b, &err));
}

static void a_store_moves_to_any_other_kind_and_back(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	const struct kind *const ways[] = { pg.uri ? &postgresql : &sqlite, &sqlite };

	fill(f->store, f->site);
	RK_CLEANUP_STORE struct rk_store *first = NULL, *second = NULL;
	struct rk_store **stores[] = { &first, &second }, *from = f->store;
	for (size_t i = 0; i < 2; i++) {
		char *uri RK_CLEANUP_FREE = new_uri(ways[i]);
		*stores[i] = open_as(uri, &bob, RK_STORE_WRITE);
		must(rk_store_copy(from, *stores[i], &err));
		same_store(f->store, *stores[i]);
		from = *stores[i];
	}
	/* Its counters came along: nothing is numbered twice. */
	add_cluster(second, "fern", "heron", 0);
	must(try_vm(second, f->site, "fern", 1, 9, &err));
	refused(try_vm(second, f->site, "moss", 2, 10, &err), RK_CONFLICT, "numbers are never used again");
	refused(rk_store_copy(f->store, second, &err), RK_CONFLICT, "is in use already");
	int64_t op;
	must(rk_store_op_add(f->store, "running", "{}", &op, &err));
	char *uri RK_CLEANUP_FREE = new_uri(&memory);
	RK_CLEANUP_STORE struct rk_store *third = open_as(uri, &bob, RK_STORE_WRITE);
	refused(rk_store_copy(f->store, third, &err), RK_CONFLICT, "runs in the store");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ALL(a_sound_store_passes_its_check_and_its_backup_opens),
		ALL(a_store_moves_to_any_other_kind_and_back),
		cmocka_unit_test(a_new_store_has_the_tables_of_one_that_was_migrated),
		EACH(an_older_schema_is_refused_until_it_is_migrated, sqlite),
		EACH(an_older_schema_is_refused_until_it_is_migrated, postgresql),
		EACH(a_lost_server_is_said_and_found_again, postgresql),
	};

	return run_store_tests(tests);
}
