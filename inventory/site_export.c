#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/digest.h"
#include "inventory/base/json.h"
#include "inventory/site_file.h"

/* Export leaves out what the profile or the defaults say already, so that a file stays short and a change shows as one line. */

static void text_key(struct rk_jw *w, const char *key, const char *value)
{
	if (!value)
		return;
	rk_jw_key(w, key);
	rk_jw_str(w, value);
}

static void whole_key(struct rk_jw *w, const char *key, long value, long absent)
{
	if (value == absent)
		return;
	rk_jw_key(w, key);
	rk_jw_i64(w, value);
}

/* A JSON object kept as text. */
static void raw_key(struct rk_jw *w, const char *key, const char *json)
{
	RK_CLEANUP_JSON struct rk_json *doc = NULL;

	if (!json || rk_json_parse(key, json, strlen(json), &doc, NULL))
		return;
	rk_jw_key(w, key);
	rk_jw_node(w, rk_json_root(doc));
}

static void export_ssh(struct rk_jw *w, const struct rk_ssh_conf *ssh, const struct rk_ssh_conf *base, const char *host)
{
	bool user = !rk_streq(ssh->user, base ? base->user : NULL), port = ssh->port != (base ? base->port : 0);
	bool known = !rk_streq(ssh->known_hosts, base ? base->known_hosts : NULL);
	bool identity = !rk_streq(ssh->identity_file, base ? base->identity_file : NULL), jump = !rk_streq(ssh->jump, base ? base->jump : NULL);

	if (!user && !port && !known && !identity && !jump && !host)
		return;
	rk_jw_key(w, "ssh");
	rk_jw_object(w);
	text_key(w, "host", host);
	text_key(w, "user", user ? ssh->user : NULL);
	whole_key(w, "port", port ? ssh->port : 0, 0);
	text_key(w, "knownHosts", known ? ssh->known_hosts : NULL);
	text_key(w, "identityFile", identity ? ssh->identity_file : NULL);
	text_key(w, "jump", jump ? ssh->jump : NULL);
	rk_jw_end(w);
}

static void export_nvme(struct rk_jw *w, const char *const *nvme, int n)
{
	rk_jw_key(w, "nvme");
	rk_jw_array(w);
	for (int i = 0; i < n; i++)
		rk_jw_str(w, nvme[i]);
	rk_jw_end(w);
}

static void export_defaults(struct rk_jw *w, const struct rk_site *site)
{
	const struct rk_site_defaults *d = &site->defaults;

	rk_jw_key(w, "defaults");
	rk_jw_object(w);
	text_key(w, "profile", d->profile);
	text_key(w, "libvirt", d->libvirt);
	export_ssh(w, &d->ssh, NULL, NULL);
	if (d->n_nvme)
		export_nvme(w, d->nvme, d->n_nvme);
	if (site->hypervisor.libvirt) {
		rk_jw_key(w, "hypervisor");
		rk_jw_object(w);
		text_key(w, "libvirt", site->hypervisor.libvirt);
		text_key(w, "qemu", site->hypervisor.qemu);
		text_key(w, "arch", site->hypervisor.arch);
		whole_key(w, "pageKiB", site->hypervisor.page_kib, 0);
		rk_jw_end(w);
	}
	raw_key(w, "bmc", site->bmc);
	rk_jw_end(w);
}

static void export_network(struct rk_jw *w, const struct rk_site *site)
{
	const struct rk_network *n = &site->network;

	if (n->bridge || n->macvtap || n->user || n->addresses || n->gateway || n->n_dns) {
		rk_jw_key(w, "network");
		rk_jw_object(w);
		text_key(w, "bridge", n->bridge);
		text_key(w, "macvtap", n->macvtap);
		if (n->user) {
			rk_jw_key(w, "user");
			rk_jw_bool(w, true);
		}
		text_key(w, "addresses", n->addresses);
		text_key(w, "gateway", n->gateway);
		if (n->n_dns) {
			rk_jw_key(w, "dns");
			rk_jw_array(w);
			for (size_t i = 0; i < n->n_dns; i++)
				rk_jw_str(w, n->dns[i]);
			rk_jw_end(w);
		}
		rk_jw_end(w);
	}
	if (!rk_streq(site->pool, "default")) {
		rk_jw_key(w, "storage");
		rk_jw_object(w);
		text_key(w, "pool", site->pool);
		rk_jw_end(w);
	}
}

static void export_manager(struct rk_jw *w, const struct rk_manager *m)
{
	text_key(w, "driver", m->driver);
	text_key(w, "ssh", m->ssh_text);
	text_key(w, "url", m->url);
	text_key(w, "credentialsFile", m->credentials_file);
	text_key(w, "caFile", m->ca_file);
}

static void export_fabrics(struct rk_jw *w, const struct rk_site *site)
{
	rk_jw_key(w, "infiniband");
	rk_jw_array(w);
	for (size_t i = 0; i < site->n_fabrics; i++) {
		const struct rk_fabric *f = &site->fabrics[i];
		char pool[32];
		rk_jw_object(w);
		text_key(w, "name", f->name);
		export_manager(w, &f->manager);
		text_key(w, "partitionsFile", f->partitions_file);
		text_key(w, "pidFile", f->pid_file);
		snprintf(pool, sizeof(pool), "0x%04x-0x%04x", f->pkey_first, f->pkey_last);
		text_key(w, "pkeyPool", pool);
		whole_key(w, "rateGbps", f->rate_gbps, 0);
		if (f->oversubscription != 1.0) {
			rk_jw_key(w, "oversubscription");
			rk_jw_double(w, f->oversubscription);
		}
		rk_jw_end(w);
	}
	rk_jw_end(w);
}

static void export_gpus(struct rk_jw *w, const struct rk_site *site, const struct rk_tray *t, const struct rk_profile *p)
{
	rk_jw_key(w, "gpus");
	rk_jw_array(w);
	for (int i = 0; i < t->n_gpus; i++) {
		const struct rk_gpu *g = &site->gpus[t->first_gpu + i];
		rk_jw_object(w);
		whole_key(w, "index", g->index, -1);
		if (g->fabric_guid) {
			rk_jw_key(w, "fabricGuid");
			rk_jw_hex64(w, g->fabric_guid);
		}
		whole_key(w, "moduleId", g->module_id, p->gpu_module[i]);
		text_key(w, "pci", rk_streq(g->pci, p->gpu_pci[i]) ? NULL : g->pci);
		text_key(w, "serial", g->serial);
		text_key(w, "uuid", g->uuid);
		rk_jw_end(w);
	}
	rk_jw_end(w);
}

static void export_hcas(struct rk_jw *w, const struct rk_site *site, const struct rk_tray *t, const struct rk_profile *p)
{
	rk_jw_key(w, "hcas");
	rk_jw_array(w);
	for (int i = 0; i < t->n_hcas; i++) {
		const struct rk_hca *h = &site->hcas[t->first_hca + i];
		rk_jw_object(w);
		whole_key(w, "rail", h->rail, -1);
		if (h->port_guid) {
			rk_jw_key(w, "portGuid");
			rk_jw_hex64(w, h->port_guid);
		}
		text_key(w, "pci", rk_streq(h->pci, p->hca_pci[i]) ? NULL : h->pci);
		text_key(w, "fabric", h->fabric > 0 ? site->fabrics[h->fabric].name : NULL);
		rk_jw_end(w);
	}
	rk_jw_end(w);
}

static void export_parts(struct rk_jw *w, const struct rk_site *site, int rack, int tray)
{
	size_t n;
	const struct rk_component *part = rk_components(site, rack, tray, &n);

	if (!n)
		return;
	rk_jw_key(w, "parts");
	rk_jw_array(w);
	for (; n; n--, part++) {
		rk_jw_object(w);
		text_key(w, "kind", part->kind);
		whole_key(w, "index", part->index, -1);
		text_key(w, "serial", part->serial);
		text_key(w, "pci", part->pci);
		text_key(w, "firmware", part->firmware);
		rk_jw_end(w);
	}
	rk_jw_end(w);
}

static char *default_uri(const struct rk_site *site, const struct rk_tray *t)
{
	struct rk_str out = RK_STR_INIT;

	for (const char *at = site->defaults.libvirt; *at;) {
		if (rk_starts_with(at, "{rack}")) {
			rk_str_add(&out, site->racks[t->rack].name);
			at += strlen("{rack}");
		} else if (rk_starts_with(at, "{tray}")) {
			rk_str_add(&out, t->name);
			at += strlen("{tray}");
		} else if (rk_starts_with(at, "{slot}")) {
			rk_str_addf(&out, "%d", t->slot);
			at += strlen("{slot}");
		} else {
			rk_str_addc(&out, *at++);
		}
	}
	return rk_str_steal(&out);
}

static bool same_nvme(const struct rk_site *site, const struct rk_tray *t)
{
	if (t->n_nvme != site->defaults.n_nvme)
		return false;
	for (int i = 0; i < t->n_nvme; i++)
		if (!rk_streq(t->nvme[i], site->defaults.nvme[i]))
			return false;
	return true;
}

static void export_tray(struct rk_jw *w, const struct rk_site *site, const struct rk_tray *t, const struct rk_profile *p)
{
	char *uri RK_CLEANUP_FREE = default_uri(site, t);

	rk_jw_key(w, t->name);
	rk_jw_object(w);
	text_key(w, "serial", t->serial);
	whole_key(w, "slot", t->slot, p->slot[t->number - 1]);
	text_key(w, "libvirt", rk_streq(uri, t->libvirt_uri) ? NULL : t->libvirt_uri);
	export_ssh(w, &t->ssh, &site->defaults.ssh, rk_streq(t->ssh_host, t->name) ? NULL : t->ssh_host);
	if (!same_nvme(site, t))
		export_nvme(w, t->nvme, t->n_nvme);
	raw_key(w, "bmc", t->bmc);
	export_parts(w, site, t->rack, (int)(t - site->trays));
	export_gpus(w, site, t, p);
	export_hcas(w, site, t, p);
	rk_jw_end(w);
}

static void export_absent(struct rk_jw *w, const struct rk_site *site, const struct rk_rack *rack, int count)
{
	bool there[65] = { false };

	for (int t = rack->first_tray; t < rack->first_tray + rack->n_trays; t++)
		there[site->trays[t].number] = true;
	rk_jw_key(w, "absent");
	rk_jw_array(w);
	for (int n = 1; n <= count; n++)
		if (!there[n])
			rk_jw_i64(w, n);
	rk_jw_end(w);
}

static void export_rack(struct rk_jw *w, const struct rk_site *site, const struct rk_rack *rack)
{
	const struct rk_profile *p = &site->profiles[rack->profile];
	int count = rack->n_trays ? site->trays[rack->first_tray + rack->n_trays - 1].number : 0;

	rk_jw_object(w);
	text_key(w, "name", rack->name);
	text_key(w, "profile", rk_streq(p->name, site->defaults.profile) ? NULL : p->name);
	text_key(w, "location", rack->location);
	rk_jw_key(w, "powerKw");
	rk_jw_double(w, rack->power_kw);
	text_key(w, "clusterUuid", rack->cluster_uuid);
	raw_key(w, "versions", rack->versions);
	if (rack->nvlink.driver) {
		rk_jw_key(w, "nvlink");
		rk_jw_object(w);
		export_manager(w, &rack->nvlink);
		text_key(w, "release", rack->nvl_per_tray ? "tray" : NULL);
		rk_jw_end(w);
	}
	rk_jw_key(w, "trays");
	rk_jw_object(w);
	whole_key(w, "count", count, -1);
	if (rack->n_trays != count)
		export_absent(w, site, rack, count);
	whole_key(w, "spares", rack->spares, 0);
	rk_jw_end(w);
	export_parts(w, site, (int)(rack - site->racks), RK_NONE);
	rk_jw_key(w, "tray");
	rk_jw_object(w);
	for (int t = rack->first_tray; t < rack->first_tray + rack->n_trays; t++)
		export_tray(w, site, &site->trays[t], p);
	rk_jw_end(w);
	rk_jw_end(w);
}

static void export_images(struct rk_jw *w, const struct rk_site *site)
{
	rk_jw_key(w, "images");
	rk_jw_array(w);
	for (size_t i = 0; i < site->n_images; i++) {
		const struct rk_image *image = &site->images[i];
		rk_jw_object(w);
		text_key(w, "name", image->name);
		text_key(w, "volume", image->volume);
		text_key(w, "arch", image->arch);
		text_key(w, "format", image->format);
		text_key(w, "checksum", image->checksum);
		text_key(w, "kernel", image->kernel);
		text_key(w, "initrd", image->initrd);
		text_key(w, "cmdline", image->cmdline);
		rk_jw_end(w);
	}
	rk_jw_end(w);
}

static void export_tenants(struct rk_jw *w, const struct rk_site *site)
{
	rk_jw_key(w, "tenants");
	rk_jw_array(w);
	for (size_t i = 0; i < site->n_tenants; i++) {
		const struct rk_tenant *tenant = &site->tenants[i];
		rk_jw_object(w);
		text_key(w, "name", tenant->name);
		if (tenant->quota_vms || tenant->quota_pkeys) {
			rk_jw_key(w, "quota");
			rk_jw_object(w);
			whole_key(w, "vms", tenant->quota_vms, 0);
			whole_key(w, "pkeys", tenant->quota_pkeys, 0);
			rk_jw_end(w);
		}
		rk_jw_end(w);
	}
	rk_jw_end(w);
}

void rk_site_export(const struct rk_site *site, struct rk_str *out)
{
	struct rk_jw w;

	rk_jw_init(&w, out, 2);
	rk_jw_object(&w);
	text_key(&w, "apiVersion", "racksh/v1");
	text_key(&w, "kind", "Site");
	text_key(&w, "name", site->name);
	text_key(&w, "region", site->region);
	export_defaults(&w, site);
	export_network(&w, site);
	export_fabrics(&w, site);
	rk_jw_key(&w, "racks");
	rk_jw_array(&w);
	for (size_t i = 0; i < site->n_racks; i++)
		export_rack(&w, site, &site->racks[i]);
	rk_jw_end(&w);
	export_images(&w, site);
	export_tenants(&w, site);
	raw_key(&w, "versions", site->versions);
	raw_key(&w, "hooks", site->hooks);
	raw_key(&w, "health", site->health);
	raw_key(&w, "facilityMeter", site->meter);
	raw_key(&w, "sizes", site->sizes);
	rk_jw_end(&w);
	rk_str_addc(out, '\n');
}

void rk_site_digest(const struct rk_site *site, char ret[65])
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	rk_site_export(site, &text);
	rk_sha256_hex(rk_str_text(&text), text.len, ret);
}

/* An invented identity never equals one that the file names. */
static uint64_t fresh(const struct rk_site *site, int (*find)(const struct rk_site *site, uint64_t guid), uint64_t guid)
{
	/* Above the bits that rack, tray and position take, so that the next one tried is nobody else's. */
	while (find(site, guid) >= 0)
		guid += (uint64_t)1 << 32;
	return guid;
}

void rk_site_invent(struct rk_site *site)
{
	for (size_t r = 0; r < site->n_racks; r++) {
		struct rk_rack *rack = &site->racks[r];
		if (!rack->cluster_uuid)
			rack->cluster_uuid = rk_arena_printf(site->arena, "5ac0ffee-0000-4000-8000-%012zx", r + 1);
	}
	for (size_t t = 0; t < site->n_trays; t++) {
		struct rk_tray *tray = &site->trays[t];
		uint64_t place = (uint64_t)(tray->rack + 1) << 16 | (uint64_t)tray->number << 8;
		if (!tray->serial)
			tray->serial = rk_arena_printf(site->arena, "SIM-%s", tray->name);
		for (int i = 0; i < tray->n_gpus; i++)
			if (!site->gpus[tray->first_gpu + i].fabric_guid)
				site->gpus[tray->first_gpu + i].fabric_guid = fresh(site, rk_find_gpu_guid, 0x4c8dfffe00000000u | place | (uint64_t)i);
		for (int i = 0; i < tray->n_hcas; i++)
			if (!site->hcas[tray->first_hca + i].port_guid)
				site->hcas[tray->first_hca + i].port_guid =
					fresh(site, rk_find_hca_guid, (0x5000e60300000000u | place | (uint64_t)i << 4) + 1);
		int want = site->profiles[site->racks[tray->rack].profile].nvme_per_tray;
		for (; tray->n_nvme < want && tray->n_nvme < RK_NVME_MAX; tray->n_nvme++)
			tray->nvme[tray->n_nvme] = rk_arena_printf(site->arena, "%04x:%02x:00.0", tray->n_nvme < want / 2 ? 5 : 0x15, tray->n_nvme % 2 + 1);
	}
	rk_site_seal(site);
}
