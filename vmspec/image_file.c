#include "vmspec/image_file.h"

#include <stddef.h>
#include <string.h>

#include "inventory/base/mem.h"

enum { SECTOR = 512, GPT_ENTRIES_MAX = 128, GPT_ENTRY = 128, CLUSTER_BITS_MIN = 9, CLUSTER_BITS_MAX = 21, HEADER_2 = 72, HEADER_3 = 104 };

#define OFFSET_MASK 0x00fffffffffffe00ull

struct qcow2 {
	const struct rk_image_source *source;
	unsigned cluster_bits;
	uint64_t l1_offset, disk_bytes;
	uint32_t l1_entries;
	unsigned entry_bytes;             /* of a level 2 table: 8, or 16 with subclusters */
};

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint64_t be64(const uint8_t *p)
{
	return (uint64_t)be32(p) << 32 | be32(p + 4);
}

static uint32_t le32(const uint8_t *p)
{
	return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

static uint64_t le64(const uint8_t *p)
{
	return (uint64_t)le32(p + 4) << 32 | le32(p);
}

/* Nothing outside the file, however large its offsets claim to be. */
static bool fetch(const struct rk_image_source *s, uint64_t offset, void *bytes, size_t n)
{
	return offset <= s->bytes && n <= s->bytes - offset && s->read(s->ctx, offset, bytes, n);
}

/* ---- qcow2 --------------------------------------------------------------------------------------------------------------------------- */

/* Bits that a reader must understand; those that let the file name another one are never right in an image. */
static const struct {
	unsigned bit;
	const char *refusal; /* NULL: fine */
} incompatible[] = {
	{ 0, "was not closed cleanly (dirty): run \"qemu-img check -r all\" on it" },
	{ 1, "is marked corrupt" },
	{ 2, "keeps its data in another file" },
	{ 3, NULL }, /* compression type */
	{ 4, NULL }, /* subclusters */
};

static int check_features(const char *name, uint64_t bits, struct rk_err *err)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(incompatible); i++) {
		if (bits >> incompatible[i].bit & 1 && incompatible[i].refusal)
			return rk_err_set(err, RK_INVALID, "image \"%s\" %s", name, incompatible[i].refusal);
		bits &= ~(1ull << incompatible[i].bit);
	}
	return bits ? rk_err_set(err, RK_INVALID, "image \"%s\" uses qcow2 features that racksh does not know (0x%llx)", name, (unsigned long long)bits) : 0;
}

static int read_qcow2(const char *name, const struct rk_image_source *s, struct qcow2 *q, struct rk_err *err)
{
	uint8_t h[HEADER_3] = { 0 };
	uint32_t version;

	if (!fetch(s, 0, h, HEADER_2))
		return rk_err_set(err, RK_INVALID, "image \"%s\" ends within its qcow2 header", name);
	version = be32(h + 4);
	if (version != 2 && version != 3)
		return rk_err_set(err, RK_INVALID, "image \"%s\" is qcow2 of version %u, versions 2 and 3 are known", name, version);
	if (version == 3 && !fetch(s, 0, h, HEADER_3))
		return rk_err_set(err, RK_INVALID, "image \"%s\" ends within its qcow2 header", name);
	if (be64(h + 8)) {
		rk_err_set(err, RK_INVALID, "image \"%s\" has a backing file, which could be any file of the host", name);
		rk_err_hint(err, "qemu-img convert -O qcow2 makes an image that stands alone");
		return RK_INVALID;
	}
	if (be32(h + 32))
		return rk_err_set(err, RK_INVALID, "image \"%s\" is encrypted", name);
	*q = (struct qcow2){ s, be32(h + 20), be64(h + 40), be64(h + 24), be32(h + 36), 8 };
	if (q->cluster_bits < CLUSTER_BITS_MIN || q->cluster_bits > CLUSTER_BITS_MAX || !q->disk_bytes || q->l1_offset % 8)
		return rk_err_set(err, RK_INVALID, "image \"%s\" has no valid qcow2 header", name);
	uint64_t features = version == 3 ? be64(h + 72) : 0;
	if (features >> 4 & 1)
		q->entry_bytes = 16;
	return check_features(name, features, err);
}

/* n bytes of the guest's disk that lie within one cluster; false when they are compressed or beyond the file. */
static bool qcow2_piece(const struct qcow2 *q, uint64_t at, uint8_t *bytes, size_t n)
{
	uint64_t cluster = 1ull << q->cluster_bits, per_table = cluster / q->entry_bytes;
	uint64_t index = (at >> q->cluster_bits) / per_table, slot = (at >> q->cluster_bits) % per_table;
	uint8_t entry[8];

	if (index >= q->l1_entries || !fetch(q->source, q->l1_offset + index * 8, entry, 8))
		return false;
	uint64_t table = be64(entry) & OFFSET_MASK;
	if (table && !fetch(q->source, table + slot * q->entry_bytes, entry, 8))
		return false;
	uint64_t word = table ? be64(entry) : 0, data = word & OFFSET_MASK;
	if (word >> 62 & 1)
		return false;
	if (!data || word & 1) {
		memset(bytes, 0, n);
		return true;
	}
	return fetch(q->source, data + at % cluster, bytes, n);
}

static bool qcow2_read(const struct qcow2 *q, uint64_t at, uint8_t *bytes, size_t n)
{
	uint64_t cluster = 1ull << q->cluster_bits;

	for (size_t done = 0, piece; done < n; done += piece) {
		piece = (size_t)(cluster - (at + done) % cluster);
		piece = piece < n - done ? piece : n - done;
		if (!qcow2_piece(q, at + done, bytes + done, piece))
			return false;
	}
	return true;
}

/* ---- architecture -------------------------------------------------------------------------------------------------------------------- */

/* Partition types that only one architecture has (Discoverable Partitions Specification; BIOS boot partition), as they lie on disk. */
static const struct {
	uint8_t type[16];
	const char *arch;
} types[] = {
	{ { 0x45, 0xb0, 0x21, 0xb9, 0xf0, 0x1d, 0xc3, 0x41, 0xaf, 0x44, 0x4c, 0x6f, 0x28, 0x0d, 0x3f, 0xae }, "aarch64" }, /* root */
	{ { 0xe3, 0xbc, 0x68, 0x4f, 0xcd, 0xe8, 0xb1, 0x4d, 0x96, 0xe7, 0xfb, 0xca, 0xf9, 0x84, 0xb7, 0x09 }, "x86_64" },  /* root */
	{ { 0x48, 0x61, 0x68, 0x21, 0x49, 0x64, 0x6f, 0x6e, 0x74, 0x4e, 0x65, 0x65, 0x64, 0x45, 0x46, 0x49 }, "x86_64" },  /* BIOS boot */
};

static bool disk_read(const struct rk_image_source *s, const struct qcow2 *q, uint64_t at, uint8_t *bytes, size_t n)
{
	return q ? qcow2_read(q, at, bytes, n) : fetch(s, at, bytes, n);
}

static const char *arch_of(const struct rk_image_source *s, const struct qcow2 *q)
{
	uint8_t header[92], entry[16];

	if (!disk_read(s, q, SECTOR, header, sizeof(header)) || memcmp(header, "EFI PART", 8) != 0)
		return NULL;
	uint64_t first = le64(header + 72);
	uint32_t n = le32(header + 80), size = le32(header + 84);
	if (first > UINT64_MAX / SECTOR / 2 || n > GPT_ENTRIES_MAX || size < GPT_ENTRY || size > 4096)
		return NULL;
	for (uint32_t i = 0; i < n; i++) {
		if (!disk_read(s, q, first * SECTOR + (uint64_t)i * size, entry, sizeof(entry)))
			return NULL;
		for (size_t k = 0; k < RK_ARRAY_SIZE(types); k++)
			if (memcmp(entry, types[k].type, sizeof(entry)) == 0)
				return types[k].arch;
	}
	return NULL;
}

/* ---- the whole ----------------------------------------------------------------------------------------------------------------------- */

/* What people take for a disk image and is none that QEMU can boot from as raw. */
static const struct {
	const char *magic;
	size_t n;
	uint64_t offset;
	const char *what;
} others[] = {
	{ "KDMV", 4, 0, "a VMDK image" },          { "conectix", 8, 0, "a VHD image" },      { "vhdxfile", 8, 0, "a VHDX image" },
	{ "<<< ", 4, 0, "a VDI image" },           { "\x1f\x8b", 2, 0, "gzip-compressed" },  { "\xfd" "7zXZ", 5, 0, "xz-compressed" },
	{ "PK\x03\x04", 4, 0, "a zip archive" },   { "(\xb5/\xfd", 4, 0, "zstd-compressed" }, { "BZh", 3, 0, "bzip2-compressed" },
	{ "ustar", 5, 257, "a tar archive" },      { "CD001", 5, 0x8001, "an ISO 9660 image" }, { "\x7f" "ELF", 4, 0, "a program" },
};

static int check_raw(const char *name, const struct rk_image_source *s, struct rk_err *err)
{
	uint8_t bytes[8];

	for (size_t i = 0; i < RK_ARRAY_SIZE(others); i++)
		if (fetch(s, others[i].offset, bytes, others[i].n) && memcmp(bytes, others[i].magic, others[i].n) == 0) {
			rk_err_set(err, RK_INVALID, "image \"%s\" is %s, neither qcow2 nor raw", name, others[i].what);
			rk_err_hint(err, "unpack it, or convert it with qemu-img convert -O qcow2");
			return RK_INVALID;
		}
	if (s->bytes < SECTOR || s->bytes % SECTOR)
		return rk_err_set(err, RK_INVALID, "image \"%s\" has %llu bytes: a raw disk is made of whole sectors of %d", name, (unsigned long long)s->bytes,
				  SECTOR);
	return 0;
}

int rk_image_judge(const char *name, const struct rk_image_source *source, struct rk_image_facts *ret, struct rk_err *err)
{
	uint8_t magic[4] = { 0 };
	struct qcow2 q;
	int rc;

	if (fetch(source, 0, magic, sizeof(magic)) && memcmp(magic, "QFI\xfb", sizeof(magic)) == 0) {
		rc = read_qcow2(name, source, &q, err);
		if (!rc)
			*ret = (struct rk_image_facts){ "qcow2", q.disk_bytes, arch_of(source, &q) };
		return rc;
	}
	rc = check_raw(name, source, err);
	if (!rc)
		*ret = (struct rk_image_facts){ "raw", source->bytes, arch_of(source, NULL) };
	return rc;
}
