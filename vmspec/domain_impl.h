/* Private to the files that make a domain. */
#pragma once
#include "vmspec/vmspec.h"
#include "vmspec/xmltree.h"

#define RK_DOMAIN_NS "urn:racksh:domain:1"
#define RK_QEMU_NS "http://libvirt.org/schemas/domain/qemu/1.0"

/* One rendering: what goes in, and texts made on the way. */
struct rk_domain {
	const struct rk_vm_input *in;
	const struct rk_hostcaps *caps;
	struct rk_arena *arena;
	struct rk_str *notes; /* or NULL */
	bool arm;
	rk_xnode *root, *devices;
};

/* Parts that both forms have (domain_xml.c). */
void rk_domain_disks(struct rk_domain *d, const char *iothread);
void rk_domain_serial(struct rk_domain *d, const char *log);
void rk_domain_network(struct rk_domain *d, const char *queues);

/* The form with passed-through devices (domain_full.c, domain_devices.c): everything below the metadata. */
int rk_domain_full(struct rk_domain *d, struct rk_err *err);

/* A whole function of the host that the VM owns. */
struct rk_passed {
	char kind;       /* 'g' GPU, 'h' HCA port, 'n' NVMe drive */
	int index, node; /* of its kind; guest NUMA node */
	unsigned domain, bus, slot, function;
};
enum { RK_PASSED_MAX = RK_GPUS_MAX + RK_RAILS_MAX + RK_NVME_MAX, RK_GI_PER_GPU = 8 };
int rk_domain_passed(struct rk_domain *d, struct rk_passed list[RK_PASSED_MAX], size_t *ret_n, struct rk_err *err);

/* The shape of one guest (domain_shape.c): CPU cells first, then RK_GI_PER_GPU cells without CPUs and memory per GPU, onto which the driver
 * puts the GPU's memory. Any other order gives other node numbers in the guest. */
enum { RK_RESERVED_CORES = 4 /* per socket, for the host, QEMU's own threads and I/O */, RK_SOCKETS_MAX = 8 };
struct rk_shape {
	int cells, vcpus, host_cpus; /* CPU cells; vCPUs and host CPUs of each */
	int gpus;
	uint64_t cell_kib, page_kib, hole_kib;
	int gpu_cell[RK_GPUS_MAX]; /* CPU cell of each GPU */
	struct rk_passed passed[RK_PASSED_MAX];
	size_t n_passed;
};
int rk_domain_shape(struct rk_domain *d, struct rk_shape *ret, struct rk_err *err);
/* Texts of elements by what they depend on (domain_memo.c). NULL: not there yet; a text lives as long as the memo. */
const char *rk_domain_memo_get(struct rk_domain_memo *memo, const char *key);
void rk_domain_memo_put(struct rk_domain_memo *memo, const char *key, const char *text);

/* PCI hole, expander buses, root ports, host devices and IOMMUs. cells: CPU cells, which come before the GPUs' own. */
void rk_domain_pci(struct rk_domain *d, const struct rk_passed *list, size_t n, int cells, uint64_t hole_kib, bool cmdqv);

/* The capability matrix (hostcaps.c, vmspec/capabilities.json). Refuses when an element is not to be had that the size does not call optional. */
enum rk_element { RK_EL_DRIVER_MODEL, RK_EL_CLUSTERS, RK_EL_RAS, RK_EL_ACPI_NODESET, RK_EL_SMMU_BUS, RK_EL_IOMMUFD, RK_EL_PCIHOLE, RK_EL_ACCEL, RK_EL_CMDQV, RK_ELEMENTS };
/* Refuses a variant that no known libvirt has, and one that is unknown. */
int rk_hostcaps_check_variant(const struct rk_hostcaps *caps, const struct rk_size *size, struct rk_err *err);
int rk_hostcaps_check(const struct rk_hostcaps *caps, const struct rk_size *size, bool have[RK_ELEMENTS], struct rk_err *err);

/* What libvirt accepts and must not be (domain_check.c): RK_INVALID naming all of it. cells: guest NUMA cells; -1: count those of the tree. */
int rk_domain_check(rk_xnode *root, int cells, struct rk_arena *arena, struct rk_err *err);
