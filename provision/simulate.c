#include "provision/simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/diag.h"
#include "inventory/base/file.h"
#include "provision/place_impl.h"

enum { FILE_MAX = 16 << 20, LARGE_VMS = 16, MAX_REQUESTS = 1000000, MAX_SEEDS = 100 };

const char *const rk_sim_policy_names[RK_SIM_POLICIES] = { "best-fit", "spread", "first-fit", "worst-fit", "random" };

/* ---- the file ------------------------------------------------------------------------------------------------------------------------- */

static double number(struct rk_diags *diags, const struct rk_jnode *object, const char *key, double min, double max, double absent)
{
	const struct rk_jnode *node = rk_jget(object, key);
	double v = absent;

	/* What is no number was told already. */
	if (!node || node->type != RK_JNUMBER)
		return absent;
	if (rk_jdouble(node, &v) && v >= min && v <= max)
		return v;
	rk_diag_at(diags, node, RK_AT_VALUE, "\"%s\" is a number from %g to %g", key, min, max);
	return absent;
}

static int whole(struct rk_diags *diags, const struct rk_jnode *object, const char *key, int max, int absent)
{
	const struct rk_jnode *node = rk_jget(object, key);
	uint64_t v;

	if (!node || node->type != RK_JNUMBER)
		return absent;
	if (rk_ju64(node, &v) && v >= 1 && v <= (uint64_t)max)
		return (int)v;
	rk_diag_at(diags, node, RK_AT_VALUE, "\"%s\" is a whole number from 1 to %d", key, max);
	return absent;
}

static void read_kind(struct rk_diags *diags, const struct rk_jnode *node, struct rk_requests *r)
{
	static const struct rk_jfield fields[] = {
		{ "segment", RK_JNUMBER, true }, { "segments", RK_JNUMBER, false }, { "share", RK_JNUMBER, false },
		{ "at", RK_JNUMBER, false },	 { "hours", RK_JNUMBER, false },
	};
	struct rk_request_kind *k = &r->items[r->n];

	if (!rk_diag_fields(diags, node, "an entry of \"requests\"", fields, RK_ARRAY_SIZE(fields)))
		return;
	*k = (struct rk_request_kind){
		.segment = whole(diags, node, "segment", 1000, 1),
		.segments = whole(diags, node, "segments", 1000, 1),
		.share = number(diags, node, "share", 0, 1, 0),
		.at_hours = number(diags, node, "at", 0, 1e6, 0),
		.hours = number(diags, node, "hours", 1e-3, 1e6, 24),
	};
	bool mix = rk_jget(node, "share") != NULL, trace = rk_jget(node, "at") != NULL;
	if (mix == trace || (r->n && mix != r->mix)) {
		rk_diag_at(diags, node, RK_AT_VALUE, "every entry has a \"share\" (a mix), or every entry has \"at\" and \"hours\" (a trace)");
		return;
	}
	if (trace && r->n && r->items[r->n - 1].at_hours > k->at_hours)
		rk_diag_at(diags, rk_jget(node, "at"), RK_AT_VALUE, "a trace is in order of time");
	r->mix = mix;
	r->n++;
}

static void read_document(struct rk_diags *diags, const struct rk_jnode *root, struct rk_arena *arena, struct rk_requests *r)
{
	static const struct rk_jfield fields[] = {
		{ "apiVersion", RK_JSTRING, true }, { "kind", RK_JSTRING, true },	 { "requests", RK_JARRAY, true }, { "load", RK_JNUMBER, false },
		{ "count", RK_JNUMBER, false },	    { "unavailable", RK_JNUMBER, false }, { "seeds", RK_JNUMBER, false },
	};
	const struct rk_jnode *list = rk_jget(root, "requests");
	double shares = 0;

	if (!rk_diag_fields(diags, root, "a requests file", fields, RK_ARRAY_SIZE(fields)) || !list)
		return;
	if (!rk_streq(rk_jstr(rk_jget(root, "apiVersion")), "racksh/v1") || !rk_streq(rk_jstr(rk_jget(root, "kind")), "Requests"))
		rk_diag_at(diags, rk_jget(root, "kind"), RK_AT_VALUE, "\"apiVersion\" is \"racksh/v1\" and \"kind\" is \"Requests\"");
	r->load = number(diags, root, "load", 0.01, 2, 0.85);
	r->count = whole(diags, root, "count", MAX_REQUESTS, 2000);
	r->unavailable = number(diags, root, "unavailable", 0, 0.9, 0);
	r->seeds = whole(diags, root, "seeds", MAX_SEEDS, 4);
	r->items = rk_arena_array(arena, list->n + 1, sizeof(*r->items));
	RK_JEACH(it, list)
		read_kind(diags, it, r);
	for (size_t i = 0; i < r->n; i++)
		shares += r->items[i].share;
	if (!r->n && !diags->n)
		rk_diag_at(diags, list, RK_AT_VALUE, "\"requests\" is empty");
	if (r->mix && fabs(shares - 1) > 1e-6 && !diags->n)
		rk_diag_at(diags, list, RK_AT_VALUE, "the shares sum up to %g, not to 1", shares);
}

int rk_requests_parse(const char *name, const char *text, size_t len, struct rk_arena *arena, struct rk_requests *ret, struct rk_err *err)
{
	RK_CLEANUP_JSON struct rk_json *json = NULL;
	RK_CLEANUP_DIAGS struct rk_diags diags = RK_DIAGS_INIT(name);
	int rc = rk_json_parse(name, text, len, &json, err);

	if (rc)
		return rc;
	*ret = (struct rk_requests){ .mix = false };
	read_document(&diags, rk_json_root(json), arena, ret);
	return rk_diags_result(&diags, err);
}

int rk_requests_load(const char *path, struct rk_arena *arena, struct rk_requests *ret, struct rk_err *err)
{
	char *text RK_CLEANUP_FREE = NULL;
	size_t len;
	int rc = rk_file_read(path, FILE_MAX, &text, &len, err);

	return rc ? rc : rk_requests_parse(path, text, len, arena, ret, err);
}

/* ---- chance ----------------------------------------------------------------------------------------------------------------------------- */

/* splitmix64: small, and the same everywhere. */
static uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static double uniform(uint64_t *state)
{
	return (double)(draw(state) >> 11) * 0x1p-53;
}

static double exponential(uint64_t *state, double mean)
{
	return -mean * log(1 - uniform(state));
}

/* ---- one run ---------------------------------------------------------------------------------------------------------------------------- */

/* Something placed, until it ends. */
struct tenure {
	double end;
	size_t first, n;                  /* in run.parts */
};
struct part {
	int rack, vms;
};
struct run {
	struct rk_choice choice;          /* seats: room is what is free now */
	enum rk_sim_policy policy;
	uint64_t chance, policy_chance;   /* apart, so that every policy meets the same requests */
	double now, began;
	struct { struct tenure *items; size_t n, cap; } heap;   /* earliest end first */
	struct { struct part *items; size_t n, cap; } parts;
	long capacity, used;
	double used_time, frag_time, idle_time;
	struct rk_simulated *out;
};

/* Adds up what is true from run->now until `until`. */
static void pass(struct run *run, double until)
{
	double span = until - run->now;
	long free = 0, segments = 0;

	run->now = until;
	if (span <= 0 || until <= run->began)
		return;
	for (size_t i = 0; i < run->choice.n; i++) {
		free += run->choice.seats[i].room;
		segments += run->choice.seats[i].room / LARGE_VMS;
	}
	run->used_time += span * (double)run->used;
	run->frag_time += free ? span * (1 - (double)(segments * LARGE_VMS) / (double)free) : 0;
	run->idle_time += span * (double)segments;
}

static void heap_push(struct run *run, struct tenure t)
{
	*rk_vec_push(&run->heap) = t;
	struct tenure *h = run->heap.items;
	for (size_t i = run->heap.n - 1; i && h[(i - 1) / 2].end > h[i].end; i = (i - 1) / 2) {
		struct tenure swap = h[i];
		h[i] = h[(i - 1) / 2];
		h[(i - 1) / 2] = swap;
	}
}

static struct tenure heap_pop(struct run *run)
{
	struct tenure *h = run->heap.items, top = h[0];
	size_t n = --run->heap.n;

	h[0] = h[n];
	for (size_t i = 0, child; (child = 2 * i + 1) < n; i = child) {
		child += child + 1 < n && h[child + 1].end < h[child].end;
		if (h[i].end <= h[child].end)
			break;
		struct tenure swap = h[i];
		h[i] = h[child];
		h[child] = swap;
	}
	return top;
}

static void end_until(struct run *run, double until)
{
	while (run->heap.n && run->heap.items[0].end <= until) {
		pass(run, run->heap.items[0].end);
		struct tenure t = heap_pop(run);
		for (size_t i = t.first; i < t.first + t.n; i++) {
			run->choice.seats[run->parts.items[i].rack].room += run->parts.items[i].vms;
			run->used -= run->parts.items[i].vms;
		}
	}
	pass(run, until);
}

/* ---- policies that exist for comparison only ----------------------------------------------------------------------------------------------- */

static struct rk_seat *emptiest(struct run *run, int segment)
{
	struct rk_seat *best = NULL;

	for (size_t i = 0; i < run->choice.n; i++) {
		struct rk_seat *s = &run->choice.seats[i];
		int left = rk_choice_left(&run->choice, s);
		if (left >= segment && (!best || left > rk_choice_left(&run->choice, best)))
			best = s;
	}
	return best;
}

static struct rk_seat *any(struct run *run, int segment)
{
	struct rk_seat *chosen = NULL;
	uint64_t seen = 0;

	for (size_t i = 0; i < run->choice.n; i++)
		if (rk_choice_left(&run->choice, &run->choice.seats[i]) >= segment && draw(&run->policy_chance) % ++seen == 0)
			chosen = &run->choice.seats[i];
	return chosen;
}

static bool one_by_one(struct run *run, const struct rk_request_kind *k, struct rk_seat *(*pick)(struct run *run, int segment))
{
	for (int i = 0; i < k->segments; i++) {
		struct rk_seat *s = pick(run, k->segment);
		if (!s) {
			rk_choice_forget(&run->choice);
			return false;
		}
		rk_choice_take(&run->choice, s, k->segment);
	}
	return true;
}

static bool choose(struct run *run, const struct rk_request_kind *k)
{
	static const enum rk_policy own[] = { [RK_SIM_BEST_FIT] = RK_BEST_FIT, [RK_SIM_SPREAD] = RK_SPREAD, [RK_SIM_FIRST_FIT] = RK_FIRST_FIT };
	struct rk_arena *arena RK_CLEANUP_ARENA = NULL;

	if (run->policy == RK_SIM_WORST_FIT || run->policy == RK_SIM_RANDOM)
		return one_by_one(run, k, run->policy == RK_SIM_RANDOM ? any : emptiest);
	run->choice.arena = arena = rk_arena_new();
	return rk_choose(&run->choice, k->segment * k->segments, k->segment, own[run->policy]);
}

static void request(struct run *run, const struct rk_request_kind *k, double hours)
{
	bool large = k->segment * k->segments >= LARGE_VMS, counts = run->now >= run->began;
	struct tenure t = { .end = run->now + hours, .first = run->parts.n };
	bool placed = choose(run, k);

	if (counts) {
		run->out->requests++;
		run->out->refused += !placed;
		run->out->large += large;
		run->out->refused_large += large && !placed;
	}
	for (size_t i = 0; placed && i < run->choice.n; i++) {
		struct rk_seat *s = &run->choice.seats[i];
		if (!s->used)
			continue;
		*rk_vec_push(&run->parts) = (struct part){ (int)i, s->used };
		s->room -= s->used;
		run->used += s->used;
		s->used = 0;
	}
	run->choice.opened = 0;
	t.n = run->parts.n - t.first;
	if (placed)
		heap_push(run, t);
}

/* A seat is an NVLink domain: a rack, or where racks have no NVLink switches each of its trays. */
static void prepare(struct run *run, const struct rk_site *site, double unavailable)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	int *room = rk_capacity_rooms(site, arena);

	run->choice.seats = rk_xcalloc(site->n_trays + 1, sizeof(*run->choice.seats));
	run->choice.fabric = RK_NONE;
	run->choice.max_new = run->choice.pool = RK_UNLIMITED;
	for (size_t r = 0; r < site->n_racks; r++) {
		int domain = rk_place_domain(&site->profiles[site->racks[r].profile]);
		for (int t = 0; t < room[r]; t++) {
			struct rk_seat *s = &run->choice.seats[run->choice.n];
			bool there = uniform(&run->chance) >= unavailable;
			s->room += there;
			run->capacity += there;
			run->choice.n += (t + 1) % domain == 0 || t + 1 == room[r];
		}
	}
	for (size_t i = 0; i < run->choice.n; i++) {
		struct rk_seat *s = &run->choice.seats[i];
		*s = (struct rk_seat){ .rack = (int)i, .room = s->room, .group = RK_NONE, .fabric = RK_NONE, .kept = true };
	}
}

static void replay_trace(struct run *run, const struct rk_requests *r)
{
	for (size_t i = 0; i < r->n; i++) {
		end_until(run, r->items[i].at_hours);
		request(run, &r->items[i], r->items[i].hours);
	}
	while (run->heap.n)
		end_until(run, run->heap.items[0].end);
}

static const struct rk_request_kind *draw_kind(struct run *run, const struct rk_requests *r)
{
	double at = uniform(&run->chance);
	size_t i = 0;

	while (i + 1 < r->n && at >= r->items[i].share) {
		at -= r->items[i].share;
		i++;
	}
	return &r->items[i];
}

static void replay_mix(struct run *run, const struct rk_requests *r)
{
	double tray_hours = 0;

	for (size_t i = 0; i < r->n; i++)
		tray_hours += r->items[i].share * r->items[i].segment * r->items[i].segments * r->items[i].hours;
	double gap = run->capacity ? tray_hours / (r->load * (double)run->capacity) : tray_hours;
	run->began = gap * r->count / 5;
	for (int i = 0; i < r->count; i++) {
		end_until(run, run->now + exponential(&run->chance, gap));
		const struct rk_request_kind *k = draw_kind(run, r);
		request(run, k, exponential(&run->chance, k->hours));
	}
}

void rk_simulate(const struct rk_site *site, const struct rk_requests *requests, enum rk_sim_policy policy, struct rk_simulated *ret)
{
	double time = 0, tray_time = 0;

	*ret = (struct rk_simulated){ 0 };
	for (int seed = 1; seed <= (requests->mix ? requests->seeds : 1); seed++) {
		struct run run = { .policy = policy, .chance = (uint64_t)seed, .policy_chance = (uint64_t)seed + 1000, .out = ret };
		prepare(&run, site, requests->mix ? requests->unavailable : 0);
		(requests->mix ? replay_mix : replay_trace)(&run, requests);
		double span = run.now > run.began ? run.now - run.began : 0;
		time += span;
		tray_time += span * (double)run.capacity;
		ret->utilisation += run.used_time;
		ret->fragmentation += run.frag_time;
		ret->idle_segments += run.idle_time;
		free(run.choice.seats);
		free(run.heap.items);
		free(run.parts.items);
	}
	ret->utilisation = tray_time > 0 ? ret->utilisation / tray_time : 0;
	ret->fragmentation = time > 0 ? ret->fragmentation / time : 0;
	ret->idle_segments = time > 0 ? ret->idle_segments / time : 0;
}
