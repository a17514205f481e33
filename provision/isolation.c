#include "provision/isolation_impl.h"

#include <stdlib.h>
#include <string.h>

int rk_proof_cluster_of(const struct rk_proof *p, int tray)
{
	return rk_tray_cluster(p->site, tray);
}

int rk_proof_tenant_of(const struct rk_proof *p, int tray)
{
	int cluster = rk_proof_cluster_of(p, tray);

	return cluster == RK_NONE ? RK_NONE : p->site->clusters[cluster].tenant;
}

const char *rk_proof_tenant_name(const struct rk_proof *p, int tenant)
{
	return tenant == RK_NONE ? NULL : p->site->tenants[tenant].name;
}

void rk_proof_violate(struct rk_proof *p, const char *plane, const char *where, int a, int b, const char *what)
{
	int first = b == RK_NONE || (a != RK_NONE && a < b) ? a : b, second = first == a ? b : a;

	if (!rk_map_add(p->seen, rk_arena_printf(p->arena, "%s %s %d %d", plane, where, first, second), 1, NULL))
		return;
	*rk_vec_push(&p->found) = (struct rk_violation){ plane, what, rk_proof_tenant_name(p, first), rk_proof_tenant_name(p, second) };
}

void rk_proof_add_row(struct rk_proof *p, const char *plane, const char *object, int cluster, size_t before, bool unknown, const char *message)
{
	bool failed = p->found.n > before;

	rk_check_add(&p->checks, plane, object, failed ? "fail" : unknown ? "unknown" : "pass", NULL, NULL, failed ? p->found.items[before].what : message);
	if (cluster != RK_NONE) {
		p->checks.items[p->checks.n - 1].cluster = p->site->clusters[cluster].name;
		p->checks.items[p->checks.n - 1].tenant = rk_proof_tenant_name(p, p->site->clusters[cluster].tenant);
	}
}

static void prove(struct rk_proof *p, bool paths)
{
	const struct rk_site *site = p->site;

	for (size_t i = 0; i < site->n_ib_partitions; i++)
		rk_map_set_u64(p->owners, rk_proof_key(site->ib_partitions[i].fabric, site->ib_partitions[i].pkey),
			       (size_t)site->clusters[site->ib_partitions[i].cluster].tenant);
	for (size_t r = 0; r < site->n_racks; r++)
		if (rk_rack_has_nvlink(site, (int)r))
			rk_proof_rack(p, (int)r);
	for (size_t f = 0; f < site->n_fabrics; f++) {
		rk_proof_fabric(p, (int)f);
		if (paths)
			rk_proof_paths(p, (int)f);
	}
}

static void proof_free(struct rk_proof *p)
{
	rk_map_free(p->seen);
	rk_map_free(p->owners);
	rk_map_free(p->foreign);
	rk_map_free(p->managers);
	free(p->holders.items);
	free(p->found.items);
}

static int verdict_of(const struct rk_proof *p, struct rk_err *err)
{
	if (p->found.n)
		return rk_err_set(err, RK_UNHEALTHY, "isolation is broken in %zu place%s", p->found.n, p->found.n == 1 ? "" : "s");
	return rk_checks_verdict(&p->checks, "isolation checks", "no NVLink switch and no subnet manager", err);
}

int rk_isolation_verify(struct rk_world *world, bool paths, struct rk_arena *arena, struct rk_isolation *ret, struct rk_err *err)
{
	struct rk_live *live RK_CLEANUP_LIVE = NULL;
	const struct rk_site *site = world->site;
	const struct rk_live_scope scope = { .racks = rk_flags_all(arena, site->n_racks), .fabrics = rk_flags_all(arena, site->n_fabrics),
					     .hcas = rk_flags_all(arena, site->n_hcas) };
	int rc = rk_live_read(world, &scope, &live, err);

	*ret = (struct rk_isolation){ .verdict = "unknown" };
	if (rc)
		return rc;
	struct rk_proof p = { .world = world, .site = site, .live = live, .arena = arena, .seen = rk_map_new(), .owners = rk_map_new(),
			   .foreign = rk_map_new(), .managers = rk_map_new() };
	prove(&p, paths);
	if (world->cancel && *world->cancel) {
		proof_free(&p);
		free(p.checks.items);
		return rk_err_set(err, RK_CANCELLED, "cancelled while reading the site");
	}
	rc = verdict_of(&p, err);
	ret->verdict = rc == 0 ? "pass" : rc == RK_UNHEALTHY ? "fail" : "unknown";
	ret->n_violations = p.found.n;
	ret->violations = rk_arena_array(arena, p.found.n, sizeof(*ret->violations));
	if (p.found.n)
		memcpy(ret->violations, p.found.items, p.found.n * sizeof(*p.found.items));
	rk_checks_hand_over(&p.checks, arena, &ret->checks, &ret->n_checks);
	/* What comes from the readers lives in their arenas. */
	for (size_t i = 0; i < ret->n_checks; i++)
		ret->checks[i].message = rk_arena_strdup(arena, ret->checks[i].message);
	proof_free(&p);
	return rc;
}
