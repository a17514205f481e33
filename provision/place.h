/* Placement: pure function from (snapshot, spec) to (trays, reasons, what is left). Deterministic.
 *
 * Hard rules, in the order in which they are named as reasons: asked for (`racks`), size fits, rack not cordoned, no leak alarm (two leaking
 * trays), not reserved for others, no cluster that is kept apart from it (antiAffinity, both ways), enough trays (healthy, free, not cordoned, no leak, rail-complete, on the rack's InfiniBand fabric, at the
 * version baseline, spares kept), power and cooling budget, maxRacks, one InfiniBand fabric per cluster, tenant quota, trays that are reserved by
 * number. Clusters have no end, so a reservation of others counts from the moment it is made until it ends. */
#pragma once
#include "inventory/model.h"
#include "vmspec/vmspec.h"

/* Segments whose number is reported: 18, 16, 8 and 4 VMs. */
enum { RK_SEGMENT_KINDS = 4 };
extern const int rk_segment_sizes[RK_SEGMENT_KINDS];

struct rk_place_reason {
	int rack;
	const char *verdict;              /* "chosen" | "possible" | "refused" */
	const char *why;                  /* "14 free, needs 18" */
};
/* A change that alone would make an infeasible placement possible. */
struct rk_place_change {
	const char *kind;                 /* count | segment | max_racks | racks | spares | anti_affinity | uncordon | reservation | quota */
	int value;                        /* count (of all VMs), segment, max_racks: what would fit; else 0 */
	const char *objects;              /* uncordon: nodeset of racks and trays; reservation: "2,5"; else NULL */
	const char *text;                 /* "uncordon r01-t[03-04]" */
};
struct rk_placement {
	bool feasible;
	int count;                        /* VMs that were to be placed */
	int segment;                      /* VMs that share a domain, as used */
	int *trays; size_t n_trays;       /* one per VM, in VM order; empty when not feasible */
	struct rk_place_reason *reasons; size_t n_reasons; /* exactly one per rack, in rack order */
	double kw_added;
	double fragmentation_after;       /* ext_frag(16) of field/ecosystem.md 4.1 after it: share of the free trays outside whole 16-VM segments */
	int segments_after[RK_SEGMENT_KINDS]; /* segments of rk_segment_sizes that still fit afterwards */
	const char *limit;                /* what forbids it whatever the racks (a quota), or NULL */
	const char *suggestion;           /* the changes in one sentence, or NULL when feasible */
	struct rk_place_change *changes; size_t n_changes;
	const char *warning;              /* or NULL */
};
/* keep: trays the cluster holds already (grow), may be NULL; the result adds spec->count - n_keep. All in the arena.
 * Not feasible is 0 with feasible = false; RK_INVALID/RK_NOT_FOUND only for bad input (unknown size, rack, tenant). */
int rk_place(const struct rk_site *site, const struct rk_spec *spec, const struct rk_size *size, const int *keep, size_t n_keep,
	     struct rk_arena *arena, struct rk_placement *ret, struct rk_err *err);
/* "place at most 4 VMs": what is said of fewer VMs (of all, when a cluster is grown) that would fit. */
const char *rk_place_at_most(const struct rk_spec *spec, bool grown, int most, struct rk_arena *arena);
int rk_tray_fabric(const struct rk_site *site, int tray); /* of its first port; RK_NONE: none */
/* Has `hcas` rails, each port on this fabric, and `gpus` GPUs. */
bool rk_tray_complete(const struct rk_site *site, int tray, int fabric, int hcas, int gpus);
/* Does the spec (JSON, or NULL) of a cluster say that it shares no rack with `cluster`? */
bool rk_spec_keeps_apart(const char *spec_json, const char *cluster);

/* Per rack, for how many VMs that take all of a tray it has room now: trays that are healthy, empty, not cordoned, rail-complete and at the versions
 * expected, no more of them than power and cooling allow, spares kept; none in a rack with a leak alarm. Reservations are not looked at. */
int *rk_capacity_rooms(const struct rk_site *site, struct rk_arena *arena);
/* The same of the site as a whole: how many trays and how many segments of each kind in one NVLink domain, now and after losing whichever single rack
 * hurts most. */
struct rk_capacity {
	int free, whole_racks, largest;   /* trays; racks with every tray free; most VMs that fit in one NVLink domain */
	int reserved;                     /* free trays in reserved racks, and those that are promised by number and not held yet */
	int segments[RK_SEGMENT_KINDS], segments_less_one_rack[RK_SEGMENT_KINDS];
	double fragmentation;             /* ext_frag(16) */
};
void rk_capacity(const struct rk_site *site, struct rk_capacity *ret);
