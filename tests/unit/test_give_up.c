#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "provision/service.h"
#include "tests/contract/store_deaths.h"
#include "tests/contract/sweep.h"

/* A controller is lost in the middle of something, and for good. Whoever says so ends the operation; nothing that it may still hold is given to anybody,
 * and when it or its successor answers everything is found and comes back. */

enum { CALLS_LOST = 200, ENOUGH = 3 };

static const struct plane {
	const char *target, *lane;
} planes[] = { { "r1", "nvlink:r1" }, { "ib0", "ib:ib0" } };

static void lose(struct fixture *f, const struct plane *p)
{
	OK(rk_sim_fault_add(f->world.sim, rk_arena_printf(f->arena, "call@%s=hang", p->target), err));
}

static void lose_from(struct fixture *f, const struct plane *p, long call)
{
	for (long k = call; k < call + CALLS_LOST; k++)
		OK(rk_sim_fault_add(f->world.sim, rk_arena_printf(f->arena, "call@%s#%ld=hang", p->target, k), err));
}

static int give_up(struct fixture *f, const struct plane *p, int64_t op, struct rk_err *why)
{
	f->world.give_up = p->lane;
	f->world.give_up_why = "burnt";
	int rc = rk_op_resume(&f->world, op, why);
	f->world.give_up = f->world.give_up_why = NULL;
	OK(rk_world_refresh(&f->world, err));
	return rc;
}

static bool is_over(struct fixture *f, int64_t op)
{
	struct rk_op_row row;

	OK(rk_store_op_get(f->world.store, op, f->arena, &row, err));
	return rk_op_is_over(&row);
}

static const char *detail_of(struct fixture *f, int64_t op, const char *kind)
{
	struct rk_step_row *steps;
	size_t n;

	OK(rk_store_step_list(f->world.store, op, f->arena, &steps, &n, err));
	for (size_t i = 0; i < n; i++)
		if (strcmp(steps[i].kind, kind) == 0)
			return rk_arena_printf(f->arena, "%s: %s", steps[i].state, steps[i].detail ? steps[i].detail : "");
	return "";
}

static void assert_says(const char *text, const char *what)
{
	if (!text || !strstr(text, what))
		fail_msg("\"%s\" does not say \"%s\"", text ? text : "", what);
}

static void assert_faulty(struct fixture *f, const char *tray, bool faulty)
{
	const struct rk_tray *t = &f->world.site->trays[rk_find_tray(f->world.site, tray)];

	if (faulty)
		assert_says(t->faulty, "given up by tester@here");
	else
		assert_null(t->faulty);
}

static void restore_all(struct fixture *f)
{
	int trays[RACKS * 4];
	size_t n = 0;
	int64_t op;

	OK(rk_world_refresh(&f->world, err));
	for (size_t t = 0; t < f->world.site->n_trays; t++)
		if (f->world.site->trays[t].faulty && f->world.site->trays[t].vm == RK_NONE)
			trays[n++] = (int)t;
	if (n)
		OK(rk_tray_restore(&f->world, trays, n, &op, err));
}

/* The controller answers again: what was left goes, what was kept back is free, and everybody agrees. */
static void come_back(struct fixture *f)
{
	struct rk_drift *rows;
	size_t n;
	int64_t op;

	look_again(f);
	OK(rk_world_refresh(&f->world, err));
	rk_drift(&f->world, NULL, f->arena, &rows, &n, NULL);
	for (size_t i = 0; i < n; i++)
		if (!rk_streq(rows[i].status, "in-sync") && !rk_streq(rows[i].name, "theirs"))
			fail_msg("%s %s %s: wanted %s, applied %s, live %s", rows[i].plane, rows[i].object, rows[i].field, rows[i].wanted, rows[i].applied, rows[i].live);
	assert_int_equal(f->world.site->n_remains, 0);
	restore_all(f);
	assert_consistent(f);
	while (f->world.site->n_clusters) {
		OK(rk_cluster_delete(&f->world, rk_arena_strdup(f->arena, f->world.site->clusters[0].name), &op, err));
		OK(rk_world_refresh(&f->world, err));
	}
	restore_all(f);
	assert_consistent(f);
	for (size_t t = 0; t < f->world.site->n_trays; t++)
		assert_null(f->world.site->trays[t].faulty);
}

/* ---- each operation, lost at each call ---------------------------------------------------------------------------------------------------- */

/* True when the plane was lost early enough to be noticed. */
static bool lost_at(const struct scenario *s, const struct plane *p, long call, long *ended)
{
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	struct fixture f;
	int64_t op = 0;

	prepare(&f, s, NULL);
	lose_from(&f, p, call);
	int rc = s->act(&f.world, f.arena, &op, NULL);
	rk_sim_fault_clear(f.world.sim);
	lose(&f, p);
	if (rc && op && !is_over(&f, op)) {
		assert_int_equal(give_up(&f, p, op, &why), RK_PARTIAL);
		if (!is_over(&f, op))
			fail_msg("%s: not over after the plane was given up at call %ld: %s", s->name, call, why.message);
		assert_says(why.message, "is over, without");
		++*ended;
	}
	come_back(&f);
	close_world(&f);
	return rc != 0;
}

static void ends_without_a_plane_and_nothing_is_lost(void **state)
{
	const struct scenario *s = *state;
	long ended = 0, runs = 0;

	for (size_t p = 0; p < RK_ARRAY_SIZE(planes); p++)
		for (long call = 1, untouched = 0; untouched < ENOUGH; call++, runs++)
			untouched = lost_at(s, &planes[p], call, &ended) ? 0 : untouched + 1;
	print_message("%ld runs, %ld ended without the plane\n", runs, ended);
	assert_true(ended > 0);
}

/* ---- what is said and kept back ------------------------------------------------------------------------------------------------------------- */

static int begin_a(void **state)
{
	rack_nvlink = RACK_NVLINK;
	return begin_world_with_a(state);
}

static int64_t deleted_without(struct fixture *f, const struct plane *p)
{
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	int64_t op;

	lose(f, p);
	assert_int_equal(rk_cluster_delete(&f->world, "a", &op, &why), RK_PARTIAL);
	bool told = false;
	for (size_t i = 0; i < why.n_details; i++)
		told |= strstr(why.details[i], rk_arena_printf(f->arena, "--give-up %s", p->lane)) != NULL;
	assert_true(told);
	rk_err_clear(&why);
	assert_int_equal(give_up(f, p, op, &why), RK_PARTIAL);
	assert_true(is_over(f, op));
	assert_int_equal(rk_find_cluster(f->world.site, "a"), RK_NONE);
	return op;
}

static void a_delete_without_nvlink_keeps_partition_and_trays_back(void **state)
{
	struct fixture *f = *state;
	int id;
	int64_t op = deleted_without(f, &planes[0]);

	const char *said = detail_of(f, op, "nvl.release");
	assert_says(said, "given-up: given up by tester@here");
	assert_says(said, "burnt");
	assert_says(said, "r1/1 \"a\" may still be there");
	assert_says(said, "r1-t01");
	assert_faulty(f, "r1-t01", true);
	assert_faulty(f, "r2-t01", false);
	assert_int_equal(f->world.site->n_remains, 1);
	OK(rk_store_free_nvl_id(f->world.site, 0, &id, err));
	assert_int_equal(id, 2);
	OK(rk_store_free_nvl_id(f->world.site, 1, &id, err));
	assert_int_equal(id, 1);
	/* The controller is there again, and nobody has looked yet: the name is the old one's, too. */
	rk_sim_fault_clear(f->world.sim);
	OK(rk_cluster_create(&f->world, spec_of(f->arena, "a", "u", 2, 1, false), &op, err));
	OK(rk_world_refresh(&f->world, err));
	assert_int_equal(f->world.site->nvl_partitions[0].id, 2);
	assert_string_equal(f->world.site->nvl_partitions[0].name, "a.2");
	come_back(f);
}

static void a_delete_without_a_subnet_manager_keeps_key_and_trays_back(void **state)
{
	struct fixture *f = *state;
	uint16_t pkey;
	int64_t op = deleted_without(f, &planes[1]);

	assert_says(detail_of(f, op, "ib.release"), "nobody knows whether PKey ib0/0x0100 \"a\" is on the ports of r[1-2]-t01");
	assert_faulty(f, "r1-t01", true);
	assert_faulty(f, "r2-t01", true);
	OK(rk_store_free_pkey(f->world.site, 0, &pkey, err));
	assert_int_equal(pkey, 0x0101);
	come_back(f);
}

static void a_number_that_was_left_behind_is_refused(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;

	deleted_without(f, &planes[1]);
	rk_sim_fault_clear(f->world.sim);
	const uint64_t server = 0xabcdef;
	const struct rk_new_service s = { "storage", "ib0", 0x0100, &server, 1, NULL, 0 };
	assert_int_equal(rk_store_add_service(f->world.store, &s, &why), RK_CONFLICT);
	assert_says(why.message, "PKey ib0/0x0100 may still be there: given up by tester@here");
	come_back(f);
	OK(rk_store_add_service(f->world.store, &s, err));
}

static void a_tray_whose_ports_have_a_key_does_not_come_back(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	int64_t op;

	deleted_without(f, &planes[1]);
	rk_sim_fault_clear(f->world.sim);
	int tray = rk_find_tray(f->world.site, "r1-t01");
	assert_int_not_equal(rk_tray_restore(&f->world, &tray, 1, &op, &why), 0);
	assert_says(why.message, "of tray r1-t01 still has PKey ib0/0x0100");
	OK(rk_world_refresh(&f->world, err));
	assert_faulty(f, "r1-t01", true);
	come_back(f);
}

/* The successor knows nothing of it. */
static void what_is_gone_when_it_is_looked_at_is_free_again(void **state)
{
	struct fixture *f = *state;
	const struct rk_ib_wanted nobody = { 0x0100, "a", NULL, 0, false };

	deleted_without(f, &planes[1]);
	rk_sim_fault_clear(f->world.sim);
	OK(f->world.ib->ops->set(f->world.ib, 0, &nobody, err));
	come_back(f);
}

static void drift_shows_what_was_left_behind(void **state)
{
	struct fixture *f = *state;
	struct rk_drift *rows;
	size_t n;

	deleted_without(f, &planes[0]);
	assert_int_equal(rk_drift(&f->world, NULL, f->arena, &rows, &n, NULL), RK_UNHEALTHY);
	assert_int_equal(n, 1);
	assert_string_equal(rows[0].object, "r1/1");
	assert_string_equal(rows[0].applied, "left behind");
	assert_null(rows[0].live);
	rk_sim_fault_clear(f->world.sim);
	assert_int_equal(rk_drift(&f->world, NULL, f->arena, &rows, &n, NULL), RK_UNHEALTHY);
	assert_int_equal(n, 1);
	assert_string_equal(rows[0].live, "4");
	come_back(f);
}

/* A VM runs with a key that the service's servers have, and the operation that took it away is over. */
static void a_service_is_deleted_without_a_subnet_manager(void **state)
{
	static const uint64_t server = 0x5000e60300ff0001;
	const struct rk_service_wish wish = { .name = "storage", .servers = &server, .n_servers = 1 };
	struct fixture *f = *state;
	struct rk_ib_service service;
	uint16_t pkey;
	int64_t op;

	OK(rk_service_create_wish(&f->world, &wish, f->arena, &service, &op, err));
	OK(rk_world_refresh(&f->world, err));
	lose(f, &planes[1]);
	assert_int_equal(rk_service_delete(&f->world, &f->world.site->ib_services[0], &op, NULL), RK_PARTIAL);
	assert_int_equal(give_up(f, &planes[1], op, NULL), RK_PARTIAL);
	assert_true(is_over(f, op));
	assert_int_equal(f->world.site->n_ib_services, 0);
	assert_says(detail_of(f, op, "service.remove"), "PKey ib0/0x0101 \"storage\"");
	OK(rk_store_free_pkey(f->world.site, 0, &pkey, err));
	assert_int_equal(pkey, 0x0102);
	come_back(f);
}

/* ---- what is refused ---------------------------------------------------------------------------------------------------------------------- */

static void what_answers_is_not_given_up(void **state)
{
	struct fixture *f = *state;
	int64_t op;

	lose(f, &planes[0]);
	assert_int_equal(rk_cluster_delete(&f->world, "a", &op, NULL), RK_PARTIAL);
	rk_sim_fault_clear(f->world.sim);
	OK(give_up(f, &planes[0], op, err));
	assert_int_equal(f->world.site->n_remains, 0);
	come_back(f);
}

static void a_plane_that_nothing_waits_for_is_refused_and_nothing_changes(void **state)
{
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_op_row before, after;
	int64_t op;

	lose(f, &planes[0]);
	assert_int_equal(rk_cluster_delete(&f->world, "a", &op, NULL), RK_PARTIAL);
	OK(rk_store_op_get(f->world.store, op, f->arena, &before, err));
	assert_int_equal(give_up(f, &planes[1], op, &why), RK_INVALID);
	assert_says(why.message, "nothing left to do on \"ib:ib0\"");
	assert_says(why.hint, "nvlink:r1");
	OK(rk_store_op_get(f->world.store, op, f->arena, &after, err));
	assert_string_equal(after.state, before.state);
	assert_string_equal(after.detail, before.detail);
	give_up(f, &planes[0], op, NULL);
	come_back(f);
}

/* A tray that is brought back in a commit stays faulty when nobody saw where its GPUs are. */
static void a_tray_is_not_brought_back_by_giving_up(void **state)
{
	struct fixture *f = *state;
	RK_CLEANUP_HEARD struct rk_heard *heard = rk_heard_new();
	struct rk_bundle *bundle;
	int tray = rk_find_tray(f->world.site, "r1-t04");
	int64_t op;

	OK(rk_store_set_tray_faulty(f->world.store, "r1-t04", "given up by tester@here long ago", err));
	OK(rk_world_refresh(&f->world, err));
	OK(rk_bundle_begin(&f->world, "commit", heard, &bundle, err));
	OK(rk_bundle_part(bundle, "tray uncordon r1-t04", err));
	OK(rk_tray_restore(&f->world, &tray, 1, &op, err));
	OK(rk_bundle_part_done(bundle, err));
	lose(f, &planes[0]);
	assert_int_equal(rk_bundle_run(bundle, &op, NULL), RK_PARTIAL);
	assert_int_equal(give_up(f, &planes[0], op, NULL), RK_PARTIAL);
	assert_true(is_over(f, op));
	assert_says(detail_of(f, op, "nvl.home"), "given-up");
	assert_says(detail_of(f, op, "tray.return"), "given-up");
	assert_faulty(f, "r1-t04", true);
	come_back(f);
}

/* ---- dying while it is given up ------------------------------------------------------------------------------------------------------------- */

/* False: it lived. */
static bool dies_at(const char *state, int64_t op, long k)
{
	struct fixture f;
	pid_t child = fork();

	if (child == 0) {
		watch_writes();
		open_world(&f, state, RACKS, TRAYS);
		lose(&f, &planes[0]);
		die_at_write(k);
		give_up(&f, &planes[0], op, NULL);
		_exit(0);
	}
	return child_died(child);
}

static bool dies_and_is_finished(const char *state, long k)
{
	struct fixture f;
	int64_t op;

	open_world(&f, state, RACKS, TRAYS);
	OK(rk_cluster_create(&f.world, spec_of(f.arena, "a", "t", 2, 1, false), &op, err));
	lose(&f, &planes[0]);
	assert_int_equal(rk_cluster_delete(&f.world, "a", &op, NULL), RK_PARTIAL);
	close_world(&f);
	bool died = dies_at(state, op, k);
	open_world(&f, state, RACKS, TRAYS);
	lose(&f, &planes[0]);
	/* It may have died with the step given up, and nothing left to say it of. */
	if (!is_over(&f, op) && give_up(&f, &planes[0], op, NULL) == RK_INVALID)
		assert_int_equal(rk_op_resume(&f.world, op, NULL), RK_PARTIAL);
	assert_true(is_over(&f, op));
	OK(rk_world_refresh(&f.world, err));
	assert_int_equal(f.world.site->n_remains, 1);
	assert_faulty(&f, "r1-t01", true);
	come_back(&f);
	close_world(&f);
	remove_state(state);
	return died;
}

static void dying_while_it_is_given_up_loses_nothing(void **state)
{
	char folder[256], store[300];
	long k = 1;

	(void)state;
	make_folder(folder, sizeof(folder));
	snprintf(store, sizeof(store), "%s/store", folder);
	while (k < RUNS_MAX && dies_and_is_finished(store, k))
		k++;
	assert_int_equal(rmdir(folder), 0);
	print_message("%ld deaths\n", k - 1);
	assert_true(k > 5);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin_a, end_world)

int main(int argc, char **argv)
{
	static const struct sweep_test sweeps[] = {
		{ "ends without a plane and nothing is lost", ends_without_a_plane_and_nothing_is_lost, NULL, scenarios, RK_ARRAY_SIZE(scenarios) },
	};
	const struct CMUnitTest tests[] = {
		TEST(a_delete_without_nvlink_keeps_partition_and_trays_back),
		TEST(a_delete_without_a_subnet_manager_keeps_key_and_trays_back),
		TEST(a_number_that_was_left_behind_is_refused),
		TEST(a_tray_whose_ports_have_a_key_does_not_come_back),
		TEST(what_is_gone_when_it_is_looked_at_is_free_again),
		TEST(drift_shows_what_was_left_behind),
		TEST(a_service_is_deleted_without_a_subnet_manager),
		TEST(what_answers_is_not_given_up),
		TEST(a_plane_that_nothing_waits_for_is_refused_and_nothing_changes),
		TEST(a_tray_is_not_brought_back_by_giving_up),
		cmocka_unit_test(dying_while_it_is_given_up_loses_nothing),
	};

	keep_memory();
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	return run_sweeps("planes that are lost for good", sweeps, RK_ARRAY_SIZE(sweeps), argc, argv) + rc;
}
