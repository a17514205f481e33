/* The domain XML of a VM: golden texts, what an old host is told, what a changed read-back is told. RK_UPDATE=1 rewrites the goldens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "vmspec/domain_impl.h"

static struct rk_profile profile = {
	.name = "gb300-nvl72", .trays = 18, .gpus_per_tray = 4, .hcas_per_tray = 4, .nvme_per_tray = 4, .cpus_per_tray = 144, .sockets = 2,
	.gpu_pci = { "0008:06:00.0", "0009:06:00.0", "0018:06:00.0", "0019:06:00.0" }, .gpu_numa = { 0, 0, 1, 1 },
	.hca_pci = { "0000:03:00.0", "0002:03:00.0", "0010:03:00.0", "0012:03:00.0" }, .hca_numa = { 0, 0, 1, 1 },
};
static struct rk_rack rack = { .name = "r01", .n_trays = 1 };

/* One tray and one VM on it, with everything a test may change. */
struct bench {
	struct rk_site site;
	struct rk_tray tray;
	struct rk_image image;
	struct rk_hostcaps caps;
	struct rk_vm_input in;
	struct rk_str xml, notes;
	struct rk_err err;
};

static void bench_init(struct bench *b, const char *size)
{
	*b = (struct bench){
		.tray = { .name = "r01-t07", .number = 7, .nvme = { "0005:01:00.0", "0005:02:00.0", "0015:01:00.0", "0015:02:00.0" }, .n_nvme = 4 },
		.image = { .name = "ubuntu", .volume = "default/ubuntu.qcow2", .arch = "aarch64", .format = "qcow2" },
		.caps = { .libvirt = 12008000, .qemu = 11001003, .arch = "aarch64", .page_kib = 64, .kvm = true },
		.err = RK_ERR_INIT,
	};
	b->site = (struct rk_site){ .name = "test", .pool = "default", .profiles = &profile, .n_profiles = 1, .racks = &rack, .n_racks = 1,
				    .trays = &b->tray, .n_trays = 1, .network = { .bridge = "br0" } };
	b->in = (struct rk_vm_input){ .site = &b->site, .size = rk_size_find(size), .image = &b->image, .vm = "a-01", .cluster = "a", .tenant = "contoso",
				      .uuid = "0d1f0c5e-7a1b-5c1e-9a55-0b6f2f9e1d07", .mac = "52:54:00:9e:1d:07", .address = "127.3.1.1",
				      .ssh_port = 2201, .generation = 3, .nvl_partition = 12, .pkey = 0x0102 };
	assert_non_null(b->in.size);
}

static void bench_lab(struct bench *b, const char *arch)
{
	bench_init(b, "lab-tray");
	b->site.network = (struct rk_network){ .user = true };
	b->image = (struct rk_image){ .name = "lab", .arch = arch, .kernel = "/lab/vmlinuz", .initrd = "/lab/initrd.img" };
	b->caps = (struct rk_hostcaps){ .libvirt = 9000000, .qemu = 7002022, .arch = arch, .page_kib = 4, .probed = true };
	b->in.seed_path = "/pool/racksh-a-01-seed.iso";
}

static int render(struct bench *b)
{
	return rk_domain_xml(&b->in, &b->caps, &b->xml, &b->notes, &b->err);
}

static void bench_end(struct bench *b)
{
	rk_str_clear(&b->xml);
	rk_str_clear(&b->notes);
	rk_err_clear(&b->err);
}

static void assert_has(const char *text, const char *part)
{
	if (!text || !strstr(text, part))
		fail_msg("\"%s\" is not in: %s", part, text ? text : "(nothing)");
}

static size_t count(const char *text, const char *part)
{
	size_t n = 0;

	for (const char *p = strstr(text, part); p; p = strstr(p + 1, part))
		n++;
	return n;
}

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
	bench_init(&b, "nd128isr-gb200-v6");
	assert_golden(&b, "gb200-full");
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
	assert_has(b.err.message, "<features><ras> needs libvirt 10.4.0, found 9.0.0");
	assert_has(b.err.message, "<hostdev><acpi nodeset> needs QEMU 9.2.0, found 7.2.22");
	assert_has(b.err.message, "<iommu><driver accel> needs libvirt 12.7.0, found 9.0.0");
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
		{ "<driver iommufd=\"yes\"/>", "", "accel needs iommufd on every host device" },
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
		assert_int_equal(rk_domain_check(rk_xroot(xml), arena, &b.err), RK_INVALID);
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
