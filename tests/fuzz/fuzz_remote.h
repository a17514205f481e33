/* Fuzz entries for what managers, hosts and hypervisors answer: parsers of their texts, and whole drivers whose host answers garbage. */
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/clock.h"
#include "inventory/base/str.h"
#include "inventory/site_file.h"
#include "provision/discover.h"
#include "provision/drivers/ib_ssh.h"
#include "provision/drivers/nmxm_parse.h"
#include "provision/drivers/nvos_parse.h"
#include "provision/drivers/ufm_parse.h"
#include "provision/drivers/volume_xml.h"
#include "provision/health/collect.h"
#include "provision/health/history.h"
#include "provision/health/memory.h"
#include "provision/ib_counters.h"
#include "provision/rest.h"
#include "provision/ssh.h"
#include "vmspec/vmspec.h"

static inline char *rk_fuzz_text(const uint8_t *data, size_t size)
{
	char *text = rk_xmalloc(size + 1);

	memcpy(text, data, size);
	text[size] = '\0';
	return text;
}

/* Texts that come out must be fit for JSON and terminals; NULL is none. */
static inline void rk_fuzz_utf8(const char *text)
{
	if (text && rk_utf8_valid(text, strlen(text)) != strlen(text))
		abort();
}

/* ---- answers of managers ------------------------------------------------------------------------------------------------------------ */

static inline void rk_fuzz_nvos(const uint8_t *data, size_t size)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	char *text RK_CLEANUP_FREE = rk_fuzz_text(data, size);
	struct rk_nvl_switch who = { 0 };
	struct rk_nvos_row *rows;
	struct rk_nvl_live live = { 0 };
	size_t n;

	(void)rk_nvos_list(text, arena, &rows, &n, NULL);
	(void)rk_nvos_members(text, -1, arena, &live, NULL);
	(void)rk_nvos_cluster(text, NULL);
	(void)rk_nvos_apps(text, NULL);
	(void)rk_nvos_unsaved(text);
	(void)rk_nvos_classify(size & 1, text, text);
	rk_nvos_version(text, arena, &who);
	rk_nvos_location(text, arena, &who);
}

static inline void rk_fuzz_nmxm_members(const struct rk_nmxm_gpus *gpus, const struct rk_nmxm_partition *p)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	RK_CLEANUP_JSON struct rk_json *again = NULL;

	for (size_t g = 0; g < p->n_gpus; g++) {
		if (p->gpus[g] < 0 || (size_t)p->gpus[g] >= gpus->n)
			abort();
	}
	rk_nmxm_members_json(&out, p->name, gpus, p->gpus, p->n_gpus, p->by_location);
	if (rk_json_parse("members", rk_str_text(&out), out.len, &again, NULL))
		abort();
}

/* Two arrays are GPUs and partitions; anything is an operation and services, too. */
static inline void rk_fuzz_nmxm(const uint8_t *data, size_t size)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	struct rk_nmxm_gpus gpus = { 0 };
	struct rk_nmxm_partition *parts;
	struct rk_nmxm_operation operation;
	size_t n = 0;

	if (rk_json_parse("nmxm", (const char *)data, size, &json, NULL))
		return;
	const struct rk_jnode *root = rk_json_root(json), *both = root->type == RK_JARRAY && root->n == 2 && root->child->type == RK_JARRAY ? root->child : NULL;
	rk_nmxm_operation(root, arena, &operation);
	(void)rk_nmxm_services(root, "d", NULL);
	if (!rk_nmxm_gpus(both ? both : root, arena, &gpus, NULL) && !rk_nmxm_partitions(both ? both->next : root, &gpus, arena, &parts, &n, NULL)) {
		for (size_t i = 0; i < n; i++)
			rk_fuzz_nmxm_members(&gpus, &parts[i]);
	}
	rk_nmxm_gpus_clear(&gpus);
}

static inline void rk_fuzz_ufm(const uint8_t *data, size_t size)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	struct rk_map *active RK_CLEANUP_MAP = rk_map_new();
	struct rk_str names RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_ib_live *parts, one;
	size_t n;

	if (rk_json_parse("ufm", (const char *)data, size, &json, NULL))
		return;
	const struct rk_jnode *root = rk_json_root(json);
	(void)rk_ufm_ports(root, active, NULL);
	(void)rk_ufm_sharp(root, 0x101, &names, NULL);
	(void)rk_ufm_partition(root, 0x101, arena, &one, NULL);
	if (rk_ufm_partitions(root, arena, &parts, &n, NULL))
		return;
	for (size_t i = 0; i < n; i++) {
		for (size_t m = 0; m < parts[i].n_members; m++) {
			if (!rk_ufm_member(parts[i].members, parts[i].n_members, parts[i].members[m].guid))
				abort();
		}
	}
}

/* A reply as the network gave it: headers first, then the body, which is traced. */
static inline void rk_fuzz_rest(const uint8_t *data, size_t size)
{
	struct rk_rest_reply reply = RK_REST_REPLY_INIT;
	struct rk_str masked RK_CLEANUP_STR = RK_STR_INIT;

	rk_str_addn(&reply.headers, (const char *)data, size);
	free(rk_rest_header(&reply, "X-Auth-Token"));
	free(rk_rest_header(&reply, "Location"));
	rk_rest_mask(&masked, (const char *)data, size);
	rk_rest_reply_clear(&reply);
}

/* ---- answers of hosts and hypervisors ----------------------------------------------------------------------------------------------- */

static inline void rk_fuzz_discover(const uint8_t *data, size_t size)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	char *text RK_CLEANUP_FREE = rk_fuzz_text(data, size);
	struct rk_seen_tray tray = { 0 };

	rk_seen_parse_smi(text, size, arena, &tray);
	rk_seen_parse_host(text, size, arena, &tray);
	rk_fuzz_utf8(tray.serial);
	for (size_t i = 0; i < tray.n_gpus; i++)
		rk_fuzz_utf8(tray.gpus[i].serial);
	for (size_t i = 0; i < tray.n_ports; i++)
		rk_fuzz_utf8(tray.ports[i].state);
}

/* What libvirt tells of a host, of its devices and of its volumes. */
static inline void rk_fuzz_libvirt(const uint8_t *data, size_t size)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	char *text RK_CLEANUP_FREE = rk_fuzz_text(data, size);
	struct rk_hostcaps caps = { 0 };
	struct rk_seen_device device;

	(void)rk_hostcaps_read(text, arena, &caps, NULL);
	(void)rk_hostcaps_read_domain(text, &caps, NULL);
	(void)rk_seen_parse_device(text, arena, &device);
	(void)rk_volume_format(text);
}

/* The answer of a host that runs all collectors at once. */
static inline void rk_fuzz_answer(const uint8_t *data, size_t size)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_str said RK_CLEANUP_STR = RK_STR_INIT;
	const char *out, *status;
	size_t len;

	rk_str_addn(&said, (const char *)data, size);
	if (rk_collect_section("0", &said, "ibstat", arena, &out, &len, &status) && (len > size || (status && !*status)))
		abort();
}

static inline void rk_fuzz_counters(const uint8_t *data, size_t size)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_ib_reading before = { .guid = 1, .known = true }, after = before;
	struct rk_ib_thresholds thresholds;
	struct rk_ib_change change;

	rk_ib_counters_parse((const char *)data, size / 2, true, &before);
	rk_ib_counters_parse((const char *)data + size / 2, size - size / 2, false, &after);
	if (rk_ib_thresholds_parse("built-in", NULL, 0, arena, &thresholds, NULL))
		abort();
	rk_ib_compare(&before, &after, 60, &thresholds, arena, &change);
	rk_fuzz_utf8(change.message);
	(void)rk_ib_thresholds_parse("fuzz", (const char *)data, size, arena, &thresholds, NULL);
}

/* Sets of more than some thousand names: the store has none, and they take their time. */
static inline bool rk_fuzz_wide(const char *text)
{
	int ranges = 0;

	for (; *text; text++) {
		if (*text == '-' && strspn(text + 1, "0123456789") > 2)
			return true;
		ranges += *text == '[' && text[1] >= '0' && text[1] <= '9';
	}
	return ranges > 2;
}

/* What validations before this one left in the store. */
static inline void rk_fuzz_kept(const uint8_t *data, size_t size)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	char *text RK_CLEANUP_FREE = rk_fuzz_text(data, size);
	const struct rk_past past = { 1, text };
	struct rk_report report = { .verdict = "pass", .level = "quick", .profile = "p" };
	struct rk_str next RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_memory memory;

	if (rk_fuzz_wide(text))
		return;
	(void)rk_history_notes(text, arena);
	rk_memory_read(&past, arena, &memory);
	rk_history_add(&report, text, &next);
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	if (rk_json_parse("next", rk_str_text(&next), next.len, &json, NULL))
		abort();
}

/* ---- drivers over a host that answers garbage --------------------------------------------------------------------------------------- */

enum { RK_FUZZ_GUIDS = 3, RK_FUZZ_COMMANDS = 60 };

struct rk_fuzz_host {
	const char *at;           /* answers, one after the other, with an RS between: then they begin again */
	const char *all;
	const char *nonce;        /* of the command that runs; "%N" in an answer */
	int commands;
};

/* The first byte of an answer: digit = exit status, '!' = the host is not reached, else it belongs to the text. */
static inline int rk_fuzz_run(void *ctx, const char *target, const char *const *argv, const char *input, size_t len, struct rk_ssh_result *result, struct rk_err *err)
{
	struct rk_fuzz_host *h = ctx;

	(void)target, (void)input, (void)len;
	*result = (struct rk_ssh_result){ RK_STR_INIT, RK_STR_INIT, 0, NULL, false };
	if (h->commands++ >= RK_FUZZ_COMMANDS || *h->at == '!')
		return rk_err_set(err, RK_UNREACHABLE, "no answer");
	for (h->nonce = ""; *argv; argv++)
		h->nonce = rk_starts_with(*argv, "racksh-") ? *argv : h->nonce;
	if (*h->at >= '0' && *h->at <= '9')
		result->status = *h->at++ - '0';
	size_t n = strcspn(h->at, "\036");
	for (size_t i = 0; i < n; i++) {
		bool nonce = h->at[i] == '%' && h->at[i + 1] == 'N';
		rk_str_addn(&result->out, nonce ? h->nonce : h->at + i, nonce ? strlen(h->nonce) : 1);
		i += nonce;
	}
	h->at = h->at[n] ? h->at + n + 1 : h->all;
	return 0;
}

struct rk_fuzz_world {
	struct rk_fuzz_host host;
	struct rk_remote remote;
	struct rk_driver_env env;
	struct rk_arena *arena;
	char *text;
	uint64_t guids[RK_FUZZ_GUIDS];
};

/* One rack with a switch and one fabric, made once. */
static inline struct rk_site *rk_fuzz_site_once(void)
{
	static const char text[] =
		"{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\",\"defaults\":{\"hypervisor\":{\"libvirt\":\"12.8.0\",\"qemu\":\"11.1.3\",\"arch\":\"aarch64\",\"pageKiB\":64}},"
		"\"infiniband\":[{\"name\":\"ib0\",\"pkeyPool\":\"0x0100-0x01ff\",\"driver\":\"opensm\",\"ssh\":\"root@sm\",\"partitionsFile\":\"p\"}],"
		"\"racks\":[{\"name\":\"r1\",\"nvlink\":{\"driver\":\"nvos\",\"ssh\":\"admin@sw[1-2]\"},\"trays\":{\"count\":2}}],\"images\":[],\"tenants\":[{\"name\":\"t\"}]}";
	static struct rk_site *site;

	if (!site && rk_site_parse("site", text, strlen(text), &site, NULL))
		abort();
	return site;
}

static inline void rk_fuzz_open(struct rk_fuzz_world *w, const uint8_t *data, size_t size)
{
	*w = (struct rk_fuzz_world){ .text = rk_fuzz_text(data, size), .arena = rk_arena_new(), .guids = { 0x5000e60300010201, 0x5000e60300010211, 7 } };
	w->host = (struct rk_fuzz_host){ .at = w->text, .all = w->text };
	w->remote = (struct rk_remote){ rk_fuzz_run, &w->host };
	w->env = (struct rk_driver_env){ .site = rk_fuzz_site_once(), .clock = rk_clock_virtual(0), .remote = &w->remote };
}

static inline void rk_fuzz_close(struct rk_fuzz_world *w)
{
	rk_clock_free(w->env.clock);
	rk_arena_free(w->arena);
	free(w->text);
}

/* A fabric that is read through a host: tables, paths, counters, cables, the partitions file. */
static inline void rk_fuzz_fabric(const uint8_t *data, size_t size)
{
	struct rk_fuzz_world w;
	struct rk_ib *ib;
	struct rk_ib_port ports[RK_FUZZ_GUIDS] = { 0 };
	struct rk_ib_reading readings[RK_FUZZ_GUIDS] = { 0 };
	struct rk_ib_live *parts;
	const char *cables;
	size_t n;

	rk_fuzz_open(&w, data, size);
	struct rk_ib_path paths[] = { { .from = w.guids[0], .to = w.guids[1] }, { .from = w.guids[1], .to = w.guids[2] } };
	if (rk_ib_open(&w.env, &ib, NULL))
		abort();
	(void)ib->ops->tables(ib, 0, w.guids, RK_FUZZ_GUIDS, w.arena, ports, NULL);
	for (size_t i = 0; i < RK_FUZZ_GUIDS; i++)
		rk_fuzz_utf8(ports[i].why);
	w.host.at = w.host.all;
	(void)ib->ops->paths(ib, 0, paths, RK_ARRAY_SIZE(paths), w.arena, NULL);
	w.host.at = w.host.all;
	(void)ib->ops->counters(ib, 0, w.guids, RK_FUZZ_GUIDS, w.arena, readings, NULL);
	w.host.at = w.host.all;
	(void)ib->ops->discover(ib, 0, w.arena, &cables, NULL);
	w.host.at = w.host.all;
	(void)ib->ops->list(ib, 0, w.arena, &parts, &n, NULL);
	ib->ops->free(ib);
	rk_fuzz_close(&w);
}

/* What the program that reads all tables printed. */
static inline void rk_fuzz_tables(const uint8_t *data, size_t size)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	char *text RK_CLEANUP_FREE = rk_fuzz_text(data, size);
	static const uint64_t guids[] = { 0x5000e60300010201, 0x5000e60300010211, 7 };
	struct rk_ib_port ports[RK_ARRAY_SIZE(guids)] = { 0 };

	(void)rk_ib_reader_take(text, "racksh-0", guids, RK_ARRAY_SIZE(guids), arena, ports, NULL);
	for (size_t i = 0; i < RK_ARRAY_SIZE(guids); i++) {
		rk_fuzz_utf8(ports[i].why);
		if (!ports[i].known && ports[i].n_pkeys)
			abort();
	}
}

/* A switch that answers garbage on every command. */
static inline void rk_fuzz_switch(const uint8_t *data, size_t size)
{
	struct rk_fuzz_world w;
	struct rk_nvl *nvl;
	struct rk_nvl_live *parts;
	struct rk_nvl_switch *switches;
	const char *where;
	size_t n;
	int id;

	rk_fuzz_open(&w, data, size);
	if (rk_nvl_open(&w.env, &nvl, NULL))
		abort();
	(void)nvl->ops->list(nvl, 0, w.arena, &parts, &n, NULL);
	w.host.at = w.host.all;
	(void)nvl->ops->health(nvl, 0, w.arena, &where, NULL);
	w.host.at = w.host.all;
	(void)nvl->ops->switches(nvl, 0, w.arena, &switches, &n, NULL);
	w.host.at = w.host.all;
	(void)nvl->ops->create(nvl, 0, 5, "racksh.t.a", "adaptive_bandwidth", 8, &id, NULL);
	w.host.at = w.host.all;
	(void)nvl->ops->add(nvl, 0, 5, w.guids[0], NULL);
	(void)nvl->ops->drop(nvl, 0, 5, w.guids[0], NULL);
	nvl->ops->free(nvl);
	rk_fuzz_close(&w);
}
