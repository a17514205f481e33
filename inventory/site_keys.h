/* Every key of a site file, by the object it is in. The reader refuses all others, and `racksh schema site-file` is made of these rows. */
#pragma once
#include "inventory/base/diag.h"

enum rk_site_part {
	RK_SITE_ROOT,
	RK_SITE_DEFAULTS,
	RK_SITE_HYPERVISOR,
	RK_SITE_SSH,
	RK_SITE_BMC,
	RK_SITE_NETWORK,
	RK_SITE_STORAGE,
	RK_SITE_HOOKS,
	RK_SITE_HEALTH,
	RK_SITE_METER,
	RK_SITE_FABRIC,
	RK_SITE_IMAGE,
	RK_SITE_TENANT,
	RK_SITE_QUOTA,
	RK_SITE_SIZE,
	RK_SITE_RACK,
	RK_SITE_NVLINK,
	RK_SITE_TRAYS,
	RK_SITE_TRAY,
	RK_SITE_GPU,
	RK_SITE_HCA,
	RK_SITE_RACK_PART,
	RK_SITE_TRAY_PART,
	RK_SITE_PARTS
};

struct rk_site_object {
	const char *name; /* in shapes, after '@' */
	const char *what; /* in messages */
	const struct rk_jfield *fields;
	size_t n;
};
extern const struct rk_site_object rk_site_objects[RK_SITE_PARTS];

/* What a value holds, where its type alone does not say (text and whole number are what is meant otherwise): a shape of cli/schema.h in
 * which "@NAME" stands for an object. NULL for the others. */
const char *rk_site_shape(enum rk_site_part part, const char *key);

/* Reports what rk_diag_fields does, and words that are none of those of the key's shape. False when node is no object. */
bool rk_site_fields(struct rk_diags *diags, const struct rk_jnode *node, enum rk_site_part part);
