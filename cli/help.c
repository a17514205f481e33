#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/app.h"
#include "cli/out_grid.h"
#include "inventory/base/str.h"

static void argument(const struct rk_argdef *a, struct rk_str *out)
{
	const char *shown = a->type == RK_ARG_ENUM ? a->values : a->name;

	rk_str_addf(out, a->required ? " %s%s" : " [%s%s]", shown, a->repeated ? "..." : "");
}

void rk_synopsis(const struct rk_command *command, struct rk_str *out)
{
	rk_str_add(out, command->noun);
	if (command->verb)
		rk_str_addf(out, " %s", command->verb);
	for (const struct rk_argdef *a = command->args; a && a->name; a++) {
		rk_str_add(out, a->type == RK_ARG_COMMAND ? " --" : "");
		argument(a, out);
	}
	for (const struct rk_argdef *o = command->options; o && o->name; o++) {
		char letter[8] = "";
		if (o->letter)
			snprintf(letter, sizeof(letter), "-%c|", o->letter);
		const char *value = o->type == RK_ARG_NONE ? "" : o->type == RK_ARG_ENUM ? o->values : "VALUE";
		rk_str_addf(out, o->required ? " %s--%s%s%s" : " [%s--%s%s%s]", letter, o->name, *value ? " " : "", value);
	}
}

static void overview(struct rk_str *out)
{
	rk_str_add(out, "racksh: inventory, clusters and fabric health of GB300 NVL72 racks\n\n"
			"Start here (nothing real is touched):\n"
			"  racksh tutorial                          a lesson of ten minutes\n"
			"  racksh --sim SITE.json COMMAND           any command on a twin of a site file (man racksh-site)\n"
			"With real racks:\n"
			"  racksh site import SITE.json             what there is; then rack list, tray list, site discover\n"
			"  racksh cluster plan SPEC.json            where a cluster would go and why (man racksh-cluster)\n"
			"  racksh cluster create SPEC.json          make it; then validate cluster NAME, isolation verify\n"
			"  racksh rehearse FILE                     try a batch of commands on a twin of this site\n"
			"Files to start from are in share/doc/racksh/examples, in the sources in tests/examples.\n"
			"Alone on a terminal, racksh is a shell: TAB completes, ? tells what can come next.\n\nCommands:\n");
	for (const struct rk_noun *const *n = rk_nouns; *n; n++)
		rk_str_addf(out, "  %-11s %s\n", (*n)->name, (*n)->summary);
	rk_str_add(out, "\nWords of the shell and of batches:\n");
	for (const struct rk_noun *const *n = rk_shell_words; *n; n++)
		rk_str_addf(out, "  %-11s %s\n", (*n)->name, (*n)->summary);
	rk_str_add(out, "  !COMMAND    run a command of the system\n  CMD | TEXT  send the result through a command of the system\n"
			"  CMD > FILE  write the result into a file (>> appends)\n");
	rk_str_add(out, "\nhelp COMMAND [VERB] tells more; man racksh tells all.\n\nOptions for every command:\n");
	for (const struct rk_globaldef *g = rk_global_options; g->name; g++) {
		char name[64];
		snprintf(name, sizeof(name), "--%s%s%s", g->name, g->value ? " " : "", g->value ? g->value : "");
		rk_str_addf(out, "  %c%c%c %-20s %s\n", g->letter ? '-' : ' ', g->letter ? g->letter : ' ', g->letter ? ',' : ' ', name, g->help);
	}
}

static void table_of(const char *title, const struct rk_argdef *defs, const char *dashes, struct rk_str *out)
{
	if (!defs || !defs->name)
		return;
	int width = 14;
	for (const struct rk_argdef *a = defs; a->name; a++)
		if (width <= (int)(strlen(dashes) + strlen(a->name)))
			width = (int)(strlen(dashes) + strlen(a->name)) + 1;
	rk_str_addf(out, "\n%s:\n", title);
	for (const struct rk_argdef *a = defs; a->name; a++) {
		char *name RK_CLEANUP_FREE = rk_xasprintf("%s%s", dashes, a->name);
		rk_str_addf(out, "  %-*s %s%s%s\n", width, name, a->help, a->type == RK_ARG_ENUM ? ": " : "", a->type == RK_ARG_ENUM ? a->values : "");
	}
}

/* NULL: it may stand there, or nothing is to be said about it. */
static const char *staging_note(const struct rk_command *c)
{
	if ((c->flags & (RK_CMD_STAGES | RK_CMD_SHELL)) || !((c->flags & RK_CMD_CHANGES) || c->changes_with))
		return NULL;
	return c->changes_with ? "Between begin and commit the change is refused: run it before or after." : "Between begin and commit it is refused: run it before or after.";
}

static void one_command(const struct rk_command *c, struct rk_str *out)
{
	rk_str_add(out, "racksh ");
	rk_synopsis(c, out);
	rk_str_addf(out, "\n\n%s.\n", c->summary);
	if (c->description)
		rk_str_addf(out, "\n%s\n", c->description);
	if (staging_note(c))
		rk_str_addf(out, "\n%s\n", staging_note(c));
	table_of("Arguments", c->args, "", out);
	table_of("Options", c->options, "--", out);
	for (const char *const *e = c->examples; e && *e; e++)
		rk_str_addf(out, "%s  racksh %s\n", e == c->examples ? "\nExamples:\n" : "", *e);
}

static int no_verb(const struct rk_noun *noun, const char *verb, struct rk_err *err)
{
	const char *names[32];
	size_t n = 0;

	for (size_t i = 0; i < noun->n && n < RK_ARRAY_SIZE(names); i++)
		if (noun->commands[i].verb)
			names[n++] = noun->commands[i].verb;
	const char *near = rk_near_name(verb, names, n);
	rk_err_set(err, RK_NOT_FOUND, "no verb \"%s\" of %s", verb, noun->name);
	if (near)
		rk_err_hint(err, "did you mean \"%s\"?", near);
	else
		rk_err_hint(err, n ? "racksh help %s lists its verbs" : "%s has no verbs", noun->name);
	return RK_NOT_FOUND;
}

/* What people ask for that is no command, and where it is told. */
static const struct {
	const char *words, *page;
} topics[] = {
	{ " sim twin faults fault sim-fault sim-state simulation ", "racksh-fabric(7)" },
	{ " batch batches script scripts variables ", "racksh-batch(5)" },
	{ " spec specs cluster-spec ", "racksh-cluster(5)" },
	{ " site-file sitefile ", "racksh-site(5)" },
	{ " profiles checks ", "racksh-profile(5)" },
	{ " selection selections nodeset nodesets groups sel options exit codes ", "racksh(1)" },
	{ " shell keys prompt ", "racksh-shell(1)" },
};

static const char *page_about(const char *name)
{
	char *word RK_CLEANUP_FREE = rk_xasprintf(" %s ", name);

	for (size_t i = 0; i < RK_ARRAY_SIZE(topics); i++)
		if (strstr(topics[i].words, word))
			return topics[i].page;
	return NULL;
}

/* The first command that has this verb; NULL: none has. */
static const struct rk_command *with_verb(const char *verb)
{
	for (const struct rk_noun *const *noun = rk_nouns; *noun; noun++)
		for (size_t i = 0; i < (*noun)->n; i++)
			if (rk_streq((*noun)->commands[i].verb, verb))
				return &(*noun)->commands[i];
	return NULL;
}

static int no_noun(const char *name, struct rk_err *err)
{
	const char *names[96], *page = page_about(name);
	size_t n = 0;

	for (const struct rk_noun *const *noun = rk_nouns; *noun && n < RK_ARRAY_SIZE(names); noun++)
		names[n++] = (*noun)->name;
	for (const struct rk_noun *const *noun = rk_shell_words; *noun && n < RK_ARRAY_SIZE(names); noun++)
		names[n++] = (*noun)->name;
	const char *near = rk_near_name(name, names, n);
	const struct rk_command *verb = with_verb(name);
	rk_err_set(err, RK_NOT_FOUND, "no command \"%s\"", name);
	if (page)
		rk_err_hint(err, "%s tells of that", page);
	else if (verb)
		rk_err_hint(err, "a verb: racksh help %s %s, for one", verb->noun, name);
	else if (near)
		rk_err_hint(err, "did you mean \"%s\"?", near);
	else
		rk_err_hint(err, "racksh help lists the commands");
	return RK_NOT_FOUND;
}

static void about_noun(const struct rk_noun *noun, struct rk_str *out)
{
	rk_str_addf(out, "%s: %s\n", noun->name, noun->summary);
	if (noun->description)
		rk_str_addf(out, "\n%s\n", noun->description);
	rk_str_addc(out, '\n');
	for (size_t i = 0; i < noun->n; i++) {
		rk_str_add(out, "  racksh ");
		rk_synopsis(&noun->commands[i], out);
		rk_str_addf(out, "\n      %s\n", noun->commands[i].summary);
	}
}

static int tell(const char *name, const char *verb, struct rk_str *out, struct rk_err *err)
{
	if (!name) {
		overview(out);
		return 0;
	}
	const struct rk_noun *noun = rk_noun_find(name);
	if (!noun)
		return no_noun(name, err);
	for (size_t i = 0; i < noun->n; i++)
		if (rk_streq(noun->commands[i].verb, verb) && (verb || noun->n == 1)) {
			one_command(&noun->commands[i], out);
			return 0;
		}
	if (verb)
		return no_verb(noun, verb, err);
	about_noun(noun, out);
	return 0;
}

/* Examples stay whole: they are there to be copied. */
int rk_help(const char *name, const char *verb, int width, struct rk_str *out, struct rk_err *err)
{
	struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
	int rc = tell(name, verb, &text, err);
	const char *all = rk_str_text(&text), *examples = strstr(all, "\nExamples:\n");
	char *before RK_CLEANUP_FREE = rk_xstrndup(all, examples ? (size_t)(examples - all) : text.len);

	rk_text_fold(before, width, out);
	rk_str_add(out, examples ? examples : "");
	return rc;
}

/* ---- man ------------------------------------------------------------------------------------------------------------------------ */

/* Text for roff: backslashes and leading dots are taken literally. */
static void roff(const char *text, struct rk_str *out)
{
	if (*text == '.' || *text == '\'')
		rk_str_add(out, "\\&");
	for (const char *c = text; *c; c++) {
		if (*c == '\\')
			rk_str_add(out, "\\e");
		else if (*c == '-')
			rk_str_add(out, "\\-");
		else if (*c == '\n' && c[1] == '\n')
			rk_str_add(out, "\n.Pp");
		else
			rk_str_addc(out, *c);
	}
}

static void man_table(const struct rk_argdef *defs, const char *dashes, struct rk_str *out)
{
	if (!defs || !defs->name)
		return;
	rk_str_add(out, ".Bl -tag -width Ds\n");
	for (const struct rk_argdef *a = defs; a->name; a++) {
		char *name RK_CLEANUP_FREE = rk_xasprintf("%s%s", dashes, a->name);
		rk_str_add(out, ".It Cm ");
		roff(name, out);
		rk_str_addc(out, '\n');
		roff(a->help, out);
		if (a->type == RK_ARG_ENUM) {
			rk_str_add(out, ": ");
			roff(a->values, out);
		}
		rk_str_addc(out, '\n');
	}
	rk_str_add(out, ".El\n");
}

static void man_command(const struct rk_command *c, struct rk_str *out)
{
	struct rk_str line RK_CLEANUP_STR = RK_STR_INIT;

	rk_synopsis(c, &line);
	rk_str_add(out, ".Ss ");
	roff(rk_str_text(&line), out);
	rk_str_add(out, "\\&\n"); /* a bracket at the end is none of a sentence */
	roff(c->summary, out);
	rk_str_add(out, ".\n");
	if (c->description) {
		rk_str_add(out, ".Pp\n");
		roff(c->description, out);
		rk_str_addc(out, '\n');
	}
	if (staging_note(c))
		rk_str_addf(out, ".Pp\n%s\n", staging_note(c));
	man_table(c->args, "", out);
	man_table(c->options, "--", out);
	if (c->examples && *c->examples)
		rk_str_add(out, ".Bd -literal -offset indent\n");
	for (const char *const *e = c->examples; e && *e; e++) {
		rk_str_add(out, "racksh ");
		roff(*e, out);
		rk_str_addc(out, '\n');
	}
	if (c->examples && *c->examples)
		rk_str_add(out, ".Ed\n");
}

static void man_head(const char *name, const char *summary, struct rk_str *out)
{
	rk_str_add(out, ".Dd $Mdocdate$\n.Dt RACKSH-");
	for (const char *c = name; *c; c++)
		rk_str_addc(out, (char)toupper((unsigned char)*c));
	rk_str_addf(out, " 1\n.Os\n.Sh NAME\n.Nm racksh-%s\n.Nd ", name);
	roff(summary, out);
	rk_str_add(out, "\n.Sh SYNOPSIS\n");
}

/* One page for all words of the shell. */
static void man_shell(struct rk_str *out)
{
	man_head("shell", "words of the racksh shell and of its batches", out);
	rk_str_add(out, ".Nm racksh\n.Op Ar options\n.Sh DESCRIPTION\n"
			"The words below work in the interactive shell, in batches\n.Pq see Xr racksh-batch 5\nand, where that makes sense, as one-shot commands.\n"
			"Beside them\n.Ql !COMMAND\nruns a command of the system,\n.Ql COMMAND | TEXT\nsends a result through one, and\n.Ql COMMAND > FILE\nor\n"
			".Ql >>\nwrites it into a file.\nThese signs act as words of their own only.\n.Pp\n"
			"On a terminal TAB completes nouns, verbs, options, values and the names of objects, and\n.Ql \\&?\ntells what can come next.\n"
			"The prompt shows the kind of store, the site, what is in use, how many commands are staged, and how many operations are unfinished.\n"
			"What others do meanwhile is told above the prompt.\n");
	for (const struct rk_noun *const *n = rk_shell_words; *n; n++)
		man_command(&(*n)->commands[0], out);
	rk_str_add(out, ".Sh ENVIRONMENT\n.Bl -tag -width Ds\n.It Ev RACKSH_PAGER , Ev PAGER\nshows what is longer than the screen; empty: nothing does\n"
			".It Ev NO_COLOR\nno colour\n.El\n"
			".Sh FILES\n.Bl -tag -width Ds\n.It Pa $XDG_CONFIG_HOME/racksh/start.racksh\ncommands that the interactive shell runs first\n"
			".It Pa $XDG_CONFIG_HOME/racksh/NAME.racksh\na command\n.Cm NAME\nof the user's own; its arguments are\n.Ql $1 ,\n.Ql $2\nand so on\n"
			".It Pa $XDG_STATE_HOME/racksh/history\nthe history, with times\n"
			".It Pa ~/.inputrc\nkeys; sections for\n.Ql $if racksh\ncount\n.El\n"
			".Sh SEE ALSO\n.Xr racksh 1 ,\n.Xr racksh-batch 5\n");
}

int rk_man_section(const char *name, struct rk_str *out, struct rk_err *err)
{
	const struct rk_noun *noun = rk_noun_find(name);

	if (strcmp(name, "shell") == 0) {
		man_shell(out);
		return 0;
	}
	if (!noun)
		return rk_err_set(err, RK_NOT_FOUND, "no command \"%s\"", name);
	man_head(name, noun->summary, out);
	rk_str_add(out, ".Nm racksh\n.Op Ar options\n");
	rk_str_addf(out, ".Cm %s\n.Op Ar verb\n.Op Ar arguments\n.Sh DESCRIPTION\n", name);
	roff(noun->description ? noun->description : noun->summary, out);
	rk_str_add(out, noun->description ? "\n" : ".\n");
	for (size_t i = 0; i < noun->n; i++)
		man_command(&noun->commands[i], out);
	rk_str_add(out, ".Sh EXIT STATUS\nSee\n.Xr racksh 1 .\n.Sh SEE ALSO\n.Xr racksh 1\n");
	return 0;
}
