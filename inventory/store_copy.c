#include <inttypes.h>
#include <string.h>

#include "inventory/base/str.h"
#include "inventory/store_impl.h"

/* All rows of one store into another one, of whatever kind. */

enum { COLUMNS_MAX = 32 };

struct copy {
	struct rk_db *to;
	const char *table;
	struct rk_db_bulk bulk;
	struct rk_arena *arena; /* texts of the rows that are gathered */
	size_t rows;
	bool begun;
};

/* Texts everywhere: the columns of the copy know their types. */
static int copy_row(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct copy *c = ctx;
	struct rk_db_value values[COLUMNS_MAX];

	if (row->n > COLUMNS_MAX)
		return rk_err_set(err, RK_BUG, "the table \"%s\" has %d columns", c->table, row->n);
	if (!c->begun)
		rk_db_bulk_begin(&c->bulk, c->to, c->table, NULL, (size_t)row->n);
	c->begun = true;
	for (int i = 0; i < row->n; i++)
		values[i] = RK_DB_S(rk_arena_strdup(c->arena, rk_db_text(row, i)));
	rk_db_bulk_row(&c->bulk, values, (size_t)row->n, err);
	if (!c->bulk.n) { /* they were just written */
		rk_arena_free(c->arena);
		c->arena = rk_arena_new();
	}
	return c->bulk.rc;
}

static int copy_table(struct rk_store *from, struct rk_db *to, const char *table, struct rk_err *err)
{
	struct copy c = { .to = to, .table = table, .arena = rk_arena_new() };
	char *empty RK_CLEANUP_FREE = rk_xasprintf("DELETE FROM %s", table), *all RK_CLEANUP_FREE = rk_xasprintf("SELECT * FROM %s", table);
	int rc = rk_db_query(to, empty, NULL, 0, NULL, NULL, err);

	if (!rc)
		rc = rk_db_query(from->db, all, NULL, 0, copy_row, &c, err);
	if (c.begun) {
		int ended = rk_db_bulk_end(&c.bulk, rc ? NULL : err);
		rc = rc ? rc : ended;
	}
	rk_arena_free(c.arena);
	return rc ? (rk_err_while(err, "copying the table \"%s\"", table), rc) : 0;
}

int rk_store_copy_tables(struct rk_store *from, struct rk_db *to, struct rk_err *err)
{
	int rc = from->db->driver->begin(from->db, false, err);

	if (rc)
		return rc;
	for (const char *const *table = rk_store_tables; *table && !rc; table++)
		rc = copy_table(from, to, *table, err);
	from->db->driver->rollback(from->db);
	return rc;
}

static int count(struct rk_store *store, const char *sql, int64_t *ret, struct rk_err *err)
{
	return rk_db_one_int(store->db, sql, NULL, 0, 0, ret, err);
}

/* Nothing may be going on in the old store, nothing be in the new one. */
static int check_ends(struct rk_store *from, struct rk_store *to, struct rk_err *err)
{
	int64_t running = 0, used = 0;
	int rc = count(from, "SELECT COALESCE(MAX(id), 0) FROM ops WHERE state IN ('running', 'awaiting-confirm')", &running, err);

	if (!rc && running) {
		rk_err_set(err, RK_CONFLICT, "operation %" PRId64 " runs in the store \"%s\"", running, from->shown);
		rk_err_hint(err, "wait for it, or racksh op cancel %" PRId64, running);
		return RK_CONFLICT;
	}
	if (!rc)
		rc = count(to, "SELECT (SELECT COUNT(*) FROM racks) + (SELECT COUNT(*) FROM tenants) + (SELECT COUNT(*) FROM ops) + (SELECT COUNT(*) FROM clusters)", &used, err);
	if (rc || !used)
		return rc;
	rk_err_set(err, RK_CONFLICT, "the store \"%s\" is in use already", to->shown);
	rk_err_hint(err, "name a store that is not there yet, or is empty");
	return RK_CONFLICT;
}

int rk_store_copy_look(struct rk_store *from, struct rk_store *to, struct rk_err *err)
{
	RK_STORE_HOLD(from);

	if (from->blank)
		return rk_err_set(err, RK_NOT_FOUND, "there is no store \"%s\"", from->shown);
	int rc = rk_store_ready(to, err);
	return rc ? rc : check_ends(from, to, err);
}

int rk_store_copy(struct rk_store *from, struct rk_store *to, struct rk_err *err)
{
	bool own;
	RK_STORE_HOLD(from);
	int rc = rk_store_ready(from, err);

	if (!rc && from->blank)
		rc = rk_err_set(err, RK_NOT_FOUND, "there is no store \"%s\"", from->shown);
	if (rc)
		return rc;
	rc = rk_store_join(to, &own, err);
	if (!rc)
		rc = check_ends(from, to, err);
	if (!rc)
		rc = rk_store_copy_tables(from, to->db, err);
	/* The revision came along: it is not raised. */
	return rk_store_part_journal(to, own, rc, err);
}
