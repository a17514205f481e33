/* The snapshot: everything one store (or site file) says at one revision. Immutable after it was built; plain structs with indexes.
 *
 * Ownership: a snapshot owns an arena; every pointer in it lives as long as the snapshot. Objects refer to each other by index into
 * the arrays of the same snapshot; RK_NONE means "no such". Unknown identities are 0 (GUIDs) or NULL (texts), never made up here.
 * Thread safety: read only, so any number of readers. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inventory/base/err.h"
#include "inventory/base/mem.h"
#include "inventory/base/nodeset.h"

enum { RK_NONE = -1, RK_RAILS_MAX = 8, RK_GPUS_MAX = 8, RK_NVME_MAX = 8 };
/* RK_NVL_TRAYS + number of the tray: id of the partition of one tray, where ids are not the network's choice; those below are the clusters'. */
enum { RK_NVL_TRAYS = 32700, RK_NVL_DEFAULT = 32766, RK_PKEY_DEFAULT = 0x7fff };

/* What a rack kind fixes (inventory/profiles/NAME.json; values, units and sources there). */
struct rk_profile {
	const char *name;            /* "gb300-nvl72" */
	int trays, switch_trays;     /* 18, 9 */
	int gpus_per_tray, hcas_per_tray, nvme_per_tray;
	int cpus_per_tray, sockets;  /* 144, 2 */
	uint64_t memory_mib;         /* host memory of a tray with CPUs only */
	const char *gpu_pci[RK_GPUS_MAX]; /* "0008:06:00.0" per GPU index */
	int gpu_module[RK_GPUS_MAX]; /* module id 1..4 per GPU index */
	int gpu_numa[RK_GPUS_MAX];
	const char *hca_pci[RK_RAILS_MAX]; /* function 0, per rail */
	int hca_numa[RK_RAILS_MAX];
	int slot[64];                /* chassis slot per tray number - 1 */
	int u_position[64];          /* U of each compute tray, from 1 */
	double rack_kw, tray_kw;     /* budget when the site names none; all-in share of one allocated tray */
	int rate_gbps;               /* InfiniBand port rate to expect */
	int dpus_per_tray, power_shelves, management_switches;
	double shelf_kw;
	int switch_slot[16], switch_u[16]; /* chassis slot and U per NVLink switch tray - 1 */
	const char *json;            /* the whole profile file, for keys that only one module needs */
};

struct rk_ssh_conf {
	const char *user;            /* NULL: the caller's */
	int port;                    /* 0: 22 */
	const char *known_hosts;     /* file; NULL: ~/.ssh/known_hosts */
	const char *identity_file;   /* private key; NULL: agent, then ~/.ssh/id_ed25519 */
	const char *jump;            /* hosts to go through, "user@host:port,..."; NULL: none */
};

/* How to reach a manager: "opensm", "nvos", "nmxm", "ufm", "sim". */
struct rk_manager {
	const char *driver;
	const char **ssh;            /* n_ssh entries "user@host:port" (user and port optional); expanded from a nodeset */
	size_t n_ssh;
	const char *ssh_text;        /* the nodeset as written, placeholders replaced */
	const char *url, *credentials_file, *ca_file;
};

struct rk_fabric {
	const char *name;            /* "ib0" */
	struct rk_manager manager;
	const char *partitions_file; /* on the manager host */
	const char *pid_file;        /* of opensm; NULL: pkill -HUP -x opensm */
	uint16_t pkey_first, pkey_last; /* pool, 15 bit, both included */
	int rate_gbps;               /* expected port rate; 0: the profile's */
	double oversubscription;     /* allowed downlinks/uplinks; 1.0 */
};

enum rk_tray_state { RK_TRAY_FREE, RK_TRAY_ALLOCATED, RK_TRAY_CORDONED, RK_TRAY_SPARE, RK_TRAY_FAULTY, RK_TRAY_OFFLINE };
const char *rk_tray_state_name(enum rk_tray_state state);

struct rk_rack {
	const char *name, *location;
	int profile;                 /* index into profiles */
	double power_kw;             /* budget */
	const char *cluster_uuid;    /* NVLink domain; NULL = unknown */
	struct rk_manager nvlink;
	bool nvl_per_tray;           /* GPUs that no cluster has are in a partition of their tray, not in Default (nvlink.release) */
	int first_tray, n_trays;     /* in trays[], in tray number order; absent trays have no entry */
	int spares;                  /* healthy trays to keep free */
	const char *cordon;          /* reason, or NULL */
	const char *versions;        /* JSON object of texts: what is expected here instead of the site's; NULL: the site's */
	double supply_c, flow_lpm;   /* coolant as it was last read; 0: never */
};

struct rk_tray {
	const char *name;            /* "r01-t07" */
	int rack, number;            /* number 1..trays of the profile */
	int slot;
	const char *libvirt_uri, *serial;
	const char *bmc;             /* JSON object as written; NULL: the site's */
	struct rk_ssh_conf ssh;
	const char *ssh_host;        /* "" none; default: the tray's name */
	int first_gpu, n_gpus, first_hca, n_hcas;
	const char *nvme[RK_NVME_MAX];
	int n_nvme;
	const char *cordon;          /* reason, or NULL */
	const char *faulty;          /* reason, or NULL: erase or reset failed, not free */
	const char *offline;         /* reason, or NULL */
	const char *leak;            /* what the leak detectors say, or NULL: never powered on while set */
	const char *versions;        /* JSON object of texts: what it was seen to run, keys as in the site's `versions`; NULL: never read */
	int vm;                      /* index into vms, or RK_NONE */
	bool spare;                  /* counted as a spare of its rack now */
};

struct rk_gpu {
	int tray, index, module_id;
	const char *pci, *serial, *uuid;
	uint64_t fabric_guid;        /* 0 = unknown */
};

struct rk_hca {
	int tray, rail, fabric;
	const char *pci;
	uint64_t port_guid;          /* 0 = unknown */
	const char *leaf;            /* from the last imported topology; NULL = unknown */
	int leaf_port;
};

/* Whatever has no more than an identity: of a tray "grace", "dpu", "nvme", "leak-sensor"; of a rack (tray RK_NONE) "power-shelf",
 * "nvlink-switch", "management-switch", "leak-sensor". How many there should be says the profile. */
struct rk_component {
	int rack, tray, index;       /* index from 0 within its kind */
	const char *kind, *serial, *pci, *firmware;
};

struct rk_image {
	const char *name, *volume;   /* "pool/volume" */
	const char *arch, *format, *checksum;
	const char *kernel, *initrd, *cmdline; /* direct kernel boot (lab), else NULL */
};

struct rk_tenant {
	const char *name;
	int quota_vms, quota_pkeys;  /* 0 = none */
};

enum rk_cluster_state { RK_CLUSTER_PLANNED, RK_CLUSTER_BUILDING, RK_CLUSTER_READY, RK_CLUSTER_DEGRADED, RK_CLUSTER_DELETING, RK_CLUSTER_FAILED };
const char *rk_cluster_state_name(enum rk_cluster_state state);

struct rk_cluster {
	int64_t id;                  /* row id in the store */
	const char *name, *size, *image;
	int tenant;
	enum rk_cluster_state state;
	const char *spec;            /* the cluster spec as JSON, defaults filled in */
	int64_t op;                  /* operation that holds it, or 0 */
	int first_vm, n_vms;         /* in vms[], in number order */
	int first_nvl, n_nvl;        /* in nvl_partitions[] */
	int ib;                      /* in ib_partitions[], or RK_NONE */
	int segment, spares_per_rack;
	const char *reasons;         /* JSON array of placement reasons, as planned */
	const char *validation;      /* JSON {verdict, at, level}, or NULL */
	int next_number;             /* next VM number: numbers are never used again */
};

enum rk_vm_state { RK_VM_PLANNED, RK_VM_BUILDING, RK_VM_RUNNING, RK_VM_STOPPED, RK_VM_FAILED, RK_VM_UNKNOWN };
const char *rk_vm_state_name(enum rk_vm_state state);

struct rk_vm {
	const char *name;            /* "a-01" */
	int cluster, tray, number;
	enum rk_vm_state state;      /* as last seen by an operation */
	const char *uuid, *address, *mac; /* address: where the host's SSH client connects */
	int ssh_port;
	int generation;
	const char *host_key_public; /* "ssh-ed25519 AAAA..." pinned */
	const char *host_name;       /* what hosts call it, when its cluster was renamed since it was made; see rk_vm_host_name */
};
/* The name that its domain, its volumes and its guest were made with. */
const char *rk_vm_host_name(const struct rk_vm *vm);

struct rk_nvl_partition {
	int rack, cluster, id;       /* id 1..32765; unique per rack (domain) */
	const char *name;
	/* members: all GPUs of the cluster's VMs in that rack */
};

struct rk_ib_partition {
	int fabric, cluster;
	uint16_t pkey;               /* 15 bit */
	const char *name;
	bool full;                   /* membership of the tenant's ports */
};

/* A partition that is shared: servers (storage) are full members, ports of tenants limited ones. These reach the servers, and not each other. */
struct rk_ib_service {
	const char *name;            /* unique in the site */
	int fabric;
	uint16_t pkey;
	uint64_t *servers; size_t n_servers; /* port GUIDs */
	bool all;                    /* every tenant has it, those to come too */
	int *tenants; size_t n_tenants;      /* unless all */
};

/* An operation could not take it away and was ended without (op resume --give-up): it may be there still, so its number is given to nobody. */
struct rk_remains {
	int rack, fabric;            /* an NVLink partition of the rack or a PKey of the fabric; the other one is RK_NONE */
	int id;                      /* of the partition, or the key */
	const char *name, *why;      /* what managers call it; who gave it up and why */
};

struct rk_reservation {
	int64_t id;
	int tenant;
	const char *racks;           /* nodeset of racks, or NULL */
	int count;                   /* trays, when no racks are named */
	int64_t from_unix_ms, to_unix_ms;
};

/* Findings that do not count while something is worked on; they are shown all the same. */
struct rk_silence {
	int64_t id;
	const char *trays;           /* nodeset */
	const char *checks;          /* id of a check, or its beginning and '*'; NULL: all */
	const char *reason, *by;     /* by "user@host pid" */
	int64_t from_unix_ms, to_unix_ms;
};

struct rk_network {
	const char *bridge, *macvtap; /* one of these, or user networking */
	bool user;
	const char *addresses;       /* CIDR block of the VMs, or NULL */
	const char *gateway;
	const char **dns;
	size_t n_dns;
};

/* A site that names neither a bridge nor a macvtap device has user networking, whether it says so or not. */
static inline bool rk_network_is_user(const struct rk_network *network)
{
	return network->user || (!network->bridge && !network->macvtap);
}

struct rk_hypervisor {           /* declared in the site file; on a live tray what libvirt answers wins */
	const char *libvirt, *qemu, *arch;
	int page_kib;
};

struct rk_site {
	struct rk_arena *arena;      /* owns everything below */
	const char *name, *region;
	int64_t revision;            /* of the store; 0 for a file */
	int64_t read_unix_ms;        /* when it was read from the store; reservations are judged at this time. 0 for a file */
	struct rk_network network;
	const char *pool;            /* storage pool on the trays; "default" */
	struct rk_hypervisor hypervisor;
	const char *versions, *hooks, *bmc, *health, *meter; /* JSON objects as written, or NULL */
	const char *sizes;           /* JSON array of VM sizes of the site's own (vmspec reads it), or NULL */
	struct rk_site_defaults {    /* `defaults` of the site file, placeholders kept; export leaves out what equals them */
		const char *profile, *libvirt;
		struct rk_ssh_conf ssh;
		const char *nvme[RK_NVME_MAX];
		int n_nvme;
	} defaults;
	struct rk_profile *profiles;        size_t n_profiles;
	struct rk_fabric *fabrics;          size_t n_fabrics;
	struct rk_rack *racks;              size_t n_racks;  /* natural order of name */
	struct rk_tray *trays;              size_t n_trays;  /* by rack, then number */
	struct rk_gpu *gpus;                size_t n_gpus;   /* by tray, then index */
	struct rk_hca *hcas;                size_t n_hcas;   /* by tray, then rail */
	struct rk_component *parts;              size_t n_parts;  /* by rack, then tray (the rack's own first) */
	struct rk_image *images;            size_t n_images;
	struct rk_tenant *tenants;          size_t n_tenants;
	struct rk_cluster *clusters;        size_t n_clusters; /* by name */
	struct rk_vm *vms;                  size_t n_vms;
	struct rk_nvl_partition *nvl_partitions; size_t n_nvl_partitions;
	struct rk_ib_partition *ib_partitions;   size_t n_ib_partitions;
	struct rk_ib_service *ib_services;       size_t n_ib_services; /* by name */
	struct rk_remains *remains;              size_t n_remains;
	struct rk_reservation *reservations;     size_t n_reservations;
	struct rk_silence *silences;             size_t n_silences; /* ended ones too */
	struct rk_site_index *index; /* private */
};

/* Builds the indexes and the derived fields (vm of a tray, spare). Called by whoever filled a snapshot, after everything else, ranges
 * included, is set; again after a change. */
void rk_site_seal(struct rk_site *site);
void rk_site_free(struct rk_site *site);
void rk_cleanup_site(struct rk_site **site);
#define RK_CLEANUP_SITE __attribute__((cleanup(rk_cleanup_site)))
struct rk_site *rk_site_new(void); /* empty, with an arena */
/* A snapshot of its own of the same; texts, and what else its arrays point to, stay those of `site`, which outlives it. Sealed. */
struct rk_site *rk_site_share(const struct rk_site *site);

/* Look-ups, O(1): index, or RK_NONE. */
int rk_find_rack(const struct rk_site *site, const char *name);
int rk_find_tray(const struct rk_site *site, const char *name);
int rk_find_cluster(const struct rk_site *site, const char *name);
int rk_find_vm(const struct rk_site *site, const char *name);
int rk_find_tenant(const struct rk_site *site, const char *name);
int rk_find_image(const struct rk_site *site, const char *name);
int rk_find_fabric(const struct rk_site *site, const char *name);
int rk_find_gpu_guid(const struct rk_site *site, uint64_t fabric_guid);
int rk_find_hca_guid(const struct rk_site *site, uint64_t port_guid);
int rk_find_ib_service(const struct rk_site *site, const char *name); /* not O(1): there are few */
const struct rk_ib_service *rk_ib_service_of(const struct rk_site *site, int fabric, unsigned pkey); /* of the key, or NULL */
bool rk_ib_serves(const struct rk_ib_service *service, int tenant);
bool rk_ib_server(const struct rk_ib_service *service, uint64_t port_guid);
/* Is the HCA's port to be a limited member? That of a cluster with a partition of its own on that fabric. */
bool rk_ib_service_has(const struct rk_site *site, const struct rk_ib_service *service, int hca);
/* Is a partition, or a key, of this number left behind? NULL: no. */
const struct rk_remains *rk_nvl_remains(const struct rk_site *site, int rack, int id);
const struct rk_remains *rk_ib_remains(const struct rk_site *site, int fabric, unsigned pkey);
/* The components of a tray, or (RK_NONE) of the rack itself: *ret_n from the result on. */
const struct rk_component *rk_components(const struct rk_site *site, int rack, int tray, size_t *ret_n);

/* State of a tray, worst reason first: offline, faulty (a leak too), cordoned (its own or its rack's), allocated, spare, free. An allocated tray
 * that is cordoned is "cordoned" only when no VM is on it. */
enum rk_tray_state rk_tray_state(const struct rk_site *site, int tray);
/* Trays a rack keeps free: its own spares, or what a cluster in it asked for. */
int rk_rack_spares(const struct rk_site *site, int rack);
double rk_rack_kw_committed(const struct rk_site *site, int rack);
/* Trays of a rack that report a leak. One: force that tray off; two: an alarm of the rack. */
int rk_rack_leaks(const struct rk_site *site, int rack);

/* Selections (CLI.md): nodesets with groups @rack:R @cluster:C @tenant:T @state:S @all. Results are indexes in site order.
 * An unknown name is RK_NOT_FOUND with a near-name hint; an empty result RK_NOT_FOUND. `except` (-x) may be NULL. */
int rk_select_trays(const struct rk_site *site, const char *selection, const char *except, struct rk_arena *arena, int **ret, size_t *ret_n,
		    struct rk_err *err);
int rk_select_racks(const struct rk_site *site, const char *selection, const char *except, struct rk_arena *arena, int **ret, size_t *ret_n,
		    struct rk_err *err);
/* VM names, trays (the VM on them) or groups. */
int rk_select_vms(const struct rk_site *site, const char *selection, const char *except, struct rk_arena *arena, int **ret, size_t *ret_n,
		  struct rk_err *err);
