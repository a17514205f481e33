#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/contract/ops_twin.h"

/* drift --fix takes away what racksh made and no cluster has any more, and leaves alone, by name, what somebody else made. */

struct left {
	struct rk_drift_left *items;
	size_t n;
};

static int64_t fix(struct fixture *f, struct left *left)
{
	int64_t op;

	rk_clock_sleep_ms(f->clock, 10000);
	OK(rk_drift_fix(&f->world, NULL, f->arena, &op, &left->items, &left->n, err));
	return op;
}

static int drift(struct fixture *f, size_t *ret_drifted)
{
	struct rk_drift *rows;
	size_t n;
	int rc = rk_drift(&f->world, NULL, f->arena, &rows, &n, NULL);

	*ret_drifted = 0;
	for (size_t i = 0; i < n; i++)
		*ret_drifted += strcmp(rows[i].status, "drifted") == 0;
	return rc;
}

static bool names(const struct left *left, const char *object, const char *why)
{
	for (size_t i = 0; i < left->n; i++)
		if (strcmp(left->items[i].object, object) == 0 && strstr(left->items[i].why, why))
			return true;
	return false;
}

static struct rk_hv_domain domain_on(struct fixture *f, const char *tray, const char *name)
{
	struct rk_hv_domain d;

	OK(f->world.hv->ops->domain_get(f->world.hv, rk_find_tray(f->world.site, tray), name, f->arena, &d, err));
	return d;
}

/* The same domain as another one's, on another tray, under another name. */
static void plant_domain(struct fixture *f, const char *tray, const char *name, bool ours)
{
	struct rk_str xml RK_CLEANUP_STR = RK_STR_INIT;
	const char *kept, *from = domain_on(f, "r1-t01", "racksh-a-01").xml, *at = strstr(from, "<name>racksh-a-01</name>"), *uuid = strstr(from, "<uuid>");
	int where = rk_find_tray(f->world.site, tray);

	assert_non_null(at);
	rk_str_addn(&xml, from, (size_t)(at - from));
	rk_str_addf(&xml, "<name>%s</name><uuid>11111111-2222-4333-8444-%012x</uuid>%s", name, where + 1, strstr(uuid, "</uuid>") + strlen("</uuid>"));
	for (char *c = xml.text; !ours && (c = strstr(c, "racksh:")); c++)
		memcpy(c, "others:", 7);
	for (char *c = xml.text; !ours && (c = strstr(c, "xmlns:racksh")); c++)
		memcpy(c, "xmlns:others", 12);
	for (char *c = xml.text; !ours && (c = strstr(c, "urn:racksh")); c++)
		*c = 'x';
	OK(f->world.hv->ops->define(f->world.hv, where, rk_str_text(&xml), f->arena, &kept, err));
}

/* ---- what racksh made ------------------------------------------------------------------------------------------------------------------------ */

/* A cluster that the store has forgotten, with everything it had. */
static void forget_cluster(struct fixture *f, const char *name)
{
	OK(rk_store_begin(f->world.store, -1, err));
	OK(rk_store_remove_cluster(f->world.store, name, err));
	OK(rk_store_commit(f->world.store, err));
	OK(rk_world_refresh(&f->world, err));
}

static void a_cluster_that_the_store_forgot_is_taken_away(void **state)
{
	struct fixture *f = *state;
	struct left left;
	size_t drifted;
	int64_t op;

	OK(rk_cluster_create(&f->world, spec_of(f->arena, "b", "u", 2, 1, false), &op, err));
	forget_cluster(f, "b");
	assert_int_equal(drift(f, &drifted), RK_UNHEALTHY);
	assert_int_equal(drifted, 2 + 2 + 1);
	assert_true(fix(f, &left) > 0);
	assert_int_equal(left.n, 0);
	OK(rk_world_refresh(&f->world, err));
	assert_int_equal(drift(f, &drifted), 0);
	assert_int_equal(f->world.site->n_vms, 2);
	for (size_t t = 0; t < f->world.site->n_trays; t++)
		assert_null(f->world.site->trays[t].faulty);
	assert_consistent(f);
	assert_int_equal(fix(f, &left), 0);
}

static void a_tray_that_cannot_be_erased_is_not_free_after_its_stray_went(void **state)
{
	struct fixture *f = *state;
	struct rk_drift_left *left;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	size_t n;
	int64_t op;

	plant_domain(f, "r1-t03", "racksh-old-01", true);
	OK(rk_sim_fault_add(f->world.sim, "hv.scrub@r1-t03=fail", err));
	assert_true(rk_drift_fix(&f->world, NULL, f->arena, &op, &left, &n, &why) != 0);
	assert_false(domain_on(f, "r1-t03", "racksh-old-01").exists);
	assert_int_equal(rk_tray_state(f->world.site, rk_find_tray(f->world.site, "r1-t03")), RK_TRAY_FAULTY);
}

static void a_stray_beside_a_vm_goes_and_the_vm_keeps_its_volumes(void **state)
{
	struct fixture *f = *state;
	struct left left;

	plant_domain(f, "r1-t01", "racksh-a-01-copy", true);
	assert_true(fix(f, &left) > 0);
	assert_false(domain_on(f, "r1-t01", "racksh-a-01-copy").exists);
	assert_true(domain_on(f, "r1-t01", "racksh-a-01").running);
	assert_consistent(f);
}

/* Other hosts tell by its leases that an operation lives; removing partitions takes none of a cluster or a tray. */
static bool held_itself;

static void look_for_lease(void *ctx, const char *text)
{
	struct fixture *f = ctx;
	struct rk_op_row *ops;
	size_t n;

	if (!strstr(text, "ib.remove"))
		return;
	OK(rk_store_op_list(f->world.store, f->arena, &ops, &n, err));
	OK(rk_store_lease_held(f->world.store, rk_arena_printf(f->arena, "operation:%" PRId64, ops[0].id), &held_itself, err));
}

static void it_holds_a_lease_whatever_it_removes(void **state)
{
	struct fixture *f = *state;
	struct left left;
	int64_t op;

	OK(rk_cluster_create(&f->world, spec_of(f->arena, "b", "u", 1, 1, false), &op, err));
	forget_cluster(f, "b");
	f->world.progress = look_for_lease;
	f->world.progress_ctx = f;
	assert_true(fix(f, &left) > 0);
	assert_true(held_itself);
}

/* ---- what somebody else made ------------------------------------------------------------------------------------------------------------------- */

static void partitions_that_the_journal_did_not_make_are_left_alone(void **state)
{
	struct fixture *f = *state;
	struct left left;
	size_t drifted;
	int id;

	OK(f->world.nvl->ops->create(f->world.nvl, 0, 77, "theirs", "full_bandwidth", 18, &id, err));
	assert_int_equal(fix(f, &left), 0);
	assert_int_equal(left.n, 1);
	assert_true(names(&left, "r1/77", "\"theirs\" was not made by this racksh"));
	assert_int_equal(drift(f, &drifted), RK_UNHEALTHY);
	assert_int_equal(drifted, 1);
}

static void a_domain_of_others_under_our_name_is_left_alone(void **state)
{
	struct fixture *f = *state;
	struct left left;
	int tray = rk_find_tray(f->world.site, "r1-t01");

	OK(f->world.hv->ops->destroy(f->world.hv, tray, "racksh-a-01", err));
	OK(f->world.hv->ops->undefine(f->world.hv, tray, "racksh-a-01", err));
	const char *kept, *xml = "<domain type='kvm'><name>racksh-a-01</name><uuid>11111111-2222-4333-8444-555555555555</uuid></domain>";
	OK(f->world.hv->ops->define(f->world.hv, tray, xml, f->arena, &kept, err));
	assert_int_equal(fix(f, &left), 0);
	assert_int_equal(left.n, 1);
	assert_true(names(&left, "a-01", "domain \"racksh-a-01\" on tray r1-t01 is not racksh's"));
	assert_true(domain_on(f, "r1-t01", "racksh-a-01").exists);
}

static void a_stray_that_a_cluster_took_meanwhile_is_not_removed(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	int64_t op = 0;
	struct rk_plan *plan = rk_plan_new("late");

	rk_plan_add(plan, "nvl.remove", "r1/1", "nvlink:r1", "{\"rack\":\"r1\",\"id\":1,\"name\":\"a\",\"home\":[]}", NULL, 0);
	rk_plan_add(plan, "ib.remove", "ib0/0x0100", "ib:ib0", "{\"fabric\":\"ib0\",\"pkey\":256}", NULL, 0);
	const struct rk_change change = { .type = "drift.fix", .purpose = "late", .plan = plan, .params = "{\"type\":\"drift.fix\"}" };
	assert_int_equal(rk_change_run(&f->world, &change, &op, &why), RK_CONFLICT);
	assert_non_null(strstr(why.message, "belongs to a cluster now"));
	rk_plan_free(plan);
	assert_consistent(f);
}

static void a_port_without_a_link_is_no_matter_of_configuration(void **state)
{
	struct fixture *f = *state;
	struct left left;

	OK(rk_sim_fault_add(f->world.sim, "link-down@r1-t01/2", err));
	assert_int_equal(fix(f, &left), 0);
	assert_int_equal(left.n, 1);
	assert_true(names(&left, "ib0/0x0100", "a port without a link (r1-t01/2) gets its key when it is up again"));
}

/* One cluster that is worked on is no reason to leave the others. */
static void a_cluster_that_somebody_works_on_is_left_and_named_and_the_rest_is_fixed(void **state)
{
	struct fixture *f = *state;
	struct left left;
	int64_t op, power;

	OK(rk_cluster_create(&f->world, spec_of(f->arena, "b", "u", 1, 1, false), &op, err));
	OK(f->world.hv->ops->destroy(f->world.hv, rk_find_tray(f->world.site, "r1-t01"), "racksh-a-01", err));
	OK(f->world.hv->ops->destroy(f->world.hv, f->world.site->vms[rk_find_vm(f->world.site, "b-01")].tray, "racksh-b-01", err));
	OK(rk_store_op_add(f->world.store, "vm reboot a-02", "{\"type\":\"vm.power\"}", &power, err));
	OK(rk_store_lease_take(f->world.store, "cluster:a", power, "reboot", err));
	assert_true(fix(f, &left) > 0);
	assert_int_equal(left.n, 1);
	assert_true(names(&left, "a-01", "an operation holds cluster a: racksh op list"));
	assert_false(domain_on(f, "r1-t01", "racksh-a-01").running);
	OK(rk_store_lease_drop(f->world.store, power, err));
	OK(rk_store_op_set(f->world.store, power, "done", NULL, err));
	assert_true(fix(f, &left) > 0);
	assert_int_equal(left.n, 0);
	assert_consistent(f);
}

/* ---- nothing known ------------------------------------------------------------------------------------------------------------------------------ */

static void an_empty_store_says_nothing(void **state)
{
	struct rk_world world = { .jobs = 1 };
	const struct rk_actor me = { "tester", "here", 1 };
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_drift *rows;
	size_t n;

	(void)state;
	OK(rk_store_open("mem:", RK_STORE_WRITE, &me, &world.store, err));
	OK(rk_store_snapshot(world.store, &world.site, err));
	world.env.site = world.site;
	OK(rk_world_drivers(&world, err));
	assert_int_equal(rk_drift(&world, NULL, arena, &rows, &n, &why), RK_UNREACHABLE);
	assert_non_null(strstr(why.message, "the store is empty"));
	rk_world_close(&world);
}

#define WITH_TWIN(test) cmocka_unit_test_setup_teardown(test, begin_world_with_a, end_world)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_TWIN(a_cluster_that_the_store_forgot_is_taken_away),
		WITH_TWIN(a_tray_that_cannot_be_erased_is_not_free_after_its_stray_went),
		WITH_TWIN(it_holds_a_lease_whatever_it_removes),
		WITH_TWIN(a_stray_beside_a_vm_goes_and_the_vm_keeps_its_volumes),
		WITH_TWIN(partitions_that_the_journal_did_not_make_are_left_alone),
		WITH_TWIN(a_domain_of_others_under_our_name_is_left_alone),
		WITH_TWIN(a_stray_that_a_cluster_took_meanwhile_is_not_removed),
		WITH_TWIN(a_port_without_a_link_is_no_matter_of_configuration),
		WITH_TWIN(a_cluster_that_somebody_works_on_is_left_and_named_and_the_rest_is_fixed),
		cmocka_unit_test(an_empty_store_says_nothing),
	};

	keep_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
