#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "provision/cluster.h"
#include "provision/discover.h"
#include "tests/contract/sim_world.h"

/* Differences are planted into the racks of the twin; discovery must name each, and propose nothing else. */

struct fixture {
	struct sim_world w;
	struct rk_seen *seen;
	struct rk_discovery found;
};

static void open_fixture(struct fixture *f, void (*prepare)(struct rk_site *site))
{
	*f = (struct fixture){ .seen = NULL };
	sim_world_open(&f->w, prepare);
}

static void close_fixture(struct fixture *f)
{
	free(f->found.items);
	rk_seen_free(f->seen);
	sim_world_close(&f->w);
}

/* What is not known yet is of no concern to most tests: it is written first. */
static void discover(struct fixture *f, const char *selection)
{
	int *trays;
	size_t n;

	sim_must(rk_select_trays(f->w.world.site, selection, NULL, f->w.arena, &trays, &n, err));
	free(rk_steal(&f->found.items));
	rk_seen_free(rk_steal(&f->seen));
	sim_must(rk_seen_read(&f->w.world, trays, n, &f->seen, err));
	rk_discover_compare(f->seen, trays, n, f->w.arena, &f->found);
}

static size_t settle(struct fixture *f)
{
	size_t applied = 0;

	discover(f, "@all");
	sim_must(rk_discover_apply(&f->w.world, &f->found, &applied, err));
	return applied;
}

static void plant(struct fixture *f, const char *spec)
{
	sim_must(rk_sim_fault_add(f->w.world.sim, spec, err));
}

static void show(const struct fixture *f)
{
	for (size_t i = 0; i < f->found.n; i++) {
		const struct rk_proposal *p = &f->found.items[i];
		print_message("%s | %s | %s | %s | %s | %s\n", p->object, p->field, p->recorded ? p->recorded : "-", p->seen ? p->seen : "-", p->action, p->message);
	}
}

static void has(const struct fixture *f, const char *object, const char *field, const char *action, const char *words)
{
	for (size_t i = 0; i < f->found.n; i++) {
		const struct rk_proposal *p = &f->found.items[i];
		if (rk_streq(p->object, object) && rk_streq(p->field, field) && rk_streq(p->action, action) && strstr(p->message, words))
			return;
	}
	show(f);
	fail_msg("no proposal: %s %s %s \"%s\"", object, field, action, words);
}

static void only(const struct fixture *f, size_t n)
{
	if (f->found.n == n)
		return;
	show(f);
	fail_msg("%zu proposals, expected %zu", f->found.n, n);
}

static void racks_as_recorded_give_no_proposal(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, NULL);
	assert_int_equal(settle(&f), 8 * 8); /* serial and UUID of each GPU */
	discover(&f, "@all");
	only(&f, 0);
	assert_false(f.found.contradicts);
	assert_int_equal(f.found.unread, 0);
	close_fixture(&f);
}

static void a_swapped_tray_is_one_finding(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, NULL);
	settle(&f);
	plant(&f, "tray-swapped@r1-t03");
	discover(&f, "@all");
	only(&f, 1);
	has(&f, "r1-t03", "hardware", "replace", "racksh tray replace r1-t03 --from-discovery");
	assert_string_equal(f.found.items[0].seen, "NEW-r1-t03");
	assert_true(f.found.contradicts);
	close_fixture(&f);
}

static void two_exchanged_trays_are_one_finding(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, NULL);
	settle(&f);
	plant(&f, "trays-exchanged@r1-t02+r2-t04");
	discover(&f, "@all");
	has(&f, "r1-t02", "hardware", "exchange", "recorded as tray r2-t04");
	/* The switches tell the same from their side: the GPUs are in the other rack's domain. */
	for (size_t i = 1; i < f.found.n; i++)
		assert_string_equal(f.found.items[i].field, "nvlink");
	close_fixture(&f);
}

static void a_missing_gpu_is_told_by_every_witness(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, NULL);
	settle(&f);
	plant(&f, "gpu-missing@r2-t01/2");
	discover(&f, "@all");
	only(&f, 3);
	has(&f, "r2-t01 gpu 2", "present", "repair", "nvidia-smi");
	has(&f, "r2-t01 gpu 2", "pci", "repair", "libvirt");
	has(&f, "r2-t01 gpu 2", "nvlink", "repair", "NVLink switch");
	close_fixture(&f);
}

static void crossed_cables_are_found(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, NULL);
	settle(&f);
	plant(&f, "cables-crossed@r1-t01+r1-t04/2");
	discover(&f, "@all");
	only(&f, 1);
	has(&f, "r1-t01 rail 2, r1-t04 rail 2", "wiring", "recable", "crossed");
	discover(&f, "r1-t04");
	only(&f, 1);
	discover(&f, "r1-t02");
	only(&f, 0);
	close_fixture(&f);
}

/* Rails 1 and 2 of a tray are written the other way round in the file. */
static void exchange_rails(struct rk_site *site)
{
	uint64_t kept = site->hcas[1].port_guid;

	site->hcas[1].port_guid = site->hcas[2].port_guid;
	site->hcas[2].port_guid = kept;
}

static void a_rail_mismatch_is_told_with_both_rails(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, exchange_rails);
	/* What is really in tray r1-t01 is what the twin was opened with. */
	char *spec RK_CLEANUP_FREE = rk_xasprintf("trays-exchanged@%s+%s", "r1-t01", "r1-t01");
	plant(&f, spec);
	discover(&f, "r1-t01");
	has(&f, "r1-t01 rail 1", "portGuid", "exchange", "r1-t01 rail 2");
	has(&f, "r1-t01 rail 2", "portGuid", "exchange", "r1-t01 rail 1");
	close_fixture(&f);
}

static void forget_tray(struct rk_site *site)
{
	struct rk_tray *t = &site->trays[5];

	t->serial = NULL;
	t->n_nvme = 0;
	site->racks[t->rack].cluster_uuid = NULL;
	for (int i = 0; i < 4; i++)
		site->gpus[t->first_gpu + i].fabric_guid = site->hcas[t->first_hca + i].port_guid = 0;
}

static void what_was_unknown_is_proposed_and_written_only_on_apply(void **state)
{
	struct fixture f;
	const struct rk_site *s;
	size_t applied;

	(void)state;
	open_fixture(&f, forget_tray);
	char *spec RK_CLEANUP_FREE = rk_xasprintf("tray-swapped@%s", f.w.site->trays[5].name);
	plant(&f, spec);
	discover(&f, f.w.site->trays[5].name);
	assert_int_equal(f.w.world.site->trays[5].serial ? 1 : 0, 0);
	has(&f, "r2-t02", "serial", "set", "not known");
	has(&f, "r2-t02 gpu 3", "fabricGuid", "set", "not known");
	has(&f, "r2-t02 rail 0", "portGuid", "set", "not known");
	assert_int_equal(f.w.world.site->gpus[f.w.world.site->trays[5].first_gpu].fabric_guid, 0);
	sim_must(rk_discover_apply(&f.w.world, &f.found, &applied, err));
	s = f.w.world.site;
	assert_string_equal(s->trays[5].serial, "NEW-r2-t02");
	assert_int_equal(s->gpus[s->trays[5].first_gpu].fabric_guid, f.w.site->gpus[f.w.site->trays[5].first_gpu].fabric_guid ^ (uint64_t)1 << 44);
	assert_int_equal(rk_find_hca_guid(s, f.w.site->hcas[f.w.site->trays[5].first_hca].port_guid ^ (uint64_t)1 << 28), s->trays[5].first_hca);
	close_fixture(&f);
}

static void a_host_that_is_silent_leaves_the_switch_as_witness(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, NULL);
	settle(&f);
	plant(&f, "tray-swapped@r1-t02");
	plant(&f, "host.run@r1-t02=fail:no route to host");
	discover(&f, "r1-t02");
	has(&f, "r1-t02", "host", "unknown", "no route to host");
	has(&f, "r1-t02", "hardware", "replace", "the tray was swapped");
	assert_int_equal(f.found.unread, 1);
	assert_int_equal(f.found.asked, 4); /* host, libvirt, switch, fabric */
	close_fixture(&f);
}

static void everything_silent_is_said_and_proposes_nothing(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, NULL);
	settle(&f);
	plant(&f, "host.run=fail,hv.probe=fail,nvl.list=fail,ib.discover=fail");
	discover(&f, "@all");
	assert_int_equal(f.found.unread, f.found.asked);
	only(&f, 8 + 8 + 2 + 1);
	for (size_t i = 0; i < f.found.n; i++)
		assert_string_equal(f.found.items[i].action, "unknown");
	assert_false(f.found.contradicts);
	/* People see four rows, not nineteen. */
	struct rk_proposal *rows;
	size_t n;
	rk_discover_fold(&f.found, f.w.arena, &rows, &n);
	assert_int_equal(n, 4);
	assert_string_equal(rows[0].object, "r[1-2]-t[01-04]");
	close_fixture(&f);
}

static void other_versions_and_another_hypervisor_are_told(void **state)
{
	struct fixture f;
	size_t applied;

	(void)state;
	open_fixture(&f, NULL);
	settle(&f);
	f.w.world.site->versions = "{\"driver\":\"999.1\",\"hcaFirmware\":\"40.47.1026\"}";
	f.w.world.site->racks[1].versions = "{\"driver\":\"580.173.02\",\"hcaFirmware\":\"1.1\"}";
	discover(&f, "r1-t01,r2-t01");
	only(&f, 4);
	has(&f, "r1-t01", "versions.driver", "look", "expected");
	has(&f, "r2-t01", "versions.hcaFirmware", "look", "expected");
	has(&f, "r1-t01", "versions", "set", "was not known");
	/* What was seen is kept, for placement. */
	sim_must(rk_discover_apply(&f.w.world, &f.found, &applied, err));
	assert_int_equal(applied, 2);
	assert_string_equal(f.w.world.site->trays[0].versions, "{\"driver\":\"580.173.02\",\"nvos\":\"25.02.2553\",\"hcaFirmware\":\"40.47.1026\"}");
	assert_null(f.w.world.site->trays[1].versions);
	close_fixture(&f);
}

/* Compares again what was read before, as the test has changed it. */
static void judge(struct fixture *f)
{
	int trays[8];

	for (int i = 0; i < 8; i++)
		trays[i] = i;
	free(rk_steal(&f->found.items));
	rk_discover_compare(f->seen, trays, 8, f->w.arena, &f->found);
}

static void the_release_of_the_switches_is_expected_and_kept(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, NULL);
	settle(&f);
	f.w.world.site->racks[0].versions = "{\"nvos\":\"25.02.9999\"}";
	f.w.world.site->racks[1].versions = "{\"nvos\":\"25.02.2553\"}";
	discover(&f, "r1-t01,r2-t01");
	has(&f, "r1-sw1", "versions.nvos", "look", "expected");
	has(&f, "r1-t01", "versions", "set", "was not known");
	has(&f, "r2-t01", "versions", "set", "was not known");
	only(&f, 3);
	close_fixture(&f);
}

/* A tray with an old driver must not come to be placeable by being silent. */
static void who_does_not_answer_keeps_the_versions_that_are_known(void **state)
{
	static const char known[] = "{\"driver\":\"570.1\",\"nvos\":\"25.02.2553\",\"hcaFirmware\":\"40.47.1026\"}";
	struct fixture f;

	(void)state;
	open_fixture(&f, NULL);
	settle(&f);
	f.w.world.site->versions = "{\"driver\":\"999.1\"}";
	f.w.world.site->trays[0].versions = known;
	discover(&f, "r1-t01");
	has(&f, "r1-t01", "versions", "change", "differs");
	f.seen->trays[0].driver = NULL;
	judge(&f);
	for (size_t i = 0; i < f.found.n; i++)
		assert_false(strcmp(f.found.items[i].object, "r1-t01") == 0 && strcmp(f.found.items[i].field, "versions") == 0);
	close_fixture(&f);
}

static void a_switch_or_tray_in_another_chassis_is_told(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, NULL);
	settle(&f);
	discover(&f, "@all");
	f.seen->racks[1].switches[0].chassis = "r1";
	judge(&f);
	has(&f, "r2-sw1", "chassis", "look", "rack r1 answers from this chassis, too");
	only(&f, 1);
	f.seen->racks[1].switches[0].chassis = "r2";
	f.seen->trays[2].chassis = "elsewhere";
	f.seen->racks[0].switches[0].slot = 3;
	judge(&f);
	has(&f, "r1-t03", "chassis", "look", "another chassis than the NVLink switch of rack r1");
	has(&f, "r1-sw1", "slot", "look", "has for none");
	only(&f, 2);
	close_fixture(&f);
}

static void switches_that_do_not_say_where_they_are_are_unknown(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, NULL);
	settle(&f);
	plant(&f, "nvl.switches@r2=fail:no route to host");
	discover(&f, "@all");
	has(&f, "r2", "nvlink", "unknown", "no route to host");
	only(&f, 1);
	assert_int_equal(f.found.unread, 1);
	close_fixture(&f);
}

static struct rk_seen_device *device_of(struct fixture *f, int tray, const char *pci)
{
	for (size_t i = 0; i < f->seen->trays[tray].n_devices; i++)
		if (rk_streq(f->seen->trays[tray].devices[i].pci, pci))
			return &f->seen->trays[tray].devices[i];
	fail_msg("no device %s", pci);
	return NULL;
}

static void the_odd_one_out_of_huge_pages_and_drivers_is_told(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, NULL);
	settle(&f);
	discover(&f, "@all");
	f.seen->trays[6].huge_kib = 2048;
	device_of(&f, 1, f.w.world.site->gpus[6].pci)->driver = "nvidia";
	judge(&f);
	has(&f, "r2-t03", "hugePages", "look", "another amount");
	has(&f, "r1-t02 gpu 2", "driver", "look", "most GPUs of the tray");
	only(&f, 2);
	close_fixture(&f);
}

static void a_device_of_a_guest_that_the_host_drives_is_told(void **state)
{
	static struct rk_vm vm = { .name = "a-01", .state = RK_VM_RUNNING };
	struct fixture f;

	(void)state;
	open_fixture(&f, NULL);
	settle(&f);
	discover(&f, "@all");
	f.w.world.site->vms = &vm;
	f.w.world.site->trays[0].vm = 0;
	device_of(&f, 0, f.w.world.site->hcas[1].pci)->driver = "mlx5_core";
	judge(&f);
	has(&f, "r1-t01 rail 1", "driver", "look", "VM a-01 is to have it");
	only(&f, 1);
	close_fixture(&f);
}

/* ---- parsers ---------------------------------------------------------------------------------------------------------------------- */

static void host_records_are_taken_as_far_as_they_are_certain(void **state)
{
	static const char text[] = "Welcome\nport|mlx5_0|0000:03:00.0|fe80:0000:0000:0000:5000:e603:0001:0131|InfiniBand|4: ACTIVE|40.47.1026\n"
				   "port|mlx5_8|0016:01:00.0|fe80::1|Ethernet|4: ACTIVE|32.1\nport|x\nport|mlx5_1|zz|bad|InfiniBand|1: DOWN|\n"
				   "drive|0005:01:00.0|0\ndrive|nonsense|0\ndrive|0005:02:00.0|1\nserial|  1820-77 \npages|2048|10|4\nend|\n";
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_seen_tray t = { 0 }, cut = { 0 };

	(void)state;
	rk_seen_parse_host(text, strlen(text), arena, &t);
	assert_null(t.sysfs_why);
	assert_int_equal(t.n_ports, 2);
	assert_int_equal(t.ports[0].guid, 0x5000e60300010131u);
	assert_string_equal(t.ports[0].pci, "0000:03:00.0");
	assert_int_equal(t.ports[1].guid, 0);
	assert_null(t.ports[1].pci);
	assert_int_equal(t.n_drives, 2);
	assert_true(t.drives[1].used);
	assert_string_equal(t.serial, "1820-77");
	assert_int_equal(t.huge_kib, 20480);
	rk_seen_parse_host(text, strlen(text) - 5, arena, &cut);
	assert_non_null(cut.sysfs_why);
}

static void node_devices_are_read_as_libvirt_writes_them(void **state)
{
	static const char xml[] = "<device>\n  <name>pci_0008_06_00_0</name>\n  <driver>\n    <name>vfio-pci</name>\n  </driver>\n  <capability type='pci'>\n"
				  "    <class>0x030200</class>\n    <domain>8</domain>\n    <bus>6</bus>\n    <slot>0</slot>\n    <function>0</function>\n"
				  "    <product id='0x31c2'>GB110</product>\n    <vendor id='0x10de'>NVIDIA</vendor>\n    <iommuGroup number='17'>\n"
				  "      <address domain='0x0008' bus='0x06' slot='0x00' function='0x0'/>\n"
				  "      <address domain='0x0008' bus='0x03' slot='0x00' function='0x0'/>\n    </iommuGroup>\n    <numa node='1'/>\n  </capability>\n</device>\n";
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_seen_device d;

	(void)state;
	assert_true(rk_seen_parse_device(xml, arena, &d));
	assert_string_equal(d.pci, "0008:06:00.0");
	assert_string_equal(d.driver, "vfio-pci");
	assert_int_equal(d.vendor, 0x10de);
	assert_int_equal(d.product, 0x31c2);
	assert_int_equal(d.numa, 1);
	assert_int_equal(d.iommu_group, 17);
	assert_int_equal(d.group_size, 2);
	assert_false(rk_seen_parse_device("<device><capability type='net'/></device>", arena, &d));
}

/* A pool of bytes, cut anywhere, must neither crash nor name an identity that is not there. */
static void any_cut_of_an_answer_is_survived(void **state)
{
	struct fixture f;

	(void)state;
	open_fixture(&f, NULL);
	struct rk_host_conn *conn = NULL;
	struct rk_ssh_result result = { 0 };
	const char *const argv[] = { "nvidia-smi", "-q", "-x", NULL };
	sim_must(rk_host_connect(&f.w.world, 0, &conn, err));
	sim_must(rk_host_run(conn, argv, &result, err));
	for (size_t len = 0; len <= result.out.len; len += 7) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct rk_seen_tray t = { 0 };
		rk_seen_parse_smi(rk_str_text(&result.out), len, arena, &t);
		for (size_t g = 0; g < t.n_gpus; g++)
			assert_true(!t.gpus[g].guid || rk_find_gpu_guid(f.w.site, t.gpus[g].guid) >= 0);
	}
	rk_ssh_result_clear(&result);
	rk_host_close(conn);
	close_fixture(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(racks_as_recorded_give_no_proposal),
		cmocka_unit_test(a_swapped_tray_is_one_finding),
		cmocka_unit_test(two_exchanged_trays_are_one_finding),
		cmocka_unit_test(a_missing_gpu_is_told_by_every_witness),
		cmocka_unit_test(crossed_cables_are_found),
		cmocka_unit_test(a_rail_mismatch_is_told_with_both_rails),
		cmocka_unit_test(what_was_unknown_is_proposed_and_written_only_on_apply),
		cmocka_unit_test(a_host_that_is_silent_leaves_the_switch_as_witness),
		cmocka_unit_test(everything_silent_is_said_and_proposes_nothing),
		cmocka_unit_test(other_versions_and_another_hypervisor_are_told),
		cmocka_unit_test(who_does_not_answer_keeps_the_versions_that_are_known),
		cmocka_unit_test(the_release_of_the_switches_is_expected_and_kept),
		cmocka_unit_test(a_switch_or_tray_in_another_chassis_is_told),
		cmocka_unit_test(switches_that_do_not_say_where_they_are_are_unknown),
		cmocka_unit_test(the_odd_one_out_of_huge_pages_and_drivers_is_told),
		cmocka_unit_test(a_device_of_a_guest_that_the_host_drives_is_told),
		cmocka_unit_test(host_records_are_taken_as_far_as_they_are_certain),
		cmocka_unit_test(node_devices_are_read_as_libvirt_writes_them),
		cmocka_unit_test(any_cut_of_an_answer_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
