/* A process that dies just before its k-th durable write: of the journal, or of what the twin keeps (the outside world). Between two of them nothing
 * changes that outlives the process, so with k from 1 until it lives these are all the states that a death can leave; dying after a write is dying
 * before the next one. Counted at SQLite's own commit, over all connections.
 * Include cmocka.h first. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sqlite3.h>
#include <sys/wait.h>

#include "inventory/base/mem.h"

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

/* True: the child died there; false: it came to its end. */
static inline bool child_died(pid_t child)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status) == DIED;
}

/* In memory where there is such a folder: every write is synced. */
static inline void make_folder(char *folder, size_t size)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(folder, size, "%s/racksh-deaths-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : tmp ? tmp : P_tmpdir);
	assert_non_null(mkdtemp(folder));
}

/* A store with the files that SQLite puts beside it. */
static inline void remove_state(const char *state)
{
	static const char *const ends[] = { "", "-wal", "-shm" };
	char path[400];

	for (size_t i = 0; i < RK_ARRAY_SIZE(ends); i++) {
		snprintf(path, sizeof(path), "%s%s", state, ends[i]);
		unlink(path);
	}
}
