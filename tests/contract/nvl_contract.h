/* What every NVLink driver and the twin must do. A bench gives a driver for a site of one rack ("r1") with its GPUs in the default partition. */
#pragma once
#include <string.h>

#include "provision/nvl.h"

struct nvl_bench {
	struct rk_nvl *nvl;
	const struct rk_site *site;
	struct rk_clock *clock;           /* virtual */
	bool gives_ids;                   /* the network chooses ids; never the wanted one here */
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

/* The id that it has. */
static inline int nvl_make(const struct nvl_bench *b, int wanted, const char *name)
{
	int id = 0;

	NVL_RC(0, b->nvl->ops->create(b->nvl, 0, wanted, name, "full_bandwidth", 18, &id, error));
	assert_int_equal(id != wanted, b->gives_ids);
	nvl_wait_exists(b, id, true);
	assert_true(nvl_exists(b, id, name));
	return id;
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
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const char *where;
	NVL_RC(0, b->nvl->ops->health(b->nvl, 0, arena, &where, error));
}

/* Asked twice, as somebody does whose process died in between, it is the same one, known by its id or by its name. */
static inline void nvl_contract_creates_and_removes(const struct nvl_bench *b)
{
	int id = nvl_make(b, 1, "team"), other = 0;

	assert_int_equal(nvl_make(b, 1, "team"), id);
	if (b->gives_ids) {
		other = nvl_make(b, 1, "other");
		assert_int_not_equal(other, id);
		assert_int_equal(nvl_make(b, 7, "team"), id);
	} else {
		NVL_RC(RK_CONFLICT, b->nvl->ops->create(b->nvl, 0, 1, "other", "full_bandwidth", 18, &other, error));
		NVL_RC(RK_CONFLICT, b->nvl->ops->create(b->nvl, 0, 2, "team", "full_bandwidth", 18, &other, error));
	}
	NVL_RC(0, b->nvl->ops->remove(b->nvl, 0, id, error));
	nvl_wait_exists(b, id, false);
	NVL_RC(0, b->nvl->ops->remove(b->nvl, 0, id, error));
}

/* What a list says of ids: only where the network gives them is a partition known by its name. */
static inline void nvl_contract_tells_whose_ids_they_are(const struct nvl_bench *b)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_nvl_live *live;
	size_t n;
	int id = nvl_make(b, 1, "team");

	NVL_RC(0, b->nvl->ops->list(b->nvl, 0, arena, &live, &n, error));
	for (size_t i = 0; i < n; i++)
		if (live[i].id == id)
			assert_int_equal(live[i].id_given, b->gives_ids);
}

static inline void nvl_contract_moves_a_gpu_out_and_in(const struct nvl_bench *b)
{
	int id = nvl_make(b, 1, "team");

	nvl_move(b, 0, RK_NVL_DEFAULT, id);
	nvl_move(b, 1, RK_NVL_DEFAULT, id);
	assert_int_equal(nvl_where(b, nvl_guid(b, 0)), id);
	/* Twice is once. */
	NVL_RC(0, b->nvl->ops->add(b->nvl, 0, id, nvl_guid(b, 0), error));
	NVL_RC(0, b->nvl->ops->drop(b->nvl, 0, id + 1, nvl_guid(b, 0), error));
	assert_int_equal(nvl_where(b, nvl_guid(b, 0)), id);
	nvl_move(b, 0, id, RK_NVL_DEFAULT);
	assert_int_equal(nvl_where(b, nvl_guid(b, 1)), id);
	assert_int_equal(nvl_where(b, nvl_guid(b, 2)), RK_NVL_DEFAULT);
}

/* A tray's own partition, as free GPUs are in where the site says so: out of Default into it, from it into a cluster's, and back. */
static inline void nvl_contract_keeps_a_tray_by_itself(const struct nvl_bench *b)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_nvl_live *live;
	size_t n, found = 0;
	int tray = nvl_make(b, RK_NVL_TRAYS + b->site->trays[0].number, rk_nvl_tray_name(b->site, 0, arena)), id = nvl_make(b, 1, "team");

	nvl_move(b, 0, RK_NVL_DEFAULT, tray);
	nvl_move(b, 0, tray, id);
	nvl_move(b, 0, id, tray);
	NVL_RC(0, b->nvl->ops->list(b->nvl, 0, arena, &live, &n, error));
	for (size_t i = 0; i < n; i++)
		if (rk_nvl_tray_of(b->site, 0, &live[i]) == 0) {
			found++;
			assert_int_equal(live[i].id, tray);
			assert_int_equal(live[i].n_gpus, 1);
		}
	assert_int_equal(found, 1);
}

/* Groups are shared by the partitions of a domain. NMX-M gives them itself, and is not told how many are wanted. */
static inline void nvl_contract_budgets_multicast_groups(const struct nvl_bench *b)
{
	int id = 0, wanted = b->gives_ids ? 0 : RK_NO_CAPACITY;

	NVL_RC(0, b->nvl->ops->create(b->nvl, 0, 1, "big", "full_bandwidth", 1010, &id, error));
	nvl_wait_exists(b, id, true);
	/* Asked again it is the same one, not as many more. */
	NVL_RC(0, b->nvl->ops->create(b->nvl, 0, 1, "big", "full_bandwidth", 1010, &id, error));
	NVL_RC(0, b->nvl->ops->create(b->nvl, 0, 2, "small", "full_bandwidth", 14, &id, error));
	NVL_RC(wanted, b->nvl->ops->create(b->nvl, 0, 3, "late", "full_bandwidth", 1, &id, error));
	NVL_RC(0, b->nvl->ops->create(b->nvl, 0, 4, "none", "full_bandwidth", 0, &id, error));
}

static inline void nvl_contract_refuses_what_cannot_be(const struct nvl_bench *b)
{
	int id = 0;

	NVL_RC(RK_INVALID, b->nvl->ops->create(b->nvl, 0, 0, "x", "full_bandwidth", 18, &id, error));
	NVL_RC(RK_INVALID, b->nvl->ops->create(b->nvl, 0, RK_NVL_DEFAULT, "x", "full_bandwidth", 18, &id, error));
	NVL_RC(RK_INVALID, b->nvl->ops->remove(b->nvl, 0, RK_NVL_DEFAULT, error));
	NVL_RC(RK_NOT_FOUND, b->nvl->ops->add(b->nvl, 0, 9, 0xabcdef, error));
	/* Still in the default partition: it must leave that first. */
	id = nvl_make(b, 1, "team");
	NVL_RC(RK_CONFLICT, b->nvl->ops->add(b->nvl, 0, id, nvl_guid(b, 0), error));
	assert_int_equal(nvl_where(b, nvl_guid(b, 0)), RK_NVL_DEFAULT);
	nvl_move(b, 0, RK_NVL_DEFAULT, id);
	struct rk_err err = RK_ERR_INIT;
	assert_int_not_equal(b->nvl->ops->remove(b->nvl, 0, id, &err), 0);
	rk_err_clear(&err);
	assert_int_equal(nvl_where(b, nvl_guid(b, 0)), id);
}

#define NVL_CONTRACT(setup, teardown)                                                                                    \
	cmocka_unit_test_setup_teardown(contract_begins, setup, teardown), cmocka_unit_test_setup_teardown(contract_creates, setup, teardown), \
		cmocka_unit_test_setup_teardown(contract_moves, setup, teardown), cmocka_unit_test_setup_teardown(contract_refuses, setup, teardown), \
		cmocka_unit_test_setup_teardown(contract_tells, setup, teardown), cmocka_unit_test_setup_teardown(contract_keeps, setup, teardown), \
		cmocka_unit_test_setup_teardown(contract_budgets, setup, teardown)
/* *state begins with a struct nvl_bench. */
static void contract_begins(void **state) { nvl_contract_begins_in_the_default_partition(*state); }
static void contract_creates(void **state) { nvl_contract_creates_and_removes(*state); }
static void contract_moves(void **state) { nvl_contract_moves_a_gpu_out_and_in(*state); }
static void contract_refuses(void **state) { nvl_contract_refuses_what_cannot_be(*state); }
static void contract_tells(void **state) { nvl_contract_tells_whose_ids_they_are(*state); }
static void contract_keeps(void **state) { nvl_contract_keeps_a_tray_by_itself(*state); }
static void contract_budgets(void **state) { nvl_contract_budgets_multicast_groups(*state); }
