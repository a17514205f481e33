#include <stdio.h>

#include "vmspec/vmspec.h"

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
