#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "inventory/base/str.h"
#include "provision/health/parse.h"
#include "tests/contract/profile_text.h"

/* What was not read is neither good nor bad: parsers say that a value is absent, and no check passes for the lack of it. */

static const struct {
	const char *collector, *status, *out, *metric, *label;
} absent[] = {
	{ "services", "0", "active\nunknown\n", "svc.nvidia-persistenced", "" },
	{ "services", "0", "Id=nvidia-imex.service\nLoadState=loaded\nActiveState=\n", "svc.nvidia-imex", "" },
	{ "storage", "1", "Smart Log for NVME device:nvme0n1 namespace-id:ffffffff\nSmart Log for NVME device:nvme1n1 namespace-id:ffffffff\ncritical_warning : 0\n", "nvme.critical_warning", "drive=nvme0n1" },
	{ "mlxlink", "1", "{\"status\":{\"code\":1,\"message\":\"no access\"}}\n", "mlxlink.state", "rail=0" },
	{ "imex-nodes-text", "0", "Nodes:\nNode #0 -\nDomain State: UP\n", "imex.node.state", "node=0" },
	{ "nvidia-smi-xml", "timeout", "<nvidia_smi_log><attached_gpus>4</attached_gpus><gpu id=\"0\"><fabric><state>Completed</state>", "gpu.lost", "gpu=0" },
	{ "nvidia-smi-q", "timeout", "Attached GPUs : 4\nGPU 00000008:06:00.0\n    Product Name : NVIDIA GB300\n", "gpu.lost", "gpu=0" },
	{ "leak", "0", "{\"Members\":[{\"Id\":\"a\",\"Status\":{\"State\":\"Disabled\"},\"DetectorState\":\"OK\"}]}", "leak.state", "detector=a" },
	{ "chrony", "1", "506 Cannot talk to daemon\n", "time.leap", "" },
};

static struct rk_metrics parsed(struct rk_arena *arena, const char *collector, const char *out, const char *status)
{
	const struct rk_evidence e = { collector, out, strlen(out), "", 0, status };
	struct rk_metrics m = { .arena = arena };

	rk_collector_find(collector)->parse(&e, &m);
	return m;
}

static void what_was_not_read_has_no_value(void **state)
{
	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(absent); i++) {
		RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
		struct rk_metrics m = parsed(arena, absent[i].collector, absent[i].out, absent[i].status);
		const struct rk_metric *found = rk_metric_find(&m, absent[i].metric, absent[i].label);
		if (!found || found->type != RK_METRIC_ABSENT)
			fail_msg("%s: %s %s: %s", absent[i].collector, absent[i].metric, absent[i].label, found ? "has a value" : "is not there");
	}
}

static void a_node_list_is_of_addresses_and_names_alone(void **state)
{
	static const struct {
		const char *out;
		int nodes; /* -1: why says why not */
		const char *why;
	} rows[] = {
		{ "10.0.0.1\n10.0.0.2\n", 2, NULL },
		{ "# written by a tool\r\n\r\n10.0.0.1  \r\n\tr07-t03\r\n10.0.0.2", 3, NULL },
		{ "fd00::1\nfe80::5054:ff:fe00:1\n::ffff:10.0.0.1\n", 3, NULL },
		{ "tray-a.example.com\nR07-T03\nnode_1\n7tray\n", 4, NULL },
		{ "10.0.0.1\n10.0.0.300\n", -1, "line 2 is neither an address nor a host name: \"10.0.0.300\"" },
		{ "10.0.0.1\n10.0.0\n", -1, "line 2" },
		{ "10.0.0.1\n10.0.0.2 # tray b\n", -1, "\"10.0.0.2 # tray b\"" },
		{ "*** Authorised use only ***\n10.0.0.1\n", -1, "line 1" },
		{ "\n10.0.0.1,10.0.0.2\n", -1, "line 2" },
		{ "10.0.0.1:50000\n", -1, "line 1" },
		{ "fd00::1::2\n", -1, "line 1" },
		{ "-tray\n", -1, "line 1" },
		{ "tray-\n", -1, "line 1" },
		{ "tray..a\n", -1, "line 1" },
		{ "<html>\n", -1, "\"<html>\"" },
		{ "tray\001a\n", -1, "\"tray\\x01a\"" },
		{ "# nobody\n", 0, "the list is empty" },
		{ "", 0, "the list is empty" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
		struct rk_metrics m = parsed(arena, "imex-config", rows[i].out, "0");
		const struct rk_metric *nodes = rk_metric_find(&m, "imex.list.nodes", ""), *hash = rk_metric_find(&m, "imex.list.hash", "");
		if (rows[i].nodes < 0 ? nodes->type != RK_METRIC_ABSENT : nodes->type != RK_METRIC_NUMBER || (int)nodes->number != rows[i].nodes)
			fail_msg("row %zu: %s, %g nodes", i, nodes->type == RK_METRIC_ABSENT ? nodes->text : "no reason", nodes->number);
		if (rows[i].why ? hash->type != RK_METRIC_ABSENT || !strstr(hash->text, rows[i].why) : hash->type != RK_METRIC_TEXT)
			fail_msg("row %zu: \"%s\"", i, hash->text);
	}
}

static void half_a_key_is_no_key(void **state)
{
	static const char keys[] = "/sys/class/infiniband/mlx5_0/ports/1/pkeys/0:0x7fff\n/sys/class/infiniband/mlx5_0/ports/1/pkeys/1:0x80";
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();

	(void)state;
	struct rk_metrics m = parsed(arena, "ib-pkeys", keys, "timeout");
	assert_non_null(rk_metric_find(&m, "ib.pkey.port", "dev=mlx5_0"));
	assert_null(rk_metric_find(&m, "ib.pkey", "dev=mlx5_0,index=1"));
}

/* An application that faults again and again fills the log; the GPU that is lost then counts all the same. */
static void a_fatal_event_behind_thousands_of_others_is_found(void **state)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_str log RK_CLEANUP_STR = RK_STR_INIT;

	(void)state;
	for (int i = 0; i < 5000; i++)
		rk_str_addf(&log, "[%d.0] NVRM: Xid (PCI:0008:06:00): 31, pid=%d, MMU fault\n", i, i);
	rk_str_add(&log, "[6000.0] NVRM: Xid (PCI:0018:06:00): 79, GPU has fallen off the bus.\n");
	struct rk_metrics m = parsed(arena, "dmesg-xid", rk_str_text(&log), "0");
	assert_true(rk_metric_find(&m, "xid.fatal", "")->number > 0);
	assert_non_null(strstr(rk_metric_find(&m, "xid.fatal.list", "")->text, "79"));
}

/* More than is read, of bytes or of values: what came could be seen, that there is nothing else could not. */
static void output_without_an_end_proves_nothing(void **state)
{
	static const char profile[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Profile\",\"name\":\"x\",\"levels\":{\"quick\":[\"dmesg-xid\",\"ib-pkeys\"]},\"rules\":{"
				      "\"xid\":{\"collector\":\"dmesg-xid\",\"metric\":\"xid.fatal.list\",\"value\":\"none\",\"message\":\"x\"},"
				      "\"ports\":{\"collector\":\"ib-pkeys\",\"metric\":\"ib.pkey.port\",\"value\":1,\"message\":\"x\"}}}";
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_hprofile *p RK_CLEANUP(rk_cleanup_hprofile) = profile_of(profile);
	struct rk_str log RK_CLEANUP_STR = RK_STR_INIT, keys RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_report r;

	(void)state;
	while (log.len <= RK_PARSE_MAX)
		rk_str_add(&log, "[ 1.0] a line as any other line of a kernel that talks much, and on and on and on it goes\n");
	for (int i = 0; i < 5000; i++)
		rk_str_addf(&keys, "/sys/class/infiniband/mlx5_%d/ports/1/pkeys/0:0x7fff\n", i);
	struct rk_evidence evidence[] = { { "dmesg-xid", rk_str_text(&log), log.len, "", 0, "0" }, { "ib-pkeys", rk_str_text(&keys), keys.len, "", 0, "0" } };
	const struct rk_target target = { .name = "a-01", .kind = "vm", .cluster = "a", .evidence = evidence, .n_evidence = 2 };
	assert_int_equal(rk_judge(p, "quick", &target, 1, arena, &r, NULL), 0);
	assert_string_equal(r.verdict, "unknown");
	for (size_t i = 0; i < r.n_checks; i++)
		if (strcmp(r.checks[i].id, "ssh") != 0 && strcmp(r.checks[i].verdict, "unknown") != 0)
			fail_msg("%s: %s", r.checks[i].id, r.checks[i].verdict);
}

/* The check "g" of one VM with this evidence. */
static struct rk_check judged(const struct rk_hprofile *p, struct rk_evidence *evidence, struct rk_arena *arena)
{
	const struct rk_target target = { .name = "a-01", .kind = "vm", .evidence = evidence, .n_evidence = 1 };
	struct rk_report r;
	size_t at = 0;

	assert_int_equal(rk_judge(p, "quick", &target, 1, arena, &r, NULL), 0);
	while (at < r.n_checks && strcmp(r.checks[at].id, "g") != 0)
		at++;
	assert_true(at < r.n_checks);
	return r.checks[at];
}

/* A tool that fails without a word has measured nothing; one that ends well without one has nothing to tell. */
static void a_probe_that_fails_in_silence_is_unknown(void **state)
{
	static const char profile[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Profile\",\"name\":\"x\",\"levels\":{\"quick\":[\"nvlink-errors\"]},\"rules\":{"
				      "\"g\":{\"collector\":\"nvlink-errors\",\"metric\":\"nvlink.recovery_failed\",\"value\":0,\"optional\":true,\"message\":\"x\"}}}";
	static const struct {
		const char *status, *verdict, *value;
	} rows[] = { { "0", "skipped", "not in the output" }, { "3", "unknown", "ended with 3 and said nothing" }, { "137", "unknown", "killed by signal 9" } };
	struct rk_hprofile *p RK_CLEANUP(rk_cleanup_hprofile) = profile_of(profile);

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
		struct rk_evidence evidence = { "nvlink-errors", "\n", 1, "", 0, rows[i].status };
		const struct rk_check check = judged(p, &evidence, arena);
		assert_string_equal(check.verdict, rows[i].verdict);
		assert_string_equal(check.value, rows[i].value);
	}
}

/* Ports come and go while a host boots: until the minute that the rule names, and no longer. */
static void boot_grace_ends_on_its_minute(void **state)
{
	static const char profile[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Profile\",\"name\":\"x\",\"levels\":{\"quick\":[\"ib-counters\"]},\"rules\":{"
				      "\"g\":{\"collector\":\"ib-counters\",\"metric\":\"ib.counter.link_downed\",\"compare\":\"delta\",\"value\":0,\"grace\":30,\"message\":\"x\"}}}";
	static const char counters[] = "# Port extended counters: Lid 7 port 1\nLinkDownedCounter:...............1\n# Port extended counters: Lid 7 port 1\nLinkDownedCounter:...............2\n";
	static const struct {
		const char *up, *verdict;
	} rows[] = { { "# Host up for 1799 s\n", "skipped" }, { "# Host up for 1800 s\n", "fail" }, { "", "fail" } };
	struct rk_hprofile *p RK_CLEANUP(rk_cleanup_hprofile) = profile_of(profile);

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
		const char *out = rk_arena_printf(arena, "%s%s", rows[i].up, counters);
		struct rk_evidence evidence = { "ib-counters", out, strlen(out), "", 0, "0" };
		assert_string_equal(judged(p, &evidence, arena).verdict, rows[i].verdict);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_not_read_has_no_value),
		cmocka_unit_test(a_node_list_is_of_addresses_and_names_alone),
		cmocka_unit_test(half_a_key_is_no_key),
		cmocka_unit_test(a_fatal_event_behind_thousands_of_others_is_found),
		cmocka_unit_test(output_without_an_end_proves_nothing),
		cmocka_unit_test(a_probe_that_fails_in_silence_is_unknown),
		cmocka_unit_test(boot_grace_ends_on_its_minute),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
