#include <string.h>

#include "inventory/base/str.h"
#include "provision/place_impl.h"

/* ---- a reason for every rack ---------------------------------------------------------------------------------------------------- */

/* "; 2 cordoned, 1 kept as spare": why not every tray counts. "" when all do. */
static const char *left_out(const struct rk_placer *p, const struct rk_verdict *v)
{
	const struct {
		int n;
		const char *one, *many;
	} rows[] = {
		{ v->allocated, "allocated", "allocated" },
		{ v->cordoned, "cordoned", "cordoned" },
		{ v->faulty, "faulty", "faulty" },
		{ v->offline, "offline", "offline" },
		{ v->leaking, "leaking", "leaking" },
		{ v->incomplete, "not rail-complete", "not rail-complete" },
		{ v->outdated, v->version, v->version },
		{ v->spares, "kept as spare", "kept as spares" },
	};
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;

	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++)
		if (rows[i].n)
			rk_str_addf(&out, "%s%d %s", out.len ? ", " : "; ", rows[i].n, rows[i].n == 1 ? rows[i].one : rows[i].many);
	return rk_arena_strdup(p->arena, rk_str_text(&out));
}

/* Too little room for a segment: the rule that binds. */
static const char *too_small(const struct rk_placer *p, const struct rk_verdict *v, int segment)
{
	if (v->free < segment)
		return rk_arena_printf(p->arena, "%d free, needs %d%s", v->free, segment, left_out(p, v));
	return rk_arena_printf(p->arena, "%s %g of %g kW, needs %g more", v->budget, v->kw_used, v->kw_budget, segment * v->kw_vm);
}

/* What best-fit liked better about a rack it took. */
static const char *why_better(const struct rk_placer *p, const struct rk_seat *seat, const struct rk_seat *taken, int segment)
{
	const char *name = p->site->racks[taken->rack].name;
	int loss_seat = seat->room / 16 - (seat->room - segment) / 16, loss_taken = taken->room / 16 - (taken->room - segment) / 16;

	if (taken->held && !seat->held)
		return rk_arena_printf(p->arena, "the cluster is in %s already", name);
	if (loss_taken < loss_seat)
		return rk_arena_printf(p->arena, "%s spares a segment of 16", name);
	if (taken->room < seat->room)
		return rk_arena_printf(p->arena, "%s leaves less over", name);
	if (taken->group != RK_NONE && taken->group != seat->group)
		return rk_arena_printf(p->arena, "%s needs fewer leaf groups", name);
	return rk_arena_printf(p->arena, "%s comes first", name);
}

static const char *not_taken(const struct rk_placer *p, const struct rk_seat *seat, int segment)
{
	const struct rk_seat *taken = NULL;

	for (size_t i = 0; i < p->choice.n; i++)
		if (p->choice.seats[i].used && (!taken || p->choice.seats[i].room < taken->room))
			taken = &p->choice.seats[i];
	if (!taken)
		return "not needed";
	if (p->choice.fabric != RK_NONE && seat->fabric != p->choice.fabric)
		return rk_arena_printf(p->arena, "its InfiniBand fabric is %s, the cluster is on %s",
				       seat->fabric == RK_NONE ? "none" : p->site->fabrics[seat->fabric].name, p->site->fabrics[p->choice.fabric].name);
	switch (p->spec->placement.policy) {
	case RK_SPREAD:
		return rk_arena_printf(p->arena, "spread took emptier racks");
	case RK_FIRST_FIT:
		return rk_arena_printf(p->arena, "first-fit took earlier racks");
	default:
		return why_better(p, seat, taken, segment);
	}
}

static void explain(const struct rk_placer *p, const struct rk_seat *seat, bool feasible, const struct rk_verdict *v, struct rk_place_reason *reason)
{
	int rest = p->count % p->segment, smallest = rest ? rest : p->segment;
	const char *pool = p->choice.pool < smallest && !seat->kept && !seat->used ? "; the rest is reserved by number" : "";

	reason->rack = seat->rack;
	if (seat->used) {
		reason->verdict = "chosen";
		reason->why = rk_arena_printf(p->arena, "%d of %d free used, %d left%s", seat->used, v->free, v->free - seat->used, left_out(p, v));
	} else if (v->barrier) {
		reason->verdict = "refused";
		reason->why = v->barrier;
	} else if (seat->room < smallest) {
		reason->verdict = "refused";
		reason->why = too_small(p, v, seat->room < p->segment && v->free >= smallest ? smallest : p->segment);
	} else if (seat->room < p->segment) {
		reason->verdict = feasible ? "possible" : "refused";
		reason->why = rk_arena_printf(p->arena, "%s; takes only the last %d", too_small(p, v, p->segment), rest);
	} else if (feasible) {
		reason->verdict = "possible";
		reason->why = rk_arena_printf(p->arena, "%d free, %s%s", seat->room, not_taken(p, seat, p->segment), left_out(p, v));
	} else {
		int n = seat->room / p->segment;
		reason->verdict = "possible";
		reason->why = rk_arena_printf(p->arena, "%d free, room for %d segment%s of %d%s%s", seat->room, n, n == 1 ? "" : "s", p->segment, pool,
					      left_out(p, v));
	}
}

int rk_place_refused(const struct rk_spec *spec, const struct rk_placement *p, struct rk_err *err)
{
	if (p->limit)
		rk_err_set(err, RK_NO_CAPACITY, "%s", p->limit);
	else
		rk_err_set(err, RK_NO_CAPACITY, "%d VMs of size %s in segments of %d cannot be placed", spec->count, spec->size, p->segment);
	rk_err_hint(err, "%s", p->suggestion);
	return RK_NO_CAPACITY;
}

void rk_placer_explain(const struct rk_placer *p, bool feasible, struct rk_place_reason *reasons)
{
	for (size_t i = 0; i < p->choice.n; i++)
		explain(p, &p->choice.seats[i], feasible, &p->verdicts[i], &reasons[i]);
}
