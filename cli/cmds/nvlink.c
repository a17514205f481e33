#include <inttypes.h>
#include <string.h>

#include "cli/cmds/common.h"
#include "cli/cmds/planes.h"
#include "inventory/base/map.h"
#include "provision/nvl_seen.h"

static int gpus_of(const struct rk_site *site, const struct rk_nvl_partition *p)
{
	const struct rk_rack *rack = &site->racks[p->rack];
	int n = 0;

	for (int t = rack->first_tray; t < rack->first_tray + rack->n_trays; t++)
		if (site->trays[t].vm != RK_NONE && site->vms[site->trays[t].vm].cluster == p->cluster)
			n += site->profiles[rack->profile].gpus_per_tray;
	return n;
}

/* What was last read of partitions, by rack and name. */
struct notes {
	struct rk_nvl_note *items;
	size_t n;
	struct rk_map *places;
};
#define CLEANUP_NOTES __attribute__((cleanup(notes_clear)))

static void notes_clear(struct notes *notes)
{
	rk_map_free(notes->places);
}

static int notes_read(struct rk_call *call, struct notes *notes, struct rk_err *err)
{
	int rc = rk_store_nvl_notes(call->world->store, call->arena, &notes->items, &notes->n, err);

	notes->places = rk_map_new();
	for (size_t i = 0; !rc && i < notes->n; i++)
		rk_map_set(notes->places, rk_arena_printf(call->arena, "%s/%s", notes->items[i].rack, notes->items[i].name), i);
	return rc;
}

static const struct rk_nvl_note *note_of(struct rk_call *call, const struct notes *notes, const struct rk_nvl_partition *p)
{
	size_t at;

	return rk_map_get(notes->places, rk_arena_printf(call->arena, "%s/%s", call->world->site->racks[p->rack].name, p->name), &at) ? &notes->items[at] : NULL;
}

static void nvlink_row(struct rk_call *call, const struct rk_nvl_partition *p, long applied)
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
	rk_cell_number(call->out, "gpus", gpus_of(site, p));
	rk_cell_text(call->out, "state", rk_cluster_state_name(c->state));
	rk_cell_number(call->out, "applied", applied);
}

static const char *seen_text(const struct rk_nvl_note *note, struct rk_arena *arena)
{
	return note && note->seen_ms ? rk_arena_printf(arena, "%ld of %ld GPUs", note->seen, note->asked) : NULL;
}

/* Local: what was last read, and when. */
static int nvlink_list(struct rk_call *call, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;
	struct notes notes CLEANUP_NOTES = { NULL, 0, NULL };
	long *applied;
	int rc = notes_read(call, &notes, err);

	if (!rc)
		rc = rk_nvl_applied(call->world, call->arena, &applied, err);
	for (size_t i = 0; !rc && i < site->n_nvl_partitions; i++) {
		const struct rk_nvl_note *note = note_of(call, &notes, &site->nvl_partitions[i]);
		nvlink_row(call, &site->nvl_partitions[i], applied[i]);
		if (!note)
			continue;
		if (note->live >= 0)
			rk_cell_number(call->out, "live", note->live);
		if (note->live_ms)
			rk_cell_time(call->out, "live_at", note->live_ms);
		rk_cell_text(call->out, "seen", seen_text(note, call->arena));
		if (note->seen_ms)
			rk_cell_time(call->out, "seen_at", note->seen_ms);
	}
	return rc;
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

static void seen_cell(struct rk_call *call, const struct rk_nvl_seen *seen, size_t n)
{
	struct rk_jw *w = rk_cell_json(call->out, "seen");

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
		seen[i].agrees || seen[i].differs ? rk_jw_bool(w, seen[i].agrees) : rk_jw_null(w);
		for (size_t k = 0; k < RK_ARRAY_SIZE(pairs); k++) {
			rk_jw_key(w, pairs[k][0]);
			rk_jw_str(w, pairs[k][1]);
		}
		rk_jw_end(w);
	}
	rk_jw_end(w);
}

static void members_cell(struct rk_call *call, const struct rk_nvl_live *mine)
{
	struct rk_jw *w = rk_cell_json(call->out, "members");

	rk_jw_array(w);
	for (size_t g = 0; mine && g < mine->n_gpus; g++)
		rk_jw_hex64(w, mine->gpus[g]);
	rk_jw_end(w);
}

static int note_now(struct rk_call *call, const struct rk_nvl_partition *p, const struct rk_nvl_live *mine, const struct rk_nvl_seen *seen, size_t n, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;
	struct rk_nvl_tally tally;

	rk_nvl_tally(seen, n, (int)(p - site->nvl_partitions), call->arena, &tally);
	const struct rk_nvl_note note = { .rack = site->racks[p->rack].name, .name = p->name, .live = mine ? (long)mine->n_gpus : 0, .seen = tally.agree, .asked = tally.asked };
	return call->world->no_notes ? 0 : rk_store_note_nvl(call->world->store, &note, err);
}

static int nvlink_show(struct rk_call *call, struct rk_err *err)
{
	const struct rk_nvl_partition *p = NULL;
	int rc = nvlink_find(call, rk_call_arg(call, "PARTITION"), &p, err);
	struct rk_nvl_live *live, *mine = NULL;
	long *applied;
	size_t n;

	if (!rc)
		rc = rk_world_drivers(call->world, err);
	if (!rc)
		rc = rk_nvl_applied(call->world, call->arena, &applied, err);
	if (!rc)
		rc = call->world->nvl->ops->list(call->world->nvl, p->rack, call->arena, &live, &n, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++)
		if (rk_nvl_is(&live[i], p->id, p->name))
			mine = &live[i];
	nvlink_row(call, p, applied[p - call->world->site->nvl_partitions]);
	rk_cell_number(call->out, "live", mine ? (long long)mine->n_gpus : 0);
	rk_cell_text(call->out, "health", mine ? mine->health : NULL);
	rk_cell_text(call->out, "resiliency", mine ? mine->resiliency : NULL);
	rk_cell_time(call->out, "at", rk_clock_unix_ms(call->world->env.clock));
	members_cell(call, mine);
	const int partition = (int)(p - call->world->site->nvl_partitions);
	struct rk_nvl_seen *seen;
	size_t n_seen;
	rk_nvl_ask_guests(call->world, &partition, 1, call->arena, &seen, &n_seen);
	seen_cell(call, seen, n_seen);
	return note_now(call, p, mine, seen, n_seen, err);
}

/* What the guests said: now, or when they were last asked. */
static void seen_cells(struct rk_call *call, const struct rk_plane_check *check, const struct notes *notes)
{
	int64_t now = rk_clock_unix_ms(call->world->env.clock);
	const struct rk_nvl_note *note = check->seen || check->partition == RK_NONE ? NULL : note_of(call, notes, &call->world->site->nvl_partitions[check->partition]);

	rk_cell_text(call->out, "applied", check->applied);
	rk_cell_time(call->out, "at", now);
	rk_cell_text(call->out, "seen", check->seen ? check->seen : seen_text(note, call->arena));
	if (check->seen || (note && note->seen_ms))
		rk_cell_time(call->out, "seen_at", check->seen ? now : note->seen_ms);
}

static int nvlink_verify(struct rk_call *call, struct rk_err *err)
{
	struct rk_plane_check *checks = NULL;
	struct notes notes CLEANUP_NOTES = { NULL, 0, NULL };
	size_t n = 0;
	int rc = rk_world_drivers(call->world, err);

	if (!rc)
		rc = notes_read(call, &notes, err);
	if (!rc)
		rc = rk_nvlink_verify(call->world, rk_call_arg(call, "SEL"), rk_call_flag(call, "guests"), call->arena, &checks, &n, err);
	for (size_t i = 0; i < n; i++) {
		rk_plane_row(call, &checks[i]);
		seen_cells(call, &checks[i], &notes);
	}
	return rc;
}

#define NVLINK_COLUMNS                                                                                                                    \
	{ "rack", RK_COL_TEXT }, { "domain", RK_COL_TEXT, .wide = true }, { "partition", RK_COL_NUMBER }, { "name", RK_COL_TEXT }, { "tenant", RK_COL_TEXT }, \
		{ "cluster", RK_COL_TEXT }, { "gpus", RK_COL_NUMBER }, { "state", RK_COL_TEXT }, { "applied", RK_COL_NUMBER }, { "live", RK_COL_NUMBER }

static const struct rk_command nvlink_rows[] = {
	{ .noun = "nvlink", .verb = "list", .summary = "list the NVLink partitions as wanted, applied and last seen", .list = true,
	  .description = "gpus is how many the cluster has in this rack, applied how many operations have put into the partition so far, live how many the switch held and "
			 "seen of how many the guests said that they are in it, when that was last read by nvlink show or nvlink verify. Nothing is read now.",
	  .columns = RK_COLUMNS(NVLINK_COLUMNS, { "live_at", RK_COL_TIME }, { "seen", RK_COL_TEXT }, { "seen_at", RK_COL_TIME }),
	  .examples = RK_EXAMPLES("nvlink list"), .run = nvlink_list },
	{ .noun = "nvlink", .verb = "show", .summary = "show a partition as wanted, as the switch holds it now, and as its guests see it", .flags = RK_CMD_REMOTE | RK_CMD_RECORDS,
	  .description = "gpus is how many the cluster has in this rack, applied how many operations have put there, live how many the switch has in the partition, members "
			 "which. seen is what nvidia-smi says in each guest: State, Status, CliqueId, ClusterUUID, and whether they agree with the partition; a guest that "
			 "does not answer says why. at is when all of this was read.",
	  .args = RK_ARGS({ .name = "PARTITION", .type = RK_ARG_TEXT, .required = true, .help = "RACK/ID" }),
	  .columns = RK_COLUMNS(NVLINK_COLUMNS, { "health", RK_COL_TEXT }, { "resiliency", RK_COL_TEXT }, { "members", RK_COL_JSON },
				{ "seen", RK_COL_JSON, .wide = true }, { "at", RK_COL_TIME, .wide = true }), .run = nvlink_show },
	{ .noun = "nvlink", .verb = "verify", .summary = "compare every partition with what the switches hold now", .flags = RK_CMD_REMOTE | RK_CMD_RECORDS, .list = true,
	  .description = "wanted is what the store says, applied what operations have done, live what the switch held at the time in at. The controller of each domain is "
			 "looked at, too: it is found among the switches of the rack, and one that moved, is down, is not configured, or forgets its configuration with the "
			 "next restart is named as such.\n\n"
			 "With --guests the nvidia-smi of every guest is asked as well, and a GPU that does not see itself in its partition fails; a guest that does not answer, "
			 "whose nvidia-smi fails or that tells too little is unknown. Without it, seen is what the guests said last, at the time in seen_at, and is not judged.",
	  .args = RK_ARGS({ .name = "SEL", .type = RK_ARG_SEL_RACKS, .help = "racks; default all" }),
	  .options = RK_ARGS({ .name = "guests", .type = RK_ARG_NONE, .help = "ask the guests, too" }),
	  .columns = RK_COLUMNS(CHECK_COLUMNS, { "applied", RK_COL_TEXT, .wide = true }, { "seen", RK_COL_TEXT, .wide = true }, { "at", RK_COL_TIME, .wide = true },
				{ "seen_at", RK_COL_TIME, .wide = true }),
	  .examples = RK_EXAMPLES("nvlink verify", "nvlink verify --guests"), .run = nvlink_verify },
};
RK_NOUN(nvlink, "NVLink partitions", NULL, nvlink_rows);
