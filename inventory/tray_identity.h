/* The identities of one tray's hardware: what changes when a tray is replaced. */
#pragma once
#include "inventory/model.h"

enum { RK_TRAY_IDENTITY_MAX = 1 << 20 }; /* bytes of a file */

struct rk_tray_identity {
	const char *serial;          /* NULL: not known */
	struct {
		uint64_t guid;       /* 0: not known */
		const char *serial, *uuid;
	} gpus[RK_GPUS_MAX];         /* by index */
	uint64_t ports[RK_RAILS_MAX]; /* by rail */
};
/* A tray object as in a site file: {"serial":..., "gpus":[{"index","fabricGuid","serial","uuid"}], "hcas":[{"rail","portGuid"}]}. All problems at
 * once, with line and column. Texts are copied into the arena. */
int rk_tray_identity_parse(const char *path, const char *text, size_t len, struct rk_arena *arena, struct rk_tray_identity *ret, struct rk_err *err);
/* What the site has for a tray; texts are borrowed. */
void rk_tray_identity_of(const struct rk_site *site, int tray, struct rk_tray_identity *ret);
/* RK_INVALID naming what is missing: a replacement names every GPU and every port. */
int rk_tray_identity_complete(const struct rk_site *site, int tray, const struct rk_tray_identity *identity, struct rk_err *err);
