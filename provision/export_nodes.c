#include <string.h>

#include "provision/export.h"

/* The tray at a position of a rack, or RK_NONE. */
static int tray_at(const struct rk_site *site, int rack, int number)
{
	const struct rk_rack *r = &site->racks[rack];

	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++)
		if (site->trays[t].number == number)
			return t;
	return RK_NONE;
}

/* Up to the highest tray: a rack that is built with fewer trays than its kind can hold is no block with holes. */
static size_t positions(const struct rk_site *site, int rack)
{
	const struct rk_rack *r = &site->racks[rack];

	return r->n_trays ? (size_t)site->trays[r->first_tray + r->n_trays - 1].number : 0;
}

static void fill_trays(const struct rk_site *site, struct rk_arena *arena, struct rk_export *e, struct rk_export_block *b)
{
	b->nodes = rk_arena_array(arena, e->base, sizeof(*b->nodes));
	for (b->n = 0; b->n < e->base; b->n++) {
		int tray = tray_at(site, b->rack, (int)b->n + 1);
		const char *name = tray >= 0 ? site->trays[tray].name : rk_arena_printf(arena, "%s-t%02zu", b->name, b->n + 1);
		b->nodes[b->n] = (struct rk_export_node){ name, tray, RK_NONE };
		e->placeholders += tray < 0;
	}
}

static void collect_trays(struct rk_arena *arena, struct rk_export *e)
{
	for (size_t r = 0; r < e->site->n_racks; r++)
		e->base = positions(e->site, (int)r) > e->base ? positions(e->site, (int)r) : e->base;
	e->blocks = rk_arena_array(arena, e->site->n_racks, sizeof(*e->blocks));
	for (size_t r = 0; r < e->site->n_racks; r++) {
		struct rk_export_block *b = &e->blocks[e->n++];
		*b = (struct rk_export_block){ .name = e->site->racks[r].name, .rack = (int)r };
		fill_trays(e->site, arena, e, b);
	}
}

static size_t vms_in(const struct rk_export *e, int rack)
{
	const struct rk_site *site = e->site;
	const struct rk_cluster *c = &site->clusters[e->cluster];
	size_t n = 0;

	for (int v = c->first_vm; v < c->first_vm + c->n_vms; v++)
		n += site->vms[v].tray >= 0 && site->trays[site->vms[v].tray].rack == rack;
	return n;
}

/* The VMs of a rack in tray order, then placeholders up to the base. */
static void fill_vms(struct rk_arena *arena, struct rk_export *e, struct rk_export_block *b)
{
	const struct rk_site *site = e->site;
	const struct rk_rack *rack = &site->racks[b->rack];

	b->nodes = rk_arena_array(arena, e->base, sizeof(*b->nodes));
	for (int t = rack->first_tray; t < rack->first_tray + rack->n_trays; t++) {
		int vm = site->trays[t].vm;
		if (vm >= 0 && site->vms[vm].cluster == e->cluster)
			b->nodes[b->n++] = (struct rk_export_node){ site->vms[vm].name, t, vm };
	}
	for (size_t i = 1; b->n < e->base; i++, e->placeholders++)
		b->nodes[b->n++] = (struct rk_export_node){ rk_arena_printf(arena, "%s-%s-absent%02zu", site->clusters[e->cluster].name, b->name, i), RK_NONE, RK_NONE };
}

static void collect_vms(struct rk_arena *arena, struct rk_export *e)
{
	for (size_t r = 0; r < e->site->n_racks; r++)
		e->base = vms_in(e, (int)r) > e->base ? vms_in(e, (int)r) : e->base;
	e->blocks = rk_arena_array(arena, e->site->n_racks, sizeof(*e->blocks));
	for (size_t r = 0; r < e->site->n_racks; r++)
		if (vms_in(e, (int)r)) {
			struct rk_export_block *b = &e->blocks[e->n++];
			*b = (struct rk_export_block){ .name = e->site->racks[r].name, .rack = (int)r };
			fill_vms(arena, e, b);
		}
}

void rk_export_collect(const struct rk_site *site, int cluster, struct rk_arena *arena, struct rk_export *ret)
{
	*ret = (struct rk_export){ .site = site, .cluster = cluster };
	if (cluster < 0)
		collect_trays(arena, ret);
	else
		collect_vms(arena, ret);
}
