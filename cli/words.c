#include "cli/words.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "inventory/base/str.h"

void rk_vars_set(struct rk_vars *vars, const char *name, const char *value)
{
	size_t at;

	if (!vars->names)
		vars->names = rk_map_new();
	if (rk_map_get(vars->names, name, &at)) {
		free((char *)vars->values[at]);
		vars->values[at] = rk_xstrdup(value);
		return;
	}
	if (vars->n == vars->cap) {
		vars->cap = vars->cap ? vars->cap * 2 : 8;
		vars->values = rk_xreallocarray(vars->values, vars->cap, sizeof(*vars->values));
	}
	rk_map_add(vars->names, name, vars->n, NULL);
	vars->values[vars->n++] = rk_xstrdup(value);
}

const char *rk_vars_get(const struct rk_vars *vars, const char *name)
{
	size_t at;

	return vars->names && rk_map_get(vars->names, name, &at) ? vars->values[at] : NULL;
}

void rk_vars_free(struct rk_vars *vars)
{
	for (size_t i = 0; i < vars->n; i++)
		free((char *)vars->values[i]);
	free(vars->values);
	rk_map_free(vars->names);
	*vars = (struct rk_vars){ 0 };
}

struct splitter {
	const char *name, *at;
	struct rk_vars *vars;
	struct rk_arena *arena;
	struct rk_err *err;
	int line, problems;
	struct {
		const char **items;
		size_t n, cap;
	} words;
};

static void problem(struct splitter *s, const char *what, const char *detail)
{
	char *text RK_CLEANUP_FREE = rk_xasprintf("%s:%d: %s%s", s->name, s->line, what, detail);

	if (!s->problems++)
		rk_err_set(s->err, RK_INVALID, "%s", text);
	rk_err_detail(s->err, "%s", text);
}

/* At '$': appends the value. A '$' without a name is itself. */
static void variable(struct splitter *s, struct rk_str *word)
{
	size_t len = 1;

	while (isalnum((unsigned char)s->at[len]) || s->at[len] == '_')
		len++;
	if (len == 1) {
		rk_str_addc(word, *s->at++);
		return;
	}
	char *name RK_CLEANUP_FREE = rk_xstrndup(s->at + 1, len - 1);
	const char *value = rk_vars_get(s->vars, name);
	s->at += len;
	if (value)
		rk_str_add(word, value);
	else
		problem(s, "variable is not set: $", name);
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

static void word(struct splitter *s)
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
	*rk_vec_push(&s->words) = rk_arena_strdup(s->arena, rk_str_text(&text));
}

static void end_command(struct splitter *s, struct rk_lines *lines, int first_line)
{
	size_t n = s->words.n;

	if (!n)
		return;
	const char **words = rk_arena_array(s->arena, n + 1, sizeof(*words));
	memcpy(words, s->words.items, n * sizeof(*words));
	s->words.n = 0;
	/* A definition counts for the lines after it, so it is taken while the text is read. */
	if (strcmp(words[0], "set") == 0 && n == 3)
		rk_vars_set(s->vars, words[1], words[2]);
	*rk_vec_push(lines) = (struct rk_line){ first_line, words, n };
}

int rk_split(const char *name, const char *text, struct rk_vars *vars, struct rk_arena *arena, struct rk_lines *ret, struct rk_err *err)
{
	struct splitter s = { .name = name, .at = text, .vars = vars, .arena = arena, .err = err, .line = 1 };
	int first = 1;

	while (*s.at) {
		if (continues(s.at)) {
			s.at += s.at[1] == '\r' ? 3 : 2;
			s.line++;
		} else if (*s.at == '\n' || *s.at == ';') {
			end_command(&s, ret, first);
			s.line += *s.at++ == '\n';
		} else if (strchr(" \t\r", *s.at)) {
			s.at++;
		} else if (*s.at == '#') {
			s.at += strcspn(s.at, "\n");
		} else {
			if (!s.words.n)
				first = s.line;
			word(&s);
		}
	}
	end_command(&s, ret, first);
	free(s.words.items);
	return s.problems ? RK_INVALID : 0;
}
