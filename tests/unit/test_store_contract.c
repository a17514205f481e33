#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "inventory/base/clock.h"
#include "inventory/tray_identity.h"
#include "tests/contract/store_kinds.h"

/* One contract for every kind of store. Each test gets a store of its own. */

static void an_import_is_read_back_as_it_was(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	RK_CLEANUP_SITE struct rk_site *back = snapshot(f->store);
	RK_CLEANUP_STR struct rk_str a = RK_STR_INIT, b = RK_STR_INIT;

	rk_site_export(f->site, &a);
	rk_site_export(back, &b);
	assert_string_equal(rk_str_text(&a), rk_str_text(&b));
	assert_int_equal(back->revision, 1);
	assert_int_equal(back->n_trays, 4 * 17);
	assert_int_equal(back->racks[2].nvlink.n_ssh, 9);
	assert_string_equal(back->racks[2].nvlink.ssh[8], f->site->racks[2].nvlink.ssh[8]);
	assert_int_equal(rk_find_gpu_guid(back, f->site->gpus[100].fabric_guid), 100);
	assert_int_equal(rk_find_hca_guid(back, f->site->hcas[100].port_guid), 100);
}

static void a_cluster_is_read_back_with_all_it_holds(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	int64_t op = 0;

	must(rk_store_begin(f->store, 1, &err));
	must(rk_store_op_add(f->store, "cluster create b", "{}", &op, &err));
	add_cluster(f->store, "b", "osprey", op);
	add_cluster(f->store, "a", "heron", 0);
	must(try_vm(f->store, f->site, "b", 2, 20, &err));
	must(try_vm(f->store, f->site, "b", 1, 3, &err));
	must(try_vm(f->store, f->site, "a", 1, 0, &err));
	must(rk_store_add_nvl_partition(f->store, "k1", 1, "b", "b", &err));
	must(rk_store_add_nvl_partition(f->store, "k2", 1, "b", "b", &err));
	must(rk_store_add_ib_partition(f->store, "ib0", 0x100, "b", "b", true, &err));
	must(rk_store_set_vm_state(f->store, "b-02", RK_VM_RUNNING, &err));
	must(rk_store_set_cluster_validation(f->store, "b", "{\"verdict\":\"pass\"}", &err));
	must(rk_store_commit(f->store, &err));

	RK_CLEANUP_SITE struct rk_site *s = snapshot(f->store);
	assert_int_equal(s->revision, 2);
	assert_int_equal(s->n_clusters, 2);
	assert_string_equal(s->clusters[0].name, "a");
	const struct rk_cluster *b = &s->clusters[1];
	assert_int_equal(b->op, op);
	assert_string_equal(s->tenants[b->tenant].name, "osprey");
	assert_int_equal(b->state, RK_CLUSTER_PLANNED);
	assert_int_equal(b->n_vms, 2);
	assert_int_equal(b->n_nvl, 2);
	assert_int_equal(b->next_number, 3);
	assert_string_equal(b->validation, "{\"verdict\":\"pass\"}");
	assert_string_equal(s->vms[b->first_vm].name, "b-01");
	assert_int_equal(s->vms[b->first_vm].tray, 3);
	assert_int_equal(s->vms[b->first_vm + 1].state, RK_VM_RUNNING);
	assert_int_equal(s->trays[20].vm, b->first_vm + 1);
	assert_int_equal(s->ib_partitions[b->ib].pkey, 0x100);
	assert_int_equal(rk_tray_state(s, 0), RK_TRAY_ALLOCATED);

	must(rk_store_remove_cluster(f->store, "b", &err));
	RK_CLEANUP_SITE struct rk_site *after = snapshot(f->store);
	assert_int_equal(after->n_vms, 1);
	assert_int_equal(after->n_nvl_partitions + after->n_ib_partitions, 0);
	add_cluster(f->store, "c", "heron", 0);
	must(try_vm(f->store, f->site, "c", 1, 3, &err));
	refused(rk_store_remove_cluster(f->store, "b", &err), RK_NOT_FOUND, "no cluster \"b\"");
}

static void a_revision_that_moved_on_names_who_changed_what(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	struct rk_store *other = f->kind->shared ? open_as(f->uri, &bob, RK_STORE_WRITE) : f->store;

	must(rk_store_set_tray_cordon(other, "k1-t01", "fan", &err));
	refused(rk_store_begin(f->store, 1, &err), RK_CONFLICT, f->kind->shared ? "bob@laptop 4712" : "alice@console 4711");
	refused(rk_store_begin(f->store, 1, &err), RK_CONFLICT, "cordon k1-t01");
	must(rk_store_begin(f->store, 2, &err));
	rk_store_rollback(f->store);
	RK_CLEANUP_SITE struct rk_site *s = snapshot(f->store);
	assert_int_equal(s->revision, 2);
	if (other != f->store)
		rk_store_close(other);
}

static int nvl_id(struct fixture *f, const char *name)
{
	RK_CLEANUP_SITE struct rk_site *s = snapshot(f->store);

	for (size_t i = 0; i < s->n_nvl_partitions; i++)
		if (strcmp(s->nvl_partitions[i].name, name) == 0)
			return s->nvl_partitions[i].id;
	return 0;
}

/* The one that has it already takes the id that becomes free. */
static void an_id_that_the_network_gives_is_kept(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);

	add_cluster(f->store, "a", "heron", 0);
	add_cluster(f->store, "b", "osprey", 0);
	must(rk_store_add_nvl_partition(f->store, "k1", 1, "a", "a", &err));
	must(rk_store_give_nvl_id(f->store, "k1", "a", 2, &err)); /* the first free number */
	assert_int_equal(nvl_id(f, "a"), 2);
	must(rk_store_give_nvl_id(f->store, "k1", "a", 4711, &err));
	assert_int_equal(nvl_id(f, "a"), 4711);
	must(rk_store_add_nvl_partition(f->store, "k1", 5, "b", "b", &err));
	must(rk_store_give_nvl_id(f->store, "k1", "b", 4711, &err));
	assert_int_equal(nvl_id(f, "b"), 4711);
	assert_int_equal(nvl_id(f, "a"), 5);
	refused(rk_store_give_nvl_id(f->store, "k1", "c", 9, &err), RK_NOT_FOUND, "no NVLink partition \"c\"");
}

static void what_is_held_is_refused_with_its_holder(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	int64_t op;

	must(rk_store_begin(f->store, -1, &err));
	must(rk_store_op_add(f->store, "cluster create a", "{}", &op, &err));
	add_cluster(f->store, "a", "heron", op);
	must(try_vm(f->store, f->site, "a", 1, 0, &err));
	must(rk_store_add_nvl_partition(f->store, "k1", 7, "a", "a", &err));
	must(rk_store_add_ib_partition(f->store, "ib0", 0x123, "a", "a", true, &err));
	must(rk_store_commit(f->store, &err));
	add_cluster(f->store, "b", "osprey", 0);

	refused(try_vm(f->store, f->site, "b", 1, 0, &err), RK_CONFLICT, "tray k1-t01 is held by VM a-01 of cluster a (alice@console 4711, since 20");
	refused(try_vm(f->store, f->site, "b", 1, 0, &err), RK_CONFLICT, "cluster create a)");
	refused(try_vm(f->store, f->site, "a", 1, 1, &err), RK_CONFLICT, "is held by VM a-01");
	uint64_t gpu = f->site->gpus[0].fabric_guid, port = f->site->hcas[0].port_guid;
	struct rk_new_vm vm = { .name = "b-01", .cluster = "b", .tray = "k1-t02", .number = 1, .gpu_guids = &gpu, .n_gpu_guids = 1 };
	refused(rk_store_add_vm(f->store, &vm, &err), RK_CONFLICT, "GPU 0x");
	vm.n_gpu_guids = 0;
	vm.port_guids = &port;
	vm.n_port_guids = 1;
	refused(rk_store_add_vm(f->store, &vm, &err), RK_CONFLICT, "port 0x");
	vm.n_port_guids = 0;
	vm.address = "10.44.0.20";
	vm.ssh_port = 22;
	refused(rk_store_add_vm(f->store, &vm, &err), RK_CONFLICT, "address 10.44.0.20 22 is held by VM a-01");
	vm.ssh_port = 2222;
	must(rk_store_add_vm(f->store, &vm, &err));
	refused(rk_store_add_nvl_partition(f->store, "k1", 7, "b", "b", &err), RK_CONFLICT, "NVLink partition k1 7 is held by cluster a");
	must(rk_store_add_nvl_partition(f->store, "k2", 7, "b", "b", &err));
	refused(rk_store_add_ib_partition(f->store, "ib0", 0x123, "b", "b", true, &err), RK_CONFLICT, "is held by cluster a");
	refused(rk_store_add_ib_partition(f->store, "ib9", 0x123, "b", "b", true, &err), RK_NOT_FOUND, "no fabric \"ib9\"");
	refused(rk_store_add_tenant(f->store, "heron", &err), RK_CONFLICT, "exists already");
	refused(rk_store_remove_tenant(f->store, "heron", &err), RK_CONFLICT, "cluster a");
	gpu = 0x77;
	vm = (struct rk_new_vm){ .name = "b-02", .cluster = "b", .tray = "k1-t03", .number = 2, .gpu_guids = &gpu, .n_gpu_guids = 1 };
	refused(rk_store_add_vm(f->store, &vm, &err), RK_INVALID, "not in the inventory");
}

static void a_refusal_leaves_the_transaction_usable(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);

	must(rk_store_begin(f->store, -1, &err));
	add_cluster(f->store, "a", "heron", 0);
	must(try_vm(f->store, f->site, "a", 1, 0, &err));
	refused(try_vm(f->store, f->site, "a", 2, 0, &err), RK_CONFLICT, "is held by VM a-01");
	must(try_vm(f->store, f->site, "a", 2, 1, &err));
	must(rk_store_commit(f->store, &err));
	RK_CLEANUP_SITE struct rk_site *s = snapshot(f->store);
	assert_int_equal(s->n_vms, 2);
}

static void a_rollback_leaves_nothing(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);

	must(rk_store_begin(f->store, -1, &err));
	add_cluster(f->store, "a", "heron", 0);
	must(rk_store_set_rack_cordon(f->store, "k1", "leak", &err));
	rk_store_rollback(f->store);
	RK_CLEANUP_SITE struct rk_site *s = snapshot(f->store);
	assert_int_equal(s->n_clusters, 0);
	assert_null(s->racks[0].cordon);
	assert_int_equal(s->revision, 1);
}

static void a_number_is_never_used_again(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	struct rk_new_vm vm = { .name = "a-02", .cluster = "a", .tray = "k1-t09", .uuid = "another", .number = 2, .generation = 1 };

	add_cluster(f->store, "a", "heron", 0);
	must(try_vm(f->store, f->site, "a", 2, 0, &err));
	must(rk_store_remove_vm(f->store, "a-02", &err));
	refused(rk_store_add_vm(f->store, &vm, &err), RK_CONFLICT, "number 2");
	must(try_vm(f->store, f->site, "a", 2, 0, &err)); /* as it was: a rollback */
	must(rk_store_remove_vm(f->store, "a-02", &err));
	vm.generation = 2;
	must(rk_store_add_vm(f->store, &vm, &err)); /* its repair */
	RK_CLEANUP_SITE struct rk_site *s = snapshot(f->store);
	assert_int_equal(s->clusters[0].next_number, 3);
}

static void the_private_host_key_goes_when_the_guest_was_seen(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	char *key RK_CLEANUP_FREE = NULL, *gone = NULL;

	add_cluster(f->store, "a", "heron", 0);
	must(try_vm(f->store, f->site, "a", 1, 0, &err));
	must(rk_store_vm_host_key(f->store, "a-01", &key, &err));
	assert_string_equal(key, "PRIVATE");
	must(rk_store_clear_vm_host_key(f->store, "a-01", &err));
	must(rk_store_vm_host_key(f->store, "a-01", &gone, &err));
	assert_null(gone);
	refused(rk_store_vm_host_key(f->store, "x-01", &gone, &err), RK_NOT_FOUND, "no VM");
}

static void marks_survive_an_import_and_held_trays_do_not_go(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	RK_CLEANUP_SITE struct rk_site *less = NULL;
	int64_t reservation;
	char *text RK_CLEANUP_FREE = NULL;
	size_t len;

	must(rk_store_set_tray_cordon(f->store, "k1-t01", "fan noise", &err));
	must(rk_store_set_tray_faulty(f->store, "k1-t02", "erase failed", &err));
	must(rk_store_set_tray_offline(f->store, "k1-t03", "power", &err));
	must(rk_store_set_rack_cordon(f->store, "k2", "leak", &err));
	must(rk_store_set_rack_coolant(f->store, "k2", 31.5, 80.25, &err));
	must(rk_store_set_tray_versions(f->store, "k1-t01", "{\"driver\":\"580.2\"}", &err));
	must(rk_store_add_reservation(f->store, "heron", "k[3-4]", 0, 1000, 2000, &reservation, &err));
	must(rk_store_put_site(f->store, f->site, &err));
	RK_CLEANUP_SITE struct rk_site *s = snapshot(f->store);
	assert_string_equal(s->trays[0].cordon, "fan noise");
	assert_string_equal(s->trays[1].faulty, "erase failed");
	assert_string_equal(s->trays[2].offline, "power");
	assert_string_equal(s->racks[1].cordon, "leak");
	assert_true(s->racks[1].supply_c == 31.5 && s->racks[1].flow_lpm == 80.25 && s->racks[0].supply_c == 0);
	assert_string_equal(s->trays[0].versions, "{\"driver\":\"580.2\"}");
	must(rk_store_set_rack_coolant(f->store, "k2", 0, 0, &err));
	assert_int_equal(s->n_reservations, 1);
	assert_string_equal(s->reservations[0].racks, "k[3-4]");

	/* The same site without rack k4, which holds a VM. */
	add_cluster(f->store, "a", "heron", 0);
	must(try_vm(f->store, f->site, "a", 1, 3 * 17 + 4, &err));
	must(rk_file_read("tests/fixtures/store/site.json", 1 << 20, &text, &len, &err));
	memcpy(strstr(text, "k[1-4]"), "k[1-3]", 6);
	must(rk_site_parse("less", text, len, &less, &err));
	rk_site_invent(less);
	refused(rk_store_put_site(f->store, less, &err), RK_CONFLICT, "tray k4-t06 has VM a-01 of cluster a");
	must(rk_store_remove_cluster(f->store, "a", &err));
	must(rk_store_put_site(f->store, less, &err));
	RK_CLEANUP_SITE struct rk_site *after = snapshot(f->store);
	assert_int_equal(after->n_racks, 3);
	must(rk_store_set_tray_cordon(f->store, "k1-t01", NULL, &err));
	refused(rk_store_set_tray_cordon(f->store, "k4-t01", "x", &err), RK_NOT_FOUND, "no tray \"k4-t01\"");
}

static void the_journal_keeps_its_order_and_words(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_op_row *ops, one;
	struct rk_step_row *steps;
	size_t n;
	int64_t first, second;

	must(rk_store_op_add(f->store, "cluster create a", "{\"p\":1}", &first, &err));
	must(rk_store_op_add(f->store, "cluster delete a", NULL, &second, &err));
	assert_true(second > first);
	for (int id = 12; id >= 1; id--)
		must(rk_store_step_add(f->store, &(struct rk_step_row){ .op = first, .id = id, .kind = "vm.start", .target = "a-01", .params = "{}",
									.deps = id > 1 ? "1" : "", .state = "planned" }, &err));
	must(rk_store_step_set(f->store, first, 2, "applying", "{\"was\":0}", NULL, &err));
	must(rk_store_step_set(f->store, first, 2, "done", NULL, "seen", &err));
	refused(rk_store_step_set(f->store, first, 99, "done", NULL, NULL, &err), RK_NOT_FOUND, "no step 99");
	must(rk_store_step_list(f->store, first, arena, &steps, &n, &err));
	assert_int_equal(n, 12);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(steps[i].id, (int)i + 1);
	assert_string_equal(steps[1].state, "done");
	assert_string_equal(steps[1].before, "{\"was\":0}");
	assert_string_equal(steps[1].detail, "seen");
	assert_true(steps[1].started_ms > 0 && steps[1].ended_ms >= steps[1].started_ms);
	assert_int_equal(steps[2].started_ms, 0);
	must(rk_store_op_set(f->store, first, "done", "all well", &err));
	must(rk_store_op_list(f->store, arena, &ops, &n, &err));
	assert_int_equal(n, 2);
	assert_int_equal(ops[0].id, second);
	must(rk_store_op_newest(f->store, 1, arena, &ops, &n, &err));
	assert_int_equal(n, 1);
	assert_int_equal(ops[0].id, second);
	must(rk_store_op_open(f->store, INT64_MAX, arena, &ops, &n, &err));
	assert_int_equal(n, 1);
	assert_int_equal(ops[0].id, second);
	must(rk_store_op_open(f->store, first, arena, &ops, &n, &err));
	assert_int_equal(n, 2);
	assert_int_equal(ops[1].id, first);
	must(rk_store_op_get(f->store, first, arena, &one, &err));
	assert_string_equal(one.state, "done");
	assert_string_equal(one.by, "alice@console 4711");
	assert_string_equal(one.params, "{\"p\":1}");
	assert_true(one.ended_ms > 0);
	refused(rk_store_op_get(f->store, 999, arena, &one, &err), RK_NOT_FOUND, "no operation 999");
	/* The journal is no part of what plans look at. */
	RK_CLEANUP_SITE struct rk_site *s = snapshot(f->store);
	assert_int_equal(s->revision, 1);
}

static void a_lease_names_its_holder_and_can_be_taken_over(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	const struct rk_actor gone = { "carol", "console", 0x3ffffffe }, here = { "dave", "console", getpid() };
	const char *former;
	int64_t op, other;
	bool alive = true;

	struct rk_store *store = f->kind->shared ? open_as(f->uri, &gone, RK_STORE_WRITE) : f->store;
	must(rk_store_op_add(store, "cluster create a", "{}", &op, &err));
	must(rk_store_lease_take(store, "cluster:a", op, "create", &err));
	must(rk_store_lease_take(store, "cluster:a", op, "create", &err));
	must(rk_store_op_add(f->store, "cluster delete a", "{}", &other, &err));
	refused(rk_store_lease_take(f->store, "cluster:a", other, "delete", &err), RK_CONFLICT, "\"cluster:a\" is held by ");
	refused(rk_store_lease_take(f->store, "cluster:a", other, "delete", &err), RK_CONFLICT, ": create (operation ");
	if (store != f->store) {
		must(rk_store_op_alive(f->store, op, &alive, &err));
		assert_false(alive);
		rk_store_close(store);
		store = open_as(f->uri, &here, RK_STORE_WRITE);
		must(rk_store_lease_takeover(store, op, arena, &former, &err));
		assert_string_equal(former, "carol@console 1073741822");
		must(rk_store_op_alive(f->store, op, &alive, &err));
		assert_true(alive);
		refused(rk_store_lease_take(f->store, "cluster:a", other, "delete", &err), RK_CONFLICT, "dave@console");
		rk_store_close(store);
	}
	must(rk_store_lease_drop(f->store, op, &err));
	must(rk_store_lease_take(f->store, "cluster:a", other, "delete", &err));
	must(rk_store_op_set(f->store, op, "failed", NULL, &err));
	must(rk_store_op_alive(f->store, op, &alive, &err));
	assert_false(alive);
}

static void the_audit_is_kept_in_order(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_audit_row *rows;
	size_t n;

	must(rk_store_audit(f->store, "tray cordon k1-t01", "done", 0, &err));
	must(rk_store_audit(f->store, "cluster create 'it''s'", "conflict", 3, &err));
	must(rk_store_audit_list(f->store, arena, &rows, &n, &err));
	assert_int_equal(n, 2);
	assert_string_equal(rows[0].command, "tray cordon k1-t01");
	assert_string_equal(rows[1].command, "cluster create 'it''s'");
	assert_string_equal(rows[1].by, "alice@console 4711");
	assert_int_equal(rows[1].op, 3);
}

static void a_renamed_cluster_takes_its_vms_along(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);

	add_cluster(f->store, "a", "heron", 0);
	add_cluster(f->store, "b", "heron", 0);
	must(try_vm(f->store, f->site, "a", 1, 0, &err));
	refused(rk_store_rename_cluster(f->store, "a", "b", &err), RK_CONFLICT, "the cluster name b is held by");
	must(rk_store_rename_cluster(f->store, "a", "longer", &err));
	must(rk_store_set_cluster_spec(f->store, "longer", "{\"count\":3}", NULL, &err));
	RK_CLEANUP_SITE struct rk_site *s = snapshot(f->store);
	assert_int_equal(rk_find_cluster(s, "a"), RK_NONE);
	assert_true(rk_find_vm(s, "longer-01") >= 0);
	assert_string_equal(s->clusters[rk_find_cluster(s, "longer")].spec, "{\"count\":3}");
}

static void nothing_is_kept_while_it_is_tried(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	RK_CLEANUP_SITE struct rk_site *before = snapshot(f->store);

	rk_store_try(f->store, true);
	must(rk_store_add_tenant(f->store, "tried", &err));
	must(rk_store_begin(f->store, before->revision, &err));
	must(rk_store_add_tenant(f->store, "tried", &err));
	refused(rk_store_add_tenant(f->store, "tried", &err), RK_CONFLICT, "exists already");
	must(rk_store_commit(f->store, &err));
	rk_store_try(f->store, false);
	RK_CLEANUP_SITE struct rk_site *after = snapshot(f->store);
	assert_int_equal(rk_find_tenant(after, "tried"), RK_NONE);
	assert_int_equal(after->revision, before->revision);
	must(rk_store_add_tenant(f->store, "tried", &err));
}

static void images_and_tenants_come_and_go(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	const struct rk_image image = { .name = "lab", .volume = "fast/lab", .kernel = "/boot/k" };

	must(rk_store_add_image(f->store, &image, &err));
	refused(rk_store_add_image(f->store, &image, &err), RK_CONFLICT, "exists already");
	must(rk_store_add_tenant(f->store, "wren", &err));
	must(rk_store_set_tenant_quota(f->store, "wren", 12, 3, &err));
	refused(rk_store_set_tenant_quota(f->store, "nobody", 12, 3, &err), RK_NOT_FOUND, "no tenant \"nobody\"");
	RK_CLEANUP_SITE struct rk_site *s = snapshot(f->store);
	assert_string_equal(s->images[rk_find_image(s, "lab")].kernel, "/boot/k");
	assert_true(rk_find_tenant(s, "wren") >= 0);
	assert_int_equal(s->tenants[rk_find_tenant(s, "wren")].quota_vms, 12);
	assert_int_equal(s->tenants[rk_find_tenant(s, "wren")].quota_pkeys, 3);
	add_cluster(f->store, "a", "wren", 0);
	refused(rk_store_remove_image(f->store, "plain", &err), RK_CONFLICT, "cluster a");
	must(rk_store_remove_image(f->store, "lab", &err));
	refused(rk_store_remove_tenant(f->store, "wren", &err), RK_CONFLICT, "in use: cluster a, by alice@console");
	must(rk_store_remove_cluster(f->store, "a", &err));
	must(rk_store_remove_tenant(f->store, "wren", &err));
}

static void a_replaced_tray_keeps_its_vm_and_retires_what_left(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	struct rk_tray_identity to;

	add_cluster(f->store, "moss", "heron", 0);
	must(try_vm(f->store, f->site, "moss", 1, 2, &err));
	rk_tray_identity_of(f->site, 2, &to);
	to.serial = "NEW-1";
	for (int i = 0; i < 4; i++) {
		to.gpus[i].guid = 0xa000000000000001u + (unsigned)i; /* the sign bit, too, is part of an identity */
		to.ports[i] = 0xb000000000000001u + (unsigned)i;
	}
	must(rk_store_replace_tray(f->store, f->site->trays[2].name, &to, &err));
	RK_CLEANUP_SITE struct rk_site *s = snapshot(f->store);
	assert_string_equal(s->trays[2].serial, "NEW-1");
	assert_int_equal(rk_find_gpu_guid(s, 0xa000000000000002u), s->trays[2].first_gpu + 1);
	assert_int_equal(rk_find_hca_guid(s, 0xb000000000000004u), s->trays[2].first_hca + 3);
	assert_int_equal(s->vms[0].state, RK_VM_FAILED);
	must(rk_store_check(f->store, &err));
	/* What left may be used nowhere else unnoticed, and nobody else gets what the VM holds. */
	to.serial = "NEW-2";
	refused(rk_store_replace_tray(f->store, f->site->trays[3].name, &to, &err), RK_CONFLICT, "is recorded in tray");
	RK_CLEANUP_SITE struct rk_site *edited = snapshot(f->store);
	edited->gpus[edited->trays[9].first_gpu].fabric_guid = f->site->gpus[f->site->trays[2].first_gpu].fabric_guid;
	rk_site_seal(edited);
	must(rk_store_put_site(f->store, edited, &err));
	refused(rk_store_check(f->store, &err), RK_UNHEALTHY, "contradicts itself");
}

static const struct rk_usage_row *used_by(const struct rk_usage_row *rows, size_t n, const char *cluster)
{
	for (size_t i = 0; i < n; i++)
		if (rk_streq(rows[i].cluster, cluster))
			return &rows[i];
	return NULL;
}

static void use_is_counted_from_allocation_to_release(void **state)
{
	struct fixture *f = *state;
	NEEDS_SERVER(f);
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_usage_row *rows;
	size_t n;
	RK_CLEANUP_DB struct rk_db *db = NULL;

	add_cluster(f->store, "moss", "heron", 0);
	add_cluster(f->store, "fern", "heron", 0);
	must(try_vm(f->store, f->site, "moss", 1, 0, &err));
	must(try_vm(f->store, f->site, "moss", 2, 1, &err));
	must(try_vm(f->store, f->site, "fern", 1, 2, &err));
	must(rk_store_remove_vm(f->store, "moss-02", &err));
	must(rk_store_remove_cluster(f->store, "fern", &err));
	if (f->kind == &memory)
		return; /* its database is not to be had from outside */
	/* Stays of round length: two hours of moss-01 so far, one hour of moss-02, half an hour of fern-01. */
	must(rk_db_open(f->uri, true, &db, &err));
	const int64_t hour = 3600000, now = rk_clock_unix_ms(NULL);
	must(rk_db_exec(db, &err, "UPDATE usage_log SET from_ms = ? WHERE name = 'moss-01'", RK_DB_I(now - 2 * hour)));
	must(rk_db_exec(db, &err, "UPDATE usage_log SET from_ms = ?, to_ms = ? WHERE name = 'moss-02'", RK_DB_I(now - 10 * hour), RK_DB_I(now - 9 * hour)));
	must(rk_db_exec(db, &err, "UPDATE usage_log SET from_ms = ?, to_ms = ? WHERE name = 'fern-01'", RK_DB_I(now - 9 * hour), RK_DB_I(now - 9 * hour + hour / 2)));
	must(rk_store_usage(f->store, 0, now + hour, arena, &rows, &n, &err));
	assert_int_equal(n, 2);
	assert_true(used_by(rows, n, "moss")->gpu_hours > 11.99 && used_by(rows, n, "moss")->gpu_hours < 12.1);
	assert_int_equal(used_by(rows, n, "moss")->vms, 2);
	assert_true(used_by(rows, n, "moss")->running);
	assert_true(used_by(rows, n, "fern")->gpu_hours > 1.999 && used_by(rows, n, "fern")->gpu_hours < 2.001);
	assert_false(used_by(rows, n, "fern")->running);
	/* Only the part that lies in the period. */
	must(rk_store_usage(f->store, now - 9 * hour - hour / 4, now - hour, arena, &rows, &n, &err));
	assert_true(used_by(rows, n, "moss")->gpu_hours > 4.999 && used_by(rows, n, "moss")->gpu_hours < 5.001);
	must(rk_store_usage(f->store, now - 20 * hour, now - 15 * hour, arena, &rows, &n, &err));
	assert_int_equal(n, 0);
	refused(rk_store_usage(f->store, now, now - 1, arena, &rows, &n, &err), RK_INVALID, "ends before it begins");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ALL(an_import_is_read_back_as_it_was),
		ALL(a_cluster_is_read_back_with_all_it_holds),
		ALL(a_revision_that_moved_on_names_who_changed_what),
		ALL(an_id_that_the_network_gives_is_kept),
		ALL(what_is_held_is_refused_with_its_holder),
		ALL(a_refusal_leaves_the_transaction_usable),
		ALL(a_rollback_leaves_nothing),
		ALL(a_number_is_never_used_again),
		ALL(the_private_host_key_goes_when_the_guest_was_seen),
		ALL(marks_survive_an_import_and_held_trays_do_not_go),
		ALL(the_journal_keeps_its_order_and_words),
		ALL(a_lease_names_its_holder_and_can_be_taken_over),
		ALL(the_audit_is_kept_in_order),
		ALL(a_renamed_cluster_takes_its_vms_along),
		ALL(nothing_is_kept_while_it_is_tried),
		ALL(images_and_tenants_come_and_go),
		ALL(use_is_counted_from_allocation_to_release),
		ALL(a_replaced_tray_keeps_its_vm_and_retires_what_left),
	};

	return run_store_tests(tests);
}
