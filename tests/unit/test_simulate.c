/* Replaying requests: the published mix, a trace that can be followed by hand, and files that are wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "inventory/base/str.h"
#include "inventory/site_file.h"
#include "provision/simulate.h"

static struct rk_site *make_site(int racks)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_site *site = NULL;

	rk_str_addf(&text, "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\",\"racks\":[{\"name\":\"r[01-%02d]\"}]}", racks);
	assert_int_equal(rk_site_parse("s", rk_str_text(&text), text.len, &site, NULL), 0);
	return site;
}

static int load(const char *text, struct rk_arena *arena, struct rk_requests *ret, struct rk_err *err)
{
	char path[] = "/tmp/racksh-requests-XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(rk_file_write(path, text, strlen(text), 0600, NULL), 0);
	int rc = rk_requests_load(path, arena, ret, err);
	unlink(path);
	return rc;
}

/* field/ecosystem.md 4.4: 64 racks, 1 % of the trays out, loads of .70 and .85. */
static void best_fit_refuses_fewer_large_requests_than_worst_fit_and_random(void **state)
{
	static const double loads[] = { 0.70, 0.85 };
	struct rk_site *site RK_CLEANUP_SITE = make_site(64);
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_requests requests;

	(void)state;
	if (rk_requests_load("tests/examples/requests.json", arena, &requests, &err))
		fail_msg("%s", err.message);
	for (size_t i = 0; i < RK_ARRAY_SIZE(loads); i++) {
		struct rk_simulated best, worst, random;
		requests.load = loads[i];
		rk_simulate(site, &requests, RK_SIM_BEST_FIT, &best);
		rk_simulate(site, &requests, RK_SIM_WORST_FIT, &worst);
		rk_simulate(site, &requests, RK_SIM_RANDOM, &random);
		assert_int_equal(best.large, worst.large);
		assert_int_equal(best.large, random.large);
		assert_true(best.refused_large * 2 < random.refused_large);
		assert_true(random.refused_large < worst.refused_large);
		assert_true(best.fragmentation < random.fragmentation && random.fragmentation < worst.fragmentation);
		assert_true(best.utilisation > random.utilisation && random.utilisation > worst.utilisation);
		print_message("load %.2f: large requests refused of %ld: best-fit %ld, random %ld, worst-fit %ld\n", loads[i], best.large, best.refused_large,
			      random.refused_large, worst.refused_large);
	}
}

static void the_same_requests_give_the_same_answer(void **state)
{
	struct rk_site *site RK_CLEANUP_SITE = make_site(8);
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_requests requests;

	(void)state;
	assert_int_equal(rk_requests_load("tests/examples/requests.json", arena, &requests, NULL), 0);
	for (int p = 0; p < RK_SIM_POLICIES; p++) {
		struct rk_simulated a, b;
		rk_simulate(site, &requests, (enum rk_sim_policy)p, &a);
		rk_simulate(site, &requests, (enum rk_sim_policy)p, &b);
		assert_memory_equal(&a, &b, sizeof(a));
	}
}

/* Two racks of 18. Worst-fit puts the two single VMs into different racks, so that the segment of 18 has no room; best-fit does not. */
static void a_trace_is_replayed_as_written(void **state)
{
	static const char text[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Requests\",\"requests\":["
				   "{\"segment\":1,\"at\":0,\"hours\":10},{\"segment\":1,\"at\":0,\"hours\":10},{\"segment\":18,\"at\":1,\"hours\":4},"
				   "{\"segment\":18,\"at\":11,\"hours\":9}]}";
	struct rk_site *site RK_CLEANUP_SITE = make_site(2);
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_requests requests;
	struct rk_simulated best, worst;

	(void)state;
	assert_int_equal(load(text, arena, &requests, NULL), 0);
	assert_false(requests.mix);
	rk_simulate(site, &requests, RK_SIM_BEST_FIT, &best);
	rk_simulate(site, &requests, RK_SIM_WORST_FIT, &worst);
	assert_int_equal(best.requests, 4);
	assert_int_equal(best.large, 2);
	assert_int_equal(best.refused, 0);
	assert_int_equal(worst.refused, 1);
	assert_int_equal(worst.refused_large, 1);
	/* Tray hours in use over 36 trays and 20 hours. */
	assert_true(best.utilisation > (2 * 10 + 18 * 4 + 18 * 9) / 720.0 - 1e-9 && best.utilisation < (2 * 10 + 18 * 4 + 18 * 9) / 720.0 + 1e-9);
}

static void what_is_placed_and_marked_today_is_no_room(void **state)
{
	static const char text[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Requests\",\"requests\":[{\"segment\":17,\"at\":0,\"hours\":1}]}";
	struct rk_site *site RK_CLEANUP_SITE = make_site(1);
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_requests requests;
	struct rk_simulated s;

	(void)state;
	assert_int_equal(load(text, arena, &requests, NULL), 0);
	site->trays[3].faulty = "x";
	rk_simulate(site, &requests, RK_SIM_BEST_FIT, &s);
	assert_int_equal(s.refused, 0);
	site->racks[0].spares = 1;
	rk_simulate(site, &requests, RK_SIM_BEST_FIT, &s);
	assert_int_equal(s.refused, 1);
}

/* Boxes without NVLink switches are a domain each: VMs that share one do not fit, however many boxes are free. */
static void segments_stay_within_nvlink_domains(void **state)
{
	static const char site_text[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\",\"racks\":[{\"name\":\"r01\",\"profile\":\"hgx-generic\"}]}";
	static const char text[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Requests\",\"requests\":[{\"segment\":2,\"at\":0,\"hours\":1},"
				   "{\"segment\":1,\"segments\":4,\"at\":1,\"hours\":1}]}";
	struct rk_site *site RK_CLEANUP_SITE = NULL;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_requests requests;
	struct rk_simulated s;

	(void)state;
	assert_int_equal(rk_site_parse("s", site_text, strlen(site_text), &site, NULL), 0);
	assert_int_equal(load(text, arena, &requests, NULL), 0);
	rk_simulate(site, &requests, RK_SIM_BEST_FIT, &s);
	assert_int_equal(s.requests, 2);
	assert_int_equal(s.refused, 1);
}

static void wrong_files_are_refused_with_the_place(void **state)
{
#define FILE_OF(rest) "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Requests\"," rest "}"
	static const struct {
		const char *text, *said;
	} rows[] = {
		{ "{", "" },
		{ "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Cluster\",\"requests\":[{\"segment\":1,\"share\":1}]}", "\"kind\" is \"Requests\"" },
		{ FILE_OF("\"requests\":[]"), "is empty" },
		{ FILE_OF("\"requests\":[{\"segment\":1,\"share\":0.5}]"), "sum up to 0.5" },
		{ FILE_OF("\"requests\":[{\"segment\":0,\"share\":1}]"), "\"segment\" is a whole number from 1" },
		{ FILE_OF("\"requests\":[{\"segment\":1.5,\"share\":1}]"), "\"segment\" is a whole number from 1" },
		{ FILE_OF("\"seeds\":0.5,\"requests\":[{\"segment\":1,\"share\":1}]"), "\"seeds\" is a whole number from 1" },
		{ FILE_OF("\"requests\":[{\"segment\":1,\"share\":1},{\"segment\":1,\"at\":0}]"), "every entry has" },
		{ FILE_OF("\"requests\":[{\"segment\":1}]"), "every entry has" },
		{ FILE_OF("\"requests\":[{\"segment\":1,\"at\":2},{\"segment\":1,\"at\":1}]"), "in order of time" },
		{ FILE_OF("\"requests\":[{\"segment\":1,\"share\":1,\"x\":2}]"), "x" },
		{ FILE_OF("\"load\":9,\"requests\":[{\"segment\":1,\"share\":1}]"), "\"load\"" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		struct rk_requests requests;
		assert_int_equal(load(rows[i].text, arena, &requests, &err), RK_INVALID);
		if (!strstr(err.message, rows[i].said))
			fail_msg("\"%s\" does not say \"%s\"", err.message, rows[i].said);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(best_fit_refuses_fewer_large_requests_than_worst_fit_and_random),
		cmocka_unit_test(the_same_requests_give_the_same_answer),
		cmocka_unit_test(a_trace_is_replayed_as_written),
		cmocka_unit_test(what_is_placed_and_marked_today_is_no_room),
		cmocka_unit_test(segments_stay_within_nvlink_domains),
		cmocka_unit_test(wrong_files_are_refused_with_the_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
