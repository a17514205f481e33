/* Private to provision/health: parts of rk_collect. */
#pragma once
#include "inventory/base/str.h"
#include "provision/health/health.h"

struct rk_texts;

/* For sh: prints the InfiniBand devices in rail order, which is the order of their PCI addresses. Names that udev gives sort otherwise (ibP2p3s0 behind
 * ibP16p3s0), and `ibstat -l` lists Ethernet ports, too: it is asked only where sysfs tells nothing. */
#define RK_IB_DEVICES                                                                                                                  \
	"for i in /sys/class/infiniband/*; do [ -e \"$i/device\" ] || continue; grep -qs Ethernet \"$i/ports/1/link_layer\" && continue; "  \
	"case ${i##*/} in smi*) continue ;; esac; a=$(readlink \"$i/device\"); echo \"${a##*/} ${i##*/}\"; done | sort | sed 's/.* //' | " \
	"grep . || ibstat -l"

enum { RK_COLLECT_MORE = 6 }; /* answers that are not from one shell on one target */

/* What stands between the markers of a probe in what a host said; in the arena. False: not even begun. *ret_status: digits, or NULL when the end
 * marker is missing or cut short. */
bool rk_collect_section(const char *nonce, const struct rk_str *stream, const char *name, struct rk_arena *arena, const char **ret, size_t *ret_len,
			const char **ret_status);
/* Power meters before anything is asked: the beginning of the interval that `power` tells about. */
struct rk_meters;
struct rk_meters *rk_collect_meters(struct rk_world *world, const struct rk_texts *level, const int *vms, size_t n, struct rk_arena *arena);
/* leak and power, from the management controllers of the targets' trays, where there are any. Room for RK_COLLECT_MORE more answers. */
void rk_collect_bmc(struct rk_world *world, const struct rk_texts *level, const int *vms, size_t n, const struct rk_meters *meters, struct rk_arena *arena,
		    struct rk_target *targets);
/* ib-write-bw between pairs of the targets, all of one cluster: rounds in which every target has one partner, so that no two measurements share a port. */
void rk_collect_pairs(struct rk_world *world, const int *vms, size_t n, struct rk_arena *arena, struct rk_target *targets);
/* nccl-domain over all targets of each rack (of one cluster), then nccl-racks over pairs of racks in rounds: no rack is in two at once. Every target of a rack keeps
 * what was measured with it. */
void rk_collect_nccl(struct rk_world *world, const struct rk_texts *level, const int *vms, size_t n, struct rk_arena *arena, struct rk_target *targets);
/* Seconds these usually take, with so many at a time (jobs; 0: the usual number). */
int rk_pairs_seconds(size_t n, int rails, int jobs);
int rk_nccl_seconds(const struct rk_texts *level, const struct rk_target *targets, size_t n, int jobs);
/* How often so many at a time begin until n are done. */
size_t rk_turns(size_t n, int jobs);

/* Partner of i in a round of n (even): each round pairs everybody once, no pair comes twice in n - 1 rounds. */
size_t rk_round_partner(size_t i, size_t round, size_t n);
/* Rounds after which everybody of n has met two others (all others, when there are fewer). */
size_t rk_rounds(size_t n);
/* One script on one VM, over a connection of its own; a minute more for the way there. */
int rk_measure_on(struct rk_world *world, int vm, const char *text, int seconds, struct rk_ssh_result *result, struct rk_err *err);
