#include <string.h>

#include "inventory/base/str.h"
#include "provision/place_impl.h"

/* ---- a reason for every rack ---------------------------------------------------------------------------------------------------- */

/* "; 2 cordoned, 1 kept as spare, power for 3": why not every tray counts. "" when all do. */
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
	bool bound = !v->barrier && v->by_power < v->free;
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;

	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++)
		if (rows[i].n)
			rk_str_addf(&out, "%s%d %s", out.len ? ", " : "; ", rows[i].n, rows[i].n == 1 ? rows[i].one : rows[i].many);
	if (bound)
		rk_str_addf(&out, "%s%s for %d", out.len ? ", " : "; ", v->budget, v->by_power);
	return rk_arena_strdup(p->arena, rk_str_text(&out));
}

/* Too little room for a segment: the rule that binds. */
static const char *too_small(const struct rk_placer *p, const struct rk_verdict *v, int segment)
{
	if (v->free < segment)
		return rk_arena_printf(p->arena, "%d free, needs %d%s", v->free, segment, left_out(p, v));
	return rk_arena_printf(p->arena, "%s %g of %g kW, needs %g more", v->budget, v->kw_used, v->kw_budget, segment * v->kw_vm);
}

static int loss(const struct rk_seat *seat, int segment)
{
	return seat->room / 16 - (seat->room - segment) / 16;
}

/* Another rack of the choice on the same leaves. */
static const struct rk_seat *neighbour(const struct rk_placer *p, const struct rk_seat *seat)
{
	for (size_t i = 0; i < p->choice.n; i++) {
		const struct rk_seat *other = &p->choice.seats[i];
		if (other->rack != seat->rack && (other->used || other->held) && other->group == seat->group && seat->group != RK_NONE)
			return other;
	}
	return NULL;
}

/* What best-fit liked better about a rack it took. */
static const char *why_better(const struct rk_placer *p, const struct rk_seat *seat, const struct rk_seat *taken, int segment)
{
	const char *name = p->site->racks[taken->rack].name;
	const struct rk_seat *beside = taken->group == seat->group ? NULL : neighbour(p, taken);

	if (taken->held && !seat->held)
		return rk_arena_printf(p->arena, "the cluster is in %s already", name);
	if (loss(taken, segment) < loss(seat, segment))
		return rk_arena_printf(p->arena, "%s spares a segment of 16", name);
	if (taken->room < seat->room)
		return rk_arena_printf(p->arena, "%s leaves less over", name);
	if (beside)
		return rk_arena_printf(p->arena, "%s shares leaves with %s", name, p->site->racks[beside->rack].name);
	return rk_arena_printf(p->arena, "%s comes first", name);
}

/* Of the racks that took whole segments, the one that the policy liked least: what was better about it is better about all of them. */
static const struct rk_seat *least_liked(const struct rk_placer *p)
{
	bool spread = p->spec->placement.policy == RK_SPREAD;
	const struct rk_seat *least = NULL;
	int least_key[3] = { 0 };

	for (size_t i = 0; i < p->choice.n; i++) {
		const struct rk_seat *seat = &p->choice.seats[i];
		const int key[3] = { spread ? seat->held : !seat->held, spread ? -seat->room : loss(seat, p->segment), seat->room };
		if (seat->used < p->segment || (least && rk_keys_less(key, least_key, 3)))
			continue;
		least = seat;
		memcpy(least_key, key, sizeof(key));
	}
	return least;
}

static const char *spread_liked(const struct rk_placer *p, const struct rk_seat *seat, const struct rk_seat *taken)
{
	const char *name = p->site->racks[taken->rack].name;

	if (seat->held > taken->held)
		return rk_arena_printf(p->arena, "%d of the cluster's VMs are there already", seat->held);
	return rk_arena_printf(p->arena, "%s %s", name, taken->room > seat->room ? "is emptier" : "comes first");
}

static const char *not_taken(const struct rk_placer *p, const struct rk_seat *seat)
{
	const struct rk_choice *c = &p->choice;
	const struct rk_seat *taken = least_liked(p);

	if (c->fabric != RK_NONE && seat->fabric != c->fabric)
		return rk_arena_printf(p->arena, "its InfiniBand fabric is %s, the cluster is on %s",
				       seat->fabric == RK_NONE ? "none" : p->site->fabrics[seat->fabric].name, p->site->fabrics[c->fabric].name);
	if (c->forced && c->opened >= c->max_new)
		return rk_arena_printf(p->arena, "maxRacks %d needs the largest racks", p->spec->placement.max_racks);
	if (c->forced)
		return "racks reserved for the tenant were needed first";
	if (p->spec->placement.policy == RK_FIRST_FIT)
		return "first-fit took earlier racks";
	return p->spec->placement.policy == RK_SPREAD ? spread_liked(p, seat, taken) : why_better(p, seat, taken, p->segment);
}

/* What keeps a rack out, or how little it takes, when it has no room for a segment. */
static void explain_small(const struct rk_placer *p, const struct rk_seat *seat, bool feasible, const struct rk_verdict *v, struct rk_place_reason *reason)
{
	int rest = p->count % p->segment, smallest = rest ? rest : p->segment;
	bool some = seat->room >= smallest;

	reason->verdict = some && feasible ? "possible" : "refused";
	reason->why = too_small(p, v, some || v->free < smallest ? p->segment : smallest);
	if (some)
		reason->why = rk_arena_printf(p->arena, "%s; takes only the last %d", reason->why, rest);
}

static void explain(const struct rk_placer *p, const struct rk_seat *seat, bool feasible, const struct rk_verdict *v, struct rk_place_reason *reason)
{
	int n = seat->room / p->segment;

	reason->rack = seat->rack;
	reason->verdict = seat->used ? "chosen" : v->barrier ? "refused" : "possible";
	if (seat->used)
		reason->why = rk_arena_printf(p->arena, "%d of %d free used, %d left%s", seat->used, v->free, seat->room - seat->used, left_out(p, v));
	else if (v->barrier)
		reason->why = v->barrier;
	else if (!n)
		explain_small(p, seat, feasible, v, reason);
	else if (feasible)
		reason->why = rk_arena_printf(p->arena, "%d free, %s%s", v->free, not_taken(p, seat), left_out(p, v));
	else
		reason->why = rk_arena_printf(p->arena, "%d free, room for %d segment%s of %d%s%s", v->free, n, n == 1 ? "" : "s", p->segment,
					      p->choice.pool < p->segment && !seat->kept ? "; the rest is reserved by number" : "", left_out(p, v));
}

void rk_placer_explain(const struct rk_placer *p, bool feasible, struct rk_place_reason *reasons)
{
	for (size_t i = 0; i < p->choice.n; i++)
		explain(p, &p->choice.seats[i], feasible, &p->verdicts[i], &reasons[i]);
}
