#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "inventory/topology.h"
#include "provision/sim.h"
#include "tests/contract/fabric_site.h"
#include "tests/contract/ib_contract.h"
#include "tests/contract/nvl_contract.h"

/* The twin keeps to the same contracts as the drivers of real managers. */

struct nvl_twin {
	struct nvl_bench bench;    /* first: the contract reads it */
	struct rk_site *site;
	struct rk_sim *sim;
};
struct ib_twin {
	struct ib_bench bench;
	struct rk_site *site;
	struct rk_sim *sim;
};

#define NVOS "\"driver\":\"nvos\",\"ssh\":\"admin@sw\""
#define NMXM "\"driver\":\"nmxm\",\"url\":\"https://m\""

static struct rk_sim *open_twin(const char *nvlink, struct rk_site **ret_site, struct rk_clock **ret_clock)
{
	struct rk_sim *sim = NULL;

	*ret_site = fabric_site(nvlink, "\"driver\":\"opensm\",\"ssh\":\"root@sm\"");
	*ret_clock = rk_clock_virtual(1764500000000);
	assert_int_equal(rk_sim_open(*ret_site, NULL, *ret_clock, &sim, NULL), 0);
	return sim;
}

static int start_nvl_of(const char *nvlink, void **state)
{
	struct nvl_twin *t = rk_xcalloc(1, sizeof(*t));

	t->sim = open_twin(nvlink, &t->site, &t->bench.clock);
	t->bench.site = t->site;
	t->bench.gives_ids = rk_nvl_gives_ids(t->site, 0);
	*state = t;
	return rk_sim_nvl(t->sim, &(struct rk_driver_env){ .site = t->site, .clock = t->bench.clock }, &t->bench.nvl, NULL);
}

static int start_nvl(void **state)
{
	return start_nvl_of(NVOS, state);
}

/* Behind NMX-M, where ids are the network's choice, and somebody has the first one. */
static int start_given(void **state)
{
	int rc = start_nvl_of(NMXM, state);

	return rc ? rc : rk_sim_plant_partition(((struct nvl_twin *)*state)->sim, "r1", 1, "somebody", NULL);
}

static int stop_nvl(void **state)
{
	struct nvl_twin *t = *state;

	t->bench.nvl->ops->free(t->bench.nvl);
	rk_sim_close(t->sim);
	rk_clock_free(t->bench.clock);
	rk_site_free(t->site);
	free(t);
	return 0;
}

static int start_ib(void **state)
{
	struct ib_twin *t = rk_xcalloc(1, sizeof(*t));

	t->sim = open_twin(NVOS, &t->site, &t->bench.clock);
	t->bench.site = t->site;
	*state = t;
	return rk_sim_ib(t->sim, &(struct rk_driver_env){ .site = t->site, .clock = t->bench.clock }, &t->bench.ib, NULL);
}

static int stop_ib(void **state)
{
	struct ib_twin *t = *state;

	t->bench.ib->ops->free(t->bench.ib);
	rk_sim_close(t->sim);
	rk_clock_free(t->bench.clock);
	rk_site_free(t->site);
	free(t);
	return 0;
}

/* Ports that the living fabric shows. */
static size_t discovered(const struct ib_twin *t)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_topology *topology RK_CLEANUP(rk_cleanup_topology) = NULL;
	const char *text;
	size_t n = 0;

	IB_RC(0, t->bench.ib->ops->discover(t->bench.ib, 0, arena, &text, error));
	assert_int_equal(rk_topology_parse("twin", text, strlen(text), &topology, NULL), 0);
	for (size_t i = 0; i < topology->n_links; i++)
		n += topology->links[i].port_guid != 0;
	return n;
}

static void a_link_that_is_down_is_gone_from_discovery_tables_and_paths(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct ib_twin *t = *state;
	struct rk_ib_path path = { .from = ib_guid(&t->bench, 0), .to = ib_guid(&t->bench, 1) };
	uint64_t guid = ib_guid(&t->bench, 1);
	struct rk_ib_port port;

	assert_int_equal(discovered(t), 8);
	assert_int_equal(rk_sim_fault_add(t->sim, "link-down@r1-t01/1", NULL), 0);
	assert_int_equal(discovered(t), 7);
	IB_RC(0, t->bench.ib->ops->tables(t->bench.ib, 0, &guid, 1, arena, &port, error));
	assert_false(port.known);
	assert_true(port.down);
	IB_RC(0, t->bench.ib->ops->paths(t->bench.ib, 0, &path, 1, arena, error));
	assert_int_equal(path.seen, RK_PATH_UNKNOWN);
	assert_int_equal(rk_sim_fault_add(t->sim, "link-up@r1-t01/1", NULL), 0);
	assert_int_equal(discovered(t), 8);
}

static void words_that_name_no_such_thing_are_refused(void **state)
{
	static const char *const words[] = { "gpu-leave@r1-t01", "gpu-leave@r1-t01/4", "gpu-leave@r1-t01/-1", "gpu-leave@r1-t01/0x", "gpu-leave@r9-t01/0",
					     "gpu-leave@r1-t01/0/1", "gpu-move@r1-t01/0", "gpu-move@r1-t01/0/0", "gpu-move@r1-t01/0/32767", "link-down@r1-t01/4",
					     "link-down@r1-t01/99999999999999999999", "port-key@r1-t01/0/0x10000", "port-key@r1-t01/0", "nvlink-down@r1-t01/0/18",
					     "port-key@r1-t01/0/1/2" };
	struct ib_twin *t = *state;

	for (size_t i = 0; i < RK_ARRAY_SIZE(words); i++)
		if (rk_sim_fault_add(t->sim, words[i], NULL) != RK_INVALID)
			fail_msg("%s was taken", words[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		NVL_CONTRACT(start_nvl, stop_nvl), NVL_CONTRACT(start_given, stop_nvl),
		IB_CONTRACT(start_ib, stop_ib),
		cmocka_unit_test_setup_teardown(a_link_that_is_down_is_gone_from_discovery_tables_and_paths, start_ib, stop_ib),
		cmocka_unit_test_setup_teardown(words_that_name_no_such_thing_are_refused, start_ib, stop_ib),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
