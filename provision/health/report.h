/* A report as a document. Pure: everything goes into `out`; text of remote hosts is escaped for the form. */
#pragma once
#include "inventory/base/str.h"
#include "provision/health/health.h"

struct rk_report_head {
	const char *title;    /* "cluster a" */
	const char *evidence; /* folder beside the page with the raw answers, or NULL */
};
/* The keys of CLI.md, into a cell or a file: one object. */
void rk_report_json(struct rk_jw *w, const struct rk_report *report);
void rk_report_checks_json(struct rk_jw *w, const struct rk_report *report); /* the array alone */
void rk_report_trends_json(struct rk_jw *w, const struct rk_report *report); /* likewise */
/* For people, in the arena: "silenced until T by W: why", or NULL; "a-02 rail=1: ib.counter.symbol grows 3, 40, 800 per hour". */
const char *rk_report_silence_text(const struct rk_check *check, struct rk_arena *arena);
const char *rk_report_trend_text(const struct rk_trend *trend, struct rk_arena *arena);
/* One self-contained page: rack map, root causes, findings, thresholds with their source. */
void rk_report_html(struct rk_str *out, const struct rk_report *report, const struct rk_report_head *head);
/* One suite per rack, one case per target and check. */
void rk_report_junit(struct rk_str *out, const struct rk_report *report, const struct rk_report_head *head);
/* Rows of text for a terminal: one line per rack, one sign per tray ('.' pass, 'w', '?', 'X' fail), with a legend. */
void rk_report_map(struct rk_str *out, const struct rk_report *report);

/* How many checks passed wherever they were judged, and how many were judged nowhere (not run, not expected, not in the output). Silenced ones are neither. */
void rk_report_count(const struct rk_report *report, size_t *ret_passed, size_t *ret_not_judged);
/* Text into HTML or XML: what markup means by a character, and what cannot be seen, is written out. NULL is nothing. */
void rk_report_markup(struct rk_str *out, const char *text);

/* Shared by the documents: the worst verdict of each target and where it stands. */
struct rk_seat {
	const struct rk_target *target;
	const char *rack;             /* "" when not known */
	int number;                   /* of the tray in its rack, from 1; 0 = not known */
	const char *verdict;          /* worst of its checks; skipped when nothing was judged: that it answers is no measurement */
	const char *worst;            /* id of that check, or NULL */
};
/* In rack and tray order, one per target of the report. In the arena. */
struct rk_seat *rk_report_seats(const struct rk_report *report, struct rk_arena *arena);
