/* The data types of SSH (RFC 4251, section 5) in bytes that come from anybody: nothing is read outside of them. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inventory/base/str.h"

/* Borrowed. */
struct rk_bytes {
	const uint8_t *at;
	size_t n;
};
bool rk_bytes_are(struct rk_bytes bytes, const char *text);
bool rk_bytes_equal(struct rk_bytes a, struct rk_bytes b);
/* "SHA256:..." of a public key, as ssh-keygen -l prints it. */
void rk_bytes_fingerprint(struct rk_bytes key, struct rk_str *out);

/* What is still to be read. Once something is not there, `bad` is set and all that follows reads as 0 and empty. */
struct rk_wire {
	const uint8_t *at;
	size_t left;
	bool bad;
};
struct rk_wire rk_wire_of(struct rk_bytes bytes);
struct rk_bytes rk_wire_bytes(struct rk_wire *wire, size_t n);
uint8_t rk_wire_u8(struct rk_wire *wire);
uint32_t rk_wire_u32(struct rk_wire *wire);
uint64_t rk_wire_u64(struct rk_wire *wire);
struct rk_bytes rk_wire_string(struct rk_wire *wire); /* also an mpint or a name-list */
/* Is one of the names of one comma-separated list in the other? */
bool rk_name_lists_meet(struct rk_bytes list, const char *other);

void rk_wire_add_u32(struct rk_str *out, uint32_t v);
void rk_wire_add_string(struct rk_str *out, const void *bytes, size_t n);
