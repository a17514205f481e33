/* What the ports hold before and after a change. OpenSM says nothing of what it made of a file; their tables do. */
#include <string.h>

#include "provision/drivers/opensm_impl.h"

/* Ports that are read one by one, besides the members, where nothing reads a whole fabric at once: as many as time allows, from everywhere. */
enum { WATCHED_MAX = 512 };

static const struct rk_ib_member *member_of(const struct opensm_change *c, uint64_t guid)
{
	for (size_t i = 0; i < c->wanted->n; i++)
		if (c->wanted->members[i].guid == guid)
			return &c->wanted->members[i];
	return NULL;
}

/* Members first, then the others, every step-th of them. */
static void choose_ports(const struct opensm *sm, int fabric, const struct opensm_change *c, size_t step, struct opensm_watch *w)
{
	const struct rk_site *site = sm->ib.site;
	size_t at = 0;

	w->n = 0;
	for (size_t i = 0; i < c->wanted->n; i++) {
		w->wanted[w->n] = c->wanted->pkey | (c->wanted->members[i].full ? 0x8000u : 0);
		w->guids[w->n++] = c->wanted->members[i].guid;
	}
	w->n_changing = w->n;
	for (size_t h = 0; h < site->n_hcas; h++)
		if (site->hcas[h].fabric == fabric && site->hcas[h].port_guid && !member_of(c, site->hcas[h].port_guid) && at++ % step == 0) {
			w->wanted[w->n] = 0;
			w->guids[w->n++] = site->hcas[h].port_guid;
		}
}

static bool holds(const struct rk_ib_port *port, unsigned word)
{
	for (size_t i = 0; i < port->n_pkeys; i++)
		if (port->pkeys[i] == word)
			return true;
	return false;
}

static unsigned word_of(const struct rk_ib_port *port, unsigned pkey)
{
	return holds(port, pkey | 0x8000u) ? pkey | 0x8000u : holds(port, pkey) ? pkey : 0;
}

/* A port that is to lose the key moves up to those that change. */
static void move_up(struct opensm_watch *w, size_t at)
{
	size_t to = w->n_changing++;
	uint64_t guid = w->guids[to];
	bool open = w->open[to], away = w->away[to];

	w->guids[to] = w->guids[at];
	w->open[to] = w->open[at];
	w->away[to] = w->away[at];
	w->guids[at] = guid;
	w->open[at] = open;
	w->away[at] = away;
}

bool rk_opensm_watch(struct opensm *sm, int fabric, const struct opensm_change *c, struct rk_arena *arena, struct opensm_watch *ret)
{
	size_t most = c->wanted->n + sm->ib.site->n_hcas;
	struct opensm_watch w = { rk_arena_array(arena, most, sizeof(*w.guids)), rk_arena_array(arena, most, sizeof(*w.wanted)),
				  rk_arena_array(arena, most, sizeof(*w.open)), rk_arena_array(arena, most, sizeof(*w.away)), 0, 0 };
	struct rk_ib_port *ports = rk_arena_array(arena, most, sizeof(*ports));
	struct rk_ib_ssh *s = &sm->fabrics[fabric];

	choose_ports(sm, fabric, c, 1, &w);
	int rc = rk_ib_reader_tables(s, w.guids, w.n, arena, ports, NULL);
	if (rc == RK_NOT_FOUND) {
		choose_ports(sm, fabric, c, (w.n - c->wanted->n) / WATCHED_MAX + 1, &w);
		rc = rk_ib_ssh_tables_locked(s, w.guids, w.n, arena, ports, NULL);
	}
	*ret = w;
	if (rc)
		return false;
	for (size_t i = 0; i < w.n; i++) {
		ret->open[i] = holds(&ports[i], 0xffff);
		ret->away[i] = !ports[i].known;
	}
	for (size_t i = w.n_changing; i < w.n; i++)
		if (word_of(&ports[i], c->wanted->pkey))
			move_up(ret, i);
	return true;
}

static enum opensm_seen judge(const struct opensm_change *c, struct opensm_watch *w, size_t i, const struct rk_ib_port *port)
{
	if (!port->known) {
		w->away[i] = true;
		return OPENSM_SEEN;
	}
	if (!w->open[i] && holds(port, 0xffff))
		return w->away[i] ? OPENSM_COMING_UP : OPENSM_OPENED;
	return word_of(port, c->wanted->pkey) == w->wanted[i] ? OPENSM_SEEN : OPENSM_NOT_YET;
}

enum opensm_seen rk_opensm_look(struct opensm *sm, int fabric, const struct opensm_change *c, struct opensm_watch *w, bool all, uint64_t *ret_port)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	size_t n = all ? w->n : w->n_changing;
	struct rk_ib_port *ports = rk_arena_array(arena, n, sizeof(*ports));
	enum opensm_seen seen = OPENSM_SEEN;

	if (rk_ib_ssh_tables_locked(&sm->fabrics[fabric], w->guids, n, arena, ports, NULL) != 0)
		return OPENSM_UNREAD;
	for (size_t i = 0; i < n; i++) {
		enum opensm_seen is = judge(c, w, i, &ports[i]);
		if (is > seen) {
			seen = is;
			*ret_port = w->guids[i];
		}
	}
	return seen;
}
