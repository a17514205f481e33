/* The transport against a real sshd (inetd mode, started per connection on a socket of our own); those tests are skipped without one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <pwd.h>
#include <sys/un.h>

#include <cmocka.h>

#include "tests/unit/sshd.h"

static struct sshd server;

static void write_file(const char *name, const char *text, mode_t mode)
{
	sshd_write(&server, name, text, mode);
}

static int start_server(void **state)
{
	(void)state;
	sshd_start(&server, "");
	return 0;
}

static int stop_server(void **state)
{
	(void)state;
	sshd_stop(&server);
	return 0;
}

static struct rk_ssh_target target(void)
{
	return (struct rk_ssh_target){ .host = "127.0.0.1", .port = server.port, .host_key = server.host_public, .identity_file = server.client_key };
}

static struct rk_ssh *session(const struct rk_ssh_limits *limits, const volatile int *cancel)
{
	struct rk_ssh_target t = target();
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_ssh *ssh = NULL;

	if (!server.up)
		skip();
	if (rk_ssh_open(&t, limits, NULL, cancel, &ssh, &err) != 0)
		fail_msg("%s", err.message);
	return ssh;
}

static void run_ok(struct rk_ssh *ssh, const char *script, const char *input, size_t len, struct rk_ssh_result *result)
{
	const char *argv[] = { "sh", "-c", script, NULL };
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	if (rk_ssh_run(ssh, argv, input, len, result, &err) != 0)
		fail_msg("%s", err.message);
}

static void streams_status_and_signal_are_told_apart(void **state)
{
	struct rk_ssh *ssh = session(NULL, NULL);
	struct rk_ssh_result r;

	(void)state;
	run_ok(ssh, "echo out; echo err >&2; exit 7", NULL, 0, &r);
	assert_string_equal(rk_str_text(&r.out), "out\n");
	assert_string_equal(rk_str_text(&r.err), "err\n");
	assert_int_equal(r.status, 7);
	assert_null(r.signal);
	rk_ssh_result_clear(&r);
	run_ok(ssh, "kill -KILL $$", NULL, 0, &r);
	assert_int_equal(r.status, -1);
	assert_string_equal(r.signal, "KILL");
	rk_ssh_result_clear(&r);
	rk_ssh_close(ssh);
}

static void arguments_arrive_as_they_were_given(void **state)
{
	struct rk_ssh *ssh = session(NULL, NULL);
	const char *argv[] = { "printf", "%s|", "a b", "", "$HOME", "it's", "*", "x\ny", NULL };
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_ssh_result r;

	(void)state;
	assert_int_equal(rk_ssh_run(ssh, argv, NULL, 0, &r, &err), 0);
	assert_string_equal(rk_str_text(&r.out), "a b||$HOME|it's|*|x\ny|");
	rk_ssh_result_clear(&r);
	rk_ssh_close(ssh);
}

static void large_streams_flow_both_ways_and_are_bounded(void **state)
{
	struct rk_ssh_limits limits = { .output_max = 3 << 20 };
	struct rk_ssh *ssh = session(&limits, NULL);
	size_t len = 5 << 20;
	char *input RK_CLEANUP_FREE = rk_xmalloc(len);
	struct rk_ssh_result r;

	(void)state;
	memset(input, 'x', len);
	run_ok(ssh, "cat; head -c 100000 /dev/zero >&2", input, len, &r);
	assert_int_equal(r.status, 0);
	assert_int_equal(r.out.len, 3 << 20);
	assert_int_equal(r.err.len, 100000);
	assert_true(r.truncated);
	rk_ssh_result_clear(&r);
	run_ok(ssh, "wc -c", input, len, &r);
	assert_int_equal(strtol(rk_str_text(&r.out), NULL, 10), len);
	assert_false(r.truncated);
	rk_ssh_result_clear(&r);
	rk_ssh_close(ssh);
}

static void a_silent_command_ends_at_its_limit_and_the_session_goes_on(void **state)
{
	struct rk_ssh_limits limits = { .idle_ms = 50 };
	struct rk_ssh *ssh = session(&limits, NULL);
	const char *argv[] = { "sleep", "5", NULL };
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_ssh_result r;

	(void)state;
	assert_int_equal(rk_ssh_run(ssh, argv, NULL, 0, &r, &err), RK_UNREACHABLE);
	assert_non_null(strstr(err.message, "of silence; its outcome is not known"));
	rk_ssh_result_clear(&r);
	rk_ssh_limit(ssh, 60000, 60000);
	run_ok(ssh, "echo again", NULL, 0, &r);
	assert_string_equal(rk_str_text(&r.out), "again\n");
	rk_ssh_result_clear(&r);
	rk_ssh_close(ssh);
}

static void cancel_ends_a_command_and_not_the_session(void **state)
{
	volatile int cancel = 0;
	struct rk_ssh *ssh = session(NULL, &cancel);
	const char *argv[] = { "sleep", "5", NULL };
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_ssh_result r;

	(void)state;
	cancel = 1;
	assert_int_equal(rk_ssh_run(ssh, argv, NULL, 0, &r, &err), RK_CANCELLED);
	rk_ssh_result_clear(&r);
	cancel = 0;
	run_ok(ssh, "echo again", NULL, 0, &r);
	assert_string_equal(rk_str_text(&r.out), "again\n");
	rk_ssh_result_clear(&r);
	rk_ssh_close(ssh);
}

static void open_fails(struct rk_ssh_target *t, const struct rk_ssh_limits *limits, const char *word)
{
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_ssh *ssh = NULL;

	assert_int_equal(rk_ssh_open(t, limits, NULL, NULL, &ssh, &err), RK_UNREACHABLE);
	assert_null(ssh);
	if (!strstr(err.message, word))
		fail_msg("\"%s\" does not say %s", err.message, word);
}

static void another_host_key_is_refused(void **state)
{
	struct rk_ssh_target t = target();
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	char *priv RK_CLEANUP_FREE = NULL, *pub RK_CLEANUP_FREE = NULL;

	(void)state;
	if (!server.up)
		skip();
	assert_int_equal(rk_ssh_make_key("x", &priv, &pub, &err), 0);
	t.host_key = pub;
	open_fails(&t, NULL, "host key");
}

static void known_hosts_decides_when_nothing_is_pinned(void **state)
{
	struct rk_ssh_target t = target();
	char *known RK_CLEANUP_FREE = rk_xasprintf("%s/known", server.dir);
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_ssh *ssh = NULL;

	(void)state;
	if (!server.up)
		skip();
	t.host_key = NULL;
	t.known_hosts = known;
	open_fails(&t, NULL, "host key");
	char *line RK_CLEANUP_FREE = rk_xasprintf("127.0.0.1 %s\n", server.host_public);
	write_file("known", line, 0600);
	open_fails(&t, NULL, "host key"); /* the line is for port 22 */
	char *ported RK_CLEANUP_FREE = rk_xasprintf("[127.0.0.1]:%d %s\n", server.port, server.host_public);
	write_file("known", ported, 0600);
	assert_int_equal(rk_ssh_open(&t, NULL, NULL, NULL, &ssh, &err), 0);
	rk_ssh_close(ssh);
	char *two RK_CLEANUP_FREE = rk_xasprintf("/nonexistent/known %s", known);
	t.known_hosts = two;
	assert_int_equal(rk_ssh_open(&t, NULL, NULL, NULL, &ssh, &err), 0);
	rk_ssh_close(ssh);
	t.known_hosts = known;
	char *revoked RK_CLEANUP_FREE = rk_xasprintf("@revoked * %s\n%s", server.host_public, ported);
	write_file("known", revoked, 0600);
	open_fails(&t, NULL, "revoked");
}

static void a_key_of_an_old_kind_is_refused_by_name(void **state)
{
	struct rk_ssh_target t = target();
	char *known RK_CLEANUP_FREE = rk_xasprintf("%s/known", server.dir);

	(void)state;
	if (!server.up)
		skip();
	t.host_key = NULL;
	t.known_hosts = known;
	char *odd RK_CLEANUP_FREE = rk_xasprintf("[127.0.0.1]:%d ssh-dss%s\n", server.port, server.host_public + strlen("ssh-ed25519"));
	write_file("known", odd, 0600);
	open_fails(&t, NULL, "is not taken");
}

/* Short commands, each in time: all of them together are not. */
static void the_time_for_all_of_it_ends_a_session(void **state)
{
	const struct rk_ssh_limits limits = { .total_ms = 1500 };
	struct rk_ssh *ssh = session(&limits, NULL);
	const char *argv[] = { "sleep", "0.3", NULL };
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_ssh_result r;
	int rc = 0;

	(void)state;
	for (int i = 0; i < 100 && !rc; i++) {
		rc = rk_ssh_run(ssh, argv, NULL, 0, &r, &err);
		rk_ssh_result_clear(&r);
	}
	assert_int_equal(rc, RK_UNREACHABLE);
	assert_non_null(strstr(err.message, "the time for all of it is over"));
	rk_ssh_close(ssh);
}

static void make_pair(const char *name)
{
	char *priv RK_CLEANUP_FREE = NULL, *pub RK_CLEANUP_FREE = NULL, *line RK_CLEANUP_FREE = NULL, *beside RK_CLEANUP_FREE = rk_xasprintf("%s.pub", name);
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	assert_int_equal(rk_ssh_make_key(name, &priv, &pub, &err), 0);
	write_file(name, priv, 0600);
	line = rk_xasprintf("%s\n", pub);
	write_file(beside, line, 0600);
}

static int ran(const char *const *argv)
{
	int status = 1;
	pid_t pid = fork();

	if (pid == 0) {
		execv(argv[0], (char *const *)argv);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The key alone is not authorised; its certificate, signed by an authority the server trusts, is. */
static void a_certificate_beside_the_key_is_used(void **state)
{
	const struct passwd *me = getpwuid(geteuid());
	struct rk_ssh_target t = target();
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_ssh *ssh = NULL;

	(void)state;
	if (!server.up || !me || access("/usr/bin/ssh-keygen", X_OK) != 0)
		skip();
	make_pair("ca");
	make_pair("guest");
	char *ca RK_CLEANUP_FREE = rk_xasprintf("%s/ca", server.dir), *guest RK_CLEANUP_FREE = rk_xasprintf("%s/guest", server.dir);
	char *guest_pub RK_CLEANUP_FREE = rk_xasprintf("%s.pub", guest);
	t.identity_file = guest;
	open_fails(&t, NULL, "authentication");
	assert_int_equal(ran((const char *const[]){ "/usr/bin/ssh-keygen", "-q", "-s", ca, "-I", "test", "-n", me->pw_name, guest_pub, NULL }), 0);
	if (rk_ssh_open(&t, NULL, NULL, NULL, &ssh, &err))
		fail_msg("%s", err.message);
	rk_ssh_close(ssh);
}

/* As ssh does: what is authorised is tried, whatever lies beside it. */
static void a_certificate_that_is_no_good_leaves_the_key(void **state)
{
	const struct passwd *me = getpwuid(geteuid());
	struct rk_ssh_target t = target();
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_ssh *ssh = NULL;

	(void)state;
	if (!server.up || !me || access("/usr/bin/ssh-keygen", X_OK) != 0)
		skip();
	make_pair("late");
	char *ca RK_CLEANUP_FREE = rk_xasprintf("%s/ca", server.dir), *late RK_CLEANUP_FREE = rk_xasprintf("%s/late", server.dir);
	char *pub RK_CLEANUP_FREE = rk_xasprintf("%s.pub", late), *keys RK_CLEANUP_FREE = rk_xasprintf("%s/authorized", server.dir);
	char *text RK_CLEANUP_FREE = NULL, *authorized RK_CLEANUP_FREE = NULL;
	size_t len;
	assert_int_equal(ran((const char *const[]){ "/usr/bin/ssh-keygen", "-q", "-s", ca, "-I", "test", "-n", me->pw_name, "-V", "20200101:20210101", pub, NULL }), 0);
	t.identity_file = late;
	open_fails(&t, NULL, "late-cert.pub, ");
	assert_int_equal(rk_file_read(keys, 1 << 16, &authorized, &len, &err), 0);
	assert_int_equal(rk_file_read(pub, 1 << 16, &text, &len, &err), 0);
	char *both RK_CLEANUP_FREE = rk_xasprintf("%s\n%s", authorized, text);
	write_file("authorized", both, 0600);
	for (int i = 0; i < 2; i++) {
		if (rk_ssh_open(&t, NULL, NULL, NULL, &ssh, &err))
			fail_msg("%s", err.message);
		rk_ssh_close(ssh);
		write_file("late-cert.pub", "this is none\n", 0600);
	}
	write_file("authorized", authorized, 0600);
	open_fails(&t, NULL, "late-cert.pub cannot be used");
}

static size_t open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* What SSH_AUTH_SOCK was before, to be put back. */
static char *use_agent(const char *at)
{
	const char *was = getenv("SSH_AUTH_SOCK");
	char *kept = was ? rk_xstrdup(was) : NULL;

	setenv("SSH_AUTH_SOCK", at, 1);
	return kept;
}

static void use_agent_again(char *kept)
{
	kept ? setenv("SSH_AUTH_SOCK", kept, 1) : unsetenv("SSH_AUTH_SOCK");
	free(kept);
}

static pid_t start_agent(const char *at)
{
	pid_t agent = fork();

	if (agent == 0) {
		(void)!freopen("/dev/null", "w", stdout);
		execl("/usr/bin/ssh-agent", "ssh-agent", "-D", "-a", at, (char *)NULL);
		_exit(127);
	}
	for (int i = 0; i < 200 && access(at, F_OK) != 0; i++)
		usleep(20000);
	return agent;
}

static int add_to_agent(const char *key)
{
	return ran((const char *const[]){ "/usr/bin/ssh-add", "-q", key, NULL });
}

/* An agent that holds other keys and a certificate first, as people's agents do; with more of them than the server lets try, that is told. */
static void an_agent_logs_in(void **state)
{
	struct rk_ssh_target t = target();
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT, many RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_ssh *ssh = NULL;

	(void)state;
	if (!server.up || access("/usr/bin/ssh-agent", X_OK) != 0 || access("/usr/bin/ssh-add", X_OK) != 0)
		skip();
	char *at RK_CLEANUP_FREE = rk_xasprintf("%s/agent", server.dir), *guest RK_CLEANUP_FREE = rk_xasprintf("%s/guest", server.dir);
	pid_t agent = start_agent(at);
	char *kept = use_agent(at);
	size_t before = open_descriptors();
	assert_int_equal(add_to_agent(guest), 0);
	assert_int_equal(add_to_agent(server.client_key), 0);
	t.identity_file = NULL;
	int rc = rk_ssh_open(&t, NULL, NULL, NULL, &ssh, &err);
	rk_ssh_close(ssh);
	size_t after = open_descriptors();
	assert_int_equal(ran((const char *const[]){ "/usr/bin/ssh-add", "-q", "-D", NULL }), 0);
	for (int i = 0; i < 7; i++) {
		char *name RK_CLEANUP_FREE = rk_xasprintf("more%d", i), *path RK_CLEANUP_FREE = rk_xasprintf("%s/%s", server.dir, name);
		make_pair(name);
		assert_int_equal(add_to_agent(path), 0);
	}
	int rc_many = rk_ssh_open(&t, NULL, NULL, NULL, &ssh, &many);
	use_agent_again(kept);
	kill(agent, SIGTERM);
	waitpid(agent, NULL, 0);
	if (rc)
		fail_msg("%s", err.message);
	assert_int_equal(after, before);
	if (rc_many != RK_UNREACHABLE || !strstr(many.message, "Too many authentication failures") || !strstr(many.hint, "MaxAuthTries"))
		fail_msg("%d: %s (%s)", rc_many, many.message, many.hint);
}

struct silent_agent {
	int listener;
	atomic_bool call_off;         /* whoever calls is to give up at once */
	volatile int cancel;
};

static void *take_calls(void *arg)
{
	struct silent_agent *a = arg;
	int fds[2] = { -1, -1 };

	for (size_t i = 0; i < RK_ARRAY_SIZE(fds) && !a->cancel; i++) {
		fds[i] = accept(a->listener, NULL, NULL);
		a->cancel = a->call_off;
	}
	for (size_t i = 0; i < RK_ARRAY_SIZE(fds); i++) {
		while (recv(fds[i], &(char){ 0 }, 1, 0) > 0)
			;
		close(fds[i]);
	}
	return NULL;
}

/* A forwarded agent whose connection is gone: it takes calls and never answers. */
static void an_agent_that_is_silent_ends_at_its_limit_and_on_cancel(void **state)
{
	const struct rk_ssh_limits limits = { .auth_ms = 50 };
	struct silent_agent agent = { .listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) };
	struct rk_ssh_target t = target();
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT, cancelled RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_ssh *ssh = NULL;

	(void)state;
	if (!server.up)
		skip();
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/silent", server.dir);
	pthread_t thread;
	assert_int_equal(bind(agent.listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(agent.listener, 5), 0);
	assert_int_equal(pthread_create(&thread, NULL, take_calls, &agent), 0);
	char *kept = use_agent(addr.sun_path);
	t.identity_file = NULL;
	int rc = rk_ssh_open(&t, &limits, NULL, NULL, &ssh, &err);
	agent.call_off = true;
	int rc_cancelled = rk_ssh_open(&t, NULL, NULL, &agent.cancel, &ssh, &cancelled);
	use_agent_again(kept);
	pthread_join(thread, NULL);
	close(agent.listener);
	if (rc != RK_UNREACHABLE || !strstr(err.message, "authentication: timed out"))
		fail_msg("%d: %s", rc, err.message);
	assert_int_equal(rc_cancelled, RK_CANCELLED);
}

static void a_wrong_user_key_names_the_phase(void **state)
{
	struct rk_ssh_target t = target();

	(void)state;
	if (!server.up)
		skip();
	char *other RK_CLEANUP_FREE = rk_xasprintf("%s/host", server.dir);
	t.identity_file = other;
	open_fails(&t, NULL, "authentication");
	t.identity_file = "/nonexistent/key";
	open_fails(&t, NULL, "authentication");
}

static void a_port_without_a_server_names_the_phase(void **state)
{
	struct rk_ssh_target t = target();
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(addr);

	(void)state;
	if (!server.up)
		skip();
	/* Bound and not listening: nobody else can take the port meanwhile. */
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	getsockname(fd, (struct sockaddr *)&addr, &size);
	t.port = ntohs(addr.sin_port);
	open_fails(&t, NULL, "connect");
	close(fd);
}

static void a_server_that_never_speaks_ends_at_the_deadline(void **state)
{
	struct rk_ssh_target t = target();
	struct rk_ssh_limits limits = { .connect_ms = 50 };

	(void)state;
	if (!server.up)
		skip();
	server.silent = true;
	open_fails(&t, &limits, "key exchange");
	server.silent = false;
}

static void sessions_leave_no_descriptor_behind(void **state)
{
	(void)state;
	rk_ssh_close(session(NULL, NULL));
	size_t before = open_descriptors();
	for (int i = 0; i < 3; i++)
		rk_ssh_close(session(NULL, NULL));
	assert_int_equal(open_descriptors(), before);
}

static void targets_are_parsed_and_checked(void **state)
{
	static const struct {
		const char *text, *user, *host;
		int port;
	} good[] = {
		{ "root@sm1", "root", "sm1", 0 },
		{ "sm1:2201", NULL, "sm1", 2201 },
		{ "admin@[fe80::1]:22", "admin", "fe80::1", 22 },
		{ "[::1]", NULL, "::1", 0 },
		{ "127.3.1.1", NULL, "127.3.1.1", 0 },
	};
	static const char *const bad[] = { "", "@h", "u@", "h:", "h:0", "h:65536", "h:22x", "-oProxyCommand=x", "-u@h", "a b", "u@h;id", "[::1", "[::1]x", "u$@h" };
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(good); i++) {
		struct rk_ssh_target t = { 0 };
		assert_int_equal(rk_ssh_parse(good[i].text, arena, &t, NULL), 0);
		assert_true(rk_streq(t.user, good[i].user));
		assert_string_equal(t.host, good[i].host);
		assert_int_equal(t.port, good[i].port);
	}
	for (size_t i = 0; i < RK_ARRAY_SIZE(bad); i++) {
		struct rk_ssh_target t = { 0 };
		struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
		if (rk_ssh_parse(bad[i], arena, &t, &err) != RK_INVALID)
			fail_msg("\"%s\" was taken", bad[i]);
	}
}

static void a_made_key_is_the_openssh_form_with_its_comment(void **state)
{
	char *priv RK_CLEANUP_FREE = NULL, *pub RK_CLEANUP_FREE = NULL, *other RK_CLEANUP_FREE = NULL, *other_pub RK_CLEANUP_FREE = NULL;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	(void)state;
	assert_int_equal(rk_ssh_make_key("a-01", &priv, &pub, &err), 0);
	assert_true(rk_starts_with(priv, "-----BEGIN OPENSSH PRIVATE KEY-----\n"));
	assert_true(rk_ends_with(priv, "\n-----END OPENSSH PRIVATE KEY-----\n"));
	assert_true(rk_starts_with(pub, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA"));
	assert_true(rk_ends_with(pub, " a-01"));
	assert_int_equal(rk_ssh_make_key("a-01", &other, &other_pub, &err), 0);
	assert_string_not_equal(pub, other_pub);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(targets_are_parsed_and_checked),
		cmocka_unit_test(a_made_key_is_the_openssh_form_with_its_comment),
		cmocka_unit_test(streams_status_and_signal_are_told_apart),
		cmocka_unit_test(arguments_arrive_as_they_were_given),
		cmocka_unit_test(large_streams_flow_both_ways_and_are_bounded),
		cmocka_unit_test(a_silent_command_ends_at_its_limit_and_the_session_goes_on),
		cmocka_unit_test(cancel_ends_a_command_and_not_the_session),
		cmocka_unit_test(another_host_key_is_refused),
		cmocka_unit_test(known_hosts_decides_when_nothing_is_pinned),
		cmocka_unit_test(a_key_of_an_old_kind_is_refused_by_name),
		cmocka_unit_test(the_time_for_all_of_it_ends_a_session),
		cmocka_unit_test(a_certificate_beside_the_key_is_used),
		cmocka_unit_test(a_certificate_that_is_no_good_leaves_the_key),
		cmocka_unit_test(an_agent_logs_in),
		cmocka_unit_test(an_agent_that_is_silent_ends_at_its_limit_and_on_cancel),
		cmocka_unit_test(a_wrong_user_key_names_the_phase),
		cmocka_unit_test(a_port_without_a_server_names_the_phase),
		cmocka_unit_test(a_server_that_never_speaks_ends_at_the_deadline),
		cmocka_unit_test(sessions_leave_no_descriptor_behind),
	};

	return cmocka_run_group_tests(tests, start_server, stop_server);
}
