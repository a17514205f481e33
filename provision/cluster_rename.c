#include <string.h>

#include "provision/cluster_impl.h"

/* Another name in the store: hosts, switches and guests keep what they were given, because a domain that runs cannot be renamed. VMs that are made
 * later, by grow or repair, have the new one everywhere. */

static const char *command_of(const char *from, const char *to, struct rk_arena *arena)
{
	return rk_arena_printf(arena, "cluster rename %s %s", from, to);
}

/* Was this rename done before? The journal says how the cluster that is there came to its name: by this one, or by something after it. */
static int was_renamed(struct rk_world *world, const char *from, const char *to, bool *ret, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const char *this_one = command_of(from, to, arena), *made = rk_arena_printf(arena, "cluster create %s", to), *end = rk_arena_printf(arena, " %s", to);
	struct rk_op_row *rows;
	size_t n = 0;
	int rc = rk_find_cluster(world->site, to) < 0 ? 0 : rk_store_op_list(world->store, arena, &rows, &n, err);

	*ret = false;
	for (size_t i = 0; !rc && i < n; i++) {
		const char *command = rows[i].command;
		*ret = rk_streq(command, this_one);
		if (*ret || rk_streq(command, made) || (rk_starts_with(command, "cluster rename ") && rk_ends_with(command, end)))
			break;
	}
	return rc;
}

static int write_name(struct rk_world *world, const struct rk_cluster *c, const char *to, struct rk_arena *arena, struct rk_err *err)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_spec *spec;
	int rc = rk_spec_parse(c->name, c->spec, strlen(c->spec), arena, &spec, err);

	if (rc)
		return rc;
	spec->name = to;
	rk_spec_write(spec, &text);
	rc = rk_store_rename_cluster(world->store, c->name, to, err);
	return rc ? rc : rk_store_set_cluster_spec(world->store, to, rk_str_text(&text), NULL, err);
}

/* Others that are kept apart from it name it. */
static int rename_in_others(struct rk_world *world, const char *from, const char *to, struct rk_arena *arena, struct rk_err *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < world->site->n_clusters; i++) {
		const struct rk_cluster *c = &world->site->clusters[i];
		struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
		struct rk_spec *spec;
		if (!rk_spec_keeps_apart(c->spec, from))
			continue;
		rc = rk_spec_parse(c->name, c->spec, strlen(c->spec), arena, &spec, err);
		if (rc)
			break;
		for (size_t k = 0; k < spec->placement.n_apart; k++)
			if (strcmp(spec->placement.apart[k], from) == 0)
				spec->placement.apart[k] = to;
		rk_spec_write(spec, &text);
		rc = rk_store_set_cluster_spec(world->store, c->name, rk_str_text(&text), NULL, err);
	}
	return rc;
}

/* An operation writes the spec of its cluster when it ends, as it was planned. */
static int all_idle(struct rk_world *world, const struct rk_cluster *c, struct rk_err *err)
{
	const struct rk_site *site = world->site;
	int rc = rk_cluster_held(world, c, err);

	for (size_t i = 0; !rc && i < site->n_clusters; i++)
		if (rk_spec_keeps_apart(site->clusters[i].spec, c->name))
			rc = rk_cluster_held(world, &site->clusters[i], err);
	return rc;
}

static int rename_now(struct rk_world *world, const struct rk_cluster *c, const char *to, int64_t *ret_op, struct rk_err *err)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const char *command = command_of(c->name, to, arena), *thing = rk_arena_printf(arena, "cluster:%s", c->name);
	int rc = rk_store_begin(world->store, world->site->revision, err);

	if (rc)
		return rc;
	rc = rk_store_op_add(world->store, command, "{\"type\":\"cluster.rename\"}", ret_op, err);
	if (!rc)
		rc = rk_store_lease_take(world->store, thing, *ret_op, "rename", err);
	if (!rc)
		rc = write_name(world, c, to, arena, err);
	if (!rc)
		rc = rename_in_others(world, c->name, to, arena, err);
	if (!rc)
		rc = rk_store_op_set(world->store, *ret_op, "done", NULL, err);
	if (!rc)
		rc = rk_store_lease_drop(world->store, *ret_op, err);
	if (!rc)
		return rk_store_commit(world->store, err);
	rk_store_rollback(world->store);
	return rc;
}

int rk_cluster_rename(struct rk_world *world, const char *from, const char *to, int64_t *ret_op, struct rk_err *err)
{
	int at = rk_find_cluster(world->site, from);

	*ret_op = 0;
	if (!rk_cluster_name_valid(to)) {
		rk_err_set(err, RK_INVALID, "\"%s\" is no valid name of a cluster", to);
		rk_err_hint(err, "1 to 48 of a-z 0-9 and '-', not at either end, and no '-' and digits at the end");
		return RK_INVALID;
	}
	bool done = false;
	int rc = at < 0 ? was_renamed(world, from, to, &done, err) : 0;
	if (rc || done)
		return rc;
	if (at < 0)
		return rk_err_set(err, RK_NOT_FOUND, "no cluster \"%s\"", from);
	const struct rk_cluster *c = &world->site->clusters[at];
	if (strcmp(from, to) == 0)
		return 0;
	rc = all_idle(world, c, err);
	if (!rc)
		rc = rk_cluster_name_free(world->site, to, err);
	if (!rc)
		rc = rename_now(world, c, to, ret_op, err);
	return rc ? rc : rk_world_refresh(world, err);
}
