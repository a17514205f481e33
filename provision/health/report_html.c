/* One self-contained page: no script, no outside file; readable in a dark browser and on paper. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "inventory/base/clock.h"
#include "provision/health/report.h"

static const char style[] =
	":root{color-scheme:light dark;--fg:#1b1f24;--bg:#fff;--dim:#59636e;--line:#d1d9e0;--pass:#1a7f37;--warn:#9a6700;--unknown:#57606a;--fail:#cf222e}\n"
	"@media screen and (prefers-color-scheme:dark){:root{--fg:#e6edf3;--bg:#0d1117;--dim:#9198a1;--line:#3d444d;--pass:#3fb950;--warn:#d29922;--unknown:#9198a1;--fail:#f85149}}\n"
	"body{font:15px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:75rem;margin:2rem auto;padding:0 1rem}\n"
	"h1{font-size:1.5rem;margin:0}h2{font-size:1.15rem;margin:2rem 0 .5rem;border-bottom:1px solid var(--line)}\n"
	".dim{color:var(--dim)}table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;padding:.3rem .6rem;border-bottom:1px solid var(--line)}\n"
	"td{overflow-wrap:anywhere}.where,.id{min-width:9rem}.verdict{min-width:5.5rem}.badge{display:inline-block;padding:0 .6em;border-radius:1em;border:2px solid;font-weight:600}\n"
	".pass{color:var(--pass)}.warn{color:var(--warn)}.unknown,.skipped,.silenced{color:var(--unknown)}.fail{color:var(--fail)}\n"
	".map{width:auto}.map td,.map th{text-align:center;padding:.15rem .35rem;border:1px solid var(--line);min-width:1.6rem}\n"
	".map th:first-child{text-align:left}.map .fail{background:var(--fail);color:var(--bg);font-weight:700}\n"
	".map .warn,.map .unknown{font-weight:700}.map a{color:inherit}summary{cursor:pointer}\n"
	"@media print{body{max-width:none;margin:0;font-size:10pt}:root{--fg:#000;--bg:#fff}details>*{display:block}details::details-content{content-visibility:visible;height:auto}h2{break-after:avoid}tr{break-inside:avoid}.map .fail{border:3px double #000;background:none;color:#000}}\n";

static void cell(struct rk_str *out, const char *kind, const char *text)
{
	rk_str_addf(out, "<td%s>", kind);
	rk_report_markup(out, text && *text ? text : "-");
	rk_str_add(out, "</td>");
}

static void add_pue(struct rk_str *out, const struct rk_report *r)
{
	if (!isfinite(r->pue) && !r->pue_unknown)
		return;
	rk_str_add(out, "<p class=\"dim\">Facility: ");
	if (isfinite(r->facility_kw))
		rk_str_addf(out, "%.1f kW, ", r->facility_kw);
	if (isfinite(r->pue)) {
		rk_str_addf(out, "PUE %.2f</p>\n", r->pue);
		return;
	}
	rk_str_add(out, "PUE unknown: ");
	rk_report_markup(out, r->pue_unknown);
	rk_str_add(out, "</p>\n");
}

static void add_energy(struct rk_str *out, const struct rk_report *r)
{
	if (!isfinite(r->mean_kw)) {
		rk_str_add(out, "<p class=\"dim\">Energy: not known, not every tray was read</p>\n");
		return;
	}
	rk_str_add(out, "<p class=\"dim\">Energy: ");
	if (isfinite(r->energy_kwh))
		rk_str_addf(out, "%.3f kWh in %.0f s, ", r->energy_kwh, r->energy_seconds);
	rk_str_addf(out, "mean %.1f kW", r->mean_kw);
	if (isfinite(r->module_kw))
		rk_str_addf(out, ", GPU modules %.1f kW", r->module_kw);
	rk_str_add(out, "</p>\n");
}

static void add_head(struct rk_str *out, const struct rk_report *r, const struct rk_report_head *head)
{
	char started[32];
	size_t passed, not_judged;
	const char *at = r->started_ms ? rk_time_iso(r->started_ms, started) : "at an unknown time";

	rk_str_add(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\n<title>");
	rk_report_markup(out, head->title);
	rk_str_addf(out, ": %s</title>\n<style>\n%s</style></head><body>\n<h1>", r->verdict, style);
	rk_report_markup(out, head->title);
	rk_str_addf(out, " <span class=\"badge %s\">%s</span></h1>\n<p class=\"dim\">%s %s, level %s, profile ", r->verdict, r->verdict,
		    head->evidence ? "Asked and kept" : "Asked", at, r->level);
	rk_report_markup(out, r->profile);
	rk_str_addf(out, ", %zu targets", r->targets);
	if (!head->evidence)
		rk_str_addf(out, ", %.1f s", r->seconds);
	if (isfinite(r->power_kw))
		rk_str_addf(out, ", trays take %.1f kW", r->power_kw);
	rk_report_count(r, &passed, &not_judged);
	rk_str_addf(out, "</p>\n<p class=\"dim\">%zu checks passed, %zu were not judged</p>\n", passed, not_judged);
	add_energy(out, r);
	add_pue(out, r);
}

static void add_causes(struct rk_str *out, const struct rk_report *r)
{
	if (!r->n_root_causes)
		return;
	rk_str_add(out, "<h2>Root causes, most fundamental first</h2>\n<ol>\n");
	for (size_t i = 0; i < r->n_root_causes; i++) {
		rk_str_add(out, "<li>");
		rk_report_markup(out, r->root_causes[i]);
		rk_str_add(out, "</li>\n");
	}
	rk_str_add(out, "</ol>\n");
}

static const char *sign(const char *verdict)
{
	static const char *const rows[][2] = { { "pass", "&#10003;" }, { "warn", "!" }, { "unknown", "?" }, { "fail", "&#10007;" }, { "silenced", "s" } };

	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		if (strcmp(rows[i][0], verdict) == 0)
			return rows[i][1];
	}
	return "-";
}

/* Of the path, since a name like "2026-11-30T18:24" would be a scheme, and '#' and '?' an end. text: markup. */
static void evidence_link(struct rk_str *out, const char *evidence, const char *target, const char *text)
{
	const char *const parts[] = { evidence, "/", target, "/" };

	rk_str_add(out, "<a href=\"");
	for (size_t i = 0; i < RK_ARRAY_SIZE(parts); i++) {
		for (const char *p = parts[i]; *p; p++)
			rk_str_addf(out, isalnum((unsigned char)*p) || strchr("/._~-", *p) ? "%c" : "%%%02X", (unsigned char)*p);
	}
	rk_str_addf(out, "\">%s</a>", text);
}

static void map_cell(struct rk_str *out, const struct rk_seat *seat, const char *evidence)
{
	rk_str_addf(out, "<td class=\"%s\" title=\"", seat->verdict);
	rk_report_markup(out, seat->target->name);
	rk_str_addf(out, ": %s", seat->verdict);
	if (seat->worst) {
		rk_str_add(out, ", ");
		rk_report_markup(out, seat->worst);
	}
	rk_str_add(out, "\">");
	if (evidence)
		evidence_link(out, evidence, seat->target->name, sign(seat->verdict));
	else
		rk_str_add(out, sign(seat->verdict));
	rk_str_add(out, "</td>");
}

enum { COLUMNS_MAX = 64 };

static void add_map(struct rk_str *out, const struct rk_report *r, const struct rk_report_head *head)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	const struct rk_seat *seats = rk_report_seats(r, arena);
	int columns = 1;

	for (size_t i = 0; i < r->targets; i++)
		columns = seats[i].number > columns && seats[i].number <= COLUMNS_MAX ? seats[i].number : columns;
	rk_str_add(out, "<h2>Racks and trays</h2>\n<table class=\"map\"><tr><th>rack</th>");
	for (int i = 1; i <= columns; i++)
		rk_str_addf(out, "<th>%d</th>", i);
	rk_str_add(out, "</tr>\n");
	for (size_t i = 0; i < r->targets;) {
		const char *rack = seats[i].rack;
		int at = 1;
		rk_str_add(out, "<tr><th>");
		rk_report_markup(out, *rack ? rack : "-");
		rk_str_add(out, "</th>");
		for (; i < r->targets && strcmp(seats[i].rack, rack) == 0; i++, at++) {
			for (; at < seats[i].number && at <= COLUMNS_MAX; at++)
				rk_str_add(out, "<td></td>");
			map_cell(out, &seats[i], head->evidence);
		}
		rk_str_add(out, "</tr>\n");
	}
	rk_str_add(out, "</table>\n<p class=\"dim\">&#10003; pass, ! warn, ? unknown, &#10007; fail, s silenced, - nothing judged, empty: not asked</p>\n");
}

/* The raw answers behind a finding; of many targets the map has them all. */
static void add_evidence(struct rk_str *out, const struct rk_check *c, const char *evidence)
{
	enum { LINKS_MAX = 8 };

	if (!evidence || c->n_targets > LINKS_MAX)
		return;
	rk_str_add(out, "<br><small>evidence: ");
	for (size_t i = 0; i < c->n_targets; i++) {
		rk_str_add(out, i ? ", " : "");
		evidence_link(out, evidence, c->targets[i], c->targets[i]);
	}
	rk_str_add(out, "</small>");
}

static void check_row(struct rk_str *out, const struct rk_check *c, const char *evidence)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	const char *silence = rk_report_silence_text(c, arena);
	char count[32];

	snprintf(count, sizeof(count), " (%zu)", c->n_targets);
	rk_str_addf(out, "<tr><td class=\"verdict %s\">%s%s</td><td class=\"where\">", c->verdict, silence ? "silenced " : "", silence ? c->silenced : c->verdict);
	rk_report_markup(out, c->folded);
	rk_str_add(out, count);
	add_evidence(out, c, evidence);
	rk_str_add(out, "</td>");
	cell(out, " class=\"id\"", c->id);
	cell(out, "", c->value);
	cell(out, "", c->expected);
	cell(out, "", c->source);
	rk_str_add(out, "<td>");
	rk_report_markup(out, c->message);
	if (c->hint) {
		rk_str_add(out, ". <b>");
		rk_report_markup(out, c->hint);
		rk_str_add(out, "</b>");
	}
	if (silence) {
		rk_str_add(out, "<br><i>");
		rk_report_markup(out, silence);
		rk_str_add(out, "</i>");
	}
	rk_str_add(out, "</td></tr>\n");
}

static bool is_well(const struct rk_check *c)
{
	return strcmp(c->verdict, "pass") == 0 || (strcmp(c->verdict, "skipped") == 0 && !c->silence);
}

static void add_trends(struct rk_str *out, const struct rk_report *r)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();

	if (!r->n_trends)
		return;
	rk_str_add(out, "<h2>Counters that grow faster and faster</h2>\n<ul>\n");
	for (size_t i = 0; i < r->n_trends; i++) {
		rk_str_add(out, "<li>");
		rk_report_markup(out, rk_report_trend_text(&r->trends[i], arena));
		rk_str_add(out, "</li>\n");
	}
	rk_str_add(out, "</ul>\n");
}

static void add_checks(struct rk_str *out, const struct rk_report *r, bool well, const char *evidence)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_checks; i++)
		n += is_well(&r->checks[i]) == well;
	if (!n) {
		rk_str_add(out, well ? "" : "<h2>Findings</h2>\n<p>None.</p>\n");
		return;
	}
	rk_str_addf(out, well ? "<h2>Passed, and not judged</h2>\n<details><summary>all %zu lines</summary>\n" : "<h2>Findings, worst first (%zu)</h2>\n", n);
	rk_str_add(out, "<table><tr><th>verdict</th><th>where</th><th>check</th><th>measured</th><th>expected</th><th>threshold from</th><th>wanted, and what to do</th></tr>\n");
	for (size_t i = 0; i < r->n_checks; i++) {
		if (is_well(&r->checks[i]) == well)
			check_row(out, &r->checks[i], well ? NULL : evidence);
	}
	rk_str_addf(out, "</table>%s\n", well ? "</details>" : "");
}

void rk_report_html(struct rk_str *out, const struct rk_report *report, const struct rk_report_head *head)
{
	add_head(out, report, head);
	add_causes(out, report);
	add_map(out, report, head);
	add_checks(out, report, false, head->evidence);
	add_trends(out, report);
	add_checks(out, report, true, NULL);
	rk_str_add(out, "</body></html>\n");
}
