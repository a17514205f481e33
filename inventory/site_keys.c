#include "inventory/site_keys.h"

#include <string.h>

#include "inventory/base/mem.h"
#include "inventory/base/str.h"

#define MANAGER { "ssh", RK_JSTRING, false }, { "url", RK_JSTRING, false }, { "credentialsFile", RK_JSTRING, false }, { "caFile", RK_JSTRING, false }

static const struct rk_jfield root[] = {
	{ "apiVersion", RK_JSTRING, true },
	{ "kind", RK_JSTRING, true },
	{ "name", RK_JSTRING, true },
	{ "region", RK_JSTRING, false },
	{ "defaults", RK_JOBJECT, false },
	{ "network", RK_JOBJECT, false },
	{ "storage", RK_JOBJECT, false },
	{ "infiniband", RK_JARRAY, false },
	{ "racks", RK_JARRAY, true },
	{ "images", RK_JARRAY, false },
	{ "tenants", RK_JARRAY, false },
	{ "versions", RK_JOBJECT, false },
	{ "hooks", RK_JOBJECT, false },
	{ "sizes", RK_JARRAY, false },
	{ "health", RK_JOBJECT, false },
	{ "facilityMeter", RK_JOBJECT, false },
};

static const struct rk_jfield defaults[] = {
	{ "profile", RK_JSTRING, false }, { "libvirt", RK_JSTRING, false }, { "ssh", RK_JOBJECT, false },
	{ "nvme", RK_JARRAY, false },     { "bmc", RK_JOBJECT, false },     { "hypervisor", RK_JOBJECT, false },
};

static const struct rk_jfield hypervisor[] = {
	{ "libvirt", RK_JSTRING, true }, { "qemu", RK_JSTRING, true }, { "arch", RK_JSTRING, true }, { "pageKiB", RK_JNUMBER, false },
};

static const struct rk_jfield ssh[] = {
	{ "host", RK_JSTRING, false },       { "user", RK_JSTRING, false },         { "port", RK_JNUMBER, false },
	{ "knownHosts", RK_JSTRING, false }, { "identityFile", RK_JSTRING, false }, { "jump", RK_JSTRING, false },
};

static const struct rk_jfield bmc[] = {
	{ "url", RK_JSTRING, true }, { "credentialsFile", RK_JSTRING, false }, { "caFile", RK_JSTRING, false },
};

static const struct rk_jfield network[] = {
	{ "bridge", RK_JSTRING, false },    { "macvtap", RK_JSTRING, false }, { "user", RK_JBOOL, false },
	{ "addresses", RK_JSTRING, false }, { "gateway", RK_JSTRING, false }, { "dns", RK_JARRAY, false },
};

static const struct rk_jfield storage[] = { { "pool", RK_JSTRING, true } };
static const struct rk_jfield hooks[] = { { "leak", RK_JSTRING, false }, { "isolation", RK_JSTRING, false }, { "operation", RK_JSTRING, false } };
static const struct rk_jfield health[] = { { "cordon", RK_JSTRING, false } };

static const struct rk_jfield meter[] = {
	{ "command", RK_JSTRING, false }, { "url", RK_JSTRING, false }, { "credentialsFile", RK_JSTRING, false }, { "caFile", RK_JSTRING, false },
};

static const struct rk_jfield fabric[] = {
	{ "name", RK_JSTRING, true },
	{ "driver", RK_JSTRING, true },
	MANAGER,
	{ "partitionsFile", RK_JSTRING, false },
	{ "pidFile", RK_JSTRING, false },
	{ "pkeyPool", RK_JSTRING, false },
	{ "rateGbps", RK_JNUMBER, false },
	{ "oversubscription", RK_JNUMBER, false },
};

static const struct rk_jfield image[] = {
	{ "name", RK_JSTRING, true },      { "volume", RK_JSTRING, false }, { "arch", RK_JSTRING, true },    { "format", RK_JSTRING, true },
	{ "checksum", RK_JSTRING, false }, { "kernel", RK_JSTRING, false }, { "initrd", RK_JSTRING, false }, { "cmdline", RK_JSTRING, false },
};

static const struct rk_jfield tenant[] = { { "name", RK_JSTRING, true }, { "quota", RK_JOBJECT, false } };
static const struct rk_jfield quota[] = { { "vms", RK_JNUMBER, false }, { "pkeys", RK_JNUMBER, false } };

static const struct rk_jfield size[] = {
	{ "name", RK_JSTRING, true },
	{ "aliases", RK_JARRAY, false },
	{ "description", RK_JSTRING, false },
	{ "vcpus", RK_JNUMBER, true },
	{ "memoryMib", RK_JNUMBER, true },
	{ "gpus", RK_JNUMBER, true },
	{ "hcas", RK_JNUMBER, true },
	{ "nvme", RK_JNUMBER, false },
	{ "passthrough", RK_JBOOL, true },
	{ "emulated", RK_JBOOL, false },
	{ "trayKw", RK_JNUMBER, false },
	{ "pciHole64Kib", RK_JNUMBER, false },
	{ "optional", RK_JARRAY, false },
	{ "variant", RK_JSTRING, false },
	{ "profile", RK_JSTRING, false },
	{ "notSupported", RK_JARRAY, false },
	{ "capacityMultiple", RK_JNUMBER, false },
	{ "vmsPerDomain", RK_JNUMBER, false },
	{ "source", RK_JSTRING, false },
};

static const struct rk_jfield rack[] = {
	{ "name", RK_JSTRING, true },         { "profile", RK_JSTRING, false }, { "location", RK_JSTRING, false }, { "powerKw", RK_JNUMBER, false },
	{ "clusterUuid", RK_JSTRING, false }, { "nvlink", RK_JOBJECT, false },  { "trays", RK_JOBJECT, false },    { "tray", RK_JOBJECT, false },
	{ "versions", RK_JOBJECT, false },    { "parts", RK_JARRAY, false },
};

static const struct rk_jfield nvlink[] = { { "driver", RK_JSTRING, true }, MANAGER, { "release", RK_JSTRING, false } };
static const struct rk_jfield trays[] = { { "count", RK_JNUMBER, false }, { "absent", RK_JARRAY, false }, { "spares", RK_JNUMBER, false } };

static const struct rk_jfield tray[] = {
	{ "serial", RK_JSTRING, false }, { "slot", RK_JNUMBER, false }, { "libvirt", RK_JSTRING, false },
	{ "ssh", RK_JOBJECT, false },    { "nvme", RK_JARRAY, false },  { "bmc", RK_JOBJECT, false },
	{ "gpus", RK_JARRAY, false },    { "hcas", RK_JARRAY, false },  { "parts", RK_JARRAY, false },
};

static const struct rk_jfield gpu[] = {
	{ "index", RK_JNUMBER, true }, { "fabricGuid", RK_JSTRING, false }, { "moduleId", RK_JNUMBER, false },
	{ "pci", RK_JSTRING, false },  { "serial", RK_JSTRING, false },     { "uuid", RK_JSTRING, false },
};

static const struct rk_jfield hca[] = {
	{ "rail", RK_JNUMBER, true }, { "portGuid", RK_JSTRING, false }, { "pci", RK_JSTRING, false }, { "fabric", RK_JSTRING, false },
};

static const struct rk_jfield component[] = {
	{ "kind", RK_JSTRING, true }, { "index", RK_JNUMBER, true },     { "serial", RK_JSTRING, false },
	{ "pci", RK_JSTRING, false }, { "firmware", RK_JSTRING, false },
};

#define OBJECT(name, what, fields) { name, what, fields, RK_ARRAY_SIZE(fields) }
const struct rk_site_object rk_site_objects[RK_SITE_PARTS] = {
	[RK_SITE_ROOT] = OBJECT("site", "a site file", root),
	[RK_SITE_DEFAULTS] = OBJECT("defaults", "\"defaults\"", defaults),
	[RK_SITE_HYPERVISOR] = OBJECT("hypervisor", "\"hypervisor\"", hypervisor),
	[RK_SITE_SSH] = OBJECT("ssh", "\"ssh\"", ssh),
	[RK_SITE_BMC] = OBJECT("bmc", "\"bmc\"", bmc),
	[RK_SITE_NETWORK] = OBJECT("network", "\"network\"", network),
	[RK_SITE_STORAGE] = OBJECT("storage", "\"storage\"", storage),
	[RK_SITE_HOOKS] = OBJECT("hooks", "\"hooks\"", hooks),
	[RK_SITE_HEALTH] = OBJECT("health", "\"health\"", health),
	[RK_SITE_METER] = OBJECT("meter", "\"facilityMeter\"", meter),
	[RK_SITE_FABRIC] = OBJECT("fabric", "an entry of \"infiniband\"", fabric),
	[RK_SITE_IMAGE] = OBJECT("image", "an entry of \"images\"", image),
	[RK_SITE_TENANT] = OBJECT("tenant", "an entry of \"tenants\"", tenant),
	[RK_SITE_QUOTA] = OBJECT("quota", "\"quota\"", quota),
	[RK_SITE_SIZE] = OBJECT("size", "an entry of \"sizes\"", size),
	[RK_SITE_RACK] = OBJECT("rack", "an entry of \"racks\"", rack),
	[RK_SITE_NVLINK] = OBJECT("nvlink", "\"nvlink\"", nvlink),
	[RK_SITE_TRAYS] = OBJECT("trays", "\"trays\"", trays),
	[RK_SITE_TRAY] = OBJECT("tray", "a tray", tray),
	[RK_SITE_GPU] = OBJECT("gpu", "an entry of \"gpus\"", gpu),
	[RK_SITE_HCA] = OBJECT("hca", "an entry of \"hcas\"", hca),
	[RK_SITE_RACK_PART] = OBJECT("rack-part", "an entry of \"parts\"", component),
	[RK_SITE_TRAY_PART] = OBJECT("tray-part", "an entry of \"parts\"", component),
};

static const struct {
	enum rk_site_part part;
	const char *key, *shape;
} shapes[] = {
	{ RK_SITE_ROOT, "apiVersion", "racksh/v1" },
	{ RK_SITE_ROOT, "kind", "Site" },
	{ RK_SITE_ROOT, "defaults", "@defaults" },
	{ RK_SITE_ROOT, "network", "@network" },
	{ RK_SITE_ROOT, "storage", "@storage" },
	{ RK_SITE_ROOT, "infiniband", "[@fabric]" },
	{ RK_SITE_ROOT, "racks", "[@rack]" },
	{ RK_SITE_ROOT, "images", "[@image]" },
	{ RK_SITE_ROOT, "tenants", "[@tenant]" },
	{ RK_SITE_ROOT, "versions", "{*:s}" },
	{ RK_SITE_ROOT, "hooks", "@hooks" },
	{ RK_SITE_ROOT, "sizes", "[@size]" },
	{ RK_SITE_ROOT, "health", "@health" },
	{ RK_SITE_ROOT, "facilityMeter", "@meter" },
	{ RK_SITE_DEFAULTS, "ssh", "@ssh" },
	{ RK_SITE_DEFAULTS, "nvme", "[s]" },
	{ RK_SITE_DEFAULTS, "bmc", "@bmc" },
	{ RK_SITE_DEFAULTS, "hypervisor", "@hypervisor" },
	{ RK_SITE_NETWORK, "dns", "[s]" },
	{ RK_SITE_HEALTH, "cordon", "ask|auto" },
	{ RK_SITE_FABRIC, "driver", "opensm|ufm|sim" },
	{ RK_SITE_FABRIC, "oversubscription", "n" },
	{ RK_SITE_IMAGE, "arch", "aarch64|x86_64" },
	{ RK_SITE_IMAGE, "format", "qcow2|raw" },
	{ RK_SITE_TENANT, "quota", "@quota" },
	{ RK_SITE_SIZE, "aliases", "[s]" },
	{ RK_SITE_SIZE, "trayKw", "n" },
	{ RK_SITE_SIZE, "optional", "[s]" },
	{ RK_SITE_SIZE, "notSupported", "[s]" },
	{ RK_SITE_RACK, "powerKw", "n" },
	{ RK_SITE_RACK, "nvlink", "@nvlink" },
	{ RK_SITE_RACK, "trays", "@trays" },
	{ RK_SITE_RACK, "tray", "{*:@tray}" },
	{ RK_SITE_RACK, "versions", "{*:s}" },
	{ RK_SITE_RACK, "parts", "[@rack-part]" },
	{ RK_SITE_NVLINK, "driver", "nvos|nmxm|sim" },
	{ RK_SITE_NVLINK, "release", "default|tray" },
	{ RK_SITE_TRAYS, "absent", "[i]" },
	{ RK_SITE_TRAY, "ssh", "@ssh" },
	{ RK_SITE_TRAY, "nvme", "[s]" },
	{ RK_SITE_TRAY, "bmc", "@bmc" },
	{ RK_SITE_TRAY, "gpus", "[@gpu]" },
	{ RK_SITE_TRAY, "hcas", "[@hca]" },
	{ RK_SITE_TRAY, "parts", "[@tray-part]" },
	{ RK_SITE_RACK_PART, "kind", "power-shelf|nvlink-switch|management-switch|leak-sensor" },
	{ RK_SITE_TRAY_PART, "kind", "grace|dpu|nvme|leak-sensor" },
};

const char *rk_site_shape(enum rk_site_part part, const char *key)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(shapes); i++)
		if (shapes[i].part == part && strcmp(shapes[i].key, key) == 0)
			return shapes[i].shape;
	return NULL;
}

/* shape: words with '|' between. */
static void check_word(struct rk_diags *diags, const struct rk_jnode *node, const char *shape)
{
	char *text RK_CLEANUP_FREE = rk_xstrdup(shape), *rest = text;
	const char *words[8], *word = rk_jstr(node);
	size_t n = 0;

	while (rest && n < RK_ARRAY_SIZE(words))
		words[n++] = strsep(&rest, "|");
	for (size_t i = 0; i < n; i++)
		if (rk_streq(word, words[i]))
			return;
	rk_diag_at(diags, node, RK_AT_VALUE, "unknown %s \"%s\"", node->key, word);
	const char *near = rk_near_name(word, words, n);
	if (near)
		rk_diag_hint(diags, "did you mean \"%s\"?", near);
	else
		rk_diag_hint(diags, "one of %s", shape);
}

bool rk_site_fields(struct rk_diags *diags, const struct rk_jnode *node, enum rk_site_part part)
{
	const struct rk_site_object *o = &rk_site_objects[part];

	if (!rk_diag_fields(diags, node, o->what, o->fields, o->n))
		return false;
	for (size_t i = 0; i < RK_ARRAY_SIZE(shapes); i++)
		if (shapes[i].part == part && strchr(shapes[i].shape, '|') && rk_jstr(rk_jget(node, shapes[i].key)))
			check_word(diags, rk_jget(node, shapes[i].key), shapes[i].shape);
	return true;
}
