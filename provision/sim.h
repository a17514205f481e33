/* The digital twin: simulated hypervisors, NVLink switches, subnet managers and guests of a whole site, in memory or kept in a file.
 *
 * State lives in an SQLite database of its own tables (sim_*), a second connection to FILE under --sim-state, else in memory; every
 * accepted change is in it before the call returns, so a killed racksh leaves the twin as a real site would be left.
 * Delays run on a virtual clock. Faults: rk_sim_fault_add. Thread safe. */
#pragma once
#include "provision/world.h"

struct rk_sim;
/* state_file NULL = memory. The site gives trays, GPUs, ports and managers; identities must be known (rk_site_invent). */
int rk_sim_open(const struct rk_site *site, const char *state_file, struct rk_clock *clock, struct rk_sim **ret, struct rk_err *err);
void rk_sim_close(struct rk_sim *sim);
/* rk_site_digest of the site file that the twin was last made from or took over; "" when that is not known. */
int rk_sim_note_source(struct rk_sim *sim, const char *digest, struct rk_err *err);
void rk_sim_source(struct rk_sim *sim, char ret[65]);
/* The vtables of the twin. */
int rk_sim_hv(struct rk_sim *sim, const struct rk_driver_env *env, struct rk_hv **ret, struct rk_err *err);
int rk_sim_nvl(struct rk_sim *sim, const struct rk_driver_env *env, struct rk_nvl **ret, struct rk_err *err);
/* An NVLink partition with the id it has in the site that the twin is of, also where the network gives ids. */
int rk_sim_plant_partition(struct rk_sim *sim, const char *rack, int id, const char *name, struct rk_err *err);
int rk_sim_ib(struct rk_sim *sim, const struct rk_driver_env *env, struct rk_ib **ret, struct rk_err *err);
struct rk_bmc;
int rk_sim_bmc(struct rk_sim *sim, const struct rk_driver_env *env, struct rk_bmc **ret, struct rk_err *err);
/* What the meter of its facility says when its trays take it_kw; on an error *ret stays as it is. */
int rk_sim_facility(struct rk_sim *sim, const struct rk_site *site, double it_kw, double *ret, struct rk_err *err);
/* A guest command answered from the twin's present state, in the real tools' formats. site: the newest snapshot (who holds the tray). */
int rk_sim_guest_run(struct rk_sim *sim, const struct rk_site *site, int tray, const char *const *argv, struct rk_ssh_result *result, struct rk_err *err);
/* The same of the host that a tray is. */
int rk_sim_host_run(struct rk_sim *sim, const struct rk_site *site, int tray, const char *const *argv, struct rk_ssh_result *result, struct rk_err *err);
/* --sim-fault SPEC (racksh-fabric(7)): "PLANE.CALL[@TARGET][#N]=fail|hang|lie|lost|crash|kill[:MESSAGE]" "hv.define[@TRAY]=drop:ELEMENT" (a host whose libvirt does not know an element, or "@ATTRIBUTE", and keeps quiet about it),
 * or "call#K=fail|lost" for the K-th driver call of
 * any kind; "gpu-leave@TRAY/INDEX", "gpu-missing@TRAY/INDEX", "link-down@TRAY/RAIL", "tray-swapped@TRAY",
 * "trays-exchanged@TRAY+TRAY", "cables-crossed@TRAY+TRAY/RAIL" change the twin itself. Several with ','.
 * crash: this process dies like from kill -9 as soon as the call took effect; kill: before it did. */
int rk_sim_fault_add(struct rk_sim *sim, const char *spec, struct rk_err *err);
/* The i-th word that changes the twin itself ("gpu-leave"); NULL after the last. */
const char *rk_sim_fault_word(size_t i);
void rk_sim_fault_clear(struct rk_sim *sim); /* no call fails any more; what faults changed stays */
/* Number of driver calls made so far (fault sweeps). */
long rk_sim_calls(const struct rk_sim *sim);
