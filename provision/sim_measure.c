/* What the measuring tools of a guest print: usual numbers of a GB300 tray, less where the twin has a fault. */
#include <stdio.h>
#include <string.h>

#include "provision/sim_guest.h"

enum { LINKS = 18 };
/* Per GPU or port; field notes, OCI and Azure figures. */
#define H2D 211.5
#define D2H 193.5
#define D2D 768.6
#define GEMM 1850.2
#define ALLREDUCE 685.2
#define DRIVE 6900000000.0

double rk_sim_spread(const struct rk_sim_guest *g, int salt)
{
	unsigned h = (unsigned)(g->tray->first_gpu + 1) * 2654435761u + (unsigned)salt * 40503u;

	return 1 + ((double)(h >> 16 & 0xff) - 128) / 32768;
}

int rk_sim_gpu_speed(const struct rk_sim_guest *g, int gpu, bool nvlink)
{
	int slow = rk_sim_knob(g, "slow", gpu), speed = slow ? slow : 100, up = LINKS;

	for (int l = 0; nvlink && l < LINKS; l++) {
		char *key RK_CLEANUP_FREE = rk_xasprintf("nvlink:%s/%d/%d", g->tray->name, gpu, l);
		up -= rk_sim_get(g->sim, key) != NULL;
	}
	return speed * up / LINKS;
}

static int slowest(const struct rk_sim_guest *g)
{
	int worst = 100;

	for (int i = 0; i < g->tray->n_gpus; i++) {
		int speed = rk_sim_gpu_speed(g, i, true);
		worst = speed < worst ? speed : worst;
	}
	return worst;
}

/* Without an NVLink partition no CUDA program starts. */
static bool ready(const struct rk_sim_guest *g)
{
	for (int i = 0; i < g->tray->n_gpus; i++) {
		if (rk_sim_gpu_at(g->sim, g->site, g->tray->first_gpu + i, false) <= 0)
			return false;
	}
	return true;
}

static int numactl(const struct rk_sim_guest *g, const char *command)
{
	const struct rk_profile *profile = &g->site->profiles[g->rack->profile];
	int sockets = profile->sockets ? profile->sockets : 1, per_socket = profile->cpus_per_tray / sockets;

	(void)command;
	rk_str_addf(g->out, "available: %d nodes (0-%d)\n", sockets + g->tray->n_gpus, sockets + g->tray->n_gpus - 1);
	for (int n = 0; n < sockets; n++) {
		rk_str_addf(g->out, "node %d cpus:", n);
		for (int c = 0; c < per_socket; c++)
			rk_str_addf(g->out, " %d", n * per_socket + c);
		rk_str_addf(g->out, "\nnode %d size: %llu MB\nnode %d free: %llu MB\n", n, (unsigned long long)profile->memory_mib / (unsigned)sockets, n,
			    (unsigned long long)profile->memory_mib / (unsigned)sockets - 4096);
	}
	for (int n = sockets; n < sockets + g->tray->n_gpus; n++)
		rk_str_addf(g->out, "node %d cpus:\nnode %d size: 283136 MB\nnode %d free: 282100 MB\n", n, n, n);
	return 0;
}

static void diag_test(const struct rk_sim_guest *g, const char *name, bool sick[], bool last)
{
	bool any = false;

	rk_str_addf(g->out, "{\"name\": \"%s\", \"results\": [", name);
	for (int i = 0; i < g->tray->n_gpus; i++) {
		rk_str_addf(g->out, "%s{\"entity_group\": \"GPU\", \"entity_id\": %d, \"status\": \"%s\"}", i ? ", " : "", i, sick[i] ? "Fail" : "Pass");
		any |= sick[i];
	}
	rk_str_addf(g->out, "], \"test_summary\": {\"status\": \"%s\"}}%s", any ? "Fail" : "Pass", last ? "" : ", ");
}

static int dcgm(const struct rk_sim_guest *g, const char *command)
{
	bool memory[RK_GPUS_MAX] = { 0 }, none[RK_GPUS_MAX] = { 0 }, any = false;

	(void)command;
	for (int i = 0; i < g->tray->n_gpus; i++) {
		memory[i] = rk_sim_knob(g, "remap", i) != 0;
		any |= memory[i];
	}
	rk_str_add(g->out, "{\"DCGM Diagnostic\": {\"test_categories\": [{\"category\": \"Deployment\", \"tests\": [");
	diag_test(g, "software", none, true);
	rk_str_add(g->out, "]}, {\"category\": \"Hardware\", \"tests\": [");
	diag_test(g, "memory", memory, false);
	diag_test(g, "pcie", none, true);
	rk_str_add(g->out, "]}]}}\n");
	return any ? 226 : 0;
}

static int allreduce(const struct rk_sim_guest *g, const char *command)
{
	enum { FIRST = 30, LAST = 34 }; /* 1 GiB to 16 GiB */
	int ranks = g->tray->n_gpus;

	(void)command;
	if (!ready(g)) {
		rk_str_addf(g->out, "%s: Test CUDA failure common.cu:1010 'system not yet initialized'\n", g->vm ? g->vm->name : "guest");
		return 3;
	}
	rk_str_addf(g->out, "# nThread 1 nGpus %d minBytes 1073741824 maxBytes 17179869184 step: 2(factor) validation: 1\n#\n# Using devices\n", ranks);
	for (int i = 0; i < ranks; i++)
		rk_str_addf(g->out, "#  Rank %2d Group  0 Pid %6d on %10s device %2d [%.7s] NVIDIA GB300\n", i, 4100 + i, g->vm ? g->vm->name : "guest", i,
			    rk_sim_gpu_pci(g, i));
	rk_str_add(g->out, "#\n#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n");
	for (int power = FIRST; power <= LAST; power++) {
		double bytes = (double)(1ull << power), busbw = ALLREDUCE * rk_sim_spread(g, power) * slowest(g) / 100 * (1 - 0.02 * (LAST - power));
		double algbw = busbw * ranks / (2.0 * (ranks - 1)), us = bytes / algbw / 1000;
		rk_str_addf(g->out, "%12.0f %13.0f     float     sum      -1 %9.1f %7.2f %7.2f      0 %9.1f %7.2f %7.2f      0\n", bytes, bytes / 4, us, algbw,
			    busbw, us, algbw, busbw);
	}
	rk_str_add(g->out, "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 657.1\n#\n# Collective test concluded: all_reduce_perf\n");
	return 0;
}

static void matrix(const struct rk_sim_guest *g, const char *name, double value, bool pairs, bool last)
{
	int n = g->tray->n_gpus;

	rk_str_addf(g->out, "{\"name\": \"%s\", \"status\": \"Passed\", \"bandwidth_matrix\": [", name);
	for (int row = 0; row < (pairs ? n : 1); row++) {
		rk_str_addf(g->out, "%s[", row ? ", " : "");
		for (int column = 0; column < n; column++) {
			int a = rk_sim_gpu_speed(g, column, pairs), b = pairs ? rk_sim_gpu_speed(g, row, true) : 100;
			if (pairs && row == column)
				rk_str_addf(g->out, "%s\"N/A\"", column ? ", " : "");
			else
				rk_str_addf(g->out, "%s\"%.2f\"", column ? ", " : "", value * rk_sim_spread(g, column + row) * (a < b ? a : b) / 100);
		}
		rk_str_add(g->out, "]");
	}
	rk_str_addf(g->out, "]}%s", last ? "" : ", ");
}

static int nvbandwidth(const struct rk_sim_guest *g, const char *command)
{
	(void)command;
	if (!ready(g)) {
		rk_str_add(g->out, "[CUDA_ERROR_SYSTEM_NOT_READY] system not yet initialized in expression cuInit(0)\n");
		return 1;
	}
	rk_str_add(g->out, "{\"nvbandwidth\": {\"CUDA Runtime Version\": 13000, \"Driver Version\": \"" RK_SIM_DRIVER "\", \"testcases\": [");
	matrix(g, "host_to_device_memcpy_ce", H2D, false, false);
	matrix(g, "device_to_host_memcpy_ce", D2H, false, false);
	matrix(g, "device_to_device_memcpy_read_ce", D2D, true, true);
	rk_str_add(g->out, "]}}\n");
	return 0;
}

static int gemm(const struct rk_sim_guest *g, const char *command)
{
	(void)command;
	for (int i = 0; i < g->tray->n_gpus; i++)
		rk_str_addf(g->out, "Device %d NVIDIA GB300\nMax Time: 60s\nGFlops:%.4e Time: 60.01s\n", i,
			    GEMM * 1000 * rk_sim_spread(g, i) * rk_sim_gpu_speed(g, i, false) / 100);
	return 0;
}

static int fio(const struct rk_sim_guest *g, const char *command)
{
	(void)command;
	if (!g->tray->n_nvme)
		return 127;
	rk_str_add(g->out, "{\"fio version\": \"fio-3.36\", \"jobs\": [");
	for (int i = 0; i < g->tray->n_nvme; i++)
		rk_str_addf(g->out, "%s{\"jobname\": \"nvme%dn1\", \"error\": 0, \"read\": {\"bw_bytes\": %.0f, \"iops\": %.1f}, \"write\": {\"bw_bytes\": 0, \"iops\": 0}}",
			    i ? ", " : "", i, DRIVE * rk_sim_spread(g, i), DRIVE * rk_sim_spread(g, i) / 1048576);
	rk_str_add(g->out, "]}\n");
	return 0;
}

rk_sim_tool *rk_sim_measure(const char *command)
{
	static const struct {
		const char *text;
		rk_sim_tool *tool;
	} rows[] = {
		{ "numactl -H", numactl }, { "dcgmi diag", dcgm }, { "mpirun", rk_sim_collective }, { "all_reduce_perf", allreduce }, { "nvbandwidth -j", nvbandwidth },
		{ "ubergemm", gemm }, { "ib_write_bw", rk_sim_write_bw }, { "fio --readonly", fio },
	};

	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		if (strstr(command, rows[i].text))
			return rows[i].tool;
	}
	return NULL;
}
