/* What every InfiniBand driver and the twin must do. A bench gives a driver for a site with one fabric whose pool is 0x0100-0x01ff and whose first
 * eight ports are in the fabric, with no partition of ours. */
#pragma once
#include <inttypes.h>
#include <string.h>

#include "provision/ib.h"

struct ib_bench {
	struct rk_ib *ib;
	const struct rk_site *site;
	struct rk_clock *clock;           /* virtual, or NULL: effects are there when set returns */
};

static inline void ib_expect(const char *what, int rc, int wanted, struct rk_err *err)
{
	if (rc != wanted)
		fail_msg("%s: %d instead of %d: %s", what, rc, wanted, err->message ? err->message : "no error");
	rk_err_clear(err);
}
#define IB_RC(wanted, call)                                      \
	do {                                                     \
		struct rk_err err_ = RK_ERR_INIT, *error = &err_; \
		ib_expect(#call, (call), wanted, error);         \
	} while (0)

static inline uint64_t ib_guid(const struct ib_bench *b, int port)
{
	return b->site->hcas[port].port_guid;
}

/* Ports first..first+n-1 as members. */
static inline int ib_set(const struct ib_bench *b, unsigned pkey, const char *name, int first, int n, bool full, struct rk_err *err)
{
	struct rk_ib_member members[8];

	for (int i = 0; i < n; i++)
		members[i] = (struct rk_ib_member){ ib_guid(b, first + n - 1 - i), full };
	return b->ib->ops->set(b->ib, 0, &(struct rk_ib_wanted){ (uint16_t)pkey, name, members, (size_t)n, false }, err);
}

/* The word (key with membership bit) that the port's table holds for the key; 0 none. */
static inline unsigned ib_word_now(const struct ib_bench *b, int port, unsigned pkey)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	uint64_t guid = ib_guid(b, port);
	struct rk_ib_port table;

	IB_RC(0, b->ib->ops->tables(b->ib, 0, &guid, 1, arena, &table, error));
	assert_true(table.known);
	for (size_t i = 0; i < table.n_pkeys; i++)
		if ((table.pkeys[i] & 0x7fffu) == pkey)
			return table.pkeys[i];
	return 0;
}

static inline void ib_word(const struct ib_bench *b, int port, unsigned pkey, unsigned wanted)
{
	for (int i = 0; b->clock && i < 20 && ib_word_now(b, port, pkey) != wanted; i++)
		rk_clock_sleep_ms(b->clock, 500);
	assert_int_equal(ib_word_now(b, port, pkey), wanted);
}

/* Members that the configuration has; -1: no such partition. */
static inline int ib_members(const struct ib_bench *b, unsigned pkey)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_ib_live *live;
	size_t n;

	IB_RC(0, b->ib->ops->list(b->ib, 0, arena, &live, &n, error));
	for (size_t i = 0; i < n; i++)
		if (live[i].pkey == pkey) {
			assert_true(live[i].ours);
			return (int)live[i].n_members;
		}
	return -1;
}

/* ---- the contract ------------------------------------------------------------------------------------------------------------------ */

static inline void ib_contract_gives_and_takes(const struct ib_bench *b)
{
	assert_int_equal(ib_members(b, 0x100), -1);
	IB_RC(0, ib_set(b, 0x100, "ta", 0, 4, true, error));
	assert_int_equal(ib_members(b, 0x100), 4);
	for (int i = 0; i < 8; i++)
		ib_word(b, i, 0x100, i < 4 ? 0x8100 : 0);
	ib_word(b, 0, RK_PKEY_DEFAULT, RK_PKEY_DEFAULT);
	/* Twice is once. */
	IB_RC(0, ib_set(b, 0x100, "ta", 0, 4, true, error));
	assert_int_equal(ib_members(b, 0x100), 4);
	IB_RC(0, ib_set(b, 0x100, "ta", 0, 0, true, error));
	assert_int_equal(ib_members(b, 0x100), -1);
	for (int i = 0; i < 8; i++)
		ib_word(b, i, 0x100, 0);
	IB_RC(0, ib_set(b, 0x100, "ta", 0, 0, true, error));
}

static inline void ib_contract_sets_exactly(const struct ib_bench *b)
{
	IB_RC(0, ib_set(b, 0x100, "ta", 0, 3, true, error));
	IB_RC(0, ib_set(b, 0x100, "ta", 2, 3, true, error));
	for (int i = 0; i < 8; i++)
		ib_word(b, i, 0x100, i >= 2 && i < 5 ? 0x8100 : 0);
	/* No member in common, and another membership. */
	IB_RC(0, ib_set(b, 0x100, "ta", 6, 1, false, error));
	assert_int_equal(ib_members(b, 0x100), 1);
	for (int i = 0; i < 8; i++)
		ib_word(b, i, 0x100, i == 6 ? 0x0100 : 0);
	IB_RC(0, ib_set(b, 0x100, "ta", 6, 1, true, error));
	ib_word(b, 6, 0x100, 0x8100);
}

/* Where paths can be asked for: the first is found, the other is not. */
static inline void ib_reach(const struct ib_bench *b, struct rk_ib_path found, struct rk_ib_path none)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_ib_path paths[2] = { found, none };
	int rc = b->ib->ops->paths(b->ib, 0, paths, 2, arena, &err);

	if (rc == RK_NOT_FOUND)
		return;
	assert_int_equal(rc, 0);
	assert_int_equal(paths[0].seen, RK_PATH_FOUND);
	assert_int_equal(paths[1].seen, RK_PATH_NONE);
}

/* A service: one port is its server, three are tenants'; these reach the server, and not each other. */
static inline void ib_contract_shares(const struct ib_bench *b)
{
	struct rk_ib_member members[4];
	struct rk_ib_wanted service = { 0x110, "storage", members, 4, true };

	for (int i = 0; i < 4; i++)
		members[i] = (struct rk_ib_member){ ib_guid(b, i), i == 0 };
	IB_RC(0, b->ib->ops->set(b->ib, 0, &service, error));
	/* A change of another partition leaves it as it is. */
	IB_RC(0, ib_set(b, 0x100, "ta", 1, 1, true, error));
	assert_int_equal(ib_members(b, 0x110), 4);
	for (int i = 0; i < 8; i++)
		ib_word(b, i, 0x110, i == 0 ? 0x8110 : i < 4 ? 0x0110 : 0);
	ib_reach(b, (struct rk_ib_path){ .from = ib_guid(b, 0), .to = ib_guid(b, 1) }, (struct rk_ib_path){ .from = ib_guid(b, 1), .to = ib_guid(b, 2) });
	service.n = 1;
	IB_RC(0, b->ib->ops->set(b->ib, 0, &service, error));
	assert_int_equal(ib_members(b, 0x110), 1);
	for (int i = 0; i < 8; i++)
		ib_word(b, i, 0x110, i == 0 ? 0x8110 : 0);
	ib_word(b, 1, 0x100, 0x8100);
}

static inline void ib_contract_keeps_tenants_apart(const struct ib_bench *b)
{
	IB_RC(0, ib_set(b, 0x100, "ta", 0, 4, true, error));
	IB_RC(0, ib_set(b, 0x101, "tb", 4, 4, true, error));
	for (int i = 0; i < 8; i++) {
		ib_word(b, i, 0x100, i < 4 ? 0x8100 : 0);
		ib_word(b, i, 0x101, i < 4 ? 0 : 0x8101);
	}
	ib_reach(b, (struct rk_ib_path){ .from = ib_guid(b, 0), .to = ib_guid(b, 3) }, (struct rk_ib_path){ .from = ib_guid(b, 0), .to = ib_guid(b, 4) });
	IB_RC(0, ib_set(b, 0x101, "tb", 4, 0, true, error));
	for (int i = 0; i < 4; i++)
		ib_word(b, i, 0x100, 0x8100);
}

static inline void ib_contract_refuses_what_cannot_be(const struct ib_bench *b)
{
	static const unsigned keys[] = { 0, RK_PKEY_DEFAULT };

	for (size_t i = 0; i < RK_ARRAY_SIZE(keys); i++) {
		struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
		assert_int_not_equal(ib_set(b, keys[i], "x", 0, 1, true, &err), 0);
	}
	ib_word(b, 0, RK_PKEY_DEFAULT, RK_PKEY_DEFAULT);
}

#define IB_CONTRACT(setup, teardown)                                                                                             \
	cmocka_unit_test_setup_teardown(contract_gives, setup, teardown), cmocka_unit_test_setup_teardown(contract_exact, setup, teardown),     \
		cmocka_unit_test_setup_teardown(contract_apart, setup, teardown), cmocka_unit_test_setup_teardown(contract_shares, setup, teardown), cmocka_unit_test_setup_teardown(contract_ib_refuses, setup, teardown)
/* *state begins with a struct ib_bench. */
static void contract_gives(void **state) { ib_contract_gives_and_takes(*state); }
static void contract_exact(void **state) { ib_contract_sets_exactly(*state); }
static void contract_apart(void **state) { ib_contract_keeps_tenants_apart(*state); }
static void contract_shares(void **state) { ib_contract_shares(*state); }
static void contract_ib_refuses(void **state) { ib_contract_refuses_what_cannot_be(*state); }
