#include "inventory/store_impl.h"

#include <string.h>

/* One portable set of statements for SQLite and PostgreSQL. Rules: identities and times are BIGINT; constraints are named
 * <table>_<first column>; references from allocations into the inventory are checked at commit, so that an import may replace the
 * inventory as a whole and still cannot drop what is held. A migration that was released is never edited. */

#define AT_COMMIT "DEFERRABLE INITIALLY DEFERRED"
#define MANAGER "driver TEXT, ssh TEXT, ssh_text TEXT, url TEXT, credentials_file TEXT, ca_file TEXT"
#define SSH_CONF "ssh_user TEXT, ssh_port BIGINT NOT NULL, known_hosts TEXT, identity_file TEXT"

static const char *const first[] = {
	"CREATE TABLE meta (name TEXT NOT NULL CONSTRAINT meta_name PRIMARY KEY, value BIGINT NOT NULL)",
	"INSERT INTO meta (name, value) VALUES ('schema', 0), ('revision', 0), ('cluster', 0), ('vm', 0), ('op', 0), ('audit', 0), ('reservation', 0)",

	"CREATE TABLE site (id INTEGER PRIMARY KEY, name TEXT, region TEXT, pool TEXT, bridge TEXT, macvtap TEXT, user_net BIGINT NOT NULL,"
	" addresses TEXT, gateway TEXT, dns TEXT, hv_libvirt TEXT, hv_qemu TEXT, hv_arch TEXT, hv_page_kib BIGINT NOT NULL, versions TEXT,"
	" hooks TEXT, bmc TEXT, def_profile TEXT, def_libvirt TEXT, " SSH_CONF ", def_nvme TEXT)",
	"CREATE TABLE profiles (pos INTEGER PRIMARY KEY, name TEXT NOT NULL)",
	"CREATE TABLE fabrics (pos INTEGER PRIMARY KEY, name TEXT NOT NULL CONSTRAINT fabrics_name UNIQUE, " MANAGER ", partitions_file TEXT,"
	" pid_file TEXT, pkey_first BIGINT NOT NULL, pkey_last BIGINT NOT NULL, rate_gbps BIGINT NOT NULL, oversubscription DOUBLE PRECISION NOT NULL)",
	"CREATE TABLE racks (pos INTEGER PRIMARY KEY, name TEXT NOT NULL CONSTRAINT racks_name UNIQUE, location TEXT, profile BIGINT NOT NULL,"
	" power_kw DOUBLE PRECISION NOT NULL, cluster_uuid TEXT, " MANAGER ", spares BIGINT NOT NULL)",
	"CREATE TABLE trays (pos INTEGER PRIMARY KEY, name TEXT NOT NULL CONSTRAINT trays_name UNIQUE, rack BIGINT NOT NULL, number BIGINT NOT NULL,"
	" slot BIGINT NOT NULL, libvirt_uri TEXT, serial TEXT, " SSH_CONF ", ssh_host TEXT, nvme TEXT)",
	"CREATE TABLE gpus (pos INTEGER PRIMARY KEY, tray BIGINT NOT NULL, idx BIGINT NOT NULL, module_id BIGINT NOT NULL, pci TEXT, serial TEXT,"
	" uuid TEXT, guid BIGINT CONSTRAINT gpus_guid UNIQUE)",
	"CREATE TABLE hcas (pos INTEGER PRIMARY KEY, tray BIGINT NOT NULL, rail BIGINT NOT NULL, fabric BIGINT NOT NULL, pci TEXT,"
	" guid BIGINT CONSTRAINT hcas_guid UNIQUE)",
	"CREATE TABLE images (pos INTEGER PRIMARY KEY, name TEXT NOT NULL CONSTRAINT images_name UNIQUE, volume TEXT, arch TEXT, format TEXT,"
	" checksum TEXT, kernel TEXT, initrd TEXT, cmdline TEXT)",
	"CREATE TABLE tenants (pos INTEGER PRIMARY KEY, name TEXT NOT NULL CONSTRAINT tenants_name UNIQUE, quota_vms BIGINT NOT NULL,"
	" quota_pkeys BIGINT NOT NULL)",
	"CREATE TABLE marks (kind TEXT NOT NULL, name TEXT NOT NULL, mark TEXT NOT NULL, reason TEXT NOT NULL, actor TEXT NOT NULL,"
	" at_ms BIGINT NOT NULL, CONSTRAINT marks_kind PRIMARY KEY (kind, name, mark))",

	"CREATE TABLE clusters (id BIGINT NOT NULL CONSTRAINT clusters_id PRIMARY KEY, name TEXT NOT NULL CONSTRAINT clusters_name UNIQUE,"
	" tenant TEXT NOT NULL CONSTRAINT clusters_tenant REFERENCES tenants (name) " AT_COMMIT ", size TEXT NOT NULL, image TEXT,"
	" state TEXT NOT NULL, spec TEXT, reasons TEXT, validation TEXT, op BIGINT NOT NULL, segment BIGINT NOT NULL,"
	" spares_per_rack BIGINT NOT NULL, next_number BIGINT NOT NULL, actor TEXT NOT NULL, at_ms BIGINT NOT NULL, revision BIGINT NOT NULL)",
	"CREATE TABLE vms (id BIGINT NOT NULL CONSTRAINT vms_id PRIMARY KEY, name TEXT NOT NULL CONSTRAINT vms_name UNIQUE,"
	" cluster BIGINT NOT NULL CONSTRAINT vms_cluster_there REFERENCES clusters (id) ON DELETE CASCADE, number BIGINT NOT NULL,"
	" tray TEXT NOT NULL CONSTRAINT vms_tray UNIQUE CONSTRAINT vms_tray_there REFERENCES trays (name) " AT_COMMIT ","
	" uuid TEXT CONSTRAINT vms_uuid UNIQUE, state TEXT NOT NULL, address TEXT, ssh_port BIGINT NOT NULL, mac TEXT,"
	" generation BIGINT NOT NULL, host_key_public TEXT, host_key_private TEXT, actor TEXT NOT NULL, at_ms BIGINT NOT NULL, revision BIGINT NOT NULL,"
	" CONSTRAINT vms_address UNIQUE (address, ssh_port), CONSTRAINT vms_cluster UNIQUE (cluster, number))",
	"CREATE TABLE gpu_alloc (guid BIGINT NOT NULL CONSTRAINT gpu_alloc_guid PRIMARY KEY"
	" CONSTRAINT gpu_alloc_there REFERENCES gpus (guid) " AT_COMMIT ","
	" vm BIGINT NOT NULL CONSTRAINT gpu_alloc_vm REFERENCES vms (id) ON DELETE CASCADE)",
	"CREATE INDEX gpu_alloc_by_vm ON gpu_alloc (vm)",
	"CREATE TABLE port_alloc (guid BIGINT NOT NULL CONSTRAINT port_alloc_guid PRIMARY KEY"
	" CONSTRAINT port_alloc_there REFERENCES hcas (guid) " AT_COMMIT ","
	" vm BIGINT NOT NULL CONSTRAINT port_alloc_vm REFERENCES vms (id) ON DELETE CASCADE)",
	"CREATE INDEX port_alloc_by_vm ON port_alloc (vm)",
	"CREATE TABLE nvl_partitions (rack TEXT NOT NULL CONSTRAINT nvl_partitions_there REFERENCES racks (name) " AT_COMMIT ","
	" id BIGINT NOT NULL CONSTRAINT nvl_partitions_range CHECK (id BETWEEN 1 AND 32765), cluster BIGINT NOT NULL"
	" CONSTRAINT nvl_partitions_cluster REFERENCES clusters (id) ON DELETE CASCADE, name TEXT, actor TEXT NOT NULL, at_ms BIGINT NOT NULL, revision BIGINT NOT NULL,"
	" CONSTRAINT nvl_partitions_rack PRIMARY KEY (rack, id))",
	"CREATE TABLE ib_partitions (fabric TEXT NOT NULL CONSTRAINT ib_partitions_there REFERENCES fabrics (name) " AT_COMMIT ","
	" pkey BIGINT NOT NULL CONSTRAINT ib_partitions_range CHECK (pkey BETWEEN 1 AND 32766), cluster BIGINT NOT NULL"
	" CONSTRAINT ib_partitions_cluster REFERENCES clusters (id) ON DELETE CASCADE, name TEXT, full_member BIGINT NOT NULL,"
	" actor TEXT NOT NULL, at_ms BIGINT NOT NULL, revision BIGINT NOT NULL, CONSTRAINT ib_partitions_fabric PRIMARY KEY (fabric, pkey))",
	"CREATE TABLE tombstones (cluster BIGINT NOT NULL, number BIGINT NOT NULL, name TEXT NOT NULL, uuid TEXT, tray TEXT NOT NULL,"
	" generation BIGINT NOT NULL, actor TEXT NOT NULL, at_ms BIGINT NOT NULL)",
	"CREATE INDEX tombstones_by_number ON tombstones (cluster, number)",
	"CREATE TABLE reservations (id BIGINT NOT NULL CONSTRAINT reservations_id PRIMARY KEY,"
	" tenant TEXT NOT NULL CONSTRAINT reservations_tenant REFERENCES tenants (name) " AT_COMMIT ", racks TEXT, trays BIGINT NOT NULL,"
	" from_ms BIGINT NOT NULL, to_ms BIGINT NOT NULL, actor TEXT NOT NULL)",

	"CREATE TABLE ops (id BIGINT NOT NULL CONSTRAINT ops_id PRIMARY KEY, command TEXT NOT NULL, params TEXT, state TEXT NOT NULL, detail TEXT,"
	" actor TEXT NOT NULL, runner_host TEXT NOT NULL, runner_pid BIGINT NOT NULL, runner_start BIGINT NOT NULL, started_ms BIGINT NOT NULL,"
	" ended_ms BIGINT NOT NULL)",
	"CREATE TABLE steps (op BIGINT NOT NULL CONSTRAINT steps_there REFERENCES ops (id), id BIGINT NOT NULL, kind TEXT NOT NULL,"
	" target TEXT NOT NULL, params TEXT, deps TEXT NOT NULL, state TEXT NOT NULL, undo_json TEXT, detail TEXT, started_ms BIGINT NOT NULL,"
	" ended_ms BIGINT NOT NULL, CONSTRAINT steps_op PRIMARY KEY (op, id))",
	"CREATE TABLE leases (thing TEXT NOT NULL CONSTRAINT leases_thing PRIMARY KEY, op BIGINT NOT NULL, owner_user TEXT NOT NULL,"
	" owner_host TEXT NOT NULL, owner_pid BIGINT NOT NULL, purpose TEXT NOT NULL, since_ms BIGINT NOT NULL, expires_ms BIGINT NOT NULL)",
	"CREATE INDEX leases_by_op ON leases (op)",
	"CREATE TABLE audit (id BIGINT NOT NULL CONSTRAINT audit_id PRIMARY KEY, at_ms BIGINT NOT NULL, actor TEXT NOT NULL, command TEXT NOT NULL,"
	" result TEXT NOT NULL, op BIGINT NOT NULL)",
	"CREATE TABLE topology (fabric TEXT NOT NULL CONSTRAINT topology_fabric PRIMARY KEY, body TEXT NOT NULL, actor TEXT NOT NULL,"
	" at_ms BIGINT NOT NULL)",
	NULL,
};

/* Who changed what at which revision (for conflict messages), and where each port was seen on the fabric. */
static const char *const second[] = {
	"CREATE TABLE changes (revision BIGINT NOT NULL CONSTRAINT changes_revision PRIMARY KEY, at_ms BIGINT NOT NULL, actor TEXT NOT NULL,"
	" what TEXT NOT NULL)",
	"CREATE TABLE leaves (guid BIGINT NOT NULL CONSTRAINT leaves_guid PRIMARY KEY, leaf TEXT NOT NULL, leaf_port BIGINT NOT NULL)",
	NULL,
};

/* Baselines per rack, BMCs of single trays, parts with an identity only; identities that were replaced; who had which tray when; the
 * fabric as it was last accepted. VMs that are there are taken as used since they were made. */
static const char *const third[] = {
	"ALTER TABLE racks ADD COLUMN versions TEXT",
	"ALTER TABLE trays ADD COLUMN bmc TEXT",
	"CREATE TABLE parts (pos INTEGER PRIMARY KEY, rack BIGINT NOT NULL, tray BIGINT NOT NULL, kind TEXT NOT NULL, idx BIGINT NOT NULL,"
	" serial TEXT, pci TEXT, firmware TEXT)",
	"CREATE TABLE retired (kind TEXT NOT NULL, identity TEXT NOT NULL, tray TEXT NOT NULL, reason TEXT NOT NULL, actor TEXT NOT NULL,"
	" at_ms BIGINT NOT NULL, CONSTRAINT retired_kind PRIMARY KEY (kind, identity))",
	"CREATE TABLE usage_log (id BIGINT NOT NULL CONSTRAINT usage_log_id PRIMARY KEY, vm BIGINT NOT NULL, name TEXT NOT NULL, cluster TEXT NOT NULL,"
	" tenant TEXT NOT NULL, size TEXT NOT NULL, tray TEXT NOT NULL, gpus BIGINT NOT NULL, from_ms BIGINT NOT NULL, to_ms BIGINT)",
	"CREATE INDEX usage_log_by_time ON usage_log (from_ms)",
	"CREATE INDEX usage_log_by_vm ON usage_log (vm)",
	"INSERT INTO meta (name, value) VALUES ('usage', 0)",
	"INSERT INTO usage_log (id, vm, name, cluster, tenant, size, tray, gpus, from_ms, to_ms) SELECT v.id, v.id, v.name, c.name, c.tenant, c.size, v.tray,"
	" (SELECT COUNT(*) FROM gpu_alloc a WHERE a.vm = v.id), v.at_ms, NULL FROM vms v JOIN clusters c ON c.id = v.cluster",
	"UPDATE meta SET value = (SELECT COALESCE(MAX(id), 0) FROM usage_log) WHERE name = 'usage'",
	"CREATE TABLE accepted (fabric TEXT NOT NULL CONSTRAINT accepted_fabric PRIMARY KEY, body TEXT NOT NULL, actor TEXT NOT NULL,"
	" at_ms BIGINT NOT NULL)",
	NULL,
};

/* VM sizes of the site's own. */
static const char *const fourth[] = { "ALTER TABLE site ADD COLUMN sizes TEXT", NULL };

/* What hosts and guests call a VM whose cluster was renamed; NULL: by its name. */
static const char *const fifth[] = { "ALTER TABLE vms ADD COLUMN host_name TEXT", NULL };

/* Jump hosts. */
static const char *const sixth[] = { "ALTER TABLE site ADD COLUMN ssh_jump TEXT", "ALTER TABLE trays ADD COLUMN ssh_jump TEXT", NULL };

/* Findings that are not to count for a time; what was measured on a tray, kept for the next validations; what is done about faults. */
static const char *const seventh[] = {
	"ALTER TABLE site ADD COLUMN health TEXT",
	"INSERT INTO meta (name, value) VALUES ('silence', 0)",
	"CREATE TABLE silences (id BIGINT NOT NULL CONSTRAINT silences_id PRIMARY KEY, trays TEXT NOT NULL, checks TEXT, reason TEXT NOT NULL,"
	" from_ms BIGINT NOT NULL, to_ms BIGINT NOT NULL, actor TEXT NOT NULL)",
	"CREATE TABLE health_samples (target TEXT NOT NULL, at_ms BIGINT NOT NULL, body TEXT NOT NULL,"
	" CONSTRAINT health_samples_target PRIMARY KEY (target, at_ms))",
	NULL,
};

/* The facility's power meter. */
static const char *const eighth[] = { "ALTER TABLE site ADD COLUMN meter TEXT", NULL };

/* Where GPUs go that a cluster no longer needs: 1, a partition of their tray. */
static const char *const ninth[] = { "ALTER TABLE racks ADD COLUMN nvl_per_tray BIGINT NOT NULL DEFAULT 0", NULL };

/* Every command that changes something asks for operations that are not over. */
static const char *const tenth[] = { "CREATE INDEX ops_by_end ON ops (ended_ms)", NULL };

/* Partitions that are shared: servers are GUIDs with blanks between, tenants names with commas; NULL: all. */
static const char *const eleventh[] = {
	"CREATE TABLE ib_services (name TEXT NOT NULL CONSTRAINT ib_services_name PRIMARY KEY, fabric TEXT NOT NULL"
	" CONSTRAINT ib_services_there REFERENCES fabrics (name) " AT_COMMIT ", pkey BIGINT NOT NULL"
	" CONSTRAINT ib_services_range CHECK (pkey BETWEEN 1 AND 32766), servers TEXT NOT NULL, tenants TEXT, actor TEXT NOT NULL, at_ms BIGINT NOT NULL,"
	" revision BIGINT NOT NULL, CONSTRAINT ib_services_fabric UNIQUE (fabric, pkey))",
	NULL,
};

const struct rk_migration rk_store_migrations[] = { { 1, first }, { 2, second }, { 3, third }, { 4, fourth }, { 5, fifth }, { 6, sixth }, { 7, seventh },
						       { 8, eighth }, { 9, ninth }, { 10, tenth }, { 11, eleventh }, { 0, NULL } };

const char *const rk_store_tables[] = { "meta",	   "site",	 "profiles",   "fabrics",	 "racks",	  "trays",	"gpus",
					"hcas",	   "images",	 "tenants",    "marks",	 "clusters",	  "vms",	"gpu_alloc",
					"port_alloc", "nvl_partitions", "ib_partitions", "tombstones", "reservations", "ops",	"steps",
					"leases",  "audit",	 "topology",   "changes",	 "leaves",	  "parts",	"retired",
					"usage_log", "accepted",	 "silences",   "health_samples", "ib_services", NULL };

int rk_store_newest_schema(void)
{
	int newest = 0;

	for (const struct rk_migration *m = rk_store_migrations; m->schema; m++)
		newest = m->schema;
	return newest;
}

int rk_store_read_schema(struct rk_db *db, int *ret, struct rk_err *err)
{
	bool there = false;
	int64_t schema = 0;
	int rc = db->driver->has_table(db, "meta", &there, err);

	if (!rc && there)
		rc = rk_db_one_int(db, "SELECT value FROM meta WHERE name = 'schema'", NULL, 0, 0, &schema, err);
	if (!rc)
		*ret = (int)schema;
	return rc;
}

/* ---- a database without any table ---------------------------------------------------------------------------------------------------- */

/* "ALTER TABLE <table> ADD COLUMN <column>": the column, and the table's name; NULL when it is another statement. */
static const char *added_column(const char *sql, const char **ret_table, size_t *ret_len)
{
	static const char head[] = "ALTER TABLE ", middle[] = " ADD COLUMN ";

	if (!rk_starts_with(sql, head))
		return NULL;
	*ret_table = sql + strlen(head);
	*ret_len = strcspn(*ret_table, " ");
	return rk_starts_with(*ret_table + *ret_len, middle) ? *ret_table + *ret_len + strlen(middle) : NULL;
}

/* Where the columns of a CREATE TABLE end: before the constraints of the table, or the closing parenthesis. */
static size_t end_of_columns(const char *create)
{
	static const char *const words[] = { "CONSTRAINT ", "PRIMARY KEY", "UNIQUE ", "FOREIGN KEY", "CHECK " };
	int depth = 0;
	size_t at;

	for (at = 0; create[at]; at++) {
		depth += create[at] == '(' ? 1 : create[at] == ')' ? -1 : 0;
		if (create[at] == ')' && !depth)
			return at;
		for (size_t w = 0; create[at] == ',' && depth == 1 && w < RK_ARRAY_SIZE(words); w++)
			if (rk_starts_with(create + at + 1 + strspn(create + at + 1, " "), words[w]))
				return at;
	}
	return at;
}

/* A CREATE TABLE with the columns that later migrations add. */
static char *with_added(const char *create, int to)
{
	static const char head[] = "CREATE TABLE ";
	struct rk_str out = RK_STR_INIT;
	size_t end = end_of_columns(create);
	const char *name = create + strlen(head), *table;
	size_t len;

	rk_str_addn(&out, create, end);
	for (const struct rk_migration *m = rk_store_migrations; m->schema && m->schema <= to; m++)
		for (const char *const *sql = m->statements; *sql; sql++) {
			const char *column = added_column(*sql, &table, &len);
			if (column && strncmp(name, table, len) == 0 && name[len] == ' ')
				rk_str_addf(&out, ", %s", column);
		}
	rk_str_add(&out, create + end);
	return rk_str_steal(&out);
}

/* There SQLite reads the whole schema anew for every column that is added: the tables are made with all their columns instead. */
static int run_fresh(struct rk_db *db, const char *sql, int to, struct rk_err *err)
{
	const char *table;
	size_t len;

	if (added_column(sql, &table, &len))
		return 0;
	char *whole RK_CLEANUP_FREE = rk_starts_with(sql, "CREATE TABLE ") ? with_added(sql, to) : NULL;
	return rk_db_query(db, whole ? whole : sql, NULL, 0, NULL, NULL, err);
}

/* fresh: the schema all of it is brought to, in a database without any table; 0: there are some. */
static int apply(struct rk_db *db, const struct rk_migration *m, int fresh, struct rk_err *err)
{
	int rc = 0;

	for (const char *const *sql = m->statements; *sql && !rc; sql++)
		rc = fresh ? run_fresh(db, *sql, fresh, err) : rk_db_query(db, *sql, NULL, 0, NULL, NULL, err);
	if (!rc)
		rc = rk_db_exec(db, err, "UPDATE meta SET value = ? WHERE name = 'schema'", RK_DB_I(m->schema));
	if (rc)
		rk_err_while(err, "cannot bring the store to schema %d", m->schema);
	return rc;
}

int rk_store_apply_schema(struct rk_db *db, int to, struct rk_err *err)
{
	int schema, rc = db->driver->begin(db, true, err);

	if (rc)
		return rc;
	rc = rk_store_read_schema(db, &schema, err);
	for (const struct rk_migration *m = rk_store_migrations; !rc && m->schema && m->schema <= to; m++)
		if (m->schema > schema)
			rc = apply(db, m, schema ? 0 : to, err);
	if (!rc)
		return db->driver->commit(db, err);
	db->driver->rollback(db);
	return rc;
}
