#include <string.h>

#include "provision/discover.h"
#include "provision/steps.h"

/* Are the functions that a domain passes through on the tray at all? Better asked before a switch is touched than at the start of the guest. */

enum { CLASS_NVME = 0x0108, CLASS_BRIDGE = 0x06 };

static const struct rk_seen_device *find(const struct rk_seen_device *list, size_t n, const char *pci)
{
	for (size_t i = 0; i < n; i++)
		if (rk_streq(list[i].pci, pci))
			return &list[i];
	return NULL;
}

static bool lists_drives(const struct rk_seen_device *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].class >> 8 == CLASS_NVME)
			return true;
	return false;
}

/* "0008:06:00.0" of <address domain='0x0008' bus='0x06' .../> */
static const char *address_of(rk_xnode *hostdev, struct rk_arena *arena)
{
	static const char *const parts[] = { "source/address@domain", "source/address@bus", "source/address@slot", "source/address@function" };
	uint64_t v[4] = { 0 };

	for (size_t i = 0; i < RK_ARRAY_SIZE(parts); i++) {
		const char *text = rk_xget(hostdev, parts[i], arena);
		if (!text || !rk_parse_u64(text, &v[i]))
			return NULL;
	}
	return rk_arena_printf(arena, "%04x:%02x:%02x.%x", (unsigned)v[0], (unsigned)v[1], (unsigned)v[2], (unsigned)v[3]);
}

static int missing(const struct rk_vm_job *j, const char *alias, const char *pci, struct rk_err *err)
{
	rk_err_set(err, RK_INVALID, "tray %s has no PCI function %s, which the VM needs as %s", j->tray_name, pci, alias);
	rk_err_hint(err, "racksh site discover %s says what is there", j->tray_name);
	return RK_INVALID;
}

/* *ret: the functions of the tray, parsed; NULL without an error: this libvirt cannot tell. */
static int read_devices(struct rk_world *world, int tray, struct rk_arena *arena, struct rk_seen_device **ret, size_t *ret_n, struct rk_err *err)
{
	const char **xml;
	size_t n = 0;
	int rc = world->hv->ops->devices(world->hv, tray, arena, &xml, &n, err);

	*ret = NULL;
	*ret_n = 0;
	if (rc == RK_INVALID)
		return rk_err_clear(err), 0;
	if (rc)
		return rc;
	*ret = rk_arena_array(arena, n + 1, sizeof(**ret));
	for (size_t i = 0; i < n; i++)
		*ret_n += rk_seen_parse_device(xml[i], arena, &(*ret)[*ret_n]);
	return 0;
}

struct passed {
	const char *alias, *pci;
};

static bool passes(const struct passed *list, size_t n, const char *pci)
{
	for (size_t i = 0; i < n; i++)
		if (rk_streq(list[i].pci, pci))
			return true;
	return false;
}

/* VFIO gives the devices of an IOMMU group to one guest or to none; bridges stay with the host. */
static int check_group(const struct rk_vm_job *j, const struct passed *passed, size_t n_passed, const struct passed *of, const struct rk_seen_device *list,
		       size_t n, struct rk_err *err)
{
	const struct rk_seen_device *own = find(list, n, of->pci);

	for (size_t i = 0; own && own->iommu_group >= 0 && i < n; i++) {
		if (list[i].iommu_group != own->iommu_group || list[i].class >> 16 == CLASS_BRIDGE || passes(passed, n_passed, list[i].pci))
			continue;
		rk_err_set(err, RK_INVALID, "tray %s: PCI function %s, which the VM needs as %s, is in IOMMU group %d together with %s, which it does not get",
			   j->tray_name, of->pci, of->alias, own->iommu_group, list[i].pci);
		rk_err_hint(err, "a group goes to a guest as a whole: ACS of the switches above them (firmware, kernel) makes groups smaller");
		return RK_INVALID;
	}
	return 0;
}

static struct passed *passed_through(rk_xnode *devices, struct rk_arena *arena, size_t *ret_n)
{
	size_t n = 0;

	for (rk_xnode *h = rk_xchild(devices, "hostdev"); h; h = rk_xnext(h, "hostdev"))
		n++;
	struct passed *list = rk_arena_array(arena, n + 1, sizeof(*list));
	*ret_n = 0;
	for (rk_xnode *h = rk_xchild(devices, "hostdev"); h; h = rk_xnext(h, "hostdev")) {
		const char *alias = rk_xget(h, "alias@name", arena), *pci = address_of(h, arena);
		if (alias && pci)
			list[(*ret_n)++] = (struct passed){ rk_starts_with(alias, "ua-") ? alias + 3 : alias, pci };
	}
	return list;
}

int rk_check_hostdevs(struct rk_world *world, struct rk_step *step, const struct rk_vm_job *j, rk_xnode *root, struct rk_err *err)
{
	struct rk_seen_device *list;
	size_t found, n;
	const struct passed *passed = passed_through(rk_xchild(root, "devices"), step->arena, &n);

	if (!n)
		return 0;
	int rc = read_devices(world, j->tray, step->arena, &list, &found, err);
	/* A libvirt without that driver: the start of the guest will tell. */
	if (rc || !list)
		return rc;
	bool drives = lists_drives(list, found);
	for (size_t i = 0; !rc && i < n; i++) {
		/* The twin names no drive at all. */
		if (!find(list, found, passed[i].pci) && (drives || !rk_starts_with(passed[i].alias, "nvme")))
			return missing(j, passed[i].alias, passed[i].pci, err);
		rc = check_group(j, passed, n, &passed[i], list, found, err);
	}
	return rc;
}

/* Of what the store has on a tray: GPUs and HCAs that are passed through. What was never read is no reason. */
static const char *first_absent(const struct rk_site *site, int tray, const struct rk_seen_device *list, size_t n, struct rk_arena *arena)
{
	const struct rk_tray *t = &site->trays[tray];

	for (int i = 0; i < t->n_gpus + t->n_hcas; i++) {
		bool gpu = i < t->n_gpus;
		int index = gpu ? i : i - t->n_gpus;
		const char *pci = gpu ? site->gpus[t->first_gpu + index].pci : site->hcas[t->first_hca + index].pci;
		if (pci && !find(list, n, pci))
			return rk_arena_printf(arena, "no PCI function %s (%s%d)", pci, gpu ? "gpu" : "hca", index);
	}
	return NULL;
}

int rk_tray_lacks(struct rk_world *world, int tray, struct rk_arena *arena, const char **ret, struct rk_err *err)
{
	const char *uri = world->site->trays[tray].libvirt_uri;
	struct rk_seen_device *list;
	size_t n;

	*ret = NULL;
	/* libvirt's test driver stands in for a tray, with devices of its own invention. */
	if (uri && rk_starts_with(uri, "test:"))
		return 0;
	int rc = read_devices(world, tray, arena, &list, &n, err);
	if (!rc && list)
		*ret = first_absent(world->site, tray, list, n, arena);
	return rc;
}
