/* The form of a whole GB300 tray, clause by clause: machine, pins, cells and distances, one bus and one IOMMU per device. And the same with virtual
 * functions of the HCAs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/contract/vm_bench.h"

enum { CPU_CELLS = 2, GPUS = 4, DEVICES = 12, CELLS = CPU_CELLS + GPUS * RK_GI_PER_GPU, HOST_CPUS = 72, VCPUS = 64 /* per cell */ };

struct full {
	struct bench b;
	struct rk_arena *arena;
	rk_xml *xml;
	rk_xnode *root, *devices;
};

static int read_full(struct full *f, const char *size)
{
	bench_init(&f->b, size);
	f->arena = rk_arena_new();
	assert_int_equal(render(&f->b), 0);
	assert_int_equal(rk_xml_parse("the domain", rk_str_text(&f->b.xml), &f->xml, &f->b.err), 0);
	f->root = rk_xroot(f->xml);
	f->devices = rk_xchild(f->root, "devices");
	return 0;
}

static int set_up(void **state)
{
	static struct full f;

	*state = &f;
	return read_full(&f, "nd128isr-gb300-v6");
}

static int tear_down(void **state)
{
	struct full *f = *state;

	rk_cleanup_xml(&f->xml);
	rk_arena_free(f->arena);
	bench_end(&f->b);
	return 0;
}

static const char *get(const struct full *f, rk_xnode *node, const char *path)
{
	const char *text = rk_xget(node, path, f->arena);

	return text ? text : "(none)";
}

static long number(const struct full *f, rk_xnode *node, const char *path)
{
	return strtol(get(f, node, path), NULL, 0);
}

static void assert_values(const struct full *f, rk_xnode *node, const char *const *pairs)
{
	for (; *pairs; pairs += 2)
		if (strcmp(get(f, node, pairs[0]), pairs[1]) != 0)
			fail_msg("%s is %s, not %s", pairs[0], get(f, node, pairs[0]), pairs[1]);
}

/* The nth child of that name with that value at path (path NULL: any). */
static rk_xnode *nth(const struct full *f, rk_xnode *parent, const char *name, const char *path, const char *value, size_t n)
{
	for (rk_xnode *it = rk_xchild(parent, name); it; it = rk_xnext(it, name))
		if ((!path || strcmp(get(f, it, path), value) == 0) && n-- == 0)
			return it;
	return NULL;
}

static void the_machine_is_a_grace_guest_with_uefi(void **state)
{
	const struct full *f = *state;

	assert_values(f, f->root, (const char *const[]){
		"@type", "kvm", "os@firmware", "efi", "os/type@arch", "aarch64", "os/type@machine", "virt", "features/gic@version", "3",
		"features/ras@state", "on", "features/acpi", "", "cpu@mode", "host-passthrough", "cpu/topology@sockets", "2", "cpu/topology@cores", "64",
		"cpu/topology@clusters", "1", "iommufd@enabled", "yes", "devices/memballoon@model", "none", "on_reboot", "restart", "on_crash", "destroy",
		"uuid", "0d1f0c5e-7a1b-5c1e-9a55-0b6f2f9e1d07", "name", "racksh-a-01", NULL });
}

static void each_vcpu_has_a_host_core_and_the_first_cores_stay_with_the_host(void **state)
{
	const struct full *f = *state;
	rk_xnode *tune = rk_xchild(f->root, "cputune");
	int v = 0;

	for (rk_xnode *pin = rk_xchild(tune, "vcpupin"); pin; pin = rk_xnext(pin, "vcpupin"), v++) {
		assert_int_equal(number(f, pin, "@vcpu"), v);
		assert_int_equal(number(f, pin, "@cpuset"), v / VCPUS * HOST_CPUS + RK_RESERVED_CORES + v % VCPUS);
	}
	assert_int_equal(v, CPU_CELLS * VCPUS);
	assert_values(f, tune, (const char *const[]){ "emulatorpin@cpuset", "0-3,72-75", "iothreadpin@cpuset", "0-3", NULL });
}

static void memory_is_huge_pages_of_both_nodes_locked(void **state)
{
	const struct full *f = *state;

	assert_values(f, f->root, (const char *const[]){
		"memory", "905969664", "memoryBacking/hugepages/page@size", "524288", "memoryBacking/hugepages/page@unit", "KiB",
		"memoryBacking/hugepages/page@nodeset", "0-1", "memoryBacking/locked", "", "memoryBacking/nosharepages", "",
		"memoryBacking/allocation@mode", "immediate", "numatune/memory@mode", "strict", "numatune/memory@nodeset", "0-1", NULL });
	for (size_t i = 0; i < CPU_CELLS; i++) {
		rk_xnode *node = nth(f, rk_xchild(f->root, "numatune"), "memnode", NULL, NULL, i);
		assert_int_equal(number(f, node, "@cellid"), i);
		assert_int_equal(number(f, node, "@nodeset"), i);
		assert_string_equal(get(f, node, "@mode"), "strict");
	}
}

/* Two CPU cells, then eight of each GPU. */
static int owner(int cell)
{
	return cell < CPU_CELLS ? -1 : (cell - CPU_CELLS) / RK_GI_PER_GPU;
}

static int expected_distance(int a, int b)
{
	int gpu_a = owner(a), gpu_b = owner(b);

	if (a == b)
		return 10;
	if (gpu_a < 0 && gpu_b < 0)
		return 40;
	if (gpu_a < 0 || gpu_b < 0)
		return (gpu_a < 0 ? a : b) == (gpu_a < 0 ? gpu_b : gpu_a) / 2 ? 80 : 120;
	return gpu_a == gpu_b ? 11 : 40;
}

static void cpu_cells_come_first_then_eight_empty_ones_per_gpu(void **state)
{
	const struct full *f = *state;
	rk_xnode *numa = rk_xchild(rk_xchild(f->root, "cpu"), "numa");
	int n = 0;

	for (rk_xnode *cell = rk_xchild(numa, "cell"); cell; cell = rk_xnext(cell, "cell"), n++) {
		int k = 0;
		assert_int_equal(number(f, cell, "@id"), n);
		assert_string_equal(get(f, cell, "@cpus"), n == 0 ? "0-63" : n == 1 ? "64-127" : "(none)");
		assert_int_equal(number(f, cell, "@memory"), n < CPU_CELLS ? 905969664 / 2 : 0);
		for (rk_xnode *s = rk_xchild(rk_xchild(cell, "distances"), "sibling"); s; s = rk_xnext(s, "sibling"), k++) {
			assert_int_equal(number(f, s, "@id"), k);
			assert_int_equal(number(f, s, "@value"), expected_distance(n, k));
		}
		assert_int_equal(k, CELLS);
	}
	assert_int_equal(n, 34);
}

/* hostdev -> root port -> expander bus; the bus is this device's alone. */
static void check_path(const struct full *f, rk_xnode *hostdev, size_t n)
{
	const char *port_index = rk_arena_printf(f->arena, "%ld", number(f, hostdev, "address@bus"));
	rk_xnode *port = nth(f, f->devices, "controller", "@index", port_index, 0);

	assert_string_equal(get(f, port, "@model"), "pcie-root-port");
	assert_string_equal(get(f, port, "target@hotplug"), "off");
	const char *bus_index = rk_arena_printf(f->arena, "%ld", number(f, port, "address@bus"));
	rk_xnode *bus = nth(f, f->devices, "controller", "@index", bus_index, 0), *iommu = nth(f, f->devices, "iommu", "driver@pciBus", bus_index, 0);
	assert_string_equal(get(f, bus, "@model"), "pcie-expander-bus");
	assert_string_equal(get(f, bus, "model@name"), "pxb-pcie");
	assert_int_equal(number(f, bus, "target@busNr"), 32 + 8 * n);
	/* Devices 0 and 1 of each kind are on the first Grace, 2 and 3 on the second. */
	assert_int_equal(number(f, bus, "target/node"), n % 4 / 2);
	assert_values(f, iommu, (const char *const[]){ "@model", "smmuv3", "driver@accel", "on", "driver@ats", "on", "driver@ril", "off", "driver@ssidsize",
						       "20", "driver@oas", "48", "driver@cmdqv", "on", NULL });
	assert_null(nth(f, f->devices, "iommu", "driver@pciBus", bus_index, 1));
}

/* libvirt picks the chassis of a port only where none is given; two ports of one chassis are refused by QEMU. */
static void check_chassis(const struct full *f)
{
	bool used[64] = { false };

	for (size_t i = 0;; i++) {
		rk_xnode *port = nth(f, f->devices, "controller", "@model", "pcie-root-port", i);
		if (!port)
			break;
		long chassis = number(f, port, "target@chassis");
		assert_true(chassis > 0 && chassis < 64 && !used[chassis]);
		used[chassis] = true;
	}
}

static void each_device_has_a_bus_a_port_and_an_iommu_of_its_own(void **state)
{
	static const char *const addresses[DEVICES] = { "0x0008 0x06", "0x0009 0x06", "0x0018 0x06", "0x0019 0x06", "0x0000 0x03", "0x0002 0x03",
							"0x0010 0x03", "0x0012 0x03", "0x0005 0x01", "0x0005 0x02", "0x0015 0x01", "0x0015 0x02" };
	const struct full *f = *state;
	size_t n = 0;

	for (rk_xnode *h = rk_xchild(f->devices, "hostdev"); h; h = rk_xnext(h, "hostdev"), n++) {
		assert_true(n < DEVICES);
		assert_string_equal(rk_arena_printf(f->arena, "%s %s", get(f, h, "source/address@domain"), get(f, h, "source/address@bus")), addresses[n]);
		assert_values(f, h, (const char *const[]){ "@managed", "yes", "driver@iommufd", "yes", "rom@bar", "off", "source/address@function", "0x0", NULL });
		assert_string_equal(get(f, h, "driver@model"), n < GPUS ? "nvgrace_gpu_vfio_pci" : "(none)");
		assert_string_equal(get(f, h, "acpi@nodeset"), n < GPUS ? rk_arena_printf(f->arena, "%zu-%zu", 2 + 8 * n, 9 + 8 * n) : "(none)");
		check_path(f, h, n);
	}
	assert_int_equal(n, DEVICES);
	assert_null(nth(f, f->devices, "controller", "@model", "pcie-expander-bus", DEVICES));
	assert_null(nth(f, f->devices, "iommu", NULL, NULL, DEVICES));
	check_chassis(f);
}

static void the_hole_is_the_profiles_power_of_two(void **state)
{
	const struct full *f = *state;
	struct full other;

	assert_string_equal(get(f, nth(f, f->devices, "controller", "@model", "pcie-root", 0), "pcihole64"), "8589934592");
	read_full(&other, "nd128isr-gb200-v6");
	assert_string_equal(get(&other, nth(&other, other.devices, "controller", "@model", "pcie-root", 0), "pcihole64"), "4294967296");
	tear_down((void *[]){ &other });
}

static void the_guest_can_be_watched_and_is_known_as_ours(void **state)
{
	const struct full *f = *state;

	assert_values(f, f->devices, (const char *const[]){
		"channel/target@name", "org.qemu.guest_agent.0", "channel/target@type", "virtio", "serial/log@file",
		"/var/log/libvirt/qemu/racksh-a-01-serial.log", "serial/target/model@name", "pl011", "interface/model@type", "virtio", NULL });
	assert_values(f, f->root, (const char *const[]){
		"metadata/vm/owner@cluster", "a", "metadata/vm/owner@vm", "a-01", "metadata/vm/owner@tenant", "contoso", "metadata/vm/owner@rack", "r01",
		"metadata/vm/owner@tray", "7", "metadata/vm/owner@generation", "3", "metadata/vm/nvlink@partition", "12", "metadata/vm/ib@pkey", "0x0102", NULL });
}

static void the_operator_hears_what_nobody_has_seen(void **state)
{
	const struct full *f = *state;

	assert_has(rk_str_text(&f->b.notes), "tray r01-t07: GPU 3 at 0019:06:00.0 is the profile's address, never confirmed on the tray");
}

/* ---- virtual functions --------------------------------------------------------------------------------------------------------------- */

struct virtual {
	struct bench b;
	struct rk_size size;
	struct rk_hca hcas[4];
};

static void init_virtual(struct virtual *v)
{
	static const char *const pci[] = { "0000:03:00.1", "0002:03:00.1", "0010:03:00.1", "0012:03:01.2" };

	bench_init(&v->b, "nd128isr-gb300-v6");
	v->size = *v->b.in.size;
	v->size.name = "vf";
	v->size.variant = "sriov-vf";
	v->b.in.size = &v->size;
	for (int i = 0; i < 4; i++)
		v->hcas[i] = (struct rk_hca){ .rail = i, .pci = pci[i], .port_guid = 0x5000e60300010000 + (uint64_t)i };
	v->b.site.hcas = v->hcas;
	v->b.site.n_hcas = v->b.tray.n_hcas = 4;
}

static void virtual_functions_are_passed_through_like_whole_ones(void **state)
{
	struct virtual v;

	(void)state;
	init_virtual(&v);
	assert_int_equal(render(&v.b), 0);
	assert_has(rk_str_text(&v.b.notes), "HCA 3 at 0012:03:01.2 is a virtual function: the host sets its GUIDs and its link policy");
	rk_str_reset(&v.b.xml);
	assert_golden(&v.b, "gb300-sriov-vf");
}

static void hcas_are_what_the_size_takes(void **state)
{
	static const struct {
		const char *variant, *pci;
		uint64_t guid;
		const char *message;
	} cases[] = {
		{ "sriov-vf", "0002:03:00.0", 7, "takes virtual functions of the HCAs, HCA 1 of tray r01-t07 is known as the physical one 0002:03:00.0 only" },
		{ "sriov-vf", NULL, 7, "HCA 1 of tray r01-t07 is known as the physical one 0002:03:00.0 only" },
		{ "sriov-vf", "0002:03:00.1", 0, "that of HCA 1 of tray r01-t07, 0002:03:00.1, has no port GUID known" },
		{ NULL, "0002:03:00.1", 7, "HCA 1 of tray r01-t07 is known as 0002:03:00.1, which is no function 0: size \"vf\" takes whole HCAs" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		struct virtual v;
		init_virtual(&v);
		v.size.variant = cases[i].variant;
		if (!cases[i].variant)
			v.hcas[0].pci = "0000:03:00.0";
		v.hcas[1].pci = cases[i].pci;
		v.hcas[1].port_guid = cases[i].guid;
		assert_int_equal(render(&v.b), RK_INVALID);
		assert_has(v.b.err.message, cases[i].message);
		assert_has(v.b.err.hint, cases[i].variant ? "sriov_numvfs" : "\"variant\": \"sriov-vf\"");
		bench_end(&v.b);
	}
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EACH(the_machine_is_a_grace_guest_with_uefi),
		EACH(each_vcpu_has_a_host_core_and_the_first_cores_stay_with_the_host),
		EACH(memory_is_huge_pages_of_both_nodes_locked),
		EACH(cpu_cells_come_first_then_eight_empty_ones_per_gpu),
		EACH(each_device_has_a_bus_a_port_and_an_iommu_of_its_own),
		EACH(the_hole_is_the_profiles_power_of_two),
		EACH(the_guest_can_be_watched_and_is_known_as_ours),
		EACH(the_operator_hears_what_nobody_has_seen),
		cmocka_unit_test(virtual_functions_are_passed_through_like_whole_ones),
		cmocka_unit_test(hcas_are_what_the_size_takes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
