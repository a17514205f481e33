/* The inventory at full size: import, store, list, fabric. Floor: reading the file's bytes, and SQLite itself counting the rows. */
#include <ftw.h>
#include <string.h>

#include "inventory/base/json.h"
#include "inventory/base/file.h"
#include "inventory/site_check.h"
#include "inventory/site_file.h"
#include "inventory/store.h"
#include "inventory/topology.h"
#include "tests/bench/bench.h"

enum { RUNS = 5 };

static char folder[] = "/tmp/racksh-bench-XXXXXX";

#define must(call)                                                                                      \
	do {                                                                                             \
		RK_CLEANUP_ERR struct rk_err err_ = RK_ERR_INIT;                                          \
		struct rk_err *err = &err_;                                                               \
		if ((call) != 0) {                                                                        \
			fprintf(stderr, "%s: %s\n", #call, err->message ? err->message : "no message"); \
			exit(1);                                                                          \
		}                                                                                         \
	} while (0)

/* A site file with every identity written. */
static char *site_file(int racks)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT, out = RK_STR_INIT;
	RK_CLEANUP_SITE struct rk_site *site = NULL;

	rk_str_addf(&text,
		    "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\",\"racks\":[{\"name\":\"r[0001-%04d]\",\"nvlink\":{\"driver\":\"nvos\","
		    "\"ssh\":\"admin@{rack}-sw1\"}}],\"tenants\":[{\"name\":\"a\"}],\"infiniband\":[{\"name\":\"ib0\",\"driver\":\"opensm\",\"ssh\":\"root@sm1\"}]}",
		    racks);
	must(rk_site_parse("site", rk_str_text(&text), text.len, &site, err));
	rk_site_invent(site);
	rk_site_export(site, &out);
	return rk_str_steal(&out);
}

static struct rk_store *open_store(const char *name, enum rk_store_mode mode)
{
	static const struct rk_actor actor = { "bench", "here", 1 };
	char *uri RK_CLEANUP_FREE = rk_xasprintf("sqlite:%s/%s.db", folder, name);
	struct rk_store *store = NULL;

	must(rk_store_open(uri, mode, &actor, &store, err));
	return store;
}

/* Parse, check, and one durable transaction. */
static double import_s(const char *text, size_t len, const char *name)
{
	double start = bench_now();
	RK_CLEANUP_SITE struct rk_site *site = NULL;
	RK_CLEANUP_STORE struct rk_store *store = open_store(name, RK_STORE_WRITE);

	must(rk_site_parse("site", text, len, &site, err));
	must(rk_store_put_site(store, site, err));
	return bench_now() - start;
}

/* What `tray list` does: open, snapshot, the state of every tray. */
static double list_s(const char *name, double *ret_mib)
{
	volatile int free_trays = 0;
	double start = bench_now();
	RK_CLEANUP_STORE struct rk_store *store = open_store(name, RK_STORE_READ);
	RK_CLEANUP_SITE struct rk_site *site = NULL;

	must(rk_store_snapshot(store, &site, err));
	for (size_t t = 0; t < site->n_trays; t++)
		free_trays += rk_tray_state(site, (int)t) == RK_TRAY_FREE;
	(void)free_trays;
	*ret_mib = (double)rk_arena_bytes(site->arena) / (1 << 20);
	return bench_now() - start;
}

static const char *name_of(int racks, int run)
{
	static char name[32];

	snprintf(name, sizeof(name), "s%d-%d", racks, run);
	return name;
}

static double json_s(const char *text, size_t len)
{
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	double start = bench_now();

	must(rk_json_parse("floor", text, len, &json, err));
	return bench_now() - start;
}

static double file_ms(const char *name)
{
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/%s.db", folder, name), *bytes RK_CLEANUP_FREE = NULL;
	double start = bench_now();
	size_t len;

	must(rk_file_read(path, 1u << 30, &bytes, &len, err));
	return (bench_now() - start) * 1e3;
}

/* what: with %d for the number of racks. */
static void row(const char *what, int racks, double value, const char *unit, const char *peer, double peer_value, const char *limit)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	const char *mark = strstr(what, "%d");

	rk_str_addn(&text, what, mark ? (size_t)(mark - what) : strlen(what));
	if (mark)
		rk_str_addf(&text, "%d%s", racks, mark + 2);
	bench_row(rk_str_text(&text), value, unit, peer, peer_value, limit);
}

static void measure_site(int racks)
{
	char *text RK_CLEANUP_FREE = site_file(racks);
	double imports[RUNS], lists[RUNS], floors[RUNS], mib = 0;
	size_t len = strlen(text);

	for (int i = 0; i < RUNS; i++) {
		imports[i] = import_s(text, len, name_of(racks, i));
		lists[i] = list_s(name_of(racks, i), &mib);
		floors[i] = json_s(text, len);
	}
	row("import of %d racks, all identities", racks, bench_median(imports, RUNS), "s", "reading and parsing the JSON", bench_median(floors, RUNS), racks == 64 ? "<=0.5" : "<=8");
	row("open a store of %d racks and list the trays", racks, bench_median(lists, RUNS) * 1e3, "ms", "reading the file", file_ms(name_of(racks, 0)), racks == 64 ? "<=60" : "<=1000");
	row("snapshot of %d racks", racks, mib, "MiB", NULL, 0, racks == 64 ? "<=40" : NULL);
	row("most memory held, %d racks", racks, bench_peak_mib(), "MiB", NULL, 0, racks == 64 ? NULL : "<=512");
}

static void measure_check(int racks)
{
	char *text RK_CLEANUP_FREE = site_file(racks);
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_site_findings found = { .arena = arena };
	RK_CLEANUP_SITE struct rk_site *site = NULL;

	must(rk_site_parse("site", text, strlen(text), &site, err));
	double start = bench_now();
	rk_site_check(site, &found);
	row("site check of %d racks", racks, (bench_now() - start) * 1e3, "ms", NULL, 0, NULL);
	free(found.items);
}

static double lines_s(const struct rk_str *text)
{
	volatile size_t lines = 0;
	double start = bench_now();

	for (size_t i = 0; i < text->len; i++)
		lines += text->text[i] == '\n';
	(void)lines;
	return bench_now() - start;
}

static void measure_fabric(void)
{
	char *text RK_CLEANUP_FREE = site_file(64);
	struct rk_str fabric RK_CLEANUP_STR = RK_STR_INIT;
	RK_CLEANUP_SITE struct rk_site *site = NULL;
	double parses[RUNS], checks[RUNS];

	must(rk_site_parse("site", text, strlen(text), &site, err));
	rk_topology_plan(site, 0, NULL, &fabric);
	for (int i = 0; i < RUNS; i++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		RK_CLEANUP(rk_cleanup_topology) struct rk_topology *t = NULL;
		struct rk_ib_finding *found;
		size_t n;
		double start = bench_now();
		must(rk_topology_parse("fabric", rk_str_text(&fabric), fabric.len, &t, err));
		parses[i] = bench_now() - start;
		rk_topology_check(t, site, 0, arena, &found, &n);
		checks[i] = bench_now() - start - parses[i];
	}
	bench_row("read the fabric of 64 racks", bench_median(parses, RUNS), "s", "counting its lines", lines_s(&fabric), "<=0.5");
	bench_row("check the fabric of 64 racks", bench_median(checks, RUNS), "s", NULL, 0, NULL);
}

static void measure_nodesets(void)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_nodeset set;
	double start = bench_now();

	must(rk_nodeset_parse("r[0001-1000]-t[0001-1000]", NULL, NULL, arena, &set, err));
	bench_row("expand a nodeset of 1,000,000 names", bench_now() - start, "s", NULL, 0, NULL);
	start = bench_now();
	const char *folded = rk_nodeset_fold(arena, set.names, set.n);
	bench_row("fold 1,000,000 names", bench_now() - start, "s", NULL, 0, NULL);
	if (strcmp(folded, "r[0001-1000]-t[0001-1000]") != 0)
		exit(1);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

int main(void)
{
	if (!mkdtemp(folder))
		return 1;
	measure_site(64);
	measure_check(64);
	measure_fabric();
	measure_nodesets();
	measure_check(1000);
	measure_site(1000);
	nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return 0;
}
