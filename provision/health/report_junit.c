/* JUnit XML: what CI systems show. */
#include <string.h>

#include "inventory/base/map.h"
#include "provision/health/report.h"

static void attribute(struct rk_str *out, const char *name, const char *value)
{
	rk_str_addf(out, " %s=\"", name);
	rk_report_markup(out, value);
	rk_str_addc(out, '"');
}

enum outcome { TESTS, FAILURES, ERRORS, SKIPPED, N_COUNTS };
struct counts {
	size_t of[N_COUNTS];
};
struct suite {
	const char *rack;
	struct counts counts;
	struct rk_str cases;
};
struct suites {
	struct suite *items;
	size_t n, cap;
};

static void outcome(struct rk_str *out, const struct rk_check *c, const char *element)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();

	if (c->silence)
		rk_str_addf(&text, "%s, %s; ", c->silenced, rk_report_silence_text(c, arena));
	rk_str_addf(&text, "found %s, expected %s", c->value ? c->value : "-", c->expected ? c->expected : "-");
	rk_str_addf(out, "\n      <%s", element);
	attribute(out, "message", rk_str_text(&text));
	if (strcmp(element, "skipped") != 0)
		attribute(out, "type", c->severity);
	rk_str_addc(out, '>');
	rk_report_markup(out, c->message);
	if (c->hint) {
		rk_str_add(out, "; ");
		rk_report_markup(out, c->hint);
	}
	rk_str_addf(out, "</%s>\n    ", element);
}

/* A warning is a passed case with what it says as output. */
static void add_case(struct suite *suite, const struct rk_check *c, const char *target)
{
	static const struct {
		const char *verdict, *element;
		enum outcome count;
	} rows[] = { { "fail", "failure", FAILURES }, { "unknown", "error", ERRORS }, { "skipped", "skipped", SKIPPED }, { "warn", "system-out", TESTS } };

	suite->counts.of[TESTS]++;
	rk_str_add(&suite->cases, "    <testcase");
	attribute(&suite->cases, "classname", target);
	attribute(&suite->cases, "name", c->id);
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		if (strcmp(rows[i].verdict, c->verdict) != 0)
			continue;
		if (rows[i].count != TESTS)
			suite->counts.of[rows[i].count]++;
		rk_str_addc(&suite->cases, '>');
		if (strcmp(rows[i].element, "system-out") == 0) {
			rk_str_add(&suite->cases, "\n      <system-out>warning: ");
			rk_report_markup(&suite->cases, c->message);
			rk_str_add(&suite->cases, ": ");
			rk_report_markup(&suite->cases, c->value);
			rk_str_add(&suite->cases, "</system-out>\n    ");
		} else {
			outcome(&suite->cases, c, rows[i].element);
		}
		rk_str_add(&suite->cases, "</testcase>\n");
		return;
	}
	rk_str_add(&suite->cases, "/>\n");
}

static void totals(struct rk_str *out, const struct counts *c, double seconds)
{
	rk_str_addf(out, " tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" time=\"%.3f\"", c->of[TESTS], c->of[FAILURES], c->of[ERRORS], seconds);
}

void rk_report_junit(struct rk_str *out, const struct rk_report *r, const struct rk_report_head *head)
{
	RK_CLEANUP_ARENA struct rk_arena *arena = rk_arena_new();
	struct rk_map *index RK_CLEANUP_MAP = rk_map_new(), *racks RK_CLEANUP_MAP = rk_map_new();
	const struct rk_seat *seats = rk_report_seats(r, arena);
	struct suites suites = { 0 };
	struct counts all = { 0 };
	size_t at;

	for (size_t i = 0; i < r->targets; i++) {
		if (!rk_map_get(racks, seats[i].rack, &at)) {
			at = suites.n;
			rk_map_set(racks, seats[i].rack, at);
			((struct suite *)rk_vec_push(&suites))->rack = seats[i].rack;
		}
		rk_map_set(index, seats[i].target->name, at);
	}
	for (size_t c = 0; c < r->n_checks; c++) {
		for (size_t i = 0; i < r->checks[c].n_targets; i++) {
			if (rk_map_get(index, r->checks[c].targets[i], &at))
				add_case(&suites.items[at], &r->checks[c], r->checks[c].targets[i]);
		}
	}
	for (size_t i = 0; i < suites.n; i++) {
		const struct counts *c = &suites.items[i].counts;
		for (size_t k = 0; k < N_COUNTS; k++)
			all.of[k] += c->of[k];
	}
	rk_str_add(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites");
	attribute(out, "name", head->title);
	totals(out, &all, r->seconds); /* the schema of Jenkins knows no "skipped" of all suites together */
	rk_str_add(out, ">\n");
	for (size_t i = 0; i < suites.n; i++) {
		rk_str_add(out, "  <testsuite");
		attribute(out, "name", *suites.items[i].rack ? suites.items[i].rack : "no rack");
		totals(out, &suites.items[i].counts, r->seconds);
		rk_str_addf(out, " skipped=\"%zu\">\n", suites.items[i].counts.of[SKIPPED]);
		rk_str_add(out, rk_str_text(&suites.items[i].cases));
		rk_str_add(out, "  </testsuite>\n");
		rk_str_clear(&suites.items[i].cases);
	}
	rk_str_add(out, "</testsuites>\n");
	free(suites.items);
}
