#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "inventory/base/map.h"
#include "inventory/base/str.h"
#include "inventory/topology.h"

/* More findings of one sort than this become one with folded names: an imported file of the wrong fabric is one fact, not 9,000. */
enum { FOLD_ABOVE = 32, PAIRS_MAX = 1 << 20 };
enum { RAIL_ANY = -1, RAIL_TIE = -2 };

struct entry {
	struct rk_ib_finding finding;
	const char *group; /* what a folded finding says; NULL: never folded */
};

/* Where one HCA of the site was found. */
struct spot {
	int link;     /* its own end, or RK_NONE */
	int at, port; /* the switch it is on */
	bool misplaced;
};

struct check {
	const struct rk_topology *t;
	const struct rk_site *site;
	struct rk_arena *arena;
	int fabric, rails, leaves, spines;
	bool has_core;
	struct {
		struct entry *items;
		size_t n, cap;
	} found;
	struct rk_map *ports; /* port GUID -> link */
	struct rk_map *doubled; /* port GUIDs that two ports carry: where such an HCA is cannot be told */
	struct rk_map *known; /* port GUID -> HCA of the site, any fabric */
	struct spot *spots;   /* per HCA of the site */
	int *leaf_rail;       /* per node */
	int *home;            /* per rack and rail: the leaf where most of its HCAs are, or RK_NONE */
};

/* ---- findings -------------------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 6, 7))) static void add(struct check *c, const char *kind, const char *group, const char *object, const char *hint,
						      const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	char *message RK_CLEANUP_FREE = rk_xvasprintf(format, ap);
	va_end(ap);
	struct entry *e = rk_vec_push(&c->found);
	e->group = group;
	e->finding = (struct rk_ib_finding){ kind, object, rk_arena_strdup(c->arena, message), hint };
}

static const char *hca_name(struct check *c, size_t hca)
{
	const struct rk_hca *h = &c->site->hcas[hca];

	return rk_arena_printf(c->arena, "%s rail %d", c->site->trays[h->tray].name, h->rail);
}

static const char *node_name(const struct check *c, int node)
{
	return c->t->nodes[node].description;
}

static const char *end_name(struct check *c, int node, int port)
{
	return rk_arena_printf(c->arena, "%s port %d", node_name(c, node), port);
}

static bool ours(const struct check *c, size_t hca)
{
	return c->site->hcas[hca].fabric == c->fabric;
}

static int level(const struct check *c, int node)
{
	return c->t->nodes[node].level;
}

static bool is_hca(const struct rk_ibnode *node)
{
	return !node->is_switch && !node->service;
}

/* ---- who is where ---------------------------------------------------------------------------------------------------------- */

static void report_doubled(struct check *c, size_t link, size_t first)
{
	const struct rk_iblink *a = &c->t->links[first], *b = &c->t->links[link];

	rk_map_set_u64(c->doubled, b->port_guid, link);
	add(c, "duplicate", NULL, rk_arena_printf(c->arena, "0x%016llx", (unsigned long long)b->port_guid), "replace or reflash one of the two HCAs",
	    "two ports carry this GUID: one on \"%s\" port %d, one on \"%s\" port %d", node_name(c, a->peer), a->peer_port, node_name(c, b->peer),
	    b->peer_port);
}

static void index_ports(struct check *c)
{
	size_t first;

	for (size_t i = 0; i < c->t->n_links; i++)
		if (c->t->links[i].port_guid && !rk_map_add_u64(c->ports, c->t->links[i].port_guid, i, &first))
			report_doubled(c, i, first);
	for (size_t i = 0; i < c->site->n_hcas; i++)
		if (c->site->hcas[i].port_guid)
			rk_map_add_u64(c->known, c->site->hcas[i].port_guid, i, NULL);
}

static void report_absent(struct check *c, size_t hca)
{
	uint64_t guid = c->site->hcas[hca].port_guid;

	if (!guid)
		add(c, "unknown", "the site has no port GUID for them, so they cannot be looked for", hca_name(c, hca),
		    "write hcas[].portGuid into the site file, or run site discover", "the site has no port GUID for it, so it cannot be looked for");
	else
		add(c, "missing-hca", "not in the fabric", hca_name(c, hca), "check the cable at both ends, and ibstat on the tray",
		    "HCA 0x%016llx is not in the fabric", (unsigned long long)guid);
}

static void locate(struct check *c)
{
	for (size_t i = 0; i < c->site->n_hcas; i++) {
		uint64_t guid = c->site->hcas[i].port_guid;
		size_t link;

		c->spots[i] = (struct spot){ RK_NONE, RK_NONE, 0, false };
		if (!ours(c, i))
			continue;
		if (c->site->hcas[i].rail + 1 > c->rails)
			c->rails = c->site->hcas[i].rail + 1;
		if (!guid || !rk_map_get_u64(c->ports, guid, &link)) {
			report_absent(c, i);
			continue;
		}
		if (rk_map_get_u64(c->doubled, guid, NULL))
			continue;
		const struct rk_iblink *l = &c->t->links[link];
		c->spots[i] = (struct spot){ (int)link, l->peer, l->peer_port, false };
	}
}

/* ---- rails ----------------------------------------------------------------------------------------------------------------- */

/* The number behind "rail" in a description, or RK_NONE. */
static int named_rail(const char *description)
{
	const char *at = strcasestr(description, "rail");

	if (!at)
		return RK_NONE;
	at += 4;
	at += strspn(at, "-_ ");
	return isdigit((unsigned char)*at) ? atoi(at) % 1000 : RK_NONE;
}

/* Names count as the design when every leaf has one and they run from 0 or from 1. */
static bool rails_by_name(struct check *c)
{
	int min = 1000, max = 0;

	for (size_t i = 0; i < c->t->n_nodes; i++) {
		if (c->t->nodes[i].level != 1)
			continue;
		int rail = named_rail(c->t->nodes[i].description);
		if (rail == RK_NONE)
			return false;
		min = rail < min ? rail : min;
		max = rail > max ? rail : max;
		c->leaf_rail[i] = rail;
	}
	if (min > 1 || max - min != c->rails - 1)
		return false;
	for (size_t i = 0; i < c->t->n_nodes; i++)
		c->leaf_rail[i] -= c->t->nodes[i].level == 1 ? min : 0;
	return true;
}

static void rails_by_majority(struct check *c)
{
	int(*count)[RK_RAILS_MAX] = rk_xcalloc(c->t->n_nodes, sizeof(*count));

	for (size_t i = 0; i < c->site->n_hcas; i++)
		if (c->spots[i].at != RK_NONE)
			count[c->spots[i].at][c->site->hcas[i].rail]++;
	for (size_t i = 0; i < c->t->n_nodes; i++) {
		int best = 0, ties = 0;
		for (int rail = 1; rail < c->rails; rail++) {
			ties = count[i][rail] > count[i][best] ? 0 : ties + (count[i][rail] == count[i][best]);
			best = count[i][rail] > count[i][best] ? rail : best;
		}
		c->leaf_rail[i] = !count[i][best] ? RAIL_ANY : ties ? RAIL_TIE : best;
	}
	free(count);
}

static void find_rails(struct check *c)
{
	for (size_t i = 0; i < c->t->n_nodes; i++) {
		c->leaf_rail[i] = RAIL_ANY;
		c->leaves += c->t->nodes[i].level == 1;
		c->spines += c->t->nodes[i].level == 2;
	}
	/* With fewer leaves than rails there are no leaves of their own to be on. */
	if (c->leaves >= c->rails && !rails_by_name(c))
		rails_by_majority(c);
}

static int home_of(const struct check *c, size_t hca)
{
	const struct rk_hca *h = &c->site->hcas[hca];

	return c->home[c->site->trays[h->tray].rack * RK_RAILS_MAX + h->rail];
}

/* The leaf of most HCAs of a rack's rail. Only two thirds or more make it the home: a design may split a rack over two leaves. */
static void find_homes(struct check *c)
{
	size_t n = c->site->n_racks * RK_RAILS_MAX, now;
	int *best RK_CLEANUP_FREE = rk_xcalloc(n, sizeof(*best)), *all RK_CLEANUP_FREE = rk_xcalloc(n, sizeof(*all));
	struct rk_map *count RK_CLEANUP_MAP = rk_map_new();

	for (size_t i = 0; i < n; i++)
		c->home[i] = RK_NONE;
	for (size_t i = 0; i < c->site->n_hcas; i++) {
		const struct rk_hca *h = &c->site->hcas[i];
		size_t key = (size_t)(c->site->trays[h->tray].rack * RK_RAILS_MAX + h->rail);
		int at = c->spots[i].at;
		if (at == RK_NONE || c->leaf_rail[at] != h->rail)
			continue;
		uint64_t pair = (uint64_t)key << 32 | (uint32_t)at;
		now = rk_map_get_u64(count, pair, &now) ? now + 1 : 1;
		rk_map_set_u64(count, pair, now);
		all[key]++;
		if ((int)now > best[key]) {
			best[key] = (int)now;
			c->home[key] = at;
		}
	}
	for (size_t i = 0; i < n; i++)
		if (best[i] * 3 < all[i] * 2)
			c->home[i] = RK_NONE;
}

static bool is_misplaced(const struct check *c, size_t hca)
{
	int at = c->spots[hca].at, rail = c->leaf_rail[at], home = home_of(c, hca);

	if (level(c, at) != 1 || rail == RAIL_TIE)
		return true;
	if (rail == RAIL_ANY)
		return false;
	return rail != c->site->hcas[hca].rail || (home != RK_NONE && home != at);
}

static void report_crossed(struct check *c, size_t a, size_t b)
{
	c->spots[a].misplaced = c->spots[b].misplaced = false;
	add(c, "crossed", NULL, rk_arena_printf(c->arena, "%s, %s", hca_name(c, a), hca_name(c, b)), "swap the two cables at the leaf switches",
	    "these two are crossed: the first is on \"%s\" port %d, the second on \"%s\" port %d", node_name(c, c->spots[a].at), c->spots[a].port,
	    node_name(c, c->spots[b].at), c->spots[b].port);
}

/* Each on the leaf where the other belongs. First within a tray, where hands slip, then over the whole fabric. */
static void pair_crossed(struct check *c, bool same_tray)
{
	struct rk_map *waiting RK_CLEANUP_MAP = rk_map_new();
	size_t n = c->site->n_hcas, other;

	for (size_t i = 0; i < n; i++) {
		int at = c->spots[i].at, home = at == RK_NONE ? RK_NONE : home_of(c, i);
		if (!c->spots[i].misplaced || home == RK_NONE || at == home)
			continue;
		uint64_t want = (uint64_t)at << 32 | (uint32_t)home, mine = (uint64_t)home << 32 | (uint32_t)at;
		bool there = rk_map_get_u64(waiting, want, &other) && c->spots[other].misplaced;
		if (there && (!same_tray || c->site->hcas[other].tray == c->site->hcas[i].tray))
			report_crossed(c, other, i);
		else
			rk_map_set_u64(waiting, mine, i);
	}
}

static void report_misplaced(struct check *c, size_t hca)
{
	const struct spot *s = &c->spots[hca];
	int rail = c->site->hcas[hca].rail, home = home_of(c, hca);
	const char *where = node_name(c, s->at), *name = hca_name(c, hca);
	const char *hint = home == RK_NONE ? "move the cable to the leaf of its rail"
					   : rk_arena_printf(c->arena, "move the cable to \"%s\", where this rail of the rack is", node_name(c, home));

	if (level(c, s->at) != 1)
		add(c, "level", "on a switch that is no leaf", name, hint, "on \"%s\" port %d, which is no leaf switch", where, s->port);
	else if (c->leaf_rail[s->at] == RAIL_TIE)
		add(c, "rail", "on leaves that carry several rails in equal numbers", name, "wire one rail per leaf",
		    "\"%s\" carries several rails in equal numbers: which is right cannot be told", where);
	else if (c->leaf_rail[s->at] != rail)
		add(c, "rail", "on leaves of another rail", name, hint, "on \"%s\" port %d, which is a leaf of rail %d", where, s->port,
		    c->leaf_rail[s->at]);
	else
		add(c, "leaf", "on another leaf than the rest of the rack", name, hint, "on \"%s\" port %d, the rack's other HCAs of this rail on \"%s\"",
		    where, s->port, node_name(c, home));
}

static void check_rails(struct check *c)
{
	for (size_t i = 0; i < c->site->n_hcas; i++)
		c->spots[i].misplaced = c->spots[i].at != RK_NONE && is_misplaced(c, i);
	bool *was = rk_xcalloc(c->site->n_hcas, sizeof(*was));
	for (size_t i = 0; i < c->site->n_hcas; i++)
		was[i] = c->spots[i].misplaced;
	pair_crossed(c, true);
	pair_crossed(c, false);
	for (size_t i = 0; i < c->site->n_hcas; i++) {
		if (c->spots[i].misplaced)
			report_misplaced(c, i);
		c->spots[i].misplaced = was[i];
	}
	free(was);
}

/* ---- ports of a tray ------------------------------------------------------------------------------------------------------- */

/* The port that more than half of a tray's rails use; 0 when there is none or a rail is misplaced or missing. */
static int tray_port(const struct check *c, int tray, bool *ret_all)
{
	const struct rk_tray *t = &c->site->trays[tray];
	const struct spot *s = c->spots + t->first_hca;

	*ret_all = false;
	for (int i = 0; i < t->n_hcas; i++)
		if (s[i].at == RK_NONE || s[i].misplaced)
			return 0;
	for (int i = 0; i < t->n_hcas; i++) {
		int same = 0;
		for (int j = 0; j < t->n_hcas; j++)
			same += s[j].port == s[i].port;
		*ret_all = same == t->n_hcas;
		if (same * 2 > t->n_hcas)
			return s[i].port;
	}
	return 0;
}

static uint64_t port_key(int node, int port)
{
	return (uint64_t)node << 32 | (uint32_t)port;
}

static void report_port(struct check *c, size_t hca, int usual)
{
	const struct spot *s = &c->spots[hca];

	add(c, "port", NULL, hca_name(c, hca), "check which tray this cable really serves",
	    "on \"%s\" port %d, on the tray's other rails the port is %d", node_name(c, s->at), s->port, usual);
}

/* odd: HCAs off their tray's usual port, by where they are; usual: per tray. */
static void report_odd(struct check *c, struct rk_map *odd, const int *usual)
{
	for (size_t i = 0; i < c->site->n_hcas; i++) {
		struct spot *s = &c->spots[i];
		size_t other;
		int want = s->at == RK_NONE ? 0 : usual[c->site->hcas[i].tray];
		if (!want || want == s->port || s->misplaced)
			continue;
		if (!rk_map_get_u64(odd, port_key(s->at, want), &other) || usual[c->site->hcas[other].tray] != s->port)
			report_port(c, i, want);
		else if (other > i)
			report_crossed(c, i, other);
	}
}

/* Where three quarters of the trays sit on the same port of every rail's leaf, that is the wiring plan, and the others deviate. */
static void check_ports(struct check *c)
{
	int *usual RK_CLEANUP_FREE = rk_xcalloc(c->site->n_trays, sizeof(*usual));
	struct rk_map *odd RK_CLEANUP_MAP = rk_map_new();
	size_t judged = 0, even = 0;
	bool all;

	for (size_t i = 0; i < c->site->n_trays; i++) {
		usual[i] = tray_port(c, (int)i, &all);
		judged += usual[i] != 0;
		even += usual[i] && all;
	}
	if (c->leaves < c->rails || !judged || even * 4 < judged * 3)
		return;
	for (size_t i = 0; i < c->site->n_hcas; i++)
		if (c->spots[i].at != RK_NONE && usual[c->site->hcas[i].tray] && usual[c->site->hcas[i].tray] != c->spots[i].port)
			rk_map_set_u64(odd, port_key(c->spots[i].at, c->spots[i].port), i);
	report_odd(c, odd, usual);
}

/* ---- nodes and cables ------------------------------------------------------------------------------------------------------ */

static const struct rk_iblink *other_end(const struct check *c, const struct rk_iblink *link)
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

static void check_ends(struct check *c)
{
	for (size_t i = 0; i < c->t->n_links; i++) {
		const struct rk_iblink *l = &c->t->links[i], *back = other_end(c, l);
		if (back && back->peer == l->node && back->peer_port == l->port)
			continue;
		add(c, "partial", "cables of which only one end was discovered", end_name(c, l->node, l->port), "discover the fabric again",
		    "goes to \"%s\" port %d, which %s", node_name(c, l->peer), l->peer_port, back ? "goes elsewhere" : "is not in the file");
	}
}

static void check_nodes(struct check *c)
{
	struct rk_map *guids RK_CLEANUP_MAP = rk_map_new();
	size_t first;

	for (size_t i = 0; i < c->t->n_nodes; i++) {
		const struct rk_ibnode *n = &c->t->nodes[i];
		if (n->guid && !rk_map_add_u64(guids, n->guid, i, &first))
			add(c, "duplicate", NULL, rk_arena_printf(c->arena, "0x%016llx", (unsigned long long)n->guid), "replace or reflash one of the two",
			    "two nodes carry this GUID: \"%s\" and \"%s\"", node_name(c, (int)first), n->description);
		if (!n->ports)
			add(c, "partial", "named by a cable, but not described", n->description, "the file is cut, or the node did not answer: discover again",
			    "a cable goes to this node, but the node itself is not described");
		else if (!n->n_links)
			add(c, "partial", "described, but without a cable", n->description, "discover the fabric again",
			    "the node is described, but without a cable");
	}
}

static void check_extra(struct check *c)
{
	bool any = false;
	size_t hca;

	/* Where the site knows no GUID at all that is the one fact to tell, not that every HCA is strange. */
	for (size_t i = 0; i < c->site->n_hcas && !any; i++)
		any = ours(c, i) && c->site->hcas[i].port_guid;
	for (size_t i = 0; i < c->t->n_links && any; i++) {
		const struct rk_iblink *l = &c->t->links[i];
		if (!is_hca(&c->t->nodes[l->node]))
			continue;
		bool known = rk_map_get_u64(c->known, l->port_guid, &hca);
		if (known && ours(c, hca))
			continue;
		add(c, "extra", "in the fabric, but not in the site", known ? hca_name(c, hca) : node_name(c, l->node),
		    "add it to the site file, or find out what it is", "HCA 0x%016llx on \"%s\" port %d is not in the site%s",
		    (unsigned long long)l->port_guid, node_name(c, l->peer), l->peer_port, known ? " on this fabric" : "");
	}
}

static void check_levels(struct check *c)
{
	for (size_t i = 0; i < c->t->n_links; i++) {
		const struct rk_iblink *l = &c->t->links[i];
		int a = level(c, l->node), b = level(c, l->peer);
		bool switches = c->t->nodes[l->node].is_switch && c->t->nodes[l->peer].is_switch;
		bool hcas = is_hca(&c->t->nodes[l->node]) && is_hca(&c->t->nodes[l->peer]);
		if (l->node > l->peer || (!hcas && !(switches && abs(a - b) != 1)))
			continue;
		add(c, "level", NULL, end_name(c, l->node, l->port), "plug the cable into a switch of the next level",
		    hcas ? "goes straight to \"%s\" port %d, without a switch" : "goes to \"%s\" port %d, a switch of the same or no neighbouring level",
		    node_name(c, l->peer), l->peer_port);
	}
}

/* ---- leaves and spines ----------------------------------------------------------------------------------------------------- */

static bool is_uplink(const struct check *c, const struct rk_iblink *l)
{
	return level(c, l->node) == 1 && level(c, l->peer) == 2;
}

/* A third level carries as much as the second; a leaf that lost all its HCAs only looks like one. */
static bool has_core(const struct check *c)
{
	size_t up = 0, core = 0;

	for (size_t i = 0; i < c->t->n_links; i++) {
		up += is_uplink(c, &c->t->links[i]);
		core += level(c, c->t->links[i].node) == 2 && level(c, c->t->links[i].peer) == 3;
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
static int *components(const struct check *c)
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

static void add_unlinked_pairs(const struct check *c, const struct rk_map *index, struct pairs *pairs)
{
	int *component RK_CLEANUP_FREE = components(c), *spines RK_CLEANUP_FREE = rk_xcalloc((size_t)c->spines, sizeof(*spines));
	int n = 0;

	for (size_t i = 0; i < c->t->n_nodes; i++)
		if (c->t->nodes[i].level == 2)
			spines[n++] = (int)i;
	for (size_t leaf = 0; leaf < c->t->n_nodes; leaf++)
		for (int s = 0; c->t->nodes[leaf].level == 1 && s < n; s++)
			if (component[leaf] == component[spines[s]] && !rk_map_get_u64(index, port_key((int)leaf, spines[s]), NULL))
				*rk_vec_push(pairs) = (struct pair){ (int)leaf, spines[s], 0 };
}

static void count_pairs(struct check *c, struct pairs *pairs)
{
	struct rk_map *index RK_CLEANUP_MAP = rk_map_new();
	size_t at;

	for (size_t i = 0; i < c->t->n_links; i++) {
		const struct rk_iblink *l = &c->t->links[i];
		if (!is_uplink(c, l))
			continue;
		if (rk_map_add_u64(index, port_key(l->node, l->peer), pairs->n, &at))
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

static void check_pairs(struct check *c)
{
	struct pairs pairs = { 0 };

	count_pairs(c, &pairs);
	int usual = usual_links(&pairs);
	for (size_t i = 0; i < pairs.n; i++) {
		const struct pair *p = &pairs.items[i];
		if (p->links == usual)
			continue;
		const char *group = rk_arena_printf(c->arena, "%d links between leaf and spine instead of %d", p->links, usual);
		add(c, "uplinks", group, rk_arena_printf(c->arena, "%s to %s", node_name(c, p->leaf), node_name(c, p->spine)),
		    "check the cables between the two", "%d link%s, most leaf-spine pairs have %d", p->links, p->links == 1 ? "" : "s", usual);
	}
	free(pairs.items);
}

static double allowed_ratio(const struct check *c)
{
	double ratio = c->fabric >= 0 && (size_t)c->fabric < c->site->n_fabrics ? c->site->fabrics[c->fabric].oversubscription : 0;

	return ratio > 0 ? ratio : 1.0;
}

static void check_subscription(struct check *c)
{
	int(*count)[2] = rk_xcalloc(c->t->n_nodes, sizeof(*count));
	double allowed = allowed_ratio(c);

	for (size_t i = 0; i < c->t->n_links; i++) {
		const struct rk_iblink *l = &c->t->links[i];
		int here = level(c, l->node), there = level(c, l->peer);
		if (!c->t->nodes[l->peer].service && abs(here - there) == 1)
			count[l->node][there > here]++;
	}
	for (size_t i = 0; i < c->t->n_nodes; i++) {
		int down = count[i][0], up = count[i][1], at = c->t->nodes[i].level;
		bool judged = (at == 1 && (c->leaves > 1 || up)) || (at == 2 && c->has_core);
		if (judged && down > up * allowed)
			add(c, "oversubscription", "more downlinks than uplinks", node_name(c, (int)i),
			    "find the missing uplinks, or say infiniband[].oversubscription in the site file", "%d downlinks, but %d uplinks (%.3g to 1 allowed)",
			    down, up, allowed);
	}
	free(count);
}

/* ---- rates ----------------------------------------------------------------------------------------------------------------- */

static int rate_of_rack(const struct check *c, int rack)
{
	int profile = c->site->racks[rack].profile;

	return profile >= 0 && (size_t)profile < c->site->n_profiles ? c->site->profiles[profile].rate_gbps : 0;
}

static int rate_of_fabric(const struct check *c)
{
	return c->fabric >= 0 && (size_t)c->fabric < c->site->n_fabrics ? c->site->fabrics[c->fabric].rate_gbps : 0;
}

/* Between switches: the lowest that any rack on this fabric expects. */
static int rate_of_trunks(const struct check *c)
{
	int lowest = rate_of_fabric(c);

	for (size_t i = 0; !rate_of_fabric(c) && i < c->site->n_racks; i++) {
		int rate = rate_of_rack(c, (int)i);
		if (rate && (!lowest || rate < lowest))
			lowest = rate;
	}
	return lowest;
}

static void check_rate(struct check *c, const struct rk_iblink *l, const char *object, int expected)
{
	if (!l->gbps) {
		add(c, "speed", "a rate that is not readable", object, "ibnetdiscover before rdma-core 49 does not know XDR: use a newer one",
		    "the rate is not readable");
		return;
	}
	if (l->width < 4)
		add(c, "width", "fewer than 4 lanes", object, "reseat or replace the cable", "%d lane%s instead of 4 (%s)", l->width,
		    l->width == 1 ? "" : "s", l->speed);
	if (l->gbps * 4 / l->width < expected)
		add(c, "speed", rk_arena_printf(c->arena, "%s instead of %d Gb/s", l->speed, expected), object,
		    "check cable, port configuration and infiniband[].rateGbps of the site file", "%s, %d Gb/s instead of %d Gb/s", l->speed, l->gbps,
		    expected);
}

static void check_rates(struct check *c)
{
	int rate = rate_of_fabric(c), trunks = rate_of_trunks(c);

	for (size_t i = 0; i < c->site->n_hcas; i++)
		if (c->spots[i].link != RK_NONE)
			check_rate(c, &c->t->links[c->spots[i].link], hca_name(c, i),
				   rate ? rate : rate_of_rack(c, c->site->trays[c->site->hcas[i].tray].rack));
	for (size_t i = 0; i < c->t->n_links; i++) {
		const struct rk_iblink *l = &c->t->links[i];
		bool lower = l->node < l->peer || (l->node == l->peer && l->port < l->peer_port);
		if (lower && c->t->nodes[l->node].is_switch && c->t->nodes[l->peer].is_switch)
			check_rate(c, l, end_name(c, l->node, l->port), trunks);
	}
}

/* ---- result ---------------------------------------------------------------------------------------------------------------- */

static void group_entries(const struct check *c, size_t *sizes, size_t *group_of)
{
	struct rk_map *groups RK_CLEANUP_MAP = rk_map_new();
	size_t n = 0;

	for (size_t i = 0; i < c->found.n; i++) {
		const struct entry *e = &c->found.items[i];
		char *key RK_CLEANUP_FREE = e->group ? rk_xasprintf("%s: %s", e->finding.kind, e->group) : rk_xasprintf("%zu", i);
		group_of[i] = n;
		if (rk_map_add(groups, key, n, &group_of[i]))
			n++;
		sizes[group_of[i]]++;
	}
}

static struct rk_ib_finding folded(struct check *c, size_t first, const size_t *group_of, size_t size)
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

static void give(struct check *c, struct rk_ib_finding **ret, size_t *ret_n)
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
	struct spot *spots RK_CLEANUP_FREE = rk_xcalloc(site->n_hcas, sizeof(*spots));
	int *leaf_rail RK_CLEANUP_FREE = rk_xcalloc(topology->n_nodes, sizeof(*leaf_rail));
	int *home RK_CLEANUP_FREE = rk_xcalloc(site->n_racks * RK_RAILS_MAX, sizeof(*home));
	struct check c = { .t = topology,
			   .site = site,
			   .arena = arena,
			   .fabric = fabric,
			   .ports = ports,
			   .doubled = doubled,
			   .known = known,
			   .spots = spots,
			   .leaf_rail = leaf_rail,
			   .home = home };

	index_ports(&c);
	check_nodes(&c);
	check_ends(&c);
	locate(&c);
	find_rails(&c);
	find_homes(&c);
	check_rails(&c);
	check_ports(&c);
	check_extra(&c);
	c.has_core = has_core(&c);
	check_levels(&c);
	check_pairs(&c);
	check_subscription(&c);
	check_rates(&c);
	give(&c, ret, ret_n);
	free(c.found.items);
}
