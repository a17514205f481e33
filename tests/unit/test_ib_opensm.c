#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "provision/drivers/partitions_file.h"
#include "provision/drivers/session.h"
#include "tests/contract/fabric_site.h"
#include "tests/contract/ib_contract.h"
#include "tests/contract/scratch.h"

/* ---- hosts of subnet managers: folders on this machine, in which the driver's own scripts run with tools that answer from files ------------------ */

static const char standard[] = "# site file\nDefault=0x7fff : ALL=limited, ALL_SWITCHES=full, SELF=full ;\nstorage=0x0a00, defmember=limited : 0x5000e60300aa0001=full ;\n";

enum { PORTS = 8, MANY = 200 };
enum fault { NONE, HUP_LOST, NO_OPENSM, DISK_FULL, LOST_BEFORE, LOST_AFTER, OPENS, EDITED, REBOOTS };

struct fake {
	struct ib_bench bench;    /* first: the contract reads it */
	struct rk_site *site;
	struct rk_driver_env env;
	struct rk_remote remote;
	char folder[64];
	bool slow;                /* tables are read with smpquery */
	enum fault fault;
	int nth, commands;        /* the fault happens at the nth command that writes */
	int writes, sweeps;
	int comes_up;             /* commands until the manager has been at the port that comes up */
};

static char *path_of(const struct fake *f, const char *host, const char *name)
{
	return rk_xasprintf("%s/%s/%s", f->folder, host, name);
}

static void put(const struct fake *f, const char *host, const char *name, const char *text, mode_t mode)
{
	char *path RK_CLEANUP_FREE = path_of(f, host, name);

	assert_int_equal(rk_file_write(path, text, strlen(text), mode, NULL), 0);
	assert_int_equal(chmod(path, mode), 0);
}

static char *content(const struct fake *f, const char *host, const char *name)
{
	char *path RK_CLEANUP_FREE = path_of(f, host, name), *text = NULL;
	size_t len;

	assert_int_equal(rk_file_read(path, 1 << 20, &text, &len, NULL), 0);
	return text;
}

/* As smpquery prints it: eight keys in a line and how many there may be. */
static void put_table(const struct fake *f, uint64_t guid, const uint16_t *keys, size_t n)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	char name[64];

	for (size_t i = 0; i < 64; i++) {
		if (i % 8 == 0)
			rk_str_addf(&text, "%s%4zu:", i ? "\n" : "", i);
		rk_str_addf(&text, " 0x%04x", i < n ? keys[i] : 0u);
	}
	rk_str_add(&text, "\n64 pkeys capacity for this port\n");
	snprintf(name, sizeof(name), "tables/0x%016" PRIx64, guid);
	put(f, ".", name, rk_str_text(&text), 0644);
	rk_str_reset(&text);
	rk_str_addf(&text, "table %016" PRIx64 " 0.1 64", guid);
	for (size_t i = 0; i < n; i++)
		rk_str_addf(&text, " %04x", keys[i]);
	rk_str_add(&text, "\n");
	snprintf(name, sizeof(name), "reader/0x%016" PRIx64, guid);
	put(f, ".", name, rk_str_text(&text), 0644);
}

/* What OpenSM makes of the master's file. */
static void sweep(struct fake *f)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	char *text RK_CLEANUP_FREE = content(f, "sm1", "partitions.conf");
	struct rk_partitions parts;
	bool open = f->fault == OPENS || rk_partitions_parse("f", text, strlen(text), arena, &parts, NULL) != 0;

	f->sweeps++;
	for (int i = 0; i < PORTS; i++) {
		uint16_t keys[64] = { open ? 0xffff : 0x7fff };
		size_t n = 1;
		for (size_t p = 0; !open && p < parts.n; p++)
			for (size_t m = 0; m < parts.items[p].n_members; m++)
				if (parts.items[p].members[m].guid == ib_guid(&f->bench, i) && parts.items[p].pkey != RK_PKEY_DEFAULT)
					keys[n++] = (uint16_t)(parts.items[p].pkey | (parts.items[p].members[m].full ? 0x8000 : 0));
		put_table(f, ib_guid(&f->bench, i), keys, n);
	}
	if (f->fault == REBOOTS)
		put_table(f, ib_guid(&f->bench, PORTS - 1), (const uint16_t[]){ 0xffff }, 1);
}

static void tools(const struct fake *f, const char *host)
{
	static const char *const scripts[][2] = {
		{ "smpquery", "#!/bin/sh\nfor g; do :; done\ncase $2 in nodeinfo) test -f \"$FAKE/tables/$g\"; exit ;; esac\n"
			      "cat \"$FAKE/tables/$g\" 2>/dev/null || { echo \"smpquery: iberror: failed: operation pkeys: no such port\"; exit 1; }\n" },
		{ "saquery", "#!/bin/sh\nkeys() { sed -n 's/^ *[0-9]*://p' \"$FAKE/tables/$1\" | tr ' ' '\\n' | grep -v -e 0x0000 -e '^$'; }\n"
			     "g() { printf '0x%04x%04x%04x%04x' $(echo \"$1\" | sed 's/fe80:://; s/\\([0-9a-f]*\\)/0x\\1/g; s/:/ /g'); }\n"
			     "a=$(g \"$3\") b=$(g \"$5\")\nfor x in $(keys $a); do for y in $(keys $b); do\n"
			     "if [ $((x & 0x7fff)) = $((y & 0x7fff)) ] && [ $(((x | y) & 0x8000)) != 0 ]; then echo 'PathRecord dump:'; exit 0; fi\ndone; done\n" },
		{ "racksh-ib-pkeys", "#!/bin/sh\n[ \"$1\" != --form ] || exec echo 1\necho \"$1 1\"\n[ -z \"$NO_READER\" ] || { printf 'fail no InfiniBand\\n%s end 0\\n' \"$1\"; exit; }\n"
				     "n=$1; shift\nif [ $# = 0 ]; then set -- \"$FAKE\"/reader/*; else for g; do shift; set -- \"$@\" \"$FAKE/reader/0x${g%:*}\"; done; fi\n"
				     "cat \"$@\"\necho \"$n end $#\"\n" },
		{ "ibnetdiscover", "#!/bin/sh\ncat \"$FAKE/net\"\n" },
		{ "sminfo", "#!/bin/sh\necho 'sminfo: sm lid 1 sm guid 0x5000e60300aa0001, activity count 3060 priority 0 state 3 SMINFO_MASTER'\n" },
		{ "ibstat", "#!/bin/sh\ncat \"$HOSTDIR/ports\"\n" },
		{ "pkill", "#!/bin/sh\n[ -z \"$NO_OPENSM\" ] || exit 1\ntouch \"$HOSTDIR/hup\"\n" },
		{ "perfquery", "#!/bin/sh\nfor g; do :; done\ntest -f \"$FAKE/tables/$g\" || { echo 'perfquery: iberror: failed'; exit 1; }\n"
			       "echo 'PortXmitData:....................'$(($(cat \"$FAKE/count\" 2>/dev/null || echo 0) + 5))\n[ \"$1\" = -x ] || echo 'SymbolErrorCounter:..............3'\n" },
	};
	char *folder RK_CLEANUP_FREE = path_of(f, host, "bin");

	assert_int_equal(rk_mkdirs(folder, NULL), 0);
	for (size_t i = 0; i < RK_ARRAY_SIZE(scripts); i++) {
		char *name RK_CLEANUP_FREE = rk_xasprintf("bin/%s", scripts[i][0]);
		put(f, host, name, scripts[i][1], 0755);
	}
	put(f, host, "ports", strcmp(host, "sm1") == 0 ? "0x5000e60300aa0001\n" : "0x5000e60300aa0002\n", 0644);
	put(f, host, "partitions.conf", standard, 0640);
}

static void child(const struct fake *f, const char *host, const char *const *argv, int in, int out, int err, bool writes)
{
	char *folder = rk_xasprintf("%s/%s", f->folder, host), *path = rk_xasprintf("%s/bin:%s", folder, getenv("PATH"));

	dup2(in, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
	setenv("PATH", path, 1);
	setenv("FAKE", f->folder, 1);
	setenv("HOSTDIR", folder, 1);
	if (f->slow)
		setenv("NO_READER", "1", 1);
	if (f->fault == NO_OPENSM)
		setenv("NO_OPENSM", "1", 1);
	if (f->fault == DISK_FULL && writes) {
		signal(SIGXFSZ, SIG_IGN);
		setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 100, 100 });
	}
	scratch_default_signals();
	if (chdir(folder) == 0)
		execvp(argv[0], (char *const *)argv);
	_exit(127);
}

/* A HUP that came is obeyed before anything else is answered. */
static void obey(struct fake *f)
{
	char *hup RK_CLEANUP_FREE = path_of(f, "sm1", "hup");

	if (unlink(hup) == 0 && f->fault != HUP_LOST)
		sweep(f);
	else if (f->comes_up && --f->comes_up == 0)
		put_table(f, ib_guid(&f->bench, PORTS - 1), (const uint16_t[]){ 0x7fff }, 1);
}

static int run(void *ctx, const char *target, const char *const *argv, const char *input, size_t input_len, struct rk_ssh_result *result, struct rk_err *err)
{
	struct fake *f = ctx;
	const char *host = strchr(target, '@') ? strchr(target, '@') + 1 : target;
	bool writes = argv[1] && argv[2] && strstr(argv[2], "racksh-partitions"), hit;
	int in = scratch_open(f->folder), out = scratch_open(f->folder), errors = scratch_open(f->folder), status = 0;

	assert_true(in >= 0 && out >= 0 && errors >= 0);
	obey(f);
	f->commands++;
	f->writes += writes;
	hit = writes && (!f->nth || f->nth == f->writes);
	if (f->fault == EDITED && hit) {
		char *text RK_CLEANUP_FREE = content(f, host, "partitions.conf"), *more RK_CLEANUP_FREE = rk_xasprintf("%s# edited\n", text);
		put(f, "sm1", "partitions.conf", more, 0640);
	}
	if (f->fault == LOST_BEFORE && hit)
		return rk_err_set(err, RK_UNREACHABLE, "the connection broke");
	if (input && write(in, input, input_len) != (ssize_t)input_len)
		fail_msg("scratch file");
	lseek(in, 0, SEEK_SET);
	pid_t pid = fork();
	if (pid == 0)
		child(f, host, argv, in, out, errors, hit);
	close(in);
	waitpid(pid, &status, 0);
	scratch_take(out, &result->out);
	scratch_take(errors, &result->err);
	result->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	if (f->fault == LOST_AFTER && hit)
		return rk_err_set(err, RK_UNREACHABLE, "the connection broke");
	return 0;
}

/* ---- benches -------------------------------------------------------------------------------------------------------------------------- */

static void put_net(const struct fake *f, int without)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	rk_str_add(&text, "vendid=0x2c9\ndevid=0xd2f4\nsysimgguid=0x5000e604000a0000\nswitchguid=0x5000e604000a0000(5000e604000a0000)\n"
			  "Switch\t144 \"S-5000e604000a0000\"\t\t# \"leaf\" enhanced port 0 lid 2 lmc 0\n");
	for (int i = 0; i < PORTS; i++)
		if (i != without)
			rk_str_addf(&text, "[%d]\t\"H-%016" PRIx64 "\"[1](%" PRIx64 ") \t\t# \"tray mlx5_%d\" lid %d 4xHDR\n", i + 1, ib_guid(&f->bench, i) - 1,
				    ib_guid(&f->bench, i), i % 4, i + 3);
	for (int i = 0; i < PORTS; i++)
		if (i != without)
			rk_str_addf(&text, "\nvendid=0x2c9\ndevid=0x1023\nsysimgguid=0x%" PRIx64 "\ncaguid=0x%" PRIx64 "\nCa\t1 \"H-%016" PRIx64 "\"\t\t# \"tray mlx5_%d\"\n"
				    "[1](%" PRIx64 ") \t\"S-5000e604000a0000\"[%d]\t\t# lid %d lmc 0 \"leaf\" lid 2 4xHDR\n", ib_guid(&f->bench, i) - 1,
				    ib_guid(&f->bench, i) - 1, ib_guid(&f->bench, i) - 1, i % 4, ib_guid(&f->bench, i), i + 1, i + 3);
	put(f, ".", "net", rk_str_text(&text), 0644);
}

static struct fake *make(const char *managers)
{
	struct fake *f = rk_xcalloc(1, sizeof(*f));
	char *infiniband RK_CLEANUP_FREE = rk_xasprintf("\"driver\":\"opensm\",\"ssh\":\"%s\",\"partitionsFile\":\"partitions.conf\",\"rateGbps\":800", managers);
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	snprintf(f->folder, sizeof(f->folder), "/tmp/racksh-opensm.XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	f->site = fabric_site("\"driver\":\"nvos\",\"ssh\":\"admin@sw\"", infiniband);
	f->bench.site = f->site;
	f->bench.clock = rk_clock_virtual(0);
	char *tables RK_CLEANUP_FREE = path_of(f, ".", "tables");
	char *reader RK_CLEANUP_FREE = path_of(f, ".", "reader");
	assert_int_equal(rk_mkdirs(tables, NULL), 0);
	assert_int_equal(rk_mkdirs(reader, NULL), 0);
	tools(f, "sm1");
	tools(f, "sm2");
	put_net(f, -1);
	sweep(f);
	f->remote = (struct rk_remote){ run, f };
	f->env = (struct rk_driver_env){ .site = f->site, .clock = f->bench.clock, .remote = &f->remote };
	if (rk_ib_open(&f->env, &f->bench.ib, &err) != 0)
		fail_msg("%s", err.message);
	return f;
}

static int start(void **state)
{
	*state = make("root@sm1");
	return 0;
}

static int start_slow(void **state)
{
	struct fake *f = make("root@sm1");

	f->slow = true;
	*state = f;
	return 0;
}

static int start_two(void **state)
{
	*state = make("root@sm[1-2]");
	return 0;
}

static int stop(void **state)
{
	struct fake *f = *state;
	pid_t pid = fork();

	if (pid == 0) {
		execlp("rm", "rm", "-rf", f->folder, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
	f->bench.ib->ops->free(f->bench.ib);
	rk_clock_free(f->bench.clock);
	rk_site_free(f->site);
	free(f);
	return 0;
}

static bool fabric_open(const struct fake *f)
{
	for (int i = 0; i < PORTS; i++)
		if (ib_word_now(&f->bench, i, RK_PKEY_DEFAULT) != 0x7fff)
			return true;
	return false;
}

/* ---- the file --------------------------------------------------------------------------------------------------------------------------- */

static void foreign_definitions_stay_byte_for_byte(void **state)
{
	struct fake *f = *state;
	char *before RK_CLEANUP_FREE = content(f, "sm1", "partitions.conf"), *path RK_CLEANUP_FREE = path_of(f, "sm1", "partitions.conf");
	struct stat st;

	IB_RC(0, ib_set(&f->bench, 0x100, "ta", 0, 4, true, error));
	IB_RC(0, ib_set(&f->bench, 0x101, "tb", 4, 4, false, error));
	char *with RK_CLEANUP_FREE = content(f, "sm1", "partitions.conf");
	assert_true(rk_starts_with(with, before));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	IB_RC(0, ib_set(&f->bench, 0x100, "ta", 0, 0, true, error));
	IB_RC(0, ib_set(&f->bench, 0x101, "tb", 4, 0, true, error));
	char *after RK_CLEANUP_FREE = content(f, "sm1", "partitions.conf");
	assert_true(rk_starts_with(after, before));
	/* Nothing but the section's two marker lines is left behind. */
	assert_null(strstr(after, "0x0100"));
}

/* Index 0 is the tenant's own key's, where collective libraries look; whatever else is written later. */
static void a_shared_key_is_not_at_index_0(void **state)
{
	struct fake *f = *state;
	const struct rk_ib_member members[] = { { ib_guid(&f->bench, 0), true }, { ib_guid(&f->bench, 1), false } };

	IB_RC(0, f->bench.ib->ops->set(f->bench.ib, 0, &(struct rk_ib_wanted){ 0x110, "storage", members, 2, true }, error));
	IB_RC(0, ib_set(&f->bench, 0x100, "ta", 1, 1, true, error));
	char *text RK_CLEANUP_FREE = content(f, "sm1", "partitions.conf");
	assert_non_null(strstr(text, "\nstorage=0x0110, defmember=full : 0x"));
	assert_non_null(strstr(text, "\nstorage=0x0110, defmember=limited : 0x"));
	assert_non_null(strstr(text, "\nta=0x0100, indx0, defmember=full : 0x"));
}

/* What somebody else did to the file, and what racksh makes of it: refused, and not a byte is touched. */
static const struct {
	const char *text;
	int class;
	const char *says;
} broken[] = {
	{ "Default=0x7fff : ALL=limited, SELF=full ;\ngarbage\n", RK_UNHEALTHY, "no definition" },
	{ "Default=0x7fff : ALL=limited, SELF=full ;\r\n", RK_UNHEALTHY, "carriage return" },
	{ "", RK_UNHEALTHY, "no definition in the file" },
	{ "# all comments\n", RK_UNHEALTHY, "no definition in the file" },
	{ "Default=0x7fff : ALL=limited, SELF=full ;\n;\n", RK_UNHEALTHY, "nothing before it" },
	{ "Default=0x7fff : ALL=limited, SELF=full ;\nx=0x10 : 0x12g4 ;\n", RK_UNHEALTHY, "no port GUID" },
	{ "Default=0x7fff : ALL=limited, SELF=full ;\nx=0x10 : 0x1234\ny=0x11 : 0x1235 ;\n", RK_UNHEALTHY, "no ';'" },
	{ "Default=0x7fff : ALL=limited, SELF=full ;\nx=0x10 : 0x1234 ;\ny=0x8010 : 0x1235 ;\n", RK_UNHEALTHY, "0x8010" },
	{ "Default=0x7fff : ALL=limited, SELF=full ;\nx : 0x1234 ;\n", RK_UNHEALTHY, "no key is given" },
	{ "Default=0x7fff : ALL=limited, SELF=full ;\nx=0x10 : A ;\n", RK_UNHEALTHY, "misread as \"ALL\"" },
	{ "Default=0x7fff : SELF=full, ALL=limited ;\n", RK_UNHEALTHY, "demote" },
	{ "Default=0x7fff : ALL=full ;\n", RK_UNHEALTHY, "ALL=limited before SELF=full" },
	{ "Default=0x7fff : ALL=limited, SELF=full ;\nother=0x0100 : 0x1234 ;\n", RK_CONFLICT, "outside the section managed by racksh" },
	{ "Default=0x7fff : ALL=limited, SELF=full ;\n# BEGIN racksh managed 1 sha256=0\nx=0x10 : 0x1234 ;\n# END racksh managed\n", RK_UNHEALTHY, "checksum" },
	{ "Default=0x7fff : ALL=limited, SELF=full ;\n# END racksh managed\n", RK_UNHEALTHY, "doubled or incomplete" },
};

static bool told(const struct rk_err *err, const char *words)
{
	bool found = err->message && strstr(err->message, words);

	for (size_t i = 0; i < err->n_details; i++)
		found |= strstr(err->details[i], words) != NULL;
	return found;
}

static void a_file_that_is_not_safe_to_change_is_left_alone(void **state)
{
	struct fake *f = *state;

	for (size_t i = 0; i < RK_ARRAY_SIZE(broken); i++) {
		struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
		put(f, "sm1", "partitions.conf", broken[i].text, 0640);
		int rc = ib_set(&f->bench, 0x100, "ta", 0, 4, true, &err);
		if (rc != broken[i].class || !told(&err, broken[i].says))
			fail_msg("%s: %d: %s", broken[i].text, rc, err.message ? err.message : "no error");
		char *after RK_CLEANUP_FREE = content(f, "sm1", "partitions.conf");
		assert_string_equal(after, broken[i].text);
	}
	assert_int_equal(f->writes, 0);
}

static void lines_near_the_limit_are_not_touched_and_ours_stay_short(void **state)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	struct fake *f = *state;

	rk_str_addf(&text, "%s# %04050d\n", standard, 0);
	put(f, "sm1", "partitions.conf", rk_str_text(&text), 0640);
	IB_RC(RK_UNHEALTHY, ib_set(&f->bench, 0x100, "ta", 0, 4, true, error));
	put(f, "sm1", "partitions.conf", standard, 0640);
	struct rk_ib_member *many RK_CLEANUP_FREE = rk_xcalloc(MANY, sizeof(*many));
	for (size_t i = 0; i < MANY; i++)
		many[i] = (struct rk_ib_member){ 0x5000e60300bb0000u + i, true };
	IB_RC(0, f->bench.ib->ops->set(f->bench.ib, 0, &(struct rk_ib_wanted){ 0x100, "ta", many, MANY, false }, error));
	char *after RK_CLEANUP_FREE = content(f, "sm1", "partitions.conf");
	for (const char *line = after; *line; line += strcspn(line, "\n"), line += *line == '\n')
		assert_true(strcspn(line, "\n") < 4000);
}

static void more_keys_than_a_port_has_room_for_are_refused(void **state)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	struct fake *f = *state;

	rk_str_add(&text, standard);
	for (int i = 0; i < 63; i++)
		rk_str_addf(&text, "k%d=0x%04x : 0x%016" PRIx64 " ;\n", i, 0x400 + i, ib_guid(&f->bench, 0));
	put(f, "sm1", "partitions.conf", rk_str_text(&text), 0640);
	IB_RC(RK_UNHEALTHY, ib_set(&f->bench, 0x100, "ta", 0, 4, true, error));
	IB_RC(0, ib_set(&f->bench, 0x100, "ta", 1, 3, true, error));
}

/* ---- what goes wrong on the way ------------------------------------------------------------------------------------------------------------ */

static const struct {
	enum fault fault;
	int nth, class;
	bool kept;                 /* the new file is in place afterwards */
	const char *says;
} mishaps[] = {
	{ HUP_LOST, 0, RK_FAILED, false, "the former partitions file is in place again" },
	{ NO_OPENSM, 0, RK_UNREACHABLE, true, "could not be told to read it" },
	{ DISK_FULL, 0, RK_FAILED, false, "could not be written" },
	{ LOST_BEFORE, 0, RK_UNREACHABLE, false, "the connection broke" },
	{ LOST_AFTER, 0, RK_UNREACHABLE, true, "the connection broke" },
	{ OPENS, 0, RK_UNREACHABLE, false, "the fabric is open" },
	{ EDITED, 1, 0, true, NULL },
	{ EDITED, 0, RK_CONFLICT, false, "keeps changing" },
};

static void every_mishap_leaves_a_whole_file_and_is_told(void **state)
{
	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(mishaps); i++) {
		struct rk_err err = RK_ERR_INIT;
		struct fake *f = make("root@sm1");
		f->fault = mishaps[i].fault;
		f->nth = mishaps[i].nth;
		int rc = ib_set(&f->bench, 0x100, "ta", 0, 4, true, &err);
		if (rc != mishaps[i].class || (mishaps[i].says && !told(&err, mishaps[i].says)))
			fail_msg("fault %d: %d: %s", (int)mishaps[i].fault, rc, err.message ? err.message : "no error");
		char *after RK_CLEANUP_FREE = content(f, "sm1", "partitions.conf");
		assert_true(rk_starts_with(after, standard));
		assert_int_equal(strstr(after, "ta=0x0100") != NULL, mishaps[i].kept);
		/* A second try, with everything well, comes to its end. */
		f->fault = NONE;
		sweep(f);
		IB_RC(0, ib_set(&f->bench, 0x100, "ta", 0, 4, true, error));
		assert_false(fabric_open(f));
		ib_word(&f->bench, 0, 0x100, 0x8100);
		rk_err_clear(&err);
		stop((void **)&f);
	}
}

/* What a full disk kept from being written needs no room to be undone. */
static void taking_back_what_was_not_written_works_on_a_full_disk(void **state)
{
	struct fake *f = *state;

	f->fault = DISK_FULL;
	IB_RC(RK_FAILED, ib_set(&f->bench, 0x100, "ta", 0, 4, true, error));
	IB_RC(0, ib_set(&f->bench, 0x100, "ta", 0, 0, true, error));
	assert_int_equal(ib_members(&f->bench, 0x100), -1);
}

/* Whatever ends the script on the host: nothing of ours is left there, and the file is as it was. */
static void a_write_that_is_ended_on_the_host_leaves_nothing(void **state)
{
	static const char *const signals[] = { "HUP", "INT", "TERM", "PIPE" };
	struct fake *f = *state;
	char *pattern RK_CLEANUP_FREE = path_of(f, "sm1", ".racksh-partitions.*");

	for (size_t i = 0; i < RK_ARRAY_SIZE(signals); i++) {
		char *deadly RK_CLEANUP_FREE = rk_xasprintf("#!/bin/sh\nkill -%s $PPID\n", signals[i]);
		glob_t left = { 0 };
		put(f, "sm1", "bin/flock", deadly, 0755);
		IB_RC(RK_UNREACHABLE, ib_set(&f->bench, 0x100, "ta", 0, 4, true, error));
		assert_int_equal(glob(pattern, 0, NULL, &left), GLOB_NOMATCH);
		globfree(&left);
		char *after RK_CLEANUP_FREE = content(f, "sm1", "partitions.conf");
		assert_string_equal(after, standard);
	}
}

static void an_opened_fabric_is_closed_again(void **state)
{
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct fake *f = *state;

	/* This OpenSM chokes on a name of ours, and on nothing else. */
	f->fault = OPENS;
	f->nth = 0;
	assert_int_equal(ib_set(&f->bench, 0x100, "ta", 0, 4, true, &err), RK_UNREACHABLE);
	assert_true(f->sweeps >= 3);
	f->fault = NONE;
	sweep(f);
	assert_false(fabric_open(f));
}

/* ---- several managers ------------------------------------------------------------------------------------------------------------------------ */

static void all_managers_get_equal_bytes_and_only_the_master_is_told(void **state)
{
	struct fake *f = *state;
	char *hup RK_CLEANUP_FREE = path_of(f, "sm2", "hup");

	IB_RC(0, ib_set(&f->bench, 0x100, "ta", 0, 4, true, error));
	char *a RK_CLEANUP_FREE = content(f, "sm1", "partitions.conf"), *b RK_CLEANUP_FREE = content(f, "sm2", "partitions.conf");
	assert_string_equal(a, b);
	assert_int_not_equal(access(hup, F_OK), 0);
	/* A standby one that missed a change catches up with the next. */
	put(f, "sm2", "partitions.conf", standard, 0640);
	IB_RC(0, ib_set(&f->bench, 0x101, "tb", 4, 4, true, error));
	char *c RK_CLEANUP_FREE = content(f, "sm1", "partitions.conf"), *d RK_CLEANUP_FREE = content(f, "sm2", "partitions.conf");
	assert_string_equal(c, d);
	assert_non_null(strstr(d, "\nta=0x0100, indx0, defmember=full : 0x"));
}

static void a_standby_manager_with_other_foreign_definitions_stops_the_change(void **state)
{
	struct fake *f = *state;

	put(f, "sm2", "partitions.conf", "Default=0x7fff : ALL=limited, SELF=full ;\n", 0640);
	IB_RC(RK_CONFLICT, ib_set(&f->bench, 0x100, "ta", 0, 4, true, error));
	assert_int_equal(f->writes, 0);
}

static void a_standby_that_was_written_is_taken_back_when_the_master_fails(void **state)
{
	struct fake *f = *state;

	f->fault = DISK_FULL;
	f->nth = 2;
	IB_RC(RK_FAILED, ib_set(&f->bench, 0x100, "ta", 0, 4, true, error));
	char *b RK_CLEANUP_FREE = content(f, "sm2", "partitions.conf");
	assert_null(strstr(b, "0x0100"));
}

/* ---- ports --------------------------------------------------------------------------------------------------------------------------------- */

static void a_port_without_a_link_is_down_and_a_silent_one_unknown(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct fake *f = *state;
	uint64_t guids[3] = { ib_guid(&f->bench, 0), ib_guid(&f->bench, 1), ib_guid(&f->bench, 2) };
	struct rk_ib_port ports[3];

	put_net(f, 1);
	for (int i = 1; i < 3; i++) {
		char *table RK_CLEANUP_FREE = rk_xasprintf("%s/tables/0x%016" PRIx64, f->folder, guids[i]);
		unlink(table);
	}
	IB_RC(0, f->bench.ib->ops->tables(f->bench.ib, 0, guids, 3, arena, ports, error));
	assert_true(ports[0].known);
	assert_true(ports[1].down);
	assert_false(ports[2].known);
	assert_false(ports[2].down);
	/* A port that is not there stops no change; it gets its key when it comes. */
	IB_RC(0, ib_set(&f->bench, 0x100, "ta", 0, 2, true, error));
}

/* A port comes up with 0xffff and keeps that until the manager has been there: that is not what our file does. */
static void a_free_tray_that_comes_up_meanwhile_stops_no_change(void **state)
{
	struct fake *f = *state;
	char *table RK_CLEANUP_FREE = rk_xasprintf("%s/reader/0x%016" PRIx64, f->folder, ib_guid(&f->bench, PORTS - 1));

	f->fault = REBOOTS;
	f->comes_up = 6;
	unlink(table);
	IB_RC(0, ib_set(&f->bench, 0x100, "ta", 0, 4, true, error));
	assert_int_equal(f->comes_up, 0);
	ib_word(&f->bench, 0, 0x100, 0x8100);
	/* One that stays open is not fine, though. */
	unlink(table);
	IB_RC(RK_FAILED, ib_set(&f->bench, 0x101, "tb", 4, 2, true, error));
	assert_int_equal(ib_members(&f->bench, 0x101), -1);
}

static void tools_too_old_for_the_fabric_are_named(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct fake *f = *state;
	uint64_t guid = ib_guid(&f->bench, 0);
	struct rk_ib_port port;

	put(f, "sm1", "bin/smpquery", "#!/bin/sh\n[ \"$1\" != --version ] || { echo 'smpquery BUILD VERSION: 44.0'; exit 0; }\necho 'failed: bad status'; exit 1\n", 0755);
	IB_RC(0, f->bench.ib->ops->tables(f->bench.ib, 0, &guid, 1, arena, &port, error));
	assert_false(port.known);
	assert_non_null(strstr(port.why, "infiniband-diags 44 on the manager's host is too old for XDR"));
	/* The other tools fail no less. */
	struct rk_ib_reading reading;
	const char *text;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	put(f, "sm1", "bin/perfquery", "#!/bin/sh\necho 'perfquery: iberror: failed: cannot resolve'; exit 1\n", 0755);
	put(f, "sm1", "bin/ibnetdiscover", "#!/bin/sh\necho 'bad status 110' >&2\nexit 1\n", 0755);
	IB_RC(0, f->bench.ib->ops->counters(f->bench.ib, 0, &guid, 1, arena, &reading, error));
	assert_false(reading.known);
	assert_non_null(strstr(reading.why, "infiniband-diags 44 on the manager's host is too old for XDR"));
	assert_int_equal(f->bench.ib->ops->discover(f->bench.ib, 0, arena, &text, &err), RK_UNREACHABLE);
	assert_non_null(strstr(err.message, "infiniband-diags 44 on the manager's host is too old for XDR"));
}

/* No path to a port that is not there proves nothing, whoever looks for it. */
static void no_path_to_a_port_that_is_not_there_is_unknown(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct fake *f = *state;

	for (int slow = 0; slow < 2; slow++) {
		struct rk_ib_path paths[2] = { { .from = ib_guid(&f->bench, 0), .to = ib_guid(&f->bench, 4) }, { .from = ib_guid(&f->bench, 0), .to = 0x4711 } };
		f->slow = slow;
		IB_RC(0, f->bench.ib->ops->paths(f->bench.ib, 0, paths, 2, arena, error));
		assert_int_equal(paths[0].seen, RK_PATH_NONE);
		assert_int_equal(paths[1].seen, RK_PATH_UNKNOWN);
		assert_non_null(strstr(paths[1].why, "0x0000000000004711"));
	}
}

static void counters_are_read_wide_where_there_are_wide_ones(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct fake *f = *state;
	uint64_t guid = ib_guid(&f->bench, 0);
	struct rk_ib_reading reading;

	IB_RC(0, f->bench.ib->ops->counters(f->bench.ib, 0, &guid, 1, arena, &reading, error));
	assert_true(reading.known);
	assert_true(reading.have[0] && !reading.narrow[0] && reading.value[0] == 5);
	assert_true(reading.have[4] && reading.narrow[4] && reading.value[4] == 3);
	/* A port without wide ones. */
	put(f, "sm1", "bin/perfquery", "#!/bin/sh\n[ \"$1\" != -x ] || { echo 'perfquery: iberror: failed: perfextquery'; exit 1; }\necho 'PortXmitWait:....................7'\n", 0755);
	IB_RC(0, f->bench.ib->ops->counters(f->bench.ib, 0, &guid, 1, arena, &reading, error));
	assert_true(reading.known && reading.have[16] && reading.narrow[16] && reading.value[16] == 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IB_CONTRACT(start, stop),
		IB_CONTRACT(start_slow, stop),
		cmocka_unit_test_setup_teardown(foreign_definitions_stay_byte_for_byte, start, stop),
		cmocka_unit_test_setup_teardown(a_shared_key_is_not_at_index_0, start, stop),
		cmocka_unit_test_setup_teardown(a_file_that_is_not_safe_to_change_is_left_alone, start, stop),
		cmocka_unit_test_setup_teardown(lines_near_the_limit_are_not_touched_and_ours_stay_short, start, stop),
		cmocka_unit_test_setup_teardown(more_keys_than_a_port_has_room_for_are_refused, start, stop),
		cmocka_unit_test(every_mishap_leaves_a_whole_file_and_is_told),
		cmocka_unit_test_setup_teardown(taking_back_what_was_not_written_works_on_a_full_disk, start, stop),
		cmocka_unit_test_setup_teardown(a_write_that_is_ended_on_the_host_leaves_nothing, start, stop),
		cmocka_unit_test_setup_teardown(an_opened_fabric_is_closed_again, start, stop),
		cmocka_unit_test_setup_teardown(all_managers_get_equal_bytes_and_only_the_master_is_told, start_two, stop),
		cmocka_unit_test_setup_teardown(a_standby_manager_with_other_foreign_definitions_stops_the_change, start_two, stop),
		cmocka_unit_test_setup_teardown(a_standby_that_was_written_is_taken_back_when_the_master_fails, start_two, stop),
		cmocka_unit_test_setup_teardown(a_port_without_a_link_is_down_and_a_silent_one_unknown, start_slow, stop),
		cmocka_unit_test_setup_teardown(a_free_tray_that_comes_up_meanwhile_stops_no_change, start, stop),
		cmocka_unit_test_setup_teardown(tools_too_old_for_the_fabric_are_named, start_slow, stop),
		cmocka_unit_test_setup_teardown(no_path_to_a_port_that_is_not_there_is_unknown, start, stop),
		cmocka_unit_test_setup_teardown(counters_are_read_wide_where_there_are_wide_ones, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
