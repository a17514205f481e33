#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "inventory/base/file.h"
#include "inventory/base/json.h"
#include "provision/drivers/nmxm_parse.h"
#include "provision/drivers/session.h"
#include "tests/contract/fabric_site.h"
#include "tests/contract/http_server.h"
#include "tests/contract/nvl_contract.h"
#include "tests/contract/tls_server.h"

/* ---- an NMX-M of one domain of this site and one of somebody else's ------------------------------------------------------------------- */

enum { PARTS = 8, GPUS = 8, OPS = 64, DONE_AFTER_MS = 2000 };
enum fault { NONE, CUT, CONFLICT, NEVER, LIE, FAILS, FAILS_WITH_EFFECT, BUSY_TWICE, ALWAYS_BUSY, BROKEN, EXPIRED, NULL_LIST, LATE, NO_OPERATION, ODD_STATE, FIXED,
	     REFUSED, OTHERS, OTHERS_ALWAYS, INTERRUPTED, SAME_PLACE };

struct part {
	bool used;
	int id;
	char name[64];
	bool gpus[GPUS];
	bool by_location;
};
struct op {
	int64_t due_ms, shows_ms;
	bool lies, fails, never, cancelled, applied;
	struct part after;
	int index;                 /* of the partition it changes */
	const char *details;
};
struct fake {
	struct nvl_bench bench;    /* first: the contract reads it */
	struct http_server server;
	struct rk_site *site;
	struct rk_driver_env env;
	struct part parts[PARTS];
	struct op ops[OPS];
	int n_ops, faulty, puts, cancels;
	enum fault fault;
	bool text_uids;
	volatile int cancel;
	char folder[64];
};

static int64_t now(const struct fake *f)
{
	return rk_clock_ms(f->bench.clock);
}

static void settle(struct fake *f)
{
	for (int i = 0; i < f->n_ops; i++) {
		struct op *op = &f->ops[i];
		if (op->applied || op->never || op->cancelled || op->lies || now(f) < op->shows_ms)
			continue;
		op->applied = true;
		f->parts[op->index] = op->after;
	}
}

static void gpu_ids(struct rk_jw *w, const struct part *p)
{
	char id[32];

	rk_jw_array(w);
	for (int g = 0; g < GPUS; g++) {
		if (!p->gpus[g])
			continue;
		if (p->by_location) {
			rk_jw_object(w);
			rk_jw_key(w, "DomainUUID"), rk_jw_str(w, "00000000-0000-4000-8000-000000000001");
			rk_jw_key(w, "ChassisID"), rk_jw_u64(w, 1);
			rk_jw_key(w, "SlotID"), rk_jw_u64(w, (uint64_t)g / 4 + 1);
			rk_jw_key(w, "HostID"), rk_jw_u64(w, 1);
			rk_jw_key(w, "DeviceID"), rk_jw_u64(w, (uint64_t)g % 4 + 1);
			rk_jw_end(w);
		} else {
			snprintf(id, sizeof(id), "66a0b1c2d3e4f506172839%02x", g);
			rk_jw_str(w, id);
		}
	}
	rk_jw_end(w);
}

static void list_gpus(const struct fake *f, struct rk_str *out)
{
	rk_str_add(out, "[{\"ID\":\"66a0b1c2d3e4f5061728f0ff\",\"DomainUUID\":\"00000000-0000-4000-8000-0000000000ff\",\"DeviceUID\":77}");
	for (int g = 0; g < GPUS; g++)
		rk_str_addf(out, ",{\"ID\":\"66a0b1c2d3e4f506172839%02x\",\"DomainUUID\":\"00000000-0000-4000-8000-000000000001\",\"DeviceUID\":%s%" PRIu64 "%s,"
			    "\"DeviceID\":%d,\"LocationInfo\":{\"ChassisID\":1,\"SlotID\":%d,\"HostID\":1}}",
			    g, f->text_uids ? "\"" : "", f->site->gpus[g].fabric_guid, f->text_uids ? "\"" : "", f->fault == SAME_PLACE && g == 1 ? 1 : g % 4 + 1, g / 4 + 1);
	rk_str_add(out, "]");
}

static void show_part(const struct fake *f, int i, struct rk_jw *w)
{
	const struct part *p = &f->parts[i];
	bool any = false;
	char key[32];

	for (int g = 0; g < GPUS; g++)
		any |= p->gpus[g];
	rk_jw_object(w);
	snprintf(key, sizeof(key), "66a0b1c2d3e4f506172840%02x", i);
	rk_jw_key(w, "ID"), rk_jw_str(w, key);
	rk_jw_key(w, "PartitionID"), rk_jw_i64(w, p->id);
	rk_jw_key(w, "Name"), rk_jw_str(w, p->name);
	rk_jw_key(w, "Type"), rk_jw_str(w, p->by_location ? "LOCATION_BASED" : "ID_BASED");
	rk_jw_key(w, "Health"), rk_jw_str(w, any ? "HEALTHY" : "NEW");
	rk_jw_key(w, "Members");
	if (any)
		gpu_ids(w, p);
	else
		rk_jw_null(w);
	rk_jw_end(w);
}

/* Somebody else takes a GPU out of the default partition just after it was listed; the other one cannot decide. */
static void let_others_change(struct fake *f)
{
	if (f->fault == OTHERS)
		f->parts[0].gpus[5] = false;
	else if (f->fault == OTHERS_ALWAYS)
		f->parts[0].gpus[5] = !f->parts[0].gpus[5];
}

static void list_parts(const struct fake *f, struct rk_str *out)
{
	struct rk_jw w;

	if (f->fault == NULL_LIST) {
		rk_str_add(out, "null");
		return;
	}
	rk_jw_init(&w, out, 0);
	rk_jw_array(&w);
	for (int i = 0; i < PARTS; i++)
		if (f->parts[i].used)
			show_part(f, i, &w);
	/* Somebody else's domain has a partition 1, too. */
	rk_jw_object(&w);
	rk_jw_key(&w, "ID"), rk_jw_str(&w, "66a0b1c2d3e4f506172841ff");
	rk_jw_key(&w, "PartitionID"), rk_jw_i64(&w, 1);
	rk_jw_key(&w, "Name"), rk_jw_str(&w, "stranger");
	rk_jw_key(&w, "Health"), rk_jw_str(&w, "HEALTHY");
	rk_jw_key(&w, "Members"), rk_jw_array(&w), rk_jw_str(&w, "66a0b1c2d3e4f5061728f0ff"), rk_jw_end(&w);
	rk_jw_end(&w);
	rk_jw_end(&w);
}

static void show_op(const struct fake *f, int i, struct rk_str *out)
{
	const struct op *op = &f->ops[i];
	bool over = !op->never && now(f) >= op->due_ms;
	const char *state = op->cancelled ? "cancelled" : !over ? "in-progress" : op->fails ? "failed" : f->fault == ODD_STATE ? "strange" : "completed";

	rk_str_addf(out, "{\"ID\":\"66a0b1c2d3e4f5061728%04x\",\"Status\":\"%s\",\"Percentage\":40.0,\"CurrentStep\":\"Updating\",\"Request\":{\"Method\":\"put\","
		    "\"Cancellable\":%s},\"Result\":{\"Data\":null,\"Error\":\"internal-error\",\"Details\":\"%s\"}}", i, state,
		    f->fault == FIXED ? "false" : "true", op->details ? op->details : "");
}

static int member_index(const struct rk_jnode *node)
{
	const char *text = rk_jstr(node);
	uint64_t slot = 0, device = 0;

	if (text)
		return (int)strtol(text + strlen(text) - 2, NULL, 16);
	rk_ju64(rk_jget(node, "SlotID"), &slot);
	rk_ju64(rk_jget(node, "DeviceID"), &device);
	return (int)((slot - 1) * 4 + device - 1);
}

/* What NMX-M itself refuses when it comes to it. */
static const char *illegal(const struct fake *f, int index, const struct part *after)
{
	for (int i = 0; i < PARTS; i++)
		for (int g = 0; g < GPUS; g++)
			if (i != index && f->parts[i].used && f->parts[i].gpus[g] && after->gpus[g])
				return "GPU already belongs to a partition";
	return NULL;
}

static void start_op(struct fake *f, int index, const struct part *after, struct http_answer *answer)
{
	struct op *op = &f->ops[f->n_ops];

	*op = (struct op){ .due_ms = now(f) + DONE_AFTER_MS, .shows_ms = now(f) + DONE_AFTER_MS, .after = *after, .index = index };
	op->details = illegal(f, index, after);
	op->fails = op->lies = op->details != NULL;
	f->faulty++;
	op->never = f->fault == NEVER || f->fault == FIXED || f->fault == INTERRUPTED;
	op->lies |= f->fault == LIE || f->fault == FAILS;
	op->fails |= f->fault == FAILS || f->fault == FAILS_WITH_EFFECT;
	if (f->fault == ALWAYS_BUSY || (f->fault == BUSY_TWICE && f->faulty <= 2)) {
		op->fails = op->lies = true;
		op->details = "NMX_ST_RESOURCE_IN_USE";
	}
	if (f->fault == LATE)
		op->shows_ms += 5000;
	if (f->fault == CUT)
		answer->fault = HTTP_CUT;
	answer->status = 202;
	if (f->fault == NO_OPERATION)
		return;
	rk_str_addf(&answer->body, "{\"operationId\":\"66a0b1c2d3e4f5061728%04x\"}", f->n_ops);
	f->n_ops++;
}

static bool is_taken(const struct fake *f, int id)
{
	for (int i = 0; i < PARTS; i++)
		if (f->parts[i].used && f->parts[i].id == id)
			return true;
	return false;
}

/* Ids are the network's choice, and those of partitions that are gone are given again. */
static int lowest_free_id(const struct fake *f)
{
	int id = 1;

	while (is_taken(f, id))
		id++;
	return id;
}

static void change(struct fake *f, const struct http_request *request, struct http_answer *answer)
{
	struct rk_json *json RK_CLEANUP_JSON = NULL;
	const char *slash = strrchr(request->path, '/');
	int index = (int)strtol(slash + strlen(slash) - 2, NULL, 16);
	struct part after = { .used = true };

	if (*request->body && rk_json_parse("body", request->body, strlen(request->body), &json, NULL) != 0)
		fail_msg("no JSON: %s", request->body);
	const struct rk_jnode *root = json ? rk_json_root(json) : NULL;
	if (strcmp(request->method, "POST") == 0) {
		for (index = 0; f->parts[index].used; index++)
			;
		after.id = lowest_free_id(f);
		snprintf(after.name, sizeof(after.name), "%s", rk_jstr(rk_jget(root, "Name")));
	} else {
		after = f->parts[index];
		after.used = strcmp(request->method, "DELETE") != 0;
		memset(after.gpus, 0, sizeof(after.gpus));
	}
	RK_JEACH(node, rk_jget(root, "Members")) {
		bool location = node->type == RK_JOBJECT;
		if (location != after.by_location) {
			answer->status = 409;
			rk_str_add(&answer->body, "{\"httpErrorCode\":409,\"customErrorCode\":\"conflict\",\"description\":\"partition member type cannot be changed\"}");
			return;
		}
		after.gpus[member_index(node)] = true;
	}
	start_op(f, index, &after, answer);
}

static void handle(void *ctx, const struct http_request *request, struct http_answer *answer)
{
	struct fake *f = ctx;
	const char *path = request->path;
	bool get = strcmp(request->method, "GET") == 0;

	settle(f);
	if (!strstr(request->headers, "Authorization: Basic cnc6cHc=") || (f->fault == EXPIRED && f->faulty++ == 0) || f->fault == REFUSED) {
		answer->status = 401;
	} else if (get && strcmp(path, "/nmx/v1/gpus") == 0) {
		list_gpus(f, &answer->body);
	} else if (get && strcmp(path, "/nmx/v1/partitions") == 0) {
		list_parts(f, &answer->body);
		let_others_change(f);
	} else if (get && rk_starts_with(path, "/nmx/v1/partitions/")) {
		struct rk_jw w;
		rk_jw_init(&w, &answer->body, 0);
		show_part(f, (int)strtol(path + strlen(path) - 2, NULL, 16), &w);
	} else if (get && strcmp(path, "/nmx/v1/services") == 0) {
		rk_str_addf(&answer->body, "[{\"ServiceType\":\"CONTROLLER\",\"ClusterDomainUUID\":\"00000000-0000-4000-8000-000000000001\",\"Status\":\"%s\",\"StatusInfo\":\"x\"}]",
			    f->fault == BROKEN ? "DOWN" : "UP");
	} else if (strstr(path, "/operations/")) {
		int i = (int)strtol(path + strlen(path) - 4, NULL, 16);
		f->cancel |= f->fault == INTERRUPTED;
		if (!get) {
			f->cancels++;
			f->ops[i].cancelled = true;
		}
		show_op(f, i, &answer->body);
	} else if (f->fault == CONFLICT || f->fault == BROKEN) {
		answer->status = f->fault == BROKEN ? 500 : 409;
		rk_str_add(&answer->body, "{\"description\":\"no\"}");
	} else {
		f->puts += strcmp(request->method, "PUT") == 0;
		change(f, request, answer);
	}
}

/* ---- benches -------------------------------------------------------------------------------------------------------------------------- */

static int start(void **state)
{
	struct fake *f = rk_xcalloc(1, sizeof(*f));
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	snprintf(f->folder, sizeof(f->folder), "/tmp/racksh-nmxm.XXXXXX");
	if (!mkdtemp(f->folder))
		return -1;
	http_start(&f->server, handle, f);
	char *credentials RK_CLEANUP_FREE = rk_xasprintf("%s/c", f->folder);
	char *nvlink RK_CLEANUP_FREE = rk_xasprintf("\"driver\":\"nmxm\",\"url\":\"%s\",\"credentialsFile\":\"%s\"", f->server.url, credentials);
	assert_int_equal(rk_file_write(credentials, "user=rw\npassword=pw\n", 20, 0600, NULL), 0);
	f->site = fabric_site(nvlink, "\"driver\":\"opensm\",\"ssh\":\"root@sm\"");
	f->bench.clock = rk_clock_virtual(0);
	f->bench.site = f->site;
	f->bench.gives_ids = true;
	f->parts[0] = (struct part){ .used = true, .id = RK_NVL_DEFAULT, .name = "Default Partition", .by_location = true };
	memset(f->parts[0].gpus, 1, sizeof(f->parts[0].gpus));
	/* Somebody else's, as new as it can be: 1 is not given to anybody. */
	f->parts[1] = (struct part){ .used = true, .id = 1, .name = "storage" };
	f->env = (struct rk_driver_env){ .site = f->site, .clock = f->bench.clock, .cancel = &f->cancel };
	if (rk_nvl_open(&f->env, &f->bench.nvl, &err) != 0)
		fail_msg("%s", err.message);
	*state = f;
	return 0;
}

static int stop(void **state)
{
	struct fake *f = *state;
	char *credentials RK_CLEANUP_FREE = rk_xasprintf("%s/c", f->folder);

	f->bench.nvl->ops->free(f->bench.nvl);
	http_stop(&f->server);
	rk_clock_free(f->bench.clock);
	rk_site_free(f->site);
	unlink(credentials);
	rmdir(f->folder);
	free(f);
	return 0;
}

/* Its id. */
static int ready_partition(struct fake *f)
{
	int id = 0;

	NVL_RC(0, f->bench.nvl->ops->create(f->bench.nvl, 0, 1, "team", "full_bandwidth", 18, &id, error));
	return id;
}

/* Drop of GPU 0 from the default partition under a fault: its class, and whether the GPU left. */
static const struct fault_row {
	const char *name;
	enum fault fault;
	int class, where;
	const char *says;
} drops[] = {
	{ "a_connection_cut_after_the_request_is_looked_after", CUT, 0, 0, NULL }, /* it was done, and that is seen */
	{ "a_409_is_a_conflict", CONFLICT, RK_CONFLICT, RK_NVL_DEFAULT, "no" },
	{ "a_202_that_never_ends_is_unknown", NEVER, RK_UNREACHABLE, RK_NVL_DEFAULT, "not known" },
	{ "a_success_without_effect_is_seen_by_reading_back", LIE, RK_UNREACHABLE, RK_NVL_DEFAULT, "does not show it" },
	{ "an_error_without_effect_is_told", FAILS, RK_FAILED, RK_NVL_DEFAULT, "NMX-M: " },
	{ "an_error_with_its_effect_is_seen_to_be_none", FAILS_WITH_EFFECT, 0, 0, NULL },
	{ "a_slow_release_is_waited_for", BUSY_TWICE, 0, 0, NULL },
	{ "resources_that_are_never_released_end_the_trying", ALWAYS_BUSY, RK_FAILED, RK_NVL_DEFAULT, "IN_USE" },
	{ "an_error_of_the_server_leaves_it_open", BROKEN, RK_UNREACHABLE, RK_NVL_DEFAULT, "whether it was done" },
	{ "an_effect_that_comes_late_is_waited_for", LATE, 0, 0, NULL },
	{ "an_acceptance_without_operation_is_unknown", NO_OPERATION, RK_UNREACHABLE, RK_NVL_DEFAULT, "outcome is not known" },
	{ "a_state_that_nobody_knows_is_looked_behind", ODD_STATE, 0, 0, NULL },
	{ "a_202_that_never_ends_and_cannot_be_cancelled_is_unknown", FIXED, RK_UNREACHABLE, RK_NVL_DEFAULT, "not known" },
	{ "a_login_that_expires_in_between_is_renewed", EXPIRED, 0, 0, NULL },
	{ "a_login_that_is_refused_for_good_is_told", REFUSED, RK_UNREACHABLE, RK_NVL_DEFAULT, "credentials" },
};

/* *state: the row. */
static void is_told_for_what_it_is(void **state)
{
	const struct fault_row *row = *state;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	struct fake *f;

	start((void **)&f);
	ready_partition(f);
	f->fault = row->fault;
	f->faulty = 0;
	int rc = f->bench.nvl->ops->drop(f->bench.nvl, 0, RK_NVL_DEFAULT, nvl_guid(&f->bench, 0), &err);
	if (rc != row->class || (row->says && !strstr(err.message, row->says)))
		fail_msg("%s: %d: %s", row->name, rc, err.message ? err.message : "no error");
	f->fault = NONE;
	rk_clock_sleep_ms(f->bench.clock, 20000);
	assert_int_equal(nvl_where(&f->bench, nvl_guid(&f->bench, 0)), row->where);
	/* The others stay where they are: a list is never made from what is not known. */
	for (int g = 1; g < GPUS; g++)
		assert_int_equal(nvl_where(&f->bench, nvl_guid(&f->bench, g)), RK_NVL_DEFAULT);
	stop((void **)&f);
}

static void an_endless_operation_is_cancelled(void **state)
{
	struct fake *f = *state;

	f->fault = NEVER;
	NVL_RC(RK_UNREACHABLE, f->bench.nvl->ops->drop(f->bench.nvl, 0, RK_NVL_DEFAULT, nvl_guid(&f->bench, 0), error));
	assert_int_equal(f->cancels, 1);
	assert_int_equal(f->puts, 1);
}

static void an_operation_that_cannot_be_cancelled_is_left_alone(void **state)
{
	struct fake *f = *state;

	f->fault = FIXED;
	NVL_RC(RK_UNREACHABLE, f->bench.nvl->ops->drop(f->bench.nvl, 0, RK_NVL_DEFAULT, nvl_guid(&f->bench, 0), error));
	assert_int_equal(f->cancels, 0);
}

/* A list is the whole list: what somebody else changed since it was read must not come back with ours. */
static void what_others_change_between_reading_and_writing_is_kept(void **state)
{
	struct fake *f = *state;

	f->fault = OTHERS;
	NVL_RC(0, f->bench.nvl->ops->drop(f->bench.nvl, 0, RK_NVL_DEFAULT, nvl_guid(&f->bench, 0), error));
	assert_int_equal(nvl_where(&f->bench, nvl_guid(&f->bench, 0)), 0);
	assert_int_equal(nvl_where(&f->bench, nvl_guid(&f->bench, 5)), 0);
	assert_int_equal(f->puts, 1);
}

static void members_that_change_all_the_time_are_a_conflict(void **state)
{
	struct fake *f = *state;

	f->fault = OTHERS_ALWAYS;
	NVL_RC(RK_CONFLICT, f->bench.nvl->ops->drop(f->bench.nvl, 0, RK_NVL_DEFAULT, nvl_guid(&f->bench, 0), error));
	assert_int_equal(f->puts, 0);
}

/* Servers that speak TLS and are not, or cannot prove to be, the manager; one that speaks none. */
static void only_the_manager_that_proves_itself_is_listened_to(void **state)
{
	static const char serve[] = "mkdir -p nmx/v1; printf 'HTTP/1.0 200 OK\\r\\nContent-Type: application/json\\r\\n\\r\\n[]' >nmx/v1/partitions\n"
				    "printf 'user=rw\\npassword=pw\\n' >c; chmod 600 c\n";
	static const struct {
		const char *server, *ca, *says;
	} rows[] = { { "good", "ca.pem", NULL }, { "good", "other.pem", "certificate is not the right one" }, { "wrong", "ca.pem", "certificate is not the right one" },
		     { "old", "ca.pem", "certificate is not the right one" }, { NULL, "ca.pem", "no answer" } };
	char folder[] = "/tmp/racksh-nmxm-tls.XXXXXX";
	struct fake *plain = *state;
	struct rk_str gpus RK_CLEANUP_STR = RK_STR_INIT;

	assert_non_null(mkdtemp(folder));
	bool can = tls_sh(folder, tls_certificates) && tls_sh(folder, serve);
	rk_str_add(&gpus, "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n");
	list_gpus(plain, &gpus);
	char *file RK_CLEANUP_FREE = rk_xasprintf("%s/nmx/v1/gpus", folder);
	can = can && rk_file_write(file, rk_str_text(&gpus), gpus.len, 0600, NULL) == 0;
	for (size_t i = 0; can && i < RK_ARRAY_SIZE(rows); i++) {
		struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
		struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
		struct rk_nvl *nvl;
		struct rk_nvl_live *live;
		int port = plain->server.port;
		size_t n;
		pid_t pid = rows[i].server ? tls_server(folder, rows[i].server, &port) : 0;
		char *entry RK_CLEANUP_FREE = rk_xasprintf("\"driver\":\"nmxm\",\"url\":\"https://127.0.0.1:%d\",\"credentialsFile\":\"%s/c\",\"caFile\":\"%s/%s\"", port, folder,
							   folder, rows[i].ca);
		struct rk_site *site = fabric_site(entry, "\"driver\":\"opensm\",\"ssh\":\"root@sm\"");
		struct rk_driver_env env = { .site = site, .clock = plain->bench.clock, .timeout_ms = rows[i].server ? 10000 : 1000 };
		assert_int_equal(rk_nvl_open(&env, &nvl, &err), 0);
		int rc = nvl->ops->list(nvl, 0, arena, &live, &n, &err);
		if (pid > 0 && kill(pid, SIGKILL) == 0)
			waitpid(pid, NULL, 0);
		if (rc != (rows[i].says ? RK_UNREACHABLE : 0) || (rows[i].says && !strstr(err.message, rows[i].says)))
			fail_msg("row %zu: %d: %s", i, rc, err.message ? err.message : "no error");
		nvl->ops->free(nvl);
		rk_site_free(site);
	}
	(void)tls_sh(folder, "rm -rf \"$PWD\"");
	if (!can)
		skip();
}

static void ctrl_c_cancels_the_operation_too(void **state)
{
	struct fake *f = *state;
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;

	f->fault = INTERRUPTED;
	assert_int_equal(f->bench.nvl->ops->drop(f->bench.nvl, 0, RK_NVL_DEFAULT, nvl_guid(&f->bench, 0), &err), RK_CANCELLED);
	assert_int_equal(f->puts, 1);
	assert_int_equal(f->cancels, 1);
	/* And nothing is begun any more. */
	assert_int_equal(f->bench.nvl->ops->drop(f->bench.nvl, 0, RK_NVL_DEFAULT, nvl_guid(&f->bench, 0), &err), RK_CANCELLED);
	assert_int_equal(f->puts, 1);
}

/* What was accepted late must not be undone by the list of the next change. */
static void a_late_effect_is_awaited_before_the_next_list(void **state)
{
	struct fake *f = *state;
	int id = ready_partition(f);

	f->fault = LATE;
	for (int g = 0; g < 4; g++)
		NVL_RC(0, f->bench.nvl->ops->drop(f->bench.nvl, 0, RK_NVL_DEFAULT, nvl_guid(&f->bench, g), error));
	for (int g = 0; g < 4; g++)
		NVL_RC(0, f->bench.nvl->ops->add(f->bench.nvl, 0, id, nvl_guid(&f->bench, g), error));
	for (int g = 0; g < GPUS; g++)
		assert_int_equal(nvl_where(&f->bench, nvl_guid(&f->bench, g)), g < 4 ? id : RK_NVL_DEFAULT);
}

static void an_expired_login_is_renewed_once(void **state)
{
	struct fake *f = *state;

	assert_int_equal(nvl_where(&f->bench, nvl_guid(&f->bench, 0)), RK_NVL_DEFAULT);
	f->fault = EXPIRED;
	assert_int_equal(nvl_where(&f->bench, nvl_guid(&f->bench, 0)), RK_NVL_DEFAULT);
}

/* Whatever became of the answer, the one that was made is found by its name, and no second one is made. */
static void a_partition_whose_answer_was_lost_is_found_by_its_name(void **state)
{
	struct fake *f = *state;
	struct rk_nvl *again;
	int id = 0, made = 0;

	f->fault = CUT;
	NVL_RC(0, f->bench.nvl->ops->create(f->bench.nvl, 0, 1, "team", "full_bandwidth", 18, &id, error));
	f->fault = NONE;
	assert_int_equal(id, 2);
	/* Another process, which knows no more than the plan. */
	NVL_RC(0, rk_nvl_open(&f->env, &again, error));
	NVL_RC(0, again->ops->create(again, 0, 1, "team", "full_bandwidth", 18, &id, error));
	again->ops->free(again);
	assert_int_equal(id, 2);
	for (int i = 0; i < PARTS; i++)
		made += f->parts[i].used && strcmp(f->parts[i].name, "team@r1") == 0;
	assert_int_equal(made, 1);
}

static void a_null_list_is_unknown_not_empty(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct fake *f = *state;
	struct rk_nvl_live *live;
	size_t n;

	f->fault = NULL_LIST;
	NVL_RC(RK_UNREACHABLE, f->bench.nvl->ops->list(f->bench.nvl, 0, arena, &live, &n, error));
}

/* Two GPUs are said to be at one place: a partition that names the place holds one of them, and nobody knows which. */
static void a_place_of_two_gpus_names_neither(void **state)
{
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct fake *f = *state;
	struct rk_nvl_live *live;
	size_t n;

	f->fault = SAME_PLACE;
	NVL_RC(RK_UNREACHABLE, f->bench.nvl->ops->list(f->bench.nvl, 0, arena, &live, &n, error));
}

static void identities_as_text_are_as_good_as_numbers(void **state)
{
	struct fake *f = *state;

	f->text_uids = true;
	nvl_contract_begins_in_the_default_partition(&f->bench);
	assert_true(nvl_guid(&f->bench, 0) > UINT64_C(1) << 53);
}

static void a_controller_that_is_down_is_named(void **state)
{
	struct fake *f = *state;
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	struct rk_err err RK_CLEANUP_ERR = RK_ERR_INIT;
	const char *where;

	f->fault = BROKEN;
	assert_int_equal(f->bench.nvl->ops->health(f->bench.nvl, 0, arena, &where, &err), RK_UNHEALTHY);
	assert_non_null(strstr(err.message, "is DOWN: x"));
}

static void a_read_only_world_changes_nothing(void **state)
{
	struct fake *f = *state;
	struct rk_nvl *nvl;
	int id;

	f->env.read_only = true;
	NVL_RC(0, rk_nvl_open(&f->env, &nvl, error));
	NVL_RC(RK_INVALID, nvl->ops->create(nvl, 0, 1, "team", "full_bandwidth", 18, &id, error));
	nvl->ops->free(nvl);
	assert_int_equal(f->server.requests, 0);
}

/* Recorded answers, one JSON text per line or one per file. */
static void recorded_answers_are_understood(void **state)
{
	static const enum rk_nmxm_state states[] = { RK_NMXM_ODD, RK_NMXM_RUNNING, RK_NMXM_FAILED, RK_NMXM_ODD };
	struct rk_arena *arena RK_CLEANUP_ARENA = rk_arena_new();
	char *text RK_CLEANUP_FREE = NULL, *rest = NULL;
	size_t len, n = 0;

	(void)state;
	if (rk_file_read("../shared/samples/nvlink-switch/nmxm-operations.txt", 1 << 20, &text, &len, NULL) != 0)
		skip();
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), n++) {
		struct rk_json *json RK_CLEANUP_JSON = NULL;
		struct rk_nmxm_operation op;
		assert_int_equal(rk_json_parse("line", line, strlen(line), &json, NULL), 0);
		rk_nmxm_operation(rk_json_root(json), arena, &op);
		assert_int_equal(op.state, states[n]);
	}
	assert_int_equal(n, RK_ARRAY_SIZE(states));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		NVL_CONTRACT(start, stop),
		cmocka_unit_test_setup_teardown(an_endless_operation_is_cancelled, start, stop),
		cmocka_unit_test_setup_teardown(an_operation_that_cannot_be_cancelled_is_left_alone, start, stop),
		cmocka_unit_test_setup_teardown(what_others_change_between_reading_and_writing_is_kept, start, stop),
		cmocka_unit_test_setup_teardown(members_that_change_all_the_time_are_a_conflict, start, stop),
		cmocka_unit_test_setup_teardown(only_the_manager_that_proves_itself_is_listened_to, start, stop),
		cmocka_unit_test_setup_teardown(ctrl_c_cancels_the_operation_too, start, stop),
		cmocka_unit_test_setup_teardown(a_late_effect_is_awaited_before_the_next_list, start, stop),
		cmocka_unit_test_setup_teardown(an_expired_login_is_renewed_once, start, stop),
		cmocka_unit_test_setup_teardown(a_partition_whose_answer_was_lost_is_found_by_its_name, start, stop),
		cmocka_unit_test_setup_teardown(a_null_list_is_unknown_not_empty, start, stop),
		cmocka_unit_test_setup_teardown(a_place_of_two_gpus_names_neither, start, stop),
		cmocka_unit_test_setup_teardown(identities_as_text_are_as_good_as_numbers, start, stop),
		cmocka_unit_test_setup_teardown(a_controller_that_is_down_is_named, start, stop),
		cmocka_unit_test_setup_teardown(a_read_only_world_changes_nothing, start, stop),
		cmocka_unit_test(recorded_answers_are_understood),
	};

	struct CMUnitTest faults[RK_ARRAY_SIZE(drops)];
	for (size_t i = 0; i < RK_ARRAY_SIZE(drops); i++)
		faults[i] = (struct CMUnitTest){ .name = drops[i].name, .test_func = is_told_for_what_it_is, .initial_state = (void *)&drops[i] };
	return cmocka_run_group_tests(tests, NULL, NULL) + cmocka_run_group_tests(faults, NULL, NULL);
}
