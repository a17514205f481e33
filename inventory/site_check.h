/* Checks of a whole stored site: what no single value tells. Pure; the store's own part is rk_store_judge (store.h). */
#pragma once
#include "inventory/model.h"

struct rk_site_finding {
	const char *check;           /* "identity", "slot", "spares", "power", "quota", "cluster", "leak", "tray", "manager", "reservation", ... */
	const char *severity;        /* "fail" contradicts or endangers something; "warn" works, but not as it should; "unknown" cannot be judged */
	const char *object, *message, *hint; /* hint may be NULL */
};
struct rk_site_findings {
	struct rk_arena *arena;      /* borrowed; owns the texts */
	struct rk_site_finding *items; size_t n, cap; /* items: free() */
};
void rk_site_check(const struct rk_site *site, struct rk_site_findings *found);
/* All arguments are copied; hint may be NULL. */
void rk_site_finding_add(struct rk_site_findings *found, const char *check, const char *severity, const char *object, const char *hint, const char *format, ...)
	__attribute__((format(printf, 6, 7)));
