#include <stdio.h>
#include <string.h>

#include "vmspec/domain_impl.h"

/* What libvirt lets pass although QEMU refuses it, or the guest would not be isolated or fast. */

enum { PCI_MAX = 256, CELLS_MAX = 512, SSIDSIZE_MAX = 20, BUSES_MAX = 256 };

struct controller {
	uint64_t index, above, bus; /* above: index of the controller it sits on; bus: first number of an expander */
	bool expander;
	char kind;                  /* of the devices below an expander: 'g' GPU, 'o' other, 0 none yet */
	bool iommu;
};

struct domain_facts {
	struct rk_arena *arena;
	rk_xnode *devices;
	struct controller pci[PCI_MAX];
	size_t n_pci;
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

static struct controller *controller_of(struct domain_facts *f, uint64_t index)
{
	for (size_t i = 0; i < f->n_pci; i++)
		if (f->pci[i].index == index)
			return &f->pci[i];
	return NULL;
}

static struct controller *expander_of(struct domain_facts *f, uint64_t index)
{
	struct controller *c = controller_of(f, index);

	return c && c->expander ? c : NULL;
}

/* ---- controllers --------------------------------------------------------------------------------------------------------------------- */

static void read_controller(struct domain_facts *f, rk_xnode *c)
{
	const char *hole = rk_xget(c, "pcihole64", f->arena);
	uint64_t kib = hole ? number(f, c, "pcihole64") : 1;

	if (kib == UINT64_MAX || !kib || (kib & (kib - 1)))
		add(f, "pcihole64 \"%s\" KiB is no power of two", hole);
	if (f->n_pci == PCI_MAX)
		return;
	f->pci[f->n_pci++] = (struct controller){
		.index = number(f, c, "@index"),
		.above = number(f, c, "address@bus"),
		.bus = number(f, c, "target@busNr"),
		.expander = rk_streq(rk_xget(c, "@model", f->arena), "pcie-expander-bus"),
	};
}

/* Bus numbers that an expander needs: its own and one for each port on it. */
static uint64_t width(const struct domain_facts *f, const struct controller *expander)
{
	uint64_t n = 1;

	for (size_t i = 0; i < f->n_pci; i++)
		n += f->pci[i].above == expander->index && f->pci[i].index != expander->index;
	return n;
}

static void check_buses(struct domain_facts *f)
{
	for (size_t i = 0; i < f->n_pci; i++) {
		const struct controller *a = &f->pci[i];
		if (!a->expander)
			continue;
		if (a->bus >= BUSES_MAX || a->bus + width(f, a) > BUSES_MAX)
			add(f, "the expander bus of index %llu has no bus numbers left before 256", (unsigned long long)a->index);
		for (size_t k = 0; k < f->n_pci; k++) {
			const struct controller *b = &f->pci[k];
			if (k != i && b->expander && a->bus <= b->bus && b->bus - a->bus < width(f, a) && (a->bus != b->bus || i < k))
				add(f, "bus numbers %llu and %llu of expander buses overlap: the first needs %llu", (unsigned long long)a->bus,
				    (unsigned long long)b->bus, (unsigned long long)width(f, a));
		}
	}
}

static void check_controllers(struct domain_facts *f)
{
	for (rk_xnode *c = rk_xchild(f->devices, "controller"); c; c = rk_xnext(c, "controller"))
		if (rk_streq(rk_xget(c, "@type", f->arena), "pci"))
			read_controller(f, c);
	check_buses(f);
}

/* ---- iommus -------------------------------------------------------------------------------------------------------------------------- */

static void check_iommu_place(struct domain_facts *f, rk_xnode *iommu)
{
	const char *bus = rk_xget(iommu, "driver@pciBus", f->arena);
	struct controller *expander = bus ? expander_of(f, number(f, iommu, "driver@pciBus")) : NULL;

	if (!bus && f->n_iommu > 1)
		add(f, "an iommu without pciBus beside others");
	if (!bus)
		return;
	if (!expander)
		add(f, "iommu pciBus %s is not the index of an expander bus", bus);
	else if (expander->iommu)
		add(f, "two iommus on pciBus %s", bus);
	else
		expander->iommu = true;
}

static void check_iommu(struct domain_facts *f, rk_xnode *iommu)
{
	const char *oas = rk_xget(iommu, "driver@oas", f->arena), *ssid = rk_xget(iommu, "driver@ssidsize", f->arena);

	check_iommu_place(f, iommu);
	if (ssid && number(f, iommu, "driver@ssidsize") > SSIDSIZE_MAX)
		add(f, "iommu ssidsize %s is out of range 0..%d", ssid, SSIDSIZE_MAX);
	if (oas && !rk_streq(oas, "44") && !rk_streq(oas, "48") && !rk_streq(oas, "auto"))
		add(f, "iommu oas %s is none of 44, 48, auto", oas);
}

static void check_iommus(struct domain_facts *f)
{
	for (rk_xnode *i = rk_xchild(f->devices, "iommu"); i; i = rk_xnext(i, "iommu")) {
		f->n_iommu++;
		f->n_accel += rk_streq(rk_xget(i, "driver@accel", f->arena), "on");
	}
	for (rk_xnode *i = rk_xchild(f->devices, "iommu"); i; i = rk_xnext(i, "iommu"))
		check_iommu(f, i);
}

/* ---- host devices -------------------------------------------------------------------------------------------------------------------- */

/* One range of "2-9,12"; the length of its text, 0: it is none within the cells. */
static int read_nodes(const struct domain_facts *f, const char *text, int *first, int *last)
{
	int length = 0;

	if (sscanf(text, "%9d-%9d%n", first, last, &length) < 2) {
		length = 0;
		if (sscanf(text, "%9d%n", first, &length) < 1)
			return 0;
		*last = *first;
	}
	return *first >= 0 && *last >= *first && *last < f->cells && *last < CELLS_MAX && (text[length] == ',' || !text[length]) ? length : 0;
}

static void check_nodes(struct domain_facts *f, const char *nodeset, bool used[CELLS_MAX])
{
	const char *at = nodeset;

	for (int first, last, length; (length = read_nodes(f, at, &first, &last)) > 0; at++) {
		at += length;
		for (int i = first; i <= last; i++) {
			if (used[i]) {
				add(f, "cell %d belongs to two GPUs (acpi nodeset \"%s\")", i, nodeset);
				return;
			}
			used[i] = true;
		}
		if (!*at)
			return;
	}
	add(f, "acpi nodeset \"%s\" is beyond the last of %d cells", nodeset, f->cells);
}

/* Expander bus above a host device: through its root port. */
static struct controller *expander_above(struct domain_facts *f, rk_xnode *hostdev)
{
	struct controller *port = controller_of(f, number(f, hostdev, "address@bus"));

	return port ? expander_of(f, port->above) : NULL;
}

static void check_hostdevs(struct domain_facts *f)
{
	bool used[CELLS_MAX] = { false };
	int without = 0;

	for (rk_xnode *h = rk_xchild(f->devices, "hostdev"); h; h = rk_xnext(h, "hostdev")) {
		const char *nodeset = rk_xget(h, "acpi@nodeset", f->arena);
		char kind = nodeset || rk_xget(h, "driver@model", f->arena) ? 'g' : 'o';
		struct controller *expander = expander_above(f, h);
		if (nodeset)
			check_nodes(f, nodeset, used);
		without += !rk_streq(rk_xget(h, "driver@iommufd", f->arena), "yes");
		if (expander && expander->kind && expander->kind != kind)
			add(f, "a GPU and another device share the expander bus of index %llu and its iommu", (unsigned long long)expander->index);
		if (expander)
			expander->kind = kind;
	}
	if (f->n_accel && without)
		add(f, "iommu accel needs iommufd on every host device, %d %s none", without, without == 1 ? "has" : "have");
}

int rk_domain_check(rk_xnode *root, int cells, struct rk_arena *arena, struct rk_err *err)
{
	struct domain_facts f = { .arena = arena, .devices = rk_xchild(root, "devices"), .cells = cells };
	rk_xnode *numa = rk_xchild(rk_xchild(root, "cpu"), "numa");
	int rc = 0;

	if (cells < 0) {
		f.cells = 0;
		for (rk_xnode *c = rk_xchild(numa, "cell"); c; c = rk_xnext(c, "cell"))
			f.cells++;
	}
	check_controllers(&f);
	check_iommus(&f);
	check_hostdevs(&f);
	if (f.found.len)
		rc = rk_err_set(err, RK_INVALID, "the domain would be refused by QEMU or not be isolated: %s", rk_str_text(&f.found));
	rk_str_clear(&f.found);
	return rc;
}
