#include "inventory/site_check.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/json.h"
#include "inventory/base/map.h"
#include "inventory/base/str.h"
#include "inventory/site_file.h"

void rk_site_finding_add(struct rk_site_findings *found, const char *check, const char *severity, const char *object, const char *hint, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	char *message RK_CLEANUP_FREE = rk_xvasprintf(format, ap);
	va_end(ap);
	*rk_vec_push(found) = (struct rk_site_finding){ check, severity, rk_arena_strdup(found->arena, object), rk_arena_strdup(found->arena, message),
							rk_arena_strdup(found->arena, hint) };
}

/* ---- what the file rules say about the stored values --------------------------------------------------------------------- */

static void check_file_rules(const struct rk_site *site, struct rk_site_findings *found)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	RK_CLEANUP_SITE struct rk_site *again = NULL;

	if (!site->name)
		return; /* nothing was imported yet */
	rk_site_export(site, &text);
	if (!rk_site_parse("export", rk_str_text(&text), text.len, &again, &err))
		return;
	for (size_t i = 0; i < err.n_details; i++)
		rk_site_finding_add(found, "file", "fail", "site", err.hint, "%s", err.details[i]);
	if (!err.n_details)
		rk_site_finding_add(found, "file", "fail", "site", err.hint, "%s", err.message);
}

/* ---- identities ------------------------------------------------------------------------------------------------------------ */

static bool lacks_serial(const struct rk_site *site, const struct rk_tray *t)
{
	(void)site;
	return !t->serial;
}

static bool lacks_gpu(const struct rk_site *site, const struct rk_tray *t)
{
	for (int i = 0; i < t->n_gpus; i++)
		if (!site->gpus[t->first_gpu + i].fabric_guid)
			return true;
	return false;
}

static bool lacks_port(const struct rk_site *site, const struct rk_tray *t)
{
	for (int i = 0; i < t->n_hcas; i++)
		if (!site->hcas[t->first_hca + i].port_guid)
			return true;
	return false;
}

static bool lacks_drives(const struct rk_site *site, const struct rk_tray *t)
{
	return t->n_nvme < site->profiles[site->racks[t->rack].profile].nvme_per_tray;
}

static bool lacks_pci(const struct rk_site *site, const struct rk_tray *t)
{
	bool lacks = false;

	for (int i = 0; i < t->n_gpus; i++)
		lacks |= !site->gpus[t->first_gpu + i].pci;
	for (int i = 0; i < t->n_hcas; i++)
		lacks |= !site->hcas[t->first_hca + i].pci;
	return lacks;
}

/* Trays that lack something, as one finding with folded names: an imported plan without identities is one fact. */
static const struct {
	bool (*lacks)(const struct rk_site *site, const struct rk_tray *t);
	const char *what;
} lacking[] = {
	{ lacks_serial, "the serial is not known: a swapped tray cannot be noticed" },
	{ lacks_gpu, "not every GPU fabric GUID is known: the GPUs cannot be put into an NVLink partition" },
	{ lacks_port, "not every port GUID is known: the ports cannot be given a PKey" },
	{ lacks_drives, "fewer data drives are known than the profile has: a size that passes drives through is not rendered" },
	{ lacks_pci, "not every PCI address is known, and the profile has none" },
};

static void check_identities(const struct rk_site *site, struct rk_site_findings *found)
{
	const char **names RK_CLEANUP_FREE = rk_xcalloc(site->n_trays + site->n_racks, sizeof(*names));

	for (size_t i = 0; i < RK_ARRAY_SIZE(lacking); i++) {
		size_t n = 0;
		for (size_t t = 0; t < site->n_trays; t++)
			if (lacking[i].lacks(site, &site->trays[t]))
				names[n++] = site->trays[t].name;
		if (n)
			rk_site_finding_add(found, "identity", "warn", rk_nodeset_fold(found->arena, names, n), "racksh site discover, or write them into the site file",
					    "%s", lacking[i].what);
	}
	size_t n = 0;
	for (size_t r = 0; r < site->n_racks; r++)
		if (!site->racks[r].cluster_uuid && site->profiles[site->racks[r].profile].switch_trays)
			names[n++] = site->racks[r].name;
	if (n)
		rk_site_finding_add(found, "identity", "warn", rk_nodeset_fold(found->arena, names, n), "racksh site discover",
				    "the ClusterUUID of the NVLink domain is not known: two domains cannot be told apart");
}

/* One serial covers the GPUs of one module: two on Grace boards, one elsewhere. The same on two trays is a copy error. */
static void check_gpu_serials(const struct rk_site *site, struct rk_site_findings *found)
{
	struct rk_map *seen RK_CLEANUP_MAP = rk_map_new();
	size_t first;

	for (size_t i = 0; i < site->n_gpus; i++) {
		const struct rk_gpu *g = &site->gpus[i];
		if (!g->serial || rk_map_add(seen, g->serial, i, &first) || site->gpus[first].tray == g->tray)
			continue;
		rk_site_finding_add(found, "identity", "fail", site->trays[g->tray].name, "compare both with nvidia-smi -q on the trays",
				    "GPU serial \"%s\" is also in tray %s", g->serial, site->trays[site->gpus[first].tray].name);
	}
}

/* ---- racks ----------------------------------------------------------------------------------------------------------------- */

static void check_slots(const struct rk_site *site, const struct rk_rack *r, struct rk_site_findings *found)
{
	int holder[128];

	for (size_t i = 0; i < RK_ARRAY_SIZE(holder); i++)
		holder[i] = RK_NONE;
	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++) {
		int slot = site->trays[t].slot;
		if (slot < 0 || slot >= (int)RK_ARRAY_SIZE(holder))
			continue;
		if (holder[slot] != RK_NONE)
			rk_site_finding_add(found, "slot", "fail", site->trays[t].name, "compare with the chassis slot that nvidia-smi -q prints",
					    "slot %d of rack %s also holds tray %s", slot, r->name, site->trays[holder[slot]].name);
		holder[slot] = t;
	}
}

static void check_spares(const struct rk_site *site, const struct rk_rack *r, struct rk_site_findings *found)
{
	int spare = 0, wanted = rk_rack_spares(site, (int)(r - site->racks));

	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++)
		spare += site->trays[t].spare;
	if (spare < wanted)
		rk_site_finding_add(found, "spares", "warn", r->name, "repair a tray; trays.spares of the site file and sparesPerRack of its clusters say how many there should be",
				    "%d of %d spare trays are there", spare, wanted);
}

static void check_power(const struct rk_site *site, const struct rk_rack *r, struct rk_site_findings *found)
{
	const struct rk_profile *p = &site->profiles[r->profile];
	double committed = rk_rack_kw_committed(site, (int)(r - site->racks)), shelves = p->power_shelves * p->shelf_kw;

	if (committed > r->power_kw)
		rk_site_finding_add(found, "power", "fail", r->name, "delete or move a cluster, or correct powerKw", "%.1f kW are committed, the budget is %.1f kW",
				    committed, r->power_kw);
	if (shelves > 0 && r->power_kw > shelves)
		rk_site_finding_add(found, "power", "warn", r->name, "correct powerKw in the site file",
				    "the budget of %.1f kW is above what %d power shelves of %.0f kW give", r->power_kw, p->power_shelves, p->shelf_kw);
}

static void check_leaks(const struct rk_site *site, const struct rk_rack *r, struct rk_site_findings *found)
{
	int leaks = rk_rack_leaks(site, (int)(r - site->racks));

	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++)
		if (site->trays[t].leak)
			rk_site_finding_add(found, "leak", "fail", site->trays[t].name, "force the tray off, and never power it on before it was dried", "leak: %s",
					    site->trays[t].leak);
	if (leaks > 1)
		rk_site_finding_add(found, "leak", "fail", r->name, "close the rack's coolant valves and power the rack off", "%d trays leak: this is an alarm of the rack",
				    leaks);
}

static void check_tray_states(const struct rk_site *site, const struct rk_rack *r, struct rk_site_findings *found)
{
	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++) {
		const struct rk_tray *tray = &site->trays[t];
		const char *why = tray->offline ? tray->offline : tray->faulty;
		if (why)
			rk_site_finding_add(found, "tray", tray->vm >= 0 ? "fail" : "warn", tray->name,
					    tray->vm >= 0 ? "racksh cluster repair" : "repair or replace it: racksh tray replace", "%s: %s%s%s",
					    rk_tray_state_name(rk_tray_state(site, t)), why, tray->vm >= 0 ? "; VM on it: " : "",
					    tray->vm >= 0 ? site->vms[tray->vm].name : "");
	}
}

/* Trays that run other versions than their rack, or else the site, expects; one finding per sort of difference. */
static void check_versions(const struct rk_site *site, const struct rk_rack *r, struct rk_site_findings *found)
{
	const char *text = r->versions ? r->versions : site->versions;
	RK_CLEANUP_JSON struct rk_json *want = NULL;

	if (!text || rk_json_parse("versions", text, strlen(text), &want, NULL))
		return;
	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++) {
		const struct rk_tray *tray = &site->trays[t];
		RK_CLEANUP_JSON struct rk_json *seen = NULL;
		if (!tray->versions || rk_json_parse("versions", tray->versions, strlen(tray->versions), &seen, NULL))
			continue;
		RK_JEACH(it, rk_json_root(want)) {
			const char *is = rk_jstr(rk_jget(rk_json_root(seen), it->key));
			if (is && rk_jstr(it) && strcmp(is, it->text) != 0)
				rk_site_finding_add(found, "versions", "warn", tray->name, "update it, or correct versions in the site file", "%s is %s, expected is %s", it->key, is, it->text);
		}
	}
}

static void check_racks(const struct rk_site *site, struct rk_site_findings *found)
{
	struct rk_map *managers RK_CLEANUP_MAP = rk_map_new();
	size_t first;

	for (size_t i = 0; i < site->n_racks; i++) {
		const struct rk_rack *r = &site->racks[i];
		check_slots(site, r, found);
		check_spares(site, r, found);
		check_power(site, r, found);
		check_leaks(site, r, found);
		check_tray_states(site, r, found);
		check_versions(site, r, found);
		if (site->profiles[r->profile].switch_trays && !r->nvlink.driver)
			rk_site_finding_add(found, "manager", "warn", r->name, "write racks[].nvlink into the site file",
					    "no NVLink manager: its GPUs stay in the default partition");
		const char *at = r->nvlink.url ? r->nvlink.url : r->nvlink.ssh_text;
		if (at && !rk_map_add(managers, at, i, &first))
			rk_site_finding_add(found, "manager", "fail", r->name, "each rack has its own NVLink domain and manager",
					    "the NVLink manager \"%s\" is also that of rack %s", at, site->racks[first].name);
	}
}

/* ---- who holds what ---------------------------------------------------------------------------------------------------------- */

static bool has_partition(const struct rk_site *site, const struct rk_cluster *c, int rack)
{
	for (int i = c->first_nvl; i < c->first_nvl + c->n_nvl; i++)
		if (site->nvl_partitions[i].rack == rack)
			return true;
	return false;
}

static void check_cluster(const struct rk_site *site, const struct rk_cluster *c, struct rk_site_findings *found)
{
	bool ready = c->state == RK_CLUSTER_READY || c->state == RK_CLUSTER_DEGRADED;
	int last = RK_NONE;

	for (int v = c->first_vm; ready && v < c->first_vm + c->n_vms; v++) {
		int rack = site->vms[v].tray >= 0 ? site->trays[site->vms[v].tray].rack : RK_NONE;
		if (rack == RK_NONE || rack == last || !site->profiles[site->racks[rack].profile].switch_trays || has_partition(site, c, rack))
			continue;
		last = rack;
		rk_site_finding_add(found, "cluster", "fail", c->name, "racksh cluster repair", "it has VMs in rack %s, but no NVLink partition there",
				    site->racks[rack].name);
	}
	if (ready && c->n_vms && site->n_fabrics && c->ib < 0)
		rk_site_finding_add(found, "cluster", "fail", c->name, "racksh cluster repair", "its ports have no PKey of their own");
	if (c->state == RK_CLUSTER_FAILED || (c->op && !ready))
		rk_site_finding_add(found, "cluster", "warn", c->name, "racksh op list", "it is %s", rk_cluster_state_name(c->state));
}

static void check_quota(const struct rk_site *site, size_t tenant, struct rk_site_findings *found)
{
	const struct rk_tenant *t = &site->tenants[tenant];
	int vms = 0, pkeys = 0;

	for (size_t i = 0; i < site->n_clusters; i++) {
		bool theirs = site->clusters[i].tenant == (int)tenant;
		vms += theirs ? site->clusters[i].n_vms : 0;
		pkeys += theirs && site->clusters[i].ib >= 0;
	}
	if (t->quota_vms && vms > t->quota_vms)
		rk_site_finding_add(found, "quota", "fail", t->name, "shrink a cluster, or raise tenants[].quota.vms", "%d VMs, the quota is %d", vms, t->quota_vms);
	if (t->quota_pkeys && pkeys > t->quota_pkeys)
		rk_site_finding_add(found, "quota", "fail", t->name, "delete a cluster, or raise tenants[].quota.pkeys", "%d PKeys, the quota is %d", pkeys,
				    t->quota_pkeys);
}

static void check_reservation(const struct rk_site *site, const struct rk_reservation *v, struct rk_site_findings *found)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	int *racks;
	size_t n;

	if (v->racks && rk_select_racks(site, v->racks, NULL, found->arena, &racks, &n, &err))
		rk_site_finding_add(found, "reservation", "fail", rk_arena_printf(found->arena, "%lld", (long long)v->id), "racksh reserve cancel, and reserve again", "%s",
				    err.message);
}

void rk_site_check(const struct rk_site *site, struct rk_site_findings *found)
{
	check_file_rules(site, found);
	check_identities(site, found);
	check_gpu_serials(site, found);
	check_racks(site, found);
	for (size_t i = 0; i < site->n_clusters; i++)
		check_cluster(site, &site->clusters[i], found);
	for (size_t i = 0; i < site->n_tenants; i++)
		check_quota(site, i, found);
	for (size_t i = 0; i < site->n_reservations; i++)
		check_reservation(site, &site->reservations[i], found);
}
