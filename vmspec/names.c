#include <stdio.h>
#include <string.h>

#include "vmspec/vmspec.h"

const char *rk_vm_domain_name(struct rk_arena *arena, const char *vm)
{
	return rk_arena_printf(arena, "racksh-%s", vm);
}

const char *rk_vm_os_volume(struct rk_arena *arena, const char *vm)
{
	return rk_arena_printf(arena, "racksh-%s-os.qcow2", vm);
}

const char *rk_vm_seed_volume(struct rk_arena *arena, const char *vm)
{
	return rk_arena_printf(arena, "racksh-%s-seed.iso", vm);
}

/* SHA-1 (FIPS 180-4), because RFC 9562 wants it in a version 5 UUID; nothing here relies on it for security. */
static uint32_t rol(uint32_t v, int n)
{
	return v << n | v >> (32 - n);
}

static void sha1_block(uint32_t h[5], const unsigned char block[64])
{
	uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];

	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)block[i * 4] << 24 | (uint32_t)block[i * 4 + 1] << 16 | (uint32_t)block[i * 4 + 2] << 8 | block[i * 4 + 3];
	for (int i = 16; i < 80; i++)
		w[i] = rol(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	for (int i = 0; i < 80; i++) {
		static const uint32_t k[] = { 0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6 };
		uint32_t f = i < 20 ? (b & c) | (~b & d) : i < 40 || i >= 60 ? b ^ c ^ d : (b & c) | (b & d) | (c & d);
		uint32_t t = rol(a, 5) + f + e + k[i / 20] + w[i];
		e = d;
		d = c;
		c = rol(b, 30);
		b = a;
		a = t;
	}
	h[0] += a;
	h[1] += b;
	h[2] += c;
	h[3] += d;
	h[4] += e;
}

static void sha1(const unsigned char *data, size_t len, unsigned char out[20])
{
	uint32_t h[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 };
	unsigned char tail[128] = { 0 };
	size_t whole = len / 64 * 64, rest = len - whole, end = rest < 56 ? 64 : 128;

	for (size_t i = 0; i < whole; i += 64)
		sha1_block(h, data + i);
	memcpy(tail, data + whole, rest);
	tail[rest] = 0x80;
	for (int i = 0; i < 8; i++)
		tail[end - 1 - (size_t)i] = (unsigned char)((uint64_t)len * 8 >> (8 * i));
	for (size_t i = 0; i < end; i += 64)
		sha1_block(h, tail + i);
	for (int i = 0; i < 20; i++)
		out[i] = (unsigned char)(h[i / 4] >> (24 - i % 4 * 8));
}

const char *rk_vm_uuid(struct rk_arena *arena, const char *site, const char *cluster, const char *vm, int generation)
{
	/* Name space of our own, made once at random. */
	static const unsigned char space[16] = { 0x6f, 0x0a, 0x3d, 0x51, 0x9c, 0x1e, 0x4b, 0x77, 0xa2, 0x68, 0x14, 0xe3, 0x5d, 0x90, 0xbb, 0x2f };
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	unsigned char d[20];

	rk_str_addn(&text, (const char *)space, sizeof(space));
	rk_str_addf(&text, "%s/%s/%s/%d", site, cluster, vm, generation);
	sha1((const unsigned char *)text.text, text.len, d);
	d[6] = (unsigned char)((d[6] & 0x0f) | 0x50);
	d[8] = (unsigned char)((d[8] & 0x3f) | 0x80);
	return rk_arena_printf(arena, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7],
			       d[8], d[9], d[10], d[11], d[12], d[13], d[14], d[15]);
}

const char *rk_vm_mac(struct rk_arena *arena, const char *uuid)
{
	/* 52:54:00 is QEMU's prefix; the last three bytes of the UUID follow. */
	const char *tail = uuid + strlen(uuid) - 6;

	return rk_arena_printf(arena, "52:54:00:%.2s:%.2s:%.2s", tail, tail + 2, tail + 4);
}
