#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "provision/drivers/nvos_parse.h"

static char *fixture(const char *name)
{
	char *path RK_CLEANUP_FREE = rk_xasprintf("tests/fixtures/nvos/%s", name), *text = NULL;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	size_t len;

	if (rk_file_read(path, 1 << 20, &text, &len, &err) != 0)
		fail_msg("%s", err.message);
	return text;
}

static void a_list_behind_a_banner_is_read_with_counts_as_number_or_text(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	char *text RK_CLEANUP_FREE = fixture("partition-list.txt");
	struct rk_nvos_row *rows;
	size_t n;

	(void)state;
	assert_int_equal(rk_nvos_list(text, arena, &rows, &n, &err), 0);
	assert_int_equal(n, 3);
	assert_int_equal(rows[0].live.id, 7);
	assert_string_equal(rows[0].live.name, "team-x");
	assert_string_equal(rows[0].live.health, "healthy");
	assert_int_equal(rows[0].announced, 2);
	assert_string_equal(rows[1].live.health, "degraded");
	assert_string_equal(rows[1].live.resiliency, "user_action");
	assert_int_equal(rows[2].announced, 70);
	assert_null(rows[2].live.health);
}

static void identities_above_53_bits_stay_exact_and_sorted(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	char *text RK_CLEANUP_FREE = fixture("partition-7.txt");
	struct rk_nvl_live live = { .id = 7 };

	(void)state;
	assert_int_equal(rk_nvos_members(text, 2, arena, &live, &err), 0);
	assert_int_equal(live.n_gpus, 2);
	assert_true(live.gpus[0] == 9007199254740993u);
	assert_true(live.gpus[1] == UINT64_MAX);
}

static void members_come_in_older_forms_too(void **state)
{
	static const char *const forms[] = { "{\"num-gpus\":1,\"uuids\":{\"42\":{}}}", "{\"num-gpus\":1,\"uuids\":[\"42\"]}", "{\"num-gpus\":1,\"uuids\":[42]}",
					     "{\"locations\":{},\"uuids\":{\"42\":{\"uuid\":\"42\"}}}" };
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(forms); i++) {
		struct rk_nvl_live live = { .id = 1 };
		assert_int_equal(rk_nvos_members(forms[i], 1, arena, &live, NULL), 0);
		assert_int_equal(live.n_gpus, 1);
		assert_int_equal(live.gpus[0], 42);
	}
}

static void members_that_are_not_certain_are_unknown(void **state)
{
	static const char *const texts[] = { "null", "", "{}", "{\"num-gpus\":2,\"locations\":{\"1.1.1.1\":{\"uuid\":\"5\"}}}",
					     "{\"num-gpus\":1,\"locations\":{\"1.1.1.1\":{}}}", "{\"num-gpus\":1,\"locations\":{\"1.1.1.1\":{\"uuid\":\"0\"}}}",
					     "{\"num-gpus\":1,\"locations\":{\"1.1.1.1\":{\"uuid\":\"5\"}" };
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(texts); i++) {
		struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
		struct rk_nvl_live live = { .id = 1 };
		if (rk_nvos_members(texts[i], -1, arena, &live, &err) != RK_UNREACHABLE)
			fail_msg("\"%s\" was believed", texts[i]);
	}
}

static void empty_bodies_are_no_partitions_and_garbage_is_unknown(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_nvos_row *rows;
	size_t n = 9;

	(void)state;
	assert_int_equal(rk_nvos_list("{}\n", arena, &rows, &n, NULL), 0);
	assert_int_equal(n, 0);
	n = 9;
	assert_int_equal(rk_nvos_list("null\n", arena, &rows, &n, NULL), 0);
	assert_int_equal(n, 0);
	assert_int_equal(rk_nvos_list("command not found", arena, &rows, &n, NULL), RK_UNREACHABLE);
	assert_int_equal(rk_nvos_list("{\"x\":{}}", arena, &rows, &n, NULL), RK_UNREACHABLE);
	assert_int_equal(rk_nvos_list("{\"40000\":{}}", arena, &rows, &n, NULL), RK_UNREACHABLE);
	assert_int_equal(rk_nvos_list("{\"1\":null}", arena, &rows, &n, NULL), RK_UNREACHABLE);
}

static void answers_are_told_apart(void **state)
{
	static const struct {
		int status;
		const char *out;
		enum rk_nvos_answer want;
	} cases[] = {
		{ 0, "Action executing ...\nPartition 3 was successfully created\nAction succeeded\n", RK_NVOS_DONE },
		{ 1, "Action succeeded\n", RK_NVOS_ODD },
		{ 0, "Action executing ...\nError: Action failed with the following issue:\n  failed to update partition 3 uuid 5\n", RK_NVOS_REFUSED },
		{ 1, "Error: Action failed with the following issue:\n  NMX_ST_RESOURCE_IN_USE\n", RK_NVOS_BUSY },
		{ 0, "Error: Action failed with the following issue:\n  cluster is not enabled\n", RK_NVOS_DOWN },
		{ 0, "Error: Action failed with the following issue:\n  gRPC connection is down\n", RK_NVOS_DOWN },
		{ 1, "Error: At mcast-limit: Valid range for mcast-limit is 0 - 1024\n", RK_NVOS_INVALID },
		{ 1, "Error: The requested item does not exist.\n", RK_NVOS_ABSENT },
		{ 0, "", RK_NVOS_ODD },
		{ 0, "welcome\n", RK_NVOS_ODD },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		assert_int_equal(rk_nvos_classify(cases[i].status, cases[i].out, ""), cases[i].want);
		if (cases[i].want > RK_NVOS_DONE && cases[i].want < RK_NVOS_ODD) /* wherever nv prints it */
			assert_int_equal(rk_nvos_classify(cases[i].status, "", cases[i].out), cases[i].want);
	}
}

static void the_state_of_the_controller_is_judged(void **state)
{
	(void)state;
	assert_int_equal(rk_nvos_cluster("{\"state\":\"enabled\",\"nmxc-conn\":\"up\"}", NULL), 0);
	assert_int_equal(rk_nvos_cluster("{\"state\":\"disabled\",\"nmxc-conn\":\"up\"}", NULL), RK_UNHEALTHY);
	assert_int_equal(rk_nvos_cluster("{\"state\":\"enabled\",\"nmxc-conn\":\"down\"}", NULL), RK_UNHEALTHY);
	assert_int_equal(rk_nvos_cluster("{}", NULL), RK_UNREACHABLE);
	assert_int_equal(rk_nvos_cluster("null", NULL), RK_UNREACHABLE);
	assert_int_equal(rk_nvos_apps("{\"nmx-controller\":{\"status\":\"ok\",\"reason\":\"\"}}", NULL), 0);
	assert_int_equal(rk_nvos_apps("{\"nmx-controller\":{\"status\":\"not ok\",\"reason\":\"x\"}}", NULL), RK_UNHEALTHY);
	assert_int_equal(rk_nvos_apps("{\"nmx-controller\":{}}", NULL), RK_UNREACHABLE);
	assert_int_equal(rk_nvos_apps("{\"nmx-telemetry\":{\"status\":\"ok\"}}", NULL), RK_NOT_FOUND);
}

static void what_a_switch_says_of_itself_is_read_or_left_out(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_nvl_switch s = { 0 }, odd = { 0 };

	(void)state;
	rk_nvos_version("NVOS switch\n{\"build-date\":\"Mon May 30 2022\",\"image\":\"nvos-25.02.2553\",\"kernel\":\"5.10.0\"}\n", arena, &s);
	rk_nvos_location("{\"tray-index\":0,\"slot-number\":\"9\",\"chassis-sn\":\"1820725000001\",\"topology-id\":\"GB300 NVL72\"}", arena, &s);
	assert_string_equal(s.version, "25.02.2553");
	assert_string_equal(s.chassis, "1820725000001");
	assert_int_equal(s.slot, 9);
	rk_nvos_version("{\"image\":\"two words\"}", arena, &odd);
	rk_nvos_location("{\"slot-number\":7000,\"chassis-sn\":\"N/A\"}", arena, &odd);
	rk_nvos_version("null", arena, &odd);
	rk_nvos_version("Error: nothing", arena, &odd);
	rk_nvos_location("{\"chassis-sn\":", arena, &odd);
	assert_null(odd.version);
	assert_null(odd.chassis);
	assert_int_equal(odd.slot, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_behind_a_banner_is_read_with_counts_as_number_or_text),
		cmocka_unit_test(identities_above_53_bits_stay_exact_and_sorted),
		cmocka_unit_test(members_come_in_older_forms_too),
		cmocka_unit_test(members_that_are_not_certain_are_unknown),
		cmocka_unit_test(empty_bodies_are_no_partitions_and_garbage_is_unknown),
		cmocka_unit_test(answers_are_told_apart),
		cmocka_unit_test(the_state_of_the_controller_is_judged),
		cmocka_unit_test(what_a_switch_says_of_itself_is_read_or_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
