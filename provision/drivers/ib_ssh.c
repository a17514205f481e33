#include "provision/drivers/ib_ssh.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "inventory/base/map.h"
#include "inventory/topology.h"
#include "provision/ib_counters.h"

/* rdma-core 49 brought XDR to the tools. */
enum { TABLE_MAX = 4096, MS_PER_PORT = 60, XDR_GBPS = 800, XDR_DIAGS = 49 };

/* NONCE, GUIDs on standard input. Eight at a time: each table is printed with one write, so that answers do not mix. */
static const char tables_script[] =
	"xargs -n 16 -P 8 sh -c 'n=$1; shift; for g; do o=$(smpquery -G pkeys \"$g\" 2>&1 </dev/null); r=$?\n"
	"printf \"%s\\n\" \"$n $g $r\n$o\n$n end\"; done' sh \"$1\"\n";

/* The same for counters: what 64-bit counters do not have the older ones may. */
static const char counters_script[] =
	"xargs -n 16 -P 8 sh -c 'n=$1; shift; for g; do o=$(perfquery -x -G \"$g\" 2>&1 </dev/null); r=$?; p=$(perfquery -G \"$g\" 2>&1 </dev/null)\n"
	"printf \"%s\\n\" \"$n $g $r\n$o\n$n narrow\n$p\n$n end\"; done' sh \"$1\"\n";

/* NONCE, look(yes|no), lines of SGID DGID GUID GUID on standard input: no record is also what a port that does not exist gives, hence the second
 * look, where nobody looked before. */
static const char paths_script[] =
	"one() { o=$(saquery -p --sgid \"$1\" --dgid \"$2\" 2>&1 </dev/null) || { echo \"$n failed $o\"; return; }\n"
	" case $o in *PathRecord*) echo \"$n path\"; return ;; *ERROR*|*rror:*) echo \"$n failed $o\"; return ;; esac\n"
	" [ \"$look\" = yes ] || { echo \"$n none\"; return; }\n"
	" for g in \"$3\" \"$4\"; do smpquery -G nodeinfo \"$g\" >/dev/null 2>&1 </dev/null || { echo \"$n absent $g\"; return; }; done\n"
	" echo \"$n none\"; }\n"
	"n=$1 look=$2; while read -r a b c d; do one \"$a\" \"$b\" \"$c\" \"$d\"; done\n";

/* --- plumbing ------------------------------------------------------------------------------------------------------------------ */

void rk_ib_ssh_init(struct rk_ib_ssh *s, const struct rk_driver_env *env, const struct rk_ib *ib, int fabric)
{
	*s = (struct rk_ib_ssh){ .env = env, .ib = ib, .fabric = fabric };
	pthread_mutex_init(&s->lock, NULL);
}

void rk_ib_ssh_clear(struct rk_ib_ssh *s)
{
	rk_session_close(&s->session);
	rk_ib_reader_forget(s);
	pthread_mutex_destroy(&s->lock);
}

const char *rk_nonce(struct rk_arena *arena)
{
	uint64_t n = 0;

	(void)!getrandom(&n, sizeof(n), 0);
	return rk_arena_printf(arena, "racksh-%016" PRIx64, n);
}

static const struct rk_fabric *fabric_of(const struct rk_ib_ssh *s)
{
	return &s->ib->site->fabrics[s->fabric];
}

int rk_ib_ssh_run_at(struct rk_ib_ssh *s, size_t host, int total_ms, const char *const *argv, const char *input, size_t len,
		     struct rk_ssh_result *result, struct rk_err *err)
{
	struct rk_driver_env env = *s->env;
	int ms = total_ms > env.timeout_ms ? total_ms : env.timeout_ms;
	struct rk_ssh_limits limits = { .command_ms = ms, .idle_ms = ms, .output_max = (size_t)64 << 20 };

	env.site = s->ib->site;
	return rk_session_run(&s->session, &env, &fabric_of(s)->manager, host, env.site->n_trays ? 0 : RK_NONE, &limits, argv, input, len, result, err);
}

int rk_ib_ssh_run_any(struct rk_ib_ssh *s, int total_ms, const char *const *argv, const char *input, size_t len, struct rk_ssh_result *result,
		      struct rk_err *err)
{
	size_t n = fabric_of(s)->manager.n_ssh;
	int rc = RK_UNREACHABLE;

	for (size_t i = 0; i < (n ? n : 1); i++) {
		rc = rk_ib_ssh_run_at(s, i, total_ms, argv, input, len, result, err);
		if (rc != RK_UNREACHABLE)
			return rc;
		if (i + 1 < n)
			rk_ssh_result_clear(result);
	}
	return rc;
}

int rk_ib_ssh_finish(struct rk_ib_ssh *s, int rc, struct rk_err *err)
{
	pthread_mutex_unlock(&s->lock);
	if (rc != 0 && rc != RK_CANCELLED)
		rk_err_while(err, "fabric \"%s\"", fabric_of(s)->name);
	return rc;
}

/* --- reading -------------------------------------------------------------------------------------------------------- */

/* The P_Key table as smpquery prints it; false when it is not whole. */
static bool read_table(const char *text, struct rk_arena *arena, struct rk_ib_port *port)
{
	uint16_t keys[TABLE_MAX];
	size_t n = 0, kept = 0, capacity = 0;

	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		unsigned index, at = 0, key;
		if (sscanf(line, "%zu pkeys capacity", &n) == 1 && memmem(line, strcspn(line, "\n"), "pkeys capacity", 14)) {
			port->pkeys = rk_arena_array(arena, kept + 1, sizeof(*port->pkeys));
			memcpy(port->pkeys, keys, kept * sizeof(*keys));
			port->n_pkeys = kept;
			port->known = n == capacity;
			return port->known;
		}
		int used = 0;
		if (sscanf(line, " %u:%n", &index, &used) != 1 || used == 0 || index != capacity)
			continue;
		for (const char *p = line + used; sscanf(p, " 0x%4x%n", &key, &used) == 1 && p < line + strcspn(line, "\n"); p += used, at++) {
			if (++capacity > TABLE_MAX)
				return false;
			if (key)
				keys[kept++] = (uint16_t)key;
		}
	}
	return false;
}

/* What stands between "NONCE GUID STATUS" and "NONCE end"; NULL when it did not come whole. */
static const char *answer_of(const char *out, const char *mark, uint64_t guid, struct rk_arena *arena, long *ret_status)
{
	const char *head = rk_arena_printf(arena, "%s 0x%016" PRIx64 " ", mark, guid), *at = strstr(out, head);
	const char *end = at ? strstr(at, rk_arena_printf(arena, "%s end", mark)) : NULL, *body = end ? strchr(at, '\n') : NULL;

	if (!body || body >= end)
		return NULL;
	*ret_status = strtol(at + strlen(head), NULL, 10);
	return rk_arena_strndup(arena, body + 1, (size_t)(end - body - 1));
}

static void read_answer(const char *out, const char *mark, struct rk_arena *arena, struct rk_ib_port *port)
{
	long status;
	const char *text = answer_of(out, mark, port->guid, arena, &status);

	if (!text) {
		port->why = "no answer was read";
		return;
	}
	if (status == 0 && read_table(text, arena, port))
		return;
	const char *why = strstr(text, "failed:");
	port->why = status == 0 ? "the table is cut short" : rk_first_line(arena, why ? why + strlen("failed:") : text);
}

/* "smpquery 44.0 …" -> 44; 0 unknown. */
static long diags_version(const char *text)
{
	const char *digit = text + strcspn(text, "0123456789");

	return strtol(digit, NULL, 10);
}

/* Tools that came before XDR cannot read such a fabric at all: then that is said, and not only that nobody answers. NULL: it is not that. */
static const char *old_tools(struct rk_ib_ssh *s, const char *why, struct rk_arena *arena)
{
	static const char *const argv[] = { "sh", "-c", "smpquery --version 2>&1 </dev/null || rpm -q infiniband-diags || dpkg-query -W infiniband-diags", NULL };
	struct rk_ssh_result r = { .status = -1 };
	struct rk_err ignored RK_CLEANUP_ERR = RK_ERR_INIT;
	long version = 0;

	if (fabric_of(s)->rate_gbps >= XDR_GBPS && rk_ib_ssh_run_any(s, 10000, argv, NULL, 0, &r, &ignored) == 0)
		version = diags_version(rk_str_text(&r.out));
	rk_ssh_result_clear(&r);
	if (version <= 0 || version >= XDR_DIAGS)
		return NULL;
	return rk_arena_printf(arena, "infiniband-diags %ld on the manager's host is too old for XDR, which needs %d or later (%s)", version, XDR_DIAGS,
			       why ? why : "no answer");
}

static void name_old_tools(struct rk_ib_ssh *s, struct rk_ib_port *ports, size_t n, struct rk_arena *arena)
{
	for (size_t i = 0; i < n; i++)
		if (ports[i].known || ports[i].down)
			return;
	const char *why = old_tools(s, ports[0].why, arena);
	for (size_t i = 0; why && i < n; i++)
		ports[i].why = why;
}

int rk_ib_ssh_discover_locked(struct rk_ib_ssh *s, struct rk_arena *arena, const char **ret, struct rk_err *err)
{
	/* A switch that does not answer is a line on stderr and a picture with a hole: that is no picture. */
	static const char *const holes[] = { "timed out", "bad status", "failed" };
	static const char *const argv[] = { "ibnetdiscover", NULL };
	struct rk_ssh_result r;
	int rc = rk_ib_ssh_run_any(s, 120000, argv, NULL, 0, &r, err);

	if (rc == 0) {
		bool hole = r.status != 0 || r.truncated || r.out.len == 0;
		for (size_t i = 0; i < RK_ARRAY_SIZE(holes); i++)
			hole |= strstr(rk_str_text(&r.err), holes[i]) != NULL;
		const char *why = hole ? rk_first_line(arena, rk_str_text(&r.err)) : NULL, *old = hole ? old_tools(s, why, arena) : NULL;
		if (hole) {
			rc = rk_err_set(err, RK_UNREACHABLE, "the fabric was not seen whole: %s", old ? old : why);
			rk_err_hint(err, old ? "install newer ones there" : "run on the manager's host: ibnetdiscover");
		} else {
			*ret = rk_arena_strdup(arena, rk_str_text(&r.out));
		}
	}
	rk_ssh_result_clear(&r);
	return rc;
}

int rk_ib_ssh_discover(struct rk_ib_ssh *s, struct rk_arena *arena, const char **ret, struct rk_err *err)
{
	pthread_mutex_lock(&s->lock);
	return rk_ib_ssh_finish(s, rk_ib_ssh_discover_locked(s, arena, ret, err), err);
}

/* A port that answers nothing is either not in the fabric now, which a whole picture of it shows, or did not answer: not known. *ret says for
 * each GUID whether it is in the fabric; NULL: no picture. */
static struct rk_map *linked_ports(struct rk_ib_ssh *s, struct rk_arena *arena)
{
	struct rk_topology *topology RK_CLEANUP(rk_cleanup_topology) = NULL;
	const char *text;

	if (rk_ib_ssh_discover_locked(s, arena, &text, NULL) != 0 || rk_topology_parse("ibnetdiscover", text, strlen(text), &topology, NULL) != 0)
		return NULL;
	struct rk_map *linked = rk_map_new();
	for (size_t i = 0; i < topology->n_links; i++)
		if (topology->links[i].port_guid)
			rk_map_set_u64(linked, topology->links[i].port_guid, i);
	return linked;
}

const char rk_ib_link_down[] = "the port is not in the fabric: its link is down";

static void find_down(struct rk_ib_ssh *s, struct rk_ib_port *ports, size_t n, struct rk_arena *arena)
{
	struct rk_map *linked RK_CLEANUP_MAP = NULL;
	size_t unread = 0;

	for (size_t i = 0; i < n; i++)
		unread += !ports[i].known;
	linked = unread ? linked_ports(s, arena) : NULL;
	for (size_t i = 0; linked && i < n; i++)
		if (!ports[i].known && !rk_map_get_u64(linked, ports[i].guid, NULL)) {
			ports[i].down = true;
			ports[i].why = rk_ib_link_down;
		}
}

static const char *guid_lines(const uint64_t *guids, size_t n, struct rk_str *out)
{
	for (size_t i = 0; i < n; i++)
		rk_str_addf(out, "0x%016" PRIx64 "\n", guids[i]);
	return rk_str_text(out);
}

/* Some ports have only the older counters: then the first half is an error. */
static void read_counters(const char *out, const char *mark, struct rk_arena *arena, struct rk_ib_reading *ret)
{
	long status;
	const char *text = answer_of(out, mark, ret->guid, arena, &status), *narrow = text ? strstr(text, mark) : NULL;

	if (!narrow) {
		ret->why = "no answer was read";
		return;
	}
	rk_ib_counters_parse(text, (size_t)(narrow - text), true, ret);
	rk_ib_counters_parse(narrow, strlen(narrow), false, ret);
	for (size_t c = 0; c < RK_IB_COUNTERS; c++)
		ret->known |= ret->have[c];
	if (!ret->known)
		ret->why = rk_first_line(arena, text);
}

int rk_ib_ssh_counters(struct rk_ib_ssh *s, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_reading *ret, struct rk_err *err)
{
	struct rk_str list RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_map *linked RK_CLEANUP_MAP = NULL;
	const char *mark = rk_nonce(arena), *argv[] = { "sh", "-c", counters_script, "racksh", mark, NULL };
	struct rk_ssh_result r;
	size_t unread = 0;

	guid_lines(guids, n, &list);
	pthread_mutex_lock(&s->lock);
	int rc = rk_ib_ssh_run_any(s, 60000 + (int)n * MS_PER_PORT * 2, argv, rk_str_text(&list), list.len, &r, err);
	for (size_t i = 0; i < n; i++) {
		ret[i] = (struct rk_ib_reading){ .guid = guids[i] };
		read_counters(rk_str_text(&r.out), mark, arena, &ret[i]);
		unread += !ret[i].known;
	}
	rk_ssh_result_clear(&r);
	linked = rc == 0 && unread ? linked_ports(s, arena) : NULL;
	for (size_t i = 0; linked && i < n; i++)
		if (!ret[i].known && !rk_map_get_u64(linked, guids[i], NULL)) {
			ret[i].down = true;
			ret[i].why = rk_ib_link_down;
		}
	const char *old_why = rc == 0 && n && unread == n && !linked ? old_tools(s, ret[0].why, arena) : NULL;
	for (size_t i = 0; old_why && i < n; i++)
		ret[i].why = old_why;
	return rk_ib_ssh_finish(s, rc, err);
}

/* Port by port with smpquery: the slow way, where nothing else runs. */
static int query_tables(struct rk_ib_ssh *s, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_port *ret, struct rk_err *err)
{
	struct rk_str list RK_CLEANUP_STR = RK_STR_INIT;
	const char *mark = rk_nonce(arena), *argv[] = { "sh", "-c", tables_script, "racksh", mark, NULL };
	struct rk_ssh_result r;

	for (size_t i = 0; i < n; i++)
		ret[i] = (struct rk_ib_port){ .guid = guids[i] };
	guid_lines(guids, n, &list);
	int rc = rk_ib_ssh_run_any(s, 60000 + (int)n * MS_PER_PORT, argv, rk_str_text(&list), list.len, &r, err);
	/* Answers that came before a time-out are as good as any. */
	for (size_t i = 0; i < n; i++)
		read_answer(rk_str_text(&r.out), mark, arena, &ret[i]);
	if (rc == 0 && r.out.len == 0)
		rc = rk_err_set(err, RK_UNREACHABLE, "reading P_Key tables: %s", rk_first_line(arena, rk_str_text(&r.err)));
	rk_ssh_result_clear(&r);
	if (rc == 0) {
		find_down(s, ret, n, arena);
		name_old_tools(s, ret, n, arena);
	}
	return rc;
}

int rk_ib_ssh_tables_locked(struct rk_ib_ssh *s, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_port *ret, struct rk_err *err)
{
	struct rk_err ignored RK_CLEANUP_ERR = RK_ERR_INIT;
	int rc = n ? rk_ib_reader_some(s, guids, n, arena, ret, &ignored) : 0;

	if (rc == RK_NOT_FOUND)
		return query_tables(s, guids, n, arena, ret, err);
	if (rc)
		rk_err_move(err, &ignored);
	return rc;
}

int rk_ib_ssh_tables(struct rk_ib_ssh *s, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_port *ret, struct rk_err *err)
{
	pthread_mutex_lock(&s->lock);
	return rk_ib_ssh_finish(s, rk_ib_ssh_tables_locked(s, guids, n, arena, ret, err), err);
}

static const char *gid(struct rk_arena *arena, uint64_t guid)
{
	return rk_arena_printf(arena, "fe80::%x:%x:%x:%x", (unsigned)(guid >> 48), (unsigned)(guid >> 32 & 0xffff), (unsigned)(guid >> 16 & 0xffff),
			       (unsigned)(guid & 0xffff));
}

/* The next answer behind *at, as a line in the arena; NULL when there is none. */
static const char *next_answer(const char **at, const char *mark, struct rk_arena *arena)
{
	const char *found = strstr(*at, mark);

	if (!found)
		return NULL;
	*at = found + strlen(mark);
	return rk_first_line(arena, *at);
}

static void read_path(const char *word, struct rk_arena *arena, struct rk_ib_path *path)
{
	path->seen = rk_streq(word, "path") ? RK_PATH_FOUND : rk_streq(word, "none") ? RK_PATH_NONE : RK_PATH_UNKNOWN;
	if (path->seen != RK_PATH_UNKNOWN)
		return;
	path->why = word && rk_starts_with(word, "absent ") ? rk_arena_printf(arena, "the subnet manager does not know the port %s", word + strlen("absent ")) :
		    word && rk_starts_with(word, "failed ") ? word + strlen("failed ") : "no answer";
}

/* Which of the ports there are, by directed routes; false: that cannot be told. Two per path. */
static bool look_for_ends(struct rk_ib_ssh *s, const struct rk_ib_path *paths, size_t n, struct rk_arena *arena, struct rk_ib_port *ret)
{
	struct rk_map *seen RK_CLEANUP_MAP = rk_map_new();
	struct rk_err ignored RK_CLEANUP_ERR = RK_ERR_INIT;
	uint64_t *guids = rk_arena_array(arena, 2 * n, sizeof(*guids));
	struct rk_ib_port *ports = rk_arena_array(arena, 2 * n, sizeof(*ports));
	size_t kept = 0, at = 0;

	for (size_t i = 0; i < 2 * n; i++) {
		uint64_t guid = i % 2 ? paths[i / 2].to : paths[i / 2].from;
		if (rk_map_add_u64(seen, guid, kept, NULL))
			guids[kept++] = guid;
	}
	if (rk_ib_reader_some(s, guids, kept, arena, ports, &ignored) != 0)
		return false;
	for (size_t i = 0; i < 2 * n; i++)
		if (rk_map_get_u64(seen, i % 2 ? paths[i / 2].to : paths[i / 2].from, &at))
			ret[i] = ports[at];
	return true;
}

int rk_ib_ssh_paths(struct rk_ib_ssh *s, struct rk_ib_path *paths, size_t n, struct rk_arena *arena, struct rk_err *err)
{
	struct rk_str list RK_CLEANUP_STR = RK_STR_INIT;
	struct rk_ib_port *ends = rk_arena_array(arena, 2 * n, sizeof(*ends));
	const char *mark = rk_nonce(arena);
	struct rk_ssh_result r;

	for (size_t i = 0; i < n; i++)
		rk_str_addf(&list, "%s %s 0x%016" PRIx64 " 0x%016" PRIx64 "\n", gid(arena, paths[i].from), gid(arena, paths[i].to), paths[i].from, paths[i].to);
	pthread_mutex_lock(&s->lock);
	bool looked = look_for_ends(s, paths, n, arena, ends);
	const char *argv[] = { "sh", "-c", paths_script, "racksh", mark, looked ? "no" : "yes", NULL };
	int rc = rk_ib_ssh_run_any(s, 30000 + (int)n * MS_PER_PORT, argv, rk_str_text(&list), list.len, &r, err);
	const char *at = rk_str_text(&r.out);
	for (size_t i = 0; i < n; i++) {
		read_path(next_answer(&at, mark, arena), arena, &paths[i]);
		const struct rk_ib_port *missing = !ends[2 * i].known ? &ends[2 * i] : !ends[2 * i + 1].known ? &ends[2 * i + 1] : NULL;
		if (looked && missing && paths[i].seen == RK_PATH_NONE) {
			paths[i].seen = RK_PATH_UNKNOWN;
			paths[i].why = rk_arena_printf(arena, "port 0x%016" PRIx64 ": %s", missing->guid, missing->why ? missing->why : "not read");
		}
	}
	rk_ssh_result_clear(&r);
	return rk_ib_ssh_finish(s, rc, err);
}
