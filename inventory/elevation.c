#include "inventory/elevation.h"

#include <string.h>

#include "inventory/base/json.h"

enum { HEIGHT_DEFAULT = 48, HEIGHT_MAX = 64, WIDTH = 66 };

static const struct {
	const char *word;
	enum rk_unit_kind kind;
} kinds[] = { { "power", RK_UNIT_POWER }, { "nvswitch", RK_UNIT_NVSWITCH }, { "mgmt", RK_UNIT_MANAGEMENT } };

/* "elevation" of the profile: [what, first U, last U] rows. */
static void place_others(const struct rk_jnode *elevation, struct rk_unit *by_u, int height)
{
	RK_JEACH(it, elevation) {
		uint64_t first = 0, last = 0;
		const struct rk_jnode *what = it->child;
		if (!rk_jstr(what) || !rk_ju64(what->next, &first) || !rk_ju64(what->next->next, &last))
			continue;
		for (size_t k = 0; k < RK_ARRAY_SIZE(kinds); k++)
			for (uint64_t u = first; strcmp(kinds[k].word, what->text) == 0 && u <= last && u <= (uint64_t)height; u++)
				by_u[u].kind = kinds[k].kind;
	}
}

static void place_trays(const struct rk_site *site, const struct rk_rack *r, struct rk_unit *by_u, int height)
{
	const struct rk_profile *p = &site->profiles[r->profile];

	for (int i = 0; i < p->trays && i < (int)RK_ARRAY_SIZE(p->u_position); i++)
		if (p->u_position[i] > 0 && p->u_position[i] <= height)
			by_u[p->u_position[i]] = (struct rk_unit){ .kind = RK_UNIT_ABSENT_TRAY, .tray = RK_NONE, .number = i + 1 };
	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++) {
		int u = p->u_position[site->trays[t].number - 1];
		if (u > 0 && u <= height)
			by_u[u] = (struct rk_unit){ .kind = RK_UNIT_TRAY, .tray = t, .number = site->trays[t].number };
	}
}

void rk_elevation(const struct rk_site *site, int rack, struct rk_arena *arena, struct rk_unit **ret, size_t *ret_n)
{
	const struct rk_rack *r = &site->racks[rack];
	const char *profile = site->profiles[r->profile].json;
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	struct rk_unit by_u[HEIGHT_MAX + 1] = { { 0 } };
	int count[RK_UNIT_MANAGEMENT + 1] = { 0 };
	uint64_t height = HEIGHT_DEFAULT;

	if (!rk_json_parse("profile", profile, strlen(profile), &json, NULL))
		rk_ju64(rk_jget(rk_json_root(json), "rackU"), &height);
	if (height > HEIGHT_MAX)
		height = HEIGHT_MAX;
	for (int u = 0; u <= HEIGHT_MAX; u++)
		by_u[u].tray = RK_NONE;
	if (json)
		place_others(rk_jget(rk_json_root(json), "elevation"), by_u, (int)height);
	place_trays(site, r, by_u, (int)height);
	struct rk_unit *out = rk_arena_array(arena, height, sizeof(*out));
	for (int u = 1; u <= (int)height; u++) {
		by_u[u].u = u;
		if (!by_u[u].number)
			by_u[u].number = ++count[by_u[u].kind];
		out[(int)height - u] = by_u[u];
	}
	*ret = out;
	*ret_n = height;
}

/* ---- as text ---------------------------------------------------------------------------------------------------------------------- */

/* Readable on light and on dark ground; red and magenta are for what is wrong. */
static const char *const tenant_colours[] = { "36", "34", "32", "96", "94", "92" };

static const char *colour_of(const struct rk_site *site, int tray)
{
	const struct rk_tray *t = &site->trays[tray];
	enum rk_tray_state state = rk_tray_state(site, tray);

	if (t->leak || state == RK_TRAY_FAULTY || state == RK_TRAY_OFFLINE)
		return "31";
	if (state == RK_TRAY_CORDONED)
		return "35";
	return t->vm >= 0 ? tenant_colours[(size_t)site->clusters[site->vms[t->vm].cluster].tenant % RK_ARRAY_SIZE(tenant_colours)] : NULL;
}

static void tray_text(const struct rk_site *site, int tray, struct rk_str *out)
{
	const struct rk_tray *t = &site->trays[tray];
	const char *vm = t->vm >= 0 ? site->vms[t->vm].name : "", *tenant = t->vm >= 0 ? site->tenants[site->clusters[site->vms[t->vm].cluster].tenant].name : "";

	rk_str_addf(out, "slot %2d  %-10s %-9s %-14s %-14s %s", t->slot, t->name, rk_tray_state_name(rk_tray_state(site, tray)), vm, tenant, t->leak ? "LEAK" : "");
}

static void unit_text(const struct rk_site *site, const struct rk_unit *unit, struct rk_str *out)
{
	static const char *const names[] = { [RK_UNIT_NVSWITCH] = "NVLink switch", [RK_UNIT_POWER] = "power shelf", [RK_UNIT_MANAGEMENT] = "management switch" };

	if (unit->kind == RK_UNIT_TRAY)
		tray_text(site, unit->tray, out);
	else if (unit->kind == RK_UNIT_ABSENT_TRAY)
		rk_str_addf(out, "tray %d is absent", unit->number);
	else if (unit->kind != RK_UNIT_EMPTY)
		rk_str_addf(out, "%s %d", names[unit->kind], unit->number);
}

static void head(const struct rk_site *site, int rack, struct rk_str *out)
{
	const struct rk_rack *r = &site->racks[rack];
	int leaks = rk_rack_leaks(site, rack);

	rk_str_addf(out, "rack %s, %s%s%s, %.4g kW", r->name, site->profiles[r->profile].name, r->location ? ", " : "", r->location ? r->location : "",
		    r->power_kw);
	if (r->cordon)
		rk_str_addf(out, ", cordoned: %s", r->cordon);
	if (leaks)
		rk_str_addf(out, ", %d tray%s", leaks, leaks == 1 ? " leaks" : "s leak: alarm");
	rk_str_addc(out, '\n');
}

void rk_elevation_draw(const struct rk_site *site, int rack, bool colour, struct rk_str *out)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_unit *units;
	size_t n;

	head(site, rack, out);
	rk_elevation(site, rack, arena, &units, &n);
	for (size_t i = 0; i < n; i++) {
		struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
		const char *sgr = colour && units[i].kind == RK_UNIT_TRAY ? colour_of(site, units[i].tray) : NULL;
		unit_text(site, &units[i], &text);
		rk_str_addf(out, "U%02d | %s%s%s%-*s%s |\n", units[i].u, sgr ? "\033[" : "", sgr ? sgr : "", sgr ? "m" : "", WIDTH, rk_str_text(&text), sgr ? "\033[0m" : "");
	}
}
