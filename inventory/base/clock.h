/* Time as a value that can be replaced: the twin runs on a virtual clock, so its delays cost nothing. Thread safe. */
#pragma once
#include <stdint.h>

#include "inventory/base/err.h"

struct rk_clock; /* real when NULL is passed to the functions below */
struct rk_clock *rk_clock_virtual(int64_t start_unix_ms);
void rk_clock_free(struct rk_clock *clock);
int64_t rk_clock_ms(struct rk_clock *clock);              /* monotonic, ms */
int64_t rk_clock_unix_ms(struct rk_clock *clock);         /* wall, ms since 1970 */
void rk_clock_sleep_ms(struct rk_clock *clock, int ms);   /* virtual: advances and returns at once */
/* "2026-11-30T05:12:13Z" into buf (>= 21 bytes); returns buf. */
const char *rk_time_iso(int64_t unix_ms, char buf[32]);
/* A moment: RFC 3339 ("2026-12-01T08:00:00Z", "2026-12-01T09:00:00.5+01:00"), a day ("2026-12-01": its midnight, UTC), "now", or a span from
 * base_unix_ms ("+2h30m", "-1d"; units s, m, h, d, w). */
int rk_time_parse(const char *text, int64_t base_unix_ms, int64_t *ret_unix_ms, struct rk_err *err);
/* A length of time: "90s", "2h30m", "7d"; units s, m, h, d, w. Up to ten years. */
int rk_duration_parse(const char *text, int64_t *ret_ms, struct rk_err *err);
