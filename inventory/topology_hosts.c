#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "inventory/topology_impl.h"

/* Which HCA of the site is where: on its rail's leaf, with the rest of its rack, on the port that its tray has everywhere. */

enum { RAIL_ANY = -1, RAIL_TIE = -2 };

/* ---- who is where ------------------------------------------------------------------------------------------------------------ */

static void report_doubled(struct rk_wiring *c, size_t link, size_t first)
{
	const struct rk_iblink *a = &c->t->links[first], *b = &c->t->links[link];

	rk_map_set_u64(c->doubled, b->port_guid, link);
	rk_wiring_add(c, "duplicate", NULL, rk_arena_printf(c->arena, "0x%016llx", (unsigned long long)b->port_guid), "replace or reflash one of the two HCAs",
	    "two ports carry this GUID: one on \"%s\" port %d, one on \"%s\" port %d", rk_wiring_node(c, a->peer), a->peer_port, rk_wiring_node(c, b->peer),
	    b->peer_port);
}

static void index_ports(struct rk_wiring *c)
{
	size_t first;

	for (size_t i = 0; i < c->t->n_links; i++)
		if (c->t->links[i].port_guid && !rk_map_add_u64(c->ports, c->t->links[i].port_guid, i, &first))
			report_doubled(c, i, first);
	for (size_t i = 0; i < c->site->n_hcas; i++)
		if (c->site->hcas[i].port_guid)
			rk_map_add_u64(c->known, c->site->hcas[i].port_guid, i, NULL);
}

static void report_absent(struct rk_wiring *c, size_t hca)
{
	uint64_t guid = c->site->hcas[hca].port_guid;

	if (!guid)
		rk_wiring_add(c, "unknown", "the site has no port GUID for them, so they cannot be looked for", rk_wiring_hca(c, hca),
		    "write hcas[].portGuid into the site file, or run site discover", "the site has no port GUID for it, so it cannot be looked for");
	else
		rk_wiring_add(c, "missing-hca", "not in the fabric", rk_wiring_hca(c, hca), "check the cable at both ends, and ibstat on the tray",
		    "HCA 0x%016llx is not in the fabric", (unsigned long long)guid);
}

static void locate(struct rk_wiring *c)
{
	bool any = false;

	for (size_t i = 0; i < c->site->n_hcas; i++) {
		uint64_t guid = c->site->hcas[i].port_guid;
		size_t link;

		c->spots[i] = (struct rk_wiring_spot){ RK_NONE, RK_NONE, 0, false };
		if (!rk_wiring_ours(c, i))
			continue;
		any = true;
		if (c->site->hcas[i].rail + 1 > c->rails)
			c->rails = c->site->hcas[i].rail + 1;
		if (!guid || !rk_map_get_u64(c->ports, guid, &link)) {
			report_absent(c, i);
			continue;
		}
		if (rk_map_get_u64(c->doubled, guid, NULL))
			continue;
		const struct rk_iblink *l = &c->t->links[link];
		c->spots[i] = (struct rk_wiring_spot){ (int)link, l->peer, l->peer_port, false };
	}
	if (!any)
		rk_wiring_add(c, "unknown", NULL, "fabric", "racksh site import FILE", "the site has no HCA on this fabric: how it should be wired is not known");
}

/* ---- rails ------------------------------------------------------------------------------------------------------------------- */

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
static bool rails_by_name(struct rk_wiring *c)
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

static void rails_by_majority(struct rk_wiring *c)
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

static void find_rails(struct rk_wiring *c)
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

static int home_of(const struct rk_wiring *c, size_t hca)
{
	const struct rk_hca *h = &c->site->hcas[hca];

	return c->home[c->site->trays[h->tray].rack * RK_RAILS_MAX + h->rail];
}

/* The leaf of most HCAs of a rack's rail. Only two thirds or more make it the home: a design may split a rack over two leaves. */
static void find_homes(struct rk_wiring *c)
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

static bool is_misplaced(const struct rk_wiring *c, size_t hca)
{
	int at = c->spots[hca].at, rail = c->leaf_rail[at], home = home_of(c, hca);

	if (rk_wiring_level(c, at) != 1 || rail == RAIL_TIE)
		return true;
	if (rail == RAIL_ANY)
		return false;
	return rail != c->site->hcas[hca].rail || (home != RK_NONE && home != at);
}

static void report_crossed(struct rk_wiring *c, size_t a, size_t b)
{
	c->spots[a].misplaced = c->spots[b].misplaced = false;
	rk_wiring_add(c, "crossed", NULL, rk_arena_printf(c->arena, "%s, %s", rk_wiring_hca(c, a), rk_wiring_hca(c, b)), "swap the two cables at the leaf switches",
	    "these two are crossed: the first is on \"%s\" port %d, the second on \"%s\" port %d", rk_wiring_node(c, c->spots[a].at), c->spots[a].port,
	    rk_wiring_node(c, c->spots[b].at), c->spots[b].port);
}

/* Each on the leaf where the other belongs. First within a tray, where hands slip, then over the whole fabric. */
static void pair_crossed(struct rk_wiring *c, bool same_tray)
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

static void report_misplaced(struct rk_wiring *c, size_t hca)
{
	const struct rk_wiring_spot *s = &c->spots[hca];
	int rail = c->site->hcas[hca].rail, home = home_of(c, hca);
	const char *where = rk_wiring_node(c, s->at), *name = rk_wiring_hca(c, hca);
	const char *hint = home == RK_NONE ? "move the cable to the leaf of its rail"
					   : rk_arena_printf(c->arena, "move the cable to \"%s\", where this rail of the rack is", rk_wiring_node(c, home));

	if (rk_wiring_level(c, s->at) != 1)
		rk_wiring_add(c, "level", "on a switch that is no leaf", name, hint, "on \"%s\" port %d, which is no leaf switch", where, s->port);
	else if (c->leaf_rail[s->at] == RAIL_TIE)
		rk_wiring_add(c, "rail", "on leaves that carry several rails in equal numbers", name, "wire one rail per leaf",
		    "\"%s\" carries several rails in equal numbers: which is right cannot be told", where);
	else if (c->leaf_rail[s->at] != rail)
		rk_wiring_add(c, "rail", "on leaves of another rail", name, hint, "on \"%s\" port %d, which is a leaf of rail %d", where, s->port,
		    c->leaf_rail[s->at]);
	else
		rk_wiring_add(c, "leaf", "on another leaf than the rest of the rack", name, hint, "on \"%s\" port %d, the rack's other HCAs of this rail on \"%s\"",
		    where, s->port, rk_wiring_node(c, home));
}

static void check_rails(struct rk_wiring *c)
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

/* ---- ports of a tray --------------------------------------------------------------------------------------------------------- */

/* The port that more than half of a tray's rails use; 0 when there is none or a rail is misplaced or missing. */
static int tray_port(const struct rk_wiring *c, int tray, bool *ret_all)
{
	const struct rk_tray *t = &c->site->trays[tray];
	const struct rk_wiring_spot *s = c->spots + t->first_hca;

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

static void report_port(struct rk_wiring *c, size_t hca, int usual)
{
	const struct rk_wiring_spot *s = &c->spots[hca];

	rk_wiring_add(c, "port", NULL, rk_wiring_hca(c, hca), "check which tray this cable really serves",
	    "on \"%s\" port %d, on the tray's other rails the port is %d", rk_wiring_node(c, s->at), s->port, usual);
}

/* odd: HCAs off their tray's usual port, by where they are; usual: per tray. */
static void report_odd(struct rk_wiring *c, struct rk_map *odd, const int *usual)
{
	for (size_t i = 0; i < c->site->n_hcas; i++) {
		struct rk_wiring_spot *s = &c->spots[i];
		size_t other;
		int want = s->at == RK_NONE ? 0 : usual[c->site->hcas[i].tray];
		if (!want || want == s->port || s->misplaced)
			continue;
		if (!rk_map_get_u64(odd, rk_wiring_port_key(s->at, want), &other) || usual[c->site->hcas[other].tray] != s->port)
			report_port(c, i, want);
		else if (other > i)
			report_crossed(c, i, other);
	}
}

/* Where three quarters of the trays sit on the same port of every rail's leaf, that is the wiring plan, and the others deviate. */
static void check_ports(struct rk_wiring *c)
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
			rk_map_set_u64(odd, rk_wiring_port_key(c->spots[i].at, c->spots[i].port), i);
	report_odd(c, odd, usual);
}

void rk_wiring_check_hosts(struct rk_wiring *c)
{
	index_ports(c);
	locate(c);
	find_rails(c);
	find_homes(c);
	check_rails(c);
	check_ports(c);
}
