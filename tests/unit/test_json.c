#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "inventory/base/diag.h"
#include "inventory/base/json.h"
#include "inventory/base/mem.h"

static struct rk_json *parse(const char *text)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_json *json = NULL;

	if (rk_json_parse("f.json", text, strlen(text), &json, &err))
		fail_msg("%s", err.message);
	return json;
}

static void nodes_know_line_and_column(void **state)
{
	RK_CLEANUP_JSON struct rk_json *json = parse("{\n  \"a\": [1, \"zwei\"],\n\t\"\xc3\xa4\xc3\xb6\": {\"c\" :true}\n}\n");
	const struct rk_jnode *root = rk_json_root(json);

	(void)state;
	assert_int_equal(root->line, 1);
	assert_int_equal(root->n, 2);
	const struct rk_jnode *second = rk_jget(root, "a")->child->next;
	assert_int_equal(second->line, 2);
	assert_int_equal(second->col, 12);
	assert_string_equal(rk_jstr(second), "zwei");
	const struct rk_jnode *c = rk_jget(rk_jget(root, "\xc3\xa4\xc3\xb6"), "c");
	assert_int_equal(c->key_line, 3);
	assert_int_equal(c->key_col, 9); /* characters, not bytes */
	assert_int_equal(c->col, 14);
	assert_true(c->boolean);
}

static void sixty_four_bit_identities_keep_every_bit(void **state)
{
	RK_CLEANUP_JSON struct rk_json *json = parse("[18446744073709551615, \"0xfedcba9876543210\", 18446744073709551616, -1, 1.5, \"x\", 1e3]");
	static const struct {
		bool ok;
		uint64_t value;
	} rows[] = { { true, UINT64_MAX }, { true, 0xfedcba9876543210u }, { false, 0 }, { false, 0 }, { false, 0 }, { false, 0 }, { false, 0 } };
	size_t i = 0;

	(void)state;
	RK_JEACH(it, rk_json_root(json)) {
		uint64_t v = 0;
		assert_int_equal(rk_ju64(it, &v), rows[i].ok);
		assert_true(v == rows[i].value);
		i++;
	}
	assert_int_equal(i, RK_ARRAY_SIZE(rows));
}

static void absent_is_no_value_of_any_type(void **state)
{
	uint64_t u = 7;
	double d = 7;
	bool b = true;

	(void)state;
	assert_null(rk_jget(NULL, "x"));
	assert_null(rk_jstr(NULL));
	assert_false(rk_ju64(NULL, &u));
	assert_false(rk_jdouble(NULL, &d));
	assert_false(rk_jbool(NULL, &b));
	assert_true(u == 7 && d == 7 && b);
}

static void escapes_decode_to_utf8(void **state)
{
	RK_CLEANUP_JSON struct rk_json *json = parse("[\"\\u00e4\\ud83d\\ude00\\n\\\"\\\\\\/\\t\"]");

	(void)state;
	assert_string_equal(rk_json_root(json)->child->text, "\xc3\xa4\xf0\x9f\x98\x80\n\"\\/\t");
}

static void bad_json_is_refused_with_its_place(void **state)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
		{ "", "f.json:1:1: the file is empty" },
		{ " \n\t", "f.json:1:1: the file is empty" },
		{ "{", "f.json:1:" },
		{ "{\"a\":1,\n\"a\":2}", "f.json:2:" },
		{ "[1,]", "f.json:1:" },
		{ "[1] x", "f.json:1:" },
		{ "[\"\xff\"]", "f.json:1:" },
		{ "[\"\\u0000\"]", "f.json:1:" },
		{ "nul", "f.json:1:" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		struct rk_json *json = NULL;
		assert_int_equal(rk_json_parse("f.json", rows[i].text, strlen(rows[i].text), &json, &err), RK_INVALID);
		assert_null(json);
		if (strncmp(err.message, rows[i].says, strlen(rows[i].says)) != 0)
			fail_msg("\"%s\" instead of \"%s\"", err.message, rows[i].says);
	}
}

/* Editors on other systems begin a file with it. */
static void a_byte_order_mark_is_passed_over(void **state)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_json *json = NULL;

	(void)state;
	assert_int_equal(rk_json_parse("f.json", "\xef\xbb\xbf{}", 5, &json, &err), 0);
	rk_json_free(json);
}

static void nest(struct rk_str *out, int levels)
{
	for (int i = 0; i < levels; i++)
		rk_str_add(out, i % 2 ? "{\"k\":" : "[");
	rk_str_add(out, "1");
	for (int i = levels - 1; i >= 0; i--)
		rk_str_add(out, i % 2 ? "}" : "]");
}

static void deep_nesting_is_refused_and_what_is_read_can_be_written(void **state)
{
	(void)state;
	for (int levels = 1; levels < 3000; levels = levels < 40 ? levels + 1 : levels * 3) {
		struct rk_str text RK_CLEANUP_STR = RK_STR_INIT, out RK_CLEANUP_STR = RK_STR_INIT;
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		RK_CLEANUP_JSON struct rk_json *json = NULL;
		struct rk_jw w;
		nest(&text, levels);
		int rc = rk_json_parse("f", rk_str_text(&text), text.len, &json, &err);
		assert_int_equal(rc, levels > 24 ? RK_INVALID : 0);
		if (rc)
			continue;
		rk_jw_init(&w, &out, 0);
		rk_jw_array(&w);
		rk_jw_node(&w, rk_json_root(json));
		rk_jw_end(&w);
		assert_int_equal(out.len, text.len + 2);
	}
}

static void the_writer_gives_json_that_reads_back(void **state)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_jw w;

	(void)state;
	rk_jw_init(&w, &out, 0);
	rk_jw_object(&w);
	rk_jw_key(&w, "s");
	rk_jw_str(&w, "a\"\\\n\x01\xc2\x9b\xc2\xa0 \xff");
	rk_jw_key(&w, "none");
	rk_jw_str(&w, NULL);
	rk_jw_key(&w, "guid");
	rk_jw_hex64(&w, 0x1234);
	rk_jw_key(&w, "unknown");
	rk_jw_hex64(&w, 0);
	rk_jw_key(&w, "list");
	rk_jw_array(&w);
	rk_jw_u64(&w, UINT64_MAX);
	rk_jw_i64(&w, -5);
	rk_jw_double(&w, 0.1);
	rk_jw_double(&w, 1.0 / 0.0);
	rk_jw_bool(&w, false);
	rk_jw_end(&w);
	rk_jw_key(&w, "empty");
	rk_jw_object(&w);
	rk_jw_end(&w);
	rk_jw_end(&w);
	assert_string_equal(rk_str_text(&out), "{\"s\":\"a\\\"\\\\\\n\\u0001\\u009b\xc2\xa0 \xef\xbf\xbd\",\"none\":null,\"guid\":\"0x0000000000001234\",\"unknown\":null,"
					       "\"list\":[18446744073709551615,-5,0.1,null,false],\"empty\":{}}");
	RK_CLEANUP_JSON struct rk_json *json = parse(rk_str_text(&out));
	assert_int_equal(rk_json_root(json)->n, 6);
}

static void copying_a_node_keeps_numbers_as_written(void **state)
{
	static const char text[] = "{\"a\":[1.50,18446744073709551615,{}],\"b\":[[],[null,true]],\"c\":\"x\"}";
	RK_CLEANUP_JSON struct rk_json *json = parse(text);
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_jw w;

	(void)state;
	rk_jw_init(&w, &out, 0);
	rk_jw_node(&w, rk_json_root(json));
	assert_string_equal(rk_str_text(&out), text);
}

/* ---- diagnostics ----------------------------------------------------------------------------------------------------------- */

static void all_problems_of_an_object_come_at_once_in_order(void **state)
{
	RK_CLEANUP_JSON struct rk_json *json = parse("{\"nmae\": \"x\",\n \"count\": \"three\",\n \"zzz\": 1}");
	static const struct rk_jfield fields[] = { { "name", RK_JSTRING, true }, { "count", RK_JNUMBER, false } };
	RK_CLEANUP_DIAGS struct rk_diags diags = RK_DIAGS_INIT("f.json");
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;

	(void)state;
	rk_diag_line(&diags, 9, 9, "the last");
	assert_true(rk_diag_fields(&diags, rk_json_root(json), "a thing", fields, 2));
	assert_int_equal(rk_diags_result(&diags, &err), RK_INVALID);
	assert_string_equal(err.message, "f.json:1:1: a thing needs the key \"name\"");
	assert_int_equal(err.n_details, 5);
	assert_string_equal(err.details[1], "f.json:1:2: unknown key \"nmae\" in a thing (did you mean \"name\"?)");
	assert_string_equal(err.details[2], "f.json:2:11: \"count\" must be a number, not a string");
	assert_string_equal(err.details[3], "f.json:3:2: unknown key \"zzz\" in a thing");
	assert_string_equal(err.details[4], "f.json:9:9: the last");
}

static void no_problem_is_success(void **state)
{
	RK_CLEANUP_DIAGS struct rk_diags diags = RK_DIAGS_INIT("f.json");

	(void)state;
	assert_int_equal(rk_diags_result(&diags, NULL), 0);
}

static void the_same_problem_at_the_same_place_is_told_once(void **state)
{
	RK_CLEANUP_DIAGS struct rk_diags diags = RK_DIAGS_INIT("f.json");
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;

	(void)state;
	for (int i = 0; i < 64; i++) {
		rk_diag_line(&diags, 2, 1, "first");
		rk_diag_line(&diags, 2, 1, "second");
	}
	assert_int_equal(rk_diags_result(&diags, &err), RK_INVALID);
	assert_int_equal(err.n_details, 2);
	assert_string_equal(err.details[0], "f.json:2:1: first");
	assert_string_equal(err.details[1], "f.json:2:1: second");
}

static void a_hundred_problems_are_enough(void **state)
{
	RK_CLEANUP_DIAGS struct rk_diags diags = RK_DIAGS_INIT("f.json");
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;

	(void)state;
	for (uint32_t i = 1; i <= 150; i++)
		rk_diag_line(&diags, i, 1, "problem %u", i);
	assert_int_equal(rk_diags_result(&diags, &err), RK_INVALID);
	assert_int_equal(err.n_details, 101);
	assert_string_equal(err.details[100], "and 50 more problems");
}

static void a_nul_byte_is_refused(void **state)
{
	static const char text[] = "{\"a\":[1,2.5\0,\"x\"]}";
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_json *json = NULL;

	(void)state;
	assert_int_equal(rk_json_parse("f", text, sizeof(text) - 1, &json, &err), RK_INVALID);
	assert_string_equal(err.message, "f: not valid JSON: a NUL byte at offset 11");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_nul_byte_is_refused),
		cmocka_unit_test(nodes_know_line_and_column),
		cmocka_unit_test(sixty_four_bit_identities_keep_every_bit),
		cmocka_unit_test(absent_is_no_value_of_any_type),
		cmocka_unit_test(escapes_decode_to_utf8),
		cmocka_unit_test(bad_json_is_refused_with_its_place), cmocka_unit_test(a_byte_order_mark_is_passed_over),
		cmocka_unit_test(deep_nesting_is_refused_and_what_is_read_can_be_written),
		cmocka_unit_test(the_writer_gives_json_that_reads_back),
		cmocka_unit_test(copying_a_node_keeps_numbers_as_written),
		cmocka_unit_test(all_problems_of_an_object_come_at_once_in_order),
		cmocka_unit_test(no_problem_is_success),
		cmocka_unit_test(the_same_problem_at_the_same_place_is_told_once),
		cmocka_unit_test(a_hundred_problems_are_enough),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
