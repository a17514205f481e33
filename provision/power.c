#include "provision/power.h"

#include <math.h>
#include <string.h>

#include "inventory/base/json.h"
#include "provision/hooks.h"

/* ---- budgets ---------------------------------------------------------------------------------------------------------------------------- */

double rk_power_tray_kw(const struct rk_site *site, int tray)
{
	const struct rk_tray *t = &site->trays[tray];
	const struct rk_size *size = t->vm >= 0 ? rk_size_find(site, site->clusters[site->vms[t->vm].cluster].size) : NULL;

	return size && size->tray_kw > 0 ? size->tray_kw : site->profiles[site->racks[t->rack].profile].tray_kw;
}

double rk_power_committed(const struct rk_site *site, int rack)
{
	const struct rk_rack *r = &site->racks[rack];
	double kw = 0;

	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++)
		if (site->trays[t].vm >= 0)
			kw += rk_power_tray_kw(site, t);
	return kw;
}

void rk_power_shelves(const struct rk_site *site, int rack, int *ret_n, double *ret_kw)
{
	const struct rk_profile *p = &site->profiles[site->racks[rack].profile];

	*ret_n = p->power_shelves;
	*ret_kw = p->shelf_kw;
}

/* Flow of a full rack at a temperature between two rows of the table (which may be in any order); NAN outside of it. */
static double interpolate(const struct rk_jnode *table, double supply)
{
	double low_c = -INFINITY, low = NAN, high_c = INFINITY, high = NAN;

	RK_JMEMBERS(it, table) {
		double c, flow;
		if (!rk_parse_double(it->key, &c) || !rk_jdouble(it, &flow))
			continue;
		if (c <= supply && c > low_c) {
			low_c = c;
			low = flow;
		}
		if (c >= supply && c < high_c) {
			high_c = c;
			high = flow;
		}
	}
	/* Colder than the table begins needs no more than its first row. */
	if (isnan(low))
		return high;
	if (isnan(high))
		return NAN;
	return high_c > low_c ? low + (high - low) * (supply - low_c) / (high_c - low_c) : low;
}

void rk_power_cooling(const struct rk_site *site, int rack, double supply_c, double flow_lpm, struct rk_cooling *ret)
{
	const struct rk_profile *p = &site->profiles[site->racks[rack].profile];
	RK_CLEANUP_JSON struct rk_json *json = NULL;

	*ret = (struct rk_cooling){ NAN, NAN, NAN, NAN };
	if (!p->json || rk_json_parse("profile", p->json, strlen(p->json), &json, NULL))
		return;
	const struct rk_jnode *range = rk_jget(rk_json_root(json), "coolantC"), *table = rk_jget(rk_json_root(json), "flowLpmBySupplyC");
	if (range && range->n == 2) {
		rk_jdouble(range->child, &ret->supply_min_c);
		rk_jdouble(range->child->next, &ret->supply_max_c);
	}
	if (!table || isnan(supply_c) || isnan(flow_lpm))
		return;
	ret->flow_needed_lpm = interpolate(table, supply_c);
	if (isnan(ret->flow_needed_lpm) || supply_c < ret->supply_min_c || supply_c > ret->supply_max_c)
		ret->kw = 0;
	else
		ret->kw = p->rack_kw * fmin(1, flow_lpm / ret->flow_needed_lpm);
}

double rk_power_budget(const struct rk_site *site, int rack, const char **ret_what)
{
	const struct rk_rack *r = &site->racks[rack];
	struct rk_cooling c;

	*ret_what = "power";
	if (r->supply_c <= 0)
		return r->power_kw;
	rk_power_cooling(site, rack, r->supply_c, r->flow_lpm, &c);
	if (isnan(c.kw) || c.kw >= r->power_kw)
		return r->power_kw;
	*ret_what = "cooling";
	return c.kw;
}

/* ---- what is true now ---------------------------------------------------------------------------------------------------------------- */

void rk_power_unread(const struct rk_site *site, struct rk_arena *arena, struct rk_power_now *ret)
{
	*ret = (struct rk_power_now){
		.trays = rk_arena_array(arena, site->n_trays + 1, sizeof(*ret->trays)),
		.switches = rk_arena_array(arena, site->n_racks + 1, sizeof(*ret->switches)),
		.racks = rk_arena_array(arena, site->n_racks + 1, sizeof(*ret->racks)),
	};
	for (size_t t = 0; t < site->n_trays; t++)
		ret->trays[t] = rk_bmc_unread;
	for (size_t r = 0; r < site->n_racks; r++) {
		ret->racks[r] = rk_bmc_unread;
		for (int s = 0; s < RK_SWITCHES_MAX; s++)
			ret->switches[r][s] = rk_bmc_unread;
	}
}

static int switches_of(const struct rk_site *site, int rack)
{
	int n = site->profiles[site->racks[rack].profile].switch_trays;

	return n < RK_SWITCHES_MAX ? n : RK_SWITCHES_MAX;
}

static struct rk_bmc_target *targets_of(const struct rk_site *site, const bool *racks, struct rk_arena *arena, size_t *ret_n)
{
	struct rk_bmc_target *targets = rk_arena_array(arena, site->n_trays + site->n_racks * RK_SWITCHES_MAX + 1, sizeof(*targets));

	*ret_n = 0;
	for (size_t r = 0; r < site->n_racks; r++) {
		const struct rk_rack *rack = &site->racks[r];
		if (racks && !racks[r])
			continue;
		for (int t = rack->first_tray; t < rack->first_tray + rack->n_trays; t++)
			targets[(*ret_n)++] = (struct rk_bmc_target){ t, (int)r, 0 };
		for (int s = 1; s <= switches_of(site, (int)r); s++)
			targets[(*ret_n)++] = (struct rk_bmc_target){ RK_NONE, (int)r, s };
	}
	return targets;
}

int rk_power_read(struct rk_world *world, const bool *racks, unsigned what, struct rk_arena *arena, struct rk_power_now *ret, struct rk_err *err)
{
	RK_CLEANUP_BMC struct rk_bmc *bmc = NULL;
	size_t n;
	struct rk_bmc_target *targets = targets_of(world->site, racks, arena, &n);
	struct rk_bmc_reading *readings = rk_arena_array(arena, n + 1, sizeof(*readings));
	int rc = rk_bmc_open(world, &bmc, err);

	rk_power_unread(world->site, arena, ret);
	if (rc)
		return rc;
	ret->errors = rk_xcalloc(n + 1, sizeof(*ret->errors));
	ret->n_errors = n;
	rk_bmc_read_all(world, bmc, targets, n, what, arena, readings, ret->errors);
	for (size_t i = 0; i < n; i++) {
		const struct rk_bmc_target *t = &targets[i];
		ret->unread += ret->errors[i].rc != 0;
		*(t->tray != RK_NONE ? &ret->trays[t->tray] : &ret->switches[t->rack][t->number - 1]) = readings[i];
		if (!isnan(readings[i].flow_lpm))
			ret->racks[t->rack] = readings[i];
	}
	return world->cancel && *world->cancel ? rk_err_set(err, RK_CANCELLED, "cancelled") : 0;
}

void rk_power_now_clear(struct rk_power_now *now)
{
	for (size_t i = 0; i < now->n_errors; i++)
		rk_err_clear(&now->errors[i]);
	free(now->errors);
	now->errors = NULL;
	now->n_errors = 0;
}

/* ---- keeping it ------------------------------------------------------------------------------------------------------------------------ */

static int keep_tray(struct rk_world *world, int tray, const struct rk_bmc_reading *reading, struct rk_err *err)
{
	const struct rk_tray *t = &world->site->trays[tray];

	/* A detector that could not be read dries nothing. */
	if (rk_streq(t->leak, reading->leak) || (!reading->leak && !reading->leak_read))
		return 0;
	return rk_store_set_tray_leak(world->store, t->name, reading->leak, err);
}

static int keep_rack(struct rk_world *world, int rack, const struct rk_power_now *now, struct rk_err *err)
{
	const struct rk_rack *r = &world->site->racks[rack];
	const struct rk_bmc_reading *c = &now->racks[rack];
	int rc = 0;

	for (int t = r->first_tray; t < r->first_tray + r->n_trays && !rc; t++)
		rc = keep_tray(world, t, &now->trays[t], err);
	if (!rc && !isnan(c->flow_lpm) && !isnan(c->supply_c) && (c->supply_c != r->supply_c || c->flow_lpm != r->flow_lpm))
		rc = rk_store_set_rack_coolant(world->store, r->name, c->supply_c, c->flow_lpm, err);
	return rc;
}

static void tell_hook(struct rk_world *world, int tray, const char *leak)
{
	const struct rk_tray *t = &world->site->trays[tray];
	const struct rk_hook_fact facts[] = { { "TRAY", t->name }, { "RACK", world->site->racks[t->rack].name }, { "LEAK", leak } };

	rk_hook_run(world, "leak", facts, RK_ARRAY_SIZE(facts), NULL);
}

int rk_power_keep(struct rk_world *world, const bool *racks, const struct rk_power_now *now, int *ret_leaks, struct rk_err *err)
{
	const struct rk_site *site = world->site;
	int rc = rk_store_begin(world->store, site->revision, err);

	*ret_leaks = 0;
	if (rc)
		return rc;
	for (size_t r = 0; r < site->n_racks && !rc; r++)
		if (!racks || racks[r])
			rc = keep_rack(world, (int)r, now, err);
	if (rc) {
		rk_store_rollback(world->store);
		return rc;
	}
	rc = rk_store_commit(world->store, err);
	for (size_t t = 0; t < site->n_trays && !rc; t++) {
		*ret_leaks += now->trays[t].leak != NULL;
		if (now->trays[t].leak && !site->trays[t].leak)
			tell_hook(world, (int)t, now->trays[t].leak);
	}
	size_t trays = site->n_trays, racks_before = site->n_racks;
	if (!rc)
		rc = rk_world_refresh(world, err);
	if (!rc && (world->site->n_trays != trays || world->site->n_racks != racks_before))
		rc = rk_err_set(err, RK_CONFLICT, "the inventory changed meanwhile");
	return rc;
}
