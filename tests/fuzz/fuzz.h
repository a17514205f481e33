/* Fuzz entries: one function per kind of hostile input. fuzz_NAME.c makes each a libFuzzer program (make fuzz); tests/unit/test_fuzz.c feeds all
 * of them the kept seeds and deterministic mutations in every make check. A finding is a crash, a sanitizer report or an abort here. */
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/words.h"
#include "inventory/base/digest.h"
#include "inventory/base/json.h"
#include "inventory/base/nodeset.h"
#include "inventory/site_file.h"
#include "inventory/topology.h"
#include "provision/drivers/bmc_redfish.h"
#include "provision/drivers/partitions_file.h"
#include "provision/health/health.h"
#include "provision/health/own.h"
#include "provision/host_cert.h"
#include "provision/known_hosts.h"
#include "provision/simulate.h"
#include "provision/ssh_hello.h"
#include "tests/fuzz/fuzz_remote.h"
#include "vmspec/image_file.h"

/* What a parser hands on must be fit for rules, JSON and terminals. */
static inline void rk_fuzz_check_metrics(const struct rk_metrics *m)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct rk_metric *x = &m->items[i];
		if (!x->name || !x->label || rk_utf8_valid(x->label, strlen(x->label)) != strlen(x->label))
			abort();
		if (x->type == RK_METRIC_NUMBER ? !isfinite(x->number) : !x->text || rk_utf8_valid(x->text, strlen(x->text)) != strlen(x->text))
			abort();
	}
}

/* A collector of a site: the first byte chooses the parser, the second the exit status. */
static inline void rk_fuzz_own(const uint8_t *data, size_t size)
{
	static const char *const parsers[] = { "json", "table", "number" }, *const statuses[] = { "0", "1", "timeout", NULL };
	struct rk_own_metric metrics[] = { { "llm.tps", "runs/*/tps" }, { "llm.ttft", "runs/0/ttft_ms" }, { "llm.rank", "rank" } };
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_metrics m = { .arena = arena };

	if (size < 2)
		return;
	const char *parse = parsers[data[0] % RK_ARRAY_SIZE(parsers)];
	bool table = rk_streq(parse, "table");
	if (table)
		metrics[0].where = "tps", metrics[1].where = "ttft_ms";
	const struct rk_own_collector own = { .base = { .name = "llm" }, .parse = parse, .metrics = metrics, .n_metrics = rk_streq(parse, "number") ? 1 : table ? 3 : 2 };
	char *text RK_CLEANUP_FREE = rk_xmalloc(size - 1); /* no NUL behind it that a parser could lean on */
	memcpy(text, data + 2, size - 2);
	const struct rk_evidence e = { "llm", text, size - 2, "", 0, statuses[data[1] & 3] };
	rk_own_parse(&own, &e, &m);
	rk_fuzz_check_metrics(&m);
}

/* The first byte chooses the exit status and whether the text came on stderr. */
static inline void rk_fuzz_collector(const char *collector, const uint8_t *data, size_t size)
{
	static const char *const statuses[] = { "0", "1", "timeout", NULL };
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_metrics m = { .arena = arena };
	uint8_t first = size ? data[0] : 0;
	char *text RK_CLEANUP_FREE = rk_xmalloc(size + 1); /* no NUL behind it that a parser could lean on */
	size_t n = size ? size - 1 : 0;

	memcpy(text, data + (size ? 1 : 0), n);
	struct rk_evidence e = { collector, text, n, "", 0, statuses[first & 3] };
	if (first & 4) {
		e.err = text;
		e.err_len = n;
		e.out_len = n / 2;
	}
	rk_collector_find(collector)->parse(&e, &m);
	rk_fuzz_check_metrics(&m);
}

/* A profile of a site, and a verdict by it. It inherits from none that is a file: those are not the fuzzer's. */
static inline void rk_fuzz_profile(const uint8_t *data, size_t size)
{
	static const char counters[] = "# Host up for 9000 s\n# Port extended counters: Lid 9 port 1\nSymbolErrorCounter:...312\nLinkDownedCounter:...1\n"
				       "# Port extended counters: Lid 9 port 1\nSymbolErrorCounter:...313\nLinkDownedCounter:...1\n";
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	char *text RK_CLEANUP_FREE = rk_fuzz_text(data, size), path[64];
	struct rk_evidence e[] = { { "ib-counters", counters, sizeof(counters) - 1, "", 0, "0" }, { "llm", "{\"tps\":[812,31,\"N/A\"]}", 23, "", 0, "0" } };
	const struct rk_past past = { 3600000, "{\"counters\":{\"ib.counter.symbol{rail=0}\":1},\"strikes\":{\"g\":2}}" };
	const struct rk_target targets[] = {
		{ .name = "a-01", .kind = "vm", .rack = "r01", .cluster = "a", .tray = "r01-t01", .evidence = e, .n_evidence = 2, .at_ms = 7200000, .past = &past, .n_past = 1 },
		{ .name = "a-02", .kind = "vm", .rack = "r01", .cluster = "a", .tray = "r01-t02", .evidence = e, .n_evidence = 1, .at_ms = 7200000 },
	};
	struct rk_hprofile *profile = NULL;
	struct rk_report report;
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	int fd RK_CLEANUP_FD = -1;

	if (rk_json_parse("profile", text, size, &json, NULL))
		return;
	const char *from = rk_jstr(rk_jget(rk_json_root(json), "inherits"));
	if (from && (strchr(from, '/') || strchr(from, '.') || strcmp(from, "-") == 0))
		return;
	fd = memfd_create("profile", MFD_CLOEXEC);
	if (fd < 0 || write(fd, text, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (rk_hprofile_load(path, &profile, NULL))
		return;
	if (rk_judge(profile, size & 1 ? "quick" : "deep", targets, RK_ARRAY_SIZE(targets), arena, &report, NULL))
		abort();
	for (size_t i = 0; i < report.n_checks; i++)
		rk_fuzz_utf8(report.checks[i].value);
	rk_hprofile_free(profile);
}

static inline void rk_fuzz_json(const uint8_t *data, size_t size)
{
	RK_CLEANUP_JSON struct rk_json *json = NULL;

	if (rk_json_parse("fuzz", (const char *)data, size, &json, NULL))
		return;
	/* Written and read again it must be the same text. */
	struct rk_str once RK_CLEANUP_STR = RK_STR_INIT, twice RK_CLEANUP_STR = RK_STR_INIT;
	RK_CLEANUP_JSON struct rk_json *again = NULL;
	struct rk_jw w;
	rk_jw_init(&w, &once, 0);
	rk_jw_node(&w, rk_json_root(json));
	if (rk_json_parse("again", rk_str_text(&once), once.len, &again, NULL))
		abort();
	rk_jw_init(&w, &twice, 0);
	rk_jw_node(&w, rk_json_root(again));
	if (strcmp(rk_str_text(&once), rk_str_text(&twice)) != 0)
		abort();
}

static inline void rk_fuzz_nodeset(const uint8_t *data, size_t size)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	char *text RK_CLEANUP_FREE = rk_fuzz_text(data, size < 64 ? size : 64);
	struct rk_nodeset set, again;

	if (rk_nodeset_parse(text, NULL, NULL, arena, &set, NULL) || set.n > 5000)
		return;
	const char *folded = rk_nodeset_fold(arena, set.names, set.n);
	if (rk_nodeset_parse(folded, NULL, NULL, arena, &again, NULL) == 0 && again.n != set.n)
		abort();
}

static inline void rk_fuzz_site(const uint8_t *data, size_t size)
{
	struct rk_site *site = NULL;

	if (rk_site_parse("fuzz", (const char *)data, size, &site, NULL) == 0)
		rk_site_free(site);
}

/* A spec that is accepted is written as one that is, too, with the same text. */
static inline void rk_fuzz_spec(const uint8_t *data, size_t size)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_str once RK_CLEANUP_STR = RK_STR_INIT, twice RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_spec *spec, *again;

	if (rk_spec_parse("fuzz", (const char *)data, size, arena, &spec, NULL))
		return;
	rk_spec_write(spec, &once);
	if (rk_spec_parse("again", once.text, once.len, arena, &again, NULL))
		abort();
	rk_spec_write(again, &twice);
	if (strcmp(once.text, twice.text) != 0)
		abort();
}

struct rk_fuzz_bytes {
	const uint8_t *data;
	size_t size;
};

static inline bool rk_fuzz_read(void *ctx, uint64_t offset, void *bytes, size_t n)
{
	const struct rk_fuzz_bytes *b = ctx;

	if (offset > b->size || n > b->size - offset)
		abort(); /* asked for what is outside the file */
	memcpy(bytes, b->data + offset, n);
	return true;
}

static inline void rk_fuzz_image(const uint8_t *data, size_t size)
{
	struct rk_fuzz_bytes bytes = { data, size };
	const struct rk_image_source source = { rk_fuzz_read, &bytes, size };
	struct rk_image_facts facts;

	(void)rk_image_judge("fuzz", &source, &facts, NULL);
}

/* What a host calls its domain. */
static inline void rk_fuzz_domain(const uint8_t *data, size_t size)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	char *text RK_CLEANUP_FREE = rk_fuzz_text(data, size);
	const char *cluster, *vm;
	int generation;

	(void)rk_domain_xml_owner(text, arena, &cluster, &vm, &generation);
	(void)rk_domain_xml_compare("<domain type='kvm'><name>a</name><devices><hostdev/></devices></domain>", text, NULL);
}

static inline void rk_fuzz_ibnetdiscover(const uint8_t *data, size_t size)
{
	RK_CLEANUP(rk_cleanup_topology) struct rk_topology *topology = NULL;

	(void)rk_topology_parse("fuzz", (const char *)data, size, &topology, NULL);
}

static inline void rk_fuzz_partitions(const uint8_t *data, size_t size)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_diags findings RK_CLEANUP_DIAGS = RK_DIAGS_INIT("fuzz");
	struct rk_partitions parts = { 0 };

	(void)rk_partitions_lint("fuzz", (const char *)data, size, &findings);
	(void)rk_partitions_parse("fuzz", (const char *)data, size, arena, &parts, NULL);
}

static inline void rk_fuzz_known_hosts(const uint8_t *data, size_t size)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	char *text RK_CLEANUP_FREE = rk_fuzz_text(data, size);
	struct rk_host_key key;

	struct rk_known_hosts *known = rk_known_hosts_parse("fuzz", (const char *)data, size);
	struct rk_host_keys keys = { 0 };

	rk_known_hosts_find(known, "r01-t01", 2222, arena, &keys);
	rk_known_hosts_free(known);
	(void)rk_host_key_parse(text, arena, &key);
}

/* By an authority that is trusted, whichever it names. */
static inline void rk_fuzz_host_cert(const uint8_t *data, size_t size)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_str blob RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_host_keys keys = { 0 };
	struct rk_host_cert cert;
	struct rk_host_key key;

	if (rk_host_cert_parse((struct rk_bytes){ data, size }, &cert, NULL))
		return;
	rk_base64_add(&blob, cert.authority.at, cert.authority.n);
	rk_host_keys_add(&keys, &(struct rk_host_key){ "any", rk_str_text(&blob), RK_HOST_KEY_AUTHORITY, "f", 1 }, arena);
	if (rk_host_cert_judge(&cert, "localhost", 1600000000, &keys, arena, &key, &err) && rk_utf8_valid(err.message, strlen(err.message)) != strlen(err.message))
		abort();
}

/* The first byte says how much comes at a time. */
static inline void rk_fuzz_ssh_hello(const uint8_t *data, size_t size)
{
	struct rk_ssh_hello hello RK_CLEANUP(rk_ssh_hello_clear);
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	int rc = 0;

	rk_ssh_hello_begin(&hello, "c", "m");
	size_t step = size ? 1 + (size_t)data[0] * 8 : 1;
	for (size_t at = 1; !rc && at < size; at += step)
		rc = rk_ssh_hello_take(&hello, data + at, size - at < step ? size - at : step, &err);
	if (rc && rk_utf8_valid(err.message, strlen(err.message)) != strlen(err.message))
		abort();
	if (hello.stage == RK_SSH_HELLO_DONE && !rc)
		rk_fuzz_host_cert((const uint8_t *)rk_str_text(&hello.key), hello.key.len);
}

static inline void rk_fuzz_words(const uint8_t *data, size_t size)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	char *text RK_CLEANUP_FREE = rk_fuzz_text(data, size);
	struct rk_lexicon lexicon = { .inert = true }; /* a fuzzed "source" opens no file */
	struct rk_lines lines = { 0 };

	(void)rk_split("fuzz", text, &lexicon, arena, &lines, NULL);
	free(lines.items);
	rk_vars_free(&lexicon.vars);
}

static inline void rk_fuzz_ssh_target(const uint8_t *data, size_t size)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	char *text RK_CLEANUP_FREE = rk_fuzz_text(data, size);
	struct rk_ssh_target target = { 0 };
	struct rk_str quoted RK_CLEANUP_STR = RK_STR_INIT;

	struct rk_ssh_target hops[RK_SSH_HOPS_MAX] = { 0 };
	size_t n;
	(void)rk_ssh_parse(text, arena, &target, NULL);
	(void)rk_ssh_parse_jump(text, arena, hops, &n, NULL);
	rk_shell_quote(&quoted, text);
}

/* A moment that is accepted is written as one that is. */
static inline void rk_fuzz_time(const uint8_t *data, size_t size)
{
	char *text RK_CLEANUP_FREE = rk_fuzz_text(data, size < 80 ? size : 80), iso[32];
	int64_t ms, again;

	(void)rk_duration_parse(text, &ms, NULL);
	if (rk_time_parse(text, 1764500000000, &ms, NULL) || ms < 0)
		return;
	if (rk_time_parse(rk_time_iso(ms, iso), 0, &again, NULL) || again != ms / 1000 * 1000)
		abort();
}

/* Small mixes and traces are replayed, too. */
static inline void rk_fuzz_requests(const uint8_t *data, size_t size)
{
	static const char racks[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\",\"racks\":[{\"name\":\"r1\",\"trays\":{\"count\":5}}]}";
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	RK_CLEANUP_SITE struct rk_site *site = NULL;
	struct rk_requests requests;
	struct rk_simulated result;

	if (rk_requests_parse("fuzz", (const char *)data, size, arena, &requests, NULL) || requests.n > 20 || requests.count > 50 || requests.seeds > 2)
		return;
	if (rk_site_parse("site", racks, strlen(racks), &site, NULL))
		abort();
	for (int p = 0; p < RK_SIM_POLICIES; p++) {
		rk_simulate(site, &requests, (enum rk_sim_policy)p, &result);
		if (result.refused > result.requests || !(result.utilisation >= 0 && result.utilisation <= 1 + 1e-9))
			abort();
	}
}

/* A BMC that answers everything with the same document. */
static inline int rk_fuzz_redfish_get(void *ctx, const char *path, struct rk_json **ret, struct rk_err *err)
{
	const struct rk_fuzz_bytes *b = ctx;

	(void)path;
	return rk_json_parse("bmc", (const char *)b->data, b->size, ret, err);
}

static inline void rk_fuzz_redfish(const uint8_t *data, size_t size)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_fuzz_bytes bytes = { data, size };
	struct rk_bmc_reading r;

	(void)rk_redfish_read(rk_fuzz_redfish_get, &bytes, RK_BMC_POWER | RK_BMC_LEAK | RK_BMC_METERS | RK_BMC_COOLANT, arena, &r, NULL);
	if (r.leak && rk_utf8_valid(r.leak, strlen(r.leak)) != strlen(r.leak))
		abort();
}

/* Everything that is no collector. */
struct rk_fuzz_entry {
	const char *name;
	void (*fn)(const uint8_t *data, size_t size);
};
static const struct rk_fuzz_entry rk_fuzz_entries[] __attribute__((unused)) = {
	{ "json", rk_fuzz_json }, { "nodeset", rk_fuzz_nodeset }, { "site", rk_fuzz_site }, { "ibnetdiscover", rk_fuzz_ibnetdiscover },
	{ "partitions", rk_fuzz_partitions }, { "nvos", rk_fuzz_nvos }, { "known_hosts", rk_fuzz_known_hosts }, { "words", rk_fuzz_words },
	{ "ssh_target", rk_fuzz_ssh_target }, { "spec", rk_fuzz_spec }, { "image", rk_fuzz_image }, { "domain", rk_fuzz_domain },
	{ "time", rk_fuzz_time }, { "requests", rk_fuzz_requests }, { "redfish", rk_fuzz_redfish }, { "own", rk_fuzz_own }, { "nmxm", rk_fuzz_nmxm },
	{ "ufm", rk_fuzz_ufm }, { "rest", rk_fuzz_rest }, { "discover", rk_fuzz_discover }, { "libvirt", rk_fuzz_libvirt }, { "answer", rk_fuzz_answer },
	{ "counters", rk_fuzz_counters }, { "kept", rk_fuzz_kept }, { "fabric", rk_fuzz_fabric }, { "tables", rk_fuzz_tables }, { "switch", rk_fuzz_switch },
	{ "profile", rk_fuzz_profile }, { "host_cert", rk_fuzz_host_cert }, { "ssh_hello", rk_fuzz_ssh_hello },
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
#define RK_FUZZ_COLLECTOR(name)                                            \
	int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)       \
	{                                                                  \
		rk_fuzz_collector(name, data, size);                       \
		return 0;                                                  \
	}
#define RK_FUZZ(name)                                                      \
	int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)       \
	{                                                                  \
		rk_fuzz_##name(data, size);                                \
		return 0;                                                  \
	}
