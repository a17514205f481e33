#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inventory/base/file.h"
#include "tests/contract/store_writes.h"

/* The disk is full, at every point of every kind of write: the error is clear, the store is as before, and the same again succeeds once there is
 * room. Twice: with a limit on the size of files, and on a small tmpfs of our own that is really full, where the kernel gives us one. */

enum { NOBODY = 65534 };

static char folder[] = "/tmp/racksh-faults-XXXXXX";
/* ---- the writes ------------------------------------------------------------------------------------------------------------------------ */

/* place: the folder that is full. Each opens the store of that folder by itself, as a command does. */
struct write {
	const char *name;
	int (*run)(const char *place, struct rk_err *err);
	bool own_file;  /* writes another file than the store */
};

static char *uri_in(const char *place, const char *name)
{
	return rk_xasprintf("sqlite:%s/%s", place, name);
}

static int with_store(const char *place, int (*change)(struct rk_store *store, struct rk_err *err), struct rk_err *err)
{
	char *uri RK_CLEANUP_FREE = uri_in(place, "site.db");
	RK_CLEANUP_STORE struct rk_store *store = NULL;
	int rc = rk_store_open(uri, RK_STORE_WRITE, &writes_actor, &store, err);

	return rc ? rc : change(store, err);
}

static int run_import(const char *place, struct rk_err *err) { return with_store(place, do_import, err); }
static int run_cluster(const char *place, struct rk_err *err) { return with_store(place, do_cluster, err); }
static int run_journal(const char *place, struct rk_err *err) { return with_store(place, do_journal, err); }
static int run_step(const char *place, struct rk_err *err) { return with_store(place, do_step, err); }
static int run_lease(const char *place, struct rk_err *err) { return with_store(place, do_lease, err); }
static int run_audit(const char *place, struct rk_err *err) { return with_store(place, do_audit, err); }
static int run_cordon(const char *place, struct rk_err *err) { return with_store(place, do_cordon, err); }
static int run_fabric(const char *place, struct rk_err *err) { return with_store(place, do_fabric, err); }

static int run_first(const char *place, struct rk_err *err)
{
	char *uri RK_CLEANUP_FREE = uri_in(place, "new/first.db");
	RK_CLEANUP_STORE struct rk_store *store = NULL;
	int rc = rk_store_open(uri, RK_STORE_WRITE, &writes_actor, &store, err);

	return rc ? rc : rk_store_add_tenant(store, "first", err);
}

static int run_backup(const char *place, struct rk_err *err)
{
	char *uri RK_CLEANUP_FREE = uri_in(folder, "model/site.db"), *path RK_CLEANUP_FREE = rk_xasprintf("%s/backup.db", place);
	RK_CLEANUP_STORE struct rk_store *store = NULL;
	int rc = rk_store_open(uri, RK_STORE_READ, &writes_actor, &store, err);

	return rc ? rc : rk_store_backup(store, path, err);
}

static int run_copy(const char *place, struct rk_err *err)
{
	char *uri RK_CLEANUP_FREE = uri_in(folder, "model/site.db"), *to_uri RK_CLEANUP_FREE = uri_in(place, "copy.db");
	RK_CLEANUP_STORE struct rk_store *store = NULL, *to = NULL;
	int rc = rk_store_open(uri, RK_STORE_READ, &writes_actor, &store, err);

	if (!rc)
		rc = rk_store_open(to_uri, RK_STORE_WRITE, &writes_actor, &to, err);
	return rc ? rc : rk_store_copy(store, to, err);
}

static int run_migrate(const char *place, struct rk_err *err)
{
	char *uri RK_CLEANUP_FREE = uri_in(place, "old.db");
	RK_CLEANUP_STORE struct rk_store *store = NULL;
	int from, to, rc = rk_store_open(uri, RK_STORE_WRITE, &writes_actor, &store, err);

	return rc ? rc : rk_store_migrate(store, &from, &to, err);
}

static const struct write writes[] = {
	{ "import", run_import, false },   { "a cluster", run_cluster, false }, { "the journal", run_journal, false }, { "a step", run_step, false },
	{ "a lease", run_lease, false },   { "the audit", run_audit, false },	{ "a cordon", run_cordon, false },     { "a fabric", run_fabric, false },
	{ "the first change", run_first, true }, { "backup", run_backup, true }, { "copy", run_copy, true },	       { "migrate", run_migrate, true },
};

/* ---- the folders ------------------------------------------------------------------------------------------------------------------------ */

static void copy_file(const char *from, const char *to)
{
	char *bytes RK_CLEANUP_FREE = NULL;
	size_t len;

	must(rk_file_read(from, 64 << 20, &bytes, &len, &err));
	must(rk_file_write(to, bytes, len, 0600, &err));
}

static void clear(const char *place)
{
	DIR *dir = opendir(place);

	for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
		char *path RK_CLEANUP_FREE = rk_xasprintf("%s/%s", place, e->d_name);
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (strcmp(e->d_name, "new") == 0)
			clear(path);
		remove(path);
	}
	if (dir)
		closedir(dir);
}

/* What every write starts from: a store with a site, an operation, a cluster; one of an older schema. */
static void make_models(void)
{
	char *model RK_CLEANUP_FREE = rk_xasprintf("%s/model", folder), *uri RK_CLEANUP_FREE = uri_in(model, "site.db"), *old RK_CLEANUP_FREE = uri_in(model, "old.db");
	RK_CLEANUP_STORE struct rk_store *store = NULL;

	must(rk_mkdirs(model, &err));
	must(rk_store_open(uri, RK_STORE_WRITE, &writes_actor, &store, &err));
	fill_store(store);
	load_older_store(old, "tests/fixtures/store/schema-1.sql");
}

static void refill(const char *place)
{
	static const char *const files[] = { "site.db", "old.db" };

	clear(place);
	for (size_t i = 0; i < RK_ARRAY_SIZE(files); i++) {
		char *from RK_CLEANUP_FREE = rk_xasprintf("%s/model/%s", folder, files[i]), *to RK_CLEANUP_FREE = rk_xasprintf("%s/%s", place, files[i]);
		copy_file(from, to);
	}
}

static char *content(const char *place)
{
	char *uri RK_CLEANUP_FREE = uri_in(place, "site.db");

	return store_content(uri);
}

static bool is_there(const char *place, const char *name)
{
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/%s", place, name);

	return access(path, F_OK) == 0;
}

/* A backup is whole or not there, and nothing half made stays behind. */
static void nothing_half_made(const char *place)
{
	DIR *dir = opendir(place);

	assert_false(is_there(place, "backup.db"));
	for (struct dirent *e; (e = readdir(dir)) != NULL;)
		if (strstr(e->d_name, ".tmp."))
			fail_msg("%s was left behind", e->d_name);
	closedir(dir);
}

/* ---- no room ------------------------------------------------------------------------------------------------------------------------------ */

/* A disk with room for so many more pages; 0 or negative takes the limit away. */
struct disk {
	const char *place;
	void (*leave)(const struct disk *disk, int pages);
	void (*release)(const struct disk *disk);
	const char *words; /* of every refusal */
};

/* One write with room for so many pages. True when that was enough. */
static bool attempt(const struct disk *disk, const struct write *w, int pages)
{
	RK_CLEANUP_ERR struct rk_err said = RK_ERR_INIT;

	refill(disk->place);
	char *before RK_CLEANUP_FREE = content(disk->place);
	disk->leave(disk, pages);
	int rc = w->run(disk->place, &said);
	disk->release(disk);
	if (!rc)
		return true;
	if (rc != RK_FAILED || !said.message || !strstr(said.message, disk->words) || !said.hint)
		fail_msg("%s with %d pages: class %d, \"%s\", hint \"%s\"", w->name, pages, rc, said.message ? said.message : "", said.hint ? said.hint : "");
	char *after RK_CLEANUP_FREE = content(disk->place);
	assert_string_equal(before, after);
	nothing_half_made(disk->place);
	RK_CLEANUP_ERR struct rk_err again = RK_ERR_INIT;
	if (w->run(disk->place, &again))
		fail_msg("%s, again with room (%d pages before): %s", w->name, pages, again.message);
	return false;
}

static void sweep(const struct disk *disk)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(writes); i++) {
		int failures = 0, pages = 0;
		/* Every page near the start, where the log begins and commits are small; then larger and larger. */
		while (pages < 4096 && !attempt(disk, &writes[i], pages)) {
			failures++;
			pages += pages < 6 ? 1 : pages / 3;
		}
		if (!failures || pages >= 4096)
			fail_msg("%s: refused %d times, up to %d pages", writes[i].name, failures, pages);
	}
}

static void limit_files(const struct disk *disk, int pages)
{
	struct rlimit limit;

	(void)disk;
	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = (rlim_t)pages * 4096 + 100;
	setrlimit(RLIMIT_FSIZE, &limit);
}

static void unlimit_files(const struct disk *disk)
{
	struct rlimit limit;

	(void)disk;
	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_FSIZE, &limit);
}

static void a_file_that_cannot_grow_loses_nothing(void **state)
{
	char *place RK_CLEANUP_FREE = rk_xasprintf("%s/limited", folder);
	const struct disk disk = { place, limit_files, unlimit_files, "" };

	(void)state;
	must(rk_mkdirs(place, &err));
	signal(SIGXFSZ, SIG_IGN);
	sweep(&disk);
}

/* Takes all room but that for `pages`. */
static void fill_disk(const struct disk *disk, int pages)
{
	static const char page[4096];
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/ballast", disk->place);
	int fd RK_CLEANUP_FD = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	off_t size = 0;

	assert_true(fd >= 0);
	for (ssize_t n; (n = write(fd, page, sizeof(page))) > 0;)
		size += n;
	assert_int_equal(errno, ENOSPC);
	assert_int_equal(ftruncate(fd, size - (off_t)pages * 4096), 0);
}

static void free_disk(const struct disk *disk)
{
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/ballast", disk->place);

	unlink(path);
}

/* A file system of 4 MiB that only this process sees. */
static bool own_disk(const char *place)
{
	int flags = CLONE_NEWNS | (geteuid() ? CLONE_NEWUSER : 0);

	return unshare(flags) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && mount("tmpfs", place, "tmpfs", 0, "size=4m") == 0;
}

static void a_full_disk_loses_nothing(void **state)
{
	char *place RK_CLEANUP_FREE = rk_xasprintf("%s/full", folder);
	const struct disk disk = { place, fill_disk, free_disk, "o space left" };
	int status = -1;

	(void)state;
	must(rk_mkdirs(place, &err));
	pid_t pid = fork();
	if (pid == 0) {
		if (!own_disk(place))
			_exit(77);
		sweep(&disk);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		fprintf(stderr, "SKIPPED: no file system of our own (user namespaces are off)\n");
		skip();
	}
	assert_int_equal(status, 0);
}

/* ---- no right, no sense --------------------------------------------------------------------------------------------------------------------- */

/* In a process of an ordinary user, for root may write everywhere. */
static int try_read_only(const char *place)
{
	if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0))
		return 99;
	for (size_t i = 0; i < RK_ARRAY_SIZE(writes); i++) {
		RK_CLEANUP_ERR struct rk_err said = RK_ERR_INIT;
		int rc = writes[i].run(place, &said);
		if (rc == RK_FAILED && said.message && said.hint)
			continue;
		fprintf(stderr, "%s in a read-only folder: class %d, \"%s\", hint \"%s\"\n", writes[i].name, rc, said.message ? said.message : "", said.hint ? said.hint : "");
		return 1;
	}
	return 0;
}

static void a_read_only_folder_refuses_every_write(void **state)
{
	char *place RK_CLEANUP_FREE = rk_xasprintf("%s/read-only", folder), *model RK_CLEANUP_FREE = rk_xasprintf("%s/model", folder);
	int status = -1;

	(void)state;
	must(rk_mkdirs(place, &err));
	refill(place);
	char *before RK_CLEANUP_FREE = content(place);
	static const char *const files[] = { "site.db", "old.db" };
	for (size_t i = 0; i < RK_ARRAY_SIZE(files); i++) {
		char *path RK_CLEANUP_FREE = rk_xasprintf("%s/%s", place, files[i]), *source RK_CLEANUP_FREE = rk_xasprintf("%s/%s", model, files[i]);
		assert_int_equal(chmod(path, 0444), 0);
		assert_int_equal(chmod(source, 0666), 0);
	}
	assert_int_equal(chmod(place, 0555), 0);
	assert_int_equal(chmod(model, 0777), 0);
	assert_int_equal(chmod(folder, 0755), 0);
	pid_t pid = fork();
	if (pid == 0)
		_exit(try_read_only(place));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(chmod(place, 0700), 0);
	assert_int_equal(status, 0);
	char *after RK_CLEANUP_FREE = content(place);
	assert_string_equal(before, after);
}

static void spoil(const char *place, const char *name, long page)
{
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/%s", place, name), junk[4096];
	int fd RK_CLEANUP_FD = open(path, O_RDWR);

	memset(junk, 0xa5, sizeof(junk));
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, junk, sizeof(junk), page * 4096), (ssize_t)sizeof(junk));
}

/* A write that meets the damage says so; one that does not may succeed. Nothing else comes of it. */
static void a_damaged_page_is_said_by_whoever_meets_it(void **state)
{
	char *place RK_CLEANUP_FREE = rk_xasprintf("%s/spoilt", folder), *path RK_CLEANUP_FREE = rk_xasprintf("%s/model/site.db", folder);
	struct stat st;
	int met = 0;

	(void)state;
	must(rk_mkdirs(place, &err));
	assert_int_equal(stat(path, &st), 0);
	for (long page = 0, pages = st.st_size / 4096; page < pages; page += page < 8 ? 1 : pages / 12)
		for (size_t i = 0; i < RK_ARRAY_SIZE(writes); i++) {
			RK_CLEANUP_ERR struct rk_err said = RK_ERR_INIT;
			if (writes[i].own_file)
				continue;
			refill(place);
			spoil(place, "site.db", page);
			int rc = writes[i].run(place, &said);
			if (rc && (rc != RK_FAILED || !said.hint || !strstr(said.message, "damaged")))
				fail_msg("%s with page %ld spoilt: class %d, \"%s\"", writes[i].name, page, rc, said.message ? said.message : "");
			met += rc != 0;
		}
	assert_true(met > 10);
}

static int prepare(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(folder));
	make_models();
	return 0;
}

static int tidy(void **state)
{
	static const char *const places[] = { "model", "limited", "full", "read-only", "spoilt" };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(places); i++) {
		char *path RK_CLEANUP_FREE = rk_xasprintf("%s/%s", folder, places[i]);
		clear(path);
		remove(path);
	}
	remove(folder);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_that_cannot_grow_loses_nothing),
		cmocka_unit_test(a_full_disk_loses_nothing),
		cmocka_unit_test(a_read_only_folder_refuses_every_write),
		cmocka_unit_test(a_damaged_page_is_said_by_whoever_meets_it),
	};

	return cmocka_run_group_tests(tests, prepare, tidy);
}
