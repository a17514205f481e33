/* nvidia-imex-ctl -N (JSON and text) and the node list. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/str.h"
#include "provision/health/parse.h"

enum { NODES_MAX = 1024 };

/* On a host without a node list the tool ends with this text: its own state, not a fault by itself. */
static bool not_configured(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	const char *out = rk_clean(ret->arena, evidence->out, evidence->out_len < 4096 ? evidence->out_len : 4096);
	const char *err = rk_clean(ret->arena, evidence->err, evidence->err_len < 4096 ? evidence->err_len : 4096);
	const char *text = "Failed to read node configuration file";

	if (!strstr(out, text) && !strstr(err, text))
		return false;
	rk_metric_number(ret, "imex.configured", "", 0);
	static const char *const names[] = { "imex.domain", "imex.node.state", "imex.link", "imex.node.version" };
	for (size_t i = 0; i < RK_ARRAY_SIZE(names); i++)
		rk_metric_absent(ret, names[i], "", RK_NOT_CONFIGURED);
	return true;
}

static void node_json(struct rk_metrics *m, const struct rk_jnode *node)
{
	const char *label = rk_labelf(m, "node=%.8s", node->key), *status = rk_jstr(rk_jget(node, "status"));
	const char *version = rk_jstr(rk_jget(node, "version")), *host = rk_jstr(rk_jget(node, "host"));
	const char *name = rk_jstr(rk_jget(node, "hostName"));

	rk_metric_value(m, "imex.node.state", label, status ? status : "", false);
	if (host)
		rk_metric_text(m, "imex.node.host", label, host);
	if (name)
		rk_metric_text(m, "imex.node.name", label, name);
	if (version && *version)
		rk_metric_text(m, "imex.node.version", label, version);
	RK_JMEMBERS(peer, rk_jget(node, "connections")) {
		const char *link = rk_jstr(rk_jget(peer, "status"));
		rk_metric_value(m, "imex.link", rk_labelf(m, "node=%.8s,peer=%.8s", node->key, peer->key), link ? link : "", false);
	}
}

static void nodes_doc(void *ctx, const struct rk_jnode *root)
{
	struct rk_metrics *m = ctx;
	const struct rk_jnode *nodes = rk_jget(root, "nodes");
	const char *status = rk_jstr(rk_jget(root, "status"));

	if (!nodes || nodes->type != RK_JOBJECT || nodes->n > NODES_MAX)
		return;
	rk_metric_number(m, "imex.configured", "", 1);
	rk_metric_number(m, "imex.nodes", "", (double)nodes->n);
	rk_metric_value(m, "imex.domain", "", status ? status : "", false);
	RK_JEACH(node, nodes)
		node_json(m, node);
}

void rk_parse_imex_nodes(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	bool cut;

	if (rk_json_docs(ret, evidence, nodes_doc, ret, &cut) == 0 && !not_configured(evidence, ret) && cut)
		rk_metric_absent(ret, "imex.domain", "", "truncated");
}

static const char *link_word(const char *letter)
{
	static const struct {
		const char *letter, *word;
	} rows[] = {
		{ "C", "CONNECTED" }, { "D", "DISCONNECTED" }, { "I", "INVALID" }, { "N", "NEVER_CONNECTED" }, { "R", "RECOVERING" },
		{ "A", "AUTHENTICATING" }, { "!V!", "VERSION_MISMATCH" }, { "!M!", "NODE_MAP_MISMATCH" },
	};

	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++) {
		if (strcmp(rows[i].letter, letter) == 0)
			return rows[i].word;
	}
	return NULL;
}

enum part { HEAD, NODES, MATRIX };

struct text {
	struct rk_metrics *m;
	enum part part;
	int nodes, peers[NODES_MAX], n_peers, rows;  /* peers: of the columns of the matrix */
	bool domain, short_row;
};

/* The word without the mark of the node that answers. */
static char *unmarked(char *word)
{
	word += strspn(word, "*");
	word[strcspn(word, "*")] = '\0';
	return word;
}

/* "Node #3   - 10.0.48.13      - READY                - Version: 580.126.20" */
static void node_text(struct text *t, char *line, bool cut)
{
	struct rk_metrics *m = t->m;
	char *end, *all[16], *words[16];

	if (!rk_starts_with(line, "Node #"))
		return;
	long n = strtol(line + 6, &end, 10);
	if (n < 0 || n >= NODES_MAX)
		return;
	const char *label = rk_labelf(m, "node=%ld", n);
	size_t n_all = rk_words(end, all, RK_ARRAY_SIZE(all)), n_words = 0;
	for (size_t i = 0; i < n_all; i++) {
		if (strcmp(all[i], "-") != 0 && *unmarked(all[i]))
			words[n_words++] = unmarked(all[i]);
	}
	t->nodes++;
	if (n_words < 2 || cut) {
		rk_metric_absent(m, "imex.node.state", label, "truncated");
		return;
	}
	rk_metric_text(m, "imex.node.host", label, words[0]);
	rk_metric_value(m, "imex.node.state", label, words[1], false);
	if (n_words >= 4 && strcmp(words[2], "Version:") == 0)
		rk_metric_text(m, "imex.node.version", label, words[3]);
}

/* "Nodes From\To  0   1   2": which node each column is. */
static void matrix_head(struct text *t, char *line)
{
	char *save = NULL, *end;

	t->part = MATRIX;
	for (char *word = strtok_r(line, " \t", &save); word && t->n_peers < NODES_MAX; word = strtok_r(NULL, " \t", &save)) {
		long peer = strtol(word, &end, 10);
		if (end > word && !*end && peer >= 0 && peer < NODES_MAX)
			t->peers[t->n_peers++] = (int)peer;
	}
}

static void matrix_row(struct text *t, char *line, bool cut)
{
	char *save = NULL, *word = strtok_r(line, " \t", &save), *end;
	long from = word ? strtol(word, &end, 10) : -1;
	int i = 0;

	if (from < 0 || !word || *end)
		return;
	for (; (word = strtok_r(NULL, " \t", &save)) != NULL && i < t->n_peers; i++) {
		const char *state = link_word(word), *label = rk_labelf(t->m, "node=%ld,peer=%d", from, t->peers[i]);
		if (state)
			rk_metric_text(t->m, "imex.link", label, state);
		else
			rk_metric_absent(t->m, "imex.link", label, cut ? "truncated" : "unknown letter");
	}
	t->rows++;
	t->short_row |= i < t->n_peers;
}

static void domain_line(struct text *t, char *state, bool cut)
{
	static const char *const words[] = { "UP", "DOWN", "DEGRADED" };

	if (cut && !rk_word_of(state, words, RK_ARRAY_SIZE(words)))
		return;
	t->domain = true;
	rk_metric_value(t->m, "imex.domain", "", state, false);
}

static void text_line(struct text *t, char *line, bool cut)
{
	if (strcmp(line, "Nodes:") == 0)
		t->part = NODES;
	else if (t->part != HEAD && rk_starts_with(line, "Nodes From"))
		matrix_head(t, line);
	else if (rk_starts_with(line, "Domain State:"))
		domain_line(t, rk_trim(line + 13), cut);
	else if (t->part == MATRIX)
		matrix_row(t, line, cut);
	else if (t->part == NODES)
		node_text(t, line, cut);
}

void rk_parse_imex_nodes_text(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	char *at = rk_clean(ret->arena, evidence->out, evidence->out_len), *line;
	struct text t = { .m = ret };
	bool cut = false;

	while ((line = rk_next_line(&at, &cut)) != NULL)
		text_line(&t, rk_trim(line), cut);
	if (t.part == HEAD) {
		not_configured(evidence, ret);
		return;
	}
	rk_metric_number(ret, "imex.configured", "", 1);
	if (t.domain)
		rk_metric_number(ret, "imex.nodes", "", t.nodes);
	else
		rk_metric_absent(ret, "imex.nodes", "", "truncated");
	if (!t.domain)
		rk_metric_absent(ret, "imex.domain", "", "truncated");
	if (t.short_row || t.rows < t.nodes)
		rk_metric_absent(ret, "imex.link", "", "truncated");
}

/* RFC 1123, and '_', which resolvers take. A last label of digits would be an address that is none. */
static bool is_host_name(const char *s)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
	enum { NAME_MAX_LEN = 253, LABEL_MAX_LEN = 63 };
	bool digits = true;

	if (strlen(s) > NAME_MAX_LEN)
		return false;
	while (*s) {
		size_t n = strspn(s, letters);
		if (!n || n > LABEL_MAX_LEN || s[0] == '-' || s[n - 1] == '-')
			return false;
		digits = strspn(s, "0123456789") == n;
		s += n;
		if (*s && *s++ != '.')
			return false;
	}
	return !digits;
}

/* A line of the list is one address or one name. */
static bool is_node(const char *s)
{
	struct in6_addr address;

	return inet_pton(AF_INET, s, &address) == 1 || inet_pton(AF_INET6, s, &address) == 1 || is_host_name(s);
}

static const char *no_node(struct rk_metrics *m, int number, const char *line)
{
	enum { SHOWN = 60 };
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	rk_str_addf(&text, "line %d is neither an address nor a host name: \"", number);
	rk_str_add_escaped(&text, line, strnlen(line, SHOWN));
	rk_str_add(&text, "\"");
	return rk_arena_strdup(m->arena, rk_str_text(&text));
}

/* The list is compared as the daemon reads it: entries in order, without comments and blanks. What else is in it, a banner or a broken file, leaves
 * open which nodes are meant. */
void rk_parse_imex_config(const struct rk_evidence *evidence, struct rk_metrics *ret)
{
	char *at = rk_clean(ret->arena, evidence->out, evidence->out_len), *line;
	uint64_t hash = 0xcbf29ce484222325u;
	const char *why = NULL;
	int n = 0;

	if (evidence->status && !rk_status_is(evidence, "0"))
		return;
	for (int number = 1; !why && (line = rk_next_line(&at, NULL)) != NULL; number++) {
		line = rk_trim(line);
		if (!*line || *line == '#')
			continue;
		if (!is_node(line))
			why = no_node(ret, number, line);
		n++;
		for (const char *p = line;; p++) {
			hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
			if (!*p)
				break;
		}
	}
	if (why)
		rk_metric_absent(ret, "imex.list.nodes", "", why);
	else
		rk_metric_number(ret, "imex.list.nodes", "", n);
	if (!why && n)
		rk_metric_text(ret, "imex.list.hash", "", rk_labelf(ret, "%016llx", (unsigned long long)hash));
	else
		rk_metric_absent(ret, "imex.list.hash", "", why ? why : "the list is empty");
}
