#include "provision/verify.h"

#include <stdlib.h>
#include <string.h>

#include "provision/nvl_seen.h"

/* NVLink partitions: what the store says, what operations have put there, what the switches hold now and, when asked for, what the guests see. */

struct verification {
	struct rk_world *world;
	const struct rk_live *live;
	struct rk_arena *arena;
	struct rk_checks checks;
	struct rk_nvl_seen *seen; size_t n_seen;
	struct rk_nvl_note *notes; size_t n_notes;
	long *applied;                    /* per partition */
	const char **where;               /* per rack: the switch that runs the controller; NULL: not told */
};

/* Where the controller was seen before, told when it is somewhere else now, or nowhere. */
static const char *former_controller(struct verification *v, const char *rack, const char *where, struct rk_err *err)
{
	char at[32];
	const char *former = NULL;
	int64_t ms = 0;
	int rc = rk_store_nvl_controller(v->world->store, rack, v->arena, &former, &ms, err);

	if (rc || !former || rk_streq(former, where))
		return NULL;
	rk_time_iso(ms, at);
	return rk_arena_printf(v->arena, where ? "the controller moved here from %s, where it was last seen at %s" : "the controller was last seen on %s at %s", former, at);
}

static void check_controller(struct verification *v, int rack)
{
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT, ignored RK_CLEANUP_ERR = RK_ERR_INIT;
	const char *name = v->live->site->racks[rack].name, *where = NULL;
	bool read = v->live->nvl[rack].read;
	int rc = read ? v->world->nvl->ops->health(v->world->nvl, rack, v->arena, &where, &err) : RK_UNREACHABLE;
	const char *former = former_controller(v, name, where, &ignored), *why = !read ? v->live->nvl[rack].why : rc ? err.message : NULL;

	v->where[rack] = where;
	rk_check_add(&v->checks, "nvlink", name, rc == 0 ? "pass" : rc == RK_UNHEALTHY ? "fail" : "unknown", "controller healthy",
		     rc ? NULL : where ? rk_arena_printf(v->arena, "controller healthy on %s", where) : "controller healthy",
		     why && former ? rk_arena_printf(v->arena, "%s; %s", why, former) : why ? rk_arena_strdup(v->arena, why) : former);
}

/* What the guests say counts when it was asked for: the first layer above the switch that a job stands on. */
static void judge_guests(struct rk_plane_check *row, const struct rk_nvl_tally *tally, struct rk_arena *arena)
{
	const char *before = row->message ? rk_arena_printf(arena, "%s; ", row->message) : "";

	row->seen = tally->asked ? rk_arena_printf(arena, "%ld of %ld GPUs", tally->agree, tally->asked) : NULL;
	if (tally->n_differ) {
		row->verdict = "fail";
		row->message = rk_arena_printf(arena, "%sin the guests %s%s", before, tally->differ[0],
					       tally->n_differ > 1 ? rk_arena_printf(arena, " and %zu more differ", tally->n_differ - 1) : " differs");
	} else if (tally->n_silent) {
		row->verdict = rk_streq(row->verdict, "pass") ? "unknown" : row->verdict;
		row->message = rk_arena_printf(arena, "%s%s did not answer: %s", before, rk_nodeset_fold(arena, tally->silent, tally->n_silent), tally->why);
	}
}

/* All in one transaction: hundreds of partitions are one write. */
static int write_notes(const struct verification *v, struct rk_err *err)
{
	struct rk_store *store = v->world->store;

	if (v->world->no_notes)
		return 0;
	int rc = rk_store_begin(store, -1, err);
	if (rc)
		return rc;
	for (size_t i = 0; !rc && i < v->n_notes; i++)
		rc = rk_store_note_nvl(store, &v->notes[i], err);
	for (size_t r = 0; !rc && r < v->world->site->n_racks; r++)
		if (v->where[r])
			rc = rk_store_note_nvl_controller(store, v->world->site->racks[r].name, v->where[r], err);
	if (!rc)
		return rk_store_commit(store, err);
	rk_store_rollback(store);
	return rc;
}

static void check_partition(struct verification *v, int partition)
{
	const struct rk_nvl_partition *p = &v->live->site->nvl_partitions[partition];
	const struct rk_nvl_live *part = rk_live_nvl_part(v->live, partition);
	struct rk_nvl_tally tally;
	struct rk_member_diff d;

	rk_live_nvl_diff(v->live, partition, v->arena, &d);
	rk_check_members(&v->checks, v->live, "nvlink", rk_arena_printf(v->arena, "%s/%d", v->live->site->racks[p->rack].name, p->id), p->cluster, "GPUs", v->arena, &d);
	struct rk_plane_check *row = &v->checks.items[v->checks.n - 1];
	row->partition = partition;
	row->applied = rk_arena_printf(v->arena, "%ld GPUs", v->applied[partition]);
	rk_nvl_tally(v->seen, v->n_seen, partition, v->arena, &tally);
	judge_guests(row, &tally, v->arena);
	v->notes[v->n_notes++] = (struct rk_nvl_note){ .rack = v->live->site->racks[p->rack].name, .name = p->name, .seen = tally.agree, .asked = tally.asked,
						       .live = !v->live->nvl[p->rack].read ? -1 : part ? (long)part->n_gpus : 0 };
}

static void check_rack(struct verification *v, int rack)
{
	const struct rk_site *site = v->live->site;
	const struct rk_live_nvl *r = &v->live->nvl[rack];

	check_controller(v, rack);
	for (size_t i = 0; i < site->n_nvl_partitions; i++)
		if (site->nvl_partitions[i].rack == rack)
			check_partition(v, (int)i);
	for (size_t i = 0; i < r->n; i++)
		if (!rk_nvl_in_store(site, rack, &r->parts[i]))
			rk_check_add(&v->checks, "nvlink", rk_arena_printf(v->arena, "%s/%d", site->racks[rack].name, r->parts[i].id), "fail", "absent",
				     rk_arena_printf(v->arena, "%zu GPUs", r->parts[i].n_gpus), "the store knows of no such partition");
}

static void ask_guests(struct verification *v, const bool *racks)
{
	const struct rk_site *site = v->world->site;
	int *partitions = rk_arena_array(v->arena, site->n_nvl_partitions, sizeof(*partitions));
	size_t n = 0;

	for (size_t i = 0; i < site->n_nvl_partitions; i++)
		if (racks[site->nvl_partitions[i].rack])
			partitions[n++] = (int)i;
	rk_nvl_ask_guests(v->world, partitions, n, v->arena, &v->seen, &v->n_seen);
}

int rk_nvlink_verify(struct rk_world *world, const char *selection, bool guests, struct rk_arena *arena, struct rk_plane_check **ret, size_t *ret_n,
		     struct rk_err *err)
{
	struct rk_live *live RK_CLEANUP_LIVE = NULL;
	struct verification v = { .world = world, .arena = arena };
	bool *racks = selection ? rk_arena_array(arena, world->site->n_racks, sizeof(*racks)) : rk_flags_all(arena, world->site->n_racks);
	const struct rk_live_scope scope = { .racks = racks };
	int *chosen, rc = 0;
	size_t n = 0;

	*ret_n = 0;
	if (selection)
		rc = rk_select_racks(world->site, selection, NULL, arena, &chosen, &n, err);
	for (size_t i = 0; !rc && i < n; i++)
		racks[chosen[i]] = true;
	if (!rc)
		rc = rk_nvl_applied(world, arena, &v.applied, err);
	if (!rc)
		rc = rk_live_read(world, &scope, &live, err);
	if (rc)
		return rc;
	v.live = live;
	v.where = rk_arena_array(arena, world->site->n_racks, sizeof(*v.where));
	v.notes = rk_arena_array(arena, world->site->n_nvl_partitions, sizeof(*v.notes));
	if (guests)
		ask_guests(&v, racks);
	for (size_t r = 0; r < world->site->n_racks; r++)
		if (racks[r] && rk_rack_has_nvlink(world->site, (int)r))
			check_rack(&v, (int)r);
	rc = write_notes(&v, err);
	if (!rc)
		rc = rk_checks_verdict(&v.checks, "NVLink checks", selection ? "no NVLink switch for these racks" : "no NVLink switch", err);
	rk_checks_hand_over(&v.checks, arena, ret, ret_n);
	return rc;
}
