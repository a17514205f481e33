#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "inventory/db.h"
#include "tests/contract/child.h"

/* What a validation could not write down is told, whatever its verdict. */

static char folder[] = "/tmp/racksh-validate.XXXXXX";
static char *store;

/* What a command on the twin printed to both streams, and "exit N" behind it; to be freed. */
static char *twin(const char *option, const char *words)
{
	const char *binary = getenv("RACKSH");
	char *line RK_CLEANUP_FREE = rk_xasprintf("%s -q -y --sim tests/examples/site-1.json --sim-state %s %s -c '%s' 2>&1; echo exit $?",
						  binary ? binary : "build/racksh", store, option, words);

	return output_of((const char *const[]){ "sh", "-c", line, NULL });
}

static void change_store(const char *sql)
{
	char *uri RK_CLEANUP_FREE = rk_xasprintf("sqlite:%s", store);
	struct rk_db *db RK_CLEANUP_DB = NULL;

	assert_int_equal(rk_db_open(uri, true, &db, NULL), 0);
	assert_int_equal(rk_db_query(db, sql, NULL, 0, NULL, NULL, NULL), 0);
}

static int make_twin(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	store = rk_xasprintf("%s/twin", folder);
	char *out RK_CLEANUP_FREE = twin("", "cluster create tests/examples/cluster-lab.json");
	return out && strcmp(out, "exit 0\n") == 0 ? 0 : -1;
}

static int remove_twin(void **state)
{
	(void)state;
	free(store);
	return run((const char *const[]){ "rm", "-rf", folder, NULL });
}

static void what_could_not_be_written_down_is_told(void **state)
{
	static const struct {
		const char *statement, *option, *level, *told, *code;
	} rows[] = {
		{ "UPDATE OF validation ON clusters", "", "quick", ": the verdict was not written down: ", "exit 4\n" },
		{ "INSERT ON health_samples", "", "standard", ": the verdict was not written down: ", "exit 4\n" },
		{ "INSERT ON marks", "--sim-fault gpu-remap@r01-t01/1", "quick", "\n  not cordoned: r01-t01: ", "exit 7\n" },
		{ "UPDATE OF validation ON clusters", "-o json", "quick", "the verdict was not written down: ", "exit 7\n" },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		char *trigger RK_CLEANUP_FREE = rk_xasprintf("CREATE TRIGGER refused BEFORE %s BEGIN SELECT RAISE(ABORT, 'no room'); END", rows[i].statement);
		change_store(trigger);
		char *command RK_CLEANUP_FREE = rk_xasprintf("validate cluster lab-a --level %s", rows[i].level), *out RK_CLEANUP_FREE = twin(rows[i].option, command);
		change_store("DROP TRIGGER refused");
		const char *told = strstr(out, rows[i].told);
		if (!told || !strstr(told, "no room") || !strstr(told, rows[i].code))
			fail_msg("row %zu: %s", i, out);
		/* The result itself is shown all the same. */
		assert_non_null(strstr(out, "verdict"));
	}
}

/* Evidence of another cluster, or of some VMs, is not evidence of the cluster; and it is of the time when it was kept. */
static void a_report_is_of_the_whole_cluster_and_of_its_time(void **state)
{
	char *line RK_CLEANUP_FREE = rk_xasprintf(
		"cd %s && sed s/lab-a/lab-b/ \"$OLDPWD\"/tests/examples/cluster-lab.json >b.json && mkdir old && "
		"sed s/2026-11-02T03:04:05Z/2025-01-02T03:04:05Z/ \"$OLDPWD\"/tests/evidence/two-faults/manifest.json >old/manifest.json && mkdir -p hostile/x && "
		"mkdir -p own/w-ill own/w-slow && echo '{\"results\":{\"throughput\":58000}}' >own/w-ill/llm-serve.stdout && echo 1 >own/w-ill/llm-serve.status && "
		"echo '{\"results\":{\"throughput\":55000}}' >own/w-slow/llm-serve.stdout && echo 0 >own/w-slow/llm-serve.status && "
		"echo '{\"apiVersion\":\"racksh/v1\",\"kind\":\"Evidence\",\"targets\":{\"w-ill\":{},\"w-slow\":{}}}' >own/manifest.json && "
		"printf '{\"apiVersion\":\"racksh/v1\",\"kind\":\"Evidence\",\"targets\":{\"x\":{\"rack\":\"r\\\\u001b[31m\"},\"y\":{}}}' >hostile/manifest.json && "
		"echo '{\"nodes\":{\"0\":{\"status\":\"\\u009b31mUP\",\"host\":\"x\"}}}' >hostile/x/imex-nodes.stdout && echo 0 >hostile/x/imex-nodes.status && mkdir wide && for n in 01 02 03 04 05 06 07 08 09 10 11 12; do mkdir wide/w-$n; "
		"echo '{\"results\":{\"throughput\":'1$n'}}' >wide/w-$n/llm-serve.stdout; echo 0 >wide/w-$n/llm-serve.status; echo '\"w-'$n'\":{},'; done >names && "
		"{ echo '{\"apiVersion\":\"racksh/v1\",\"kind\":\"Evidence\",\"targets\":{'; cat names; echo '\"w-13\":{}}}'; } >wide/manifest.json", folder);
	char *made RK_CLEANUP_FREE = output_of((const char *const[]){ "sh", "-c", line, NULL }), *option RK_CLEANUP_FREE = rk_xasprintf("-D d=%s", folder);
	static const struct {
		const char *words, *told;
	} rows[] = {
		{ "cluster create $d/b.json; validate cluster lab-b --save $d/b; report cluster lab-a --evidence $d/b --format json", "holds answers of others: lab-b-[01-04]" },
		{ "validate vm lab-a-[01-02] --save $d/part; report cluster lab-a --evidence $d/part --format json", "holds no answers of some VMs: lab-a-[03-04]" },
		{ "validate cluster lab-a --save $d/a; report cluster lab-a --evidence $d/a --format json", "\"verdict\": \"pass\"" },
		{ "validate replay $d/hostile", "\nr\\x1b[31m " },
		{ "validate replay $d/hostile", "\\xc2\\x9b31mUP" },
		/* A benchmark that failed is no measurement, and a warning tells the threshold that it is about. */
		{ "validate replay $d/own --level deep --profile tests/examples/profile-workload.json", "unknown  w-ill (1): site.tokens: exit code 1, expected >= 52000" },
		{ "validate replay $d/own --level deep --profile tests/examples/profile-workload.json", "warn     w-slow (1): site.tokens: 55000, expected >= 57000" },
		/* A measurement is another one on each of them: not a line for each. */
		{ "validate replay $d/wide --level deep --profile tests/examples/profile-workload.json",
		  "fail     w-[08-12] (5): site.tokens: 5 other values (-v lists them)\n         wanted: tokens per second" },
		{ "validate replay $d/wide --level deep --profile tests/examples/profile-workload.json", "\nroot cause 8: check of the site: w-[08-12]: tokens per second of one tray (found 5 other values, " },
		{ "-v validate replay $d/wide --level deep --profile tests/examples/profile-workload.json", "fail     w-09 (1): site.tokens: 109, expected >= 52000" },
		{ "validate replay $d/old", "started  2025-01-02T03:04:05Z" },
	};

	(void)state;
	assert_string_equal(made, "");
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		char *out RK_CLEANUP_FREE = twin(option, rows[i].words);
		if (!strstr(out, rows[i].told))
			fail_msg("row %zu: %s", i, out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_report_is_of_the_whole_cluster_and_of_its_time),
		cmocka_unit_test(what_could_not_be_written_down_is_told), /* leaves a fault behind */
	};

	return cmocka_run_group_tests(tests, make_twin, remove_twin);
}
