#include "provision/drivers/ufm_parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "946dae03005985c8", with or without 0x. A longer one (virtual ports have up to 20 digits) is no GUID of 64 bits. */
static bool read_guid(const struct rk_jnode *node, uint64_t *ret)
{
	const char *text = rk_jstr(node);
	char hex[24];

	if (!text || (size_t)snprintf(hex, sizeof(hex), "0x%s", text + (rk_starts_with(text, "0x") ? 2 : 0)) >= sizeof(hex))
		return false;
	return rk_parse_u64(hex, ret) && *ret != 0;
}

static bool read_membership(const struct rk_jnode *node, bool *ret_full)
{
	const char *word = rk_jstr(rk_jget(node, "membership"));

	*ret_full = rk_streq(word, "full");
	return *ret_full || rk_streq(word, "limited");
}

int rk_ufm_cmp_member(const void *a, const void *b)
{
	uint64_t x = ((const struct rk_ib_member *)a)->guid, y = ((const struct rk_ib_member *)b)->guid;

	return (x > y) - (x < y);
}

/* {"guids":[{"guid","membership"}],"partition":…} */
int rk_ufm_partition(const struct rk_jnode *node, uint16_t pkey, struct rk_arena *arena, struct rk_ib_live *ret, struct rk_err *err)
{
	const struct rk_jnode *guids = rk_jget(node, "guids");

	if (node->type != RK_JOBJECT || !guids || guids->type != RK_JARRAY)
		return rk_err_set(err, RK_UNREACHABLE, "UFM tells no members of key 0x%04x", pkey);
	*ret = (struct rk_ib_live){ .pkey = pkey, .name = rk_arena_strdup(arena, rk_jstr(rk_jget(node, "partition"))),
				    .members = rk_arena_array(arena, guids->n, sizeof(*ret->members)) };
	ret->name = ret->name ? ret->name : "";
	RK_JEACH(it, guids) {
		struct rk_ib_member *m = &ret->members[ret->n_members];
		if (!read_guid(rk_jget(it, "guid"), &m->guid) || !read_membership(it, &m->full))
			return rk_err_set(err, RK_UNREACHABLE, "UFM tells a member of key 0x%04x without GUID or membership", pkey);
		ret->n_members++;
	}
	qsort(ret->members, ret->n_members, sizeof(*ret->members), rk_ufm_cmp_member);
	return 0;
}

/* Ports are full members of the default partition unless UFM is configured otherwise: then nobody is apart from anybody. */
static int check_default(const struct rk_jnode *node, struct rk_err *err)
{
	bool full;

	if (!read_membership(node, &full) || !full)
		return 0;
	rk_err_set(err, RK_UNHEALTHY, "UFM makes every port a full member of the default partition: tenants are not apart");
	rk_err_hint(err, "set default_membership = limited in gv.cfg of UFM and restart it");
	return RK_UNHEALTHY;
}

const struct rk_ib_member *rk_ufm_member(const struct rk_ib_member *members, size_t n, uint64_t guid)
{
	const struct rk_ib_member key = { .guid = guid };

	return n ? bsearch(&key, members, n, sizeof(*members), rk_ufm_cmp_member) : NULL;
}

int rk_ufm_partitions(const struct rk_jnode *root, struct rk_arena *arena, struct rk_ib_live **ret, size_t *ret_n, struct rk_err *err)
{
	size_t n = 0;
	int rc;

	if (root->type != RK_JOBJECT)
		return rk_err_set(err, RK_UNREACHABLE, "UFM's list of keys is not understood");
	struct rk_ib_live *parts = rk_arena_array(arena, root->n, sizeof(*parts));
	RK_JEACH(node, root) {
		uint64_t pkey;
		if (!rk_parse_u64(node->key, &pkey) || pkey > 0xffff)
			return rk_err_set(err, RK_UNREACHABLE, "UFM lists \"%.40s\", which is no key", node->key);
		pkey &= 0x7fff;
		if (pkey == RK_PKEY_DEFAULT && (rc = check_default(node, err)) != 0)
			return rc;
		if ((rc = rk_ufm_partition(node, (uint16_t)pkey, arena, &parts[n++], err)) != 0)
			return rc;
	}
	*ret = parts;
	*ret_n = n;
	return 0;
}

int rk_ufm_ports(const struct rk_jnode *root, struct rk_map *active, struct rk_err *err)
{
	if (root->type != RK_JARRAY)
		return rk_err_set(err, RK_UNREACHABLE, "UFM's list of ports is not understood");
	RK_JEACH(it, root) {
		uint64_t guid;
		const char *state = rk_jstr(rk_jget(it, "logical_state"));
		if (read_guid(rk_jget(it, "guid"), &guid) && state)
			rk_map_set_u64(active, guid, rk_streq(state, "Active"));
	}
	return 0;
}

/* {"NAME":{"pkey":"0x12","guids":[...]}}; the name is the application's. */
int rk_ufm_sharp(const struct rk_jnode *root, uint16_t pkey, struct rk_str *names, struct rk_err *err)
{
	if (root->type != RK_JOBJECT)
		return rk_err_set(err, RK_UNREACHABLE, "UFM's list of SHARP reservations is not understood");
	RK_JEACH(it, root) {
		const char *word = rk_jstr(rk_jget(it, "pkey"));
		uint64_t key;
		if (!word || !rk_parse_u64(word, &key))
			return rk_err_set(err, RK_UNREACHABLE, "UFM tells no key of SHARP reservation \"%.60s\"", it->key);
		if ((key & 0x7fff) == pkey)
			rk_str_addf(names, "%s%s", names->len ? ", " : "", it->key);
	}
	return 0;
}
