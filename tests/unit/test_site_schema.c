/* The schema and the reader of the site file say the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/schema.h"
#include "inventory/base/file.h"
#include "inventory/base/mem.h"
#include "inventory/site_file.h"
#include "inventory/site_keys.h"
#include "tests/contract/json_schema.h"

static struct rk_json *schema(void)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_json *json = NULL;

	assert_int_equal(rk_schema("site-file", NULL, &text, NULL), 0);
	assert_int_equal(rk_json_parse("schema", text.text, text.len, &json, NULL), 0);
	return json;
}

static const struct rk_jnode *result_of(const struct rk_json *json)
{
	return rk_jget(rk_jget(rk_json_root(json), "$defs"), "result");
}

static bool closed(const struct rk_jnode *object)
{
	bool open = true;

	return rk_jbool(rk_jget(object, "additionalProperties"), &open) && !open;
}

/* ---- what a schema describes, written down ------------------------------------------------------------------------------------ */

struct sample {
	struct rk_jw w;
	bool strange;   /* with a key "zz" that no object has */
	size_t objects; /* that take no other keys */
	const char *enum_at; /* "KEY" of an enum that gets a word of its own */
};

static void write_value(struct sample *s, const char *key, const struct rk_jnode *schema);

static void write_object(struct sample *s, const struct rk_jnode *schema)
{
	const struct rk_jnode *any = rk_jget(schema, "additionalProperties");

	rk_jw_object(&s->w);
	RK_JEACH(it, rk_jget(schema, "properties")) {
		rk_jw_key(&s->w, it->key);
		write_value(s, it->key, it);
	}
	if (closed(schema)) {
		s->objects++;
		if (s->strange) {
			rk_jw_key(&s->w, "zz");
			rk_jw_u64(&s->w, 1);
		}
	} else if (any) {
		rk_jw_key(&s->w, "a-t01");
		write_value(s, "", any);
	}
	rk_jw_end(&s->w);
}

/* 2 for numbers: tray 2 is absent then, and "a-t01" there. */
static void write_value(struct sample *s, const char *key, const struct rk_jnode *schema)
{
	const struct rk_jnode *words = rk_jget(schema, "enum");
	const char *type = rk_jstr(rk_jget(schema, "type"));

	if (words) {
		rk_jw_str(&s->w, rk_streq(s->enum_at, key) ? "zz" : rk_jstr(words->child));
	} else if (rk_streq(type, "object")) {
		write_object(s, schema);
	} else if (rk_streq(type, "array")) {
		rk_jw_array(&s->w);
		write_value(s, key, rk_jget(schema, "items"));
		rk_jw_end(&s->w);
	} else if (rk_streq(type, "boolean")) {
		rk_jw_bool(&s->w, true);
	} else if (rk_streq(type, "string")) {
		rk_jw_str(&s->w, strcmp(key, "profile") == 0 ? "gb300-nvl72" : "a");
	} else {
		assert_non_null(type); /* every key has a type */
		rk_jw_u64(&s->w, 2);
	}
}

/* How many problems with this text the reader has with a file of all keys. */
static size_t problems(struct sample *s, const char *text)
{
	RK_CLEANUP_JSON struct rk_json *json = schema();
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_site *site = NULL;
	size_t n = 0;

	rk_jw_init(&s->w, &out, 0);
	write_value(s, "", result_of(json));
	assert_int_equal(rk_site_parse("s", out.text, out.len, &site, &err), RK_INVALID);
	for (size_t i = 0; i < err.n_details; i++)
		n += strstr(err.details[i], text) != NULL;
	return n;
}

static void every_key_of_the_schema_is_read_with_its_type(void **state)
{
	static const char *const wrong[] = { "unknown ", "must be ", "needs the key" };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(wrong); i++) {
		struct sample s = { .strange = false };
		assert_int_equal(problems(&s, wrong[i]), 0);
	}
}

static void an_unknown_key_is_refused_in_every_object(void **state)
{
	struct sample s = { .strange = true };
	size_t n = problems(&s, "unknown key \"zz\"");

	(void)state;
	assert_int_equal(n, s.objects);
	assert_true(n >= RK_SITE_PARTS);
}

static void another_word_is_refused_where_words_are_listed(void **state)
{
	static const struct {
		const char *key;
		size_t n;
	} rows[] = { { "driver", 2 }, { "release", 1 }, { "arch", 1 }, { "format", 1 }, { "kind", 2 }, { "cordon", 1 } };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		struct sample s = { .enum_at = rows[i].key };
		char *text RK_CLEANUP_FREE = rk_xasprintf("unknown %s \"zz\"", rows[i].key);
		assert_int_equal(problems(&s, text), rows[i].n);
	}
}

/* ---- the rows of the reader, found again in the schema ------------------------------------------------------------------------ */

static bool is_required(const struct rk_jnode *schema, const char *key)
{
	RK_JEACH(it, rk_jget(schema, "required"))
		if (rk_streq(rk_jstr(it), key))
			return true;
	return false;
}

/* Down to the object a value holds, or to the value. */
static const struct rk_jnode *held(const struct rk_jnode *schema)
{
	const struct rk_jnode *items = rk_jget(schema, "items"), *any = rk_jget(schema, "additionalProperties");

	return items ? held(items) : any && any->type == RK_JOBJECT ? held(any) : schema;
}

static void compare(enum rk_site_part part, const struct rk_jnode *schema, bool seen[RK_SITE_PARTS])
{
	const struct rk_site_object *o = &rk_site_objects[part];

	seen[part] = true;
	assert_true(closed(schema));
	assert_int_equal(rk_jget(schema, "properties")->n, o->n);
	for (size_t i = 0; i < o->n; i++) {
		const struct rk_jnode *property = rk_jget(rk_jget(schema, "properties"), o->fields[i].key);
		const char *shape = rk_site_shape(part, o->fields[i].key), *at = shape ? strchr(shape, '@') : NULL;
		if (!property)
			fail_msg("no \"%s\" of %s in the schema", o->fields[i].key, o->what);
		assert_int_equal(is_required(schema, o->fields[i].key), o->fields[i].required);
		for (size_t k = 0; at && k < RK_SITE_PARTS; k++)
			if (strlen(rk_site_objects[k].name) == strcspn(at + 1, "]}") && rk_starts_with(at + 1, rk_site_objects[k].name))
				compare((enum rk_site_part)k, held(property), seen);
	}
}

static void every_key_of_the_reader_is_in_the_schema(void **state)
{
	RK_CLEANUP_JSON struct rk_json *json = schema();
	bool seen[RK_SITE_PARTS] = { false };

	(void)state;
	compare(RK_SITE_ROOT, result_of(json), seen);
	for (size_t i = 0; i < RK_SITE_PARTS; i++)
		if (!seen[i])
			fail_msg("the schema has no \"%s\"", rk_site_objects[i].name);
}

/* ---- files --------------------------------------------------------------------------------------------------------------------- */

/* As a word of its own. */
static bool names(const char *page, const char *key)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

	for (const char *at = strstr(page, key); at; at = strstr(at + 1, key))
		if (!strchr(letters, at[-1]) && !strchr(letters, at[strlen(key)]))
			return true;
	return false;
}

/* Keys that the rich file cannot have beside what it has. */
static bool is_alternative(const char *key)
{
	return strcmp(key, "macvtap") == 0 || strcmp(key, "command") == 0;
}

static bool obeys(const char *text)
{
	RK_CLEANUP_JSON struct rk_json *json = schema(), *doc = NULL;
	struct schema_check check = { .root = rk_json_root(json) };

	assert_int_equal(rk_json_parse("doc", text, strlen(text), &doc, NULL), 0);
	bool ok = schema_valid(&check, check.root, rk_json_root(doc));
	if (!ok)
		print_message("%s\n", check.problem);
	return ok;
}

static void an_export_has_all_keys_and_obeys_the_schema_and_a_stray_key_does_not(void **state)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_site *site = NULL;

	(void)state;
	assert_int_equal(rk_site_load("tests/fixtures/site/rich.json", &site, NULL), 0);
	rk_site_export(site, &out);
	assert_string_equal(site->trays[0].ssh_host, "10.30.8.1");
	assert_string_equal(site->trays[1].ssh_host, "r01-t02.example"); /* of the defaults */
	rk_site_free(site);
	assert_true(obeys(rk_str_text(&out)));
	for (size_t part = 0; part < RK_SITE_PARTS; part++)
		for (size_t i = 0; i < rk_site_objects[part].n; i++)
			if (!is_alternative(rk_site_objects[part].fields[i].key) && !names(rk_str_text(&out), rk_site_objects[part].fields[i].key))
				fail_msg("\"%s\" is lost in the export", rk_site_objects[part].fields[i].key);
	assert_false(obeys("{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"a\",\"racks\":[],\"rakcs\":[]}"));
	assert_false(obeys("{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"a\",\"racks\":[{\"name\":\"r\",\"tray\":{\"r-t01\":{\"sshHost\":\"h\"}}}]}"));
}

static void every_key_is_in_the_manual(void **state)
{
	char *page RK_CLEANUP_FREE = NULL;
	size_t len;

	(void)state;
	assert_int_equal(rk_file_read("man/racksh-site.5.in", 1 << 20, &page, &len, NULL), 0);
	for (size_t part = 0; part < RK_SITE_PARTS; part++)
		for (size_t i = 0; i < rk_site_objects[part].n; i++)
			if (!names(page, rk_site_objects[part].fields[i].key))
				fail_msg("man/racksh-site.5.in does not name \"%s\"", rk_site_objects[part].fields[i].key);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_of_the_schema_is_read_with_its_type),
		cmocka_unit_test(an_unknown_key_is_refused_in_every_object),
		cmocka_unit_test(another_word_is_refused_where_words_are_listed),
		cmocka_unit_test(every_key_of_the_reader_is_in_the_schema),
		cmocka_unit_test(an_export_has_all_keys_and_obeys_the_schema_and_a_stray_key_does_not),
		cmocka_unit_test(every_key_is_in_the_manual),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
