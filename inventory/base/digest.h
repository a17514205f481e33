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
void rk_hmac_sha1(const void *key, size_t key_len, const void *data, size_t len, uint8_t ret[20]);
void rk_base64_add(struct rk_str *out, const void *data, size_t len);
/* Strict (RFC 4648, padding required). Bytes written, or -1 when the text is no base64 or ret is too small. */
long rk_base64_decode(const char *text, size_t len, uint8_t *ret, size_t max);
