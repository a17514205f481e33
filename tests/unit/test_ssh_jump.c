/* Through jump hosts on which no shell can be had, against real sshds; skipped without one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/sshd.h"

static struct sshd bastion, second, closed, target;
static struct sshd *const all[] = { &bastion, &second, &closed, &target };

/* One user key for all of them; known: the keys of the hops. */
static int start(void **state)
{
	static const char no_shell[] = "ForceCommand /bin/false\nPermitTTY no\nAllowTcpForwarding local\n";
	struct rk_str known RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	char *text RK_CLEANUP_FREE = NULL;
	size_t len;

	(void)state;
	sshd_start(&bastion, no_shell);
	sshd_start(&second, no_shell);
	sshd_start(&closed, "AllowTcpForwarding no\n");
	sshd_start(&target, "");
	if (!target.up)
		return 0;
	char *authorized RK_CLEANUP_FREE = rk_xasprintf("%s/authorized", target.dir);
	assert_int_equal(rk_file_read(authorized, 1 << 16, &text, &len, &err), 0);
	for (size_t i = 0; i < RK_ARRAY_SIZE(all); i++) {
		sshd_write(all[i], "authorized", text, 0600);
		if (all[i] != &target)
			rk_str_addf(&known, "[127.0.0.1]:%d %s\n", all[i]->port, all[i]->host_public);
	}
	sshd_write(&target, "known", rk_str_text(&known), 0600);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(all); i++)
		sshd_stop(all[i]);
	return 0;
}

static struct rk_ssh_target through(struct rk_arena *arena, const char *jump)
{
	if (!target.up)
		skip();
	return (struct rk_ssh_target){ .host = "127.0.0.1", .port = target.port, .host_key = target.host_public, .identity_file = target.client_key,
				       .known_hosts = rk_arena_printf(arena, "%s/known", target.dir), .jump = jump };
}

static const char *hop(struct rk_arena *arena, const struct sshd *s)
{
	return rk_arena_printf(arena, "127.0.0.1:%d", s->port);
}

static struct rk_ssh *opened(const struct rk_ssh_target *t, const struct rk_ssh_limits *limits, const volatile int *cancel)
{
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_ssh *ssh = NULL;

	if (rk_ssh_open(t, limits, NULL, cancel, &ssh, &err) != 0)
		fail_msg("%s", err.message);
	return ssh;
}

static void fails(const struct rk_ssh_target *t, const struct rk_ssh_limits *limits, const char *const *words)
{
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_ssh *ssh = NULL;

	assert_int_equal(rk_ssh_open(t, limits, NULL, NULL, &ssh, &err), RK_UNREACHABLE);
	assert_null(ssh);
	for (; *words; words++)
		if (!strstr(err.message, *words))
			fail_msg("\"%s\" does not say %s", err.message, *words);
}
#define FAILS(t, limits, ...) fails(t, limits, (const char *const[]){ __VA_ARGS__, NULL })

static void large_streams(struct rk_ssh *ssh)
{
	const char *argv[] = { "sh", "-c", "cat; echo done >&2; exit 3", NULL };
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	size_t len = 5 << 20;
	char *input RK_CLEANUP_FREE = rk_xmalloc(len);
	struct rk_ssh_result r;

	for (size_t i = 0; i < len; i++)
		input[i] = (char)(i * 7919 >> 5);
	if (rk_ssh_run(ssh, argv, input, len, &r, &err) != 0)
		fail_msg("%s", err.message);
	assert_int_equal(r.status, 3);
	assert_string_equal(rk_str_text(&r.err), "done\n");
	assert_int_equal(r.out.len, len);
	assert_memory_equal(r.out.text, input, len);
	rk_ssh_result_clear(&r);
}

static void a_host_behind_a_jump_host_without_a_shell_is_reached(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_ssh_target t = through(arena, hop(arena, &bastion));
	struct rk_ssh *ssh = opened(&t, NULL, NULL);
	int before = bastion.connections;

	(void)state;
	large_streams(ssh);
	large_streams(ssh); /* the session stays usable */
	assert_int_equal(bastion.connections, before);
	rk_ssh_close(ssh);
}

static void two_jump_hosts_make_a_chain(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const char *jump = rk_arena_printf(arena, "127.0.0.1:%d,127.0.0.1:%d", bastion.port, second.port);
	struct rk_ssh_target t = through(arena, jump);
	int before = second.connections;
	struct rk_ssh *ssh = opened(&t, NULL, NULL);

	(void)state;
	large_streams(ssh);
	assert_int_equal(second.connections, before + 1);
	rk_ssh_close(ssh);
}

static void keys_of_jump_host_and_host_are_both_pinned(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_ssh_target t = through(arena, hop(arena, &bastion));

	(void)state;
	t.host_key = bastion.host_public;
	FAILS(&t, NULL, "host key: not the key that is known", "via ");
	t.host_key = target.host_public;
	t.known_hosts = "/nonexistent/known";
	FAILS(&t, NULL, "jump host for 127.0.0.1", "host key: the host is not in");
}

static void what_goes_wrong_names_the_phase_and_the_host(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_ssh_target t = through(arena, hop(arena, &closed));
	struct rk_ssh_limits limits = { .connect_ms = 200 };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(addr);

	(void)state;
	FAILS(&t, NULL, "via ", "jump: ", "open failed");
	t.jump = hop(arena, &bastion);
	/* Bound and not listening: nobody else can take the port meanwhile. */
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	getsockname(fd, (struct sockaddr *)&addr, &size);
	t.port = ntohs(addr.sin_port);
	FAILS(&t, NULL, "jump: ", "refused");
	close(fd);
	t.port = target.port;
	target.silent = true;
	FAILS(&t, &limits, "via ", "key exchange: timed out");
	target.silent = false;
	bastion.silent = true;
	FAILS(&t, &limits, "jump host for", "key exchange: timed out");
	bastion.silent = false;
}

static void too_many_or_misspelt_hops_are_no_input(void **state)
{
	static const char *const bad[] = { "a,b,c,d,e", "a,,b", "-oProxyCommand=x", "a;b" };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(bad); i++) {
		const struct rk_ssh_target t = { .host = "127.0.0.1", .known_hosts = "/nonexistent/known", .jump = bad[i] };
		struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
		struct rk_ssh *ssh = NULL;
		if (rk_ssh_open(&t, NULL, NULL, NULL, &ssh, &err) != RK_INVALID)
			fail_msg("\"%s\": %s", bad[i], err.message);
	}
}

static void limits_and_cancel_hold_through_a_jump_host(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_ssh_target t = through(arena, hop(arena, &bastion));
	const struct rk_ssh_limits limits = { .idle_ms = 50 };
	const char *argv[] = { "sleep", "5", NULL };
	volatile int cancel = 0;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT, later RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_ssh *ssh = opened(&t, &limits, &cancel);
	struct rk_ssh_result r;

	(void)state;
	assert_int_equal(rk_ssh_run(ssh, argv, NULL, 0, &r, &err), RK_UNREACHABLE);
	assert_non_null(strstr(err.message, "of silence"));
	rk_ssh_result_clear(&r);
	rk_ssh_limit(ssh, 60000, 60000);
	cancel = 1;
	assert_int_equal(rk_ssh_run(ssh, argv, NULL, 0, &r, &later), RK_CANCELLED);
	rk_ssh_result_clear(&r);
	rk_ssh_close(ssh);
}

struct many {
	struct rk_ssh_target target;
	_Atomic int good;
};

static void one(void *ctx, size_t i)
{
	struct many *m = ctx;
	const char *argv[] = { "echo", "here", NULL };
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_ssh_result r = { 0 };
	struct rk_ssh *ssh = NULL;

	(void)i;
	if (!rk_ssh_open(&m->target, NULL, NULL, NULL, &ssh, &err) && !rk_ssh_run(ssh, argv, NULL, 0, &r, &err))
		m->good += strcmp(rk_str_text(&r.out), "here\n") == 0;
	rk_ssh_result_clear(&r);
	rk_ssh_close(ssh);
}

/* More than a bastion takes at once by default (MaxStartups): they are let in a few at a time. */
static void a_fan_out_does_not_overrun_the_jump_host(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct many m = { .target = through(arena, hop(arena, &bastion)) };

	(void)state;
	rk_fanout(20, 20, one, &m);
	assert_int_equal(m.good, 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_host_behind_a_jump_host_without_a_shell_is_reached),
		cmocka_unit_test(two_jump_hosts_make_a_chain),
		cmocka_unit_test(keys_of_jump_host_and_host_are_both_pinned),
		cmocka_unit_test(what_goes_wrong_names_the_phase_and_the_host),
		cmocka_unit_test(too_many_or_misspelt_hops_are_no_input),
		cmocka_unit_test(limits_and_cancel_hold_through_a_jump_host),
		cmocka_unit_test(a_fan_out_does_not_overrun_the_jump_host),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
