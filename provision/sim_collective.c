/* Measurements of the twin that several guests take part in: RDMA between two, all-reduce over a rack or two. */
#include <stdio.h>
#include <string.h>

#include "provision/sim_guest.h"

enum { GUESTS_MAX = 256 };
#define RDMA_PART 0.942 /* of the port rate */
#define BYTES 17179869184.0

/* The guest with that address, among those that run. */
static bool guest_at(const struct rk_sim_guest *g, const char *address, size_t len, struct rk_sim_guest *ret)
{
	for (size_t i = 0; i < g->site->n_vms; i++) {
		const struct rk_vm *vm = &g->site->vms[i];
		if (!vm->address || strlen(vm->address) != len || strncmp(vm->address, address, len) != 0 || vm->tray == RK_NONE)
			continue;
		char *up RK_CLEANUP_FREE = rk_xasprintf("up:%s", g->site->trays[vm->tray].name);
		*ret = *g;
		ret->vm = vm;
		ret->tray = &g->site->trays[vm->tray];
		ret->rack = &g->site->racks[ret->tray->rack];
		return rk_sim_get(g->sim, up) != NULL;
	}
	return false;
}

/* ---- ib_write_bw ------------------------------------------------------------------------------------------------------------------ */

/* Gb/s that a port really moves; 0: it is down. A bad cable shows only under load. */
static double port_gbps(const struct rk_sim_guest *g, int rail)
{
	int cable = rk_sim_knob(g, "cable", rail);

	if (rail < 0 || rail >= g->tray->n_hcas || !rk_sim_rail_up(g, rail))
		return 0;
	return rk_sim_rate(g, rail) * RDMA_PART * rk_sim_spread(g, rail) * (cable ? cable : 100) / 100;
}

static int rail_of(const char *command)
{
	const char *at = strstr(command, "rail=");

	return at ? atoi(at + strlen("rail=")) : 0;
}

/* The client names the server last. */
static double peer_gbps(const struct rk_sim_guest *g, const char *command, int rail)
{
	static const char before[] = "--out_json_file=\"$f\" ";
	const char *at = strstr(command, before);
	struct rk_sim_guest peer;

	if (!at)
		return 1e9;
	at += strlen(before);
	return guest_at(g, at, strcspn(at, " "), &peer) ? port_gbps(&peer, rail) : 0;
}

/* The client's side; the server's prints nothing that is read. */
int rk_sim_write_bw(const struct rk_sim_guest *g, const char *command)
{
	int rail = rail_of(command);
	double own = port_gbps(g, rail), peer = peer_gbps(g, command, rail);

	if (own <= 0) {
		rk_str_add(g->out, " Port number 1 state is Down\n Couldn't set the link layer\nFailed status 12: wr_id 0 syndrom 0x81\n");
		return 1;
	}
	if (peer <= 0) {
		rk_str_add(g->out, " Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n");
		return 1;
	}
	rk_str_addf(g->out, "{\n\"test_info\": {\n\"test\": \"RDMA_Write_BW_Test\",\n\"Device\": \"mlx5_%d\",\n\"Number_of_qps\": 4\n},\n\"results\": {\n\"MsgSize\": 8388608,\n"
			    "\"n_iterations\": 20000,\n\"BW_peak\": 0.00,\n\"BW_average\": %.2f,\n\"MsgRate\": 0.0112\n}\n}\n", rail, own < peer ? own : peer);
	return 0;
}

/* ---- all_reduce_perf under mpirun --------------------------------------------------------------------------------------------------- */

struct crowd {
	struct rk_sim_guest guests[GUESTS_MAX];
	size_t n;
	bool one_rack;
};

/* --host 10.0.0.1:4,10.0.0.2:4 (quoted or not). False: one does not answer. */
static bool gather(const struct rk_sim_guest *g, const char *command, struct crowd *c)
{
	const char *at = strstr(command, "--host ");

	c->one_rack = true;
	for (at = at ? at + strlen("--host ") : ""; *at && *at != ' ' && c->n < GUESTS_MAX;) {
		at += strspn(at, "',");
		size_t len = strcspn(at, ":, '");
		if (!guest_at(g, at, len, &c->guests[c->n]))
			return false;
		c->one_rack &= c->guests[c->n].rack == c->guests[0].rack;
		c->n++;
		at += strcspn(at, ", ");
	}
	return c->n > 0;
}

/* Field notes: OCI and Verda figures of one rack by trays; two racks with one tray each are bound by four ports. */
static double usual_busbw(const struct crowd *c)
{
	static const struct {
		size_t trays;
		double busbw;
	} rows[] = { { 1, 685.2 }, { 2, 841.6 }, { 8, 880.0 }, { 16, 930.5 }, { GUESTS_MAX, 918.8 } };

	if (!c->one_rack)
		return c->n > 2 ? 738.4 : 378.0;
	size_t i = 0;
	while (rows[i].trays < c->n)
		i++;
	return rows[i].busbw;
}

/* The slowest GPU is everybody's speed, between racks the slowest port too. */
static double slowest(const struct crowd *c)
{
	double worst = 1;

	for (size_t i = 0; i < c->n; i++) {
		const struct rk_sim_guest *g = &c->guests[i];
		for (int gpu = 0; gpu < g->tray->n_gpus; gpu++) {
			double part = rk_sim_gpu_speed(g, gpu, true) / 100.0;
			worst = part < worst ? part : worst;
		}
		for (int rail = 0; !c->one_rack && rail < g->tray->n_hcas; rail++) {
			double part = port_gbps(g, rail) / (g->site->profiles[g->rack->profile].rate_gbps * RDMA_PART);
			worst = part < worst ? part : worst;
		}
	}
	return worst;
}

/* All GPUs of a rack that take part are in one partition. */
static bool joined(const struct crowd *c)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct rk_sim_guest *g = &c->guests[i];
		int first = 0;
		for (size_t k = 0; k <= i && !first; k++)
			if (c->guests[k].rack == g->rack)
				first = rk_sim_gpu_at(g->sim, g->site, c->guests[k].tray->first_gpu, false);
		for (int gpu = 0; gpu < g->tray->n_gpus; gpu++)
			if (first <= 0 || rk_sim_gpu_at(g->sim, g->site, g->tray->first_gpu + gpu, false) != first)
				return false;
	}
	return true;
}

static void print_ranks(const struct rk_sim_guest *g, const struct crowd *c)
{
	int rank = 0;

	rk_str_add(g->out, "# nThread 1 nGpus 1 minBytes 17179869184 maxBytes 17179869184 step: 1048576(bytes) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n"
			   "#\n# Using devices\n");
	for (size_t i = 0; i < c->n; i++)
		for (int gpu = 0; gpu < c->guests[i].tray->n_gpus; gpu++, rank++)
			rk_str_addf(g->out, "#  Rank %2d Group  0 Pid %6d on %10s device %2d [%.10s] NVIDIA GB300\n", rank, 4100 + gpu,
				    c->guests[i].vm->name, gpu, rk_sim_gpu_pci(&c->guests[i], gpu));
}

int rk_sim_collective(const struct rk_sim_guest *g, const char *command)
{
	struct crowd *c RK_CLEANUP_FREE = rk_xcalloc(1, sizeof(*c));

	if (!gather(g, command, c)) {
		rk_str_add(g->out, "ssh: connect to host 10.0.0.1 port 22: No route to host\nORTE was unable to reliably start one or more daemons.\n");
		return 1;
	}
	if (!joined(c)) {
		rk_str_addf(g->out, "%s: NCCL WARN MNNVL (cliqueSize %d) is available but not working on this system. Check the IMEX channel configuration\n",
			    g->vm ? g->vm->name : "guest", g->tray->n_gpus);
		return 3;
	}
	int ranks = (int)c->n * g->tray->n_gpus;
	double busbw = usual_busbw(c) * slowest(c) * rk_sim_spread(g, ranks), algbw = busbw * ranks / (2.0 * (ranks - 1)), us = BYTES / algbw / 1000;
	print_ranks(g, c);
	rk_str_addf(g->out, "#\n#                                                              out-of-place                       in-place\n"
			    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
			    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
			    " 17179869184    4294967296     float     sum      -1 %9.1f %7.2f %7.2f      0 %9.1f %7.2f %7.2f      0\n"
			    "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : %.3f\n#\n# Collective test concluded: all_reduce_perf\n",
		    us, algbw, busbw, us, algbw, busbw, busbw);
	return 0;
}
