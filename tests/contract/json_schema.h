/* A small JSON schema validator (what racksh's own schemas use of draft 2020-12): type, enum, required, properties, additionalProperties,
 * items, pattern, $ref to "#/$defs/...". Other keywords are taken as remarks. */
#pragma once
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "inventory/base/json.h"
#include "inventory/base/mem.h"

struct schema_check {
	const struct rk_jnode *root;
	char where[256], problem[512];
};

static inline bool schema_type_is(const struct rk_jnode *node, const char *type)
{
	static const char *const names[] = { [RK_JNULL] = "null", [RK_JBOOL] = "boolean", [RK_JNUMBER] = "number", [RK_JSTRING] = "string",
					     [RK_JARRAY] = "array", [RK_JOBJECT] = "object" };

	if (strcmp(type, "integer") == 0)
		return node->type == RK_JNUMBER && !strpbrk(node->text, ".eE");
	return strcmp(names[node->type], type) == 0;
}

static inline bool schema_type_ok(const struct rk_jnode *type, const struct rk_jnode *node)
{
	if (!type || rk_jstr(type))
		return !type || schema_type_is(node, rk_jstr(type));
	RK_JEACH(it, type)
		if (schema_type_is(node, rk_jstr(it)))
			return true;
	return false;
}

static inline bool schema_enum_ok(const struct rk_jnode *list, const struct rk_jnode *node)
{
	RK_JEACH(it, list)
		if (it->type == node->type && (node->type == RK_JNULL || rk_streq(it->text, node->text)))
			return true;
	return !list;
}

static inline bool schema_pattern_ok(const struct rk_jnode *pattern, const struct rk_jnode *node)
{
	regex_t regex;

	if (!pattern || node->type != RK_JSTRING)
		return true;
	if (regcomp(&regex, rk_jstr(pattern), REG_EXTENDED | REG_NOSUB))
		return false;
	bool ok = regexec(&regex, node->text, 0, NULL, 0) == 0;
	regfree(&regex);
	return ok;
}

static inline bool schema_fail(struct schema_check *c, const char *what)
{
	snprintf(c->problem, sizeof(c->problem), "%s: %s", c->where, what);
	return false;
}

static inline bool schema_valid(struct schema_check *c, const struct rk_jnode *schema, const struct rk_jnode *node);

/* Checks a part, with its place in c->where meanwhile. */
static inline bool schema_part(struct schema_check *c, const struct rk_jnode *schema, const struct rk_jnode *node, const char *name)
{
	size_t len = strlen(c->where);

	snprintf(c->where + len, sizeof(c->where) - len, ".%s", name);
	bool ok = schema_valid(c, schema, node);
	c->where[len] = '\0';
	return ok;
}

static inline bool schema_object_ok(struct schema_check *c, const struct rk_jnode *schema, const struct rk_jnode *node)
{
	const struct rk_jnode *properties = rk_jget(schema, "properties"), *more = rk_jget(schema, "additionalProperties");
	bool closed;

	RK_JEACH(it, rk_jget(schema, "required"))
		if (!rk_jget(node, rk_jstr(it)))
			return schema_fail(c, rk_jstr(it));
	RK_JEACH(it, node) {
		const struct rk_jnode *own = rk_jget(properties, it->key);
		if (!own && more && rk_jbool(more, &closed) && !closed)
			return schema_fail(c, it->key);
		if (own ? !schema_part(c, own, it, it->key) : more && more->type == RK_JOBJECT && !schema_part(c, more, it, it->key))
			return false;
	}
	return true;
}

static inline bool schema_valid(struct schema_check *c, const struct rk_jnode *schema, const struct rk_jnode *node)
{
	const char *ref = rk_jstr(rk_jget(schema, "$ref"));

	if (ref)
		return schema_valid(c, rk_jget(rk_jget(c->root, "$defs"), ref + strlen("#/$defs/")), node);
	if (!schema_type_ok(rk_jget(schema, "type"), node))
		return schema_fail(c, "wrong type");
	if (!schema_enum_ok(rk_jget(schema, "enum"), node))
		return schema_fail(c, node->text ? node->text : "not one of the words");
	if (!schema_pattern_ok(rk_jget(schema, "pattern"), node))
		return schema_fail(c, node->text);
	if (node->type == RK_JOBJECT && !schema_object_ok(c, schema, node))
		return false;
	if (node->type == RK_JARRAY && rk_jget(schema, "items"))
		RK_JEACH(it, node)
			if (!schema_part(c, rk_jget(schema, "items"), it, "[]"))
				return false;
	return true;
}
