/* JSON in and out. The only file that includes jansson is json.c.
 *
 * Reading: a document is a tree of nodes that know their line and column, so that every problem of a file can be reported with its
 * place. Nesting up to 24. Numbers keep their text: 64-bit identities never pass through a double. Duplicate keys are a syntax error.
 * Writing: a stream (struct rk_jw) into an rk_str; keys and strings are escaped, invalid UTF-8 becomes U+FFFD. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inventory/base/err.h"
#include "inventory/base/str.h"

enum rk_jtype { RK_JNULL, RK_JBOOL, RK_JNUMBER, RK_JSTRING, RK_JARRAY, RK_JOBJECT };

struct rk_jnode {
	enum rk_jtype type;
	const char *key;                   /* inside an object, else NULL */
	const char *text;                  /* string value (UTF-8, NUL free), or the number as written; else NULL */
	bool boolean;
	uint32_t line, col;                /* of the value, from 1; col counts characters (UTF-8 code points) */
	uint32_t key_line, key_col;        /* of the key */
	size_t n;                          /* children of an array or object */
	const struct rk_jnode *child, *next; /* children in file order */
};

struct rk_json; /* owns its nodes */
/* text need not be NUL terminated. Syntax errors: RK_INVALID "<name>:<line>:<col>: ...". name is borrowed for the call. */
int rk_json_parse(const char *name, const char *text, size_t len, struct rk_json **ret, struct rk_err *err);
void rk_json_free(struct rk_json *json);
void rk_cleanup_json(struct rk_json **json);
#define RK_CLEANUP_JSON __attribute__((cleanup(rk_cleanup_json)))
const struct rk_jnode *rk_json_root(const struct rk_json *json);

/* All take NULL as "absent". */
const struct rk_jnode *rk_jget(const struct rk_jnode *object, const char *key);
const char *rk_jstr(const struct rk_jnode *node);             /* string value, or NULL */
bool rk_ju64(const struct rk_jnode *node, uint64_t *ret);     /* integer number, or a string that is one (0x too) */
bool rk_jdouble(const struct rk_jnode *node, double *ret);    /* number, or a string that is one */
bool rk_jbool(const struct rk_jnode *node, bool *ret);
const char *rk_jtype_name(enum rk_jtype type);                /* "an object", "a string", ... */
#define RK_JEACH(it, node) for (const struct rk_jnode *it = (node) ? (node)->child : NULL; it; it = it->next)
/* Of an object only, so that each has a key. */
#define RK_JMEMBERS(it, node) for (const struct rk_jnode *it = (node) && (node)->type == RK_JOBJECT ? (node)->child : NULL; it; it = it->next)

/* Writer. Commas, colons and indentation are its business; nesting up to 32. A missing key inside an object is a bug (abort). */
struct rk_jw {
	struct rk_str *out; /* borrowed */
	int indent;         /* blanks per level; 0 = one line */
	int depth;
	bool any[32], object[32];
	bool after_key;
};
void rk_jw_init(struct rk_jw *w, struct rk_str *out, int indent);
void rk_jw_object(struct rk_jw *w);
void rk_jw_array(struct rk_jw *w);
void rk_jw_end(struct rk_jw *w);
void rk_jw_key(struct rk_jw *w, const char *key);
void rk_jw_str(struct rk_jw *w, const char *s);    /* NULL gives null */
void rk_jw_strn(struct rk_jw *w, const char *s, size_t n);
void rk_jw_u64(struct rk_jw *w, uint64_t v);
void rk_jw_i64(struct rk_jw *w, int64_t v);
void rk_jw_double(struct rk_jw *w, double v);      /* shortest form that reads back; not finite gives null */
void rk_jw_hex64(struct rk_jw *w, uint64_t v);     /* "0x%016x" as a string; 0 gives null (no identity known) */
void rk_jw_bool(struct rk_jw *w, bool v);
void rk_jw_null(struct rk_jw *w);
void rk_jw_node(struct rk_jw *w, const struct rk_jnode *node); /* copies a parsed value */
