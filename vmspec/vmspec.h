/* What is wanted: VM sizes, cluster specs, domain XML, NoCloud seed. Pure: values in, values out, no I/O. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "inventory/base/err.h"
#include "inventory/base/mem.h"
#include "inventory/base/str.h"
#include "inventory/model.h"
#include "vmspec/xmltree.h"

/* A VM size (vmspec/sizes/NAME.json, or "sizes" of the site file). A tray holds one VM: what a smaller size leaves stays idle. */
struct rk_size {
	const char *name;
	const char **aliases; size_t n_aliases;
	const char *description, *source;
	int vcpus, gpus, hcas, nvme;      /* devices the VM owns of its tray (allocated even when not passed through) */
	uint64_t memory_mib;
	uint64_t hole_kib;                /* 64-bit PCI window of the guest, a power of two; 0 without passthrough */
	const char *profile;              /* the rack kind it is made for; NULL: any that has the devices */
	bool passthrough;                 /* false: lab sizes (devices are allocated and partitioned but not passed to the guest) */
	bool emulated;                    /* domain type qemu when KVM is not there */
	double tray_kw;                   /* 0: the profile's */
	int capacity_multiple, vms_per_domain; /* facts of the family, shown, never enforced; 0 unknown */
	const char **not_supported; size_t n_not_supported; /* the same */
	const char **optional; size_t n_optional; /* elements that may be left out where the host has none (vmspec/capabilities.json) */
	const char *variant;              /* "egm", "confidential", "sriov-vf"; NULL */
};
/* By name or alias (case-insensitive); NULL when unknown. Built-in sizes first, then those of the site (NULL: built-in only). Borrowed for
 * ever. */
const struct rk_size *rk_size_find(const struct rk_site *site, const char *name);
/* All of them, the site's last. In the arena. */
const struct rk_size **rk_sizes(const struct rk_site *site, struct rk_arena *arena, size_t *ret_n);
/* Versions as libvirt counts; 0 for a size that any known host can run. */
void rk_size_needs(const struct rk_size *size, unsigned long *ret_libvirt, unsigned long *ret_qemu);
void rk_version_text(unsigned long version, char ret[32]); /* "12.7.0" */

/* Cluster spec (racksh-cluster(5), `kind: Cluster`). */
enum rk_policy { RK_BEST_FIT, RK_SPREAD, RK_FIRST_FIT };
struct rk_spec {
	const char *name, *tenant, *size, *image;
	int count;
	struct {
		int segment;              /* 0: min(count, trays per domain) */
		const char *racks;        /* nodeset or NULL: no limit */
		int max_racks;            /* 0: no limit */
		int spares_per_rack;
		enum rk_policy policy;
		const char **apart; size_t n_apart; /* antiAffinity: clusters with which it shares no rack */
	} placement;
	struct {
		const char *user;
		const char **keys; size_t n_keys; /* authorised keys, one line each */
	} ssh;
	const char *user_data;            /* a cloud-config or script of the user's own, or NULL */
	struct {
		const char *resiliency;   /* full_bandwidth | adaptive_bandwidth | user_action */
		int multicast_groups;     /* default 18 */
	} nvlink;
	struct {
		int pkey;                 /* 0: auto */
		bool full;                /* membership */
	} infiniband;
	struct {
		const char *profile, *level; /* NULL: defaults */
		bool required;
	} validation;
};
enum { RK_SPEC_FILE_MAX = 1 << 20 };
bool rk_cluster_name_valid(const char *name);
int rk_spec_parse(const char *path, const char *text, size_t len, struct rk_arena *arena, struct rk_spec **ret, struct rk_err *err);
int rk_spec_load(const char *path, struct rk_arena *arena, struct rk_spec **ret, struct rk_err *err);
void rk_spec_write(const struct rk_spec *spec, struct rk_str *out); /* JSON, defaults filled in; parses to the same spec */

/* What a tray's hypervisor can do: declared in the site file, or probed (provision/hv.h). Versions as libvirt counts: 1000000*a+1000*b+c. */
struct rk_hostcaps {
	unsigned long libvirt, qemu;      /* the daemon on the tray and its hypervisor: these decide what can be expressed */
	unsigned long client;             /* libvirt's library in this process, 0: none was used. It hands XML on as it is, so it decides nothing */
	const char *arch;                 /* "aarch64", "x86_64" */
	int page_kib;
	bool kvm;
	bool probed;                      /* false: only declared */
	bool iommufd, vfio;               /* when probed */
	struct rk_hostpages {             /* huge pages per host NUMA node; none listed: not known */
		int node;
		uint64_t kib, count;
	} *pages;
	size_t n_pages;
};
bool rk_hostcaps_declared(const struct rk_site *site, struct rk_hostcaps *ret); /* false: the site file names none */

/* Architecture, page size and huge pages from libvirt's capabilities XML; VFIO and iommufd from its domain capabilities XML. The rest of *caps
 * stays. RK_INVALID: no XML. */
int rk_hostcaps_read(const char *host_xml, struct rk_arena *arena, struct rk_hostcaps *caps, struct rk_err *err);
int rk_hostcaps_read_domain(const char *domain_xml, struct rk_hostcaps *caps, struct rk_err *err);
/* "libvirt 9.0.0 where the site file says 12.8.0"; NULL: they agree. In the arena. */
const char *rk_hostcaps_difference(const struct rk_hostcaps *declared, const struct rk_hostcaps *probed, struct rk_arena *arena);

/* What domains of many VMs have in common is made once. Thread safe; outlives the renderings that use it. */
struct rk_domain_memo;
struct rk_domain_memo *rk_domain_memo_new(void);
void rk_domain_memo_free(struct rk_domain_memo *memo);
void rk_cleanup_domain_memo(struct rk_domain_memo **memo);
#define RK_CLEANUP_DOMAIN_MEMO __attribute__((cleanup(rk_cleanup_domain_memo)))

/* Everything the domain XML of one VM depends on. */
struct rk_vm_input {
	const struct rk_site *site;
	const struct rk_size *size;
	const struct rk_image *image;
	int tray;
	const char *vm, *cluster, *tenant; /* "a-01", "a", "contoso" */
	const char *uuid;                 /* rk_vm_uuid */
	const char *mac, *address;
	int ssh_port, generation, nvl_partition; /* nvl_partition 0: not known yet */
	uint16_t pkey;                    /* 0: not known yet */
	const char *os_path, *seed_path;  /* absolute paths of the volumes on the host, or NULL: by pool and volume name */
	struct rk_domain_memo *memo;      /* or NULL; changes the speed, never the text */
};
/* libvirt domain name "racksh-<vm>"; volume names "racksh-<vm>-os.qcow2" and "racksh-<vm>-seed.iso". In the arena. */
const char *rk_vm_domain_name(struct rk_arena *arena, const char *vm);
const char *rk_vm_os_volume(struct rk_arena *arena, const char *vm);
const char *rk_vm_seed_volume(struct rk_arena *arena, const char *vm);
/* Version 5 UUID of site, cluster, VM and generation; MAC 52:.. from the same. In the arena. */
const char *rk_vm_uuid(struct rk_arena *arena, const char *site, const char *cluster, const char *vm, int generation);
/* The UUID that a VM gets when it is made now: rk_vm_uuid, or the next one that is free when a VM of the site has that already (its cluster was
 * renamed, and the old name is used again). nth: that many free ones are passed over. */
const char *rk_vm_new_uuid(struct rk_arena *arena, const struct rk_site *site, const char *cluster, const char *vm, int generation, size_t nth);
const char *rk_vm_mac(struct rk_arena *arena, const char *uuid);

/* Domain XML through libxml2. Not expressible on caps: RK_INVALID naming element, version that has it, version found.
 * Values that were never confirmed on the tray go to notes (one per line) when notes is not NULL. */
int rk_domain_xml(const struct rk_vm_input *in, const struct rk_hostcaps *caps, struct rk_str *ret_xml, struct rk_str *notes, struct rk_err *err);
/* The same as a tree (vmspec/xmltree.h) that nobody writes: what is to be known of a domain before it is defined. Parts from the memo are raw. */
int rk_domain_tree(const struct rk_vm_input *in, const struct rk_hostcaps *caps, rk_xml **ret, struct rk_str *notes, struct rk_err *err);
/* Compares the XML that was defined with what the host kept: RK_FAILED naming every element that matters and was dropped or changed. */
int rk_domain_xml_compare(const char *wanted, const char *kept, struct rk_err *err);
/* Owner in our metadata namespace: false when the domain is not ours. In the arena. */
bool rk_domain_xml_owner(const char *xml, struct rk_arena *arena, const char **ret_cluster, const char **ret_vm, int *ret_generation);

/* NoCloud seed. */
struct rk_seed_input {
	const char *vm, *cluster, *hostname, *mac, *address, *gateway, *user;
	int generation;
	int prefix_length;                /* of address; 0: the address alone, the gateway is reached on the link */
	bool user_network;                /* QEMU user networking: the guest gets 10.0.2.15/24 */
	const char *const *dns; size_t n_dns;
	const char *const *keys; size_t n_keys;
	const char *host_key_private, *host_key_public; /* OpenSSH forms; private NULL renders "(made at create)" */
	const char *const *imex_nodes; size_t n_imex_nodes; /* same list in the same order on every VM of the partition */
	const char *user_data;            /* a cloud-config or script of the user's own, merged after racksh's part; or NULL */
	bool sealed;                      /* the guest has taken its key: the same files without it, each of the same length */
};
/* Fills what the site fixes: gateway, prefix length, user network, name servers. */
void rk_seed_of_site(struct rk_seed_input *in, const struct rk_site *site);
struct rk_seed_file {
	const char *name;                 /* meta-data, user-data, network-config */
	char *text;                       /* in the arena */
};
void rk_seed_wipe(struct rk_seed_file *files, size_t n); /* the texts hold the private host key */
void rk_seed_files(const struct rk_seed_input *in, struct rk_arena *arena, struct rk_seed_file **ret, size_t *ret_n);
/* ISO 9660 image labelled cidata (libisofs), byte-identical for the same input. malloc'ed. */
int rk_seed_image(const struct rk_seed_file *files, size_t n, void **ret, size_t *ret_len, struct rk_err *err);
