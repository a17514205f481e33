/* JSON is written with ' for " here, so that it can be read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "vmspec/vmspec.h"

static char *quoted(const char *text)
{
	char *out = rk_xstrdup(text);

	for (char *p = out; (p = strchr(p, '\''));)
		*p = '"';
	return out;
}

static int parse(const char *text, struct rk_arena *arena, struct rk_spec **ret, struct rk_err *err)
{
	char *json RK_CLEANUP_FREE = quoted(text);

	return rk_spec_parse("c.json", json, strlen(json), arena, ret, err);
}

static struct rk_spec *must_parse(const char *text, struct rk_arena *arena)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_spec *spec = NULL;

	if (parse(text, arena, &spec, &err))
		fail_msg("%s", err.message);
	return spec;
}

#define START(name) "{'apiVersion':'racksh/v1','kind':'Cluster','name':'" name "','tenant':'contoso',\n"
#define HEAD START("a") "'size':'nd128isr-gb300-v6','count':36,'image':'ubuntu-24.04-gb300'"

static const char whole[] =
	HEAD ",\n'placement':{'segment':18,'racks':'r[01-16]','maxRacks':2,'sparesPerRack':1,'policy':'spread','antiAffinity':['b','c']},\n"
	     "'ssh':{'user':'ops','authorizedKeys':['ssh-ed25519 AAAA ops@console','ssh-rsa BBBB']},\n"
	     "'nvlink':{'resiliency':'user_action','multicastGroups':9},\n"
	     "'infiniband':{'pkey':'0x0123','membership':'limited'},\n"
	     "'validation':{'profile':'gb300-acceptance','level':'standard','required':true}}";

/* Exactly these problems, in this order; each as "LINE:COL: beginning of the message". */
static void check_problems(const char *text, const char *const *want, size_t n)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_spec *spec = NULL;

	assert_int_equal(parse(text, arena, &spec, &err), RK_INVALID);
	assert_null(spec);
	size_t found = err.n_details ? err.n_details : 1;
	for (size_t i = 0; i < found; i++) {
		const char *got = err.n_details ? err.details[i] : err.message;
		char *begin RK_CLEANUP_FREE = rk_xasprintf("c.json:%s", i < n ? want[i] : "(nothing)");
		if (i >= n || !rk_starts_with(got, begin))
			fail_msg("problem %zu is \"%s\", not \"%s\"", i, got, begin);
	}
	assert_int_equal(found, n);
}

#define PROBLEMS(text, ...) check_problems(text, (const char *const[]){ __VA_ARGS__ }, RK_ARRAY_SIZE(((const char *const[]){ __VA_ARGS__ })))

static bool accepted(const char *text)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_spec *spec = NULL;

	return parse(text, arena, &spec, NULL) == 0;
}

/* ---- what is read ---------------------------------------------------------------------------------------------------------- */

static void every_key_reaches_its_field(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const struct rk_spec *s = must_parse(whole, arena);

	(void)state;
	assert_string_equal(s->name, "a");
	assert_string_equal(s->tenant, "contoso");
	assert_string_equal(s->size, "nd128isr-gb300-v6");
	assert_string_equal(s->image, "ubuntu-24.04-gb300");
	assert_int_equal(s->count, 36);
	assert_int_equal(s->placement.segment, 18);
	assert_string_equal(s->placement.racks, "r[01-16]");
	assert_int_equal(s->placement.max_racks, 2);
	assert_int_equal(s->placement.spares_per_rack, 1);
	assert_int_equal(s->placement.policy, RK_SPREAD);
	assert_int_equal(s->placement.n_apart, 2);
	assert_string_equal(s->placement.apart[1], "c");
	assert_string_equal(s->ssh.user, "ops");
	assert_int_equal(s->ssh.n_keys, 2);
	assert_string_equal(s->ssh.keys[0], "ssh-ed25519 AAAA ops@console");
	assert_string_equal(s->ssh.keys[1], "ssh-rsa BBBB");
	assert_string_equal(s->nvlink.resiliency, "user_action");
	assert_int_equal(s->nvlink.multicast_groups, 9);
	assert_int_equal(s->infiniband.pkey, 0x123);
	assert_false(s->infiniband.full);
	assert_string_equal(s->validation.profile, "gb300-acceptance");
	assert_string_equal(s->validation.level, "standard");
	assert_true(s->validation.required);
}

static void absent_keys_have_the_documented_defaults(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	const struct rk_spec *s = must_parse(HEAD "}", arena);

	(void)state;
	assert_int_equal(s->placement.segment, 0);
	assert_null(s->placement.racks);
	assert_int_equal(s->placement.max_racks, 0);
	assert_int_equal(s->placement.spares_per_rack, 0);
	assert_int_equal(s->placement.policy, RK_BEST_FIT);
	assert_int_equal(s->placement.n_apart, 0);
	assert_string_equal(s->ssh.user, "root");
	assert_int_equal(s->ssh.n_keys, 0);
	assert_string_equal(s->nvlink.resiliency, "full_bandwidth");
	assert_int_equal(s->nvlink.multicast_groups, 18);
	assert_int_equal(s->infiniband.pkey, 0);
	assert_true(s->infiniband.full);
	assert_null(s->validation.profile);
	assert_null(s->validation.level);
	assert_false(s->validation.required);
}

static void an_alias_of_a_size_becomes_its_name(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();

	(void)state;
	assert_string_equal(must_parse(START("a") "'size':'standard_nd128ISR_gb300_V6','count':1,'image':'i'}", arena)->size, "nd128isr-gb300-v6");
}

static void the_example_of_the_repository_is_accepted(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_spec *spec = NULL;

	(void)state;
	assert_int_equal(rk_spec_load("tests/examples/cluster-a.json", arena, &spec, &err), 0);
	assert_string_equal(spec->name, "reasoning-a");
	assert_int_equal(rk_spec_load("tests/examples/none.json", arena, &spec, &err), RK_NOT_FOUND);
}

/* ---- what is refused ------------------------------------------------------------------------------------------------------- */

static void all_problems_are_reported_at_once_with_their_places(void **state)
{
	(void)state;
	PROBLEMS("{'apiVersion':'racksh/v2',\n 'kind':'Site', 'name':'A',\n 'tenant':'t', 'sise':'x', 'count':0, 'image':7,\n"
		 " 'placement':{'policy':'bestfit','raks':'r1'},\n 'ssh':{'authorizedKeys':['x']}}",
		 "1:1: a cluster spec needs the key \"size\"", "1:15: \"apiVersion\" is \"racksh/v2\"", "2:9: \"kind\" is \"Site\"",
		 "2:24: \"A\" is no valid name", "3:16: unknown key \"sise\" in a cluster spec (did you mean \"size\"?)",
		 "3:36: \"count\" takes a whole number from 1 to 100000, not 0", "3:47: \"image\" must be a string, not a number",
		 "4:24: \"bestfit\" is no policy (did you mean \"best-fit\"?", "4:34: unknown key \"raks\" in \"placement\" (did you mean \"racks\"?)",
		 "5:27: this is no public SSH key");
}

static void one_mistake_is_one_problem(void **state)
{
	(void)state;
	PROBLEMS(START("a") "'size':'s','count':'36','image':'i','placement':{'segment':18}}", "2:20: \"count\" must be a number");
	PROBLEMS(START("a") "'size':'s','count':0,'image':'i','placement':{'segment':18}}", "2:20: \"count\" takes a whole number");
	PROBLEMS(START("a") "'size':'s','image':'i','placement':{'segment':18}}", "1:1: a cluster spec needs the key \"count\"");
	PROBLEMS(START("a") "'size':'s','count':1,'image':'i','ssh':{'user':7}}", "2:48: \"user\" must be a string");
	PROBLEMS(START("a") "'size':'s','count':1,'image':'i','infiniband':{'pkey':257}}", "2:55: \"pkey\" must be a string");
	PROBLEMS(START("a") "'size':'s','count':1,'image':'i','ssh':{'authorizedKeys':{'x':1}}}", "2:58: \"authorizedKeys\" must be an array");
}

static void a_single_problem_is_the_message_and_its_hint(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_spec *spec = NULL;

	(void)state;
	assert_int_equal(parse(HEAD ",\n 'validation':{'level':'quik'}}", arena, &spec, &err), RK_INVALID);
	assert_string_equal(err.message, "c.json:3:24: \"quik\" is no level");
	assert_string_equal(err.hint, "did you mean \"quick\"? (one of quick, standard, deep)");
	assert_int_equal(err.n_details, 0);
}

static void syntax_errors_have_a_place_too(void **state)
{
	(void)state;
	PROBLEMS("{'name':'a',\n'count':}", "2:");
	PROBLEMS("", "1:");
	PROBLEMS("[]", "1:1: a cluster spec must be an object");
}

static void numbers_outside_their_limits_are_refused(void **state)
{
	static const struct {
		const char *tail;
		bool ok;
	} cases[] = {
		{ "'count':1", true }, { "'count':100000", true }, { "'count':0", false }, { "'count':100001", false }, { "'count':-1", false },
		{ "'count':1.5", false }, { "'count':99999999999999999999", false }, { "'count':4,'placement':{'segment':4}", true },
		{ "'count':4,'placement':{'segment':5}", false }, { "'count':4,'placement':{'segment':0}", false },
		{ "'count':4,'placement':{'maxRacks':0}", false }, { "'count':4,'placement':{'sparesPerRack':0}", true },
		{ "'count':4,'placement':{'racks':'r[1-'}", false }, { "'count':4,'placement':{'racks':'@rack:r01'}", true },
		{ "'count':4,'nvlink':{'multicastGroups':1024}", true }, { "'count':4,'nvlink':{'multicastGroups':1025}", false },
		{ "'count':4,'infiniband':{'pkey':'auto'}", true }, { "'count':4,'infiniband':{'pkey':'0x0001'}", true },
		{ "'count':4,'infiniband':{'pkey':'0x7ffe'}", true }, { "'count':4,'infiniband':{'pkey':'0x7fff'}", false },
		{ "'count':4,'infiniband':{'pkey':'0x8123'}", false }, { "'count':4,'infiniband':{'pkey':'0'}", false },
		{ "'count':4,'infiniband':{'pkey':'any'}", false }, { "'count':4,'infiniband':{'membership':'both'}", false },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		char *text RK_CLEANUP_FREE = rk_xasprintf(START("a") "'size':'s','image':'i',%s}", cases[i].tail);
		if (accepted(text) != cases[i].ok)
			fail_msg("%s is %s", cases[i].tail, cases[i].ok ? "refused" : "accepted");
	}
}

static void a_cluster_is_kept_apart_from_others_that_have_a_name(void **state)
{
	(void)state;
	PROBLEMS(HEAD ",\n'placement':{'antiAffinity':['b','a','b-01',1]}}", "3:34: a cluster cannot be kept apart from itself",
		 "3:38: this is no name of a cluster", "3:45: this is no name of a cluster");
	PROBLEMS(HEAD ",\n'placement':{'antiAffinity':'b'}}", "3:29: \"antiAffinity\" must be an array");
}

static void names_that_cannot_be_told_from_a_vm_are_refused(void **state)
{
	static const struct {
		const char *name;
		bool ok;
	} cases[] = {
		{ "a", true }, { "reasoning-a", true }, { "a1", true }, { "a-b2", true }, { "7", true }, { "a-01", false }, { "a-7", false },
		{ "", false }, { "-a", false }, { "a-", false }, { "A", false }, { "a_b", false }, { "a b", false }, { "a/b", false },
		{ "abcdefghijabcdefghijabcdefghijabcdefghijabcdefgh", true }, { "abcdefghijabcdefghijabcdefghijabcdefghijabcdefghi", false },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		char *text RK_CLEANUP_FREE =
			rk_xasprintf("{'apiVersion':'racksh/v1','kind':'Cluster','name':'%s','tenant':'t','size':'s','count':1,'image':'i'}", cases[i].name);
		if (accepted(text) != cases[i].ok)
			fail_msg("\"%s\" is %s", cases[i].name, cases[i].ok ? "refused" : "accepted");
	}
}

static void users_and_keys_that_could_break_out_of_a_file_are_refused(void **state)
{
	static const struct {
		const char *ssh;
		bool ok;
	} cases[] = {
		{ "'user':'_svc-1'", true }, { "'user':''", false }, { "'user':'1a'", false }, { "'user':'Ops'", false }, { "'user':'a b'", false },
		{ "'user':'a\\nb'", false }, { "'authorizedKeys':['ssh-ed25519 AAAA']", true }, { "'authorizedKeys':['ssh-ed25519 AAAA c d']", true },
		{ "'authorizedKeys':['sk-ssh-ed25519@openssh.com AAAA k']", true }, { "'authorizedKeys':['ecdsa-sha2-nistp256 AAAA k']", true },
		{ "'authorizedKeys':['ssh-ed25519 AAAA\\nssh-rsa BBBB']", false }, { "'authorizedKeys':['command=\\\"x\\\" ssh-ed25519 AAAA']", false },
		{ "'authorizedKeys':['ssh-dss AAAA']", false }, { "'authorizedKeys':['ssh-ed25519 ']", false },
		{ "'authorizedKeys':['ssh-ed25519  AAAA']", false }, { "'authorizedKeys':['ssh-ed25519 #!']", false },
		{ "'authorizedKeys':['ecdsa-sha2-nistp AAAA']", false }, { "'authorizedKeys':[1]", false }, { "'authorizedKeys':'ssh-rsa A'", false },
	};

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(cases); i++) {
		char *text RK_CLEANUP_FREE = rk_xasprintf(HEAD ",'ssh':{%s}}", cases[i].ssh);
		if (accepted(text) != cases[i].ok)
			fail_msg("%s is %s", cases[i].ssh, cases[i].ok ? "refused" : "accepted");
	}
}

static void tenants_and_images_need_the_names_a_site_file_can_give_them(void **state)
{
	(void)state;
	PROBLEMS("{'apiVersion':'racksh/v1','kind':'Cluster','name':'a','tenant':'Con toso',\n'size':'s','count':1,'image':'../i'}",
		 "1:64: \"Con toso\" is no valid name of a tenant", "2:30: \"../i\" is no valid name of an image");
	assert_false(accepted("{'apiVersion':'racksh/v1','kind':'Cluster','name':'a','tenant':'','size':'s','count':1,'image':'i'}"));
	assert_true(accepted("{'apiVersion':'racksh/v1','kind':'Cluster','name':'a','tenant':'t','size':'s','count':1,'image':'Ubuntu_24.04'}"));
}

static void the_65th_key_is_refused(void **state)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	(void)state;
	rk_str_add(&text, HEAD ",'ssh':{'authorizedKeys':[");
	for (int i = 0; i < 64; i++)
		rk_str_addf(&text, "%s'ssh-rsa A k%d'", i ? "," : "", i);
	char *fits RK_CLEANUP_FREE = rk_xasprintf("%s]}}", text.text);
	char *more RK_CLEANUP_FREE = rk_xasprintf("%s,'ssh-rsa A k64']}}", text.text);
	assert_true(accepted(fits));
	assert_false(accepted(more));
}

/* ---- what is written ------------------------------------------------------------------------------------------------------- */

/* The parsed spec, written, parsed and written again: both texts are the same. */
static void check_round_trip(const struct rk_spec *spec)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	struct rk_str first RK_CLEANUP_STR = RK_STR_INIT, second RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_spec *again = NULL;

	rk_spec_write(spec, &first);
	if (rk_spec_parse("written", first.text, first.len, arena, &again, &err))
		fail_msg("%s in %s", err.message, first.text);
	rk_spec_write(again, &second);
	assert_string_equal(first.text, second.text);
}

static void what_is_written_parses_to_the_same_spec(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_spec *again = NULL;

	(void)state;
	check_round_trip(must_parse(HEAD "}", arena));
	check_round_trip(must_parse(whole, arena));
	rk_spec_write(must_parse(whole, arena), &text);
	assert_int_equal(rk_spec_parse("w", text.text, text.len, arena, &again, NULL), 0);
	assert_int_equal(again->placement.policy, RK_SPREAD);
	assert_int_equal(again->placement.spares_per_rack, 1);
	assert_int_equal(again->placement.n_apart, 2);
	assert_string_equal(again->placement.apart[0], "b");
	assert_int_equal(again->nvlink.multicast_groups, 9);
	assert_int_equal(again->infiniband.pkey, 0x123);
	assert_string_equal(again->ssh.keys[1], "ssh-rsa BBBB");
	assert_string_equal(again->validation.level, "standard");
}

static void zero_multicast_groups_survive_writing(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_spec *again = NULL;

	(void)state;
	rk_spec_write(must_parse(HEAD ",'nvlink':{'multicastGroups':0}}", arena), &text);
	assert_int_equal(rk_spec_parse("w", text.text, text.len, arena, &again, NULL), 0);
	assert_int_equal(again->nvlink.multicast_groups, 0);
}

/* ---- any bytes -------------------------------------------------------------------------------------------------------------- */

static uint64_t next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* A correct spec with up to three wounds: a word put in, bytes cut out, or one byte changed. */
static void wounded(uint64_t *seed, const char *text, struct rk_str *out)
{
	static const char *const words[] = {
		"-1", "0", "1", "18", "1e3", "99999999999", "null", "true", "\"\"", "\"a-1\"", "\"r[1-9\"", "\"\\u0000\"", "\"\\u0085\"", "{}", "[]",
		"[[[[[[[[[[[[[[[[[[[[[[[[[[", "\"segment\":", "\"count\":", ",", ":", "}", "{", "\"", "\\", "\n", "\xff", "\xc3\xa4", "//",
	};
	size_t len = strlen(text);

	rk_str_reset(out);
	rk_str_addn(out, text, len);
	for (uint64_t n = next(seed) % 4; n; n--) {
		size_t at = next(seed) % (out->len + 1), cut = next(seed) % 3 ? 0 : next(seed) % 12;
		const char *word = next(seed) % 2 ? words[next(seed) % RK_ARRAY_SIZE(words)] : "";
		char *rest RK_CLEANUP_FREE = rk_xstrndup(out->text + at, out->len - at);
		size_t left = strlen(rest);
		out->len = at;
		rk_str_add(out, word);
		rk_str_add(out, rest + (cut < left ? cut : left));
		if (out->len && next(seed) % 2)
			out->text[next(seed) % out->len] = (char)(next(seed) % 255 + 1);
	}
}

/* "c.json:LINE:COL: words" */
static bool positioned(const char *message)
{
	unsigned line, col;
	int end = 0;

	return sscanf(message, "c.json:%u:%u: %n", &line, &col, &end) == 2 && end > 0 && line && col && message[end];
}

static void any_bytes_give_a_valid_spec_or_a_positioned_error(void **state)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	char *correct RK_CLEANUP_FREE = quoted(whole);
	uint64_t seed = 0x9e3779b97f4a7c15;
	int good = 0, bad = 0;

	(void)state;
	for (int i = 0; i < 100000; i++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
		struct rk_spec *spec = NULL;
		wounded(&seed, correct, &text);
		int rc = rk_spec_parse("c.json", text.text, text.len, arena, &spec, &err);
		if (!rc) {
			assert_true(rk_name_valid(spec->name) && spec->count >= 1 && spec->count <= 100000 && spec->placement.segment <= spec->count);
			check_round_trip(spec);
			good++;
		} else if (rc != RK_INVALID || spec || !positioned(err.message)) {
			fail_msg("run %d: class %d, \"%s\" for: %s", i, rc, err.message, text.text);
		} else {
			bad++;
		}
	}
	/* Both outcomes were really met. */
	assert_true(good > 10000);
	assert_true(bad > 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_reaches_its_field),
		cmocka_unit_test(absent_keys_have_the_documented_defaults),
		cmocka_unit_test(an_alias_of_a_size_becomes_its_name),
		cmocka_unit_test(the_example_of_the_repository_is_accepted),
		cmocka_unit_test(all_problems_are_reported_at_once_with_their_places),
		cmocka_unit_test(one_mistake_is_one_problem),
		cmocka_unit_test(a_single_problem_is_the_message_and_its_hint),
		cmocka_unit_test(syntax_errors_have_a_place_too),
		cmocka_unit_test(numbers_outside_their_limits_are_refused),
		cmocka_unit_test(a_cluster_is_kept_apart_from_others_that_have_a_name),
		cmocka_unit_test(names_that_cannot_be_told_from_a_vm_are_refused),
		cmocka_unit_test(users_and_keys_that_could_break_out_of_a_file_are_refused),
		cmocka_unit_test(tenants_and_images_need_the_names_a_site_file_can_give_them),
		cmocka_unit_test(the_65th_key_is_refused),
		cmocka_unit_test(what_is_written_parses_to_the_same_spec),
		cmocka_unit_test(zero_multicast_groups_survive_writing),
		cmocka_unit_test(any_bytes_give_a_valid_spec_or_a_positioned_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
