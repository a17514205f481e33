/* What the step files share: reading params, waiting for a state, finding the VM a step is about. */
#pragma once
#include "provision/op.h"
#include "vmspec/xmltree.h"

extern const struct rk_step_kind rk_vm_steps[], rk_power_steps[], rk_guest_steps[], rk_imex_steps[], rk_seal_steps[], rk_nvl_steps[], rk_ib_steps[], rk_service_steps[], rk_tray_steps[], rk_stray_steps[], rk_return_steps[]; /* end with name == NULL */

const char *rk_param(const struct rk_step *step, const char *key); /* "" when absent */
long rk_param_int(const struct rk_step *step, const char *key);
/* "gpus" or "members": an array of 64-bit texts; in the step's arena. */
uint64_t *rk_param_guids(const struct rk_step *step, const char *key, size_t *ret_n);
/* Index of the VM named by "vm"; RK_NOT_FOUND when the store does not know it any more. */
int rk_param_vm(struct rk_world *world, const struct rk_step *step, int *ret, struct rk_err *err);

/* Calls check until it says 1, the deadline of the step kind passes (RK_UNREACHABLE: outcome unknown, `what` is what was waited for), it fails,
 * or Ctrl-C. A check that could not read (RK_UNREACHABLE) is tried again until the deadline. What a check puts into the step's arena is gone after it. */
int rk_wait_until(struct rk_world *world, struct rk_step *step, const char *what, int (*check)(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err),
		  struct rk_err *err);

/* give_up of steps on NVLink partitions (params rack, id, name, gpus) and on PKeys (fabric, pkey, name or service, members): provision/steps_give_up.c. */
int rk_nvl_give_up(struct rk_world *world, struct rk_step *step, bool undone, const char *why, struct rk_err *err);
int rk_ib_give_up(struct rk_world *world, struct rk_step *step, bool undone, const char *why, struct rk_err *err);

/* Of InfiniBand steps (provision/steps_ib.c). *ret: the partition of the params "fabric" and "pkey", or NULL; RK_CONFLICT when somebody else defined it. */
int rk_ib_find_ours(struct rk_world *world, struct rk_step *step, const struct rk_ib_live **ret, struct rk_err *err);
bool rk_port_has(const struct rk_ib_port *port, unsigned word);
/* *ret: 1 when no port of the inventory but these is seen with the key. */
int rk_ib_on_no_other_port(struct rk_world *world, struct rk_step *step, int fabric, unsigned key, const uint64_t *allowed, size_t n_allowed, int *ret, struct rk_err *err);
bool rk_port_is_dark(const struct rk_site *site, uint64_t guid, const struct rk_ib_port *port);

/* argv on the step's VM; what it ended with is in the result. */
int rk_run_in_guest(struct rk_world *world, struct rk_step *step, const char *const *argv, struct rk_ssh_result *result, struct rk_err *err);

/* Everything a step on one VM needs, from the snapshot. "tray" of the params overrides where the VM is: the tray it is moved away from. */
struct rk_vm_job {
	const struct rk_vm *vm;
	const struct rk_cluster *cluster;
	const struct rk_size *size;       /* size, image, spec: NULL when not known any more, or not asked for */
	const struct rk_image *image;
	struct rk_spec *spec;
	const char *host_name;            /* what the host calls it ("host" of the params overrides) */
	const char *domain, *os, *seed;   /* names on the host */
	const char *tray_name;
	int tray;
};
int rk_vm_job(struct rk_world *world, struct rk_step *step, struct rk_vm_job *ret, struct rk_err *err);
/* With size, image and spec, or RK_NOT_FOUND: what a VM is made from. One on its way out needs none of it. */
int rk_vm_job_to_make(struct rk_world *world, struct rk_step *step, struct rk_vm_job *ret, struct rk_err *err);
int rk_vm_job_domain(struct rk_world *world, struct rk_step *step, struct rk_vm_job *ret, struct rk_hv_domain *domain, struct rk_err *err);
/* root: of a domain. RK_INVALID naming a function that it passes through and the tray does not have (preflight_devices.c). */
int rk_check_hostdevs(struct rk_world *world, struct rk_step *step, const struct rk_vm_job *j, rk_xnode *root, struct rk_err *err);
/* *ret: which GPU or HCA of the store the tray does not have now ("no PCI function ..."), NULL when all are there or nobody can tell. */
int rk_tray_lacks(struct rk_world *world, int tray, struct rk_arena *arena, const char **ret, struct rk_err *err);
/* Why a person or racksh took it out of service; NULL: nobody did. */
const char *rk_tray_mark(const struct rk_tray *t);
/* Index of the tray that a step on a VM is about; RK_NONE when the store knows neither. */
int rk_step_tray(const struct rk_world *world, const struct rk_step *step);
/* Something stays on a tray: the step goes on, its note says the first of them. gpu 0: no GPU. `why` lives as long as the step. */
void rk_step_leaves(struct rk_step *step, int tray, uint64_t gpu, const char *why);
bool rk_step_left_gpu(const struct rk_step *step, uint64_t gpu);
/* What came out of taking something away from the VM's tray: it is left, `what` and why, and the result is 0 when that was RK_NOT_FOUND, or RK_UNREACHABLE
 * on a tray that is out of service; else rc. */
int rk_leave_behind(struct rk_world *world, struct rk_step *step, const char *what, int rc, struct rk_err *err);
/* settle: trays where something was left are faulty. */
int rk_away_settle(struct rk_world *world, struct rk_step *step, bool undone, struct rk_err *err);
/* 0 for RK_UNREACHABLE and RK_NOT_FOUND, too, of a call that takes something away: what is read next decides. */
int rk_reread_gone(int rc, struct rk_err *err);
/* rk_define_undo and rk_volumes_undo, as far as they can be done. */
int rk_define_away(struct rk_world *world, struct rk_step *step, struct rk_err *err);
int rk_volumes_away(struct rk_world *world, struct rk_step *step, struct rk_err *err);
/* The parts of a step that several kinds are made of. */
/* prepare: the private host key of the VM into step->data; NULL when it is not kept any more. */
int rk_fetch_host_key(struct rk_world *world, struct rk_step *step, struct rk_err *err);
/* The seed on the VM's tray; sealed: the same one without the key. step->data is the key. */
int rk_put_seed(struct rk_world *world, struct rk_step *step, const struct rk_vm_job *j, bool sealed, struct rk_err *err);
int rk_volumes_undo(struct rk_world *world, struct rk_step *step, struct rk_err *err);
int rk_define_undo(struct rk_world *world, struct rk_step *step, struct rk_err *err);
/* POSIX sh, in the guest: writes its arguments as the IMEX node list and lets the daemon read it again (SIGUSR1; a restart would kill what runs on
 * the GPUs). */
extern const char rk_imex_write_script[];
/* Addresses of the VMs of one rack of a cluster in VM number order: the IMEX node list, the same on each of them. */
const char **rk_imex_nodes(const struct rk_site *site, const struct rk_cluster *cluster, int rack, struct rk_arena *arena, size_t *ret_n);
