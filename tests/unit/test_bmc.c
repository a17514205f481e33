/* The Redfish driver against a fake service: what is read, what is unknown, and services that behave badly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "inventory/site_file.h"
#include "provision/bmc.h"
#include "tests/contract/http_server.h"

#define near(a, b) (fabs((a) - (b)) < 1e-6)

/* A service is a table of paths and bodies; a POST is remembered. */
struct page {
	const char *path, *body;
};
struct fake {
	struct http_server server;
	const struct page *pages, *more;  /* more come first */
	char posted[512];
	int status;                       /* of a POST; 0: 204 */
	struct rk_site *site;
	struct rk_bmc *bmc;
	struct rk_arena *arena;
};

static const struct page tray_pages[] = {
	{ "/redfish/v1/Systems", "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Systems/HGX_Baseboard_0\"},{\"@odata.id\":\"/redfish/v1/Systems/System_0\"}]}" },
	{ "/redfish/v1/Systems/HGX_Baseboard_0", "{\"PowerState\":\"Off\",\"Actions\":{\"#ComputerSystem.Reset\":{\"target\":\"/x\",\"ResetType@Redfish.AllowableValues\":[\"ForceRestart\"]}}}" },
	{ "/redfish/v1/Systems/System_0",
	  "{\"PowerState\":\"On\",\"Actions\":{\"#ComputerSystem.Reset\":{\"target\":\"/redfish/v1/Systems/System_0/Actions/ComputerSystem.Reset\","
	  "\"ResetType@Redfish.AllowableValues\":[\"On\",\"ForceOff\",\"GracefulShutdown\"]}}}" },
	{ "/redfish/v1/Chassis",
	  "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Chassis/Chassis_0\"},{\"@odata.id\":\"/redfish/v1/Chassis/ProcessorModule_0\"},"
	  "{\"@odata.id\":\"/redfish/v1/Chassis/ProcessorModule_1\"},{\"@odata.id\":\"/redfish/v1/Chassis/CBC_0\"}]}" },
	{ "/redfish/v1/Chassis/Chassis_0/ThermalSubsystem/LeakDetection/LeakDetectors?$expand=.",
	  "{\"Members\":[{\"Id\":\"LeakDetector_1\",\"DetectorState\":\"OK\",\"Status\":{\"State\":\"Enabled\"}},"
	  "{\"Id\":\"LeakDetector_2\",\"DetectorState\":\"OK\"}]}" },
	{ "/redfish/v1/Chassis/Chassis_0/EnvironmentMetrics", "{\"PowerWatts\":{\"Reading\":5230.5},\"EnergykWh\":{\"Reading\":812.25}}" },
	{ "/redfish/v1/Chassis/ProcessorModule_0/EnvironmentMetrics", "{\"PowerWatts\":{\"Reading\":2100}}" },
	{ "/redfish/v1/Chassis/ProcessorModule_1/EnvironmentMetrics", "{\"PowerWatts\":{\"Reading\":1900}}" },
	{ "/redfish/v1/ThermalEquipment/CoolingLoops", "{\"Members\":[{\"@odata.id\":\"/redfish/v1/ThermalEquipment/CoolingLoops/1\"}]}" },
	{ "/redfish/v1/ThermalEquipment/CoolingLoops/1/PrimaryCoolantConnectors", "{\"Members\":[{\"@odata.id\":\"/redfish/v1/c/1\"}]}" },
	{ "/redfish/v1/c/1", "{\"SupplyTemperatureCelsius\":{\"Reading\":31.5},\"FlowLitersPerMinute\":{\"Reading\":80}}" },
	{ NULL, NULL },
};

static const char *find(const struct page *pages, const char *path)
{
	for (; pages && pages->path; pages++)
		if (strcmp(pages->path, path) == 0)
			return pages->body;
	return NULL;
}

static void handle(void *ctx, const struct http_request *request, struct http_answer *answer)
{
	struct fake *fake = ctx;
	const char *body = find(fake->more, request->path);

	if (strcmp(request->method, "POST") == 0) {
		snprintf(fake->posted, sizeof(fake->posted), "%s %s", request->path, request->body);
		answer->status = fake->status ? fake->status : 204;
		return;
	}
	body = body ? body : find(fake->pages, request->path);
	answer->status = body && *body ? 200 : 404;
	rk_str_add(&answer->body, body ? body : "{}");
}

static int start(void **state)
{
	static const char text[] = "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"s\",\"racks\":[{\"name\":\"r01\",\"trays\":{\"count\":2}}]}";
	struct fake *fake = rk_xcalloc(1, sizeof(*fake));
	const struct rk_driver_env env = { .timeout_ms = 5000 };

	fake->pages = tray_pages;
	http_start(&fake->server, handle, fake);
	fake->arena = rk_arena_new();
	assert_int_equal(rk_site_parse("s", text, strlen(text), &fake->site, NULL), 0);
	fake->site->bmc = rk_arena_printf(fake->arena, "{\"url\":\"%s/redfish/v1\"}", fake->server.url);
	assert_int_equal(rk_bmc_redfish(&env, &fake->bmc, NULL), 0);
	fake->bmc->site = fake->site;
	*state = fake;
	return 0;
}

static int stop(void **state)
{
	struct fake *fake = *state;

	rk_bmc_close(fake->bmc);
	http_stop(&fake->server);
	rk_site_free(fake->site);
	rk_arena_free(fake->arena);
	free(fake);
	return 0;
}

static const struct rk_bmc_target tray = { 0, 0, 0 };
enum { EVERYTHING = RK_BMC_POWER | RK_BMC_LEAK | RK_BMC_METERS | RK_BMC_COOLANT };

static struct rk_bmc_reading readout(struct fake *fake, const struct page *more)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_bmc_reading r;

	pthread_mutex_lock(&fake->server.lock);
	fake->more = more;
	pthread_mutex_unlock(&fake->server.lock);
	if (fake->bmc->ops->read(fake->bmc, &tray, EVERYTHING, fake->arena, &r, &err))
		fail_msg("%s", err.message);
	return r;
}

static void a_tray_is_read_in_full(void **state)
{
	struct rk_bmc_reading r = readout(*state, NULL);

	assert_int_equal(r.power, RK_POWER_ON);
	assert_true(r.leak_read);
	assert_null(r.leak);
	assert_true(near(r.watts, 5230.5) && near(r.module_watts, 4000) && near(r.kwh, 812.25));
	assert_true(near(r.supply_c, 31.5) && near(r.flow_lpm, 80));
}

#define DETECTORS "/redfish/v1/Chassis/Chassis_0/ThermalSubsystem/LeakDetection/LeakDetectors?$expand=."

static void leaks_are_told_from_dry_disabled_and_unread(void **state)
{
	static const struct {
		const char *body, *leak;
		bool read;
	} rows[] = {
		{ "{\"Members\":[{\"Id\":\"D1\",\"DetectorState\":\"OK\"},{\"Id\":\"D2\",\"DetectorState\":\"Critical\"},{\"Id\":\"D3\",\"DetectorState\":\"Warning\"}]}", "D2 Critical, D3 Warning", true },
		{ "{\"Members\":[{\"Id\":\"D1\",\"DetectorState\":\"Critical\",\"Status\":{\"State\":\"Disabled\"}},{\"Id\":\"D2\",\"DetectorState\":\"OK\"}]}", NULL, true },
		{ "{\"Members\":[{\"Id\":\"D1\"},{\"Id\":\"D2\",\"DetectorState\":\"OK\"}]}", NULL, false },
		{ "{\"Members\":[{\"Id\":\"D1\",\"DetectorState\":null}]}", NULL, false },
		{ "{\"Members\":[]}", NULL, false },
		{ "", NULL, false },
		{ "{\"Members\":[{\"Id\":\"\\u001b[31mD\",\"DetectorState\":\"Critical\"}]}", "\\x1b[31mD Critical", true },
	};
	struct fake *fake = *state;

	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		const struct page more[] = { { DETECTORS, rows[i].body }, { NULL, NULL } };
		struct rk_bmc_reading r = readout(fake, more);
		assert_int_equal(r.leak_read, rows[i].read);
		if (rows[i].leak)
			assert_string_equal(r.leak, rows[i].leak);
		else
			assert_null(r.leak);
		readout(fake, NULL);
	}
}

static void detectors_that_are_only_referred_to_are_fetched(void **state)
{
	static const struct page more[] = {
		{ DETECTORS, "{\"Members\":[{\"@odata.id\":\"/redfish/v1/d/1\"},{\"@odata.id\":\"/redfish/v1/d/2\"}]}" },
		{ "/redfish/v1/d/1", "{\"Id\":\"D1\",\"DetectorState\":\"OK\"}" },
		{ "/redfish/v1/d/2", "{\"Id\":\"D2\",\"DetectorState\":\"Critical\"}" },
		{ NULL, NULL },
	};
	struct rk_bmc_reading r = readout(*state, more);

	assert_true(r.leak_read);
	assert_string_equal(r.leak, "D2 Critical");
}

static void a_reading_that_is_missing_is_unknown_not_zero(void **state)
{
	static const struct page more[] = {
		{ "/redfish/v1/Chassis/Chassis_0/EnvironmentMetrics", "{\"PowerWatts\":{\"Reading\":null},\"EnergykWh\":{}}" },
		{ "/redfish/v1/ThermalEquipment/CoolingLoops", "" },
		{ "/redfish/v1/Systems/System_0", "{\"Actions\":{\"#ComputerSystem.Reset\":{\"target\":\"/r\"}}}" },
		{ NULL, NULL },
	};
	struct rk_bmc_reading r = readout(*state, more);

	assert_true(isnan(r.watts) && isnan(r.kwh) && isnan(r.supply_c) && isnan(r.flow_lpm));
	assert_int_equal(r.power, RK_POWER_UNKNOWN);
}

static void switching_asks_first_and_forces_when_told(void **state)
{
	struct fake *fake = *state;
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;

	assert_int_equal(fake->bmc->ops->set(fake->bmc, &tray, true, false, &err), 0);
	assert_string_equal(fake->posted, ""); /* it is on */
	assert_int_equal(fake->bmc->ops->set(fake->bmc, &tray, false, false, &err), 0);
	assert_string_equal(fake->posted, "/redfish/v1/Systems/System_0/Actions/ComputerSystem.Reset {\"ResetType\":\"GracefulShutdown\"}");
	assert_int_equal(fake->bmc->ops->set(fake->bmc, &tray, false, true, &err), 0);
	assert_non_null(strstr(fake->posted, "{\"ResetType\":\"ForceOff\"}"));
	fake->status = 500;
	assert_int_equal(fake->bmc->ops->set(fake->bmc, &tray, false, true, &err), RK_UNREACHABLE);
	fake->status = 400;
	assert_int_equal(fake->bmc->ops->set(fake->bmc, &tray, false, true, &err), RK_FAILED);
}

static void a_switch_tray_is_switched_as_a_chassis(void **state)
{
	static const struct page switch_pages[] = {
		{ "/redfish/v1/Chassis", "{\"Members\":[{\"@odata.id\":\"/redfish/v1/Chassis/MGX_NVSwitch_0\"}]}" },
		{ "/redfish/v1/Chassis/MGX_NVSwitch_0", "{\"PowerState\":\"Off\",\"Actions\":{\"#Chassis.Reset\":{\"target\":\"/redfish/v1/Chassis/MGX_NVSwitch_0/Actions/Chassis.Reset\"}}}" },
		{ NULL, NULL },
	};
	struct fake *fake = *state;
	const struct rk_bmc_target target = { RK_NONE, 0, 3 };
	struct rk_bmc_reading r;

	fake->pages = switch_pages;
	assert_string_equal(rk_bmc_name(fake->site, &target, fake->arena), "r01-nvsw3");
	assert_int_equal(fake->bmc->ops->read(fake->bmc, &target, EVERYTHING, fake->arena, &r, NULL), 0);
	assert_int_equal(r.power, RK_POWER_OFF);
	assert_int_equal(fake->bmc->ops->set(fake->bmc, &target, true, false, NULL), 0);
	assert_string_equal(fake->posted, "/redfish/v1/Chassis/MGX_NVSwitch_0/Actions/Chassis.Reset {\"ResetType\":\"On\"}");
}

static void services_that_behave_badly_cost_only_the_answer(void **state)
{
	static const struct {
		const char *systems;
		int class;
	} rows[] = {
		{ "{\"Members\":[", RK_UNREACHABLE },                                             /* no JSON */
		{ "[1,2,3]", RK_FAILED },                                                         /* nothing to switch */
		{ "{\"Members\":[{\"@odata.id\":\"//evil.example/x\"}]}", RK_FAILED },            /* another host */
		{ "{\"Members\":[{\"@odata.id\":\"/a b\\r\\nX: y\"}]}", RK_FAILED },              /* not a path */
		{ "{\"Members\":[{\"@odata.id\":7},{},null]}", RK_FAILED },
	};
	static const struct page nothing[] = { { NULL, NULL } };
	struct fake *fake = *state;

	fake->pages = nothing;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		const struct page more[] = { { "/redfish/v1/Systems", rows[i].systems }, { NULL, NULL } };
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		struct rk_bmc_reading r;
		fake->more = more;
		assert_int_equal(fake->bmc->ops->read(fake->bmc, &tray, RK_BMC_POWER, fake->arena, &r, &err), rows[i].class);
		assert_non_null(strstr(err.message, "BMC of \"r01-t01\""));
		fake->more = NULL;
	}
}

static void a_tray_without_a_bmc_is_told_how_to_get_one(void **state)
{
	struct fake *fake = *state;
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_bmc_reading r;

	fake->site->bmc = NULL;
	assert_int_equal(fake->bmc->ops->read(fake->bmc, &tray, RK_BMC_POWER, fake->arena, &r, &err), RK_INVALID);
	assert_string_equal(err.message, "no BMC is known of \"r01-t01\"");
	assert_non_null(err.hint);
}

static void placeholders_name_the_tray(void **state)
{
	struct fake *fake = *state;
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_bmc_reading r;

	fake->site->bmc = "{\"url\":\"https://{tray}.{rack}.invalid/redfish/v1\",\"credentialsFile\":\"no/such/{tray}\"}";
	assert_int_equal(fake->bmc->ops->read(fake->bmc, &tray, RK_BMC_POWER, fake->arena, &r, &err), RK_INVALID);
	assert_non_null(strstr(err.message, "no/such/r01-t01"));
}

int main(void)
{
#define WITH_SERVICE(test) cmocka_unit_test_setup_teardown(test, start, stop)
	const struct CMUnitTest tests[] = {
		WITH_SERVICE(a_tray_is_read_in_full),
		WITH_SERVICE(leaks_are_told_from_dry_disabled_and_unread),
		WITH_SERVICE(detectors_that_are_only_referred_to_are_fetched),
		WITH_SERVICE(a_reading_that_is_missing_is_unknown_not_zero),
		WITH_SERVICE(switching_asks_first_and_forces_when_told),
		WITH_SERVICE(a_switch_tray_is_switched_as_a_chassis),
		WITH_SERVICE(services_that_behave_badly_cost_only_the_answer),
		WITH_SERVICE(a_tray_without_a_bmc_is_told_how_to_get_one),
		WITH_SERVICE(placeholders_name_the_tray),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
