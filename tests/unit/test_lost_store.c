#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <pthread.h>

#include "inventory/base/file.h"
#include "inventory/db.h"
#include "provision/cluster.h"
#include "tests/contract/pg.h"
#include "tests/contract/sim_world.h"
#include "tests/contract/store_writes.h"

/* The server of the store goes away while a cluster is being built. When it is back, the operation is finished: nothing is lost, nothing done twice. */

static const char spec_text[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Cluster\",\"name\":\"a\",\"tenant\":\"t\",\"size\":\"nd128isr-gb300-v6\",\"count\":4,"
				"\"image\":\"u\",\"placement\":{\"segment\":2,\"policy\":\"spread\"},\"ssh\":{\"user\":\"ops\",\"authorizedKeys\":"
				"[\"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExampleExample00 o@c\"]}}";

static struct pg_server pg;

struct plug {
	int lines, pull_at; /* lines of progress so far; the one at which the server is stopped */
};

static void progress(void *ctx, const char *text)
{
	struct plug *plug = ctx;

	(void)text;
	if (++plug->lines == plug->pull_at)
		pg_signal(&pg, "stop");
}

static void cluster_is_whole(struct sim_world *w)
{
	const struct rk_site *s = w->world.site;
	struct rk_nvl_live *parts;
	size_t n, members = 0;

	assert_int_equal(s->n_clusters, 1);
	assert_int_equal(s->clusters[0].state, RK_CLUSTER_READY);
	assert_int_equal(s->n_vms, 4);
	for (size_t v = 0; v < s->n_vms; v++)
		assert_int_equal(s->vms[v].state, RK_VM_RUNNING);
	for (int r = 0; r < 2; r++) {
		sim_must(w->world.nvl->ops->list(w->world.nvl, r, w->arena, &parts, &n, err));
		for (size_t p = 0; p < n; p++)
			members += parts[p].id == RK_NVL_DEFAULT ? 0 : parts[p].n_gpus;
	}
	assert_int_equal(members, 16);
	sim_must(rk_store_check(w->world.store, err));
}

static void a_server_lost_at_any_time_leaves_an_operation_that_can_be_finished(void **state)
{
	static const int moments[] = { 1, 4, 9, 15 };
	int interrupted = 0;

	(void)state;
	if (!pg.uri) {
		skip();
		return;
	}
	for (size_t i = 0; i < RK_ARRAY_SIZE(moments); i++) {
		char *schema RK_CLEANUP_FREE = rk_xasprintf("CREATE SCHEMA m%d", moments[i]), *uri RK_CLEANUP_FREE = rk_xasprintf("%s&options=-csearch_path%%3Dm%d", pg.uri, moments[i]);
		RK_CLEANUP_ERR struct rk_err said = RK_ERR_INIT;
		struct plug plug = { 0, moments[i] };
		struct rk_op_row *ops;
		struct rk_spec *spec;
		struct rk_db *db = NULL;
		struct sim_world w;
		int64_t op;
		size_t n;
		sim_must(rk_db_open(pg.uri, true, &db, err));
		sim_must(rk_db_query(db, schema, NULL, 0, NULL, NULL, err));
		rk_db_close(db);
		sim_world_open_at(&w, uri, NULL);
		sim_must(rk_spec_parse("spec", spec_text, strlen(spec_text), w.arena, &spec, err));
		w.world.progress = progress;
		w.world.progress_ctx = &plug;
		int rc = rk_cluster_create(&w.world, spec, &op, &said);
		pg_signal(&pg, "start");
		interrupted += rc != 0;
		if (rc) {
			assert_true(rc == RK_UNREACHABLE || rc == RK_PARTIAL);
			sim_must(rk_world_refresh(&w.world, err));
			sim_must(rk_store_op_list(w.world.store, w.arena, &ops, &n, err));
			assert_int_equal(n, 1);
			/* This process is still alive, and could not say that it gave the operation up. */
			sim_must(rk_op_resume(&w.world, ops[0].id, err));
			sim_must(rk_world_refresh(&w.world, err));
		}
		cluster_is_whole(&w);
		sim_world_close(&w);
	}
	assert_true(interrupted > 0);
}

/* ---- nobody confirms, and the server is away when it is to be undone -------------------------------------------------------------------------- */

/* Brings the server back once the process that watches has noticed. */
static void *start_when_noticed(void *arg)
{
	const struct rk_world *world = arg;

	while (!__atomic_load_n(&world->unsaid, __ATOMIC_ACQUIRE))
		usleep(1000);
	pg_signal(&pg, "start");
	return NULL;
}

static void *start_now(void *arg)
{
	(void)arg;
	pg_signal(&pg, "start");
	return NULL;
}

static void open_on_trial(struct sim_world *w, const char *schema, int64_t *ret_op)
{
	char *sql RK_CLEANUP_FREE = rk_xasprintf("CREATE SCHEMA %s", schema), *uri RK_CLEANUP_FREE = rk_xasprintf("%s&options=-csearch_path%%3D%s", pg.uri, schema);
	struct rk_spec *spec;
	struct rk_db *db = NULL;

	sim_must(rk_db_open(pg.uri, true, &db, err));
	sim_must(rk_db_query(db, sql, NULL, 0, NULL, NULL, err));
	rk_db_close(db);
	sim_world_open_at(w, uri, NULL);
	w->world.confirm_ms = 1;
	sim_must(rk_spec_parse("spec", spec_text, strlen(spec_text), w->arena, &spec, err));
	sim_must(rk_cluster_create(&w->world, spec, ret_op, err));
}

static void assert_undone(struct sim_world *w, int64_t op)
{
	struct rk_op_row row;

	sim_must(rk_store_op_get(w->world.store, op, w->arena, &row, err));
	assert_string_equal(row.state, "rolled-back");
	assert_int_equal(w->world.site->n_clusters, 0);
	sim_must(rk_store_check(w->world.store, err));
	sim_world_close(w);
}

/* Before the undoing, and in the middle of it. */
static void what_nobody_confirmed_is_undone_when_the_server_is_back(void **state)
{
	pthread_t starter;
	struct sim_world w;
	int64_t op;

	(void)state;
	if (!pg.uri) {
		skip();
		return;
	}
	open_on_trial(&w, "trial1", &op);
	pg_signal(&pg, "stop");
	assert_int_equal(pthread_create(&starter, NULL, start_now, NULL), 0);
	sim_must(rk_op_watch(&w.world, op, err));
	pthread_join(starter, NULL);
	assert_undone(&w, op);

	struct plug plug = { 0, 4 };
	open_on_trial(&w, "trial2", &op);
	w.world.progress = progress;
	w.world.progress_ctx = &plug;
	assert_int_equal(pthread_create(&starter, NULL, start_when_noticed, &w.world), 0);
	sim_must(rk_op_watch(&w.world, op, err));
	pthread_join(starter, NULL);
	assert_undone(&w, op);
}

/* ---- the connection is cut in the middle of a write ----------------------------------------------------------------------------------------- */

static int with_store(const char *uri, int (*change)(struct rk_store *store, struct rk_err *err), struct rk_err *err)
{
	RK_CLEANUP_STORE struct rk_store *store = NULL;
	int rc = rk_store_open(uri, RK_STORE_WRITE, &writes_actor, &store, err);

	return rc ? rc : change(store, err);
}

static int lost_import(const char *uri, struct rk_err *err) { return with_store(uri, do_import, err); }
static int lost_cluster(const char *uri, struct rk_err *err) { return with_store(uri, do_cluster, err); }
static int lost_journal(const char *uri, struct rk_err *err) { return with_store(uri, do_journal, err); }
static int lost_step(const char *uri, struct rk_err *err) { return with_store(uri, do_step, err); }
static int lost_fabric(const char *uri, struct rk_err *err) { return with_store(uri, do_fabric, err); }

static char backup_path[80];

static int lost_backup(const char *uri, struct rk_err *err)
{
	RK_CLEANUP_STORE struct rk_store *store = NULL;
	int rc = rk_store_open(uri, RK_STORE_READ, &writes_actor, &store, err);

	unlink(backup_path);
	return rc ? rc : rk_store_backup(store, backup_path, err);
}

/* From a store of its own into the one on the server, which then is an empty one. */
static int lost_copy(const char *uri, struct rk_err *err)
{
	RK_CLEANUP_STORE struct rk_store *from = NULL, *to = NULL;

	assert_int_equal(rk_store_open("mem:", RK_STORE_WRITE, &writes_actor, &from, NULL), 0);
	fill_store(from);
	int rc = rk_store_open(uri, RK_STORE_WRITE, &writes_actor, &to, err);
	return rc ? rc : rk_store_copy(from, to, err);
}

static int lost_migration(const char *uri, struct rk_err *err)
{
	RK_CLEANUP_STORE struct rk_store *store = NULL;
	int from, to, rc = rk_store_open(uri, RK_STORE_WRITE, &writes_actor, &store, err);

	return rc ? rc : rk_store_migrate(store, &from, &to, err);
}

static const struct {
	const char *name;
	int (*run)(const char *uri, struct rk_err *err);
	enum { FILLED, EMPTY, OLD } start;
} lost_writes[] = {
	{ "import", lost_import, FILLED }, { "a cluster", lost_cluster, FILLED }, { "the journal", lost_journal, FILLED }, { "a step", lost_step, FILLED },
	{ "a fabric", lost_fabric, FILLED }, { "backup", lost_backup, FILLED }, { "copy", lost_copy, EMPTY }, { "migrate", lost_migration, OLD },
};

/* A store in a schema of its own. */
static char *server_store(int start)
{
	static int made;
	char *schema RK_CLEANUP_FREE = rk_xasprintf("CREATE SCHEMA w%d", ++made), *uri = rk_xasprintf("%s&options=-csearch_path%%3Dw%d", pg.uri, made);
	RK_CLEANUP_STORE struct rk_store *store = NULL;
	RK_CLEANUP_DB struct rk_db *db = NULL;

	sim_must(rk_db_open(pg.uri, true, &db, err));
	sim_must(rk_db_query(db, schema, NULL, 0, NULL, NULL, err));
	if (start == OLD)
		load_older_store(uri, "tests/fixtures/store/schema-1.sql");
	if (start != FILLED)
		return uri;
	sim_must(rk_store_open(uri, RK_STORE_WRITE, &writes_actor, &store, err));
	fill_store(store);
	return uri;
}

struct cutter {
	struct rk_db *db; /* its own connection, which it does not cut */
	useconds_t delay_us;
};

static void *cut_others(void *ctx)
{
	struct cutter *c = ctx;

	usleep(c->delay_us);
	rk_db_query(c->db, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'", NULL, 0, NULL, NULL,
		    NULL);
	return NULL;
}

/* What is in a store; of one that is empty or of an older schema: which. */
static char *state_of(const char *uri)
{
	RK_CLEANUP_STORE struct rk_store *store = NULL;

	sim_must(rk_store_open(uri, RK_STORE_READ, &writes_actor, &store, err));
	if (rk_store_schema(store) != rk_store_newest_schema())
		return rk_xasprintf("schema %d", rk_store_schema(store));
	return store_content(uri);
}

/* True when the cut came too late. */
static bool cut_once(size_t w, useconds_t delay_us, const char *done)
{
	char *uri RK_CLEANUP_FREE = server_store(lost_writes[w].start), *before RK_CLEANUP_FREE = state_of(uri);
	RK_CLEANUP_ERR struct rk_err said = RK_ERR_INIT, again = RK_ERR_INIT;
	RK_CLEANUP_DB struct rk_db *db = NULL;
	struct cutter cutter = { .delay_us = delay_us };
	pthread_t thread;

	sim_must(rk_db_open(pg.uri, true, &db, err));
	cutter.db = db;
	assert_int_equal(pthread_create(&thread, NULL, cut_others, &cutter), 0);
	int rc = lost_writes[w].run(uri, &said);
	pthread_join(thread, NULL);
	if (!rc)
		return true;
	if (rc != RK_UNREACHABLE || !said.message || !said.hint)
		fail_msg("%s cut after %u us: class %d, \"%s\", hint \"%s\"", lost_writes[w].name, (unsigned)delay_us, rc, said.message ? said.message : "", said.hint ? said.hint : "");
	if (lost_writes[w].run == lost_backup)
		assert_int_equal(access(backup_path, F_OK), -1);
	/* All of it or nothing; what did not happen can be done now. */
	char *after RK_CLEANUP_FREE = state_of(uri);
	if (strcmp(after, done) == 0)
		return false;
	assert_string_equal(after, before);
	if (lost_writes[w].run(uri, &again))
		fail_msg("%s, again after a cut: %s", lost_writes[w].name, again.message);
	return false;
}

static void a_connection_cut_in_any_write_leaves_all_or_nothing(void **state)
{
	(void)state;
	if (!pg.uri) {
		skip();
		return;
	}
	int hits = 0;
	snprintf(backup_path, sizeof(backup_path), "/tmp/racksh-lost-%ld.db", (long)getpid());
	for (size_t w = 0; w < RK_ARRAY_SIZE(lost_writes); w++) {
		char *uri RK_CLEANUP_FREE = server_store(lost_writes[w].start);
		sim_must(lost_writes[w].run(uri, err));
		char *done RK_CLEANUP_FREE = state_of(uri);
		int cuts = 0;
		for (useconds_t delay = 1000; delay < 40000; delay *= 2)
			cuts += !cut_once(w, delay, done);
		if (!cuts)
			print_message("%s was never cut\n", lost_writes[w].name);
		hits += cuts;
	}
	assert_true(hits > 0);
	unlink(backup_path);
}

/* ---- a server that only reads ----------------------------------------------------------------------------------------------------------------- */

static void become_standby(bool standby)
{
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/data/standby.signal", pg.folder);

	pg_signal(&pg, "stop");
	if (standby)
		sim_must(rk_file_write(path, "", 0, 0644, err));
	else
		unlink(path);
	pg_signal(&pg, "start");
}

static void a_standby_is_read_and_says_who_takes_writes(void **state)
{
	RK_CLEANUP_ERR struct rk_err said = RK_ERR_INIT;
	struct rk_site *site = NULL;

	(void)state;
	if (!pg.uri) {
		skip();
		return;
	}
	char *uri RK_CLEANUP_FREE = server_store(FILLED);
	become_standby(true);
	int rc = with_store(uri, do_cluster, &said);
	RK_CLEANUP_STORE struct rk_store *store = NULL;
	int read = rk_store_open(uri, RK_STORE_READ, &writes_actor, &store, NULL);
	read = read ? read : rk_store_snapshot(store, &site, NULL);
	become_standby(false);
	assert_int_equal(rc, RK_FAILED);
	assert_non_null(said.hint);
	assert_non_null(strstr(said.hint, "standby"));
	assert_int_equal(read, 0);
	rk_site_free(site);
	sim_must(with_store(uri, do_cluster, err));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_lost_at_any_time_leaves_an_operation_that_can_be_finished),
		cmocka_unit_test(what_nobody_confirmed_is_undone_when_the_server_is_back),
		cmocka_unit_test(a_connection_cut_in_any_write_leaves_all_or_nothing),
		cmocka_unit_test(a_standby_is_read_and_says_who_takes_writes),
	};

#ifdef RK_WITH_LIBPQ
	pg_start(&pg);
#endif
	if (!pg.uri)
		fprintf(stderr, "SKIPPED: no PostgreSQL server could be started (is the package \"postgresql\" installed?)\n");
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	pg_stop(&pg);
	return failed;
}
