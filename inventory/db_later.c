#include <stdlib.h>
#include <string.h>

#include "inventory/db.h"

/* A database that is made when it is first asked for something. Rows come from the real one, and are read by its driver. */

struct later {
	struct rk_db db;
	struct rk_db *real;
	rk_db_make_fn *make;
	void *ctx;
};

static struct later *self(struct rk_db *db)
{
	return (struct later *)db;
}

static int made(struct rk_db *db, struct rk_db **ret, struct rk_err *err)
{
	struct later *l = self(db);
	int rc = l->real ? 0 : l->make(l->ctx, &l->real, err);

	*ret = l->real;
	return rc;
}

static void close_later(struct rk_db *db)
{
	rk_db_close(self(db)->real);
	free(db);
}

static int run(struct rk_db *db, const char *sql, const struct rk_db_value *args, size_t n, rk_db_row_fn *fn, void *ctx, struct rk_err *err)
{
	struct rk_db *real;
	int rc = made(db, &real, err);

	if (rc)
		return rc;
	rc = rk_db_query(real, sql, args, n, fn, ctx, err);
	memcpy(db->violation, real->violation, sizeof(db->violation));
	db->changed = real->changed;
	return rc;
}

static int begin(struct rk_db *db, bool write, struct rk_err *err)
{
	struct rk_db *real;
	int rc = made(db, &real, err);

	return rc ? rc : real->driver->begin(real, write, err);
}

static int commit(struct rk_db *db, struct rk_err *err)
{
	struct rk_db *real;
	int rc = made(db, &real, err);

	if (rc)
		return rc;
	rc = real->driver->commit(real, err);
	memcpy(db->violation, real->violation, sizeof(db->violation));
	return rc;
}

static void rollback(struct rk_db *db)
{
	if (self(db)->real)
		self(db)->real->driver->rollback(self(db)->real);
}

static int has_table(struct rk_db *db, const char *table, bool *ret, struct rk_err *err)
{
	struct rk_db *real;
	int rc = made(db, &real, err);

	return rc ? rc : real->driver->has_table(real, table, ret, err);
}

static int check(struct rk_db *db, struct rk_err *err)
{
	struct rk_db *real;
	int rc = made(db, &real, err);

	return rc || !real->driver->check ? rc : real->driver->check(real, err);
}

static int backup(struct rk_db *db, const char *path, struct rk_err *err)
{
	struct rk_db *real;
	int rc = made(db, &real, err);

	return rc ? rc : real->driver->backup(real, path, err);
}

static const struct rk_db_driver driver = { .close = close_later, .run = run, .begin = begin, .commit = commit, .rollback = rollback,
					      .has_table = has_table, .check = check, .backup = backup };

struct rk_db *rk_db_later(rk_db_make_fn *make, void *ctx)
{
	struct later *l = rk_xcalloc(1, sizeof(*l));

	*l = (struct later){ .db.driver = &driver, .make = make, .ctx = ctx };
	return &l->db;
}
