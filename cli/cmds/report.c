#include <math.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmds/common.h"
#include "inventory/base/map.h"
#include "inventory/base/nodeset.h"
#include "provision/health/report.h"
#include "provision/health/run.h"
#include "provision/facility.h"
#include "provision/power_meter.h"

static void as_json(struct rk_str *out, const struct rk_report *report, const struct rk_report_head *head)
{
	struct rk_jw w;

	(void)head;
	rk_jw_init(&w, out, 1);
	rk_report_json(&w, report);
	rk_str_addc(out, '\n');
}

static const struct {
	const char *name;
	void (*write)(struct rk_str *out, const struct rk_report *report, const struct rk_report_head *head);
} forms[] = { { "html", rk_report_html }, { "json", as_json }, { "junit", rk_report_junit } };

/* What all racks take; NAN when a part of it was not read. */
static int read_racks(struct rk_call *call, double *ret_kw, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;
	struct rk_power_now now;
	int rc = rk_power_read(call->world, NULL, RK_BMC_METERS, call->arena, &now, err);

	*ret_kw = rc ? NAN : 0;
	for (size_t r = 0; !rc && r < site->n_racks; r++) {
		bool *belongs = rk_arena_array(call->arena, site->n_trays + 1, sizeof(*belongs));
		struct rk_power_meter m;
		for (size_t t = 0; t < site->n_trays; t++)
			belongs[t] = site->trays[t].rack == (int)r;
		rk_power_sum(site, &now, NULL, 0, belongs, (int)r, &m);
		*ret_kw += m.kw;
	}
	rk_power_now_clear(&now);
	return rc;
}

/* PUE, where the site names a meter: of all racks, or not at all. What cannot be read costs the report only this. */
static int add_facility(struct rk_call *call, struct rk_report *report, struct rk_err *err)
{
	double it_kw;

	if (!call->world->site->meter)
		return 0;
	int rc = read_racks(call, &it_kw, err);
	if (!rc)
		rc = rk_facility_read(call->world, it_kw, &report->facility_kw, err);
	report->pue = rk_pue(report->facility_kw, it_kw);
	if (!isfinite(report->pue))
		report->pue_unknown = rc ? rk_arena_strdup(call->arena, err->message) : "not every tray was read";
	return rc ? (rk_err_while(err, "PUE is not known"), rc) : 0;
}

static int not_of(const char *dir, const char *what, const char *names, const char *cluster, struct rk_err *err)
{
	rk_err_set(err, RK_INVALID, "\"%s\" %s: %s", dir, what, names);
	rk_err_hint(err, "a report is of all of cluster %s and of nothing else; validate replay %s judges what is there", cluster, dir);
	return RK_INVALID;
}

/* What was kept has to be of this cluster and of each of its VMs, or the document would say what nobody measured. */
static int check_kept(struct rk_call *call, const struct rk_cluster *c, const char *dir, const struct rk_report *report, struct rk_err *err)
{
	struct rk_map *there RK_CLEANUP_MAP = rk_map_new();
	const char **names = rk_arena_array(call->arena, report->targets + (size_t)c->n_vms + 1, sizeof(*names));
	size_t n = 0;

	for (size_t i = 0; i < report->targets; i++) {
		const struct rk_target *t = &report->target_list[i];
		rk_map_set(there, t->name, i);
		if (!rk_streq(t->cluster, c->name))
			names[n++] = t->name;
	}
	if (n)
		return not_of(dir, "holds answers of others", rk_nodeset_fold(call->arena, names, n), c->name, err);
	for (int v = 0; v < c->n_vms; v++) {
		const char *vm = call->world->site->vms[c->first_vm + v].name;
		if (!rk_map_get(there, vm, NULL))
			names[n++] = vm;
	}
	return n ? not_of(dir, "holds no answers of some VMs", rk_nodeset_fold(call->arena, names, n), c->name, err) : 0;
}

/* Asks now, or judges what was kept. */
static int measure(struct rk_call *call, int cluster, struct rk_report *report, struct rk_err *err)
{
	const struct rk_validate_opts opts = { rk_call_arg(call, "level"), rk_call_arg(call, "profile"), NULL, 0 };
	const char *kept = rk_call_arg(call, "evidence");
	const struct rk_cluster *c = &call->world->site->clusters[cluster];

	if (kept) {
		int rc = rk_validate_replay(kept, opts.level, opts.profile, call->arena, report, err);
		return rc ? rc : check_kept(call, c, kept, report, err);
	}
	if (!c->n_vms)
		return rk_err_set(err, RK_NOT_FOUND, "cluster \"%s\" has no VMs", c->name);
	int *vms = rk_arena_array(call->arena, (size_t)c->n_vms, sizeof(*vms));
	for (int i = 0; i < c->n_vms; i++)
		vms[i] = c->first_vm + i;
	int rc = rk_validate(call->world, &opts, vms, (size_t)c->n_vms, call->arena, report, err);
	/* A document about a part would be taken for one about the cluster. */
	if (!rc && *call->world->cancel) {
		rc = rk_err_set(err, RK_CANCELLED, "cancelled: no report is written of a part of the VMs");
		rk_err_hint(err, "validate cluster %s shows what has answered when it is cut short", c->name);
	}
	return rc;
}

static int run_cluster(struct rk_call *call, struct rk_err *err)
{
	const char *format = rk_call_arg(call, "format"), *name = rk_call_arg(call, "C");
	/* A page on the screen is meant by nobody; > FILE and | TEXT are no terminal. */
	if (!format && isatty(STDOUT_FILENO)) {
		rk_err_set(err, RK_INVALID, "the report is a page of HTML, and this is a terminal");
		rk_err_hint(err, "report cluster %s > FILE.html; validate cluster %s shows the same here", name, name);
		return RK_INVALID;
	}
	const struct rk_report_head head = { rk_arena_printf(call->arena, "cluster %s", name), rk_call_arg(call, "evidence") };
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_report report;
	int cluster, lost = 0, rc = rk_get_cluster(call, name, &cluster, err);

	if (!rc)
		rc = measure(call, cluster, &report, err);
	if (!rc && !head.evidence)
		lost = add_facility(call, &report, err);
	if (lost == RK_CANCELLED)
		return lost;
	for (size_t i = 0; !rc && i < RK_ARRAY_SIZE(forms); i++) {
		if (strcmp(forms[i].name, format ? format : "html") == 0)
			forms[i].write(&text, &report, &head);
	}
	if (!rc)
		rk_out_raw(call->out, rk_str_text(&text), text.len);
	return rc ? rc : lost;
}

static const struct rk_command rows[] = {
	{ .noun = "report", .verb = "cluster", .summary = "write the acceptance report of a cluster to stdout",
	  .description = "Asks every VM as `validate cluster` does, or judges an evidence folder that was kept, and writes one document: a self-contained page, JSON, or "
			 "JUnit XML with a suite per rack. A page that was not asked for by --format is not written to a terminal.",
	  .args = RK_ARGS({ .name = "C", .type = RK_ARG_CLUSTER, .required = true, .help = "cluster" }),
	  .options = RK_ARGS({ .name = "format", .type = RK_ARG_ENUM, .help = "kind of document; html when not given", .values = "html|json|junit" },
			     { .name = "level", .type = RK_ARG_ENUM, .help = "how much is asked", .values = "quick|standard|deep" },
			     { .name = "profile", .type = RK_ARG_PROFILE, .help = "health profile, by name or file" },
			     { .name = "evidence", .type = RK_ARG_FOLDER, .help = "judge this folder instead of asking; the page links to it" }),
	  .flags = RK_CMD_RAW | RK_CMD_REMOTE, .examples = RK_EXAMPLES("report cluster a --format html", "report cluster a --format junit --level standard"),
	  .run = run_cluster },
	{ .noun = "report", .verb = "usage", .summary = "report GPU-hours per tenant between two times", .list = true,
	  .description = "Counted is how long VMs held their GPUs, running or not; what still does counts until now.",
	  .options = RK_ARGS({ .name = "from", .type = RK_ARG_TEXT, .help = "2026-11-01, 2026-11-01T06:00Z or -30d; default the beginning" },
			     { .name = "to", .type = RK_ARG_TEXT, .help = "in the same forms; default now" },
			     { .name = "by", .type = RK_ARG_ENUM, .values = "tenant|cluster", .help = "one row per tenant (default) or per cluster" }),
	  .examples = RK_EXAMPLES("report usage --from 2026-11-01 --to 2026-12-01", "report usage --by cluster -o csv"), .run = rk_cmd_usage,
	  .columns = RK_COLUMNS({ "tenant", RK_COL_TEXT }, { "cluster", RK_COL_TEXT }, { "size", RK_COL_TEXT }, { "vms", RK_COL_NUMBER }, { "vm_hours", RK_COL_REAL },
				{ "gpu_hours", RK_COL_REAL }, { "running", RK_COL_BOOL }) },
};
RK_NOUN(report, "reports", "Documents made from measurements.", rows);
