#include "inventory/store_impl.h"

#include <inttypes.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "inventory/base/clock.h"
#include "inventory/base/file.h"
#include "inventory/base/str.h"

enum { CHANGES_KEPT = 1000, CHANGES_SHOWN = 5 };

int64_t rk_store_now_ms(void)
{
	return rk_clock_unix_ms(NULL);
}

/* "postgresql://user:secret@host/db?password=secret" without the secrets. */
static char *without_password(const char *uri)
{
	struct rk_str out = RK_STR_INIT;
	const char *rest = strstr(uri, "://"), *at = rest ? strrchr(rest, '@') : NULL, *colon = rest ? strchr(rest + 3, ':') : NULL;

	if (at && colon && colon < at) {
		rk_str_addn(&out, uri, (size_t)(colon - uri));
		rk_str_add(&out, ":***");
		uri = at;
	}
	const char *word = rest ? strstr(uri, "password=") : NULL;
	if (word) {
		rk_str_addn(&out, uri, (size_t)(word - uri));
		rk_str_add(&out, "password=***");
		uri = word + strcspn(word, "&");
	}
	rk_str_add(&out, uri);
	return rk_str_steal(&out);
}

struct rk_store *rk_store_lock(struct rk_store *store)
{
	pthread_mutex_lock(&store->lock);
	return store;
}

void rk_store_unlock(struct rk_store **store)
{
	pthread_mutex_unlock(&(*store)->lock);
}

static struct rk_store *new_store(const char *uri, enum rk_store_mode mode, const struct rk_actor *actor)
{
	struct rk_store *store = rk_xcalloc(1, sizeof(*store));

	pthread_mutexattr_t recursive;
	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&store->lock, &recursive);
	pthread_mutexattr_destroy(&recursive);
	store->uri = rk_xstrdup(uri);
	store->shown = without_password(uri);
	store->mode = mode;
	store->user = rk_xstrdup(actor && actor->user ? actor->user : "unknown");
	store->host = rk_xstrdup(actor && actor->host ? actor->host : "unknown");
	store->pid = actor ? actor->pid : (long)getpid();
	store->by = rk_xasprintf("%s@%s %ld", store->user, store->host, store->pid);
	return store;
}

/* An empty store in memory stands in for one that is not there yet, so that every read has one path. */
static int open_blank(struct rk_store *store, struct rk_err *err)
{
	int rc = rk_db_open("mem:", true, &store->db, err);

	if (!rc)
		rc = rk_store_apply_schema(store->db, rk_store_newest_schema(), err);
	store->schema = rk_store_newest_schema();
	store->blank = !rk_streq(store->uri, "mem:");
	return rc;
}

static int too_new(const struct rk_store *store, struct rk_err *err)
{
	rk_err_set(err, RK_FAILED, "the store \"%s\" has schema %d, this racksh knows schemas up to %d", store->shown, store->schema,
		   rk_store_newest_schema());
	rk_err_hint(err, "use the newer racksh that made it");
	return RK_FAILED;
}

static int open_real(struct rk_store *store, struct rk_err *err)
{
	int rc = rk_db_open(store->uri, store->mode == RK_STORE_WRITE, &store->db, err);

	if (!rc)
		rc = rk_store_read_schema(store->db, &store->schema, err);
	if (rc || store->schema > 0)
		return !rc && store->schema > rk_store_newest_schema() ? too_new(store, err) : rc;
	rk_db_close(rk_steal(&store->db));
	return open_blank(store, err);
}

int rk_store_open(const char *uri, enum rk_store_mode mode, const struct rk_actor *actor, struct rk_store **ret, struct rk_err *err)
{
	struct rk_store *store = new_store(uri, mode, actor);
	bool blank = rk_streq(uri, "mem:") || rk_db_absent(uri);
	int rc = blank ? open_blank(store, err) : open_real(store, err);

	if (rc) {
		rk_store_close(store);
		return rc;
	}
	*ret = store;
	return 0;
}

static int make_given(void *ctx, struct rk_db **ret, struct rk_err *err)
{
	struct rk_store *store = ctx, *made RK_CLEANUP_STORE = NULL;
	const struct rk_actor actor = { store->user, store->host, store->pid };
	int rc = rk_store_open("mem:", RK_STORE_WRITE, &actor, &made, err);

	if (!rc)
		rc = rk_store_put_site(made, store->given, err);
	if (rc)
		return rc;
	store->given = NULL;
	*ret = rk_steal(&made->db);
	return 0;
}

struct rk_store *rk_store_begun_with(const struct rk_site *site, const struct rk_actor *actor)
{
	struct rk_store *store = new_store("mem:", RK_STORE_WRITE, actor);

	store->given = site;
	store->db = rk_db_later(make_given, store);
	store->schema = rk_store_newest_schema();
	return store;
}

/* As it will be read when it is made. */
static struct rk_site *first_snapshot(const struct rk_store *store)
{
	struct rk_site *site = rk_site_share(store->given);

	site->revision = 1;
	site->read_unix_ms = rk_store_now_ms();
	return site;
}

void rk_store_close(struct rk_store *store)
{
	if (!store)
		return;
	store->composing = false;
	if (store->in_change)
		rk_store_rollback(store);
	rk_db_close(store->db);
	pthread_mutex_destroy(&store->lock);
	free(store->uri);
	free(store->shown);
	free(store->user);
	free(store->host);
	free(store->by);
	free(store->what);
	free(store);
}

void rk_cleanup_store(struct rk_store **store)
{
	rk_store_close(*store);
}

const char *rk_store_uri_shown(struct rk_arena *arena, const char *uri)
{
	char *shown RK_CLEANUP_FREE = without_password(uri);

	return rk_arena_strdup(arena, shown);
}

const char *rk_store_by(const struct rk_store *store)
{
	return store->by;
}

const char *rk_store_uri(const struct rk_store *store)
{
	return store->shown;
}

int rk_store_ready(const struct rk_store *store, struct rk_err *err)
{
	if (store->schema == rk_store_newest_schema())
		return 0;
	rk_err_set(err, RK_FAILED, "the store \"%s\" has schema %d, this racksh needs schema %d", store->shown, store->schema, rk_store_newest_schema());
	rk_err_hint(err, "racksh store backup FILE, then racksh store migrate");
	return RK_FAILED;
}

/* The first change makes the store: folder, file, schema. Somebody else may have been faster. */
static int make_real(struct rk_store *store, struct rk_err *err)
{
	const char *path = rk_db_path(store->uri);
	struct rk_db *db RK_CLEANUP_DB = NULL;
	int rc = 0;

	if (path) {
		char *copy RK_CLEANUP_FREE = rk_xstrdup(path);
		rc = rk_mkdirs(dirname(copy), err);
	}
	if (rc == RK_NOT_FOUND) /* a file where a folder is needed */
		rc = rk_err_set(err, RK_FAILED, "cannot make the folder of the store \"%s\"", store->shown);
	if (rc)
		rk_err_hint(err, "make room for it or make it yourself, or name a file in a folder that you can write with --store sqlite:PATH");
	if (!rc)
		rc = rk_db_open(store->uri, true, &db, err);
	if (!rc)
		rc = rk_store_read_schema(db, &store->schema, err);
	if (!rc && store->schema > 0)
		rc = rk_store_ready(store, err);
	else if (!rc)
		rc = rk_store_apply_schema(db, rk_store_newest_schema(), err);
	if (rc)
		return rc;
	store->schema = rk_store_newest_schema();
	rk_db_close(store->db);
	store->db = rk_steal(&db);
	store->blank = false;
	return 0;
}

static int raw_begin(struct rk_store *store, struct rk_err *err)
{
	if (store->in_change)
		return rk_err_set(err, RK_BUG, "a change of the store inside a change");
	if (store->mode == RK_STORE_READ) {
		rk_err_set(err, RK_INVALID, "the store \"%s\" was opened for reading only", store->shown);
		rk_err_hint(err, "leave out --read-only to change things");
		return RK_INVALID;
	}
	int rc = store->blank ? make_real(store, err) : rk_store_ready(store, err);
	if (!rc)
		rc = store->db->driver->begin(store->db, true, err);
	if (rc)
		return rc;
	rc = rk_db_one_int(store->db, "SELECT value FROM meta WHERE name = 'revision'", NULL, 0, 0, &store->revision, err);
	if (rc)
		store->db->driver->rollback(store->db);
	store->in_change = !rc;
	store->touched = false;
	free(rk_steal(&store->what));
	return rc;
}

struct conflict {
	struct rk_err *err;
	int64_t shown;
};

static int note_change(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct conflict *c = ctx;
	char at[32];

	(void)err;
	rk_time_iso(rk_db_int(row, 1), at);
	if (c->shown++ == 0)
		rk_err_set(c->err, RK_CONFLICT, "the store changed meanwhile: %s by %s at %s", rk_db_text(row, 3), rk_db_text(row, 2), at);
	rk_err_detail(c->err, "revision %" PRId64 ": %s by %s at %s", rk_db_int(row, 0), rk_db_text(row, 3), rk_db_text(row, 2), at);
	return 0;
}

static int moved_on(struct rk_store *store, int64_t planned, struct rk_err *err)
{
	RK_CLEANUP_ERR struct rk_err said = RK_ERR_INIT;
	struct conflict c = { &said, 0 };

	rk_err_set(&said, RK_CONFLICT, "the store is at revision %" PRId64 ", the change was planned against %" PRId64, store->revision, planned);
	int rc = rk_db_each(store->db, err, note_change, &c,
			    "SELECT revision, at_ms, actor, what FROM changes WHERE revision > ? ORDER BY revision DESC LIMIT ?", RK_DB_I(planned),
			    RK_DB_I(CHANGES_SHOWN));
	if (rc)
		return rc;
	rk_err_hint(&said, "look at it again and repeat the command");
	if (err)
		rk_err_move(err, &said);
	return RK_CONFLICT;
}

static void undo_change(struct rk_store *store)
{
	if (!store->in_change)
		return;
	store->in_change = false;
	store->db->driver->rollback(store->db);
}

void rk_store_compose(struct rk_store *store, bool on)
{
	RK_STORE_HOLD(store);

	store->composing = on && store->in_change;
	store->in_part = false;
}

/* A part is a savepoint: what it planned against is what the change itself did. */
static int begin_part(struct rk_store *store, struct rk_err *err)
{
	if (store->in_part)
		return rk_err_set(err, RK_BUG, "a part of a change inside a part");
	int rc = rk_db_exec(store->db, err, "SAVEPOINT part");
	store->in_part = !rc;
	return rc;
}

static int end_part(struct rk_store *store, bool keep, struct rk_err *err)
{
	int rc = keep ? 0 : rk_db_exec(store->db, err, "ROLLBACK TO SAVEPOINT part");

	store->in_part = false;
	return rc ? rc : rk_db_exec(store->db, err, "RELEASE SAVEPOINT part");
}

/* The lock taken here is given back by commit or rollback. */
int rk_store_begin(struct rk_store *store, int64_t revision, struct rk_err *err)
{
	RK_STORE_HOLD(store);
	if (store->composing)
		return begin_part(store, err);
	int rc = raw_begin(store, err);

	if (!rc && revision >= 0 && revision != store->revision) {
		rc = moved_on(store, revision, err);
		undo_change(store);
	}
	if (!rc)
		rk_store_lock(store);
	return rc;
}

void rk_store_rollback(struct rk_store *store)
{
	RK_STORE_HOLD(store);

	if (!store->in_change)
		return;
	if (store->composing) {
		end_part(store, false, NULL);
		return;
	}
	undo_change(store);
	pthread_mutex_unlock(&store->lock);
}

void rk_store_try(struct rk_store *store, bool on)
{
	RK_STORE_HOLD(store);

	store->trying = on;
}

bool rk_store_trying(const struct rk_store *store)
{
	return store->trying;
}

static int end_change(struct rk_store *store, struct rk_err *err)
{
	if (store->trying) {
		undo_change(store);
		return 0;
	}
	int rc = store->db->driver->commit(store->db, err);

	store->in_change = false;
	if (rc == RK_CONFLICT && rk_streq(store->db->violation, "foreign_key")) {
		rk_err_set(err, RK_CONFLICT, "the change would remove something that is allocated");
		rk_err_hint(err, "racksh store check; then look at what holds it");
	}
	return rc;
}

static int keep_change(struct rk_store *store, struct rk_err *err)
{
	int64_t next = store->revision + 1;
	int rc = rk_db_exec(store->db, err, "UPDATE meta SET value = ? WHERE name = 'revision'", RK_DB_I(next));
	if (!rc)
		rc = rk_db_exec(store->db, err, "INSERT INTO changes (revision, at_ms, actor, what) VALUES (?, ?, ?, ?)", RK_DB_I(next),
				RK_DB_I(rk_store_now_ms()), RK_DB_S(store->by), RK_DB_S(store->what ? store->what : "a change"));
	if (!rc)
		rc = rk_db_exec(store->db, err, "DELETE FROM changes WHERE revision <= ?", RK_DB_I(next - CHANGES_KEPT));
	if (!rc)
		return end_change(store, err);
	undo_change(store);
	return rc;
}

int rk_store_commit(struct rk_store *store, struct rk_err *err)
{
	RK_STORE_HOLD(store);

	if (!store->in_change)
		return rk_err_set(err, RK_BUG, "a commit without a change of the store");
	if (store->composing)
		return end_part(store, true, err);
	int rc = store->touched ? keep_change(store, err) : end_change(store, err);
	pthread_mutex_unlock(&store->lock);
	return rc;
}

int rk_store_join(struct rk_store *store, bool *own, struct rk_err *err)
{
	rk_store_lock(store);
	*own = false;
	if (store->in_change)
		return 0;
	int rc = raw_begin(store, err);
	*own = !rc;
	return rc;
}

static int part(struct rk_store *store, bool own, int rc, int (*end)(struct rk_store *store, struct rk_err *err), struct rk_err *err)
{
	if (own && !rc)
		rc = end(store, err);
	else if (own)
		undo_change(store);
	rk_store_unlock(&store);
	return rc;
}

int rk_store_part(struct rk_store *store, bool own, int rc, struct rk_err *err)
{
	store->touched = true;
	return part(store, own, rc, keep_change, err);
}

int rk_store_part_journal(struct rk_store *store, bool own, int rc, struct rk_err *err)
{
	return part(store, own, rc, end_change, err);
}

void rk_store_what(struct rk_store *store, const char *format, ...)
{
	va_list ap;

	if (store->what)
		return;
	va_start(ap, format);
	store->what = rk_xvasprintf(format, ap);
	va_end(ap);
}

int rk_store_guard(struct rk_store *store, struct rk_err *err)
{
	return rk_db_exec(store->db, err, "SAVEPOINT guarded");
}

void rk_store_unguard(struct rk_store *store, int rc)
{
	char kept[sizeof(store->db->violation)];

	memcpy(kept, store->db->violation, sizeof(kept));
	if (rc)
		rk_db_exec(store->db, NULL, "ROLLBACK TO SAVEPOINT guarded");
	rk_db_exec(store->db, NULL, "RELEASE SAVEPOINT guarded");
	memcpy(store->db->violation, kept, sizeof(kept));
}

int rk_store_exists(struct rk_store *store, const char *sql, const char *name, bool *ret, struct rk_err *err)
{
	const struct rk_db_value arg = RK_DB_S(name);
	int64_t found = 0;
	int rc = rk_db_one_int(store->db, sql, &arg, 1, 0, &found, err);

	*ret = found > 0;
	return rc;
}

int rk_store_need(struct rk_store *store, const char *kind, const char *sql, const char *name, struct rk_err *err)
{
	bool there;
	int rc = rk_store_exists(store, sql, name, &there, err);

	if (rc || there)
		return rc;
	return rk_err_set(err, RK_NOT_FOUND, "no %s \"%s\"", kind, name ? name : "");
}

int rk_store_next(struct rk_store *store, const char *counter, int64_t *ret, struct rk_err *err)
{
	const struct rk_db_value arg = RK_DB_S(counter);

	return rk_db_one_int(store->db, "UPDATE meta SET value = value + 1 WHERE name = ? RETURNING value", &arg, 1, 0, ret, err);
}

int rk_store_snapshot(struct rk_store *store, struct rk_site **ret, struct rk_err *err)
{
	RK_STORE_HOLD(store);
	int rc = rk_store_ready(store, err);

	if (rc || store->in_change)
		return rc ? rc : rk_store_read_site(store, ret, err);
	if (store->given) {
		*ret = first_snapshot(store);
		return 0;
	}
	rc = store->db->driver->begin(store->db, false, err);
	if (rc)
		return rc;
	rc = rk_store_read_site(store, ret, err);
	store->db->driver->rollback(store->db);
	return rc;
}
