/* Outcomes to the rows of a report: one per check, verdict and value; passing targets share one row whatever their values. */
#include <stdlib.h>
#include <string.h>

#include "inventory/base/map.h"
#include "inventory/base/nodeset.h"
#include "inventory/base/str.h"
#include "provision/health/judge.h"

struct list {
	const char **items;
	size_t n, cap;
	double low, high;
	bool mixed_value, mixed_expected, numbers;
};
struct lists {
	struct list *items;
	size_t n, cap;
};

static const char *range_text(struct rk_arena *arena, double low, double high)
{
	return low < high ? rk_arena_printf(arena, "%.6g..%.6g", low, high) : rk_arena_printf(arena, "%.6g", low);
}

static void add_to_row(const struct rk_rule *rule, const struct rk_outcome *o, const char *target, struct rk_map *keys, struct rk_rows *rows,
		       struct lists *lists, struct rk_arena *arena)
{
	bool pass = o->verdict == RK_V_PASS;
	const char *key = pass ? "pass" : rk_arena_printf(arena, "%d|%d|%lld|%s|%s", o->verdict, o->measured, o->silence ? (long long)o->silence->id : 0,
							  o->value ? o->value : "", o->expected ? o->expected : "");
	size_t at;

	if (!rk_map_get(keys, key, &at)) {
		at = rows->n;
		rk_map_set(keys, key, at);
		*(struct rk_check *)rk_vec_push(rows) = (struct rk_check){ .verdict = rk_verdict_name(o->verdict), .value = o->value, .expected = o->expected,
			/* The report may outlive the profile. */
			.id = rk_arena_strdup(arena, rule->id), .severity = rk_arena_strdup(arena, rule->severity),
			.message = rk_arena_strdup(arena, rule->message), .source = rk_arena_strdup(arena, rule->source),
			.cordon = rk_streq(rule->effect, "cordon"), .silence = o->silence, .silenced = o->silence ? rk_verdict_name(o->measured) : NULL,
			.hint = pass || (o->verdict == RK_V_SKIPPED && !o->silence) ? NULL : rk_arena_strdup(arena, rule->hint) };
		*(struct list *)rk_vec_push(lists) = (struct list){ .low = o->low, .high = o->high, .numbers = o->has_numbers };
	}
	struct list *l = &lists->items[at];
	*rk_vec_push(l) = target;
	l->mixed_value |= !rk_streq(rows->items[at].value, o->value);
	l->mixed_expected |= !rk_streq(rows->items[at].expected, o->expected);
	l->numbers &= o->has_numbers;
	l->low = o->low < l->low ? o->low : l->low;
	l->high = o->high > l->high ? o->high : l->high;
}

static void finish_rows(struct rk_rows *rows, struct lists *lists, struct rk_arena *arena, size_t from)
{
	for (size_t i = 0; i < lists->n; i++) {
		struct list *l = &lists->items[i];
		struct rk_check *c = &rows->items[from + i];
		c->targets = rk_arena_array(arena, l->n + 1, sizeof(*c->targets));
		memcpy(c->targets, l->items, l->n * sizeof(*c->targets));
		c->n_targets = l->n;
		c->folded = rk_nodeset_fold(arena, c->targets, c->n_targets);
		if (l->numbers)
			c->value = range_text(arena, l->low, l->high);
		else if (l->mixed_value)
			c->value = NULL;
		if (l->mixed_expected)
			c->expected = NULL;
		free(l->items);
	}
	free(lists->items);
}

/* What is said of a target; false: nothing. */
typedef bool says(struct rk_judge *j, size_t target, const struct rk_rule *rule, struct rk_outcome *ret);

static void rows_of(struct rk_judge *j, const struct rk_rule *rule, says *say, struct rk_rows *all)
{
	struct rk_map *keys RK_CLEANUP_MAP = rk_map_new();
	struct rk_rows rows = { 0 };
	struct lists lists = { 0 };
	struct rk_outcome o;

	for (size_t t = 0; t < j->n; t++)
		if (say(j, t, rule, &o))
			add_to_row(rule, &o, j->targets[t].target->name, keys, &rows, &lists, j->arena);
	finish_rows(&rows, &lists, j->arena, 0);
	for (size_t i = 0; i < rows.n; i++)
		*rk_vec_push(all) = rows.items[i];
	free(rows.items);
}

static bool by_rule(struct rk_judge *j, size_t target, const struct rk_rule *rule, struct rk_outcome *ret)
{
	*ret = *rk_outcome_of(j, (size_t)(rule - j->profile->rules), target);
	return ret->applies;
}

void rk_judge_rule_rows(struct rk_judge *j, size_t r, struct rk_rows *all)
{
	rows_of(j, &j->profile->rules[r], by_rule, all);
}

/* Of a check that is no rule of the profile. */
static void silence(struct rk_judge *j, size_t target, const struct rk_rule *rule, struct rk_outcome *o)
{
	o->measured = o->verdict;
	o->silence = o->verdict == RK_V_UNKNOWN ? rk_silence_of(j->targets[target].target, rule->id) : NULL;
	if (o->silence)
		o->verdict = RK_V_SKIPPED;
}

/* Why a target brought nothing. */
static const char *why_silent(struct rk_judge *j, size_t target)
{
	const struct rk_target_metrics *t = &j->targets[target];
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	size_t i = 0;

	while (i < t->target->n_evidence && (!t->reason[i] || !rk_starts_with(t->reason[i], "unreachable")))
		i++;
	if (i == t->target->n_evidence)
		return "no evidence";
	const struct rk_evidence *e = &t->target->evidence[i];
	if (strcmp(t->reason[i], "unreachable") != 0)
		return t->reason[i];
	if (!e->err_len)
		return "unreachable";
	rk_str_add(&text, "unreachable: ");
	rk_str_add_escaped(&text, e->err, e->err_len < 200 ? e->err_len : 200);
	return rk_arena_strdup(j->arena, rk_str_text(&text));
}

/* A target that nobody asked, but about which something is known, has no answer to wait for. */
static struct rk_outcome reach_of(struct rk_judge *j, size_t target)
{
	if (j->shell[target] == RK_SHELL_ANSWERS)
		return (struct rk_outcome){ .verdict = RK_V_PASS, .value = "answers", .expected = "answers" };
	if (j->shell[target] == RK_SHELL_NOT_ASKED && j->reached[target])
		return (struct rk_outcome){ .verdict = RK_V_SKIPPED, .value = "nothing was asked of its shell", .expected = "answers" };
	return (struct rk_outcome){ .verdict = RK_V_UNKNOWN, .value = why_silent(j, target), .expected = "answers" };
}

static bool by_reach(struct rk_judge *j, size_t target, const struct rk_rule *rule, struct rk_outcome *ret)
{
	*ret = reach_of(j, target);
	silence(j, target, rule, ret);
	return true;
}

/* Targets that brought nothing are unknown. */
void rk_judge_reach_rows(struct rk_judge *j, struct rk_rows *all)
{
	static const struct rk_rule rule = { .id = "ssh", .severity = "critical", .message = "the target answers",
					     .hint = "check the VM, its address and its host key" };

	rows_of(j, &rule, by_reach, all);
}

/* Of a collector at the level: what some check says of the target that it did not answer, or that nobody minds. */
static bool is_minded(const struct rk_judge *j, size_t target, const char *collector, bool missing)
{
	bool used = false;

	for (size_t r = 0; r < j->profile->n_rules; r++) {
		const struct rk_rule *rule = &j->profile->rules[r];
		const struct rk_outcome *o = rk_outcome_of(j, r, target);
		if (j->sources[r].n == 0 || rule->level > j->level || !rk_texts_have(&rule->collectors, collector) || (missing && !rule->required))
			continue;
		used = true;
		if (o->applies && o->verdict != RK_V_PASS && o->verdict != RK_V_SKIPPED)
			return true;
	}
	return !used;
}

/* The probes that were run and could not look, and which no check misses because another tool told the same; NULL when there are none. */
static const char *unminded(const struct rk_judge *j, size_t target)
{
	const struct rk_target_metrics *t = &j->targets[target];
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	for (size_t i = 0; i < t->target->n_evidence; i++) {
		const char *reason = t->reason[i], *collector = t->target->evidence[i].collector;
		if (!reason || t->of[i].n || strcmp(reason, "file missing") == 0 || !rk_texts_have(&j->profile->levels[j->level], collector) ||
		    is_minded(j, target, collector, strcmp(reason, "command missing") == 0))
			continue;
		rk_str_addf(&text, "%s%s: %s", text.len ? "; " : "", collector, reason);
	}
	return text.len ? rk_arena_strdup(j->arena, rk_str_text(&text)) : NULL;
}

static bool by_probes(struct rk_judge *j, size_t target, const struct rk_rule *rule, struct rk_outcome *ret)
{
	const char *value = j->shell[target] == RK_SHELL_ANSWERS ? unminded(j, target) : NULL;

	*ret = (struct rk_outcome){ .verdict = RK_V_UNKNOWN, .value = value, .expected = "an answer" };
	silence(j, target, rule, ret);
	return value != NULL;
}

void rk_judge_probe_rows(struct rk_judge *j, struct rk_rows *all)
{
	static const struct rk_rule rule = { .id = "probes", .severity = "error", .message = "every probe could look",
					     .hint = "another tool tells the same; find out why this one does not" };

	rows_of(j, &rule, by_probes, all);
}

/* Silenced findings come after those that count, and before what is well. */
static int row_rank(const struct rk_check *check)
{
	static const char *const order[] = { "fail", "unknown", "warn", "silenced", "pass", "skipped" };
	const char *word = check->silence ? "silenced" : check->verdict;

	for (int i = 0; i < (int)RK_ARRAY_SIZE(order); i++) {
		if (strcmp(order[i], word) == 0)
			return i;
	}
	return (int)RK_ARRAY_SIZE(order);
}

static void sort_rows(const struct rk_rows *rows, const struct rk_judge *j, struct rk_report *ret)
{
	ret->checks = rk_arena_array(j->arena, rows->n + 1, sizeof(*ret->checks));
	for (int rank = 0; rank <= 6; rank++) {
		for (size_t i = 0; i < rows->n; i++) {
			if (row_rank(&rows->items[i]) == rank)
				ret->checks[ret->n_checks++] = rows->items[i];
		}
	}
}

/* fail > unknown > warn > pass; nothing judged at all is not known. The reach row counts only when it is bad: an answer is no measurement. */
static const char *overall(const struct rk_report *report)
{
	static const char *const words[] = { "fail", "unknown", "warn", "pass" };
	size_t worst = RK_ARRAY_SIZE(words);

	for (size_t i = 0; i < report->n_checks; i++) {
		const struct rk_check *c = &report->checks[i];
		if (strcmp(c->id, "ssh") == 0 && strcmp(c->verdict, "pass") == 0)
			continue;
		for (size_t w = 0; w < worst; w++) {
			if (strcmp(words[w], c->verdict) == 0)
				worst = w;
		}
	}
	return worst < RK_ARRAY_SIZE(words) ? words[worst] : "unknown";
}

void rk_judge_finish_rows(const struct rk_judge *j, const struct rk_rows *rows, struct rk_report *ret)
{
	sort_rows(rows, j, ret);
	ret->verdict = overall(ret);
}
