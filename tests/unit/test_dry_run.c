#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/app.h"
#include "tests/contract/racksh_runs.h"

/* A dry run is refused as the real run is: the same code, the same message. For every command that changes something a request that cannot be. */

enum { GONE = 137 };

/* States that requests are made in, each from the one before it. */
static const struct state {
	const char *name, *from, *fault, *commands;
	int code;
} states[] = {
	{ "ready", NULL, NULL, "image add spare default/spare.qcow2; cluster create a.json; tenant create empty", 0 },
	/* The process that did it is gone: the operation holds what it held. */
	{ "growing", "ready", "hv.start#1=kill", "cluster grow a 5", GONE },
	{ "deleting", "ready", "hv.undefine#1=kill", "cluster delete a", GONE },
	{ "awaiting", "ready", NULL, "cluster grow a 5 --confirm-within 1h", 0 },
	{ "powering", "ready", "bmc.set#1=kill", "power off r01-t10", GONE },
};

static const struct {
	const char *state, *command;
} requests[] = {
	{ "ready", "site import other.json" },
	{ "ready", "site import nowhere.json" },
	{ "ready", "site discover r09 --apply" },
	{ "ready", "tenant create Bad_Name" },
	{ "ready", "tenant delete contoso" },
	{ "ready", "tenant delete nobody" },
	{ "ready", "image add spare default/spare.qcow2" },
	{ "ready", "image remove ubuntu-24.04-gb300" },
	{ "ready", "image remove none" },
	{ "ready", "cluster create nowhere.json" },
	{ "ready", "cluster create other-a.json" },
	{ "ready", "cluster create large.json" },
	{ "ready", "cluster grow a 99" },
	{ "ready", "cluster grow a 2" },
	{ "growing", "cluster grow a 6" },
	{ "ready", "cluster shrink a 9" },
	{ "growing", "cluster shrink a 2" },
	{ "awaiting", "cluster shrink a 2" },
	{ "ready", "cluster repair a a-77" },
	{ "growing", "cluster repair a" },
	{ "ready", "cluster rename a Bad" },
	{ "ready", "cluster rename none b" },
	{ "growing", "cluster rename a b" },
	{ "ready", "cluster delete none" },
	{ "growing", "cluster delete a" },
	{ "ready", "vm start a-77" },
	{ "ready", "vm stop a-77" },
	{ "deleting", "vm stop a-01" },
	{ "growing", "vm reboot a-01" },
	{ "ready", "vm reboot nothing" },
	{ "growing", "tray uncordon r09-t01" },
	{ "ready", "tray cordon r09-t01 --reason x" },
	{ "ready", "tray replace r01-t01" },
	{ "ready", "tray replace r01-t01 --from-discovery" },
	{ "growing", "tray replace r01-t01 --identity tray.json" },
	{ "ready", "rack cordon r09" },
	{ "ready", "rack uncordon r09" },
	{ "ready", "reserve create contoso --count 999 --for 1d" },
	{ "ready", "reserve create nobody --count 1 --for 1d" },
	{ "ready", "reserve cancel 9" },
	{ "ready", "silence create r09-t01 --reason x --for 1h" },
	{ "ready", "silence cancel 9" },
	{ "ready", "power read r09" },
	{ "ready", "power on r09" },
	{ "powering", "power off r01-t11" },
	{ "ready", "power off @cluster:a" },
	{ "ready", "op resume 99" },
	{ "awaiting", "op resume 2" },
	{ "ready", "op rollback 99" },
	{ "deleting", "op rollback 2" },
	{ "ready", "op cancel 99" },
	{ "deleting", "op cancel 2" },
	{ "ready", "op confirm 1" },
	{ "growing", "op confirm 2" },
	{ "ready", "op takeover 1" },
	{ "ready", "service create Bad_Name --all --servers 0x5000e60300ff0001" },
	{ "ready", "service create s --all --servers 0x5000e60300ff0001 --fabric none" },
	{ "growing", "service create s --all --servers 0x5000e60300ff0001" },
	{ "ready", "service delete none" },
	{ "ready", "ib import nowhere.txt" },
	{ "ready", "drift cluster none --fix" },
	{ "ready", "store migrate --to nonsense:x" },
	{ "ready", "store migrate --to sqlite:used.db" },
	{ "ready", "begin; tenant create Bad_Name; commit" },
	{ "growing", "begin; cluster grow a 6; commit" },
};

/* On the twin kept in `state`. */
static int run(const char *state, const char *fault, const char *commands)
{
	const char *argv[] = { racksh, "--sim", "tests/examples/site-1.json", "--sim-state", state, "-q", "-y", "-j", "1", "-c", commands,
			       fault ? "--sim-fault" : NULL, fault, NULL };

	return run_racksh(argv);
}

static void copy(const char *from, const char *to)
{
	static const char *const parts[] = { "", "-wal", "-shm" };

	for (size_t i = 0; i < RK_ARRAY_SIZE(parts); i++) {
		char *source RK_CLEANUP_FREE = rk_xasprintf("%s/%s.db%s", folder, from, parts[i]), *target RK_CLEANUP_FREE = rk_xasprintf("%s/%s.db%s", folder, to, parts[i]);
		char *data RK_CLEANUP_FREE = NULL;
		size_t len;
		unlink(target);
		if (rk_file_read(source, 64 << 20, &data, &len, NULL) == 0)
			assert_int_equal(rk_file_write(target, data, len, 0600, NULL), 0);
	}
}

static void put_files(void)
{
	char *a RK_CLEANUP_FREE = cluster_text("a", 4), *other RK_CLEANUP_FREE = cluster_text("a", 6), *large RK_CLEANUP_FREE = cluster_text("b", 40);
	struct rk_str tray RK_CLEANUP_STR = RK_STR_INIT;

	put_text("a.json", a);
	put_text("other-a.json", other);
	put_text("large.json", large);
	put_text("other.json", "{\"apiVersion\":\"racksh/v1\",\"kind\":\"Site\",\"name\":\"example-1\",\"racks\":[{\"name\":\"r02\"}]}");
	rk_str_add(&tray, "{\"serial\":\"new\",\"gpus\":[");
	for (int i = 0; i < 4; i++)
		rk_str_addf(&tray, "%s{\"index\":%d,\"fabricGuid\":\"0x00000000beef000%d\"}", i ? "," : "", i, i);
	rk_str_add(&tray, "],\"hcas\":[");
	for (int i = 0; i < 4; i++)
		rk_str_addf(&tray, "%s{\"rail\":%d,\"portGuid\":\"0x00000000cafe000%d\"}", i ? "," : "", i, i);
	rk_str_add(&tray, "]}");
	put_text("tray.json", rk_str_text(&tray));
}

static int make_states(void **state)
{
	(void)state;
	if (open_folder((const char *const[]){ "tests", NULL }))
		return -1;
	put_files();
	for (size_t i = 0; i < RK_ARRAY_SIZE(states); i++) {
		char *file RK_CLEANUP_FREE = rk_xasprintf("%s.db", states[i].name);
		if (states[i].from)
			copy(states[i].from, states[i].name);
		int code = run(file, states[i].fault, states[i].commands);
		char *err RK_CLEANUP_FREE = text_of("err");
		if (code != states[i].code) {
			print_error("state %s: %d: %s\n", states[i].name, code, err);
			return -1;
		}
	}
	copy("ready", "used");
	return 0;
}

static int remove_states(void **state)
{
	(void)state;
	/* Ends the process that watches over it. */
	run("awaiting.db", NULL, "op confirm 2");
	return remove_folder();
}

/* What was said of the error: without hints, which may tell what to do about the plan. */
static char *said(void)
{
	struct rk_str text = RK_STR_INIT;
	char *all RK_CLEANUP_FREE = text_of("err");

	for (char *line = all; *line;) {
		size_t n = strcspn(line, "\n");
		if (strncmp(line, "racksh: ", 8) == 0)
			rk_str_addf(&text, "%.*s\n", (int)n, line);
		line += n + (line[n] == '\n');
	}
	return rk_str_steal(&text);
}

static void a_dry_run_is_refused_as_the_real_run_is(void **state)
{
	size_t failed = 0;

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(requests); i++) {
		char *dry RK_CLEANUP_FREE = rk_xasprintf("%s -n", requests[i].command);
		copy(requests[i].state, "run");
		int dry_code = run("run.db", NULL, dry);
		char *dry_said RK_CLEANUP_FREE = said();
		int code = run("run.db", NULL, requests[i].command);
		char *real_said RK_CLEANUP_FREE = said();
		if (code && code == dry_code && strcmp(real_said, dry_said) == 0)
			continue;
		print_error("%s: \"%s\": %d %s    with -n: %d %s", requests[i].state, requests[i].command, code, real_said, dry_code, dry_said);
		failed++;
	}
	assert_int_equal(failed, 0);
}

static bool is_asked(const struct rk_command *c)
{
	char *name RK_CLEANUP_FREE = rk_xasprintf("%s%s%s", c->noun, c->verb ? " " : "", c->verb ? c->verb : "");

	for (size_t i = 0; i < RK_ARRAY_SIZE(requests); i++) {
		const char *at = strstr(requests[i].command, name);
		bool first = at == requests[i].command, last = at && strcmp(at, name) == 0;
		if (at && (first || last))
			return true;
	}
	return false;
}

static void every_command_that_changes_something_is_asked(void **state)
{
	const struct rk_noun *const *const lists[] = { rk_nouns, rk_shell_words };

	(void)state;
	for (size_t l = 0; l < RK_ARRAY_SIZE(lists); l++)
		for (const struct rk_noun *const *n = lists[l]; *n; n++)
			for (size_t i = 0; i < (*n)->n; i++) {
				const struct rk_command *c = &(*n)->commands[i];
				if (((c->flags & RK_CMD_CHANGES) || c->changes_with) && !is_asked(c))
					fail_msg("no bad request for %s %s", c->noun, c->verb ? c->verb : "");
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_dry_run_is_refused_as_the_real_run_is),
		cmocka_unit_test(every_command_that_changes_something_is_asked),
	};

	return cmocka_run_group_tests(tests, make_states, remove_states);
}
