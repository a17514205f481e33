/* What a host says of itself, and how it differs from what the site file says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "vmspec/vmspec.h"

static const char grace[] =
	"<capabilities><host><uuid>x</uuid><cpu><arch>aarch64</arch><model>neoverse-v2</model><pages unit='KiB' size='64'/><pages unit='KiB' size='2048'/>"
	"<pages unit='KiB' size='524288'/></cpu><topology><cells num='3'>"
	"<cell id='0'><memory unit='KiB'>502792448</memory><pages unit='KiB' size='64'>123</pages><pages unit='KiB' size='2048'>0</pages>"
	"<pages unit='KiB' size='524288'>864</pages><distances/></cell>"
	"<cell id='1'><pages unit='KiB' size='64'>5</pages><pages unit='KiB' size='524288'>900</pages></cell>"
	"<cell id='2'><memory unit='KiB'>0</memory></cell></cells></topology></host><guest><arch name='aarch64'/></guest></capabilities>";

#define HOSTDEV(values) "<domainCapabilities><devices><hostdev supported='yes'>" values "</hostdev></devices></domainCapabilities>"

static void pages_and_architecture_are_read_per_node(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_hostcaps caps = { .libvirt = 12008000 };

	(void)state;
	assert_int_equal(rk_hostcaps_read(grace, arena, &caps, NULL), 0);
	assert_string_equal(caps.arch, "aarch64");
	assert_int_equal(caps.page_kib, 64);
	assert_int_equal(caps.n_pages, 3);
	assert_int_equal(caps.pages[1].node, 0);
	assert_true(caps.pages[1].kib == 524288 && caps.pages[1].count == 864);
	assert_int_equal(caps.pages[2].node, 1);
	assert_true(caps.pages[2].count == 900);
	assert_int_equal(caps.libvirt, 12008000);
}

static void a_host_without_a_topology_says_nothing_of_huge_pages(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_hostcaps caps = { 0 };

	(void)state;
	assert_int_equal(rk_hostcaps_read("<capabilities><host><cpu><arch>x86_64</arch></cpu></host></capabilities>", arena, &caps, NULL), 0);
	assert_string_equal(caps.arch, "x86_64");
	assert_int_equal(caps.page_kib, 0);
	assert_int_equal(caps.n_pages, 0);
	assert_int_equal(rk_hostcaps_read("<capabilities", arena, &caps, NULL), RK_INVALID);
}

static void vfio_and_iommufd_are_values_and_not_words(void **state)
{
	static const struct {
		const char *xml;
		bool vfio, iommufd;
	} cases[] = {
		{ HOSTDEV("<enum name='pciBackend'><value>vfio</value></enum><enum name='iommufd'><value>yes</value><value>no</value></enum>"), true, true },
		{ HOSTDEV("<enum name='pciBackend'><value>vfio</value></enum><enum name='iommufd'><value>no</value></enum>"), true, false },
		{ HOSTDEV("<enum name='pciBackend'/><enum name='iommufd'/>"), false, false },
		{ HOSTDEV("<enum name='other'><value>vfio</value><value>yes</value></enum>"), false, false },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		struct rk_hostcaps caps = { 0 };
		assert_int_equal(rk_hostcaps_read_domain(cases[i].xml, &caps, NULL), 0);
		assert_int_equal(caps.vfio, cases[i].vfio);
		assert_int_equal(caps.iommufd, cases[i].iommufd);
	}
}

static void every_difference_to_the_site_file_is_named(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const struct rk_hostcaps declared = { .libvirt = 12008000, .qemu = 11001003, .arch = "aarch64", .page_kib = 64 };
	struct rk_hostcaps found = declared;

	(void)state;
	assert_null(rk_hostcaps_difference(&declared, &found, arena));
	found.page_kib = 0; /* not said: no difference */
	assert_null(rk_hostcaps_difference(&declared, &found, arena));
	found = (struct rk_hostcaps){ .libvirt = 9000000, .qemu = 7002022, .arch = "x86_64", .page_kib = 4 };
	assert_string_equal(rk_hostcaps_difference(&declared, &found, arena),
			    "libvirt 9.0.0 where the site file says 12.8.0; QEMU 7.2.22 where the site file says 11.1.3; architecture x86_64 where the "
			    "site file says aarch64; pages of 4 KiB where the site file says 64");
}

/* The library only carries the XML: it makes no difference to the host, and is named where it could be taken for the daemon. */
static void the_client_library_is_told_from_the_daemon(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const struct rk_hostcaps declared = { .libvirt = 12008000, .qemu = 11001003, .arch = "aarch64", .page_kib = 64 };
	struct rk_hostcaps found = declared;

	(void)state;
	found.client = 9000000;
	assert_null(rk_hostcaps_difference(&declared, &found, arena));
	found.libvirt = 10000000;
	found.client = 12008000;
	assert_string_equal(rk_hostcaps_difference(&declared, &found, arena),
			    "libvirt 10.0.0 where the site file says 12.8.0 (the tray's daemon; the client library is 12.8.0)");
	found.client = found.libvirt;
	assert_string_equal(rk_hostcaps_difference(&declared, &found, arena), "libvirt 10.0.0 where the site file says 12.8.0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_and_architecture_are_read_per_node),
		cmocka_unit_test(a_host_without_a_topology_says_nothing_of_huge_pages),
		cmocka_unit_test(vfio_and_iommufd_are_values_and_not_words),
		cmocka_unit_test(every_difference_to_the_site_file_is_named),
		cmocka_unit_test(the_client_library_is_told_from_the_daemon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
