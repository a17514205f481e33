#include <string.h>
#include <unistd.h>

#include "cli/cmds/common.h"
#include "provision/health/history.h"
#include "provision/health/memory.h"
#include "provision/health/report.h"
#include "provision/health/run.h"

static const struct rk_argdef options[] = {
	{ "level", RK_ARG_ENUM, false, false, "how much is asked: each level includes the one before", "quick|standard|deep" },
	{ "profile", RK_ARG_PROFILE, false, false, "health profile, by name or file", NULL },
	{ "save", RK_ARG_FOLDER, false, false, "keep the raw answers in this new folder", NULL },
	{ "limit", RK_ARG_TEXT, false, false, "time for one VM (90s, 10m); else 5 times what its probes usually take, at least 3m", NULL },
	{ NULL, RK_ARG_NONE, false, false, NULL, NULL },
};
static const struct rk_argdef replay_options[] = {
	{ "level", RK_ARG_ENUM, false, false, "how much is judged", "quick|standard|deep" },
	{ "profile", RK_ARG_PROFILE, false, false, "health profile, by name or file", NULL },
	{ NULL, RK_ARG_NONE, false, false, NULL, NULL },
};
static const struct rk_column columns[] = {
	{ "verdict", RK_COL_TEXT, false }, { "level", RK_COL_TEXT, false }, { "profile", RK_COL_TEXT, false }, { "started", RK_COL_TIME, false },
	{ "seconds", RK_COL_REAL, false }, { "targets", RK_COL_NUMBER, false }, { "checks", RK_COL_JSON, true }, { "root_causes", RK_COL_LIST, true },
	{ "trends", RK_COL_JSON, true }, { NULL, RK_COL_TEXT, false },
};

static bool is_well(const struct rk_check *check)
{
	return strcmp(check->verdict, "pass") == 0 || (strcmp(check->verdict, "skipped") == 0 && !check->silence);
}

/* Checks of the same targets that nothing was measured for, for the same reason, are one line: a probe that timed out has many. */
static bool same_silence(const struct rk_check *a, const struct rk_check *b)
{
	return !a->expected && !b->expected && a->silence == b->silence && strcmp(a->verdict, b->verdict) == 0 && strcmp(a->folded, b->folded) == 0 && rk_streq(a->value, b->value);
}

static bool same_finding(const struct rk_check *a, const struct rk_check *b)
{
	return strcmp(a->id, b->id) == 0 && strcmp(a->verdict, b->verdict) == 0 && a->silence == b->silence;
}

/* Of more rows of one check than can be read, the rest as one line: a measurement has another value on each target. Returns how many rows it stands for. */
static size_t note_rest(struct rk_call *call, const struct rk_check *checks, size_t at, size_t n)
{
	enum { ROWS_MAX = 8 };
	const char **names;
	size_t first = at, end = at + 1, targets = 0, used = 0;

	if (call->verbose)
		return 0;
	while (first && at - first < ROWS_MAX && same_finding(&checks[first - 1], &checks[at]))
		first--;
	while (end < n && same_finding(&checks[end], &checks[at]))
		end++;
	if (at - first + 1 < ROWS_MAX || end - at < 2)
		return 0;
	for (size_t i = at; i < end; i++)
		targets += checks[i].n_targets;
	names = rk_arena_array(call->arena, targets, sizeof(*names));
	for (size_t i = at; i < end; i++) {
		for (size_t t = 0; t < checks[i].n_targets; t++)
			names[used++] = checks[i].targets[t];
	}
	rk_out_note(call->out, "%-8s %s (%zu): %s: %zu other values (-v lists them)", checks[at].silence ? "silenced" : checks[at].verdict,
		    rk_nodeset_fold(call->arena, names, targets), targets, checks[at].id, end - at);
	return end - at;
}

static void note_silenced(struct rk_call *call, const struct rk_check *c, const char *ids)
{
	rk_out_note(call->out, "silenced %s (%zu): %s: would %s: %s%s%s; %s", c->folded, c->n_targets, ids, c->silenced, c->value ? c->value : "-",
		    c->expected ? ", expected " : "", c->expected ? c->expected : "", rk_report_silence_text(c, call->arena));
}

/* For people: what is not well, in full; what is well or was not run, only with -v. Returns how many checks the lines stand for. */
static size_t note_checks(struct rk_call *call, const struct rk_check *checks, size_t at, size_t n)
{
	struct rk_str ids RK_CLEANUP_STR = RK_STR_INIT;
	const struct rk_check *c = &checks[at];
	size_t same = 1;

	rk_str_add(&ids, c->id);
	for (; at + same < n && same_silence(c, &c[same]); same++)
		rk_str_addf(&ids, " %s", c[same].id);
	if (is_well(c) && !call->verbose)
		return same;
	size_t rest = same == 1 ? note_rest(call, checks, at, n) : 0;
	if (!rest && c->silence)
		note_silenced(call, c, rk_str_text(&ids));
	else if (!rest)
		rk_out_note(call->out, "%-8s %s (%zu): %s: %s%s%s", c->verdict, c->folded, c->n_targets, rk_str_text(&ids), c->value ? c->value : "-",
			    c->expected ? ", expected " : "", c->expected ? c->expected : "");
	same = rest ? rest : same;
	bool last = at + same == n || !same_finding(c, &c[same]);
	if (!is_well(c) && !c->silence && (same == 1 || rest) && last && c->message)
		rk_out_note(call->out, "         wanted: %s%s%s", c->message, c->hint ? "; " : "", c->hint ? c->hint : "");
	return same;
}

/* A pass of which much was not judged is another one than a pass of everything. */
static void note_count(struct rk_call *call, const struct rk_report *r)
{
	size_t passed, not_judged;

	rk_report_count(r, &passed, &not_judged);
	rk_out_note(call->out, "%zu checks passed, %zu were not judged%s", passed, not_judged, not_judged && !call->verbose ? " (-v says why)" : "");
}

/* One sign per tray; of a single target the lines above say it all. */
static void note_map(struct rk_call *call, const struct rk_report *r)
{
	struct rk_str map RK_CLEANUP_STR = RK_STR_INIT;

	if (r->targets < 2)
		return;
	rk_report_map(&map, r);
	rk_out_note(call->out, "%.*s", (int)(map.len - 1), rk_str_text(&map));
}

static void print(struct rk_call *call, const struct rk_report *r)
{
	struct rk_out *out = call->out;

	rk_out_row(out);
	rk_cell_text(out, "verdict", r->verdict);
	rk_cell_text(out, "level", r->level);
	rk_cell_text(out, "profile", r->profile);
	rk_cell_time(out, "started", r->started_ms);
	rk_cell_real(out, "seconds", r->seconds);
	rk_cell_number(out, "targets", (long long)r->targets);
	rk_report_checks_json(rk_cell_json(out, "checks"), r);
	rk_cell_list(out, "root_causes", r->root_causes, r->n_root_causes);
	rk_report_trends_json(rk_cell_json(out, "trends"), r);
	for (size_t i = 0; i < r->n_root_causes; i++)
		rk_out_note(out, "root cause %zu: %s", i + 1, r->root_causes[i]);
	for (size_t i = 0; i < r->n_checks;)
		i += note_checks(call, r->checks, i, r->n_checks);
	for (size_t i = 0; i < r->n_trends; i++)
		rk_out_note(out, "trend: %s", rk_report_trend_text(&r->trends[i], call->arena));
	note_count(call, r);
	note_map(call, r);
}

/* -y, or a yes on the terminal. JSON is read by a program, which decides by itself. */
static bool agreed(struct rk_call *call, const char *trays, const char *why)
{
	bool terminal = isatty(STDIN_FILENO) && isatty(STDERR_FILENO), asks = !call->yes && !call->world->no_notes && terminal;

	if (call->json || (!call->yes && !asks))
		return false;
	/* What was found stands on the screen before anybody is asked about it. */
	if (asks)
		call->emit(call);
	return rk_app_confirm(call->app, rk_arena_printf(call->arena, "tray cordon %s --reason 'health: %s'", trays, why), call->yes, NULL) == 0;
}

static void note_to_do(struct rk_call *call, const char *trays, const char *why)
{
	rk_out_note(call->out, "to do: tray cordon %s --reason '%s'", trays, why);
}

/* Trays that a failed check asks to cordon: done when the site says so or somebody says yes, else said. Those that bear a mark already need neither. */
static int cordon(struct rk_call *call, const char *trays, const char *why, size_t targets, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;
	bool own = rk_health_cordons(site);
	const char *left = rk_health_to_cordon(site, trays, targets, true, call->arena), *said = own ? ", as the site says" : "";

	if (!left)
		return 0;
	bool asked = !own && agreed(call, left, why);
	const char *done = own || asked ? rk_health_to_cordon(site, trays, targets, asked, call->arena) : NULL;
	int rc = done && !call->world->no_notes ? rk_health_cordon(call->world, trays, why, targets, asked, call->arena, &done, err) : 0;
	if (rc || !done)
		note_to_do(call, left, why);
	else
		rk_out_note(call->out, "%s: %s (%s)%s", call->world->no_notes ? "would cordon" : "cordoned", done, why, said);
	return rc ? rk_err_while(err, "not cordoned: %s", left) : 0;
}

/* A result is printed in any case; a bad one also sets the exit code, with a sentence for stderr. */
static int finish(struct rk_call *call, const struct rk_report *r, struct rk_err *err)
{
	int rc = rk_report_rc(r, call->strict);

	print(call, r);
	return rc ? rk_err_set(err, rc, "validation of %zu targets: %s", r->targets, r->verdict) : 0;
}

/* The state that a cluster of this spec gets by the verdict, as by the gate of an operation. Unknown changes nothing, and another level or profile than
 * the spec's can find a cluster bad but not good. */
static enum rk_cluster_state judged(struct rk_call *call, const struct rk_cluster *c, const char *verdict)
{
	bool own = !rk_call_arg(call, "level") && !rk_call_arg(call, "profile");
	bool passed = strcmp(verdict, "pass") == 0 || strcmp(verdict, "warn") == 0;
	struct rk_spec *spec;

	if (c->op || !c->spec || rk_spec_parse(c->name, c->spec, strlen(c->spec), call->arena, &spec, NULL) || !spec->validation.required)
		return c->state;
	if (c->state == RK_CLUSTER_READY && strcmp(verdict, "fail") == 0)
		return RK_CLUSTER_DEGRADED;
	return c->state == RK_CLUSTER_DEGRADED && passed && own ? RK_CLUSTER_READY : c->state;
}

/* The cluster keeps the last word on all of it; a look at some of its VMs is not that. */
static bool keeps_verdict(const struct rk_call *call)
{
	return strcmp(call->command->verb, "cluster") == 0 && !call->except;
}

static int keep_verdict(struct rk_call *call, const char *name, enum rk_cluster_state was, enum rk_cluster_state state, const char *json, struct rk_err *err)
{
	struct rk_store *store = call->world->store;
	const char *now = rk_cluster_state_name(state), *before = rk_cluster_state_name(was);
	bool writes = !call->world->no_notes;

	int rc = writes ? rk_store_set_cluster_validation(store, name, json, err) : 0;
	if (!rc && writes && state != was)
		rc = rk_store_set_cluster_state(store, name, state, 0, err);
	if (!rc && state != was)
		rk_out_note(call->out, writes ? "cluster %s was %s and is %s now: its spec requires the validation" : "cluster %s is %s and would be %s: its spec requires the validation",
			    name, before, now);
	return rc;
}

static int remember(struct rk_call *call, const struct rk_report *report, struct rk_err *err)
{
	return call->world->no_notes ? 0 : rk_health_remember(call->world->store, report, err);
}

/* What is written down. The snapshot that the report is about ends when the store is opened to write: what is needed of it is copied before. */
static int keep(struct rk_call *call, int cluster, const struct rk_report *report, struct rk_err *err)
{
	struct rk_str json RK_CLEANUP_STR = RK_STR_INIT;
	const struct rk_cluster *c = &call->world->site->clusters[cluster];
	const char *name = rk_arena_strdup(call->arena, c->name), *why, *trays = rk_report_cordon(report, call->arena, &why);
	enum rk_cluster_state was = c->state, state = judged(call, c, report->verdict);
	size_t targets = report->targets;

	if (keeps_verdict(call)) {
		rk_history_add(report, c->validation, &json);
		for (const char **note = rk_history_notes(rk_str_text(&json), call->arena); *note; note++)
			rk_out_note(call->out, "%s", *note);
	}
	int rc = remember(call, report, err);
	if (!rc)
		rc = rk_app_world(call->app, !call->world->no_notes, err);
	if (!rc && keeps_verdict(call))
		rc = keep_verdict(call, name, was, state, rk_str_text(&json), err);
	if (rc)
		rk_err_while(err, "the verdict was not written down");
	if (rc && trays)
		note_to_do(call, trays, why);
	return rc || !trays ? rc : cordon(call, trays, why, targets, err);
}

static int validate(struct rk_call *call, const int *vms, size_t n, struct rk_err *err)
{
	const char *save = rk_call_arg(call, "save");
	struct rk_validate_opts opts = { rk_call_arg(call, "level"), rk_call_arg(call, "profile"), call->dry_run ? NULL : save, 0 };
	RK_CLEANUP_ERR struct rk_err lost = RK_ERR_INIT;
	struct rk_report report;
	const char *limit = rk_call_arg(call, "limit");
	int rc = limit ? rk_duration_ms("limit", limit, &opts.total_ms, err) : 0;

	if (!rc)
		rc = rk_validate(call->world, &opts, vms, n, call->arena, &report, err);
	if (rc)
		return rc;
	/* What is there is shown; a verdict on a part of it is none on the cluster. */
	if (*call->world->cancel) {
		print(call, &report);
		return rk_err_set(err, RK_CANCELLED, "cancelled: the verdict is of what had answered");
	}
	rc = finish(call, &report, err);
	if (call->dry_run)
		rk_out_note(call->out, "dry run: nothing of this is written down%s%s", save ? ", nor kept in " : "", save ? save : "");
	int kept = keep(call, call->world->site->vms[vms[0]].cluster, &report, &lost);
	if (kept && rc)
		rk_err_detail(err, "%s", lost.message);
	else if (kept)
		rk_err_move(err, &lost);
	return rc ? rc : kept;
}

static int run_vms(struct rk_call *call, const char *selection, struct rk_err *err)
{
	int *vms;
	size_t n;
	int rc = rk_select_vms(call->world->site, selection, call->except, call->arena, &vms, &n, err);

	return rc ? rc : validate(call, vms, n, err);
}

/* The VMs on the trays; a tray without one has nobody to ask. */
static int run_trays(struct rk_call *call, const char *selection, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;
	int *trays;
	size_t n, used = 0;
	int rc = rk_select_trays(site, selection, call->except, call->arena, &trays, &n, err);

	for (size_t i = 0; !rc && i < n; i++) {
		if (site->trays[trays[i]].vm >= 0)
			trays[used++] = site->trays[trays[i]].vm;
	}
	if (!rc && !used)
		return rk_err_set(err, RK_NOT_FOUND, "no VM runs on \"%s\"", selection);
	return rc ? rc : validate(call, trays, used, err);
}

static int run_vm(struct rk_call *call, struct rk_err *err)
{
	return run_vms(call, rk_call_arg(call, "SEL"), err);
}

static int run_tray(struct rk_call *call, struct rk_err *err)
{
	return run_trays(call, rk_call_arg(call, "SEL"), err);
}

static int run_rack(struct rk_call *call, struct rk_err *err)
{
	return run_trays(call, rk_arena_printf(call->arena, "@rack:%s", rk_call_arg(call, "R")), err);
}

static int run_cluster(struct rk_call *call, struct rk_err *err)
{
	const char *name = rk_call_arg(call, "C");

	int at, rc = rk_get_cluster(call, name, &at, err);
	return rc ? rc : run_vms(call, rk_arena_printf(call->arena, "@cluster:%s", name), err);
}

static int run_replay(struct rk_call *call, struct rk_err *err)
{
	struct rk_report report;
	int rc = rk_validate_replay(rk_call_arg(call, "DIR"), rk_call_arg(call, "level"), rk_call_arg(call, "profile"), call->arena, &report, err);

	if (rc)
		return rc;
	rc = finish(call, &report, err);
	const char *why, *trays = rk_report_cordon(&report, call->arena, &why);
	if (trays)
		rk_out_note(call->out, "to do: tray cordon %s --reason '%s'", trays, why);
	return rc;
}

#define ONE_ARG(name, type, help) (const struct rk_argdef[]){ { name, type, true, false, help, NULL }, { NULL, RK_ARG_NONE, false, false, NULL, NULL } }
#define EXAMPLES(...) (const char *const[]){ __VA_ARGS__, NULL }

static const struct rk_command commands[] = {
	{ "validate", "cluster", "prove that a cluster works", "Asks every VM of the cluster and judges the answers by a health profile.",
	  ONE_ARG("C", RK_ARG_CLUSTER, "cluster"), options, RK_CMD_SELECTS | RK_CMD_REMOTE | RK_CMD_RECORDS, columns, false,
	  EXAMPLES("validate cluster a", "validate cluster a --level standard --save evidence-a"), run_cluster, .writes = "save" },
	{ "validate", "rack", "prove that the VMs of a rack work", "Asks every VM that runs in the rack.", ONE_ARG("R", RK_ARG_RACK, "rack"), options,
	  RK_CMD_SELECTS | RK_CMD_REMOTE | RK_CMD_RECORDS, columns, false, EXAMPLES("validate rack r01"), run_rack, .writes = "save" },
	{ "validate", "tray", "prove that the VMs on some trays work", "Asks the VM on each tray; trays without a VM are left out.",
	  ONE_ARG("SEL", RK_ARG_SEL_TRAYS, "trays"), options,
	  RK_CMD_SELECTS | RK_CMD_REMOTE | RK_CMD_RECORDS, columns, false, EXAMPLES("validate tray r01-t[01-02]"), run_tray, .writes = "save" },
	{ "validate", "vm", "prove that some VMs work", "Asks each VM.", ONE_ARG("SEL", RK_ARG_SEL_VMS, "VMs"), options,
	  RK_CMD_SELECTS | RK_CMD_REMOTE | RK_CMD_RECORDS, columns, false, EXAMPLES("validate vm a-[01-02]"), run_vm, .writes = "save" },
	{ "validate", "replay", "judge saved evidence again", "Judges a folder that validate --save made, offline, with any profile and level.",
	  ONE_ARG("DIR", RK_ARG_FOLDER, "evidence folder"), replay_options, RK_CMD_NO_STORE, columns, false, EXAMPLES("validate replay evidence-a"),
	  run_replay },
};

const struct rk_noun rk_noun_validate = { "validate", "prove health by measurements", "Collectors ask, rules judge, the evidence can be kept. With -n the same is asked and judged, but nothing is written down and no tray is cordoned.", commands,
					  RK_ARRAY_SIZE(commands) };
