/* Every word of --sim-fault: what racksh says of it, first cause first, and that nothing else is blamed; and two faults at once are both named. */
#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "provision/health/run.h"
#include "provision/isolation.h"
#include "provision/topology_text.h"
#include "tests/contract/twin.h"

enum { VMS = 4 };
static const char two[] = "r1-t02", three[] = "r1-t03";

/* In fault, cause, breach and drift "%t" is a tray, "%v" the VM on it.
 * part: what of the tray is faulty; blinds: of which parts ('g' GPUs, 'r' rails, 'c' cables) the tray says nothing any more, or nothing of its own. */
static const struct row {
	const char *word, *fault, *part, *blinds;
	const char *cause;    /* how those of validate --level deep begin, with '*' and '|' between; NULL: none */
	const char *breach;   /* of isolation verify; NULL: none */
	const char *drift;    /* plane and object; NULL: none */
	const char *wiring;   /* kind of the first finding of ib check --live; NULL: none */
	const char *elsewhere; /* what finds it, when it is nothing of these: another test */
} rows[] = {
	{ "gpu-leave", "gpu-leave@%t/0", "g0", "", "NVLink fabric registration: %v on %t in NVLink partition 1: the GPUs are registered", NULL, "nvlink r1/1", NULL, NULL },
	{ "gpu-move", "gpu-move@%t/1/77", "g1", "", "NVLink partition: %v on %t in NVLink partition 1: the GPUs are in the NVLink partition of their cluster",
	  "NVLink partition r1/77 holds 1 GPUs, and the store knows of no such partition", "nvlink r1/1, nvlink r1/77", NULL, NULL },
	{ "gpu-move", "gpu-move@%t/1/32766", "g1", "", "NVLink partition: %v on %t in NVLink partition 1: the GPUs are in the NVLink partition of their cluster",
	  "GPU %t/1 is in the default partition of r1", "nvlink r1/1", NULL, NULL },
	{ "nvlink-down", "nvlink-down@%t/2/3", "g2", "", "NVLink: %v on %t: all NVLinks of each GPU are up", NULL, NULL, NULL, NULL },
	{ "gpu-slow", "gpu-slow@%t/3/60", "g3", "", "GPU: %v on %t: *(found gpu=3: ", NULL, NULL, NULL, NULL },
	{ "gpu-xid", "gpu-xid@%t/3/79", "g3", "", "GPU fault: %v on %t: Xid 79 on 0019:06", NULL, NULL, NULL, NULL },
	{ "gpu-remap", "gpu-remap@%t/2", "g2", "", "GPU: %v on %t: no row remapping failed", NULL, NULL, NULL, NULL },
	{ "gpu-missing", "gpu-missing@%t/3", "g3", "", "GPU: %v on %t: every GPU of the tray is present", NULL, "nvlink r1/1", NULL, NULL },
	{ "driver-down", "driver-down@%t/0", "g", "g", "GPU driver: %v on %t: nvidia-smi reports its GPUs", NULL, NULL, NULL, NULL },
	{ "imex-down", "imex-down@%t/0", "imex", "", "IMEX service: %v on %t: nvidia-imex has not failed", NULL, NULL, NULL, NULL },
	{ "leak", "leak@%t/1", "leak", "", "liquid cooling: %v on %t: no leak detector reports a leak", NULL, NULL, NULL, NULL },
	{ "link-down", "link-down@%t/0", "r0", "c", "InfiniBand port: %v on %t: every InfiniBand port is active", NULL, "infiniband ib0/0x0100", "missing-hca", NULL },
	{ "link-rate", "link-rate@%t/3/400", "r3", "", "InfiniBand port: %v on %t: every InfiniBand port runs at its rate", NULL, NULL, "speed", NULL },
	{ "port-flaps", "port-flaps@%t/2/600", "r2", "", "InfiniBand port: %v on %t: no InfiniBand link goes down", NULL, NULL, NULL, NULL },
	{ "cable-slow", "cable-slow@%t/0/60", "r0", "", "InfiniBand port: %v on %t: RDMA write bandwidth", NULL, NULL, NULL, NULL },
	{ "cable-moved", "cable-moved@%t/1/0", "c1", "", "InfiniBand port: %v on %t: port k of every tray of the rack is on the same leaf", NULL, NULL, "rail", NULL },
	{ "ib-driver", "ib-driver@%t/3", "r3", "", "InfiniBand port: %v on %t: every InfiniBand function has its driver and its IB device", NULL, NULL, NULL, NULL },
	{ "port-key", "port-key@%t/1/0xffff", "k1", "", "InfiniBand partition: %v on %t: no tenant port is a full member of the default partition",
	  "port %t/1 is a full member of the default partition", "infiniband ib0/0x0100", NULL, NULL },
	{ "port-key", "port-key@%t/2/0x8123", "k2", "", "InfiniBand partition: %v on %t: no port is a member of another tenant key",
	  "a port holds key ib0/0x0123 of the managed range", "infiniband ib0/0x0100", NULL, NULL },
	{ "tray-swapped", "tray-swapped@%t", "", "grc", "InfiniBand port: %v on %t: every port is one of the tray that the VM is on", NULL, "infiniband ib0/0x0100", "missing-hca", NULL },
	{ "nvlink-up", "nvlink-down@%t/2/3,nvlink-up@%t/2/3", NULL, NULL, NULL, NULL, NULL, NULL, NULL },
	{ "link-up", "link-down@%t/0,link-up@%t/0", NULL, NULL, NULL, NULL, NULL, NULL, NULL },
	{ "leak-dry", "leak@%t/1,leak-dry@%t/1", NULL, NULL, NULL, NULL, NULL, NULL, NULL },
	{ "imex-up", "imex-down@%t/0,imex-up@%t/0", NULL, NULL, NULL, NULL, NULL, NULL, NULL },
	{ "driver-up", "driver-down@%t/0,driver-up@%t/0", NULL, NULL, NULL, NULL, NULL, NULL, NULL },
	{ "port-clean", "port-key@%t/1/0xffff,port-key@%t/1/0x8123,port-clean@%t/1", NULL, NULL, NULL, NULL, NULL, NULL, NULL },
	{ "trays-exchanged", "trays-exchanged@%t+r1-t04", NULL, NULL, "InfiniBand port: %v on %t: every port is one of|InfiniBand port: a-04 on r1-t04: every port is one of", NULL, NULL, NULL, NULL },
	{ "cables-crossed", "cables-crossed@%t+r1-t04/1", NULL, NULL, NULL, NULL, NULL, NULL, "golden twin-faults: ib check, of more trays" },
	{ "port-errors", "port-errors@%t/1/500", NULL, NULL, NULL, NULL, NULL, NULL, "golden twin-faults: a warning" },
	{ "port-congested", "port-congested@%t/1/900000", NULL, NULL, NULL, NULL, NULL, NULL, "golden twin-faults: ib counters" },
	{ "coolant", "coolant@r1/60/10", NULL, NULL, NULL, NULL, NULL, NULL, "golden twin-faults: power on" },
	{ "gpu-busy", "gpu-busy@%t/0", NULL, NULL, NULL, NULL, NULL, NULL, "test_imex" },
	{ "gpu-idle", "gpu-busy@%t/0,gpu-idle@%t/0", NULL, NULL, NULL, NULL, NULL, NULL, "test_imex" },
	{ "imex-deaf", "imex-deaf@%t/0", NULL, NULL, NULL, NULL, NULL, NULL, "test_imex" },
	{ "boot-hangs", "boot-hangs@%t/0", NULL, NULL, NULL, NULL, NULL, NULL, "test_seal" },
	{ "boot-ends", "boot-hangs@%t/0,boot-ends@%t/0", NULL, NULL, NULL, NULL, NULL, NULL, "test_seal" },
};

static const char *on(const char *text, const char *tray, struct rk_arena *arena)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;

	for (const char *at = text; *at; at++) {
		if (at[0] != '%')
			rk_str_addc(&out, *at);
		else if (*++at == 't')
			rk_str_add(&out, tray);
		else
			rk_str_addf(&out, "a-%s", tray + strlen("r1-t"));
	}
	return rk_arena_strdup(arena, rk_str_text(&out));
}

/* One fault, or two of them, planted in the twin of this process. */
struct planted {
	const struct row *row[2];
	const char *tray[2];
	size_t n;
};

static const char *named(const struct planted *p, struct rk_arena *arena)
{
	const char *first = on(p->row[0]->fault, p->tray[0], arena);

	return p->n < 2 ? first : rk_arena_printf(arena, "%s and %s", first, on(p->row[1]->fault, p->tray[1], arena));
}

static int complain(struct twin *t, const struct planted *p, const char *says)
{
	fprintf(stderr, "%s: %s\n", named(p, t->arena), says);
	return 1;
}

/* Each expected text begins exactly one cause, and there is no other. */
static int wrong_causes(struct twin *t, const struct planted *p)
{
	const struct rk_validate_opts opts = { "deep", "gb300-acceptance", NULL, 0 };
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_report report;
	int vms[VMS] = { 0, 1, 2, 3 };
	size_t wanted = 0;

	if (rk_validate(&t->world, &opts, vms, VMS, t->arena, &report, &err))
		return complain(t, p, err.message);
	for (size_t i = 0; i < p->n; i++) {
		const char *all = p->row[i]->cause ? on(p->row[i]->cause, p->tray[i], t->arena) : "";
		for (const char *at = all; *at; at += strcspn(at, "|"), at += *at == '|', wanted++) {
			const char *pattern = rk_arena_printf(t->arena, "%.*s*", (int)strcspn(at, "|"), at);
			size_t hits = 0;
			for (size_t k = 0; k < report.n_root_causes; k++)
				hits += fnmatch(pattern, report.root_causes[k], 0) == 0;
			if (hits != 1)
				return complain(t, p, rk_arena_printf(t->arena, "%zu causes of %zu are \"%s\"", hits, report.n_root_causes, pattern));
		}
	}
	if (report.n_root_causes != wanted)
		return complain(t, p, rk_arena_printf(t->arena, "blamed, too: %s", report.root_causes[report.n_root_causes - 1]));
	if (!wanted && rk_report_rc(&report, false))
		return complain(t, p, report.verdict);
	return 0;
}

static int wrong_isolation(struct twin *t, const struct planted *p)
{
	const char *breach = p->row[0]->breach ? on(p->row[0]->breach, p->tray[0], t->arena) : NULL;
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_isolation isolation;
	int rc = rk_isolation_verify(&t->world, false, t->arena, &isolation, &err);

	if (rc != (breach ? RK_UNHEALTHY : 0) || isolation.n_violations != (breach != NULL))
		return complain(t, p, rk_arena_printf(t->arena, "isolation is %s, with %zu breaches", isolation.verdict, isolation.n_violations));
	if (breach && !rk_starts_with(isolation.violations[0].what, breach))
		return complain(t, p, isolation.violations[0].what);
	return 0;
}

static int wrong_drift(struct twin *t, const struct planted *p)
{
	struct rk_str seen RK_CLEANUP_STR = RK_STR_INIT;
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_drift *drift;
	size_t n;

	rk_drift(&t->world, NULL, t->arena, &drift, &n, &err);
	for (size_t i = 0; i < n; i++)
		if (strcmp(drift[i].status, "in-sync") != 0)
			rk_str_addf(&seen, "%s%s %s", seen.len ? ", " : "", drift[i].plane, drift[i].object);
	return strcmp(rk_str_text(&seen), p->row[0]->drift ? p->row[0]->drift : "") == 0 ? 0 : complain(t, p, rk_str_text(&seen));
}

static int wrong_wiring(struct twin *t, const struct planted *p)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_topology *topology;
	struct rk_ib_finding *found;
	size_t n;

	if (rk_topology_read(&t->world, 0, &topology, NULL, &err))
		return complain(t, p, err.message);
	rk_topology_check(topology, t->world.site, 0, t->arena, &found, &n);
	rk_topology_free(topology);
	return rk_streq(n ? found[0].kind : NULL, p->row[0]->wiring) ? 0 : complain(t, p, n ? found[0].message : "the wiring is clean");
}

static int wrong_planes(struct twin *t, const struct planted *p)
{
	return wrong_isolation(t, p) || wrong_drift(t, p) || wrong_wiring(t, p);
}

static int plant(struct twin *t, const struct planted *p)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;

	for (size_t i = 0; i < p->n; i++)
		if (rk_sim_fault_add(t->world.sim, on(p->row[i]->fault, p->tray[i], t->arena), &err))
			return complain(t, p, err.message);
	return 0;
}

/* In a copy of this process: the next fault finds a good twin. */
static int failures_of(struct twin *t, const struct planted *p)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		int wrong = plant(t, p) || wrong_causes(t, p) || (p->n == 1 && wrong_planes(t, p));
		_exit(wrong);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void open_cluster(struct twin *t)
{
	twin_open(t, twin_site, false);
	twin_cluster(t, "a", "ta", VMS);
}

static void each_fault_is_found_with_its_cause_and_nothing_else_is_blamed(void **state)
{
	struct twin t;
	int failures = 0;

	(void)state;
	open_cluster(&t);
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++)
		failures += failures_of(&t, &(struct planted){ { &rows[i] }, { two }, 1 });
	assert_int_equal(failures, 0);
	twin_close(&t);
}

static bool hides(const struct row *a, const struct row *b)
{
	return strcmp(a->part, b->part) == 0 || (*b->part && strchr(a->blinds, *b->part)) || (*a->part && strchr(b->blinds, *a->part));
}

static void two_faults_are_both_named_and_no_third(void **state)
{
	struct twin t;
	int failures = 0;

	(void)state;
	open_cluster(&t);
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		for (size_t k = i + 1; rows[i].part && k < RK_ARRAY_SIZE(rows) && rows[k].part; k++) {
			failures += failures_of(&t, &(struct planted){ { &rows[i], &rows[k] }, { two, three }, 2 });
			if (!hides(&rows[i], &rows[k]))
				failures += failures_of(&t, &(struct planted){ { &rows[i], &rows[k] }, { two, two }, 2 });
		}
	}
	assert_int_equal(failures, 0);
	twin_close(&t);
}

static void every_word_has_an_expectation(void **state)
{
	const char *word;

	(void)state;
	for (size_t i = 0; (word = rk_sim_fault_word(i)) != NULL; i++) {
		size_t found = 0;
		for (size_t k = 0; k < RK_ARRAY_SIZE(rows); k++)
			found += strcmp(rows[k].word, word) == 0;
		if (!found)
			fail_msg("no row says what finds %s", word);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_word_has_an_expectation),
		cmocka_unit_test(each_fault_is_found_with_its_cause_and_nothing_else_is_blamed),
		cmocka_unit_test(two_faults_are_both_named_and_no_third),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
