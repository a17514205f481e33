#include <stdlib.h>
#include <string.h>

#include "inventory/base/nodeset.h"
#include "inventory/base/sort.h"
#include "provision/export.h"

/* ---- writing ------------------------------------------------------------------------------------------------------------------------ */

/* Digits at the end of a name, at most nine. */
static size_t digits_of(const char *name)
{
	size_t len = strlen(name), n = 0;

	while (n < len && n < 9 && name[len - n - 1] >= '0' && name[len - n - 1] <= '9')
		n++;
	return n;
}

/* Does b follow a: same text, same number of digits, the next number? */
static bool follows(const char *a, const char *b)
{
	size_t digits = digits_of(a), head = strlen(a) - digits;

	return digits && digits == digits_of(b) && strlen(a) == strlen(b) && strncmp(a, b, head) == 0 && atol(a + head) + 1 == atol(b + head);
}

/* Nodes folded without changing their order: position counts. */
static void add_nodes(const struct rk_export_block *b, struct rk_str *out)
{
	for (size_t i = 0; i < b->n;) {
		size_t n = 1;
		while (i + n < b->n && follows(b->nodes[i + n - 1].name, b->nodes[i + n].name))
			n++;
		const char *first = b->nodes[i].name, *last = b->nodes[i + n - 1].name;
		size_t head = strlen(first) - digits_of(first);
		rk_str_add(out, i ? "," : "");
		if (n == 1)
			rk_str_add(out, first);
		else
			rk_str_addf(out, "%.*s[%s-%s]", (int)head, first, first + head, last + head);
		i += n;
	}
}

/* base, 2 base, ... up to what the number of blocks fills. */
static size_t n_sizes(const struct rk_export *e)
{
	size_t n = 1;

	while (((size_t)1 << n) <= e->n && n < 30)
		n++;
	return n;
}

static void remark(const struct rk_export *e, struct rk_str *out)
{
	rk_str_addf(out, "# %s%s%s: %zu block%s of %zu, made by racksh export slurm\n", e->site->name ? e->site->name : "site", e->cluster >= 0 ? ", cluster " : "",
		    e->cluster >= 0 ? e->site->clusters[e->cluster].name : "", e->n, e->n == 1 ? "" : "s", e->base);
	if (!e->placeholders)
		return;
	rk_str_addf(out, "# names that hold the place of absent nodes (%zu); slurm.conf defines them with State=FUTURE:\n#", e->placeholders);
	for (size_t b = 0; b < e->n; b++)
		for (size_t i = 0; i < e->blocks[b].n; i++)
			if (e->blocks[b].nodes[i].tray < 0)
				rk_str_addf(out, " %s", e->blocks[b].nodes[i].name);
	rk_str_addc(out, '\n');
}

void rk_export_slurm_conf(const struct rk_export *e, struct rk_str *out)
{
	remark(e, out);
	for (size_t b = 0; b < e->n; b++) {
		rk_str_addf(out, "BlockName=%s Nodes=", e->blocks[b].name);
		add_nodes(&e->blocks[b], out);
		rk_str_addc(out, '\n');
	}
	if (!e->n)
		return;
	rk_str_add(out, "BlockSizes=");
	for (size_t i = 0; i < n_sizes(e); i++)
		rk_str_addf(out, "%s%zu", i ? "," : "", e->base << i);
	rk_str_addc(out, '\n');
}

void rk_export_slurm_yaml(const struct rk_export *e, struct rk_str *out)
{
	rk_str_add(out, "---\n");
	remark(e, out);
	if (!e->n) {
		rk_str_add(out, "[]\n");
		return;
	}
	rk_str_add(out, "- topology: nvl72\n  cluster_default: true\n  block:\n    block_sizes:\n");
	for (size_t i = 0; i < n_sizes(e); i++)
		rk_str_addf(out, "      - %zu\n", e->base << i);
	rk_str_add(out, "    blocks:\n");
	for (size_t b = 0; b < e->n; b++) {
		rk_str_addf(out, "      - block: %s\n        nodes: \"", e->blocks[b].name);
		add_nodes(&e->blocks[b], out);
		rk_str_add(out, "\"\n");
	}
}

/* ---- reading ------------------------------------------------------------------------------------------------------------------------ */

struct have_block {
	const char *name;
	int line;
	const char **nodes;
	size_t n;
};
struct have {
	struct rk_arena *arena;
	struct {
		struct have_block *items;
		size_t n, cap;
	} blocks;
	struct {
		long *items;
		size_t n, cap;
	} sizes;
	int sizes_line;
	struct {
		struct rk_export_diff *items;
		size_t n, cap;
	} diffs;
};

static void tell(struct have *h, int line, const char *what)
{
	*rk_vec_push(&h->diffs) = (struct rk_export_diff){ line, what };
}

static void add_node(struct have *h, struct have_block *b, const char *name)
{
	/* Room doubles at powers of two. */
	if (b->n >= 32 ? (b->n & (b->n - 1)) == 0 : b->n == 0) {
		const char **more = rk_arena_array(h->arena, b->n ? b->n * 2 : 32, sizeof(*more));
		if (b->n)
			memcpy(more, b->nodes, b->n * sizeof(*more));
		b->nodes = more;
	}
	b->nodes[b->n++] = name;
}

static void add_set(struct have *h, struct have_block *b, const char *item)
{
	struct rk_nodeset set = { 0 };
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;

	if (*item && rk_nodeset_parse(item, NULL, NULL, h->arena, &set, &err))
		tell(h, b->line, rk_arena_printf(h->arena, "\"%s\": %s", item, err.message ? err.message : "no node list"));
	for (size_t i = 0; i < set.n; i++)
		add_node(h, b, set.names[i]);
}

/* One item; the pieces of its only bracket are taken one by one, because a nodeset sorts and position counts here. */
static void add_item(struct have *h, struct have_block *b, const char *item)
{
	const char *open = strchr(item, '['), *close = open ? strchr(open, ']') : NULL;

	if (!close || strchr(close, '[')) {
		add_set(h, b, item);
		return;
	}
	for (const char *at = open + 1; at <= close && at[-1] != ']';) {
		size_t n = strcspn(at, ",]");
		add_set(h, b, rk_arena_printf(h->arena, "%.*s[%.*s]%s", (int)(open - item), item, (int)n, at, close + 1));
		at += n + 1;
	}
}

/* Items of a node list at commas outside brackets, each expanded, in the order of the file. */
static void add_list(struct have *h, struct have_block *b, const char *list)
{
	for (const char *at = list; *at;) {
		size_t n = 0;
		for (int depth = 0; at[n] && (depth || at[n] != ','); n++)
			depth += at[n] == '[' ? 1 : at[n] == ']' ? -1 : 0;
		add_item(h, b, rk_arena_strndup(h->arena, at, n));
		at += n + (at[n] == ',');
	}
}

static void add_size(struct have *h, int line, const char *text)
{
	char *end;
	long size = strtol(text, &end, 10);

	h->sizes_line = line;
	if (end == text || size <= 0)
		tell(h, line, rk_arena_printf(h->arena, "block size \"%s\" is no size", text));
	*rk_vec_push(&h->sizes) = size;
}

/* Text behind KEY= up to a blank, or NULL; keys of Slurm do not mind case. */
static const char *value_of(struct have *h, const char *line, const char *key)
{
	size_t len = strlen(key);

	for (const char *at = line; *at; at += strcspn(at, " \t"), at += strspn(at, " \t"))
		if (strncasecmp(at, key, len) == 0 && at[len] == '=')
			return rk_arena_strndup(h->arena, at + len + 1, strcspn(at + len + 1, " \t"));
	return NULL;
}

static void read_conf_line(struct have *h, const char *line, int number)
{
	const char *name = value_of(h, line, "BlockName"), *nodes = value_of(h, line, "Nodes"), *sizes = value_of(h, line, "BlockSizes");

	if (name) {
		struct have_block *b = rk_vec_push(&h->blocks);
		*b = (struct have_block){ .name = name, .line = number };
		add_list(h, b, nodes ? nodes : "");
	} else if (sizes) {
		for (const char *at = sizes; *at; at += strcspn(at, ","), at += *at == ',')
			add_size(h, number, rk_arena_strndup(h->arena, at, strcspn(at, ",")));
	} else {
		tell(h, number, rk_arena_printf(h->arena, "is neither a block nor BlockSizes: %s", line));
	}
}

/* The block form only: what else a topology.yaml may hold belongs to other topologies and is left alone. */
static void read_yaml_line(struct have *h, const char *line, int number)
{
	bool item = line[0] == '-' && line[1] == ' ';
	const char *at = item ? line + 2 : line;
	at += strspn(at, " ");
	size_t key = strcspn(at, ":");
	char *value = rk_arena_strdup(h->arena, at[key] ? at + key + 1 + strspn(at + key + 1, " ") : "");
	size_t len = strlen(value);

	if (len > 1 && value[0] == '"' && value[len - 1] == '"') {
		value[len - 1] = '\0';
		value++;
	}
	if (key == 5 && strncmp(at, "block", 5) == 0 && *value)
		*rk_vec_push(&h->blocks) = (struct have_block){ .name = value, .line = number };
	else if (key == 5 && strncmp(at, "nodes", 5) == 0 && h->blocks.n)
		add_list(h, &h->blocks.items[h->blocks.n - 1], value);
	else if (item && !at[key] && at[0] != '[')
		add_size(h, number, at);
}

static void read_lines(struct have *h, const char *text, bool yaml)
{
	int number = 0;

	for (const char *at = text; *at;) {
		size_t len = strcspn(at, "\n"), used = 0, from;
		number++;
		while (used < len && at[used] != '#')
			used++;
		from = strspn(at, " \t") < used ? strspn(at, " \t") : used;
		while (used > from && strchr(" \t\r", at[used - 1]))
			used--;
		char *line = rk_arena_strndup(h->arena, at + from, used - from);
		if (*line && strcmp(line, "---") != 0) {
			if (yaml)
				read_yaml_line(h, line, number);
			else
				read_conf_line(h, line, number);
		}
		at += len + (at[len] == '\n');
	}
}

/* ---- comparing ---------------------------------------------------------------------------------------------------------------------- */

static const struct have_block *find_block(const struct have *h, const char *name)
{
	for (size_t i = 0; i < h->blocks.n; i++)
		if (strcmp(h->blocks.items[i].name, name) == 0)
			return &h->blocks.items[i];
	return NULL;
}

static bool has_node(const char *const *nodes, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(nodes[i], name) == 0)
			return true;
	return false;
}

static void compare_block(struct have *h, const struct rk_export_block *want)
{
	const struct have_block *b = find_block(h, want->name);
	const char **names = rk_arena_array(h->arena, want->n + 1, sizeof(*names));
	bool missing = false;

	if (!b) {
		tell(h, 0, rk_arena_printf(h->arena, "block %s is missing", want->name));
		return;
	}
	for (size_t i = 0; i < want->n; i++) {
		names[i] = want->nodes[i].name;
		if (has_node(b->nodes, b->n, names[i]))
			continue;
		missing = true;
		tell(h, b->line, rk_arena_printf(h->arena, "block %s lacks node %s", want->name, names[i]));
	}
	for (size_t i = 0; i < b->n; i++)
		if (!has_node(names, want->n, b->nodes[i]))
			tell(h, b->line, rk_arena_printf(h->arena, "block %s has node %s, which is not there", want->name, b->nodes[i]));
	for (size_t i = 0; !missing && i < want->n && i < b->n; i++)
		if (strcmp(names[i], b->nodes[i]) != 0) {
			tell(h, b->line, rk_arena_printf(h->arena, "block %s has %s at position %zu, where %s belongs", want->name, b->nodes[i], i + 1, names[i]));
			return;
		}
}

static void compare_blocks(struct have *h, const struct rk_export *e)
{
	size_t at = 0;

	for (size_t i = 0; i < e->n; i++)
		compare_block(h, &e->blocks[i]);
	for (size_t i = 0; i < h->blocks.n; i++) {
		const struct have_block *b = &h->blocks.items[i];
		size_t place = 0;
		while (place < e->n && strcmp(e->blocks[place].name, b->name) != 0)
			place++;
		if (place == e->n)
			tell(h, b->line, rk_arena_printf(h->arena, "block %s is no rack of the export", b->name));
		else if (place < at)
			tell(h, b->line, rk_arena_printf(h->arena, "block %s stands behind a later one: order counts", b->name));
		else
			at = place;
	}
}

static void compare_sizes(struct have *h, const struct rk_export *e)
{
	bool same = h->sizes.n == n_sizes(e);
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	for (size_t i = 0; i < n_sizes(e); i++) {
		same = same && h->sizes.items[i] == (long)(e->base << i);
		rk_str_addf(&text, "%s%zu", i ? "," : "", e->base << i);
	}
	if (!same && e->n)
		tell(h, h->sizes_line, rk_arena_printf(h->arena, "block sizes are not %s", rk_str_text(&text)));
}

static int by_line(const void *a, const void *b)
{
	const struct rk_export_diff *x = a, *y = b;

	return x->line - y->line;
}

int rk_export_check_slurm(const struct rk_export *e, const char *name, const char *text, bool yaml, struct rk_arena *arena, struct rk_export_diff **ret,
			  size_t *ret_n, struct rk_err *err)
{
	struct have h = { .arena = arena };

	read_lines(&h, text, yaml);
	bool empty = !h.blocks.n && e->n;
	if (!empty) {
		compare_blocks(&h, e);
		compare_sizes(&h, e);
	}
	*ret = rk_arena_array(arena, h.diffs.n + 1, sizeof(**ret));
	*ret_n = h.diffs.n;
	if (h.diffs.n) {
		rk_sort(h.diffs.items, h.diffs.n, sizeof(*h.diffs.items), by_line);
		memcpy(*ret, h.diffs.items, h.diffs.n * sizeof(**ret));
	}
	free(h.blocks.items);
	free(h.sizes.items);
	free(h.diffs.items);
	return empty ? rk_err_set(err, RK_INVALID, "%s holds no block of a %s", name, yaml ? "topology.yaml" : "topology.conf") : 0;
}
