/* The domain XML of a VM: golden texts, what an old host is told, what a changed read-back is told. RK_UPDATE=1 rewrites the goldens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/contract/vm_bench.h"

static void assert_golden(struct bench *b, const char *name)
{
	char path[256];
	static char golden[256 * 1024];

	assert_int_equal(render(b), 0);
	snprintf(path, sizeof(path), "tests/fixtures/domain_xml/%s.xml", name);
	if (getenv("RK_UPDATE")) {
		FILE *out = fopen(path, "w");
		assert_non_null(out);
		fputs(rk_str_text(&b->xml), out);
		fclose(out);
	}
	FILE *in = fopen(path, "r");
	assert_non_null(in);
	golden[fread(golden, 1, sizeof(golden) - 1, in)] = '\0';
	fclose(in);
	assert_string_equal(rk_str_text(&b->xml), golden);
	bench_end(b);
}

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

static void full_form_gives_each_device_its_own_bus_and_iommu(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b, "nd128isr-gb300-v6");
	assert_int_equal(render(&b), 0);
	const char *xml = rk_str_text(&b.xml);
	assert_int_equal(count(xml, "<hostdev "), 12);
	assert_int_equal(count(xml, "\"pcie-expander-bus\""), 12);
	assert_int_equal(count(xml, "<iommu "), 12);
	assert_int_equal(count(xml, "cmdqv=\"on\""), 12);
	assert_int_equal(count(xml, "<cell "), 34);
	assert_int_equal(count(xml, "<vcpupin "), 128);
	assert_has(xml, "<acpi nodeset=\"26-33\"/>");
	assert_has(xml, "<vcpupin vcpu=\"127\" cpuset=\"139\"/>");
	assert_has(xml, "<emulatorpin cpuset=\"0-3,72-75\"/>");
	assert_has(xml, ">8589934592</pcihole64>");
	assert_has(rk_str_text(&b.notes), "never confirmed on the tray");
	bench_end(&b);
}

static void optional_element_is_left_out_on_an_older_qemu(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b, "nd128isr-gb300-v6");
	b.caps.qemu = 11000000;
	assert_int_equal(render(&b), 0);
	assert_int_equal(count(rk_str_text(&b.xml), "cmdqv"), 0);
	assert_int_equal(count(rk_str_text(&b.xml), "accel=\"on\""), 12);
	bench_end(&b);
}

static void old_host_is_refused_with_element_and_versions(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b, "nd128isr-gb300-v6");
	b.caps.libvirt = 9000000;
	b.caps.qemu = 7002022;
	assert_int_equal(render(&b), RK_INVALID);
	assert_has(b.err.message, "<features><ras> needs libvirt 10.4.0");
	assert_has(b.err.message, "<hostdev><acpi nodeset> needs libvirt 11.8.0 and QEMU 9.2.0");
	assert_has(b.err.message, "libvirt 9.0.0 with QEMU 7.2.22 cannot express size");
	assert_null(strstr(b.err.message, "cmdqv"));
	assert_int_equal(b.xml.len, 0);
	bench_end(&b);
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

/* Debian 12: libvirt 9.0.0 and QEMU 7.2. The host is not even asked. */
static void debian_12_is_refused_for_the_full_size_and_takes_the_lab_size(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b, "nd128isr-gb300-v6");
	b.caps.libvirt = 9000000;
	b.caps.qemu = 7002022;
	assert_int_equal(render(&b), RK_INVALID);
	assert_has(b.err.message, "<features><ras> needs libvirt 10.4.0");
	assert_has(b.err.message, "more than one <iommu> (<driver pciBus>) needs libvirt 11.10.0 and QEMU 10.2.0");
	assert_has(b.err.hint, "needs libvirt 12.7.0 and QEMU 11.0.0");
	bench_end(&b);
	bench_lab(&b, "aarch64");
	assert_int_equal(b.caps.libvirt, 9000000);
	assert_int_equal(render(&b), 0);
	bench_end(&b);
}

/* Every element of the matrix is met from its first version on, and refused one version before, by libvirt and by QEMU. */
static void each_element_is_refused_just_below_its_first_version(void **state)
{
	static const struct {
		unsigned long libvirt, qemu;
		const char *message;
	} cases[] = {
		{ 12006999, 11001003, "<iommu><driver accel> needs libvirt 12.7.0" }, { 12008000, 10002999, "<iommu><driver accel> needs QEMU 11.0.0" },
		{ 12001999, 11001003, "<iommufd enabled> needs libvirt 12.2.0" },     { 11009999, 11001003, "(<driver pciBus>) needs libvirt 11.10.0" },
		{ 12008000, 10001999, "(<driver pciBus>) needs QEMU 10.2.0" },        { 11007999, 11001003, "<acpi nodeset> needs libvirt 11.8.0" },
		{ 12008000, 9001999, "<acpi nodeset> needs QEMU 9.2.0" },             { 11003000, 11001003, "<pcihole64> of machine virt needs libvirt" },
		{ 12008000, 9002000, "<pcihole64> of machine virt needs QEMU 10.0.0" }, { 10003999, 11001003, "<features><ras> needs libvirt 10.4.0" },
		{ 10000999, 11001003, "<topology clusters> needs libvirt 10.1.0" },   { 9999999, 11001003, "<hostdev><driver model> needs libvirt 10.0.0" },
		{ 12007000, 11000000, NULL },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		struct bench b;
		bench_init(&b, "nd128isr-gb300-v6");
		b.caps.libvirt = cases[i].libvirt;
		b.caps.qemu = cases[i].qemu;
		assert_int_equal(render(&b), cases[i].message ? RK_INVALID : 0);
		if (cases[i].message)
			assert_has(b.err.message, cases[i].message);
		bench_end(&b);
	}
}

static void a_size_for_another_rack_kind_is_refused(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b, "nd128isr-gb200-v6");
	b.profile.name = "gb300-nvl72";
	assert_int_equal(render(&b), RK_INVALID);
	assert_has(b.err.message, "made for racks of profile \"gb200-nvl72\", tray r01-t07 is in one of \"gb300-nvl72\"");
	bench_end(&b);
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
		bench_end(&b);
	}
}

/* ---- huge pages ---------------------------------------------------------------------------------------------------------------------- */

static void huge_pages_are_of_a_size_that_the_host_has(void **state)
{
	static const struct {
		int page_kib;
		struct rk_hostpages pages[3];
		size_t n;
		const char *found, *refused;
	} cases[] = {
		{ 64, { { 0 } }, 0, "<page size=\"524288\" unit=\"KiB\" nodeset=\"0-1\"/>", NULL },
		{ 4, { { 0 } }, 0, "<page size=\"1048576\"", NULL },
		{ 64, { { 0, 524288, 864 }, { 1, 524288, 900 } }, 2, "<page size=\"524288\"", NULL },
		{ 64, { { 0, 524288, 0 }, { 0, 2048, 221184 }, { 1, 2048, 221184 } }, 3, "<page size=\"2048\"", NULL },
		{ 64, { { 0, 524288, 864 }, { 1, 524288, 863 } }, 2, NULL,
		  "has 863 huge pages of 512 MiB on node 1, size \"nd128isr-gb300-v6\" needs 864 (442368 MiB / 512 MiB)" },
		{ 64, { { 0, 524288, 864 } }, 1, NULL, "has 0 huge pages of 512 MiB on node 1" },
		{ 64, { { 0, 524288, 0 }, { 1, 524288, 0 } }, 2, NULL, "tray r01-t07 has no huge pages" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		struct rk_hostpages pages[3];
		struct bench b;
		bench_init(&b, "nd128isr-gb300-v6");
		memcpy(pages, cases[i].pages, sizeof(pages));
		b.caps.page_kib = cases[i].page_kib;
		b.caps.pages = pages;
		b.caps.n_pages = cases[i].n;
		assert_int_equal(render(&b), cases[i].refused ? RK_INVALID : 0);
		assert_has(cases[i].refused ? b.err.message : rk_str_text(&b.xml), cases[i].refused ? cases[i].refused : cases[i].found);
		bench_end(&b);
	}
}

/* ---- sizes of the site --------------------------------------------------------------------------------------------------------------- */

static void odd_sizes_of_a_site_are_refused_with_the_reason(void **state)
{
	static const struct {
		const char *numbers, *message;
	} cases[] = {
		{ "\"vcpus\":120,\"memoryMib\":884736,\"gpus\":3,\"hcas\":3", "takes 2 GPUs of socket 0 and 1 of socket 1" },
		{ "\"vcpus\":64,\"memoryMib\":442368,\"gpus\":2,\"hcas\":1", "takes 2 GPUs and 1 HCA ports of socket 0" },
		{ "\"vcpus\":69,\"memoryMib\":442368,\"gpus\":2,\"hcas\":2", "wants 69 vCPUs on 1 sockets of 72 cores, 4 of each kept for the host" },
		{ "\"vcpus\":127,\"memoryMib\":884736,\"gpus\":4,\"hcas\":4", "wants 127 vCPUs on 2 sockets" },
		{ "\"vcpus\":64,\"memoryMib\":442367,\"gpus\":2,\"hcas\":2", "is no multiple of 1 huge pages of 512 MiB" },
		{ "\"vcpus\":64,\"memoryMib\":442368,\"gpus\":5,\"hcas\":2", "wants 5 GPUs and 2 HCA ports, a tray of profile" },
		{ "\"vcpus\":64,\"memoryMib\":442368,\"gpus\":2,\"hcas\":2,\"variant\":\"egm\"", "wants extended GPU memory (<memory model='egm'>), which no libvirt" },
		{ "\"vcpus\":64,\"memoryMib\":442368,\"gpus\":2,\"hcas\":2,\"variant\":\"confidential\"", "wants a confidential guest" },
		{ "\"vcpus\":64,\"memoryMib\":442368,\"gpus\":2,\"hcas\":2,\"variant\":\"sriov-vf\"", "wants InfiniBand virtual functions" },
		{ "\"vcpus\":64,\"memoryMib\":442368,\"gpus\":2,\"hcas\":2,\"variant\":\"x\"", "the unknown variant \"x\" (known: egm, confidential, sriov-vf)" },
		{ "\"vcpus\":64,\"memoryMib\":442368,\"gpus\":2,\"hcas\":2", NULL },
		{ "\"vcpus\":60,\"memoryMib\":442368,\"gpus\":2,\"hcas\":0", NULL },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		char *sizes RK_CLEANUP_FREE =
			rk_xasprintf("[{\"name\":\"odd-%zu\",\"passthrough\":true,\"pciHole64Kib\":4294967296,%s}]", i, cases[i].numbers);
		char *name RK_CLEANUP_FREE = rk_xasprintf("odd-%zu", i);
		struct bench b;
		bench_init(&b, "nd128isr-gb300-v6");
		b.site.sizes = sizes;
		b.in.size = rk_size_find(&b.site, name);
		assert_non_null(b.in.size);
		assert_int_equal(render(&b), cases[i].message ? RK_INVALID : 0);
		if (cases[i].message)
			assert_has(b.err.message, cases[i].message);
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
		cmocka_unit_test(full_form_gives_each_device_its_own_bus_and_iommu),
		cmocka_unit_test(optional_element_is_left_out_on_an_older_qemu),
		cmocka_unit_test(old_host_is_refused_with_element_and_versions),
		cmocka_unit_test(each_missing_precondition_is_named),
		cmocka_unit_test(debian_12_is_refused_for_the_full_size_and_takes_the_lab_size),
		cmocka_unit_test(each_element_is_refused_just_below_its_first_version),
		cmocka_unit_test(a_size_for_another_rack_kind_is_refused),
		cmocka_unit_test(each_kind_of_network_gives_the_first_interface),
		cmocka_unit_test(huge_pages_are_of_a_size_that_the_host_has),
		cmocka_unit_test(odd_sizes_of_a_site_are_refused_with_the_reason),
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
