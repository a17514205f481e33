/* A process that dies just before its k-th durable write: of the journal, or of what the twin keeps (the outside world). Between two of them nothing
 * changes that outlives the process, so with k from 1 until it lives these are all the states that a death can leave; dying after a write is dying
 * before the next one. Counted at SQLite's own commit, over all connections. */
#pragma once
#include <stdatomic.h>
#include <unistd.h>

#include <sqlite3.h>

enum { DIED = 137 }; /* exit code, as of kill -9 */

static struct {
	atomic_long writes;
	long at;
} store_death;

static int before_write(void *context)
{
	(void)context;
	if (atomic_fetch_add(&store_death.writes, 1) + 1 == store_death.at)
		_exit(DIED);
	return 0;
}

static int watch_connection(sqlite3 *db, const char **message, const struct sqlite3_api_routines *api)
{
	(void)message, (void)api;
	sqlite3_commit_hook(db, before_write, NULL);
	return SQLITE_OK;
}

/* Connections that are opened from now on count. */
static inline void watch_writes(void)
{
	if (sqlite3_auto_extension((void (*)(void))watch_connection) != SQLITE_OK)
		_exit(1);
}

/* Counting begins here. */
static inline void die_at_write(long at)
{
	store_death.writes = 0;
	store_death.at = at;
}
