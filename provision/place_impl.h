/* What the files of placement share. Private to provision/place*.c and provision/simulate.c. */
#pragma once
#include "provision/place.h"

/* One rack as a choice sees it. */
struct rk_seat {
	int rack;        /* index in the site; seats are in rack order */
	int room;        /* VMs that may go there by all rules of the rack */
	int used;        /* VMs this choice puts there */
	int held;        /* VMs of the same cluster that are there already */
	int group;       /* racks with the same number share leaves; RK_NONE: unknown */
	int fabric;      /* InfiniBand fabric of its ports, or RK_NONE */
	bool kept;       /* reserved for this tenant: does not draw on the pool */
};
struct rk_choice {
	struct rk_seat *seats; size_t n;
	struct rk_arena *arena;
	int fabric;      /* racks of this fabric only; RK_NONE: any */
	int max_new;     /* racks that may be added to those the cluster is in */
	bool forced;     /* the policy's own order ran into max_new or the pool: whatever fits was taken */
	int opened;      /* racks added */
	int pool;        /* VMs that may go to racks without a reservation of the tenant */
};
enum { RK_UNLIMITED = 1 << 30 };

/* Places count VMs in segments (the last one may be smaller); true and seats[].used filled in, or false and nothing used. The policy decides among
 * possible placements; when its own order runs into maxRacks or the pool, whatever fits is taken: false means that nothing fits. */
bool rk_choose(struct rk_choice *choice, int count, int segment, enum rk_policy policy);
/* What the policy looks at first when two placements are compared; smaller is better, key by key. */
enum { RK_WORTH_KEYS = 4 };
void rk_choice_worth(const struct rk_choice *choice, enum rk_policy policy, int worth[RK_WORTH_KEYS]);
bool rk_keys_less(const int *a, const int *b, size_t n); /* n > 0; at the first key where they differ */
/* Would it fit? Leaves nothing used. */
bool rk_choice_fits(struct rk_choice *choice, int count, int segment);
void rk_choice_forget(struct rk_choice *choice);
/* VMs that may still go into a seat. */
int rk_choice_left(const struct rk_choice *choice, const struct rk_seat *seat);
void rk_choice_take(struct rk_choice *choice, struct rk_seat *seat, int vms);

/* Why a rack has the room it has. */
struct rk_verdict {
	const char *barrier;     /* refuses the whole rack, or NULL */
	int free;                /* usable trays, spares taken off */
	int whole;               /* trays that a VM could have that takes all of one, spares included */
	int spares;              /* kept */
	int allocated, cordoned, faulty, offline, leaking, incomplete, outdated; /* trays left out, by reason */
	const char *version;     /* what the outdated ones run, or NULL */
	double kw_used, kw_budget, kw_vm;
	const char *budget;      /* "power" or "cooling": what kw_budget is about */
	int by_power;            /* VMs that the budget allows */
};
/* Rules that may be lifted to find out what is in the way. */
enum { RK_LIFT_SPARES = 1, RK_LIFT_RACKS = 2, RK_LIFT_MAX_RACKS = 4, RK_LIFT_APART = 8 };

/* Versions that are expected, and what was said of the last tray: neighbours run the same. Begins with site and arena alone. */
struct rk_versions {
	const struct rk_site *site;
	struct rk_arena *arena;
	struct rk_baseline {
		const char *key, *value;
	} *baseline; size_t n;
	const char *text;        /* what the baseline was read from */
	const char *last_seen, *last_said;
};
/* What a tray runs where the site, or its rack instead, expects something else: "driver 570.1 (580.2 expected)", or NULL. What was never read is no
 * reason. In the arena. */
const char *rk_tray_outdated(struct rk_versions *versions, int tray);
int rk_rack_fabric(const struct rk_site *site, int rack); /* of most of its trays; RK_NONE: none */

struct rk_placer {
	const struct rk_site *site;
	const struct rk_spec *spec;
	const struct rk_size *size;
	struct rk_arena *arena;
	int tenant;
	const int *keep; size_t n_keep;
	int count, segment;      /* to be placed now */
	int spec_segment;        /* VMs that share a domain in the cluster as a whole */
	bool *asked;             /* per rack: in `racks` of the spec */
	int quota_left;          /* VMs that the tenant's quota allows it, or RK_UNLIMITED */
	bool *fits;              /* per tray: may hold a VM of the size */
	bool *whole;             /* per tray: may hold a VM that takes all of it */
	struct rk_versions versions;
	int *group;              /* per rack: leaf group */
	int *apart;              /* per rack: a cluster there with which this one shares no rack, or RK_NONE */
	int *holder;             /* per rack: reservation of somebody else that ends last, or RK_NONE */
	bool *mine;              /* per rack: reserved for the tenant */
	struct rk_reserved {
		int *racks; size_t n;
	} *reserved;             /* per reservation: its racks, none when it has ended */
	int *claims;             /* rk_claims, but for the tenant */
	struct rk_verdict *verdicts; /* per rack */
	struct rk_choice choice;
	unsigned lift;
	const bool *lift_cordons; /* those of trays, then those of racks, that are lifted; NULL: none */
	const bool *lift_reservations; /* the same per reservation */
};
/* Trays of one NVLink domain: the rack, or without switch trays each box for itself. */
int rk_place_domain(const struct rk_profile *profile);
/* Fills in verdicts and choice.seats by all rules but those lifted (place_rules.c). */
void rk_placer_weigh(struct rk_placer *p);
/* The same when nothing but cordons and reservations of these racks was lifted, or is no longer, since; clears the flags. */
void rk_placer_weigh_again(struct rk_placer *p, bool *racks);
/* Reservations into holder and mine; of the racks as they were weighed, the pool (place_reserve.c). */
void rk_placer_reservations(struct rk_placer *p);
void rk_placer_pool(struct rk_placer *p);
/* Trays that the rack keeps free whatever the spec asks for. */
int rk_placer_own_spares(const struct rk_placer *p, int rack);
/* Anti-affinity into apart (place_apart.c). */
void rk_placer_apart(struct rk_placer *p);
/* Chooses within one InfiniBand fabric, the one that the policy likes best. */
bool rk_placer_choose(struct rk_placer *p, int count, int segment);
bool rk_placer_fits(struct rk_placer *p, int count, int segment);
/* One reason per rack, and what would make it possible (place_explain.c). */
void rk_placer_explain(const struct rk_placer *p, bool feasible, struct rk_place_reason *reasons);
void rk_placer_suggest(struct rk_placer *p, struct rk_placement *ret);
/* The cordons (flags as lift_cordons), or reservations of others, that would have to go for it; the fewest, unless finding them would take too long:
 * then as few as were found. NULL: that alone would not do (place_fewest.c). */
const bool *rk_placer_fewest_cordons(struct rk_placer *p);
const bool *rk_placer_fewest_reservations(struct rk_placer *p);
double rk_placer_kw(const struct rk_placer *p, int rack); /* of one VM of the size there */

/* A reservation that has not ended at the time of the snapshot. */
bool rk_reservation_alive(const struct rk_site *site, const struct rk_reservation *r);
/* Per tenant, how many trays it has a claim to before reservations by number are looked at: minus those that it holds. In the arena. */
int *rk_claims(const struct rk_site *site, struct rk_arena *arena);
/* The most trays that are promised by number at any time between the two, beyond what is held; lifted: reservations that do not count, or NULL. */
int rk_promised(const struct rk_site *site, const int *claims, int64_t from, int64_t to, const bool *lifted, struct rk_arena *arena);
/* Its racks; *ret_n = 0 when it is one by number. Racks that are gone are left out. */
void rk_reservation_racks(const struct rk_site *site, const struct rk_reservation *r, struct rk_arena *arena, int **ret, size_t *ret_n);

/* Room after the choice, per rack, without regard to the tenant: what capacity figures are made of. */
struct rk_capacity_of {
	int free;
	int segments[RK_SEGMENT_KINDS];
	double fragmentation;
};
void rk_capacity_sum(const struct rk_site *site, const int *room, struct rk_capacity_of *ret);
/* VMs that take all of a tray for which a rack has room when it has `whole` trays for them, keeps `spares`, and gave `taken_kw` away: 0 under a leak
 * alarm, at most what power and cooling allow. */
int rk_rack_room(const struct rk_site *site, int rack, int whole, int spares, double taken_kw);
