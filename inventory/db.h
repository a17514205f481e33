/* SQL as the store needs it, over one of several databases. Included by store*.c and db*.c, and by
 * provision/sim_db.c: the twin keeps its own tables in the same file.
 *
 * SQL is written once, with `?` for parameters; a driver translates. Every driver serialises writers: a write transaction sees all
 * that was committed before it began. Integers are 64 bit; 64-bit identities are stored as the signed number of the same bits.
 * Constraint names are `<table>_<first column>`; rk_db.violation tells which one refused the last statement.
 * Error classes: RK_UNREACHABLE connection lost or the outcome of a commit unknown; RK_CONFLICT lock not had in time or a constraint;
 * RK_FAILED disk full, read-only, damaged, no permission. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inventory/base/err.h"
#include "inventory/base/mem.h"

enum rk_db_type { RK_DB_NULL, RK_DB_INT, RK_DB_REAL, RK_DB_TEXT };
struct rk_db_value {
	enum rk_db_type type;
	int64_t i;
	double d;
	const char *s; /* borrowed for the call */
};
#define RK_DB_I(v) ((struct rk_db_value){ RK_DB_INT, (int64_t)(v), 0, NULL })
#define RK_DB_D(v) ((struct rk_db_value){ RK_DB_REAL, 0, (v), NULL })
/* NULL gives SQL NULL. */
static inline struct rk_db_value rk_db_s(const char *s)
{
	return (struct rk_db_value){ s ? RK_DB_TEXT : RK_DB_NULL, 0, 0, s };
}
#define RK_DB_S(v) rk_db_s(v)
/* An identity: 0 (unknown) gives SQL NULL. */
#define RK_DB_GUID(v) ((struct rk_db_value){ (v) ? RK_DB_INT : RK_DB_NULL, (int64_t)(v), 0, NULL })

struct rk_db;
struct rk_db_row {
	const struct rk_db *db;
	void *native;
	int at, n; /* row number (drivers that hold a whole result), number of columns */
};
/* Not 0 stops the query and is returned. Texts of the row live until it returns. */
typedef int rk_db_row_fn(void *ctx, const struct rk_db_row *row, struct rk_err *err);

struct rk_db_driver {
	const char *scheme; /* of the URI, with the colon */
	int (*open)(const char *uri, bool write, struct rk_db **ret, struct rk_err *err);
	void (*close)(struct rk_db *db);
	int (*run)(struct rk_db *db, const char *sql, const struct rk_db_value *args, size_t n, rk_db_row_fn *fn, void *ctx, struct rk_err *err);
	int (*begin)(struct rk_db *db, bool write, struct rk_err *err);
	int (*commit)(struct rk_db *db, struct rk_err *err);
	void (*rollback)(struct rk_db *db);
	int (*has_table)(struct rk_db *db, const char *table, bool *ret, struct rk_err *err);
	int (*check)(struct rk_db *db, struct rk_err *err);                       /* NULL: the server's business */
	bool (*damaged)(const char *uri);                                         /* cannot be opened because of what is in it; NULL: nobody can tell */
	int (*backup)(struct rk_db *db, const char *path, struct rk_err *err);    /* NULL: by copying rows */
	bool (*is_null)(const struct rk_db_row *row, int column);
	int64_t (*get_int)(const struct rk_db_row *row, int column);
	double (*get_real)(const struct rk_db_row *row, int column);
	const char *(*get_text)(const struct rk_db_row *row, int column); /* NULL for SQL NULL */
};

/* First member of every driver's own structure. */
struct rk_db {
	const struct rk_db_driver *driver;
	char violation[64]; /* constraint that refused the last statement ("foreign_key" for any of these), or "" */
	int64_t changed;    /* rows the last statement changed */
};

extern const struct rk_db_driver rk_db_sqlite, rk_db_memory;
#ifdef RK_WITH_LIBPQ
extern const struct rk_db_driver rk_db_postgresql;
#endif

/* RK_INVALID with the known schemes for an unknown one. write also makes what is missing (the file, not its folder). */
int rk_db_open(const char *uri, bool write, struct rk_db **ret, struct rk_err *err);
/* One that `make` (of a driver with backup) opens when it is first asked for something. */
typedef int rk_db_make_fn(void *ctx, struct rk_db **ret, struct rk_err *err);
struct rk_db *rk_db_later(rk_db_make_fn *make, void *ctx);
void rk_db_close(struct rk_db *db);
void rk_cleanup_db(struct rk_db **db);
#define RK_CLEANUP_DB __attribute__((cleanup(rk_cleanup_db)))
/* Is there nothing yet to open (SQLite: no file, or an empty one)? */
bool rk_db_absent(const char *uri);
/* For a database that cannot be opened: is that because it is damaged, or no database at all? */
bool rk_db_damaged(const char *uri);
/* The path of a "sqlite:" URI, else NULL. */
const char *rk_db_path(const char *uri);

/* One statement with its arguments; the row function may be NULL. */
int rk_db_query(struct rk_db *db, const char *sql, const struct rk_db_value *args, size_t n, rk_db_row_fn *fn, void *ctx, struct rk_err *err);
#define rk_db_exec(db, err, sql, ...) \
	rk_db_query(db, sql, (const struct rk_db_value[]){ __VA_ARGS__ }, sizeof((const struct rk_db_value[]){ __VA_ARGS__ }) / sizeof(struct rk_db_value), \
		    NULL, NULL, err)
#define rk_db_each(db, err, fn, ctx, sql, ...) \
	rk_db_query(db, sql, (const struct rk_db_value[]){ __VA_ARGS__ }, sizeof((const struct rk_db_value[]){ __VA_ARGS__ }) / sizeof(struct rk_db_value), \
		    fn, ctx, err)
/* One integer of one row; `none` when there is no row. */
int rk_db_one_int(struct rk_db *db, const char *sql, const struct rk_db_value *args, size_t n, int64_t none, int64_t *ret, struct rk_err *err);
/* One text of one row in the arena; NULL when there is no row. */
int rk_db_one_text(struct rk_db *db, const char *sql, const struct rk_db_value *args, size_t n, struct rk_arena *arena, const char **ret,
		   struct rk_err *err);

static inline int64_t rk_db_int(const struct rk_db_row *row, int column)
{
	return row->db->driver->get_int(row, column);
}
static inline double rk_db_real(const struct rk_db_row *row, int column)
{
	return row->db->driver->get_real(row, column);
}
static inline const char *rk_db_text(const struct rk_db_row *row, int column)
{
	return row->db->driver->get_text(row, column);
}

/* Many rows into one table, some dozens per statement. Columns NULL: all of them, in order. Text arguments must live until rk_db_bulk_end. */
struct rk_db_bulk {
	struct rk_db *db;
	const char *table, *columns;
	size_t width, n, cap; /* values per row, values held, values per full statement */
	struct rk_db_value *values;
	char *sql; /* of a full statement */
	int rc;    /* first error; later rows are ignored */
};
void rk_db_bulk_begin(struct rk_db_bulk *bulk, struct rk_db *db, const char *table, const char *columns, size_t width);
void rk_db_bulk_row(struct rk_db_bulk *bulk, const struct rk_db_value *values, size_t n, struct rk_err *err);
int rk_db_bulk_end(struct rk_db_bulk *bulk, struct rk_err *err);
