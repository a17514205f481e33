/* Collectors of a site: a command and where the numbers stand in its output. They make a workload an acceptance criterion: tokens per second,
 * time to first token, accuracy, storage throughput, energy.
 *
 * "collectors": {"tokens": {"command": "bench-llm --json", "seconds": 120, "parse": "json",
 *                           "metrics": {"llm.tokens_per_second": "results/throughput"}}}
 *   parse  json   each metric is a path of keys and array places ("runs/0/tps"); '*' stands for every member (a label per member)
 *          table  each metric is the name of a column; every row is an instance, named by its first word. The first line that holds all
 *                 columns is the head
 *          number the output is one number, for one metric */
#pragma once
#include "inventory/base/diag.h"
#include "provision/health/health.h"

struct rk_own_metric {
	const char *name, *where;         /* path or column */
};
struct rk_own_collector {
	struct rk_collector base;         /* parse is NULL */
	const char *parse;                /* "json" | "table" | "number" */
	struct rk_own_metric *metrics; size_t n_metrics;
};
/* One member of "collectors"; problems go to diags. */
void rk_own_read(const struct rk_jnode *node, struct rk_arena *arena, struct rk_diags *diags, struct rk_own_collector *ret);
void rk_own_parse(const struct rk_own_collector *collector, const struct rk_evidence *evidence, struct rk_metrics *ret);
