#include "cli/cmd.h"
#include "cli/out.h"
#include "inventory/base/str.h"
#include "provision/health/rules.h"

static const char *const level_names[RK_LEVELS] = { "quick", "standard", "deep" };

static const struct rk_column list_columns[] = {
	{ "name", RK_COL_TEXT, false }, { "inherits", RK_COL_TEXT, false }, { "rules", RK_COL_NUMBER, false }, { "description", RK_COL_TEXT, false },
	{ NULL, RK_COL_TEXT, false },
};
static const struct rk_column show_columns[] = {
	{ "name", RK_COL_TEXT, false }, { "inherits", RK_COL_TEXT, false }, { "description", RK_COL_TEXT, false }, { "levels", RK_COL_JSON, true },
	{ "rules", RK_COL_JSON, true }, { NULL, RK_COL_TEXT, false },
};

static int run_list(struct rk_call *call, struct rk_err *err)
{
	size_t n;
	const char *const *names = rk_hprofiles(&n);

	for (size_t i = 0; i < n; i++) {
		struct rk_hprofile *p RK_CLEANUP(rk_cleanup_hprofile) = NULL;
		int rc = rk_hprofile_load(names[i], &p, err);
		if (rc)
			return rc;
		rk_out_row(call->out);
		rk_cell_text(call->out, "name", p->name);
		rk_cell_text(call->out, "inherits", p->inherits);
		rk_cell_number(call->out, "rules", (long long)p->n_rules);
		rk_cell_text(call->out, "description", p->description);
	}
	return 0;
}

static void write_texts(struct rk_jw *w, const char *key, const struct rk_texts *texts)
{
	rk_jw_key(w, key);
	rk_jw_array(w);
	for (size_t i = 0; i < texts->n; i++)
		rk_jw_str(w, texts->items[i]);
	rk_jw_end(w);
}

static void write_value(struct rk_jw *w, const struct rk_rule *r)
{
	rk_jw_key(w, "value");
	rk_jw_array(w);
	for (int i = 0; i < r->n_numbers; i++)
		rk_jw_double(w, r->numbers[i]);
	for (size_t i = 0; i < r->values.n; i++)
		rk_jw_str(w, r->values.items[i]);
	rk_jw_end(w);
	rk_jw_key(w, "warn");
	if (r->has_warn)
		rk_jw_double(w, r->warn);
	else
		rk_jw_null(w);
	rk_jw_key(w, "steps");
	rk_jw_array(w);
	for (size_t i = 0; i < r->n_steps; i++) {
		rk_jw_object(w);
		rk_jw_key(w, "up_to");
		rk_jw_double(w, r->steps[i].up_to);
		rk_jw_key(w, "value");
		rk_jw_double(w, r->steps[i].value);
		rk_jw_key(w, "warn");
		if (r->steps[i].has_warn)
			rk_jw_double(w, r->steps[i].warn);
		else
			rk_jw_null(w);
		rk_jw_end(w);
	}
	rk_jw_end(w);
}

/* Every key of the rule language, as it is after everything that was inherited. */
static void write_rule(struct rk_jw *w, const struct rk_rule *r)
{
	const char *texts[][2] = { { "id", r->id }, { "level", level_names[r->level] }, { "metric", r->metric }, { "compare", r->compare },
				   { "expect", r->expect }, { "of", r->of }, { "scope", r->scope }, { "side", r->side }, { "per", r->per }, { "each", r->each },
				   { "severity", r->severity }, { "effect", r->effect }, { "after", r->after }, { "when", r->when }, { "kind", r->kind },
				   { "cause", r->cause }, { "message", r->message }, { "hint", r->hint }, { "source", r->source } };
	const struct {
		const char *key;
		double value;
	} numbers[] = { { "factor", r->factor }, { "tolerance", r->tolerance }, { "floor", r->floor }, { "grace", r->grace }, { "strikes", r->strikes } };

	rk_jw_object(w);
	for (size_t i = 0; i < RK_ARRAY_SIZE(texts); i++) {
		rk_jw_key(w, texts[i][0]);
		rk_jw_str(w, texts[i][1]);
	}
	for (size_t i = 0; i < RK_ARRAY_SIZE(numbers); i++) {
		rk_jw_key(w, numbers[i].key);
		rk_jw_double(w, numbers[i].value);
	}
	rk_jw_key(w, "required");
	rk_jw_bool(w, r->required);
	rk_jw_key(w, "optional");
	rk_jw_bool(w, r->optional);
	write_texts(w, "collector", &r->collectors);
	write_texts(w, "warn_values", &r->warn_values);
	write_texts(w, "unknown_values", &r->unknown_values);
	write_texts(w, "skip_values", &r->skip_values);
	write_value(w, r);
	rk_jw_end(w);
}

/* What is compared with, in a few words: ">= 720", "in 31c2 31c3", "expect gpus, 4". */
static void threshold(const struct rk_rule *r, struct rk_str *out)
{
	rk_str_add(out, r->compare);
	if (r->factor < 1 || r->factor > 1)
		rk_str_addf(out, " %g x", r->factor);
	if (r->expect)
		rk_str_addf(out, " %s%s", r->expect, r->n_numbers || r->values.n ? ", else" : "");
	if (r->of && !r->n_steps)
		rk_str_addf(out, " %s", r->of);
	for (size_t i = 0; i < r->n_steps; i++)
		rk_str_addf(out, "%s %g up to %g", i ? "," : "", r->steps[i].value, r->steps[i].up_to);
	for (int i = 0; i < r->n_numbers; i++)
		rk_str_addf(out, " %g", r->numbers[i]);
	for (size_t i = 0; i < r->values.n; i++)
		rk_str_addf(out, " %s", r->values.items[i]);
	if (r->per)
		rk_str_addf(out, " per %s", r->per);
	if (r->tolerance > 0)
		rk_str_addf(out, " %g %%, %s", r->tolerance * 100, r->side);
}

static void print(struct rk_call *call, const struct rk_hprofile *p)
{
	rk_out_row(call->out);
	rk_cell_text(call->out, "name", p->name);
	rk_cell_text(call->out, "inherits", p->inherits);
	rk_cell_text(call->out, "description", p->description);
	struct rk_jw *w = rk_cell_json(call->out, "levels");
	rk_jw_object(w);
	for (int level = 0; level < RK_LEVELS; level++) {
		rk_jw_key(w, level_names[level]);
		rk_jw_array(w);
		for (size_t i = 0; i < p->levels[level].n; i++)
			rk_jw_str(w, p->levels[level].items[i]);
		rk_jw_end(w);
	}
	rk_jw_end(w);
	w = rk_cell_json(call->out, "rules");
	rk_jw_array(w);
	for (size_t i = 0; i < p->n_rules; i++)
		write_rule(w, &p->rules[i]);
	rk_jw_end(w);
	for (size_t i = 0; i < p->n_rules; i++) {
		struct rk_str text RK_CLEANUP_STR = RK_STR_INIT;
		const struct rk_rule *r = &p->rules[i];
		threshold(r, &text);
		rk_out_note(call->out, "%-8s %-24s %s (%s; %s)", level_names[r->level], r->id, r->message ? r->message : "", rk_str_text(&text),
			    r->source ? r->source : "no source");
	}
}

static int run_show(struct rk_call *call, struct rk_err *err)
{
	struct rk_hprofile *p RK_CLEANUP(rk_cleanup_hprofile) = NULL;
	int rc = rk_hprofile_load(rk_call_arg(call, "P"), &p, err);

	if (!rc)
		print(call, p);
	return rc;
}

static int run_check(struct rk_call *call, struct rk_err *err)
{
	struct rk_hprofile *p RK_CLEANUP(rk_cleanup_hprofile) = NULL;
	int rc = rk_hprofile_load(rk_call_arg(call, "FILE"), &p, err);

	/* check answers "unhealthy" for a bad file; a file that is not there stays what it is. */
	if (rc == RK_INVALID && err)
		return err->rc = RK_UNHEALTHY;
	if (!rc)
		print(call, p);
	return rc;
}

#define ONE_ARG(name, type, help) (const struct rk_argdef[]){ { name, type, true, false, help, NULL }, { NULL, RK_ARG_NONE, false, false, NULL, NULL } }
#define EXAMPLES(...) (const char *const[]){ __VA_ARGS__, NULL }

static const struct rk_command commands[] = {
	{ "profile", "list", "List the built-in health profiles", NULL, NULL, NULL, RK_CMD_NO_STORE, list_columns, true, EXAMPLES("profile list"), run_list },
	{ "profile", "show", "Show a health profile with everything it inherits", NULL, ONE_ARG("P", RK_ARG_PROFILE, "profile, by name or file"), NULL,
	  RK_CMD_NO_STORE, show_columns, false, EXAMPLES("profile show gb300-acceptance"), run_show },
	{ "profile", "check", "Check the file of a health profile", "All problems are reported at once, each with line and column.",
	  ONE_ARG("FILE", RK_ARG_FILE, "profile file"), NULL, RK_CMD_NO_STORE, show_columns, false, EXAMPLES("profile check provision/health/profiles/lab.json"), run_check },
};

const struct rk_noun rk_noun_profile = { "profile", "what is measured and what is expected", "Health profiles are data: see racksh-profile(5).", commands,
					 RK_ARRAY_SIZE(commands) };
