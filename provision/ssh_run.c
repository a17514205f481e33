/* Commands: one channel each, both streams drained, bounded in time and size. */
#include <libssh/callbacks.h>
#include <libssh/libssh.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "inventory/base/clock.h"
#include "provision/ssh_impl.h"

enum { COMMAND_MAX = 120 << 10, WRITE_CHUNK = 32 << 10 };

struct run {
	struct rk_ssh *ssh;
	ssh_channel channel;
	struct ssh_channel_callbacks_struct callbacks;
	const char *input;
	size_t input_len, sent;
	bool tied;                        /* the end of the input ends the command */
	bool eof_sent, ended, moved;      /* moved: bytes went or came since the last look */
	struct rk_ssh_result *result;
	int64_t idle_until, command_until;
};

/* Taken as it arrives: libssh hands nothing out any more once the connection is lost, and what a host said before that counts. A stream past its
 * limit is still drained: a full window would stop the other one. */
static int on_data(ssh_session session, ssh_channel channel, void *data, uint32_t n, int is_stderr, void *ctx)
{
	struct run *run = ctx;
	struct rk_str *out = is_stderr ? &run->result->err : &run->result->out;
	size_t room = run->ssh->limits.output_max - out->len, take = n < room ? n : room;

	(void)session;
	(void)channel;
	rk_str_addn(out, data, take);
	run->result->truncated |= take < n;
	run->moved = true;
	return (int)n;
}

static void on_exit_status(ssh_session session, ssh_channel channel, int status, void *ctx)
{
	struct run *run = ctx;

	(void)session;
	(void)channel;
	run->result->status = status;
	run->ended = true;
}

static void on_exit_signal(ssh_session session, ssh_channel channel, const char *name, int core, const char *message, const char *lang, void *ctx)
{
	static const char *const known[] = { "ABRT", "ALRM", "FPE", "HUP", "ILL", "INT", "KILL", "PIPE", "QUIT", "SEGV", "TERM", "USR1", "USR2" };
	struct run *run = ctx;

	(void)session;
	(void)channel;
	(void)core;
	(void)message;
	(void)lang;
	run->result->signal = "unknown";
	for (size_t i = 0; i < RK_ARRAY_SIZE(known); i++)
		if (rk_streq(name, known[i]))
			run->result->signal = known[i];
	run->ended = true;
}

static void run_end(struct run *run)
{
	if (!run->channel)
		return;
	ssh_remove_channel_callbacks(run->channel, &run->callbacks);
	ssh_channel_free(run->channel);
	run->channel = NULL;
}

/* When something moved just now it only looks, and does not wait. */
static int run_wait(struct run *run, struct rk_err *err)
{
	struct rk_ssh *ssh = run->ssh;
	int64_t now = rk_clock_ms(NULL), until = run->idle_until < run->command_until ? run->idle_until : run->command_until;

	if (now >= ssh->until)
		return rk_err_set(err, RK_UNREACHABLE, "ssh %s: command: timed out: the time for all of it is over; its outcome is not known", ssh->name);
	if (now >= until)
		return rk_err_set(err, RK_UNREACHABLE, "ssh %s: command: timed out after %d s%s; its outcome is not known", ssh->name,
				  (until == run->command_until ? ssh->limits.command_ms : ssh->limits.idle_ms) / 1000,
				  until == run->command_until ? "" : " of silence");
	/* Waiting is done here: inside libssh a wish to write that came up in a callback does not wake the poll. */
	int64_t left = (until < ssh->until ? until : ssh->until) - now;
	short events = (short)(POLLIN | (ssh_get_poll_flags(ssh->session) & SSH_WRITE_PENDING ? POLLOUT : 0));
	bool cancelled = ssh->cancel && *ssh->cancel;
	rk_ssh_poll(ssh, ssh->fd, events, cancelled || run->moved ? 0 : left < RK_SSH_SLICE_MS ? (int)left : RK_SSH_SLICE_MS);
	run->moved = false;
	bool lost = ssh_event_dopoll(ssh->event, 0) == SSH_ERROR || !ssh_is_connected(ssh->session);
	if (cancelled) /* after a last look: what has come is kept */
		return rk_err_set(err, RK_CANCELLED, "cancelled");
	if (!lost || run->ended)
		return 0;
	ssh->broken = true;
	return rk_err_set(err, RK_UNREACHABLE, "ssh %s: command: the connection was lost; its outcome is not known", ssh->name);
}

/* Repeats a channel request until it is answered. */
static int run_request(struct run *run, int (*request)(ssh_channel, const char *), const char *arg, const char *what, struct rk_err *err)
{
	for (;;) {
		int rc = request(run->channel, arg);
		if (rc == SSH_OK)
			return 0;
		if (rc != SSH_AGAIN) {
			run->ssh->broken = !ssh_is_connected(run->ssh->session);
			return rk_ssh_unreachable(run->ssh, what, ssh_get_error(run->ssh->session), err);
		}
		if ((rc = run_wait(run, err)) != 0)
			return rc;
	}
}

static int request_session(ssh_channel channel, const char *unused)
{
	(void)unused;
	return ssh_channel_open_session(channel);
}

static void push_input(struct run *run)
{
	while (run->sent < run->input_len) {
		uint32_t window = ssh_channel_window_size(run->channel);
		size_t left = run->input_len - run->sent, n = left < WRITE_CHUNK ? left : WRITE_CHUNK;
		if (window < n)
			n = window;
		/* Only whole windows and an idle socket: libssh would queue without limit otherwise. */
		if (!n || ssh_get_poll_flags(run->ssh->session) & SSH_WRITE_PENDING)
			return;
		int rc = ssh_channel_write(run->channel, run->input + run->sent, (uint32_t)n);
		if (rc <= 0)
			return;
		run->sent += (size_t)rc;
		run->moved = true;
	}
	if (!run->eof_sent && !run->tied) {
		ssh_channel_send_eof(run->channel);
		run->eof_sent = true;
	}
}

static int run_loop(struct run *run, struct rk_err *err)
{
	while (!ssh_channel_is_closed(run->channel) && !(run->ended && ssh_channel_is_eof(run->channel))) {
		push_input(run);
		if (run->moved)
			run->idle_until = rk_clock_ms(NULL) + run->ssh->limits.idle_ms;
		int rc = run_wait(run, err);
		if (rc != 0)
			return rc;
	}
	if (run->ended || ssh_is_connected(run->ssh->session))
		return 0;
	run->ssh->broken = true;
	return rk_err_set(err, RK_UNREACHABLE, "ssh %s: command: the connection was lost; its outcome is not known", run->ssh->name);
}

static int run_command(struct run *run, const char *command, struct rk_err *err)
{
	int rc;

	run->channel = ssh_channel_new(run->ssh->session);
	if (!run->channel)
		return rk_ssh_unreachable(run->ssh, "session", ssh_get_error(run->ssh->session), err);
	ssh_callbacks_init(&run->callbacks);
	run->callbacks.userdata = run;
	run->callbacks.channel_data_function = on_data;
	run->callbacks.channel_exit_status_function = on_exit_status;
	run->callbacks.channel_exit_signal_function = on_exit_signal;
	ssh_set_channel_callbacks(run->channel, &run->callbacks);
	if ((rc = run_request(run, request_session, NULL, "session", err)) != 0 ||
	    (rc = run_request(run, ssh_channel_request_exec, command, "command", err)) != 0)
		return rc;
	rc = run_loop(run, err);
	/* The watcher of a tied one does it, and must find it running. */
	if (rc != 0 && !run->ssh->broken && !run->tied)
		ssh_channel_request_send_signal(run->channel, "TERM");
	return rc;
}

static void trace_result(struct rk_ssh *ssh, const struct rk_ssh_result *result, int rc)
{
	if (!ssh->trace)
		return;
	char *text RK_CLEANUP_FREE = rk_xasprintf("-> %s%s%d, %zu bytes out, %zu bytes err%s", rc ? rk_class_name(rc) : result->signal ? "signal " : "status ",
						  rc ? " " : result->signal ? result->signal : "", result->status, result->out.len, result->err.len,
						  result->truncated ? ", truncated" : "");
	rk_trace_add(ssh->trace, "ssh", ssh->name, text);
}

static int run_argv(struct run *run, const char *const *argv, struct rk_err *err)
{
	struct rk_str command RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_ssh *ssh = run->ssh;
	int64_t now = rk_clock_ms(NULL);

	*run->result = (struct rk_ssh_result){ RK_STR_INIT, RK_STR_INIT, -1, NULL, false };
	run->idle_until = now + ssh->limits.idle_ms;
	run->command_until = now + ssh->limits.command_ms;
	if (ssh->broken)
		return rk_err_set(err, RK_UNREACHABLE, "ssh %s: the connection was lost before", ssh->name);
	for (size_t i = 0; argv[i]; i++) {
		if (i)
			rk_str_addc(&command, ' ');
		rk_shell_quote(&command, argv[i]);
	}
	if (command.len > COMMAND_MAX)
		return rk_err_set(err, RK_INVALID, "ssh %s: a command line of %zu bytes is too long", ssh->name, command.len);
	rk_trace_add(ssh->trace, "ssh", ssh->name, rk_str_text(&command));
	if (run->tied)
		rk_ssh_tie(&command);
	int rc = run_command(run, rk_str_text(&command), err);
	run_end(run);
	trace_result(ssh, run->result, rc);
	return rc;
}

int rk_ssh_run(struct rk_ssh *ssh, const char *const *argv, const char *input, size_t input_len, struct rk_ssh_result *result, struct rk_err *err)
{
	struct run run = { .ssh = ssh, .input = input, .input_len = input_len, .result = result };

	return run_argv(&run, argv, err);
}

int rk_ssh_run_tied(struct rk_ssh *ssh, const char *const *argv, struct rk_ssh_result *result, struct rk_err *err)
{
	struct run run = { .ssh = ssh, .tied = true, .result = result };

	return run_argv(&run, argv, err);
}

void rk_ssh_limit(struct rk_ssh *ssh, int idle_ms, int command_ms)
{
	ssh->limits.idle_ms = idle_ms;
	ssh->limits.command_ms = command_ms;
}

void rk_ssh_result_clear(struct rk_ssh_result *result)
{
	rk_str_clear(&result->out);
	rk_str_clear(&result->err);
}
