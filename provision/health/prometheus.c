#include "provision/health/prometheus.h"

#include <stdio.h>
#include <string.h>

#include "inventory/base/json.h"
#include "inventory/base/map.h"
#include "provision/health/history.h"

struct export {
	const struct rk_site *site;
	int cluster;          /* or RK_NONE */
	struct rk_str *out;
};

/* Label values: backslash, quote and newline are escaped. */
static void add_label(struct rk_str *out, const char *name, const char *value, bool first)
{
	rk_str_addf(out, "%s%s=\"", first ? "{" : ",", name);
	for (const char *p = value ? value : ""; *p; p++) {
		if (*p == '\\' || *p == '"')
			rk_str_addc(out, '\\');
		rk_str_add(out, *p == '\n' ? "\\n" : (const char[]){ *p, '\0' });
	}
	rk_str_addc(out, '"');
}

/* labels: name, value, name, value, ..., NULL. */
static void sample(struct export *x, const char *metric, const char *const *labels, double value)
{
	rk_str_add(x->out, metric);
	for (size_t i = 0; labels && labels[i]; i += 2)
		add_label(x->out, labels[i], labels[i + 1], i == 0);
	rk_str_addf(x->out, "%s %.15g\n", labels && labels[0] ? "}" : "", value);
}

static bool shows_rack(const struct export *x, int rack)
{
	const struct rk_cluster *c = x->cluster >= 0 ? &x->site->clusters[x->cluster] : NULL;
	bool found = !c;

	for (int v = 0; c && v < c->n_vms && !found; v++) {
		int tray = x->site->vms[c->first_vm + v].tray;
		found = tray >= 0 && x->site->trays[tray].rack == rack;
	}
	return found;
}

static bool shows_tray(const struct export *x, int tray)
{
	int vm = x->site->trays[tray].vm;

	return x->cluster < 0 || (vm >= 0 && x->site->vms[vm].cluster == x->cluster);
}

static void site_info(struct export *x, const char *metric)
{
	sample(x, metric, (const char *const[]){ "site", x->site->name, "region", x->site->region, NULL }, 1);
}

static void rack_trays(struct export *x, const char *metric)
{
	for (size_t r = 0; r < x->site->n_racks; r++) {
		int counts[RK_TRAY_OFFLINE + 1] = { 0 };
		if (!shows_rack(x, (int)r))
			continue;
		for (int t = 0; t < x->site->racks[r].n_trays; t++)
			counts[rk_tray_state(x->site, x->site->racks[r].first_tray + t)]++;
		for (int state = 0; state <= RK_TRAY_OFFLINE; state++)
			sample(x, metric, (const char *const[]){ "rack", x->site->racks[r].name, "state", rk_tray_state_name((enum rk_tray_state)state), NULL },
			       counts[state]);
	}
}

static void rack_budget(struct export *x, const char *metric)
{
	for (size_t r = 0; r < x->site->n_racks; r++) {
		if (shows_rack(x, (int)r))
			sample(x, metric, (const char *const[]){ "rack", x->site->racks[r].name, NULL }, x->site->racks[r].power_kw * 1000);
	}
}

static void rack_committed(struct export *x, const char *metric)
{
	for (size_t r = 0; r < x->site->n_racks; r++) {
		if (shows_rack(x, (int)r))
			sample(x, metric, (const char *const[]){ "rack", x->site->racks[r].name, NULL }, rk_rack_kw_committed(x->site, (int)r) * 1000);
	}
}

static void rack_cordoned(struct export *x, const char *metric)
{
	for (size_t r = 0; r < x->site->n_racks; r++) {
		if (shows_rack(x, (int)r))
			sample(x, metric, (const char *const[]){ "rack", x->site->racks[r].name, NULL }, x->site->racks[r].cordon != NULL);
	}
}

static void tray_state(struct export *x, const char *metric)
{
	for (size_t t = 0; t < x->site->n_trays; t++) {
		const struct rk_tray *tray = &x->site->trays[t];
		if (shows_tray(x, (int)t))
			sample(x, metric,
			       (const char *const[]){ "tray", tray->name, "rack", x->site->racks[tray->rack].name, "state",
						      rk_tray_state_name(rk_tray_state(x->site, (int)t)), NULL },
			       1);
	}
}

static void tray_vm(struct export *x, const char *metric)
{
	for (size_t t = 0; t < x->site->n_trays; t++) {
		const struct rk_tray *tray = &x->site->trays[t];
		const struct rk_vm *vm = tray->vm >= 0 ? &x->site->vms[tray->vm] : NULL;
		if (vm && shows_tray(x, (int)t))
			sample(x, metric,
			       (const char *const[]){ "tray", tray->name, "rack", x->site->racks[tray->rack].name, "vm", vm->name, "cluster",
						      x->site->clusters[vm->cluster].name, NULL },
			       1);
	}
}

/* One cluster's label set, for each cluster shown. */
static void each_cluster(struct export *x, const char *metric, double (*value)(const struct rk_site *site, const struct rk_cluster *c))
{
	for (size_t i = 0; i < x->site->n_clusters; i++) {
		const struct rk_cluster *c = &x->site->clusters[i];
		if (x->cluster < 0 || x->cluster == (int)i)
			sample(x, metric, (const char *const[]){ "cluster", c->name, "tenant", x->site->tenants[c->tenant].name, NULL }, value(x->site, c));
	}
}

static double count_vms(const struct rk_site *site, const struct rk_cluster *c)
{
	(void)site;
	return c->n_vms;
}

static double count_gpus(const struct rk_site *site, const struct rk_cluster *c)
{
	int n = 0;

	for (int v = 0; v < c->n_vms; v++)
		n += site->vms[c->first_vm + v].tray >= 0 ? site->trays[site->vms[c->first_vm + v].tray].n_gpus : 0;
	return n;
}

static void cluster_vms(struct export *x, const char *metric)
{
	each_cluster(x, metric, count_vms);
}

static void cluster_gpus(struct export *x, const char *metric)
{
	each_cluster(x, metric, count_gpus);
}

static void cluster_state(struct export *x, const char *metric)
{
	for (size_t i = 0; i < x->site->n_clusters; i++) {
		const struct rk_cluster *c = &x->site->clusters[i];
		if (x->cluster < 0 || x->cluster == (int)i)
			sample(x, metric, (const char *const[]){ "cluster", c->name, "state", rk_cluster_state_name(c->state), NULL }, 1);
	}
}

/* A cluster that was never validated has no sample: that is not the same as a verdict. */
static void cluster_verdict(struct export *x, const char *metric)
{
	for (size_t i = 0; i < x->site->n_clusters; i++) {
		const struct rk_cluster *c = &x->site->clusters[i];
		struct rk_json *json RK_CLEANUP_JSON = NULL;
		if ((x->cluster >= 0 && x->cluster != (int)i) || !c->validation || rk_json_parse("validation", c->validation, strlen(c->validation), &json, NULL))
			continue;
		const char *verdict = rk_jstr(rk_jget(rk_json_root(json), "verdict")), *level = rk_jstr(rk_jget(rk_json_root(json), "level"));
		sample(x, metric, (const char *const[]){ "cluster", c->name, "verdict", verdict, "level", level, NULL }, 1);
	}
}

/* The kept validation of each cluster shown. */
static void each_kept(struct export *x, const char *metric, void (*fn)(struct export *x, const char *metric, const char *cluster, const struct rk_jnode *kept))
{
	for (size_t i = 0; i < x->site->n_clusters; i++) {
		const struct rk_cluster *c = &x->site->clusters[i];
		struct rk_json *json RK_CLEANUP_JSON = NULL;
		if ((x->cluster < 0 || x->cluster == (int)i) && c->validation && !rk_json_parse("validation", c->validation, strlen(c->validation), &json, NULL))
			fn(x, metric, c->name, rk_json_root(json));
	}
}

static void power_of(struct export *x, const char *metric, const char *cluster, const struct rk_jnode *kept)
{
	double kw;

	if (rk_jdouble(rk_jget(kept, "power_kw"), &kw))
		sample(x, metric, (const char *const[]){ "cluster", cluster, NULL }, kw * 1000);
}

static void cluster_power(struct export *x, const char *metric)
{
	each_kept(x, metric, power_of);
}

static bool same_finding(const struct rk_jnode *a, const struct rk_jnode *b)
{
	return rk_streq(rk_jstr(rk_jget(a, "check")), rk_jstr(rk_jget(b, "check"))) && rk_streq(rk_jstr(rk_jget(a, "verdict")), rk_jstr(rk_jget(b, "verdict")));
}

/* Who they are is no label: it changes with every host, and each time another series would begin. */
static void findings_of(struct export *x, const char *metric, const char *cluster, const struct rk_jnode *kept)
{
	RK_JEACH(item, rk_jget(kept, "findings")) {
		const struct rk_jnode *first = NULL;
		double n, all = 0;
		RK_JEACH(other, rk_jget(kept, "findings")) {
			if (!same_finding(item, other))
				continue;
			first = first ? first : other;
			all += rk_jdouble(rk_jget(other, "n"), &n) ? n : 0;
		}
		if (first == item)
			sample(x, metric,
			       (const char *const[]){ "cluster", cluster, "check", rk_jstr(rk_jget(item, "check")), "verdict", rk_jstr(rk_jget(item, "verdict")), NULL }, all);
	}
}

static void cluster_findings(struct export *x, const char *metric)
{
	each_kept(x, metric, findings_of);
}

static void targets_with(struct export *x, const char *metric, const char *cluster, const struct rk_jnode *kept, const char *verdict)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_map *counts RK_CLEANUP_MAP = rk_map_new();
	struct {
		const char **items;
		size_t n, cap;
	} names = { 0 };

	RK_JEACH(item, rk_jget(kept, "findings")) {
		struct rk_nodeset set = rk_history_targets(rk_jstr(rk_jget(item, "targets")), arena);
		for (size_t i = 0; rk_streq(rk_jstr(rk_jget(item, "verdict")), verdict) && i < set.n; i++) {
			size_t n = 0;
			if (!rk_map_get(counts, set.names[i], &n))
				*rk_vec_push(&names) = set.names[i];
			rk_map_set(counts, set.names[i], n + 1);
		}
	}
	struct rk_nodeset all = { names.items, names.n };
	rk_nodeset_sort(&all);
	for (size_t i = 0; i < all.n; i++) {
		size_t n = 0;
		rk_map_get(counts, all.names[i], &n);
		sample(x, metric, (const char *const[]){ "cluster", cluster, "target", all.names[i], "verdict", verdict, NULL }, (double)n);
	}
	free(names.items);
}

static void targets_of(struct export *x, const char *metric, const char *cluster, const struct rk_jnode *kept)
{
	static const char *const verdicts[] = { "fail", "unknown", "warn" };

	for (size_t i = 0; i < RK_ARRAY_SIZE(verdicts); i++)
		targets_with(x, metric, cluster, kept, verdicts[i]);
}

static void target_findings(struct export *x, const char *metric)
{
	each_kept(x, metric, targets_of);
}

/* Ended ones say nothing any more; the moment it was read is what "now" is. */
static void silences(struct export *x, const char *metric)
{
	for (size_t i = 0; x->cluster < 0 && i < x->site->n_silences; i++) {
		const struct rk_silence *s = &x->site->silences[i];
		char id[24];
		snprintf(id, sizeof(id), "%lld", (long long)s->id);
		if (x->site->read_unix_ms < s->to_unix_ms)
			sample(x, metric, (const char *const[]){ "id", id, "trays", s->trays, "checks", s->checks ? s->checks : "*", "reason", s->reason, NULL },
			       (double)s->to_unix_ms / 1000);
	}
}

void rk_prometheus(const struct rk_site *site, int cluster, struct rk_str *out)
{
	static const struct {
		const char *name, *help;
		void (*fn)(struct export *x, const char *metric);
	} metrics[] = {
		{ "racksh_site_info", "The site this store describes; always 1.", site_info },
		{ "racksh_rack_trays", "Compute trays of a rack by state.", rack_trays },
		{ "racksh_rack_power_budget_watts", "Power budget of a rack.", rack_budget },
		{ "racksh_rack_power_committed_watts", "Power promised to the VMs of a rack.", rack_committed },
		{ "racksh_rack_cordoned", "Whether a rack is cordoned (1) or not (0).", rack_cordoned },
		{ "racksh_tray_state", "State of a compute tray; 1 for the state it is in.", tray_state },
		{ "racksh_tray_vm", "Who is on a compute tray; always 1.", tray_vm },
		{ "racksh_cluster_state", "State of a cluster; 1 for the state it is in.", cluster_state },
		{ "racksh_cluster_vms", "VMs of a cluster.", cluster_vms },
		{ "racksh_cluster_gpus", "GPUs of a cluster.", cluster_gpus },
		{ "racksh_cluster_validation_verdict", "Last validation of a whole cluster; 1 for its verdict.", cluster_verdict },
		{ "racksh_cluster_power_watts", "Power of a cluster's trays when it was last validated.", cluster_power },
		{ "racksh_check_targets", "Targets of the last validation that a check did not pass on, by verdict.", cluster_findings },
		{ "racksh_target_findings", "Checks that a target did not pass when its cluster was last validated, by verdict.", target_findings },
		{ "racksh_silence_end_timestamp_seconds", "When a silence of health findings ends.", silences },
	};
	struct export x = { site, cluster, out };

	for (size_t i = 0; i < RK_ARRAY_SIZE(metrics); i++) {
		size_t before = out->len;
		rk_str_addf(out, "# HELP %s %s\n# TYPE %s gauge\n", metrics[i].name, metrics[i].help, metrics[i].name);
		size_t head = out->len;
		metrics[i].fn(&x, metrics[i].name);
		if (out->len == head) { /* a family without samples says nothing */
			out->len = before;
			out->text[before] = '\0';
		}
	}
}
