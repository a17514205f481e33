#include <stdio.h>
#include <string.h>

#include "cli/cmds/vm.h"
#include "inventory/base/file.h"

static void vm_row(struct rk_call *call, int index)
{
	const struct rk_site *site = call->world->site;
	const struct rk_vm *vm = &site->vms[index];
	const struct rk_cluster *c = &site->clusters[vm->cluster];

	rk_out_row(call->out);
	rk_cell_text(call->out, "name", vm->name);
	rk_cell_text(call->out, "cluster", c->name);
	rk_cell_text(call->out, "tenant", site->tenants[c->tenant].name);
	rk_cell_text(call->out, "tray", vm->tray >= 0 ? site->trays[vm->tray].name : NULL);
	rk_cell_text(call->out, "rack", vm->tray >= 0 ? site->racks[site->trays[vm->tray].rack].name : NULL);
	rk_cell_text(call->out, "state", rk_vm_state_name(vm->state));
	rk_cell_text(call->out, "address", vm->address);
	rk_cell_number(call->out, "ssh_port", vm->ssh_port);
	rk_cell_text(call->out, "uuid", vm->uuid);
}

static int list(struct rk_call *call, struct rk_err *err)
{
	(void)err;
	for (size_t i = 0; i < call->world->site->n_vms; i++)
		vm_row(call, (int)i);
	return 0;
}

int rk_one_vm(struct rk_call *call, int *ret, struct rk_err *err)
{
	int *vms;
	size_t n;
	int rc = rk_select_vms(call->world->site, rk_call_arg(call, "VM"), NULL, call->arena, &vms, &n, err);

	if (!rc && n != 1)
		rc = rk_err_set(err, RK_INVALID, "\"%s\" names %zu VMs, one is expected", rk_call_arg(call, "VM"), n);
	if (!rc)
		*ret = vms[0];
	return rc;
}

static int show(struct rk_call *call, struct rk_err *err)
{
	int vm, rc = rk_one_vm(call, &vm, err);

	if (!rc)
		vm_row(call, vm);
	return rc;
}

/* ---- power ----------------------------------------------------------------------------------------------------------------------- */

enum { GRACE_S = 120 };

static int run_power(struct rk_call *call, const struct rk_power_request *q, struct rk_err *err)
{
	struct rk_plan *plan = NULL;
	int64_t op = 0;
	int rc = call->dry_run ? rk_vm_power_plan(call->world, q, call->arena, &plan, err) : 0;

	if (!rc)
		rc = rk_vm_power(call->world, q, &op, err);
	call->op = op;
	for (size_t i = 0; plan && i < rk_plan_count(plan); i++) {
		const char *kind, *target, *summary;
		int id;
		rk_plan_step(plan, i, &id, &kind, &target, &summary);
		rk_out_note(call->out, "%s: %s", target, summary);
	}
	rk_plan_free(plan);
	return rc;
}

static void note_already(struct rk_call *call, const struct rk_power_request *q, const char *const *names)
{
	const char **same = rk_arena_array(call->arena, q->n, sizeof(*same));
	size_t n = 0;

	for (size_t i = 0; i < q->n; i++)
		if (q->already[i])
			same[n++] = names[i];
	if (n)
		rk_out_note(call->out, "%s %s %s already", rk_nodeset_fold(call->arena, same, n), n == 1 ? "is" : "are", q->on ? "running" : "stopped");
}

/* What became of each, by name: the snapshot was read anew. */
static void power_rows(struct rk_call *call, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int vm = rk_find_vm(call->world->site, names[i]);
		if (vm >= 0)
			vm_row(call, vm);
	}
}

static int power(struct rk_call *call, struct rk_err *err)
{
	const char *verb = call->command->verb, *within = rk_call_arg(call, "within");
	int *vms, grace_ms = GRACE_S * 1000;
	size_t n;
	int rc = rk_select_vms(call->world->site, rk_call_arg(call, "SEL"), call->except, call->arena, &vms, &n, err);

	if (!rc && within)
		rc = rk_duration_ms("within", within, &grace_ms, err);
	if (rc)
		return rc;
	const char **names = rk_arena_array(call->arena, n, sizeof(*names));
	for (size_t i = 0; i < n; i++)
		names[i] = rk_arena_strdup(call->arena, call->world->site->vms[vms[i]].name);
	const struct rk_power_request q = {
		.verb = verb, .off = strcmp(verb, "start") != 0, .on = strcmp(verb, "stop") != 0, .vms = vms, .n = n, .grace_s = grace_ms / 1000,
		.hard = rk_call_flag(call, "hard"), .already = rk_arena_array(call->arena, n, sizeof(bool)),
	};
	rc = run_power(call, &q, err);
	note_already(call, &q, names);
	power_rows(call, names, n);
	return rc;
}

#define COLUMNS                                                                                                                              \
	RK_COLUMNS({ "name", RK_COL_TEXT }, { "cluster", RK_COL_TEXT }, { "tenant", RK_COL_TEXT }, { "tray", RK_COL_TEXT }, { "rack", RK_COL_TEXT }, \
		   { "state", RK_COL_TEXT }, { "address", RK_COL_TEXT }, { "ssh_port", RK_COL_NUMBER, .wide = true }, { "uuid", RK_COL_TEXT, .wide = true })
#define VM_ARG RK_ARGS({ .name = "VM", .type = RK_ARG_VM, .required = true, .help = "name of a VM, or of the tray it is on" })

#define SEL_ARG RK_ARGS({ .name = "SEL", .type = RK_ARG_SEL_VMS, .required = true, .help = "VMs, trays or groups: a-[01-03], @cluster:a" })
#define GRACE                                                                                                          \
	RK_ARGS({ .name = "within", .type = RK_ARG_TEXT, .help = "how long a guest may take (default 2m)" },            \
		{ .name = "hard", .type = RK_ARG_NONE, .help = "turn it off when it takes longer, instead of failing" })
#define POWER_FLAGS (RK_CMD_CHANGES | RK_CMD_REMOTE | RK_CMD_SELECTS)
#define POWER_TEXT                                                                                                                               \
	"The guests are asked, and given time. Every VM stands alone: one that fails stops no other, and the code is 3 when some did. Drives and the " \
	"place in the partitions are kept."

static const struct rk_command rows[] = {
	{ .noun = "vm", .verb = "list", .summary = "list the VMs", .list = true, .columns = COLUMNS, .examples = RK_EXAMPLES("vm list"), .run = list },
	{ .noun = "vm", .verb = "show", .summary = "show one VM", .args = VM_ARG, .columns = COLUMNS, .run = show },
	{ .noun = "vm", .verb = "start", .summary = "start VMs and wait until they answer", .args = SEL_ARG, .flags = POWER_FLAGS | RK_CMD_STAGES, .list = true, .columns = COLUMNS, .run = power,
	  .description = "Waits for SSH with the pinned host key, then the guest is told the IMEX list of its rack. A VM that runs is left alone.",
	  .examples = RK_EXAMPLES("vm start a-[01-02]") },
	{ .noun = "vm", .verb = "stop", .summary = "shut VMs down", .args = SEL_ARG, .options = GRACE, .flags = POWER_FLAGS | RK_CMD_STAGES | RK_CMD_DANGEROUS, .list = true, .columns = COLUMNS,
	  .run = power, .description = POWER_TEXT, .examples = RK_EXAMPLES("vm stop a-02", "vm stop @cluster:a --within 5m --hard", "vm stop a-02 -n") },
	{ .noun = "vm", .verb = "reboot", .summary = "shut VMs down and start them again", .args = SEL_ARG, .options = GRACE, .flags = POWER_FLAGS | RK_CMD_STAGES | RK_CMD_DANGEROUS, .list = true,
	  .columns = COLUMNS, .run = power, .description = POWER_TEXT, .examples = RK_EXAMPLES("vm reboot a-01") },
	{ .noun = "vm", .verb = "ssh", .summary = "log in to a VM with its pinned host key", .args = VM_ARG, .flags = RK_CMD_REMOTE | RK_CMD_OPEN, .run = rk_cmd_vm_ssh },
	{ .noun = "vm", .verb = "console", .summary = "open the serial console of a VM", .args = VM_ARG, .flags = RK_CMD_REMOTE | RK_CMD_OPEN, .run = rk_cmd_vm_console,
	  .description = "Through virsh, with its escape character ^]. Works without network in the guest." },
	{ .noun = "vm", .verb = "exec", .summary = "run a command on VMs and fold equal answers", .flags = RK_CMD_REMOTE | RK_CMD_SELECTS | RK_CMD_OPEN,
	  .list = true, .args = RK_ARGS({ .name = "SEL", .type = RK_ARG_SEL_VMS, .required = true, .help = "VMs, trays or groups: a-[01-03], @cluster:a" },
			  { .name = "COMMAND", .type = RK_ARG_COMMAND, .required = true, .help = "command and arguments, quoted for the remote shell" }),
	  .columns = RK_COLUMNS({ "vm", RK_COL_TEXT }, { "status", RK_COL_NUMBER }, { "signal", RK_COL_TEXT }, { "stdout", RK_COL_TEXT }, { "stderr", RK_COL_TEXT },
				{ "truncated", RK_COL_BOOL }, { "error", RK_COL_TEXT }),
	  .description = "Equal answers are shown once with the VMs that gave them, the worst first: VMs that could not be asked, then those where the command failed. "
			 "The command has no input. ^C ends at once and shows what is there; a command ends with racksh and with --timeout, but for what made a "
			 "session of its own (setsid). What it would change nobody knows: -n only shows it, --read-only refuses it. The code is that of the VMs when all agree, else 3.",
	  .run = rk_cmd_vm_exec },
};
RK_NOUN(vm, "virtual machines", NULL, rows);
