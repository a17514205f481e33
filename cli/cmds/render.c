#include "cli/cmds/render.h"

#include <string.h>

#include "provision/cluster.h"

/* The argument is the name of a cluster that exists, or else a file. */
static int subject(struct rk_call *call, struct rk_render *request, struct rk_err *err)
{
	const char *what = rk_call_arg(call, "SPEC|CLUSTER");
	struct rk_spec *spec = NULL;

	request->cluster = rk_find_cluster(call->world->site, what);
	if (request->cluster >= 0)
		return 0;
	int rc = rk_spec_load(what, call->arena, &spec, err);
	if (rc == RK_NOT_FOUND && rk_name_valid(what))
		return rk_get_cluster(call, what, &request->cluster, err);
	request->spec = spec;
	return rc;
}

/* A file after a line of its own, so that a script can cut the text apart. */
static void add_file(struct rk_call *call, const struct rk_rendered *r, const char *name, const char *text)
{
	char *line RK_CLEANUP_FREE = rk_xasprintf("<!-- %s %s%s%s -->\n", r->vm, r->tray, name ? " " : "", name ? name : "");

	rk_out_raw(call->out, line, strlen(line));
	rk_out_raw(call->out, text, strlen(text));
}

static void print_text(struct rk_call *call, const struct rk_rendered *all, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		add_file(call, &all[i], NULL, all[i].xml);
		for (size_t f = 0; f < all[i].n_seed; f++)
			add_file(call, &all[i], all[i].seed[f].name, all[i].seed[f].text);
	}
}

static void row(struct rk_call *call, const struct rk_rendered *r)
{
	rk_out_row(call->out);
	rk_cell_text(call->out, "vm", r->vm);
	rk_cell_text(call->out, "tray", r->tray);
	rk_cell_text(call->out, "xml", r->xml);
	rk_cell_list(call->out, "unconfirmed", r->notes, r->n_notes);
	if (!r->n_seed)
		return;
	struct rk_jw *w = rk_cell_json(call->out, "seed");
	rk_jw_object(w);
	for (size_t f = 0; f < r->n_seed; f++) {
		rk_jw_key(w, r->seed[f].name);
		rk_jw_str(w, r->seed[f].text);
	}
	rk_jw_end(w);
}

/* To stderr: stdout is for the domains. */
static void tell_notes(struct rk_call *call, const struct rk_rendered *all, size_t n)
{
	struct rk_world *world = call->world;
	const char **lines;
	size_t n_lines;

	rk_rendered_notes(all, n, call->arena, &lines, &n_lines);
	for (size_t i = 0; i < n_lines && world->progress; i++)
		world->progress(world->progress_ctx, lines[i]);
}

int rk_cmd_cluster_render(struct rk_call *call, struct rk_err *err)
{
	struct rk_render request = { .tray = rk_call_arg(call, "tray"), .seed = rk_call_flag(call, "seed") };
	struct rk_rendered *all;
	size_t n;
	int rc = subject(call, &request, err);

	if (!rc)
		rc = rk_cluster_render(call->world, &request, call->arena, &all, &n, err);
	if (rc)
		return rc;
	if (call->parsed->globals.format == RK_FORMAT_TABLE)
		print_text(call, all, n);
	else
		for (size_t i = 0; i < n; i++)
			row(call, &all[i]);
	tell_notes(call, all, n);
	return 0;
}
