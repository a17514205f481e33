/* The schema and the parser of the cluster spec say the same: they are made from the same rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "inventory/base/mem.h"
#include "vmspec/spec_keys.h"
#include "vmspec/spec_schema.h"
#include "vmspec/vmspec.h"

static struct rk_json *schema(void)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_json *json = NULL;

	rk_spec_schema(&text);
	if (rk_json_parse("schema", text.text, text.len, &json, &err))
		fail_msg("%s", err.message);
	return json;
}

static const struct rk_jnode *property(const struct rk_jnode *root, const struct rk_spec_key *k)
{
	const struct rk_jnode *object = *k->object ? rk_jget(rk_jget(root, "properties"), k->object) : root;

	return rk_jget(rk_jget(object, "properties"), k->key);
}

static void every_row_is_a_property_and_every_property_a_row(void **state)
{
	RK_CLEANUP_JSON struct rk_json *json = schema();
	const struct rk_jnode *root = rk_json_root(json);
	size_t rows = 0, properties = rk_jget(root, "properties")->n;

	(void)state;
	for (const struct rk_spec_key *k = rk_spec_keys; k->key; k++, rows++) {
		const struct rk_jnode *p = property(root, k);
		assert_non_null(p);
		assert_non_null(rk_jstr(rk_jget(p, "description")));
		if (k->type == RK_JOBJECT) {
			bool open = true;
			properties += rk_jget(p, "properties")->n;
			assert_true(rk_jbool(rk_jget(p, "additionalProperties"), &open));
			assert_false(open);
		}
	}
	assert_int_equal(rows, properties);
}

static void required_keys_are_those_that_the_parser_misses(void **state)
{
	RK_CLEANUP_JSON struct rk_json *json = schema();
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_spec *spec = NULL;

	(void)state;
	assert_int_equal(rk_spec_parse("s", "{}", 2, arena, &spec, &err), RK_INVALID);
	const struct rk_jnode *required = rk_jget(rk_json_root(json), "required");
	assert_int_equal(required->n, err.n_details);
	RK_JEACH(it, required) {
		char *want RK_CLEANUP_FREE = rk_xasprintf("needs the key \"%s\"", it->text);
		bool found = false;
		for (size_t i = 0; i < err.n_details; i++)
			found |= strstr(err.details[i], want) != NULL;
		if (!found)
			fail_msg("the parser does not miss \"%s\"", it->text);
	}
}

#define MINIMAL "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Cluster\",\"name\":\"a\",\"tenant\":\"t\",\"size\":\"lab-tray\",\"count\":1,\"image\":\"i\""

/* What a spec without optional keys is written as has each default of the schema. */
static void defaults_are_what_an_absent_key_means(void **state)
{
	RK_CLEANUP_JSON struct rk_json *written = NULL;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_spec *spec = NULL;

	(void)state;
	assert_int_equal(rk_spec_parse("s", MINIMAL "}", strlen(MINIMAL "}"), arena, &spec, NULL), 0);
	rk_spec_write(spec, &text);
	assert_int_equal(rk_json_parse("written", text.text, text.len, &written, NULL), 0);
	for (const struct rk_spec_key *k = rk_spec_keys; k->key; k++) {
		const struct rk_jnode *value = rk_jget(rk_jget(rk_json_root(written), k->object), k->key);
		struct rk_str is RK_CLEANUP_STR = RK_STR_INIT;
		struct rk_jw w;
		/* A default that is none of the spec's own (the level) is not written. */
		if (!k->absent || !value)
			continue;
		rk_jw_init(&w, &is, 0);
		rk_jw_node(&w, value);
		assert_string_equal(rk_str_text(&is), k->absent);
	}
}

static void words_and_limits_are_those_of_the_parser(void **state)
{
	(void)state;
	for (const struct rk_spec_key *k = rk_spec_keys; k->key; k++) {
		if (!*k->object || (!k->words && k->type != RK_JNUMBER))
			continue;
		for (long i = 0; k->words ? k->words[i] != NULL : i < 3; i++) {
			struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
			struct rk_spec *spec = NULL;
			long number = i == 0 ? k->min : i == 1 ? k->max : k->max + 1;
			char *value RK_CLEANUP_FREE = k->words ? rk_xasprintf("\"%s\"", k->words[i]) : rk_xasprintf("%ld", number);
			char *text RK_CLEANUP_FREE = rk_xasprintf("{\"apiVersion\":\"racksh/v1\",\"kind\":\"Cluster\",\"name\":\"a\",\"tenant\":\"t\",\"size\":"
								  "\"lab-tray\",\"count\":100000,\"image\":\"i\",\"%s\":{\"%s\":%s}}", k->object, k->key, value);
			bool good = rk_spec_parse("s", text, strlen(text), arena, &spec, NULL) == 0;
			if (good != (k->words || i < 2))
				fail_msg("%s.%s %s is %s", k->object, k->key, value, good ? "accepted" : "refused");
		}
	}
}

static void user_data_is_a_cloud_config_or_a_script_of_bounded_size(void **state)
{
	char *large = rk_xmalloc(RK_SPEC_USER_DATA_MAX + 64);
	struct {
		const char *data;
		bool ok;
	} cases[] = {
		{ "#cloud-config\\npackages: [jq]\\n", true }, { "#!/bin/sh\\ntrue\\n", true }, { "packages: [jq]\\n", false }, { "", false },
		{ "#cloud-config-archive\\n", false }, { "#cloud-config\\nmerge_how: 'dict(replace)'\\n", false }, { "#include\\nhttp://x/\\n", false },
		{ large, false },
	};

	(void)state;
	/* A script just above the limit. */
	memcpy(large, "#!/bin/sh ", 10);
	memset(large + 10, 'x', RK_SPEC_USER_DATA_MAX);
	large[RK_SPEC_USER_DATA_MAX + 10] = '\0';
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct rk_spec *spec = NULL;
		char *text RK_CLEANUP_FREE = rk_xasprintf(MINIMAL ",\"cloudInit\":{\"userData\":\"%s\"}}", cases[i].data);
		if ((rk_spec_parse("s", text, strlen(text), arena, &spec, NULL) == 0) != cases[i].ok)
			fail_msg("%.40s is %s", cases[i].data, cases[i].ok ? "refused" : "accepted");
	}
	free(large);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row_is_a_property_and_every_property_a_row),
		cmocka_unit_test(required_keys_are_those_that_the_parser_misses),
		cmocka_unit_test(defaults_are_what_an_absent_key_means),
		cmocka_unit_test(words_and_limits_are_those_of_the_parser),
		cmocka_unit_test(user_data_is_a_cloud_config_or_a_script_of_bounded_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
