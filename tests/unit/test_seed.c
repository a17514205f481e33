#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "vmspec/vmspec.h"

/* libisofs asks these for the time: here every call finds a clock of the test. */
static time_t clock_now = 1000000000;

time_t time(time_t *ret)
{
	if (ret)
		*ret = clock_now;
	return clock_now;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
	(void)zone;
	*ret = (struct timeval){ clock_now, 123456 };
	return 0;
}

static const char *const keys[] = { "ssh-ed25519 AAAA ops@console", "ssh-rsa BBBB said \"me\" \\ too" };
static const char *const nodes[] = { "10.20.0.5", "10.20.0.6", "10.20.0.7" };

static struct rk_seed_input input(void)
{
	return (struct rk_seed_input){
		.vm = "a-01", .cluster = "a", .hostname = "a-01", .mac = "52:54:00:0a:0b:0c", .address = "10.20.0.5", .gateway = "10.20.0.1",
		.user = "ops", .generation = 3, .prefix_length = 20, .keys = keys, .n_keys = 2, .imex_nodes = nodes, .n_imex_nodes = 3,
		.host_key_private = "-- first line\nsecond: line\n-- last line\n", .host_key_public = "ssh-ed25519 CCCC a-01",
	};
}

static const char *render(const struct rk_seed_input *in, struct rk_arena *arena, const char *name)
{
	struct rk_seed_file *files;
	size_t n;

	rk_seed_files(in, arena, &files, &n);
	assert_int_equal(n, 3);
	for (size_t i = 0; i < n; i++)
		if (strcmp(files[i].name, name) == 0)
			return files[i].text;
	fail_msg("no file \"%s\"", name);
	return NULL;
}

static void check_golden(const struct rk_seed_input *in, const char *name, const char *golden)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	char *path RK_CLEANUP_FREE = rk_xasprintf("tests/fixtures/vmspec/%s", golden);
	char *want RK_CLEANUP_FREE = NULL;
	size_t len;

	assert_int_equal(rk_file_read(path, 1 << 16, &want, &len, NULL), 0);
	assert_string_equal(render(in, arena, name), want);
}

/* ---- the files -------------------------------------------------------------------------------------------------------------- */

static void the_files_of_a_vm_are_the_golden_ones(void **state)
{
	const struct rk_seed_input in = input();

	(void)state;
	check_golden(&in, "meta-data", "meta-data");
	check_golden(&in, "user-data", "user-data");
	check_golden(&in, "network-config", "network-config");
}

static void root_gets_no_sudo_and_stays_enabled(void **state)
{
	struct rk_seed_input in = input();

	(void)state;
	in.user = "root";
	in.n_keys = 1;
	check_golden(&in, "user-data", "user-data-root");
}

static void a_private_key_that_is_not_made_yet_is_only_named(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_seed_input in = input();

	(void)state;
	in.host_key_private = in.host_key_public = NULL;
	const char *text = render(&in, arena, "user-data");
	assert_non_null(strstr(text, "  ed25519_private: |\n    (made at create)\n  ed25519_public: \"(made at create)\"\n"));
	assert_null(strstr(text, "first line"));
}

static void a_sealed_seed_has_no_key_and_the_same_length(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_seed_input in = input();
	static const char *const parts[] = { NULL, "#!/bin/sh\ntrue\n" };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(parts); i++) {
		in.user_data = parts[i];
		in.sealed = false;
		size_t before = strlen(render(&in, arena, "user-data"));
		in.sealed = true;
		const char *text = render(&in, arena, "user-data");
		assert_int_equal(strlen(text), before);
		assert_null(strstr(text, "first line"));
		assert_null(strstr(text, "ed25519_private"));
		assert_null(strstr(text, "CCCC"));
		assert_non_null(strstr(text, "ssh_deletekeys: false\n"));
		assert_string_equal(render(&in, arena, "meta-data"), "instance-id: \"a-01-g3\"\nlocal-hostname: \"a-01\"\n");
	}
}

static void a_users_part_follows_as_base64_with_the_merge_that_lets_racksh_win(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_seed_input in = input();

	(void)state;
	in.user_data = "#cloud-config\npackages: [jq]\n";
	const char *text = render(&in, arena, "user-data");
	assert_true(rk_starts_with(text, "Content-Type: multipart/mixed; boundary=\"=_racksh_"));
	const char *own = strstr(text, "#cloud-config\nssh_pwauth: false\n"), *user = strstr(text, "I2Nsb3VkLWNvbmZpZwpwYWNrYWdlczogW2pxXQo=\n--=_racksh_");
	assert_non_null(own);
	assert_non_null(user);
	assert_true(own < user);
	assert_non_null(strstr(text, "X-Merge-Type: list(append)+dict(no_replace,recurse_list)+str()\n"));
	in.user_data = "#!/bin/sh\ntrue\n";
	text = render(&in, arena, "user-data");
	assert_non_null(strstr(text, "Content-Type: text/x-shellscript;"));
	assert_null(strstr(text, "Merge-Type"));
}

static void wiped_files_are_empty(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const struct rk_seed_input in = input();
	struct rk_seed_file *files;
	size_t n;

	(void)state;
	rk_seed_files(&in, arena, &files, &n);
	rk_seed_wipe(files, n);
	for (size_t i = 0; i < n; i++)
		assert_string_equal(files[i].text, "");
}

static void every_generation_is_a_new_instance(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_seed_input in = input();

	(void)state;
	in.generation = 4;
	assert_string_equal(render(&in, arena, "meta-data"), "instance-id: \"a-01-g4\"\nlocal-hostname: \"a-01\"\n");
}

static void each_kind_of_network_has_its_addresses(void **state)
{
#define FRONT "version: 2\nethernets:\n  front:\n    match:\n      macaddress: \"52:54:00:0a:0b:0c\"\n    set-name: eth0\n"
	static const struct {
		const char *address, *gateway;
		int prefix_length;
		bool user_network;
		const char *want;
	} cases[] = {
		{ "127.3.1.1", NULL, 0, true, FRONT "    addresses:\n      - \"10.0.2.15/24\"\n    routes:\n      - to: default\n        via: \"10.0.2.2\"\n" },
		{ "10.0.0.5", NULL, 20, false, FRONT "    addresses:\n      - \"10.0.0.5/20\"\n" },
		{ "10.0.0.5", "10.0.0.1", 0, false,
		  FRONT "    addresses:\n      - \"10.0.0.5/32\"\n    routes:\n      - to: default\n        via: \"10.0.0.1\"\n        on-link: true\n" },
		{ "fd00::5", "fd00::1", 64, false, FRONT "    addresses:\n      - \"fd00::5/64\"\n    routes:\n      - to: default\n        via: \"fd00::1\"\n" },
		{ "fd00::5", NULL, 0, false, FRONT "    addresses:\n      - \"fd00::5/128\"\n" },
		{ NULL, NULL, 0, false, FRONT "    dhcp4: true\n" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct rk_seed_input in = input();
		in.address = cases[i].address;
		in.gateway = cases[i].gateway;
		in.prefix_length = cases[i].prefix_length;
		in.user_network = cases[i].user_network;
		assert_string_equal(render(&in, arena, "network-config"), cases[i].want);
	}
}

/* What would end a YAML scalar, or make a reader refuse the file, never appears as itself. */
static void a_value_cannot_leave_its_quotes(void **state)
{
	static const struct {
		const char *value, *want;
	} cases[] = {
		{ "x\nruncmd: [reboot]", "\"x\\x0aruncmd: [reboot]\"" },
		{ "say \"hi\" \\ #: - {", "\"say \\\"hi\\\" \\\\ #: - {\"" },
		{ "tab\there \x7f", "\"tab\\x09here \\x7f\"" },
		{ "c1 \xc2\x85 \xc2\x9f", "\"c1 \\x85 \\x9f\"" },
		{ "line \xe2\x80\xa8 name \xc3\xa4", "\"line \\u2028 name \\xe4\"" },
		{ "\xf0\x9f\x94\x91", "\"\\U0001f511\"" },
		{ "bad \xff\xc3", "\"bad \\ufffd\\ufffd\"" },
		{ "cut \xe2\x80", "\"cut \\ufffd\\ufffd\"" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		char *line RK_CLEANUP_FREE = rk_xasprintf("\n  - %s\nwrite_files:", cases[i].want);
		struct rk_seed_input in = input();
		in.keys = &cases[i].value;
		in.n_keys = 1;
		const char *text = render(&in, arena, "user-data");
		if (!strstr(text, line))
			fail_msg("no %s in %s", cases[i].want, text);
	}
}

static void a_vm_alone_still_has_a_complete_file(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_seed_input in = input();

	(void)state;
	in.n_imex_nodes = 0;
	assert_non_null(strstr(render(&in, arena, "user-data"), "    content: |\nruncmd:\n"));
}

/* ---- the image --------------------------------------------------------------------------------------------------------------- */

struct image {
	unsigned char *data;
	size_t len;
};

static void free_image(struct image *image)
{
	free(image->data);
}

static struct image make(const struct rk_seed_input *in)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_seed_file *files;
	size_t n, len = 0;
	void *data = NULL;

	rk_seed_files(in, arena, &files, &n);
	if (rk_seed_image(files, n, &data, &len, &err))
		fail_msg("%s", err.message);
	return (struct image){ data, len };
}

static const unsigned char *at(const struct image *image, size_t offset, size_t len)
{
	if (offset > image->len || len > image->len - offset)
		fail_msg("offset %zu, length %zu: the image ends at %zu", offset, len, image->len);
	return image->data + offset;
}

static uint32_t le32(const unsigned char *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

enum { SECTOR = 2048, FIRST_DESCRIPTOR = 16, ROOT_RECORD = 156, PRIMARY = 1, JOLIET = 2, LAST = 255 };

/* Volume descriptor of a type (ECMA-119, section 8). */
static const unsigned char *descriptor(const struct image *image, int type)
{
	for (size_t sector = FIRST_DESCRIPTOR;; sector++) {
		const unsigned char *d = at(image, sector * SECTOR, SECTOR);
		assert_memory_equal(d + 1, "CD001", 5);
		if (d[0] == type)
			return d;
		if (d[0] == LAST)
			fail_msg("no volume descriptor of type %d", type);
	}
}

/* Is the name of a Joliet directory record (big-endian UCS-2) this one? */
static bool is_named(const unsigned char *record, const char *name)
{
	size_t len = strlen(name);

	if (record[32] < 2 * len)
		return false;
	for (size_t i = 0; i < len; i++)
		if (record[33 + 2 * i] != 0 || record[34 + 2 * i] != (unsigned char)name[i])
			return false;
	/* ".;1" behind it: no extension, version 1. */
	return record[32] == 2 * (len + 3) && record[34 + 2 * len] == '.' && record[36 + 2 * len] == ';';
}

static void check_file(const struct image *image, const char *name, const char *want)
{
	const unsigned char *root = descriptor(image, JOLIET) + ROOT_RECORD;
	size_t begin = (size_t)le32(root + 2) * SECTOR, size = le32(root + 10), len = strlen(want);

	at(image, begin, size);
	for (size_t i = 0; i < size && image->data[begin + i]; i += image->data[begin + i]) {
		const unsigned char *record = at(image, begin + i, image->data[begin + i]);
		if (!is_named(record, name))
			continue;
		assert_int_equal(le32(record + 10), len);
		assert_memory_equal(at(image, (size_t)le32(record + 2) * SECTOR, len), want, len);
		return;
	}
	fail_msg("no file \"%s\" in the image", name);
}

static void the_image_is_labelled_cidata_and_holds_the_files(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const struct rk_seed_input in = input();
	struct image image RK_CLEANUP(free_image) = make(&in);

	(void)state;
	assert_int_equal(image.len % SECTOR, 0);
	/* Capitals in the primary descriptor, as its character set wants; blkid and cloud-init go by the Joliet label. */
	assert_memory_equal(descriptor(&image, PRIMARY) + 40, "CIDATA                          ", 32);
	assert_memory_equal(descriptor(&image, JOLIET) + 40, "\0c\0i\0d\0a\0t\0a\0 ", 14);
	check_file(&image, "meta-data", render(&in, arena, "meta-data"));
	check_file(&image, "user-data", render(&in, arena, "user-data"));
	check_file(&image, "network-config", render(&in, arena, "network-config"));
}

static void a_file_of_many_blocks_is_whole(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const char *many[1000];
	struct rk_seed_input in = input();

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(many); i++)
		many[i] = rk_arena_printf(arena, "10.20.%zu.%zu", i / 250, i % 250 + 1);
	in.imex_nodes = many;
	in.n_imex_nodes = RK_ARRAY_SIZE(many);
	struct image image RK_CLEANUP(free_image) = make(&in);
	const char *text = render(&in, arena, "user-data");
	assert_true(strlen(text) > 5 * SECTOR);
	check_file(&image, "user-data", text);
}

static void the_same_input_gives_the_same_bytes_years_later(void **state)
{
	const struct rk_seed_input in = input();
	struct image first RK_CLEANUP(free_image) = make(&in);

	(void)state;
	clock_now += 100000000;
	struct image second RK_CLEANUP(free_image) = make(&in);
	assert_int_equal(first.len, second.len);
	assert_memory_equal(first.data, second.data, first.len);
}

static void another_input_gives_other_bytes(void **state)
{
	struct rk_seed_input in = input();
	struct image first RK_CLEANUP(free_image) = make(&in);

	(void)state;
	in.generation++;
	struct image second RK_CLEANUP(free_image) = make(&in);
	assert_true(first.len != second.len || memcmp(first.data, second.data, first.len) != 0);
}

static void *make_in_thread(void *arg)
{
	struct image *image = arg;
	const struct rk_seed_input in = input();

	*image = make(&in);
	return NULL;
}

static void images_made_at_the_same_time_are_the_same_too(void **state)
{
	struct image images[8];
	pthread_t threads[8];

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(images); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, make_in_thread, &images[i]), 0);
	for (size_t i = 0; i < RK_ARRAY_SIZE(images); i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	for (size_t i = 1; i < RK_ARRAY_SIZE(images); i++) {
		assert_int_equal(images[i].len, images[0].len);
		assert_memory_equal(images[i].data, images[0].data, images[0].len);
		free(images[i].data);
	}
	free(images[0].data);
}

/* ---- names ------------------------------------------------------------------------------------------------------------------- */

/* Made with another program's version 5 UUIDs; the long names cross the block border of SHA-1's padding. */
static void uuids_are_version_5_of_site_cluster_vm_and_generation(void **state)
{
	static const struct {
		int vm_length;
		const char *uuid;
	} cases[] = {
		{ 17, "8d836000-7744-5c41-9283-dc690e982ad4" }, { 30, "5ee91d50-8b6c-5851-878f-c041fd19ac08" },
		{ 38, "00325af9-dd4c-545a-80de-4726c36fd7ea" }, { 40, "ad047845-e3e7-57ac-a398-a0c0eb3a3035" },
		{ 48, "2c83f959-0d9c-55b9-8bfd-d5ca0d4a44a6" }, { 110, "4d2b2ced-be54-5e8c-9d2b-b16041adfeea" },
	};
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();

	(void)state;
	assert_string_equal(rk_vm_uuid(arena, "eus2-a", "a", "a-01", 3), "43f0e752-8a8f-5801-9e0b-b3356fc25083");
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		char *vm = rk_arena_alloc(arena, 128);
		memset(vm, 'v', (size_t)cases[i].vm_length);
		assert_string_equal(rk_vm_uuid(arena, "s", "c", vm, 1), cases[i].uuid);
	}
}

static void names_on_the_host_follow_from_the_vm(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();

	(void)state;
	assert_string_equal(rk_vm_domain_name(arena, "a-01"), "racksh-a-01");
	assert_string_equal(rk_vm_os_volume(arena, "a-01"), "racksh-a-01-os.qcow2");
	assert_string_equal(rk_vm_seed_volume(arena, "a-01"), "racksh-a-01-seed.iso");
	assert_string_equal(rk_vm_mac(arena, "43f0e752-8a8f-5801-9e0b-b3356fc25083"), "52:35:6f:c2:50:83");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_files_of_a_vm_are_the_golden_ones),
		cmocka_unit_test(root_gets_no_sudo_and_stays_enabled),
		cmocka_unit_test(a_private_key_that_is_not_made_yet_is_only_named),
		cmocka_unit_test(a_sealed_seed_has_no_key_and_the_same_length),
		cmocka_unit_test(a_users_part_follows_as_base64_with_the_merge_that_lets_racksh_win),
		cmocka_unit_test(wiped_files_are_empty),
		cmocka_unit_test(every_generation_is_a_new_instance),
		cmocka_unit_test(each_kind_of_network_has_its_addresses),
		cmocka_unit_test(a_value_cannot_leave_its_quotes),
		cmocka_unit_test(a_vm_alone_still_has_a_complete_file),
		cmocka_unit_test(the_image_is_labelled_cidata_and_holds_the_files),
		cmocka_unit_test(a_file_of_many_blocks_is_whole),
		cmocka_unit_test(the_same_input_gives_the_same_bytes_years_later),
		cmocka_unit_test(another_input_gives_other_bytes),
		cmocka_unit_test(images_made_at_the_same_time_are_the_same_too),
		cmocka_unit_test(uuids_are_version_5_of_site_cluster_vm_and_generation),
		cmocka_unit_test(names_on_the_host_follow_from_the_vm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
