#include <stdlib.h>
#include <string.h>

#include "inventory/topology_impl.h"

/* What a fabric is once it was read: levels, ends, and where the HCAs of a site are. */

void rk_topology_free(struct rk_topology *topology)
{
	if (!topology)
		return;
	rk_arena_free(topology->arena);
	free(topology);
}

void rk_cleanup_topology(struct rk_topology **topology)
{
	rk_topology_free(*topology);
}

bool rk_topology_is_hca(const struct rk_ibnode *node)
{
	return !node->is_switch && !node->service;
}

/* HCAs per switch; only switches count, and service nodes do not. */
static int *count_hcas(const struct rk_topology *t)
{
	int *hcas = rk_xcalloc(t->n_nodes, sizeof(*hcas));

	for (size_t i = 0; i < t->n_links; i++)
		if (t->nodes[t->links[i].node].is_switch && rk_topology_is_hca(&t->nodes[t->links[i].peer]))
			hcas[t->links[i].node]++;
	return hcas;
}

/* A switch with HCAs is a leaf, unless it has more cables to switches with more HCAs than it has HCAs: that is a spine into which
 * somebody plugged an HCA, and calling it a leaf would turn every real leaf's wiring into a fault. */
static bool is_leaf(const struct rk_topology *t, size_t node, const int *hcas)
{
	const struct rk_ibnode *n = &t->nodes[node];
	int up = 0;

	for (int i = n->first_link; i < n->first_link + n->n_links; i++)
		up += hcas[t->links[i].peer] > hcas[node];
	return hcas[node] > 0 && up <= hcas[node];
}

void rk_topology_set_levels(struct rk_topology *t)
{
	int *hcas RK_CLEANUP_FREE = count_hcas(t);

	for (size_t i = 0; i < t->n_nodes; i++) {
		struct rk_ibnode *n = &t->nodes[i];
		if (!n->is_switch)
			n->level = n->n_links ? 0 : -1;
		else if (is_leaf(t, i, hcas))
			n->level = 1;
	}
	for (int level = 2; level <= 3; level++)
		for (size_t i = 0; i < t->n_links; i++) {
			struct rk_ibnode *n = &t->nodes[t->links[i].node];
			if (n->is_switch && n->level < 0 && t->nodes[t->links[i].peer].level == level - 1)
				n->level = level;
		}
}

bool rk_topology_told_here(const struct rk_topology *t, const struct rk_iblink *link)
{
	const struct rk_ibnode *a = &t->nodes[link->node], *b = &t->nodes[link->peer];

	if (a->level != b->level)
		return a->level < b->level || !b->n_links;
	return a->guid < b->guid || (a->guid == b->guid && link->port <= link->peer_port);
}

void rk_topology_place(const struct rk_topology *topology, struct rk_site *site, int fabric)
{
	struct rk_map *ports RK_CLEANUP_MAP = rk_map_new();
	const char **names RK_CLEANUP_FREE = rk_xcalloc(topology->n_nodes, sizeof(*names));
	size_t at;

	for (size_t i = 0; i < topology->n_links; i++)
		if (topology->links[i].port_guid)
			rk_map_add_u64(ports, topology->links[i].port_guid, i, NULL);
	for (size_t i = 0; i < site->n_hcas; i++) {
		struct rk_hca *h = &site->hcas[i];
		if (h->fabric != fabric)
			continue;
		h->leaf = NULL;
		h->leaf_port = 0;
		if (!h->port_guid || !rk_map_get_u64(ports, h->port_guid, &at))
			continue;
		int peer = topology->links[at].peer;
		if (!topology->nodes[peer].is_switch)
			continue;
		if (!names[peer])
			names[peer] = rk_arena_strdup(site->arena, topology->nodes[peer].description);
		h->leaf = names[peer];
		h->leaf_port = topology->links[at].peer_port;
	}
}
