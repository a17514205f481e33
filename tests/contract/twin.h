/* A twin of one rack of four trays with two tenants of one tray each (clusters "a" of tenant "ta" and "b" of "tb" on r1-t01 and r1-t02), for tests. */
#pragma once
#include <string.h>
#include <unistd.h>

#include "inventory/site_file.h"
#include "provision/cluster.h"
#include "provision/sim.h"

struct twin {
	struct rk_world world;
	struct rk_site *site;     /* what the twin was opened with */
	struct rk_clock *clock;
	struct rk_arena *arena;
	int cancel;
};

static const char twin_site[] =
	"{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\","
	"\"defaults\":{\"hypervisor\":{\"libvirt\":\"12.8.0\",\"qemu\":\"11.1.3\",\"arch\":\"aarch64\",\"pageKiB\":64}},"
	"\"network\":{\"bridge\":\"br0\",\"addresses\":\"10.20.0.0/24\",\"gateway\":\"10.20.0.1\"},"
	"\"infiniband\":[{\"name\":\"ib0\",\"driver\":\"opensm\",\"ssh\":\"root@sm1\",\"partitionsFile\":\"/etc/p.conf\",\"pkeyPool\":\"0x0100-0x01ff\"}],"
	"\"racks\":[{\"name\":\"r1\",\"nvlink\":{\"driver\":\"nvos\",\"ssh\":\"admin@{rack}-sw1\"},\"trays\":{\"count\":4}}],"
	"\"images\":[{\"name\":\"u\",\"volume\":\"default/u.qcow2\",\"arch\":\"aarch64\",\"format\":\"qcow2\"}],"
	"\"tenants\":[{\"name\":\"ta\"},{\"name\":\"tb\"}]}";

#define TWIN_OK(call)                                                                           \
	do {                                                                                    \
		struct rk_err err_ = RK_ERR_INIT, *err = &err_;                                 \
		if ((call) != 0)                                                                \
			fail_msg("%s: %s", #call, err->message ? err->message : "(no message)"); \
	} while (0)

static inline void twin_cluster(struct twin *t, const char *name, const char *tenant, int count)
{
	const char *text = rk_arena_printf(t->arena,
		"{\"apiVersion\":\"racksh/v1\",\"kind\":\"Cluster\",\"name\":\"%s\",\"tenant\":\"%s\",\"size\":\"nd128isr-gb300-v6\",\"count\":%d,\"image\":\"u\","
		"\"placement\":{\"segment\":1},\"ssh\":{\"user\":\"ops\",\"authorizedKeys\":"
		"[\"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExampleExample00 o@c\"]}}", name, tenant, count);
	struct rk_spec *spec;
	int64_t op;

	TWIN_OK(rk_spec_parse("spec", text, strlen(text), t->arena, &spec, err));
	TWIN_OK(rk_cluster_create(&t->world, spec, &op, err));
	TWIN_OK(rk_world_refresh(&t->world, err));
}

/* clusters: make "a" and "b". */
static inline void twin_open(struct twin *t, const char *site_text, bool clusters)
{
	const struct rk_actor me = { "tester", "here", (long)getpid() };

	memset(t, 0, sizeof(*t));
	t->arena = rk_arena_new();
	t->clock = rk_clock_virtual(1764500000000);
	TWIN_OK(rk_site_parse("site", site_text, strlen(site_text), &t->site, err));
	rk_site_invent(t->site);
	TWIN_OK(rk_store_open("mem:", RK_STORE_WRITE, &me, &t->world.store, err));
	TWIN_OK(rk_store_begin(t->world.store, -1, err));
	TWIN_OK(rk_store_put_site(t->world.store, t->site, err));
	TWIN_OK(rk_store_commit(t->world.store, err));
	TWIN_OK(rk_store_snapshot(t->world.store, &t->world.site, err));
	TWIN_OK(rk_sim_open(t->site, NULL, t->clock, &t->world.sim, err));
	t->world.jobs = 1;
	t->world.wait = true;
	t->world.cancel = &t->cancel;
	t->world.env = (struct rk_driver_env){ .site = t->world.site, .clock = t->clock, .cancel = &t->cancel };
	TWIN_OK(rk_world_drivers(&t->world, err));
	if (!clusters)
		return;
	twin_cluster(t, "a", "ta", 1);
	twin_cluster(t, "b", "tb", 1);
}

static inline void twin_close(struct twin *t)
{
	rk_world_close(&t->world);
	rk_site_free(t->site);
	rk_clock_free(t->clock);
	rk_arena_free(t->arena);
}
