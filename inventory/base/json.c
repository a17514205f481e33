#include "inventory/base/json.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/mem.h"

/* jansson validates (grammar, UTF-8, duplicates, depth) but keeps no positions and squeezes numbers into 64 signed bits or a double.
 * So the validated text is scanned a second time for places and for the number texts; that scan may trust the syntax. */

struct rk_json {
	struct rk_arena *arena;
	struct rk_jnode *root;
};

struct scanner {
	struct rk_arena *arena;
	const char *at, *end;
	uint32_t line, col;
};

/* Below what the writer takes, so that whatever was read can be written again inside something else. */
enum { DEPTH_MAX = 24 };

static void advance(struct scanner *s)
{
	if (*s->at == '\n') {
		s->line++;
		s->col = 1;
	} else if (((unsigned char)*s->at & 0xc0) != 0x80) {
		s->col++;
	}
	s->at++;
}

static void skip(struct scanner *s, const char *set)
{
	while (s->at < s->end && strchr(set, *s->at) && *s->at)
		advance(s);
}

static unsigned hex4(const char *p)
{
	char digits[5] = { p[0], p[1], p[2], p[3], 0 };

	return (unsigned)strtoul(digits, NULL, 16);
}

static size_t put_utf8(char *out, unsigned code)
{
	if (code < 0x80) {
		out[0] = (char)code;
		return 1;
	}
	if (code < 0x800) {
		out[0] = (char)(0xc0 | code >> 6);
		out[1] = (char)(0x80 | (code & 0x3f));
		return 2;
	}
	if (code < 0x10000) {
		out[0] = (char)(0xe0 | code >> 12);
		out[1] = (char)(0x80 | (code >> 6 & 0x3f));
		out[2] = (char)(0x80 | (code & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | code >> 18);
	out[1] = (char)(0x80 | (code >> 12 & 0x3f));
	out[2] = (char)(0x80 | (code >> 6 & 0x3f));
	out[3] = (char)(0x80 | (code & 0x3f));
	return 4;
}

/* Decodes one escape at p (after the backslash); returns bytes consumed. */
static size_t unescape(const char *p, char *out, size_t *ret_len)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";

	if (*p != 'u') {
		*out = to[strchr(from, *p) - from];
		*ret_len = 1;
		return 1;
	}
	unsigned code = hex4(p + 1);
	size_t used = 5;
	if (code >= 0xd800 && code < 0xdc00) {
		code = 0x10000 + ((code - 0xd800) << 10) + (hex4(p + 7) - 0xdc00);
		used = 11;
	}
	*ret_len = put_utf8(out, code);
	return used;
}

/* At the opening quote; leaves the scanner behind the closing one. */
static const char *scan_string(struct scanner *s)
{
	const char *close = s->at + 1;

	while (*close != '"')
		close += *close == '\\' ? 2 : 1;
	char *text = rk_arena_alloc(s->arena, (size_t)(close - s->at));
	char *out = text;
	for (const char *p = s->at + 1; p < close;) {
		size_t len = 1;
		if (*p == '\\') {
			p += 1 + unescape(p + 1, out, &len);
		} else {
			*out = *p++;
		}
		out += len;
	}
	while (s->at <= close)
		advance(s);
	return text;
}

static void scan_scalar(struct scanner *s, struct rk_jnode *node)
{
	if (*s->at == '"') {
		node->type = RK_JSTRING;
		node->text = scan_string(s);
		return;
	}
	const char *start = s->at;
	while (s->at < s->end && !strchr(" \t\r\n,]}", *s->at))
		advance(s);
	if (*start == 't' || *start == 'f') {
		node->type = RK_JBOOL;
		node->boolean = *start == 't';
	} else if (*start == 'n') {
		node->type = RK_JNULL;
	} else {
		node->type = RK_JNUMBER;
		node->text = rk_arena_strndup(s->arena, start, (size_t)(s->at - start));
	}
}

struct frame {
	struct rk_jnode *node;
	const struct rk_jnode **tail;
};

static const char blanks[] = " \t\r\n";

static void scan_key(struct scanner *s, struct rk_jnode *node)
{
	node->key_line = s->line;
	node->key_col = s->col;
	node->key = scan_string(s);
	skip(s, " \t\r\n:");
}

static struct rk_jnode *scan_node(struct scanner *s, bool with_key)
{
	struct rk_jnode *node = rk_arena_alloc(s->arena, sizeof(*node));

	if (with_key)
		scan_key(s, node);
	node->line = s->line;
	node->col = s->col;
	if (*s->at == '{' || *s->at == '[') {
		node->type = *s->at == '{' ? RK_JOBJECT : RK_JARRAY;
		advance(s);
	} else {
		scan_scalar(s, node);
	}
	return node;
}

/* Iterative, so that input depth never becomes stack depth. */
static int scan_tree(struct scanner *s, const char *name, struct rk_jnode **ret, struct rk_err *err)
{
	struct frame stack[DEPTH_MAX];
	int depth = 0;

	skip(s, blanks);
	struct rk_jnode *root = scan_node(s, false);
	*ret = root;
	if (root->type == RK_JOBJECT || root->type == RK_JARRAY)
		stack[depth++] = (struct frame){ root, &root->child };
	while (depth > 0) {
		struct frame *f = &stack[depth - 1];
		skip(s, " \t\r\n,");
		if (*s->at == '}' || *s->at == ']') {
			advance(s);
			depth--;
			continue;
		}
		struct rk_jnode *node = scan_node(s, f->node->type == RK_JOBJECT);
		*f->tail = node;
		f->tail = &node->next;
		f->node->n++;
		if (node->type != RK_JOBJECT && node->type != RK_JARRAY)
			continue;
		if (depth == DEPTH_MAX)
			return rk_err_set(err, RK_INVALID, "%s:%u:%u: nested deeper than %d levels", name, node->line, node->col, DEPTH_MAX);
		stack[depth++] = (struct frame){ node, &node->child };
	}
	return 0;
}

static int syntax_error(const char *name, const json_error_t *e, struct rk_err *err)
{
	struct rk_str safe RK_CLEANUP_STR = RK_STR_INIT;

	rk_str_add_escaped(&safe, e->text, strlen(e->text));
	return rk_err_set(err, RK_INVALID, "%s:%d:%d: not valid JSON: %s", name, e->line > 0 ? e->line : 1, e->column > 0 ? e->column : 1,
			  rk_str_text(&safe));
}

int rk_json_parse(const char *name, const char *text, size_t len, struct rk_json **ret, struct rk_err *err)
{
	static const char mark[] = "\xef\xbb\xbf";
	json_error_t e;
	size_t blank = 0;

	/* Some editors begin a file with a mark of UTF-8. */
	if (len >= strlen(mark) && memcmp(text, mark, strlen(mark)) == 0) {
		text += strlen(mark);
		len -= strlen(mark);
	}
	while (blank < len && memchr(blanks, text[blank], 4))
		blank++;
	if (blank == len)
		return rk_err_set(err, RK_INVALID, "%s:1:1: the file is empty", name);
	/* jansson takes a NUL behind a number for the end of it; nothing here may hold one. */
	const char *nul = memchr(text, '\0', len);
	if (nul)
		return rk_err_set(err, RK_INVALID, "%s: not valid JSON: a NUL byte at offset %zu", name, (size_t)(nul - text));
	json_t *valid = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &e);
	if (!valid)
		return syntax_error(name, &e, err);
	json_decref(valid);

	/* A NUL behind the text lets the scanner look ahead freely. */
	struct rk_json *json = rk_xcalloc(1, sizeof(*json));
	json->arena = rk_arena_new();
	char *copy = rk_xmalloc(len + 1);
	memcpy(copy, text, len);
	copy[len] = '\0';
	struct scanner s = { json->arena, copy, copy + len, 1, 1 };
	int rc = scan_tree(&s, name, &json->root, err);
	free(copy);
	if (rc) {
		rk_json_free(json);
		return rc;
	}
	*ret = json;
	return 0;
}

void rk_json_free(struct rk_json *json)
{
	if (!json)
		return;
	rk_arena_free(json->arena);
	free(json);
}

void rk_cleanup_json(struct rk_json **json)
{
	rk_json_free(*json);
}

const struct rk_jnode *rk_json_root(const struct rk_json *json)
{
	return json->root;
}

const struct rk_jnode *rk_jget(const struct rk_jnode *object, const char *key)
{
	if (!object || object->type != RK_JOBJECT)
		return NULL;
	RK_JEACH(it, object)
		if (strcmp(it->key, key) == 0)
			return it;
	return NULL;
}

const char *rk_jstr(const struct rk_jnode *node)
{
	return node && node->type == RK_JSTRING ? node->text : NULL;
}

bool rk_ju64(const struct rk_jnode *node, uint64_t *ret)
{
	return node && node->text && rk_parse_u64(node->text, ret);
}

bool rk_jdouble(const struct rk_jnode *node, double *ret)
{
	return node && node->text && rk_parse_double(node->text, ret);
}

bool rk_jbool(const struct rk_jnode *node, bool *ret)
{
	if (!node || node->type != RK_JBOOL)
		return false;
	*ret = node->boolean;
	return true;
}

const char *rk_jtype_name(enum rk_jtype type)
{
	static const char *const names[] = { "null", "a boolean", "a number", "a string", "an array", "an object" };

	return names[type];
}

void rk_jw_init(struct rk_jw *w, struct rk_str *out, int indent)
{
	memset(w, 0, sizeof(*w));
	w->out = out;
	w->indent = indent;
}

static void newline(struct rk_jw *w)
{
	if (!w->indent)
		return;
	rk_str_addc(w->out, '\n');
	for (int i = 0; i < w->depth * w->indent; i++)
		rk_str_addc(w->out, ' ');
}

/* Before a value or a key: the comma and the line break. */
static void before(struct rk_jw *w, bool is_key)
{
	if (w->after_key) {
		w->after_key = false;
		return;
	}
	if (w->depth == 0)
		return;
	if (w->object[w->depth] != is_key)
		abort();
	if (w->any[w->depth])
		rk_str_addc(w->out, ',');
	w->any[w->depth] = true;
	newline(w);
}

static void open_level(struct rk_jw *w, bool object)
{
	before(w, false);
	if (++w->depth >= (int)RK_ARRAY_SIZE(w->any))
		abort();
	w->any[w->depth] = false;
	w->object[w->depth] = object;
	rk_str_addc(w->out, object ? '{' : '[');
}

void rk_jw_object(struct rk_jw *w)
{
	open_level(w, true);
}

void rk_jw_array(struct rk_jw *w)
{
	open_level(w, false);
}

void rk_jw_end(struct rk_jw *w)
{
	bool any = w->any[w->depth], object = w->object[w->depth];

	w->depth--;
	if (any)
		newline(w);
	rk_str_addc(w->out, object ? '}' : ']');
}

static void add_quoted(struct rk_str *out, const char *s, size_t n)
{
	rk_str_addc(out, '"');
	while (n) {
		size_t good = rk_utf8_valid(s, n);
		for (size_t i = 0; i < good; i++) {
			unsigned char c = (unsigned char)s[i];
			if (c == '"' || c == '\\')
				rk_str_addf(out, "\\%c", c);
			else if (c == '\n')
				rk_str_add(out, "\\n");
			else if (c < 0x20 || c == 0x7f)
				rk_str_addf(out, "\\u%04x", c);
			else if (c == 0xc2 && (unsigned char)s[i + 1] < 0xa0) /* U+0080 to U+009F: terminals obey some of them */
				rk_str_addf(out, "\\u%04x", (unsigned char)s[++i]);
			else
				rk_str_addc(out, (char)c);
		}
		s += good;
		n -= good;
		if (n) {
			rk_str_add(out, "\xef\xbf\xbd");
			s++;
			n--;
		}
	}
	rk_str_addc(out, '"');
}

void rk_jw_key(struct rk_jw *w, const char *key)
{
	before(w, true);
	add_quoted(w->out, key, strlen(key));
	rk_str_add(w->out, w->indent ? ": " : ":");
	w->after_key = true;
}

void rk_jw_strn(struct rk_jw *w, const char *s, size_t n)
{
	before(w, false);
	add_quoted(w->out, s, n);
}

void rk_jw_str(struct rk_jw *w, const char *s)
{
	if (s)
		rk_jw_strn(w, s, strlen(s));
	else
		rk_jw_null(w);
}

void rk_jw_u64(struct rk_jw *w, uint64_t v)
{
	before(w, false);
	rk_str_addf(w->out, "%llu", (unsigned long long)v);
}

void rk_jw_i64(struct rk_jw *w, int64_t v)
{
	before(w, false);
	rk_str_addf(w->out, "%lld", (long long)v);
}

void rk_jw_double(struct rk_jw *w, double v)
{
	char text[40];

	if (!isfinite(v)) {
		rk_jw_null(w);
		return;
	}
	for (int digits = 6; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	before(w, false);
	rk_str_add(w->out, text);
}

void rk_jw_hex64(struct rk_jw *w, uint64_t v)
{
	if (!v) {
		rk_jw_null(w);
		return;
	}
	before(w, false);
	rk_str_addf(w->out, "\"0x%016llx\"", (unsigned long long)v);
}

void rk_jw_bool(struct rk_jw *w, bool v)
{
	before(w, false);
	rk_str_add(w->out, v ? "true" : "false");
}

void rk_jw_null(struct rk_jw *w)
{
	before(w, false);
	rk_str_add(w->out, "null");
}

static void write_scalar(struct rk_jw *w, const struct rk_jnode *node)
{
	if (node->type == RK_JSTRING) {
		rk_jw_str(w, node->text);
	} else if (node->type == RK_JBOOL) {
		rk_jw_bool(w, node->boolean);
	} else if (node->type == RK_JNULL) {
		rk_jw_null(w);
	} else {
		before(w, false);
		rk_str_add(w->out, node->text);
	}
}

void rk_jw_node(struct rk_jw *w, const struct rk_jnode *node)
{
	const struct rk_jnode *stack[RK_ARRAY_SIZE(w->any)];
	size_t depth = 0;
	bool inside = false;

	for (const struct rk_jnode *at = node; at;) {
		if (inside && at->key)
			rk_jw_key(w, at->key);
		if ((at->type == RK_JOBJECT || at->type == RK_JARRAY) && depth < RK_ARRAY_SIZE(stack)) {
			open_level(w, at->type == RK_JOBJECT);
			stack[depth++] = at;
			inside = true;
			if (at->child) {
				at = at->child;
				continue;
			}
			rk_jw_end(w);
			depth--;
		} else {
			write_scalar(w, at);
		}
		while (depth && !at->next) {
			rk_jw_end(w);
			at = stack[--depth];
		}
		at = depth ? at->next : NULL;
	}
}
