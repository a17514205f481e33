#include "provision/steps_nvl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NVLink partitions. Params: rack, id, name, resiliency, multicast, gpus. The id is the planned one, and may be anybody's by now: what is not ours by
 * name is not touched. Where the network gives ids the store is told the id before any GPU is put in. */

static bool is_wanted(const uint64_t *gpus, size_t n, uint64_t gpu)
{
	for (size_t i = 0; i < n; i++)
		if (gpus[i] == gpu)
			return true;
	return false;
}

/* 1 when the step's partition holds exactly the wanted GPUs, but for those that were left. */
static int nvl_seen(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	struct rk_nvl_view view;
	size_t n;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n);
	int rc = rk_nvl_read(world, step, &view, err);

	if (rc)
		return rc;
	const struct rk_nvl_live *part = rk_nvl_partition_with(&view, view.id);
	size_t wanted = 0;
	*ret = part != NULL;
	for (size_t i = 0; *ret && i < n; i++) {
		if (rk_step_left_gpu(step, gpus[i]))
			continue;
		wanted++;
		*ret = rk_nvl_holds(part, gpus[i]);
	}
	*ret &= part && part->n_gpus == wanted;
	return 0;
}

static bool is_in(const struct rk_world *world, const struct rk_nvl_view *view, uint64_t gpu)
{
	(void)world;
	return rk_nvl_partition_of(view, gpu) == view->id;
}

static bool is_out(const struct rk_world *world, const struct rk_nvl_view *view, uint64_t gpu)
{
	return !is_in(world, view, gpu);
}

static bool is_in_or_free(const struct rk_world *world, const struct rk_nvl_view *view, uint64_t gpu)
{
	return is_in(world, view, gpu) || rk_nvl_partition_of(view, gpu) == 0;
}

/* Out of ours, and not in none. */
static bool is_elsewhere(const struct rk_world *world, const struct rk_nvl_view *view, uint64_t gpu)
{
	return is_out(world, view, gpu) && rk_nvl_partition_of(view, gpu) != 0;
}

static int nvl_drained(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	return rk_nvl_all(world, step, is_in_or_free, ret, err);
}

static int nvl_exists(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	struct rk_nvl_view view;
	int rc = rk_nvl_read(world, step, &view, err);

	if (!rc)
		*ret = rk_nvl_partition_with(&view, view.id) != NULL;
	return rc;
}

static int nvl_gone(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	int rc = nvl_exists(world, step, ret, err);

	*ret = !*ret;
	return rc;
}

static int nvl_joined(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	return rk_nvl_all(world, step, is_in, ret, err);
}

/* All GPUs of an operating system have to be in one partition: a tray is put in as a whole. */
static int whole_trays(const struct rk_world *world, const uint64_t *gpus, size_t n, struct rk_err *err)
{
	const struct rk_site *site = world->site;

	for (size_t i = 0; i < n; i++) {
		int gpu = rk_find_gpu_guid(site, gpus[i]);
		const struct rk_tray *t = gpu < 0 ? NULL : &site->trays[site->gpus[gpu].tray];
		for (int g = 0; t && g < t->n_gpus; g++)
			if (site->gpus[t->first_gpu + g].fabric_guid && !is_wanted(gpus, n, site->gpus[t->first_gpu + g].fabric_guid))
				return rk_err_set(err, RK_INVALID, "the operating system of tray %s would be split: GPU %d is not to be in the partition with the others",
						  t->name, g);
	}
	return 0;
}

/* Remembers where each GPU is now. */
static int remember(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct rk_str before RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_nvl_view view;
	struct rk_jw w;
	size_t n;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n);
	int rc = whole_trays(world, gpus, n, err);

	if (!rc)
		rc = rk_nvl_read(world, step, &view, err);
	if (rc)
		return rc;
	rk_jw_init(&w, &before, 0);
	rk_jw_object(&w);
	for (size_t i = 0; i < n; i++) {
		int at = rk_nvl_partition_of(&view, gpus[i]);
		char key[24];
		if (rk_nvl_in_foreign(world, &view, gpus[i])) {
			rk_err_set(err, RK_CONFLICT, "GPU 0x%016" PRIx64 " of rack %s is in NVLink partition %d, which is not this cluster's", gpus[i],
				   rk_param(step, "rack"), at);
			rk_err_hint(err, "racksh nvlink show %s/%d", rk_param(step, "rack"), at);
			return RK_CONFLICT;
		}
		snprintf(key, sizeof(key), "0x%016" PRIx64, gpus[i]);
		rk_jw_key(&w, key);
		rk_jw_i64(&w, at == view.id ? 0 : at);
	}
	rk_jw_end(&w);
	step->before = rk_arena_strdup(step->arena, rk_str_text(&before));
	return 0;
}

/* For settle: the id that the partition has. What was asked for and cannot be told to NMX-M is said. */
static void note_id(const struct rk_world *world, struct rk_step *step, const struct rk_nvl_view *view, int id)
{
	int *kept = rk_arena_alloc(step->arena, sizeof(*kept));

	*kept = id;
	step->data = kept;
	if (rk_nvl_gives_ids(world->site, view->rack))
		step->note = rk_arena_printf(step->arena, "the network gave it id %d, and chooses its resiliency mode and multicast groups itself", id);
}

/* Where we give the ids, the planned one has to be free. */
static int id_is_free(const struct rk_world *world, const struct rk_step *step, const struct rk_nvl_view *view, struct rk_err *err)
{
	int id = (int)rk_param_int(step, "id");
	const struct rk_nvl_live *part = rk_nvl_partition_with(view, id);

	if (!part || view->id == id || rk_nvl_gives_ids(world->site, view->rack))
		return 0;
	rk_err_set(err, RK_CONFLICT, "NVLink partition %s/%d is there already and is called \"%s\", not \"%s\"", rk_param(step, "rack"), id, part->name ? part->name : "",
		   rk_param(step, "name"));
	rk_err_hint(err, "racksh nvlink verify %s", rk_param(step, "rack"));
	return RK_CONFLICT;
}

/* A partition of our name that holds GPUs of others is none to put a tenant into. */
static int only_ours(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct rk_nvl_view view;
	size_t n;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n);
	int rc = rk_nvl_read(world, step, &view, err);
	if (!rc)
		rc = id_is_free(world, step, &view, err);
	const struct rk_nvl_live *part = rc ? NULL : rk_nvl_partition_with(&view, view.id);

	for (size_t i = 0; part && i < part->n_gpus; i++) {
		if (is_wanted(gpus, n, part->gpus[i]))
			continue;
		rk_err_set(err, RK_CONFLICT, "NVLink partition %s/%d is there already and holds GPU 0x%016" PRIx64 ", which is not this cluster's", rk_param(step, "rack"),
			   view.id, part->gpus[i]);
		rk_err_hint(err, "racksh nvlink show %s/%d", rk_param(step, "rack"), view.id);
		return RK_CONFLICT;
	}
	if (!rc && view.id > 0)
		note_id(world, step, &view, view.id);
	return rc;
}

static int nvl_probe(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	int rc = remember(world, step, err);

	if (!rc)
		rc = only_ours(world, step, err);
	return rc ? rc : nvl_seen(world, step, ret, err);
}

static int join_probe(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	int rc = remember(world, step, err);

	return rc ? rc : nvl_joined(world, step, ret, err);
}

/* As rk_nvl_read; RK_NOT_FOUND when the step's partition is not there, so that no GPU leaves another one for it. */
static int read_ours(struct rk_world *world, struct rk_step *step, struct rk_nvl_view *view, struct rk_err *err)
{
	int rc = rk_nvl_read(world, step, view, err);

	if (!rc && !rk_nvl_partition_with(view, view->id))
		rc = rk_err_set(err, RK_NOT_FOUND, "rack %s has no NVLink partition \"%s\"", rk_param(step, "rack"), rk_param(step, "name"));
	return rc;
}

/* again: they were there before, and one that is gone by now is left. */
static int add_missing(struct rk_world *world, struct rk_step *step, bool again, struct rk_err *err)
{
	struct rk_nvl_view view;
	size_t n;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n);
	int rc = read_ours(world, step, &view, err);

	for (size_t i = 0; !rc && i < n; i++) {
		if (rk_nvl_partition_of(&view, gpus[i]) == view.id)
			continue;
		rc = world->nvl->ops->add(world->nvl, view.rack, view.id, gpus[i], err);
		if (again && rk_nvl_is_gone(world, step, gpus[i], rc, err))
			rc = 0;
	}
	return rc;
}

/* The partition itself, empty. Whatever id it has is in the store when this returns. */
static int make_partition(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct rk_nvl_view view;
	int rc = rk_nvl_read(world, step, &view, err), id = rc ? 0 : view.id;

	if (!rc && !rk_nvl_partition_with(&view, view.id))
		rc = world->nvl->ops->create(world->nvl, view.rack, (int)rk_param_int(step, "id"), rk_param(step, "name"), rk_param(step, "resiliency"), (int)rk_param_int(step, "multicast"),
					     &id, err);
	if (!rc && id != (int)rk_param_int(step, "id"))
		rc = rk_store_give_nvl_id(world->store, rk_param(step, "rack"), rk_param(step, "name"), id, err);
	if (!rc)
		rc = rk_wait_until(world, step, "the new NVLink partition", nvl_exists, err);
	if (!rc)
		note_id(world, step, &view, id);
	return rc;
}

/* Out of where they are, settle, into the new one: a GPU is in at most one partition, and the switch says "succeeded" early. */
static int move_in(struct rk_world *world, struct rk_step *step,
		   int (*seen)(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err), bool again, struct rk_err *err)
{
	struct rk_nvl_view view;
	int rc = read_ours(world, step, &view, err);

	if (!rc)
		rc = rk_nvl_take_out(world, step, is_elsewhere, err);
	if (!rc)
		rc = rk_wait_until(world, step, "the GPUs to leave their former partition", nvl_drained, err);
	if (!rc)
		rc = add_missing(world, step, again, err);
	return rc ? rc : rk_wait_until(world, step, "the GPUs in their NVLink partition", seen, err);
}

/* The partition comes first, so that the GPUs are in none for as short as can be. */
static int nvl_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	int rc = make_partition(world, step, err);

	return rc ? rc : move_in(world, step, nvl_seen, false, err);
}

/* The undo of a release. A GPU that was told to leave may be seen inside for a while yet: what is under way settles first, as in rk_nvl_take_apart. */
static int nvl_again(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	rk_clock_sleep_ms(world->env.clock, RK_NVL_SETTLE_MS);
	int rc = make_partition(world, step, err);

	return rc ? rc : move_in(world, step, nvl_seen, true, err);
}

/* The snapshot follows: steps that stand on this one read it. What the switch holds under this name is in the store already. */
static int nvl_settle(struct rk_world *world, struct rk_step *step, bool undone, struct rk_err *err)
{
	const int *id = step->data;
	int rack = rk_find_rack(world->site, rk_param(step, "rack"));

	for (size_t i = 0; id && i < world->site->n_nvl_partitions; i++) {
		struct rk_nvl_partition *p = &world->site->nvl_partitions[i];
		if (p->rack == rack && rk_streq(p->name, rk_param(step, "name")) && p->id != *id)
			p->id = *id;
	}
	return rk_away_settle(world, step, undone, err);
}

static int nvl_empty(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	struct rk_nvl_view view;
	int rc = rk_nvl_read(world, step, &view, err);

	if (rc)
		return rc;
	const struct rk_nvl_live *part = rk_nvl_partition_with(&view, view.id);
	*ret = !part || part->n_gpus == 0;
	return 0;
}

static int nvl_all_home(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	return rk_nvl_all(world, step, is_elsewhere, ret, err);
}

static int drop_ours(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct rk_nvl_view view;
	int rc = rk_nvl_read(world, step, &view, err);
	const struct rk_nvl_live *part = rc ? NULL : rk_nvl_partition_with(&view, view.id);

	for (size_t i = 0; !rc && part && i < part->n_gpus; i++)
		rc = world->nvl->ops->drop(world->nvl, view.rack, view.id, part->gpus[i], err);
	return rc;
}

/* Home, and seen there. */
static int bring_home(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	size_t n;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n);
	int rc = rk_nvl_send_home(world, step, gpus, n, err);

	return rc ? rc : rk_wait_until(world, step, "the GPUs back where they were, or where free GPUs are", nvl_all_home, err);
}

static int remove_partition(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct rk_nvl_view view;
	int rc = rk_nvl_read(world, step, &view, err);

	if (rc || !rk_nvl_partition_with(&view, view.id))
		return rc;
	rc = world->nvl->ops->remove(world->nvl, view.rack, view.id, err);
	return rc ? rc : rk_wait_until(world, step, "the NVLink partition to be gone", nvl_gone, err);
}

/* Also the whole of nvl.release. A call whose answer was lost may take effect yet, and a GPU that is home now would leave it behind our back: what is
 * under way settles first. */
int rk_nvl_take_apart(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	rk_clock_sleep_ms(world->env.clock, RK_NVL_SETTLE_MS);
	int rc = drop_ours(world, step, err);
	if (!rc)
		rc = rk_wait_until(world, step, "the GPUs to leave the NVLink partition", nvl_empty, err);
	if (!rc)
		rc = bring_home(world, step, err);
	return rc ? rc : remove_partition(world, step, err);
}

/* ---- some GPUs into, or out of, a partition that stays ---------------------------------------------------------------------------------- */

static int join_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	return move_in(world, step, nvl_joined, false, err);
}

/* The undo of a leave; as nvl_again. */
static int join_again(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	rk_clock_sleep_ms(world->env.clock, RK_NVL_SETTLE_MS);
	return move_in(world, step, nvl_joined, true, err);
}

static int nvl_left(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	return rk_nvl_all(world, step, is_out, ret, err);
}

/* As rk_nvl_take_apart: what is under way settles first. */
static int leave_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	rk_clock_sleep_ms(world->env.clock, RK_NVL_SETTLE_MS);
	int rc = rk_nvl_take_out(world, step, is_in, err);
	if (!rc)
		rc = rk_wait_until(world, step, "the GPUs to leave the NVLink partition", nvl_left, err);
	return rc ? rc : bring_home(world, step, err);
}

/* Out, and to nobody else: the guest of a tray that is given up may still live, and is not to be with the free ones. */
static int expel_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	int rc = rk_nvl_take_out(world, step, is_in, err);

	if (!rc)
		rc = rk_wait_until(world, step, "the GPUs to leave the NVLink partition", nvl_left, err);
	return rc ? rc : rk_nvl_quarantine(world, step, err);
}

/* ---- drift ---------------------------------------------------------------------------------------------------------------------------- */

/* Whoever is in the partition and must not be: out, and home when no VM has the tray. One of another cluster is fetched by that cluster's step. */
static int drop_strangers(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct rk_nvl_view view;
	size_t n, n_free = 0;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n), *free_ones;
	int rc = rk_nvl_read(world, step, &view, err);
	const struct rk_nvl_live *part = rc ? NULL : rk_nvl_partition_with(&view, view.id);

	if (!part)
		return rc;
	free_ones = rk_arena_array(step->arena, part->n_gpus, sizeof(*free_ones));
	for (size_t i = 0; !rc && i < part->n_gpus; i++) {
		int gpu = rk_find_gpu_guid(world->site, part->gpus[i]);
		if (is_wanted(gpus, n, part->gpus[i]))
			continue;
		rc = world->nvl->ops->drop(world->nvl, view.rack, view.id, part->gpus[i], err);
		if (gpu >= 0 && world->site->trays[world->site->gpus[gpu].tray].vm == RK_NONE)
			free_ones[n_free++] = part->gpus[i];
	}
	if (!n_free || rc)
		return rc;
	rk_clock_sleep_ms(world->env.clock, RK_NVL_SETTLE_MS);
	return rk_nvl_send_home(world, step, free_ones, n_free, err);
}

/* As nvl_seen, and the store has its id. */
static int fix_probe(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	struct rk_nvl_view view;
	int rc = rk_nvl_read(world, step, &view, err);

	if (!rc)
		rc = nvl_seen(world, step, ret, err);
	*ret &= !rc && view.id == (int)rk_param_int(step, "id");
	return rc;
}

static int fix_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	int rc = drop_strangers(world, step, err);

	return rc ? rc : nvl_apply(world, step, err);
}

const struct rk_step_kind rk_nvl_steps[] = {
	{ .name = "nvl.partition", .summary = "put the GPUs into an NVLink partition of their own", .deadline_ms = 60000, .probe = nvl_probe, .apply = nvl_apply, .undo = rk_nvl_take_apart,
	  .settle = nvl_settle, .give_up = rk_nvl_give_up, .makes = true },
	{ .name = "nvl.join", .summary = "add the GPUs to the cluster's NVLink partition", .deadline_ms = 60000, .probe = join_probe, .apply = join_apply, .undo = leave_apply,
	  .settle = rk_away_settle, .give_up = rk_nvl_give_up },
	{ .name = "nvl.leave", .summary = "take the GPUs out of the cluster's NVLink partition", .deadline_ms = 60000, .apply = leave_apply, .undo = join_again,
	  .settle = rk_away_settle, .give_up = rk_nvl_give_up },
	{ .name = "nvl.expel", .summary = "put the GPUs into an NVLink partition of their tray alone", .deadline_ms = 60000, .final = true, .apply = expel_apply, .give_up = rk_nvl_give_up },
	{ .name = "nvl.release", .summary = "take the GPUs out of the NVLink partition and remove it", .deadline_ms = 60000, .apply = rk_nvl_take_apart, .undo = nvl_again,
	  .settle = nvl_settle, .give_up = rk_nvl_give_up, .removes = true },
	{ .name = "nvl.fix", .summary = "make the NVLink partition hold exactly the cluster's GPUs", .deadline_ms = 60000, .probe = fix_probe, .apply = fix_apply, .settle = nvl_settle },
	{ .name = NULL },
};
