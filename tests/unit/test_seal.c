/* The private host key of a VM: in the seed for the first boot, then nowhere but in the guest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/contract/twin.h"

static struct {
	char *images[8]; /* every volume that was put, in order */
	size_t lengths[8], n;
	const struct rk_hv_ops *real;
} puts_seen;

static int record(struct rk_hv *hv, int tray, const char *pool, const char *name, const void *data, size_t len, struct rk_err *err)
{
	if (puts_seen.n < RK_ARRAY_SIZE(puts_seen.images)) {
		puts_seen.images[puts_seen.n] = rk_xmalloc(len);
		memcpy(puts_seen.images[puts_seen.n], data, len);
		puts_seen.lengths[puts_seen.n++] = len;
	}
	return puts_seen.real->volume_put(hv, tray, pool, name, data, len, err);
}

static void watch(struct twin *t, struct rk_hv_ops *ops)
{
	puts_seen.real = t->world.hv->ops;
	*ops = *puts_seen.real;
	ops->volume_put = record;
	t->world.hv->ops = ops;
}

static void forget(void)
{
	for (size_t i = 0; i < puts_seen.n; i++)
		free(puts_seen.images[i]);
	puts_seen.n = 0;
}

static bool holds(size_t i, const char *text)
{
	return memmem(puts_seen.images[i], puts_seen.lengths[i], text, strlen(text)) != NULL;
}

static bool key_is_kept(struct twin *t, const char *vm)
{
	char *key RK_CLEANUP_FREE = NULL;

	TWIN_OK(rk_store_vm_host_key(t->world.store, vm, &key, err));
	return key != NULL;
}

static void a_ready_cluster_has_its_private_keys_in_the_guests_only(void **state)
{
	struct rk_hv_ops ops;
	struct twin t;

	(void)state;
	twin_open(&t, twin_site, false);
	watch(&t, &ops);
	twin_cluster(&t, "a", "ta", 1);
	assert_false(key_is_kept(&t, "a-01"));
	assert_int_equal(puts_seen.n, 2);
	assert_true(holds(0, "BEGIN OPENSSH PRIVATE KEY"));
	assert_true(holds(0, "ssh_deletekeys: true"));
	assert_false(holds(1, "OPENSSH PRIVATE KEY"));
	assert_true(holds(1, "ssh_deletekeys: false"));
	assert_true(holds(1, "instance-id: \"a-01-g1\""));
	/* So that it can be written over in place. */
	assert_int_equal(puts_seen.lengths[0], puts_seen.lengths[1]);
	t.world.hv->ops = puts_seen.real;
	forget();
	twin_close(&t);
}

/* It reads the seed at every boot. */
static void a_guest_without_a_disk_keeps_its_seed(void **state)
{
	static const char volume[] = "\"volume\":\"default/u.qcow2\"", kernel[] = "\"kernel\":\"/lab/vmlinuz\"";
	const char *at = strstr(twin_site, volume);
	struct rk_hv_ops ops;
	struct twin t;

	(void)state;
	char *changed RK_CLEANUP_FREE = rk_xasprintf("%.*s%s%s", (int)(at - twin_site), twin_site, kernel, at + strlen(volume));
	twin_open(&t, changed, false);
	watch(&t, &ops);
	twin_cluster(&t, "a", "ta", 1);
	assert_int_equal(puts_seen.n, 1);
	assert_false(key_is_kept(&t, "a-01"));
	t.world.hv->ops = puts_seen.real;
	forget();
	twin_close(&t);
}

static void a_seed_that_cannot_be_sealed_stops_the_operation(void **state)
{
	RK_CLEANUP_ERR struct rk_err e = RK_ERR_INIT;
	struct rk_spec *spec;
	struct twin t;
	int64_t op;

	(void)state;
	twin_open(&t, twin_site, false);
	TWIN_OK(rk_sim_fault_add(t.world.sim, "hv.volume_put#2=fail", err));
	static const char text[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Cluster\",\"name\":\"a\",\"tenant\":\"ta\",\"size\":\"nd128isr-gb300-v6\",\"count\":1,\"image\":\"u\"}";
	TWIN_OK(rk_spec_parse("spec", text, strlen(text), t.arena, &spec, err));
	assert_int_equal(rk_cluster_create(&t.world, spec, &op, &e), RK_FAILED);
	assert_non_null(strstr(e.message, "vm.seal a-01"));
	twin_close(&t);
}

/* The last word of the step of an operation; NULL: it has no such step. */
static const char *word_of(struct twin *t, int64_t op, const char *kind)
{
	struct rk_step_row *steps;
	size_t n;

	TWIN_OK(rk_store_step_list(t->world.store, op, t->arena, &steps, &n, err));
	for (size_t i = 0; i < n; i++)
		if (strcmp(steps[i].kind, kind) == 0)
			return steps[i].detail ? steps[i].detail : "";
	return NULL;
}

static int64_t reboot(struct twin *t)
{
	const int vm = rk_find_vm(t->world.site, "a-01");
	const struct rk_power_request request = { .verb = "reboot", .off = true, .on = true, .vms = &vm, .n = 1, .grace_s = 60 };
	int64_t op;

	TWIN_OK(rk_vm_power(&t->world, &request, &op, err));
	TWIN_OK(rk_world_refresh(&t->world, err));
	return op;
}

static void a_first_boot_without_an_end_keeps_its_seed_until_a_reboot_finds_it_over(void **state)
{
	struct rk_hv_ops ops;
	struct twin t;

	(void)state;
	twin_open(&t, twin_site, false);
	watch(&t, &ops);
	TWIN_OK(rk_sim_fault_add(t.world.sim, "boot-hangs@r1-t01/0", err));
	int64_t before = rk_clock_ms(t.clock);
	twin_cluster(&t, "a", "ta", 1);
	/* The guest works, so the cluster is ready; it was waited for, though. */
	assert_int_equal(t.world.site->clusters[0].state, RK_CLUSTER_READY);
	assert_true(rk_clock_ms(t.clock) - before >= 600000);
	assert_int_equal(puts_seen.n, 1);
	assert_true(key_is_kept(&t, "a-01"));
	assert_non_null(strstr(word_of(&t, 1, "vm.seal"), "cloud-init did not finish in time: the seed keeps the host key"));
	TWIN_OK(rk_sim_fault_add(t.world.sim, "boot-ends@r1-t01/0", err));
	assert_non_null(word_of(&t, reboot(&t), "vm.seal"));
	assert_int_equal(puts_seen.n, 2);
	assert_false(holds(1, "OPENSSH PRIVATE KEY"));
	assert_false(key_is_kept(&t, "a-01"));
	/* Once is enough. */
	assert_null(word_of(&t, reboot(&t), "vm.seal"));
	t.world.hv->ops = puts_seen.real;
	forget();
	twin_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_ready_cluster_has_its_private_keys_in_the_guests_only),
		cmocka_unit_test(a_guest_without_a_disk_keeps_its_seed),
		cmocka_unit_test(a_seed_that_cannot_be_sealed_stops_the_operation),
		cmocka_unit_test(a_first_boot_without_an_end_keeps_its_seed_until_a_reboot_finds_it_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
