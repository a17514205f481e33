/* P_Key tables of a whole fabric in one go. smpquery needs a process and a few round trips for each port (a minute for 64 racks) and asks through
 * LIDs, which planarized fabrics refuse; so a small program of ours does it (remote/ib_pkeys.c says how, and what it prints). It is taken from the
 * manager's host when it is installed there as racksh-ib-pkeys, else the one that was built with racksh is sent, else its source, to be built there.
 * It is run from a folder that is gone afterwards. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "inventory/base/data.h"
#include "inventory/base/map.h"
#include "provision/drivers/ib_ssh.h"

/* SOME_MAX routes fit into one command line. */
enum { CAP_MAX = 4096, READ_MS = 120000, SOME_MAX = 512, ROUTE_MAX = 64 * 4 };

/* NONCE, the word "program" or "source", which comes on standard input, and what the program is given. "NONCE no REASON" when it cannot be run. */
static const char reader_script[] =
	"n=$1 way=$2; shift 2\n"
	"no() { printf '%s no %s\\n' \"$n\" \"$1\"; exit 0; }\n"
	"i=$(command -v racksh-ib-pkeys) && [ \"$(\"$i\" --form 2>/dev/null)\" = 1 ] && exec \"$i\" \"$n\" \"$@\"\n"
	"umask 077\n"
	"d=$(mktemp -d) || no 'no folder for a program'\n"
	"trap 'rm -rf \"$d\"' EXIT\n"
	"trap 'exit 1' HUP INT TERM PIPE\n"
	"cat > \"$d/$way\" || no 'no room for a program'\n"
	"case $way in\n"
	"source) cc -O2 -x c -o \"$d/program\" \"$d/source\" -ldl 2>\"$d/why\" || no \"it cannot be built: $(head -n 1 \"$d/why\")\" ;;\n"
	"esac\n"
	"chmod 700 \"$d/program\"\n"
	"[ \"$(\"$d/program\" --form 2>\"$d/why\")\" = 1 ] || no \"it does not run: $(head -n 1 \"$d/why\")\"\n"
	"\"$d/program\" \"$n\" \"$@\"\n";

static const struct way {
	const char *word, *file;
} ways[] = { { "program", "gen/ib_pkeys" }, { "source", "provision/drivers/remote/ib_pkeys.c" } };

struct answer {
	const char *mark;
	struct rk_arena *arena;
	struct rk_map *wanted;            /* GUID -> index */
	struct rk_ib_port *ports;
	struct rk_ib_ssh *learns;         /* routes; NULL: they were given */
	size_t tables, routes;            /* all, of wanted ports or not */
	const char *hole, *fail;
};

static const struct rk_data *data_of(const char *file)
{
	const struct rk_data *d = rk_data_files;

	while (d->path && !rk_streq(d->path, file))
		d++;
	return d;
}

static struct rk_ib_port *port_of(const struct answer *a, uint64_t guid)
{
	size_t at;

	return rk_map_get_u64(a->wanted, guid, &at) ? &a->ports[at] : NULL;
}

static bool is_route(const char *text)
{
	return strspn(text, "0123456789.") == strlen(text) && strlen(text) < ROUTE_MAX;
}

static void learn(struct answer *a, uint64_t guid, const char *route)
{
	struct rk_ib_ssh *s = a->learns;
	const char **grown;

	/* Powers of two, so that each text moves once on average. */
	if ((a->routes & (a->routes - 1)) == 0) {
		grown = rk_arena_array(s->route_arena, a->routes ? a->routes * 2 : 1, sizeof(*grown));
		if (a->routes)
			memcpy(grown, s->route_texts, a->routes * sizeof(*grown));
		s->route_texts = grown;
	}
	s->route_texts[a->routes] = rk_arena_strdup(s->route_arena, route);
	rk_map_set_u64(s->routes, guid, a->routes++);
}

/* "table GUID ROUTE CAP WORD...": strict, a table that is odd in any way is no table. */
static bool read_table(struct answer *a, const char *line)
{
	char route[ROUTE_MAX];
	uint16_t words[CAP_MAX];
	uint64_t guid;
	unsigned cap, word;
	size_t n = 0;
	int used = 0;

	if (sscanf(line, "%16" SCNx64 " %255s %5u%n", &guid, route, &cap, &used) != 3 || !is_route(route) || cap == 0 || cap > CAP_MAX)
		return false;
	for (line += used; *line; line += used) {
		used = 0;
		if (n >= cap || sscanf(line, " %4x%n", &word, &used) != 1 || used != 5 || !word)
			return false;
		words[n++] = (uint16_t)word;
	}
	a->tables++;
	if (a->learns)
		learn(a, guid, route);
	struct rk_ib_port *port = port_of(a, guid);
	if (!port)
		return true;
	if (port->known)
		return false;
	/* Told to be unread: a second port with its GUID. */
	if (port->why)
		return true;
	port->pkeys = rk_arena_array(a->arena, n + 1, sizeof(*words));
	memcpy(port->pkeys, words, n * sizeof(*words));
	port->n_pkeys = n;
	return port->known = true;
}

static bool read_unread(struct answer *a, const char *line)
{
	uint64_t guid;
	int used = 0;

	if (sscanf(line, "%16" SCNx64 " %n", &guid, &used) != 1 || used == 0)
		return false;
	struct rk_ib_port *port = port_of(a, guid);
	if (port)
		*port = (struct rk_ib_port){ .guid = guid, .why = rk_first_line(a->arena, line + used) };
	return true;
}

static bool read_hole(struct answer *a, const char *line)
{
	uint64_t guid;
	unsigned port;
	int used = 0;

	if (sscanf(line, "%16" SCNx64 " %3u %n", &guid, &port, &used) != 2 || used == 0)
		return false;
	if (!a->hole)
		a->hole = rk_arena_printf(a->arena, "the fabric was not seen whole: port %u of 0x%016" PRIx64 ": %s", port, guid, rk_first_line(a->arena, line + used));
	return true;
}

static bool read_fail(struct answer *a, const char *line)
{
	a->fail = rk_first_line(a->arena, line);
	return true;
}

static bool read_line(struct answer *a, const char *line)
{
	static const struct {
		const char *word;
		bool (*read)(struct answer *a, const char *line);
	} rows[] = { { "table ", read_table }, { "unread ", read_unread }, { "hole ", read_hole }, { "fail ", read_fail } };

	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++)
		if (rk_starts_with(line, rows[i].word))
			return rows[i].read(a, line + strlen(rows[i].word));
	return false;
}

static int odd(const char *what, struct rk_arena *arena, const char *line, struct rk_err *err)
{
	return rk_err_set(err, RK_UNREACHABLE, "reading P_Key tables: %s: %s", what, rk_first_line(arena, line));
}

/* Everything from "NONCE 1" to "NONCE end COUNT", or it is nothing. */
static int read_answer(struct answer *a, const char *text, struct rk_err *err)
{
	const char *end = rk_arena_printf(a->arena, "%s end ", a->mark), *next;
	size_t told;

	for (const char *line = text; *line; line = next) {
		const char *eol = strchr(line, '\n');
		if (!eol)
			break;
		const char *copy = rk_arena_strndup(a->arena, line, (size_t)(eol - line));
		next = eol + 1;
		if (rk_starts_with(copy, end)) {
			if (sscanf(copy + strlen(end), "%zu", &told) != 1 || told != a->tables || *next)
				return odd("the answer does not add up", a->arena, copy, err);
			return 0;
		}
		if (!read_line(a, copy))
			return odd("the answer is not understood", a->arena, copy, err);
	}
	return odd("the answer was cut", a->arena, "no last line came", err);
}

/* What nobody told of is not in the fabric, when all of it was seen. A port that was asked for twice is told twice. */
static void name_the_rest(const struct answer *a, size_t n)
{
	const char *hole = a->fail ? a->fail : a->hole;
	size_t first;

	for (size_t i = 0; i < n; i++) {
		struct rk_ib_port *port = &a->ports[i];
		if (rk_map_get_u64(a->wanted, port->guid, &first) && first != i)
			*port = a->ports[first];
		if (port->known || port->why)
			continue;
		port->down = !hole;
		port->why = hole ? hole : rk_ib_link_down;
	}
}

int rk_ib_reader_take(const char *text, const char *mark, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_port *ret, struct rk_err *err)
{
	struct rk_map *wanted RK_CLEANUP_MAP = rk_map_new();
	struct answer a = { .arena = arena, .wanted = wanted, .ports = ret, .mark = mark };
	const char *head = rk_arena_printf(arena, "%s 1\n", mark);

	for (size_t i = 0; i < n; i++) {
		(void)rk_map_add_u64(wanted, guids[i], i, NULL);
		ret[i] = (struct rk_ib_port){ .guid = guids[i] };
	}
	if (!rk_starts_with(text, head))
		return odd("the answer is not understood", arena, text, err);
	int rc = read_answer(&a, text + strlen(head), err);
	if (rc == 0)
		name_the_rest(&a, n);
	return rc;
}

const char *rk_ib_reader_program(size_t *ret_len)
{
	const struct rk_data *program = data_of(ways[0].file);

	*ret_len = program->path ? program->len : 0;
	return program->path ? program->text : "";
}

static int run_way(struct rk_ib_ssh *s, const char *mark, const char *const *routes, size_t n_routes, struct rk_arena *arena, struct rk_ssh_result *result,
		   struct rk_err *err)
{
	const struct rk_data *program = data_of(ways[s->way].file);
	const char *const words[] = { "sh", "-c", reader_script, "racksh", mark, ways[s->way].word };
	const char **argv = rk_arena_array(arena, RK_ARRAY_SIZE(words) + n_routes + 1, sizeof(*argv));

	memcpy(argv, words, sizeof(words));
	if (n_routes)
		memcpy(argv + RK_ARRAY_SIZE(words), routes, n_routes * sizeof(*argv));
	return program->path ? rk_ib_ssh_run_any(s, READ_MS, argv, program->text, program->len, result, err) :
			       rk_err_set(err, RK_NOT_FOUND, "racksh was built without this program");
}

static int read_once(struct rk_ib_ssh *s, struct answer *a, const char *const *routes, size_t n_routes, struct rk_err *err)
{
	const char *head = rk_arena_printf(a->arena, "%s 1\n", a->mark), *no = rk_arena_printf(a->arena, "%s no ", a->mark);
	struct rk_ssh_result r = { .status = -1 };
	int rc = run_way(s, a->mark, routes, n_routes, a->arena, &r, err);
	const char *text = rk_str_text(&r.out);

	if (rc == 0 && rk_starts_with(text, head) && !r.truncated)
		rc = read_answer(a, text + strlen(head), err);
	else if (rc == 0 && rk_starts_with(text, no))
		rc = rk_err_set(err, RK_NOT_FOUND, "%s", rk_first_line(a->arena, text + strlen(no)));
	else if (rc == 0)
		rc = rk_err_set(err, RK_NOT_FOUND, "%s", rk_first_line(a->arena, r.err.len ? rk_str_text(&r.err) : text));
	rk_ssh_result_clear(&r);
	return rc;
}

static void start_answer(struct answer *a, const uint64_t *guids, size_t n)
{
	a->mark = rk_nonce(a->arena);
	for (size_t i = 0; i < n; i++)
		a->ports[i] = (struct rk_ib_port){ .guid = guids[i] };
}

void rk_ib_reader_forget(struct rk_ib_ssh *s)
{
	rk_map_free(s->routes);
	rk_arena_free(s->route_arena);
	s->routes = NULL;
	s->route_arena = NULL;
	s->route_texts = NULL;
}

int rk_ib_reader_tables(struct rk_ib_ssh *s, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_port *ret, struct rk_err *err)
{
	struct rk_err why RK_CLEANUP_ERR = RK_ERR_INIT;
	struct rk_map *wanted RK_CLEANUP_MAP = rk_map_new();
	struct answer a = { .arena = arena, .wanted = wanted, .ports = ret, .learns = s };
	int rc = RK_NOT_FOUND;

	for (size_t i = 0; i < n; i++)
		(void)rk_map_add_u64(wanted, guids[i], i, NULL);
	rk_ib_reader_forget(s);
	s->routes = rk_map_new();
	s->route_arena = rk_arena_new();
	for (; s->way < RK_ARRAY_SIZE(ways) && rc == RK_NOT_FOUND; s->way += rc == RK_NOT_FOUND) {
		start_answer(&a, guids, n);
		rc = read_once(s, &a, NULL, 0, &why);
	}
	if (rc)
		rk_ib_reader_forget(s);
	if (rc == 0 && a.fail && !a.tables)
		return rk_err_set(err, RK_NOT_FOUND, "%s", a.fail);
	if (rc == 0)
		name_the_rest(&a, n);
	else if (why.message)
		rk_err_move(err, &why);
	else
		rk_err_set(err, RK_NOT_FOUND, "no reader of whole fabrics runs on the manager's host");
	return rc;
}

/* False: not where they were, or nobody knows where they are. */
static bool read_where_they_were(struct rk_ib_ssh *s, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_port *ret)
{
	struct rk_map *wanted RK_CLEANUP_MAP = rk_map_new();
	struct answer a = { .arena = arena, .wanted = wanted, .ports = ret };
	const char **routes = rk_arena_array(arena, n, sizeof(*routes));
	size_t at;

	for (size_t i = 0; i < n; i++) {
		if (!s->routes || !rk_map_get_u64(s->routes, guids[i], &at) || !rk_map_add_u64(wanted, guids[i], i, NULL))
			return false;
		routes[i] = rk_arena_printf(arena, "%016" PRIx64 ":%s", guids[i], s->route_texts[at]);
	}
	start_answer(&a, guids, n);
	if (read_once(s, &a, routes, n, NULL) != 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!ret[i].known)
			return false;
	return true;
}

int rk_ib_reader_some(struct rk_ib_ssh *s, const uint64_t *guids, size_t n, struct rk_arena *arena, struct rk_ib_port *ret, struct rk_err *err)
{
	if (n && n <= SOME_MAX && s->way < RK_ARRAY_SIZE(ways) && read_where_they_were(s, guids, n, arena, ret))
		return 0;
	return rk_ib_reader_tables(s, guids, n, arena, ret, err);
}
