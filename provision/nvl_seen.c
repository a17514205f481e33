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
		rc = rk_vm_run(conn, argv, &result, &err);
	if (rc)
		g->why = rk_xstrdup(err.message ? err.message : "no answer");
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

static void see_gpu(const struct rk_metrics *m, int gpu, const struct rk_nvl_partition *p, const char *uuid, struct rk_arena *arena, struct rk_nvl_seen *s)
{
	char id[16];

	snprintf(id, sizeof(id), "%d", p->id);
	s->gpu = gpu;
	s->state = text_of(m, "gpu.fabric.state", gpu, arena);
	s->status = text_of(m, "gpu.fabric.status", gpu, arena);
	s->clique = text_of(m, "gpu.fabric.clique", gpu, arena);
	s->cluster_uuid = text_of(m, "gpu.fabric.uuid", gpu, arena);
	s->agrees = rk_streq(s->state, "Completed") && rk_streq(s->status, "Success") && rk_streq(s->clique, id) &&
		    (!uuid || (s->cluster_uuid && strcasecmp(s->cluster_uuid, uuid) == 0));
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

/* The first thing that is not as it should be. */
static const char *what_differs(const struct rk_site *site, const struct rk_nvl_seen *s, struct rk_arena *arena)
{
	const struct rk_nvl_partition *p = &site->nvl_partitions[s->partition];
	const char *state = s->state ? s->state : "not told", *status = s->status ? s->status : "not told", *clique = s->clique ? s->clique : "not told";

	if (!rk_streq(s->state, "Completed"))
		return rk_arena_printf(arena, "State %s", state);
	if (!rk_streq(s->status, "Success"))
		return rk_arena_printf(arena, "Status %s", status);
	if (!s->clique || atoi(s->clique) != p->id)
		return rk_arena_printf(arena, "CliqueId %s", clique);
	return rk_arena_printf(arena, "ClusterUUID %s", s->cluster_uuid ? s->cluster_uuid : "not told");
}

void rk_nvl_tally(const struct rk_site *site, const struct rk_nvl_seen *seen, size_t n, int partition, struct rk_arena *arena, struct rk_nvl_tally *ret)
{
	*ret = (struct rk_nvl_tally){ .differ = rk_arena_array(arena, n, sizeof(*ret->differ)), .silent = rk_arena_array(arena, n, sizeof(*ret->silent)) };
	for (size_t i = 0; i < n; i++) {
		const struct rk_nvl_seen *s = &seen[i];
		if (s->partition != partition)
			continue;
		ret->asked += s->gpu != RK_NONE;
		ret->agree += s->gpu != RK_NONE && s->agrees;
		if (s->gpu == RK_NONE) {
			ret->silent[ret->n_silent++] = s->vm;
			ret->why = ret->why ? ret->why : s->why;
		} else if (!s->agrees) {
			ret->differ[ret->n_differ++] = rk_arena_printf(arena, "%s/%d (%s)", s->vm, s->gpu, what_differs(site, s, arena));
		}
	}
}
