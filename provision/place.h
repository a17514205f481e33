/* Placement: pure function from (snapshot, spec) to (trays, reasons, what is left). Deterministic. */
#pragma once
#include "inventory/model.h"
#include "vmspec/vmspec.h"

struct rk_place_reason {
	int rack;
	const char *verdict;              /* "chosen" | "possible" | "refused" */
	const char *why;                  /* "14 free, needs 18" */
};
struct rk_placement {
	bool feasible;
	int segment;                      /* VMs that share a domain, as used */
	int *trays; size_t n_trays;       /* one per VM, in VM order; empty when not feasible */
	struct rk_place_reason *reasons; size_t n_reasons; /* exactly one per rack, in rack order */
	double kw_added;
	double fragmentation_after;       /* ext_frag(16) of field/ecosystem.md 4.1 after it */
	const char *suggestion;           /* smallest change that would make it possible, or NULL */
	const char *warning;              /* or NULL */
};
/* keep: trays the cluster holds already (grow), may be NULL; the result adds spec->count - n_keep. All in the arena.
 * Not feasible is 0 with feasible = false; RK_INVALID/RK_NOT_FOUND only for bad input (unknown size, rack, tenant). */
int rk_place(const struct rk_site *site, const struct rk_spec *spec, const struct rk_size *size, const int *keep, size_t n_keep,
	     struct rk_arena *arena, struct rk_placement *ret, struct rk_err *err);
