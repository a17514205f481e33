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

/* ---- exec -------------------------------------------------------------------------------------------------------------------- */

struct answer {
	int rc;
	struct rk_ssh_result result;
	struct rk_err err;
};

struct exec {
	struct rk_call *call;
	const int *vms;
	const char **argv;
	struct answer *answers;
};

static void exec_one(void *ctx, size_t i)
{
	struct exec *x = ctx;
	struct answer *a = &x->answers[i];
	struct rk_vm_conn *conn = NULL;

	a->rc = rk_vm_connect(x->call->world, x->vms[i], &conn, &a->err);
	if (!a->rc)
		a->rc = rk_vm_run(conn, x->argv, &a->result, &a->err);
	if (!a->rc && a->result.status)
		a->rc = RK_FAILED;
	rk_vm_close(conn);
}

/* All 0 is 0; all of one class is that class; else partial. */
static int class_of(const struct answer *answers, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (answers[i].rc != answers[0].rc)
			return RK_PARTIAL;
	return answers[0].rc;
}

static bool same_answer(const struct answer *a, const struct answer *b)
{
	return a->rc == b->rc && a->result.status == b->result.status && strcmp(rk_str_text(&a->result.out), rk_str_text(&b->result.out)) == 0 &&
	       strcmp(rk_str_text(&a->result.err), rk_str_text(&b->result.err)) == 0 && rk_streq(a->err.message, b->err.message);
}

/* Newlines and tabs lay a guest's text out; everything else that drives a terminal is escaped. */
static void add_lines(struct rk_str *out, const char *text, size_t n)
{
	for (const char *end = text + n; text < end;) {
		size_t len = 0;
		while (text + len < end && text[len] != '\n' && text[len] != '\t')
			len++;
		rk_str_add_escaped(out, text, len);
		text += len;
		rk_str_addc(out, text < end ? *text : '\n');
		text++;
	}
}

static void print_folded(const struct exec *x, size_t n)
{
	const struct rk_site *site = x->call->world->site;
	bool *done = rk_arena_array(x->call->arena, n, sizeof(*done));
	const char **names = rk_arena_array(x->call->arena, n, sizeof(*names));

	/* Worst first: failures, then the rest. */
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < n; i++) {
			const struct answer *a = &x->answers[i];
			struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
			size_t same = 0;
			if (done[i] || (pass == 0) != (a->rc != 0))
				continue;
			for (size_t j = i; j < n; j++)
				if (!done[j] && same_answer(a, &x->answers[j])) {
					names[same++] = site->vms[x->vms[j]].name;
					done[j] = true;
				}
			rk_str_addf(&text, "%s (%zu)", rk_nodeset_fold(x->call->arena, names, same), same);
			if (a->err.message)
				rk_str_addf(&text, ": %s\n", a->err.message);
			else if (a->result.status)
				rk_str_addf(&text, ": exit status %d\n", a->result.status);
			else
				rk_str_add(&text, ":\n");
			add_lines(&text, rk_str_text(&a->result.out), a->result.out.len);
			add_lines(&text, rk_str_text(&a->result.err), a->result.err.len);
			rk_out_note(x->call->out, "%.*s", (int)(text.len - 1), rk_str_text(&text));
		}
}

static void exec_rows(const struct exec *x, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct answer *a = &x->answers[i];
		rk_out_row(x->call->out);
		rk_cell_text(x->call->out, "vm", x->call->world->site->vms[x->vms[i]].name);
		if (!a->err.message)
			rk_cell_number(x->call->out, "status", a->result.status);
		rk_cell_text(x->call->out, "stdout", rk_str_text(&a->result.out));
		rk_cell_text(x->call->out, "stderr", rk_str_text(&a->result.err));
		rk_cell_text(x->call->out, "error", a->err.message);
	}
}

/* A command that failed there is no failure of racksh, and nothing was taken back. */
static void say_failed(const struct answer *answers, size_t n, int rc, struct rk_err *err)
{
	size_t remote = 0, mute = 0;

	for (size_t i = 0; i < n; i++) {
		remote += answers[i].rc && !answers[i].err.message;
		mute += answers[i].err.message != NULL;
	}
	if (remote && mute)
		rk_err_set(err, rc, "the command failed remotely on %zu of %zu VMs, %zu could not be asked", remote, n, mute);
	else if (remote)
		rk_err_set(err, rc, "the command failed remotely on %zu of %zu VMs: its exit status there is not 0", remote, n);
	else
		rk_err_set(err, rc, "%zu of %zu VMs could not be asked", mute, n);
}

static int exec(struct rk_call *call, struct rk_err *err)
{
	struct exec x = { .call = call };
	int *vms;
	size_t n, words;
	const char *const *argv = rk_call_args(call, "COMMAND", &words);
	int rc = rk_select_vms(call->world->site, rk_call_arg(call, "SEL"), call->except, call->arena, &vms, &n, err);

	if (rc)
		return rc;
	x.argv = rk_arena_array(call->arena, words + 1, sizeof(char *));
	memcpy(x.argv, argv, words * sizeof(char *));
	x.vms = vms;
	x.answers = rk_arena_array(call->arena, n, sizeof(*x.answers));
	rk_fanout(n, call->world->jobs, exec_one, &x);
	if (call->parsed->globals.format == RK_FORMAT_TABLE)
		print_folded(&x, n);
	else
		exec_rows(&x, n);
	rc = class_of(x.answers, n);
	if (rc)
		say_failed(x.answers, n, rc, err);
	for (size_t i = 0; i < n; i++) {
		rk_ssh_result_clear(&x.answers[i].result);
		rk_err_clear(&x.answers[i].err);
	}
	return rc;
}

/* ---- power ----------------------------------------------------------------------------------------------------------------------- */

enum { GRACE_S = 120 };

static int run_power(struct rk_call *call, const struct rk_power_request *q, struct rk_err *err)
{
	struct rk_plan *plan = NULL;
	int64_t op = 0;
	int rc = call->dry_run ? rk_vm_power_plan(call->world, q, call->arena, &plan, err) : rk_vm_power(call->world, q, &op, err);

	for (size_t i = 0; plan && i < rk_plan_count(plan); i++) {
		const char *kind, *target, *summary;
		int id;
		rk_plan_step(plan, i, &id, &kind, &target, &summary);
		rk_out_note(call->out, "%s: %s", target, summary);
	}
	rk_plan_free(plan);
	return rc;
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
		.hard = rk_call_flag(call, "hard"),
	};
	rc = run_power(call, &q, err);
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
	{ .noun = "vm", .verb = "ssh", .summary = "log in to a VM with its pinned host key", .args = VM_ARG, .flags = RK_CMD_REMOTE, .run = rk_cmd_vm_ssh },
	{ .noun = "vm", .verb = "console", .summary = "open the serial console of a VM", .args = VM_ARG, .flags = RK_CMD_REMOTE, .run = rk_cmd_vm_console,
	  .description = "Through virsh, with its escape character ^]. Works without network in the guest." },
	{ .noun = "vm", .verb = "exec", .summary = "run a command on VMs and fold equal answers", .flags = RK_CMD_REMOTE | RK_CMD_SELECTS, .list = true,
	  .args = RK_ARGS({ .name = "SEL", .type = RK_ARG_SEL_VMS, .required = true, .help = "VMs, trays or groups: a-[01-03], @cluster:a" },
			  { .name = "COMMAND", .type = RK_ARG_COMMAND, .required = true, .help = "command and arguments, quoted for the remote shell" }),
	  .columns = RK_COLUMNS({ "vm", RK_COL_TEXT }, { "status", RK_COL_NUMBER }, { "stdout", RK_COL_TEXT }, { "stderr", RK_COL_TEXT }, { "error", RK_COL_TEXT }),
	  .run = exec },
};
RK_NOUN(vm, "virtual machines", NULL, rows);
