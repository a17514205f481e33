/* Energy of what was validated, and of the whole place: measured or not known, never guessed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "inventory/site_file.h"
#include "provision/facility.h"
#include "provision/health/health.h"
#include "provision/health/report.h"
#include "tests/contract/http_server.h"

/* ---- a validation ----------------------------------------------------------------------------------------------------------------------- */

static struct rk_report judged(const char *const *documents, size_t n, struct rk_arena *arena)
{
	struct rk_target *targets = rk_arena_array(arena, n, sizeof(*targets));
	struct rk_hprofile *profile RK_CLEANUP(rk_cleanup_hprofile) = NULL;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_report report;

	for (size_t i = 0; i < n; i++) {
		struct rk_evidence *e = rk_arena_alloc(arena, sizeof(*e));
		*e = (struct rk_evidence){ "power", documents[i], strlen(documents[i]), "", 0, "0" };
		targets[i] = (struct rk_target){ .name = rk_arena_printf(arena, "a-%02zu", i + 1), .kind = "vm", .evidence = e, .n_evidence = 1 };
	}
	assert_int_equal(rk_hprofile_load("gb300-acceptance", &profile, &err), 0);
	assert_int_equal(rk_judge(profile, "quick", targets, n, arena, &report, &err), 0);
	return report;
}

#define METER(watts, more) "{\"PowerWatts\": {\"Reading\": " watts "}, \"EnergykWh\": {\"Reading\": 812.25}, \"racksh\": {" more "}}"
#define INTERVAL(kwh) "\"module_watts\": 4000, \"interval_seconds\": 360, \"interval_kwh\": " kwh ", \"mean_watts\": 5000"

static void energy_of_a_validation_is_summed_over_its_trays(void **state)
{
	static const char *const all[] = { METER("5100", INTERVAL("0.5")), METER("4900", INTERVAL("0.7")) };
	static const char *const coarse[] = { METER("5100", INTERVAL("0.5")), METER("4900", INTERVAL("null")) };
	static const char *const part[] = { METER("5100", INTERVAL("0.5")), "{\"PowerWatts\": {\"Reading\": null}}" };
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	(void)state;
	struct rk_report r = judged(all, 2, arena);
	assert_true(fabs(r.power_kw - 10) < 1e-9 && fabs(r.module_kw - 8) < 1e-9);
	assert_true(fabs(r.energy_kwh - 1.2) < 1e-9 && fabs(r.energy_seconds - 360) < 1e-9);
	assert_true(fabs(r.mean_kw - 12) < 1e-9); /* from the counters */
	rk_report_html(&text, &r, &(struct rk_report_head){ "cluster a", NULL });
	assert_non_null(strstr(rk_str_text(&text), "Energy: 1.200 kWh in 360 s, mean 12.0 kW, GPU modules 8.0 kW"));
	r = judged(coarse, 2, arena);
	assert_true(isnan(r.energy_kwh));
	assert_true(fabs(r.mean_kw - 10) < 1e-9); /* from the readings at both ends */
	r = judged(part, 2, arena);
	assert_true(isnan(r.power_kw) && isnan(r.mean_kw) && isnan(r.energy_kwh) && isnan(r.pue));
	rk_str_reset(&text);
	rk_report_html(&text, &r, &(struct rk_report_head){ "cluster a", NULL });
	assert_non_null(strstr(rk_str_text(&text), "Energy: not known"));
}

/* ---- the facility ------------------------------------------------------------------------------------------------------------------------- */

static int facility(const char *meter, double *ret, struct rk_err *err)
{
	struct rk_site site = { .meter = meter };
	const struct rk_world world = { .site = &site };

	return rk_facility_read(&world, 100, ret, err);
}

static void the_command_of_the_meter_prints_kw(void **state)
{
	static const struct {
		const char *meter;
		int rc;
		double kw;
		const char *word;
	} rows[] = {
		{ NULL, 0, NAN, NULL },
		{ "{\"command\": \"echo 125.5 kW in hall 2\"}", 0, 125.5, NULL },
		{ "{\"command\": \"printf '\\\\n  0\\\\n'\"}", 0, 0, NULL },
		{ "{\"command\": \"echo about 125\"}", RK_UNREACHABLE, NAN, "no number" },
		{ "{\"command\": \"echo -3\"}", RK_UNREACHABLE, NAN, "no number" },
		{ "{\"command\": \"echo nan\"}", RK_UNREACHABLE, NAN, "no number" },
		{ "{\"command\": \"true\"}", RK_UNREACHABLE, NAN, "no number" },
		{ "{\"command\": \"echo 5; exit 3\"}", RK_UNREACHABLE, NAN, "failed" },
		{ "{\"command\": \"yes\"}", RK_UNREACHABLE, NAN, "too much" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
		double kw = -1;
		int rc = facility(rows[i].meter, &kw, &err);
		if (rc != rows[i].rc || (isnan(rows[i].kw) ? !isnan(kw) : fabs(kw - rows[i].kw) > 1e-9) || (rows[i].word && !strstr(err.message, rows[i].word)))
			fail_msg("%s: %d, %g, %s", rows[i].meter, rc, kw, err.message ? err.message : "no error");
	}
}

static void handle(void *ctx, const struct http_request *request, struct http_answer *answer)
{
	(void)ctx;
	answer->status = 200;
	rk_str_add(&answer->body, strcmp(request->path, "/redfish/v1/Circuits/Main") == 0 ? "{\"PowerWatts\": {\"Reading\": 2841500}}" : "{}");
}

static void a_redfish_meter_is_read(void **state)
{
	struct http_server server;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT, other RK_CLEANUP_ERR = RK_ERR_INIT;
	double kw;

	(void)state;
	http_start(&server, handle, NULL);
	char *meter RK_CLEANUP_FREE = rk_xasprintf("{\"url\": \"%s/redfish/v1/Circuits/Main\"}", server.url);
	char *wrong RK_CLEANUP_FREE = rk_xasprintf("{\"url\": \"%s/redfish/v1/Other\"}", server.url);
	if (facility(meter, &kw, &err))
		fail_msg("%s", err.message);
	assert_true(fabs(kw - 2841.5) < 1e-9);
	assert_int_equal(facility(wrong, &kw, &other), RK_UNREACHABLE);
	assert_true(isnan(kw));
	http_stop(&server);
}

static void pue_needs_both_sides(void **state)
{
	(void)state;
	assert_true(fabs(rk_pue(120, 100) - 1.2) < 1e-9);
	assert_true(isnan(rk_pue(NAN, 100)) && isnan(rk_pue(120, NAN)) && isnan(rk_pue(120, 0)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(energy_of_a_validation_is_summed_over_its_trays),
		cmocka_unit_test(the_command_of_the_meter_prints_kw),
		cmocka_unit_test(a_redfish_meter_is_read),
		cmocka_unit_test(pue_needs_both_sides),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
