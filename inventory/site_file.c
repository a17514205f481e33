#include "inventory/site_file.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/diag.h"
#include "inventory/base/file.h"
#include "inventory/base/map.h"
#include "inventory/profile.h"
#include "inventory/site_values.h"

/* A value that must be unique, and where it was first seen. */
struct places {
	struct rk_map *seen; /* value -> line << 24 | column */
	const char *what;
};

struct rack_entry {
	const char *name;
	const struct rk_jnode *node;
	struct rk_map *trays; /* tray name -> struct rk_jnode *, shared by the racks of one entry; NULL when there is no "tray" */
};

struct reader {
	struct rk_diags diags;
	struct rk_arena *arena;
	struct rk_site *site;
	struct places guids, serials, uuids, domains, uris, tenants, images, fabrics;
	struct {
		struct rack_entry *items;
		size_t n, cap;
	} racks;
	struct {
		struct rk_profile *items;
		size_t n, cap;
	} profiles;
	struct {
		struct rk_tray *items;
		size_t n, cap;
	} trays;
	struct {
		struct rk_gpu *items;
		size_t n, cap;
	} gpus;
	struct {
		struct rk_hca *items;
		size_t n, cap;
	} hcas;
	struct { /* owner of the per-entry tray maps, in file order */
		struct rk_map **items;
		size_t n, cap;
	} maps;
};

#define FIELDS(...) (const struct rk_jfield[]){ __VA_ARGS__ }, RK_ARRAY_SIZE(((const struct rk_jfield[]){ __VA_ARGS__ }))

static bool unique(struct reader *r, struct places *p, const char *value, const struct rk_jnode *node)
{
	size_t place = (size_t)node->line << 24 | node->col, old;

	if (rk_map_add(p->seen, value, place, &old))
		return true;
	rk_diag_at(&r->diags, node, RK_AT_VALUE, "%s \"%s\" is used twice, first at %zu:%zu", p->what, value, old >> 24, old & 0xffffff);
	return false;
}

static const char *text_of(struct reader *r, const struct rk_jnode *node)
{
	return rk_arena_strdup(r->arena, rk_jstr(node));
}

/* The node again as JSON text, for objects that are kept as written. */
static const char *json_of(struct reader *r, const struct rk_jnode *node)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_jw w;

	if (!node)
		return NULL;
	rk_jw_init(&w, &out, 0);
	rk_jw_node(&w, node);
	return rk_arena_strdup(r->arena, rk_str_text(&out));
}

static long whole_of(struct reader *r, const struct rk_jnode *node, long min, long max, long absent)
{
	uint64_t v;

	if (!node || node->type != RK_JNUMBER)
		return absent;
	if (!rk_ju64(node, &v) || v < (uint64_t)min || v > (uint64_t)max) {
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "a whole number from %ld to %ld is expected, not %s", min, max, node->text);
		return absent;
	}
	return (long)v;
}

static double real_of(struct reader *r, const struct rk_jnode *node, double min, double max, double absent)
{
	double v;

	if (!node || node->type != RK_JNUMBER)
		return absent;
	if (!rk_jdouble(node, &v) || v < min || v > max) {
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "a number from %g to %g is expected, not %s", min, max, node->text);
		return absent;
	}
	return v;
}

static const char *name_of(struct reader *r, const struct rk_jnode *node, const char *what)
{
	const char *name = text_of(r, node);

	if (name && !rk_name_valid(name)) {
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "\"%s\" is no valid name of %s", name, what);
		rk_diag_hint(&r->diags, "names have 1 to 63 of a-z 0-9 and '-', and do not begin or end with '-'");
	}
	return name;
}

static uint64_t guid_of(struct reader *r, const struct rk_jnode *node)
{
	uint64_t v = 0;

	if (!node || node->type != RK_JSTRING)
		return 0;
	bool form = rk_starts_with(node->text, "0x") && strlen(node->text) <= 18 && rk_parse_u64(node->text, &v) && v;
	if (!form) {
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "\"%s\" is no 64-bit identity", node->text);
		rk_diag_hint(&r->diags, "write 0x and up to 16 hexadecimal digits, not all 0");
		return 0;
	}
	/* One map for all GUIDs: the same number as GPU and as port is a copy error too. */
	char key[24];
	snprintf(key, sizeof(key), "0x%016llx", (unsigned long long)v);
	unique(r, &r->guids, key, node);
	return v;
}

static const char *pci_of(struct reader *r, const struct rk_jnode *node, const char *absent)
{
	const char *pci = text_of(r, node);

	if (pci && !rk_pci_valid(pci)) {
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "\"%s\" is no PCI address", pci);
		rk_diag_hint(&r->diags, "write domain:bus:device.function in lower case, e.g. 0008:06:00.0");
	}
	return pci ? pci : absent;
}

/* ---- placeholders and managers ---------------------------------------------------------------------------------------------- */

struct place_values {
	const char *rack, *tray;
	int slot;
};

/* The placeholder at `at` and what stands for it here: text, or NULL when it has no value. 0: none of ours. */
static size_t placeholder(const char *at, const struct place_values *v, char slot[16], const char **ret)
{
	const struct {
		const char *word, *value;
	} known[] = { { "{rack}", v->rack }, { "{tray}", v->tray }, { "{slot}", v->slot ? slot : NULL } };

	snprintf(slot, 16, "%d", v->slot);
	for (size_t i = 0; i < RK_ARRAY_SIZE(known); i++)
		if (rk_starts_with(at, known[i].word)) {
			*ret = known[i].value;
			return strlen(known[i].word);
		}
	return 0;
}

/* node: where problems are reported. */
static const char *fill_text(struct reader *r, const struct rk_jnode *node, const char *template, const struct place_values *v)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	char slot[16];

	if (!template)
		return NULL;
	for (const char *at = template; *at;) {
		const char *value = NULL;
		size_t len = *at == '{' ? placeholder(at, v, slot, &value) : 0;
		if (value) {
			rk_str_add(&out, value);
		} else if (*at == '{') {
			rk_diag_at(&r->diags, node, RK_AT_VALUE, "%s placeholder \"%.*s\"", len ? "no value here for the" : "unknown",
				   (int)strcspn(at, "}") + 1, at);
			rk_diag_hint(&r->diags, "placeholders are {rack}, and for what belongs to a tray {tray} and {slot}");
		} else {
			rk_str_addc(&out, *at);
		}
		at += len ? len : 1;
	}
	return rk_arena_strdup(r->arena, rk_str_text(&out));
}

static const char *fill(struct reader *r, const struct rk_jnode *node, const struct place_values *v)
{
	return fill_text(r, node, rk_jstr(node), v);
}

/* "user@host[1-9]:port" into its single targets; user and port are optional. */
static void read_ssh_list(struct reader *r, const struct rk_jnode *node, const char *text, struct rk_manager *m)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_nodeset hosts;
	const char *at = strrchr(text, '@'), *colon = strrchr(text, ':');
	const char *first = at ? at + 1 : text;
	const char *end = colon && colon > first && strspn(colon + 1, "0123456789") == strlen(colon + 1) ? colon : text + strlen(text);
	char *host = rk_arena_strndup(r->arena, first, (size_t)(end - first));

	m->ssh_text = text;
	if (rk_nodeset_parse(host, NULL, NULL, r->arena, &hosts, &err)) {
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "\"ssh\" is no host or set of hosts: %s", err.message);
		return;
	}
	m->ssh = rk_arena_array(r->arena, hosts.n, sizeof(*m->ssh));
	m->n_ssh = hosts.n;
	for (size_t i = 0; i < hosts.n; i++)
		m->ssh[i] = rk_arena_printf(r->arena, "%.*s%s%s", (int)(first - text), text, hosts.names[i], end);
}

static void read_manager(struct reader *r, const struct rk_jnode *node, const struct place_values *v, struct rk_manager *m)
{
	const struct rk_jnode *ssh = rk_jget(node, "ssh");

	m->driver = text_of(r, rk_jget(node, "driver"));
	m->url = fill(r, rk_jget(node, "url"), v);
	m->credentials_file = fill(r, rk_jget(node, "credentialsFile"), v);
	m->ca_file = fill(r, rk_jget(node, "caFile"), v);
	if (rk_jstr(ssh))
		read_ssh_list(r, ssh, fill(r, ssh, v), m);
}

/* One of a few words. */
static void check_word(struct reader *r, const struct rk_jnode *node, const char *what, const char *const *names, size_t n)
{
	const char *word = rk_jstr(node);

	for (size_t i = 0; word && i < n; i++)
		if (strcmp(word, names[i]) == 0)
			return;
	if (!word)
		return;
	rk_diag_at(&r->diags, node, RK_AT_VALUE, "unknown %s \"%s\"", what, word);
	const char *near = rk_near_name(word, names, n);
	if (near)
		rk_diag_hint(&r->diags, "did you mean \"%s\"?", near);
}

/* Placeholders stay: they are filled in per tray. */
static void read_ssh(struct reader *r, const struct rk_jnode *node, struct rk_ssh_conf *ssh)
{
	if (!node)
		return;
	if (!rk_diag_fields(&r->diags, node, "\"ssh\"",
			    FIELDS({ "user", RK_JSTRING, false }, { "port", RK_JNUMBER, false }, { "knownHosts", RK_JSTRING, false },
				   { "identityFile", RK_JSTRING, false }, { "host", RK_JSTRING, false })))
		return;
	const char *user = text_of(r, rk_jget(node, "user"));
	const char *known = text_of(r, rk_jget(node, "knownHosts")), *identity = text_of(r, rk_jget(node, "identityFile"));
	ssh->user = user ? user : ssh->user;
	ssh->known_hosts = known ? known : ssh->known_hosts;
	ssh->identity_file = identity ? identity : ssh->identity_file;
	ssh->port = (int)whole_of(r, rk_jget(node, "port"), 1, 65535, ssh->port);
}

/* An object of texts that is kept as written: "hooks", "bmc" (fields) or, with any keys, "versions" (n = 0). */
static const char *read_texts(struct reader *r, const struct rk_jnode *node, const char *what, const struct rk_jfield *fields, size_t n)
{
	if (!node || node->type != RK_JOBJECT)
		return NULL; /* of another type: reported by the caller's table */
	if (n)
		rk_diag_fields(&r->diags, node, what, fields, n);
	RK_JEACH(it, node)
		if (!n && it->type != RK_JSTRING)
			rk_diag_at(&r->diags, it, RK_AT_VALUE, "\"%s\" must be a string, not %s", it->key, rk_jtype_name(it->type));
	return json_of(r, node);
}

static const char *read_bmc(struct reader *r, const struct rk_jnode *node)
{
	return read_texts(r, node, "\"bmc\"",
			  FIELDS({ "url", RK_JSTRING, true }, { "credentialsFile", RK_JSTRING, false }, { "caFile", RK_JSTRING, false }));
}

/* ---- the parts of a site ---------------------------------------------------------------------------------------------------- */

static int read_nvme(struct reader *r, const struct rk_jnode *node, const char *out[RK_NVME_MAX])
{
	int n = 0;

	RK_JEACH(it, node) {
		if (it->type != RK_JSTRING || n == RK_NVME_MAX) {
			rk_diag_at(&r->diags, it, RK_AT_VALUE, "\"nvme\" holds up to %d PCI addresses", RK_NVME_MAX);
			return n;
		}
		out[n++] = pci_of(r, it, NULL);
	}
	return n;
}

static void read_defaults(struct reader *r, const struct rk_jnode *node)
{
	struct rk_site_defaults *d = &r->site->defaults;

	d->profile = "gb300-nvl72";
	d->libvirt = "qemu+ssh://root@{tray}/system?no_tty=1";
	if (!node)
		return;
	if (!rk_diag_fields(&r->diags, node, "\"defaults\"",
			    FIELDS({ "profile", RK_JSTRING, false }, { "libvirt", RK_JSTRING, false }, { "ssh", RK_JOBJECT, false },
				   { "nvme", RK_JARRAY, false }, { "hypervisor", RK_JOBJECT, false }, { "bmc", RK_JOBJECT, false })))
		return;
	if (rk_jstr(rk_jget(node, "profile")))
		d->profile = text_of(r, rk_jget(node, "profile"));
	if (rk_jstr(rk_jget(node, "libvirt")))
		d->libvirt = text_of(r, rk_jget(node, "libvirt"));
	read_ssh(r, rk_jget(node, "ssh"), &d->ssh);
	d->n_nvme = read_nvme(r, rk_jget(node, "nvme"), d->nvme);
	r->site->bmc = read_bmc(r, rk_jget(node, "bmc"));
	const struct rk_jnode *h = rk_jget(node, "hypervisor");
	if (!h || !rk_diag_fields(&r->diags, h, "\"hypervisor\"",
				  FIELDS({ "libvirt", RK_JSTRING, true }, { "qemu", RK_JSTRING, true }, { "arch", RK_JSTRING, true },
					 { "pageKiB", RK_JNUMBER, false })))
		return;
	r->site->hypervisor = (struct rk_hypervisor){
		.libvirt = text_of(r, rk_jget(h, "libvirt")),
		.qemu = text_of(r, rk_jget(h, "qemu")),
		.arch = text_of(r, rk_jget(h, "arch")),
		.page_kib = (int)whole_of(r, rk_jget(h, "pageKiB"), 1, 1 << 20, 4),
	};
}

static void read_pool(struct reader *r, const struct rk_jnode *node, struct rk_fabric *f)
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

static void read_fabric(struct reader *r, const struct rk_jnode *node, struct rk_fabric *f)
{
	static const char *const drivers[] = { "opensm", "ufm", "sim" };
	static const struct place_values none = { NULL, NULL, 0 };

	if (!rk_diag_fields(&r->diags, node, "an entry of \"infiniband\"",
			    FIELDS({ "name", RK_JSTRING, true }, { "driver", RK_JSTRING, true }, { "ssh", RK_JSTRING, false }, { "url", RK_JSTRING, false },
				   { "credentialsFile", RK_JSTRING, false }, { "caFile", RK_JSTRING, false }, { "partitionsFile", RK_JSTRING, false },
				   { "pidFile", RK_JSTRING, false }, { "pkeyPool", RK_JSTRING, false }, { "rateGbps", RK_JNUMBER, false },
				   { "oversubscription", RK_JNUMBER, false })))
		return;
	f->name = name_of(r, rk_jget(node, "name"), "an InfiniBand fabric");
	if (f->name)
		unique(r, &r->fabrics, f->name, rk_jget(node, "name"));
	check_word(r, rk_jget(node, "driver"), "driver", drivers, RK_ARRAY_SIZE(drivers));
	read_manager(r, node, &none, &f->manager);
	f->partitions_file = text_of(r, rk_jget(node, "partitionsFile"));
	f->pid_file = text_of(r, rk_jget(node, "pidFile"));
	read_pool(r, rk_jget(node, "pkeyPool"), f);
	f->rate_gbps = (int)whole_of(r, rk_jget(node, "rateGbps"), 1, 100000, 0);
	f->oversubscription = real_of(r, rk_jget(node, "oversubscription"), 0.01, 100, 1.0);
}

static void read_image(struct reader *r, const struct rk_jnode *node, struct rk_image *image)
{
	static const char *const archs[] = { "aarch64", "x86_64" }, *const formats[] = { "qcow2", "raw" };

	if (!rk_diag_fields(&r->diags, node, "an entry of \"images\"",
			    FIELDS({ "name", RK_JSTRING, true }, { "volume", RK_JSTRING, false }, { "arch", RK_JSTRING, true }, { "format", RK_JSTRING, true },
				   { "checksum", RK_JSTRING, false }, { "kernel", RK_JSTRING, false }, { "initrd", RK_JSTRING, false },
				   { "cmdline", RK_JSTRING, false })))
		return;
	*image = (struct rk_image){
		.name = text_of(r, rk_jget(node, "name")),
		.volume = text_of(r, rk_jget(node, "volume")),
		.arch = text_of(r, rk_jget(node, "arch")),
		.format = text_of(r, rk_jget(node, "format")),
		.checksum = text_of(r, rk_jget(node, "checksum")),
		.kernel = text_of(r, rk_jget(node, "kernel")),
		.initrd = text_of(r, rk_jget(node, "initrd")),
		.cmdline = text_of(r, rk_jget(node, "cmdline")),
	};
	check_word(r, rk_jget(node, "arch"), "arch", archs, RK_ARRAY_SIZE(archs));
	check_word(r, rk_jget(node, "format"), "format", formats, RK_ARRAY_SIZE(formats));
	if (image->name && !rk_image_name_valid(image->name))
		rk_diag_at(&r->diags, rk_jget(node, "name"), RK_AT_VALUE, "\"%s\" is no valid name of an image", image->name);
	if (image->name)
		unique(r, &r->images, image->name, rk_jget(node, "name"));
	if (image->volume && !strchr(image->volume, '/')) {
		rk_diag_at(&r->diags, rk_jget(node, "volume"), RK_AT_VALUE, "\"%s\" names no pool", image->volume);
		rk_diag_hint(&r->diags, "write POOL/VOLUME, e.g. default/ubuntu.qcow2");
	}
	if (!image->volume && !image->kernel)
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "an image needs \"volume\" or \"kernel\"");
}

static void read_tenant(struct reader *r, const struct rk_jnode *node, struct rk_tenant *tenant)
{
	if (!rk_diag_fields(&r->diags, node, "an entry of \"tenants\"", FIELDS({ "name", RK_JSTRING, true }, { "quota", RK_JOBJECT, false })))
		return;
	tenant->name = name_of(r, rk_jget(node, "name"), "a tenant");
	if (tenant->name)
		unique(r, &r->tenants, tenant->name, rk_jget(node, "name"));
	const struct rk_jnode *quota = rk_jget(node, "quota");
	if (!quota || !rk_diag_fields(&r->diags, quota, "\"quota\"", FIELDS({ "vms", RK_JNUMBER, false }, { "pkeys", RK_JNUMBER, false })))
		return;
	tenant->quota_vms = (int)whole_of(r, rk_jget(quota, "vms"), 0, 1000000, 0);
	tenant->quota_pkeys = (int)whole_of(r, rk_jget(quota, "pkeys"), 0, 0x7ffe, 0);
}

static const char *ip_of(struct reader *r, const struct rk_jnode *node)
{
	const char *ip = text_of(r, node);

	if (ip && !rk_ip_valid(ip))
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "\"%s\" is no IP address", ip);
	return ip;
}

static void read_network(struct reader *r, const struct rk_jnode *node)
{
	struct rk_network *n = &r->site->network;

	if (!node || !rk_diag_fields(&r->diags, node, "\"network\"",
				     FIELDS({ "bridge", RK_JSTRING, false }, { "macvtap", RK_JSTRING, false }, { "user", RK_JBOOL, false },
					    { "addresses", RK_JSTRING, false }, { "gateway", RK_JSTRING, false }, { "dns", RK_JARRAY, false })))
		return;
	n->bridge = text_of(r, rk_jget(node, "bridge"));
	n->macvtap = text_of(r, rk_jget(node, "macvtap"));
	rk_jbool(rk_jget(node, "user"), &n->user);
	if (!!n->bridge + !!n->macvtap + n->user > 1)
		rk_diag_at(&r->diags, node, RK_AT_VALUE, "\"network\" takes one of \"bridge\", \"macvtap\" and \"user\"");
	n->addresses = text_of(r, rk_jget(node, "addresses"));
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

/* ---- racks ------------------------------------------------------------------------------------------------------------------ */

static int profile_of(struct reader *r, const struct rk_jnode *node, const char *name)
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

static struct rk_map *tray_map(struct reader *r, const struct rk_jnode *trays)
{
	if (!trays || trays->type != RK_JOBJECT)
		return NULL;
	struct rk_map *map = rk_map_new();
	RK_JEACH(it, trays)
		rk_map_add(map, it->key, (size_t)it, NULL);
	*rk_vec_push(&r->maps) = map;
	return map;
}

static void collect_entry(struct reader *r, const struct rk_jnode *node, struct places *names)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_nodeset set;
	const struct rk_jnode *name = rk_jget(node, "name");

	if (!rk_diag_fields(&r->diags, node, "an entry of \"racks\"",
			    FIELDS({ "name", RK_JSTRING, true }, { "profile", RK_JSTRING, false }, { "location", RK_JSTRING, false },
				   { "powerKw", RK_JNUMBER, false }, { "clusterUuid", RK_JSTRING, false }, { "nvlink", RK_JOBJECT, false },
				   { "trays", RK_JOBJECT, false }, { "tray", RK_JOBJECT, false })) ||
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
		if (unique(r, names, set.names[i], name))
			*rk_vec_push(&r->racks) = (struct rack_entry){ set.names[i], node, trays };
	}
}

static int by_rack_name(const void *a, const void *b)
{
	return rk_natural_cmp(((const struct rack_entry *)a)->name, ((const struct rack_entry *)b)->name);
}

/* Reads "gpus" or "hcas" of a tray: which[index] = node, by the index key. */
static void by_index(struct reader *r, const struct rk_jnode *list, const char *key, int n, const struct rk_jnode **which)
{
	RK_JEACH(it, list) {
		const struct rk_jnode *at = rk_jget(it, key);
		long i = whole_of(r, at, 0, n - 1, -1);
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

static void read_gpus(struct reader *r, const struct rk_jnode *node, int tray, const struct rk_profile *p)
{
	const struct rk_jnode *which[RK_GPUS_MAX] = { NULL };

	by_index(r, rk_jget(node, "gpus"), "index", p->gpus_per_tray, which);
	for (int i = 0; i < p->gpus_per_tray; i++) {
		const struct rk_jnode *g = which[i];
		if (g)
			rk_diag_fields(&r->diags, g, "an entry of \"gpus\"",
				       FIELDS({ "index", RK_JNUMBER, true }, { "fabricGuid", RK_JSTRING, false }, { "moduleId", RK_JNUMBER, false },
					      { "pci", RK_JSTRING, false }, { "serial", RK_JSTRING, false }, { "uuid", RK_JSTRING, false }));
		*rk_vec_push(&r->gpus) = (struct rk_gpu){
			.tray = tray,
			.index = i,
			.module_id = (int)whole_of(r, rk_jget(g, "moduleId"), 1, RK_GPUS_MAX, p->gpu_module[i]),
			.pci = pci_of(r, rk_jget(g, "pci"), p->gpu_pci[i]),
			.serial = text_of(r, rk_jget(g, "serial")),
			.uuid = text_of(r, rk_jget(g, "uuid")),
			.fabric_guid = guid_of(r, rk_jget(g, "fabricGuid")),
		};
		if (rk_jstr(rk_jget(g, "uuid")))
			unique(r, &r->uuids, rk_jget(g, "uuid")->text, rk_jget(g, "uuid"));
	}
}

static void read_hcas(struct reader *r, const struct rk_jnode *node, int tray, const struct rk_profile *p)
{
	const struct rk_jnode *which[RK_RAILS_MAX] = { NULL };

	by_index(r, rk_jget(node, "hcas"), "rail", p->hcas_per_tray, which);
	for (int i = 0; i < p->hcas_per_tray; i++) {
		const struct rk_jnode *h = which[i];
		if (h)
			rk_diag_fields(&r->diags, h, "an entry of \"hcas\"",
				       FIELDS({ "rail", RK_JNUMBER, true }, { "portGuid", RK_JSTRING, false }, { "pci", RK_JSTRING, false },
					      { "fabric", RK_JSTRING, false }));
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
			.pci = pci_of(r, rk_jget(h, "pci"), p->hca_pci[i]),
			.port_guid = guid_of(r, rk_jget(h, "portGuid")),
		};
	}
}

/* A PCI address may stand once in a tray. */
static void check_addresses(struct reader *r, const struct rk_tray *t, const struct rk_jnode *node)
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

static void read_tray(struct reader *r, const struct rack_entry *entry, int rack, int number, const struct rk_profile *p)
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
		rk_diag_fields(&r->diags, node, "a tray",
			       FIELDS({ "serial", RK_JSTRING, false }, { "slot", RK_JNUMBER, false }, { "libvirt", RK_JSTRING, false },
				      { "ssh", RK_JOBJECT, false }, { "nvme", RK_JARRAY, false }, { "gpus", RK_JARRAY, false },
				      { "hcas", RK_JARRAY, false }, { "bmc", RK_JOBJECT, false }));
	t->slot = (int)whole_of(r, rk_jget(node, "slot"), 1, 100, p->slot[number - 1]);
	const struct place_values v = { entry->name, t->name, t->slot };
	const struct rk_jnode *uri = rk_jget(node, "libvirt"), *ssh = rk_jget(node, "ssh");
	if (!rk_jstr(uri))
		uri = NULL;
	t->libvirt_uri = fill_text(r, uri ? uri : entry->node, uri ? uri->text : r->site->defaults.libvirt, &v);
	t->serial = text_of(r, rk_jget(node, "serial"));
	t->ssh = r->site->defaults.ssh;
	read_ssh(r, ssh, &t->ssh);
	t->ssh.known_hosts = fill_text(r, ssh ? ssh : entry->node, t->ssh.known_hosts, &v);
	t->ssh.identity_file = fill_text(r, ssh ? ssh : entry->node, t->ssh.identity_file, &v);
	const char *host = fill(r, rk_jget(ssh, "host"), &v);
	t->ssh_host = host ? host : t->name;
	memcpy(t->nvme, r->site->defaults.nvme, sizeof(t->nvme));
	t->n_nvme = r->site->defaults.n_nvme;
	if (rk_jget(node, "nvme"))
		t->n_nvme = read_nvme(r, rk_jget(node, "nvme"), t->nvme);
	if (t->serial)
		unique(r, &r->serials, t->serial, rk_jget(node, "serial"));
	if (!rk_libvirt_uri_valid(t->libvirt_uri)) {
		rk_diag_at(&r->diags, uri ? uri : entry->node, RK_AT_VALUE, "\"%s\" is no libvirt URI", t->libvirt_uri);
		rk_diag_hint(&r->diags, "for example qemu+ssh://root@{tray}/system");
	}
	unique(r, &r->uris, t->libvirt_uri, uri ? uri : entry->node);
	t->bmc = read_bmc(r, rk_jget(node, "bmc"));
	t->first_gpu = (int)r->gpus.n;
	t->n_gpus = p->gpus_per_tray;
	t->first_hca = (int)r->hcas.n;
	t->n_hcas = p->hcas_per_tray;
	int index = (int)r->trays.n - 1;
	read_gpus(r, node, index, p);
	read_hcas(r, node, index, p);
	check_addresses(r, t, node ? node : entry->node);
}

static void read_trays(struct reader *r, const struct rack_entry *entry, struct rk_rack *rack, int index, const struct rk_profile *p)
{
	const struct rk_jnode *node = rk_jget(entry->node, "trays");
	bool absent[64] = { false };

	if (node)
		rk_diag_fields(&r->diags, node, "\"trays\"",
			       FIELDS({ "count", RK_JNUMBER, false }, { "absent", RK_JARRAY, false }, { "spares", RK_JNUMBER, false }));
	int count = (int)whole_of(r, rk_jget(node, "count"), 0, p->trays, p->trays);
	rack->spares = (int)whole_of(r, rk_jget(node, "spares"), 0, p->trays, 0);
	RK_JEACH(it, rk_jget(node, "absent")) {
		long n = whole_of(r, it, 1, count, 0);
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
static const char *cluster_uuid_of(struct reader *r, const struct rk_jnode *node)
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
	unique(r, &r->domains, uuid, node);
	return uuid;
}

static void read_rack(struct reader *r, const struct rack_entry *entry, int index)
{
	static const char *const drivers[] = { "nvos", "nmxm", "sim" };
	struct rk_rack *rack = &r->site->racks[index];
	const struct rk_jnode *profile = rk_jget(entry->node, "profile"), *nvlink = rk_jget(entry->node, "nvlink");
	const struct place_values v = { entry->name, NULL, 0 };

	rack->name = entry->name;
	rack->location = text_of(r, rk_jget(entry->node, "location"));
	rack->cluster_uuid = cluster_uuid_of(r, rk_jget(entry->node, "clusterUuid"));
	rack->profile = profile_of(r, profile ? profile : entry->node, rk_jstr(profile) ? profile->text : r->site->defaults.profile);
	if (nvlink && rk_diag_fields(&r->diags, nvlink, "\"nvlink\"",
				     FIELDS({ "driver", RK_JSTRING, true }, { "ssh", RK_JSTRING, false }, { "url", RK_JSTRING, false },
					    { "credentialsFile", RK_JSTRING, false }, { "caFile", RK_JSTRING, false }))) {
		check_word(r, rk_jget(nvlink, "driver"), "driver", drivers, RK_ARRAY_SIZE(drivers));
		read_manager(r, nvlink, &v, &rack->nvlink);
	}
	if (rack->profile < 0)
		return;
	/* A copy: profiles may move while trays are read. */
	const struct rk_profile p = r->profiles.items[rack->profile];
	rack->power_kw = real_of(r, rk_jget(entry->node, "powerKw"), 0.1, 10000, p.rack_kw);
	read_trays(r, entry, rack, index, &p);
}

/* Entries of "tray" that no rack has. */
static void check_unused_trays(struct reader *r, const struct rk_jnode *racks)
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

static void read_racks(struct reader *r, const struct rk_jnode *racks)
{
	struct places names = { rk_map_new(), "rack" };

	RK_JEACH(it, racks)
		collect_entry(r, it, &names);
	rk_map_free(names.seen);
	if (r->racks.n)
		qsort(r->racks.items, r->racks.n, sizeof(*r->racks.items), by_rack_name);
	r->site->racks = rk_arena_array(r->arena, r->racks.n, sizeof(*r->site->racks));
	r->site->n_racks = r->racks.n;
	for (size_t i = 0; i < r->racks.n; i++)
		read_rack(r, &r->racks.items[i], (int)i);
	check_unused_trays(r, racks);
}

/* ---- the whole -------------------------------------------------------------------------------------------------------------- */

#define TAKE(r, member, count)                                                                            \
	do {                                                                                              \
		(r)->site->member = rk_arena_array((r)->arena, (r)->member.n, sizeof(*(r)->member.items)); \
		if ((r)->member.n)                                                                        \
			memcpy((r)->site->member, (r)->member.items, (r)->member.n * sizeof(*(r)->member.items)); \
		(r)->site->count = (r)->member.n;                                                         \
	} while (0)

static void read_site(struct reader *r, const struct rk_jnode *root)
{
	if (!rk_diag_fields(&r->diags, root, "a site file",
			    FIELDS({ "apiVersion", RK_JSTRING, true }, { "kind", RK_JSTRING, true }, { "name", RK_JSTRING, true },
				   { "region", RK_JSTRING, false }, { "defaults", RK_JOBJECT, false }, { "infiniband", RK_JARRAY, false },
				   { "racks", RK_JARRAY, true }, { "images", RK_JARRAY, false }, { "tenants", RK_JARRAY, false },
				   { "network", RK_JOBJECT, false }, { "storage", RK_JOBJECT, false }, { "versions", RK_JOBJECT, false },
				   { "hooks", RK_JOBJECT, false })))
		return;
	const struct rk_jnode *api = rk_jget(root, "apiVersion"), *kind = rk_jget(root, "kind");
	if (rk_jstr(api) && strcmp(api->text, "racksh/v1") != 0)
		rk_diag_at(&r->diags, api, RK_AT_VALUE, "unknown apiVersion \"%s\", this racksh reads \"racksh/v1\"", api->text);
	if (rk_jstr(kind) && strcmp(kind->text, "Site") != 0)
		rk_diag_at(&r->diags, kind, RK_AT_VALUE, "kind is \"%s\", a site file has \"Site\"", kind->text);
	r->site->name = name_of(r, rk_jget(root, "name"), "a site");
	r->site->region = text_of(r, rk_jget(root, "region"));
	r->site->versions = read_texts(r, rk_jget(root, "versions"), "\"versions\"", NULL, 0);
	r->site->hooks = read_texts(r, rk_jget(root, "hooks"), "\"hooks\"",
				    FIELDS({ "leak", RK_JSTRING, false }, { "isolation", RK_JSTRING, false }, { "operation", RK_JSTRING, false }));
	read_defaults(r, rk_jget(root, "defaults"));
	read_network(r, rk_jget(root, "network"));
	const struct rk_jnode *storage = rk_jget(root, "storage");
	if (storage && rk_diag_fields(&r->diags, storage, "\"storage\"", FIELDS({ "pool", RK_JSTRING, true })) && rk_jstr(rk_jget(storage, "pool")))
		r->site->pool = text_of(r, rk_jget(storage, "pool"));
	READ_LIST(r, root, "infiniband", struct rk_fabric, fabrics, n_fabrics, read_fabric);
	READ_LIST(r, root, "images", struct rk_image, images, n_images, read_image);
	READ_LIST(r, root, "tenants", struct rk_tenant, tenants, n_tenants, read_tenant);
	read_racks(r, rk_jget(root, "racks"));
	TAKE(r, profiles, n_profiles);
	TAKE(r, trays, n_trays);
	TAKE(r, gpus, n_gpus);
	TAKE(r, hcas, n_hcas);
}

static void reader_free(struct reader *r)
{
	struct places *all[] = { &r->guids, &r->serials, &r->uuids, &r->domains, &r->uris, &r->tenants, &r->images, &r->fabrics };

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
	struct reader r = {
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
