/* One racksh process: global options, the world, and running lines. */
#pragma once
#include <stdint.h>

#include "cli/cmd.h"
#include "cli/out_impl.h"
#include "cli/progress.h"
#include "cli/words.h"

/* Values of the global options; per process, and again per line for those that may stand on a line. */
struct rk_globals {
	const char *store, *sim, *sim_state, *sim_fault, *except, *command, *file;
	const char *trace;               /* file; "": standard error */
	enum rk_format format;
	bool dry_run, yes, read_only, twin_check, strict, quiet, verbose, no_wait, no_color, keep_going, resume, version, help;
	int jobs, timeout_s;
};

/* `use NOUN NAME`: what later lines are about. Owned texts; NULL: nothing. */
struct rk_context {
	char *noun, *name;
};

/* What only an interactive shell can answer; NULL functions elsewhere. */
struct rk_console {
	/* Entry i of the history, oldest first; false: no such. at_ms 0 = unknown. */
	bool (*history)(size_t i, const char **ret_text, long long *ret_at_ms);
};

/* Changing commands between `begin` and `commit` (cli/stage.h). */
struct rk_stage {
	bool open;
	struct rk_staged {
		const struct rk_command *command;
		char *text;              /* the command line, owned */
	} *items;
	size_t n, cap;
};

struct rk_app {
	struct rk_globals globals;
	struct rk_lexicon lexicon;
	struct rk_context context;
	struct rk_world world;
	struct rk_trace *trace;
	struct rk_clock *clock;
	struct rk_site *twin_site;       /* what the twin was made from; outlives it */
	bool opened, writable;
	bool scratch;                    /* the world is an empty one, for one dry run */
	bool importing;                  /* the command that runs takes a site file over: nobody needs to be told that it changed */
	struct rk_out last;              /* result of the last command that had one: `assert` */
	bool have_last;
	struct rk_stage stage;
	char *on_error;                  /* command text to run after a failed line; owned, NULL: none */
	struct rk_console console;
	struct rk_progress progress;
	bool quit;
	bool rehearsal;                  /* a twin for one purpose: leaves no notes for --resume */
	bool sealed;                     /* of a batch only racksh's own commands run: no other programs, no output into files */
};

/* One command, parsed: a row and the values of its arguments. */
struct rk_parsed {
	const struct rk_command *command;
	const char *noun;                /* alone, for help */
	const char **values[16];         /* per argument of the row; NULL-terminated lists */
	const char **option_values;      /* per option of the row: "" for a flag that was given, NULL for absent */
	struct rk_globals globals;
	const char *const *words;        /* as given; borrowed */
	size_t n_words;
};

/* words -> row and values; no object is looked up. defaults: what stood on the process' command line. whole_line: -s, --sim and their kin are
 * allowed (the process' own command line). Errors RK_INVALID with near names and what may come next. */
int rk_parse(const char *const *words, size_t n, const struct rk_globals *defaults, bool whole_line, struct rk_vars *vars, struct rk_arena *arena,
	     struct rk_parsed *ret, struct rk_err *err);
/* The words of the racksh command in a RK_CMD_WRAPS line; n 0: none. */
const char *const *rk_parsed_command(const struct rk_parsed *parsed, size_t *ret_n);
/* Runs a parsed command; prints result and errors. place: "FILE:LINE: " or "". Returns the class. */
int rk_app_run(struct rk_app *app, const struct rk_parsed *parsed, const char *place);
/* The result on standard output, through the pager on a terminal (cli/app_print.c). */
/* RK_FAILED: not all of it could be written. A reader that has seen enough (`| head`) is no error. */
int rk_app_print(const struct rk_app *app, const struct rk_out *out, const struct rk_parsed *parsed, struct rk_err *err);
int rk_app_flush(struct rk_err *err);
bool rk_app_reader_left(void); /* standard output is a pipe that nobody reads any more */
/* After a command of its own that changed something in a twin that nobody keeps: says so on stderr. */
void rk_app_tell_twin(const struct rk_parsed *parsed);
/* Words of one command in the present context: parsed and run. defaults: what stood on the line around it. */
int rk_app_words(struct rk_app *app, const char *const *words, size_t n, const struct rk_globals *defaults, const char *place);
/* A batch: parsed whole first; stops at the first error unless keep_going. shown: errors tell place (files), not for an interactive line. */
int rk_app_batch(struct rk_app *app, const char *name, const char *text, bool shown);
/* The same from a file ("-": standard input), with --resume. */
int rk_app_batch_file(struct rk_app *app, const char *path);
/* What is left of a command that writes a file (its row says which argument) in a sealed batch: it is told what is not done. NULL: nothing is. */
const struct rk_parsed *rk_app_sealed(const struct rk_app *app, const struct rk_parsed *parsed, const char *place, struct rk_arena *arena);
/* The interactive shell (cli/shell.c). */
int rk_app_shell(struct rk_app *app);
/* Opens store (or twin) and snapshot when needed; write: for a changing command. */
int rk_app_world(struct rk_app *app, bool write, struct rk_err *err);
/* Another handle on a store, whatever its schema; uri NULL: the one that the process works on (not under --sim). The caller closes it. */
int rk_app_store(struct rk_app *app, const char *uri, bool write, struct rk_store **ret, struct rk_err *err);
/* Is that store sound (rk_store_examine)? *ret_uri: for messages; in the arena. */
int rk_app_examine(struct rk_app *app, struct rk_arena *arena, const char **ret_uri, struct rk_err *err);
/* Sets in app->world what every command needs beside the store. */
void rk_app_prepare(struct rk_app *app);
void rk_app_close(struct rk_app *app);
/* Ctrl-C was pressed, or SIGTERM or SIGHUP came, and nobody has taken it yet. */
bool rk_app_interrupted(void);
/* It was SIGTERM or SIGHUP: nothing more is begun. */
bool rk_app_ending(void);
/* Ctrl-C was meant for what has just ended: what comes now runs. */
void rk_app_take_interrupt(void);
/* Writes into store that the call was made and what came of it, unless it changes nothing. Of the world's store nobody else has to. */
void rk_call_audit(const struct rk_call *call, struct rk_store *store, int rc);
/* Starts `racksh op resume OP --watch` on the same store, detached from terminal and session (cli/detach.c). ctx: the app. */
int rk_app_detach(void *ctx, int64_t op, struct rk_err *err);
/* That process' words, with every global option that says how the operation is carried out; ends with NULL. The array is in the arena. */
const char *const *rk_app_watcher_words(const struct rk_app *app, int64_t op, struct rk_arena *arena);
void rk_app_catch_interrupts(void); /* from now on; those that came are taken */
/* Prints an error to stderr as the format wants. */
void rk_print_error(const struct rk_err *err, const char *place, enum rk_format format);
/* Is the command refused, or does somebody have to say yes first? what: shown in the question. */
int rk_app_confirm(const struct rk_app *app, const char *what, bool yes, struct rk_err *err);
/* "cluster delete a (4 VMs, 16 GPUs of contoso)": what a dangerous command is about (cli/subject.c). RK_NOT_FOUND: something that it names is not there. */
int rk_call_subject(struct rk_call *call, struct rk_str *out, struct rk_err *err);
/* A command's work alone, on the world as it is open: no question, no audit, nothing printed, the result into out. */
int rk_app_work(struct rk_app *app, const struct rk_parsed *parsed, struct rk_out *out, struct rk_err *err);
/* Folder for racksh's own files of that user: $XDG_STATE_HOME/racksh, $XDG_CONFIG_HOME/racksh. malloc'ed. */
char *rk_state_folder(void);
char *rk_config_folder(void);

/* ---- context (cli/context.c) ---- */
/* Sets the context (noun NULL: none). */
void rk_context_set(struct rk_context *context, const char *noun, const char *name);
/* The kind of object a noun names; RK_ARG_NONE: it has none to use. */
enum rk_argtype rk_context_type(const char *noun);
/* Words with what the context adds; in the arena. Without a context, or when it adds nothing, the same words. */
const char *const *rk_context_expand(const struct rk_context *context, const char *const *words, size_t n, struct rk_arena *arena, size_t *ret_n);

/* ---- completion (cli/complete.c) ---- */
struct rk_candidates {
	struct rk_candidate {
		char *word, *help;           /* owned; help may be NULL */
	} *items;
	size_t n, cap;
	bool files;                      /* file names may stand here, too */
	const struct rk_argdef *next;    /* the argument that is due, or NULL */
};
/* What may come behind the words of one command, beginning with prefix. site may be NULL: no names of objects. options_too: also where an
 * argument is due and nothing was typed yet. */
void rk_complete(const struct rk_lexicon *lexicon, const struct rk_context *context, const struct rk_site *site, const char *const *words, size_t n,
		 const char *prefix, bool options_too, struct rk_candidates *ret);
void rk_candidates_free(struct rk_candidates *candidates);

/* ---- other programs (cli/pipe.c) ---- */
struct rk_sink {
	int saved;                       /* the real standard output; -1: nothing was diverted */
	int pid;                         /* filter, or 0 */
};
/* Standard output goes to line->to or line->filter until rk_sink_close. Variables are in the filter's environment. */
int rk_sink_open(struct rk_sink *sink, const struct rk_line *line, const struct rk_vars *vars, struct rk_err *err);
void rk_sink_close(struct rk_sink *sink);
/* "!CMD": 0, or RK_FAILED with the status. */
int rk_system_shell(const char *text, const struct rk_vars *vars, struct rk_err *err);
/* Text to standard output, through $RACKSH_PAGER, $PAGER or less when it is a terminal and the text is longer. */
void rk_page(const char *text, size_t n, const char *pager);

/* ---- a twin of the site as it is (cli/twin.c) ---- */
/* Makes twin: an app of its own whose store and outside systems are a twin of what app sees now. Nothing of app is touched; the twin is
 * closed with rk_app_close before app is. */
int rk_app_twin(struct rk_app *app, struct rk_app *twin, struct rk_err *err);
/* The same of a site file's text. */
int rk_app_twin_file(struct rk_app *app, const char *name, const char *text, struct rk_app *twin, struct rk_err *err);
/* The lesson (cli/tutorial.c); pause: wait for ENTER before each command, on a terminal. */
int rk_tutorial(struct rk_app *app, bool pause, struct rk_err *err);
/* Rows plane, object, field, from, to for every value that differs between two snapshots. */
struct rk_out;
void rk_show_changes(struct rk_out *out, const struct rk_site *before, const struct rk_site *after);

/* Rows, for everything that is derived from them. */
const struct rk_noun *rk_noun_find(const char *name); /* of rk_nouns and rk_shell_words */
bool rk_noun_known(const char *name);
struct rk_globaldef {
	char letter;                     /* 0 = none */
	const char *name, *value, *help; /* value NULL: a flag; "[...]": may be left out */
	enum rk_globalkind { RK_GLOBAL_OWN, RK_GLOBAL_FLAG, RK_GLOBAL_TEXT, RK_GLOBAL_COUNT } kind; /* OWN: read by code of its own */
	size_t at;                       /* offset in struct rk_globals, unless OWN */
	bool process_only, here_only;    /* here_only: does not matter to a process that carries an operation on in the background */
};
extern const struct rk_globaldef rk_global_options[]; /* ends with name == NULL */
/* The options that say these values to another process, in the arena: to one that carries an operation on in the background, or to one that is
 * given a command in this one's place. The store is in neither. */
const char *const *rk_globals_words(const struct rk_globals *globals, bool background, struct rk_arena *arena, size_t *ret_n);
/* Help text into out: noun NULL = overview; width: of the screen that lines are folded for, 0 = not at all. RK_NOT_FOUND with a near name. */
int rk_help(const char *noun, const char *verb, int width, struct rk_str *out, struct rk_err *err);
void rk_synopsis(const struct rk_command *command, struct rk_str *out);
/* The COMMANDS section of a noun's man page in mdoc; "shell": all words of the shell. */
int rk_man_section(const char *noun, struct rk_str *out, struct rk_err *err);
