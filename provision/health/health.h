/* Health: collectors -> metrics -> rules -> verdict (DESIGN section 7). Parsers and rules are pure; only rk_collect touches hosts. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "inventory/base/json.h"
#include "inventory/base/mem.h"
#include "provision/world.h"

/* Metrics: name{labels} value. */
enum rk_metric_type { RK_METRIC_NUMBER, RK_METRIC_TEXT, RK_METRIC_ABSENT };
struct rk_metric {
	const char *name;                 /* "gpu.fabric.state" */
	const char *label;                /* "gpu=2", "rail=1", "gpu=2,link=8", or "" */
	enum rk_metric_type type;
	double number;
	const char *text;                 /* value, or for ABSENT the reason: "N/A", "row missing", "command missing", "timed out", ... */
};
/* Names and labels are static texts or in the arena; values are copied into it. */
struct rk_metrics {                       /* of one target */
	struct rk_arena *arena;
	struct rk_metric *items; size_t n, cap;
	bool full;                        /* there were more than are kept */
};
void rk_metric_number(struct rk_metrics *m, const char *name, const char *label, double v);
void rk_metric_text(struct rk_metrics *m, const char *name, const char *label, const char *v);
void rk_metric_absent(struct rk_metrics *m, const char *name, const char *label, const char *reason);
const struct rk_metric *rk_metric_find(const struct rk_metrics *m, const char *name, const char *label);

/* What one collector brought back from one target. */
struct rk_evidence {
	const char *collector;
	const char *out; size_t out_len;  /* bytes of the remote host: hostile */
	const char *err; size_t err_len;
	const char *status;               /* exit code as text, or "timeout", "unreachable", "signal:N" */
};
/* What a target should be. */
struct rk_expect {
	int nvlink_partition;             /* 0 = none / not known */
	const char *cluster_uuid;
	uint16_t pkeys[8]; size_t n_pkeys; /* 15 bit */
	int gpus, rails;
	uint64_t port_guids[RK_RAILS_MAX]; size_t n_port_guids; /* of the tray's HCA ports, rail by rail; 0 = not known */
	const char *leaves[RK_RAILS_MAX]; int leaf_ports[RK_RAILS_MAX]; /* where the cable of each of these ports ends; NULL = not known */
	int rate_gbps;                    /* InfiniBand port rate; 0 = what the health profile says */
	bool no_pkeys;                    /* known to be in no tenant's partition (a free tray); else an empty list says nothing */
	uint16_t services[8]; size_t n_services; /* keys of shared services: limited membership is right */
	bool pkey_limited;                /* the tenant's ports are limited members of their own key */
};
/* What an earlier validation measured on the target: provision/health/memory.h. */
struct rk_past {
	int64_t at_ms;                    /* unix */
	const char *body;
};
struct rk_target {
	const char *name, *kind;          /* kind: vm | tray | switch */
	const char *rack, *cluster, *tray;
	const char *address;              /* how its peers know it (IMEX node list); NULL: not known */
	struct rk_expect expect;
	struct rk_evidence *evidence; size_t n_evidence;
	int64_t at_ms;                    /* unix: when it was asked; 0 = not known (replay) */
	const struct rk_past *past; size_t n_past; /* newest first; none in a replay */
	const struct rk_silence **silences; size_t n_silences; /* that hold for it now */
};

/* A collector: the remote command and its parser. */
struct rk_collector {
	const char *name;                 /* CLI.md */
	const char *command;              /* fixed text for sh, no outside data in it; NULL: not from a shell on the target */
	void (*parse)(const struct rk_evidence *evidence, struct rk_metrics *ret);
	int seconds;                      /* how long it usually takes; 0: a moment */
};
const struct rk_collector *rk_collector_find(const char *name);
const struct rk_collector *rk_collectors(size_t *ret_n);
enum { RK_COLLECTORS_MAX = 64 };          /* with those of a profile */

/* Profile: racksh-profile(5). Built-in by name, or a file. */
struct rk_hprofile;
int rk_hprofile_load(const char *name_or_path, struct rk_hprofile **ret, struct rk_err *err);
void rk_hprofile_free(struct rk_hprofile *profile);
void rk_cleanup_hprofile(struct rk_hprofile **profile);
const char *rk_hprofile_name(const struct rk_hprofile *profile);
const char *const *rk_hprofiles(size_t *ret_n); /* names of the built-in ones */
/* Adds the ids of the rules of a profile, those not there yet, up to max; a profile that cannot be loaded has none. In the arena. */
void rk_hprofile_checks(const char *name, struct rk_arena *arena, const char **ids, size_t max, size_t *n);
const char *rk_hprofile_for(const struct rk_site *site, int vm); /* name of the one for the kind of rack the VM is in */

struct rk_check {                         /* one row per check, verdict and value */
	const char *id, *verdict;         /* pass | warn | fail | unknown | skipped */
	const char *severity, *value, *expected, *message, *hint;
	const char *source;               /* where the threshold is from, or NULL */
	bool cordon;                      /* the rule asks to cordon the trays of a fault */
	const char **targets; size_t n_targets;
	const char *folded;
	const struct rk_silence *silence; /* verdict is skipped because of it, or NULL */
	const char *silenced;             /* what the verdict would be, or NULL */
};
struct rk_report {
	const char *verdict, *level, *profile;
	double power_kw, module_kw;       /* of the targets' trays and of their GPU modules together; NAN: not all of them were read */
	double energy_seconds, energy_kwh, mean_kw; /* the same over the time that was measured; kWh from energy counters only */
	double facility_kw, pue;          /* of the site, when it names a meter and all of it was read; NAN else. Set by who writes the report */
	const char *pue_unknown;          /* why it is not known, though the site names a meter, or NULL. Likewise */
	int64_t started_ms;               /* unix, when it was asked; of a replay when the evidence was kept, 0: it does not say */
	double seconds;
	size_t targets;
	const struct rk_target *target_list; /* what was judged; borrowed */
	struct rk_check *checks; size_t n_checks;           /* worst first */
	const char **root_causes; size_t n_root_causes;     /* most fundamental first */
	const char **memories;            /* per target: what later validations compare with, or NULL */
	struct rk_trend *trends; size_t n_trends;           /* counters that grow faster and faster */
};
/* A counter that grew in the last intervals between validations, each time faster. */
struct rk_trend {
	const char *target, *metric, *label;
	double per_hour[8]; size_t n;     /* oldest first */
};
/* Pure: evidence of all targets + profile -> report. In the arena. */
int rk_judge(const struct rk_hprofile *profile, const char *level, const struct rk_target *targets, size_t n, struct rk_arena *arena,
	     struct rk_report *ret, struct rk_err *err);
int rk_report_rc(const struct rk_report *report, bool strict); /* 0, RK_UNHEALTHY, RK_UNREACHABLE */

/* Runs the collectors of the level on the VMs (indexes into world->site->vms), one connection each, in parallel; measurements that need several VMs
 * within each cluster. Targets of one cluster stand side by side, else in the order of the VMs. total_ms: for everything that
 * is asked of one VM over its connection, and that connection; 0: 5 times as long as it usually takes, and at least 3 minutes. What came until then counts. */
int rk_collect(struct rk_world *world, const struct rk_hprofile *profile, const char *level, int total_ms, const int *vms, size_t n,
	       struct rk_arena *arena, struct rk_target **ret, struct rk_err *err);
/* Trays that failed a check that asks for a cordon, folded, and the checks; NULL when there are none. In the arena. */
const char *rk_report_cordon(const struct rk_report *report, struct rk_arena *arena, const char **ret_checks);
/* Evidence folders (CLI.md). */
int rk_evidence_save(const char *dir, const struct rk_target *targets, size_t n, struct rk_err *err);
/* *ret_kept_ms: unix, when it was saved; 0: the manifest does not say. */
int rk_evidence_load(const char *dir, struct rk_arena *arena, struct rk_target **ret, size_t *ret_n, int64_t *ret_kept_ms, struct rk_err *err);
