#include <stdlib.h>
#include <string.h>

#include "cli/cmds/common.h"
#include "inventory/base/map.h"
#include "inventory/elevation.h"
#include "provision/place.h"
#include "provision/power.h"

enum { FOLD_ABOVE = 24 }; /* rows that fit a small screen */

static int count_state(const struct rk_site *site, const struct rk_rack *r, enum rk_tray_state state)
{
	int n = 0;

	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++)
		n += rk_tray_state(site, t) == state;
	return n;
}

static const char *rack_state(const struct rk_site *site, const struct rk_rack *r)
{
	int leaks = rk_rack_leaks(site, (int)(r - site->racks));

	if (leaks)
		return leaks >= RK_LEAK_ALARM_TRAYS ? "leak-alarm" : "leak";
	if (r->cordon)
		return "cordoned";
	if (count_state(site, r, RK_TRAY_FAULTY) || count_state(site, r, RK_TRAY_OFFLINE))
		return "degraded";
	return "ok";
}

/* room: rk_capacity_rooms. */
static void rack_row(struct rk_call *call, int index, const int *room, const char *name)
{
	const struct rk_site *site = call->world->site;
	const struct rk_rack *r = &site->racks[index];
	int gpus = site->profiles[r->profile].gpus_per_tray;

	rk_out_row(call->out);
	rk_cell_text(call->out, "name", name);
	rk_cell_text(call->out, "profile", site->profiles[r->profile].name);
	rk_cell_number(call->out, "trays", r->n_trays);
	rk_cell_number(call->out, "trays_free", room[index]);
	rk_cell_number(call->out, "trays_cordoned", count_state(site, r, RK_TRAY_CORDONED));
	rk_cell_number(call->out, "gpus", r->n_trays * gpus);
	rk_cell_number(call->out, "gpus_free", room[index] * gpus);
	rk_cell_text(call->out, "nvlink_domain", r->cluster_uuid);
	rk_cell_real(call->out, "power_kw_budget", r->power_kw);
	rk_cell_real(call->out, "power_kw_committed", rk_power_committed(site, index));
	rk_cell_number(call->out, "leaks", rk_rack_leaks(site, index));
	rk_cell_text(call->out, "state", rack_state(site, r));
}

/* Everything that a row says of a rack, but its name. */
static char *key_of(const struct rk_site *site, int rack, const int *room)
{
	const struct rk_rack *r = &site->racks[rack];

	return rk_xasprintf("%d %d %d %d %g %g %d %s", r->profile, r->n_trays, room[rack],
			    count_state(site, r, RK_TRAY_CORDONED), r->power_kw, rk_power_committed(site, rack), rk_rack_leaks(site, rack),
			    rack_state(site, r));
}

/* A site of many racks on one screen: those that are alike share a row. */
static void list_folded(struct rk_call *call, const int *room)
{
	const struct rk_site *site = call->world->site;
	struct rk_map *index RK_CLEANUP_MAP = rk_map_new();
	size_t *group RK_CLEANUP_FREE = rk_xcalloc(site->n_racks, sizeof(*group)), n = 0;
	const char **names RK_CLEANUP_FREE = rk_xcalloc(site->n_racks, sizeof(*names));

	for (size_t i = 0; i < site->n_racks; i++) {
		char *key RK_CLEANUP_FREE = key_of(site, (int)i, room);
		group[i] = n;
		n += rk_map_add(index, key, n, &group[i]);
	}
	for (size_t g = 0; g < n; g++) {
		size_t alike = 0, first = site->n_racks;
		for (size_t i = site->n_racks; i-- > 0;)
			if (group[i] == g) {
				names[alike++] = site->racks[i].name;
				first = i;
			}
		rack_row(call, (int)first, room, rk_nodeset_fold(call->arena, names, alike));
	}
	rk_out_note(call->out, "%zu racks; numbers are those of one rack; -v for a row each", site->n_racks);
}

static int list(struct rk_call *call, struct rk_err *err)
{
	const struct rk_site *site = call->world->site;
	const int *room = rk_capacity_rooms(site, call->arena);

	(void)err;
	if (site->n_racks > FOLD_ABOVE && !call->verbose && call->parsed->globals.format == RK_FORMAT_TABLE) {
		list_folded(call, room);
		return 0;
	}
	for (size_t i = 0; i < site->n_racks; i++)
		rack_row(call, (int)i, room, site->racks[i].name);
	return 0;
}

static int show(struct rk_call *call, struct rk_err *err)
{
	int rack, rc = rk_get_rack(call, rk_call_arg(call, "RACK"), &rack, err);

	if (!rc)
		rack_row(call, rack, rk_capacity_rooms(call->world->site, call->arena), call->world->site->racks[rack].name);
	return rc;
}

static int elevation(struct rk_call *call, struct rk_err *err)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	int rack, rc = rk_get_rack(call, rk_call_arg(call, "RACK"), &rack, err);

	if (rc)
		return rc;
	rk_elevation_draw(call->world->site, rack, rk_call_colour(call), &out);
	rk_out_raw(call->out, rk_str_text(&out), out.len);
	return 0;
}

/* Why a rack is cordoned from here on; NULL: it is not. */
static const char *new_mark(const struct rk_call *call)
{
	const char *reason = rk_call_arg(call, "reason");

	return strcmp(call->command->verb, "cordon") != 0 ? NULL : reason ? reason : "no reason given";
}

static int set_cordon(struct rk_call *call, const void *data, struct rk_err *err)
{
	(void)data;
	return rk_store_set_rack_cordon(call->world->store, rk_call_arg(call, "RACK"), new_mark(call), err);
}

static int cordon(struct rk_call *call, struct rk_err *err)
{
	const char *mark = new_mark(call);
	int rack, rc = rk_get_rack(call, rk_call_arg(call, "RACK"), &rack, err);

	if (!rc)
		rc = rk_in_transaction(call, set_cordon, NULL, err);
	if (rc || !call->dry_run)
		return rc;
	const struct rk_rack *r = &call->world->site->racks[rack];
	rk_out_note(call->out, "would %s rack %s (%d trays)%s%s", call->command->verb, r->name, r->n_trays, mark ? ": " : "", mark ? mark : "");
	return 0;
}

#define COLUMNS                                                                                                                             \
	RK_COLUMNS({ "name", RK_COL_TEXT }, { "profile", RK_COL_TEXT }, { "trays", RK_COL_NUMBER }, { "trays_free", RK_COL_NUMBER },             \
		   { "trays_cordoned", RK_COL_NUMBER }, { "gpus", RK_COL_NUMBER }, { "gpus_free", RK_COL_NUMBER }, { "nvlink_domain", RK_COL_TEXT, .wide = true }, \
		   { "power_kw_budget", RK_COL_REAL }, { "power_kw_committed", RK_COL_REAL }, { "leaks", RK_COL_NUMBER, .wide = true }, { "state", RK_COL_TEXT })
#define FREE "trays_free is what placement may give away now to VMs that take all of a tray, as site show counts it: trays that are healthy, empty, not cordoned, rail-complete " \
	     "and at the versions expected, spares kept, no more than power and cooling allow, none under a leak alarm. tray list shows the state of each."
#define RACK_ARG { .name = "RACK", .type = RK_ARG_RACK, .required = true, .help = "name of a rack" }

static const struct rk_command rows[] = {
	{ .noun = "rack", .verb = "list", .summary = "list the racks with what is free", .list = true, .columns = COLUMNS, .description = FREE, .examples = RK_EXAMPLES("rack list", "rack list -o json"), .run = list },
	{ .noun = "rack", .verb = "show", .summary = "show one rack", .args = RK_ARGS(RACK_ARG), .columns = COLUMNS, .description = FREE, .examples = RK_EXAMPLES("rack show r01"), .run = show },
	{ .noun = "rack", .verb = "elevation", .summary = "draw a rack, U by U, trays coloured by tenant and state", .args = RK_ARGS(RACK_ARG), .flags = RK_CMD_RAW, .examples = RK_EXAMPLES("rack elevation r01"), .run = elevation },
	{ .noun = "rack", .verb = "cordon", .summary = "keep new VMs off a rack", .args = RK_ARGS(RACK_ARG), .flags = RK_CMD_CHANGES | RK_CMD_STAGES,
	  .options = RK_ARGS({ .name = "reason", .type = RK_ARG_TEXT, .help = "why; shown wherever the rack is refused" }),
	  .examples = RK_EXAMPLES("rack cordon r01 --reason 'pump work'"), .run = cordon },
	{ .noun = "rack", .verb = "uncordon", .summary = "let new VMs onto a rack again", .args = RK_ARGS(RACK_ARG), .flags = RK_CMD_CHANGES | RK_CMD_STAGES, .examples = RK_EXAMPLES("rack uncordon r01"), .run = cordon },
};
RK_NOUN(rack, "racks: one NVLink domain each", NULL, rows);
