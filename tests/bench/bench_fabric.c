/* Partitions on a fabric of 64 racks: a real OpenSM on a simulated fabric (ibsim), changed by the driver as for clusters, each change read back from
 * all ports. Says why and measures nothing where ibsim or opensm is not installed. FABRIC_RACKS and FABRIC_TENANTS make it smaller. */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "inventory/base/file.h"
#include "inventory/site_file.h"
#include "provision/ib.h"
#include "provision/ssh.h"
#include "tests/bench/bench.h"
#include "tests/contract/scratch.h"

enum { TRAYS = 18, RAILS = 4, START_S = 120, TRAYS_PER_TENANT = 17, SAMPLE = 4 };
static const char preload[] = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so";

static struct {
	char folder[64], *path;
	const char *socket;
	int racks, tenants, console[2];
	pid_t ibsim, opensm;
	struct rk_site *site;
	struct rk_ib *ib;
} bench;

static char *file(const char *name)
{
	return rk_xasprintf("%s/%s", bench.folder, name);
}

static void put(const char *name, const char *text, mode_t mode)
{
	char *path RK_CLEANUP_FREE = file(name);
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	if (rk_file_write(path, text, strlen(text), mode, &err) != 0)
		fprintf(stderr, "bench_fabric: %s\n", err.message);
	(void)chmod(path, mode);
}

static void simulate(bool preloaded)
{
	setenv("IBSIM_SOCKNAME", bench.socket, 1);
	setenv("SIM_HOST", "spine00", 1);
	setenv("PATH", bench.path, 1);
	setenv("OSM_TMP_DIR", bench.folder, 1);
	setenv("OSM_CACHE_DIR", bench.folder, 1);
	if (preloaded)
		setenv("LD_PRELOAD", preload, 1);
	if (chdir(bench.folder) != 0)
		_exit(127);
}

static pid_t start(bool preloaded, const char *const *argv, int in)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	int quiet = open("/dev/null", O_RDWR);
	dup2(in >= 0 ? in : quiet, STDIN_FILENO);
	dup2(quiet, STDOUT_FILENO);
	dup2(quiet, STDERR_FILENO);
	simulate(preloaded);
	execvp(argv[0], (char *const *)argv);
	_exit(127);
}

static bool contains(const char *path, const char *text)
{
	char *content RK_CLEANUP_FREE = NULL;
	size_t len;

	return rk_file_read(path, 1 << 26, &content, &len, NULL) == 0 && strstr(content, text);
}

static bool wait_for(const char *path, const char *text)
{
	for (double end = bench_now() + START_S; bench_now() < end; usleep(20000))
		if (contains(path, text))
			return true;
	return false;
}

/* ---- the manager's host: this machine, with tools that work on the simulated fabric -------------------------------------------------- */

static int run(void *ctx, const char *target, const char *const *argv, const char *input, size_t input_len, struct rk_ssh_result *result, struct rk_err *err)
{
	char *in RK_CLEANUP_FREE = file("in"), *out RK_CLEANUP_FREE = file("out"), *errors RK_CLEANUP_FREE = file("err");
	int fds[3] = { open(in, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), open(out, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600),
		       open(errors, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) };
	int status = 0;

	(void)ctx;
	(void)target;
	if (fds[0] < 0 || fds[1] < 0 || fds[2] < 0 || (input_len && write(fds[0], input, input_len) != (ssize_t)input_len))
		return rk_err_set(err, RK_UNREACHABLE, "no scratch file");
	lseek(fds[0], 0, SEEK_SET);
	pid_t pid = fork();
	if (pid == 0) {
		for (int i = 0; i < 3; i++)
			dup2(fds[i], i);
		simulate(false);
		execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	close(fds[0]);
	scratch_take(fds[1], &result->out);
	scratch_take(fds[2], &result->err);
	result->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	return 0;
}

static int make_host(void)
{
	static const char *const tools[] = { "smpquery", "saquery", "ibnetdiscover", "sminfo" };
	char *bin RK_CLEANUP_FREE = file("bin"), *program RK_CLEANUP_FREE = rk_xasprintf("%s/gen/ib_pkeys", getenv("BUILD")), *real = realpath(program, NULL);

	if (rk_mkdirs(bin, NULL) != 0 || !real)
		return -1;
	bench.path = rk_xasprintf("%s:%s:/usr/sbin", bin, getenv("PATH"));
	char *reader RK_CLEANUP_FREE = rk_xasprintf("#!/bin/sh\nLD_PRELOAD=%s exec %s \"$@\"\n", preload, real);
	put("bin/racksh-ib-pkeys", reader, 0755);
	for (size_t i = 0; i < RK_ARRAY_SIZE(tools); i++) {
		char *name RK_CLEANUP_FREE = rk_xasprintf("bin/%s", tools[i]);
		char *text RK_CLEANUP_FREE = rk_xasprintf("#!/bin/sh\nLD_PRELOAD=%s exec /usr/sbin/%s \"$@\"\n", preload, tools[i]);
		put(name, text, 0755);
	}
	free(real);
	return 0;
}

/* ---- the fabric ------------------------------------------------------------------------------------------------------------------------- */

static int start_fabric(void)
{
	static const char *const opensm[] = { "opensm", "-F", "opensm.conf", "-f", "opensm.log", NULL };
	char *make = rk_xasprintf("awk -v racks=%d -v trays=%d -f tests/lab/netfile.awk >%s/net", bench.racks, TRAYS, bench.folder);
	const char *const netfile[] = { "sh", "-c", make, NULL }, *const ibsim[] = { "ibsim", "-N", "8000", "-S", "400", "-P", "60000", "-s", "net", NULL };
	char *socket RK_CLEANUP_FREE = rk_xasprintf("@%s:ctl", bench.socket), *log RK_CLEANUP_FREE = file("opensm.log");
	char *conf = rk_xasprintf("partition_config_file %s/partitions.conf\npart_enforce both\nforce_log_flush TRUE\nrouting_engine ftree,minhop\n", bench.folder);
	struct bench_run run_of_awk;

	if (bench_run(netfile, &run_of_awk) != 0 || pipe2(bench.console, O_CLOEXEC) != 0)
		return -1;
	put("partitions.conf", "Default=0x7fff : ALL=limited, ALL_SWITCHES=full, SELF=full ;\n", 0644);
	put("opensm.conf", conf, 0644);
	bench.ibsim = start(false, ibsim, bench.console[0]);
	if (!wait_for("/proc/net/unix", socket))
		return -1;
	bench.opensm = start(true, opensm, -1);
	char *pid RK_CLEANUP_FREE = rk_xasprintf("%d\n", (int)bench.opensm);
	put("opensm.pid", pid, 0644);
	free(make);
	free(conf);
	return wait_for(log, "SUBNET UP") ? 0 : -1;
}

static uint64_t guid_of(int rack, int tray, int rail)
{
	return UINT64_C(0x5000e60300000001) | (uint64_t)rack << 16 | (uint64_t)tray << 8 | (uint64_t)rail << 4;
}

static int open_driver(void)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	static struct rk_remote remote = { run, NULL };
	static struct rk_driver_env env;

	rk_str_addf(&text, "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\",\"defaults\":{\"hypervisor\":{\"libvirt\":\"12.8.0\",\"qemu\":\"11.1.3\","
			   "\"arch\":\"aarch64\",\"pageKiB\":64}},\"infiniband\":[{\"name\":\"ib0\",\"driver\":\"opensm\",\"ssh\":\"root@sm\",\"partitionsFile\":"
			   "\"%s/partitions.conf\",\"pidFile\":\"%s/opensm.pid\",\"pkeyPool\":\"0x0100-0x08ff\"}],\"racks\":[", bench.folder, bench.folder);
	for (int r = 1; r <= bench.racks; r++)
		rk_str_addf(&text, "%s{\"name\":\"r%02d\",\"nvlink\":{\"driver\":\"nvos\",\"ssh\":\"admin@sw\"},\"trays\":{\"count\":%d}}", r > 1 ? "," : "", r, TRAYS);
	rk_str_add(&text, "],\"images\":[],\"tenants\":[{\"name\":\"t\"}]}");
	if (rk_site_parse("site", rk_str_text(&text), text.len, &bench.site, &err) != 0) {
		fprintf(stderr, "bench_fabric: %s\n", err.message);
		return -1;
	}
	for (size_t h = 0; h < bench.site->n_hcas; h++)
		bench.site->hcas[h].port_guid = guid_of((int)h / (TRAYS * RAILS) + 1, (int)h / RAILS % TRAYS + 1, (int)h % RAILS);
	env = (struct rk_driver_env){ .site = bench.site, .remote = &remote };
	return rk_ib_open(&env, &bench.ib, &err);
}

/* ---- what is measured ------------------------------------------------------------------------------------------------------------------- */

/* A tenant has a rack: all trays but the last, then all. */
static int set(int tenant, int trays)
{
	struct rk_ib_member members[TRAYS * RAILS];
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	char name[16];
	size_t n = 0;

	for (int t = 1; t <= trays; t++)
		for (int h = 0; h < RAILS; h++)
			members[n++] = (struct rk_ib_member){ guid_of(tenant % bench.racks + 1, t, h), true };
	snprintf(name, sizeof(name), "t%03d", tenant);
	int rc = bench.ib->ops->set(bench.ib, 0, &(struct rk_ib_wanted){ (uint16_t)(0x100 + tenant), name, members, n, false }, &err);
	if (rc)
		fprintf(stderr, "bench_fabric: tenant %d with %d trays: %s\n", tenant, trays, err.message);
	return rc;
}

/* Every step-th tenant, with all of them there. */
static int change_all(const char *what, int trays, int step)
{
	double *seconds = rk_xcalloc((size_t)bench.tenants, sizeof(*seconds)), worst = 0;
	size_t n = 0;
	char *row;
	int rc = 0;

	for (int i = 0; i < bench.tenants && rc == 0; i += step, n++) {
		double from = bench_now();
		rc = set(i, trays);
		seconds[n] = bench_now() - from;
		worst = seconds[n] > worst ? seconds[n] : worst;
	}
	if (rc == 0) {
		char *beside RK_CLEANUP_FREE = rk_xasprintf("slowest of %zu", n);
		row = rk_xasprintf("%s one of %d partitions, %d racks, read back", what, bench.tenants, bench.racks);
		bench_row(row, bench_median(seconds, n), "s", beside, worst, "<=5");
		free(row);
	}
	free(seconds);
	return rc;
}

static int read_tables(void)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	size_t n = bench.site->n_hcas, known = 0;
	uint64_t *guids = rk_arena_array(arena, n, sizeof(*guids));
	struct rk_ib_port *ports = rk_arena_array(arena, n, sizeof(*ports));
	static const char *const peer[] = { "sh", "-c", "for g in \"$@\"; do smpquery -G pkeys $g || exit 1; done", "sh", "0x5000e60300010101", "0x5000e60300010111",
					    "0x5000e60300010121", "0x5000e60300010131", "0x5000e60300010201", "0x5000e60300010211", "0x5000e60300010221",
					    "0x5000e60300010231", NULL };
	double seconds[5];

	for (size_t i = 0; i < n; i++)
		guids[i] = bench.site->hcas[i].port_guid;
	for (size_t i = 0; i < RK_ARRAY_SIZE(seconds); i++) {
		double from = bench_now();
		if (bench.ib->ops->tables(bench.ib, 0, guids, n, arena, ports, &err) != 0) {
			fprintf(stderr, "bench_fabric: %s\n", err.message);
			return -1;
		}
		seconds[i] = bench_now() - from;
	}
	for (size_t i = 0; i < n; i++)
		known += ports[i].known;
	if (known != n) {
		fprintf(stderr, "bench_fabric: %zu of %zu tables were read: %s\n", known, n, ports[0].why ? ports[0].why : "no reason");
		return -1;
	}
	double from = bench_now();
	pid_t pid = start(false, peer, -1);
	int status = -1;
	waitpid(pid, &status, 0);
	char *row RK_CLEANUP_FREE = rk_xasprintf("read %zu PKey tables", n);
	bench_row(row, bench_median(seconds, RK_ARRAY_SIZE(seconds)), "s", status == 0 ? "smpquery, 8 tables only" : NULL, bench_now() - from, "<=1.5");
	return 0;
}

static void memory_row(const char *what, pid_t pid)
{
	char *path RK_CLEANUP_FREE = rk_xasprintf("/proc/%d/status", (int)pid), *text RK_CLEANUP_FREE = NULL, *row RK_CLEANUP_FREE = NULL;
	size_t len;

	if (rk_file_read(path, 1 << 16, &text, &len, NULL) != 0)
		return;
	const char *at = strstr(text, "VmHWM:");
	row = rk_xasprintf("memory of %s, %d racks", what, bench.racks);
	bench_row(row, at ? strtod(at + 6, NULL) / 1024 : 0, "MiB", NULL, 0, NULL);
}

static int measure(void)
{
	double from = bench_now();

	if (open_driver() != 0 || start_fabric() != 0) {
		fprintf(stderr, "bench_fabric: the fabric does not start\n");
		return 1;
	}
	bench_row("OpenSM and its fabric, from nothing to SUBNET UP", bench_now() - from, "s", NULL, 0, NULL);
	if (read_tables() != 0 || change_all("create", TRAYS_PER_TENANT, 1) != 0 || change_all("grow", TRAYS, SAMPLE) != 0 ||
	    change_all("delete", 0, SAMPLE) != 0)
		return 1;
	memory_row("ibsim", bench.ibsim);
	memory_row("opensm", bench.opensm);
	bench_row("memory of the driver and its site", bench_peak_mib(), "MiB", NULL, 0, NULL);
	return 0;
}

static int from_environment(const char *name, int standard)
{
	const char *text = getenv(name);

	return text && atoi(text) > 0 ? atoi(text) : standard;
}

int main(void)
{
	const char *const clean[] = { "rm", "-rf", bench.folder, NULL };
	struct bench_run run_of_rm;

	if (access(preload, R_OK) != 0 || access("/usr/sbin/opensm", X_OK) != 0 || access("/usr/bin/ibsim", X_OK) != 0) {
		fprintf(stderr, "bench_fabric: ibsim or opensm is not installed\n");
		return 0;
	}
	bench.racks = from_environment("FABRIC_RACKS", 64);
	bench.tenants = from_environment("FABRIC_TENANTS", bench.racks);
	snprintf(bench.folder, sizeof(bench.folder), "/tmp/racksh-bench.XXXXXX");
	if (!mkdtemp(bench.folder) || make_host() != 0)
		return 1;
	bench.socket = strrchr(bench.folder, '.') + 1;
	int rc = measure();
	for (int i = 0; i < 2; i++) {
		pid_t pid = i ? bench.ibsim : bench.opensm;
		if (pid > 0 && kill(pid, SIGKILL) == 0)
			waitpid(pid, NULL, 0);
	}
	bench_run(clean, &run_of_rm);
	return rc;
}
