#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "inventory/base/str.h"
#include "inventory/store.h"

/* Free numbers of the pools: pure functions of a snapshot. The constraints of the store still decide. */

enum { NVL_FIRST = 1, NVL_LAST = RK_NVL_TRAYS, ADDRESS_FIRST = 10, ADDRESS_SPAN_BITS = 24 };

int rk_store_free_pkey(const struct rk_site *site, int fabric, uint16_t *ret, struct rk_err *err)
{
	const struct rk_fabric *f = &site->fabrics[fabric];
	bool used[RK_PKEY_DEFAULT + 1] = { [0] = true, [RK_PKEY_DEFAULT] = true };

	for (size_t i = 0; i < site->n_ib_partitions; i++)
		if (site->ib_partitions[i].fabric == fabric)
			used[site->ib_partitions[i].pkey & RK_PKEY_DEFAULT] = true;
	for (size_t i = 0; i < site->n_ib_services; i++)
		if (site->ib_services[i].fabric == fabric)
			used[site->ib_services[i].pkey & RK_PKEY_DEFAULT] = true;
	for (size_t i = 0; i < site->n_remains; i++)
		if (site->remains[i].fabric == fabric)
			used[site->remains[i].id & RK_PKEY_DEFAULT] = true;
	for (int pkey = f->pkey_first; pkey <= f->pkey_last && pkey <= RK_PKEY_DEFAULT; pkey++) {
		if (used[pkey])
			continue;
		*ret = (uint16_t)pkey;
		return 0;
	}
	rk_err_set(err, RK_NO_CAPACITY, "every PKey of the pool 0x%04x-0x%04x of fabric \"%s\" is used", f->pkey_first, f->pkey_last, f->name);
	rk_err_hint(err, "widen \"pkeyPool\" in the site file, or delete a cluster");
	return RK_NO_CAPACITY;
}

int rk_store_free_nvl_id(const struct rk_site *site, int rack, int *ret, struct rk_err *err)
{
	bool used[NVL_LAST + 1] = { false };

	for (size_t i = 0; i < site->n_nvl_partitions; i++)
		if (site->nvl_partitions[i].rack == rack && site->nvl_partitions[i].id >= NVL_FIRST && site->nvl_partitions[i].id <= NVL_LAST)
			used[site->nvl_partitions[i].id] = true;
	for (size_t i = 0; i < site->n_remains; i++)
		if (site->remains[i].rack == rack && site->remains[i].id >= NVL_FIRST && site->remains[i].id <= NVL_LAST)
			used[site->remains[i].id] = true;
	for (int id = NVL_FIRST; id <= NVL_LAST; id++) {
		if (used[id])
			continue;
		*ret = id;
		return 0;
	}
	return rk_err_set(err, RK_NO_CAPACITY, "every NVLink partition id of rack \"%s\" is used", site->racks[rack].name);
}

struct block {
	int family;
	size_t len;              /* bytes of an address */
	unsigned char base[16];  /* network address */
	uint64_t size;           /* addresses looked at: the block, at most 2^24 */
};

static bool parse_block(const char *cidr, struct block *ret)
{
	char text[64];
	const char *slash = strchr(cidr, '/');
	uint64_t prefix;

	if (!slash || (size_t)(slash - cidr) >= sizeof(text) || !rk_parse_u64(slash + 1, &prefix))
		return false;
	snprintf(text, sizeof(text), "%.*s", (int)(slash - cidr), cidr);
	ret->family = strchr(text, ':') ? AF_INET6 : AF_INET;
	ret->len = ret->family == AF_INET6 ? 16 : 4;
	if (inet_pton(ret->family, text, ret->base) != 1 || prefix > ret->len * 8)
		return false;
	uint64_t host_bits = ret->len * 8 - prefix;
	for (size_t i = 0; i < ret->len; i++) {
		size_t kept = prefix > i * 8 ? prefix - i * 8 : 0;
		if (kept < 8)
			ret->base[i] &= (unsigned char)(0xff00 >> kept);
	}
	ret->size = (uint64_t)1 << (host_bits > ADDRESS_SPAN_BITS ? ADDRESS_SPAN_BITS : host_bits);
	return true;
}

/* Offset of an address in the block; false when it lies outside. */
static bool offset_in(const struct block *b, const char *text, uint64_t *ret)
{
	unsigned char bytes[16];
	uint64_t offset = 0;

	if (!text || inet_pton(b->family, text, bytes) != 1)
		return false;
	for (size_t i = 0; i < b->len; i++) {
		int above = bytes[i] - b->base[i];
		if (above < 0 || offset > b->size)
			return false;
		offset = offset << 8 | (uint64_t)above;
	}
	*ret = offset;
	return offset < b->size;
}

static const char *address_at(const struct block *b, uint64_t offset, struct rk_arena *arena)
{
	unsigned char bytes[16];
	char text[INET6_ADDRSTRLEN];

	memcpy(bytes, b->base, sizeof(bytes));
	for (size_t i = b->len; i-- > 0 && offset; offset >>= 8)
		bytes[i] |= (unsigned char)(offset & 0xff);
	return rk_arena_strdup(arena, inet_ntop(b->family, bytes, text, sizeof(text)));
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

int rk_store_free_address(const struct rk_site *site, size_t nth, struct rk_arena *arena, const char **ret, struct rk_err *err)
{
	const char *cidr = site->network.addresses;
	struct block b = { 0 };

	if (!cidr) {
		rk_err_set(err, RK_NO_CAPACITY, "the site has no block of VM addresses");
		rk_err_hint(err, "give \"network\": {\"addresses\": \"10.0.0.0/16\"} in the site file");
		return RK_NO_CAPACITY;
	}
	if (!parse_block(cidr, &b))
		return rk_err_set(err, RK_INVALID, "\"%s\" is no address block", cidr);
	uint64_t *used RK_CLEANUP_FREE = rk_xcalloc(site->n_vms + 2, sizeof(*used));
	size_t n = 0;
	for (size_t i = 0; i < site->n_vms; i++)
		n += offset_in(&b, site->vms[i].address, &used[n]);
	n += offset_in(&b, site->network.gateway, &used[n]);
	if (b.family == AF_INET && b.size > 1)
		used[n++] = b.size - 1; /* broadcast */
	qsort(used, n, sizeof(*used), by_value);
	uint64_t at = ADDRESS_FIRST + nth;
	for (size_t i = 0; i < n; i++)
		at += used[i] >= ADDRESS_FIRST && used[i] <= at && (i == 0 || used[i] != used[i - 1]);
	if (at >= b.size) {
		rk_err_set(err, RK_NO_CAPACITY, "every address of \"%s\" from .%d up is used", cidr, ADDRESS_FIRST);
		rk_err_hint(err, "widen \"addresses\" of the site file, or delete a cluster");
		return RK_NO_CAPACITY;
	}
	*ret = address_at(&b, at, arena);
	return 0;
}
