#include <string.h>

#include "inventory/base/str.h"
#include "inventory/profile.h"
#include "inventory/store_reader.h"

/* From rows to a snapshot. Positions in the inventory tables are the indexes of the snapshot, so no names are looked up on the way. */

const char *rk_read_column(struct rk_row_reader *r, const struct rk_db_row *row, int column)
{
	const char *value = rk_db_text(row, column);

	if (!value)
		return NULL;
	if (!r->last[column] || strcmp(r->last[column], value) != 0)
		r->last[column] = rk_arena_strdup(r->arena, value);
	return r->last[column];
}

/* Texts joined by line feeds (no such text holds one). */
static size_t split(struct rk_row_reader *r, const char *joined, const char **ret, size_t max)
{
	size_t n = 0;

	for (const char *at = joined; at && *at && n < max; n++) {
		size_t len = strcspn(at, "\n");
		ret[n] = rk_arena_strndup(r->arena, at, len);
		at += len + (at[len] == '\n');
	}
	return n;
}

static const char **split_new(struct rk_row_reader *r, const char *joined, size_t *ret_n)
{
	size_t max = joined && *joined ? 1 : 0;

	for (const char *at = joined; at && *at; at++)
		max += *at == '\n';
	const char **list = max ? rk_arena_array(r->arena, max, sizeof(*list)) : NULL;
	*ret_n = split(r, joined, list, max);
	return list;
}

static void read_manager(struct rk_row_reader *r, const struct rk_db_row *row, int column, struct rk_manager *m)
{
	m->driver = rk_read_column(r, row, column);
	m->ssh = split_new(r, rk_db_text(row, column + 1), &m->n_ssh);
	m->ssh_text = rk_read_column(r, row, column + 2);
	m->url = rk_read_column(r, row, column + 3);
	m->credentials_file = rk_read_column(r, row, column + 4);
	m->ca_file = rk_read_column(r, row, column + 5);
}

static void read_ssh(struct rk_row_reader *r, const struct rk_db_row *row, int column, struct rk_ssh_conf *ssh)
{
	ssh->user = rk_read_column(r, row, column);
	ssh->port = (int)rk_db_int(row, column + 1);
	ssh->known_hosts = rk_read_column(r, row, column + 2);
	ssh->identity_file = rk_read_column(r, row, column + 3);
}

static int read_site_row(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct rk_row_reader *r = ctx;
	struct rk_site *s = r->site;

	(void)err;
	s->name = rk_read_column(r, row, 0);
	s->region = rk_read_column(r, row, 1);
	s->pool = rk_read_column(r, row, 2);
	s->network.bridge = rk_read_column(r, row, 3);
	s->network.macvtap = rk_read_column(r, row, 4);
	s->network.user = rk_db_int(row, 5) != 0;
	s->network.addresses = rk_read_column(r, row, 6);
	s->network.gateway = rk_read_column(r, row, 7);
	s->network.dns = split_new(r, rk_db_text(row, 8), &s->network.n_dns);
	s->hypervisor.libvirt = rk_read_column(r, row, 9);
	s->hypervisor.qemu = rk_read_column(r, row, 10);
	s->hypervisor.arch = rk_read_column(r, row, 11);
	s->hypervisor.page_kib = (int)rk_db_int(row, 12);
	s->versions = rk_read_column(r, row, 13);
	s->hooks = rk_read_column(r, row, 14);
	s->bmc = rk_read_column(r, row, 15);
	s->defaults.profile = rk_read_column(r, row, 16);
	s->defaults.libvirt = rk_read_column(r, row, 17);
	read_ssh(r, row, 18, &s->defaults.ssh);
	s->defaults.n_nvme = (int)split(r, rk_db_text(row, 22), s->defaults.nvme, RK_NVME_MAX);
	s->sizes = rk_read_column(r, row, 23);
	s->defaults.ssh.jump = rk_read_column(r, row, 24);
	s->health = rk_read_column(r, row, 25);
	s->meter = rk_read_column(r, row, 26);
	return 0;
}

static int read_profile(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct rk_row_reader *r = ctx;
	int rc = rk_profile_load(rk_db_text(row, 0), r->arena, &r->site->profiles[r->site->n_profiles], err);

	r->site->n_profiles++;
	return rc;
}

static int read_fabric(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct rk_row_reader *r = ctx;
	struct rk_fabric *f = &r->site->fabrics[r->site->n_fabrics++];

	(void)err;
	f->name = rk_read_column(r, row, 0);
	read_manager(r, row, 1, &f->manager);
	f->partitions_file = rk_read_column(r, row, 7);
	f->pid_file = rk_read_column(r, row, 8);
	f->pkey_first = (uint16_t)rk_db_int(row, 9);
	f->pkey_last = (uint16_t)rk_db_int(row, 10);
	f->rate_gbps = (int)rk_db_int(row, 11);
	f->oversubscription = rk_db_real(row, 12);
	return 0;
}

/* A position that another row is meant to have: damage must not become a wild index. */
int rk_read_position(const char *table, int64_t value, size_t n, int *ret, struct rk_err *err)
{
	if (value < 0 || (uint64_t)value >= n) {
		rk_err_set(err, RK_FAILED, "the store is damaged: a row of \"%s\" refers to something that is not there", table);
		rk_err_hint(err, "racksh store check");
		return RK_FAILED;
	}
	*ret = (int)value;
	return 0;
}

static int read_rack(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct rk_row_reader *r = ctx;
	struct rk_rack *rack = &r->site->racks[r->site->n_racks++];
	int rc = rk_read_position("racks", rk_db_int(row, 2), r->site->n_profiles, &rack->profile, err);

	rack->name = rk_read_column(r, row, 0);
	rack->location = rk_read_column(r, row, 1);
	rack->power_kw = rk_db_real(row, 3);
	rack->cluster_uuid = rk_read_column(r, row, 4);
	read_manager(r, row, 5, &rack->nvlink);
	rack->spares = (int)rk_db_int(row, 11);
	rack->cordon = rk_read_column(r, row, 12);
	rack->versions = rk_read_column(r, row, 13);
	rack->nvl_per_tray = rk_db_int(row, 14) != 0;
	return rc;
}

static int read_tray(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct rk_row_reader *r = ctx;
	struct rk_site *s = r->site;
	struct rk_tray *t = &s->trays[s->n_trays];
	int rc = rk_read_position("trays", rk_db_int(row, 1), s->n_racks, &t->rack, err);

	if (rc)
		return rc;
	struct rk_rack *rack = &s->racks[t->rack];
	if (rack->n_trays++ == 0)
		rack->first_tray = (int)s->n_trays;
	t->name = rk_read_column(r, row, 0);
	t->number = (int)rk_db_int(row, 2);
	t->slot = (int)rk_db_int(row, 3);
	t->libvirt_uri = rk_read_column(r, row, 4);
	t->serial = rk_read_column(r, row, 5);
	read_ssh(r, row, 6, &t->ssh);
	t->bmc = rk_read_column(r, row, 12);
	t->ssh.jump = rk_read_column(r, row, 13);
	t->ssh_host = rk_db_text(row, 10) && strcmp(rk_db_text(row, 10), t->name) == 0 ? t->name : rk_read_column(r, row, 10);
	const char *before = r->last[11], *nvme = rk_read_column(r, row, 11);
	if (nvme && nvme == before && s->n_trays) {
		memcpy(t->nvme, t[-1].nvme, sizeof(t->nvme));
		t->n_nvme = t[-1].n_nvme;
	}
	if (!t->n_nvme)
		t->n_nvme = (int)split(r, nvme, t->nvme, RK_NVME_MAX);
	s->n_trays++;
	return 0;
}

static int read_gpu(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct rk_row_reader *r = ctx;
	struct rk_site *s = r->site;
	struct rk_gpu *g = &s->gpus[s->n_gpus];
	int rc = rk_read_position("gpus", rk_db_int(row, 0), s->n_trays, &g->tray, err);

	if (rc)
		return rc;
	g->index = (int)rk_db_int(row, 1);
	g->module_id = (int)rk_db_int(row, 2);
	/* Most GPUs sit where the profile says; its text is shared. */
	const struct rk_profile *p = &s->profiles[s->racks[s->trays[g->tray].rack].profile];
	const char *pci = rk_db_text(row, 3), *usual = g->index >= 0 && g->index < RK_GPUS_MAX ? p->gpu_pci[g->index] : NULL;
	g->pci = pci && usual && strcmp(pci, usual) == 0 ? usual : rk_read_column(r, row, 3);
	g->serial = rk_read_column(r, row, 4);
	g->uuid = rk_read_column(r, row, 5);
	g->fabric_guid = (uint64_t)rk_db_int(row, 6);
	if (s->trays[g->tray].n_gpus++ == 0)
		s->trays[g->tray].first_gpu = (int)s->n_gpus;
	s->n_gpus++;
	return 0;
}

static int read_hca(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct rk_row_reader *r = ctx;
	struct rk_site *s = r->site;
	struct rk_hca *h = &s->hcas[s->n_hcas];
	int rc = rk_read_position("hcas", rk_db_int(row, 0), s->n_trays, &h->tray, err);

	if (rc)
		return rc;
	h->rail = (int)rk_db_int(row, 1);
	h->fabric = (int)rk_db_int(row, 2);
	if (h->fabric >= (int)s->n_fabrics || h->fabric < RK_NONE)
		return rk_read_position("hcas", h->fabric, s->n_fabrics, &h->fabric, err);
	const struct rk_profile *p = &s->profiles[s->racks[s->trays[h->tray].rack].profile];
	const char *pci = rk_db_text(row, 3), *usual = h->rail >= 0 && h->rail < RK_RAILS_MAX ? p->hca_pci[h->rail] : NULL;
	h->pci = pci && usual && strcmp(pci, usual) == 0 ? usual : rk_read_column(r, row, 3);
	h->port_guid = (uint64_t)rk_db_int(row, 4);
	h->leaf = rk_read_column(r, row, 5);
	h->leaf_port = h->leaf ? (int)rk_db_int(row, 6) : 0;
	if (s->trays[h->tray].n_hcas++ == 0)
		s->trays[h->tray].first_hca = (int)s->n_hcas;
	s->n_hcas++;
	return 0;
}

static int read_part(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct rk_row_reader *r = ctx;
	struct rk_site *s = r->site;
	struct rk_component *p = &s->parts[s->n_parts++];
	int rc = rk_read_position("parts", rk_db_int(row, 0), s->n_racks, &p->rack, err);

	p->tray = RK_NONE;
	if (!rc && rk_db_int(row, 1) != RK_NONE)
		rc = rk_read_position("parts", rk_db_int(row, 1), s->n_trays, &p->tray, err);
	p->kind = rk_read_column(r, row, 2);
	p->index = (int)rk_db_int(row, 3);
	p->serial = rk_read_column(r, row, 4);
	p->pci = rk_read_column(r, row, 5);
	p->firmware = rk_read_column(r, row, 6);
	return rc;
}

static int read_image(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct rk_row_reader *r = ctx;
	struct rk_image *image = &r->site->images[r->site->n_images++];
	const char **fields[] = { &image->name,	    &image->volume, &image->arch,   &image->format,
				  &image->checksum, &image->kernel, &image->initrd, &image->cmdline };

	(void)err;
	for (size_t i = 0; i < RK_ARRAY_SIZE(fields); i++)
		*fields[i] = rk_read_column(r, row, (int)i);
	return 0;
}

static int read_tenant(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct rk_row_reader *r = ctx;
	struct rk_tenant *tenant = &r->site->tenants[r->site->n_tenants];

	(void)err;
	tenant->name = rk_read_column(r, row, 0);
	tenant->quota_vms = (int)rk_db_int(row, 1);
	tenant->quota_pkeys = (int)rk_db_int(row, 2);
	rk_map_add(r->tenants, tenant->name, r->site->n_tenants++, NULL);
	return 0;
}

static int read_coolant(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct rk_row_reader *r = ctx;
	char *both RK_CLEANUP_FREE = rk_xstrdup(rk_db_text(row, 1)), *flow = both;
	const char *supply = strsep(&flow, " ");
	int at, rc = rk_read_position("marks", rk_db_int(row, 0), r->site->n_racks, &at, err);

	if (!rc && flow) {
		rk_parse_double(supply, &r->site->racks[at].supply_c);
		rk_parse_double(flow, &r->site->racks[at].flow_lpm);
	}
	return rc;
}

static int read_tray_mark(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct rk_row_reader *r = ctx;
	const char *mark = rk_db_text(row, 1);
	int at, rc = rk_read_position("marks", rk_db_int(row, 0), r->site->n_trays, &at, err);

	if (rc)
		return rc;
	struct rk_tray *t = &r->site->trays[at];
	const struct {
		const char *mark, **field;
	} fields[] = { { "cordon", &t->cordon }, { "faulty", &t->faulty }, { "offline", &t->offline }, { "leak", &t->leak }, { "versions", &t->versions } };
	for (size_t i = 0; i < RK_ARRAY_SIZE(fields); i++)
		if (rk_streq(fields[i].mark, mark))
			*fields[i].field = rk_read_column(r, row, 2);
	return 0;
}

#define MANAGER "driver, ssh, ssh_text, url, credentials_file, ca_file"
#define SSH_CONF "ssh_user, ssh_port, known_hosts, identity_file"

static const struct {
	const char *sql;
	rk_db_row_fn *fn;
} queries[] = {
	{ "SELECT name, region, pool, bridge, macvtap, user_net, addresses, gateway, dns, hv_libvirt, hv_qemu, hv_arch, hv_page_kib, versions,"
	  " hooks, bmc, def_profile, def_libvirt, " SSH_CONF ", def_nvme, sizes, ssh_jump, health, meter FROM site", read_site_row },
	{ "SELECT name FROM profiles ORDER BY pos", read_profile },
	{ "SELECT name, " MANAGER ", partitions_file, pid_file, pkey_first, pkey_last, rate_gbps, oversubscription FROM fabrics ORDER BY pos",
	  read_fabric },
	{ "SELECT r.name, location, profile, power_kw, cluster_uuid, " MANAGER ", spares, m.reason, versions, nvl_per_tray FROM racks r"
	  " LEFT JOIN marks m ON m.kind = 'rack' AND m.name = r.name AND m.mark = 'cordon' ORDER BY pos", read_rack },
	{ "SELECT r.pos, m.reason FROM marks m JOIN racks r ON r.name = m.name WHERE m.kind = 'rack' AND m.mark = 'coolant'", read_coolant },
	{ "SELECT name, rack, number, slot, libvirt_uri, serial, " SSH_CONF ", ssh_host, nvme, bmc, ssh_jump FROM trays ORDER BY pos", read_tray },
	{ "SELECT t.pos, m.mark, m.reason FROM marks m JOIN trays t ON t.name = m.name WHERE m.kind = 'tray'", read_tray_mark },
	{ "SELECT tray, idx, module_id, pci, serial, uuid, guid FROM gpus ORDER BY pos", read_gpu },
	{ "SELECT tray, rail, fabric, pci, h.guid, leaf, leaf_port FROM hcas h LEFT JOIN leaves l ON l.guid = h.guid ORDER BY pos", read_hca },
	{ "SELECT rack, tray, kind, idx, serial, pci, firmware FROM parts ORDER BY pos", read_part },
	{ "SELECT name, volume, arch, format, checksum, kernel, initrd, cmdline FROM images ORDER BY pos", read_image },
	{ "SELECT name, quota_vms, quota_pkeys FROM tenants ORDER BY pos", read_tenant },
	{ "SELECT id, name, tenant, size, image, state, spec, op, segment, spares_per_rack, reasons, validation, next_number FROM clusters",
	  rk_read_cluster },
	{ "SELECT 1", rk_read_sort_clusters },
	{ "SELECT v.cluster, v.name, t.pos, v.number, state, uuid, address, mac, v.ssh_port, generation, host_key_public, host_name FROM vms v"
	  " JOIN trays t ON t.name = v.tray", rk_read_vm },
	{ "SELECT p.cluster, r.pos, p.id, p.name FROM nvl_partitions p JOIN racks r ON r.name = p.rack", rk_read_nvl },
	{ "SELECT p.cluster, f.pos, p.pkey, p.name, p.full_member FROM ib_partitions p JOIN fabrics f ON f.name = p.fabric", rk_read_ib },
	{ "SELECT s.name, f.pos, s.pkey, s.servers, s.tenants FROM ib_services s JOIN fabrics f ON f.name = s.fabric", rk_read_service },
	{ "SELECT r.pos, -1, m.mark, m.reason FROM marks m JOIN racks r ON r.name = m.name WHERE m.kind = 'nvlink-remains' UNION ALL"
	  " SELECT -1, f.pos, m.mark, m.reason FROM marks m JOIN fabrics f ON f.name = m.name WHERE m.kind = 'ib-remains' ORDER BY 1, 2, 3", rk_read_remains },
	{ "SELECT id, tenant, racks, trays, from_ms, to_ms FROM reservations ORDER BY id", rk_read_reservation },
	{ "SELECT id, trays, checks, reason, from_ms, to_ms, actor FROM silences ORDER BY id", rk_read_silence },
};

/* Room for every array, from one count of the tables. */
static int make_room(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct rk_row_reader *r = ctx;
	struct rk_site *s = r->site;
	const struct {
		void *array;
		size_t size;
	} rooms[] = {
		{ &s->profiles, sizeof(*s->profiles) }, { &s->fabrics, sizeof(*s->fabrics) }, { &s->racks, sizeof(*s->racks) },
		{ &s->trays, sizeof(*s->trays) },	{ &s->gpus, sizeof(*s->gpus) },	      { &s->hcas, sizeof(*s->hcas) },
		{ &s->images, sizeof(*s->images) },	{ &s->tenants, sizeof(*s->tenants) }, { &s->clusters, sizeof(*s->clusters) },
		{ &s->vms, sizeof(*s->vms) },		{ &s->nvl_partitions, sizeof(*s->nvl_partitions) },
		{ &s->ib_partitions, sizeof(*s->ib_partitions) }, { &s->reservations, sizeof(*s->reservations) },
		{ &s->parts, sizeof(*s->parts) }, { &s->silences, sizeof(*s->silences) }, { &s->ib_services, sizeof(*s->ib_services) }, { &s->remains, sizeof(*s->remains) },
	};

	(void)err;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rooms); i++) {
		void *room = rk_arena_array(r->arena, (size_t)rk_db_int(row, (int)i), rooms[i].size);
		memcpy(rooms[i].array, &room, sizeof(room));
	}
	s->revision = rk_db_int(row, (int)RK_ARRAY_SIZE(rooms));
	s->read_unix_ms = rk_store_now_ms();
	return 0;
}

#define COUNT(table) "(SELECT COUNT(*) FROM " table ")"
static const char count_sql[] = "SELECT " COUNT("profiles") ", " COUNT("fabrics") ", " COUNT("racks") ", " COUNT("trays") ", " COUNT("gpus") ", "
	COUNT("hcas") ", " COUNT("images") ", " COUNT("tenants") ", " COUNT("clusters") ", " COUNT("vms") ", " COUNT("nvl_partitions") ", "
	COUNT("ib_partitions") ", " COUNT("reservations") ", " COUNT("parts") ", " COUNT("silences") ", " COUNT("ib_services") ", " COUNT("marks WHERE kind LIKE '%-remains'") ", (SELECT value FROM meta WHERE name = 'revision')";

int rk_store_read_site(struct rk_store *store, struct rk_site **ret, struct rk_err *err)
{
	RK_CLEANUP_SITE struct rk_site *site = rk_site_new();
	struct rk_map *tenants RK_CLEANUP_MAP = rk_map_new(), *clusters RK_CLEANUP_MAP = rk_map_new();
	struct rk_row_reader r = { site, site->arena, tenants, clusters, { NULL } };
	int rc = rk_db_each(store->db, err, make_room, &r, count_sql);

	for (size_t i = 0; i < RK_ARRAY_SIZE(queries) && !rc; i++) {
		memset(r.last, 0, sizeof(r.last));
		rc = rk_db_each(store->db, err, queries[i].fn, &r, queries[i].sql);
	}
	if (rc)
		return rc;
	if (!site->pool)
		site->pool = "default";
	rk_read_link_clusters(site);
	rk_site_seal(site);
	*ret = rk_steal(&site);
	return 0;
}
