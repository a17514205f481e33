#include <stdio.h>
#include <string.h>

#include "inventory/base/map.h"
#include "inventory/base/str.h"
#include "inventory/store_impl.h"
#include "inventory/topology.h"

/* Replacing the inventory. What is held (trays, GPUs, ports, racks, fabrics, tenants, images of clusters) must still be in the new one. */

enum { DETAILS_MAX = 50 };

struct check {
	const struct rk_site *site;
	struct rk_err *said;
	size_t lost;
};

static void lose(struct check *c, char *what)
{
	if (c->lost++ < DETAILS_MAX)
		rk_err_detail(c->said, "%s", what);
	free(what);
}

static int check_tray(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct check *c = ctx;

	(void)err;
	if (rk_find_tray(c->site, rk_db_text(row, 0)) < 0)
		lose(c, rk_xasprintf("tray %s has VM %s of cluster %s (tenant %s)", rk_db_text(row, 0), rk_db_text(row, 1), rk_db_text(row, 2),
				     rk_db_text(row, 3)));
	return 0;
}

static int check_gpu(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct check *c = ctx;
	int at = rk_find_gpu_guid(c->site, (uint64_t)rk_db_int(row, 0));

	(void)err;
	if (at < 0 || !rk_streq(c->site->trays[c->site->gpus[at].tray].name, rk_db_text(row, 2)))
		lose(c, rk_xasprintf("GPU 0x%016llx of tray %s is held by VM %s of cluster %s", (unsigned long long)rk_db_int(row, 0),
				     rk_db_text(row, 2), rk_db_text(row, 1), rk_db_text(row, 3)));
	return 0;
}

static int check_port(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct check *c = ctx;
	int at = rk_find_hca_guid(c->site, (uint64_t)rk_db_int(row, 0));

	(void)err;
	if (at < 0 || !rk_streq(c->site->trays[c->site->hcas[at].tray].name, rk_db_text(row, 2)))
		lose(c, rk_xasprintf("port 0x%016llx of tray %s is held by VM %s of cluster %s", (unsigned long long)rk_db_int(row, 0),
				     rk_db_text(row, 2), rk_db_text(row, 1), rk_db_text(row, 3)));
	return 0;
}

static int check_rack(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct check *c = ctx;

	(void)err;
	if (rk_find_rack(c->site, rk_db_text(row, 0)) < 0)
		lose(c, rk_xasprintf("rack %s has an NVLink partition of cluster %s", rk_db_text(row, 0), rk_db_text(row, 1)));
	return 0;
}

static int check_fabric(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct check *c = ctx;

	(void)err;
	if (rk_find_fabric(c->site, rk_db_text(row, 0)) < 0)
		lose(c, rk_xasprintf("fabric %s has a partition of %s", rk_db_text(row, 0), rk_db_text(row, 1)));
	return 0;
}

static int check_tenant(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct check *c = ctx;

	(void)err;
	if (rk_find_tenant(c->site, rk_db_text(row, 0)) < 0)
		lose(c, rk_xasprintf("tenant %s has %s", rk_db_text(row, 0), rk_db_text(row, 1)));
	return 0;
}

static int check_image(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct check *c = ctx;

	(void)err;
	if (rk_find_image(c->site, rk_db_text(row, 0)) < 0)
		lose(c, rk_xasprintf("image %s is used by cluster %s", rk_db_text(row, 0), rk_db_text(row, 1)));
	return 0;
}

/* Who comes later under that name would have the service. */
static int check_served(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct check *c = ctx;

	(void)err;
	for (const char *word = rk_db_text(row, 0); *word; word += strspn(word, ",")) {
		char *name RK_CLEANUP_FREE = rk_xstrndup(word, strcspn(word, ","));
		word += strlen(name);
		if (rk_find_tenant(c->site, name) < 0)
			lose(c, rk_xasprintf("tenant \"%s\" has service %s", name, rk_db_text(row, 1)));
	}
	return 0;
}

static int check_servers(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct check *c = ctx;

	(void)err;
	for (const char *word = rk_db_text(row, 0); *word; word += strspn(word, " ")) {
		char *guid RK_CLEANUP_FREE = rk_xstrndup(word, strcspn(word, " "));
		uint64_t value = 0;
		int at = rk_parse_u64(guid, &value) ? rk_find_hca_guid(c->site, value) : RK_NONE;
		word += strlen(guid);
		if (at >= 0)
			lose(c, rk_xasprintf("port %s of tray %s is a server of service %s", guid, c->site->trays[c->site->hcas[at].tray].name, rk_db_text(row, 1)));
	}
	return 0;
}

static const struct {
	const char *sql;
	rk_db_row_fn *fn;
} held[] = {
	{ "SELECT v.tray, v.name, c.name, c.tenant FROM vms v JOIN clusters c ON c.id = v.cluster", check_tray },
	{ "SELECT a.guid, v.name, v.tray, c.name FROM gpu_alloc a JOIN vms v ON v.id = a.vm JOIN clusters c ON c.id = v.cluster", check_gpu },
	{ "SELECT a.guid, v.name, v.tray, c.name FROM port_alloc a JOIN vms v ON v.id = a.vm JOIN clusters c ON c.id = v.cluster", check_port },
	{ "SELECT p.rack, c.name FROM nvl_partitions p JOIN clusters c ON c.id = p.cluster", check_rack },
	{ "SELECT p.fabric, 'cluster ' || c.name FROM ib_partitions p JOIN clusters c ON c.id = p.cluster UNION ALL"
	  " SELECT fabric, 'service ' || name FROM ib_services", check_fabric },
	{ "SELECT tenant, 'cluster ' || name FROM clusters UNION ALL SELECT tenant, 'reservation ' || id FROM reservations", check_tenant },
	{ "SELECT image, name FROM clusters WHERE image IS NOT NULL AND image IN (SELECT name FROM images)", check_image },
	{ "SELECT tenants, name FROM ib_services WHERE tenants IS NOT NULL", check_served },
	{ "SELECT servers, name FROM ib_services", check_servers },
};

static int check_held(struct rk_store *store, const struct rk_site *site, struct rk_err *err)
{
	RK_CLEANUP_ERR struct rk_err said = RK_ERR_INIT;
	struct check c = { site, &said, 0 };
	int rc = 0;

	rk_err_set(&said, RK_CONFLICT, "the new inventory leaves out what is allocated");
	for (size_t i = 0; i < RK_ARRAY_SIZE(held) && !rc; i++)
		rc = rk_db_each(store->db, err, held[i].fn, &c, held[i].sql);
	if (rc || !c.lost)
		return rc;
	if (c.lost > DETAILS_MAX)
		rk_err_detail(&said, "and %zu more", c.lost - DETAILS_MAX);
	char *first = rk_xstrdup(said.details[0]);
	rk_err_while(&said, "%s", first);
	free(first);
	rk_err_hint(&said, "delete or repair the cluster first, or leave these in the site file");
	if (err)
		rk_err_move(err, &said);
	return RK_CONFLICT;
}

/* Texts joined by line feeds, in the arena; NULL for none. */
static const char *join(struct rk_arena *arena, const char *const *texts, size_t n)
{
	RK_CLEANUP_STR struct rk_str out = RK_STR_INIT;

	for (size_t i = 0; i < n; i++)
		rk_str_addf(&out, "%s%s", i ? "\n" : "", texts[i] ? texts[i] : "");
	return n ? rk_arena_strdup(arena, rk_str_text(&out)) : NULL;
}

#define MANAGER "driver, ssh, ssh_text, url, credentials_file, ca_file"
#define MANAGER_VALUES(arena, m)                                                                                              \
	RK_DB_S((m)->driver), RK_DB_S(join(arena, (m)->ssh, (m)->n_ssh)), RK_DB_S((m)->ssh_text), RK_DB_S((m)->url), \
		RK_DB_S((m)->credentials_file), RK_DB_S((m)->ca_file)
#define SSH_CONF "ssh_user, ssh_port, known_hosts, identity_file"
#define SSH_VALUES(s) RK_DB_S((s)->user), RK_DB_I((s)->port), RK_DB_S((s)->known_hosts), RK_DB_S((s)->identity_file)

typedef void write_rows_fn(struct rk_db_bulk *bulk, const struct rk_site *s, struct rk_arena *arena, struct rk_err *err);
#define ROW(...)                                                                              \
	rk_db_bulk_row(bulk, (const struct rk_db_value[]){ __VA_ARGS__ },                     \
		       sizeof((const struct rk_db_value[]){ __VA_ARGS__ }) / sizeof(struct rk_db_value), err)

static void write_site_row(struct rk_db_bulk *bulk, const struct rk_site *s, struct rk_arena *arena, struct rk_err *err)
{
	const struct rk_network *n = &s->network;
	const struct rk_hypervisor *h = &s->hypervisor;

	ROW(RK_DB_I(1), RK_DB_S(s->name), RK_DB_S(s->region), RK_DB_S(s->pool), RK_DB_S(n->bridge), RK_DB_S(n->macvtap), RK_DB_I(n->user),
	    RK_DB_S(n->addresses), RK_DB_S(n->gateway), RK_DB_S(join(arena, n->dns, n->n_dns)), RK_DB_S(h->libvirt), RK_DB_S(h->qemu), RK_DB_S(h->arch),
	    RK_DB_I(h->page_kib), RK_DB_S(s->versions), RK_DB_S(s->hooks), RK_DB_S(s->bmc), RK_DB_S(s->defaults.profile),
	    RK_DB_S(s->defaults.libvirt), SSH_VALUES(&s->defaults.ssh), RK_DB_S(join(arena, s->defaults.nvme, (size_t)s->defaults.n_nvme)),
	    RK_DB_S(s->sizes), RK_DB_S(s->defaults.ssh.jump), RK_DB_S(s->health), RK_DB_S(s->meter));
}

static void write_profiles(struct rk_db_bulk *bulk, const struct rk_site *s, struct rk_arena *arena, struct rk_err *err)
{
	(void)arena;
	for (size_t i = 0; i < s->n_profiles; i++)
		ROW(RK_DB_I(i), RK_DB_S(s->profiles[i].name));
}

static void write_fabrics(struct rk_db_bulk *bulk, const struct rk_site *s, struct rk_arena *arena, struct rk_err *err)
{
	for (size_t i = 0; i < s->n_fabrics; i++) {
		const struct rk_fabric *f = &s->fabrics[i];
		ROW(RK_DB_I(i), RK_DB_S(f->name), MANAGER_VALUES(arena, &f->manager), RK_DB_S(f->partitions_file), RK_DB_S(f->pid_file),
		    RK_DB_I(f->pkey_first), RK_DB_I(f->pkey_last), RK_DB_I(f->rate_gbps), RK_DB_D(f->oversubscription));
	}
}

static void write_racks(struct rk_db_bulk *bulk, const struct rk_site *s, struct rk_arena *arena, struct rk_err *err)
{
	for (size_t i = 0; i < s->n_racks; i++) {
		const struct rk_rack *r = &s->racks[i];
		ROW(RK_DB_I(i), RK_DB_S(r->name), RK_DB_S(r->location), RK_DB_I(r->profile), RK_DB_D(r->power_kw), RK_DB_S(r->cluster_uuid),
		    MANAGER_VALUES(arena, &r->nvlink), RK_DB_I(r->spares), RK_DB_S(r->versions), RK_DB_I(r->nvl_per_tray));
	}
}

static void write_trays(struct rk_db_bulk *bulk, const struct rk_site *s, struct rk_arena *arena, struct rk_err *err)
{
	for (size_t i = 0; i < s->n_trays; i++) {
		const struct rk_tray *t = &s->trays[i];
		ROW(RK_DB_I(i), RK_DB_S(t->name), RK_DB_I(t->rack), RK_DB_I(t->number), RK_DB_I(t->slot), RK_DB_S(t->libvirt_uri), RK_DB_S(t->serial),
		    SSH_VALUES(&t->ssh), RK_DB_S(t->ssh_host), RK_DB_S(join(arena, (const char *const *)t->nvme, (size_t)t->n_nvme)),
		    RK_DB_S(t->bmc), RK_DB_S(t->ssh.jump));
	}
}

static void write_gpus(struct rk_db_bulk *bulk, const struct rk_site *s, struct rk_arena *arena, struct rk_err *err)
{
	(void)arena;
	for (size_t i = 0; i < s->n_gpus; i++) {
		const struct rk_gpu *g = &s->gpus[i];
		ROW(RK_DB_I(i), RK_DB_I(g->tray), RK_DB_I(g->index), RK_DB_I(g->module_id), RK_DB_S(g->pci), RK_DB_S(g->serial), RK_DB_S(g->uuid),
		    RK_DB_GUID(g->fabric_guid));
	}
}

static void write_hcas(struct rk_db_bulk *bulk, const struct rk_site *s, struct rk_arena *arena, struct rk_err *err)
{
	(void)arena;
	for (size_t i = 0; i < s->n_hcas; i++) {
		const struct rk_hca *h = &s->hcas[i];
		ROW(RK_DB_I(i), RK_DB_I(h->tray), RK_DB_I(h->rail), RK_DB_I(h->fabric), RK_DB_S(h->pci), RK_DB_GUID(h->port_guid));
	}
}

static void write_parts(struct rk_db_bulk *bulk, const struct rk_site *s, struct rk_arena *arena, struct rk_err *err)
{
	(void)arena;
	for (size_t i = 0; i < s->n_parts; i++) {
		const struct rk_component *p = &s->parts[i];
		ROW(RK_DB_I(i), RK_DB_I(p->rack), RK_DB_I(p->tray), RK_DB_S(p->kind), RK_DB_I(p->index), RK_DB_S(p->serial), RK_DB_S(p->pci),
		    RK_DB_S(p->firmware));
	}
}

static void write_images(struct rk_db_bulk *bulk, const struct rk_site *s, struct rk_arena *arena, struct rk_err *err)
{
	(void)arena;
	for (size_t i = 0; i < s->n_images; i++)
		ROW(RK_DB_I(i), RK_IMAGE_VALUES(&s->images[i]));
}

static void write_tenants(struct rk_db_bulk *bulk, const struct rk_site *s, struct rk_arena *arena, struct rk_err *err)
{
	(void)arena;
	for (size_t i = 0; i < s->n_tenants; i++)
		ROW(RK_DB_I(i), RK_DB_S(s->tenants[i].name), RK_DB_I(s->tenants[i].quota_vms), RK_DB_I(s->tenants[i].quota_pkeys));
}

static const struct {
	const char *table, *delete, *columns;
	size_t width;
	write_rows_fn *write;
} parts[] = {
	{ "site", "DELETE FROM site", "id, name, region, pool, bridge, macvtap, user_net, addresses, gateway, dns, hv_libvirt, hv_qemu, hv_arch,"
	  " hv_page_kib, versions, hooks, bmc, def_profile, def_libvirt, " SSH_CONF ", def_nvme, sizes, ssh_jump, health, meter", 28, write_site_row },
	{ "profiles", "DELETE FROM profiles", "pos, name", 2, write_profiles },
	{ "fabrics", "DELETE FROM fabrics", "pos, name, " MANAGER ", partitions_file, pid_file, pkey_first, pkey_last, rate_gbps, oversubscription", 14,
	  write_fabrics },
	{ "racks", "DELETE FROM racks", "pos, name, location, profile, power_kw, cluster_uuid, " MANAGER ", spares, versions, nvl_per_tray", 15, write_racks },
	{ "trays", "DELETE FROM trays", "pos, name, rack, number, slot, libvirt_uri, serial, " SSH_CONF ", ssh_host, nvme, bmc, ssh_jump", 15, write_trays },
	{ "gpus", "DELETE FROM gpus", "pos, tray, idx, module_id, pci, serial, uuid, guid", 8, write_gpus },
	{ "hcas", "DELETE FROM hcas", "pos, tray, rail, fabric, pci, guid", 6, write_hcas },
	{ "parts", "DELETE FROM parts", "pos, rack, tray, kind, idx, serial, pci, firmware", 8, write_parts },
	{ "images", "DELETE FROM images", RK_IMAGE_COLUMNS, 9, write_images },
	{ "tenants", "DELETE FROM tenants", "pos, name, quota_vms, quota_pkeys", 4, write_tenants },
};

static int write_site(struct rk_store *store, const struct rk_site *site, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	int rc = check_held(store, site, err);

	for (size_t i = 0; i < RK_ARRAY_SIZE(parts) && !rc; i++) {
		struct rk_db_bulk bulk;
		rc = rk_db_query(store->db, parts[i].delete, NULL, 0, NULL, NULL, err);
		if (rc)
			break;
		rk_db_bulk_begin(&bulk, store->db, parts[i].table, parts[i].columns, parts[i].width);
		parts[i].write(&bulk, site, arena, err);
		rc = rk_db_bulk_end(&bulk, err);
	}
	return rc ? rc : rk_store_place_leaves(store, err);
}

int rk_store_put_site(struct rk_store *store, const struct rk_site *site, struct rk_err *err)
{
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc) {
		rk_store_what(store, "site import of \"%s\"", site->name ? site->name : "");
		rc = write_site(store, site, err);
	}
	return rk_store_part(store, own, rc, err);
}
