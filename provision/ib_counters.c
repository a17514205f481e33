#include "provision/ib_counters.h"

#include <string.h>

#include "inventory/base/data.h"
#include "inventory/base/diag.h"
#include "inventory/base/str.h"

/* Width of the counter in `perfquery` without -x (PortCounters of the InfiniBand specification, 16.1.3.5): where it stops. */
static const struct counter {
	const char *name;
	unsigned bits;
} counters[] = {
	{ "PortXmitData", 32 }, { "PortRcvData", 32 }, { "PortXmitPkts", 32 }, { "PortRcvPkts", 32 }, { "SymbolErrorCounter", 16 },
	{ "LinkErrorRecoveryCounter", 8 }, { "LinkDownedCounter", 8 }, { "PortRcvErrors", 16 }, { "PortRcvRemotePhysicalErrors", 16 },
	{ "PortRcvSwitchRelayErrors", 16 }, { "PortXmitDiscards", 16 }, { "PortXmitConstraintErrors", 8 }, { "PortRcvConstraintErrors", 8 },
	{ "LocalLinkIntegrityErrors", 4 }, { "ExcessiveBufferOverrunErrors", 4 }, { "VL15Dropped", 16 }, { "PortXmitWait", 32 }, { "QP1Dropped", 16 },
};
_Static_assert(RK_ARRAY_SIZE(counters) == RK_IB_COUNTERS, "one row per counter");
enum { XMIT_DATA = 0, RCV_DATA = 1, BITS_PER_UNIT = 32 };

const char *rk_ib_counter_name(size_t counter)
{
	return counter < RK_ARRAY_SIZE(counters) ? counters[counter].name : NULL;
}

int rk_ib_counter_find(const char *name, size_t len)
{
	for (size_t i = 0; i < RK_ARRAY_SIZE(counters); i++)
		if (strlen(counters[i].name) == len && memcmp(counters[i].name, name, len) == 0)
			return (int)i;
	return -1;
}

void rk_ib_counters_parse(const char *text, size_t len, bool extended, struct rk_ib_reading *ret)
{
	const char *end = text + len;

	for (const char *line = text; line < end;) {
		const char *eol = memchr(line, '\n', (size_t)(end - line)), *stop = eol ? eol : end, *colon = memchr(line, ':', (size_t)(stop - line));
		int at = colon ? rk_ib_counter_find(line, (size_t)(colon - line)) : -1;
		/* A line without its end may be a number without its end. */
		if (at >= 0 && eol && !ret->have[at]) {
			char digits[24] = "";
			const char *value = colon + 1;
			while (value < stop && *value == '.')
				value++;
			size_t n = (size_t)(stop - value);
			while (n && (value[n - 1] == '\r' || value[n - 1] == ' '))
				n--;
			if (n < sizeof(digits))
				memcpy(digits, value, n);
			ret->have[at] = rk_parse_u64(digits, &ret->value[at]);
			ret->narrow[at] = !extended;
		}
		line = stop + 1;
	}
}

/* ---- thresholds ------------------------------------------------------------------------------------------------------------------ */

static const char *builtin(size_t *ret_len)
{
	for (const struct rk_data *d = rk_data_files; d->path; d++)
		if (rk_streq(d->path, "provision/counters/default.json")) {
			*ret_len = d->len;
			return d->text;
		}
	return NULL;
}

static bool read_limit(struct rk_diags *diags, const struct rk_jnode *node, struct rk_ib_threshold *ret)
{
	static const struct {
		const char *key;
		double per_s;
	} rows[] = { { "any", 0 }, { "perSecond", 1 }, { "perMinute", 60 } };

	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++)
		if (rk_jdouble(rk_jget(node, rows[i].key), &ret->limit)) {
			ret->per_s = rows[i].per_s;
			if (ret->limit >= 0 && node->n == 1)
				return true;
		}
	rk_diag_at(diags, node, RK_AT_VALUE, "a limit is one of {\"any\": N}, {\"perSecond\": N}, {\"perMinute\": N}, not below 0");
	return false;
}

static void read_counter(struct rk_diags *diags, const struct rk_jnode *node, struct rk_arena *arena, struct rk_ib_thresholds *ret)
{
	static const struct rk_jfield fields[] = { { "fail", RK_JOBJECT, false }, { "warn", RK_JOBJECT, false }, { "says", RK_JSTRING, true } };
	static const char *const severities[] = { "fail", "warn" };
	int counter = rk_ib_counter_find(node->key, strlen(node->key));

	if (counter < 0)
		rk_diag_at(diags, node, RK_AT_KEY, "no counter \"%s\"", node->key);
	if (!rk_diag_fields(diags, node, "a counter", fields, RK_ARRAY_SIZE(fields)) || counter < 0)
		return;
	for (size_t i = 0; i < RK_ARRAY_SIZE(severities); i++) {
		const struct rk_jnode *limit = rk_jget(node, severities[i]);
		struct rk_ib_threshold t = { .counter = counter, .fails = i == 0, .says = rk_arena_strdup(arena, rk_jstr(rk_jget(node, "says"))) };
		if (limit && read_limit(diags, limit, &t))
			ret->items[ret->n++] = t;
	}
}

int rk_ib_thresholds_parse(const char *name, const char *text, size_t len, struct rk_arena *arena, struct rk_ib_thresholds *ret, struct rk_err *err)
{
	static const struct rk_jfield fields[] = { { "apiVersion", RK_JSTRING, true }, { "kind", RK_JSTRING, true }, { "name", RK_JSTRING, true },
						   { "about", RK_JSTRING, false }, { "counters", RK_JOBJECT, true } };
	struct rk_diags diags RK_CLEANUP_DIAGS = RK_DIAGS_INIT(name);
	struct rk_json *json RK_CLEANUP_JSON = NULL;

	if (!text)
		text = builtin(&len);
	int rc = rk_json_parse(name, text, len, &json, err);
	if (rc)
		return rc;
	const struct rk_jnode *root = rk_json_root(json), *kind = rk_jget(root, "kind"), *list = rk_jget(root, "counters");
	*ret = (struct rk_ib_thresholds){ rk_arena_array(arena, list ? list->n * 2 : 0, sizeof(*ret->items)), 0 };
	if (rk_diag_fields(&diags, root, "the file", fields, RK_ARRAY_SIZE(fields)) && !rk_streq(rk_jstr(kind), "CounterThresholds"))
		rk_diag_at(&diags, kind, RK_AT_VALUE, "kind is \"CounterThresholds\"");
	if (list && list->type == RK_JOBJECT)
		RK_JEACH(node, list)
			read_counter(&diags, node, arena, ret);
	return rk_diags_result(&diags, err);
}

/* ---- comparing ------------------------------------------------------------------------------------------------------------------- */

/* Where a narrow counter stops. */
static uint64_t ceiling(int counter)
{
	return counters[counter].bits >= 64 ? UINT64_MAX : (UINT64_C(1) << counters[counter].bits) - 1;
}

static void judge(const struct rk_ib_thresholds *thresholds, struct rk_arena *arena, double seconds, struct rk_ib_delta *d)
{
	for (size_t i = 0; i < thresholds->n; i++) {
		const struct rk_ib_threshold *t = &thresholds->items[i];
		double seen = t->per_s > 0 ? d->per_s * t->per_s : (double)d->delta;
		if (t->counter != d->counter || seen <= t->limit || rk_streq(d->verdict, "fail"))
			continue;
		d->verdict = t->fails ? "fail" : "warn";
		if (t->per_s > 0)
			d->message = rk_arena_printf(arena, "%s: %.1f per %s, more than %g (%s)", counters[d->counter].name, seen, t->per_s > 1 ? "minute" : "second",
						     t->limit, t->says);
		else
			d->message = rk_arena_printf(arena, "%s: %llu in %.0f s (%s)", counters[d->counter].name, (unsigned long long)d->delta, seconds, t->says);
	}
}

static void unknown(struct rk_ib_delta *d, struct rk_arena *arena, const char *why)
{
	d->verdict = "unknown";
	d->message = rk_arena_printf(arena, "%s: %s", counters[d->counter].name, why);
}

static bool watched(const struct rk_ib_thresholds *thresholds, int counter)
{
	for (size_t i = 0; i < thresholds->n; i++)
		if (thresholds->items[i].counter == counter)
			return true;
	return counter == XMIT_DATA || counter == RCV_DATA;
}

/* False: this counter is of no interest here. */
static bool compare_one(const struct rk_ib_reading *before, const struct rk_ib_reading *after, double seconds, const struct rk_ib_thresholds *thresholds,
			struct rk_arena *arena, struct rk_ib_delta *d)
{
	int c = d->counter;

	if (!watched(thresholds, c))
		return false;
	if (!before->have[c] || !after->have[c]) {
		unknown(d, arena, "the port does not tell it");
	} else if (after->value[c] < before->value[c]) {
		unknown(d, arena, "it was reset between the readings");
	} else if (before->narrow[c] && before->value[c] >= ceiling(c)) {
		unknown(d, arena, "it stands at its largest value; reset it (perfquery -R) to see more");
	} else {
		d->known = true;
		d->delta = after->value[c] - before->value[c];
		d->per_s = seconds > 0 ? (double)d->delta / seconds : 0;
		judge(thresholds, arena, seconds, d);
	}
	return true;
}

static int rank(const char *verdict)
{
	static const char *const order[] = { "pass", "warn", "unknown", "fail" };

	for (size_t i = 0; i < RK_ARRAY_SIZE(order); i++)
		if (rk_streq(order[i], verdict))
			return (int)i;
	return 0;
}

void rk_ib_compare(const struct rk_ib_reading *before, const struct rk_ib_reading *after, double seconds, const struct rk_ib_thresholds *thresholds,
		   struct rk_arena *arena, struct rk_ib_change *ret)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	const struct rk_ib_reading *bad = !before->known ? before : !after->known ? after : NULL;

	*ret = (struct rk_ib_change){ .seconds = seconds, .xmit_gbps = -1, .rcv_gbps = -1, .verdict = "pass",
				      .deltas = rk_arena_array(arena, RK_IB_COUNTERS, sizeof(*ret->deltas)) };
	if (bad) {
		ret->verdict = bad->down ? "fail" : "unknown";
		ret->message = rk_arena_strdup(arena, bad->why ? bad->why : "not read");
		return;
	}
	for (int c = 0; c < RK_IB_COUNTERS; c++) {
		struct rk_ib_delta *d = &ret->deltas[ret->n_deltas];
		*d = (struct rk_ib_delta){ .counter = c, .verdict = "pass" };
		if (!compare_one(before, after, seconds, thresholds, arena, d))
			continue;
		ret->n_deltas++;
		if (d->known && (c == XMIT_DATA || c == RCV_DATA))
			*(c == XMIT_DATA ? &ret->xmit_gbps : &ret->rcv_gbps) = d->per_s * BITS_PER_UNIT / 1e9;
		if (rank(d->verdict) > rank(ret->verdict))
			ret->verdict = d->verdict;
		if (d->message)
			rk_str_addf(&text, "%s%s", text.len ? "; " : "", d->message);
	}
	ret->message = text.len ? rk_arena_strdup(arena, rk_str_text(&text)) : NULL;
}
