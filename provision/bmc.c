#include "provision/bmc.h"

#include <math.h>
#include <pthread.h>

#include "provision/sim.h"

const struct rk_bmc_reading rk_bmc_unread = { .watts = NAN, .module_watts = NAN, .kwh = NAN, .supply_c = NAN, .flow_lpm = NAN };

const char *rk_power_state_name(enum rk_power_state state)
{
	static const char *const names[] = { "unknown", "off", "on", "changing" };

	return names[state];
}

const char *rk_bmc_name(const struct rk_site *site, const struct rk_bmc_target *t, struct rk_arena *arena)
{
	return t->tray != RK_NONE ? site->trays[t->tray].name : rk_arena_printf(arena, "%s-nvsw%d", site->racks[t->rack].name, t->number);
}

int rk_bmc_open(struct rk_world *world, struct rk_bmc **ret, struct rk_err *err)
{
	world->env.site = world->site;
	return world->sim ? rk_sim_bmc(world->sim, &world->env, ret, err) : rk_bmc_redfish(&world->env, ret, err);
}

void rk_bmc_close(struct rk_bmc *bmc)
{
	if (bmc)
		bmc->ops->free(bmc);
}

void rk_cleanup_bmc(struct rk_bmc **bmc)
{
	rk_bmc_close(*bmc);
}

/* ---- many at once ------------------------------------------------------------------------------------------------------------------- */

struct batch {
	struct rk_bmc *bmc;
	const struct rk_bmc_target *targets;
	unsigned what;
	pthread_mutex_t lock;             /* of the arena */
	struct rk_arena *arena;
	struct rk_bmc_reading *readings;
	struct rk_err *errors;
};

static void read_one(void *ctx, size_t i)
{
	struct batch *b = ctx;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_bmc_reading reading = rk_bmc_unread;
	int rc = b->bmc->ops->read(b->bmc, &b->targets[i], b->what, arena, &reading, &b->errors[i]);

	if (rc)
		reading = rk_bmc_unread;
	pthread_mutex_lock(&b->lock);
	reading.leak = rk_arena_strdup(b->arena, reading.leak);
	pthread_mutex_unlock(&b->lock);
	b->readings[i] = reading;
}

void rk_bmc_read_all(struct rk_world *world, struct rk_bmc *bmc, const struct rk_bmc_target *targets, size_t n, unsigned what, struct rk_arena *arena,
		     struct rk_bmc_reading *readings, struct rk_err *errors)
{
	struct batch b = { .bmc = bmc, .targets = targets, .what = what, .lock = PTHREAD_MUTEX_INITIALIZER, .arena = arena, .readings = readings,
			   .errors = errors };

	rk_fanout(n, world->jobs, read_one, &b);
	pthread_mutex_destroy(&b.lock);
}
