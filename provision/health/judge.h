/* Private to judge.c, gather.c, delta.c, rows.c, scope.c, parts.c and cause.c. */
#pragma once
#include "provision/health/rules.h"

enum { RK_INSTANCES_MAX = 4096, RK_SOURCES_MAX = 4 };

/* Parts of a target that fail on their own, as a set: bit n is GPU n, bit RK_FIRST_RAIL + n is the InfiniBand port of rail n. */
enum { RK_PARTS_OF_A_KIND = 31, RK_FIRST_RAIL = 32 };
#define RK_GPU_PARTS ((uint64_t)0x7fffffff)
#define RK_PART_PORTLESS ((uint64_t)1 << 63) /* an HCA without a port: nothing else is told of it */
#define RK_RAIL_PARTS (RK_GPU_PARTS << RK_FIRST_RAIL | RK_PART_PORTLESS)
#define RK_ALL_PARTS UINT64_MAX

/* What one rule says about one target. */
struct rk_outcome {
	enum rk_verdict verdict;
	enum rk_verdict measured;    /* before a silence; set by rk_judge_settle */
	const struct rk_silence *silence; /* why it does not count, or NULL */
	double strikes;              /* validations in a row that found it, with this one */
	bool applies;                /* false: of no concern to this target (other kind): no row at all */
	bool blocked;                /* skipped because of the check before it */
	uint64_t parts;              /* that failed; 0: not told by parts */
	uint64_t doubt;              /* parts that failed or are unknown; 0: not told by parts */
	uint64_t lost;               /* parts that are left out because of the checks before it */
	const char *value, *expected;
	double low, high;            /* of passing numbers */
	bool has_numbers;
};
/* Collectors (places in rk_collectors) that a rule looks at and that run at the level. */
struct rk_source_list {
	unsigned char items[8];
	size_t n;
};
/* What the shell of a target had to say. Its BMC, and measurements that another VM started, say nothing about it. */
enum rk_shell { RK_SHELL_NOT_ASKED, RK_SHELL_SILENT, RK_SHELL_ANSWERS };
struct rk_judge {
	const struct rk_hprofile *profile;
	enum rk_level level;
	struct rk_arena *arena;
	struct rk_target_metrics *targets;
	bool *reached;               /* per target: something came back, from it or about it */
	enum rk_shell *shell;        /* per target */
	size_t n;
	struct rk_outcome *outcomes; /* [rule][target] */
	const unsigned char (*evidence_of)[RK_COLLECTORS_MAX]; /* [target][collector]: place of its answer + 1; 0 = none */
	struct rk_source_list *sources; /* per rule */
	struct rk_instance *scratch; /* RK_INSTANCES_MAX, used by one rule and target at a time */
};
static inline struct rk_outcome *rk_outcome_of(const struct rk_judge *j, size_t rule, size_t target)
{
	return &j->outcomes[rule * j->n + target];
}
/* The worst instances of a target as one text: "gpu=1,gpu=2: 16". */
void rk_outcome_fold(struct rk_judge *j, size_t rule, size_t target, const struct rk_instance *instances, size_t n);
/* The part that a label ("gpu=1", "rail=2", "dev=mlx5_2", also among others) names; 0: none that is known (parts.c). */
uint64_t rk_part_of(const struct rk_judge *j, size_t target, const char *label);
/* Rail of the port that a text is about ("dev=mlx5_1: 378.12"): by the port GUID that the same target showed for the device. -1: not known. */
int rk_rail_of(const struct rk_judge *j, size_t target, const char *text);
/* Rules across instances: all-equal, outlier. Fills the outcomes of the rule for all targets that apply. */
void rk_judge_scope(struct rk_judge *j, size_t rule);
/* Evidence of a target that the rule may look at: calls fn for each usable one. Returns how many; else *ret_reason says why none. */
size_t rk_rule_sources(const struct rk_judge *j, const struct rk_rule *rule, size_t target, const struct rk_metrics **ret, size_t max,
		       const char **ret_reason, enum rk_verdict *ret_verdict);
/* Instances of the rule's metric on one target, judged one by one; room for RK_INSTANCES_MAX. */
size_t rk_judge_gather(struct rk_judge *j, const struct rk_rule *rule, size_t target, const struct rk_metrics *const *sources, size_t n_sources,
		       struct rk_instance *x);

/* The probe printed something of which nothing was understood, or failed without a word: not even an optional value is known to be left out then. Why,
 * or NULL. */
const char *rk_says_nothing(const struct rk_target_metrics *t, const struct rk_metrics *m, struct rk_arena *arena);
/* The verdict on a target whose sources have no instance of the metric. */
void rk_judge_nothing(const struct rk_judge *j, const struct rk_rule *rule, size_t target, const struct rk_metrics *const *sources, size_t n, struct rk_outcome *outcome);

bool rk_judge_counts_up(const struct rk_rule *rule); /* compare is delta or growth */
/* Growth of counters, delta.c. n instances of one metric, all samples of a run, to one instance per counter; room for n. */
size_t rk_judge_deltas(struct rk_judge *j, const struct rk_rule *rule, const struct rk_target_metrics *t, const struct rk_metric *first, size_t n,
		       struct rk_metric *ret);
/* Strikes and silences of a rule that was judged. */
void rk_judge_settle(struct rk_judge *j, size_t rule);
/* What later validations compare with, and trends, into the report. */
void rk_judge_remember(struct rk_judge *j, struct rk_report *ret);

struct rk_rows {
	struct rk_check *items;
	size_t n, cap;
};
void rk_judge_reach_rows(struct rk_judge *j, struct rk_rows *rows);             /* the check "ssh" */
/* The check "probes": of targets only on which a probe failed without any other check saying so; after all rules were judged. */
void rk_judge_probe_rows(struct rk_judge *j, struct rk_rows *rows);
void rk_judge_rule_rows(struct rk_judge *j, size_t rule, struct rk_rows *rows); /* appends */
/* Worst first into the report, with the overall verdict. */
void rk_judge_finish_rows(const struct rk_judge *j, const struct rk_rows *rows, struct rk_report *ret);
/* Root causes of the failed outcomes, most fundamental first. */
void rk_judge_causes(struct rk_judge *j, struct rk_report *ret);
