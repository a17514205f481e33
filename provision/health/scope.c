/* Rules that compare instances with each other: all-equal and outlier, within a target, a rack, a cluster or a domain. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/map.h"
#include "provision/health/judge.h"

struct member {
	size_t target;
	struct rk_instance instance;
};
struct group {
	struct member *items;
	size_t n, cap;
};
struct groups {
	struct group *items;
	size_t n, cap;
};

static const char *scope_key(struct rk_judge *j, const struct rk_rule *rule, size_t target)
{
	const struct rk_target *t = j->targets[target].target;
	const char *rack = t->rack ? t->rack : "", *cluster = t->cluster ? t->cluster : "";

	if (strcmp(rule->scope, "all") == 0)
		return "";
	if (strcmp(rule->scope, "rack") == 0 && t->rack)
		return rack;
	if (strcmp(rule->scope, "cluster") == 0 && t->cluster)
		return cluster;
	if (strcmp(rule->scope, "domain") == 0 && t->cluster)
		return rk_arena_printf(j->arena, "%s/%s", cluster, rack);
	return rk_arena_printf(j->arena, "%zu", target);
}

static int by_number(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(const struct group *g)
{
	double *values = rk_xcalloc(g->n + 1, sizeof(*values));
	size_t n = 0;

	for (size_t i = 0; i < g->n; i++) {
		if (g->items[i].instance.has_number)
			values[n++] = g->items[i].instance.number;
	}
	qsort(values, n, sizeof(*values), by_number);
	double result = n == 0 ? 0 : n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
	free(values);
	return result;
}

static enum rk_verdict bad(const struct rk_rule *rule)
{
	return strcmp(rule->effect, "warn") == 0 ? RK_V_WARN : RK_V_FAIL;
}

/* One-sided: a drive that is faster than the others is no fault. Two values cannot tell which one is odd. */
static void judge_outliers(const struct rk_rule *rule, struct group *g)
{
	double middle = median(g), sign = strcmp(rule->side, "high") == 0 ? 1 : -1;
	size_t known = 0;

	for (size_t i = 0; i < g->n; i++)
		known += g->items[i].instance.has_number;
	for (size_t i = 0; i < g->n; i++) {
		struct rk_instance *x = &g->items[i].instance;
		double off = (x->number - middle) * sign;
		if (x->verdict != RK_V_PASS)
			continue;
		if (known < 3) {
			x->verdict = RK_V_SKIPPED;
			x->value = "too few to compare";
		} else if (!x->has_number) {
			x->verdict = RK_V_UNKNOWN;
		} else if (off > fabs(middle) * rule->tolerance && off > rule->floor) {
			x->verdict = bad(rule);
		}
	}
}

/* The value of more than half; NULL when there is none. */
static const char *majority(const struct group *g)
{
	struct rk_map *counts RK_CLEANUP_MAP = rk_map_new();
	size_t n = 0;

	for (size_t i = 0; i < g->n; i++)
		n += g->items[i].instance.verdict == RK_V_PASS;
	for (size_t i = 0; i < g->n; i++) {
		size_t count = 0;
		if (g->items[i].instance.verdict != RK_V_PASS)
			continue;
		rk_map_get(counts, g->items[i].instance.value, &count);
		rk_map_set(counts, g->items[i].instance.value, ++count);
		if (count * 2 > n)
			return g->items[i].instance.value;
	}
	return NULL;
}

/* "a,b,c,d" beside "a,b,x,d": the third. 0 for lists that do not match. */
static uint64_t entries_apart(const char *list, const char *most)
{
	uint64_t apart = 0;

	for (int i = 0; i < RK_PARTS_OF_A_KIND; i++) {
		size_t n = strcspn(list, ","), m = strcspn(most, ",");
		if (n != m || strncmp(list, most, n) != 0)
			apart |= (uint64_t)1 << i;
		if (!list[n] || !most[m])
			return list[n] == most[m] ? apart : 0;
		list += n + 1;
		most += m + 1;
	}
	return 0;
}

/* Rails that are at fault in a metric that lists something for each. */
static uint64_t rails_apart(const struct rk_rule *rule, const char *list, const char *most)
{
	return most && strcmp(rule->metric, "ib.leaves") == 0 ? entries_apart(list, most) << RK_FIRST_RAIL : 0;
}

static void judge_equal(const struct rk_rule *rule, struct group *g)
{
	const char *most = majority(g);
	size_t comparable = 0;

	for (size_t i = 0; i < g->n; i++)
		comparable += g->items[i].instance.verdict == RK_V_PASS;
	for (size_t i = 0; i < g->n; i++) {
		struct rk_instance *x = &g->items[i].instance;
		if (x->verdict != RK_V_PASS)
			continue;
		if (comparable < 2) {
			x->verdict = RK_V_SKIPPED;
			x->value = "nothing to compare with";
		} else if (!most || strcmp(most, x->value) != 0) {
			x->verdict = bad(rule);
			x->parts = rails_apart(rule, x->value, most);
		}
	}
}

static void collect(struct rk_judge *j, size_t rule_at, size_t target, struct rk_map *keys, struct groups *groups)
{
	const struct rk_rule *rule = &j->profile->rules[rule_at];
	struct rk_outcome *outcome = rk_outcome_of(j, rule_at, target);
	const struct rk_metrics *sources[RK_SOURCES_MAX];
	size_t n = rk_rule_sources(j, rule, target, sources, RK_ARRAY_SIZE(sources), &outcome->value, &outcome->verdict);
	const char *key = scope_key(j, rule, target);
	size_t at;

	if (!n)
		return;
	if (!rk_map_get(keys, key, &at)) {
		at = groups->n;
		rk_vec_push(groups);
		rk_map_set(keys, key, at);
	}
	size_t found = rk_judge_gather(j, rule, target, sources, n, j->scratch);
	for (size_t i = 0; i < found; i++) {
		struct member *m = rk_vec_push(&groups->items[at]);
		m->target = target;
		m->instance = j->scratch[i];
	}
	if (!found)
		rk_judge_nothing(j, rule, target, sources, n, outcome);
	outcome->expected = rk_rule_expected(rule, &j->targets[target], sources[0], j->arena);
}

/* Members stand in target order, so the instances of one target are neighbours. */
static void spread(struct rk_judge *j, size_t rule_at, const struct group *g)
{
	for (size_t i = 0; i < g->n;) {
		size_t end = i;
		while (end < g->n && g->items[end].target == g->items[i].target)
			end++;
		struct rk_instance *instances = rk_arena_array(j->arena, end - i, sizeof(*instances));
		for (size_t k = i; k < end; k++)
			instances[k - i] = g->items[k].instance;
		rk_outcome_fold(j, rule_at, g->items[i].target, instances, end - i);
		i = end;
	}
}

void rk_judge_scope(struct rk_judge *j, size_t rule_at)
{
	const struct rk_rule *rule = &j->profile->rules[rule_at];
	struct rk_map *keys RK_CLEANUP_MAP = rk_map_new();
	struct groups groups = { 0 };

	for (size_t t = 0; t < j->n; t++) {
		if (rk_outcome_of(j, rule_at, t)->applies)
			collect(j, rule_at, t, keys, &groups);
	}
	for (size_t i = 0; i < groups.n; i++) {
		if (strcmp(rule->compare, "outlier") == 0)
			judge_outliers(rule, &groups.items[i]);
		else
			judge_equal(rule, &groups.items[i]);
		spread(j, rule_at, &groups.items[i]);
		free(groups.items[i].items);
	}
	free(groups.items);
}
