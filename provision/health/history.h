/* What the store keeps of a cluster's validations: the last one with its findings, and one line for each before it. JSON, as cluster show prints
 * it: {verdict, at, level, profile, targets, power_kw, findings:[{check, verdict, targets, n, value}] (one for each check and verdict), history:[{at, verdict, level, bad:[...],
 * silenced:[...]}]}, where bad is one text "CHECK TARGETS" for each check that was not well (fail, warn or unknown), with its targets folded, and
 * silenced one for each that would not have been. */
#pragma once
#include "inventory/base/nodeset.h"
#include "inventory/base/str.h"
#include "provision/health/health.h"

/* before: what was kept so far, or NULL. The oldest entries fall out. */
void rk_history_add(const struct rk_report *report, const char *before, struct rk_str *out);
/* What the kept validations say about the findings of the last one: new, how long they have been there, and which findings come and go, also when they are gone just now: target by target, and
 * targets with the same history in one line. In the arena; NULL-terminated. */
const char **rk_history_notes(const char *kept, struct rk_arena *arena);
/* Targets as they are kept (folded, or NULL), in natural order. What is no node set is one name. */
struct rk_nodeset rk_history_targets(const char *folded, struct rk_arena *arena);
