#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/contract/ops_twin.h"

/* What is gone, or on a tray that does not answer any more, does not hold up whoever takes it away; its tray is not free. */

static int setup(void **state)
{
	struct fixture *f = rk_xcalloc(1, sizeof(*f));

	rack_nvlink = RACK_NVLINK;
	open_world(f, NULL, 2, 4);
	*state = f;
	return 0;
}

static void create(struct fixture *f, const char *name, int count)
{
	int64_t op;

	OK(rk_cluster_create(&f->world, spec_of(f->arena, name, "t", count, 1, false), &op, err));
}

static int tray_of_vm(struct fixture *f, const char *vm)
{
	return f->world.site->vms[rk_find_vm(f->world.site, vm)].tray;
}

static const char *name_of(struct fixture *f, int tray)
{
	return rk_arena_strdup(f->arena, f->world.site->trays[tray].name);
}

static void fault(struct fixture *f, const char *what, int tray, const char *rest)
{
	OK(rk_sim_fault_add(f->world.sim, rk_arena_printf(f->arena, "%s@%s%s", what, name_of(f, tray), rest), err));
}

static void cordon(struct fixture *f, int tray)
{
	OK(rk_store_set_tray_cordon(f->world.store, name_of(f, tray), "lost", err));
	OK(rk_world_refresh(&f->world, err));
}

static void assert_faulty(struct fixture *f, int tray, const char *why)
{
	OK(rk_world_refresh(&f->world, err));
	const char *faulty = f->world.site->trays[tray].faulty;

	assert_non_null(faulty);
	if (!strstr(faulty, why))
		fail_msg("\"%s\" does not say \"%s\"", faulty, why);
	assert_int_equal(f->world.site->trays[tray].vm, RK_NONE);
}

/* The GPUs of a tray by where they are. */
struct places {
	int alone, standard, elsewhere;
};

static struct places places_of(struct fixture *f, int tray)
{
	const struct rk_tray *t = &f->world.site->trays[tray];
	struct rk_nvl_live *parts;
	struct places p = { 0, 0, 0 };
	size_t n;

	OK(f->world.nvl->ops->list(f->world.nvl, t->rack, f->arena, &parts, &n, err));
	for (size_t i = 0; i < n; i++)
		for (size_t g = 0; g < parts[i].n_gpus; g++) {
			if (f->world.site->gpus[rk_find_gpu_guid(f->world.site, parts[i].gpus[g])].tray != tray)
				continue;
			p.standard += parts[i].id == RK_NVL_DEFAULT;
			p.alone += rk_nvl_tray_of(f->world.site, t->rack, &parts[i]) == tray;
			p.elsewhere += parts[i].id != RK_NVL_DEFAULT && rk_nvl_tray_of(f->world.site, t->rack, &parts[i]) != tray;
		}
	return p;
}

/* It answers again: emptied, erased, and free. */
static void assert_comes_back(struct fixture *f, int tray)
{
	int64_t op;

	rk_sim_fault_clear(f->world.sim);
	OK(rk_store_set_tray_cordon(f->world.store, name_of(f, tray), NULL, err));
	OK(rk_world_refresh(&f->world, err));
	OK(rk_tray_restore(&f->world, &tray, 1, &op, err));
	assert_int_equal(rk_tray_state(f->world.site, tray), RK_TRAY_FREE);
	assert_int_equal(places_of(f, tray).standard, 4);
	assert_consistent(f);
}

static int act_delete(struct fixture *f, int64_t *op, struct rk_err *err)
{
	return rk_cluster_delete(&f->world, "a", op, err);
}

static int act_shrink(struct fixture *f, int64_t *op, struct rk_err *err)
{
	return rk_cluster_resize(&f->world, "a", 2, false, op, err);
}

/* ---- gone ------------------------------------------------------------------------------------------------------------------------------- */

static void a_gpu_that_is_gone_does_not_hold_up_a_delete(void **state)
{
	struct fixture *f = *state;
	int64_t op;

	create(f, "a", 2);
	int tray = tray_of_vm(f, "a-02");
	fault(f, "gpu-missing", tray, "/1");
	OK(act_delete(f, &op, err));
	assert_int_equal(f->world.site->n_clusters, 0);
	assert_faulty(f, tray, "GPU 0x");
	assert_int_equal(places_of(f, tray).elsewhere, 0);
	assert_int_equal(act_delete(f, &op, NULL), RK_NOT_FOUND);
	/* The other trays are free. */
	create(f, "b", 7);
}

static void a_gpu_that_is_gone_does_not_hold_up_a_shrink_or_its_way_back(void **state)
{
	struct fixture *f = *state;
	int64_t op;

	create(f, "a", 4);
	int tray = tray_of_vm(f, "a-04");
	fault(f, "gpu-missing", tray, "/1");
	/* Taken back: the GPU was in no partition before, and is in none after. */
	OK(rk_sim_fault_add(f->world.sim, "ib.set#1=fail", err));
	assert_int_equal(act_shrink(f, &op, NULL), RK_FAILED);
	assert_int_equal(places_of(f, tray).elsewhere, 3);
	assert_int_equal(f->world.site->n_vms, 4);
	OK(act_shrink(f, &op, err));
	assert_int_equal(f->world.site->n_vms, 2);
	assert_faulty(f, tray, "GPU");
	OK(act_shrink(f, &op, err));
}

/* A host that had another one by the time the volumes were to go. */
static int no_pool(struct rk_hv *hv, int tray, const char *pool, const char *name, struct rk_err *err)
{
	return rk_err_set(err, RK_NOT_FOUND, "tray %s has no pool \"%s\" with \"%s\"", hv->site->trays[tray].name, pool, name);
}

static int gone_already(struct rk_hv *hv, int tray, const char *name, struct rk_err *err)
{
	return rk_err_set(err, RK_NOT_FOUND, "no domain \"%s\" on tray %s", name, hv->site->trays[tray].name);
}

static void volumes_of_a_pool_that_is_gone_make_the_tray_faulty(void **state)
{
	struct fixture *f = *state;
	const struct rk_hv_ops *own = f->world.hv->ops;
	struct rk_hv_ops ops = *own;
	int64_t op;

	create(f, "a", 1);
	int tray = tray_of_vm(f, "a-01");
	ops.volume_delete = no_pool;
	f->world.hv->ops = &ops;
	OK(act_delete(f, &op, err));
	f->world.hv->ops = own;
	assert_faulty(f, tray, "its volumes are still there: tray");
	assert_comes_back(f, tray);
}

/* Somebody else undefined it between the look and the call. */
static void a_domain_that_goes_meanwhile_is_gone(void **state)
{
	struct fixture *f = *state;
	const struct rk_hv_ops *own = f->world.hv->ops;
	struct rk_hv_ops ops = *own;
	int64_t op;

	create(f, "a", 1);
	int tray = tray_of_vm(f, "a-01");
	const char *domain = rk_vm_domain_name(f->arena, "a-01");
	OK(own->destroy(f->world.hv, tray, domain, err));
	OK(own->undefine(f->world.hv, tray, domain, err));
	ops.destroy = ops.undefine = gone_already;
	f->world.hv->ops = &ops;
	OK(act_delete(f, &op, err));
	f->world.hv->ops = own;
	assert_int_equal(rk_tray_state(f->world.site, tray), RK_TRAY_FREE);
	assert_consistent(f);
}

/* ---- no answer -------------------------------------------------------------------------------------------------------------------------- */

/* Nothing is released on a guess: without a person's word it waits, with it the tray stays faulty and by itself. */
static void check_lost(struct fixture *f, const char *vm, int (*act)(struct fixture *f, int64_t *op, struct rk_err *err), int first_rc)
{
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	int64_t op;
	int tray = tray_of_vm(f, vm);

	fault(f, "call", tray, "=hang");
	assert_int_equal(act(f, &op, &why), first_rc);
	assert_true(f->world.site->trays[tray].vm != RK_NONE);
	assert_null(f->world.site->trays[tray].faulty);
	cordon(f, tray);
	OK(act(f, &op, err));
	assert_faulty(f, tray, "erase or reset failed");
	assert_int_equal(places_of(f, tray).alone, 4);
	assert_consistent(f);
	assert_comes_back(f, tray);
}

static void a_delete_waits_for_a_tray_until_a_person_gives_it_up(void **state)
{
	create(*state, "a", 2);
	check_lost(*state, "a-01", act_delete, RK_PARTIAL);
}

static void a_shrink_waits_for_a_tray_until_a_person_gives_it_up(void **state)
{
	create(*state, "a", 4);
	check_lost(*state, "a-04", act_shrink, RK_FAILED);
}

static void what_is_left_says_how_to_go_on_without_the_tray(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	int64_t op;

	create(f, "a", 1);
	fault(f, "call", tray_of_vm(f, "a-01"), "=hang");
	assert_int_equal(act_delete(f, &op, &why), RK_PARTIAL);
	static const char *const parts[] = { "vm.stop a-01 on r", "is lost: racksh tray cordon", "not done yet: vm.erase a-01" };
	for (size_t p = 0; p < RK_ARRAY_SIZE(parts); p++) {
		const char *said = NULL;
		for (size_t i = 0; i < why.n_details; i++)
			if (strstr(why.details[i], parts[p]))
				said = why.details[i];
		assert_non_null(said);
	}
}

/* When the start has failed, its host is silent. */
static void go_silent(void *ctx, const char *text)
{
	if (strstr(text, "vm.start a-01: hv.start"))
		fault(ctx, "call", 0, "=hang");
}

static void a_create_is_taken_back_without_the_tray_that_died(void **state)
{
	struct fixture *f = *state;
	int64_t op = 0;

	OK(rk_sim_fault_add(f->world.sim, "hv.start@r1-t01=fail", err));
	f->world.progress = go_silent;
	f->world.progress_ctx = f;
	assert_int_equal(rk_cluster_create(&f->world, spec_of(f->arena, "a", "t", 2, 1, false), &op, NULL), RK_PARTIAL);
	assert_int_equal(tray_of_vm(f, "a-01"), 0);
	cordon(f, 0);
	OK(rk_op_rollback(&f->world, op, err));
	assert_int_equal(f->world.site->n_clusters, 0);
	assert_faulty(f, 0, "its guest was not seen dead");
	assert_comes_back(f, 0);
}

/* ---- strays ----------------------------------------------------------------------------------------------------------------------------- */

static struct places seen_last;
static int seen_tray;
static struct fixture *seen_by;
static const struct rk_nvl_ops *real_nvl;

static int remove_and_look(struct rk_nvl *nvl, int rack, int id, struct rk_err *err)
{
	if (id < RK_NVL_TRAYS)
		seen_last = places_of(seen_by, seen_tray);
	return real_nvl->remove(nvl, rack, id, err);
}

static void forget_cluster(struct fixture *f, const char *name)
{
	OK(rk_store_begin(f->world.store, -1, err));
	OK(rk_store_remove_cluster(f->world.store, name, err));
	OK(rk_store_commit(f->world.store, err));
	OK(rk_world_refresh(&f->world, err));
}

static void fix_and_look(struct fixture *f)
{
	struct rk_nvl_ops ops = *f->world.nvl->ops;
	struct rk_drift_left *left;
	int64_t op;
	size_t n;

	real_nvl = f->world.nvl->ops;
	seen_by = f;
	ops.remove = remove_and_look;
	f->world.nvl->ops = &ops;
	OK(rk_drift_fix(&f->world, NULL, f->arena, &op, &left, &n, err));
	f->world.nvl->ops = real_nvl;
	assert_int_equal(n, 0);
	assert_true(op > 0);
}

static void gpus_are_home_before_a_stray_partition_goes(void **state)
{
	struct fixture *f = *state;

	create(f, "a", 1);
	seen_tray = tray_of_vm(f, "a-01");
	forget_cluster(f, "a");
	fix_and_look(f);
	assert_int_equal(seen_last.standard, 4);
	assert_consistent(f);
}

static void gpus_of_a_tray_that_was_given_up_leave_a_stray_partition_for_their_own(void **state)
{
	struct fixture *f = *state;
	int64_t op;
	size_t moved;

	create(f, "a", 1);
	seen_tray = tray_of_vm(f, "a-01");
	int tray = seen_tray;
	OK(rk_cluster_repair(&f->world, "a", (const char *const[]){ "a-01" }, 1, &op, &moved, err));
	OK(rk_world_refresh(&f->world, err));
	/* Somebody put one of its GPUs back into the partition that is about to be a stray. */
	const struct rk_tray *t = &f->world.site->trays[tray];
	uint64_t gpu = f->world.site->gpus[t->first_gpu].fabric_guid;
	int stray = f->world.site->nvl_partitions[0].id;
	OK(f->world.nvl->ops->drop(f->world.nvl, t->rack, RK_NVL_TRAYS + t->number, gpu, err));
	rk_clock_sleep_ms(f->clock, 5000);
	OK(f->world.nvl->ops->add(f->world.nvl, t->rack, stray, gpu, err));
	rk_clock_sleep_ms(f->clock, 5000);
	forget_cluster(f, "a");
	fix_and_look(f);
	assert_int_equal(seen_last.alone, 4);
	assert_int_equal(places_of(f, tray).alone, 4);
}

#define WITH_TWIN(test) cmocka_unit_test_setup_teardown(test, setup, end_world)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_TWIN(a_gpu_that_is_gone_does_not_hold_up_a_delete),
		WITH_TWIN(a_gpu_that_is_gone_does_not_hold_up_a_shrink_or_its_way_back),
		WITH_TWIN(volumes_of_a_pool_that_is_gone_make_the_tray_faulty),
		WITH_TWIN(a_domain_that_goes_meanwhile_is_gone),
		WITH_TWIN(a_delete_waits_for_a_tray_until_a_person_gives_it_up),
		WITH_TWIN(a_shrink_waits_for_a_tray_until_a_person_gives_it_up),
		WITH_TWIN(what_is_left_says_how_to_go_on_without_the_tray),
		WITH_TWIN(a_create_is_taken_back_without_the_tray_that_died),
		WITH_TWIN(gpus_are_home_before_a_stray_partition_goes),
		WITH_TWIN(gpus_of_a_tray_that_was_given_up_leave_a_stray_partition_for_their_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
