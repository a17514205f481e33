#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provision/steps.h"

/* InfiniBand partitions. Params: fabric, pkey, name, full, members (the ports the step is about), rest (members that stay). */

static int ib_fabric(struct rk_world *world, const struct rk_step *step, int *ret, struct rk_err *err)
{
	*ret = rk_find_fabric(world->site, rk_param(step, "fabric"));
	return *ret < 0 ? rk_err_set(err, RK_NOT_FOUND, "no InfiniBand fabric \"%s\" in the store", rk_param(step, "fabric")) : 0;
}

/* Not in the fabric, where it reaches nobody, and the subnet manager gives it its table before it does again; or of a tray that was given up. */
static bool is_dark(const struct rk_site *site, uint64_t guid, const struct rk_ib_port *port)
{
	int hca = port->known || port->down ? RK_NONE : rk_find_hca_guid(site, guid);

	return port->down || (hca >= 0 && rk_tray_mark(&site->trays[site->hcas[hca].tray]));
}

/* Reads the tables of all members. An unread port is "unknown", never "gone" and never "there"; down_too: one that is dark is as good as read. */
static int ib_read(struct rk_world *world, struct rk_step *step, bool down_too, struct rk_ib_port **ret, size_t *ret_n, struct rk_err *err)
{
	size_t n;
	uint64_t *guids = rk_param_guids(step, "members", &n);
	struct rk_ib_port *ports = rk_arena_array(step->arena, n, sizeof(*ports));
	int fabric, rc = ib_fabric(world, step, &fabric, err);

	if (!rc)
		rc = world->ib->ops->tables(world->ib, fabric, guids, n, step->arena, ports, err);
	for (size_t i = 0; !rc && i < n; i++)
		if (!ports[i].known && !(down_too && is_dark(world->site, guids[i], &ports[i])))
			rc = rk_err_set(err, RK_UNREACHABLE, "the PKey table of port 0x%016" PRIx64 " could not be read: %s", guids[i],
					ports[i].why ? ports[i].why : "no answer");
	*ret = ports;
	*ret_n = n;
	return rc;
}

static bool port_has(const struct rk_ib_port *port, unsigned word)
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
	int rc = ib_read(world, step, false, &ports, &n, err);

	*ret = !rc;
	for (size_t i = 0; !rc && i < n; i++)
		*ret &= port_has(&ports[i], word) && !port_has(&ports[i], 0xffff);
	return rc;
}

static int ib_gone(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	struct rk_ib_port *ports;
	size_t n;
	unsigned key = (unsigned)rk_param_int(step, "pkey");
	int rc = ib_read(world, step, true, &ports, &n, err);

	*ret = !rc;
	for (size_t i = 0; !rc && i < n; i++)
		*ret &= !port_has(&ports[i], key) && !port_has(&ports[i], key | 0x8000u);
	return rc;
}

/* Somebody else's definition of our key, or of one of our ports, is refused. */
static int ib_probe(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	struct rk_ib_live *live;
	size_t n;
	int fabric, rc = ib_fabric(world, step, &fabric, err);

	if (!rc)
		rc = world->ib->ops->list(world->ib, fabric, step->arena, &live, &n, err);
	if (rc)
		return rc;
	const struct rk_ib_live *part = NULL;
	for (size_t i = 0; i < n; i++)
		if (live[i].pkey == (uint16_t)rk_param_int(step, "pkey"))
			part = &live[i];
	if (part && !part->ours) {
		rk_err_set(err, RK_CONFLICT, "PKey 0x%04x is defined outside the section that racksh manages, as \"%s\"", part->pkey,
			   part->name ? part->name : "");
		rk_err_hint(err, "take it out of the pool of fabric %s in the site file, or remove that definition", rk_param(step, "fabric"));
		return RK_CONFLICT;
	}
	if (!part) {
		*ret = 0;
		return 0;
	}
	return ib_seen(world, step, ret, err);
}

/* The partition's members: those that stay ("rest") and, with_members, those the step is about. */
static int ib_set(struct rk_world *world, struct rk_step *step, bool with_members, struct rk_err *err)
{
	size_t n_rest, n;
	uint64_t *rest = rk_param_guids(step, "rest", &n_rest), *guids = rk_param_guids(step, "members", &n);
	struct rk_ib_member *members = rk_arena_array(step->arena, n_rest + n, sizeof(*members));
	int fabric, rc = ib_fabric(world, step, &fabric, err);

	for (size_t i = 0; i < n_rest + n; i++)
		members[i] = (struct rk_ib_member){ i < n_rest ? rest[i] : guids[i - n_rest], rk_param_int(step, "full") != 0 };
	if (rc)
		return rc;
	return world->ib->ops->set(world->ib, fabric, (uint16_t)rk_param_int(step, "pkey"), rk_param(step, "name"), members,
				   with_members ? n_rest + n : n_rest, err);
}

static int ib_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	int rc = ib_set(world, step, true, err);

	return rc ? rc : rk_wait_until(world, step, "the PKey in every port's table", ib_seen, err);
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
		*ret &= !port_has(&ports[i], key) && !port_has(&ports[i], key | 0x8000u);
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
	int rc = ib_read(world, step, true, &ports, &n, err);

	*ret = !rc;
	for (size_t i = 0; !rc && i < n; i++)
		*ret &= ports[i].down || (port_has(&ports[i], word) && !port_has(&ports[i], 0xffff));
	return rc;
}

static int fix_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	int rc = ib_set(world, step, true, err);

	return rc ? rc : rk_wait_until(world, step, "the PKey in every port's table", ib_seen_where_up, err);
}

const struct rk_step_kind rk_ib_steps[] = {
	{ .name = "ib.partition", .summary = "give the ports a PKey of their own", .deadline_ms = 30000, .probe = ib_probe, .apply = ib_apply, .undo = ib_undo },
	{ .name = "ib.fix", .summary = "make the PKey that of exactly the cluster's ports", .deadline_ms = 30000, .apply = fix_apply },
	{ .name = "ib.join", .summary = "give more ports the cluster's PKey", .deadline_ms = 30000, .probe = ib_probe, .apply = ib_apply, .undo = ib_undo },
	{ .name = "ib.leave", .summary = "take the PKey from ports that leave the cluster", .deadline_ms = 30000, .apply = ib_undo, .undo = ib_apply },
	{ .name = "ib.expel", .summary = "take the PKey from the ports of a tray that is given up", .deadline_ms = 30000, .final = true, .apply = expel_apply },
	{ .name = "ib.release", .summary = "take the PKey from the ports", .deadline_ms = 30000, .apply = ib_undo, .undo = ib_apply },
	{ .name = NULL },
};
