#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "inventory/base/json.h"
#include "provision/discover_impl.h"

/* Racks: their NVLink domains, the switches, and where switches and trays say that they sit. */

static void compare_domain(struct rk_compare *c, const int *trays, size_t n)
{
	const char **told RK_CLEANUP_FREE = rk_xcalloc(c->site->n_racks + 1, sizeof(*told));

	for (size_t i = 0; i < n; i++) {
		const struct rk_tray *t = &c->site->trays[trays[i]];
		const struct rk_rack *r = &c->site->racks[t->rack];
		const char *uuid = c->seen->trays[trays[i]].cluster_uuid, *want = r->cluster_uuid ? r->cluster_uuid : told[t->rack];
		if (!uuid || (want && strcasecmp(uuid, want) == 0))
			continue;
		if (want) {
			rk_propose(c, "look", t->name, "clusterUuid", want, uuid, "the tray answers from another NVLink domain than rack %s", r->name);
			continue;
		}
		told[t->rack] = uuid;
		rk_propose_edit(rk_propose(c, "set", r->name, "clusterUuid", NULL, uuid, "was not known"), RK_EDIT_CLUSTER_UUID, t->rack, RK_NONE, 0, uuid);
	}
}

/* Both ways: what the store has and the switch lacks, what the switch has and nobody knows. */
static void compare_gpus_of_switch(struct rk_compare *c, int rack)
{
	const struct rk_site *s = c->site;
	const struct rk_rack *r = &s->racks[rack];
	const struct rk_seen_rack *seen = &c->seen->racks[rack];
	struct rk_map *there RK_CLEANUP_MAP = rk_map_new();

	if (!seen->asked || seen->why)
		return;
	for (size_t i = 0; i < seen->n; i++) {
		const struct rk_nvl_place *p = &seen->places[i];
		rk_map_add_u64(there, p->gpu, i, NULL);
		int at = rk_find_gpu_guid(s, p->gpu);
		const char *object = rk_arena_printf(c->arena, "%s slot %d", r->name, p->slot);
		if (at < 0 && !rk_map_get_u64(c->known, p->gpu, NULL))
			rk_propose(c, "look", object, "nvlink", NULL, rk_guid_text(c, p->gpu), "the NVLink switch has a GPU that no tray of the site has");
		else if (at >= 0 && s->trays[s->gpus[at].tray].rack != rack)
			rk_propose(c, "exchange", object, "nvlink", s->racks[s->trays[s->gpus[at].tray].rack].name, r->name, "a GPU of tray %s is in this rack's NVLink domain",
				   s->trays[s->gpus[at].tray].name);
	}
	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++)
		for (int g = 0; c->seen->trays[t].asked && !c->explained[t] && g < s->trays[t].n_gpus; g++) {
			uint64_t guid = s->gpus[s->trays[t].first_gpu + g].fabric_guid;
			if (guid && !rk_map_get_u64(there, guid, NULL))
				rk_propose(c, "repair", rk_arena_printf(c->arena, "%s gpu %d", s->trays[t].name, g), "nvlink", rk_guid_text(c, guid), NULL,
					   "the GPU is in no partition of the NVLink switch");
		}
}

const char *rk_seen_nvos(const struct rk_compare *c, int rack)
{
	const struct rk_seen_rack *seen = &c->seen->racks[rack];
	const char *lowest = NULL;

	for (size_t i = 0; i < seen->n_switches; i++) {
		const char *told = seen->switches[i].version;
		lowest = told && (!lowest || rk_natural_cmp(told, lowest) < 0) ? told : lowest;
	}
	return lowest;
}

static void compare_nvos(struct rk_compare *c, int rack)
{
	const struct rk_rack *r = &c->site->racks[rack];
	const struct rk_seen_rack *seen = &c->seen->racks[rack];
	const char *text = r->versions ? r->versions : c->site->versions;
	RK_CLEANUP_JSON struct rk_json *json = NULL;

	if (!text || rk_json_parse("versions", text, strlen(text), &json, NULL))
		return;
	const char *want = rk_jstr(rk_jget(rk_json_root(json), "nvos"));
	for (size_t i = 0; want && i < seen->n_switches; i++)
		if (seen->switches[i].version && strcmp(want, seen->switches[i].version) != 0)
			rk_propose(c, "look", seen->switches[i].name, "versions.nvos", rk_arena_strdup(c->arena, want), seen->switches[i].version,
				   "not the version that is expected here");
}

static bool has_switch_slot(const struct rk_profile *p, int slot)
{
	bool known = false;

	for (int i = 0; i < p->switch_trays; i++) {
		known |= p->switch_slot[i] > 0;
		if (p->switch_slot[i] == slot)
			return true;
	}
	return !known;
}

/* told: chassis serial number -> rack, over all racks. Gives the chassis of this rack, NULL when its switches do not tell or contradict each other. */
static const char *compare_places(struct rk_compare *c, int rack, struct rk_map *told)
{
	const struct rk_rack *r = &c->site->racks[rack];
	const struct rk_seen_rack *seen = &c->seen->racks[rack];
	const char *chassis = NULL, *first = NULL;
	size_t other;

	for (size_t i = 0; i < seen->n_switches; i++) {
		const struct rk_nvl_switch *s = &seen->switches[i];
		if (s->slot && !has_switch_slot(&c->site->profiles[r->profile], s->slot))
			rk_propose(c, "look", s->name, "slot", NULL, rk_arena_printf(c->arena, "%d", s->slot), "the switch sits in a slot that the rack profile has for none");
		if (s->chassis && chassis && strcmp(s->chassis, chassis) != 0) {
			rk_propose(c, "look", s->name, "chassis", chassis, s->chassis, "another chassis than that of %s: the address leads to a switch of another rack", first);
			return NULL;
		}
		first = s->chassis && !chassis ? s->name : first;
		chassis = s->chassis ? s->chassis : chassis;
	}
	if (chassis && !rk_map_add(told, chassis, (size_t)rack, &other)) {
		rk_propose(c, "look", first, "chassis", NULL, chassis, "rack %s answers from this chassis, too: one of the two addresses leads to the wrong rack",
			   c->site->racks[other].name);
		return NULL;
	}
	return chassis;
}

/* A tray whose GPUs name another chassis than the switches of its rack sits elsewhere, or its host address leads elsewhere. */
static void compare_tray_places(struct rk_compare *c, const int *trays, size_t n, const char *const *chassis)
{
	for (size_t i = 0; i < n; i++) {
		const struct rk_tray *t = &c->site->trays[trays[i]];
		const char *here = chassis[t->rack], *told = c->seen->trays[trays[i]].chassis;
		if (here && told && strcmp(here, told) != 0 && !c->explained[trays[i]])
			rk_propose(c, "look", t->name, "chassis", here, told, "the tray is in another chassis than the NVLink switch of rack %s", c->site->racks[t->rack].name);
	}
}

void rk_compare_racks(struct rk_compare *c, const int *trays, size_t n)
{
	const char **chassis RK_CLEANUP_FREE = rk_xcalloc(c->site->n_racks + 1, sizeof(*chassis));
	struct rk_map *told RK_CLEANUP_MAP = rk_map_new();

	compare_domain(c, trays, n);
	for (size_t r = 0; r < c->site->n_racks; r++) {
		const struct rk_seen_rack *seen = &c->seen->racks[r];
		if (!seen->asked)
			continue;
		rk_note_silence(c, c->site->racks[r].name, "nvlink", seen->why ? seen->why : seen->switches_why);
		/* A single one was counted already, by its partitions. */
		for (size_t i = 0; i < seen->n_switches; i++)
			if (seen->n_switches > 1 || seen->switches[i].why)
				rk_note_silence(c, seen->switches[i].name, "switch", seen->switches[i].why);
		compare_gpus_of_switch(c, (int)r);
		compare_nvos(c, (int)r);
		chassis[r] = compare_places(c, (int)r, told);
	}
	compare_tray_places(c, trays, n, chassis);
}
