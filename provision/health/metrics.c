#include <math.h>
#include <string.h>

#include "provision/health/health.h"

enum { METRICS_MAX = 200000 };

static struct rk_metric *push(struct rk_metrics *m, const char *name, const char *label, enum rk_metric_type type)
{
	if (m->n == METRICS_MAX) {
		m->full = true;
		return NULL;
	}
	if (m->n == m->cap) {
		size_t cap = m->cap ? m->cap * 2 : 64;
		struct rk_metric *items = rk_arena_array(m->arena, cap, sizeof(*items));
		if (m->n)
			memcpy(items, m->items, m->n * sizeof(*items));
		m->items = items;
		m->cap = cap;
	}
	struct rk_metric *item = &m->items[m->n++];
	item->name = name;
	item->label = label ? label : "";
	item->type = type;
	return item;
}

void rk_metric_number(struct rk_metrics *m, const char *name, const char *label, double v)
{
	if (!isfinite(v)) {
		rk_metric_absent(m, name, label, "not a number");
		return;
	}
	struct rk_metric *item = push(m, name, label, RK_METRIC_NUMBER);
	if (item)
		item->number = v;
}

void rk_metric_text(struct rk_metrics *m, const char *name, const char *label, const char *v)
{
	struct rk_metric *item = push(m, name, label, RK_METRIC_TEXT);

	if (item)
		item->text = rk_arena_strdup(m->arena, v);
}

void rk_metric_absent(struct rk_metrics *m, const char *name, const char *label, const char *reason)
{
	struct rk_metric *item = push(m, name, label, RK_METRIC_ABSENT);

	if (item)
		item->text = rk_arena_strdup(m->arena, reason);
}

const struct rk_metric *rk_metric_find(const struct rk_metrics *m, const char *name, const char *label)
{
	for (size_t i = 0; i < m->n; i++) {
		if (strcmp(m->items[i].name, name) == 0 && strcmp(m->items[i].label, label ? label : "") == 0)
			return &m->items[i];
	}
	return NULL;
}
