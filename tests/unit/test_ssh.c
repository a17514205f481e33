/* The transport against a real sshd (inetd mode, started per connection on a socket of our own); those tests are skipped without one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "inventory/base/digest.h"
#include "provision/known_hosts.h"
#include "provision/ssh.h"

static const char sshd[] = "/usr/sbin/sshd";

struct server {
	char dir[64], *host_public, *client_key;
	int listener, port;
	bool silent;              /* accepts and never answers */
	pthread_t thread;
	pid_t pids[64];
	size_t n_pids;
	bool up;
};
static struct server server;

static void write_file(const char *name, const char *text, mode_t mode)
{
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/%s", server.dir, name);
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	assert_int_equal(rk_file_write(path, text, strlen(text), mode, &err), 0);
}

static void serve(int fd)
{
	char *config RK_CLEANUP_FREE = rk_xasprintf("%s/config", server.dir);
	char *log RK_CLEANUP_FREE = rk_xasprintf("%s/log", server.dir);
	pid_t pid = fork();

	if (pid == 0) {
		dup2(fd, 0);
		dup2(fd, 1);
		execl(sshd, sshd, "-i", "-f", config, "-E", log, (char *)NULL);
		_exit(127);
	}
	if (pid > 0 && server.n_pids < RK_ARRAY_SIZE(server.pids))
		server.pids[server.n_pids++] = pid;
	close(fd);
}

static void *accept_loop(void *arg)
{
	int fd;

	(void)arg;
	while ((fd = accept(server.listener, NULL, NULL)) >= 0) {
		if (server.silent)
			close(fcntl(fd, F_DUPFD_CLOEXEC, 900)); /* the descriptor itself stays open */
		else
			serve(fd);
	}
	return NULL;
}

static int start_server(void **state)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(addr);
	char *host_private, *user_private, *user_public;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	if (access(sshd, X_OK) != 0 || (geteuid() == 0 && mkdir("/run/sshd", 0755) != 0 && access("/run/sshd", F_OK) != 0))
		return 0;
	snprintf(server.dir, sizeof(server.dir), "/tmp/racksh-test-ssh.XXXXXX");
	assert_non_null(mkdtemp(server.dir));
	assert_int_equal(rk_ssh_make_key("host", &host_private, &server.host_public, &err), 0);
	assert_int_equal(rk_ssh_make_key("user", &user_private, &user_public, &err), 0);
	write_file("host", host_private, 0600);
	write_file("user", user_private, 0600);
	write_file("authorized", user_public, 0600);
	char *config RK_CLEANUP_FREE = rk_xasprintf("HostKey %s/host\nAuthorizedKeysFile %s/authorized\nStrictModes no\nUsePAM no\n"
						    "PasswordAuthentication no\nPidFile none\nTrustedUserCAKeys %s/ca.pub\n", server.dir, server.dir, server.dir);
	write_file("config", config, 0600);
	server.client_key = rk_xasprintf("%s/user", server.dir);
	free(host_private);
	free(user_private);
	free(user_public);
	server.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(server.listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(server.listener, 16), 0);
	getsockname(server.listener, (struct sockaddr *)&addr, &size);
	server.port = ntohs(addr.sin_port);
	server.up = true;
	return pthread_create(&server.thread, NULL, accept_loop, NULL);
}

static int stop_server(void **state)
{
	static const char *const files[] = { "host", "user", "authorized", "config", "log", "known", "ca", "ca.pub", "guest", "guest.pub", "guest-cert.pub" };

	(void)state;
	if (!server.up)
		return 0;
	shutdown(server.listener, SHUT_RDWR);
	pthread_join(server.thread, NULL);
	close(server.listener);
	/* An sshd waits for what a cancelled command left running: not for us. */
	for (size_t i = 0; i < server.n_pids; i++) {
		kill(server.pids[i], SIGTERM);
		waitpid(server.pids[i], NULL, 0);
	}
	for (size_t i = 0; i < RK_ARRAY_SIZE(files); i++) {
		char *path RK_CLEANUP_FREE = rk_xasprintf("%s/%s", server.dir, files[i]);
		unlink(path);
	}
	rmdir(server.dir);
	free(server.host_public);
	free(server.client_key);
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
	assert_non_null(strstr(err.message, "not known"));
	rk_ssh_result_clear(&r);
	rk_ssh_close(ssh);
}

static void cancel_ends_a_command(void **state)
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

static void make_pair(const char *name)
{
	char *priv RK_CLEANUP_FREE = NULL, *pub RK_CLEANUP_FREE = NULL, *line RK_CLEANUP_FREE = NULL, *beside RK_CLEANUP_FREE = rk_xasprintf("%s.pub", name);
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	assert_int_equal(rk_ssh_make_key(name, &priv, &pub, &err), 0);
	write_file(name, priv, 0600);
	line = rk_xasprintf("%s\n", pub);
	write_file(beside, line, 0600);
}

/* The key alone is not authorised; its certificate, signed by an authority the server trusts, is. */
static void a_certificate_beside_the_key_is_used(void **state)
{
	const struct passwd *me = getpwuid(geteuid());
	struct rk_ssh_target t = target();
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_ssh *ssh = NULL;
	int status = 1;

	(void)state;
	if (!server.up || !me || access("/usr/bin/ssh-keygen", X_OK) != 0)
		skip();
	make_pair("ca");
	make_pair("guest");
	char *ca RK_CLEANUP_FREE = rk_xasprintf("%s/ca", server.dir), *guest RK_CLEANUP_FREE = rk_xasprintf("%s/guest", server.dir);
	char *guest_pub RK_CLEANUP_FREE = rk_xasprintf("%s.pub", guest);
	t.identity_file = guest;
	open_fails(&t, NULL, "authentication");
	pid_t pid = fork();
	if (pid == 0) {
		execl("/usr/bin/ssh-keygen", "ssh-keygen", "-q", "-s", ca, "-I", "test", "-n", me->pw_name, guest_pub, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	if (rk_ssh_open(&t, NULL, NULL, NULL, &ssh, &err))
		fail_msg("%s", err.message);
	rk_ssh_close(ssh);
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

static size_t open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
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

static void known_hosts_forms_are_understood(void **state)
{
	static const char key[] = "AAAAC3NzaC1lZDI1NTE5AAAAIEfLG0ebGSfza0j9UJUU/rYaHT0FItcYyuVHKqR7iBR0";
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	uint8_t salt[20] = { 1, 2, 3 }, sum[20];
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	(void)state;
	rk_str_add(&text, "# comment\n\nbroken line\nbad ssh-ed25519 !!!!\n@cert-authority * ssh-ed25519 ");
	rk_str_addf(&text, "%s\nplain,10.0.0.[1 ssh-ed25519 %s\nr01-*,!r01-t02 ssh-ed25519 %s\n[sw]:2222 ssh-rsa %s c o m\n|1|", key, key, key, key);
	rk_base64_add(&text, salt, 20);
	rk_hmac_sha1(salt, 20, "[sm1]:2201", 10, sum);
	rk_str_addc(&text, '|');
	rk_base64_add(&text, sum, 20);
	rk_str_addf(&text, " ssh-ed25519 %s", key); /* no newline at the end */
	static const struct {
		const char *host;
		int port;
		size_t n;
	} cases[] = { { "plain", 22, 1 }, { "PLAIN", 22, 1 }, { "plain", 2222, 0 }, { "r01-t01", 22, 1 }, { "r01-t02", 22, 0 }, { "sw", 2222, 1 }, { "sw", 22, 0 },
		      { "sm1", 2201, 1 }, { "sm1", 22, 0 }, { "bad", 22, 0 }, { "10.0.0.1", 22, 0 }, { "10.0.0.[1", 22, 1 } };
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		struct rk_host_keys keys = rk_known_hosts_find(text.text, text.len, cases[i].host, cases[i].port, arena);
		if (keys.n != cases[i].n)
			fail_msg("%s:%d: %zu keys", cases[i].host, cases[i].port, keys.n);
	}
}

static void digests_match_published_vectors(void **state)
{
	char hex[65];
	uint8_t mac[20], block[130];
	static const uint8_t rfc2202[20] = { 0xef, 0xfc, 0xdf, 0x6a, 0xe5, 0xeb, 0x2f, 0xa2, 0xd2, 0x74, 0x16, 0xd5, 0xf1, 0x84, 0xdf, 0x9c, 0x25, 0x9a, 0x7c, 0x79 };

	(void)state;
	rk_sha256_hex("", 0, hex);
	assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	rk_sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hex);
	assert_string_equal(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	rk_hmac_sha1("Jefe", 4, "what do ya want for nothing?", 28, mac);
	assert_memory_equal(mac, rfc2202, 20);
	for (size_t n = 0; n < sizeof(block); n++) {
		struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
		uint8_t back[sizeof(block)];
		memset(block, (int)n, sizeof(block));
		rk_base64_add(&text, block, n);
		assert_int_equal(rk_base64_decode(rk_str_text(&text), text.len, back, sizeof(back)), n);
		assert_memory_equal(back, block, n);
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
		cmocka_unit_test(known_hosts_forms_are_understood),
		cmocka_unit_test(digests_match_published_vectors),
		cmocka_unit_test(a_made_key_is_the_openssh_form_with_its_comment),
		cmocka_unit_test(streams_status_and_signal_are_told_apart),
		cmocka_unit_test(arguments_arrive_as_they_were_given),
		cmocka_unit_test(large_streams_flow_both_ways_and_are_bounded),
		cmocka_unit_test(a_silent_command_ends_at_its_limit_and_the_session_goes_on),
		cmocka_unit_test(cancel_ends_a_command),
		cmocka_unit_test(another_host_key_is_refused),
		cmocka_unit_test(known_hosts_decides_when_nothing_is_pinned),
		cmocka_unit_test(a_certificate_beside_the_key_is_used),
		cmocka_unit_test(a_wrong_user_key_names_the_phase),
		cmocka_unit_test(a_port_without_a_server_names_the_phase),
		cmocka_unit_test(a_server_that_never_speaks_ends_at_the_deadline),
		cmocka_unit_test(sessions_leave_no_descriptor_behind),
	};

	return cmocka_run_group_tests(tests, start_server, stop_server);
}
