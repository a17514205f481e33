#include <stdio.h>
#include <string.h>

#include "cli/cmds/common.h"
#include "provision/power.h"

static int count_state(const struct rk_site *site, const struct rk_rack *r, enum rk_tray_state a, enum rk_tray_state b)
{
	int n = 0;

	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++) {
		enum rk_tray_state state = rk_tray_state(site, t);
		n += state == a || state == b;
	}
	return n;
}

static const char *rack_state(const struct rk_site *site, const struct rk_rack *r)
{
	int leaks = rk_rack_leaks(site, (int)(r - site->racks));

	if (leaks)
		return leaks >= RK_LEAK_ALARM_TRAYS ? "leak-alarm" : "leak";
	if (r->cordon)
		return "cordoned";
	if (count_state(site, r, RK_TRAY_FAULTY, RK_TRAY_OFFLINE))
		return "degraded";
	return "ok";
}

static void rack_row(struct rk_call *call, int index)
{
	const struct rk_site *site = call->world->site;
	const struct rk_rack *r = &site->racks[index];
	int free = count_state(site, r, RK_TRAY_FREE, RK_TRAY_SPARE), gpus = site->profiles[r->profile].gpus_per_tray;

	rk_out_row(call->out);
	rk_cell_text(call->out, "name", r->name);
	rk_cell_text(call->out, "profile", site->profiles[r->profile].name);
	rk_cell_number(call->out, "trays", r->n_trays);
	rk_cell_number(call->out, "trays_free", free);
	rk_cell_number(call->out, "trays_cordoned", count_state(site, r, RK_TRAY_CORDONED, RK_TRAY_CORDONED));
	rk_cell_number(call->out, "gpus", r->n_trays * gpus);
	rk_cell_number(call->out, "gpus_free", free * gpus);
	rk_cell_text(call->out, "nvlink_domain", r->cluster_uuid);
	rk_cell_real(call->out, "power_kw_budget", r->power_kw);
	rk_cell_real(call->out, "power_kw_committed", rk_power_committed(site, index));
	rk_cell_text(call->out, "state", rack_state(site, r));
}

static int list(struct rk_call *call, struct rk_err *err)
{
	(void)err;
	for (size_t i = 0; i < call->world->site->n_racks; i++)
		rack_row(call, (int)i);
	return 0;
}

static int show(struct rk_call *call, struct rk_err *err)
{
	int rack, rc = rk_get_rack(call, rk_call_arg(call, "RACK"), &rack, err);

	if (!rc)
		rack_row(call, rack);
	return rc;
}

/* One line of a compute tray in the drawing. */
static void draw_tray(struct rk_str *out, const struct rk_site *site, const struct rk_tray *t, int index)
{
	enum rk_tray_state state = rk_tray_state(site, index);
	const char *vm = t->vm >= 0 ? site->vms[t->vm].name : "", *tenant = t->vm >= 0 ? site->tenants[site->clusters[site->vms[t->vm].cluster].tenant].name : "";

	rk_str_addf(out, "| slot %2d  %-10s %-10s %-14s %-14s |\n", t->slot, t->name, rk_tray_state_name(state), vm, tenant);
}

static int tray_at(const struct rk_site *site, const struct rk_rack *r, int u)
{
	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++)
		if (site->profiles[r->profile].u_position[site->trays[t].number - 1] == u)
			return t;
	return RK_NONE;
}

/* "elevation" of the profile: [what, first U, last U] rows. */
static const char *other_at(const struct rk_jnode *elevation, uint64_t u)
{
	RK_JEACH(it, elevation) {
		uint64_t first = 0, last = 0;
		const struct rk_jnode *what = it->child;
		if (!what || !rk_ju64(what->next, &first) || !rk_ju64(what->next->next, &last))
			continue;
		if (u >= first && u <= last)
			return rk_jstr(what);
	}
	return NULL;
}

static int elevation(struct rk_call *call, struct rk_err *err)
{
	static const struct {
		const char *key, *text;
	} names[] = { { "power", "power shelf" }, { "nvswitch", "NVLink switch tray" }, { "mgmt", "management switch" } };
	const struct rk_site *site = call->world->site;
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	uint64_t height = 48;
	int rack, rc = rk_get_rack(call, rk_call_arg(call, "RACK"), &rack, err);

	if (rc)
		return rc;
	const struct rk_rack *r = &site->racks[rack];
	const char *profile = site->profiles[r->profile].json;
	rc = rk_json_parse("profile", profile, strlen(profile), &json, err);
	if (rc)
		return rc;
	rk_ju64(rk_jget(rk_json_root(json), "rackU"), &height);
	rk_str_addf(&out, "rack %s, %s\n", r->name, site->profiles[r->profile].name);
	for (uint64_t u = height; u > 0; u--) {
		int t = tray_at(site, r, (int)u);
		const char *other = other_at(rk_jget(rk_json_root(json), "elevation"), u);
		if (t < 0 && !other)
			continue;
		rk_str_addf(&out, "U%02d ", (int)u);
		if (t >= 0) {
			draw_tray(&out, site, &site->trays[t], t);
			continue;
		}
		for (size_t i = 0; i < RK_ARRAY_SIZE(names); i++)
			if (rk_streq(names[i].key, other))
				rk_str_addf(&out, "| %-62s |\n", names[i].text);
	}
	rk_out_raw(call->out, rk_str_text(&out), out.len);
	return 0;
}

static int set_cordon(struct rk_call *call, const void *data, struct rk_err *err)
{
	bool on = strcmp(call->command->verb, "cordon") == 0;
	const char *reason = rk_call_arg(call, "reason");
	int rack, rc = rk_get_rack(call, rk_call_arg(call, "RACK"), &rack, err);

	(void)data;
	return rc ? rc : rk_store_set_rack_cordon(call->world->store, rk_call_arg(call, "RACK"), on ? (reason ? reason : "no reason given") : NULL, err);
}

static int cordon(struct rk_call *call, struct rk_err *err)
{
	return call->dry_run ? 0 : rk_in_transaction(call, set_cordon, NULL, err);
}

#define COLUMNS                                                                                                                             \
	RK_COLUMNS({ "name", RK_COL_TEXT }, { "profile", RK_COL_TEXT }, { "trays", RK_COL_NUMBER }, { "trays_free", RK_COL_NUMBER },             \
		   { "trays_cordoned", RK_COL_NUMBER }, { "gpus", RK_COL_NUMBER }, { "gpus_free", RK_COL_NUMBER }, { "nvlink_domain", RK_COL_TEXT, .wide = true }, \
		   { "power_kw_budget", RK_COL_REAL }, { "power_kw_committed", RK_COL_REAL }, { "state", RK_COL_TEXT })
#define RACK_ARG { .name = "RACK", .type = RK_ARG_RACK, .required = true, .help = "name of a rack" }

static const struct rk_command rows[] = {
	{ .noun = "rack", .verb = "list", .summary = "list the racks with what is free", .list = true, .columns = COLUMNS, .examples = RK_EXAMPLES("rack list", "rack list -o json"), .run = list },
	{ .noun = "rack", .verb = "show", .summary = "show one rack", .args = RK_ARGS(RACK_ARG), .columns = COLUMNS, .examples = RK_EXAMPLES("rack show r01"), .run = show },
	{ .noun = "rack", .verb = "elevation", .summary = "draw a rack, U by U", .args = RK_ARGS(RACK_ARG), .flags = RK_CMD_RAW, .examples = RK_EXAMPLES("rack elevation r01"), .run = elevation },
	{ .noun = "rack", .verb = "cordon", .summary = "keep new VMs off a rack", .args = RK_ARGS(RACK_ARG), .flags = RK_CMD_CHANGES,
	  .options = RK_ARGS({ .name = "reason", .type = RK_ARG_TEXT, .help = "why; shown wherever the rack is refused" }),
	  .examples = RK_EXAMPLES("rack cordon r01 --reason 'pump work'"), .run = cordon },
	{ .noun = "rack", .verb = "uncordon", .summary = "let new VMs onto a rack again", .args = RK_ARGS(RACK_ARG), .flags = RK_CMD_CHANGES, .examples = RK_EXAMPLES("rack uncordon r01"), .run = cordon },
};
RK_NOUN(rack, "racks: one NVLink domain each", NULL, rows);
