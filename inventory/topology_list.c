#include "inventory/topology_impl.h"

/* A fabric as lists for people: its switches, and each cable once. */

void rk_topology_switches(const struct rk_topology *t, struct rk_arena *arena, struct rk_ibswitch **ret, size_t *ret_n)
{
	struct rk_ibswitch *out = rk_arena_array(arena, t->n_nodes, sizeof(*out));
	size_t n = 0;

	for (size_t i = 0; i < t->n_nodes; i++) {
		const struct rk_ibnode *node = &t->nodes[i];
		if (!node->is_switch)
			continue;
		struct rk_ibswitch *s = &out[n++];
		*s = (struct rk_ibswitch){ .name = rk_arena_strdup(arena, node->description), .guid = node->guid, .level = node->level, .ports = node->ports };
		for (int k = node->first_link; k < node->first_link + node->n_links; k++) {
			const struct rk_ibnode *peer = &t->nodes[t->links[k].peer];
			s->hosts += rk_topology_is_hca(peer);
			s->up += peer->is_switch && peer->level > node->level;
			s->down += peer->is_switch && peer->level < node->level;
		}
	}
	*ret = out;
	*ret_n = n;
}

/* How an end is called: HCAs of the site by tray and rail, others by their description. */
static const char *end_name(const struct rk_site *site, const struct rk_ibnode *node, uint64_t guid, struct rk_arena *arena)
{
	int hca = guid ? rk_find_hca_guid(site, guid) : RK_NONE;

	if (hca < 0)
		return rk_arena_strdup(arena, node->description);
	return rk_arena_printf(arena, "%s rail %d", site->trays[site->hcas[hca].tray].name, site->hcas[hca].rail);
}

static int expected_rate(const struct rk_site *site, int fabric, uint64_t guid)
{
	int rate = fabric >= 0 && (size_t)fabric < site->n_fabrics ? site->fabrics[fabric].rate_gbps : 0, hca = guid ? rk_find_hca_guid(site, guid) : RK_NONE;

	if (rate || hca < 0)
		return rate;
	return site->profiles[site->racks[site->trays[site->hcas[hca].tray].rack].profile].rate_gbps;
}

static const char *kind_of(const struct rk_ibnode *a, const struct rk_ibnode *b)
{
	if (a->service || b->service)
		return "service";
	if (!a->is_switch || !b->is_switch)
		return "host";
	return a->level > 2 || b->level > 2 ? "core" : "trunk";
}

/* The GUID of the other end of an HCA's cable is on that end's own record. */
static uint64_t guid_of_end(const struct rk_topology *t, int node, int port)
{
	for (int k = t->nodes[node].first_link; k < t->nodes[node].first_link + t->nodes[node].n_links; k++)
		if (t->links[k].port == port)
			return t->links[k].port_guid;
	return 0;
}

void rk_topology_cables(const struct rk_topology *t, const struct rk_site *site, int fabric, struct rk_arena *arena, struct rk_ibcable **ret, size_t *ret_n)
{
	struct rk_ibcable *out = rk_arena_array(arena, t->n_links, sizeof(*out));
	size_t n = 0;

	for (size_t i = 0; i < t->n_links; i++) {
		const struct rk_iblink *l = &t->links[i];
		const struct rk_ibnode *a = &t->nodes[l->node], *b = &t->nodes[l->peer];
		/* The lower end tells the cable: a host's, or the switch nearer to the hosts. */
		bool lower = a->level != b->level ? a->level < b->level : l->node < l->peer || (l->node == l->peer && l->port < l->peer_port);
		if (!lower && b->n_links)
			continue;
		int want = expected_rate(site, fabric, l->port_guid);
		out[n++] = (struct rk_ibcable){
			.kind = kind_of(a, b),
			.from = end_name(site, a, l->port_guid, arena),
			.from_port = l->port,
			.to = end_name(site, b, b->is_switch ? 0 : guid_of_end(t, l->peer, l->peer_port), arena),
			.to_port = l->peer_port,
			.width = l->width,
			.speed = rk_arena_strdup(arena, l->speed),
			.gbps = l->gbps,
			.expected_gbps = want,
			.state = !l->gbps ? "unknown" : l->width < 4 ? "narrow" : want && l->gbps < want ? "slow" : "ok",
		};
	}
	*ret = out;
	*ret_n = n;
}
