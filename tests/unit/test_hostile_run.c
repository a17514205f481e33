/* racksh itself over good hosts (real sshds) and one of each kind of bad one, in one cluster: vm exec, validate and site discover end by themselves,
 * in time, with exactly the bad ones bad. Directly, and behind a jump host. Skipped without an sshd. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "inventory/base/clock.h"
#include "inventory/base/json.h"
#include "tests/contract/racksh_runs.h"
#include "tests/contract/real_site.h"
#include "tests/unit/ssh_server.h"
#include "tests/unit/sshd.h"

enum { GOOD = 3, BAD = SSH_KINDS - 1, HOSTS = GOOD + BAD, LIMIT_S = 20, CONNECT_S = 10, AUTH_S = 10, SLACK_S = 60 };

static struct sshd good[GOOD];
static struct {
	struct ssh_servers servers;
	struct ssh_server hosts[BAD], jump;
	char *host_public;
} bad;

/* Good ones first, in the middle and at the end. */
static const size_t good_at[GOOD] = { 0, HOSTS / 2, HOSTS - 1 };

static bool is_good(size_t host)
{
	for (size_t i = 0; i < GOOD; i++)
		if (good_at[i] == host)
			return true;
	return false;
}

static const char profile[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Profile\",\"name\":\"p\",\"levels\":{\"quick\":[\"own\"]},\"collectors\":{\"own\":{\"command\":\"echo 1\","
			      "\"parse\":\"number\",\"metrics\":{\"own.answer\":\"\"}}},\"rules\":{\"own\":{\"collector\":\"own\",\"metric\":\"own.answer\",\"value\":1,"
			      "\"message\":\"it answers\"}}}";

static void start_bad(void)
{
	char *host_private, *other_private, *other_public;

	assert_int_equal(rk_ssh_make_key("host", &host_private, &bad.host_public, NULL), 0);
	assert_int_equal(rk_ssh_make_key("other", &other_private, &other_public, NULL), 0);
	ssh_servers_init(&bad.servers, host_private, other_private);
	for (int kind = SSH_GOOD + 1; kind < SSH_KINDS; kind++)
		ssh_server_start(&bad.servers, &bad.hosts[kind - 1], (enum ssh_server_kind)kind);
	ssh_server_start(&bad.servers, &bad.jump, SSH_JUMP);
	free(host_private);
	free(other_private);
	free(other_public);
}

/* A store per way to the same hosts. */
static void make_store(const char *name, const char *jump)
{
	struct real_host hosts[HOSTS];
	size_t b = 0, g = 0;
	char *known RK_CLEANUP_FREE = in_folder("known"), *uri RK_CLEANUP_FREE = rk_xasprintf("sqlite:%s/%s", folder, name);
	char *more RK_CLEANUP_FREE = rk_xasprintf("[127.0.0.1]:%d %s\n", bad.jump.port, bad.host_public);

	for (size_t i = 0; i < HOSTS; i++)
		hosts[i] = is_good(i) ? (struct real_host){ good[g].port, good[g].host_public } : (struct real_host){ bad.hosts[b].port, bad.host_public },
		g += is_good(i), b += !is_good(i);
	char *libvirt RK_CLEANUP_FREE = rk_xasprintf("test://%s/{tray}.xml", folder);
	real_store(uri, &(struct real_site){ .hosts = hosts, .n = HOSTS, .identity = good[0].client_key, .known = known, .known_more = more, .jump = jump, .libvirt = libvirt });
}

static int start(void **state)
{
	static const char *const links[] = { NULL };

	(void)state;
	for (size_t i = 0; i < GOOD; i++)
		sshd_start(&good[i], "");
	if (open_folder(links) || !good[0].up)
		return good[0].up ? -1 : 0;
	put_text("profile.json", profile);
	/* Hypervisors without anything in them. */
	for (size_t i = 0; i < HOSTS; i++) {
		char *name RK_CLEANUP_FREE = rk_xasprintf("r%zu-t%02zu.xml", i / 18 + 1, i % 18 + 1);
		put_text(name, "<node/>");
	}
	for (size_t i = 0; i < GOOD; i++)
		sshd_configure(&good[i], &good[0], "", "");
	start_bad();
	make_store("direct", "");
	char *jump RK_CLEANUP_FREE = rk_xasprintf("127.0.0.1:%d", bad.jump.port);
	make_store("behind", jump);
	return 0;
}

static int stop(void **state)
{
	struct ssh_server all[BAD + 1];

	(void)state;
	if (good[0].up) {
		memcpy(all, bad.hosts, sizeof(bad.hosts));
		all[BAD] = bad.jump;
		ssh_servers_stop(&bad.servers, all, BAD + 1);
		free(bad.host_public);
	}
	for (size_t i = 0; i < GOOD; i++)
		sshd_stop(&good[i]);
	return remove_folder();
}

/* ---- what each command says of each host ------------------------------------------------------------------------------------------- */

static struct rk_json *answer(const char *name)
{
	char *text RK_CLEANUP_FREE = text_of(name);
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_json *json = NULL;

	if (rk_json_parse(name, text, strlen(text), &json, &err))
		fail_msg("%s: %.2000s", err.message, text);
	return json;
}

struct seen {
	int ok;          /* -1: nothing is said of it */
	const char *why;
};

static void see_vms(const struct rk_jnode *root, struct seen seen[HOSTS])
{
	size_t i = 0;

	RK_JEACH(row, root) {
		double status = -1;
		bool ran = rk_jdouble(rk_jget(row, "status"), &status) && status == 0;
		assert_true(i < HOSTS);
		seen[i++] = (struct seen){ ran && strcmp(rk_jstr(rk_jget(row, "stdout")), "here\n") == 0, rk_jstr(rk_jget(row, "error")) };
	}
}

/* In one row per verdict. */
static void see_checks(const struct rk_jnode *root, struct seen seen[HOSTS])
{
	assert_string_equal(rk_jstr(rk_jget(root, "verdict")), "unknown");
	RK_JEACH(row, rk_jget(root, "checks")) {
		bool pass = strcmp(rk_jstr(rk_jget(row, "verdict")), "pass") == 0;
		RK_JEACH(target, rk_jget(row, "targets")) {
			struct seen *s = &seen[strtoul(rk_jstr(target) + 2, NULL, 10) - 1];
			*s = (struct seen){ pass && s->ok != 0, rk_jstr(rk_jget(row, "value")) };
		}
	}
}

/* No host has the tool, but only good ones say so. */
static void see_trays(const struct rk_jnode *root, struct seen seen[HOSTS])
{
	RK_JEACH(row, root) {
		const char *message = rk_jstr(rk_jget(row, "message"));
		size_t rack, tray;
		assert_int_equal(sscanf(rk_jstr(rk_jget(row, "object")), "r%zu-t%zu", &rack, &tray), 2);
		assert_string_equal(rk_jstr(rk_jget(row, "field")), "host");
		seen[(rack - 1) * 18 + tray - 1] = (struct seen){ strstr(message, "nvidia-smi: exit 127: ") != NULL, message };
	}
}

#define TRAYS "r1-t[01-18],r2-t[01-13]"
static const struct {
	const char *name, *const argv[8];
	int code;
	void (*see)(const struct rk_jnode *root, struct seen seen[HOSTS]);
} commands[] = {
	{ "exec", { "vm", "exec", "@cluster:a", "--", "echo", "here" }, 3, see_vms },
	{ "validate", { "validate", "cluster", "a", "--profile", "profile.json", "--limit", "20s" }, 6, see_checks },
	{ "discover", { "site", "discover", TRAYS }, 3, see_trays },
};

static pid_t begin(const char *store, size_t command)
{
	const char *argv[16] = { "racksh", "-s", store, "-o", "json", "--timeout", "8" };
	char *err RK_CLEANUP_FREE = rk_xasprintf("%s.err", commands[command].name);
	pid_t pid = fork();

	if (pid)
		return pid;
	memcpy(argv + 7, commands[command].argv, sizeof(commands[command].argv) - sizeof(char *));
	if (chdir(folder))
		_exit(126);
	dup2(open("/dev/null", O_RDONLY), 0);
	dup2(open(commands[command].name, O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
	dup2(open(err, O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
	execv(racksh, (char *const *)argv);
	_exit(127);
}

static void check(size_t command)
{
	RK_CLEANUP_JSON struct rk_json *json = answer(commands[command].name);
	struct seen seen[HOSTS];

	for (size_t i = 0; i < HOSTS; i++)
		seen[i] = (struct seen){ -1, NULL };
	commands[command].see(rk_json_root(json), seen);
	for (size_t i = 0, kind = 1; i < HOSTS; kind += !is_good(i++))
		if (seen[i].ok != is_good(i))
			fail_msg("%s: host %zu (%s, kind %zu): %d, %s", commands[command].name, i + 1, is_good(i) ? "good" : "bad", kind, seen[i].ok,
				 seen[i].why ? seen[i].why : "no reason");
}

/* All three at once: so many hosts do not make it longer either. */
static void run_all(const char *name, int hops)
{
	char *store RK_CLEANUP_FREE = rk_xasprintf("sqlite:%s/%s", folder, name);
	int64_t until = rk_clock_ms(NULL) + 1000 * (hops * (CONNECT_S + AUTH_S) + LIMIT_S + SLACK_S);
	pid_t pids[RK_ARRAY_SIZE(commands)];

	if (!good[0].up)
		skip();
	for (size_t i = 0; i < RK_ARRAY_SIZE(commands); i++)
		pids[i] = begin(store, i);
	for (size_t i = 0; i < RK_ARRAY_SIZE(commands); i++) {
		int code = ended(pids[i]);
		char *err_name RK_CLEANUP_FREE = rk_xasprintf("%s.err", commands[i].name), *err RK_CLEANUP_FREE = text_of(err_name);
		if (code != commands[i].code)
			fail_msg("%s: code %d: %s", commands[i].name, code, err);
	}
	assert_true(rk_clock_ms(NULL) < until);
	for (size_t i = 0; i < RK_ARRAY_SIZE(commands); i++)
		check(i);
}

static void bad_hosts_cost_every_command_only_their_own_result(void **state)
{
	(void)state;
	run_all("direct", 1);
}

static void bad_hosts_behind_a_jump_host_do_so_too(void **state)
{
	(void)state;
	run_all("behind", 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_hosts_cost_every_command_only_their_own_result),
		cmocka_unit_test(bad_hosts_behind_a_jump_host_do_so_too),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
