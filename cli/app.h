/* One racksh process: global options, the world, and running lines. */
#pragma once
#include "cli/cmd.h"
#include "cli/words.h"

enum rk_format { RK_FORMAT_TABLE, RK_FORMAT_JSON, RK_FORMAT_CSV, RK_FORMAT_LINES };

/* Values of the global options; per process, and again per line for those that may stand on a line. */
struct rk_globals {
	const char *store, *sim, *sim_state, *sim_fault, *except, *trace, *command, *file;
	enum rk_format format;
	bool dry_run, yes, read_only, strict, quiet, verbose, no_wait, no_color, keep_going, version, help, tracing;
	int jobs, timeout_s;
};

struct rk_app {
	struct rk_globals globals;
	struct rk_vars vars;
	struct rk_world world;
	struct rk_trace *trace;
	struct rk_clock *clock;
	struct rk_site *twin_site;       /* what the twin was made from; outlives it */
	bool opened, writable;
};

/* One command, parsed: a row and the values of its arguments. */
struct rk_parsed {
	const struct rk_command *command;
	const char *noun;                /* alone, for help */
	const char **values[16];         /* per argument of the row; NULL-terminated lists */
	const char **option_values;      /* per option of the row: "" for a flag that was given, NULL for absent */
	struct rk_globals globals;
};

/* words -> row and values; no object is looked up. defaults: what stood on the process' command line. whole_line: -s, --sim and their kin are
 * allowed (the process' own command line). Errors RK_INVALID with near names and what may come next. */
int rk_parse(const char *const *words, size_t n, const struct rk_globals *defaults, bool whole_line, struct rk_vars *vars, struct rk_arena *arena,
	     struct rk_parsed *ret, struct rk_err *err);
/* Runs a parsed command; prints result and errors. place: "FILE:LINE: " or "". Returns the class. */
int rk_app_run(struct rk_app *app, const struct rk_parsed *parsed, const char *place);
/* A batch: parsed whole first; stops at the first error unless keep_going. */
int rk_app_batch(struct rk_app *app, const char *name, const char *text);
/* The interactive shell (cli/shell.c). */
int rk_app_shell(struct rk_app *app);
/* Opens store (or twin) and snapshot when needed; write: for a changing command. */
int rk_app_world(struct rk_app *app, bool write, struct rk_err *err);
void rk_app_close(struct rk_app *app);
/* Prints an error to stderr as the format wants. */
void rk_print_error(const struct rk_err *err, const char *place, enum rk_format format);

/* Rows, for everything that is derived from them. */
const struct rk_noun *rk_noun_find(const char *name);
struct rk_globaldef {
	char letter;                     /* 0 = none */
	const char *name, *value, *help; /* value NULL: a flag */
	bool process_only;
};
extern const struct rk_globaldef rk_global_options[]; /* ends with name == NULL */
/* Help text into out: noun NULL = overview. RK_NOT_FOUND with a near name. */
int rk_help(const char *noun, const char *verb, struct rk_str *out, struct rk_err *err);
void rk_synopsis(const struct rk_command *command, struct rk_str *out);
/* The COMMANDS section of a noun's man page in mdoc. */
int rk_man_section(const char *noun, struct rk_str *out, struct rk_err *err);
