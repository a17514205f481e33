/* What all forms of a report share, and the forms that are a few lines: JSON and the map for terminals. */
#include "provision/health/report.h"

#include <stdlib.h>
#include <string.h>

#include "inventory/base/clock.h"
#include "inventory/base/map.h"
#include "inventory/base/nodeset.h"

void rk_report_count(const struct rk_report *report, size_t *ret_passed, size_t *ret_not_judged)
{
	struct rk_map *seen RK_CLEANUP_MAP = rk_map_new();

	*ret_passed = *ret_not_judged = 0;
	/* Rows stand worst first, and those that were not judged last: the first row of a check says what came of it. */
	for (size_t i = 0; i < report->n_checks; i++) {
		const struct rk_check *c = &report->checks[i];
		if (!rk_map_add(seen, c->id, i, NULL) || c->silence)
			continue;
		*ret_passed += strcmp(c->verdict, "pass") == 0;
		*ret_not_judged += strcmp(c->verdict, "skipped") == 0;
	}
}

void rk_report_markup(struct rk_str *out, const char *text)
{
	static const struct {
		char c;
		const char *name;
	} rows[] = { { '&', "&amp;" }, { '<', "&lt;" }, { '>', "&gt;" }, { '"', "&quot;" }, { '\'', "&#39;" } };
	struct rk_str plain RK_CLEANUP_STR = RK_STR_INIT;

	rk_str_add_escaped(&plain, text ? text : "", text ? strlen(text) : 0);
	for (const char *p = rk_str_text(&plain); *p; p++) {
		size_t i = 0;
		while (i < RK_ARRAY_SIZE(rows) && rows[i].c != *p)
			i++;
		if (i < RK_ARRAY_SIZE(rows))
			rk_str_add(out, rows[i].name);
		else
			rk_str_addc(out, *p);
	}
}

static void write_silence(struct rk_jw *w, const struct rk_check *check)
{
	char until[32];

	if (!check->silence) {
		rk_jw_null(w);
		return;
	}
	const char *texts[][2] = { { "verdict", check->silenced }, { "reason", check->silence->reason }, { "by", check->silence->by },
				   { "until", rk_time_iso(check->silence->to_unix_ms, until) } };
	rk_jw_object(w);
	rk_jw_key(w, "id");
	rk_jw_i64(w, check->silence->id);
	for (size_t i = 0; i < RK_ARRAY_SIZE(texts); i++) {
		rk_jw_key(w, texts[i][0]);
		rk_jw_str(w, texts[i][1]);
	}
	rk_jw_end(w);
}

const char *rk_report_silence_text(const struct rk_check *check, struct rk_arena *arena)
{
	char until[32];

	if (!check->silence)
		return NULL;
	return rk_arena_printf(arena, "silenced until %s by %s: %s", rk_time_iso(check->silence->to_unix_ms, until), check->silence->by, check->silence->reason);
}

static void write_check(struct rk_jw *w, const struct rk_check *check)
{
	const char *head[][2] = { { "id", check->id }, { "verdict", check->verdict }, { "severity", check->severity } };
	const char *tail[][2] = { { "folded", check->folded }, { "value", check->value }, { "expected", check->expected }, { "message", check->message },
				  { "hint", check->hint }, { "source", check->source } };

	rk_jw_object(w);
	for (size_t i = 0; i < RK_ARRAY_SIZE(head); i++) {
		rk_jw_key(w, head[i][0]);
		rk_jw_str(w, head[i][1]);
	}
	rk_jw_key(w, "targets");
	rk_jw_array(w);
	for (size_t i = 0; i < check->n_targets; i++)
		rk_jw_str(w, check->targets[i]);
	rk_jw_end(w);
	for (size_t i = 0; i < RK_ARRAY_SIZE(tail); i++) {
		rk_jw_key(w, tail[i][0]);
		rk_jw_str(w, tail[i][1]);
	}
	rk_jw_key(w, "silenced");
	write_silence(w, check);
	rk_jw_end(w);
}

void rk_report_checks_json(struct rk_jw *w, const struct rk_report *report)
{
	rk_jw_array(w);
	for (size_t i = 0; i < report->n_checks; i++)
		write_check(w, &report->checks[i]);
	rk_jw_end(w);
}

void rk_report_trends_json(struct rk_jw *w, const struct rk_report *r)
{
	rk_jw_array(w);
	for (size_t i = 0; i < r->n_trends; i++) {
		const struct rk_trend *t = &r->trends[i];
		const char *texts[][2] = { { "target", t->target }, { "metric", t->metric }, { "label", t->label } };
		rk_jw_object(w);
		for (size_t k = 0; k < RK_ARRAY_SIZE(texts); k++) {
			rk_jw_key(w, texts[k][0]);
			rk_jw_str(w, texts[k][1]);
		}
		rk_jw_key(w, "per_hour");
		rk_jw_array(w);
		for (size_t k = 0; k < t->n; k++)
			rk_jw_double(w, t->per_hour[k]);
		rk_jw_end(w);
		rk_jw_end(w);
	}
	rk_jw_end(w);
}

/* Nothing is guessed: what was not measured is null. */
static void write_energy(struct rk_jw *w, const struct rk_report *r)
{
	const struct {
		const char *key;
		double value;
	} rows[] = { { "seconds", r->energy_seconds }, { "kwh", r->energy_kwh }, { "mean_kw", r->mean_kw }, { "gpu_module_kw", r->module_kw },
		     { "facility_kw", r->facility_kw }, { "pue", r->pue } };

	rk_jw_key(w, "energy");
	rk_jw_object(w);
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		rk_jw_key(w, rows[i].key);
		rk_jw_double(w, rows[i].value);
	}
	rk_jw_end(w);
}

const char *rk_report_trend_text(const struct rk_trend *t, struct rk_arena *arena)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	rk_str_addf(&text, "%s%s%s: %s grows", t->target, *t->label ? " " : "", t->label, t->metric);
	for (size_t i = 0; i < t->n; i++)
		rk_str_addf(&text, "%s %.3g", i ? "," : "", t->per_hour[i]);
	rk_str_add(&text, " per hour");
	return rk_arena_strdup(arena, rk_str_text(&text));
}

void rk_report_json(struct rk_jw *w, const struct rk_report *r)
{
	char started[32];
	const char *head[][2] = { { "verdict", r->verdict }, { "level", r->level }, { "profile", r->profile }, { "started", r->started_ms ? rk_time_iso(r->started_ms, started) : NULL } };

	rk_jw_object(w);
	for (size_t i = 0; i < RK_ARRAY_SIZE(head); i++) {
		rk_jw_key(w, head[i][0]);
		rk_jw_str(w, head[i][1]);
	}
	rk_jw_key(w, "power_kw");
	rk_jw_double(w, r->power_kw);
	write_energy(w, r);
	rk_jw_key(w, "seconds");
	rk_jw_double(w, r->seconds);
	rk_jw_key(w, "targets");
	rk_jw_u64(w, r->targets);
	rk_jw_key(w, "checks");
	rk_report_checks_json(w, r);
	rk_jw_key(w, "root_causes");
	rk_jw_array(w);
	for (size_t i = 0; i < r->n_root_causes; i++)
		rk_jw_str(w, r->root_causes[i]);
	rk_jw_end(w);
	rk_jw_key(w, "trends");
	rk_report_trends_json(w, r);
	rk_jw_end(w);
}

/* "r01-t07" -> 7. */
static int tray_number(const char *name)
{
	const char *t = name ? strrchr(name, '-') : NULL;

	return t && t[1] == 't' ? atoi(t + 2) : 0;
}

static int by_place(const void *a, const void *b)
{
	const struct rk_seat *x = a, *y = b;
	int c = rk_natural_cmp(x->rack, y->rack);

	if (c)
		return c;
	return x->number != y->number ? x->number - y->number : rk_natural_cmp(x->target->name, y->target->name);
}

struct rk_seat *rk_report_seats(const struct rk_report *report, struct rk_arena *arena)
{
	struct rk_map *index RK_CLEANUP_MAP = rk_map_new();
	struct rk_seat *seats = rk_arena_array(arena, report->targets + 1, sizeof(*seats));

	for (size_t i = 0; i < report->targets; i++) {
		const struct rk_target *t = &report->target_list[i];
		seats[i] = (struct rk_seat){ t, t->rack ? t->rack : "", tray_number(t->tray ? t->tray : t->name), "skipped", NULL };
		rk_map_set(index, t->name, i);
	}
	/* Checks stand worst first, so the first one that names a target is its worst. */
	for (size_t c = 0; c < report->n_checks; c++) {
		const struct rk_check *check = &report->checks[c];
		bool pass = strcmp(check->verdict, "pass") == 0, well = !check->silence && (pass || strcmp(check->verdict, "skipped") == 0);
		for (size_t i = 0; i < check->n_targets; i++) {
			size_t at;
			if (!rk_map_get(index, check->targets[i], &at) || seats[at].worst || (well && (!pass || strcmp(check->id, "ssh") == 0)))
				continue;
			seats[at].verdict = check->silence ? "silenced" : check->verdict;
			seats[at].worst = well ? NULL : check->id;
		}
	}
	qsort(seats, report->targets, sizeof(*seats), by_place);
	return seats;
}

const char *rk_report_cordon(const struct rk_report *report, struct rk_arena *arena, const char **ret_checks)
{
	struct rk_map *trays RK_CLEANUP_MAP = rk_map_new(), *seen RK_CLEANUP_MAP = rk_map_new();
	struct rk_str checks RK_CLEANUP_STR = RK_STR_INIT;
	const char **names = rk_arena_array(arena, report->targets + 1, sizeof(*names));
	size_t n = 0, at;

	for (size_t i = 0; i < report->targets; i++)
		rk_map_set(trays, report->target_list[i].name, i);
	for (size_t c = 0; c < report->n_checks; c++) {
		const struct rk_check *check = &report->checks[c];
		if (!check->cordon || strcmp(check->verdict, "fail") != 0)
			continue;
		rk_str_addf(&checks, "%s%s", checks.len ? ", " : "", check->id);
		for (size_t i = 0; i < check->n_targets; i++) {
			const struct rk_target *t = rk_map_get(trays, check->targets[i], &at) ? &report->target_list[at] : NULL;
			if (t && rk_map_add(seen, t->name, 1, NULL))
				names[n++] = t->tray ? t->tray : t->name;
		}
	}
	*ret_checks = rk_arena_strdup(arena, rk_str_text(&checks));
	return n ? rk_nodeset_fold(arena, names, n) : NULL;
}

static char sign(const char *verdict)
{
	static const struct {
		const char *verdict;
		char sign;
	} rows[] = { { "pass", '.' }, { "warn", 'w' }, { "unknown", '?' }, { "fail", 'X' }, { "silenced", 's' } };

	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		if (strcmp(rows[i].verdict, verdict) == 0)
			return rows[i].sign;
	}
	return '-';
}

void rk_report_map(struct rk_str *out, const struct rk_report *report)
{
	enum { SIGNS_MAX = 512 };
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	const struct rk_seat *seats = rk_report_seats(report, arena);

	for (size_t i = 0; i < report->targets;) {
		const char *rack = seats[i].rack;
		int at = 1;
		rk_str_addf(out, "%-8s ", *rack ? rack : "-");
		for (; i < report->targets && strcmp(seats[i].rack, rack) == 0; i++, at++) {
			/* A blank for each tray that was not asked. */
			for (; at < seats[i].number && at < SIGNS_MAX; at++)
				rk_str_addc(out, ' ');
			rk_str_addc(out, sign(seats[i].verdict));
		}
		rk_str_addc(out, '\n');
	}
	rk_str_add(out, "         trays from 1; . pass, w warn, ? unknown, X fail, s silenced, - nothing judged, blank: not asked\n");
}
