#include <string.h>

#include "provision/export.h"

/* Inside quotes of the dot language. */
static void quoted(struct rk_str *out, const char *text)
{
	rk_str_addc(out, '"');
	for (const char *c = text; *c; c++) {
		if (*c == '"' || *c == '\\')
			rk_str_addc(out, '\\');
		rk_str_addc(out, *c);
	}
	rk_str_addc(out, '"');
}

static const char *fill_of(const struct rk_site *site, const struct rk_export_node *n)
{
	static const char *const colours[] = { [RK_TRAY_FREE] = "white", [RK_TRAY_ALLOCATED] = "lightblue", [RK_TRAY_CORDONED] = "khaki", [RK_TRAY_SPARE] = "palegreen",
					       [RK_TRAY_FAULTY] = "salmon", [RK_TRAY_OFFLINE] = "lightgrey" };

	return colours[rk_tray_state(site, n->tray)];
}

static void block(const struct rk_export *e, const struct rk_export_block *b, struct rk_str *out)
{
	const char *uuid = e->site->racks[b->rack].cluster_uuid;
	char *domain RK_CLEANUP_FREE = rk_xasprintf("NVLink %s", b->name), *label RK_CLEANUP_FREE = rk_xasprintf("%s\\n%s", b->name, uuid ? uuid : "domain unknown");

	rk_str_add(out, "  subgraph ");
	char *name RK_CLEANUP_FREE = rk_xasprintf("cluster_%s", b->name);
	quoted(out, name);
	/* The line break of the label is dot's own escape. */
	rk_str_addf(out, " {\n    label=\"%s\";\n    ", label);
	quoted(out, domain);
	rk_str_add(out, " [shape=box3d];\n");
	for (size_t i = 0; i < b->n; i++) {
		if (b->nodes[i].tray < 0)
			continue;
		rk_str_add(out, "    ");
		quoted(out, b->nodes[i].name);
		rk_str_addf(out, " [style=filled, fillcolor=%s];\n    ", fill_of(e->site, &b->nodes[i]));
		quoted(out, b->nodes[i].name);
		rk_str_add(out, " -- ");
		quoted(out, domain);
		rk_str_addf(out, " [label=\"%d GPUs\"];\n", e->site->trays[b->nodes[i].tray].n_gpus);
	}
	rk_str_add(out, "  }\n");
}

static void cables(const struct rk_export *e, const struct rk_export_node *n, struct rk_str *out)
{
	const struct rk_tray *t = &e->site->trays[n->tray];

	for (int h = t->first_hca; h < t->first_hca + t->n_hcas; h++) {
		const struct rk_hca *hca = &e->site->hcas[h];
		if (!hca->leaf)
			continue;
		rk_str_add(out, "  ");
		quoted(out, n->name);
		rk_str_add(out, " -- ");
		quoted(out, hca->leaf);
		rk_str_addf(out, " [label=\"rail %d, port %d\"];\n", hca->rail, hca->leaf_port);
	}
}

void rk_export_dot(const struct rk_export *e, struct rk_str *out)
{
	rk_str_add(out, "graph ");
	quoted(out, e->site->name ? e->site->name : "site");
	rk_str_add(out, " {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n");
	for (size_t b = 0; b < e->n; b++)
		block(e, &e->blocks[b], out);
	for (size_t b = 0; b < e->n; b++)
		for (size_t i = 0; i < e->blocks[b].n; i++)
			if (e->blocks[b].nodes[i].tray >= 0)
				cables(e, &e->blocks[b].nodes[i], out);
	rk_str_add(out, "}\n");
}
