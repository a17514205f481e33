/* What the host of a tray says of its PCI functions, before a switch is touched for a VM on it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "provision/steps.h"
#include "tests/contract/twin.h"

/* One more function, in the group of the first GPU (0008:06:00.0). */
static const struct rk_hv_ops *real;
static const char *neighbour;

static int devices(struct rk_hv *hv, int tray, struct rk_arena *arena, const char ***ret_xml, size_t *ret_n, struct rk_err *err)
{
	const char **xml;
	size_t n;
	int rc = real->devices(hv, tray, arena, &xml, &n, err);

	if (rc)
		return rc;
	const char **more = rk_arena_array(arena, n + 1, sizeof(*more)), *group = strstr(xml[0], "<iommuGroup number='");
	memcpy(more, xml, n * sizeof(*more));
	more[n] = rk_arena_printf(arena, "<device><capability type='pci'><class>%s</class><domain>8</domain><bus>7</bus><slot>0</slot><function>0</function>"
				  "%.*s/></capability></device>", neighbour, (int)strcspn(group, ">"), group);
	*ret_xml = more;
	*ret_n = n + 1;
	return 0;
}

static int create(struct twin *t, const char *class, struct rk_err *why)
{
	static const char text[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Cluster\",\"name\":\"a\",\"tenant\":\"ta\",\"size\":\"nd128isr-gb300-v6\",\"count\":1,\"image\":\"u\"}";
	struct rk_hv_ops ops;
	struct rk_spec *spec;
	int64_t op;

	twin_open(t, twin_site, false);
	real = t->world.hv->ops;
	ops = *real;
	ops.devices = devices;
	neighbour = class;
	t->world.hv->ops = &ops;
	TWIN_OK(rk_spec_parse("spec", text, strlen(text), t->arena, &spec, err));
	int rc = rk_cluster_create(&t->world, spec, &op, why);
	t->world.hv->ops = real;
	return rc;
}

static void a_device_that_shares_its_iommu_group_with_a_strange_one_is_refused(void **state)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct twin t;

	(void)state;
	assert_int_equal(create(&t, "0x010802", &err), RK_FAILED);
	assert_non_null(strstr(err.message, "0008:06:00.0, which the VM needs as gpu0, is in IOMMU group 64 together with 0008:07:00.0, which it does not get"));
	assert_non_null(strstr(err.hint, "a group goes to a guest as a whole"));
	twin_close(&t);
}

static void a_bridge_in_the_group_does_no_harm(void **state)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct twin t;

	(void)state;
	assert_int_equal(create(&t, "0x060400", &err), 0);
	twin_close(&t);
}

/* ---- whole ------------------------------------------------------------------------------------------------------------------------------- */

static int no_devices(struct rk_hv *hv, int tray, struct rk_arena *arena, const char ***ret_xml, size_t *ret_n, struct rk_err *err)
{
	(void)hv, (void)tray, (void)err;
	*ret_xml = rk_arena_array(arena, 1, sizeof(**ret_xml));
	*ret_n = 0;
	return 0;
}

static void a_tray_that_lost_everything_lacks_it_and_only_a_test_driver_is_let_off(void **state)
{
	struct rk_hv_ops ops;
	struct twin t;
	const char *lack;

	(void)state;
	twin_open(&t, twin_site, false);
	TWIN_OK(rk_tray_lacks(&t.world, 0, t.arena, &lack, err));
	assert_null(lack);
	real = t.world.hv->ops;
	ops = *real;
	ops.devices = no_devices;
	t.world.hv->ops = &ops;
	TWIN_OK(rk_tray_lacks(&t.world, 0, t.arena, &lack, err));
	assert_string_equal(lack, "no PCI function 0008:06:00.0 (gpu0)");
	t.world.site->trays[0].libvirt_uri = "test:///default";
	TWIN_OK(rk_tray_lacks(&t.world, 0, t.arena, &lack, err));
	assert_null(lack);
	t.world.hv->ops = real;
	twin_close(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_that_shares_its_iommu_group_with_a_strange_one_is_refused),
		cmocka_unit_test(a_bridge_in_the_group_does_no_harm),
		cmocka_unit_test(a_tray_that_lost_everything_lacks_it_and_only_a_test_driver_is_let_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
