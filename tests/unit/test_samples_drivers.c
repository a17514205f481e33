/* The samples that belong to no collector: what racksh has a reader for is read right, and the rest is named with the reason. A sample that is in
 * neither list fails the test, so that none is forgotten. */
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "inventory/base/map.h"
#include "inventory/topology.h"
#include "provision/drivers/nvos_parse.h"
#include "provision/drivers/partitions_file.h"
#include "provision/health/health.h"

#define SAMPLES "../shared/samples/"

struct sample {
	const char *file, *text;
	size_t len;
	struct rk_arena *arena;
};

static void partition_list(const struct sample *s)
{
	struct rk_nvos_row *rows;
	size_t n;

	assert_int_equal(rk_nvos_list(s->text, s->arena, &rows, &n, NULL), 0);
	assert_int_equal(n, 4);
	assert_int_equal(rows[0].live.id, 1);
	assert_int_equal(rows[0].announced, 8);
	assert_int_equal(rows[3].live.id, 32766);
	assert_int_equal(rows[3].announced, 56); /* a number in quotes */
}

static void partition_members(const struct sample *s)
{
	struct rk_nvl_live live = { .id = 1 };

	assert_int_equal(rk_nvos_members(s->text, 4, s->arena, &live, NULL), 0);
	assert_int_equal(live.n_gpus, 4);
	assert_int_equal(live.gpus[0], 5511625912122154753u);
}

static void cluster_apps(const struct sample *s)
{
	assert_int_equal(rk_nvos_apps(s->text, NULL), 0);
}

/* Each answer between its command and the next one. */
static void action_outputs(const struct sample *s)
{
	static const enum rk_nvos_answer answers[] = { RK_NVOS_DONE, RK_NVOS_DONE, RK_NVOS_REFUSED, RK_NVOS_REFUSED, RK_NVOS_INVALID };
	size_t n = 0;

	for (const char *at = strstr(s->text, "$ nv action"); at;) {
		const char *begin = strchr(at, '\n') + 1, *next = strstr(begin, "$ nv ");
		const char *out = rk_arena_strndup(s->arena, begin, next ? (size_t)(next - begin) : strlen(begin));
		enum rk_nvos_answer got = rk_nvos_classify(strstr(out, "Error") ? 1 : 0, out, "");
		if (n < RK_ARRAY_SIZE(answers) && got != answers[n])
			fail_msg("answer %zu (%s) is %d, expected %d", n, out, (int)got, (int)answers[n]);
		n++;
		at = next;
	}
	assert_true(n >= RK_ARRAY_SIZE(answers));
}

/* 72 HCAs with one cable each, four leaves with 18 of them, nine trunks from each leaf to both spines. */
static void fabric(const struct sample *s)
{
	struct rk_topology *t RK_CLEANUP(rk_cleanup_topology) = NULL;
	struct rk_ibswitch *switches;
	size_t n, leaves = 0;

	assert_int_equal(rk_topology_parse("sample", s->text, s->len, &t, NULL), 0);
	rk_topology_switches(t, s->arena, &switches, &n);
	assert_int_equal(n, 6);
	assert_int_equal(t->n_nodes, 78);
	assert_int_equal(t->n_links, 2 * (72 + 4 * 2 * 9));
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(switches[i].level, switches[i].hosts ? 1 : 2);
		assert_int_equal(switches[i].hosts, switches[i].level == 1 ? 18 : 0);
		assert_int_equal(switches[i].level == 1 ? switches[i].up : switches[i].down, switches[i].level == 1 ? 18 : 36);
		leaves += switches[i].level == 1;
	}
	assert_int_equal(leaves, 4);
	for (size_t i = 0; i < t->n_links; i++)
		assert_true(t->links[i].width == 4 && strcmp(t->links[i].speed, "HDR") == 0);
}

/* Other forms of the same tool are no fabric: an import of one must not empty the store. */
static void no_fabric(const struct sample *s)
{
	struct rk_topology *t RK_CLEANUP(rk_cleanup_topology) = NULL;

	assert_int_not_equal(rk_topology_parse("sample", s->text, s->len, &t, NULL), 0);
}

/* What OpenSM gave a port of the key, in the words of the notes: "8010", "0010", or NULL. */
static const char *seen_key(const struct rk_partitions *parts, uint64_t guid)
{
	const char *seen = NULL;

	for (size_t i = 0; i < parts->n; i++) {
		for (size_t m = 0; parts->items[i].pkey == 0x10 && m < parts->items[i].n_members; m++) {
			const struct rk_part_member *member = &parts->items[i].members[m];
			if (member->who == RK_PART_ALL || (member->who == RK_PART_GUID && member->guid == guid))
				seen = member->full ? "8010" : "0010";
		}
	}
	return seen;
}

/* One case: the file as Python prints it, then the tables that OpenSM made of it. */
static void partition_case(const struct sample *s, const char *name, const char *conf, const char *tables)
{
	static const struct {
		const char *head;
		uint64_t guid;
	} ports[] = { { "A(t2h0)=[", 0x5000e60300010201 }, { "A(t2h1)=[", 0x5000e60300010211 }, { "B(t3h0)=[", 0x5000e60300010301 } };
	struct rk_diags found RK_CLEANUP_DIAGS = RK_DIAGS_INIT("sample");
	struct rk_partitions parts = { 0 };
	char *text = rk_arena_strdup(s->arena, conf), *out = text;

	for (const char *p = conf; *p; p++)
		*out++ = p[0] == '\\' && p[1] == 'n' ? (p++, '\n') : *p;
	*out = '\0';
	rk_partitions_read("sample", text, strlen(text), s->arena, &parts, &found);
	/* Everybody is a full member of the default partition: that is what OpenSM does when it does not take the file. */
	bool rejected = !strstr(tables, "7fff");
	if (parts.rejected != rejected)
		fail_msg("%s: OpenSM %s it", name, rejected ? "rejected" : "took");
	assert_true(!rejected || found.n > 0);
	for (size_t i = 0; !rejected && i < RK_ARRAY_SIZE(ports); i++) {
		const char *at = strstr(tables, ports[i].head), *key = seen_key(&parts, ports[i].guid);
		assert_non_null(at);
		const char *list = rk_arena_strndup(s->arena, at, strcspn(at, "]"));
		for (const char *const *word = (const char *const[]){ "8010", "0010", NULL }; *word; word++)
			if (!strstr(list, *word) != !rk_streq(key, *word))
				fail_msg("%s: %s, and not %s", name, list, key ? key : "none");
	}
}

static void partition_cases(const struct sample *s)
{
	static const char head[] = "\n== ", conf_head[] = "\n   conf: '";
	size_t n = 0;

	for (const char *at = s->text; (at = strstr(at, head)) != NULL;) {
		const char *name = rk_arena_strndup(s->arena, at + strlen(head), strcspn(at + strlen(head), "\n"));
		const char *conf = strstr(++at, conf_head), *end;
		assert_non_null(conf);
		conf += strlen(conf_head);
		end = strchr(conf, '\n');
		assert_non_null(end);
		if (end[-1] != '\'') /* cut short in the notes */
			continue;
		partition_case(s, name, rk_arena_strndup(s->arena, conf, (size_t)(end - 1 - conf)), rk_arena_strndup(s->arena, end + 1, strcspn(end + 1, "\n")));
		n++;
	}
	assert_true(n >= 10);
}

/* Who is at the other end of a cable, as the ib-leaf collector asks: two samples, one after the other. */
static void far_end(const struct sample *s)
{
	char *name RK_CLEANUP_FREE = NULL, *info RK_CLEANUP_FREE = NULL;
	struct rk_metrics m = { .arena = s->arena };
	size_t len;

	assert_int_equal(rk_file_read(SAMPLES "infiniband/smpquery-nodedesc.txt", 1 << 16, &name, &len, NULL), 0);
	assert_int_equal(rk_file_read(SAMPLES "infiniband/smpquery-nodeinfo.txt", 1 << 16, &info, &len, NULL), 0);
	const char *text = rk_arena_printf(s->arena, "# dev mlx5_0 0x0000000000000007\n%s%s", name, info);
	const struct rk_evidence e = { "ib-leaf", text, strlen(text), "", 0, "0" };
	rk_collector_find("ib-leaf")->parse(&e, &m);
	const struct rk_metric *cable = rk_metric_find(&m, "ib.cable", "dev=mlx5_0"), *leaves = rk_metric_find(&m, "ib.leaves", "");
	assert_true(cable && cable->type == RK_METRIC_TEXT && leaves && leaves->type == RK_METRIC_TEXT);
	assert_string_equal(cable->text, "0x0000000000000007 on rack01-tray02 mlx5_0/1");
	assert_string_equal(leaves->text, "rack01-tray02 mlx5_0");
}

/* What no collector of the same tools reads must not be taken for a measurement by one: there is nothing, or none of it, or an error. */
static void measures_nothing(const struct sample *s)
{
	static const struct {
		const char *folder, *collectors[8];
	} readers[] = {
		{ "nvidia-smi/", { "nvidia-smi-xml", "nvidia-smi-q", "nvlink-status", "nvlink-errors", "topo" } },
		{ "infiniband/", { "ibstat", "ibv-devinfo", "ib-driver", "ib-leaf", "ib-pkeys", "ib-counters", "mlxlink" } },
		{ "imex/", { "imex-nodes", "imex-nodes-text" } },
		{ "bench/", { "ib-write-bw", "fio", "gemm", "nvbandwidth" } },
		{ "host/", { "lscpu", "numactl", "chrony", "services", "storage" } },
	};
	for (size_t i = 0; i < RK_ARRAY_SIZE(readers); i++) {
		for (const char *const *c = readers[i].collectors; rk_starts_with(s->file, readers[i].folder) && *c; c++) {
			struct rk_metrics m = { .arena = s->arena };
			const struct rk_evidence e = { *c, s->text, s->len, "", 0, "0" };
			rk_collector_find(*c)->parse(&e, &m);
			for (size_t k = 0; k < m.n; k++) {
				bool none = m.items[k].type == RK_METRIC_ABSENT || (m.items[k].type == RK_METRIC_NUMBER && m.items[k].number == 0);
				/* A list by GPU, whatever else it tells, says how many there are. */
				if (!none && !rk_ends_with(m.items[k].name, ".error") && strcmp(m.items[k].name, "gpu.count") != 0)
					fail_msg("%s: %s reads %s{%s} in it", s->file, *c, m.items[k].name, m.items[k].label);
			}
		}
	}
}

/* why: who reads it, when it is not read here; such a sample must be no measurement of something else. */
static const struct {
	const char *file;
	void (*check)(const struct sample *s);
	const char *why;
} others[] = {
	{ "nvlink-switch/nvue-sdn-partition-list.txt", partition_list, NULL },
	{ "nvlink-switch/nvue-sdn-partition-id.txt", partition_members, NULL },
	{ "nvlink-switch/nvue-show-cluster-apps.txt", cluster_apps, NULL },
	{ "nvlink-switch/nvos-sdn-action-output.txt", action_outputs, NULL },
	{ "nvlink-switch/nmxm-operations.txt", NULL, "test_nvl_nmxm" },
	{ "nvlink-switch/nmxm-partition.txt", NULL, "test_nvl_nmxm has its form" },
	{ "nvlink-switch/nmxt-telemetry.txt", NULL, "telemetry of switches is not read" },
	{ "nvlink-switch/nvos-show-interface.txt", NULL, "ports of NVLink switches are not read" },
	{ "nvlink-switch/nvos-show-link-diagnostics.txt", NULL, "ports of NVLink switches are not read" },
	{ "nvlink-switch/nvue-system-health.txt", NULL, "health of switch hardware is not read" },
	{ "infiniband/ibnetdiscover.txt", fabric, NULL },
	{ "infiniband/ibnetdiscover-l.txt", no_fabric, NULL },
	{ "infiniband/ibnetdiscover-p.txt", no_fabric, NULL },
	{ "infiniband/ibnetdiscover-diff-rail-swap.txt", no_fabric, NULL },
	{ "infiniband/ibhosts.txt", no_fabric, NULL },
	{ "infiniband/ibswitches.txt", no_fabric, NULL },
	{ "infiniband/iblinkinfo.txt", no_fabric, NULL },
	{ "infiniband/iblinkinfo-degraded.txt", no_fabric, NULL },
	{ "infiniband/opensm-partition-cases.txt", partition_cases, NULL },
	{ "infiniband/opensm-default-conf.txt", NULL, "options of OpenSM are not read" },
	{ "infiniband/opensm-log-link-down.txt", NULL, "logs of OpenSM are not read" },
	{ "infiniband/opensm-log-partition-errors.txt", NULL, "logs of OpenSM are not read" },
	{ "infiniband/ibportstate.txt", NULL, "ibstat and ibnetdiscover tell the same" },
	{ "infiniband/ibportstate-width-1x.txt", NULL, "ibstat and ibnetdiscover tell the same" },
	{ "infiniband/ibqueryerrors-clean.txt", NULL, "perfquery tells the same, in 64 bit" },
	{ "infiniband/ibqueryerrors-data.txt", NULL, "perfquery tells the same, in 64 bit" },
	{ "infiniband/ibqueryerrors-faults.txt", NULL, "perfquery tells the same, in 64 bit" },
	{ "infiniband/ibtracert.txt", NULL, "paths are asked of the subnet administrator" },
	{ "infiniband/rdma-link-faults.txt", NULL, "ibstat tells the same" },
	{ "infiniband/rdma-link-gb300-roce.txt", NULL, "ibstat tells the same" },
	{ "infiniband/saquery-node-record.txt", NULL, "ibnetdiscover tells the same" },
	{ "infiniband/saquery-path-none.txt", NULL, "test_ib_opensm answers in this form" },
	{ "infiniband/saquery-path-shared.txt", NULL, "test_ib_opensm answers in this form" },
	{ "infiniband/saquery-pkey-refused.txt", NULL, "the tables are read by a program of racksh's own, drivers/remote" },
	{ "infiniband/saquery-pkey-tables.txt", NULL, "the tables are read by a program of racksh's own, drivers/remote" },
	{ "infiniband/saquery-src-to-dst.txt", NULL, "test_ib_opensm answers in this form" },
	{ "infiniband/sminfo.txt", NULL, "test_ib_opensm answers in this form" },
	{ "infiniband/smpquery-nodedesc.txt", far_end, NULL },
	{ "infiniband/smpquery-nodeinfo.txt", far_end, NULL },
	{ "infiniband/smpquery-portinfo.txt", NULL, "ibnetdiscover tells the same" },
	{ "infiniband/smpquery-portinfo-1x.txt", NULL, "ibnetdiscover tells the same" },
	{ "infiniband/smpquery-switchinfo.txt", NULL, "ibnetdiscover tells the same" },
	{ "infiniband/sysfs-ports.txt", NULL, "ibstat tells the same" },
	{ "nvidia-smi/error-lines.txt", measures_nothing, NULL },
	{ "nvidia-smi/table-gb300.txt", measures_nothing, NULL }, /* the table for eyes */
	{ "nvidia-smi/csv-fabric-variants.txt", measures_nothing, NULL },
	{ "nvidia-smi/csv-gb300-one-in-progress.txt", measures_nothing, NULL },
	{ "nvidia-smi/csv-odd-fields.txt", measures_nothing, NULL },
	{ "nvidia-smi/csv-rtx2080s-610.txt", measures_nothing, NULL },
	{ "nvidia-smi/help-query-gpu-fabric.txt", measures_nothing, NULL },
	{ "nvidia-smi/nvlink-info-gb200.txt", NULL, "firmware of NVLinks is not read" },
	{ "imex/config-cfg-keys.txt", NULL, "the daemon's settings are not read" },
	{ "imex/ctl-q-states.txt", NULL, "-N tells the same, per node" },
	{ "imex/daemon-log-startup.txt", NULL, "-N and services tell the same" },
	{ "dcgm/health-ok.txt", NULL, "background watches are not read: they may be off" },
	{ "dcgm/health-failure.txt", NULL, "background watches are not read: they may be off" },
	{ "dcgm/nvlink-status.txt", NULL, "nvidia-smi nvlink -s tells the same" },
	{ "bench/ib-write-lat.txt", NULL, "latency is not measured" },
	{ "bench/stream.txt", NULL, "memory bandwidth of CPUs is not measured" },
	{ "host/folding-clush.txt", NULL, "an example of folding" },
	{ "host/lspci-gb300.txt", NULL, "nvidia-smi and dmesg tell width and loss" },
	{ "host/lspci-gb300-downgraded.txt", NULL, "nvidia-smi and dmesg tell width and loss" },
	{ "libvirt/domain-gb300-full.txt", NULL, "test_domain_xml" },
	{ "libvirt/domain-gb300-full-argv.txt", NULL, "test_domain_xml" },
	{ "libvirt/domain-lab-tcg.txt", NULL, "test_domain_xml" },
};

static void what_there_is_a_reader_for_is_read_right(void **state)
{
	size_t absent = 0, read = 0;

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(others); i++) {
		RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
		char path[256], *text RK_CLEANUP_FREE = NULL;
		struct sample s = { .file = others[i].file, .arena = arena };
		assert_true(!others[i].check == !!others[i].why);
		snprintf(path, sizeof(path), SAMPLES "%s", others[i].file);
		if (rk_file_read(path, 16 << 20, &text, &s.len, NULL)) {
			absent++;
			continue;
		}
		s.text = text;
		(others[i].check ? others[i].check : measures_nothing)(&s);
		read += others[i].check != NULL;
	}
	if (absent == RK_ARRAY_SIZE(others))
		skip();
	assert_true(read > 0);
}

static struct rk_map *known;
static char *forgotten;

static int look(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	const char *name = path + strlen(SAMPLES);

	(void)st, (void)ftw;
	if (flag == FTW_F && !strstr(name, "INDEX") && !rk_map_get(known, name, NULL) && !forgotten)
		forgotten = rk_xstrdup(name);
	return 0;
}

/* The table of test_samples.c is read as text: one list of what is covered, kept in one place. */
static void no_sample_is_forgotten(void **state)
{
	char *table RK_CLEANUP_FREE = NULL;
	size_t len;

	(void)state;
	if (access(SAMPLES "INDEX.md", R_OK) != 0)
		skip();
	known = rk_map_new();
	assert_int_equal(rk_file_read("tests/unit/test_samples.c", 1 << 20, &table, &len, NULL), 0);
	for (char *at = table; (at = strstr(at, "\t{ \"")) != NULL;) {
		char *end = strchr(at + 4, '"');
		*end = '\0';
		rk_map_set(known, at + 4, 1);
		at = end + 1;
	}
	for (size_t i = 0; i < RK_ARRAY_SIZE(others); i++)
		rk_map_set(known, others[i].file, 1);
	nftw(SAMPLES, look, 16, FTW_PHYS);
	rk_map_free(known);
	if (forgotten)
		fail_msg("%s is read by no test", forgotten);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_there_is_a_reader_for_is_read_right),
		cmocka_unit_test(no_sample_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
