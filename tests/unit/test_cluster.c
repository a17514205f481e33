#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "provision/cluster_impl.h"
#include "tests/contract/ops_twin.h"

/* What becomes of a cluster and of the trays it had. */

static int setup(void **state)
{
	struct fixture *f = rk_xcalloc(1, sizeof(*f));

	open_world(f, NULL, 2, 4);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	close_world(*state);
	free(*state);
	return 0;
}

static void create(struct fixture *f, const char *name, int count, bool required)
{
	int64_t op;

	OK(rk_cluster_create(&f->world, spec_of(f->arena, name, "t", count, 1, required), &op, err));
}

static void resize(struct fixture *f, int count, bool grow)
{
	int64_t op;

	OK(rk_cluster_resize(&f->world, "a", count, grow, &op, err));
}

static const char *names_of(struct fixture *f)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;

	for (size_t v = 0; v < f->world.site->n_vms; v++)
		rk_str_addf(&out, "%s%s", v ? " " : "", f->world.site->vms[v].name);
	return rk_arena_strdup(f->arena, rk_str_text(&out));
}

static const char *tray_of(struct fixture *f, const char *vm)
{
	int at = rk_find_vm(f->world.site, vm);

	assert_true(at >= 0);
	return f->world.site->trays[f->world.site->vms[at].tray].name;
}

static enum rk_tray_state state_of(struct fixture *f, const char *tray)
{
	return rk_tray_state(f->world.site, rk_find_tray(f->world.site, tray));
}

static void mark(struct fixture *f, int (*set)(struct rk_store *store, const char *tray, const char *reason, struct rk_err *err), const char *tray, const char *why)
{
	OK(set(f->world.store, tray, why, err));
	OK(rk_world_refresh(&f->world, err));
}

static size_t repair(struct fixture *f, const char *vm)
{
	size_t moved = 0;
	int64_t op;

	OK(rk_cluster_repair(&f->world, "a", &vm, vm != NULL, &op, &moved, err));
	return moved;
}

/* ---- create --------------------------------------------------------------------------------------------------------------------------------- */

static const char *between(struct fixture *f, const char *text, const char *before, const char *after)
{
	const char *at = strstr(text, before), *end = at ? strstr(at + strlen(before), after) : NULL;

	assert_non_null(end);
	return rk_arena_strndup(f->arena, at + strlen(before), (size_t)(end - at) - strlen(before));
}

static bool seed_names(const struct rk_rendered *r, const char *address)
{
	for (size_t i = 0; i < r->n_seed; i++)
		if (strstr(r->seed[i].text, address))
			return true;
	return false;
}

static void check_rendered(struct fixture *f, const char *name, int count)
{
	const struct rk_render request = { .spec = spec_of(f->arena, name, "t", count, 1, false), .seed = true };
	struct rk_rendered *all;
	size_t n;

	OK(rk_cluster_render(&f->world, &request, f->arena, &all, &n, err));
	assert_int_equal(n, count);
	for (size_t i = 0; i < n; i++) /* their site goes when the store has changed */
		all[i].tray = rk_arena_strdup(f->arena, all[i].tray);
	create(f, name, count, false);
	for (size_t i = 0; i < n; i++) {
		const struct rk_vm *vm = &f->world.site->vms[rk_find_vm(f->world.site, all[i].vm)];
		assert_string_equal(all[i].tray, tray_of(f, vm->name));
		assert_string_equal(between(f, all[i].xml, "<uuid>", "</uuid>"), vm->uuid);
		assert_string_equal(between(f, all[i].xml, "<mac address=\"", "\""), vm->mac);
		assert_true(seed_names(&all[i], vm->address));
	}
}

static void a_rendering_shows_what_create_makes(void **state)
{
	struct fixture *f = *state;
	int64_t op;

	check_rendered(f, "a", 3);
	/* Where the name of a renamed cluster is used again, the old VMs keep the first UUIDs. */
	OK(rk_cluster_rename(&f->world, "a", "z", &op, err));
	check_rendered(f, "a", 2);
	assert_consistent(f);
}

/* A repair that waits for its confirmation may have to give back what its cluster had, also when that had this one's name. */
static void a_rendering_keeps_off_what_a_waiting_repair_holds(void **state)
{
	struct fixture *f = *state;
	const struct rk_render request = { .spec = spec_of(f->arena, "a", "t", 1, 1, false) };
	struct rk_rendered *all;
	const char *address;
	size_t n;

	OK(rk_cluster_render(&f->world, &request, f->arena, &all, &n, err));
	OK(rk_store_free_address(f->world.site, 0, f->arena, &address, err));
	OK(rk_store_lease_take(f->world.store, rk_arena_printf(f->arena, "uuid:%s", between(f, all[0].xml, "<uuid>", "</uuid>")), 1, "repair", err));
	OK(rk_store_lease_take(f->world.store, rk_arena_printf(f->arena, "address:%s", address), 1, "repair", err));
	check_rendered(f, "a", 3);
}

static void a_domain_left_from_an_earlier_vm_of_the_name_is_not_taken_for_the_new_one(void **state)
{
	struct fixture *f = *state;
	RK_CLEANUP_ERR struct rk_err why = RK_ERR_INIT;
	int64_t op;

	create(f, "a", 1, false);
	const struct rk_vm *vm = &f->world.site->vms[0];
	int tray = vm->tray;
	struct rk_hv_domain domain;
	const char *kept;
	OK(f->world.hv->ops->domain_get(f->world.hv, tray, "racksh-a-01", f->arena, &domain, err));
	OK(rk_cluster_delete(&f->world, "a", &op, err));
	OK(f->world.hv->ops->define(f->world.hv, tray, domain.xml, f->arena, &kept, err));
	OK(f->world.hv->ops->domain_get(f->world.hv, tray, "racksh-a-01", f->arena, &domain, err));
	assert_true(domain.exists);
	assert_int_equal(rk_cluster_create(&f->world, spec_of(f->arena, "a", "t", 1, 1, false), &op, &why), RK_FAILED);
	assert_non_null(strstr(why.message, "has a domain \"racksh-a-01\" already that is not this VM's"));
}

/* It may hold what another tenant wrote. */
static void a_disk_left_from_an_earlier_vm_of_the_name_is_not_booted_again(void **state)
{
	struct fixture *f = *state;
	RK_CLEANUP_ERR struct rk_err why = RK_ERR_INIT;
	int64_t op;

	create(f, "a", 1, false);
	int tray = f->world.site->vms[0].tray;
	OK(rk_cluster_delete(&f->world, "a", &op, err));
	OK(f->world.hv->ops->volume_overlay(f->world.hv, tray, "default", "racksh-a-01-os.qcow2", "default/u.qcow2", err));
	assert_int_equal(rk_cluster_create(&f->world, spec_of(f->arena, "a", "u", 1, 1, false), &op, &why), RK_FAILED);
	assert_non_null(strstr(why.message, "has a volume \"default/racksh-a-01-os.qcow2\" already that is not this VM's"));
	struct rk_hv_volume volume;
	OK(f->world.hv->ops->volume_get(f->world.hv, tray, "default", "racksh-a-01-os.qcow2", f->arena, &volume, err));
	assert_true(volume.exists);
}

/* ---- grow and shrink ----------------------------------------------------------------------------------------------------------------------- */

static void numbers_are_never_used_again(void **state)
{
	struct fixture *f = *state;

	create(f, "a", 2, false);
	resize(f, 4, true);
	resize(f, 3, false);
	resize(f, 5, true);
	assert_string_equal(names_of(f), "a-01 a-02 a-03 a-05 a-06");
	assert_consistent(f);
}

static void a_repeated_resize_does_nothing(void **state)
{
	struct fixture *f = *state;

	create(f, "a", 2, false);
	resize(f, 4, true);
	long calls = rk_sim_calls(f->world.sim);
	resize(f, 4, true);
	resize(f, 4, false);
	assert_int_equal(rk_sim_calls(f->world.sim), calls);
}

static void a_resize_in_the_wrong_direction_is_refused(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	int64_t op;

	create(f, "a", 3, false);
	assert_int_equal(rk_cluster_resize(&f->world, "a", 2, true, &op, &why), RK_INVALID);
	assert_non_null(strstr(why.hint, "shrink a 2"));
	rk_err_clear(&why);
	assert_int_equal(rk_cluster_resize(&f->world, "a", 0, false, &op, &why), RK_INVALID);
	assert_non_null(strstr(why.hint, "delete a"));
	rk_err_clear(&why);
	assert_int_equal(rk_cluster_resize(&f->world, "a", 99, true, &op, &why), RK_NO_CAPACITY);
	assert_int_equal(op, 0);
	rk_err_clear(&why);
	assert_int_equal(rk_cluster_resize(&f->world, "b", 3, true, &op, &why), RK_NOT_FOUND);
}

static void a_rack_that_is_left_loses_its_partition(void **state)
{
	struct fixture *f = *state;

	create(f, "a", 1, false);
	assert_int_equal(f->world.site->n_nvl_partitions, 1);
	resize(f, 4, true);
	assert_int_equal(f->world.site->n_nvl_partitions, 2);
	assert_consistent(f);
	resize(f, 1, false);
	assert_int_equal(f->world.site->n_nvl_partitions, 1);
	assert_consistent(f);
}

static void the_spec_follows_the_size(void **state)
{
	struct fixture *f = *state;
	struct rk_spec *spec;
	int64_t op;

	create(f, "a", 2, false);
	resize(f, 3, true);
	const char *text = f->world.site->clusters[0].spec;
	OK(rk_spec_parse("spec", text, strlen(text), f->arena, &spec, err));
	assert_int_equal(spec->count, 3);
	/* A create with what it is now has nothing to do; with what it was, it is another one. */
	OK(rk_cluster_create(&f->world, spec, &op, err));
	spec->count = 2;
	assert_int_equal(rk_cluster_create(&f->world, spec, &op, NULL), RK_CONFLICT);
}

static void the_segment_follows_the_size(void **state)
{
	struct fixture *f = *state;
	struct rk_spec *spec = spec_of(f->arena, "a", "t", 2, 2, false);
	int64_t op;

	/* By default as many as fit. */
	spec->placement.segment = 0;
	OK(rk_cluster_create(&f->world, spec, &op, err));
	assert_int_equal(f->world.site->clusters[0].segment, 2);
	resize(f, 4, true);
	assert_int_equal(f->world.site->clusters[0].segment, 4);
	resize(f, 3, false);
	assert_int_equal(f->world.site->clusters[0].segment, 3);
	resize(f, 1, false);
	assert_int_equal(f->world.site->clusters[0].segment, 1);
	OK(rk_sim_fault_add(f->world.sim, "hv.start#1=fail", err));
	assert_int_equal(rk_cluster_resize(&f->world, "a", 2, true, &op, NULL), RK_FAILED);
	assert_int_equal(f->world.site->clusters[0].segment, 1);
}

static void a_cluster_on_trays_that_were_never_read_is_refused_and_nothing_is_written(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	int64_t op = 0, revision;

	f->world.site->gpus[1].fabric_guid = f->world.site->hcas[2].port_guid = 0;
	OK(rk_store_put_site(f->world.store, f->world.site, err));
	OK(rk_world_refresh(&f->world, err));
	revision = f->world.site->revision;
	long calls = rk_sim_calls(f->world.sim);
	assert_int_equal(rk_cluster_create(&f->world, spec_of(f->arena, "a", "t", 8, 4, false), &op, &why), RK_INVALID);
	assert_non_null(strstr(why.message, "1 GPU and 1 port identities were never read on the trays chosen"));
	assert_non_null(strstr(why.hint, "site discover"));
	OK(rk_world_refresh(&f->world, err));
	assert_int_equal(f->world.site->revision, revision);
	assert_int_equal(rk_sim_calls(f->world.sim), calls);
}

/* Placement said nothing of a rack that came to the site later. */
static void a_grown_cluster_says_why_it_is_in_a_rack_that_came_later(void **state)
{
	struct fixture *f = *state;
	RK_CLEANUP_SITE struct rk_site *before = NULL;
	char *text RK_CLEANUP_FREE = site_text(1, 4);

	OK(rk_site_parse("site", text, strlen(text), &before, err));
	rk_site_invent(before);
	OK(rk_store_put_site(f->world.store, before, err));
	OK(rk_world_refresh(&f->world, err));
	create(f, "a", 4, false);
	assert_null(strstr(f->world.site->clusters[0].reasons, "\"r2\""));
	OK(rk_store_put_site(f->world.store, f->site, err));
	OK(rk_world_refresh(&f->world, err));
	resize(f, 6, true);
	assert_non_null(strstr(f->world.site->clusters[0].reasons, "{\"rack\":\"r2\",\"verdict\":\"chosen\",\"why\":\"2 of the cluster's VMs since it was resized\"}"));
	assert_non_null(strstr(f->world.site->clusters[0].reasons, "{\"rack\":\"r1\",\"verdict\":\"chosen\",\"why\":\"4 of"));
	resize(f, 4, false);
	assert_non_null(strstr(f->world.site->clusters[0].reasons, "\"r2\",\"verdict\":\"possible\",\"why\":\"none of the cluster's VMs"));
}

/* What the larger cluster was placed by, not what was said when it was made. */
static void a_grown_cluster_has_todays_reasons_for_the_racks_it_is_not_in(void **state)
{
	struct fixture *f = *state;

	create(f, "a", 1, false);
	OK(rk_store_set_rack_cordon(f->world.store, "r2", "pump", err));
	OK(rk_world_refresh(&f->world, err));
	resize(f, 2, true);
	assert_non_null(strstr(f->world.site->clusters[0].reasons, "{\"rack\":\"r2\",\"verdict\":\"refused\",\"why\":\"cordoned: pump\"}"));
}

static void a_tray_whose_erase_failed_is_not_free(void **state)
{
	struct fixture *f = *state;

	create(f, "a", 2, false);
	const char *tray = rk_arena_strdup(f->arena, tray_of(f, "a-02"));
	OK(rk_sim_fault_add(f->world.sim, rk_arena_printf(f->arena, "hv.scrub@%s=fail:sanitize failed", tray), err));
	resize(f, 1, false);
	assert_int_equal(state_of(f, tray), RK_TRAY_FAULTY);
	assert_non_null(strstr(f->world.site->trays[rk_find_tray(f->world.site, tray)].faulty, "sanitize failed"));
}

static void two_tenants_share_nothing(void **state)
{
	struct fixture *f = *state;
	int64_t op;

	create(f, "a", 2, false);
	OK(rk_cluster_create(&f->world, spec_of(f->arena, "b", "u", 2, 1, true), &op, err));
	resize(f, 3, true);
	assert_consistent(f);
	assert_int_not_equal(f->world.site->ib_partitions[0].pkey, f->world.site->ib_partitions[1].pkey);
	OK(rk_cluster_delete(&f->world, "b", &op, err));
	assert_consistent(f);
	assert_int_equal(f->world.site->n_clusters, 1);
}

/* ---- validation ------------------------------------------------------------------------------------------------------------------------------ */

static void a_required_validation_makes_or_breaks_ready(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	int64_t op;

	OK(rk_sim_fault_add(f->world.sim, "nvlink-down@r1-t01/0/3", err));
	assert_int_equal(rk_cluster_create(&f->world, spec_of(f->arena, "a", "t", 2, 1, true), &op, &why), RK_UNHEALTHY);
	assert_int_equal(f->world.site->clusters[0].state, RK_CLUSTER_DEGRADED);
	assert_non_null(strstr(f->world.site->clusters[0].validation, "\"verdict\":\"fail\""));
	assert_consistent(f);
	OK(rk_sim_fault_add(f->world.sim, "nvlink-up@r1-t01/0/3", err));
	resize(f, 3, true);
	assert_int_equal(f->world.site->clusters[0].state, RK_CLUSTER_READY);
	assert_non_null(strstr(f->world.site->clusters[0].validation, "\"verdict\":\"pass\""));
}

/* ---- repair ---------------------------------------------------------------------------------------------------------------------------------- */

static void a_vm_moves_to_a_spare_of_its_rack(void **state)
{
	struct fixture *f = *state;

	create(f, "a", 4, true);
	const char *old = rk_arena_strdup(f->arena, tray_of(f, "a-02"));
	mark(f, rk_store_set_tray_cordon, old, "HCA swap");
	assert_int_equal(repair(f, NULL), 1);
	assert_string_not_equal(tray_of(f, "a-02"), old);
	assert_memory_equal(tray_of(f, "a-02"), old, 2);
	assert_int_equal(state_of(f, old), RK_TRAY_FAULTY);
	assert_non_null(strstr(f->world.site->trays[rk_find_tray(f->world.site, old)].faulty, "HCA swap"));
	assert_string_equal(names_of(f), "a-01 a-02 a-03 a-04");
	assert_int_equal(f->world.site->clusters[0].state, RK_CLUSTER_READY);
	assert_consistent(f);
}

static void a_degraded_cluster_is_ready_again_once_it_is_repaired(void **state)
{
	struct fixture *f = *state;
	int64_t op;

	OK(rk_sim_fault_add(f->world.sim, "nvlink-down@r1-t01/0/3", err));
	assert_int_equal(rk_cluster_create(&f->world, spec_of(f->arena, "a", "t", 2, 1, true), &op, NULL), RK_UNHEALTHY);
	assert_int_equal(f->world.site->clusters[0].state, RK_CLUSTER_DEGRADED);
	assert_int_equal(repair(f, "a-01"), 1);
	assert_int_equal(f->world.site->clusters[0].state, RK_CLUSTER_READY);
	assert_non_null(strstr(f->world.site->clusters[0].validation, "\"verdict\":\"pass\""));
	assert_consistent(f);
}

/* Both write into one history: a twin's clock, which runs ahead, must not make the later of them look older. */
static void the_gate_and_validate_tell_the_time_by_one_clock(void **state)
{
	struct fixture *f = *state;
	RK_CLEANUP_JSON struct rk_json *json = NULL;

	create(f, "a", 2, true);
	const char *text = f->world.site->clusters[0].validation;
	OK(rk_json_parse("validation", text, strlen(text), &json, err));
	const char *at = rk_jstr(rk_jget(rk_json_root(json), "at"));
	char now[32];
	assert_non_null(at);
	/* The clock of this twin stands at November 2025. */
	assert_true(strncmp(at, "2025-11-30", 10) != 0);
	assert_true(strncmp(at, rk_time_iso(rk_clock_unix_ms(NULL), now), 10) <= 0);
}

static void a_repair_is_not_repeated(void **state)
{
	struct fixture *f = *state;

	create(f, "a", 2, false);
	assert_int_equal(repair(f, NULL), 0);
	assert_int_equal(repair(f, "a-01"), 1);
	assert_int_equal(repair(f, "a-01"), 0);
	assert_int_equal(repair(f, NULL), 0);
	mark(f, rk_store_set_tray_cordon, tray_of(f, "a-01"), "again");
	assert_int_equal(repair(f, "a-01"), 1);
	assert_consistent(f);
}

/* As placement: a tray without all rails, or on another fabric, is none for the VM. */
static void a_tray_that_lacks_a_rail_is_no_spare(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	const char *vm = "a-01";
	size_t moved;
	int64_t op;

	create(f, "a", 1, false);
	int rack = f->world.site->trays[rk_find_tray(f->world.site, tray_of(f, vm))].rack, free = RK_NONE, n = 0;
	const struct rk_rack *r = &f->world.site->racks[rack];
	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++)
		if (f->world.site->trays[t].vm < 0) {
			f->world.site->trays[t].n_hcas--;
			free = t;
			n++;
		}
	assert_true(n > 1);
	assert_int_equal(rk_cluster_repair(&f->world, "a", &vm, 1, &op, &moved, &why), RK_NO_CAPACITY);
	assert_non_null(strstr(why.details[why.n_details - 1], " not rail-complete: "));
	f->world.site->trays[free].n_hcas++;
	const char *name = rk_arena_strdup(f->arena, f->world.site->trays[free].name);
	assert_int_equal(repair(f, vm), 1);
	assert_string_equal(tray_of(f, vm), name);
}

static void without_a_spare_it_says_what_is_needed(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	size_t moved;
	int64_t op;

	create(f, "a", 8, false);
	mark(f, rk_store_set_tray_cordon, "r1-t02", "HCA swap");
	assert_int_equal(rk_cluster_repair(&f->world, "a", NULL, 0, &op, &moved, &why), RK_NO_CAPACITY);
	assert_non_null(strstr(why.message, "rack r1"));
	assert_non_null(strstr(why.hint, "1 free tray would be needed in rack r1"));
	assert_int_equal(op, 0);
	assert_consistent(f);
}

static void a_dead_tray_does_not_hold_up_the_repair(void **state)
{
	struct fixture *f = *state;

	create(f, "a", 2, false);
	const char *old = rk_arena_strdup(f->arena, tray_of(f, "a-01"));
	OK(rk_sim_fault_add(f->world.sim, rk_arena_printf(f->arena, "hv.domain_get@%s=hang", old), err));
	assert_int_equal(repair(f, "a-01"), 1);
	assert_int_equal(state_of(f, old), RK_TRAY_FAULTY);
	assert_non_null(strstr(f->world.site->trays[rk_find_tray(f->world.site, old)].faulty, "not seen dead"));
	/* Its GPUs are in a partition of their own, not with the free ones. */
	assert_consistent(f);
	struct rk_nvl_live *parts;
	size_t n;
	OK(f->world.nvl->ops->list(f->world.nvl, 0, f->arena, &parts, &n, err));
	int tray = rk_find_tray(f->world.site, old), found = 0;
	for (size_t i = 0; i < n; i++)
		for (size_t g = 0; g < parts[i].n_gpus; g++)
			if (parts[i].gpus[g] == f->world.site->gpus[f->world.site->trays[tray].first_gpu].fabric_guid) {
				found++;
				assert_int_equal(rk_nvl_tray_of(f->world.site, 0, &parts[i]), tray);
				assert_int_equal(parts[i].n_gpus, 4);
			}
	assert_int_equal(found, 1);
}

static void a_repair_that_fails_leaves_the_vm_where_it_was(void **state)
{
	struct fixture *f = *state;
	size_t moved;
	int64_t op;

	create(f, "a", 2, false);
	char *before RK_CLEANUP_FREE = world_text(f);
	OK(rk_sim_fault_add(f->world.sim, "hv.start=fail", err));
	assert_int_equal(rk_cluster_repair(&f->world, "a", (const char *const[]){ "a-01" }, 1, &op, &moved, NULL), RK_FAILED);
	char *after RK_CLEANUP_FREE = world_text(f);
	assert_string_equal(after, before);
}

/* ---- what a repair may have to give back ------------------------------------------------------------------------------------------------------ */

static int64_t repair_to_confirm(struct fixture *f, const char *cluster, const char *vm)
{
	size_t moved = 0;
	int64_t op;

	f->world.confirm_ms = 3600000;
	OK(rk_cluster_repair(&f->world, cluster, &vm, 1, &op, &moved, err));
	f->world.confirm_ms = 0;
	assert_int_equal(moved, 1);
	return op;
}

static void the_uuid_that_a_repair_may_give_back_is_nobodys_meanwhile(void **state)
{
	struct fixture *f = *state;
	int64_t op;

	create(f, "a", 2, false);
	OK(rk_cluster_rename(&f->world, "a", "z", &op, err));
	op = repair_to_confirm(f, "z", "z-01");
	create(f, "a", 2, false);
	OK(rk_op_rollback(&f->world, op, err));
	assert_consistent(f);
}

/* The VM's row again, with this address. */
static void readdress(struct fixture *f, const char *name, const char *address)
{
	const struct rk_vm *vm = &f->world.site->vms[rk_find_vm(f->world.site, name)];
	struct rk_vm_row row;

	rk_vm_row_on(f->world.site, vm->tray, &row);
	row.vm.name = name;
	row.vm.uuid = vm->uuid;
	row.vm.address = address;
	row.vm.generation = vm->generation + 1;
	OK(rk_store_move_vm(f->world.store, &row.vm, err));
	OK(rk_store_set_vm_state(f->world.store, name, RK_VM_RUNNING, err));
	OK(rk_world_refresh(&f->world, err));
}

static void a_rollback_that_the_store_refuses_can_be_taken_up_again(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_op_row row;

	create(f, "a", 2, false);
	const char *old = rk_arena_strdup(f->arena, f->world.site->vms[rk_find_vm(f->world.site, "a-01")].address);
	int64_t op = repair_to_confirm(f, "a", "a-01");
	create(f, "b", 1, false);
	const char *own = rk_arena_strdup(f->arena, f->world.site->vms[rk_find_vm(f->world.site, "b-01")].address);
	readdress(f, "b-01", old);
	assert_int_equal(rk_op_rollback(&f->world, op, &why), RK_CONFLICT);
	assert_non_null(strstr(why.message, rk_arena_printf(f->arena, "address %s 22 is held by VM b-01 of cluster b", old)));
	OK(rk_store_op_get(f->world.store, op, f->arena, &row, err));
	assert_string_equal(row.state, "resumable");
	assert_non_null(strstr(why.message, row.detail));
	OK(rk_world_refresh(&f->world, err));
	readdress(f, "b-01", own);
	OK(rk_op_resume(&f->world, op, err));
	assert_consistent(f);
}

/* ---- power ------------------------------------------------------------------------------------------------------------------------------------ */

static int power(struct fixture *f, const char *verb, const char *selection, int grace_s, bool hard, struct rk_err *why)
{
	int *vms;
	size_t n;
	int64_t op;

	OK(rk_select_vms(f->world.site, selection, NULL, f->arena, &vms, &n, err));
	const struct rk_power_request q = { .verb = verb, .off = strcmp(verb, "start") != 0, .on = strcmp(verb, "stop") != 0, .vms = vms, .n = n,
					    .grace_s = grace_s, .hard = hard };
	return rk_vm_power(&f->world, &q, &op, why);
}

static enum rk_vm_state vm_state(struct fixture *f, const char *vm)
{
	return f->world.site->vms[rk_find_vm(f->world.site, vm)].state;
}

/* It sleeps while one of its rack goes, and cannot be asked at some moment of its waking. */
static void a_guest_that_woke_and_was_not_told_of_its_fellows_is_not_said_to_run(void **state)
{
	struct fixture *f = *state;
	size_t failed = 0;
	int64_t op;

	for (int nth = 1; nth <= 12; nth++) {
		OK(rk_cluster_create(&f->world, spec_of(f->arena, "a", "t", 4, 4, false), &op, err));
		OK(power(f, "stop", "a-01", 60, true, err));
		OK(rk_cluster_resize(&f->world, "a", 3, false, &op, err));
		OK(rk_sim_fault_add(f->world.sim, rk_arena_printf(f->arena, "guest.run#%d=hang", nth), err));
		failed += power(f, "start", "a-01", 60, false, NULL) != 0;
		rk_sim_fault_clear(f->world.sim);
		assert_consistent(f);
		OK(rk_cluster_delete(&f->world, "a", &op, err));
	}
	assert_true(failed > 0);
}

static void vms_are_turned_off_and_on(void **state)
{
	struct fixture *f = *state;

	create(f, "a", 3, false);
	OK(power(f, "stop", "a-[01-02]", 60, false, err));
	assert_int_equal(vm_state(f, "a-01"), RK_VM_STOPPED);
	assert_consistent(f);
	OK(power(f, "stop", "a-01", 60, false, err));
	OK(power(f, "start", "a-[01-03]", 60, false, err));
	OK(power(f, "reboot", "a-02", 60, false, err));
	assert_int_equal(vm_state(f, "a-01"), RK_VM_RUNNING);
	assert_consistent(f);
}

static void a_vm_that_is_as_wanted_is_left_alone_and_nothing_is_written(void **state)
{
	struct fixture *f = *state;
	struct rk_op_row *rows;
	size_t before, after;

	create(f, "a", 2, false);
	OK(power(f, "stop", "a-02", 30, false, err));
	OK(rk_store_op_list(f->world.store, f->arena, &rows, &before, err));
	OK(power(f, "start", "a-01", 30, false, err));
	OK(power(f, "stop", "a-02", 30, false, err));
	OK(rk_store_op_list(f->world.store, f->arena, &rows, &after, err));
	assert_int_equal(after, before);
	/* The store alone is not believed. */
	OK(f->world.hv->ops->destroy(f->world.hv, rk_find_tray(f->world.site, tray_of(f, "a-01")), "racksh-a-01", err));
	OK(power(f, "start", "a-[01-02]", 30, false, err));
	OK(rk_store_op_list(f->world.store, f->arena, &rows, &after, err));
	assert_int_equal(after, before + 1);
	OK(power(f, "reboot", "a-01", 30, false, err));
	OK(rk_store_op_list(f->world.store, f->arena, &rows, &after, err));
	assert_int_equal(after, before + 2);
	assert_consistent(f);
}

static void a_stop_whose_outcome_was_not_seen_is_unknown(void **state)
{
	struct fixture *f = *state;

	create(f, "a", 1, false);
	/* Asked whether it is there, told to shut down, and then nobody can look. */
	OK(rk_sim_fault_add(f->world.sim, "hv.domain_get#2=fail", err));
	assert_int_equal(power(f, "stop", "a-01", 30, false, NULL), RK_UNREACHABLE);
	assert_int_equal(vm_state(f, "a-01"), RK_VM_UNKNOWN);
	OK(power(f, "stop", "a-01", 30, false, err));
	assert_int_equal(vm_state(f, "a-01"), RK_VM_STOPPED);
}

static void a_guest_that_does_not_listen_is_turned_off_when_told(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;

	create(f, "a", 2, false);
	OK(rk_sim_fault_add(f->world.sim, rk_arena_printf(f->arena, "hv.shutdown@%s=lie", tray_of(f, "a-01")), err));
	/* One of two: the other is off. */
	assert_int_equal(power(f, "stop", "a-[01-02]", 30, false, &why), RK_PARTIAL);
	assert_int_equal(vm_state(f, "a-01"), RK_VM_RUNNING);
	assert_int_equal(vm_state(f, "a-02"), RK_VM_STOPPED);
	rk_err_clear(&why);
	assert_int_equal(power(f, "stop", "a-01", 30, false, &why), RK_FAILED);
	assert_non_null(strstr(why.hint, "--hard"));
	OK(power(f, "stop", "a-01", 30, true, err));
	assert_int_equal(vm_state(f, "a-01"), RK_VM_STOPPED);
	assert_consistent(f);
}

static void a_vm_that_slept_through_a_change_is_told_when_it_wakes(void **state)
{
	struct fixture *f = *state;

	create(f, "a", 2, false);
	OK(power(f, "stop", "a-01", 60, false, err));
	resize(f, 6, true);
	resize(f, 5, false);
	OK(power(f, "start", "a-01", 60, false, err));
	assert_consistent(f);
	assert_int_equal(vm_state(f, "a-01"), RK_VM_RUNNING);
}

static void a_tray_in_use_can_be_cordoned(void **state)
{
	struct fixture *f = *state;

	create(f, "a", 2, false);
	mark(f, rk_store_set_tray_cordon, "r1-t01", "to be looked at");
	assert_int_equal(state_of(f, "r1-t01"), RK_TRAY_ALLOCATED);
	resize(f, 1, false);
	resize(f, 2, true);
	assert_consistent(f);
	int64_t op;
	OK(rk_cluster_delete(&f->world, "a", &op, err));
	assert_int_equal(state_of(f, "r1-t01"), RK_TRAY_CORDONED);
}

static void drift_has_a_way_back(void **state)
{
	struct fixture *f = *state;
	struct rk_drift *rows;
	struct rk_drift_left *left;
	size_t n, n_left;
	int64_t op;

	create(f, "a", 3, false);
	OK(rk_sim_fault_add(f->world.sim, "gpu-leave@r1-t01/0,gpu-move@r2-t02/1/1", err));
	OK(f->world.hv->ops->destroy(f->world.hv, rk_find_tray(f->world.site, tray_of(f, "a-02")), "racksh-a-02", err));
	OK(f->world.ib->ops->set(f->world.ib, 0, &(struct rk_ib_wanted){ f->world.site->ib_partitions[0].pkey, "a", NULL, 0, false }, err));
	rk_clock_sleep_ms(f->clock, 10000);
	assert_int_equal(rk_drift(&f->world, NULL, f->arena, &rows, &n, NULL), RK_UNHEALTHY);
	OK(rk_drift_fix(&f->world, NULL, f->arena, &op, &left, &n_left, err));
	assert_int_equal(n_left, 0);
	OK(rk_drift(&f->world, NULL, f->arena, &rows, &n, err));
	assert_consistent(f);
	long calls = rk_sim_calls(f->world.sim);
	OK(rk_drift_fix(&f->world, "a", f->arena, &op, &left, &n_left, err));
	assert_int_equal(op, 0);
	assert_true(rk_sim_calls(f->world.sim) > calls);
}

static void a_renamed_cluster_goes_on(void **state)
{
	struct fixture *f = *state;
	int64_t op;

	create(f, "a", 3, false);
	OK(rk_cluster_rename(&f->world, "a", "z", &op, err));
	OK(rk_cluster_rename(&f->world, "a", "z", &op, err));
	assert_string_equal(names_of(f), "z-01 z-02 z-03");
	assert_consistent(f);
	assert_int_equal(rk_cluster_rename(&f->world, "z", "z-01", &op, NULL), RK_INVALID);
	assert_int_equal(rk_cluster_rename(&f->world, "y", "x", &op, NULL), RK_NOT_FOUND);
	OK(power(f, "reboot", "z-01", 60, false, err));
	OK(rk_cluster_resize(&f->world, "z", 4, true, &op, err));
	assert_consistent(f);
	size_t moved;
	char *before RK_CLEANUP_FREE = world_text(f);
	OK(rk_sim_fault_add(f->world.sim, "hv.start#1=fail", err));
	assert_int_equal(rk_cluster_repair(&f->world, "z", (const char *const[]){ "z-02" }, 1, &op, &moved, NULL), RK_FAILED);
	char *after RK_CLEANUP_FREE = world_text(f);
	assert_string_equal(after, before);
	OK(rk_cluster_repair(&f->world, "z", (const char *const[]){ "z-02" }, 1, &op, &moved, err));
	assert_consistent(f);
	OK(rk_cluster_resize(&f->world, "z", 2, false, &op, err));
	assert_consistent(f);
	/* The old name is free again. */
	create(f, "a", 2, false);
	assert_consistent(f);
	OK(rk_cluster_delete(&f->world, "z", &op, err));
	assert_consistent(f);
}

static void a_rename_that_never_was_is_not_taken_for_one_that_was_done(void **state)
{
	struct fixture *f = *state;
	int64_t op;

	create(f, "a-b", 1, false);
	OK(rk_cluster_rename(&f->world, "a-b", "x", &op, err));
	assert_int_equal(rk_cluster_rename(&f->world, "a", "x", &op, NULL), RK_NOT_FOUND);
	OK(rk_cluster_rename(&f->world, "a-b", "x", &op, err));
	assert_int_equal(op, 0);
	OK(rk_cluster_rename(&f->world, "x", "y", &op, err));
	OK(rk_cluster_rename(&f->world, "x", "y", &op, err));
	assert_int_equal(op, 0);
	assert_int_equal(rk_cluster_rename(&f->world, "a-b", "y", &op, NULL), RK_NOT_FOUND);
	assert_int_equal(rk_cluster_rename(&f->world, "a-b", "x", &op, NULL), RK_NOT_FOUND);
	/* Another one that has come to the name since. */
	OK(rk_cluster_delete(&f->world, "y", &op, err));
	create(f, "y", 1, false);
	assert_int_equal(rk_cluster_rename(&f->world, "x", "y", &op, NULL), RK_NOT_FOUND);
}

static void a_profile_that_is_not_there_is_found_before_anything_is_built(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_op_row *ops;
	int64_t op;
	size_t n;

	struct rk_spec *spec = spec_of(f->arena, "b", "u", 2, 1, false);
	spec->validation.profile = "no-such";
	assert_int_equal(rk_cluster_create(&f->world, spec, &op, &why), RK_NOT_FOUND);
	OK(rk_store_op_list(f->world.store, f->arena, &ops, &n, err));
	assert_int_equal(n, 0);
}

static void clusters_kept_apart_stay_apart_when_they_grow_and_are_renamed(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	const char *apart[] = { "aa" };
	int64_t op;

	struct rk_spec *spec = spec_of(f->arena, "b", "u", 2, 1, false);
	spec->placement.apart = apart;
	spec->placement.n_apart = 1;
	assert_int_equal(rk_cluster_create(&f->world, spec, &op, &why), RK_NOT_FOUND);
	assert_string_equal(why.message, "no cluster \"aa\" to be kept apart from");
	create(f, "a", 1, false);
	apart[0] = "a";
	OK(rk_cluster_create(&f->world, spec, &op, err));
	assert_string_equal(tray_of(f, "a-01"), "r1-t01");
	assert_string_equal(tray_of(f, "b-01"), "r2-t01");
	assert_string_equal(tray_of(f, "b-02"), "r2-t02");
	OK(rk_cluster_rename(&f->world, "a", "z", &op, err));
	OK(rk_cluster_resize(&f->world, "z", 4, true, &op, err));
	assert_string_equal(tray_of(f, "z-04"), "r1-t04");
	rk_err_clear(&why);
	assert_int_equal(rk_cluster_resize(&f->world, "z", 5, true, &op, &why), RK_NO_CAPACITY);
	assert_non_null(strstr(why.hint, "give up antiAffinity"));
	OK(rk_cluster_create(&f->world, (apart[0] = "z", spec), &op, err));
	assert_consistent(f);
}

#define WITH_TWIN(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_TWIN(a_rendering_shows_what_create_makes),
		WITH_TWIN(a_rendering_keeps_off_what_a_waiting_repair_holds),
		WITH_TWIN(a_domain_left_from_an_earlier_vm_of_the_name_is_not_taken_for_the_new_one),
		WITH_TWIN(a_disk_left_from_an_earlier_vm_of_the_name_is_not_booted_again),
		WITH_TWIN(numbers_are_never_used_again),
		WITH_TWIN(a_repeated_resize_does_nothing),
		WITH_TWIN(a_resize_in_the_wrong_direction_is_refused),
		WITH_TWIN(a_rack_that_is_left_loses_its_partition),
		WITH_TWIN(the_spec_follows_the_size),
		WITH_TWIN(the_segment_follows_the_size),
		WITH_TWIN(a_cluster_on_trays_that_were_never_read_is_refused_and_nothing_is_written),
		WITH_TWIN(a_grown_cluster_says_why_it_is_in_a_rack_that_came_later),
		WITH_TWIN(a_grown_cluster_has_todays_reasons_for_the_racks_it_is_not_in),
		WITH_TWIN(a_tray_whose_erase_failed_is_not_free),
		WITH_TWIN(two_tenants_share_nothing),
		WITH_TWIN(a_required_validation_makes_or_breaks_ready),
		WITH_TWIN(a_vm_moves_to_a_spare_of_its_rack),
		WITH_TWIN(a_degraded_cluster_is_ready_again_once_it_is_repaired),
		WITH_TWIN(the_gate_and_validate_tell_the_time_by_one_clock),
		WITH_TWIN(a_repair_is_not_repeated),
		WITH_TWIN(a_tray_that_lacks_a_rail_is_no_spare),
		WITH_TWIN(without_a_spare_it_says_what_is_needed),
		WITH_TWIN(a_dead_tray_does_not_hold_up_the_repair),
		WITH_TWIN(a_repair_that_fails_leaves_the_vm_where_it_was),
		WITH_TWIN(the_uuid_that_a_repair_may_give_back_is_nobodys_meanwhile),
		WITH_TWIN(a_guest_that_woke_and_was_not_told_of_its_fellows_is_not_said_to_run),
		WITH_TWIN(a_rollback_that_the_store_refuses_can_be_taken_up_again),
		WITH_TWIN(vms_are_turned_off_and_on),
		WITH_TWIN(a_vm_that_is_as_wanted_is_left_alone_and_nothing_is_written),
		WITH_TWIN(a_stop_whose_outcome_was_not_seen_is_unknown),
		WITH_TWIN(a_guest_that_does_not_listen_is_turned_off_when_told),
		WITH_TWIN(a_vm_that_slept_through_a_change_is_told_when_it_wakes),
		WITH_TWIN(a_tray_in_use_can_be_cordoned),
		WITH_TWIN(drift_has_a_way_back),
		WITH_TWIN(a_renamed_cluster_goes_on),
		WITH_TWIN(a_rename_that_never_was_is_not_taken_for_one_that_was_done),
		WITH_TWIN(a_profile_that_is_not_there_is_found_before_anything_is_built),
		WITH_TWIN(clusters_kept_apart_stay_apart_when_they_grow_and_are_renamed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
