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

int *rk_claims(const struct rk_site *site, struct rk_arena *arena)
{
	int *claims = rk_arena_array(arena, site->n_tenants + 1, sizeof(*claims));

	for (size_t v = 0; v < site->n_vms; v++)
		claims[site->clusters[site->vms[v].cluster].tenant]--;
	return claims;
}

static int promised_at(const struct rk_site *site, const int *claims, int64_t at, const bool *lifted, int *open)
{
	int sum = 0;

	memcpy(open, claims, site->n_tenants * sizeof(*open));
	for (size_t i = 0; i < site->n_reservations; i++) {
		const struct rk_reservation *r = &site->reservations[i];
		if (r->from_unix_ms <= at && at < r->to_unix_ms && !(lifted && lifted[i]))
			open[r->tenant] += r->count;
	}
	for (size_t t = 0; t < site->n_tenants; t++)
		sum += open[t] > 0 ? open[t] : 0;
	return sum;
}

int rk_promised(const struct rk_site *site, const int *claims, int64_t from, int64_t to, const bool *lifted, struct rk_arena *arena)
{
	int *open = rk_arena_array(arena, site->n_tenants + 1, sizeof(*open)), most = promised_at(site, claims, from, lifted, open);

	/* Promises only rise at the beginning of a reservation, so those moments are the worst. */
	for (size_t i = 0; i < site->n_reservations; i++) {
		const struct rk_reservation *r = &site->reservations[i];
		if (!r->count || r->from_unix_ms <= from || r->from_unix_ms >= to)
			continue;
		int n = promised_at(site, claims, r->from_unix_ms, lifted, open);
		most = n > most ? n : most;
	}
	return most;
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
	p->claims = rk_claims(site, p->arena);
	p->claims[p->tenant] = -RK_UNLIMITED; /* its own promises keep nothing from it */
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
	int kept = rk_promised(p->site, p->claims, p->site->read_unix_ms, INT64_MAX, p->lift_reservations, p->arena), free = kept ? unreserved(p) : 0;

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
