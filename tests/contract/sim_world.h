/* A world on the twin in memory: two racks of four trays, one fabric. */
#pragma once
#include <stdio.h>
#include <string.h>

#include "inventory/site_file.h"
#include "provision/sim.h"

struct sim_world {
	struct rk_world world;
	struct rk_site *site; /* what the twin was opened with */
	struct rk_clock *clock;
	struct rk_arena *arena;
	int cancel;
};

static const char sim_site_text[] =
	"{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\","
	"\"defaults\":{\"hypervisor\":{\"libvirt\":\"12.8.0\",\"qemu\":\"11.1.3\",\"arch\":\"aarch64\",\"pageKiB\":64}},"
	"\"network\":{\"bridge\":\"br0\",\"addresses\":\"10.20.0.0/24\",\"gateway\":\"10.20.0.1\"},"
	"\"infiniband\":[{\"name\":\"ib0\",\"driver\":\"opensm\",\"ssh\":\"root@sm1\",\"partitionsFile\":\"/etc/p.conf\",\"pkeyPool\":\"0x0100-0x01ff\"}],"
	"\"racks\":[{\"name\":\"r[1-2]\",\"nvlink\":{\"driver\":\"nvos\",\"ssh\":\"admin@{rack}-sw1\"},\"trays\":{\"count\":4}}],"
	"\"images\":[{\"name\":\"u\",\"volume\":\"default/u.qcow2\",\"arch\":\"aarch64\",\"format\":\"qcow2\"}],"
	"\"tenants\":[{\"name\":\"t\"}]}";

#define sim_must(call)                                                                           \
	do {                                                                                     \
		RK_CLEANUP_ERR struct rk_err err_ = RK_ERR_INIT;                                  \
		struct rk_err *err = &err_;                                                       \
		if ((call) != 0)                                                                  \
			fail_msg("%s: %s", #call, err->message ? err->message : "(no message)"); \
	} while (0)

/* prepare (may be NULL) changes what the store is given; the twin, in memory, holds the invented identities. */
static inline void sim_world_open_at(struct sim_world *w, const char *uri, void (*prepare)(struct rk_site *site))
{
	static const struct rk_actor actor = { "tester", "here", 1 };
	struct rk_site *stored = NULL;

	memset(w, 0, sizeof(*w));
	w->arena = rk_arena_new();
	w->clock = rk_clock_virtual(1764500000000);
	sim_must(rk_site_parse("site", sim_site_text, strlen(sim_site_text), &w->site, err));
	rk_site_invent(w->site);
	sim_must(rk_site_parse("site", sim_site_text, strlen(sim_site_text), &stored, err));
	rk_site_invent(stored);
	if (prepare)
		prepare(stored);
	rk_site_seal(stored);
	sim_must(rk_store_open(uri, RK_STORE_WRITE, &actor, &w->world.store, err));
	sim_must(rk_store_put_site(w->world.store, stored, err));
	rk_site_free(stored);
	sim_must(rk_store_snapshot(w->world.store, &w->world.site, err));
	sim_must(rk_sim_open(w->site, NULL, w->clock, &w->world.sim, err));
	w->world.jobs = 4;
	w->world.wait = true;
	w->world.cancel = &w->cancel;
	w->world.env = (struct rk_driver_env){ .site = w->world.site, .clock = w->clock, .cancel = &w->cancel };
	sim_must(rk_world_drivers(&w->world, err));
}

static inline void sim_world_open(struct sim_world *w, void (*prepare)(struct rk_site *site))
{
	sim_world_open_at(w, "mem:", prepare);
}

static inline void sim_world_close(struct sim_world *w)
{
	rk_world_close(&w->world);
	rk_site_free(w->site);
	rk_clock_free(w->clock);
	rk_arena_free(w->arena);
}
