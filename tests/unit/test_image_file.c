/* What an image file says about itself, and what is refused. The images are made here, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "inventory/base/mem.h"
#include "inventory/base/str.h"
#include "vmspec/image_file.h"

enum { CLUSTER = 65536, L1 = CLUSTER, L2 = 2 * CLUSTER, DATA = 3 * CLUSTER, FILE_BYTES = 4 * CLUSTER };

static uint8_t file[FILE_BYTES];

static bool read_file(void *ctx, uint64_t offset, void *bytes, size_t n)
{
	assert_true(offset + n <= *(uint64_t *)ctx);
	memcpy(bytes, file + offset, n);
	return true;
}

static int judge(uint64_t length, struct rk_image_facts *facts, struct rk_err *err)
{
	const struct rk_image_source source = { read_file, &length, length };

	return rk_image_judge("x.img", &source, facts, err);
}

static void put(size_t at, int bytes, uint64_t value)
{
	for (int i = 0; i < bytes; i++)
		file[at + (size_t)i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
}

static void put_le(size_t at, int bytes, uint64_t value)
{
	for (int i = 0; i < bytes; i++)
		file[at + (size_t)i] = (uint8_t)(value >> (8 * i));
}

/* Version 3, clusters of 64 KiB, one level 2 table, and the first cluster of the disk in the file. */
static void make_qcow2(void)
{
	memset(file, 0, sizeof(file));
	memcpy(file, "QFI\xfb", 4);
	put(4, 4, 3);
	put(20, 4, 16);
	put(24, 8, 10ull << 30);
	put(36, 4, 20);
	put(40, 8, L1);
	put(100, 4, 104);
	put(L1, 8, 1ull << 63 | L2);
	put(L2, 8, 1ull << 63 | DATA);
}

/* A partition table at the start of the disk that lies at `base`. */
static void make_gpt(size_t base, const uint8_t type[16])
{
	memcpy(file + base + 512, "EFI PART", 8);
	put_le(base + 512 + 72, 8, 2);
	put_le(base + 512 + 80, 4, 128);
	put_le(base + 512 + 84, 4, 128);
	memcpy(file + base + 1024 + 128, type, 16);
}

static const uint8_t arm_root[16] = { 0x45, 0xb0, 0x21, 0xb9, 0xf0, 0x1d, 0xc3, 0x41, 0xaf, 0x44, 0x4c, 0x6f, 0x28, 0x0d, 0x3f, 0xae };
static const uint8_t bios_boot[16] = { 0x48, 0x61, 0x68, 0x21, 0x49, 0x64, 0x6f, 0x6e, 0x74, 0x4e, 0x65, 0x65, 0x64, 0x45, 0x46, 0x49 };
static const uint8_t linux_data[16] = { 0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47, 0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47, 0x7d, 0xe4 };

static void a_qcow2_has_the_size_of_its_disk(void **state)
{
	struct rk_image_facts facts;

	(void)state;
	make_qcow2();
	assert_int_equal(judge(FILE_BYTES, &facts, NULL), 0);
	assert_string_equal(facts.format, "qcow2");
	assert_true(facts.disk_bytes == 10ull << 30);
	assert_null(facts.arch);
	put(4, 4, 2);
	assert_int_equal(judge(FILE_BYTES, &facts, NULL), 0);
}

static void a_raw_disk_is_made_of_whole_sectors(void **state)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_image_facts facts;

	(void)state;
	memset(file, 0, sizeof(file));
	assert_int_equal(judge(FILE_BYTES, &facts, NULL), 0);
	assert_string_equal(facts.format, "raw");
	assert_true(facts.disk_bytes == FILE_BYTES);
	assert_int_equal(judge(FILE_BYTES - 1, &facts, &err), RK_INVALID);
	assert_non_null(strstr(err.message, "has 262143 bytes: a raw disk is made of whole sectors of 512"));
	assert_int_equal(judge(0, &facts, &err), RK_INVALID);
}

static void the_partition_table_tells_the_architecture_through_both_formats(void **state)
{
	static const struct {
		const uint8_t *type;
		const char *arch;
	} cases[] = { { arm_root, "aarch64" }, { bios_boot, "x86_64" }, { linux_data, NULL } };
	struct rk_image_facts facts;

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		memset(file, 0, sizeof(file));
		make_gpt(0, cases[i].type);
		assert_int_equal(judge(FILE_BYTES, &facts, NULL), 0);
		assert_true(rk_streq(facts.arch, cases[i].arch));
		make_qcow2();
		make_gpt(DATA, cases[i].type);
		assert_int_equal(judge(FILE_BYTES, &facts, NULL), 0);
		assert_true(rk_streq(facts.arch, cases[i].arch));
	}
	/* Compressed: it does not say. */
	put(L2, 8, 1ull << 62 | DATA);
	make_gpt(DATA, arm_root);
	assert_int_equal(judge(FILE_BYTES, &facts, NULL), 0);
	assert_null(facts.arch);
}

static void what_reaches_beyond_the_image_is_refused(void **state)
{
	static const struct {
		size_t at;
		int bytes;
		uint64_t value;
		const char *message;
	} cases[] = {
		{ 8, 8, 4096, "has a backing file, which could be any file of the host" },
		{ 32, 4, 2, "is encrypted" },
		{ 72, 8, 4, "keeps its data in another file" },
		{ 72, 8, 1, "was not closed cleanly" },
		{ 72, 8, 2, "is marked corrupt" },
		{ 72, 8, 1ull << 40, "uses qcow2 features that racksh does not know (0x10000000000)" },
		{ 4, 4, 4, "is qcow2 of version 4, versions 2 and 3 are known" },
		{ 20, 4, 8, "has no valid qcow2 header" },
		{ 20, 4, 22, "has no valid qcow2 header" },
		{ 24, 8, 0, "has no valid qcow2 header" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		struct rk_image_facts facts;
		make_qcow2();
		put(cases[i].at, cases[i].bytes, cases[i].value);
		assert_int_equal(judge(FILE_BYTES, &facts, &err), RK_INVALID);
		if (!strstr(err.message, cases[i].message))
			fail_msg("\"%s\" is not in \"%s\"", cases[i].message, err.message);
	}
}

static void what_is_no_disk_is_called_by_its_name(void **state)
{
	static const struct {
		const char *magic;
		size_t n, at;
		const char *message;
	} cases[] = {
		{ "KDMV", 4, 0, "is a VMDK image" }, { "\x1f\x8b", 2, 0, "is gzip-compressed" }, { "\xfd" "7zXZ", 5, 0, "is xz-compressed" },
		{ "CD001", 5, 0x8001, "is an ISO 9660 image" }, { "vhdxfile", 8, 0, "is a VHDX image" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		struct rk_image_facts facts;
		memset(file, 0, sizeof(file));
		memcpy(file + cases[i].at, cases[i].magic, cases[i].n);
		assert_int_equal(judge(FILE_BYTES, &facts, &err), RK_INVALID);
		assert_non_null(strstr(err.message, cases[i].message));
	}
}

static uint64_t next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	return *seed ^= *seed << 17;
}

/* Any header gives facts or a refusal, and nothing outside the file is asked for (read_file checks). */
static void any_header_is_judged_within_the_file(void **state)
{
	static const size_t fields[] = { 4, 8, 20, 24, 32, 36, 40, 72, 100, 512 + 72, 512 + 80, 512 + 84, L1, L2, DATA + 512 + 72, DATA + 512 + 80 };
	uint64_t seed = 0x2545f4914f6cdd1d;
	int good = 0;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		struct rk_image_facts facts;
		if (i % 64 == 0) {
			make_qcow2();
			make_gpt(DATA, arm_root);
		}
		put(fields[next(&seed) % RK_ARRAY_SIZE(fields)], 8, next(&seed) >> next(&seed) % 64);
		memcpy(file, next(&seed) % 8 ? "QFI\xfb" : "RAW.", 4);
		int rc = judge(next(&seed) % 4 ? FILE_BYTES : next(&seed) % FILE_BYTES, &facts, &err);
		assert_true(rc == 0 || (rc == RK_INVALID && err.message));
		good += rc == 0;
	}
	assert_true(good > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_qcow2_has_the_size_of_its_disk),
		cmocka_unit_test(a_raw_disk_is_made_of_whole_sectors),
		cmocka_unit_test(the_partition_table_tells_the_architecture_through_both_formats),
		cmocka_unit_test(what_reaches_beyond_the_image_is_refused),
		cmocka_unit_test(what_is_no_disk_is_called_by_its_name),
		cmocka_unit_test(any_header_is_judged_within_the_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
