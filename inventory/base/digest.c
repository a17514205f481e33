#include "inventory/base/digest.h"

#include <stdio.h>
#include <string.h>

#include "inventory/base/mem.h"

typedef void block_fn(uint32_t *state, const uint8_t *block);

static uint32_t rol(uint32_t v, int n)
{
	return v << n | v >> (32 - n);
}

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Both digests of FIPS 180-4 pad alike: 0x80, zeros, the length in bits as 64 bit big endian. rest: what fills no block, of len in all. */
static void finish(block_fn *block, uint32_t *state, size_t words, const uint8_t *rest, uint64_t len, uint8_t *ret)
{
	uint8_t tail[128] = { 0 };
	size_t n = (size_t)(len % 64), tail_len = n < 56 ? 64 : 128;

	if (n)
		memcpy(tail, rest, n);
	tail[n] = 0x80;
	for (int i = 0; i < 8; i++)
		tail[tail_len - 1 - (size_t)i] = (uint8_t)(len * 8 >> (8 * i));
	for (size_t i = 0; i < tail_len; i += 64)
		block(state, tail + i);
	for (size_t i = 0; i < words * 4; i++)
		ret[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}

static void digest(block_fn *block, uint32_t *state, size_t words, const uint8_t *data, size_t len, uint8_t *ret)
{
	size_t whole = len & ~(size_t)63;

	for (size_t i = 0; i < whole; i += 64)
		block(state, data + i);
	finish(block, state, words, data + whole, len, ret);
}

static void sha1_block(uint32_t *h, const uint8_t *block)
{
	static const uint32_t k[4] = { 0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6 };
	uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];

	for (int i = 0; i < 16; i++)
		w[i] = be32(block + 4 * i);
	for (int i = 16; i < 80; i++)
		w[i] = rol(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	for (int i = 0; i < 80; i++) {
		uint32_t f = i < 20 ? (b & c) | (~b & d) : i >= 40 && i < 60 ? (b & c) | (b & d) | (c & d) : b ^ c ^ d;
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

static const uint32_t sha256_k[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
	0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
	0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
	0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
	0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
	0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t ror(uint32_t v, int n)
{
	return v >> n | v << (32 - n);
}

/* One round; the next one has the words one place on, so that nothing is moved. */
#define SHA256_ROUND(a, b, c, d, e, f, g, h, i)                                                                          \
	do {                                                                                                             \
		h += (ror(e, 6) ^ ror(e, 11) ^ ror(e, 25)) + ((e & f) ^ (~e & g)) + sha256_k[i] + w[i];                  \
		d += h;                                                                                                  \
		h += (ror(a, 2) ^ ror(a, 13) ^ ror(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));                              \
	} while (0)

static void sha256_block(uint32_t *state, const uint8_t *block)
{
	uint32_t w[64], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];

	for (int i = 0; i < 16; i++)
		w[i] = be32(block + 4 * i);
	for (int i = 16; i < 64; i++) {
		uint32_t x = w[i - 15], y = w[i - 2];
		w[i] = w[i - 16] + (ror(x, 7) ^ ror(x, 18) ^ x >> 3) + w[i - 7] + (ror(y, 17) ^ ror(y, 19) ^ y >> 10);
	}
	for (int i = 0; i < 64; i += 8) {
		SHA256_ROUND(a, b, c, d, e, f, g, h, i);
		SHA256_ROUND(h, a, b, c, d, e, f, g, i + 1);
		SHA256_ROUND(g, h, a, b, c, d, e, f, i + 2);
		SHA256_ROUND(f, g, h, a, b, c, d, e, i + 3);
		SHA256_ROUND(e, f, g, h, a, b, c, d, i + 4);
		SHA256_ROUND(d, e, f, g, h, a, b, c, i + 5);
		SHA256_ROUND(c, d, e, f, g, h, a, b, i + 6);
		SHA256_ROUND(b, c, d, e, f, g, h, a, i + 7);
	}
	const uint32_t add[8] = { a, b, c, d, e, f, g, h };
	for (int i = 0; i < 8; i++)
		state[i] += add[i];
}

void rk_sha1(const void *data, size_t len, uint8_t ret[20])
{
	uint32_t h[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 };

	digest(sha1_block, h, 5, data, len, ret);
}

void rk_sha256(const void *data, size_t len, uint8_t ret[32])
{
	struct rk_sha256 sum = RK_SHA256_INIT;

	digest(sha256_block, sum.state, 8, data, len, ret);
}

static void hex(const uint8_t sum[32], char ret[65])
{
	for (int i = 0; i < 32; i++)
		snprintf(ret + 2 * i, 3, "%02x", sum[i]);
}

void rk_sha256_hex(const void *data, size_t len, char ret[65])
{
	uint8_t sum[32];

	rk_sha256(data, len, sum);
	hex(sum, ret);
}

void rk_sha256_add(struct rk_sha256 *sum, const void *data, size_t len)
{
	const uint8_t *p = data;
	size_t held = (size_t)(sum->len % 64), room = held ? 64 - held : 0;

	sum->len += len;
	if (room) {
		size_t n = len < room ? len : room;
		memcpy(sum->rest + held, p, n);
		p += n;
		len -= n;
		if (n < room)
			return;
		sha256_block(sum->state, sum->rest);
	}
	for (; len >= 64; p += 64, len -= 64)
		sha256_block(sum->state, p);
	if (len)
		memcpy(sum->rest, p, len);
}

void rk_sha256_end(struct rk_sha256 *sum, char ret[65])
{
	uint8_t bytes[32];

	finish(sha256_block, sum->state, 8, sum->rest, sum->len, bytes);
	hex(bytes, ret);
}

void rk_hmac_sha1(const void *key, size_t key_len, const void *data, size_t len, uint8_t ret[20])
{
	uint8_t pad[64] = { 0 }, outer[64 + 20], *inner RK_CLEANUP_FREE = rk_xmalloc(64 + len);

	if (key_len > 64)
		rk_sha1(key, key_len, pad);
	else if (key_len)
		memcpy(pad, key, key_len);
	for (int i = 0; i < 64; i++) {
		inner[i] = pad[i] ^ 0x36;
		outer[i] = pad[i] ^ 0x5c;
	}
	if (len)
		memcpy(inner + 64, data, len);
	rk_sha1(inner, 64 + len, outer + 64);
	rk_sha1(outer, sizeof(outer), ret);
}

static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void rk_base64_add(struct rk_str *out, const void *data, size_t len)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < len; i += 3) {
		uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < len ? (uint32_t)p[i + 1] << 8 : 0) | (i + 2 < len ? p[i + 2] : 0);
		rk_str_addc(out, base64[v >> 18]);
		rk_str_addc(out, base64[v >> 12 & 63]);
		rk_str_addc(out, i + 1 < len ? base64[v >> 6 & 63] : '=');
		rk_str_addc(out, i + 2 < len ? base64[v & 63] : '=');
	}
}

long rk_base64_decode(const char *text, size_t len, uint8_t *ret, size_t max)
{
	size_t n = 0, pad = len && text[len - 1] == '=' ? len > 1 && text[len - 2] == '=' ? 2 : 1 : 0;
	uint32_t v = 0;

	if (len % 4)
		return -1;
	for (size_t i = 0; i < len; i++) {
		const char *at = i < len - pad && text[i] ? strchr(base64, text[i]) : NULL;
		if (!at && i < len - pad)
			return -1;
		v = v << 6 | (at ? (uint32_t)(at - base64) : 0);
		if (i % 4 != 3)
			continue;
		for (size_t k = 0; k < 3 - (i + 1 == len ? pad : 0); k++) {
			if (n == max)
				return -1;
			ret[n++] = (uint8_t)(v >> (16 - 8 * k));
		}
		v = 0;
	}
	return (long)n;
}
