/* The store: one small interface over SQLite, PostgreSQL and memory.
 *
 * URIs: "sqlite:PATH", "postgresql://...", "mem:". A missing SQLite file is read as an empty site and made by the first change.
 * Every change runs in one transaction that names the revision it was planned against; a store that moved on answers RK_CONFLICT and
 * says who changed what. Constraints against double allocation (GPU, port GUID, (domain, partition id), (fabric, PKey), tray, address)
 * are in the database; a violation is RK_CONFLICT naming the holder. Thread safe: calls of one handle take turns, and a change keeps the
 * others waiting from begin to commit. */
#pragma once
#include "inventory/base/str.h"
#include "inventory/model.h"

struct rk_store;

enum rk_store_mode { RK_STORE_READ, RK_STORE_WRITE };

/* Who acts; written to audit rows and leases. */
struct rk_actor {
	const char *user, *host;
	long pid;
};

int rk_store_open(const char *uri, enum rk_store_mode mode, const struct rk_actor *actor, struct rk_store **ret, struct rk_err *err);
/* A store in memory ("mem:") that begins with this inventory, which outlives it and its snapshots. It is made when more is asked of it than the
 * first snapshot: most commands on a twin ask for nothing else, and making it takes as long as all the rest of them. */
struct rk_store *rk_store_begun_with(const struct rk_site *site, const struct rk_actor *actor);
void rk_store_close(struct rk_store *store);
void rk_cleanup_store(struct rk_store **store);
#define RK_CLEANUP_STORE __attribute__((cleanup(rk_cleanup_store)))
const char *rk_store_by(const struct rk_store *store); /* who acts: "user@host pid" */
const char *rk_store_uri(const struct rk_store *store); /* for messages: without a password */
const char *rk_store_uri_shown(struct rk_arena *arena, const char *uri); /* the same of any URI */
int rk_store_newest_schema(void); /* that this program knows */

/* Reads everything at one revision. */
int rk_store_snapshot(struct rk_store *store, struct rk_site **ret, struct rk_err *err);

/* A short text that differs as soon as a snapshot, or the state of any operation, would: a few rows instead of all of them. Appended to ret. */
int rk_store_pulse(struct rk_store *store, struct rk_str *ret, struct rk_err *err);

/* Transactions. revision: what the change was planned against, or -1 for "whatever it is". Nesting is a bug.
 * Commit raises the revision by one, unless nothing but the journal, leases or the audit changed. Between begin and commit/rollback the functions below change things. */
int rk_store_begin(struct rk_store *store, int64_t revision, struct rk_err *err);
int rk_store_commit(struct rk_store *store, struct rk_err *err);
void rk_store_rollback(struct rk_store *store);
/* on, inside an open change: begin and commit of others are parts of that change until off; a rollback of theirs takes back their part alone. */
void rk_store_compose(struct rk_store *store, bool on);
/* on: every commit takes the change back instead of keeping it, until off. A change that is tried so is refused for whatever it would be refused for. */
void rk_store_try(struct rk_store *store, bool on);
bool rk_store_trying(const struct rk_store *store);

/* Replaces the inventory by that of `site` (cordons, reservations, clusters stay). RK_CONFLICT when an allocated thing would go. */
int rk_store_put_site(struct rk_store *store, const struct rk_site *site, struct rk_err *err);
/* reason NULL takes the mark away. */
int rk_store_set_tray_cordon(struct rk_store *store, const char *tray, const char *reason, struct rk_err *err);
int rk_store_set_rack_cordon(struct rk_store *store, const char *rack, const char *reason, struct rk_err *err);
int rk_store_set_tray_faulty(struct rk_store *store, const char *tray, const char *reason, struct rk_err *err);
/* As set, unless something is said of it already. */
int rk_store_add_tray_fault(struct rk_store *store, const char *tray, const char *reason, struct rk_err *err);
int rk_store_set_tray_offline(struct rk_store *store, const char *tray, const char *reason, struct rk_err *err);
/* New hardware in the slot of a tray: its identities replace the old ones, which are retired; what a VM held by the old ones it holds by the new
 * ones, and the VM is failed (its host is gone). RK_CONFLICT when a new identity is recorded elsewhere. */
struct rk_tray_identity;
int rk_store_replace_tray(struct rk_store *store, const char *tray, const struct rk_tray_identity *identity, struct rk_err *err);
/* What a leak detector says; NULL when it is dry again. */
int rk_store_set_tray_leak(struct rk_store *store, const char *tray, const char *what, struct rk_err *err);
/* Coolant of a rack as read: supply temperature in degrees C and flow in l/min; 0 and 0: no longer known. */
int rk_store_set_rack_coolant(struct rk_store *store, const char *rack, double supply_c, double flow_lpm, struct rk_err *err);
/* What a tray was seen to run: JSON object with the keys of the site's `versions`; NULL when it is no longer known. */
int rk_store_set_tray_versions(struct rk_store *store, const char *tray, const char *versions, struct rk_err *err);
int rk_store_add_image(struct rk_store *store, const struct rk_image *image, struct rk_err *err);
int rk_store_remove_image(struct rk_store *store, const char *name, struct rk_err *err); /* RK_CONFLICT while a cluster uses it */
int rk_store_add_reservation(struct rk_store *store, const char *tenant, const char *racks, int count, int64_t from_unix_ms, int64_t to_unix_ms,
			     int64_t *ret_id, struct rk_err *err);
int rk_store_remove_reservation(struct rk_store *store, int64_t id, struct rk_err *err);
/* Silences of health findings; the fields of rk_silence but its id and who. */
int rk_store_add_silence(struct rk_store *store, const struct rk_silence *silence, int64_t *ret_id, struct rk_err *err);
int rk_store_remove_silence(struct rk_store *store, int64_t id, struct rk_err *err);
int rk_store_add_tenant(struct rk_store *store, const char *name, struct rk_err *err);
int rk_store_set_tenant_quota(struct rk_store *store, const char *name, int vms, int pkeys, struct rk_err *err); /* 0 = none */
int rk_store_remove_tenant(struct rk_store *store, const char *name, struct rk_err *err);

/* Clusters. Everything is given by name or identity, so that a caller needs no row ids. */
struct rk_new_cluster {
	const char *name, *tenant, *size, *image, *spec, *reasons;
	int segment, spares_per_rack;
	int64_t op;
};
int rk_store_add_cluster(struct rk_store *store, const struct rk_new_cluster *cluster, struct rk_err *err);
int rk_store_set_cluster_state(struct rk_store *store, const char *cluster, enum rk_cluster_state state, int64_t op, struct rk_err *err);
int rk_store_set_cluster_validation(struct rk_store *store, const char *cluster, const char *validation_json, struct rk_err *err);
/* Grow, shrink: the spec as it is now; reasons NULL keeps the old ones. */
int rk_store_set_cluster_spec(struct rk_store *store, const char *cluster, const char *spec, const char *reasons, struct rk_err *err);
int rk_store_set_cluster_segment(struct rk_store *store, const char *cluster, int segment, struct rk_err *err);
/* The cluster and its VMs (CLUSTER-NN); names of partitions stay as the switches know them. RK_CONFLICT when a new name is taken. */
int rk_store_rename_cluster(struct rk_store *store, const char *cluster, const char *name, struct rk_err *err);
int rk_store_remove_cluster(struct rk_store *store, const char *cluster, struct rk_err *err); /* with its VMs, partitions, allocations */
struct rk_new_vm {
	const char *name, *cluster, *tray, *uuid, *address, *mac, *host_key_public, *host_key_private;
	const char *host_name;                            /* NULL: as name */
	int number, ssh_port, generation;
	const uint64_t *gpu_guids;  size_t n_gpu_guids;   /* allocated with it; each in at most one cluster */
	const uint64_t *port_guids; size_t n_port_guids;  /* each in at most one tenant key */
};
int rk_store_add_vm(struct rk_store *store, const struct rk_new_vm *vm, struct rk_err *err);
/* The VM of this name gets another body (tray, uuid, address, keys, generation) and that tray's devices; cluster and number stay. */
int rk_store_move_vm(struct rk_store *store, const struct rk_new_vm *vm, struct rk_err *err);
int rk_store_remove_vm(struct rk_store *store, const char *vm, struct rk_err *err);
int rk_store_set_vm_state(struct rk_store *store, const char *vm, enum rk_vm_state state, struct rk_err *err);
/* The private host key of a VM, while it is kept (until the guest was seen with it); *ret NULL when it is gone. malloc'ed; wipe it. */
int rk_store_vm_host_key(struct rk_store *store, const char *vm, char **ret, struct rk_err *err);
/* The guest was seen with its key: the private half is no longer needed here. */
int rk_store_clear_vm_host_key(struct rk_store *store, const char *vm, struct rk_err *err);
int rk_store_add_nvl_partition(struct rk_store *store, const char *rack, int id, const char *cluster, const char *name, struct rk_err *err);
/* The network gave the cluster's partition in that rack another id than the planned one. Another cluster's row of that id, which cannot be on the
 * network, takes the planned one in exchange. */
int rk_store_give_nvl_id(struct rk_store *store, const char *rack, const char *name, int id, struct rk_err *err);
int rk_store_remove_nvl_partition(struct rk_store *store, const char *rack, const char *cluster, struct rk_err *err);
/* Something that an operation was ended without taking away (struct rk_remains): no cluster and no service gets its number. why NULL: it is gone. */
int rk_store_set_nvl_remains(struct rk_store *store, const char *rack, int id, const char *name, const char *why, struct rk_err *err);
int rk_store_set_ib_remains(struct rk_store *store, const char *fabric, uint16_t pkey, const char *name, const char *why, struct rk_err *err);
/* What was last read of an NVLink partition: how many GPUs the switch had in it, and how many of those whose guests were asked said so, too. */
struct rk_nvl_note {
	const char *rack, *name;          /* of the partition */
	long live;                        /* -1: never read */
	long seen, asked;                 /* asked 0: nobody was asked */
	int64_t live_ms, seen_ms;         /* unix, when; 0: never */
};
/* Written with the present time; what was not read now (live -1, asked 0) keeps its old value. The revision stays. */
int rk_store_note_nvl(struct rk_store *store, const struct rk_nvl_note *note, struct rk_err *err);
/* Of all partitions of the store that were read since they were made. In the arena. */
int rk_store_nvl_notes(struct rk_store *store, struct rk_arena *arena, struct rk_nvl_note **ret, size_t *ret_n, struct rk_err *err);
/* Which switch of a rack ran the NVLink controller when that was last seen; *ret NULL: never. */
int rk_store_note_nvl_controller(struct rk_store *store, const char *rack, const char *where, struct rk_err *err);
int rk_store_nvl_controller(struct rk_store *store, const char *rack, struct rk_arena *arena, const char **ret, int64_t *ret_ms, struct rk_err *err);
int rk_store_add_ib_partition(struct rk_store *store, const char *fabric, uint16_t pkey, const char *cluster, const char *name, bool full,
			      struct rk_err *err);
int rk_store_remove_ib_partition(struct rk_store *store, const char *fabric, uint16_t pkey, struct rk_err *err);
/* A partition that is shared (struct rk_ib_service); tenants NULL: all. RK_CONFLICT when the key or the name is taken. */
struct rk_new_service {
	const char *name, *fabric;
	uint16_t pkey;
	const uint64_t *servers; size_t n_servers;
	const char *const *tenants; size_t n_tenants;
};
int rk_store_add_service(struct rk_store *store, const struct rk_new_service *service, struct rk_err *err);
int rk_store_remove_service(struct rk_store *store, const char *name, struct rk_err *err);
/* Smallest free ids of the pools (the constraint still decides). RK_NO_CAPACITY when the pool is empty. */
int rk_store_free_pkey(const struct rk_site *site, int fabric, uint16_t *ret, struct rk_err *err);
int rk_store_free_nvl_id(const struct rk_site *site, int rack, int *ret, struct rk_err *err);
/* Unused address of the site's block, from .10 up. In the arena. */
int rk_store_free_address(const struct rk_site *site, size_t nth, struct rk_arena *arena, const char **ret, struct rk_err *err);

/* Operations and their journal. States: running, awaiting-confirm, done, failed, resumable, rolled-back, cancelled. */
struct rk_op_row {
	int64_t id;
	const char *command, *state, *by, *detail; /* by "user@host pid" */
	const char *params;                        /* JSON: what is needed to rebuild the operation */
	const char *runner;                        /* "host pid": who carries it out, or did last */
	int64_t started_ms, ended_ms;              /* unix; ended 0 = not yet */
};
struct rk_step_row {
	int64_t op;
	int id;                                    /* 1.. in plan order */
	const char *kind, *target, *params;        /* params: JSON object */
	const char *deps;                          /* "1,4,7": steps that must be done before, or "" */
	const char *state;                         /* planned, applying, done, undoing, undone, failed, unknown */
	const char *before, *detail;               /* before: JSON that undo needs; detail: last word */
	int64_t started_ms, ended_ms;
};
int rk_store_op_add(struct rk_store *store, const char *command, const char *params, int64_t *ret_id, struct rk_err *err);
int rk_store_op_set(struct rk_store *store, int64_t op, const char *state, const char *detail, struct rk_err *err);
int rk_store_op_list(struct rk_store *store, struct rk_arena *arena, struct rk_op_row **ret, size_t *ret_n, struct rk_err *err); /* newest first */
/* The newest `max` of them; those that are not over, and whatever began with id `since` or later. A site has tens of thousands that are over. */
int rk_store_op_newest(struct rk_store *store, int max, struct rk_arena *arena, struct rk_op_row **ret, size_t *ret_n, struct rk_err *err);
int rk_store_op_open(struct rk_store *store, int64_t since, struct rk_arena *arena, struct rk_op_row **ret, size_t *ret_n, struct rk_err *err);
int rk_store_op_get(struct rk_store *store, int64_t op, struct rk_arena *arena, struct rk_op_row *ret, struct rk_err *err);
int rk_store_step_add(struct rk_store *store, const struct rk_step_row *step, struct rk_err *err);
/* The journal write: state, and before/detail where not NULL. Outside a transaction it is one of its own (durable when it returns). */
int rk_store_step_set(struct rk_store *store, int64_t op, int step, const char *state, const char *before, const char *detail, struct rk_err *err);
int rk_store_step_list(struct rk_store *store, int64_t op, struct rk_arena *arena, struct rk_step_row **ret, size_t *ret_n, struct rk_err *err);

/* Is it a cluster's now, whatever a snapshot says? Inside a transaction nobody can take it meanwhile. */
int rk_store_nvl_known(struct rk_store *store, const char *rack, int id, const char *name, bool *ret, struct rk_err *err); /* by either */
int rk_store_ib_known(struct rk_store *store, const char *fabric, uint16_t pkey, bool *ret, struct rk_err *err);
/* Is there a service of this name, and is that its key? */
int rk_store_service_known(struct rk_store *store, const char *name, const char *fabric, uint16_t pkey, bool *ret, struct rk_err *err);
/* Did an operation of this store make a partition of this name in the rack, or begin to? id: the planned one; RK_NONE: any. */
int rk_store_nvl_made(struct rk_store *store, const char *rack, int id, const char *name, bool *ret, struct rk_err *err);
/* Params of the newest step of this kind and target, whatever became of it; NULL: there never was one. In the arena. */
int rk_store_step_params(struct rk_store *store, const char *kind, const char *target, struct rk_arena *arena, const char **ret, struct rk_err *err);

/* Leases on things an operation touches ("cluster:a", "tray:r01-t03", "address:10.0.0.12", "uuid:..."). RK_CONFLICT names the holder, since when,
 * doing what; it may be the same operation, when another process took it over. */
int rk_store_lease_take(struct rk_store *store, const char *thing, int64_t op, const char *purpose, struct rk_err *err);
int rk_store_lease_held(struct rk_store *store, const char *thing, bool *ret, struct rk_err *err);
/* For an operation that lives but writes nothing for long: half an hour after the last write it would be taken for dead by other hosts. */
int rk_store_lease_keep(struct rk_store *store, int64_t op, struct rk_err *err);
int rk_store_lease_drop(struct rk_store *store, int64_t op, struct rk_err *err);
/* Gives the leases of an operation to this actor; tells the former owner (in the arena). */
int rk_store_lease_takeover(struct rk_store *store, int64_t op, struct rk_arena *arena, const char **ret_former, struct rk_err *err);
/* Is the process that runs op still there? (same host: kill(pid, 0); other host: lease not expired) */
int rk_store_op_alive(struct rk_store *store, int64_t op, bool *ret, struct rk_err *err);

/* A lane ("nvlink:r01", "ib:ib0") is held for one step at a time, by one operation of whatever process. *ret false: an operation that runs has it;
 * `said` (may be NULL) says which. One whose process is gone, or that is not run now, does not hold it. Whoever was taken over drops nothing. */
int rk_store_lane_take(struct rk_store *store, const char *lane, int64_t op, const char *purpose, bool *ret, struct rk_err *said, struct rk_err *err);
int rk_store_lane_drop(struct rk_store *store, const char *lane, int64_t op, struct rk_err *err);

struct rk_audit_row {
	int64_t id, at_ms, op;
	const char *by, *command, *result;
};
int rk_store_audit(struct rk_store *store, const char *command, const char *result, int64_t op, struct rk_err *err);
int rk_store_audit_list(struct rk_store *store, struct rk_arena *arena, struct rk_audit_row **ret, size_t *ret_n, struct rk_err *err);

/* Use per tenant, cluster and size between two times; what still runs counts until now. GPU-hours: GPUs that a VM held times how long. */
struct rk_usage_row {
	const char *tenant, *cluster, *size;
	int vms;
	double gpu_hours, vm_hours;
	bool running;                              /* some of it goes on */
};
int rk_store_usage(struct rk_store *store, int64_t from_ms, int64_t to_ms, struct rk_arena *arena, struct rk_usage_row **ret, size_t *ret_n, struct rk_err *err);

/* What validations measured on a target and the next ones compare with: JSON (provision/health/memory.h). The last RK_HEALTH_SAMPLES of each
 * target are kept. No part of a snapshot. */
enum { RK_HEALTH_SAMPLES = 8 };
struct rk_health_sample {
	const char *target;
	int64_t at_ms;
	const char *body;
};
int rk_store_add_health_samples(struct rk_store *store, const struct rk_health_sample *samples, size_t n, struct rk_err *err);
/* Of one target, or (NULL) of all, by target and newest first. In the arena. */
int rk_store_health_samples(struct rk_store *store, const char *target, struct rk_arena *arena, struct rk_health_sample **ret, size_t *ret_n,
			    struct rk_err *err);

/* The last imported fabric (ibnetdiscover text) per fabric; *ret NULL when none. */
int rk_store_put_topology(struct rk_store *store, const char *fabric, const char *text, struct rk_err *err);
/* The state that later ones are compared with. A fabric that is imported without any finding accepts itself. */
int rk_store_accept_topology(struct rk_store *store, const char *fabric, const char *text, struct rk_err *err);
/* rk_topology_check, and what changed since the fabric was accepted, in the arena. */
struct rk_topology;
struct rk_ib_finding;
int rk_store_judge_topology(struct rk_store *store, const struct rk_topology *topology, const struct rk_site *site, int fabric, struct rk_arena *arena,
			    struct rk_ib_finding **ret, size_t *ret_n, struct rk_err *err);
int rk_store_get_topology(struct rk_store *store, const char *fabric, struct rk_arena *arena, const char **ret, struct rk_err *err);

/* Everything that is wrong with the stored site: integrity of the store, the checks of inventory/site_check.h, and the wiring of every imported
 * fabric. 0 also with findings; an error only when it could not be looked at. */
struct rk_site_findings;
int rk_store_judge(struct rk_store *store, const struct rk_site *site, struct rk_site_findings *found, struct rk_err *err);
int rk_store_check(struct rk_store *store, struct rk_err *err);
/* The same of a store that may be too bad to be opened: 0, RK_UNHEALTHY damaged or contradictory, RK_UNREACHABLE it cannot be told (not there,
 * not readable, no answer, another schema). */
int rk_store_examine(const char *uri, struct rk_err *err);                 /* integrity; RK_UNHEALTHY with details */
int rk_store_backup(struct rk_store *store, const char *path, struct rk_err *err);
/* Everything from one store into another one (any kinds), which is not there yet or empty: whole, or nothing. The old one stays as it is.
 * RK_CONFLICT: the new one is in use, or an operation runs in the old one. */
int rk_store_copy(struct rk_store *from, struct rk_store *to, struct rk_err *err);
/* Would that be refused? Both may be open for reading only. */
int rk_store_copy_look(struct rk_store *from, struct rk_store *to, struct rk_err *err);
int rk_store_schema(const struct rk_store *store);
/* To the newest schema, in one transaction. */
int rk_store_migrate(struct rk_store *store, int *ret_from, int *ret_to, struct rk_err *err);
