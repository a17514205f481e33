#include <string.h>

#include "cli/cmds/vm.h"

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
	size_t n;
};

static void exec_one(void *ctx, size_t i)
{
	struct exec *x = ctx;
	struct answer *a = &x->answers[i];
	struct rk_vm_conn *conn = NULL;

	a->rc = rk_vm_connect(x->call->world, x->vms[i], 0, &conn, &a->err);
	if (!a->rc)
		a->rc = rk_vm_run_tied(conn, x->argv, &a->result, &a->err);
	if (!a->rc && a->result.status)
		a->rc = RK_FAILED;
	rk_vm_close(conn);
}

/* Cancelled is all of it; else all 0 is 0, all of one class is that class, a mixture is partial. */
static int class_of(const struct exec *x)
{
	int rc = x->answers[0].rc;

	for (size_t i = 0; i < x->n; i++) {
		if (x->answers[i].rc == RK_CANCELLED)
			return RK_CANCELLED;
		if (x->answers[i].rc != x->answers[0].rc)
			rc = RK_PARTIAL;
	}
	return rc;
}

/* Who could not be asked stands above who gave a bad answer, and that above the rest. */
static int badness(const struct answer *a)
{
	return !a->rc ? 0 : a->rc == RK_FAILED && !a->err.message ? 1 : 2;
}

/* The error without the VM and the address it begins with, so that the same trouble of many VMs is one line. */
static const char *trouble(const struct answer *a)
{
	static const char *const heads[] = { "vm \"", "ssh " };
	const char *text = a->err.message;

	for (size_t i = 0; text && i < RK_ARRAY_SIZE(heads); i++) {
		const char *end = rk_starts_with(text, heads[i]) ? strstr(text, ": ") : NULL;
		text = end ? end + 2 : text;
	}
	return text;
}

static bool same_bytes(const struct rk_str *a, const struct rk_str *b)
{
	return a->len == b->len && (!a->len || memcmp(a->text, b->text, a->len) == 0);
}

static bool same_answer(const struct answer *a, const struct answer *b)
{
	return a->rc == b->rc && a->result.status == b->result.status && rk_streq(a->result.signal, b->result.signal) &&
	       a->result.truncated == b->result.truncated && same_bytes(&a->result.out, &b->result.out) && same_bytes(&a->result.err, &b->result.err) &&
	       rk_streq(trouble(a), trouble(b));
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

static void add_head(struct rk_str *out, const struct answer *a)
{
	if (a->err.message)
		rk_str_addf(out, ": %s", trouble(a));
	else if (a->result.signal)
		rk_str_addf(out, ": ended by signal %s", a->result.signal);
	else if (a->result.status)
		rk_str_addf(out, ": exit status %d", a->result.status);
	else
		rk_str_addc(out, ':');
	rk_str_add(out, a->result.truncated ? " (there was more output than is kept)\n" : "\n");
}

/* One answer, with all VMs that gave it. Marks them. */
static void print_group(const struct exec *x, size_t first, bool *done, const char **names)
{
	const struct answer *a = &x->answers[first];
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	size_t n = 0;

	for (size_t j = first; j < x->n; j++)
		if (!done[j] && same_answer(a, &x->answers[j])) {
			names[n++] = x->call->world->site->vms[x->vms[j]].name;
			done[j] = true;
		}
	rk_str_addf(&text, "%s (%zu)", rk_nodeset_fold(x->call->arena, names, n), n);
	add_head(&text, a);
	add_lines(&text, rk_str_text(&a->result.out), a->result.out.len);
	add_lines(&text, rk_str_text(&a->result.err), a->result.err.len);
	rk_out_note(x->call->out, "%.*s", (int)(text.len - 1), rk_str_text(&text));
}

static void print_folded(const struct exec *x)
{
	bool *done = rk_arena_array(x->call->arena, x->n, sizeof(*done));
	const char **names = rk_arena_array(x->call->arena, x->n, sizeof(*names));

	for (int bad = 2; bad >= 0; bad--)
		for (size_t i = 0; i < x->n; i++)
			if (!done[i] && badness(&x->answers[i]) == bad)
				print_group(x, i, done, names);
}

/* A cell ends at a NUL byte: it is written as in tables. */
static const char *whole(struct rk_arena *arena, const struct rk_str *text)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;

	if (!text->len || !memchr(text->text, '\0', text->len))
		return rk_str_text(text);
	for (size_t i = 0; i < text->len; i++) {
		if (text->text[i])
			rk_str_addc(&out, text->text[i]);
		else
			rk_str_add(&out, "\\x00");
	}
	return rk_arena_strdup(arena, rk_str_text(&out));
}

static void exec_rows(const struct exec *x)
{
	struct rk_out *out = x->call->out;

	for (size_t i = 0; i < x->n; i++) {
		const struct answer *a = &x->answers[i];
		rk_out_row(out);
		rk_cell_text(out, "vm", x->call->world->site->vms[x->vms[i]].name);
		if (!a->err.message)
			rk_cell_number(out, "status", a->result.status);
		rk_cell_text(out, "signal", a->result.signal);
		rk_cell_text(out, "stdout", whole(x->call->arena, &a->result.out));
		rk_cell_text(out, "stderr", whole(x->call->arena, &a->result.err));
		rk_cell_bool(out, "truncated", a->result.truncated);
		rk_cell_text(out, "error", a->err.message);
	}
}

/* A command that failed there is no failure of racksh, and nothing was taken back. */
static int say_failed(const struct exec *x, int rc, struct rk_err *err)
{
	size_t remote = 0, mute = 0;

	for (size_t i = 0; i < x->n; i++) {
		remote += x->answers[i].rc && !x->answers[i].err.message;
		mute += x->answers[i].err.message != NULL;
	}
	if (rc == RK_CANCELLED)
		return rk_err_set(err, rc, "cancelled: %zu of %zu VMs had not answered", mute, x->n);
	if (remote && mute)
		return rk_err_set(err, rc, "the command failed remotely on %zu of %zu VMs, %zu could not be asked", remote, x->n, mute);
	if (remote)
		return rk_err_set(err, rc, "the command failed remotely on %zu of %zu VMs: its exit status there is not 0", remote, x->n);
	return rk_err_set(err, rc, "%zu of %zu VMs could not be asked", mute, x->n);
}

/* Nobody is asked; the words as the remote shell would get them. */
static void print_plan(const struct exec *x)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	const char **names = rk_arena_array(x->call->arena, x->n, sizeof(*names));

	for (size_t i = 0; i < x->n; i++)
		names[i] = x->call->world->site->vms[x->vms[i]].name;
	for (size_t i = 0; x->argv[i]; i++) {
		rk_str_addc(&text, ' ');
		rk_shell_quote(&text, x->argv[i]);
	}
	rk_out_note(x->call->out, "%s (%zu): would run%s", rk_nodeset_fold(x->call->arena, names, x->n), x->n, rk_str_text(&text));
}

int rk_cmd_vm_exec(struct rk_call *call, struct rk_err *err)
{
	struct exec x = { .call = call };
	int *vms;
	size_t words;
	const char *const *argv = rk_call_args(call, "COMMAND", &words);
	int rc = rk_select_vms(call->world->site, rk_call_arg(call, "SEL"), call->except, call->arena, &vms, &x.n, err);

	if (rc)
		return rc;
	x.argv = rk_arena_array(call->arena, words + 1, sizeof(char *));
	memcpy(x.argv, argv, words * sizeof(char *));
	x.vms = vms;
	if (call->dry_run)
		return print_plan(&x), 0;
	x.answers = rk_arena_array(call->arena, x.n, sizeof(*x.answers));
	rk_fanout(x.n, call->world->jobs, exec_one, &x);
	if (call->parsed->globals.format == RK_FORMAT_TABLE)
		print_folded(&x);
	else
		exec_rows(&x);
	rc = class_of(&x);
	if (rc)
		say_failed(&x, rc, err);
	for (size_t i = 0; i < x.n; i++) {
		rk_ssh_result_clear(&x.answers[i].result);
		rk_err_clear(&x.answers[i].err);
	}
	return rc;
}
