#include <string.h>

#include "cli/cmd.h"
#include "cli/out.h"
#include "inventory/base/clock.h"
#include "provision/health/health.h"

static const struct rk_argdef options[] = {
	{ "level", RK_ARG_ENUM, false, false, "how much is asked: each level includes the one before", "quick|standard|deep" },
	{ "profile", RK_ARG_PROFILE, false, false, "health profile, by name or file", NULL },
	{ "save", RK_ARG_FOLDER, false, false, "keep the raw answers in this new folder", NULL },
	{ NULL, RK_ARG_NONE, false, false, NULL, NULL },
};
static const struct rk_argdef replay_options[] = {
	{ "level", RK_ARG_ENUM, false, false, "how much is judged", "quick|standard|deep" },
	{ "profile", RK_ARG_PROFILE, false, false, "health profile, by name or file", NULL },
	{ NULL, RK_ARG_NONE, false, false, NULL, NULL },
};
static const struct rk_column columns[] = {
	{ "verdict", RK_COL_TEXT, false }, { "level", RK_COL_TEXT, false }, { "profile", RK_COL_TEXT, false }, { "started", RK_COL_TIME, false },
	{ "seconds", RK_COL_REAL, false }, { "targets", RK_COL_NUMBER, false }, { "checks", RK_COL_JSON, true }, { "root_causes", RK_COL_LIST, false },
	{ NULL, RK_COL_TEXT, false },
};

static void write_check(struct rk_jw *w, const struct rk_check *check)
{
	const char *texts[][2] = { { "id", check->id }, { "verdict", check->verdict }, { "severity", check->severity } };
	const char *more[][2] = { { "folded", check->folded }, { "value", check->value }, { "expected", check->expected }, { "message", check->message },
				  { "hint", check->hint } };

	rk_jw_object(w);
	for (size_t i = 0; i < RK_ARRAY_SIZE(texts); i++) {
		rk_jw_key(w, texts[i][0]);
		rk_jw_str(w, texts[i][1]);
	}
	rk_jw_key(w, "targets");
	rk_jw_array(w);
	for (size_t i = 0; i < check->n_targets; i++)
		rk_jw_str(w, check->targets[i]);
	rk_jw_end(w);
	for (size_t i = 0; i < RK_ARRAY_SIZE(more); i++) {
		rk_jw_key(w, more[i][0]);
		rk_jw_str(w, more[i][1]);
	}
	rk_jw_end(w);
}

/* For people: what is not well, in full; what is well or was not run, only with -v. */
static void note_check(struct rk_call *call, const struct rk_check *check)
{
	bool well = strcmp(check->verdict, "pass") == 0 || strcmp(check->verdict, "skipped") == 0;

	if (well && !call->verbose)
		return;
	rk_out_note(call->out, "%-8s %s (%zu): %s: %s, expected %s", check->verdict, check->folded, check->n_targets, check->id,
		    check->value ? check->value : "-", check->expected ? check->expected : "-");
	if (!well && check->message)
		rk_out_note(call->out, "         wanted: %s%s%s", check->message, check->hint ? "; " : "", check->hint ? check->hint : "");
}

static int print(struct rk_call *call, const struct rk_report *r)
{
	struct rk_out *out = call->out;

	rk_out_row(out);
	rk_cell_text(out, "verdict", r->verdict);
	rk_cell_text(out, "level", r->level);
	rk_cell_text(out, "profile", r->profile);
	rk_cell_time(out, "started", r->started_ms);
	rk_cell_real(out, "seconds", r->seconds);
	rk_cell_number(out, "targets", (long long)r->targets);
	struct rk_jw *w = rk_cell_json(out, "checks");
	rk_jw_array(w);
	for (size_t i = 0; i < r->n_checks; i++)
		write_check(w, &r->checks[i]);
	rk_jw_end(w);
	rk_cell_list(out, "root_causes", r->root_causes, r->n_root_causes);
	for (size_t i = 0; i < r->n_root_causes; i++)
		rk_out_note(out, "root cause %zu: %s", i + 1, r->root_causes[i]);
	for (size_t i = 0; i < r->n_checks; i++)
		note_check(call, &r->checks[i]);
	return 0;
}

/* A result is printed in any case; a bad one also sets the exit code, with a sentence for stderr. */
static int finish(struct rk_call *call, const struct rk_report *r, struct rk_err *err)
{
	int rc = rk_report_rc(r, call->strict);

	print(call, r);
	return rc ? rk_err_set(err, rc, "validation of %zu targets: %s", r->targets, r->verdict) : 0;
}

/* Level and profile that the spec of the cluster asks for; "" when it does not. */
static const char *from_spec(struct rk_call *call, int cluster, const char *key)
{
	struct rk_json *json RK_CLEANUP_JSON = NULL;
	const char *spec = cluster >= 0 ? call->world->site->clusters[cluster].spec : NULL;

	if (!spec || rk_json_parse("spec", spec, strlen(spec), &json, NULL))
		return NULL;
	return rk_arena_strdup(call->arena, rk_jstr(rk_jget(rk_jget(rk_json_root(json), "validation"), key)));
}

/* The cluster keeps the last word on all of it; a look at some of its VMs is not that. A reader cannot write it down. */
static void keep_verdict(struct rk_call *call, int cluster, const struct rk_report *report)
{
	struct rk_str json RK_CLEANUP_STR = RK_STR_INIT;

	if (strcmp(call->command->verb, "cluster") != 0 || call->except || call->world->env.read_only)
		return;
	rk_report_summary(report, &json);
	rk_store_set_cluster_validation(call->world->store, call->world->site->clusters[cluster].name, rk_str_text(&json), NULL);
}

static int validate(struct rk_call *call, const int *vms, size_t n, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;
	const char *level = rk_call_arg(call, "level"), *name = rk_call_arg(call, "profile"), *save = rk_call_arg(call, "save");
	struct rk_hprofile *profile RK_CLEANUP(rk_cleanup_hprofile) = NULL;
	int cluster = site->vms[vms[0]].cluster, rc;
	struct rk_target *targets;
	struct rk_report report;

	level = level ? level : from_spec(call, cluster, "level");
	level = level ? level : "quick";
	name = name ? name : from_spec(call, cluster, "profile");
	rc = rk_hprofile_load(name ? name : rk_hprofile_for(site, vms[0]), &profile, err);
	if (rc)
		return rc;
	int64_t unix_ms = rk_clock_unix_ms(NULL), start = rk_clock_ms(NULL);
	rc = rk_collect(call->world, profile, level, vms, n, call->arena, &targets, err);
	if (!rc && save)
		rc = rk_evidence_save(save, targets, n, err);
	if (!rc)
		rc = rk_judge(profile, level, targets, n, call->arena, &report, err);
	if (rc)
		return rc;
	report.started_ms = unix_ms;
	report.seconds = (double)(rk_clock_ms(NULL) - start) / 1000;
	keep_verdict(call, cluster, &report);
	return finish(call, &report, err);
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

	if (rk_find_cluster(call->world->site, name) < 0)
		return rk_err_set(err, RK_NOT_FOUND, "unknown cluster \"%s\"", name);
	return run_vms(call, rk_arena_printf(call->arena, "@cluster:%s", name), err);
}

static int run_replay(struct rk_call *call, struct rk_err *err)
{
	const char *level = rk_call_arg(call, "level"), *name = rk_call_arg(call, "profile");
	struct rk_hprofile *profile RK_CLEANUP(rk_cleanup_hprofile) = NULL;
	int64_t unix_ms = rk_clock_unix_ms(NULL), start = rk_clock_ms(NULL);
	struct rk_target *targets;
	struct rk_report report;
	size_t n;

	int rc = rk_hprofile_load(name ? name : "gb300-acceptance", &profile, err);
	if (!rc)
		rc = rk_evidence_load(rk_call_arg(call, "DIR"), call->arena, &targets, &n, err);
	if (!rc)
		rc = rk_judge(profile, level ? level : "quick", targets, n, call->arena, &report, err);
	if (rc)
		return rc;
	report.started_ms = unix_ms;
	report.seconds = (double)(rk_clock_ms(NULL) - start) / 1000;
	return finish(call, &report, err);
}

#define ONE_ARG(name, type, help) (const struct rk_argdef[]){ { name, type, true, false, help, NULL }, { NULL, RK_ARG_NONE, false, false, NULL, NULL } }
#define EXAMPLES(...) (const char *const[]){ __VA_ARGS__, NULL }

static const struct rk_command commands[] = {
	{ "validate", "cluster", "Prove that a cluster works", "Asks every VM of the cluster and judges the answers by a health profile.",
	  ONE_ARG("C", RK_ARG_CLUSTER, "cluster"), options, RK_CMD_SELECTS | RK_CMD_REMOTE | RK_CMD_RECORDS, columns, false,
	  EXAMPLES("validate cluster a", "validate cluster a --level standard --save evidence-a"), run_cluster },
	{ "validate", "rack", "Prove that the VMs of a rack work", "Asks every VM that runs in the rack.", ONE_ARG("R", RK_ARG_RACK, "rack"), options,
	  RK_CMD_SELECTS | RK_CMD_REMOTE, columns, false, EXAMPLES("validate rack r01"), run_rack },
	{ "validate", "tray", "Prove that the VMs on some trays work", "Asks the VM on each tray; trays without a VM are left out.",
	  ONE_ARG("SEL", RK_ARG_SEL_TRAYS, "trays"), options, RK_CMD_SELECTS | RK_CMD_REMOTE, columns, false, EXAMPLES("validate tray r01-t[01-02]"), run_tray },
	{ "validate", "vm", "Prove that some VMs work", "Asks each VM.", ONE_ARG("SEL", RK_ARG_SEL_VMS, "VMs"), options, RK_CMD_SELECTS | RK_CMD_REMOTE,
	  columns, false, EXAMPLES("validate vm a-[01-02]"), run_vm },
	{ "validate", "replay", "Judge saved evidence again", "Judges a folder that validate --save made, offline, with any profile and level.",
	  ONE_ARG("DIR", RK_ARG_FOLDER, "evidence folder"), replay_options, RK_CMD_NO_STORE, columns, false, EXAMPLES("validate replay evidence-a"),
	  run_replay },
};

const struct rk_noun rk_noun_validate = { "validate", "prove health by measurements", "Collectors ask, rules judge, the evidence can be kept.", commands,
					  RK_ARRAY_SIZE(commands) };
