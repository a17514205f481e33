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
	int opened;      /* racks added */
	int pool;        /* VMs that may go to racks without a reservation of the tenant */
};
enum { RK_UNLIMITED = 1 << 30 };

/* Places count VMs in segments (the last one may be smaller); true and seats[].used filled in, or false and nothing used. The policy decides among
 * possible placements; when its own order runs into maxRacks or the pool, whatever fits is taken: false means that nothing fits. */
bool rk_choose(struct rk_choice *choice, int count, int segment, enum rk_policy policy);
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
	int spares;              /* kept */
	int allocated, cordoned, faulty, offline, leaking, incomplete, outdated; /* trays left out, by reason */
	const char *version;     /* what the outdated ones run, or NULL */
	double kw_used, kw_budget, kw_vm;
	const char *budget;      /* "power" or "cooling": what kw_budget is about */
	int by_power;            /* VMs that the budget allows */
};
/* Rules that may be lifted to find out what is in the way. */
enum { RK_LIFT_CORDONS = 1, RK_LIFT_RESERVATIONS = 2, RK_LIFT_SPARES = 4, RK_LIFT_RACKS = 8, RK_LIFT_MAX_RACKS = 16, RK_LIFT_APART = 32 };

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
	bool *fits;              /* per tray: may hold a VM of the size */
	struct rk_baseline {     /* versions expected in the rack that is looked at */
		const char *key, *value;
	} *baseline; size_t n_baseline;
	const char *baseline_text;
	const char *last_versions, *last_outdated; /* what was said of the last tray: neighbours run the same */
	int *group;              /* per rack: leaf group */
	int *apart;              /* per rack: a cluster there with which this one shares no rack, or RK_NONE */
	int *holder;             /* per rack: reservation of somebody else that ends last, or RK_NONE */
	bool *mine;              /* per rack: reserved for the tenant */
	struct rk_verdict *verdicts; /* per rack */
	struct rk_choice choice;
	unsigned lift;
	const bool *lift_racks;  /* racks whose cordons are lifted with RK_LIFT_CORDONS; NULL: all */
	const bool *lift_reservations; /* the same per reservation, with RK_LIFT_RESERVATIONS */
};
/* Trays of one NVLink domain: the rack, or without switch trays each box for itself. */
int rk_place_domain(const struct rk_profile *profile);
/* Fills in verdicts and choice.seats by all rules but those lifted (place_rules.c). */
void rk_placer_weigh(struct rk_placer *p);
/* Reservations into holder and mine; the pool (place_reserve.c). */
void rk_placer_reservations(struct rk_placer *p);
/* Anti-affinity into apart (place_apart.c). */
void rk_placer_apart(struct rk_placer *p);
/* Chooses within one InfiniBand fabric, the one that needs the fewest racks. */
bool rk_placer_choose(struct rk_placer *p, int count, int segment);
bool rk_placer_fits(struct rk_placer *p, int count, int segment);
/* One reason per rack, and what would make it possible (place_explain.c). */
void rk_placer_explain(const struct rk_placer *p, bool feasible, struct rk_place_reason *reasons);
void rk_placer_suggest(struct rk_placer *p, struct rk_placement *ret);
double rk_placer_kw(const struct rk_placer *p, int rack); /* of one VM of the size there */

/* A reservation that has not ended at the time of the snapshot. */
bool rk_reservation_alive(const struct rk_site *site, const struct rk_reservation *r);
/* Its racks; *ret_n = 0 when it is one by number. Racks that are gone are left out. */
void rk_reservation_racks(const struct rk_site *site, const struct rk_reservation *r, struct rk_arena *arena, int **ret, size_t *ret_n);

/* Room after the choice, per rack, without regard to the tenant: what capacity figures are made of. */
struct rk_capacity_of {
	int free;
	int segments[RK_SEGMENT_KINDS];
	double fragmentation;
};
void rk_capacity_sum(const int *room, size_t n, struct rk_capacity_of *ret);
/* Trays a rack keeps free: its own spares, or what a cluster in it asked for. */
int rk_rack_spares(const struct rk_site *site, int rack);
/* Room per rack for trays of the profile's own power: healthy, free, not cordoned, spares kept. */
int rk_capacity_room(const struct rk_site *site, int rack);
/* The same once `taken` of those trays are given away, which may draw `taken_kw`, to a cluster that wants `spares` kept beside it. */
int rk_capacity_left(const struct rk_site *site, int rack, int taken, double taken_kw, int spares);
