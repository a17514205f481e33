/* Command lines as words: quotes, escapes, comments, variables, and where each line came from. */
#pragma once
#include "inventory/base/map.h"
#include "inventory/base/mem.h"
#include "inventory/base/err.h"

struct rk_vars {             /* batch variables: set NAME value, -D NAME=value */
	struct rk_map *names;    /* name -> index into values */
	const char **values;     /* owned strings */
	size_t n, cap;
};
void rk_vars_set(struct rk_vars *vars, const char *name, const char *value);
const char *rk_vars_get(const struct rk_vars *vars, const char *name); /* NULL: not set */
void rk_vars_free(struct rk_vars *vars);

struct rk_line {
	int number;              /* of the first source line, from 1 */
	const char **words;      /* in the arena; ends with NULL */
	size_t n;
};
struct rk_lines {
	struct rk_line *items;
	size_t n, cap;
};
/* Splits text into commands at line ends and ';'. `set NAME value` lines define for later lines of the same text. Problems (open quotes,
 * unset variables) are all reported as details "<name>:<line>: ...", RK_INVALID. items is malloc'ed. */
int rk_split(const char *name, const char *text, struct rk_vars *vars, struct rk_arena *arena, struct rk_lines *ret, struct rk_err *err);
