#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "provision/isolation.h"
#include "provision/service.h"
#include "tests/contract/ops_twin.h"

/* Shared InfiniBand services: who has the key, whatever becomes of the clusters, and who is not to have it. */

static const uint64_t servers[] = { 0x5000e60300ff0001, 0x5000e60300ff0002 };

static int setup(void **state)
{
	struct fixture *f = rk_xcalloc(1, sizeof(*f));

	open_world(f, NULL, 2, 4);
	*state = f;
	return 0;
}

static struct rk_service_wish wish_of(const char *name, const char *const *tenants, size_t n)
{
	return (struct rk_service_wish){ .name = name, .servers = servers, .n_servers = 2, .tenants = tenants, .n_tenants = n };
}

static void make(struct fixture *f, const char *name, const char *const *tenants, size_t n)
{
	const struct rk_service_wish wish = wish_of(name, tenants, n);
	struct rk_ib_service service;
	int64_t op;

	OK(rk_service_check(&f->world, &wish, f->arena, &service, err));
	OK(rk_service_create(&f->world, &service, &op, err));
}

static void create(struct fixture *f, const char *name, const char *tenant, int count)
{
	int64_t op;

	OK(rk_cluster_create(&f->world, spec_of(f->arena, name, tenant, count, 1, false), &op, err));
}

static const struct rk_ib_live *live(struct fixture *f, unsigned pkey)
{
	struct rk_ib_live *parts;
	size_t n;

	OK(f->world.ib->ops->list(f->world.ib, 0, f->arena, &parts, &n, err));
	for (size_t i = 0; i < n; i++)
		if (parts[i].pkey == pkey)
			return &parts[i];
	return NULL;
}

/* Members of the service's partition: the servers and so many ports of tenants. */
static void assert_members(struct fixture *f, size_t ports)
{
	const struct rk_ib_live *part = live(f, f->world.site->ib_services[0].pkey);
	size_t full = 0;

	assert_non_null(part);
	assert_int_equal(part->n_members, 2 + ports);
	for (size_t i = 0; i < part->n_members; i++)
		full += part->members[i].full;
	assert_int_equal(full, 2);
}

static void assert_all_is_well(struct fixture *f)
{
	struct rk_isolation isolation;
	struct rk_plane_check *checks;
	struct rk_drift *rows;
	size_t n;

	OK(rk_ib_verify(&f->world, f->arena, &checks, &n, err));
	OK(rk_isolation_verify(&f->world, true, f->arena, &isolation, err));
	assert_int_equal(isolation.n_violations, 0);
	OK(rk_drift(&f->world, NULL, f->arena, &rows, &n, err));
}

/* Somebody else changes the service's partition: one more member. */
static void put_in(struct fixture *f, uint64_t guid, bool full)
{
	const struct rk_ib_service *s = &f->world.site->ib_services[0];
	const struct rk_ib_live *part = live(f, s->pkey);
	struct rk_ib_member *members = rk_arena_array(f->arena, part->n_members + 1, sizeof(*members));
	size_t n = 0;

	for (size_t i = 0; i < part->n_members; i++)
		if (part->members[i].guid != guid)
			members[n++] = part->members[i];
	members[n++] = (struct rk_ib_member){ guid, full };
	OK(f->world.ib->ops->set(f->world.ib, 0, &(struct rk_ib_wanted){ s->pkey, s->name, members, n, true }, err));
	rk_clock_sleep_ms(f->clock, 10000);
}

static uint64_t port_on(struct fixture *f, const char *tray)
{
	return f->world.site->hcas[f->world.site->trays[rk_find_tray(f->world.site, tray)].first_hca].port_guid;
}

static uint64_t port_of(struct fixture *f, const char *vm)
{
	return port_on(f, f->world.site->trays[f->world.site->vms[rk_find_vm(f->world.site, vm)].tray].name);
}

/* ---- coming and going --------------------------------------------------------------------------------------------------------------------- */

static void tenants_come_and_go_with_their_clusters(void **state)
{
	struct fixture *f = *state;
	int64_t op;

	create(f, "a", "t", 2);
	make(f, "storage", NULL, 0);
	assert_members(f, 8);
	create(f, "b", "u", 2);
	assert_members(f, 16);
	assert_all_is_well(f);
	OK(rk_cluster_resize(&f->world, "a", 3, true, &op, err));
	assert_members(f, 20);
	assert_all_is_well(f);
	OK(rk_cluster_resize(&f->world, "a", 1, false, &op, err));
	assert_members(f, 12);
	OK(rk_cluster_delete(&f->world, "b", &op, err));
	assert_members(f, 4);
	assert_all_is_well(f);
	OK(rk_service_delete(&f->world, &f->world.site->ib_services[0], &op, err));
	assert_int_equal(f->world.site->n_ib_services, 0);
	assert_consistent(f);
	/* Its key is free again. */
	make(f, "scratch", NULL, 0);
	assert_members(f, 4);
	assert_all_is_well(f);
}

static void a_vm_that_moves_takes_the_key_along(void **state)
{
	struct fixture *f = *state;
	size_t moved;
	int64_t op;

	make(f, "storage", NULL, 0);
	create(f, "a", "t", 3);
	uint64_t old = port_of(f, "a-02");
	OK(rk_store_set_tray_cordon(f->world.store, f->world.site->trays[f->world.site->vms[rk_find_vm(f->world.site, "a-02")].tray].name, "fan", err));
	OK(rk_world_refresh(&f->world, err));
	OK(rk_cluster_repair(&f->world, "a", NULL, 0, &op, &moved, err));
	assert_int_equal(moved, 1);
	assert_members(f, 12);
	const struct rk_ib_live *part = live(f, f->world.site->ib_services[0].pkey);
	for (size_t i = 0; i < part->n_members; i++)
		assert_true(part->members[i].guid != old);
	assert_all_is_well(f);
}

/* Another one took the key that was free, and a third cordoned a tray. */
static void a_store_that_changed_between_plan_and_commit_is_planned_on_again(void **state)
{
	static const uint64_t other[] = { 0x47 };
	const struct rk_new_service theirs = { "theirs", "ib0", 0x100, other, 1, NULL, 0 };
	const struct rk_service_wish wish = wish_of("storage", NULL, 0);
	struct fixture *f = *state;
	struct rk_ib_service service;
	int64_t op;

	OK(rk_store_set_tray_cordon(f->world.store, "r1-t01", "fan", err));
	OK(rk_store_add_service(f->world.store, &theirs, err));
	OK(rk_service_create_wish(&f->world, &wish, f->arena, &service, &op, err));
	assert_int_equal(service.pkey, 0x101);
	assert_int_equal(f->world.site->n_ib_services, 2);
	assert_non_null(live(f, 0x101));
}

static void a_change_that_is_taken_back_leaves_nobody_in_it(void **state)
{
	struct fixture *f = *state;
	int64_t op;

	make(f, "storage", NULL, 0);
	create(f, "a", "t", 2);
	OK(rk_sim_fault_add(f->world.sim, "hv.start#1=fail", err));
	assert_int_not_equal(rk_cluster_create(&f->world, spec_of(f->arena, "b", "u", 2, 1, false), &op, NULL), 0);
	OK(rk_world_refresh(&f->world, err));
	assert_members(f, 8);
	assert_all_is_well(f);
	/* The service itself. */
	const struct rk_service_wish wish = wish_of("scratch", NULL, 0);
	struct rk_ib_service service;
	OK(rk_service_check(&f->world, &wish, f->arena, &service, err));
	OK(rk_sim_fault_add(f->world.sim, "ib.set#1=fail", err));
	assert_int_not_equal(rk_service_create(&f->world, &service, &op, NULL), 0);
	OK(rk_world_refresh(&f->world, err));
	assert_int_equal(f->world.site->n_ib_services, 1);
	assert_null(live(f, service.pkey));
	assert_all_is_well(f);
}

/* ---- late ------------------------------------------------------------------------------------------------------------------------------------ */

static int to_nobody(void *ctx, int64_t op, struct rk_err *err_out)
{
	(void)ctx;
	(void)op;
	(void)err_out;
	return 0;
}

/* From here on operations are written down, and who was to carry them out died. */
static void nobody_carries_out(struct fixture *f, bool nobody)
{
	f->world.detach = to_nobody;
	f->world.wait = !nobody;
}

static int64_t make_late(struct fixture *f)
{
	const struct rk_service_wish wish = wish_of("storage", NULL, 0);
	struct rk_ib_service service;
	int64_t op;

	nobody_carries_out(f, true);
	OK(rk_service_check(&f->world, &wish, f->arena, &service, err));
	OK(rk_service_create(&f->world, &service, &op, err));
	nobody_carries_out(f, false);
	return op;
}

static void assert_waits_for_it(struct fixture *f, const char *name)
{
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	int64_t op;

	assert_int_equal(rk_cluster_create(&f->world, spec_of(f->arena, name, "u", 1, 1, false), &op, &why), RK_CONFLICT);
	assert_non_null(strstr(why.message, "service \"storage\" is held by an operation"));
	OK(rk_world_refresh(&f->world, err));
	assert_int_equal(rk_find_cluster(f->world.site, name), RK_NONE);
}

/* Whoever has a VM then has the key, and nobody else: a cluster went meanwhile. */
static void a_service_that_is_made_late_is_of_those_that_are_there_then(void **state)
{
	struct fixture *f = *state;
	int64_t op, ignored;

	create(f, "a", "t", 2);
	create(f, "c", "u", 1);
	op = make_late(f);
	assert_waits_for_it(f, "b");
	OK(rk_cluster_delete(&f->world, "a", &ignored, err));
	OK(rk_op_resume(&f->world, op, err));
	OK(rk_world_refresh(&f->world, err));
	assert_members(f, 4);
	create(f, "b", "u", 1);
	assert_members(f, 8);
	assert_all_is_well(f);
}

static void a_service_that_is_given_up_late_leaves_nobody_in_it(void **state)
{
	struct fixture *f = *state;
	int64_t op = make_late(f);

	assert_waits_for_it(f, "b");
	OK(rk_op_rollback(&f->world, op, err));
	OK(rk_world_refresh(&f->world, err));
	assert_int_equal(f->world.site->n_ib_services, 0);
	create(f, "b", "u", 1);
	assert_all_is_well(f);
}

/* Its key may be another cluster's by the time one that was planned with the service is made. */
static void a_service_that_is_deleted_is_given_to_no_new_cluster(void **state)
{
	struct fixture *f = *state;
	int64_t op;

	make(f, "storage", NULL, 0);
	unsigned pkey = f->world.site->ib_services[0].pkey;
	nobody_carries_out(f, true);
	OK(rk_service_delete(&f->world, &f->world.site->ib_services[0], &op, err));
	nobody_carries_out(f, false);
	assert_waits_for_it(f, "b");
	OK(rk_op_resume(&f->world, op, err));
	OK(rk_world_refresh(&f->world, err));
	create(f, "b", "u", 1);
	assert_int_equal(f->world.site->ib_partitions[0].pkey, pkey);
	assert_int_equal(live(f, pkey)->n_members, 4);
	assert_all_is_well(f);
}

/* ---- isolation ------------------------------------------------------------------------------------------------------------------------------ */

static const struct {
	const char *vm, *tray;     /* whose port is put in; NULL both: a stranger's */
	bool full;
	const char *says, *tenant;
} breaches[] = {
	{ "a-01", NULL, true, "as a full member and reaches every tenant", "t" },
	{ "b-01", NULL, false, "of a tenant that does not have it", "u" },
	{ "b-01", NULL, true, "as a full member and reaches every tenant", "u" },
	{ NULL, "r2-t04", false, "which no tenant has", NULL },
	{ NULL, "r2-t04", true, "as a full member and reaches every tenant", NULL },
	{ NULL, NULL, true, "0x0000000000004711 is given by the configuration key ib0/0x0100 of service storage as a full member", NULL },
};

static void who_is_not_to_have_it_is_an_alarm_and_drift_puts_it_right(void **state)
{
	static const char *const only[] = { "t" };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(breaches); i++) {
		struct fixture *f = rk_xcalloc(1, sizeof(*f));
		struct rk_isolation isolation;
		struct rk_drift_left *left;
		struct rk_plane_check *checks;
		size_t n_left, n;
		int64_t op;
		open_world(f, NULL, 2, 4);
		make(f, "storage", only, 1);
		create(f, "a", "t", 2);
		create(f, "b", "u", 2);
		assert_members(f, 8);
		assert_all_is_well(f);
		put_in(f, breaches[i].vm ? port_of(f, breaches[i].vm) : breaches[i].tray ? port_on(f, breaches[i].tray) : 0x4711, breaches[i].full);
		assert_int_equal(rk_isolation_verify(&f->world, true, f->arena, &isolation, NULL), RK_UNHEALTHY);
		if (!isolation.n_violations || !strstr(isolation.violations[0].what, breaches[i].says) || !rk_streq(isolation.violations[0].tenant_a, breaches[i].tenant))
			fail_msg("%zu: %zu: %s", i, isolation.n_violations, isolation.n_violations ? isolation.violations[0].what : "none");
		assert_int_equal(rk_ib_verify(&f->world, f->arena, &checks, &n, NULL), RK_UNHEALTHY);
		OK(rk_drift_fix(&f->world, NULL, f->arena, &op, &left, &n_left, err));
		rk_clock_sleep_ms(f->clock, 10000);
		assert_members(f, 8);
		assert_all_is_well(f);
		end_world((void **)&f);
	}
}

static void a_service_that_is_lost_is_put_back(void **state)
{
	struct fixture *f = *state;
	struct rk_drift_left *left;
	struct rk_drift *rows;
	size_t n, n_left;
	int64_t op;

	create(f, "a", "t", 2);
	make(f, "storage", NULL, 0);
	OK(f->world.ib->ops->set(f->world.ib, 0, &(struct rk_ib_wanted){ f->world.site->ib_services[0].pkey, "storage", NULL, 0, true }, err));
	rk_clock_sleep_ms(f->clock, 10000);
	assert_int_equal(rk_drift(&f->world, NULL, f->arena, &rows, &n, NULL), RK_UNHEALTHY);
	OK(rk_drift_fix(&f->world, NULL, f->arena, &op, &left, &n_left, err));
	assert_int_equal(n_left, 0);
	assert_members(f, 8);
	assert_all_is_well(f);
}

/* ---- refusals ------------------------------------------------------------------------------------------------------------------------------- */

static void what_cannot_be_is_refused_before_anything_is_done(void **state)
{
	static const char *const nobody[] = { "nobody" };
	struct fixture *f = *state;
	const uint64_t zero = 0;

	create(f, "a", "t", 2);
	make(f, "storage", NULL, 0);
	const uint64_t inside = port_of(f, "a-01"), empty = port_on(f, "r2-t04"), same[] = { 0x47, 0x48, 0x47 };
	const char *const twice[] = { "t", "t" };
	const struct {
		struct rk_service_wish wish;
		int class;
		const char *says;
	} rows[] = {
		{ { "storage", NULL, 0, servers, 2, NULL, 0 }, RK_CONFLICT, "there is a service \"storage\" already" },
		{ { "a", NULL, 0, servers, 2, NULL, 0 }, RK_CONFLICT, "there is a cluster \"a\"" },
		{ { "x", "ib7", 0, servers, 2, NULL, 0 }, RK_NOT_FOUND, "no InfiniBand fabric \"ib7\"" },
		{ { "x", NULL, 0, NULL, 0, NULL, 0 }, RK_INVALID, "a service needs servers" },
		{ { "x", NULL, 0, &zero, 1, NULL, 0 }, RK_INVALID, "0 is no port GUID" },
		{ { "x", NULL, 0, &inside, 1, NULL, 0 }, RK_CONFLICT, "is that of VM a-01" },
		{ { "x", NULL, 0, &empty, 1, NULL, 0 }, RK_CONFLICT, "is that of tray r2-t04" },
		{ { "x", NULL, 0, same, 3, NULL, 0 }, RK_INVALID, "server 0x0000000000000047 is named twice" },
		{ { "x", NULL, 0, servers, 2, twice, 2 }, RK_INVALID, "tenant \"t\" is named twice" },
		{ { "x", NULL, 0x100, servers, 2, NULL, 0 }, RK_CONFLICT, "is that of cluster \"a\"" },
		{ { "x", NULL, 0x101, servers, 2, NULL, 0 }, RK_CONFLICT, "is that of service \"storage\"" },
		{ { "x", NULL, 0x300, servers, 2, NULL, 0 }, RK_INVALID, "is not of the pool 0x0100-0x01ff" },
		{ { "x", NULL, 0, servers, 2, nobody, 1 }, RK_NOT_FOUND, "no tenant \"nobody\"" },
	};
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
		struct rk_ib_service ignored;
		int rc = rk_service_check(&f->world, &rows[i].wish, f->arena, &ignored, &err);
		if (rc != rows[i].class || !strstr(err.message, rows[i].says))
			fail_msg("%zu: %d: %s", i, rc, err.message ? err.message : "no error");
	}
}

/* An operation that was planned without the service would leave its ports in it. */
static void a_cluster_that_is_being_changed_is_waited_for(void **state)
{
	struct rk_err held RK_CLEANUP_ERR = RK_ERR_INIT;
	const struct rk_service_wish wish = wish_of("storage", NULL, 0);
	struct fixture *f = *state;
	struct rk_ib_service ignored;
	int64_t op;

	create(f, "a", "t", 2);
	OK(rk_sim_fault_add(f->world.sim, "hv.undefine=fail", err));
	assert_int_not_equal(rk_cluster_delete(&f->world, "a", &op, NULL), 0);
	OK(rk_world_refresh(&f->world, err));
	assert_int_equal(rk_service_check(&f->world, &wish, f->arena, &ignored, &held), RK_CONFLICT);
	assert_non_null(strstr(held.message, "cluster \"a\""));
}

static void the_store_keeps_keys_and_tenants_of_services(void **state)
{
	static const char *const only[] = { "t" };
	struct rk_err tenant RK_CLEANUP_ERR = RK_ERR_INIT, key RK_CLEANUP_ERR = RK_ERR_INIT;
	struct fixture *f = *state;
	uint16_t next;

	make(f, "storage", only, 1);
	assert_int_equal(rk_store_remove_tenant(f->world.store, "t", &tenant), RK_CONFLICT);
	assert_non_null(strstr(tenant.message, "tenant \"t\""));
	OK(rk_store_remove_tenant(f->world.store, "u", err));
	create(f, "a", "t", 1);
	assert_int_not_equal(f->world.site->ib_partitions[0].pkey, f->world.site->ib_services[0].pkey);
	assert_int_equal(rk_store_add_ib_partition(f->world.store, "ib0", f->world.site->ib_services[0].pkey, "a", "a", true, &key), RK_CONFLICT);
	assert_non_null(strstr(key.message, "is that of service \"storage\""));
	OK(rk_store_free_pkey(f->world.site, 0, &next, err));
	assert_int_equal(next, 0x102);
}

static void assert_site_refused(struct fixture *f, const struct rk_site *site, const char *says)
{
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;

	assert_int_equal(rk_store_put_site(f->world.store, site, &why), RK_CONFLICT);
	if (!strstr(why.message, says))
		fail_msg("%s", why.message);
}

static void an_inventory_neither_takes_a_server_nor_leaves_out_a_tenant(void **state)
{
	static const char *const only[] = { "t" };
	struct fixture *f = *state;
	struct rk_site *ports, *tenants;

	make(f, "storage", only, 1);
	OK(rk_store_snapshot(f->world.store, &ports, err));
	int tray = rk_find_tray(ports, "r2-t04");
	ports->hcas[ports->trays[tray].first_hca].port_guid = servers[1];
	rk_site_seal(ports);
	assert_site_refused(f, ports, "port 0x5000e60300ff0002 of tray r2-t04 is a server of service storage");
	rk_site_free(ports);
	OK(rk_store_snapshot(f->world.store, &tenants, err));
	tenants->tenants[rk_find_tenant(tenants, "t")].name = "v";
	rk_site_seal(tenants);
	assert_site_refused(f, tenants, "tenant \"t\" has service storage");
	rk_site_free(tenants);
}

static void a_cluster_does_not_take_the_name_of_a_service(void **state)
{
	struct rk_err made RK_CLEANUP_ERR = RK_ERR_INIT, renamed RK_CLEANUP_ERR = RK_ERR_INIT;
	struct fixture *f = *state;
	int64_t op;

	create(f, "a", "t", 1);
	make(f, "storage", NULL, 0);
	assert_int_equal(rk_cluster_create(&f->world, spec_of(f->arena, "storage", "t", 1, 1, false), &op, &made), RK_CONFLICT);
	assert_non_null(strstr(made.message, "there is a service \"storage\""));
	assert_int_equal(rk_cluster_rename(&f->world, "a", "storage", &op, &renamed), RK_CONFLICT);
	assert_non_null(strstr(renamed.message, "there is a service \"storage\""));
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, end_world)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_WORLD(tenants_come_and_go_with_their_clusters),
		WITH_WORLD(a_vm_that_moves_takes_the_key_along),
		WITH_WORLD(a_store_that_changed_between_plan_and_commit_is_planned_on_again),
		WITH_WORLD(a_change_that_is_taken_back_leaves_nobody_in_it),
		WITH_WORLD(a_service_that_is_made_late_is_of_those_that_are_there_then),
		WITH_WORLD(a_service_that_is_given_up_late_leaves_nobody_in_it),
		WITH_WORLD(a_service_that_is_deleted_is_given_to_no_new_cluster),
		cmocka_unit_test(who_is_not_to_have_it_is_an_alarm_and_drift_puts_it_right),
		WITH_WORLD(a_service_that_is_lost_is_put_back),
		WITH_WORLD(what_cannot_be_is_refused_before_anything_is_done),
		WITH_WORLD(a_cluster_that_is_being_changed_is_waited_for),
		WITH_WORLD(the_store_keeps_keys_and_tenants_of_services),
		WITH_WORLD(an_inventory_neither_takes_a_server_nor_leaves_out_a_tenant),
		WITH_WORLD(a_cluster_does_not_take_the_name_of_a_service),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
