/* A fan-out over good hosts and one of each kind of bad one: the run ends by itself, the good ones have their answer, and each bad one costs
 * its own result only, with the phase in which it went wrong. */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "inventory/base/clock.h"
#include "inventory/base/file.h"
#include "provision/ssh.h"
#include "tests/unit/ssh_server.h"

enum { GOOD = 6, HOSTS = SSH_KINDS - 1 + GOOD, OUTPUT_MAX = 64 << 10 };

/* word: in the error. NULL: the command ran, and its result shows that something is wrong. kept: what came before it went wrong. through: the word when
 * a jump host is between, if it is another. */
static const struct {
	enum ssh_server_kind kind;
	const char *word, *kept, *through;
} bad[] = {
	{ SSH_NOT_LISTENING, "connect: Connection refused", NULL, "jump: " }, { SSH_CLOSES, "key exchange: ", NULL, NULL },
	{ SSH_RESETS, "key exchange: Socket error: Connection reset by peer", NULL, "key exchange: " }, { SSH_SILENT, "key exchange: timed out", NULL, NULL },
	{ SSH_BANNER_SPEW, "key exchange: ", NULL, NULL }, { SSH_BANNER_DRIP, "key exchange: ", NULL, NULL }, { SSH_HALF_VERSION, "key exchange: ", NULL, NULL },
	{ SSH_VERSION_ONLY, "key exchange: ", NULL, NULL }, { SSH_OLD_VERSION, "key exchange: ", NULL, NULL }, { SSH_GARBAGE, "key exchange: ", NULL, NULL },
	{ SSH_HTTP, "key exchange: ", NULL, NULL }, { SSH_HUGE_PACKET, "key exchange: ", NULL, NULL }, { SSH_ZERO_PACKET, "key exchange: it failed", NULL, NULL },
	{ SSH_OTHER_KEY, "host key: ", NULL, NULL }, { SSH_AUTH_HANGS, "authentication: timed out", NULL, NULL },
	{ SSH_AUTH_DENIES, "authentication: the public key was not accepted", NULL, NULL }, { SSH_CHANNEL_REFUSED, "session: ", NULL, NULL },
	{ SSH_CHANNEL_HANGS, "timed out", NULL, NULL }, { SSH_EXEC_REFUSED, "command: ", NULL, NULL }, { SSH_EXEC_HANGS, "timed out", NULL, NULL },
	{ SSH_COMMAND_SILENT, "of silence", NULL, NULL }, { SSH_FLOOD, "timed out", "flood", NULL }, { SSH_STDERR_FLOOD, "timed out", "flood", NULL },
	{ SSH_DRIP, "timed out", "ff", NULL }, { SSH_NO_STATUS, NULL, NULL, NULL }, { SSH_SIGNAL, NULL, NULL, NULL },
	{ SSH_DROPS_MIDWAY, "connection was lost", "half an ans", NULL }, { SSH_HALF_CLOSE, "timed out", "x\n", NULL },
};

struct host {
	struct ssh_server server;
	const char *word, *kept, *through;
	bool good;
	int rc;
	struct rk_err err;
	struct rk_ssh_result result;
};
static struct {
	struct ssh_servers servers;
	char *host_public, *identity, *known;
	char dir[64];
	struct host hosts[HOSTS];
	struct ssh_server jump, dying;
} world;

/* jump: NULL, or a jump host with the same key. */
static void ask_through(struct host *h, const struct ssh_server *jump, const struct rk_ssh_limits *limits, const volatile int *cancel)
{
	char *at RK_CLEANUP_FREE = jump ? rk_xasprintf("127.0.0.1:%d", jump->port) : NULL;
	const struct rk_ssh_target target = { .host = "127.0.0.1", .port = h->server.port, .host_key = world.host_public, .identity_file = world.identity,
					      .known_hosts = world.known, .jump = at };
	const char *argv[] = { "echo", "here", NULL };
	struct rk_ssh *ssh = NULL;

	h->rc = rk_ssh_open(&target, limits, NULL, cancel, &ssh, &h->err);
	if (!h->rc)
		h->rc = rk_ssh_run(ssh, argv, NULL, 0, &h->result, &h->err);
	rk_ssh_close(ssh);
}

static void ask(struct host *h, const struct rk_ssh_limits *limits, const volatile int *cancel)
{
	ask_through(h, NULL, limits, cancel);
}

enum { CONNECT_MS = 6000, AUTH_MS = 6000, COMMAND_MS = 8000, SLACK_MS = 60000 };
static const struct rk_ssh_limits of_a_host = { .connect_ms = CONNECT_MS, .auth_ms = AUTH_MS, .idle_ms = 4000, .command_ms = COMMAND_MS, .output_max = OUTPUT_MAX };

static void one_host(void *ctx, size_t i)
{
	ask(&((struct host *)ctx)[i], &of_a_host, NULL);
}

static void one_host_behind(void *ctx, size_t i)
{
	ask_through(&((struct host *)ctx)[i], &world.jump, &of_a_host, NULL);
}

static void check_host(const struct host *h, const char *word, int kind)
{
	if (h->good) {
		if (h->rc || h->result.status != 0 || strcmp(rk_str_text(&h->result.out), "echo here") != 0)
			fail_msg("a good host: %s, \"%s\"", h->err.message, rk_str_text(&h->result.out));
		return;
	}
	const struct rk_str *out = h->server.kind == SSH_STDERR_FLOOD ? &h->result.err : &h->result.out;
	if (word ? h->rc != RK_UNREACHABLE : h->rc || h->result.status != -1)
		fail_msg("kind %d: class %s, status %d", kind, h->rc ? rk_class_name(h->rc) : "none", h->result.status);
	if (word && !strstr(h->err.message, word))
		fail_msg("kind %d: \"%s\" does not say \"%s\"", kind, h->err.message, word);
	if (!rk_starts_with(rk_str_text(out), h->kept ? h->kept : "") || (!h->kept && out->len))
		fail_msg("kind %d: \"%.80s\" is not what came before", kind, rk_str_text(out));
	assert_true(h->result.out.len <= OUTPUT_MAX && h->result.err.len <= OUTPUT_MAX);
	assert_int_equal(h->result.truncated, kind == SSH_FLOOD || kind == SSH_STDERR_FLOOD);
	assert_true(kind == SSH_SIGNAL ? rk_streq(h->result.signal, "SEGV") : !h->result.signal);
}

/* Good ones before, between and behind. */
static void start_hosts(void)
{
	size_t n = 0;

	assert_int_equal(RK_ARRAY_SIZE(bad), SSH_KINDS - 1);
	for (size_t i = 0; i < RK_ARRAY_SIZE(bad); i++) {
		if (i % 5 == 0) {
			world.hosts[n].good = true;
			ssh_server_start(&world.servers, &world.hosts[n++].server, SSH_GOOD);
		}
		world.hosts[n].word = bad[i].word;
		world.hosts[n].kept = bad[i].kept;
		world.hosts[n].through = bad[i].through ? bad[i].through : bad[i].word;
		ssh_server_start(&world.servers, &world.hosts[n++].server, bad[i].kind);
	}
	assert_int_equal(n, HOSTS);
}

/* On time: the limits of one host, however many there are, and what a busy machine adds. */
static void run_all(void (*one)(void *ctx, size_t i), bool behind)
{
	int64_t until = rk_clock_ms(NULL) + (behind ? 2 : 1) * (CONNECT_MS + AUTH_MS) + COMMAND_MS + SLACK_MS;

	if (!world.hosts[0].server.all)
		start_hosts();
	rk_fanout(HOSTS, HOSTS, one, world.hosts);
	assert_true(rk_clock_ms(NULL) < until);
	for (size_t i = 0; i < HOSTS; i++) {
		struct host *h = &world.hosts[i];
		check_host(h, behind ? h->through : h->word, h->server.kind);
		rk_ssh_result_clear(&h->result);
		rk_err_clear(&h->err);
	}
}

static void bad_hosts_cost_only_their_own_result(void **state)
{
	(void)state;
	run_all(one_host, false);
}

static void bad_hosts_behind_one_jump_host_cost_only_their_own_result(void **state)
{
	(void)state;
	run_all(one_host_behind, true);
}

/* What a host said has been said, although its jump host said good-bye in the same breath. */
static void the_last_words_of_a_host_behind_a_dying_jump_host_are_kept(void **state)
{
	struct host h = { .rc = 0 };

	(void)state;
	ssh_server_start(&world.servers, &h.server, SSH_DROPS_MIDWAY);
	ask_through(&h, &world.dying, &of_a_host, NULL);
	ssh_server_end(&h.server);
	assert_int_equal(h.rc, RK_UNREACHABLE);
	assert_non_null(strstr(h.err.message, "connection was lost"));
	assert_string_equal(rk_str_text(&h.result.out), "half an ans");
	rk_ssh_result_clear(&h.result);
	rk_err_clear(&h.err);
}

/* ---- Ctrl-C ------------------------------------------------------------------------------------------------------------------------- */

/* Hosts that hang in each phase, between good ones. */
static const struct {
	enum ssh_server_kind kind;
	const char *out;
} phases[] = { { SSH_GOOD, "echo here" }, { SSH_SILENT, "" }, { SSH_VERSION_ONLY, "" }, { SSH_AUTH_HANGS, "" }, { SSH_GOOD, "echo here" },
	       { SSH_CHANNEL_HANGS, "" }, { SSH_EXEC_HANGS, "" }, { SSH_COMMAND_SILENT, "" }, { SSH_HALF_CLOSE, "x\n" }, { SSH_GOOD, "echo here" } };
enum { PHASES = RK_ARRAY_SIZE(phases), HANG = PHASES - 3 };
static struct {
	struct host hosts[PHASES];
	atomic_size_t done;
	volatile int cancel;
} stopped;

static void one_patient(void *ctx, size_t i)
{
	static const struct rk_ssh_limits patient = { .connect_ms = 600000, .auth_ms = 600000, .idle_ms = 600000, .command_ms = 600000 };

	(void)ctx;
	ask(&stopped.hosts[i], &patient, &stopped.cancel);
	stopped.done++;
}

static void *all_patient(void *arg)
{
	rk_fanout(PHASES, PHASES, one_patient, NULL);
	return arg;
}

static void cancel_ends_every_phase_and_keeps_what_has_come(void **state)
{
	size_t before = world.servers.hanging;
	pthread_t thread;

	(void)state;
	for (size_t i = 0; i < PHASES; i++)
		ssh_server_start(&world.servers, &stopped.hosts[i].server, phases[i].kind);
	assert_int_equal(pthread_create(&thread, NULL, all_patient, NULL), 0);
	while (world.servers.hanging < before + HANG || stopped.done < PHASES - HANG)
		sched_yield();
	stopped.cancel = 1;
	pthread_join(thread, NULL);
	for (size_t i = 0; i < PHASES; i++) {
		struct host *h = &stopped.hosts[i];
		if (h->rc != (phases[i].kind == SSH_GOOD ? 0 : RK_CANCELLED))
			fail_msg("kind %d: %s", phases[i].kind, h->rc ? h->err.message : "an answer");
		assert_string_equal(rk_str_text(&h->result.out), phases[i].out);
		rk_ssh_result_clear(&h->result);
		rk_err_clear(&h->err);
	}
}

/* ---- jump hosts --------------------------------------------------------------------------------------------------------------------- */

enum { LOGINS = 8 }; /* at one jump host at the same time */
static struct {
	struct ssh_server hanging, closed;
	char *known;
	volatile int cancel;
	int rc[LOGINS];
} jumps;

static int through(const struct ssh_server *jump, const struct rk_ssh_limits *limits, const volatile int *cancel, struct rk_err *err)
{
	char *at RK_CLEANUP_FREE = rk_xasprintf("127.0.0.1:%d", jump->port);
	const struct rk_ssh_target target = { .host = "127.0.0.1", .host_key = world.host_public, .identity_file = world.identity, .known_hosts = jumps.known, .jump = at };
	struct rk_ssh *ssh = NULL;
	int rc = rk_ssh_open(&target, limits, NULL, cancel, &ssh, err);

	rk_ssh_close(ssh);
	return rc;
}

static void *hang(void *arg)
{
	static const struct rk_ssh_limits patient = { .connect_ms = 600000 };
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	*(int *)arg = through(&jumps.hanging, &patient, &jumps.cancel, &err);
	return NULL;
}

static size_t connections(void)
{
	pthread_mutex_lock(&world.servers.lock);
	size_t n = world.servers.n_threads;
	pthread_mutex_unlock(&world.servers.lock);
	return n;
}

static void fails_saying(const struct ssh_server *jump, const struct rk_ssh_limits *limits, const char *word)
{
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	assert_int_equal(through(jump, limits, NULL, &err), RK_UNREACHABLE);
	if (!strstr(err.message, word))
		fail_msg("\"%s\" does not say \"%s\"", err.message, word);
}

static void a_jump_host_that_hangs_holds_up_nobody_behind_another(void **state)
{
	static const struct rk_ssh_limits moment = { .connect_ms = 300, .auth_ms = 300 }, all = { .total_ms = 300 };
	pthread_t threads[LOGINS];
	size_t before = connections();

	(void)state;
	ssh_server_start(&world.servers, &jumps.hanging, SSH_SILENT);
	ssh_server_start(&world.servers, &jumps.closed, SSH_NOT_LISTENING);
	jumps.known = rk_xasprintf("%s/known", world.dir);
	char *lines RK_CLEANUP_FREE = rk_xasprintf("[127.0.0.1]:%d %s\n[127.0.0.1]:%d %s\n", jumps.hanging.port, world.host_public, jumps.closed.port, world.host_public);
	assert_int_equal(rk_file_write(jumps.known, lines, strlen(lines), 0600, NULL), 0);
	for (size_t i = 0; i < LOGINS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hang, &jumps.rc[i]), 0);
	while (connections() < before + LOGINS)
		sched_yield();
	fails_saying(&jumps.closed, &moment, "connect: Connection refused");
	fails_saying(&jumps.hanging, &moment, "jump: timed out: the logins before this one");
	fails_saying(&jumps.hanging, &all, "jump: timed out: the logins before this one");
	jumps.cancel = 1;
	for (size_t i = 0; i < LOGINS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(jumps.rc[i], RK_CANCELLED);
	}
	/* Who left makes room. */
	fails_saying(&jumps.hanging, &moment, "key exchange: timed out");
	unlink(jumps.known);
	free(jumps.known);
}

static int start(void **state)
{
	char *host_private, *other_private, *other_public, *user_private, *user_public;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	if (rk_ssh_make_key("host", &host_private, &world.host_public, &err) || rk_ssh_make_key("other", &other_private, &other_public, &err) ||
	    rk_ssh_make_key("user", &user_private, &user_public, &err))
		return -1;
	snprintf(world.dir, sizeof(world.dir), "/tmp/racksh-hostile.XXXXXX");
	if (!mkdtemp(world.dir))
		return -1;
	world.identity = rk_xasprintf("%s/id", world.dir);
	int rc = rk_file_write(world.identity, user_private, strlen(user_private), 0600, &err);
	ssh_servers_init(&world.servers, host_private, other_private);
	ssh_server_start(&world.servers, &world.jump, SSH_JUMP);
	ssh_server_start(&world.servers, &world.dying, SSH_JUMP_DIES);
	world.known = rk_xasprintf("%s/known", world.dir);
	char *lines RK_CLEANUP_FREE = rk_xasprintf("[127.0.0.1]:%d %s\n[127.0.0.1]:%d %s\n", world.jump.port, world.host_public, world.dying.port, world.host_public);
	rc = rc ? rc : rk_file_write(world.known, lines, strlen(lines), 0600, &err);
	free(host_private);
	free(other_private);
	free(other_public);
	free(user_private);
	free(user_public);
	return rc;
}

static int stop(void **state)
{
	struct ssh_server servers[HOSTS + PHASES + 4] = { world.jump, world.dying, jumps.hanging, jumps.closed };
	size_t n = jumps.hanging.all ? 4 : 2;

	(void)state;
	for (size_t i = 0; i < HOSTS && world.hosts[i].server.all; i++)
		servers[n++] = world.hosts[i].server;
	for (size_t i = 0; i < PHASES && stopped.hosts[i].server.all; i++)
		servers[n++] = stopped.hosts[i].server;
	ssh_servers_stop(&world.servers, servers, n);
	unlink(world.identity);
	unlink(world.known);
	rmdir(world.dir);
	free(world.known);
	free(world.identity);
	free(world.host_public);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_hosts_cost_only_their_own_result),
		cmocka_unit_test(bad_hosts_behind_one_jump_host_cost_only_their_own_result),
		cmocka_unit_test(the_last_words_of_a_host_behind_a_dying_jump_host_are_kept),
		cmocka_unit_test(cancel_ends_every_phase_and_keeps_what_has_come),
		cmocka_unit_test(a_jump_host_that_hangs_holds_up_nobody_behind_another),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
