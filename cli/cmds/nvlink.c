#include <inttypes.h>
#include <string.h>

#include "cli/cmds/common.h"
#include "cli/cmds/planes.h"
#include "provision/nvl_seen.h"

static int members_of(const struct rk_site *site, int cluster, int rack)
{
	int n = 0;

	for (size_t v = 0; v < site->n_vms; v++)
		n += site->vms[v].cluster == cluster && site->vms[v].tray >= 0 && (rack < 0 || site->trays[site->vms[v].tray].rack == rack);
	return n;
}

static void nvlink_row(struct rk_call *call, const struct rk_nvl_partition *p)
{
	const struct rk_site *site = call->world->site;
	const struct rk_rack *rack = &site->racks[p->rack];
	const struct rk_cluster *c = &site->clusters[p->cluster];

	rk_out_row(call->out);
	rk_cell_text(call->out, "rack", rack->name);
	rk_cell_text(call->out, "domain", rack->cluster_uuid);
	rk_cell_number(call->out, "partition", p->id);
	rk_cell_text(call->out, "name", p->name);
	rk_cell_text(call->out, "tenant", site->tenants[c->tenant].name);
	rk_cell_text(call->out, "cluster", c->name);
	rk_cell_number(call->out, "gpus", members_of(site, p->cluster, p->rack) * site->profiles[rack->profile].gpus_per_tray);
	rk_cell_text(call->out, "state", rk_cluster_state_name(c->state));
}

static int nvlink_list(struct rk_call *call, struct rk_err *err)
{
	(void)err;
	for (size_t i = 0; i < call->world->site->n_nvl_partitions; i++)
		nvlink_row(call, &call->world->site->nvl_partitions[i]);
	return 0;
}

/* RACK/ID, or an ID that fits one domain only. */
static int nvlink_find(struct rk_call *call, const char *text, const struct rk_nvl_partition **ret, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;
	const char *slash = strchr(text, '/');
	uint64_t id;
	size_t found = 0;

	if (!rk_parse_u64(slash ? slash + 1 : text, &id))
		return rk_err_set(err, RK_INVALID, "\"%s\" is no partition: write RACK/ID", text);
	for (size_t i = 0; i < site->n_nvl_partitions; i++) {
		const struct rk_nvl_partition *p = &site->nvl_partitions[i];
		const char *rack = site->racks[p->rack].name;
		if ((uint64_t)p->id != id || (slash && (strncmp(rack, text, (size_t)(slash - text)) != 0 || rack[slash - text])))
			continue;
		if (found++)
			rk_err_detail(err, "%s/%d", rack, p->id);
		*ret = p;
	}
	if (found == 1)
		return 0;
	if (!found)
		return rk_err_set(err, RK_NOT_FOUND, "no NVLink partition \"%s\"", text);
	return rk_err_set(err, RK_INVALID, "partition %s is in %zu domains: write RACK/ID", text, found);
}

static void seen_cell(struct rk_call *call, const struct rk_nvl_partition *p)
{
	struct rk_nvl_seen *seen;
	size_t n;
	struct rk_jw *w = rk_cell_json(call->out, "seen");

	rk_nvl_ask_guests(call->world, (int)(p - call->world->site->nvl_partitions), call->arena, &seen, &n);
	rk_jw_array(w);
	for (size_t i = 0; i < n; i++) {
		const char *const pairs[][2] = { { "state", seen[i].state }, { "status", seen[i].status }, { "clique", seen[i].clique },
						 { "cluster_uuid", seen[i].cluster_uuid }, { "why", seen[i].why } };
		rk_jw_object(w);
		rk_jw_key(w, "vm");
		rk_jw_str(w, seen[i].vm);
		rk_jw_key(w, "gpu");
		seen[i].gpu == RK_NONE ? rk_jw_null(w) : rk_jw_i64(w, seen[i].gpu);
		rk_jw_key(w, "agrees");
		seen[i].gpu == RK_NONE ? rk_jw_null(w) : rk_jw_bool(w, seen[i].agrees);
		for (size_t k = 0; k < RK_ARRAY_SIZE(pairs); k++) {
			rk_jw_key(w, pairs[k][0]);
			rk_jw_str(w, pairs[k][1]);
		}
		rk_jw_end(w);
	}
	rk_jw_end(w);
}

static int nvlink_show(struct rk_call *call, struct rk_err *err)
{
	const struct rk_nvl_partition *p = NULL;
	int rc = nvlink_find(call, rk_call_arg(call, "PARTITION"), &p, err);
	struct rk_nvl_live *live, *mine = NULL;
	size_t n;

	if (!rc)
		rc = rk_world_drivers(call->world, err);
	if (!rc)
		rc = call->world->nvl->ops->list(call->world->nvl, p->rack, call->arena, &live, &n, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++)
		if (live[i].id == p->id)
			mine = &live[i];
	nvlink_row(call, p);
	rk_cell_number(call->out, "live", mine ? (long long)mine->n_gpus : 0);
	rk_cell_text(call->out, "health", mine ? mine->health : NULL);
	rk_cell_text(call->out, "resiliency", mine ? mine->resiliency : NULL);
	rk_cell_time(call->out, "at", rk_clock_unix_ms(call->world->env.clock));
	struct rk_jw *w = rk_cell_json(call->out, "members");
	rk_jw_array(w);
	for (size_t g = 0; mine && g < mine->n_gpus; g++)
		rk_jw_hex64(w, mine->gpus[g]);
	rk_jw_end(w);
	seen_cell(call, p);
	return 0;
}

static int nvlink_verify(struct rk_call *call, struct rk_err *err)
{
	struct rk_plane_check *checks = NULL;
	size_t n = 0;
	int rc = rk_world_drivers(call->world, err);

	if (!rc)
		rc = rk_nvlink_verify(call->world, rk_call_arg(call, "SEL"), call->arena, &checks, &n, err);
	rk_plane_rows(call, checks, n);
	return rc;
}

#define NVLINK_COLUMNS                                                                                                                    \
	{ "rack", RK_COL_TEXT }, { "domain", RK_COL_TEXT, .wide = true }, { "partition", RK_COL_NUMBER }, { "name", RK_COL_TEXT }, { "tenant", RK_COL_TEXT }, \
		{ "cluster", RK_COL_TEXT }, { "gpus", RK_COL_NUMBER }, { "state", RK_COL_TEXT }

static const struct rk_command nvlink_rows[] = {
	{ .noun = "nvlink", .verb = "list", .summary = "list the NVLink partitions", .list = true, .columns = RK_COLUMNS(NVLINK_COLUMNS), .examples = RK_EXAMPLES("nvlink list"), .run = nvlink_list },
	{ .noun = "nvlink", .verb = "show", .summary = "show a partition as wanted, as the switch holds it now, and as its guests see it", .flags = RK_CMD_REMOTE,
	  .description = "gpus is how many the cluster has in this rack, live how many the switch has in the partition, members which. seen is what nvidia-smi says in each "
			 "guest: State, Status, CliqueId, ClusterUUID, and whether they agree with the partition; a guest that does not answer says why.",
	  .args = RK_ARGS({ .name = "PARTITION", .type = RK_ARG_TEXT, .required = true, .help = "RACK/ID" }),
	  .columns = RK_COLUMNS(NVLINK_COLUMNS, { "live", RK_COL_NUMBER }, { "health", RK_COL_TEXT }, { "resiliency", RK_COL_TEXT }, { "members", RK_COL_JSON },
				{ "seen", RK_COL_JSON, .wide = true }, { "at", RK_COL_TIME, .wide = true }), .run = nvlink_show },
	{ .noun = "nvlink", .verb = "verify", .summary = "compare every partition with what the switches hold now", .flags = RK_CMD_REMOTE, .list = true,
	  .args = RK_ARGS({ .name = "SEL", .type = RK_ARG_SEL_RACKS, .help = "racks; default all" }), .columns = CHECK_COLUMNS,
	  .examples = RK_EXAMPLES("nvlink verify"), .run = nvlink_verify },
};
RK_NOUN(nvlink, "NVLink partitions", NULL, nvlink_rows);
