/* What the sweeps of faults and of deaths try: every operation on a cluster of one VM per rack in two racks, and what makes its end a whole one.
 * Include cmocka.h first. RACKSH_SWEEP=full tries every point, of the recovery too, instead of some. */
#pragma once
#include "provision/bundle.h"
#include "tests/contract/ops_twin.h"

enum { RACKS = 2, TRAYS = 3, RUNS_MAX = 3000 };

struct scenario {
	const char *name;
	int vms_before, vms_after;        /* of cluster "a"; 0: it is not there */
	int clusters;                     /* how many there are afterwards; 0: the one, while it has VMs */
	bool required;                    /* the spec requires a validation */
	int (*act)(struct rk_world *world, struct rk_arena *arena, int64_t *op, struct rk_err *err);
	const char *nvlink;               /* of the site file; NULL: ids are ours, free GPUs are in the default partition */
};

static inline int act_create(struct rk_world *world, struct rk_arena *arena, int64_t *op, struct rk_err *err)
{
	return rk_cluster_create(world, spec_of(arena, "a", "t", 2, 1, false), op, err);
}

static inline int act_create_validated(struct rk_world *world, struct rk_arena *arena, int64_t *op, struct rk_err *err)
{
	return rk_cluster_create(world, spec_of(arena, "a", "t", 2, 1, true), op, err);
}

static inline int act_grow(struct rk_world *world, struct rk_arena *arena, int64_t *op, struct rk_err *err)
{
	(void)arena;
	return rk_cluster_resize(world, "a", 4, true, op, err);
}

static inline int act_shrink(struct rk_world *world, struct rk_arena *arena, int64_t *op, struct rk_err *err)
{
	(void)arena;
	return rk_cluster_resize(world, "a", 1, false, op, err);
}

static inline int act_repair(struct rk_world *world, struct rk_arena *arena, int64_t *op, struct rk_err *err)
{
	static const char *const vms[] = { "a-02" };
	size_t moved;

	(void)arena;
	return rk_cluster_repair(world, "a", vms, 1, op, &moved, err);
}

static inline int act_delete(struct rk_world *world, struct rk_arena *arena, int64_t *op, struct rk_err *err)
{
	(void)arena;
	return rk_cluster_delete(world, "a", op, err);
}

static inline int change_in_bundle(struct rk_bundle *bundle, struct rk_world *world, struct rk_arena *arena, int part, struct rk_err *err)
{
	int64_t op;
	int rc = rk_bundle_part(bundle, "part", err);

	if (rc)
		return rc;
	switch (part) {
	case 0: rc = rk_cluster_resize(world, "a", 1, false, &op, err); break;
	case 1: rc = rk_cluster_create(world, spec_of(arena, "b", "t", 1, 1, false), &op, err); break;
	case 2: rc = rk_store_set_tray_cordon(world->store, world->site->trays[world->site->n_trays - 1].name, "fan", err); break;
	case 3: rc = rk_cluster_delete(world, "a", &op, err); break;
	}
	return rc ? rc : rk_bundle_part_done(bundle, err);
}

static inline int commit(struct rk_world *world, struct rk_arena *arena, const int *parts, size_t n, int64_t *op, struct rk_err *err)
{
	RK_CLEANUP_HEARD struct rk_heard *heard = rk_heard_new();
	struct rk_bundle *bundle;
	int rc = rk_bundle_begin(world, "commit", heard, &bundle, err);

	if (rc)
		return rc;
	for (size_t i = 0; !rc && i < n; i++)
		rc = change_in_bundle(bundle, world, arena, parts[i], err);
	if (!rc)
		return rk_bundle_run(bundle, op, err);
	rk_bundle_drop(bundle);
	return rc;
}

/* Forward with a way back, forward without one, and an edit of the store alone: one operation. */
static inline int act_commit(struct rk_world *world, struct rk_arena *arena, int64_t *op, struct rk_err *err)
{
	static const int parts[] = { 0, 1, 2 };

	return commit(world, arena, parts, RK_ARRAY_SIZE(parts), op, err);
}

static inline int act_exchange(struct rk_world *world, struct rk_arena *arena, int64_t *op, struct rk_err *err)
{
	static const int parts[] = { 3, 1 };

	return commit(world, arena, parts, RK_ARRAY_SIZE(parts), op, err);
}

#define NMXM "\"driver\":\"nmxm\",\"url\":\"https://{rack}-m\""

static const struct scenario scenarios[] = {
	{ "create", 0, 2, 0, false, act_create, NULL },
	{ "create with validation", 0, 2, 0, true, act_create_validated, NULL },
	{ "grow", 2, 4, 0, false, act_grow, NULL },
	{ "shrink", 3, 1, 0, false, act_shrink, NULL },
	{ "repair", 3, 3, 0, false, act_repair, NULL },
	{ "delete", 2, 0, 0, false, act_delete, NULL },
	{ "commit of several", 3, 2, 2, false, act_commit, NULL },
	{ "commit of a delete and a create", 2, 1, 1, false, act_exchange, NULL },
	{ "create where the network gives ids", 0, 2, 0, false, act_create, NMXM },
	{ "delete to partitions of trays", 2, 0, 0, false, act_delete, NMXM ",\"release\":\"tray\"" },
};

static inline void use_nvlink(const struct scenario *s)
{
	rack_nvlink = s->nvlink ? s->nvlink : RACK_NVLINK;
}

static inline void prepare(struct fixture *f, const struct scenario *s, const char *state)
{
	int64_t op;

	use_nvlink(s);
	open_world(f, state, RACKS, TRAYS);
	if (s->nvlink)
		plant_theirs(f, 1);
	if (s->vms_before && !f->world.site->n_clusters)
		OK(rk_cluster_create(&f->world, spec_of(f->arena, "a", "t", s->vms_before, 1, s->required), &op, err));
}

static inline int vms_now(struct fixture *f)
{
	OK(rk_world_refresh(&f->world, err));
	return (int)f->world.site->n_vms;
}

static inline bool repaired(struct fixture *f)
{
	int vm = rk_find_vm(f->world.site, "a-02");

	return vm >= 0 && f->world.site->vms[vm].generation == 2;
}

/* Done completely: as many VMs as wanted, nothing held, and everybody agrees. */
static inline void assert_done(struct fixture *f, const struct scenario *s)
{
	assert_int_equal(vms_now(f), s->vms_after);
	assert_int_equal(f->world.site->n_clusters, s->clusters ? s->clusters : s->vms_after ? 1 : 0);
	if (s->act == act_repair)
		assert_true(repaired(f));
	for (size_t c = 0; c < f->world.site->n_clusters; c++) {
		assert_int_equal(f->world.site->clusters[c].state, RK_CLUSTER_READY);
		assert_int_equal(f->world.site->clusters[c].op, 0);
	}
	assert_consistent(f);
}

static inline void assert_same(struct fixture *f, const char *before)
{
	char *after RK_CLEANUP_FREE = world_text(f);

	assert_string_equal(after, before);
	assert_consistent(f);
}

static inline char *text_before(const struct scenario *s, const char *state)
{
	struct fixture f;

	prepare(&f, s, state);
	char *text = world_text(&f);
	close_world(&f);
	return text;
}

static inline bool full_sweep(void)
{
	const char *wanted = getenv("RACKSH_SWEEP");

	return wanted && strcmp(wanted, "full") == 0;
}

static inline const char *op_state(struct fixture *f, int64_t op)
{
	struct rk_op_row row;

	OK(rk_store_op_get(f->world.store, op, f->arena, &row, err));
	return row.state;
}

/* One test of each scenario that `fits`, called "NAME: PROMISE"; argv[1] is a pattern of those that are wanted. */
struct sweep_test {
	const char *promise;
	void (*run)(void **scenario);
	bool (*fits)(const struct scenario *s);
	const struct scenario *rows;
	size_t n;
};

static inline int run_sweeps(const char *group, const struct sweep_test *sweeps, size_t n_sweeps, int argc, char **argv)
{
	struct CMUnitTest *tests = NULL;
	size_t n = 0;

	for (size_t i = 0; i < n_sweeps; i++)
		for (size_t k = 0; k < sweeps[i].n; k++) {
			const struct scenario *s = &sweeps[i].rows[k];
			if (sweeps[i].fits && !sweeps[i].fits(s))
				continue;
			tests = rk_xreallocarray(tests, n + 1, sizeof(*tests));
			tests[n++] = (struct CMUnitTest){ rk_xasprintf("%s: %s", s->name, sweeps[i].promise), sweeps[i].run, NULL, NULL, (void *)s };
		}
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	int rc = _cmocka_run_group_tests(group, tests, n, NULL, NULL);
	for (size_t i = 0; i < n; i++)
		free((void *)tests[i].name);
	free(tests);
	return rc;
}
