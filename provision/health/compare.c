/* One instance of a metric against one rule. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "inventory/base/str.h"
#include "provision/health/parse.h"
#include "provision/health/rules.h"

static int by_name(const void *key, const void *item)
{
	return strcmp(key, ((const struct rk_metric *)item)->name);
}

size_t rk_metrics_range(const struct rk_metrics *m, const char *name, const struct rk_metric **ret_first)
{
	const struct rk_metric *hit = m->n ? bsearch(name, m->items, m->n, sizeof(*m->items), by_name) : NULL;

	if (!hit)
		return 0;
	const struct rk_metric *first = hit, *end = hit + 1;
	while (first > m->items && strcmp(first[-1].name, name) == 0)
		first--;
	while (end < m->items + m->n && strcmp(end->name, name) == 0)
		end++;
	*ret_first = first;
	return (size_t)(end - first);
}

static const char *number_text(struct rk_arena *arena, double v)
{
	return v == floor(v) && fabs(v) < 1e15 ? rk_arena_printf(arena, "%.0f", v) : rk_arena_printf(arena, "%.6g", v);
}

/* A number from `expect`; false when the target does not say. */
static bool expect_number(const struct rk_rule *rule, const struct rk_expect *e, double *ret)
{
	const struct {
		const char *key;
		int value;
	} rows[] = { { "gpus", e->gpus }, { "rails", e->rails }, { "rate_gbps", e->rate_gbps }, { "nvlink_partition", e->nvlink_partition } };

	for (size_t i = 0; rule->expect && i < RK_ARRAY_SIZE(rows); i++) {
		if (strcmp(rows[i].key, rule->expect) == 0 && rows[i].value > 0) {
			*ret = rows[i].value * rule->factor;
			return true;
		}
	}
	return false;
}

struct limit {
	double value, warn;
	bool has_warn;
};

/* Another metric of the same instance, or the only one there is. */
static bool reference(const struct rk_rule *rule, const struct rk_metrics *m, const char *label, double *ret)
{
	const struct rk_metric *other = NULL;
	size_t n = rk_metrics_range(m, rule->of, &other);

	for (size_t i = 0; i < n; i++) {
		if (other[i].type != RK_METRIC_NUMBER || (n > 1 && strcmp(other[i].label, label) != 0))
			continue;
		*ret = other[i].number * rule->factor;
		return true;
	}
	return false;
}

/* The threshold that holds for this target: from expect, else by step or by a reference, else the fixed one. */
static bool limit_of(const struct rk_rule *rule, const struct rk_target_metrics *t, const struct rk_metrics *m, const char *label, struct limit *ret)
{
	const struct rk_metric *by;

	*ret = (struct limit){ rule->numbers[0], rule->warn, rule->has_warn };
	if (expect_number(rule, &t->target->expect, &ret->value))
		return true;
	if (rule->n_steps && rule->of && rk_metrics_range(m, rule->of, &by) && by->type == RK_METRIC_NUMBER) {
		for (size_t i = 0; i < rule->n_steps; i++) {
			if (by->number > rule->steps[i].up_to)
				continue;
			*ret = (struct limit){ rule->steps[i].value, rule->steps[i].warn, rule->steps[i].has_warn };
			return true;
		}
	}
	if (rule->of && !rule->n_steps)
		return reference(rule, m, label, &ret->value);
	return rule->n_numbers > 0;
}

static const char *pkeys_text(const struct rk_expect *e, struct rk_arena *arena)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	for (size_t i = 0; i < e->n_pkeys; i++)
		rk_str_addf(&text, "%s0x%04x", i ? "," : "", e->pkey_limited ? e->pkeys[i] : e->pkeys[i] | 0x8000u);
	return rk_arena_strdup(arena, rk_str_text(&text));
}

static const char *guids_text(const struct rk_expect *e, struct rk_arena *arena)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	for (size_t i = 0; i < e->n_port_guids; i++)
		rk_str_addf(&text, "%s0x%016llx", i ? "," : "", (unsigned long long)e->port_guids[i]);
	return e->n_port_guids ? rk_arena_strdup(arena, rk_str_text(&text)) : NULL;
}

/* "0xGUID on LEAF/PORT" per port whose place is known. */
static const char *leaf_text(const struct rk_expect *e, size_t port, struct rk_arena *arena)
{
	return rk_arena_printf(arena, "0x%016llx on %s/%d", (unsigned long long)e->port_guids[port], e->leaves[port], e->leaf_ports[port]);
}

static const char *leaves_text(const struct rk_expect *e, struct rk_arena *arena)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	for (size_t i = 0; i < e->n_port_guids; i++)
		if (e->leaves[i])
			rk_str_addf(&text, "%s%s", text.len ? ", " : "", leaf_text(e, i, arena));
	return text.len ? rk_arena_strdup(arena, rk_str_text(&text)) : NULL;
}

static enum rk_verdict bad(const struct rk_rule *rule)
{
	return strcmp(rule->effect, "warn") == 0 ? RK_V_WARN : RK_V_FAIL;
}

/* Of a port whose place is not known nothing can be said. */
static enum rk_verdict judge_leaf(const struct rk_rule *rule, const struct rk_expect *e, const char *text)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	uint64_t guid;
	size_t n = strcspn(text, " ");
	char *head = rk_arena_strndup(arena, text, n);

	for (size_t i = 0; i < e->n_port_guids && rk_parse_u64(head, &guid); i++) {
		if (e->port_guids[i] == guid)
			return !e->leaves[i] ? RK_V_SKIPPED : strcmp(leaf_text(e, i, arena), text) == 0 ? RK_V_PASS : bad(rule);
	}
	return bad(rule);
}

/* Identities are 64 bit: compared as integers, never as doubles. */
static bool own_guid(const struct rk_expect *e, const char *text)
{
	uint64_t guid;

	for (size_t i = 0; i < e->n_port_guids && rk_parse_u64(text, &guid); i++) {
		if (e->port_guids[i] == guid)
			return true;
	}
	return false;
}

static const char *values_text(const struct rk_rule *rule, struct rk_arena *arena)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	for (size_t i = 0; i < rule->values.n; i++)
		rk_str_addf(&text, "%s%s", i ? " | " : "", rule->values.items[i]);
	return rk_arena_strdup(arena, rk_str_text(&text));
}

/* Text of a metric that another collector of the target brought; NULL when there is none. */
static const char *other_text(const struct rk_target_metrics *t, const char *name)
{
	const struct rk_metric *first;

	for (size_t i = 0; i < t->target->n_evidence; i++) {
		if (rk_metrics_range(&t->of[i], name, &first) && first->type == RK_METRIC_TEXT)
			return first->text;
	}
	return NULL;
}

const char *rk_rule_expected(const struct rk_rule *rule, const struct rk_target_metrics *t, const struct rk_metrics *m, struct rk_arena *arena)
{
	const struct rk_expect *e = &t->target->expect;
	bool ordered = rule->compare[0] == '<' || rule->compare[0] == '>' || rule->compare[0] == '!';
	struct limit limit;

	if (strcmp(rule->compare, "all-equal") == 0)
		return "all equal";
	if (strcmp(rule->compare, "outlier") == 0)
		return rk_arena_printf(arena, "within %.0f %% of the median, %s side", rule->tolerance * 100, rule->side);
	if (strcmp(rule->compare, "present") == 0)
		return "present";
	if (strncmp(rule->compare, "same-", 5) == 0)
		return other_text(t, rule->of);
	if (strncmp(rule->compare, "pkey-", 5) == 0 && e->no_pkeys)
		return strcmp(rule->compare, "pkey-member") == 0 ? NULL : "no tenant key";
	if (strncmp(rule->compare, "pkey-", 5) == 0)
		return e->n_pkeys ? pkeys_text(e, arena) : strcmp(rule->compare, "pkey-member") == 0 ? "a tenant key, full member" : "one tenant key";
	if (rule->expect && strcmp(rule->expect, "cluster_uuid") == 0 && e->cluster_uuid)
		return e->cluster_uuid;
	if (rule->expect && strcmp(rule->expect, "port_guids") == 0)
		return guids_text(e, arena);
	if (rule->expect && strcmp(rule->expect, "leaves") == 0)
		return leaves_text(e, arena);
	if (strcmp(rule->compare, "between") == 0)
		return rk_arena_printf(arena, "%s..%s", number_text(arena, rule->numbers[0]), number_text(arena, rule->numbers[1]));
	if (rule->of && !rule->n_steps)
		return rk_arena_printf(arena, "%s %g x %s", rule->compare, rule->factor, rule->of);
	if (limit_of(rule, t, m, "", &limit)) {
		const char *number = number_text(arena, limit.value);
		return ordered ? rk_arena_printf(arena, "%s %s", rule->compare, number)
			       : strcmp(rule->compare, "delta") != 0 && strcmp(rule->compare, "growth") != 0 ? number
			       : rk_arena_printf(arena, "growth <= %s%s%s", number, rule->per ? " per " : "", rule->per ? rule->per : "");
	}
	if (rule->values.n)
		return rule->compare[0] == '!' ? rk_arena_printf(arena, "not %s", values_text(rule, arena)) : values_text(rule, arena);
	return NULL;
}

const char *rk_rule_expected_warn(const struct rk_rule *rule, const struct rk_target_metrics *t, const struct rk_metrics *m, struct rk_arena *arena)
{
	struct limit limit;

	if (strcmp(rule->effect, "warn") == 0 || !limit_of(rule, t, m, "", &limit) || !limit.has_warn)
		return NULL;
	return rk_arena_printf(arena, "%s %s", rule->compare, number_text(arena, limit.warn));
}

static bool holds(const char *op, double v, double limit)
{
	static const struct {
		const char *op;
		int mask; /* 1: less, 2: equal, 4: greater */
	} rows[] = { { "==", 2 }, { "!=", 5 }, { "<", 1 }, { "<=", 3 }, { ">", 4 }, { ">=", 6 } };
	int is = v < limit ? 1 : v > limit ? 4 : 2;

	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		if (strcmp(rows[i].op, op) == 0)
			return (rows[i].mask & is) != 0;
	}
	return false;
}

static enum rk_verdict judge_number(const struct rk_rule *rule, const struct rk_target_metrics *t, const struct rk_metrics *m, const char *label, double v)
{
	struct limit limit;

	if (strcmp(rule->compare, "between") == 0)
		return v >= rule->numbers[0] && v <= rule->numbers[1] ? RK_V_PASS : bad(rule);
	if (strcmp(rule->compare, "in") == 0)
		return (rule->n_numbers > 0 && v == rule->numbers[0]) || (rule->n_numbers > 1 && v == rule->numbers[1]) ? RK_V_PASS : bad(rule);
	if (!limit_of(rule, t, m, label, &limit))
		return RK_V_UNKNOWN;
	if (!holds(rule->compare, v, limit.value))
		return bad(rule);
	return limit.has_warn && !holds(rule->compare, v, limit.warn) ? RK_V_WARN : RK_V_PASS;
}

static enum rk_verdict judge_text(const struct rk_rule *rule, const struct rk_target_metrics *t, const char *text)
{
	bool not = strcmp(rule->compare, "!=") == 0;

	if (rule->expect && strcmp(rule->expect, "cluster_uuid") == 0 && t->target->expect.cluster_uuid)
		return strcasecmp(t->target->expect.cluster_uuid, text) == 0 ? RK_V_PASS : bad(rule);
	if (rule->expect && strcmp(rule->expect, "port_guids") == 0)
		return own_guid(&t->target->expect, text) ? RK_V_PASS : bad(rule);
	if (rule->expect && strcmp(rule->expect, "leaves") == 0)
		return judge_leaf(rule, &t->target->expect, text);
	/* A word where a number should be is no measurement. */
	if (!rule->values.n)
		return RK_V_UNKNOWN;
	return rk_texts_have(&rule->values, text) != not ? RK_V_PASS : bad(rule);
}

static bool same_port(const char *label, const char *port)
{
	size_t n = strlen(port);

	return strncmp(label, port, n) == 0 && label[n] == ',';
}

/* Keys of one port as text; *ret_foreign: those the target should not have; *ret_missing: those it should. */
static void port_keys(const struct rk_expect *e, const struct rk_metrics *m, const char *port, struct rk_str *all, struct rk_str *foreign,
		      unsigned *ret_missing)
{
	const struct rk_metric *keys = NULL;
	size_t n = rk_metrics_range(m, "ib.pkey", &keys);
	unsigned seen = 0;

	for (size_t i = 0; i < n; i++) {
		if (!same_port(keys[i].label, port))
			continue;
		unsigned word = (unsigned)strtoul(keys[i].text, NULL, 16);
		bool wanted = false;
		rk_str_addf(all, "%s%s", all->len ? "," : "", keys[i].text);
		for (size_t k = 0; k < e->n_pkeys; k++) {
			bool same = (word & 0x7fff) == (e->pkeys[k] & 0x7fff);
			wanted |= same;
			if (same && (e->pkey_limited || (word & 0x8000)))
				seen |= 1u << k;
		}
		for (size_t k = 0; k < e->n_services; k++)
			wanted |= word == e->services[k];
		/* Without an expectation the first tenant key is taken for the own one. */
		if (e->n_pkeys || e->no_pkeys ? !wanted : seen != 0)
			rk_str_addf(foreign, "%s%s", foreign->len ? "," : "", keys[i].text);
		if (!e->n_pkeys && (word & 0x8000))
			seen = 1;
	}
	*ret_missing = e->n_pkeys ? ((1u << e->n_pkeys) - 1) & ~seen : !seen;
}

static void judge_port(const struct rk_rule *rule, const struct rk_target_metrics *t, const struct rk_metrics *m, struct rk_arena *arena,
		       struct rk_instance *instance)
{
	struct rk_str all RK_CLEANUP_STR = RK_STR_INIT, foreign RK_CLEANUP_STR = RK_STR_INIT;
	unsigned missing;

	port_keys(&t->target->expect, m, instance->metric->label, &all, &foreign, &missing);
	/* Of a table that was cut, a key that stands in it is certain, and that one does not is not. */
	bool cut = instance->metric->type == RK_METRIC_ABSENT;
	if (strcmp(rule->compare, "pkey-member") == 0) {
		instance->verdict = !missing ? RK_V_PASS : cut ? RK_V_UNKNOWN : bad(rule);
		instance->value = all.len ? rk_arena_strdup(arena, rk_str_text(&all)) : cut ? instance->metric->text : "no tenant key";
	} else {
		instance->verdict = foreign.len ? bad(rule) : cut ? RK_V_UNKNOWN : RK_V_PASS;
		instance->value = foreign.len ? rk_arena_strdup(arena, rk_str_text(&foreign)) : cut ? instance->metric->text : "none";
	}
}

/* "580.126.20" -> 3, the length of "580". */
static size_t branch_len(const char *version)
{
	return strcspn(version, ".");
}

/* The same value as another metric of the target, or a version of the same branch. */
static void judge_beside(const struct rk_rule *rule, const struct rk_target_metrics *t, struct rk_arena *arena, struct rk_instance *instance)
{
	const char *other = other_text(t, rule->of);
	bool branch = strcmp(rule->compare, "same-branch") == 0, version = isdigit((unsigned char)*instance->value);

	if (!other || (branch && !version)) {
		instance->verdict = RK_V_SKIPPED;
		return;
	}
	size_t n = branch ? branch_len(other) : strlen(other), own = branch ? branch_len(instance->value) : strlen(instance->value);
	bool same = n == own && strncasecmp(instance->value, other, n) == 0;
	instance->verdict = same ? RK_V_PASS : bad(rule);
	if (!same)
		instance->value = rk_arena_printf(arena, "%s beside %s", instance->value, other);
}

/* Comparisons in which each value is as good as any other: all of them are looked at together later. */
static bool no_own_verdict(const struct rk_rule *rule)
{
	static const char *const compares[] = { "present", "all-equal", "outlier" };

	for (size_t i = 0; i < RK_ARRAY_SIZE(compares); i++) {
		if (strcmp(compares[i], rule->compare) == 0)
			return true;
	}
	return false;
}

void rk_rule_instance(const struct rk_rule *rule, const struct rk_target_metrics *t, const struct rk_metrics *m, struct rk_arena *arena,
		      struct rk_instance *instance)
{
	const struct rk_metric *metric = instance->metric;

	instance->has_number = metric->type == RK_METRIC_NUMBER;
	instance->number = metric->number;
	instance->parts = 0;
	instance->value = metric->type == RK_METRIC_NUMBER ? number_text(arena, metric->number) : metric->text;
	if (strncmp(rule->compare, "pkey-", 5) == 0) {
		judge_port(rule, t, m, arena, instance);
		return;
	}
	if (metric->type == RK_METRIC_ABSENT) {
		static const char *const silent[] = { RK_NOT_CONFIGURED, RK_PORT_NOT_ACTIVE };
		/* What was cut off could have said anything. */
		bool cut = strcmp(metric->text, "truncated") == 0, none = rk_word_of(metric->text, silent, RK_ARRAY_SIZE(silent));
		instance->verdict = none || (rule->optional && !cut) ? RK_V_SKIPPED : RK_V_UNKNOWN;
		return;
	}
	if (rk_texts_have(&rule->warn_values, instance->value))
		instance->verdict = RK_V_WARN;
	else if (rk_texts_have(&rule->unknown_values, instance->value))
		instance->verdict = RK_V_UNKNOWN;
	else if (rk_texts_have(&rule->skip_values, instance->value))
		instance->verdict = RK_V_SKIPPED;
	else if (no_own_verdict(rule))
		instance->verdict = RK_V_PASS;
	else if (strncmp(rule->compare, "same-", 5) == 0)
		judge_beside(rule, t, arena, instance);
	else if (metric->type == RK_METRIC_TEXT)
		instance->verdict = judge_text(rule, t, metric->text);
	else
		instance->verdict = judge_number(rule, t, m, metric->label, metric->number);
}
