#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "inventory/base/str.h"
#include "inventory/store_impl.h"

/* Care of a store: is it whole, a copy of it, a newer schema. */

enum { PROBLEMS_MAX = 50 };

/* What no constraint says. Each row of a query is one problem. */
static const char *const rules[] = {
	"SELECT 'VM ' || v.name || ' on tray ' || v.tray || ' holds a GPU of tray ' || t.name FROM gpu_alloc a JOIN vms v ON v.id = a.vm"
	" JOIN gpus g ON g.guid = a.guid JOIN trays t ON t.pos = g.tray WHERE t.name <> v.tray",
	"SELECT 'VM ' || v.name || ' on tray ' || v.tray || ' holds a port of tray ' || t.name FROM port_alloc a JOIN vms v ON v.id = a.vm"
	" JOIN hcas h ON h.guid = a.guid JOIN trays t ON t.pos = h.tray WHERE t.name <> v.tray",
	"SELECT 'cluster ' || c.name || ' has the next number ' || c.next_number || ' but a VM with number ' || v.number FROM vms v"
	" JOIN clusters c ON c.id = v.cluster WHERE v.number >= c.next_number",
	"SELECT 'lease on ' || thing || ' belongs to operation ' || op || ', which is not there' FROM leases WHERE op NOT IN (SELECT id FROM ops)",
	"SELECT 'GPU ' || r.identity || ' was retired from tray ' || r.tray || ', but is in use' FROM retired r JOIN gpus g"
	" ON r.kind = 'gpu' AND r.identity = CAST(g.guid AS TEXT)",
	"SELECT 'tray ' || name || ' belongs to a rack that is not there' FROM trays WHERE rack NOT IN (SELECT pos FROM racks)",
	"SELECT 'a GPU belongs to tray number ' || tray || ', which is not there' FROM gpus WHERE tray NOT IN (SELECT pos FROM trays)",
	"SELECT 'an HCA belongs to tray number ' || tray || ', which is not there' FROM hcas WHERE tray NOT IN (SELECT pos FROM trays)",
};

static int note_problem(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct rk_err *said = ctx;

	(void)err;
	if (said->n_details < PROBLEMS_MAX)
		rk_err_detail(said, "%s", rk_db_text(row, 0));
	return 0;
}

int rk_store_check(struct rk_store *store, struct rk_err *err)
{
	RK_CLEANUP_ERR struct rk_err said = RK_ERR_INIT;
	RK_STORE_HOLD(store);
	int rc = store->db->driver->check ? store->db->driver->check(store->db, err) : 0;

	if (!rc)
		rc = rk_store_ready(store, err);
	rk_err_set(&said, RK_UNHEALTHY, "the store \"%s\" contradicts itself", store->shown);
	for (size_t i = 0; i < RK_ARRAY_SIZE(rules) && !rc; i++)
		rc = rk_db_query(store->db, rules[i], NULL, 0, note_problem, &said, err);
	if (rc || !said.n_details)
		return rc;
	rk_err_hint(&said, "delete the clusters that are named, or go on with the last racksh store backup");
	if (err)
		rk_err_move(err, &said);
	return RK_UNHEALTHY;
}

int rk_store_examine(const char *uri, struct rk_err *err)
{
	RK_CLEANUP_STORE struct rk_store *store = NULL;
	RK_CLEANUP_ERR struct rk_err said = RK_ERR_INIT;

	if (rk_db_absent(uri)) {
		rk_err_set(err, RK_UNREACHABLE, "there is no store \"%s\": nothing was checked", uri);
		rk_err_hint(err, "racksh site import FILE makes it; another one is named with --store or $RACKSH_STORE");
		return RK_UNREACHABLE;
	}
	int rc = rk_store_open(uri, RK_STORE_READ, NULL, &store, &said);
	if (!rc)
		rc = rk_store_check(store, &said);
	/* What cannot be looked at is not known to be bad. */
	if (rc == RK_FAILED)
		rc = rk_db_damaged(uri) ? RK_UNHEALTHY : RK_UNREACHABLE;
	said.rc = rc;
	if (rc == RK_UNHEALTHY && !said.n_details)
		rk_err_hint(&said, "keep the file, and go on with the last racksh store backup");
	if (rc && err)
		rk_err_move(err, &said);
	return rc;
}

/* A store on a server is copied row by row into memory, in one snapshot of the server, and that into a file. */
static int copy_rows(struct rk_store *store, const char *path, struct rk_err *err)
{
	struct rk_db *memory RK_CLEANUP_DB = NULL;
	int rc = rk_store_ready(store, err);

	if (!rc)
		rc = rk_db_open("mem:", true, &memory, err);
	if (!rc)
		rc = rk_store_apply_schema(memory, rk_store_newest_schema(), err);
	if (!rc)
		rc = memory->driver->begin(memory, true, err);
	if (!rc)
		rc = rk_store_copy_tables(store, memory, err);
	if (!rc)
		rc = memory->driver->commit(memory, err);
	return rc ? rc : memory->driver->backup(memory, path, err);
}

static int cannot(const char *path, struct rk_err *err)
{
	int e = errno;

	rk_err_set(err, e == EEXIST ? RK_INVALID : RK_FAILED, "cannot write the backup \"%s\": %s", path, strerror(e));
	rk_err_hint(err, e == EEXIST ? "name a file that is not there yet" : "name a file in a folder that you can write");
	return e == EEXIST ? RK_INVALID : RK_FAILED;
}

/* SQLite keeps its logs beside the file. */
static void remove_with_logs(const char *path)
{
	static const char *const ends[] = { "", "-journal", "-wal", "-shm" };

	for (size_t i = 0; i < RK_ARRAY_SIZE(ends); i++) {
		char *name RK_CLEANUP_FREE = rk_xasprintf("%s%s", path, ends[i]);
		unlink(name);
	}
}

/* Never over another file; whole or not there. */
int rk_store_backup(struct rk_store *store, const char *path, struct rk_err *err)
{
	char *temp RK_CLEANUP_FREE = rk_xasprintf("%s.tmp.%ld", path, (long)getpid());
	RK_STORE_HOLD(store);
	int fd RK_CLEANUP_FD = -1, rc;

	if (access(path, F_OK) == 0) {
		errno = EEXIST;
		return cannot(path, err);
	}
	fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return cannot(temp, err);
	if (store->db->driver->backup)
		rc = store->db->driver->backup(store->db, temp, err);
	else
		rc = copy_rows(store, temp, err);
	if (!rc && (fsync(fd) < 0 || link(temp, path) < 0))
		rc = cannot(path, err);
	remove_with_logs(temp);
	return rc;
}

int rk_store_migrate(struct rk_store *store, int *ret_from, int *ret_to, struct rk_err *err)
{
	int from = store->schema, to = rk_store_newest_schema();

	if (store->in_change)
		return rk_err_set(err, RK_BUG, "a migration inside a change");
	if (from < to && store->mode == RK_STORE_READ)
		return rk_err_set(err, RK_INVALID, "the store \"%s\" was opened for reading only", store->shown);
	int rc = from < to ? rk_store_apply_schema(store->db, to, err) : 0;
	if (rc)
		return rc;
	store->schema = to;
	*ret_from = from;
	*ret_to = to;
	return 0;
}

int rk_store_schema(const struct rk_store *store)
{
	return store->schema;
}
