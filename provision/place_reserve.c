#include <string.h>

#include "provision/place_impl.h"

bool rk_reservation_alive(const struct rk_site *site, const struct rk_reservation *r)
{
	return r->to_unix_ms > site->read_unix_ms;
}

void rk_reservation_racks(const struct rk_site *site, const struct rk_reservation *r, struct rk_arena *arena, int **ret, size_t *ret_n)
{
	struct rk_nodeset set = { 0 };

	*ret_n = 0;
	if (!r->racks || rk_nodeset_parse(r->racks, NULL, NULL, arena, &set, NULL))
		return;
	*ret = rk_arena_array(arena, set.n + 1, sizeof(**ret));
	for (size_t i = 0; i < set.n; i++) {
		int rack = rk_find_rack(site, set.names[i]);
		if (rack != RK_NONE)
			(*ret)[(*ret_n)++] = rack;
	}
}

static bool lifted(const struct rk_placer *p, size_t reservation)
{
	return p->lift_reservations && p->lift_reservations[reservation];
}

static void read_reservations(struct rk_placer *p)
{
	const struct rk_site *site = p->site;

	p->holder = rk_arena_array(p->arena, site->n_racks + 1, sizeof(*p->holder));
	p->mine = rk_arena_array(p->arena, site->n_racks + 1, sizeof(*p->mine));
	p->reserved = rk_arena_array(p->arena, site->n_reservations + 1, sizeof(*p->reserved));
	for (size_t i = 0; i < site->n_reservations; i++)
		if (rk_reservation_alive(site, &site->reservations[i]))
			rk_reservation_racks(site, &site->reservations[i], p->arena, &p->reserved[i].racks, &p->reserved[i].n);
}

static void mark_racks(struct rk_placer *p)
{
	const struct rk_site *site = p->site;

	for (size_t i = 0; i < site->n_reservations; i++) {
		const struct rk_reservation *r = &site->reservations[i];
		const struct rk_reserved *reserved = &p->reserved[i];
		for (size_t k = 0; k < reserved->n && !lifted(p, i); k++) {
			int *holder = &p->holder[reserved->racks[k]];
			if (r->tenant == p->tenant)
				p->mine[reserved->racks[k]] = true;
			else if (*holder == RK_NONE || site->reservations[*holder].to_unix_ms < r->to_unix_ms)
				*holder = (int)i;
		}
	}
}

/* Trays that other tenants were promised by number and do not hold yet. */
static int promised(const struct rk_placer *p)
{
	const struct rk_site *site = p->site;
	int *open = rk_arena_array(p->arena, site->n_tenants + 1, sizeof(*open)), sum = 0;

	for (size_t i = 0; i < site->n_reservations; i++)
		if (site->reservations[i].count && rk_reservation_alive(site, &site->reservations[i]) && !lifted(p, i))
			open[site->reservations[i].tenant] += site->reservations[i].count;
	for (size_t v = 0; v < site->n_vms; v++)
		open[site->clusters[site->vms[v].cluster].tenant]--;
	for (size_t t = 0; t < site->n_tenants; t++)
		sum += (int)t != p->tenant && open[t] > 0 ? open[t] : 0;
	return sum;
}

/* Free trays outside racks that are reserved as a whole. */
static int unreserved(const struct rk_placer *p)
{
	int n = 0;

	for (size_t r = 0; r < p->site->n_racks; r++)
		if (p->holder[r] == RK_NONE && !p->mine[r])
			n += rk_rack_room(p->site, (int)r, p->verdicts[r].whole, rk_placer_own_spares(p, (int)r), 0);
	return n;
}

void rk_placer_pool(struct rk_placer *p)
{
	int kept = promised(p), free = kept ? unreserved(p) : 0;

	p->choice.pool = !kept ? RK_UNLIMITED : free > kept ? free - kept : 0;
}

void rk_placer_reservations(struct rk_placer *p)
{
	const struct rk_site *site = p->site;

	if (!p->reserved)
		read_reservations(p);
	memset(p->mine, false, site->n_racks * sizeof(*p->mine));
	for (size_t r = 0; r < site->n_racks; r++)
		p->holder[r] = RK_NONE;
	mark_racks(p);
}
