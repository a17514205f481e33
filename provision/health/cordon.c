/* What becomes of trays that a failed check asks to cordon (`effect: cordon`): the site says. */
#include <string.h>

#include "inventory/base/nodeset.h"
#include "inventory/base/str.h"
#include "provision/health/run.h"

bool rk_health_cordons(const struct rk_site *site)
{
	struct rk_json *json RK_CLEANUP_JSON = NULL;

	if (!site->health || rk_json_parse("health", site->health, strlen(site->health), &json, NULL))
		return false;
	return rk_streq(rk_jstr(rk_jget(rk_json_root(json), "cordon")), "auto");
}

/* Of many trays with the same fault the measurement is the likelier culprit: such a step is a person's. */
static bool too_many(size_t trays, size_t targets)
{
	return trays > 1 && trays * 2 > targets;
}

/* Trays that bear a mark already are left as they are. */
static int cordon_trays(struct rk_world *world, const struct rk_nodeset *trays, const char *reason, const char **names, size_t *ret_n, struct rk_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < trays->n; i++) {
		int at = rk_find_tray(world->site, trays->names[i]);
		if (at < 0 || world->site->trays[at].cordon)
			continue;
		rc = rk_store_set_tray_cordon(world->store, trays->names[i], reason, err);
		names[(*ret_n)++] = trays->names[i];
	}
	return rc;
}

int rk_health_cordon(struct rk_world *world, const char *trays, const char *checks, size_t targets, bool asked, struct rk_arena *arena,
		     const char **ret_done, struct rk_err *err)
{
	const char *reason = rk_arena_printf(arena, "health: %s", checks);
	struct rk_nodeset set;
	size_t n = 0;

	*ret_done = NULL;
	int rc = rk_nodeset_parse(trays, NULL, NULL, arena, &set, err);
	if (rc || (!asked && too_many(set.n, targets)))
		return rc;
	const char **names = rk_arena_array(arena, set.n + 1, sizeof(*names));
	rc = rk_store_begin(world->store, -1, err);
	if (rc)
		return rc;
	rc = cordon_trays(world, &set, reason, names, &n, err);
	const char *folded = rc || !n ? NULL : rk_nodeset_fold(arena, names, n);
	if (folded)
		rc = rk_store_audit(world->store, rk_arena_printf(arena, "tray cordon %s --reason '%s'", folded, reason), rk_class_name(0), 0, err);
	if (rc || !n) {
		rk_store_rollback(world->store);
		return rc;
	}
	rc = rk_store_commit(world->store, err);
	if (!rc)
		*ret_done = folded;
	return rc;
}
