#include <stdlib.h>

#include "inventory/topology_impl.h"

/* Between switches: levels, equal numbers of links, enough uplinks; and the rate of every cable. */

enum { PAIRS_MAX = 1 << 20 };

static void check_levels(struct rk_wiring *c)
{
	for (size_t i = 0; i < c->t->n_links; i++) {
		const struct rk_iblink *l = &c->t->links[i];
		int a = rk_wiring_level(c, l->node), b = rk_wiring_level(c, l->peer);
		bool switches = c->t->nodes[l->node].is_switch && c->t->nodes[l->peer].is_switch;
		bool hcas = rk_topology_is_hca(&c->t->nodes[l->node]) && rk_topology_is_hca(&c->t->nodes[l->peer]);
		if (!rk_topology_told_here(c->t, l) || (!hcas && !(switches && abs(a - b) != 1)))
			continue;
		rk_wiring_add(c, "level", NULL, rk_wiring_end(c, l->node, l->port), "plug the cable into a switch of the next level",
		    hcas ? "goes straight to \"%s\" port %d, without a switch" : "goes to \"%s\" port %d, a switch of the same or no neighbouring level",
		    rk_wiring_node(c, l->peer), l->peer_port);
	}
}

/* ---- leaves and spines ------------------------------------------------------------------------------------------------------- */

static bool is_uplink(const struct rk_wiring *c, const struct rk_iblink *l)
{
	return rk_wiring_level(c, l->node) == 1 && rk_wiring_level(c, l->peer) == 2;
}

/* A third level carries as much as the second; a leaf that lost all its HCAs only looks like one. */
static bool has_core(const struct rk_wiring *c)
{
	size_t up = 0, core = 0;

	for (size_t i = 0; i < c->t->n_links; i++) {
		up += is_uplink(c, &c->t->links[i]);
		core += rk_wiring_level(c, c->t->links[i].node) == 2 && rk_wiring_level(c, c->t->links[i].peer) == 3;
	}
	return core && core * 2 >= up;
}

struct pair {
	int leaf, spine, links;
};
struct pairs {
	struct pair *items;
	size_t n, cap;
};

static int root_of(int *parent, int node)
{
	while (parent[node] != node)
		node = parent[node] = parent[parent[node]];
	return node;
}

/* Switches that reach each other carry the same number. Planes apart by design (one per rail) owe each other no links. */
static int *components(const struct rk_wiring *c)
{
	int *parent = rk_xcalloc(c->t->n_nodes, sizeof(*parent));

	for (size_t i = 0; i < c->t->n_nodes; i++)
		parent[i] = (int)i;
	for (size_t i = 0; i < c->t->n_links; i++) {
		const struct rk_iblink *l = &c->t->links[i];
		if (c->t->nodes[l->node].is_switch && c->t->nodes[l->peer].is_switch)
			parent[root_of(parent, l->node)] = root_of(parent, l->peer);
	}
	for (size_t i = 0; i < c->t->n_nodes; i++)
		parent[i] = root_of(parent, (int)i);
	return parent;
}

static void add_unlinked_pairs(const struct rk_wiring *c, const struct rk_map *index, struct pairs *pairs)
{
	int *component RK_CLEANUP_FREE = components(c), *spines RK_CLEANUP_FREE = rk_xcalloc((size_t)c->spines, sizeof(*spines));
	int n = 0;

	for (size_t i = 0; i < c->t->n_nodes; i++)
		if (c->t->nodes[i].level == 2)
			spines[n++] = (int)i;
	for (size_t leaf = 0; leaf < c->t->n_nodes; leaf++)
		for (int s = 0; c->t->nodes[leaf].level == 1 && s < n; s++)
			if (component[leaf] == component[spines[s]] && !rk_map_get_u64(index, rk_wiring_port_key((int)leaf, spines[s]), NULL))
				*rk_vec_push(pairs) = (struct pair){ (int)leaf, spines[s], 0 };
}

static void count_pairs(struct rk_wiring *c, struct pairs *pairs)
{
	struct rk_map *index RK_CLEANUP_MAP = rk_map_new();
	size_t at;

	for (size_t i = 0; i < c->t->n_links; i++) {
		const struct rk_iblink *l = &c->t->links[i];
		if (!is_uplink(c, l))
			continue;
		if (rk_map_add_u64(index, rk_wiring_port_key(l->node, l->peer), pairs->n, &at))
			*rk_vec_push(pairs) = (struct pair){ l->node, l->peer, 1 };
		else
			pairs->items[at].links++;
	}
	if (!c->has_core && pairs->n && (uint64_t)c->leaves * (uint64_t)c->spines <= PAIRS_MAX)
		add_unlinked_pairs(c, index, pairs);
}

/* The number of links that most pairs have; the larger of two equally frequent ones. */
static int usual_links(const struct pairs *pairs)
{
	size_t count[256] = { 0 };
	int best = 0;

	for (size_t i = 0; i < pairs->n; i++)
		count[pairs->items[i].links < 256 ? pairs->items[i].links : 255]++;
	for (int links = 1; links < 256; links++)
		if (count[links] && count[links] >= count[best])
			best = links;
		else if (best == 0)
			best = count[links] ? links : 0;
	return best;
}

static void check_pairs(struct rk_wiring *c)
{
	struct pairs pairs = { 0 };

	count_pairs(c, &pairs);
	int usual = usual_links(&pairs);
	for (size_t i = 0; i < pairs.n; i++) {
		const struct pair *p = &pairs.items[i];
		if (p->links == usual)
			continue;
		const char *group = rk_arena_printf(c->arena, "%d links between leaf and spine instead of %d", p->links, usual);
		rk_wiring_add(c, "uplinks", group, rk_arena_printf(c->arena, "%s to %s", rk_wiring_node(c, p->leaf), rk_wiring_node(c, p->spine)),
		    "check the cables between the two", "%d link%s, most leaf-spine pairs have %d", p->links, p->links == 1 ? "" : "s", usual);
	}
	free(pairs.items);
}

static double allowed_ratio(const struct rk_wiring *c)
{
	double ratio = c->fabric >= 0 && (size_t)c->fabric < c->site->n_fabrics ? c->site->fabrics[c->fabric].oversubscription : 0;

	return ratio > 0 ? ratio : 1.0;
}

static void check_subscription(struct rk_wiring *c)
{
	int(*count)[2] = rk_xcalloc(c->t->n_nodes, sizeof(*count));
	double allowed = allowed_ratio(c);

	for (size_t i = 0; i < c->t->n_links; i++) {
		const struct rk_iblink *l = &c->t->links[i];
		int here = rk_wiring_level(c, l->node), there = rk_wiring_level(c, l->peer);
		if (!c->t->nodes[l->peer].service && abs(here - there) == 1)
			count[l->node][there > here]++;
	}
	for (size_t i = 0; i < c->t->n_nodes; i++) {
		int down = count[i][0], up = count[i][1], at = c->t->nodes[i].level;
		bool judged = (at == 1 && (c->leaves > 1 || up)) || (at == 2 && c->has_core);
		if (judged && down > up * allowed)
			rk_wiring_add(c, "oversubscription", "more downlinks than uplinks", rk_wiring_node(c, (int)i),
			    "find the missing uplinks, or say infiniband[].oversubscription in the site file", "%d downlinks, but %d uplinks (%.3g to 1 allowed)",
			    down, up, allowed);
	}
	free(count);
}

/* ---- rates ------------------------------------------------------------------------------------------------------------------- */

static int rate_of_rack(const struct rk_wiring *c, int rack)
{
	int profile = c->site->racks[rack].profile;

	return profile >= 0 && (size_t)profile < c->site->n_profiles ? c->site->profiles[profile].rate_gbps : 0;
}

static int rate_of_fabric(const struct rk_wiring *c)
{
	return c->fabric >= 0 && (size_t)c->fabric < c->site->n_fabrics ? c->site->fabrics[c->fabric].rate_gbps : 0;
}

/* Between switches: the lowest that any rack on this fabric expects. */
static int rate_of_trunks(const struct rk_wiring *c)
{
	int lowest = rate_of_fabric(c);

	for (size_t i = 0; !rate_of_fabric(c) && i < c->site->n_racks; i++) {
		int rate = rate_of_rack(c, (int)i);
		if (rate && (!lowest || rate < lowest))
			lowest = rate;
	}
	return lowest;
}

static void check_rate(struct rk_wiring *c, const struct rk_iblink *l, const char *object, int expected)
{
	if (!l->gbps) {
		rk_wiring_add(c, "speed", "a rate that is not readable", object, "ibnetdiscover before rdma-core 49 does not know XDR: use a newer one",
		    "the rate is not readable");
		return;
	}
	if (l->width < 4)
		rk_wiring_add(c, "width", "fewer than 4 lanes", object, "reseat or replace the cable", "%d lane%s instead of 4 (%s)", l->width,
		    l->width == 1 ? "" : "s", l->speed);
	if (l->gbps * 4 / l->width < expected)
		rk_wiring_add(c, "speed", rk_arena_printf(c->arena, "%s instead of %d Gb/s", l->speed, expected), object,
		    "check cable, port configuration and infiniband[].rateGbps of the site file", "%s, %d Gb/s instead of %d Gb/s", l->speed, l->gbps,
		    expected);
}

static void check_rates(struct rk_wiring *c)
{
	int rate = rate_of_fabric(c), trunks = rate_of_trunks(c);

	for (size_t i = 0; i < c->site->n_hcas; i++)
		if (c->spots[i].link != RK_NONE)
			check_rate(c, &c->t->links[c->spots[i].link], rk_wiring_hca(c, i),
				   rate ? rate : rate_of_rack(c, c->site->trays[c->site->hcas[i].tray].rack));
	for (size_t i = 0; i < c->t->n_links; i++) {
		const struct rk_iblink *l = &c->t->links[i];
		if (rk_topology_told_here(c->t, l) && c->t->nodes[l->node].is_switch && c->t->nodes[l->peer].is_switch)
			check_rate(c, l, rk_wiring_end(c, l->node, l->port), trunks);
	}
}

void rk_wiring_check_trunks(struct rk_wiring *c)
{
	c->has_core = has_core(c);
	check_levels(c);
	check_pairs(c);
	check_subscription(c);
	check_rates(c);
}
