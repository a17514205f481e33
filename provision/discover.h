/* Discovery: what the living racks say, compared with what the store says. Reading is parallel and never fails as a whole: what does not
 * answer is one more fact. Nothing is changed but by rk_discover_apply. */
#pragma once
#include "inventory/topology.h"
#include "provision/world.h"

/* ---- what was seen. Texts are in the arena of the reading; guid 0, number -1 and NULL: not told. */
struct rk_seen_gpu {
	const char *pci, *serial, *uuid;  /* pci as the site file writes it */
	uint64_t guid;
	int module_id, slot;
};
struct rk_seen_port {
	const char *device, *pci, *state, *firmware;
	uint64_t guid;
};
struct rk_seen_device {                   /* a PCI function, as libvirt describes it */
	const char *pci, *driver;
	unsigned class, vendor, product;  /* class: 24 bit */
	int numa, iommu_group, group_size;
};
struct rk_seen_drive {
	const char *pci;
	bool used;                        /* mounted or swapped on: not for guests */
};
struct rk_seen_tray {
	const char *host_why, *hv_why;    /* why the host (SSH), the hypervisor (libvirt) did not answer; NULL: it did */
	const char *smi_why;              /* the host answered, but not what its GPUs are */
	const char *sysfs_why;            /* ... not what its ports are */
	bool asked;
	const char *serial, *driver, *cluster_uuid;
	const char *chassis;              /* serial number of the chassis, as the GPUs tell it */
	struct rk_seen_gpu *gpus; size_t n_gpus;
	struct rk_seen_port *ports; size_t n_ports;
	struct rk_seen_drive *drives; size_t n_drives;
	uint64_t huge_kib, huge_free_kib;
	struct rk_hostcaps caps;
	struct rk_seen_device *devices; size_t n_devices;
	struct rk_hv_domain *domains; size_t n_domains;
};
struct rk_seen_rack {
	bool asked;
	const char *why;                  /* NULL: the switch answered */
	struct rk_nvl_place *places; size_t n;
	const char *switches_why;         /* NULL: they were asked, or there is nobody to ask */
	struct rk_nvl_switch *switches; size_t n_switches;
};
struct rk_seen_fabric {
	const char *why;
	struct rk_topology *topology;
};
struct rk_seen {
	struct rk_world *world;
	const struct rk_site *site;
	struct rk_arena **arenas; size_t n_arenas;
	struct rk_seen_tray *trays;       /* per tray of the site */
	struct rk_seen_rack *racks;
	struct rk_seen_fabric *fabrics; size_t n_fabrics;
};
/* Reads the hosts and hypervisors of these trays, the switches of their racks, and all fabrics. Errors: opening the drivers, Ctrl-C. */
int rk_seen_read(struct rk_world *world, const int *trays, size_t n, struct rk_seen **ret, struct rk_err *err);
void rk_seen_free(struct rk_seen *seen);
void rk_cleanup_seen(struct rk_seen **seen);

/* Parsers of what hosts print (discover_host.c). Pure; input is hostile. */
#define RK_HOST_SCRIPT_MARK "racksh-host"
extern const char rk_host_script[];       /* for `sh -c` on a tray: ports, drives, serial, huge pages, one record a line */
void rk_seen_parse_smi(const char *xml, size_t len, struct rk_arena *arena, struct rk_seen_tray *tray);
void rk_seen_parse_host(const char *text, size_t len, struct rk_arena *arena, struct rk_seen_tray *tray);
bool rk_seen_parse_device(const char *xml, struct rk_arena *arena, struct rk_seen_device *ret); /* false: no PCI function */

/* ---- what follows from it */
enum rk_edit { RK_EDIT_NONE, RK_EDIT_SERIAL, RK_EDIT_SLOT, RK_EDIT_GPU_GUID, RK_EDIT_GPU_UUID, RK_EDIT_GPU_SERIAL, RK_EDIT_PORT_GUID, RK_EDIT_NVME, RK_EDIT_CLUSTER_UUID,
	       RK_EDIT_VERSIONS };
struct rk_proposal {
	const char *object, *field, *recorded, *seen;
	const char *action;               /* "set" what was not known, "change" a value; for people: "replace" a tray, "exchange" two, "recable",
	                                   * "repair", "look"; "unknown": did not answer */
	const char *message;
	enum rk_edit edit;                /* what apply does: only for "set" and "change" */
	int index, tray;                  /* GPU, HCA, tray or rack that is edited; tray it belongs to, or RK_NONE */
	uint64_t guid;
	const char *text;
};
struct rk_discovery {
	struct rk_proposal *items; size_t n, cap; /* items: free() */
	size_t unread, asked;             /* of the trays, switches and fabrics */
	bool contradicts;                 /* something is not where the store has it, or is broken */
};
/* Pure. Texts in the arena or borrowed from seen. */
void rk_discover_compare(const struct rk_seen *seen, const int *trays, size_t n, struct rk_arena *arena, struct rk_discovery *ret);
/* Rows for people: proposals that say the same of several things become one, its objects folded; values that were not known become a count. */
void rk_discover_fold(const struct rk_discovery *discovery, struct rk_arena *arena, struct rk_proposal **ret, size_t *ret_n);
/* Writes the "set" and "change" proposals into the store, in one change planned against the snapshot of the world. What a VM holds is not
 * changed (RK_CONFLICT names it): that is `tray replace`. */
int rk_discover_apply(struct rk_world *world, const struct rk_discovery *discovery, size_t *ret_applied, struct rk_err *err);

/* A command on a tray's host over SSH, which ends with its caller (rk_ssh_run_tied); the twin answers as the host would. */
struct rk_host_conn;
int rk_host_connect(struct rk_world *world, int tray, struct rk_host_conn **ret, struct rk_err *err);
int rk_host_run(struct rk_host_conn *conn, const char *const *argv, struct rk_ssh_result *result, struct rk_err *err);
void rk_host_close(struct rk_host_conn *conn);
