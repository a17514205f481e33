#include <string.h>

#include "provision/steps.h"

/* What a VM leaves on its tray is taken away. Something that is gone already, or a tray that a person gave up and that does not answer, must not hold
 * up a delete for good: what could not be done or seen is noted, and the tray stays faulty, which is nobody's, until it was emptied and erased. */

const char *rk_tray_mark(const struct rk_tray *t)
{
	return t->offline ? t->offline : t->faulty ? t->faulty : t->cordon;
}

int rk_step_tray(const struct rk_world *world, const struct rk_step *step)
{
	const char *tray = rk_param(step, "tray");
	int vm = *tray ? RK_NONE : rk_find_vm(world->site, rk_param(step, "vm"));

	return *tray ? rk_find_tray(world->site, tray) : vm < 0 ? RK_NONE : world->site->vms[vm].tray;
}

void rk_step_leaves(struct rk_step *step, int tray, uint64_t gpu, const char *why)
{
	struct rk_left *all = rk_arena_array(step->arena, step->n_left + 1, sizeof(*all));

	if (step->n_left)
		memcpy(all, step->left, step->n_left * sizeof(*all));
	all[step->n_left++] = (struct rk_left){ tray, gpu, why };
	step->left = all;
	step->note = all[0].why;
}

bool rk_step_left_gpu(const struct rk_step *step, uint64_t gpu)
{
	for (size_t i = 0; i < step->n_left; i++)
		if (step->left[i].gpu == gpu)
			return true;
	return false;
}

int rk_leave_behind(struct rk_world *world, struct rk_step *step, const char *what, int rc, struct rk_err *err)
{
	int tray = rk_step_tray(world, step);
	const struct rk_tray *t = tray < 0 ? NULL : &world->site->trays[tray];

	if (!t || (rc != RK_NOT_FOUND && rc != RK_UNREACHABLE))
		return rc;
	if (rc == RK_UNREACHABLE && !rk_tray_mark(t)) {
		rk_err_hint(err, "if tray %s is lost: racksh tray cordon %s --reason TEXT, then take this operation up again; the tray stays faulty", t->name, t->name);
		return rc;
	}
	rk_step_leaves(step, tray, 0, rk_arena_printf(step->arena, "%s: %s", what, err && err->message ? err->message : "no answer"));
	rk_err_clear(err);
	return 0;
}

int rk_away_settle(struct rk_world *world, struct rk_step *step, bool undone, struct rk_err *err)
{
	int rc = 0;

	(void)undone;
	for (size_t i = 0; !rc && i < step->n_left; i++)
		rc = rk_store_add_tray_fault(world->store, world->site->trays[step->left[i].tray].name, step->left[i].why, err);
	return rc;
}

int rk_define_away(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	return rk_leave_behind(world, step, "its domain is still defined", rk_define_undo(world, step, err), err);
}

int rk_volumes_away(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	return rk_leave_behind(world, step, "its volumes are still there", rk_volumes_undo(world, step, err), err);
}
