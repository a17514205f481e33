/* The site of the store tests, and what they do again and again. */
#pragma once
#include <stdio.h>
#include <string.h>

#include "inventory/base/file.h"
#include "inventory/db.h"
#include "inventory/site_file.h"
#include "inventory/store.h"

/* tests/fixtures/store/site.json with identities made up. */
static inline struct rk_site *site_of_tests(void)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_site *site = NULL;

	if (rk_site_load("tests/fixtures/store/site.json", &site, &err))
		fail_msg("%s", err.message);
	rk_site_invent(site);
	return site;
}

#define must(call)                                                        \
	do {                                                              \
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;           \
		if ((call) != 0)                                          \
			fail_msg("%s: %s", #call, err.message);           \
	} while (0)

/* The call must be refused with this class and a message that holds these words. */
#define refused(call, class, words)                                                                                      \
	do {                                                                                                             \
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;                                                          \
		int rc_ = (call);                                                                                        \
		if (rc_ != (class) || err.rc != (class) || !err.message || !strstr(err.message, words))                  \
			fail_msg("%s: class %d, message \"%s\"; expected %d, \"%s\"", #call, rc_, err.message ? err.message : "none", \
				 (int)(class), words);                                                                   \
	} while (0)

/* What an older racksh left, from its SQL (a statement per line, line feeds in quotes apart), into a store that is not there yet. */
static inline void load_older_store(const char *uri, const char *fixture)
{
	char *sql RK_CLEANUP_FREE = NULL;
	RK_CLEANUP_DB struct rk_db *db = NULL;
	size_t len;

	must(rk_file_read(fixture, 1 << 20, &sql, &len, &err));
	must(rk_db_open(uri, true, &db, &err));
	must(db->driver->begin(db, true, &err));
	for (char *at = sql, *end; *at; at = end) {
		bool quoted = false;
		for (end = at; *end && (quoted || *end != '\n'); end++)
			quoted ^= *end == '\'';
		if (*end)
			*end++ = '\0';
		must(rk_db_query(db, at, NULL, 0, NULL, NULL, &err));
	}
	must(db->driver->commit(db, &err));
}

static inline void add_cluster(struct rk_store *store, const char *name, const char *tenant, int64_t op)
{
	const struct rk_new_cluster c = { name, tenant, "nd128isr-gb300-v6", "plain", "{\"count\":2}", "[]", 2, 0, op };

	must(rk_store_add_cluster(store, &c, &err));
}

/* VM `number` of the cluster on a tray of the site, with all that is in it. */
static inline int try_vm(struct rk_store *store, const struct rk_site *site, const char *cluster, int number, int tray, struct rk_err *err)
{
	const struct rk_tray *t = &site->trays[tray];
	uint64_t gpus[RK_GPUS_MAX], ports[RK_RAILS_MAX];
	char name[80], uuid[120], address[32];

	for (int i = 0; i < t->n_gpus; i++)
		gpus[i] = site->gpus[t->first_gpu + i].fabric_guid;
	for (int i = 0; i < t->n_hcas; i++)
		ports[i] = site->hcas[t->first_hca + i].port_guid;
	snprintf(name, sizeof(name), "%s-%02d", cluster, number);
	snprintf(uuid, sizeof(uuid), "uuid-of-%s-1", name);
	snprintf(address, sizeof(address), "10.44.0.%d", 20 + tray);
	const struct rk_new_vm vm = { .name = name, .cluster = cluster, .tray = t->name, .uuid = uuid, .address = address, .mac = "52:54:00:00:00:01",
				      .host_key_public = "ssh-ed25519 AAAA", .host_key_private = "PRIVATE", .number = number, .ssh_port = 22,
				      .generation = 1, .gpu_guids = gpus, .n_gpu_guids = (size_t)t->n_gpus, .port_guids = ports,
				      .n_port_guids = (size_t)t->n_hcas };
	return rk_store_add_vm(store, &vm, err);
}
