/* Root causes: what has to be repaired first, so that the rest can be judged again. */
#include <stdlib.h>
#include <string.h>

#include "inventory/base/map.h"
#include "inventory/base/nodeset.h"
#include "inventory/base/str.h"
#include "provision/health/judge.h"

enum { CAUSES_MAX = 32 };

/* Most fundamental first. A partition comes before what is built on it; a link that is down may be the sign of all before it.
 * after: causes (bits of this table) that already explain this one, on the same target or, with `domain`, anywhere in its NVLink domain.
 * covers: the parts of a target that the cause stands for when it does not tell them. Parts that failed are explained by what was found of the
 * same parts only: two ports can be bad at once.
 * A cause in its own list is named once per part, by the first rule that finds it. An explained fault stays in the rows of the report; blaming it here would send people to the wrong place. */
enum cause { DRIVER, PARTITION, FABRIC, IMEX_LIST, IMEX_VERSION, IMEX_CHANNEL, IMEX_SERVICE, IMEX, XID, GPU, LINK, PKEY, IB_LINK, COOLING, HOST, SITE, CAUSES };
#define BIT(cause) (1u << (cause))
#define NVLINK_CHAIN (BIT(DRIVER) | BIT(PARTITION) | BIT(FABRIC) | BIT(IMEX_LIST) | BIT(IMEX_VERSION) | BIT(IMEX_CHANNEL) | BIT(IMEX_SERVICE))
static const struct {
	const char *name, *words;
	unsigned after;
	bool domain;
	uint64_t covers;
} causes[CAUSES] = {
	[DRIVER] = { "driver", "GPU driver", BIT(DRIVER), false, RK_GPU_PARTS },
	[PARTITION] = { "partition", "NVLink partition", BIT(DRIVER) | BIT(PARTITION), false, RK_GPU_PARTS },
	[FABRIC] = { "fabric", "NVLink fabric registration", BIT(DRIVER) | BIT(PARTITION) | BIT(FABRIC), false, RK_GPU_PARTS },
	[IMEX_LIST] = { "imex-list", "IMEX node list", BIT(IMEX_LIST), false, 0 },
	[IMEX_VERSION] = { "imex-version", "IMEX version", BIT(IMEX_VERSION), false, 0 },
	[IMEX_CHANNEL] = { "imex-channel", "IMEX channel device", BIT(IMEX_CHANNEL), false, 0 },
	[IMEX_SERVICE] = { "imex-service", "IMEX service", BIT(IMEX_LIST) | BIT(IMEX_VERSION) | BIT(IMEX_SERVICE), false, 0 },
	[IMEX] = { "imex", "IMEX domain", NVLINK_CHAIN, true, 0 },
	[XID] = { "xid", "GPU fault", 0, false, RK_GPU_PARTS },
	[GPU] = { "gpu", "GPU", BIT(DRIVER), false, 0 },
	[LINK] = { "link", "NVLink", BIT(DRIVER) | BIT(PARTITION) | BIT(FABRIC) | BIT(LINK), false, RK_GPU_PARTS },
	[PKEY] = { "pkey", "InfiniBand partition", BIT(PKEY), false, RK_RAIL_PARTS },
	[IB_LINK] = { "ib-link", "InfiniBand port", BIT(IB_LINK), false, RK_RAIL_PARTS },
	[COOLING] = { "cooling", "liquid cooling", 0, false, 0 },
	[HOST] = { "host", "host", 0, false, RK_ALL_PARTS },
	[SITE] = { "site", "check of the site", 0, false, 0 },
};

/* A measurement under load suffers from other faults than those of its own kind: which ones on its target, and which ones anywhere in its NVLink
 * domain. What it finds beyond them is a cause of its own. The first row that fits is used. */
#define EVERY (BIT(CAUSES) - 1)
static const struct measured {
	const char *prefix;
	unsigned here, domain;
	bool anywhere;
} measured[] = {
	{ "act.nccl.racks", EVERY, EVERY, true }, /* one sick tray slows its whole rack, and each rack that is measured with it */
	{ "act.nccl.domain", EVERY, EVERY, false },
	{ "act.nccl", EVERY, NVLINK_CHAIN, false },
	{ "act.ib", BIT(PKEY) | BIT(IB_LINK), 0, false },
	{ "act.", BIT(DRIVER) | BIT(PARTITION) | BIT(FABRIC) | BIT(XID) | BIT(GPU) | BIT(LINK) | BIT(HOST), 0, false },
};

struct causes {
	struct rk_judge *j;
	struct rk_report *report;
	unsigned *target;    /* per target: causes named so far */
	uint64_t (*parts)[CAUSES]; /* per target and cause: the parts it was named for */
	struct rk_map *keys; /* "cluster/rack" -> index into domain */
	unsigned *domain;    /* per domain */
	size_t *domain_of;   /* per target */
	size_t dropped;      /* causes beyond CAUSES_MAX */
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

enum { CABLES_MAX = 4 };

/* What to pull: "; cable r01-t03 rail 1 to leaf-2 port 7", for each port that the rule found bad. */
static const char *cables(const struct rk_judge *j, const struct rk_rule *rule, enum cause cause, const struct bucket *b)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	int n = 0;

	for (size_t i = 0; cause == IB_LINK && i < b->n; i++) {
		const struct rk_target *t = j->targets[b->targets[i]].target;
		const char *tray = t->tray ? t->tray : t->name;
		uint64_t parts = rk_outcome_of(j, (size_t)(rule - j->profile->rules), b->targets[i])->parts;
		for (int rail = 0; rail < RK_RAILS_MAX && n < CABLES_MAX; rail++) {
			if (!(parts & (uint64_t)1 << (RK_FIRST_RAIL + rail)))
				continue;
			if (t->expect.leaves[rail])
				rk_str_addf(&text, "; cable %s rail %d to %s port %d", tray, rail, t->expect.leaves[rail], t->expect.leaf_ports[rail]);
			else
				rk_str_addf(&text, "; cable of %s rail %d", tray, rail);
			n++;
		}
	}
	return rk_arena_strdup(j->arena, rk_str_text(&text));
}

static void name(struct causes *c, const char *text)
{
	if (c->report->n_root_causes == CAUSES_MAX)
		c->dropped++;
	else
		c->report->root_causes[c->report->n_root_causes++] = text;
}

static void add(struct causes *c, const struct rk_rule *rule, enum cause cause, const struct bucket *b)
{
	struct rk_judge *j = c->j;
	const char *hint = rule->hint ? rk_arena_printf(j->arena, "; %s", rule->hint) : "";

	name(c, rk_arena_printf(j->arena, "%s: %s%s: %s (found %s, expected %s)%s%s", causes[cause].words, where(j, b->targets, b->n),
				wanted_partition(j, rule->cause, b), rule->message ? rule->message : rule->id, b->value ? b->value : "nothing",
				b->expected ? b->expected : "otherwise", hint, cables(j, rule, cause, b)));
}

static void note(struct causes *c, size_t r, enum cause cause, size_t target)
{
	uint64_t parts = rk_outcome_of(c->j, r, target)->parts;

	c->parts[target][cause] |= parts ? parts : causes[cause].covers;
	c->target[target] |= BIT(cause);
	c->domain[c->domain_of[target]] |= BIT(cause);
}

static const struct measured *measured_by(const struct rk_rule *rule)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(measured); i++) {
		if (rk_starts_with(rule->id, measured[i].prefix))
			return &measured[i];
	}
	return NULL;
}

/* Do causes among `by` that were named for the target explain what is wrong with these parts of it (0: not told by parts)? */
static bool explains(const struct causes *c, unsigned by, size_t target, uint64_t parts)
{
	uint64_t named = 0;

	for (int k = 0; k < CAUSES; k++) {
		if (by & BIT(k))
			named |= c->parts[target][k];
	}
	return parts ? (parts & ~named) == 0 : (c->target[target] & by) != 0;
}

static bool explained(const struct causes *c, const struct rk_rule *rule, enum cause cause, size_t target, uint64_t parts)
{
	const struct measured *m = measured_by(rule);
	unsigned domain = c->domain[c->domain_of[target]];

	if (!m)
		return causes[cause].domain ? (domain & causes[cause].after) != 0 : explains(c, causes[cause].after, target, parts);
	return (m->anywhere && c->report->n_root_causes > 0) || (domain & m->domain) || explains(c, m->here, target, parts);
}

static bool failed(const struct causes *c, const struct rk_rule *rule, size_t r, enum cause cause, size_t target)
{
	const struct rk_outcome *o = rk_outcome_of(c->j, r, target);

	return o->applies && o->verdict == RK_V_FAIL && !explained(c, rule, cause, target, o->parts);
}

/* A measurement has another value on each target: those beyond the first ones are one cause. Returns how many are left. */
static size_t join_values(struct rk_judge *j, struct bucket *items, size_t n)
{
	enum { VALUES_MAX = 8 };

	if (n <= VALUES_MAX)
		return n;
	struct bucket *rest = &items[VALUES_MAX - 1];
	for (size_t i = VALUES_MAX; i < n; i++) {
		memcpy(rest->targets + rest->n, items[i].targets, items[i].n * sizeof(*rest->targets));
		rest->n += items[i].n;
		rest->expected = rk_streq(rest->expected, items[i].expected) ? rest->expected : NULL;
	}
	rest->value = rk_arena_printf(j->arena, "%zu other values", n - VALUES_MAX + 1);
	return VALUES_MAX;
}

/* Failed targets of one rule, one root cause per value. */
static void rule_causes(struct causes *c, size_t r, enum cause cause)
{
	struct rk_judge *j = c->j;
	const struct rk_rule *rule = &j->profile->rules[r];
	struct rk_map *values RK_CLEANUP_MAP = rk_map_new();
	struct {
		struct bucket *items;
		size_t n, cap;
	} buckets = { 0 };

	for (size_t i = 0; i < j->n; i++) {
		const struct rk_outcome *o = rk_outcome_of(j, r, i);
		size_t at;
		if (!failed(c, rule, r, cause, i))
			continue;
		const char *key = rk_arena_printf(j->arena, "%s|%s", o->value ? o->value : "", o->expected ? o->expected : "");
		if (!rk_map_get(values, key, &at)) {
			at = buckets.n;
			rk_map_set(values, key, at);
			*rk_vec_push(&buckets) = (struct bucket){ o->value, o->expected, rk_arena_array(j->arena, j->n, sizeof(size_t)), 0 };
		}
		buckets.items[at].targets[buckets.items[at].n++] = i;
	}
	buckets.n = join_values(j, buckets.items, buckets.n);
	for (size_t i = 0; i < buckets.n; i++)
		add(c, rule, cause, &buckets.items[i]);
	free(buckets.items);
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
static void xid_causes(struct causes *c, size_t r, enum cause cause)
{
	struct rk_judge *j = c->j;
	struct xid *found = rk_xcalloc(j->n + 1, sizeof(*found));
	size_t n = 0;

	for (size_t i = 0; i < j->n; i++) {
		const struct rk_metric *first = metric(j, i, "xid.first"), *echo = metric(j, i, "xid.first.sympathetic");
		const struct rk_metric *time = metric(j, i, "xid.first.time");
		if (!first || !first->text || !failed(c, &j->profile->rules[r], r, cause, i))
			continue;
		found[n++] = (struct xid){ i, echo && echo->number > 0, time && time->type == RK_METRIC_NUMBER ? time->number : 1e300, first->text };
	}
	qsort(found, n, sizeof(*found), by_time);
	for (size_t i = 0; i < n && (i == 0 || !found[i].sympathetic); i++)
		name(c, rk_arena_printf(j->arena, "%s: %s: %s%s", causes[cause].words, where(j, &found[i].target, 1), found[i].text,
					i == 0 && n > 1 ? ", the earliest" : ""));
	free(found);
}

/* The nodes that are not READY, by the address the others know them by: a node that is down cannot speak for itself, and its peers must
 * not be blamed for seeing it. */
struct sick_nodes {
	struct rk_map *seen;
	const char **names;
	size_t n;
	size_t *targets, n_targets; /* who saw them */
};

/* Who has this address or host name; NULL when no target of the run. */
static const char *node_name(struct rk_judge *j, const struct rk_metrics *m, const char *label)
{
	const struct rk_metric *host = rk_metric_find(m, "imex.node.host", label), *name = rk_metric_find(m, "imex.node.name", label);

	for (size_t i = 0; i < j->n; i++) {
		const struct rk_target *t = j->targets[i].target;
		if ((host && rk_streq(t->address, host->text)) || (name && (rk_streq(t->name, name->text) || rk_streq(t->tray, name->text))))
			return t->tray && strcmp(t->tray, t->name) != 0 ? rk_arena_printf(j->arena, "%s on %s", t->name, t->tray) : t->name;
	}
	return host ? rk_arena_printf(j->arena, "%s (%s)", label, host->text) : label;
}

static void sick_nodes_of(struct rk_judge *j, size_t target, struct sick_nodes *sick)
{
	const struct rk_target_metrics *t = &j->targets[target];

	for (size_t e = 0; e < t->target->n_evidence; e++) {
		const struct rk_metric *state;
		size_t n = rk_metrics_range(&t->of[e], "imex.node.state", &state);
		for (size_t i = 0; i < n; i++) {
			if (state[i].type != RK_METRIC_TEXT || strcmp(state[i].text, "READY") == 0)
				continue;
			const char *text = rk_arena_printf(j->arena, "%s is %s", node_name(j, &t->of[e], state[i].label), state[i].text);
			if (sick->n < CAUSES_MAX && rk_map_add(sick->seen, text, 1, NULL))
				sick->names[sick->n++] = text;
		}
	}
}

static void imex_node_causes(struct causes *c, size_t r, enum cause cause)
{
	struct rk_judge *j = c->j;
	const struct rk_rule *rule = &j->profile->rules[r];
	struct rk_map *seen RK_CLEANUP_MAP = rk_map_new();
	struct sick_nodes sick = { seen, rk_arena_array(j->arena, CAUSES_MAX, sizeof(char *)), 0, rk_arena_array(j->arena, j->n, sizeof(size_t)), 0 };

	for (size_t i = 0; i < j->n; i++) {
		if (!failed(c, rule, r, cause, i))
			continue;
		sick_nodes_of(j, i, &sick);
		sick.targets[sick.n_targets++] = i;
	}
	for (size_t i = 0; i < sick.n; i++)
		name(c, rk_arena_printf(j->arena, "%s: %s, as seen by %s; %s", causes[cause].words, sick.names[i], where(j, sick.targets, sick.n_targets),
					rule->hint ? rule->hint : "look at nvidia-imex there"));
}

static void map_domains(struct causes *c)
{
	struct rk_judge *j = c->j;

	for (size_t i = 0; i < j->n; i++) {
		const struct rk_target *t = j->targets[i].target;
		const char *key = t->cluster ? rk_arena_printf(j->arena, "%s/%s", t->cluster, t->rack ? t->rack : "") : rk_arena_printf(j->arena, "%zu", i);
		if (!rk_map_get(c->keys, key, &c->domain_of[i])) {
			c->domain_of[i] = rk_map_count(c->keys);
			rk_map_set(c->keys, key, c->domain_of[i]);
		}
	}
}

static void one_cause(struct causes *c, size_t r, enum cause cause)
{
	static const struct {
		const char *metric;
		void (*fn)(struct causes *c, size_t r, enum cause cause);
	} special[] = { { "xid.fatal.list", xid_causes }, { "imex.node.state", imex_node_causes } };
	const struct rk_rule *rule = &c->j->profile->rules[r];
	void (*fn)(struct causes *c, size_t r, enum cause cause) = rule_causes;
	bool *hit = rk_arena_array(c->j->arena, c->j->n + 1, sizeof(*hit));

	for (size_t i = 0; i < RK_ARRAY_SIZE(special); i++) {
		if (strcmp(special[i].metric, rule->metric) == 0)
			fn = special[i].fn;
	}
	for (size_t i = 0; i < c->j->n; i++)
		hit[i] = failed(c, rule, r, cause, i);
	fn(c, r, cause);
	for (size_t i = 0; i < c->j->n; i++) {
		if (hit[i])
			note(c, r, cause, i);
	}
}

/* A node that is not READY explains the broken links and the state of its domain: of these three only the first that failed is named. */
static bool is_imex_view(const struct rk_rule *rule)
{
	return strcmp(rule->cause, "imex") == 0;
}

/* Measurements come last: what can be seen without load explains them, whatever it is. */
static void causes_of(struct causes *c, bool measurements)
{
	for (int cause = 0; cause < CAUSES; cause++) {
		size_t before = c->report->n_root_causes;
		for (size_t r = 0; r < c->j->profile->n_rules; r++) {
			const struct rk_rule *rule = &c->j->profile->rules[r];
			bool other = !rule->cause || strcmp(rule->cause, causes[cause].name) != 0 || (measured_by(rule) != NULL) != measurements;
			if (!other && (!is_imex_view(rule) || c->report->n_root_causes == before))
				one_cause(c, r, (enum cause)cause);
		}
	}
}

void rk_judge_causes(struct rk_judge *j, struct rk_report *ret)
{
	struct rk_map *keys RK_CLEANUP_MAP = rk_map_new();
	struct causes c = { j, ret, rk_arena_array(j->arena, j->n + 1, sizeof(unsigned)), rk_arena_array(j->arena, j->n + 1, sizeof(uint64_t[CAUSES])), keys,
			    rk_arena_array(j->arena, j->n + 1, sizeof(unsigned)), rk_arena_array(j->arena, j->n + 1, sizeof(size_t)), 0 };

	map_domains(&c);
	ret->root_causes = rk_arena_array(j->arena, CAUSES_MAX + 1, sizeof(*ret->root_causes));
	causes_of(&c, false);
	causes_of(&c, true);
	if (c.dropped)
		ret->root_causes[ret->n_root_causes++] = rk_arena_printf(j->arena, "and %zu more: see the findings", c.dropped);
}

bool rk_cause_known(const char *name)
{
	for (int i = 0; i < CAUSES; i++) {
		if (strcmp(causes[i].name, name) == 0)
			return true;
	}
	return false;
}
