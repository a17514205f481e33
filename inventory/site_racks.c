#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/sort.h"
#include "inventory/profile.h"
#include "inventory/site_file.h"
#include "inventory/site_reader.h"
#include "inventory/site_values.h"

/* The racks of a site file, their trays, GPUs, HCAs and other parts. */

static int profile_of(struct rk_reader *r, const struct rk_jnode *node, const char *name)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_profile profile;

	for (size_t i = 0; i < r->profiles.n; i++)
		if (strcmp(r->profiles.items[i].name, name) == 0)
			return (int)i;
	if (rk_profile_load(name, r->arena, &profile, &err)) {
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "%s", err.message);
		if (err.hint)
			rk_diag_hint(&r->diags, "%s", err.hint);
		return RK_NONE;
	}
	*rk_vec_push(&r->profiles) = profile;
	return (int)r->profiles.n - 1;
}

static struct rk_map *tray_map(struct rk_reader *r, const struct rk_jnode *trays)
{
	if (!trays || trays->type != RK_JOBJECT)
		return NULL;
	struct rk_map *map = rk_map_new();
	RK_JEACH(it, trays)
		rk_map_add(map, it->key, (size_t)it, NULL);
	*rk_vec_push(&r->maps) = map;
	return map;
}

static void collect_entry(struct rk_reader *r, const struct rk_jnode *node, struct rk_places *names)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_nodeset set;
	const struct rk_jnode *name = rk_jget(node, "name");

	if (!rk_site_fields(&r->diags, node, RK_SITE_RACK) ||
	    !rk_jstr(name))
		return;
	if (rk_nodeset_parse(name->text, NULL, NULL, r->arena, &set, &err)) {
		rk_diag_at(&r->diags, name, RK_AT_VALUE, "%s", err.message);
		return;
	}
	if (r->racks.n + set.n > RK_SITE_RACKS_MAX) {
		rk_diag_at(&r->diags, name, RK_AT_VALUE, "a site of more than %d racks", RK_SITE_RACKS_MAX);
		return;
	}
	if (set.n > 1 && rk_jget(node, "clusterUuid"))
		rk_diag_at(&r->diags, rk_jget(node, "clusterUuid"), RK_AT_VALUE, "one ClusterUUID cannot belong to %zu racks", set.n);
	struct rk_map *trays = tray_map(r, rk_jget(node, "tray"));
	for (size_t i = 0; i < set.n; i++) {
		if (!rk_name_valid(set.names[i]))
			rk_diag_at(&r->diags, name, RK_AT_VALUE, "\"%s\" is no valid name of a rack", set.names[i]);
		if (rk_read_unique(r, names, set.names[i], name))
			*rk_vec_push(&r->racks) = (struct rk_rack_entry){ set.names[i], node, trays };
	}
}

static int by_rack_name(const void *a, const void *b)
{
	return rk_natural_cmp(((const struct rk_rack_entry *)a)->name, ((const struct rk_rack_entry *)b)->name);
}

/* Reads "gpus" or "hcas" of a tray: which[index] = node, by the index key. */
static void by_index(struct rk_reader *r, const struct rk_jnode *list, const char *key, int n, const struct rk_jnode **which)
{
	RK_JEACH(it, list) {
		const struct rk_jnode *at = rk_jget(it, key);
		long i = rk_read_whole(r, at, 0, n - 1, -1);
		if (i < 0) {
			if (!at)
				rk_diag_at(&r->diags, it, RK_AT_VALUE, "an entry needs \"%s\" from 0 to %d", key, n - 1);
			else if (at->type != RK_JNUMBER)
				rk_diag_at(&r->diags, at, RK_AT_VALUE, "\"%s\" must be a number, not %s", key, rk_jtype_name(at->type));
			continue;
		}
		if (which[i])
			rk_diag_at(&r->diags, at, RK_AT_VALUE, "\"%s\" %ld is listed twice, first at %u:%u", key, i, which[i]->line, which[i]->col);
		which[i] = it;
	}
}

static void read_gpus(struct rk_reader *r, const struct rk_jnode *node, int tray, const struct rk_profile *p)
{
	const struct rk_jnode *which[RK_GPUS_MAX] = { NULL };

	by_index(r, rk_jget(node, "gpus"), "index", p->gpus_per_tray, which);
	for (int i = 0; i < p->gpus_per_tray; i++) {
		const struct rk_jnode *g = which[i];
		if (g)
			rk_site_fields(&r->diags, g, RK_SITE_GPU);
		*rk_vec_push(&r->gpus) = (struct rk_gpu){
			.tray = tray,
			.index = i,
			.module_id = (int)rk_read_whole(r, rk_jget(g, "moduleId"), 1, RK_GPUS_MAX, p->gpu_module[i]),
			.pci = rk_read_pci(r, rk_jget(g, "pci"), p->gpu_pci[i]),
			.serial = rk_read_text(r, rk_jget(g, "serial")),
			.uuid = rk_read_text(r, rk_jget(g, "uuid")),
			.fabric_guid = rk_read_guid(r, rk_jget(g, "fabricGuid")),
		};
		if (rk_jstr(rk_jget(g, "uuid")))
			rk_read_unique(r, &r->uuids, rk_jget(g, "uuid")->text, rk_jget(g, "uuid"));
	}
}

static void read_hcas(struct rk_reader *r, const struct rk_jnode *node, int tray, const struct rk_profile *p)
{
	const struct rk_jnode *which[RK_RAILS_MAX] = { NULL };

	by_index(r, rk_jget(node, "hcas"), "rail", p->hcas_per_tray, which);
	for (int i = 0; i < p->hcas_per_tray; i++) {
		const struct rk_jnode *h = which[i];
		if (h)
			rk_site_fields(&r->diags, h, RK_SITE_HCA);
		const char *fabric = rk_jstr(rk_jget(h, "fabric"));
		size_t at = 0;
		while (fabric && at < r->site->n_fabrics && !rk_streq(r->site->fabrics[at].name, fabric))
			at++;
		if (fabric && at == r->site->n_fabrics)
			rk_diag_at(&r->diags, rk_jget(h, "fabric"), RK_AT_VALUE, "no InfiniBand fabric \"%s\"", fabric);
		*rk_vec_push(&r->hcas) = (struct rk_hca){
			.tray = tray,
			.rail = i,
			.fabric = r->site->n_fabrics ? (int)at : RK_NONE,
			.pci = rk_read_pci(r, rk_jget(h, "pci"), p->hca_pci[i]),
			.port_guid = rk_read_guid(r, rk_jget(h, "portGuid")),
		};
	}
}

/* Parts that only have an identity: "parts" of a rack (tray = RK_NONE) or of a tray. */
static void read_parts(struct rk_reader *r, const struct rk_jnode *list, int rack, int tray)
{
	size_t first = r->parts.n;

	RK_JEACH(it, list) {
		if (!rk_site_fields(&r->diags, it, tray == RK_NONE ? RK_SITE_RACK_PART : RK_SITE_TRAY_PART))
			continue;
		const struct rk_component part = {
			.rack = rack,
			.tray = tray,
			.kind = rk_read_text(r, rk_jget(it, "kind")),
			.index = (int)rk_read_whole(r, rk_jget(it, "index"), 0, 99, 0),
			.serial = rk_read_text(r, rk_jget(it, "serial")),
			.pci = rk_read_pci(r, rk_jget(it, "pci"), NULL),
			.firmware = rk_read_text(r, rk_jget(it, "firmware")),
		};
		for (size_t i = first; i < r->parts.n; i++)
			if (rk_streq(r->parts.items[i].kind, part.kind) && r->parts.items[i].index == part.index)
				rk_diag_at(&r->diags, it, RK_AT_VALUE, "%s %d is listed twice", part.kind ? part.kind : "part", part.index);
		if (part.serial)
			rk_read_unique(r, &r->serials, part.serial, rk_jget(it, "serial"));
		*rk_vec_push(&r->parts) = part;
	}
}

/* A PCI address may stand once in a tray. */
static void check_addresses(struct rk_reader *r, const struct rk_tray *t, const struct rk_jnode *node)
{
	const char *pci[RK_GPUS_MAX + RK_RAILS_MAX + RK_NVME_MAX];
	size_t n = 0;

	for (int i = 0; i < t->n_gpus; i++)
		pci[n++] = r->gpus.items[t->first_gpu + i].pci;
	for (int i = 0; i < t->n_hcas; i++)
		pci[n++] = r->hcas.items[t->first_hca + i].pci;
	for (int i = 0; i < t->n_nvme; i++)
		pci[n++] = t->nvme[i];
	for (size_t i = 0; i < n; i++)
		for (size_t j = i + 1; j < n; j++)
			if (pci[i] && pci[j] && strcmp(pci[i], pci[j]) == 0)
				rk_diag_at(&r->diags, node, RK_AT_VALUE, "PCI address %s is used twice in tray \"%s\"", pci[i], t->name);
}

static void read_tray(struct rk_reader *r, const struct rk_rack_entry *entry, int rack, int number, const struct rk_profile *p)
{
	struct rk_tray *t = rk_vec_push(&r->trays);
	const struct rk_jnode *node = NULL;
	size_t at;

	t->name = rk_arena_printf(r->arena, "%s-t%02d", entry->name, number);
	t->rack = rack;
	t->number = number;
	t->vm = RK_NONE;
	if (entry->trays && rk_map_get(entry->trays, t->name, &at)) {
		node = (const struct rk_jnode *)at;
		rk_map_set(entry->trays, t->name, at | 1); /* used: the low bit of a node's address is free */
	}
	if (node)
		rk_site_fields(&r->diags, node, RK_SITE_TRAY);
	t->slot = (int)rk_read_whole(r, rk_jget(node, "slot"), 1, 100, p->slot[number - 1]);
	const struct rk_place_values v = { entry->name, t->name, t->slot };
	const struct rk_jnode *uri = rk_jget(node, "libvirt"), *ssh = rk_jget(node, "ssh");
	if (!rk_jstr(uri))
		uri = NULL;
	t->libvirt_uri = rk_read_fill_text(r, uri ? uri : entry->node, uri ? uri->text : r->site->defaults.libvirt, &v);
	t->serial = rk_read_text(r, rk_jget(node, "serial"));
	t->ssh = r->site->defaults.ssh;
	rk_read_ssh(r, ssh, &t->ssh);
	t->ssh.known_hosts = rk_read_fill_text(r, ssh ? ssh : entry->node, t->ssh.known_hosts, &v);
	t->ssh.identity_file = rk_read_fill_text(r, ssh ? ssh : entry->node, t->ssh.identity_file, &v);
	t->ssh.jump = rk_read_fill_text(r, ssh ? ssh : entry->node, t->ssh.jump, &v);
	if (t->ssh.jump && !rk_jump_valid(t->ssh.jump)) {
		rk_diag_at(&r->diags, ssh ? ssh : entry->node, RK_AT_VALUE, "\"jump\": \"%s\" is no list of up to 4 jump hosts", t->ssh.jump);
		rk_diag_hint(&r->diags, "for example ops@bastion:22,inner; \"\" for none");
	}
	const char *host = rk_read_fill(r, rk_jget(ssh, "host") ? rk_jget(ssh, "host") : r->default_host, &v);
	t->ssh_host = host ? host : t->name;
	memcpy(t->nvme, r->site->defaults.nvme, sizeof(t->nvme));
	t->n_nvme = r->site->defaults.n_nvme;
	if (rk_jget(node, "nvme"))
		t->n_nvme = rk_read_nvme(r, rk_jget(node, "nvme"), t->nvme);
	if (t->serial)
		rk_read_unique(r, &r->serials, t->serial, rk_jget(node, "serial"));
	if (!rk_libvirt_uri_valid(t->libvirt_uri)) {
		rk_diag_at(&r->diags, uri ? uri : entry->node, RK_AT_VALUE, "\"%s\" is no libvirt URI", t->libvirt_uri);
		rk_diag_hint(&r->diags, "for example qemu+ssh://root@{tray}/system");
	}
	rk_read_unique(r, &r->uris, t->libvirt_uri, uri ? uri : entry->node);
	t->bmc = rk_read_object(r, rk_jget(node, "bmc"), RK_SITE_BMC);
	t->first_gpu = (int)r->gpus.n;
	t->n_gpus = p->gpus_per_tray;
	t->first_hca = (int)r->hcas.n;
	t->n_hcas = p->hcas_per_tray;
	int index = (int)r->trays.n - 1;
	read_gpus(r, node, index, p);
	read_hcas(r, node, index, p);
	read_parts(r, rk_jget(node, "parts"), rack, index);
	check_addresses(r, t, node ? node : entry->node);
}

static void read_trays(struct rk_reader *r, const struct rk_rack_entry *entry, struct rk_rack *rack, int index, const struct rk_profile *p)
{
	const struct rk_jnode *node = rk_jget(entry->node, "trays");
	bool absent[64] = { false };

	if (node)
		rk_site_fields(&r->diags, node, RK_SITE_TRAYS);
	int count = (int)rk_read_whole(r, rk_jget(node, "count"), 0, p->trays, p->trays);
	rack->spares = (int)rk_read_whole(r, rk_jget(node, "spares"), 0, p->trays, 0);
	RK_JEACH(it, rk_jget(node, "absent")) {
		long n = rk_read_whole(r, it, 1, count, 0);
		if (it->type != RK_JNUMBER)
			rk_diag_at(&r->diags, it, RK_AT_VALUE, "\"absent\" holds tray numbers from 1 to %d", count);
		absent[n] = true;
	}
	rack->first_tray = (int)r->trays.n;
	for (int number = 1; number <= count; number++)
		if (!absent[number])
			read_tray(r, entry, index, number, p);
	rack->n_trays = (int)r->trays.n - rack->first_tray;
}

/* In lower case, whatever the tool printed it with. */
static const char *cluster_uuid_of(struct rk_reader *r, const struct rk_jnode *node)
{
	char *uuid = rk_arena_strdup(r->arena, rk_jstr(node));

	if (!uuid)
		return NULL;
	if (!rk_uuid_valid(uuid)) {
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "\"%s\" is no UUID of an NVLink domain", uuid);
		rk_diag_hint(&r->diags, "copy it from `nvidia-smi -q` (ClusterUUID); all zeros means that the fabric never came up");
		return NULL;
	}
	for (char *p = uuid; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	rk_read_unique(r, &r->domains, uuid, node);
	return uuid;
}

static void read_rack(struct rk_reader *r, const struct rk_rack_entry *entry, int index)
{
	struct rk_rack *rack = &r->site->racks[index];
	const struct rk_jnode *profile = rk_jget(entry->node, "profile"), *nvlink = rk_jget(entry->node, "nvlink");
	const struct rk_place_values v = { entry->name, NULL, 0 };

	rack->name = entry->name;
	rack->location = rk_read_text(r, rk_jget(entry->node, "location"));
	rack->cluster_uuid = cluster_uuid_of(r, rk_jget(entry->node, "clusterUuid"));
	rack->versions = rk_read_versions(r, rk_jget(entry->node, "versions"));
	read_parts(r, rk_jget(entry->node, "parts"), index, RK_NONE);
	rack->profile = profile_of(r, profile ? profile : entry->node, rk_jstr(profile) ? profile->text : r->site->defaults.profile);
	if (nvlink && rk_site_fields(&r->diags, nvlink, RK_SITE_NVLINK)) {
		rack->nvl_per_tray = rk_streq(rk_jstr(rk_jget(nvlink, "release")), "tray");
		rk_read_manager(r, nvlink, &v, &rack->nvlink);
	}
	if (rack->profile < 0)
		return;
	/* A copy: profiles may move while trays are read. */
	const struct rk_profile p = r->profiles.items[rack->profile];
	rack->power_kw = rk_read_real(r, rk_jget(entry->node, "powerKw"), 0.1, 10000, p.rack_kw);
	read_trays(r, entry, rack, index, &p);
}

/* Entries of "tray" that no rack has. */
static void check_unused_trays(struct rk_reader *r, const struct rk_jnode *racks)
{
	size_t m = 0;

	RK_JEACH(entry, racks) {
		const struct rk_jnode *trays = rk_jget(entry, "tray");
		if (!trays || trays->type != RK_JOBJECT || m >= r->maps.n)
			continue;
		struct rk_map *map = r->maps.items[m++];
		RK_JEACH(it, trays) {
			size_t at = 0;
			if (rk_map_get(map, it->key, &at) && !(at & 1))
				rk_diag_at(&r->diags, it, RK_AT_KEY, "no tray \"%s\" in this entry's racks", it->key);
		}
	}
}

void rk_read_racks(struct rk_reader *r, const struct rk_jnode *racks)
{
	struct rk_places names = { rk_map_new(), "rack" };

	RK_JEACH(it, racks)
		collect_entry(r, it, &names);
	rk_map_free(names.seen);
	rk_sort(r->racks.items, r->racks.n, sizeof(*r->racks.items), by_rack_name);
	r->site->racks = rk_arena_array(r->arena, r->racks.n, sizeof(*r->site->racks));
	r->site->n_racks = r->racks.n;
	for (size_t i = 0; i < r->racks.n; i++)
		read_rack(r, &r->racks.items[i], (int)i);
	check_unused_trays(r, racks);
}
