#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "inventory/store_impl.h"
#include "provision/bundle.h"
#include "tests/contract/ops_twin.h"

/* Several changes as one operation: what hosts say is asked while the store is everybody's, and nothing that cannot be read is passed over. */

/* ---- who is asked when ------------------------------------------------------------------------------------------------------------------ */

static const struct rk_hv_ops *real;
static struct fixture *site_of_asked;
static int asked;

static int devices(struct rk_hv *hv, int tray, struct rk_arena *arena, const char ***ret_xml, size_t *ret_n, struct rk_err *err)
{
	assert_false(site_of_asked->world.store->in_change);
	asked++;
	return real->devices(hv, tray, arena, ret_xml, ret_n, err);
}

static int volume_get(struct rk_hv *hv, int tray, const char *pool, const char *name, struct rk_arena *arena, struct rk_hv_volume *ret, struct rk_err *err)
{
	if (!strstr(name, ".raw"))
		return real->volume_get(hv, tray, pool, name, arena, ret, err);
	assert_false(site_of_asked->world.store->in_change);
	asked++;
	*ret = (struct rk_hv_volume){ .exists = true, .bytes = 1 << 20 };
	return strcmp(name, "bad.raw") == 0 ? rk_err_set(err, RK_UNREACHABLE, "tray %d is silent", tray) : 0;
}

/* The first 512 bytes of a disk, and nothing in the rest of it. */
static int volume_read(struct rk_hv *hv, int tray, const char *pool, const char *name, uint64_t offset, void *bytes, size_t n, struct rk_err *err)
{
	(void)hv, (void)tray, (void)pool, (void)name, (void)offset, (void)err;
	memset(bytes, 0, n);
	return 0;
}

static void listen(struct fixture *f, struct rk_hv_ops *ops)
{
	real = f->world.hv->ops;
	site_of_asked = f;
	asked = 0;
	*ops = *real;
	ops->devices = devices;
	ops->volume_get = volume_get;
	ops->volume_read = volume_read;
	f->world.hv->ops = ops;
}

typedef int part_fn(struct fixture *f, struct rk_err *err);

/* As commit does it. */
static int commit(struct fixture *f, part_fn *const *parts, size_t n, int64_t *op, struct rk_err *err)
{
	RK_CLEANUP_HEARD struct rk_heard *heard = rk_heard_new();
	struct rk_bundle *bundle;
	int rc;

	do {
		rk_err_clear(err);
		rc = rk_bundle_begin(&f->world, "commit", heard, &bundle, err);
		if (rc)
			return rc;
		for (size_t i = 0; !rc && i < n; i++) {
			rc = rk_bundle_part(bundle, "part", err);
			rc = rc ? rc : parts[i](f, err);
			rc = rc ? rc : rk_bundle_part_done(bundle, err);
		}
		if (!rc)
			return rk_bundle_run(bundle, op, err);
		rk_bundle_drop(bundle);
		if (!rk_heard_open(heard))
			return rc;
		rk_err_clear(err);
		rc = rk_heard_ask(&f->world, heard, err);
	} while (!rc);
	return rc;
}

static int cordon(struct fixture *f, struct rk_err *err)
{
	return rk_store_set_tray_cordon(f->world.store, "r2-t04", "fan", err);
}

static int repair(struct fixture *f, struct rk_err *err)
{
	size_t moved;
	int64_t op;

	return rk_cluster_repair(&f->world, "a", NULL, 0, &op, &moved, err);
}

static int add_image(struct fixture *f, const char *volume, struct rk_err *err)
{
	const struct rk_image_add request = { .name = "next", .volume = volume, .format = "raw", .trays = "r1-t[01-03]", .except = "r1-t02" };
	struct rk_image_added added;
	int rc = rk_image_add(&f->world, &request, f->arena, &added, err);

	if (!rc)
		assert_int_equal(added.trays, 2);
	return rc;
}

static int image(struct fixture *f, struct rk_err *err)
{
	return add_image(f, "default/next.raw", err);
}

static int bad_image(struct fixture *f, struct rk_err *err)
{
	return add_image(f, "default/bad.raw", err);
}

static void no_host_is_asked_while_the_store_is_locked(void **state)
{
	static part_fn *const parts[] = { cordon, image, repair };
	struct fixture *f = *state;
	struct rk_hv_ops ops;
	int64_t op;

	/* A GPU of a-02 fell off: only its host says so. */
	OK(rk_sim_fault_add(f->world.sim, "gpu-missing@r2-t01/2", err));
	listen(f, &ops);
	OK(commit(f, parts, RK_ARRAY_SIZE(parts), &op, err));
	assert_true(asked >= 2 + 2);
	f->world.hv->ops = real;
	assert_string_equal(f->world.site->trays[rk_find_tray(f->world.site, "r2-t04")].cordon, "fan");
	assert_int_equal(rk_find_image(f->world.site, "next") >= 0, 1);
	assert_string_equal(f->world.site->trays[f->world.site->vms[rk_find_vm(f->world.site, "a-02")].tray].name, "r2-t02");
	assert_non_null(strstr(f->world.site->trays[rk_find_tray(f->world.site, "r2-t01")].faulty, "no PCI function"));
}

static void what_a_host_says_against_it_ends_the_commit_and_nothing_was_done(void **state)
{
	static part_fn *const parts[] = { cordon, bad_image };
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_hv_ops ops;
	int64_t op = 0;

	listen(f, &ops);
	assert_int_equal(commit(f, parts, RK_ARRAY_SIZE(parts), &op, &why), RK_UNREACHABLE);
	f->world.hv->ops = real;
	assert_non_null(strstr(why.message, "image add next default/bad.raw"));
	assert_false(f->world.store->in_change);
	assert_null(f->world.site->trays[rk_find_tray(f->world.site, "r2-t04")].cordon);
	assert_consistent(f);
}

/* ---- one after the other ------------------------------------------------------------------------------------------------------------------ */

static int stop(struct fixture *f, struct rk_err *err)
{
	int vm = rk_find_vm(f->world.site, "a-02");
	const struct rk_power_request q = { .verb = "stop", .off = true, .vms = &vm, .n = 1, .grace_s = 30, .hard = true };
	int64_t op;

	return rk_vm_power(&f->world, &q, &op, err);
}

static int delete(struct fixture *f, struct rk_err *err)
{
	int64_t op;

	return rk_cluster_delete(&f->world, "a", &op, err);
}

/* Both would be done at the end, at the same time. */
static void two_parts_about_one_vm_are_refused(void **state)
{
	static part_fn *const parts[][2] = { { stop, delete }, { stop, stop } };
	struct fixture *f = *state;

	for (size_t i = 0; i < RK_ARRAY_SIZE(parts); i++) {
		struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
		int64_t op = 0;
		assert_int_equal(commit(f, parts[i], 2, &op, &why), RK_CONFLICT);
		assert_string_equal(why.message, "\"a-02\" is worked on by an earlier command of the same commit already");
		assert_int_equal(f->world.site->vms[rk_find_vm(f->world.site, "a-02")].state, RK_VM_RUNNING);
		assert_consistent(f);
	}
}

static int start(struct fixture *f, struct rk_err *err)
{
	int vm = rk_find_vm(f->world.site, "a-02");
	const struct rk_power_request q = { .verb = "start", .on = true, .vms = &vm, .n = 1, .grace_s = 30 };
	int64_t op;

	return rk_vm_power(&f->world, &q, &op, err);
}

static int grow(struct fixture *f, struct rk_err *err)
{
	int64_t op;

	return rk_cluster_resize(&f->world, "a", 3, true, &op, err);
}

/* What sleeps is not told of the new one by the second, and the first does not know of it. */
static void a_vm_that_wakes_and_a_cluster_that_grows_are_two_commits(void **state)
{
	static part_fn *const parts[] = { start, grow };
	struct fixture *f = *state;
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	int64_t op = 0;

	OK(stop(f, err));
	assert_int_equal(commit(f, parts, 2, &op, &why), RK_CONFLICT);
	assert_string_equal(why.message, "\"cluster:a\" is worked on by an earlier command of the same commit already");
	OK(commit(f, &parts[0], 1, &op, err));
	OK(commit(f, &parts[1], 1, &op, err));
	assert_consistent(f);
}

/* ---- errors ------------------------------------------------------------------------------------------------------------------------------- */

static void a_part_that_cannot_see_what_was_before_is_refused(void **state)
{
	RK_CLEANUP_HEARD struct rk_heard *heard = rk_heard_new();
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	struct fixture *f = *state;
	struct rk_bundle *bundle;

	OK(rk_bundle_begin(&f->world, "commit", heard, &bundle, err));
	OK(rk_db_exec(f->world.store->db, err, "ALTER TABLE images RENAME TO mislaid"));
	assert_int_not_equal(rk_bundle_part(bundle, "part", &why), 0);
	assert_non_null(why.message);
	rk_bundle_drop(bundle);
	assert_int_equal(f->world.site->n_images, 1);
	assert_consistent(f);
}

#define WITH_TWIN(test) cmocka_unit_test_setup_teardown(test, begin_world_with_a, end_world)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_TWIN(no_host_is_asked_while_the_store_is_locked),
		WITH_TWIN(what_a_host_says_against_it_ends_the_commit_and_nothing_was_done),
		WITH_TWIN(two_parts_about_one_vm_are_refused),
		WITH_TWIN(a_vm_that_wakes_and_a_cluster_that_grows_are_two_commits),
		WITH_TWIN(a_part_that_cannot_see_what_was_before_is_refused),
	};

	keep_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
