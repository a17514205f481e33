/* Answers that end too early, at any place and whatever the status says: what is read from them is what the whole answer says, or it is absent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "inventory/base/str.h"
#include "provision/health/parse.h"

#define HEALTHY "tests/evidence/healthy"
#define SAMPLES "../shared/samples"

/* What may be lower in the beginning of an answer than in all of it. */
static const struct {
	const char *collector, *prefix, *status, *why; /* status NULL: any */
} lower[] = {
	{ "nvlink-status", "nvlink.gpus", "0", "a list without an end mark" },
	{ "ibstat", "ib.ports", "0", "a list without an end mark" },
	{ "ibv-devinfo", "ib.ports", "0", "a list without an end mark" },
	{ "ib-pkeys", "ib.pkey.ports", "0", "a list without an end mark" },
	{ "ib-pkeys", "ib.pkey.default", "0", "a table that is the first one tells nobody how long tables are" },
	{ "storage", "nvme.drives", "0", "a list without an end mark" },
	{ "ib-driver", "ib.drv", "0", "a list without an end mark" },
	{ "imex-config", "imex.list.", "0", "a file, whose last line needs no end" },
	{ "dmesg-xid", "xid.", NULL, "what had happened until then" },
	{ "dmesg-xid", "kernel.", NULL, "what had happened until then" },
	{ "dmesg-xid", "mlx5.", NULL, "what had happened until then" },
	{ "nvbandwidth", "nvbw.error", NULL, "an error with less of its reason" },
};

static bool may_be_lower(const struct rk_evidence *e, const char *metric)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(lower); i++) {
		if (strcmp(lower[i].collector, e->collector) == 0 && rk_starts_with(metric, lower[i].prefix) && (!lower[i].status || rk_status_is(e, lower[i].status)))
			return true;
	}
	return false;
}

static bool same(const struct rk_metric *a, const struct rk_metric *b)
{
	return b && a->type == b->type && (a->type == RK_METRIC_NUMBER ? !(a->number < b->number || a->number > b->number) : strcmp(a->text, b->text) == 0);
}

static void check_cut(const char *what, const struct rk_evidence *e, const struct rk_metrics *full)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_metrics m = { .arena = arena };

	rk_collector_find(e->collector)->parse(e, &m);
	for (size_t i = 0; i < m.n; i++) {
		const struct rk_metric *x = &m.items[i], *whole = rk_metric_find(full, x->name, x->label);
		if (x->type == RK_METRIC_ABSENT || same(x, whole) || may_be_lower(e, x->name))
			continue;
		fail_msg("%s cut at %zu, status %s: %s{%s} is %g %s", what, e->out_len, e->status, x->name, x->label, x->number, x->text ? x->text : "");
	}
}

/* Cut before and behind the end of every line, and at some places between. */
static void check_answer(const char *what, const char *collector, const char *text, size_t len)
{
	static const char *const statuses[] = { "0", "signal:15" };
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_evidence e = { collector, text, len, "", 0, "0" };
	struct rk_metrics full = { .arena = arena };
	size_t step = 1 + len / 211;

	rk_collector_find(collector)->parse(&e, &full);
	for (size_t n = 0; n < len; n++) {
		bool line = text[n] == '\n' || (n && text[n - 1] == '\n') || n % step == 0;
		for (size_t s = 0; line && s < RK_ARRAY_SIZE(statuses); s++) {
			e.out_len = n;
			e.status = statuses[s];
			check_cut(what, &e, &full);
		}
	}
}

static bool check_file(const char *path, const char *collector)
{
	char *text RK_CLEANUP_FREE = NULL;
	size_t len;

	if (rk_file_read(path, 16 << 20, &text, &len, NULL))
		return false;
	check_answer(path, collector, text, len);
	return true;
}

static void the_beginning_of_a_healthy_answer_says_nothing_else(void **state)
{
	size_t n, done = 0;
	const struct rk_collector *all = rk_collectors(&n);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		char *path RK_CLEANUP_FREE = rk_xasprintf(HEALTHY "/%s.stdout", all[i].name);
		done += check_file(path, all[i].name);
	}
	assert_true(done >= 25);
}

/* Other forms of the same, healthy and faulty. */
static const struct {
	const char *collector, *out;
} forms[] = {
	{ "nvidia-smi-q", "Driver Version                            : 590.12.03\nAttached GPUs                             : 2\n"
			  "GPU 00000008:06:00.0\n    Product Name                          : NVIDIA GB300\n    GPU Recovery Action                   : None\n"
			  "    GPU Link Info\n        Link Width\n            Max                           : 16x\n            Current                       : 16x\n"
			  "    Remapped Rows\n        Pending                           : No\n        Remapping Failure Occurred        : No\n"
			  "    Fabric\n        State                             : Completed\n        Status                            : Success\n"
			  "        CliqueId                          : 1234\n        Health\n            Summary                       : Healthy\n            Bandwidth                     : Full\n"
			  "GPU 00000009:06:00.0\n    Product Name                          : NVIDIA GB300\n    GPU Recovery Action                   : Drain P2P\n"
			  "    GPU Link Info\n        Link Width\n            Max                           : 16x\n            Current                       : 16x\n"
			  "    Remapped Rows\n        Pending                           : No\n        Remapping Failure Occurred        : No\n"
			  "    Fabric\n        State                             : Completed\n        Status                            : Success\n"
			  "        CliqueId                          : 1234\n        Health\n            Summary                       : Healthy\n            Bandwidth                     : Full\n" },
	{ "imex-nodes-text", "Nodes:\nNode #0   - 10.0.0.1       - READY                - Version: 580.88.01\nNode #1   - 10.0.0.2       - UNAVAILABLE          - Version: 580.88.01\n\n"
			     " Nodes From\\To  0   1\n       0        C   !V!\n       1        N   C\n\nDomain State: DEGRADED\n" },
	{ "ib-pkeys", "   0: 0x7fff 0x8010 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000\n2 pkeys capacity for this port\n   0: 0x7fff 0x8010 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000\n" },
	{ "mlxlink", "Operational Info\n----------------\nState                              : Active\nPhysical state                     : LinkUp\nStatus Opcode                      : 1024\n"
		     "Symbol BER                         : 4E-12\nRaw Physical BER                   : 4E-10\n" },
	{ "dmesg-xid", "[   99.1] NVRM: Xid (PCI:0018:06:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 05 (0x004505c6 0x0)\n"
		       "[   99.4] NVRM: Xid (PCI:0018:06:00): 154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)\n" },
	{ "chrony", "C0000205,ntp1,3,1747037662.1,0.000012041,-0.0000088,0.00002,12.4,-0.002,0.041,0.0004,0.0007,64.4,Normal\n" },
	{ "services", "Id=nvidia-imex.service\nLoadState=loaded\nActiveState=activating\n\nId=nvidia-dcgm.service\nLoadState=not-found\nActiveState=inactive\n" },
	{ "storage", "Smart Log for NVME device:nvme0n1 namespace-id:ffffffff\ncritical_warning : 0x1\navailable_spare : 100%\npercentage_used : 12%\nmedia_errors : 0\n"
		     "Smart Log for NVME device:nvme1n1 namespace-id:ffffffff\ncritical_warning : 0x1\navailable_spare : 100%\npercentage_used : 12%\nmedia_errors : 0\n" },
	{ "topo", "\t\033[4mGPU0\tGPU1\tNIC0\tCPU Affinity\033[0m\nGPU0\t X \tNV18\tSYS\t0-71\nGPU1\tNV18\t X \tSYS\t0-71\nNIC0\tSYS\tSYS\t X \n" },
	{ "leak", "{\"Members\": [\n{\"Id\": \"a\", \"DetectorState\": \"OK\"},\n{\"Id\": \"b\", \"DetectorState\": \"OK\"}\n]}\n" },
	{ "ib-write-bw", "{\"test_info\": {\"Device\": \"mlx5_0\"},\n\"results\": {\"MsgSize\": 8388608,\n\"BW_average\": 752.31,\n\"MsgRate\": 0.011210}}\n" },
	{ "dcgm-diag", "+------+------+\n| Diagnostic | Result |\n+====+====+\n|-----  Deployment  --------+-----|\n| software | Pass |\n+-----  Hardware  ----+----+\n| memory | Fail |\n+-----+------+\n" },
	{ "nvlink-errors", "GPU 0: NVIDIA GB300 (UUID: GPU-0)\n\t Link 0: Link recovery failed events: 10\n\t Link 0: Total link recovery events: 312\n\t Link 1: Link recovery failed events: 0\n"
			   "\t Link 1: Total link recovery events: 40\nGPU 1: NVIDIA GB300 (UUID: GPU-1)\n\t Link 0: Link recovery failed events: 0\n\t Link 0: Total link recovery events: 40\n"
			   "\t Link 1: Link recovery failed events: 0\n\t Link 1: Total link recovery events: 40\n" },
	{ "numactl", "available: 2 nodes (0-1)\nnode 0 cpus: 0 1 2\nnode 0 size: 441002 MB\nnode 1 cpus: 3 4 5\nnode 1 size: 441002 MB\n" },
	{ "ib-driver", "0000:03:00.0 driver=mlx5_core ib=mlx5_0\n0002:03:00.0 driver=mlx5_core ib=\n" },
};

static void the_beginning_of_any_form_says_nothing_else(void **state)
{
	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(forms); i++)
		check_answer(forms[i].collector, forms[i].collector, forms[i].out, strlen(forms[i].out));
}

/* Rows "| file | collector | ..." of the index of the samples. */
static void the_beginning_of_a_sample_says_nothing_else(void **state)
{
	char *index RK_CLEANUP_FREE = NULL, *save = NULL;
	size_t len;

	(void)state;
	if (rk_file_read(SAMPLES "/INDEX.md", 1 << 20, &index, &len, NULL))
		skip();
	for (char *line = strtok_r(index, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char file[128], collector[64];
		if (sscanf(line, "| %127s | %63s |", file, collector) != 2 || !rk_collector_find(collector))
			continue;
		char *path RK_CLEANUP_FREE = rk_xasprintf(SAMPLES "/%s", file);
		if (!check_file(path, collector))
			print_message("note: %s is not here\n", path);
	}
}

/* What is not whole is not told as if it were all there is: one row per way in which a list can stop. */
static const struct {
	const char *collector, *status, *out, *metric, *label, *reason;
} stopped[] = {
	{ "ibstat", "signal:15", "CA 'mlx5_0'\n\tPort 1:\n\t\tState: Active\n\t\tLink layer: InfiniBand\n", "ib.ports", "", "killed by signal 15" },
	{ "ibstat", "timeout", "CA 'mlx5_0'\n\tPort 1:\n\t\tState: Active\n\t\tLink layer: InfiniBand\n", "ib.ports", "", "timed out" },
	{ "ibstat", "137", "CA 'mlx5_0'\n\tPort 1:\n\t\tState: Active\n\t\tLink layer: InfiniBand\n", "ib.ports", "", "killed by signal 9" },
	{ "nvlink-status", "timeout", "GPU 0: NVIDIA A100 (UUID: GPU-0)\n", "nvlink.active", "gpu=0", "truncated" },
	{ "storage", "0", "Smart Log for NVME device:nvme0n1\ncritical_warning : 0\nmedia_errors : 0\nSmart Log for NVME device:nvme1n1\ncritical_warning : 0\n", "nvme.drives", "", "truncated" },
	{ "storage", "0", "Smart Log for NVME device:nvme0n1\ncritical_warning : 0", "nvme.critical_warning", "drive=nvme0n1", "truncated" },
	{ "nvidia-smi-q", "0", "Attached GPUs : 2\nGPU 00000008:06:00.0\n    Remapped Rows\n        Pending : No\nGPU 00000009:06:00.0\n    Product Name : NVIDIA GB300\n", "gpu.remap.pending", "gpu=1", "truncated" },
	{ "nvlink-errors", "0", "GPU 0: x\n Link 0: Link recovery failed events: 0\n Link 1: Link recovery failed events: 0\nGPU 1: x\n Link 0: Link recovery failed events: 0\n", "nvlink.recovery_failed", "gpu=1", "truncated" },
	{ "nvlink-errors", "0", "GPU 0: x\n Link 0: Link recovery failed events: 0\nGPU 1: x\n", "nvlink.recovery_failed", "gpu=1", "truncated" },
	{ "ib-pkeys", "0", "/sys/class/infiniband/a/ports/1/pkeys/0:0x7fff\n/sys/class/infiniband/a/ports/1/pkeys/1:0x8001\n/sys/class/infiniband/b/ports/1/pkeys/0:0x7fff\n", "ib.pkey.port", "dev=b", "truncated" },
	{ "imex-nodes-text", "0", "Nodes:\nNode #0 - 10.0.0.1 - READY\nNode #1 - 10.0.0.2 - READY\n Nodes From\\To 0 1\n 0 C C\n", "imex.link", "", "truncated" },
	{ "dmesg-xid", "0", "[ 9.1] NVRM: Xid (PCI:0018:06:00): 14", "xid.fatal.list", "", "truncated" },
	{ "leak", "0", "{\"Members\": [{\"Id\": \"a\", \"DetectorState\": \"OK\"},", "leak.detectors", "", "truncated" },
	{ "dcgm-diag", "0", "+------+------+\n| Diagnostic | Result |\n+====+====+\n| software | Pass |\n", "dcgm.result", "", "truncated" },
};

static void a_list_that_stops_has_no_length(void **state)
{
	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(stopped); i++) {
		RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
		const struct rk_evidence e = { stopped[i].collector, stopped[i].out, strlen(stopped[i].out), "", 0, stopped[i].status };
		struct rk_metrics m = { .arena = arena };
		bool found = false;
		rk_collector_find(e.collector)->parse(&e, &m);
		for (size_t k = 0; k < m.n; k++) {
			const struct rk_metric *x = &m.items[k];
			found |= strcmp(x->name, stopped[i].metric) == 0 && strcmp(x->label, stopped[i].label) == 0 && x->type == RK_METRIC_ABSENT && strcmp(x->text, stopped[i].reason) == 0;
		}
		if (!found)
			fail_msg("row %zu (%s): %s{%s} is not absent because %s", i, e.collector, stopped[i].metric, stopped[i].label, stopped[i].reason);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_beginning_of_a_healthy_answer_says_nothing_else),
		cmocka_unit_test(the_beginning_of_any_form_says_nothing_else),
		cmocka_unit_test(the_beginning_of_a_sample_says_nothing_else),
		cmocka_unit_test(a_list_that_stops_has_no_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
