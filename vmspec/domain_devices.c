#include <stdio.h>

#include "vmspec/domain_impl.h"

enum { BUS_FIRST = 32, BUS_STEP = 8, SLOT_FIRST = 0x0a, SPARE_PORTS = 6 };

static const char *kind_name(char kind)
{
	return kind == 'g' ? "gpu" : kind == 'h' ? "hca" : "nvme";
}

static int add(struct rk_domain *d, struct rk_passed *list, size_t *n, const char *pci, struct rk_passed device, struct rk_err *err)
{
	const char *tray = d->in->site->trays[d->in->tray].name;
	int end = 0;

	if (!pci || sscanf(pci, "%4x:%2x:%2x.%1x%n", &device.domain, &device.bus, &device.slot, &device.function, &end) != 4 || pci[end] ||
	    device.slot > 31 || device.function > 7)
		return rk_err_set(err, RK_INVALID, "%s %d of tray %s has no usable PCI address (\"%s\")", kind_name(device.kind), device.index, tray,
				  pci ? pci : "");
	for (size_t i = 0; i < *n; i++)
		if (list[i].domain == device.domain && list[i].bus == device.bus && list[i].slot == device.slot && list[i].function == device.function)
			return rk_err_set(err, RK_INVALID, "tray %s has PCI address %s twice: %s %d and %s %d", tray, pci, kind_name(list[i].kind),
					  list[i].index, kind_name(device.kind), device.index);
	list[(*n)++] = device;
	return 0;
}

/* A value of the profile is what such trays usually have; the operator is told when nobody has seen the device on this one. */
static const char *own_or_profile(struct rk_domain *d, const char *own, const char *profile, bool seen, const char *what, int index)
{
	if ((own && !rk_streq(own, profile)) || !profile)
		return own;
	if (d->notes && !seen)
		rk_str_addf(d->notes, "tray %s: %s %d at %s is the profile's address, never confirmed on the tray\n",
			    d->in->site->trays[d->in->tray].name, what, index, profile);
	return profile;
}

static bool takes_virtual(const struct rk_size *size)
{
	return rk_streq(size->variant, "sriov-vf");
}

/* The port GUID of a virtual function is zero until the host has set it, and no key reaches a port without one. */
static int check_virtual(struct rk_domain *d, const struct rk_passed *p, const char *pci, const struct rk_hca *hca, struct rk_err *err)
{
	const char *tray = d->in->site->trays[d->in->tray].name, *size = d->in->size->name;

	if (!p->slot && !p->function)
		rk_err_set(err, RK_INVALID, "size \"%s\" takes virtual functions of the HCAs, HCA %d of tray %s is known as the physical one %s only", size,
			   p->index, tray, pci);
	else if (!hca->port_guid)
		rk_err_set(err, RK_INVALID, "size \"%s\" takes virtual functions of the HCAs, that of HCA %d of tray %s, %s, has no port GUID known", size,
			   p->index, tray, pci);
	else {
		if (d->notes)
			rk_str_addf(d->notes, "tray %s: HCA %d at %s is a virtual function: the host sets its GUIDs and its link policy before the guest starts\n",
				    tray, p->index, pci);
		return 0;
	}
	rk_err_hint(err, "on the host: sriov_numvfs, node and port GUID, policy Follow; in the site file: \"pci\" and \"portGuid\" of the function");
	return RK_INVALID;
}

static int check_hca(struct rk_domain *d, const struct rk_passed *p, const char *pci, const struct rk_hca *hca, struct rk_err *err)
{
	if (takes_virtual(d->in->size))
		return check_virtual(d, p, pci, hca, err);
	if (!p->slot && !p->function)
		return 0;
	rk_err_set(err, RK_INVALID, "HCA %d of tray %s is known as %s, which is no function 0: size \"%s\" takes whole HCAs", p->index,
		   d->in->site->trays[d->in->tray].name, pci, d->in->size->name);
	rk_err_hint(err, "a size of the site with \"variant\": \"sriov-vf\" takes virtual functions");
	return RK_INVALID;
}

static int check_enough(const struct rk_size *size, const struct rk_tray *tray, const struct rk_profile *profile, struct rk_err *err)
{
	if (size->profile && !rk_streq(size->profile, profile->name))
		return rk_err_set(err, RK_INVALID, "size \"%s\" is made for racks of profile \"%s\", tray %s is in one of \"%s\"", size->name, size->profile,
				  tray->name, profile->name);
	if (size->gpus > profile->gpus_per_tray || size->hcas > profile->hcas_per_tray)
		return rk_err_set(err, RK_INVALID, "size \"%s\" wants %d GPUs and %d HCA ports, a tray of profile \"%s\" has %d and %d", size->name,
				  size->gpus, size->hcas, profile->name, profile->gpus_per_tray, profile->hcas_per_tray);
	if (tray->n_nvme >= size->nvme)
		return 0;
	rk_err_set(err, RK_INVALID, "size \"%s\" passes %d NVMe drives through, tray %s has %d known", size->name, size->nvme, tray->name, tray->n_nvme);
	rk_err_hint(err, "give their PCI addresses in the site file: \"nvme\": [\"DDDD:BB:SS.F\", ...] of the tray or in \"defaults\"");
	return RK_INVALID;
}

static int pass_hca(struct rk_domain *d, const struct rk_profile *profile, int i, struct rk_passed list[RK_PASSED_MAX], size_t *n, struct rk_err *err)
{
	static const struct rk_hca unknown = { 0 };
	const struct rk_tray *tray = &d->in->site->trays[d->in->tray];
	const struct rk_hca *hca = i < tray->n_hcas ? &d->in->site->hcas[tray->first_hca + i] : &unknown;
	const char *pci = own_or_profile(d, hca->pci, profile->hca_pci[i], hca->port_guid, "HCA", i);
	int rc = add(d, list, n, pci, (struct rk_passed){ 'h', i, profile->hca_numa[i], 0, 0, 0, 0 }, err);

	return rc ? rc : check_hca(d, &list[*n - 1], pci, hca, err);
}

int rk_domain_passed(struct rk_domain *d, struct rk_passed list[RK_PASSED_MAX], size_t *ret_n, struct rk_err *err)
{
	const struct rk_site *site = d->in->site;
	const struct rk_size *size = d->in->size;
	const struct rk_tray *tray = &site->trays[d->in->tray];
	const struct rk_profile *profile = &site->profiles[site->racks[tray->rack].profile];
	int rc = check_enough(size, tray, profile, err);

	*ret_n = 0;
	for (int i = 0; i < size->gpus && !rc; i++) {
		const struct rk_gpu *gpu = i < tray->n_gpus ? &site->gpus[tray->first_gpu + i] : NULL;
		const char *pci = own_or_profile(d, gpu ? gpu->pci : NULL, profile->gpu_pci[i], gpu && (gpu->uuid || gpu->serial), "GPU", i);
		rc = add(d, list, ret_n, pci, (struct rk_passed){ 'g', i, profile->gpu_numa[i], 0, 0, 0, 0 }, err);
	}
	for (int i = 0; i < size->hcas && !rc; i++)
		rc = pass_hca(d, profile, i, list, ret_n, err);
	for (int i = 0; i < size->nvme && !rc; i++)
		rc = add(d, list, ret_n, tray->nvme[i], (struct rk_passed){ 'n', i, i * profile->sockets / tray->n_nvme, 0, 0, 0, 0 }, err);
	return rc;
}

static void address(rk_xnode *parent, const char *type, unsigned domain, unsigned bus, unsigned slot, unsigned function)
{
	rk_xnode *node = rk_x(parent, "address", "type", type, NULL);

	rk_xattr(node, "domain", "0x%04x", domain);
	rk_xattr(node, "bus", "0x%02x", bus);
	rk_xattr(node, "slot", "0x%02x", slot);
	rk_xattr(node, "function", "0x%x", function);
}

static rk_xnode *controller(struct rk_domain *d, unsigned index, const char *model)
{
	rk_xnode *node = rk_x(d->devices, "controller", "type", "pci", NULL);

	rk_xattr(node, "index", "%u", index);
	rk_xattr(node, "model", "%s", model);
	return node;
}

/* Device n: expander bus of index 2n+1 with a range of bus numbers of its own, and its root port, index 2n+2. */
static void port_pair(struct rk_domain *d, unsigned n, int node)
{
	rk_xnode *pxb = controller(d, 2 * n + 1, "pcie-expander-bus"), *target, *port;

	rk_x(pxb, "model", "name", "pxb-pcie", NULL);
	target = rk_x(pxb, "target", NULL);
	rk_xattr(target, "busNr", "%u", BUS_FIRST + BUS_STEP * n);
	rk_xtext(rk_x(target, "node", NULL), "%d", node);
	address(pxb, "pci", 0, 0, SLOT_FIRST + n, 0);
	port = controller(d, 2 * n + 2, "pcie-root-port");
	rk_x(port, "model", "name", "pcie-root-port", NULL);
	target = rk_x(port, "target", NULL);
	rk_xattr(target, "chassis", "%u", n + 1);
	rk_xattr(target, "port", "0x0");
	rk_xattr(target, "hotplug", "off");
	address(port, "pci", 0, 2 * n + 1, 0, 0);
}

static void host_device(struct rk_domain *d, const struct rk_passed *p, unsigned n, int cells)
{
	rk_xnode *dev = rk_x(d->devices, "hostdev", "mode", "subsystem", "type", "pci", "managed", "yes", NULL);

	rk_x(dev, "driver", "model", p->kind == 'g' ? "nvgrace_gpu_vfio_pci" : NULL, "iommufd", "yes", NULL);
	address(rk_x(dev, "source", NULL), NULL, p->domain, p->bus, p->slot, p->function);
	rk_xattr(rk_x(dev, "alias", NULL), "name", "ua-%s%d", kind_name(p->kind), p->index);
	rk_x(dev, "rom", "bar", "off", NULL);
	if (p->kind == 'g')
		rk_xattr(rk_x(dev, "acpi", NULL), "nodeset", "%d-%d", cells + p->index * RK_GI_PER_GPU, cells + (p->index + 1) * RK_GI_PER_GPU - 1);
	address(dev, "pci", 0, 2 * n + 2, 0, 0);
}

void rk_domain_pci(struct rk_domain *d, const struct rk_passed *list, size_t n, int cells, uint64_t hole_kib, bool cmdqv)
{
	rk_xtext(rk_x(controller(d, 0, "pcie-root"), "pcihole64", "unit", "KiB", NULL), "%llu", (unsigned long long)hole_kib);
	for (size_t i = 0; i < n; i++)
		port_pair(d, (unsigned)i, list[i].node);
	/* Ports for the virtio devices, so that libvirt does not put one on a passed-through device's bus. */
	for (unsigned i = 0; i < SPARE_PORTS; i++)
		rk_xattr(rk_x(controller(d, (unsigned)n * 2 + 1 + i, "pcie-root-port"), "target", NULL), "chassis", "%u", (unsigned)n + 1 + i);
	for (size_t i = 0; i < n; i++)
		host_device(d, &list[i], (unsigned)i, cells);
	/* One IOMMU per expander bus: a GPU and another device never share one. pciBus is the controller's index, not its bus number. */
	for (size_t i = 0; i < n; i++) {
		rk_xnode *driver = rk_x(rk_x(d->devices, "iommu", "model", "smmuv3", NULL), "driver", NULL);
		rk_xattr(driver, "pciBus", "%zu", 2 * i + 1);
		rk_xattr(driver, "accel", "on");
		if (cmdqv)
			rk_xattr(driver, "cmdqv", "on");
		rk_xattr(driver, "ats", "on");
		rk_xattr(driver, "ril", "off");
		rk_xattr(driver, "ssidsize", "20");
		rk_xattr(driver, "oas", "48");
	}
}
