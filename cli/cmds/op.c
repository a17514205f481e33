#include <inttypes.h>
#include <string.h>

#include "cli/cmds/common.h"
#include "provision/op.h"

/* One whose process is gone says "running" until somebody takes it up: that is what resumable means. */
static const char *state_of(struct rk_call *call, const struct rk_op_row *row)
{
	bool alive = true;

	if (strcmp(row->state, "running") != 0 || rk_op_is_run(call->world, row, &alive, NULL) || alive)
		return row->state;
	rk_out_note(call->out, "nobody runs operation %" PRId64 " any more: racksh op resume %" PRId64 ", or racksh op rollback %" PRId64, row->id, row->id, row->id);
	return "resumable";
}

static int list(struct rk_call *call, struct rk_err *err)
{
	struct rk_op_row *rows;
	size_t n;
	int rc = rk_store_op_list(call->world->store, call->arena, &rows, &n, err);

	for (size_t i = 0; !rc && i < n; i++) {
		rk_out_row(call->out);
		rk_cell_number(call->out, "id", rows[i].id);
		rk_cell_text(call->out, "command", rows[i].command);
		rk_cell_text(call->out, "state", state_of(call, &rows[i]));
		rk_cell_text(call->out, "by", rows[i].by);
		rk_cell_time(call->out, "started", rows[i].started_ms);
	}
	return rc;
}

static int64_t op_id(const struct rk_call *call)
{
	uint64_t id = 0;

	rk_parse_u64(rk_call_arg(call, "ID"), &id);
	return (int64_t)id;
}

static void show_steps(struct rk_call *call, const struct rk_step_row *steps, size_t n)
{
	struct rk_jw *w = rk_cell_json(call->out, "steps");

	rk_jw_array(w);
	for (size_t i = 0; i < n; i++) {
		const struct {
			const char *key, *value;
		} pairs[] = { { "kind", steps[i].kind }, { "target", steps[i].target }, { "state", steps[i].state }, { "detail", steps[i].detail } };
		rk_jw_object(w);
		rk_jw_key(w, "id");
		rk_jw_i64(w, steps[i].id);
		for (size_t p = 0; p < RK_ARRAY_SIZE(pairs); p++) {
			rk_jw_key(w, pairs[p].key);
			rk_jw_str(w, pairs[p].value);
		}
		rk_jw_key(w, "seconds");
		if (steps[i].started_ms && steps[i].ended_ms)
			rk_jw_double(w, (double)(steps[i].ended_ms - steps[i].started_ms) / 1000);
		else
			rk_jw_null(w);
		rk_jw_end(w);
	}
	rk_jw_end(w);
}

static int show(struct rk_call *call, struct rk_err *err)
{
	struct rk_op_row op;
	struct rk_step_row *steps;
	size_t n;
	int rc = rk_store_op_get(call->world->store, op_id(call), call->arena, &op, err);

	if (!rc)
		rc = rk_store_step_list(call->world->store, op.id, call->arena, &steps, &n, err);
	if (rc)
		return rc;
	rk_out_row(call->out);
	rk_cell_number(call->out, "id", op.id);
	rk_cell_text(call->out, "command", op.command);
	rk_cell_text(call->out, "state", state_of(call, &op));
	rk_cell_text(call->out, "by", op.by);
	rk_cell_time(call->out, "started", op.started_ms);
	rk_cell_text(call->out, "detail", op.detail);
	show_steps(call, steps, n);
	return 0;
}

/* Not every resume is dangerous: one that gives something up is. */
static int ask_to_give_up(struct rk_call *call, struct rk_err *err)
{
	const char *lane = rk_call_arg(call, "give-up");
	bool asked = call->dry_run || (call->command->flags & RK_CMD_DANGEROUS);

	return !lane || asked ? 0 : rk_app_confirm(call->app, rk_arena_printf(call->arena, "op resume %" PRId64 " --give-up %s", call->op, lane), call->yes, err);
}

static int both_or_none(const struct rk_parsed *parsed, struct rk_err *err)
{
	const struct rk_call call = { .command = parsed->command, .parsed = parsed };

	if (!rk_call_arg(&call, "give-up") == !rk_call_arg(&call, "reason"))
		return 0;
	rk_err_set(err, RK_INVALID, "--give-up and --reason go together");
	rk_err_hint(err, "--give-up nvlink:RACK or ib:FABRIC, --reason TEXT");
	return RK_INVALID;
}

/* The steps as they are: what there is to finish, to undo, to confirm. On one that was over already nothing is done, and that is said. */
static int change(struct rk_call *call, int (*fn)(struct rk_world *world, int64_t op, struct rk_err *err), struct rk_err *err)
{
	struct rk_op_row op;
	int rc = rk_store_op_get(call->world->store, op_id(call), call->arena, &op, err);

	if (!rc && call->dry_run)
		rc = show(call, err);
	call->op = op_id(call);
	if (!rc)
		rc = ask_to_give_up(call, err);
	call->world->give_up = rk_call_arg(call, "give-up");
	call->world->give_up_why = rk_call_arg(call, "reason");
	if (!rc)
		rc = fn(call->world, call->op, err);
	call->world->give_up = call->world->give_up_why = NULL;
	if (!rc && rk_op_is_over(&op))
		rk_out_note(call->out, "operation %" PRId64 " was over before (%s): nothing was done", op.id, op.state);
	return rc;
}

static int resume(struct rk_call *call, struct rk_err *err)
{
	return change(call, rk_call_flag(call, "watch") && !call->dry_run ? rk_op_watch : rk_op_resume, err);
}

static int rollback(struct rk_call *call, struct rk_err *err)
{
	return change(call, rk_op_rollback, err);
}

static int cancel(struct rk_call *call, struct rk_err *err)
{
	return change(call, rk_op_cancel, err);
}

static int confirm(struct rk_call *call, struct rk_err *err)
{
	return change(call, rk_op_confirm, err);
}

static int takeover(struct rk_call *call, struct rk_err *err)
{
	const char *former = NULL;

	call->op = op_id(call);
	int rc = rk_op_takeover(call->world, op_id(call), true, call->arena, &former, err);

	if (!rc)
		rc = show(call, err);
	if (!rc && former && !call->dry_run)
		rk_out_note(call->out, "taken over from %s; now: racksh op resume or racksh op rollback %" PRId64, former, op_id(call));
	return rc;
}

#define ID_ARG RK_ARGS({ .name = "ID", .type = RK_ARG_OP, .required = true, .help = "number of the operation" })
#define COLUMNS                                                                                                                      \
	{ "id", RK_COL_NUMBER }, { "command", RK_COL_TEXT }, { "state", RK_COL_TEXT }, { "by", RK_COL_TEXT }, { "started", RK_COL_TIME }
#define SHOW_COLUMNS RK_COLUMNS(COLUMNS, { "detail", RK_COL_TEXT }, { "steps", RK_COL_JSON })

#define GIVE_UP                                                                                                                              \
	{ .name = "give-up", .type = RK_ARG_TEXT, .help = "end it without the steps of this controller, which is lost for good: nvlink:RACK or ib:FABRIC" }, \
		{ .name = "reason", .type = RK_ARG_TEXT, .help = "why; with --give-up, shown wherever something is kept back for it" }
#define GIVE_UP_HELP                                                                                                                         \
	"--give-up tries the steps of an NVLink controller (nvlink:r01) or a subnet manager (ib:ib0) once more; those that fail are given up, when the " \
	"operation has no other way out. Nobody knows then what the controller holds: the trays concerned are faulty, the ids of partitions and keys are given "  \
	"to nobody, `drift` shows them as left behind, and the command ends with code 3. When the controller or its successor answers, `drift --fix` removes what " \
	"is left, and `tray uncordon` brings the trays back. It asks, or needs -y."

#define CHANGES (RK_CMD_CHANGES | RK_CMD_REMOTE)

static const struct rk_command rows[] = {
	{ .noun = "op", .verb = "list", .summary = "list the operations, newest first", .list = true, .columns = RK_COLUMNS(COLUMNS), .examples = RK_EXAMPLES("op list"), .run = list },
	{ .noun = "op", .verb = "show", .summary = "show an operation with its steps", .args = ID_ARG, .columns = SHOW_COLUMNS, .run = show },
	{ .noun = "op", .verb = "resume", .summary = "finish an operation that was left, in the direction it had", .args = ID_ARG, .flags = CHANGES, .columns = SHOW_COLUMNS,
	  .options = RK_ARGS(GIVE_UP, { .name = "watch", .type = RK_ARG_NONE, .help = "stay: wait for whoever runs it, and undo it when nobody confirms it in time" }),
	  .description = "One whose rollback had begun is rolled back further; one that awaits its confirmation is undone when its time is over. On an operation that "
			 "is over nothing is done. --watch is what runs in the background after --no-wait and --confirm-within; it needs nothing but the store, so "
			 "it can be started again by hand or by a service after a reboot.\n\n" GIVE_UP_HELP, .check = both_or_none, .run = resume },
	{ .noun = "op", .verb = "rollback", .summary = "undo an operation that was left or awaits its confirmation", .args = ID_ARG, .flags = CHANGES | RK_CMD_DANGEROUS,
	  .columns = SHOW_COLUMNS, .options = RK_ARGS(GIVE_UP), .check = both_or_none, .run = rollback,
	  .description = "Safe to repeat; on an operation that is over nothing is done. One that can only be finished is refused.\n\n" GIVE_UP_HELP },
	{ .noun = "op", .verb = "confirm", .summary = "keep what --confirm-within put on trial", .args = ID_ARG, .flags = CHANGES, .columns = SHOW_COLUMNS, .run = confirm,
	  .description = "Does what was put off until now, such as erasing the drives of VMs that left. Too late is code 4." },
	{ .noun = "op", .verb = "cancel", .summary = "stop an operation and take back what it did", .args = ID_ARG, .flags = CHANGES | RK_CMD_DANGEROUS, .columns = SHOW_COLUMNS,
	  .run = cancel, .description = "One that another process runs, on any machine that shares the store, is asked to stop; this waits for the outcome unless "
					"--no-wait is given." },
	{ .noun = "op", .verb = "takeover", .summary = "take the leases of an operation whose process is gone", .args = ID_ARG, .flags = CHANGES | RK_CMD_DANGEROUS,
	  .columns = SHOW_COLUMNS, .run = takeover,
	  .description = "Shows what is interrupted and leaves the operation to be resumed or rolled back. Refused while its process lives on this machine; one "
			 "on another machine cannot be asked, so be sure that it is gone. If it does live, it notices at its next step and stops." },
};
RK_NOUN(op, "journalled operations", NULL, rows);

static int list_audit(struct rk_call *call, struct rk_err *err)
{
	struct rk_audit_row *audit;
	size_t n;
	int rc = rk_store_audit_list(call->world->store, call->arena, &audit, &n, err);

	for (size_t i = 0; !rc && i < n; i++) {
		rk_out_row(call->out);
		rk_cell_number(call->out, "id", audit[i].id);
		rk_cell_time(call->out, "at", audit[i].at_ms);
		rk_cell_text(call->out, "by", audit[i].by);
		rk_cell_text(call->out, "command", audit[i].command);
		rk_cell_text(call->out, "result", audit[i].result);
		if (audit[i].op)
			rk_cell_number(call->out, "op", audit[i].op);
	}
	return rc;
}

static const struct rk_command audit_rows[] = {
	{ .noun = "audit", .verb = "list", .summary = "list who changed what", .list = true, .examples = RK_EXAMPLES("audit list"), .run = list_audit,
	  .columns = RK_COLUMNS({ "id", RK_COL_NUMBER }, { "at", RK_COL_TIME }, { "by", RK_COL_TEXT }, { "command", RK_COL_TEXT }, { "result", RK_COL_TEXT },
				{ "op", RK_COL_NUMBER }) },
};
RK_NOUN(audit, "who changed what, when", NULL, audit_rows);


static int help(struct rk_call *call, struct rk_err *err)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	int rc = rk_help(rk_call_arg(call, "COMMAND"), rk_call_arg(call, "VERB"), rk_screen_width(), &out, err);

	rk_out_raw(call->out, rk_str_text(&out), out.len);
	return rc;
}

static const struct rk_command help_rows[] = {
	{ .noun = "help", .summary = "explain racksh, a command or a verb", .flags = RK_CMD_NO_STORE | RK_CMD_RAW,
	  .args = RK_ARGS({ .name = "COMMAND", .type = RK_ARG_TEXT, .help = "a command" }, { .name = "VERB", .type = RK_ARG_TEXT, .help = "one of its verbs" }),
	  .examples = RK_EXAMPLES("help", "help cluster", "help cluster create"), .run = help },
};
RK_NOUN(help, "help", NULL, help_rows);
