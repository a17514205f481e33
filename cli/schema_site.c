#include "cli/schema.h"

#include <string.h>

#include "inventory/base/str.h"
#include "inventory/site_keys.h"

static void add_object(struct rk_str *out, enum rk_site_part part);

static enum rk_site_part part_called(const char *name, size_t len)
{
	enum rk_site_part part = 0;

	while (part < RK_SITE_PARTS && (strlen(rk_site_objects[part].name) != len || strncmp(rk_site_objects[part].name, name, len) != 0))
		part++;
	return part;
}

/* The shape with the object it names, if any, written out. */
static void add_shape(struct rk_str *out, const char *shape)
{
	size_t before = strcspn(shape, "@"), len = strcspn(shape + before, "]}");

	rk_str_addn(out, shape, before);
	if (!shape[before])
		return;
	add_object(out, part_called(shape + before + 1, len - 1));
	rk_str_add(out, shape + before + len);
}

/* Objects are nested a few levels, none in itself. */
static void add_object(struct rk_str *out, enum rk_site_part part)
{
	static const char *const by_type[] = { [RK_JSTRING] = "s", [RK_JNUMBER] = "i", [RK_JBOOL] = "b" };
	const struct rk_site_object *o = &rk_site_objects[part];

	rk_str_add(out, "{!");
	for (size_t i = 0; i < o->n; i++) {
		const struct rk_jfield *f = &o->fields[i];
		const char *shape = rk_site_shape(part, f->key);
		rk_str_addf(out, "%s%s%s:", i ? "," : "", f->key, f->required ? "" : "~");
		add_shape(out, shape ? shape : by_type[f->type]);
	}
	rk_str_add(out, "}");
}

void rk_schema_site(struct rk_str *out)
{
	add_object(out, RK_SITE_ROOT);
}
