#include <stdlib.h>

#include "inventory/db.h"
#include "provision/sim_impl.h"

/* The twin's table in the state file, beside the store's: same file, own connection. Every change is one transaction. */
static const char *const tables[] = {
	"CREATE TABLE IF NOT EXISTS sim_state (k TEXT PRIMARY KEY, v TEXT NOT NULL)",
	"CREATE TABLE IF NOT EXISTS sim_meta (id INTEGER PRIMARY KEY, revision INTEGER NOT NULL)",
	"INSERT INTO sim_meta (id, revision) SELECT 1, 1 WHERE NOT EXISTS (SELECT 1 FROM sim_meta)",
};

static int load_row(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	(void)err;
	rk_sim_load(ctx, rk_db_text(row, 0), rk_db_text(row, 1));
	return 0;
}

static int reload(struct rk_sim *sim, int64_t revision, struct rk_err *err)
{
	rk_sim_forget(sim);
	sim->revision = revision;
	return rk_db_query(sim->db, "SELECT k, v FROM sim_state ORDER BY k", NULL, 0, load_row, sim, err);
}

static int newer(struct rk_sim *sim, struct rk_err *err)
{
	int64_t revision = 0;
	int rc = rk_db_one_int(sim->db, "SELECT revision FROM sim_meta WHERE id = 1", NULL, 0, 0, &revision, err);

	return rc || revision == sim->revision ? rc : reload(sim, revision, err);
}

int rk_sim_db_open(struct rk_sim *sim, const char *path, struct rk_err *err)
{
	char *uri RK_CLEANUP_FREE = rk_xasprintf("sqlite:%s", path);
	int rc = rk_db_open(uri, true, &sim->db, err);

	/* A killed process loses nothing of what it wrote: to wait for the disk at every change of a simulation buys nothing. The store, whose commits are
	 * in the same log behind it, waits. */
	if (!rc)
		rc = rk_db_query(sim->db, "PRAGMA synchronous=NORMAL", NULL, 0, NULL, NULL, err);
	if (!rc)
		rc = sim->db->driver->begin(sim->db, true, err);
	if (rc)
		return rc;
	for (size_t i = 0; !rc && i < RK_ARRAY_SIZE(tables); i++)
		rc = rk_db_query(sim->db, tables[i], NULL, 0, NULL, NULL, err);
	if (!rc)
		rc = newer(sim, err);
	if (!rc)
		return sim->db->driver->commit(sim->db, err);
	sim->db->driver->rollback(sim->db);
	return rc;
}

void rk_sim_db_close(struct rk_sim *sim)
{
	if (sim->db)
		rk_db_close(sim->db);
	sim->db = NULL;
}

int rk_sim_db_begin(struct rk_sim *sim, bool changes, struct rk_err *err)
{
	int rc = sim->db ? sim->db->driver->begin(sim->db, changes, err) : 0;

	sim->wrote = false;
	if (!sim->db || rc)
		return rc;
	rc = newer(sim, err);
	if (rc)
		sim->db->driver->rollback(sim->db);
	return rc;
}

void rk_sim_db_put(struct rk_sim *sim, const char *key, const char *value)
{
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	/* A statement that fails here spoils the transaction, and its commit tells. */
	if (!sim->db)
		return;
	sim->wrote = true;
	int rc = rk_db_exec(sim->db, &err, "DELETE FROM sim_state WHERE k = ?", RK_DB_S(key));
	if (!rc && value)
		rc = rk_db_exec(sim->db, &err, "INSERT INTO sim_state (k, v) VALUES (?, ?)", RK_DB_S(key), RK_DB_S(value));
	sim->revision = rc ? -1 : sim->revision;
}

/* keep = false: nothing is to be kept of this call; when it wrote something, memory is read again. */
int rk_sim_db_end(struct rk_sim *sim, bool keep, struct rk_err *err)
{
	int rc = 0;

	if (!sim->db)
		return 0;
	if (keep && sim->revision >= 0) {
		rc = rk_db_exec(sim->db, err, "UPDATE sim_meta SET revision = revision + 1 WHERE id = ?", RK_DB_I(1));
		if (!rc)
			rc = sim->db->driver->commit(sim->db, err);
		if (!rc) {
			sim->revision++;
			return 0;
		}
	}
	sim->db->driver->rollback(sim->db);
	if (sim->wrote || keep)
		sim->revision = -1;
	return rc ? rc : keep ? rk_err_set(err, RK_FAILED, "the twin's state file could not be written") : 0;
}
