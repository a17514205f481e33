/* Root causes: what has to be repaired first, so that the rest can be judged again. */
#include <stdlib.h>
#include <string.h>

#include "inventory/base/nodeset.h"
#include "inventory/base/str.h"
#include "provision/health/judge.h"

enum { CAUSES_MAX = 32 };

/* Most fundamental first. A partition comes before what is built on it; a link that is down may be the sign of all before it. */
static const struct {
	const char *name, *words;
} causes[] = {
	{ "driver", "GPU driver" },
	{ "partition", "NVLink partition" },
	{ "fabric", "NVLink fabric registration" },
	{ "imex-list", "IMEX node list" },
	{ "imex-version", "IMEX version" },
	{ "imex-channel", "IMEX channel device" },
	{ "imex", "IMEX domain" },
	{ "xid", "GPU fault" },
	{ "gpu", "GPU" },
	{ "link", "NVLink" },
	{ "pkey", "InfiniBand partition" },
	{ "ib-link", "InfiniBand port" },
	{ "cooling", "liquid cooling" },
	{ "host", "host" },
};

struct bucket {
	const char *value, *expected;
	size_t *targets;
	size_t n;
};

/* "a-02 on r01-t03", "a-[01-04] on r01-t[01-04]". */
static const char *where(struct rk_judge *j, const size_t *targets, size_t n)
{
	const char **names = rk_arena_array(j->arena, n, sizeof(*names)), **trays = rk_arena_array(j->arena, n, sizeof(*trays));
	size_t n_trays = 0;

	for (size_t i = 0; i < n; i++) {
		const struct rk_target *t = j->targets[targets[i]].target;
		names[i] = t->name;
		if (t->tray && strcmp(t->tray, t->name) != 0)
			trays[n_trays++] = t->tray;
	}
	const char *folded = rk_nodeset_fold(j->arena, names, n);
	return n_trays == n ? rk_arena_printf(j->arena, "%s on %s", folded, rk_nodeset_fold(j->arena, trays, n_trays)) : folded;
}

static const char *wanted_partition(struct rk_judge *j, const char *cause, const struct bucket *b)
{
	int partition = j->targets[b->targets[0]].target->expect.nvlink_partition;
	bool nvlink = strcmp(cause, "partition") == 0 || strcmp(cause, "fabric") == 0;

	return nvlink && partition ? rk_arena_printf(j->arena, " in NVLink partition %d", partition) : "";
}

static void add(struct rk_judge *j, struct rk_report *ret, const struct rk_rule *rule, const char *words, const struct bucket *b)
{
	if (ret->n_root_causes == CAUSES_MAX)
		return;
	ret->root_causes[ret->n_root_causes++] =
		rk_arena_printf(j->arena, "%s: %s%s: %s (found %s, expected %s)", words, where(j, b->targets, b->n), wanted_partition(j, rule->cause, b),
				rule->message ? rule->message : rule->id, b->value ? b->value : "nothing", b->expected ? b->expected : "otherwise");
}

/* Failed targets of one rule, one root cause per value. */
static void rule_causes(struct rk_judge *j, size_t r, const char *words, struct rk_report *ret)
{
	const struct rk_rule *rule = &j->profile->rules[r];
	bool *done = rk_xcalloc(j->n + 1, sizeof(*done));

	for (size_t i = 0; i < j->n; i++) {
		const struct rk_outcome *o = rk_outcome_of(j, r, i);
		if (done[i] || !o->applies || o->verdict != RK_V_FAIL)
			continue;
		struct bucket b = { o->value, o->expected, rk_arena_array(j->arena, j->n, sizeof(size_t)), 0 };
		for (size_t k = i; k < j->n; k++) {
			const struct rk_outcome *other = rk_outcome_of(j, r, k);
			if (!other->applies || other->verdict != RK_V_FAIL || !rk_streq(other->value, o->value) || !rk_streq(other->expected, o->expected))
				continue;
			done[k] = true;
			b.targets[b.n++] = k;
		}
		add(j, ret, rule, words, &b);
	}
	free(done);
}

static const struct rk_metric *metric(const struct rk_judge *j, size_t target, const char *name)
{
	const struct rk_target_metrics *t = &j->targets[target];
	const struct rk_metric *first;

	for (size_t i = 0; i < t->target->n_evidence; i++) {
		if (rk_metrics_range(&t->of[i], name, &first))
			return first;
	}
	return NULL;
}

struct xid {
	size_t target;
	bool sympathetic;
	double time;
	const char *text;
};

static int by_time(const void *a, const void *b)
{
	const struct xid *x = a, *y = b;

	if (x->sympathetic != y->sympathetic)
		return x->sympathetic - y->sympathetic;
	if (x->time < y->time || x->time > y->time)
		return x->time < y->time ? -1 : 1;
	return (x->target > y->target) - (x->target < y->target);
}

/* One sick GPU makes its peers log faults too: the earliest one that is no echo is the cause; echoes are named only when alone. */
static void xid_causes(struct rk_judge *j, size_t r, const char *words, struct rk_report *ret)
{
	struct xid *found = rk_xcalloc(j->n + 1, sizeof(*found));
	size_t n = 0;

	for (size_t i = 0; i < j->n; i++) {
		const struct rk_outcome *o = rk_outcome_of(j, r, i);
		const struct rk_metric *first = metric(j, i, "xid.first"), *echo = metric(j, i, "xid.first.sympathetic");
		const struct rk_metric *time = metric(j, i, "xid.first.time");
		if (!o->applies || o->verdict != RK_V_FAIL || !first || !first->text)
			continue;
		found[n++] = (struct xid){ i, echo && echo->number > 0, time && time->type == RK_METRIC_NUMBER ? time->number : 1e300, first->text };
	}
	qsort(found, n, sizeof(*found), by_time);
	for (size_t i = 0; i < n && ret->n_root_causes < CAUSES_MAX && (i == 0 || !found[i].sympathetic); i++)
		ret->root_causes[ret->n_root_causes++] =
			rk_arena_printf(j->arena, "%s: %s: %s%s", words, where(j, &found[i].target, 1), found[i].text, i == 0 && n > 1 ? ", the earliest" : "");
	free(found);
}

void rk_judge_causes(struct rk_judge *j, struct rk_report *ret)
{
	ret->root_causes = rk_arena_array(j->arena, CAUSES_MAX, sizeof(*ret->root_causes));
	for (size_t c = 0; c < RK_ARRAY_SIZE(causes); c++) {
		for (size_t r = 0; r < j->profile->n_rules; r++) {
			const struct rk_rule *rule = &j->profile->rules[r];
			if (!rule->cause || strcmp(rule->cause, causes[c].name) != 0)
				continue;
			if (strcmp(rule->metric, "xid.fatal.list") == 0)
				xid_causes(j, r, causes[c].words, ret);
			else
				rule_causes(j, r, causes[c].words, ret);
		}
	}
}
