#include <math.h>
#include <string.h>

#include "provision/place_impl.h"
#include "provision/power.h"

enum { FRAGMENT = 16 };
const int rk_segment_sizes[RK_SEGMENT_KINDS] = { 18, 16, 8, 4 };

void rk_capacity_sum(const int *room, size_t n, struct rk_capacity_of *ret)
{
	long large = 0;

	*ret = (struct rk_capacity_of){ 0 };
	for (size_t i = 0; i < n; i++) {
		ret->free += room[i];
		large += room[i] / FRAGMENT * FRAGMENT;
		for (int k = 0; k < RK_SEGMENT_KINDS; k++)
			ret->segments[k] += room[i] / rk_segment_sizes[k];
	}
	ret->fragmentation = ret->free ? 1.0 - (double)large / ret->free : 0;
}

int rk_rack_spares(const struct rk_site *site, int rack)
{
	const struct rk_rack *r = &site->racks[rack];
	int spares = r->spares;

	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++) {
		int vm = site->trays[t].vm, wanted = vm >= 0 ? site->clusters[site->vms[vm].cluster].spares_per_rack : 0;
		spares = wanted > spares ? wanted : spares;
	}
	return spares;
}

int rk_capacity_left(const struct rk_site *site, int rack, int taken, double taken_kw, int spares)
{
	const struct rk_rack *r = &site->racks[rack];
	double kw = site->profiles[r->profile].tray_kw;
	const char *what;
	int n = -taken, own_spares = rk_rack_spares(site, rack);

	if (rk_rack_leaks(site, rack) >= RK_LEAK_ALARM_TRAYS)
		return 0;
	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++) {
		enum rk_tray_state state = rk_tray_state(site, t);
		n += state == RK_TRAY_FREE || state == RK_TRAY_SPARE;
	}
	spares = own_spares > spares ? own_spares : spares;
	n = n > spares ? n - spares : 0;
	int by_power = kw > 0 ? (int)floor((rk_power_budget(site, rack, &what) - rk_power_committed(site, rack) - taken_kw) / kw + 1e-9) : n;
	return by_power < n ? (by_power > 0 ? by_power : 0) : n;
}

int rk_capacity_room(const struct rk_site *site, int rack)
{
	return rk_capacity_left(site, rack, 0, 0, 0);
}

static int reserved_trays(const struct rk_site *site, const int *room)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	bool *whole = rk_arena_array(arena, site->n_racks + 1, sizeof(*whole));
	int n = 0, free = 0;

	for (size_t i = 0; i < site->n_reservations; i++) {
		int *racks;
		size_t count;
		if (!rk_reservation_alive(site, &site->reservations[i]))
			continue;
		rk_reservation_racks(site, &site->reservations[i], arena, &racks, &count);
		for (size_t k = 0; k < count; k++)
			whole[racks[k]] = true;
		n += site->reservations[i].count;
	}
	for (size_t r = 0; r < site->n_racks; r++) {
		free += room[r];
		n += whole[r] ? room[r] : 0;
	}
	return n < free ? n : free;
}

void rk_capacity(const struct rk_site *site, struct rk_capacity *ret)
{
	int *room RK_CLEANUP_FREE = rk_xcalloc(site->n_racks + 1, sizeof(*room)), worst[RK_SEGMENT_KINDS] = { 0 };
	struct rk_capacity_of sum;

	*ret = (struct rk_capacity){ 0 };
	for (size_t r = 0; r < site->n_racks; r++) {
		room[r] = rk_capacity_room(site, (int)r);
		ret->whole_racks += room[r] > 0 && room[r] == site->racks[r].n_trays;
		ret->largest = room[r] > ret->largest ? room[r] : ret->largest;
		for (int k = 0; k < RK_SEGMENT_KINDS; k++)
			worst[k] = room[r] / rk_segment_sizes[k] > worst[k] ? room[r] / rk_segment_sizes[k] : worst[k];
	}
	rk_capacity_sum(room, site->n_racks, &sum);
	ret->free = sum.free;
	ret->fragmentation = sum.fragmentation;
	ret->reserved = reserved_trays(site, room);
	for (int k = 0; k < RK_SEGMENT_KINDS; k++) {
		ret->segments[k] = sum.segments[k];
		ret->segments_less_one_rack[k] = sum.segments[k] - worst[k];
	}
}
