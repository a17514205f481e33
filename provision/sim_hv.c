#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provision/sim_impl.h"
#include "vmspec/xmltree.h"

struct sim_hv {
	struct rk_hv hv;
	struct rk_sim *sim;
};

static struct rk_sim *of(struct rk_hv *hv)
{
	return ((struct sim_hv *)hv)->sim;
}

static const char *tray_name(const struct rk_hv *hv, int tray)
{
	return hv->site->trays[tray].name;
}

static int probe(struct rk_hv *hv, int tray, struct rk_arena *arena, struct rk_hostcaps *ret, struct rk_err *err)
{
	struct rk_sim_call call;
	int rc = rk_sim_enter(of(hv), &call, "hv.probe", tray_name(hv, tray), false, err);

	(void)arena;
	if (rc)
		return rc;
	/* What the site file does not declare: the first versions that can express the size in full. */
	if (!rk_hostcaps_declared(hv->site, ret))
		*ret = (struct rk_hostcaps){ .libvirt = 12008000, .qemu = 11001003, .arch = "aarch64", .page_kib = 64 };
	ret->probed = ret->kvm = ret->iommufd = ret->vfio = true;
	return rk_sim_leave(&call, 0, err);
}

static const char *device_xml(struct rk_arena *arena, const char *pci, const char *class, const char *vendor, const char *product, int numa, const char *driver)
{
	unsigned domain, bus, slot, function;

	if (!pci || sscanf(pci, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4)
		return NULL;
	return rk_arena_printf(arena,
			       "<device><name>pci_%04x_%02x_%02x_%x</name><driver><name>%s</name></driver><capability type='pci'><class>%s</class><domain>%u</domain>"
			       "<bus>%u</bus><slot>%u</slot><function>%u</function><product id='%s'/><vendor id='%s'/><iommuGroup number='%u'>"
			       "<address domain='0x%04x' bus='0x%02x' slot='0x%02x' function='0x%x'/></iommuGroup><numa node='%d'/></capability></device>",
			       domain, bus, slot, function, driver, class, domain, bus, slot, function, product, vendor, domain * 8 + function, domain, bus, slot,
			       function, numa);
}

static int devices(struct rk_hv *hv, int tray, struct rk_arena *arena, const char ***ret_xml, size_t *ret_n, struct rk_err *err)
{
	const struct rk_site *site = hv->site;
	const struct rk_tray *t = &site->trays[tray];
	const struct rk_profile *p = &site->profiles[site->racks[t->rack].profile];
	const char **list = rk_arena_array(arena, (size_t)(t->n_gpus + t->n_hcas), sizeof(*list));
	struct rk_sim_call call;
	size_t n = 0;
	int rc = rk_sim_enter(of(hv), &call, "hv.devices", tray_name(hv, tray), false, err);

	if (rc)
		return rc;
	for (int g = 0; g < t->n_gpus; g++)
		if (rk_sim_gpu_guid(call.sim, site, t->first_gpu + g) && site->gpus[t->first_gpu + g].pci)
			list[n++] = device_xml(arena, site->gpus[t->first_gpu + g].pci, "0x030200", "0x10de", "0x31c2", p->gpu_numa[g], "vfio-pci");
	for (int h = 0; h < t->n_hcas; h++)
		if (site->hcas[t->first_hca + h].pci)
			list[n++] = device_xml(arena, site->hcas[t->first_hca + h].pci, "0x020700", "0x15b3", "0x1023", p->hca_numa[h], "vfio-pci");
	*ret_xml = list;
	*ret_n = n;
	return rk_sim_leave(&call, 0, err);
}

/* ---- domains ---------------------------------------------------------------------------------------------------------------------- */

static char *domain_key(const struct rk_hv *hv, int tray, const char *name)
{
	return rk_xasprintf("dom:%s:%s", tray_name(hv, tray), name);
}

static const char *element(const char *xml, const char *open, const char *close, struct rk_arena *arena)
{
	const char *from = strstr(xml, open), *to = from ? strstr(from, close) : NULL;

	return to ? rk_arena_strndup(arena, from + strlen(open), (size_t)(to - from) - strlen(open)) : NULL;
}

static void fill_domain(const char *name, const char *value, struct rk_arena *arena, struct rk_hv_domain *ret)
{
	const char *cluster, *vm;
	int generation;

	*ret = (struct rk_hv_domain){ .name = rk_arena_strdup(arena, name) };
	if (!value)
		return;
	ret->exists = true;
	ret->running = value[0] == 'R';
	ret->xml = rk_arena_strdup(arena, value + 1);
	ret->uuid = element(ret->xml, "<uuid>", "</uuid>", arena);
	ret->ours = rk_domain_xml_owner(ret->xml, arena, &cluster, &vm, &generation);
}

static int domain_get(struct rk_hv *hv, int tray, const char *name, struct rk_arena *arena, struct rk_hv_domain *ret, struct rk_err *err)
{
	char *key RK_CLEANUP_FREE = domain_key(hv, tray, name);
	struct rk_sim_call call;
	int rc = rk_sim_enter(of(hv), &call, "hv.domain_get", tray_name(hv, tray), false, err);

	if (rc)
		return rc;
	fill_domain(name, rk_sim_get(call.sim, key), arena, ret);
	return rk_sim_leave(&call, 0, err);
}

static int domain_list(struct rk_hv *hv, int tray, struct rk_arena *arena, struct rk_hv_domain **ret, size_t *ret_n, struct rk_err *err)
{
	char *prefix RK_CLEANUP_FREE = domain_key(hv, tray, "");
	struct rk_sim_call call;
	size_t first, end, n = 0;
	int rc = rk_sim_enter(of(hv), &call, "hv.domain_list", tray_name(hv, tray), false, err);

	if (rc)
		return rc;
	rk_sim_range(call.sim, prefix, &first, &end);
	*ret = rk_arena_array(arena, end - first, sizeof(**ret));
	for (size_t i = first; i < end; i++) {
		const char *value = rk_sim_see(call.sim, &call.sim->items[i]);
		if (value)
			fill_domain(call.sim->items[i].key + strlen(prefix), value, arena, &(*ret)[n++]);
	}
	*ret_n = n;
	return rk_sim_leave(&call, 0, err);
}

static bool one_runs(const struct rk_sim *sim, const struct rk_hv *hv, int tray, const char *but)
{
	char *prefix RK_CLEANUP_FREE = domain_key(hv, tray, "");
	size_t first, end;

	rk_sim_range(sim, prefix, &first, &end);
	for (size_t i = first; i < end; i++)
		if (sim->items[i].value[0] == 'R' && strcmp(sim->items[i].key, but) != 0)
			return true;
	return false;
}

/* What a host keeps that passes over what it does not know. */
static int kept_by_host(const struct rk_sim_call *call, const char *xml, struct rk_arena *arena, const char **ret, struct rk_err *err)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	rk_xml *doc RK_CLEANUP_XML = NULL;

	*ret = xml;
	if (call->mode != RK_SIM_DROP)
		return 0;
	int rc = rk_xml_parse("the domain", xml, &doc, err);
	if (rc)
		return rc;
	rk_xdrop(rk_xroot(doc), call->message);
	rc = rk_xml_write(doc, &text, err);
	*ret = rk_arena_strdup(arena, rk_str_text(&text));
	return rc;
}

static int define(struct rk_hv *hv, int tray, const char *xml, struct rk_arena *arena, const char **ret_xml, struct rk_err *err)
{
	const char *name = element(xml, "<name>", "</name>", arena);
	struct rk_sim_call call;
	int rc = rk_sim_enter(of(hv), &call, "hv.define", tray_name(hv, tray), true, err);

	if (rc)
		return rc;
	if (!name)
		return rk_sim_leave(&call, rk_err_set(err, RK_INVALID, "XML error: the domain has no name"), err);
	char *key RK_CLEANUP_FREE = domain_key(hv, tray, name);
	const char *was = rk_sim_get(call.sim, key), *kept;
	rc = kept_by_host(&call, xml, arena, &kept, err);
	char *value RK_CLEANUP_FREE = rk_xasprintf("%c%s", was ? was[0] : 'S', kept);
	rk_sim_set(&call, key, value, 0);
	*ret_xml = rk_arena_strdup(arena, kept);
	return rk_sim_leave(&call, rc, err);
}

/* The IMEX list a new guest starts with: the seed's. One that has booted before keeps what it has. A boot starts the service, even one that
 * had failed. */
static void boot(struct rk_sim_call *call, const char *tray)
{
	char *seed RK_CLEANUP_FREE = rk_xasprintf("seed:%s", tray), *imex RK_CLEANUP_FREE = rk_xasprintf("imex:%s", tray);
	char *down RK_CLEANUP_FREE = rk_xasprintf("imex-down:%s/0", tray), *kept RK_CLEANUP_FREE = rk_xasprintf("imex-kept:%s", tray);

	rk_sim_set(call, down, NULL, 0);
	rk_sim_set(call, kept, NULL, 0);
	if (!rk_sim_get(call->sim, imex))
		rk_sim_set(call, imex, rk_sim_get(call->sim, seed), 0);
}

/* Sets a domain running or stopped; the guest's SSH follows after the boot. */
static int turn(struct rk_hv *hv, int tray, const char *what, const char *name, char state, struct rk_err *err)
{
	char *key RK_CLEANUP_FREE = domain_key(hv, tray, name), *up RK_CLEANUP_FREE = rk_xasprintf("up:%s", tray_name(hv, tray));
	struct rk_sim_call call;
	int rc = rk_sim_enter(of(hv), &call, what, tray_name(hv, tray), true, err);

	if (rc)
		return rc;
	const char *was = rk_sim_get(call.sim, key);
	if (!was)
		rc = rk_err_set(err, RK_NOT_FOUND, "no domain \"%s\" on tray %s", name, tray_name(hv, tray));
	else if (state == 'R' && one_runs(call.sim, hv, tray, key))
		rc = rk_err_set(err, RK_FAILED, "the devices of tray %s are in use by another domain", tray_name(hv, tray));
	if (!rc && was[0] != state) {
		char *value RK_CLEANUP_FREE = rk_xasprintf("%c%s", state, was + 1);
		rk_sim_set(&call, key, value, 0);
		rk_sim_set(&call, up, state == 'R' ? "1" : NULL, state == 'R' ? RK_SIM_BOOT_MS : 0);
		if (state == 'R')
			boot(&call, tray_name(hv, tray));
	}
	return rk_sim_leave(&call, rc, err);
}

static int start(struct rk_hv *hv, int tray, const char *name, struct rk_err *err)
{
	return turn(hv, tray, "hv.start", name, 'R', err);
}

static int ask_shutdown(struct rk_hv *hv, int tray, const char *name, struct rk_err *err)
{
	return turn(hv, tray, "hv.shutdown", name, 'S', err);
}

static int destroy(struct rk_hv *hv, int tray, const char *name, struct rk_err *err)
{
	return turn(hv, tray, "hv.destroy", name, 'S', err);
}

static int undefine(struct rk_hv *hv, int tray, const char *name, struct rk_err *err)
{
	char *key RK_CLEANUP_FREE = domain_key(hv, tray, name);
	struct rk_sim_call call;
	int rc = rk_sim_enter(of(hv), &call, "hv.undefine", tray_name(hv, tray), true, err);

	if (rc)
		return rc;
	const char *was = rk_sim_get(call.sim, key);
	if (was && was[0] == 'R')
		rc = rk_err_set(err, RK_FAILED, "domain \"%s\" on tray %s runs", name, tray_name(hv, tray));
	else
		rk_sim_set(&call, key, NULL, 0);
	return rk_sim_leave(&call, rc, err);
}

/* ---- volumes ---------------------------------------------------------------------------------------------------------------------- */

static char *volume_key(const struct rk_hv *hv, int tray, const char *pool, const char *name)
{
	return rk_xasprintf("vol:%s:%s/%s", tray_name(hv, tray), pool, name);
}

/* Every image of the site is on every tray of the twin. */
static bool is_image(const struct rk_site *site, const char *pool, const char *name)
{
	char *volume RK_CLEANUP_FREE = rk_xasprintf("%s/%s", pool, name);

	for (size_t i = 0; i < site->n_images; i++)
		if (rk_streq(site->images[i].volume, volume))
			return true;
	return false;
}

static int volume_get(struct rk_hv *hv, int tray, const char *pool, const char *name, struct rk_arena *arena, struct rk_hv_volume *ret, struct rk_err *err)
{
	char *key RK_CLEANUP_FREE = volume_key(hv, tray, pool, name);
	struct rk_sim_call call;
	int rc = rk_sim_enter(of(hv), &call, "hv.volume_get", tray_name(hv, tray), false, err);

	if (rc)
		return rc;
	const char *value = rk_sim_get(call.sim, key);
	*ret = (struct rk_hv_volume){ .exists = value || is_image(hv->site, pool, name) };
	ret->bytes = value ? strtoull(value, NULL, 10) : (uint64_t)64 << 30;
	ret->path = rk_arena_printf(arena, "/var/lib/libvirt/images/%s", name);
	return rk_sim_leave(&call, 0, err);
}

static int volume_list(struct rk_hv *hv, int tray, const char *pool, struct rk_arena *arena, const char ***ret, size_t *ret_n, struct rk_err *err)
{
	char *prefix RK_CLEANUP_FREE = volume_key(hv, tray, pool, "");
	struct rk_sim_call call;
	size_t first, end, n = 0;
	int rc = rk_sim_enter(of(hv), &call, "hv.volume_list", tray_name(hv, tray), false, err);

	if (rc)
		return rc;
	rk_sim_range(call.sim, prefix, &first, &end);
	*ret = rk_arena_array(arena, end - first, sizeof(**ret));
	for (size_t i = first; i < end; i++)
		if (rk_sim_see(call.sim, &call.sim->items[i]))
			(*ret)[n++] = rk_arena_strdup(arena, call.sim->items[i].key + strlen(prefix));
	*ret_n = n;
	return rk_sim_leave(&call, 0, err);
}

/* note: another key that goes with the volume, and its value. */
static int set_volume(struct rk_hv *hv, int tray, const char *what, const char *pool, const char *name, const char *value, const char *note_key,
		      const char *note, struct rk_err *err)
{
	char *key RK_CLEANUP_FREE = volume_key(hv, tray, pool, name);
	struct rk_sim_call call;
	int rc = rk_sim_enter(of(hv), &call, what, tray_name(hv, tray), true, err);

	if (rc)
		return rc;
	rk_sim_set(&call, key, value, 0);
	if (note_key)
		rk_sim_set(&call, note_key, note, 0);
	return rk_sim_leave(&call, 0, err);
}

/* A new disk: what the guest wrote on the former one is gone. */
static int volume_overlay(struct rk_hv *hv, int tray, const char *pool, const char *name, const char *backing, struct rk_err *err)
{
	char *imex RK_CLEANUP_FREE = rk_xasprintf("imex:%s", tray_name(hv, tray));

	(void)backing;
	return set_volume(hv, tray, "hv.volume_overlay", pool, name, "68719476736", imex, NULL, err);
}

/* The lines of the IMEX list in a seed's user-data, which lies in the image as it is; NULL when this is no seed. */
static char *imex_of_seed(const char *data, size_t len)
{
	static const char head[] = "/etc/nvidia-imex/nodes_config.cfg\n", indent[] = "      ";
	const char *at = memmem(data, len, head, strlen(head)), *end = data + len;
	struct rk_str out = RK_STR_INIT;

	at = at ? memmem(at, (size_t)(end - at), "content: |\n", 11) : NULL;
	if (!at)
		return NULL;
	for (at += 11; (size_t)(end - at) > strlen(indent) && memcmp(at, indent, strlen(indent)) == 0;) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		if (!stop)
			break;
		at += strlen(indent);
		rk_str_addn(&out, at, (size_t)(stop - at + 1));
		at = stop + 1;
	}
	return rk_str_steal(&out);
}

static int volume_upload(struct rk_hv *hv, int tray, const char *pool, const char *name, const struct rk_hv_upload *up, struct rk_err *err)
{
	char *value RK_CLEANUP_FREE = rk_xasprintf("%llu", (unsigned long long)up->bytes);
	int rc = set_volume(hv, tray, "hv.volume_upload", pool, name, value, NULL, NULL, err);

	if (!rc && !up->progress(up->ctx, up->bytes))
		rc = rk_err_set(err, RK_CANCELLED, "tray \"%s\": stopped", tray_name(hv, tray));
	return rc;
}

static int volume_put(struct rk_hv *hv, int tray, const char *pool, const char *name, const void *data, size_t len, struct rk_err *err)
{
	char *value RK_CLEANUP_FREE = rk_xasprintf("%zu", len), *key RK_CLEANUP_FREE = rk_xasprintf("seed:%s", tray_name(hv, tray));
	char *nodes RK_CLEANUP_FREE = imex_of_seed(data, len);

	return set_volume(hv, tray, "hv.volume_put", pool, name, value, nodes ? key : NULL, nodes, err);
}

static int volume_delete(struct rk_hv *hv, int tray, const char *pool, const char *name, struct rk_err *err)
{
	return set_volume(hv, tray, "hv.volume_delete", pool, name, NULL, NULL, NULL, err);
}

static int scrub(struct rk_hv *hv, int tray, struct rk_err *err)
{
	struct rk_sim_call call;
	int rc = rk_sim_enter(of(hv), &call, "hv.scrub", tray_name(hv, tray), false, err);

	if (rc)
		return rc;
	if (one_runs(call.sim, hv, tray, ""))
		rc = rk_err_set(err, RK_FAILED, "a guest still uses the drives of tray %s", tray_name(hv, tray));
	return rk_sim_leave(&call, rc, err);
}

static void hv_free(struct rk_hv *hv)
{
	free(hv);
}

static const struct rk_hv_ops ops = {
	.probe = probe,
	.devices = devices,
	.domain_get = domain_get,
	.domain_list = domain_list,
	.define = define,
	.start = start,
	.shutdown = ask_shutdown,
	.destroy = destroy,
	.undefine = undefine,
	.volume_get = volume_get,
	.volume_list = volume_list,
	.volume_overlay = volume_overlay,
	.volume_upload = volume_upload,
	.volume_put = volume_put,
	.volume_delete = volume_delete,
	.scrub = scrub,
	.free = hv_free,
};

int rk_sim_hv(struct rk_sim *sim, const struct rk_driver_env *env, struct rk_hv **ret, struct rk_err *err)
{
	struct sim_hv *hv = rk_xcalloc(1, sizeof(*hv));

	(void)err;
	hv->hv = (struct rk_hv){ &ops, env->site };
	hv->sim = sim;
	*ret = &hv->hv;
	return 0;
}
