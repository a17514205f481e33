/* Command lines as words: quotes, escapes, comments, variables, aliases, included files, and where each line came from. */
#pragma once
#include <stdbool.h>

#include "inventory/base/err.h"
#include "inventory/base/map.h"
#include "inventory/base/mem.h"

struct rk_vars {             /* name -> text, in order of definition */
	struct rk_map *index;    /* name -> place in both arrays */
	char **names, **values;  /* owned */
	size_t n, cap;
	size_t n_fixed;          /* the first ones keep their values: what was given with -D wins over the batch */
};
void rk_vars_set(struct rk_vars *vars, const char *name, const char *value);
const char *rk_vars_get(const struct rk_vars *vars, const char *name); /* NULL: not set */
void rk_vars_free(struct rk_vars *vars);

/* What names mean while a text is split. */
struct rk_lexicon {
	struct rk_vars vars;     /* batch variables: set NAME value, -D NAME=value */
	struct rk_vars aliases;  /* alias NAME COMMAND: name -> command text */
	const char *scripts;     /* folder with user commands NAME.racksh, or NULL; borrowed */
	bool (*known)(const char *word); /* words that no user script may take; NULL: none */
	bool inert;              /* only look: define nothing, include nothing (completion) */
};

struct rk_line {
	const char *file;        /* name of the text it came from */
	int number;              /* of the first source line, from 1 */
	const char **words;      /* in the arena; ends with NULL */
	size_t n;
	const char *shell;       /* "!CMD": text for the system's shell; words are empty then */
	const char *filter;      /* behind "|": text for the system's shell, or NULL */
	const char *to;          /* behind ">" or ">>": file, or NULL */
	bool append;
	bool wrong;              /* a problem of this line was reported already */
};
struct rk_lines {
	struct rk_line *items;   /* malloc'ed */
	size_t n, cap;
};
/* Splits text into commands at line ends and ';'. `set NAME value` and `alias NAME COMMAND` define for later lines of the same text;
 * `source FILE` and user scripts are replaced by their lines, so that a whole batch is known before its first command runs. Problems (open
 * quotes, unset variables, files that cannot be read) are all reported as details "<name>:<line>: ...", RK_INVALID. */
int rk_split(const char *name, const char *text, struct rk_lexicon *lexicon, struct rk_arena *arena, struct rk_lines *ret, struct rk_err *err);
/* Does the text end inside quotes or behind a backslash, so that another line has to follow? */
bool rk_split_open(const char *text);
/* The word as the splitter would read it back: quoted when it must be. Appends. */
struct rk_str;
void rk_quote_word(const char *word, struct rk_str *out);
