#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "provision/isolation.h"
#include "tests/contract/ops_twin.h"

/* What operations do to NVLink partitions: ids that the network gives, and where GPUs are that no cluster has. */

#define NMXM "\"driver\":\"nmxm\",\"url\":\"https://{rack}-m\""
#define PER_TRAY "\"driver\":\"nvos\",\"ssh\":\"admin@{rack}-sw1\",\"release\":\"tray\""

static int start_with(const char *nvlink, void **state)
{
	struct fixture *f = rk_xcalloc(1, sizeof(*f));

	rack_nvlink = nvlink;
	open_world(f, NULL, 2, 4);
	*state = f;
	return 0;
}

static int start(void **state) { return start_with(RACK_NVLINK, state); }
static int start_given(void **state) { return start_with(NMXM, state); }
static int start_given_per_tray(void **state) { return start_with(NMXM ",\"release\":\"tray\"", state); }
static int start_per_tray(void **state) { return start_with(PER_TRAY, state); }

static void create(struct fixture *f, const char *name, const char *tenant, int count, bool required)
{
	int64_t op;

	OK(rk_cluster_create(&f->world, spec_of(f->arena, name, tenant, count, 1, required), &op, err));
	OK(rk_world_refresh(&f->world, err));
}

static void drop_cluster(struct fixture *f, const char *name)
{
	int64_t op;

	OK(rk_cluster_delete(&f->world, name, &op, err));
	OK(rk_world_refresh(&f->world, err));
}

static void repair_vm(struct fixture *f, const char *cluster, const char *vm)
{
	size_t moved;
	int64_t op;

	OK(rk_cluster_repair(&f->world, cluster, (const char *const[]){ vm }, 1, &op, &moved, err));
	OK(rk_world_refresh(&f->world, err));
}

/* Partition of a cluster in a rack as the store has it; 0: none. */
static int stored_id(struct fixture *f, const char *cluster, const char *rack)
{
	const struct rk_site *site = f->world.site;

	for (size_t i = 0; i < site->n_nvl_partitions; i++)
		if (strcmp(site->clusters[site->nvl_partitions[i].cluster].name, cluster) == 0 && strcmp(site->racks[site->nvl_partitions[i].rack].name, rack) == 0)
			return site->nvl_partitions[i].id;
	return 0;
}

/* How many GPUs of the tray are in Default, in the partition of their tray, in none, in another one. */
struct places {
	int standard, alone, nowhere, other;
};
static struct places places_of(struct fixture *f, int tray)
{
	const struct rk_site *site = f->world.site;
	const struct rk_tray *t = &site->trays[tray];
	struct places ret = { .nowhere = t->n_gpus };
	struct rk_nvl_live *parts;
	size_t n;

	OK(f->world.nvl->ops->list(f->world.nvl, t->rack, f->arena, &parts, &n, err));
	for (size_t i = 0; i < n; i++)
		for (int g = t->first_gpu; g < t->first_gpu + t->n_gpus; g++)
			for (size_t k = 0; k < parts[i].n_gpus; k++)
				if (parts[i].gpus[k] == site->gpus[g].fabric_guid) {
					bool alone = rk_nvl_tray_of(site, t->rack, &parts[i]) == tray;
					ret.nowhere--;
					ret.standard += parts[i].id == RK_NVL_DEFAULT;
					ret.alone += alone;
					ret.other += !alone && parts[i].id != RK_NVL_DEFAULT;
				}
	return ret;
}

static int tray_of_vm(struct fixture *f, const char *vm)
{
	return f->world.site->vms[rk_find_vm(f->world.site, vm)].tray;
}

static bool live_has(struct fixture *f, int rack, const char *name)
{
	struct rk_nvl_live *parts;
	size_t n;

	OK(f->world.nvl->ops->list(f->world.nvl, rack, f->arena, &parts, &n, err));
	for (size_t i = 0; i < n; i++)
		if (rk_streq(parts[i].name, name))
			return true;
	return false;
}

/* ---- ids ------------------------------------------------------------------------------------------------------------------------------ */

/* The network gives another id than the planned one: the store has it, the guests see it, and the whole life of the cluster goes on with it. */
static void the_id_that_the_network_gives_is_the_one_in_the_store(void **state)
{
	struct fixture *f = *state;
	int64_t op;

	plant_theirs(f, 1);
	create(f, "a", "t", 2, true);
	assert_int_equal(stored_id(f, "a", "r1"), 2);
	assert_int_equal(stored_id(f, "a", "r2"), 2);
	assert_int_equal(f->world.site->clusters[0].state, RK_CLUSTER_READY);
	assert_consistent(f);
	create(f, "b", "u", 2, true);
	assert_int_equal(stored_id(f, "b", "r1"), 3);
	assert_consistent(f);
	OK(rk_cluster_resize(&f->world, "a", 4, true, &op, err));
	assert_consistent(f);
	repair_vm(f, "a", "a-01");
	assert_consistent(f);
	OK(rk_cluster_resize(&f->world, "a", 1, false, &op, err));
	assert_consistent(f);
	drop_cluster(f, "a");
	drop_cluster(f, "b");
	assert_consistent(f);
	assert_int_equal(f->world.site->n_nvl_partitions, 0);
}

static void a_create_that_fails_leaves_no_partition_behind(void **state)
{
	struct fixture *f = *state;
	int64_t op;

	OK(rk_sim_fault_add(f->world.sim, "hv.start@r2-t01=fail", err));
	assert_int_equal(rk_cluster_create(&f->world, spec_of(f->arena, "a", "t", 2, 1, false), &op, NULL), RK_FAILED);
	assert_consistent(f);
	assert_false(live_has(f, 0, "a"));
	assert_int_equal(f->world.site->n_nvl_partitions, 0);
}

/* The switch said yes to the first GPU and did not answer for the second one: the first may be seen inside for a while yet. */
static void a_gpu_that_was_told_to_leave_is_back_when_that_is_undone(void **state)
{
	struct fixture *f = *state;
	int64_t op;

	create(f, "a", "t", 3, false);
	OK(rk_sim_fault_add(f->world.sim, "nvl.drop#2=hang", err));
	assert_int_equal(rk_cluster_resize(&f->world, "a", 2, false, &op, NULL), RK_FAILED); /* nvl.leave */
	assert_consistent(f);
	OK(rk_cluster_resize(&f->world, "a", 2, false, &op, err));
	rk_sim_fault_clear(f->world.sim);
	OK(rk_sim_fault_add(f->world.sim, "nvl.drop#2=hang", err));
	assert_int_equal(rk_cluster_resize(&f->world, "a", 1, false, &op, NULL), RK_FAILED); /* nvl.release */
	assert_consistent(f);
}

/* Two clusters are planned with ids that the network then gives the other way round: each row ends up with what is on the network. */
static void an_id_that_another_plan_has_is_exchanged(void **state)
{
	struct fixture *f = *state;

	create(f, "a", "t", 2, false);
	create(f, "b", "u", 2, false);
	OK(rk_store_give_nvl_id(f->world.store, "r1", "a", 2, err));
	OK(rk_world_refresh(&f->world, err));
	assert_int_equal(stored_id(f, "a", "r1"), 2);
	assert_int_equal(stored_id(f, "b", "r1"), 1);
	assert_int_equal(stored_id(f, "a", "r2"), 1);
	OK(rk_store_give_nvl_id(f->world.store, "r1", "a", 4711, err));
	OK(rk_world_refresh(&f->world, err));
	assert_int_equal(stored_id(f, "a", "r1"), 4711);
	assert_int_equal(stored_id(f, "b", "r1"), 1);
	/* Also one that nobody has, next to one that somebody has. */
	OK(rk_store_give_nvl_id(f->world.store, "r1", "a", 2, err));
	OK(rk_world_refresh(&f->world, err));
	assert_int_equal(stored_id(f, "a", "r1"), 2);
	assert_int_equal(stored_id(f, "b", "r1"), 1);
	assert_int_equal(rk_store_give_nvl_id(f->world.store, "r1", "nobody", 9, NULL), RK_NOT_FOUND);
	assert_int_equal(rk_store_give_nvl_id(f->world.store, "r1", "a", RK_NVL_DEFAULT, NULL), RK_INVALID);
}

/* A renamed cluster keeps its partitions and their name: a new cluster of the old name must get partitions of its own. */
static void a_new_cluster_does_not_join_the_partition_of_a_renamed_one(void **state)
{
	struct fixture *f = *state;
	struct rk_isolation isolation;
	int64_t op;

	create(f, "a", "t", 2, false);
	OK(rk_cluster_rename(&f->world, "a", "z", &op, err));
	create(f, "a", "u", 2, false);
	assert_int_not_equal(stored_id(f, "a", "r1"), stored_id(f, "z", "r1"));
	assert_consistent(f);
	assert_true(live_has(f, 0, "a.2"));
	OK(rk_isolation_verify(&f->world, true, f->arena, &isolation, err));
	drop_cluster(f, "z");
	assert_consistent(f);
	drop_cluster(f, "a");
	assert_consistent(f);
}

/* Somebody made a partition of the planned id and put GPUs of a free tray into it: no tenant is put beside them. */
static void a_partition_that_holds_others_is_not_moved_into(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	int64_t op;

	OK(rk_sim_fault_add(f->world.sim, "gpu-move@r1-t04/0/1", err));
	assert_int_equal(rk_cluster_create(&f->world, spec_of(f->arena, "a", "t", 2, 1, false), &op, &why), RK_FAILED);
	assert_non_null(strstr(why.message, "is there already and is called \"somebody\", not \"a\""));
	assert_int_equal(f->world.site->n_clusters, 0);
	assert_int_equal(places_of(f, rk_find_tray(f->world.site, "r1-t01")).standard, 4);
}

/* Partition of a GPU as the switch has it; 0: none. */
static int where_is(struct fixture *f, const char *tray, int gpu)
{
	const struct rk_site *site = f->world.site;
	const struct rk_tray *t = &site->trays[rk_find_tray(site, tray)];
	struct rk_nvl_live *parts;
	size_t n;

	OK(f->world.nvl->ops->list(f->world.nvl, t->rack, f->arena, &parts, &n, err));
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < parts[i].n_gpus; k++)
			if (parts[i].gpus[k] == site->gpus[t->first_gpu + gpu].fabric_guid)
				return parts[i].id;
	return 0;
}

/* Where the network gives ids the planned number is only a number: a partition that has it, full or empty, is left alone. */
static void a_partition_of_the_planned_id_that_is_somebody_elses_is_left_alone(void **state)
{
	struct fixture *f = *state;

	OK(rk_sim_fault_add(f->world.sim, "gpu-move@r1-t04/0/1", err));
	OK(rk_sim_plant_partition(f->world.sim, "r2", 1, "theirs", err));
	create(f, "a", "t", 2, false);
	assert_int_equal(stored_id(f, "a", "r1"), 2);
	assert_int_equal(stored_id(f, "a", "r2"), 2);
	assert_true(live_has(f, 1, "theirs"));
	drop_cluster(f, "a");
	assert_int_equal(where_is(f, "r1-t04", 0), 1);
	assert_true(live_has(f, 0, "somebody"));
}

/* Somebody removed ours and made another one of its id, with our GPUs and others: that is told, and it stays as it is. */
static void a_partition_that_took_the_place_of_ours_is_not_ours(void **state)
{
	struct fixture *f = *state;
	struct rk_isolation isolation;
	struct rk_plane_check *checks;
	size_t n;

	create(f, "a", "t", 2, false);
	OK(rk_sim_plant_partition(f->world.sim, "r1", 1, "theirs", err));
	OK(rk_sim_fault_add(f->world.sim, "gpu-move@r1-t04/0/1", err));
	rk_clock_sleep_ms(f->clock, 10000);
	assert_true(live_has(f, 0, "theirs"));
	assert_int_equal(rk_nvlink_verify(&f->world, "r1", false, f->arena, &checks, &n, NULL), RK_UNHEALTHY);
	assert_string_equal(checks[n - 1].message, "the store knows of no such partition");
	assert_int_equal(rk_isolation_verify(&f->world, false, f->arena, &isolation, NULL), RK_UNHEALTHY);
	drop_cluster(f, "a");
	assert_int_equal(where_is(f, "r1-t04", 0), 1);
	assert_int_equal(where_is(f, "r1-t01", 0), 1);
	assert_true(live_has(f, 0, "theirs"));
}

/* The network numbered it anew: it is still ours, not a stray. */
static void an_id_that_the_store_has_wrong_is_put_right(void **state)
{
	struct fixture *f = *state;
	struct rk_drift *rows;
	struct rk_drift_left *left;
	size_t n;
	int64_t op;

	create(f, "a", "t", 2, false);
	OK(rk_store_give_nvl_id(f->world.store, "r1", "a", 99, err));
	OK(rk_world_refresh(&f->world, err));
	assert_int_equal(rk_drift(&f->world, NULL, f->arena, &rows, &n, NULL), RK_UNHEALTHY);
	OK(rk_drift_fix(&f->world, NULL, f->arena, &op, &left, &n, err));
	assert_int_equal(n, 0);
	OK(rk_world_refresh(&f->world, err));
	assert_int_equal(stored_id(f, "a", "r1"), 1);
	OK(rk_drift(&f->world, NULL, f->arena, &rows, &n, err));
	assert_consistent(f);
}

/* Its journal has the planned id, the network another: it is known as racksh's by its name, and nobody else's is taken for it. */
static void a_partition_that_the_store_forgot_is_taken_away(void **state)
{
	struct fixture *f = *state;
	struct rk_drift_left *left;
	size_t n;
	int64_t op;

	plant_theirs(f, 1);
	create(f, "a", "t", 2, false);
	OK(rk_store_remove_cluster(f->world.store, "a", err));
	OK(rk_world_refresh(&f->world, err));
	OK(rk_drift_fix(&f->world, NULL, f->arena, &op, &left, &n, err));
	assert_false(live_has(f, 0, "a"));
	assert_true(live_has(f, 0, "theirs"));
	for (size_t i = 0; i < n; i++)
		assert_non_null(strstr(left[i].why, "\"theirs\" was not made by this racksh"));
	assert_int_equal(places_of(f, rk_find_tray(f->world.site, "r1-t01")).standard, 4);
}

/* A create of which nothing reached the network is taken back: there is nothing to take out of the partition that has the planned id. */
static void what_was_never_made_is_not_taken_apart_under_its_planned_id(void **state)
{
	struct fixture *f = *state;
	int64_t op;

	OK(rk_sim_fault_add(f->world.sim, "gpu-move@r1-t04/0/1,nvl.create@r1#1=hang", err));
	assert_int_equal(rk_cluster_create(&f->world, spec_of(f->arena, "a", "t", 2, 1, false), &op, NULL), RK_FAILED);
	assert_int_equal(where_is(f, "r1-t04", 0), 1);
	assert_int_equal(places_of(f, rk_find_tray(f->world.site, "r1-t01")).standard, 4);
}

/* A delete stops when its partition is gone, the network gives the id to the next cluster, and then the delete goes on. */
static void a_release_that_goes_on_does_not_touch_whoever_has_its_id_now(void **state)
{
	struct fixture *f = *state;
	int64_t op;

	create(f, "a", "t", 2, false);
	int id = stored_id(f, "a", "r1");
	OK(rk_sim_fault_add(f->world.sim, "nvl.remove@r1#1=lost", err));
	assert_int_not_equal(rk_cluster_delete(&f->world, "a", &op, NULL), 0);
	rk_sim_fault_clear(f->world.sim);
	rk_clock_sleep_ms(f->clock, 10000);
	assert_false(live_has(f, 0, "a"));
	OK(rk_world_refresh(&f->world, err));
	create(f, "b", "u", 2, true);
	assert_int_equal(stored_id(f, "b", "r1"), id);
	OK(rk_op_resume(&f->world, op, err));
	OK(rk_world_refresh(&f->world, err));
	assert_int_equal(f->world.site->n_clusters, 1);
	assert_consistent(f);
}

/* GPUs that were in the partition of their tray go back there, not into whatever has its id by then. */
static void a_former_home_is_not_known_by_its_id(void **state)
{
	struct fixture *f = *state;
	struct rk_nvl *nvl = f->world.nvl;
	struct rk_nvl_live *parts;
	size_t n;
	int64_t op;
	int home, id;

	create(f, "a", "t", 2, false);
	drop_cluster(f, "a");
	int tray = rk_find_tray(f->world.site, "r1-t01");
	assert_int_equal(places_of(f, tray).alone, 4);
	home = where_is(f, "r1-t01", 0);
	OK(rk_sim_fault_add(f->world.sim, "hv.start@r1-t01=fail,hv.undefine@r1-t01#1=hang", err));
	assert_int_equal(rk_cluster_create(&f->world, spec_of(f->arena, "b", "u", 2, 1, false), &op, NULL), RK_PARTIAL);
	rk_sim_fault_clear(f->world.sim);
	OK(nvl->ops->remove(nvl, 0, home, err));
	rk_clock_sleep_ms(f->clock, 10000);
	OK(nvl->ops->create(nvl, 0, 1, "theirs", "full_bandwidth", 18, &id, err));
	assert_int_equal(id, home);
	OK(rk_op_rollback(&f->world, op, err));
	OK(nvl->ops->list(nvl, 0, f->arena, &parts, &n, err));
	for (size_t i = 0; i < n; i++)
		assert_true(parts[i].id != home || !parts[i].n_gpus);
	assert_int_equal(places_of(f, tray).alone, 4);
}

static void ids_come_from_a_pool_of_each_domain(void **state)
{
	struct fixture *f = *state;

	create(f, "a", "t", 2, false);
	create(f, "b", "u", 2, false);
	assert_int_equal(stored_id(f, "a", "r1"), 1);
	assert_int_equal(stored_id(f, "a", "r2"), 1);
	assert_int_equal(stored_id(f, "b", "r1"), 2);
	drop_cluster(f, "a");
	create(f, "c", "t", 2, false);
	assert_int_equal(stored_id(f, "c", "r2"), 1);
}

/* ---- moves ------------------------------------------------------------------------------------------------------------------------------ */

static void the_resiliency_mode_of_the_spec_is_that_of_the_partition(void **state)
{
	struct fixture *f = *state;
	struct rk_spec *spec = spec_of(f->arena, "a", "t", 2, 1, false);
	struct rk_nvl_live *parts;
	size_t n;
	int64_t op;

	spec->nvlink.resiliency = "adaptive_bandwidth";
	OK(rk_cluster_create(&f->world, spec, &op, err));
	OK(f->world.nvl->ops->list(f->world.nvl, 0, f->arena, &parts, &n, err));
	for (size_t i = 0; i < n; i++)
		if (parts[i].id == 1)
			assert_string_equal(parts[i].resiliency, "adaptive_bandwidth");
}

/* The groups of a domain are shared: a cluster for which none are left is taken back, and told why. */
static void a_cluster_without_multicast_groups_for_it_is_refused(void **state)
{
	struct fixture *f = *state;
	struct rk_spec *big = spec_of(f->arena, "a", "t", 2, 1, false), *small = spec_of(f->arena, "b", "u", 2, 1, false);
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	int64_t op;

	big->nvlink.multicast_groups = 1010;
	OK(rk_cluster_create(&f->world, big, &op, err));
	OK(rk_world_refresh(&f->world, err));
	small->nvlink.multicast_groups = 18;
	assert_int_equal(rk_cluster_create(&f->world, small, &op, &why), RK_FAILED);
	assert_non_null(strstr(why.message, "18 multicast groups are wanted, and 1010 of the domain's 1024 are given to other partitions"));
	OK(rk_world_refresh(&f->world, err));
	assert_int_equal(f->world.site->n_clusters, 1);
	assert_consistent(f);
	small->nvlink.multicast_groups = 14;
	OK(rk_cluster_create(&f->world, small, &op, err));
}

/* A switch that says "succeeded" and did nothing, or does not answer: what is not seen is not done, all is taken back, and no GPU is left in none. */
static void what_is_not_seen_is_not_done_and_no_gpu_stays_in_none(void **state)
{
	static const char *const faults[] = { "nvl.add#2=lie", "nvl.drop#2=lie", "nvl.create#1=lie", "nvl.add#3=fail", "nvl.add#5=lost", "nvl.drop#1=fail" };
	struct fixture *f = *state;
	int64_t op;

	for (size_t i = 0; i < RK_ARRAY_SIZE(faults); i++) {
		struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
		OK(rk_sim_fault_add(f->world.sim, faults[i], err));
		int rc = rk_cluster_create(&f->world, spec_of(f->arena, "a", "t", 4, 1, false), &op, &why);
		rk_sim_fault_clear(f->world.sim);
		if (rc == RK_PARTIAL)
			OK(rk_op_rollback(&f->world, op, err));
		OK(rk_world_refresh(&f->world, err));
		if (rc == 0)
			drop_cluster(f, "a");
		rk_clock_sleep_ms(f->clock, 5000);
		for (size_t t = 0; t < f->world.site->n_trays; t++)
			if (places_of(f, (int)t).standard != 4)
				fail_msg("%s: tray %s is not back", faults[i], f->world.site->trays[t].name);
		assert_consistent(f);
	}
}

/* Every command puts whole trays in; a step that would not is refused before anything is touched. */
static void an_operating_system_is_never_split(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	const char *params = rk_arena_printf(f->arena, "{\"rack\":\"r1\",\"id\":1,\"name\":\"x\",\"gpus\":[\"0x%016" PRIx64 "\",\"0x%016" PRIx64 "\"]}",
					     f->world.site->gpus[0].fabric_guid, f->world.site->gpus[1].fabric_guid);
	struct rk_plan *plan = rk_plan_new("a test");
	int64_t op;

	rk_plan_add(plan, "nvl.partition", "r1/1", "nvlink:r1", params, NULL, 0);
	OK(rk_op_journal(&f->world, plan, "{\"type\":\"tray.restore\"}", &op, err));
	rk_plan_free(plan);
	assert_int_equal(rk_op_run(&f->world, op, &why), RK_INVALID);
	assert_non_null(strstr(why.message, "the operating system of tray r1-t01 would be split"));
	assert_int_equal(places_of(f, 0).standard, 4);
}

/* Shared memory does not reach beyond a domain: a cluster that asks for it across two is refused, and told why. */
static void shared_memory_across_two_domains_is_refused(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	int64_t op;

	assert_int_equal(rk_cluster_create(&f->world, spec_of(f->arena, "a", "t", 20, 20, false), &op, &why), RK_INVALID);
	assert_non_null(strstr(why.message, "a segment of 20 is larger than an NVLink domain of 18 trays"));
	rk_err_clear(&why);
	/* One domain could hold them, but none here has so many trays. */
	assert_int_equal(rk_cluster_create(&f->world, spec_of(f->arena, "a", "t", 6, 6, false), &op, &why), RK_NO_CAPACITY);
	assert_int_equal(f->world.site->n_clusters, 0);
}

/* ---- where free GPUs are ---------------------------------------------------------------------------------------------------------------- */

static void released_gpus_go_back_to_the_default_partition(void **state)
{
	struct fixture *f = *state;

	create(f, "a", "t", 4, false);
	assert_int_equal(places_of(f, 0).other, 4);
	drop_cluster(f, "a");
	for (size_t t = 0; t < f->world.site->n_trays; t++)
		assert_int_equal(places_of(f, (int)t).standard, 4);
}

/* With "release": "tray" they are in a partition of their tray, from which the next cluster takes them; a create that is taken back puts them
 * where they were. */
static void released_gpus_go_to_the_partition_of_their_tray_where_the_site_says_so(void **state)
{
	struct fixture *f = *state;
	struct rk_isolation isolation;
	struct rk_plane_check *checks;
	size_t n;
	int64_t op;

	create(f, "a", "t", 8, false);
	OK(rk_cluster_resize(&f->world, "a", 4, false, &op, err));
	drop_cluster(f, "a");
	for (size_t t = 0; t < f->world.site->n_trays; t++)
		assert_int_equal(places_of(f, (int)t).alone, 4);
	OK(rk_nvlink_verify(&f->world, NULL, false, f->arena, &checks, &n, err));
	create(f, "b", "u", 4, true);
	assert_int_equal(f->world.site->clusters[0].state, RK_CLUSTER_READY);
	assert_consistent(f);
	OK(rk_isolation_verify(&f->world, true, f->arena, &isolation, err));
	OK(rk_sim_fault_add(f->world.sim, "hv.start@r1-t03=fail", err));
	assert_int_equal(rk_cluster_resize(&f->world, "b", 8, true, &op, NULL), RK_FAILED);
	OK(rk_world_refresh(&f->world, err));
	assert_int_equal(places_of(f, rk_find_tray(f->world.site, "r1-t03")).alone, 4);
	assert_consistent(f);
}

/* The GPUs of a tray that a repair gave up are by themselves until it comes back. */
static void gpus_of_a_tray_that_was_given_up_are_by_themselves(void **state)
{
	struct fixture *f = *state;
	struct rk_plane_check *checks;
	size_t n;
	int64_t op;

	create(f, "a", "t", 2, false);
	int tray = tray_of_vm(f, "a-01");
	repair_vm(f, "a", "a-01");
	assert_int_equal(places_of(f, tray).alone, 4);
	OK(rk_nvlink_verify(&f->world, NULL, false, f->arena, &checks, &n, err));
	OK(rk_tray_restore(&f->world, &tray, 1, &op, err));
	OK(rk_world_refresh(&f->world, err));
	assert_int_equal(places_of(f, tray).standard, 4);
	rk_clock_sleep_ms(f->clock, 5000);
	assert_false(live_has(f, 0, rk_nvl_tray_name(f->world.site, tray, f->arena)));
	assert_consistent(f);
}

static void a_tray_that_comes_back_stays_by_itself_where_the_site_says_so(void **state)
{
	struct fixture *f = *state;
	int64_t op;

	create(f, "a", "t", 2, false);
	int tray = tray_of_vm(f, "a-01");
	repair_vm(f, "a", "a-01");
	OK(rk_tray_restore(&f->world, &tray, 1, &op, err));
	OK(rk_world_refresh(&f->world, err));
	assert_int_equal(places_of(f, tray).alone, 4);
	assert_consistent(f);
}

/* A GPU that is gone cannot be put anywhere, and does not hold up the repair of the others. */
static void a_gpu_that_is_gone_does_not_hold_up_the_repair(void **state)
{
	struct fixture *f = *state;

	create(f, "a", "t", 2, false);
	int tray = tray_of_vm(f, "a-01");
	OK(rk_sim_fault_add(f->world.sim, rk_arena_printf(f->arena, "gpu-missing@%s/2", f->world.site->trays[tray].name), err));
	repair_vm(f, "a", "a-01");
	assert_int_equal(places_of(f, tray).alone, 3);
	assert_int_equal(places_of(f, tray).nowhere, 1);
	assert_int_equal(f->world.site->clusters[0].state, RK_CLUSTER_READY);
}

/* Somebody else's partition that is called as that of a tray is not taken for one once others are in it. */
static void a_partition_of_a_tray_with_others_in_it_is_a_breach(void **state)
{
	struct fixture *f = *state;
	struct rk_isolation isolation;

	create(f, "a", "t", 2, false);
	drop_cluster(f, "a");
	create(f, "b", "u", 2, false);
	struct rk_nvl_live *parts;
	size_t n;
	OK(f->world.nvl->ops->list(f->world.nvl, 0, f->arena, &parts, &n, err));
	for (size_t i = 0; i < n; i++)
		if (rk_nvl_tray_of(f->world.site, 0, &parts[i]) != RK_NONE)
			OK(rk_sim_fault_add(f->world.sim, rk_arena_printf(f->arena, "gpu-move@r1-t04/0/%d", parts[i].id), err));
	assert_int_equal(rk_isolation_verify(&f->world, true, f->arena, &isolation, NULL), RK_UNHEALTHY);
}

#define WITH(test, start) cmocka_unit_test_setup_teardown(test, start, end_world)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(the_id_that_the_network_gives_is_the_one_in_the_store, start_given),
		WITH(a_create_that_fails_leaves_no_partition_behind, start_given),
		WITH(a_gpu_that_was_told_to_leave_is_back_when_that_is_undone, start),
		WITH(a_gpu_that_was_told_to_leave_is_back_when_that_is_undone, start_given),
		WITH(an_id_that_another_plan_has_is_exchanged, start),
		WITH(a_new_cluster_does_not_join_the_partition_of_a_renamed_one, start),
		WITH(a_new_cluster_does_not_join_the_partition_of_a_renamed_one, start_given),
		WITH(a_partition_that_holds_others_is_not_moved_into, start),
		WITH(a_partition_of_the_planned_id_that_is_somebody_elses_is_left_alone, start_given),
		WITH(a_partition_that_took_the_place_of_ours_is_not_ours, start),
		WITH(an_id_that_the_store_has_wrong_is_put_right, start_given),
		WITH(a_partition_that_the_store_forgot_is_taken_away, start_given),
		WITH(what_was_never_made_is_not_taken_apart_under_its_planned_id, start_given),
		WITH(a_release_that_goes_on_does_not_touch_whoever_has_its_id_now, start_given),
		WITH(a_former_home_is_not_known_by_its_id, start_given_per_tray),
		WITH(ids_come_from_a_pool_of_each_domain, start),
		WITH(the_resiliency_mode_of_the_spec_is_that_of_the_partition, start),
		WITH(a_cluster_without_multicast_groups_for_it_is_refused, start),
		WITH(what_is_not_seen_is_not_done_and_no_gpu_stays_in_none, start),
		WITH(an_operating_system_is_never_split, start),
		WITH(shared_memory_across_two_domains_is_refused, start),
		WITH(released_gpus_go_back_to_the_default_partition, start),
		WITH(released_gpus_go_to_the_partition_of_their_tray_where_the_site_says_so, start_per_tray),
		WITH(gpus_of_a_tray_that_was_given_up_are_by_themselves, start),
		WITH(a_tray_that_comes_back_stays_by_itself_where_the_site_says_so, start_per_tray),
		WITH(a_gpu_that_is_gone_does_not_hold_up_the_repair, start),
		WITH(a_partition_of_a_tray_with_others_in_it_is_a_breach, start_per_tray),
	};

	keep_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
