/* State of the simulated NVLink switch: a text file that the command line changes and the simulated hardware reads. Nothing runs in
 * between: every change carries the moment at which it becomes visible. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { NV_GPUS_MAX = 72, NV_PARTS_MAX = 128, NV_DEFAULT = 32766, NV_NAME_MAX = 255 };

struct nv_gpu {
	uint64_t guid;                    /* fabric GUID; NVOS calls its decimal form uuid */
	char location[24];                /* chassis.slot.host.module */
	int before, after;                /* partition (0: none) until and from effect_ms on */
	int64_t effect_ms, free_ms;       /* free_ms: not before then can it be added to another partition */
};
struct nv_part {
	int id, groups;
	char mode[24], name[NV_NAME_MAX + 1];
	int64_t from_ms, until_ms;        /* visible in between; until_ms 0: for ever */
};
struct nv_state {
	struct nv_gpu gpus[NV_GPUS_MAX];
	struct nv_part parts[NV_PARTS_MAX];
	int n_gpus, n_parts;
};

int64_t nv_now_ms(void);
/* Reads DIR/partitions. False with a message on stderr when it cannot be read. */
bool nv_load(const char *dir, struct nv_state *ret);
/* Replaces DIR/partitions in one step. */
bool nv_save(const char *dir, const struct nv_state *state);
/* Partition that the switch shows for a GPU at `now`; 0: none. */
int nv_visible(const struct nv_gpu *gpu, int64_t now);
/* -1: no such GPU. */
int nv_find_gpu(const struct nv_state *state, uint64_t guid);
