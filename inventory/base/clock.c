#include "inventory/base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
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
