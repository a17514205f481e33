#include <stdlib.h>
#include <string.h>

#include "inventory/base/str.h"
#include "provision/place_impl.h"

/* The smallest change that would make a placement possible. Every rule that can be lifted is tried alone; of the cordons and of the
 * reservations the fewest that do are looked for (place_fewest.c). */

enum { CHANGES_MAX = 9 };

static void add(struct rk_placement *ret, const char *kind, int value, const char *objects, const char *text)
{
	ret->changes[ret->n_changes++] = (struct rk_place_change){ kind, value, objects, text };
}

static bool fits_with(struct rk_placer *p, unsigned lift)
{
	p->lift = lift;
	rk_placer_weigh(p);
	return rk_placer_fits(p, p->count, p->segment);
}

/* Are there racks that are refused for their NVLink domains by one of the segments alone? */
static bool sees_other_racks(const struct rk_placer *p, int a, int b)
{
	for (size_t i = 0; i < p->site->n_profiles; i++) {
		int domain = rk_place_domain(&p->site->profiles[i]);
		if ((a > domain) != (b > domain))
			return true;
	}
	return false;
}

static void ask_for(struct rk_placer *p, int segment)
{
	bool weigh = sees_other_racks(p, p->spec_segment, segment);

	p->spec_segment = segment;
	if (weigh)
		rk_placer_weigh(p);
}

/* Would so many fit, in segments of at most so many? */
static bool fits_as(struct rk_placer *p, int count, int segment)
{
	ask_for(p, segment);
	return rk_placer_fits(p, count, count < segment ? count : segment);
}

const char *rk_place_at_most(const struct rk_spec *spec, bool grown, int most, struct rk_arena *arena)
{
	if (grown)
		return rk_arena_printf(arena, "grow to at most %d", most);
	if (spec->placement.segment > most)
		return rk_arena_printf(arena, "place at most %d VM%s, in a segment of %d", most, most == 1 ? "" : "s", most);
	return rk_arena_printf(arena, "place at most %d VM%s", most, most == 1 ? "" : "s");
}

static void fewer_vms(struct rk_placer *p, struct rk_placement *ret)
{
	int segment = p->spec_segment, most = 0, kept = (int)p->n_keep, limit = p->count - 1 < p->quota_left ? p->count - 1 : p->quota_left;

	for (int low = 1, high = limit; low <= high;) {
		int mid = (low + high) / 2;
		bool fits = fits_as(p, mid, mid + kept < segment ? mid + kept : segment);
		most = fits ? mid : most;
		low = fits ? mid + 1 : low;
		high = fits ? high : mid - 1;
	}
	if (most)
		add(ret, "count", most + kept, NULL, rk_place_at_most(p->spec, p->n_keep > 0, most + kept, p->arena));
	ask_for(p, segment);
}

static void smaller_segment(struct rk_placer *p, struct rk_placement *ret)
{
	int segment = p->spec_segment, s = p->segment - 1;

	while (s > 0 && !fits_as(p, p->count, s))
		s--;
	if (s > 0)
		add(ret, "segment", s, NULL, rk_arena_printf(p->arena, "use segments of %d", s));
	ask_for(p, segment);
}

static void more_racks(struct rk_placer *p, struct rk_placement *ret)
{
	int limit = p->spec->placement.max_racks, low = limit + 1, high = (int)p->choice.n, held = 0;

	if (!limit || !fits_with(p, RK_LIFT_MAX_RACKS))
		return;
	for (size_t i = 0; i < p->choice.n; i++)
		held += p->choice.seats[i].held > 0;
	while (low < high) {
		int mid = (low + high) / 2;
		p->choice.max_new = mid > held ? mid - held : 0;
		if (rk_placer_fits(p, p->count, p->segment))
			high = mid;
		else
			low = mid + 1;
	}
	add(ret, "max_racks", low, NULL, rk_arena_printf(p->arena, "raise maxRacks from %d to %d", limit, low));
}

static void wider_racks(struct rk_placer *p, struct rk_placement *ret)
{
	if (p->spec->placement.racks && fits_with(p, RK_LIFT_RACKS))
		add(ret, "racks", 0, NULL, rk_arena_printf(p->arena, "allow racks outside %s", p->spec->placement.racks));
}

static void no_spares(struct rk_placer *p, struct rk_placement *ret)
{
	if (fits_with(p, RK_LIFT_SPARES))
		add(ret, "spares", 0, NULL, "give up the trays kept as spares");
}

static void side_by_side(struct rk_placer *p, struct rk_placement *ret)
{
	if (fits_with(p, RK_LIFT_APART))
		add(ret, "anti_affinity", 0, NULL, "give up antiAffinity");
}

/* ---- cordons and reservations --------------------------------------------------------------------------------------------------------- */

/* Names of the pieces that are lifted, folded; NULL when none is. Those of trays come before those of racks in `lifted`. */
static const char *folded(const struct rk_placer *p, const bool *lifted, bool racks)
{
	const struct rk_site *site = p->site;
	size_t first = racks ? site->n_trays : 0, count = racks ? site->n_racks : site->n_trays, n = 0;
	const char **names = rk_arena_array(p->arena, count + 1, sizeof(*names));

	for (size_t i = 0; i < count; i++)
		if (lifted[first + i])
			names[n++] = racks ? site->racks[i].name : site->trays[i].name;
	return n ? rk_nodeset_fold(p->arena, names, n) : NULL;
}

static void uncordon(struct rk_placer *p, struct rk_placement *ret)
{
	const bool *lifted = rk_placer_fewest_cordons(p);
	const char *rack = lifted ? folded(p, lifted, true) : NULL, *tray = lifted ? folded(p, lifted, false) : NULL;
	bool both = rack && tray;

	if (lifted)
		add(ret, "uncordon", 0, rk_arena_printf(p->arena, "%s%s%s", rack ? rack : "", both ? "," : "", tray ? tray : ""),
		    rk_arena_printf(p->arena, "uncordon %s%s%s%s%s", rack ? "rack " : "", rack ? rack : "", both ? " and " : "", tray ? "tray " : "", tray ? tray : ""));
}

static void cancel_reservations(struct rk_placer *p, struct rk_placement *ret)
{
	const bool *lifted = rk_placer_fewest_reservations(p);
	struct rk_str ids RK_CLEANUP_STR = RK_STR_INIT;

	if (!lifted)
		return;
	for (size_t i = 0; i < p->site->n_reservations; i++)
		if (lifted[i])
			rk_str_addf(&ids, "%s%lld", ids.len ? "," : "", (long long)p->site->reservations[i].id);
	const char *list = rk_arena_strdup(p->arena, rk_str_text(&ids));
	add(ret, "reservation", 0, list, rk_arena_printf(p->arena, "cancel reservation %s", list));
}

/* ---- all of it --------------------------------------------------------------------------------------------------------------------------- */

static void more_quota(struct rk_placer *p, struct rk_placement *ret)
{
	if (fits_with(p, 0))
		add(ret, "quota", 0, NULL, "raise the tenant's quota in the site file, or delete something of this tenant");
}

static const char *sentence(struct rk_placer *p, const struct rk_placement *ret)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;

	for (size_t i = 0; i < ret->n_changes; i++)
		rk_str_addf(&out, "%s%s", i ? "; or " : "", ret->changes[i].text);
	return out.len ? rk_arena_strdup(p->arena, rk_str_text(&out)) : "no single change makes room for it";
}

void rk_placer_suggest(struct rk_placer *p, struct rk_placement *ret)
{
	static void (*const tries[])(struct rk_placer *p, struct rk_placement *ret) = { smaller_segment, more_racks, wider_racks, no_spares, side_by_side, uncordon, cancel_reservations };

	ret->changes = rk_arena_array(p->arena, CHANGES_MAX, sizeof(*ret->changes));
	if (p->quota_left)
		fewer_vms(p, ret);
	if (ret->limit)
		more_quota(p, ret);
	for (size_t i = 0; !ret->limit && i < RK_ARRAY_SIZE(tries); i++)
		tries[i](p, ret);
	ret->suggestion = sentence(p, ret);
}
