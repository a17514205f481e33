/* What every NVLink driver and the twin must do. A bench gives a driver for a site of one rack ("r1") with its GPUs in the default partition. */
#pragma once
#include <string.h>

#include "provision/nvl.h"

struct nvl_bench {
	struct rk_nvl *nvl;
	const struct rk_site *site;
	struct rk_clock *clock;           /* virtual */
};

/* Errors are told, and answers without error, too, when one was wanted. */
static inline void nvl_expect(const char *what, int rc, int wanted, struct rk_err *err)
{
	if (rc != wanted)
		fail_msg("%s: %d instead of %d: %s", what, rc, wanted, err->message ? err->message : "no error");
	rk_err_clear(err);
}
#define NVL_RC(wanted, call)                                     \
	do {                                                     \
		struct rk_err err_ = RK_ERR_INIT, *error = &err_; \
		nvl_expect(#call, (call), wanted, error);        \
	} while (0)

/* Partition of the GPU as the driver lists it; 0 none. */
static inline int nvl_where(const struct nvl_bench *b, uint64_t guid)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_nvl_live *live;
	size_t n;

	NVL_RC(0, b->nvl->ops->list(b->nvl, 0, arena, &live, &n, error));
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < live[i].n_gpus; k++)
			if (live[i].gpus[k] == guid)
				return live[i].id;
	return 0;
}

static inline bool nvl_exists(const struct nvl_bench *b, int id, const char *name)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_nvl_live *live;
	size_t n;

	NVL_RC(0, b->nvl->ops->list(b->nvl, 0, arena, &live, &n, error));
	for (size_t i = 0; i < n; i++)
		if (live[i].id == id)
			return !name || rk_streq(live[i].name, name);
	return false;
}

/* "Accepted" is not "done": the effect may show later. */
static inline void nvl_wait_where(const struct nvl_bench *b, uint64_t guid, int wanted)
{
	int at = -1;

	for (int i = 0; i < 60 && (at = nvl_where(b, guid)) != wanted; i++)
		rk_clock_sleep_ms(b->clock, 500);
	assert_int_equal(at, wanted);
}

static inline void nvl_wait_exists(const struct nvl_bench *b, int id, bool wanted)
{
	for (int i = 0; i < 60 && nvl_exists(b, id, NULL) != wanted; i++)
		rk_clock_sleep_ms(b->clock, 500);
	assert_int_equal(nvl_exists(b, id, NULL), wanted);
}

static inline uint64_t nvl_guid(const struct nvl_bench *b, int gpu)
{
	return b->site->gpus[gpu].fabric_guid;
}

static inline void nvl_move(const struct nvl_bench *b, int gpu, int from, int to)
{
	NVL_RC(0, b->nvl->ops->drop(b->nvl, 0, from, nvl_guid(b, gpu), error));
	nvl_wait_where(b, nvl_guid(b, gpu), 0);
	NVL_RC(0, b->nvl->ops->add(b->nvl, 0, to, nvl_guid(b, gpu), error));
	nvl_wait_where(b, nvl_guid(b, gpu), to);
}

/* ---- the contract ------------------------------------------------------------------------------------------------------------------ */

static inline void nvl_contract_begins_in_the_default_partition(const struct nvl_bench *b)
{
	for (size_t g = 0; g < b->site->n_gpus; g++)
		assert_int_equal(nvl_where(b, nvl_guid(b, (int)g)), RK_NVL_DEFAULT);
	NVL_RC(0, b->nvl->ops->health(b->nvl, 0, error));
}

static inline void nvl_contract_creates_and_removes(const struct nvl_bench *b)
{
	NVL_RC(0, b->nvl->ops->create(b->nvl, 0, 1, "team", "full_bandwidth", 18, error));
	nvl_wait_exists(b, 1, true);
	assert_true(nvl_exists(b, 1, "team"));
	NVL_RC(0, b->nvl->ops->create(b->nvl, 0, 1, "team", "full_bandwidth", 18, error));
	NVL_RC(RK_CONFLICT, b->nvl->ops->create(b->nvl, 0, 1, "other", "full_bandwidth", 18, error));
	NVL_RC(0, b->nvl->ops->remove(b->nvl, 0, 1, error));
	nvl_wait_exists(b, 1, false);
	NVL_RC(0, b->nvl->ops->remove(b->nvl, 0, 1, error));
}

static inline void nvl_contract_moves_a_gpu_out_and_in(const struct nvl_bench *b)
{
	NVL_RC(0, b->nvl->ops->create(b->nvl, 0, 1, "team", "full_bandwidth", 18, error));
	nvl_wait_exists(b, 1, true);
	nvl_move(b, 0, RK_NVL_DEFAULT, 1);
	nvl_move(b, 1, RK_NVL_DEFAULT, 1);
	assert_int_equal(nvl_where(b, nvl_guid(b, 0)), 1);
	/* Twice is once. */
	NVL_RC(0, b->nvl->ops->add(b->nvl, 0, 1, nvl_guid(b, 0), error));
	NVL_RC(0, b->nvl->ops->drop(b->nvl, 0, 2, nvl_guid(b, 0), error));
	assert_int_equal(nvl_where(b, nvl_guid(b, 0)), 1);
	nvl_move(b, 0, 1, RK_NVL_DEFAULT);
	assert_int_equal(nvl_where(b, nvl_guid(b, 1)), 1);
	assert_int_equal(nvl_where(b, nvl_guid(b, 2)), RK_NVL_DEFAULT);
}

static inline void nvl_contract_refuses_what_cannot_be(const struct nvl_bench *b)
{
	NVL_RC(RK_INVALID, b->nvl->ops->create(b->nvl, 0, 0, "x", "full_bandwidth", 18, error));
	NVL_RC(RK_INVALID, b->nvl->ops->create(b->nvl, 0, RK_NVL_DEFAULT, "x", "full_bandwidth", 18, error));
	NVL_RC(RK_INVALID, b->nvl->ops->remove(b->nvl, 0, RK_NVL_DEFAULT, error));
	NVL_RC(RK_NOT_FOUND, b->nvl->ops->add(b->nvl, 0, 9, 0xabcdef, error));
	/* Still in the default partition: it must leave that first. */
	NVL_RC(0, b->nvl->ops->create(b->nvl, 0, 1, "team", "full_bandwidth", 18, error));
	nvl_wait_exists(b, 1, true);
	NVL_RC(RK_CONFLICT, b->nvl->ops->add(b->nvl, 0, 1, nvl_guid(b, 0), error));
	assert_int_equal(nvl_where(b, nvl_guid(b, 0)), RK_NVL_DEFAULT);
	nvl_move(b, 0, RK_NVL_DEFAULT, 1);
	struct rk_err err = RK_ERR_INIT;
	assert_int_not_equal(b->nvl->ops->remove(b->nvl, 0, 1, &err), 0);
	rk_err_clear(&err);
	assert_int_equal(nvl_where(b, nvl_guid(b, 0)), 1);
}

#define NVL_CONTRACT(setup, teardown)                                                                                    \
	cmocka_unit_test_setup_teardown(contract_begins, setup, teardown), cmocka_unit_test_setup_teardown(contract_creates, setup, teardown), \
		cmocka_unit_test_setup_teardown(contract_moves, setup, teardown), cmocka_unit_test_setup_teardown(contract_refuses, setup, teardown)
/* *state begins with a struct nvl_bench. */
static void contract_begins(void **state) { nvl_contract_begins_in_the_default_partition(*state); }
static void contract_creates(void **state) { nvl_contract_creates_and_removes(*state); }
static void contract_moves(void **state) { nvl_contract_moves_a_gpu_out_and_in(*state); }
static void contract_refuses(void **state) { nvl_contract_refuses_what_cannot_be(*state); }
