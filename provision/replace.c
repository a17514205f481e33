#include "provision/replace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/str.h"
#include "provision/discover_impl.h"
#include "provision/service.h"
#include "provision/steps.h"

/* ---- what is in the slot now ------------------------------------------------------------------------------------------------------ */

static int silent(const struct rk_seen_tray *s, const char *tray, struct rk_err *err)
{
	const char *why = s->host_why ? s->host_why : s->smi_why ? s->smi_why : s->sysfs_why;

	rk_err_set(err, RK_UNREACHABLE, "tray \"%s\" does not tell what it is: %s", tray, why ? why : "not every GPU and port answers");
	rk_err_hint(err, "racksh site discover %s; or name the identities with --identity FILE", tray);
	return RK_UNREACHABLE;
}

int rk_tray_discover(struct rk_world *world, int tray, struct rk_arena *arena, struct rk_tray_identity *ret, struct rk_err *err)
{
	const struct rk_site *site = world->site;
	const struct rk_tray *t = &site->trays[tray];
	RK_CLEANUP(rk_cleanup_seen) struct rk_seen *seen = NULL;
	struct rk_tray_view v;
	int rc = rk_seen_read(world, &tray, 1, &seen, err);

	if (rc)
		return rc;
	struct rk_compare c = { .seen = seen, .site = site, .arena = arena };
	rk_view_tray(&c, tray, &v);
	*ret = (struct rk_tray_identity){ .serial = rk_arena_strdup(arena, seen->trays[tray].serial) };
	for (int g = 0; g < t->n_gpus && v.gpus[g]; g++) {
		ret->gpus[g].guid = v.gpus[g]->guid;
		ret->gpus[g].serial = rk_arena_strdup(arena, v.gpus[g]->serial);
		ret->gpus[g].uuid = rk_arena_strdup(arena, v.gpus[g]->uuid);
	}
	for (int h = 0; h < t->n_hcas && v.ports[h]; h++)
		ret->ports[h] = v.ports[h]->guid;
	return rk_tray_identity_complete(site, tray, ret, NULL) ? silent(&seen->trays[tray], t->name, err) : 0;
}

/* ---- the plan ----------------------------------------------------------------------------------------------------------------------- */

struct swap {
	const struct rk_site *site;
	const struct rk_tray *tray;
	const struct rk_cluster *cluster; /* NULL: nobody's */
	const struct rk_tray_identity *from, *to;
	struct rk_arena *arena;
};

static void guid_list(struct rk_jw *w, const char *key, const struct rk_tray_identity *identity, int n)
{
	rk_jw_key(w, key);
	rk_jw_array(w);
	for (int g = 0; g < n; g++)
		if (identity->gpus[g].guid)
			rk_jw_hex64(w, identity->gpus[g].guid);
	rk_jw_end(w);
}

/* NULL: the default one. */
static const struct rk_nvl_partition *partition_of(const struct swap *s)
{
	for (int i = s->cluster ? s->cluster->first_nvl : 0; s->cluster && i < s->cluster->first_nvl + s->cluster->n_nvl; i++)
		if (s->site->nvl_partitions[i].rack == s->tray->rack)
			return &s->site->nvl_partitions[i];
	return NULL;
}

static int add_nvl(const struct swap *s, struct rk_plan *plan, const char *kind, const struct rk_tray_identity *whose, const int *deps, size_t n_deps)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	const char *rack = s->site->racks[s->tray->rack].name;
	const struct rk_nvl_partition *p = partition_of(s);
	int id = p ? p->id : RK_NVL_DEFAULT;
	struct rk_jw w;

	rk_jw_init(&w, &text, 0);
	rk_jw_object(&w);
	rk_jw_key(&w, "rack");
	rk_jw_str(&w, rack);
	rk_jw_key(&w, "id");
	rk_jw_i64(&w, id);
	rk_jw_key(&w, "name");
	rk_jw_str(&w, p ? p->name : "Default Partition");
	guid_list(&w, "gpus", whose, s->tray->n_gpus);
	rk_jw_end(&w);
	return rk_plan_add(plan, kind, rk_arena_printf(s->arena, "%s/%d", rack, id), rk_arena_printf(s->arena, "nvlink:%s", rack), rk_str_text(&text), deps, n_deps);
}

/* Ports of the cluster on its fabric: those of this tray ("members", by their new GUIDs), those of its other trays ("rest"). */
static void port_lists(const struct swap *s, struct rk_jw *w, int fabric)
{
	rk_jw_key(w, "members");
	rk_jw_array(w);
	for (int h = 0; h < s->tray->n_hcas; h++)
		if (s->site->hcas[s->tray->first_hca + h].fabric == fabric)
			rk_jw_hex64(w, s->to->ports[h]);
	rk_jw_end(w);
	rk_jw_key(w, "rest");
	rk_jw_array(w);
	for (int v = s->cluster->first_vm; v < s->cluster->first_vm + s->cluster->n_vms; v++) {
		const struct rk_tray *t = &s->site->trays[s->site->vms[v].tray];
		for (int h = 0; t != s->tray && h < t->n_hcas; h++)
			if (s->site->hcas[t->first_hca + h].fabric == fabric)
				rk_jw_hex64(w, s->site->hcas[t->first_hca + h].port_guid);
	}
	rk_jw_end(w);
}

static void add_ib(const struct swap *s, struct rk_plan *plan)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	const struct rk_ib_partition *p = &s->site->ib_partitions[s->cluster->ib];
	const char *fabric = s->site->fabrics[p->fabric].name;
	struct rk_jw w;

	rk_jw_init(&w, &text, 0);
	rk_jw_object(&w);
	rk_jw_key(&w, "fabric");
	rk_jw_str(&w, fabric);
	rk_jw_key(&w, "pkey");
	rk_jw_i64(&w, p->pkey);
	rk_jw_key(&w, "name");
	rk_jw_str(&w, p->name ? p->name : s->cluster->name);
	rk_jw_key(&w, "full");
	rk_jw_i64(&w, p->full);
	port_lists(s, &w, p->fabric);
	rk_jw_end(&w);
	rk_plan_add(plan, "ib.join", rk_arena_printf(s->arena, "%s/0x%04x", fabric, p->pkey), rk_arena_printf(s->arena, "ib:%s", fabric), rk_str_text(&text), NULL, 0);
}

/* The tray's ports on the fabric, by those GUIDs, into or out of a service. */
static int add_service(const struct swap *s, struct rk_plan *plan, const struct rk_ib_service *service, const char *kind, const uint64_t *ports, const int *deps, size_t n_deps)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_jw w;

	rk_jw_init(&w, &text, 0);
	rk_service_params(s->site, service, &w);
	rk_jw_key(&w, "members");
	rk_jw_array(&w);
	for (int h = 0; h < s->tray->n_hcas; h++)
		if (s->site->hcas[s->tray->first_hca + h].fabric == service->fabric && ports[h])
			rk_jw_hex64(&w, ports[h]);
	rk_jw_end(&w);
	rk_jw_end(&w);
	return rk_add_service_step(plan, s->site, service, kind, rk_str_text(&text), deps, n_deps);
}

static void add_services(const struct swap *s, struct rk_plan *plan)
{
	for (size_t i = 0; i < s->site->n_ib_services; i++) {
		const struct rk_ib_service *service = &s->site->ib_services[i];
		if (service->fabric != s->site->ib_partitions[s->cluster->ib].fabric || !rk_ib_serves(service, s->cluster->tenant))
			continue;
		int out = add_service(s, plan, service, "service.leave", s->from->ports, NULL, 0);
		add_service(s, plan, service, "service.join", s->to->ports, &out, 1);
	}
}

static struct rk_plan *make_plan(const struct swap *s)
{
	struct rk_plan *plan = rk_plan_new(rk_arena_printf(s->arena, "tray replace %s", s->tray->name));

	if (s->site->profiles[s->site->racks[s->tray->rack].profile].switch_trays && s->site->racks[s->tray->rack].nvlink.driver) {
		int out = add_nvl(s, plan, "nvl.forget", s->from, NULL, 0);
		add_nvl(s, plan, "nvl.join", s->to, &out, 1);
	}
	if (s->cluster && s->cluster->ib >= 0) {
		add_ib(s, plan);
		add_services(s, plan);
	}
	return plan;
}

/* from: identities of the tray; the caller's, as long as the plan is made. */
static struct swap swap_of(const struct rk_site *site, int tray, const struct rk_tray_identity *to, struct rk_tray_identity *from, struct rk_arena *arena)
{
	const struct rk_tray *t = &site->trays[tray];

	rk_tray_identity_of(site, tray, from);
	return (struct swap){ site, t, t->vm >= 0 ? &site->clusters[site->vms[t->vm].cluster] : NULL, from, to, arena };
}

struct rk_plan *rk_tray_replace_plan(struct rk_world *world, int tray, const struct rk_tray_identity *identity, struct rk_arena *arena)
{
	struct rk_tray_identity from;
	struct swap s = swap_of(world->site, tray, identity, &from, arena);

	return make_plan(&s);
}

/* ---- the operation ------------------------------------------------------------------------------------------------------------------ */

static int reserve(struct rk_world *world, const struct rk_change *change, int64_t op, struct rk_err *err)
{
	const struct swap *s = change->data;

	(void)op;
	return rk_store_replace_tray(world->store, s->tray->name, s->to, err);
}

static bool same(const struct swap *s)
{
	bool differs = !rk_streq(s->from->serial, s->to->serial);

	for (int g = 0; g < s->tray->n_gpus; g++)
		differs |= s->from->gpus[g].guid != s->to->gpus[g].guid;
	for (int h = 0; h < s->tray->n_hcas; h++)
		differs |= s->from->ports[h] != s->to->ports[h];
	return !differs;
}

int rk_tray_replace(struct rk_world *world, int tray, const struct rk_tray_identity *identity, int64_t *ret_op, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_tray_identity from;
	struct swap s = swap_of(world->site, tray, identity, &from, arena);
	int rc = rk_tray_identity_complete(world->site, tray, identity, err);

	*ret_op = 0;
	if (!rc && same(&s))
		rc = rk_err_set(err, RK_INVALID, "tray \"%s\" is recorded with these identities already", s.tray->name);
	if (!rc && s.cluster && s.cluster->op)
		rc = rk_op_holds(world, rk_arena_printf(arena, "cluster \"%s\" on this tray", s.cluster->name), s.cluster->op, err);
	if (rc)
		return rc;
	struct rk_plan *plan = make_plan(&s);
	const struct rk_change change = {
		.type = "tray.replace", .cluster = s.cluster ? s.cluster->name : NULL, .lease = rk_arena_printf(arena, "tray:%s", s.tray->name), .purpose = "replace",
		.plan = plan, .params = "{\"type\":\"tray.replace\"}", .reserve = reserve, .data = &s,
	};
	rc = rk_change_run(world, &change, ret_op, err);
	rk_plan_free(plan);
	return rc;
}

/* ---- its own step: GPUs that left the rack leave every partition ---------------------------------------------------------------------- */

static int partition_with(const struct rk_nvl_live *parts, size_t n, uint64_t gpu)
{
	for (size_t i = 0; i < n; i++)
		for (size_t g = 0; g < parts[i].n_gpus; g++)
			if (parts[i].gpus[g] == gpu)
				return parts[i].id;
	return 0;
}

static int read_parts(struct rk_world *world, struct rk_step *step, int *rack, struct rk_nvl_live **parts, size_t *n, struct rk_err *err)
{
	*rack = rk_find_rack(world->site, rk_param(step, "rack"));
	if (*rack < 0)
		return rk_err_set(err, RK_NOT_FOUND, "no rack \"%s\" in the store", rk_param(step, "rack"));
	return world->nvl->ops->list(world->nvl, *rack, step->arena, parts, n, err);
}

static int forgotten(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	struct rk_nvl_live *parts;
	size_t n_parts, n;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n);
	int rack, rc = read_parts(world, step, &rack, &parts, &n_parts, err);

	*ret = !rc;
	for (size_t i = 0; !rc && i < n; i++)
		*ret &= !partition_with(parts, n_parts, gpus[i]);
	return rc;
}

static int forget(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct rk_nvl_live *parts;
	size_t n_parts, n;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n);
	int rack, rc = read_parts(world, step, &rack, &parts, &n_parts, err);

	for (size_t i = 0; !rc && i < n; i++) {
		int at = partition_with(parts, n_parts, gpus[i]);
		if (at)
			rc = world->nvl->ops->drop(world->nvl, rack, at, gpus[i], err);
	}
	return rc ? rc : rk_wait_until(world, step, "the old GPUs to leave their NVLink partition", forgotten, err);
}

const struct rk_step_kind rk_tray_steps[] = {
	{ .name = "nvl.forget", .summary = "take GPUs that left the rack out of every NVLink partition", .deadline_ms = 60000, .probe = forgotten, .apply = forget, .give_up = rk_nvl_give_up },
	{ .name = NULL },
};
