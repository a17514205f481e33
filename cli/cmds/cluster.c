#include <inttypes.h>
#include <string.h>

#include "cli/cmds/cluster.h"
#include "cli/cmds/render.h"

static int show(struct rk_call *call, struct rk_err *err)
{
	int at, rc = rk_get_cluster(call, rk_call_arg(call, "CLUSTER"), &at, err);

	if (!rc)
		rk_cluster_row(call, at);
	return rc;
}

/* The table has the reasons below its row: the error need not repeat them. */
static int told_once(const struct rk_call *call, int rc, struct rk_err *err)
{
	RK_CLEANUP_ERR struct rk_err said = RK_ERR_INIT;

	if (rc != RK_NO_CAPACITY || call->parsed->globals.format != RK_FORMAT_TABLE || !err)
		return rc;
	rk_err_move(&said, err);
	rk_err_set(err, rc, "%s", said.message);
	if (said.hint)
		rk_err_hint(err, "%s", said.hint);
	return rc;
}

static int plan_spec(struct rk_call *call, const struct rk_spec *spec, struct rk_err *err)
{
	struct rk_cluster_plan cp;
	int rc = rk_cluster_plan(call->world, spec, rk_call_arg(call, "what-if"), call->arena, &cp, err);

	if (rc)
		return rc;
	rk_plan_row(call, &cp.placement, cp.plan);
	rk_plan_free(cp.plan);
	return cp.placement.feasible ? 0 : told_once(call, rk_cluster_no_room(call->world, &cp.placement, spec, err), err);
}

static int plan(struct rk_call *call, struct rk_err *err)
{
	struct rk_spec *spec;
	int rc = rk_spec_load(rk_call_arg(call, "SPEC"), call->arena, &spec, err);

	if (rc)
		return rc;
	rc = plan_spec(call, spec, err);
	if (rk_find_cluster(call->world->site, spec->name) >= 0)
		rk_out_note(call->out, "warning: cluster %s is there already; this is where another one like it would go", spec->name);
	return rc;
}

/* ---- what a change came to --------------------------------------------------------------------------------------------------------- */

static void note_confirm(struct rk_call *call, int64_t op)
{
	int64_t by = 0;
	char text[32];

	if (op && !rk_op_confirm_by(call->world, op, &by, NULL) && by)
		rk_out_note(call->out, "operation %" PRId64 " is undone at %s unless confirmed: racksh op confirm %" PRId64, op, rk_time_iso(by, text), op);
}

static bool handed_over(const struct rk_call *call)
{
	return !call->world->wait && call->world->detach;
}

/* The cluster as it is now, for programs; a sentence for people. A degraded cluster is there too. */
static int outcome(struct rk_call *call, const char *name, int64_t op, const char *what, int rc)
{
	int at = rk_find_cluster(call->world->site, name);

	call->op = op;
	if ((rc && rc != RK_UNHEALTHY) || at < 0)
		return rc;
	const struct rk_cluster *c = &call->world->site->clusters[at];
	if (call->parsed->globals.format != RK_FORMAT_TABLE)
		rk_cluster_row(call, at);
	else if (op && handed_over(call))
		rk_out_note(call->out, "operation %" PRId64 " works on cluster %s: racksh op show %" PRId64, op, name, op);
	else
		rk_out_note(call->out, "cluster %s %s: %d VM%s, %s", name, what, c->n_vms, c->n_vms == 1 ? "" : "s", rk_cluster_state_name(c->state));
	note_confirm(call, op);
	return rc;
}

/* What create would do, which is little when the cluster is there. */
static int plan_create(struct rk_call *call, const struct rk_spec *spec, struct rk_err *err)
{
	bool there;
	int64_t op;
	int rc = rk_cluster_create_look(call->world, spec, &there, &op, err);

	if (!there)
		return plan_spec(call, spec, err);
	if (!op)
		return outcome(call, spec->name, 0, "is there, nothing to do", rc);
	rk_out_note(call->out, "operation %" PRId64 " that makes cluster %s would be taken up: racksh op show %" PRId64, op, spec->name, op);
	return 0;
}

static int create(struct rk_call *call, struct rk_err *err)
{
	struct rk_spec *spec = NULL;
	int64_t op = 0;
	int rc = rk_spec_load(rk_call_arg(call, "SPEC"), call->arena, &spec, err);

	if (!rc)
		rc = rk_call_confirm(call, err);
	if (!rc && call->dry_run)
		rc = plan_create(call, spec, err);
	if (!rc)
		rc = rk_cluster_create(call->world, spec, &op, err);
	return call->dry_run ? rc : outcome(call, spec ? spec->name : "", op, "is there", rc);
}

/* ---- grow, shrink, repair ----------------------------------------------------------------------------------------------------------- */

/* What cannot be placed is shown here, and refused by the change itself. */
static int plan_resize(struct rk_call *call, const char *name, int count, bool grow, struct rk_err *err)
{
	struct rk_cluster_plan cp;
	int rc = rk_cluster_resize_plan(call->world, name, count, grow, call->arena, &cp, err);

	if (rc)
		return rc;
	/* Only what grows is placed. */
	if (grow && (cp.plan || !cp.placement.feasible))
		rk_plan_row(call, &cp.placement, cp.plan);
	else
		rk_steps_row(call, cp.plan);
	if (cp.placement.feasible && !cp.plan)
		rk_out_note(call->out, "cluster %s has %d VMs already", name, count);
	rk_plan_free(cp.plan);
	return 0;
}

static int resize(struct rk_call *call, struct rk_err *err)
{
	const char *name = rk_call_arg(call, "CLUSTER");
	bool grow = strcmp(call->command->verb, "grow") == 0;
	uint64_t count = 0;
	int64_t op = 0;
	int at, rc = rk_get_cluster(call, name, &at, err);

	rk_parse_u64(rk_call_arg(call, "N"), &count);
	if (!rc)
		rc = rk_call_confirm(call, err);
	if (!rc && call->dry_run)
		rc = plan_resize(call, name, (int)count, grow, err);
	if (!rc)
		rc = rk_cluster_resize(call->world, name, (int)count, grow, &op, err);
	return call->dry_run ? told_once(call, rc, err) : outcome(call, name, op, "is there", rc);
}

static int plan_repair(struct rk_call *call, const char *name, const char *const *vms, size_t n, struct rk_err *err)
{
	struct rk_plan *steps = NULL;
	int rc = rk_cluster_repair_plan(call->world, name, vms, n, call->arena, &steps, err);

	if (rc)
		return rc;
	rk_steps_row(call, steps);
	if (!steps)
		rk_out_note(call->out, "nothing to repair in cluster %s", name);
	rk_plan_free(steps);
	return 0;
}

static int repair(struct rk_call *call, struct rk_err *err)
{
	const char *name = rk_call_arg(call, "CLUSTER");
	size_t n, moved = 0;
	const char *const *vms = rk_call_args(call, "VM", &n);
	int64_t op = 0;
	int at, rc = rk_get_cluster(call, name, &at, err);

	if (!rc && call->dry_run)
		rc = plan_repair(call, name, vms, n, err);
	if (!rc)
		rc = rk_cluster_repair(call->world, name, vms, n, &op, &moved, err);
	if (call->dry_run)
		return rc;
	const char *what = moved ? rk_arena_printf(call->arena, "is repaired, %zu VM%s moved", moved, moved == 1 ? "" : "s") : "has nothing to repair";
	return outcome(call, name, op, what, rc);
}

static int try_rename(struct rk_call *call, const char *name, const char *to, struct rk_err *err)
{
	int64_t op;
	int rc = rk_cluster_rename(call->world, name, to, &op, err), at = rk_find_cluster(call->world->site, name);

	if (rc)
		return rc;
	if (at < 0 || strcmp(name, to) == 0)
		rk_out_note(call->out, "cluster %s has its name, nothing to do", to);
	else
		rk_out_note(call->out, "cluster %s would be called %s in the store; its %d VMs keep their names on hosts", name, to, call->world->site->clusters[at].n_vms);
	return 0;
}

static int rename_cluster(struct rk_call *call, struct rk_err *err)
{
	const char *name = rk_call_arg(call, "CLUSTER"), *to = rk_call_arg(call, "NAME");
	int64_t op = 0;

	if (call->dry_run)
		return try_rename(call, name, to, err);
	int rc = rk_cluster_rename(call->world, name, to, &op, err);
	return outcome(call, to, op, "is its name", rc);
}

/* ---- delete -------------------------------------------------------------------------------------------------------------------------- */

static int plan_delete(struct rk_call *call, const char *name, struct rk_err *err)
{
	struct rk_plan *steps = NULL;
	int rc = rk_cluster_delete_plan(call->world, name, call->arena, &steps, err);

	if (rc)
		return rc;
	rk_steps_row(call, steps);
	rk_plan_free(steps);
	return 0;
}

static int delete(struct rk_call *call, struct rk_err *err)
{
	const char *name = rk_call_arg(call, "CLUSTER");
	int64_t op = 0;
	int at, rc = rk_get_cluster(call, name, &at, err);

	if (!rc && call->dry_run)
		rc = plan_delete(call, name, err);
	if (!rc)
		rc = rk_cluster_delete(call->world, name, &op, err);
	if (call->dry_run)
		return rc;
	call->op = op;
	if (!rc && handed_over(call))
		rk_out_note(call->out, "operation %" PRId64 " deletes cluster %s: racksh op show %" PRId64, op, name, op);
	else if (!rc)
		rk_out_note(call->out, "cluster %s is deleted", name);
	return rc;
}

#define SPEC_ARG RK_ARGS({ .name = "SPEC", .type = RK_ARG_FILE, .required = true, .help = "cluster spec (racksh-cluster(5)); - is standard input" })
#define CLUSTER { .name = "CLUSTER", .type = RK_ARG_CLUSTER, .required = true, .help = "name of a cluster" }
#define CLUSTER_ARG RK_ARGS(CLUSTER)
#define RESIZE_ARGS RK_ARGS(CLUSTER, { .name = "N", .type = RK_ARG_NUMBER, .required = true, .help = "how many VMs it is to have in all" })
#define CONFIRM RK_ARGS(RK_CONFIRM_OPTION)
#define SHOW_COLUMNS                                                                                                                                \
	RK_COLUMNS({ "name", RK_COL_TEXT }, { "tenant", RK_COL_TEXT }, { "size", RK_COL_TEXT }, { "state", RK_COL_TEXT }, { "vms", RK_COL_JSON },  \
		   { "nvlink", RK_COL_JSON }, { "infiniband", RK_COL_JSON }, { "placement", RK_COL_JSON }, { "validation", RK_COL_JSON })
#define LOST "A tray that does not answer is waited for until it is cordoned; then it is given up: it stays faulty, its GPUs by themselves, until racksh tray uncordon " \
	     "finds it again, empties and erases it.\n\n"
#define CONVERGES "Repeating the command does what is left to do, or nothing; a dry run prints the steps."
static const struct rk_command rows[] = {
	{ .noun = "cluster", .verb = "list", .summary = "list the clusters", .list = true, .examples = RK_EXAMPLES("cluster list"), .run = rk_cmd_cluster_list,
	  .columns = RK_COLUMNS({ "name", RK_COL_TEXT }, { "tenant", RK_COL_TEXT }, { "size", RK_COL_TEXT }, { "state", RK_COL_TEXT },
				{ "vms", RK_COL_NUMBER }, { "racks", RK_COL_LIST }, { "pkey", RK_COL_PKEY }) },
	{ .noun = "cluster", .verb = "show", .summary = "show one cluster: VMs, partitions, placement", .args = CLUSTER_ARG, .run = show,
	  .columns = SHOW_COLUMNS },
	{ .noun = "cluster", .verb = "plan", .summary = "say where a cluster would go and why, change nothing", .args = SPEC_ARG,
	  .options = RK_ARGS({ .name = "what-if", .type = RK_ARG_TEXT, .help = "lose=SEL: plan as if these racks or trays were lost" }), .columns = rk_plan_columns,
	  .description = "Every rack is named with its verdict and the reason. An infeasible plan is printed too and ends with code 5; \"changes\" are the single changes "
			 "that would make it possible: fewer VMs, a smaller segment, cordons or reservations that are in the way.",
	  .examples = RK_EXAMPLES("cluster plan tests/examples/cluster-a.json", "cluster plan tests/examples/cluster-a.json -o json",
				  "cluster plan tests/examples/cluster-a.json --what-if lose=r01-t[01-03]"), .run = plan },
	{ .noun = "cluster", .verb = "create", .summary = "make a cluster: VMs, NVLink partitions and PKey in one journalled operation", .args = SPEC_ARG,
	  .flags = RK_CMD_CHANGES | RK_CMD_STAGES | RK_CMD_REMOTE, .columns = SHOW_COLUMNS, .options = CONFIRM,
	  .description = "Every effect is read back before the next step. A failure rolls everything back; after kill -9 see racksh op list. A cluster whose spec "
			 "requires a validation is ready when it passed; when it did not, the cluster is left for you to look at, degraded, with code 7.\n\n" CONVERGES
			 "--no-wait returns as soon as the operation is written down and leaves the work to a process of its own (in a twin without --sim-state "
			 "there is nobody to leave it to: it is done at once).",
	  .examples = RK_EXAMPLES("cluster create tests/examples/cluster-a.json", "cluster create tests/examples/cluster-a.json -n"), .run = create },
	{ .noun = "cluster", .verb = "render", .summary = "print the domain XML of every VM of a spec or cluster, touch nothing", .list = true,
	  .flags = RK_CMD_RAW,
	  .args = RK_ARGS({ .name = "SPEC|CLUSTER", .type = RK_ARG_FILE, .required = true, .help = "cluster spec (- is standard input), or the name of a cluster" }),
	  .options = RK_ARGS({ .name = "tray", .type = RK_ARG_TRAY, .help = "one VM, as it would be on this tray" },
			     { .name = "seed", .type = RK_ARG_NONE, .help = "print the NoCloud files too" }),
	  .columns = RK_COLUMNS({ "vm", RK_COL_TEXT }, { "tray", RK_COL_TEXT }, { "xml", RK_COL_TEXT }, { "unconfirmed", RK_COL_LIST }, { "seed", RK_COL_JSON }),
	  .description = "Each VM's XML follows a line <!-- VM TRAY -->, each NoCloud file a line <!-- VM TRAY FILE -->. The VMs of a spec stand where placement would "
			 "put them. Versions and page size are those of \"hypervisor\" in the site file, else what the tray's libvirt answers. What they cannot "
			 "express is refused with the element and the first version that can. The host's private key is never printed. Addresses that come from "
			 "the rack's profile and were never seen on the tray are listed on stderr.",
	  .examples = RK_EXAMPLES("cluster render tests/examples/cluster-a.json --tray r01-t07", "cluster render tests/examples/cluster-a.json --seed -o json"),
	  .run = rk_cmd_cluster_render },
	{ .noun = "cluster", .verb = "grow", .summary = "add VMs to a cluster", .args = RESIZE_ARGS, .options = CONFIRM, .flags = RK_CMD_CHANGES | RK_CMD_STAGES | RK_CMD_REMOTE,
	  .columns = SHOW_COLUMNS, .run = resize, .examples = RK_EXAMPLES("cluster grow a 6", "cluster grow a 6 --confirm-within 10m", "cluster grow a 6 -n"),
	  .description = "New trays join the cluster's partitions and boot; then the IMEX lists of the VMs that were there name them. VM numbers are never used "
			 "again. A failure rolls everything back.\n\n" CONVERGES },
	{ .noun = "cluster", .verb = "shrink", .summary = "take the youngest VMs out of a cluster", .args = RESIZE_ARGS, .options = CONFIRM,
	  .flags = RK_CMD_CHANGES | RK_CMD_STAGES | RK_CMD_DANGEROUS | RK_CMD_REMOTE, .columns = SHOW_COLUMNS, .run = resize, .examples = RK_EXAMPLES("cluster shrink a 2"),
	  .description = "The IMEX lists of the VMs that stay are written first, then the others are stopped and leave the partitions: up to here a failure rolls "
			 "everything back, and with --confirm-within this is what waits. After that their drives are erased and their trays are free.\n\n" LOST CONVERGES },
	{ .noun = "cluster", .verb = "repair", .summary = "move VMs from bad trays to free ones in the same rack", .flags = RK_CMD_CHANGES | RK_CMD_STAGES | RK_CMD_DANGEROUS | RK_CMD_REMOTE,
	  .args = RK_ARGS(CLUSTER, { .name = "VM", .type = RK_ARG_SEL_VMS, .repeated = true, .help = "these VMs; without any, those that failed or are on a tray that is cordoned, faulty or offline, or lacks a GPU or HCA now" }),
	  .columns = SHOW_COLUMNS, .run = repair, .examples = RK_EXAMPLES("cluster repair a", "cluster repair a a-02 -n"),
	  .description = "The VM keeps its name and number and starts anew on the other tray, with a new address and empty drives. The new tray joins both "
			 "partitions first, then the IMEX lists name it, then the old tray is drained, erased, taken out of the partitions and kept as faulty with the "
			 "reason (racksh tray uncordon after it was mended). Without a free tray in the rack: code 5 and what would be needed.\n\n" CONVERGES
			 "A VM that was moved already stays where it is while nothing is wrong with its tray." },
	{ .noun = "cluster", .verb = "rename", .summary = "give a cluster and its VMs another name", .flags = RK_CMD_CHANGES | RK_CMD_DANGEROUS, .columns = SHOW_COLUMNS, .run = rename_cluster,
	  .args = RK_ARGS(CLUSTER, { .name = "NAME", .type = RK_ARG_TEXT, .required = true, .help = "new name" }), .examples = RK_EXAMPLES("cluster rename a b"),
	  .description = "Nothing is interrupted: domains, volumes, guests and partitions that are there keep the name they were made with on their hosts and "
			 "managers, because a domain that runs cannot be renamed and its hostname was in the seed of its first boot; VMs that are made later have "
			 "the new one everywhere. The old name is free for another cluster. Specs that keep clusters apart from this one follow." },
	{ .noun = "cluster", .verb = "delete", .summary = "delete a cluster and give back everything it held", .args = CLUSTER_ARG,
	  .flags = RK_CMD_CHANGES | RK_CMD_STAGES | RK_CMD_DANGEROUS | RK_CMD_REMOTE,
	  .description = "Guests are seen dead before anything is released, and drives erased before a tray is free. A tray whose erase failed, or that lacks a device, becomes "
			 "faulty, not free. " LOST "What was begun can only be finished: racksh op resume, or the same command again.", .run = delete },
};
RK_NOUN(cluster, "clusters: VMs of one tenant with their NVLink and InfiniBand partitions", NULL, rows);
