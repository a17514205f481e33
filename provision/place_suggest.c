#include <stdlib.h>
#include <string.h>

#include "inventory/base/str.h"
#include "provision/place_impl.h"

/* The smallest change that would make a placement possible. Every rule that can be lifted is tried alone; what was lifted is then taken back piece
 * by piece as long as it still fits, so that no needless cordon or reservation is named. */

enum { CHANGES_MAX = 8, PIECES_MAX = 64 };

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

static void fewer_vms(struct rk_placer *p, struct rk_placement *ret)
{
	int most = 0;

	for (int low = 1, high = p->count - 1; low <= high;) {
		int mid = (low + high) / 2;
		bool fits = rk_placer_fits(p, mid, mid < p->segment ? mid : p->segment);
		most = fits ? mid : most;
		low = fits ? mid + 1 : low;
		high = fits ? high : mid - 1;
	}
	if (most)
		add(ret, "count", most, NULL, rk_arena_printf(p->arena, "place at most %d VMs", most));
}

static void smaller_segment(struct rk_placer *p, struct rk_placement *ret)
{
	for (int s = p->segment - 1; s > 0; s--)
		if (rk_placer_fits(p, p->count, s)) {
			add(ret, "segment", s, NULL, rk_arena_printf(p->arena, "use segments of %d", s));
			return;
		}
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

/* ---- cordons -------------------------------------------------------------------------------------------------------------------------- */

static int cordons_of(const struct rk_site *site, const struct rk_rack *rack)
{
	int n = 0;

	for (int t = rack->first_tray; t < rack->first_tray + rack->n_trays; t++)
		n += rk_tray_state(site, t) == RK_TRAY_CORDONED;
	return n;
}

struct piece {
	int index, weight;
};

static int heaviest_first(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return x->weight != y->weight ? (x->weight < y->weight ? 1 : -1) : y->index - x->index;
}

/* Takes pieces back, heaviest first, while it still fits without them. */
static void shrink(struct rk_placer *p, unsigned lift, struct piece *pieces, size_t n, bool *lifted)
{
	qsort(pieces, n, sizeof(*pieces), heaviest_first);
	for (size_t i = 0; i < n && i < PIECES_MAX; i++) {
		lifted[pieces[i].index] = false;
		lifted[pieces[i].index] = !fits_with(p, lift);
	}
	fits_with(p, lift);
}

/* VMs that would go to a rack beyond what its trays without a cordon of their own hold. */
static int beyond_the_free(const struct rk_placer *p, int rack)
{
	const struct rk_rack *r = &p->site->racks[rack];
	int n = -p->verdicts[rack].spares;

	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++)
		n += p->fits[t] && !p->site->trays[t].cordon;
	return p->choice.seats[rack].used - (n > 0 ? n : 0);
}

/* The cordons that the placement would need to be gone: of racks as a whole, and of single trays. */
static void name_cordons(struct rk_placer *p, const bool *lifted, const char **racks, size_t *n_racks, const char **trays, size_t *n_trays)
{
	const struct rk_site *site = p->site;

	rk_choose(&p->choice, p->count, p->segment, p->spec->placement.policy);
	for (size_t r = 0; r < site->n_racks; r++) {
		const struct rk_rack *rack = &site->racks[r];
		int needed = beyond_the_free(p, (int)r);
		if (!lifted[r] || !p->choice.seats[r].used)
			continue;
		if (rack->cordon)
			racks[(*n_racks)++] = rack->name;
		for (int t = rack->first_tray; needed > 0 && t < rack->first_tray + rack->n_trays; t++)
			if (p->fits[t] && site->trays[t].cordon) {
				trays[(*n_trays)++] = site->trays[t].name;
				needed--;
			}
	}
	rk_choice_forget(&p->choice);
}

static void add_cordons(struct rk_placer *p, const bool *lifted, struct rk_placement *ret)
{
	const char **racks = rk_arena_array(p->arena, p->site->n_racks + 1, sizeof(*racks)), **trays = rk_arena_array(p->arena, p->site->n_trays + 1, sizeof(*trays));
	size_t n_racks = 0, n_trays = 0;

	name_cordons(p, lifted, racks, &n_racks, trays, &n_trays);
	const char *rack = n_racks ? rk_nodeset_fold(p->arena, racks, n_racks) : "", *tray = n_trays ? rk_nodeset_fold(p->arena, trays, n_trays) : "";
	bool both = n_racks && n_trays;
	if (n_racks || n_trays)
		add(ret, "uncordon", 0, rk_arena_printf(p->arena, "%s%s%s", rack, both ? "," : "", tray),
		    rk_arena_printf(p->arena, "uncordon %s%s%s%s%s", n_racks ? "rack " : "", rack, both ? " and " : "", n_trays ? "tray " : "", tray));
}

static void uncordon(struct rk_placer *p, struct rk_placement *ret)
{
	size_t racks = p->site->n_racks, n = 0;
	bool *lifted = rk_arena_array(p->arena, racks + 1, sizeof(*lifted));
	struct piece *pieces = rk_arena_array(p->arena, racks + 1, sizeof(*pieces));

	for (size_t r = 0; r < racks; r++) {
		int cordons = cordons_of(p->site, &p->site->racks[r]);
		lifted[r] = cordons > 0;
		if (cordons)
			pieces[n++] = (struct piece){ (int)r, cordons };
	}
	p->lift_racks = lifted;
	if (n && fits_with(p, RK_LIFT_CORDONS)) {
		shrink(p, RK_LIFT_CORDONS, pieces, n, lifted);
		add_cordons(p, lifted, ret);
	}
	p->lift_racks = NULL;
}

/* ---- reservations --------------------------------------------------------------------------------------------------------------------- */

static void cancel_reservations(struct rk_placer *p, struct rk_placement *ret)
{
	const struct rk_site *site = p->site;
	bool *lifted = rk_arena_array(p->arena, site->n_reservations + 1, sizeof(*lifted));
	struct piece *pieces = rk_arena_array(p->arena, site->n_reservations + 1, sizeof(*pieces));
	struct rk_str ids RK_CLEANUP_STR = RK_STR_INIT;
	size_t n = 0;

	for (size_t i = 0; i < site->n_reservations; i++) {
		lifted[i] = site->reservations[i].tenant != p->tenant && rk_reservation_alive(site, &site->reservations[i]);
		if (lifted[i])
			pieces[n++] = (struct piece){ (int)i, site->reservations[i].count };
	}
	p->lift_reservations = lifted;
	if (n && fits_with(p, RK_LIFT_RESERVATIONS)) {
		shrink(p, RK_LIFT_RESERVATIONS, pieces, n, lifted);
		for (size_t i = 0; i < site->n_reservations; i++)
			if (lifted[i])
				rk_str_addf(&ids, "%s%lld", ids.len ? "," : "", (long long)site->reservations[i].id);
		const char *list = rk_arena_strdup(p->arena, rk_str_text(&ids));
		if (ids.len)
			add(ret, "reservation", 0, list, rk_arena_printf(p->arena, "cancel reservation %s", list));
	}
	p->lift_reservations = NULL;
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
	static void (*const tries[])(struct rk_placer *p, struct rk_placement *ret) = { more_racks, wider_racks, no_spares, side_by_side, uncordon, cancel_reservations };

	ret->changes = rk_arena_array(p->arena, CHANGES_MAX, sizeof(*ret->changes));
	if (ret->limit) {
		add(ret, "quota", 0, NULL, "raise the tenant's quota in the site file, or delete something of this tenant");
	} else {
		fewer_vms(p, ret);
		smaller_segment(p, ret);
		for (size_t i = 0; i < RK_ARRAY_SIZE(tries); i++)
			tries[i](p, ret);
		p->lift = 0;
		rk_placer_weigh(p);
	}
	ret->suggestion = sentence(p, ret);
}
