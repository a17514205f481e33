/* The only part of health that touches hosts: one connection per VM, one compound command, outputs between markers with a fresh nonce. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "inventory/base/clock.h"
#include "inventory/base/str.h"
#include "provision/health/collect.h"
#include "provision/health/rules.h"

/* A probe may take a minute, or PATIENCE times as long as it usually does; a target, with its connection, PATIENCE times as long as its probes together
 * usually take, but TARGET_SECONDS at least: one that lets each of them run into its limit must not hold up all. */
enum { PROBE_SECONDS = 60, PATIENCE = 5, TARGET_SECONDS = 180, PROBES_MAX = RK_COLLECTORS_MAX };

/* A second form of the same answer; judged when it is in an evidence folder, not asked for beside the first one. */
static const struct {
	const char *collector, *first;
} second_forms[] = {
	{ "nvidia-smi-q", "nvidia-smi-xml" },
	{ "imex-nodes-text", "imex-nodes" },
};

struct plan {
	const struct rk_collector *probes[PROBES_MAX];
	size_t n;
	char nonce[17];
	struct rk_str script;
	const struct rk_texts *level; /* names of the collectors */
	int estimate, longest;        /* seconds: what all of it usually takes, what one probe may take */
	int total_ms;                 /* what all of it may take */
};

static bool wanted(const struct rk_texts *level, const struct rk_collector *c)
{
	if (!c || !c->command)
		return false;
	for (size_t i = 0; i < RK_ARRAY_SIZE(second_forms); i++) {
		if (strcmp(second_forms[i].collector, c->name) == 0 && rk_texts_have(level, second_forms[i].first))
			return false;
	}
	return true;
}

/* Markers go to both streams. The newline before the end marker ends an unfinished last line; it is taken off again. A probe may load
 * GPUs, so the time limit is enforced on the host; without `timeout` there the limit of the session holds. */
static void add_probe(struct plan *p, const struct rk_collector *c)
{
	struct rk_str quoted RK_CLEANUP_STR = RK_STR_INIT;
	int limit = c->seconds * PATIENCE > PROBE_SECONDS ? c->seconds * PATIENCE : PROBE_SECONDS;

	rk_shell_quote(&quoted, c->command);
	rk_str_addf(&p->script, "m() { printf '%%s\\n' \"$1\"; printf '%%s\\n' \"$1\" >&2; }\nm '@@racksh:%s:begin %s'\n", p->nonce, c->name);
	rk_str_addf(&p->script, "if command -v timeout >/dev/null 2>&1; then timeout %d sh -c %s; else sh -c %s; fi </dev/null\nrc=$?\n",
		    limit, rk_str_text(&quoted), rk_str_text(&quoted));
	rk_str_addf(&p->script, "printf '\\n'; printf '\\n' >&2; m \"@@racksh:%s:end %s $rc\"\n", p->nonce, c->name);
	p->estimate += c->seconds ? c->seconds : 1;
	p->longest = limit > p->longest ? limit : p->longest;
}

static int make_plan(const struct rk_hprofile *profile, const char *level, int total_ms, struct plan *p, struct rk_err *err)
{
	enum rk_level at;
	uint64_t random;

	if (!rk_level_parse(level, &at))
		return rk_err_set(err, RK_INVALID, "unknown level \"%s\": quick, standard or deep", level);
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return rk_err_set(err, RK_FAILED, "cannot get random bytes for the markers");
	snprintf(p->nonce, sizeof(p->nonce), "%016llx", (unsigned long long)random);
	rk_str_add(&p->script, "export LC_ALL=C LANG=C\n");
	const struct rk_texts *names = p->level = &profile->levels[at];
	size_t place;
	for (size_t i = 0; i < names->n && p->n < PROBES_MAX; i++) {
		const struct rk_collector *c = rk_hprofile_collector(profile, names->items[i], &place);
		if (!wanted(names, c))
			continue;
		p->probes[p->n++] = c;
		add_probe(p, c);
	}
	int seconds = p->estimate * PATIENCE > TARGET_SECONDS ? p->estimate * PATIENCE : TARGET_SECONDS;
	p->total_ms = total_ms ? total_ms : seconds * 1000;
	return 0;
}

bool rk_collect_section(const char *nonce, const struct rk_str *stream, const char *name, struct rk_arena *arena, const char **ret, size_t *ret_len,
			const char **ret_status)
{
	const char *begin_mark = rk_arena_printf(arena, "@@racksh:%s:begin %s\n", nonce, name);
	const char *end_mark = rk_arena_printf(arena, "\n@@racksh:%s:end %s ", nonce, name);
	const char *text = rk_str_text(stream), *end = text + stream->len;
	const char *begin = memmem(text, stream->len, begin_mark, strlen(begin_mark));

	*ret_status = NULL;
	if (!begin)
		return false;
	begin += strlen(begin_mark);
	const char *stop = memmem(begin, (size_t)(end - begin), end_mark, strlen(end_mark));
	if (stop) {
		const char *status = stop + strlen(end_mark);
		size_t n = 0;
		while (status + n < end && status[n] >= '0' && status[n] <= '9' && n < 4)
			n++;
		/* Cut short, it is another number or none. */
		if (n && status + n < end && status[n] == '\n')
			*ret_status = rk_arena_strndup(arena, status, n);
	}
	*ret_len = (size_t)((stop ? stop : end) - begin);
	char *copy = rk_arena_alloc(arena, *ret_len + 1);
	memcpy(copy, begin, *ret_len);
	*ret = copy;
	return true;
}

static void add_evidence(struct rk_target *t, const char *collector, const char *status, const char *text, struct rk_arena *arena)
{
	struct rk_evidence *e = &t->evidence[t->n_evidence++];

	*e = (struct rk_evidence){ .collector = collector, .out = "", .err = rk_arena_strdup(arena, text ? text : ""), .status = status };
	e->err_len = strlen(e->err);
}

static void split_answer(const struct plan *p, const struct rk_ssh_result *result, struct rk_arena *arena, struct rk_target *t)
{
	for (size_t i = 0; i < p->n; i++) {
		struct rk_evidence e = { .collector = p->probes[i]->name, .out = "", .err = "" };
		const char *err_status;
		if (!rk_collect_section(p->nonce, &result->out, e.collector, arena, &e.out, &e.out_len, &e.status)) {
			add_evidence(t, e.collector, "timeout", "the session ended before this probe", arena);
			continue;
		}
		rk_collect_section(p->nonce, &result->err, e.collector, arena, &e.err, &e.err_len, &err_status);
		if (!e.status || strcmp(e.status, "124") == 0)
			e.status = "timeout";
		t->evidence[t->n_evidence++] = e;
	}
}

static void unreachable(const struct plan *p, const struct rk_err *err, struct rk_arena *arena, struct rk_target *t)
{
	t->n_evidence = 0;
	for (size_t i = 0; i < p->n; i++)
		add_evidence(t, p->probes[i]->name, "unreachable", err->message, arena);
}

/* The twin answers tools, not scripts: each probe alone. */
static int ask_twin(const struct plan *p, struct rk_vm_conn *conn, struct rk_arena *arena, struct rk_target *t, struct rk_err *err)
{
	for (size_t i = 0; i < p->n; i++) {
		struct rk_ssh_result result = { .status = -1 };
		const char *argv[] = { "sh", "-c", p->probes[i]->command, NULL };
		int rc = rk_vm_run(conn, argv, &result, err);
		if (rc) {
			rk_ssh_result_clear(&result);
			return rc;
		}
		struct rk_evidence *e = &t->evidence[t->n_evidence++];
		e->collector = p->probes[i]->name;
		e->out = rk_arena_strndup(arena, rk_str_text(&result.out), result.out.len);
		e->out_len = strlen(e->out);
		e->err = rk_arena_strndup(arena, rk_str_text(&result.err), result.err.len);
		e->err_len = strlen(e->err);
		e->status = rk_arena_printf(arena, "%d", result.status);
		rk_ssh_result_clear(&result);
	}
	return 0;
}

static int ask_vm(const struct plan *p, struct rk_vm_conn *conn, struct rk_arena *arena, struct rk_target *t, struct rk_err *err)
{
	enum { SLACK = 30 };
	const char *argv[] = { "sh", "-c", rk_str_text(&p->script), NULL };
	struct rk_ssh_result result = { .status = -1 };
	rk_vm_limit(conn, (p->longest + SLACK) * 1000, p->total_ms);
	int rc = rk_vm_run_tied(conn, argv, &result, err);

	/* Even when the session broke, what came before counts. */
	if (!rc || result.out.len)
		split_answer(p, &result, arena, t);
	rk_ssh_result_clear(&result);
	return t->n_evidence ? 0 : rc;
}

struct job {
	struct rk_world *world;
	const struct plan *plan;
	const int *vms;
	struct rk_target *targets;
	struct rk_arena **arenas; /* per VM: an arena belongs to one thread */
	size_t n;
	atomic_size_t done;
};

enum { PROGRESS_FROM = 20 };

/* Every tenth part of a long run. */
static void progress(struct job *job)
{
	size_t done = atomic_fetch_add(&job->done, 1) + 1, step = job->n / 10;
	char text[64];

	if (!job->world->progress || job->n < PROGRESS_FROM || done % step)
		return;
	snprintf(text, sizeof(text), "%zu of %zu targets have answered", done, job->n);
	job->world->progress(job->world->progress_ctx, text);
}

static void collect_one(void *ctx, size_t i)
{
	struct job *job = ctx;
	struct rk_target *t = &job->targets[i];
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_vm_conn *conn = NULL;

	int rc = rk_vm_connect(job->world, job->vms[i], job->plan->total_ms, &conn, &err);
	if (!rc)
		rc = job->world->sim ? ask_twin(job->plan, conn, job->arenas[i], t, &err) : ask_vm(job->plan, conn, job->arenas[i], t, &err);
	if (rc)
		unreachable(job->plan, &err, job->arenas[i], t);
	rk_vm_close(conn);
	progress(job);
}

static void fill_expect(const struct rk_site *site, const struct rk_vm *vm, struct rk_expect *e)
{
	const struct rk_tray *tray = &site->trays[vm->tray];
	const struct rk_rack *rack = &site->racks[tray->rack];
	const struct rk_cluster *cluster = &site->clusters[vm->cluster];

	for (int i = 0; i < cluster->n_nvl; i++) {
		const struct rk_nvl_partition *part = &site->nvl_partitions[cluster->first_nvl + i];
		if (part->rack == tray->rack)
			e->nvlink_partition = part->id;
	}
	e->cluster_uuid = rack->cluster_uuid;
	e->gpus = tray->n_gpus;
	e->rails = tray->n_hcas;
	for (int i = 0; i < tray->n_hcas && i < RK_RAILS_MAX; i++) {
		const struct rk_hca *hca = &site->hcas[tray->first_hca + i];
		if (!hca->port_guid)
			continue;
		e->leaves[e->n_port_guids] = hca->leaf;
		e->leaf_ports[e->n_port_guids] = hca->leaf_port;
		e->port_guids[e->n_port_guids++] = hca->port_guid;
	}
	/* A part of them would make faults of the others. */
	if (e->n_port_guids < (size_t)tray->n_hcas)
		e->n_port_guids = 0;
	e->rate_gbps = site->profiles[rack->profile].rate_gbps;
	if (tray->n_hcas && site->hcas[tray->first_hca].fabric >= 0 && site->fabrics[site->hcas[tray->first_hca].fabric].rate_gbps)
		e->rate_gbps = site->fabrics[site->hcas[tray->first_hca].fabric].rate_gbps;
	e->no_pkeys = cluster->ib < 0;
	if (cluster->ib < 0)
		return;
	e->pkeys[e->n_pkeys++] = site->ib_partitions[cluster->ib].pkey;
	e->pkey_limited = !site->ib_partitions[cluster->ib].full;
	for (size_t i = 0; i < site->n_ib_services; i++)
		if (tray->n_hcas && rk_ib_service_has(site, &site->ib_services[i], tray->first_hca) && e->n_services < RK_ARRAY_SIZE(e->services))
			e->services[e->n_services++] = site->ib_services[i].pkey;
}

static void describe(const struct rk_site *site, int vm_at, size_t n_probes, struct rk_arena *arena, struct rk_target *t)
{
	const struct rk_vm *vm = &site->vms[vm_at];
	const struct rk_tray *tray = &site->trays[vm->tray];

	*t = (struct rk_target){ .name = vm->name, .kind = "vm", .rack = site->racks[tray->rack].name, .cluster = site->clusters[vm->cluster].name,
				 .tray = tray->name, .address = vm->address };
	t->evidence = rk_arena_array(arena, n_probes + RK_COLLECT_MORE, sizeof(*t->evidence));
	fill_expect(site, vm, &t->expect);
}

/* End of the run of VMs of one cluster that begins at `from`. */
static size_t same_cluster(const struct rk_site *site, const int *vms, size_t from, size_t n)
{
	size_t end = from;

	while (end < n && site->vms[vms[end]].cluster == site->vms[vms[from]].cluster)
		end++;
	return end;
}

/* What needs several targets stays within a cluster: isolation keeps others apart, and nobody logs into the VM of another tenant. One cluster after
 * another: they may share a way through the fabric. */
static void measure_together(struct rk_world *world, const struct rk_texts *level, const int *vms, size_t n, struct rk_arena *arena, struct rk_target *targets)
{
	size_t end;

	for (size_t from = 0; from < n; from = end) {
		end = same_cluster(world->site, vms, from, n);
		if (rk_texts_have(level, "ib-write-bw"))
			rk_collect_pairs(world, vms + from, end - from, arena, targets + from);
		rk_collect_nccl(world, level, vms + from, end - from, arena, targets + from);
	}
}

static int seconds_together(const struct rk_world *world, const struct rk_texts *level, const int *vms, size_t n, const struct rk_target *targets)
{
	int seconds = 0;
	size_t end;

	for (size_t from = 0; from < n; from = end) {
		int rails = 0;
		end = same_cluster(world->site, vms, from, n);
		for (size_t i = from; i < end; i++)
			rails = targets[i].expect.rails > rails ? targets[i].expect.rails : rails;
		seconds += rk_nccl_seconds(level, targets + from, end - from, world->jobs);
		seconds += rk_texts_have(level, "ib-write-bw") ? rk_pairs_seconds(end - from, rails, world->jobs) : 0;
	}
	return seconds;
}

/* VMs of one cluster side by side, else in the order in which they were given. */
static const int *by_cluster(const struct rk_site *site, const int *vms, size_t n, struct rk_arena *arena)
{
	int *sorted = rk_arena_array(arena, n + 1, sizeof(*sorted));
	size_t *places = rk_arena_array(arena, site->n_clusters + 1, sizeof(*places));

	for (size_t i = 0; i < n; i++)
		places[site->vms[vms[i]].cluster + 1]++;
	for (size_t c = 1; c < site->n_clusters; c++)
		places[c] += places[c - 1];
	for (size_t i = 0; i < n; i++)
		sorted[places[site->vms[vms[i]].cluster]++] = vms[i];
	return sorted;
}

/* Measurements take minutes: say how many before they begin. Those of one target run one after another, and on all targets at once; those that need
 * several targets come after them, kind after kind, so that none disturbs another. */
static void announce(struct rk_world *world, const struct plan *plan, const int *vms, const struct rk_target *targets, size_t n)
{
	enum { WORTH_SAYING = 60 };
	size_t turns = rk_turns(n, world->jobs);
	int together = seconds_together(world, plan->level, vms, n, targets);
	char text[96];

	if (!world->progress || world->sim || plan->estimate + together < WORTH_SAYING)
		return;
	snprintf(text, sizeof(text), "measuring %zu targets takes about %zu minutes", n, (turns * (size_t)plan->estimate + (size_t)together + 59) / 60);
	world->progress(world->progress_ctx, text);
}

int rk_collect(struct rk_world *world, const struct rk_hprofile *profile, const char *level, int total_ms, const int *vms, size_t n,
	       struct rk_arena *arena, struct rk_target **ret, struct rk_err *err)
{
	struct plan plan = { .n = 0 };
	int rc = make_plan(profile, level ? level : "quick", total_ms, &plan, err);

	if (rc)
		return rc;
	vms = by_cluster(world->site, vms, n, arena);
	struct job job = { world, &plan, vms, rk_arena_array(arena, n + 1, sizeof(struct rk_target)), rk_xcalloc(n + 1, sizeof(struct rk_arena *)), n, 0 };
	for (size_t i = 0; i < n; i++) {
		describe(world->site, vms[i], plan.n, arena, &job.targets[i]);
		job.targets[i].at_ms = rk_clock_unix_ms(NULL);
		job.arenas[i] = rk_arena_new();
	}
	announce(world, &plan, vms, job.targets, n);
	struct rk_meters *meters = rk_collect_meters(world, plan.level, vms, n, arena);
	rk_fanout(n, world->jobs > 0 ? world->jobs : 64, collect_one, &job);
	for (size_t i = 0; i < n; i++)
		rk_arena_adopt(arena, job.arenas[i]);
	free(job.arenas);
	measure_together(world, plan.level, vms, n, arena, job.targets);
	rk_collect_bmc(world, plan.level, vms, n, meters, arena, job.targets);
	rk_str_clear(&plan.script);
	*ret = job.targets;
	return rk_health_recall(world, job.targets, n, arena, err);
}
