#include "provision/isolation.h"

#include <stdio.h>

#include "inventory/base/str.h"
#include "provision/hooks.h"

/* Equal texts mean that there is nothing new to tell. */
static void fingerprint(const struct rk_isolation *isolation, struct rk_str *ret)
{
	rk_str_add(ret, isolation->verdict);
	for (size_t i = 0; i < isolation->n_violations; i++)
		rk_str_addf(ret, "\n%s %s", isolation->violations[i].plane, isolation->violations[i].what);
}

static bool cancelled(const struct rk_world *world)
{
	return world->cancel && *world->cancel;
}

/* The site's own alarm, when isolation breaks. */
static void alarm(const struct rk_world *world, const struct rk_isolation *isolation)
{
	char count[16];
	const struct rk_hook_fact facts[] = { { "VERDICT", isolation->verdict }, { "VIOLATIONS", count },
					      { "WHAT", isolation->n_violations ? isolation->violations[0].what : NULL } };
	struct rk_err ignored RK_CLEANUP_ERR = RK_ERR_INIT;

	snprintf(count, sizeof(count), "%zu", isolation->n_violations);
	(void)rk_hook_run(world, "isolation", facts, RK_ARRAY_SIZE(facts), &ignored);
}

/* In real time also for the twin, whose clock would not let anybody wait. */
static void pause_until(const struct rk_world *world, int ms)
{
	for (int slept = 0; slept < ms && !cancelled(world); slept += 50)
		rk_clock_sleep_ms(NULL, ms - slept < 50 ? ms - slept : 50);
}

int rk_isolation_watch(struct rk_world *world, int interval_ms, rk_isolation_seen *seen, void *ctx, struct rk_err *err)
{
	struct rk_str last RK_CLEANUP_STR = RK_STR_INIT;
	bool broken = false, unknown = false;

	while (!cancelled(world)) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct rk_str now RK_CLEANUP_STR = RK_STR_INIT;
		struct rk_isolation isolation;
		int rc = rk_isolation_verify(world, false, arena, &isolation, err);
		if (rc == RK_CANCELLED)
			break;
		if (rc && rc != RK_UNHEALTHY && rc != RK_UNREACHABLE)
			return rc;
		broken |= rc == RK_UNHEALTHY;
		unknown |= rc == RK_UNREACHABLE;
		fingerprint(&isolation, &now);
		if (!rk_streq(rk_str_text(&now), rk_str_text(&last)))
			seen(ctx, &isolation);
		if (rc == RK_UNHEALTHY && !rk_streq(rk_str_text(&now), rk_str_text(&last)))
			alarm(world, &isolation);
		rk_str_reset(&last);
		rk_str_add(&last, rk_str_text(&now));
		pause_until(world, interval_ms);
		if (!cancelled(world) && (rc = rk_world_refresh(world, err)) != 0 && rc != RK_UNREACHABLE)
			return rc;
	}
	rk_err_clear(err);
	if (broken)
		return rk_err_set(err, RK_UNHEALTHY, "isolation was broken while it was watched");
	return unknown ? rk_err_set(err, RK_UNREACHABLE, "isolation was not always known while it was watched") : 0;
}
