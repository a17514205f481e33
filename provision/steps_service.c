#include <string.h>

#include "provision/service.h"
#include "provision/steps.h"

/* A service's partition made what the store says, whatever it is now. Params: service. */

struct job {
	int fabric;                       /* RK_NONE: there is no such service any more */
	uint16_t pkey;
	const char *name;
	struct rk_ib_member *members; size_t n;  /* as it is to be */
	uint64_t *busy; size_t n_busy;    /* ports of clusters that an operation holds: left as they are, it is the operation that gives and takes */
};

/* From the store as it is now: clusters came and went since the plan. */
static int serve_prepare(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	RK_CLEANUP_SITE struct rk_site *site = NULL;
	struct job *job = step->data = rk_arena_array(step->arena, 1, sizeof(*job));
	int rc = rk_store_snapshot(world->store, &site, err), at = rc ? RK_NONE : rk_find_ib_service(site, rk_param(step, "service"));
	const struct rk_ib_service *s = at < 0 ? NULL : &site->ib_services[at];

	*job = (struct job){ .fabric = RK_NONE };
	if (!s)
		return rc;
	*job = (struct job){ s->fabric, s->pkey, rk_arena_strdup(step->arena, s->name), rk_arena_array(step->arena, s->n_servers + site->n_hcas, sizeof(*job->members)), 0,
			     rk_arena_array(step->arena, site->n_hcas, sizeof(*job->busy)), 0 };
	for (size_t i = 0; i < s->n_servers; i++)
		job->members[job->n++] = (struct rk_ib_member){ s->servers[i], true };
	for (size_t h = 0; h < site->n_hcas; h++) {
		uint64_t guid = site->hcas[h].port_guid;
		int vm = site->trays[site->hcas[h].tray].vm;
		if (guid && vm != RK_NONE && site->clusters[site->vms[vm].cluster].op)
			job->busy[job->n_busy++] = guid;
		else if (guid && rk_ib_service_has(site, s, (int)h) && !rk_ib_server(s, guid))
			job->members[job->n++] = (struct rk_ib_member){ guid, false };
	}
	return 0;
}

static bool is_busy(const struct job *job, uint64_t guid)
{
	for (size_t i = 0; i < job->n_busy; i++)
		if (job->busy[i] == guid)
			return true;
	return false;
}

static int seen(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	const struct job *job = step->data;
	uint64_t *guids = rk_arena_array(step->arena, job->n, sizeof(*guids));
	struct rk_ib_port *ports = rk_arena_array(step->arena, job->n, sizeof(*ports));

	for (size_t i = 0; i < job->n; i++)
		guids[i] = job->members[i].guid;
	int rc = world->ib->ops->tables(world->ib, job->fabric, guids, job->n, step->arena, ports, err);
	*ret = !rc;
	for (size_t i = 0; !rc && i < job->n; i++) {
		bool has = ports[i].down; /* it gets its table when it comes up */
		for (size_t k = 0; k < ports[i].n_pkeys; k++)
			has |= ports[i].pkeys[k] == (job->pkey | (job->members[i].full ? 0x8000u : 0));
		if (!ports[i].known && !ports[i].down)
			rc = rk_err_set(err, RK_UNREACHABLE, "the PKey table of a port of service \"%s\" could not be read: %s", job->name, ports[i].why ? ports[i].why : "no answer");
		*ret &= has;
	}
	return rc;
}

static int serve_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	const struct job *job = step->data;
	struct rk_ib_live *live;
	size_t n = 0;

	if (job->fabric == RK_NONE)
		return 0;
	int rc = world->ib->ops->list(world->ib, job->fabric, step->arena, &live, &n, err);
	if (rc)
		return rc;
	const struct rk_ib_live *part = NULL;
	for (size_t i = 0; i < n; i++)
		if (live[i].pkey == job->pkey)
			part = &live[i];
	struct rk_ib_member *all = rk_arena_array(step->arena, job->n + (part ? part->n_members : 0), sizeof(*all));
	memcpy(all, job->members, job->n * sizeof(*all));
	size_t n_all = job->n;
	for (size_t i = 0; part && i < part->n_members; i++)
		if (is_busy(job, part->members[i].guid))
			all[n_all++] = (struct rk_ib_member){ part->members[i].guid, false };
	const struct rk_ib_wanted wanted = { job->pkey, job->name, all, n_all, true };
	rc = world->ib->ops->set(world->ib, job->fabric, &wanted, err);
	return rc ? rc : rk_wait_until(world, step, "the service's PKey in every port's table", seen, err);
}

const struct rk_step_kind rk_service_steps[] = {
	{ .name = "ib.serve", .summary = "make the shared PKey that of its servers and its tenants", .deadline_ms = 30000, .prepare = serve_prepare, .apply = serve_apply },
	{ .name = NULL },
};
