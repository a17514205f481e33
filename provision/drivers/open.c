/* Chooses drivers by the names in the site file. Where racks (or fabrics) have different ones, a handle of its own passes each call on. */
#include <pthread.h>
#include <string.h>

#include "provision/drivers/session.h"

enum { KINDS = 2 };

static const char *said(const char *driver, const char *standard)
{
	return driver ? driver : standard;
}

/* Index of the driver, or -1. */
static int kind_of(const char *const *names, const char *driver)
{
	for (int i = 0; i < KINDS; i++)
		if (rk_streq(names[i], driver))
			return i;
	return -1;
}

/* ---- NVLink ---------------------------------------------------------------------------------------------------------------------- */

static const char *const nvl_names[KINDS] = { "nvos", "nmxm" };

struct nvl_mux {
	struct rk_nvl nvl;
	pthread_mutex_t lock;             /* of the site of the kinds */
	struct rk_nvl *kinds[KINDS];
};

static struct rk_nvl *nvl_for(struct rk_nvl *nvl, int rack)
{
	struct nvl_mux *mux = (struct nvl_mux *)nvl;
	struct rk_nvl *chosen = mux->kinds[kind_of(nvl_names, said(nvl->site->racks[rack].nvlink.driver, nvl_names[0]))];

	pthread_mutex_lock(&mux->lock);
	if (chosen->site != nvl->site)
		chosen->site = nvl->site;
	pthread_mutex_unlock(&mux->lock);
	return chosen;
}

static int nvl_list(struct rk_nvl *nvl, int rack, struct rk_arena *arena, struct rk_nvl_live **ret, size_t *ret_n, struct rk_err *err)
{
	struct rk_nvl *to = nvl_for(nvl, rack);

	return to->ops->list(to, rack, arena, ret, ret_n, err);
}

static int nvl_create(struct rk_nvl *nvl, int rack, int id, const char *name, const char *mode, int groups, int *ret_id, struct rk_err *err)
{
	struct rk_nvl *to = nvl_for(nvl, rack);

	return to->ops->create(to, rack, id, name, mode, groups, ret_id, err);
}

static int nvl_remove(struct rk_nvl *nvl, int rack, int id, struct rk_err *err)
{
	struct rk_nvl *to = nvl_for(nvl, rack);

	return to->ops->remove(to, rack, id, err);
}

static int nvl_add(struct rk_nvl *nvl, int rack, int id, uint64_t gpu, struct rk_err *err)
{
	struct rk_nvl *to = nvl_for(nvl, rack);

	return to->ops->add(to, rack, id, gpu, err);
}

static int nvl_drop(struct rk_nvl *nvl, int rack, int id, uint64_t gpu, struct rk_err *err)
{
	struct rk_nvl *to = nvl_for(nvl, rack);

	return to->ops->drop(to, rack, id, gpu, err);
}

static int nvl_health(struct rk_nvl *nvl, int rack, struct rk_arena *arena, const char **ret_where, struct rk_err *err)
{
	struct rk_nvl *to = nvl_for(nvl, rack);

	return to->ops->health(to, rack, arena, ret_where, err);
}

static int nvl_switches(struct rk_nvl *nvl, int rack, struct rk_arena *arena, struct rk_nvl_switch **ret, size_t *ret_n, struct rk_err *err)
{
	struct rk_nvl *to = nvl_for(nvl, rack);

	return to->ops->switches(to, rack, arena, ret, ret_n, err);
}

static void nvl_free(struct rk_nvl *nvl)
{
	struct nvl_mux *mux = (struct nvl_mux *)nvl;

	for (int i = 0; i < KINDS; i++)
		if (mux->kinds[i])
			mux->kinds[i]->ops->free(mux->kinds[i]);
	pthread_mutex_destroy(&mux->lock);
	free(mux);
}

static const struct rk_nvl_ops nvl_mux_ops = { nvl_list, nvl_create, nvl_remove, nvl_add, nvl_drop, nvl_health, nvl_switches, nvl_free };

/* No cluster has a '_' in its name. */
#define TRAY_PREFIX "tray_"

const char *rk_nvl_tray_name(const struct rk_site *site, int tray, struct rk_arena *arena)
{
	return rk_arena_printf(arena, TRAY_PREFIX "%s", site->trays[tray].name);
}

int rk_nvl_tray_of(const struct rk_site *site, int rack, const struct rk_nvl_live *live)
{
	int tray = rk_starts_with(live->name, TRAY_PREFIX) ? rk_find_tray(site, live->name + strlen(TRAY_PREFIX)) : RK_NONE;

	return tray >= 0 && site->trays[tray].rack == rack ? tray : RK_NONE;
}

bool rk_nvl_is(const struct rk_nvl_live *live, int id, const char *name)
{
	bool named = rk_streq(live->name, name), nameless = !live->name || !*live->name;

	if (live->id != id)
		return live->id_given && named;
	return named || id == RK_NVL_DEFAULT || (nameless && !live->n_gpus);
}

bool rk_nvl_gives_ids(const struct rk_site *site, int rack)
{
	return kind_of(nvl_names, said(site->racks[rack].nvlink.driver, nvl_names[0])) == 1;
}

static int check_racks(const struct rk_site *site, bool *used, struct rk_err *err)
{
	for (size_t i = 0; i < site->n_racks; i++) {
		const char *driver = said(site->racks[i].nvlink.driver, nvl_names[0]);
		int kind = kind_of(nvl_names, driver);
		if (kind < 0) {
			rk_err_set(err, RK_INVALID, "rack \"%s\": there is no NVLink driver \"%s\"", site->racks[i].name, driver);
			rk_err_hint(err, "\"nvos\" (the NVOS command line over SSH) or \"nmxm\" (NMX-M, REST)");
			return RK_INVALID;
		}
		used[kind] = true;
	}
	return 0;
}

int rk_nvl_open(const struct rk_driver_env *env, struct rk_nvl **ret, struct rk_err *err)
{
	static int (*const openers[KINDS])(const struct rk_driver_env *env, struct rk_nvl **ret, struct rk_err *err) = { rk_nvl_nvos, rk_nvl_nmxm };
	bool used[KINDS] = { false, false };
	int rc = check_racks(env->site, used, err);

	if (rc)
		return rc;
	if (!used[0] || !used[1])
		return openers[used[1] ? 1 : 0](env, ret, err);
	struct nvl_mux *mux = rk_xcalloc(1, sizeof(*mux));
	mux->nvl = (struct rk_nvl){ &nvl_mux_ops, env->site };
	pthread_mutex_init(&mux->lock, NULL);
	for (int i = 0; i < KINDS && rc == 0; i++)
		rc = openers[i](env, &mux->kinds[i], err);
	if (rc)
		nvl_free(&mux->nvl);
	else
		*ret = &mux->nvl;
	return rc;
}

/* ---- InfiniBand ------------------------------------------------------------------------------------------------------------------ */

static const char *const ib_names[KINDS] = { "opensm", "ufm" };

struct ib_mux {
	struct rk_ib ib;
	pthread_mutex_t lock;
	struct rk_ib *kinds[KINDS];
};

static struct rk_ib *ib_for(struct rk_ib *ib, int fabric)
{
	struct ib_mux *mux = (struct ib_mux *)ib;
	struct rk_ib *chosen = mux->kinds[kind_of(ib_names, said(ib->site->fabrics[fabric].manager.driver, ib_names[0]))];

	pthread_mutex_lock(&mux->lock);
	if (chosen->site != ib->site)
		chosen->site = ib->site;
	pthread_mutex_unlock(&mux->lock);
	return chosen;
}

static int ib_list(struct rk_ib *ib, int fabric, struct rk_arena *arena, struct rk_ib_live **ret, size_t *ret_n, struct rk_err *err)
{
	struct rk_ib *to = ib_for(ib, fabric);

	return to->ops->list(to, fabric, arena, ret, ret_n, err);
}

static int ib_set(struct rk_ib *ib, int fabric, const struct rk_ib_wanted *wanted, struct rk_err *err)
{
	struct rk_ib *to = ib_for(ib, fabric);

	return to->ops->set(to, fabric, wanted, err);
}

static int ib_tables(struct rk_ib *ib, int fabric, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_port *ret, struct rk_err *err)
{
	struct rk_ib *to = ib_for(ib, fabric);

	return to->ops->tables(to, fabric, guids, n, arena, ret, err);
}

static int ib_discover(struct rk_ib *ib, int fabric, struct rk_arena *arena, const char **ret, struct rk_err *err)
{
	struct rk_ib *to = ib_for(ib, fabric);

	return to->ops->discover(to, fabric, arena, ret, err);
}

static int ib_paths(struct rk_ib *ib, int fabric, struct rk_ib_path *paths, size_t n, struct rk_arena *arena, struct rk_err *err)
{
	struct rk_ib *to = ib_for(ib, fabric);

	return to->ops->paths(to, fabric, paths, n, arena, err);
}

static int ib_counters(struct rk_ib *ib, int fabric, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_reading *ret, struct rk_err *err)
{
	struct rk_ib *to = ib_for(ib, fabric);

	return to->ops->counters(to, fabric, guids, n, arena, ret, err);
}

static int ib_sharp(struct rk_ib *ib, int fabric, uint16_t pkey, struct rk_arena *arena, const char **ret, struct rk_err *err)
{
	struct rk_ib *to = ib_for(ib, fabric);

	return to->ops->sharp ? to->ops->sharp(to, fabric, pkey, arena, ret, err) : rk_err_set(err, RK_NOT_FOUND, "the manager does not tell");
}

static void ib_free(struct rk_ib *ib)
{
	struct ib_mux *mux = (struct ib_mux *)ib;

	for (int i = 0; i < KINDS; i++)
		if (mux->kinds[i])
			mux->kinds[i]->ops->free(mux->kinds[i]);
	pthread_mutex_destroy(&mux->lock);
	free(mux);
}

static const struct rk_ib_ops ib_mux_ops = { ib_list, ib_set, ib_tables, ib_discover, ib_paths, ib_counters, ib_sharp, ib_free };

static int check_fabrics(const struct rk_site *site, bool *used, struct rk_err *err)
{
	for (size_t i = 0; i < site->n_fabrics; i++) {
		const char *driver = said(site->fabrics[i].manager.driver, ib_names[0]);
		int kind = kind_of(ib_names, driver);
		if (kind < 0) {
			rk_err_set(err, RK_INVALID, "fabric \"%s\": there is no InfiniBand driver \"%s\"", site->fabrics[i].name, driver);
			rk_err_hint(err, "\"opensm\" (its partitions file over SSH) or \"ufm\" (UFM, REST)");
			return RK_INVALID;
		}
		used[kind] = true;
	}
	return 0;
}

int rk_ib_open(const struct rk_driver_env *env, struct rk_ib **ret, struct rk_err *err)
{
	static int (*const openers[KINDS])(const struct rk_driver_env *env, struct rk_ib **ret, struct rk_err *err) = { rk_ib_opensm, rk_ib_ufm };
	bool used[KINDS] = { false, false };
	int rc = check_fabrics(env->site, used, err);

	if (rc)
		return rc;
	if (!used[0] || !used[1])
		return openers[used[1] ? 1 : 0](env, ret, err);
	struct ib_mux *mux = rk_xcalloc(1, sizeof(*mux));
	mux->ib = (struct rk_ib){ &ib_mux_ops, env->site };
	pthread_mutex_init(&mux->lock, NULL);
	for (int i = 0; i < KINDS && rc == 0; i++)
		rc = openers[i](env, &mux->kinds[i], err);
	if (rc)
		ib_free(&mux->ib);
	else
		*ret = &mux->ib;
	return rc;
}
