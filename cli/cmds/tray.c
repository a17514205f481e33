#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cmds/common.h"
#include "provision/cluster.h"
#include "inventory/base/file.h"
#include "provision/replace.h"

static const struct rk_cluster *cluster_on(const struct rk_site *site, const struct rk_tray *t)
{
	return t->vm >= 0 ? &site->clusters[site->vms[t->vm].cluster] : NULL;
}

static void tray_row(struct rk_call *call, int index)
{
	const struct rk_site *site = call->world->site;
	const struct rk_tray *t = &site->trays[index];
	const struct rk_cluster *c = cluster_on(site, t);

	rk_out_row(call->out);
	rk_cell_text(call->out, "name", t->name);
	rk_cell_text(call->out, "rack", site->racks[t->rack].name);
	rk_cell_number(call->out, "slot", t->slot);
	rk_cell_text(call->out, "state", rk_tray_state_name(rk_tray_state(site, index)));
	rk_cell_text(call->out, "cluster", c ? c->name : NULL);
	rk_cell_text(call->out, "vm", c ? site->vms[t->vm].name : NULL);
	rk_cell_text(call->out, "tenant", c ? site->tenants[c->tenant].name : NULL);
	rk_cell_text(call->out, "reason", t->offline ? t->offline : t->leak ? t->leak : t->faulty ? t->faulty : t->cordon);
	rk_cell_text(call->out, "serial", t->serial);
	rk_cell_text(call->out, "host_uri", t->libvirt_uri);
}

static int list(struct rk_call *call, struct rk_err *err)
{
	(void)err;
	for (size_t i = 0; i < call->world->site->n_trays; i++)
		tray_row(call, (int)i);
	return 0;
}

static int one_tray(struct rk_call *call, int *ret, struct rk_err *err)
{
	int *trays;
	size_t n;
	int rc = rk_select_trays(call->world->site, rk_call_arg(call, "TRAY"), NULL, call->arena, &trays, &n, err);

	if (!rc && n != 1)
		rc = rk_err_set(err, RK_INVALID, "\"%s\" names %zu trays, one is expected", rk_call_arg(call, "TRAY"), n);
	if (!rc)
		*ret = trays[0];
	return rc;
}

static int show(struct rk_call *call, struct rk_err *err)
{
	int tray, rc = one_tray(call, &tray, err);

	if (!rc)
		tray_row(call, tray);
	return rc;
}

struct marking {
	int *trays;
	size_t n;
	const char *reason;              /* NULL: the mark goes */
};

static int set_cordons(struct rk_call *call, const void *data, struct rk_err *err)
{
	const struct marking *m = data;
	int rc = 0;

	for (size_t i = 0; !rc && i < m->n; i++)
		rc = rk_store_set_tray_cordon(call->world->store, call->world->site->trays[m->trays[i]].name, m->reason, err);
	return rc;
}

static const char *folded(struct rk_call *call, const int *trays, size_t n, bool faulty_only)
{
	const struct rk_site *site = call->world->site;
	const char **names = rk_arena_array(call->arena, n, sizeof(*names));
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (!faulty_only || (site->trays[trays[i]].faulty && site->trays[trays[i]].vm == RK_NONE))
			names[kept++] = site->trays[trays[i]].name;
	return kept ? rk_nodeset_fold(call->arena, names, kept) : NULL;
}

static int mark(struct rk_call *call, struct marking *m, struct rk_err *err)
{
	int rc = rk_select_trays(call->world->site, rk_call_arg(call, "SEL"), call->except, call->arena, &m->trays, &m->n, err);

	return rc ? rc : rk_in_transaction(call, set_cordons, m, err);
}

static int cordon(struct rk_call *call, struct rk_err *err)
{
	struct marking m = { .reason = rk_call_arg(call, "reason") };
	int rc = mark(call, &m, err);

	if (!rc && call->dry_run)
		rk_out_note(call->out, "would cordon %zu tray%s (%s): %s", m.n, m.n == 1 ? "" : "s", folded(call, m.trays, m.n, false), m.reason);
	else if (!rc)
		rk_out_note(call->out, "%zu tray%s cordoned", m.n, m.n == 1 ? "" : "s");
	return rc;
}

static void say_uncordon(struct rk_call *call, const struct marking *m)
{
	const char *faulty = folded(call, m->trays, m->n, true);

	rk_out_note(call->out, "would uncordon %zu tray%s: %s", m->n, m->n == 1 ? "" : "s", folded(call, m->trays, m->n, false));
	if (faulty)
		rk_out_note(call->out, "would empty, erase and bring back into service before that: %s", faulty);
}

/* The newest snapshot, and where the marked trays are in it: somebody else may have changed the site meanwhile. */
static int refresh_marked(struct rk_call *call, struct marking *m, struct rk_err *err)
{
	const char **names = rk_arena_array(call->arena, m->n, sizeof(*names));

	for (size_t i = 0; i < m->n; i++)
		names[i] = rk_arena_strdup(call->arena, call->world->site->trays[m->trays[i]].name);
	int rc = rk_world_refresh(call->world, err);
	for (size_t i = 0; !rc && i < m->n; i++)
		if ((m->trays[i] = rk_find_tray(call->world->site, names[i])) == RK_NONE) {
			rc = rk_err_set(err, RK_CONFLICT, "tray \"%s\" was taken out of the site meanwhile", names[i]);
			rk_err_hint(err, "racksh tray list shows those that are there; give the command again");
		}
	return rc;
}

/* One that is faulty is emptied and erased before it is free. */
static int uncordon(struct rk_call *call, struct rk_err *err)
{
	struct marking m = { .reason = NULL };
	int64_t op = 0;
	int rc = mark(call, &m, err);

	if (!rc && call->dry_run)
		say_uncordon(call, &m);
	if (!rc)
		rc = refresh_marked(call, &m, err);
	if (!rc)
		rc = rk_tray_restore(call->world, m.trays, m.n, &op, err);
	call->op = op;
	if (!rc && !call->dry_run)
		rk_out_note(call->out, "%zu tray%s uncordoned", m.n, m.n == 1 ? "" : "s");
	return rc;
}

static int identity_of(struct rk_call *call, int tray, struct rk_tray_identity *ret, struct rk_err *err)
{
	const char *file = rk_call_arg(call, "identity");
	char *text RK_CLEANUP_FREE = NULL;
	size_t len;

	if (!!file == rk_call_flag(call, "from-discovery")) {
		rk_err_set(err, RK_INVALID, "say what the new hardware is: --from-discovery, or --identity FILE");
		return RK_INVALID;
	}
	if (!file)
		return rk_tray_discover(call->world, tray, call->arena, ret, err);
	int rc = rk_file_read(file, RK_TRAY_IDENTITY_MAX, &text, &len, err);
	return rc ? rc : rk_tray_identity_parse(file, text, len, call->arena, ret, err);
}

static void show_guid(struct rk_call *call, const char *object, uint64_t from, uint64_t to)
{
	if (from == to)
		return;
	rk_out_row(call->out);
	rk_cell_text(call->out, "object", object);
	rk_cell_text(call->out, "from", from ? rk_arena_printf(call->arena, "0x%016" PRIx64, from) : NULL);
	rk_cell_text(call->out, "to", to ? rk_arena_printf(call->arena, "0x%016" PRIx64, to) : NULL);
}

static void show_swap(struct rk_call *call, int tray, const struct rk_tray_identity *to)
{
	const struct rk_tray *t = &call->world->site->trays[tray];
	struct rk_tray_identity from;

	rk_tray_identity_of(call->world->site, tray, &from);
	rk_out_row(call->out);
	rk_cell_text(call->out, "object", t->name);
	rk_cell_text(call->out, "from", from.serial);
	rk_cell_text(call->out, "to", to->serial);
	for (int g = 0; g < t->n_gpus; g++)
		show_guid(call, rk_arena_printf(call->arena, "%s gpu %d", t->name, g), from.gpus[g].guid, to->gpus[g].guid);
	for (int h = 0; h < t->n_hcas; h++)
		show_guid(call, rk_arena_printf(call->arena, "%s rail %d", t->name, h), from.ports[h], to->ports[h]);
}

static void show_steps(struct rk_call *call, int tray, const struct rk_tray_identity *to)
{
	struct rk_plan *plan = rk_tray_replace_plan(call->world, tray, to, call->arena);

	for (size_t i = 0; i < rk_plan_count(plan); i++) {
		const char *kind, *target, *summary;
		int id;
		rk_plan_step(plan, i, &id, &kind, &target, &summary);
		rk_out_note(call->out, "would %s: %s (%s)", summary, target, kind);
	}
	rk_plan_free(plan);
}

static int replace(struct rk_call *call, struct rk_err *err)
{
	struct rk_tray_identity to;
	int64_t op = 0;
	int tray, rc = one_tray(call, &tray, err);

	if (!rc)
		rc = identity_of(call, tray, &to, err);
	if (rc)
		return rc;
	show_swap(call, tray, &to);
	if (call->dry_run) {
		show_steps(call, tray, &to);
		return rk_tray_replace(call->world, tray, &to, &op, err);
	}
	const struct rk_tray *t = &call->world->site->trays[tray];
	const char *name = rk_arena_strdup(call->arena, t->name), *vm = t->vm >= 0 ? rk_arena_strdup(call->arena, call->world->site->vms[t->vm].name) : NULL;
	const char *cluster = vm ? rk_arena_strdup(call->arena, call->world->site->clusters[call->world->site->vms[t->vm].cluster].name) : NULL;
	rc = rk_tray_replace(call->world, tray, &to, &op, err);
	call->op = op;
	if (!rc)
		rk_out_note(call->out, "tray %s is replaced (operation %" PRId64 ")", name, op);
	if (!rc && vm)
		rk_out_note(call->out, "VM %s was on it: racksh cluster repair %s %s", vm, cluster, vm);
	return rc;
}

static int list_gpus(struct rk_call *call, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;

	(void)err;
	for (size_t i = 0; i < site->n_gpus; i++) {
		const struct rk_gpu *g = &site->gpus[i];
		const struct rk_tray *t = &site->trays[g->tray];
		const struct rk_cluster *c = cluster_on(site, t);
		rk_out_row(call->out);
		rk_cell_text(call->out, "tray", t->name);
		rk_cell_number(call->out, "index", g->index);
		rk_cell_number(call->out, "module_id", g->module_id);
		rk_cell_text(call->out, "pci", g->pci);
		rk_cell_hex64(call->out, "fabric_guid", g->fabric_guid);
		rk_cell_text(call->out, "cluster", c ? c->name : NULL);
		rk_cell_text(call->out, "vm", c ? site->vms[t->vm].name : NULL);
		for (int p = c ? c->first_nvl : 0; c && p < c->first_nvl + c->n_nvl; p++)
			if (site->nvl_partitions[p].rack == t->rack)
				rk_cell_number(call->out, "nvlink_partition", site->nvl_partitions[p].id);
	}
	return 0;
}

static int list_hcas(struct rk_call *call, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;

	(void)err;
	for (size_t i = 0; i < site->n_hcas; i++) {
		const struct rk_hca *h = &site->hcas[i];
		const struct rk_cluster *c = cluster_on(site, &site->trays[h->tray]);
		char pkey[16];
		const char *keys[1] = { pkey };
		bool keyed = c && c->ib >= 0;
		rk_out_row(call->out);
		rk_cell_text(call->out, "tray", site->trays[h->tray].name);
		rk_cell_number(call->out, "rail", h->rail);
		rk_cell_text(call->out, "pci", h->pci);
		rk_cell_hex64(call->out, "port_guid", h->port_guid);
		rk_cell_text(call->out, "leaf", h->leaf);
		if (h->leaf)
			rk_cell_number(call->out, "leaf_port", h->leaf_port);
		rk_cell_text(call->out, "cluster", c ? c->name : NULL);
		snprintf(pkey, sizeof(pkey), "0x%04x", keyed ? site->ib_partitions[c->ib].pkey : 0u);
		rk_cell_list(call->out, "pkeys", keys, keyed ? 1 : 0);
	}
	return 0;
}

#define COLUMNS                                                                                                                               \
	RK_COLUMNS({ "name", RK_COL_TEXT }, { "rack", RK_COL_TEXT }, { "slot", RK_COL_NUMBER }, { "state", RK_COL_TEXT }, { "cluster", RK_COL_TEXT }, \
		   { "vm", RK_COL_TEXT }, { "tenant", RK_COL_TEXT }, { "reason", RK_COL_TEXT }, { "serial", RK_COL_TEXT, .wide = true },            \
		   { "host_uri", RK_COL_TEXT, .wide = true })
#define SEL_ARG RK_ARGS({ .name = "SEL", .type = RK_ARG_SEL_TRAYS, .required = true, .help = "trays: r01-t[01-18], @rack:r01, @cluster:a, @state:free, @all" })

static const struct rk_command rows[] = {
	{ .noun = "tray", .verb = "list", .summary = "list the trays with their state", .list = true, .columns = COLUMNS, .examples = RK_EXAMPLES("tray list"), .run = list },
	{ .noun = "tray", .verb = "show", .summary = "show one tray", .args = RK_ARGS({ .name = "TRAY", .type = RK_ARG_TRAY, .required = true, .help = "name of a tray" }),
	  .columns = COLUMNS, .examples = RK_EXAMPLES("tray show r01-t01"), .run = show },
	{ .noun = "tray", .verb = "cordon", .summary = "keep new VMs off trays", .args = SEL_ARG, .flags = RK_CMD_CHANGES | RK_CMD_STAGES | RK_CMD_SELECTS,
	  .options = RK_ARGS({ .name = "reason", .type = RK_ARG_TEXT, .required = true, .help = "why; shown wherever the tray is refused" }),
	  .examples = RK_EXAMPLES("tray cordon r01-t[17-18] --reason 'HCA swap'"), .run = cordon },
	{ .noun = "tray", .verb = "uncordon", .summary = "let new VMs onto trays again", .args = SEL_ARG, .flags = RK_CMD_CHANGES | RK_CMD_STAGES | RK_CMD_SELECTS | RK_CMD_REMOTE,
	  .description = "A faulty tray is emptied first, its drives are erased and its GPUs return to where free ones are (racksh-fabric(7)); one where that fails stays faulty.",
	  .examples = RK_EXAMPLES("tray uncordon r01-t[17-18]"), .run = uncordon },
	{ .noun = "tray", .verb = "replace", .summary = "record other hardware in the slot of a tray, and move all memberships to it", .list = true,
	  .flags = RK_CMD_CHANGES | RK_CMD_DANGEROUS | RK_CMD_REMOTE, .args = RK_ARGS({ .name = "TRAY", .type = RK_ARG_TRAY, .required = true, .help = "name of a tray" }),
	  .description = "The identities of the old hardware are retired and taken out of every NVLink partition and PKey; the new GPUs and ports go where the old ones were. "
			 "A VM on the tray has lost its host: it is failed until `cluster repair`. Marks of a fault or leak go with the old hardware, a cordon stays.\n\n"
			 "It goes forward only: what was interrupted is finished with `op resume`.\n\n"
			 "An identity file is a tray of a site file: {\"serial\":..., \"gpus\":[{\"index\":0, \"fabricGuid\":...}], \"hcas\":[{\"rail\":0, \"portGuid\":...}]}.",
	  .options = RK_ARGS({ .name = "from-discovery", .type = RK_ARG_NONE, .help = "take what answers in the slot now" },
			     { .name = "identity", .type = RK_ARG_FILE, .help = "file with the identities of the new hardware; - is standard input" }),
	  .examples = RK_EXAMPLES("tray replace r01-t05 --identity tests/examples/new-tray.json --dry-run"), .run = replace,
	  .columns = RK_COLUMNS({ "object", RK_COL_TEXT }, { "from", RK_COL_TEXT }, { "to", RK_COL_TEXT }) },
};
RK_NOUN(tray, "compute trays: one libvirt host each", NULL, rows);

static const struct rk_command gpu_rows[] = {
	{ .noun = "gpu", .verb = "list", .summary = "list the GPUs with who holds them", .list = true, .examples = RK_EXAMPLES("gpu list -o csv"), .run = list_gpus,
	  .columns = RK_COLUMNS({ "tray", RK_COL_TEXT }, { "index", RK_COL_NUMBER }, { "module_id", RK_COL_NUMBER }, { "pci", RK_COL_TEXT },
				{ "fabric_guid", RK_COL_HEX64 }, { "cluster", RK_COL_TEXT }, { "vm", RK_COL_TEXT }, { "nvlink_partition", RK_COL_NUMBER }) },
};
RK_NOUN(gpu, "GPUs: identity and holder", NULL, gpu_rows);

static const struct rk_command hca_rows[] = {
	{ .noun = "hca", .verb = "list", .summary = "list the InfiniBand ports with leaf and PKeys", .list = true, .examples = RK_EXAMPLES("hca list"), .run = list_hcas,
	  .columns = RK_COLUMNS({ "tray", RK_COL_TEXT }, { "rail", RK_COL_NUMBER }, { "pci", RK_COL_TEXT }, { "port_guid", RK_COL_HEX64 },
				{ "leaf", RK_COL_TEXT }, { "leaf_port", RK_COL_NUMBER }, { "cluster", RK_COL_TEXT }, { "pkeys", RK_COL_LIST }) },
};
RK_NOUN(hca, "InfiniBand ports of the trays", NULL, hca_rows);
