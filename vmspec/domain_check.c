#include <stdio.h>
#include <string.h>

#include "vmspec/domain_impl.h"

/* What libvirt lets pass although QEMU refuses it, or the guest would not be isolated or fast. */

enum { PCI_MAX = 128, CELLS_MAX = 512 };

struct domain_facts {
	struct rk_arena *arena;
	rk_xnode *devices;
	uint64_t pxb_index[PCI_MAX], pxb_bus[PCI_MAX];
	size_t n_pxb;
	int cells, n_iommu, n_accel;
	struct rk_str found;
};

static void add(struct domain_facts *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct domain_facts *f, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	char *line RK_CLEANUP_FREE = rk_xvasprintf(format, ap);
	va_end(ap);
	rk_str_addf(&f->found, "%s%s", f->found.len ? "; " : "", line);
}

static uint64_t number(struct domain_facts *f, rk_xnode *node, const char *path)
{
	uint64_t n = UINT64_MAX;
	const char *text = rk_xget(node, path, f->arena);

	return text && rk_parse_u64(text, &n) ? n : UINT64_MAX;
}

static int pxb_of(const struct domain_facts *f, uint64_t index)
{
	for (size_t i = 0; i < f->n_pxb; i++)
		if (f->pxb_index[i] == index)
			return (int)i;
	return -1;
}

static void check_controllers(struct domain_facts *f)
{
	for (rk_xnode *c = rk_xchild(f->devices, "controller"); c; c = rk_xnext(c, "controller")) {
		uint64_t hole = number(f, c, "pcihole64"), bus;
		if (rk_xget(c, "pcihole64", f->arena) && (hole == UINT64_MAX || !hole || (hole & (hole - 1))))
			add(f, "pcihole64 \"%s\" KiB is no power of two", rk_xget(c, "pcihole64", f->arena));
		if (!rk_streq(rk_xget(c, "@model", f->arena), "pcie-expander-bus") || f->n_pxb == PCI_MAX)
			continue;
		bus = number(f, c, "target@busNr");
		/* An expander and its root port take two bus numbers. */
		for (size_t i = 0; i < f->n_pxb; i++)
			if ((bus > f->pxb_bus[i] ? bus - f->pxb_bus[i] : f->pxb_bus[i] - bus) < 2)
				add(f, "bus numbers %llu and %llu of expander buses overlap", (unsigned long long)f->pxb_bus[i], (unsigned long long)bus);
		f->pxb_bus[f->n_pxb] = bus;
		f->pxb_index[f->n_pxb++] = number(f, c, "@index");
	}
}

static void check_iommu(struct domain_facts *f, rk_xnode *iommu, bool taken[PCI_MAX])
{
	const char *bus = rk_xget(iommu, "driver@pciBus", f->arena), *oas = rk_xget(iommu, "driver@oas", f->arena);
	int pxb = bus ? pxb_of(f, number(f, iommu, "driver@pciBus")) : -1;

	if (bus && pxb < 0)
		add(f, "iommu pciBus %s is not the index of an expander bus", bus);
	if (pxb >= 0 && taken[pxb])
		add(f, "two iommus on pciBus %s", bus);
	if (pxb >= 0)
		taken[pxb] = true;
	if (!bus && f->n_iommu > 1)
		add(f, "an iommu without pciBus beside others");
	if (rk_xget(iommu, "driver@ssidsize", f->arena) && number(f, iommu, "driver@ssidsize") > 20)
		add(f, "iommu ssidsize %s is out of range 0..20", rk_xget(iommu, "driver@ssidsize", f->arena));
	if (oas && !rk_streq(oas, "44") && !rk_streq(oas, "48") && !rk_streq(oas, "auto"))
		add(f, "iommu oas %s is none of 44, 48, auto", oas);
}

static void check_iommus(struct domain_facts *f)
{
	bool taken[PCI_MAX] = { false };

	for (rk_xnode *i = rk_xchild(f->devices, "iommu"); i; i = rk_xnext(i, "iommu")) {
		f->n_iommu++;
		f->n_accel += rk_streq(rk_xget(i, "driver@accel", f->arena), "on");
	}
	for (rk_xnode *i = rk_xchild(f->devices, "iommu"); i; i = rk_xnext(i, "iommu"))
		check_iommu(f, i, taken);
}

/* Expander bus above a host device: through its root port. */
static int pxb_above(struct domain_facts *f, rk_xnode *hostdev)
{
	uint64_t bus = number(f, hostdev, "address@bus");

	for (rk_xnode *c = rk_xchild(f->devices, "controller"); c && bus != UINT64_MAX; c = rk_xnext(c, "controller"))
		if (rk_streq(rk_xget(c, "@type", f->arena), "pci") && number(f, c, "@index") == bus)
			return pxb_of(f, number(f, c, "address@bus"));
	return -1;
}

static void check_nodes(struct domain_facts *f, const char *nodeset, bool used[CELLS_MAX])
{
	int first = 0, last = 0, n = sscanf(nodeset, "%9d-%9d", &first, &last);

	if (n < 2)
		last = first;
	if (n < 1 || first < 0 || last < first || last >= f->cells) {
		add(f, "acpi nodeset \"%s\" is beyond the last of %d cells", nodeset, f->cells);
		return;
	}
	for (int i = first; i <= last; i++) {
		if (used[i]) {
			add(f, "cell %d belongs to two GPUs (acpi nodeset \"%s\")", i, nodeset);
			return;
		}
		used[i] = true;
	}
}

static void check_hostdevs(struct domain_facts *f)
{
	bool used[CELLS_MAX] = { false };
	char kinds[PCI_MAX] = { 0 };

	for (rk_xnode *h = rk_xchild(f->devices, "hostdev"); h; h = rk_xnext(h, "hostdev")) {
		const char *nodeset = rk_xget(h, "acpi@nodeset", f->arena);
		char kind = nodeset || rk_xget(h, "driver@model", f->arena) ? 'g' : 'o';
		int pxb = pxb_above(f, h);
		if (nodeset)
			check_nodes(f, nodeset, used);
		if (f->n_accel && !rk_streq(rk_xget(h, "driver@iommufd", f->arena), "yes"))
			add(f, "iommu accel needs iommufd on every host device, one has none");
		if (pxb >= 0 && kinds[pxb] && kinds[pxb] != kind)
			add(f, "a GPU and another device share the expander bus of index %llu and its iommu", (unsigned long long)f->pxb_index[pxb]);
		if (pxb >= 0)
			kinds[pxb] = kind;
	}
}

int rk_domain_check(rk_xnode *root, struct rk_arena *arena, struct rk_err *err)
{
	struct domain_facts f = { .arena = arena, .devices = rk_xchild(root, "devices") };
	rk_xnode *numa = rk_xchild(rk_xchild(root, "cpu"), "numa");
	int rc = 0;

	for (rk_xnode *c = rk_xchild(numa, "cell"); c && f.cells < CELLS_MAX; c = rk_xnext(c, "cell"))
		f.cells++;
	check_controllers(&f);
	check_iommus(&f);
	check_hostdevs(&f);
	if (f.found.len)
		rc = rk_err_set(err, RK_INVALID, "the domain would be refused by QEMU or not be isolated: %s", rk_str_text(&f.found));
	rk_str_clear(&f.found);
	return rc;
}
