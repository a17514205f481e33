#include <stdio.h>
#include <string.h>

#include "inventory/base/digest.h"
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

const char *rk_vm_uuid(struct rk_arena *arena, const char *site, const char *cluster, const char *vm, int generation)
{
	/* Name space of our own, made once at random. */
	static const unsigned char space[16] = { 0x6f, 0x0a, 0x3d, 0x51, 0x9c, 0x1e, 0x4b, 0x77, 0xa2, 0x68, 0x14, 0xe3, 0x5d, 0x90, 0xbb, 0x2f };
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	unsigned char d[20];

	rk_str_addn(&text, (const char *)space, sizeof(space));
	rk_str_addf(&text, "%s/%s/%s/%d", site, cluster, vm, generation);
	rk_sha1(text.text, text.len, d);
	d[6] = (unsigned char)((d[6] & 0x0f) | 0x50);
	d[8] = (unsigned char)((d[8] & 0x3f) | 0x80);
	return rk_arena_printf(arena, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7],
			       d[8], d[9], d[10], d[11], d[12], d[13], d[14], d[15]);
}

static bool has_uuid(const struct rk_site *site, const char *uuid)
{
	for (size_t i = 0; i < site->n_vms; i++)
		if (rk_streq(site->vms[i].uuid, uuid))
			return true;
	return false;
}

const char *rk_vm_new_uuid(struct rk_arena *arena, const struct rk_site *site, const char *cluster, const char *vm, int generation, size_t nth)
{
	const char *uuid = rk_vm_uuid(arena, site->name, cluster, vm, generation);

	for (int n = 1; has_uuid(site, uuid) || nth-- > 0; n++)
		uuid = rk_vm_uuid(arena, site->name, cluster, rk_arena_printf(arena, "%s/%d", vm, n), generation);
	return uuid;
}

const char *rk_vm_mac(struct rk_arena *arena, const char *uuid)
{
	/* 52 is locally administered, as QEMU's own addresses are. Five bytes of the UUID: with three, two VMs of a full site would have the same
	 * address in one site of 25. */
	const char *tail = uuid + strlen(uuid) - 10;

	return rk_arena_printf(arena, "52:%.2s:%.2s:%.2s:%.2s:%.2s", tail, tail + 2, tail + 4, tail + 6, tail + 8);
}
