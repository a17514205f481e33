/* A site of one rack of two trays with identities above 2^53, whose managers a test puts in place. */
#pragma once
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "inventory/base/str.h"
#include "inventory/site_file.h"

/* nvlink, infiniband: the rest of the entries as JSON without braces. */
static inline struct rk_site *fabric_site(const char *nvlink, const char *infiniband)
{
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_site *site = NULL;
	char *text RK_CLEANUP_FREE = rk_xasprintf(
		"{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\","
		"\"defaults\":{\"hypervisor\":{\"libvirt\":\"12.8.0\",\"qemu\":\"11.1.3\",\"arch\":\"aarch64\",\"pageKiB\":64}},"
		"\"infiniband\":[{\"name\":\"ib0\",\"pkeyPool\":\"0x0100-0x01ff\",%s}],"
		"\"racks\":[{\"name\":\"r1\",\"nvlink\":{%s},\"trays\":{\"count\":2}}],"
		"\"images\":[],\"tenants\":[{\"name\":\"t\"}]}", infiniband, nvlink);

	if (rk_site_parse("site", text, strlen(text), &site, &err) != 0)
		fail_msg("%s", err.message);
	rk_site_invent(site);
	return site;
}
