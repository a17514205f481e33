#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmds/common.h"

/* These work on a store as it is: of an older schema, or damaged. */

/* own: to be closed by the caller. The twin's store is the one that is open. */
struct opened {
	struct rk_store *store, *own;
};

static void close_opened(struct opened *o)
{
	rk_store_close(o->own);
}
#define CLEANUP_OPENED RK_CLEANUP(close_opened)

static int open_it(struct rk_call *call, bool write, struct opened *ret, struct rk_err *err)
{
	int rc = call->app->globals.sim ? rk_app_world(call->app, write, err) : rk_app_store(call->app, NULL, write, &ret->own, err);

	ret->store = ret->own ? ret->own : call->app->world.store;
	return rc;
}

static int check_twin(struct rk_call *call, const char **ret_uri, struct rk_err *err)
{
	struct opened it CLEANUP_OPENED = { NULL, NULL };
	int rc = open_it(call, false, &it, err);

	*ret_uri = rc ? NULL : rk_store_uri(it.store);
	return rc ? rc : rk_store_check(it.store, err);
}

static int check(struct rk_call *call, struct rk_err *err)
{
	const char *uri;
	int rc = call->app->globals.sim ? check_twin(call, &uri, err) : rk_app_examine(call->app, call->arena, &uri, err);

	if (!rc)
		rk_out_note(call->out, "%s is sound", uri);
	return rc;
}

static int backup_would_be(struct rk_call *call, const char *path, struct rk_err *err)
{
	if (access(path, F_OK) == 0)
		return rk_err_set(err, RK_INVALID, "cannot write the backup \"%s\": %s", path, strerror(EEXIST));
	rk_out_note(call->out, "would write the backup \"%s\"", path);
	return 0;
}

static int backup(struct rk_call *call, struct rk_err *err)
{
	struct opened it CLEANUP_OPENED = { NULL, NULL };
	int rc = open_it(call, false, &it, err);

	return rc ? rc : call->dry_run ? backup_would_be(call, rk_call_arg(call, "FILE"), err) : rk_store_backup(it.store, rk_call_arg(call, "FILE"), err);
}

static int copy_to(struct rk_call *call, struct rk_store *from, const char *uri, struct rk_err *err)
{
	RK_CLEANUP_STORE struct rk_store *to = NULL;
	int rc = rk_app_store(call->app, uri, true, &to, err);

	if (!rc)
		rc = rk_store_copy(from, to, err);
	if (!rc)
		rk_out_note(call->out, "everything is in %s now; use it with --store or $RACKSH_STORE. %s keeps everything: let nobody go on with it", rk_store_uri(to),
			    rk_store_uri(from));
	return rc;
}

/* Nothing is made there. */
static int look_at(struct rk_call *call, struct rk_store *from, const char *uri, struct rk_err *err)
{
	RK_CLEANUP_STORE struct rk_store *to = NULL;
	int rc = rk_app_store(call->app, uri, false, &to, err);

	return rc ? rc : rk_store_copy_look(from, to, err);
}

static int migrate(struct rk_call *call, struct rk_err *err)
{
	struct opened it CLEANUP_OPENED = { NULL, NULL };
	const char *uri = rk_call_arg(call, "to");
	int from = 0, to = 0, rc = open_it(call, !call->dry_run, &it, err);

	if (rc)
		return rc;
	if (call->dry_run) {
		rc = uri ? look_at(call, it.store, uri, err) : 0;
		if (rc)
			return rc;
		rk_out_note(call->out, "%s has schema %d, this racksh has %d%s%s", rk_store_uri(it.store), rk_store_schema(it.store), rk_store_newest_schema(),
			    uri ? "; it would be copied to " : "", uri ? rk_store_uri_shown(call->arena, uri) : "");
		return 0;
	}
	rc = rk_store_migrate(it.store, &from, &to, err);
	if (!rc && from < to)
		rk_out_note(call->out, "%s: from schema %d to %d", rk_store_uri(it.store), from, to);
	else if (!rc && !uri)
		rk_out_note(call->out, "%s has the newest schema, %d", rk_store_uri(it.store), to);
	if (!rc && uri)
		rc = copy_to(call, it.store, uri, err);
	rk_call_audit(call, it.own, rc);
	return rc;
}

static const struct rk_command rows[] = {
	{ .noun = "store", .verb = "check", .summary = "check the store's integrity", .flags = RK_CMD_NO_STORE,
	  .description = "Looks at every page of the file, then for rows that contradict each other. Code 7: damaged, also when the file cannot be opened for it; code 6: it cannot "
			 "be told, because there is no store, it cannot be read, or its server does not answer.",
	  .examples = RK_EXAMPLES("store check"), .run = check },
	{ .noun = "store", .verb = "backup", .summary = "copy the whole store into a file while it is in use", .flags = RK_CMD_NO_STORE,
	  .description = "The copy is a store of its own, sqlite:FILE, also when the store is on a PostgreSQL server. It never goes over another file, and is whole or not there.",
	  .args = RK_ARGS({ .name = "FILE", .type = RK_ARG_FILE, .required = true, .help = "new file" }), .writes = "FILE", .run = backup },
	{ .noun = "store", .verb = "migrate", .summary = "bring the store to the schema of this racksh, or into another store", .flags = RK_CMD_NO_STORE | RK_CMD_CHANGES | RK_CMD_DANGEROUS,
	  .description = "A store of any released racksh is brought to the newest schema in one transaction: afterwards it is new, or as it was. Older programs cannot use it then.\n\n"
			 "With --to everything is copied into a store that is not there yet or empty, SQLite or PostgreSQL, either way. The old one is brought to the newest schema, too, and keeps everything.",
	  .options = RK_ARGS({ .name = "to", .type = RK_ARG_TEXT, .help = "sqlite:PATH or postgresql://..." }),
	  .examples = RK_EXAMPLES("store migrate --dry-run"), .writes = "to", .run = migrate },
};
RK_NOUN(store, "the store behind racksh", NULL, rows);
