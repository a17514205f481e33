/* A guest of the twin as its tools see it. Private to provision/sim_guest.c and sim_measure.c; the twin's lock is held. */
#pragma once
#include "provision/sim_impl.h"

struct rk_sim_guest {
	const struct rk_sim *sim;
	const struct rk_site *site;
	const struct rk_tray *tray;
	const struct rk_rack *rack;
	const struct rk_vm *vm;           /* NULL: none in the store */
	struct rk_str *out;
};

#define RK_SIM_DRIVER "580.173.02"
bool rk_sim_rail_up(const struct rk_sim_guest *g, int rail);
int rk_sim_rate(const struct rk_sim_guest *g, int rail);                        /* Gb/s a port runs at when it is up */
int rk_sim_knob(const struct rk_sim_guest *g, const char *what, int number);   /* what a fault set on "what:TRAY/NUMBER"; 0 = nothing */
const char *rk_sim_gpu_pci(const struct rk_sim_guest *g, int gpu);             /* "0008:06:00.0" */
/* Parts per hundred of its normal speed at which a GPU works: clocks, and NVLinks that are down. */
int rk_sim_gpu_speed(const struct rk_sim_guest *g, int gpu, bool nvlink);

/* A tool that measures: prints, and returns its exit status. NULL when the twin has no such tool. */
typedef int rk_sim_tool(const struct rk_sim_guest *g, const char *command);
rk_sim_tool *rk_sim_measure(const char *command);
/* sim_collective.c: those that other guests take part in. */
rk_sim_tool rk_sim_write_bw, rk_sim_collective;
/* A few parts per thousand that differ from place to place and stay the same: real numbers are never all equal. */
double rk_sim_spread(const struct rk_sim_guest *g, int salt);
