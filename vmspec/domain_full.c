#include <stdio.h>
#include <string.h>

#include "vmspec/domain_impl.h"

/* "0-3,72-75": the first count CPUs of each socket. */
static const char *reserved(struct rk_domain *d, const struct rk_shape *s, int first, int last)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	for (int i = first; i <= last; i++)
		rk_str_addf(&text, "%s%d-%d", i > first ? "," : "", i * s->host_cpus, i * s->host_cpus + RK_RESERVED_CORES - 1);
	return rk_arena_strdup(d->arena, rk_str_text(&text));
}

static void memory(struct rk_domain *d, const struct rk_shape *s)
{
	const char *nodes = s->cells > 1 ? rk_arena_printf(d->arena, "0-%d", s->cells - 1) : "0";
	rk_xnode *backing, *page, *tune;

	rk_xtext(rk_x(d->root, "memory", "unit", "KiB", NULL), "%llu", (unsigned long long)d->in->size->memory_mib * 1024);
	backing = rk_x(d->root, "memoryBacking", NULL);
	page = rk_x(rk_x(backing, "hugepages", NULL), "page", NULL);
	rk_xattr(page, "size", "%llu", (unsigned long long)s->page_kib);
	rk_xattr(page, "unit", "KiB");
	rk_xattr(page, "nodeset", "%s", nodes);
	rk_x(backing, "nosharepages", NULL);
	rk_x(backing, "locked", NULL);
	rk_x(backing, "allocation", "mode", "immediate", "threads", "16", NULL);
	tune = rk_x(d->root, "numatune", NULL);
	rk_x(tune, "memory", "mode", "strict", "nodeset", nodes, NULL);
	for (int i = 0; i < s->cells; i++) {
		const char *id = rk_arena_printf(d->arena, "%d", i);
		rk_x(tune, "memnode", "cellid", id, "mode", "strict", "nodeset", id, NULL);
	}
}

/* An element of the root that depends on the shape alone: from the memo when a VM of this shape came before. */
static void shaped(struct rk_domain *d, const struct rk_shape *s, rk_xnode *node, const char *name,
		   void (*fill)(struct rk_domain *d, const struct rk_shape *s, rk_xnode *node))
{
	struct rk_str key RK_CLEANUP_STR = RK_STR_INIT, text RK_CLEANUP_STR = RK_STR_INIT;

	if (!d->in->memo) {
		fill(d, s, node);
		return;
	}
	rk_str_addf(&key, "%s %d %d %d %d %llu", name, s->cells, s->vcpus, s->host_cpus, s->gpus, (unsigned long long)s->cell_kib);
	for (int i = 0; i < s->gpus; i++)
		rk_str_addf(&key, " %d", s->gpu_cell[i]);
	const char *known = rk_domain_memo_get(d->in->memo, rk_str_text(&key));
	if (known) {
		rk_xraw(node, known);
		return;
	}
	fill(d, s, node);
	rk_xinner(node, 1, &text);
	rk_domain_memo_put(d->in->memo, rk_str_text(&key), rk_str_text(&text));
}

static void pins(struct rk_domain *d, const struct rk_shape *s, rk_xnode *tune)
{
	for (int v = 0; v < s->vcpus * s->cells; v++) {
		rk_xnode *pin = rk_x(tune, "vcpupin", NULL);
		rk_xattr(pin, "vcpu", "%d", v);
		rk_xattr(pin, "cpuset", "%d", v / s->vcpus * s->host_cpus + RK_RESERVED_CORES + v % s->vcpus);
	}
	rk_x(tune, "emulatorpin", "cpuset", reserved(d, s, 0, s->cells - 1), NULL);
	for (int i = 0; i < s->cells; i++)
		rk_x(tune, "iothreadpin", "iothread", rk_arena_printf(d->arena, "%d", i + 1), "cpuset", reserved(d, s, i, i), NULL);
}

static void processors(struct rk_domain *d, const struct rk_shape *s)
{
	rk_xtext(rk_x(d->root, "vcpu", "placement", "static", NULL), "%d", d->in->size->vcpus);
	rk_xtext(rk_x(d->root, "iothreads", NULL), "%d", s->cells);
	shaped(d, s, rk_x(d->root, "cputune", NULL), "cputune", pins);
}

/* Distances of a Grace tray where the host's own were not read. */
static int distance(const struct rk_shape *s, int a, int b)
{
	int gpu_a = (a - s->cells) / RK_GI_PER_GPU, gpu_b = (b - s->cells) / RK_GI_PER_GPU;

	if (a == b)
		return 10;
	if (a < s->cells && b < s->cells)
		return 40;
	if (a < s->cells)
		return s->gpu_cell[gpu_b] == a ? 80 : 120;
	if (b < s->cells)
		return s->gpu_cell[gpu_a] == b ? 80 : 120;
	return gpu_a == gpu_b ? 11 : 40;
}

static void cells(const struct rk_shape *s, rk_xnode *numa)
{
	int n = s->cells + s->gpus * RK_GI_PER_GPU;
	char id[16], value[16];

	for (int i = 0; i < n; i++) {
		rk_xnode *cell = rk_x(numa, "cell", NULL), *distances;
		rk_xattr(cell, "id", "%d", i);
		if (i < s->cells)
			rk_xattr(cell, "cpus", "%d-%d", i * s->vcpus, (i + 1) * s->vcpus - 1);
		rk_xattr(cell, "memory", "%llu", i < s->cells ? (unsigned long long)s->cell_kib : 0ULL);
		rk_xattr(cell, "unit", "KiB");
		distances = rk_x(cell, "distances", NULL);
		for (int j = 0; j < n; j++) {
			snprintf(id, sizeof(id), "%d", j);
			snprintf(value, sizeof(value), "%d", distance(s, i, j));
			rk_x(distances, "sibling", "id", id, "value", value, NULL);
		}
	}
}

static void cpu(struct rk_domain *d, const struct rk_shape *s, rk_xnode *node)
{
	rk_xnode *topology = rk_x(node, "topology", NULL);

	(void)d;
	rk_xattr(topology, "sockets", "%d", s->cells);
	rk_xattr(topology, "dies", "1");
	rk_xattr(topology, "clusters", "1");
	rk_xattr(topology, "cores", "%d", s->vcpus);
	rk_xattr(topology, "threads", "1");
	cells(s, rk_x(node, "numa", NULL));
}

static void machine(struct rk_domain *d, const struct rk_shape *s)
{
	rk_xnode *system = rk_x(rk_x(d->root, "sysinfo", "type", "smbios", NULL), "system", NULL), *os, *features;
	const struct {
		const char *name, *value;
	} entries[] = {
		{ "manufacturer", "racksh" }, { "product", d->in->size->name }, { "serial", d->in->site->trays[d->in->tray].name }, { "uuid", d->in->uuid },
	};

	for (size_t i = 0; i < RK_ARRAY_SIZE(entries); i++)
		rk_xtext(rk_x(system, "entry", "name", entries[i].name, NULL), "%s", entries[i].value);
	os = rk_x(d->root, "os", "firmware", "efi", NULL);
	rk_xtext(rk_x(os, "type", "arch", "aarch64", "machine", "virt", NULL), "hvm");
	rk_x(rk_x(os, "firmware", NULL), "feature", "enabled", "no", "name", "secure-boot", NULL);
	rk_x(os, "smbios", "mode", "sysinfo", NULL);
	features = rk_x(d->root, "features", NULL);
	rk_x(features, "acpi", NULL);
	rk_x(features, "gic", "version", "3", NULL);
	rk_x(features, "ras", "state", "on", NULL);
	shaped(d, s, rk_x(d->root, "cpu", "mode", "host-passthrough", "check", "none", NULL), "cpu", cpu);
}

static void devices(struct rk_domain *d, const struct rk_shape *s, bool cmdqv)
{
	d->devices = rk_x(d->root, "devices", NULL);
	rk_domain_disks(d, "1");
	rk_domain_pci(d, s->passed, s->n_passed, s->cells, s->hole_kib, cmdqv);
	rk_x(d->devices, "controller", "type", "usb", "index", "0", "model", "none", NULL);
	rk_x(d->devices, "controller", "type", "virtio-serial", "index", "0", NULL);
	rk_domain_serial(d, rk_arena_printf(d->arena, "/var/log/libvirt/qemu/%s-serial.log", rk_vm_domain_name(d->arena, d->in->vm)));
	rk_xt(rk_x(d->devices, "rng", "model", "virtio", NULL), "backend", "/dev/urandom");
	rk_xattr(rk_xchild(rk_xchild(d->devices, "rng"), "backend"), "model", "random");
	rk_x(d->devices, "memballoon", "model", "none", NULL);
	rk_domain_network(d, "8");
}

int rk_domain_full(struct rk_domain *d, struct rk_err *err)
{
	struct rk_shape s = { 0 };
	bool have[RK_ELEMENTS];
	int rc = 0;

	if (!d->arm)
		rc = rk_err_set(err, RK_INVALID, "size \"%s\" is for aarch64, tray %s is %s", d->in->size->name, d->in->site->trays[d->in->tray].name,
				d->caps->arch);
	if (!rc)
		rc = rk_hostcaps_check(d->caps, d->in->size, have, err);
	if (!rc)
		rc = rk_domain_shape(d, &s, err);
	if (rc)
		return rc;
	memory(d, &s);
	processors(d, &s);
	rk_x(d->root, "iommufd", "enabled", "yes", NULL);
	machine(d, &s);
	rk_x(d->root, "clock", "offset", "utc", NULL);
	rk_xt(d->root, "on_poweroff", "destroy");
	rk_xt(d->root, "on_reboot", "restart");
	rk_xt(d->root, "on_crash", "destroy");
	devices(d, &s, have[RK_EL_CMDQV]);
	return rk_domain_check(d->root, s.cells + s.gpus * RK_GI_PER_GPU, d->arena, err);
}
