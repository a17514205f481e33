#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "inventory/base/str.h"
#include "inventory/model.h"
#include "inventory/site_file.h"

/* Two racks of 18; tenant a has cluster alpha (r01-t01..t04), tenant b has cluster beta (r02-t01..t02). r01-t05 is cordoned, r01-t06 faulty, r02-t18
 * offline; r02 keeps two spares. */
static struct rk_site *make_site(void)
{
	static const char text[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\",\"racks\":[{\"name\":\"r01\"},"
				   "{\"name\":\"r02\",\"trays\":{\"spares\":2}}],\"tenants\":[{\"name\":\"a\"},{\"name\":\"b\"}],"
				   "\"infiniband\":[{\"name\":\"ib0\",\"driver\":\"sim\"}],"
				   "\"images\":[{\"name\":\"u\",\"volume\":\"p/u\",\"arch\":\"aarch64\",\"format\":\"raw\"}]}";
	struct rk_site *s = NULL;

	assert_int_equal(rk_site_parse("s", text, strlen(text), &s, NULL), 0);
	rk_site_invent(s);
	s->n_clusters = 2;
	s->clusters = rk_arena_array(s->arena, 2, sizeof(*s->clusters));
	s->clusters[0] = (struct rk_cluster){ .name = "alpha", .tenant = 0, .state = RK_CLUSTER_READY, .first_vm = 0, .n_vms = 4, .ib = RK_NONE };
	s->clusters[1] = (struct rk_cluster){ .name = "beta", .tenant = 1, .state = RK_CLUSTER_BUILDING, .first_vm = 4, .n_vms = 2, .ib = RK_NONE };
	s->n_vms = 6;
	s->vms = rk_arena_array(s->arena, 6, sizeof(*s->vms));
	for (int i = 0; i < 6; i++) {
		int cluster = i >= 4;
		s->vms[i] = (struct rk_vm){ .name = rk_arena_printf(s->arena, "%s-%02d", cluster ? "beta" : "alpha", cluster ? i - 3 : i + 1),
					    .cluster = cluster, .tray = cluster ? 18 + i - 4 : i, .number = cluster ? i - 3 : i + 1,
					    .state = i == 3 ? RK_VM_STOPPED : RK_VM_RUNNING };
	}
	s->trays[4].cordon = "fan";
	s->trays[5].faulty = "erase failed";
	s->trays[35].offline = "no answer";
	rk_site_seal(s);
	return s;
}

static void names_and_guids_are_found(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site();

	(void)state;
	assert_int_equal(rk_find_rack(s, "r02"), 1);
	assert_int_equal(rk_find_tray(s, "r02-t01"), 18);
	assert_int_equal(rk_find_cluster(s, "beta"), 1);
	assert_int_equal(rk_find_vm(s, "alpha-04"), 3);
	assert_int_equal(rk_find_tenant(s, "b"), 1);
	assert_int_equal(rk_find_image(s, "u"), 0);
	assert_int_equal(rk_find_fabric(s, "ib0"), 0);
	for (size_t i = 0; i < s->n_hcas; i++)
		assert_int_equal(rk_find_hca_guid(s, s->hcas[i].port_guid), (int)i);
	for (size_t i = 0; i < s->n_gpus; i++)
		assert_int_equal(rk_find_gpu_guid(s, s->gpus[i].fabric_guid), (int)i);
	assert_int_equal(rk_find_rack(s, "r03"), RK_NONE);
	assert_int_equal(rk_find_tray(s, NULL), RK_NONE);
	assert_int_equal(rk_find_hca_guid(s, 0), RK_NONE);
	assert_int_equal(rk_find_gpu_guid(s, 0), RK_NONE);
}

static void a_tray_has_the_worst_state_that_applies(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site();
	static const struct {
		const char *tray;
		enum rk_tray_state state;
	} rows[] = { { "r01-t01", RK_TRAY_ALLOCATED }, { "r01-t05", RK_TRAY_CORDONED }, { "r01-t06", RK_TRAY_FAULTY }, { "r01-t07", RK_TRAY_FREE },
		     { "r02-t18", RK_TRAY_OFFLINE },   { "r02-t17", RK_TRAY_SPARE },	 { "r02-t16", RK_TRAY_SPARE },	{ "r02-t15", RK_TRAY_FREE } };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++)
		assert_string_equal(rk_tray_state_name(rk_tray_state(s, rk_find_tray(s, rows[i].tray))), rk_tray_state_name(rows[i].state));
	/* Cordoned with a VM on it: still allocated. Faulty and offline win over both. */
	s->trays[0].cordon = "x";
	assert_int_equal(rk_tray_state(s, 0), RK_TRAY_ALLOCATED);
	s->trays[0].faulty = "x";
	assert_int_equal(rk_tray_state(s, 0), RK_TRAY_FAULTY);
	s->trays[0].offline = "x";
	assert_int_equal(rk_tray_state(s, 0), RK_TRAY_OFFLINE);
	s->racks[0].cordon = "leak";
	assert_int_equal(rk_tray_state(s, 6), RK_TRAY_CORDONED);
}

static void sealing_again_follows_changes(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site();

	(void)state;
	assert_int_equal(s->trays[0].vm, 0);
	s->vms[0].tray = 34; /* r02-t17, until now a spare */
	rk_site_seal(s);
	assert_int_equal(s->trays[0].vm, RK_NONE);
	assert_int_equal(rk_tray_state(s, 0), RK_TRAY_FREE);
	assert_int_equal(rk_tray_state(s, 34), RK_TRAY_ALLOCATED);
	assert_int_equal(rk_tray_state(s, 32), RK_TRAY_SPARE);
}

static void power_is_committed_by_allocated_trays(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = make_site();
	double tray = s->profiles[0].tray_kw;

	(void)state;
	assert_true(tray > 0);
	assert_true(rk_rack_kw_committed(s, 0) == 4 * tray);
	assert_true(rk_rack_kw_committed(s, 1) == 2 * tray);
	s->n_vms = 0;
	rk_site_seal(s);
	assert_true(rk_rack_kw_committed(s, 0) == 0);
}

/* ---- selections ------------------------------------------------------------------------------------------------------------ */

typedef int select_fn(const struct rk_site *, const char *, const char *, struct rk_arena *, int **, size_t *, struct rk_err *);

/* The selected names folded, or "class: message / hint". */
static const char *selected(const struct rk_site *s, struct rk_arena *arena, select_fn *fn, const char *selection, const char *except)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	int *at;
	size_t n;
	int rc = fn(s, selection, except, arena, &at, &n, &err);

	if (rc)
		return rk_arena_printf(arena, "%s: %s%s%s", rk_class_name(rc), err.message, err.hint ? " / " : "", err.hint ? err.hint : "");
	const char **names = rk_arena_array(arena, n, sizeof(*names));
	for (size_t i = 0; i < n; i++) {
		names[i] = fn == rk_select_trays ? s->trays[at[i]].name : fn == rk_select_racks ? s->racks[at[i]].name : s->vms[at[i]].name;
		assert_true(!i || at[i] > at[i - 1]);
	}
	return rk_nodeset_fold(arena, names, n);
}

static void selections_follow_names_and_groups(void **state)
{
	static const struct {
		select_fn *fn;
		const char *selection, *except, *expect;
	} rows[] = {
		{ rk_select_trays, "r01-t[01-03]", NULL, "r01-t[01-03]" },
		{ rk_select_trays, "r02-t01,r01-t01,r01-t01", NULL, "r[01-02]-t01" },
		{ rk_select_trays, "@all", NULL, "r[01-02]-t[01-18]" },
		{ rk_select_trays, "@rack:r02", "r02-t[02-18]", "r02-t01" },
		{ rk_select_trays, "@cluster:alpha", NULL, "r01-t[01-04]" },
		{ rk_select_trays, "@tenant:b", NULL, "r02-t[01-02]" },
		{ rk_select_trays, "@state:cordoned", NULL, "r01-t05" },
		{ rk_select_trays, "@state:faulty,@state:offline", NULL, "r01-t06,r02-t18" },
		{ rk_select_trays, "@state:spare", NULL, "r02-t[16-17]" },
		{ rk_select_trays, "@state:allocated!@cluster:alpha", NULL, "r02-t[01-02]" },
		{ rk_select_trays, "@rack:r01&@state:free", NULL, "r01-t[07-18]" },
		{ rk_select_racks, "@all", NULL, "r[01-02]" },
		{ rk_select_racks, "r[01-02]", "r02", "r01" },
		{ rk_select_racks, "@cluster:beta", NULL, "r02" },
		{ rk_select_racks, "@tenant:a", NULL, "r01" },
		{ rk_select_vms, "@all", NULL, "alpha-[01-04],beta-[01-02]" },
		{ rk_select_vms, "alpha-[02-03]", NULL, "alpha-[02-03]" },
		{ rk_select_vms, "r01-t02,r02-t01", NULL, "alpha-02,beta-01" },
		{ rk_select_vms, "@rack:r02", NULL, "beta-[01-02]" },
		{ rk_select_vms, "@tenant:a!alpha-01", NULL, "alpha-[02-04]" },
		{ rk_select_vms, "@state:stopped", NULL, "alpha-04" },
		{ rk_select_vms, "@cluster:alpha", "r01-t01", "alpha-[02-04]" },
		{ rk_select_trays, "r01-t01", "@rack:r01&@state:offline", "r01-t01" },
	};
	struct rk_site *s RK_CLEANUP_SITE = make_site();
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++)
		assert_string_equal(selected(s, arena, rows[i].fn, rows[i].selection, rows[i].except), rows[i].expect);
}

static void what_cannot_be_selected_is_said(void **state)
{
	static const struct {
		select_fn *fn;
		const char *selection, *except, *expect;
	} rows[] = {
		{ rk_select_trays, "r01-t19", NULL, "not-found: no tray \"r01-t19\" / did you mean \"r01-t09\"?" },
		{ rk_select_trays, "r01-t01", "r01-t99", "not-found: no tray \"r01-t99\"" },
		{ rk_select_trays, "r01-t01", "r01-t01", "not-found: the selection \"r01-t01\" names no tray" },
		{ rk_select_trays, "@cluster:gamma", NULL, "not-found: no cluster \"gamma\"" },
		{ rk_select_trays, "@cluster:alhpa", NULL, "not-found: no cluster \"alhpa\" / did you mean \"alpha\"?" },
		{ rk_select_trays, "@rack:r1", NULL, "not-found: no rack \"r1\" / did you mean \"r" },
		{ rk_select_trays, "@state:broken", NULL, "invalid: no state \"broken\"" },
		{ rk_select_trays, "@state:faluty", NULL, "invalid: no state \"faluty\" / did you mean \"faulty\"?" },
		{ rk_select_trays, "@clutser:alpha", NULL, "invalid: unknown group \"@clutser:alpha\" / " },
		{ rk_select_trays, "@all:x", NULL, "invalid: unknown group" },
		{ rk_select_trays, "@rack", NULL, "invalid: unknown group" },
		{ rk_select_trays, "r01-t[01", NULL, "invalid: " },
		{ rk_select_trays, "", NULL, "invalid: " },
		{ rk_select_trays, "r01-t01!r01-t01", NULL, "not-found: the selection \"r01-t01!r01-t01\" names no tray" },
		{ rk_select_trays, "@rack:r01&@state:offline", NULL, "not-found: the selection \"@rack:r01&@state:offline\" names no tray" },
		{ rk_select_racks, "r01-t01", NULL, "not-found: no rack \"r01-t01\"" },
		{ rk_select_vms, "r01-t07", NULL, "not-found: no VM" },
		{ rk_select_vms, "alpha-05", NULL, "not-found: no VM \"alpha-05\" / did you mean \"alpha-0" },
	};
	struct rk_site *s RK_CLEANUP_SITE = make_site();
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	size_t wrong = 0;

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		const char *text = selected(s, arena, rows[i].fn, rows[i].selection, rows[i].except);
		if (strncmp(text, rows[i].expect, strlen(rows[i].expect)) == 0)
			continue;
		print_message("\"%s\": \"%s\" instead of \"%s\"\n", rows[i].selection, text, rows[i].expect);
		wrong++;
	}
	assert_int_equal(wrong, 0);
}

static void an_empty_site_has_nothing_to_find(void **state)
{
	struct rk_site *s RK_CLEANUP_SITE = rk_site_new();
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();

	(void)state;
	assert_int_equal(rk_find_tray(s, "x"), RK_NONE);
	rk_site_seal(s);
	assert_int_equal(rk_find_tray(s, "x"), RK_NONE);
	assert_string_equal(selected(s, arena, rk_select_trays, "@all", NULL), "not-found: the selection \"@all\" names no tray");
	assert_string_equal(selected(s, arena, rk_select_vms, "a-01", NULL), "not-found: no VM \"a-01\"");
	rk_site_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_guids_are_found),
		cmocka_unit_test(a_tray_has_the_worst_state_that_applies),
		cmocka_unit_test(sealing_again_follows_changes),
		cmocka_unit_test(power_is_committed_by_allocated_trays),
		cmocka_unit_test(selections_follow_names_and_groups),
		cmocka_unit_test(what_cannot_be_selected_is_said),
		cmocka_unit_test(an_empty_site_has_nothing_to_find),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
