#include <inttypes.h>
#include <string.h>

#include "inventory/base/str.h"
#include "inventory/store_impl.h"

/* What health keeps in the store: silences, and what was measured on each target. */

int rk_store_add_silence(struct rk_store *store, const struct rk_silence *s, int64_t *ret_id, struct rk_err *err)
{
	bool own;
	int64_t id = 0;
	int rc = rk_store_join(store, &own, err);

	if (!rc) {
		rk_store_what(store, "silence create %s", s->trays);
		rc = rk_store_next(store, "silence", &id, err);
	}
	if (!rc)
		rc = rk_db_exec(store->db, err, "INSERT INTO silences (id, trays, checks, reason, from_ms, to_ms, actor) VALUES (?, ?, ?, ?, ?, ?, ?)",
				RK_DB_I(id), RK_DB_S(s->trays), RK_DB_S(s->checks), RK_DB_S(s->reason), RK_DB_I(s->from_unix_ms), RK_DB_I(s->to_unix_ms),
				RK_DB_S(s->by ? s->by : store->by));
	rc = rk_store_part(store, own, rc, err);
	if (!rc)
		*ret_id = id;
	return rc;
}

int rk_store_remove_silence(struct rk_store *store, int64_t id, struct rk_err *err)
{
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc) {
		rk_store_what(store, "silence cancel %" PRId64, id);
		rc = rk_db_exec(store->db, err, "DELETE FROM silences WHERE id = ?", RK_DB_I(id));
	}
	if (!rc && !store->db->changed)
		rc = rk_err_set(err, RK_NOT_FOUND, "no silence %" PRId64, id);
	return rk_store_part(store, own, rc, err);
}

static int add_sample(struct rk_db *db, const struct rk_health_sample *s, struct rk_err *err)
{
	int rc = rk_db_exec(db, err, "DELETE FROM health_samples WHERE target = ? AND at_ms = ?", RK_DB_S(s->target), RK_DB_I(s->at_ms));

	if (!rc)
		rc = rk_db_exec(db, err, "INSERT INTO health_samples (target, at_ms, body) VALUES (?, ?, ?)", RK_DB_S(s->target), RK_DB_I(s->at_ms),
				RK_DB_S(s->body));
	if (!rc)
		rc = rk_db_exec(db, err, "DELETE FROM health_samples WHERE target = ? AND at_ms NOT IN"
				" (SELECT at_ms FROM health_samples WHERE target = ? ORDER BY at_ms DESC LIMIT ?)",
				RK_DB_S(s->target), RK_DB_S(s->target), RK_DB_I(RK_HEALTH_SAMPLES));
	return rc;
}

int rk_store_add_health_samples(struct rk_store *store, const struct rk_health_sample *samples, size_t n, struct rk_err *err)
{
	bool own;
	int rc = rk_store_join(store, &own, err);

	for (size_t i = 0; !rc && i < n; i++)
		rc = add_sample(store->db, &samples[i], err);
	return rk_store_part_journal(store, own, rc, err);
}

struct list {
	struct rk_arena *arena;
	struct rk_health_sample *items;
	size_t n, cap;
};

static int read_sample(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct list *l = ctx;

	(void)err;
	*rk_vec_push(l) = (struct rk_health_sample){ rk_arena_strdup(l->arena, rk_db_text(row, 0)), rk_db_int(row, 1),
						     rk_arena_strdup(l->arena, rk_db_text(row, 2)) };
	return 0;
}

static int by_target(const void *a, const void *b)
{
	const struct rk_health_sample *x = a, *y = b;
	int c = strcmp(x->target, y->target);

	return c ? c : (x->at_ms < y->at_ms) - (x->at_ms > y->at_ms);
}

int rk_store_health_samples(struct rk_store *store, const char *target, struct rk_arena *arena, struct rk_health_sample **ret, size_t *ret_n,
			    struct rk_err *err)
{
	struct list l = { .arena = arena };
	RK_STORE_HOLD(store);
	int rc = rk_store_ready(store, err);

	if (!rc)
		rc = rk_db_each(store->db, err, read_sample, &l, "SELECT target, at_ms, body FROM health_samples WHERE target = COALESCE(CAST(? AS TEXT), target)",
				RK_DB_S(target));
	if (!rc) {
		*ret = rk_arena_array(arena, l.n + 1, sizeof(**ret));
		if (l.n)
			memcpy(*ret, l.items, l.n * sizeof(*l.items));
		qsort(*ret, l.n, sizeof(**ret), by_target);
		*ret_n = l.n;
	}
	free(l.items);
	return rc;
}
