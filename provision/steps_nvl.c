#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provision/steps.h"

/* NVLink partitions. Params: rack, id, name, resiliency, multicast, gpus. */

enum { SETTLE_MS = 2000 };

struct nvl_view {
	struct rk_nvl_live *parts;
	size_t n;
};

static int nvl_rack(struct rk_world *world, const struct rk_step *step, int *ret, struct rk_err *err)
{
	*ret = rk_find_rack(world->site, rk_param(step, "rack"));
	return *ret < 0 ? rk_err_set(err, RK_NOT_FOUND, "no rack \"%s\" in the store", rk_param(step, "rack")) : 0;
}

static int nvl_read(struct rk_world *world, struct rk_step *step, struct nvl_view *view, struct rk_err *err)
{
	int rack, rc = nvl_rack(world, step, &rack, err);

	return rc ? rc : world->nvl->ops->list(world->nvl, rack, step->arena, &view->parts, &view->n, err);
}

static bool holds(const struct rk_nvl_live *part, uint64_t gpu)
{
	for (size_t i = 0; i < part->n_gpus; i++)
		if (part->gpus[i] == gpu)
			return true;
	return false;
}

/* Partition that holds the GPU, 0 = none. */
static int partition_of(const struct nvl_view *view, uint64_t gpu)
{
	for (size_t i = 0; i < view->n; i++)
		if (holds(&view->parts[i], gpu))
			return view->parts[i].id;
	return 0;
}

static const struct rk_nvl_live *partition_with(const struct nvl_view *view, int id)
{
	for (size_t i = 0; i < view->n; i++)
		if (view->parts[i].id == id)
			return &view->parts[i];
	return NULL;
}

/* 1 when partition id holds exactly the wanted GPUs. */
static int nvl_seen(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	struct nvl_view view;
	size_t n;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n);
	int rc = nvl_read(world, step, &view, err);

	if (rc)
		return rc;
	const struct rk_nvl_live *part = partition_with(&view, (int)rk_param_int(step, "id"));
	*ret = part && part->n_gpus == n;
	for (size_t i = 0; *ret && i < n; i++)
		*ret = holds(part, gpus[i]);
	return 0;
}

/* 1 when no wanted GPU is in another partition any more. */
static int nvl_drained(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	struct nvl_view view;
	size_t n;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n);
	int rc = nvl_read(world, step, &view, err), id = (int)rk_param_int(step, "id");

	*ret = !rc;
	for (size_t i = 0; !rc && i < n; i++) {
		int at = partition_of(&view, gpus[i]);
		*ret &= at == 0 || at == id;
	}
	return rc;
}

static int nvl_exists(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	struct nvl_view view;
	int rc = nvl_read(world, step, &view, err);

	if (!rc)
		*ret = partition_with(&view, (int)rk_param_int(step, "id")) != NULL;
	return rc;
}

static int nvl_gone(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	int rc = nvl_exists(world, step, ret, err);

	*ret = !*ret;
	return rc;
}

/* 1 when each wanted GPU is (inside) or none is (!inside) in partition id, whoever else is. */
static int nvl_each(struct rk_world *world, struct rk_step *step, bool inside, int *ret, struct rk_err *err)
{
	struct nvl_view view;
	size_t n;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n);
	int rc = nvl_read(world, step, &view, err);

	*ret = !rc;
	for (size_t i = 0; !rc && i < n; i++)
		*ret &= (partition_of(&view, gpus[i]) == (int)rk_param_int(step, "id")) == inside;
	return rc;
}

static int nvl_joined(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	return nvl_each(world, step, true, ret, err);
}

/* Remembers where each GPU is now. A GPU in a partition that is neither ours nor Default belongs to somebody else. */
static int remember(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct rk_str before RK_CLEANUP_STR = RK_STR_INIT;
	struct nvl_view view;
	struct rk_jw w;
	size_t n;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n);
	int rc = nvl_read(world, step, &view, err), id = (int)rk_param_int(step, "id");

	if (rc)
		return rc;
	rk_jw_init(&w, &before, 0);
	rk_jw_object(&w);
	for (size_t i = 0; i < n; i++) {
		int at = partition_of(&view, gpus[i]);
		char key[24];
		if (at && at != id && at != RK_NVL_DEFAULT) {
			rk_err_set(err, RK_CONFLICT, "GPU 0x%016" PRIx64 " of rack %s is in NVLink partition %d, which is not this cluster's", gpus[i],
				   rk_param(step, "rack"), at);
			rk_err_hint(err, "racksh nvlink show %s/%d", rk_param(step, "rack"), at);
			return RK_CONFLICT;
		}
		snprintf(key, sizeof(key), "0x%016" PRIx64, gpus[i]);
		rk_jw_key(&w, key);
		rk_jw_i64(&w, at == id ? RK_NVL_DEFAULT : at);
	}
	rk_jw_end(&w);
	step->before = rk_arena_strdup(step->arena, rk_str_text(&before));
	return 0;
}

static int nvl_probe(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	int rc = remember(world, step, err);

	return rc ? rc : nvl_seen(world, step, ret, err);
}

static int join_probe(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	int rc = remember(world, step, err);

	return rc ? rc : nvl_joined(world, step, ret, err);
}

static int drop_elsewhere(struct rk_world *world, struct rk_step *step, int rack, int id, struct rk_err *err)
{
	struct nvl_view view;
	size_t n;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n);
	int rc = nvl_read(world, step, &view, err);

	for (size_t i = 0; !rc && i < n; i++) {
		int at = partition_of(&view, gpus[i]);
		if (at && at != id)
			rc = world->nvl->ops->drop(world->nvl, rack, at, gpus[i], err);
	}
	return rc;
}

static int add_missing(struct rk_world *world, struct rk_step *step, int rack, int id, struct rk_err *err)
{
	struct nvl_view view;
	size_t n;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n);
	int rc = nvl_read(world, step, &view, err);

	for (size_t i = 0; !rc && i < n; i++)
		if (partition_of(&view, gpus[i]) != id)
			rc = world->nvl->ops->add(world->nvl, rack, id, gpus[i], err);
	return rc;
}

/* Out of where they are, settle, into the new one: a GPU is in at most one partition, and the switch says "succeeded" early. */
static int nvl_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	int rack, there = 0, id = (int)rk_param_int(step, "id");
	int rc = nvl_rack(world, step, &rack, err);

	if (!rc)
		rc = drop_elsewhere(world, step, rack, id, err);
	if (!rc)
		rc = rk_wait_until(world, step, "the GPUs to leave their former partition", nvl_drained, err);
	if (!rc)
		rc = nvl_exists(world, step, &there, err);
	if (!rc && !there)
		rc = world->nvl->ops->create(world->nvl, rack, id, rk_param(step, "name"), rk_param(step, "resiliency"),
					     (int)rk_param_int(step, "multicast"), err);
	if (!rc && !there)
		rc = rk_wait_until(world, step, "the new NVLink partition", nvl_exists, err);
	if (!rc)
		rc = add_missing(world, step, rack, id, err);
	return rc ? rc : rk_wait_until(world, step, "the GPUs in their NVLink partition", nvl_seen, err);
}

static int home_of(const struct rk_jnode *before, uint64_t gpu)
{
	char key[24];
	uint64_t home = 0;

	snprintf(key, sizeof(key), "0x%016" PRIx64, gpu);
	rk_ju64(rk_jget(before, key), &home);
	/* A GPU in no partition cannot run anything: Default is the place for one that came from nowhere. */
	return home ? (int)home : RK_NVL_DEFAULT;
}

static int nvl_empty(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	struct nvl_view view;
	int rc = nvl_read(world, step, &view, err);

	if (rc)
		return rc;
	const struct rk_nvl_live *part = partition_with(&view, (int)rk_param_int(step, "id"));
	*ret = !part || part->n_gpus == 0;
	return 0;
}

static int nvl_all_home(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	struct nvl_view view;
	size_t n;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n);
	int rc = nvl_read(world, step, &view, err);

	*ret = !rc;
	for (size_t i = 0; !rc && i < n; i++) {
		int at = partition_of(&view, gpus[i]);
		*ret &= at && at != (int)rk_param_int(step, "id");
	}
	return rc;
}

static int drop_ours(struct rk_world *world, struct rk_step *step, int rack, int id, struct rk_err *err)
{
	struct nvl_view view;
	int rc = nvl_read(world, step, &view, err);
	const struct rk_nvl_live *part = rc ? NULL : partition_with(&view, id);

	for (size_t i = 0; !rc && part && i < part->n_gpus; i++)
		rc = world->nvl->ops->drop(world->nvl, rack, id, part->gpus[i], err);
	return rc;
}

static int send_home(struct rk_world *world, struct rk_step *step, int rack, struct rk_err *err)
{
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	struct nvl_view view;
	size_t n;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n);
	int rc = nvl_read(world, step, &view, err);

	if (!rc && step->before)
		rc = rk_json_parse("before", step->before, strlen(step->before), &json, err);
	for (size_t i = 0; !rc && i < n; i++)
		if (!partition_of(&view, gpus[i]))
			rc = world->nvl->ops->add(world->nvl, rack, json ? home_of(rk_json_root(json), gpus[i]) : RK_NVL_DEFAULT, gpus[i], err);
	return rc;
}

/* Out of ours, home again, partition away. Also the whole of nvl.release. A call whose answer was lost may take effect yet, and a GPU
 * that is home now would leave it behind our back: what is under way settles first. */
static int nvl_undo(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	int rack, there = 0, id = (int)rk_param_int(step, "id");
	int rc = nvl_rack(world, step, &rack, err);

	rk_clock_sleep_ms(world->env.clock, SETTLE_MS);
	if (!rc)
		rc = drop_ours(world, step, rack, id, err);
	if (!rc)
		rc = rk_wait_until(world, step, "the GPUs to leave the NVLink partition", nvl_empty, err);
	if (!rc)
		rc = send_home(world, step, rack, err);
	if (!rc)
		rc = rk_wait_until(world, step, "the GPUs back in their former partition", nvl_all_home, err);
	if (!rc)
		rc = nvl_exists(world, step, &there, err);
	if (rc || !there)
		return rc;
	rc = world->nvl->ops->remove(world->nvl, rack, id, err);
	return rc ? rc : rk_wait_until(world, step, "the NVLink partition to be gone", nvl_gone, err);
}

/* ---- some GPUs into, or out of, a partition that stays ---------------------------------------------------------------------------------- */

static int join_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	int rack, id = (int)rk_param_int(step, "id");
	int rc = nvl_rack(world, step, &rack, err);

	if (!rc)
		rc = drop_elsewhere(world, step, rack, id, err);
	if (!rc)
		rc = rk_wait_until(world, step, "the GPUs to leave their former partition", nvl_drained, err);
	if (!rc)
		rc = add_missing(world, step, rack, id, err);
	return rc ? rc : rk_wait_until(world, step, "the GPUs in their NVLink partition", nvl_joined, err);
}

static int drop_wanted(struct rk_world *world, struct rk_step *step, int rack, int id, struct rk_err *err)
{
	struct nvl_view view;
	size_t n;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n);
	int rc = nvl_read(world, step, &view, err);

	for (size_t i = 0; !rc && i < n; i++)
		if (partition_of(&view, gpus[i]) == id)
			rc = world->nvl->ops->drop(world->nvl, rack, id, gpus[i], err);
	return rc;
}

static int nvl_left(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	return nvl_each(world, step, false, ret, err);
}

/* As nvl_undo: what is under way settles first. */
static int leave_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	int rack, rc = nvl_rack(world, step, &rack, err);

	rk_clock_sleep_ms(world->env.clock, SETTLE_MS);
	if (!rc)
		rc = drop_wanted(world, step, rack, (int)rk_param_int(step, "id"), err);
	if (!rc)
		rc = rk_wait_until(world, step, "the GPUs to leave the NVLink partition", nvl_left, err);
	if (!rc)
		rc = send_home(world, step, rack, err);
	return rc ? rc : rk_wait_until(world, step, "the GPUs back in their former partition", nvl_all_home, err);
}

/* Out, and nowhere else: a GPU of a tray whose guest may still live is not to be with the free ones. */
static int expel_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	int rack, rc = nvl_rack(world, step, &rack, err);

	if (!rc)
		rc = drop_wanted(world, step, rack, (int)rk_param_int(step, "id"), err);
	return rc ? rc : rk_wait_until(world, step, "the GPUs to leave the NVLink partition", nvl_left, err);
}

/* 1 when every wanted GPU is in Default. One that is in another partition belongs to somebody. */
static int home_seen(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	struct nvl_view view;
	size_t n;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n);
	int rc = nvl_read(world, step, &view, err);

	*ret = !rc;
	for (size_t i = 0; !rc && i < n; i++) {
		int at = partition_of(&view, gpus[i]);
		*ret &= at == RK_NVL_DEFAULT;
		if (at && at != RK_NVL_DEFAULT)
			rc = rk_err_set(err, RK_CONFLICT, "GPU 0x%016" PRIx64 " of rack %s is in NVLink partition %d", gpus[i], rk_param(step, "rack"), at);
	}
	return rc;
}

static int home_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	int rack, rc = nvl_rack(world, step, &rack, err);

	if (!rc)
		rc = send_home(world, step, rack, err);
	return rc ? rc : rk_wait_until(world, step, "the GPUs in the default NVLink partition", home_seen, err);
}

/* ---- drift ---------------------------------------------------------------------------------------------------------------------------- */

static bool is_wanted(const uint64_t *gpus, size_t n, uint64_t gpu)
{
	for (size_t i = 0; i < n; i++)
		if (gpus[i] == gpu)
			return true;
	return false;
}

/* One that was given up is not: its guest may still live. */
bool rk_tray_is_nobodys(const struct rk_site *site, int tray)
{
	return site->trays[tray].vm == RK_NONE && !site->trays[tray].faulty;
}

/* Whoever is in the partition and must not be: out, and home when the tray is nobody's. One of another cluster is fetched by that cluster's step. */
static int drop_strangers(struct rk_world *world, struct rk_step *step, int rack, int id, struct rk_err *err)
{
	struct nvl_view view;
	size_t n;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n);
	int rc = nvl_read(world, step, &view, err);
	const struct rk_nvl_live *part = rc ? NULL : partition_with(&view, id);

	for (size_t i = 0; !rc && part && i < part->n_gpus; i++) {
		int gpu = rk_find_gpu_guid(world->site, part->gpus[i]);
		if (is_wanted(gpus, n, part->gpus[i]))
			continue;
		rc = world->nvl->ops->drop(world->nvl, rack, id, part->gpus[i], err);
		rk_clock_sleep_ms(world->env.clock, SETTLE_MS);
		if (!rc && gpu >= 0 && rk_tray_is_nobodys(world->site, world->site->gpus[gpu].tray))
			rc = world->nvl->ops->add(world->nvl, rack, RK_NVL_DEFAULT, part->gpus[i], err);
	}
	return rc;
}

static int fix_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	int rack, rc = nvl_rack(world, step, &rack, err);

	if (!rc)
		rc = drop_strangers(world, step, rack, (int)rk_param_int(step, "id"), err);
	return rc ? rc : nvl_apply(world, step, err);
}

const struct rk_step_kind rk_nvl_steps[] = {
	{ .name = "nvl.partition", .summary = "put the GPUs into an NVLink partition of their own", .deadline_ms = 60000, .probe = nvl_probe, .apply = nvl_apply, .undo = nvl_undo },
	{ .name = "nvl.join", .summary = "add the GPUs to the cluster's NVLink partition", .deadline_ms = 60000, .probe = join_probe, .apply = join_apply, .undo = leave_apply },
	{ .name = "nvl.leave", .summary = "return the GPUs to the default NVLink partition, keep the cluster's", .deadline_ms = 60000, .apply = leave_apply, .undo = join_apply },
	{ .name = "nvl.expel", .summary = "take the GPUs out of every NVLink partition", .deadline_ms = 60000, .final = true, .apply = expel_apply },
	{ .name = "nvl.release", .summary = "return the GPUs to the default NVLink partition", .deadline_ms = 60000, .apply = nvl_undo, .undo = nvl_apply },
	{ .name = "nvl.fix", .summary = "make the NVLink partition hold exactly the cluster's GPUs", .deadline_ms = 60000, .probe = nvl_seen, .apply = fix_apply },
	{ .name = "nvl.home", .summary = "put the tray's GPUs into the default NVLink partition", .deadline_ms = 60000, .probe = home_seen, .apply = home_apply },
	{ .name = NULL },
};
