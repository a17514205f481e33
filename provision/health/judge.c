/* Evidence and a profile to a report. Pure. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inventory/base/map.h"
#include "inventory/base/str.h"
#include "provision/health/judge.h"
#include "provision/health/parse.h"

static const char *const verdict_names[] = { "skipped", "pass", "warn", "unknown", "fail" };

const char *rk_verdict_name(enum rk_verdict verdict)
{
	return verdict_names[verdict];
}

/* Pointers into one array: equal names stay in the order in which they were found. */
static int by_metric_name(const void *a, const void *b)
{
	const struct rk_metric *x = *(const struct rk_metric *const *)a, *y = *(const struct rk_metric *const *)b;
	int c = strcmp(x->name, y->name);

	return c ? c : (x > y) - (x < y);
}

static void sort_metrics(struct rk_metrics *m)
{
	struct rk_metric **order = rk_xcalloc(m->n + 1, sizeof(*order));
	struct rk_metric *sorted = rk_arena_array(m->arena, m->n + 1, sizeof(*sorted));

	for (size_t i = 0; i < m->n; i++)
		order[i] = &m->items[i];
	qsort(order, m->n, sizeof(*order), by_metric_name);
	for (size_t i = 0; i < m->n; i++)
		sorted[i] = *order[i];
	m->items = sorted;
	free(order);
}

static double uptime_of(const struct rk_target_metrics *t)
{
	const struct rk_metric *m;

	for (size_t i = 0; i < t->target->n_evidence; i++) {
		if (rk_metrics_range(&t->of[i], "host.uptime", &m) && m->type == RK_METRIC_NUMBER)
			return m->number;
	}
	return -1;
}

static void note_shell(enum rk_shell *shell, bool came)
{
	enum rk_shell now = came ? RK_SHELL_ANSWERS : RK_SHELL_SILENT;

	*shell = now > *shell ? now : *shell;
}

/* What does not run at the level is not looked at. */
static void read_target(const struct rk_judge *j, size_t at, const struct rk_target *target, struct rk_arena *arena)
{
	struct rk_target_metrics *t = &j->targets[at];
	const struct rk_texts *level = &j->profile->levels[j->level];

	t->target = target;
	t->of = rk_arena_array(arena, target->n_evidence + 1, sizeof(*t->of));
	t->reason = rk_arena_array(arena, target->n_evidence + 1, sizeof(*t->reason));
	for (size_t i = 0; i < target->n_evidence; i++) {
		const struct rk_evidence *e = &target->evidence[i];
		const struct rk_collector *c = rk_collector_find(e->collector);
		const struct rk_own_collector *own = c ? NULL : rk_hprofile_own(j->profile, e->collector);
		t->of[i].arena = arena;
		t->reason[i] = rk_probe_reason(e, arena);
		bool came = !t->reason[i] || !rk_starts_with(t->reason[i], "unreachable");
		j->reached[at] |= came;
		if (!c || c->command)
			note_shell(&j->shell[at], came);
		/* What a failed probe printed before it failed still counts. */
		if (c && rk_texts_have(level, c->name))
			c->parse(e, &t->of[i]);
		if (own && rk_texts_have(level, e->collector))
			rk_own_parse(own, e, &t->of[i]);
		/* The tools known here exit with all kinds of codes; a site's command has no other word for "it went wrong". */
		if (own && !t->reason[i] && e->status && *e->status && strcmp(e->status, "0") != 0)
			t->reason[i] = rk_arena_printf(arena, "exit code %.8s", e->status);
		if (!t->reason[i] && (e->out_len > RK_PARSE_MAX || t->of[i].full))
			t->reason[i] = "more output than is read";
		sort_metrics(&t->of[i]);
	}
	t->uptime_s = uptime_of(t);
	t->past = rk_arena_array(arena, target->n_past + 1, sizeof(*t->past));
	for (size_t i = 0; i < target->n_past; i++)
		rk_memory_read(&target->past[i], arena, &t->past[i]);
}

struct reading {
	struct rk_judge *j;
	const struct rk_target *targets;
	struct rk_arena **arenas; /* per part: an arena belongs to one thread */
	size_t parts;
};

static void read_part(void *ctx, size_t part)
{
	struct reading *r = ctx;

	for (size_t i = part; i < r->j->n; i += r->parts)
		read_target(r->j, i, &r->targets[i], r->arenas[part]);
}

/* Parsing is most of the work, and targets know nothing of each other. */
static void read_targets(struct rk_judge *j, const struct rk_target *targets)
{
	enum { PARTS_MAX = 16, WORTH_IT = 32 };
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	size_t parts = j->n < WORTH_IT || cpus < 1 ? 1 : cpus < PARTS_MAX ? (size_t)cpus : PARTS_MAX;
	struct rk_arena *arenas[PARTS_MAX];
	struct reading r = { j, targets, arenas, parts };

	for (size_t i = 0; i < parts; i++)
		arenas[i] = rk_arena_new();
	rk_fanout(parts, (int)parts, read_part, &r);
	for (size_t i = 0; i < parts; i++)
		rk_arena_adopt(j->arena, arenas[i]);
	for (size_t i = 0; i < j->n; i++) {
		for (size_t e = 0; e < targets[i].n_evidence; e++)
			j->targets[i].of[e].arena = j->arena;
	}
}

/* Which answers each rule looks at, by number instead of by name. */
static void index_sources(struct rk_judge *j, const struct rk_target *targets)
{
	size_t place;
	unsigned char (*of)[RK_COLLECTORS_MAX] = rk_arena_array(j->arena, j->n + 1, sizeof(*of));

	for (size_t i = 0; i < j->n; i++) {
		for (size_t e = 0; e < targets[i].n_evidence && e < UCHAR_MAX; e++) {
			if (rk_hprofile_collector(j->profile, targets[i].evidence[e].collector, &place))
				of[i][place] = (unsigned char)(e + 1);
		}
	}
	j->evidence_of = (const unsigned char (*)[RK_COLLECTORS_MAX])of;
	j->sources = rk_arena_array(j->arena, j->profile->n_rules + 1, sizeof(*j->sources));
	for (size_t r = 0; r < j->profile->n_rules; r++) {
		const struct rk_texts *names = &j->profile->rules[r].collectors;
		struct rk_source_list *list = &j->sources[r];
		for (size_t c = 0; c < names->n && list->n < RK_ARRAY_SIZE(list->items); c++) {
			if (rk_hprofile_collector(j->profile, names->items[c], &place) && rk_texts_have(&j->profile->levels[j->level], names->items[c]))
				list->items[list->n++] = (unsigned char)place;
		}
	}
}

static void size_domains(struct rk_judge *j)
{
	struct rk_map *sizes RK_CLEANUP_MAP = rk_map_new();

	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < j->n; i++) {
			const struct rk_target *t = j->targets[i].target;
			if (!t->cluster)
				continue;
			const char *key = rk_arena_printf(j->arena, "%s/%s", t->cluster, t->rack ? t->rack : "");
			size_t n = 0;
			rk_map_get(sizes, key, &n);
			if (pass == 0)
				rk_map_set(sizes, key, n + 1);
			else
				j->targets[i].domain_size = (int)n;
		}
	}
}

size_t rk_rule_sources(const struct rk_judge *j, const struct rk_rule *rule, size_t target, const struct rk_metrics **ret, size_t max,
		       const char **ret_reason, enum rk_verdict *ret_verdict)
{
	const struct rk_target_metrics *t = &j->targets[target];
	size_t n = 0;

	*ret_reason = "not run";
	*ret_verdict = RK_V_SKIPPED;
	const struct rk_source_list *list = &j->sources[rule - j->profile->rules];
	for (size_t c = 0; c < list->n && n < max; c++) {
		unsigned at = j->evidence_of[target][list->items[c]];
		const struct rk_metric *first;
		if (!at)
			continue;
		const char *reason = t->reason[at - 1];
		if (!reason || rk_metrics_range(&t->of[at - 1], rule->metric, &first)) {
			ret[n++] = &t->of[at - 1];
			continue;
		}
		bool missing = strcmp(reason, "command missing") == 0 && !rule->required;
		*ret_reason = reason;
		*ret_verdict = missing ? RK_V_SKIPPED : RK_V_UNKNOWN;
	}
	return n;
}

enum { SHOWN_VALUES = 6, SHOWN_LABELS = 8 };

/* Instances with the given verdict, grouped by value. When all instances of the target say the same, their names are left out. */
static const char *fold_values(struct rk_judge *j, const struct rk_instance *x, size_t n, enum rk_verdict verdict)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	bool *done = rk_xcalloc(n + 1, sizeof(*done));
	int values = 0;

	for (size_t i = 0; i < n && values <= SHOWN_VALUES; i++) {
		size_t labels = 0;
		if (done[i] || x[i].verdict != verdict)
			continue;
		if (values++)
			rk_str_add(&text, "; ");
		if (values > SHOWN_VALUES) {
			rk_str_add(&text, "...");
			break;
		}
		size_t before = text.len;
		for (size_t k = i; k < n; k++) {
			if (x[k].verdict != verdict || strcmp(x[k].value, x[i].value) != 0)
				continue;
			done[k] = true;
			if (labels++ < SHOWN_LABELS && *x[k].metric->label)
				rk_str_addf(&text, "%s%s", text.len > before ? " " : "", x[k].metric->label);
		}
		if (labels > SHOWN_LABELS)
			rk_str_addf(&text, " and %zu more", labels - SHOWN_LABELS);
		if (labels == n)
			rk_str_reset(&text);
		rk_str_addf(&text, "%s%s", text.len > before && labels < n ? ": " : "", x[i].value);
	}
	free(done);
	return rk_arena_strdup(j->arena, rk_str_text(&text));
}

static void note_parts(const struct rk_judge *j, size_t target, const struct rk_instance *x, struct rk_outcome *outcome)
{
	if (x->verdict != RK_V_FAIL && x->verdict != RK_V_UNKNOWN)
		return;
	uint64_t part = x->parts ? x->parts : rk_part_of(j, target, x->metric->label);
	outcome->doubt |= part ? part : RK_ALL_PARTS;
	if (x->verdict == RK_V_FAIL)
		outcome->parts |= part;
}

void rk_outcome_fold(struct rk_judge *j, size_t rule, size_t target, const struct rk_instance *x, size_t n)
{
	struct rk_outcome *outcome = rk_outcome_of(j, rule, target);
	enum rk_verdict worst = RK_V_SKIPPED;
	bool first = true;

	for (size_t i = 0; i < n; i++) {
		worst = x[i].verdict > worst ? x[i].verdict : worst;
		note_parts(j, target, &x[i], outcome);
	}
	outcome->verdict = worst;
	outcome->value = fold_values(j, x, n, worst);
	outcome->has_numbers = worst == RK_V_PASS && strncmp(j->profile->rules[rule].compare, "pkey-", 5) != 0;
	for (size_t i = 0; i < n && outcome->has_numbers; i++) {
		if (x[i].verdict != RK_V_PASS)
			continue;
		outcome->has_numbers = x[i].has_number;
		outcome->low = first || x[i].number < outcome->low ? x[i].number : outcome->low;
		outcome->high = first || x[i].number > outcome->high ? x[i].number : outcome->high;
		first = false;
	}
}

static int count_parts(uint64_t parts)
{
	return __builtin_popcountll(parts);
}

/* How many GPUs the instances are about ("gpu=0,link=3"), or ports. */
static size_t count_each(const struct rk_judge *j, const struct rk_rule *rule, size_t n)
{
	struct rk_map *gpus RK_CLEANUP_MAP = rk_map_new();

	if (strcmp(rule->each, "gpus") != 0)
		return n;
	for (size_t i = 0; i < n; i++) {
		const char *label = j->scratch[i].metric->label;
		rk_map_set(gpus, rk_arena_strndup(j->arena, label, strcspn(label, ",")), 1);
	}
	return rk_map_count(gpus);
}

/* What all GPUs or rails should have has to be there for all of them, but for those that are lost. Returns the number of instances. */
static size_t add_missing(struct rk_judge *j, const struct rk_rule *rule, const struct rk_target_metrics *t, uint64_t lost, size_t n)
{
	const struct rk_expect *e = &t->target->expect;
	bool gpus = rule->each && strcmp(rule->each, "gpus") == 0;
	int want = !rule->each ? 0 : (gpus ? e->gpus : e->rails) - count_parts(lost & (gpus ? RK_GPU_PARTS : RK_RAIL_PARTS));

	if (want <= 0 || n == RK_INSTANCES_MAX)
		return n;
	size_t have = count_each(j, rule, n);
	if (have >= (size_t)want)
		return n;
	struct rk_metric *missing = rk_arena_alloc(j->arena, sizeof(*missing));
	*missing = (struct rk_metric){ rule->metric, "", RK_METRIC_ABSENT, 0, rk_arena_printf(j->arena, "of %zu %s only, of %d", have, rule->each, want) };
	j->scratch[n] = (struct rk_instance){ .metric = missing, .verdict = RK_V_UNKNOWN, .value = missing->text };
	return n + 1;
}

void rk_judge_nothing(const struct rk_judge *j, const struct rk_rule *rule, size_t target, const struct rk_metrics *const *sources, size_t n, struct rk_outcome *outcome)
{
	const char *why = NULL;

	for (size_t s = 0; s < n && !why; s++)
		why = rk_says_nothing(&j->targets[target], sources[s], j->arena);
	outcome->verdict = rule->optional && !why ? RK_V_SKIPPED : RK_V_UNKNOWN;
	outcome->value = why ? why : "not in the output";
}

static void block(const struct rk_rule *rule, struct rk_outcome *outcome, struct rk_arena *arena)
{
	outcome->blocked = true;
	outcome->verdict = RK_V_SKIPPED;
	outcome->value = rk_arena_printf(arena, "see %s", rule->after);
}

/* Leaves out what the check before this one found broken already. */
static size_t without(const struct rk_judge *j, size_t target, uint64_t lost, struct rk_instance *x, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t part = lost ? rk_part_of(j, target, x[i].metric->label) : 0;
		if (!lost || (part & ~lost))
			x[kept++] = x[i];
	}
	return kept;
}

static void judge_target(struct rk_judge *j, size_t r, size_t target)
{
	const struct rk_rule *rule = &j->profile->rules[r];
	struct rk_outcome *outcome = rk_outcome_of(j, r, target);
	const struct rk_metrics *sources[RK_SOURCES_MAX];
	size_t n_sources = rk_rule_sources(j, rule, target, sources, RK_ARRAY_SIZE(sources), &outcome->value, &outcome->verdict), found = 0;
	const char *stopped = NULL;

	if (!n_sources)
		return;
	outcome->expected = rk_rule_expected(rule, &j->targets[target], sources[0], j->arena);
	if (!outcome->expected) {
		outcome->verdict = RK_V_SKIPPED;
		outcome->value = "nothing is expected";
		return;
	}
	size_t all = rk_judge_gather(j, rule, target, sources, n_sources, j->scratch), n = without(j, target, outcome->lost, j->scratch, all);
	if (n) {
		n = add_missing(j, rule, &j->targets[target], outcome->lost, n);
		rk_outcome_fold(j, r, target, j->scratch, n);
		const char *warn = outcome->verdict == RK_V_WARN ? rk_rule_expected_warn(rule, &j->targets[target], sources[0], j->arena) : NULL;
		outcome->expected = warn ? warn : outcome->expected;
		return;
	}
	if (outcome->lost) {
		block(rule, outcome, j->arena);
		return;
	}
	for (size_t s = 0; s < n_sources; s++) {
		const struct rk_metric *first;
		found += rk_metrics_range(sources[s], rule->metric, &first);
		stopped = stopped ? stopped : j->targets[target].reason[sources[s] - j->targets[target].of];
	}
	rk_judge_nothing(j, rule, target, sources, n_sources, outcome);
	if (!found || !rk_judge_counts_up(rule))
		return;
	/* The second sample may be what a probe that was stopped did not come to. */
	bool within = strcmp(rule->compare, "delta") == 0;
	outcome->verdict = within && stopped ? RK_V_UNKNOWN : RK_V_SKIPPED;
	outcome->value = !within ? "no earlier validation kept it" : stopped ? stopped : "one sample of a cumulative counter";
}

static const struct rk_outcome *earlier(const struct rk_judge *j, const char *id, size_t target)
{
	for (size_t r = 0; r < j->profile->n_rules; r++) {
		if (strcmp(j->profile->rules[r].id, id) == 0)
			return rk_outcome_of(j, r, target);
	}
	return NULL;
}

static bool compares(const struct rk_rule *rule)
{
	return strcmp(rule->compare, "all-equal") == 0 || strcmp(rule->compare, "outlier") == 0;
}

/* Parts of the target that the check before this one, or one before that, did not pass. */
static uint64_t lost_before(const struct rk_judge *j, const struct rk_rule *rule, size_t target)
{
	const struct rk_outcome *before = rule->after ? earlier(j, rule->after, target) : NULL;

	if (!before || !before->applies)
		return 0;
	bool bad = before->measured == RK_V_FAIL || before->measured == RK_V_UNKNOWN;
	if (before->blocked || (bad && !before->doubt))
		return RK_ALL_PARTS;
	return before->lost | (bad ? before->doubt : 0);
}

/* Does the rule concern this target at all, and is there a reason to skip it? */
static bool applies(struct rk_judge *j, const struct rk_rule *rule, size_t target, struct rk_outcome *outcome)
{
	const struct rk_target_metrics *t = &j->targets[target];

	if (!j->reached[target] || (rule->kind && strcmp(rule->kind, t->target->kind) != 0))
		return false;
	outcome->applies = true;
	outcome->verdict = RK_V_SKIPPED;
	if (rule->when && t->domain_size < 2) {
		outcome->value = "one VM in this domain";
		return false;
	}
	if (rule->grace > 0 && t->uptime_s >= 0 && t->uptime_s < rule->grace * 60) {
		outcome->value = rk_arena_printf(j->arena, "up for %.0f minutes, judged from %g on", floor(t->uptime_s / 60), rule->grace);
		return false;
	}
	outcome->lost = lost_before(j, rule, target);
	if (outcome->lost == RK_ALL_PARTS || (outcome->lost && compares(rule)))
		block(rule, outcome, j->arena);
	return !outcome->blocked;
}

static bool level_has(const struct rk_judge *j, size_t rule)
{
	return j->sources[rule].n > 0 && j->profile->rules[rule].level <= j->level;
}

static void judge_rule(struct rk_judge *j, size_t r)
{
	const struct rk_rule *rule = &j->profile->rules[r];
	bool scoped = compares(rule);

	for (size_t t = 0; t < j->n; t++) {
		struct rk_outcome *outcome = rk_outcome_of(j, r, t);
		bool go = applies(j, rule, t, outcome);
		if (go && !scoped)
			judge_target(j, r, t);
		else if (!go && scoped && outcome->applies)
			outcome->applies = false; /* left out of the comparison */
	}
	if (scoped)
		rk_judge_scope(j, r);
	rk_judge_settle(j, r);
}

/* Sum over all targets; with an unknown part it is unknown. */
static double sum_of(const struct rk_judge *j, const char *metric)
{
	double sum = 0;

	for (size_t i = 0; i < j->n; i++) {
		const struct rk_target_metrics *t = &j->targets[i];
		const struct rk_metric *reading = NULL;
		for (size_t e = 0; e < t->target->n_evidence && !reading; e++) {
			if (!rk_metrics_range(&t->of[e], metric, &reading) || reading->type != RK_METRIC_NUMBER)
				reading = NULL;
		}
		if (!reading)
			return NAN;
		sum += reading->number;
	}
	return sum;
}

/* The mean from energy counters where all have one, else from the readings at both ends. */
static void add_energy(const struct rk_judge *j, struct rk_report *ret)
{
	ret->power_kw = sum_of(j, "power.watts") / 1000;
	ret->module_kw = sum_of(j, "power.module_watts") / 1000;
	ret->energy_seconds = j->n ? sum_of(j, "power.interval_seconds") / (double)j->n : NAN;
	ret->energy_kwh = sum_of(j, "power.interval_kwh");
	ret->mean_kw = isfinite(ret->energy_kwh) && ret->energy_seconds > 0 ? ret->energy_kwh / (ret->energy_seconds / 3600) : sum_of(j, "power.mean_watts") / 1000;
}

int rk_judge(const struct rk_hprofile *profile, const char *level, const struct rk_target *targets, size_t n, struct rk_arena *arena,
	     struct rk_report *ret, struct rk_err *err)
{
	struct rk_judge j = { .profile = profile, .arena = arena, .n = n };
	struct rk_rows rows = { 0 };

	if (!rk_level_parse(level ? level : "quick", &j.level))
		return rk_err_set(err, RK_INVALID, "unknown level \"%s\": quick, standard or deep", level);
	if (!n)
		return rk_err_set(err, RK_INVALID, "nothing to validate: no targets");
	j.targets = rk_arena_array(arena, n, sizeof(*j.targets));
	j.reached = rk_arena_array(arena, n, sizeof(*j.reached));
	j.shell = rk_arena_array(arena, n, sizeof(*j.shell));
	j.outcomes = rk_arena_array(arena, n * (profile->n_rules + 1), sizeof(*j.outcomes));
	read_targets(&j, targets);
	index_sources(&j, targets);
	size_domains(&j);
	memset(ret, 0, sizeof(*ret));
	j.scratch = rk_xcalloc(RK_INSTANCES_MAX, sizeof(*j.scratch));
	rk_judge_reach_rows(&j, &rows);
	for (size_t r = 0; r < profile->n_rules; r++) {
		if (!level_has(&j, r))
			continue;
		judge_rule(&j, r);
		rk_judge_rule_rows(&j, r, &rows);
	}
	rk_judge_probe_rows(&j, &rows);
	rk_judge_finish_rows(&j, &rows, ret);
	rk_judge_remember(&j, ret);
	free(rows.items);
	free(j.scratch);
	ret->level = rk_arena_strdup(arena, level ? level : "quick");
	ret->profile = rk_arena_strdup(arena, profile->name);
	ret->targets = n;
	ret->target_list = targets;
	add_energy(&j, ret);
	ret->facility_kw = ret->pue = NAN;
	rk_judge_causes(&j, ret);
	return 0;
}

int rk_report_rc(const struct rk_report *report, bool strict)
{
	if (strcmp(report->verdict, "fail") == 0)
		return RK_UNHEALTHY;
	if (strcmp(report->verdict, "unknown") == 0)
		return RK_UNREACHABLE;
	return strict && strcmp(report->verdict, "warn") == 0 ? RK_UNHEALTHY : 0;
}
