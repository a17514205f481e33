#include <string.h>

#include "inventory/base/json.h"
#include "inventory/base/str.h"
#include "provision/place_impl.h"

/* Rules about one tray, whatever is on it or said of it: its ports, its GPUs and what it runs. */

int rk_tray_fabric(const struct rk_site *site, int tray)
{
	const struct rk_tray *t = &site->trays[tray];

	return site->n_fabrics && t->n_hcas ? site->hcas[t->first_hca].fabric : RK_NONE;
}

int rk_rack_fabric(const struct rk_site *site, int rack)
{
	const struct rk_rack *r = &site->racks[rack];
	int best = RK_NONE, most = 0;

	for (int f = 0; f < (int)site->n_fabrics; f++) {
		int n = 0;
		for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++)
			n += rk_tray_fabric(site, t) == f;
		if (n > most) {
			best = f;
			most = n;
		}
	}
	return best;
}

bool rk_tray_complete(const struct rk_site *site, int tray, int fabric, int hcas, int gpus)
{
	const struct rk_tray *t = &site->trays[tray];
	unsigned rails = 0;

	for (int h = t->first_hca; h < t->first_hca + t->n_hcas; h++) {
		if (site->n_fabrics && site->hcas[h].fabric != fabric)
			return false;
		rails |= 1u << site->hcas[h].rail;
	}
	return __builtin_popcount(rails) >= hcas && t->n_gpus >= gpus;
}

/* What the site, or this rack instead, expects its trays to run. */
static void read_baseline(struct rk_versions *v, const struct rk_rack *rack)
{
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	const char *text = rack->versions ? rack->versions : v->site->versions;

	if (rk_streq(text, v->text))
		return;
	v->text = text;
	v->last_seen = NULL;
	v->n = 0;
	if (!text || rk_json_parse("versions", text, strlen(text), &json, NULL))
		return;
	v->baseline = rk_arena_array(v->arena, rk_json_root(json)->n + 1, sizeof(*v->baseline));
	RK_JEACH(it, rk_json_root(json))
		if (rk_jstr(it))
			v->baseline[v->n++] = (struct rk_baseline){ rk_arena_strdup(v->arena, it->key), rk_arena_strdup(v->arena, rk_jstr(it)) };
}

const char *rk_tray_outdated(struct rk_versions *v, int tray)
{
	const struct rk_tray *t = &v->site->trays[tray];
	RK_CLEANUP_JSON struct rk_json *seen = NULL;

	read_baseline(v, &v->site->racks[t->rack]);
	if (!v->n || !t->versions)
		return NULL;
	if (rk_streq(v->last_seen, t->versions))
		return v->last_said;
	v->last_seen = t->versions;
	v->last_said = NULL;
	if (rk_json_parse("versions", t->versions, strlen(t->versions), &seen, NULL))
		return NULL;
	for (size_t i = 0; i < v->n && !v->last_said; i++) {
		const struct rk_baseline *b = &v->baseline[i];
		const char *have = rk_jstr(rk_jget(rk_json_root(seen), b->key));
		if (have && strcmp(have, b->value) != 0)
			v->last_said = rk_arena_printf(v->arena, "%s %s (%s expected)", b->key, have, b->value);
	}
	return v->last_said;
}
