#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/str.h"
#include "inventory/topology_impl.h"

/* A fabric against what it was when it was accepted: cables by the GUIDs and ports of their ends. */

struct side {
	const struct rk_topology *t;
	struct rk_map *nodes; /* GUID -> node */
};
struct compare {
	struct side was, is;
	struct rk_arena *arena;
	struct {
		struct rk_ib_finding *items;
		size_t n, cap;
	} found;
};

static void index_nodes(struct side *s)
{
	for (size_t i = 0; i < s->t->n_nodes; i++)
		rk_map_add_u64(s->nodes, s->t->nodes[i].guid, i, NULL);
}

static const struct rk_ibnode *node_of(const struct side *s, uint64_t guid)
{
	size_t at;

	return rk_map_get_u64(s->nodes, guid, &at) ? &s->t->nodes[at] : NULL;
}

static const struct rk_iblink *link_at(const struct side *s, uint64_t guid, int port)
{
	const struct rk_ibnode *n = node_of(s, guid);

	for (int i = n ? n->first_link : 0; n && i < n->first_link + n->n_links; i++)
		if (s->t->links[i].port == port)
			return &s->t->links[i];
	return NULL;
}

static uint64_t guid_of(const struct side *s, int node)
{
	return s->t->nodes[node].guid;
}

static const char *end_text(struct compare *c, const struct side *s, int node, int port)
{
	return rk_arena_printf(c->arena, "%s port %d", s->t->nodes[node].description, port);
}

__attribute__((format(printf, 5, 6))) static void add(struct compare *c, const char *kind, const char *object, const char *hint, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	char *message RK_CLEANUP_FREE = rk_xvasprintf(format, ap);
	va_end(ap);
	*rk_vec_push(&c->found) = (struct rk_ib_finding){ kind, object, rk_arena_strdup(c->arena, message), hint };
}

/* Nodes that are only there on one side: one finding each, not one per cable. */
static void compare_nodes(struct compare *c, const struct side *here, const struct side *there, const char *kind, const char *hint, const char *what)
{
	for (size_t i = 0; i < here->t->n_nodes; i++) {
		const struct rk_ibnode *n = &here->t->nodes[i];
		if (n->n_links && !node_of(there, n->guid))
			add(c, kind, rk_arena_strdup(c->arena, n->description), hint, "%s 0x%016llx with %d cable%s %s since the fabric was accepted", n->is_switch ? "switch" : "HCA",
			    (unsigned long long)n->guid, n->n_links, n->n_links == 1 ? "" : "s", what);
	}
}

static bool same_end(const struct compare *c, const struct rk_iblink *was, const struct rk_iblink *is)
{
	return is && guid_of(&c->was, was->peer) == guid_of(&c->is, is->peer) && was->peer_port == is->peer_port;
}

static void compare_rate(struct compare *c, const struct rk_iblink *was, const struct rk_iblink *is)
{
	if (is->gbps && was->gbps && is->gbps < was->gbps)
		add(c, "slower", end_text(c, &c->is, is->node, is->port), "reseat or replace the cable", "%dx %s, it was %dx %s when the fabric was accepted", is->width, is->speed,
		    was->width, was->speed);
}

/* The cable that went from this end goes elsewhere: is it the mate of another one that moved? */
static void report_moved(struct compare *c, const struct rk_iblink *was, const struct rk_iblink *is)
{
	const struct rk_iblink *mate_was = link_at(&c->was, guid_of(&c->is, is->peer), is->peer_port);
	const struct rk_iblink *mate_is = mate_was ? link_at(&c->is, guid_of(&c->was, mate_was->peer), mate_was->peer_port) : NULL;
	const char *here = end_text(c, &c->is, is->node, is->port);
	bool crossed = mate_is && guid_of(&c->is, mate_is->peer) == guid_of(&c->was, was->peer) && mate_is->peer_port == was->peer_port;

	if (!crossed) {
		add(c, "moved", here, "put it back, or accept the fabric as it is: racksh ib import --accept", "goes to \"%s\", it went to \"%s\" when the fabric was accepted",
		    end_text(c, &c->is, is->peer, is->peer_port), end_text(c, &c->was, was->peer, was->peer_port));
		return;
	}
	/* Seen from both cables: told once. */
	if (is->node < mate_is->node || (is->node == mate_is->node && is->port < mate_is->port))
		add(c, "crossed", rk_arena_printf(c->arena, "%s, %s", here, end_text(c, &c->is, mate_is->node, mate_is->port)), "exchange the two cables",
		    "these two changed places since the fabric was accepted: the first goes to \"%s\" now", end_text(c, &c->is, is->peer, is->peer_port));
}

static void compare_cables(struct compare *c)
{
	for (size_t i = 0; i < c->was.t->n_links; i++) {
		const struct rk_iblink *was = &c->was.t->links[i];
		uint64_t here = guid_of(&c->was, was->node), there = guid_of(&c->was, was->peer);
		if (!rk_topology_told_here(c->was.t, was) || !node_of(&c->is, here) || !node_of(&c->is, there))
			continue;
		const struct rk_iblink *is = link_at(&c->is, here, was->port);
		if (same_end(c, was, is))
			compare_rate(c, was, is);
		else if (is)
			report_moved(c, was, is);
		else
			add(c, "lost", end_text(c, &c->was, was->node, was->port), "check the cable at both ends", "the cable to \"%s\" is gone since the fabric was accepted",
			    end_text(c, &c->was, was->peer, was->peer_port));
	}
	for (size_t i = 0; i < c->is.t->n_links; i++) {
		const struct rk_iblink *is = &c->is.t->links[i];
		uint64_t here = guid_of(&c->is, is->node), there = guid_of(&c->is, is->peer);
		if (rk_topology_told_here(c->is.t, is) && node_of(&c->was, here) && node_of(&c->was, there) && !link_at(&c->was, here, is->port) && !link_at(&c->was, there, is->peer_port))
			add(c, "new", end_text(c, &c->is, is->node, is->port), "accept the fabric as it is: racksh ib import --accept",
			    "the cable to \"%s\" was not there when the fabric was accepted", end_text(c, &c->is, is->peer, is->peer_port));
	}
}

void rk_topology_compare(const struct rk_topology *accepted, const struct rk_topology *now, struct rk_arena *arena, struct rk_ib_finding **ret, size_t *ret_n)
{
	struct rk_map *was RK_CLEANUP_MAP = rk_map_new(), *is RK_CLEANUP_MAP = rk_map_new();
	struct compare c = { .was = { accepted, was }, .is = { now, is }, .arena = arena };

	index_nodes(&c.was);
	index_nodes(&c.is);
	compare_nodes(&c, &c.was, &c.is, "lost", "check its power and its cables", "is gone");
	compare_nodes(&c, &c.is, &c.was, "new", "accept the fabric as it is: racksh ib import --accept", "is new");
	compare_cables(&c);
	*ret = rk_arena_array(arena, c.found.n, sizeof(**ret));
	if (c.found.n)
		memcpy(*ret, c.found.items, c.found.n * sizeof(**ret));
	*ret_n = c.found.n;
	free(c.found.items);
}
