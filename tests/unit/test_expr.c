#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/expr.h"
#include "inventory/base/mem.h"

static const char list[] = "[{\"name\":\"a-01\",\"state\":\"running\",\"gpus\":4,\"tags\":[\"x\",\"y\"]},{\"name\":\"a-02\",\"state\":\"stopped\",\"gpus\":2,\"rack\":null}]";
static const char object[] = "{\"state\":\"ready\",\"vms\":[{\"name\":\"a-01\"},{\"name\":\"a-02\"}],\"infiniband\":{\"pkey\":\"0x0100\",\"members\":16},\"ok\":true,\"none\":[]}";

static bool holds(const char *json, const char *expression)
{
	RK_CLEANUP_JSON struct rk_json *doc = NULL;
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	bool ret;

	assert_int_equal(rk_json_parse("t", json, strlen(json), &doc, &err), 0);
	if (rk_expr_holds(expression, rk_json_root(doc), &ret, NULL, &err))
		fail_msg("%s: %s", expression, err.message);
	return ret;
}

static void comparisons_follow_paths(void **state)
{
	(void)state;
	assert_true(holds(object, "state == ready"));
	assert_true(holds(object, ".state != \"failed\""));
	assert_true(holds(object, "infiniband.members >= 16 && infiniband.pkey == 0x0100"));
	assert_false(holds(object, "infiniband.members < 16"));
	assert_true(holds(object, "vms.length == 2"));
	assert_true(holds(object, "vms[1].name ~ 02"));
	assert_true(holds(object, "ok && !.none && !missing"));
	assert_true(holds(object, "(state == broken || ok) && vms.length > 1"));
}

static void a_key_of_a_list_means_every_element(void **state)
{
	(void)state;
	assert_false(holds(list, "state == running"));
	assert_true(holds(list, "any state == running"));
	assert_true(holds(list, "none state == failed"));
	assert_true(holds(list, "gpus >= 2"));
	assert_true(holds(list, "length == 2"));
	assert_true(holds(list, "[0].state == running"));
	assert_true(holds(list, "[0].tags.length == 2"));
	assert_true(holds(list, "rack == null"));
}

static void what_is_not_there_holds_for_nothing(void **state)
{
	(void)state;
	assert_false(holds("[]", "state == running"));
	assert_false(holds("[]", "state != running"));
	assert_true(holds("[]", "none state == running"));
	assert_true(holds("[]", "length == 0"));
	assert_false(holds(object, "nothing.at.all == 1"));
}

static void wrong_forms_are_told_with_their_column(void **state)
{
	static const char *const wrong[] = { "", "==", "a ==", "(a", "a)", "a == 'open", "a b", "[x]", "a && ", "a == 1 ||", "[99999999999]", "((((((((((((((((((((((((((((((((((a" };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(wrong); i++) {
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		assert_int_equal(rk_expr_check(wrong[i], &err), RK_INVALID);
		assert_non_null(strstr(err.message, "column"));
	}
}

static void only_numbers_are_ordered(void **state)
{
	RK_CLEANUP_JSON struct rk_json *doc = NULL;
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	bool ret;

	(void)state;
	assert_int_equal(rk_json_parse("t", object, strlen(object), &doc, &err), 0);
	assert_int_equal(rk_expr_holds("state > 3", rk_json_root(doc), &ret, NULL, &err), RK_INVALID);
}

static void the_values_that_were_seen_are_told(void **state)
{
	RK_CLEANUP_JSON struct rk_json *doc = NULL;
	struct rk_str found RK_CLEANUP_STR = RK_STR_INIT;
	bool ret;

	(void)state;
	assert_int_equal(rk_json_parse("t", list, strlen(list), &doc, NULL), 0);
	assert_int_equal(rk_expr_holds("state == running && length == 3 && missing", rk_json_root(doc), &ret, &found, NULL), 0);
	assert_string_equal(rk_str_text(&found), "running, stopped; 2; nothing");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comparisons_follow_paths), cmocka_unit_test(a_key_of_a_list_means_every_element),
		cmocka_unit_test(what_is_not_there_holds_for_nothing), cmocka_unit_test(wrong_forms_are_told_with_their_column),
		cmocka_unit_test(only_numbers_are_ordered), cmocka_unit_test(the_values_that_were_seen_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
