/* A store whose VMs and trays are SSH servers of a test, one cluster "a" over all of them, so that racksh itself can be run against them. */
#pragma once
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "inventory/base/file.h"
#include "inventory/site_file.h"
#include "inventory/store.h"

struct real_host {
	int port;
	const char *host_key;     /* public */
};
struct real_site {
	const struct real_host *hosts; size_t n;  /* two racks of 18 trays at most */
	const char *identity;                     /* file of the user's key */
	const char *known;                        /* file to write: the keys of the hosts, and more below */
	const char *known_more;
	const char *jump;                         /* or "" */
	const char *libvirt;                      /* URI with {tray}; NULL: one that does not answer */
};

#define REAL_OK(call)                                                                           \
	do {                                                                                    \
		struct rk_err err_ = RK_ERR_INIT, *err = &err_;                                 \
		if ((call) != 0)                                                                \
			fail_msg("%s: %s", #call, err->message ? err->message : "(no message)"); \
	} while (0)

static inline const char *real_me(void)
{
	return getpwuid(geteuid())->pw_name;
}

static inline char *real_text(const struct real_site *r)
{
	struct rk_str s = RK_STR_INIT, known RK_CLEANUP_STR = RK_STR_INIT;

	rk_str_addf(&s, "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"real\",\"defaults\":{\"libvirt\":\"%s\",\"ssh\":{\"user\":\"%s\","
		    "\"identityFile\":\"%s\",\"knownHosts\":\"%s\",\"jump\":\"%s\"}},\"racks\":[", r->libvirt ? r->libvirt : "test:///nonexistent/{tray}", real_me(), r->identity, r->known, r->jump);
	for (size_t rack = 0; rack * 18 < r->n; rack++) {
		rk_str_addf(&s, "%s{\"name\":\"r%zu\",\"trays\":{\"count\":18},\"tray\":{", rack ? "," : "", rack + 1);
		for (size_t i = rack * 18; i < r->n && i < (rack + 1) * 18; i++)
			rk_str_addf(&s, "%s\"r%zu-t%02zu\":{\"ssh\":{\"host\":\"127.0.0.1\",\"port\":%d}}", i % 18 ? "," : "", rack + 1, i % 18 + 1, r->hosts[i].port);
		rk_str_add(&s, "}}");
	}
	rk_str_add(&s, "],\"images\":[{\"name\":\"u\",\"volume\":\"default/u.qcow2\",\"arch\":\"aarch64\",\"format\":\"qcow2\"}],\"tenants\":[{\"name\":\"t\"}]}");
	for (size_t i = 0; i < r->n; i++)
		rk_str_addf(&known, "[127.0.0.1]:%d %s\n", r->hosts[i].port, r->hosts[i].host_key);
	rk_str_add(&known, r->known_more ? r->known_more : "");
	REAL_OK(rk_file_write(r->known, rk_str_text(&known), known.len, 0600, err));
	return rk_str_steal(&s);
}

static inline void real_vm(struct rk_store *store, const struct rk_site *site, const struct real_host *host, size_t i)
{
	const struct rk_tray *t = &site->trays[i];
	uint64_t gpus[RK_GPUS_MAX], ports[RK_RAILS_MAX];
	char name[16], uuid[40], mac[20];

	for (int g = 0; g < t->n_gpus; g++)
		gpus[g] = site->gpus[t->first_gpu + g].fabric_guid;
	for (int h = 0; h < t->n_hcas; h++)
		ports[h] = site->hcas[t->first_hca + h].port_guid;
	snprintf(name, sizeof(name), "a-%02zu", i + 1);
	snprintf(uuid, sizeof(uuid), "00000000-0000-5000-8000-0000000000%02zx", i + 1);
	snprintf(mac, sizeof(mac), "52:54:00:00:00:%02zx", i + 1);
	const struct rk_new_vm vm = { .name = name, .cluster = "a", .tray = t->name, .uuid = uuid, .address = "127.0.0.1", .mac = mac,
				      .host_key_public = host->host_key, .number = (int)i + 1, .ssh_port = host->port, .generation = 1,
				      .gpu_guids = gpus, .n_gpu_guids = (size_t)t->n_gpus, .port_guids = ports, .n_port_guids = (size_t)t->n_hcas };
	REAL_OK(rk_store_add_vm(store, &vm, err));
	REAL_OK(rk_store_set_vm_state(store, name, RK_VM_RUNNING, err));
}

/* VMs a-01, a-02, ... on the trays in order. uri: a store that is not there yet. */
static inline void real_store(const char *uri, const struct real_site *r)
{
	const struct rk_actor me = { "tester", "here", (long)getpid() };
	char *text RK_CLEANUP_FREE = real_text(r), *spec RK_CLEANUP_FREE = rk_xasprintf("{\"ssh\":{\"user\":\"%s\"}}", real_me());
	const struct rk_new_cluster cluster = { "a", "t", "nd128isr-gb300-v6", "u", spec, "[]", 1, 0, 0 };
	struct rk_store *store RK_CLEANUP_STORE = NULL;
	struct rk_site *site;

	REAL_OK(rk_site_parse("site", text, strlen(text), &site, err));
	rk_site_invent(site);
	REAL_OK(rk_store_open(uri, RK_STORE_WRITE, &me, &store, err));
	REAL_OK(rk_store_begin(store, -1, err));
	REAL_OK(rk_store_put_site(store, site, err));
	REAL_OK(rk_store_add_cluster(store, &cluster, err));
	for (size_t i = 0; i < r->n; i++)
		real_vm(store, site, &r->hosts[i], i);
	REAL_OK(rk_store_set_cluster_state(store, "a", RK_CLUSTER_READY, 0, err));
	REAL_OK(rk_store_commit(store, err));
	rk_site_free(site);
}
