#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/app.h"
#include "inventory/base/clock.h"
#include "inventory/site_file.h"
#include "provision/sim.h"
#include "provision/twin.h"

/* ---- the twin --------------------------------------------------------------------------------------------------------------------- */

/* The inventory by way of its export: what the site file can say is what the twin is made from. */
static int copy_inventory(const struct rk_site *from, struct rk_site **ret, struct rk_err *err)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	rk_site_export(from, &text);
	int rc = rk_site_parse("site", rk_str_text(&text), text.len, ret, err);
	if (!rc)
		rk_site_invent(*ret);
	return rc;
}

static int fill_store(struct rk_app *twin, const struct rk_site *from, struct rk_err *err)
{
	const struct rk_actor actor = { .user = "rehearsal", .host = "twin", .pid = 0 };
	int rc = rk_store_open("mem:", RK_STORE_WRITE, &actor, &twin->world.store, err);

	if (!rc)
		rc = rk_store_begin(twin->world.store, -1, err);
	if (!rc)
		rc = rk_store_put_site(twin->world.store, twin->twin_site, err);
	if (!rc)
		rc = rk_store_commit(twin->world.store, err);
	if (!rc && from)
		rc = rk_twin_fill(twin->world.store, twin->twin_site, from, err);
	return rc ? rc : rk_store_snapshot(twin->world.store, &twin->world.site, err);
}

/* site: owned by the twin from here on; from: whose marks and clusters it takes over, or NULL. */
static int start(struct rk_app *app, struct rk_site *site, const struct rk_site *from, struct rk_app *twin, struct rk_err *err)
{
	*twin = (struct rk_app){ .globals = app->globals, .opened = true, .writable = true, .rehearsal = true };
	/* In a twin that dies with the command nothing is dangerous and nothing is forbidden. */
	twin->globals.sim = "rehearsal";
	twin->globals.sim_state = twin->globals.sim_fault = NULL;
	twin->globals.read_only = twin->globals.dry_run = false;
	twin->clock = rk_clock_virtual(rk_clock_unix_ms(app->clock));
	rk_app_prepare(twin);
	twin->world.env.clock = twin->clock;
	twin->twin_site = site;
	int rc = fill_store(twin, from, err);
	if (!rc)
		rc = rk_sim_open(twin->twin_site, NULL, twin->clock, &twin->world.sim, err);
	if (!rc)
		rc = rk_twin_adopt(&twin->world, err);
	if (rc)
		rk_app_close(twin);
	return rc;
}

int rk_app_twin(struct rk_app *app, struct rk_app *twin, struct rk_err *err)
{
	struct rk_site *site = NULL;
	int rc = copy_inventory(app->world.site, &site, err);

	return rc ? rc : start(app, site, app->world.site, twin, err);
}

int rk_app_twin_file(struct rk_app *app, const char *name, const char *text, struct rk_app *twin, struct rk_err *err)
{
	struct rk_site *site = NULL;
	int rc = rk_site_parse(name, text, strlen(text), &site, err);

	if (rc)
		return rc;
	rk_site_invent(site);
	return start(app, site, NULL, twin, err);
}

/* ---- what differs ------------------------------------------------------------------------------------------------------------------- */

struct fact {
	const char *plane, *object, *field, *value;
};
struct facts {
	struct fact *items;
	size_t n, cap;
	struct rk_arena *arena;
};

static void say(struct facts *f, const char *plane, const char *object, const char *field, const char *value)
{
	if (value)
		*rk_vec_push(f) = (struct fact){ plane, object, field, value };
}

static const char *count(struct facts *f, int n)
{
	return rk_arena_printf(f->arena, "%d", n);
}

static int trays_in(const struct rk_site *s, const struct rk_cluster *c, int rack)
{
	int n = 0;

	for (int v = c->first_vm; v < c->first_vm + c->n_vms; v++)
		n += s->vms[v].tray >= 0 && (rack < 0 || s->trays[s->vms[v].tray].rack == rack);
	return n;
}

static void inventory_facts(const struct rk_site *s, struct facts *f)
{
	for (size_t i = 0; i < s->n_racks; i++)
		say(f, "inventory", rk_arena_printf(f->arena, "rack %s", s->racks[i].name), "cordon", s->racks[i].cordon);
	for (size_t i = 0; i < s->n_trays; i++) {
		const char *object = rk_arena_printf(f->arena, "tray %s", s->trays[i].name);
		say(f, "inventory", object, "state", rk_tray_state_name(rk_tray_state(s, (int)i)));
		say(f, "inventory", object, "cordon", s->trays[i].cordon);
		say(f, "inventory", object, "faulty", s->trays[i].faulty);
	}
	for (size_t i = 0; i < s->n_tenants; i++)
		say(f, "inventory", rk_arena_printf(f->arena, "tenant %s", s->tenants[i].name), "exists", "yes");
	for (size_t i = 0; i < s->n_images; i++)
		say(f, "inventory", rk_arena_printf(f->arena, "image %s", s->images[i].name), "volume", s->images[i].volume);
	for (size_t i = 0; i < s->n_reservations; i++)
		say(f, "inventory", rk_arena_printf(f->arena, "reservation %" PRId64, s->reservations[i].id), "tenant", s->tenants[s->reservations[i].tenant].name);
	for (size_t i = 0; i < s->n_silences; i++) {
		const char *object = rk_arena_printf(f->arena, "silence %" PRId64, s->silences[i].id);
		say(f, "inventory", object, "trays", s->silences[i].trays);
		say(f, "inventory", object, "checks", s->silences[i].checks ? s->silences[i].checks : "*");
	}
	for (size_t i = 0; i < s->n_clusters; i++) {
		const char *object = rk_arena_printf(f->arena, "cluster %s", s->clusters[i].name);
		say(f, "inventory", object, "state", rk_cluster_state_name(s->clusters[i].state));
		say(f, "inventory", object, "vms", count(f, s->clusters[i].n_vms));
	}
}

static void plane_facts(const struct rk_site *s, struct facts *f)
{
	for (size_t i = 0; i < s->n_vms; i++) {
		const struct rk_vm *vm = &s->vms[i];
		say(f, "libvirt", vm->name, "tray", vm->tray >= 0 ? s->trays[vm->tray].name : NULL);
		say(f, "libvirt", vm->name, "state", rk_vm_state_name(vm->state));
	}
	for (size_t i = 0; i < s->n_nvl_partitions; i++) {
		const struct rk_nvl_partition *p = &s->nvl_partitions[i];
		const char *object = rk_arena_printf(f->arena, "%s/%d", s->racks[p->rack].name, p->id);
		say(f, "nvlink", object, "cluster", s->clusters[p->cluster].name);
		say(f, "nvlink", object, "gpus", count(f, trays_in(s, &s->clusters[p->cluster], p->rack) * s->profiles[s->racks[p->rack].profile].gpus_per_tray));
	}
	for (size_t i = 0; i < s->n_ib_partitions; i++) {
		const struct rk_ib_partition *p = &s->ib_partitions[i];
		const char *object = rk_arena_printf(f->arena, "%s/0x%04x", s->fabrics[p->fabric].name, p->pkey);
		int profile = s->n_racks ? s->racks[0].profile : 0;
		say(f, "infiniband", object, "cluster", s->clusters[p->cluster].name);
		say(f, "infiniband", object, "members", count(f, trays_in(s, &s->clusters[p->cluster], RK_NONE) * s->profiles[profile].hcas_per_tray));
	}
	for (size_t i = 0; i < s->n_ib_services; i++)
		say(f, "infiniband", rk_arena_printf(f->arena, "%s/0x%04x", s->fabrics[s->ib_services[i].fabric].name, s->ib_services[i].pkey), "service", s->ib_services[i].name);
}

static struct facts facts_of(const struct rk_site *site, struct rk_arena *arena)
{
	struct facts f = { .arena = arena };

	inventory_facts(site, &f);
	plane_facts(site, &f);
	return f;
}

static char *key_of(const struct fact *fact)
{
	return rk_xasprintf("%s\t%s\t%s", fact->plane, fact->object, fact->field);
}

static struct rk_map *index_of(const struct facts *f)
{
	struct rk_map *map = rk_map_new();

	for (size_t i = 0; i < f->n; i++) {
		char *key RK_CLEANUP_FREE = key_of(&f->items[i]);
		rk_map_set(map, key, i);
	}
	return map;
}

static const char *value_in(const struct facts *f, const struct rk_map *index, const struct fact *fact)
{
	char *key RK_CLEANUP_FREE = key_of(fact);
	size_t at;

	return rk_map_get(index, key, &at) ? f->items[at].value : NULL;
}

static void show(struct rk_out *out, const struct fact *fact, const char *from, const char *to)
{
	rk_out_row(out);
	rk_cell_text(out, "plane", fact->plane);
	rk_cell_text(out, "object", fact->object);
	rk_cell_text(out, "field", fact->field);
	rk_cell_text(out, "from", from);
	rk_cell_text(out, "to", to);
}

void rk_show_changes(struct rk_out *out, const struct rk_site *before, const struct rk_site *after)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct facts old = facts_of(before, arena), fresh = facts_of(after, arena);
	RK_CLEANUP_MAP struct rk_map *old_index = index_of(&old);
	RK_CLEANUP_MAP struct rk_map *fresh_index = index_of(&fresh);

	for (size_t i = 0; i < fresh.n; i++) {
		const char *from = value_in(&old, old_index, &fresh.items[i]);
		if (!rk_streq(from, fresh.items[i].value))
			show(out, &fresh.items[i], from, fresh.items[i].value);
	}
	for (size_t i = 0; i < old.n; i++)
		if (!value_in(&fresh, fresh_index, &old.items[i]))
			show(out, &old.items[i], old.items[i].value, NULL);
	free(old.items);
	free(fresh.items);
}
