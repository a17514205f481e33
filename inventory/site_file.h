/* The site file (racksh-site(5), `kind: Site`): import, export, differences.
 *
 * Limits: 64 MiB and 10,000 racks per file. Every problem is reported at once with line and column (struct rk_diags rules). */
#pragma once
#include "inventory/base/str.h"
#include "inventory/model.h"

enum { RK_SITE_FILE_MAX = 64 << 20, RK_SITE_RACKS_MAX = 10000 };

/* Parses, expands nodesets and {rack} {tray} {slot}, fills in what the profile fixes and checks everything (names, doubles of GUID,
 * serial, PCI address, URI, overlapping racks ...: both places are named). path is only for messages. On success *ret is sealed. */
int rk_site_parse(const char *path, const char *text, size_t len, struct rk_site **ret, struct rk_err *err);
int rk_site_load(const char *path, struct rk_site **ret, struct rk_err *err); /* "-" is standard input */

/* Stable, diff-able JSON that imports to the same inventory. Appends to out. */
void rk_site_export(const struct rk_site *site, struct rk_str *out);

/* SHA-256 of the export, 64 hex digits: what the file says, however it is laid out. */
void rk_site_digest(const struct rk_site *site, char ret[65]);

/* Makes up what is missing (GUIDs, serials, ClusterUUIDs, NVMe addresses) deterministically from names: the twin only. */
void rk_site_invent(struct rk_site *site);

struct rk_site_change {
	const char *object, *field, *from, *to; /* from NULL: added; to NULL: removed */
};
/* What an import of `to` over `from` would change, value by value, in the arena. */
void rk_site_diff(const struct rk_site *from, const struct rk_site *to, struct rk_arena *arena, struct rk_site_change **ret, size_t *ret_n);
