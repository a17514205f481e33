#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/topology.h"
#include "provision/sim_impl.h"

/* What is really in the racks of the twin: what the store says, but for what --sim-fault planted there. */

static const char *hw_value(const struct rk_sim *sim, const char *tray, const char *what, int index)
{
	char key[160];

	snprintf(key, sizeof(key), "hw:%s:%s:%d", tray, what, index);
	return rk_sim_get_settled(sim, key);
}

bool rk_sim_planted(const struct rk_sim *sim)
{
	size_t first, end;

	rk_sim_range(sim, "hw:", &first, &end);
	return end > first;
}

static uint64_t identity(const struct rk_sim *sim, const char *tray, const char *what, int index, uint64_t recorded)
{
	const char *value = rk_sim_planted(sim) ? hw_value(sim, tray, what, index) : NULL;

	return value ? strtoull(value, NULL, 16) : recorded;
}

uint64_t rk_sim_gpu_guid(const struct rk_sim *sim, const struct rk_site *site, int gpu)
{
	const struct rk_gpu *g = &site->gpus[gpu];

	return identity(sim, site->trays[g->tray].name, "gpu", g->index, g->fabric_guid);
}

uint64_t rk_sim_port_guid(const struct rk_sim *sim, const struct rk_site *site, int hca)
{
	const struct rk_hca *h = &site->hcas[hca];

	return identity(sim, site->trays[h->tray].name, "port", h->rail, h->port_guid);
}

int rk_sim_port_place(const struct rk_sim *sim, const struct rk_site *site, uint64_t guid)
{
	int hca = rk_find_hca_guid(site, guid);

	if (hca >= 0 && rk_sim_port_guid(sim, site, hca) == guid)
		return hca;
	for (size_t h = 0; rk_sim_planted(sim) && h < site->n_hcas; h++)
		if (rk_sim_port_guid(sim, site, (int)h) == guid)
			return (int)h;
	return RK_NONE;
}

const char *rk_sim_serial(const struct rk_sim *sim, const struct rk_site *site, int tray)
{
	const char *value = hw_value(sim, site->trays[tray].name, "serial", 0);

	return value ? value : site->trays[tray].serial;
}

/* ---- planting ------------------------------------------------------------------------------------------------------------------- */

static void plant(struct rk_sim_call *call, const char *tray, const char *what, int index, const char *value)
{
	char *key RK_CLEANUP_FREE = rk_xasprintf("hw:%s:%s:%d", tray, what, index);

	rk_sim_set(call, key, value, 0);
}

static void plant_guid(struct rk_sim_call *call, const char *tray, const char *what, int index, uint64_t guid)
{
	char text[24];

	snprintf(text, sizeof(text), "%016" PRIx64, guid);
	plant(call, tray, what, index, text);
}

/* Another tray of the same kind sits there now. */
static void swap_tray(struct rk_sim_call *call, const struct rk_site *site, int tray, int index, int other)
{
	const struct rk_tray *t = &site->trays[tray];
	char *serial RK_CLEANUP_FREE = rk_xasprintf("NEW-%s", t->name);

	(void)index, (void)other;
	plant(call, t->name, "serial", 0, serial);
	for (int g = 0; g < t->n_gpus; g++)
		plant_guid(call, t->name, "gpu", g, site->gpus[t->first_gpu + g].fabric_guid ^ (uint64_t)1 << 44);
	for (int h = 0; h < t->n_hcas; h++)
		plant_guid(call, t->name, "port", h, site->hcas[t->first_hca + h].port_guid ^ (uint64_t)1 << 28);
}

static void put_into(struct rk_sim_call *call, const struct rk_site *site, int from, int to)
{
	const struct rk_tray *a = &site->trays[from], *b = &site->trays[to];

	plant(call, b->name, "serial", 0, a->serial);
	for (int g = 0; g < a->n_gpus && g < b->n_gpus; g++)
		plant_guid(call, b->name, "gpu", g, site->gpus[a->first_gpu + g].fabric_guid);
	for (int h = 0; h < a->n_hcas && h < b->n_hcas; h++)
		plant_guid(call, b->name, "port", h, site->hcas[a->first_hca + h].port_guid);
}

static void exchange_trays(struct rk_sim_call *call, const struct rk_site *site, int tray, int index, int other)
{
	(void)index;
	put_into(call, site, tray, other);
	put_into(call, site, other, tray);
}

static void lose_gpu(struct rk_sim_call *call, const struct rk_site *site, int tray, int index, int other)
{
	(void)other;
	plant_guid(call, site->trays[tray].name, "gpu", index, 0);
}

/* The cables of one rail of two trays are exchanged at the switch. */
static void cross_cables(struct rk_sim_call *call, const struct rk_site *site, int tray, int index, int other)
{
	const struct rk_tray *a = &site->trays[tray], *b = &site->trays[other];

	plant_guid(call, a->name, "cable", index, rk_sim_port_guid(call->sim, site, b->first_hca + index));
	plant_guid(call, b->name, "cable", index, rk_sim_port_guid(call->sim, site, a->first_hca + index));
}

/* "TRAY", "TRAY/INDEX", "TRAY+TRAY" or "TRAY+TRAY/INDEX". */
enum { OF_GPU = 1, OF_PORT = 2, OF_TWO = 4 };
static const struct {
	const char *word;
	unsigned form;
	void (*make)(struct rk_sim_call *call, const struct rk_site *site, int tray, int index, int other);
} plants[] = {
	{ "tray-swapped", 0, swap_tray },	  { "trays-exchanged", OF_TWO, exchange_trays },
	{ "gpu-missing", OF_GPU, lose_gpu },	  { "cables-crossed", OF_TWO | OF_PORT, cross_cables },
};

const char *rk_sim_plant_word(size_t i)
{
	return i < RK_ARRAY_SIZE(plants) ? plants[i].word : NULL;
}

static bool parse_target(const struct rk_site *site, const char *target, unsigned form, int *tray, int *index, int *other)
{
	uint64_t number = 0;
	char *text RK_CLEANUP_FREE = rk_xstrdup(target), *slash = strchr(text, '/'), *plus = strchr(text, '+');

	if (!!slash != !!(form & (OF_GPU | OF_PORT)) || !!plus != !!(form & OF_TWO))
		return false;
	if (slash && !rk_parse_u64(slash + 1, &number))
		return false;
	if (slash)
		*slash = '\0';
	if (plus)
		*plus = '\0';
	*tray = rk_find_tray(site, text);
	*other = plus ? rk_find_tray(site, plus + 1) : *tray;
	if (*tray < 0 || *other < 0 || (slash && number >= (uint64_t)(form & OF_GPU ? site->trays[*tray].n_gpus : site->trays[*tray].n_hcas)))
		return false;
	*index = (int)number;
	return true;
}

int rk_sim_plant(struct rk_sim *sim, const char *word, const char *target, int *ret, struct rk_err *err)
{
	int tray, index, other;
	struct rk_sim_call call;

	*ret = 0;
	for (size_t i = 0; i < RK_ARRAY_SIZE(plants); i++) {
		if (strcmp(plants[i].word, word) != 0)
			continue;
		*ret = 1;
		if (!parse_target(sim->site, target, plants[i].form, &tray, &index, &other))
			return rk_err_set(err, RK_INVALID, "no such thing to fault: \"%s@%s\"", word, target);
		int rc = rk_sim_enter(sim, &call, word, target, true, err);
		if (rc)
			return rc;
		plants[i].make(&call, sim->site, tray, index, other);
		return rk_sim_leave(&call, 0, err);
	}
	return 0;
}

/* ---- the fabric as it is wired ------------------------------------------------------------------------------------------------------- */

static int knob(const struct rk_sim *sim, const char *what, const char *tray, int rail)
{
	char key[160];

	snprintf(key, sizeof(key), "%s:%s/%d", what, tray, rail);
	const char *value = rk_sim_get(sim, key);
	return value ? atoi(value) : 0;
}

/* Where the cable of a port really ends, how fast it is, and which port it serves. */
static void wire(const struct rk_sim *sim, const struct rk_site *site, int hca, struct rk_hca *ret, struct rk_cable_end *ret_end)
{
	const char *tray = site->trays[ret->tray].name;
	int moved = knob(sim, "moved", tray, ret->rail);
	uint64_t guid = identity(sim, tray, "cable", ret->rail, rk_sim_port_guid(sim, site, hca));

	ret->port_guid = rk_sim_link_up(sim, site, guid) ? guid : 0;
	*ret_end = (struct rk_cable_end){ .rail = moved ? moved - 1 : ret->rail, .gbps = knob(sim, "rate", tray, ret->rail) };
}

void rk_sim_wired(const struct rk_sim *sim, const struct rk_site *site, int fabric, struct rk_str *out)
{
	struct rk_site copy = *site;
	struct rk_hca *hcas RK_CLEANUP_FREE = rk_xcalloc(site->n_hcas + 1, sizeof(*hcas));
	struct rk_cable_end *ends RK_CLEANUP_FREE = rk_xcalloc(site->n_hcas + 1, sizeof(*ends));

	for (size_t i = 0; i < site->n_hcas; i++) {
		hcas[i] = site->hcas[i];
		wire(sim, site, (int)i, &hcas[i], &ends[i]);
	}
	copy.hcas = hcas;
	rk_topology_plan(&copy, fabric, ends, out);
}
