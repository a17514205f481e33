/* Placement by the letter of the rules, found by trying everything: what the real one is compared with. Nothing of provision/place*.c is used. */
#pragma once
#include <math.h>

#include "provision/power.h"
#include "tests/contract/place_trial.h"

struct brute {
	int n, count, segment, max_racks, pool, fabric;
	int room[TRIAL_RACKS], fabrics[TRIAL_RACKS];
	bool held[TRIAL_RACKS], kept[TRIAL_RACKS], within_quota;
};

static inline int brute_max(int a, int b)
{
	return a > b ? a : b;
}

static inline bool brute_in(const char *racks, const char *name)
{
	int first, last, n = atoi(name + 1);

	if (racks && sscanf(racks, "r[%d-%d]", &first, &last) == 2)
		return n >= first && n <= last;
	return rk_streq(racks, name);
}

static inline double brute_kw(const struct rk_site *s, int rack, const char *size)
{
	double kw = rk_size_find(s, size)->tray_kw;

	return kw > 0 ? kw : s->profiles[s->racks[rack].profile].tray_kw;
}

static inline int brute_domain(const struct rk_site *s, int rack)
{
	const struct rk_profile *p = &s->profiles[s->racks[rack].profile];

	return p->switch_trays ? p->trays : 1;
}

/* Fabric of most of the trays, the first of equals. */
static inline int brute_fabric(const struct rk_site *s, int rack)
{
	int n[2] = { 0 };

	for (int t = s->racks[rack].first_tray; t < s->racks[rack].first_tray + s->racks[rack].n_trays; t++)
		n[trial_fabric(s, t)]++;
	return n[1] > n[0];
}

static inline bool brute_tray(const struct rk_site *s, int tray, int hcas, int gpus)
{
	const struct rk_tray *t = &s->trays[tray];
	const struct rk_rack *r = &s->racks[t->rack];
	const char *expected = r->versions ? r->versions : s->versions;
	bool rails[RK_RAILS_MAX] = { false };

	if (t->offline || t->faulty || t->leak || t->vm >= 0 || t->cordon || r->cordon || (expected && t->versions && strcmp(expected, t->versions) != 0))
		return false;
	for (int h = t->first_hca; h < t->first_hca + t->n_hcas; h++) {
		if (s->hcas[h].fabric != brute_fabric(s, t->rack))
			return false;
		hcas -= !rails[s->hcas[h].rail];
		rails[s->hcas[h].rail] = true;
	}
	return hcas <= 0 && t->n_gpus >= gpus;
}

/* So many trays of so many kilowatts, less what power and cooling do not allow beside what runs there. */
static inline int brute_capped(const struct rk_site *s, int rack, int n, double kw)
{
	const struct rk_rack *r = &s->racks[rack];
	double left = r->power_kw;
	struct rk_cooling c;

	if (r->supply_c > 0) {
		rk_power_cooling(s, rack, r->supply_c, r->flow_lpm, &c);
		left = fmin(left, c.kw);
	}
	for (int t = r->first_tray; t < r->first_tray + r->n_trays; t++)
		left -= s->trays[t].vm >= 0 ? brute_kw(s, rack, s->clusters[s->vms[s->trays[t].vm].cluster].size) : 0;
	while (n > 0 && n * kw > left + 1e-6)
		n--;
	return brute_max(n, 0);
}

static inline int brute_spares(const struct rk_site *s, int rack)
{
	int n = s->racks[rack].spares;

	for (int t = s->racks[rack].first_tray; t < s->racks[rack].first_tray + s->racks[rack].n_trays; t++)
		n = s->trays[t].vm < 0 ? n : brute_max(n, s->clusters[s->vms[s->trays[t].vm].cluster].spares_per_rack);
	return n;
}

static inline bool brute_apart(const struct trial *t, int rack)
{
	const struct rk_site *s = t->site;
	char *quoted RK_CLEANUP_FREE = rk_xasprintf("\"%s\"", t->spec.name);

	for (int at = s->racks[rack].first_tray; at < s->racks[rack].first_tray + s->racks[rack].n_trays; at++) {
		const struct rk_cluster *c = s->trays[at].vm < 0 ? NULL : &s->clusters[s->vms[s->trays[at].vm].cluster];
		if (c && strcmp(c->name, t->spec.name) != 0 &&
		    ((t->spec.placement.n_apart && rk_streq(t->apart[0], c->name)) || (c->spec && strstr(c->spec, quoted))))
			return true;
	}
	return false;
}

static inline bool brute_suits(const struct trial *t, int rack, int segment)
{
	const struct rk_size *size = rk_size_find(t->site, t->spec.size);
	const struct rk_rack *r = &t->site->racks[rack];
	const struct rk_profile *p = &t->site->profiles[r->profile];

	return (!t->spec.placement.racks || brute_in(t->spec.placement.racks, r->name)) && (!size->profile || rk_streq(size->profile, p->name)) &&
	       p->cpus_per_tray >= size->vcpus && p->memory_mib >= size->memory_mib && p->gpus_per_tray >= size->gpus && p->hcas_per_tray >= size->hcas &&
	       p->nvme_per_tray >= size->nvme && segment <= brute_domain(t->site, rack) && rk_rack_leaks(t->site, rack) < 2 && !brute_apart(t, rack);
}

static inline bool brute_reserved(const struct rk_site *s, int rack, bool own)
{
	for (size_t i = 0; i < s->n_reservations; i++)
		if (s->reservations[i].to_unix_ms > now_ms && (s->reservations[i].tenant == 0) == own && brute_in(s->reservations[i].racks, s->racks[rack].name))
			return true;
	return false;
}

static inline int brute_trays(const struct rk_site *s, int rack, int hcas, int gpus)
{
	int n = 0;

	for (int t = s->racks[rack].first_tray; t < s->racks[rack].first_tray + s->racks[rack].n_trays; t++)
		n += brute_tray(s, t, hcas, gpus);
	return n;
}

static inline int brute_room(const struct trial *t, int rack)
{
	const struct rk_size *size = rk_size_find(t->site, t->spec.size);
	int spares = brute_max(brute_spares(t->site, rack), t->spec.placement.spares_per_rack);

	return brute_capped(t->site, rack, brute_trays(t->site, rack, size->hcas, size->gpus) - spares, brute_kw(t->site, rack, t->spec.size));
}

/* For VMs that take all of a tray. */
static inline int brute_capacity(const struct rk_site *s, int rack)
{
	const struct rk_profile *p = &s->profiles[s->racks[rack].profile];

	return rk_rack_leaks(s, rack) >= 2 ? 0 : brute_capped(s, rack, brute_trays(s, rack, p->hcas_per_tray, p->gpus_per_tray) - brute_spares(s, rack), p->tray_kw);
}

/* The most trays that tenants b and c are promised by number and do not hold, at any time from now on: whatever is placed has no end. */
static inline int brute_promised(const struct rk_site *s)
{
	int most = 0;

	for (int64_t at = now_ms; at < now_ms + 9 * DAY_MS; at += DAY_MS / 2) {
		int open[3] = { 0 };
		for (size_t i = 0; i < s->n_reservations; i++)
			open[s->reservations[i].tenant] += s->reservations[i].from_unix_ms <= at && at < s->reservations[i].to_unix_ms ? s->reservations[i].count : 0;
		for (size_t v = 0; v < s->n_vms; v++)
			open[s->clusters[s->vms[v].cluster].tenant]--;
		most = brute_max(most, brute_max(open[1], 0) + brute_max(open[2], 0));
	}
	return most;
}

static inline void brute_look(const struct trial *t, struct brute *b)
{
	const struct rk_site *s = t->site;
	int domain = 1, vms = 0, promised = brute_promised(s);

	*b = (struct brute){ .n = (int)s->n_racks, .count = t->spec.count - (int)t->n_keep, .max_racks = t->spec.placement.max_racks, .fabric = RK_NONE };
	for (int r = 0; r < b->n; r++)
		domain = brute_max(domain, brute_domain(s, r));
	int segment = t->spec.placement.segment ? t->spec.placement.segment : t->spec.count < domain ? t->spec.count : domain;
	b->segment = segment < b->count ? segment : b->count;
	for (int r = 0; r < b->n; r++) {
		bool others = brute_reserved(s, r, false);
		b->kept[r] = brute_reserved(s, r, true);
		b->room[r] = others || !brute_suits(t, r, segment) ? 0 : brute_room(t, r);
		b->fabrics[r] = brute_fabric(s, r);
		b->pool += others || b->kept[r] ? 0 : brute_capacity(s, r);
	}
	b->pool = promised ? brute_max(b->pool - promised, 0) : 1000;
	for (size_t k = 0; k < t->n_keep; k++) {
		b->held[s->trays[t->keep[k]].rack] = true;
		b->fabric = trial_fabric(s, t->keep[0]);
	}
	for (size_t v = 0; v < s->n_vms; v++)
		vms += s->clusters[s->vms[v].cluster].tenant == 0;
	b->within_quota = !s->tenants[0].quota_vms || vms + b->count <= s->tenants[0].quota_vms;
}

/* The rest of the racks, from r on: every number of segments in each, and the last, smaller one in any. */
static inline bool brute_fill(const struct brute *b, int fabric, int r, int segments, int rest, int pool, int racks)
{
	if (!segments && !rest)
		return racks >= 0;
	if (r == b->n || racks < 0)
		return false;
	bool may = b->fabrics[r] == fabric;
	for (int k = 0; k <= (may ? segments : 0); k++)
		for (int last = 0; last <= (may && rest); last++) {
			int vms = k * b->segment + last * rest;
			if (vms <= b->room[r] && (b->kept[r] || vms <= pool) &&
			    brute_fill(b, fabric, r + 1, segments - k, last ? 0 : rest, b->kept[r] ? pool : pool - vms, racks - (vms && !b->held[r])))
				return true;
		}
	return false;
}

/* Can it be placed at all? */
static inline bool brute_fits(const struct trial *t)
{
	struct brute b;
	int held = 0;

	brute_look(t, &b);
	for (int r = 0; r < b.n; r++)
		held += b.held[r];
	int more = !b.max_racks ? b.n : brute_max(b.max_racks - held, 0);
	for (int f = 0; f < 2; f++)
		if ((b.fabric == RK_NONE || b.fabric == f) && brute_fill(&b, f, 0, b.count / b.segment, b.count % b.segment, b.pool, more))
			return b.within_quota && b.count > 0;
	return false;
}

static inline void brute_count(struct trial *t, int count, int segment)
{
	t->spec.count = count;
	t->spec.placement.segment = segment < count ? segment : count; /* 0 stays */
}

/* ---- the best that each change could be: 0 when that change alone does not help -------------------------------------------------------- */

static inline int brute_best_count(struct trial t)
{
	int best = 0, segment = t.spec.placement.segment;

	for (int count = t.spec.count - 1; count > (int)t.n_keep && !best; count--) {
		brute_count(&t, count, segment);
		best = brute_fits(&t) ? count : 0;
	}
	return best;
}

static inline int brute_best_segment(struct trial t)
{
	struct brute b;

	brute_look(&t, &b);
	for (int s = b.segment - 1; s > 0; s--) {
		t.spec.placement.segment = s;
		if (brute_fits(&t))
			return s;
	}
	return 0;
}

static inline int brute_best_max_racks(struct trial t)
{
	for (int m = t.spec.placement.max_racks + 1; t.spec.placement.max_racks && m <= TRIAL_RACKS; m++) {
		t.spec.placement.max_racks = m;
		if (brute_fits(&t))
			return m;
	}
	return 0;
}

enum { BRUTE_MARKS = 12 };

/* The fewest of n marks (texts, or ends of reservations) without which it fits: of every subset. */
static inline int brute_fewest(const struct trial *t, void **marks[], int n)
{
	int fewest = 0;

	for (int set = 1; set < 1 << n; set++) {
		void *old[BRUTE_MARKS];
		int size = __builtin_popcount((unsigned)set);
		if (fewest && size >= fewest)
			continue;
		for (int i = 0; i < n; i++) {
			old[i] = *marks[i];
			*marks[i] = set >> i & 1 ? NULL : old[i];
		}
		fewest = brute_fits(t) ? size : fewest;
		for (int i = 0; i < n; i++)
			*marks[i] = old[i];
	}
	return fewest;
}

/* -1: too many to try. */
static inline int brute_fewest_cordons(const struct trial *t)
{
	struct rk_site *s = t->site;
	void **marks[BRUTE_MARKS];
	int n = 0;

	for (size_t i = 0; i < s->n_racks + s->n_trays; i++) {
		const char **cordon = i < s->n_racks ? &s->racks[i].cordon : &s->trays[i - s->n_racks].cordon;
		if (!*cordon || (i >= s->n_racks && s->trays[i - s->n_racks].vm >= 0))
			continue;
		if (n == BRUTE_MARKS)
			return -1;
		marks[n++] = (void **)cordon;
	}
	return brute_fewest(t, marks, n);
}

static inline int brute_fewest_reservations(const struct trial *t)
{
	struct rk_site *s = t->site;
	int fewest = 0;

	for (int set = 1; set < 1 << s->n_reservations; set++) {
		int64_t old[8];
		int size = __builtin_popcount((unsigned)set);
		bool own = false;
		for (size_t i = 0; i < s->n_reservations; i++) {
			old[i] = s->reservations[i].to_unix_ms;
			own |= set >> i & 1 && s->reservations[i].tenant == 0;
			s->reservations[i].to_unix_ms = set >> i & 1 ? 0 : old[i];
		}
		fewest = !own && (!fewest || size < fewest) && brute_fits(t) ? size : fewest;
		for (size_t i = 0; i < s->n_reservations; i++)
			s->reservations[i].to_unix_ms = old[i];
	}
	return fewest;
}
