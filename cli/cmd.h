/* A command is one row of data. Parsing, help, TAB, completion scripts, the man sections and the JSON schema are made from it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inventory/base/err.h"
#include "provision/world.h"

/* Rows name what they have; the rest of a row is zero on purpose. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

/* What an argument or option value may be: decides checking, completion and the word in the synopsis. */
enum rk_argtype {
	RK_ARG_NONE,      /* option without a value */
	RK_ARG_TEXT, RK_ARG_NUMBER, RK_ARG_FILE, RK_ARG_FOLDER,
	RK_ARG_RACK, RK_ARG_TRAY, RK_ARG_VM, RK_ARG_CLUSTER, RK_ARG_TENANT, RK_ARG_SIZE, RK_ARG_IMAGE, RK_ARG_FABRIC, RK_ARG_PROFILE, RK_ARG_OP,
	RK_ARG_SEL_TRAYS, RK_ARG_SEL_VMS, RK_ARG_SEL_RACKS, /* selections (nodesets, groups) */
	RK_ARG_ENUM,      /* one of row->values */
	RK_ARG_COMMAND,   /* the rest of the line, after -- when it may begin with '-' */
};
struct rk_argdef {
	const char *name;         /* "SPEC"; options: "level" (--level) */
	enum rk_argtype type;
	bool required, repeated;  /* positional only */
	const char *help;         /* one line */
	const char *values;       /* RK_ARG_ENUM: "quick|standard|deep" */
	char letter;              /* options: 'n' for -n of this command alone; 0 = none */
};
enum rk_cmdflag {
	RK_CMD_CHANGES = 1,       /* refused under --read-only; takes --dry-run */
	RK_CMD_DANGEROUS = 2,     /* asks, or needs -y */
	RK_CMD_SELECTS = 4,       /* takes -x SEL */
	RK_CMD_NO_STORE = 8,      /* opens no store */
	RK_CMD_REMOTE = 16,       /* talks to hosts or managers */
	RK_CMD_RAW = 32,          /* prints its own text (export, render), never a table */
	RK_CMD_SHELL = 64,        /* a word of the shell: its result is none that `assert` looks at */
	RK_CMD_RECORDS = 128,     /* reads, and writes down in the store what it found: not under --read-only and --dry-run */
	RK_CMD_WRAPS = 256,       /* its RK_ARG_COMMAND is a racksh command */
	RK_CMD_OPEN = 1024,       /* what it lets people do on a VM nobody here knows: refused under --read-only, not done under --dry-run */
	RK_CMD_STAGES = 512,      /* may be one of several changes that `commit` makes one operation of (provision/bundle.h) */
};
/* Result columns: the table's header and the JSON keys; a schema is derived from them. */
enum rk_coltype { RK_COL_TEXT, RK_COL_NUMBER, RK_COL_REAL, RK_COL_BOOL, RK_COL_HEX64, RK_COL_PKEY, RK_COL_TIME, RK_COL_LIST, RK_COL_JSON };
struct rk_column {
	const char *key;          /* JSON key, snake_case; the table shows it in upper case with blanks */
	enum rk_coltype type;
	bool wide;                /* shown in tables only with -v */
};
struct rk_call;
struct rk_parsed;
struct rk_command {
	const char *noun, *verb;  /* verb NULL: the noun alone ("drift") */
	const char *summary;      /* one line, imperative, no full stop */
	const char *description;  /* paragraphs for help and man; plain text, blank line between */
	const struct rk_argdef *args, *options; /* end with name == NULL; may be NULL */
	unsigned flags;
	const struct rk_column *columns; /* end with key == NULL; may be NULL */
	bool list;                /* prints an array (a table with a header), else one object */
	const char *const *examples; /* each parses to this row and runs on the twin of the example site; end with NULL */
	int (*run)(struct rk_call *call, struct rk_err *err);
	int (*check)(const struct rk_parsed *parsed, struct rk_err *err); /* form, when the line is parsed; RK_INVALID. May be NULL */
	const char *changes_with; /* an option with which a reading command changes something ("fix"), or NULL */
	const char *writes;       /* the argument or option that names a file, folder or store to be written, or NULL: not done in a rehearsal */
};
/* One table per noun, cli/cmds/<noun>.c; cli/cmds/all.c lists them. */
struct rk_noun {
	const char *name, *summary, *description;
	const struct rk_command *commands; size_t n;
};
extern const struct rk_noun *const rk_nouns[]; /* ends with NULL */
/* Words of the shell: nouns with one row without a verb (cli/cmds/shellwords.c). */
extern const struct rk_noun *const rk_shell_words[]; /* ends with NULL */

/* What a handler gets. Arguments are checked for form; objects are looked up by the handler with rk_find_* / rk_select_*. */
struct rk_out;
struct rk_app;
struct rk_call {
	const struct rk_command *command;
	const struct rk_parsed *parsed;
	struct rk_app *app;       /* for help, shell words and batches only */
	struct rk_world *world;   /* store and snapshot are open unless RK_CMD_NO_STORE */
	struct rk_arena *arena;   /* dies with the command */
	struct rk_out *out;       /* rows go here (cli/out.h) */
	void (*emit)(struct rk_call *call); /* prints what was put out so far and starts anew: for commands that watch */
	const char *except;       /* -x, or NULL */
	const char *audited;      /* what the audit says instead of the command's name and arguments (in the arena), or NULL */
	int64_t op;               /* the operation that the command wrote down, for the audit; 0: none */
	bool dry_run;             /* the store keeps nothing (rk_store_try): a change may be made, and is refused as it would be */
	bool strict, yes, quiet, verbose, json;
};
/* Value of an argument or option by its row name; NULL when not given. Repeated: rk_call_args. */
const char *rk_call_arg(const struct rk_call *call, const char *name);
const char *const *rk_call_args(const struct rk_call *call, const char *name, size_t *ret_n);
bool rk_call_flag(const struct rk_call *call, const char *name);
int rk_screen_width(void); /* of the terminal that standard output is; 0: it is none, or nobody knows */
bool rk_call_colour(const struct rk_call *call); /* may this call's own text be coloured? */
