#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli/app.h"
#include "inventory/base/str.h"

#define FLAG(field) .kind = RK_GLOBAL_FLAG, .at = offsetof(struct rk_globals, field)
#define TEXT(field) .kind = RK_GLOBAL_TEXT, .at = offsetof(struct rk_globals, field)
#define COUNT(field) .kind = RK_GLOBAL_COUNT, .at = offsetof(struct rk_globals, field)
#define WHOLE .process_only = true
#define HERE .here_only = true

const struct rk_globaldef rk_global_options[] = {
	{ 's', "store", "URI", "sqlite:PATH or postgresql://...; else $RACKSH_STORE, else sqlite:$XDG_STATE_HOME/racksh/site.db", TEXT(store), WHOLE, HERE },
	{ 'o', "output", "FORMAT", "table (default), json, csv or lines", HERE },
	{ 'n', "dry-run", NULL, "print the plan, change nothing", FLAG(dry_run), HERE },
	{ 'y', "yes", NULL, "do not ask before a dangerous command", FLAG(yes), HERE },
	{ 0, "read-only", NULL, "only read; a changing command is an error", FLAG(read_only), WHOLE },
	{ 0, "twin-check", NULL, "try new OpenSM partitions files in a simulated fabric first", FLAG(twin_check), WHOLE },
	{ 0, "strict", NULL, "warnings count as unhealthy", FLAG(strict) },
	{ 'x', "except", "SEL", "leave these out of the selection", TEXT(except), HERE },
	{ 0, "sim", "SITE.json", "run against the digital twin of a site file", TEXT(sim), WHOLE },
	{ 0, "sim-state", "FILE", "with --sim: keep store and twin in FILE", TEXT(sim_state), WHOLE },
	{ 0, "sim-fault", "SPEC", "with --sim: let calls fail, hang, lie or lose the answer", TEXT(sim_fault), WHOLE },
	{ 0, "trace", "[FILE]", "show every libvirt XML, SSH command and REST call", TEXT(trace), WHOLE },
	{ 'j', "jobs", "N", "parallel work (default 64)", COUNT(jobs) },
	{ 0, "timeout", "SECONDS", "limit per remote command", COUNT(timeout_s) },
	{ 0, "wait", NULL, "wait until the wanted state was seen (default)", HERE },
	{ 0, "no-wait", NULL, "do not wait", FLAG(no_wait), HERE },
	{ 0, "no-color", NULL, "no colour", FLAG(no_color) },
	{ 'q', "quiet", NULL, "nothing on success", FLAG(quiet) },
	{ 'v', "verbose", NULL, "more columns, more words", FLAG(verbose) },
	{ 'c', "command", "COMMANDS", "run these commands (separated by ;)", TEXT(command), WHOLE, HERE },
	{ 'f', "file", "FILE", "run a batch file; - is standard input", TEXT(file), WHOLE, HERE },
	{ 'D', "define", "NAME=VALUE", "set a batch variable", WHOLE, HERE },
	{ 0, "keep-going", NULL, "in a batch: run on after an error", FLAG(keep_going), WHOLE, HERE },
	{ 0, "resume", NULL, "with -f: go on at the line that failed last time", FLAG(resume), WHOLE, HERE },
	{ 0, "version", NULL, "print the version", FLAG(version), WHOLE, HERE },
	{ 'h', "help", NULL, "print help", FLAG(help), HERE },
	{ 0, NULL, NULL, NULL },
};

const char *const *rk_globals_words(const struct rk_globals *globals, bool background, struct rk_arena *arena, size_t *ret_n)
{
	const char **words = rk_arena_array(arena, RK_ARRAY_SIZE(rk_global_options), sizeof(*words));
	size_t n = 0;

	for (const struct rk_globaldef *g = rk_global_options; g->name; g++) {
		const void *at = (const char *)globals + g->at;
		const char *text = g->kind == RK_GLOBAL_TEXT ? *(const char *const *)at : NULL;
		int count = g->kind == RK_GLOBAL_COUNT ? *(const int *)at : 0;
		if (g->here_only && (background || g->process_only))
			continue;
		if (g->kind == RK_GLOBAL_FLAG && *(const bool *)at)
			words[n++] = rk_arena_printf(arena, "--%s", g->name);
		else if (text)
			words[n++] = rk_arena_printf(arena, "--%s=%s", g->name, text);
		else if (count)
			words[n++] = rk_arena_printf(arena, "--%s=%d", g->name, count);
	}
	*ret_n = n;
	return words;
}

const struct rk_noun *rk_noun_find(const char *name)
{
	for (const struct rk_noun *const *n = rk_nouns; *n; n++)
		if (strcmp((*n)->name, name) == 0)
			return *n;
	for (const struct rk_noun *const *n = rk_shell_words; *n; n++)
		if (strcmp((*n)->name, name) == 0)
			return *n;
	return NULL;
}

bool rk_noun_known(const char *name)
{
	return rk_noun_find(name) != NULL;
}

struct parser {
	const char *const *words;
	size_t n, at;
	bool whole_line, only_words; /* only_words: behind "--" */
	struct rk_vars *vars;
	struct rk_arena *arena;
	struct rk_parsed *ret;
	const struct rk_noun *noun;
	size_t n_args;               /* positional values so far */
	size_t arg;                  /* row argument that takes the next value */
	struct rk_err *err;
};

static int bad_number(struct parser *p, const char *name, const char *value)
{
	return rk_err_set(p->err, RK_INVALID, "--%s takes a whole number above 0, not \"%s\"", name, value);
}

static int take_number(struct parser *p, const char *name, const char *value, int *ret)
{
	uint64_t v;

	if (!rk_parse_u64(value, &v) || !v || v > 1000000)
		return bad_number(p, name, value);
	*ret = (int)v;
	return 0;
}

static int take_format(struct parser *p, const char *value)
{
	static const char *const names[] = { "table", "json", "csv", "lines" };

	for (size_t i = 0; i < RK_ARRAY_SIZE(names); i++)
		if (strcmp(names[i], value) == 0) {
			p->ret->globals.format = (enum rk_format)i;
			return 0;
		}
	rk_err_set(p->err, RK_INVALID, "unknown output format \"%s\"", value);
	rk_err_hint(p->err, "one of table, json, csv, lines");
	return RK_INVALID;
}

static int take_define(struct parser *p, const char *value)
{
	const char *equal = strchr(value, '=');

	if (!equal || equal == value)
		return rk_err_set(p->err, RK_INVALID, "-D takes NAME=VALUE, not \"%s\"", value);
	rk_vars_set(p->vars, rk_arena_strndup(p->arena, value, (size_t)(equal - value)), equal + 1);
	return 0;
}

static int set_global(struct parser *p, const struct rk_globaldef *g, const char *value)
{
	struct rk_globals *globals = &p->ret->globals;
	void *at = (char *)globals + g->at;

	if (g->kind == RK_GLOBAL_FLAG)
		*(bool *)at = true;
	else if (g->kind == RK_GLOBAL_TEXT)
		*(const char **)at = value ? value : "";
	else if (g->kind == RK_GLOBAL_COUNT)
		return take_number(p, g->name, value, at);
	else if (strcmp(g->name, "wait") == 0)
		globals->no_wait = false;
	else
		return strcmp(g->name, "output") == 0 ? take_format(p, value) : take_define(p, value);
	return 0;
}

/* The value of an option: behind '=', or the next word. */
static int option_value(struct parser *p, const char *shown, const char *help, const char *equal, const char **ret)
{
	if (equal) {
		*ret = equal + 1;
		return 0;
	}
	if (p->at >= p->n) {
		rk_err_set(p->err, RK_INVALID, "%s needs a value", shown);
		rk_err_hint(p->err, "%s", help);
		return RK_INVALID;
	}
	*ret = p->words[p->at++];
	return 0;
}

static int unknown_option(struct parser *p, const char *word)
{
	const char *names[96];
	size_t n = 0;
	const struct rk_argdef *o = p->ret->command ? p->ret->command->options : NULL;

	for (; o && o->name && n < RK_ARRAY_SIZE(names); o++)
		names[n++] = o->name;
	for (const struct rk_globaldef *g = rk_global_options; g->name && n < RK_ARRAY_SIZE(names); g++)
		names[n++] = g->name;
	const char *near = rk_starts_with(word, "--") ? rk_near_name(word + 2, names, n) : NULL;
	rk_err_set(p->err, RK_INVALID, "unknown option \"%s\"", word);
	if (near)
		rk_err_hint(p->err, "did you mean --%s?", near);
	else if (p->ret->command)
		rk_err_hint(p->err, "racksh help %s%s%s", p->ret->command->noun, p->ret->command->verb ? " " : "",
			    p->ret->command->verb ? p->ret->command->verb : "");
	return RK_INVALID;
}

static bool enum_has(const char *values, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = values; at && *at;) {
		size_t n = strcspn(at, "|");
		if (n == len && strncmp(at, word, n) == 0)
			return true;
		at += n + (at[n] == '|');
	}
	return false;
}

static int check_number(struct parser *p, const char *shown, const char *value)
{
	enum { NUMBER_MAX = 1000000000 };
	bool digits = *value && !value[strspn(value, "0123456789")];
	uint64_t v;

	if (!digits)
		return rk_err_set(p->err, RK_INVALID, "%s takes a whole number, not \"%s\"", shown, value);
	if (!rk_parse_u64(value, &v) || v > NUMBER_MAX)
		return rk_err_set(p->err, RK_INVALID, "%s is %d at most, not \"%s\"", shown, NUMBER_MAX, value);
	return 0;
}

/* shown: the name as it is written on a line. */
static int check_value(struct parser *p, const struct rk_argdef *def, const char *shown, const char *value)
{
	if (def->type == RK_ARG_NUMBER || def->type == RK_ARG_OP)
		return check_number(p, shown, value);
	if (def->type == RK_ARG_ENUM && !enum_has(def->values, value)) {
		rk_err_set(p->err, RK_INVALID, "\"%s\" is no %s", value, def->name);
		rk_err_hint(p->err, strchr(def->values, '|') ? "one of %s" : "the word \"%s\" comes before it", def->values);
		return RK_INVALID;
	}
	return 0;
}

static int take_own(struct parser *p, size_t i, const char *equal)
{
	const struct rk_argdef *o = &p->ret->command->options[i];
	const char *value = "", *shown = rk_arena_printf(p->arena, "--%s", o->name);
	int rc = 0;

	if (o->type != RK_ARG_NONE)
		rc = option_value(p, shown, o->help, equal, &value);
	else if (equal)
		rc = rk_err_set(p->err, RK_INVALID, "%s takes no value", shown);
	if (!rc)
		rc = check_value(p, o, shown, value);
	p->ret->option_values[i] = value;
	return rc;
}

/* An option of the row; RK_NOT_FOUND when the row has none of that name. */
static int own_option(struct parser *p, const char *name, size_t len, const char *equal)
{
	const struct rk_argdef *o = p->ret->command ? p->ret->command->options : NULL;

	for (size_t i = 0; o && o[i].name; i++)
		if (strlen(o[i].name) == len && strncmp(o[i].name, name, len) == 0)
			return take_own(p, i, equal);
	return RK_NOT_FOUND;
}

/* The same by letter. */
static int own_letter(struct parser *p, char letter, const char *equal, bool *ret_value)
{
	const struct rk_argdef *o = p->ret->command ? p->ret->command->options : NULL;

	for (size_t i = 0; o && o[i].name; i++)
		if (o[i].letter == letter) {
			*ret_value = o[i].type != RK_ARG_NONE;
			return take_own(p, i, *ret_value ? equal : NULL);
		}
	return RK_NOT_FOUND;
}

static int global_option(struct parser *p, const struct rk_globaldef *g, const char *word, const char *equal)
{
	const char *value = NULL;
	int rc = 0;

	if (g->process_only && !p->whole_line)
		return rk_err_set(p->err, RK_INVALID, "--%s belongs on racksh's own command line", g->name);
	if (g->value && g->value[0] == '[')
		value = equal ? equal + 1 : NULL;
	else if (g->value)
		rc = option_value(p, word, g->help, equal, &value);
	else if (equal)
		rc = rk_err_set(p->err, RK_INVALID, "--%s takes no value", g->name);
	return rc ? rc : set_global(p, g, value);
}

static int long_option(struct parser *p, const char *word)
{
	const char *name = word + 2, *equal = strchr(name, '=');
	size_t len = equal ? (size_t)(equal - name) : strlen(name);
	int rc = own_option(p, name, len, equal);

	if (rc != RK_NOT_FOUND)
		return rc;
	for (const struct rk_globaldef *g = rk_global_options; g->name; g++)
		if (strlen(g->name) == len && strncmp(g->name, name, len) == 0)
			return global_option(p, g, word, equal);
	return unknown_option(p, word);
}

static int short_options(struct parser *p, const char *word)
{
	for (const char *c = word + 1; *c; c++) {
		const struct rk_globaldef *g = rk_global_options;
		/* -ojson: what follows a letter that takes a value is the value. */
		char *rest = c[1] ? rk_arena_printf(p->arena, "=%s", c + 1) : NULL;
		bool took = false;
		int rc = own_letter(p, *c, rest, &took);
		if (rc == RK_NOT_FOUND) {
			while (g->name && g->letter != *c)
				g++;
			if (!g->name)
				return unknown_option(p, word);
			took = g->value != NULL;
			rc = global_option(p, g, rk_arena_printf(p->arena, "-%c", *c), took ? rest : NULL);
		}
		if (rc || (took && rest))
			return rc;
	}
	return 0;
}

static int unknown_word(struct parser *p, const char *what, const char *word, const char *const *names, size_t n)
{
	struct rk_str all RK_CLEANUP_STR = RK_STR_INIT;
	const char *near = rk_near_name(word, names, n);

	for (size_t i = 0; i < n; i++)
		rk_str_addf(&all, "%s%s", i ? ", " : "", names[i]);
	rk_err_set(p->err, RK_INVALID, "unknown %s \"%s\"", what, word);
	if (near)
		rk_err_hint(p->err, "did you mean \"%s\"?", near);
	else if (!p->noun) /* too many to list */
		rk_err_hint(p->err, "racksh help lists the commands");
	else
		rk_err_hint(p->err, "one of %s", rk_str_text(&all));
	return RK_INVALID;
}

/* "delete" alone, or in front of its noun. False: no noun has such a verb. */
static bool verb_first(struct parser *p, const char *word)
{
	enum { SHOWN = 4 };
	struct rk_str all RK_CLEANUP_STR = RK_STR_INIT;
	size_t n = 0;

	for (const struct rk_noun *const *noun = rk_nouns; *noun; noun++)
		for (size_t i = 0; i < (*noun)->n; i++)
			if (rk_streq((*noun)->commands[i].verb, word) && n++ < SHOWN)
				rk_str_addf(&all, "%s\"%s %s\"", n > 1 ? ", " : "", (*noun)->name, word);
	if (!n)
		return false;
	rk_err_set(p->err, RK_INVALID, "unknown command \"%s\"", word);
	rk_err_hint(p->err, "the noun comes first: %s%s", rk_str_text(&all), n > SHOWN ? ", ..." : "");
	return true;
}

static int take_noun(struct parser *p, const char *word)
{
	const char *names[96];
	size_t n = 0;

	p->noun = rk_noun_find(word);
	if (p->noun) {
		p->ret->noun = p->noun->name;
		if (p->noun->n == 1 && !p->noun->commands[0].verb)
			p->ret->command = &p->noun->commands[0];
		return 0;
	}
	if (verb_first(p, word))
		return RK_INVALID;
	for (const struct rk_globaldef *g = rk_global_options; g->name; g++)
		if (strcmp(g->name, word) == 0) {
			rk_err_set(p->err, RK_INVALID, "unknown command \"%s\"", word);
			rk_err_hint(p->err, "did you mean --%s?", word);
			return RK_INVALID;
		}
	for (const struct rk_noun *const *noun = rk_nouns; *noun && n < RK_ARRAY_SIZE(names); noun++)
		names[n++] = (*noun)->name;
	for (const struct rk_noun *const *noun = rk_shell_words; *noun && n < RK_ARRAY_SIZE(names); noun++)
		names[n++] = (*noun)->name;
	return unknown_word(p, "command", word, names, n);
}

static int take_verb(struct parser *p, const char *word)
{
	const char *names[32];
	size_t n = 0;

	for (size_t i = 0; i < p->noun->n && n < RK_ARRAY_SIZE(names); i++) {
		const struct rk_command *c = &p->noun->commands[i];
		if (c->verb && strcmp(c->verb, word) == 0) {
			p->ret->command = c;
			return 0;
		}
		if (c->verb)
			names[n++] = c->verb;
	}
	return unknown_word(p, rk_arena_printf(p->arena, "verb of %s", p->noun->name), word, names, n);
}

static void begin_values(struct parser *p)
{
	size_t n = 0;

	for (const struct rk_argdef *o = p->ret->command->options; o && o->name; o++)
		n++;
	if (!p->ret->option_values)
		p->ret->option_values = rk_arena_array(p->arena, n + 1, sizeof(char *));
}

static int take_value(struct parser *p, const char *word)
{
	const struct rk_argdef *a = p->ret->command->args;

	if (!a || !a[p->arg].name)
		return rk_err_set(p->err, RK_INVALID, "\"%s\" is one word too many", word);
	const char ***list = &p->ret->values[p->arg];
	size_t n = 0;
	while (*list && (*list)[n])
		n++;
	if (!*list)
		*list = rk_arena_array(p->arena, p->n + 2, sizeof(char *));
	(*list)[n] = word;
	int rc = check_value(p, &a[p->arg], a[p->arg].name, word);
	if (a[p->arg].type == RK_ARG_COMMAND)
		p->only_words = true;
	if (!a[p->arg].repeated && a[p->arg].type != RK_ARG_COMMAND)
		p->arg++;
	return rc;
}

static int take_word(struct parser *p, const char *word)
{
	int rc = 0;

	if (!p->noun)
		rc = take_noun(p, word);
	else if (!p->ret->command)
		rc = take_verb(p, word);
	else
		return take_value(p, word);
	if (!rc && p->ret->command)
		begin_values(p);
	return rc;
}

static int missing(struct parser *p, const char *dashes, const struct rk_argdef *what)
{
	struct rk_str use RK_CLEANUP_STR = RK_STR_INIT;

	rk_synopsis(p->ret->command, &use);
	rk_err_set(p->err, RK_INVALID, "%s%s is missing: %s", dashes, what->name, what->help);
	rk_err_hint(p->err, "racksh %s", rk_str_text(&use));
	return RK_INVALID;
}

static int check_complete(struct parser *p)
{
	const struct rk_command *c = p->ret->command;

	if (p->ret->globals.help || p->ret->globals.version || !p->noun)
		return 0;
	if (!c) {
		struct rk_str all RK_CLEANUP_STR = RK_STR_INIT;
		for (size_t i = 0; i < p->noun->n; i++)
			rk_str_addf(&all, "%s%s", i ? ", " : "", p->noun->commands[i].verb);
		rk_err_set(p->err, RK_INVALID, "\"%s\" needs a verb", p->noun->name);
		if (p->noun->n == 1)
			rk_err_hint(p->err, "racksh %s %s", p->noun->name, rk_str_text(&all));
		else
			rk_err_hint(p->err, "one of %s", rk_str_text(&all));
		return RK_INVALID;
	}
	for (size_t i = 0; c->args && c->args[i].name; i++)
		if (c->args[i].required && !p->ret->values[i])
			return missing(p, "", &c->args[i]);
	for (size_t i = 0; c->options && c->options[i].name; i++)
		if (c->options[i].required && !p->ret->option_values[i])
			return missing(p, "--", &c->options[i]);
	if (p->ret->globals.except && !(c->flags & RK_CMD_SELECTS))
		return rk_err_set(p->err, RK_INVALID, "\"%s%s%s\" takes no selection, so -x means nothing", c->noun, c->verb ? " " : "",
				  c->verb ? c->verb : "");
	return c->check ? c->check(p->ret, p->err) : 0;
}

int rk_parse(const char *const *words, size_t n, const struct rk_globals *defaults, bool whole_line, struct rk_vars *vars, struct rk_arena *arena,
	     struct rk_parsed *ret, struct rk_err *err)
{
	struct parser p = { .words = words, .n = n, .whole_line = whole_line, .vars = vars, .arena = arena, .ret = ret, .err = err };
	int rc = 0;

	*ret = (struct rk_parsed){ .globals = *defaults, .words = words, .n_words = n };
	while (!rc && p.at < n) {
		const char *word = words[p.at++];
		if (p.only_words || word[0] != '-' || !word[1])
			rc = take_word(&p, word);
		else if (strcmp(word, "--") == 0)
			p.only_words = true;
		else if (word[1] == '-')
			rc = long_option(&p, word);
		else
			rc = short_options(&p, word);
	}
	return rc ? rc : check_complete(&p);
}

const char *const *rk_parsed_command(const struct rk_parsed *parsed, size_t *ret_n)
{
	const struct rk_argdef *a = parsed->command->args;

	*ret_n = 0;
	for (size_t i = 0; a && a[i].name; i++) {
		const char **list = parsed->values[i];
		if (a[i].type != RK_ARG_COMMAND || !list)
			continue;
		while (list[*ret_n])
			++*ret_n;
		return list;
	}
	return NULL;
}

const char *rk_call_arg(const struct rk_call *call, const char *name)
{
	size_t n;
	const char *const *list = rk_call_args(call, name, &n);

	return n ? list[0] : NULL;
}

const char *const *rk_call_args(const struct rk_call *call, const char *name, size_t *ret_n)
{
	const struct rk_argdef *a = call->command->args, *o = call->command->options;

	*ret_n = 0;
	for (size_t i = 0; a && a[i].name; i++) {
		const char **list = call->parsed->values[i];
		if (strcmp(a[i].name, name) != 0 || !list)
			continue;
		while (list[*ret_n])
			++*ret_n;
		return list;
	}
	for (size_t i = 0; o && o[i].name; i++)
		if (strcmp(o[i].name, name) == 0 && call->parsed->option_values[i]) {
			*ret_n = 1;
			return &call->parsed->option_values[i];
		}
	return NULL;
}

bool rk_call_flag(const struct rk_call *call, const char *name)
{
	return rk_call_arg(call, name) != NULL;
}
