#include <stdio.h>
#include <string.h>

#include "provision/health/history.h"
#include "provision/health/memory.h"
#include "provision/health/run.h"
#include "provision/steps.h"

/* What is done inside guests, over SSH with their pinned host keys. */

enum { GATE_POLL_MS = 5000 };

int rk_run_in_guest(struct rk_world *world, struct rk_step *step, const char *const *argv, struct rk_ssh_result *result, struct rk_err *err)
{
	struct rk_vm_conn *conn = NULL;
	int vm, rc = rk_param_vm(world, step, &vm, err);

	if (!rc)
		rc = rk_vm_connect(world, vm, 0, &conn, err);
	if (!rc)
		rc = rk_vm_run(conn, argv, result, err);
	rk_vm_close(conn);
	return rc;
}

static int ssh_seen(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	static const char *const argv[] = { "true", NULL };
	struct rk_ssh_result result = { .status = -1 };
	int rc = rk_run_in_guest(world, step, argv, &result, err);

	*ret = !rc && result.status == 0;
	rk_ssh_result_clear(&result);
	return rc;
}

static int ssh_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	return rk_wait_until(world, step, "the guest's SSH with its pinned host key", ssh_seen, err);
}

static int ssh_settle(struct rk_world *world, struct rk_step *step, bool undone, struct rk_err *err)
{
	return undone ? 0 : rk_store_set_vm_state(world->store, rk_param(step, "vm"), RK_VM_RUNNING, err);
}

/* ---- the gate ----------------------------------------------------------------------------------------------------------------------- */

struct gate {
	struct rk_spec *spec;
	const char *level;
	int *vms;
	size_t n;
	struct rk_hprofile *profile;
};

/* The VMs of the cluster that are meant to run. */
static int gate_of(struct rk_world *world, struct rk_step *step, struct gate *g, struct rk_err *err)
{
	const struct rk_site *site = world->site;
	int at = rk_find_cluster(site, rk_param(step, "cluster"));

	if (at < 0)
		return rk_err_set(err, RK_NOT_FOUND, "no cluster \"%s\" in the store", rk_param(step, "cluster"));
	const struct rk_cluster *c = &site->clusters[at];
	*g = (struct gate){ .vms = rk_arena_array(step->arena, (size_t)c->n_vms, sizeof(*g->vms)) };
	for (int v = c->first_vm; v < c->first_vm + c->n_vms; v++)
		if (site->vms[v].state != RK_VM_STOPPED)
			g->vms[g->n++] = v;
	int rc = rk_spec_parse("spec", c->spec, strlen(c->spec), step->arena, &g->spec, err);
	if (rc || !g->n)
		return rc;
	g->level = g->spec->validation.level ? g->spec->validation.level : "quick";
	return rk_hprofile_load(g->spec->validation.profile ? g->spec->validation.profile : rk_hprofile_for(site, g->vms[0]), &g->profile, err);
}

static const char *validation_json(const struct rk_site *site, struct rk_step *step, const struct rk_report *report)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	int cluster = rk_find_cluster(site, rk_param(step, "cluster"));

	rk_history_add(report, cluster < 0 ? NULL : site->clusters[cluster].validation, &out);
	return rk_arena_strdup(step->arena, rk_str_text(&out));
}

static const char *say_verdict(struct rk_step *step, const struct rk_report *r)
{
	const char *why = r->n_root_causes ? r->root_causes[0] : "";

	for (size_t i = 0; !*why && i < r->n_checks; i++)
		if (!rk_streq(r->checks[i].verdict, "pass") && !rk_streq(r->checks[i].verdict, "skipped"))
			why = rk_arena_printf(step->arena, "%s on %s: %s", r->checks[i].id, r->checks[i].folded, r->checks[i].message ? r->checks[i].message : "");
	return rk_arena_printf(step->arena, "%s%s%s", r->verdict, *why ? ": " : "", why);
}

static int judge_now(struct rk_world *world, struct rk_step *step, const struct gate *g, struct rk_report *report, struct rk_err *err)
{
	struct rk_target *targets;
	/* The wall clock, as in rk_validate: both write into the history of the cluster, and a twin's clock runs ahead of it. */
	int64_t started = rk_clock_unix_ms(NULL);
	int rc = rk_collect(world, g->profile, g->level, 0, g->vms, g->n, step->arena, &targets, err);

	if (!rc)
		rc = rk_judge(g->profile, g->level, targets, g->n, step->arena, report, err);
	if (!rc)
		report->started_ms = started;
	return rc;
}

/* For the validations to come; trays with a fault that asks for it are cordoned when the site says so. Neither makes the step fail. */
static void keep_findings(struct rk_world *world, struct rk_step *step, const struct rk_report *report)
{
	const char *why, *done, *trays = rk_report_cordon(report, step->arena, &why);

	rk_health_remember(world->store, report, NULL);
	if (trays && rk_health_cordons(world->site))
		rk_health_cordon(world, trays, why, report->targets, false, step->arena, &done, NULL);
}

/* Drivers and IMEX take their time after a boot: asked again until it passes or the deadline is over. What was seen last is the verdict; it
 * makes the cluster degraded, not undone, because what it says has to be looked at where it happens. */
static int gate_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	struct rk_clock *clock = world->env.clock;
	int64_t deadline = rk_clock_ms(clock) + step->kind->deadline_ms;
	struct rk_report report = { .verdict = "skipped" };
	struct gate g = { .profile = NULL };
	int rc = gate_of(world, step, &g, err);

	while (!rc && g.n) {
		rc = judge_now(world, step, &g, &report, err);
		if (rc || !rk_report_rc(&report, false) || rk_clock_ms(clock) >= deadline)
			break;
		if (world->cancel && *world->cancel)
			rc = rk_err_set(err, RK_CANCELLED, "cancelled while waiting for the validation to pass");
		else
			rk_clock_sleep_ms(clock, GATE_POLL_MS);
	}
	rk_hprofile_free(g.profile);
	if (rc)
		return rc;
	if (g.n)
		keep_findings(world, step, &report);
	step->data = g.n ? (void *)validation_json(world->site, step, &report) : NULL;
	step->note = say_verdict(step, &report);
	return 0;
}

static int gate_settle(struct rk_world *world, struct rk_step *step, bool undone, struct rk_err *err)
{
	return undone || !step->data ? 0 : rk_store_set_cluster_validation(world->store, rk_param(step, "cluster"), step->data, err);
}

const struct rk_step_kind rk_guest_steps[] = {
	{ .name = "vm.ssh", .summary = "wait for SSH with the pinned host key", .deadline_ms = 300000, .apply = ssh_apply, .settle = ssh_settle },
	{ .name = "fabric.gate", .summary = "validate what the guests see of their fabrics", .deadline_ms = 60000, .apply = gate_apply, .settle = gate_settle },
	{ .name = NULL },
};
