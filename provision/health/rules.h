/* Health profiles: which collectors run at which level, and rules on what they brought. Data only; racksh-profile(5).
 *
 * {"apiVersion":"racksh/v1","kind":"Profile","name":"gb300-acceptance","inherits":"other","description":"...",
 *  "levels":{"quick":["nvidia-smi-xml"],"standard":["topo"],"deep":["gemm"]},       each level adds to the one before
 *  "rules":{"gpu.count":{...}}}
 *
 * "collectors" adds collectors of the site: see own.h.
 *
 * `inherits` is a deep merge: a key given here wins, null removes a rule or a key of a rule, arrays are replaced.
 * Keys of a rule:
 *   level       quick | standard | deep: judged at this level and the deeper ones (quick)
 *   collector   name, or array: every one that has evidence is judged
 *   metric      what is judged; every instance of it (gpu=0, gpu=1, ...)
 *   compare     == != < <= > >= in between present   one instance with `value` (text compares without case)
 *               count       number of instances with `value`
 *               delta       last sample minus first one <= value; a single sample is skipped
 *               growth      last sample minus what the newest validation that kept it saw <= value; skipped when none did
 *               all-equal   within `scope`; the minority is named, without a majority all are
 *               outlier     further than `tolerance` (part of 1) and `floor` (unit of the metric) from the median of `scope`, on `side`
 *               same-as     the text that the metric `of` of the same target has; same-branch: a version of the same branch (580.*)
 *               pkey-member every port is a member of the target's PKeys    pkey-only  of no other one
 *   value       number, text, or array (in, between)
 *   expect      gpus | rails | rate_gbps | nvlink_partition | cluster_uuid | pkeys | port_guids | leaves: what the target should be; `value` when that is not known,
 *               skipped when there is neither
 *   factor      multiplies a number from `expect` or `of`
 *   warn        second threshold: beyond it but within `value` is a warning; warn_values, unknown_values, skip_values: texts with that verdict
 *   of          with a comparison: the threshold is that metric of the same instance (or the only one there is) times `factor`
 *   steps       array of {up_to, value, warn}: threshold by the metric `of` (first step whose up_to is not exceeded)
 *   each        gpus | rails: the target should bring a value for each that it has; unknown when there are fewer
 *   scope       target | rack | cluster | domain (cluster and rack) | all (target)
 *   side        low | high (low)
 *   effect      fail | warn | cordon (fail); cordon is a fail that asks to cordon the tray
 *   severity    info | warning | error | critical (error)
 *   per         minute | hour: a growth over more than one of them is divided by how many there were
 *   grace       minutes: skipped while the host is up for less; a growth since before its boot is not looked at
 *   strikes     a fault is a warning (a warning nothing) until so many validations in a row found it (1)
 *   required    false: a tool that is missing on the host (127) is skipped, else unknown (true)
 *   optional    true: a value that is absent (N/A, row missing) is left out, else unknown (false)
 *   after       id of a check: GPUs and ports that did not pass it are left out; skipped when that is not told by GPU or port
 *   when        multi-node: only when several VMs of the cluster share the domain
 *   kind        vm | tray | switch: only for such targets
 *   cause       root cause this fault stands for (cause.c: causes[])
 *   message, hint, source */
#pragma once
#include "provision/health/memory.h"
#include "provision/health/own.h"

enum rk_level { RK_LEVEL_QUICK, RK_LEVEL_STANDARD, RK_LEVEL_DEEP, RK_LEVELS };
enum rk_verdict { RK_V_SKIPPED, RK_V_PASS, RK_V_WARN, RK_V_UNKNOWN, RK_V_FAIL }; /* better to worse */

struct rk_texts {
	const char **items;
	size_t n;
};
struct rk_step {
	double up_to, value, warn;
	bool has_warn;
};
struct rk_rule {
	const char *id, *metric, *compare, *expect, *of, *scope, *side, *effect, *severity, *after, *when, *kind, *cause, *message, *hint, *source, *per, *each;
	struct rk_texts collectors, values, warn_values, unknown_values, skip_values; /* values: texts of `value` when it is text or an array of texts */
	double numbers[2];           /* of `value`: one, or two for between */
	int n_numbers;
	double factor, warn, tolerance, floor, grace, strikes;
	bool has_warn, required, optional;
	struct rk_step *steps;
	size_t n_steps;
	enum rk_level level;
};
struct rk_hprofile {
	struct rk_arena *arena;
	const char *name, *description, *inherits;
	struct rk_texts levels[RK_LEVELS]; /* cumulative */
	struct rk_own_collector *own; /* collectors of the site */
	size_t n_own;
	struct rk_rule *rules;
	size_t n_rules;
};
/* Built-in or the profile's own; NULL when there is none. *ret_place: a number that is different for each, below RK_COLLECTORS_MAX. */
const struct rk_collector *rk_hprofile_collector(const struct rk_hprofile *profile, const char *name, size_t *ret_place);
const struct rk_own_collector *rk_hprofile_own(const struct rk_hprofile *profile, const char *name);

/* False for another word. */
bool rk_level_parse(const char *text, enum rk_level *ret);
bool rk_cause_known(const char *name);
const char *rk_verdict_name(enum rk_verdict verdict);
bool rk_texts_have(const struct rk_texts *texts, const char *text); /* without case */

/* One instance of a metric against a rule; judge.c does scopes and reports. */
struct rk_target_metrics {
	const struct rk_target *target;
	struct rk_metrics *of;       /* per evidence of the target; items sorted by name (stable) */
	const char **reason;         /* per evidence: why it brought nothing, or NULL */
	int domain_size;             /* targets of the same cluster and rack; 0 = no cluster */
	struct rk_memory *past;      /* per target->past */
	double uptime_s;             /* -1: not known */
};
struct rk_instance {
	const struct rk_metric *metric;
	enum rk_verdict verdict;
	const char *value;           /* as shown */
	double number;
	bool has_number;
	uint64_t parts;              /* of the target, when not its label tells them: judge.h */
};
/* Instances of `name` among sorted metrics: first and count. */
size_t rk_metrics_range(const struct rk_metrics *m, const char *name, const struct rk_metric **ret_first);
/* What the rule expects of this target, as shown; NULL when nothing is known (the rule is then skipped). */
/* The same of a target that is beyond `warn` only; NULL: the rule has none, or any fault of it is a warning. */
const char *rk_rule_expected_warn(const struct rk_rule *rule, const struct rk_target_metrics *t, const struct rk_metrics *m, struct rk_arena *arena);
const char *rk_rule_expected(const struct rk_rule *rule, const struct rk_target_metrics *t, const struct rk_metrics *m, struct rk_arena *arena);
void rk_rule_instance(const struct rk_rule *rule, const struct rk_target_metrics *t, const struct rk_metrics *m, struct rk_arena *arena,
		      struct rk_instance *instance);
