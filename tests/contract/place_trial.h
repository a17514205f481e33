/* Random small sites with a cluster to be placed on them: everything that a rule of placement looks at is met. Include cmocka.h first. */
#pragma once
#include "tests/contract/place_site.h"

enum { TRIAL_RACKS = 4, TRIAL_KEEP = 3 };

struct trial {
	struct rk_site *site;    /* tenants a, b and c, clusters c0, c1 and c2 of them; a tray of any cluster is a VM */
	struct rk_spec spec;     /* of tenant a; "new", or c0 when it is grown */
	int keep[TRIAL_KEEP]; size_t n_keep;
	const char *apart[1];
};

static uint64_t trial_seed;

static inline int dice(int n)
{
	trial_seed = trial_seed * 6364136223846793005u + 1442695040888963407u;
	return (int)((trial_seed >> 33) % (uint64_t)n);
}

static inline bool one_in(int n)
{
	return dice(n) == 0;
}

/* Racks of GB300 trays and, `mixed`, behind the first some of boxes that are an NVLink domain each. */
static inline struct rk_site *trial_site(bool mixed)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_site *s = NULL;
	int racks = 2 + dice(TRIAL_RACKS - 1);

	rk_str_addf(&text, "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\",%s\"racks\":[", one_in(4) ? "\"versions\":{\"driver\":\"580.2\"}," : "");
	for (int r = 0; r < racks; r++) {
		bool boxes = mixed && r && dice(2);
		rk_str_addf(&text, "%s{\"name\":\"r%02d\",\"powerKw\":142,%s\"trays\":{\"count\":%d}}", r ? "," : "", r + 1, boxes ? "\"profile\":\"hgx-generic\"," : "",
			    boxes ? 1 + dice(4) : 2 + dice(5));
	}
	rk_str_addf(&text,
		    "],\"tenants\":[{\"name\":\"a\"%s},{\"name\":\"b\"},{\"name\":\"c\"}],"
		    "\"infiniband\":[{\"name\":\"ib0\",\"driver\":\"sim\"},{\"name\":\"ib1\",\"driver\":\"sim\"}]}",
		    one_in(9) ? ",\"quota\":{\"vms\":5}" : "");
	if (rk_site_parse("site", rk_str_text(&text), text.len, &s, &err))
		fail_msg("%s", err.message);
	rk_site_invent(s);
	s->read_unix_ms = now_ms;
	return s;
}

/* Room for one cluster more. */
static inline void trial_clusters(struct rk_site *s)
{
	static const char *const names[] = { "c0", "c1", "c2" };

	s->n_clusters = RK_ARRAY_SIZE(names);
	s->clusters = rk_arena_array(s->arena, s->n_clusters + 1, sizeof(*s->clusters));
	s->vms = rk_arena_array(s->arena, s->n_trays + 1, sizeof(*s->vms));
	for (int i = 0; i < (int)s->n_clusters; i++)
		s->clusters[i] = (struct rk_cluster){ .name = names[i], .size = i == 2 ? "lab-tray" : "nd128isr-gb300-v6", .tenant = i, .ib = RK_NONE,
						      .spares_per_rack = one_in(5) ? dice(3) : 0 };
	if (one_in(5))
		s->clusters[1].spec = "{\"placement\":{\"antiAffinity\":[\"other\",\"new\"]}}";
	if (one_in(5))
		s->clusters[2].spec = "{\"placement\":{\"antiAffinity\":[\"new\"]}}";
}

static inline void trial_tray(struct rk_site *s, int at)
{
	struct rk_tray *t = &s->trays[at];

	switch (dice(32)) {
	case 0:
	case 1:
		t->cordon = "fan";
		break;
	case 2:
		t->faulty = "erase";
		break;
	case 3:
		t->leak = "wet";
		break;
	case 4:
	case 5:
	case 6:
		occupy(s, at, dice(3));
		t->cordon = one_in(5) ? "to be drained" : NULL;
		break;
	case 7:
		t->offline = "x";
		break;
	case 8:
		t->n_hcas -= dice(2);
		break;
	case 9:
		t->versions = "{\"driver\":\"570.1\"}";
		break;
	case 10:
		s->hcas[t->first_hca + dice(t->n_hcas)].fabric = dice(2);
		break;
	default:
		break;
	}
}

static inline void trial_rack(struct rk_rack *r)
{
	r->spares = one_in(4) ? 1 + dice(2) : 0;
	if (one_in(4)) /* enough for some trays, or a watt short */
		r->power_kw = 7.5 * dice(7) - (dice(2) ? 0.001 : 0);
	if (one_in(14)) {
		r->supply_c = 20 + dice(35);
		r->flow_lpm = dice(30);
	}
	r->cordon = one_in(10) ? "pump" : NULL;
	r->versions = one_in(12) ? "{\"driver\":\"570.1\"}" : NULL;
}

static inline void trial_reservations(struct rk_site *s)
{
	static const char *const racks[] = { "r01", "r02", "r[01-02]", "r[02-03]", "r[01-04]", "r09" };

	for (int i = dice(4); i > 0; i--) {
		int64_t from = now_ms + DAY_MS / 2 * (dice(6) - 3), to = one_in(5) ? now_ms - dice(2) : from + DAY_MS / 2 * (1 + dice(5));
		bool whole = dice(2);
		reserve(s, dice(3), whole ? racks[dice((int)RK_ARRAY_SIZE(racks))] : NULL, whole ? 0 : 1 + dice(5), from, to);
	}
}

static inline int trial_fabric(const struct rk_site *s, int tray)
{
	return s->hcas[s->trays[tray].first_hca].fabric;
}

/* Some grow c0: what they keep is on one fabric. */
static inline void trial_keep(struct trial *t)
{
	const struct rk_site *s = t->site;

	for (size_t v = 0; v < s->n_vms && t->n_keep < TRIAL_KEEP; v++)
		if (s->vms[v].cluster == 0 && (!t->n_keep || trial_fabric(s, s->vms[v].tray) == trial_fabric(s, t->keep[0])))
			t->keep[t->n_keep++] = s->vms[v].tray;
}

static inline void trial_spec(struct trial *t, bool mixed)
{
	struct rk_spec *spec = &t->spec;

	*spec = make_spec((int)t->n_keep + 1 + dice(9), one_in(5) ? 0 : 1 + dice(4));
	if (spec->placement.segment > spec->count)
		spec->placement.segment = spec->count;
	if (mixed && dice(2))
		spec->size = "lab-tray";
	spec->placement.max_racks = one_in(3) ? 1 + dice(3) : 0;
	spec->placement.spares_per_rack = one_in(5) ? 1 + dice(2) : 0;
	spec->placement.policy = (enum rk_policy)dice(3);
	if (one_in(5))
		spec->placement.racks = t->site->n_racks > 1 && dice(2) ? "r[01-02]" : "r01";
	t->apart[0] = dice(2) ? "c1" : "c2";
	if (one_in(4)) {
		spec->placement.apart = t->apart;
		spec->placement.n_apart = 1;
	}
	if (t->n_keep) {
		spec->name = "c0";
		t->site->clusters[0].spares_per_rack = spec->placement.spares_per_rack;
	}
}

static inline void make_trial(struct trial *t, uint64_t seed)
{
	trial_seed = seed * 7919 + 13;
	bool mixed = one_in(4);
	*t = (struct trial){ .site = trial_site(mixed) };
	struct rk_site *s = t->site;
	trial_clusters(s);
	if (one_in(3))
		for (size_t h = 0; h < s->n_hcas; h++)
			s->hcas[h].fabric = s->trays[s->hcas[h].tray].rack % 2;
	for (int i = 0; i < (int)s->n_trays; i++)
		trial_tray(s, i);
	for (size_t r = 0; r < s->n_racks; r++)
		trial_rack(&s->racks[r]);
	trial_reservations(s);
	if (one_in(4))
		trial_keep(t);
	trial_spec(t, mixed);
}
