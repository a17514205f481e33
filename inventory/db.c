#include "inventory/db.h"

#include <string.h>
#include <sys/stat.h>

#include "inventory/base/str.h"

enum { BULK_ROWS = 64 };

static const struct rk_db_driver *const drivers[] = {
	&rk_db_sqlite,
	&rk_db_memory,
#ifdef RK_WITH_LIBPQ
	&rk_db_postgresql,
#endif
};

static const char sqlite_scheme[] = "sqlite:";

const char *rk_db_path(const char *uri)
{
	return rk_starts_with(uri, sqlite_scheme) ? uri + strlen(sqlite_scheme) : NULL;
}

bool rk_db_absent(const char *uri)
{
	const char *path = rk_db_path(uri);
	struct stat st;

	return path && *path && (stat(path, &st) < 0 || (S_ISREG(st.st_mode) && st.st_size == 0));
}

int rk_db_open(const char *uri, bool write, struct rk_db **ret, struct rk_err *err)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(drivers); i++)
		if (rk_starts_with(uri, drivers[i]->scheme))
			return drivers[i]->open(uri, write, ret, err);
	int colon = (int)strcspn(uri, ":");
	if (rk_starts_with(uri, "postgresql:")) {
		rk_err_set(err, RK_INVALID, "this racksh was built without PostgreSQL");
		rk_err_hint(err, "install the libpq development package and build again, or use sqlite:PATH");
		return RK_INVALID;
	}
	rk_err_set(err, RK_INVALID, "unknown kind of store \"%.*s\"", colon, uri);
	rk_err_hint(err, "a store is sqlite:PATH, postgresql://HOST/DATABASE or mem:");
	return RK_INVALID;
}

bool rk_db_damaged(const char *uri)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(drivers); i++)
		if (rk_starts_with(uri, drivers[i]->scheme))
			return drivers[i]->damaged && drivers[i]->damaged(uri);
	return false;
}

void rk_db_close(struct rk_db *db)
{
	if (db)
		db->driver->close(db);
}

void rk_cleanup_db(struct rk_db **db)
{
	rk_db_close(*db);
}

int rk_db_query(struct rk_db *db, const char *sql, const struct rk_db_value *args, size_t n, rk_db_row_fn *fn, void *ctx, struct rk_err *err)
{
	db->violation[0] = '\0';
	db->changed = 0;
	return db->driver->run(db, sql, args, n, fn, ctx, err);
}

static int take_int(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	(void)err;
	*(int64_t *)ctx = rk_db_int(row, 0);
	return 0;
}

int rk_db_one_int(struct rk_db *db, const char *sql, const struct rk_db_value *args, size_t n, int64_t none, int64_t *ret, struct rk_err *err)
{
	int64_t value = none;
	int rc = rk_db_query(db, sql, args, n, take_int, &value, err);

	if (!rc)
		*ret = value;
	return rc;
}

struct text_target {
	struct rk_arena *arena;
	const char *text;
};

static int take_text(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct text_target *t = ctx;

	(void)err;
	t->text = rk_arena_strdup(t->arena, rk_db_text(row, 0));
	return 0;
}

int rk_db_one_text(struct rk_db *db, const char *sql, const struct rk_db_value *args, size_t n, struct rk_arena *arena, const char **ret,
		   struct rk_err *err)
{
	struct text_target t = { arena, NULL };
	int rc = rk_db_query(db, sql, args, n, take_text, &t, err);

	if (!rc)
		*ret = t.text;
	return rc;
}

static char *bulk_sql(const struct rk_db_bulk *bulk, size_t rows)
{
	struct rk_str sql = RK_STR_INIT;

	rk_str_addf(&sql, bulk->columns ? "INSERT INTO %s (%s) VALUES " : "INSERT INTO %s VALUES ", bulk->table, bulk->columns);
	for (size_t r = 0; r < rows; r++) {
		for (size_t c = 0; c < bulk->width; c++)
			rk_str_add(&sql, c ? ",?" : r ? ",(?" : "(?");
		rk_str_addc(&sql, ')');
	}
	return rk_str_steal(&sql);
}

void rk_db_bulk_begin(struct rk_db_bulk *bulk, struct rk_db *db, const char *table, const char *columns, size_t width)
{
	*bulk = (struct rk_db_bulk){ .db = db, .table = table, .columns = columns, .width = width, .cap = width * BULK_ROWS };
	bulk->values = rk_xcalloc(bulk->cap, sizeof(*bulk->values));
}

void rk_db_bulk_row(struct rk_db_bulk *bulk, const struct rk_db_value *values, size_t n, struct rk_err *err)
{
	if (!bulk->rc && n != bulk->width)
		bulk->rc = rk_err_set(err, RK_BUG, "%zu values for a row of \"%s\"", n, bulk->table);
	if (bulk->rc)
		return;
	memcpy(bulk->values + bulk->n, values, bulk->width * sizeof(*values));
	bulk->n += bulk->width;
	if (bulk->n < bulk->cap)
		return;
	if (!bulk->sql)
		bulk->sql = bulk_sql(bulk, BULK_ROWS);
	bulk->rc = rk_db_query(bulk->db, bulk->sql, bulk->values, bulk->n, NULL, NULL, err);
	bulk->n = 0;
}

int rk_db_bulk_end(struct rk_db_bulk *bulk, struct rk_err *err)
{
	int rc = bulk->rc;

	if (!rc && bulk->n) {
		char *sql RK_CLEANUP_FREE = bulk_sql(bulk, bulk->n / bulk->width);
		rc = rk_db_query(bulk->db, sql, bulk->values, bulk->n, NULL, NULL, err);
	}
	free(bulk->values);
	free(bulk->sql);
	return rc;
}
