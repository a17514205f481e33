#include <stdio.h>
#include <string.h>

#include "provision/health/health.h"
#include "provision/steps.h"

/* The IMEX node list of guests: the same, in the same order, on every VM of an NVLink partition. */

enum { TAKE_TRIES = 4, TAKE_POLL_MS = 1000 };

#define NODES_FILE "/etc/nvidia-imex/nodes_config.cfg"

/* The list goes in as arguments. The daemon reads it again on SIGUSR1. Without a daemon there is nobody to tell: it reads the list when it starts.
 * pkill's status 1 says so, or, where there is no pkill, systemd's 3. Anything else may be a daemon that keeps the old list. */
const char rk_imex_write_script[] =
	"set -e\n"
	"run=\n"
	"[ \"$(id -u)\" = 0 ] || run='sudo -n'\n"
	"printf '%s\\n' \"$@\" | $run tee " NODES_FILE ".new >/dev/null\n"
	"$run mv " NODES_FILE ".new " NODES_FILE "\n"
	"unit=nvidia-imex.service\n"
	"$run systemctl kill -s USR1 $unit 2>/dev/null || $run pkill -USR1 -x nvidia-imex || [ $? = 1 ] ||\n"
	"	{ $run systemctl is-active -q $unit >/dev/null; [ $? = 3 ]; } || {\n"
	"	echo 'nvidia-imex could not be told to read it again' >&2\n"
	"	exit 1\n"
	"}\n";

static int read_nodes(struct rk_world *world, struct rk_step *step, const char **ret, struct rk_err *err)
{
	static const char *const argv[] = { "cat", NODES_FILE, NULL };
	struct rk_ssh_result result = { .status = -1 };
	int rc = rk_run_in_guest(world, step, argv, &result, err);

	/* A guest without the file has an empty list. */
	if (!rc)
		*ret = rk_arena_strdup(step->arena, result.status == 0 ? rk_str_text(&result.out) : "");
	rk_ssh_result_clear(&result);
	return rc;
}

/* The wanted list as the file holds it. */
static const char *wanted_nodes(struct rk_step *step, const struct rk_jnode *list)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	RK_JEACH(it, list)
		rk_str_addf(&text, "%s\n", rk_jstr(it) ? rk_jstr(it) : "");
	return rk_arena_strdup(step->arena, rk_str_text(&text));
}

static const char *nodes_json(struct rk_step *step, const char *text)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_jw w;

	rk_jw_init(&w, &out, 0);
	rk_jw_array(&w);
	for (size_t n; *text; text += n + (text[n] == '\n')) {
		n = strcspn(text, "\n");
		rk_jw_strn(&w, text, n);
	}
	rk_jw_end(&w);
	return rk_arena_strdup(step->arena, rk_str_text(&out));
}

static int imex_probe(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	const char *now = NULL;
	int rc = read_nodes(world, step, &now, err);

	if (rc)
		return rc;
	step->before = nodes_json(step, now);
	*ret = rk_streq(now, wanted_nodes(step, rk_jget(step->params, "nodes")));
	return 0;
}

/* What was said last says what stopped it. */
static const char *last_line(struct rk_step *step, const char *text)
{
	size_t end = strlen(text);

	while (end && text[end - 1] == '\n')
		end--;
	size_t from = end;
	while (from && text[from - 1] != '\n')
		from--;
	return rk_arena_strndup(step->arena, text + from, end - from);
}

static int write_nodes(struct rk_world *world, struct rk_step *step, const struct rk_jnode *list, struct rk_err *err)
{
	const char **argv = rk_arena_array(step->arena, 5 + (list ? list->n : 0), sizeof(*argv));
	struct rk_ssh_result result = { .status = -1 };
	const char *now = "";
	size_t n = 0;

	argv[n++] = "sh";
	argv[n++] = "-c";
	argv[n++] = rk_imex_write_script;
	argv[n++] = "sh";
	RK_JEACH(it, list)
		argv[n++] = rk_jstr(it);
	int rc = rk_run_in_guest(world, step, argv, &result, err);
	if (!rc && result.status)
		rc = rk_err_set(err, RK_FAILED, "the guest could not write " NODES_FILE " and use it: exit status %d: %s", result.status,
				last_line(step, rk_str_text(&result.err)));
	rk_ssh_result_clear(&result);
	if (!rc)
		rc = read_nodes(world, step, &now, err);
	if (!rc && !rk_streq(now, wanted_nodes(step, list)))
		rc = rk_err_set(err, RK_FAILED, "the guest's " NODES_FILE " is not what was written");
	return rc;
}

/* ---- does the daemon go by it? ------------------------------------------------------------------------------------------------------ */

/* Hosts of the daemon's node list, in its order, as the file would have them. */
static void nodes_of_daemon(const struct rk_metrics *m, struct rk_str *ret)
{
	char label[24];
	const struct rk_metric *host;

	for (int i = 0; snprintf(label, sizeof(label), "node=%d", i) > 0 && (host = rk_metric_find(m, "imex.node.host", label)) && host->type == RK_METRIC_TEXT; i++)
		rk_str_addf(ret, "%s\n", host->text);
}

/* *ret: 1 the daemon has the list, 0 it has another one; -1: it cannot be told, because there is no such tool or it does not say. The list itself is
 * written and read back by then, so that not knowing more is no failure. */
static int daemon_has(struct rk_world *world, struct rk_step *step, const char *list, int *ret, struct rk_err *err)
{
	const struct rk_collector *collector = rk_collector_find("imex-nodes");
	const char *const argv[] = { "sh", "-c", collector->command, NULL };
	struct rk_ssh_result result = { .status = -1 };
	struct rk_str has RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_metrics m = { .arena = arena };
	char status[16];
	int rc = rk_run_in_guest(world, step, argv, &result, err);

	snprintf(status, sizeof(status), "%d", result.status);
	const struct rk_evidence e = { .collector = collector->name, .out = rk_str_text(&result.out), .out_len = result.out.len, .err = rk_str_text(&result.err),
				       .err_len = result.err.len, .status = status };
	if (!rc && result.status == 0)
		collector->parse(&e, &m);
	nodes_of_daemon(&m, &has);
	*ret = !has.len ? -1 : rk_streq(rk_str_text(&has), list);
	rk_ssh_result_clear(&result);
	if (rc == RK_CANCELLED)
		return rc;
	rk_err_clear(err);
	return 0;
}

static int daemon_took_it(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	int has = 0, rc = daemon_has(world, step, step->data, &has, err);

	*ret = has != 0;
	return rc;
}

/* Asks the guest itself what computes on its GPUs: a restart of the daemon would end it. Only a plain "nothing" is taken for that. */
static bool jobs_run(struct rk_world *world, struct rk_step *step)
{
	static const char *const argv[] = { "nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader", NULL };
	struct rk_ssh_result result = { .status = -1 };
	bool run = rk_run_in_guest(world, step, argv, &result, NULL) != 0 || result.status != 0 || result.out.len != 0;

	rk_ssh_result_clear(&result);
	return run;
}

static int restart(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	static const char *const argv[] = { "sh", "-c", "[ \"$(id -u)\" = 0 ] || run='sudo -n'; ${run-} systemctl restart nvidia-imex.service", NULL };
	struct rk_ssh_result result = { .status = -1 };
	int rc = rk_run_in_guest(world, step, argv, &result, err);

	if (!rc && result.status)
		rc = rk_err_set(err, RK_FAILED, "the guest could not restart nvidia-imex: exit status %d: %.*s", result.status,
				(int)strcspn(rk_str_text(&result.err), "\n"), rk_str_text(&result.err));
	rk_ssh_result_clear(&result);
	return rc;
}

/* A daemon that keeps its former list needs a restart. While jobs run that is for somebody to decide; the gate says what is missing meanwhile. */
static int make_it_take(struct rk_world *world, struct rk_step *step, const struct rk_jnode *list, struct rk_err *err)
{
	const char *wanted = wanted_nodes(step, list);
	int has = 0, rc = 0;

	for (int i = 0; !rc && has != 1 && has != -1 && i < TAKE_TRIES; i++) {
		if (i)
			rk_clock_sleep_ms(world->env.clock, TAKE_POLL_MS);
		rc = daemon_has(world, step, wanted, &has, err);
	}
	if (rc || has)
		return rc;
	if (jobs_run(world, step)) {
		step->note = "nvidia-imex keeps its former node list: restart it when the jobs on these GPUs are over";
		return 0;
	}
	rc = restart(world, step, err);
	step->note = "nvidia-imex was restarted: it kept its former node list, and no job ran";
	step->data = (void *)wanted;
	return rc ? rc : rk_wait_until(world, step, "nvidia-imex to have its node list", daemon_took_it, err);
}

static int put_nodes(struct rk_world *world, struct rk_step *step, const struct rk_jnode *list, struct rk_err *err)
{
	int rc = write_nodes(world, step, list, err);

	return rc ? rc : make_it_take(world, step, list, err);
}

static int imex_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	return put_nodes(world, step, rk_jget(step->params, "nodes"), err);
}

static int imex_undo(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	int rc = step->before ? rk_json_parse("before", step->before, strlen(step->before), &json, err) : 0;

	return rc || !json ? rc : put_nodes(world, step, rk_json_root(json), err);
}

const struct rk_step_kind rk_imex_steps[] = {
	{ .name = "imex.nodes", .summary = "write the IMEX node list and let the daemon read it", .deadline_ms = 60000, .probe = imex_probe, .apply = imex_apply, .undo = imex_undo },
	{ .name = NULL },
};
