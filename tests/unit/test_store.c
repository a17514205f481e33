#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inventory/base/file.h"
#include "inventory/store_impl.h"
#include "tests/contract/pg.h"
#include "tests/contract/store_site.h"

/* What is particular to a file on disk, and the free numbers of a snapshot. */

static char folder[] = "/tmp/racksh-file-XXXXXX";
static const struct rk_actor actor = { "alice", "console", 4711 };

static char *uri_of(const char *name)
{
	return rk_xasprintf("sqlite:%s/%s", folder, name);
}

static struct rk_store *open_mode(const char *uri, enum rk_store_mode mode)
{
	struct rk_store *store = NULL;

	must(rk_store_open(uri, mode, &actor, &store, &err));
	return store;
}

static void make_site(const char *uri)
{
	RK_CLEANUP_STORE struct rk_store *store = open_mode(uri, RK_STORE_WRITE);
	RK_CLEANUP_SITE struct rk_site *site = site_of_tests();

	must(rk_store_put_site(store, site, &err));
}

static void a_missing_file_reads_as_an_empty_site_and_stays_missing(void **state)
{
	char *uri RK_CLEANUP_FREE = uri_of("none/deep/site.db");
	RK_CLEANUP_SITE struct rk_site *site = NULL;
	struct stat st;

	(void)state;
	RK_CLEANUP_STORE struct rk_store *store = open_mode(uri, RK_STORE_READ), *writer = open_mode(uri, RK_STORE_WRITE);
	must(rk_store_snapshot(store, &site, &err));
	assert_int_equal(site->n_trays, 0);
	assert_int_equal(site->revision, 0);
	assert_int_equal(rk_find_rack(site, "k1"), RK_NONE);
	refused(rk_store_add_tenant(store, "heron", &err), RK_INVALID, "reading only");
	assert_int_equal(stat(uri + strlen("sqlite:"), &st), -1);

	must(rk_store_begin(writer, 0, &err));
	must(rk_store_add_tenant(writer, "heron", &err));
	must(rk_store_commit(writer, &err));
	assert_int_equal(stat(uri + strlen("sqlite:"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	char *parent RK_CLEANUP_FREE = rk_xasprintf("%s/none/deep", folder);
	assert_int_equal(stat(parent, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
}

static void several_first_changes_at_once_make_one_store(void **state)
{
	enum { MAKERS = 8 };
	char *uri RK_CLEANUP_FREE = uri_of("new/at/once.db");
	RK_CLEANUP_SITE struct rk_site *site = NULL;
	pid_t pids[MAKERS];

	(void)state;
	for (int i = 0; i < MAKERS; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			char tenant[] = { 't', (char)('0' + i), '\0' };
			struct rk_store *store = open_mode(uri, RK_STORE_WRITE);
			struct rk_err err = RK_ERR_INIT;
			int rc = rk_store_add_tenant(store, tenant, &err);
			if (rc)
				fprintf(stderr, "%s\n", err.message);
			rk_store_close(store);
			_exit(rc != 0);
		}
	}
	for (int i = 0; i < MAKERS; i++) {
		int status = -1;
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	RK_CLEANUP_STORE struct rk_store *store = open_mode(uri, RK_STORE_READ);
	must(rk_store_snapshot(store, &site, &err));
	assert_int_equal(site->n_tenants, MAKERS);
	assert_int_equal(site->revision, MAKERS);
}

static void other_files_are_not_taken_for_a_store(void **state)
{
	char *text RK_CLEANUP_FREE = uri_of("text"), *under RK_CLEANUP_FREE = uri_of("text/site.db"), *place RK_CLEANUP_FREE = rk_xasprintf("sqlite:%s", folder);
	struct rk_store *store = NULL;

	(void)state;
	must(rk_file_write(text + strlen("sqlite:"), "these are not the bytes of a database", 37, 0600, &err));
	refused(rk_store_open(text, RK_STORE_READ, &actor, &store, &err), RK_FAILED, "not a racksh store");
	refused(rk_store_open(text, RK_STORE_WRITE, &actor, &store, &err), RK_FAILED, "not a racksh store");
	refused(rk_store_open(place, RK_STORE_WRITE, &actor, &store, &err), RK_FAILED, "cannot");
	refused(rk_store_open("oracle:x", RK_STORE_READ, &actor, &store, &err), RK_INVALID, "unknown kind of store \"oracle\"");
	refused(rk_store_open("sqlite:", RK_STORE_WRITE, &actor, &store, &err), RK_INVALID, "names no file");
	RK_CLEANUP_STORE struct rk_store *below = open_mode(under, RK_STORE_WRITE);
	refused(rk_store_add_tenant(below, "heron", &err), RK_FAILED, "cannot");
}

/* Overwrites (or with len 0 cuts) a file from an offset on. */
static void harm(const char *path, off_t offset, size_t len)
{
	char junk[4096];
	int fd RK_CLEANUP_FD = open(path, O_RDWR);

	memset(junk, 0xa5, sizeof(junk));
	assert_true(fd >= 0);
	if (!len)
		assert_int_equal(ftruncate(fd, offset), 0);
	for (; len; len -= sizeof(junk), offset += (off_t)sizeof(junk))
		assert_int_equal(pwrite(fd, junk, sizeof(junk), offset), (ssize_t)sizeof(junk));
}

static void damage_is_found_and_said(void **state)
{
	char *uri RK_CLEANUP_FREE = uri_of("damaged.db"), *cut RK_CLEANUP_FREE = uri_of("cut.db");
	struct rk_site *site = NULL;
	struct stat st;

	(void)state;
	make_site(uri);
	make_site(cut);
	assert_int_equal(stat(uri + strlen("sqlite:"), &st), 0);
	harm(uri + strlen("sqlite:"), st.st_size * 3 / 4 / 4096 * 4096, 8 * 4096);
	RK_CLEANUP_STORE struct rk_store *store = open_mode(uri, RK_STORE_READ);
	refused(rk_store_check(store, &err), RK_UNHEALTHY, "is damaged");

	harm(cut + strlen("sqlite:"), st.st_size / 3, 0);
	struct rk_store *half = NULL;
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	int rc = rk_store_open(cut, RK_STORE_READ, &actor, &half, &err);
	rc = rc ? rc : rk_store_snapshot(half, &site, &err);
	assert_int_equal(rc, RK_FAILED);
	assert_non_null(strstr(err.message, "damaged"));
	assert_non_null(err.hint);
	rk_store_close(half);
}

/* A check gives a verdict on whatever is there: sound, damaged, or cannot be told. */
static void a_store_too_damaged_to_open_is_still_judged(void **state)
{
	char *uri RK_CLEANUP_FREE = uri_of("judged.db"), *none RK_CLEANUP_FREE = uri_of("judged-none.db"), *old RK_CLEANUP_FREE = uri_of("judged-old.db");
	char *place RK_CLEANUP_FREE = rk_xasprintf("sqlite:%s", folder), *server RK_CLEANUP_FREE = rk_xasprintf("postgresql:///x?host=%s/none", folder);
	const char *path = uri + strlen("sqlite:");
	RK_CLEANUP_DB struct rk_db *db = NULL;
	struct stat st;

	(void)state;
	make_site(uri);
	must(rk_store_examine(uri, &err));
	assert_int_equal(stat(path, &st), 0);
	harm(path, st.st_size / 2 / 4096 * 4096, 4 * 4096);
	refused(rk_store_examine(uri, &err), RK_UNHEALTHY, "is damaged");
	harm(path, st.st_size / 4, 0);
	refused(rk_store_examine(uri, &err), RK_UNHEALTHY, "damaged");
	harm(path, 0, 4096);
	refused(rk_store_examine(uri, &err), RK_UNHEALTHY, "is damaged");
	harm(path, 50, 0);
	refused(rk_store_examine(uri, &err), RK_UNHEALTHY, "damaged");
	refused(rk_store_examine(none, &err), RK_UNREACHABLE, "there is no store");
	refused(rk_store_examine(place, &err), RK_UNREACHABLE, "cannot open");
	must(rk_db_open(old, true, &db, &err));
	must(rk_store_apply_schema(db, 1, &err));
	refused(rk_store_examine(old, &err), RK_UNREACHABLE, "has schema 1");
#ifdef RK_WITH_LIBPQ
	refused(rk_store_examine(server, &err), RK_UNREACHABLE, "");
#endif
}

/* Runs a function as an ordinary user (the permissions of root hide what is tested); its exit code is the result. */
static int as_nobody(int (*fn)(const char *uri), const char *uri)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setgid(PG_NOBODY) < 0 || setuid(PG_NOBODY) < 0))
			_exit(99);
		_exit(fn(uri));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int read_only_folder(const char *uri)
{
	struct rk_store *store = NULL;
	struct rk_site *site = NULL;
	struct rk_err err = RK_ERR_INIT;

	if (rk_store_open(uri, RK_STORE_READ, &actor, &store, &err) || rk_store_snapshot(store, &site, &err) || site->n_racks != 4) {
		fprintf(stderr, "%s\n", err.message ? err.message : "racks are missing");
		return 1;
	}
	rk_store_close(rk_steal(&store));
	int rc = rk_store_open(uri, RK_STORE_WRITE, &actor, &store, &err);
	rc = rc ? rc : rk_store_add_tenant(store, "wren", &err);
	return rc == RK_FAILED && err.message && err.hint ? 0 : 2;
}

static void a_read_only_folder_can_be_read_and_says_why_it_cannot_be_written(void **state)
{
	char *place RK_CLEANUP_FREE = rk_xasprintf("%s/ro", folder), *uri RK_CLEANUP_FREE = uri_of("ro/site.db");

	(void)state;
	make_site(uri);
	assert_int_equal(chmod(uri + strlen("sqlite:"), 0444), 0);
	assert_int_equal(chmod(place, 0555), 0);
	assert_int_equal(chmod(folder, 0755), 0);
	assert_int_equal(as_nobody(read_only_folder, uri), 0);
	assert_int_equal(chmod(place, 0700), 0);
}

static void what_was_committed_survives_sudden_death(void **state)
{
	char *uri RK_CLEANUP_FREE = uri_of("killed.db");
	int status;

	(void)state;
	make_site(uri);
	pid_t pid = fork();
	if (pid == 0) {
		struct rk_store *store = open_mode(uri, RK_STORE_WRITE);
		int64_t op;
		rk_store_op_add(store, "cluster create a", "{}", &op, NULL);
		rk_store_begin(store, -1, NULL);
		rk_store_set_tray_cordon(store, "k1-t01", "never committed", NULL);
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	RK_CLEANUP_STORE struct rk_store *store = open_mode(uri, RK_STORE_WRITE);
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	RK_CLEANUP_SITE struct rk_site *site = NULL;
	struct rk_op_row *ops;
	size_t n;
	must(rk_store_op_list(store, arena, &ops, &n, &err));
	assert_int_equal(n, 1);
	must(rk_store_snapshot(store, &site, &err));
	assert_null(site->trays[0].cordon);
	must(rk_store_add_tenant(store, "wren", &err));
}

/* A limit on the size of files is as good as a full disk. */
static int full_disk(const char *uri)
{
	RK_CLEANUP_STORE struct rk_store *store = open_mode(uri, RK_STORE_WRITE);
	struct rk_err err = RK_ERR_INIT;
	char text[8192];
	int rc = 0;

	signal(SIGXFSZ, SIG_IGN);
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	const struct rlimit limit = { 512 * 1024, 512 * 1024 };
	if (setrlimit(RLIMIT_FSIZE, &limit) < 0 || rk_store_add_tenant(store, "wren", NULL))
		return 1;
	for (int i = 0; i < 500 && !rc; i++)
		rc = rk_store_audit(store, text, "done", 0, &err);
	return rc == RK_FAILED && err.hint ? 0 : 2;
}

static void a_full_disk_is_said_and_loses_nothing(void **state)
{
	char *uri RK_CLEANUP_FREE = uri_of("full.db");
	RK_CLEANUP_SITE struct rk_site *site = NULL;
	int status = -1;

	(void)state;
	make_site(uri);
	pid_t pid = fork();
	if (pid == 0)
		_exit(full_disk(uri));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	RK_CLEANUP_STORE struct rk_store *store = open_mode(uri, RK_STORE_WRITE);
	must(rk_store_check(store, &err));
	must(rk_store_snapshot(store, &site, &err));
	assert_true(rk_find_tenant(site, "wren") >= 0);
	must(rk_store_audit(store, "again", "done", 0, &err));
}

static void a_password_is_never_shown(void **state)
{
	char *no_server RK_CLEANUP_FREE = rk_xasprintf("postgresql://bob:secret@/x?host=%s&password=hidden", folder);
	struct rk_store *store = NULL;
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;

	(void)state;
	assert_int_not_equal(rk_store_open(no_server, RK_STORE_READ, &actor, &store, &err), 0);
	assert_null(strstr(err.message, "secret"));
	assert_null(strstr(err.message, "hidden"));
#ifdef RK_WITH_LIBPQ
	assert_int_equal(err.rc, RK_UNREACHABLE);
	assert_non_null(err.hint);
#endif
}

static void free_numbers_are_the_smallest_unused(void **state)
{
	RK_CLEANUP_SITE struct rk_site *site = site_of_tests(), *used = NULL;
	RK_CLEANUP_STORE struct rk_store *store = open_mode("mem:", RK_STORE_WRITE);
	uint16_t pkey;
	int id;

	(void)state;
	must(rk_store_put_site(store, site, &err));
	add_cluster(store, "a", "heron", 0);
	must(rk_store_add_nvl_partition(store, "k1", 1, "a", "a", &err));
	must(rk_store_add_nvl_partition(store, "k1", 3, "a", "a", &err));
	must(rk_store_add_ib_partition(store, "ib0", 0x100, "a", "a", true, &err));
	must(rk_store_snapshot(store, &used, &err));
	must(rk_store_free_nvl_id(used, 0, &id, &err));
	assert_int_equal(id, 2);
	must(rk_store_free_nvl_id(used, 1, &id, &err));
	assert_int_equal(id, 1);
	must(rk_store_free_pkey(used, 0, &pkey, &err));
	assert_int_equal(pkey, 0x101);
	used->fabrics[0].pkey_last = 0x100;
	refused(rk_store_free_pkey(used, 0, &pkey, &err), RK_NO_CAPACITY, "0x0100-0x0100");
}

static void free_addresses_leave_out_gateway_broadcast_and_vms(void **state)
{
	static const struct {
		const char *block, *gateway;
		size_t nth;
		const char *gives; /* NULL: no capacity */
	} rows[] = {
		{ "10.44.0.0/24", "10.44.0.11", 0, "10.44.0.10" }, { "10.44.0.0/24", "10.44.0.11", 1, "10.44.0.12" },
		{ "10.44.0.0/24", "10.44.0.11", 8, "10.44.0.19" }, { "10.44.0.0/24", "10.44.0.11", 9, "10.44.0.21" },
		{ "10.44.0.77/24", NULL, 0, "10.44.0.10" },	   { "10.44.0.0/24", NULL, 243, "10.44.0.254" },
		{ "10.44.0.0/24", NULL, 244, NULL },		   { "10.44.0.0/29", NULL, 0, NULL },
		{ "10.44.0.0/16", NULL, 246, "10.44.1.1" },	   { "fd00:7::/64", NULL, 0, "fd00:7::a" },
	};
	RK_CLEANUP_SITE struct rk_site *site = site_of_tests(), *used = NULL;
	RK_CLEANUP_STORE struct rk_store *store = open_mode("mem:", RK_STORE_WRITE);
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();

	(void)state;
	must(rk_store_put_site(store, site, &err));
	add_cluster(store, "a", "heron", 0);
	must(try_vm(store, site, "a", 1, 0, &err)); /* 10.44.0.20 */
	must(rk_store_snapshot(store, &used, &err));
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		const char *got = NULL;
		used->network.addresses = rows[i].block;
		used->network.gateway = rows[i].gateway;
		/* With the gateway .11 and the VM .20 out of the way where they lie below. */
		int rc = rk_store_free_address(used, rows[i].nth, arena, &got, NULL);
		assert_int_equal(rc, rows[i].gives ? 0 : RK_NO_CAPACITY);
		if (rows[i].gives)
			assert_string_equal(got, rows[i].gives);
	}
	used->network.addresses = NULL;
	const char *none = NULL;
	refused(rk_store_free_address(used, 0, arena, &none, &err), RK_NO_CAPACITY, "no block");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_missing_file_reads_as_an_empty_site_and_stays_missing),
		cmocka_unit_test(several_first_changes_at_once_make_one_store),
		cmocka_unit_test(other_files_are_not_taken_for_a_store),
		cmocka_unit_test(damage_is_found_and_said),
		cmocka_unit_test(a_store_too_damaged_to_open_is_still_judged),
		cmocka_unit_test(a_read_only_folder_can_be_read_and_says_why_it_cannot_be_written),
		cmocka_unit_test(what_was_committed_survives_sudden_death),
		cmocka_unit_test(a_full_disk_is_said_and_loses_nothing),
		cmocka_unit_test(a_password_is_never_shown),
		cmocka_unit_test(free_numbers_are_the_smallest_unused),
		cmocka_unit_test(free_addresses_leave_out_gateway_broadcast_and_vms),
	};

	if (!mkdtemp(folder))
		return 1;
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	nftw(folder, pg_unlink, 16, FTW_DEPTH | FTW_PHYS);
	return failed;
}
