#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "inventory/base/clock.h"
#include "inventory/store_impl.h"

/* Who holds what a constraint of the database refused to give away. */

/* The command in whose transaction a row was written. */
#define COMMAND_OF(t) "(SELECT what FROM changes h WHERE h.revision = " t ".revision)"
#define VM_HOLDER "SELECT 'VM ' || v.name || ' of cluster ' || c.name, v.actor, v.at_ms, " COMMAND_OF("v") " FROM vms v JOIN clusters c ON c.id = v.cluster"
#define PARTITION_HOLDER(table) "SELECT 'cluster ' || c.name, p.actor, p.at_ms, " COMMAND_OF("p") " FROM " table " p JOIN clusters c ON c.id = p.cluster"

enum key { BY_NAME, BY_TRAY, BY_UUID, BY_ADDRESS, BY_NUMBER, BY_GUID, BY_PLACE };

static const struct {
	const char *constraint, *thing;
	enum key key;
	const char *sql;
} holders[] = {
	{ "clusters_name", "the cluster name", BY_NAME,
	  "SELECT 'cluster ' || name, actor, at_ms, " COMMAND_OF("clusters") " FROM clusters WHERE name = ?" },
	{ "vms_tray", "tray", BY_TRAY, VM_HOLDER " WHERE v.tray = ?" },
	{ "vms_name", "the VM name", BY_NAME, VM_HOLDER " WHERE v.name = ?" },
	{ "vms_uuid", "UUID", BY_UUID, VM_HOLDER " WHERE v.uuid = ?" },
	{ "vms_address", "address", BY_ADDRESS, VM_HOLDER " WHERE v.address = ? AND v.ssh_port = ?" },
	{ "vms_cluster", "the number", BY_NUMBER, VM_HOLDER " WHERE c.name = ? AND v.number = ?" },
	{ "gpu_alloc_guid", "GPU", BY_GUID, VM_HOLDER " JOIN gpu_alloc a ON a.vm = v.id WHERE a.guid = ?" },
	{ "port_alloc_guid", "port", BY_GUID, VM_HOLDER " JOIN port_alloc a ON a.vm = v.id WHERE a.guid = ?" },
	{ "nvl_partitions_rack", "NVLink partition", BY_PLACE, PARTITION_HOLDER("nvl_partitions") " WHERE p.rack = ? AND p.id = ?" },
	{ "ib_partitions_fabric", "PKey", BY_PLACE, PARTITION_HOLDER("ib_partitions") " WHERE p.fabric = ? AND p.pkey = ?" },
};

static size_t key_args(enum key key, const struct rk_wanted *w, struct rk_db_value args[2], char label[128])
{
	const struct {
		const char *text;
		bool two;
		int second;
	} keys[] = {
		[BY_NAME] = { w->name, false, 0 },	 [BY_TRAY] = { w->tray, false, 0 },
		[BY_UUID] = { w->uuid, false, 0 },	 [BY_ADDRESS] = { w->address, true, w->ssh_port },
		[BY_NUMBER] = { w->cluster, true, w->number }, [BY_GUID] = { NULL, false, 0 },
		[BY_PLACE] = { w->place, true, w->id },
	};

	args[0] = key == BY_GUID ? RK_DB_I(w->guid) : RK_DB_S(keys[key].text);
	args[1] = RK_DB_I(keys[key].second);
	if (key == BY_GUID)
		snprintf(label, 128, "0x%016" PRIx64, w->guid);
	else
		snprintf(label, 128, keys[key].two ? "%s %d" : "%s", keys[key].text ? keys[key].text : "", keys[key].second);
	return keys[key].two ? 2 : 1;
}

struct holder {
	struct rk_err *err;
	const char *thing, *label;
	bool found;
};

static int name_holder(void *ctx, const struct rk_db_row *row, struct rk_err *err)
{
	struct holder *h = ctx;
	const char *command = rk_db_text(row, 3);
	char since[32];

	(void)err;
	h->found = true;
	rk_time_iso(rk_db_int(row, 2), since);
	rk_err_set(h->err, RK_CONFLICT, "%s %s is held by %s (%s, since %s%s%s)", h->thing, h->label, rk_db_text(row, 0), rk_db_text(row, 1), since,
		   command ? ", " : "", command ? command : "");
	rk_err_hint(h->err, "look at the site again and repeat the command");
	return 0;
}

/* Which of several constraints of a table refuses first is the database's mood; the order of the rows above decides what is said. */
int rk_store_explain(struct rk_store *store, int rc, const struct rk_wanted *w, struct rk_err *err)
{
	struct rk_db_value args[2];
	char label[128], constraint[sizeof(store->db->violation)];

	memcpy(constraint, store->db->violation, sizeof(constraint));
	if (rc != RK_CONFLICT || !*constraint || !err)
		return rc;
	for (size_t i = 0; i < RK_ARRAY_SIZE(holders); i++) {
		size_t table = strcspn(holders[i].constraint, "_") + 1;
		struct holder h = { err, holders[i].thing, label, false };
		if (strncmp(constraint, holders[i].constraint, table) != 0)
			continue;
		size_t n = key_args(holders[i].key, w, args, label);
		if (rk_db_query(store->db, holders[i].sql, args, n, name_holder, &h, NULL) || h.found)
			break;
	}
	return RK_CONFLICT;
}
