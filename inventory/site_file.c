#include "inventory/site_file.h"

#include <stdlib.h>
#include <string.h>

#include "inventory/base/file.h"
#include "inventory/site_reader.h"
#include "inventory/site_sizes.h"
#include "inventory/site_values.h"

static void read_defaults(struct rk_reader *r, const struct rk_jnode *node)
{
	struct rk_site_defaults *d = &r->site->defaults;

	d->profile = "gb300-nvl72";
	d->libvirt = "qemu+ssh://root@{tray}/system?no_tty=1";
	if (!node)
		return;
	if (!rk_site_fields(&r->diags, node, RK_SITE_DEFAULTS))
		return;
	if (rk_jstr(rk_jget(node, "profile")))
		d->profile = rk_read_text(r, rk_jget(node, "profile"));
	if (rk_jstr(rk_jget(node, "libvirt")))
		d->libvirt = rk_read_text(r, rk_jget(node, "libvirt"));
	rk_read_ssh(r, rk_jget(node, "ssh"), &d->ssh);
	r->default_host = rk_jget(rk_jget(node, "ssh"), "host");
	d->n_nvme = rk_read_nvme(r, rk_jget(node, "nvme"), d->nvme);
	r->site->bmc = rk_read_object(r, rk_jget(node, "bmc"), RK_SITE_BMC);
	const struct rk_jnode *h = rk_jget(node, "hypervisor");
	if (!h || !rk_site_fields(&r->diags, h, RK_SITE_HYPERVISOR))
		return;
	r->site->hypervisor = (struct rk_hypervisor){
		.libvirt = rk_read_text(r, rk_jget(h, "libvirt")),
		.qemu = rk_read_text(r, rk_jget(h, "qemu")),
		.arch = rk_read_text(r, rk_jget(h, "arch")),
		.page_kib = (int)rk_read_whole(r, rk_jget(h, "pageKiB"), 1, 1 << 20, 4),
	};
}

static void read_pool(struct rk_reader *r, const struct rk_jnode *node, struct rk_fabric *f)
{
	uint64_t first, last;

	f->pkey_first = 0x0100;
	f->pkey_last = 0x08ff;
	if (!rk_jstr(node))
		return;
	char *text = rk_arena_strdup(r->arena, node->text), *dash = strchr(text, '-');
	if (dash)
		*dash = '\0';
	if (!dash || !rk_parse_u64(text, &first) || !rk_parse_u64(dash + 1, &last) || first < 1 || last > 0x7ffe || first > last) {
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "\"%s\" is no PKey pool", node->text);
		rk_diag_hint(&r->diags, "write FIRST-LAST within 0x0001-0x7ffe, e.g. 0x0100-0x08ff");
		return;
	}
	f->pkey_first = (uint16_t)first;
	f->pkey_last = (uint16_t)last;
}

static void read_fabric(struct rk_reader *r, const struct rk_jnode *node, struct rk_fabric *f)
{
	static const struct rk_place_values none = { NULL, NULL, 0 };

	if (!rk_site_fields(&r->diags, node, RK_SITE_FABRIC))
		return;
	f->name = rk_read_name(r, rk_jget(node, "name"), "an InfiniBand fabric");
	if (f->name)
		rk_read_unique(r, &r->fabrics, f->name, rk_jget(node, "name"));
	rk_read_manager(r, node, &none, &f->manager);
	f->partitions_file = rk_read_text(r, rk_jget(node, "partitionsFile"));
	f->pid_file = rk_read_text(r, rk_jget(node, "pidFile"));
	read_pool(r, rk_jget(node, "pkeyPool"), f);
	f->rate_gbps = (int)rk_read_whole(r, rk_jget(node, "rateGbps"), 1, 100000, 0);
	f->oversubscription = rk_read_real(r, rk_jget(node, "oversubscription"), 0.01, 100, 1.0);
}

static void read_image(struct rk_reader *r, const struct rk_jnode *node, struct rk_image *image)
{
	if (!rk_site_fields(&r->diags, node, RK_SITE_IMAGE))
		return;
	*image = (struct rk_image){
		.name = rk_read_text(r, rk_jget(node, "name")),
		.volume = rk_read_text(r, rk_jget(node, "volume")),
		.arch = rk_read_text(r, rk_jget(node, "arch")),
		.format = rk_read_text(r, rk_jget(node, "format")),
		.checksum = rk_read_text(r, rk_jget(node, "checksum")),
		.kernel = rk_read_text(r, rk_jget(node, "kernel")),
		.initrd = rk_read_text(r, rk_jget(node, "initrd")),
		.cmdline = rk_read_text(r, rk_jget(node, "cmdline")),
	};
	if (image->name && !rk_image_name_valid(image->name))
		rk_diag_at(&r->diags, rk_jget(node, "name"), RK_AT_VALUE, "\"%s\" is no valid name of an image", image->name);
	if (image->name)
		rk_read_unique(r, &r->images, image->name, rk_jget(node, "name"));
	if (image->volume && !strchr(image->volume, '/')) {
		rk_diag_at(&r->diags, rk_jget(node, "volume"), RK_AT_VALUE, "\"%s\" names no pool", image->volume);
		rk_diag_hint(&r->diags, "write POOL/VOLUME, e.g. default/ubuntu.qcow2");
	}
	if (!image->volume && !image->kernel)
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "an image needs \"volume\" or \"kernel\"");
}

static void read_tenant(struct rk_reader *r, const struct rk_jnode *node, struct rk_tenant *tenant)
{
	if (!rk_site_fields(&r->diags, node, RK_SITE_TENANT))
		return;
	tenant->name = rk_read_name(r, rk_jget(node, "name"), "a tenant");
	if (tenant->name)
		rk_read_unique(r, &r->tenants, tenant->name, rk_jget(node, "name"));
	const struct rk_jnode *quota = rk_jget(node, "quota");
	if (!quota || !rk_site_fields(&r->diags, quota, RK_SITE_QUOTA))
		return;
	tenant->quota_vms = (int)rk_read_whole(r, rk_jget(quota, "vms"), 0, 1000000, 0);
	tenant->quota_pkeys = (int)rk_read_whole(r, rk_jget(quota, "pkeys"), 0, 0x7ffe, 0);
}

static const char *ip_of(struct rk_reader *r, const struct rk_jnode *node)
{
	const char *ip = rk_read_text(r, node);

	if (ip && !rk_ip_valid(ip))
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "\"%s\" is no IP address", ip);
	return ip;
}

static void read_network(struct rk_reader *r, const struct rk_jnode *node)
{
	struct rk_network *n = &r->site->network;

	if (!node || !rk_site_fields(&r->diags, node, RK_SITE_NETWORK))
		return;
	n->bridge = rk_read_text(r, rk_jget(node, "bridge"));
	n->macvtap = rk_read_text(r, rk_jget(node, "macvtap"));
	rk_jbool(rk_jget(node, "user"), &n->user);
	if (!!n->bridge + !!n->macvtap + n->user > 1)
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "\"network\" takes one of \"bridge\", \"macvtap\" and \"user\"");
	n->addresses = rk_read_text(r, rk_jget(node, "addresses"));
	if (n->addresses && !rk_cidr_valid(n->addresses)) {
		rk_diag_at(&r->diags, rk_jget(node, "addresses"), RK_AT_VALUE, "\"%s\" is no block of addresses", n->addresses);
		rk_diag_hint(&r->diags, "write ADDRESS/PREFIX, e.g. 10.20.0.0/20");
	}
	n->gateway = ip_of(r, rk_jget(node, "gateway"));
	const struct rk_jnode *dns = rk_jget(node, "dns");
	n->dns = rk_arena_array(r->arena, dns ? dns->n : 0, sizeof(*n->dns));
	RK_JEACH(it, dns) {
		if (rk_jstr(it))
			n->dns[n->n_dns++] = ip_of(r, it);
		else
			rk_diag_at(&r->diags, it, RK_AT_VALUE, "\"dns\" holds IP addresses, not %s", rk_jtype_name(it->type));
	}
}

#define READ_LIST(r, root, key, type, member, count, read_one)                                       \
	do {                                                                                         \
		const struct rk_jnode *list_ = rk_jget(root, key);                                   \
		(r)->site->member = rk_arena_array((r)->arena, list_ ? list_->n : 0, sizeof(type));    \
		RK_JEACH(it_, list_)                                                                 \
			read_one(r, it_, &(r)->site->member[(r)->site->count++]);                      \
	} while (0)

/* ---- the whole -------------------------------------------------------------------------------------------------------------- */

#define TAKE(r, member, count)                                                                            \
	do {                                                                                              \
		(r)->site->member = rk_arena_array((r)->arena, (r)->member.n, sizeof(*(r)->member.items)); \
		if ((r)->member.n)                                                                        \
			memcpy((r)->site->member, (r)->member.items, (r)->member.n * sizeof(*(r)->member.items)); \
		(r)->site->count = (r)->member.n;                                                         \
	} while (0)

static void read_site(struct rk_reader *r, const struct rk_jnode *root)
{
	if (!rk_site_fields(&r->diags, root, RK_SITE_ROOT))
		return;
	const struct rk_jnode *api = rk_jget(root, "apiVersion"), *kind = rk_jget(root, "kind");
	if (rk_jstr(api) && strcmp(api->text, "racksh/v1") != 0)
		rk_diag_at(&r->diags, api, RK_AT_VALUE, "unknown apiVersion \"%s\", this racksh reads \"racksh/v1\"", api->text);
	if (rk_jstr(kind) && strcmp(kind->text, "Site") != 0)
		rk_diag_at(&r->diags, kind, RK_AT_VALUE, "kind is \"%s\", a site file has \"Site\"", kind->text);
	if (rk_streq(rk_jstr(kind), "Cluster"))
		rk_diag_hint(&r->diags, "a cluster spec is for cluster plan and cluster create");
	r->site->name = rk_read_name(r, rk_jget(root, "name"), "a site");
	r->site->region = rk_read_text(r, rk_jget(root, "region"));
	r->site->versions = rk_read_versions(r, rk_jget(root, "versions"));
	r->site->hooks = rk_read_object(r, rk_jget(root, "hooks"), RK_SITE_HOOKS);
	r->site->health = rk_read_object(r, rk_jget(root, "health"), RK_SITE_HEALTH);
	r->site->meter = rk_read_object(r, rk_jget(root, "facilityMeter"), RK_SITE_METER);
	const struct rk_jnode *meter = rk_jget(root, "facilityMeter");
	if (r->site->meter && !rk_jget(meter, "command") == !rk_jget(meter, "url"))
		rk_diag_at(&r->diags, meter, RK_AT_VALUE, "\"facilityMeter\" needs either \"command\" or \"url\"");
	r->site->sizes = rk_site_read_sizes(&r->diags, rk_jget(root, "sizes"), r->arena);
	read_defaults(r, rk_jget(root, "defaults"));
	read_network(r, rk_jget(root, "network"));
	const struct rk_jnode *storage = rk_jget(root, "storage");
	if (storage && rk_site_fields(&r->diags, storage, RK_SITE_STORAGE) && rk_jstr(rk_jget(storage, "pool")))
		r->site->pool = rk_read_text(r, rk_jget(storage, "pool"));
	READ_LIST(r, root, "infiniband", struct rk_fabric, fabrics, n_fabrics, read_fabric);
	READ_LIST(r, root, "images", struct rk_image, images, n_images, read_image);
	READ_LIST(r, root, "tenants", struct rk_tenant, tenants, n_tenants, read_tenant);
	rk_read_racks(r, rk_jget(root, "racks"));
	TAKE(r, profiles, n_profiles);
	TAKE(r, trays, n_trays);
	TAKE(r, gpus, n_gpus);
	TAKE(r, hcas, n_hcas);
	TAKE(r, parts, n_parts);
}

static void reader_free(struct rk_reader *r)
{
	struct rk_places *all[] = { &r->guids, &r->serials, &r->uuids, &r->domains, &r->uris, &r->tenants, &r->images, &r->fabrics };

	for (size_t i = 0; i < RK_ARRAY_SIZE(all); i++)
		rk_map_free(all[i]->seen);
	for (size_t i = 0; i < r->maps.n; i++)
		rk_map_free(r->maps.items[i]);
	free(r->maps.items);
	free(r->racks.items);
	free(r->profiles.items);
	free(r->trays.items);
	free(r->gpus.items);
	free(r->hcas.items);
	free(r->parts.items);
	rk_diags_clear(&r->diags);
}

int rk_site_parse(const char *path, const char *text, size_t len, struct rk_site **ret, struct rk_err *err)
{
	RK_CLEANUP_JSON struct rk_json *json = NULL;

	if (len > RK_SITE_FILE_MAX)
		return rk_err_set(err, RK_INVALID, "\"%s\" is larger than %d MiB", path, RK_SITE_FILE_MAX >> 20);
	int rc = rk_json_parse(path, text, len, &json, err);
	if (rc)
		return rc;
	struct rk_site *site = rk_site_new();
	struct rk_reader r = {
		.diags = RK_DIAGS_INIT(path),
		.arena = site->arena,
		.site = site,
		.guids = { rk_map_new(), "GUID" },
		.serials = { rk_map_new(), "serial" },
		.uuids = { rk_map_new(), "GPU UUID" },
		.domains = { rk_map_new(), "ClusterUUID" },
		.uris = { rk_map_new(), "libvirt URI" },
		.tenants = { rk_map_new(), "tenant" },
		.images = { rk_map_new(), "image" },
		.fabrics = { rk_map_new(), "InfiniBand fabric" },
	};
	read_site(&r, rk_json_root(json));
	rc = rk_diags_result(&r.diags, err);
	reader_free(&r);
	if (rc) {
		rk_site_free(site);
		return rc;
	}
	rk_site_seal(site);
	*ret = site;
	return 0;
}

int rk_site_load(const char *path, struct rk_site **ret, struct rk_err *err)
{
	char *text RK_CLEANUP_FREE = NULL;
	size_t len;
	int rc = rk_file_read(path, RK_SITE_FILE_MAX, &text, &len, err);

	return rc ? rc : rk_site_parse(path, text, len, ret, err);
}
