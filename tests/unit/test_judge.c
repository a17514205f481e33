/* Whole evidence folders: written from templates with one fault each, loaded and judged again, compared with an expert's verdict. */
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "inventory/base/str.h"
#include "provision/health/health.h"

enum { VMS = 4 };

/* The knobs of the template; one VM (the second) or all of them get the fault. */
struct knobs {
	const char *state, *status, *clique, *uuid, *summary, *remap, *recovery, *links, *domain, *cell, *list, *ib_state, *rate, *pkey, *def, *service, *dmesg,
		*imex_service, *probe_status, *err;
	int gpus;
	bool silent;
};
static const struct knobs healthy = { "Completed", "Success", "7", "6f0b7c1e-0000-4000-8000-0000000000aa", "Healthy", "No", "None", "53.125 GB/s", "UP",
				      "CONNECTED", "10.9.0.1\n10.9.0.2\n", "Active", "800", "0x8123", "0x7fff", "0x0a00", "[    1.5] Linux version 6.8\n", "active",
				      "0", "", 4, false };

static void add(struct rk_target *t, struct rk_arena *arena, const char *collector, struct rk_str *out, const struct knobs *k)
{
	struct rk_evidence *e = &t->evidence[t->n_evidence++];

	e->collector = collector;
	e->out = rk_arena_strndup(arena, rk_str_text(out), out->len);
	e->out_len = out->len;
	e->err = k->err;
	e->err_len = strlen(k->err);
	e->status = k->probe_status;
	rk_str_clear(out);
}

static void smi(struct rk_str *s, const struct knobs *k)
{
	rk_str_addf(s, "Welcome\r\n<nvidia_smi_log><driver_version>580.1</driver_version><attached_gpus>%d</attached_gpus>", k->gpus);
	for (int gpu = 0; gpu < k->gpus; gpu++) {
		bool bad = gpu == 2; /* the per-GPU faults sit on GPU 2 */
		rk_str_addf(s, "<gpu id=\"%d\"><gpu_recovery_action>%s</gpu_recovery_action><pci><pci_device_id>31C210DE</pci_device_id></pci>", gpu,
			    bad ? k->recovery : "None");
		rk_str_addf(s, "<remapped_rows><remapped_row_failure>%s</remapped_row_failure></remapped_rows>", bad ? k->remap : "No");
		rk_str_addf(s, "<fabric><state>%s</state><status>%s</status><cliqueId>%s</cliqueId><clusterUuid>%s</clusterUuid>", k->state, k->status,
			    k->clique, k->uuid);
		rk_str_addf(s, "<health><summary>%s</summary></health></fabric></gpu>", bad ? k->summary : "Healthy");
	}
	rk_str_add(s, "</nvidia_smi_log>\n");
}

static void links(struct rk_str *s, const struct knobs *k)
{
	for (int gpu = 0; gpu < k->gpus; gpu++) {
		rk_str_addf(s, "GPU %d: NVIDIA GB300 (UUID: x)\n", gpu);
		for (int i = 0; i < 18; i++)
			rk_str_addf(s, "\t Link %d: %s\n", i, gpu == 1 && i == 5 ? k->links : "53.125 GB/s");
	}
}

static void imex(struct rk_str *s, const struct knobs *k)
{
	rk_str_add(s, "{\"nodes\":{\"0\":{\"status\":\"READY\",\"host\":\"10.9.0.1\",\"version\":\"580.1\",\"connections\":{");
	rk_str_addf(s, "\"0\":{\"status\":\"CONNECTED\"},\"1\":{\"status\":\"%s\"}}}},\"status\":\"%s\"}\n", k->cell, k->domain);
}

static void ports(struct rk_str *ibstat, struct rk_str *pkeys, const struct knobs *k)
{
	for (int rail = 0; rail < 4; rail++) {
		bool bad = rail == 3;
		rk_str_addf(ibstat, "CA 'mlx5_%d'\n\tFirmware version: 40.1\n\tPort 1:\n\t\tState: %s\n\t\tPhysical state: LinkUp\n\t\tRate: %s\n", rail,
			    bad ? k->ib_state : "Active", bad ? k->rate : "800");
		rk_str_add(ibstat, "\t\tBase lid: 4\n\t\tSM lid: 1\n\t\tLink layer: InfiniBand\n");
		rk_str_addf(pkeys, "   0: %s %s %s 0x0000 0x0000 0x0000 0x0000 0x0000\n8 pkeys capacity for this port\n", bad ? k->def : "0x7fff",
			    bad ? k->pkey : "0x8123", bad ? k->service : "0x0a00");
	}
}

static void make(struct rk_arena *arena, struct rk_target *t, int number, const struct knobs *k)
{
	struct rk_str s = RK_STR_INIT, p = RK_STR_INIT;

	*t = (struct rk_target){ .name = rk_arena_printf(arena, "a-%02d", number), .kind = "vm", .rack = "r01", .cluster = "a",
				 .tray = rk_arena_printf(arena, "r01-t%02d", number + 10), .evidence = rk_arena_array(arena, 16, sizeof(struct rk_evidence)),
				 .expect = { .nvlink_partition = 7, .cluster_uuid = healthy.uuid, .pkeys = { 0x0123 }, .n_pkeys = 1, .services = { 0x0a00 }, .n_services = 1, .gpus = 4, .rails = 4 } };
	if (k->silent)
		return;
	smi(&s, k);
	add(t, arena, "nvidia-smi-xml", &s, k);
	links(&s, k);
	add(t, arena, "nvlink-status", &s, k);
	imex(&s, k);
	add(t, arena, "imex-nodes", &s, k);
	rk_str_add(&s, k->list);
	add(t, arena, "imex-config", &s, k);
	ports(&s, &p, k);
	add(t, arena, "ibstat", &s, k);
	add(t, arena, "ib-pkeys", &p, k);
	rk_str_add(&s, k->dmesg);
	add(t, arena, "dmesg-xid", &s, k);
	rk_str_addf(&s, "Id=nvidia-imex.service\nLoadState=loaded\nActiveState=%s\n", k->imex_service);
	add(t, arena, "services", &s, k);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

/* Through a folder and back, so that save and load are part of every case. */
static void judge(struct rk_arena *arena, const struct rk_target *targets, size_t n, struct rk_report *report)
{
	const char *tmp = getenv("TMPDIR");
	char *base = rk_arena_printf(arena, "%s/racksh-judge.XXXXXX", tmp ? tmp : P_tmpdir);
	struct rk_err err = RK_ERR_INIT;
	struct rk_hprofile *profile;
	struct rk_target *loaded = NULL;
	int64_t kept_ms;
	size_t n_loaded = 0;

	assert_non_null(mkdtemp(base));
	int rc = rk_evidence_save(base, targets, n, &err);
	if (!rc)
		rc = rk_evidence_load(base, arena, &loaded, &n_loaded, &kept_ms, &err);
	nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	if (rc)
		fail_msg("evidence: %s", err.message);
	assert_int_equal(n_loaded, n);
	assert_int_equal(rk_hprofile_load("gb300-acceptance", &profile, &err), 0);
	assert_int_equal(rk_judge(profile, "quick", loaded, n_loaded, arena, report, &err), 0);
	rk_hprofile_free(profile);
}

static const struct rk_check *find(const struct rk_report *r, const char *id, const char *verdict)
{
	for (size_t i = 0; i < r->n_checks; i++) {
		if (strcmp(r->checks[i].id, id) == 0 && strcmp(r->checks[i].verdict, verdict) == 0)
			return &r->checks[i];
	}
	return NULL;
}

#define ECHO "[ 900.1] NVRM: Xid (PCI:0008:06:00): 145, RLW_REMAP Fatal XC0 i0 Link 00 (0x00000004 0x0 0x0 0x0)\n"
#define XID(code, text) "[ 800.1] NVRM: Xid (PCI:0018:06:00): " code ", " text "\n"

/* check: the row that must hold exactly the VM a-02; cause: text of the first root cause, or NULL for none at all. */
static const struct {
	const char *what;
	size_t knob;
	const char *value, *verdict, *check, *cause;
} cases[] = {
	{ "another partition", offsetof(struct knobs, clique), "9", "fail", "gpu.fabric.partition", "NVLink partition: a-02 on r01-t12" },
	{ "default partition", offsetof(struct knobs, clique), "32766", "fail", "gpu.fabric.partition", "expected 7" },
	{ "no partition", offsetof(struct knobs, clique), "0", "fail", "gpu.fabric.clique", "NVLink partition: a-02" },
	{ "not registered", offsetof(struct knobs, state), "In Progress", "fail", "gpu.fabric.state", "in NVLink partition 7" },
	{ "state N/A", offsetof(struct knobs, state), "N/A", "unknown", "gpu.fabric.state", NULL },
	{ "insufficient resources", offsetof(struct knobs, status), "Insufficient Resources", "fail", "gpu.fabric.status", "registration" },
	{ "other domain", offsetof(struct knobs, uuid), "6f0b7c1e-0000-4000-8000-0000000000bb", "fail", "gpu.fabric.domain", "NVLink partition" },
	{ "zero domain", offsetof(struct knobs, uuid), "00000000-0000-0000-0000-000000000000", "fail", "gpu.fabric.uuid", "NVLink partition" },
	{ "unhealthy", offsetof(struct knobs, summary), "Unhealthy", "fail", "gpu.fabric.health", "registration" },
	{ "health N/A", offsetof(struct knobs, summary), "N/A", "unknown", "gpu.fabric.health", NULL },
	{ "limited capacity", offsetof(struct knobs, summary), "Limited Capacity", "fail", "gpu.fabric.health", "registration" },
	{ "remap failure", offsetof(struct knobs, remap), "Yes", "fail", "gpu.ecc.remap", "GPU: a-02" },
	{ "wants a reset", offsetof(struct knobs, recovery), "GPU Reset Required", "fail", "gpu.recovery", "GPU: a-02" },
	{ "wants a drain", offsetof(struct knobs, recovery), "Drain P2P", "warn", "gpu.recovery", NULL },
	{ "link down", offsetof(struct knobs, links), "<inactive>", "fail", "gpu.nvlink.count", "NVLink: a-02" },
	{ "slow link", offsetof(struct knobs, links), "26.562 GB/s", "fail", "gpu.nvlink.speed", "NVLink: a-02" },
	{ "domain down", offsetof(struct knobs, domain), "DOWN", "fail", "imex.domain", "IMEX domain" },
	{ "other node list", offsetof(struct knobs, list), "10.9.0.2\n10.9.0.1\n", "fail", "imex.list.same", "IMEX node list: a-02" },
	{ "node map", offsetof(struct knobs, cell), "NODE_MAP_MISMATCH", "fail", "imex.list", "IMEX node list" },
	{ "version", offsetof(struct knobs, cell), "VERSION_MISMATCH", "fail", "imex.version", "IMEX version" },
	{ "disconnected", offsetof(struct knobs, cell), "DISCONNECTED", "fail", "imex.link", "IMEX domain" },
	{ "imex failed", offsetof(struct knobs, imex_service), "failed", "fail", "svc.imex", "IMEX service: a-02" },
	{ "imex starting", offsetof(struct knobs, imex_service), "activating", "unknown", "svc.imex", NULL },
	{ "no subnet manager", offsetof(struct knobs, ib_state), "Initializing", "fail", "ib.state", "InfiniBand port: a-02" },
	{ "port down", offsetof(struct knobs, ib_state), "Down", "fail", "ib.state", "InfiniBand port" },
	{ "half rate", offsetof(struct knobs, rate), "400", "fail", "ib.rate", "InfiniBand port" },
	{ "limited member", offsetof(struct knobs, pkey), "0x0123", "fail", "ib.pkey", "0x8123" },
	{ "not joined", offsetof(struct knobs, pkey), "0x0000", "fail", "ib.pkey", "InfiniBand partition: a-02 on r01-t12" },
	{ "foreign key", offsetof(struct knobs, pkey), "0x8124", "fail", "ib.pkey.foreign", "0x8123" },
	{ "full member of a service", offsetof(struct knobs, service), "0x8a00", "fail", "ib.pkey.foreign", "0x8123" },
	{ "a service of others", offsetof(struct knobs, service), "0x0a01", "fail", "ib.pkey.foreign", "0x8123" },
	{ "full default", offsetof(struct knobs, def), "0xffff", "fail", "ib.pkey.default", "InfiniBand partition" },
	{ "fell off", offsetof(struct knobs, dmesg), XID("79", "GPU has fallen off the bus."), "fail", "xid", "GPU fault: a-02 on r01-t12: Xid 79" },
	{ "contained error", offsetof(struct knobs, dmesg), XID("94", "Contained: SM"), "warn", "xid.warn", NULL },
	{ "application", offsetof(struct knobs, dmesg), XID("31", "MMU fault"), "pass", NULL, NULL },
	{ "cleared demand", offsetof(struct knobs, dmesg), XID("154", "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"), "pass",
	  NULL, NULL },
	{ "memory onlining", offsetof(struct knobs, dmesg), "NVRM: GPU memory zone movable auto onlining failed!\n", "fail", "kernel.memory", "GPU driver" },
	{ "timed out", offsetof(struct knobs, probe_status), "timeout", "unknown", NULL, NULL },
	{ "tools missing", offsetof(struct knobs, probe_status), "127", "unknown", NULL, NULL },
	{ "unreachable", offsetof(struct knobs, probe_status), "unreachable", "unknown", "ssh", NULL },
};

static void check_case(size_t i)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct knobs bad = healthy;
	struct rk_target targets[VMS];
	struct rk_report r;

	*(const char **)((char *)&bad + cases[i].knob) = cases[i].value;
	for (int vm = 0; vm < VMS; vm++)
		make(arena, &targets[vm], vm + 1, vm == 1 ? &bad : &healthy);
	if (cases[i].knob == offsetof(struct knobs, probe_status)) {
		for (size_t e = 0; e < targets[1].n_evidence; e++)
			targets[1].evidence[e].out_len = 0;
	}
	judge(arena, targets, VMS, &r);
	if (strcmp(r.verdict, cases[i].verdict) != 0)
		fail_msg("%s: %s, expected %s (first: %s %s)", cases[i].what, r.verdict, cases[i].verdict, r.checks[0].id, r.checks[0].value);
	if (cases[i].check) {
		const struct rk_check *c = find(&r, cases[i].check, cases[i].verdict);
		if (!c || c->n_targets != 1 || strcmp(c->targets[0], "a-02") != 0 || strcmp(c->folded, "a-02") != 0)
			fail_msg("%s: no %s row of %s for a-02 alone", cases[i].what, cases[i].verdict, cases[i].check);
	}
	if (cases[i].cause ? !r.n_root_causes || !strstr(r.root_causes[0], cases[i].cause) : r.n_root_causes != 0)
		fail_msg("%s: root cause %s", cases[i].what, r.n_root_causes ? r.root_causes[0] : "missing");
}

static void one_fault_gives_the_experts_verdict_on_the_right_vm(void **state)
{
	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++)
		check_case(i);
}

static void healthy_cluster_passes_with_one_row_per_check(void **state)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_target targets[VMS];
	struct rk_report r;

	(void)state;
	for (int vm = 0; vm < VMS; vm++)
		make(arena, &targets[vm], vm + 1, &healthy);
	judge(arena, targets, VMS, &r);
	assert_string_equal(r.verdict, "pass");
	assert_int_equal(r.n_root_causes, 0);
	assert_int_equal(rk_report_rc(&r, true), 0);
	assert_string_equal(find(&r, "gpu.fabric.partition", "pass")->folded, "a-[01-04]");
}

static void target_without_files_is_unknown(void **state)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct knobs silent = healthy;
	struct rk_target targets[2];
	struct rk_report r;

	(void)state;
	silent.silent = true;
	make(arena, &targets[0], 1, &healthy);
	make(arena, &targets[1], 2, &silent);
	judge(arena, targets, 2, &r);
	assert_string_equal(r.verdict, "unknown");
	assert_string_equal(find(&r, "ssh", "unknown")->folded, "a-02");
	assert_int_equal(rk_report_rc(&r, false), RK_UNREACHABLE);
}

/* Its BMC and a run that another VM started tell about it, and that counts; that it answers they do not say. */
static void a_vm_that_only_others_tell_about_does_not_answer(void **state)
{
	static const struct {
		const char *status, *err, *verdict, *value;
	} rows[] = {
		{ "unreachable", "connect: timed out", "unknown", "unreachable: connect: timed out" },
		{ "255", "ops@10.0.0.2: Permission denied (publickey).", "unknown", "unreachable: login refused" },
		{ NULL, "", "skipped", "nothing was asked of its shell" },
	};
	static const char leak[] = "{\"Members\":[{\"Id\":\"LeakDetector_1\",\"DetectorState\":\"Critical\"}]}", run[] = "# Collective test concluded: all_reduce_perf\n";

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
		struct rk_hprofile *profile RK_CLEANUP(rk_cleanup_hprofile) = NULL;
		struct rk_evidence evidence[] = { { "leak", leak, sizeof(leak) - 1, "", 0, "0" }, { "nccl-domain", run, sizeof(run) - 1, "", 0, "0" },
						  { "services", "", 0, rows[i].err, strlen(rows[i].err), rows[i].status } };
		const struct rk_target target = { .name = "a-02", .kind = "vm", .rack = "r01", .cluster = "a", .tray = "r01-t02", .evidence = evidence,
						  .n_evidence = rows[i].status ? 3 : 2 };
		struct rk_report r;
		assert_int_equal(rk_hprofile_load("gb300-acceptance", &profile, NULL), 0);
		assert_int_equal(rk_judge(profile, "quick", &target, 1, arena, &r, NULL), 0);
		const struct rk_check *ssh = find(&r, "ssh", rows[i].verdict);
		if (!ssh || strcmp(ssh->value, rows[i].value) != 0)
			fail_msg("row %zu: %s", i, ssh ? ssh->value : "another verdict");
		assert_non_null(find(&r, "env.leak", "fail"));
	}
}

static void earliest_fatal_xid_wins_over_its_echoes(void **state)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct knobs echo = healthy, source = healthy;
	struct rk_target targets[VMS];
	struct rk_report r;

	(void)state;
	echo.dmesg = ECHO;
	source.dmesg = XID("149", "NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x0 0x0 0x0)");
	for (int vm = 0; vm < VMS; vm++)
		make(arena, &targets[vm], vm + 1, vm == 2 ? &source : &echo);
	judge(arena, targets, VMS, &r);
	assert_int_equal(r.n_root_causes, 1);
	assert_non_null(strstr(r.root_causes[0], "a-03 on r01-t13: Xid 149"));
	assert_non_null(strstr(r.root_causes[0], "link signal"));
}

static void without_a_majority_all_are_named(void **state)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct knobs other = healthy;
	struct rk_target targets[2];
	struct rk_report r;

	(void)state;
	other.list = "10.9.0.9\n";
	make(arena, &targets[0], 1, &healthy);
	make(arena, &targets[1], 2, &other);
	judge(arena, targets, 2, &r);
	size_t named = 0;
	for (size_t i = 0; i < r.n_checks; i++) {
		if (strcmp(r.checks[i].id, "imex.list.same") == 0 && strcmp(r.checks[i].verdict, "fail") == 0)
			named += r.checks[i].n_targets;
	}
	assert_int_equal(named, 2);
}

static void every_builtin_profile_loads(void **state)
{
	size_t n;
	const char *const *names = rk_hprofiles(&n);

	(void)state;
	assert_true(n >= 5);
	for (size_t i = 0; i < n; i++) {
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		struct rk_hprofile *p = NULL;
		if (rk_hprofile_load(names[i], &p, &err))
			fail_msg("%s: %s", names[i], err.message);
		assert_string_equal(rk_hprofile_name(p), names[i]);
		rk_hprofile_free(p);
	}
}

static void hostile_bytes_are_read_without_harm(void **state)
{
	static const char *const seeds[] = { "<nvidia_smi_log><gpu><gpu><gpu>", "{{{{[[[[\"\\", "\033[\033]\033", "NVRM: Xid (PCI:", "Node #", "CA '",
					     "   0: 0x", "GPU 0: x\n Link 99999999999: ", "# Port counters: Lid ", "\xff\xfe\x00\x01", "| |", "Id=" };
	size_t n;
	const struct rk_collector *all = rk_collectors(&n);

	(void)state;
	for (size_t c = 0; c < n; c++) {
		for (size_t i = 0; i < RK_ARRAY_SIZE(seeds); i++) {
			RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
			struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
			for (int k = 0; k < 300; k++)
				rk_str_add(&text, seeds[(i + (size_t)k % 3) % RK_ARRAY_SIZE(seeds)]);
			struct rk_evidence e = { all[c].name, rk_str_text(&text), text.len, rk_str_text(&text), text.len, "0" };
			struct rk_metrics m = { .arena = arena };
			all[c].parse(&e, &m);
			assert_true(m.n < 200000);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(healthy_cluster_passes_with_one_row_per_check),
		cmocka_unit_test(one_fault_gives_the_experts_verdict_on_the_right_vm),
		cmocka_unit_test(target_without_files_is_unknown),
		cmocka_unit_test(a_vm_that_only_others_tell_about_does_not_answer),
		cmocka_unit_test(earliest_fatal_xid_wins_over_its_echoes),
		cmocka_unit_test(without_a_majority_all_are_named),
		cmocka_unit_test(every_builtin_profile_loads),
		cmocka_unit_test(hostile_bytes_are_read_without_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
