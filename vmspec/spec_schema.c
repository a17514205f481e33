#include "vmspec/spec_schema.h"

#include <string.h>

#include "inventory/base/mem.h"
#include "vmspec/spec_keys.h"

static void text(struct rk_jw *w, const char *key, const char *value)
{
	rk_jw_key(w, key);
	rk_jw_str(w, value);
}

static void whole(struct rk_jw *w, const char *key, long value)
{
	rk_jw_key(w, key);
	rk_jw_i64(w, value);
}

static void json(struct rk_jw *w, const char *key, const char *value)
{
	RK_CLEANUP_JSON struct rk_json *doc = NULL;

	if (!value || rk_json_parse(key, value, strlen(value), &doc, NULL))
		return;
	rk_jw_key(w, key);
	rk_jw_node(w, rk_json_root(doc));
}

static void object(struct rk_jw *w, const char *name);

static void string_row(struct rk_jw *w, const struct rk_spec_key *k)
{
	if (k->pattern)
		text(w, "pattern", k->pattern);
	if (k->max)
		whole(w, "maxLength", k->max);
	if (!k->words)
		return;
	rk_jw_key(w, "enum");
	rk_jw_array(w);
	for (const char *const *word = k->words; *word; word++)
		rk_jw_str(w, *word);
	rk_jw_end(w);
}

static void number_row(struct rk_jw *w, const struct rk_spec_key *k)
{
	whole(w, "minimum", k->min);
	whole(w, "maximum", k->max);
}

static void array_row(struct rk_jw *w, const struct rk_spec_key *k)
{
	whole(w, "maxItems", k->max);
	rk_jw_key(w, "items");
	rk_jw_object(w);
	text(w, "type", "string");
	text(w, "pattern", k->pattern);
	rk_jw_end(w);
}

static void object_row(struct rk_jw *w, const struct rk_spec_key *k)
{
	object(w, k->key);
}

/* By type: its name in a schema, and what else a row of it says. */
static const struct {
	const char *name;
	void (*more)(struct rk_jw *w, const struct rk_spec_key *k);
} types[] = {
	[RK_JNULL] = { "null", NULL },           [RK_JBOOL] = { "boolean", NULL },      [RK_JNUMBER] = { "integer", number_row },
	[RK_JSTRING] = { "string", string_row }, [RK_JARRAY] = { "array", array_row }, [RK_JOBJECT] = { "object", object_row },
};

static void property(struct rk_jw *w, const struct rk_spec_key *k)
{
	rk_jw_key(w, k->key);
	rk_jw_object(w);
	text(w, "description", k->help);
	text(w, "type", types[k->type].name);
	if (types[k->type].more)
		types[k->type].more(w, k);
	json(w, "default", k->absent);
	rk_jw_end(w);
}

/* The keys of one object; an unknown key is an error there too. */
static void object(struct rk_jw *w, const char *name)
{
	rk_jw_key(w, "additionalProperties");
	rk_jw_bool(w, false);
	rk_jw_key(w, "required");
	rk_jw_array(w);
	for (const struct rk_spec_key *k = rk_spec_keys; k->key; k++)
		if (rk_streq(k->object, name) && k->required)
			rk_jw_str(w, k->key);
	rk_jw_end(w);
	rk_jw_key(w, "properties");
	rk_jw_object(w);
	for (const struct rk_spec_key *k = rk_spec_keys; k->key; k++)
		if (rk_streq(k->object, name))
			property(w, k);
	rk_jw_end(w);
}

void rk_spec_schema(struct rk_str *out)
{
	struct rk_jw w;

	rk_jw_init(&w, out, 1);
	rk_jw_object(&w);
	text(&w, "$schema", "https://json-schema.org/draft/2020-12/schema");
	text(&w, "title", "racksh cluster spec");
	text(&w, "type", "object");
	object(&w, "");
	rk_jw_end(&w);
	rk_str_addc(out, '\n');
}
