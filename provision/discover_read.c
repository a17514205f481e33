#include <stdlib.h>
#include <string.h>

#include "provision/discover.h"
#include "provision/drivers/session.h"

/* Everything is asked at once: one job per tray (host, then hypervisor), per rack (switch) and per fabric. */

struct job {
	enum { TRAY, RACK, FABRIC } kind;
	int index;
};
struct reading {
	struct rk_seen *seen;
	struct job *jobs;
};

static const char *why_of(struct rk_arena *arena, const struct rk_err *err)
{
	return rk_arena_strdup(arena, err->message ? err->message : "no answer");
}

/* Runs one command; *ret_why says why its output is not to be had. The caller clears the result. */
static int run(struct rk_host_conn *conn, const char *const *argv, struct rk_ssh_result *result, struct rk_arena *arena, const char **ret_why)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	int rc = rk_host_run(conn, argv, result, &err);

	*ret_why = NULL;
	if (rc)
		*ret_why = why_of(arena, &err);
	else if (result->signal)
		*ret_why = rk_arena_printf(arena, "%s: ended by signal %s", argv[0], result->signal);
	else if (result->status < 0)
		*ret_why = rk_arena_printf(arena, "%s: ended without an exit status", argv[0]);
	else if (result->status)
		*ret_why = rk_arena_printf(arena, "%s: exit %d: %s", argv[0], result->status, rk_first_line(arena, rk_str_text(&result->err)));
	return rc;
}

static void read_host(struct rk_world *world, int index, struct rk_arena *arena, struct rk_seen_tray *tray)
{
	static const char *const smi[] = { "nvidia-smi", "-q", "-x", NULL }, *const facts[] = { "sh", "-c", rk_host_script, NULL };
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_host_conn *conn = NULL;
	struct rk_ssh_result result = { 0 };

	if (rk_host_connect(world, index, &conn, &err)) {
		tray->host_why = why_of(arena, &err);
		return;
	}
	if (run(conn, smi, &result, arena, &tray->smi_why)) {
		tray->host_why = tray->smi_why;
	} else if (!tray->smi_why) {
		rk_seen_parse_smi(rk_str_text(&result.out), result.out.len, arena, tray);
	}
	rk_ssh_result_clear(&result);
	result = (struct rk_ssh_result){ 0 };
	if (!tray->host_why && !run(conn, facts, &result, arena, &tray->sysfs_why) && !tray->sysfs_why)
		rk_seen_parse_host(rk_str_text(&result.out), result.out.len, arena, tray);
	rk_ssh_result_clear(&result);
	rk_host_close(conn);
}

static void read_devices(struct rk_world *world, int index, struct rk_arena *arena, struct rk_seen_tray *tray)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	const char **xml;
	size_t n;

	/* A libvirt without the node device driver (RK_INVALID) just has none to tell. */
	if (world->hv->ops->devices(world->hv, index, arena, &xml, &n, &err))
		return;
	tray->devices = rk_arena_array(arena, n, sizeof(*tray->devices));
	for (size_t i = 0; i < n; i++)
		tray->n_devices += rk_seen_parse_device(xml[i], arena, &tray->devices[tray->n_devices]);
}

static void read_hypervisor(struct rk_world *world, int index, struct rk_arena *arena, struct rk_seen_tray *tray)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;

	if (world->hv->ops->probe(world->hv, index, arena, &tray->caps, &err)) {
		tray->hv_why = why_of(arena, &err);
		return;
	}
	read_devices(world, index, arena, tray);
	if (world->hv->ops->domain_list(world->hv, index, arena, &tray->domains, &tray->n_domains, &err))
		tray->hv_why = why_of(arena, &err);
}

static void read_switches(struct rk_world *world, int index, struct rk_arena *arena, struct rk_seen_rack *rack)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	int rc = world->nvl->ops->switches(world->nvl, index, arena, &rack->switches, &rack->n_switches, &err);

	if (rc && rc != RK_NOT_FOUND)
		rack->switches_why = why_of(arena, &err);
}

static void read_rack(struct rk_world *world, int index, struct rk_arena *arena, struct rk_seen_rack *rack)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_nvl_live *parts;
	size_t n, all = 0;

	if (world->nvl->ops->list(world->nvl, index, arena, &parts, &n, &err)) {
		rack->why = why_of(arena, &err);
		return;
	}
	for (size_t i = 0; i < n; i++)
		all += parts[i].n_gpus;
	rack->places = rk_arena_array(arena, all, sizeof(*rack->places));
	for (size_t i = 0; i < n; i++)
		for (size_t g = 0; g < parts[i].n_gpus; g++)
			rack->places[rack->n++] = parts[i].places ? parts[i].places[g] : (struct rk_nvl_place){ .gpu = parts[i].gpus[g] };
	read_switches(world, index, arena, rack);
}

static void read_fabric(struct rk_world *world, int index, struct rk_arena *arena, struct rk_seen_fabric *fabric)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	const char *text;

	if (world->ib->ops->discover(world->ib, index, arena, &text, &err) ||
	    rk_topology_parse(world->site->fabrics[index].name, text, strlen(text), &fabric->topology, &err))
		fabric->why = why_of(arena, &err);
}

static void read_one(void *ctx, size_t i)
{
	struct reading *r = ctx;
	const struct job *job = &r->jobs[i];
	struct rk_world *world = r->seen->world;
	struct rk_arena *arena = r->seen->arenas[i] = rk_arena_new();

	if (world->cancel && *world->cancel)
		return;
	if (job->kind == RACK) {
		read_rack(world, job->index, arena, &r->seen->racks[job->index]);
	} else if (job->kind == FABRIC) {
		read_fabric(world, job->index, arena, &r->seen->fabrics[job->index]);
	} else {
		read_host(world, job->index, arena, &r->seen->trays[job->index]);
		read_hypervisor(world, job->index, arena, &r->seen->trays[job->index]);
	}
}

static size_t list_jobs(struct rk_seen *seen, const int *trays, size_t n, struct job *jobs)
{
	const struct rk_site *site = seen->site;
	size_t count = 0;

	for (size_t i = 0; i < n; i++) {
		int rack = site->trays[trays[i]].rack;
		seen->trays[trays[i]].asked = true;
		jobs[count++] = (struct job){ TRAY, trays[i] };
		if (seen->racks[rack].asked || !site->racks[rack].nvlink.driver || !site->profiles[site->racks[rack].profile].switch_trays)
			continue;
		seen->racks[rack].asked = true;
		jobs[count++] = (struct job){ RACK, rack };
	}
	for (size_t f = 0; f < site->n_fabrics; f++)
		jobs[count++] = (struct job){ FABRIC, (int)f };
	return count;
}

int rk_seen_read(struct rk_world *world, const int *trays, size_t n, struct rk_seen **ret, struct rk_err *err)
{
	const struct rk_site *site = world->site;
	size_t most = n + site->n_racks + site->n_fabrics;
	struct job *jobs RK_CLEANUP_FREE = rk_xcalloc(most + 1, sizeof(*jobs));
	int rc = rk_world_drivers(world, err);

	if (rc)
		return rc;
	struct rk_seen *seen = rk_xcalloc(1, sizeof(*seen));
	*seen = (struct rk_seen){ .world = world, .site = site };
	seen->trays = rk_xcalloc(site->n_trays + 1, sizeof(*seen->trays));
	seen->racks = rk_xcalloc(site->n_racks + 1, sizeof(*seen->racks));
	seen->fabrics = rk_xcalloc(site->n_fabrics + 1, sizeof(*seen->fabrics));
	seen->n_fabrics = site->n_fabrics;
	seen->arenas = rk_xcalloc(most + 1, sizeof(*seen->arenas));
	seen->n_arenas = list_jobs(seen, trays, n, jobs);
	struct reading r = { seen, jobs };
	rk_fanout(seen->n_arenas, world->jobs, read_one, &r);
	if (world->cancel && *world->cancel) {
		rk_seen_free(seen);
		return rk_err_set(err, RK_CANCELLED, "cancelled; nothing was changed");
	}
	*ret = seen;
	return 0;
}

void rk_seen_free(struct rk_seen *seen)
{
	if (!seen)
		return;
	for (size_t f = 0; f < seen->n_fabrics; f++)
		rk_topology_free(seen->fabrics[f].topology);
	for (size_t i = 0; i < seen->n_arenas; i++)
		rk_arena_free(seen->arenas[i]);
	free(seen->arenas);
	free(seen->trays);
	free(seen->racks);
	free(seen->fabrics);
	free(seen);
}

void rk_cleanup_seen(struct rk_seen **seen)
{
	rk_seen_free(*seen);
}
