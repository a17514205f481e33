#include <stdio.h>
#include <string.h>

#include "inventory/base/json.h"
#include "vmspec/domain_impl.h"

/* "12.8.0" or "12.8" as libvirt counts versions; a packager's suffix after the numbers is passed over. */
static bool version(const char *text, unsigned long *ret)
{
	unsigned part[3] = { 0 };
	int n = text ? sscanf(text, "%3u.%3u.%3u", &part[0], &part[1], &part[2]) : 0;

	*ret = part[0] * 1000000UL + part[1] * 1000UL + part[2];
	return n >= 2;
}

bool rk_hostcaps_declared(const struct rk_site *site, struct rk_hostcaps *ret)
{
	const struct rk_hypervisor *h = &site->hypervisor;

	/* A hypervisor that is declared is one with KVM on its own architecture: nobody writes down an emulated rack. */
	*ret = (struct rk_hostcaps){ .arch = h->arch, .page_kib = h->page_kib, .kvm = true, .iommufd = true, .vfio = true };
	return version(h->libvirt, &ret->libvirt) && version(h->qemu, &ret->qemu) && h->arch;
}

/* What each element of the full form needs, as the field notes of libvirt and QEMU list it; 0: any version that racksh knows. */
static const struct {
	const char *element, *name; /* name: what a size calls it in "optional" */
	unsigned long libvirt, qemu;
} matrix[RK_ELEMENTS] = {
	[RK_EL_DRIVER_MODEL] = { "<hostdev><driver model>", "driverModel", 10000000, 0 },
	[RK_EL_CLUSTERS] = { "<topology clusters>", "clusters", 10001000, 0 },
	[RK_EL_RAS] = { "<features><ras>", "ras", 10004000, 0 },
	[RK_EL_ACPI_NODESET] = { "<hostdev><acpi nodeset>", "acpiNodeset", 11008000, 9002000 },
	[RK_EL_SMMU_BUS] = { "<iommu><driver pciBus>", "pciBus", 11010000, 10002000 },
	[RK_EL_IOMMUFD] = { "<iommufd enabled>", "iommufd", 12002000, 9000000 },
	/* The exact libvirt is not known: 11.3.0 does not have it, 12.8.0 does; reading back decides in between. */
	[RK_EL_PCIHOLE] = { "<pcihole64> of machine virt", "pcihole64", 11004000, 10000000 },
	[RK_EL_ACCEL] = { "<iommu><driver accel>", "accel", 12007000, 11000000 },
	[RK_EL_CMDQV] = { "<iommu><driver cmdqv>", "cmdqv", 12007000, 11001000 },
};

static bool optional(const struct rk_jnode *list, const char *name)
{
	RK_JEACH(it, list)
		if (rk_streq(rk_jstr(it), name))
			return true;
	return false;
}

static void lacks(struct rk_str *lines, const char *element, const char *program, unsigned long needed, unsigned long found)
{
	if (found < needed)
		rk_str_addf(lines, "%s%s needs %s %lu.%lu.%lu, found %lu.%lu.%lu", lines->len ? "; " : "", element, program, needed / 1000000,
			    needed / 1000 % 1000, needed % 1000, found / 1000000, found / 1000 % 1000, found % 1000);
}

int rk_hostcaps_check(const struct rk_hostcaps *caps, const struct rk_size *size, bool have[RK_ELEMENTS], struct rk_err *err)
{
	struct rk_str missing RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_json *json RK_CLEANUP_JSON = NULL;
	int rc = rk_json_parse(size->name, size->json, strlen(size->json), &json, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < RK_ELEMENTS; i++) {
		have[i] = caps->libvirt >= matrix[i].libvirt && caps->qemu >= matrix[i].qemu;
		if (have[i] || optional(rk_jget(rk_json_root(json), "optional"), matrix[i].name))
			continue;
		lacks(&missing, matrix[i].element, "libvirt", matrix[i].libvirt, caps->libvirt);
		lacks(&missing, matrix[i].element, "QEMU", matrix[i].qemu, caps->qemu);
	}
	if (caps->probed && !(caps->vfio && caps->iommufd))
		rk_str_addf(&missing, "%s%s needs a host kernel that offers it (IOMMU groups, /dev/vfio/vfio, /dev/iommu), found none", missing.len ? "; " : "",
			    caps->vfio ? "<iommufd enabled>" : "<hostdev>");
	if (!missing.len)
		return 0;
	rc = rk_err_set(err, RK_INVALID, "size \"%s\" cannot be expressed on this host: %s", size->name, rk_str_text(&missing));
	rk_err_hint(err, "update libvirt and QEMU of the tray to 12.7.0 and 11.1.0 or later");
	return rc;
}
