#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/store_impl.h"

/* What was last read of NVLink domains, kept as marks of kind "nvlink": of partitions by RACK/NAME, of controllers by RACK. It is no change of the site: the revision stays, and
 * whoever plans meanwhile is not disturbed. */

static int note(struct rk_store *store, const char *label, const char *what, const char *value, struct rk_err *err)
{
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc)
		rc = rk_db_exec(store->db, err,
				"INSERT INTO marks (kind, name, mark, reason, actor, at_ms) VALUES ('nvlink', ?, ?, ?, ?, ?) ON CONFLICT (kind, name, mark)"
				" DO UPDATE SET reason = excluded.reason, actor = excluded.actor, at_ms = excluded.at_ms",
				RK_DB_S(label), RK_DB_S(what), RK_DB_S(value), RK_DB_S(store->by), RK_DB_I(rk_store_now_ms()));
	return rk_store_part_journal(store, own, rc, err);
}

int rk_store_note_nvl(struct rk_store *store, const struct rk_nvl_note *n, struct rk_err *err)
{
	char *label RK_CLEANUP_FREE = rk_xasprintf("%s/%s", n->rack, n->name), live[32], seen[64];
	int rc = 0;

	snprintf(live, sizeof(live), "%ld", n->live);
	snprintf(seen, sizeof(seen), "%ld %ld", n->seen, n->asked);
	if (n->live >= 0)
		rc = note(store, label, "live", live, err);
	return rc || n->asked <= 0 ? rc : note(store, label, "seen", seen, err);
}

struct notes {
	struct rk_nvl_note *items;
	size_t n, cap;
	struct rk_arena *arena;
};

/* Rows of one partition follow each other. */
static int read_note(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct notes *notes = ctx;
	const char *rack = rk_db_text(row, 0), *name = rk_db_text(row, 1), *mark = rk_db_text(row, 2), *value = rk_db_text(row, 3);
	struct rk_nvl_note *last = notes->n ? &notes->items[notes->n - 1] : NULL;

	(void)err;
	if (!last || strcmp(last->rack, rack) != 0 || strcmp(last->name, name) != 0) {
		last = rk_vec_push(notes);
		*last = (struct rk_nvl_note){ .rack = rk_arena_strdup(notes->arena, rack), .name = rk_arena_strdup(notes->arena, name), .live = -1 };
	}
	if (strcmp(mark, "live") == 0 && sscanf(value, "%ld", &last->live) == 1)
		last->live_ms = rk_db_int(row, 4);
	else if (strcmp(mark, "seen") == 0 && sscanf(value, "%ld %ld", &last->seen, &last->asked) == 2)
		last->seen_ms = rk_db_int(row, 4);
	return 0;
}

/* A note that is older than the partition is of an earlier one of the same name. */
int rk_store_nvl_notes(struct rk_store *store, struct rk_arena *arena, struct rk_nvl_note **ret, size_t *ret_n, struct rk_err *err)
{
	RK_STORE_HOLD(store);
	struct notes notes = { .arena = arena };
	int rc = rk_store_ready(store, err);

	if (!rc)
		rc = rk_db_query(store->db,
				 "SELECT p.rack, p.name, m.mark, m.reason, m.at_ms FROM nvl_partitions p JOIN marks m ON m.kind = 'nvlink' AND m.name = p.rack || '/' || p.name"
				 " WHERE m.at_ms >= p.at_ms ORDER BY p.rack, p.name, m.mark", NULL, 0, read_note, &notes, err);
	*ret_n = rc ? 0 : notes.n;
	*ret = rk_arena_array(arena, notes.n, sizeof(**ret));
	if (*ret_n)
		memcpy(*ret, notes.items, notes.n * sizeof(**ret));
	free(notes.items);
	return rc;
}

int rk_store_note_nvl_controller(struct rk_store *store, const char *rack, const char *where, struct rk_err *err)
{
	return note(store, rack, "controller", where, err);
}

struct controller {
	struct rk_arena *arena;
	const char *where;
	int64_t at_ms;
};

static int read_controller(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct controller *c = ctx;

	(void)err;
	c->where = rk_arena_strdup(c->arena, rk_db_text(row, 0));
	c->at_ms = rk_db_int(row, 1);
	return 0;
}

int rk_store_nvl_controller(struct rk_store *store, const char *rack, struct rk_arena *arena, const char **ret, int64_t *ret_ms, struct rk_err *err)
{
	RK_STORE_HOLD(store);
	struct controller c = { .arena = arena };
	int rc = rk_store_ready(store, err);

	if (!rc)
		rc = rk_db_each(store->db, err, read_controller, &c, "SELECT reason, at_ms FROM marks WHERE kind = 'nvlink' AND mark = 'controller' AND name = ?", RK_DB_S(rack));
	*ret = rc ? NULL : c.where;
	*ret_ms = rc ? 0 : c.at_ms;
	return rc;
}
