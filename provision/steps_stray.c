#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provision/steps_nvl.h"

/* What is there, was made by racksh and belongs to no cluster any more: taken away. Whether the store still knows nothing of it is asked just before,
 * with the lane held: whoever reserved it since makes it anew only after this. */

static const char claimed[] = "claimed";

/* The step's data says whether the store knows the object by now. */
static int note_known(struct rk_step *step, bool known, int rc)
{
	step->data = known ? (void *)claimed : NULL;
	return rc;
}

static int still_stray(const struct rk_step *step, struct rk_err *err)
{
	return step->data ? rk_err_set(err, RK_CONFLICT, "%s belongs to a cluster now", step->target) : 0;
}

/* ---- NVLink. Params: rack, id, name, gpus (those of trays that no VM has) ------------------------------------------------------------------ */

static int nvl_prepare(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	bool known = false;
	int rc = rk_store_nvl_known(world->store, rk_param(step, "rack"), (int)rk_param_int(step, "id"), rk_param(step, "name"), &known, err);

	return note_known(step, known, rc);
}

/* *ret NULL: it is gone. One of another name has got its id since. */
static int nvl_part(struct rk_world *world, struct rk_step *step, int *ret_rack, const struct rk_nvl_live **ret, struct rk_err *err)
{
	struct rk_nvl_live *parts;
	size_t n = 0;

	*ret = NULL;
	*ret_rack = rk_find_rack(world->site, rk_param(step, "rack"));
	if (*ret_rack < 0)
		return rk_err_set(err, RK_NOT_FOUND, "no rack \"%s\" in the store", rk_param(step, "rack"));
	int rc = world->nvl->ops->list(world->nvl, *ret_rack, step->arena, &parts, &n, err);
	for (size_t i = 0; !rc && i < n; i++)
		if (rk_nvl_is(&parts[i], (int)rk_param_int(step, "id"), rk_param(step, "name")))
			*ret = &parts[i];
	return rc;
}

static int nvl_probe(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	const struct rk_nvl_live *part;
	int rack, rc = nvl_part(world, step, &rack, &part, err);

	if (rc)
		return rc;
	*ret = !part;
	return part ? still_stray(step, err) : 0;
}

/* Its GPUs are in no partition for as short as can be: home before it goes. */
static int nvl_remove(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	int rc = still_stray(step, err);

	return rc ? rc : rk_nvl_take_apart(world, step, err);
}

static int nvl_settle(struct rk_world *world, struct rk_step *step, bool undone, struct rk_err *err)
{
	int rc = rk_store_set_nvl_remains(world->store, rk_param(step, "rack"), (int)rk_param_int(step, "id"), NULL, NULL, err);

	return rc ? rc : rk_away_settle(world, step, undone, err);
}

/* ---- InfiniBand. Params: fabric, pkey; remains: an operation was ended without it, so that any port may hold it --------------------------------------------------------------------------------------------------------- */

static int ib_prepare(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	bool known = false;
	int rc = rk_store_ib_known(world->store, rk_param(step, "fabric"), (uint16_t)rk_param_int(step, "pkey"), &known, err);

	return note_known(step, known, rc);
}

static int ib_part(struct rk_world *world, struct rk_step *step, int *ret_fabric, const struct rk_ib_live **ret, struct rk_err *err)
{
	struct rk_ib_live *parts;
	size_t n = 0;

	*ret = NULL;
	*ret_fabric = rk_find_fabric(world->site, rk_param(step, "fabric"));
	if (*ret_fabric < 0)
		return rk_err_set(err, RK_NOT_FOUND, "no InfiniBand fabric \"%s\" in the store", rk_param(step, "fabric"));
	int rc = world->ib->ops->list(world->ib, *ret_fabric, step->arena, &parts, &n, err);
	for (size_t i = 0; !rc && i < n; i++)
		if (parts[i].pkey == (uint16_t)rk_param_int(step, "pkey"))
			*ret = &parts[i];
	return rc;
}

/* Its members into `before`: once it is gone, nobody else knows whose tables must be without the key. */
static int ib_probe(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	struct rk_str before RK_CLEANUP_STR = RK_STR_INIT;
	const struct rk_ib_live *part;
	struct rk_jw w;
	int fabric, rc = ib_part(world, step, &fabric, &part, err);

	if (rc)
		return rc;
	*ret = !part;
	if (!part && rk_param_int(step, "remains"))
		return rk_ib_on_no_other_port(world, step, fabric, (unsigned)rk_param_int(step, "pkey"), NULL, 0, ret, err);
	if (part && !part->ours)
		return rk_err_set(err, RK_CONFLICT, "PKey 0x%04x is defined outside the section that racksh manages", part->pkey);
	rk_jw_init(&w, &before, 0);
	rk_jw_object(&w);
	rk_jw_key(&w, "members");
	rk_jw_array(&w);
	for (size_t i = 0; part && i < part->n_members; i++)
		rk_jw_hex64(&w, part->members[i].guid);
	rk_jw_end(&w);
	rk_jw_end(&w);
	step->before = rk_arena_strdup(step->arena, rk_str_text(&before));
	return still_stray(step, err);
}

/* A port that cannot be read is down, and gets its table from the configuration when it comes up. */
static int ib_gone(struct rk_world *world, struct rk_step *step, int *ret, struct rk_err *err)
{
	RK_CLEANUP_JSON struct rk_json *before = NULL;
	const char *text = step->before ? step->before : "{}";
	const struct rk_ib_live *part;
	unsigned key = (unsigned)rk_param_int(step, "pkey");
	int fabric, rc = ib_part(world, step, &fabric, &part, err);

	if (!rc)
		rc = rk_json_parse("before", text, strlen(text), &before, err);
	if (!rc && !part && rk_param_int(step, "remains"))
		return rk_ib_on_no_other_port(world, step, fabric, (unsigned)rk_param_int(step, "pkey"), NULL, 0, ret, err);
	const struct rk_jnode *list = rc ? NULL : rk_jget(rk_json_root(before), "members");
	size_t n = 0;
	uint64_t *guids = rk_arena_array(step->arena, list ? list->n : 0, sizeof(*guids));
	struct rk_ib_port *ports = rk_arena_array(step->arena, list ? list->n : 0, sizeof(*ports));
	RK_JEACH(it, list)
		n += rk_ju64(it, &guids[n]);
	if (!rc)
		rc = world->ib->ops->tables(world->ib, fabric, guids, n, step->arena, ports, err);
	*ret = !part;
	for (size_t i = 0; !rc && i < n; i++)
		for (size_t k = 0; k < ports[i].n_pkeys; k++)
			*ret &= (ports[i].pkeys[k] & 0x7fffu) != key;
	return rc;
}

static int ib_remove(struct rk_world *world, struct rk_step *step, struct rk_err *err)
{
	const struct rk_ib_live *part;
	int fabric, rc = still_stray(step, err);

	if (!rc)
		rc = ib_part(world, step, &fabric, &part, err);
	if (!rc && part)
		rc = world->ib->ops->set(world->ib, fabric, &(struct rk_ib_wanted){ part->pkey, part->name, NULL, 0, false }, err);
	return rc ? rc : rk_wait_until(world, step, "the PKey to be gone", ib_gone, err);
}

static int ib_settle(struct rk_world *world, struct rk_step *step, bool undone, struct rk_err *err)
{
	(void)undone;
	return rk_store_set_ib_remains(world->store, rk_param(step, "fabric"), (uint16_t)rk_param_int(step, "pkey"), NULL, NULL, err);
}

const struct rk_step_kind rk_stray_steps[] = {
	{ .name = "nvl.remove", .summary = "remove the NVLink partition that no cluster has", .deadline_ms = 60000, .prepare = nvl_prepare, .probe = nvl_probe, .apply = nvl_remove,
	  .settle = nvl_settle },
	{ .name = "ib.remove", .summary = "remove the PKey that no cluster has", .deadline_ms = 30000, .prepare = ib_prepare, .probe = ib_probe, .apply = ib_remove,
	  .settle = ib_settle },
	{ .name = NULL },
};
