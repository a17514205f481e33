#include <stdlib.h>
#include <string.h>

#include "provision/place_impl.h"

/* The fewest cordons, or reservations, that would have to go. Whoever removes more of them never makes a placement impossible, so a set from which
 * nothing can be put back is found by putting back halves; a smaller one is then looked for by trying all, as far as that is not too much work. */

enum { TRAYS_LOOKED_AT = 4000000, TRIES_MIN = 64 };

struct piece {
	int index;               /* among the flags */
	int group;               /* neighbours of the same group are worth the same */
	int trays;               /* that it keeps back */
};
struct search {
	struct rk_placer *p;
	bool *lifted;            /* what rk_placer_weigh is told */
	int tries;               /* left */
};

static bool fits(struct search *s)
{
	if (s->tries <= 0)
		return false;
	s->tries--;
	s->p->lift = 0;
	rk_placer_weigh(s->p);
	return rk_placer_fits(s->p, s->p->count, s->p->segment);
}

static void set(struct search *s, const struct piece *pieces, size_t n, bool lifted)
{
	for (size_t i = 0; i < n; i++)
		s->lifted[pieces[i].index] = lifted;
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
		s->lifted[pieces[i].index] = true;
		if (pick(s, pieces + i + 1, n - i - 1, k - 1))
			return true;
		s->lifted[pieces[i].index] = false;
	}
	return false;
}

static int most_trays_first(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return x->trays != y->trays ? y->trays - x->trays : y->index - x->index;
}

static size_t count(const struct search *s, const struct piece *pieces, size_t n)
{
	size_t lifted = 0;

	for (size_t i = 0; i < n; i++)
		lifted += s->lifted[pieces[i].index];
	return lifted;
}

/* False: not even all of them would do. */
static bool fewest(struct search *s, const struct piece *pieces, size_t n)
{
	struct piece *heaviest = rk_arena_array(s->p->arena, n + 1, sizeof(*heaviest));

	set(s, pieces, n, true);
	if (!n || !fits(s))
		return false;
	memcpy(heaviest, pieces, n * sizeof(*pieces));
	qsort(heaviest, n, sizeof(*heaviest), most_trays_first);
	put_back(s, heaviest, n);
	size_t enough = count(s, pieces, n), flags = 0;
	for (size_t i = 0; i < n; i++)
		flags = (size_t)pieces[i].index >= flags ? (size_t)pieces[i].index + 1 : flags;
	bool *found = rk_arena_array(s->p->arena, flags, sizeof(*found));
	memcpy(found, s->lifted, flags * sizeof(*found));
	for (size_t k = 1; k <= enough; k++) {
		set(s, pieces, n, false);
		if (pick(s, pieces, n, k))
			return true;
	}
	memcpy(s->lifted, found, flags * sizeof(*found));
	return true;
}

static struct search search_of(struct rk_placer *p, size_t flags)
{
	int trays = (int)p->site->n_trays + 1, tries = TRAYS_LOOKED_AT / trays;

	return (struct search){ .p = p, .lifted = rk_arena_array(p->arena, flags + 1, sizeof(bool)), .tries = tries > TRIES_MIN ? tries : TRIES_MIN };
}

/* Trays that are cordoned and might be used but for that, then cordoned racks. All are lifted while this looks at them. */
static size_t cordons(struct search *s, struct piece *pieces)
{
	const struct rk_placer *p = s->p;
	const struct rk_site *site = p->site;
	size_t n = 0;

	memset(s->lifted, true, site->n_trays + site->n_racks);
	if (!fits(s))
		return 0;
	for (int t = 0; t < (int)site->n_trays; t++)
		if (site->trays[t].cordon && p->fits[t])
			pieces[n++] = (struct piece){ t, 2 * site->trays[t].rack + p->whole[t], 1 };
	for (int r = 0; r < (int)site->n_racks; r++)
		if (site->racks[r].cordon)
			pieces[n++] = (struct piece){ (int)site->n_trays + r, 2 * (int)site->n_racks + r, site->racks[r].n_trays };
	memset(s->lifted, false, site->n_trays + site->n_racks);
	return n;
}

const bool *rk_placer_fewest_cordons(struct rk_placer *p)
{
	size_t flags = p->site->n_trays + p->site->n_racks;
	struct piece *pieces = rk_arena_array(p->arena, flags + 1, sizeof(*pieces));
	struct search s = search_of(p, flags);

	p->lift_cordons = s.lifted;
	bool found = fewest(&s, pieces, cordons(&s, pieces));
	p->lift_cordons = NULL;
	return found ? s.lifted : NULL;
}

static int trays_of(const struct rk_placer *p, const struct rk_reservation *r)
{
	int *racks, n = r->count;
	size_t n_racks;

	rk_reservation_racks(p->site, r, p->arena, &racks, &n_racks);
	for (size_t i = 0; i < n_racks; i++)
		n += p->site->racks[racks[i]].n_trays;
	return n;
}

const bool *rk_placer_fewest_reservations(struct rk_placer *p)
{
	const struct rk_site *site = p->site;
	struct piece *pieces = rk_arena_array(p->arena, site->n_reservations + 1, sizeof(*pieces));
	struct search s = search_of(p, site->n_reservations);
	size_t n = 0;

	for (int i = 0; i < (int)site->n_reservations; i++) {
		const struct rk_reservation *r = &site->reservations[i];
		if (r->tenant != p->tenant && rk_reservation_alive(site, r))
			pieces[n++] = (struct piece){ i, i, trays_of(p, r) };
	}
	p->lift_reservations = s.lifted;
	bool found = fewest(&s, pieces, n);
	p->lift_reservations = NULL;
	return found ? s.lifted : NULL;
}
