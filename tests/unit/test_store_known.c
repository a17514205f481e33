#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "inventory/base/clock.h"
#include "inventory/topology.h"
#include "tests/contract/store_kinds.h"

/* The contract of every kind of store, second part: what is known of the site without being its inventory (what was seen, measured, silenced), what
 * steps and watchers ask, changes in parts. The first part is test_store_contract.c. */

/* ---- what was seen -------------------------------------------------------------------------------------------------------------------- */

static void notes_of_partitions_keep_what_was_not_read_now_and_die_with_the_partition(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_nvl_note *notes;
	size_t n;

	add_cluster(f->store, "moss", "heron", 0);
	must(rk_store_add_nvl_partition(f->store, "k1", 7, "moss", "moss", &err));
	must(rk_store_add_nvl_partition(f->store, "k2", 7, "moss", "moss", &err));
	int64_t revision;
	{
		RK_CLEANUP_SITE struct rk_site *s = snapshot(f->store);
		revision = s->revision;
	}
	must(rk_store_nvl_notes(f->store, arena, &notes, &n, &err));
	assert_int_equal(n, 0);
	must(rk_store_note_nvl(f->store, &(struct rk_nvl_note){ .rack = "k1", .name = "moss", .live = 8 }, &err));
	must(rk_store_note_nvl(f->store, &(struct rk_nvl_note){ .rack = "k1", .name = "moss", .live = -1, .seen = 4, .asked = 8 }, &err));
	must(rk_store_note_nvl(f->store, &(struct rk_nvl_note){ .rack = "k1", .name = "moss", .live = 0 }, &err)); /* again: the newest counts */
	must(rk_store_note_nvl(f->store, &(struct rk_nvl_note){ .rack = "k3", .name = "gone", .live = 4 }, &err));
	must(rk_store_nvl_notes(f->store, arena, &notes, &n, &err));
	assert_int_equal(n, 1);
	assert_string_equal(notes[0].rack, "k1");
	assert_int_equal(notes[0].live, 0);
	assert_int_equal(notes[0].seen, 4);
	assert_int_equal(notes[0].asked, 8);
	assert_true(notes[0].live_ms > 0 && notes[0].seen_ms > 0);
	must(rk_store_remove_nvl_partition(f->store, "k1", "moss", &err));
	must(rk_store_nvl_notes(f->store, arena, &notes, &n, &err));
	assert_int_equal(n, 0);
	RK_CLEANUP_SITE struct rk_site *after = snapshot(f->store);
	assert_int_equal(after->revision, revision + 1); /* notes disturb no plan */
}

static void the_controller_of_a_rack_is_the_one_that_was_seen_last(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	const char *where = "x";
	int64_t at = 1;

	must(rk_store_nvl_controller(f->store, "k1", arena, &where, &at, &err));
	assert_null(where);
	assert_int_equal(at, 0);
	must(rk_store_note_nvl_controller(f->store, "k1", "k1-sw1", &err));
	must(rk_store_note_nvl_controller(f->store, "k1", "k1-sw2", &err));
	must(rk_store_nvl_controller(f->store, "k1", arena, &where, &at, &err));
	assert_string_equal(where, "k1-sw2");
	assert_true(at > 0);
}

static void what_leaks_and_what_is_dry_again_is_told(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);

	must(rk_store_set_tray_leak(f->store, "k1-t01", "LeakDetector_1 Critical", &err));
	refused(rk_store_set_tray_leak(f->store, "k9-t01", "x", &err), RK_NOT_FOUND, "no tray \"k9-t01\"");
	RK_CLEANUP_SITE struct rk_site *wet = snapshot(f->store);
	assert_string_equal(wet->trays[0].leak, "LeakDetector_1 Critical");
	assert_int_equal(rk_tray_state(wet, 0), RK_TRAY_FAULTY);
	must(rk_store_set_tray_leak(f->store, "k1-t01", NULL, &err));
	RK_CLEANUP_SITE struct rk_site *dry = snapshot(f->store);
	assert_null(dry->trays[0].leak);
}

/* ---- health --------------------------------------------------------------------------------------------------------------------------- */

static void silences_come_and_go_by_number(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	const struct rk_silence one = { .trays = "k1-t[01-02]", .checks = "ib.*", .reason = "m\xc3\xb6ss 'x'", .from_unix_ms = 1000, .to_unix_ms = 2000 };
	const struct rk_silence all = { .trays = "k2-t01", .reason = "moved", .from_unix_ms = 5, .to_unix_ms = INT64_C(4102444800000), .by = "carol@there 9" };
	int64_t first, second;

	must(rk_store_add_silence(f->store, &one, &first, &err));
	must(rk_store_add_silence(f->store, &all, &second, &err));
	assert_true(second > first);
	RK_CLEANUP_SITE struct rk_site *s = snapshot(f->store);
	assert_int_equal(s->n_silences, 2);
	assert_string_equal(s->silences[0].checks, "ib.*");
	assert_string_equal(s->silences[0].reason, one.reason);
	assert_string_equal(s->silences[0].by, "alice@console 4711");
	assert_null(s->silences[1].checks);
	assert_string_equal(s->silences[1].by, "carol@there 9");
	assert_true(s->silences[1].to_unix_ms == all.to_unix_ms);
	must(rk_store_remove_silence(f->store, first, &err));
	refused(rk_store_remove_silence(f->store, first, &err), RK_NOT_FOUND, "no silence");
	must(rk_store_add_silence(f->store, &one, &first, &err));
	assert_true(first > second); /* a number is not given twice */
	RK_CLEANUP_SITE struct rk_site *after = snapshot(f->store);
	assert_int_equal(after->n_silences, 2);
}

static void the_last_samples_of_each_target_are_kept(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_health_sample *samples;
	size_t n;

	for (int i = 1; i <= RK_HEALTH_SAMPLES + 3; i++) {
		const struct rk_health_sample now[] = { { "k1-t01", i, i % 2 ? "{\"n\":1}" : "{\"n\":2}" }, { "k1-t02", 1, "{}" } };
		must(rk_store_add_health_samples(f->store, now, 2, &err));
	}
	must(rk_store_health_samples(f->store, "k1-t01", arena, &samples, &n, &err));
	assert_int_equal(n, RK_HEALTH_SAMPLES);
	assert_int_equal(samples[0].at_ms, RK_HEALTH_SAMPLES + 3);
	assert_int_equal(samples[n - 1].at_ms, 4);
	must(rk_store_add_health_samples(f->store, &(struct rk_health_sample){ "k1-t01", 4, "{\"again\":true}" }, 1, &err));
	must(rk_store_health_samples(f->store, NULL, arena, &samples, &n, &err));
	assert_int_equal(n, RK_HEALTH_SAMPLES + 1);
	assert_string_equal(samples[n - 2].body, "{\"again\":true}"); /* one per moment */
	assert_string_equal(samples[n - 1].target, "k1-t02");
	must(rk_store_health_samples(f->store, "k9-t09", arena, &samples, &n, &err));
	assert_int_equal(n, 0);
	RK_CLEANUP_SITE struct rk_site *s = snapshot(f->store);
	assert_int_equal(s->revision, 1);
}

/* ---- what others do ------------------------------------------------------------------------------------------------------------------- */

static bool beats(struct fixture *f, struct rk_str *last)
{
	struct rk_str now RK_CLEANUP_STR = RK_STR_INIT;

	must(rk_store_pulse(f->store, &now, &err));
	assert_true(now.len > 0);
	bool same = rk_streq(rk_str_text(&now), rk_str_text(last));
	rk_str_clear(last);
	rk_str_add(last, rk_str_text(&now));
	return !same;
}

static void the_pulse_changes_with_the_site_and_with_operations_alone(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	struct rk_str last RK_CLEANUP_STR = RK_STR_INIT;
	int64_t op, brief;

	beats(f, &last);
	assert_false(beats(f, &last));
	must(rk_store_set_tray_cordon(f->store, "k1-t01", "fan", &err));
	assert_true(beats(f, &last));
	must(rk_store_audit(f->store, "something", "ok", 0, &err));
	must(rk_store_note_nvl_controller(f->store, "k1", "k1-sw1", &err));
	assert_false(beats(f, &last));
	must(rk_store_op_add(f->store, "a", "{}", &op, &err));
	assert_true(beats(f, &last));
	must(rk_store_op_set(f->store, op, "awaiting-confirm", NULL, &err));
	assert_true(beats(f, &last));
	must(rk_store_op_add(f->store, "b", "{}", &brief, &err));
	must(rk_store_op_set(f->store, brief, "done", NULL, &err));
	assert_true(beats(f, &last)); /* began and ended meanwhile */
	must(rk_store_op_set(f->store, op, "rolled-back", NULL, &err));
	assert_true(beats(f, &last));
	assert_false(beats(f, &last));
}

static void open_operations_and_the_newest_are_found_among_those_that_are_over(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	int64_t ops[6];
	struct rk_op_row *rows;
	size_t n;

	for (int i = 0; i < 6; i++)
		must(rk_store_op_add(f->store, "x", "{}", &ops[i], &err));
	for (int i = 0; i < 6; i++)
		must(rk_store_op_set(f->store, ops[i], i == 1 ? "awaiting-confirm" : i == 2 ? "resumable" : "done", NULL, &err));
	must(rk_store_op_open(f->store, ops[5], arena, &rows, &n, &err));
	assert_int_equal(n, 3);
	assert_int_equal(rows[0].id, ops[5]);
	assert_int_equal(rows[1].id, ops[2]);
	assert_int_equal(rows[2].id, ops[1]);
	must(rk_store_op_newest(f->store, 2, arena, &rows, &n, &err));
	assert_int_equal(n, 2);
	assert_int_equal(rows[0].id, ops[5]);
	assert_int_equal(rows[1].id, ops[4]);
}

/* ---- lanes, leases and what steps ask ---------------------------------------------------------------------------------------------------- */

static void a_lane_is_held_by_one_operation_until_its_runner_gives_it_back(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	const struct rk_actor here = { "dave", "console", getpid() }, next = { "erin", "console", getppid() };
	RK_CLEANUP_ERR struct rk_err said = RK_ERR_INIT;
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_store *mine = f->kind->shared ? open_as(f->uri, &here, RK_STORE_WRITE) : f->store;
	bool taken = false, held = false;
	const char *former;
	int64_t op, other;

	must(rk_store_op_add(mine, "one", "{}", &op, &err));
	must(rk_store_op_add(mine, "two", "{}", &other, &err));
	must(rk_store_lane_take(mine, "nvlink:k1", op, "nvl.partition k1/1", &taken, NULL, &err));
	assert_true(taken);
	must(rk_store_lease_held(mine, "nvlink:k1", &held, &err));
	assert_true(held);
	must(rk_store_lease_keep(mine, op, &err));
	if (f->kind->shared) { /* the other kind has a process id that is nobody's */
		must(rk_store_lane_take(mine, "nvlink:k1", other, "nvl.remove k1/2", &taken, &said, &err));
		assert_false(taken);
		assert_non_null(strstr(said.message, "held by dave@console"));
		assert_non_null(strstr(said.message, "nvl.partition k1/1"));
		RK_CLEANUP_STORE struct rk_store *theirs = open_as(f->uri, &next, RK_STORE_WRITE);
		must(rk_store_lease_takeover(theirs, op, arena, &former, &err));
		must(rk_store_lane_drop(mine, "nvlink:k1", op, &err)); /* not its own any more */
		must(rk_store_lease_held(mine, "nvlink:k1", &held, &err));
		assert_true(held);
		refused(rk_store_lease_take(mine, "nvlink:k1", op, "x", &err), RK_CONFLICT, "held by erin@console");
		must(rk_store_lane_drop(theirs, "nvlink:k1", op, &err));
	} else {
		must(rk_store_lane_drop(mine, "nvlink:k1", op, &err));
	}
	must(rk_store_lease_held(mine, "nvlink:k1", &held, &err));
	assert_false(held);
	must(rk_store_lane_take(mine, "nvlink:k1", other, "x", &taken, NULL, &err));
	assert_true(taken);
	if (mine != f->store)
		rk_store_close(mine);
}

static void what_a_cluster_has_now_and_what_a_step_was_told_is_known(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	const char *params = "x";
	int64_t first, second;
	bool known;

	add_cluster(f->store, "moss", "heron", 0);
	must(rk_store_add_nvl_partition(f->store, "k1", 7, "moss", "moss", &err));
	must(rk_store_add_ib_partition(f->store, "ib0", 0x123, "moss", "moss", true, &err));
	const struct {
		const char *rack, *name;
		int id;
		bool known;
	} rows[] = { { "k1", "moss", 7, true }, { "k1", "moss", 8, true }, { "k1", "fern", 7, true }, { "k1", "fern", 8, false }, { "k2", "moss", 7, false } };
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		must(rk_store_nvl_known(f->store, rows[i].rack, rows[i].id, rows[i].name, &known, &err));
		assert_int_equal(known, rows[i].known);
	}
	must(rk_store_ib_known(f->store, "ib0", 0x123, &known, &err));
	assert_true(known);
	must(rk_store_remove_ib_partition(f->store, "ib0", 0x123, &err));
	must(rk_store_ib_known(f->store, "ib0", 0x123, &known, &err));
	assert_false(known);
	refused(rk_store_remove_ib_partition(f->store, "ib0", 0x123, &err), RK_NOT_FOUND, "");
	must(rk_store_step_params(f->store, "ib.partition", "ib0/0x0123", arena, &params, &err));
	assert_null(params);
	must(rk_store_op_add(f->store, "one", "{}", &first, &err));
	must(rk_store_op_add(f->store, "two", "{}", &second, &err));
	for (int i = 0; i < 2; i++)
		must(rk_store_step_add(f->store, &(struct rk_step_row){ .op = i ? first : second, .id = 1, .kind = "ib.partition", .target = "ib0/0x0123",
									.params = i ? "{\"old\":1}" : "{\"new\":1}", .deps = "", .state = "planned" }, &err));
	must(rk_store_step_params(f->store, "ib.partition", "ib0/0x0123", arena, &params, &err));
	assert_string_equal(params, "{\"new\":1}");
}

static void a_partition_is_known_as_made_by_its_journal(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	static const struct {
		const char *rack, *name;
		int id;
		bool known;
	} rows[] = { { "k1", "moss", 7, true }, { "k1", "moss", RK_NONE, true }, { "k1", "moss", 8, false }, { "k1", "fern", RK_NONE, false }, { "k", "moss", RK_NONE, false } };
	int64_t op;
	bool known;

	must(rk_store_op_add(f->store, "one", "{}", &op, &err));
	must(rk_store_step_add(f->store, &(struct rk_step_row){ .op = op, .id = 1, .kind = "nvl.partition", .target = "k1/7", .params = "{\"rack\":\"k1\",\"id\":7,\"name\":\"moss\"}",
								.deps = "", .state = "planned" }, &err));
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		must(rk_store_nvl_made(f->store, rows[i].rack, rows[i].id, rows[i].name, &known, &err));
		assert_int_equal(known, rows[i].known);
	}
}

/* ---- clusters and their VMs --------------------------------------------------------------------------------------------------------------- */

static void a_vm_moves_with_everything_it_holds(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	const struct rk_tray *to = &f->site->trays[9];
	uint64_t gpus[RK_GPUS_MAX], ports[RK_RAILS_MAX];

	add_cluster(f->store, "moss", "heron", 0);
	must(try_vm(f->store, f->site, "moss", 1, 0, &err));
	must(try_vm(f->store, f->site, "moss", 2, 1, &err));
	for (int i = 0; i < to->n_gpus; i++)
		gpus[i] = f->site->gpus[to->first_gpu + i].fabric_guid;
	for (int i = 0; i < to->n_hcas; i++)
		ports[i] = f->site->hcas[to->first_hca + i].port_guid;
	struct rk_new_vm vm = { .name = "moss-01", .cluster = "moss", .tray = f->site->trays[1].name, .uuid = "second-body", .address = "10.44.0.90", .mac = "52:54:00:00:00:02",
				.host_key_public = "ssh-ed25519 BBBB", .host_key_private = "NEW", .number = 1, .ssh_port = 22, .generation = 2, .gpu_guids = gpus,
				.n_gpu_guids = (size_t)to->n_gpus, .port_guids = ports, .n_port_guids = (size_t)to->n_hcas };
	refused(rk_store_move_vm(f->store, &vm, &err), RK_CONFLICT, "is held by VM moss-02");
	vm.tray = to->name;
	must(rk_store_move_vm(f->store, &vm, &err));
	RK_CLEANUP_SITE struct rk_site *s = snapshot(f->store);
	int at = rk_find_vm(s, "moss-01");
	assert_int_equal(s->vms[at].tray, 9);
	assert_int_equal(s->vms[at].generation, 2);
	assert_int_equal(s->vms[at].number, 1);
	assert_string_equal(s->vms[at].uuid, "second-body");
	assert_string_equal(s->vms[at].address, "10.44.0.90");
	assert_int_equal(s->trays[0].vm, RK_NONE);
	must(rk_store_check(f->store, &err));
	must(try_vm(f->store, f->site, "moss", 3, 0, &err)); /* what it left is free */
	vm.name = "moss-09";
	refused(rk_store_move_vm(f->store, &vm, &err), RK_NOT_FOUND, "no VM \"moss-09\"");
}

static void a_cluster_changes_state_and_segment(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	int64_t op, id;

	add_cluster(f->store, "moss", "heron", 0);
	must(rk_store_op_add(f->store, "cluster grow moss", "{}", &op, &err));
	must(rk_store_set_cluster_state(f->store, "moss", RK_CLUSTER_BUILDING, op, &err));
	must(rk_store_set_cluster_segment(f->store, "moss", 16, &err));
	RK_CLEANUP_SITE struct rk_site *s = snapshot(f->store);
	assert_int_equal(s->clusters[0].state, RK_CLUSTER_BUILDING);
	assert_int_equal(s->clusters[0].op, op);
	assert_int_equal(s->clusters[0].segment, 16);
	must(rk_store_set_cluster_state(f->store, "moss", RK_CLUSTER_READY, 0, &err));
	refused(rk_store_set_cluster_state(f->store, "fern", RK_CLUSTER_READY, 0, &err), RK_NOT_FOUND, "no cluster \"fern\"");
	refused(rk_store_set_cluster_segment(f->store, "fern", 2, &err), RK_NOT_FOUND, "no cluster \"fern\"");
	must(rk_store_add_reservation(f->store, "heron", NULL, 5, 1000, 2000, &id, &err));
	must(rk_store_remove_reservation(f->store, id, &err));
	refused(rk_store_remove_reservation(f->store, id, &err), RK_NOT_FOUND, "no reservation");
	RK_CLEANUP_SITE struct rk_site *after = snapshot(f->store);
	assert_int_equal(after->clusters[0].state, RK_CLUSTER_READY);
	assert_int_equal(after->clusters[0].op, 0);
	assert_int_equal(after->n_reservations, 0);
}

/* ---- a change in parts -------------------------------------------------------------------------------------------------------------------- */

static void a_part_that_is_taken_back_leaves_the_others_and_counts_once(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);

	must(rk_store_begin(f->store, 1, &err));
	rk_store_compose(f->store, true);
	must(rk_store_begin(f->store, 1, &err)); /* planned against the whole */
	must(rk_store_set_tray_cordon(f->store, "k1-t01", "one", &err));
	must(rk_store_commit(f->store, &err));
	must(rk_store_begin(f->store, -1, &err));
	must(rk_store_set_tray_cordon(f->store, "k1-t02", "two", &err));
	add_cluster(f->store, "moss", "heron", 0);
	refused(try_vm(f->store, f->site, "fern", 1, 0, &err), RK_NOT_FOUND, "no cluster \"fern\"");
	rk_store_rollback(f->store);
	must(rk_store_begin(f->store, -1, &err));
	must(rk_store_set_tray_cordon(f->store, "k1-t03", "three", &err));
	must(rk_store_commit(f->store, &err));
	{
		RK_CLEANUP_SITE struct rk_site *inside = snapshot(f->store);
		assert_string_equal(inside->trays[0].cordon, "one");
		assert_null(inside->trays[1].cordon);
	}
	rk_store_compose(f->store, false);
	must(rk_store_commit(f->store, &err));
	RK_CLEANUP_SITE struct rk_site *s = snapshot(f->store);
	assert_int_equal(s->revision, 2);
	assert_int_equal(s->n_clusters, 0);
	assert_string_equal(s->trays[0].cordon, "one");
	assert_null(s->trays[1].cordon);
	assert_string_equal(s->trays[2].cordon, "three");
	/* All of it goes with the whole. */
	must(rk_store_begin(f->store, 2, &err));
	rk_store_compose(f->store, true);
	must(rk_store_begin(f->store, -1, &err));
	must(rk_store_set_tray_cordon(f->store, "k1-t04", "four", &err));
	must(rk_store_commit(f->store, &err));
	rk_store_compose(f->store, false);
	rk_store_rollback(f->store);
	RK_CLEANUP_SITE struct rk_site *after = snapshot(f->store);
	assert_int_equal(after->revision, 2);
	assert_null(after->trays[3].cordon);
}

/* ---- fabrics ---------------------------------------------------------------------------------------------------------------------------- */

static void the_imported_fabric_places_the_ports(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	struct rk_store *store = f->store;
	const struct rk_site *site = f->site;
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	uint64_t guid = site->hcas[0].port_guid;
	const char *text, *none = "x";

	must(rk_store_get_topology(store, "ib0", arena, &none, &err));
	assert_null(none);
	text = rk_arena_printf(arena,
			       "vendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0xa1\nswitchguid=0xa1(a1)\n"
			       "Switch\t64 \"S-00000000000000a1\"\t\t# \"leaf-one\" enhanced port 0 lid 1 lmc 0\n"
			       "[7]\t\"H-%016llx\"[1](%llx) \t\t# \"k1-t01 mlx5_0\" lid 2 4xXDR\n\n"
			       "vendid=0x2c9\ndevid=0x1023\nsysimgguid=0x%llx\ncaguid=0x%llx\n"
			       "Ca\t1 \"H-%016llx\"\t\t# \"k1-t01 mlx5_0\"\n"
			       "[1](%llx) \t\"S-00000000000000a1\"[7]\t\t# lid 2 lmc 0 \"leaf-one\" lid 1 4xXDR\n",
			       (unsigned long long)guid, (unsigned long long)guid, (unsigned long long)guid, (unsigned long long)guid,
			       (unsigned long long)guid, (unsigned long long)guid);
	must(rk_store_put_topology(store, "ib0", text, &err));
	must(rk_store_put_site(store, site, &err)); /* an import keeps it */
	RK_CLEANUP_SITE struct rk_site *placed = snapshot(store);
	assert_string_equal(placed->hcas[0].leaf, "leaf-one");
	assert_int_equal(placed->hcas[0].leaf_port, 7);
	assert_null(placed->hcas[1].leaf);
	must(rk_store_get_topology(store, "ib0", arena, &none, &err));
	assert_string_equal(none, text);
	refused(rk_store_put_topology(store, "ib7", text, &err), RK_NOT_FOUND, "no fabric \"ib7\"");
}

/* The first clean import is the state to keep; a later one is judged against it, until it is accepted itself. */
static void a_later_fabric_is_compared_with_the_accepted_one(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	struct rk_store *store = f->store;
	RK_CLEANUP_SITE struct rk_site *site = site_of_tests();
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	RK_CLEANUP(rk_cleanup_topology) struct rk_topology *now = NULL;
	struct rk_str clean RK_CLEANUP_STR = RK_STR_INIT, less RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_ib_finding *found;
	size_t n;

	rk_topology_plan(site, 0, NULL, &clean);
	site->hcas[5].port_guid = 0; /* its port has no cable */
	rk_topology_plan(site, 0, NULL, &less);
	must(rk_store_put_topology(store, "ib0", rk_str_text(&clean), &err));
	must(rk_store_put_topology(store, "ib0", rk_str_text(&less), &err));
	must(rk_topology_parse("less", rk_str_text(&less), less.len, &now, &err));
	must(rk_store_judge_topology(store, now, f->site, 0, arena, &found, &n, &err));
	assert_int_equal(n, 2);
	assert_string_equal(found[0].kind, "missing-hca");
	assert_string_equal(found[1].kind, "lost");
	must(rk_store_accept_topology(store, "ib0", rk_str_text(&less), &err));
	must(rk_store_judge_topology(store, now, f->site, 0, arena, &found, &n, &err));
	assert_int_equal(n, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ALL(notes_of_partitions_keep_what_was_not_read_now_and_die_with_the_partition),
		ALL(the_controller_of_a_rack_is_the_one_that_was_seen_last),
		ALL(what_leaks_and_what_is_dry_again_is_told),
		ALL(silences_come_and_go_by_number),
		ALL(the_last_samples_of_each_target_are_kept),
		ALL(the_pulse_changes_with_the_site_and_with_operations_alone),
		ALL(open_operations_and_the_newest_are_found_among_those_that_are_over),
		ALL(a_lane_is_held_by_one_operation_until_its_runner_gives_it_back),
		ALL(what_a_cluster_has_now_and_what_a_step_was_told_is_known),
		ALL(a_partition_is_known_as_made_by_its_journal),
		ALL(a_vm_moves_with_everything_it_holds),
		ALL(a_cluster_changes_state_and_segment),
		ALL(a_part_that_is_taken_back_leaves_the_others_and_counts_once),
		ALL(the_imported_fabric_places_the_ports),
		ALL(a_later_fabric_is_compared_with_the_accepted_one),
	};

	return run_store_tests(tests);
}
