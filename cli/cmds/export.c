#include <string.h>

#include "cli/cmds/common.h"
#include "inventory/base/file.h"
#include "provision/export.h"
#include "provision/health/prometheus.h"

enum { FILE_MAX = 64 << 20 };

static void prometheus(const struct rk_export *e, struct rk_str *out)
{
	rk_prometheus(e->site, e->cluster, out);
}

static const struct {
	const char *verb;
	void (*write)(const struct rk_export *e, struct rk_str *out);
} forms[] = {
	{ "slurm", rk_export_slurm_conf }, { "kubernetes", rk_export_kubernetes }, { "ansible", rk_export_ansible }, { "prometheus", prometheus },
	{ "dot", rk_export_dot }, { "svg", rk_export_svg },
};

static int differences(struct rk_call *call, const char *file, const struct rk_export_diff *diffs, size_t n, struct rk_err *err)
{
	for (size_t i = 0; i < n; i++) {
		rk_out_row(call->out);
		rk_cell_text(call->out, "file", file);
		if (diffs[i].line)
			rk_cell_number(call->out, "line", diffs[i].line);
		rk_cell_text(call->out, "difference", diffs[i].what);
	}
	if (!n && !call->json) {
		rk_out_columns(call->out, NULL);
		rk_out_note(call->out, "%s is as the site says", file);
	}
	return n ? rk_err_set(err, RK_UNHEALTHY, "%s differs from the site in %zu place%s", file, n, n == 1 ? "" : "s") : 0;
}

static int check(struct rk_call *call, const struct rk_export *e, const char *wanted, struct rk_err *err)
{
	const char *file = rk_call_arg(call, "check");
	char *text RK_CLEANUP_FREE = NULL;
	struct rk_export_diff *diffs;
	size_t n, len;
	int rc = rk_file_read(file, FILE_MAX, &text, &len, err);

	if (!rc && strlen(text) != len)
		rc = rk_err_set(err, RK_INVALID, "%s holds a NUL byte", file);
	if (!rc && strcmp(call->command->verb, "slurm") == 0)
		rc = rk_export_check_slurm(e, file, text, rk_call_flag(call, "yaml"), call->arena, &diffs, &n, err);
	else if (!rc)
		rk_export_check_text(wanted, text, call->arena, &diffs, &n);
	return rc ? rc : differences(call, file, diffs, n, err);
}

static int export(struct rk_call *call, struct rk_err *err)
{
	const char *cluster = rk_call_arg(call, "cluster");
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_export e;
	int at = RK_NONE, rc = cluster ? rk_get_cluster(call, cluster, &at, err) : 0;

	if (rc)
		return rc;
	rk_export_collect(call->world->site, at, call->arena, &e);
	for (size_t i = 0; i < RK_ARRAY_SIZE(forms); i++)
		if (strcmp(forms[i].verb, call->command->verb) == 0)
			(rk_call_flag(call, "yaml") ? rk_export_slurm_yaml : forms[i].write)(&e, &out);
	if (rk_call_arg(call, "check"))
		return check(call, &e, rk_str_text(&out), err);
	/* Text of its own in every format: no columns, no decoration. */
	rk_out_columns(call->out, NULL);
	rk_out_raw(call->out, rk_str_text(&out), out.len);
	return 0;
}

#define COMMON                                                                                                    \
	{ .name = "cluster", .type = RK_ARG_CLUSTER, .help = "only the VMs of this cluster" },                     \
		{ .name = "check", .type = RK_ARG_FILE, .help = "compare this file with the export; code 7 when it differs" }
#define DIFF_COLUMNS RK_COLUMNS({ "file", RK_COL_TEXT }, { "line", RK_COL_NUMBER }, { "difference", RK_COL_TEXT })
#define EXPORT(what, more, ...) \
	{ .noun = "export", .verb = what, .summary = more, .columns = DIFF_COLUMNS, .list = true, .run = export, __VA_ARGS__ }

static const struct rk_command rows[] = {
	EXPORT("slurm", "print Slurm's topology.conf, or topology.yaml",
	       .options = RK_ARGS(COMMON, { .name = "yaml", .type = RK_ARG_NONE, .help = "topology.yaml in block form instead of topology.conf" }),
	       .description = "A block per rack, in site order; position counts for Slurm, so absent trays are held by the names they would have, and --cluster pads "
			      "smaller racks. BlockSizes are the block and its doublings. --check compares by meaning: blocks, nodes, their order, sizes.",
	       .examples = RK_EXAMPLES("export slurm", "export slurm --yaml --cluster a")),
	EXPORT("kubernetes", "print node labels and a Kueue topology", .options = RK_ARGS(COMMON),
	       .description = "Labels nvidia.com/gpu.clique (only while the VM runs in its partition), racksh/rack, racksh/nvlink-domain, racksh/leaf and the like; a "
			      "Topology and a ResourceFlavor that use them.",
	       .examples = RK_EXAMPLES("export kubernetes --cluster a")),
	EXPORT("ansible", "print a static Ansible inventory", .options = RK_ARGS(COMMON),
	       .description = "JSON, which is YAML: all hosts, a group per rack and one per cluster. Ansible reads it from a file whose name ends in .json or .yml.", .examples = RK_EXAMPLES("export ansible", "export ansible --cluster a")),
	EXPORT("prometheus", "print what the store knows as Prometheus metrics", .options = RK_ARGS(COMMON),
	       .description = "For a textfile collector: gauges with HELP and TYPE, stable names and labels.", .examples = RK_EXAMPLES("export prometheus")),
	EXPORT("dot", "print racks, trays and cables as a graph for dot", .options = RK_ARGS(COMMON), .examples = RK_EXAMPLES("export dot")),
	EXPORT("svg", "draw the racks and the leaves of the fabric", .options = RK_ARGS(COMMON), .examples = RK_EXAMPLES("export svg --cluster a")),
};
RK_NOUN(export, "what other programs need to know of the site", "To standard output; --cluster limits an export to the VMs of one cluster.", rows);
