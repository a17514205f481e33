#include "cli/completion.h"

#include <string.h>

#include "cli/app.h"

/* The word a script uses for what an argument may be. */
static const char *kind_of(const struct rk_argdef *a)
{
	static const struct {
		enum rk_argtype type;
		const char *list;        /* racksh command that lists the names */
	} rows[] = {
		{ RK_ARG_RACK, "rack list" }, { RK_ARG_SEL_RACKS, "rack list" }, { RK_ARG_TRAY, "tray list" }, { RK_ARG_SEL_TRAYS, "tray list" },
		{ RK_ARG_VM, "vm list" }, { RK_ARG_SEL_VMS, "vm list" }, { RK_ARG_CLUSTER, "cluster list" }, { RK_ARG_TENANT, "tenant list" },
		{ RK_ARG_SIZE, "size list" }, { RK_ARG_IMAGE, "image list" }, { RK_ARG_PROFILE, "profile list" }, { RK_ARG_OP, "op list" },
	};

	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++)
		if (rows[i].type == a->type)
			return rows[i].list;
	return a->type == RK_ARG_FILE || a->type == RK_ARG_FOLDER ? "@files" : NULL;
}

static void words_of(const char *values, struct rk_str *out)
{
	for (const char *c = values; *c; c++)
		rk_str_addc(out, *c == '|' ? ' ' : *c);
}

static void each_row(struct rk_str *out, void (*add)(const struct rk_command *c, struct rk_str *out))
{
	for (const struct rk_noun *const *n = rk_nouns; *n; n++)
		for (size_t i = 0; i < (*n)->n; i++)
			add(&(*n)->commands[i], out);
}

static void nouns(struct rk_str *out)
{
	for (const struct rk_noun *const *n = rk_nouns; *n; n++)
		rk_str_addf(out, "%s%s", n == rk_nouns ? "" : " ", (*n)->name);
}

static void verbs(const struct rk_noun *noun, struct rk_str *out)
{
	for (size_t i = 0; i < noun->n; i++)
		if (noun->commands[i].verb)
			rk_str_addf(out, "%s%s", i ? " " : "", noun->commands[i].verb);
}

static void global_options(struct rk_str *out)
{
	for (const struct rk_globaldef *g = rk_global_options; g->name; g++)
		rk_str_addf(out, "%s--%s", g == rk_global_options ? "" : " ", g->name);
}

static void row_options(const struct rk_command *c, struct rk_str *out)
{
	for (const struct rk_argdef *o = c->options; o && o->name; o++)
		rk_str_addf(out, "%s--%s", o == c->options ? "" : " ", o->name);
}

/* ---- bash, and zsh by way of bashcompinit ------------------------------------------------------------------------------------------- */

/* case "NOUN VERB POSITION": what may stand there. */
static void bash_arguments(const struct rk_command *c, struct rk_str *out)
{
	const char *verb = c->verb ? c->verb : "";
	int at = 1;

	for (const struct rk_argdef *a = c->args; a && a->name; a++, at++) {
		const char *kind = kind_of(a);
		const char *position = a->repeated ? "*" : "";
		if (!kind && a->type != RK_ARG_ENUM)
			continue;
		if (a->repeated)
			rk_str_addf(out, "\t'%s %s '%s) ", c->noun, verb, position);
		else
			rk_str_addf(out, "\t'%s %s %d') ", c->noun, verb, at);
		if (a->type == RK_ARG_ENUM) {
			rk_str_add(out, "words='");
			words_of(a->values, out);
			rk_str_add(out, "' ;;\n");
		} else if (strcmp(kind, "@files") == 0) {
			rk_str_add(out, "files=1 ;;\n");
		} else {
			rk_str_addf(out, "list='%s' ;;\n", kind);
		}
	}
}

static void bash_options(const struct rk_command *c, struct rk_str *out)
{
	if (!c->options || !c->options->name)
		return;
	rk_str_addf(out, "\t'%s %s') own='", c->noun, c->verb ? c->verb : "");
	row_options(c, out);
	rk_str_add(out, "' ;;\n");
}

static void bash_values(const struct rk_command *c, struct rk_str *out)
{
	for (const struct rk_argdef *o = c->options; o && o->name; o++) {
		const char *kind = kind_of(o);
		if (!kind && o->type != RK_ARG_ENUM)
			continue;
		rk_str_addf(out, "\t'%s %s --%s') ", c->noun, c->verb ? c->verb : "", o->name);
		if (o->type == RK_ARG_ENUM) {
			rk_str_add(out, "words='");
			words_of(o->values, out);
			rk_str_add(out, "'");
		} else if (strcmp(kind, "@files") == 0) {
			rk_str_add(out, "files=1");
		} else {
			rk_str_addf(out, "list='%s'", kind);
		}
		rk_str_add(out, "; value=1 ;;\n");
	}
}

/* Options of every command that take a value, as a pattern: their values are no positional words. */
static void value_options(struct rk_str *out)
{
	const char *bar = "";

	for (const struct rk_globaldef *g = rk_global_options; g->name; g++) {
		if (!g->value || g->value[0] == '[' || rk_starts_with(g->name, "sim") || strcmp(g->name, "store") == 0)
			continue;
		rk_str_addf(out, "%s--%s", bar, g->name);
		if (g->letter)
			rk_str_addf(out, "|-%c", g->letter);
		bar = "|";
	}
	for (const struct rk_noun *const *n = rk_nouns; *n; n++)
		for (size_t i = 0; i < (*n)->n; i++)
			for (const struct rk_argdef *o = (*n)->commands[i].options; o && o->name; o++)
				if (o->type != RK_ARG_NONE)
					rk_str_addf(out, "|--%s", o->name);
}

/* The function; who registers it is the shell's own business. */
static void bash_function(struct rk_str *out)
{
	rk_str_add(out, "_racksh() {\n"
			"\tlocal current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} noun='' verb='' count=0 words='' list='' files='' own='' value='' i word\n"
			"\tlocal -a store=()\n\tCOMPREPLY=()\n"
			"\tfor ((i = 1; i < COMP_CWORD; i++)); do\n\t\tword=${COMP_WORDS[i]}\n\t\tcase $word in\n"
			"\t\t--store|-s|--sim|--sim-state|--sim-fault) store+=(\"$word\" \"${COMP_WORDS[i+1]}\"); ((i++)) ;;\n\t\t");
	value_options(out);
	rk_str_add(out, ") ((i++)) ;;\n\t\t-*) ;;\n\t\t*)\n\t\t\tif [ -z \"$noun\" ]; then noun=$word\n\t\t\telif [ -z \"$verb\" ] && [ \"$count\" = 0 ]; then\n"
			"\t\t\t\tcase $noun in\n\t\t\t\t");
	const char *bar = "";
	for (const struct rk_noun *const *n = rk_nouns; *n; n++)
		if (!(*n)->commands[0].verb) {
			rk_str_addf(out, "%s%s", bar, (*n)->name);
			bar = "|";
		}
	rk_str_add(out, ") ((count++)) ;;\n\t\t\t\t*) verb=$word ;;\n\t\t\t\tesac\n\t\t\telse ((count++)); fi ;;\n\t\tesac\n\tdone\n"
			"\tcase \"$noun $verb $before\" in\n");
	each_row(out, bash_values);
	rk_str_add(out, "\tesac\n\tcase $before in\n\t--output|-o) words='table json csv lines'; value=1 ;;\n"
			"\t--sim|--sim-state|--file|-f) files=1; value=1 ;;\n\tesac\n"
			"\tif [ -n \"$value\" ]; then :\n\telif [[ $current == -* ]]; then\n\t\tcase \"$noun $verb\" in\n");
	each_row(out, bash_options);
	rk_str_add(out, "\t\tesac\n\t\twords=\"$own ");
	global_options(out);
	rk_str_add(out, "\"\n\telif [ -z \"$noun\" ]; then words='");
	nouns(out);
	rk_str_add(out, "'\n\telse\n\t\tcase \"$noun $verb\" in\n");
	for (const struct rk_noun *const *n = rk_nouns; *n; n++) {
		if (!(*n)->commands[0].verb)
			continue;
		rk_str_addf(out, "\t\t'%s ') words='", (*n)->name);
		verbs(*n, out);
		rk_str_add(out, "' ;;\n");
	}
	rk_str_add(out, "\t\tesac\n\t\tcase \"$noun $verb $((count + 1))\" in\n");
	each_row(out, bash_arguments);
	rk_str_add(out, "\t\tesac\n\tfi\n"
			"\t# shellcheck disable=SC2086 # the list is two words\n"
			"\t[ -n \"$list\" ] && words=$(racksh \"${store[@]}\" -o lines $list 2>/dev/null)\n"
			"\tif [ -n \"$files\" ]; then\n\t\tcompopt -o filenames 2>/dev/null\n\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
			"\telse mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\"); fi\n}\n");
}

static void bash(struct rk_str *out)
{
	rk_str_add(out, "# bash completion of racksh, made by `racksh completion bash`.\n");
	bash_function(out);
	rk_str_add(out, "complete -F _racksh racksh\n");
}

/* Loaded by zsh itself, the file is the function that was called: what it defined has to answer this first call, too. */
static void zsh(struct rk_str *out)
{
	rk_str_add(out, "#compdef racksh\n# zsh completion of racksh, made by `racksh completion zsh`.\nautoload -U +X bashcompinit && bashcompinit\n"
			"mapfile() { local line; COMPREPLY=(); while IFS= read -r line; do COMPREPLY+=(\"$line\"); done }\n");
	bash_function(out);
	rk_str_add(out, "complete -o filenames -F _racksh racksh\n[ \"${funcstack[1]}\" = _racksh ] && _bash_complete -o filenames -F _racksh\n");
}

/* ---- fish ---------------------------------------------------------------------------------------------------------------------------- */

static void fish_text(const char *text, struct rk_str *out)
{
	rk_str_addc(out, '\'');
	for (const char *c = text; *c; c++) {
		if (*c == '\'' || *c == '\\')
			rk_str_addc(out, '\\');
		rk_str_addc(out, *c);
	}
	rk_str_addc(out, '\'');
}

static void fish_where(const struct rk_command *c, struct rk_str *out)
{
	rk_str_addf(out, "complete -c racksh -n '__fish_seen_subcommand_from %s", c->noun);
	if (c->verb)
		rk_str_addf(out, "; and __fish_seen_subcommand_from %s", c->verb);
	rk_str_add(out, "'");
}

/* An option with a value: of files, fish itself offers them. */
static const char *fish_option(const struct rk_argdef *o)
{
	const char *kind = kind_of(o);

	if (o->type == RK_ARG_NONE)
		return "";
	return kind && strcmp(kind, "@files") == 0 ? " -r" : " -x";
}

static void fish_value(const struct rk_argdef *a, struct rk_str *out)
{
	const char *kind = kind_of(a);

	if (a->type == RK_ARG_ENUM) {
		rk_str_add(out, " -a '");
		words_of(a->values, out);
		rk_str_add(out, "'");
	} else if (kind && strcmp(kind, "@files") == 0) {
		rk_str_add(out, " -F");
	} else if (kind) {
		rk_str_addf(out, " -a '(racksh -o lines %s 2>/dev/null)'", kind);
	}
}

static void fish_row(const struct rk_command *c, struct rk_str *out)
{
	if (c->verb) {
		rk_str_addf(out, "complete -c racksh -n '__fish_seen_subcommand_from %s; and not __fish_seen_subcommand_from ", c->noun);
		verbs(rk_noun_find(c->noun), out);
		rk_str_addf(out, "' -a %s -d ", c->verb);
		fish_text(c->summary, out);
		rk_str_addc(out, '\n');
	}
	for (const struct rk_argdef *o = c->options; o && o->name; o++) {
		fish_where(c, out);
		rk_str_addf(out, " -l %s%s -d ", o->name, fish_option(o));
		fish_text(o->help, out);
		fish_value(o, out);
		rk_str_addc(out, '\n');
	}
	for (const struct rk_argdef *a = c->args; a && a->name; a++) {
		if (!kind_of(a) && a->type != RK_ARG_ENUM)
			continue;
		fish_where(c, out);
		fish_value(a, out);
		rk_str_addc(out, '\n');
	}
}

static void fish(struct rk_str *out)
{
	rk_str_add(out, "# fish completion of racksh, made by `racksh completion fish`.\ncomplete -c racksh -f\n");
	for (const struct rk_noun *const *n = rk_nouns; *n; n++) {
		rk_str_addf(out, "complete -c racksh -n __fish_use_subcommand -a %s -d ", (*n)->name);
		fish_text((*n)->summary, out);
		rk_str_addc(out, '\n');
	}
	for (const struct rk_globaldef *g = rk_global_options; g->name; g++) {
		rk_str_addf(out, "complete -c racksh -l %s", g->name);
		if (g->letter)
			rk_str_addf(out, " -s %c", g->letter);
		rk_str_addf(out, "%s -d ", g->value && g->value[0] != '[' ? " -r" : "");
		fish_text(g->help, out);
		rk_str_addc(out, '\n');
	}
	each_row(out, fish_row);
}

void rk_completion_script(const char *shell, struct rk_str *out)
{
	static const struct {
		const char *name;
		void (*write)(struct rk_str *out);
	} rows[] = { { "bash", bash }, { "zsh", zsh }, { "fish", fish } };

	for (size_t i = 0; i < RK_ARRAY_SIZE(rows); i++)
		if (strcmp(rows[i].name, shell) == 0)
			rows[i].write(out);
}
