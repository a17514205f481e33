#include <string.h>

#include "provision/discover.h"
#include "provision/steps.h"
#include "vmspec/xmltree.h"

/* Are the functions that a domain passes through on the tray at all? Better asked before a switch is touched than at the start of the guest. */

enum { CLASS_NVME = 0x0108 };

static bool there(const struct rk_seen_device *list, size_t n, const char *pci)
{
	for (size_t i = 0; i < n; i++)
		if (rk_streq(list[i].pci, pci))
			return true;
	return false;
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
	rk_err_set(err, RK_INVALID, "tray %s has no PCI function %s, which the VM needs as %s", j->tray_name, pci, rk_starts_with(alias, "ua-") ? alias + 3 : alias);
	rk_err_hint(err, "racksh site discover %s says what is there", j->tray_name);
	return RK_INVALID;
}

int rk_check_hostdevs(struct rk_world *world, struct rk_step *step, const struct rk_vm_job *j, const char *domain_xml, struct rk_err *err)
{
	rk_xml *doc RK_CLEANUP_XML = NULL;
	const char **xml;
	size_t n = 0, found = 0;
	int rc = rk_xml_parse("the domain", domain_xml, &doc, err);
	rk_xnode *first = rc ? NULL : rk_xchild(rk_xchild(rk_xroot(doc), "devices"), "hostdev");

	if (rc || !first)
		return rc;
	rc = world->hv->ops->devices(world->hv, j->tray, step->arena, &xml, &n, err);
	/* A libvirt without that driver: the start of the guest will tell. */
	if (rc == RK_INVALID)
		return rk_err_clear(err), 0;
	if (rc)
		return rc;
	struct rk_seen_device *list = rk_arena_array(step->arena, n, sizeof(*list));
	for (size_t i = 0; i < n; i++)
		found += rk_seen_parse_device(xml[i], step->arena, &list[found]);
	bool drives = lists_drives(list, found);
	for (rk_xnode *h = first; h; h = rk_xnext(h, "hostdev")) {
		const char *alias = rk_xget(h, "alias@name", step->arena), *pci = address_of(h, step->arena);
		/* The twin names no drive at all. */
		if (alias && pci && !there(list, found, pci) && (drives || !rk_starts_with(alias, "ua-nvme")))
			return missing(j, alias, pci, err);
	}
	return 0;
}
