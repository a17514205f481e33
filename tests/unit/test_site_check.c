#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "inventory/site_check.h"
#include "tests/contract/store_site.h"

/* Faults are planted into a sound site, one at a time: each is found where it is, and the sound site gives nothing. */

static const struct rk_actor actor = { "alice", "console", 4711 };

struct fixture {
	struct rk_store *store;
	struct rk_site *site;
	struct rk_arena *arena;
	struct rk_site_findings found;
};

static int set_up(void **state)
{
	struct fixture *f = rk_xcalloc(1, sizeof(*f));
	RK_CLEANUP_SITE struct rk_site *site = site_of_tests();

	must(rk_store_open("mem:", RK_STORE_WRITE, &actor, &f->store, &err));
	must(rk_store_put_site(f->store, site, &err));
	must(rk_store_snapshot(f->store, &f->site, &err));
	f->arena = rk_arena_new();
	f->found.arena = f->arena;
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	free(f->found.items);
	rk_arena_free(f->arena);
	rk_site_free(f->site);
	rk_store_close(f->store);
	free(f);
	return 0;
}

static void look(struct fixture *f)
{
	f->found.n = 0;
	rk_site_seal(f->site);
	rk_site_check(f->site, &f->found);
}

/* Exactly one finding of this check, on this object. */
static void finds(struct fixture *f, const char *check, const char *severity, const char *object, const char *words)
{
	size_t hits = 0;

	for (size_t i = 0; i < f->found.n; i++) {
		const struct rk_site_finding *it = &f->found.items[i];
		hits += rk_streq(it->check, check) && rk_streq(it->severity, severity) && rk_streq(it->object, object) && strstr(it->message, words);
	}
	if (hits == 1)
		return;
	for (size_t i = 0; i < f->found.n; i++)
		print_message("%s %s %s: %s\n", f->found.items[i].severity, f->found.items[i].check, f->found.items[i].object, f->found.items[i].message);
	fail_msg("%zu findings of %s on %s with \"%s\"", hits, check, object, words);
}

static void a_sound_site_gives_no_finding(void **state)
{
	struct fixture *f = *state;

	must(rk_store_judge(f->store, f->site, &f->found, &err));
	assert_int_equal(f->found.n, 0);
}

static void unknown_identities_are_told_once_for_all_trays(void **state)
{
	struct fixture *f = *state;

	for (int t = 0; t < 3; t++)
		f->site->gpus[f->site->trays[t].first_gpu].fabric_guid = 0;
	f->site->hcas[f->site->trays[1].first_hca + 2].port_guid = 0;
	f->site->racks[3].cluster_uuid = NULL;
	look(f);
	assert_int_equal(f->found.n, 3);
	finds(f, "identity", "warn", "k1-t[01-03]", "fabric GUID");
	finds(f, "identity", "warn", "k1-t02", "port GUID");
	finds(f, "identity", "warn", "k4", "ClusterUUID");
}

static void the_same_number_in_two_places_is_found_with_both(void **state)
{
	struct fixture *f = *state;

	f->site->gpus[9].fabric_guid = f->site->gpus[2].fabric_guid;
	f->site->trays[4].serial = f->site->trays[30].serial;
	f->site->gpus[0].serial = f->site->gpus[1].serial = "module-1"; /* one serial for the two GPUs of a module */
	look(f);
	assert_int_equal(f->found.n, 2);
	finds(f, "file", "fail", "site", "GUID \"0x");
	finds(f, "file", "fail", "site", "serial \"SIM-k2-t15\" is used twice, first at");
	f->site->gpus[40].serial = "module-1";
	look(f);
	finds(f, "identity", "fail", f->site->trays[f->site->gpus[40].tray].name, "is also in tray k1-t01");
}

static void racks_that_contradict_themselves_are_found(void **state)
{
	struct fixture *f = *state;
	struct rk_rack *r = &f->site->racks[1];

	f->site->trays[r->first_tray + 3].slot = f->site->trays[r->first_tray].slot;
	f->site->trays[r->first_tray + 8].leak = "detector 2";
	f->site->trays[r->first_tray + 9].leak = "detector 0";
	f->site->trays[r->first_tray + 10].offline = "no answer";
	f->site->racks[2].power_kw = 900;
	f->site->racks[3].nvlink = f->site->racks[0].nvlink;
	look(f);
	finds(f, "slot", "fail", "k2-t04", "also holds tray k2-t01");
	finds(f, "leak", "fail", "k2-t10", "detector 2");
	finds(f, "leak", "fail", "k2", "2 trays leak");
	finds(f, "tray", "warn", "k2-t12", "no answer");
	finds(f, "tray", "warn", "k2-t12", "offline");
	finds(f, "power", "warn", "k3", "above what 8 power shelves");
	finds(f, "manager", "fail", "k4", "is also that of rack k1");
}

static void versions_are_held_against_the_baseline_of_the_rack(void **state)
{
	struct fixture *f = *state;

	must(rk_store_set_tray_versions(f->store, "k1-t01", "{\"driver\":\"580.1\",\"hcaFirmware\":\"40\"}", &err));
	must(rk_store_set_tray_versions(f->store, "k2-t01", "{\"driver\":\"580.2\"}", &err));
	must(rk_store_set_tray_versions(f->store, "k3-t01", "{\"driver\":\"580.1\"}", &err));
	rk_site_free(rk_steal(&f->site));
	must(rk_store_snapshot(f->store, &f->site, &err));
	f->site->racks[2].versions = "{\"driver\":\"590.0\"}";
	look(f);
	assert_int_equal(f->found.n, 2);
	finds(f, "versions", "warn", "k2-t01", "driver is 580.2, expected is 580.1");
	finds(f, "versions", "warn", "k3-t01", "driver is 580.1, expected is 590.0");
}

static void spares_that_are_missing_are_counted(void **state)
{
	struct fixture *f = *state;
	const struct rk_rack *r = &f->site->racks[0];

	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++)
		f->site->trays[t].cordon = "pump";
	look(f);
	assert_int_equal(f->found.n, 1);
	finds(f, "spares", "warn", "k1", "0 of 1 spare trays");
}

static void a_cluster_without_its_partitions_and_a_broken_quota_are_found(void **state)
{
	struct fixture *f = *state;

	add_cluster(f->store, "moss", "heron", 0);
	for (int i = 0; i < 3; i++)
		must(try_vm(f->store, f->site, "moss", i + 1, i, &err));
	must(rk_store_set_cluster_state(f->store, "moss", RK_CLUSTER_READY, 0, &err));
	rk_site_free(rk_steal(&f->site));
	must(rk_store_snapshot(f->store, &f->site, &err));
	f->site->tenants[rk_find_tenant(f->site, "heron")].quota_vms = 2;
	look(f);
	assert_int_equal(f->found.n, 3);
	finds(f, "cluster", "fail", "moss", "no NVLink partition there");
	finds(f, "cluster", "fail", "moss", "no PKey");
	finds(f, "quota", "fail", "heron", "3 VMs, the quota is 2");
}

static void a_faulty_tray_under_a_vm_is_a_fault(void **state)
{
	struct fixture *f = *state;

	add_cluster(f->store, "moss", "heron", 0);
	must(try_vm(f->store, f->site, "moss", 1, 0, &err));
	must(rk_store_set_tray_faulty(f->store, "k1-t01", "reset failed", &err));
	must(rk_store_set_tray_leak(f->store, "k1-t02", "detector 1 reports a leak", &err));
	rk_site_free(rk_steal(&f->site));
	must(rk_store_snapshot(f->store, &f->site, &err));
	assert_int_equal(rk_tray_state(f->site, 1), RK_TRAY_FAULTY);
	assert_int_equal(rk_rack_leaks(f->site, 0), 1);
	look(f);
	finds(f, "tray", "fail", "k1-t01", "VM on it: moss-01");
	must(rk_store_set_tray_leak(f->store, "k1-t02", NULL, &err));
	rk_site_free(rk_steal(&f->site));
	must(rk_store_snapshot(f->store, &f->site, &err));
	assert_null(f->site->trays[1].leak);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_sound_site_gives_no_finding),
		TEST(unknown_identities_are_told_once_for_all_trays),
		TEST(the_same_number_in_two_places_is_found_with_both),
		TEST(racks_that_contradict_themselves_are_found),
		TEST(versions_are_held_against_the_baseline_of_the_rack),
		TEST(spares_that_are_missing_are_counted),
		TEST(a_cluster_without_its_partitions_and_a_broken_quota_are_found),
		TEST(a_faulty_tray_under_a_vm_is_a_fault),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
