#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "inventory/base/clock.h"
#include "inventory/base/file.h"
#include "inventory/base/str.h"
#include "inventory/store_impl.h"

/* Leases: who works on what. A dead owner's can be taken over; those on lanes are taken for one step and lost with the process. */

enum { LEASE_MS = 30 * 60 * 1000 };

bool rk_store_op_is_final(const char *state)
{
	static const char *const finals[] = { "done", "failed", "rolled-back", "cancelled" };

	for (size_t i = 0; i < RK_ARRAY_SIZE(finals); i++)
		if (strcmp(finals[i], state) == 0)
			return true;
	return false;
}

/* When a process of this machine began (ticks since boot, field 22 of its stat): a reused pid is somebody else. 0 when unknown. */
int64_t rk_store_process_start(long pid)
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

/* A live operation keeps its leases. */
int rk_store_renew(struct rk_store *store, int64_t op, struct rk_err *err)
{
	return rk_db_exec(store->db, err, "UPDATE leases SET expires_ms = ? WHERE op = ?", RK_DB_I(rk_store_now_ms() + LEASE_MS), RK_DB_I(op));
}

int rk_store_lease_keep(struct rk_store *store, int64_t op, struct rk_err *err)
{
	int64_t now = rk_store_now_ms();
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc)
		rc = rk_db_exec(store->db, err, "UPDATE leases SET expires_ms = ? WHERE op = ? AND expires_ms < ?", RK_DB_I(now + LEASE_MS), RK_DB_I(op),
				RK_DB_I(now + LEASE_MS / 2));
	return rk_store_part_journal(store, own, rc, err);
}

struct lease {
	struct rk_err *said;
	const struct rk_store *store;
	const char *thing;
	int64_t op; /* holder; 0 = nobody */
	bool mine;  /* of this process: an operation that was taken over is another one's */
};

static int read_lease(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct lease *l = ctx;
	char since[32];

	(void)err;
	l->op = rk_db_int(row, 0);
	l->mine = rk_streq(rk_db_text(row, 1), l->store->user) && rk_streq(rk_db_text(row, 2), l->store->host) && rk_db_int(row, 3) == l->store->pid;
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
	struct lease l = { &said, store, thing, 0, false };
	int64_t now = rk_store_now_ms();
	int rc = rk_db_each(store->db, err, read_lease, &l,
			    "SELECT op, owner_user, owner_host, owner_pid, purpose, since_ms FROM leases WHERE thing = ?", RK_DB_S(thing));

	if (rc)
		return rc;
	if (l.op == op && l.mine)
		return rk_store_renew(store, op, err);
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
				RK_DB_I(store->pid), RK_DB_I(rk_store_process_start(store->pid)), RK_DB_I(op));
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
	if (rk_store_op_is_final(rk_db_text(row, 0)))
		return 0;
	if (!rk_streq(rk_db_text(row, 1), r->store->host)) {
		r->alive = rk_db_int(row, 4) > rk_store_now_ms();
		return 0;
	}
	r->alive = pid > 0 && (kill((pid_t)pid, 0) == 0 || errno == EPERM);
	int64_t now = r->alive && start ? rk_store_process_start((long)pid) : 0;
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

/* ---- lanes ------------------------------------------------------------------------------------------------------------------------- */

/* Whoever holds a lane is in the middle of a step: an operation that nobody runs now is in the middle of none. */
static int lane_is_busy(struct rk_store *store, int64_t op, bool *ret, struct rk_err *err)
{
	const struct rk_db_value id = RK_DB_I(op);
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const char *state = NULL;
	int rc = rk_db_one_text(store->db, "SELECT state FROM ops WHERE id = ?", &id, 1, arena, &state, err);

	*ret = false;
	return rc || !rk_streq(state, "running") ? rc : rk_store_op_alive(store, op, ret, err);
}

static int take_lane(struct rk_store *store, const char *lane, int64_t op, const char *purpose, bool *ret, struct rk_err *said, struct rk_err *err)
{
	struct lease l = { said, store, lane, 0, false };
	bool busy = false;
	int rc = rk_db_each(store->db, err, read_lease, &l,
			    "SELECT op, owner_user, owner_host, owner_pid, purpose, since_ms FROM leases WHERE thing = ?", RK_DB_S(lane));

	if (!rc && l.op && l.op != op)
		rc = lane_is_busy(store, l.op, &busy, err);
	*ret = !busy;
	if (rc || busy)
		return rc;
	rk_err_clear(said);
	rc = rk_db_exec(store->db, err, "DELETE FROM leases WHERE thing = ?", RK_DB_S(lane));
	return rc ? rc : take_lease(store, lane, op, purpose, err);
}

int rk_store_lane_take(struct rk_store *store, const char *lane, int64_t op, const char *purpose, bool *ret, struct rk_err *said, struct rk_err *err)
{
	RK_CLEANUP_ERR struct rk_err unheard = RK_ERR_INIT;
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc)
		rc = take_lane(store, lane, op, purpose, ret, said ? said : &unheard, err);
	return rk_store_part_journal(store, own, rc, err);
}

int rk_store_lane_drop(struct rk_store *store, const char *lane, int64_t op, struct rk_err *err)
{
	bool own;
	int rc = rk_store_join(store, &own, err);

	/* After a takeover the same operation holds the lane for a step of its new runner. */
	if (!rc)
		rc = rk_db_exec(store->db, err,
				"DELETE FROM leases WHERE op = ? AND thing = ? AND EXISTS (SELECT 1 FROM ops WHERE id = leases.op AND runner_host = ?"
				" AND runner_pid = ? AND runner_start = ?)",
				RK_DB_I(op), RK_DB_S(lane), RK_DB_S(store->host), RK_DB_I(store->pid), RK_DB_I(rk_store_process_start(store->pid)));
	return rk_store_part_journal(store, own, rc, err);
}
