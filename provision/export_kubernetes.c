#include <stdio.h>
#include <string.h>

#include "provision/export.h"

/* Label values: at most 63 of [A-Za-z0-9._-], an alphanumeric at either end. Anything else becomes '-'. */
static void add_label(struct rk_str *out, const char *key, const char *value)
{
	char text[64];
	size_t n = 0;

	for (; value[n] && n < sizeof(text) - 1; n++) {
		char c = value[n];
		bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
		text[n] = good ? c : '-';
	}
	while (n && strchr("._-", text[n - 1]))
		n--;
	text[n] = '\0';
	if (n)
		rk_str_addf(out, "    %s: \"%s\"\n", key, text + strspn(text, "._-"));
}

/* The partition of the cluster on a tray in that rack, or 0. */
static int partition_of(const struct rk_site *site, int vm)
{
	const struct rk_cluster *c = &site->clusters[site->vms[vm].cluster];

	for (int p = c->first_nvl; p < c->first_nvl + c->n_nvl; p++)
		if (site->nvl_partitions[p].rack == site->trays[site->vms[vm].tray].rack)
			return site->nvl_partitions[p].id;
	return 0;
}

/* Only a partition that was made and seen is a clique: a wrong label is worse than none. */
static void add_clique(const struct rk_site *site, int vm, struct rk_str *out)
{
	const struct rk_rack *rack = &site->racks[site->trays[site->vms[vm].tray].rack];
	int partition = partition_of(site, vm);
	char text[96];

	if (site->vms[vm].state != RK_VM_RUNNING || !partition || !rack->cluster_uuid)
		return;
	snprintf(text, sizeof(text), "%s.%d", rack->cluster_uuid, partition);
	add_label(out, "nvidia.com/gpu.clique", text);
}

static const char *leaf_of(const struct rk_site *site, int tray)
{
	return site->trays[tray].n_hcas ? site->hcas[site->trays[tray].first_hca].leaf : NULL;
}

/* Is the leaf of rail 0 known for every node? Then it is a level of the topology. */
static bool leaves_known(const struct rk_export *e)
{
	bool any = false;

	for (size_t b = 0; b < e->n; b++)
		for (size_t i = 0; i < e->blocks[b].n; i++) {
			const struct rk_export_node *n = &e->blocks[b].nodes[i];
			if (n->tray >= 0 && !leaf_of(e->site, n->tray))
				return false;
			any |= n->tray >= 0;
		}
	return any;
}

static void add_node(const struct rk_export *e, const struct rk_export_block *b, const struct rk_export_node *n, struct rk_str *out)
{
	const struct rk_site *site = e->site;
	int vm = n->vm >= 0 ? n->vm : site->trays[n->tray].vm;

	rk_str_addf(out, "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: %s\n  labels:\n", n->name);
	if (vm >= 0) {
		add_clique(site, vm, out);
		add_label(out, "racksh/cluster", site->clusters[site->vms[vm].cluster].name);
		add_label(out, "racksh/tenant", site->tenants[site->clusters[site->vms[vm].cluster].tenant].name);
	}
	if (site->racks[b->rack].cluster_uuid)
		add_label(out, "racksh/nvlink-domain", site->racks[b->rack].cluster_uuid);
	add_label(out, "racksh/rack", b->name);
	add_label(out, "racksh/tray", site->trays[n->tray].name);
	if (leaf_of(site, n->tray))
		add_label(out, "racksh/leaf", leaf_of(site, n->tray));
}

void rk_export_kubernetes(const struct rk_export *e, struct rk_str *out)
{
	rk_str_add(out, "# made by racksh export kubernetes; apply with kubectl apply --server-side\n---\n"
			"apiVersion: kueue.x-k8s.io/v1beta2\nkind: Topology\nmetadata:\n  name: nvl72\nspec:\n  levels:\n");
	if (leaves_known(e))
		rk_str_add(out, "    - nodeLabel: racksh/leaf\n");
	rk_str_add(out, "    - nodeLabel: racksh/rack\n    - nodeLabel: kubernetes.io/hostname\n---\n"
			"apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata:\n  name: nvl72\nspec:\n  topologyName: nvl72\n");
	if (e->cluster >= 0)
		rk_str_addf(out, "  nodeLabels:\n    racksh/cluster: \"%s\"\n", e->site->clusters[e->cluster].name);
	for (size_t b = 0; b < e->n; b++)
		for (size_t i = 0; i < e->blocks[b].n; i++)
			if (e->blocks[b].nodes[i].tray >= 0)
				add_node(e, &e->blocks[b], &e->blocks[b].nodes[i], out);
}
