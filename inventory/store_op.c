#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "inventory/base/clock.h"
#include "inventory/base/file.h"
#include "inventory/base/str.h"
#include "inventory/store_impl.h"

/* Operations, their journal, leases and the audit: no part of a snapshot, so they leave the revision alone when they are on their own. */

enum { LEASE_MS = 30 * 60 * 1000, AUDIT_MAX = 10000 };

static bool is_final(const char *state)
{
	static const char *const finals[] = { "done", "failed", "rolled-back", "cancelled" };

	for (size_t i = 0; i < RK_ARRAY_SIZE(finals); i++)
		if (strcmp(finals[i], state) == 0)
			return true;
	return false;
}

/* When a process of this machine began (ticks since boot, field 22 of its stat): a reused pid is somebody else. 0 when unknown. */
static int64_t process_start(long pid)
{
	char *path RK_CLEANUP_FREE = rk_xasprintf("/proc/%ld/stat", pid), *text RK_CLEANUP_FREE = NULL;
	size_t len;

	if (rk_file_read(path, 4096, &text, &len, NULL))
		return 0;
	const char *at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	return at ? strtoll(at, NULL, 10) : 0;
}

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
				RK_DB_I(process_start(store->pid)), RK_DB_I(rk_store_now_ms()));
	rc = rk_store_part_journal(store, own, rc, err);
	if (!rc)
		*ret_id = id;
	return rc;
}

/* A live operation keeps its leases. */
static int renew(struct rk_store *store, int64_t op, struct rk_err *err)
{
	return rk_db_exec(store->db, err, "UPDATE leases SET expires_ms = ? WHERE op = ?", RK_DB_I(rk_store_now_ms() + LEASE_MS), RK_DB_I(op));
}

int rk_store_op_set(struct rk_store *store, int64_t op, const char *state, const char *detail, struct rk_err *err)
{
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc)
		rc = rk_db_exec(store->db, err, "UPDATE ops SET state = ?, detail = COALESCE(?, detail), ended_ms = ? WHERE id = ?", RK_DB_S(state),
				RK_DB_S(detail), RK_DB_I(is_final(state) ? rk_store_now_ms() : 0), RK_DB_I(op));
	if (!rc && !store->db->changed)
		rc = rk_err_set(err, RK_NOT_FOUND, "no operation %lld", (long long)op);
	if (!rc)
		rc = renew(store, op, err);
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

int rk_store_op_list(struct rk_store *store, struct rk_arena *arena, struct rk_op_row **ret, size_t *ret_n, struct rk_err *err)
{
	struct list l = { .arena = arena };
	RK_STORE_HOLD(store);
	int rc = rk_store_ready(store, err);

	if (!rc)
		rc = rk_db_each(store->db, err, read_op, &l, OP_COLUMNS " ORDER BY id DESC");
	if (rc)
		return rc;
	*ret = l.items;
	*ret_n = l.n;
	return 0;
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
	if (!l.n)
		return rk_err_set(err, RK_NOT_FOUND, "no operation %lld", (long long)op);
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
		rc = renew(store, op, err);
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

struct lease {
	struct rk_err *said;
	const struct rk_store *store;
	const char *thing;
	int64_t op; /* holder; 0 = nobody */
};

static int read_lease(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct lease *l = ctx;
	char since[32];

	(void)err;
	l->op = rk_db_int(row, 0);
	rk_time_iso(rk_db_int(row, 5), since);
	rk_err_set(l->said, RK_CONFLICT, "\"%s\" is held by %s@%s %lld since %s: %s (operation %lld)", l->thing, rk_db_text(row, 1),
		   rk_db_text(row, 2), (long long)rk_db_int(row, 3), since, rk_db_text(row, 4), (long long)l->op);
	rk_err_hint(l->said, "racksh op show %lld; when its process is gone: racksh op resume, rollback or takeover %lld", (long long)l->op,
		    (long long)l->op);
	return 0;
}

static int take_lease(struct rk_store *store, const char *thing, int64_t op, const char *purpose, struct rk_err *err)
{
	RK_CLEANUP_ERR struct rk_err said = RK_ERR_INIT;
	struct lease l = { &said, store, thing, 0 };
	int64_t now = rk_store_now_ms();
	int rc = rk_db_each(store->db, err, read_lease, &l,
			    "SELECT op, owner_user, owner_host, owner_pid, purpose, since_ms FROM leases WHERE thing = ?", RK_DB_S(thing));

	if (rc)
		return rc;
	if (l.op == op && said.rc)
		return renew(store, op, err);
	if (said.rc) {
		if (err)
			rk_err_move(err, &said);
		return RK_CONFLICT;
	}
	return rk_db_exec(store->db, err,
			  "INSERT INTO leases (thing, op, owner_user, owner_host, owner_pid, purpose, since_ms, expires_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
			  RK_DB_S(thing), RK_DB_I(op), RK_DB_S(store->user), RK_DB_S(store->host), RK_DB_I(store->pid),
			  RK_DB_S(purpose ? purpose : ""), RK_DB_I(now), RK_DB_I(now + LEASE_MS));
}

int rk_store_lease_take(struct rk_store *store, const char *thing, int64_t op, const char *purpose, struct rk_err *err)
{
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc)
		rc = take_lease(store, thing, op, purpose, err);
	return rk_store_part_journal(store, own, rc, err);
}

int rk_store_lease_held(struct rk_store *store, const char *thing, bool *ret, struct rk_err *err)
{
	RK_STORE_HOLD(store);
	int rc = rk_store_ready(store, err);

	return rc ? rc : rk_store_exists(store, "SELECT COUNT(*) FROM leases WHERE thing = ?", thing, ret, err);
}

int rk_store_lease_drop(struct rk_store *store, int64_t op, struct rk_err *err)
{
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc)
		rc = rk_db_exec(store->db, err, "DELETE FROM leases WHERE op = ?", RK_DB_I(op));
	return rk_store_part_journal(store, own, rc, err);
}

/* The lease says who ran it last; without one, the operation says who began it. */
static int former_owner(struct rk_store *store, int64_t op, struct rk_arena *arena, const char **ret, struct rk_err *err)
{
	const struct rk_db_value arg = RK_DB_I(op);
	int rc = rk_db_one_text(store->db,
				"SELECT owner_user || '@' || owner_host || ' ' || owner_pid FROM leases WHERE op = ? ORDER BY since_ms LIMIT 1", &arg, 1,
				arena, ret, err);

	if (!rc && !*ret)
		rc = rk_db_one_text(store->db, "SELECT actor FROM ops WHERE id = ?", &arg, 1, arena, ret, err);
	if (!rc && !*ret)
		rc = rk_err_set(err, RK_NOT_FOUND, "no operation %lld", (long long)op);
	return rc;
}

int rk_store_lease_takeover(struct rk_store *store, int64_t op, struct rk_arena *arena, const char **ret_former, struct rk_err *err)
{
	bool own;
	const char *former = NULL;
	int rc = rk_store_join(store, &own, err);

	if (!rc)
		rc = former_owner(store, op, arena, &former, err);
	if (!rc)
		rc = rk_db_exec(store->db, err, "UPDATE leases SET owner_user = ?, owner_host = ?, owner_pid = ?, since_ms = ?, expires_ms = ? WHERE op = ?",
				RK_DB_S(store->user), RK_DB_S(store->host), RK_DB_I(store->pid), RK_DB_I(rk_store_now_ms()),
				RK_DB_I(rk_store_now_ms() + LEASE_MS), RK_DB_I(op));
	if (!rc)
		rc = rk_db_exec(store->db, err, "UPDATE ops SET runner_host = ?, runner_pid = ?, runner_start = ? WHERE id = ?", RK_DB_S(store->host),
				RK_DB_I(store->pid), RK_DB_I(process_start(store->pid)), RK_DB_I(op));
	rc = rk_store_part_journal(store, own, rc, err);
	if (!rc)
		*ret_former = former;
	return rc;
}

struct runner {
	const struct rk_store *store;
	bool found, alive;
};

static int read_runner(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct runner *r = ctx;
	int64_t pid = rk_db_int(row, 2), start = rk_db_int(row, 3);

	(void)err;
	r->found = true;
	if (is_final(rk_db_text(row, 0)))
		return 0;
	if (!rk_streq(rk_db_text(row, 1), r->store->host)) {
		r->alive = rk_db_int(row, 4) > rk_store_now_ms();
		return 0;
	}
	r->alive = pid > 0 && (kill((pid_t)pid, 0) == 0 || errno == EPERM);
	int64_t now = r->alive && start ? process_start((long)pid) : 0;
	if (now && now != start)
		r->alive = false;
	return 0;
}

int rk_store_op_alive(struct rk_store *store, int64_t op, bool *ret, struct rk_err *err)
{
	struct runner r = { store, false, false };
	RK_STORE_HOLD(store);
	int rc = rk_store_ready(store, err);

	if (!rc)
		rc = rk_db_each(store->db, err, read_runner, &r,
				"SELECT state, runner_host, runner_pid, runner_start, COALESCE((SELECT MAX(expires_ms) FROM leases WHERE op = ops.id), 0)"
				" FROM ops WHERE id = ?",
				RK_DB_I(op));
	if (rc)
		return rc;
	if (!r.found)
		return rk_err_set(err, RK_NOT_FOUND, "no operation %lld", (long long)op);
	*ret = r.alive;
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
