#include <inttypes.h>
#include <string.h>

#include "cli/cmds/common.h"
#include "cli/cmds/planes.h"
#include "inventory/base/diag.h"
#include "inventory/base/file.h"
#include "inventory/topology.h"
#include "provision/drivers/partitions_file.h"
#include "provision/ib_show.h"

enum { PARTITIONS_MAX = 16 << 20, THRESHOLDS_MAX = 1 << 20, INTERVAL_DEFAULT_S = 5, INTERVAL_MAX_S = 3600 };

static int ib_verify(struct rk_call *call, struct rk_err *err)
{
	struct rk_plane_check *checks = NULL;
	size_t n = 0;
	int rc = rk_world_drivers(call->world, err);

	if (!rc)
		rc = rk_ib_verify(call->world, call->arena, &checks, &n, err);
	rk_plane_rows(call, checks, n);
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

/* [FABRIC/]PKEY; a key that several fabrics have is no answer. */
static int find_key(struct rk_call *call, const char *text, int *ret_fabric, uint16_t *ret_pkey, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;
	const char *slash = strrchr(text, '/');
	uint64_t pkey;
	size_t found = 0;

	if (!rk_parse_u64(slash ? slash + 1 : text, &pkey) || pkey > 0xffff)
		return rk_err_set(err, RK_INVALID, "\"%s\" is no partition: write [FABRIC/]PKEY, the key as 0x0123", text);
	*ret_pkey = (uint16_t)(pkey & 0x7fff);
	*ret_fabric = RK_NONE;
	if (slash) {
		const char *name = rk_arena_strndup(call->arena, text, (size_t)(slash - text));
		return rk_get_fabric(call, name, ret_fabric, err);
	}
	for (size_t i = 0; i < site->n_ib_partitions; i++) {
		if (site->ib_partitions[i].pkey != *ret_pkey)
			continue;
		*ret_fabric = site->ib_partitions[i].fabric;
		if (found++)
			rk_err_detail(err, "%s/0x%04x", site->fabrics[*ret_fabric].name, *ret_pkey);
	}
	for (size_t i = 0; i < site->n_ib_services; i++)
		if (site->ib_services[i].pkey == *ret_pkey) {
			*ret_fabric = site->ib_services[i].fabric;
			found++;
		}
	if (found > 1)
		return rk_err_set(err, RK_INVALID, "key 0x%04x is in %zu fabrics: write FABRIC/PKEY", *ret_pkey, found);
	if (!found && site->n_fabrics == 1)
		*ret_fabric = 0;
	return *ret_fabric < 0 ? rk_err_set(err, RK_NOT_FOUND, "no InfiniBand partition \"%s\"", text) : 0;
}

static void member_json(struct rk_jw *w, const struct rk_ib_show_member *m)
{
	const char *const pairs[][2] = { { "port", m->port }, { "wanted", m->wanted }, { "configured", m->configured }, { "live", m->live }, { "why", m->why } };

	rk_jw_object(w);
	rk_jw_key(w, "guid");
	rk_jw_hex64(w, m->guid);
	for (size_t i = 0; i < RK_ARRAY_SIZE(pairs); i++) {
		rk_jw_key(w, pairs[i][0]);
		rk_jw_str(w, pairs[i][1]);
	}
	rk_jw_end(w);
}

static int ib_show(struct rk_call *call, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;
	struct rk_ib_show show;
	int fabric = RK_NONE;
	uint16_t pkey = 0;
	int rc = find_key(call, rk_call_arg(call, "PARTITION"), &fabric, &pkey, err);

	if (!rc)
		rc = rk_ib_show(call->world, fabric, pkey, call->arena, &show, err);
	if (rc)
		return rc;
	rk_out_row(call->out);
	rk_cell_text(call->out, "fabric", site->fabrics[fabric].name);
	rk_cell_pkey(call->out, "pkey", pkey);
	rk_cell_text(call->out, "name", show.name);
	rk_cell_text(call->out, "tenant", show.tenant);
	rk_cell_text(call->out, "cluster", show.cluster);
	rk_cell_text(call->out, "membership", show.membership);
	rk_cell_text(call->out, "state", show.state);
	rk_cell_text(call->out, "sharp", show.sharp);
	if (!show.sharp)
		rk_out_note(call->out, "whether SHARP follows this partition is not known: %s", show.sharp_why);
	struct rk_jw *w = rk_cell_json(call->out, "members");
	rk_jw_array(w);
	for (size_t i = 0; i < show.n; i++)
		member_json(w, &show.members[i]);
	rk_jw_end(w);
	return 0;
}

/* ---- counters -------------------------------------------------------------------------------------------------------------------- */

static int read_thresholds(struct rk_call *call, struct rk_ib_thresholds *ret, struct rk_err *err)
{
	const char *file = rk_call_arg(call, "thresholds");
	char *text RK_CLEANUP_FREE = NULL;
	size_t len = 0;
	int rc = file ? rk_file_read(file, THRESHOLDS_MAX, &text, &len, err) : 0;

	return rc ? rc : rk_ib_thresholds_parse(file ? file : "thresholds", text, len, call->arena, ret, err);
}

static void deltas_cell(struct rk_call *call, const struct rk_ib_change *change)
{
	struct rk_jw *w = rk_cell_json(call->out, "counters");

	rk_jw_array(w);
	for (size_t i = 0; i < change->n_deltas; i++) {
		const struct rk_ib_delta *d = &change->deltas[i];
		rk_jw_object(w);
		rk_jw_key(w, "name");
		rk_jw_str(w, rk_ib_counter_name((size_t)d->counter));
		rk_jw_key(w, "delta");
		d->known ? rk_jw_u64(w, d->delta) : rk_jw_null(w);
		rk_jw_key(w, "per_second");
		d->known ? rk_jw_double(w, d->per_s) : rk_jw_null(w);
		rk_jw_key(w, "verdict");
		rk_jw_str(w, d->verdict);
		rk_jw_end(w);
	}
	rk_jw_end(w);
}

static void counter_row(struct rk_call *call, const struct rk_ib_port_change *port)
{
	rk_out_row(call->out);
	rk_cell_text(call->out, "port", port->port);
	rk_cell_hex64(call->out, "port_guid", port->guid);
	rk_cell_text(call->out, "verdict", port->change.verdict);
	rk_cell_real(call->out, "seconds", port->change.seconds);
	if (port->change.xmit_gbps >= 0)
		rk_cell_real(call->out, "xmit_gbps", port->change.xmit_gbps);
	if (port->change.rcv_gbps >= 0)
		rk_cell_real(call->out, "rcv_gbps", port->change.rcv_gbps);
	rk_cell_text(call->out, "message", port->change.message);
	deltas_cell(call, &port->change);
}

static int ib_counters(struct rk_call *call, struct rk_err *err)
{
	const char *text = rk_call_arg(call, "interval");
	uint64_t interval = INTERVAL_DEFAULT_S;
	struct rk_ib_thresholds thresholds;
	struct rk_ib_port_change *ports = NULL;
	size_t n = 0, shown = 0;

	if (text && (!rk_parse_u64(text, &interval) || interval < 1 || interval > INTERVAL_MAX_S))
		return rk_err_set(err, RK_INVALID, "--interval is from 1 to %d seconds, not \"%s\"", INTERVAL_MAX_S, text);
	int rc = read_thresholds(call, &thresholds, err);
	if (!rc)
		rc = rk_ib_counters(call->world, rk_call_arg(call, "SEL"), call->except, (int)interval * 1000, &thresholds, call->arena, &ports, &n, err);
	for (size_t i = 0; i < n; i++) {
		/* People want to see what is wrong; a program gets every port. */
		if (call->parsed->globals.format == RK_FORMAT_TABLE && !call->verbose && rk_streq(ports[i].change.verdict, "pass"))
			continue;
		counter_row(call, &ports[i]);
		shown++;
	}
	if (n && shown < n)
		rk_out_note(call->out, "%zu of %zu ports pass", n - shown, n);
	return rc;
}

/* The fabric of --fabric, or the only one. */
static int the_fabric(struct rk_call *call, int *ret, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;
	const char *name = rk_call_arg(call, "fabric");

	if (name)
		return rk_get_fabric(call, name, ret, err);
	*ret = 0;
	if (!site->n_fabrics)
		return rk_err_set(err, RK_NOT_FOUND, "the site has no InfiniBand fabric");
	if (site->n_fabrics > 1) {
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

	int rc = rk_store_put_topology(call->world->store, it->fabric, it->text, err);

	return rc || !rk_call_flag(call, "accept") ? rc : rk_store_accept_topology(call->world->store, it->fabric, it->text, err);
}

/* What the subnet manager's host, or the twin, sees now. */
static int living_text(struct rk_call *call, int fabric, const char **ret, struct rk_err *err)
{
	int rc = rk_world_drivers(call->world, err);

	return rc ? rc : call->world->ib->ops->discover(call->world->ib, fabric, call->arena, ret, err);
}

static int parse_file(struct rk_call *call, const char *file, const char **ret_text, struct rk_topology **ret, struct rk_err *err)
{
	char *text RK_CLEANUP_FREE = NULL;
	size_t len;
	int rc = rk_file_read(file, RK_TOPOLOGY_MAX, &text, &len, err);

	if (!rc)
		rc = rk_topology_parse(file, text, len, ret, err);
	if (!rc)
		*ret_text = rk_arena_strdup(call->arena, text);
	return rc;
}

static int parse_living(struct rk_call *call, int fabric, const char **ret_text, struct rk_topology **ret, struct rk_err *err)
{
	int rc = living_text(call, fabric, ret_text, err);

	return rc ? rc : rk_topology_parse(call->world->site->fabrics[fabric].name, *ret_text, strlen(*ret_text), ret, err);
}

static int import_source(struct rk_call *call, const char **ret_name, struct rk_err *err)
{
	const char *file = rk_call_arg(call, "FILE");

	if (!file == !rk_call_flag(call, "live")) {
		rk_err_set(err, RK_INVALID, file ? "a file and --live: which of the two is to be kept" : "nothing to import");
		rk_err_hint(err, "name a file with ibnetdiscover output, or say --live to ask the subnet manager's host");
		return RK_INVALID;
	}
	*ret_name = file;
	return 0;
}

static int ib_import(struct rk_call *call, struct rk_err *err)
{
	struct rk_topology *topology RK_CLEANUP(rk_cleanup_topology) = NULL;
	const char *file = NULL, *text = NULL;
	int fabric, rc = import_source(call, &file, err);

	if (!rc)
		rc = the_fabric(call, &fabric, err);
	if (!rc)
		rc = file ? parse_file(call, file, &text, &topology, err) : parse_living(call, fabric, &text, &topology, err);
	if (rc)
		return rc;
	rk_out_note(call->out, "%zu nodes, %zu cable ends", topology->n_nodes, topology->n_links);
	return rk_in_transaction(call, put_topology, &(struct imported){ call->world->site->fabrics[fabric].name, text }, err);
}

/* The fabric last imported, else the living one. */
static int fabric_text(struct rk_call *call, int fabric, const char **ret, struct rk_err *err)
{
	bool live = rk_call_flag(call, "live");
	int rc = live ? 0 : rk_store_get_topology(call->world->store, call->world->site->fabrics[fabric].name, call->arena, ret, err);

	if (rc || (!live && *ret))
		return rc;
	return living_text(call, fabric, ret, err);
}

/* What could not be judged is no fault, and no pass either. */
static int wiring_verdict(struct rk_call *call, int fabric, const struct rk_ib_finding *findings, size_t n, struct rk_err *err)
{
	const char *name = call->world->site->fabrics[fabric].name;
	size_t faults = 0;

	for (size_t i = 0; i < n; i++)
		faults += !rk_streq(findings[i].kind, "unknown");
	if (faults)
		return rk_err_set(err, RK_UNHEALTHY, "%zu finding%s in fabric %s", n, n == 1 ? "" : "s", name);
	if (n)
		return rk_err_set(err, RK_UNREACHABLE, "the wiring of fabric %s cannot be judged as a whole", name);
	rk_out_note(call->out, "fabric %s is as designed", name);
	return 0;
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
	rc = rk_store_judge_topology(call->world->store, topology, call->world->site, fabric, call->arena, &findings, &n, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++) {
		rk_out_row(call->out);
		rk_cell_text(call->out, "kind", findings[i].kind);
		rk_cell_text(call->out, "object", findings[i].object);
		rk_cell_text(call->out, "message", findings[i].message);
		rk_cell_text(call->out, "hint", findings[i].hint);
	}
	return wiring_verdict(call, fabric, findings, n, err);
}

static const char *member_name(struct rk_arena *arena, const struct rk_part_member *m)
{
	return m->who == RK_PART_GUID ? rk_arena_printf(arena, "0x%016" PRIx64, m->guid) : rk_part_who_name(m->who);
}

static void partitions_cell(struct rk_call *call, const struct rk_partitions *parts)
{
	struct rk_jw *w = rk_cell_json(call->out, "partitions");

	rk_jw_array(w);
	for (size_t i = 0; i < parts->n && !parts->rejected; i++) {
		const struct rk_part *p = &parts->items[i];
		rk_jw_object(w);
		rk_jw_key(w, "pkey");
		rk_jw_str(w, rk_arena_printf(call->arena, "0x%04x", p->pkey));
		rk_jw_key(w, "name");
		rk_jw_str(w, p->name);
		rk_jw_key(w, "members");
		rk_jw_array(w);
		for (size_t k = 0; k < p->n_members; k++) {
			rk_jw_object(w);
			rk_jw_key(w, "port");
			rk_jw_str(w, member_name(call->arena, &p->members[k]));
			rk_jw_key(w, "membership");
			rk_jw_str(w, p->members[k].full ? "full" : "limited");
			rk_jw_end(w);
		}
		rk_jw_end(w);
		rk_jw_end(w);
	}
	rk_jw_end(w);
}

static void findings_cell(struct rk_call *call, const struct rk_diags *findings)
{
	struct rk_jw *w = rk_cell_json(call->out, "findings");

	rk_jw_array(w);
	for (size_t i = 0; i < findings->n; i++) {
		rk_jw_object(w);
		rk_jw_key(w, "line");
		rk_jw_u64(w, findings->items[i].line);
		rk_jw_key(w, "column");
		rk_jw_u64(w, findings->items[i].col);
		rk_jw_key(w, "message");
		rk_jw_str(w, findings->items[i].message);
		rk_jw_key(w, "hint");
		rk_jw_str(w, findings->items[i].hint);
		rk_jw_end(w);
	}
	rk_jw_end(w);
}

/* For people: findings, or the keys and who is in them. */
static void lint_notes(struct rk_call *call, const char *file, const struct rk_diags *findings, const struct rk_partitions *parts)
{
	for (size_t i = 0; i < findings->n; i++)
		rk_out_note(call->out, "%s:%u:%u: %s%s%s%s", file, findings->items[i].line, findings->items[i].col, findings->items[i].message,
			    findings->items[i].hint ? " (" : "", findings->items[i].hint ? findings->items[i].hint : "", findings->items[i].hint ? ")" : "");
	for (size_t i = 0; i < parts->n && !findings->n; i++) {
		struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
		for (size_t k = 0; k < parts->items[i].n_members; k++)
			rk_str_addf(&text, " %s=%s", member_name(call->arena, &parts->items[i].members[k]), parts->items[i].members[k].full ? "full" : "limited");
		rk_out_note(call->out, "0x%04x %s:%s", parts->items[i].pkey, *parts->items[i].name ? parts->items[i].name : "-", rk_str_text(&text));
	}
}

static int ib_lint(struct rk_call *call, struct rk_err *err)
{
	const char *file = rk_call_arg(call, "FILE");
	struct rk_diags findings RK_CLEANUP_DIAGS = RK_DIAGS_INIT(file);
	struct rk_partitions parts;
	char *text RK_CLEANUP_FREE = NULL;
	size_t len;
	int rc = rk_file_read(file, PARTITIONS_MAX, &text, &len, err);

	if (rc)
		return rc;
	(void)rk_partitions_read(file, text, len, call->arena, &parts, &findings);
	(void)rk_diags_result(&findings, NULL);
	lint_notes(call, file, &findings, &parts);
	rk_out_row(call->out);
	rk_cell_text(call->out, "file", file);
	rk_cell_bool(call->out, "clean", findings.n == 0);
	rk_cell_bool(call->out, "rejected", parts.rejected);
	findings_cell(call, &findings);
	partitions_cell(call, &parts);
	return findings.n ? rk_err_set(err, RK_UNHEALTHY, "%zu finding%s in %s", findings.n, findings.n == 1 ? "" : "s", file) : 0;
}

static const struct rk_command ib_rows[] = {
	{ .noun = "ib", .verb = "list", .summary = "list the InfiniBand partitions", .list = true, .examples = RK_EXAMPLES("ib list"), .run = ib_list,
	  .columns = RK_COLUMNS({ "fabric", RK_COL_TEXT }, { "pkey", RK_COL_PKEY }, { "tenant", RK_COL_TEXT }, { "cluster", RK_COL_TEXT },
				{ "members", RK_COL_NUMBER }, { "state", RK_COL_TEXT }) },
	{ .noun = "ib", .verb = "show", .summary = "show a partition: its ports as wanted, as configured and as their tables are now", .flags = RK_CMD_REMOTE,
	  .description = "PKEY is the key as 0x0123; the membership bit 0x8000 may be set. A key that several fabrics have needs FABRIC/. A partition that only the "
			 "subnet manager has is shown too, with the state foreign. sharp: the SHARP reservations that UFM says follow the key, null when nobody tells.",
	  .args = RK_ARGS({ .name = "PARTITION", .type = RK_ARG_TEXT, .required = true, .help = "[FABRIC/]PKEY" }),
	  .columns = RK_COLUMNS({ "fabric", RK_COL_TEXT }, { "pkey", RK_COL_PKEY }, { "name", RK_COL_TEXT }, { "tenant", RK_COL_TEXT },
				{ "cluster", RK_COL_TEXT }, { "membership", RK_COL_TEXT }, { "state", RK_COL_TEXT }, { "sharp", RK_COL_TEXT }, { "members", RK_COL_JSON }),
	  .run = ib_show },
	{ .noun = "ib", .verb = "counters", .summary = "read the ports' counters twice and judge what changed", .flags = RK_CMD_REMOTE | RK_CMD_SELECTS, .list = true,
	  .description = "Rates between two readings, never totals: errors, link flaps, discarded packets, and PortXmitWait for congestion. Counters are never reset. What a "
			 "port may count is data: --thresholds FILE, else the limits that are part of racksh. A table shows the ports that do not pass; -v all.",
	  .args = RK_ARGS({ .name = "SEL", .type = RK_ARG_SEL_TRAYS, .help = "trays; default all" }),
	  .options = RK_ARGS({ .name = "interval", .type = RK_ARG_NUMBER, .help = "seconds between the two readings (5)" },
			     { .name = "thresholds", .type = RK_ARG_FILE, .help = "file of kind CounterThresholds" }),
	  .columns = RK_COLUMNS({ "port", RK_COL_TEXT }, { "port_guid", RK_COL_HEX64, .wide = true }, { "verdict", RK_COL_TEXT }, { "seconds", RK_COL_REAL, .wide = true },
				{ "xmit_gbps", RK_COL_REAL }, { "rcv_gbps", RK_COL_REAL }, { "message", RK_COL_TEXT }, { "counters", RK_COL_JSON, .wide = true }),
	  .examples = RK_EXAMPLES("ib counters", "ib counters r01-t[01-02] --interval 10"), .run = ib_counters },
	{ .noun = "ib", .verb = "verify", .summary = "compare every PKey with the tables of all ports now", .flags = RK_CMD_REMOTE, .list = true,
	  .columns = RK_COLUMNS(CHECK_COLUMNS), .examples = RK_EXAMPLES("ib verify"), .run = ib_verify },
	{ .noun = "ib", .verb = "import", .summary = "keep a fabric from ibnetdiscover output, or as it is now", .flags = RK_CMD_CHANGES | RK_CMD_REMOTE,
	  .description = "With --live the host of the subnet manager is asked instead of a file. A fabric that is wired as designed becomes the state that later ones are compared with; --accept makes any fabric that.",
	  .options = RK_ARGS({ .name = "fabric", .type = RK_ARG_FABRIC, .help = "which InfiniBand fabric, when there are several" },
			     { .name = "live", .type = RK_ARG_NONE, .help = "look at the living fabric instead of a file" },
			     { .name = "accept", .type = RK_ARG_NONE, .help = "this is how it is to be: later ones are compared with it" }),
	  .args = RK_ARGS({ .name = "FILE", .type = RK_ARG_FILE, .help = "ibnetdiscover output; - is standard input" }),
	  .examples = RK_EXAMPLES("ib import --live"), .run = ib_import },
	{ .noun = "ib", .verb = "check", .summary = "judge the wiring against the design and against the fabric as accepted", .flags = RK_CMD_REMOTE, .list = true,
	  .options = RK_ARGS({ .name = "fabric", .type = RK_ARG_FABRIC, .help = "which InfiniBand fabric, when there are several" },
			     { .name = "live", .type = RK_ARG_NONE, .help = "look at the living fabric, whatever was imported" }),
	  .description = "Looks at the fabric last imported, without one at the living one: every HCA on its rail's leaf, equal link counts, uplinks, width and rate. When a "
			 "fabric was accepted (see `ib import`), what changed since is found, too: lost, new, crossed, moved and slower cables.",
	  .columns = RK_COLUMNS({ "kind", RK_COL_TEXT }, { "object", RK_COL_TEXT }, { "message", RK_COL_TEXT }, { "hint", RK_COL_TEXT }),
	  .examples = RK_EXAMPLES("ib check"), .run = ib_check },
	{ .noun = "ib", .verb = "lint", .summary = "read an OpenSM partitions file as OpenSM would and as a careful person would", .flags = RK_CMD_NO_STORE,
	  .description = "Tells every line that OpenSM would reject (and then open the whole fabric), misread, merge, drop or demote. A clean file gives the keys and their "
			 "members. In JSON partitions is what OpenSM would make of the file with all its findings, empty when it is rejected.",
	  .columns = RK_COLUMNS({ "file", RK_COL_TEXT, .wide = true }, { "clean", RK_COL_BOOL, .wide = true }, { "rejected", RK_COL_BOOL, .wide = true },
				{ "findings", RK_COL_JSON, .wide = true }, { "partitions", RK_COL_JSON, .wide = true }),
	  .args = RK_ARGS({ .name = "FILE", .type = RK_ARG_FILE, .required = true, .help = "partitions file" }), .run = ib_lint },
};
RK_NOUN(ib, "InfiniBand partitions and wiring", NULL, ib_rows);
