/* Digests and base64: SHA-1 for version 5 UUIDs, HMAC-SHA1 for hashed known_hosts lines, SHA-256 for the managed section and for compare-and-replace. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "inventory/base/str.h"

/* Nothing may rely on SHA-1 for security. */
void rk_sha1(const void *data, size_t len, uint8_t ret[20]);
void rk_sha256(const void *data, size_t len, uint8_t ret[32]);
/* 64 hex digits and a NUL. */
void rk_sha256_hex(const void *data, size_t len, char ret[65]);
/* The same in pieces, for what does not fit in memory. Start with RK_SHA256_INIT. */
struct rk_sha256 {
	uint32_t state[8];
	uint64_t len;
	uint8_t rest[64]; /* len % 64 bytes that fill no block yet */
};
#define RK_SHA256_INIT { { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 }, 0, { 0 } }
void rk_sha256_add(struct rk_sha256 *sum, const void *data, size_t len);
void rk_sha256_end(struct rk_sha256 *sum, char ret[65]); /* 64 hex digits; sum is used up */
void rk_hmac_sha1(const void *key, size_t key_len, const void *data, size_t len, uint8_t ret[20]);
void rk_base64_add(struct rk_str *out, const void *data, size_t len);
/* Strict (RFC 4648, padding required). Bytes written, or -1 when the text is no base64 or ret is too small. */
long rk_base64_decode(const char *text, size_t len, uint8_t *ret, size_t max);
