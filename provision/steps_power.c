#include <stdio.h>
#include <string.h>

#include "provision/steps.h"

/* Turning guests on and off, and what has to be true before a tray is anybody else's. */

enum { GRACE_POLL_MS = 1000, DRAIN_POLL_MS = 5000 };

static int start_probe(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	struct rk_vm_job j;
	struct rk_hv_domain domain;
	int rc = rk_vm_job_domain(world, step, &j, &domain, err);

	if (!rc)
		*ret = domain.exists && domain.running;
	return rc;
}

static int dead_probe(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	struct rk_vm_job j;
	struct rk_hv_domain domain;
	int rc = rk_vm_job_domain(world, step, &j, &domain, err);

	if (!rc)
		*ret = !domain.running;
	return rc;
}

/* A lost answer says nothing of what happened: what is read next decides. */
static int reread(int rc, struct rk_err *err)
{
	if (rc == RK_UNREACHABLE)
		rk_err_clear(err);
	return rc == RK_UNREACHABLE ? 0 : rc;
}

/* Nor does the absence of what was to go. */
int rk_reread_gone(int rc, struct rk_err *err)
{
	if (rc == RK_NOT_FOUND)
		rk_err_clear(err);
	return rc == RK_NOT_FOUND ? 0 : reread(rc, err);
}

/* Once the host was told, a look that failed says nothing of what became of it. */
static int unseen(int rc, struct rk_err *err)
{
	if (!rc)
		return 0;
	if (err)
		err->rc = RK_UNREACHABLE;
	return RK_UNREACHABLE;
}

static int start_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct rk_vm_job j;
	struct rk_hv_domain domain;
	int rc = rk_vm_job_domain(world, step, &j, &domain, err);

	if (!rc && !domain.exists)
		rc = rk_err_set(err, RK_NOT_FOUND, "tray %s has no domain \"%s\"", j.tray_name, j.domain);
	if (!rc && !domain.running)
		rc = reread(world->hv->ops->start(world->hv, j.tray, j.domain, err), err);
	return rc ? rc : rk_wait_until(world, step, "the guest running", start_probe, err);
}

/* Only what is ours is turned off. */
static int ours_and_running(struct rk_world *world, struct rk_step *step, struct rk_vm_job *j, bool *ret, struct rk_err *err)
{
	struct rk_hv_domain domain;
	int rc = rk_vm_job_domain(world, step, j, &domain, err);

	if (!rc && domain.exists && !domain.ours)
		rc = rk_err_set(err, RK_CONFLICT, "domain \"%s\" on tray %s is not racksh's", j->domain, j->tray_name);
	*ret = !rc && domain.running;
	return rc;
}

static int stop(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct rk_vm_job j;
	bool running;
	int rc = ours_and_running(world, step, &j, &running, err);

	if (rc || !running)
		return rc;
	rc = rk_reread_gone(world->hv->ops->destroy(world->hv, j.tray, j.domain, err), err);
	return rc ? rc : unseen(rk_wait_until(world, step, "the guest dead", dead_probe, err), err);
}

/* ---- erase before reuse ------------------------------------------------------------------------------------------------------------- */

/* Drives hold a tenant's data once the guest ran: a tray whose drives could not be erased is not free. */
static void scrub_drives(struct rk_world *world, struct rk_step *step, const struct rk_vm_job *j)
{
	RK_CLEANUP_ERR struct rk_err why = RK_ERR_INIT;

	if ((!j->size || j->size->passthrough) && world->hv->ops->scrub(world->hv, j->tray, &why))
		step->note = rk_arena_printf(step->arena, "erase or reset failed: %s", why.message);
}

static int scrub(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct rk_vm_job j;
	int rc = rk_vm_job(world, step, &j, err);

	step->note = NULL;
	if (!rc)
		scrub_drives(world, step, &j);
	return rc;
}

static int stop_away(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	return rk_leave_behind(world, step, "its guest was not seen dead", stop(world, step, err), err);
}

/* One that was not seen dead may be seen now. */
static int undefine(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	int rc = stop_away(world, step, err);

	return rc || step->n_left ? rc : rk_define_away(world, step, err);
}

/* A tray that lacks a device would be given to the next tenant so. */
static int scrub_away(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	RK_CLEANUP_ERR struct rk_err why = RK_ERR_INIT;
	struct rk_vm_job j;
	const char *lack = NULL;
	int rc = rk_vm_job(world, step, &j, err);

	if (!rc)
		rc = scrub(world, step, err);
	if (rc || (j.size && !j.size->passthrough))
		return rc;
	if (step->note)
		lack = step->note;
	else if (rk_tray_lacks(world, j.tray, step->arena, &lack, &why))
		lack = rk_arena_printf(step->arena, "its devices were not seen: %s", why.message);
	else if (lack)
		lack = rk_arena_printf(step->arena, "the tray has %s", lack);
	if (lack)
		rk_step_leaves(step, j.tray, 0, lack);
	return 0;
}

/* A guest that ran is stopped, and what it left on the drives goes with it. */
static int start_undo(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	int rc = stop_away(world, step, err);

	return rc ? rc : scrub_away(world, step, err);
}

static int scrub_strictly(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	int rc = scrub(world, step, err);

	return rc || !step->note ? rc : rk_err_set(err, RK_FAILED, "%s", step->note);
}

/* Of a tray that is taken out of service: what can be done by the deadline is done, the rest is evidence. The tray stays faulty either way, so
 * nothing of it is handed to anybody before a person looked at it. */
static int drain(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	static int (*const parts[])(struct rk_world *world, struct rk_step *step, struct rk_err *err) = { stop, rk_define_undo, rk_volumes_undo, scrub_strictly };
	static const char *const words[] = { "its guest was not seen dead", "its domain is still defined", "its volumes are still there", "its drives were not erased" };
	struct rk_clock *clock = world->env.clock;
	int64_t deadline = rk_clock_ms(clock) + step->kind->deadline_ms;

	for (size_t i = 0; i < RK_ARRAY_SIZE(parts);) {
		RK_CLEANUP_ERR struct rk_err why = RK_ERR_INIT;
		int rc = parts[i](world, step, &why);
		if (!rc) {
			i++;
			continue;
		}
		if (world->cancel && *world->cancel)
			return rk_err_set(err, RK_CANCELLED, "cancelled while draining the tray: %s", words[i]);
		if (rk_clock_ms(clock) >= deadline) {
			step->note = rk_arena_printf(step->arena, "%s: %s", words[i], why.message);
			return 0;
		}
		rk_clock_sleep_ms(clock, DRAIN_POLL_MS);
	}
	step->note = "drained and erased";
	return 0;
}

/* Param "reason": the evidence for which the tray was given up. */
static int drain_settle(struct rk_world *world, struct rk_step *step, bool undone, struct rk_err *err)
{
	char *reason RK_CLEANUP_FREE = rk_xasprintf("%s (%s)", rk_param(step, "reason"), step->note ? step->note : "not drained");

	return undone ? 0 : rk_store_set_tray_faulty(world->store, rk_param(step, "tray"), reason, err);
}

/* ---- by request --------------------------------------------------------------------------------------------------------------------- */

/* Until the guest is off, or the time is over: *running says which. A host that does not answer now may answer later. */
static int await_off(struct rk_world *world, struct rk_step *step, int64_t deadline, struct rk_vm_job *j, bool *running, struct rk_err *err)
{
	struct rk_clock *clock = world->env.clock;

	for (;;) {
		int rc = ours_and_running(world, step, j, running, err);
		bool late = rk_clock_ms(clock) >= deadline;
		if ((rc && rc != RK_UNREACHABLE) || (!rc && !*running) || late)
			return rc;
		if (world->cancel && *world->cancel)
			return rk_err_set(err, RK_CANCELLED, "cancelled while the guest shuts down");
		rk_clock_sleep_ms(clock, GRACE_POLL_MS);
	}
}

/* Params: grace_s, the time the guest is given; hard, whether it is turned off after that. */
static int halt(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	int64_t deadline = rk_clock_ms(world->env.clock) + 1000 * rk_param_int(step, "grace_s");
	struct rk_vm_job j;
	bool running;
	int rc = ours_and_running(world, step, &j, &running, err);

	if (rc || !running)
		return rc;
	if (rk_param_int(step, "grace_s"))
		rc = rk_reread_gone(world->hv->ops->shutdown(world->hv, j.tray, j.domain, err), err);
	if (!rc)
		rc = unseen(await_off(world, step, deadline, &j, &running, err), err);
	if (rc || !running)
		return rc;
	if (rk_param_int(step, "hard"))
		return stop(world, step, err);
	rk_err_set(err, RK_FAILED, "the guest did not shut down within %ld s", rk_param_int(step, "grace_s"));
	rk_err_hint(err, "--hard turns it off after that time");
	return RK_FAILED;
}

static int set_state(struct rk_world *world, struct rk_step *step, enum rk_vm_state state, struct rk_err *err)
{
	return rk_store_set_vm_state(world->store, rk_param(step, "vm"), state, err);
}

static int halt_settle(struct rk_world *world, struct rk_step *step, bool undone, struct rk_err *err)
{
	return undone ? 0 : set_state(world, step, RK_VM_STOPPED, err);
}

/* Stopped on the way out of a cluster; one that ran is started again when that is taken back. */
static int park_probe(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	int rc = rk_leave_behind(world, step, "its guest was not seen", dead_probe(world, step, ret, err), err);

	if (!rc)
		step->before = *ret ? "{\"ran\":0}" : step->n_left ? "{\"ran\":-1}" : "{\"ran\":1}";
	return rc;
}

/* A guest that is there, before it is stopped or started: without one of its devices it would not come up again. */
static int see_devices(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct rk_vm_job j;
	struct rk_hv_domain domain;
	rk_xml *doc RK_CLEANUP_XML = NULL;
	int rc = rk_vm_job_domain(world, step, &j, &domain, err);

	if (rc || !domain.exists || !domain.xml)
		return rc;
	rc = rk_xml_parse("the domain", domain.xml, &doc, err);
	return rc ? rc : rk_check_hostdevs(world, step, &j, rk_xroot(doc), err);
}

static bool ran(const struct rk_step *step)
{
	return step->before && strstr(step->before, "\"ran\":1");
}

static int park_undo(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	return ran(step) ? start_apply(world, step, err) : 0;
}

static int park_settle(struct rk_world *world, struct rk_step *step, bool undone, struct rk_err *err)
{
	bool unseen_before = step->before && strstr(step->before, "\"ran\":-1");
	enum rk_vm_state before = unseen_before ? RK_VM_UNKNOWN : ran(step) ? RK_VM_RUNNING : RK_VM_STOPPED;

	return set_state(world, step, undone ? before : step->n_left ? RK_VM_UNKNOWN : RK_VM_STOPPED, err);
}

const struct rk_step_kind rk_power_steps[] = {
	{ .name = "vm.start", .summary = "start the guest", .deadline_ms = 600000, .probe = start_probe, .apply = start_apply, .undo = start_undo, .settle = rk_away_settle },
	{ .name = "vm.devices", .summary = "see that the tray has every device of the guest", .deadline_ms = 60000, .apply = see_devices },
	{ .name = "vm.boot", .summary = "start the guest again", .deadline_ms = 600000, .probe = start_probe, .apply = start_apply },
	{ .name = "vm.halt", .summary = "shut the guest down", .deadline_ms = 120000, .apply = halt, .settle = halt_settle },
	{ .name = "vm.park", .summary = "stop the guest and see it dead", .deadline_ms = 120000, .probe = park_probe, .apply = stop_away, .undo = park_undo, .settle = park_settle },
	{ .name = "vm.stop", .summary = "stop the guest and see it dead", .deadline_ms = 120000, .apply = stop_away },
	{ .name = "vm.scrub", .summary = "erase the tray's drives, see its devices reset", .deadline_ms = 600000, .final = true, .apply = scrub_away, .settle = rk_away_settle },
	{ .name = "vm.undefine", .summary = "undefine the domain", .deadline_ms = 120000, .final = true, .apply = undefine, .settle = rk_away_settle },
	{ .name = "tray.drain", .summary = "empty and erase the tray, keep it out of service", .deadline_ms = 120000, .final = true, .apply = drain, .settle = drain_settle },
	{ .name = NULL },
};
