#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "provision/nvl_seen.h"
#include "tests/contract/ops_twin.h"

/* NVLink partitions as wanted, applied, live and seen: what verify says of each, and what is kept of it. */

static int start(void **state)
{
	struct fixture *f = rk_xcalloc(1, sizeof(*f));
	int64_t op;

	open_world(f, NULL, 2, 3);
	OK(rk_cluster_create(&f->world, spec_of(f->arena, "a", "t", 4, 1, false), &op, err));
	OK(rk_world_refresh(&f->world, err));
	*state = f;
	return 0;
}

/* The row of r1's partition. */
static struct rk_plane_check verify(struct fixture *f, bool guests, int class)
{
	struct rk_plane_check *checks = NULL;
	size_t n = 0;

	assert_int_equal(rk_nvlink_verify(&f->world, NULL, guests, f->arena, &checks, &n, NULL), class);
	for (size_t i = 0; i < n; i++)
		if (rk_streq(checks[i].object, "r1/1"))
			return checks[i];
	fail();
	return (struct rk_plane_check){ .plane = NULL };
}

static void guests_are_asked_only_when_told(void **state)
{
	struct fixture *f = *state;
	struct rk_plane_check c = verify(f, false, 0);

	assert_string_equal(c.wanted, "8 GPUs");
	assert_string_equal(c.applied, "8 GPUs");
	assert_string_equal(c.live, "8 GPUs");
	assert_null(c.seen);
	assert_string_equal(verify(f, true, 0).seen, "8 of 8 GPUs");
}

/* The switch has put a GPU back, the guest has not seen it yet, or the other way round: both are told. */
static void a_gpu_that_the_guest_does_not_see_fails_when_guests_are_asked(void **state)
{
	struct fixture *f = *state;

	OK(rk_sim_fault_add(f->world.sim, "gpu-leave@r1-t01/2", err));
	struct rk_plane_check c = verify(f, true, RK_UNHEALTHY);
	assert_string_equal(c.verdict, "fail");
	assert_string_equal(c.seen, "7 of 8 GPUs");
	assert_non_null(strstr(c.message, "missing r1-t01/2; in the guests a-01/2 (S"));
	assert_non_null(strstr(c.message, " differs"));
}

static void a_guest_that_does_not_answer_is_unknown(void **state)
{
	struct fixture *f = *state;

	OK(f->world.hv->ops->destroy(f->world.hv, rk_find_tray(f->world.site, "r1-t01"), "racksh-a-01", err));
	struct rk_plane_check c = verify(f, true, RK_UNREACHABLE);
	assert_string_equal(c.verdict, "unknown");
	assert_string_equal(c.seen, "4 of 4 GPUs");
	assert_non_null(strstr(c.message, "a-01 did not answer: "));
	assert_string_equal(verify(f, false, 0).verdict, "pass");
}

/* What comes with an error is no answer, whatever it says. */
static void a_guest_whose_nvidia_smi_fails_is_unknown_and_says_why(void **state)
{
	struct fixture *f = *state;

	OK(rk_sim_fault_add(f->world.sim, "driver-down@r1-t01/0", err));
	struct rk_plane_check c = verify(f, true, RK_UNREACHABLE);
	assert_string_equal(c.verdict, "unknown");
	assert_string_equal(c.seen, "4 of 4 GPUs");
	assert_string_equal(c.message, "a-01 did not answer: nvidia-smi -q -x ended with 9: NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.");
	OK(rk_sim_fault_add(f->world.sim, "driver-up@r1-t01/0", err));
	assert_string_equal(verify(f, true, 0).seen, "8 of 8 GPUs");
}

static void a_vm_that_is_off_on_purpose_is_not_asked(void **state)
{
	struct fixture *f = *state;
	int vm = rk_find_vm(f->world.site, "a-01");
	const struct rk_power_request q = { .verb = "stop", .off = true, .vms = &vm, .n = 1, .grace_s = 60 };
	int64_t op;

	OK(rk_vm_power(&f->world, &q, &op, err));
	OK(rk_world_refresh(&f->world, err));
	assert_string_equal(verify(f, true, 0).seen, "4 of 4 GPUs");
}

/* As in a site of hundreds of racks. */
static void what_a_partition_costs_does_not_grow_with_the_others(void **state)
{
	enum { PARTITIONS = 400, GPUS = 72 };
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_nvl_seen *seen = rk_arena_array(arena, PARTITIONS * GPUS, sizeof(*seen));
	struct rk_nvl_tally tally;

	(void)state;
	for (int i = 0; i < PARTITIONS * GPUS; i++)
		seen[i] = (struct rk_nvl_seen){ .partition = i / GPUS, .vm = "a-01", .gpu = i % 4, .agrees = i % GPUS > 1, .differs = i % GPUS == 0 ? "State In Progress" : NULL,
						.why = i % GPUS == 1 ? "State is not told" : NULL };
	size_t before = rk_arena_bytes(arena);
	for (int p = 0; p < PARTITIONS; p++) {
		rk_nvl_tally(seen, PARTITIONS * GPUS, p, arena, &tally);
		assert_int_equal(tally.asked, GPUS);
		assert_int_equal(tally.agree, GPUS - 2);
		assert_int_equal(tally.n_differ, 1);
		assert_string_equal(tally.differ[0], "a-01/0 (State In Progress)");
		assert_int_equal(tally.n_silent, 1);
		assert_string_equal(tally.silent[0], "a-01/1");
		assert_string_equal(tally.why, "State is not told");
	}
	assert_true(rk_arena_bytes(arena) - before < (size_t)PARTITIONS * GPUS * 64);
}

/* ---- what is kept ----------------------------------------------------------------------------------------------------------------------- */

static const struct rk_nvl_note *note_of(struct fixture *f, const char *rack)
{
	struct rk_nvl_note *notes;
	size_t n;

	OK(rk_store_nvl_notes(f->world.store, f->arena, &notes, &n, err));
	for (size_t i = 0; i < n; i++)
		if (strcmp(notes[i].rack, rack) == 0)
			return &notes[i];
	return NULL;
}

/* With its time, and without being a change that others' plans have to be made again for. */
static void what_was_read_is_kept_with_its_age(void **state)
{
	struct fixture *f = *state;

	assert_null(note_of(f, "r1"));
	verify(f, false, 0);
	const struct rk_nvl_note *note = note_of(f, "r1");
	assert_int_equal(note->live, 8);
	assert_true(note->live_ms > 0);
	assert_int_equal(note->seen_ms, 0);
	verify(f, true, 0);
	OK(rk_sim_fault_add(f->world.sim, "gpu-leave@r1-t01/2", err));
	verify(f, false, RK_UNHEALTHY);
	note = note_of(f, "r1");
	assert_int_equal(note->live, 7);
	assert_int_equal(note->seen, 8);
	assert_int_equal(note->asked, 8);
	int64_t revision = f->world.site->revision;
	OK(rk_world_refresh(&f->world, err));
	assert_int_equal(f->world.site->revision, revision);
}

static void a_switch_that_does_not_answer_leaves_the_old_reading(void **state)
{
	struct fixture *f = *state;

	verify(f, false, 0);
	OK(rk_sim_fault_add(f->world.sim, "nvl.list@r1=hang", err));
	verify(f, false, RK_UNREACHABLE);
	assert_int_equal(note_of(f, "r1")->live, 8);
}

static void a_reader_that_takes_no_notes_keeps_nothing(void **state)
{
	struct fixture *f = *state;

	f->world.no_notes = true;
	verify(f, true, 0);
	assert_null(note_of(f, "r1"));
}

static struct rk_plane_check controller(struct fixture *f, int class)
{
	struct rk_plane_check *checks;
	size_t n;

	assert_int_equal(rk_nvlink_verify(&f->world, "r1", false, f->arena, &checks, &n, NULL), class);
	assert_string_equal(checks[0].object, "r1");
	return checks[0];
}

/* Told once: from then on it is where it is. */
static void a_controller_that_moved_is_named_with_where_it_was(void **state)
{
	struct fixture *f = *state;

	OK(rk_store_note_nvl_controller(f->world.store, "r1", "admin@elsewhere", err));
	struct rk_plane_check c = controller(f, 0);
	assert_string_equal(c.verdict, "pass");
	assert_non_null(strstr(c.message, "the controller moved here from admin@elsewhere, where it was last seen at "));
	assert_null(controller(f, 0).message);
}

/* Its switch does not answer, or says that it does not work: where it was last is what there is to go by. */
static void a_controller_that_is_down_is_named_with_where_it_was(void **state)
{
	static const struct { const char *fault; int class; const char *verdict; } rows[] = {
		{ "nvl.list@r1=hang", RK_UNREACHABLE, "unknown" }, { "nvl.health@r1=hang", RK_UNREACHABLE, "unknown" } };
	struct fixture *f = *state;

	OK(rk_store_note_nvl_controller(f->world.store, "r1", "admin@elsewhere", err));
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		OK(rk_sim_fault_add(f->world.sim, rows[i].fault, err));
		struct rk_plane_check c = controller(f, rows[i].class);
		assert_string_equal(c.verdict, rows[i].verdict);
		assert_non_null(strstr(c.message, "no answer in time; the controller was last seen on admin@elsewhere at "));
		rk_sim_fault_clear(f->world.sim);
	}
}

/* Another partition of the same name was never read. */
static void what_was_read_of_an_earlier_partition_is_forgotten(void **state)
{
	struct fixture *f = *state;
	int64_t op;

	verify(f, true, 0);
	OK(rk_cluster_delete(&f->world, "a", &op, err));
	rk_clock_sleep_ms(NULL, 2);
	OK(rk_cluster_create(&f->world, spec_of(f->arena, "a", "t", 4, 1, false), &op, err));
	OK(rk_world_refresh(&f->world, err));
	assert_null(note_of(f, "r1"));
}

/* ---- applied ------------------------------------------------------------------------------------------------------------------------------ */

static long applied(struct fixture *f, const char *rack)
{
	long *all;

	OK(rk_world_refresh(&f->world, err));
	OK(rk_nvl_applied(&f->world, f->arena, &all, err));
	for (size_t i = 0; i < f->world.site->n_nvl_partitions; i++)
		if (strcmp(f->world.site->racks[f->world.site->nvl_partitions[i].rack].name, rack) == 0)
			return all[i];
	return -1;
}

/* A delete that stopped halfway: one rack's GPUs are out, the other's are not. */
static void an_operation_that_is_not_over_shows_what_it_has_done(void **state)
{
	struct fixture *f = *state;
	int64_t op;

	OK(rk_sim_fault_add(f->world.sim, "nvl.drop@r2=fail", err));
	assert_int_equal(rk_cluster_delete(&f->world, "a", &op, NULL), RK_PARTIAL);
	assert_int_equal(applied(f, "r1"), 0);
	assert_int_equal(applied(f, "r2"), 8);
	rk_sim_fault_clear(f->world.sim);
	OK(rk_op_resume(&f->world, op, err));
	assert_int_equal(applied(f, "r1"), -1);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, end_world)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(guests_are_asked_only_when_told),
		WITH(a_gpu_that_the_guest_does_not_see_fails_when_guests_are_asked),
		WITH(a_guest_that_does_not_answer_is_unknown),
		WITH(a_guest_whose_nvidia_smi_fails_is_unknown_and_says_why),
		cmocka_unit_test(what_a_partition_costs_does_not_grow_with_the_others),
		WITH(a_vm_that_is_off_on_purpose_is_not_asked),
		WITH(what_was_read_is_kept_with_its_age),
		WITH(a_switch_that_does_not_answer_leaves_the_old_reading),
		WITH(a_reader_that_takes_no_notes_keeps_nothing),
		WITH(a_controller_that_moved_is_named_with_where_it_was),
		WITH(a_controller_that_is_down_is_named_with_where_it_was),
		WITH(what_was_read_of_an_earlier_partition_is_forgotten),
		WITH(an_operation_that_is_not_over_shows_what_it_has_done),
	};

	keep_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
