#include "provision/steps_nvl.h"

#include <string.h>

/* The head of a part has its params for the end of the operation (provision/bundle.h). */
static int part_apply(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	(void)world;
	(void)step;
	(void)err;
	return 0;
}

/* What waits for a person, or for its steps, is no step of any system. */
static const struct rk_step_kind op_steps[] = {
	{ .name = "op.part", .summary = "begin this part", .apply = part_apply },
	{ .name = "op.confirm", .summary = "wait for op confirm; without it everything is undone", .awaits = true },
	{ .name = NULL },
};
static const struct rk_step_kind *const tables[] = { rk_nvl_steps, rk_nvl_home_steps, rk_ib_steps, rk_service_steps, rk_vm_steps, rk_power_steps, rk_guest_steps, rk_imex_steps, rk_seal_steps, rk_tray_steps, rk_stray_steps, rk_return_steps, op_steps };

const struct rk_step_kind *rk_step_kind_find(const char *name)
{
	for (size_t t = 0; t < RK_ARRAY_SIZE(tables); t++)
		for (const struct rk_step_kind *k = tables[t]; k->name; k++)
			if (strcmp(k->name, name) == 0)
				return k;
	return NULL;
}

const char *rk_param(const struct rk_step *step, const char *key)
{
	const char *text = rk_jstr(rk_jget(step->params, key));

	return text ? text : "";
}

long rk_param_int(const struct rk_step *step, const char *key)
{
	uint64_t v = 0;

	rk_ju64(rk_jget(step->params, key), &v);
	return (long)v;
}

uint64_t *rk_param_guids(const struct rk_step *step, const char *key, size_t *ret_n)
{
	const struct rk_jnode *list = rk_jget(step->params, key);
	uint64_t *out = rk_arena_array(step->arena, list ? list->n : 0, sizeof(*out));
	size_t n = 0;

	RK_JEACH(it, list)
		n += rk_ju64(it, &out[n]);
	*ret_n = n;
	return out;
}

int rk_param_vm(struct rk_world *world, const struct rk_step *step, int *ret, struct rk_err *err)
{
	*ret = rk_find_vm(world->site, rk_param(step, "vm"));
	return *ret < 0 ? rk_err_set(err, RK_NOT_FOUND, "no VM \"%s\" in the store", rk_param(step, "vm")) : 0;
}

enum { POLL_MS = 200 };

typedef int check_fn(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err);

/* One look leaves nothing behind: there may be thousands of them. */
static int look(struct rk_world *world, struct rk_step *step, check_fn *check, int *ret, struct rk_err *err)
{
	struct rk_arena *own = step->arena;

	step->arena = rk_arena_new();
	int rc = check(world, step, ret, err);
	rk_arena_free(step->arena);
	step->arena = own;
	return rc;
}

int rk_wait_until(struct rk_world *world, struct rk_step *step, const char *what, int (*check)(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err),
		  struct rk_err *err)
{
	struct rk_clock *clock = world->env.clock;
	int64_t deadline = rk_clock_ms(clock) + step->kind->deadline_ms;

	for (;;) {
		int seen = 0, rc = look(world, step, check, &seen, err);
		if (rc && rc != RK_UNREACHABLE)
			return rc;
		if (!rc && seen)
			return 0;
		if (world->cancel && *world->cancel)
			return rk_err_set(err, RK_CANCELLED, "cancelled while waiting for %s", what);
		if (rk_clock_ms(clock) >= deadline) {
			if (rc)
				return rk_err_while(err, "while waiting for %s", what);
			return rk_err_set(err, RK_UNREACHABLE, "%s was not seen within %d s", what, step->kind->deadline_ms / 1000);
		}
		rk_clock_sleep_ms(clock, POLL_MS);
	}
}
