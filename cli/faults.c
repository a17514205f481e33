#include "cli/faults.h"

#include "cli/out.h"
#include "inventory/base/map.h"

struct rk_map *rk_faulty_trays(const struct rk_site *site)
{
	struct rk_map *map = rk_map_new();

	for (size_t t = 0; site && t < site->n_trays; t++)
		if (site->trays[t].faulty)
			rk_map_add(map, site->trays[t].name, t, NULL);
	return map;
}

struct found {
	const char **names;
	int *trays;
	size_t n;
};

static struct found new_ones(const struct rk_site *site, const struct rk_map *before, struct rk_arena *arena)
{
	struct found f = { rk_arena_array(arena, site->n_trays, sizeof(*f.names)), rk_arena_array(arena, site->n_trays, sizeof(*f.trays)), 0 };
	size_t at;

	for (size_t t = 0; t < site->n_trays; t++) {
		if (!site->trays[t].faulty || rk_map_get(before, site->trays[t].name, &at))
			continue;
		f.names[f.n] = site->trays[t].name;
		f.trays[f.n++] = (int)t;
	}
	return f;
}

/* Those of one reason together, in the order of the first of each. */
static void tell_reason(struct rk_call *call, const struct found *f, bool *told, size_t first)
{
	const struct rk_tray *trays = call->world->site->trays;
	const char **names = rk_arena_array(call->arena, f->n, sizeof(*names));
	size_t n = 0;

	for (size_t i = first; i < f->n; i++) {
		if (told[i] || !rk_streq(trays[f->trays[i]].faulty, trays[f->trays[first]].faulty))
			continue;
		told[i] = true;
		names[n++] = f->names[i];
	}
	rk_out_note(call->out, "%s %s: %s", rk_nodeset_fold(call->arena, names, n), n == 1 ? "is faulty" : "are faulty", trays[f->trays[first]].faulty);
}

void rk_tell_new_faults(struct rk_call *call, const struct rk_map *before)
{
	if (rk_world_refresh(call->world, NULL))
		return;
	struct found f = new_ones(call->world->site, before, call->arena);
	bool *told = rk_arena_array(call->arena, f.n, sizeof(*told));

	for (size_t i = 0; i < f.n; i++)
		if (!told[i])
			tell_reason(call, &f, told, i);
	if (f.n)
		rk_out_note(call->out, "racksh tray uncordon %s empties and erases %s, which is free then", rk_nodeset_fold(call->arena, f.names, f.n), f.n == 1 ? "it" : "each");
}
