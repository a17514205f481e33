/* The golden domains against libvirt's own schemas: the full forms against the newest one (../shared, skipped where that folder is absent), the
 * lab forms against the installed one (skipped without virt-xml-validate). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "tests/contract/child.h"
#include "tests/contract/vm_bench.h"

#define SCHEMA "../shared/schemas-libvirt-12.8/domain.rng"

static bool valid_by_newest(const char *path)
{
	return run((const char *const[]){ "xmllint", "--noout", "--relaxng", SCHEMA, path, NULL }) == 0;
}

static bool have_newest(void)
{
	return access(SCHEMA, R_OK) == 0 && run((const char *const[]){ "xmllint", "--version", NULL }) == 0;
}

static char *golden(const char *name)
{
	return rk_xasprintf("tests/fixtures/domain_xml/%s.xml", name);
}

static void every_golden_domain_is_valid_for_libvirt_12_8(void **state)
{
	static const char *const names[] = { "gb300-full", "gb300-without-cmdqv", "gb300-half", "gb200-full", "gb200-quarter", "gb300-sriov-vf", "lab-x86_64", "lab-aarch64" };

	(void)state;
	if (!have_newest())
		skip();
	for (size_t i = 0; i < RK_ARRAY_SIZE(names); i++) {
		char *path RK_CLEANUP_FREE = golden(names[i]);
		if (!valid_by_newest(path))
			fail_msg("%s is not valid", path);
	}
}

/* The schema really looks: what is no element of libvirt's is found. */
static void an_unknown_element_is_not_valid(void **state)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	char path[] = "/tmp/racksh-schema.XXXXXX";
	struct bench b;

	(void)state;
	if (!have_newest())
		skip();
	bench_init(&b, "nd128isr-gb300-v6");
	assert_int_equal(render(&b), 0);
	char *at = strstr(b.xml.text, "accel=");
	memcpy(at, "axcel=", 6);
	close(mkstemp(path));
	assert_int_equal(rk_file_write(path, b.xml.text, b.xml.len, 0600, &err), 0);
	bool valid = valid_by_newest(path);
	unlink(path);
	bench_end(&b);
	assert_false(valid);
}

static void lab_domains_are_valid_for_the_installed_libvirt(void **state)
{
	static const char *const names[] = { "lab-x86_64", "lab-aarch64" };

	(void)state;
	if (run((const char *const[]){ "virt-xml-validate", "--version", NULL }) == 127)
		skip();
	for (size_t i = 0; i < RK_ARRAY_SIZE(names); i++) {
		char *path RK_CLEANUP_FREE = golden(names[i]);
		if (run((const char *const[]){ "virt-xml-validate", path, "domain", NULL }) != 0)
			fail_msg("%s is not valid", path);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_golden_domain_is_valid_for_libvirt_12_8),
		cmocka_unit_test(an_unknown_element_is_not_valid),
		cmocka_unit_test(lab_domains_are_valid_for_the_installed_libvirt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
