#include <stdlib.h>
#include <string.h>

#include "provision/place_impl.h"

/* The fewest cordons, or reservations, that would have to go. Lifting more of them never makes a placement impossible, so a set of which none can be
 * put back is found by putting back halves; a smaller one is then looked for by trying all, as far as that is not too much work. */

enum { RACKS_LOOKED_AT = 40000, TRIES_MIN = 250, TRIES_MAX = 5000 };

struct piece {
	int index;               /* among the flags */
	int group;               /* neighbours of the same group are worth the same */
	int trays;               /* that it keeps back */
	const int *racks; size_t n_racks; /* that it is about */
};
struct search {
	struct rk_placer *p;
	bool *lifted;            /* what rk_placer_weigh is told */
	bool *racks;             /* that have to be weighed again */
	int tries;               /* left */
};

static bool fits(struct search *s)
{
	struct rk_arena *scratch RK_CLEANUP_ARENA = NULL;
	struct rk_placer *p = s->p;

	if (s->tries <= 0)
		return false;
	s->tries--;
	rk_placer_weigh_again(p, s->racks);
	p->choice.arena = scratch = rk_arena_new();
	bool fit = rk_placer_fits(p, p->count, p->segment);
	p->choice.arena = p->arena;
	return fit;
}

static void set(struct search *s, const struct piece *pieces, size_t n, bool lifted)
{
	for (size_t i = 0; i < n; i++) {
		for (size_t r = 0; r < pieces[i].n_racks && s->lifted[pieces[i].index] != lifted; r++)
			s->racks[pieces[i].racks[r]] = true;
		s->lifted[pieces[i].index] = lifted;
	}
}

/* Puts back whatever of the pieces is not needed. */
static void put_back(struct search *s, const struct piece *pieces, size_t n)
{
	set(s, pieces, n, false);
	if (!n || fits(s))
		return;
	set(s, pieces, n, true);
	if (n == 1)
		return;
	put_back(s, pieces, n / 2);
	put_back(s, pieces + n / 2, n - n / 2);
}

/* k more of the pieces; of those that are worth the same, the first. */
static bool pick(struct search *s, const struct piece *pieces, size_t n, size_t k)
{
	if (!k)
		return fits(s);
	for (size_t i = 0; i + k <= n && s->tries > 0; i++) {
		if (i && pieces[i].group == pieces[i - 1].group)
			continue;
		set(s, &pieces[i], 1, true);
		if (pick(s, pieces + i + 1, n - i - 1, k - 1))
			return true;
		set(s, &pieces[i], 1, false);
	}
	return false;
}

static int fewest_trays_first(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return x->trays != y->trays ? x->trays - y->trays : y->index - x->index;
}

/* The pieces that are lifted now. */
static size_t lifted_of(const struct search *s, const struct piece *pieces, size_t n, struct piece *ret)
{
	size_t lifted = 0;

	for (size_t i = 0; i < n; i++)
		if (s->lifted[pieces[i].index])
			ret[lifted++] = pieces[i];
	return lifted;
}

/* All of them are lifted, and it fits. */
static void fewest(struct search *s, const struct piece *pieces, size_t n)
{
	struct piece *enough = rk_arena_array(s->p->arena, n + 1, sizeof(*enough));

	memcpy(enough, pieces, n * sizeof(*pieces));
	qsort(enough, n, sizeof(*enough), fewest_trays_first);
	put_back(s, enough, n);
	size_t most = lifted_of(s, pieces, n, enough);
	for (size_t k = 1; k <= most; k++) {
		set(s, pieces, n, false);
		if (pick(s, pieces, n, k))
			return;
	}
	set(s, pieces, n, false);
	set(s, enough, most, true);
}

/* Everything is weighed anew, with what s->lifted says. */
static void begin(struct search *s, struct rk_placer *p, bool *lifted)
{
	int tries = RACKS_LOOKED_AT / ((int)p->site->n_racks + 1);

	*s = (struct search){ p, lifted, rk_arena_array(p->arena, p->site->n_racks + 1, sizeof(bool)), tries < TRIES_MIN ? TRIES_MIN : tries > TRIES_MAX ? TRIES_MAX : tries };
	p->lift = 0;
	rk_placer_weigh(p);
}

/* Trays that are cordoned and might be used but for that, then cordoned racks. */
static size_t cordons(const struct rk_placer *p, struct piece *pieces)
{
	const struct rk_site *site = p->site;
	size_t n = 0;

	for (int t = 0; t < (int)site->n_trays; t++)
		if (site->trays[t].cordon && p->fits[t])
			pieces[n++] = (struct piece){ t, 2 * site->trays[t].rack + p->whole[t], 1, &site->trays[t].rack, 1 };
	for (int r = 0; r < (int)site->n_racks; r++)
		if (site->racks[r].cordon)
			pieces[n++] = (struct piece){ (int)site->n_trays + r, 2 * (int)site->n_racks + r, site->racks[r].n_trays, &p->choice.seats[r].rack, 1 };
	return n;
}

const bool *rk_placer_fewest_cordons(struct rk_placer *p)
{
	size_t flags = p->site->n_trays + p->site->n_racks;
	struct piece *pieces = rk_arena_array(p->arena, flags + 1, sizeof(*pieces));
	bool *lifted = rk_arena_array(p->arena, flags + 1, sizeof(bool));
	struct search s;

	memset(lifted, true, flags);
	p->lift_cordons = lifted;
	begin(&s, p, lifted);
	bool found = fits(&s);
	size_t n = found ? cordons(p, pieces) : 0;
	memset(lifted, false, flags);
	for (size_t i = 0; i < n; i++)
		lifted[pieces[i].index] = true;
	if (n)
		fewest(&s, pieces, n);
	p->lift_cordons = NULL;
	return n ? lifted : NULL;
}

static int trays_of(const struct rk_placer *p, size_t reservation)
{
	int n = p->site->reservations[reservation].count;

	for (size_t i = 0; i < p->reserved[reservation].n; i++)
		n += p->site->racks[p->reserved[reservation].racks[i]].n_trays;
	return n;
}

const bool *rk_placer_fewest_reservations(struct rk_placer *p)
{
	const struct rk_site *site = p->site;
	struct piece *pieces = rk_arena_array(p->arena, site->n_reservations + 1, sizeof(*pieces));
	bool *lifted = rk_arena_array(p->arena, site->n_reservations + 1, sizeof(bool)), found = false;
	struct search s;
	size_t n = 0;

	for (int i = 0; i < (int)site->n_reservations; i++) {
		lifted[i] = site->reservations[i].tenant != p->tenant && rk_reservation_alive(site, &site->reservations[i]);
		if (lifted[i])
			pieces[n++] = (struct piece){ i, i, trays_of(p, (size_t)i), p->reserved[i].racks, p->reserved[i].n };
	}
	p->lift_reservations = lifted;
	if (n) {
		begin(&s, p, lifted);
		found = fits(&s);
	}
	if (found)
		fewest(&s, pieces, n);
	p->lift_reservations = NULL;
	return found ? lifted : NULL;
}
