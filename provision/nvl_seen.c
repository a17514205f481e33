#include "provision/nvl_seen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "provision/health/health.h"

struct guest {
	int vm, partition;
	char *why;                        /* owned; NULL: it answered */
	char *out;                        /* owned */
	size_t out_len;
};
struct asking {
	struct rk_world *world;
	const struct rk_collector *collector;
	struct guest *guests;
};

/* "nvidia-smi -q -x ended with 127: sh: 1: nvidia-smi: not found" */
static char *failure(const struct rk_collector *collector, const struct rk_ssh_result *result)
{
	enum { WORDS_MAX = 200 };
	const char *said = rk_str_text(result->err.len ? &result->err : &result->out);
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	size_t n = strcspn(said, "\n");

	rk_str_addf(&text, result->status < 0 ? "the end of %s is not known" : "%s ended with %d", collector->command, result->status);
	rk_str_add(&text, n ? ": " : "");
	rk_str_add_escaped(&text, said, n < WORDS_MAX ? n : WORDS_MAX);
	return rk_xstrdup(rk_str_text(&text));
}

static void ask(void *ctx, size_t i)
{
	struct asking *a = ctx;
	struct guest *g = &a->guests[i];
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_vm_conn *conn = NULL;
	struct rk_ssh_result result = { .status = -1 };
	const char *const argv[] = { "sh", "-c", a->collector->command, NULL };
	int rc = rk_vm_connect(a->world, g->vm, 0, &conn, &err);

	if (rc == 0)
		rc = rk_vm_run_tied(conn, argv, &result, &err);
	if (rc)
		g->why = rk_xstrdup(err.message ? err.message : "no answer");
	else if (result.status != 0)
		g->why = failure(a->collector, &result);
	else
		g->out = rk_xstrndup(rk_str_text(&result.out), g->out_len = result.out.len);
	rk_ssh_result_clear(&result);
	rk_vm_close(conn);
}

static const char *text_of(const struct rk_metrics *m, const char *name, int gpu, struct rk_arena *arena)
{
	char label[16];

	snprintf(label, sizeof(label), "gpu=%d", gpu);
	const struct rk_metric *metric = rk_metric_find(m, name, label);
	if (!metric || metric->type == RK_METRIC_ABSENT)
		return NULL;
	return metric->type == RK_METRIC_NUMBER ? rk_arena_printf(arena, "%.0f", metric->number) : rk_arena_strdup(arena, metric->text);
}

/* Told and wrong differs; what is not told is not known. */
static void see_gpu(const struct rk_metrics *m, int gpu, const struct rk_nvl_partition *p, const char *uuid, struct rk_arena *arena, struct rk_nvl_seen *s)
{
	const struct rk_metric *count = rk_metric_find(m, "gpu.count", "");

	s->gpu = gpu;
	s->state = text_of(m, "gpu.fabric.state", gpu, arena);
	s->status = text_of(m, "gpu.fabric.status", gpu, arena);
	s->clique = text_of(m, "gpu.fabric.clique", gpu, arena);
	s->cluster_uuid = text_of(m, "gpu.fabric.uuid", gpu, arena);
	const struct { const char *name, *told, *wanted; } rows[] = { { "State", s->state, "Completed" }, { "Status", s->status, "Success" },
								       { "CliqueId", s->clique, rk_arena_printf(arena, "%d", p->id) },
								       { "ClusterUUID", s->cluster_uuid, uuid } };
	if (count && count->type == RK_METRIC_NUMBER && gpu >= count->number)
		s->differs = "the guest does not have it";
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows) && !s->differs; i++) {
		if (rows[i].told && rows[i].wanted && strcasecmp(rows[i].told, rows[i].wanted) != 0)
			s->differs = rk_arena_printf(arena, "%s %s", rows[i].name, rows[i].told);
		else if (!rows[i].told && rows[i].wanted && !s->why)
			s->why = rk_arena_printf(arena, "%s is not told", rows[i].name);
	}
	s->why = s->differs ? NULL : s->why;
	s->agrees = !s->differs && !s->why;
}

static void see_guest(const struct asking *a, const struct guest *g, struct rk_arena *arena, struct rk_nvl_seen *rows, size_t *n)
{
	const struct rk_site *site = a->world->site;
	const struct rk_vm *vm = &site->vms[g->vm];
	const struct rk_nvl_partition *p = &site->nvl_partitions[g->partition];
	struct rk_arena *scratch RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_metrics m = { .arena = scratch };
	const struct rk_evidence e = { .collector = a->collector->name, .out = g->out, .out_len = g->out_len, .err = "", .status = "0" };

	if (g->why) {
		rows[(*n)++] = (struct rk_nvl_seen){ .partition = g->partition, .vm = vm->name, .gpu = RK_NONE, .why = rk_arena_strdup(arena, g->why) };
		return;
	}
	a->collector->parse(&e, &m);
	for (int gpu = 0; gpu < site->trays[vm->tray].n_gpus; gpu++) {
		rows[*n] = (struct rk_nvl_seen){ .partition = g->partition, .vm = vm->name };
		see_gpu(&m, gpu, p, site->racks[p->rack].cluster_uuid, arena, &rows[(*n)++]);
	}
}

/* A VM that is off on purpose has nothing to say. */
static size_t guests_of(const struct rk_site *site, int partition, struct guest *ret)
{
	const struct rk_nvl_partition *p = &site->nvl_partitions[partition];
	const struct rk_cluster *c = &site->clusters[p->cluster];
	size_t n = 0;

	for (int v = c->first_vm; v < c->first_vm + c->n_vms; v++)
		if (site->vms[v].tray >= 0 && site->trays[site->vms[v].tray].rack == p->rack && site->vms[v].state != RK_VM_STOPPED)
			ret[n++] = (struct guest){ .vm = v, .partition = partition };
	return n;
}

void rk_nvl_ask_guests(struct rk_world *world, const int *partitions, size_t n, struct rk_arena *arena, struct rk_nvl_seen **ret, size_t *ret_n)
{
	struct asking a = { .world = world, .collector = rk_collector_find("nvidia-smi-xml"), .guests = rk_arena_array(arena, world->site->n_vms, sizeof(*a.guests)) };
	size_t asked = 0;

	for (size_t i = 0; i < n; i++)
		asked += guests_of(world->site, partitions[i], a.guests + asked);
	rk_fanout(asked, world->jobs, ask, &a);
	*ret = rk_arena_array(arena, asked * RK_GPUS_MAX, sizeof(**ret));
	*ret_n = 0;
	for (size_t i = 0; i < asked; i++) {
		see_guest(&a, &a.guests[i], arena, *ret, ret_n);
		free(a.guests[i].why);
		free(a.guests[i].out);
	}
}

/* Index of the first row of the partition, or of a later one. */
static size_t first_of(const struct rk_nvl_seen *seen, size_t n, int partition)
{
	size_t low = 0;

	for (size_t high = n; low < high;) {
		size_t mid = low + (high - low) / 2;
		if (seen[mid].partition < partition)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

void rk_nvl_tally(const struct rk_nvl_seen *seen, size_t n, int partition, struct rk_arena *arena, struct rk_nvl_tally *ret)
{
	size_t first = first_of(seen, n, partition), end = first_of(seen, n, partition + 1);

	*ret = (struct rk_nvl_tally){ .differ = rk_arena_array(arena, end - first, sizeof(*ret->differ)), .silent = rk_arena_array(arena, end - first, sizeof(*ret->silent)) };
	for (const struct rk_nvl_seen *s = seen + first; s < seen + end; s++) {
		ret->asked += s->gpu != RK_NONE;
		ret->agree += s->agrees;
		if (s->differs) {
			ret->differ[ret->n_differ++] = rk_arena_printf(arena, "%s/%d (%s)", s->vm, s->gpu, s->differs);
		} else if (!s->agrees) {
			ret->silent[ret->n_silent++] = s->gpu == RK_NONE ? s->vm : rk_arena_printf(arena, "%s/%d", s->vm, s->gpu);
			ret->why = ret->why ? ret->why : s->why;
		}
	}
}
