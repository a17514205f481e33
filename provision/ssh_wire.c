#include "provision/ssh_wire.h"

#include <string.h>

#include "inventory/base/digest.h"

bool rk_bytes_are(struct rk_bytes bytes, const char *text)
{
	return rk_bytes_equal(bytes, (struct rk_bytes){ (const uint8_t *)text, strlen(text) });
}

bool rk_bytes_equal(struct rk_bytes a, struct rk_bytes b)
{
	return a.n == b.n && (!a.n || memcmp(a.at, b.at, a.n) == 0);
}

void rk_bytes_fingerprint(struct rk_bytes key, struct rk_str *out)
{
	uint8_t sum[32];

	rk_sha256(key.at, key.n, sum);
	rk_str_add(out, "SHA256:");
	rk_base64_add(out, sum, sizeof(sum));
	while (out->text[out->len - 1] == '=')
		out->text[--out->len] = '\0';
}

struct rk_wire rk_wire_of(struct rk_bytes bytes)
{
	return (struct rk_wire){ bytes.at, bytes.n, false };
}

struct rk_bytes rk_wire_bytes(struct rk_wire *wire, size_t n)
{
	wire->bad |= n > wire->left;
	if (wire->bad)
		return (struct rk_bytes){ NULL, 0 };
	struct rk_bytes bytes = { wire->at, n };
	wire->at += n;
	wire->left -= n;
	return bytes;
}

static uint64_t big_endian(struct rk_bytes bytes)
{
	uint64_t v = 0;

	for (size_t i = 0; i < bytes.n; i++)
		v = v << 8 | bytes.at[i];
	return v;
}

uint8_t rk_wire_u8(struct rk_wire *wire)
{
	return (uint8_t)big_endian(rk_wire_bytes(wire, 1));
}

uint32_t rk_wire_u32(struct rk_wire *wire)
{
	return (uint32_t)big_endian(rk_wire_bytes(wire, 4));
}

uint64_t rk_wire_u64(struct rk_wire *wire)
{
	return big_endian(rk_wire_bytes(wire, 8));
}

struct rk_bytes rk_wire_string(struct rk_wire *wire)
{
	return rk_wire_bytes(wire, rk_wire_u32(wire));
}

/* Takes the first name off the list. */
static struct rk_bytes next_name(struct rk_bytes *list)
{
	const uint8_t *comma = list->n ? memchr(list->at, ',', list->n) : NULL;
	struct rk_bytes name = { list->at, comma ? (size_t)(comma - list->at) : list->n };
	size_t used = name.n + (comma != NULL);

	*list = (struct rk_bytes){ list->at + used, list->n - used };
	return name;
}

bool rk_name_lists_meet(struct rk_bytes list, const char *other)
{
	while (list.n) {
		struct rk_bytes name = next_name(&list), rest = { (const uint8_t *)other, strlen(other) };
		while (rest.n)
			if (rk_bytes_equal(next_name(&rest), name))
				return true;
	}
	return false;
}

void rk_wire_add_u32(struct rk_str *out, uint32_t v)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		rk_str_addc(out, (char)(v >> shift));
}

void rk_wire_add_string(struct rk_str *out, const void *bytes, size_t n)
{
	rk_wire_add_u32(out, (uint32_t)n);
	rk_str_addn(out, bytes, n);
}
