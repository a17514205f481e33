#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "provision/place_impl.h"

enum { LARGE = 16, KEYS = 2 };

/* A seat with what it is sorted by, smaller first. */
struct entry {
	int key[KEYS];
	struct rk_seat *seat;
};

int rk_choice_left(const struct rk_choice *c, const struct rk_seat *seat)
{
	int left = seat->room - seat->used;

	if (c->fabric != RK_NONE && seat->fabric != RK_NONE && seat->fabric != c->fabric)
		return 0;
	return seat->kept || left < c->pool ? left : c->pool;
}

static bool is_new(const struct rk_seat *seat)
{
	return !seat->used && !seat->held;
}

static bool takes(const struct rk_choice *c, const struct rk_seat *seat, int vms)
{
	return rk_choice_left(c, seat) >= vms && (!is_new(seat) || c->opened < c->max_new);
}

void rk_choice_take(struct rk_choice *c, struct rk_seat *seat, int vms)
{
	c->opened += is_new(seat);
	seat->used += vms;
	if (!seat->kept)
		c->pool -= vms;
}

void rk_choice_forget(struct rk_choice *c)
{
	for (size_t i = 0; i < c->n; i++) {
		if (!c->seats[i].kept)
			c->pool += c->seats[i].used;
		c->seats[i].used = 0;
	}
	c->opened = 0;
}

/* As many of `segments` segments as the seat takes; returns what is left of them. */
static int fill(struct rk_choice *c, struct rk_seat *seat, int segments, int segment)
{
	int fit = takes(c, seat, segment) ? rk_choice_left(c, seat) / segment : 0;

	if (fit > segments)
		fit = segments;
	if (fit > 0)
		rk_choice_take(c, seat, fit * segment);
	return segments - fit;
}

static int by_key(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	for (int k = 0; k < KEYS; k++)
		if (x->key[k] != y->key[k])
			return x->key[k] < y->key[k] ? -1 : 1;
	return x->seat->rack - y->seat->rack;
}

/* The seats that take a segment, sorted by what `rank` writes into their keys. */
static struct entry *sorted(struct rk_choice *c, int segment, void (*rank)(const struct rk_seat *seat, int segment, int *key),
			    size_t *ret_n)
{
	struct entry *entries = rk_arena_array(c->arena, c->n + 1, sizeof(*entries));

	*ret_n = 0;
	for (size_t i = 0; i < c->n; i++) {
		if (!takes(c, &c->seats[i], segment))
			continue;
		struct entry *e = &entries[(*ret_n)++];
		e->seat = &c->seats[i];
		rank(e->seat, segment, e->key);
	}
	qsort(entries, *ret_n, sizeof(*entries), by_key);
	return entries;
}

/* ---- best-fit ------------------------------------------------------------------------------------------------------------------- */

/* The least loss of large segments, then the closest fit; leaf groups and name decide the rest. */
static void rank_best(const struct rk_seat *seat, int segment, int *key)
{
	int left = seat->room - seat->used;

	key[0] = left / LARGE - (left - segment) / LARGE;
	key[1] = left;
}

/* The racks that the cluster is in already: every segment goes where it costs least then. Returns what they have no room for. */
static int fill_own(struct rk_choice *c, int segments, int segment)
{
	struct entry best = { .seat = c->seats };

	for (; segments && best.seat; segments -= best.seat != NULL) {
		best.seat = NULL;
		for (size_t i = 0; i < c->n; i++) {
			struct entry e = { .seat = &c->seats[i] };
			if (is_new(e.seat) || !takes(c, e.seat, segment))
				continue;
			rank_best(e.seat, segment, e.key);
			if (!best.seat || by_key(&e, &best) < 0)
				best = e;
		}
		if (best.seat)
			rk_choice_take(c, best.seat, segment);
	}
	return segments;
}

/* New racks of equal worth per leaf group, and the groups the choice is in already. Both by group number, which is below the number of seats. */
struct groups {
	int *size;
	bool *in_use;
};

static struct groups count_groups(const struct rk_choice *c, const struct entry *first, const struct entry *end)
{
	struct groups g = { rk_arena_array(c->arena, c->n + 1, sizeof(int)), rk_arena_array(c->arena, c->n + 1, sizeof(bool)) };

	for (size_t i = 0; i < c->n; i++)
		if (c->seats[i].group != RK_NONE && !is_new(&c->seats[i]))
			g.in_use[c->seats[i].group] = true;
	for (; first < end; first++)
		if (first->seat->group != RK_NONE)
			g.size[first->seat->group]++;
	return g;
}

static int fill_group(struct rk_choice *c, struct entry *first, const struct entry *end, int group, int segments, int segment)
{
	for (; first < end && segments; first++)
		if (first->seat->group == group)
			segments = fill(c, first->seat, segments, segment);
	return segments;
}

/* The first group that holds all of `racks`, else the largest, the first of equals. RK_NONE: no group is left. */
static int pick_group(const struct groups *g, const struct entry *first, const struct entry *end, int racks)
{
	int best = RK_NONE, best_size = 0;

	for (; first < end && best_size < racks; first++) {
		int group = first->seat->group, size = group == RK_NONE ? 0 : g->size[group];
		if (size > best_size) {
			best = group;
			best_size = size;
		}
	}
	return best;
}

/* New racks of equal worth: as few leaf groups as possible. */
static int fill_equals(struct rk_choice *c, struct entry *first, struct entry *end, int segments, int segment)
{
	struct groups g = count_groups(c, first, end);

	for (struct entry *e = first; e < end && segments; e++)
		if (e->seat->group != RK_NONE && g.in_use[e->seat->group])
			segments = fill(c, e->seat, segments, segment);
	while (segments && c->opened < c->max_new) {
		int each = first->key[1] / segment;
		int group = pick_group(&g, first, end, (segments + each - 1) / each);
		if (group == RK_NONE)
			break;
		segments = fill_group(c, first, end, group, segments, segment);
		g.size[group] = 0;
	}
	for (struct entry *e = first; e < end && segments; e++)
		segments = fill(c, e->seat, segments, segment);
	return segments;
}

static bool best_fit(struct rk_choice *c, int segments, int segment)
{
	size_t n;

	segments = fill_own(c, segments, segment);
	struct entry *e = sorted(c, segment, rank_best, &n);
	for (size_t i = 0; i < n && segments;) {
		size_t end = i + 1;
		while (end < n && memcmp(e[i].key, e[end].key, sizeof(e->key)) == 0)
			end++;
		segments = fill_equals(c, &e[i], &e[end], segments, segment);
		i = end;
	}
	return segments == 0;
}

/* ---- first-fit and spread --------------------------------------------------------------------------------------------------------- */

static bool first_fit(struct rk_choice *c, int segments, int segment)
{
	for (size_t i = 0; i < c->n && segments; i++)
		segments = fill(c, &c->seats[i], segments, segment);
	return segments == 0;
}

/* Fewest VMs of the cluster, then the emptiest. */
static void rank_spread(const struct rk_seat *seat, int segment, int *key)
{
	(void)segment;
	key[0] = seat->held + seat->used;
	key[1] = seat->used - seat->room;
}

/* In rounds: every rack that can takes one segment before any takes a second. */
static bool spread(struct rk_choice *c, int segments, int segment)
{
	for (size_t n = 1; n && segments;) {
		struct entry *e = sorted(c, segment, rank_spread, &n);
		for (size_t i = 0; i < n && segments && e[i].key[0] == e[0].key[0]; i++)
			if (takes(c, e[i].seat, segment)) {
				rk_choice_take(c, e[i].seat, segment);
				segments--;
			}
	}
	return segments == 0;
}

static bool by_policy(struct rk_choice *c, int segments, int segment, enum rk_policy policy)
{
	static bool (*const policies[])(struct rk_choice *, int, int) = {
		[RK_BEST_FIT] = best_fit, [RK_SPREAD] = spread, [RK_FIRST_FIT] = first_fit
	};

	return policies[policy](c, segments, segment);
}

/* ---- whatever fits ------------------------------------------------------------------------------------------------------------------ */

static void rank_room(const struct rk_seat *seat, int segment, int *key)
{
	(void)segment;
	key[0] = is_new(seat);
	key[1] = -seat->room;
}

/* Fills the racks that are open: the tenant's reserved ones first, which spares the pool most. */
static bool fill_open(struct rk_choice *c, struct entry *e, size_t n, const bool *open, int count, int segment)
{
	int segments = count / segment, rest = count % segment;

	for (int kept = 1; kept >= 0; kept--)
		for (size_t i = 0; i < n && segments; i++)
			if (open[i] && e[i].seat->kept == kept)
				segments = fill(c, e[i].seat, segments, segment);
	for (int kept = 1; kept >= 0 && rest && !segments; kept--)
		for (size_t i = 0; i < n && rest; i++)
			if (open[i] && e[i].seat->kept == kept && !fill(c, e[i].seat, 1, rest))
				rest = 0;
	if (!segments && !rest)
		return true;
	rk_choice_forget(c);
	return false;
}

/* Of the new racks, opens the `kept` largest reserved ones and the `others` largest of the rest: they dominate every other choice of as many. */
static void open_largest(const struct entry *e, size_t n, int kept, int others, bool *open)
{
	for (size_t i = 0; i < n; i++) {
		int *left = e[i].seat->kept ? &kept : &others;
		open[i] = !is_new(e[i].seat) || *left > 0;
		*left -= is_new(e[i].seat);
	}
}

/* Exact: finds a placement whenever there is one. Only how many racks are reserved ones has to be tried when both limits bind. */
static bool place_largest(struct rk_choice *c, int count, int segment)
{
	size_t n;
	struct entry *e = sorted(c, 1, rank_room, &n);
	bool *open = rk_arena_array(c->arena, n + 1, sizeof(*open));
	int limit = c->max_new < (int)n ? c->max_new : (int)n, reserved = 0;

	for (size_t i = 0; i < n; i++)
		reserved += e[i].seat->kept && is_new(e[i].seat);
	if (limit == (int)n) {
		open_largest(e, n, limit, limit, open);
		return fill_open(c, e, n, open, count, segment);
	}
	for (int kept = reserved < limit ? reserved : limit; kept >= 0; kept--) {
		open_largest(e, n, kept, limit - kept, open);
		if (fill_open(c, e, n, open, count, segment))
			return true;
	}
	return false;
}

/* ---- choosing --------------------------------------------------------------------------------------------------------------------- */

bool rk_choose(struct rk_choice *c, int count, int segment, enum rk_policy policy)
{
	int rest = count % segment;

	c->forced = false;
	if (by_policy(c, count / segment, segment, policy) && (!rest || by_policy(c, 1, rest, policy)))
		return true;
	rk_choice_forget(c);
	c->forced = true;
	return place_largest(c, count, segment);
}

static int groups_used(const struct rk_choice *c)
{
	bool *seen = rk_arena_array(c->arena, c->n + 1, sizeof(*seen));
	int n = 0;

	for (size_t i = 0; i < c->n; i++)
		if (c->seats[i].used && c->seats[i].group != RK_NONE && !seen[c->seats[i].group]) {
			seen[c->seats[i].group] = true;
			n++;
		}
	return n;
}

bool rk_keys_less(const int *a, const int *b, size_t n)
{
	size_t i = 0;

	while (i + 1 < n && a[i] == b[i])
		i++;
	return a[i] < b[i];
}

void rk_choice_worth(const struct rk_choice *c, enum rk_policy policy, int worth[RK_WORTH_KEYS])
{
	int loss = 0, over = 0, racks = 0, room = 0, first = RK_UNLIMITED;

	for (size_t i = c->n; i-- > 0;) {
		const struct rk_seat *seat = &c->seats[i];
		int left = seat->room - seat->used;
		if (!seat->used)
			continue;
		loss += seat->room / LARGE - left / LARGE;
		over += left;
		room += seat->room;
		racks++;
		first = seat->rack;
	}
	const int keys[][RK_WORTH_KEYS] = {
		[RK_BEST_FIT] = { loss, over, groups_used(c), first }, [RK_SPREAD] = { -racks, -room, 0, first }, [RK_FIRST_FIT] = { first }
	};
	memcpy(worth, keys[policy], sizeof(keys[policy]));
}

bool rk_choice_fits(struct rk_choice *c, int count, int segment)
{
	bool fits = place_largest(c, count, segment);

	rk_choice_forget(c);
	return fits;
}
