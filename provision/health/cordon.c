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
const char *rk_health_to_cordon(const struct rk_site *site, const char *trays, size_t targets, bool asked, struct rk_arena *arena)
{
	struct rk_nodeset set;
	size_t n = 0;

	if (rk_nodeset_parse(trays, NULL, NULL, arena, &set, NULL) || (!asked && too_many(set.n, targets)))
		return NULL;
	const char **names = rk_arena_array(arena, set.n + 1, sizeof(*names));
	for (size_t i = 0; i < set.n; i++) {
		int at = rk_find_tray(site, set.names[i]);
		if (at >= 0 && !site->trays[at].cordon)
			names[n++] = set.names[i];
	}
	return n ? rk_nodeset_fold(arena, names, n) : NULL;
}

static int cordon_trays(struct rk_store *store, const char *trays, const char *reason, struct rk_arena *arena, struct rk_err *err)
{
	struct rk_nodeset set;
	int rc = rk_nodeset_parse(trays, NULL, NULL, arena, &set, err);

	for (size_t i = 0; !rc && i < set.n; i++)
		rc = rk_store_set_tray_cordon(store, set.names[i], reason, err);
	return rc ? rc : rk_store_audit(store, rk_arena_printf(arena, "tray cordon %s --reason '%s'", trays, reason), rk_class_name(0), 0, err);
}

int rk_health_cordon(struct rk_world *world, const char *trays, const char *checks, size_t targets, bool asked, struct rk_arena *arena,
		     const char **ret_done, struct rk_err *err)
{
	const char *open = rk_health_to_cordon(world->site, trays, targets, asked, arena);

	*ret_done = NULL;
	int rc = open ? rk_store_begin(world->store, -1, err) : 0;
	if (rc || !open)
		return rc;
	rc = cordon_trays(world->store, open, rk_arena_printf(arena, "health: %s", checks), arena, err);
	if (rc) {
		rk_store_rollback(world->store);
		return rc;
	}
	rc = rk_store_commit(world->store, err);
	if (!rc)
		*ret_done = open;
	return rc;
}
