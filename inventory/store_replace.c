#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "inventory/base/str.h"
#include "inventory/store_impl.h"
#include "inventory/tray_identity.h"

/* New hardware in a slot: the identities of the old one are retired, what was allocated by them is allocated by the new ones. */

struct swap {
	struct rk_store *store;
	const char *tray;
	int64_t pos; /* of the tray */
};

static int retire(const struct swap *s, const char *kind, const char *identity, struct rk_err *err)
{
	return rk_db_exec(s->store->db, err,
			  "INSERT INTO retired (kind, identity, tray, reason, actor, at_ms) VALUES (?, ?, ?, 'replaced', ?, ?) ON CONFLICT (kind, identity)"
			  " DO UPDATE SET tray = excluded.tray, actor = excluded.actor, at_ms = excluded.at_ms",
			  RK_DB_S(kind), RK_DB_S(identity), RK_DB_S(s->tray), RK_DB_S(s->store->by), RK_DB_I(rk_store_now_ms()));
}

/* Repaired hardware that comes back is in service again. */
static int reinstate(const struct swap *s, const char *kind, const char *identity, struct rk_err *err)
{
	return rk_db_exec(s->store->db, err, "DELETE FROM retired WHERE kind = ? AND identity = ?", RK_DB_S(kind), RK_DB_S(identity));
}

/* Who has this GUID now, other than this tray? */
static int refuse_taken(const struct swap *s, const char *sql, const char *thing, uint64_t guid, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const struct rk_db_value args[] = { RK_DB_I(guid), RK_DB_I(s->pos) };
	const char *holder = NULL;
	int rc = rk_db_one_text(s->store->db, sql, args, 2, arena, &holder, err);

	if (rc || !holder)
		return rc;
	rk_err_set(err, RK_CONFLICT, "%s 0x%016" PRIx64 " is recorded in tray \"%s\"", thing, guid, holder);
	rk_err_hint(err, "racksh site discover %s,%s", s->tray, holder);
	return RK_CONFLICT;
}

static int swap_guid(const struct swap *s, const char *kind, uint64_t was, uint64_t is, const char *alloc_sql, struct rk_err *err)
{
	char old[24], new[24];
	int rc = 0;

	snprintf(old, sizeof(old), "%" PRId64, (int64_t)was);
	snprintf(new, sizeof(new), "%" PRId64, (int64_t)is);
	if (was)
		rc = retire(s, kind, old, err);
	if (!rc)
		rc = reinstate(s, kind, new, err);
	if (!rc && was)
		rc = rk_db_exec(s->store->db, err, alloc_sql, RK_DB_I(is), RK_DB_I(was));
	return rc;
}

static int swap_gpu(const struct swap *s, int index, uint64_t was, const struct rk_tray_identity *to, struct rk_err *err)
{
	uint64_t is = to->gpus[index].guid;
	int rc = 0;

	if (is != was)
		rc = refuse_taken(s, "SELECT t.name FROM gpus g JOIN trays t ON t.pos = g.tray WHERE g.guid = ? AND g.tray <> ?", "GPU", is, err);
	if (!rc)
		rc = rk_db_exec(s->store->db, err, "UPDATE gpus SET guid = ?, serial = ?, uuid = ? WHERE tray = ? AND idx = ?", RK_DB_GUID(is),
				RK_DB_S(to->gpus[index].serial), RK_DB_S(to->gpus[index].uuid), RK_DB_I(s->pos), RK_DB_I(index));
	return rc || is == was ? rc : swap_guid(s, "gpu", was, is, "UPDATE gpu_alloc SET guid = ? WHERE guid = ?", err);
}

static int swap_port(const struct swap *s, int rail, uint64_t was, uint64_t is, struct rk_err *err)
{
	if (is == was)
		return 0;
	int rc = refuse_taken(s, "SELECT t.name FROM hcas h JOIN trays t ON t.pos = h.tray WHERE h.guid = ? AND h.tray <> ?", "port", is, err);
	if (!rc)
		rc = rk_store_port_not_server(s->store, is, err);
	if (!rc)
		rc = rk_db_exec(s->store->db, err, "UPDATE hcas SET guid = ? WHERE tray = ? AND rail = ?", RK_DB_GUID(is), RK_DB_I(s->pos), RK_DB_I(rail));
	return rc ? rc : swap_guid(s, "port", was, is, "UPDATE port_alloc SET guid = ? WHERE guid = ?", err);
}

/* Two identities of one tray may have changed places: the old ones go first. */
static int clear_old(const struct swap *s, struct rk_err *err)
{
	int rc = rk_db_exec(s->store->db, err, "UPDATE gpus SET guid = NULL WHERE tray = ?", RK_DB_I(s->pos));

	return rc ? rc : rk_db_exec(s->store->db, err, "UPDATE hcas SET guid = NULL WHERE tray = ?", RK_DB_I(s->pos));
}

static int swap_serial(const struct swap *s, const char *was, const char *is, struct rk_err *err)
{
	const struct rk_db_value args[] = { RK_DB_S(is), RK_DB_I(s->pos) };
	int64_t taken = 0;
	int rc = rk_db_one_int(s->store->db, "SELECT COUNT(*) FROM trays WHERE serial = ? AND pos <> ?", args, 2, 0, &taken, err);

	if (!rc && taken)
		rc = rk_err_set(err, RK_CONFLICT, "serial \"%s\" is recorded in another tray", is);
	if (!rc && was && !rk_streq(was, is))
		rc = retire(s, "tray", was, err);
	if (!rc && is)
		rc = reinstate(s, "tray", is, err);
	return rc ? rc : rk_db_exec(s->store->db, err, "UPDATE trays SET serial = ? WHERE pos = ?", RK_DB_S(is), RK_DB_I(s->pos));
}

static int replace(struct rk_store *store, const struct rk_site *site, int tray, const struct rk_tray_identity *to, struct rk_err *err)
{
	const struct rk_tray *t = &site->trays[tray];
	struct swap s = { store, t->name, tray };
	struct rk_tray_identity from;
	int rc = clear_old(&s, err);

	rk_tray_identity_of(site, tray, &from);
	if (!rc)
		rc = swap_serial(&s, from.serial, to->serial, err);
	for (int g = 0; g < t->n_gpus && !rc; g++)
		rc = swap_gpu(&s, g, from.gpus[g].guid, to, err);
	for (int h = 0; h < t->n_hcas && !rc; h++)
		rc = swap_port(&s, h, from.ports[h], to->ports[h], err);
	/* These marks were about the hardware that left. */
	if (!rc)
		rc = rk_store_set_tray_faulty(store, t->name, NULL, err);
	if (!rc)
		rc = rk_store_set_tray_leak(store, t->name, NULL, err);
	if (!rc)
		rc = rk_db_exec(store->db, err, "DELETE FROM health_samples WHERE target = ?", RK_DB_S(t->name));
	if (!rc && t->vm >= 0)
		rc = rk_store_set_vm_state(store, site->vms[t->vm].name, RK_VM_FAILED, err);
	return rc ? rc : rk_store_place_leaves(store, err);
}

int rk_store_replace_tray(struct rk_store *store, const char *tray, const struct rk_tray_identity *identity, struct rk_err *err)
{
	RK_CLEANUP_SITE struct rk_site *site = NULL;
	bool own;
	int at = RK_NONE, rc = rk_store_join(store, &own, err);

	if (!rc) {
		rk_store_what(store, "tray replace %s", tray);
		rc = rk_store_read_site(store, &site, err);
	}
	if (!rc) {
		at = rk_find_tray(site, tray);
		rc = at < 0 ? rk_err_set(err, RK_NOT_FOUND, "no tray \"%s\"", tray) : rk_tray_identity_complete(site, at, identity, err);
	}
	if (!rc)
		rc = replace(store, site, at, identity, err);
	return rk_store_part(store, own, rc, err);
}
