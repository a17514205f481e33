/* Every kind of change of a store, to be interrupted: by a full disk, by a lost connection. */
#pragma once
#include "tests/contract/store_site.h"

static const struct rk_actor writes_actor = { "alice", "console", 4711 };

static inline int do_import(struct rk_store *store, struct rk_err *err)
{
	RK_CLEANUP_SITE struct rk_site *site = site_of_tests();

	site->region = "south";
	return rk_store_put_site(store, site, err);
}

static inline int do_cluster(struct rk_store *store, struct rk_err *err)
{
	RK_CLEANUP_SITE struct rk_site *site = NULL;
	const struct rk_new_cluster c = { "new", "heron", "nd128isr-gb300-v6", "plain", "{\"count\":2}", "[]", 2, 0, 0 };
	int rc = rk_store_snapshot(store, &site, err);

	if (!rc)
		rc = rk_store_begin(store, site->revision, err);
	if (!rc)
		rc = rk_store_add_cluster(store, &c, err);
	for (int i = 1; i <= 8 && !rc; i++)
		rc = try_vm(store, site, "new", i, 10 + i, err);
	if (!rc)
		rc = rk_store_add_ib_partition(store, "ib0", 0x123, "new", "new", true, err);
	if (!rc)
		rc = rk_store_commit(store, err);
	rk_store_rollback(store);
	return rc;
}

/* What the engine writes before and after each effect. */
static inline int do_journal(struct rk_store *store, struct rk_err *err)
{
	int64_t op;
	int rc = rk_store_begin(store, -1, err);

	if (!rc)
		rc = rk_store_op_add(store, "cluster create x", "{}", &op, err);
	for (int i = 1; i <= 40 && !rc; i++)
		rc = rk_store_step_add(store, &(struct rk_step_row){ .op = op, .id = i, .kind = "vm.define", .target = "x-01", .params = "{\"vm\":\"x-01\"}", .deps = "", .state = "planned" }, err);
	if (!rc)
		rc = rk_store_commit(store, err);
	rk_store_rollback(store);
	return rc;
}

static inline int do_step(struct rk_store *store, struct rk_err *err)
{
	char before[6000];

	memset(before, 'x', sizeof(before) - 1);
	before[sizeof(before) - 1] = '\0';
	return rk_store_step_set(store, 1, 1, "done", before, "as it was", err);
}

static inline int do_lease(struct rk_store *store, struct rk_err *err)
{
	return rk_store_lease_take(store, "cluster:x", 1, "a test", err);
}

static inline int do_audit(struct rk_store *store, struct rk_err *err)
{
	return rk_store_audit(store, "tray cordon k1-t02", "done", 0, err);
}

static inline int do_cordon(struct rk_store *store, struct rk_err *err)
{
	return rk_store_set_tray_cordon(store, "k1-t02", "fan", err);
}

static inline int do_fabric(struct rk_store *store, struct rk_err *err)
{
	static const char text[] = "vendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0xa1\nswitchguid=0xa1(a1)\nSwitch\t64 \"S-00000000000000a1\"\t\t# \"leaf\" enhanced port 0 lid 1 lmc 0\n";
	struct rk_str padded RK_CLEANUP_STR = RK_STR_INIT;

	for (int i = 0; i < 1000; i++)
		rk_str_addf(&padded, "# line %d of a fabric that is larger than a page\n", i);
	rk_str_add(&padded, text);
	return rk_store_put_topology(store, "ib0", rk_str_text(&padded), err);
}

/* Something of everything; operation 1 with step 1 is under way. */
static inline void fill_store(struct rk_store *store)
{
	RK_CLEANUP_SITE struct rk_site *site = site_of_tests();
	int64_t op;

	must(rk_store_put_site(store, site, &err));
	must(rk_store_op_add(store, "cluster create a", "{}", &op, &err));
	must(rk_store_step_add(store, &(struct rk_step_row){ .op = op, .id = 1, .kind = "vm.define", .target = "a-01", .params = "{}", .deps = "", .state = "applying" }, &err));
	must(rk_store_op_set(store, op, "resumable", NULL, &err));
	add_cluster(store, "a", "heron", op);
	must(try_vm(store, site, "a", 1, 0, &err));
}

/* All of a store that a person could miss. */
static inline char *store_content(const char *uri)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	RK_CLEANUP_STORE struct rk_store *store = NULL;
	RK_CLEANUP_SITE struct rk_site *site = NULL;
	struct rk_str out = RK_STR_INIT;
	struct rk_op_row *ops;
	struct rk_step_row *steps;
	size_t n, n_steps;

	must(rk_store_open(uri, RK_STORE_WRITE, &writes_actor, &store, &err));
	must(rk_store_check(store, &err));
	must(rk_store_snapshot(store, &site, &err));
	rk_site_export(site, &out);
	rk_str_addf(&out, "revision %lld, %zu clusters, %zu vms\n", (long long)site->revision, site->n_clusters, site->n_vms);
	must(rk_store_op_list(store, arena, &ops, &n, &err));
	for (size_t i = 0; i < n; i++) {
		must(rk_store_step_list(store, ops[i].id, arena, &steps, &n_steps, &err));
		rk_str_addf(&out, "%s %s:", ops[i].command, ops[i].state);
		for (size_t s = 0; s < n_steps; s++)
			rk_str_addf(&out, " %s", steps[s].state);
		rk_str_add(&out, "\n");
	}
	return rk_str_steal(&out);
}
