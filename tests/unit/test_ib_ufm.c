#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "inventory/base/json.h"
#include "provision/ssh.h"
#include "tests/contract/fabric_site.h"
#include "tests/contract/http_server.h"
#include "tests/contract/ib_contract.h"
#include "tests/contract/tls_server.h"

/* ---- a UFM that behaves as the documents say: {} for what is not there, a partition gone with its last GUID, full unless told otherwise ---------- */

enum { KEYS = 8, PORTS = 8 };
enum fault { NONE, CUT, CONFLICT, LIE, BROKEN_WITH_EFFECT, BROKEN, EXPIRED, NULL_LIST, LATE, NO_MEMBERSHIP, DEFAULT_FULL, NO_LIST, NEVER, NULL_KEY, NULL_GUIDS, OTHER_FORMS, NUMBERS, SHORT };

struct key {
	unsigned pkey;             /* 0: free */
	bool in[PORTS], full[PORTS];
};
struct fake {
	struct ib_bench bench;     /* first: the contract reads it */
	struct http_server server;
	struct rk_site *site;
	struct rk_driver_env env;
	struct key keys[KEYS], later[KEYS];
	int64_t later_ms;
	enum fault fault;
	int refused, vanished, down;
	const char *token;
	char folder[64];
};

static struct key *find(struct fake *f, unsigned pkey, bool make)
{
	for (int i = 0; i < KEYS; i++)
		if (f->keys[i].pkey == pkey)
			return &f->keys[i];
	for (int i = 0; make && i < KEYS; i++)
		if (!f->keys[i].pkey) {
			f->keys[i] = (struct key){ .pkey = pkey };
			return &f->keys[i];
		}
	return NULL;
}

static void key_json(const struct fake *f, struct rk_jw *w, const struct key *k)
{
	char guid[24];

	if (f->fault == NULL_KEY) {
		rk_jw_null(w);
		return;
	}
	rk_jw_object(w);
	rk_jw_key(w, "guids"), f->fault == NULL_GUIDS ? rk_jw_null(w) : rk_jw_array(w);
	for (int i = 0; i < PORTS; i++) {
		if (!k->in[i] || f->fault == NULL_GUIDS)
			continue;
		snprintf(guid, sizeof(guid), f->fault == OTHER_FORMS ? "0x%016" PRIX64 : "%016" PRIx64, ib_guid(&f->bench, i));
		rk_jw_object(w);
		rk_jw_key(w, "guid"), f->fault == NUMBERS ? rk_jw_u64(w, ib_guid(&f->bench, i)) : rk_jw_str(w, guid);
		rk_jw_key(w, "index0"), f->fault == OTHER_FORMS ? rk_jw_str(w, "true") : rk_jw_bool(w, true);
		if (f->fault != NO_MEMBERSHIP)
			rk_jw_key(w, "membership"), rk_jw_str(w, k->full[i] ? "full" : "limited");
		rk_jw_end(w);
	}
	if (f->fault != NULL_GUIDS)
		rk_jw_end(w);
	rk_jw_key(w, "ip_over_ib"), rk_jw_bool(w, true);
	rk_jw_key(w, "partition"), rk_jw_str(w, "api_pkey");
	rk_jw_end(w);
}

static void list_keys(const struct fake *f, struct rk_str *out)
{
	struct rk_jw w;
	char name[16];

	if (f->fault == NULL_LIST) {
		rk_str_add(out, "null");
		return;
	}
	rk_jw_init(&w, out, 0);
	rk_jw_object(&w);
	for (int i = 0; i < KEYS; i++)
		if (f->keys[i].pkey) {
			snprintf(name, sizeof(name), f->fault == OTHER_FORMS ? "0x%04X" : "0x%x", f->keys[i].pkey);
			rk_jw_key(&w, name), key_json(f, &w, &f->keys[i]);
		}
	rk_jw_key(&w, "0x7fff"), rk_jw_object(&w);
	rk_jw_key(&w, "guids"), rk_jw_array(&w), rk_jw_end(&w);
	rk_jw_key(&w, "membership"), rk_jw_str(&w, f->fault == DEFAULT_FULL ? "full" : "limited");
	rk_jw_key(&w, "partition"), rk_jw_str(&w, "management");
	rk_jw_end(&w);
	rk_jw_end(&w);
}

static void list_ports(const struct fake *f, struct rk_str *out)
{
	rk_str_add(out, "[");
	for (int i = 0; i < PORTS; i++)
		rk_str_addf(out, "%s{\"guid\":\"%016" PRIx64 "\",\"logical_state\":\"%s\",\"physical_state\":\"Link Up\"}", i ? "," : "", ib_guid(&f->bench, i),
			    i == f->down ? "Down" : "Active");
	rk_str_add(out, "]");
}

static int port_of(const struct fake *f, const struct rk_jnode *node)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%s", rk_jstr(node));
	for (int i = 0; i < PORTS; i++)
		if (strtoull(text, NULL, 16) == ib_guid(&f->bench, i))
			return i;
	fail_msg("no such port: %s", text);
	return -1;
}

static void add(struct fake *f, const struct rk_jnode *root, unsigned pkey)
{
	const struct rk_jnode *word = rk_jget(root, "memberships") ? rk_jget(root, "memberships")->child : NULL;
	struct key *k = find(f, pkey, true);
	bool index0 = false;

	/* A tenant's own key, which the contract calls by its name, is at index 0; a shared one (0x0110 there) is not. */
	assert_true(rk_jbool(rk_jget(root, "index0"), &index0));
	assert_int_equal(index0, pkey != 0x110);
	RK_JEACH(it, rk_jget(root, "guids")) {
		int port = port_of(f, it);
		k->in[port] = true;
		k->full[port] = !word || rk_streq(rk_jstr(word), "full");
		word = word ? word->next : NULL;
	}
}

static void take_away(struct fake *f, const struct rk_jnode *root, unsigned pkey)
{
	struct key *k = find(f, pkey, false);
	bool any = false;

	RK_JEACH(it, rk_jget(root, "guids"))
		if (k)
			k->in[port_of(f, it)] = false;
	for (int i = 0; k && i < PORTS; i++)
		any |= k->in[i];
	if (k && !any) {
		k->pkey = 0;
		f->vanished++;
	}
}

static void change(struct fake *f, const struct http_request *request, struct http_answer *answer)
{
	struct rk_json *json RK_CLEANUP_JSON = NULL;
	struct key before[KEYS];
	uint64_t pkey = 0;

	memcpy(before, f->keys, sizeof(before));
	if (strcmp(request->method, "DELETE") == 0) {
		struct key *k = find(f, (unsigned)strtoul(strrchr(request->path, '/') + 1, NULL, 16), false);
		answer->status = k ? answer->status : 404;
		if (k)
			k->pkey = 0;
	} else if (rk_json_parse("body", request->body, strlen(request->body), &json, NULL) != 0 || !rk_ju64(rk_jget(rk_json_root(json), "pkey"), &pkey)) {
		fail_msg("what is this: %s", request->body);
	} else if (strstr(request->path, "/actions/remove_guids_from_pkey")) {
		take_away(f, rk_json_root(json), (unsigned)pkey);
	} else {
		add(f, rk_json_root(json), (unsigned)pkey);
	}
	if (f->fault == LIE || f->fault == NEVER || f->fault == BROKEN || f->fault == CONFLICT)
		memcpy(f->keys, before, sizeof(before));
	if (f->fault == LATE) {
		memcpy(f->later, f->keys, sizeof(before));
		memcpy(f->keys, before, sizeof(before));
		f->later_ms = rk_clock_ms(f->bench.clock) + 3000;
	}
}

static void handle(void *ctx, const struct http_request *request, struct http_answer *answer)
{
	struct fake *f = ctx;
	const char *path = strchr(request->path + 1, '/');
	bool get = strcmp(request->method, "GET") == 0;

	if (f->later_ms && rk_clock_ms(f->bench.clock) >= f->later_ms) {
		memcpy(f->keys, f->later, sizeof(f->keys));
		f->later_ms = 0;
	}
	/* A token goes to another entrance than a password, in Basic form. */
	if (!rk_starts_with(request->path, f->token ? "/ufmRestV3/" : "/ufmRest/") ||
	    !strstr(request->headers, f->token ? f->token : "Authorization: Basic YWRtaW46cHc=") || (f->fault == EXPIRED && f->refused++ == 0)) {
		answer->status = 401;
	} else if (get && strcmp(path, "/resources/pkeys?guids_data=true") == 0) {
		answer->status = f->fault == NO_LIST ? 404 : 200;
		list_keys(f, &answer->body);
	} else if (get && rk_starts_with(path, "/resources/pkeys/")) {
		struct key *k = find(f, (unsigned)strtoul(path + strlen("/resources/pkeys/"), NULL, 16), false);
		struct rk_jw w;
		rk_jw_init(&w, &answer->body, 0);
		if (k)
			key_json(f, &w, k);
		else
			rk_str_add(&answer->body, "{}");
	} else if (get && strcmp(path, "/app/sharp/allocate_resources") == 0) {
		answer->status = f->fault == NO_LIST ? 404 : 200;
		rk_str_add(&answer->body, f->fault == NULL_LIST ? "{\"app1\":{\"pkey\":null}}" : "{\"app1\":{\"pkey\":\"0x100\",\"guids\":[]},\"app2\":{\"pkey\":\"0x8100\"},"
								 "\"other\":{\"pkey\":\"0x12\",\"guids\":[]}}");
	} else if (get && rk_starts_with(path, "/resources/ports?")) {
		list_ports(f, &answer->body);
	} else {
		answer->status = f->fault == CONFLICT ? 409 : f->fault == BROKEN || f->fault == BROKEN_WITH_EFFECT ? 500 : f->fault == NEVER ? 202 : 200;
		answer->fault = f->fault == CUT ? HTTP_CUT : f->fault == SHORT ? HTTP_SHORT : HTTP_ANSWER;
		change(f, request, answer);
	}
}

/* ---- benches -------------------------------------------------------------------------------------------------------------------------- */

static int start_with(struct fake *f, const char *credentials)
{
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	snprintf(f->folder, sizeof(f->folder), "/tmp/racksh-ufm.XXXXXX");
	if (!mkdtemp(f->folder))
		return -1;
	f->down = -1;
	http_start(&f->server, handle, f);
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/c", f->folder);
	char *infiniband RK_CLEANUP_FREE = rk_xasprintf("\"driver\":\"ufm\",\"url\":\"%s/\",\"credentialsFile\":\"%s\"", f->server.url, path);
	assert_int_equal(rk_file_write(path, credentials, strlen(credentials), 0600, NULL), 0);
	f->site = fabric_site("\"driver\":\"nvos\",\"ssh\":\"admin@sw\"", infiniband);
	f->bench.clock = rk_clock_virtual(0);
	f->bench.site = f->site;
	f->env = (struct rk_driver_env){ .site = f->site, .clock = f->bench.clock };
	if (rk_ib_open(&f->env, &f->bench.ib, &err) != 0)
		fail_msg("%s", err.message);
	return 0;
}

static int start(void **state)
{
	struct fake *f = rk_xcalloc(1, sizeof(*f));

	*state = f;
	return start_with(f, "user=admin\npassword=pw\n");
}

static int stop(void **state)
{
	struct fake *f = *state;
	char *path RK_CLEANUP_FREE = rk_xasprintf("%s/c", f->folder);

	f->bench.ib->ops->free(f->bench.ib);
	http_stop(&f->server);
	rk_clock_free(f->bench.clock);
	rk_site_free(f->site);
	unlink(path);
	rmdir(f->folder);
	free(f);
	return 0;
}

/* Adding four members under a fault: its class, and how many are there afterwards (-1: no partition). */
static const struct {
	enum fault fault;
	int class, members;
	const char *says;
} sets[] = {
	{ CUT, 0, 4, NULL },
	{ BROKEN_WITH_EFFECT, 0, 4, NULL },
	{ BROKEN, RK_UNREACHABLE, -1, "whether it was done" },
	{ CONFLICT, RK_CONFLICT, -1, "conflict" },
	{ LIE, RK_UNREACHABLE, -1, "does not show it" },
	{ LATE, 0, 4, NULL },
	{ NO_MEMBERSHIP, RK_UNREACHABLE, 4, "without GUID or membership" },
	{ NEVER, RK_UNREACHABLE, -1, "does not show it" },
	{ SHORT, 0, 4, NULL },
	{ NULL_KEY, RK_UNREACHABLE, 4, "tells no members of key 0x0100" },
	{ NULL_GUIDS, RK_UNREACHABLE, 4, "tells no members of key 0x0100" },
	{ OTHER_FORMS, 0, 4, NULL },
	{ NUMBERS, RK_UNREACHABLE, 4, "without GUID or membership" },
	{ EXPIRED, RK_UNREACHABLE, -1, "401" },
};

static void every_fault_is_told_for_what_it_is(void **state)
{
	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(sets); i++) {
		struct rk_err err = RK_ERR_INIT;
		struct fake *f;
		start((void **)&f);
		f->fault = sets[i].fault;
		int rc = ib_set(&f->bench, 0x100, "ta", 0, 4, true, &err);
		if (rc != sets[i].class || (sets[i].says && !strstr(err.message, sets[i].says)))
			fail_msg("fault %d: %d: %s", (int)sets[i].fault, rc, err.message ? err.message : "no error");
		f->fault = NONE;
		assert_int_equal(ib_members(&f->bench, 0x100), sets[i].members);
		rk_err_clear(&err);
		stop((void **)&f);
	}
}

/* UFM deletes a partition with its last GUID: also when no member stays, the new ones are there before the old ones go. */
static void the_last_guid_is_never_taken_out(void **state)
{
	struct fake *f = *state;

	IB_RC(0, ib_set(&f->bench, 0x100, "ta", 0, 1, true, error));
	for (int i = 1; i < PORTS; i++)
		IB_RC(0, ib_set(&f->bench, 0x100, "ta", i, 1, i % 2 == 0, error));
	assert_int_equal(f->vanished, 0);
	assert_int_equal(ib_members(&f->bench, 0x100), 1);
}

static void a_key_outside_the_managed_range_is_left_alone(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct fake *f = *state;
	struct rk_ib_live *live;
	size_t n;

	f->keys[0] = (struct key){ .pkey = 0x900, .in = { true } };
	IB_RC(RK_CONFLICT, ib_set(&f->bench, 0x900, "x", 0, 1, true, error));
	IB_RC(RK_CONFLICT, ib_set(&f->bench, 0x900, "x", 0, 0, true, error));
	IB_RC(0, f->bench.ib->ops->list(f->bench.ib, 0, arena, &live, &n, error));
	assert_false(live[0].ours);
	assert_int_equal(f->keys[0].pkey, 0x900);
}

static void full_members_by_default_are_a_breach(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct fake *f = *state;
	struct rk_ib_live *live;
	size_t n;

	f->fault = DEFAULT_FULL;
	IB_RC(RK_UNHEALTHY, f->bench.ib->ops->list(f->bench.ib, 0, arena, &live, &n, error));
}

static void a_null_list_is_unknown_not_empty(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct fake *f = *state;
	struct rk_ib_live *live;
	size_t n;

	f->fault = NULL_LIST;
	IB_RC(RK_UNREACHABLE, f->bench.ib->ops->list(f->bench.ib, 0, arena, &live, &n, error));
	/* Nor does a wrong URL say anything of the fabric. */
	f->fault = NO_LIST;
	IB_RC(RK_UNREACHABLE, f->bench.ib->ops->list(f->bench.ib, 0, arena, &live, &n, error));
}

static void a_token_is_used_and_read_again_when_it_ran_out(void **state)
{
	struct fake *f = rk_xcalloc(1, sizeof(*f));
	char *path RK_CLEANUP_FREE = NULL;

	(void)state;
	f->token = "Authorization: Basic first";
	assert_int_equal(start_with(f, "token=first\n"), 0);
	assert_int_equal(ib_members(&f->bench, 0x100), -1);
	f->token = "Authorization: Basic second";
	path = rk_xasprintf("%s/c", f->folder);
	assert_int_equal(rk_file_write(path, "token=second\n", 13, 0600, NULL), 0);
	IB_RC(0, ib_set(&f->bench, 0x100, "ta", 0, 1, true, error));
	f->token = "Authorization: Basic third";
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_ib_live *live;
	size_t n;
	IB_RC(RK_UNREACHABLE, f->bench.ib->ops->list(f->bench.ib, 0, arena, &live, &n, error));
	stop((void **)&f);
}

/* Removing and replacing under the same faults: class, members that the key has afterwards. */
static void removals_meet_the_same_faults(void **state)
{
	static const struct {
		enum fault fault;
		int n, class, members;
	} rows[] = { { CUT, 0, 0, -1 }, { BROKEN_WITH_EFFECT, 0, 0, -1 }, { LIE, 0, RK_UNREACHABLE, 4 }, { NEVER, 0, RK_UNREACHABLE, 4 }, { LATE, 0, 0, -1 },
		     { CONFLICT, 0, RK_CONFLICT, 4 }, { CUT, 2, 0, 2 }, { BROKEN, 2, RK_UNREACHABLE, 4 }, { LIE, 2, RK_UNREACHABLE, 4 }, { LATE, 2, 0, 2 } };

	(void)state;
	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
		struct fake *f;
		start((void **)&f);
		IB_RC(0, ib_set(&f->bench, 0x100, "ta", 0, 4, true, error));
		f->fault = rows[i].fault;
		int rc = ib_set(&f->bench, 0x100, "ta", 0, rows[i].n, true, &err);
		if (rc != rows[i].class)
			fail_msg("row %zu: %d: %s", i, rc, err.message ? err.message : "no error");
		f->fault = NONE;
		assert_int_equal(ib_members(&f->bench, 0x100), rows[i].members);
		/* Once all is well, the same call comes to its end. */
		IB_RC(0, ib_set(&f->bench, 0x100, "ta", 0, rows[i].n, true, error));
		assert_int_equal(ib_members(&f->bench, 0x100), rows[i].n ? rows[i].n : -1);
		stop((void **)&f);
	}
}

/* Servers that speak TLS and are not, or cannot prove to be, the manager; one that speaks none. */
static void only_the_manager_that_proves_itself_is_listened_to(void **state)
{
	static const char serve[] = "mkdir -p ufmRest/resources; printf 'HTTP/1.0 200 OK\\r\\nContent-Type: application/json\\r\\n\\r\\n"
				    "{\"0x7fff\":{\"guids\":[],\"membership\":\"limited\",\"partition\":\"management\"}}' >'ufmRest/resources/pkeys?guids_data=true'\n"
				    "printf 'user=admin\\npassword=pw\\n' >c; chmod 600 c\n";
	static const struct {
		const char *server, *ca, *says;
	} rows[] = { { "good", "ca.pem", NULL }, { "good", "other.pem", "certificate is not the right one" }, { "wrong", "ca.pem", "certificate is not the right one" },
		     { "old", "ca.pem", "certificate is not the right one" }, { NULL, "ca.pem", "no answer" } };
	char folder[] = "/tmp/racksh-ufm-tls.XXXXXX";
	struct fake *plain;

	(void)state;
	assert_non_null(mkdtemp(folder));
	start((void **)&plain);
	bool can = tls_sh(folder, tls_certificates) && tls_sh(folder, serve);
	for (size_t i = 0; can && i < RK_ARRAY_SIZE(rows); i++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
		struct rk_ib *ib;
		struct rk_ib_live *live;
		int port = plain->server.port;
		size_t n;
		pid_t pid = rows[i].server ? tls_server(folder, rows[i].server, &port) : 0;
		char *entry RK_CLEANUP_FREE = rk_xasprintf("\"driver\":\"ufm\",\"url\":\"https://127.0.0.1:%d\",\"credentialsFile\":\"%s/c\",\"caFile\":\"%s/%s\"", port, folder,
							   folder, rows[i].ca);
		struct rk_site *site = fabric_site("\"driver\":\"nvos\",\"ssh\":\"admin@sw\"", entry);
		struct rk_driver_env env = { .site = site, .timeout_ms = rows[i].server ? 10000 : 1000 };
		assert_int_equal(rk_ib_open(&env, &ib, &err), 0);
		int rc = ib->ops->list(ib, 0, arena, &live, &n, &err);
		if (pid > 0 && kill(pid, SIGKILL) == 0)
			waitpid(pid, NULL, 0);
		if (rc != (rows[i].says ? RK_UNREACHABLE : 0) || (rows[i].says && !strstr(err.message, rows[i].says)))
			fail_msg("row %zu: %d: %s", i, rc, err.message ? err.message : "no error");
		ib->ops->free(ib);
		rk_site_free(site);
	}
	(void)tls_sh(folder, "rm -rf \"$PWD\"");
	stop((void **)&plain);
	if (!can)
		skip();
}

static void a_port_that_is_not_active_is_down(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct fake *f = *state;
	uint64_t guids[2] = { ib_guid(&f->bench, 2), 0x1234 };
	struct rk_ib_port ports[2];

	f->down = 2;
	IB_RC(0, f->bench.ib->ops->tables(f->bench.ib, 0, guids, 2, arena, ports, error));
	assert_false(ports[0].known);
	assert_true(ports[0].down);
	assert_true(ports[1].down);
}

static void sharp_reservations_that_follow_a_key_are_named(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct fake *f = *state;
	const char *names = NULL;

	IB_RC(0, f->bench.ib->ops->sharp(f->bench.ib, 0, 0x100, arena, &names, error));
	assert_string_equal(names, "app1, app2");
	IB_RC(0, f->bench.ib->ops->sharp(f->bench.ib, 0, 0x101, arena, &names, error));
	assert_string_equal(names, "");
	/* Newer ones have no such list, and a broken one is no list. */
	f->fault = NO_LIST;
	IB_RC(RK_NOT_FOUND, f->bench.ib->ops->sharp(f->bench.ib, 0, 0x100, arena, &names, error));
	f->fault = NULL_LIST;
	IB_RC(RK_UNREACHABLE, f->bench.ib->ops->sharp(f->bench.ib, 0, 0x100, arena, &names, error));
}

/* The other fabric of the site below: an OpenSM whose host is asked here. */
static int opensm_host(void *ctx, const char *target, const char *const *argv, const char *input, size_t input_len, struct rk_ssh_result *result,
		       struct rk_err *err)
{
	static const char file[] = "Default=0x7fff : ALL=limited, ALL_SWITCHES=full, SELF=full ;\nstorage=0x0100 : 0x5000e60300aa0001=full ;\n";
	int *writes = ctx;

	(void)err;
	assert_string_equal(target, "root@sm");
	result->status = 0;
	if (strstr(argv[2], "racksh-partitions")) {
		assert_non_null(memmem(input, input_len, "tb=0x0101", 9));
		rk_str_addf(&result->out, "%s done\n", argv[9]);
		++*writes;
	} else if (strstr(argv[2], "stat -L")) {
		rk_str_addf(&result->out, "%s 77 unknown\n%s", argv[5], file);
	} else {
		result->status = 127;
	}
	return 0;
}

/* Keys are of a fabric: the same key in two fabrics is two partitions, each with its own manager. */
static void fabrics_with_different_managers_are_kept_apart(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct fake *f = *state;
	int writes = 0;
	const struct rk_remote remote = { opensm_host, &writes };
	char *two RK_CLEANUP_FREE = rk_xasprintf("\"driver\":\"ufm\",\"url\":\"%s/\",\"credentialsFile\":\"%s/c\"},{\"name\":\"ib1\",\"pkeyPool\":\"0x0100-0x01ff\","
						 "\"driver\":\"opensm\",\"ssh\":\"root@sm\"", f->server.url, f->folder);
	struct rk_site *site = fabric_site("\"driver\":\"nvos\",\"ssh\":\"admin@sw\"", two);
	struct rk_driver_env env = { .site = site, .clock = f->bench.clock, .remote = &remote };
	struct rk_ib_member member = { ib_guid(&f->bench, 0), true };
	struct rk_ib_live *live;
	struct rk_ib *ib;
	const char *names;
	size_t n;

	IB_RC(0, rk_ib_open(&env, &ib, error));
	IB_RC(0, ib->ops->set(ib, 0, &(struct rk_ib_wanted){ 0x100, "ta", &member, 1, false }, error));
	assert_int_equal(writes, 0);
	IB_RC(0, ib->ops->list(ib, 1, arena, &live, &n, error));
	for (size_t i = 0; i < n; i++)
		if (live[i].pkey == 0x100)
			assert_string_equal(live[i].name, "storage");
	/* Foreign there, ours here. */
	IB_RC(RK_CONFLICT, ib->ops->set(ib, 1, &(struct rk_ib_wanted){ 0x100, "ta", &member, 1, false }, error));
	IB_RC(0, ib->ops->set(ib, 1, &(struct rk_ib_wanted){ 0x101, "tb", &member, 1, false }, error));
	assert_int_equal(writes, 1);
	assert_int_equal(ib_members(&f->bench, 0x100), 1);
	assert_int_equal(ib_members(&f->bench, 0x101), -1);
	IB_RC(0, ib->ops->sharp(ib, 0, 0x100, arena, &names, error));
	IB_RC(RK_NOT_FOUND, ib->ops->sharp(ib, 1, 0x100, arena, &names, error));
	ib->ops->free(ib);
	rk_site_free(site);
}

static void what_needs_a_host_says_so(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct fake *f = *state;
	const char *text;

	IB_RC(RK_NOT_FOUND, f->bench.ib->ops->discover(f->bench.ib, 0, arena, &text, error));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IB_CONTRACT(start, stop),
		cmocka_unit_test(every_fault_is_told_for_what_it_is),
		cmocka_unit_test(removals_meet_the_same_faults),
		cmocka_unit_test(only_the_manager_that_proves_itself_is_listened_to),
		cmocka_unit_test_setup_teardown(the_last_guid_is_never_taken_out, start, stop),
		cmocka_unit_test_setup_teardown(a_key_outside_the_managed_range_is_left_alone, start, stop),
		cmocka_unit_test_setup_teardown(full_members_by_default_are_a_breach, start, stop),
		cmocka_unit_test_setup_teardown(a_null_list_is_unknown_not_empty, start, stop),
		cmocka_unit_test(a_token_is_used_and_read_again_when_it_ran_out),
		cmocka_unit_test_setup_teardown(a_port_that_is_not_active_is_down, start, stop),
		cmocka_unit_test_setup_teardown(what_needs_a_host_says_so, start, stop),
		cmocka_unit_test_setup_teardown(fabrics_with_different_managers_are_kept_apart, start, stop),
		cmocka_unit_test_setup_teardown(sharp_reservations_that_follow_a_key_are_named, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
