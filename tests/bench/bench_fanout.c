/* A command on 1,152 hosts over SSH: loopback addresses, all served by one in-process server in a child. The peers run the same command on the
 * same hosts of the same server, once: they start a process for each host. */
#include <signal.h>
#include <sys/wait.h>

#include "inventory/base/file.h"
#include "provision/ssh.h"
#include "tests/bench/bench.h"
#include "tests/unit/ssh_server.h"

enum { HOSTS = 1152, JOBS = 64, CONNECTIONS = 256 };

static struct {
	char dir[64], *identity, *host_public, *host_private;
	int port, jobs;
	pid_t server;
	_Atomic int failed;
} bench;

static void host_name(size_t i, char text[32])
{
	snprintf(text, 32, "127.1.%zu.%zu", i / 200, i % 200 + 1);
}

static void serve(int out)
{
	static struct ssh_servers all;
	struct ssh_server server;

	signal(SIGPIPE, SIG_IGN);
	ssh_servers_init(&all, bench.host_private, bench.host_private);
	all.forget = true;
	ssh_server_start_at(&all, &server, SSH_GOOD, INADDR_ANY);
	if (write(out, &server.port, sizeof(server.port)) != sizeof(server.port))
		_exit(1);
	for (;;)
		pause();
}

static int start(void)
{
	char *user_private, *user_public;
	struct rk_err err = RK_ERR_INIT;
	int pipes[2];

	snprintf(bench.dir, sizeof(bench.dir), "/tmp/racksh-bench.XXXXXX");
	if (!mkdtemp(bench.dir) || pipe(pipes) || rk_ssh_make_key("host", &bench.host_private, &bench.host_public, &err) ||
	    rk_ssh_make_key("user", &user_private, &user_public, &err))
		return -1;
	bench.identity = rk_xasprintf("%s/id", bench.dir);
	if (rk_file_write(bench.identity, user_private, strlen(user_private), 0600, &err))
		return -1;
	bench.server = fork();
	if (bench.server == 0)
		serve(pipes[1]);
	return bench.server > 0 && read(pipes[0], &bench.port, sizeof(bench.port)) == sizeof(bench.port) ? 0 : -1;
}

static void one(void *ctx, size_t i)
{
	const char *argv[] = { "uptime", NULL };
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_ssh_result result = { 0 };
	struct rk_ssh *ssh = NULL;
	char host[32];

	(void)ctx;
	host_name(i, host);
	const struct rk_ssh_target target = { .host = host, .port = bench.port, .user = "root", .host_key = bench.host_public, .identity_file = bench.identity };
	int rc = rk_ssh_open(&target, &(struct rk_ssh_limits){ .connect_ms = 60000, .auth_ms = 60000 }, NULL, NULL, &ssh, &err);
	if (!rc)
		rc = rk_ssh_run(ssh, argv, NULL, 0, &result, &err);
	bool answered = !rc && result.status == 0 && result.out.len > 0;
	if (!answered && bench.failed++ == 0)
		fprintf(stderr, "bench_fanout: %s\n", rc ? err.message : "a host did not answer the command");
	rk_ssh_result_clear(&result);
	rk_ssh_close(ssh);
}

static double cpu_seconds(int who)
{
	struct rusage u;

	getrusage(who, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static double fan(size_t n, int jobs, double *ret_cpu)
{
	double start_at = bench_now(), cpu = cpu_seconds(RUSAGE_SELF);

	rk_fanout(n, jobs, one, NULL);
	*ret_cpu = cpu_seconds(RUSAGE_SELF) - cpu;
	return bench_now() - start_at;
}

/* Wall time of a shell command line; *ret_cpu of all its processes. Negative when it is not installed or failed. */
static double peer(const char *tool, const char *script, double *ret_cpu)
{
	char *line = rk_xasprintf("command -v %s >/dev/null || exit 99; %s >/dev/null 2>&1", tool, script);
	double start_at = bench_now(), cpu = cpu_seconds(RUSAGE_CHILDREN);
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", line, (char *)NULL);
		_exit(99);
	}
	waitpid(pid, &status, 0);
	free(line);
	*ret_cpu = cpu_seconds(RUSAGE_CHILDREN) - cpu;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? bench_now() - start_at : -1;
}

static void peers(double own, double own_cpu)
{
	struct rk_str hosts = RK_STR_INIT;
	char name[32];

	for (size_t i = 0; i < HOSTS; i++) {
		host_name(i, name);
		rk_str_addf(&hosts, "%s%s", i ? "," : "", name);
	}
	const char *options = rk_xasprintf("-p %d -i %s -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR", bench.port, bench.identity);
	const struct {
		const char *tool;
		char *script;
	} rows[] = {
		{ "pdsh", rk_xasprintf("PDSH_SSH_ARGS_APPEND='%s' pdsh -S -R ssh -l root -f %d -w %s uptime", options, JOBS, rk_str_text(&hosts)) },
		{ "clush", rk_xasprintf("clush -S -b -q -f %d -l root -o '%s' -w %s uptime", JOBS, options, rk_str_text(&hosts)) },
	};
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		double cpu, wall = peer(rows[i].tool, rows[i].script, &cpu);
		char *what = rk_xasprintf("fan-out, %d hosts, %d at a time", HOSTS, JOBS);
		if (wall < 0) {
			fprintf(stderr, "bench_fanout: %s is not installed or failed\n", rows[i].tool);
			bench_row(what, own, "s", NULL, 0, ">=5x");
			continue;
		}
		bench_row(what, own, "s", rows[i].tool, wall, ">=5x");
		bench_row("fan-out, client CPU per host", own_cpu / HOSTS * 1000, "ms", rows[i].tool, cpu / HOSTS * 1000, "<=3");
	}
}

int main(void)
{
	double cpu, wall;

	if (start() != 0)
		return 1;
	fan(64, 64, &cpu); /* once, so that the server is awake */
	wall = fan(HOSTS, JOBS, &cpu);
	peers(wall, cpu);
	wall = fan(HOSTS, CONNECTIONS, &cpu);
	bench_row("fan-out, 1152 hosts, 256 at a time", wall, "s", NULL, 0, NULL);
	bench_row("fan-out, 1152 hosts, client CPU per host", cpu / HOSTS * 1000, "ms", NULL, 0, "<=3");
	bench_row("fan-out, 256 connections, peak memory", bench_peak_mib(), "MiB", NULL, 0, "<=150");
	kill(bench.server, SIGKILL);
	waitpid(bench.server, NULL, 0);
	unlink(bench.identity);
	rmdir(bench.dir);
	return bench.failed ? 1 : 0;
}
