#include <inttypes.h>
#include <string.h>

#include "provision/service.h"
#include "provision/steps.h"

/* A service's partition made what the store says when the step runs, whatever it is now, and taken away as a whole: an operation may be resumed long after
 * it was planned, and clusters come and go meanwhile. Params: service; of those that make and remove it fabric and pkey, too. */

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

/* The tables of the members, and of those that are left as they are. */
static int read_tables(struct rk_world *world, struct rk_step *step, const struct job *job, struct rk_ib_port **ret, size_t *ret_n, struct rk_err *err)
{
	uint64_t *guids = rk_arena_array(step->arena, job->n + job->n_busy, sizeof(*guids));
	struct rk_ib_port *ports = rk_arena_array(step->arena, job->n + job->n_busy, sizeof(*ports));

	for (size_t i = 0; i < job->n; i++)
		guids[i] = job->members[i].guid;
	for (size_t i = 0; i < job->n_busy; i++)
		guids[job->n + i] = job->busy[i];
	*ret = ports;
	*ret_n = job->n + job->n_busy;
	return world->ib->ops->tables(world->ib, job->fabric, guids, *ret_n, step->arena, ports, err);
}

static int not_read(const struct job *job, const struct rk_ib_port *port, struct rk_err *err)
{
	return rk_err_set(err, RK_UNREACHABLE, "the PKey table of port 0x%016" PRIx64 " of service \"%s\" could not be read: %s", port->guid, job->name,
			  port->why ? port->why : "no answer");
}

/* down_too: a port without a link is as good as read, it gets its table when it comes up. */
static int members_seen(struct rk_world *world, struct rk_step *step, bool down_too, int *ret, struct rk_err *err)
{
	const struct job *job = step->data;
	struct rk_ib_port *ports;
	size_t n;
	int rc = read_tables(world, step, job, &ports, &n, err);

	*ret = !rc;
	for (size_t i = 0; !rc && i < job->n; i++) {
		bool down = down_too && ports[i].down;
		if (!ports[i].known && !down)
			rc = not_read(job, &ports[i], err);
		*ret &= down || rk_port_has(&ports[i], job->pkey | (job->members[i].full ? 0x8000u : 0));
	}
	return rc;
}

static int seen(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	return members_seen(world, step, true, ret, err);
}

static int all_seen(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	return members_seen(world, step, false, ret, err);
}

static int gone(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	const struct job *job = step->data;
	struct rk_ib_port *ports;
	size_t n;
	int rc = read_tables(world, step, job, &ports, &n, err);

	*ret = !rc;
	for (size_t i = 0; !rc && i < n; i++) {
		if (!ports[i].known && !rk_port_is_dark(world->site, ports[i].guid, &ports[i]))
			rc = not_read(job, &ports[i], err);
		*ret &= !rk_port_has(&ports[i], job->pkey) && !rk_port_has(&ports[i], job->pkey | 0x8000u);
	}
	return rc;
}

static int serve(struct rk_world *world, struct rk_step *step, int (*check)(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err), struct rk_err *err)
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
	return rc ? rc : rk_wait_until(world, step, "the service's PKey in every port's table", check, err);
}

/* And nobody else has it. */
static int seen_alone(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	const struct job *job = step->data;
	uint64_t *all = rk_arena_array(step->arena, job->n + job->n_busy, sizeof(*all));

	for (size_t i = 0; i < job->n + job->n_busy; i++)
		all[i] = i < job->n ? job->members[i].guid : job->busy[i - job->n];
	int rc = seen(world, step, ret, err);
	return rc || !*ret ? rc : rk_ib_on_no_other_port(world, step, job->fabric, job->pkey, all, job->n + job->n_busy, ret, err);
}

static int serve_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	return serve(world, step, seen_alone, err);
}

static int make_probe(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	const struct job *job = step->data;
	const struct rk_ib_live *part = NULL;
	int rc = job->fabric == RK_NONE ? 0 : rk_ib_find_ours(world, step, &part, err);

	if (rc)
		return rc;
	*ret = job->fabric == RK_NONE;
	return part ? all_seen(world, step, ret, err) : 0;
}

static int make_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	return serve(world, step, all_seen, err);
}

static int remove_it(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	const struct job *job = step->data;

	if (job->fabric == RK_NONE)
		return 0;
	const struct rk_ib_wanted nobody = { job->pkey, job->name, NULL, 0, true };
	int rc = world->ib->ops->set(world->ib, job->fabric, &nobody, err);
	return rc ? rc : rk_wait_until(world, step, "the service's PKey to leave every port's table", gone, err);
}

/* While the step still has the fabric's lane: no cluster gets the key in between. */
static int make_settle(struct rk_world *world, struct rk_step *step, bool undone, struct rk_err *err)
{
	return undone ? rk_service_forget(world, rk_param(step, "service"), err) : 0;
}

static int remove_settle(struct rk_world *world, struct rk_step *step, bool undone, struct rk_err *err)
{
	return undone ? 0 : rk_service_forget(world, rk_param(step, "service"), err);
}

const struct rk_step_kind rk_service_steps[] = {
	{ .name = "service.make", .summary = "give the shared PKey to its servers and its tenants", .deadline_ms = 30000, .prepare = serve_prepare, .probe = make_probe,
	  .apply = make_apply, .undo = remove_it, .settle = make_settle, .give_up = rk_ib_give_up, .makes = true },
	{ .name = "service.remove", .summary = "take the shared PKey from everybody", .deadline_ms = 30000, .prepare = serve_prepare, .apply = remove_it, .settle = remove_settle, .give_up = rk_ib_give_up, .removes = true },
	{ .name = "ib.serve", .summary = "make the shared PKey that of its servers and its tenants", .deadline_ms = 30000, .prepare = serve_prepare, .apply = serve_apply },
	{ .name = NULL },
};
