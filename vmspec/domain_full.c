#include <stdio.h>
#include <string.h>

#include "inventory/base/json.h"
#include "vmspec/domain_impl.h"

enum { RESERVED_CORES = 4 }; /* per socket, for the host, QEMU's own threads and I/O */

/* The shape of one guest: CPU cells first, then RK_GI_PER_GPU cells without CPUs and memory per GPU, onto which the driver puts the
 * GPU's memory. Any other order gives other node numbers in the guest. */
struct shape {
	int cells, vcpus, host_cpus; /* CPU cells; vCPUs and host CPUs of each */
	uint64_t cell_kib, page_kib, hole_kib;
	int gpu_cell[RK_GPUS_MAX]; /* CPU cell of each GPU */
	struct rk_passed passed[RK_PASSED_MAX];
	size_t n_passed;
};

static int hole_of(const struct rk_size *size, uint64_t *ret, struct rk_err *err)
{
	struct rk_json *json RK_CLEANUP_JSON = NULL;
	int rc = rk_json_parse(size->name, size->json, strlen(size->json), &json, err);

	if (rc)
		return rc;
	if (!rk_ju64(rk_jget(rk_json_root(json), "pciHole64Kib"), ret) || !*ret || (*ret & (*ret - 1)))
		return rk_err_set(err, RK_INVALID, "pciHole64Kib of size \"%s\" is no power of two", size->name);
	return 0;
}

static int shape_of(struct rk_domain *d, struct shape *s, struct rk_err *err)
{
	const struct rk_site *site = d->in->site;
	const struct rk_size *size = d->in->size;
	const struct rk_profile *profile = &site->profiles[site->racks[site->trays[d->in->tray].rack].profile];
	int rc = rk_domain_passed(d, s->passed, &s->n_passed, err);

	s->cells = 1;
	for (size_t i = 0; i < s->n_passed; i++) {
		if (s->passed[i].node >= s->cells)
			s->cells = s->passed[i].node + 1;
		if (s->passed[i].kind == 'g')
			s->gpu_cell[s->passed[i].index] = s->passed[i].node;
	}
	if (!rc)
		rc = hole_of(size, &s->hole_kib, err);
	if (rc)
		return rc;
	s->vcpus = size->vcpus / s->cells;
	s->host_cpus = profile->cpus_per_tray / profile->sockets;
	s->cell_kib = size->memory_mib * 1024 / (uint64_t)s->cells;
	/* A kernel with 64 KiB pages has no huge pages of 1 GiB. */
	s->page_kib = d->caps->page_kib == 4 ? 1048576 : 524288;
	if (d->caps->page_kib != 4 && d->caps->page_kib != 64 && d->notes)
		rk_str_addf(d->notes, "tray %s: the page size of the host is not known, 64 KiB is assumed\n", site->trays[d->in->tray].name);
	if (s->cells > profile->sockets || size->vcpus % s->cells || s->vcpus > s->host_cpus - RESERVED_CORES)
		return rk_err_set(err, RK_INVALID, "size \"%s\" wants %d vCPUs, a tray has %d sockets of %d cores, %d of each kept for the host", size->name,
				  size->vcpus, profile->sockets, s->host_cpus, RESERVED_CORES);
	if (s->cell_kib % s->page_kib)
		return rk_err_set(err, RK_INVALID, "memory of size \"%s\" is no multiple of %d huge pages of %llu MiB", size->name, s->cells,
				  (unsigned long long)s->page_kib / 1024);
	return 0;
}

/* "0-3,72-75": the first count CPUs of each socket. */
static const char *reserved(struct rk_domain *d, const struct shape *s, int first, int last)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	for (int i = first; i <= last; i++)
		rk_str_addf(&text, "%s%d-%d", i > first ? "," : "", i * s->host_cpus, i * s->host_cpus + RESERVED_CORES - 1);
	return rk_arena_strdup(d->arena, rk_str_text(&text));
}

static void memory(struct rk_domain *d, const struct shape *s)
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

static void pins(struct rk_domain *d, const struct shape *s)
{
	rk_xnode *tune;

	rk_xtext(rk_x(d->root, "vcpu", "placement", "static", NULL), "%d", d->in->size->vcpus);
	rk_xtext(rk_x(d->root, "iothreads", NULL), "%d", s->cells);
	tune = rk_x(d->root, "cputune", NULL);
	for (int v = 0; v < d->in->size->vcpus; v++) {
		rk_xnode *pin = rk_x(tune, "vcpupin", NULL);
		rk_xattr(pin, "vcpu", "%d", v);
		rk_xattr(pin, "cpuset", "%d", v / s->vcpus * s->host_cpus + RESERVED_CORES + v % s->vcpus);
	}
	rk_x(tune, "emulatorpin", "cpuset", reserved(d, s, 0, s->cells - 1), NULL);
	for (int i = 0; i < s->cells; i++)
		rk_x(tune, "iothreadpin", "iothread", rk_arena_printf(d->arena, "%d", i + 1), "cpuset", reserved(d, s, i, i), NULL);
}

/* Distances of a Grace tray where the host's own were not read. */
static int distance(const struct shape *s, int a, int b)
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

static void cells(struct rk_domain *d, const struct shape *s, rk_xnode *cpu)
{
	rk_xnode *numa = rk_x(cpu, "numa", NULL);
	int n = s->cells + d->in->size->gpus * RK_GI_PER_GPU;
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

static void machine(struct rk_domain *d, const struct shape *s)
{
	rk_xnode *system = rk_x(rk_x(d->root, "sysinfo", "type", "smbios", NULL), "system", NULL), *os, *features, *cpu, *topology;
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
	cpu = rk_x(d->root, "cpu", "mode", "host-passthrough", "check", "none", NULL);
	topology = rk_x(cpu, "topology", NULL);
	rk_xattr(topology, "sockets", "%d", s->cells);
	rk_xattr(topology, "dies", "1");
	rk_xattr(topology, "clusters", "1");
	rk_xattr(topology, "cores", "%d", s->vcpus);
	rk_xattr(topology, "threads", "1");
	cells(d, s, cpu);
}

static void devices(struct rk_domain *d, const struct shape *s, bool cmdqv)
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
	struct shape s = { 0 };
	bool have[RK_ELEMENTS];
	int rc = 0;

	if (!d->arm)
		rc = rk_err_set(err, RK_INVALID, "size \"%s\" is for aarch64, tray %s is %s", d->in->size->name, d->in->site->trays[d->in->tray].name,
				d->caps->arch);
	if (!rc)
		rc = rk_hostcaps_check(d->caps, d->in->size, have, err);
	if (!rc)
		rc = shape_of(d, &s, err);
	if (rc)
		return rc;
	memory(d, &s);
	pins(d, &s);
	rk_x(d->root, "iommufd", "enabled", "yes", NULL);
	machine(d, &s);
	rk_x(d->root, "clock", "offset", "utc", NULL);
	rk_xt(d->root, "on_poweroff", "destroy");
	rk_xt(d->root, "on_reboot", "restart");
	rk_xt(d->root, "on_crash", "destroy");
	devices(d, &s, have[RK_EL_CMDQV]);
	return rk_domain_check(d->root, d->arena, err);
}
