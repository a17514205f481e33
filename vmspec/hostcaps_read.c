#include <string.h>

#include "vmspec/vmspec.h"
#include "vmspec/xmltree.h"

/* What a host says of itself: libvirt's capabilities and domain capabilities, as values. */

enum { PAGES_MAX = 1024 };

/* <enum name='NAME'><value>VALUE</value>: one value of a list of what the host has. */
static bool enum_has(rk_xnode *parent, const char *name, const char *value, struct rk_arena *arena)
{
	for (rk_xnode *e = rk_xchild(parent, "enum"); e; e = rk_xnext(e, "enum")) {
		if (!rk_streq(rk_xget(e, "@name", arena), name))
			continue;
		for (rk_xnode *v = rk_xchild(e, "value"); v; v = rk_xnext(v, "value"))
			if (rk_streq(rk_xget(v, "", arena), value))
				return true;
	}
	return false;
}

static uint64_t number(rk_xnode *node, const char *path, struct rk_arena *arena)
{
	const char *text = rk_xget(node, path, arena);
	uint64_t n = 0;

	return text && rk_parse_u64(text, &n) ? n : 0;
}

/* The smallest pages are the kernel's own, the others huge ones; a Grace host has nodes of GPU memory, too. */
static void read_pages(rk_xnode *topology, struct rk_arena *arena, struct rk_hostcaps *caps)
{
	struct rk_hostpages *list = rk_arena_array(arena, PAGES_MAX, sizeof(*list));
	size_t n = 0;

	for (rk_xnode *cell = rk_xchild(rk_xchild(topology, "cells"), "cell"); cell; cell = rk_xnext(cell, "cell"))
		for (rk_xnode *p = rk_xchild(cell, "pages"); p && n < PAGES_MAX; p = rk_xnext(p, "pages"))
			list[n++] = (struct rk_hostpages){ (int)number(cell, "@id", arena), number(p, "@size", arena), number(p, "", arena) };
	caps->pages = list;
	for (size_t i = 0; i < n; i++)
		if (list[i].kib > (uint64_t)caps->page_kib)
			list[caps->n_pages++] = list[i];
}

static void read_page_size(rk_xnode *cpu, struct rk_arena *arena, struct rk_hostcaps *caps)
{
	for (rk_xnode *p = rk_xchild(cpu, "pages"); p; p = rk_xnext(p, "pages")) {
		uint64_t kib = number(p, "@size", arena);
		if (kib && kib <= 1 << 20 && (!caps->page_kib || kib < (uint64_t)caps->page_kib))
			caps->page_kib = (int)kib;
	}
}

int rk_hostcaps_read(const char *host_xml, struct rk_arena *arena, struct rk_hostcaps *caps, struct rk_err *err)
{
	rk_xml *doc RK_CLEANUP_XML = NULL;
	int rc = rk_xml_parse("the capabilities of the host", host_xml, &doc, err);

	if (rc)
		return rc;
	rk_xnode *host = rk_xchild(rk_xroot(doc), "host");
	caps->arch = rk_xget(rk_xchild(host, "cpu"), "arch", arena);
	read_page_size(rk_xchild(host, "cpu"), arena, caps);
	read_pages(rk_xchild(host, "topology"), arena, caps);
	return 0;
}

int rk_hostcaps_read_domain(const char *domain_xml, struct rk_hostcaps *caps, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	rk_xml *doc RK_CLEANUP_XML = NULL;
	int rc = rk_xml_parse("the domain capabilities of the host", domain_xml, &doc, err);

	if (rc)
		return rc;
	rk_xnode *hostdev = rk_xchild(rk_xchild(rk_xroot(doc), "devices"), "hostdev");
	caps->vfio = enum_has(hostdev, "pciBackend", "vfio", arena);
	caps->iommufd = enum_has(hostdev, "iommufd", "yes", arena);
	return 0;
}

static void differs(struct rk_str *out, const char *what, const char *found, const char *declared)
{
	if (!rk_streq(found, declared))
		rk_str_addf(out, "%s%s %s where the site file says %s", out->len ? "; " : "", what, found ? found : "unknown", declared ? declared : "nothing");
}

const char *rk_hostcaps_difference(const struct rk_hostcaps *declared, const struct rk_hostcaps *probed, struct rk_arena *arena)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	char a[32], b[32];

	rk_version_text(probed->libvirt, a);
	rk_version_text(declared->libvirt, b);
	differs(&out, "libvirt", a, b);
	/* Who upgraded only one of the two sees which one. */
	if (out.len && probed->client && probed->client != probed->libvirt) {
		rk_version_text(probed->client, a);
		rk_str_addf(&out, " (the tray's daemon; the client library is %s)", a);
	}
	rk_version_text(probed->qemu, a);
	rk_version_text(declared->qemu, b);
	differs(&out, "QEMU", a, b);
	differs(&out, "architecture", probed->arch, declared->arch);
	if (probed->page_kib && probed->page_kib != declared->page_kib)
		rk_str_addf(&out, "%spages of %d KiB where the site file says %d", out.len ? "; " : "", probed->page_kib, declared->page_kib);
	return out.len ? rk_arena_strdup(arena, rk_str_text(&out)) : NULL;
}
