/* Sites made by hand for tests of placement: whoever needs one changes trays, racks and reservations of it. Include cmocka.h first. */
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/str.h"
#include "inventory/site_file.h"
#include "provision/place.h"

enum { DAY_MS = 24 * 3600 * 1000 };
static const int64_t now_ms = 1800000000000;

/* n racks r01.. of `trays` GB300 trays, tenants a and b, two InfiniBand fabrics of which only the first is used. */
static inline struct rk_site *make_site(int n, int trays, const char *more)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_site *s = NULL;

	rk_str_addf(&text,
		    "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\",%s\"racks\":[{\"name\":\"r[01-%02d]\",\"powerKw\":142,"
		    "\"trays\":{\"count\":%d}}],\"tenants\":[{\"name\":\"a\"},{\"name\":\"b\",\"quota\":{\"vms\":6,\"pkeys\":1}}],"
		    "\"infiniband\":[{\"name\":\"ib0\",\"driver\":\"sim\"},{\"name\":\"ib1\",\"driver\":\"sim\"}]}",
		    more, n, trays);
	if (rk_site_parse("site", rk_str_text(&text), text.len, &s, &err))
		fail_msg("%s", err.message);
	rk_site_invent(s);
	s->read_unix_ms = now_ms;
	return s;
}

/* Clusters "c0" (tenant a) and "c1" (tenant b) without VMs. */
static inline void add_clusters(struct rk_site *s)
{
	s->n_clusters = 2;
	s->clusters = rk_arena_array(s->arena, 2, sizeof(*s->clusters));
	s->vms = rk_arena_array(s->arena, s->n_trays, sizeof(*s->vms));
	for (int i = 0; i < 2; i++)
		s->clusters[i] = (struct rk_cluster){ .name = i ? "c1" : "c0", .size = "nd128isr-gb300-v6", .tenant = i, .ib = RK_NONE };
}

static inline void occupy(struct rk_site *s, int tray, int cluster)
{
	s->vms[s->n_vms] = (struct rk_vm){ .name = "v", .cluster = cluster, .tray = tray };
	s->trays[tray].vm = (int)s->n_vms++;
}

static inline void reserve(struct rk_site *s, int tenant, const char *racks, int count, int64_t from, int64_t to)
{
	struct rk_reservation *all = rk_arena_array(s->arena, s->n_reservations + 1, sizeof(*all));

	if (s->n_reservations)
		memcpy(all, s->reservations, s->n_reservations * sizeof(*all));
	all[s->n_reservations] = (struct rk_reservation){ .id = (int64_t)s->n_reservations + 1, .tenant = tenant, .racks = racks, .count = count,
							  .from_unix_ms = from, .to_unix_ms = to };
	s->reservations = all;
	s->n_reservations++;
}

static inline struct rk_spec make_spec(int count, int segment)
{
	return (struct rk_spec){ .name = "new", .tenant = "a", .size = "nd128isr-gb300-v6", .count = count, .placement = { .segment = segment } };
}

static inline void place(const struct rk_site *s, const struct rk_spec *spec, const int *keep, size_t n_keep, struct rk_arena *arena, struct rk_placement *ret)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;

	if (rk_place(s, spec, rk_size_find(s, spec->size), keep, n_keep, arena, ret, &err))
		fail_msg("%s", err.message);
	assert_int_equal(ret->n_reasons, s->n_racks);
	for (size_t r = 0; r < s->n_racks; r++)
		assert_int_equal(ret->reasons[r].rack, r);
}

/* r01 18 free, r02 6, r03 15, r04 18, r05 17. */
static inline struct rk_site *uneven_site(void)
{
	static const int taken[] = { 0, 12, 3, 0, 1 };
	struct rk_site *s = make_site(5, 18, "");

	add_clusters(s);
	for (int r = 0; r < 5; r++)
		for (int t = 0; t < taken[r]; t++)
			occupy(s, r * 18 + t, 0);
	return s;
}
