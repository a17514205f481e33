/* The kinds of store, a fixture with a store of one kind, and the main function of the programs that hold all kinds to one contract. */
#pragma once
#include "tests/contract/pg.h"
#include "tests/contract/store_site.h"
#include "inventory/db.h"

static struct pg_server pg;
static char folder[40] = "/tmp/racksh-store-XXXXXX";
static int made; /* stores so far: names of files and schemas */

struct kind {
	const char *name;
	bool shared; /* may be opened twice */
};
static const struct kind memory __attribute__((unused)) = { "mem", false }, sqlite = { "sqlite", true }, postgresql = { "postgresql", true };

struct fixture {
	const struct kind *kind;
	char *uri;
	struct rk_store *store;
	struct rk_site *site; /* as imported */
};

static const struct rk_actor alice = { "alice", "console", 4711 }, bob __attribute__((unused)) = { "bob", "laptop", 4712 };

static inline void make_schema(const char *name)
{
	RK_CLEANUP_DB struct rk_db *db = NULL;
	char *sql RK_CLEANUP_FREE = rk_xasprintf("CREATE SCHEMA %s", name);

	must(rk_db_open(pg.uri, true, &db, &err));
	must(rk_db_query(db, sql, NULL, 0, NULL, NULL, &err));
}

static inline char *new_uri(const struct kind *kind)
{
	char name[32];

	snprintf(name, sizeof(name), "s%d", ++made);
	if (kind == &memory)
		return rk_xstrdup("mem:");
	if (kind == &sqlite)
		return rk_xasprintf("sqlite:%s/%s/site.db", folder, name);
	make_schema(name);
	return rk_xasprintf("%s&options=-csearch_path%%3D%s", pg.uri, name);
}

static inline struct rk_store *open_as(const char *uri, const struct rk_actor *actor, enum rk_store_mode mode)
{
	struct rk_store *store = NULL;

	must(rk_store_open(uri, mode, actor, &store, &err));
	return store;
}

static inline int set_up(void **state)
{
	struct fixture *f = rk_xcalloc(1, sizeof(*f));

	f->kind = *state;
	if (f->kind == &postgresql && !pg.uri) {
		*state = f;
		return 0;
	}
	f->uri = new_uri(f->kind);
	f->store = open_as(f->uri, &alice, RK_STORE_WRITE);
	f->site = site_of_tests();
	must(rk_store_put_site(f->store, f->site, &err));
	*state = f;
	return 0;
}

static inline int tear_down(void **state)
{
	struct fixture *f = *state;

	rk_store_close(f->store);
	rk_site_free(f->site);
	free(f->uri);
	free(f);
	return 0;
}

#define NEEDS_SERVER(f)         \
	if (!(f)->store) {      \
		skip();         \
		return;         \
	}

static inline struct rk_site *snapshot(struct rk_store *store)
{
	struct rk_site *site = NULL;

	must(rk_store_snapshot(store, &site, &err));
	return site;
}

#define EACH(test, kind) { #test " (" #kind ")", test, set_up, tear_down, (void *)&(kind) }
#define ALL(test) EACH(test, memory), EACH(test, sqlite), EACH(test, postgresql)

/* Starts the server, runs the tests, takes everything away. */
#define run_store_tests(tests) run_store_tests_(#tests, tests, sizeof(tests) / sizeof(tests[0]))
static inline int run_store_tests_(const char *name, const struct CMUnitTest *tests, size_t n)
{
#ifdef RK_WITH_LIBPQ
	pg_start(&pg);
#endif
	if (!pg.uri)
		fprintf(stderr, "SKIPPED: no PostgreSQL server could be started (is the package \"postgresql\" installed?);"
				" this is tested on SQLite only\n");
	if (!mkdtemp(folder))
		return 1;
	int failed = _cmocka_run_group_tests(name, tests, n, NULL, NULL);
	nftw(folder, pg_unlink, 16, FTW_DEPTH | FTW_PHYS);
	pg_stop(&pg);
	return failed;
}
