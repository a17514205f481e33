#include "provision/reserve.h"

#include <string.h>

#include "inventory/base/clock.h"
#include "provision/place_impl.h"

const char *rk_reserve_state(const struct rk_site *site, const struct rk_reservation *r)
{
	if (!rk_reservation_alive(site, r))
		return "ended";
	return r->from_unix_ms <= site->read_unix_ms ? "active" : "future";
}

static bool overlaps(const struct rk_reservation *r, const struct rk_reserve_wish *wish)
{
	return r->from_unix_ms < wish->to_unix_ms && wish->from_unix_ms < r->to_unix_ms;
}

static void name_reservation(const struct rk_site *site, const struct rk_reservation *r, struct rk_err *err)
{
	char from[32], to[32];

	rk_time_iso(r->from_unix_ms, from);
	rk_time_iso(r->to_unix_ms, to);
	if (r->racks)
		rk_err_detail(err, "reservation %lld: %s for tenant %s from %s to %s", (long long)r->id, r->racks, site->tenants[r->tenant].name, from, to);
	else
		rk_err_detail(err, "reservation %lld: %d trays for tenant %s from %s to %s", (long long)r->id, r->count, site->tenants[r->tenant].name, from,
			      to);
}

/* ---- racks --------------------------------------------------------------------------------------------------------------------------- */

static int name_overlaps(const struct rk_site *site, const struct rk_reserve_wish *wish, int tenant, const bool *wanted, struct rk_arena *arena,
			 struct rk_err *err)
{
	int found = 0;

	for (size_t i = 0; i < site->n_reservations; i++) {
		const struct rk_reservation *r = &site->reservations[i];
		int *racks;
		size_t n;
		bool hit = false;
		if (r->tenant == tenant || !overlaps(r, wish))
			continue;
		rk_reservation_racks(site, r, arena, &racks, &n);
		for (size_t k = 0; k < n; k++)
			hit |= wanted[racks[k]];
		if (hit)
			name_reservation(site, r, err);
		found += hit;
	}
	return found;
}

/* Clusters have no end: what others hold in the racks stands against the reservation. */
static int name_holders(const struct rk_site *site, int tenant, const bool *wanted, struct rk_err *err)
{
	int found = 0;

	for (size_t i = 0; i < site->n_clusters; i++) {
		const struct rk_cluster *c = &site->clusters[i];
		int vms = 0;
		for (int v = c->first_vm; v < c->first_vm + c->n_vms && c->tenant != tenant; v++)
			vms += site->vms[v].tray >= 0 && wanted[site->trays[site->vms[v].tray].rack];
		if (vms)
			rk_err_detail(err, "cluster %s of tenant %s has %d VM%s there", c->name, site->tenants[c->tenant].name, vms, vms == 1 ? "" : "s");
		found += vms > 0;
	}
	return found;
}

/* Free trays outside racks that are reserved as a whole while the wish lasts, and outside those it wants. */
static int free_for(const struct rk_site *site, const struct rk_reserve_wish *wish, const bool *wanted, struct rk_arena *arena)
{
	bool *taken = rk_arena_array(arena, site->n_racks + 1, sizeof(*taken));
	int *room = rk_capacity_rooms(site, arena), n = 0;

	for (size_t i = 0; i < site->n_reservations; i++) {
		int *racks;
		size_t count;
		if (!overlaps(&site->reservations[i], wish))
			continue;
		rk_reservation_racks(site, &site->reservations[i], arena, &racks, &count);
		for (size_t k = 0; k < count; k++)
			taken[racks[k]] = true;
	}
	for (size_t r = 0; r < site->n_racks; r++)
		n += taken[r] || (wanted && wanted[r]) ? 0 : room[r];
	return n;
}

static void name_numbers(const struct rk_site *site, const struct rk_reserve_wish *wish, int tenant, struct rk_err *err)
{
	for (size_t i = 0; i < site->n_reservations; i++)
		if (site->reservations[i].count && site->reservations[i].tenant != tenant && overlaps(&site->reservations[i], wish))
			name_reservation(site, &site->reservations[i], err);
}

/* What others were promised by number has to be somewhere else. */
static int check_promises(const struct rk_site *site, const struct rk_reserve_wish *wish, int tenant, const char *racks, const bool *wanted, struct rk_arena *arena,
			  struct rk_err *err)
{
	int *claims = rk_claims(site, arena), free = free_for(site, wish, wanted, arena);

	claims[tenant] = -RK_UNLIMITED;
	int promised = rk_promised(site, claims, wish->from_unix_ms, wish->to_unix_ms, NULL, arena);
	if (promised <= free)
		return 0;
	rk_err_set(err, RK_NO_CAPACITY, "%s cannot be kept for tenant %s: %d trays outside are free, %d are promised to others", racks, wish->tenant, free, promised);
	rk_err_hint(err, "cancel or wait for what is named, or reserve fewer racks");
	name_numbers(site, wish, tenant, err);
	return RK_NO_CAPACITY;
}

static int check_racks(const struct rk_site *site, const struct rk_reserve_wish *wish, int tenant, struct rk_arena *arena, const char **ret_racks,
		       struct rk_err *err)
{
	RK_CLEANUP_ERR struct rk_err said = RK_ERR_INIT;
	bool *wanted = rk_arena_array(arena, site->n_racks + 1, sizeof(*wanted));
	const char **names = rk_arena_array(arena, site->n_racks + 1, sizeof(*names));
	int *racks;
	size_t n;
	int rc = rk_select_racks(site, wish->racks, NULL, arena, &racks, &n, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++) {
		wanted[racks[i]] = true;
		names[i] = site->racks[racks[i]].name;
	}
	*ret_racks = rk_nodeset_fold(arena, names, n);
	rk_err_set(&said, RK_CONFLICT, "%s cannot be kept for tenant %s", *ret_racks, wish->tenant);
	rk_err_hint(&said, "cancel or wait for what is named, or reserve other racks");
	if (!(name_overlaps(site, wish, tenant, wanted, arena, &said) + name_holders(site, tenant, wanted, &said)))
		return check_promises(site, wish, tenant, *ret_racks, wanted, arena, err);
	if (err)
		rk_err_move(err, &said);
	return RK_CONFLICT;
}

/* ---- a number of trays ---------------------------------------------------------------------------------------------------------------- */

static int check_count(const struct rk_site *site, const struct rk_reserve_wish *wish, int tenant, struct rk_arena *arena, struct rk_err *err)
{
	int *claims = rk_claims(site, arena), free = free_for(site, wish, NULL, arena);

	claims[tenant] += wish->count;
	int most = rk_promised(site, claims, wish->from_unix_ms, wish->to_unix_ms, NULL, arena);
	if (most <= free)
		return 0;
	rk_err_set(err, RK_NO_CAPACITY, "%d trays cannot be kept for tenant %s: %d are free for it, %d would be promised", wish->count, wish->tenant, free,
		   most);
	if (wish->count > most - free)
		rk_err_hint(err, "reserve at most %d", wish->count - (most - free));
	for (size_t i = 0; i < site->n_reservations; i++)
		if (overlaps(&site->reservations[i], wish))
			name_reservation(site, &site->reservations[i], err);
	return RK_NO_CAPACITY;
}

int rk_reserve_check(const struct rk_site *site, const struct rk_reserve_wish *wish, struct rk_arena *arena, const char **ret_racks, struct rk_err *err)
{
	int tenant = rk_find_tenant(site, wish->tenant);

	*ret_racks = NULL;
	if (tenant < 0) {
		rk_err_set(err, RK_NOT_FOUND, "no tenant \"%s\"", wish->tenant);
		rk_err_hint(err, "racksh tenant create %s", wish->tenant);
		return RK_NOT_FOUND;
	}
	if (!wish->racks == !wish->count) {
		rk_err_set(err, RK_INVALID, "a reservation is of racks or of a number of trays");
		rk_err_hint(err, "give one of --racks and --count");
		return RK_INVALID;
	}
	if (wish->to_unix_ms <= wish->from_unix_ms)
		return rk_err_set(err, RK_INVALID, "the reservation would end before it begins");
	if (wish->to_unix_ms <= site->read_unix_ms)
		return rk_err_set(err, RK_INVALID, "the reservation would have ended already");
	return wish->racks ? check_racks(site, wish, tenant, arena, ret_racks, err) : check_count(site, wish, tenant, arena, err);
}

int rk_reserve_create(struct rk_world *world, const struct rk_reserve_wish *wish, struct rk_arena *arena, int64_t *ret_id, struct rk_err *err)
{
	const char *racks;
	int rc = rk_reserve_check(world->site, wish, arena, &racks, err);

	if (!rc)
		rc = rk_store_begin(world->store, world->site->revision, err);
	if (rc)
		return rc;
	rc = rk_store_add_reservation(world->store, wish->tenant, racks, wish->count, wish->from_unix_ms, wish->to_unix_ms, ret_id, err);
	if (!rc)
		return rk_store_commit(world->store, err);
	rk_store_rollback(world->store);
	return rc;
}
