#include <string.h>

#include "cli/cmds/common.h"
#include "inventory/topology.h"
#include "provision/topology_text.h"

/* Switches of every kind, and the InfiniBand cables. */

static const struct rk_component *component_of(const struct rk_site *site, int rack, const char *kind, int index)
{
	size_t n;
	const struct rk_component *c = rk_components(site, rack, RK_NONE, &n);

	for (; n; n--, c++)
		if (c->index == index && rk_streq(c->kind, kind))
			return c;
	return NULL;
}

/* The switch trays are the hosts of the NVLink manager when there are as many; else they are numbered. */
static const char *nvlink_name(struct rk_call *call, const struct rk_rack *r, int i, int n)
{
	if ((int)r->nvlink.n_ssh != n)
		return rk_arena_printf(call->arena, "%s-nvsw%d", r->name, i + 1);
	const char *at = strrchr(r->nvlink.ssh[i], '@');
	const char *host = at ? at + 1 : r->nvlink.ssh[i];
	return rk_arena_strndup(call->arena, host, strcspn(host, ":"));
}

static void rack_switch(struct rk_call *call, int rack, const char *kind, const char *component, const char *name, int index)
{
	const struct rk_site *site = call->world->site;
	const struct rk_component *c = component_of(site, rack, component, index);

	rk_out_row(call->out);
	rk_cell_text(call->out, "name", name);
	rk_cell_text(call->out, "kind", kind);
	rk_cell_text(call->out, "rack", site->racks[rack].name);
	rk_cell_text(call->out, "serial", c ? c->serial : NULL);
	rk_cell_text(call->out, "firmware", c ? c->firmware : NULL);
}

static void rack_switches(struct rk_call *call, int rack)
{
	const struct rk_site *site = call->world->site;
	const struct rk_rack *r = &site->racks[rack];
	const struct rk_profile *p = &site->profiles[r->profile];

	for (int i = 0; i < p->switch_trays; i++) {
		rack_switch(call, rack, "nvlink", "nvlink-switch", nvlink_name(call, r, i, p->switch_trays), i);
		if (i < (int)RK_ARRAY_SIZE(p->switch_slot) && p->switch_slot[i])
			rk_cell_number(call->out, "slot", p->switch_slot[i]);
		if (i < (int)RK_ARRAY_SIZE(p->switch_u) && p->switch_u[i])
			rk_cell_number(call->out, "u", p->switch_u[i]);
	}
	for (int i = 0; i < p->management_switches; i++)
		rack_switch(call, rack, "management", "management-switch", rk_arena_printf(call->arena, "%s-mgmt%d", r->name, i + 1), i);
}

static int fabric_switches(struct rk_call *call, int fabric, struct rk_err *err)
{
	static const char *const levels[] = { "host", "leaf", "spine", "core" };
	struct rk_topology *topology RK_CLEANUP(rk_cleanup_topology) = NULL;
	struct rk_ibswitch *list;
	size_t n;
	int rc = rk_topology_read(call->world, fabric, &topology, NULL, err);

	if (rc)
		return rc;
	rk_topology_switches(topology, call->arena, &list, &n);
	for (size_t i = 0; i < n; i++) {
		const struct rk_ibswitch *s = &list[i];
		rk_out_row(call->out);
		rk_cell_text(call->out, "name", s->name);
		rk_cell_text(call->out, "kind", "infiniband");
		rk_cell_text(call->out, "fabric", call->world->site->fabrics[fabric].name);
		rk_cell_text(call->out, "level", s->level >= 0 && s->level < (int)RK_ARRAY_SIZE(levels) ? levels[s->level] : NULL);
		rk_cell_hex64(call->out, "guid", s->guid);
		if (s->ports)
			rk_cell_number(call->out, "ports", s->ports);
		rk_cell_number(call->out, "hosts", s->hosts);
		rk_cell_number(call->out, "down", s->down);
		rk_cell_number(call->out, "up", s->up);
	}
	return 0;
}

static int list_switches(struct rk_call *call, struct rk_err *err)
{
	const char *kind = rk_call_arg(call, "kind");
	const struct rk_site *site = call->world->site;
	int rc = 0;

	for (size_t r = 0; r < site->n_racks && !rk_streq(kind, "infiniband"); r++)
		rack_switches(call, (int)r);
	for (size_t f = 0; f < site->n_fabrics && !rc && !rk_streq(kind, "rack"); f++)
		rc = fabric_switches(call, (int)f, err);
	return rc;
}

static int fabric_links(struct rk_call *call, int fabric, struct rk_err *err)
{
	struct rk_topology *topology RK_CLEANUP(rk_cleanup_topology) = NULL;
	struct rk_ibcable *list;
	size_t n;
	int rc = rk_topology_read(call->world, fabric, &topology, NULL, err);

	if (rc)
		return rc;
	rk_topology_cables(topology, call->world->site, fabric, call->arena, &list, &n);
	for (size_t i = 0; i < n; i++) {
		const struct rk_ibcable *c = &list[i];
		rk_out_row(call->out);
		rk_cell_text(call->out, "fabric", call->world->site->fabrics[fabric].name);
		rk_cell_text(call->out, "kind", c->kind);
		rk_cell_text(call->out, "from", c->from);
		rk_cell_number(call->out, "from_port", c->from_port);
		rk_cell_text(call->out, "to", c->to);
		rk_cell_number(call->out, "to_port", c->to_port);
		if (c->width)
			rk_cell_number(call->out, "width", c->width);
		rk_cell_text(call->out, "speed", c->gbps ? c->speed : NULL);
		if (c->gbps)
			rk_cell_number(call->out, "gbps", c->gbps);
		if (c->expected_gbps)
			rk_cell_number(call->out, "expected_gbps", c->expected_gbps);
		rk_cell_text(call->out, "state", c->state);
	}
	return 0;
}

static int list_links(struct rk_call *call, struct rk_err *err)
{
	const char *name = rk_call_arg(call, "fabric");
	const struct rk_site *site = call->world->site;
	int only = RK_NONE, rc = name ? rk_get_fabric(call, name, &only, err) : 0;

	for (size_t f = 0; f < site->n_fabrics && !rc; f++)
		if (!name || only == (int)f)
			rc = fabric_links(call, (int)f, err);
	return rc;
}

static const struct rk_command switch_rows[] = {
	{ .noun = "switch", .verb = "list", .summary = "list NVLink, management and InfiniBand switches", .list = true, .flags = RK_CMD_REMOTE,
	  .description = "Those of the racks come from the site file and the rack profiles, those of a fabric from the wiring last imported, without one from the living fabric.",
	  .options = RK_ARGS({ .name = "kind", .type = RK_ARG_ENUM, .values = "rack|infiniband", .help = "only those in the racks, or only those of the fabrics" }),
	  .examples = RK_EXAMPLES("switch list", "switch list --kind rack"), .run = list_switches,
	  .columns = RK_COLUMNS({ "name", RK_COL_TEXT }, { "kind", RK_COL_TEXT }, { "rack", RK_COL_TEXT }, { "slot", RK_COL_NUMBER }, { "u", RK_COL_NUMBER },
				{ "fabric", RK_COL_TEXT }, { "level", RK_COL_TEXT }, { "guid", RK_COL_HEX64 }, { "ports", RK_COL_NUMBER }, { "hosts", RK_COL_NUMBER },
				{ "down", RK_COL_NUMBER }, { "up", RK_COL_NUMBER }, { "serial", RK_COL_TEXT, .wide = true }, { "firmware", RK_COL_TEXT, .wide = true }) },
};
RK_NOUN(switch, "switches: NVLink, management, InfiniBand", NULL, switch_rows);

static const struct rk_command link_rows[] = {
	{ .noun = "link", .verb = "list", .summary = "list the InfiniBand cables with width and rate", .list = true, .flags = RK_CMD_REMOTE,
	  .description = "Each cable once, its lower end first. From the wiring last imported, without one from the living fabric.",
	  .options = RK_ARGS({ .name = "fabric", .type = RK_ARG_FABRIC, .help = "only this fabric" }), .examples = RK_EXAMPLES("link list", "link list --fabric ib0 -o csv"),
	  .run = list_links,
	  .columns = RK_COLUMNS({ "fabric", RK_COL_TEXT }, { "kind", RK_COL_TEXT }, { "from", RK_COL_TEXT }, { "from_port", RK_COL_NUMBER }, { "to", RK_COL_TEXT },
				{ "to_port", RK_COL_NUMBER }, { "width", RK_COL_NUMBER }, { "speed", RK_COL_TEXT, .wide = true }, { "gbps", RK_COL_NUMBER },
				{ "expected_gbps", RK_COL_NUMBER, .wide = true }, { "state", RK_COL_TEXT }) },
};
RK_NOUN(link, "InfiniBand cables", NULL, link_rows);
