#include "provision/steps_nvl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Where GPUs are that no cluster has. A GPU in no partition can run nothing, not even alone, so each one goes back to Default or, where the site
 * says so, into a partition of its tray; a tray that is given up always gets one of its own, because its guest may still live. */

enum { TRAY_GROUPS = 18 };                /* multicast groups: what NVIDIA's own controller gives to the partition of a tray */

static const struct rk_nvl_live *tray_partition(const struct rk_site *site, const struct rk_nvl_view *view, int tray)
{
	for (size_t i = 0; i < view->n; i++)
		if (rk_nvl_tray_of(site, view->rack, &view->parts[i]) == tray)
			return &view->parts[i];
	return NULL;
}

static int tray_of(const struct rk_site *site, uint64_t gpu)
{
	int at = rk_find_gpu_guid(site, gpu);

	return at < 0 ? RK_NONE : site->gpus[at].tray;
}

bool rk_nvl_in_tray_partition(const struct rk_site *site, const struct rk_nvl_view *view, uint64_t gpu)
{
	int tray = tray_of(site, gpu);
	const struct rk_nvl_live *part = tray == RK_NONE ? NULL : tray_partition(site, view, tray);

	return part && rk_nvl_holds(part, gpu);
}

/* ---- partitions of trays -------------------------------------------------------------------------------------------------------------- */

/* 1 when every tray that step->data names has its partition. */
static int trays_ready(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	struct rk_nvl_view view;
	const bool *wanted = step->data;
	int rc = rk_nvl_read(world, step, &view, err);

	*ret = !rc;
	for (size_t t = 0; !rc && t < world->site->n_trays; t++)
		*ret &= !wanted[t] || tray_partition(world->site, &view, (int)t);
	return rc;
}

static int make_missing(struct rk_world *world, struct rk_step *step, const bool *wanted, struct rk_err *err)
{
	struct rk_nvl_view view;
	int id, rc = rk_nvl_read(world, step, &view, err);

	for (size_t t = 0; !rc && t < world->site->n_trays; t++) {
		const struct rk_tray *tray = &world->site->trays[t];
		if (wanted[t] && !tray_partition(world->site, &view, (int)t))
			rc = world->nvl->ops->create(world->nvl, view.rack, RK_NVL_TRAYS + tray->number, rk_nvl_tray_name(world->site, (int)t, step->arena),
						     "full_bandwidth", TRAY_GROUPS, &id, err);
	}
	return rc;
}

static int make_tray_partitions(struct rk_world *world, struct rk_step *step, bool *wanted, struct rk_err *err)
{
	void *kept = step->data;
	int rc = make_missing(world, step, wanted, err);

	step->data = wanted;
	if (!rc)
		rc = rk_wait_until(world, step, "the NVLink partition of the tray", trays_ready, err);
	step->data = kept;
	return rc;
}

/* ---- going there ------------------------------------------------------------------------------------------------------------------------ */

/* Partition that the GPU was in before, when it is there still; 0: none. An id may have become somebody else's since: only Default is known by it. */
static int former_home(const struct rk_site *site, const struct rk_nvl_view *view, const struct rk_jnode *before, uint64_t gpu)
{
	const struct rk_nvl_live *part;
	char key[24];
	uint64_t id = 0;
	int tray = tray_of(site, gpu);

	snprintf(key, sizeof(key), "0x%016" PRIx64, gpu);
	rk_ju64(rk_jget(before, key), &id);
	if (id == RK_NVL_DEFAULT)
		part = rk_nvl_partition_with(view, RK_NVL_DEFAULT);
	else
		part = tray == RK_NONE ? NULL : tray_partition(site, view, tray);
	return part && (uint64_t)part->id == id ? part->id : 0;
}

struct trip {
	const struct rk_jnode *before;
	const bool *alone;                /* trays whose GPUs are to be by themselves, whatever the site says; NULL: none */
	bool all;                         /* a GPU that cannot join is an error */
};

/* Does it go into the partition of its tray? Else to where it was, or Default. */
static bool to_its_tray(const struct rk_world *world, const struct rk_nvl_view *view, const struct trip *trip, uint64_t gpu)
{
	int tray = tray_of(world->site, gpu);

	if (tray == RK_NONE)
		return false;
	return (trip->alone && trip->alone[tray]) || (world->site->racks[view->rack].nvl_per_tray && !former_home(world->site, view, trip->before, gpu));
}

static int add_home(struct rk_world *world, const struct rk_nvl_view *view, const struct trip *trip, uint64_t gpu, struct rk_err *err)
{
	int id = former_home(world->site, view, trip->before, gpu);

	if (to_its_tray(world, view, trip, gpu)) {
		const struct rk_nvl_live *part = tray_partition(world->site, view, tray_of(world->site, gpu));
		if (!part)
			return rk_err_set(err, RK_FAILED, "the NVLink partition of tray %s is gone again", world->site->trays[tray_of(world->site, gpu)].name);
		id = part->id;
	}
	return world->nvl->ops->add(world->nvl, view->rack, id ? id : RK_NVL_DEFAULT, gpu, err);
}

/* Out of the cluster's partition is what had to be; a GPU that is broken need not be anywhere. NVOS says no more than that it failed: that counts when
 * the tray is known as bad, or lacks a device. */
static bool may_stay_out(struct rk_world *world, struct rk_step *step, const struct trip *trip, int tray, int rc)
{
	const char *lack = NULL;

	if (trip->all || tray == RK_NONE || (rc != RK_NOT_FOUND && rc != RK_FAILED))
		return false;
	if (rc == RK_NOT_FOUND || (trip->alone && trip->alone[tray]) || rk_tray_mark(&world->site->trays[tray]))
		return true;
	return !rk_tray_lacks(world, tray, step->arena, &lack, NULL) && lack;
}

static void leave_out(struct rk_step *step, int tray, uint64_t gpu, struct rk_err *err)
{
	rk_step_leaves(step, tray, gpu, rk_arena_printf(step->arena, "GPU 0x%016" PRIx64 " is in no NVLink partition: %s", gpu, err && err->message ? err->message : "refused"));
	rk_err_clear(err);
}

bool rk_nvl_is_gone(const struct rk_world *world, struct rk_step *step, uint64_t gpu, int rc, struct rk_err *err)
{
	int tray = tray_of(world->site, gpu);
	bool gone = rc == RK_NOT_FOUND && tray != RK_NONE;

	if (gone)
		leave_out(step, tray, gpu, err);
	return gone;
}

static int send_one(struct rk_world *world, struct rk_step *step, const struct rk_nvl_view *view, const struct trip *trip, uint64_t gpu, struct rk_err *err)
{
	int tray = tray_of(world->site, gpu), rc = add_home(world, view, trip, gpu, err);

	if (!rc || !may_stay_out(world, step, trip, tray, rc))
		return rc;
	leave_out(step, tray, gpu, err);
	return 0;
}

static int make_trays_for(struct rk_world *world, struct rk_step *step, const uint64_t *gpus, size_t n, const struct trip *trip, struct rk_nvl_view *view,
			  struct rk_err *err)
{
	bool *wanted = rk_arena_array(step->arena, world->site->n_trays, sizeof(*wanted)), any = false;

	for (size_t i = 0; i < n; i++)
		if (!rk_nvl_partition_of(view, gpus[i]) && to_its_tray(world, view, trip, gpus[i]))
			any = wanted[tray_of(world->site, gpus[i])] = true;
	int rc = any ? make_tray_partitions(world, step, wanted, err) : 0;
	return rc || !any ? rc : rk_nvl_read(world, step, view, err);
}

static int go_home(struct rk_world *world, struct rk_step *step, const uint64_t *gpus, size_t n, const struct trip *trip, struct rk_err *err)
{
	struct rk_nvl_view view;
	int rc = rk_nvl_read(world, step, &view, err);

	if (!rc)
		rc = make_trays_for(world, step, gpus, n, trip, &view, err);
	for (size_t i = 0; !rc && i < n; i++) {
		if (rk_nvl_in_foreign(world, &view, gpus[i]))
			step->note = rk_arena_printf(step->arena, "GPU 0x%016" PRIx64 " stays in NVLink partition %d, which is not this cluster's", gpus[i],
						     rk_nvl_partition_of(&view, gpus[i]));
		if (!rk_nvl_partition_of(&view, gpus[i]))
			rc = send_one(world, step, &view, trip, gpus[i], err);
	}
	return rc;
}

/* Does a guest of ours still live there, or can nobody tell? Only asked of trays that are out of service: on others it was seen dead. */
static bool may_live(struct rk_world *world, struct rk_step *step, int tray)
{
	const struct rk_tray *t = &world->site->trays[tray];
	struct rk_hv_domain *domains;
	size_t n;

	if (t->faulty || !rk_tray_mark(t))
		return t->faulty != NULL;
	if (world->hv->ops->domain_list(world->hv, tray, step->arena, &domains, &n, NULL))
		return true;
	for (size_t i = 0; i < n; i++)
		if (domains[i].ours && domains[i].running)
			return true;
	return false;
}

static const bool *trays_alone(struct rk_world *world, struct rk_step *step, const uint64_t *gpus, size_t n)
{
	bool *alone = rk_arena_array(step->arena, world->site->n_trays, sizeof(*alone));
	int last = RK_NONE;

	/* The GPUs of a tray follow each other. */
	for (size_t i = 0; i < n; i++) {
		int tray = tray_of(world->site, gpus[i]);
		if (tray != RK_NONE && tray != last)
			alone[tray] = may_live(world, step, tray);
		last = tray;
	}
	return alone;
}

int rk_nvl_send_home(struct rk_world *world, struct rk_step *step, const uint64_t *gpus, size_t n, struct rk_err *err)
{
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	int rc = step->before ? rk_json_parse("before", step->before, strlen(step->before), &json, err) : 0;
	const struct trip trip = { .before = json ? rk_json_root(json) : NULL, .alone = trays_alone(world, step, gpus, n) };

	return rc ? rc : go_home(world, step, gpus, n, &trip, err);
}

static bool is_alone(const struct rk_world *world, const struct rk_nvl_view *view, uint64_t gpu)
{
	return rk_nvl_in_tray_partition(world->site, view, gpu) || rk_nvl_in_foreign(world, view, gpu);
}

static int all_alone(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	return rk_nvl_all(world, step, is_alone, ret, err);
}

int rk_nvl_quarantine(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	bool *alone = rk_arena_array(step->arena, world->site->n_trays, sizeof(*alone));
	const struct trip trip = { .alone = alone };
	size_t n;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n);

	memset(alone, true, world->site->n_trays * sizeof(*alone));
	int rc = go_home(world, step, gpus, n, &trip, err);
	return rc ? rc : rk_wait_until(world, step, "the GPUs in the NVLink partition of their tray", all_alone, err);
}

/* ---- nvl.home: a tray that was given up comes back ---------------------------------------------------------------------------------------- */

/* 1 when every wanted GPU is where free GPUs are. One that is in another partition belongs to somebody. */
static int home_seen(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	struct rk_nvl_view view;
	size_t n;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n);
	int rc = rk_nvl_read(world, step, &view, err);

	*ret = !rc;
	for (size_t i = 0; !rc && i < n; i++) {
		int at = rk_nvl_partition_of(&view, gpus[i]);
		bool alone = rk_nvl_in_tray_partition(world->site, &view, gpus[i]);
		*ret &= world->site->racks[view.rack].nvl_per_tray ? alone : at == RK_NVL_DEFAULT;
		if (at && at != RK_NVL_DEFAULT && !alone)
			rc = rk_err_set(err, RK_CONFLICT, "GPU 0x%016" PRIx64 " of rack %s is in NVLink partition %d", gpus[i], rk_param(step, "rack"), at);
	}
	return rc;
}

/* Where free GPUs are not to be: the partition of the tray, or Default. */
static bool is_wrong(const struct rk_world *world, const struct rk_nvl_view *view, uint64_t gpu)
{
	return rk_nvl_partition_of(view, gpu) && rk_nvl_in_tray_partition(world->site, view, gpu) != world->site->racks[view->rack].nvl_per_tray;
}

static bool not_wrong(const struct rk_world *world, const struct rk_nvl_view *view, uint64_t gpu)
{
	return !is_wrong(world, view, gpu);
}

static int nowhere_wrong(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	return rk_nvl_all(world, step, not_wrong, ret, err);
}

/* The partition of a tray that the site has no use for. */
static int remove_empty(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct rk_nvl_view view;
	size_t n;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n);
	int rc = rk_nvl_read(world, step, &view, err), tray = n ? tray_of(world->site, gpus[0]) : RK_NONE;

	if (rc || tray == RK_NONE || world->site->racks[view.rack].nvl_per_tray)
		return rc;
	const struct rk_nvl_live *part = tray_partition(world->site, &view, tray);
	return part && !part->n_gpus ? world->nvl->ops->remove(world->nvl, view.rack, part->id, err) : 0;
}

static int home_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	const struct trip trip = { .all = true };
	size_t n;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n);
	int rc = rk_nvl_take_out(world, step, is_wrong, err);

	if (!rc)
		rc = rk_wait_until(world, step, "the GPUs to leave the partition they are in", nowhere_wrong, err);
	if (!rc)
		rc = go_home(world, step, gpus, n, &trip, err);
	if (!rc)
		rc = rk_wait_until(world, step, "the GPUs where free GPUs are", home_seen, err);
	return rc ? rc : remove_empty(world, step, err);
}

const struct rk_step_kind rk_nvl_home_steps[] = {
	{ .name = "nvl.home", .summary = "put the tray's GPUs into the NVLink partition of free GPUs", .deadline_ms = 60000, .probe = home_seen, .apply = home_apply, .give_up = rk_nvl_give_up },
	{ .name = NULL },
};
