#include <math.h>
#include <string.h>

#include "inventory/base/str.h"
#include "provision/place_impl.h"
#include "provision/power.h"

enum { FRAGMENT = 16 };
const int rk_segment_sizes[RK_SEGMENT_KINDS] = { 18, 16, 8, 4 };

int rk_place_domain(const struct rk_profile *profile)
{
	return profile->switch_trays ? profile->trays : 1;
}

static int domain_of(const struct rk_site *site, size_t rack)
{
	return rk_place_domain(&site->profiles[site->racks[rack].profile]);
}

/* Segments of so many VMs that the rack's room is good for. */
static int segments_in(const struct rk_site *site, size_t rack, int room, int segment)
{
	return segment <= domain_of(site, rack) ? room / segment : 0;
}

void rk_capacity_sum(const struct rk_site *site, const int *room, struct rk_capacity_of *ret)
{
	long large = 0;

	*ret = (struct rk_capacity_of){ 0 };
	for (size_t r = 0; r < site->n_racks; r++) {
		ret->free += room[r];
		large += segments_in(site, r, room[r], FRAGMENT) * FRAGMENT;
		for (int k = 0; k < RK_SEGMENT_KINDS; k++)
			ret->segments[k] += segments_in(site, r, room[r], rk_segment_sizes[k]);
	}
	ret->fragmentation = ret->free ? 1.0 - (double)large / ret->free : 0;
}

int rk_rack_room(const struct rk_site *site, int rack, int whole, int spares, double taken_kw)
{
	double kw = site->profiles[site->racks[rack].profile].tray_kw;
	int n = whole > spares ? whole - spares : 0;
	const char *what;

	if (rk_rack_leaks(site, rack) >= RK_LEAK_ALARM_TRAYS)
		return 0;
	int by_power = kw > 0 ? (int)floor((rk_power_budget(site, rack, &what) - rk_power_committed(site, rack) - taken_kw) / kw + 1e-9) : n;
	return by_power < n ? (by_power > 0 ? by_power : 0) : n;
}

static int whole_trays(const struct rk_site *site, int rack, struct rk_versions *versions)
{
	const struct rk_rack *r = &site->racks[rack];
	const struct rk_profile *p = &site->profiles[r->profile];
	int fabric = rk_rack_fabric(site, rack), n = 0;

	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++) {
		enum rk_tray_state state = rk_tray_state(site, t);
		n += (state == RK_TRAY_FREE || state == RK_TRAY_SPARE) && rk_tray_complete(site, t, fabric, p->hcas_per_tray, p->gpus_per_tray) &&
		     !rk_tray_outdated(versions, t);
	}
	return n;
}

int *rk_capacity_rooms(const struct rk_site *site, struct rk_arena *arena)
{
	int *room = rk_arena_array(arena, site->n_racks + 1, sizeof(*room));
	struct rk_versions versions = { .site = site, .arena = arena };

	for (int r = 0; r < (int)site->n_racks; r++)
		room[r] = rk_rack_room(site, r, whole_trays(site, r, &versions), rk_rack_spares(site, r), 0);
	return room;
}

static int at_most(int n, int limit)
{
	return n < limit ? n : limit;
}

static int reserved_trays(const struct rk_site *site, const int *room, struct rk_arena *arena)
{
	bool *whole = rk_arena_array(arena, site->n_racks + 1, sizeof(*whole));
	int n = rk_promised(site, rk_claims(site, arena), site->read_unix_ms, INT64_MAX, NULL, arena), outside = 0, inside = 0;

	for (size_t i = 0; i < site->n_reservations; i++) {
		int *racks;
		size_t count;
		if (!rk_reservation_alive(site, &site->reservations[i]))
			continue;
		rk_reservation_racks(site, &site->reservations[i], arena, &racks, &count);
		for (size_t k = 0; k < count; k++)
			whole[racks[k]] = true;
	}
	for (size_t r = 0; r < site->n_racks; r++)
		*(whole[r] ? &inside : &outside) += room[r];
	return inside + at_most(n, outside);
}

void rk_capacity(const struct rk_site *site, struct rk_capacity *ret)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	int *room = rk_capacity_rooms(site, arena), worst[RK_SEGMENT_KINDS] = { 0 };
	struct rk_capacity_of sum;

	*ret = (struct rk_capacity){ 0 };
	for (size_t r = 0; r < site->n_racks; r++) {
		int largest = at_most(room[r], domain_of(site, r));
		ret->whole_racks += room[r] > 0 && room[r] == site->racks[r].n_trays;
		ret->largest = largest > ret->largest ? largest : ret->largest;
		for (int k = 0; k < RK_SEGMENT_KINDS; k++) {
			int lost = segments_in(site, r, room[r], rk_segment_sizes[k]);
			worst[k] = lost > worst[k] ? lost : worst[k];
		}
	}
	rk_capacity_sum(site, room, &sum);
	ret->free = sum.free;
	ret->fragmentation = sum.fragmentation;
	ret->reserved = reserved_trays(site, room, arena);
	for (int k = 0; k < RK_SEGMENT_KINDS; k++) {
		ret->segments[k] = sum.segments[k];
		ret->segments_less_one_rack[k] = sum.segments[k] - worst[k];
	}
}
