#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cmds/cluster.h"

static void raw_json(struct rk_jw *w, const char *json)
{
	RK_CLEANUP_JSON struct rk_json *doc = NULL;

	if (json && !rk_json_parse("stored", json, strlen(json), &doc, NULL))
		rk_jw_node(w, rk_json_root(doc));
	else
		rk_jw_null(w);
}

static void pair_str(struct rk_jw *w, const char *key, const char *value)
{
	rk_jw_key(w, key);
	rk_jw_str(w, value);
}

static void pair_int(struct rk_jw *w, const char *key, long value)
{
	rk_jw_key(w, key);
	rk_jw_i64(w, value);
}

/* Names of the racks a cluster touches, in rack order. */
static const char **racks_of(struct rk_call *call, const struct rk_cluster *c, size_t *ret_n)
{
	const struct rk_site *site = call->world->site;
	const char **names = rk_arena_array(call->arena, site->n_racks, sizeof(*names));
	bool *seen = rk_arena_array(call->arena, site->n_racks, sizeof(*seen));

	*ret_n = 0;
	for (int v = c->first_vm; v < c->first_vm + c->n_vms; v++)
		if (site->vms[v].tray >= 0)
			seen[site->trays[site->vms[v].tray].rack] = true;
	for (size_t r = 0; r < site->n_racks; r++)
		if (seen[r])
			names[(*ret_n)++] = site->racks[r].name;
	return names;
}

int rk_cmd_cluster_list(struct rk_call *call, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;

	(void)err;
	for (size_t i = 0; i < site->n_clusters; i++) {
		const struct rk_cluster *c = &site->clusters[i];
		size_t n;
		const char **racks = racks_of(call, c, &n);
		rk_out_row(call->out);
		rk_cell_text(call->out, "name", c->name);
		rk_cell_text(call->out, "tenant", site->tenants[c->tenant].name);
		rk_cell_text(call->out, "size", c->size);
		rk_cell_text(call->out, "state", rk_cluster_state_name(c->state));
		rk_cell_number(call->out, "vms", c->n_vms);
		rk_cell_list(call->out, "racks", racks, n);
		if (c->ib >= 0)
			rk_cell_pkey(call->out, "pkey", site->ib_partitions[c->ib].pkey);
	}
	return 0;
}

static void show_vms(struct rk_call *call, const struct rk_cluster *c)
{
	const struct rk_site *site = call->world->site;
	struct rk_jw *w = rk_cell_json(call->out, "vms");

	rk_jw_array(w);
	for (int v = c->first_vm; v < c->first_vm + c->n_vms; v++) {
		const struct rk_vm *vm = &site->vms[v];
		rk_jw_object(w);
		pair_str(w, "name", vm->name);
		pair_str(w, "tray", vm->tray >= 0 ? site->trays[vm->tray].name : NULL);
		pair_str(w, "rack", vm->tray >= 0 ? site->racks[site->trays[vm->tray].rack].name : NULL);
		pair_str(w, "state", rk_vm_state_name(vm->state));
		pair_str(w, "address", vm->address);
		pair_int(w, "ssh_port", vm->ssh_port);
		rk_jw_end(w);
	}
	rk_jw_end(w);
}

static int vms_in_rack(const struct rk_site *site, const struct rk_cluster *c, int rack)
{
	int n = 0;

	for (int v = c->first_vm; v < c->first_vm + c->n_vms; v++)
		n += site->vms[v].tray >= 0 && site->trays[site->vms[v].tray].rack == rack;
	return n;
}

static void show_fabric(struct rk_call *call, const struct rk_cluster *c)
{
	const struct rk_site *site = call->world->site;
	struct rk_jw *w = rk_cell_json(call->out, "nvlink");
	int ports = 0;

	rk_jw_array(w);
	for (int i = c->first_nvl; i < c->first_nvl + c->n_nvl; i++) {
		const struct rk_nvl_partition *p = &site->nvl_partitions[i];
		const struct rk_rack *rack = &site->racks[p->rack];
		rk_jw_object(w);
		pair_str(w, "domain", rack->cluster_uuid);
		pair_str(w, "rack", rack->name);
		pair_int(w, "partition", p->id);
		pair_int(w, "gpus", vms_in_rack(site, c, p->rack) * site->profiles[rack->profile].gpus_per_tray);
		rk_jw_end(w);
	}
	rk_jw_end(w);
	for (int v = c->first_vm; v < c->first_vm + c->n_vms; v++)
		ports += site->vms[v].tray >= 0 ? site->trays[site->vms[v].tray].n_hcas : 0;
	w = rk_cell_json(call->out, "infiniband");
	if (c->ib < 0) {
		rk_jw_null(w);
		return;
	}
	char pkey[16];
	snprintf(pkey, sizeof(pkey), "0x%04x", site->ib_partitions[c->ib].pkey);
	rk_jw_object(w);
	pair_str(w, "fabric", site->fabrics[site->ib_partitions[c->ib].fabric].name);
	pair_str(w, "pkey", pkey);
	pair_int(w, "members", ports);
	rk_jw_end(w);
}

void rk_cluster_row(struct rk_call *call, int at)
{
	const struct rk_site *site = call->world->site;
	const struct rk_cluster *c = &site->clusters[at];
	size_t n;
	const char **racks = racks_of(call, c, &n);

	rk_out_row(call->out);
	rk_cell_text(call->out, "name", c->name);
	rk_cell_text(call->out, "tenant", site->tenants[c->tenant].name);
	rk_cell_text(call->out, "size", c->size);
	rk_cell_text(call->out, "state", rk_cluster_state_name(c->state));
	show_vms(call, c);
	show_fabric(call, c);
	struct rk_jw *w = rk_cell_json(call->out, "placement");
	rk_jw_object(w);
	rk_jw_key(w, "racks");
	rk_jw_array(w);
	for (size_t i = 0; i < n; i++)
		rk_jw_str(w, racks[i]);
	rk_jw_end(w);
	pair_int(w, "segment", c->segment);
	pair_int(w, "spares", c->spares_per_rack);
	rk_jw_key(w, "reasons");
	raw_json(w, c->reasons);
	rk_jw_end(w);
	raw_json(rk_cell_json(call->out, "validation"), c->validation);
}

static void plan_placement(struct rk_call *call, const struct rk_placement *p)
{
	const struct rk_site *site = call->world->site;
	struct rk_jw *w = rk_cell_json(call->out, "placement");

	rk_jw_object(w);
	rk_jw_key(w, "racks");
	rk_jw_array(w);
	for (size_t r = 0; r < site->n_racks; r++) {
		bool any = false;
		for (size_t i = 0; i < p->n_trays; i++) {
			if (site->trays[p->trays[i]].rack != (int)r)
				continue;
			if (!any) {
				rk_jw_object(w);
				pair_str(w, "rack", site->racks[r].name);
				rk_jw_key(w, "trays");
				rk_jw_array(w);
			}
			any = true;
			rk_jw_str(w, site->trays[p->trays[i]].name);
		}
		if (any) {
			rk_jw_end(w);
			rk_jw_end(w);
		}
	}
	rk_jw_end(w);
	rk_jw_key(w, "reasons");
	rk_jw_array(w);
	for (size_t i = 0; i < p->n_reasons; i++) {
		rk_jw_object(w);
		pair_str(w, "rack", site->racks[p->reasons[i].rack].name);
		pair_str(w, "verdict", p->reasons[i].verdict);
		pair_str(w, "why", p->reasons[i].why);
		rk_jw_end(w);
	}
	rk_jw_end(w);
	rk_jw_end(w);
}

/* A dry run lists the steps for people too; `cluster plan` is about the place. */
static void note_steps(struct rk_call *call, const struct rk_plan *plan)
{
	for (size_t i = 0; call->dry_run && plan && i < rk_plan_count(plan); i++) {
		const char *kind, *target, *summary;
		int id;
		rk_plan_step(plan, i, &id, &kind, &target, &summary);
		rk_out_note(call->out, "step %d: %s %s: %s", id, kind, target, summary);
	}
}

static void plan_steps(struct rk_call *call, const struct rk_plan *plan)
{
	struct rk_jw *w = rk_cell_json(call->out, "steps");

	rk_jw_array(w);
	for (size_t i = 0; plan && i < rk_plan_count(plan); i++) {
		const char *kind, *target, *summary;
		int id;
		rk_plan_step(plan, i, &id, &kind, &target, &summary);
		rk_jw_object(w);
		pair_int(w, "id", id);
		pair_str(w, "kind", kind);
		pair_str(w, "target", target);
		pair_str(w, "summary", summary);
		rk_jw_end(w);
	}
	rk_jw_end(w);
}

/* The trays chosen in a rack, folded; "" when there is none. */
static const char *trays_in(struct rk_call *call, const struct rk_placement *p, int rack)
{
	const struct rk_site *site = call->world->site;
	const char **names = rk_arena_array(call->arena, (size_t)site->racks[rack].n_trays + 1, sizeof(*names));
	size_t n = 0;

	for (size_t i = 0; i < p->n_trays; i++)
		if (site->trays[p->trays[i]].rack == rack)
			names[n++] = site->trays[p->trays[i]].name;
	return n ? rk_nodeset_fold(call->arena, names, n) : "";
}

/* What is left, and what would help; for people one line per rack. */
static void plan_after(struct rk_call *call, const struct rk_placement *p)
{
	struct rk_jw *w = rk_cell_json(call->out, "segments_after");

	rk_jw_object(w);
	for (int k = 0; k < RK_SEGMENT_KINDS; k++)
		pair_int(w, rk_arena_printf(call->arena, "%d", rk_segment_sizes[k]), p->segments_after[k]);
	rk_jw_end(w);
	rk_cell_text(call->out, "limit", p->limit);
	w = rk_cell_json(call->out, "changes");
	rk_jw_array(w);
	for (size_t i = 0; i < p->n_changes; i++) {
		rk_jw_object(w);
		pair_str(w, "kind", p->changes[i].kind);
		if (p->changes[i].value)
			pair_int(w, "value", p->changes[i].value);
		if (p->changes[i].objects)
			pair_str(w, "objects", p->changes[i].objects);
		pair_str(w, "text", p->changes[i].text);
		rk_jw_end(w);
	}
	rk_jw_end(w);
	for (size_t i = 0; i < p->n_reasons; i++) {
		const struct rk_place_reason *r = &p->reasons[i];
		const char *trays = trays_in(call, p, r->rack);
		rk_out_note(call->out, "%s: %s (%s%s%s)", call->world->site->racks[r->rack].name, r->why, r->verdict, *trays ? ": " : "", trays);
	}
}

const struct rk_column rk_plan_columns[] = {
	{ "feasible", RK_COL_BOOL },		   { "placement", RK_COL_JSON, .wide = true }, { "steps", RK_COL_JSON, .wide = true },
	{ "power_kw_added", RK_COL_REAL },	   { "fragmentation_after", RK_COL_REAL },     { "segments_after", RK_COL_JSON },
	{ "limit", RK_COL_TEXT, .wide = true }, { "changes", RK_COL_JSON, .wide = true },	  { .key = NULL },
};

void rk_plan_row(struct rk_call *call, const struct rk_placement *p, const struct rk_plan *steps)
{
	rk_out_columns(call->out, rk_plan_columns);
	rk_out_row(call->out);
	rk_cell_bool(call->out, "feasible", p->feasible);
	plan_placement(call, p);
	plan_steps(call, steps);
	rk_cell_real(call->out, "power_kw_added", p->kw_added);
	rk_cell_real(call->out, "fragmentation_after", p->fragmentation_after);
	plan_after(call, p);
	note_steps(call, steps);
	if (p->warning)
		rk_out_note(call->out, "warning: %s", p->warning);
}

void rk_steps_row(struct rk_call *call, const struct rk_plan *steps)
{
	static const struct rk_column columns[] = { { "feasible", RK_COL_BOOL }, { "steps", RK_COL_JSON, .wide = true }, { .key = NULL } };

	rk_out_columns(call->out, columns);
	rk_out_row(call->out);
	rk_cell_bool(call->out, "feasible", true);
	plan_steps(call, steps);
	note_steps(call, steps);
}
