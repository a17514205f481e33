#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "provision/cluster.h"
#include "provision/replace.h"
#include "provision/service.h"
#include "tests/contract/sim_world.h"

/* A tray under a running cluster is swapped; whatever fails on the way, afterwards the new hardware has what the old one had, and only it. */

static const char spec_text[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Cluster\",\"name\":\"a\",\"tenant\":\"t\",\"size\":\"nd128isr-gb300-v6\",\"count\":3,"
				"\"image\":\"u\",\"placement\":{\"segment\":3},\"ssh\":{\"user\":\"ops\",\"authorizedKeys\":"
				"[\"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExampleExample00 o@c\"]}}";

static void open_with_cluster(struct sim_world *w)
{
	struct rk_spec *spec;
	int64_t op;

	sim_world_open(w, NULL);
	sim_must(rk_spec_parse("spec", spec_text, strlen(spec_text), w->arena, &spec, err));
	sim_must(rk_cluster_create(&w->world, spec, &op, err));
}

static bool is_member(const struct rk_nvl_live *p, uint64_t gpu)
{
	for (size_t i = 0; i < p->n_gpus; i++)
		if (p->gpus[i] == gpu)
			return true;
	return false;
}

static uint64_t new_gpu(const struct sim_world *w, int gpu)
{
	return w->site->gpus[gpu].fabric_guid ^ (uint64_t)1 << 44;
}

static uint64_t new_port(const struct sim_world *w, int hca)
{
	return w->site->hcas[hca].port_guid ^ (uint64_t)1 << 28;
}

/* Partition `id` of the rack has the new GPUs, and no partition the old ones. */
static void switch_has_moved(struct sim_world *w, int tray, int id)
{
	const struct rk_tray *t = &w->site->trays[tray];
	struct rk_nvl_live *parts;
	size_t n;

	sim_must(w->world.nvl->ops->list(w->world.nvl, t->rack, w->arena, &parts, &n, err));
	for (size_t p = 0; p < n; p++)
		for (int g = t->first_gpu; g < t->first_gpu + t->n_gpus; g++) {
			assert_false(is_member(&parts[p], w->site->gpus[g].fabric_guid));
			assert_int_equal(is_member(&parts[p], new_gpu(w, g)), parts[p].id == id);
		}
}

static void fabric_has_moved(struct sim_world *w, int tray, size_t members)
{
	const struct rk_tray *t = &w->site->trays[tray];
	struct rk_ib_live *parts;
	size_t n, found = 0;

	sim_must(w->world.ib->ops->list(w->world.ib, 0, w->arena, &parts, &n, err));
	for (size_t p = 0; p < n; p++)
		for (size_t m = 0; parts[p].ours && m < parts[p].n_members; m++)
			for (int h = t->first_hca; h < t->first_hca + t->n_hcas; h++) {
				assert_true(parts[p].members[m].guid != w->site->hcas[h].port_guid);
				found += parts[p].members[m].guid == new_port(w, h);
				assert_int_equal(parts[p].n_members, members);
			}
	assert_int_equal(found, members ? t->n_hcas : 0);
}

static void store_has_moved(struct sim_world *w, int tray)
{
	const struct rk_site *s = w->world.site;
	const struct rk_tray *t = &s->trays[tray];

	assert_int_equal(rk_find_gpu_guid(s, w->site->gpus[t->first_gpu].fabric_guid), RK_NONE);
	assert_int_equal(rk_find_gpu_guid(s, new_gpu(w, t->first_gpu + 3)), t->first_gpu + 3);
	assert_int_equal(rk_find_hca_guid(s, new_port(w, t->first_hca + 1)), t->first_hca + 1);
	sim_must(rk_store_check(w->world.store, err));
}

static int replace(struct sim_world *w, int tray, int64_t *op, struct rk_err *err)
{
	struct rk_tray_identity to;
	int rc = rk_tray_discover(&w->world, tray, w->arena, &to, err);

	return rc ? rc : rk_tray_replace(&w->world, tray, &to, op, err);
}

static void the_new_hardware_takes_over_what_the_old_one_had(void **state)
{
	struct sim_world w;
	int64_t op;

	(void)state;
	open_with_cluster(&w);
	int tray = w.world.site->vms[1].tray;
	char *fault RK_CLEANUP_FREE = rk_xasprintf("tray-swapped@%s", w.site->trays[tray].name);
	sim_must(rk_store_set_tray_faulty(w.world.store, w.site->trays[tray].name, "GPU 2 fell off the bus", err));
	sim_must(rk_world_refresh(&w.world, err));
	sim_must(rk_sim_fault_add(w.world.sim, fault, err));
	sim_must(replace(&w, tray, &op, err));
	switch_has_moved(&w, tray, 1);
	fabric_has_moved(&w, tray, 12);
	store_has_moved(&w, tray);
	assert_int_equal(w.world.site->vms[1].state, RK_VM_FAILED);
	assert_int_equal(w.world.site->vms[1].tray, tray);
	assert_null(w.world.site->trays[tray].faulty);
	assert_string_equal(w.world.site->trays[tray].serial + 4, w.site->trays[tray].name);

	/* Done is done. */
	RK_CLEANUP_ERR struct rk_err said = RK_ERR_INIT;
	assert_int_equal(replace(&w, tray, &op, &said), RK_INVALID);
	sim_world_close(&w);
}

/* Its ports' place in a shared service. */
static void a_service_follows_the_new_hardware(void **state)
{
	static const uint64_t server = 0x5000e60300ff0001;
	const struct rk_service_wish wish = { .name = "storage", .servers = &server, .n_servers = 1 };
	struct rk_ib_service service;
	struct rk_ib_live *parts;
	struct sim_world w;
	size_t n, found = 0;
	int64_t op;

	(void)state;
	open_with_cluster(&w);
	int tray = w.world.site->vms[1].tray, first = w.site->trays[tray].first_hca;
	char *fault RK_CLEANUP_FREE = rk_xasprintf("tray-swapped@%s", w.site->trays[tray].name);
	sim_must(rk_service_check(&w.world, &wish, w.arena, &service, err));
	sim_must(rk_service_create(&w.world, &service, &op, err));
	sim_must(rk_sim_fault_add(w.world.sim, fault, err));
	sim_must(replace(&w, tray, &op, err));
	sim_must(w.world.ib->ops->list(w.world.ib, 0, w.arena, &parts, &n, err));
	for (size_t p = 0; p < n; p++)
		for (size_t m = 0; parts[p].pkey == service.pkey && m < parts[p].n_members; m++)
			for (int h = first; h < first + 4; h++) {
				assert_true(parts[p].members[m].guid != w.site->hcas[h].port_guid);
				found += parts[p].members[m].guid == new_port(&w, h) && !parts[p].members[m].full;
			}
	assert_int_equal(found, 4);
	sim_world_close(&w);
}

static void a_tray_that_nobody_holds_goes_to_the_default_partition(void **state)
{
	struct sim_world w;
	int64_t op;

	(void)state;
	sim_world_open(&w, NULL);
	sim_must(rk_sim_fault_add(w.world.sim, "tray-swapped@r2-t03", err));
	sim_must(replace(&w, 6, &op, err));
	switch_has_moved(&w, 6, RK_NVL_DEFAULT);
	fabric_has_moved(&w, 6, 0);
	store_has_moved(&w, 6);
	sim_world_close(&w);
}

/* The call of every number fails, or takes effect with its answer lost: what is left is finished by resume. */
static void any_interruption_can_be_finished(void **state)
{
	static const char *const modes[] = { "fail", "lost", "lie" };

	(void)state;
	for (size_t mode = 0; mode < RK_ARRAY_SIZE(modes); mode++)
		for (int k = 1;; k++) {
			RK_CLEANUP_ERR struct rk_err said = RK_ERR_INIT;
			struct rk_tray_identity to;
			struct sim_world w;
			int64_t op = 0;
			open_with_cluster(&w);
			int tray = w.world.site->vms[0].tray;
			char *swapped RK_CLEANUP_FREE = rk_xasprintf("tray-swapped@%s", w.site->trays[tray].name);
			sim_must(rk_sim_fault_add(w.world.sim, swapped, err));
			sim_must(rk_tray_discover(&w.world, tray, w.arena, &to, err));
			long before = rk_sim_calls(w.world.sim);
			char *fault RK_CLEANUP_FREE = rk_xasprintf("call#%ld=%s", before + k, modes[mode]);
			sim_must(rk_sim_fault_add(w.world.sim, fault, err));
			int rc = rk_tray_replace(&w.world, tray, &to, &op, &said);
			bool reached = rk_sim_calls(w.world.sim) >= before + k;
			if (rc == RK_PARTIAL)
				sim_must(rk_op_resume(&w.world, op, err));
			else
				assert_int_equal(rc, 0);
			sim_must(rk_world_refresh(&w.world, err));
			switch_has_moved(&w, tray, 1);
			fabric_has_moved(&w, tray, 12);
			store_has_moved(&w, tray);
			sim_world_close(&w);
			if (!reached)
				break;
			assert_true(k < 500);
		}
}

static void a_tray_that_does_not_tell_everything_is_not_replaced(void **state)
{
	RK_CLEANUP_ERR struct rk_err said = RK_ERR_INIT;
	struct rk_tray_identity to;
	struct sim_world w;
	int64_t op;

	(void)state;
	sim_world_open(&w, NULL);
	sim_must(rk_sim_fault_add(w.world.sim, "tray-swapped@r1-t01,gpu-missing@r1-t01/2", err));
	assert_int_equal(rk_tray_discover(&w.world, 0, w.arena, &to, &said), RK_UNREACHABLE);
	assert_non_null(strstr(said.message, "does not tell what it is"));
	/* An identity that another tray has is a mistake. */
	rk_tray_identity_of(w.world.site, 0, &to);
	to.gpus[2].guid = w.site->gpus[w.site->trays[3].first_gpu].fabric_guid;
	assert_int_equal(rk_tray_replace(&w.world, 0, &to, &op, &said), RK_CONFLICT);
	assert_non_null(strstr(said.message, "is recorded in tray \"r1-t04\""));
	sim_must(rk_world_refresh(&w.world, err));
	assert_int_equal(rk_find_gpu_guid(w.world.site, w.site->gpus[2].fabric_guid), 2);
	sim_world_close(&w);
}

static void an_identity_file_is_checked_as_a_whole(void **state)
{
	static const char good[] = "{\"serial\":\"N1\",\"gpus\":[{\"index\":1,\"fabricGuid\":\"0x11\",\"uuid\":\"GPU-1\"}],\"hcas\":[{\"rail\":3,\"portGuid\":\"0x12\"}]}";
	static const char bad[] = "{\"serial\":\"N1\",\"gpus\":[{\"index\":9,\"fabricGuid\":\"0x11\"}],\"hcas\":[{\"rail\":3,\"portGuid\":\"11\"},{\"rail\":2,\"portGuid\":\"0x11\"}],\"x\":1}";
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	RK_CLEANUP_ERR struct rk_err said = RK_ERR_INIT;
	struct rk_tray_identity id;

	(void)state;
	assert_int_equal(rk_tray_identity_parse("id", good, strlen(good), arena, &id, &said), 0);
	assert_int_equal(id.gpus[1].guid, 0x11);
	assert_string_equal(id.gpus[1].uuid, "GPU-1");
	assert_int_equal(id.ports[3], 0x12);
	assert_int_equal(rk_tray_identity_parse("id", bad, strlen(bad), arena, &id, &said), RK_INVALID);
	assert_int_equal(said.n_details, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_new_hardware_takes_over_what_the_old_one_had),
		cmocka_unit_test(a_service_follows_the_new_hardware),
		cmocka_unit_test(a_tray_that_nobody_holds_goes_to_the_default_partition),
		cmocka_unit_test(any_interruption_can_be_finished),
		cmocka_unit_test(a_tray_that_does_not_tell_everything_is_not_replaced),
		cmocka_unit_test(an_identity_file_is_checked_as_a_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
