#include <string.h>

#include "inventory/base/map.h"
#include "provision/export.h"

enum { RACK_W = 168, RACK_GAP = 24, U_H = 16, U_MAX = 48, TOP = 64, PER_ROW = 8, LEGEND_H = 40, LEAF_W = 150, LEAF_H = 24 };

static void escaped(struct rk_str *out, const char *text)
{
	static const struct {
		char c;
		const char *entity;
	} rows[] = { { '&', "&amp;" }, { '<', "&lt;" }, { '>', "&gt;" }, { '"', "&quot;" } };

	for (const char *c = text; *c; c++) {
		const char *entity = NULL;
		for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++)
			entity = rows[i].c == *c ? rows[i].entity : entity;
		if (entity)
			rk_str_add(out, entity);
		else if ((unsigned char)*c >= ' ')
			rk_str_addc(out, *c);
	}
}

static void text_at(struct rk_str *out, int x, int y, const char *class, const char *text)
{
	rk_str_addf(out, "<text x=\"%d\" y=\"%d\" class=\"%s\">", x, y, class);
	escaped(out, text);
	rk_str_add(out, "</text>\n");
}

/* One filled box; title is what a pointer shows. */
static void box(struct rk_str *out, int x, int y, int w, int h, const char *class, const char *title)
{
	rk_str_addf(out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"%s\"><title>", x, y, w, h, class);
	escaped(out, title);
	rk_str_add(out, "</title></rect>\n");
}

static const char *class_of(const struct rk_site *site, int tray)
{
	return rk_tray_state_name(rk_tray_state(site, tray));
}

static void tray_box(const struct rk_export *e, const struct rk_export_node *n, int u, int x, int y, struct rk_str *out)
{
	const struct rk_site *site = e->site;
	const struct rk_tray *t = &site->trays[n->tray];
	const char *vm = t->vm >= 0 ? site->vms[t->vm].name : class_of(site, n->tray);
	char *title RK_CLEANUP_FREE = rk_xasprintf("%s, slot %d, U%d: %s%s%s", t->name, t->slot, u, class_of(site, n->tray), t->cordon ? ", " : "", t->cordon ? t->cordon : "");
	char *label RK_CLEANUP_FREE = rk_xasprintf("%s  %s", t->name, vm);

	box(out, x, y, RACK_W, U_H - 1, class_of(site, n->tray), title);
	text_at(out, x + 6, y + 12, "small", label);
}

static void rack(const struct rk_export *e, const struct rk_export_block *b, int x, int y, struct rk_str *out)
{
	const struct rk_site *site = e->site;
	const struct rk_profile *p = &site->profiles[site->racks[b->rack].profile];

	text_at(out, x, y - 8, "head", b->name);
	box(out, x - 4, y, RACK_W + 8, U_MAX * U_H + 4, "frame", site->racks[b->rack].cluster_uuid ? site->racks[b->rack].cluster_uuid : b->name);
	for (size_t i = 0; i < b->n; i++) {
		int number = b->nodes[i].tray >= 0 ? site->trays[b->nodes[i].tray].number : 0;
		int u = number >= 1 && number <= 64 ? p->u_position[number - 1] : 0;
		if (u >= 1 && u <= U_MAX)
			tray_box(e, &b->nodes[i], u, x, y + (U_MAX - u) * U_H + 2, out);
	}
}

/* Leaves of the fabric in order of first use, and how many cables each rack has to them. */
static int leaves(const struct rk_export *e, int y, struct rk_str *out)
{
	RK_CLEANUP_MAP struct rk_map *seen = rk_map_new();
	int n = 0;

	for (size_t b = 0; b < e->n; b++)
		for (size_t i = 0; i < e->blocks[b].n; i++) {
			int tray = e->blocks[b].nodes[i].tray;
			for (int h = 0; tray >= 0 && h < e->site->trays[tray].n_hcas; h++) {
				const char *leaf = e->site->hcas[e->site->trays[tray].first_hca + h].leaf;
				if (!leaf || !rk_map_add(seen, leaf, (size_t)n, NULL))
					continue;
				int x = RACK_GAP + n % PER_ROW * (LEAF_W + RACK_GAP), at = y + n / PER_ROW * (LEAF_H + 8);
				char *title RK_CLEANUP_FREE = rk_xasprintf("leaf %s, rail %d", leaf, h);
				box(out, x, at, LEAF_W, LEAF_H, "leaf", title);
				text_at(out, x + 6, at + 16, "small", leaf);
				n++;
			}
		}
	return n;
}

static void legend(int y, struct rk_str *out)
{
	static const char *const states[] = { "free", "allocated", "cordoned", "spare", "faulty", "offline" };

	for (size_t i = 0; i < RK_ARRAY_SIZE(states); i++) {
		int x = RACK_GAP + (int)i * 110;
		box(out, x, y, 14, 14, states[i], states[i]);
		text_at(out, x + 20, y + 12, "small", states[i]);
	}
}

static const char style[] =
	"<style>text{font-family:sans-serif;fill:#222}.head{font-size:16px;font-weight:bold}.small{font-size:11px}.title{font-size:20px;font-weight:bold}"
	"rect{stroke:#555;stroke-width:1}.frame{fill:none}.free{fill:#fff}.allocated{fill:#9ecae1}.cordoned{fill:#f0e68c}.spare{fill:#b5e7b5}"
	".faulty{fill:#f4a582}.offline{fill:#cccccc}.leaf{fill:#dadaeb}</style>\n";

void rk_export_svg(const struct rk_export *e, struct rk_str *out)
{
	struct rk_str body RK_CLEANUP_STR = RK_STR_INIT;
	int per_row = e->n < PER_ROW ? (int)e->n : PER_ROW, rows = ((int)e->n + PER_ROW - 1) / PER_ROW, rack_h = U_MAX * U_H + 48;
	int width = RACK_GAP + (per_row > 4 ? per_row : 4) * (RACK_W + RACK_GAP), y = TOP + LEGEND_H;

	text_at(&body, RACK_GAP, 32, "title", e->site->name ? e->site->name : "site");
	legend(TOP - 16, &body);
	for (size_t b = 0; b < e->n; b++)
		rack(e, &e->blocks[b], RACK_GAP + (int)b % PER_ROW * (RACK_W + RACK_GAP), y + (int)b / PER_ROW * rack_h, &body);
	y += rows * rack_h;
	int n = leaves(e, y, &body);
	y += (n + PER_ROW - 1) / PER_ROW * (LEAF_H + 8) + RACK_GAP;
	rk_str_addf(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n%s", width, y,
		    width, y, style);
	rk_str_add(out, rk_str_text(&body));
	rk_str_add(out, "</svg>\n");
}
