#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/str.h"
#include "inventory/topology_impl.h"

/* More findings of one sort than this become one with folded names: an imported file of the wrong fabric is one fact, not 9,000. */
enum { FOLD_ABOVE = 32 };

/* ---- findings ---------------------------------------------------------------------------------------------------------------- */

void rk_wiring_add(struct rk_wiring *c, const char *kind, const char *group, const char *object, const char *hint, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	char *message RK_CLEANUP_FREE = rk_xvasprintf(format, ap);
	va_end(ap);
	struct rk_wiring_entry *e = rk_vec_push(&c->found);
	e->group = group;
	e->finding = (struct rk_ib_finding){ kind, object, rk_arena_strdup(c->arena, message), hint };
}

const char *rk_wiring_hca(struct rk_wiring *c, size_t hca)
{
	const struct rk_hca *h = &c->site->hcas[hca];

	return rk_arena_printf(c->arena, "%s rail %d", c->site->trays[h->tray].name, h->rail);
}

const char *rk_wiring_node(const struct rk_wiring *c, int node)
{
	return c->t->nodes[node].description;
}

const char *rk_wiring_end(struct rk_wiring *c, int node, int port)
{
	return rk_arena_printf(c->arena, "%s port %d", rk_wiring_node(c, node), port);
}

bool rk_wiring_ours(const struct rk_wiring *c, size_t hca)
{
	return c->site->hcas[hca].fabric == c->fabric;
}

int rk_wiring_level(const struct rk_wiring *c, int node)
{
	return c->t->nodes[node].level;
}

uint64_t rk_wiring_port_key(int node, int port)
{
	return (uint64_t)node << 32 | (uint32_t)port;
}

/* ---- nodes and cables -------------------------------------------------------------------------------------------------------- */

static const struct rk_iblink *other_end(const struct rk_wiring *c, const struct rk_iblink *link)
{
	const struct rk_ibnode *peer = &c->t->nodes[link->peer];
	int low = peer->first_link, high = low + peer->n_links;

	while (low < high) {
		int mid = low + (high - low) / 2;
		if (c->t->links[mid].port < link->peer_port)
			low = mid + 1;
		else
			high = mid;
	}
	return low < peer->first_link + peer->n_links && c->t->links[low].port == link->peer_port ? &c->t->links[low] : NULL;
}

static void check_ends(struct rk_wiring *c)
{
	for (size_t i = 0; i < c->t->n_links; i++) {
		const struct rk_iblink *l = &c->t->links[i], *back = other_end(c, l);
		if (back && back->peer == l->node && back->peer_port == l->port)
			continue;
		rk_wiring_add(c, "partial", "cables of which only one end was discovered", rk_wiring_end(c, l->node, l->port), "discover the fabric again",
		    "goes to \"%s\" port %d, which %s", rk_wiring_node(c, l->peer), l->peer_port, back ? "goes elsewhere" : "is not in the file");
	}
}

static void check_nodes(struct rk_wiring *c)
{
	struct rk_map *guids RK_CLEANUP_MAP = rk_map_new();
	size_t first;

	for (size_t i = 0; i < c->t->n_nodes; i++) {
		const struct rk_ibnode *n = &c->t->nodes[i];
		if (n->guid && !rk_map_add_u64(guids, n->guid, i, &first))
			rk_wiring_add(c, "duplicate", NULL, rk_arena_printf(c->arena, "0x%016llx", (unsigned long long)n->guid), "replace or reflash one of the two",
			    "two nodes carry this GUID: \"%s\" and \"%s\"", rk_wiring_node(c, (int)first), n->description);
		if (!n->ports)
			rk_wiring_add(c, "partial", "named by a cable, but not described", n->description, "the file is cut, or the node did not answer: discover again",
			    "a cable goes to this node, but the node itself is not described");
		else if (!n->n_links)
			rk_wiring_add(c, "partial", "described, but without a cable", n->description, "discover the fabric again",
			    "the node is described, but without a cable");
	}
}

static void check_extra(struct rk_wiring *c)
{
	bool any = false;
	size_t hca;

	/* Where the site knows no GUID at all that is the one fact to tell, not that every HCA is strange. */
	for (size_t i = 0; i < c->site->n_hcas && !any; i++)
		any = rk_wiring_ours(c, i) && c->site->hcas[i].port_guid;
	for (size_t i = 0; i < c->t->n_links && any; i++) {
		const struct rk_iblink *l = &c->t->links[i];
		if (!rk_topology_is_hca(&c->t->nodes[l->node]))
			continue;
		bool known = rk_map_get_u64(c->known, l->port_guid, &hca);
		if (known && rk_wiring_ours(c, hca))
			continue;
		rk_wiring_add(c, "extra", "in the fabric, but not in the site", known ? rk_wiring_hca(c, hca) : rk_wiring_node(c, l->node),
		    "add it to the site file, or find out what it is", "HCA 0x%016llx on \"%s\" port %d is not in the site%s",
		    (unsigned long long)l->port_guid, rk_wiring_node(c, l->peer), l->peer_port, known ? " on this fabric" : "");
	}
}

/* ---- result ------------------------------------------------------------------------------------------------------------------ */

static void group_entries(const struct rk_wiring *c, size_t *sizes, size_t *group_of)
{
	struct rk_map *groups RK_CLEANUP_MAP = rk_map_new();
	size_t n = 0;

	for (size_t i = 0; i < c->found.n; i++) {
		const struct rk_wiring_entry *e = &c->found.items[i];
		char *key RK_CLEANUP_FREE = e->group ? rk_xasprintf("%s: %s", e->finding.kind, e->group) : rk_xasprintf("%zu", i);
		group_of[i] = n;
		if (rk_map_add(groups, key, n, &group_of[i]))
			n++;
		sizes[group_of[i]]++;
	}
}

static struct rk_ib_finding folded(struct rk_wiring *c, size_t first, const size_t *group_of, size_t size)
{
	const char **objects RK_CLEANUP_FREE = rk_xcalloc(size, sizeof(*objects));
	struct rk_ib_finding f = c->found.items[first].finding;
	size_t n = 0;

	for (size_t i = first; n < size; i++)
		if (group_of[i] == group_of[first])
			objects[n++] = c->found.items[i].finding.object;
	f.object = rk_nodeset_fold(c->arena, objects, n);
	f.message = rk_arena_printf(c->arena, "%zu: %s", n, c->found.items[first].group);
	return f;
}

static void give(struct rk_wiring *c, struct rk_ib_finding **ret, size_t *ret_n)
{
	size_t *sizes RK_CLEANUP_FREE = rk_xcalloc(c->found.n, sizeof(*sizes)), *group_of RK_CLEANUP_FREE = rk_xcalloc(c->found.n, sizeof(*group_of));
	struct rk_ib_finding *out = rk_arena_array(c->arena, c->found.n, sizeof(*out));
	size_t n = 0;

	group_entries(c, sizes, group_of);
	for (size_t i = 0; i < c->found.n; i++) {
		size_t *size = &sizes[group_of[i]];
		if (*size > FOLD_ABOVE) {
			out[n++] = folded(c, i, group_of, *size);
			*size = 0;
		} else if (*size) {
			out[n++] = c->found.items[i].finding;
		}
	}
	*ret = out;
	*ret_n = n;
}

void rk_topology_check(const struct rk_topology *topology, const struct rk_site *site, int fabric, struct rk_arena *arena,
		       struct rk_ib_finding **ret, size_t *ret_n)
{
	struct rk_map *ports RK_CLEANUP_MAP = rk_map_new(), *known RK_CLEANUP_MAP = rk_map_new(), *doubled RK_CLEANUP_MAP = rk_map_new();
	struct rk_wiring_spot *spots RK_CLEANUP_FREE = rk_xcalloc(site->n_hcas, sizeof(*spots));
	int *leaf_rail RK_CLEANUP_FREE = rk_xcalloc(topology->n_nodes, sizeof(*leaf_rail));
	int *home RK_CLEANUP_FREE = rk_xcalloc(site->n_racks * RK_RAILS_MAX, sizeof(*home));
	struct rk_wiring c = { .t = topology, .site = site, .arena = arena, .fabric = fabric, .ports = ports, .doubled = doubled, .known = known,
			       .spots = spots, .leaf_rail = leaf_rail, .home = home };

	rk_wiring_check_hosts(&c);
	check_nodes(&c);
	check_ends(&c);
	check_extra(&c);
	rk_wiring_check_trunks(&c);
	give(&c, ret, ret_n);
	free(c.found.items);
}
