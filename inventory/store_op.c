#include <stdio.h>
#include <string.h>

#include "inventory/base/clock.h"
#include "inventory/base/str.h"
#include "inventory/store_impl.h"

/* Operations, their journal and the audit: no part of a snapshot, so they leave the revision alone when they are on their own. */

enum { AUDIT_MAX = 10000 };

int rk_store_op_add(struct rk_store *store, const char *command, const char *params, int64_t *ret_id, struct rk_err *err)
{
	bool own;
	int64_t id = 0;
	int rc = rk_store_join(store, &own, err);

	if (!rc) {
		free(rk_steal(&store->what)); /* the command says more than its first statement */
		rk_store_what(store, "%s", command);
		rc = rk_store_next(store, "op", &id, err);
	}
	if (!rc)
		rc = rk_db_exec(store->db, err,
				"INSERT INTO ops (id, command, params, state, detail, actor, runner_host, runner_pid, runner_start, started_ms, ended_ms)"
				" VALUES (?, ?, ?, 'running', NULL, ?, ?, ?, ?, ?, 0)",
				RK_DB_I(id), RK_DB_S(command), RK_DB_S(params), RK_DB_S(store->by), RK_DB_S(store->host), RK_DB_I(store->pid),
				RK_DB_I(rk_store_process_start(store->pid)), RK_DB_I(rk_store_now_ms()));
	rc = rk_store_part_journal(store, own, rc, err);
	if (!rc)
		*ret_id = id;
	return rc;
}

int rk_store_op_set(struct rk_store *store, int64_t op, const char *state, const char *detail, struct rk_err *err)
{
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc)
		rc = rk_db_exec(store->db, err, "UPDATE ops SET state = ?, detail = COALESCE(?, detail), ended_ms = ? WHERE id = ?", RK_DB_S(state),
				RK_DB_S(detail), RK_DB_I(rk_store_op_is_final(state) ? rk_store_now_ms() : 0), RK_DB_I(op));
	if (!rc && !store->db->changed)
		rc = rk_err_set(err, RK_NOT_FOUND, "no operation %lld", (long long)op);
	if (!rc)
		rc = rk_store_renew(store, op, err);
	return rk_store_part_journal(store, own, rc, err);
}

struct list {
	struct rk_arena *arena;
	void *items;
	size_t n, cap;
};

static void *add_row(struct list *l, size_t size)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 64;
		void *bigger = rk_arena_array(l->arena, cap, size);
		if (l->n)
			memcpy(bigger, l->items, l->n * size);
		l->items = bigger;
		l->cap = cap;
	}
	return (char *)l->items + l->n++ * size;
}

#define OP_COLUMNS "SELECT id, command, state, actor, detail, params, started_ms, ended_ms, runner_host || ' ' || runner_pid FROM ops"

static int read_op(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct list *l = ctx;
	struct rk_op_row *op = add_row(l, sizeof(*op));

	(void)err;
	op->id = rk_db_int(row, 0);
	op->command = rk_arena_strdup(l->arena, rk_db_text(row, 1));
	op->state = rk_arena_strdup(l->arena, rk_db_text(row, 2));
	op->by = rk_arena_strdup(l->arena, rk_db_text(row, 3));
	op->detail = rk_arena_strdup(l->arena, rk_db_text(row, 4));
	op->params = rk_arena_strdup(l->arena, rk_db_text(row, 5));
	op->started_ms = rk_db_int(row, 6);
	op->ended_ms = rk_db_int(row, 7);
	op->runner = rk_arena_strdup(l->arena, rk_db_text(row, 8));
	return 0;
}

static int list_ops(struct rk_store *store, const char *sql, const struct rk_db_value *args, size_t n_args, struct rk_arena *arena, struct rk_op_row **ret,
		    size_t *ret_n, struct rk_err *err)
{
	struct list l = { .arena = arena };
	RK_STORE_HOLD(store);
	int rc = rk_store_ready(store, err);

	if (!rc)
		rc = rk_db_query(store->db, sql, args, n_args, read_op, &l, err);
	if (rc)
		return rc;
	*ret = l.items;
	*ret_n = l.n;
	return 0;
}

int rk_store_op_list(struct rk_store *store, struct rk_arena *arena, struct rk_op_row **ret, size_t *ret_n, struct rk_err *err)
{
	return list_ops(store, OP_COLUMNS " ORDER BY id DESC", NULL, 0, arena, ret, ret_n, err);
}

int rk_store_op_newest(struct rk_store *store, int max, struct rk_arena *arena, struct rk_op_row **ret, size_t *ret_n, struct rk_err *err)
{
	const struct rk_db_value args[] = { RK_DB_I(max) };

	return list_ops(store, OP_COLUMNS " ORDER BY id DESC LIMIT ?", args, RK_ARRAY_SIZE(args), arena, ret, ret_n, err);
}

/* Two selections, each by its index: with OR all rows would be read. */
int rk_store_op_open(struct rk_store *store, int64_t since, struct rk_arena *arena, struct rk_op_row **ret, size_t *ret_n, struct rk_err *err)
{
	const struct rk_db_value args[] = { RK_DB_I(since), RK_DB_I(since) };

	return list_ops(store, OP_COLUMNS " WHERE ended_ms = 0 AND id < ? UNION ALL " OP_COLUMNS " WHERE id >= ? ORDER BY id DESC", args, RK_ARRAY_SIZE(args), arena,
			ret, ret_n, err);
}

static int add_beat(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	(void)err;
	rk_str_addf(ctx, " %lld:%s", (long long)rk_db_int(row, 0), rk_db_text(row, 1));
	return 0;
}

/* An operation that ended leaves the list of those that did not, and one that began and ended meanwhile was the newest. */
int rk_store_pulse(struct rk_store *store, struct rk_str *ret, struct rk_err *err)
{
	static const char sql[] = "SELECT value, name FROM meta WHERE name = 'revision' UNION ALL SELECT COALESCE(MAX(id), 0), 'newest' FROM ops"
				  " UNION ALL SELECT id, state FROM ops WHERE ended_ms = 0";
	RK_STORE_HOLD(store);
	int rc = rk_store_ready(store, err);

	return rc ? rc : rk_db_each(store->db, err, add_beat, ret, sql);
}

int rk_store_op_get(struct rk_store *store, int64_t op, struct rk_arena *arena, struct rk_op_row *ret, struct rk_err *err)
{
	struct list l = { .arena = arena };
	RK_STORE_HOLD(store);
	int rc = rk_store_ready(store, err);

	if (!rc)
		rc = rk_db_each(store->db, err, read_op, &l, OP_COLUMNS " WHERE id = ?", RK_DB_I(op));
	if (rc)
		return rc;
	if (!l.n) {
		rk_err_set(err, RK_NOT_FOUND, "no operation %lld", (long long)op);
		rk_err_hint(err, "racksh op list");
		return RK_NOT_FOUND;
	}
	*ret = *(struct rk_op_row *)l.items;
	return 0;
}

int rk_store_step_add(struct rk_store *store, const struct rk_step_row *step, struct rk_err *err)
{
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc)
		rc = rk_db_exec(store->db, err,
				"INSERT INTO steps (op, id, kind, target, params, deps, state, undo_json, detail, started_ms, ended_ms)"
				" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
				RK_DB_I(step->op), RK_DB_I(step->id), RK_DB_S(step->kind), RK_DB_S(step->target ? step->target : ""),
				RK_DB_S(step->params), RK_DB_S(step->deps ? step->deps : ""), RK_DB_S(step->state ? step->state : "planned"),
				RK_DB_S(step->before), RK_DB_S(step->detail), RK_DB_I(step->started_ms), RK_DB_I(step->ended_ms));
	return rk_store_part_journal(store, own, rc, err);
}

int rk_store_step_set(struct rk_store *store, int64_t op, int step, const char *state, const char *before, const char *detail, struct rk_err *err)
{
	static const char *const ended[] = { "done", "undone", "failed", "unknown" };
	int64_t now = rk_store_now_ms(), end = 0;
	bool own;
	int rc = rk_store_join(store, &own, err);

	for (size_t i = 0; i < RK_ARRAY_SIZE(ended); i++)
		if (strcmp(ended[i], state) == 0)
			end = now;
	if (!rc)
		rc = rk_db_exec(store->db, err,
				"UPDATE steps SET state = ?, undo_json = COALESCE(?, undo_json), detail = COALESCE(?, detail),"
				" started_ms = CASE WHEN started_ms = 0 AND CAST(? AS BIGINT) = 1 THEN ? ELSE started_ms END, ended_ms = ?"
				" WHERE op = ? AND id = ?",
				RK_DB_S(state), RK_DB_S(before), RK_DB_S(detail), RK_DB_I(strcmp(state, "planned") != 0), RK_DB_I(now), RK_DB_I(end),
				RK_DB_I(op), RK_DB_I(step));
	if (!rc && !store->db->changed)
		rc = rk_err_set(err, RK_NOT_FOUND, "no step %d in operation %lld", step, (long long)op);
	if (!rc)
		rc = rk_store_renew(store, op, err);
	return rk_store_part_journal(store, own, rc, err);
}

static int read_step(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct list *l = ctx;
	struct rk_step_row *step = add_row(l, sizeof(*step));

	(void)err;
	step->op = rk_db_int(row, 0);
	step->id = (int)rk_db_int(row, 1);
	step->kind = rk_arena_strdup(l->arena, rk_db_text(row, 2));
	step->target = rk_arena_strdup(l->arena, rk_db_text(row, 3));
	step->params = rk_arena_strdup(l->arena, rk_db_text(row, 4));
	step->deps = rk_arena_strdup(l->arena, rk_db_text(row, 5));
	step->state = rk_arena_strdup(l->arena, rk_db_text(row, 6));
	step->before = rk_arena_strdup(l->arena, rk_db_text(row, 7));
	step->detail = rk_arena_strdup(l->arena, rk_db_text(row, 8));
	step->started_ms = rk_db_int(row, 9);
	step->ended_ms = rk_db_int(row, 10);
	return 0;
}

int rk_store_step_list(struct rk_store *store, int64_t op, struct rk_arena *arena, struct rk_step_row **ret, size_t *ret_n, struct rk_err *err)
{
	struct list l = { .arena = arena };
	RK_STORE_HOLD(store);
	int rc = rk_store_ready(store, err);

	if (!rc)
		rc = rk_db_each(store->db, err, read_step, &l,
				"SELECT op, id, kind, target, params, deps, state, undo_json, detail, started_ms, ended_ms FROM steps WHERE op = ?"
				" ORDER BY id",
				RK_DB_I(op));
	if (rc)
		return rc;
	*ret = l.items;
	*ret_n = l.n;
	return 0;
}

int rk_store_audit(struct rk_store *store, const char *command, const char *result, int64_t op, struct rk_err *err)
{
	bool own;
	int64_t id = 0;
	int rc = rk_store_join(store, &own, err);

	if (!rc) {
		rk_store_what(store, "%s", command);
		rc = rk_store_next(store, "audit", &id, err);
	}
	if (!rc)
		rc = rk_db_exec(store->db, err, "INSERT INTO audit (id, at_ms, actor, command, result, op) VALUES (?, ?, ?, ?, ?, ?)", RK_DB_I(id),
				RK_DB_I(rk_store_now_ms()), RK_DB_S(store->by), RK_DB_S(command), RK_DB_S(result ? result : ""), RK_DB_I(op));
	return rk_store_part_journal(store, own, rc, err);
}

static int read_audit(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct list *l = ctx;
	struct rk_audit_row *a = add_row(l, sizeof(*a));

	(void)err;
	a->id = rk_db_int(row, 0);
	a->at_ms = rk_db_int(row, 1);
	a->by = rk_arena_strdup(l->arena, rk_db_text(row, 2));
	a->command = rk_arena_strdup(l->arena, rk_db_text(row, 3));
	a->result = rk_arena_strdup(l->arena, rk_db_text(row, 4));
	a->op = rk_db_int(row, 5);
	return 0;
}

int rk_store_audit_list(struct rk_store *store, struct rk_arena *arena, struct rk_audit_row **ret, size_t *ret_n, struct rk_err *err)
{
	struct list l = { .arena = arena };
	RK_STORE_HOLD(store);
	int rc = rk_store_ready(store, err);

	/* The newest ones, oldest first. */
	if (!rc)
		rc = rk_db_each(store->db, err, read_audit, &l,
				"SELECT id, at_ms, actor, command, result, op FROM audit WHERE id > (SELECT COALESCE(MAX(id), 0) FROM audit) - ? ORDER BY id",
				RK_DB_I(AUDIT_MAX));
	if (rc)
		return rc;
	*ret = l.items;
	*ret_n = l.n;
	return 0;
}
