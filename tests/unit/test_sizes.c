#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

#include "inventory/site_file.h"
#include "vmspec/vmspec.h"

static const struct rk_size *must_find(const char *name)
{
	const struct rk_size *size = rk_size_find(NULL, name);

	if (!size)
		fail_msg("no size \"%s\"", name);
	return size;
}

static void the_cloud_names_find_their_sizes_in_any_case(void **state)
{
	static const struct {
		const char *asked, *name;
	} cases[] = {
		{ "nd128isr-gb300-v6", "nd128isr-gb300-v6" },
		{ "Standard_ND128isr_GB300_v6", "nd128isr-gb300-v6" },
		{ "Standard_ND128isrG5_GB300_v6", "nd128isr-gb300-v6" },
		{ "STANDARD_nd128ISR_gb300_V6", "nd128isr-gb300-v6" },
		{ "nd128isr-gb200-v6", "nd128isr-gb200-v6" },
		{ "Standard_ND128isr_NDR_GB200_v6", "nd128isr-gb200-v6" },
		{ "Lab-Tray", "lab-tray" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++)
		assert_string_equal(must_find(cases[i].asked)->name, cases[i].name);
}

static void other_names_find_nothing(void **state)
{
	static const char *const names[] = { "", "nd128isr", "nd128isr-gb300-v6 ", "Standard_ND128isr_GB200_v6", "nd128isr-gb300-v66" };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(names); i++)
		assert_null(rk_size_find(NULL, names[i]));
}

static void a_size_is_found_at_the_same_address_each_time(void **state)
{
	(void)state;
	assert_ptr_equal(must_find("nd128isr-gb300-v6"), must_find("Standard_ND128isrG5_GB300_v6"));
}

/* Numbers of the size table in the field notes. */
static void whole_tray_sizes_have_the_numbers_of_the_size_table(void **state)
{
	static const char *const names[] = { "nd128isr-gb300-v6", "nd128isr-gb200-v6" };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(names); i++) {
		const struct rk_size *size = must_find(names[i]);
		assert_int_equal(size->vcpus, 128);
		assert_int_equal(size->memory_mib, 864 * 1024);
		assert_int_equal(size->gpus, 4);
		assert_int_equal(size->hcas, 4);
		assert_int_equal(size->nvme, 4);
		assert_true(size->passthrough);
		assert_false(size->emulated);
		assert_int_equal(size->capacity_multiple, 18);
		assert_int_equal(size->vms_per_domain, 18);
		assert_true(size->tray_kw > 1);
	}
}

static void the_lab_size_owns_the_fabric_of_its_tray_without_passing_it_through(void **state)
{
	const struct rk_size *size = must_find("lab-tray");

	(void)state;
	assert_int_equal(size->vcpus, 1);
	assert_int_equal(size->memory_mib, 256);
	assert_int_equal(size->gpus, 4);
	assert_int_equal(size->hcas, 4);
	assert_false(size->passthrough);
	assert_true(size->emulated);
	assert_int_equal(size->capacity_multiple, 0);
}

static bool answers_to(const struct rk_size *size, const char *name)
{
	for (size_t i = 0; i < size->n_aliases; i++)
		if (strcasecmp(size->aliases[i], name) == 0)
			return true;
	return strcasecmp(size->name, name) == 0;
}

static void no_name_or_alias_means_two_sizes(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	size_t n;
	const struct rk_size **sizes = rk_sizes(NULL, arena, &n);

	(void)state;
	assert_true(n >= 7);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < n; k++) {
			assert_true(k == i || !answers_to(sizes[k], sizes[i]->name));
			for (size_t a = 0; a < sizes[i]->n_aliases; a++)
				assert_true(k == i || !answers_to(sizes[k], sizes[i]->aliases[a]));
		}
}

/* Rail k belongs to GPU k, so a size has as many ports as GPUs; a tray has 144 cores, 960 GiB and four drives. */
static void every_size_is_one_that_a_tray_can_hold(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	size_t n;
	const struct rk_size **sizes = rk_sizes(NULL, arena, &n);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		assert_true(rk_name_valid(sizes[i]->name));
		assert_true(sizes[i]->description && *sizes[i]->description);
		assert_true(sizes[i]->source && *sizes[i]->source);
		assert_true(sizes[i]->vcpus >= 1 && sizes[i]->vcpus <= 144);
		assert_true(sizes[i]->memory_mib >= 128 && sizes[i]->memory_mib <= 960 * 1024);
		assert_in_range(sizes[i]->gpus, 1, 4);
		assert_int_equal(sizes[i]->gpus, sizes[i]->hcas);
		assert_in_range(sizes[i]->nvme, 0, 4);
		assert_true(sizes[i]->passthrough != sizes[i]->emulated);
	}
}

static void smaller_sizes_keep_the_proportions_of_the_whole_tray(void **state)
{
	static const struct {
		const char *name, *whole;
		int part;
	} cases[] = {
		{ "nd64isr-gb300-v6", "nd128isr-gb300-v6", 2 }, { "nd32isr-gb300-v6", "nd128isr-gb300-v6", 4 },
		{ "nd64isr-gb200-v6", "nd128isr-gb200-v6", 2 }, { "nd32isr-gb200-v6", "nd128isr-gb200-v6", 4 },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		const struct rk_size *size = must_find(cases[i].name), *whole = must_find(cases[i].whole);
		const int part = cases[i].part;
		assert_int_equal(size->vcpus * part, whole->vcpus);
		assert_true(size->memory_mib * (uint64_t)part == whole->memory_mib);
		assert_true(size->hole_kib * (uint64_t)part == whole->hole_kib);
		assert_int_equal(size->gpus * part, whole->gpus);
		assert_int_equal(size->hcas * part, whole->hcas);
		assert_int_equal(size->nvme * part, whole->nvme);
		assert_string_equal(size->profile, whole->profile);
	}
}

static void a_full_size_needs_the_newest_elements_and_a_lab_size_none(void **state)
{
	unsigned long libvirt, qemu;

	(void)state;
	rk_size_needs(must_find("nd128isr-gb300-v6"), &libvirt, &qemu);
	assert_int_equal(libvirt, 12007000);
	assert_int_equal(qemu, 11000000);
	rk_size_needs(must_find("lab-tray"), &libvirt, &qemu);
	assert_int_equal(libvirt, 0);
	assert_int_equal(qemu, 0);
	assert_true(must_find("nd128isr-gb300-v6")->hole_kib == 8ull << 30);
	assert_true(must_find("nd128isr-gb200-v6")->hole_kib == 4ull << 30);
}

/* ---- sizes of the site --------------------------------------------------------------------------------------------------------------- */

#define SITE "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\",\"racks\":[{\"name\":\"r01\"}],\n\"sizes\":["

static int parse_site(const char *sizes, struct rk_site **ret, struct rk_err *err)
{
	char *text RK_CLEANUP_FREE = rk_xasprintf(SITE "%s]}", sizes);

	return rk_site_parse("site.json", text, strlen(text), ret, err);
}

static const char own[] = "{\"name\":\"eight\",\"aliases\":[\"Eight_Cores\"],\"description\":\"small\",\"vcpus\":8,\"memoryMib\":4096,\"gpus\":4,"
			  "\"hcas\":4,\"passthrough\":false,\"emulated\":true,\"notSupported\":[\"live migration\"]}";

static void a_site_adds_sizes_that_are_found_beside_the_built_in_ones(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_site *site RK_CLEANUP_SITE = NULL, *again RK_CLEANUP_SITE = NULL;
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	size_t n, builtin;

	(void)state;
	if (parse_site(own, &site, &err))
		fail_msg("%s", err.message);
	const struct rk_size *size = rk_size_find(site, "EIGHT_cores");
	assert_non_null(size);
	assert_string_equal(size->name, "eight");
	assert_int_equal(size->vcpus, 8);
	assert_true(size->memory_mib == 4096);
	assert_string_equal(size->not_supported[0], "live migration");
	assert_null(rk_size_find(NULL, "eight"));
	assert_ptr_equal(rk_size_find(site, "lab-tray"), rk_size_find(NULL, "lab-tray"));
	rk_sizes(NULL, arena, &builtin);
	assert_ptr_equal(rk_sizes(site, arena, &n)[n - 1], size);
	assert_int_equal(n, builtin + 1);
	/* The export of the site is the site. */
	rk_site_export(site, &text);
	assert_int_equal(rk_site_parse("again", text.text, text.len, &again, &err), 0);
	assert_string_equal(again->sizes, site->sizes);
}

static void wrong_sizes_of_a_site_file_are_reported_with_their_place(void **state)
{
	static const struct {
		const char *size, *message;
	} cases[] = {
		{ "{\"name\":\"x\"}", "2:10: an entry of \"sizes\" needs the key \"vcpus\"" },
		{ "{\"name\":\"nd128isr-gb300-v6\",\"vcpus\":1,\"memoryMib\":256,\"gpus\":4,\"hcas\":4,\"passthrough\":false}", "2:18: size \"nd128isr-gb300-v6\" is built in" },
		{ "{\"name\":\"X\",\"vcpus\":1,\"memoryMib\":256,\"gpus\":4,\"hcas\":4,\"passthrough\":false}", "2:18: \"X\" is no valid name of a size" },
		{ "{\"name\":\"x\",\"vcpus\":0,\"memoryMib\":256,\"gpus\":4,\"hcas\":4,\"passthrough\":false}", "2:30: \"vcpus\" takes a whole number from 1 to 1024, not 0" },
		{ "{\"name\":\"x\",\"vcpus\":1,\"memoryMib\":256,\"gpus\":9,\"hcas\":4,\"passthrough\":false}", "\"gpus\" takes a whole number from 0 to 8, not 9" },
		{ "{\"name\":\"x\",\"vcpus\":1,\"memoryMib\":256,\"gpus\":4,\"hcas\":4,\"passthrough\":true}", "2:10: a size with \"passthrough\" needs \"pciHole64Kib\"" },
		{ "{\"name\":\"x\",\"vcpus\":1,\"memoryMib\":256,\"gpus\":4,\"hcas\":4,\"passthrough\":true,\"pciHole64Kib\":3}", "needs \"pciHole64Kib\", a power of two" },
		{ "{\"name\":\"x\",\"vcpu\":1,\"vcpus\":1,\"memoryMib\":256,\"gpus\":4,\"hcas\":4,\"passthrough\":false}", "unknown key \"vcpu\" in an entry of \"sizes\"" },
		{ "{\"name\":\"x\",\"vcpus\":1,\"memoryMib\":256,\"gpus\":4,\"hcas\":4,\"passthrough\":false,\"aliases\":[7]}", "\"aliases\" holds strings, not a number" },
		{ "{\"name\":\"x\",\"vcpus\":1,\"memoryMib\":256,\"gpus\":4,\"hcas\":4,\"passthrough\":false,\"trayKw\":-1}", "\"trayKw\" takes a number from 0 to 1000, not -1" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		struct rk_site *site = NULL;
		assert_int_equal(parse_site(cases[i].size, &site, &err), RK_INVALID);
		bool found = strstr(err.message, cases[i].message);
		for (size_t k = 0; k < err.n_details; k++)
			found |= strstr(err.details[k], cases[i].message) != NULL;
		if (!found)
			fail_msg("\"%s\" is not in \"%s\"", cases[i].message, err.message);
	}
}

static void a_name_that_is_used_twice_is_reported(void **state)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	char *two RK_CLEANUP_FREE = rk_xasprintf("%s,%s", own, own);
	struct rk_site *site = NULL;

	(void)state;
	assert_int_equal(parse_site(two, &site, &err), RK_INVALID);
	assert_non_null(strstr(err.message, "size \"eight\" is used twice"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_cloud_names_find_their_sizes_in_any_case),
		cmocka_unit_test(other_names_find_nothing),
		cmocka_unit_test(a_size_is_found_at_the_same_address_each_time),
		cmocka_unit_test(whole_tray_sizes_have_the_numbers_of_the_size_table),
		cmocka_unit_test(the_lab_size_owns_the_fabric_of_its_tray_without_passing_it_through),
		cmocka_unit_test(no_name_or_alias_means_two_sizes),
		cmocka_unit_test(every_size_is_one_that_a_tray_can_hold),
		cmocka_unit_test(smaller_sizes_keep_the_proportions_of_the_whole_tray),
		cmocka_unit_test(a_full_size_needs_the_newest_elements_and_a_lab_size_none),
		cmocka_unit_test(a_site_adds_sizes_that_are_found_beside_the_built_in_ones),
		cmocka_unit_test(wrong_sizes_of_a_site_file_are_reported_with_their_place),
		cmocka_unit_test(a_name_that_is_used_twice_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
