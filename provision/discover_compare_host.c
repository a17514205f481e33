#include <stdio.h>
#include <string.h>

#include "inventory/base/json.h"
#include "provision/discover_impl.h"

/* What a host is besides its identities: versions, hypervisor, PCI functions, and who uses them. */

static void expect(struct rk_compare *c, int tray, const struct rk_jnode *versions, const char *key, const char *seen)
{
	const char *want = rk_jstr(rk_jget(versions, key)), *field = rk_arena_printf(c->arena, "versions.%s", key);

	if (want && seen && strcmp(want, seen) != 0)
		rk_propose(c, "look", c->site->trays[tray].name, field, rk_arena_strdup(c->arena, want), seen, "not the version that is expected here");
}

/* Where something is expected, what was seen is kept: placement looks at it (provision/place.h). What a silent host or switch did not tell stays as it
 * was known: a tray must not lose an old version by not answering. */
static void propose_versions(struct rk_compare *c, int tray, const char *driver, const char *nvos, const char *firmware)
{
	const struct rk_tray *t = &c->site->trays[tray];
	const struct {
		const char *key, *value;
	} rows[] = { { "driver", driver }, { "nvos", nvos }, { "hcaFirmware", firmware } };
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	RK_CLEANUP_JSON struct rk_json *known = NULL;
	struct rk_jw w;

	if (t->versions && rk_json_parse("versions", t->versions, strlen(t->versions), &known, NULL))
		known = NULL;
	rk_jw_init(&w, &out, 0);
	rk_jw_object(&w);
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		const char *value = rows[i].value || !known ? rows[i].value : rk_jstr(rk_jget(rk_json_root(known), rows[i].key));
		if (value) {
			rk_jw_key(&w, rows[i].key);
			rk_jw_str(&w, value);
		}
	}
	rk_jw_end(&w);
	if ((!driver && !nvos && !firmware) || rk_streq(rk_str_text(&out), t->versions))
		return;
	const char *text = rk_arena_strdup(c->arena, rk_str_text(&out));
	struct rk_proposal *p = rk_propose(c, t->versions ? "change" : "set", t->name, "versions", t->versions, text, "%s", t->versions ? "differs" : "was not known");
	p->edit = RK_EDIT_VERSIONS;
	p->index = p->tray = tray;
	p->text = text;
}

static void compare_versions(struct rk_compare *c, int tray, const struct rk_tray_view *v)
{
	const struct rk_tray *t = &c->site->trays[tray];
	const char *text = c->site->racks[t->rack].versions ? c->site->racks[t->rack].versions : c->site->versions, *firmware = NULL, *lowest = NULL;
	RK_CLEANUP_JSON struct rk_json *json = NULL;

	if (!text || rk_json_parse("versions", text, strlen(text), &json, NULL))
		return;
	/* Of ports that differ placement has to know the odd one out. */
	for (int h = 0; h < t->n_hcas; h++) {
		const char *told = v->ports[h] ? v->ports[h]->firmware : NULL;
		lowest = told && (!lowest || rk_natural_cmp(told, lowest) < 0) ? told : lowest;
	}
	propose_versions(c, tray, c->seen->trays[tray].driver, rk_seen_nvos(c, t->rack), lowest);
	expect(c, tray, rk_json_root(json), "driver", c->seen->trays[tray].driver);
	for (int h = 0; h < t->n_hcas; h++) {
		const char *told = v->ports[h] ? v->ports[h]->firmware : NULL;
		if (told && !rk_streq(told, firmware))
			expect(c, tray, rk_json_root(json), "hcaFirmware", told);
		firmware = told ? told : firmware;
	}
}

static const char *version_text(struct rk_compare *c, unsigned long version)
{
	return rk_arena_printf(c->arena, "%lu.%lu.%lu", version / 1000000, version / 1000 % 1000, version % 1000);
}

/* What libvirt answers wins over what the site file declares; a difference is told. */
static void compare_hypervisor(struct rk_compare *c, int tray)
{
	const struct rk_hostcaps *seen = &c->seen->trays[tray].caps;
	struct rk_hostcaps declared;
	const char *name = c->site->trays[tray].name;

	if (c->seen->trays[tray].hv_why || !rk_hostcaps_declared(c->site, &declared))
		return;
	const struct {
		const char *field, *want, *is;
		bool differs;
	} rows[] = {
		{ "hypervisor.libvirt", version_text(c, declared.libvirt), version_text(c, seen->libvirt), declared.libvirt != seen->libvirt },
		{ "hypervisor.qemu", version_text(c, declared.qemu), version_text(c, seen->qemu), seen->qemu && declared.qemu != seen->qemu },
		{ "hypervisor.arch", declared.arch, seen->arch, !rk_streq(declared.arch, seen->arch) },
		{ "hypervisor.pageKiB", rk_arena_printf(c->arena, "%d", declared.page_kib), rk_arena_printf(c->arena, "%d", seen->page_kib),
		  seen->page_kib && declared.page_kib != seen->page_kib },
	};
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++)
		if (rows[i].differs)
			rk_propose(c, "look", name, rows[i].field, rows[i].want, rows[i].is, "what libvirt answers is used, not what the site file declares");
}

static const struct rk_seen_device *device_at(const struct rk_seen_tray *s, const char *pci)
{
	for (size_t i = 0; i < s->n_devices; i++)
		if (pci && rk_streq(s->devices[i].pci, pci))
			return &s->devices[i];
	return NULL;
}

static void compare_device(struct rk_compare *c, int tray, const char *object, const char *pci, int numa)
{
	const struct rk_seen_tray *s = &c->seen->trays[tray];
	const struct rk_seen_device *d = pci ? device_at(s, pci) : NULL;
	char want[16], is[16];

	if (!pci || !s->n_devices)
		return;
	if (!d) {
		rk_propose(c, "repair", object, "pci", pci, NULL, "libvirt has no PCI function at this address");
		return;
	}
	snprintf(want, sizeof(want), "%d", numa);
	snprintf(is, sizeof(is), "%d", d->numa);
	if (d->numa >= 0 && d->numa != numa)
		rk_propose(c, "look", object, "numa", rk_arena_strdup(c->arena, want), rk_arena_strdup(c->arena, is), "not the NUMA node of the rack profile");
	if (d->group_size > 1)
		rk_propose(c, "look", object, "iommuGroup", "1", rk_arena_printf(c->arena, "%d", d->group_size),
			   "shares IOMMU group %d: it can only be given to a guest together with the others", d->iommu_group);
}

/* A domain that racksh did not make, with one of the tray's devices. */
static void compare_users(struct rk_compare *c, int tray, const char *object, const char *pci)
{
	const struct rk_seen_tray *s = &c->seen->trays[tray];
	unsigned domain, bus, slot, function;

	if (!pci || sscanf(pci, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4)
		return;
	char *address RK_CLEANUP_FREE = rk_xasprintf("<address domain='0x%04x' bus='0x%02x' slot='0x%02x' function='0x%x'", domain, bus, slot, function);
	for (size_t i = 0; i < s->n_domains; i++)
		for (const char *at = s->domains[i].xml; !s->domains[i].ours && at && (at = strstr(at, "<source>")); at++) {
			const char *end = strstr(at, "</source>"), *hit = strstr(at, address);
			if (end && hit && hit < end)
				rk_propose(c, "look", object, "user", NULL, s->domains[i].name, "the domain \"%s\", which racksh did not make, has this device", s->domains[i].name);
		}
}

/* What more than half of the GPUs are bound to; NULL: they do not agree, or nobody told. */
static const char *usual_driver(const struct rk_compare *c, int tray)
{
	const struct rk_tray *t = &c->site->trays[tray];
	const struct rk_seen_tray *s = &c->seen->trays[tray];

	for (int g = 0; g < t->n_gpus; g++) {
		const struct rk_seen_device *d = device_at(s, c->site->gpus[t->first_gpu + g].pci);
		int same = 0;
		for (int k = 0; d && d->driver && k < t->n_gpus; k++) {
			const struct rk_seen_device *other = device_at(s, c->site->gpus[t->first_gpu + k].pci);
			same += other && rk_streq(other->driver, d->driver);
		}
		if (same * 2 > t->n_gpus)
			return d->driver;
	}
	return NULL;
}

/* A guest's device belongs to vfio-pci; and the GPUs of a tray are given and taken together. */
static void compare_driver(struct rk_compare *c, int tray, const char *object, const char *pci, const char *usual)
{
	const struct rk_tray *t = &c->site->trays[tray];
	const struct rk_seen_device *d = pci ? device_at(&c->seen->trays[tray], pci) : NULL;
	bool held = t->vm >= 0 && c->site->vms[t->vm].state == RK_VM_RUNNING;

	if (!d || !d->driver)
		return;
	if (held && !rk_streq(d->driver, "vfio-pci"))
		rk_propose(c, "look", object, "driver", "vfio-pci", d->driver, "VM %s is to have it, but this driver of the host is bound to it", c->site->vms[t->vm].name);
	else if (usual && !rk_streq(d->driver, usual))
		rk_propose(c, "look", object, "driver", usual, d->driver, "most GPUs of the tray are bound to another driver");
}

static int functions_there(const struct rk_compare *c, int tray)
{
	const struct rk_tray *t = &c->site->trays[tray];
	const struct rk_seen_tray *s = &c->seen->trays[tray];
	int n = 0;

	for (int g = 0; g < t->n_gpus; g++)
		n += device_at(s, c->site->gpus[t->first_gpu + g].pci) != NULL;
	for (int h = 0; h < t->n_hcas; h++)
		n += device_at(s, c->site->hcas[t->first_hca + h].pci) != NULL;
	return n;
}

static void compare_devices(struct rk_compare *c, int tray)
{
	const struct rk_tray *t = &c->site->trays[tray];
	const struct rk_profile *p = &c->site->profiles[c->site->racks[t->rack].profile];

	/* A host without any of them tells nothing about them: a hypervisor elsewhere, or another machine altogether. */
	if (c->seen->trays[tray].n_devices && !functions_there(c, tray)) {
		rk_propose(c, "unknown", t->name, "pci", NULL, NULL, "libvirt has none of the PCI functions that are recorded: is this host a tray?");
		c->ret->unread++;
		c->ret->asked++;
		return;
	}
	const char *usual = usual_driver(c, tray);
	for (int g = 0; g < t->n_gpus; g++) {
		const char *object = rk_arena_printf(c->arena, "%s gpu %d", t->name, g);
		compare_driver(c, tray, object, c->site->gpus[t->first_gpu + g].pci, usual);
		compare_device(c, tray, object, c->site->gpus[t->first_gpu + g].pci, p->gpu_numa[g]);
		compare_users(c, tray, object, c->site->gpus[t->first_gpu + g].pci);
	}
	for (int h = 0; h < t->n_hcas; h++) {
		const char *object = rk_arena_printf(c->arena, "%s rail %d", t->name, h);
		compare_driver(c, tray, object, c->site->hcas[t->first_hca + h].pci, NULL);
		compare_device(c, tray, object, c->site->hcas[t->first_hca + h].pci, p->hca_numa[h]);
		compare_users(c, tray, object, c->site->hcas[t->first_hca + h].pci);
	}
}

void rk_compare_host(struct rk_compare *c, int tray, const struct rk_tray_view *v)
{
	compare_versions(c, tray, v);
	compare_hypervisor(c, tray);
	compare_devices(c, tray);
}

static bool tells_pages(const struct rk_compare *c, int tray)
{
	const struct rk_seen_tray *s = &c->seen->trays[tray];

	return s->asked && !s->host_why && !s->sysfs_why;
}

/* What more than half of a rack's trays have; 0: they do not agree. The candidate is found by pairing off what differs, then counted. */
static uint64_t usual_pages(const struct rk_compare *c, const struct rk_rack *r)
{
	uint64_t usual = 0;
	int lead = 0, told = 0, same = 0;

	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++) {
		uint64_t kib = c->seen->trays[t].huge_kib;
		if (!tells_pages(c, t))
			continue;
		told++;
		usual = lead ? usual : kib;
		lead += kib == usual ? 1 : -1;
	}
	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++)
		same += tells_pages(c, t) && c->seen->trays[t].huge_kib == usual;
	return same * 2 > told ? usual : 0;
}

void rk_compare_pages(struct rk_compare *c, const int *trays, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct rk_tray *t = &c->site->trays[trays[i]];
		const struct rk_rack *r = &c->site->racks[t->rack];
		uint64_t mine = c->seen->trays[trays[i]].huge_kib, usual = usual_pages(c, r);
		if (!tells_pages(c, trays[i]) || !usual || mine == usual)
			continue;
		rk_propose(c, "look", t->name, "hugePages", rk_arena_printf(c->arena, "%llu MiB", (unsigned long long)usual >> 10),
			   rk_arena_printf(c->arena, "%llu MiB", (unsigned long long)mine >> 10), "most trays of rack %s have another amount of huge pages", r->name);
	}
}
