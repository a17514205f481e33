#include <string.h>

#include "inventory/base/json.h"
#include "inventory/base/str.h"
#include "provision/place_impl.h"

/* Clusters that must not share a rack with the one to be placed: those it names, and those that name it (antiAffinity counts both ways). */

static bool names(const struct rk_jnode *list, const char *cluster)
{
	RK_JEACH(it, list)
		if (rk_streq(rk_jstr(it), cluster))
			return true;
	return false;
}

bool rk_spec_keeps_apart(const char *spec_json, const char *cluster)
{
	RK_CLEANUP_JSON struct rk_json *spec = NULL;

	/* Most specs have no such key: they need not be parsed. */
	if (!spec_json || !strstr(spec_json, "\"antiAffinity\"") || rk_json_parse("spec", spec_json, strlen(spec_json), &spec, NULL))
		return false;
	return names(rk_jget(rk_jget(rk_json_root(spec), "placement"), "antiAffinity"), cluster);
}

static bool kept_apart(const struct rk_placer *p, const struct rk_cluster *c)
{
	if (rk_streq(c->name, p->spec->name))
		return false;
	for (size_t i = 0; i < p->spec->placement.n_apart; i++)
		if (rk_streq(p->spec->placement.apart[i], c->name))
			return true;
	return rk_spec_keeps_apart(c->spec, p->spec->name);
}

void rk_placer_apart(struct rk_placer *p)
{
	const struct rk_site *site = p->site;
	bool *apart = rk_arena_array(p->arena, site->n_clusters + 1, sizeof(*apart));

	p->apart = rk_arena_array(p->arena, site->n_racks + 1, sizeof(*p->apart));
	for (size_t r = 0; r < site->n_racks; r++)
		p->apart[r] = RK_NONE;
	for (size_t c = 0; c < site->n_clusters; c++)
		apart[c] = kept_apart(p, &site->clusters[c]);
	for (size_t v = 0; v < site->n_vms; v++)
		if (apart[site->vms[v].cluster])
			p->apart[site->trays[site->vms[v].tray].rack] = site->vms[v].cluster;
}
