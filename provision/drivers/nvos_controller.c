#include "provision/drivers/nvos_impl.h"

#include <string.h>

#include "provision/drivers/nvos_parse.h"

/* Talking to the switches of a rack, and finding the one of them that runs the NMX controller. */

int rk_nvos_run(struct rk_nvl_driver *nvos, int rack, size_t index, enum rk_nvos_command command, const struct rk_nvos_args *args, struct rk_arena *arena,
		  struct rk_ssh_result *result, struct rk_err *err)
{
	const struct rk_rack *r = rk_nvl_rack(nvos, rack);
	struct rk_ssh_limits limits = { .command_ms = nvos->env.timeout_ms, .idle_ms = nvos->env.timeout_ms };
	struct rk_driver_env env = nvos->env;
	const char *argv[RK_NVOS_WORDS];

	env.site = nvos->nvl.site;
	rk_nvos_argv(rk_nvos_state(nvos, rack)->dialect, command, args, arena, argv);
	return rk_session_run(&rk_nvos_state(nvos, rack)->session, &env, &r->nvlink, index, r->n_trays ? r->first_tray : RK_NONE, &limits, argv, NULL, 0, result, err);
}

const char *rk_nvos_said(struct rk_arena *arena, const struct rk_ssh_result *r)
{
	const char *out = rk_str_text(&r->out), *error = strstr(out, "Error:");

	if (error && strstr(error, "issue:") && strchr(error, '\n'))
		error = strchr(error, '\n');
	return rk_first_line(arena, error ? error : r->err.len ? rk_str_text(&r->err) : out);
}

int rk_nvos_show(struct rk_nvl_driver *nvos, int rack, size_t index, enum rk_nvos_command command, const struct rk_nvos_args *args, struct rk_arena *arena,
		   const char **ret, struct rk_err *err)
{
	struct rk_ssh_result result;
	size_t len;
	int rc = rk_nvos_run(nvos, rack, index, command, args, arena, &result, err);

	if (rc == 0) {
		enum rk_nvos_answer answer = rk_nvos_classify(result.status, rk_str_text(&result.out), rk_str_text(&result.err));
		bool json = rk_nvos_json(rk_str_text(&result.out), &len) != NULL;
		if (answer == RK_NVOS_ABSENT && !json)
			rc = rk_err_set(err, RK_NOT_FOUND, "it does not exist");
		else if (result.truncated || result.status != 0 || (answer != RK_NVOS_ODD && answer != RK_NVOS_DONE && !json))
			rc = rk_err_set(err, RK_UNREACHABLE, "the switch answered: %s", rk_nvos_said(arena, &result));
		else
			*ret = rk_arena_strdup(arena, rk_str_text(&result.out));
	}
	rk_ssh_result_clear(&result);
	return rc;
}

/* What a switch tray says of the controller: 0 it runs here, RK_NOT_FOUND not here, RK_UNHEALTHY here but not working, RK_UNREACHABLE. */
static int ask_for_controller(struct rk_nvl_driver *nvos, int rack, size_t index, struct rk_arena *arena, struct rk_err *err)
{
	static const struct rk_nvos_args none;
	const char *text;
	int rc = rk_nvos_show(nvos, rack, index, RK_NVOS_SHOW_APPS, &none, arena, &text, err);

	return rc ? rc : rk_nvos_apps(text, err);
}

/* Among several switch trays one runs the controller, and which one may change. The worst that was heard is told when none does. */
static int find_controller(struct rk_nvl_driver *nvos, int rack, struct rk_arena *arena, struct rk_err *err)
{
	struct rk_nvos_rack *state = rk_nvos_state(nvos, rack);
	const struct rk_manager *manager = &rk_nvl_rack(nvos, rack)->nvlink;
	struct rk_err worst RK_CLEANUP_ERR = RK_ERR_INIT;
	size_t without = 0;

	for (size_t i = 0; i < manager->n_ssh; i++) {
		struct rk_err one RK_CLEANUP_ERR = RK_ERR_INIT;
		int rc = ask_for_controller(nvos, rack, i, arena, &one);
		if (rc == 0 || rc == RK_CANCELLED) {
			state->controller = rc ? RK_NVOS_NOBODY : (int)i;
			rk_err_move(err, &one);
			return rc;
		}
		without += rc == RK_NOT_FOUND;
		rk_err_while(&one, "switch %s", manager->ssh[i]);
		/* A controller that is there and does not work says more than a switch that does not answer. */
		if (!worst.rc || worst.rc == RK_NOT_FOUND || (rc == RK_UNHEALTHY && worst.rc == RK_UNREACHABLE))
			rk_err_move(&worst, &one);
	}
	if (without == manager->n_ssh) {
		rk_err_set(err, RK_UNHEALTHY, "none of the %zu switches runs the NMX controller: not configured, or not started", without);
		rk_err_hint(err, "nv action start cluster apps nmx-controller on one of them");
		return RK_UNHEALTHY;
	}
	int rc = worst.rc;
	rk_err_move(err, &worst);
	return rc;
}

int rk_nvos_know_controller(struct rk_nvl_driver *nvos, int rack, struct rk_arena *arena, struct rk_err *err)
{
	struct rk_nvos_rack *state = rk_nvos_state(nvos, rack);
	size_t n = rk_nvl_rack(nvos, rack)->nvlink.n_ssh;

	if (n == 0)
		return rk_err_set(err, RK_INVALID, "the site file names no NVLink switch (nvlink.ssh)");
	if (n == 1)
		state->controller = 0;
	return state->controller == RK_NVOS_NOBODY ? find_controller(nvos, rack, arena, err) : 0;
}

/* A cluster that is set up but not saved is gone with the next reboot of the switch. Releases that cannot tell are taken at their word. */
static int check_saved(struct rk_nvl_driver *nvos, int rack, struct rk_arena *arena, struct rk_err *err)
{
	static const struct rk_nvos_args none;
	struct rk_err ignored RK_CLEANUP_ERR = RK_ERR_INIT;
	const char *text;

	if (rk_nvos_show(nvos, rack, rk_nvos_controller(nvos, rack), RK_NVOS_SHOW_UNSAVED, &none, arena, &text, &ignored) != 0 || !rk_nvos_unsaved(text))
		return 0;
	rk_err_set(err, RK_UNHEALTHY, "the configuration of the NVLink cluster is not saved: the switch forgets it when it is restarted");
	rk_err_hint(err, "nv config save on %s", rk_nvl_rack(nvos, rack)->nvlink.ssh[rk_nvos_controller(nvos, rack)]);
	return RK_UNHEALTHY;
}

/* Its cluster is on, so it was configured, and the controller runs somewhere else: only this switch is named, or the other ones do not have it either. */
static int not_here(struct rk_nvl_driver *nvos, int rack, struct rk_err *err)
{
	const struct rk_manager *m = &rk_nvl_rack(nvos, rack)->nvlink;

	rk_err_set(err, RK_UNHEALTHY, "%s does not run the NMX controller, though its cluster is enabled: it moved to another switch, or is not installed",
		   m->ssh[rk_nvos_controller(nvos, rack)]);
	if (m->n_ssh == 1)
		rk_err_hint(err, "name all switches of the rack in nvlink.ssh of the site file, and the one with the controller is found");
	return RK_UNHEALTHY;
}

int rk_nvos_health(struct rk_nvl *nvl, int rack, struct rk_arena *arena, const char **ret_where, struct rk_err *err)
{
	struct rk_nvl_driver *nvos = (struct rk_nvl_driver *)nvl;
	static const struct rk_nvos_args none;
	const char *text;

	*ret_where = NULL;
	rk_nvl_enter(nvos, rack);
	int rc = rk_nvos_know_controller(nvos, rack, arena, err);
	if (rc == 0 && (rc = rk_nvos_show(nvos, rack, rk_nvos_controller(nvos, rack), RK_NVOS_SHOW_CLUSTER, &none, arena, &text, err)) == 0)
		rc = rk_nvos_cluster(text, err);
	if (rc == 0 && (rc = ask_for_controller(nvos, rack, rk_nvos_controller(nvos, rack), arena, err)) == RK_NOT_FOUND)
		rc = not_here(nvos, rack, err);
	if (rc == 0) {
		*ret_where = rk_arena_strdup(arena, rk_nvl_rack(nvos, rack)->nvlink.ssh[rk_nvos_controller(nvos, rack)]);
		rc = check_saved(nvos, rack, arena, err);
	}
	return rk_nvl_leave(nvos, rack, rc, err);
}
