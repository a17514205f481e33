#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inventory/base/map.h"
#include "inventory/base/str.h"
#include "inventory/db.h"

enum {
	APPLICATION_ID = 0x72616b73, /* "raks": tells our files from other programs' */
	BUSY_LIMIT_MS = 30000,
	CHECK_PROBLEMS = 50,
};

struct sqlite {
	struct rk_db db;
	sqlite3 *handle;
	char *path;              /* NULL: in memory */
	struct rk_map *index;    /* SQL text -> statements.items */
	struct {
		sqlite3_stmt **items;
		size_t n, cap;
	} statements;
	int64_t waited_us;       /* of the current wait for a lock */
	bool in_transaction;
};

static struct sqlite *self(const struct rk_db *db)
{
	return (struct sqlite *)db;
}

/* What each primary result code means for the user; %s is the path. */
static const struct {
	int code, rc;
	const char *message, *hint;
} meanings[] = {
	{ SQLITE_BUSY, RK_CONFLICT, "another process has kept the store \"%s\" locked for 30 s",
	  "see who has it open with: fuser -v FILE; then try again" },
	{ SQLITE_LOCKED, RK_CONFLICT, "the store \"%s\" is locked", "try again" },
	{ SQLITE_FULL, RK_FAILED, "no space left for the store \"%s\"; nothing was changed", "free some space on its disk and try again" },
	{ SQLITE_READONLY, RK_FAILED, "the store \"%s\" cannot be written", "check the permissions of the file and its folder, and the mount" },
	{ SQLITE_PERM, RK_FAILED, "no permission for the store \"%s\"", "check the permissions of the file and its folder" },
	{ SQLITE_AUTH, RK_FAILED, "no permission for the store \"%s\"", "check the permissions of the file and its folder" },
	{ SQLITE_CANTOPEN, RK_FAILED, "cannot open the store \"%s\"", "check that it is a file and that the file and its folder can be read" },
	{ SQLITE_CORRUPT, RK_FAILED, "the store \"%s\" is damaged",
	  "keep the file, look at it with: racksh store check; go on with the last racksh store backup" },
	{ SQLITE_NOTADB, RK_FAILED, "\"%s\" is not a racksh store, or its beginning is damaged",
	  "check the path; go on with the last racksh store backup when it was a store" },
	{ SQLITE_IOERR, RK_FAILED, "the disk failed under the store \"%s\"", "see the kernel log; nothing that was reported as done is lost" },
	{ SQLITE_NOMEM, RK_FAILED, "out of memory while using the store \"%s\"", NULL },
};

static int set_error(struct sqlite *s, int code, struct rk_err *err)
{
	const char *path = s->path ? s->path : "mem:";
	const char *text = s->handle ? sqlite3_errmsg(s->handle) : sqlite3_errstr(code);
	int why = s->handle ? sqlite3_system_errno(s->handle) : 0;

	for (size_t i = 0; i < RK_ARRAY_SIZE(meanings); i++) {
		if (meanings[i].code != (code & 0xff))
			continue;
		char *detail RK_CLEANUP_FREE = rk_xasprintf("%s%s%s", text, why ? ": " : "", why ? strerror(why) : "");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		char *message RK_CLEANUP_FREE = rk_xasprintf(meanings[i].message, path);
#pragma GCC diagnostic pop
		rk_err_set(err, meanings[i].rc, "%s (%s)", message, detail);
		if (meanings[i].hint)
			rk_err_hint(err, "%s", meanings[i].hint);
		return meanings[i].rc;
	}
	return rk_err_set(err, RK_BUG, "the store \"%s\" refused a statement: %s", path, text);
}

/* "UNIQUE constraint failed: vms.tray" gives "vms_tray". */
static int set_violation(struct sqlite *s, struct rk_err *err)
{
	const char *text = sqlite3_errmsg(s->handle), *at = strstr(text, "failed: ");
	int extended = sqlite3_extended_errcode(s->handle);
	char *name = s->db.violation;

	if (extended == SQLITE_CONSTRAINT_FOREIGNKEY)
		snprintf(name, sizeof(s->db.violation), "foreign_key");
	else
		snprintf(name, sizeof(s->db.violation), "%.*s", (int)strcspn(at ? at + 8 : text, ", "), at ? at + 8 : text);
	for (char *dot = name; *dot; dot++)
		if (*dot == '.')
			*dot = '_';
	return rk_err_set(err, RK_CONFLICT, "the store refused the change: %s", text);
}

static int map_error(struct sqlite *s, int code, struct rk_err *err)
{
	return (code & 0xff) == SQLITE_CONSTRAINT ? set_violation(s, err) : set_error(s, code, err);
}

/* Short uneven waits: writers that were refused together do not come back together. */
static int on_busy(void *context, int count)
{
	struct sqlite *s = context;
	unsigned us = 500 + (unsigned)(((unsigned)getpid() * 2654435761u + (unsigned)count * 40503u) >> 8) % 6000;

	if (count == 0)
		s->waited_us = 0;
	if (s->waited_us > (int64_t)BUSY_LIMIT_MS * 1000)
		return 0;
	s->waited_us += us;
	usleep(us);
	return 1;
}

static int prepare(struct sqlite *s, const char *sql, sqlite3_stmt **ret, struct rk_err *err)
{
	size_t at;

	if (rk_map_get(s->index, sql, &at)) {
		*ret = s->statements.items[at];
		return 0;
	}
	sqlite3_stmt *stmt = NULL;
	int code = sqlite3_prepare_v3(s->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL);
	if (code != SQLITE_OK)
		return map_error(s, code, err);
	rk_map_add(s->index, sql, s->statements.n, NULL);
	*rk_vec_push(&s->statements) = stmt;
	*ret = stmt;
	return 0;
}

static void bind(sqlite3_stmt *stmt, const struct rk_db_value *args, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int at = (int)i + 1;
		if (args[i].type == RK_DB_INT)
			sqlite3_bind_int64(stmt, at, args[i].i);
		else if (args[i].type == RK_DB_REAL)
			sqlite3_bind_double(stmt, at, args[i].d);
		else if (args[i].type == RK_DB_TEXT)
			sqlite3_bind_text(stmt, at, args[i].s, -1, SQLITE_STATIC);
		else
			sqlite3_bind_null(stmt, at);
	}
}

static int run(struct rk_db *db, const char *sql, const struct rk_db_value *args, size_t n, rk_db_row_fn *fn, void *ctx, struct rk_err *err)
{
	struct sqlite *s = self(db);
	sqlite3_stmt *stmt = NULL;
	int rc = prepare(s, sql, &stmt, err), code;

	if (rc)
		return rc;
	bind(stmt, args, n);
	struct rk_db_row row = { db, stmt, 0, sqlite3_column_count(stmt) };
	while ((code = sqlite3_step(stmt)) == SQLITE_ROW && !rc)
		rc = fn ? fn(ctx, &row, err) : 0;
	if (!rc && code != SQLITE_DONE)
		rc = map_error(s, code, err);
	db->changed = sqlite3_changes64(s->handle);
	sqlite3_reset(stmt);
	sqlite3_clear_bindings(stmt);
	return rc;
}

static int simple(struct sqlite *s, const char *sql, struct rk_err *err)
{
	int code = sqlite3_exec(s->handle, sql, NULL, NULL, NULL);

	return code == SQLITE_OK ? 0 : map_error(s, code, err);
}

static int64_t pragma_int(struct sqlite *s, const char *sql, int *ret_code)
{
	sqlite3_stmt *stmt = NULL;
	int64_t value = -1;
	int code = sqlite3_prepare_v2(s->handle, sql, -1, &stmt, NULL);

	if (code == SQLITE_OK)
		code = sqlite3_step(stmt);
	if (code == SQLITE_ROW)
		value = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	*ret_code = code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : code;
	return value;
}

static void close_db(struct rk_db *db)
{
	struct sqlite *s = self(db);

	for (size_t i = 0; i < s->statements.n; i++)
		sqlite3_finalize(s->statements.items[i]);
	free(s->statements.items);
	rk_map_free(s->index);
	sqlite3_close(s->handle);
	free(s->path);
	free(s);
}

/* Every allocation would be counted under a lock, and nobody asks for the count. */
static void set_up(void)
{
	sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

static struct sqlite *new_db(const struct rk_db_driver *driver, const char *path)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct sqlite *s = rk_xcalloc(1, sizeof(*s));

	pthread_once(&once, set_up);

	s->db.driver = driver;
	s->path = path ? rk_xstrdup(path) : NULL;
	s->index = rk_map_new();
	return s;
}

static int settings(struct sqlite *s, struct rk_err *err)
{
	sqlite3_extended_result_codes(s->handle, 1);
	sqlite3_busy_handler(s->handle, on_busy, s);
	/* The files of others are not to be trusted with SQL functions; cleared keys are overwritten, not only unlinked. */
	sqlite3_db_config(s->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	return simple(s, "PRAGMA foreign_keys=ON; PRAGMA synchronous=FULL; PRAGMA trusted_schema=OFF; PRAGMA secure_delete=ON; PRAGMA temp_store=MEMORY;"
			 "PRAGMA cache_size=-8000",
		      err);
}

/* Our files carry our id; a new file gets it together with write-ahead logging. */
static int identify(struct sqlite *s, bool write, struct rk_err *err)
{
	int code;
	int64_t tables = pragma_int(s, "SELECT COUNT(*) FROM sqlite_schema", &code);

	if (code != SQLITE_OK)
		return set_error(s, code, err);
	if (tables > 0) {
		if (pragma_int(s, "PRAGMA application_id", &code) == APPLICATION_ID)
			return 0;
		rk_err_set(err, RK_INVALID, "\"%s\" is a database of another program", s->path);
		rk_err_hint(err, "name another file with --store sqlite:PATH");
		return RK_INVALID;
	}
	if (!write)
		return 0;
	/* Switching to WAL does not wait for other openers by itself. */
	for (int count = 0; (code = sqlite3_exec(s->handle, "PRAGMA journal_mode=WAL", NULL, NULL, NULL)) != SQLITE_OK; count++)
		if ((code & 0xff) != SQLITE_BUSY || !on_busy(s, count))
			return set_error(s, code, err);
	char *sql RK_CLEANUP_FREE = rk_xasprintf("PRAGMA application_id=%d", APPLICATION_ID);
	return simple(s, sql, err);
}

/* A file that is there is not touched: closing it here would drop the locks that another connection of this process holds on it, and whoever
 * closes the store next would take itself for the last one and remove the log that connection still writes. */
static int create_private(const char *path, struct rk_err *err)
{
	int fd RK_CLEANUP_FD = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd >= 0 || errno == EEXIST || errno == ELOOP)
		return 0;
	int e = errno;
	rk_err_set(err, RK_FAILED, "cannot make the store \"%s\": %s", path, strerror(e));
	rk_err_hint(err, "name a file in a folder that you can write with --store sqlite:PATH");
	return RK_FAILED;
}

/* A store on a read-only medium has no place for the shared-memory file; without unfinished log it can be read as it is. */
static bool still_image(const char *path)
{
	char *wal RK_CLEANUP_FREE = rk_xasprintf("%s-wal", path);
	char *folder RK_CLEANUP_FREE = rk_xstrdup(path);
	char *slash = strrchr(folder, '/');
	struct stat st;

	if (slash)
		slash[slash == folder ? 1 : 0] = '\0';
	return access(slash ? folder : ".", W_OK) < 0 && (stat(wal, &st) < 0 || st.st_size == 0);
}

static char *file_uri(const char *path, const char *query)
{
	struct rk_str out = RK_STR_INIT;

	rk_str_add(&out, "file:");
	for (const char *p = path; *p; p++)
		rk_str_addf(&out, strchr("%?#", *p) ? "%%%02x" : "%c", (unsigned char)*p);
	rk_str_add(&out, query);
	return rk_str_steal(&out);
}

static int open_file(struct sqlite *s, bool write, struct rk_err *err)
{
	bool image = !write && still_image(s->path);
	char *uri RK_CLEANUP_FREE = file_uri(s->path, image ? "?immutable=1" : "");
	int code = sqlite3_open_v2(uri, &s->handle, (image ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE) | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, NULL);
	int rc = code == SQLITE_OK ? settings(s, err) : set_error(s, code, err);

	if (!rc)
		rc = identify(s, write, err);
	if (!rc && !write)
		rc = simple(s, "PRAGMA query_only=ON", err);
	return rc;
}

static int open_db(const char *uri, bool write, struct rk_db **ret, struct rk_err *err)
{
	const char *path = rk_db_path(uri);

	if (!*path)
		return rk_err_set(err, RK_INVALID, "the store \"%s\" names no file", uri);
	int rc = write ? create_private(path, err) : 0;
	if (rc)
		return rc;
	struct sqlite *s = new_db(&rk_db_sqlite, path);
	rc = open_file(s, write, err);
	if (rc) {
		close_db(&s->db);
		return rc;
	}
	*ret = &s->db;
	return 0;
}

static int open_memory(const char *uri, bool write, struct rk_db **ret, struct rk_err *err)
{
	struct sqlite *s = new_db(&rk_db_memory, NULL);
	int code = sqlite3_open_v2(":memory:", &s->handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
	int rc = code == SQLITE_OK ? settings(s, err) : set_error(s, code, err);

	(void)uri, (void)write;
	if (rc) {
		close_db(&s->db);
		return rc;
	}
	*ret = &s->db;
	return 0;
}

static int begin(struct rk_db *db, bool write, struct rk_err *err)
{
	int rc = simple(self(db), write ? "BEGIN IMMEDIATE" : "BEGIN", err);

	self(db)->in_transaction = !rc;
	return rc;
}

static void rollback(struct rk_db *db)
{
	if (!self(db)->in_transaction)
		return;
	/* A full disk may have rolled back already; then this is refused, which is as good. */
	sqlite3_exec(self(db)->handle, "ROLLBACK", NULL, NULL, NULL);
	self(db)->in_transaction = false;
}

static int commit(struct rk_db *db, struct rk_err *err)
{
	db->violation[0] = '\0';
	int rc = simple(self(db), "COMMIT", err);

	if (rc)
		rollback(db);
	self(db)->in_transaction = false;
	return rc;
}

static int has_table(struct rk_db *db, const char *table, bool *ret, struct rk_err *err)
{
	int64_t n = 0;
	const struct rk_db_value name = RK_DB_S(table);
	int rc = rk_db_one_int(db, "SELECT COUNT(*) FROM sqlite_schema WHERE type = 'table' AND name = ?", &name, 1, 0, &n, err);

	if (!rc)
		*ret = n > 0;
	return rc;
}

static int note_problem(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	size_t *found = ctx;
	const char *text = rk_db_text(row, 0);

	if (text && strcmp(text, "ok") == 0)
		return 0;
	if ((*found)++ < CHECK_PROBLEMS)
		rk_err_detail(err, "%s", text ? text : "a row refers to something that is not there");
	return 0;
}

static int check(struct rk_db *db, struct rk_err *err)
{
	static const char *const pragmas[] = { "PRAGMA integrity_check(50)", "PRAGMA foreign_key_check" };
	RK_CLEANUP_ERR struct rk_err problems = RK_ERR_INIT, why = RK_ERR_INIT;
	size_t found = 0;

	rk_err_set(&problems, RK_UNHEALTHY, "the store \"%s\" is damaged", self(db)->path ? self(db)->path : "mem:");
	for (size_t i = 0; i < RK_ARRAY_SIZE(pragmas); i++) {
		if (!rk_db_query(db, pragmas[i], NULL, 0, note_problem, &found, &problems))
			continue;
		/* The damage may be so bad that looking for it fails. */
		rk_err_set(&why, RK_UNHEALTHY, "%s", problems.message);
		rk_err_move(&problems, &why);
		found++;
	}
	if (!found)
		return 0;
	rk_err_hint(&problems, "keep the file, and go on with the last racksh store backup");
	if (err)
		rk_err_move(err, &problems);
	return RK_UNHEALTHY;
}

static bool damaged(const char *uri)
{
	struct sqlite *s = new_db(&rk_db_sqlite, rk_db_path(uri));
	char *file RK_CLEANUP_FREE = file_uri(s->path, still_image(s->path) ? "?immutable=1" : "");
	int code = sqlite3_open_v2(file, &s->handle, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, NULL);

	if (code == SQLITE_OK)
		pragma_int(s, "SELECT COUNT(*) FROM sqlite_schema", &code);
	bool bad = (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB || (code == SQLITE_OK && check(&s->db, NULL) != 0);
	close_db(&s->db);
	return bad;
}

static int copy_pages(struct sqlite *from, const char *path, struct rk_err *err)
{
	struct sqlite *to = new_db(&rk_db_sqlite, path);
	int code = sqlite3_open_v2(path, &to->handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL), rc = 0;

	if (code == SQLITE_OK) {
		sqlite3_backup *copy = sqlite3_backup_init(to->handle, "main", from->handle, "main");
		if (copy)
			sqlite3_backup_step(copy, -1);
		code = copy ? sqlite3_backup_finish(copy) : sqlite3_errcode(to->handle);
	}
	if (code != SQLITE_OK)
		rc = set_error(to, code, err);
	/* One plain file: no log beside it. A copy of memory gets its id here. */
	if (!rc)
		rc = simple(to, "PRAGMA journal_mode=DELETE", err);
	char *sql RK_CLEANUP_FREE = rk_xasprintf("PRAGMA application_id=%d", APPLICATION_ID);
	if (!rc)
		rc = simple(to, sql, err);
	close_db(&to->db);
	return rc;
}

static int backup(struct rk_db *db, const char *path, struct rk_err *err)
{
	return copy_pages(self(db), path, err);
}

static bool is_null(const struct rk_db_row *row, int column)
{
	return sqlite3_column_type(row->native, column) == SQLITE_NULL;
}

static int64_t get_int(const struct rk_db_row *row, int column)
{
	return sqlite3_column_int64(row->native, column);
}

static double get_real(const struct rk_db_row *row, int column)
{
	return sqlite3_column_double(row->native, column);
}

static const char *get_text(const struct rk_db_row *row, int column)
{
	return (const char *)sqlite3_column_text(row->native, column);
}

#define COMMON                                                                                                                     \
	.close = close_db, .run = run, .begin = begin, .commit = commit, .rollback = rollback, .has_table = has_table, .check = check, .damaged = damaged, \
	.backup = backup, .is_null = is_null, .get_int = get_int, .get_real = get_real, .get_text = get_text

const struct rk_db_driver rk_db_sqlite = { .scheme = "sqlite:", .open = open_db, COMMON };
const struct rk_db_driver rk_db_memory = { .scheme = "mem:", .open = open_memory, COMMON };
