/* Every sample file of a collector gives the metrics its description promises, and the verdict an expert would give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "provision/health/health.h"

#define SAMPLES "../shared/samples/"

/* shown: a metric as "name{label}=value" ("!reason" for absent), or NULL. */
static const struct row {
	const char *file, *collector, *status, *verdict, *shown;
	bool on_stderr;
} rows[] = {
	{ "nvidia-smi/xml-gb300-healthy-4gpu.txt", "nvidia-smi-xml", "0", "pass", "gpu.fabric.guid{gpu=0}=0x4c7d3a90b2e11f01", false },
	{ "nvidia-smi/xml-gb300-healthy-4gpu.txt", "nvidia-smi-xml", "0", "pass", "gpu.fabric.partition_assigned{gpu=3}=!N/A", false },
	{ "nvidia-smi/xml-gpu-lost-2gpu.txt", "nvidia-smi-xml", "0", "fail", "gpu.remap.failure{gpu=1}=!GPU is lost", false },
	{ "nvidia-smi/xml-ecc-remap-failure-2gpu.txt", "nvidia-smi-xml", "0", "fail", "gpu.remap.failure{gpu=0}=Yes", false },
	{ "nvidia-smi/xml-h100-1gpu.txt", "nvidia-smi-xml", "0", "fail", "gpu.fabric.summary{gpu=0}=!N/A", false },
	{ "nvidia-smi/xml-l40s-1gpu.txt", "nvidia-smi-xml", "0", "fail", "gpu.fabric.state{gpu=0}=!N/A", false },
	{ "nvidia-smi/no-devices.txt", "nvidia-smi-xml", "6", "fail", "gpu.count{}=0", false },
	{ "nvidia-smi/driver-library-mismatch.txt", "nvidia-smi-xml", "18", "fail", "gpu.error{}=driver and library versions differ", false },
	{ "nvidia-smi/one-gpu-lost.txt", "nvidia-smi-xml", "15", "fail", "gpu.error{}=a GPU fell off the bus", false },
	{ "nvidia-smi/q-gb300-healthy-excerpt.txt", "nvidia-smi-q", "0", "pass", "gpu.fabric.clique{gpu=3}=32766", false },
	{ "nvidia-smi/q-gb200-insufficient-resources.txt", "nvidia-smi-q", "0", "fail", "gpu.fabric.status{gpu=0}=Insufficient Resources", false },
	{ "nvidia-smi/q-gb200-route-unhealthy.txt", "nvidia-smi-q", "0", "fail", "gpu.fabric.route_unhealthy{gpu=0}=True", false },
	{ "nvidia-smi/q-gb300-in-progress.txt", "nvidia-smi-q", "0", "fail", "gpu.fabric.clique{gpu=0}=!N/A", false },
	{ "nvidia-smi/q-l40s-595.txt", "nvidia-smi-q", "0", "fail", "gpu.pcie.width{gpu=0}=16", false },
	{ "nvidia-smi/q-rtx2080s-610.txt", "nvidia-smi-q", "0", "fail", "gpu.fabric.state{gpu=0}=!N/A", false },
	{ "nvidia-smi/nvlink-s-gb200-healthy.txt", "nvlink-status", "0", "pass", "nvlink.active{gpu=3}=18", false },
	{ "nvidia-smi/nvlink-s-gb300-2-inactive.txt", "nvlink-status", "0", "fail", "nvlink.active{gpu=2}=16", false },
	{ "nvidia-smi/nvlink-s-h100.txt", "nvlink-status", "0", "fail", "nvlink.min_gbs{gpu=0}=26.562", false },
	{ "nvidia-smi/nvlink-e-b300-healthy.txt", "nvlink-errors", "0", "pass", NULL, false },
	{ "nvidia-smi/nvlink-e-gb300-link-degrading.txt", "nvlink-errors", "0", "fail", "nvlink.recovery_total{gpu=2,link=1}=506", false },
	{ "nvidia-smi/topo-m-gb200.txt", "topo", "0", "pass", "topo.link{gpu=0,peer=3}=NV18", false },
	{ "nvidia-smi/topo-m-gpu3-nvlink-lost.txt", "topo", "0", "fail", "topo.link{gpu=2,peer=3}=NODE", false },
	{ "imex/ctl-N-json-up.txt", "imex-nodes", "0", "pass", "imex.domain{}=UP", false },
	{ "imex/ctl-N-json-degraded.txt", "imex-nodes", "0", "fail", "imex.domain{}=DEGRADED", false },
	{ "imex/ctl-not-configured.txt", "imex-nodes", "255", "unknown", "imex.configured{}=0", true },
	{ "imex/ctl-N-18node-up.txt", "imex-nodes-text", "0", "pass", "imex.nodes{}=18", false },
	{ "imex/ctl-N-18node-degraded.txt", "imex-nodes-text", "0", "fail", "imex.link{node=0,peer=1}=DISCONNECTED", false },
	{ "imex/ctl-N-4node-nodemap-mismatch.txt", "imex-nodes-text", "0", "fail", "imex.link{node=3,peer=0}=NODE_MAP_MISMATCH", false },
	{ "imex/nodes-config-odd.txt", "imex-config", "0", "unknown", "imex.list.nodes{}=4", false },
	{ "infiniband/ibstat-gb300-healthy.txt", "ibstat", "0", "pass", "ib.ports{}=4", false },
	{ "infiniband/ibstat-gb300-faults.txt", "ibstat", "0", "fail", "ib.state{dev=ibP2p3s0}=Initializing", false },
	{ "infiniband/ibstat-ibsim.txt", "ibstat", "0", "fail", "ib.rate{dev=ibsim0}=104", false },
	{ "infiniband/ibstat-no-devices.txt", "ibstat", "0", "fail", "ib.ports{}=0", false },
	{ "infiniband/ibv-devinfo-gb300-healthy.txt", "ibv-devinfo", "0", "pass", "ib.ports{}=4", false },
	{ "infiniband/ibv-devinfo-gb300-faults.txt", "ibv-devinfo", "0", "fail", "ib.state{dev=ibP16p3s0}=Down", false },
	{ "infiniband/ibv-devinfo-no-devices.txt", "ibv-devinfo", "255", "fail", "ib.ports{}=0", true },
	{ "infiniband/sysfs-pkeys-joined.txt", "ib-pkeys", "0", "pass", "ib.pkey{dev=ibp3s0,index=1}=0x8001", false },
	{ "infiniband/sysfs-pkeys-faults.txt", "ib-pkeys", "0", "fail", "ib.pkey.default{dev=ibp3s0}=full", false },
	{ "infiniband/smpquery-pkeys.txt", "ib-pkeys", "0", "fail", "ib.pkey{rail=0,index=1}=0x8010", false },
	{ "infiniband/perfquery-errors.txt", "ib-counters", "0", "unknown", "ib.counter.symbol{rail=0,sample=0}=500", false },
	{ "infiniband/perfquery-x-errors.txt", "ib-counters", "0", "fail", "ib.counter.symbol{rail=0,sample=0}=312", false },
	{ "infiniband/perfquery-x-ibsim.txt", "ib-counters", "0", "unknown", "ib.counter.symbol{rail=0,sample=0}=!row missing", false },
	{ "infiniband/perfquery-no-such-lid.txt", "ib-counters", "255", "unknown", NULL, true },
	{ "infiniband/mlxlink-json-4-ports.txt", "mlxlink", "0", "pass", "mlxlink.state{rail=3}=Active", false },
	{ "infiniband/mlxlink-json.txt", "mlxlink", "0", "pass", "mlxlink.opcode{rail=0}=0", false },
	{ "infiniband/mlxlink-text.txt", "mlxlink", "0", "pass", "mlxlink.speed{rail=0}=IB-XDR", false },
	{ "infiniband/mlxlink-cable-unplugged-ansi.txt", "mlxlink", "0", "fail", "mlxlink.opcode{rail=0}=1024", false },
	{ "xid/dmesg-healthy.txt", "dmesg-xid", "0", "pass", "xid.fatal{}=0", false },
	{ "xid/dmesg-memory-onlining-failure.txt", "dmesg-xid", "0", "fail", "kernel.memory_onlining{}=2", false },
	{ "xid/dmesg-mlx5-trouble.txt", "dmesg-xid", "0", "fail", "mlx5.pcie_limited{}=1", false },
	{ "xid/dmesg-permission.txt", "dmesg-xid", "1", "unknown", NULL, true },
	{ "xid/dmesg-xid-gb300.txt", "dmesg-xid", "0", "fail", "xid.fatal{}=3", false },
	{ "xid/dmesg-xid-nvlink5.txt", "dmesg-xid", "0", "fail", "xid.action{gpu=0019:01:00}=1", false },
	{ "dcgm/diag-json-pass.txt", "dcgm-diag", "0", "pass", "dcgm.result{test=software,gpu=0}=Pass", false },
	{ "dcgm/diag-json-fail.txt", "dcgm-diag", "226", "fail", "dcgm.result{test=pcie,gpu=2}=Fail", false },
	{ "dcgm/diag-text-pass.txt", "dcgm-diag", "0", "pass", "dcgm.result{test=pcie,all}=Pass", false },
	{ "dcgm/diag-no-host-engine.txt", "dcgm-diag", "255", "unknown", NULL, false },
	{ "bench/nccl-gb300-1tray.txt", "nccl-allreduce", "0", "pass", "nccl.ranks{}=4", false },
	{ "bench/nccl-gb300-18trays.txt", "nccl-allreduce", "0", "pass", "nccl.busbw{}=918.77", false },
	{ "bench/nccl-gb300-2racks.txt", "nccl-allreduce", "0", "pass", "nccl.ranks{}=128", false },
	{ "bench/nccl-data-corruption.txt", "nccl-allreduce", "1", "fail", "nccl.wrong{}=128", false },
	{ "bench/nccl-imex-failure.txt", "nccl-allreduce", "3", "fail", "nccl.busbw{}=!no result row", false },
	{ "bench/nvbandwidth-json.txt", "nvbandwidth", "0", "pass", "nvbw.host_to_device_memcpy_ce{gpu=0}=211.5", false },
	{ "bench/nvbandwidth-text.txt", "nvbandwidth", "0", "pass", "nvbw.device_to_host_memcpy_ce{gpu=1}=193.4", false },
	{ "bench/nvbandwidth-one-slow-gpu.txt", "nvbandwidth", "0", "fail", "nvbw.device_to_device_memcpy_read_ce{gpu=2}=384.2", false },
	{ "bench/nvbandwidth-not-ready.txt", "nvbandwidth", "1", "fail", NULL, true },
	{ "bench/ib-write-bw-json-4-rails.txt", "ib-write-bw", "0", "pass", "ibbw.gbps{dev=mlx5_3}=753.51", false },
	{ "bench/ib-write-bw-text.txt", "ib-write-bw", "0", "fail", "ibbw.gbps{dev=mlx5_0}=384.72", false },
	{ "bench/ib-write-bw-low.txt", "ib-write-bw", "0", "fail", "ibbw.gbps{dev=mlx5_2}=196.44", false },
	{ "bench/ib-write-bw-cqe-error.txt", "ib-write-bw", "1", "fail", "ibbw.gbps{dev=mlx5_0}=!no result row", false },
	{ "bench/ib-write-bw-no-device.txt", "ib-write-bw", "1", "fail", "ibbw.error{}=no InfiniBand device", true },
	{ "bench/fio-json-4-drives.txt", "fio", "0", "pass", "fio.error{job=nvme2n1}=0", false },
	{ "bench/fio-json.txt", "fio", "0", "pass", NULL, false },
	{ "bench/fio-json-error.txt", "fio", "1", "fail", "fio.error{job=bad}=2", false },
	{ "bench/gemm-healthy.txt", "gemm", "0", "pass", "gemm.tflops{gpu=3}=1853.7", false },
	{ "bench/gemm-one-low.txt", "gemm", "0", "fail", "gemm.tflops{gpu=2}=1703.3", false },
	{ "host/lscpu-gb300.txt", "lscpu", "0", "pass", "host.cpus{}=144", false },
	{ "host/lscpu-json.txt", "lscpu", "0", "fail", "host.cpus{}=2", false },
	{ "host/numactl-gb300.txt", "numactl", "0", "pass", "numa.gpu_nodes{}=4", false },
	{ "host/numactl-2-nodes.txt", "numactl", "0", "pass", "numa.cpu_mb{}=964905", false },
	{ "host/chrony-synced.txt", "chrony", "0", "pass", "time.stratum{}=3", false },
	{ "host/chrony-unsynchronised.txt", "chrony", "0", "warn", "time.leap{}=Not synchronised", false },
	{ "host/chrony-no-daemon.txt", "chrony", "1", "unknown", NULL, false },
	{ "host/services-healthy.txt", "services", "0", "pass", "svc.nvidia-fabricmanager{}=inactive", false },
	{ "host/services-imex-failed.txt", "services", "0", "fail", "svc.nvidia-dcgm{}=not installed", false },
	{ "host/systemctl-is-active-several.txt", "services", "3", "warn", "svc.nvidia-persistenced{}=active", false },
	{ "host/storage-4-drives.txt", "storage", "0", "pass", "nvme.drives{}=4", false },
	{ "host/storage-critical-warning.txt", "storage", "0", "fail", "nvme.critical_warning{drive=nvme1n1}=1", false },
	{ "host/leak-ok.txt", "leak", "0", "pass", "leak.detectors{}=4", false },
	{ "host/leak-critical.txt", "leak", "0", "fail", "leak.state{detector=LeakDetector_2}=Critical", false },
	{ "host/power-tray.txt", "power", "0", "pass", "power.watts{}=1304", false },
	{ "host/power-no-reading.txt", "power", "0", "unknown", "power.watts{}=!no reading", false },
	{ "host/nvme-smart-log.txt", "storage", "0", "fail", "nvme.used{drive=nvme0n1}=3", false },
	{ "host/systemctl-is-active-active.txt", "services", "0", "pass", "svc.nvidia-imex{}=active", false },
	{ "host/systemctl-is-active-failed.txt", "services", "3", "fail", "svc.nvidia-imex{}=failed", false },
	{ "host/ssh-client-errors.txt", "ibstat", "255", "unknown", NULL, true },
	{ "host/noise-motd.txt", "ibstat", "0", "fail", "ib.ports{}=0", false },
	{ "host/noise-motd.txt", "nvidia-smi-xml", "0", "unknown", NULL, false },
	{ "nvidia-smi/q-fabric-block-old-driver.txt", "nvidia-smi-q", "0", "unknown", NULL, false },
	{ "imex/nodes-config.txt", "imex-config", "0", "unknown", "imex.list.nodes{}=4", false },
	{ "infiniband/perfquery-clean.txt", "ib-counters", "0", "unknown", "ib.counter.symbol{rail=0,sample=0}=0", false },
	{ "infiniband/perfquery-x-4-ports.txt", "ib-counters", "0", "unknown", "ib.counter.link_downed{rail=3,sample=0}=0", false },
	{ "bench/ib-write-bw-json.txt", "ib-write-bw", "0", "fail", "ibbw.gbps{dev=mlx5_0}=384.72", false },
	{ "host/noise-command-not-found.txt", "mlxlink", "127", "unknown", NULL, true },
	{ "host/noise-sudo.txt", "ibstat", "1", "unknown", NULL, true },
};

static bool shows(const struct rk_metrics *m, const char *want, char *line, size_t size)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct rk_metric *x = &m->items[i];
		if (x->type == RK_METRIC_NUMBER)
			snprintf(line, size, "%s{%s}=%.10g", x->name, x->label, x->number);
		else
			snprintf(line, size, "%s{%s}=%s%s", x->name, x->label, x->type == RK_METRIC_ABSENT ? "!" : "", x->text);
		if (strcmp(line, want) == 0)
			return true;
	}
	return false;
}

static void judge_row(const struct row *row, const struct rk_hprofile *profile, const char *text, size_t len)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_evidence e = { row->collector, row->on_stderr ? "" : text, row->on_stderr ? 0 : len, row->on_stderr ? text : "",
				 row->on_stderr ? len : 0, row->status };
	struct rk_target target = { .name = "v-01", .kind = "vm", .evidence = &e, .n_evidence = 1 };
	struct rk_metrics m = { .arena = arena };
	struct rk_report report;
	char line[512];

	rk_collector_find(row->collector)->parse(&e, &m);
	if (row->shown && !shows(&m, row->shown, line, sizeof(line)))
		fail_msg("%s: no %s", row->file, row->shown);
	assert_int_equal(rk_judge(profile, "deep", &target, 1, arena, &report, NULL), 0);
	if (strcmp(report.verdict, row->verdict) != 0)
		fail_msg("%s: verdict %s, expected %s (first check %s)", row->file, report.verdict, row->verdict, report.checks[0].id);
}

static void every_sample_gives_the_experts_verdict(void **state)
{
	struct rk_hprofile *profile;
	size_t absent = 0;

	(void)state;
	assert_int_equal(rk_hprofile_load("gb300-acceptance", &profile, NULL), 0);
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		char path[256], *text = NULL;
		size_t len;
		snprintf(path, sizeof(path), SAMPLES "%s", rows[i].file);
		if (rk_file_read(path, 16 << 20, &text, &len, NULL)) {
			absent++;
			continue;
		}
		judge_row(&rows[i], profile, text, len);
		free(text);
	}
	rk_hprofile_free(profile);
	if (absent)
		print_message("note: %zu of %zu samples are not here and were skipped\n", absent, RK_ARRAY_SIZE(rows));
	if (absent == RK_ARRAY_SIZE(rows))
		skip();
}

/* Cutting a healthy report anywhere may hide things, but never makes a fault and never makes the count of GPUs wrong. */
static void a_cut_report_is_never_a_fault(void **state)
{
	static const struct {
		const char *file, *collector;
	} cuts[] = { { "nvidia-smi/xml-gb300-healthy-4gpu.txt", "nvidia-smi-xml" }, { "nvidia-smi/nvlink-s-gb200-healthy.txt", "nvlink-status" },
		     { "imex/ctl-N-json-up.txt", "imex-nodes" }, { "infiniband/mlxlink-json-4-ports.txt", "mlxlink" },
		     { "bench/nccl-gb300-18trays.txt", "nccl-allreduce" }, { "host/leak-ok.txt", "leak" } };
	struct rk_hprofile *profile;
	size_t done = 0;

	(void)state;
	assert_int_equal(rk_hprofile_load("gb300-acceptance", &profile, NULL), 0);
	for (size_t i = 0; i < RK_ARRAY_SIZE(cuts); i++) {
		char path[256], *text = NULL;
		size_t len;
		snprintf(path, sizeof(path), SAMPLES "%s", cuts[i].file);
		if (rk_file_read(path, 16 << 20, &text, &len, NULL))
			continue;
		for (size_t n = 0; n < len; n += 1 + len / 97) {
			RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
			struct rk_evidence e = { cuts[i].collector, text, n, "", 0, "signal:15" };
			struct rk_target target = { .name = "v-01", .kind = "vm", .evidence = &e, .n_evidence = 1 };
			struct rk_report report;
			assert_int_equal(rk_judge(profile, "deep", &target, 1, arena, &report, NULL), 0);
			bool gpus = strcmp(cuts[i].collector, "nvlink-status") == 0; /* its list has no end mark */
			if (strcmp(report.verdict, "fail") == 0 && !(gpus && strcmp(report.checks[0].id, "gpu.nvlink.gpus") == 0))
				fail_msg("%s cut at %zu: %s says %s", cuts[i].file, n, report.checks[0].id, report.checks[0].value);
		}
		free(text);
		done++;
	}
	rk_hprofile_free(profile);
	if (!done)
		skip();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_sample_gives_the_experts_verdict),
		cmocka_unit_test(a_cut_report_is_never_a_fault),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
