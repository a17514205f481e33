/* The domain XML of a VM: golden texts, what an old host is told, what a changed read-back is told. RK_UPDATE=1 rewrites the goldens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/contract/vm_bench.h"

static void goldens_stay_as_they_are(void **state)
{
	struct bench b;

	(void)state;
	bench_lab(&b, "x86_64");
	assert_golden(&b, "lab-x86_64");
	bench_lab(&b, "aarch64");
	assert_golden(&b, "lab-aarch64");
	bench_init(&b, "nd128isr-gb300-v6");
	assert_golden(&b, "gb300-full");
	bench_init(&b, "nd128isr-gb300-v6");
	b.caps.qemu = 11000000;
	assert_golden(&b, "gb300-without-cmdqv");
	bench_init(&b, "nd128isr-gb200-v6");
	assert_golden(&b, "gb200-full");
	bench_init(&b, "nd64isr-gb300-v6");
	assert_golden(&b, "gb300-half");
	bench_init(&b, "nd32isr-gb200-v6");
	assert_golden(&b, "gb200-quarter");
}

static void each_missing_precondition_is_named(void **state)
{
	static const struct {
		const char *what, *message;
	} cases[] = {
		{ "nvme", "passes 4 NVMe drives through, tray r01-t07 has 2 known" },
		{ "twice", "has PCI address 0008:06:00.0 twice: gpu 0 and nvme 1" },
		{ "bad", "nvme 1 of tray r01-t07 has no usable PCI address" },
		{ "arch", "image \"ubuntu\" is for aarch64, tray r01-t07 is x86_64" },
		{ "kvm", "needs KVM" },
		{ "iommufd", "<iommufd enabled> needs a host kernel that offers it" },
		{ "name", "bytes that XML cannot carry" },
		{ "mac", "no usable MAC address" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		struct bench b;
		bench_init(&b, "nd128isr-gb300-v6");
		const char *what = cases[i].what;
		b.tray.n_nvme = rk_streq(what, "nvme") ? 2 : 4;
		b.tray.nvme[1] = rk_streq(what, "twice") ? "0008:06:00.0" : rk_streq(what, "bad") ? "0008:06" : b.tray.nvme[1];
		b.caps.arch = rk_streq(what, "arch") ? "x86_64" : "aarch64";
		b.caps.kvm = !rk_streq(what, "kvm");
		b.caps.probed = b.caps.vfio = rk_streq(what, "iommufd");
		b.in.tenant = rk_streq(what, "name") ? "con\x01toso" : "contoso";
		b.in.mac = rk_streq(what, "mac") ? "52:54:00,hostfwd=x" : b.in.mac;
		assert_int_equal(render(&b), RK_INVALID);
		assert_has(b.err.message, cases[i].message);
		bench_end(&b);
	}
}

static void each_kind_of_network_gives_the_first_interface(void **state)
{
	static const struct {
		struct rk_network net;
		const char *found, *absent;
	} cases[] = {
		{ { .bridge = "br0" }, "<interface type=\"bridge\">\n      <mac address=\"52:54:00:9e:1d:07\"/>\n      <source bridge=\"br0\"/>", "hostfwd" },
		{ { .macvtap = "enP5p9s0" }, "<interface type=\"direct\">\n      <mac address=\"52:54:00:9e:1d:07\"/>\n      <source dev=\"enP5p9s0\" mode=\"bridge\"/>",
		  "hostfwd" },
		{ { .user = true }, "hostfwd=tcp:127.3.1.1:2201-:22", "<interface" },
		{ { .addresses = NULL }, "hostfwd=tcp:127.3.1.1:2201-:22", "<interface" },
	};
	static const char *const sizes[] = { "nd128isr-gb300-v6", "lab-tray" };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases) * RK_ARRAY_SIZE(sizes); i++) {
		struct bench b;
		bench_init(&b, sizes[i % 2]);
		b.site.network = cases[i / 2].net;
		assert_int_equal(render(&b), 0);
		assert_has(rk_str_text(&b.xml), cases[i / 2].found);
		assert_null(strstr(rk_str_text(&b.xml), cases[i / 2].absent));
		/* The guest's own addresses have to be of the network that it is on. */
		struct rk_seed_input seed = { 0 };
		rk_seed_of_site(&seed, &b.site);
		assert_int_equal(seed.user_network, strstr(cases[i / 2].found, "hostfwd") != NULL);
		bench_end(&b);
	}
}

static void a_memo_changes_the_speed_and_not_the_text(void **state)
{
	static const char *const sizes[] = { "nd128isr-gb300-v6", "nd64isr-gb300-v6", "nd128isr-gb300-v6", "nd128isr-gb200-v6", "nd64isr-gb300-v6" };
	struct rk_domain_memo *memo RK_CLEANUP_DOMAIN_MEMO = rk_domain_memo_new();

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(sizes); i++) {
		struct bench with, without;
		bench_init(&with, sizes[i]);
		bench_init(&without, sizes[i]);
		with.in.memo = memo;
		assert_int_equal(render(&with), 0);
		assert_int_equal(render(&without), 0);
		assert_string_equal(rk_str_text(&with.xml), rk_str_text(&without.xml));
		bench_end(&with);
		bench_end(&without);
	}
}

static void lab_guest_without_kvm_is_emulated(void **state)
{
	struct bench b;

	(void)state;
	bench_lab(&b, "x86_64");
	assert_int_equal(render(&b), 0);
	assert_has(rk_str_text(&b.xml), "type=\"qemu\"");
	assert_has(rk_str_text(&b.xml), "hostfwd=tcp:127.3.1.1:2201-:22");
	rk_str_reset(&b.xml);
	b.caps.kvm = true;
	assert_int_equal(render(&b), 0);
	assert_has(rk_str_text(&b.xml), "type=\"kvm\"");
	bench_end(&b);
}

/* Renders, and gives a copy in which the first `from` became `to`. */
static char *changed(struct bench *b, const char *from, const char *to)
{
	assert_int_equal(render(b), 0);
	const char *xml = rk_str_text(&b->xml), *at = strstr(xml, from);
	assert_non_null(at);
	return rk_xasprintf("%.*s%s%s", (int)(at - xml), xml, to, at + strlen(from));
}

static void same_domain_compares_equal(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b, "nd128isr-gb300-v6");
	char *kept RK_CLEANUP_FREE = changed(&b, "<memory unit=\"KiB\">905969664<", "<memory unit=\"GiB\">864<");
	assert_int_equal(rk_domain_xml_compare(rk_str_text(&b.xml), kept, &b.err), 0);
	bench_end(&b);
}

static void dropped_or_changed_element_is_named(void **state)
{
	static const struct {
		const char *from, *to, *message;
	} cases[] = {
		{ "<iommufd enabled=\"yes\"/>", "", "iommufd: wanted set, kept none" },
		{ "<acpi nodeset=\"2-9\"/>", "", "devices/hostdev 0x0008:0x06:0x00:0x0 acpi@nodeset: wanted 2-9, kept none" },
		{ " model=\"nvgrace_gpu_vfio_pci\"", "", "driver@model: wanted nvgrace_gpu_vfio_pci, kept none" },
		{ "<pcihole64 unit=\"KiB\">8589934592</pcihole64>", "", "pcihole64: wanted 8589934592, kept none" },
		{ "pciBus=\"3\"", "pciBus=\"1\"", "devices/iommu 3: wanted set, kept none" },
		{ "<memory unit=\"KiB\">905969664<", "<memory unit=\"KiB\">905969663<", "memory: wanted 905969664 KiB, kept 905969663 KiB" },
		{ ">128</vcpu>", ">64</vcpu>", "vcpu: wanted 128, kept 64" },
		{ "0d1f0c5e", "1d1f0c5e", "uuid: wanted 0d1f0c5e" },
		{ "<readonly/>", "", "devices/disk vdb readonly: wanted set, kept none" },
		{ "generation=\"3\"", "generation=\"4\"", "metadata/vm/owner @generation: wanted 3, kept 4" },
		{ "<cell id=\"33\"", "<cell id=\"34\"", "cpu/numa/cell 34: wanted none, kept set" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		struct bench b;
		bench_init(&b, "nd128isr-gb300-v6");
		char *kept RK_CLEANUP_FREE = changed(&b, cases[i].from, cases[i].to);
		assert_int_equal(rk_domain_xml_compare(rk_str_text(&b.xml), kept, &b.err), RK_FAILED);
		assert_has(b.err.message, cases[i].message);
		bench_end(&b);
	}
}

static void what_libvirt_does_not_check_is_refused(void **state)
{
	static const struct {
		const char *from, *to, *message;
	} cases[] = {
		{ "pciBus=\"3\"", "pciBus=\"1\"", "two iommus on pciBus 1" },
		{ "pciBus=\"3\"", "pciBus=\"4\"", "iommu pciBus 4 is not the index of an expander bus" },
		{ ">8589934592<", ">8589934591<", "pcihole64 \"8589934591\" KiB is no power of two" },
		{ "ssidsize=\"20\"", "ssidsize=\"21\"", "ssidsize 21 is out of range" },
		{ "oas=\"48\"", "oas=\"52\"", "oas 52 is none of" },
		{ "nodeset=\"26-33\"", "nodeset=\"26-34\"", "acpi nodeset \"26-34\" is beyond the last of 34 cells" },
		{ "nodeset=\"10-17\"", "nodeset=\"9-16\"", "cell 9 belongs to two GPUs" },
		{ "busNr=\"40\"", "busNr=\"33\"", "bus numbers 32 and 33 of expander buses overlap" },
		{ "<driver iommufd=\"yes\"/>", "", "accel needs iommufd on every host device, 1 has none" },
		{ "<driver iommufd=\"yes\"/>", "<driver iommufd=\"no\"/>", "accel needs iommufd on every host device, 1 has none" },
		{ "pciBus=\"3\"", "pciBus=\"99\"", "iommu pciBus 99 is not the index of an expander bus" },
		{ "nodeset=\"10-17\"", "nodeset=\"10-17,2\"", "cell 2 belongs to two GPUs" },
		{ "nodeset=\"10-17\"", "nodeset=\"10-17,\"", "acpi nodeset \"10-17,\" is beyond the last of 34 cells" },
		{ "<iommu model=\"smmuv3\">", "<iommu model=\"smmuv3\"/><iommu model=\"smmuv3\">", "an iommu without pciBus beside others" },
		{ "busNr=\"40\"", "busNr=\"32\"", "bus numbers 32 and 32 of expander buses overlap" },
		{ "busNr=\"120\"", "busNr=\"255\"", "the expander bus of index 23 has no bus numbers left before 256" },
		{ ">8589934592<", "><", "pcihole64 \"\" KiB is no power of two" },
		{ "nodeset=\"2-9\"", "nodeset=\"34\"", "acpi nodeset \"34\" is beyond the last of 34 cells" },
		{ " pciBus=\"1\"", "", "an iommu without pciBus beside others" },
		{ "bus=\"0x09\"", "bus=\"0x07\"", "a GPU and another device share the expander bus of index 7" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		rk_xml *xml RK_CLEANUP_XML = NULL;
		struct bench b;
		bench_init(&b, "nd128isr-gb300-v6");
		char *bad RK_CLEANUP_FREE = changed(&b, cases[i].from, cases[i].to);
		assert_int_equal(rk_xml_parse("the domain", bad, &xml, &b.err), 0);
		assert_int_equal(rk_domain_check(rk_xroot(xml), -1, arena, &b.err), RK_INVALID);
		assert_has(b.err.message, cases[i].message);
		bench_end(&b);
	}
}

static void dropped_qemu_argument_is_named(void **state)
{
	struct bench b;

	(void)state;
	bench_lab(&b, "x86_64");
	char *kept RK_CLEANUP_FREE = changed(&b, "<qemu:arg value=\"-netdev\"/>", "");
	assert_int_equal(rk_domain_xml_compare(rk_str_text(&b.xml), kept, &b.err), RK_FAILED);
	assert_has(b.err.message, "commandline/arg 4: wanted set, kept none");
	bench_end(&b);
}

static void owner_is_read_back_from_our_namespace_only(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct bench b;
	const char *cluster, *vm;
	int generation;

	(void)state;
	bench_lab(&b, "aarch64");
	char *other RK_CLEANUP_FREE = changed(&b, "urn:racksh:domain:1", "urn:other:domain:1");
	assert_true(rk_domain_xml_owner(rk_str_text(&b.xml), arena, &cluster, &vm, &generation));
	assert_string_equal(cluster, "a");
	assert_string_equal(vm, "a-01");
	assert_int_equal(generation, 3);
	assert_false(rk_domain_xml_owner(other, arena, &cluster, &vm, &generation));
	assert_false(rk_domain_xml_owner("<domain", arena, &cluster, &vm, &generation));
	assert_false(rk_domain_xml_owner("<!DOCTYPE d [<!ENTITY e \"x\">]><domain/>", arena, &cluster, &vm, &generation));
	bench_end(&b);
}

static void declared_versions_are_counted_as_libvirt_does(void **state)
{
	struct rk_site site = { .hypervisor = { .libvirt = "12.8.0", .qemu = "11.1.3", .arch = "aarch64", .page_kib = 64 } };
	struct rk_hostcaps caps;

	(void)state;
	assert_true(rk_hostcaps_declared(&site, &caps));
	assert_int_equal(caps.libvirt, 12008000);
	assert_int_equal(caps.qemu, 11001003);
	assert_int_equal(caps.page_kib, 64);
	assert_false(caps.probed);
	site.hypervisor.libvirt = NULL;
	assert_false(rk_hostcaps_declared(&site, &caps));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(goldens_stay_as_they_are),
		cmocka_unit_test(each_missing_precondition_is_named),
		cmocka_unit_test(each_kind_of_network_gives_the_first_interface),
		cmocka_unit_test(a_memo_changes_the_speed_and_not_the_text),
		cmocka_unit_test(lab_guest_without_kvm_is_emulated),
		cmocka_unit_test(same_domain_compares_equal),
		cmocka_unit_test(dropped_or_changed_element_is_named),
		cmocka_unit_test(what_libvirt_does_not_check_is_refused),
		cmocka_unit_test(dropped_qemu_argument_is_named),
		cmocka_unit_test(owner_is_read_back_from_our_namespace_only),
		cmocka_unit_test(declared_versions_are_counted_as_libvirt_does),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
