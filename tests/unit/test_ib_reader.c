#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "provision/drivers/session.h"
#include "tests/contract/fabric_site.h"
#include "tests/contract/scratch.h"

static const char preload[] = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so";

/* The manager's host: answers as written here, or this machine with a simulated fabric. */
struct host {
	struct rk_site *site;
	struct rk_driver_env env;
	struct rk_remote remote;
	struct rk_ib *ib;
	struct rk_arena *arena;
	const char *says;         /* %N is the nonce; NULL: the driver's own script runs on the simulated fabric */
	const char *path;         /* PATH there, or NULL */
	char folder[64], socket[64];
	pid_t ibsim;
	int console, commands;
	char used[512];           /* the words that commands got, one after the other */
};

static void child(const struct host *h, const char *const *argv, int in, int out, int err)
{
	dup2(in, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
	setenv("LD_PRELOAD", preload, 1);
	setenv("IBSIM_SOCKNAME", h->socket, 1);
	setenv("SIM_HOST", "spine00", 1);
	setenv("TMPDIR", h->folder, 1);
	if (h->path)
		setenv("PATH", h->path, 1);
	scratch_default_signals();
	if (chdir(h->folder) == 0)
		execvp(argv[0], (char *const *)argv);
	_exit(127);
}

static void run_here(const struct host *h, const char *const *argv, const char *input, size_t input_len, struct rk_ssh_result *result)
{
	int in = scratch_open(h->folder), out = scratch_open(h->folder), errors = scratch_open(h->folder), status = 0;

	assert_true(in >= 0 && out >= 0 && errors >= 0);
	assert_int_equal(input_len ? write(in, input, input_len) : 0, (ssize_t)input_len);
	lseek(in, 0, SEEK_SET);
	pid_t pid = fork();
	if (pid == 0)
		child(h, argv, in, out, errors);
	close(in);
	waitpid(pid, &status, 0);
	scratch_take(out, &result->out);
	scratch_take(errors, &result->err);
	result->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int run(void *ctx, const char *target, const char *const *argv, const char *input, size_t input_len, struct rk_ssh_result *result, struct rk_err *err)
{
	struct host *h = ctx;
	bool reads = strstr(argv[2], "racksh-ib-pkeys") != NULL;
	const char *how = !reads ? "slow" : argv[6] ? "routes" : argv[5];

	(void)target;
	(void)err;
	h->commands++;
	snprintf(h->used + strlen(h->used), sizeof(h->used) - strlen(h->used), "%s ", how);
	if (!h->says) {
		run_here(h, argv, input, input_len, result);
		return 0;
	}
	for (const char *p = reads ? h->says : ""; *p; p++)
		if (p[0] == '%' && p[1] == 'N' && p++)
			rk_str_add(&result->out, argv[4]);
		else
			rk_str_addn(&result->out, p, 1);
	result->status = 0;
	return 0;
}

static int start(void **state)
{
	struct host *h = rk_xcalloc(1, sizeof(*h));
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	snprintf(h->folder, sizeof(h->folder), "/tmp/racksh-reader.XXXXXX");
	assert_non_null(mkdtemp(h->folder));
	snprintf(h->socket, sizeof(h->socket), "%s", strrchr(h->folder, '.') + 1);
	h->site = fabric_site("\"driver\":\"nvos\",\"ssh\":\"admin@sw\"", "\"driver\":\"opensm\",\"ssh\":\"root@sm\",\"partitionsFile\":\"p\"");
	h->arena = rk_arena_new();
	h->remote = (struct rk_remote){ run, h };
	h->env = (struct rk_driver_env){ .site = h->site, .remote = &h->remote };
	assert_int_equal(rk_ib_open(&h->env, &h->ib, &err), 0);
	*state = h;
	return 0;
}

static int stop(void **state)
{
	struct host *h = *state;

	if (h->ibsim > 0) {
		kill(h->ibsim, SIGKILL);
		waitpid(h->ibsim, NULL, 0);
		close(h->console);
	}
	pid_t pid = fork();
	if (pid == 0) {
		execlp("rm", "rm", "-rf", h->folder, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
	h->ib->ops->free(h->ib);
	rk_arena_free(h->arena);
	rk_site_free(h->site);
	free(h);
	return 0;
}

static int tables(struct host *h, const uint64_t *guids, size_t n, struct rk_ib_port *ports, struct rk_err *err)
{
	return h->ib->ops->tables(h->ib, 0, guids, n, h->arena, ports, err);
}

/* ---- answers -------------------------------------------------------------------------------------------------------------------- */

static const uint64_t three[] = { 0x11, 0x22, 0x33 };

static void a_whole_answer_tells_every_port(void **state)
{
	struct host *h = *state;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	uint64_t guids[] = { 0x11, 0x22, 0x33, 0x11 };
	struct rk_ib_port ports[4];

	h->says = "%N 1\ntable 0000000000000011 0.1 64 7fff 8010\nunread 0000000000000022 no answer\ntable 0000000000000044 0.1 64 ffff\n%N end 2\n";
	assert_int_equal(tables(h, guids, 4, ports, &err), 0);
	assert_true(ports[0].known);
	assert_int_equal(ports[0].n_pkeys, 2);
	assert_int_equal(ports[0].pkeys[1], 0x8010);
	assert_false(ports[1].known);
	assert_false(ports[1].down);
	assert_string_equal(ports[1].why, "no answer");
	assert_true(ports[2].down);
	assert_true(ports[3].known && ports[3].n_pkeys == 2);
	assert_string_equal(h->used, "program ");
}

static void with_a_hole_what_is_not_told_is_unknown_not_down(void **state)
{
	static const char *const answers[] = {
		"%N 1\ntable 0000000000000011 0.1 64 7fff\nhole 5000e604000a0000 5 no answer\n%N end 1\n",
		"%N 1\ntable 0000000000000011 0.1 64 7fff\nfail sending: no such device\n%N end 1\n",
	};
	struct host *h = *state;

	for (size_t i = 0; i < RK_ARRAY_SIZE(answers); i++) {
		struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
		struct rk_ib_port ports[3];
		h->says = answers[i];
		assert_int_equal(tables(h, three, 3, ports, &err), 0);
		assert_true(ports[0].known);
		assert_false(ports[1].known);
		assert_false(ports[1].down);
		assert_non_null(ports[1].why);
	}
}

static void a_guid_that_two_ports_have_is_unknown(void **state)
{
	static const char *const answers[] = {
		"%N 1\ntable 0000000000000011 0.1 64 7fff\nunread 0000000000000011 two ports have this GUID\n%N end 1\n",
		"%N 1\nunread 0000000000000011 two ports have this GUID\ntable 0000000000000011 0.1 64 7fff\n%N end 1\n",
	};
	struct host *h = *state;

	for (size_t i = 0; i < RK_ARRAY_SIZE(answers); i++) {
		struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
		struct rk_ib_port ports[3];
		h->says = answers[i];
		assert_int_equal(tables(h, three, 3, ports, &err), 0);
		assert_false(ports[0].known || ports[0].down);
		assert_int_equal(ports[0].n_pkeys, 0);
		assert_string_equal(ports[0].why, "two ports have this GUID");
	}
}

static void an_answer_that_is_not_whole_is_none(void **state)
{
	static const char *const answers[] = {
		"%N 1\ntable 0000000000000011 0.1 64 7fff\n",
		"%N 1\ntable 0000000000000011 0.1 64 7fff\n%N end 1",
		"%N 1\ntable 0000000000000011 0.1 64 7fff\n%N end 2\n",
		"%N 1\ntable 0000000000000011 0.1 64 7fff\n%N end 1\nmore\n",
		"%N 1\ntable 0000000000000011 0.1 1 7fff 8010\n%N end 1\n",
		"%N 1\ntable 0000000000000011 0.1 64 7fff 801\n%N end 1\n",
		"%N 1\ntable 0000000000000011 0.1 64 7fff 0000\n%N end 1\n",
		"%N 1\ntable 0000000000000011 0.1 64 7fffx\n%N end 1\n",
		"%N 1\ntable 0000000000000011 0.1 99999 7fff\n%N end 1\n",
		"%N 1\ntable 0000000000000011 0.1 64 7fff\ntable 0000000000000011 0.1 64 ffff\n%N end 2\n",
		"%N 1\ntable 0000000000000011 0.x 64 7fff\n%N end 1\n",
		"%N 1\nsomething else\n%N end 0\n",
		"%N 1\n",
	};
	struct host *h = *state;

	for (size_t i = 0; i < RK_ARRAY_SIZE(answers); i++) {
		struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
		struct rk_ib_port ports[3];
		h->says = answers[i];
		if (tables(h, three, 3, ports, &err) != RK_UNREACHABLE)
			fail_msg("answer %zu was taken", i);
	}
}

static void ways_that_do_not_work_are_not_tried_again(void **state)
{
	struct host *h = *state;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_ib_port ports[3];

	h->says = "%N no it does not run: wrong format\n";
	(void)tables(h, three, 3, ports, &err);
	assert_true(rk_starts_with(h->used, "program source slow "));
	h->used[0] = '\0';
	(void)tables(h, three, 3, ports, &err);
	assert_true(rk_starts_with(h->used, "slow "));
	for (size_t i = 0; i < 3; i++)
		assert_false(ports[i].known);
}

/* ---- a simulated fabric ----------------------------------------------------------------------------------------------------------- */

static bool listening(const struct host *h)
{
	char *text RK_CLEANUP_FREE = NULL, *name RK_CLEANUP_FREE = rk_xasprintf("@%s:ctl", h->socket);
	size_t len;

	return rk_file_read("/proc/net/unix", 1 << 24, &text, &len, NULL) == 0 && strstr(text, name);
}

/* One rack: 72 ports of HCAs, 4 leaves, 2 spines. */
static void start_fabric(struct host *h)
{
	char *make RK_CLEANUP_FREE = rk_xasprintf("awk -v racks=1 -v trays=18 -f tests/lab/netfile.awk >%s/net", h->folder);
	const char *argv[] = { "sh", "-c", make, NULL };
	int pipes[2], status;

	if (access("/usr/bin/ibsim", X_OK) != 0 || access(preload, R_OK) != 0)
		skip();
	pid_t pid = fork();
	if (pid == 0) {
		execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	h->ibsim = fork();
	if (h->ibsim == 0) {
		int quiet = open("/dev/null", O_WRONLY);
		dup2(pipes[0], STDIN_FILENO);
		dup2(quiet, STDOUT_FILENO);
		dup2(quiet, STDERR_FILENO);
		setenv("IBSIM_SOCKNAME", h->socket, 1);
		if (chdir(h->folder) == 0)
			execlp("ibsim", "ibsim", "-s", "net", (char *)NULL);
		_exit(127);
	}
	close(pipes[0]);
	h->console = pipes[1];
	for (int i = 0; i < 1000 && !listening(h); i++)
		usleep(10000);
	assert_true(listening(h));
}

static void console(const struct host *h, const char *command)
{
	assert_int_equal(write(h->console, command, strlen(command)), (ssize_t)strlen(command));
}

static uint64_t guid_of(int tray, int rail)
{
	return UINT64_C(0x5000e60300010001) | (uint64_t)tray << 8 | (uint64_t)rail << 4;
}

static size_t read_rack(struct host *h, struct rk_ib_port ports[72])
{
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	uint64_t guids[72];
	size_t known = 0;

	for (int i = 0; i < 72; i++)
		guids[i] = guid_of(i / 4 + 1, i % 4);
	if (tables(h, guids, 72, ports, &err) != 0)
		fail_msg("%s", err.message);
	for (int i = 0; i < 72; i++)
		known += ports[i].known;
	return known;
}

static void a_few_ports_are_asked_where_they_were(void **state)
{
	struct host *h = *state;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	uint64_t guids[] = { guid_of(2, 1), guid_of(18, 3) };
	struct rk_ib_port all[72], ports[2];

	start_fabric(h);
	assert_int_equal(tables(h, guids, 2, ports, &err), 0);
	assert_int_equal(read_rack(h, all), 72);
	assert_string_equal(h->used, "program routes ");
	h->used[0] = '\0';
	assert_int_equal(tables(h, guids, 2, ports, &err), 0);
	assert_true(ports[0].known && ports[1].known);
	assert_string_equal(h->used, "routes ");
	/* Two cables are crossed: the ports are found again, at other places. */
	console(h, "Unlink \"r01t02h1\"[1]\nUnlink \"r01t03h1\"[1]\nLink \"r01t02h1\"[1] \"leaf001\"[3]\nLink \"r01t03h1\"[1] \"leaf001\"[2]\n");
	for (int i = 0; i < 50 && !strstr(h->used, "program"); i++)
		assert_int_equal(tables(h, guids, 2, ports, &err), 0);
	assert_non_null(strstr(h->used, "program"));
	for (int i = 0; i < 50 && !(ports[0].known && ports[1].known); i++)
		assert_int_equal(tables(h, guids, 2, ports, &err), 0);
	assert_true(ports[0].known && ports[1].known);
}

/* Until the console's commands are obeyed. */
static bool comes_to(struct host *h, size_t known, struct rk_ib_port ports[72])
{
	for (int i = 0; i < 50; i++)
		if (read_rack(h, ports) == known)
			return true;
	return false;
}

static void assert_nothing_left(struct host *h)
{
	char *left RK_CLEANUP_FREE = rk_xasprintf("ls -d %s/tmp.* 2>/dev/null", h->folder);
	struct rk_ssh_result r = { .status = -1 };

	run_here(h, (const char *[]){ "sh", "-c", left, NULL }, NULL, 0, &r);
	assert_int_equal(r.out.len, 0);
	rk_ssh_result_clear(&r);
}

static void all_tables_of_a_fabric_are_read_at_once(void **state)
{
	struct host *h = *state;
	struct rk_ib_port ports[72];

	start_fabric(h);
	assert_int_equal(read_rack(h, ports), 72);
	assert_string_equal(h->used, "program ");
	for (int i = 0; i < 72; i++) {
		assert_int_equal(ports[i].n_pkeys, 1);
		assert_int_equal(ports[i].pkeys[0], 0xffff);
	}
	assert_nothing_left(h);
}

static void a_lost_link_is_down_and_a_silent_port_unknown(void **state)
{
	struct host *h = *state;
	struct rk_ib_port ports[72];

	start_fabric(h);
	console(h, "Unlink \"r01t02h1\"[1]\n");
	assert_true(comes_to(h, 71, ports));
	assert_true(ports[5].down);
	/* P_KeyTable of one port is not answered. */
	console(h, "Error \"r01t03h0\" 100 22\n");
	assert_true(comes_to(h, 70, ports));
	assert_false(ports[8].down);
	assert_string_equal(ports[8].why, "no answer");
	assert_true(ports[5].down);
	/* A leaf that answers nothing hides a rail: nothing is known of it, and the lost port may be lost or not. */
	console(h, "Error \"leaf001\" 100\n");
	assert_true(comes_to(h, 53, ports));
	assert_false(ports[1].known || ports[1].down);
	assert_non_null(strstr(ports[1].why, "not seen whole"));
	assert_false(ports[5].down);
}

/* Puts a command of our own in front of those of the host. */
static void put_tool(struct host *h, const char *name, const char *script, char **ret_path)
{
	char *bin RK_CLEANUP_FREE = rk_xasprintf("%s/bin", h->folder), *file RK_CLEANUP_FREE = rk_xasprintf("%s/%s", bin, name);

	assert_int_equal(rk_mkdirs(bin, NULL), 0);
	assert_int_equal(rk_file_write(file, script, strlen(script), 0755, NULL), 0);
	*ret_path = rk_xasprintf("%s:%s", bin, getenv("PATH"));
	h->path = *ret_path;
}

static void a_host_that_runs_no_foreign_program_builds_it(void **state)
{
	struct host *h = *state;
	struct rk_ib_port ports[72];
	char *path RK_CLEANUP_FREE = NULL;
	/* Another architecture: what was sent cannot be run. */
	static const char spoil[] = "#!/bin/sh\ncase $2 in */program) [ -e \"${2%/*}/source\" ] || : >\"$2\" ;; esac\nexec /bin/chmod \"$@\"\n";

	start_fabric(h);
	put_tool(h, "chmod", spoil, &path);
	assert_int_equal(read_rack(h, ports), 72);
	assert_string_equal(h->used, "program source ");
	h->used[0] = '\0';
	assert_int_equal(read_rack(h, ports), 72);
	assert_string_equal(h->used, "routes ");
}

static void a_reading_that_is_ended_on_the_host_leaves_nothing(void **state)
{
	static const char *const signals[] = { "HUP", "INT", "TERM", "PIPE" };
	struct host *h = *state;
	struct rk_ib_port ports[3];
	char *slow RK_CLEANUP_FREE = NULL, *whole RK_CLEANUP_FREE = NULL;

	put_tool(h, "smpquery", "#!/bin/sh\nexit 1\n", &slow);
	put_tool(h, "ibnetdiscover", "#!/bin/sh\nexit 1\n", &whole);
	for (size_t i = 0; i < RK_ARRAY_SIZE(signals); i++) {
		struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
		char *deadly RK_CLEANUP_FREE = rk_xasprintf("#!/bin/sh\nkill -%s $PPID\n", signals[i]), *path RK_CLEANUP_FREE = NULL;
		put_tool(h, "chmod", deadly, &path);
		(void)tables(h, three, 3, ports, &err);
		assert_nothing_left(h);
		assert_false(ports[0].known);
	}
}

static void a_host_without_infiniband_is_asked_the_slow_way(void **state)
{
	struct host *h = *state;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_ib_port ports[3];

	h->says = "%N 1\nfail no InfiniBand on this host\n%N end 0\n";
	(void)tables(h, three, 3, ports, &err);
	assert_true(rk_starts_with(h->used, "program slow "));
	assert_false(ports[0].known);
}

/* ---- a library of our own ----------------------------------------------------------------------------------------------------------- */

/* Two HCAs, at the ports 1 and 2 of the first hop, with GUIDs 0x11 and 0x22 and tables of two blocks. The first blocks are answered before the second
 * ones. FAKE=refuses: each HCA refuses its first block, in its own way. FAKE=silent: nobody answers for tables. */
static const char umad_source[] =
	"#include <errno.h>\n#include <stdint.h>\n#include <stdlib.h>\n#include <string.h>\n"
	"enum { HEAD = 64, MAD = 256, MOST = 64 };\n"
	"static uint8_t sent[MOST][MAD]; static int n; static long mask;\n"
	"int umad_init(void) { return 0; }\n"
	"int umad_open_port(const char *device, int port) { (void)device; return port; }\n"
	"int umad_register(int port, int class, int version, uint8_t rmpp, long *methods) { (void)class; (void)version; (void)rmpp; (void)methods; return port; }\n"
	"int umad_set_addr(void *packet, int lid, int qp, int sl, int qkey) { (void)packet; (void)lid; (void)qp; (void)sl; return qkey; }\n"
	"int umad_status(void *packet) { (void)packet; return 0; }\n"
	"size_t umad_size(void) { return HEAD; }\n"
	"void *umad_get_mad(void *packet) { return (char *)packet + HEAD; }\n"
	"int umad_send(int port, int agent, void *packet, int length, int ms, int retries)\n"
	"{ (void)agent; (void)ms; (void)retries; memcpy(sent[n++ % MOST], (char *)packet + HEAD, (size_t)length); return port; }\n"
	"static int is(const char *word) { return getenv(\"FAKE\") && strcmp(getenv(\"FAKE\"), word) == 0; }\n"
	"static int next(void)\n"
	"{\n"
	" for (int block = 0; block < 2; block++)\n"
	"  for (int i = 0; i < n; i++)\n"
	"   if (!(mask >> i & 1) && sent[i][23] == block && !(is(\"silent\") && sent[i][17] == 0x16)) { mask |= 1L << i; return i; }\n"
	" return -1;\n"
	"}\n"
	"int umad_recv(int port, void *packet, int *length, int ms)\n"
	"{\n"
	" int i = next(); uint8_t *mad = (uint8_t *)packet + HEAD;\n"
	" (void)ms; (void)length;\n"
	" if (i < 0) { errno = ETIMEDOUT; return -1; }\n"
	" memcpy(mad, sent[i], MAD);\n"
	" if (mad[17] == 0x11) { mad[64 + 2] = 1; mad[64 + 3] = 1; mad[64 + 19] = mad[64 + 27] = (uint8_t)(0x11 * mad[129]); mad[64 + 29] = 64; }\n"
	" else if (is(\"refuses\") && !mad[23]) mad[5] = (uint8_t)(0x0c * mad[129]);\n"
	" else mad[64] = 0x7f, mad[65] = 0xff;\n"
	" return port;\n"
	"}\n";

/* What the program says of both HCAs with that library. */
static char *read_with(struct host *h, const char *fake)
{
	char *source RK_CLEANUP_FREE = rk_xasprintf("%s/umad.c", h->folder), *program RK_CLEANUP_FREE = realpath("build/gen/ib_pkeys", NULL);
	char *command RK_CLEANUP_FREE = rk_xasprintf("unset LD_PRELOAD; cc -shared -fPIC -o libibumad.so.3 umad.c && FAKE=%s LD_LIBRARY_PATH=. timeout 20 '%s' N 11:0.1 22:0.2",
						     fake, program ? program : "");
	struct rk_ssh_result r = { .status = -1 };

	if (!program || access("/usr/bin/cc", X_OK) != 0)
		skip();
	assert_int_equal(rk_file_write(source, umad_source, strlen(umad_source), 0644, NULL), 0);
	run_here(h, (const char *[]){ "sh", "-c", command, NULL }, NULL, 0, &r);
	if (r.status != 0)
		fail_msg("exit code %d: %s%s", r.status, rk_str_text(&r.out), rk_str_text(&r.err));
	char *said = rk_xstrdup(rk_str_text(&r.out));
	rk_ssh_result_clear(&r);
	return said;
}

static void the_program_tells_of_both_ports(void **state)
{
	char *said RK_CLEANUP_FREE = read_with(*state, "well");

	assert_string_equal(said, "N 1\ntable 0000000000000011 0.1 64 7fff 7fff\ntable 0000000000000022 0.2 64 7fff 7fff\nN end 2\n");
}

static void a_fabric_that_falls_silent_ends_the_program(void **state)
{
	char *said RK_CLEANUP_FREE = read_with(*state, "silent");

	assert_string_equal(said, "N 1\nunread 0000000000000011 no answer\nunread 0000000000000022 no answer\nN end 0\n");
}

static void each_port_has_its_own_reason(void **state)
{
	char *said RK_CLEANUP_FREE = read_with(*state, "refuses");

	assert_string_equal(said, "N 1\nunread 0000000000000011 refused with status 0x000c\nunread 0000000000000022 refused with status 0x0018\nN end 0\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_whole_answer_tells_every_port, start, stop),
		cmocka_unit_test_setup_teardown(with_a_hole_what_is_not_told_is_unknown_not_down, start, stop),
		cmocka_unit_test_setup_teardown(a_guid_that_two_ports_have_is_unknown, start, stop),
		cmocka_unit_test_setup_teardown(an_answer_that_is_not_whole_is_none, start, stop),
		cmocka_unit_test_setup_teardown(ways_that_do_not_work_are_not_tried_again, start, stop),
		cmocka_unit_test_setup_teardown(all_tables_of_a_fabric_are_read_at_once, start, stop),
		cmocka_unit_test_setup_teardown(a_few_ports_are_asked_where_they_were, start, stop),
		cmocka_unit_test_setup_teardown(a_lost_link_is_down_and_a_silent_port_unknown, start, stop),
		cmocka_unit_test_setup_teardown(a_host_that_runs_no_foreign_program_builds_it, start, stop),
		cmocka_unit_test_setup_teardown(a_host_without_infiniband_is_asked_the_slow_way, start, stop),
		cmocka_unit_test_setup_teardown(a_reading_that_is_ended_on_the_host_leaves_nothing, start, stop),
		cmocka_unit_test_setup_teardown(the_program_tells_of_both_ports, start, stop),
		cmocka_unit_test_setup_teardown(a_fabric_that_falls_silent_ends_the_program, start, stop),
		cmocka_unit_test_setup_teardown(each_port_has_its_own_reason, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
