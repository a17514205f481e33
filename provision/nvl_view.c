#include "provision/steps_nvl.h"

/* What the switch says now, as the NVLink steps look at it. */

static int nvl_rack(struct rk_world *world, const struct rk_step *step, int *ret, struct rk_err *err)
{
	*ret = rk_find_rack(world->site, rk_param(step, "rack"));
	return *ret < 0 ? rk_err_set(err, RK_NOT_FOUND, "no rack \"%s\" in the store", rk_param(step, "rack")) : 0;
}

int rk_nvl_read(struct rk_world *world, struct rk_step *step, struct rk_nvl_view *view, struct rk_err *err)
{
	int rc = nvl_rack(world, step, &view->rack, err);

	if (!rc)
		rc = world->nvl->ops->list(world->nvl, view->rack, step->arena, &view->parts, &view->n, err);
	if (rc)
		return rc;
	view->id = RK_NONE;
	for (size_t i = 0; i < view->n; i++)
		if (rk_nvl_is(&view->parts[i], (int)rk_param_int(step, "id"), rk_param(step, "name")))
			view->id = view->parts[i].id;
	return 0;
}

bool rk_nvl_holds(const struct rk_nvl_live *part, uint64_t gpu)
{
	for (size_t i = 0; i < part->n_gpus; i++)
		if (part->gpus[i] == gpu)
			return true;
	return false;
}

int rk_nvl_partition_of(const struct rk_nvl_view *view, uint64_t gpu)
{
	for (size_t i = 0; i < view->n; i++)
		if (rk_nvl_holds(&view->parts[i], gpu))
			return view->parts[i].id;
	return 0;
}

const struct rk_nvl_live *rk_nvl_partition_with(const struct rk_nvl_view *view, int id)
{
	for (size_t i = 0; i < view->n; i++)
		if (view->parts[i].id == id)
			return &view->parts[i];
	return NULL;
}

int rk_nvl_all(struct rk_world *world, struct rk_step *step, rk_nvl_judgement *is, int *ret, struct rk_err *err)
{
	struct rk_nvl_view view;
	size_t n;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n);
	int rc = rk_nvl_read(world, step, &view, err);

	*ret = !rc;
	for (size_t i = 0; *ret && i < n; i++)
		*ret = rk_step_left_gpu(step, gpus[i]) || is(world, &view, gpus[i]);
	return rc;
}

int rk_nvl_take_out(struct rk_world *world, struct rk_step *step, rk_nvl_judgement *is, struct rk_err *err)
{
	struct rk_nvl_view view;
	size_t n;
	uint64_t *gpus = rk_param_guids(step, "gpus", &n);
	int rc = rk_nvl_read(world, step, &view, err);

	for (size_t i = 0; !rc && i < n; i++)
		if (is(world, &view, gpus[i]))
			rc = world->nvl->ops->drop(world->nvl, view.rack, rk_nvl_partition_of(&view, gpus[i]), gpus[i], err);
	return rc;
}

bool rk_nvl_in_foreign(const struct rk_world *world, const struct rk_nvl_view *view, uint64_t gpu)
{
	int at = rk_nvl_partition_of(view, gpu);

	return at && at != view->id && at != RK_NVL_DEFAULT && !rk_nvl_in_tray_partition(world->site, view, gpu);
}
