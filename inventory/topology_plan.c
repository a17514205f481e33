#include <stdlib.h>

#include "inventory/base/mem.h"
#include "inventory/topology.h"

enum { DOWN = 72, SWITCH_PORTS = 144, LEAVES_MAX = 144 };

static const uint64_t leaf_guid = 0x5000e604000a0000u, spine_guid = 0x5000e604000b0000u;

struct plan {
	const struct rk_site *site;
	struct rk_str *out;
	int fabric, rails, trays, per_group; /* racks of one leaf group */
	int groups, planes, plane_leaves;
	int spines, links;                   /* spines of a plane; cables per leaf-spine pair */
	const char *rate;
	const struct rk_cable_end *ends;
	struct spot {
		int leaf, port;              /* port 0: none was free */
	} *spots;                            /* per HCA */
	int (*down)[DOWN];                   /* per leaf: HCAs by port */
};

/* The slowest that is as fast, or the fastest. */
static const char *rate_for(int gbps)
{
	static const struct {
		int gbps;
		const char *rate;
	} rates[] = { { 800, "4xXDR" }, { 400, "4xNDR" }, { 200, "4xHDR" }, { 100, "4xEDR" }, { 56, "4xFDR" } };
	const char *rate = rates[0].rate;

	for (size_t i = 0; i < RK_ARRAY_SIZE(rates); i++)
		if (rates[i].gbps >= gbps)
			rate = rates[i].rate;
	return rate;
}

static void choose_rate(struct plan *p)
{
	const struct rk_site *s = p->site;
	int want = p->fabric >= 0 && (size_t)p->fabric < s->n_fabrics ? s->fabrics[p->fabric].rate_gbps : 0;

	bool written = want > 0;

	for (size_t i = 0; !written && i < s->n_profiles; i++)
		want = want > s->profiles[i].rate_gbps ? want : s->profiles[i].rate_gbps;
	p->rate = rate_for(want);
}

static const char *rate_of(const struct plan *p, int hca)
{
	return p->ends && p->ends[hca].gbps ? rate_for(p->ends[hca].gbps) : p->rate;
}

/* As few spines as serve every uplink of a leaf with equal numbers of cables per pair. */
static void size_spines(struct plan *p)
{
	static const int divisors[] = { 4, 6, 8, 9, 12, 18, 24, 36, 72 };
	size_t i = 0;

	if (p->plane_leaves <= 4) {
		int racks = (int)p->site->n_racks < p->per_group ? (int)p->site->n_racks : p->per_group;
		p->spines = 2;
		p->links = (racks * p->trays + 1) / 2;
		return;
	}
	while (i + 1 < RK_ARRAY_SIZE(divisors) && divisors[i] * 2 < p->plane_leaves)
		i++;
	p->spines = divisors[i];
	p->links = DOWN / p->spines;
}

static void size_plan(struct plan *p)
{
	const struct rk_site *s = p->site;

	p->rails = p->trays = 1;
	for (size_t i = 0; i < s->n_hcas; i++)
		if (s->hcas[i].fabric == p->fabric && s->hcas[i].rail >= p->rails)
			p->rails = s->hcas[i].rail + 1;
	for (size_t i = 0; i < s->n_trays; i++)
		if (s->trays[i].number > p->trays)
			p->trays = s->trays[i].number;
	p->per_group = p->trays < DOWN ? DOWN / p->trays : 1;
	p->groups = ((int)s->n_racks + p->per_group - 1) / p->per_group;
	bool apart = p->groups * p->rails > LEAVES_MAX;
	p->planes = apart ? p->rails * ((p->groups + LEAVES_MAX - 1) / LEAVES_MAX) : 1;
	p->plane_leaves = !apart ? p->groups * p->rails : p->groups < LEAVES_MAX ? p->groups : LEAVES_MAX;
	size_spines(p);
	choose_rate(p);
}

static int plane_of(const struct plan *p, int leaf)
{
	return p->planes == 1 ? 0 : leaf / p->rails / LEAVES_MAX * p->rails + leaf % p->rails;
}

/* The number of a leaf within its plane. */
static int place_of(const struct plan *p, int leaf)
{
	return p->planes == 1 ? leaf : leaf / p->rails % LEAVES_MAX;
}

static int leaf_of(const struct plan *p, const struct rk_hca *h, int *ret_port)
{
	const struct rk_tray *t = &p->site->trays[h->tray];

	*ret_port = t->rack % p->per_group * p->trays + t->number;
	return t->rack / p->per_group * p->rails + h->rail;
}

static bool wired(const struct plan *p, const struct rk_hca *h)
{
	return h->fabric == p->fabric && h->port_guid;
}

static void write_node(const struct plan *p, uint64_t guid, const char *devid, const char *key)
{
	rk_str_addf(p->out, "\nvendid=0x2c9\ndevid=%s\nsysimgguid=0x%llx\n%s=0x%llx", devid, (unsigned long long)guid, key, (unsigned long long)guid);
}

static void write_leaf(const struct plan *p, int leaf)
{
	const int *hcas = p->down[leaf];
	uint64_t guid = leaf_guid + (unsigned)leaf;
	int plane = plane_of(p, leaf);

	write_node(p, guid, "0xd2f4", "switchguid");
	rk_str_addf(p->out, "(%llx)\nSwitch\t%d \"S-%016llx\"\t\t# \"leaf-g%02d-rail%d\" enhanced port 0 lid %d lmc 0\n", (unsigned long long)guid, SWITCH_PORTS,
		    (unsigned long long)guid, leaf / p->rails, leaf % p->rails, leaf + 1);
	for (int port = 1; port <= DOWN; port++) {
		if (hcas[port - 1] == RK_NONE)
			continue;
		const struct rk_hca *h = &p->site->hcas[hcas[port - 1]];
		rk_str_addf(p->out, "[%d]\t\"H-%016llx\"[1](%llx) \t\t# \"%s mlx5_%d\" lid %d %s\n", port, (unsigned long long)h->port_guid,
			    (unsigned long long)h->port_guid, p->site->trays[h->tray].name, h->rail, hcas[port - 1] + 1001, rate_of(p, hcas[port - 1]));
	}
	for (int s = 0; s < p->spines; s++)
		for (int k = 0; k < p->links; k++)
			rk_str_addf(p->out, "[%d]\t\"S-%016llx\"[%d]\t\t# \"spine%02d\" lid 1 %s\n", DOWN + s * p->links + k + 1,
				    (unsigned long long)spine_guid + (unsigned)(plane * p->spines + s), place_of(p, leaf) * p->links + k + 1,
				    plane * p->spines + s, p->rate);
}

static void write_spine(const struct plan *p, int plane, int spine)
{
	uint64_t guid = spine_guid + (unsigned)(plane * p->spines + spine);

	write_node(p, guid, "0xd2f4", "switchguid");
	rk_str_addf(p->out, "(%llx)\nSwitch\t%d \"S-%016llx\"\t\t# \"spine%02d\" enhanced port 0 lid 1 lmc 0\n", (unsigned long long)guid, SWITCH_PORTS,
		    (unsigned long long)guid, plane * p->spines + spine);
	for (int leaf = 0; leaf < p->groups * p->rails; leaf++)
		for (int k = 0; k < p->links && plane_of(p, leaf) == plane; k++)
			rk_str_addf(p->out, "[%d]\t\"S-%016llx\"[%d]\t\t# \"leaf-g%02d-rail%d\" lid %d %s\n", place_of(p, leaf) * p->links + k + 1,
				    (unsigned long long)leaf_guid + (unsigned)leaf, DOWN + spine * p->links + k + 1, leaf / p->rails, leaf % p->rails,
				    leaf + 1, p->rate);
}

static void write_hca(const struct plan *p, int hca)
{
	const struct rk_hca *h = &p->site->hcas[hca];
	int port = p->spots[hca].port, leaf = p->spots[hca].leaf;

	write_node(p, h->port_guid, "0x1023", "caguid");
	rk_str_addf(p->out, "\nCa\t1 \"H-%016llx\"\t\t# \"%s mlx5_%d\"\n[1](%llx) \t\"S-%016llx\"[%d]\t\t# lid 1 lmc 0 \"leaf-g%02d-rail%d\" lid %d %s\n",
		    (unsigned long long)h->port_guid, p->site->trays[h->tray].name, h->rail, (unsigned long long)h->port_guid,
		    (unsigned long long)leaf_guid + (unsigned)leaf, port, leaf / p->rails, leaf % p->rails, leaf + 1, rate_of(p, hca));
}

static void put_at(struct plan *p, int hca, int leaf, int port)
{
	p->down[leaf][port - 1] = hca;
	p->spots[hca] = (struct spot){ leaf, port };
}

static bool moved(const struct plan *p, int hca)
{
	return p->ends && p->ends[hca].rail != p->site->hcas[hca].rail && p->ends[hca].rail < p->rails;
}

/* What is where the plan has it comes first, then what was moved finds a port. */
static void place_cables(struct plan *p)
{
	int port;

	for (int i = 0; i < (int)p->site->n_hcas; i++)
		if (wired(p, &p->site->hcas[i]) && !moved(p, i)) {
			int leaf = leaf_of(p, &p->site->hcas[i], &port);
			put_at(p, i, leaf, port);
		}
	for (int i = 0; i < (int)p->site->n_hcas; i++) {
		if (!wired(p, &p->site->hcas[i]) || !moved(p, i))
			continue;
		int leaf = leaf_of(p, &p->site->hcas[i], &port) - p->site->hcas[i].rail + p->ends[i].rail;
		for (port = DOWN; port > 0 && p->down[leaf][port - 1] != RK_NONE;)
			port--;
		if (port)
			put_at(p, i, leaf, port);
	}
}

void rk_topology_plan(const struct rk_site *site, int fabric, const struct rk_cable_end *ends, struct rk_str *out)
{
	struct plan p = { .site = site, .out = out, .fabric = fabric, .ends = ends };

	size_plan(&p);
	size_t leaves = (size_t)(p.groups * p.rails);
	p.down = rk_xcalloc(leaves, sizeof(*p.down));
	p.spots = rk_xcalloc(site->n_hcas + 1, sizeof(*p.spots));
	for (size_t leaf = 0; leaf < leaves; leaf++)
		for (int i = 0; i < DOWN; i++)
			p.down[leaf][i] = RK_NONE;
	place_cables(&p);
	rk_str_add(out, "#\n# Topology file: wired by the plan\n#\n");
	for (size_t leaf = 0; leaf < leaves; leaf++)
		write_leaf(&p, (int)leaf);
	for (int plane = 0; plane < p.planes && leaves; plane++)
		for (int spine = 0; spine < p.spines; spine++)
			write_spine(&p, plane, spine);
	for (int i = 0; i < (int)site->n_hcas; i++)
		if (p.spots[i].port)
			write_hca(&p, i);
	free(p.down);
	free(p.spots);
}
