#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "inventory/db.h"
#include "provision/cluster.h"
#include "tests/contract/pg.h"
#include "tests/contract/sim_world.h"

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
		if (rc) {
			assert_true(rc == RK_UNREACHABLE || rc == RK_PARTIAL);
			sim_must(rk_world_refresh(&w.world, err));
			sim_must(rk_store_op_list(w.world.store, w.arena, &ops, &n, err));
			assert_int_equal(n, 1);
			/* This process is still alive, so it says itself that it gave the operation up. */
			sim_must(rk_store_op_set(w.world.store, ops[0].id, "resumable", NULL, err));
			sim_must(rk_op_resume(&w.world, ops[0].id, err));
			sim_must(rk_world_refresh(&w.world, err));
		}
		cluster_is_whole(&w);
		sim_world_close(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_server_lost_at_any_time_leaves_an_operation_that_can_be_finished) };

#ifdef RK_WITH_LIBPQ
	pg_start(&pg);
#endif
	if (!pg.uri)
		fprintf(stderr, "SKIPPED: no PostgreSQL server could be started (is the package \"postgresql\" installed?)\n");
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	pg_stop(&pg);
	return failed;
}
