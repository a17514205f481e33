#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

#include "inventory/base/json.h"
#include "vmspec/vmspec.h"

static const struct rk_size *must_find(const char *name)
{
	const struct rk_size *size = rk_size_find(name);

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
		assert_null(rk_size_find(names[i]));
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
	size_t n;
	const struct rk_size *sizes = rk_sizes(&n);

	(void)state;
	assert_true(n >= 3);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < n; k++) {
			assert_true(k == i || !answers_to(&sizes[k], sizes[i].name));
			for (size_t a = 0; a < sizes[i].n_aliases; a++)
				assert_true(k == i || !answers_to(&sizes[k], sizes[i].aliases[a]));
		}
}

/* Rail k belongs to GPU k, so a size has as many ports as GPUs; a tray has 144 cores, 960 GiB and four drives. */
static void every_size_is_one_that_a_tray_can_hold(void **state)
{
	size_t n;
	const struct rk_size *sizes = rk_sizes(&n);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		assert_true(rk_name_valid(sizes[i].name));
		assert_true(sizes[i].description && *sizes[i].description);
		assert_true(sizes[i].vcpus >= 1 && sizes[i].vcpus <= 144);
		assert_true(sizes[i].memory_mib >= 128 && sizes[i].memory_mib <= 960 * 1024);
		assert_in_range(sizes[i].gpus, 1, 4);
		assert_int_equal(sizes[i].gpus, sizes[i].hcas);
		assert_in_range(sizes[i].nvme, 0, 4);
		assert_true(sizes[i].passthrough != sizes[i].emulated);
	}
}

static void the_whole_file_is_kept_for_further_keys(void **state)
{
	static const struct {
		const char *name;
		uint64_t hole_kib;
	} cases[] = { { "nd128isr-gb300-v6", 8ull << 30 }, { "nd128isr-gb200-v6", 4ull << 30 } };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		RK_CLEANUP_JSON struct rk_json *json = NULL;
		const char *text = must_find(cases[i].name)->json;
		uint64_t hole = 0;
		assert_int_equal(rk_json_parse(cases[i].name, text, strlen(text), &json, NULL), 0);
		assert_true(rk_ju64(rk_jget(rk_json_root(json), "pciHole64Kib"), &hole));
		assert_true(hole == cases[i].hole_kib);
	}
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
		cmocka_unit_test(the_whole_file_is_kept_for_further_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
