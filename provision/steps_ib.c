#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/map.h"
#include "provision/steps.h"

/* InfiniBand partitions. Params: fabric, pkey, name, full, members (the ports the step is about), rest (members that stay). Of a service: servers (its
 * full members); the members that stay are those that are there when the step runs, because several clusters come and go. */

static int ib_fabric(struct rk_world *world, const struct rk_step *step, int *ret, struct rk_err *err)
{
	*ret = rk_find_fabric(world->site, rk_param(step, "fabric"));
	return *ret < 0 ? rk_err_set(err, RK_NOT_FOUND, "no InfiniBand fabric \"%s\" in the store", rk_param(step, "fabric")) : 0;
}

/* Not in the fabric, where it reaches nobody, and the subnet manager gives it its table before it does again; or of a tray that was given up. */
bool rk_port_is_dark(const struct rk_site *site, uint64_t guid, const struct rk_ib_port *port)
{
	int hca = port->known || port->down ? RK_NONE : rk_find_hca_guid(site, guid);

	return port->down || (hca >= 0 && rk_tray_mark(&site->trays[site->hcas[hca].tray]));
}

static bool is_shared(const struct rk_step *step)
{
	return step->kind->several;
}

/* A service may be deleted while clusters come and go: then there is nothing to do with its key, whoever has that now. */
static int ib_prepare(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	static char gone[] = "gone";
	bool known = true;
	int rc = rk_store_service_known(world->store, rk_param(step, "name"), rk_param(step, "fabric"), (uint16_t)rk_param_int(step, "pkey"), &known, err);

	step->data = known ? NULL : gone;
	return rc;
}

/* Reads the tables of all ports of the list. An unread port is "unknown", never "gone" and never "there"; down_too: one that is dark is as good as
 * read. */
static int ib_read(struct rk_world *world, struct rk_step *step, const char *list, bool down_too, struct rk_ib_port **ret, size_t *ret_n, struct rk_err *err)
{
	size_t n;
	uint64_t *guids = rk_param_guids(step, list, &n);
	struct rk_ib_port *ports = rk_arena_array(step->arena, n, sizeof(*ports));
	int fabric, rc = ib_fabric(world, step, &fabric, err);

	if (!rc)
		rc = world->ib->ops->tables(world->ib, fabric, guids, n, step->arena, ports, err);
	for (size_t i = 0; !rc && i < n; i++)
		if (!ports[i].known && !(down_too && rk_port_is_dark(world->site, guids[i], &ports[i])))
			rc = rk_err_set(err, RK_UNREACHABLE, "the PKey table of port 0x%016" PRIx64 " could not be read: %s", guids[i],
					ports[i].why ? ports[i].why : "no answer");
	*ret = ports;
	*ret_n = n;
	return rc;
}

bool rk_port_has(const struct rk_ib_port *port, unsigned word)
{
	for (size_t i = 0; i < port->n_pkeys; i++)
		if (port->pkeys[i] == word)
			return true;
	return false;
}

static int ib_seen(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	struct rk_ib_port *ports;
	size_t n;
	unsigned word = (unsigned)rk_param_int(step, "pkey") | (rk_param_int(step, "full") ? 0x8000u : 0);
	int rc = ib_read(world, step, "members", false, &ports, &n, err);

	*ret = !rc;
	for (size_t i = 0; !rc && i < n; i++)
		*ret &= rk_port_has(&ports[i], word) && !rk_port_has(&ports[i], 0xffff);
	return rc;
}

static int ib_gone(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	struct rk_ib_port *ports;
	size_t n;
	unsigned key = (unsigned)rk_param_int(step, "pkey");
	int rc = ib_read(world, step, "members", true, &ports, &n, err);

	*ret = !rc;
	for (size_t i = 0; !rc && i < n; i++)
		*ret &= !rk_port_has(&ports[i], key) && !rk_port_has(&ports[i], key | 0x8000u);
	return rc;
}

static const struct rk_ib_live *part_of(const struct rk_step *step, const struct rk_ib_live *live, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (live[i].pkey == (uint16_t)rk_param_int(step, "pkey"))
			return &live[i];
	return NULL;
}

/* Somebody else's definition of our key is refused. */
int rk_ib_find_ours(struct rk_world *world, struct rk_step *step, const struct rk_ib_live **ret, struct rk_err *err)
{
	struct rk_ib_live *live;
	size_t n;
	int fabric, rc = ib_fabric(world, step, &fabric, err);

	if (!rc)
		rc = world->ib->ops->list(world->ib, fabric, step->arena, &live, &n, err);
	if (rc)
		return rc;
	*ret = part_of(step, live, n);
	if (!*ret || (*ret)->ours)
		return 0;
	rk_err_set(err, RK_CONFLICT, "PKey 0x%04x is defined outside the section that racksh manages, as \"%s\"", (*ret)->pkey, (*ret)->name ? (*ret)->name : "");
	rk_err_hint(err, "take it out of the pool of fabric %s in the site file, or remove that definition", rk_param(step, "fabric"));
	return RK_CONFLICT;
}

static int ib_probe(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	const struct rk_ib_live *part = NULL;
	int rc = rk_ib_find_ours(world, step, &part, err);

	if (rc)
		return rc;
	*ret = step->data != NULL;
	return part && !step->data ? ib_seen(world, step, ret, err) : 0;
}

struct members {
	struct rk_ib_member *items;
	size_t n;
};

/* Once, and as the first one that is added. */
static void add_member(struct members *m, uint64_t guid, bool full)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->items[i].guid == guid)
			return;
	m->items[m->n++] = (struct rk_ib_member){ guid, full };
}

static bool is_in(const uint64_t *guids, size_t n, uint64_t guid)
{
	for (size_t i = 0; i < n; i++)
		if (guids[i] == guid)
			return true;
	return false;
}

/* Those that are in the partition now, but the step's own ports. *ret_there: there is such a partition. Nobody else of us changes it meanwhile: the step
 * has the fabric's lane. */
static int those_there(struct rk_world *world, struct rk_step *step, int fabric, const uint64_t *own, size_t n_own, struct members *ret, bool *ret_there,
		       struct rk_err *err)
{
	struct rk_ib_live *live;
	size_t n;
	int rc = world->ib->ops->list(world->ib, fabric, step->arena, &live, &n, err);
	const struct rk_ib_live *part = rc ? NULL : part_of(step, live, n);
	size_t n_there = part ? part->n_members : 0;

	*ret_there = part != NULL;
	ret->items = rk_arena_array(step->arena, n_there + ret->n + 1, sizeof(*ret->items));
	ret->n = 0;
	for (size_t i = 0; i < n_there; i++)
		if (!is_in(own, n_own, part->members[i].guid))
			ret->items[ret->n++] = part->members[i];
	return rc;
}

/* The partition's members: its servers, those that stay, and, with_members, those the step is about. */
static int ib_set(struct rk_world *world, struct rk_step *step, bool with_members, struct rk_err *err)
{
	size_t n_rest, n, n_servers;
	uint64_t *rest = rk_param_guids(step, "rest", &n_rest), *guids = rk_param_guids(step, "members", &n), *servers = rk_param_guids(step, "servers", &n_servers);
	bool full = rk_param_int(step, "full") != 0, shared = is_shared(step), there = true;
	struct members m = { NULL, n_rest + n + n_servers }, stay = { NULL, 0 };
	int fabric, rc = ib_fabric(world, step, &fabric, err);

	if (!rc && shared)
		rc = those_there(world, step, fabric, guids, n, &stay, &there, err);
	if (rc || step->data || (!there && !with_members))
		return rc;
	m = (struct members){ rk_arena_array(step->arena, n_rest + n + n_servers + stay.n, sizeof(*m.items)), 0 };
	for (size_t i = 0; shared && i < n_servers; i++)
		add_member(&m, servers[i], true);
	for (size_t i = 0; i < n_rest; i++)
		add_member(&m, rest[i], full);
	for (size_t i = 0; i < stay.n; i++)
		add_member(&m, stay.items[i].guid, stay.items[i].full);
	for (size_t i = 0; with_members && i < n; i++)
		add_member(&m, guids[i], full);
	const struct rk_ib_wanted wanted = { (uint16_t)rk_param_int(step, "pkey"), rk_param(step, "name"), m.items, m.n, shared };
	return world->ib->ops->set(world->ib, fabric, &wanted, err);
}

static int ib_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	int rc = ib_set(world, step, true, err);

	return rc || step->data ? rc : rk_wait_until(world, step, "the PKey in every port's table", ib_seen, err);
}

static int ib_undo(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	int rc = ib_set(world, step, false, err);

	return rc ? rc : rk_wait_until(world, step, "the PKey to leave every port's table", ib_gone, err);
}

/* Of a tray that is taken out of service: a port that cannot be read is down, and gets its table from the configuration when it comes up. */
static int ib_gone_or_dark(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	size_t n;
	uint64_t *guids = rk_param_guids(step, "members", &n);
	struct rk_ib_port *ports = rk_arena_array(step->arena, n, sizeof(*ports));
	unsigned key = (unsigned)rk_param_int(step, "pkey");
	int fabric, rc = ib_fabric(world, step, &fabric, err);

	if (!rc)
		rc = world->ib->ops->tables(world->ib, fabric, guids, n, step->arena, ports, err);
	*ret = !rc;
	for (size_t i = 0; !rc && i < n; i++)
		*ret &= !rk_port_has(&ports[i], key) && !rk_port_has(&ports[i], key | 0x8000u);
	return rc;
}

static int expel_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	int rc = ib_set(world, step, false, err);

	return rc ? rc : rk_wait_until(world, step, "the PKey to leave the ports", ib_gone_or_dark, err);
}

/* As far as ports can be read: one without a link gets its table when it comes up. */
static int ib_seen_where_up(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	struct rk_ib_port *ports;
	size_t n;
	unsigned word = (unsigned)rk_param_int(step, "pkey") | (rk_param_int(step, "full") ? 0x8000u : 0);
	int rc = ib_read(world, step, "members", true, &ports, &n, err);

	*ret = !rc;
	for (size_t i = 0; !rc && i < n; i++)
		*ret &= ports[i].down || (rk_port_has(&ports[i], word) && !rk_port_has(&ports[i], 0xffff));
	return rc;
}

int rk_ib_on_no_other_port(struct rk_world *world, struct rk_step *step, int fabric, unsigned key, const uint64_t *allowed, size_t n_allowed, int *ret,
			   struct rk_err *err)
{
	const struct rk_site *site = world->site;
	struct rk_map *known RK_CLEANUP_MAP = rk_map_new();
	uint64_t *guids = rk_arena_array(step->arena, site->n_hcas, sizeof(*guids));
	struct rk_ib_port *ports = rk_arena_array(step->arena, site->n_hcas, sizeof(*ports));
	size_t n = 0, at;

	for (size_t i = 0; i < n_allowed; i++)
		rk_map_add_u64(known, allowed[i], 0, NULL);
	for (size_t h = 0; h < site->n_hcas; h++)
		if (site->hcas[h].fabric == fabric && site->hcas[h].port_guid && !rk_map_get_u64(known, site->hcas[h].port_guid, &at))
			guids[n++] = site->hcas[h].port_guid;
	int rc = n ? world->ib->ops->tables(world->ib, fabric, guids, n, step->arena, ports, err) : 0;
	*ret = !rc;
	for (size_t i = 0; !rc && i < n; i++)
		*ret &= !rk_port_has(&ports[i], key) && !rk_port_has(&ports[i], key | 0x8000u);
	return rc;
}

static int ib_exact(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	size_t n_rest, n;
	uint64_t *rest = rk_param_guids(step, "rest", &n_rest), *members = rk_param_guids(step, "members", &n);
	uint64_t *all = rk_arena_array(step->arena, n + n_rest, sizeof(*all));
	int fabric, rc = ib_fabric(world, step, &fabric, err);

	for (size_t i = 0; i < n + n_rest; i++)
		all[i] = i < n ? members[i] : rest[i - n];
	if (!rc)
		rc = ib_seen_where_up(world, step, ret, err);
	return rc || !*ret ? rc : rk_ib_on_no_other_port(world, step, fabric, (unsigned)rk_param_int(step, "pkey"), all, n + n_rest, ret, err);
}

static int fix_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	int rc = ib_set(world, step, true, err);

	return rc ? rc : rk_wait_until(world, step, "the PKey in the tables of the cluster's ports alone", ib_exact, err);
}

const struct rk_step_kind rk_ib_steps[] = {
	{ .name = "ib.partition", .summary = "give the ports a PKey of their own", .deadline_ms = 30000, .probe = ib_probe, .apply = ib_apply, .undo = ib_undo, .give_up = rk_ib_give_up, .makes = true },
	{ .name = "ib.fix", .summary = "make the PKey that of exactly the cluster's ports", .deadline_ms = 30000, .apply = fix_apply },
	{ .name = "ib.join", .summary = "give more ports the cluster's PKey", .deadline_ms = 30000, .probe = ib_probe, .apply = ib_apply, .undo = ib_undo, .give_up = rk_ib_give_up },
	{ .name = "ib.leave", .summary = "take the PKey from ports that leave the cluster", .deadline_ms = 30000, .apply = ib_undo, .undo = ib_apply, .give_up = rk_ib_give_up },
	{ .name = "ib.expel", .summary = "take the PKey from the ports of a tray that is given up", .deadline_ms = 30000, .final = true, .apply = expel_apply, .give_up = rk_ib_give_up },
	{ .name = "ib.release", .summary = "take the PKey from the ports", .deadline_ms = 30000, .apply = ib_undo, .undo = ib_apply, .give_up = rk_ib_give_up, .removes = true },
	{ .name = "service.join", .summary = "give ports the PKey of a service", .deadline_ms = 30000, .several = true, .prepare = ib_prepare, .probe = ib_probe, .apply = ib_apply,
	  .undo = ib_undo, .give_up = rk_ib_give_up },
	{ .name = "service.leave", .summary = "take the PKey of a service from ports", .deadline_ms = 30000, .several = true, .prepare = ib_prepare, .apply = ib_undo,
	  .undo = ib_apply, .give_up = rk_ib_give_up },
	{ .name = "service.expel", .summary = "take the PKey of a service from the ports of a tray that is given up", .deadline_ms = 30000, .several = true, .final = true,
	  .prepare = ib_prepare, .apply = expel_apply, .give_up = rk_ib_give_up },
	{ .name = NULL },
};
