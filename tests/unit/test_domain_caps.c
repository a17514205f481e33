/* What a host must have for a size: versions by the capability matrix, huge pages, shape of the size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/contract/vm_bench.h"

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

/* Debian 12: libvirt 9.0.0 and QEMU 7.2. The host is not even asked. */
static void debian_12_is_refused_for_the_full_size_and_takes_the_lab_size(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b, "nd128isr-gb300-v6");
	b.caps.libvirt = 9000000;
	b.caps.qemu = 7002022;
	assert_int_equal(render(&b), RK_INVALID);
	assert_has(b.err.message, "libvirt 9.0.0 with QEMU 7.2.22 cannot express size");
	assert_has(b.err.message, "<features><ras> needs libvirt 10.4.0");
	assert_has(b.err.message, "<hostdev><acpi nodeset> needs libvirt 11.8.0 and QEMU 9.2.0");
	assert_has(b.err.message, "more than one <iommu> (<driver pciBus>) needs libvirt 11.10.0 and QEMU 10.2.0");
	assert_null(strstr(b.err.message, "cmdqv")); /* the size can do without */
	assert_has(b.err.hint, "needs libvirt 12.7.0 and QEMU 11.0.0");
	assert_int_equal(b.xml.len, 0);
	bench_end(&b);
	bench_lab(&b, "aarch64");
	assert_int_equal(b.caps.libvirt, 9000000);
	assert_int_equal(render(&b), 0);
	bench_end(&b);
}

/* Elements are a matter of the daemon, which parses the XML; the library of this process only sends it. */
static void an_old_client_library_refuses_nothing_and_a_new_one_makes_up_for_nothing(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b, "nd128isr-gb300-v6");
	b.caps.client = 9000000;
	assert_int_equal(render(&b), 0);
	bench_end(&b);
	bench_init(&b, "nd128isr-gb300-v6");
	b.caps.libvirt = 12006000;
	b.caps.client = 12008000;
	assert_int_equal(render(&b), RK_INVALID);
	assert_has(b.err.message, "libvirt 12.6.0 with QEMU 11.1.3 cannot express");
	assert_has(b.err.message, "<iommu><driver accel> needs libvirt 12.7.0");
	assert_has(b.err.hint, "libvirt means the tray's daemon: the client library here, 12.8.0, hands the domain on as it is");
	bench_end(&b);
	bench_init(&b, "nd128isr-gb300-v6");
	b.caps.qemu = 10000000;
	b.caps.client = 12008000;
	assert_int_equal(render(&b), RK_INVALID);
	assert_null(strstr(b.err.hint, "client library")); /* it is QEMU that is too old */
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

/* A size that only says that it passes nothing through is still one of its variant. */
static void a_variant_is_refused_for_a_lab_size_too(void **state)
{
	static const struct {
		const char *variant, *message;
	} cases[] = { { "confidential", "wants a confidential guest" }, { "egm", "wants extended GPU memory" }, { "sriov-vf", "and passes nothing through" } };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		struct rk_size size;
		struct bench b;
		bench_lab(&b, "x86_64");
		size = *b.in.size;
		size.variant = cases[i].variant;
		b.in.size = &size;
		assert_int_equal(render(&b), RK_INVALID);
		assert_has(b.err.message, cases[i].message);
		bench_end(&b);
	}
}

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
		{ "\"vcpus\":64,\"memoryMib\":442368,\"gpus\":2,\"hcas\":2,\"variant\":\"egm\"",
		  "wants extended GPU memory (<memory model='egm'>), which no libvirt up to 12.8.0 can express, only NVIDIA's fork of libvirt 11.9.0 and QEMU 10.1.0 (found 12.8.0)" },
		{ "\"vcpus\":64,\"memoryMib\":442368,\"gpus\":2,\"hcas\":2,\"variant\":\"confidential\"", 
		  "wants a confidential guest (<launchSecurity> for Arm CCA), which no libvirt up to 12.8.0 can express (found 12.8.0)" },
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(optional_element_is_left_out_on_an_older_qemu),
		cmocka_unit_test(debian_12_is_refused_for_the_full_size_and_takes_the_lab_size),
		cmocka_unit_test(an_old_client_library_refuses_nothing_and_a_new_one_makes_up_for_nothing),
		cmocka_unit_test(each_element_is_refused_just_below_its_first_version),
		cmocka_unit_test(a_size_for_another_rack_kind_is_refused),
		cmocka_unit_test(huge_pages_are_of_a_size_that_the_host_has),
		cmocka_unit_test(a_variant_is_refused_for_a_lab_size_too),
		cmocka_unit_test(odd_sizes_of_a_site_are_refused_with_the_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
