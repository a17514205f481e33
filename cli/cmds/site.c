#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmds/common.h"
#include "inventory/site_check.h"
#include "inventory/site_file.h"
#include "provision/place.h"
#include "provision/sim.h"
#include "provision/simulate.h"

static int put_site(struct rk_call *call, const void *site, struct rk_err *err)
{
	return rk_store_put_site(call->world->store, site, err);
}

static void show_change(struct rk_call *call, const struct rk_site_change *c)
{
	rk_out_row(call->out);
	rk_cell_text(call->out, "object", *c->object ? c->object : "site");
	rk_cell_text(call->out, "field", c->field);
	rk_cell_text(call->out, "from", c->from);
	rk_cell_text(call->out, "to", c->to);
}

/* Does the import take something away or rename it? Then it is dangerous. */
static bool takes_away(const struct rk_site_change *changes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (changes[i].from && !changes[i].to)
			return true;
	return false;
}

/* In the twin what the file leaves out is invented as it was when the twin was made, so that the same file changes nothing. */
static int load(struct rk_call *call, struct rk_site **ret, struct rk_err *err)
{
	int rc = rk_site_load(rk_call_arg(call, "FILE"), ret, err);

	if (!rc && call->world->sim)
		rk_site_invent(*ret);
	return rc;
}

/* The twin's state file is of this site file from now on. */
static int note_source(struct rk_call *call, const struct rk_site *site, struct rk_err *err)
{
	char digest[65];

	if (!call->world->sim || call->dry_run)
		return 0;
	rk_site_digest(site, digest);
	return rk_sim_note_source(call->world->sim, digest, err);
}

static int import(struct rk_call *call, struct rk_err *err)
{
	RK_CLEANUP_SITE struct rk_site *site = NULL;
	struct rk_site_change *changes;
	size_t n;
	int rc = load(call, &site, err);

	if (rc)
		return rc;
	rk_site_diff(call->world->site, site, call->arena, &changes, &n);
	bool first = call->world->site->n_racks == 0;
	if (!first && takes_away(changes, n) && !call->yes && !call->dry_run) {
		rk_err_set(err, RK_INVALID, "this import removes or renames something");
		rk_err_hint(err, "see `racksh site diff %s`; add -y", rk_call_arg(call, "FILE"));
		return RK_INVALID;
	}
	if (n)
		rc = rk_in_transaction(call, put_site, site, err);
	if (!rc)
		rc = note_source(call, site, err);
	if (!rc && (call->dry_run || !n))
		rk_out_note(call->out, "%zu values %s", n, call->dry_run ? "would change" : "changed");
	else if (!rc)
		rk_out_note(call->out, "site %s: %zu rack%s, %zu trays, %zu GPUs, %zu HCA ports", site->name, site->n_racks, site->n_racks == 1 ? "" : "s", site->n_trays, site->n_gpus,
			    site->n_hcas);
	return rc;
}

static int export(struct rk_call *call, struct rk_err *err)
{
	struct rk_str out RK_CLEANUP_STR = RK_STR_INIT;

	(void)err;
	rk_site_export(call->world->site, &out);
	rk_out_raw(call->out, rk_str_text(&out), out.len);
	return 0;
}

static int diff(struct rk_call *call, struct rk_err *err)
{
	RK_CLEANUP_SITE struct rk_site *site = NULL;
	struct rk_site_change *changes;
	size_t n;
	int rc = load(call, &site, err);

	if (rc)
		return rc;
	rk_site_diff(call->world->site, site, call->arena, &changes, &n);
	for (size_t i = 0; i < n; i++)
		show_change(call, &changes[i]);
	return 0;
}

/* Exit code of findings: warnings count with --strict. */
static int verdict(const struct rk_site_findings *found, bool strict, struct rk_err *err)
{
	size_t fails = 0, unknown = 0;

	for (size_t i = 0; i < found->n; i++) {
		bool open = rk_streq(found->items[i].severity, "unknown");
		unknown += open;
		fails += !open && (strict || rk_streq(found->items[i].severity, "fail"));
	}
	if (fails)
		return rk_err_set(err, RK_UNHEALTHY, "%zu finding%s", fails, fails == 1 ? "" : "s");
	return unknown ? rk_err_set(err, RK_UNREACHABLE, "%zu thing%s cannot be judged", unknown, unknown == 1 ? "" : "s") : 0;
}

static int check(struct rk_call *call, struct rk_err *err)
{
	struct rk_site_findings found = { .arena = call->arena };
	int rc = rk_store_judge(call->world->store, call->world->site, &found, err);

	for (size_t i = 0; i < found.n; i++) {
		const struct rk_site_finding *f = &found.items[i];
		rk_out_row(call->out);
		rk_cell_text(call->out, "severity", f->severity);
		rk_cell_text(call->out, "check", f->check);
		rk_cell_text(call->out, "object", f->object);
		rk_cell_text(call->out, "message", f->message);
		rk_cell_text(call->out, "hint", f->hint);
	}
	if (!rc)
		rc = verdict(&found, call->strict, err);
	if (!rc && !call->world->site->n_trays) {
		rc = rk_err_set(err, RK_UNREACHABLE, "the store has no trays: nothing was checked");
		rk_err_hint(err, "racksh site import FILE");
	}
	if (!rc && !found.n)
		rk_out_note(call->out, "site %s: nothing found", call->world->site->name);
	free(found.items);
	return rc;
}

static void segments(struct rk_call *call, const char *key, const int *n)
{
	struct rk_jw *w = rk_cell_json(call->out, key);

	rk_jw_object(w);
	for (int k = 0; k < RK_SEGMENT_KINDS; k++) {
		rk_jw_key(w, rk_arena_printf(call->arena, "%d", rk_segment_sizes[k]));
		rk_jw_i64(w, n[k]);
	}
	rk_jw_end(w);
}

/* What still fits. */
static void show_capacity(struct rk_call *call)
{
	struct rk_capacity c;

	rk_capacity(call->world->site, &c);
	rk_cell_number(call->out, "trays_free", c.free);
	rk_cell_number(call->out, "trays_reserved", c.reserved);
	rk_cell_number(call->out, "racks_whole", c.whole_racks);
	rk_cell_number(call->out, "largest_segment", c.largest);
	segments(call, "segments", c.segments);
	segments(call, "segments_less_one_rack", c.segments_less_one_rack);
	rk_cell_real(call->out, "fragmentation", c.fragmentation);
}

static int show(struct rk_call *call, struct rk_err *err)
{
	const struct rk_site *s = call->world->site;

	(void)err;
	rk_out_row(call->out);
	rk_cell_text(call->out, "name", s->name);
	rk_cell_text(call->out, "region", s->region);
	rk_cell_number(call->out, "revision", s->revision);
	rk_cell_number(call->out, "racks", (long long)s->n_racks);
	rk_cell_number(call->out, "trays", (long long)s->n_trays);
	rk_cell_number(call->out, "gpus", (long long)s->n_gpus);
	rk_cell_number(call->out, "hcas", (long long)s->n_hcas);
	rk_cell_number(call->out, "tenants", (long long)s->n_tenants);
	rk_cell_number(call->out, "clusters", (long long)s->n_clusters);
	rk_cell_number(call->out, "vms", (long long)s->n_vms);
	show_capacity(call);
	return 0;
}

static void simulated_row(struct rk_call *call, const char *policy, const struct rk_simulated *s)
{
	rk_out_row(call->out);
	rk_cell_text(call->out, "policy", policy);
	rk_cell_number(call->out, "requests", s->requests);
	rk_cell_number(call->out, "refused", s->refused);
	rk_cell_number(call->out, "large", s->large);
	rk_cell_number(call->out, "refused_large", s->refused_large);
	if (s->large)
		rk_cell_real(call->out, "refused_large_percent", round(1000.0 * (double)s->refused_large / (double)s->large) / 10);
	rk_cell_real(call->out, "utilisation", round(1000 * s->utilisation) / 1000);
	rk_cell_real(call->out, "fragmentation", round(1000 * s->fragmentation) / 1000);
	rk_cell_real(call->out, "idle_segments_16", round(10 * s->idle_segments) / 10);
}

static int simulate(struct rk_call *call, struct rk_err *err)
{
	const char *file = rk_call_arg(call, "requests"), *policy = rk_call_arg(call, "policy");
	struct rk_requests requests;
	int rc = file ? rk_requests_load(file, call->arena, &requests, err) : rk_err_set(err, RK_INVALID, "--requests FILE is missing");

	for (int p = 0; !rc && p < RK_SIM_POLICIES; p++) {
		struct rk_simulated result;
		if (policy && strcmp(policy, "all") != 0 && strcmp(policy, rk_sim_policy_names[p]) != 0)
			continue;
		rk_simulate(call->world->site, &requests, (enum rk_sim_policy)p, &result);
		simulated_row(call, rk_sim_policy_names[p], &result);
	}
	return rc;
}

#define FILE_ARG RK_ARGS({ .name = "FILE", .type = RK_ARG_FILE, .required = true, .help = "site file (racksh-site(5)); - is standard input" })

static const struct rk_command rows[] = {
	{ .noun = "site", .verb = "import", .summary = "replace the stored inventory by that of a site file", .args = FILE_ARG, .flags = RK_CMD_CHANGES,
	  .description = "Clusters, cordons and reservations stay. What is not in the file is removed; that is refused while it is allocated, and asks first.",
	  .examples = RK_EXAMPLES("site import tests/examples/site-1.json"), .run = import },
	{ .noun = "site", .verb = "export", .summary = "print the inventory as a site file", .flags = RK_CMD_RAW,
	  .description = "Stable and diff-able; importing it again changes nothing.", .examples = RK_EXAMPLES("site export"), .run = export },
	{ .noun = "site", .verb = "show", .summary = "show what the store describes and what still fits",
	  .description = "\"segments\" says how many clusters of 18, 16, 8 and 4 VMs in one NVLink domain can still be placed, \"segments_less_one_rack\" how many "
			 "after losing whichever rack costs most. \"trays_free\" is the sum of what rack list says: only what placement may give away now. \"trays_reserved\" of them "
			 "are kept for somebody.",
	  .examples = RK_EXAMPLES("site show"), .run = show,
	  .columns = RK_COLUMNS({ "name", RK_COL_TEXT }, { "region", RK_COL_TEXT }, { "revision", RK_COL_NUMBER }, { "racks", RK_COL_NUMBER },
				{ "trays", RK_COL_NUMBER }, { "gpus", RK_COL_NUMBER }, { "hcas", RK_COL_NUMBER }, { "tenants", RK_COL_NUMBER },
				{ "clusters", RK_COL_NUMBER }, { "vms", RK_COL_NUMBER }, { "trays_free", RK_COL_NUMBER }, { "trays_reserved", RK_COL_NUMBER },
				{ "racks_whole", RK_COL_NUMBER }, { "largest_segment", RK_COL_NUMBER }, { "segments", RK_COL_JSON },
				{ "segments_less_one_rack", RK_COL_JSON }, { "fragmentation", RK_COL_REAL }) },
	{ .noun = "site", .verb = "check", .summary = "check the stored site as a whole", .list = true,
	  .description = "Integrity of the store, identities that are unknown or used twice, slots, spares, power, quotas, leaks, clusters without a partition of their own, "
			 "and the wiring of every imported fabric. Findings of severity fail are code 7, with --strict warnings too; without any, unknown ones are code 6.",
	  .examples = RK_EXAMPLES("site check", "site check -o json"), .run = check,
	  .columns = RK_COLUMNS({ "severity", RK_COL_TEXT }, { "check", RK_COL_TEXT }, { "object", RK_COL_TEXT }, { "message", RK_COL_TEXT }, { "hint", RK_COL_TEXT, .wide = true }) },
	{ .noun = "site", .verb = "simulate", .summary = "replay requests on the free racks and compare placement policies", .list = true,
	  .options = RK_ARGS({ .name = "requests", .type = RK_ARG_FILE, .help = "requests file: a mix or a trace (see below)" },
			     { .name = "policy", .type = RK_ARG_ENUM, .values = "best-fit|spread|first-fit|worst-fit|random|all", .help = "one policy; default all" }),
	  .description = "Nothing is placed. Segments sit in one rack each, a refused request is lost, what is placed today stays; \"large\" are requests of 16 VMs or more. "
			 "worst-fit and random exist for comparison only.\n\n"
			 "The file is {\"apiVersion\":\"racksh/v1\",\"kind\":\"Requests\",\"requests\":[...]}. Entries of a mix have \"segment\", \"segments\" (default 1), "
			 "\"share\" and \"hours\" (mean life time, default 24); the mix has \"load\" (0.85 of the free trays), \"count\" (2000), \"seeds\" (4) and "
			 "\"unavailable\" (share of trays taken out at random). Entries of a trace have \"at\" and \"hours\" instead of a share.",
	  .examples = RK_EXAMPLES("site simulate --requests tests/examples/requests.json --policy best-fit"), .run = simulate,
	  .columns = RK_COLUMNS({ "policy", RK_COL_TEXT }, { "requests", RK_COL_NUMBER }, { "refused", RK_COL_NUMBER }, { "large", RK_COL_NUMBER },
				{ "refused_large", RK_COL_NUMBER }, { "refused_large_percent", RK_COL_REAL }, { "utilisation", RK_COL_REAL },
				{ "fragmentation", RK_COL_REAL }, { "idle_segments_16", RK_COL_REAL }) },
	{ .noun = "site", .verb = "discover", .summary = "read the living racks and propose what to change in the store", .list = true,
	  .flags = RK_CMD_SELECTS | RK_CMD_REMOTE, .changes_with = "apply",
	  .description = "Asks in parallel every tray (nvidia-smi, its InfiniBand ports and drives, over SSH; PCI functions and domains, of libvirt), the NVLink switches of "
			 "their racks, and the fabrics. What answers is matched by identity. Nothing is changed without --apply, which writes the rows of action set and change; "
			 "the others are for people: replace a tray that was swapped, exchange two, recable, repair, look. The table folds what is said of several trays; -v and "
			 "the other formats have a row per value.\n\nA contradiction is code 7. Without one, code 3 says that something did not answer, or not in full, and code 6 "
			 "that nothing did.",
	  .args = RK_ARGS({ .name = "SEL", .type = RK_ARG_SEL_TRAYS, .help = "trays: r01-t[01-18], @rack:r01; default all" }),
	  .options = RK_ARGS({ .name = "apply", .type = RK_ARG_NONE, .help = "write the values of action set and change into the store" }),
	  .examples = RK_EXAMPLES("site discover", "site discover @rack:r01 --apply"), .run = rk_cmd_discover,
	  .columns = RK_COLUMNS({ "object", RK_COL_TEXT }, { "field", RK_COL_TEXT }, { "recorded", RK_COL_TEXT }, { "seen", RK_COL_TEXT }, { "action", RK_COL_TEXT },
				{ "message", RK_COL_TEXT }) },
	{ .noun = "site", .verb = "diff", .summary = "show value by value what an import would change", .args = FILE_ARG, .list = true,
	  .examples = RK_EXAMPLES("site diff tests/examples/site-1.json"), .run = diff,
	  .columns = RK_COLUMNS({ "object", RK_COL_TEXT }, { "field", RK_COL_TEXT }, { "from", RK_COL_TEXT }, { "to", RK_COL_TEXT }) },
};
RK_NOUN(site, "the site: import, export and compare its inventory", NULL, rows);
