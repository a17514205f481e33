#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "inventory/store_impl.h"

/* Clusters and what they hold. A constraint of the database refuses what is held already; rk_store_explain names the holder. */

static const char vm_sql[] = "SELECT COUNT(*) FROM vms WHERE name = ?";

static int cluster_id(struct rk_store *store, const char *cluster, int64_t *ret, struct rk_err *err)
{
	const struct rk_db_value arg = RK_DB_S(cluster);
	int rc = rk_db_one_int(store->db, "SELECT id FROM clusters WHERE name = ?", &arg, 1, 0, ret, err);

	if (rc || *ret)
		return rc;
	return rk_err_set(err, RK_NOT_FOUND, "no cluster \"%s\"", cluster ? cluster : "");
}

static int add_cluster(struct rk_store *store, const struct rk_new_cluster *c, struct rk_err *err)
{
	const struct rk_wanted w = { .name = c->name };
	int64_t id = 0;
	int rc = rk_store_need(store, "tenant", "SELECT COUNT(*) FROM tenants WHERE name = ?", c->tenant, err);

	if (!rc)
		rc = rk_store_next(store, "cluster", &id, err);
	if (!rc)
		rc = rk_store_guard(store, err);
	if (rc)
		return rc;
	rc = rk_db_exec(store->db, err,
			"INSERT INTO clusters (id, name, tenant, size, image, state, spec, reasons, op, segment, spares_per_rack, next_number, actor,"
			" at_ms, revision) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?)",
			RK_DB_I(id), RK_DB_S(c->name), RK_DB_S(c->tenant), RK_DB_S(c->size), RK_DB_S(c->image),
			RK_DB_S(rk_cluster_state_name(RK_CLUSTER_PLANNED)), RK_DB_S(c->spec), RK_DB_S(c->reasons), RK_DB_I(c->op), RK_DB_I(c->segment),
			RK_DB_I(c->spares_per_rack), RK_DB_S(store->by), RK_DB_I(rk_store_now_ms()), RK_DB_I(store->revision + 1));
	rk_store_unguard(store, rc);
	return rk_store_explain(store, rc, &w, err);
}

int rk_store_add_cluster(struct rk_store *store, const struct rk_new_cluster *cluster, struct rk_err *err)
{
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc) {
		rk_store_what(store, "cluster create %s", cluster->name);
		rc = add_cluster(store, cluster, err);
	}
	return rk_store_part(store, own, rc, err);
}

/* One UPDATE or DELETE of one named object, whose name is the last argument. */
static int change_one(struct rk_store *store, const char *kind, const char *name, const char *verb, const char *sql, const struct rk_db_value *args,
		      size_t n, struct rk_err *err)
{
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc) {
		rk_store_what(store, "%s %s of %s", kind, verb, name ? name : "");
		rc = rk_db_query(store->db, sql, args, n, NULL, NULL, err);
	}
	if (!rc && !store->db->changed)
		rc = rk_err_set(err, RK_NOT_FOUND, "no %s \"%s\"", kind, name ? name : "");
	return rk_store_part(store, own, rc, err);
}

int rk_store_set_cluster_state(struct rk_store *store, const char *cluster, enum rk_cluster_state state, int64_t op, struct rk_err *err)
{
	const struct rk_db_value args[] = { RK_DB_S(rk_cluster_state_name(state)), RK_DB_I(op), RK_DB_S(cluster) };

	return change_one(store, "cluster", cluster, "state", "UPDATE clusters SET state = ?, op = ? WHERE name = ?", args, 3, err);
}

int rk_store_set_cluster_validation(struct rk_store *store, const char *cluster, const char *validation_json, struct rk_err *err)
{
	const struct rk_db_value args[] = { RK_DB_S(validation_json), RK_DB_S(cluster) };

	return change_one(store, "cluster", cluster, "validation", "UPDATE clusters SET validation = ? WHERE name = ?", args, 2, err);
}

int rk_store_set_cluster_spec(struct rk_store *store, const char *cluster, const char *spec, const char *reasons, struct rk_err *err)
{
	const struct rk_db_value args[] = { RK_DB_S(spec), RK_DB_S(reasons), RK_DB_S(cluster) };

	return change_one(store, "cluster", cluster, "spec", "UPDATE clusters SET spec = ?, reasons = COALESCE(?, reasons) WHERE name = ?", args, 3, err);
}

int rk_store_set_cluster_segment(struct rk_store *store, const char *cluster, int segment, struct rk_err *err)
{
	const struct rk_db_value args[] = { RK_DB_I(segment), RK_DB_S(cluster) };

	return change_one(store, "cluster", cluster, "segment", "UPDATE clusters SET segment = ? WHERE name = ?", args, 2, err);
}

static int rename_cluster(struct rk_store *store, const char *cluster, const char *name, struct rk_err *err)
{
	const struct rk_wanted w = { .name = name };
	int64_t id = 0;
	int rc = cluster_id(store, cluster, &id, err);

	if (!rc)
		rc = rk_store_guard(store, err);
	if (rc)
		return rc;
	rc = rk_db_exec(store->db, err, "UPDATE clusters SET name = ? WHERE id = ?", RK_DB_S(name), RK_DB_I(id));
	if (!rc)
		rc = rk_db_exec(store->db, err, "UPDATE vms SET host_name = COALESCE(host_name, name), name = ? || substr(name, ?) WHERE cluster = ?", RK_DB_S(name), RK_DB_I(strlen(cluster) + 1),
				RK_DB_I(id));
	rk_store_unguard(store, rc);
	return rk_store_explain(store, rc, &w, err);
}

int rk_store_rename_cluster(struct rk_store *store, const char *cluster, const char *name, struct rk_err *err)
{
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc) {
		rk_store_what(store, "cluster rename %s %s", cluster, name);
		rc = rename_cluster(store, cluster, name, err);
	}
	return rk_store_part(store, own, rc, err);
}

int rk_store_remove_cluster(struct rk_store *store, const char *cluster, struct rk_err *err)
{
	const struct rk_db_value args[] = { RK_DB_S(cluster) };
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc) {
		rk_store_what(store, "cluster deletion of %s", cluster);
		rc = rk_store_usage_end_cluster(store, cluster, err);
	}
	if (!rc)
		rc = change_one(store, "cluster", cluster, "deletion", "DELETE FROM clusters WHERE name = ?", args, 1, err);
	return rk_store_part(store, own, rc, err);
}

static int write_guids(struct rk_store *store, const char *table, const char *inventory_sql, const char *thing, const uint64_t *guids, size_t n,
		       int64_t vm, struct rk_wanted *w, struct rk_err *err)
{
	static const char *const inserts[] = { "INSERT INTO gpu_alloc (guid, vm) VALUES (?, ?)", "INSERT INTO port_alloc (guid, vm) VALUES (?, ?)" };

	for (size_t i = 0; i < n; i++) {
		const struct rk_db_value arg = RK_DB_I(guids[i]);
		int64_t known = 0;
		int rc = rk_db_one_int(store->db, inventory_sql, &arg, 1, 0, &known, err);
		if (!rc && !known) {
			rc = rk_err_set(err, RK_INVALID, "the %s 0x%016" PRIx64 " of tray \"%s\" is not in the inventory", thing, guids[i], w->tray);
			rk_err_hint(err, "racksh site discover %s --apply", w->tray);
		}
		w->guid = guids[i];
		if (!rc)
			rc = rk_db_exec(store->db, err, inserts[*table == 'p'], RK_DB_I(guids[i]), RK_DB_I(vm));
		if (rc)
			return rc;
	}
	return 0;
}

/* A number that a VM of this cluster had belongs to that VM for life: it comes back as it was (a rollback), or as a later generation. */
static int check_number(struct rk_store *store, int64_t cluster, const struct rk_new_vm *vm, struct rk_err *err)
{
	const struct rk_db_value args[] = { RK_DB_I(cluster), RK_DB_I(vm->number), RK_DB_I(vm->generation), RK_DB_S(vm->uuid), RK_DB_S(vm->tray) };
	int64_t dead = 0;
	int rc = rk_db_one_int(store->db,
			       "SELECT COUNT(*) FROM tombstones WHERE cluster = ? AND number = ? AND generation >= ? AND NOT (uuid = ? AND tray = ?)"
			       " AND generation = (SELECT MAX(t.generation) FROM tombstones t WHERE t.cluster = tombstones.cluster AND t.number ="
			       " tombstones.number)",
			       args, 5, 0, &dead, err);
	if (rc || !dead)
		return rc;
	return rk_err_set(err, RK_CONFLICT, "number %d of cluster \"%s\" was used by a VM that is deleted; numbers are never used again", vm->number,
			  vm->cluster);
}

static int write_vm(struct rk_store *store, const struct rk_new_vm *vm, int64_t cluster, struct rk_wanted *w, struct rk_err *err)
{
	int64_t id = 0;
	int rc = rk_store_next(store, "vm", &id, err);

	if (!rc)
		rc = rk_db_exec(store->db, err,
				"INSERT INTO vms (id, name, cluster, number, tray, uuid, state, address, ssh_port, mac, generation, host_key_public,"
				" host_key_private, host_name, actor, at_ms, revision) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
				RK_DB_I(id), RK_DB_S(vm->name), RK_DB_I(cluster), RK_DB_I(vm->number), RK_DB_S(vm->tray), RK_DB_S(vm->uuid),
				RK_DB_S(rk_vm_state_name(RK_VM_PLANNED)), RK_DB_S(vm->address), RK_DB_I(vm->ssh_port), RK_DB_S(vm->mac),
				RK_DB_I(vm->generation), RK_DB_S(vm->host_key_public), RK_DB_S(vm->host_key_private), RK_DB_S(vm->host_name),
				RK_DB_S(store->by), RK_DB_I(rk_store_now_ms()), RK_DB_I(store->revision + 1));
	if (!rc)
		rc = write_guids(store, "gpu_alloc", "SELECT COUNT(*) FROM gpus WHERE guid = ?", "GPU", vm->gpu_guids, vm->n_gpu_guids, id, w, err);
	if (!rc)
		rc = write_guids(store, "port_alloc", "SELECT COUNT(*) FROM hcas WHERE guid = ?", "port", vm->port_guids, vm->n_port_guids, id, w, err);
	if (!rc)
		rc = rk_db_exec(store->db, err, "UPDATE clusters SET next_number = ? WHERE id = ? AND next_number <= ?", RK_DB_I(vm->number + 1),
				RK_DB_I(cluster), RK_DB_I(vm->number));
	return rc ? rc : rk_store_usage_begin(store, vm->name, err);
}

static int add_vm(struct rk_store *store, const struct rk_new_vm *vm, struct rk_err *err)
{
	struct rk_wanted w = { .name = vm->name, .tray = vm->tray, .uuid = vm->uuid, .address = vm->address, .ssh_port = vm->ssh_port,
			    .cluster = vm->cluster, .number = vm->number };
	int64_t cluster = 0;
	int rc = cluster_id(store, vm->cluster, &cluster, err);

	if (!rc)
		rc = rk_store_need(store, "tray", "SELECT COUNT(*) FROM trays WHERE name = ?", vm->tray, err);
	if (!rc)
		rc = check_number(store, cluster, vm, err);
	if (!rc)
		rc = rk_store_guard(store, err);
	if (rc)
		return rc;
	rc = write_vm(store, vm, cluster, &w, err);
	rk_store_unguard(store, rc);
	return rk_store_explain(store, rc, &w, err);
}

int rk_store_add_vm(struct rk_store *store, const struct rk_new_vm *vm, struct rk_err *err)
{
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc) {
		rk_store_what(store, "VM %s", vm->name);
		rc = add_vm(store, vm, err);
	}
	return rk_store_part(store, own, rc, err);
}

#define BURY                                                                                                                   \
	"INSERT INTO tombstones (cluster, number, name, uuid, tray, generation, actor, at_ms)"                                  \
	" SELECT cluster, number, name, uuid, tray, generation, CAST(? AS TEXT), CAST(? AS BIGINT) FROM vms WHERE name = ?"

static int rewrite_vm(struct rk_store *store, const struct rk_new_vm *vm, struct rk_wanted *w, struct rk_err *err)
{
	const struct rk_db_value arg = RK_DB_S(vm->name);
	int64_t id = 0;
	int rc = rk_db_one_int(store->db, "SELECT id FROM vms WHERE name = ?", &arg, 1, 0, &id, err);

	if (!rc)
		rc = rk_db_exec(store->db, err, "DELETE FROM gpu_alloc WHERE vm = ?", RK_DB_I(id));
	if (!rc)
		rc = rk_db_exec(store->db, err, "DELETE FROM port_alloc WHERE vm = ?", RK_DB_I(id));
	if (!rc)
		rc = rk_db_exec(store->db, err,
				"UPDATE vms SET tray = ?, uuid = ?, state = ?, address = ?, ssh_port = ?, mac = ?, generation = ?, host_key_public = ?,"
				" host_key_private = ?, host_name = ?, actor = ?, at_ms = ?, revision = ? WHERE id = ?",
				RK_DB_S(vm->tray), RK_DB_S(vm->uuid), RK_DB_S(rk_vm_state_name(RK_VM_PLANNED)), RK_DB_S(vm->address), RK_DB_I(vm->ssh_port),
				RK_DB_S(vm->mac), RK_DB_I(vm->generation), RK_DB_S(vm->host_key_public), RK_DB_S(vm->host_key_private), RK_DB_S(vm->host_name),
				RK_DB_S(store->by), RK_DB_I(rk_store_now_ms()), RK_DB_I(store->revision + 1), RK_DB_I(id));
	if (!rc)
		rc = write_guids(store, "gpu_alloc", "SELECT COUNT(*) FROM gpus WHERE guid = ?", "GPU", vm->gpu_guids, vm->n_gpu_guids, id, w, err);
	if (!rc)
		rc = write_guids(store, "port_alloc", "SELECT COUNT(*) FROM hcas WHERE guid = ?", "port", vm->port_guids, vm->n_port_guids, id, w, err);
	if (!rc)
		rc = rk_store_usage_end(store, vm->name, err);
	return rc ? rc : rk_store_usage_begin(store, vm->name, err);
}

static int move_vm(struct rk_store *store, const struct rk_new_vm *vm, struct rk_err *err)
{
	/* Its name and number are its own. */
	struct rk_wanted w = { .tray = vm->tray, .uuid = vm->uuid, .address = vm->address, .ssh_port = vm->ssh_port };
	int rc = rk_store_need(store, "VM", vm_sql, vm->name, err);

	if (!rc)
		rc = rk_store_need(store, "tray", "SELECT COUNT(*) FROM trays WHERE name = ?", vm->tray, err);
	if (!rc)
		rc = rk_db_exec(store->db, err, BURY, RK_DB_S(store->by), RK_DB_I(rk_store_now_ms()), RK_DB_S(vm->name));
	if (!rc)
		rc = rk_store_guard(store, err);
	if (rc)
		return rc;
	rc = rewrite_vm(store, vm, &w, err);
	rk_store_unguard(store, rc);
	return rk_store_explain(store, rc, &w, err);
}

int rk_store_move_vm(struct rk_store *store, const struct rk_new_vm *vm, struct rk_err *err)
{
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc) {
		rk_store_what(store, "VM %s to tray %s", vm->name, vm->tray);
		rc = move_vm(store, vm, err);
	}
	return rk_store_part(store, own, rc, err);
}

int rk_store_remove_vm(struct rk_store *store, const char *vm, struct rk_err *err)
{
	bool own;
	int rc = rk_store_join(store, &own, err);

	if (!rc) {
		rk_store_what(store, "VM deletion of %s", vm);
		rc = rk_store_need(store, "VM", vm_sql, vm, err);
	}
	if (!rc)
		rc = rk_db_exec(store->db, err, BURY, RK_DB_S(store->by), RK_DB_I(rk_store_now_ms()), RK_DB_S(vm));
	if (!rc)
		rc = rk_store_usage_end(store, vm, err);
	if (!rc)
		rc = rk_db_exec(store->db, err, "DELETE FROM vms WHERE name = ?", RK_DB_S(vm));
	return rk_store_part(store, own, rc, err);
}

int rk_store_set_vm_state(struct rk_store *store, const char *vm, enum rk_vm_state state, struct rk_err *err)
{
	const struct rk_db_value args[] = { RK_DB_S(rk_vm_state_name(state)), RK_DB_S(vm) };

	return change_one(store, "VM", vm, "state", "UPDATE vms SET state = ? WHERE name = ?", args, 2, err);
}

static int take_key(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	const char *key = rk_db_text(row, 0);

	(void)err;
	*(char **)ctx = key ? rk_xstrdup(key) : NULL;
	return 0;
}

int rk_store_vm_host_key(struct rk_store *store, const char *vm, char **ret, struct rk_err *err)
{
	char *key = NULL;
	RK_STORE_HOLD(store);
	int rc = rk_store_ready(store, err);

	if (!rc)
		rc = rk_store_need(store, "VM", vm_sql, vm, err);
	if (!rc)
		rc = rk_db_each(store->db, err, take_key, &key, "SELECT host_key_private FROM vms WHERE name = ?", RK_DB_S(vm));
	if (!rc)
		*ret = key;
	return rc;
}

int rk_store_clear_vm_host_key(struct rk_store *store, const char *vm, struct rk_err *err)
{
	const struct rk_db_value args[] = { RK_DB_S(vm) };

	return change_one(store, "VM", vm, "host key", "UPDATE vms SET host_key_private = NULL WHERE name = ?", args, 1, err);
}

/* A partition row: its place exists, its number is free. */
static int add_partition(struct rk_store *store, const char *kind, const char *place_sql, const char *sql, const char *place, int id,
			 const char *cluster, const char *name, bool full, struct rk_err *err)
{
	const struct rk_wanted w = { .place = place, .id = id };
	int64_t owner = 0;
	int rc = rk_store_need(store, kind, place_sql, place, err);

	if (!rc)
		rc = cluster_id(store, cluster, &owner, err);
	if (!rc)
		rc = rk_store_guard(store, err);
	if (rc)
		return rc;
	const struct rk_db_value args[] = { RK_DB_S(place), RK_DB_I(id), RK_DB_I(owner), RK_DB_S(name), RK_DB_S(store->by), RK_DB_I(rk_store_now_ms()),
					    RK_DB_I(store->revision + 1), RK_DB_I(full) };
	rc = rk_db_query(store->db, sql, args, *kind == 'f' ? 8 : 7, NULL, NULL, err);
	rk_store_unguard(store, rc);
	return rk_store_explain(store, rc, &w, err);
}

int rk_store_add_nvl_partition(struct rk_store *store, const char *rack, int id, const char *cluster, const char *name, struct rk_err *err)
{
	bool own;

	if (id < 1 || id >= RK_NVL_DEFAULT)
		return rk_err_set(err, RK_INVALID, "NVLink partition id %d is not between 1 and %d", id, RK_NVL_DEFAULT - 1);
	int rc = rk_store_join(store, &own, err);
	if (!rc) {
		rk_store_what(store, "NVLink partition %s/%d", rack, id);
		rc = rk_store_nvl_not_remains(store, rack, id, err);
	}
	if (!rc)
		rc = add_partition(store, "rack", "SELECT COUNT(*) FROM racks WHERE name = ?",
				   "INSERT INTO nvl_partitions (rack, id, cluster, name, actor, at_ms, revision) VALUES (?, ?, ?, ?, ?, ?, ?)", rack, id, cluster,
				   name, false, err);
	return rk_store_part(store, own, rc, err);
}

/* Ids stay unique at every moment: the row that is in the way waits at a number that nobody has. */
static int exchange_ids(struct rk_store *store, const char *rack, const char *name, int id, struct rk_err *err)
{
	int64_t old = 0, aside = 0;
	const struct rk_db_value mine[] = { RK_DB_S(rack), RK_DB_S(name) };
	int rc = rk_db_one_int(store->db, "SELECT id FROM nvl_partitions WHERE rack = ? AND name = ?", mine, 2, 0, &old, err);

	if (!rc && !old)
		rc = rk_err_set(err, RK_NOT_FOUND, "rack \"%s\" has no NVLink partition \"%s\" in the store", rack, name);
	if (rc || old == id)
		return rc;
	rc = rk_db_one_int(store->db, "SELECT MIN(p.id) + 1 FROM nvl_partitions p WHERE p.rack = ? AND NOT EXISTS"
				      " (SELECT 1 FROM nvl_partitions q WHERE q.rack = p.rack AND q.id = p.id + 1)", mine, 1, 0, &aside, err);
	if (!rc)
		rc = rk_db_exec(store->db, err, "UPDATE nvl_partitions SET id = ? WHERE rack = ? AND id = ?", RK_DB_I(aside), RK_DB_S(rack), RK_DB_I(id));
	if (!rc)
		rc = rk_db_exec(store->db, err, "UPDATE nvl_partitions SET id = ? WHERE rack = ? AND id = ?", RK_DB_I(id), RK_DB_S(rack), RK_DB_I(old));
	/* Nobody was in the way: the number aside may be the new one. */
	return rc || aside == id ? rc : rk_db_exec(store->db, err, "UPDATE nvl_partitions SET id = ? WHERE rack = ? AND id = ?", RK_DB_I(old), RK_DB_S(rack), RK_DB_I(aside));
}

int rk_store_give_nvl_id(struct rk_store *store, const char *rack, const char *name, int id, struct rk_err *err)
{
	bool own;

	if (id < 1 || id >= RK_NVL_DEFAULT)
		return rk_err_set(err, RK_INVALID, "NVLink partition id %d is not between 1 and %d", id, RK_NVL_DEFAULT - 1);
	int rc = rk_store_join(store, &own, err);
	if (!rc) {
		rk_store_what(store, "NVLink partition %s/%d: the id that the network gave to %s", rack, id, name);
		rc = exchange_ids(store, rack, name, id, err);
	}
	return rk_store_part(store, own, rc, err);
}

int rk_store_remove_nvl_partition(struct rk_store *store, const char *rack, const char *cluster, struct rk_err *err)
{
	char *label RK_CLEANUP_FREE = rk_xasprintf("%s of rack %s", cluster, rack);
	const struct rk_db_value args[] = { RK_DB_S(rack), RK_DB_S(cluster) };

	return change_one(store, "NVLink partition", label, "deletion",
			  "DELETE FROM nvl_partitions WHERE rack = ? AND cluster = (SELECT id FROM clusters WHERE name = ?)", args, 2, err);
}

int rk_store_add_ib_partition(struct rk_store *store, const char *fabric, uint16_t pkey, const char *cluster, const char *name, bool full,
			      struct rk_err *err)
{
	bool own;

	if (pkey < 1 || pkey >= RK_PKEY_DEFAULT)
		return rk_err_set(err, RK_INVALID, "PKey 0x%04x is not between 0x0001 and 0x7ffe", pkey);
	int rc = rk_store_join(store, &own, err);
	if (!rc) {
		rk_store_what(store, "IB partition %s/0x%04x", fabric, pkey);
		rc = rk_store_key_not_served(store, fabric, pkey, err);
	}
	if (!rc)
		rc = rk_store_ib_not_remains(store, fabric, pkey, err);
	if (!rc)
		rc = add_partition(store, "fabric", "SELECT COUNT(*) FROM fabrics WHERE name = ?",
				   "INSERT INTO ib_partitions (fabric, pkey, cluster, name, actor, at_ms, revision, full_member) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
				   fabric, pkey, cluster, name, full, err);
	return rk_store_part(store, own, rc, err);
}

int rk_store_remove_ib_partition(struct rk_store *store, const char *fabric, uint16_t pkey, struct rk_err *err)
{
	char *label RK_CLEANUP_FREE = rk_xasprintf("%s/0x%04x", fabric, pkey);
	const struct rk_db_value args[] = { RK_DB_S(fabric), RK_DB_I(pkey) };

	return change_one(store, "IB partition", label, "deletion", "DELETE FROM ib_partitions WHERE fabric = ? AND pkey = ?", args, 2, err);
}
