#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "inventory/base/diag.h"
#include "inventory/base/str.h"
#include "inventory/topology_impl.h"

enum { LINE_MAX_BYTES = 4096, ID_MAX = 64, PORTS_MAX = 255, PROBLEMS_MAX = 100 };

/* A cable end while reading: the other node is still only a text. */
struct raw_link {
	struct rk_iblink link;
	const char *peer_id;
	uint64_t peer_guid; /* port GUID of the other end, as printed in parentheses */
	uint32_t line;
};

struct parser {
	struct rk_arena *arena;
	struct rk_diags diags;
	struct rk_map *ids; /* node id -> index; the first record of an id wins */
	struct {
		struct rk_ibnode *items;
		size_t n, cap;
	} nodes;
	struct {
		struct raw_link *items;
		size_t n, cap;
	} links;
	uint64_t guid, devid; /* of the attribute lines before the next node */
	int node;             /* whose record is being read, or RK_NONE */
	uint32_t line;
	const char *start, *at; /* of the line */
};

static bool problem(struct parser *p, const char *what)
{
	rk_diag_line(&p->diags, p->line, (uint32_t)(p->at - p->start) + 1, "%s", what);
	if (p->diags.n == 1)
		rk_diag_hint(&p->diags, "expected is what plain `ibnetdiscover` prints, without -p, -l or --diff");
	return false;
}

static void skip_blanks(struct parser *p)
{
	p->at += strspn(p->at, " \t");
}

static bool take_char(struct parser *p, char c)
{
	if (*p->at != c)
		return false;
	p->at++;
	return true;
}

static bool take_number(struct parser *p, int min, int max, int *ret)
{
	size_t len = strspn(p->at, "0123456789");
	long v = len && len < 6 ? strtol(p->at, NULL, 10) : -1;

	if (v < min || v > max)
		return false;
	p->at += len;
	*ret = (int)v;
	return true;
}

/* "text", 1..64 bytes. */
static bool take_id(struct parser *p, const char **ret)
{
	const char *close = *p->at == '"' ? strchr(p->at + 1, '"') : NULL;
	size_t len = close ? (size_t)(close - p->at - 1) : 0;

	if (!len || len > ID_MAX)
		return problem(p, "a node id in quotes is expected");
	*ret = rk_arena_strndup(p->arena, p->at + 1, len);
	p->at = close + 1;
	return true;
}

/* Hex digits with or without 0x; 0 when there are none or too many. */
static uint64_t hex_of(const char *s)
{
	if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X'))
		s += 2;
	size_t len = strspn(s, "0123456789abcdefABCDEF");

	return len >= 1 && len <= 16 ? strtoull(s, NULL, 16) : 0;
}

/* "(5000e60300010131)", when it is there. */
static bool take_guid(struct parser *p, uint64_t *ret)
{
	*ret = 0;
	if (*p->at != '(')
		return true;
	*ret = hex_of(p->at + 1);
	const char *close = strchr(p->at, ')');
	if (!*ret || !close)
		return problem(p, "a port GUID in parentheses is expected");
	p->at = close + 1;
	return true;
}

/* "[12]" and, on modular switches, "[ext 3]" after it. */
static bool take_port(struct parser *p, int *ret)
{
	if (!take_char(p, '[') || !take_number(p, 1, PORTS_MAX, ret) || !take_char(p, ']'))
		return problem(p, "a port number in brackets is expected");
	if (rk_starts_with(p->at, "[ext ")) {
		const char *close = strchr(p->at, ']');
		if (!close)
			return problem(p, "a bracket that is not closed");
		p->at = close + 1;
	}
	return true;
}

/* Nominal rate of 4 lanes. Source: IBTA link speeds as `ibnetdiscover` names them. */
static const struct {
	const char *name;
	int gbps;
} speeds[] = { { "SDR", 10 },  { "DDR", 20 },  { "QDR", 40 },  { "FDR10", 40 }, { "FDR", 56 },
	       { "EDR", 100 }, { "HDR", 200 }, { "NDR", 400 }, { "XDR", 800 } };

/* "4xHDR" behind the last quote of the comment; a tool that is too old for a speed prints "4x???". */
static void take_rate(const char *rest, struct rk_iblink *link)
{
	const char *quote = strrchr(rest, '"'), *at = quote ? quote + 1 : rest;

	link->speed = "?";
	for (; *at; at += strcspn(at, " \t")) {
		at += strspn(at, " \t");
		size_t digits = strspn(at, "0123456789");
		if (!digits || digits > 2 || at[digits] != 'x')
			continue;
		const char *name = at + digits + 1;
		size_t len = strcspn(name, " \t");
		link->width = atoi(at);
		for (size_t i = 0; i < RK_ARRAY_SIZE(speeds); i++)
			if (strlen(speeds[i].name) == len && strncmp(speeds[i].name, name, len) == 0) {
				link->speed = speeds[i].name;
				link->gbps = speeds[i].gbps * link->width / 4;
			}
		return;
	}
}

static void read_port(struct parser *p)
{
	struct raw_link raw = { .line = p->line };

	if (p->node == RK_NONE) {
		problem(p, "a port outside of a node record");
		return;
	}
	if (!take_port(p, &raw.link.port) || !take_guid(p, &raw.link.port_guid))
		return;
	skip_blanks(p);
	if (!take_id(p, &raw.peer_id) || !take_port(p, &raw.link.peer_port))
		return;
	skip_blanks(p);
	if (!take_guid(p, &raw.peer_guid))
		return;
	if (raw.link.port > p->nodes.items[p->node].ports) {
		problem(p, "a port number above the number of ports of the node");
		return;
	}
	raw.link.node = p->node;
	take_rate(p->at, &raw.link);
	*rk_vec_push(&p->links) = raw;
}

/* The comment of a node line: # "description" ... */
static const char *description_of(struct parser *p)
{
	struct rk_str safe RK_CLEANUP_STR = RK_STR_INIT;
	const char *hash = strchr(p->at, '#'), *open = hash ? strchr(hash, '"') : NULL, *close = open ? strrchr(open, '"') : NULL;

	if (!open || close <= open + 1)
		return NULL;
	rk_str_add_escaped(&safe, open + 1, (size_t)(close - open - 1));
	return rk_arena_strdup(p->arena, rk_str_text(&safe));
}

static const struct {
	const char *word;
	bool is_switch, service;
} kinds[] = { { "Switch", true, false }, { "Ca", false, false }, { "Hca", false, false }, { "Rt", false, true } };

/* SHARP: each Quantum switch holds an aggregation node that looks like an HCA (pci id 15b3:cf09). */
static bool is_aggregation(uint64_t devid, const char *description)
{
	return devid == 0xcf09 || (description && strcasestr(description, "aggregation node"));
}

static void read_node(struct parser *p, size_t kind)
{
	struct rk_ibnode node = { .is_switch = kinds[kind].is_switch, .level = -1 };
	const char *id;

	p->at += strlen(kinds[kind].word);
	skip_blanks(p);
	p->node = RK_NONE;
	if (!take_number(p, 1, PORTS_MAX, &node.ports)) {
		problem(p, "a number of ports from 1 to 255 is expected");
		return;
	}
	skip_blanks(p);
	if (!take_id(p, &id))
		return;
	node.description = description_of(p);
	node.service = kinds[kind].service || is_aggregation(p->devid, node.description);
	node.guid = p->guid ? p->guid : id[0] && id[1] == '-' ? hex_of(id + 2) : 0;
	if (!node.guid) {
		problem(p, "a node without a GUID");
		return;
	}
	if (!node.description)
		node.description = id;
	p->guid = p->devid = 0;
	p->node = (int)p->nodes.n;
	rk_map_add(p->ids, id, p->nodes.n, NULL);
	*rk_vec_push(&p->nodes) = node;
}

static void read_attribute(struct parser *p)
{
	const char *value = strchr(p->at, '=') + 1;

	if (rk_starts_with(p->at, "caguid=") || rk_starts_with(p->at, "switchguid=") || rk_starts_with(p->at, "rtguid="))
		p->guid = hex_of(value);
	else if (rk_starts_with(p->at, "devid="))
		p->devid = hex_of(value);
	p->node = RK_NONE;
}

/* Headings of --grouping, and what the simulator's client library prints. Any other warning means that the discovery is incomplete. */
static bool is_harmless(const char *line)
{
	return rk_starts_with(line, "Chassis ") || rk_starts_with(line, "Non-Chassis") ||
	       (rk_starts_with(line, "ibwarn: ") && strstr(line, "attached as client"));
}

static void read_line(struct parser *p)
{
	size_t word = strspn(p->at, "abcdefghijklmnopqrstuvwxyz");

	if (*p->at == '#' || is_harmless(p->at))
		return;
	if (p->at[strspn(p->at, " \t")] == '\0') {
		p->node = RK_NONE;
		return;
	}
	if (*p->at == '[') {
		read_port(p);
		return;
	}
	if (word && p->at[word] == '=') {
		read_attribute(p);
		return;
	}
	for (size_t i = 0; i < RK_ARRAY_SIZE(kinds); i++) {
		size_t len = strlen(kinds[i].word);
		if (strncmp(p->at, kinds[i].word, len) == 0 && (p->at[len] == '\t' || p->at[len] == ' ')) {
			read_node(p, i);
			return;
		}
	}
	problem(p, "this line is no part of a topology");
}

static void read_lines(struct parser *p, const char *text, size_t len)
{
	char line[LINE_MAX_BYTES];

	for (size_t at = 0; at < len && p->diags.n < PROBLEMS_MAX;) {
		const char *end = memchr(text + at, '\n', len - at);
		size_t n = end ? (size_t)(end - text) - at : len - at;
		p->line++;
		p->start = p->at = line;
		line[0] = '\0';
		if (n >= sizeof(line)) {
			problem(p, "a line of more than 4095 bytes");
		} else if (memchr(text + at, '\0', n)) {
			problem(p, "a NUL byte");
		} else {
			memcpy(line, text + at, n);
			line[n && line[n - 1] == '\r' ? n - 1 : n] = '\0';
			read_line(p);
		}
		at += n + 1;
	}
}

/* ---- from texts to a graph ------------------------------------------------------------------------------------------------- */

static int by_end(const void *a, const void *b)
{
	const struct raw_link *x = a, *y = b;

	if (x->link.node != y->link.node)
		return x->link.node < y->link.node ? -1 : 1;
	if (x->link.port != y->link.port)
		return x->link.port < y->link.port ? -1 : 1;
	return (x->line > y->line) - (x->line < y->line);
}

/* A node that only others name: kept, with the mirrored cable, so that its HCA can still be placed. */
static int add_named(struct parser *p, const struct raw_link *raw)
{
	struct rk_ibnode node = { .guid = raw->peer_id[0] && raw->peer_id[1] == '-' ? hex_of(raw->peer_id + 2) : 0, .level = -1 };
	struct rk_str safe RK_CLEANUP_STR = RK_STR_INIT;

	node.is_switch = !raw->peer_guid && raw->peer_id[0] == 'S';
	rk_str_add_escaped(&safe, raw->peer_id, strlen(raw->peer_id));
	node.description = rk_arena_strdup(p->arena, rk_str_text(&safe));
	rk_map_add(p->ids, raw->peer_id, p->nodes.n, NULL);
	*rk_vec_push(&p->nodes) = node;
	return (int)p->nodes.n - 1;
}

static void resolve_peers(struct parser *p)
{
	size_t own = p->links.n, recorded = p->nodes.n;

	for (size_t i = 0; i < own; i++) {
		struct raw_link raw = p->links.items[i];
		size_t at;
		int peer = rk_map_get(p->ids, raw.peer_id, &at) ? (int)at : add_named(p, &raw);
		p->links.items[i].link.peer = peer;
		if (peer < (int)recorded)
			continue;
		struct rk_iblink back = raw.link;
		back.node = peer;
		back.port = raw.link.peer_port;
		back.peer = raw.link.node;
		back.peer_port = raw.link.port;
		back.port_guid = raw.peer_guid;
		*rk_vec_push(&p->links) = (struct raw_link){ .link = back };
	}
}

static void check_doubled_ports(struct parser *p)
{
	for (size_t i = 1; i < p->links.n; i++) {
		const struct raw_link *a = &p->links.items[i - 1], *b = &p->links.items[i];
		if (!b->line || a->link.node != b->link.node || a->link.port != b->link.port)
			continue;
		rk_diag_line(&p->diags, b->line, 1, "port %d of \"%s\" is listed twice, first on line %u", b->link.port,
			     p->nodes.items[b->link.node].description, a->line);
	}
}

/* Leaf and spine are told apart by their description; switches that were never named all carry the same one. */
static void name_switches(struct parser *p)
{
	struct rk_map *seen RK_CLEANUP_MAP = rk_map_new();
	size_t first;

	for (size_t i = 0; i < p->nodes.n; i++) {
		struct rk_ibnode *n = &p->nodes.items[i];
		const char *plain = n->description;
		if (!n->is_switch || rk_map_add(seen, plain, i, &first))
			continue;
		n->description = rk_arena_printf(p->arena, "%s 0x%016llx", plain, (unsigned long long)n->guid);
		struct rk_ibnode *f = &p->nodes.items[first];
		if (strcmp(f->description, plain) == 0)
			f->description = rk_arena_printf(p->arena, "%s 0x%016llx", plain, (unsigned long long)f->guid);
	}
}

static struct rk_topology *build(struct parser *p)
{
	struct rk_topology *t = rk_xcalloc(1, sizeof(*t));

	t->arena = rk_steal(&p->arena);
	t->n_nodes = p->nodes.n;
	t->nodes = rk_arena_array(t->arena, t->n_nodes, sizeof(*t->nodes));
	memcpy(t->nodes, p->nodes.items, t->n_nodes * sizeof(*t->nodes));
	t->n_links = p->links.n;
	t->links = rk_arena_array(t->arena, t->n_links, sizeof(*t->links));
	for (size_t i = 0; i < t->n_links; i++) {
		t->links[i] = p->links.items[i].link;
		struct rk_ibnode *n = &t->nodes[t->links[i].node];
		if (!n->n_links++)
			n->first_link = (int)i;
	}
	rk_topology_set_levels(t);
	return t;
}

static void parser_clear(struct parser *p)
{
	rk_diags_clear(&p->diags);
	rk_map_free(p->ids);
	free(p->nodes.items);
	free(p->links.items);
	rk_arena_free(p->arena);
}

int rk_topology_parse(const char *name, const char *text, size_t len, struct rk_topology **ret, struct rk_err *err)
{
	struct parser p RK_CLEANUP(parser_clear) = { .arena = rk_arena_new(), .ids = rk_map_new(), .diags = RK_DIAGS_INIT(name), .node = RK_NONE };

	if (len > RK_TOPOLOGY_MAX)
		return rk_err_set(err, RK_INVALID, "\"%s\" is larger than %d MiB", name, RK_TOPOLOGY_MAX >> 20);
	read_lines(&p, text, len);
	if (!p.nodes.n && !p.diags.n) {
		rk_diag_line(&p.diags, 0, 0, "no node in it");
		rk_diag_hint(&p.diags, "expected is what plain `ibnetdiscover` prints");
	}
	if (!p.diags.n) {
		resolve_peers(&p);
		if (p.links.n)
			qsort(p.links.items, p.links.n, sizeof(*p.links.items), by_end);
		check_doubled_ports(&p);
		name_switches(&p);
	}
	int rc = rk_diags_result(&p.diags, err);
	if (!rc)
		*ret = build(&p);
	return rc;
}
