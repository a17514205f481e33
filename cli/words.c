#include "cli/words.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inventory/base/file.h"
#include "inventory/base/str.h"

enum { INCLUDES_MAX = 16, SCRIPT_MAX = 16 << 20 };

/* ---- variables -------------------------------------------------------------------------------------------------------------------- */

void rk_vars_set(struct rk_vars *vars, const char *name, const char *value)
{
	size_t at;

	if (!vars->index)
		vars->index = rk_map_new();
	if (rk_map_get(vars->index, name, &at)) {
		if (at < vars->n_fixed)
			return;
		char *fresh = rk_xstrdup(value);
		free(vars->values[at]);
		vars->values[at] = fresh;
		return;
	}
	if (vars->n == vars->cap) {
		vars->cap = vars->cap ? vars->cap * 2 : 8;
		vars->values = rk_xreallocarray(vars->values, vars->cap, sizeof(*vars->values));
		vars->names = rk_xreallocarray(vars->names, vars->cap, sizeof(*vars->names));
	}
	rk_map_add(vars->index, name, vars->n, NULL);
	vars->names[vars->n] = rk_xstrdup(name);
	vars->values[vars->n++] = rk_xstrdup(value);
}

const char *rk_vars_get(const struct rk_vars *vars, const char *name)
{
	size_t at;

	return vars->index && rk_map_get(vars->index, name, &at) ? vars->values[at] : NULL;
}

void rk_vars_free(struct rk_vars *vars)
{
	for (size_t i = 0; i < vars->n; i++) {
		free(vars->names[i]);
		free(vars->values[i]);
	}
	free(vars->names);
	free(vars->values);
	rk_map_free(vars->index);
	*vars = (struct rk_vars){ 0 };
}

void rk_quote_word(const char *word, struct rk_str *out)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./[]!-";

	if (*word && strspn(word, plain) == strlen(word)) {
		rk_str_add(out, word);
		return;
	}
	rk_str_addc(out, '"');
	for (const char *c = word; *c; c++) {
		if (strchr("\"\\$", *c))
			rk_str_addc(out, '\\');
		rk_str_addc(out, *c);
	}
	rk_str_addc(out, '"');
}

/* ---- splitting -------------------------------------------------------------------------------------------------------------------- */

struct splitter {
	const char *name, *at;
	struct rk_lexicon *lexicon;
	struct rk_arena *arena;
	struct rk_lines *lines;
	struct rk_err *err;
	int line, first, *problems;
	int depth;                   /* files and aliases we are inside */
	bool in_alias;               /* an alias may bear the name of the command it stands for: none is looked for inside one */
	const char *const *args;     /* $1, $2, ... of an included file */
	size_t n_args;
	struct {
		const char **items;
		size_t n, cap;
	} words;
	struct rk_line rest;         /* filter and file of the command being read */
};
static void split(struct splitter *s);

static void problem(struct splitter *s, const char *what, const char *detail)
{
	char *text RK_CLEANUP_FREE = rk_xasprintf("%s:%d: %s%s", s->name, s->line, what, detail);

	s->rest.wrong = true;
	if (!(*s->problems)++)
		rk_err_set(s->err, RK_INVALID, "%s", text);
	rk_err_detail(s->err, "%s", text);
}

static const char *value_of(const struct splitter *s, const char *name)
{
	uint64_t position;

	if (isdigit((unsigned char)*name) && rk_parse_u64(name, &position))
		return position >= 1 && position <= s->n_args ? s->args[position - 1] : NULL;
	return rk_vars_get(&s->lexicon->vars, name);
}

static void put_value(struct splitter *s, struct rk_str *word, const char *name, const char *otherwise)
{
	const char *value = value_of(s, name);

	if (!value)
		value = otherwise;
	if (value)
		rk_str_add(word, value);
	else
		problem(s, "variable is not set: $", name);
}

static size_t name_length(const char *at)
{
	size_t len = 0;

	while (isalnum((unsigned char)at[len]) || at[len] == '_')
		len++;
	return len;
}

/* At "${": ${NAME} or ${NAME-default}. */
static void braced(struct splitter *s, struct rk_str *word)
{
	const char *start = s->at + 2;
	size_t len = name_length(start), all = strcspn(start, "}\n");

	if (!len || start[all] != '}' || (len != all && start[len] != '-')) {
		problem(s, "expected ${NAME} or ${NAME-default}", "");
		s->at += 2;
		return;
	}
	char *name RK_CLEANUP_FREE = rk_xstrndup(start, len);
	char *otherwise RK_CLEANUP_FREE = len != all ? rk_xstrndup(start + len + 1, all - len - 1) : NULL;
	s->at = start + all + 1;
	put_value(s, word, name, otherwise);
}

/* At '$': appends the value. A '$' without a name is itself. */
static void variable(struct splitter *s, struct rk_str *word)
{
	size_t len = name_length(s->at + 1);

	if (s->at[1] == '{') {
		braced(s, word);
	} else if (!len) {
		rk_str_addc(word, *s->at++);
	} else {
		char *name RK_CLEANUP_FREE = rk_xstrndup(s->at + 1, len);
		s->at += len + 1;
		put_value(s, word, name, NULL);
	}
}

static void quoted(struct splitter *s, struct rk_str *word)
{
	char quote = *s->at++;

	while (*s->at && *s->at != quote) {
		if (*s->at == '\n')
			s->line++;
		if (quote == '"' && *s->at == '$') {
			variable(s, word);
			continue;
		}
		if (quote == '"' && *s->at == '\\' && s->at[1] && strchr("\"\\$", s->at[1]))
			s->at++;
		rk_str_addc(word, *s->at++);
	}
	if (*s->at)
		s->at++;
	else
		problem(s, "a quote that is not closed: ", quote == '"' ? "\"" : "'");
}

static bool continues(const char *at)
{
	return at[0] == '\\' && (at[1] == '\n' || (at[1] == '\r' && at[2] == '\n'));
}

static void skip_continuation(struct splitter *s)
{
	s->at += s->at[1] == '\r' ? 3 : 2;
	s->line++;
}

static const char *word(struct splitter *s)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	while (*s->at && !strchr(" \t\r\n;", *s->at)) {
		if (*s->at == '\'' || *s->at == '"') {
			quoted(s, &text);
		} else if (*s->at == '$') {
			variable(s, &text);
		} else if (continues(s->at)) {
			break;
		} else {
			if (*s->at == '\\' && s->at[1])
				s->at++;
			rk_str_addc(&text, *s->at++);
		}
	}
	return rk_arena_strdup(s->arena, rk_str_text(&text));
}

/* Text for the system's shell, as written: up to the end of the line or a ';' outside quotes. */
static const char *system_text(struct splitter *s)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	char quote = 0;

	while (*s->at && (quote || !strchr("\n;", *s->at))) {
		if (continues(s->at)) {
			skip_continuation(s);
			continue;
		}
		if (*s->at == '\n')
			s->line++;
		if (quote == *s->at)
			quote = 0;
		else if (!quote && strchr("'\"", *s->at))
			quote = *s->at;
		else if (*s->at == '\\' && quote != '\'' && s->at[1])
			rk_str_addc(&text, *s->at++);
		rk_str_addc(&text, *s->at++);
	}
	while (text.len && strchr(" \t\r", text.text[text.len - 1]))
		text.text[--text.len] = '\0';
	return rk_arena_strdup(s->arena, rk_str_text(&text));
}

static void skip_blanks(struct splitter *s)
{
	for (;;) {
		if (continues(s->at))
			skip_continuation(s);
		else if (*s->at && strchr(" \t\r", *s->at))
			s->at++;
		else
			return;
	}
}

static bool stands_alone(const char *at, size_t n)
{
	return !at[n] || strchr(" \t\r\n;", at[n]) != NULL;
}

/* '|', '>', '>>' and '&' act as words of their own only; behind "assert" they are comparison signs. False: an ordinary word. */
static bool operator_word(struct splitter *s)
{
	size_t n = strspn(s->at, "|>&");

	if (!n || n > 2 || (n == 2 && strncmp(s->at, ">>", 2) != 0) || !stands_alone(s->at, n) || !s->words.n || strcmp(s->words.items[0], "assert") == 0)
		return false;
	char sign = *s->at;
	s->at += n;
	skip_blanks(s);
	if (sign == '&') {
		problem(s, "nothing runs in the background: quote & to pass it on", "");
	} else if (sign == '|') {
		s->rest.filter = system_text(s);
		if (!*s->rest.filter)
			problem(s, "a command has to follow |", "");
	} else {
		s->rest.append = n == 2;
		s->rest.to = word(s);
		if (!*s->rest.to)
			problem(s, "a file has to follow >", "");
	}
	return true;
}

/* ---- commands --------------------------------------------------------------------------------------------------------------------- */

static void put_line(struct splitter *s, const char **words, size_t n)
{
	struct rk_line line = s->rest;

	line.file = s->name;
	line.number = s->first;
	line.words = words;
	line.n = n;
	*rk_vec_push(s->lines) = line;
}

/* Lines of another text, in place of the present command. */
static void splice(struct splitter *s, const char *name, const char *text, bool alias, const char *const *args, size_t n_args)
{
	struct splitter inner = { .name = name, .at = text, .lexicon = s->lexicon, .arena = s->arena, .lines = s->lines, .err = s->err, .line = 1,
				  .problems = s->problems, .depth = s->depth + 1, .args = args, .n_args = n_args, .in_alias = alias };

	if (inner.depth > INCLUDES_MAX) {
		problem(s, "files or aliases that include each other without end: ", name);
		return;
	}
	split(&inner);
}

static void include(struct splitter *s, const char *path, const char *const *args, size_t n_args)
{
	RK_CLEANUP_ERR struct rk_err err = RK_ERR_INIT;
	char *text RK_CLEANUP_FREE = NULL;
	size_t len;

	if (rk_file_read(path, SCRIPT_MAX, &text, &len, &err))
		problem(s, err.message, "");
	else if (strlen(text) != len)
		problem(s, "a NUL byte in ", path);
	else
		splice(s, rk_arena_strdup(s->arena, path), text, false, args, n_args);
}

/* The alias' command, and behind it what followed the alias. */
static void expand_alias(struct splitter *s, const char *text, const char **words, size_t n)
{
	size_t before = s->lines->n;
	struct rk_line rest = s->rest;

	splice(s, s->name, text, true, s->args, s->n_args);
	for (size_t i = before; i < s->lines->n; i++)
		s->lines->items[i].number = s->first;
	if (s->lines->n == before)
		return;
	struct rk_line *last = &s->lines->items[s->lines->n - 1];
	const char **all = rk_arena_array(s->arena, last->n + n, sizeof(*all));
	memcpy(all, last->words, last->n * sizeof(*all));
	memcpy(all + last->n, words + 1, (n - 1) * sizeof(*all));
	last->words = all;
	last->n += n - 1;
	if (rest.filter)
		last->filter = rest.filter;
	if (rest.to) {
		last->to = rest.to;
		last->append = rest.append;
	}
}

/* alias NAME COMMAND...: one word is command text, several are words. */
static void define_alias(struct splitter *s, const char **words, size_t n)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;

	if (n == 3)
		rk_str_add(&text, words[2]);
	for (size_t i = 2; n > 3 && i < n; i++) {
		rk_str_add(&text, i > 2 ? " " : "");
		rk_quote_word(words[i], &text);
	}
	rk_vars_set(&s->lexicon->aliases, words[1], rk_str_text(&text));
}

static const char *script_of(struct splitter *s, const char *name)
{
	const struct rk_lexicon *lex = s->lexicon;

	if (!lex->scripts || !rk_name_valid(name) || (lex->known && lex->known(name)))
		return NULL;
	const char *path = rk_arena_printf(s->arena, "%s/%s.racksh", lex->scripts, name);
	return access(path, R_OK) == 0 ? path : NULL;
}

static void finish_command(struct splitter *s, const char **words, size_t n)
{
	const char *alias = s->in_alias ? NULL : rk_vars_get(&s->lexicon->aliases, words[0]);
	const char *script = alias ? NULL : script_of(s, words[0]);

	if (alias) {
		expand_alias(s, alias, words, n);
		return;
	}
	if (strcmp(words[0], "source") == 0 && n > 1 && words[1][0] != '-') {
		include(s, words[1], words + 2, n - 2);
		return;
	}
	if (script) {
		include(s, script, words + 1, n - 1);
		return;
	}
	/* A definition counts for the lines after it, so it is taken while the text is read. */
	if (strcmp(words[0], "set") == 0 && n == 3)
		rk_vars_set(&s->lexicon->vars, words[1], words[2]);
	if (strcmp(words[0], "alias") == 0 && n > 2)
		define_alias(s, words, n);
	put_line(s, words, n);
}

static void end_command(struct splitter *s)
{
	size_t n = s->words.n;

	if (!n && !s->rest.shell) {
		s->rest = (struct rk_line){ 0 };
		return;
	}
	const char **words = rk_arena_array(s->arena, n + 1, sizeof(*words));
	if (n)
		memcpy(words, s->words.items, n * sizeof(*words));
	s->words.n = 0;
	if (s->lexicon->inert || !n)
		put_line(s, words, n);
	else
		finish_command(s, words, n);
	s->rest = (struct rk_line){ 0 };
}

/* Some editors put a mark of UTF-8 in front of a file: it says nothing that would not be so anyway. */
static void skip_mark(struct splitter *s)
{
	static const char mark[] = "\xef\xbb\xbf";

	if (rk_starts_with(s->at, mark))
		s->at += strlen(mark);
}

static void split(struct splitter *s)
{
	skip_mark(s);
	while (*s->at) {
		if (continues(s->at)) {
			skip_continuation(s);
		} else if (*s->at == '\n' || *s->at == ';') {
			end_command(s);
			s->line += *s->at++ == '\n';
		} else if (strchr(" \t\r", *s->at)) {
			s->at++;
		} else if (*s->at == '#') {
			s->at += strcspn(s->at, "\n");
		} else if (operator_word(s)) {
			continue;
		} else {
			if (!s->words.n)
				s->first = s->line;
			if (!s->words.n && *s->at == '!') {
				s->at++;
				skip_blanks(s);
				s->rest.shell = system_text(s);
				continue;
			}
			const char *text = word(s);
			*rk_vec_push(&s->words) = text;
		}
	}
	end_command(s);
	free(s->words.items);
}

int rk_split(const char *name, const char *text, struct rk_lexicon *lexicon, struct rk_arena *arena, struct rk_lines *ret, struct rk_err *err)
{
	int problems = 0;
	struct splitter s = { .name = rk_arena_strdup(arena, name), .at = text, .lexicon = lexicon, .arena = arena, .lines = ret, .err = err, .line = 1,
			      .problems = &problems };

	split(&s);
	return problems ? RK_INVALID : 0;
}

bool rk_split_open(const char *text)
{
	char quote = 0;
	bool blank = true;

	for (const char *c = text; *c; c++) {
		if (!quote && blank && *c == '#') {
			c += strcspn(c, "\n");
			if (!*c)
				return false;
		}
		if (*c == '\\' && quote != '\'') {
			if (!c[1] || (c[1] == '\n' && !c[2]))
				return true;
			c++;
		} else if (quote == *c) {
			quote = 0;
		} else if (!quote && strchr("'\"", *c)) {
			quote = *c;
		}
		blank = strchr(" \t\n;", *c) != NULL;
	}
	return quote != 0;
}
