#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmds/common.h"
#include "inventory/base/diag.h"
#include "inventory/base/file.h"
#include "inventory/topology.h"
#include "provision/cluster.h"
#include "provision/drivers/partitions_file.h"

enum { PARTITIONS_MAX = 16 << 20 };

static int members_of(const struct rk_site *site, int cluster, int rack)
{
	int n = 0;

	for (size_t v = 0; v < site->n_vms; v++)
		n += site->vms[v].cluster == cluster && site->vms[v].tray >= 0 && (rack < 0 || site->trays[site->vms[v].tray].rack == rack);
	return n;
}

static void nvlink_row(struct rk_call *call, const struct rk_nvl_partition *p)
{
	const struct rk_site *site = call->world->site;
	const struct rk_rack *rack = &site->racks[p->rack];
	const struct rk_cluster *c = &site->clusters[p->cluster];

	rk_out_row(call->out);
	rk_cell_text(call->out, "rack", rack->name);
	rk_cell_text(call->out, "domain", rack->cluster_uuid);
	rk_cell_number(call->out, "partition", p->id);
	rk_cell_text(call->out, "name", p->name);
	rk_cell_text(call->out, "tenant", site->tenants[c->tenant].name);
	rk_cell_text(call->out, "cluster", c->name);
	rk_cell_number(call->out, "gpus", members_of(site, p->cluster, p->rack) * site->profiles[rack->profile].gpus_per_tray);
	rk_cell_text(call->out, "state", rk_cluster_state_name(c->state));
}

static int nvlink_list(struct rk_call *call, struct rk_err *err)
{
	(void)err;
	for (size_t i = 0; i < call->world->site->n_nvl_partitions; i++)
		nvlink_row(call, &call->world->site->nvl_partitions[i]);
	return 0;
}

/* RACK/ID, or an ID that fits one domain only. */
static int nvlink_find(struct rk_call *call, const char *text, const struct rk_nvl_partition **ret, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;
	const char *slash = strchr(text, '/');
	uint64_t id;
	size_t found = 0;

	if (!rk_parse_u64(slash ? slash + 1 : text, &id))
		return rk_err_set(err, RK_INVALID, "\"%s\" is no partition: write RACK/ID", text);
	for (size_t i = 0; i < site->n_nvl_partitions; i++) {
		const struct rk_nvl_partition *p = &site->nvl_partitions[i];
		const char *rack = site->racks[p->rack].name;
		if ((uint64_t)p->id != id || (slash && (strncmp(rack, text, (size_t)(slash - text)) != 0 || rack[slash - text])))
			continue;
		if (found++)
			rk_err_detail(err, "%s/%d", rack, p->id);
		*ret = p;
	}
	if (found == 1)
		return 0;
	if (!found)
		return rk_err_set(err, RK_NOT_FOUND, "no NVLink partition \"%s\"", text);
	return rk_err_set(err, RK_INVALID, "partition %s is in %zu domains: write RACK/ID", text, found);
}

static int nvlink_show(struct rk_call *call, struct rk_err *err)
{
	const struct rk_nvl_partition *p = NULL;
	int rc = nvlink_find(call, rk_call_arg(call, "PARTITION"), &p, err);
	struct rk_nvl_live *live;
	size_t n;

	if (!rc)
		rc = rk_world_drivers(call->world, err);
	if (!rc)
		rc = call->world->nvl->ops->list(call->world->nvl, p->rack, call->arena, &live, &n, err);
	if (rc)
		return rc;
	nvlink_row(call, p);
	struct rk_jw *w = rk_cell_json(call->out, "members");
	rk_jw_array(w);
	for (size_t i = 0; i < n; i++)
		for (size_t g = 0; live[i].id == p->id && g < live[i].n_gpus; g++)
			rk_jw_hex64(w, live[i].gpus[g]);
	rk_jw_end(w);
	return 0;
}

static void check_rows(struct rk_call *call, const struct rk_plane_check *checks, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		rk_out_row(call->out);
		rk_cell_text(call->out, "plane", checks[i].plane);
		rk_cell_text(call->out, "object", checks[i].object);
		rk_cell_text(call->out, "tenant", checks[i].tenant);
		rk_cell_text(call->out, "cluster", checks[i].cluster);
		rk_cell_text(call->out, "verdict", checks[i].verdict);
		rk_cell_text(call->out, "wanted", checks[i].wanted);
		rk_cell_text(call->out, "live", checks[i].live);
		rk_cell_text(call->out, "message", checks[i].message);
	}
}

static int nvlink_verify(struct rk_call *call, struct rk_err *err)
{
	struct rk_plane_check *checks = NULL;
	size_t n = 0;
	int rc = rk_world_drivers(call->world, err);

	if (!rc)
		rc = rk_nvlink_verify(call->world, rk_call_arg(call, "SEL"), call->arena, &checks, &n, err);
	check_rows(call, checks, n);
	return rc;
}

static int ib_verify(struct rk_call *call, struct rk_err *err)
{
	struct rk_plane_check *checks = NULL;
	size_t n = 0;
	int rc = rk_world_drivers(call->world, err);

	if (!rc)
		rc = rk_ib_verify(call->world, call->arena, &checks, &n, err);
	check_rows(call, checks, n);
	return rc;
}

static int ib_list(struct rk_call *call, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;

	(void)err;
	for (size_t i = 0; i < site->n_ib_partitions; i++) {
		const struct rk_ib_partition *p = &site->ib_partitions[i];
		const struct rk_cluster *c = &site->clusters[p->cluster];
		int ports = 0;
		for (int v = c->first_vm; v < c->first_vm + c->n_vms; v++)
			ports += site->vms[v].tray >= 0 ? site->trays[site->vms[v].tray].n_hcas : 0;
		rk_out_row(call->out);
		rk_cell_text(call->out, "fabric", site->fabrics[p->fabric].name);
		rk_cell_pkey(call->out, "pkey", p->pkey);
		rk_cell_text(call->out, "tenant", site->tenants[c->tenant].name);
		rk_cell_text(call->out, "cluster", c->name);
		rk_cell_number(call->out, "members", ports);
		rk_cell_text(call->out, "state", rk_cluster_state_name(c->state));
	}
	return 0;
}

/* The fabric of --fabric, or the only one. */
static int the_fabric(struct rk_call *call, int *ret, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;
	const char *name = rk_call_arg(call, "fabric");

	*ret = name ? rk_find_fabric(site, name) : 0;
	if (*ret < 0)
		return rk_err_set(err, RK_NOT_FOUND, "no InfiniBand fabric \"%s\"", name);
	if (!site->n_fabrics)
		return rk_err_set(err, RK_NOT_FOUND, "the site has no InfiniBand fabric");
	if (!name && site->n_fabrics > 1) {
		rk_err_set(err, RK_INVALID, "the site has %zu InfiniBand fabrics", site->n_fabrics);
		rk_err_hint(err, "say which with --fabric");
		return RK_INVALID;
	}
	return 0;
}

struct imported {
	const char *fabric, *text;
};

static int put_topology(struct rk_call *call, const void *data, struct rk_err *err)
{
	const struct imported *it = data;

	return rk_store_put_topology(call->world->store, it->fabric, it->text, err);
}

static int ib_import(struct rk_call *call, struct rk_err *err)
{
	char *text RK_CLEANUP_FREE = NULL;
	struct rk_topology *topology RK_CLEANUP(rk_cleanup_topology) = NULL;
	const char *file = rk_call_arg(call, "FILE");
	size_t len;
	int fabric, rc = the_fabric(call, &fabric, err);

	if (!rc)
		rc = rk_file_read(file, RK_TOPOLOGY_MAX, &text, &len, err);
	if (!rc)
		rc = rk_topology_parse(file, text, len, &topology, err);
	if (rc)
		return rc;
	rk_out_note(call->out, "%zu nodes, %zu cable ends", topology->n_nodes, topology->n_links);
	if (call->dry_run)
		return 0;
	return rk_in_transaction(call, put_topology, &(struct imported){ call->world->site->fabrics[fabric].name, text }, err);
}

/* The fabric last imported, else the living one. */
static int fabric_text(struct rk_call *call, int fabric, const char **ret, struct rk_err *err)
{
	int rc = rk_store_get_topology(call->world->store, call->world->site->fabrics[fabric].name, call->arena, ret, err);

	if (rc || *ret)
		return rc;
	rc = rk_world_drivers(call->world, err);
	return rc ? rc : call->world->ib->ops->discover(call->world->ib, fabric, call->arena, ret, err);
}

static int ib_check(struct rk_call *call, struct rk_err *err)
{
	struct rk_topology *topology RK_CLEANUP(rk_cleanup_topology) = NULL;
	struct rk_ib_finding *findings;
	const char *text = NULL;
	size_t n;
	int fabric, rc = the_fabric(call, &fabric, err);

	if (!rc)
		rc = fabric_text(call, fabric, &text, err);
	if (!rc)
		rc = rk_topology_parse(call->world->site->fabrics[fabric].name, text, strlen(text), &topology, err);
	if (rc)
		return rc;
	rk_topology_check(topology, call->world->site, fabric, call->arena, &findings, &n);
	for (size_t i = 0; i < n; i++) {
		rk_out_row(call->out);
		rk_cell_text(call->out, "kind", findings[i].kind);
		rk_cell_text(call->out, "object", findings[i].object);
		rk_cell_text(call->out, "message", findings[i].message);
		rk_cell_text(call->out, "hint", findings[i].hint);
	}
	if (!n) {
		rk_out_note(call->out, "fabric %s is as designed", call->world->site->fabrics[fabric].name);
		return 0;
	}
	return rk_err_set(err, RK_UNHEALTHY, "%zu finding%s in fabric %s", n, n == 1 ? "" : "s", call->world->site->fabrics[fabric].name);
}

static int ib_lint(struct rk_call *call, struct rk_err *err)
{
	const char *file = rk_call_arg(call, "FILE");
	struct rk_diags findings RK_CLEANUP_DIAGS = RK_DIAGS_INIT(file);
	char *text RK_CLEANUP_FREE = NULL;
	size_t len;
	int rc = rk_file_read(file, PARTITIONS_MAX, &text, &len, err);

	if (!rc)
		rc = rk_partitions_lint(file, text, len, &findings);
	if (rc < 0 && !findings.n)
		return rc;
	for (size_t i = 0; i < findings.n; i++)
		rk_out_note(call->out, "%s:%u:%u: %s", file, findings.items[i].line, findings.items[i].col, findings.items[i].message);
	return findings.n ? rk_err_set(err, RK_UNHEALTHY, "%zu finding%s in %s", findings.n, findings.n == 1 ? "" : "s", file) : 0;
}

/* ---- drift ------------------------------------------------------------------------------------------------------------------------ */

static int drift(struct rk_call *call, struct rk_err *err)
{
	struct rk_drift *rows = NULL;
	size_t n = 0;
	const char *scope = rk_call_arg(call, "SCOPE"), *name = rk_call_arg(call, "CLUSTER");
	int at, rc = scope && !name ? rk_err_set(err, RK_INVALID, "CLUSTER is missing: drift cluster NAME") : 0;

	if (!rc && name)
		rc = rk_get_cluster(call, name, &at, err);
	if (!rc)
		rc = rk_world_drivers(call->world, err);
	if (!rc)
		rc = rk_drift(call->world, name, call->arena, &rows, &n, err);
	for (size_t i = 0; i < n; i++) {
		if (call->parsed->globals.format == RK_FORMAT_TABLE && !call->verbose && rk_streq(rows[i].status, "in-sync"))
			continue;
		rk_out_row(call->out);
		rk_cell_text(call->out, "plane", rows[i].plane);
		rk_cell_text(call->out, "object", rows[i].object);
		rk_cell_text(call->out, "field", rows[i].field);
		rk_cell_text(call->out, "wanted", rows[i].wanted);
		rk_cell_text(call->out, "applied", rows[i].applied);
		rk_cell_text(call->out, "live", rows[i].live);
		rk_cell_text(call->out, "status", rows[i].status);
	}
	if (!rc)
		rk_out_note(call->out, "%zu values in sync", n);
	return rc;
}

#define FABRIC_OPTION RK_ARGS({ .name = "fabric", .type = RK_ARG_FABRIC, .help = "which InfiniBand fabric, when there are several" })
#define CHECK_COLUMNS                                                                                                                            \
	RK_COLUMNS({ "plane", RK_COL_TEXT, .wide = true }, { "object", RK_COL_TEXT }, { "tenant", RK_COL_TEXT }, { "cluster", RK_COL_TEXT },        \
		   { "verdict", RK_COL_TEXT }, { "wanted", RK_COL_TEXT, .wide = true }, { "live", RK_COL_TEXT, .wide = true }, { "message", RK_COL_TEXT })
#define NVLINK_COLUMNS                                                                                                                    \
	{ "rack", RK_COL_TEXT }, { "domain", RK_COL_TEXT, .wide = true }, { "partition", RK_COL_NUMBER }, { "name", RK_COL_TEXT }, { "tenant", RK_COL_TEXT }, \
		{ "cluster", RK_COL_TEXT }, { "gpus", RK_COL_NUMBER }, { "state", RK_COL_TEXT }

static const struct rk_command nvlink_rows[] = {
	{ .noun = "nvlink", .verb = "list", .summary = "list the NVLink partitions", .list = true, .columns = RK_COLUMNS(NVLINK_COLUMNS), .examples = RK_EXAMPLES("nvlink list"), .run = nvlink_list },
	{ .noun = "nvlink", .verb = "show", .summary = "show a partition with the members the switch holds now", .flags = RK_CMD_REMOTE,
	  .args = RK_ARGS({ .name = "PARTITION", .type = RK_ARG_TEXT, .required = true, .help = "RACK/ID" }),
	  .columns = RK_COLUMNS(NVLINK_COLUMNS, { "members", RK_COL_JSON }), .run = nvlink_show },
	{ .noun = "nvlink", .verb = "verify", .summary = "compare every partition with what the switches hold now", .flags = RK_CMD_REMOTE, .list = true,
	  .args = RK_ARGS({ .name = "SEL", .type = RK_ARG_SEL_RACKS, .help = "racks; default all" }), .columns = CHECK_COLUMNS,
	  .examples = RK_EXAMPLES("nvlink verify"), .run = nvlink_verify },
};
RK_NOUN(nvlink, "NVLink partitions", NULL, nvlink_rows);

static const struct rk_command ib_rows[] = {
	{ .noun = "ib", .verb = "list", .summary = "list the InfiniBand partitions", .list = true, .examples = RK_EXAMPLES("ib list"), .run = ib_list,
	  .columns = RK_COLUMNS({ "fabric", RK_COL_TEXT }, { "pkey", RK_COL_PKEY }, { "tenant", RK_COL_TEXT }, { "cluster", RK_COL_TEXT },
				{ "members", RK_COL_NUMBER }, { "state", RK_COL_TEXT }) },
	{ .noun = "ib", .verb = "verify", .summary = "compare every PKey with the tables of all ports now", .flags = RK_CMD_REMOTE, .list = true,
	  .columns = CHECK_COLUMNS, .examples = RK_EXAMPLES("ib verify"), .run = ib_verify },
	{ .noun = "ib", .verb = "import", .summary = "keep a fabric from ibnetdiscover output", .flags = RK_CMD_CHANGES, .options = FABRIC_OPTION,
	  .args = RK_ARGS({ .name = "FILE", .type = RK_ARG_FILE, .required = true, .help = "ibnetdiscover output; - is standard input" }), .run = ib_import },
	{ .noun = "ib", .verb = "check", .summary = "judge the wiring against the design", .flags = RK_CMD_REMOTE, .list = true, .options = FABRIC_OPTION,
	  .description = "Looks at the fabric last imported, without one at the living one: every HCA on its rail's leaf, equal link counts, uplinks, width and rate.",
	  .columns = RK_COLUMNS({ "kind", RK_COL_TEXT }, { "object", RK_COL_TEXT }, { "message", RK_COL_TEXT }, { "hint", RK_COL_TEXT }),
	  .examples = RK_EXAMPLES("ib check"), .run = ib_check },
	{ .noun = "ib", .verb = "lint", .summary = "read an OpenSM partitions file as OpenSM would and as a careful person would", .flags = RK_CMD_NO_STORE,
	  .args = RK_ARGS({ .name = "FILE", .type = RK_ARG_FILE, .required = true, .help = "partitions file" }), .run = ib_lint },
};
RK_NOUN(ib, "InfiniBand partitions and wiring", NULL, ib_rows);

static const struct rk_command drift_rows[] = {
	{ .noun = "drift", .summary = "compare wanted, applied and live on all planes", .flags = RK_CMD_REMOTE, .list = true,
	  .args = RK_ARGS({ .name = "SCOPE", .type = RK_ARG_ENUM, .values = "cluster", .help = "only one cluster" },
			  { .name = "CLUSTER", .type = RK_ARG_CLUSTER, .help = "name of a cluster" }),
	  .columns = RK_COLUMNS({ "plane", RK_COL_TEXT }, { "object", RK_COL_TEXT }, { "field", RK_COL_TEXT }, { "wanted", RK_COL_TEXT },
				{ "applied", RK_COL_TEXT }, { "live", RK_COL_TEXT }, { "status", RK_COL_TEXT }),
	  .examples = RK_EXAMPLES("drift"), .run = drift },
};
RK_NOUN(drift, "differences between wanted, applied and live", NULL, drift_rows);
