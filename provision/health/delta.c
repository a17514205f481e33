/* What only time tells: growth of counters within a run and since the validation before, strikes, silences, trends. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "provision/health/judge.h"

enum { TRENDS_MAX = 40, TREND_RATES = 8, INTERVAL_MS = 600000, HOUR_MS = 3600000 };

/* "rail=0,sample=3" -> 3, and the length of the part before; 0 without a sample. */
static int sample_of(const char *label, size_t *ret_len)
{
	const char *sample = strstr(label, ",sample=");

	*ret_len = sample ? (size_t)(sample - label) : strlen(label);
	return sample ? atoi(sample + 8) : 0;
}

/* The last sample with the same label among those behind `from`; `from` itself when there is no other. */
static const struct rk_metric *last_of(const struct rk_metric *from, const struct rk_metric *end)
{
	const struct rk_metric *last = from;
	size_t len, other;

	sample_of(from->label, &len);
	for (const struct rk_metric *m = from + 1; m < end; m++) {
		if (sample_of(m->label, &other) > 0 && other == len && strncmp(m->label, from->label, len) == 0)
			last = m;
	}
	return last;
}

/* A counter that went back was reset, so what it shows now is the growth. */
static double growth(double before, double now)
{
	return now >= before ? now - before : now;
}

/* A sample from before the boot says nothing: links are trained while a host boots. */
static bool since_boot(const struct rk_target_metrics *t, const struct rk_memory *past)
{
	return t->uptime_s < 0 || (double)past->at_ms >= (double)t->target->at_ms - t->uptime_s * 1000;
}

static double per_ms(const struct rk_rule *rule)
{
	return !rule->per ? 0 : strcmp(rule->per, "minute") == 0 ? 60000 : HOUR_MS;
}

/* Since the newest validation that kept the counter; false when there is none. */
static bool since_before(const struct rk_rule *rule, const struct rk_target_metrics *t, const char *label, double now, double *ret)
{
	double before;

	for (size_t i = 0; i < t->target->n_past && since_boot(t, &t->past[i]); i++) {
		if (!rk_memory_counter(&t->past[i], rule->metric, label, &before))
			continue;
		double units = per_ms(rule) > 0 ? (double)(t->target->at_ms - t->past[i].at_ms) / per_ms(rule) : 1;
		*ret = growth(before, now) / (units > 1 ? units : 1);
		return true;
	}
	return false;
}

/* Within the run: last sample minus first. */
static bool within_run(const struct rk_metric *first, const struct rk_metric *last, double *ret)
{
	*ret = growth(first->number, last->number);
	return last != first;
}

size_t rk_judge_deltas(struct rk_judge *j, const struct rk_rule *rule, const struct rk_target_metrics *t, const struct rk_metric *first, size_t n,
		       struct rk_metric *ret)
{
	bool kept = strcmp(rule->compare, "growth") == 0, again = false;
	size_t count = 0, len;

	for (size_t i = 0; i < n; i++)
		again |= sample_of(first[i].label, &len) > 0;
	for (size_t i = 0; i < n; i++) {
		if (sample_of(first[i].label, &len) != 0)
			continue;
		const struct rk_metric *last = last_of(&first[i], first + n);
		const char *label = rk_arena_strndup(j->arena, first[i].label, len);
		/* Without a value, or with one at the end of its range, the growth is not known. */
		struct rk_metric d = first[i].type == RK_METRIC_ABSENT && !kept ? first[i] : *last;
		bool known = kept ? since_before(rule, t, label, last->number, &d.number) : within_run(&first[i], last, &d.number);
		if (!known && (kept || !again))
			continue;
		/* The others were read once more, this one was not. */
		if (!known && d.type != RK_METRIC_ABSENT)
			d = (struct rk_metric){ .name = d.name, .type = RK_METRIC_ABSENT, .text = "read only once" };
		d.label = label;
		ret[count++] = d;
	}
	return count;
}

bool rk_judge_counts_up(const struct rk_rule *rule)
{
	return strcmp(rule->compare, "delta") == 0 || strcmp(rule->compare, "growth") == 0;
}

/* ---- strikes and silences ----------------------------------------------------------------------------------------------------------- */

static double strikes_before(const struct rk_target_metrics *t, const struct rk_rule *rule)
{
	return t->target->n_past ? rk_memory_strikes(&t->past[0], rule->id) : 0;
}

static void count_strikes(struct rk_judge *j, const struct rk_rule *rule, const struct rk_target_metrics *t, struct rk_outcome *o)
{
	bool bad = o->verdict == RK_V_FAIL || o->verdict == RK_V_WARN;

	/* What could not be judged neither adds nor clears. */
	o->strikes = o->verdict == RK_V_PASS ? 0 : strikes_before(t, rule) + bad;
	if (!bad || o->strikes >= rule->strikes)
		return;
	o->value = rk_arena_printf(j->arena, "%s (strike %.0f of %.0f)", o->value ? o->value : "-", o->strikes, rule->strikes);
	o->verdict = o->verdict == RK_V_FAIL ? RK_V_WARN : RK_V_SKIPPED;
}

void rk_judge_settle(struct rk_judge *j, size_t r)
{
	const struct rk_rule *rule = &j->profile->rules[r];

	for (size_t i = 0; i < j->n; i++) {
		struct rk_outcome *o = rk_outcome_of(j, r, i);
		if (!o->applies)
			continue;
		if (rule->strikes > 0)
			count_strikes(j, rule, &j->targets[i], o);
		o->measured = o->verdict;
		bool counts = o->verdict == RK_V_FAIL || o->verdict == RK_V_WARN || o->verdict == RK_V_UNKNOWN;
		o->silence = counts ? rk_silence_of(j->targets[i].target, rule->id) : NULL;
		if (o->silence)
			o->verdict = RK_V_SKIPPED;
	}
}

/* ---- what is kept --------------------------------------------------------------------------------------------------------------------- */

/* Several rules may look at one counter. */
static bool judged_before(const struct rk_judge *j, size_t rule)
{
	for (size_t r = 0; r < rule; r++) {
		if (rk_judge_counts_up(&j->profile->rules[r]) && strcmp(j->profile->rules[r].metric, j->profile->rules[rule].metric) == 0)
			return true;
	}
	return false;
}

typedef void counter_fn(void *ctx, const char *metric, const char *label, double value);

/* The last sample of every counter of the target. */
static void each_counter(struct rk_judge *j, size_t target, counter_fn *fn, void *ctx)
{
	const struct rk_target_metrics *t = &j->targets[target];
	size_t len;

	for (size_t r = 0; r < j->profile->n_rules; r++) {
		const char *name = j->profile->rules[r].metric;
		if (!rk_judge_counts_up(&j->profile->rules[r]) || judged_before(j, r))
			continue;
		for (size_t e = 0; e < t->target->n_evidence; e++) {
			const struct rk_metric *first = NULL;
			size_t n = rk_metrics_range(&t->of[e], name, &first);
			for (size_t i = 0; i < n; i++) {
				if (sample_of(first[i].label, &len) != 0)
					continue;
				const struct rk_metric *last = last_of(&first[i], first + n);
				if (last->type == RK_METRIC_NUMBER)
					fn(ctx, name, rk_arena_strndup(j->arena, last->label, len), last->number);
			}
		}
	}
}

struct kept {
	struct rk_jw *w;
	size_t n;
};

static void keep_counter(void *ctx, const char *metric, const char *label, double value)
{
	struct kept *k = ctx;
	char *name RK_CLEANUP_FREE = rk_xasprintf("%s{%s}", metric, label);

	rk_jw_key(k->w, name);
	rk_jw_double(k->w, value);
	k->n++;
}

/* Strikes of rules that do not run at this level stay as they were. */
static size_t keep_strikes(const struct rk_judge *j, size_t target, struct rk_jw *w)
{
	size_t changed = 0;

	for (size_t r = 0; r < j->profile->n_rules; r++) {
		const struct rk_rule *rule = &j->profile->rules[r];
		const struct rk_outcome *o = rk_outcome_of(j, r, target);
		double before = strikes_before(&j->targets[target], rule), now = o->applies ? o->strikes : before;
		changed += rule->strikes > 0 && (now > before || now < before);
		if (!(rule->strikes > 0) || !(now > 0))
			continue;
		rk_jw_key(w, rule->id);
		rk_jw_double(w, now);
	}
	return changed;
}

/* NULL when there is nothing that was not known before. */
static const char *memory_of(struct rk_judge *j, size_t target)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_jw w;
	struct kept k = { &w, 0 };

	if (!j->reached[target])
		return NULL;
	rk_jw_init(&w, &text, 0);
	rk_jw_object(&w);
	rk_jw_key(&w, "counters");
	rk_jw_object(&w);
	each_counter(j, target, keep_counter, &k);
	rk_jw_end(&w);
	rk_jw_key(&w, "strikes");
	rk_jw_object(&w);
	size_t changed = keep_strikes(j, target, &w);
	rk_jw_end(&w);
	rk_jw_end(&w);
	return k.n || changed ? rk_arena_strdup(j->arena, rk_str_text(&text)) : NULL;
}

/* ---- trends ------------------------------------------------------------------------------------------------------------------------- */

struct trending {
	struct rk_judge *j;
	struct rk_report *report;
	const struct rk_target_metrics *t;
};

/* Rates of the intervals since the boot, oldest first; validations that follow each other closely are one. */
static size_t rates_of(const struct rk_target_metrics *t, const char *metric, const char *label, double now, double *rates)
{
	double newest_first[TREND_RATES], later = now, value;
	int64_t later_ms = t->target->at_ms;
	size_t n = 0;

	for (size_t i = 0; i < t->target->n_past && n < TREND_RATES && since_boot(t, &t->past[i]); i++) {
		int64_t ms = later_ms - t->past[i].at_ms;
		if (ms < INTERVAL_MS || !rk_memory_counter(&t->past[i], metric, label, &value))
			continue;
		newest_first[n++] = growth(value, later) / ((double)ms / HOUR_MS);
		later = value;
		later_ms = t->past[i].at_ms;
	}
	for (size_t i = 0; i < n; i++)
		rates[i] = newest_first[n - 1 - i];
	return n;
}

static void note_trend(void *ctx, const char *metric, const char *label, double value)
{
	struct trending *x = ctx;
	struct rk_trend trend = { x->t->target->name, metric, label, { 0 }, 0 };

	trend.n = rates_of(x->t, metric, label, value, trend.per_hour);
	if (trend.n < 2 || x->report->n_trends == TRENDS_MAX || !(trend.per_hour[trend.n - 2] > 0) ||
	    trend.per_hour[trend.n - 1] <= trend.per_hour[trend.n - 2])
		return;
	trend.metric = rk_arena_strdup(x->j->arena, metric); /* the report may outlive the profile */
	x->report->trends[x->report->n_trends++] = trend;
}

void rk_judge_remember(struct rk_judge *j, struct rk_report *ret)
{
	ret->memories = rk_arena_array(j->arena, j->n + 1, sizeof(*ret->memories));
	ret->trends = rk_arena_array(j->arena, TRENDS_MAX, sizeof(*ret->trends));
	for (size_t i = 0; i < j->n; i++) {
		struct trending x = { j, ret, &j->targets[i] };
		/* Nobody keeps what was replayed. */
		ret->memories[i] = j->targets[i].target->at_ms ? memory_of(j, i) : NULL;
		if (j->targets[i].target->n_past > 1)
			each_counter(j, i, note_trend, &x);
	}
}
