#include "inventory/base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "inventory/base/mem.h"

struct rk_clock {
	pthread_mutex_t lock;
	int64_t start_unix_ms, passed_ms;
};

struct rk_clock *rk_clock_virtual(int64_t start_unix_ms)
{
	struct rk_clock *clock = rk_xcalloc(1, sizeof(*clock));

	pthread_mutex_init(&clock->lock, NULL);
	clock->start_unix_ms = start_unix_ms;
	return clock;
}

void rk_clock_free(struct rk_clock *clock)
{
	if (!clock)
		return;
	pthread_mutex_destroy(&clock->lock);
	free(clock);
}

static int64_t read_ms(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int64_t passed(struct rk_clock *clock, int add)
{
	pthread_mutex_lock(&clock->lock);
	int64_t ms = clock->passed_ms += add;
	pthread_mutex_unlock(&clock->lock);
	return ms;
}

int64_t rk_clock_ms(struct rk_clock *clock)
{
	return clock ? passed(clock, 0) : read_ms(CLOCK_MONOTONIC);
}

int64_t rk_clock_unix_ms(struct rk_clock *clock)
{
	return clock ? clock->start_unix_ms + passed(clock, 0) : read_ms(CLOCK_REALTIME);
}

void rk_clock_sleep_ms(struct rk_clock *clock, int ms)
{
	if (clock) {
		passed(clock, ms);
		return;
	}
	struct timespec left = { ms / 1000, ms % 1000 * 1000000L };
	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

const char *rk_time_iso(int64_t unix_ms, char buf[32])
{
	time_t seconds = (time_t)(unix_ms / 1000);
	struct tm tm;

	gmtime_r(&seconds, &tm);
	strftime(buf, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return buf;
}

/* ---- reading times ------------------------------------------------------------------------------------------------------------ */

enum { SECOND_MS = 1000, MINUTE_MS = 60 * SECOND_MS, HOUR_MS = 60 * MINUTE_MS, DAY_MS = 24 * HOUR_MS };
static const int64_t span_max_ms = 3653LL * DAY_MS;

/* One "90m" at *at; moves on. */
static bool read_part(const char **at, int64_t *sum)
{
	static const struct {
		char unit;
		int64_t ms;
	} units[] = { { 's', SECOND_MS }, { 'm', MINUTE_MS }, { 'h', HOUR_MS }, { 'd', DAY_MS }, { 'w', 7LL * DAY_MS } };
	int64_t n = 0;
	int digits = 0;

	for (; **at >= '0' && **at <= '9' && digits < 9; digits++)
		n = n * 10 + *(*at)++ - '0';
	for (size_t i = 0; digits && i < RK_ARRAY_SIZE(units); i++)
		if (**at == units[i].unit) {
			++*at;
			*sum += n * units[i].ms;
			return *sum <= span_max_ms;
		}
	return false;
}

static bool read_span(const char *text, int64_t *ret)
{
	*ret = 0;
	do {
		if (!read_part(&text, ret))
			return false;
	} while (*text);
	return true;
}

int rk_duration_parse(const char *text, int64_t *ret_ms, struct rk_err *err)
{
	if (read_span(text, ret_ms))
		return 0;
	rk_err_set(err, RK_INVALID, "\"%s\" is no length of time", text);
	rk_err_hint(err, "write e.g. 90s, 2h30m, 7d (units s, m, h, d, w; up to ten years)");
	return RK_INVALID;
}

/* Fixed digits of a form: 'd' stands for a digit, anything else for itself. */
static bool has_form(const char *text, const char *form)
{
	for (; *form; text++, form++)
		if (*form == 'd' ? *text < '0' || *text > '9' : *text != *form)
			return false;
	return true;
}

static int number(const char *digits, int n)
{
	int v = 0;

	for (int i = 0; i < n; i++)
		v = v * 10 + digits[i] - '0';
	return v;
}

/* "Z", "+02:00", "-08:00" or nothing else. */
static bool read_zone(const char *text, int64_t *ret)
{
	*ret = 0;
	if (strcmp(text, "Z") == 0 || strcmp(text, "z") == 0)
		return true;
	if (strlen(text) != 6 || (*text != '+' && *text != '-') || !has_form(text + 1, "dd:dd") || number(text + 1, 2) > 23 || number(text + 4, 2) > 59)
		return false;
	*ret = (number(text + 1, 2) * 60 + number(text + 4, 2)) * (int64_t)MINUTE_MS * (*text == '-' ? -1 : 1);
	return true;
}

static const char *skip_fraction(const char *text, int64_t *ret)
{
	int digits = 0;

	*ret = 0;
	if (*text != '.')
		return text;
	for (text++; *text >= '0' && *text <= '9'; text++, digits++)
		if (digits < 3)
			*ret += (*text - '0') * (digits == 0 ? 100 : digits == 1 ? 10 : 1);
	return digits ? text : "";
}

/* A day or a moment; every field is checked by turning it back. */
static bool read_moment(const char *text, int64_t *ret)
{
	bool day = strlen(text) == 10;
	int64_t zone = 0, fraction = 0;

	if (!has_form(text, "dddd-dd-dd") || (!day && (!has_form(text + 10, "Tdd:dd:dd") || !read_zone(skip_fraction(text + 19, &fraction), &zone))))
		return false;
	struct tm tm = { .tm_year = number(text, 4) - 1900, .tm_mon = number(text + 5, 2) - 1, .tm_mday = number(text + 8, 2) }, back;
	if (!day) {
		tm.tm_hour = number(text + 11, 2);
		tm.tm_min = number(text + 14, 2);
		tm.tm_sec = number(text + 17, 2);
	}
	const struct tm given = tm;
	time_t seconds = timegm(&tm);
	gmtime_r(&seconds, &back);
	*ret = (int64_t)seconds * SECOND_MS + fraction - zone;
	return given.tm_year >= 70 && back.tm_mon == given.tm_mon && back.tm_mday == given.tm_mday && back.tm_hour == given.tm_hour &&
	       back.tm_min == given.tm_min && back.tm_sec == given.tm_sec;
}

int rk_time_parse(const char *text, int64_t base, int64_t *ret, struct rk_err *err)
{
	int64_t span;

	if (strcmp(text, "now") == 0) {
		*ret = base;
		return 0;
	}
	if ((*text == '+' || *text == '-') && read_span(text + 1, &span)) {
		*ret = *text == '+' ? base + span : base - span;
		return 0;
	}
	if (read_moment(text, ret))
		return 0;
	rk_err_set(err, RK_INVALID, "\"%s\" is no time", text);
	rk_err_hint(err, "write e.g. 2026-12-01T08:00:00Z, 2026-12-01, now, +2h30m, +7d");
	return RK_INVALID;
}
