/* The instances of a metric on one target: from all tools that tell it, as one answer, and in doubt where the output ended too early. */
#include <string.h>

#include "inventory/base/map.h"
#include "provision/health/judge.h"

const char *rk_says_nothing(const struct rk_target_metrics *t, const struct rk_metrics *m, struct rk_arena *arena)
{
	const struct rk_evidence *e = &t->target->evidence[m - t->of];

	if (m->n)
		return NULL;
	if (strspn(e->out, " \t\r\n") < e->out_len)
		return "the output was not understood";
	return e->status && strcmp(e->status, "0") != 0 ? rk_arena_printf(arena, "ended with %.16s and said nothing", e->status) : NULL;
}

/* How many there are; not known when one of them has no value, or nothing of the output was understood. */
static const struct rk_metric *count_of(const struct rk_judge *j, const struct rk_rule *rule, const struct rk_target_metrics *t, const struct rk_metrics *m,
					const struct rk_metric *first, size_t n)
{
	struct rk_metric *sum = rk_arena_alloc(j->arena, sizeof(*sum));

	*sum = (struct rk_metric){ rule->metric, "", RK_METRIC_NUMBER, (double)n, NULL };
	for (size_t i = 0; i < n; i++) {
		if (first[i].type == RK_METRIC_ABSENT)
			*sum = (struct rk_metric){ rule->metric, "", RK_METRIC_ABSENT, 0, first[i].text };
	}
	const char *nothing = rk_says_nothing(t, m, j->arena);
	if (nothing)
		*sum = (struct rk_metric){ rule->metric, "", RK_METRIC_ABSENT, 0, nothing };
	return sum;
}

/* What a probe printed before it was stopped can show a fault, but not that there is none. */
static void doubt(struct rk_instance *x, const char *reason)
{
	if (!reason || (x->verdict != RK_V_PASS && x->verdict != RK_V_WARN))
		return;
	x->verdict = RK_V_UNKNOWN;
	x->value = reason;
}

static size_t gather(struct rk_judge *j, const struct rk_rule *rule, const struct rk_target_metrics *t, const struct rk_metrics *m,
		     struct rk_instance *x, size_t max)
{
	const struct rk_metric *first = NULL;
	size_t n = rk_metrics_range(m, rule->metric, &first);
	const char *reason = t->reason[m - t->of];
	struct rk_rule as = *rule;

	if (strcmp(rule->compare, "count") == 0) {
		first = count_of(j, rule, t, m, first, n);
		n = 1;
		as.compare = "==";
	} else if (rk_judge_counts_up(rule)) {
		struct rk_metric *deltas = rk_arena_array(j->arena, n + 1, sizeof(*deltas));
		n = rk_judge_deltas(j, rule, t, first, n, deltas);
		first = deltas;
		as.compare = "<=";
	}
	for (size_t i = 0; i < n && i < max; i++) {
		x[i].metric = &first[i];
		rk_rule_instance(&as, t, m, j->arena, &x[i]);
		doubt(&x[i], reason);
	}
	if (n > max && max)
		doubt(&x[max - 1], "more values than are judged");
	return n < max ? n : max;
}

/* Two tools that tell the same (nvidia-smi -q and -q -x, ibstat and ibv_devinfo) are one answer; what one of them does not tell counts
 * only when the other does not either. x[first..n) are of the later tool. */
static size_t merge(struct rk_instance *x, size_t first, size_t n)
{
	struct rk_map *labels RK_CLEANUP_MAP = rk_map_new();
	size_t kept = first, at;

	for (size_t i = 0; i < first; i++)
		rk_map_set(labels, x[i].metric->label, i);
	for (size_t i = first; i < n; i++) {
		bool twin = rk_map_get(labels, x[i].metric->label, &at);
		if (twin && x[at].metric->type == RK_METRIC_ABSENT)
			x[at] = x[i];
		else if (!twin || (x[i].metric->type != RK_METRIC_ABSENT && !rk_streq(x[i].value, x[at].value)))
			x[kept++] = x[i];
	}
	return kept;
}

size_t rk_judge_gather(struct rk_judge *j, const struct rk_rule *rule, size_t target, const struct rk_metrics *const *sources, size_t n_sources,
		       struct rk_instance *x)
{
	size_t n = 0;

	for (size_t s = 0; s < n_sources; s++) {
		size_t first = n;
		n += gather(j, rule, &j->targets[target], sources[s], x + n, RK_INSTANCES_MAX - n);
		if (first)
			n = merge(x, first, n);
	}
	return n;
}
